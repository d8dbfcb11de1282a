//! Tests of replies that are written over several visits, with events between two visits.

use crate::common;
use crate::common::redis::{reply_len, request};
use crate::sim::World;
use command::clients::endpoint::Protocol::Resp;
use gannet_server::start::ServerConfig;
use io::sim::{Faults, SimClient};
use std::sync::atomic::Ordering::Relaxed;

/// The length of a value whose copy takes many visits, so that other events happen between the visits.
const LONG_BYTES: usize = 3_000_000;

fn config() -> ServerConfig {
    ServerConfig { memory_bytes: 256 << 20, item_bytes_max: 16 << 20, segment_bytes: Some(1 << 20), ..common::config() }
}

/// Sends a request and returns its reply.
fn ask(world: &mut World, client: &SimClient, words: &[&[u8]]) -> Vec<u8> {
    client.send(&request(words));
    answer(world, client).expect("an answer")
}

/// Returns the next reply, or `None` if the connection was closed before the reply.
fn answer(world: &mut World, client: &SimClient) -> Option<Vec<u8>> {
    let mut got = Vec::new();
    for _ in 0..20_000 {
        world.guard();
        got.extend(client.take(usize::MAX));
        match reply_len(&got) {
            Some(len) => {
                assert_eq!(len, got.len(), "more than one answer: {}", got[len..].escape_ascii());
                return Some(got);
            }
            None if client.is_closed() => return None,
            None => {}
        }
    }
    panic!("{} bytes and no end: {}", got.len(), got[..got.len().min(100)].escape_ascii());
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// A command that reads `key`, and its replies with and without a value.
struct Reads {
    words: &'static [&'static [u8]],
    /// The start of the reply, before the value, and the part of the value that the reply contains.
    before: &'static [u8],
    range: std::ops::Range<usize>,
    /// The whole reply if the key does not exist.
    none: &'static [u8],
}

const fn reads(words: &'static [&'static [u8]], none: &'static [u8]) -> Reads {
    Reads { words, before: b"", range: 0..LONG_BYTES, none }
}

fn commands_that_read() -> Vec<Reads> {
    vec![
        reads(&[b"GET", b"long"], b"$-1\r\n"),
        reads(&[b"GETDEL", b"long"], b"$-1\r\n"),
        reads(&[b"GETEX", b"long"], b"$-1\r\n"),
        reads(&[b"GETEX", b"long", b"PERSIST"], b"$-1\r\n"),
        reads(&[b"GETEX", b"long", b"EX", b"100"], b"$-1\r\n"),
        reads(&[b"GETSET", b"long", b"new"], b"$-1\r\n"),
        reads(&[b"SET", b"long", b"new", b"GET"], b"$-1\r\n"),
        Reads { range: 1000..2_000_001, ..reads(&[b"GETRANGE", b"long", b"1000", b"2000000"], b"$0\r\n\r\n") },
        Reads { before: b"*1\r\n", ..reads(&[b"MGET", b"long"], b"*1\r\n$-1\r\n") },
        Reads { before: b"*3\r\n$-1\r\n", ..reads(&[b"MGET", b"n", b"long", b"n"], b"*3\r\n$-1\r\n$-1\r\n$-1\r\n") },
        Reads { before: b"*2\r\n", ..reads(&[b"CAS.GET", b"long"], b"*-1\r\n") },
        Reads { before: b"*3\r\n", ..reads(&[b"LEASE.GET", b"long"], b"*3\r\n$-1\r\n$3\r\nwon\r\n") },
    ]
}

/// A value expires while it is copied into the replies of a transaction. Its reply must contain all of the value or
/// nothing, and the next reply must follow.
#[test]
fn a_long_value_that_ends_while_it_is_copied_is_answered_whole_or_not_at_all() {
    let long = common::pattern(LONG_BYTES);
    let (mut whole, mut none) = (0, 0);
    for command in commands_that_read() {
        for after in [1, 3, 4, 6, 9, 14] {
            let mut world = World::new(1, Faults::NONE, config());
            let client = world.connect(Resp);
            ask(&mut world, &client, &[b"SET", b"long", &long, b"PX", b"10000"]);
            let queued = [request(command.words), request(&[b"ECHO", b"marker"])].concat();
            client.send(&[request(&[b"MULTI"]), queued].concat());
            world.iterations(6);
            assert_eq!(client.take(1000), b"+OK\r\n+QUEUED\r\n+QUEUED\r\n");
            client.send(&request(&[b"EXEC"]));
            world.iterations(after);
            world.clock_ns.fetch_add(11_000_000_000, Relaxed);
            let got = answer(&mut world, &client).expect("an answer");
            let what = format!("{} after {after} turns", command.words[0].escape_ascii());
            let value = [command.before, &bulk(&long[command.range.clone()])].concat();
            assert!(got.ends_with(b"$6\r\nmarker\r\n"), "{what}: {}", got[got.len() - 60..].escape_ascii());
            let got = got.strip_prefix(b"*2\r\n").expect("two answers");
            if got.starts_with(&value) {
                whole += 1;
            } else {
                let shown = got[..got.len().min(80)].escape_ascii();
                assert!(got.len() < 200 && got.starts_with(command.none), "{what}: {shown}, {} bytes", got.len());
                none += 1;
            }
            assert_eq!(ask(&mut world, &client, &[b"PING"]), b"+PONG\r\n", "{what}");
        }
    }
    assert!(whole > 10 && none > 10, "{whole} whole and {none} missing: too few of either to prove anything");
}

/// The source of a stored range expires while its elements are copied. The command must end, and free its keys for
/// other clients.
#[test]
fn range_whose_source_ends_while_it_is_stored_does_not_hold_its_keys_for_ever() {
    let members: Vec<Vec<u8>> = (0..20_000).map(|number| format!("member-{number}").into_bytes()).collect();
    let options: [&[&[u8]]; 3] = [&[b"0", b"-1"], &[b"0", b"-1", b"REV"], &[b"-inf", b"+inf", b"BYSCORE"]];
    let (mut whole, mut fewer) = (0, 0);
    for options in options {
        for after in [1, 3, 8, 20, 60, 1000] {
            let mut world = World::new(1, Faults::NONE, config());
            let (client, other) = (world.connect(Resp), world.connect(Resp));
            for some in members.chunks(1000) {
                let pairs = some.iter().flat_map(|member| [&b"1"[..], member]);
                ask(&mut world, &client, &[&b"ZADD"[..], b"source"].into_iter().chain(pairs).collect::<Vec<_>>());
            }
            ask(&mut world, &client, &[b"PEXPIRE", b"source", b"10000"]);
            client.send(&request(&[&[&b"ZRANGESTORE"[..], b"result", b"source"], options].concat()));
            world.iterations(after);
            world.clock_ns.fetch_add(11_000_000_000, Relaxed);
            let got = answer(&mut world, &client).expect("an answer");
            if got == b":20000\r\n" {
                whole += 1
            } else {
                fewer += 1
            }
            assert_eq!(ask(&mut world, &other, &[b"ZCARD", b"result"]), got, "{options:?} after {after} iterations");
            assert_eq!(ask(&mut world, &other, &[b"EXISTS", b"source"]), b":0\r\n");
        }
    }
    assert!(whole > 0 && fewer > 2, "{whole} whole and {fewer} shorter results: too few to prove anything");
}

/// A request with an unlimited number of keys reads them without a key lock set, so a value can change while it is
/// copied.
#[test]
fn long_value_changed_during_a_copy_is_returned_old_or_new_never_mixed() {
    let (one, two) = (common::pattern(LONG_BYTES), vec![b'2'; LONG_BYTES - 100_000]);
    let names: Vec<Vec<u8>> = (0..4200).map(|number| format!("none-{number}").into_bytes()).collect();
    let changes: [&[&[u8]]; 6] = [
        &[b"SET", b"long", &two],
        &[b"SET", b"long", b"short"],
        &[b"DEL", b"long"],
        &[b"APPEND", b"long", b"more"],
        &[b"SETRANGE", b"long", b"7", b"other"],
        &[b"HSET", b"long", b"f", b"v"],
    ];
    let (mut before, mut behind) = (0, 0);
    for change in changes {
        for after in [2, 5, 9, 14] {
            let mut world = World::new(1, Faults::NONE, config());
            let (client, other) = (world.connect(Resp), world.connect(Resp));
            ask(&mut world, &client, &[b"SET", b"long", &one]);
            let mget = [&b"MGET"[..], b"long"].into_iter().chain(names.iter().map(Vec::as_slice));
            client.send(&request(&mget.collect::<Vec<_>>()));
            world.iterations(after);
            if change[0] == b"HSET" {
                ask(&mut world, &other, &[b"DEL", b"long"]);
            }
            ask(&mut world, &other, change);
            let got = answer(&mut world, &client).expect("an answer");
            let mut appended = one.clone();
            appended.extend(b"more");
            let mut spliced = one.clone();
            spliced[7..12].copy_from_slice(b"other");
            let may =
                [&one, &two, &b"short"[..], &appended, &spliced].map(bulk).into_iter().chain([b"$-1\r\n".to_vec()]);
            let value = got.strip_prefix(b"*4201\r\n").and_then(|rest| rest.strip_suffix(&b"$-1\r\n".repeat(4200)[..]));
            let what = format!("{} after {after} turns", change[0].escape_ascii());
            let value = value.unwrap_or_else(|| panic!("{what}: {} bytes", got.len()));
            assert!(may.clone().any(|may| may == value), "{what}: {} bytes of another value", value.len());
            if *value == bulk(&one) { before += 1 } else { behind += 1 }
        }
    }
    assert!(before > 2 && behind > 2, "{before} before and {behind} behind the change");
}

/// Client memory is used up during replies: a queued transaction is executed or refused as a whole, and the server
/// continues.
#[test]
fn no_answer_for_which_memory_ends_half_way_ends_the_server_or_leaves_half_a_transaction() {
    let fields: Vec<Vec<u8>> = (0..600).map(|number| format!("field-{number}").into_bytes()).collect();
    let many = |words: &[&'static [u8]]| -> Vec<Vec<u8>> {
        words.iter().map(|word| word.to_vec()).chain(fields.iter().cloned()).collect()
    };
    let few = |words: &[&'static [u8]]| -> Vec<Vec<u8>> { words.iter().map(|word| word.to_vec()).collect() };
    let commands = [
        few(&[b"KEYS", b"*"]),
        few(&[b"KEYS", b"none"]),
        few(&[b"SCAN", b"0", b"COUNT", b"100000"]),
        few(&[b"HGETALL", b"hash"]),
        few(&[b"HKEYS", b"hash"]),
        few(&[b"HSCAN", b"hash", b"0", b"COUNT", b"100000"]),
        few(&[b"HRANDFIELD", b"hash", b"500"]),
        few(&[b"HRANDFIELD", b"hash", b"-500"]),
        few(&[b"GET", b"long"]),
        few(&[b"GETEX", b"long", b"PERSIST"]),
        few(&[b"GETRANGE", b"long", b"0", b"-1"]),
        few(&[b"CLIENT", b"LIST"]),
        few(&[b"COMMAND"]),
        few(&[b"INFO"]),
        few(&[b"ACL", b"CAT"]),
        few(&[b"ECHO", &[b'e'; 2000]]),
        few(&[b"PUBLISH", b"news", b"text"]),
        many(&[b"HMGET", b"hash"]),
        many(&[b"MGET"]),
        many(&[b"EXISTS"]),
        many(&[b"DEL"]),
    ];
    let (mut done, mut refused, mut cut) = (0, 0, 0);
    for command in &commands {
        for kib in [26, 60, 100] {
            for before in [0, 5, 8, 300, 400, 500, 600, 650] {
                let client_memory_bytes = Some(kib << 10);
                let mut world = World::new(1, Faults::NONE, ServerConfig { client_memory_bytes, ..common::config() });
                let (client, other) = (world.connect(Resp), world.connect(Resp));
                ask(&mut world, &other, &[b"SET", b"long", &common::pattern(700_000)]);
                for some in fields.chunks(60) {
                    let pairs = |words: &[&'static [u8]]| -> Vec<&[u8]> {
                        let pairs = some.iter().flat_map(|name| [&name[..], b"value"]);
                        words.iter().copied().chain(pairs).collect()
                    };
                    assert_eq!(ask(&mut world, &other, &pairs(&[b"HSET", b"hash"]))[0], b':');
                    assert_eq!(ask(&mut world, &other, &pairs(&[b"MSET"])), b"+OK\r\n");
                }
                let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
                // Each of the first is refused with a line.
                let queued = [request(&[b"GET", b"long"]).repeat(before), request(&words).repeat(2)].concat();
                client.send(&[request(&[b"MULTI"]), queued, request(&[b"INCR", b"done"])].concat());
                let mut replied = Vec::new();
                while replied.iter().filter(|byte| **byte == b'\n').count() < before + 4 {
                    world.guard();
                    replied.extend(client.take(usize::MAX));
                }
                if replied.contains(&b'-') {
                    // There is no room for what is queued.
                    continue;
                }
                client.send(&request(&[b"EXEC"]));
                let got = answer(&mut world, &client);
                let what = format!("{} behind {before} answers with {kib} KiB", command[0].escape_ascii());
                let is_done = ask(&mut world, &other, &[b"GET", b"done"]) == b"$1\r\n1\r\n";
                match got {
                    Some(got) if got.starts_with(b"-") => {
                        assert!(!is_done, "{what}: refused and done");
                        refused += 1;
                    }
                    Some(_) => {
                        assert!(is_done, "{what}: answered and not done");
                        done += 1;
                    }
                    None => {
                        assert!(is_done, "{what}: closed in the midst of a transaction");
                        cut += 1;
                    }
                }
            }
        }
    }
    assert!(done > 50 && refused > 50 && cut > 3, "{done} done, {refused} refused, {cut} cut");
}

/// A time to live is counted from one instant, however many visits its request takes.
#[test]
fn fields_of_a_request_over_many_iterations_expire_at_the_same_instant() {
    let mut world = World::new(1, Faults::NONE, config());
    let client = world.connect(Resp);
    let names: Vec<Vec<u8>> = (0..2000).map(|number| format!("field-{number}").into_bytes()).collect();
    let with = |words: &[&'static [u8]], names: &[Vec<u8>], value: Option<&'static [u8]>| -> Vec<u8> {
        let names = names.iter().flat_map(|name| [Some(name.as_slice()), value]).flatten();
        request(&words.iter().copied().chain(names).collect::<Vec<_>>())
    };
    let later = |world: &mut World, sent: Vec<u8>| {
        client.send(&sent);
        let (mut got, mut iterations) = (Vec::new(), 0);
        while reply_len(&got).is_none() {
            world.clock_ns.fetch_add(1_000_000, Relaxed);
            world.guard();
            iterations += 1;
            assert!(iterations < 10_000, "no answer");
            got.extend(client.take(usize::MAX));
        }
        (got, iterations)
    };
    for command in [
        &[&b"HPEXPIRE"[..], b"h", b"100000", b"FIELDS", b"2000"][..],
        &[b"HSETEX", b"h", b"PX", b"90000", b"FIELDS", b"2000"],
    ] {
        let value = (command[0] == b"HSETEX").then_some(&b"new"[..]);
        later(&mut world, with(&[b"HSET", b"h"], &names, Some(b"value")));
        let (answer, iterations) = later(&mut world, with(command, &names, value));
        assert!(
            !answer.starts_with(b"-") && iterations > 10,
            "{} after {iterations} iterations",
            answer.escape_ascii()
        );
        let (ends, _) = later(&mut world, with(&[b"HPEXPIRETIME", b"h", b"FIELDS", b"2000"], &names, None));
        let ends: std::collections::BTreeSet<&[u8]> = ends.split(|byte| *byte == b'\n').skip(1).collect();
        assert_eq!(ends.len(), 2, "one end, and nothing behind the last line: {ends:?}");
    }
}
