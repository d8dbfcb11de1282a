//! Tests of random choices. For `RANDOMKEY`, all keys are equally likely, however many there are and whatever their
//! hashes are.

use crate::common::redis::{Replies, both, request, resp};
use crate::common::start;
use gannet_server::start::ServerConfig;
use std::collections::HashMap;

/// Draws keys and returns how often each was drawn.
fn draw(client: &mut Replies, draws: usize) -> HashMap<Vec<u8>, usize> {
    let mut drawn = HashMap::new();
    for some in (0..draws).collect::<Vec<_>>().chunks(100) {
        client.client.send(&request(&[b"RANDOMKEY"]).repeat(some.len()));
        for _ in some {
            *drawn.entry(client.next()).or_insert(0) += 1;
        }
    }
    drawn
}

fn fill(client: &mut Replies, keys: std::ops::Range<usize>) {
    for some in keys.collect::<Vec<_>>().chunks(500) {
        let names: Vec<String> = some.iter().map(|key| format!("key-{key}")).collect();
        let mut words: Vec<&[u8]> = vec![b"MSET"];
        words.extend(names.iter().flat_map(|name| [name.as_bytes(), b"v"]));
        assert_eq!(client.ask(&words), b"+OK\r\n");
    }
}

#[test]
fn each_of_few_keys_is_drawn_as_often_as_the_others_also_beside_other_databases() {
    let running = start(both());
    let mut client = resp(&running);
    for (database, keys, draws) in [(0, 1, 100), (1, 2, 2000), (2, 10, 5000), (3, 40, 10_000), (4, 1000, 20_000)] {
        assert_eq!(client.text(&format!("SELECT {database}")), "+OK");
        fill(&mut client, 0..keys);
        let drawn = draw(&mut client, draws);
        let mean = draws as f64 / keys as f64;
        // Six standard deviations: one key in 500 million is beyond.
        let bound = 6.0 * mean.sqrt() + 1.0;
        let far = drawn.iter().filter(|(_, times)| (**times as f64 - mean).abs() > bound);
        assert_eq!(far.collect::<Vec<_>>(), [], "{keys} keys are drawn {mean} times on average");
        assert!(drawn.len() <= keys && drawn.len() + 1 >= keys, "{} of {keys} keys were drawn", drawn.len());
    }
    running.stop();
}

/// The index of a nearly full store has many keys in each group, whose walk visits a part of a group at a time.
#[test]
fn every_part_of_a_dense_index_is_drawn_from() {
    let running = start(ServerConfig { memory_bytes: 16 << 20, ..both() });
    let mut client = resp(&running);
    fill(&mut client, 0..100_000);
    let drawn = draw(&mut client, 5000);
    // 4,877 are expected. Those of a sixteenth of the keys would be 3,437.
    assert!(drawn.len() > 4750, "{} different keys in 5000 draws", drawn.len());
    running.stop();
}

#[test]
fn draw_among_expired_keys_finds_the_only_live_one_or_ends() {
    let running = start(both());
    let mut client = resp(&running);
    let (mut all, live) = (Vec::new(), "live");
    for number in 0..2000 {
        all.extend(request(&[b"SET", format!("key-{number}").as_bytes(), b"v", b"PX", b"1"]));
    }
    client.client.send(&all);
    (0..2000).for_each(|_| assert_eq!(client.next(), b"+OK\r\n"));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(client.text("RANDOMKEY"), "$-1");
    assert_eq!(client.text(&format!("SET {live} v")), "+OK");
    assert_eq!(client.text("RANDOMKEY"), "$4 live");
    running.stop();
}

/// Elements may repeat, so that a reply may be far longer than the value and than a buffer.
#[test]
fn selection_with_repetition_replies_with_as_many_elements_as_were_requested() {
    let running = start(both());
    let mut client = resp(&running);
    for members in [2, 3000] {
        for some in (0..members).collect::<Vec<_>>().chunks(500) {
            let line = |name: &str, element: &dyn Fn(&i32) -> String| {
                format!("{name} {}", some.iter().map(element).collect::<Vec<_>>().join(" "))
            };
            client.text(&line("HSET hash", &|number| format!("f{number} v")));
            client.text(&line("SADD set", &|number| format!("m{number}")));
            client.text(&line("ZADD zset", &|number| format!("{number} m{number}")));
        }
        for (command, per) in [
            ("HRANDFIELD hash COUNT", 1),
            ("HRANDFIELD hash COUNT WITHVALUES", 2),
            ("SRANDMEMBER set COUNT", 1),
            ("ZRANDMEMBER zset COUNT", 1),
            ("ZRANDMEMBER zset COUNT WITHSCORES", 2),
        ] {
            for count in [10, 52_428, 60_000, 200_000] {
                let request = command.replace("COUNT", &format!("-{count}"));
                let reply = client.text(&request);
                assert!(reply.starts_with(&format!("*{} $", count * per)), "{request}: {:.60}", reply);
                assert_eq!(reply.matches('$').count(), count * per, "{request}");
            }
            let reply = client.text(&command.replace("COUNT", "-100000000"));
            assert!(reply.starts_with('-'), "{command}: {:.60}", reply);
        }
        for command in ["HRANDFIELD", "SRANDMEMBER", "ZRANDMEMBER"] {
            assert_eq!(client.text(&format!("{command} none -100000000")), "*0");
        }
        client.text("DEL hash set zset");
    }
    running.stop();
}
