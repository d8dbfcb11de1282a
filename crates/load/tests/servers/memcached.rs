//! Tests every verb of both memcached protocols, and compares the counts of generator and server.

use base::clock::UnixMillis;
use gannet_load::engine::{Control, run};
use gannet_load::workload::source::RequestSource;

use super::common::{Outcome, Server, Where, config, load, prefill, since, workload};

/// A workload with checked values and all verbs that keep values checkable. It has few keys, so many requests are for
/// the same keys.
const CHECKED: &str = r#"
verify = true
seed = 7
[connections]
count = 6
threads = 2
depth = 8
[[keys]]
count = 300
prefix = "v:"
order = { zipf = 0.9 }
value_bytes = { from = "1B", to = "3000B" }
ttl = [{ ttl = "1h" }, { ttl = "60d" }]
verbs = [
    { verb = "get", weight = 8 }, { verb = "get", keys = 7 }, { verb = "gets" }, { verb = "gets", keys = 3 },
    { verb = "set" }, { verb = "add" }, { verb = "replace" }, { verb = "cas", weight = 2 },
    { verb = "delete", weight = 2 }, { verb = "touch" },
]
"#;

fn checked(protocol: &str) -> String {
    format!("protocol = \"{protocol}\"\n{CHECKED}")
}

/// Asserts the conditions that hold for both protocols after [`CHECKED`].
fn nothing_wrong(outcome: &Outcome) {
    let totals = outcome.run.bulk.totals;
    assert_eq!((totals.errors, totals.wrong, outcome.tally.values_wrong), (0, 0, 0), "{:?}", outcome.counts);
    assert_eq!(outcome.tally.follow_ups_dropped, 0);
    for verb in ["get", "get of 7", "gets", "gets of 3", "set", "add", "replace", "cas", "delete", "touch"] {
        assert!(outcome.all(verb) > 100, "too few requests of {verb}: {:?}", outcome.counts);
    }
    for both in ["get", "get of 7", "add", "replace", "cas", "delete", "touch"] {
        let (hit, miss) = (outcome.of(&format!("{both} hit")), outcome.of(&format!("{both} miss")));
        assert!(hit > 0 && miss > 0, "{both} had only hits or only misses: {:?}", outcome.counts);
    }
}

#[test]
fn text_commands_are_counted_as_memcached_counts_them() {
    let server = Server::memcached(Where::Unix, &[]);
    let workload = workload(&checked("memcache"), &[&server]);
    let outcome = load(&workload, 30_000);
    nothing_wrong(&outcome);
    let server = since(&Default::default(), &server.counts());
    assert_eq!(server("get_hits"), outcome.tally.keys_found);
    assert_eq!(server("get_misses"), outcome.tally.keys_missed);
    let keys = outcome.all("get") + 7 * outcome.all("get of 7") + outcome.all("gets") + 3 * outcome.all("gets of 3");
    assert_eq!(server("cmd_get"), keys);
    let stores = ["set", "add", "replace", "cas"].iter().map(|verb| outcome.all(verb)).sum::<u64>();
    assert_eq!(server("cmd_set"), stores);
    assert_eq!(server("cas_hits"), outcome.of("cas hit"));
    assert_eq!(server("cas_misses") + server("cas_badval"), outcome.of("cas miss"));
    assert_eq!(server("delete_hits"), outcome.of("delete hit"));
    assert_eq!(server("delete_misses"), outcome.of("delete miss"));
    assert_eq!((server("touch_hits"), server("touch_misses")), (outcome.of("touch hit"), outcome.of("touch miss")));
    // memcached also counts its listener, the connection that checked whether the server is up, and the connection that
    // reads the counters.
    assert_eq!(server("total_connections"), 6 + 1 + 2);
}

#[test]
fn meta_commands_are_counted_as_memcached_counts_them() {
    let server = Server::memcached(Where::Unix, &[]);
    let workload = workload(&checked("meta"), &[&server]);
    let outcome = load(&workload, 30_000);
    nothing_wrong(&outcome);
    let server = since(&Default::default(), &server.counts());
    // The touch verb is sent as an `mg` with a new time to live, and memcached counts it as a touch.
    assert_eq!(server("get_hits") + server("touch_hits"), outcome.tally.keys_found + outcome.of("touch hit"));
    assert_eq!(server("touch_hits"), outcome.of("touch hit"));
    assert_eq!(server("get_misses") + server("touch_misses"), outcome.tally.keys_missed);
    let stores = ["set", "add", "replace", "cas"].iter().map(|verb| outcome.all(verb)).sum::<u64>();
    assert_eq!(server("cmd_set"), stores);
    assert_eq!(server("cas_hits"), outcome.of("cas hit"));
    assert_eq!(server("cas_misses") + server("cas_badval"), outcome.of("cas miss"));
    assert_eq!((server("delete_hits"), server("delete_misses")), (outcome.of("delete hit"), outcome.of("delete miss")));
}

#[test]
fn modifying_command_counts_match_memcached_stats() {
    let text = r#"
[connections]
count = 4
depth = 4
[[keys]]
count = 50
prefix = "c:"
verbs = [{ verb = "incr", delta = 5, weight = 3 }, { verb = "decr", delta = 1 }]
[[keys]]
count = 2000
prefix = "t:"
value_bytes = "100B"
verbs = [
    { verb = "append" }, { verb = "prepend" }, { verb = "raw", command = "gat 60 __key__" },
    { verb = "raw", command = "incr __key__ 1" }, { verb = "raw", command = "delete x__key__" },
    { verb = "raw", command = "set y__key__ 0 0 __length__\r\n__data__" }, { verb = "raw", command = "verbosity" },
]
"#;
    for protocol in ["memcache", "meta"] {
        let server = Server::memcached(Where::Unix, &[]);
        let workload = workload(&format!("protocol = \"{protocol}\"\n{text}"), &[&server]);
        let filled = prefill(&workload);
        assert_eq!((filled.all("fill"), filled.of("fill hit")), (2_050, 2_050));
        let before = server.counts();
        assert_eq!((before["curr_items"], before["cmd_set"]), (2_050, 2_050));
        let outcome = load(&workload, 20_000);
        let server = since(&before, &server.counts());
        assert_eq!(server("cmd_set"), outcome.all("append") + outcome.all("prepend") + outcome.all("set"));
        assert_eq!(server("decr_hits"), outcome.all("decr"));
        assert_eq!((outcome.of("append miss"), outcome.of("prepend miss"), outcome.of("set miss")), (0, 0, 0));
        assert_eq!(outcome.all("gat"), server("touch_hits"));
        assert_eq!((outcome.all("delete"), outcome.of("delete hit")), (server("delete_misses"), 0));
        assert_eq!((server("incr_hits"), server("incr_misses")), (outcome.of("incr hit"), 0));
        assert!(outcome.of("incr error") > 100, "incr of a text is an error: {:?}", outcome.counts);
        assert_eq!(outcome.of("verbosity error"), outcome.all("verbosity"));
        assert_eq!(outcome.run.bulk.totals.errors, outcome.of("incr error") + outcome.of("verbosity error"));
    }
}

#[test]
fn meta_verbs_with_flags_are_counted_as_memcached_counts_them() {
    let text = r#"
protocol = "meta"
verify = true
[connections]
count = 4
depth = 8
[[keys]]
count = 200
prefix = "m:"
value_bytes = { from = "1B", to = "9000B" }
verbs = [
    { verb = "mg", flags = "v t f s c k O7", weight = 4 }, { verb = "ms", flags = "T60 F5 c" },
    { verb = "ms", flags = "MR" }, { verb = "md", flags = "k O1" },
]
"#;
    let server = Server::memcached(Where::Unix, &[]);
    let outcome = load(&workload(text, &[&server]), 20_000);
    let totals = outcome.run.bulk.totals;
    assert_eq!((totals.errors, totals.wrong), (0, 0), "{:?}", outcome.counts);
    assert!(outcome.of("mg miss") > 100 && outcome.of("ms miss") > 100, "{:?}", outcome.counts);
    let server = since(&Default::default(), &server.counts());
    assert_eq!((server("get_hits"), server("get_misses")), (outcome.of("mg hit"), outcome.of("mg miss")));
    assert_eq!(server("cmd_set"), outcome.all("ms"));
    assert_eq!((server("delete_hits"), server("delete_misses")), (outcome.of("md hit"), outcome.of("md miss")));
    let text = r#"
protocol = "meta"
[connections]
count = 2
[[keys]]
count = 30
prefix = "n:"
verbs = [{ verb = "ma", flags = "N0 J10 D3 v" }, { verb = "ma", flags = "MD" }]
"#;
    let server = Server::memcached(Where::Unix, &[]);
    let outcome = load(&workload(text, &[&server]), 5_000);
    let stored: u64 = (0..30)
        .map(|number| {
            let answer = server.ask(&format!("mg n:{number:014} v\r\n"), "\r\n");
            answer
                .lines()
                .nth(1)
                .map_or_else(|| panic!("{answer}"), |line| line.trim().parse::<u64>().expect("a number"))
        })
        .sum();
    assert!(stored > 0);
    let server = since(&Default::default(), &server.counts());
    assert_eq!(outcome.run.bulk.totals.errors, 0, "{:?}", outcome.counts);
    assert_eq!(outcome.of("ma miss"), server("decr_misses"), "only a decrement misses an absent key");
    // An `ma` with N creates each of the 30 keys once; memcached counts that neither as a hit nor as a miss.
    assert_eq!(outcome.of("ma hit"), server("incr_hits") + server("decr_hits") + 30);
    assert_eq!(server("incr_misses"), 0);
}

#[test]
fn a_read_that_misses_is_filled_and_read_back() {
    let text = r#"
protocol = "PROTOCOL"
verify = true
fill_on_miss = true
[connections]
count = 1
depth = 1
[[keys]]
count = 500
prefix = "f:"
order = "sequential"
value_bytes = { from = "1B", to = "20000B" }
verbs = [{ verb = "get" }]
"#;
    for (protocol, server) in [
        ("memcache", Server::memcached(Where::Unix, &[])),
        ("meta", Server::memcached(Where::Tcp, &[])),
        ("resp", Server::redis(Where::Unix, &[])),
    ] {
        let outcome = load(&workload(&text.replace("PROTOCOL", protocol), &[&server]), 1_200);
        let expected = [("get miss", 500), ("fill hit", 500), ("get hit", 700)];
        assert_eq!(outcome.counts, expected.map(|(name, count)| (name.to_owned(), count)).into(), "{protocol}");
        let counts = server.counts();
        let (stored, held) = if protocol == "resp" { ("set.calls", "keys") } else { ("cmd_set", "curr_items") };
        assert_eq!((counts[stored], counts[held]), (500, 500), "{protocol}");
    }
}

#[test]
fn only_values_of_other_writers_fail_verification() {
    let text = r#"
protocol = "memcache"
verify = true
[connections]
count = 4
depth = 8
[[keys]]
count = 1000
prefix = "w:"
order = "sequential"
value_bytes = "50B"
verbs = [{ verb = "get" }]
"#;
    let server = Server::memcached(Where::Tcp, &[]);
    let workload = workload(text, &[&server]);
    prefill(&workload);
    // A value with a flipped bit, a value of another length, and the value of another key.
    for number in 0..10 {
        let key = |number: u32| format!("w:{number:014}");
        let head = format!("VALUE {} 0 50\r\n", key(number));
        let answer = server.ask_bytes(format!("get {}\r\n", key(number)).as_bytes(), "END\r\n");
        let value = answer.strip_prefix(head.as_bytes()).expect("it was stored")[..50].to_vec();
        let (mut flipped, mut longer) = (value.clone(), value.clone());
        flipped[49] ^= 1;
        longer.push(b'x');
        for (at, other) in [(number, flipped), (100 + number, longer), (200 + number, value)] {
            let mut store = format!("set {} 0 0 {}\r\n", key(at), other.len()).into_bytes();
            store.extend_from_slice(&other);
            store.extend_from_slice(b"\r\n");
            assert_eq!(server.ask_bytes(&store, "\r\n"), b"STORED\r\n");
        }
        assert_eq!(server.ask(&format!("delete {}\r\n", key(300 + number)), "\r\n"), "DELETED\r\n");
    }
    let outcome = load(&workload, 1_000);
    let expected = [("get hit", 960), ("get miss", 10), ("get wrong", 30)];
    assert_eq!(outcome.counts, expected.map(|(name, count)| (name.to_owned(), count)).into());
    assert_eq!(outcome.tally.values_wrong, 30);
}

#[test]
fn connections_authenticate_to_server_that_requires_it() {
    let users = std::env::temp_dir().join(format!("gannet-load-users-{}", std::process::id()));
    std::fs::write(&users, "ann:secret\n").expect("a file");
    let mut server = Server::memcached(Where::Unix, &["-Y", users.to_str().expect("text")]);
    server.greeting = "set a 0 0 10\r\nann secret\r\n".to_owned();
    let text = |password: &str| {
        format!(
            "protocol = \"memcache\"\nverify = true\nprefill = true\n\
             [auth]\nuser = \"ann\"\npassword = \"{password}\"\n[connections]\ncount = 5\ndepth = 4\n\
             [[keys]]\ncount = 100\nverbs = [{{ verb = \"get\" }}, {{ verb = \"set\" }}]\n"
        )
    };
    let own = workload(&text("secret"), &[&server]);
    assert_eq!(prefill(&own).of("fill hit"), 100);
    let outcome = load(&own, 5_000);
    let wrong = workload(&text("guess"), &[&server]);
    let refused = run(
        &config(&wrong, 10),
        |place| RequestSource::new(&wrong, place.thread as u32, UnixMillis::now()),
        &Control::new(0.0),
    );
    let refused = refused.expect_err("the password is wrong").to_string();
    assert!(refused.contains("check the user and the password"), "{refused}");
    let counts = server.ask("stats\r\n", "END\r\n");
    let counter = |name: &str| -> u64 {
        let line = counts.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} "))).expect("it is counted");
        line.parse().expect("a number")
    };
    assert_eq!((outcome.of("get hit"), outcome.of("set hit")), (counter("get_hits"), counter("cmd_set") - 100));
    assert_eq!(
        (counter("auth_cmds"), counter("auth_errors")),
        (5 + 5 + 5 + 1, 5),
        "one more connection reads the counters"
    );
    std::fs::remove_file(users).expect("it was there");
}
