//! Tests of replies for which there is no memory: what a command has removed or moved is in its reply, or nothing was
//! changed.

use crate::common::redis::{Replies, addr, both, resp};
use crate::common::{Client, start, wait_until};
use crate::grpc_client::{GET, Grpc, call, config, key};
use command::clients::endpoint::Protocol;
use gannet_server::start::{Running, ServerConfig};
use std::fmt::Write;

/// Starts a server whose client memory has no room for the replies of these tests.
fn small() -> Running {
    start(ServerConfig { client_memory_bytes: Some(4 << 20), workers: 1, memory_bytes: 128 << 20, ..both() })
}

/// Returns the number of elements of an array in a reply, or `None` for an error.
fn length(reply: &str) -> Option<u64> {
    let head = reply.split(' ').next()?;
    if head.starts_with('-') { None } else { head[1..].parse().ok() }
}

fn count(redis: &mut Replies, request: &str) -> u64 {
    redis.text(request)[1..].parse().expect("a number")
}

/// Regression: a pop whose reply did not fit was an error after thousands of elements were removed.
#[test]
fn popped_elements_are_in_the_reply_although_client_memory_is_used_up() {
    const ELEMENTS: u64 = 60_000;
    let running = small();
    let redis = &mut resp(&running);
    let text = "x".repeat(90);
    for (add, size, pops) in [
        ("RPUSH k", "LLEN k", &["LPOP k 60000", "RPOP k 60000", "LMPOP 1 k LEFT COUNT 60000"][..]),
        ("SADD k", "SCARD k", &["SPOP k 59999"]),
        ("ZADD k", "ZCARD k", &["ZPOPMIN k 60000", "ZPOPMAX k 60000", "BZMPOP 1 1 k MIN COUNT 60000"]),
    ] {
        redis.text("FLUSHALL");
        for part in 0..ELEMENTS / 500 {
            let mut line = add.to_owned();
            for element in part * 500..part * 500 + 500 {
                let score = if add.starts_with('Z') { format!(" {element}") } else { String::new() };
                write!(line, "{score} {element}-{text}").expect("text");
            }
            redis.text(&line);
        }
        let mut has_part = false;
        for pop in pops {
            let before = count(redis, size);
            let reply = redis.text(pop);
            let popped = reply.matches(&text).count() as u64;
            assert_eq!(count(redis, size), before - popped, "{pop}: {}", &reply[..reply.len().min(80)]);
            has_part |= popped > 0 && popped < before;
            assert!(popped > 0 || before == 0 || reply.starts_with("-OOM"), "{pop}: {}", &reply[..reply.len().min(80)]);
        }
        assert!(has_part, "{add}: the memory was enough for each reply");
    }
    running.stop();
}

/// Regression: the group had moved on although the consumer got an error.
#[test]
fn delivered_and_claimed_entries_are_in_the_reply_although_client_memory_is_used_up() {
    const ENTRIES: u64 = 200;
    let running = small();
    let redis = &mut resp(&running);
    let text = "y".repeat(100_000);
    redis.text("XGROUP CREATE x g 0 MKSTREAM");
    (1..=ENTRIES).for_each(|id| assert!(redis.text(&format!("XADD x 1-{id} f {text}")).starts_with('$')));
    let delivered = |reply: &str| reply.matches(&text).count() as u64;
    let mut all = 0;
    while all < ENTRIES / 2 {
        let reply = redis.text("XREADGROUP GROUP g a NOACK STREAMS x >");
        assert!(delivered(&reply) > 0, "{}", &reply[..reply.len().min(80)]);
        all += delivered(&reply);
        let next = redis.text("XINFO GROUPS x");
        assert!(next.contains(&format!("1-{all} ")), "{all} entries are delivered: {next}");
    }
    while count(redis, "XLEN x") > 0 && delivered(&redis.text("XREADGROUP GROUP g a STREAMS x >")) > 0 {}
    let pending = ENTRIES - all;
    for claim in ["XAUTOCLAIM x g b 0 0 COUNT 200".to_owned(), {
        (all + 1..=ENTRIES).fold("XCLAIM x g c 0".to_owned(), |line, id| line + &format!(" 1-{id}"))
    }] {
        let consumer = claim.split(' ').nth(3).expect("a word").to_owned();
        let reply = redis.text(&claim);
        let owned = redis.text(&format!("XPENDING x g - + 1000 {consumer}"));
        assert_eq!(length(&owned), Some(delivered(&reply)), "{}", &reply[..reply.len().min(80)]);
        assert!(delivered(&reply) > 0 && delivered(&reply) < pending, "{} of {pending}", delivered(&reply));
    }
    running.stop();
}

/// Regression: fields that were removed before the reply was full were lost.
#[test]
fn hgetdel_without_memory_for_its_reply_removes_nothing() {
    const FIELDS: u64 = 400;
    let running = small();
    let redis = &mut resp(&running);
    let text = "z".repeat(50_000);
    (0..FIELDS).for_each(|field| assert_eq!(redis.text(&format!("HSET h {field} {text}")), ":1"));
    let names: String = (0..FIELDS).fold(String::new(), |names, field| names + &format!(" {field}"));
    let reply = redis.text(&format!("HGETDEL h FIELDS {FIELDS}{names}"));
    assert!(reply.starts_with("-OOM client memory"), "{}", &reply[..reply.len().min(80)]);
    assert_eq!(count(redis, "HLEN h"), FIELDS);
    let some: String = (0..40).fold(String::new(), |names, field| names + &format!(" {field}"));
    let reply = redis.text(&format!("HGETDEL h FIELDS 40{some}"));
    assert_eq!((length(&reply), reply.matches(&text).count()), (Some(40), 40));
    assert_eq!(count(redis, "HLEN h"), FIELDS - 40);
    running.stop();
}

/// Regression: the worker retried the call within one turn for ever, so that nobody released a pin.
#[test]
fn grpc_get_of_a_long_value_waits_for_pins_and_its_worker_serves_others() {
    let running = start(ServerConfig { workers: 1, memory_bytes: 128 << 20, ..config() });
    let redis = &mut Replies::connect(addr(&running, Protocol::Resp));
    let value = "v".repeat(900_000);
    assert_eq!(redis.text(&format!("SET big {value}")), "+OK");
    let pins = |running: &Running| running.shared().pins.used();
    let mut readers = Vec::new();
    while pins(&running) < 5 << 20 {
        let mut client = Client::connect(addr(&running, Protocol::Resp));
        client.send(&b"GET big\r\n".repeat(40));
        readers.push(client);
        assert!(readers.len() < 500, "{} bytes are pinned", pins(&running));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut grpc = Grpc::connect(&running);
    grpc.client.send(&call(1, GET, &key("big")));
    for turn in 0..20 {
        assert_eq!(redis.text(&format!("ECHO {turn}")), format!("${} {turn}", turn.to_string().len()));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(readers);
    wait_until("the pins to be released", || pins(&running) == 0);
    let answers = grpc.answers(&[1]);
    assert_eq!(answers[0].value().map(|value| value.len()), Some(900_000));
    running.stop();
}
