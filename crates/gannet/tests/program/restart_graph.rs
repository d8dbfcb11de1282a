//! Tests restarts of the program with graphs in a file: the server is killed amid changes of edges and compaction, and
//! every acknowledged change must be there in both directions.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base::prng::Prng;

use crate::common::Serving;
use crate::peers::Folder;
use crate::restart::{before_a_kill, kills, seed_told};
use crate::restart_together::{Redis, killed};

const NODES: u64 = 400;

fn serve(folder: &Folder) -> (Serving, std::net::SocketAddr) {
    let file = folder.file("graphs");
    let words = ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "none", "--memory", "16MiB"];
    let place = ["--graph-memory", "90MiB", "--graph-file", &file, "--workers", "2"];
    let mut serving = Serving::start(&[&words[..], &place].concat());
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
