//! Tests the detection of hot, big and missed keys in a Zipf-distributed stream over both protocols.

use crate::common::redis::{Replies, request};
use crate::common::{Client, config, start, tcp};
use base::prng::Prng;
use command::clients::endpoint::Protocol;
use command::metrics::hot_keys::{HotKeyList, HotKeyReport};
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use std::net::SocketAddr;

/// The number of ordinary keys in the stream.
const KEYS: u64 = 5000;
/// The total number of requests, and the number in a batch.
const REQUESTS: usize = 240_000;
const BATCH: usize = 500;

fn resp_addr(running: &Running) -> SocketAddr {
    let found = running.listeners().find_map(|(protocol, addr)| match addr {
        ListenAddr::Tcp(addr) if protocol == Protocol::Resp => Some(*addr),
        _ => None,
    });
    found.expect("an address for clients of Redis")
}

/// Returns a key of the stream: `hot:one` in 5 of 100, `gone:two`, which is never stored, in 3, and the others by
/// Zipf's law.
fn key(prng: &mut Prng) -> String {
    match prng.below(100) {
        0..5 => "hot:one".to_owned(),
        5..8 => "gone:two".to_owned(),
        _ => format!("user:{}", ((KEYS + 1) as f64).powf(prng.unit()) as u64 - 1),
    }
}

fn names(replied: &HotKeyReport, list: HotKeyList) -> Vec<String> {
    replied.list(list).iter().map(|leader| String::from_utf8_lossy(&leader.name.bytes).into_owned()).collect()
}

/// Returns the reported count of a name, divided by the expected count.
fn share(replied: &HotKeyReport, list: HotKeyList, name: &str, percent: usize) -> f64 {
    let leader = replied.list(list).iter().find(|leader| leader.name.bytes[..] == *name.as_bytes());
    let amount = leader.unwrap_or_else(|| panic!("{name} is not in {:?}", names(replied, list))).amount;
    amount as f64 / (REQUESTS * percent / 100) as f64
}

#[test]
fn hot_keys_are_found_across_both_protocols_and_all_workers() {
    let running = start(ServerConfig {
        workers: 2,
        resp: vec![ListenAddr::Tcp(([127, 0, 0, 1], 0).into())],
        item_bytes_max: 4 << 20,
        ..config()
    });
    let (mut redis, mut memcached) = (Replies::connect(resp_addr(&running)), Client::connect(tcp(&running)));
    let mut fill = Vec::new();
    for number in 0..KEYS {
        fill.extend(request(&[b"SET", format!("user:{number}").as_bytes(), b"v"]));
    }
    fill.extend(request(&[b"SET", b"hot:one", b"v"]));
    redis.client.send(&fill);
    (0..=KEYS).for_each(|_| assert_eq!(redis.next(), b"+OK\r\n"));
    // Stored once, of a length that is sent in pieces, and of one that is not.
    assert_eq!(redis.ask(&[b"SET", b"big:first", &vec![b'x'; 2_000_000]]), b"+OK\r\n");
    let value = [&b"set big:second 0 0 50000\r\n"[..], &[b'y'; 50_000], b"\r\n"].concat();
    memcached.ask(&value, b"STORED\r\n");
    let mut prng = Prng::new(7);
    for batch in 0..REQUESTS / BATCH {
        let keys: Vec<String> = (0..BATCH).map(|_| key(&mut prng)).collect();
        if batch % 2 == 0 {
            let gets = keys.iter().flat_map(|key| request(&[b"GET", key.as_bytes()])).collect::<Vec<u8>>();
            redis.client.send(&gets);
            keys.iter().for_each(|_| drop(redis.next()));
        } else {
            let hit = |key: &String| {
                if key.starts_with("gone") { String::new() } else { format!("VALUE {key} 0 1\r\nv\r\n") }
            };
            let gets: String = keys.iter().map(|key| format!("get {key}\r\n")).collect();
            let wanted: String = keys.iter().map(|key| hit(key) + "END\r\n").collect();
            memcached.ask(gets.as_bytes(), wanted.as_bytes());
        }
    }
    let replied = running.shared().hot_keys(60, 20);
    // 12,000 and 7,200 requests: their samples are within 5 standard deviations (10 % and 13 %).
    let (hot, gone) =
        (share(&replied, HotKeyList::Keys, "hot:one", 5), share(&replied, HotKeyList::Missed, "gone:two", 3));
    assert!((0.4..1.6).contains(&hot) && (0.3..1.7).contains(&gone), "{hot} {gone}");
    assert_eq!(names(&replied, HotKeyList::Keys)[0], "user:0", "the first of Zipf's law");
    assert_eq!(names(&replied, HotKeyList::Missed), ["gone:two"], "nothing else is missed");
    assert_eq!(names(&replied, HotKeyList::Prefixes)[..3], ["user", "hot", "gone"]);
    assert_eq!(names(&replied, HotKeyList::MissedPrefixes), ["gone"]);
    assert_eq!(names(&replied, HotKeyList::Big)[..2], ["big:first", "big:second"]);
    let bytes: Vec<u64> = replied.list(HotKeyList::Big)[..2].iter().map(|leader| leader.amount).collect();
    assert_eq!(bytes, [2_000_000, 50_000], "lengths are exact");

    let answer = String::from_utf8(redis.ask(&[b"HOTKEYS", b"big", b"COUNT", b"1"])).unwrap();
    assert!(answer.ends_with("$3\r\nbig\r\n*1\r\n*3\r\n$9\r\nbig:first\r\n:2000000\r\n$7\r\ndefault\r\n"), "{answer}");
    let all = String::from_utf8(redis.ask(&[b"HOTKEYS", b"MINUTES", b"0"])).unwrap();
    assert!(all.starts_with("*14\r\n") && all.contains("$15\r\nmissed-prefixes\r\n"), "{all}");
    for wrong in [&[&b"HOTKEYS"[..], b"cold"][..], &[b"HOTKEYS", b"big", b"keys"], &[b"HOTKEYS", b"COUNT"]] {
        assert_eq!(redis.ask(wrong), b"-ERR syntax error\r\n");
    }
    assert_eq!(redis.ask(&[b"HOTKEYS", b"MINUTES", b"1441"]), b"-ERR value is out of range\r\n");
    running.stop();
}
