//! Tests of the commands `G.*`: the form of each reply, bad input, queries of many visits, rights, and the bound of the
//! store's memory.

use crate::common::redis::{Replies, both, request, resp};
use crate::common::{start, wait_until};
use gannet_server::start::{Running, ServerConfig};
use std::fmt::Write;

/// The minimum memory of a graph store.
const MEMORY: u64 = 90 << 20;

fn config() -> ServerConfig {
    ServerConfig { graph_memory_bytes: MEMORY, ..both() }
}

/// Sends each request and compares its reply, in which spaces stand for line ends.
fn converse(redis: &mut Replies, turns: &[(&str, &str)]) {
    for (request, reply) in turns {
        assert_eq!(redis.shown(request), *reply, "{request}");
    }
}

/// Adds edges from `source` to all of a range, in requests of 500 edges.
fn add_star(redis: &mut Replies, source: u64, targets: std::ops::Range<u64>) {
    let targets: Vec<u64> = targets.collect();
    for part in targets.chunks(500) {
        let mut line = "G.ADD g".to_owned();
        part.iter().for_each(|target| write!(line, " {source} knows {target}").expect("text"));
        assert_eq!(redis.text(&line), format!(":{}", part.len()));
    }
}

/// Regression: each unfinished query counted 4 bytes for each node of the graph as client memory, so that queries of a
/// large graph were refused on an idle server.
#[test]
fn queries_of_a_graph_larger_than_client_memory_are_not_refused() {
    let running = start(ServerConfig { client_memory_bytes: Some(4 << 20), workers: 1, ..config() });
    let redis = &mut resp(&running);
    assert_eq!(redis.text("G.TYPE g knows UNDIRECTED"), "+OK");
    add_star(redis, 1, 10..120_010);
    add_star(redis, 2, 10..20_010);
    let many: String = (10..4_000).fold(String::new(), |many, node| many + &format!(" {node}"));
    let requests = [
        "G.RANGE g 1 knows LIMIT 4096".to_owned(),
        format!("G.GET g 1 knows{many}"),
        "G.MUTUAL g 1 2 knows COUNT".to_owned(),
        "G.SUGGEST g 10 knows K 3".to_owned(),
        "G.DIST g 10 knows 120009".to_owned(),
        "G.DEG2 g 10 knows COUNT".to_owned(),
        "G.QUERY g 'MUTUAL 1 2 knows COUNT' 'SUGGEST 11 knows'".to_owned(),
    ];
    let mut others: Vec<Replies> = (0..8).map(|_| resp(&running)).collect();
    for round in 0..4 {
        for line in &requests {
            for other in &mut others {
                let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                let quoted = line.contains('\'');
                other.client.send(&if quoted { format!("{line}\r\n").into_bytes() } else { request(&words) });
            }
            for other in &mut others {
                let reply = other.next();
                assert_ne!(reply[0], b'-', "round {round}: {:.40}: {}", line, reply.escape_ascii());
            }
        }
    }
    running.stop();
}

/// The clock that gave the last change its time may have been ahead, or the server's may have been set back.
#[test]
fn change_without_a_time_takes_effect_whatever_the_time_of_the_last_one_is() {
    let running = start(config());
    let redis = &mut resp(&running);
    converse(redis, &[("G.TYPE g knows SCHEMA weight", "+OK")]);
    let now_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
    for ahead_ms in [500, 5_000, 3_600_000, 86_400_000, 10 * 365 * 86_400_000] {
        let at = now_ms + ahead_ms;
        let turns = [
            (format!("G.ADD g 1 knows 2 TS {at}"), ":1"),
            (format!("G.ADD g 1 knows 2 ATTR weight {ahead_ms}"), ":1"),
            ("G.ADD g 1 knows 2 NEGATIVE".to_owned(), ":1"),
            ("G.DEL g 1 knows 2".to_owned(), ":1"),
            ("G.COUNT g 1 knows".to_owned(), ":0"),
            ("G.ADD g 1 knows 2".to_owned(), ":1"),
            ("G.ARCHIVE g 1 knows 2".to_owned(), ":1"),
            ("G.RESTORE g 1 knows 2".to_owned(), ":1"),
            ("G.DEL g 1 knows 2".to_owned(), ":1"),
            (format!("G.NODE ARCHIVE g 1 TS {at}"), ":1"),
            ("G.NODE RESTORE g 1".to_owned(), ":1"),
            (format!("G.NODE SET g 1 person age 5 TS {at}"), ":1"),
            ("G.NODE SET g 1 person age 6".to_owned(), ":1"),
            ("G.NODE DEL g 1".to_owned(), ":1"),
        ];
        for (request, reply) in turns {
            assert_eq!(redis.shown(&request), reply, "{request}, {ahead_ms} ms ahead");
        }
    }
    // The greatest time is followed by itself: of two changes with one time, the greater value wins.
    let last = format!("G.ADD g 1 knows 3 TS {}", (1u64 << 48) - 1);
    converse(redis, &[(&last, ":1"), ("G.DEL g 1 knows 3", ":1")]);
    running.stop();
}

#[test]
fn each_command_on_graphs_replies_in_its_form() {
    let running = start(config());
    let redis = &mut resp(&running);
    converse(
        redis,
        &[
            ("G.TYPE g knows UNDIRECTED", "+OK"),
            ("G.TYPE g knows UNDIRECTED", "+OK"),
            ("G.TYPE g follows SORT TIME SCHEMA weight since", "+OK"),
            ("G.TYPE g followed INVERSE follows SORT TIME", "+OK"),
            ("G.ADD g 1 knows 2 1 knows 3 2 knows 4 3 knows 4 4 knows 5", ":5"),
            ("G.ADD g 1 knows 2", ":0"),
            ("G.COUNT g 1 knows", ":2"),
            ("G.COUNT g 9 knows", ":0"),
            ("G.RANGE g 4 knows", "*2 $1 0 *3 :2 :3 :5"),
            ("G.RANGE g 4 knows REV LIMIT 9", "*2 $1 0 *3 :5 :3 :2"),
            ("G.MUTUAL g 1 4 knows", "*2 :0 *2 :2 :3"),
            ("G.MUTUAL g 1 4 knows COUNT", "*2 :0 :2"),
            ("G.INTER g 1 knows 4 knows", "*2 $1 0 *2 :2 :3"),
            ("G.UNION g 1 knows 4 knows", "*2 $1 0 *3 :2 :3 :5"),
            ("G.DIFF g 4 knows 1 knows", "*2 $1 0 *1 :5"),
            ("G.DIST g 1 knows 1 2 4 5 77", "*2 :0 *5 :0 :1 :2 :3 $-1"),
            ("G.DIST g 1 knows 5 MAX 2", "*2 :0 *1 $-1"),
            ("G.PATH g 1 5 knows", "*2 :0 *1 *4 :1 :2 :4 :5"),
            ("G.PATH g 1 5 knows K 9", "*2 :0 *2 *4 :1 :2 :4 :5 *4 :1 :3 :4 :5"),
            ("G.DEG2 g 1 knows", "*2 :0 *2 $1 0 *1 :4"),
            ("G.DEG2 g 1 knows COUNT", "*2 :0 :1"),
            ("G.SUGGEST g 1 knows K 3", "*2 :0 *1 *2 :4 :2"),
            ("G.DEL g 1 knows 2 1 knows 2", ":1"),
            ("G.COUNT g 2 knows", ":1"),
            ("G.ADD g 1 knows 2", ":1"),
            ("G.ARCHIVE g 1 knows 2", ":1"),
            ("G.RANGE g 1 knows STATE archived", "*2 $1 0 *1 :2"),
            ("G.RESTORE g 1 knows 2", ":1"),
            ("G.ADD g 7 follows 8 TS 1000 ATTR weight 5 since 2020 7 follows 9 TS 2000", ":2"),
            ("G.RANGE g 7 follows", "*2 $1 0 *2 :9 :8"),
            ("G.RANGE g 8 followed", "*2 $1 0 *1 :7"),
            (
                "G.RANGE g 7 follows WITHATTR",
                "*2 $1 0 *2 *3 :9 :2000 *0 *3 :8 :1000 *4 $6 weight $1 5 $5 since $4 2020",
            ),
            ("G.RANGE g 7 follows BYTIME 0 1500", "*2 $1 0 *1 :8"),
            (
                "G.GET g 7 follows 8 9 10",
                "*3 *3 $4 live :1000 *4 $6 weight $1 5 $5 since $4 2020 *3 $4 live :2000 *0 $-1",
            ),
            ("G.ADD g 7 follows 9 TS 1500 NEGATIVE", ":0"),
            ("G.ADD g 7 follows 9 TS 2500 NEGATIVE", ":1"),
            ("G.GET g 7 follows 9", "*1 *3 $8 negative :2500 *0"),
            ("G.NODE SET g 7 person name Ann age 30", ":1"),
            ("G.NODE GET g 7", "*2 $6 person *4 $4 name $3 Ann $3 age $2 30"),
            ("G.NODE SET g 7 person name Ann age 2", ":1"),
            ("G.NODE DEL g 7", ":1"),
            ("G.NODE GET g 7", "$-1"),
            ("G.NODE ARCHIVE g 2", ":1"),
            ("G.RANGE g 4 knows", "*2 $1 0 *2 :3 :5"),
            ("G.NODE RESTORE g 2", ":1"),
            ("G.RANGE g 4 knows", "*2 $1 0 *3 :2 :3 :5"),
            ("G.STATS g", "*4 $5 nodes :8 $5 types *3 $5 knows $7 follows $8 followed"),
            ("G.COMPACT", "+OK"),
            ("G.ADD g 18446744073709551614 knows 1", ":1"),
        ],
    );
    let page = redis.shown("G.RANGE g 1 knows REV LIMIT 1");
    assert!(page.ends_with("*1 $20 18446744073709551614"), "{page}");
    let stats = redis.shown("G.STATS");
    assert!(stats.contains("graphs *1 $1 g") && stats.contains("segments_free"), "{stats}");
    assert!(redis.shown("G.SEGMENTS").contains("*4 :"), "one segment is in use");
}

#[test]
fn several_queries_of_one_request_fail_one_by_one() {
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows UNDIRECTED");
    redis.text("G.ADD g 1 knows 2 2 knows 3");
    let words: &[&[u8]] = &[b"G.QUERY", b"g", b"COUNT 2 knows", b"DIST 1 knows 3", b"FLY 1", b"COUNT 2 likes", b""];
    let reply = String::from_utf8(redis.ask(words)).expect("text").replace("\r\n", " ");
    assert!(reply.starts_with("*5 :2 *2 :0 *1 :2 -ERR 'FLY' is no query"), "{reply}");
    assert!(reply.contains("-ERR cannot find the edge type"), "{reply}");
    let many: Vec<&[u8]> =
        [&b"G.QUERY"[..], b"g"].into_iter().chain(std::iter::repeat_n(&b"COUNT 2 knows"[..], 65)).collect();
    let reply = String::from_utf8(redis.ask(&many)).expect("text");
    assert!(reply.starts_with("-ERR 65 queries in one request: 1 to 64 are allowed"), "{reply}");
}

#[test]
fn bad_input_to_graphs_is_named_and_changes_nothing() {
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows UNDIRECTED");
    redis.text("G.TYPE g capped CAP 1");
    redis.text("G.TYPE other knows UNDIRECTED");
    redis.text("G.TYPE g rated SCHEMA stars");
    redis.text("G.ADD g 1 knows 2 2 knows 3 1 capped 2");
    let long = "x".repeat(300);
    let cursor = redis.text("G.RANGE g 2 knows LIMIT 1").split(' ').nth(2).expect("a cursor").to_owned();
    let bad = [
        ("G.ADD h 1 knows 2".to_owned(), "cannot find the graph"),
        ("G.ADD g 1 likes 2".to_owned(), "cannot find the edge type"),
        ("G.ADD g 5 knows 6 1 knows 1".to_owned(), "cannot connect node 1 with itself"),
        ("G.ADD g 5 knows 6 0 knows 1".to_owned(), "cannot use node 0"),
        ("G.ADD g 5 knows 6 18446744073709551615 knows 1".to_owned(), "cannot use node 18446744073709551615"),
        ("G.ADD g 5 knows 6 x knows 1".to_owned(), "syntax error at 'x'; use G.ADD graph src type dst"),
        ("G.ADD g x knows 1".to_owned(), "'x' is no node"),
        ("G.ADD g 5 knows 6 7 knows".to_owned(), "the request ends before a node"),
        ("G.ADD g 5 knows 6 ATTR a 1".to_owned(), "cannot store attributes: the edge type has no schema"),
        ("G.ADD g 5 rated 6 ATTR a 1".to_owned(), "'a' is not in the schema"),
        (format!("G.ADD g 5 rated 6 ATTR stars {long}"), "cannot store 302 bytes of attributes"),
        ("G.ADD g 5 knows 6 TS 281474976710656".to_owned(), "cannot use time 281474976710656"),
        (
            "G.ADD g 5 knows 6 1 capped 3".to_owned(),
            "node 1 has 1 edges, the cap of the type; remove one first (1 edges",
        ),
        ("G.TYPE g knows".to_owned(), "it exists with another direction"),
        ("G.TYPE g x SORT SIZE".to_owned(), "syntax error at 'SIZE'"),
        ("G.TYPE g x INVERSE nothing".to_owned(), "cannot find the edge type"),
        (format!("G.TYPE g {long}"), "cannot use the name"),
        ("G.RANGE g 1 knows LIMIT 0".to_owned(), "LIMIT '0' is no number from 1 to 4096"),
        ("G.RANGE g 1 knows CURSOR x".to_owned(), "cannot use the cursor"),
        (format!("G.RANGE g 1 knows CURSOR {cursor}"), "cannot use the cursor: it is of another query"),
        (format!("G.RANGE other 2 knows CURSOR {cursor}"), "cannot use the cursor: it is of another query"),
        ("G.ADD g 5 knows 6 TS -1".to_owned(), "'-1' is no time"),
        ("G.RANGE g 1 knows BYTIME 1 2".to_owned(), "cannot page by time"),
        ("G.DIST g 1 knows 2 MAX 4".to_owned(), "MAX '4' is no number from 1 to 3"),
        ("G.DIST g 1 knows 2 BUDGET 0".to_owned(), "BUDGET '0'"),
        ("G.INTER g knows".to_owned(), "wrong number of arguments"),
        ("G.INTER g knows 1".to_owned(), "syntax error"),
        ("G.NODE FLY g 1".to_owned(), "unknown subcommand"),
        ("G.NODE SET g 1 person name".to_owned(), "the request ends before the value of a bin"),
        (format!("G.NODE SET g 1 person name {}", "y".repeat(17_000)), "cannot store an object of"),
    ];
    for (request, text) in bad {
        let reply = redis.shown(&request);
        assert!(reply.starts_with("-") && reply.contains(text), "{request:.80}: {reply}");
    }
    // Of the refused requests, only the one that met a cap changed an edge.
    assert_eq!(redis.text("G.COUNT g 5 knows"), ":1");
    assert_eq!(redis.text("G.NODE GET g 1"), "$-1");
    let without = start(both());
    let reply = resp(&without).text("G.TYPE g knows");
    assert!(reply.starts_with("-ERR this server has no graph store: start it with --graph-memory"), "{reply}");
}

#[test]
fn queries_of_hubs_take_many_visits_and_find_everything() {
    const NEIGHBOURS: u64 = 20_000;
    let running = start(ServerConfig { workers: 2, ..config() });
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows UNDIRECTED");
    add_star(redis, 1, 10..10 + NEIGHBOURS);
    add_star(redis, 2, 10 + NEIGHBOURS / 2..10 + NEIGHBOURS / 2 + NEIGHBOURS);
    assert_eq!(redis.text("G.COUNT g 1 knows"), format!(":{NEIGHBOURS}"));
    assert_eq!(redis.text("G.MUTUAL g 1 2 knows COUNT"), format!("*2 :0 :{}", NEIGHBOURS / 2));
    assert_eq!(redis.text("G.DEG2 g 10 knows COUNT"), format!("*2 :0 :{}", NEIGHBOURS - 1));
    // The second one finds the set in the cache.
    assert_eq!(redis.text("G.DEG2 g 10 knows COUNT"), format!("*2 :0 :{}", NEIGHBOURS - 1));
    let cut = redis.text("G.DEG2 g 11 knows COUNT BUDGET 1000");
    assert!(cut.starts_with("*2 :1 :"), "{cut}");
    assert_eq!(redis.text(&format!("G.DIST g 10 knows {} MAX 3", 2 * NEIGHBOURS)), "*2 :0 *1 $-1");
    assert_eq!(redis.text(&format!("G.DIST g 10 knows {} 2", NEIGHBOURS + 9)), "*2 :0 *2 :2 :3");
    let asked = (10..10 + 4096).map(|node| format!(" {node}")).collect::<String>();
    let edges = redis.text(&format!("G.GET g 1 knows{asked}"));
    assert_eq!(edges.matches("$4 live").count(), 4096);
    // A transaction and a compound request have the same answers.
    redis.text("MULTI");
    redis.text("G.DEG2 g 12 knows COUNT");
    redis.text("G.ADD g 3 knows 4");
    let done = redis.text("EXEC");
    assert_eq!(done, format!("*2 *2 :0 :{} :1", NEIGHBOURS - 1));
    let part: &[u8] = b"DEG2 13 knows COUNT STALE 1";
    let all: Vec<&[u8]> = [&b"G.QUERY"[..], b"g"].into_iter().chain(std::iter::repeat_n(part, 8)).collect();
    let reply = String::from_utf8(redis.ask(&all)).expect("text").replace("\r\n", " ");
    assert_eq!(reply.trim_end(), format!("*8{}", format!(" *2 :0 :{}", NEIGHBOURS - 1).repeat(8)));
    // Pages with a cursor list every neighbour once, while others are added and removed.
    let (mut cursor, mut listed) = ("0".to_owned(), 0);
    loop {
        let page = redis.text(&format!("G.RANGE g 1 knows LIMIT 4000 CURSOR {cursor}"));
        let words: Vec<&str> = page.split(' ').collect();
        listed += words.len() - 4;
        cursor = words[2].to_owned();
        if cursor == "0" {
            break;
        }
        assert_eq!(redis.text(&format!("G.ADD g 1 knows {}", 1_000_000 + listed)), ":1");
        assert_eq!(redis.text(&format!("G.DEL g 1 knows {}", 1_000_000 + listed)), ":1");
    }
    assert_eq!(listed as u64, NEIGHBOURS);
}

#[test]
fn clients_that_leave_in_the_middle_of_queries_give_their_memory_back() {
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows UNDIRECTED");
    add_star(redis, 1, 10..30_010);
    for round in 0..64 {
        let mut leaver = resp(&running);
        let node = 10 + round;
        leaver.client.send(&crate::common::request::request(&[b"G.DEG2", b"g", node.to_string().as_bytes(), b"knows"]));
        drop(leaver);
    }
    assert_eq!(redis.text("G.DEG2 g 900 knows COUNT"), "*2 :0 :29999");
}

#[test]
fn rights_of_a_user_cover_graphs_by_their_names() {
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE social:a knows UNDIRECTED");
    redis.text("G.TYPE other knows UNDIRECTED");
    redis.text("ACL SETUSER ann on >secret ~social:* +@graph");
    redis.text("ACL SETUSER bob on >secret allkeys +@all -@graph");
    let ann = &mut resp(&running);
    ann.text("AUTH ann secret");
    converse(ann, &[("G.ADD social:a 1 knows 2", ":1"), ("G.NODE SET social:a 1 person", ":1")]);
    for refused in ["G.ADD other 1 knows 2", "G.DIST other 1 knows 2", "G.NODE GET other 1", "GET social:a"] {
        let reply = ann.text(refused);
        assert!(reply.starts_with("-NOPERM"), "{refused}: {reply}");
    }
    for of_all in ["G.STATS", "G.STATS other", "G.SEGMENTS", "G.COMPACT"] {
        let reply = ann.text(of_all);
        assert!(reply.starts_with("-NOPERM"), "{of_all}: {reply}");
    }
    let bob = &mut resp(&running);
    bob.text("AUTH bob secret");
    assert!(bob.text("G.COUNT social:a 1 knows").starts_with("-NOPERM"));
}

/// A container command has no access of its own: each of its subcommands has.
#[test]
fn reader_of_a_graph_reads_objects_and_writer_changes_it_without_the_other_right() {
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows UNDIRECTED");
    redis.text("ACL SETUSER reader on >secret %R~g +@graph");
    redis.text("ACL SETUSER writer on >secret %W~g +@graph");
    let [reader, writer] = &mut ["reader", "writer"].map(|name| {
        let mut client = resp(&running);
        assert_eq!(client.text(&format!("AUTH {name} secret")), "+OK");
        client
    });
    let writes = [
        ("G.TYPE g follows", "+OK"),
        ("G.ADD g 1 knows 2", ":1"),
        ("G.ARCHIVE g 1 knows 2", ":1"),
        ("G.RESTORE g 1 knows 2", ":1"),
        ("G.DEL g 1 knows 2", ":1"),
        ("G.LOAD g knows EDGES 1\t3", "*4 :1 :1 :0 *0"),
        ("G.NODE SET g 1 person", ":1"),
        ("G.NODE ARCHIVE g 1", ":1"),
        ("G.NODE RESTORE g 1", ":1"),
    ];
    for (line, reply) in writes {
        assert!(reader.text(line).starts_with("-NOPERM"), "{line}");
        assert_eq!(writer.shown(line), reply, "{line}");
    }
    for line in ["G.NODE GET g 1", "G.COUNT g 1 knows", "G.STATS g", "G.QUERY g COUNT"] {
        assert!(writer.text(line).starts_with("-NOPERM"), "{line}");
        assert!(!reader.text(line).starts_with("-NOPERM"), "{line}");
    }
    assert_eq!(reader.shown("G.NODE GET g 1"), "*2 $6 person *0");
    assert!(reader.text("G.NODE DEL g 1").starts_with("-NOPERM"));
    assert_eq!(writer.text("G.NODE DEL g 1"), ":1");
    let flags = |redis: &mut Replies, line: &str| redis.shown(&format!("COMMAND GETKEYSANDFLAGS {line}"));
    assert_eq!(flags(redis, "G.NODE GET g 1"), "*1 *2 $1 g *2 +RO +access");
    assert_eq!(flags(redis, "G.NODE DEL g 1"), "*1 *2 $1 g *2 +RW +delete");
    assert_eq!(flags(redis, "G.ADD g 1 knows 2"), flags(redis, "SADD g 1"));
    assert_eq!(flags(redis, "G.DEL g 1 knows 2"), flags(redis, "SREM g 1"));
}

#[test]
fn pause_of_writes_delays_no_read_of_an_object() {
    let running = start(config());
    let redis = &mut resp(&running);
    converse(redis, &[("G.TYPE g knows", "+OK"), ("G.NODE SET g 1 person", ":1"), ("CLIENT PAUSE 60000 WRITE", "+OK")]);
    let [reader, writer] = &mut [resp(&running), resp(&running)];
    assert_eq!(reader.shown("G.NODE GET g 1"), "*2 $6 person *0");
    writer.client.send(&request(&[b"G.NODE", b"DEL", b"g", b"1"]));
    wait_until("the change to wait", || redis.text("INFO clients").contains("blocked_clients:1"));
    assert_eq!(reader.shown("G.NODE GET g 1"), "*2 $6 person *0");
    assert_eq!(redis.text("CLIENT UNPAUSE"), "+OK");
    wait_until("the change", || reader.shown("G.NODE GET g 1") == "$-1");
}

#[test]
fn full_graph_memory_refuses_additions_and_takes_them_again_after_removals() {
    let running: Running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows SCHEMA text");
    let text = "t".repeat(200);
    let (mut source, mut refused) = (1, String::new());
    while refused.is_empty() {
        let mut line = "G.ADD g".to_owned();
        (0..100).for_each(|at| write!(line, " {source} knows {} ATTR text {text}", 1_000_000 + at).expect("text"));
        let reply = redis.text(&line);
        source += 1;
        if reply.starts_with('-') {
            refused = reply;
        }
        assert!(source < 20_000, "the memory is bounded");
    }
    assert!(refused.starts_with("-OOM graph memory is full"), "{refused}");
    let last = source - 1;
    assert_eq!(redis.text("G.COUNT g 1 knows"), ":100");
    for node in 1..last / 2 {
        let mut line = "G.DEL g".to_owned();
        (0..100).for_each(|at| write!(line, " {node} knows {}", 1_000_000 + at).expect("text"));
        let reply = redis.text(&line);
        assert!(reply == ":100" || reply.starts_with("-OOM"), "{reply}");
    }
    crate::common::wait_until("room for an edge", || redis.text("G.ADD g 2 knows 3").starts_with(':'));
}

#[test]
fn second_degrees_follow_marks_of_nodes_although_they_are_cached() {
    let running = start(config());
    let redis = &mut resp(&running);
    converse(
        redis,
        &[
            ("G.TYPE g knows UNDIRECTED", "+OK"),
            ("G.ADD g 1 knows 2 2 knows 3 2 knows 4", ":3"),
            ("G.DEG2 g 1 knows", "*2 :0 *2 $1 0 *2 :3 :4"),
            ("G.NODE ARCHIVE g 3", ":1"),
            ("G.DEG2 g 1 knows", "*2 :0 *2 $1 0 *1 :4"),
            ("G.DEG2 g 1 knows COUNT", "*2 :0 :1"),
            ("G.NODE RESTORE g 3", ":1"),
            ("G.DEG2 g 1 knows COUNT", "*2 :0 :2"),
            ("G.NODE ARCHIVE g 2", ":1"),
            ("G.DEG2 g 1 knows COUNT", "*2 :0 :0"),
        ],
    );
    // A page of a node that was archived since is empty, as that of any node without neighbours.
    redis.text("G.NODE RESTORE g 2");
    let page = redis.shown("G.DEG2 g 1 knows LIMIT 1");
    let cursor = page.split(' ').nth(4).expect("a cursor").to_owned();
    redis.text("G.NODE ARCHIVE g 1");
    assert_eq!(redis.shown(&format!("G.DEG2 g 1 knows CURSOR {cursor}")), "*2 :0 *2 $1 0 *0");
}

#[test]
fn refused_declaration_leaves_no_graph_behind() {
    let running = start(config());
    let redis = &mut resp(&running);
    let (name, long) = ("x".repeat(65), (0..40).map(|at| format!(" name{at}")).collect::<String>());
    let bad =
        ["t INVERSE nope".to_owned(), format!("{name} UNDIRECTED"), format!("t SCHEMA{long}"), "t SCHEMA a a".into()];
    for (number, declaration) in bad.iter().enumerate() {
        let reply = redis.text(&format!("G.TYPE graph{number} {declaration}"));
        assert!(reply.starts_with("-ERR "), "{declaration}: {reply}");
        let reply = redis.text(&format!("G.COUNT graph{number} 1 t"));
        assert_eq!(reply, "-ERR cannot find the graph: no edge type of it is declared; use G.TYPE");
    }
    assert!(redis.shown("G.STATS").ends_with("$6 graphs *0"), "{}", redis.shown("G.STATS"));
}

#[test]
fn attributes_in_any_order_are_the_same_value_and_none_is_given_twice() {
    let running = start(config());
    let redis = &mut resp(&running);
    converse(
        redis,
        &[
            ("G.TYPE g t SCHEMA a b", "+OK"),
            ("G.ADD g 1 t 2 TS 5 ATTR a 1 b 2", ":1"),
            ("G.ADD g 1 t 2 TS 5 ATTR b 2 a 1", ":0"),
            ("G.ADD g 1 t 2 TS 6 ATTR a 1 a 2", "-ERR cannot set 'a' twice in one change: give each name once"),
            ("G.NODE SET g 1 person b 1 a 2 b 3", "-ERR cannot set 'b' twice in one change: give each name once"),
            ("G.NODE DEL g 555", ":0"),
            ("G.NODE SET g 555 person name x", ":1"),
            ("G.NODE DEL g 555", ":1"),
            ("G.NODE DEL g 555", ":0"),
            ("G.DEG2 g 1 t STALE -1", "-ERR STALE '-1' is no number from 0 to 18446744073709551615"),
            ("G.PATH g 1 1 t", "*2 :0 *1 *1 :1"),
            ("G.PATH g 1 1 t K 9", "*2 :0 *1 *1 :1"),
            ("G.DIST g 1 t 1", "*2 :0 *1 :0"),
            ("G.PATH g 777 777 t", "*2 :0 *0"),
            ("G.DIST g 777 t 777", "*2 :0 *1 $-1"),
        ],
    );
}

#[test]
fn repeated_group_of_attributes_loses_none_of_the_first() {
    let running = start(config());
    let redis = &mut resp(&running);
    let attributes = "*1 *3 $4 live :5 *4 $1 a $1 1 $1 b $1 2";
    converse(
        redis,
        &[
            ("G.TYPE g t SCHEMA a b", "+OK"),
            ("G.ADD g 1 t 2 TS 5 ATTR a 1 ATTR b 2", ":1"),
            ("G.GET g 1 t 2", attributes),
            ("G.ADD g 1 t 3 ATTR b 2 TS 5 ATTR a 1", ":1"),
            ("G.GET g 1 t 3", attributes),
            ("G.ADD g 1 t 2 ATTR a 1 ATTR a 2", "-ERR cannot set 'a' twice in one change: give each name once"),
            ("G.ADD g 1 t 2 TS 1 TS 2", "-ERR cannot set 'TS' twice in one change: give each name once"),
            // A group of names follows the word SCHEMA, which is no name.
            ("G.TYPE g twice SCHEMA a SCHEMA b", "+OK"),
            ("G.ADD g 1 twice 2 TS 5 ATTR a 1 b 2", ":1"),
            ("G.GET g 1 twice 2", attributes),
        ],
    );
    let missing = redis.text("G.TYPE g bad SCHEMA SCHEMA");
    assert!(missing.starts_with("-ERR the request ends before the names of attributes; use G.TYPE"), "{missing}");
}

#[test]
fn option_in_the_place_of_a_forgotten_text_is_no_text() {
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE g t");
    for line in ["G.LOAD g t CSV TS", "G.LOAD g t CSV TS 5", "G.LOAD g t EDGES line", "G.LOAD g t EDGES TS 5 LINE 7"] {
        let reply = redis.text(line);
        let expected = "-ERR the request ends before the text; use G.LOAD graph type CSV|EDGES [TS ms] [LINE n] text";
        assert_eq!(reply, expected, "{line}");
    }
    assert_eq!(redis.shown("G.LOAD g t EDGES TS 5 LINE 7 1\t2"), "*4 :1 :1 :0 *0");
}

#[test]
fn archived_node_retains_its_object() {
    let running = start(config());
    let redis = &mut resp(&running);
    converse(
        redis,
        &[
            ("G.TYPE g knows UNDIRECTED", "+OK"),
            ("G.ADD g 1 knows 2", ":1"),
            ("G.NODE SET g 1 person name Ann", ":1"),
            ("G.NODE ARCHIVE g 1", ":1"),
            ("G.RANGE g 2 knows", "*2 $1 0 *0"),
            ("G.NODE GET g 1", "*2 $6 person *2 $4 name $3 Ann"),
            ("G.NODE SET g 1 person name Bo", ":1"),
            ("G.NODE GET g 1", "*2 $6 person *2 $4 name $2 Bo"),
            ("G.NODE RESTORE g 1", ":1"),
            ("G.NODE GET g 1", "*2 $6 person *2 $4 name $2 Bo"),
            ("G.NODE GET g 0", "-ERR cannot use node 0: identifiers 0 and 2^64 - 1 are reserved"),
        ],
    );
}

#[test]
fn bin_is_never_taken_for_the_time() {
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows");
    for line in ["G.NODE SET g 1 person TS 5 name Ann", "G.NODE SET g 1 person ts 5 TS 6"] {
        let reply = redis.text(line);
        assert!(reply.starts_with("-ERR cannot name a bin 'TS': it is the option of the time"), "{line}: {reply}");
    }
    for (line, missing) in [
        ("G.NODE SET g 1 person name Ann TS", "a time in ms"),
        ("G.NODE SET g 1 person name", "the value of a bin"),
        ("G.NODE SET g 1 person name TS 5", "the value of a bin"),
    ] {
        let usage = "use G.NODE SET <graph> <id> <type> [<name> <value> ..] [TS <ms>]";
        assert_eq!(redis.text(line), format!("-ERR the request ends before {missing}; {usage}"), "{line}");
    }
    assert!(redis.text("G.NODE SET g 1 person TS soon").starts_with("-ERR 'soon' is no time"));
    assert_eq!(redis.text("G.NODE GET g 1"), "$-1");
}

#[test]
fn query_of_a_compound_request_is_split_like_an_inline_command() {
    let running = start(config());
    let redis = &mut resp(&running);
    for words in [
        &[&b"G.TYPE"[..], b"g", b"works with", b"UNDIRECTED"][..],
        &[b"G.ADD", b"g", b"1", b"works with", b"2", b"2", b"works with", b"3"],
    ] {
        assert!(!redis.ask(words).starts_with(b"-"));
    }
    let words: &[&[u8]] = &[
        b"G.QUERY",
        b"g",
        b"COUNT 2 \"works with\"",
        b"\tDIST  1\n'works with' 3 ",
        b"COUNT 2 \"works\\x20with\"",
        b"COUNT 2 \"works with",
        b"COUNT 2 'works with'x",
        b" \t",
        b"RANGE 2 'works with' LIMIT",
        b"RANGE 2 'works with' FAST",
    ];
    let reply = String::from_utf8(redis.ask(words)).expect("text").replace("\r\n", " ");
    let unbalanced = "its quotes are unbalanced; close each, and put a space behind it";
    let usage = "use G.RANGE graph src type [CURSOR c] [LIMIT n] [BYTIME a b] [REV] [WITHATTR] [STATE s]";
    let expected = format!(
        "*8 :2 *2 :0 *1 :2 :2 -ERR cannot read the query 'COUNT 2 \"works with': {unbalanced} -ERR cannot read the \
         query 'COUNT 2 'works with'x': {unbalanced} -ERR the request ends before a query; use G.QUERY graph \
         query [query ..] -ERR the request ends before LIMIT; {usage} -ERR syntax error at 'FAST'; {usage}"
    );
    assert_eq!(reply.trim_end(), expected);
}

#[test]
fn error_of_syntax_states_the_syntax_also_within_a_transaction() {
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows");
    let deg2 = "G.DEG2 graph src type [COUNT] [CURSOR c] [LIMIT n] [BUDGET n] [STALE n]";
    let expected = format!("-ERR syntax error at 'X'; use {deg2}");
    assert_eq!(redis.text("G.DEG2 g 1 knows X"), expected);
    converse(redis, &[("MULTI", "+OK"), ("G.DEG2 g 1 knows X", "+QUEUED"), ("EXEC", &format!("*1 {expected}"))]);
    assert_eq!(redis.text("G.NODE DEL g 1 X"), "-ERR syntax error at 'X'; use G.NODE DEL <graph> <id> [TS <ms>]");
    let add = "G.ADD graph src type dst [TS ms] [NEGATIVE] [ATTR name value ..] [src type dst ..]";
    assert_eq!(redis.text("G.ADD g 1 knows 2 3"), format!("-ERR the request ends before an edge type; use {add}"));
}

#[test]
fn error_of_too_long_attributes_states_the_bytes_of_each() {
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE g t SCHEMA a b");
    let add =
        |value: usize, other: usize| format!("G.ADD g 1 t 2 ATTR a {} b {}", "x".repeat(value), "y".repeat(other));
    assert_eq!(redis.text(&add(250, 1)), ":1");
    for (value, other, total) in [(250, 2, 256), (254, 1, 259), (300, 1, 305)] {
        let expected = format!(
            "-ERR cannot store {total} bytes of attributes: at most 255 fit, with 2 for each attribute besides its \
             value; shorten the values"
        );
        assert_eq!(redis.text(&add(value, other)), expected);
    }
}

#[test]
fn info_has_the_figures_of_graphs_only_where_there_is_a_store() {
    let (without, running) = (start(both()), start(config()));
    assert!(!resp(&without).text("INFO everything").contains("# Graph"));
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows UNDIRECTED");
    redis.text("G.ADD g 1 knows 2");
    let stats = redis.shown("G.STATS");
    for request in ["INFO", "INFO graph", "INFO all"] {
        let text = redis.text(request);
        assert!(text.contains("# Graph graph_count:1 graph_memory_bytes:"), "{text}");
        for name in ["segment_bytes", "live_bytes", "record_bytes", "edges_changed"] {
            let value = stats.split(&format!(" {name} :")).nth(1).expect("a figure");
            let value = value.split(' ').next().expect("a number");
            assert!(text.contains(&format!(" graph_{name}:{value} ")), "{name} is not {value}: {text}");
        }
    }
}

#[test]
fn queries_of_a_compound_request_need_the_rights_to_their_commands() {
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE open knows UNDIRECTED");
    redis.text("G.TYPE secret knows UNDIRECTED");
    redis.text("G.ADD open 1 knows 2");
    redis.text("ACL SETUSER ann on >secret ~open +@all -g.path");
    let ann = &mut resp(&running);
    ann.text("AUTH ann secret");
    let words: &[&[u8]] = &[b"G.QUERY", b"open", b"COUNT 1 knows", b"PATH 1 2 knows", b"DIST 1 knows 2"];
    let reply = String::from_utf8(ann.ask(words)).expect("text").replace("\r\n", " ");
    assert_eq!(reply.trim_end(), "*3 :1 -NOPERM this user has no permissions to run the 'g.path' command *2 :0 *1 :1");
    // Figures of one graph need the right to that graph only.
    assert!(ann.shown("G.STATS open").starts_with("*4 $5 nodes :2"), "{}", ann.shown("G.STATS open"));
    for refused in ["G.STATS", "G.STATS secret"] {
        assert!(ann.text(refused).starts_with("-NOPERM"), "{refused}");
    }
    assert_eq!(redis.shown("COMMAND GETKEYS G.STATS open"), "*1 $4 open");
}

#[test]
fn distances_to_thousands_of_nodes_of_a_directed_type_are_right() {
    let running = start(config());
    let redis = &mut resp(&running);
    redis.text("G.TYPE g knows");
    add_star(redis, 1, 2..400);
    for source in 2..12 {
        add_star(redis, source, source * 1000..source * 1000 + 400);
    }
    let targets: Vec<u64> = (0..2000).map(|at| if at % 2 == 0 { 2000 + at % 800 } else { 900_000 + at }).collect();
    let line = targets.iter().map(|target| format!(" {target}")).collect::<String>();
    let reply = redis.shown(&format!("G.DIST g 1 knows{line}"));
    let expected: Vec<&str> = targets.iter().map(|target| if *target < 2400 { ":2" } else { "$-1" }).collect();
    assert_eq!(reply, format!("*2 :0 *2000 {}", expected.join(" ")));
}

/// Regression: the age of tombstones was that of the wall clock, so that a step forward dropped them.
#[test]
fn step_of_the_wall_clock_drops_no_tombstone() {
    let running = start(config());
    let redis = &mut resp(&running);
    assert_eq!(redis.text("G.TYPE g knows"), "+OK");
    // Many changes of a list merge it, which marks or drops its tombstones.
    let mut at = 100;
    let mut merge = |redis: &mut Replies| {
        add_star(redis, 1, at..at + 500);
        at += 500;
    };
    merge(redis);
    assert_eq!(redis.text("G.ADD g 1 knows 50 TS 100"), ":1");
    assert_eq!(redis.text("G.DEL g 1 knows 50 TS 200"), ":1");
    merge(redis);
    let real_ms = running.shared().wall_ahead_ms();
    for day in [1, -1] {
        for _ in 0..30 {
            running.shared().set_wall_ahead_ms(real_ms + day * 86_400_000);
            std::thread::sleep(std::time::Duration::from_millis(10));
            merge(redis);
        }
        assert_eq!(redis.text("G.ADD g 1 knows 50 TS 150"), ":0", "after a step by {day} days");
    }
    running.stop();
}
