//! Tests of `G.DROP`: requests that are in progress when their graph is dropped, the space that it frees, and rights.
//! Commands that delete keys leave graphs alone.

use crate::common::redis::{Replies, both, request, resp, words};
use crate::common::{start, wait_until};
use gannet_server::start::{Running, ServerConfig};
use std::fmt::Write;

/// The minimum memory of a graph store.
const MEMORY: u64 = 90 << 20;
/// The number of neighbours of node 1, and of each of these.
const WIDTH: u64 = 60;
/// A query that touches all edges of [`load`], in several slices.
const LONG: &str = "G.DEG2 g 1 knows COUNT BUDGET 1048576";

fn config() -> ServerConfig {
    ServerConfig { graph_memory_bytes: MEMORY, workers: 1, ..both() }
}

/// Returns a figure of the graph store.
fn figure(redis: &mut Replies, name: &str) -> u64 {
    let stats = redis.text("G.STATS");
    let value = stats.split(&format!(" {name} :")).nth(1).expect("a figure").split(' ').next().expect("a number");
    value.parse().expect("a number")
}

/// Returns the lines of a tree: node 1 knows some nodes, each of which knows 1,000 nodes of its own.
fn tree() -> String {
    let mut text = String::new();
    for child in 2..2 + WIDTH {
        let _ = writeln!(text, "1 {child}");
        (0..1000).for_each(|leaf| writeln!(text, "{child} {}", child * 10_000 + leaf).expect("text"));
    }
    text
}

/// Loads the tree into the graph `g`.
fn load(redis: &mut Replies) {
    assert_eq!(redis.text("G.TYPE g knows UNDIRECTED"), "+OK");
    let text = tree();
    let reply = redis.ask(&[b"G.LOAD", b"g", b"knows", b"EDGES", text.as_bytes()]);
    let edges = WIDTH * 1001;
    assert_eq!(reply, format!("*4\r\n:{edges}\r\n:{edges}\r\n:0\r\n*0\r\n").as_bytes());
}

/// Starts a request on one connection and drops its graph on another one until the drop meets it in progress. Returns
/// the error of the request.
fn drop_amid(running: &Running, begin: &[&[u8]]) -> String {
    let (redis, other) = (&mut resp(running), &mut resp(running));
    for _ in 0..40 {
        load(redis);
        other.client.send(&request(begin));
        assert_eq!(redis.text("G.DROP g"), ":1");
        let reply = String::from_utf8(other.next()).expect("text");
        if reply.contains("dropped during the request") {
            return reply;
        }
        // The request ended before the drop, or began after it.
        assert!(!reply.starts_with('-') || reply.starts_with("-ERR cannot find the graph"), "{reply}");
    }
    panic!("no drop met the request in progress");
}

#[test]
fn queries_and_loads_in_progress_end_with_an_error_when_their_graph_is_dropped() {
    let running = start(config());
    let error = "-ERR cannot find the graph: it was dropped during the request; declare its types with G.TYPE";
    let mut batch = "G.QUERY g".split(' ').map(str::as_bytes).collect::<Vec<_>>();
    batch.extend([&b"COUNT 1 knows"[..], b"DEG2 1 knows COUNT BUDGET 1048576", b"SUGGEST 1 knows BUDGET 1048576"]);
    for begin in [words(LONG), words("G.SUGGEST g 1 knows BUDGET 1048576"), batch] {
        let reply = drop_amid(&running, &begin);
        assert!(reply.contains(error), "{reply}");
    }
    let text = tree();
    let reply = drop_amid(&running, &[b"G.LOAD", b"g", b"knows", b"EDGES", text.as_bytes()]);
    assert!(reply.starts_with(error), "{reply}");
    let redis = &mut resp(&running);
    let dropped = figure(redis, "graphs_dropped");
    assert!(dropped >= 4, "{dropped}");
    wait_until("the memory of dropped graphs is free", || figure(redis, "graphs_dropping") == 0);
    assert_eq!(figure(redis, "live_bytes") + figure(redis, "index_bytes"), 0);
    assert_eq!(figure(redis, "segments_free"), figure(redis, "segments"));
    // The client memory of the load is returned, and the next load of the name is a new one.
    load(redis);
    assert_eq!(redis.text("G.COUNT g 1 knows"), format!(":{WIDTH}"));
}

#[test]
fn changes_in_progress_do_not_continue_in_another_graph_of_the_same_name() {
    let running = start(config());
    let (redis, other) = (&mut resp(&running), &mut resp(&running));
    let nodes: Vec<Vec<u8>> = (1..=40_001u64).map(|node| node.to_string().into_bytes()).collect();
    let edges = nodes.windows(2).flat_map(|pair| [&pair[0][..], b"knows", &pair[1]]);
    let change: Vec<&[u8]> = [&b"G.ADD"[..], b"g"].into_iter().chain(edges).collect();
    let mut refused = 0;
    for _ in 0..40 {
        assert_eq!(redis.text("G.TYPE g knows UNDIRECTED"), "+OK");
        other.client.send(&request(&change));
        let mut begun = redis.text("G.COUNT g 1 knows");
        while begun == ":0" {
            begun = redis.text("G.COUNT g 1 knows");
        }
        redis.client.send(&[request(&[b"G.DROP", b"g"]), request(&words("G.TYPE g knows UNDIRECTED"))].concat());
        assert_eq!((redis.next(), redis.next()), (b":1\r\n".to_vec(), b"+OK\r\n".to_vec()));
        let reply = String::from_utf8(other.next()).expect("text");
        assert!(redis.text("G.STATS g").contains(" nodes :0 "), "the later graph has edges of the request: {reply}");
        if reply.starts_with('-') {
            refused += 1;
            assert!(reply.contains("dropped during the request") && reply.contains("edges were changed"), "{reply}");
        }
        assert_eq!(redis.text("G.DROP g"), ":1");
    }
    assert!(refused > 0, "no drop met the request in progress");
}

#[test]
fn load_whose_client_left_does_not_outlive_its_graph() {
    let running = start(config());
    let redis = &mut resp(&running);
    let text = tree();
    for _ in 0..5 {
        assert_eq!(redis.text("G.TYPE g knows UNDIRECTED"), "+OK");
        let mut leaving = resp(&running);
        leaving.client.send(&request(&[b"G.LOAD", b"g", b"knows", b"EDGES", text.as_bytes()]));
        drop(leaving);
        assert_eq!(redis.text("G.DROP g"), ":1");
        assert_eq!(redis.text("G.TYPE g knows UNDIRECTED"), "+OK");
        // The request of the client that left may arrive after the drop, so the edges may be there already.
        let reply = redis.ask(&[b"G.LOAD", b"g", b"knows", b"EDGES", text.as_bytes()]);
        assert!(reply.starts_with(format!("*4\r\n:{}\r\n", WIDTH * 1001).as_bytes()));
        assert_eq!(redis.text(LONG), format!("*2 :0 :{}", WIDTH * 1000));
        assert_eq!(redis.text("G.DROP g"), ":1");
    }
}

#[test]
fn dropped_graph_is_gone_with_its_types_objects_and_cursors() {
    let running = start(config());
    let redis = &mut resp(&running);
    assert_eq!(redis.text("G.DROP g"), ":0");
    load(redis);
    assert_eq!(redis.text("G.NODE SET g 1 person"), ":1");
    let page = redis.text("G.RANGE g 1 knows LIMIT 2");
    let cursor = page.split(' ').nth(2).expect("a cursor").to_owned();
    assert_eq!(redis.text("G.DROP g"), ":1");
    for gone in ["G.COUNT g 1 knows", "G.ADD g 1 knows 2", "G.NODE GET g 1", "G.STATS g", "G.RANGE g 1 knows"] {
        let reply = redis.text(gone);
        assert!(reply.starts_with("-ERR cannot find the graph: no edge type"), "{gone}: {reply}");
    }
    assert_eq!(redis.text("G.DROP g"), ":0");
    load(redis);
    assert_eq!(redis.text("G.NODE GET g 1"), "$-1");
    let refused = redis.text(&format!("G.RANGE g 1 knows LIMIT 2 CURSOR {cursor}"));
    assert!(refused.starts_with("-ERR cannot use the cursor"), "{refused}");
    for (bad, reply) in [("G.DROP", "-ERR wrong number"), ("G.DROP g g", "-ERR wrong number")] {
        assert!(redis.text(bad).starts_with(reply), "{bad}");
    }
}

#[test]
fn drop_needs_the_right_to_write_the_graph_and_is_documented() {
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE a knows");
    redis.text("G.TYPE b knows");
    redis.text("ACL SETUSER ann on >secret ~a +@graph");
    redis.text("ACL SETUSER eve on >secret %R~* +@graph");
    redis.text("ACL SETUSER bob on >secret ~* +@graph -@dangerous");
    for (user, line, is_refused) in
        [("ann", "G.DROP b", true), ("eve", "G.DROP a", true), ("bob", "G.DROP a", true), ("ann", "G.DROP a", false)]
    {
        let client = &mut resp(&running);
        assert_eq!(client.text(&format!("AUTH {user} secret")), "+OK");
        assert_eq!(client.text(line).starts_with("-NOPERM"), is_refused, "{user}: {line}");
    }
    assert_eq!(redis.text("COMMAND GETKEYS G.DROP b"), "*1 $1 b");
    let documented = redis.text("COMMAND DOCS G.DROP");
    assert!(documented.contains("Drops a graph with all its edge types, nodes and edges"), "{documented}");
    let info = redis.text("INFO graph");
    assert!(info.contains("graph_count:1 ") && info.contains("graph_graphs_dropped:1"), "{info}");
}

#[test]
fn commands_that_delete_keys_leave_graphs_alone() {
    let running = start(config());
    let redis = &mut resp(&running);
    load(redis);
    assert_eq!(redis.text("SET g text"), "+OK", "a key may have the name of a graph");
    for command in ["DEL g", "FLUSHDB", "FLUSHALL", "FLUSHALL ASYNC", "UNLINK g", "EXPIRE g 0"] {
        let reply = redis.text(command);
        assert!(!reply.starts_with('-'), "{command}: {reply}");
        assert_eq!(redis.text("G.COUNT g 1 knows"), format!(":{WIDTH}"), "{command}");
    }
    assert_eq!(redis.text("SET g text"), "+OK");
    assert_eq!(redis.text("G.DROP g"), ":1");
    assert_eq!(redis.text("GET g"), "$4 text", "a drop leaves the key alone");
}
