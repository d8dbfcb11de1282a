//! Tests every verb of RESP2 and RESP3, and compares the counts of generator and server.

use super::common::{Outcome, Server, Where, load, prefill, since, workload};

/// A workload of strings whose values are checked.
const STRINGS: &str = r#"
verify = true
seed = 5
[connections]
count = 6
threads = 2
depth = 8
[[keys]]
count = 300
prefix = "v:"
order = { zipf = 0.9 }
value_bytes = { from = "1B", to = "3000B" }
ttl = [{ ttl = "1h" }, { ttl = "0s" }]
verbs = [
    { verb = "get", weight = 8 }, { verb = "get", keys = 7 }, { verb = "set" }, { verb = "add" },
    { verb = "replace" }, { verb = "delete", weight = 2 }, { verb = "touch" },
]
"#;

/// A workload of hashes whose values are checked, over connections that authenticate and select a database first.
const HASHES: &str = r#"
verify = true
[auth]
password = "open-sesame"
database = 3
[connections]
count = 4
depth = 8
[[keys]]
count = 60
prefix = "h:"
fields = 8
value_bytes = { from = "24B", to = "300B" }
verbs = [
    { verb = "hset" }, { verb = "hget", weight = 3 }, { verb = "hmget", fields = 4 },
    { verb = "hgetall" }, { verb = "hdel", fields = 7 },
]
[[keys]]
weight = 0.1
verbs = [{ verb = "ping" }]
"#;

fn both_ways(outcome: &Outcome, verbs: &[&str]) {
    for verb in verbs {
        let (hit, miss) = (outcome.of(&format!("{verb} hit")), outcome.of(&format!("{verb} miss")));
        assert!(hit > 0 && miss > 0, "{verb} had only hits or only misses: {:?}", outcome.counts);
    }
}

#[test]
fn strings_are_counted_as_redis_counts_them() {
    strings_in("resp");
    strings_in("resp3");
}

fn strings_in(protocol: &str) {
    let server = Server::redis(Where::Unix, &[]);
    let workload = workload(&format!("protocol = \"{protocol}\"\n{STRINGS}"), &[&server]);
    let outcome = load(&workload, 30_000);
    let totals = outcome.run.bulk.totals;
    assert_eq!((totals.errors, totals.wrong, outcome.tally.values_wrong), (0, 0, 0), "{:?}", outcome.counts);
    both_ways(&outcome, &["get", "get of 7", "add", "replace", "delete", "touch"]);
    let server = since(&Default::default(), &server.counts());
    assert_eq!(server("keyspace_hits"), outcome.tally.keys_found);
    assert_eq!(server("keyspace_misses"), outcome.tally.keys_missed);
    assert_eq!((server("get.calls"), server("mget.calls")), (outcome.all("get"), outcome.all("get of 7")));
    let plain = ["set", "add", "replace"].iter().map(|verb| outcome.all(verb)).sum::<u64>();
    assert_eq!(server("set.calls") + server("setex.calls"), plain);
    assert!(server("setex.calls") > 0, "some keys have a time to live");
    assert_eq!((server("del.calls"), server("expire.calls")), (outcome.all("delete"), outcome.all("touch")));
    assert_eq!(server("total_error_replies"), 0);
}

#[test]
fn hash_counts_match_redis_stats_with_password_and_database() {
    let connections = 4;
    let greeted = hashes_in("resp");
    // One more connection reads the counters.
    assert_eq!((greeted("auth.calls"), greeted("select.calls")), (connections + 1, connections + 1));
    let greeted = hashes_in("resp3");
    assert_eq!((greeted("hello.calls"), greeted("select.calls")), (connections, connections + 1));
}

fn hashes_in(protocol: &str) -> impl Fn(&str) -> u64 + use<> {
    let mut server = Server::redis(Where::Tcp, &["--requirepass", "open-sesame"]);
    server.greeting = "AUTH open-sesame\r\nSELECT 3\r\n".to_owned();
    let workload = workload(&format!("protocol = \"{protocol}\"\n{HASHES}"), &[&server]);
    let outcome = load(&workload, 20_000);
    let totals = outcome.run.bulk.totals;
    assert_eq!((totals.errors, totals.wrong, outcome.tally.values_wrong), (0, 0, 0), "{:?}", outcome.counts);
    both_ways(&outcome, &["hget", "hmget", "hgetall", "hdel"]);
    let server = since(&Default::default(), &server.counts());
    for verb in ["hset", "hget", "hmget", "hgetall", "hdel"] {
        assert_eq!(server(&format!("{verb}.calls")), outcome.all(verb), "{verb}");
    }
    assert_eq!(server("ping.calls"), outcome.all("ping"));
    assert_eq!(server("total_error_replies"), 0);
    server
}

#[test]
fn counters_raw_commands_and_errors_are_counted_as_redis_counts_them() {
    let server = Server::redis(Where::Unix, &[]);
    let text = r#"
protocol = "resp"
[connections]
count = 3
depth = 4
[[keys]]
count = 40
prefix = "c:"
verbs = [{ verb = "incr", delta = 7, weight = 3 }, { verb = "decr", delta = 2 }]
[[keys]]
count = 40
prefix = "t:"
value_bytes = "30B"
verbs = [
    { verb = "append" }, { verb = "raw", command = "SETRANGE __key__ 3 __data__" },
    { verb = "raw", command = "STRLEN __key__" }, { verb = "raw", command = "HGET __key__ f" },
    { verb = "raw", command = "NOSUCHCOMMAND __key__ __length__" }, { verb = "raw", command = "GETEX x__key__ EX 5" },
]
"#;
    let workload = workload(text, &[&server]);
    let filled = prefill(&workload);
    assert_eq!((filled.all("fill"), filled.of("fill hit")), (80, 80));
    let outcome = load(&workload, 20_000);
    let counters = server.ask(&mget_of_all("c:", 40), "$-1\r\n");
    let counters = counters.lines().filter(|line| !line.starts_with(['*', '$']));
    let sum: i64 = counters.map(|line| line.parse::<i64>().expect("a counter")).sum();
    assert_eq!(
        sum,
        7 * outcome.of("incr hit") as i64 - 2 * outcome.of("decr hit") as i64,
        "each request changed its counter once"
    );
    let server = since(&Default::default(), &server.counts());
    assert_eq!((server("keys"), server("set.calls")), (80, 80), "only the prefill created keys");
    assert_eq!((server("incrby.calls"), server("decrby.calls")), (outcome.all("incr"), outcome.all("decr")));
    for verb in ["append", "setrange", "strlen", "hget", "getex"] {
        assert!(outcome.all(verb) > 100, "{:?}", outcome.counts);
        assert_eq!(server(&format!("{verb}.calls")), outcome.all(verb), "{verb}");
    }
    assert_eq!(outcome.of("getex miss"), outcome.all("getex"), "those keys were never stored");
    assert_eq!(outcome.of("hget error"), server("hget.failed"), "HGET of a string is an error");
    assert_eq!(outcome.of("hget error"), outcome.all("hget"));
    assert_eq!(outcome.of("nosuchcommand error"), outcome.all("nosuchcommand"));
    assert_eq!(outcome.run.bulk.totals.errors, server("total_error_replies"));
}

/// Returns an `MGET` of all `count` keys of a space with keys of 16 bytes, and of a key that does not exist.
fn mget_of_all(prefix: &str, count: u64) -> String {
    let digits = 16 - prefix.len();
    let keys: Vec<String> = (0..count).map(|number| format!("{prefix}{number:0digits$}")).collect();
    format!("MGET {} nobody\r\n", keys.join(" "))
}
