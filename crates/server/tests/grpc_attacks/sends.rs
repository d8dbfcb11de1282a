//! Tests that the replies to many calls share few sends, by counting sends.

use crate::common;
use crate::grpc_client::{GET, HEADERS, SET, SETTINGS, WINDOW_UPDATE, call, frame, item, key};
use crate::sim::World;
use command::clients::endpoint::Protocol;
use io::sim::Faults;

/// The number of calls in flight: as many streams as a connection may have.
const CALLS: u32 = 100;

/// The maximum number of sends for each reply.
const SENDS_PER_REPLY_MAX: f64 = 0.05;

/// Returns the number of streams that end in these frames.
fn ended(bytes: &[u8]) -> u32 {
    let (mut at, mut ended) = (0, 0);
    while let Some(head) = bytes.get(at..at + 9) {
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        ended += u32::from(head[3] == HEADERS && head[4] & 1 != 0);
        at += 9 + len;
    }
    ended
}

/// Sends [`CALLS`] calls in one piece, and returns the number of sends of their replies.
#[allow(clippy::type_complexity, reason = "a call by its number")]
fn sends_of(rounds: u32, of: &dyn Fn(u32) -> (&'static str, Vec<u8>)) -> u64 {
    let mut world = World::new(1, Faults::NONE, common::config());
    let client = world.connect(Protocol::Grpc);
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.send(&[frame(SETTINGS, 0, 0, &[]), frame(WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes())].concat());
    client.send(&call(1, SET, &item("k", &[b'v'; 200])));
    world.iterations(50);
    assert_eq!(ended(&client.take(usize::MAX)), 1);
    let before = world.sends();
    for round in 0..rounds {
        let calls = (0..CALLS).flat_map(|at| {
            let (path, message) = of(at);
            call(2 * (round * CALLS + at) + 3, path, &message)
        });
        client.send(&calls.collect::<Vec<u8>>());
        let mut received = Vec::new();
        for _ in 0..1000 {
            world.guard();
            received.extend(client.take(usize::MAX));
            if ended(&received) == CALLS {
                break;
            }
        }
        assert_eq!(ended(&received), CALLS, "replies");
    }
    world.sends() - before
}

#[test]
fn replies_to_a_hundred_calls_in_flight_share_their_sends() {
    let set = |at: u32| (SET, item(&format!("k{at}"), &[b'v'; 200]));
    for (of, calls) in [
        ("gets", &(|_: u32| (GET, key("k"))) as &dyn Fn(u32) -> (&'static str, Vec<u8>)),
        ("sets", &set),
        ("gets and sets", &|at| if at % 2 == 0 { (GET, key("k")) } else { set(at) }),
        ("calls that are executed one by one", &|_| ("/gannet.v1.Cache/ItemGetTtl", key("k"))),
    ] {
        const ROUNDS: u32 = 20;
        let sends = sends_of(ROUNDS, calls);
        let per_reply = sends as f64 / f64::from(ROUNDS * CALLS);
        println!("{of}: {sends} sends, {per_reply} for each reply");
        let are_few = sends >= u64::from(ROUNDS) && per_reply <= SENDS_PER_REPLY_MAX;
        assert!(are_few, "{of}: {per_reply} sends for each reply");
    }
}
