//! Tests of a full store without eviction: nothing is lost that is not in a reply, and queues can be emptied.

use crate::common::redis::{Replies, both, resp};
use crate::common::start;
use gannet_server::start::{Running, ServerConfig};

fn small() -> Running {
    start(ServerConfig { workers: 1, memory_bytes: 32 << 20, evict: false, ..both() })
}

fn short(reply: &str) -> &str {
    &reply[..reply.len().min(80)]
}

fn number(redis: &mut Replies, request: &str) -> u64 {
    let reply = redis.text(request);
    reply[1..].parse().unwrap_or_else(|_| panic!("{request}: {}", short(&reply)))
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

fn add_stream(redis: &mut Replies, key: &str, entries: u64) {
    (1..=entries).for_each(|id| assert!(redis.text(&format!("XADD {key} {id}-0 f v")).starts_with('$')));
    assert_eq!(redis.text(&format!("XGROUP CREATE {key} g 0")), "+OK");
}

/// Regression: `XREADGROUP`, `XCLAIM` and `XAUTOCLAIM` were errors after entries were delivered.
#[test]
fn deliveries_in_a_full_store_reply_with_all_that_they_deliver() {
    let running = small();
    let redis = &mut resp(&running);
    for stream in 0..6 {
        add_stream(redis, &format!("x{stream}"), 3000);
        assert_eq!(redis.text(&format!("XGROUP CREATE x{stream} n 0")), "+OK");
    }
    let mut next = 0;
    fill(redis, &mut next);
    let (mut has_refused, mut has_part) = (false, false);
    for stream in 0..6 {
        for (group, noack) in [("g", ""), ("n", " NOACK")] {
            let group_state = |redis: &mut Replies| {
                let groups = redis.text(&format!("XINFO GROUPS x{stream}"));
                let of_group = groups.split("$4 name ").find(|part| part.split(' ').nth(1) == Some(group));
                let last = of_group.and_then(|part| part.split("last-delivered-id ").nth(1)).expect("a group");
                last.split(' ').nth(1).and_then(|id| id.split('-').next()).expect("an id").parse::<u64>().expect("ms")
            };
            let before = group_state(redis);
            let reply = redis.text(&format!("XREADGROUP GROUP {group} c{noack} COUNT 1400 STREAMS x{stream} >"));
            let delivered = reply.matches("-0 ").count() as u64;
            assert_eq!(group_state(redis), before + delivered, "x{stream} {group}: {}", short(&reply));
            has_refused |= delivered == 0;
            has_part |= delivered > 0 && delivered < 1400;
        }
    }
    assert!(has_refused || has_part, "the store had room for all deliveries");
    running.stop();
}
