//! Large hashes, sets and sorted sets of names that clients computed to collide, and scans whose cursors depend on the
//! hashes of names: over values that are renamed, copied, replaced, or that become small and large again.

#[path = "../../../record/tests/colliding/mod.rs"]
mod colliding;

use crate::common::redis::{Replies, both, request, resp};
use crate::common::{start, wait_until};

/// A command that adds one element to a large value, and the command that returns one.
struct Case {
    key: &'static [u8],
    add: fn(key: &[u8], number: usize, name: &[u8]) -> Vec<u8>,
    read: &'static [u8],
    remove: &'static [u8],
    scan: &'static [u8],
    /// The number of words of a scan's reply for each element.
    words: usize,
}

fn add_field(key: &[u8], _: usize, name: &[u8]) -> Vec<u8> {
    request(&[b"HSET", key, name, b"v"])
}

fn add_element(key: &[u8], _: usize, name: &[u8]) -> Vec<u8> {
    request(&[b"SADD", key, name])
}

fn add_scored(key: &[u8], number: usize, name: &[u8]) -> Vec<u8> {
    request(&[b"ZADD", key, number.to_string().as_bytes(), name])
}

fn add_tied(key: &[u8], _: usize, name: &[u8]) -> Vec<u8> {
    request(&[b"ZADD", key, b"1", name])
}

const CASES: [Case; 4] = [
    Case { key: b"hash", add: add_field, read: b"HEXISTS", remove: b"HDEL", scan: b"HSCAN", words: 2 },
    Case { key: b"set", add: add_element, read: b"SISMEMBER", remove: b"SREM", scan: b"SSCAN", words: 1 },
    Case { key: b"scored", add: add_scored, read: b"ZSCORE", remove: b"ZREM", scan: b"ZSCAN", words: 2 },
    Case { key: b"tied", add: add_tied, read: b"ZSCORE", remove: b"ZREM", scan: b"ZSCAN", words: 2 },
];

impl Case {
    /// Adds elements, each with a command of its own, and checks that all are new.
    fn add(&self, redis: &mut Replies, key: &[u8], names: &[Vec<u8>]) {
        for (part, some) in names.chunks(100).enumerate() {
            let batch = some.iter().enumerate().map(|(at, name)| (self.add)(key, part * 100 + at, name));
            redis.client.send(&batch.collect::<Vec<_>>().concat());
            some.iter().for_each(|name| assert_eq!(redis.next(), b":1\r\n", "{}", name.escape_ascii()));
        }
    }

    fn remove(&self, redis: &mut Replies, key: &[u8], names: &[Vec<u8>]) {
        for some in names.chunks(100) {
            let words = [&[self.remove, key][..], &some.iter().map(Vec::as_slice).collect::<Vec<_>>()].concat();
            assert_eq!(redis.ask(&words), format!(":{}\r\n", some.len()).into_bytes());
        }
    }

    /// Returns true if the value has this element.
    fn has(&self, redis: &mut Replies, name: &[u8]) -> bool {
        !matches!(&redis.ask(&[self.read, self.key, name])[..], b":0\r\n" | b"$-1\r\n")
    }

    /// Executes one step of a scan. Returns the next cursor.
    fn scan(&self, redis: &mut Replies, key: &[u8], cursor: &str, found: &mut Vec<String>) -> String {
        let reply = String::from_utf8(redis.ask(&[self.scan, key, cursor.as_bytes(), b"COUNT", b"30"])).unwrap();
        let mut texts = reply.lines().filter(|line| !line.starts_with(['$', '*'])).map(str::to_owned);
        let next = texts.next().expect("a cursor");
        found.extend(texts.step_by(self.words));
        next
    }

    /// Continues a scan to its end.
    fn scan_on(&self, redis: &mut Replies, key: &[u8], mut cursor: String, found: &mut Vec<String>) {
        for steps in 0.. {
            assert!(steps < 1000, "the scan does not end");
            if cursor == "0" {
                break;
            }
            cursor = self.scan(redis, key, &cursor, found);
        }
    }
}

fn names(prefix: &str, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("{prefix}:{number}").into_bytes()).collect()
}

/// In builds without salts, such names lay in one part, which each change copied.
#[test]
fn names_that_were_computed_to_collide_lie_in_many_parts() {
    let names = colliding::names(6000);
    for case in &CASES {
        let running = start(both());
        let mut redis = resp(&running);
        case.add(&mut redis, case.key, &names);
        // A part has at most 1 KiB, and each element at least 17 bytes.
        let items = running.shared().store_stats().items;
        assert!(items > 6000 * 17 / 1024, "{} items for {}", items, case.key.escape_ascii());
        assert!(names.iter().step_by(60).all(|name| case.has(&mut redis, name)));
        assert!(!case.has(&mut redis, b"none"));
        case.remove(&mut redis, case.key, &names);
        assert_eq!(redis.ask(&[b"EXISTS", case.key]), b":0\r\n");
        wait_until("the end of all parts", || running.shared().store_stats().items == 0);
        running.stop();
    }
}

/// The cursor of a large value is a position in an order that the small value does not have, and the value that grows
/// again has.
#[test]
fn scan_misses_no_element_of_a_value_that_becomes_small_and_large_between_two_steps() {
    let (running, stays, others) = (start(both()), names("stays", 40), names("other", 2000));
    let mut redis = resp(&running);
    for case in &CASES {
        case.add(&mut redis, case.key, &stays);
        for round in 0..6 {
            case.add(&mut redis, case.key, &others);
            let mut found = Vec::new();
            let mut cursor = "0".to_owned();
            (0..4 * (1 + round)).for_each(|_| cursor = case.scan(&mut redis, case.key, &cursor, &mut found));
            assert_ne!(cursor, "0");
            let items = running.shared().store_stats().items;
            case.remove(&mut redis, case.key, &others);
            wait_until("the end of the parts", || running.shared().store_stats().items < items / 4);
            if round % 2 == 0 {
                case.add(&mut redis, case.key, &others);
            }
            case.scan_on(&mut redis, case.key, cursor, &mut found);
            found.retain(|name| name.starts_with("stays"));
            found.sort();
            found.dedup();
            assert_eq!(found.len(), stays.len(), "{} in round {round}", case.scan.escape_ascii());
            if round % 2 == 0 {
                case.remove(&mut redis, case.key, &others);
            }
        }
        redis.ask(&[b"DEL", case.key]);
    }
    running.stop();
}

#[test]
fn scan_of_a_renamed_or_copied_value_continues_and_that_of_a_replaced_one_ends() {
    let (running, elements) = (start(both()), names("element", 3000));
    let mut redis = resp(&running);
    for case in &CASES {
        case.add(&mut redis, case.key, &elements);
        let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
        (0..10).for_each(|_| cursor = case.scan(&mut redis, case.key, &cursor, &mut found));
        assert_eq!(redis.ask(&[b"COPY", case.key, b"copy"]), b":1\r\n");
        assert_eq!(redis.ask(&[b"RENAME", case.key, b"renamed"]), b"+OK\r\n");
        for key in [&b"copy"[..], b"renamed"] {
            let mut found = found.clone();
            case.scan_on(&mut redis, key, cursor.clone(), &mut found);
            let returned = found.len();
            found.sort();
            found.dedup();
            assert_eq!((found.len(), returned), (elements.len(), elements.len()), "{}", case.scan.escape_ascii());
            case.add(&mut redis, key, &names("new", 300));
        }
        redis.ask(&[b"DEL", b"copy"]);
        case.add(&mut redis, b"copy", &names("other", 3000));
        case.scan_on(&mut redis, b"copy", cursor, &mut found);
        redis.ask(&[b"DEL", b"copy", b"renamed"]);
    }
    running.stop();
}
