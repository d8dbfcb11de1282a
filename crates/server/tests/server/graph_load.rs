//! Tests of `G.LOAD`: its replies, refused lines, bad input, loads of several clients, clients that leave, and full
//! memory.

use crate::common::redis::{Replies, both, resp};
use crate::common::{request::request, start, wait_until};
use base::prng::Prng;
use gannet_server::start::ServerConfig;
use std::collections::BTreeSet;
use std::fmt::Write;

fn config() -> ServerConfig {
    ServerConfig { graph_memory_bytes: 90 << 20, ..both() }
}

/// Loads a text with these words before it. Returns the reply, in which spaces stand for line ends.
fn load(redis: &mut Replies, words: &str, text: &str) -> String {
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).chain([text.as_bytes()]).collect();
    let words: Vec<&[u8]> = [&b"G.LOAD"[..]].into_iter().chain(words).collect();
    String::from_utf8(redis.ask(&words)).expect("text").replace("\r\n", " ").trim_end().to_owned()
}

/// Draws different edges between `nodes` nodes, and returns them with the text that has them.
fn random_edges(seed: u64, nodes: u64, count: usize) -> (BTreeSet<(u64, u64)>, String) {
    let (mut prng, mut edges, mut text) = (Prng::new(seed), BTreeSet::new(), String::new());
    while edges.len() < count {
        let (a, b) = (prng.below(nodes) + 1, prng.below(nodes) + 1);
        if a != b && edges.insert((a.min(b), a.max(b))) {
            writeln!(text, "{a} {b}").expect("text");
        }
    }
    (edges, text)
}

/// Compares the degree of each node with the edges.
fn check_degrees(redis: &mut Replies, edges: &BTreeSet<(u64, u64)>, nodes: u64) {
    let mut degrees = vec![0; nodes as usize + 1];
    edges.iter().for_each(|(a, b)| [a, b].into_iter().for_each(|node| degrees[*node as usize] += 1));
    for node in 1..=nodes {
        assert_eq!(redis.text(&format!("G.COUNT g {node} knows")), format!(":{}", degrees[node as usize]), "{node}");
    }
}

#[test]
fn load_replies_with_its_counts_and_names_refused_lines() {
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows UNDIRECTED");
    redis.text("G.TYPE g rated SCHEMA stars text");
    redis.text("G.TYPE g capped CAP 1");
    assert_eq!(load(redis, "g knows CSV", "source,destination\n1,2\n2,3\r\n\n3,4"), "*4 :3 :3 :0 *0");
    assert_eq!(load(redis, "g knows csv TS 5", "1,2\n4,5,9\n"), "*4 :2 :1 :0 *0", "an edge that is present");
    assert_eq!(redis.text("G.RANGE g 4 knows"), "*2 $1 0 *2 :3 :5");
    assert_eq!(redis.text("G.GET g 5 knows 4"), "*1 *3 $4 live :9 *0");
    assert_eq!(load(redis, "g knows EDGES", ""), "*4 :0 :0 :0 *0");
    assert_eq!(load(redis, "g knows EDGES TS 7", "# comment\n6 7\n6\t8 3\n"), "*4 :2 :2 :0 *0");
    assert_eq!(redis.text("G.GET g 6 knows 7 8"), "*2 *3 $4 live :7 *0 *3 $4 live :3 *0");
    let reply = load(redis, "g knows EDGES LINE 1000", "1 x\n10 11\n3 3\n0 1\n1 2 3 4");
    assert!(reply.starts_with("*4 :1 :1 :4 *4 $"), "{reply}");
    for text in
        ["line 1000: the destination 'x' is not", "line 1002: it leads", "line 1003: node", "line 1004: an edge"]
    {
        assert!(reply.contains(text), "{text}: {reply}");
    }
    let reply = load(redis, "g knows CSV LINE 2", "source,destination\n12,13\n");
    assert!(reply.starts_with("*4 :1 :1 :1 *1 $") && reply.contains("line 2: the source 'source'"), "{reply}");
    let many = load(redis, "g knows EDGES", &"x y\n".repeat(3000));
    assert!(many.starts_with("*4 :0 :0 :3000 *16 $") && many.contains("line 16:"), "{many}");
    let reply = load(redis, "g rated CSV TS 9", "1,2,,5,\"so, so\"\n1,3,4,,x\n1,4,,1,2,3\n1,5\n");
    assert!(reply.starts_with("*4 :3 :3 :1 *1 $") && reply.contains("line 3: it has more attributes than"), "{reply}");
    let edges = "*3 *3 $4 live :9 *4 $5 stars $1 5 $4 text $6 so, so *3 $4 live :4 *2 $4 text $1 x *3 $4 live :9 *0";
    assert_eq!(redis.text("G.GET g 1 rated 2 3 5"), edges);
    let reply = load(redis, "g knows CSV", "1,2,,5\n");
    assert!(reply.starts_with("*4 :0 :0 :1 *1 $") && reply.contains("line 1: it has attributes, but"), "{reply}");
    let reply = load(redis, "g capped EDGES", "1 2\n1 3\n1 4\n2 1\n");
    assert!(reply.starts_with("*4 :4 :2 :2 *2 $") && reply.contains("edge 1 to 3: cannot add the edge"), "{reply}");
    assert_eq!(redis.text("G.COUNT g 1 capped"), ":1");
    // A transaction loads too.
    redis.text("MULTI");
    assert_eq!(load(redis, "g knows EDGES", "20 21\n"), "+QUEUED");
    redis.text("G.COUNT g 21 knows");
    assert_eq!(redis.text("EXEC"), "*2 *4 :1 :1 :0 *0 :1");
}

#[test]
fn bad_input_to_a_load_is_named_and_changes_nothing() {
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows UNDIRECTED");
    for (words, text) in [
        ("h knows CSV", "cannot find the graph"),
        ("g likes CSV", "cannot find the edge type: it is not declared; use G.TYPE"),
        ("g knows JSON", "'JSON' is no form of text: use CSV or EDGES"),
        ("g knows", "wrong number of arguments"),
        ("g knows CSV TS", "' is no time: use milliseconds"),
        ("g knows CSV TS x", "'x' is no time"),
        ("g knows CSV TS 281474976710656", "cannot use time 281474976710656"),
        ("g knows CSV LINE 0", "LINE '0' is no number from 1"),
        ("g knows CSV FAST", "syntax error at 'FAST'"),
    ] {
        let reply = load(redis, words, "1,2\n");
        assert!(reply.starts_with('-') && reply.contains(text), "{words}: {reply}");
    }
    let item_max = 1 << 20;
    let reply = load(redis, "g knows CSV", &"1,2\n".repeat(item_max / 4 + 1));
    assert!(reply.starts_with("-ERR cannot load 1048580 bytes at once: at most 1048576"), "{reply}");
    assert!(reply.ends_with("send smaller parts, or raise `store.item_max`"), "{reply}");
    assert_eq!(redis.text("G.COUNT g 1 knows"), ":0");
    redis.text("ACL SETUSER reader on >secret allkeys +@read");
    redis.text("ACL SETUSER other on >secret ~other:* +@graph");
    for user in ["reader", "other"] {
        let client = &mut resp(&running);
        client.text(&format!("AUTH {user} secret"));
        assert!(load(client, "g knows CSV", "1,2\n").starts_with("-NOPERM"), "{user}");
    }
}

#[test]
fn loads_of_several_clients_at_once_add_every_edge_in_both_directions() {
    const NODES: u64 = 3000;
    let running = start(ServerConfig { workers: 2, ..config() });
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows UNDIRECTED");
    let (edges, text) = random_edges(5, NODES, 40_000);
    let lines: Vec<&str> = text.lines().collect();
    let mut clients: Vec<Replies> = (0..4).map(|_| resp(&running)).collect();
    for (client, part) in clients.iter_mut().zip(lines.chunks(10_000)) {
        let part = part.join("\n");
        client.client.send(&request(&[b"G.LOAD", b"g", b"knows", b"EDGES", b"TS", b"9", part.as_bytes()]));
    }
    for client in &mut clients {
        assert_eq!(client.next(), b"*4\r\n:10000\r\n:10000\r\n:0\r\n*0\r\n");
    }
    check_degrees(redis, &edges, NODES);
    // A text that does not fit into a receive buffer is loaded again, without effect.
    assert!(text.len() > 256 << 10, "{}", text.len());
    assert_eq!(load(redis, "g knows EDGES TS 9", &text), "*4 :40000 :0 :0 *0");
}

#[test]
fn batch_of_a_client_that_left_is_completed_in_both_directions() {
    const NODES: u64 = 2000;
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows UNDIRECTED");
    let mut loaded = 0;
    for round in 0..12 {
        let (edges, text) = random_edges(100 + round, NODES, 8000);
        let mut leaver = resp(&running);
        leaver.client.send(&request(&[b"G.LOAD", b"g", b"knows", b"EDGES", b"TS", b"9", text.as_bytes()]));
        std::thread::sleep(std::time::Duration::from_micros(400 * round));
        drop(leaver);
        // The next load waits for the one that was left, and completes its batch.
        let reply = load(redis, "g knows EDGES TS 9", "1 2\n");
        assert!(reply.starts_with("*4 :1 :"), "{reply}");
        // The load may begin after the client has left, so the two directions agree a little later.
        for (a, b) in edges.iter().step_by(40) {
            wait_until("both directions agree", || {
                let there = redis.text(&format!("G.GET g {a} knows {b}"));
                let agree = there == redis.text(&format!("G.GET g {b} knows {a}"));
                loaded += usize::from(agree && there != "*1 $-1");
                agree
            });
        }
    }
    assert!(loaded > 0, "no load has begun");
}

#[test]
fn load_into_full_graph_memory_is_refused_and_both_directions_agree() {
    const NODES: u64 = 200_000;
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows UNDIRECTED");
    let mut refused = String::new();
    let mut texts = Vec::new();
    for round in 0..400 {
        let (edges, text) = random_edges(1000 + round, NODES, 40_000);
        let reply = load(redis, "g knows EDGES TS 9", &text);
        texts.push(edges);
        if reply.starts_with('-') {
            refused = reply;
            break;
        }
    }
    assert!(refused.starts_with("-OOM graph memory is full"), "{refused}");
    assert!(texts.len() > 5, "{} parts fit", texts.len());
    // The rest of a batch that has begun is loaded as compaction makes room.
    for (a, b) in texts.iter().rev().take(2).flatten().step_by(97) {
        wait_until("both directions agree", || {
            let there = redis.text(&format!("G.GET g {a} knows {b}"));
            there == redis.text(&format!("G.GET g {b} knows {a}"))
        });
    }
}
