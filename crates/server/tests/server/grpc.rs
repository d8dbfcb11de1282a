//! Tests of the gRPC service with hand-made frames: cuts, windows, floods and errors. The published clients are tested
//! in `conformance/clients`, by the files whose names contain `momento` and `test_grpc`.

use crate::common::redis::{Replies, addr};
use crate::common::{Client, start};
use crate::grpc_client::*;
use command::clients::endpoint::Protocol;
use gannet_server::start::{Running, ServerConfig};
use protocol::grpc::protobuf::Encoder;
use protocol::http2::hpack::HpackDecoder;
use std::io::Write;
use std::time::{Duration, Instant};

#[test]
fn frames_in_parts_of_one_byte_are_served_as_whole_ones() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let bytes = [call(1, SET, &item("k", b"value")), call(3, GET, &key("k"))].concat();
    for byte in bytes {
        grpc.client.send(&[byte]);
    }
    let answers = grpc.answers(&[1, 3]);
    assert_eq!((answers[0].status.as_str(), answers[1].value()), ("0", Some(b"value".to_vec())));
    running.stop();
}

#[test]
fn values_are_those_of_redis_clients_and_errors_have_their_status() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    assert_eq!(grpc.answer(1, SET, &item("shared", b"from gRPC")).status, "0");
    assert_eq!(redis.text("GET shared"), "$9 from gRPC");
    redis.text("LPUSH list a");
    let answer = grpc.answer(3, GET, &key("list"));
    assert_eq!((answer.status.as_str(), answer.text.starts_with("WRONGTYPE")), ("9", true), "{answer:?}");
    for (path, message, status) in [
        ("/cache_client.Scs/None", key("k"), "12"),
        (GET, key(""), "3"),
        (GET, vec![0, 0, 0, 0, 2, 0x0a, 9], "3"),
        (GET, vec![1, 0, 0, 0, 0], "13"),
        (GET, vec![0, 0, 0, 0, 9, 1], "13"),
        (GET, [key("a"), key("b")].concat(), "12"),
        (
            SET,
            prefixed(|out| {
                out.bytes(1, b"k").bytes(2, b"v");
            }),
            "3",
        ),
    ] {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(5);
        let stream = NEXT.fetch_add(2, std::sync::atomic::Ordering::Relaxed);
        let answer = grpc.answer(stream, path, &message);
        assert_eq!(answer.status, status, "{path} {message:?} {answer:?}");
    }
    assert_eq!(grpc.answer(101, GET, &key("shared")).value(), Some(b"from gRPC".to_vec()));
    running.stop();
}

#[test]
fn a_value_of_10_megabytes_passes_a_window_of_64_kib_beside_small_calls() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let value: Vec<u8> = (0..10_000_000u32).map(|at| (at / 7) as u8).collect();
    // The server's windows are 1 MiB, that of the connection after its first update.
    let message = item("big", &value);
    grpc.client.send(&frame(HEADERS, 4, 1, &headers(SET, &[])));
    let (mut at, mut connection, mut stream) = (0, 65_535, 1usize << 20);
    while at < message.len() {
        let len = (message.len() - at).min(16_384);
        while len > connection.min(stream) {
            let (kind, _, of, payload) = grpc.frame().expect("an update");
            if kind == WINDOW_UPDATE {
                let more = u32::from_be_bytes(payload.try_into().expect("4 bytes")) as usize;
                if of == 0 { connection += more } else { stream += more }
            }
        }
        grpc.client.send(&frame(DATA, u8::from(at + len == message.len()), 1, &message[at..at + len]));
        (at, connection, stream) = (at + len, connection - len, stream - len);
    }
    assert_eq!(grpc.answers(&[1])[0].status, "0");
    let mut other = Grpc::connect(&running);
    other.client.send(&call(1, GET, &key("big")));
    other.client.send(&call(3, SET, &item("small", b"v")));
    other.client.send(&call(5, GET, &key("small")));
    // The small reply does not wait for the long one, of which only a window is sent so far.
    let mut early = 0;
    loop {
        let (kind, flags, stream, payload) = other.frame().expect("a frame");
        early += if (kind, stream) == (DATA, 1) { payload.len() } else { 0 };
        if (kind, stream) == (HEADERS, 5) && flags & 1 != 0 {
            break;
        }
    }
    assert!(early <= 65_535, "{early}");
    other.client.send(&frame(WINDOW_UPDATE, 0, 1, &(early.max(1) as u32).to_be_bytes()));
    let rest = other.answers(&[1]).remove(0);
    // A prefix, the field of the result, and that of the value with its length.
    assert_eq!(rest.data.len() + early, 5 + 2 + 1 + 4 + value.len());
    running.stop();
}

#[test]
fn more_streams_than_allowed_are_refused_and_the_others_served() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let mut bytes = Vec::new();
    for number in 0..150u32 {
        bytes.extend_from_slice(&frame(HEADERS, 4, 2 * number + 1, &headers(GET, &[])));
    }
    for number in 0..150u32 {
        bytes.extend_from_slice(&frame(DATA, 1, 2 * number + 1, &key("none")));
    }
    grpc.client.send(&bytes);
    let streams: Vec<u32> = (0..150).map(|number| 2 * number + 1).collect();
    let answers = grpc.answers(&streams);
    let refused = answers.iter().filter(|answer| answer.status == "reset [0, 0, 0, 7]").count();
    assert_eq!((refused, answers.iter().filter(|answer| answer.status == "0").count()), (50, 100));
    running.stop();
}

#[test]
fn messages_in_parts_and_in_any_order_reach_their_own_calls() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let mut prng = base::prng::Prng::new(7);
    for n in 0..100u32 {
        let stored = grpc.answer(2 * n + 1, SET, &item(&format!("key {n}"), format!("value {n}").as_bytes()));
        assert_eq!(stored.status, "0");
    }
    let mut next = 201;
    for round in 0..30 {
        let streams: Vec<u32> = (0..100).map(|n| next + 2 * n).collect();
        next += 200;
        let mut bytes = Vec::new();
        for stream in &streams {
            bytes.extend_from_slice(&frame(HEADERS, 4, *stream, &headers(GET, &[])));
        }
        // Parts of the messages, in an order that keeps those of a stream.
        let mut parts: Vec<(u32, Vec<Vec<u8>>)> = streams
            .iter()
            .map(|stream| {
                let message = key(&format!("key {}", (stream - streams[0]) / 2));
                let cut = if round % 3 == 0 { message.len() } else { 1 + prng.below(message.len() as u64) as usize };
                (*stream, message.chunks(cut).rev().map(<[u8]>::to_vec).collect())
            })
            .collect();
        let mut cancelled = Vec::new();
        while !parts.is_empty() {
            let place = if round == 0 { 0 } else { prng.below(parts.len() as u64) as usize };
            let (stream, left) = &mut parts[place];
            if round > 1 && prng.chance(1, 40) {
                bytes.extend_from_slice(&frame(RST_STREAM, 0, *stream, &[0, 0, 0, 8]));
                cancelled.push(*stream);
                parts.remove(place);
                continue;
            }
            let part = left.pop().expect("a part");
            bytes.extend_from_slice(&frame(DATA, u8::from(left.is_empty()), *stream, &part));
            if left.is_empty() {
                parts.remove(place);
            }
        }
        grpc.client.send(&bytes);
        let awaited: Vec<u32> = streams.iter().copied().filter(|stream| !cancelled.contains(stream)).collect();
        for (stream, answer) in awaited.iter().zip(grpc.answers(&awaited)) {
            let n = (stream - streams[0]) / 2;
            assert_eq!(answer.value(), Some(format!("value {n}").into_bytes()), "round {round}, call {n}");
        }
    }
    running.stop();
}

/// Returns a call whose message is marked as compressed.
fn compressed(stream: u32, encoding: Option<&str>, path: &str, bytes: &[u8]) -> Vec<u8> {
    let encoding = encoding.map(|name| ("grpc-encoding", name));
    let message = [&[1][..], &(bytes.len() as u32).to_be_bytes(), bytes].concat();
    let mut sent = frame(HEADERS, 4, stream, &headers(path, encoding.as_slice()));
    let mut parts = message.chunks(16_384).peekable();
    while let Some(part) = parts.next() {
        sent.extend_from_slice(&frame(DATA, u8::from(parts.peek().is_none()), stream, part));
    }
    sent
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn compressed_requests_are_served_as_plain_ones_and_unknown_encodings_refused() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    // About 3 MB that compress well, and 100 kB that do not.
    let (long, dense) =
        (vec![b'v'; 3_000_000], (0..100_000u32).map(|at| (at.wrapping_mul(at) >> 9) as u8).collect::<Vec<_>>());
    for (stream, value) in [(1, &b"v"[..]), (5, &dense), (9, &long)] {
        let set = compressed(stream, Some("gzip"), SET, &gzip(&item("k", value)[5..]));
        grpc.client.send(&[set, call(stream + 2, GET, &key("k"))].concat());
        let answers = grpc.answers(&[stream, stream + 2]);
        assert_eq!(answers[0].status, "0", "{:?}", answers[0]);
        assert!(answers[1].value().as_deref() == Some(value), "{stream}");
        grpc.client.send(&frame(WINDOW_UPDATE, 0, 0, &(value.len() as u32).to_be_bytes()));
    }
    let bomb = gzip(&vec![0; 11 << 20]);
    for (stream, encoding, bytes, status) in [
        (201, Some("gzip"), &bomb[..], "8"),
        (203, Some("gzip"), &bomb[..bomb.len() / 2], "13"),
        (205, Some("br"), b"x", "12"),
        (207, None, b"x", "13"),
        (209, Some("identity"), b"x", "13"),
        (211, Some("zstd"), b"not zstd", "13"),
    ] {
        grpc.client.send(&compressed(stream, encoding, SET, bytes));
        let answer = grpc.answers(&[stream]).remove(0);
        assert_eq!(answer.status, status, "{encoding:?} {answer:?}");
    }
    assert_eq!(grpc.answer(213, GET, &key("none")).status, "0", "the connection continues");
    running.stop();
}

#[test]
fn request_that_is_not_exactly_one_message_is_refused_and_not_executed() {
    const UNIMPLEMENTED: &str = "12";
    const INTERNAL: &str = "13";
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let whole = item("k", b"v");
    let half = &whole[..whole.len() - 1];
    let mut stream = 1;
    for path in [SET, "/cache_client.Scs/SetIfNotExists", "/cache_client.Scs/SetBatch"] {
        let requests: [(&[&[u8]], &str); 10] = [
            (&[], UNIMPLEMENTED),
            (&[&whole[..3]], INTERNAL),
            (&[half], INTERNAL),
            (&[half, b""], INTERNAL),
            (&[&whole, &[0]], INTERNAL),
            (&[&whole, &[0, 0, 0, 0]], INTERNAL),
            (&[half, &whole[whole.len() - 1..], &[0]], INTERNAL),
            (&[&whole, half], UNIMPLEMENTED),
            (&[&whole, &[0; 5]], UNIMPLEMENTED),
            (&[&whole, &whole], UNIMPLEMENTED),
        ];
        for (parts, status) in requests {
            for is_joined in [false, true] {
                let frames =
                    if is_joined { vec![parts.concat()] } else { parts.iter().map(|at| at.to_vec()).collect() };
                grpc.client.send(&frame(HEADERS, 4, stream, &headers(path, &[])));
                frames.iter().for_each(|bytes| grpc.client.send(&frame(DATA, 0, stream, bytes)));
                grpc.client.send(&frame(DATA, 1, stream, b""));
                let answer = grpc.answers(&[stream]).remove(0);
                assert_eq!(answer.status, status, "{path} {parts:?}: {}", answer.text);
                assert_eq!(answer.data, b"", "{path} {parts:?}");
                stream += 2;
            }
        }
    }
    assert_eq!(grpc.answer(stream, GET, &key("k")).value(), None, "no refused call was executed");
    running.stop();
}

#[test]
fn arguments_without_a_meaning_are_refused_with_the_remedy() {
    const INVALID_ARGUMENT: &str = "3";
    let config = ServerConfig { graph_memory_bytes: 90 << 20, ..config() };
    let running = start(config);
    let (mut grpc, mut redis) = (Grpc::connect(&running), Replies::connect(addr(&running, Protocol::Resp)));
    redis.text("SADD s a b");
    redis.text("ZADD z +inf a -inf b");
    redis.text("REC.PUT r BINS b INT 1");
    redis.text("REC.PUT infinite BINS b FLOAT inf");
    let named = |name: &[u8], write: &dyn Fn(&mut Encoder)| {
        prefixed(|out| {
            out.bytes(1, name);
            write(out);
        })
    };
    let increment = |element: &[u8], amount: f64| {
        named(b"z", &|out: &mut Encoder| {
            out.bytes(2, element).double(3, amount).uint(4, 1000);
        })
    };
    let revisions = |first: u32| {
        named(b"r", &move |out: &mut Encoder| {
            out.one_of_uint(first, 1).one_of_uint(first + 1, 1);
        })
    };
    // An empty list or map (fields 6 and 7 of a value), or a boolean.
    let equal = |field: u32| {
        prefixed(|out| {
            out.bytes(1, b"set").bytes(2, b"b").message(3, |value| match field {
                3 => {
                    value.one_of_uint(3, 0);
                }
                list_or_map => {
                    value.message(list_or_map, |_| {});
                }
            });
        })
    };
    for (path, message, text) in [
        ("gannet.v1.Cache/SetPop", key("s"), "give at least 1"),
        ("gannet.v1.Cache/SortedSetIncrement", increment(b"a", f64::NEG_INFINITY), "give a finite amount"),
        ("gannet.v1.Cache/SortedSetIncrement", increment(b"b", f64::INFINITY), "give a finite amount"),
        ("gannet.v1.Cache/SortedSetIncrement", increment(b"a", f64::NAN), "give a number"),
        ("gannet.v1.Records/RecordScan", key(""), "1 to 63 bytes"),
        ("gannet.v1.Records/RecordScan", key(&"n".repeat(64)), "1 to 63 bytes"),
        ("gannet.v1.Records/RecordDelete", revisions(2), "give one of them"),
        ("gannet.v1.Records/RecordPut", revisions(6), "give one of them"),
        (
            "gannet.v1.Records/RecordTouch",
            named(b"r", &|out: &mut Encoder| {
                out.uint(3, 5).uint(4, 1);
            }),
            "give ttl_ms or persist",
        ),
        ("gannet.v1.Records/RecordQuery", equal(6), "integers and texts only"),
        ("gannet.v1.Records/RecordQuery", equal(7), "integers and texts only"),
        ("gannet.v1.Records/RecordQuery", equal(3), "integers and texts only"),
        (
            "gannet.v1.Graph/DeclareType",
            named(b"\xff\xfe", &|out: &mut Encoder| {
                out.bytes(2, b"follows");
            }),
            "use a text in UTF-8",
        ),
    ] {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
        let stream = NEXT.fetch_add(2, std::sync::atomic::Ordering::Relaxed);
        let answer = grpc.answer(stream, &format!("/{path}"), &message);
        let is_right = answer.status == INVALID_ARGUMENT && answer.text.contains(text);
        assert!(is_right, "{path} {message:?}: {answer:?}, not {text:?}");
    }
    // A sample of no elements is one of the set, as in the published clients, which refuse to remove none.
    let sample = grpc.answer(1001, "/gannet.v1.Cache/SetSample", &key("s"));
    assert_eq!((&sample.status[..], &sample.data[5..]), ("0", &[0x0a, 0][..]));
    assert_eq!(redis.text("SCARD s"), ":2");
    running.stop();
}

/// Regression: `LeaseGet`, `LeaseStale` and calls on records refused times that `Set` takes as the longest one.
#[test]
fn longest_times_are_those_of_items_that_never_end_in_practice() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let mut stream = 1;
    for ms in [i64::MAX as u64 / 2, i64::MAX as u64, u64::MAX] {
        let on_key = |write: &dyn Fn(&mut Encoder)| {
            prefixed(|out| {
                out.bytes(1, b"k");
                write(out);
            })
        };
        let put = on_key(&|out| {
            out.message(2, |bin| {
                bin.bytes(1, b"b").message(2, |value| {
                    value.bytes(4, b"text");
                });
            });
            out.uint(3, ms);
        });
        for (path, message) in [
            ("gannet.v1.Cache/Set", on_key(&|out| drop_ref(out.bytes(2, b"v").uint(3, ms)))),
            ("gannet.v1.Leases/LeaseStale", on_key(&|out| drop_ref(out.uint(2, ms)))),
            ("gannet.v1.Leases/LeaseGet", on_key(&|out| drop_ref(out.uint(2, ms).uint(3, ms)))),
            ("gannet.v1.Cache/Delete", on_key(&|_| {})),
            ("gannet.v1.Records/RecordPut", put),
            ("gannet.v1.Records/RecordTouch", on_key(&|out| drop_ref(out.uint(3, ms)))),
            ("gannet.v1.Cache/Delete", on_key(&|_| {})),
        ] {
            let answer = grpc.answer(stream, &format!("/{path}"), &message);
            stream += 2;
            assert_eq!(answer.status, "0", "{path} {ms}: {}", answer.text);
        }
    }
    running.stop();
}

fn drop_ref(_: &mut Encoder) {}

/// Sends until the server closes the connection, and returns the error of its `GOAWAY`.
fn flood(running: &Running, mut next: impl FnMut(u32) -> Vec<u8>) -> u32 {
    let mut grpc = Grpc::connect(running);
    let mut reader = Grpc {
        client: Client { stream: grpc.client.stream.try_clone().expect("a socket") },
        decoder: HpackDecoder::new(),
    };
    let code = std::thread::spawn(move || {
        let payload = reader.wait_for(GOAWAY);
        u32::from_be_bytes(payload[4..8].try_into().expect("a code"))
    });
    for number in 0..200_000 {
        if code.is_finished() || grpc.client.stream.write_all(&next(number)).is_err() {
            break;
        }
    }
    code.join().expect("the server ends the flood with GOAWAY")
}

#[test]
fn floods_end_the_connection_and_do_not_delay_a_bystander() {
    const ENHANCE_YOUR_CALM: u32 = 11;
    let running = start(config());
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    let rapid_reset = |number: u32| {
        let stream = 2 * number + 1;
        [frame(HEADERS, 4, stream, &headers(GET, &[])), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
    };
    assert_eq!(flood(&running, rapid_reset), ENHANCE_YOUR_CALM, "rapid reset");
    assert_eq!(flood(&running, |_| frame(PING, 0, 0, &[0; 8])), ENHANCE_YOUR_CALM, "pings");
    assert_eq!(flood(&running, |_| frame(SETTINGS, 0, 0, &[])), ENHANCE_YOUR_CALM, "settings");
    assert_eq!(flood(&running, |_| frame(2, 0, 1, &[0, 0, 0, 0, 1])), ENHANCE_YOUR_CALM, "priorities");
    let empty_data = |number| match number {
        0 => frame(HEADERS, 4, 1, &headers(GET, &[])),
        _ => frame(DATA, 0, 1, &[]),
    };
    assert_eq!(flood(&running, empty_data), ENHANCE_YOUR_CALM, "empty data");
    let continuations = |number| match number {
        0 => frame(HEADERS, 0, 1, &headers(GET, &[])),
        _ => frame(CONTINUATION, 0, 1, &[]),
    };
    assert_eq!(flood(&running, continuations), ENHANCE_YOUR_CALM, "continuations");
    let begun = Instant::now();
    assert_eq!(redis.text("PING"), "+PONG");
    assert!(begun.elapsed() < Duration::from_secs(5));
    running.stop();
}

#[test]
fn violations_of_the_protocol_end_the_connection_with_their_code() {
    let running = start(config());
    let bomb = {
        // An entry of 4,000 bytes that the block then repeats 12,000 times.
        let mut block = vec![0x40, 1, b'a', 127, 0xa1, 30];
        block.extend_from_slice(&[b'x'; 4_000]);
        block.extend_from_slice(&[0x80 | 62; 12_000]);
        block
    };
    for (name, bytes, code) in [
        ("a frame above the maximum", frame(PING, 0, 0, &vec![0; 16_385]), 6),
        ("an even stream", frame(HEADERS, 4, 2, &headers(GET, &[])), 1),
        ("data of an idle stream", frame(DATA, 0, 9, b"x"), 1),
        ("a continuation without headers", frame(CONTINUATION, 4, 1, &[]), 1),
        ("a malformed block", frame(HEADERS, 4, 1, &[0xff; 40]), 9),
        ("a ping of 7 bytes", frame(PING, 0, 0, &[0; 7]), 6),
        ("a window of 0", frame(WINDOW_UPDATE, 0, 0, &[0; 4]), 1),
        ("a promise", frame(5, 4, 1, &[0; 4]), 1),
    ] {
        let mut grpc = Grpc::connect(&running);
        grpc.client.send(&bytes);
        let payload = grpc.wait_for(GOAWAY);
        assert_eq!(payload[4..8], [0, 0, 0, code], "{name}");
    }
    let mut grpc = Grpc::connect(&running);
    grpc.client.send(&frame(HEADERS, 5, 1, &bomb));
    assert_eq!(grpc.wait_for(GOAWAY)[4..8], [0, 0, 0, 11], "a bomb of headers");
    let mut grpc = Grpc::connect(&running);
    let long = "x".repeat(8_000);
    let block = headers(GET, &[("a", &long), ("b", &long), ("c", &long)]);
    grpc.client.send(&frame(HEADERS, 0, 1, &block[..16_384]));
    grpc.client.send(&frame(CONTINUATION, 4, 1, &block[16_384..]));
    grpc.client.send(&frame(DATA, 1, 1, &key("k")));
    assert_eq!(grpc.answers(&[1])[0].status, "8", "long headers are refused, and the connection goes on");
    assert_eq!(grpc.answer(3, SET, &item("k", b"v")).status, "0");
    running.stop();
}

#[test]
fn a_deadline_that_is_past_executes_nothing_and_a_malformed_one_is_refused() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    for (stream, timeout, status) in [(1, "1n", "4"), (3, "x", "13"), (5, "10S", "0")] {
        let mut bytes = frame(HEADERS, 4, stream, &headers(SET, &[("grpc-timeout", timeout)]));
        bytes.extend_from_slice(&frame(DATA, 1, stream, &item(timeout, b"v")));
        grpc.client.send(&bytes);
        assert_eq!(grpc.answers(&[stream])[0].status, status, "{timeout}");
    }
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    assert_eq!((redis.text("EXISTS 1n x"), redis.text("EXISTS 10S")), (":0".into(), ":1".into()));
    running.stop();
}

#[test]
fn clients_without_a_token_are_refused_once_users_have_passwords() {
    let running = start(config());
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    assert_eq!(redis.text("ACL SETUSER reader on >secret ~r:* +@read"), "+OK");
    assert_eq!(redis.text("CONFIG SET requirepass hidden"), "+OK");
    let mut grpc = Grpc::connect(&running);
    assert_eq!(grpc.answer(1, GET, &key("r:1")).status, "16");
    let mut stream = 1;
    for (token, name, status) in [
        ("hidden", "any", "0"),
        ("reader:secret", "r:1", "0"),
        ("reader:secret", "other", "7"),
        ("reader:wrong", "r:1", "16"),
        ("hidden", "any", "0"),
    ] {
        stream += 2;
        let mut bytes = frame(HEADERS, 4, stream, &headers(GET, &[("authorization", token)]));
        bytes.extend_from_slice(&frame(DATA, 1, stream, &key(name)));
        grpc.client.send(&bytes);
        assert_eq!(grpc.answers(&[stream])[0].status, status, "{token} {name}");
    }
    running.stop();
}

#[test]
fn replies_to_a_client_that_does_not_read_count_as_client_memory() {
    let running = start(config());
    let budget = std::sync::Arc::clone(&running.shared().budget);
    let mut grpc = Grpc::connect(&running);
    assert_eq!(grpc.answer(1, SET, &item("k", &vec![b'x'; 1_000_000])).status, "0");
    let mut slow = Grpc::connect(&running);
    let calls: Vec<u8> = (0..100).flat_map(|number| call(2 * number + 1, GET, &key("k"))).collect();
    slow.client.send(&calls);
    // Replies wait for the client's windows. Beyond the bound, 16 MiB, calls are refused, or the client is dropped.
    let mut most = 0;
    while let Some((kind, flags, stream, payload)) = slow.frame() {
        most = most.max(budget.used());
        if kind == HEADERS && flags & 1 != 0 {
            let refused = u64::from(stream) > 1 && payload.len() > 60;
            assert!(refused, "no reply can end: the windows are shorter than the value");
            break;
        }
    }
    assert!((8 << 20..=16 << 20).contains(&most), "{most}");
    assert_eq!(grpc.answer(3, SET, &item("other", b"v")).status, "0");
    drop(slow);
    crate::common::wait_until("the memory of the replies", || budget.used() < 1 << 20);
    running.stop();
}

#[test]
fn client_that_leaves_in_the_midst_of_a_call_leaves_no_session() {
    let running = start(config());
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    let mut grpc = Grpc::connect(&running);
    assert_eq!(grpc.answer(1, SET, &item("k", b"v")).status, "0");
    let open = running.shared().connections_open();
    // The call has begun, and waits for the end of the pause.
    assert_eq!(redis.text("CLIENT PAUSE 600000 WRITE").trim_end(), "+OK");
    grpc.client.send(&call(3, SET, &item("k", b"other")));
    grpc.client.stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
    assert!(grpc.frame().is_none(), "the call does not wait");
    grpc.client.stream.shutdown(std::net::Shutdown::Both).expect("a socket");
    drop(grpc);
    crate::common::wait_until("the end of the session", || running.shared().connections_open() < open);
    redis.text("CLIENT UNPAUSE");
    running.stop();
}

#[test]
fn data_of_refused_calls_does_not_use_up_the_connections_window() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    // The server refuses the call at once, while its client still sends as much as the window of the connection.
    grpc.client.send(&frame(HEADERS, 4, 1, &headers("/cache_client.Scs/None", &[])));
    let (mut window, mut sent, mut stream) = (65_535usize, 0usize, 1);
    while sent < 4 << 20 {
        while window < 16_384 {
            let (kind, _, of, payload) = grpc.frame().expect("an update");
            if (kind, of) == (WINDOW_UPDATE, 0) {
                window += u32::from_be_bytes(payload.try_into().expect("4 bytes")) as usize;
            }
        }
        grpc.client.send(&frame(DATA, 0, stream, &[0; 16_384]));
        (window, sent) = (window - 16_384, sent + 16_384);
        if sent.is_multiple_of(512 << 10) {
            stream += 2;
            grpc.client.send(&frame(HEADERS, 4, stream, &headers("/cache_client.Scs/None", &[])));
        }
    }
    assert_eq!(grpc.answer(stream + 2, SET, &item("k", b"v")).status, "0");
    running.stop();
}

#[test]
fn any_token_is_accepted_if_no_user_needs_a_password() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    assert_eq!(redis.text("ACL SETUSER reader on >secret ~r:* +@read"), "+OK");
    for (stream, token, name, status) in [
        (1, "eyJhbGciOiJIUzI1NiJ9.any", "k", "0"),
        (3, "no:user", "k", "0"),
        (5, "reader:secret", "r:k", "0"),
        (7, "reader:secret", "k", "7"),
        (9, "reader:wrong", "r:k", "16"),
        (11, "", "k", "0"),
    ] {
        let mut bytes = frame(HEADERS, 4, stream, &headers(GET, &[("authorization", token)]));
        bytes.extend_from_slice(&frame(DATA, 1, stream, &key(name)));
        grpc.client.send(&bytes);
        assert_eq!(grpc.answers(&[stream])[0].status, status, "{token} {name}");
    }
    // A call of several steps needs the rights of its commands alone, and not those of transactions.
    let fields = prefixed(|out| {
        out.bytes(1, b"r:d").item(2, b"field");
    });
    for (stream, path, status) in
        [(13, "/cache_client.Scs/DictionaryGet", "0"), (15, "/cache_client.Scs/SetUnion", "7")]
    {
        let message = match status {
            "0" => fields.clone(),
            _ => prefixed(|out| {
                out.bytes(1, b"r:s").item(2, b"element").uint(3, 1_000);
            }),
        };
        let mut bytes = frame(HEADERS, 4, stream, &headers(path, &[("authorization", "reader:secret")]));
        bytes.extend_from_slice(&frame(DATA, 1, stream, &message));
        grpc.client.send(&bytes);
        assert_eq!(grpc.answers(&[stream])[0].status, status, "{path}");
    }
    running.stop();
}

#[test]
fn a_condition_that_does_not_hold_leaves_no_watched_key() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    redis.text("SET k 1");
    let absent = prefixed(|out| {
        out.bytes(1, b"k").bytes(2, b"2").uint(3, 60_000).message(6, |_| {});
    });
    let answer = grpc.answer(1, "/cache_client.Scs/SetIf", &absent);
    assert_eq!((answer.status.as_str(), &answer.data[5..]), ("0", &[0x12, 0][..]), "not stored");
    redis.text("SET k 3");
    let increment = prefixed(|out| {
        out.bytes(1, b"other").int(2, 5).uint(3, 60_000);
    });
    assert_eq!(grpc.answer(3, "/cache_client.Scs/Increment", &increment).status, "0");
    assert_eq!(redis.text("GET other"), "$1 5");
    running.stop();
}

#[test]
fn client_that_opens_no_window_is_dropped_when_others_need_its_memory() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    assert_eq!(grpc.answer(1, SET, &item("k", &vec![b'x'; 1_000_000])).status, "0");
    let mut hostile = Grpc::connect(&running);
    hostile.client.send(&(0..100).flat_map(|number| call(2 * number + 1, GET, &key("k"))).collect::<Vec<u8>>());
    let budget = std::sync::Arc::clone(&running.shared().budget);
    crate::common::wait_until("the hostile client's memory", || budget.used() > 12 << 20);
    // Its pings keep its socket moving, and its windows stay closed.
    let mut stream = 201;
    crate::common::wait_until("the end of the hostile client", || {
        hostile.client.stream.write_all(&frame(PING, 0, 0, &[0; 8])).is_err() || {
            stream += 2;
            grpc.answer(stream, GET, &key("k"));
            budget.used() < 4 << 20
        }
    });
    assert_eq!(grpc.answer(stream + 2, GET, &key("k")).status, "0");
    running.stop();
}

#[test]
fn headers_and_tables_of_idle_connections_count_as_client_memory() {
    let running = start(config());
    let budget = std::sync::Arc::clone(&running.shared().budget);
    let long = "x".repeat(12_000);
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut grpc = Grpc::connect(&running);
        for number in 0..50 {
            let token = format!("{number}{long}");
            grpc.client.send(&frame(HEADERS, 4, 2 * number + 1, &headers(GET, &[("authorization", &token)])));
        }
        grpc.client.send(&frame(PING, 0, 0, &[0; 8]));
        clients.push(grpc);
    }
    // 50 requests of 12,000 bytes each: 12 MB of a bound of 16 MiB.
    crate::common::wait_until("the requests", || budget.used() > 11 << 20);
    drop(clients);
    crate::common::wait_until("the end of the requests", || budget.used() < 1 << 20);
    running.stop();
}

#[test]
fn a_cache_that_was_deleted_and_created_again_is_never_another_one() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let mut stream = 1;
    let mut ask = |path: &str, cache: &str, message: &[u8]| {
        let mut bytes = frame(HEADERS, 4, stream, &headers(path, &[("cache", cache)]));
        bytes.extend_from_slice(&frame(DATA, 1, stream, message));
        grpc.client.send(&bytes);
        let answer = grpc.answers(&[stream]).remove(0);
        stream += 2;
        answer
    };
    let control = |name: &str| format!("/control_client.ScsControl/{name}");
    assert_eq!(ask(GET, "one", &key("k")).status, "5", "it does not exist");
    for name in ["one", "two"] {
        assert_eq!(ask(&control("CreateCache"), "", &key(name)).status, "0");
        assert_eq!(ask(SET, name, &item("k", name.as_bytes())).status, "0");
    }
    assert_eq!(ask(&control("CreateCache"), "", &key("one")).status, "6");
    assert_eq!(ask(GET, "one", &key("k")).value(), Some(b"one".to_vec()));
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    assert_eq!(redis.text("SWAPDB 1 5"), "+OK");
    assert_eq!(ask(GET, "one", &key("k")).value(), Some(b"one".to_vec()), "a cache keeps its items");
    assert_eq!(ask(GET, "two", &key("k")).value(), Some(b"two".to_vec()));
    assert_eq!(ask(&control("DeleteCache"), "", &key("one")).status, "0");
    assert_eq!(ask(GET, "one", &key("k")).status, "5");
    assert_eq!(ask(GET, "two", &key("k")).value(), Some(b"two".to_vec()));
    assert_eq!(ask(&control("FlushCache"), "", &key("two")).status, "0");
    assert_eq!(ask(GET, "two", &key("k")).value(), None);
    assert_eq!(ask(&control("CreateCache"), "", &key("one")).status, "0");
    assert_eq!(ask(GET, "one", &key("k")).value(), None, "its items were deleted with it");
    running.stop();
}

#[test]
fn own_service_has_the_calls_of_the_compatible_one() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    assert_eq!(grpc.answer(1, "/gannet.v1.Cache/Set", &item("k", b"v")).status, "0");
    assert_eq!(grpc.answer(3, "/gannet.v1.Cache/Get", &key("k")).value(), Some(b"v".to_vec()));
    assert_eq!(grpc.answer(5, GET, &key("k")).value(), Some(b"v".to_vec()));
    for (stream, path) in [(7, "/gannet.v1.Cache/None"), (9, "/gannet.v1/Get"), (11, "/gannet.v1.Cache/ListErase")] {
        assert_eq!(grpc.answer(stream, path, &key("k")).status, "12", "{path}");
    }
    running.stop();
}

#[test]
fn deletion_that_names_nothing_deletes_nothing() {
    let running = start(config());
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    redis.text("HSET h f v");
    redis.text("ZADD z 1 v");
    redis.text("RPUSH l v");
    redis.text("SADD s v");
    let mut grpc = Grpc::connect(&running);
    let subtrahend = prefixed(|out| {
        out.bytes(1, b"s").message(3, |_| {});
    });
    for (stream, name, message) in [
        (1, "DictionaryDelete", key("h")),
        (3, "SortedSetRemove", key("z")),
        (5, "ListErase", key("l")),
        (7, "SetDifference", key("s")),
        (9, "SetDifference", subtrahend),
    ] {
        assert_eq!(grpc.answer(stream, &format!("/cache_client.Scs/{name}"), &message).status, "3", "{name}");
    }
    assert_eq!(redis.text("EXISTS h z l s"), ":4");
    running.stop();
}

#[test]
fn a_stop_informs_idle_clients_of_the_calls_that_were_served() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    assert_eq!(grpc.answer(5, SET, &item("k", b"v")).status, "0");
    let stopping = std::thread::spawn(move || running.stop());
    let payload = grpc.wait_for(GOAWAY);
    assert_eq!((&payload[..4], &payload[4..8]), (&[0, 0, 0, 5][..], &[0; 4][..]), "the last stream, and no error");
    assert!(grpc.frame().is_none(), "the connection ends");
    stopping.join().expect("the server stops");
}

#[test]
fn a_stop_completes_a_call_and_refuses_later_ones() {
    let running = start(config());
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    let mut grpc = Grpc::connect(&running);
    assert_eq!(grpc.answer(1, SET, &item("k", b"v")).status, "0");
    assert_eq!(redis.text("CLIENT PAUSE 1500 WRITE"), "+OK");
    grpc.client.send(&call(3, SET, &item("k", b"new")));
    std::thread::sleep(Duration::from_millis(50));
    let stopping = std::thread::spawn(move || running.stop());
    let payload = grpc.wait_for(GOAWAY);
    grpc.client.send(&call(5, SET, &item("k", b"later")));
    assert_eq!((&payload[..4], &payload[4..8]), (&[0, 0, 0, 3][..], &[0; 4][..]));
    let answers = grpc.answers(&[3, 5]);
    assert_eq!((&answers[0].status[..], &answers[1].status[..]), ("0", "reset [0, 0, 0, 7]"));
    assert!(grpc.frame().is_none(), "the connection ends");
    stopping.join().expect("the server stops");
}

#[test]
fn calls_are_counted_by_method_with_their_times() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let calls: Vec<u8> = (0..40).flat_map(|number| call(2 * number + 1, GET, &key("none"))).collect();
    grpc.client.send(&calls);
    grpc.answers(&(0..40).map(|number| 2 * number + 1).collect::<Vec<_>>());
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    redis.text("RPUSH list a");
    assert_eq!(grpc.answer(101, GET, &key("list")).status, "9", "another type");
    assert_eq!(grpc.answer(103, "/gannet.v1.Cache/ListLength", &key("list")).status, "0");
    assert_eq!(grpc.answer(105, "/cache_client.Scs/ListLength", &key("")).status, "3");
    let workers = running.shared().workers.iter().map(|worker| &worker.call_stats);
    let sums = command::metrics::call_stats::sums(workers);
    let of = |name: &str| &sums[command::grpc::method_names().position(|of| of == name).expect("a method")];
    let (gets, lengths) = (of("Get"), of("ListLength"));
    assert_eq!((gets.statuses[0], gets.statuses[9], gets.parts[1].count), (40, 1, 41));
    assert_eq!((lengths.statuses[0], lengths.statuses[3], lengths.parts[1].count), (1, 1, 1));
    assert!(gets.parts.iter().all(|part| part.max_ns < 1_000_000_000));
    assert_eq!(sums.iter().flat_map(|sum| sum.statuses).sum::<u64>(), 43, "no other method");
    running.stop();
}

#[test]
fn incomplete_requests_give_way_to_others_if_memory_is_short() {
    let running = start(config());
    let budget = std::sync::Arc::clone(&running.shared().budget);
    // Each of 20 clients sends a MiB of a message of 9 MiB, and then nothing: more than client memory, 16 MiB.
    let mut hostile: Vec<Grpc> = Vec::new();
    for _ in 0..20 {
        let mut grpc = Grpc::connect(&running);
        let message = item("k", &vec![b'x'; 9 << 20]);
        let mut bytes = frame(HEADERS, 4, 1, &headers(SET, &[]));
        message[..1 << 20].chunks(16_384).for_each(|part| bytes.extend_from_slice(&frame(DATA, 0, 1, part)));
        grpc.client.send(&bytes);
        hostile.push(grpc);
    }
    crate::common::wait_until("the requests", || budget.used() > 8 << 20);
    let begun = Instant::now();
    let mut other = Grpc::connect(&running);
    let mut stream = 1;
    while other.answer(stream, SET, &item("other", &vec![b'y'; 4 << 20])).status != "0" {
        assert!(begun.elapsed() < Duration::from_secs(10), "another client has no memory");
        std::thread::sleep(Duration::from_millis(20));
        stream += 2;
    }
    drop(hostile);
    running.stop();
}

#[test]
fn messages_without_a_reader_of_their_replies_are_bounded() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let request = prefixed(|out| {
        out.bytes(4, b"gannet.v1.Cache");
    });
    let messages: Vec<u8> = request.iter().copied().cycle().take(request.len() * 700).collect();
    grpc.client.send(&frame(HEADERS, 4, 1, &headers(path, &[])));
    messages.chunks(16_384).for_each(|part| grpc.client.send(&frame(DATA, 0, 1, part)));
    let answer = grpc.answers(&[1]).remove(0);
    assert_eq!(answer.status, "8", "{}", answer.text);
    running.stop();
}

#[test]
fn failed_messages_of_a_stream_leave_no_request() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let malformed = [&[0, 0, 0, 0, 1][..], &[0xff]].concat();
    let used = |running: &Running| running.shared().budget.used();
    let mut first = 0;
    for number in 0..2_000 {
        let stream = 2 * number + 1;
        grpc.client.send(&frame(HEADERS, 4, stream, &headers(path, &[])));
        grpc.client.send(&frame(DATA, 0, stream, &malformed));
        assert_eq!(grpc.answers(&[stream]).remove(0).status, "3");
        first = if number == 100 { used(&running) } else { first };
    }
    assert!(used(&running) <= first + 4096, "{first} bytes, then {}", used(&running));
    running.stop();
}
