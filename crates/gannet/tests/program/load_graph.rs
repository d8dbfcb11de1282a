//! Tests `gannet load --preset graphdb` against `gannet serve`: each kind of query, writes beside them, partial
//! replies, a file of edges, a search, and wrong input. The tests check counts, not times.

use std::net::SocketAddr;

use load::result::{Group, RunResult};

use crate::common::{Serving, ask, connect, free_port, run};
use crate::peers::{Folder, LIMITED, Peer, is_verdict};

const LISTENERS: [&str; 8] =
    ["--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "64MiB", "--resp", "127.0.0.1:0"];
const SHORT: [&str; 10] =
    ["--preset", "graphdb", "--quiet", "--verify", "--graph-scale", "8", "--connections", "3", "--duration", "60s"];

fn serve() -> (Serving, SocketAddr) {
    let mut serving = Serving::start(&LISTENERS);
    let addr = serving.addr_behind("Redis clients connect to ");
    (serving, addr)
}

/// Runs the generator, which must end with figures.
fn measured(folder: &Folder, addr: SocketAddr, args: &[&str]) -> RunResult {
    let (json, target) = (folder.file("out.json"), addr.to_string());
    let (code, out, err) = run(&[&["load", "--target", &target, "--json", &json], args].concat());
    assert!(code == 0 || code == LIMITED, "{args:?} ended with {code}: {out}\n{err}");
    folder.result("out.json")
}

fn assert_whole(result: &RunResult) {
    let (counts, faults) = (&result.figures.counts, &result.figures.faults);
    assert!(counts.answered > 0 && counts.unanswered == 0, "{counts:?} {faults:?}");
    assert_eq!((counts.errors, counts.wrong, faults.len()), (0, 0, 0), "{counts:?} {faults:?}");
}

fn count(result: &RunResult, name: &str, outcome: &str) -> u64 {
    let is_wanted = |group: &&Group| group.name == name && group.outcome == outcome;
    result.figures.verbs.iter().filter(is_wanted).map(|group| group.response.count).sum()
}

#[test]
fn kind_of_query_is_missing_or_has_another_share() {
    let (_serving, addr) = serve();
    let folder = Folder::new("load-graph-mix");
    let result = measured(&folder, addr, &[&SHORT[..], &["--closed", "--requests", "20000"]].concat());
    assert_whole(&result);
    assert_eq!(result.figures.counts.answered, 20_000);
    let edges = count(&result, "edge", "hit") + count(&result, "edge", "miss");
    let pages = count(&result, "page", "hit");
    let counts = ["dist", "mutual", "deg2", "path"].map(|name| count(&result, name, "complete"));
    for (share, seen) in [11_000, 3_000, 500, 500].into_iter().zip(counts).chain([(1_000, edges), (4_000, pages)]) {
        assert!(seen.abs_diff(share) < 100 + share / 10, "{share} {seen}: {:?}", result.figures.verbs);
    }
    assert!(count(&result, "edge", "hit") > edges / 2, "every second request is for an edge of the graph");
    // The server has the graph of the prefill.
    let mut stream = connect(addr);
    ask(&mut stream, b"G.TYPE load knows UNDIRECTED\r\n", b"+OK\r\n");
    let again = [&SHORT[..], &["--closed", "--requests", "500", "--no-prefill", "--protocol", "resp3"]].concat();
    assert_whole(&measured(&folder, addr, &again));
}

#[test]
fn open_loop_loses_its_writes_or_their_errors() {
    let (_serving, addr) = serve();
    let folder = Folder::new("load-graph-writes");
    let rate = ["--rate", "400", "--graph-writes", "300", "--warm-up", "100ms", "--duration", "2s"];
    let args: Vec<&str> = SHORT[..SHORT.len() - 2].iter().copied().chain(rate).collect();
    let result = measured(&folder, addr, &args);
    assert_whole(&result);
    assert_eq!(count(&result, "g.add", "done"), 0, "the writes are no part of the queries");
    let writes = result.figures.sampler.as_ref().expect("the writes have figures").count;
    assert!((400..=800).contains(&writes), "300 a second for two seconds: {writes}");
    assert_eq!(result.second_stream(), "edge writes");
    assert!(result.workload.as_ref().unwrap().contains("writes = \"300.0/s\""), "{:?}", result.workload);
    // A directed type of the same name refuses the connection, with the server's reason.
    let mut stream = connect(addr);
    ask(&mut stream, b"G.TYPE other knows\r\n", b"+OK\r\n");
    let text = "protocol = \"resp\"\n[graph]\nname = \"other\"\nscale = 4\n";
    let file = folder.written("other.toml", text);
    let (code, _, err) = run(&["load", "--workload", &file, "--target", &addr.to_string(), "--requests", "5"]);
    assert!(code == 1 && err.contains("g.type") && err.contains("it exists with another direction"), "{code}: {err}");
}

#[test]
fn partial_replies_count_as_complete() {
    let (_serving, addr) = serve();
    let folder = Folder::new("load-graph-partial");
    let text = "protocol = \"resp\"\nprefill = true\nverify = true\n[graph]\nscale = 8\nbudget = 20\n\
                queries = [{ query = \"dist\" }, { query = \"deg2\" }, { query = \"g.add\" }]\n";
    let file = folder.written("small.toml", text);
    let args = ["--workload", &file, "--closed", "--requests", "3000", "--duration", "60s"];
    let (json, target) = (folder.file("out.json"), addr.to_string());
    let (code, out, err) = run(&[&["load", "--target", &target, "--json", &json], &args[..]].concat());
    assert!(code == 0 || code == LIMITED, "{code}: {out}\n{err}");
    let result = folder.result("out.json");
    assert_whole(&result);
    let (partial, complete) = (count(&result, "dist", "partial"), count(&result, "dist", "complete"));
    assert!(partial > 500 && complete < 500, "{partial} {complete}");
    assert!(count(&result, "g.add", "done") + count(&result, "g.add", "not done") > 800);
    let line = out.lines().find(|line| line.starts_with("partial replies: dist ")).expect("a line with the shares");
    assert!(line.contains(" %), deg2 "), "{line}");
    assert!(out.lines().any(|line| line.starts_with("dist partial ")), "{out}");
}

#[test]
fn file_of_edges_is_another_graph() {
    let (_serving, addr) = serve();
    let folder = Folder::new("load-graph-file");
    // A path of 300 nodes: no edge is more than one hop long, and no pair has two common neighbours.
    let edges: String = (1..300).map(|node| format!("{node} {}\n", node + 1)).collect();
    let file = folder.written("edges.txt", &edges);
    let graph = ["--preset", "graphdb", "--graph-edges", &file, "--graph-endpoints", "uniform", "--verify", "--quiet"];
    let result = measured(&folder, addr, &[&graph[..], &["--requests", "3000", "--duration", "60s"]].concat());
    assert_whole(&result);
    assert!(result.workload.as_ref().unwrap().contains("edges.txt"));
    let mut stream = connect(addr);
    ask(&mut stream, b"G.COUNT load 1 knows\r\nG.COUNT load 150 knows\r\n", b":1\r\n:2\r\n");
    ask(&mut stream, b"G.DIST load 7 knows 10 11 MAX 3\r\n", b"*2\r\n:0\r\n*2\r\n:3\r\n$-1\r\n");
}

#[test]
fn search_needs_a_key_space() {
    let (_serving, addr) = serve();
    let folder = Folder::new("load-graph-search");
    let search = ["--slo", "p99=50ms,errors=0.1%", "--start", "100", "--rate-max", "300", "--trial", "150ms"];
    let args = [&SHORT[..SHORT.len() - 2], &search, &["--warm-up", "100ms", "--throughput-min", "1%"]].concat();
    let (json, target) = (folder.file("out.json"), addr.to_string());
    let (code, out, err) = run(&[&["load", "--target", &target, "--json", &json], &args[..]].concat());
    assert!(is_verdict(code, &out), "{code}: {out}\n{err}");
    let result = folder.result("out.json");
    assert!(result.search.as_ref().is_some_and(|search| !search.steps.is_empty()));
    assert!(result.figures.verbs.iter().any(|group| group.name == "dist"), "{:?}", result.figures.verbs);
}

#[test]
fn wrong_input_has_no_remedy() {
    let folder = Folder::new("load-graph-faults");
    let refused = format!("127.0.0.1:{}", free_port());
    let file = folder.written("edges.txt", "1 2\n3 x\n");
    let cases: [(&[&str], &str); 10] = [
        (&["--preset", "graphdb", "--keys", "5"], "--keys: the workload is that of a graph, which has no keys"),
        (&["--preset", "graphdb", "--graph-scale", "40"], "graph.scale: 40 as the scale; write a number from 1 to 31"),
        (&["--preset", "graphdb", "--graph-endpoints", "all"], "write degree or uniform"),
        (&["--preset", "graphdb", "--graph-writes", "often"], "--graph-writes: "),
        (&["--preset", "graphdb", "--graph-edges", &file], "edges.txt:2: cannot read an edge: the destination 'x'"),
        (&["--preset", "graphdb", "--graph-edges", "/none"], "/none:1: cannot read the file of edges"),
        (&["--preset", "graphdb", "--protocol", "memcache"], "a graph is reached by RESP; use protocol resp or resp3"),
        (&["--preset", "graphdb", "--target", "127.0.0.1:2"], "a graph is on one server; pass one target"),
        (&["--preset", "graphdb", "--sampler", "5", "--graph-writes", "5"], "the second stream writes the graph's"),
        (&["--rate", "5", "--graph-scale", "5"], "--graph-scale: the workload has no graph; pass --preset graphdb"),
    ];
    for (args, part) in cases {
        let (code, out, err) = run(&[&["load", "--target", &refused][..], args].concat());
        assert!(code == 2 && out.is_empty() && err.contains(part), "{args:?}: {code}: {out}{err}");
    }
    let redis = Peer::redis(&[]).expect("redis-server is installed");
    let (code, _, err) = run(&["load", "--preset", "graphdb", "--target", &redis.target(), "--quiet"]);
    assert!(
        code == 1 && err.contains("unknown command") && err.contains("pass the address of a gannet server"),
        "{err}"
    );
}
