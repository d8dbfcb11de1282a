//! Tests restarts of the program with graphs in a file: the server is killed amid changes of edges and compaction, and
//! every acknowledged change must be there in both directions.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base::prng::Prng;

use crate::common::Serving;
use crate::peers::Folder;
use crate::restart::{before_a_kill, kills, seed_told};
use crate::restart_power::{BOOT, boot};
use crate::restart_together::{Redis, killed};

const NODES: u64 = 400;

fn serve(folder: &Folder) -> (Serving, std::net::SocketAddr) {
    serve_with(folder, &[], 1)
}

/// Starts a server with graphs in a file, in the boot with this number.
fn serve_with(folder: &Folder, more: &[&str], run: u64) -> (Serving, std::net::SocketAddr) {
    let file = folder.file("graphs");
    let words = ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "none", "--memory", "16MiB"];
    let place = ["--graph-memory", "90MiB", "--graph-file", &file, "--workers", "2"];
    let mut serving = Serving::start_in(&[&words[..], &place, more].concat(), &[(BOOT, &boot(run))]);
    let addr = serving.addr_behind("Redis clients connect to ");
    (serving, addr)
}

/// Returns two different nodes.
fn pair(prng: &mut Prng) -> (u64, u64) {
    let (a, b) = (prng.below(NODES) + 1, prng.below(NODES - 1) + 1);
    (a, if b >= a { b + 1 } else { b })
}

/// Compares each edge with the last acknowledged change of it. `doubtful` is the edge whose change was in flight.
fn check(redis: &mut Redis, known: &mut BTreeMap<(u64, u64), bool>, doubtful: Option<(u64, u64)>, context: &str) {
    let mut degrees = vec![0u64; NODES as usize + 1];
    for ((a, b), is_live) in known.iter_mut() {
        let found = redis.ask(&format!("G.GET g {a} knows {b}")).starts_with("live");
        let back = redis.ask(&format!("G.GET g {b} knows {a}")).starts_with("live");
        assert_eq!(found, back, "{context}: {a} - {b} in both directions");
        if doubtful == Some((*a, *b)) {
            *is_live = found;
        }
        assert_eq!(found, *is_live, "{context}: {a} - {b}");
        if found {
            degrees[*a as usize] += 1;
            degrees[*b as usize] += 1;
        }
    }
    for (node, degree) in degrees.iter().enumerate().skip(1) {
        assert_eq!(redis.ask(&format!("G.COUNT g {node} knows")), format!(":{degree}"), "{context}: node {node}");
    }
}

#[test]
fn acknowledged_edges_survive_a_kill_in_both_directions() {
    let seed = 24;
    let (mut prng, folder) = (Prng::new(seed), Folder::new("restart-graph"));
    let mut known = BTreeMap::new();
    let mut doubtful = None;
    for kill in 0..=kills(25) {
        let context = seed_told(&format!("after {kill} kills"), seed);
        let (serving, addr) = serve(&folder);
        let redis = &mut Redis::connect(addr);
        assert_eq!(redis.ask("G.TYPE g knows UNDIRECTED SCHEMA note"), "+OK", "{context}");
        check(redis, &mut known, doubtful, &context);
        let end = Instant::now() + before_a_kill(Duration::from_millis(20 + prng.below(60)));
        let mut round = 0;
        while Instant::now() < end {
            let (a, b) = pair(&mut prng);
            let edge = (a.min(b), a.max(b));
            let is_live = prng.below(3) > 0;
            let note = "n".repeat(prng.below(200) as usize + 1);
            let reply = if is_live {
                redis.ask(&format!("G.ADD g {a} knows {b} ATTR note {note}"))
            } else {
                redis.ask(&format!("G.DEL g {a} knows {b}"))
            };
            assert!(reply.starts_with(':'), "{context}: {reply}");
            known.insert(edge, is_live);
            round += 1;
            if round % 500 == 0 {
                assert_eq!(redis.ask("G.COMPACT"), "+OK");
            }
        }
        // One more change is in flight when the server is killed.
        let (a, b) = pair(&mut prng);
        let edge = (a.min(b), a.max(b));
        known.entry(edge).or_insert(false);
        doubtful = Some(edge);
        let text = format!("G.ADD g {a} knows {b}");
        let _ = redis.send(&text.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        killed(serving);
    }
}

/// Changes random edges. Every reply is awaited.
fn change(redis: &mut Redis, prng: &mut Prng, known: &mut BTreeMap<(u64, u64), bool>, changes: usize) {
    for _ in 0..changes {
        let ((a, b), is_live) = (pair(prng), prng.below(3) > 0);
        let name = if is_live { "ADD" } else { "DEL" };
        assert!(redis.ask(&format!("G.{name} g {a} knows {b}")).starts_with(':'));
        known.insert((a.min(b), a.max(b)), is_live);
    }
}

#[test]
fn acknowledged_edges_survive_a_reboot_if_each_change_is_flushed_and_none_without_flushes() {
    let (mut prng, folder) = (Prng::new(5), Folder::new("reboot-graph"));
    let mut known = BTreeMap::new();
    for run in 1..4 {
        let (serving, addr) = serve_with(&folder, &["--graph-sync", "always"], run);
        let redis = &mut Redis::connect(addr);
        assert_eq!(redis.ask("G.TYPE g knows UNDIRECTED"), "+OK");
        check(redis, &mut known, None, &format!("boot {run}"));
        change(redis, &mut prng, &mut known, 200);
        assert_eq!(redis.ask("G.NODE SET g 7 person name x"), ":1");
        assert_eq!(redis.ask("G.NODE ARCHIVE g 9"), ":1");
        assert_eq!(redis.ask("G.NODE RESTORE g 9"), ":1");
        killed(serving);
    }
    // Without flushes the file is good for this boot, and discarded in the next.
    for (run, has_graph) in [(4, true), (4, true), (5, false)] {
        let (serving, addr) = serve_with(&folder, &[], run);
        let redis = &mut Redis::connect(addr);
        let reply = redis.ask("G.COUNT g 1 knows");
        assert_eq!(reply.starts_with(':'), has_graph, "boot {run}: {reply}");
        let refused = redis.ask("G.SNAPSHOT");
        assert!(refused.contains("--graph-sync"), "{refused}");
        killed(serving);
    }
}

#[test]
fn mixed_pages_of_a_power_loss_open_as_the_last_snapshot() {
    let (mut prng, folder) = (Prng::new(6), Folder::new("power-graph"));
    let (mut known, file) = (BTreeMap::new(), folder.file("graphs"));
    for run in 1..8 {
        let (serving, addr) = serve_with(&folder, &["--graph-sync", "1h"], run);
        let redis = &mut Redis::connect(addr);
        assert_eq!(redis.ask("G.TYPE g knows UNDIRECTED"), "+OK");
        check(redis, &mut known, None, &format!("boot {run}"));
        change(redis, &mut prng, &mut known, 1000);
        assert!(redis.ask("G.SNAPSHOT").starts_with(':'));
        let early = std::fs::read(&file).expect("a copy");
        change(redis, &mut prng, &mut known.clone(), 1500);
        killed(serving);
        let mut mixed = std::fs::read(&file).expect("a copy");
        for (to, from) in mixed.chunks_mut(4096).zip(early.chunks(4096)).filter(|_| prng.chance(1, 2)) {
            to.copy_from_slice(from);
        }
        std::fs::write(&file, mixed).expect("the disk");
    }
}

/// The part of a G.DROP that was over when the server was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dropping {
    NotSent,
    Sent,
    Acknowledged,
}

#[test]
fn graph_that_is_dropped_amid_a_kill_is_whole_or_gone_and_others_stay() {
    let (mut prng, folder) = (Prng::new(9), Folder::new("drop-graph"));
    let mut before = None;
    for kill in 0..=kills(16) {
        let (serving, addr) = serve(&folder);
        let redis = &mut Redis::connect(addr);
        if let Some(dropping) = before {
            assert_eq!(redis.ask("G.COUNT other 1 knows"), ":2000", "kill {kill}");
            let reply = redis.ask("G.COUNT g 1 knows");
            if reply == ":2000" {
                assert_ne!(dropping, Dropping::Acknowledged, "kill {kill}");
                assert_eq!(redis.ask("G.COUNT g 2001 knows"), ":1", "kill {kill}");
                assert_eq!(redis.ask("G.DROP g"), ":1");
            } else {
                assert_ne!(dropping, Dropping::NotSent, "kill {kill}");
                assert!(reply.starts_with("-ERR cannot find the graph"), "kill {kill}: {reply}");
            }
        }
        let graphs = if kill == 0 { &["other", "g"][..] } else { &["g"] };
        for graph in graphs {
            assert_eq!(redis.ask(&format!("G.TYPE {graph} knows UNDIRECTED")), "+OK");
            for part in 0..4 {
                let edges: String = (0..500).map(|at| format!(" 1 knows {}", part * 500 + at + 2)).collect();
                assert_eq!(redis.ask(&format!("G.ADD {graph}{edges}")), ":500", "kill {kill}");
            }
        }
        let dropping = match kill {
            1 => Dropping::NotSent,
            2 => Dropping::Acknowledged,
            _ => Dropping::Sent,
        };
        match dropping {
            Dropping::NotSent => {}
            Dropping::Acknowledged => assert_eq!(redis.ask("G.DROP g"), ":1"),
            Dropping::Sent => {
                redis.send(&[b"G.DROP", b"g"]).expect("a request");
                std::thread::sleep(Duration::from_micros(prng.below(400)));
            }
        }
        before = Some(dropping);
        killed(serving);
    }
}
