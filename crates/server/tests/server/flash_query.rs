//! Tests of queries of secondary indexes while most records are on flash: the results equal those of a server with all
//! records in memory, and contain no record that was changed or deleted before the query.

use crate::common::records::queried;
use crate::common::redis::{Replies, request, resp, running};
use crate::common::tiered::Tiered;
use crate::common::{set, wait_until};
use base::prng::Prng;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const RECORDS: u64 = 3000;
/// The number of items stored after the records, to evict the records to flash.
const FILLERS: u64 = 20_000;

/// Sends all lines as requests, and asserts that each reply is `+OK` or a number.
fn send_all(redis: &mut Replies, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    for lines in lines.chunks(100) {
        let bytes: Vec<u8> =
            lines.iter().flat_map(|line| request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())).collect();
        redis.client.send(&bytes);
        for line in lines {
            let reply = redis.next();
            assert!(reply.starts_with(b":") || reply.starts_with(b"+"), "{line}: {}", reply.escape_ascii());
        }
    }
}

/// Stores records in the set `s`, each with a number in one bin and a text in another. Several records share each
/// number and each text.
fn put_records(redis: &mut Replies, numbers: impl Iterator<Item = u64>) {
    let text = |number: u64| format!("some-text-{:03}", number * 31 % 211);
    let put = |number: u64| {
        let (text, odd) = (text(number), number % 2);
        format!("REC.PUT k:{number} IN s BINS v INT {} t STR {text} odd INT {odd}", number * 17 % 500)
    };
    send_all(redis, numbers.map(put));
}

fn make_indexes(redis: &mut Replies) {
    for (bin, kind) in [("v", "INT"), ("t", "STR")] {
        assert_eq!(redis.text(&format!("REC.INDEX CREATE s {bin} {kind} MEMORY 400000")), "+OK");
    }
}

/// Returns the reply to one call of a query, as text.
fn page(redis: &mut Replies, asked: &str, limit: u64, cursor: &str) -> String {
    redis.text(&format!("REC.QUERY s {asked} LIMIT {limit} AFTER {cursor}"))
}

#[test]
fn query_of_flash_records_equals_query_of_records_in_memory() {
    let (tiered, plain) = (Tiered::start("query"), running());
    let (mut redis, mut other) = (tiered.resp(), resp(&plain));
    for redis in [&mut redis, &mut other] {
        make_indexes(redis);
        put_records(redis, 0..RECORDS);
    }
    tiered.fill(0..FILLERS);
    // What is changed since is in memory, some of it.
    for redis in [&mut redis, &mut other] {
        let changed = |number: u64| format!("HINCRBY k:{number} v {}", number % 7);
        send_all(redis, (0..RECORDS).step_by(13).map(changed));
        send_all(redis, (0..RECORDS).step_by(17).map(|number| format!("DEL k:{number}")));
        send_all(redis, (0..RECORDS).step_by(34).map(|number| format!("SET k:{number} string")));
        put_records(redis, (0..RECORDS).step_by(51).filter(|number| number % 34 != 0));
    }
    tiered.fill(FILLERS..FILLERS + 3000);
    let before = tiered.stats();
    let mut random = Prng::new(3);
    let (mut replied, mut pages) = (0, 0);
    for round in 0..60 {
        let (low, high) = (random.below(500), random.below(500));
        let text = |number: u64| format!("some-text-{:03}", number % 211);
        let asked = match round % 5 {
            0 => format!("v EQ {low}"),
            1 => format!("v BETWEEN {} {}", low.min(high), low.max(high)),
            2 => format!("t EQ {}", text(low)),
            3 => format!("t BETWEEN {} {}", text(low), text(high)),
            _ => format!("v BETWEEN {} {} FILTER odd==1", low.min(high), low.max(high)),
        };
        let (limit, mut cursor) = (1 + random.below(400), "0".to_owned());
        loop {
            let (ours, theirs) = (page(&mut redis, &asked, limit, &cursor), page(&mut other, &asked, limit, &cursor));
            assert_eq!(ours, theirs, "{asked} LIMIT {limit} AFTER {cursor}");
            let mut words = ours.split(' ');
            cursor = words.nth(2).expect("a cursor").to_owned();
            replied += words.next().and_then(|count| count[1..].parse::<usize>().ok()).expect("a count");
            pages += 1;
            if cursor == "0" {
                break;
            }
        }
    }
    assert!(replied > 10_000 && pages > 100, "{replied} records, {pages} pages");
    let after = tiered.stats();
    assert_eq!(after.flash_back, before.flash_back, "none was brought back for that");
    assert_eq!(after.flash_failed, 0);
    assert!(before.flash_items > FILLERS / 2, "most is in the file: {before:?}");
    assert!(redis.text("MULTI").starts_with('+'));
    assert_eq!(redis.text("REC.QUERY s v EQ 3 BINS v"), "+QUEUED");
    let inside = redis.text("EXEC");
    assert_eq!(inside, format!("*1 {}", other.text("REC.QUERY s v EQ 3 BINS v")));
    plain.stop();
}

/// The number of changes of each record. A record's value is this number times the number of records, plus the record's
/// own number.
struct Changes {
    begun: Vec<AtomicU64>,
    answered: Vec<AtomicU64>,
}

/// Returns the request of a record's change with this number. It leaves a record, a string, or nothing.
fn change(record: u64, number: u64) -> String {
    match number % 4 {
        0 | 1 => format!("REC.PUT k:{record} IN s BINS v INT {}", number * RECORDS + record),
        2 => format!("SET k:{record} string"),
        _ => format!("DEL k:{record}"),
    }
}

#[test]
fn query_during_writes_returns_all_unchanged_and_no_stale_records() {
    let tiered = Tiered::start("query-beside");
    let mut redis = tiered.resp();
    assert_eq!(redis.text("REC.INDEX CREATE s v INT MEMORY 1000000"), "+OK");
    send_all(&mut redis, (0..RECORDS).map(|record| change(record, 0)));
    tiered.fill(0..FILLERS);
    let zeros = || (0..RECORDS).map(|_| AtomicU64::new(0)).collect();
    let changes = Changes { begun: zeros(), answered: zeros() };
    let (before, stop) = (tiered.stats(), AtomicBool::new(false));
    // Every third one is changed, by one of two.
    let is_changed = |record: u64| record.is_multiple_of(3);
    let asked_all = format!("v BETWEEN 0 {}", i64::MAX);
    let told_changed = std::thread::scope(|scope| {
        for writer in 0..2 {
            let (tiered, changes, stop) = (&tiered, &changes, &stop);
            scope.spawn(move || {
                let (mut redis, mut random) = (tiered.resp(), Prng::new(writer));
                while !stop.load(SeqCst) {
                    let record = (random.below(RECORDS / 6) * 2 + writer) * 3;
                    let number = changes.begun[record as usize].fetch_add(1, SeqCst) + 1;
                    let line = change(record, number);
                    let reply = redis.text(&line);
                    assert!(reply.starts_with(':') || reply == "+OK", "{line}: {reply}");
                    changes.answered[record as usize].store(number, SeqCst);
                }
            });
        }
        let (tiered, stop) = (&tiered, &stop);
        scope.spawn(move || {
            // What is new pushes others into the file.
            let (mut client, mut number) = (tiered.memcached(), 0);
            while !stop.load(SeqCst) {
                client.ask(&set(&format!("new:{}", number % 4000), &[b'n'; 900]), b"STORED\r\n");
                number += 1;
            }
        });
        let mut told_changed = 0;
        for round in 0..12 {
            let answered: Vec<u64> = changes.answered.iter().map(|number| number.load(SeqCst)).collect();
            let replied = queried(&mut redis, &asked_all, [4096, 700, 50][round % 3]);
            let mut seen = HashMap::new();
            for (key, value) in replied {
                let (record, value): (u64, u64) =
                    (key[2..].parse().expect("a number"), value.parse().expect("a number"));
                assert_eq!(value % RECORDS, record, "{key} has another's value");
                let number = value / RECORDS;
                let begun = changes.begun[record as usize].load(SeqCst);
                let from = answered[record as usize];
                assert!((from..=begun).contains(&number), "{key}: {number} of {from} to {begun}");
                assert!(number % 4 < 2, "{key} was no record then");
                told_changed += u64::from(number > 0);
                *seen.entry(record).or_insert(0) += 1;
            }
            for record in (0..RECORDS).filter(|record| !is_changed(*record)) {
                assert_eq!(seen.get(&record), Some(&1), "k:{record} stayed");
            }
        }
        stop.store(true, SeqCst);
        told_changed
    });
    assert!(told_changed > 500, "{told_changed}");
    let after = tiered.stats();
    assert!(after.flash_back > before.flash_back + 100, "records came back to be changed");
    assert!(after.flash_taken > before.flash_taken + 100, "and others went");
    // No changes any more: each record is at its place, and only present records have entries.
    let mut replied = queried(&mut redis, &asked_all, 500);
    replied.sort_unstable();
    let mut wanted: Vec<(String, String)> = Vec::new();
    for record in 0..RECORDS {
        let number = changes.answered[record as usize].load(SeqCst);
        if number % 4 < 2 {
            wanted.push((format!("k:{record}"), (number * RECORDS + record).to_string()));
        }
    }
    wanted.sort_unstable();
    assert!(replied == wanted, "{} of {}", replied.len(), wanted.len());
    let list = redis.text("REC.INDEX LIST");
    assert!(list.contains(&format!(":{} ", wanted.len())), "{} records: {list}", wanted.len());
}

#[test]
fn query_does_not_block_other_clients_and_ends_with_its_connection() {
    let tiered = Tiered::start("query-others");
    let mut redis = tiered.resp();
    make_indexes(&mut redis);
    put_records(&mut redis, 0..RECORDS);
    tiered.fill(0..FILLERS);
    let all = "REC.QUERY s v BETWEEN 0 1000 LIMIT 4096 BINS v";
    let mut gone: Vec<Replies> = (0..40).map(|_| tiered.resp()).collect();
    gone.iter_mut().for_each(|client| client.client.send(&request(&crate::common::redis::words(all))));
    drop(gone);
    let (mut queries, mut beside) = (tiered.resp(), tiered.resp());
    queries.client.send(&request(&crate::common::redis::words(all)));
    for number in 0..100 {
        // One that is in memory, and one in the file.
        assert_eq!(beside.text(&format!("SET near {number}")), "+OK");
        assert_eq!(beside.text("GET near"), format!("${} {number}", number.to_string().len()));
        assert!(beside.text(&format!("REC.GET k:{} BINS v", number * 29)).starts_with('*'));
    }
    let reply = String::from_utf8(queries.next()).expect("text");
    assert!(reply.starts_with(&format!("*2\r\n$1\r\n0\r\n*{RECORDS}\r\n")), "{}", &reply[..60]);
    drop((queries, beside));
    wait_until("all are gone", || tiered.running.shared().connections_open() == 1);
    assert_eq!(queried(&mut redis, "v BETWEEN 0 1000", 300).len() as u64, RECORDS);
}

#[test]
fn query_ends_when_flash_fails_and_omits_the_lost_records() {
    let tiered = Tiered::start("query-fails");
    let mut redis = tiered.resp();
    make_indexes(&mut redis);
    put_records(&mut redis, 0..RECORDS);
    tiered.fill(0..FILLERS);
    // In memory, whatever becomes of the file.
    put_records(&mut redis, (0..RECORDS).step_by(50));
    let near: Vec<String> = (0..RECORDS).step_by(50).map(|number| format!("k:{number}")).collect();
    redis.client.send(&request(&crate::common::redis::words("REC.QUERY s v BETWEEN 0 1000 LIMIT 4096 BINS v")));
    tiered.fail();
    let reply = String::from_utf8(redis.next()).expect("text");
    assert!(reply.starts_with("*2\r\n$1\r\n0\r\n*"), "{}", reply.escape_default());
    wait_until("it is given up", || {
        // Reads find out.
        redis.text(&format!("REC.GET k:{} BINS v", 1 + tiered.stats().flash_failed % 40));
        tiered.running.shared().threads.flash.as_ref().expect("there is one").counts().devices_lost == 1
    });
    let mut replied: Vec<String> =
        queried(&mut redis, "v BETWEEN 0 1000", 700).into_iter().map(|(key, _)| key).collect();
    replied.sort_unstable();
    assert!(near.iter().all(|key| replied.contains(key)), "what is in memory is told: {}", replied.len());
    assert!(replied.len() < RECORDS as usize / 4, "{} are told", replied.len());
    let list = redis.text("REC.INDEX LIST");
    assert!(list.contains(&format!(":{} ", replied.len())), "entries of what is gone go: {} {list}", replied.len());
}
