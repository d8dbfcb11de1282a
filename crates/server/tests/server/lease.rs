//! Tests of CAS tokens and leases, with clients of both protocols that race for one key.

use crate::common::redis::{Replies, both, request, resp, resp_addr};
use crate::common::{Client, PATIENCE, start, tcp};
use gannet_server::start::{Running, ServerConfig};
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::time::Instant;

const CLIENTS: usize = 4;
const ROUNDS: usize = 100;

fn started() -> Running {
    start(ServerConfig { workers: 2, ..both() })
}

/// Returns the lines of a reply, without the lengths of its strings.
fn words(replies: &mut Replies, line: &str) -> Vec<String> {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let text = String::from_utf8(replies.ask(&words)).unwrap();
    text.lines().filter(|line| !line.starts_with('$') || *line == "$-1").map(str::to_owned).collect()
}

/// Returns the first line of the reply to a meta command, and the value after it.
fn meta(client: &mut Client, line: &str) -> (String, String) {
    client.send(format!("{line}\r\n").as_bytes());
    let mut next = || {
        let (mut text, mut byte) = (Vec::new(), [0]);
        while !text.ends_with(b"\r\n") {
            client.stream.read_exact(&mut byte).expect("a line");
            text.push(byte[0]);
        }
        String::from_utf8(text).unwrap().trim_end().to_owned()
    };
    let head = next();
    let value = if head.starts_with("VA") { next() } else { String::new() };
    (head, value)
}

/// Waits until all clients have called this function. Panics after [`PATIENCE`], in case another client has failed.
fn meet(met: &AtomicU64) {
    let all = 2 * CLIENTS as u64;
    let target = met.fetch_add(1, AcqRel) / all * all + all;
    let deadline = Instant::now() + PATIENCE;
    while met.load(Acquire) < target {
        assert!(Instant::now() < deadline, "another client does not come");
        std::thread::yield_now();
    }
}

/// Tokens do not ascend in time over the open segments of several lifetimes. Regression: the fill of a lease whose item
/// was set meanwhile was refused if the token of that set was smaller.
#[test]
fn fill_after_a_plain_set_is_stored_as_stale_whichever_token_is_greater() {
    let running = start(ServerConfig { workers: 1, ..both() });
    let mut client = Client::connect(tcp(&running));
    // These open a segment of each lifetime, in different orders.
    let lifetimes = ["T0", "T20", "T4000", "T900000"];
    for (number, lifetime) in lifetimes.iter().enumerate() {
        assert_eq!(meta(&mut client, &format!("ms first{number} 1 {lifetime}\r\nz")).0, "HD");
    }
    for (number, (win, set)) in lifetimes.iter().flat_map(|win| lifetimes.map(|set| (*win, set))).enumerate() {
        let key = format!("key{number}");
        let (won, _) = meta(&mut client, &format!("mg {key} v c N{}", &win[1..]));
        let token = won.split(' ').find_map(|word| word.strip_prefix('c')).expect("a token").to_owned();
        assert!(won.ends_with(" W"), "{won}");
        assert_eq!(meta(&mut client, &format!("ms {key} 1 {set}\r\nd")).0, "HD");
        assert_eq!(meta(&mut client, &format!("ms {key} 1 C{token}\r\nA")).0, "EX", "{win} {set}");
        assert_eq!(meta(&mut client, &format!("ms {key} 1 C{token} I\r\nA")).0, "HD", "{win} {set}");
        let (stale, value) = meta(&mut client, &format!("mg {key} v"));
        assert_eq!((&stale[..], &value[..]), ("VA 1 X W", "A"), "{win} {set}");
        // A token that no item had is not older.
        assert_eq!(meta(&mut client, &format!("ms {key} 1 C{} I\r\nA", u64::MAX)).0, "EX");
    }
    // Tokens that clients choose are compared as numbers.
    assert_eq!(meta(&mut client, "ms own 1 E100\r\na").0, "HD");
    assert_eq!(meta(&mut client, "ms own 1 C101 I\r\nb").0, "EX");
    assert_eq!(meta(&mut client, "ms own 1 C99 I\r\nb").0, "HD");
    running.stop();
}

enum Either {
    Redis(Replies),
    Memcached(Client),
}

/// Requests a key with a lease. Returns the value, the state and the token, in the terms of `LEASE.GET`.
fn lease(client: &mut Either, key: &str) -> (String, &'static str, String) {
    match client {
        Either::Redis(replies) => {
            let answer = words(replies, &format!("LEASE.GET {key} EX 30"));
            assert_eq!((answer.len(), answer[0].as_str()), (4, "*3"), "{answer:?}");
            let state = ["hit", "won", "wait"].into_iter().find(|state| *state == answer[2]).expect("a state");
            let value = if answer[1] == "$-1" { String::new() } else { answer[1].clone() };
            (value, state, answer[3].clone())
        }
        Either::Memcached(client) => {
            let (head, value) = meta(client, &format!("mg {key} v c N30"));
            let flags: Vec<&str> = head.split(' ').skip(2).collect();
            let token = flags.iter().find_map(|flag| flag.strip_prefix('c')).expect("a token").to_owned();
            let state = match (flags.contains(&"W"), flags.contains(&"Z")) {
                (true, _) => "won",
                (_, true) => "wait",
                _ => "hit",
            };
            (value, state, token)
        }
    }
}

/// Stores a value with a lease's token. Returns true if the value was accepted.
fn fill(client: &mut Either, key: &str, token: &str, value: &str) -> bool {
    match client {
        Either::Redis(replies) => words(replies, &format!("LEASE.SET {key} {token} {value}")) == ["+OK"],
        Either::Memcached(client) => meta(client, &format!("ms {key} {} C{token} I\r\n{value}", value.len())).0 == "HD",
    }
}

#[test]
fn exactly_one_client_across_protocols_wins_the_fill_lease_per_round() {
    let running = started();
    let (met, wins) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..2 * CLIENTS {
            let (met, wins, running) = (&met, &wins, &running);
            scope.spawn(move || {
                let mut client = match number % 2 {
                    0 => Either::Redis(Replies::connect(resp_addr(running))),
                    _ => Either::Memcached(Client::connect(tcp(running))),
                };
                for round in 0..ROUNDS {
                    let (key, value) = (format!("k{}", round / 2), format!("v{round}"));
                    // In every second round the value exists, but is stale.
                    if round % 2 == 1
                        && number == 0
                        && let Either::Redis(replies) = &mut client
                    {
                        assert_eq!(words(replies, &format!("LEASE.STALE {key} EX 100")), [":1"]);
                    }
                    meet(met);
                    let (seen, state, token) = lease(&mut client, &key);
                    match state {
                        "won" => {
                            wins.fetch_add(1, Relaxed);
                            let before = if round % 2 == 1 { format!("v{}", round - 1) } else { String::new() };
                            assert_eq!(seen, before, "round {round}");
                            assert!(fill(&mut client, &key, &token, &value), "round {round}");
                        }
                        "hit" => assert_eq!(seen, value, "round {round}: a hit comes behind the fill"),
                        // A waiting client gets no value or the stale one, never the value that was filled meanwhile.
                        _ => {
                            let before = if round % 2 == 1 { format!("v{}", round - 1) } else { String::new() };
                            assert_eq!(seen, before, "round {round}: to wait for what is there");
                        }
                    }
                    meet(met);
                    assert_eq!(wins.load(Relaxed), round as u64 + 1, "one a round");
                    let (seen, state, _) = lease(&mut client, &key);
                    assert_eq!((seen, state), (value, "hit"), "round {round}");
                    meet(met);
                }
            });
        }
    });
    running.stop();
}

#[test]
fn cas_token_is_shared_by_both_protocols_and_valid_once() {
    let running = started();
    let (mut redis, mut memcached) = (resp(&running), Client::connect(tcp(&running)));
    assert_eq!(words(&mut redis, "CAS.GET k"), ["*-1"]);
    assert_eq!(words(&mut redis, "SET k one"), ["+OK"]);
    let token = words(&mut redis, "CAS.GET k")[2].clone();
    assert_eq!(words(&mut redis, "CAS.GET k"), ["*2", "one", &token]);
    memcached.ask(b"gets k\r\n", format!("VALUE k 0 3 {token}\r\none\r\nEND\r\n").as_bytes());
    memcached.ask(format!("cas k 0 0 3 {token}\r\ntwo\r\n").as_bytes(), b"STORED\r\n");
    assert_eq!(words(&mut redis, &format!("CAS.SET k {token} three")), ["$-1"]);
    let token = words(&mut redis, "CAS.GET k")[2].clone();
    assert_eq!(words(&mut redis, &format!("CAS.SET k {token} three PX 100000")), ["+OK"]);
    memcached.ask(format!("cas k 0 0 4 {token}\r\nfour\r\n").as_bytes(), b"EXISTS\r\n");
    assert_eq!(words(&mut redis, "GET k"), ["three"]);
    assert_eq!(words(&mut redis, "SET k five IFEQ three"), ["+OK"]);
    for (line, error) in [
        ("CAS.SET k x v", "-ERR value is not an integer or out of range"),
        ("CAS.SET k 1 v EX", "-ERR syntax error"),
        ("CAS.SET k 1 v EX 0", "-ERR invalid expire time in 'cas.set' command"),
        ("CAS.SET k 1 v EX 1 2", "-ERR syntax error"),
        ("LEASE.GET k RECACHE x", "-ERR value is not an integer or out of range"),
        ("LEASE.GET k NX 1", "-ERR syntax error"),
    ] {
        assert_eq!(words(&mut redis, line), [error], "{line}");
    }
    assert_eq!(words(&mut redis, "HSET h f v"), [":1"]);
    for line in ["CAS.GET h", "LEASE.GET h"] {
        assert!(words(&mut redis, line)[0].starts_with("-WRONGTYPE"), "{line}");
    }
    running.stop();
}

#[test]
fn value_marked_stale_during_refill_stays_stale_and_recache_wins_early() {
    let running = started();
    let mut redis = resp(&running);
    let first = words(&mut redis, "LEASE.GET k");
    assert_eq!((first[1].as_str(), first[2].as_str()), ("$-1", "won"));
    assert_eq!(words(&mut redis, &format!("LEASE.SET k {} one EX 100", first[3])), ["+OK"]);
    let early = words(&mut redis, "LEASE.GET k RECACHE 200000");
    assert_eq!((early[1].as_str(), early[2].as_str()), ("one", "won"));
    assert_eq!(words(&mut redis, "LEASE.GET k RECACHE 200000")[2], "wait");
    assert_eq!(words(&mut redis, "LEASE.STALE k"), [":1"]);
    let (again, token) = (words(&mut redis, "LEASE.GET k"), early[3].clone());
    assert_eq!((again[1].as_str(), again[2].as_str()), ("one", "won"));
    // The earlier lease is too late: its value may be outdated.
    assert_eq!(words(&mut redis, &format!("LEASE.SET k {token} two")), ["+OK"]);
    let late = words(&mut redis, "LEASE.GET k");
    assert_eq!((late[1].as_str(), late[2].as_str()), ("two", "won"));
    assert_eq!(words(&mut redis, &format!("LEASE.SET k {} three", late[3])), ["+OK"]);
    assert_eq!(words(&mut redis, "LEASE.GET k")[1..3], ["three".to_owned(), "hit".to_owned()]);
    assert_eq!(words(&mut redis, "LEASE.STALE none"), [":0"]);
    assert_eq!(words(&mut redis, "LEASE.SET none 5 v"), ["$-1"]);
    // A lease remains valid if its reply has to wait for an output buffer.
    let value = vec![b'x'; 100_000];
    assert_eq!(redis.ask(&[b"SET", b"long", &value, b"PX", b"100000"]), b"+OK\r\n");
    let gets = request(&[b"GET", b"long"]).repeat(8);
    redis.client.send(&[gets, request(&[b"LEASE.GET", b"long", b"RECACHE", b"200000"])].concat());
    (0..8).for_each(|_| drop(redis.next()));
    let answer = String::from_utf8(redis.next()).unwrap();
    assert!(answer.contains("\r\n$3\r\nwon\r\n"), "{}", &answer[answer.len() - 60..]);
    running.stop();
}
