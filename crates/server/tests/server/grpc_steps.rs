//! Tests of gRPC calls that change an item in several steps: a call that fails leaves no step.

use crate::common::redis::{Replies, resp};
use crate::common::start;
use crate::grpc_client::*;
use command::keyspace::namespace_config::NamespaceConfig;
use gannet_server::start::{Running, ServerConfig};
use protocol::grpc::protobuf::Encoder;
use std::fmt::Write;

/// The keys of the tests, one of each type, and two strings.
const KEYS: [&str; 8] = ["text", "number", "list", "set", "hash", "zset", "stream", "dest"];
const TTL_MS: u64 = 5000;

/// The message of a call for a key.
type MessageOnKey = Box<dyn Fn(&str) -> Vec<u8>>;
/// A call: its path, and its message for a key.
type StepCall = (&'static str, MessageOnKey);

fn on_key(write: impl Fn(&mut Encoder) + 'static) -> MessageOnKey {
    Box::new(move |key| {
        prefixed(|out| {
            out.bytes(1, key.as_bytes());
            write(out);
        })
    })
}

/// Adds the time to live, and that it is set again.
fn refresh(out: &mut Encoder, ttl: u32) {
    out.uint(ttl, TTL_MS).uint(ttl + 1, 1);
}

/// Returns the calls of one step and more on strings. `word` is the value.
fn calls_on_strings(word: &'static str) -> Vec<StepCall> {
    let conditional = move |condition: u32| {
        on_key(move |out| {
            out.bytes(2, word.as_bytes()).uint(3, TTL_MS).message(condition, |_| {});
        })
    };
    vec![
        (
            "cache_client.Scs/Increment",
            on_key(|out| {
                out.int(2, 1).uint(3, TTL_MS);
            }),
        ),
        ("gannet.v1.Cache/SetIf", conditional(4)),
        ("gannet.v1.Cache/SetIfHash", conditional(8)),
        (
            "gannet.v1.Cache/UpdateTtl",
            on_key(|out| {
                out.uint(4, 0);
            }),
        ),
    ]
}

/// Returns the calls on dictionaries and sets. `word` is each field and each element.
fn calls_on_dictionaries_and_sets(word: &'static str) -> Vec<StepCall> {
    let word = word.as_bytes();
    vec![
        (
            "cache_client.Scs/DictionarySet",
            on_key(move |out| {
                out.message(2, |pair| {
                    pair.bytes(1, word).bytes(2, word);
                });
                refresh(out, 3);
            }),
        ),
        (
            "cache_client.Scs/DictionaryIncrement",
            on_key(move |out| {
                out.bytes(2, b"f").int(3, i64::MAX);
                refresh(out, 4);
            }),
        ),
        (
            "cache_client.Scs/SetUnion",
            on_key(move |out| {
                out.bytes(2, word);
                refresh(out, 3);
            }),
        ),
        (
            "cache_client.Scs/SetDifference",
            on_key(move |out| {
                out.message(2, |minuend| {
                    minuend.bytes(1, word);
                });
            }),
        ),
        (
            "cache_client.Scs/SetDifference",
            on_key(move |out| {
                out.message(3, |subtrahend| {
                    subtrahend.message(1, |set| {
                        set.bytes(1, b"a");
                    });
                });
            }),
        ),
        (
            "cache_client.Scs/SetDifference",
            on_key(move |out| {
                out.message(3, |subtrahend| {
                    subtrahend.message(2, |_| {});
                });
            }),
        ),
    ]
}

/// Returns the calls on lists. `word` is each value.
fn calls_on_lists(word: &'static str) -> Vec<StepCall> {
    let push = move || {
        on_key(move |out| {
            out.bytes(2, word.as_bytes());
            refresh(out, 3);
            out.uint(5, 1);
        })
    };
    let mut calls: Vec<StepCall> = ["PushFront", "PushBack", "ConcatenateFront", "ConcatenateBack"]
        .map(|name| (&*format!("cache_client.Scs/List{name}").leak(), push()))
        .into();
    calls.extend(["PopFront", "PopBack"].map(|name| (&*format!("cache_client.Scs/List{name}").leak(), on_key(|_| {}))));
    calls.push((
        "cache_client.Scs/ListRemove",
        on_key(|out| {
            out.bytes(2, b"a");
        }),
    ));
    calls.push((
        "cache_client.Scs/ListRetain",
        on_key(|out| {
            out.uint(3, 2);
            refresh(out, 6);
        }),
    ));
    for all in [false, true] {
        calls.push((
            "cache_client.Scs/ListErase",
            on_key(move |out| {
                out.message(if all { 3 } else { 2 }, |some| {
                    if !all {
                        some.message(1, |range| {
                            range.uint(1, 0).uint(2, 1);
                        });
                    }
                });
            }),
        ));
    }
    calls
}

/// Returns the calls on sorted sets. `word` is each value.
fn calls_on_sorted_sets(word: &'static str) -> Vec<StepCall> {
    vec![
        (
            "cache_client.Scs/SortedSetPut",
            on_key(move |out| {
                out.message(2, |element| {
                    element.bytes(1, word.as_bytes()).double(2, 1.5);
                });
                refresh(out, 3);
            }),
        ),
        (
            "cache_client.Scs/SortedSetIncrement",
            on_key(move |out| {
                out.bytes(2, if word.len() > 100 { word.as_bytes() } else { b"a" }).double(3, f64::NEG_INFINITY);
                refresh(out, 4);
            }),
        ),
        (
            "cache_client.Scs/SortedSetRemove",
            on_key(|out| {
                out.message(2, |_| {});
            }),
        ),
        (
            "cache_client.Scs/SortedSetUnionStore",
            Box::new(|key| {
                prefixed(|out| {
                    out.bytes(1, b"dest").uint(4, TTL_MS);
                    out.message(2, |source| {
                        source.bytes(1, key.as_bytes()).one_of_float(2, 1.0);
                    });
                })
            }),
        ),
        (
            "leaderboard.Leaderboard/DeleteLeaderboard",
            Box::new(|key| {
                prefixed(|out| {
                    out.bytes(1, b"cache").bytes(2, key.as_bytes());
                })
            }),
        ),
    ]
}

fn all_calls(word: &'static str) -> Vec<StepCall> {
    [calls_on_strings(word), calls_on_dictionaries_and_sets(word), calls_on_lists(word), calls_on_sorted_sets(word)]
        .into_iter()
        .flatten()
        .collect()
}

/// Creates the items again, with or without a time to live.
fn create(redis: &mut Replies, has_ttl: bool) {
    redis.text("FLUSHDB");
    for line in [
        "SET text value",
        "SET number 9223372036854775807",
        "RPUSH list a b c",
        "SADD set a b c",
        "HSET hash f 5 g text",
        "ZADD zset +inf a 2 b",
        "XADD stream 1-0 f v",
        "ZADD dest 7 x",
    ] {
        assert!(!redis.text(line).starts_with('-'), "{line}");
    }
    KEYS.iter().filter(|_| has_ttl).for_each(|key| assert_eq!(redis.text(&format!("EXPIRE {key} 1000")), ":1"));
}

/// Returns the items and the instants at which they expire.
fn state(redis: &mut Replies) -> String {
    let mut state = String::new();
    for line in [
        "GET text",
        "GET number",
        "LRANGE list 0 -1",
        "SMEMBERS set",
        "HGETALL hash",
        "ZRANGE zset 0 -1 WITHSCORES",
        "XRANGE stream - +",
        "ZRANGE dest 0 -1 WITHSCORES",
        "DBSIZE",
    ] {
        writeln!(state, "{line}: {}", redis.text(line)).expect("text");
    }
    for key in KEYS {
        writeln!(state, "{key}: {}", redis.text(&format!("PEXPIRETIME {key}"))).expect("text");
    }
    state
}

/// Executes `calls` on all keys, and returns the number of those that failed and a line for each that left a step.
fn execute(running: &Running, calls: &[StepCall], credential: Option<&str>) -> (usize, String) {
    let (mut grpc, redis) = (Grpc::connect(running), &mut resp(running));
    let (mut refused, mut wrong, mut stream) = (0, String::new(), 1);
    for has_ttl in [false, true] {
        create(redis, has_ttl);
        let mut before = state(redis);
        for (path, message) in calls {
            for key in KEYS {
                let more = credential.map(|credential| ("authorization", credential));
                let head = frame(HEADERS, 4, stream, &headers(&format!("/{path}"), more.as_slice()));
                let mut parts = vec![head];
                let message = message(key);
                let count = message.chunks(16_384).len();
                let part = |(at, part): (usize, &[u8])| frame(DATA, u8::from(at + 1 == count), stream, part);
                parts.extend(message.chunks(16_384).enumerate().map(part));
                grpc.client.send(&parts.concat());
                let answer = grpc.answers(&[stream]).remove(0);
                stream += 2;
                let after = state(redis);
                if answer.status != "0" {
                    refused += 1;
                    if after != before {
                        writeln!(wrong, "{path} on {key}: {} {}\n{after}", answer.status, answer.text).expect("text");
                    }
                }
                if after != before {
                    create(redis, has_ttl);
                    before = state(redis);
                }
            }
        }
    }
    (refused, wrong)
}

/// Regression: a refused call set the time to live of the item, and trimmed a list to its maximum.
#[test]
fn refused_call_of_several_steps_leaves_none_of_them() {
    let running = start(config());
    let calls = all_calls("w");
    let (refused, wrong) = execute(&running, &calls, None);
    assert!(wrong.is_empty(), "{wrong}");
    assert!(refused > 200, "{refused} calls were refused");
    running.stop();
}

/// Values that are longer than an item may be.
#[test]
fn call_with_a_value_beyond_the_maximum_leaves_no_step() {
    let running = start(ServerConfig { item_bytes_max: 100_000, ..config() });
    let calls = all_calls("w".repeat(200_000).leak());
    let (refused, wrong) = execute(&running, &calls, None);
    assert!(wrong.is_empty(), "{wrong}");
    assert!(refused > 200, "{refused} calls were refused");
    running.stop();
}

/// A user with the right to the first step of each call only.
#[test]
fn call_of_a_user_without_the_right_to_a_later_step_leaves_no_step() {
    let running = start(config());
    let line = "ACL SETUSER u on >p ~* &* +@all -pexpire -ltrim -llen -srem -digest -del";
    assert_eq!(resp(&running).text(line), "+OK");
    let (refused, wrong) = execute(&running, &all_calls("w"), Some("u:p"));
    assert!(wrong.is_empty(), "{wrong}");
    assert!(refused > 300, "{refused} calls were refused");
    running.stop();
}

/// Regression: the steps of a call whose transaction could not begin were executed without one, and the call failed.
#[test]
fn call_whose_transaction_cannot_begin_leaves_no_step() {
    let mut config = config();
    config.disabled = vec!["multi".into()];
    let running = start(config);
    let calls = all_calls("w");
    let (refused, wrong) = execute(&running, &calls, None);
    assert!(wrong.is_empty(), "{wrong}");
    assert!(refused > 300, "{refused} calls were refused");
    running.stop();
}

/// Sends a call in a cache.
fn call_in(grpc: &mut Grpc, stream: u32, path: &str, cache: &str, message: &[u8]) -> Answer {
    let head = frame(HEADERS, 4, stream, &headers(path, &[("cache", cache)]));
    grpc.client.send(&[head, frame(DATA, 1, stream, message)].concat());
    grpc.answers(&[stream]).remove(0)
}

/// Regression: a call used up an operation for each of its commands, also if it was refused, and its error was UNKNOWN.
#[test]
fn call_of_several_steps_is_one_operation_and_is_refused_before_its_first_step() {
    const RESOURCE_EXHAUSTED: &str = "8";
    // A tenth of them each tenth of a second.
    const OPS_MAX: u64 = 300;
    let shop = NamespaceConfig { name: "shop".into(), ops_max: OPS_MAX, ..NamespaceConfig::plain(3, true) };
    let running = start(ServerConfig { namespaces: vec![shop], ..config() });
    let (mut grpc, mut stream) = (Grpc::connect(&running), 1);
    let increment = prefixed(|out| {
        out.bytes(1, b"number").int(2, 1).uint(3, TTL_MS);
    });
    let set = prefixed(|out| {
        out.bytes(1, b"hash").message(2, |pair| {
            pair.bytes(1, b"f").bytes(2, b"v");
        });
        out.uint(3, TTL_MS);
    });
    for (path, message) in [("/cache_client.Scs/Increment", &increment), ("/cache_client.Scs/DictionarySet", &set)] {
        let mut accepted = 0;
        let refused = loop {
            let answer = call_in(&mut grpc, stream, path, "shop", message);
            stream += 2;
            if answer.status != "0" {
                break answer;
            }
            accepted += 1;
            assert!(accepted < 100_000, "no call is refused");
        };
        assert!(accepted >= OPS_MAX / 10, "{path}: {accepted} were accepted");
        assert_eq!(refused.status, RESOURCE_EXHAUSTED, "{}", refused.text);
        assert!(refused.text.contains("operations rate limit"), "{}", refused.text);
        // The next tenth of a second.
        std::thread::sleep(std::time::Duration::from_millis(150));
    }
    running.stop();
}

const ELEMENTS: usize = 2000;

fn add_elements(redis: &mut Replies, command: &str, word: impl Fn(usize) -> String) {
    for from in (0..ELEMENTS).step_by(200) {
        let words: Vec<String> = (from..from + 200).map(&word).collect();
        assert!(redis.text(&format!("{command} {}", words.join(" "))).starts_with(':'), "{command}");
    }
}

/// Stores strings until the store refuses a short one.
fn fill(redis: &mut Replies, next: &mut u64) {
    for len in [20_000, 300, 1] {
        let value = "x".repeat(len);
        while redis.text(&format!("SET fill:{next} {value}")) == "+OK" {
            *next += 1;
        }
    }
}

/// Returns the messages of calls that add to the collections of the test of a full store, with the names of the calls.
fn growing_calls() -> [(&'static str, Vec<u8>); 7] {
    let new: Vec<String> = (0..3000).map(|at| format!("new-{at}-{}", "n".repeat(200))).collect();
    let all_new = |out: &mut Encoder, number: u32| {
        for word in &new {
            out.bytes(number, word.as_bytes());
        }
    };
    [
        (
            "SetDifference",
            prefixed(|out| {
                out.bytes(1, b"set").message(2, |minuend| all_new(minuend, 1));
            }),
        ),
        (
            "SetUnion",
            prefixed(|out| {
                all_new(out.bytes(1, b"set"), 2);
                refresh(out, 3);
            }),
        ),
        (
            "ListErase",
            prefixed(|out| {
                out.bytes(1, b"list").message(2, |some| {
                    some.message(1, |range| {
                        range.uint(1, 0).uint(2, 1);
                    });
                });
            }),
        ),
        (
            "ListConcatenateBack",
            prefixed(|out| {
                all_new(out.bytes(1, b"list"), 2);
                refresh(out, 3);
                out.uint(5, 1);
            }),
        ),
        (
            "DictionarySet",
            prefixed(|out| {
                out.bytes(1, b"hash");
                for word in &new {
                    out.message(2, |pair| {
                        pair.bytes(1, word.as_bytes()).bytes(2, b"v");
                    });
                }
                refresh(out, 3);
            }),
        ),
        (
            "SortedSetPut",
            prefixed(|out| {
                out.bytes(1, b"zset");
                for word in &new {
                    out.message(2, |pair| {
                        pair.bytes(1, word.as_bytes()).double(2, 1.0);
                    });
                }
                refresh(out, 3);
            }),
        ),
        (
            "SortedSetUnionStore",
            prefixed(|out| {
                out.bytes(1, b"zset").message(2, |source| {
                    source.bytes(1, b"zset").one_of_float(2, 1.0);
                });
                out.uint(4, TTL_MS);
            }),
        ),
    ]
}

/// Regression: `SetDifference` and `ListErase` deleted the whole collection if the store had no room for the new one.
#[test]
fn refused_calls_in_a_full_store_lose_no_elements() {
    let config = ServerConfig { workers: 1, memory_bytes: 32 << 20, item_bytes_max: 1 << 20, evict: false, ..config() };
    let running = start(config);
    let (mut grpc, redis) = (Grpc::connect(&running), &mut resp(&running));
    let long = "m".repeat(100);
    add_elements(redis, "RPUSH list", |at| format!("{at}-{long}"));
    add_elements(redis, "SADD set", |at| format!("{at}-{long}"));
    add_elements(redis, "HSET hash", |at| format!("{at}-{long} v"));
    add_elements(redis, "ZADD zset", |at| format!("{at} {at}-{long}"));
    let sizes = |redis: &mut Replies| {
        let lines = ["LLEN list", "SCARD set", "HLEN hash", "ZCARD zset", "PTTL list", "PTTL set", "PTTL hash"];
        lines.map(|line| redis.text(line)).join(" ") + &redis.text("PTTL zset")
    };
    let before = sizes(redis);
    let (mut next, mut stream) = (0, 1);
    for (name, message) in growing_calls() {
        fill(redis, &mut next);
        let answer = grpc.answer(stream, &format!("/cache_client.Scs/{name}"), &message);
        stream += 2;
        assert_eq!(answer.status, "8", "{name}: {}", answer.text);
        assert_eq!(sizes(redis), before, "{name}: {}", answer.text);
    }
    running.stop();
}
