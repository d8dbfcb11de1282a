//! Requests for a graph and the checks of their replies.

use super::*;
use crate::workload::graph::{EdgeDraw, EdgeOrigin, Endpoints, GraphLoad, GraphQuery};
use protocol::resp;

fn graph_workload(queries: &[GraphQuery]) -> Workload {
    let load = GraphLoad {
        origin: EdgeOrigin::Rmat { scale: 8, edges_per_node: 4 },
        queries: queries.iter().map(|query| (*query, 1.0)).collect(),
        targets: (2, 4),
        page: 5,
        budget: Some(1000),
        write_edges: 2,
        ..GraphLoad::default()
    };
    Workload { protocol: Protocol::Resp, graph: Some(load), verify: true, ..Workload::default() }
}

fn request_words(bytes: &[u8]) -> Vec<String> {
    let limits = resp::Limits { long_bytes_min: u32::MAX, ..resp::Limits::REDIS };
    let mut parser = resp::Parser::new();
    let resp::Parsed::Request { consumed, .. } = parser.parse(bytes, &limits) else { panic!("not a whole request") };
    assert_eq!(consumed, bytes.len());
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    // Each second line of an array is a word: no word has a line end.
    text.split("\r\n").skip(2).step_by(2).map(str::to_owned).collect()
}

/// Draws one request of `query`, and returns its words and the outcome of the reply that `reply` returns for them.
fn exchange(
    query: GraphQuery,
    seed: u64,
    reply: impl Fn(&[String]) -> String,
) -> (Vec<String>, Result<ReplyOutcome, String>) {
    let workload = Workload { seed, ..graph_workload(&[query]) };
    let mut outcomes = Vec::new();
    let mut words = Vec::new();
    for step in [1, 3, 1000] {
        let mut source = source(&workload);
        let mut out = Vec::new();
        let mut pending = source.next(0, &mut out);
        words = request_words(&out);
        outcomes.push(read(&mut source, &mut pending, reply(&words).as_bytes(), step));
    }
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
    (words, outcomes.swap_remove(0))
}

fn distances(partial: u32, values: &[&str]) -> String {
    let values: String = values.iter().map(|value| format!("{value}\r\n")).collect();
    format!("*2\r\n:{partial}\r\n*{}\r\n{values}", values.lines().count())
}

#[test]
fn request_has_another_form_than_the_server_documents() {
    let ok = |query| exchange(query, 1, |_| "-ERR x\r\n".into()).0;
    let number = |word: &String| word.parse::<u64>().is_ok();
    let distance = ok(GraphQuery::Distance);
    assert_eq!((&*distance[0], &*distance[1], &*distance[3]), ("G.DIST", "load", "knows"));
    let targets = distance.len() - 8;
    assert!((2..=4).contains(&targets) && distance[4..4 + targets].iter().all(number), "{distance:?}");
    assert_eq!(distance[4 + targets..], ["MAX", "3", "BUDGET", "1000"]);
    assert_eq!(ok(GraphQuery::Page)[3..], ["knows", "LIMIT", "5"]);
    assert_eq!(ok(GraphQuery::Mutual)[4..], ["knows", "COUNT", "BUDGET", "1000"]);
    assert_eq!(ok(GraphQuery::SecondDegree)[3..], ["knows", "COUNT", "BUDGET", "1000"]);
    assert_eq!(ok(GraphQuery::Path)[4..], ["knows", "MAX", "3", "BUDGET", "1000"]);
    let edge = ok(GraphQuery::Edge);
    assert!(edge.len() == 5 && edge[0] == "G.GET" && edge[3] == "knows" && number(&edge[2]) && number(&edge[4]));
    let add = ok(GraphQuery::Add);
    assert_eq!((add.len(), &*add[0], &*add[3], &*add[6]), (8, "G.ADD", "knows", "knows"));
}

#[test]
fn wrong_reply_of_a_graph_passes() {
    let distance = |partial, extra: &'static [&'static str]| {
        exchange(GraphQuery::Distance, 1, move |words| {
            let mut values = vec![":2"; words.len() - 8 - extra.len()];
            values.extend(extra);
            distances(partial, &values)
        })
        .1
    };
    assert_eq!(distance(0, &[":0", "$-1"]), Ok(ReplyOutcome::Hit));
    assert_eq!(distance(1, &["$-1"]), Ok(ReplyOutcome::Partial));
    assert_eq!(distance(0, &[":4"]), Ok(ReplyOutcome::Wrong), "further than the longest distance");
    let short = exchange(GraphQuery::Distance, 1, |_| distances(0, &[":1"])).1;
    assert_eq!(short, Ok(ReplyOutcome::Wrong), "a distance is missing");
    let of = |query, reply: &str| exchange(query, 1, |_| reply.to_owned()).1;
    let form = Err("the reply of the graph store has another form than expected".to_owned());
    assert_eq!(of(GraphQuery::Distance, ":1\r\n"), form);
    assert_eq!(of(GraphQuery::Distance, "*2\r\n:2\r\n*0\r\n"), form);
    assert_eq!(of(GraphQuery::Mutual, "*2\r\n:0\r\n:7\r\n"), Ok(ReplyOutcome::Hit));
    assert_eq!(of(GraphQuery::Mutual, "*2\r\n:1\r\n:7\r\n"), Ok(ReplyOutcome::Partial));
    assert_eq!(of(GraphQuery::Mutual, "*2\r\n:0\r\n:-1\r\n"), Ok(ReplyOutcome::Wrong));
    assert_eq!(of(GraphQuery::SecondDegree, "*2\r\n:0\r\n*0\r\n"), form);
    assert_eq!(of(GraphQuery::Page, "*2\r\n$1\r\n0\r\n*2\r\n:1000\r\n:1001\r\n"), Ok(ReplyOutcome::Hit));
    assert_eq!(of(GraphQuery::Page, "*2\r\n$1\r\n0\r\n*0\r\n"), Ok(ReplyOutcome::Miss));
    let nodes = ":1000\r\n".repeat(6);
    assert_eq!(of(GraphQuery::Page, &format!("*2\r\n$1\r\n0\r\n*6\r\n{nodes}")), Ok(ReplyOutcome::Wrong));
    let own = |words: &[String]| format!("*2\r\n$1\r\n0\r\n*1\r\n:{}\r\n", words[2]);
    assert_eq!(exchange(GraphQuery::Page, 1, own).1, Ok(ReplyOutcome::Wrong), "a node is its own neighbour");
    assert_eq!(of(GraphQuery::Add, ":2\r\n"), Ok(ReplyOutcome::Hit));
    assert_eq!(of(GraphQuery::Add, ":0\r\n"), Ok(ReplyOutcome::Miss));
    assert_eq!(of(GraphQuery::Add, ":3\r\n"), Ok(ReplyOutcome::Wrong));
    assert_eq!(of(GraphQuery::Add, "-ERR all segments are in use\r\n"), Ok(ReplyOutcome::Error));
}

#[test]
fn path_between_other_nodes_passes() {
    let path = |nodes: fn(&[String]) -> Vec<String>| {
        let reply = move |words: &[String]| {
            let nodes = nodes(words);
            let lines: String = nodes.iter().map(|node| format!(":{node}\r\n")).collect();
            format!("*2\r\n:0\r\n*1\r\n*{}\r\n{lines}", nodes.len())
        };
        exchange(GraphQuery::Path, 1, reply).1
    };
    assert_eq!(path(|words| vec![words[2].clone(), "999".into(), words[3].clone()]), Ok(ReplyOutcome::Hit));
    assert_eq!(path(|words| vec![words[2].clone(), "999".into()]), Ok(ReplyOutcome::Wrong));
    assert_eq!(path(|words| vec!["999".into(), words[3].clone()]), Ok(ReplyOutcome::Wrong));
    let long = |words: &[String]| vec![words[2].clone(), "997".into(), "998".into(), "999".into(), words[3].clone()];
    assert_eq!(path(long), Ok(ReplyOutcome::Wrong), "longer than the longest path");
    let none = exchange(GraphQuery::Path, 1, |_| "*2\r\n:0\r\n*0\r\n".into()).1;
    assert_eq!(none, Ok(ReplyOutcome::Hit));
}

#[test]
fn edge_of_the_graph_that_is_missing_passes() {
    let seeds = 1..=20;
    let outcome = |seed, reply: &'static str| exchange(GraphQuery::Edge, seed, move |_| reply.into()).1.unwrap();
    let missing: Vec<ReplyOutcome> = seeds.clone().map(|seed| outcome(seed, "*1\r\n$-1\r\n")).collect();
    let of = |wanted| missing.iter().filter(|outcome| **outcome == wanted).count();
    // About half of the requests are for an edge that the prefill added.
    assert!(of(ReplyOutcome::Wrong) >= 4 && of(ReplyOutcome::Miss) >= 4, "{missing:?}");
    assert_eq!(of(ReplyOutcome::Wrong) + of(ReplyOutcome::Miss), 20);
    let found = "*1\r\n*3\r\n$4\r\nlive\r\n:1700000000000\r\n*0\r\n";
    assert!(seeds.clone().all(|seed| outcome(seed, found) == ReplyOutcome::Hit));
    let with_attribute = "*1\r\n*3\r\n$4\r\nlive\r\n:1700000000000\r\n*2\r\n$1\r\nw\r\n$1\r\n7\r\n";
    assert_eq!(outcome(1, with_attribute), ReplyOutcome::Hit);
}

#[test]
fn edge_of_the_graph_is_not_added_by_the_prefill() {
    let mut workload = graph_workload(&[GraphQuery::Mutual]);
    (workload.threads, workload.connections) = (2, 2);
    let mut added = Vec::new();
    for thread in 0..2 {
        let mut prefill = Prefill::new(&workload, thread, NOW);
        let mut greeting = Vec::new();
        let pending = prefill.greet(0, &mut greeting);
        assert_eq!((pending.len(), request_words(&greeting).join(" ")), (1, "G.TYPE load knows UNDIRECTED".to_owned()));
        while !prefill.is_exhausted() {
            let mut out = Vec::new();
            let mut pending = prefill.next(0, &mut out);
            let words = request_words(&out);
            assert_eq!((&*words[0], &*words[1]), ("G.ADD", "load"));
            added.extend(words[2..].chunks(3).map(|edge| (edge[0].clone(), edge[2].clone())));
            assert_eq!(read(&mut prefill, &mut pending, b":3\r\n", 100), Ok(ReplyOutcome::Hit));
        }
    }
    assert_eq!(added.len(), 4 << 8, "each edge once");
    let draw = EdgeDraw::new(&workload.graph.as_ref().unwrap().origin, Endpoints::Degree, workload.seed);
    let text = |(source, destination): (u64, u64)| (source.to_string(), destination.to_string());
    let edges: HashSet<(String, String)> = (0..draw.count()).map(|number| text(draw.edge(number))).collect();
    assert_eq!(added.into_iter().collect::<HashSet<_>>(), edges);
    // Only a request for an edge of the graph has a wrong reply here.
    let mut source = source(&graph_workload(&[GraphQuery::Edge]));
    let mut asked = Vec::new();
    for _ in 0..30 {
        let mut out = Vec::new();
        let mut pending = source.next(0, &mut out);
        let words = request_words(&out);
        if read(&mut source, &mut pending, b"*1\r\n$-1\r\n", 100) == Ok(ReplyOutcome::Wrong) {
            asked.push((words[2].clone(), words[4].clone()));
        }
    }
    assert!(asked.len() > 5 && asked.iter().all(|edge| edges.contains(edge)), "{asked:?}");
}

#[test]
fn second_stream_repeats_the_queries() {
    let mut workload = graph_workload(&[GraphQuery::Mutual, GraphQuery::Page]);
    let name_of = |source: &mut RequestSource| {
        let pending = source.next(0, &mut Vec::new());
        source.verbs()[usize::from(pending.verb)].clone()
    };
    let mut beside = RequestSource::beside(&workload, 0, NOW);
    assert!((0..20).all(|_| name_of(&mut beside) != "g.add"));
    workload.graph.as_mut().unwrap().writes_per_s = 100.0;
    let (mut source, mut beside) = (source(&workload), RequestSource::beside(&workload, 0, NOW));
    assert!((0..20).all(|_| name_of(&mut beside) == "g.add" && name_of(&mut source) != "g.add"));
}

#[test]
fn server_without_a_graph_store_has_no_remedy() {
    let mut source = source(&graph_workload(&[GraphQuery::Mutual]));
    let mut pending = source.greet(0, &mut Vec::new()).remove(0);
    let reply = b"-ERR unknown command 'G.TYPE', with args beginning with: 'load'\r\n";
    assert_eq!(read(&mut source, &mut pending, reply, 9), Ok(ReplyOutcome::Error));
    assert!(source.refusal().ends_with("; pass the address of a gannet server: --resp HOST:PORT opens its port"));
}
