//! Tests of walks over all keys of a server with most items on flash: every walk returns every key that exists
//! throughout the walk.

use crate::common::redis::Replies;
use crate::common::tiered::{Tiered, key};
use crate::common::{set, wait_until};
use segment::IndexPlace;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const KEYS: u64 = 30_000;

/// Returns the strings in a reply of arrays and bulk strings; the first is the cursor.
fn words_of(reply: &[u8]) -> Vec<Vec<u8>> {
    let (mut words, mut at) = (Vec::new(), 0);
    while at < reply.len() {
        let end = at + reply[at..].windows(2).position(|two| two == b"\r\n").expect("a line");
        let line = &reply[at..end];
        at = end + 2;
        if line[0] == b'$' {
            let bytes: usize = std::str::from_utf8(&line[1..]).expect("digits").parse().expect("a length");
            words.push(reply[at..at + bytes].to_vec());
            at += bytes + 2;
        }
    }
    words
}

/// Returns all keys that a complete `SCAN` returns, and the largest number of keys in one call.
fn scanned(redis: &mut Replies, count: &str, more: &[&[u8]]) -> (HashSet<Vec<u8>>, usize) {
    let (mut all, mut most, mut cursor, mut calls) = (HashSet::new(), 0, b"0".to_vec(), 0);
    loop {
        let reply = redis.ask(&[&[b"SCAN", &cursor[..], b"COUNT", count.as_bytes()], more].concat());
        let mut words = words_of(&reply);
        cursor = words.remove(0);
        (most, calls) = (most.max(words.len()), calls + 1);
        all.extend(words);
        assert!(calls < 100_000, "it does not come to an end");
        if cursor == b"0" {
            return (all, most);
        }
    }
}

#[test]
fn scan_keys_dbsize_and_randomkey_include_items_on_flash() {
    let tiered = Tiered::start("walks");
    tiered.fill(0..KEYS);
    let stats = tiered.stats();
    assert!(stats.flash_items > KEYS / 2 && stats.flash_evicted == 0, "most are in the file: {stats:?}");
    let mut redis = tiered.resp();
    redis.ask(&[b"HSET", b"a hash", b"field", b"value"]);
    redis.ask(&[b"SELECT", b"3"]);
    redis.ask(&[b"SET", b"of another", b"x"]);
    redis.ask(&[b"SELECT", b"0"]);
    let mut wanted = tiered.there(0..KEYS);
    assert!(wanted.len() as u64 > KEYS - 50, "{}", wanted.len());
    wanted.insert(b"a hash".to_vec());

    let (all, most) = scanned(&mut redis, "10", &[]);
    assert_eq!(all.len(), wanted.len());
    assert!(all == wanted && most < 10 + 100, "a call tells the count and a part of the index: {most}");
    let (all, most) = scanned(&mut redis, "1000", &[]);
    assert!(all == wanted && (100..1100).contains(&most), "as many steps as one call makes: {most}");
    let (some, _) = scanned(&mut redis, "500", &[b"MATCH", b"filler:1*0"]);
    assert_eq!(
        some,
        wanted.iter().filter(|key| key.starts_with(b"filler:1") && key.ends_with(b"0")).cloned().collect()
    );
    assert_eq!(scanned(&mut redis, "1000", &[b"TYPE", b"hash"]).0, HashSet::from([b"a hash".to_vec()]));

    let replied = words_of(&redis.ask(&[b"KEYS", b"*"]));
    assert_eq!(replied.len(), wanted.len(), "each once");
    assert!(replied.into_iter().collect::<HashSet<_>>() == wanted);
    assert_eq!(redis.text("DBSIZE"), format!(":{}", wanted.len()));
    let drawn: HashSet<Vec<u8>> = (0..60).map(|_| words_of(&redis.ask(&[b"RANDOMKEY"])).remove(0)).collect();
    assert!(drawn.is_subset(&wanted) && drawn.len() > 40, "{}", drawn.len());
    assert!(redis.text("MULTI").starts_with('+'));
    for words in ["SET inside 1", "SCAN 0 COUNT 100", "RANDOMKEY", "KEYS a*"] {
        assert_eq!(redis.text(words), "+QUEUED");
    }
    let answers = redis.ask(&[b"EXEC"]);
    assert!(answers.starts_with(b"*4\r\n+OK\r\n*2\r\n$"), "{}", answers[..40].escape_ascii());
    redis.ask(&[b"SELECT", b"3"]);
    assert_eq!(scanned(&mut redis, "1000", &[]).0, HashSet::from([b"of another".to_vec()]));
    assert_eq!(redis.text("DBSIZE"), ":1");
    redis.ask(&[b"SELECT", b"0"]);
    assert_eq!(redis.text("FLUSHDB"), "+OK");
    assert_eq!((redis.text("DBSIZE").as_str(), redis.text("RANDOMKEY").as_str()), (":0", "$-1"));
    assert!(scanned(&mut redis, "1000", &[]).0.is_empty());
    assert_eq!(tiered.stats().flash_failed, 0);
}

#[test]
fn scan_during_reads_and_writes_lists_every_item_that_stays() {
    let tiered = Tiered::start("walks-beside");
    tiered.fill(0..KEYS);
    let before = tiered.stats();
    let (stop, there) = (AtomicBool::new(false), tiered.there(0..KEYS));
    let walks = std::thread::scope(|scope| {
        scope.spawn(|| {
            // New items push out others, and what is read twice comes back.
            let mut client = tiered.memcached();
            let mut number = 0;
            while !stop.load(Relaxed) {
                number += 1;
                client.ask(&set(&format!("new:{}", number % 4000), &[b'n'; 900]), b"STORED\r\n");
                for _ in 0..2 {
                    let key = key(number * 7 % KEYS);
                    client.stream.write_all(format!("get {key}\r\n").as_bytes()).expect("sends");
                    let mut reader = BufReader::new(&client.stream);
                    let mut line = Vec::new();
                    while !line.ends_with(b"END\r\n") {
                        assert!(reader.read_until(b'\n', &mut line).expect("a line") > 0);
                    }
                }
            }
        });
        let mut redis = tiered.resp();
        let walks = ["10", "100", "1000"].map(|count| scanned(&mut redis, count, &[]).0);
        stop.store(true, Relaxed);
        walks
    });
    let stay: HashSet<_> = tiered.there(0..KEYS).intersection(&there).cloned().collect();
    // The longer the walks take, the more items are pushed out meanwhile.
    assert!(stay.len() as u64 > KEYS / 10 * 9, "{}", stay.len());
    for all in walks {
        assert_eq!(stay.difference(&all).count(), 0, "all of them stay, and are told");
    }
    let after = tiered.stats();
    assert_eq!(after.flash_evicted, before.flash_evicted, "nothing was given up");
    assert!(after.flash_back > before.flash_back + 100, "items came back meanwhile");
    assert!(after.flash_taken > before.flash_taken + 100, "and others went");
}

#[test]
fn dumps_include_items_on_flash() {
    let tiered = Tiered::start("walks-dump");
    tiered.fill(0..KEYS);
    let wanted = tiered.there(0..KEYS);
    let mut client = tiered.memcached();
    for (command, prefix, end) in
        [("lru_crawler mgdump hash", "mg ", "EN\r\n"), ("lru_crawler metadump all", "key=", "END\r\n")]
    {
        client.send(format!("{command}\r\n").as_bytes());
        let (mut replied, mut reader) = (HashSet::new(), BufReader::new(&client.stream));
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a line");
            if line == end {
                break;
            }
            let key = line.strip_prefix(prefix).expect("a line of an item").split_whitespace().next().expect("a key");
            replied.insert(key.replace("%3A", ":").into_bytes());
        }
        assert!(replied == wanted, "{command}: {} of {}", replied.len(), wanted.len());
        client = tiered.memcached();
    }
}

#[test]
fn restart_lists_and_indexes_items_of_the_memory_file_and_flash() {
    after_a_start(IndexPlace::File);
}

#[test]
fn restart_with_index_rebuild_lists_and_indexes_recovered_items() {
    after_a_start(IndexPlace::Dram);
}

fn after_a_start(index: IndexPlace) {
    let tiered = Tiered::start_in(&format!("walks-start-{index:?}"), Some(index));
    let (mut redis, records) = (tiered.resp(), 1000);
    for number in 0..records {
        assert_eq!(redis.text(&format!("REC.PUT rec:{number} IN people BINS age INT {}", number % 50)), ":1");
    }
    assert_eq!(redis.text("REC.INDEX CREATE people age INT"), "+OK");
    tiered.fill(0..KEYS);
    drop(redis);
    let tiered = tiered.again();
    assert!(tiered.stats().flash_items > KEYS / 2, "most are in the file: {:?}", tiered.stats());
    let mut redis = tiered.resp();
    let (all, _) = scanned(&mut redis, "100", &[]);
    let is_record = |key: &&Vec<u8>| key.starts_with(b"rec:");
    // If memory runs short before the index is rebuilt, the oldest segments are dropped.
    let gone_most = if index == IndexPlace::Dram { 1000 } else { 100 };
    let found = all.iter().filter(is_record).count();
    let kept = (all.len() - found) as u64;
    assert!(kept > KEYS - gone_most && kept <= KEYS, "{kept}");
    assert!(found > records - 20 && found <= records, "{found} records");
    let stored: HashSet<Vec<u8>> = (0..KEYS).map(|number| key(number).into_bytes()).collect();
    assert!(all.iter().all(|key| stored.contains(key) || is_record(&key)), "nothing else is told");
    let count = redis.text("DBSIZE")[1..].parse::<usize>().expect("a number");
    assert!(count.abs_diff(all.len()) < 20, "{count} {}", all.len());
    // Records are entered a few at a time.
    wait_until("they are entered", || redis.text("REC.INDEX LIST").contains("ready"));
    let list = redis.text("REC.INDEX LIST");
    assert!(list.contains(&format!(":{found}")), "{found} records: {list}");
    assert_eq!(redis.text("FLUSHALL"), "+OK");
    assert!(scanned(&mut redis, "1000", &[]).0.is_empty());
    assert_eq!(redis.text("DBSIZE"), ":0");
    assert!(scanned(&mut tiered.again().resp(), "1000", &[]).0.is_empty(), "nothing comes back by a start");
}

#[test]
fn records_in_the_file_are_walked_indexed_and_truncated() {
    let tiered = Tiered::start("walks-records");
    let mut redis = tiered.resp();
    let records = 2000;
    for number in 0..records {
        let words = format!("REC.PUT rec:{number} IN people BINS age INT {}", number % 50);
        assert_eq!(redis.text(&words), ":1");
    }
    tiered.fill(0..KEYS);
    let walked = |redis: &mut Replies| {
        let (mut keys, mut cursor) = (HashSet::new(), b"0".to_vec());
        loop {
            let reply = redis.ask(&[b"REC.SCAN", b"people", &cursor, b"COUNT", b"7"]);
            let mut words = words_of(&reply).into_iter();
            cursor = words.next().expect("a cursor");
            keys.extend(words.filter(|word| word.starts_with(b"rec:")));
            if cursor == b"0" {
                return keys;
            }
        }
    };
    let before = tiered.stats();
    let all: HashSet<Vec<u8>> = (0..records).map(|number| format!("rec:{number}").into_bytes()).collect();
    assert!(walked(&mut redis) == all);
    assert_eq!(tiered.stats().flash_back, before.flash_back, "none was brought back for that");
    assert_eq!(redis.text("REC.INDEX CREATE people age INT"), "+OK");
    let list = redis.text("REC.INDEX LIST");
    assert!(list.contains(&format!(":{records}")), "{list}");
    assert_eq!(redis.text("REC.TRUNCATE people"), format!(":{records}"));
    assert!(walked(&mut redis).is_empty());
    wait_until("the file's items of the set are gone", || tiered.stats().flash_items < before.flash_items);
}
