//! Tests of subscriptions in great numbers, of those that are never read, and of long names.

use crate::common::redis::{Replies, addr};
use crate::common::{resident, start, wait_until};
use crate::grpc_client::*;
use command::clients::endpoint::Protocol;
use gannet_server::start::ServerConfig;
use std::sync::Arc;

const SUBSCRIBE: &str = "/gannet.v1.Topics/Subscribe";
const PUBLISH: &str = "/gannet.v1.Topics/Publish";

fn subscription(topic: &[u8]) -> Vec<u8> {
    prefixed(|out| {
        out.bytes(2, topic);
    })
}

fn published(topic: &[u8], value: &[u8]) -> Vec<u8> {
    prefixed(|out| {
        out.bytes(2, topic).message(3, |out| {
            out.item(2, value);
        });
    })
}

#[test]
fn ten_thousand_subscriptions_that_are_cancelled_leave_no_memory() {
    const SUBSCRIPTIONS: u32 = 10_000;
    let running = start(config());
    let budget = Arc::clone(&running.shared().budget);
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    let mut grpc = Grpc::connect(&running);
    assert_eq!(grpc.answer(1, GET, &key("none")).status, "0");
    let base = budget.used();
    let (mut most, mut stream) = (0, 3);
    for group in 0..SUBSCRIPTIONS / 50 {
        let streams: Vec<u32> = (0..50).map(|at| stream + 2 * at).collect();
        for of in &streams {
            // Each topic has a name of its own, of 1 KiB.
            let name = format!("{of:01024}");
            grpc.client.send(&call(*of, SUBSCRIBE, &subscription(name.as_bytes())));
        }
        // The first heartbeat shows that a subscription has begun.
        let mut begun = 0;
        while begun < streams.len() {
            let (kind, _, of, _) = grpc.frame().expect("a frame");
            begun += usize::from(kind == DATA && streams.contains(&of));
        }
        most = most.max(budget.used());
        streams.iter().for_each(|of| grpc.client.send(&frame(RST_STREAM, 0, *of, &[0, 0, 0, 8])));
        stream += 2 * 50;
        // Completed calls, without which so many resets would end the connection.
        let calls: Vec<u32> = (0..50).map(|at| stream + 2 * at).collect();
        grpc.client.send(&calls.iter().flat_map(|of| call(*of, GET, &key("none"))).collect::<Vec<u8>>());
        assert!(grpc.answers(&calls).iter().all(|answer| answer.status == "0"));
        stream += 2 * 50;
        if group % 50 == 0 {
            assert_eq!(redis.text("PING"), "+PONG");
        }
    }
    println!("{base} bytes of client memory, at most {most}, then {}", budget.used());
    assert!(most > base + 50 * 1024, "{most} bytes do not count the names of topics");
    wait_until("the end of the subscriptions", || budget.used() < base + (64 << 10));
    running.stop();
}

#[test]
fn subscribers_that_never_read_hold_no_messages_of_a_mebibyte() {
    const SLOW: usize = 20;
    const MESSAGES: u32 = 150;
    let config = ServerConfig { client_memory_bytes: Some(64 << 20), ..config() };
    let running = start(config);
    let budget = Arc::clone(&running.shared().budget);
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    let mut publisher = Grpc::connect(&running);
    let value = vec![b'x'; 1 << 20];
    let base = budget.used();
    let mut slow: Vec<Grpc> = Vec::new();
    for at in 0..SLOW {
        let mut grpc = Grpc::connect(&running);
        grpc.client.send(&call(1, SUBSCRIBE, &subscription(format!("t{}", at % 2).as_bytes())));
        grpc.wait_for(DATA);
        slow.push(grpc);
    }
    let (mut most, before) = (0, resident());
    for at in 0..MESSAGES {
        let topic = format!("t{}", at % 2);
        let answer = publisher.answer(2 * at + 1, PUBLISH, &published(topic.as_bytes(), &value));
        assert_eq!(answer.status, "0", "{at}: {answer:?}");
        most = most.max(budget.used());
        assert_eq!(redis.text("PING"), "+PONG");
    }
    let grown = resident().saturating_sub(before);
    println!("{base} bytes of client memory, at most {most}; {grown} bytes more are resident");
    // Each subscriber has at most the reply that it does not read, and each topic its log of 1 MiB.
    assert!(most < 64 << 20, "{most} bytes of client memory are in use");
    assert!(grown < 256 << 20, "{grown} bytes more are resident");
    drop(slow);
    // The logs of both topics stay for a minute.
    wait_until("the end of the subscribers", || budget.used() < base + (5 << 20));
    running.stop();
}

#[test]
fn name_of_a_topic_beyond_the_maximum_is_refused_before_it_is_stored() {
    let running = start(ServerConfig { client_memory_bytes: Some(64 << 20), ..config() });
    let budget = Arc::clone(&running.shared().budget);
    let mut grpc = Grpc::connect(&running);
    assert_eq!(grpc.answer(1, GET, &key("none")).status, "0");
    let base = budget.used();
    for (stream, len) in [(3, 1025), (7, 100_000), (11, 9 << 20), (15, 0)] {
        let name = vec![b'n'; len];
        let answer = grpc.answer(stream, SUBSCRIBE, &subscription(&name));
        assert!(answer.status == "3" && answer.text.contains("1024"), "{len}: {answer:?}");
        let answer = grpc.answer(stream + 2, PUBLISH, &published(&name, b"v"));
        assert!(answer.status == "3" && answer.text.contains("1024"), "{len}: {answer:?}");
    }
    wait_until("the memory of the requests", || budget.used() < base + (64 << 10));
    running.stop();
}
