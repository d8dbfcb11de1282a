//! Clients of several workers that read and change one key at the same time. A command over one key does not lock it
//! for its first visit, so all that it reads of the key must be of one instant.

use crate::common::redis::{Replies, both, request, resp_addr, words};
use crate::common::start;
use base::prng::Prng;
use gannet_server::start::{Running, ServerConfig};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The number of requests that a client sends at once.
const PIPELINED: usize = 64;
/// The time during which the clients send requests.
const RACE: Duration = Duration::from_millis(800);

/// The number of entries that a trimmed stream keeps.
const KEPT: u64 = 200;

fn three_workers() -> Running {
    start(ServerConfig { workers: 3, ..both() })
}

/// Sends pipelined requests until `stop`. Passes each request with its reply to `check`, as text with spaces in place
/// of line ends.
fn repeat(addr: SocketAddr, stop: &AtomicBool, mut line: impl FnMut() -> String, mut check: impl FnMut(&str, &str)) {
    let mut client = Replies::connect(addr);
    while !stop.load(Relaxed) {
        let lines: Vec<_> = (0..PIPELINED).map(|_| line()).collect();
        let bytes: Vec<_> = lines.iter().flat_map(|line| request(&words(line))).collect();
        client.client.send(&bytes);
        for line in &lines {
            check(line, &String::from_utf8_lossy(&client.next()).trim_end().replace("\r\n", " "));
        }
    }
}

/// Lets clients of all workers pop elements from one key that is nearly always empty. Each element is popped once, and
/// a reply without an element is null.
fn race_for_elements(push: &str, pops: &[(&str, &str)]) {
    let running = three_workers();
    let addr = resp_addr(&running);
    let (stop, pushed, popped) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (pop, reply) in pops {
            let (stop, popped) = (&stop, &popped);
            scope.spawn(move || {
                repeat(
                    addr,
                    stop,
                    || (*pop).to_owned(),
                    |_, got| {
                        let is_null = matches!(got, "*-1" | "$-1" | "*0");
                        assert!(is_null || got.starts_with(reply), "{pop}: {got}");
                        popped.fetch_add(u64::from(!is_null), Relaxed);
                    },
                );
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                repeat(
                    addr,
                    &stop,
                    || push.replace('N', &pushed.fetch_add(1, Relaxed).to_string()),
                    |_, got| {
                        assert!(got.starts_with(':'), "{got}");
                    },
                );
            });
        }
        std::thread::sleep(RACE);
        stop.store(true, Relaxed);
    });
    let mut control = Replies::connect(addr);
    let left = ["LLEN k", "ZCARD z", "SCARD s"].map(|line| control.text(line)[1..].parse::<u64>().expect("a length"));
    let (pushed, popped) = (pushed.load(Relaxed), popped.load(Relaxed));
    println!("{pushed} pushed, {popped} popped, {left:?} left");
    assert_eq!(pushed, popped + left.iter().sum::<u64>());
    assert!(popped > 1000);
    running.stop();
}

#[test]
fn elements_for_which_clients_of_all_workers_compete_are_replied_whole_and_once() {
    let lists = [
        ("BLPOP k 0.000001", "*2 $1 k $"),
        ("LMPOP 1 k LEFT", "*2 $1 k *1 $"),
        ("BLMPOP 0.000001 1 k RIGHT COUNT 1", "*2 $1 k *1 $"),
        ("RPOP k", "$"),
        ("LPOP k 1", "*1 $"),
    ];
    race_for_elements("RPUSH k N", &lists);
    let sorted_sets = [
        ("BZPOPMIN z 0.000001", "*3 $1 z $"),
        ("ZMPOP 1 z MIN", "*2 $1 z *1 *2 $"),
        ("BZMPOP 0.000001 1 z MAX COUNT 1", "*2 $1 z *1 *2 $"),
        ("ZPOPMAX z", "*2 $"),
    ];
    race_for_elements("ZADD z 1 N", &sorted_sets);
    race_for_elements("SADD s N", &[("SPOP s", "$"), ("SPOP s 1", "*1 $"), ("SPOP s", "$")]);
}

/// The identifier in front of the fields of the first entry in a reply of `XREAD` or `XRANGE`.
fn first_id(reply: &str) -> Option<u64> {
    reply.split(' ').find_map(|word| word.strip_suffix("-1")?.parse().ok())
}

#[test]
fn readers_of_a_stream_that_is_trimmed_miss_no_entry_that_is_there() {
    let running = three_workers();
    let addr = resp_addr(&running);
    let (stop, last, read) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (stop, last, read) = (&stop, &last, &read);
            scope.spawn(move || {
                let (mut prng, mut control) = (Prng::new(seed), Replies::connect(addr));
                let line = || {
                    let behind = last.load(Relaxed).saturating_sub(prng.below(KEPT / 2));
                    if prng.chance(1, 2) {
                        format!("XREAD COUNT 3 STREAMS s {behind}-1")
                    } else {
                        format!("XRANGE s ({behind}-1 + COUNT 3")
                    }
                };
                repeat(addr, stop, line, |line, got| {
                    let Some(first) = first_id(got) else { return };
                    read.fetch_add(1, Relaxed);
                    let behind = first_id(&line.replace('(', "")).expect("an identifier");
                    assert!(first > behind, "{line}: {got}");
                    if first > behind + 1 {
                        // Entries are only removed at the start, so those between were removed before the reply.
                        let between = format!("XRANGE s ({behind}-1 ({first}-1");
                        assert_eq!(control.text(&between), "*0", "{line}: {got}");
                    }
                });
            });
        }
        scope.spawn(|| {
            let mut next = 0;
            let line = || {
                next += 1;
                format!("XADD s MAXLEN {KEPT} {next}-1 f v")
            };
            repeat(addr, &stop, line, |_, got| {
                last.store(first_id(got).expect("an identifier"), Relaxed);
            });
        });
        std::thread::sleep(RACE);
        stop.store(true, Relaxed);
    });
    println!("{} replies with entries", read.load(Relaxed));
    assert!(read.load(Relaxed) > 100);
    running.stop();
}
