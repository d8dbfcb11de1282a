//! Tests of commands over several visits whose keys expire, or whose result is lost, between two visits: a result is
//! whole or absent.

use crate::common::redis::request;
use crate::sim::World;
use command::clients::endpoint::Protocol::Resp;
use gannet_server::start::ServerConfig;
use io::sim::{Faults, SimClient};
use segment::Namespace;
use std::sync::atomic::Ordering::Relaxed;

/// The number of elements of a source.
const ELEMENTS: usize = 4000;
/// The maximum number of iterations that a command may take.
const ITERATIONS_MAX: usize = 20_000;

fn world() -> (World, SimClient) {
    let world = World::new(
        1,
        Faults::NONE,
        ServerConfig { memory_bytes: 256 << 20, item_bytes_max: 32 << 20, ..crate::common::config() },
    );
    let client = world.connect(Resp);
    (world, client)
}

/// Executes a command, and returns its reply and the number of iterations that it took. `between` is called after each
/// iteration that has not ended the command, with the number of iterations so far.
fn run(
    world: &mut World,
    client: &SimClient,
    words: &[&str],
    between: &mut dyn FnMut(&World, usize),
) -> (Vec<u8>, usize) {
    client.send(&request(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>()));
    for iterations in 1..ITERATIONS_MAX {
        world.guard();
        let mut reply = client.take(usize::MAX);
        if !reply.is_empty() {
            while world.worker.iterate() {
                let more = client.take(usize::MAX);
                if more.is_empty() {
                    break;
                }
                reply.extend(more);
            }
            return (reply, iterations);
        }
        between(world, iterations);
    }
    panic!("{words:?} takes more than {ITERATIONS_MAX} iterations");
}

fn ask(world: &mut World, client: &SimClient, words: &[&str]) -> Vec<u8> {
    run(world, client, words, &mut |_, _| {}).0
}

/// Adds elements to a key with a command whose elements have these words.
fn fill(world: &mut World, client: &SimClient, words: [&str; 2], numbers: std::ops::Range<usize>, scored: &str) {
    for from in numbers.clone().step_by(500) {
        let elements: Vec<String> = (from..numbers.end.min(from + 500))
            .flat_map(|number| scored.split_whitespace().map(move |word| word.replace('#', &number.to_string())))
            .collect();
        let words: Vec<&str> = words.into_iter().chain(elements.iter().map(String::as_str)).collect();
        ask(world, client, &words);
    }
}

/// Creates the sources: two sets, two sorted sets, a list, and places.
fn sources(world: &mut World, client: &SimClient) {
    for (number, key) in ["s1", "s2"].into_iter().enumerate() {
        fill(world, client, ["SADD", key], number * 100..ELEMENTS, "element-#");
    }
    for (number, key) in ["z1", "z2"].into_iter().enumerate() {
        fill(world, client, ["ZADD", key], number * 100..ELEMENTS, "# element-#");
    }
    fill(world, client, ["RPUSH", "l1"], 0..ELEMENTS, "#");
    fill(world, client, ["GEOADD", "g1"], 0..ELEMENTS, "13.361389 38.115556 place-#");
}

/// Creates two long strings.
fn long_strings(world: &mut World, client: &SimClient) {
    for key in ["b1", "b2"] {
        let reply = ask(world, client, &["SETRANGE", key, "24000000", &"x".repeat(100)]);
        assert_eq!(reply, b":24000100\r\n");
    }
}

/// A command that stores in `to`, the source that expires, and the reply and length of the result without it.
struct Stores {
    words: &'static str,
    lost: &'static str,
    len: &'static str,
    reply: usize,
}

const STORES: [Stores; 12] = [
    Stores { words: "SUNIONSTORE to s1 s2", lost: "s1", len: "SCARD", reply: ELEMENTS - 100 },
    Stores { words: "SUNIONSTORE to s1 s2", lost: "s2", len: "SCARD", reply: ELEMENTS },
    Stores { words: "SINTERSTORE to s1 s2", lost: "s1", len: "SCARD", reply: 0 },
    Stores { words: "SDIFFSTORE to s1 missing", lost: "s1", len: "SCARD", reply: 0 },
    Stores { words: "ZUNIONSTORE to 2 z1 z2", lost: "z1", len: "ZCARD", reply: ELEMENTS - 100 },
    Stores { words: "ZINTERSTORE to 2 z1 z2", lost: "z2", len: "ZCARD", reply: 0 },
    Stores { words: "ZDIFFSTORE to 2 z1 missing", lost: "z1", len: "ZCARD", reply: 0 },
    Stores { words: "ZRANGESTORE to z1 0 -1", lost: "z1", len: "ZCARD", reply: 0 },
    Stores { words: "SORT l1 STORE to", lost: "l1", len: "LLEN", reply: 0 },
    Stores { words: "SORT l1 BY nosort STORE to", lost: "l1", len: "LLEN", reply: 0 },
    Stores { words: "GEOSEARCHSTORE to g1 FROMLONLAT 13 38 BYRADIUS 200 km", lost: "g1", len: "ZCARD", reply: 0 },
    Stores { words: "BITOP OR to b1 b2 missing", lost: "b2", len: "STRLEN", reply: 24_000_100 },
];

/// Returns at which iterations something is lost, of a command that takes `all` of them.
fn instants(all: usize) -> impl Iterator<Item = usize> {
    (1..all).step_by((all / 4).max(1))
}

#[test]
fn a_source_that_expires_between_two_visits_leaves_no_part_of_a_result() {
    let mut parts = 0;
    for stores in &STORES {
        let (mut world, client) = world();
        match stores.len {
            "STRLEN" => long_strings(&mut world, &client),
            _ => sources(&mut world, &client),
        }
        let words: Vec<&str> = stores.words.split(' ').collect();
        let (_, all) = run(&mut world, &client, &words, &mut |_, _| {});
        assert!(all > 3, "{} takes {all} iterations", stores.words);
        for at in instants(all) {
            let saved = ask(&mut world, &client, &["COPY", stores.lost, "saved", "REPLACE"]);
            assert_eq!(saved, b":1\r\n");
            ask(&mut world, &client, &["SET", "to", "old"]);
            ask(&mut world, &client, &["PEXPIRE", stores.lost, "1000000"]);
            let mut is_late = true;
            let (reply, _) = run(&mut world, &client, &words, &mut |world, iterations| {
                if iterations == at {
                    world.clock_ns.fetch_add(1_001_000_000_000, Relaxed);
                    is_late = false;
                }
            });
            parts += usize::from(!is_late);
            let len = ask(&mut world, &client, &[stores.len, "to"]);
            let whole = if is_late { None } else { Some(format!(":{}\r\n", stores.reply).into_bytes()) };
            if whole.as_ref() != Some(&reply) {
                // The command had read the source before it expired.
                let full = match stores.len {
                    "STRLEN" => 24_000_100,
                    _ if stores.words.contains("SINTER") || stores.words.contains("ZINTER") => ELEMENTS - 100,
                    _ => ELEMENTS,
                };
                assert_eq!(reply, format!(":{full}\r\n").as_bytes(), "{} at {at}", stores.words);
            }
            assert_eq!(len, reply, "{} at {at}", stores.words);
            if stores.len == "STRLEN" {
                // Both sources have the same bits at their ends.
                let bits = ask(&mut world, &client, &["BITCOUNT", "to"]);
                assert_eq!(bits, b":400\r\n", "{} at {at}", stores.words);
            }
            ask(&mut world, &client, &["RENAME", "saved", stores.lost]);
        }
    }
    assert!(parts > 36, "{parts} losses");
}

#[test]
fn a_reply_never_has_a_part_of_a_source_that_expires_between_two_visits() {
    let commands = [
        ("SUNION s1 missing", "s1", "*0\r\n", "element-"),
        ("ZUNION 2 z1 missing", "z1", "*0\r\n", "element-"),
        ("ZDIFF 2 z1 missing", "z1", "*0\r\n", "element-"),
        ("SORT l1", "l1", "*0\r\n", "\r\n$"),
        ("GEOSEARCH g1 FROMLONLAT 13 38 BYRADIUS 200 km ASC", "g1", "*0\r\n", "place-"),
        ("SINTERCARD 2 s1 s1", "s1", ":0\r\n", ""),
        ("ZINTERCARD 2 z1 z1", "z1", ":0\r\n", ""),
    ];
    let mut lost = 0;
    for (line, key, empty, element) in commands {
        let (mut world, client) = world();
        sources(&mut world, &client);
        let words: Vec<&str> = line.split(' ').collect();
        let (whole, all) = run(&mut world, &client, &words, &mut |_, _| {});
        assert!(all > 6, "{line} takes {all} iterations");
        let count = |reply: &[u8]| {
            let found = reply.windows(element.len().max(1)).filter(|part| *part == element.as_bytes()).count();
            if element.is_empty() { usize::from(reply == whole) * ELEMENTS } else { found }
        };
        assert_eq!(count(&whole), ELEMENTS, "{line}");
        for at in instants(all) {
            ask(&mut world, &client, &["COPY", key, "saved", "REPLACE"]);
            ask(&mut world, &client, &["PEXPIRE", key, "1000000"]);
            let (reply, _) = run(&mut world, &client, &words, &mut |world, iterations| {
                if iterations == at {
                    world.clock_ns.fetch_add(1_001_000_000_000, Relaxed);
                }
            });
            lost += usize::from(reply == empty.as_bytes());
            assert!(reply == empty.as_bytes() || count(&reply) == ELEMENTS, "{line} at {at}: {} bytes", reply.len());
            ask(&mut world, &client, &["RENAME", "saved", key]);
        }
    }
    assert!(lost > 10, "{lost} losses");
}

#[test]
fn a_result_that_is_lost_while_it_is_stored_is_not_continued() {
    // The destination is a source, so all elements are found before the first is stored.
    for (line, len) in
        [("SUNIONSTORE s1 s1 s2", "SCARD"), ("ZUNIONSTORE z1 2 z1 z2", "ZCARD"), ("SORT l1 STORE l1", "LLEN")]
    {
        let (mut world, client) = world();
        let words: Vec<&str> = line.split(' ').collect();
        sources(&mut world, &client);
        let (_, all) = run(&mut world, &client, &words, &mut |_, _| {});
        for at in instants(all).chain(all - all.min(20)..all) {
            sources(&mut world, &client);
            let mut is_late = true;
            let (reply, _) = run(&mut world, &client, &words, &mut |world, iterations| {
                if iterations == at {
                    world.shared.store.flush(Namespace(0));
                    is_late = false;
                }
            });
            let key = words.iter().find(|word| word.ends_with('1')).expect("a key");
            let length = ask(&mut world, &client, &[len, key]);
            if !is_late {
                assert_eq!((&reply[..], &length[..]), (&b":0\r\n"[..], &b":0\r\n"[..]), "{line} at {at}");
            }
        }
    }
}

/// The value of the command itself is lost between two visits.
#[test]
fn a_value_that_is_lost_while_it_is_changed_gets_all_changes() {
    let elements: Vec<String> = (0..20_000).map(|number| format!("element-{number}")).collect();
    let add: Vec<&str> = ["PFADD", "hll"].into_iter().chain(elements.iter().map(String::as_str)).collect();
    let fields: Vec<String> =
        (0..5000).flat_map(|n| ["SET".into(), "u8".into(), format!("#{n}"), "1".into()]).collect();
    let set: Vec<&str> = ["BITFIELD", "bits"].into_iter().chain(fields.iter().map(String::as_str)).collect();
    for (words, report) in [(&add, &["PFCOUNT", "hll"][..]), (&set, &["BITCOUNT", "bits"])] {
        let (mut world, client) = world();
        let (whole, all) = run(&mut world, &client, words, &mut |_, _| {});
        let counted = ask(&mut world, &client, report);
        assert!(all > 6, "{} takes {all} iterations", words[0]);
        let mut losses = 0;
        for at in instants(all) {
            ask(&mut world, &client, &["FLUSHALL"]);
            let (reply, _) = run(&mut world, &client, words, &mut |world, iterations| {
                if iterations == at {
                    world.shared.store.flush(Namespace(0));
                    losses += 1;
                }
            });
            assert!(reply == whole, "{} at {at}: {} bytes, not {}", words[0], reply.len(), whole.len());
            assert_eq!(ask(&mut world, &client, report), counted, "{} at {at}", words[0]);
        }
        assert!(losses > 3, "{}: {losses} losses", words[0]);
    }
}
