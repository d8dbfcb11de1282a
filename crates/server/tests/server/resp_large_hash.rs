//! Tests of hashes with many fields over sockets: the replies equal those of Redis, walks return every field, deletion
//! frees the memory, and eviction removes a whole hash or nothing.

use crate::common::redis::{Redis, Replies, both, request, resp, running, words};
use crate::common::{start, wait_until};
use base::prng::Prng;
use gannet_server::start::ServerConfig;
use std::collections::HashSet;

/// Sends all requests at once and returns their replies.
fn all(redis: &mut Replies, lines: &[String]) -> Vec<Vec<u8>> {
    let batch: Vec<u8> = lines.iter().flat_map(|line| request(&words(line))).collect();
    redis.client.send(&batch);
    lines.iter().map(|_| redis.next()).collect()
}

/// Returns the words of a reply in sorted order, for replies without a fixed order. Pairs stay together.
fn sorted(reply: &[u8], together: usize) -> Vec<String> {
    let text = String::from_utf8(reply.to_vec()).unwrap();
    let words: Vec<&str> =
        text.split("\r\n").filter(|word| !word.starts_with(['*', '$', '%']) && !word.is_empty()).collect();
    let mut replied: Vec<String> = words.chunks(together).map(|words| words.join(" ")).collect();
    replied.sort_unstable();
    replied
}

fn line(prng: &mut Prng, fields: u64) -> String {
    let field = |prng: &mut Prng| match prng.below(fields) {
        number if number % 4 == 0 => number.to_string(),
        number => format!("field:{number}"),
    };
    let name = field(prng);
    match prng.below(14) {
        0..3 => format!("HSET h {name} v{}", prng.below(100_000)),
        3 => format!("HSET h {name} {} {} x {} {}", prng.below(1000), field(prng), field(prng), prng.below(50)),
        4 => format!("HINCRBY h {name} {}", prng.below(100)),
        5 => format!("HDEL h {name} {}", field(prng)),
        6 => format!("HSETNX h {name} new"),
        7 => format!("HMGET h {name} {} {}", field(prng), field(prng)),
        8 => format!("HEXISTS h {name}"),
        9 => format!("HSTRLEN h {name}"),
        10 => "HLEN h".into(),
        11 => format!("HINCRBYFLOAT h {name} 0.5"),
        _ => format!("HGET h {name}"),
    }
}

#[test]
fn hashes_of_up_to_a_hundred_thousand_fields_are_those_of_redis() {
    let (theirs, running) = (Redis::start(), running());
    let (mut redis, mut gannet) = (Replies::connect(theirs.addr), resp(&running));
    let mut large = 0;
    for (seed, fields) in [1000u64, 5000, 100_000].into_iter().enumerate() {
        println!("seed {seed}, {fields} fields");
        let mut prng = Prng::new(seed as u64);
        // Filled a hundred at a time, in an order of no meaning.
        for first in (0..fields).step_by(100) {
            let mut line = "HSET h".to_owned();
            for number in first..first + 100 {
                let number = (number * 7919) % fields;
                line +=
                    &if number % 4 == 0 { format!(" {number} {number}") } else { format!(" field:{number} v{number}") };
            }
            let lines = [line, "HLEN h".to_owned()];
            assert_eq!(all(&mut redis, &lines), all(&mut gannet, &lines));
        }
        for _ in 0..20 {
            let lines: Vec<String> = (0..200).map(|_| line(&mut prng, fields * 11 / 10)).collect();
            for ((line, theirs), ours) in lines.iter().zip(all(&mut redis, &lines)).zip(all(&mut gannet, &lines)) {
                assert_eq!(theirs.escape_ascii().to_string(), ours.escape_ascii().to_string(), "{line}");
            }
        }
        large += usize::from(gannet.text("OBJECT ENCODING h") == "$9 hashtable");
        let replied = |replies: &mut Replies, line: &str, together| sorted(&replies.ask(&words(line)), together);
        for (line, together) in [("HGETALL h", 2), ("HKEYS h", 1), ("HVALS h", 1)] {
            assert_eq!(replied(&mut redis, line, together), replied(&mut gannet, line, together), "{line}");
        }
        // The hash is renamed and copied; changes of the copy do not affect the original.
        for line in ["RENAME h i", "COPY i h", "HSET i only-here 1", "HLEN i", "HLEN h", "HEXISTS h only-here", "DEL i"]
        {
            assert_eq!(redis.text(line), gannet.text(line), "{line}");
        }
        assert_eq!(replied(&mut redis, "HGETALL h", 2), replied(&mut gannet, "HGETALL h", 2), "copied");
        // Down to a few, and none.
        let names = replied(&mut gannet, "HKEYS h", 1);
        let deletions: Vec<String> = names.chunks(50).map(|names| format!("HDEL h {}", names.join(" "))).collect();
        for lines in deletions.chunks(100) {
            assert_eq!(all(&mut redis, lines), all(&mut gannet, lines));
        }
        assert_eq!(gannet.text("EXISTS h"), ":0");
        wait_until("the end of all parts", || running.shared().store_stats().items == 0);
    }
    assert_eq!(large, 3);
    running.stop();
}

#[test]
fn a_walk_misses_no_field_that_stays_while_the_hash_grows_large_and_small_again() {
    let running = running();
    let mut redis = resp(&running);
    let stays = |number: u64| format!("stays:{number}");
    for number in 0..200 {
        redis.text(&format!("HSET h {} {number}", stays(number)));
    }
    // Whether the hash was stored in parts.
    let mut forms = HashSet::new();
    for round in 0..6 {
        let (mut cursor, mut replied, mut calls) = ("0".to_owned(), HashSet::new(), 0);
        loop {
            let reply = redis.text(&format!("HSCAN h {cursor} COUNT 100"));
            let mut words = reply.split(' ').filter(|word| !word.starts_with(['*', '$']));
            cursor = words.next().unwrap().to_owned();
            replied.extend(words.filter(|word| word.starts_with("stays:")).map(str::to_owned));
            forms.insert(running.shared().store_stats().items > 1);
            // It grows in the middle of one walk and shrinks in that of the next.
            for number in 0..200 {
                let name = format!("{}", calls * 200 + number);
                let changed = match round % 2 {
                    0 => format!("HSET h {name} a-value-of-some-bytes"),
                    _ => format!("HDEL h {name}"),
                };
                redis.text(&changed);
            }
            calls += 1;
            if cursor == "0" {
                break;
            }
        }
        assert!((0..200).all(|number| replied.contains(&stays(number))), "round {round}: {} told", replied.len());
        if round % 2 == 1 {
            let all = redis.text("HKEYS h");
            let gone: Vec<&str> = all.split(' ').filter(|word| !word.starts_with(['*', '$', 's'])).collect();
            for names in gone.chunks(100) {
                redis.text(&format!("HDEL h {}", names.join(" ")));
            }
        }
    }
    assert_eq!(forms.len(), 2, "{forms:?}");
    running.stop();
}

#[test]
fn fields_of_a_large_hash_end_and_a_record_of_a_set_may_be_large() {
    let running = running();
    let mut redis = resp(&running);
    for number in 0..1000 {
        redis.text(&format!("REC.PUT r IN set BINS bin{number} STR some-value-of-{number}"));
    }
    for (line, reply) in [
        ("OBJECT ENCODING r", "$9 hashtable"),
        ("HLEN r", ":1000"),
        ("REC.EXISTS r", ":1000"),
        ("REC.GET r BINS bin7 none", "*3 :1000 :-1 *4 $4 bin7 $15 some-value-of-7 $4 none $-1"),
        ("HPEXPIREAT r 4000000000000 FIELDS 2 bin1 bin2", "*2 :1 :1"),
        ("HPEXPIRETIME r FIELDS 3 bin1 bin3 none", "*3 :4000000000000 :-1 :-2"),
        ("HPEXPIREAT r 1 FIELDS 2 bin1 none", "*2 :2 :-2"),
        ("HLEN r", ":999"),
        ("HPERSIST r FIELDS 1 bin2", "*1 :1"),
        (
            "REC.OPERATE r OPS PUT new INT 5 ADD new INT 1 GET bin999 ADD bin5 INT 1",
            "-BINTYPE record 'r', bin 'bin5': it holds STR, not INT",
        ),
        ("REC.OPERATE r OPS PUT new INT 5 ADD new INT 1 DEL bin3", "*2 :1004 *3 +OK :6 :1"),
        ("REC.GET r FILTER {new==6} BINS new", "-ERR invalid filter at byte 0: expected a bin name"),
        ("REC.GET r FILTER new==6 BINS new", "*3 :1004 :-1 *2 $3 new :6"),
        ("EXPIRE r 1000", ":1"),
        ("PERSIST r", ":1"),
        ("REC.PUT r REPLACE BINS only INT 1", ":1005"),
        ("OBJECT ENCODING r", "$8 listpack"),
        ("DBSIZE", ":1"),
        ("REC.TRUNCATE set", ":1"),
        ("DBSIZE", ":0"),
    ] {
        assert_eq!(redis.text(line), reply, "{line}");
    }
    // Truncation also removes the parts of a large record.
    for number in 0..500 {
        redis.text(&format!("REC.PUT r IN set BINS bin{number} STR some-value-of-{number}"));
    }
    assert_eq!(redis.text("REC.TRUNCATE set"), ":1");
    wait_until("the end of all parts", || running.shared().store_stats().items == 0);
    // All or nothing, among others.
    let usage = |redis: &mut Replies| redis.text("MEMORY USAGE h")[1..].parse::<usize>().unwrap();
    redis.text("MULTI");
    for number in 0..300 {
        redis.text(&format!("HSET h field{number} a-value-of-{number}"));
    }
    redis.text("HLEN h");
    assert!(redis.text("EXEC").ends_with(":1 :300"));
    assert!((6000..20_000).contains(&usage(&mut redis)), "{}", usage(&mut redis));
    running.stop();
}

#[test]
fn a_large_hash_is_evicted_whole() {
    let running = start(ServerConfig { memory_bytes: 16 << 20, ..both() });
    let mut redis = resp(&running);
    let (mut whole, mut gone) = (0, 0);
    let mut prng = Prng::new(9);
    let fields = |number: u64| 200 + (number * 37) % 600;
    for number in 0..1500u64 {
        let mut line = format!("HSET h{number}");
        for field in 0..fields(number) {
            line += &format!(" field{field} value-{number}-{field}");
        }
        assert_eq!(redis.text(&line), format!(":{}", fields(number)));
        // Some are asked for, as far as one field: that keeps all of it.
        let seen = number.saturating_sub(prng.below(60));
        redis.text(&format!("HGET h{seen} field1"));
    }
    for number in 0..1500u64 {
        let len = redis.text(&format!("HLEN h{number}"));
        let all = redis.ask(&[b"HGETALL", format!("h{number}").as_bytes()]);
        let replied = sorted(&all, 2).len() as u64;
        assert!(replied == 0 || replied == fields(number), "h{number}: {replied} of {}", fields(number));
        // Except for a field that was pushed out of the index meanwhile.
        if len != format!(":{replied}") {
            assert!(running.shared().store_stats().evicted_by_index > 0, "h{number}: {len} and {replied}");
        }
        whole += usize::from(replied > 0);
        gone += usize::from(replied == 0);
    }
    assert!(whole > 50 && gone > 50, "{whole} whole, {gone} gone");
    running.stop();
}

/// Fills a hash with `fields` fields `field:N` of the value N, a thousand at a time.
fn fill(redis: &mut Replies, key: &str, fields: u64) {
    let lines: Vec<String> = (0..fields)
        .step_by(1000)
        .map(|first| {
            let pairs = (first..(first + 1000).min(fields)).map(|number| format!(" field:{number} {number}"));
            format!("HSET {key}{}", pairs.collect::<String>())
        })
        .collect();
    all(redis, &lines);
}

#[test]
fn a_large_hash_is_renamed_and_copied_whole_alone_and_within_a_transaction() {
    let running = running();
    let mut redis = resp(&running);
    fill(&mut redis, "h", 20_000);
    let written = || running.shared().store_stats().items_total - running.shared().store_stats().relocated;
    let whole = sorted(&redis.ask(&words("HGETALL h")), 2);
    let before = written();
    redis.text("SET small x");
    for (line, reply) in [
        ("EXPIREAT h 4000000000", ":1"),
        ("RENAMENX h small", ":0"),
        ("RENAMENX h other", ":1"),
        ("RENAME other small", "+OK"),
        ("RENAME none other", "-ERR no such key"),
        ("EXPIRETIME small", ":4000000000"),
        ("HLEN small", ":20000"),
        ("EXISTS h other", ":0"),
        ("DBSIZE", ":1"),
    ] {
        assert_eq!(redis.text(line), reply, "{line}");
    }
    assert!(written() - before < 20, "{} items for changes of a head", written() - before);
    assert_eq!(sorted(&redis.ask(&words("HGETALL small")), 2), whole);
    // Another client is served while the hash is copied, and changes of the copy do not affect the original.
    let mut other = resp(&running);
    redis.client.send(&request(&words("COPY small copy")));
    assert_eq!(other.text("PING"), "+PONG");
    assert_eq!(redis.next(), b":1\r\n");
    for (line, reply) in [
        ("COPY small copy", ":0"),
        ("HSET copy field:1 other", ":0"),
        ("HGET small field:1", "$1 1"),
        ("COPY copy small REPLACE", ":1"),
        ("HGET small field:1", "$5 other"),
        ("EXPIRETIME copy", ":4000000000"),
        ("MULTI", "+OK"),
        ("RENAME small moved", "+QUEUED"),
        ("COPY moved small", "+QUEUED"),
        ("HDEL small field:1", "+QUEUED"),
        ("DEL copy", "+QUEUED"),
        ("EXEC", "*4 +OK :1 :1 :1"),
        ("HLEN moved", ":20000"),
        ("HLEN small", ":19999"),
        ("DBSIZE", ":2"),
        ("DEL moved small", ":2"),
        ("DBSIZE", ":0"),
    ] {
        assert_eq!(redis.text(line), reply, "{line}");
    }
    wait_until("the end of all parts", || running.shared().store_stats().items == 0);
    running.stop();
}

#[test]
fn large_hash_length_excludes_expired_fields_until_the_hash_is_removed() {
    let running = running();
    let mut redis = resp(&running);
    fill(&mut redis, "h", 20_000);
    let revision: u64 = redis.text("REC.EXISTS h")[1..].parse().unwrap();
    let some: String = (0..500).map(|number| format!(" field:{}", number * 40)).collect();
    let end = "4102444800000";
    assert!(redis.text(&format!("HPEXPIREAT h {end} FIELDS 500{some}")).starts_with("*500 :1 :1"));
    assert_eq!(redis.text("HLEN h"), ":20000");
    assert!(redis.text(&format!("HPEXPIRE h 1 FIELDS 500{some}")).starts_with("*500 :1 :1"));
    wait_until("the end of some", || redis.text("HLEN h") == ":19500");
    let written = || running.shared().store_stats().items_total - running.shared().store_stats().relocated;
    let before = written();
    for _ in 0..20 {
        assert_eq!(redis.text("HLEN h"), ":19500");
    }
    assert_eq!(written(), before, "what has ended is left out once");
    // The expiry of fields does not count as a client's change.
    assert_eq!(redis.text("REC.EXISTS h"), format!(":{}", revision + 2));
    assert_eq!(redis.text("HEXISTS h field:40"), ":0");
    assert_eq!(redis.text("HGET h field:41"), "$2 41");
    for first in (0..20_000).step_by(1000) {
        let names: String = (first..first + 1000).map(|number| format!(" field:{number}")).collect();
        redis.text(&format!("HPEXPIRE h 1 FIELDS 1000{names}"));
    }
    wait_until("the end of all", || redis.text("HLEN h") == ":0");
    assert_eq!((redis.text("EXISTS h"), redis.text("DBSIZE")), (":0".into(), ":0".into()));
    wait_until("the end of all parts", || running.shared().store_stats().items == 0);
    running.stop();
}

/// Returns all keys of a walk.
fn scanned(redis: &mut Replies) -> HashSet<String> {
    let (mut cursor, mut replied) = ("0".to_owned(), HashSet::new());
    loop {
        let reply = redis.text(&format!("SCAN {cursor} COUNT 1000"));
        let mut words = reply.split(' ').filter(|word| !word.starts_with(['*', '$']));
        cursor = words.next().expect("a cursor").to_owned();
        replied.extend(words.map(str::to_owned));
        if cursor == "0" {
            return replied;
        }
    }
}

#[test]
fn listed_and_counted_keys_exclude_parts_pieces_and_flushed_items() {
    let running = running();
    let mut redis = resp(&running);
    let keys = ["wide", "long", "a", "b", "c"];
    for round in 0..3 {
        assert_eq!((redis.text("DBSIZE"), redis.text("RANDOMKEY")), (":0".into(), "$-1".into()), "round {round}");
        assert_eq!(scanned(&mut redis), HashSet::new(), "round {round}");
        fill(&mut redis, "wide", 5000);
        assert_eq!(redis.ask(&[b"SET", b"long", &vec![b'x'; 900_000]]), b"+OK\r\n");
        assert_eq!(redis.text("MSET a 1 b 2 c 3"), "+OK");
        assert_eq!(redis.text("DBSIZE"), ":5");
        assert!(redis.text("INFO keyspace").contains("db0:keys=5,"));
        assert_eq!(scanned(&mut redis), keys.map(str::to_owned).into());
        for _ in 0..100 {
            let drawn = redis.text("RANDOMKEY");
            assert!(keys.contains(&drawn.split(' ').nth(1).unwrap_or("none")), "{drawn}");
        }
        assert_eq!(redis.text("FLUSHALL"), "+OK");
    }
    running.stop();
}

#[test]
fn hash_with_only_expired_fields_is_absent_for_every_command() {
    let running = running();
    let mut gannet = resp(&running);
    for fields in [3, 2000] {
        let filled = |gannet: &mut Replies, key: &str| {
            for number in 0..fields {
                let replied = gannet.text(&format!("HSETEX {key} PX 40 FIELDS 1 field:{number} v{number}"));
                assert_eq!(replied, ":1", "{key}");
            }
        };
        let ended = |gannet: &mut Replies, key: &str| {
            filled(gannet, key);
            wait_until("the end of all fields", || gannet.text(&format!("HEXISTS {key} field:{}", fields - 1)) == ":0");
        };
        for (line, expected) in [
            ("EXISTS h", ":0"),
            ("TYPE h", "+none"),
            ("TTL h", ":-2"),
            ("GET h", "$-1"),
            ("SETNX h text", ":1"),
            ("SET h text NX", "+OK"),
            ("MSETNX h text", ":1"),
        ] {
            ended(&mut gannet, "h");
            assert_eq!(gannet.text(line), expected, "{line}, {fields} fields");
            gannet.text("DEL h");
        }
    }
    running.stop();
}

#[test]
fn large_hash_reply_longer_than_the_output_is_complete() {
    let running = running();
    let mut gannet = resp(&running);
    let value = "v".repeat(2000);
    let names: Vec<String> = (0..500).map(|number| format!("field:{number}")).collect();
    for name in &names {
        gannet.text(&format!("HSET h {name} {value}"));
    }
    let values = gannet.ask(&words(&format!("HMGET h {}", names.join(" "))));
    assert_eq!(values.len(), "*500\r\n".len() + 500 * "$2000\r\n\r\n".len() + 500 * 2000);
    let drawn = gannet.ask(&words("HRANDFIELD h 500 WITHVALUES"));
    let walked = gannet.ask(&words("HSCAN h 0 COUNT 100000"));
    let all = gannet.ask(&words("HGETALL h"));
    assert!(all.len() > 1_000_000 && drawn.len() == all.len() && walked.len() > all.len(), "each has all of them");
    let record = gannet.ask(&words("REC.GET h"));
    assert!(record.len() > 1_000_000, "{} bytes", record.len());
    assert_eq!(gannet.text("PING"), "+PONG");
    running.stop();
}

/// A request stores all of its fields or none, wherever a field that is too long occurs and however many visits the
/// request takes.
#[test]
fn oversized_field_prevents_storing_any_field_of_its_request() {
    let running = start(ServerConfig { item_bytes_max: 64 << 10, ..both() });
    let mut redis = resp(&running);
    let (long, fits) = (vec![b'l'; 140_000], vec![b'f'; 60_000]);
    for before in [0, 1] {
        for (count, at) in [(10, 9), (70, 0), (70, 69), (400, 399), (1500, 1490), (1500, 700)] {
            for command in [&[&b"HSET"[..], b"h"][..], &[b"HMSET", b"h"], &[b"HSETEX", b"h", b"FIELDS"]] {
                redis.ask(&[b"DEL", b"h"]);
                if before > 0 {
                    assert_eq!(redis.ask(&[b"HSET", b"h", b"before", b"1", b"field-0", b"old"]), b":2\r\n");
                }
                let (names, number) = ((0..count).map(|n| format!("field-{n}")).collect::<Vec<_>>(), count.to_string());
                let ask = |redis: &mut Replies, value: &[u8]| {
                    let mut words = command.to_vec();
                    words.extend((command[0] == b"HSETEX").then_some(number.as_bytes()));
                    for (n, name) in names.iter().enumerate() {
                        words.extend([name.as_bytes(), if n == at { value } else { b"value" }]);
                    }
                    redis.ask(&words)
                };
                let what = format!("{} of {count} fields, {before} before", command[0].escape_ascii());
                let refused = ask(&mut redis, &long);
                assert!(refused.starts_with(b"-ERR a field with its value"), "{what}: {}", refused.escape_ascii());
                let left = format!(":{}\r\n", 2 * before);
                assert_eq!(redis.ask(&[b"HLEN", b"h"]), left.as_bytes(), "{what}");
                let old = if before > 0 { &b"$3\r\nold\r\n"[..] } else { b"$-1\r\n" };
                assert_eq!(redis.ask(&[b"HGET", b"h", b"field-0"]), old, "{what}");
                let stored = ask(&mut redis, &fits);
                assert!(!stored.starts_with(b"-"), "{what}: {}", stored.escape_ascii());
                let all = format!(":{}\r\n", count + before);
                assert_eq!(redis.ask(&[b"HLEN", b"h"]), all.as_bytes(), "{what}");
            }
        }
    }
    running.stop();
}

#[test]
fn hscan_of_a_hash_that_has_shrunk_takes_few_calls() {
    let running = start(both());
    let mut client = resp(&running);
    for from in (0..6000).step_by(100) {
        let fields: String = (from..from + 100).map(|n| format!(" field-{n} {n}")).collect();
        assert_eq!(client.text(&format!("HSET hash{fields}")), ":100");
    }
    for from in (0..5900).step_by(100) {
        let fields: String = (from..from + 100).map(|n| format!(" field-{n}")).collect();
        assert_eq!(client.text(&format!("HDEL hash{fields}")), ":100");
    }
    let (mut cursor, mut calls, mut fields) = ("0".to_owned(), 0, 0);
    while calls == 0 || cursor != "0" {
        let reply = client.text(&format!("HSCAN hash {cursor} COUNT 50"));
        fields += reply.matches("field-").count();
        cursor = reply.split(' ').nth(2).unwrap().to_owned();
        calls += 1;
    }
    assert!(fields >= 100 && calls <= 4, "{calls} calls, {fields} fields");
    running.stop();
}
