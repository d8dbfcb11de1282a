//! Tests of secondary indexes over sockets: a query returns the current records, whatever operations clients have
//! executed on them.

use crate::common::PATIENCE;
use crate::common::records::queried;
use crate::common::redis::{Replies, resp, running};
use base::prng::Prng;
use std::collections::BTreeMap;
use std::time::Instant;

/// Returns all records of a query, sorted by their keys.
fn query(redis: &mut Replies, asked: &str, limit: u64) -> Vec<(String, String)> {
    let mut replied = queried(redis, asked, limit);
    replied.sort_unstable();
    replied
}

/// The reply to the creation of an index that would leave the store too little memory.
const FULL: &str = "-OOM the store needs that memory: pass a smaller MEMORY";

#[test]
fn index_commands_report_index_state_and_errors() {
    let running = running();
    let mut redis = resp(&running);
    let whole = running.shared().store.memory_bytes();
    for (line, reply) in [
        ("REC.PUT k:1 IN s BINS v INT 5 t STR five", ":1"),
        ("REC.QUERY s v EQ 5", "-NOINDEX the index does not exist: create it with REC.INDEX CREATE"),
        ("REC.INDEX CREATE s v INT MEMORY 1000000", "+OK"),
        ("REC.INDEX CREATE s v STR", "-EXISTS the index already exists"),
        ("REC.INDEX CREATE s t STR MEMORY 1000", "-ERR value is out of range"),
        ("REC.INDEX CREATE s t STR MEMORY 66000000", FULL),
        // With what the other index has, these are past the end of 64 bits, and just before it.
        ("REC.INDEX CREATE s t STR MEMORY 18446744073709551615", FULL),
        ("REC.INDEX CREATE s t STR MEMORY 18446744073708551616", FULL),
        ("REC.INDEX CREATE s t STR MEMORY 18446744073708551615", FULL),
        ("REC.INDEX CREATE s t STR MEMORY 9223372036854775807", FULL),
        ("REC.INDEX CREATE s t STR MEMORY 18446744073709551616", "-ERR value is out of range"),
        ("REC.INDEX CREATE s t STR MEMORY 1000000", "+OK"),
        ("REC.INDEX LIST", "*2 *6 $1 s $1 v $3 INT $5 ready :1 :1000000 *6 $1 s $1 t $3 STR $5 ready :1 :1000000"),
        ("REC.QUERY s v EQ 5 BINS t", "*2 $1 0 *1 *4 $3 k:1 :1 :-1 *2 $1 t $4 five"),
        ("REC.QUERY s t BETWEEN fa fz TYPED BINS v", "*2 $1 0 *1 *4 $3 k:1 :1 :-1 *2 $1 v *2 $3 INT :5"),
        ("REC.QUERY s t EQ fiv", "*2 $1 0 *0"),
        ("REC.QUERY s v EQ x", "-ERR value is not an integer or out of range"),
        ("REC.QUERY s v BETWEEN 1", "-ERR syntax error"),
        ("REC.QUERY s v BETWEEN 1 9 FILTER t=='five'", "*2 $1 0 *1 *4 $3 k:1 :1 :-1 *4 $1 v :5 $1 t $4 five"),
        ("REC.QUERY s v BETWEEN 1 9 FILTER t!='five'", "*2 $1 0 *0"),
        ("REC.QUERY s v BETWEEN 9 1", "*2 $1 0 *0"),
        ("REC.QUERY s v EQ 5 AFTER x", "-ERR invalid cursor"),
        ("REC.INDEX DROP s none", ":0"),
        ("REC.INDEX DROP s v", ":1"),
        ("REC.INDEX DROP s t", ":1"),
        ("REC.QUERY s v EQ 5", "-NOINDEX the index does not exist: create it with REC.INDEX CREATE"),
    ] {
        assert_eq!(redis.text(line), reply, "{line}");
        let bytes = running.shared().indexes.bytes();
        assert_eq!(running.shared().store.memory_bytes() + bytes, whole, "the memory is one");
    }
    running.stop();
}

fn shown(number: i64, texts: bool) -> String {
    if texts { format!("some-text-{:05}", number + 500) } else { number.to_string() }
}

/// Executes a random change of one key, on the server and in `model`.
fn change(redis: &mut Replies, prng: &mut Prng, model: &mut BTreeMap<String, i64>, texts: bool) {
    let (shown, kind) = (|number| shown(number, texts), if texts { "STR" } else { "INT" });
    let (key, other) = (format!("k:{}", prng.below(60)), format!("k:{}", prng.below(60)));
    let number = prng.below(40) as i64 - 20;
    match prng.below(16) {
        0..8 => {
            let reply = redis.text(&format!("REC.PUT {key} IN s BINS v {kind} {}", shown(number)));
            match reply.starts_with(':') {
                true => drop(model.insert(key, number)),
                // A string is there.
                false => assert!(reply.starts_with("-WRONGTYPE") && !model.contains_key(&key), "{reply}"),
            }
        }
        8 => {
            redis.text(&format!("DEL {key}"));
            model.remove(&key);
        }
        9 => {
            redis.text(&format!("HDEL {key} v"));
            model.remove(&key);
        }
        10 => {
            redis.text(&format!("SET {key} string"));
            model.remove(&key);
        }
        11 if !texts => {
            if let Some(there) = model.get_mut(&key) {
                *there += 3;
                assert!(redis.text(&format!("HINCRBY {key} v 3")).starts_with(':'));
            }
        }
        12 => {
            if redis.text(&format!("RENAME {key} {other}")) == "+OK" {
                match model.remove(&key) {
                    Some(there) => drop(model.insert(other, there)),
                    None if key != other => drop(model.remove(&other)),
                    None => {}
                }
            }
        }
        13 => {
            if redis.text(&format!("COPY {key} {other} REPLACE")) == ":1" {
                match model.get(&key) {
                    Some(there) => drop(model.insert(other, *there)),
                    None => drop(model.remove(&other)),
                }
            }
        }
        14 if prng.below(20) == 0 => {
            redis.text("REC.TRUNCATE s");
            model.clear();
        }
        _ => {
            // One that refuses changes nothing.
            redis.text(&format!("REC.OPERATE {key} OPS PUT v {kind} {} ADD none STR x", shown(number)));
            redis.text(&format!("REC.PUT {key} IFREV 999999 BINS v {kind} {}", shown(number)));
        }
    }
}

/// Compares queries of single values and of ranges with a map, after random changes of keys by every operation.
#[test]
fn queries_match_a_model_over_random_record_changes() {
    let running = running();
    let mut redis = resp(&running);
    let (mut compared, mut told_all) = (0, 0);
    for seed in 0..8u64 {
        println!("seed {seed}");
        let mut prng = Prng::new(seed);
        let mut model: BTreeMap<String, i64> = BTreeMap::new();
        let texts = seed % 2 == 1;
        let (shown, kind) = (|number| shown(number, texts), if texts { "STR" } else { "INT" });
        assert!(redis.text("FLUSHALL").starts_with('+'));
        for step in 0..1500 {
            // Half of the records are there before it.
            if step == 300 {
                assert_eq!(redis.text(&format!("REC.INDEX CREATE s v {kind} MEMORY 200000")), "+OK");
            }
            change(&mut redis, &mut prng, &mut model, texts);
            if step > 300 && step % 5 == 0 {
                let (low, high) = (prng.below(50) as i64 - 25, prng.below(50) as i64 - 25);
                let (asked, high) = match prng.below(2) {
                    0 => (format!("v EQ {}", shown(low)), low),
                    _ => (format!("v BETWEEN {} {}", shown(low), shown(high)), high),
                };
                let replied = query(&mut redis, &asked, 1 + prng.below(30));
                let wanted = model.iter().filter(|(_, number)| (low..=high).contains(*number));
                let wanted: Vec<_> = wanted.map(|(key, number)| (key.clone(), shown(*number))).collect();
                assert_eq!(replied, wanted, "{asked}");
                (compared, told_all) = (compared + 1, told_all + replied.len());
            }
        }
        // Stale entries are removed when new entries are added.
        for number in 0..2000 {
            redis.text(&format!("REC.PUT k:{} IN s BINS v {kind} {}", number % 60, shown(number)));
        }
        let list = redis.text("REC.INDEX LIST");
        let entries: usize = list.split(' ').nth(10).and_then(|word| word[1..].parse().ok()).expect("a number");
        assert!(entries <= 120, "{entries} entries for 60 keys");
        assert_eq!(redis.text("REC.INDEX DROP s v"), ":1");
    }
    assert!(compared > 1500 && told_all > 2000, "{compared} compared, {told_all} told");
    running.stop();
}

#[test]
fn full_index_replies_an_error_and_records_are_still_stored() {
    let running = running();
    let mut redis = resp(&running);
    assert_eq!(redis.text("REC.INDEX CREATE s v INT MEMORY 70000"), "+OK");
    let mut stored = 0;
    while redis.text("REC.QUERY s v EQ 1") != "-INDEXFULL the index is full: drop it and create it with more MEMORY" {
        for _ in 0..100 {
            assert_eq!(redis.text(&format!("REC.PUT k:{stored} IN s BINS v INT {stored}")), ":1");
            stored += 1;
        }
        assert!(stored < 10_000, "70,000 bytes hold fewer");
    }
    assert!(stored > 1000, "{stored}");
    assert_eq!(redis.text("REC.INDEX DROP s v"), ":1");
    assert_eq!(redis.text("REC.INDEX CREATE s v INT MEMORY 1000000"), "+OK");
    assert_eq!(query(&mut redis, &format!("v BETWEEN 0 {stored}"), 77).len(), stored);
    running.stop();
}

#[test]
fn query_omits_expired_records_and_bins() {
    let running = running();
    let mut redis = resp(&running);
    redis.text("REC.INDEX CREATE s v INT MEMORY 100000");
    redis.text("REC.PUT k:1 IN s PX 1 BINS v INT 1");
    redis.text("REC.PUT k:2 IN s BINS v INT 1 w INT 1");
    redis.text("REC.PUT k:3 IN s BINS v INT 1 w INT 1");
    redis.text("HPEXPIRE k:3 1 FIELDS 1 v");
    let deadline = Instant::now() + PATIENCE;
    while query(&mut redis, "v EQ 1", 10).len() > 1 {
        assert!(Instant::now() < deadline);
    }
    assert_eq!(query(&mut redis, "v EQ 1", 10), [("k:2".to_owned(), "1".to_owned())]);
    running.stop();
}

/// Two clients repeatedly change the same records within a range of values, while a third client queries the range.
#[test]
fn query_finds_records_in_range_while_other_clients_change_them() {
    let running = running();
    let mut redis = resp(&running);
    redis.text("REC.INDEX CREATE s v INT MEMORY 1000000");
    for number in 0..20 {
        redis.text(&format!("REC.PUT k:{number} IN s BINS v INT {number}"));
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (mut writer, stop) = (resp(&running), &stop);
            scope.spawn(move || {
                let mut prng = Prng::new(seed);
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    writer.text(&format!("REC.PUT k:{} BINS v INT {}", prng.below(20), prng.below(100)));
                }
            });
        }
        for _ in 0..300 {
            // All of them are within one call.
            let mut replied: Vec<_> =
                query(&mut redis, "v BETWEEN 0 100", 4000).into_iter().map(|(key, _)| key).collect();
            replied.dedup();
            assert_eq!(replied.len(), 20, "{replied:?}");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // After the changes have ended, each record is returned once, at its current value.
    let replied = query(&mut redis, "v BETWEEN 0 100", 7);
    assert_eq!(replied.len(), 20, "{replied:?}");
    for (key, value) in replied {
        assert_eq!(redis.text(&format!("HGET {key} v")).split(' ').nth(1), Some(&value[..]));
    }
    running.stop();
}
