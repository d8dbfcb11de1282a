//! Tests of streams that are reset in every state, and of the time limits of calls.

use crate::common::redis::{Replies, addr};
use crate::common::{start, wait_until};
use crate::flood::Flood;
use crate::grpc_client::*;
use command::clients::endpoint::Protocol;
use gannet_server::start::ServerConfig;
use std::io::Read;
use std::time::Duration;

const SUBSCRIBE: &str = "/gannet.v1.Topics/Subscribe";

/// The number of streams that are reset in each state.
const RESETS: u32 = 300;

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])
}

/// Sends frames for each of many streams, and then their resets. Asserts that the connection serves a later call, and
/// that nothing is held for the streams.
fn assert_reset(of: &str, config: ServerConfig, pause: bool, frames: impl Fn(u32) -> Vec<u8>) {
    let running = start(config);
    let budget = std::sync::Arc::clone(&running.shared().budget);
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    let (mut grpc, mut other) = (Grpc::connect(&running), Grpc::connect(&running));
    assert_eq!(grpc.answer(1, SET, &item("long", &vec![b'v'; 200_000])).status, "0");
    assert_eq!(other.answer(1, GET, &key("none")).status, "0");
    let base = budget.used();
    if pause {
        assert_eq!(redis.text("CLIENT PAUSE 600000 WRITE").trim_end(), "+OK");
    }
    let mut most = 0;
    for group in 0..RESETS / 50 {
        let streams = || (group * 50..group * 50 + 50).map(|at| 2 * at + 3);
        for stream in streams() {
            grpc.client.send(&frames(stream));
        }
        // The server has received the frames, and serves others.
        assert_eq!(other.answer(2 * group + 3, GET, &key("none")).status, "0", "{of}: another client");
        most = most.max(budget.used());
        streams().for_each(|stream| grpc.client.send(&reset(stream)));
    }
    if pause {
        redis.text("CLIENT UNPAUSE");
    }
    assert_eq!(grpc.answer(2 * RESETS + 3, GET, &key("none")).status, "0", "{of}: the connection continues");
    wait_until(of, || budget.used() < base + (64 << 10));
    println!("{of}: {base} bytes of client memory, at most {most}, then {}", budget.used());
    running.stop();
}

#[test]
fn stream_that_is_reset_before_its_message_leaves_nothing() {
    assert_reset("a reset after the header fields", config(), false, |stream| {
        frame(HEADERS, 4, stream, &headers(SET, &[]))
    });
}

#[test]
fn stream_that_is_reset_within_its_prefix_or_its_message_leaves_nothing() {
    assert_reset("a reset within the prefix", config(), false, |stream| {
        [frame(HEADERS, 4, stream, &headers(SET, &[])), frame(DATA, 0, stream, &[0, 0, 1])].concat()
    });
    assert_reset("a reset within the message", config(), false, |stream| {
        let part = [&[0, 0, 0x50, 0, 0][..], &[b'x'; 10_000]].concat();
        [frame(HEADERS, 4, stream, &headers(SET, &[])), frame(DATA, 0, stream, &part)].concat()
    });
}

#[test]
fn stream_that_is_reset_after_its_end_leaves_nothing_while_its_call_waits() {
    // The first call waits for the end of the pause, and the others for the first one.
    assert_reset("a reset of a call that waits", config(), true, |stream| call(stream, SET, &item("k", &[b'v'; 5000])));
}

#[test]
fn stream_that_is_reset_while_a_fault_delays_its_call_leaves_nothing() {
    let config = ServerConfig { test_faults: true, ..config() };
    assert_reset("a reset of a delayed call", config, false, |stream| {
        let fields = headers(SET, &[("delay-ms", "600000")]);
        [frame(HEADERS, 4, stream, &fields), frame(DATA, 1, stream, &item("k", &[b'v'; 5000]))].concat()
    });
}

#[test]
fn stream_that_is_reset_while_its_reply_waits_for_the_window_leaves_nothing() {
    let config = ServerConfig { client_memory_bytes: Some(64 << 20), ..config() };
    assert_reset("a reset of a reply that waits", config, false, |stream| call(stream, GET, &key("long")));
}

#[test]
fn subscription_that_is_reset_at_once_leaves_nothing() {
    assert_reset("a reset of a subscription", config(), false, |stream| {
        let topic = prefixed(|out| {
            out.bytes(2, format!("topic-{stream}").as_bytes());
        });
        call(stream, SUBSCRIBE, &topic)
    });
}

#[test]
fn client_whose_calls_time_out_in_masses_keeps_its_connection() {
    let running = start(config());
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    let (mut grpc, mut other) = (Grpc::connect(&running), Grpc::connect(&running));
    assert_eq!(grpc.answer(1, GET, &key("none")).status, "0");
    assert_eq!(redis.text("CLIENT PAUSE 600000 WRITE").trim_end(), "+OK");
    // The server reads no further frame while the first call waits, so that it receives most of these at once.
    let fields = headers(SET, &[("grpc-timeout", "20m")]);
    for round in 0..20 {
        let streams = || (round * 100..round * 100 + 100).map(|at| 2 * at + 3);
        for stream in streams() {
            grpc.client.send(&frame(HEADERS, 4, stream, &fields));
            grpc.client.send(&frame(DATA, 1, stream, &item("k", b"v")));
        }
        std::thread::sleep(Duration::from_millis(2));
        streams().for_each(|stream| grpc.client.send(&reset(stream)));
    }
    assert_eq!(other.answer(1, GET, &key("none")).status, "0", "another client is served");
    redis.text("CLIENT UNPAUSE");
    assert_eq!(grpc.answer(4_003, GET, &key("none")).status, "0", "the connection continues");
    running.stop();
}

#[test]
fn resets_as_fast_as_permitted_cost_less_than_calls_and_hold_nothing() {
    const STREAMS: u32 = 9_000;
    let mut flood = Flood::new();
    let resets_ns = flood.burst(GET, STREAMS, reset);
    flood.assert_bystander_was_served("resets");
    flood.assert_no_request_is_held("resets");
    let calls_ns = flood.burst(GET, STREAMS, |stream| frame(DATA, 1, stream, &key("none")));
    let (reset_ns, call_ns) = (resets_ns / u64::from(STREAMS), calls_ns / u64::from(STREAMS));
    println!("{reset_ns} ns of CPU for a stream that is reset, {call_ns} ns for one with a reply");
    assert!(reset_ns < call_ns + call_ns / 4, "{reset_ns} ns for a reset, {call_ns} ns for a call");
    let (answer, _) = flood.call(GET, &key("none")[5..]);
    assert_eq!(answer.status, "0", "the connection continues: {answer:?}");
}

#[test]
fn reset_amid_a_block_of_headers_ends_the_connection_and_leaves_nothing() {
    const PROTOCOL_ERROR: u32 = 1;
    let running = start(config());
    let budget = std::sync::Arc::clone(&running.shared().budget);
    let mut other = Grpc::connect(&running);
    assert_eq!(other.answer(1, GET, &key("none")).status, "0");
    let (base, open) = (budget.used(), running.shared().connections_open());
    for _ in 0..50 {
        let mut grpc = Grpc::connect(&running);
        let block = headers(GET, &[("authorization", &"x".repeat(8000))]);
        grpc.client.send(&[frame(HEADERS, 0, 1, &block[..4000]), reset(1)].concat());
        let payload = grpc.wait_for(GOAWAY);
        assert_eq!(u32::from_be_bytes(payload[4..8].try_into().expect("a code")), PROTOCOL_ERROR);
        let mut rest = Vec::new();
        grpc.client.stream.read_to_end(&mut rest).expect("the end of the connection");
    }
    wait_until("the end of the connections", || running.shared().connections_open() == open);
    wait_until("the memory of the connections", || budget.used() <= base + 4096);
    assert_eq!(other.answer(3, GET, &key("none")).status, "0");
    running.stop();
}

#[test]
fn malformed_time_limits_are_refused_and_extreme_ones_are_observed() {
    const DEADLINE_EXCEEDED: &str = "4";
    const INTERNAL: &str = "13";
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let mut stream = 1;
    for (timeout, status) in [
        ("0n", DEADLINE_EXCEEDED),
        ("0H", DEADLINE_EXCEEDED),
        ("99999999H", "0"),
        ("99999999M", "0"),
        ("-1S", INTERNAL),
        ("+1S", INTERNAL),
        ("", INTERNAL),
        ("S", INTERNAL),
        ("1", INTERNAL),
        ("1s", INTERNAL),
        ("1 S", INTERNAL),
        ("1.5S", INTERNAL),
        ("0x1S", INTERNAL),
        ("100000000S", INTERNAL),
        ("18446744073709551616n", INTERNAL),
        ("1SS", INTERNAL),
    ] {
        let name = format!("key {timeout}");
        let fields = headers(SET, &[("grpc-timeout", timeout)]);
        let frames = [frame(HEADERS, 4, stream, &fields), frame(DATA, 1, stream, &item(&name, b"v"))];
        grpc.client.send(&frames.concat());
        let answer = grpc.answers(&[stream]).remove(0);
        assert_eq!(answer.status, status, "{timeout:?}: {answer:?}");
        let stored = grpc.answer(stream + 2, GET, &key(&name)).value().is_some();
        assert_eq!(stored, status == "0", "{timeout:?}");
        stream += 4;
    }
    running.stop();
}

#[test]
fn stream_of_events_with_the_longest_time_limit_stays_open() {
    let running = start(config());
    let (mut grpc, mut redis) = (Grpc::connect(&running), Replies::connect(addr(&running, Protocol::Resp)));
    let topic = prefixed(|out| {
        out.bytes(2, b"t");
    });
    let fields = headers(SUBSCRIBE, &[("grpc-timeout", "99999999H")]);
    grpc.client.send(&[frame(HEADERS, 4, 1, &fields), frame(DATA, 1, 1, &topic)].concat());
    grpc.wait_for(DATA);
    assert_eq!(redis.text("PUBLISH t v"), ":1");
    assert!(grpc.wait_for(DATA).contains(&b'v'), "the item");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(redis.text("PUBLISH t w"), ":1", "the subscription is open");
    running.stop();
}
