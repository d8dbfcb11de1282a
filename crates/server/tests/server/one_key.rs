//! Clients of several workers that read and change one key at the same time. A command over one key does not lock it
//! for its first visit, so all that it reads of the key must be of one instant.

use crate::common::redis::{Replies, both, request, resp_addr, words};
use crate::common::{start, wait_until};
use base::prng::Prng;
use gannet_server::start::{Running, ServerConfig};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The number of requests that a client sends at once.
const PIPELINED: usize = 64;
/// The time during which the clients send requests.
const RACE: Duration = Duration::from_millis(800);

/// The minimum number of times that each client sends its requests.
const ROUNDS_MIN: u64 = 4;
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

/// A function that returns the next request of a client.
type NextLine<'r> = dyn FnMut(&mut Prng) -> String + Send + 'r;
/// A function that checks a request with its reply.
type Check<'r> = dyn FnMut(&str, &str) + Send + 'r;

/// A client of a race.
struct Racer<'r> {
    line: Box<NextLine<'r>>,
    check: Box<Check<'r>>,
}

fn racer<'r>(
    line: impl FnMut(&mut Prng) -> String + Send + 'r,
    check: impl FnMut(&str, &str) + Send + 'r,
) -> Racer<'r> {
    Racer { line: Box::new(line), check: Box::new(check) }
}

/// Returns a client that sends the same lines repeatedly, with `#` replaced by a growing number.
fn writer<'r>(lines: &'r [&str]) -> Racer<'r> {
    let mut sent = 0;
    let line = move |_: &mut Prng| {
        sent += 1;
        lines[(sent - 1) % lines.len()].replace('#', &sent.to_string())
    };
    racer(line, |line, got| assert!(!got.starts_with("-ERR"), "{line}: {got}"))
}

/// Returns a client that sends these lines in a random order. It adds `weight` to `sum` for each reply `:1` or `+OK`.
fn counted<'r>(lines: &'r [&str], sum: &'r AtomicI64, weight: i64) -> Racer<'r> {
    let line = |prng: &mut Prng| lines[prng.below(lines.len() as u64) as usize].to_owned();
    racer(line, move |line, got| {
        assert!(!got.starts_with('-'), "{line}: {got}");
        if matches!(got, ":1" | "+OK") {
            sum.fetch_add(weight, Relaxed);
        }
    })
}

/// Lets clients compete for [`RACE`], and longer on a busy machine: until each has sent [`ROUNDS_MIN`] times.
fn race(addr: SocketAddr, racers: Vec<Racer<'_>>) {
    let stop = AtomicBool::new(false);
    let rounds: Vec<AtomicU64> = racers.iter().map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for ((seed, Racer { mut line, mut check }), rounds) in (0..).zip(racers).zip(&rounds) {
            let (stop, mut prng) = (&stop, Prng::new(seed));
            let mut replies = 0;
            let check = move |line: &str, got: &str| {
                check(line, got);
                replies += 1;
                rounds.store(replies / PIPELINED as u64, Relaxed);
            };
            scope.spawn(move || repeat(addr, stop, || line(&mut prng), check));
        }
        std::thread::sleep(RACE);
        wait_until("each client has sent often", || rounds.iter().all(|one| one.load(Relaxed) >= ROUNDS_MIN));
        stop.store(true, Relaxed);
    });
}

/// Lets clients of `readers` compete with one client of each of `writers`. Returns the number of their replies.
fn race_readers(addr: SocketAddr, readers: &[&str], writers: &[&[&str]], check: &(dyn Fn(&str, &str) + Sync)) -> u64 {
    let read = AtomicU64::new(0);
    let line = |prng: &mut Prng| readers[prng.below(readers.len() as u64) as usize].to_owned();
    let check = |line: &str, got: &str| {
        read.fetch_add(1, Relaxed);
        check(line, got);
    };
    let readers = (0..3).map(|_| racer(line, check));
    race(addr, readers.chain(writers.iter().map(|lines| writer(lines))).collect());
    read.into_inner()
}

/// Returns the number of elements of the array in a reply.
fn count_of(reply: &str) -> Option<u64> {
    reply.strip_prefix('*')?.split(' ').next()?.parse().ok()
}

/// Returns the elements of the array of texts in a reply.
fn texts(reply: &str) -> Vec<&str> {
    reply.split(' ').skip(2).step_by(2).collect()
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
        // A busy machine may take longer for enough of them.
        wait_until("many elements were popped", || popped.load(Relaxed) > 1000);
        stop.store(true, Relaxed);
    });
    let mut control = Replies::connect(addr);
    let left = ["LLEN k", "ZCARD z", "SCARD s"].map(|line| control.text(line)[1..].parse::<u64>().expect("a length"));
    let (pushed, popped) = (pushed.load(Relaxed), popped.load(Relaxed));
    println!("{pushed} pushed, {popped} popped, {left:?} left");
    assert_eq!(pushed, popped + left.iter().sum::<u64>());
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
        wait_until("entries were read", || read.load(Relaxed) > 100);
        stop.store(true, Relaxed);
    });
    println!("{} replies with entries", read.load(Relaxed));
    assert!(read.load(Relaxed) > 100);
    running.stop();
}

/// Checks that a reply is an array of at most `most` texts, each of which occurs once.
fn check_distinct(line: &str, got: &str, most: u64) {
    let count = count_of(got).unwrap_or_else(|| panic!("{line}: {got}"));
    let found: HashSet<_> = texts(got).into_iter().collect();
    assert!(found.len() as u64 == count && count <= most, "{line}: {got}");
}

#[test]
fn a_list_that_others_change_is_sorted_to_its_end() {
    let running = three_workers();
    let addr = resp_addr(&running);
    let mut control = Replies::connect(addr);
    for number in 0..90 {
        control.text(&format!("RPUSH l -{number}"));
    }
    let writers: [&[&str]; 2] = [&["LPUSH l #", "RPOP l"], &["RPUSH one x", "LPOP one"]];
    let readers = ["SORT l", "SORT_RO l BY nosort", "SORT one ALPHA", "SORT_RO one BY nosort"];
    let read = race_readers(addr, &readers, &writers, &|line, got| {
        check_distinct(line, got, if line.contains("one") { 1 } else { 92 });
    });
    println!("{read} replies");
    assert!(read > 100);
    running.stop();
}

#[test]
fn a_search_of_an_area_finds_each_member_once() {
    let running = three_workers();
    let addr = resp_addr(&running);
    let mut control = Replies::connect(addr);
    for number in 0..200 {
        control.text(&format!("GEOADD g 0 0 z{number}"));
    }
    // A member that is added is the first in the order, and the last one is removed.
    let writers: [&[&str]; 1] = [&["GEOADD g 0 0 #", "ZPOPMAX g"]];
    let readers = ["GEOSEARCH g FROMLONLAT 0 0 BYRADIUS 1 km", "GEORADIUS_RO g 0 0 1 km ASC"];
    let read = race_readers(addr, &readers, &writers, &|line, got| check_distinct(line, got, 202));
    assert!(read > 100);
    running.stop();
}

#[test]
fn a_key_is_created_once_by_one_client() {
    let running = three_workers();
    let addr = resp_addr(&running);
    let deletes = ["DEL a", "DEL b"];
    let creators = ["MSETNX a v", "MSETNX b v", "MSETEX 1 a v NX", "MSETEX 1 b v NX"];
    let made = AtomicI64::new(0);
    let clients = || counted(&creators, &made, 1);
    race(addr, vec![clients(), clients(), clients(), counted(&deletes, &made, -1), counted(&deletes, &made, -1)]);
    let left = |control: &mut Replies| control.text("EXISTS a b")[1..].parse::<i64>().expect("a number");
    let mut control = Replies::connect(addr);
    assert_eq!(made.load(Relaxed), left(&mut control));

    control.text("DEL a b");
    let (made, replaced) = (AtomicI64::new(0), AtomicI64::new(0));
    let creators = ["SET a v NX", "SET b v NX"];
    let replacers = ["MSETEX 1 a w XX", "MSETEX 1 b w XX"];
    let replacer = || counted(&replacers, &replaced, 1);
    race(addr, vec![counted(&creators, &made, 1), replacer(), replacer(), counted(&deletes, &made, -1)]);
    assert_eq!(made.load(Relaxed), left(&mut control));
    assert!(replaced.load(Relaxed) > 10);
    running.stop();
}

#[test]
fn elements_that_a_removal_counts_are_removed() {
    let running = three_workers();
    let addr = resp_addr(&running);
    let (pushed, removed) = (AtomicI64::new(0), AtomicI64::new(0));
    let client = || {
        let line = |prng: &mut Prng| ["RPUSH l x", "LREM l 1 x", "LREM l -1 x"][prng.below(3) as usize].to_owned();
        racer(line, |line, got| {
            let (count, number) = (if line.starts_with('R') { &pushed } else { &removed }, got[1..].parse::<i64>());
            count.fetch_add(if line.starts_with('R') { 1 } else { number.expect("a number") }, Relaxed);
        })
    };
    race(addr, (0..6).map(|_| client()).collect());
    let left: i64 = Replies::connect(addr).text("LLEN l")[1..].parse().expect("a length");
    let (pushed, removed) = (pushed.into_inner(), removed.into_inner());
    println!("{pushed} pushed, {removed} removed, {left} left");
    assert_eq!(pushed, removed + left);
    assert!(removed > 100);
    running.stop();
}

#[test]
fn a_counter_is_set_only_while_it_has_the_digest_of_the_condition() {
    let running = three_workers();
    let addr = resp_addr(&running);
    let mut control = Replies::connect(addr);
    let digests: Vec<_> = (0..4)
        .map(|number| {
            control.text(&format!("SET d {number}"));
            control.text("DIGEST d").replace("$16 ", "")
        })
        .collect();
    control.text("SET c 0");
    let set = AtomicI64::new(0);
    let setter = || {
        let line = |prng: &mut Prng| {
            let number = prng.below(digests.len() as u64) as usize;
            format!("SET c {number} IFDEQ {}", digests[number])
        };
        racer(line, |_, got| {
            set.fetch_add(i64::from(got == "+OK"), Relaxed);
        })
    };
    // Each client sends equal numbers of both, so the counter ends at its first value.
    let counter = || writer(&["DECR c", "INCR c"]);
    race(addr, vec![counter(), setter(), counter(), setter(), setter()]);
    println!("set {} times", set.load(Relaxed));
    assert_eq!(control.text("GET c"), "$1 0");
    assert!(set.load(Relaxed) > 10);
    running.stop();
}

#[test]
fn a_dumped_string_is_that_of_one_client() {
    let running = three_workers();
    let addr = resp_addr(&running);
    let sets = [b'a', b'b'].map(|byte| format!("SET s {}", String::from_utf8(vec![byte; 20_000]).expect("text")));
    let sets: [&[&str]; 2] = [&[&sets[0]], &[&sets[1]]];
    let read = race_readers(addr, &["DUMP s"], &sets, &|_, got| {
        let has = |letter: &str| got.contains(&letter.repeat(100));
        assert!(!has("a") || !has("b"), "two values in one payload");
    });
    assert!(read > 100);
    running.stop();
}

#[test]
fn fields_that_are_read_in_steps_are_those_of_one_hash() {
    let running = three_workers();
    let addr = resp_addr(&running);
    Replies::connect(addr).text("HSET h f aaaa");
    let read = format!("HMGET h{}", " f".repeat(4000));
    let writers: [&[&str]; 1] = [&["HSET x f aaaa", "RENAME x h", "HSET x f bbbb", "RENAME x h"]];
    let read = race_readers(addr, &[&read], &writers, &|_, got| {
        assert_eq!(count_of(got), Some(4000));
        assert!(got.contains("aaaa") != got.contains("bbbb"), "fields of two hashes");
    });
    assert!(read > 100);
    running.stop();
}

#[test]
fn a_deleted_hyperloglog_does_not_come_back_with_its_elements() {
    let running = three_workers();
    let addr = resp_addr(&running);
    // The number of times that the element was added, minus the number of values with the element that were removed.
    // A HyperLogLog without elements has 18 bytes.
    let added = AtomicI64::new(0);
    let remover = || {
        racer(
            |_| "GETDEL h".to_owned(),
            |_, got| {
                added.fetch_sub(i64::from(!got.starts_with("$18 ") && got != "$-1"), Relaxed);
            },
        )
    };
    let adder = || counted(&["PFADD h a"], &added, 1);
    let merger = || writer(&["PFMERGE h"]);
    race(addr, vec![remover(), merger(), adder(), merger(), remover(), merger()]);
    let left = Replies::connect(addr).text("PFCOUNT h");
    assert_eq!(format!(":{}", added.load(Relaxed)), left);
    running.stop();
}

#[test]
fn random_members_are_at_most_as_many_as_are_wanted() {
    let running = three_workers();
    let addr = resp_addr(&running);
    let writers: [&[&str]; 2] =
        [&["SADD s a b c d e f g h", "DEL s", "SADD s a"], &["ZADD z 1 a 1 b 1 c 1 d 1 e 1 f", "DEL z", "ZADD z 1 a"]];
    let readers = ["SRANDMEMBER s 2", "SRANDMEMBER s -2", "ZRANDMEMBER z 2", "ZRANDMEMBER z -2"];
    race_readers(addr, &readers, &writers, &|line, got| {
        assert!(count_of(got).is_some_and(|count| count <= 2), "{line}: {got}");
    });
    running.stop();
}

#[test]
fn keys_whose_type_changes_are_read_without_an_error() {
    let running = three_workers();
    let addr = resp_addr(&running);
    let hashes: &[&str] = &["DEL k", "HSET k f v", "SET k v"];
    let writers = [hashes, hashes, &["DEL k", "RPUSH k v", "SET k vv"]];
    let readers = ["EXISTS k", "TYPE k", "TTL k", "PEXPIRETIME k", "DUMP k", "DUMP k", "DUMP k"];
    race_readers(addr, &readers, &writers, &|line, got| {
        assert!(!got.starts_with('-'), "{line}: {got}");
    });
    running.stop();
}

#[test]
fn members_that_are_counted_in_steps_are_those_of_one_set() {
    let running = three_workers();
    let addr = resp_addr(&running);
    // Each addition is one change.
    let add = |begin: &str, by: &str, first: u32| {
        let members: String = (first..first + 50).map(|number| format!("{by}{number}")).collect();
        format!("{begin}{members}")
    };
    let sets = [0, 50, 100].map(|first| add("SADD s", " ", first));
    let sorted_sets = [0, 50, 100].map(|first| add("ZADD z", " 1 ", first));
    let [first, second, third] = &sets;
    let set: &[&str] = &["DEL s", first, second, third];
    let [first, second, third] = &sorted_sets;
    let writers = [set, &["DEL z", first, second, third]];
    race_readers(addr, &["SINTERCARD 1 s", "ZINTERCARD 1 z"], &writers, &|line, got| {
        assert!(matches!(got, ":0" | ":50" | ":100" | ":150"), "{line}: {got}");
    });
    running.stop();
}

#[test]
fn a_pop_of_many_elements_takes_all_that_are_there() {
    let running = three_workers();
    let addr = resp_addr(&running);
    let push = format!("RPUSH l{}", " x".repeat(60));
    let writers: [&[&str]; 1] = [&[&push]];
    race_readers(addr, &["LPOP l 100000", "RPOP l 100000", "LMPOP 1 l LEFT COUNT 100000"], &writers, &|line, got| {
        let got = got.strip_prefix("*2 $1 l ").unwrap_or(got);
        assert!(got == "*-1" || count_of(got).is_some_and(|count| count % 60 == 0), "{line}: {}", got.len());
    });
    running.stop();
}

#[test]
fn a_group_that_is_destroyed_is_reported_as_missing() {
    let running = three_workers();
    let addr = resp_addr(&running);
    Replies::connect(addr).text("XADD s 1-1 f v");
    let writers: [&[&str]; 1] = [&["XGROUP DESTROY s g", "XGROUP CREATE s g 0"]];
    let readers = ["XCLAIM s g c 0 1-1 FORCE JUSTID", "XREADGROUP GROUP g c STREAMS s 0"];
    race_readers(addr, &readers, &writers, &|line, got| {
        assert!(got.starts_with("*1 ") || got.starts_with("-NOGROUP"), "{line}: {got}");
    });
    running.stop();
}

#[test]
fn a_restored_value_that_has_expired_removes_no_value_of_another_client() {
    let running = three_workers();
    let addr = resp_addr(&running);
    let mut control = Replies::connect(addr);
    // A payload that is text, so that it is a word of a line.
    let payload = (0..100_000).find_map(|number: u32| {
        control.text(&format!("SET x {number}x"));
        let payload = String::from_utf8(control.ask(&words("DUMP x"))).ok()?;
        let (_, payload) = payload.strip_suffix("\r\n")?.split_once("\r\n")?;
        (!payload.contains(' ')).then(|| payload.to_owned())
    });
    let restore = format!("RESTORE k 1 {} ABSTTL", payload.expect("a payload that is text"));
    let made = AtomicI64::new(0);
    let restorer = || racer(|_| restore.clone(), |_, got| assert!(got == "+OK" || got.contains("BUSYKEY"), "{got}"));
    let (creator, remover) = (["SET k v NX"], ["DEL k"]);
    let clients = vec![
        counted(&creator, &made, 1),
        restorer(),
        counted(&remover, &made, -1),
        restorer(),
        counted(&creator, &made, 1),
        restorer(),
    ];
    race(addr, clients);
    assert_eq!(format!(":{}", made.load(Relaxed)), control.text("EXISTS k"));
    running.stop();
}
