//! Tests of hashes over sockets: fields that expire, walks, long replies, values that are too large, and access by
//! memcached clients. `resp.rs` compares the ordinary hash commands with those of Redis.

use crate::common::redis::{Redis, Replies, addr, both, request, resp, running};
use crate::common::{Client, PATIENCE, start};
use command::clients::endpoint::Protocol;
use gannet_server::start::ServerConfig;
use std::collections::HashSet;
use std::time::Instant;

/// The first slice of such a command removes the key with its last field.
#[test]
fn long_hsetex_whose_end_has_passed_ends_and_leaves_no_key() {
    let running = running();
    let mut redis = resp(&running);
    let fields: String = (0..5_000).map(|number| format!(" f{number} v")).collect();
    for condition in ["", "NX ", "FNX "] {
        assert_eq!(redis.text(&format!("HSETEX h {condition}PXAT 1 FIELDS 5000{fields}")), ":1", "{condition}");
        assert_eq!(redis.text("EXISTS h"), ":0", "{condition}");
    }
    running.stop();
}

#[test]
fn field_expiry_commands_set_clear_and_report_expiry() {
    let running = running();
    let mut redis = resp(&running);
    for (line, reply) in [
        ("HSET h a 1 b 2 c 3", ":3"),
        ("HTTL h FIELDS 2 a none", "*2 :-1 :-2"),
        ("HTTL none FIELDS 2 a b", "*2 :-2 :-2"),
        ("HEXPIREAT h 4000000000 FIELDS 2 a none", "*2 :1 :-2"),
        ("HEXPIRETIME h FIELDS 2 a b", "*2 :4000000000 :-1"),
        ("HPEXPIRETIME h FIELDS 1 a", "*1 :4000000000000"),
        // Conditions.
        ("HEXPIREAT h 4000000001 NX FIELDS 2 a b", "*2 :0 :1"),
        ("HEXPIREAT h 4000000001 GT FIELDS 2 a b", "*2 :1 :0"),
        ("HEXPIREAT h 4000000000 lt FIELDS 2 a c", "*2 :1 :1"),
        ("HPEXPIREAT h 4000000000123 XX FIELDS 1 a", "*1 :1"),
        ("HPEXPIRETIME h FIELDS 1 a", "*1 :4000000000123"),
        // An increment preserves the expiry; a new value removes it.
        ("HINCRBY h a 5", ":6"),
        ("HPEXPIRETIME h FIELDS 1 a", "*1 :4000000000123"),
        ("HSET h a 7", ":0"),
        ("HPERSIST h FIELDS 3 a b none", "*3 :-1 :1 :-2"),
        // An instant in the past removes the field.
        ("HEXPIRE h 0 FIELDS 2 a none", "*2 :2 :-2"),
        ("HEXPIREAT h 1 FIELDS 1 b", "*1 :2"),
        ("HKEYS h", "*1 $1 c"),
        ("HEXPIREAT h 1 FIELDS 1 c", "*1 :2"),
        ("EXISTS h", ":0"),
        ("TYPE h", "+none"),
    ] {
        assert_eq!(redis.shown(line), reply, "{line}");
    }
    for (line, error) in [
        ("HEXPIRE h x FIELDS 1 a", "-ERR value is not an integer"),
        ("HEXPIRE h -1 FIELDS 1 a", "-ERR invalid expire time, must be >= 0"),
        ("HEXPIRE h 9223372036854775807 FIELDS 1 a", "-ERR invalid expire time in 'hexpire'"),
        ("HPEXPIREAT h 300000000000000 FIELDS 1 a", "-ERR invalid expire time in 'hpexpireat'"),
        ("HEXPIRE h 5 FIELD 1 a", "-ERR Mandatory argument FIELDS is missing"),
        ("HEXPIRE h 5 FIELDS 0 a", "-ERR Number of fields must be a positive integer"),
        ("HEXPIRE h 5 FIELDS 2 a", "-ERR The `numfields` parameter must match"),
        ("HTTL h FIELDS 1 a b", "-ERR The `numfields` parameter must match"),
        ("HEXPIRE h 5 FIELDS 1", "-ERR wrong number of arguments"),
    ] {
        assert!(redis.shown(line).starts_with(error), "{line}: {}", redis.shown(line));
    }
    running.stop();
}

#[test]
fn expired_field_is_absent_and_the_last_expiry_removes_the_hash() {
    let running = running();
    let mut redis = resp(&running);
    assert_eq!(redis.shown("HSET h stays 1 goes 2"), ":2");
    assert_eq!(redis.shown("HPEXPIRE h 1 FIELDS 1 goes"), "*1 :1");
    let until = |redis: &mut Replies, line: &str, reply: &str| {
        let deadline = Instant::now() + PATIENCE;
        while redis.shown(line) != reply {
            assert!(Instant::now() < deadline, "{line}: {}", redis.shown(line));
        }
    };
    until(&mut redis, "HEXISTS h goes", ":0");
    for (line, reply) in [
        ("HLEN h", ":1"),
        ("HGETALL h", "*2 $5 stays $1 1"),
        ("HMGET h goes stays", "*2 $-1 $1 1"),
        ("HSET h goes 3", ":1"),
        ("HLEN h", ":2"),
        ("HPEXPIRE h 1 FIELDS 2 goes stays", "*2 :1 :1"),
    ] {
        assert_eq!(redis.shown(line), reply, "{line}");
    }
    until(&mut redis, "EXISTS h", ":0");
    for (line, reply) in [
        ("TYPE h", "+none"),
        ("TTL h", ":-2"),
        ("EXPIRE h 100", ":0"),
        ("HGETALL h", "*0"),
        ("GET h", "$-1"),
        ("RANDOMKEY", "$-1"),
        // A new hash under the same key does not inherit the old expiry.
        ("HSET h new 1", ":1"),
        ("HTTL h FIELDS 1 new", "*1 :-1"),
    ] {
        assert_eq!(redis.shown(line), reply, "{line}");
    }
    running.stop();
}

#[test]
fn hash_fields_are_read_and_deleted_or_expired_in_a_single_command() {
    let running = running();
    let mut redis = resp(&running);
    for (line, reply) in [
        ("HSET h a 1 b two c 3", ":3"),
        ("HGETDEL h FIELDS 2 b none", "*2 $3 two $-1"),
        ("HGETEX h FIELDS 1 a", "*1 $1 1"),
        ("HGETEX h EXAT 4000000000 FIELDS 2 a none", "*2 $1 1 $-1"),
        ("HEXPIRETIME h FIELDS 2 a c", "*2 :4000000000 :-1"),
        ("HGETEX h PERSIST FIELDS 1 a", "*1 $1 1"),
        ("HEXPIRETIME h FIELDS 1 a", "*1 :-1"),
        ("HSETEX h FNX EXAT 4000000000 FIELDS 2 a 9 d 9", ":0"),
        ("HSETEX h FXX FIELDS 2 a 9 d 9", ":0"),
        ("HSETEX h EXAT 4000000000 FIELDS 2 a 9 d 9", ":1"),
        ("HEXPIRETIME h FIELDS 3 a c d", "*3 :4000000000 :-1 :4000000000"),
        ("HSETEX h KEEPTTL FXX FIELDS 1 a 10", ":1"),
        ("HSETEX h FIELDS 1 d 10", ":1"),
        ("HEXPIRETIME h FIELDS 2 a d", "*2 :4000000000 :-1"),
        ("HGETDEL h FIELDS 3 a c d", "*3 $2 10 $1 3 $2 10"),
        ("EXISTS h", ":0"),
    ] {
        assert_eq!(redis.shown(line), reply, "{line}");
    }
    for (line, error) in [
        ("HGETEX h EX 0 FIELDS 1 a", "-ERR invalid expire time in 'hgetex'"),
        ("HSETEX h KEEPTTL EX 5 FIELDS 1 a 1", "-ERR syntax error"),
        ("HSETEX h FIELDS 1 a 1 b", "-ERR The `numfields` parameter must match"),
        ("HGETDEL h FIELDS x a", "-ERR value is not an integer"),
    ] {
        assert!(redis.shown(line).starts_with(error), "{line}: {}", redis.shown(line));
    }
    running.stop();
}

#[test]
fn memcached_reads_miss_a_hash_and_memcached_set_overwrites_it() {
    let running = running();
    let (mut redis, mut memcached) = (resp(&running), Client::connect(addr(&running, Protocol::Memcache)));
    let hash = |redis: &mut Replies| {
        redis.shown("DEL h");
        assert_eq!(redis.shown("HSET h a 1"), ":1");
    };
    hash(&mut redis);
    memcached.ask(&crate::common::set("s", b"v"), b"STORED\r\n");
    memcached.ask(b"get h\r\n", b"END\r\n");
    memcached.ask(b"get h s\r\n", b"VALUE s 0 1\r\nv\r\nEND\r\n");
    memcached.ask(b"gets h\r\n", b"END\r\n");
    memcached.ask(b"gat 100 h\r\n", b"END\r\n");
    memcached.ask(b"mg h v\r\n", b"EN\r\n");
    memcached.ask(b"mg h t c v\r\n", b"EN\r\n");
    memcached.ask(b"add h 0 0 1\r\nx\r\n", b"NOT_STORED\r\n");
    memcached.ask(b"append h 0 0 1\r\nx\r\n", b"NOT_STORED\r\n");
    memcached.ask(b"ms h 1 MP\r\nx\r\n", b"NS\r\n");
    memcached.ask(b"incr h 1\r\n", b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
    assert_eq!(redis.shown("HGETALL h"), "*2 $1 a $1 1");
    memcached.ask(b"touch h 100\r\n", b"TOUCHED\r\n");
    assert_eq!(redis.shown("TYPE h"), "+hash");
    memcached.ask(b"delete h\r\n", b"DELETED\r\n");
    assert_eq!(redis.shown("EXISTS h"), ":0");
    hash(&mut redis);
    memcached.ask(b"replace h 0 0 1\r\nx\r\n", b"STORED\r\n");
    assert_eq!(redis.shown("GET h"), "$1 x");
    assert!(redis.shown("HGET h a").starts_with("-WRONGTYPE "));
    hash(&mut redis);
    memcached.ask(&crate::common::set("h", b"again"), b"STORED\r\n");
    assert_eq!(redis.shown("TYPE h"), "+string");
    running.stop();
}

#[test]
fn oversized_field_is_refused_and_the_hash_is_unchanged() {
    let running = running();
    let mut redis = resp(&running);
    let long = crate::common::pattern(1_200_000);
    for fields in [1, 400] {
        for number in 0..fields {
            redis.ask(&[b"HSET", b"h", format!("f{number}").as_bytes(), b"a value of some bytes"]);
        }
        for words in [&[&b"HSET"[..], b"h", b"f0", &long][..], &[b"HSETNX", b"h", b"b", &long]] {
            let reply = redis.ask(words);
            assert!(reply.starts_with(b"-ERR a field with its value would be longer than"), "{:?}", words[0]);
        }
        assert_eq!(redis.ask(&[b"HLEN", b"h"]), format!(":{fields}\r\n").into_bytes());
        assert_eq!(redis.ask(&[b"HSTRLEN", b"h", b"f0"]), b":21\r\n");
        // Half as long fits, often.
        assert_eq!(redis.ask(&[b"HSET", b"h", b"f0", &long[..5000], b"g", &long[..5000]]), b":1\r\n");
        assert_eq!(redis.ask(&[b"DEL", b"h"]), b":1\r\n");
        assert_eq!(running.shared().store_stats().items, 0);
    }
    running.stop();
}

#[test]
fn hscan_of_a_long_hash_returns_every_remaining_field_once() {
    let running = running();
    let mut redis = resp(&running);
    for number in 0..500 {
        assert_eq!(redis.shown(&format!("HSET h f{number} {number}")), ":1");
    }
    // A hash that is one item is returned at once, as in Redis.
    let whole = redis.shown("HSCAN h 0 COUNT 20 NOVALUES");
    assert!(whole.starts_with("*2 $1 0 *500 "), "{}", &whole[..20]);
    for number in 500..1000 {
        assert_eq!(redis.shown(&format!("HSET h f{number} {number}")), ":1");
    }
    let (mut cursor, mut calls, mut replied) = ("0".to_owned(), 0, Vec::new());
    loop {
        let reply = redis.shown(&format!("HSCAN h {cursor} COUNT 20"));
        let words: Vec<&str> = reply.split(' ').filter(|word| !word.starts_with(['*', '$'])).collect();
        cursor = words[0].to_owned();
        for pair in words[1..].chunks(2) {
            assert_eq!(pair[0][1..], *pair[1]);
            replied.push(pair[0].to_owned());
        }
        calls += 1;
        // Others come and go meanwhile.
        redis.shown(&format!("HDEL h f{}", 250 + calls));
        redis.shown(&format!("HSET h f{0} {0}", 1000 + calls));
        if cursor == "0" {
            break;
        }
    }
    let stayed: Vec<_> = (0..1000).filter(|number| !(251..=250 + calls).contains(number)).collect();
    assert!(calls > 10 && stayed.len() > 900, "{calls} calls");
    let distinct: HashSet<_> = replied.iter().collect();
    assert_eq!(distinct.len(), replied.len(), "none is told twice");
    assert!(stayed.iter().all(|number| distinct.contains(&format!("f{number}"))));
    let names = redis.shown("HSCAN h 0 COUNT 100000 MATCH f4?? NOVALUES");
    assert_eq!(names.matches("$4 f4").count(), 100);
    running.stop();
}

#[test]
fn fields_are_drawn_each_once_or_with_repetition() {
    let running = running();
    let mut redis = resp(&running);
    for number in 0..50 {
        redis.shown(&format!("HSET h f{number} {number}"));
    }
    let drawn = |redis: &mut Replies, count: &str| -> Vec<String> {
        let reply = redis.shown(&format!("HRANDFIELD h {count}"));
        reply.split(' ').filter(|word| word.starts_with('f')).map(str::to_owned).collect()
    };
    let mut all = HashSet::new();
    let mut repeated = 0;
    for _ in 0..100 {
        let once = drawn(&mut redis, "20");
        assert_eq!((once.len(), once.iter().collect::<HashSet<_>>().len()), (20, 20));
        all.extend(once);
        let any = drawn(&mut redis, "-60");
        assert_eq!(any.len(), 60);
        repeated += usize::from(any.iter().collect::<HashSet<_>>().len() < 60);
    }
    assert_eq!((all.len(), repeated), (50, 100), "all are drawn some time, and 60 of 50 have one twice");
    assert!(redis.shown("HRANDFIELD h -30000000").starts_with("-ERR the answer is longer than"));
    running.stop();
}

#[test]
fn hash_reply_longer_than_the_output_is_complete() {
    let client_memory_bytes = Some(256 << 20);
    let running = start(ServerConfig { segment_bytes: Some(1 << 20), client_memory_bytes, ..both() });
    let mut redis = resp(&running);
    let long = crate::common::pattern(3000);
    for number in 0..40 {
        assert_eq!(redis.ask(&[b"HSET", b"h", format!("f{number}").as_bytes(), &long]), b":1\r\n");
    }
    for version in [b"2", b"3"] {
        redis.ask(&[b"HELLO", version]);
        let all = redis.ask(&[b"HGETALL", b"h"]);
        assert_eq!(all.windows(long.len()).filter(|part| *part == long).count(), 40);
        assert!(redis.ask(&[b"HVALS", b"h"]).len() > 120_000);
        assert_eq!(redis.ask(&[b"HKEYS", b"h"]).iter().filter(|byte| **byte == b'$').count(), 40);
        let scanned = redis.ask(&[b"HSCAN", b"h", b"0"]);
        assert_eq!(scanned.windows(long.len()).filter(|part| *part == long).count(), 40);
        let some = redis.ask(&[b"HMGET", b"h", b"f1", b"none", b"f39"]);
        assert_eq!(some.windows(long.len()).filter(|part| *part == long).count(), 2);
    }
    // The same field over and over: longer than any output, and longer than any answer.
    let mut repeated = |times| {
        let mut words: Vec<&[u8]> = vec![b"HMGET", b"h"];
        words.extend(std::iter::repeat_n(&b"f1"[..], times));
        redis.ask(&words)
    };
    assert_eq!(repeated(500).windows(long.len()).filter(|part| *part == long).count(), 500);
    assert!(repeated(22_600).starts_with(b"-ERR the answer is longer than"));
    assert_eq!(redis.ask(&[b"HGET", b"h", b"none"]), b"_\r\n");
    running.stop();
}

/// The bytes of the index for each item: an 8-byte slot, divided by the lowest load at which the index grows.
const INDEX_BYTES: u64 = 10;

#[test]
fn record_of_ten_small_bins_uses_a_quarter_less_memory_than_in_redis() {
    const RECORDS: u64 = 10_000;
    let (theirs, running) = (Redis::start(), running());
    let (mut redis, mut gannet) = (Replies::connect(theirs.addr), resp(&running));
    let used = |replies: &mut Replies| -> u64 {
        let info = String::from_utf8(replies.ask(&[b"INFO", b"memory"])).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("it says so");
        line.trim().parse().unwrap()
    };
    let before = used(&mut redis);
    for first in (0..RECORDS).step_by(100) {
        let mut batch = Vec::new();
        for number in first..first + 100 {
            let mut words: Vec<Vec<u8>> = vec![b"HSET".to_vec(), format!("user:{number:06}").into_bytes()];
            for bin in 0..10u64 {
                // Ten bytes that are no number, so that neither keeps them in fewer.
                words.extend([format!("bin{bin}").into_bytes(), format!("v{:09}", number * 10 + bin).into_bytes()]);
            }
            batch.extend(request(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()));
        }
        for replies in [&mut redis, &mut gannet] {
            replies.client.send(&batch);
            (0..100).for_each(|_| assert_eq!(replies.next(), b":10\r\n"));
        }
    }
    let theirs = (used(&mut redis) - before) / RECORDS;
    let stats = running.shared().store_stats();
    assert_eq!(stats.items, RECORDS);
    let ours = stats.item_bytes / RECORDS + INDEX_BYTES;
    println!("a record of 10 bins of 10 bytes: {ours} bytes here, {theirs} in Redis");
    assert!(ours * 100 <= theirs * 75, "{ours} bytes here, {theirs} in Redis");
    running.stop();
}
