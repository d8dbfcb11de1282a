//! Tests of gRPC calls on graphs: their replies beside those of the commands `G.*`, their errors, rights and ends. The
//! conformance tests compare each call with its command on random graphs.

use crate::common::redis::{Replies, addr};
use crate::common::start;
use crate::grpc_client::{Answer, DATA, Grpc, HEADERS, RST_STREAM, config, frame, headers, key, prefixed};
use crate::grpc_tokens::{grant, token, with_key};
use command::clients::endpoint::Protocol;
use command::clients::tokens::{TokenRole, permissions};
use gannet_server::start::{Running, ServerConfig};
use protocol::grpc::protobuf::{Encoder, Message};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// The minimum memory of a graph store.
const MEMORY: u64 = 90 << 20;
/// The number of neighbours of a hub. Each of them has all others at distance 2.
const NEIGHBOURS: u64 = 20_000;
/// The numbers of the status codes, as texts.
const OK: &str = "0";
const INVALID_ARGUMENT: &str = "3";
const DEADLINE_EXCEEDED: &str = "4";
const NOT_FOUND: &str = "5";
const PERMISSION_DENIED: &str = "7";
const FAILED_PRECONDITION: &str = "9";

fn with_graphs() -> ServerConfig {
    ServerConfig { graph_memory_bytes: MEMORY, ..config() }
}

/// A connection whose calls on graphs have numbers of their own.
struct Graphs {
    grpc: Grpc,
    stream: u32,
}

impl Graphs {
    fn connect(running: &Running) -> Self {
        Self { grpc: Grpc::connect(running), stream: 1 }
    }

    fn send(&mut self, method: &str, fields: &[(&str, &str)], write: impl FnOnce(&mut Encoder)) -> u32 {
        self.stream += 2;
        let path = format!("/gannet.v1.Graph/{method}");
        let mut sent = frame(HEADERS, 4, self.stream, &headers(&path, fields));
        let message = prefixed(write);
        let mut parts = message.chunks(16_384).peekable();
        while let Some(part) = parts.next() {
            sent.extend_from_slice(&frame(DATA, u8::from(parts.peek().is_none()), self.stream, part));
        }
        self.grpc.client.send(&sent);
        self.stream
    }

    fn ask(&mut self, method: &str, write: impl FnOnce(&mut Encoder)) -> Answer {
        let stream = self.send(method, &[], write);
        self.grpc.answers(&[stream]).remove(0)
    }

    /// Returns the message of a reply that is no error.
    fn reply(&mut self, method: &str, write: impl FnOnce(&mut Encoder)) -> Vec<u8> {
        let answer = self.ask(method, write);
        assert_eq!(answer.status, OK, "{method}: {answer:?}");
        answer.data[5..].to_vec()
    }

    /// Adds edges of the type `knows`, and returns the number of those that changed.
    fn add(&mut self, edges: &[(u64, u64)]) -> u64 {
        let reply = self.reply("Change", |out| {
            out.bytes(1, b"g").bytes(3, b"knows");
            edges.iter().for_each(|edge| add_edge(out, *edge));
        });
        Message::parse(&reply).expect("a message").uint(1)
    }
}

fn add_edge(out: &mut Encoder, (source, destination): (u64, u64)) {
    out.message(4, |edge| {
        edge.uint(1, source).uint(3, destination);
    });
}

/// Adds the graph, a node and the edge type of a query.
fn of(out: &mut Encoder, node: u64) -> &mut Encoder {
    out.bytes(1, b"g").uint(2, node).bytes(3, b"knows")
}

fn declare(graphs: &mut Graphs) {
    graphs.reply("DeclareType", |out| {
        out.bytes(1, b"g").bytes(2, b"knows").uint(3, 1);
    });
}

fn numbers(message: &[u8], field: u32) -> Vec<u64> {
    Message::parse(message).expect("a message").uints(field, usize::MAX - 1).expect("numbers")
}

fn resp(running: &Running) -> Replies {
    Replies::connect(addr(running, Protocol::Resp))
}

/// Adds edges from `source` to all of a range.
fn add_star(redis: &mut Replies, source: u64, targets: std::ops::Range<u64>) {
    let targets: Vec<u64> = targets.collect();
    for part in targets.chunks(500) {
        let mut line = "G.ADD g".to_owned();
        part.iter().for_each(|target| write!(line, " {source} knows {target}").expect("text"));
        assert_eq!(redis.text(&line), format!(":{}", part.len()));
    }
}

#[test]
fn calls_and_commands_read_and_change_the_same_graph() {
    let running = start(with_graphs());
    let (mut graphs, mut redis) = (Graphs::connect(&running), resp(&running));
    declare(&mut graphs);
    assert_eq!(graphs.add(&[(1, 2), (1, 3), (2, 4), (3, 4), (4, 5), (u64::MAX - 1, 1)]), 6);
    assert_eq!(graphs.add(&[(1, 2)]), 0, "the edge exists");
    assert_eq!(redis.text("G.COUNT g 1 knows"), ":3");
    let count = graphs.reply("Count", |out| {
        of(out, 4);
    });
    assert_eq!(numbers(&count, 1), [3]);
    let page = graphs.reply("Range", |out| {
        of(out, 1).uint(5, 2);
    });
    let cursor = Message::parse(&page).expect("a message").bytes(1).to_vec();
    assert_eq!((numbers(&page, 2), cursor.is_empty()), (vec![2, 3], false));
    let rest = graphs.reply("Range", |out| {
        of(out, 1).bytes(4, &cursor).uint(5, 2);
    });
    assert_eq!((numbers(&rest, 2), Message::parse(&rest).expect("a message").bytes(1)), (vec![u64::MAX - 1], &b""[..]));
    let distances = graphs.reply("Distance", |out| {
        of(out, 1).packed_uints(4, [1, 2, 4, 5, 77].into_iter());
    });
    assert_eq!(numbers(&distances, 2), [0, 1, 2, 3, 255]);
    let removed = graphs.reply("Change", |out| {
        out.bytes(1, b"g").uint(2, 1).bytes(3, b"knows");
        add_edge(out, (1, 2));
    });
    assert_eq!((numbers(&removed, 1), redis.text("G.COUNT g 2 knows").as_str()), (vec![1], ":1"));
    assert_eq!(redis.text("G.ADD g 1 knows 2"), ":1");
    let state = graphs.reply("GetEdges", |out| {
        of(out, 1).uint(4, 2).uint(4, 9);
    });
    let states: Vec<u64> = Message::parse(&state)
        .expect("a message")
        .all(1)
        .map(|edge| Message::parse(edge).expect("an edge").uint(1))
        .collect();
    assert_eq!(states, [1, 0], "live, and none");
    let stats = graphs.reply("Stats", |out| {
        out.bytes(1, b"g");
    });
    let types: Vec<&[u8]> = Message::parse(&stats).expect("a message").all(3).collect();
    assert_eq!(types, [b"knows"]);
    running.stop();
}

/// Calls a method, and compares the status and a part of the text of its error.
fn refuse(graphs: &mut Graphs, (method, status, text): (&str, &str, &str), write: impl Fn(&mut Encoder)) {
    let answer = graphs.ask(method, write);
    assert_eq!((answer.status.as_str(), answer.text.contains(text)), (status, true), "{method} {text}: {answer:?}");
}

/// Starts a server with a graph of one edge, and a type with a cap of 1 and an attribute.
fn with_an_edge() -> (Running, Graphs) {
    let running = start(with_graphs());
    let mut graphs = Graphs::connect(&running);
    declare(&mut graphs);
    graphs.reply("DeclareType", |out| {
        out.bytes(1, b"g").bytes(2, b"rated").uint(6, 1).item(7, b"stars");
    });
    graphs.add(&[(1, 2)]);
    (running, graphs)
}

/// Adds an edge with two attributes, the second of which has this name.
fn add_rated(out: &mut Encoder, second: &[u8]) {
    out.bytes(1, b"g").bytes(3, b"rated").message(4, |edge| {
        edge.uint(1, 5).uint(3, 6);
        for name in [b"stars", second] {
            edge.message(6, |attribute| {
                attribute.bytes(1, name).bytes(2, b"6");
            });
        }
    });
}

/// Returns nodes in the form of a reply to a command.
fn shown_nodes(nodes: &[u64]) -> String {
    nodes.iter().fold(format!("*{}", nodes.len()), |text, node| format!("{text} :{node}"))
}

/// Returns a page, whose cursor is in one field and whose nodes are in another, in the form of a reply to a command.
fn shown_page(message: &[u8], cursor: u32, nodes: u32) -> String {
    let cursor = Message::parse(message).expect("a message").bytes(cursor).to_vec();
    let cursor = if cursor.is_empty() { "0".to_owned() } else { String::from_utf8(cursor).expect("text") };
    format!("*2 ${} {cursor} {}", cursor.len(), shown_nodes(&numbers(message, nodes)))
}

/// Returns a result with the flag of its message in the form of a reply to a command.
fn shown_partial(message: &[u8], result: &str) -> String {
    format!("*2 :{} {result}", Message::parse(message).expect("a message").uint(1))
}

/// Returns the parts of a message in a field, each in the form that `show` gives it.
fn shown_parts(message: &[u8], field: u32, show: impl Fn(&[u8]) -> String) -> String {
    let parts: Vec<String> = Message::parse(message).expect("a message").all(field).map(show).collect();
    parts.iter().fold(format!("*{}", parts.len()), |text, part| format!("{text} {part}"))
}

/// Compares each query from `a`, and from it to `b`, with its command.
fn compare_queries(graphs: &mut Graphs, redis: &mut Replies, (a, b): (u64, u64), budget: u64) {
    let mut same = |command: String, reply: String| assert_eq!(redis.text(&command), reply, "{command}");
    let count = graphs.reply("Count", |out| {
        of(out, a);
    });
    same(format!("G.COUNT g {a} knows"), format!(":{}", Message::parse(&count).expect("a message").uint(1)));
    let page = graphs.reply("Range", |out| {
        of(out, a).uint(5, 5).uint(7, 1);
    });
    same(format!("G.RANGE g {a} knows LIMIT 5 REV"), shown_page(&page, 1, 2));
    let mutual = |out: &mut Encoder, count_only| {
        out.bytes(1, b"g").uint(2, a).uint(3, b).bytes(4, b"knows").uint(6, count_only).uint(7, budget);
    };
    let (nodes, count) = (graphs.reply("Mutual", |out| mutual(out, 0)), graphs.reply("Mutual", |out| mutual(out, 1)));
    let command = format!("G.MUTUAL g {a} {b} knows BUDGET {budget}");
    same(command.clone(), shown_partial(&nodes, &shown_nodes(&numbers(&nodes, 3))));
    let number = Message::parse(&count).expect("a message").uint(2);
    same(format!("{command} COUNT"), shown_partial(&count, &format!(":{number}")));
    for (operation, command) in ["G.INTER", "G.UNION", "G.DIFF"].into_iter().enumerate() {
        let page = graphs.reply("Combine", |out| {
            out.bytes(1, b"g").uint(2, operation as u64).uint(5, 6);
            for node in [a, b] {
                out.message(3, |list| {
                    list.uint(1, node).bytes(2, b"knows");
                });
            }
        });
        same(format!("{command} g {a} knows {b} knows LIMIT 6"), shown_page(&page, 1, 2));
    }
    compare_walks(graphs, &mut same, (a, b), budget);
}

/// Compares the queries that walk more than one edge.
fn compare_walks(graphs: &mut Graphs, same: &mut impl FnMut(String, String), (a, b): (u64, u64), budget: u64) {
    let found = graphs.reply("Distance", |out| {
        of(out, a).packed_uints(4, [b, a, 1, 9_999].into_iter()).uint(5, 2).uint(6, budget);
    });
    let shown = numbers(&found, 2).iter().fold("*4".to_owned(), |text, distance| match distance {
        255 => format!("{text} $-1"),
        distance => format!("{text} :{distance}"),
    });
    same(format!("G.DIST g {a} knows {b} {a} 1 9999 MAX 2 BUDGET {budget}"), shown_partial(&found, &shown));
    let found = graphs.reply("Path", |out| {
        out.bytes(1, b"g").uint(2, a).uint(3, b).bytes(4, b"knows").uint(6, 4).uint(7, budget);
    });
    let shown = shown_parts(&found, 2, |path| shown_nodes(&numbers(path, 1)));
    same(format!("G.PATH g {a} {b} knows K 4 BUDGET {budget}"), shown_partial(&found, &shown));
    let page = graphs.reply("SecondDegree", |out| {
        of(out, a).uint(6, 8).uint(7, budget);
    });
    let shown = shown_partial(&page, &shown_page(&page, 3, 4));
    same(format!("G.DEG2 g {a} knows LIMIT 8 BUDGET {budget}"), shown);
    let found = graphs.reply("Suggest", |out| {
        of(out, a).uint(4, 3).uint(5, budget);
    });
    let shown = shown_parts(&found, 2, |one| format!("*2 :{} :{}", numbers(one, 1)[0], numbers(one, 2)[0]));
    same(format!("G.SUGGEST g {a} knows K 3 BUDGET {budget}"), shown_partial(&found, &shown));
}

#[test]
fn each_query_has_the_result_of_its_command_with_and_without_enough_budget() {
    const NODES: u64 = 200;
    let running = start(with_graphs());
    let (mut graphs, mut redis) = (Graphs::connect(&running), resp(&running));
    declare(&mut graphs);
    let mut state = 7u64;
    let mut node = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1 + (state >> 33) % NODES
    };
    let mut pair = || loop {
        let (a, b) = (node(), node());
        if a != b {
            break (a, b);
        }
    };
    let edges: Vec<(u64, u64)> = (0..900).map(|_| pair()).collect();
    assert!(graphs.add(&edges) > 800);
    for round in 0..60 {
        compare_queries(&mut graphs, &mut redis, pair(), if round % 3 == 0 { 20 } else { 1 << 20 });
    }
    running.stop();
}

#[test]
fn refused_queries_name_their_cause() {
    let (running, mut graphs) = with_an_edge();
    let many = |out: &mut Encoder| {
        of(out, 1).packed_uints(4, 1..5_000);
    };
    refuse(&mut graphs, ("Count", NOT_FOUND, "cannot find the graph"), |out| {
        out.bytes(1, b"none").uint(2, 1).bytes(3, b"knows");
    });
    refuse(&mut graphs, ("Count", NOT_FOUND, "cannot find the edge type"), |out| {
        out.bytes(1, b"g").uint(2, 1).bytes(3, b"none");
    });
    refuse(&mut graphs, ("Count", INVALID_ARGUMENT, "cannot use node 0"), |out| {
        of(out, 0);
    });
    refuse(&mut graphs, ("GetEdges", INVALID_ARGUMENT, "no destinations"), |out| {
        of(out, 1);
    });
    refuse(&mut graphs, ("GetEdges", INVALID_ARGUMENT, "more than 4096 destinations"), many);
    refuse(&mut graphs, ("Distance", INVALID_ARGUMENT, "more than 4096 destinations"), many);
    refuse(&mut graphs, ("Distance", INVALID_ARGUMENT, "MAX '4' is no number from 1 to 3"), |out| {
        of(out, 1).uint(4, 2).uint(5, 4);
    });
    refuse(&mut graphs, ("Range", INVALID_ARGUMENT, "LIMIT '5000' is no number from 1 to 4096"), |out| {
        of(out, 1).uint(5, 5_000);
    });
    refuse(&mut graphs, ("Range", INVALID_ARGUMENT, "cannot use the cursor"), |out| {
        of(out, 1).bytes(4, b"BYTIME");
    });
    refuse(&mut graphs, ("Range", INVALID_ARGUMENT, "the state 9 is unknown"), |out| {
        of(out, 1).uint(9, 9);
    });
    refuse(&mut graphs, ("Range", FAILED_PRECONDITION, "cannot page by time"), |out| {
        of(out, 1).message(6, |times| {
            times.uint(2, 9);
        });
    });
    refuse(&mut graphs, ("Combine", INVALID_ARGUMENT, "give 1 to 16"), |out| {
        out.bytes(1, b"g");
    });
    refuse(&mut graphs, ("Combine", INVALID_ARGUMENT, "the operation 3 is unknown"), |out| {
        out.bytes(1, b"g").uint(2, 3);
    });
    refuse(&mut graphs, ("Query", INVALID_ARGUMENT, "give 1 to 64"), |out| {
        out.bytes(1, b"g");
    });
    refuse(&mut graphs, ("Query", INVALID_ARGUMENT, "query 1 is empty or unknown"), |out| {
        out.bytes(1, b"g").item(2, b"");
    });
    running.stop();
    let without = start(config());
    let answer = Graphs::connect(&without).ask("Count", |out| {
        of(out, 1);
    });
    assert_eq!((answer.status.as_str(), answer.text.contains("--graph-memory")), (FAILED_PRECONDITION, true));
    without.stop();
}

#[test]
fn refused_declarations_name_their_cause() {
    let (running, mut graphs) = with_an_edge();
    refuse(&mut graphs, ("DeclareType", FAILED_PRECONDITION, "it exists with another direction"), |out| {
        out.bytes(1, b"g").bytes(2, b"knows");
    });
    refuse(&mut graphs, ("DeclareType", INVALID_ARGUMENT, "give one of both"), |out| {
        out.bytes(1, b"g").bytes(2, b"x").uint(3, 1).bytes(4, b"knows");
    });
    for name in [&b"7"[..], b"ts", b"CAP"] {
        refuse(&mut graphs, ("DeclareType", INVALID_ARGUMENT, "cannot name an attribute"), |out| {
            out.bytes(1, b"g").bytes(2, b"x").item(7, b"a").item(7, name);
        });
    }
    running.stop();
}

#[test]
fn refused_changes_name_their_cause_and_change_nothing() {
    let (running, mut graphs) = with_an_edge();
    // As words of a command, these attributes would be the start of another edge, and the time of this one.
    refuse(&mut graphs, ("Change", INVALID_ARGUMENT, "cannot name an attribute '7'"), |out| add_rated(out, b"7"));
    refuse(&mut graphs, ("Change", INVALID_ARGUMENT, "cannot name an attribute 'TS'"), |out| add_rated(out, b"TS"));
    refuse(&mut graphs, ("Change", INVALID_ARGUMENT, "syntax error at 'moons'"), |out| add_rated(out, b"moons"));
    refuse(&mut graphs, ("Change", FAILED_PRECONDITION, "the edge type has no schema"), |out| {
        out.bytes(1, b"g").bytes(3, b"knows").message(4, |edge| {
            edge.uint(1, 5).uint(3, 6).message(6, |attribute| {
                attribute.bytes(1, b"stars").bytes(2, b"6");
            });
        });
    });
    refuse(&mut graphs, ("Change", INVALID_ARGUMENT, "only added edges"), |out| {
        out.bytes(1, b"g").uint(2, 1).bytes(3, b"knows").message(4, |edge| {
            edge.uint(1, 1).uint(3, 2).uint(5, 1);
        });
    });
    refuse(&mut graphs, ("Change", INVALID_ARGUMENT, "give 1 to 4096"), |out| {
        out.bytes(1, b"g").bytes(3, b"knows");
        (0..4_097).for_each(|_| add_edge(out, (7, 8)));
    });
    refuse(
        &mut graphs,
        ("Change", FAILED_PRECONDITION, "the cap of the type; remove one first (1 edges were changed before)"),
        |out| {
            out.bytes(1, b"g").bytes(3, b"rated");
            [(20, 21), (20, 22)].into_iter().for_each(|edge| add_edge(out, edge));
        },
    );
    refuse(&mut graphs, ("SetNode", INVALID_ARGUMENT, "cannot name a bin TS"), |out| {
        out.bytes(1, b"g").uint(2, 5).message(4, |node| {
            node.bytes(1, b"person").message(2, |bin| {
                bin.bytes(1, b"ts").bytes(2, b"1");
            });
        });
    });
    refuse(&mut graphs, ("SetNode", INVALID_ARGUMENT, "the request has no value"), |out| {
        out.bytes(1, b"g").uint(2, 5);
    });
    let mut redis = resp(&running);
    for (request, reply) in [
        ("G.COUNT g 5 rated", ":0"),
        ("G.COUNT g 7 knows", ":0"),
        ("G.COUNT g 1 knows", ":1"),
        ("G.COUNT g 20 rated", ":1"),
        ("G.NODE GET g 5", "$-1"),
    ] {
        assert_eq!(redis.text(request), reply, "{request}");
    }
    running.stop();
}

#[test]
fn failed_query_of_several_is_an_error_in_its_place() {
    let running = start(with_graphs());
    let mut graphs = Graphs::connect(&running);
    declare(&mut graphs);
    graphs.add(&[(1, 2), (2, 3)]);
    let reply = graphs.reply("Query", |out| {
        out.bytes(1, b"g");
        for (graph, node) in [(&b""[..], 2), (b"none", 2), (b"", 0), (b"g", 3)] {
            out.message(2, |query| {
                query.message(2, |count| {
                    count.bytes(1, graph).uint(2, node).bytes(3, b"knows");
                });
            });
        }
    });
    let results: Vec<(u64, u64)> = Message::parse(&reply)
        .expect("a message")
        .all(1)
        .map(|result| {
            let result = Message::parse(result).expect("a result");
            let number = |field| result.message(field).expect("a message").map_or(0, |part| part.uint(1));
            (number(2), number(10))
        })
        .collect();
    assert_eq!(results, [(2, 0), (0, 5), (0, 3), (1, 0)]);
    running.stop();
}

#[test]
fn rights_to_graphs_are_those_to_keys_and_tokens_of_one_cache_have_none() {
    let (running, secret) = with_key(with_graphs());
    let (mut graphs, mut redis) = (Graphs::connect(&running), resp(&running));
    declare(&mut graphs);
    redis.text("ACL SETUSER ann on >secret ~g +@graph");
    redis.text("ACL SETUSER bob on >secret allkeys +@all -@graph");
    redis.text("ACL SETUSER cid on >secret ~other +@graph");
    let sign = |role, cache, prefix| token(&secret, permissions(Some((grant(role, cache, prefix), None))));
    let read = sign(TokenRole::Read, None, None);
    let other = sign(TokenRole::ReadWrite, None, Some("h"));
    let own = sign(TokenRole::ReadWrite, None, Some("g"));
    let cache = sign(TokenRole::ReadWrite, Some("default"), None);
    let admin = token(&secret, permissions(None));
    for (credentials, may_read, may_change, may_see_all) in [
        ("ann:secret", OK, OK, PERMISSION_DENIED),
        ("bob:secret", PERMISSION_DENIED, PERMISSION_DENIED, PERMISSION_DENIED),
        ("cid:secret", PERMISSION_DENIED, PERMISSION_DENIED, PERMISSION_DENIED),
        (&read, OK, PERMISSION_DENIED, OK),
        (&other, PERMISSION_DENIED, PERMISSION_DENIED, PERMISSION_DENIED),
        (&own, OK, OK, PERMISSION_DENIED),
        (&cache, PERMISSION_DENIED, PERMISSION_DENIED, PERMISSION_DENIED),
        (&admin, OK, OK, OK),
    ] {
        let fields = [("authorization", credentials), ("cache", "default")];
        let sent = [
            graphs.send("Count", &fields, |out| {
                of(out, 1);
            }),
            graphs.send("Query", &fields, |out| {
                out.bytes(1, b"g").message(2, |query| {
                    query.message(2, |count| {
                        of(count, 1);
                    });
                });
            }),
            graphs.send("Change", &fields, |out| {
                out.bytes(1, b"g").bytes(3, b"knows");
                add_edge(out, (1, 2));
            }),
            graphs.send("Stats", &fields, |_| {}),
        ];
        let statuses: Vec<String> = graphs.grpc.answers(&sent).into_iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [may_read, may_read, may_change, may_see_all], "{credentials}");
    }
    // The token of one cache still has its rights to items, beside calls on graphs.
    let fields = [("authorization", cache.as_str()), ("cache", "default")];
    graphs.stream += 2;
    let get = [
        frame(HEADERS, 4, graphs.stream, &headers("/gannet.v1.Cache/Get", &fields)),
        frame(DATA, 1, graphs.stream, &key("k")),
    ];
    graphs.grpc.client.send(&get.concat());
    assert_eq!(graphs.grpc.answers(&[graphs.stream]).remove(0).status, OK);
    running.stop();
}

/// Adds 64 queries of the second degree of different neighbours of a hub. Each touches every neighbour of it.
fn add_long_queries(out: &mut Encoder) {
    out.bytes(1, b"g");
    for node in 0..64 {
        out.message(2, |query| {
            query.message(8, |second| {
                of(second, 100 + node).uint(4, 1).uint(7, 1 << 20);
            });
        });
    }
}

/// Starts a server with hubs, each with the same neighbours.
fn with_hubs() -> (Running, Graphs, Replies) {
    let running = start(with_graphs());
    let (mut graphs, mut redis) = (Graphs::connect(&running), resp(&running));
    declare(&mut graphs);
    (1..=8).for_each(|hub| add_star(&mut redis, hub, 100..100 + NEIGHBOURS));
    (running, graphs, redis)
}

/// Returns the number of complete queries of the second degree.
fn second_degrees(redis: &mut Replies) -> u64 {
    let stats = redis.text("G.STATS");
    let figure = |name: &str| -> u64 {
        let rest = stats.split(name).nth(1).and_then(|rest| rest.split(" :").nth(1)).expect("the figure");
        rest.split(' ').next().expect("a number").parse().expect("a number")
    };
    figure("queries")
}

#[test]
fn cancelled_query_ends_before_it_is_complete() {
    let (running, mut graphs, mut redis) = with_hubs();
    let before = second_degrees(&mut redis);
    let stream = graphs.send("Query", &[], add_long_queries);
    std::thread::sleep(Duration::from_millis(5));
    graphs.grpc.client.send(&frame(RST_STREAM, 0, stream, &8u32.to_be_bytes()));
    let count = graphs.reply("Count", |out| {
        of(out, 100);
    });
    assert_eq!(numbers(&count, 1), [8]);
    let done = second_degrees(&mut redis) - before;
    assert!(done < 60, "{done} of 64 queries were executed after the client had cancelled them");
    // Without the reset, all are executed, and the memory of the cancelled ones is free.
    let reply = graphs.reply("Query", add_long_queries);
    assert_eq!(Message::parse(&reply).expect("a message").all(1).count(), 64);
    running.stop();
}

#[test]
fn query_ends_at_its_deadline_and_later_calls_are_served() {
    let (running, mut graphs, mut redis) = with_hubs();
    let before = second_degrees(&mut redis);
    let begun = Instant::now();
    let stream = graphs.send("Query", &[("grpc-timeout", "5m")], add_long_queries);
    let late = graphs.grpc.answers(&[stream]).remove(0);
    let elapsed = begun.elapsed();
    assert_eq!(late.status, DEADLINE_EXCEEDED, "{late:?} after {elapsed:?}");
    let done = second_degrees(&mut redis) - before;
    assert!(done < 60, "{done} of 64 queries were executed, though the deadline was past");
    assert_eq!(graphs.add(&[(9, 10)]), 1);
    running.stop();
}

#[test]
fn change_is_completed_though_its_client_cancels_it() {
    let running = start(with_graphs());
    let (mut graphs, mut redis) = (Graphs::connect(&running), resp(&running));
    declare(&mut graphs);
    let stream = graphs.send("Change", &[], |out| {
        out.bytes(1, b"g").bytes(3, b"knows");
        (0..4_096).for_each(|node| add_edge(out, (1, 100 + node)));
    });
    graphs.grpc.client.send(&frame(RST_STREAM, 0, stream, &8u32.to_be_bytes()));
    assert_eq!(graphs.add(&[(1, 2)]), 1);
    let count = redis.text("G.COUNT g 1 knows");
    assert!(count == ":4097" || count == ":1", "all of the change or nothing of it: {count}");
    running.stop();
}
