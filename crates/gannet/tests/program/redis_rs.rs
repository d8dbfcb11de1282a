//! Tests the published client library redis-rs with both versions of the Redis protocol.

use std::collections::{BTreeMap, HashSet};
use std::sync::mpsc::channel;

use redis::{Client, Commands, Connection, ErrorKind, PushInfo, PushKind, RedisResult, TypedCommands, pipe};

use crate::common::{PATIENCE, Serving, free_port};

fn serving(port: u16) -> Serving {
    let resp = format!("127.0.0.1:{port}");
    let free = ["--memcached", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--memory", "64MiB", "--workers", "2"];
    Serving::start(&[&["--resp", &resp][..], &free].concat())
}

fn client(port: u16, version: &str) -> Client {
    Client::open(format!("redis://127.0.0.1:{port}/?protocol={version}")).expect("a client")
}

fn connect(client: &Client) -> Connection {
    let connection = client.get_connection_with_timeout(PATIENCE).expect("connects");
    connection.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    connection
}

/// Runs a test with a connection of each version.
fn each_version(test: impl Fn(&Client, &mut Connection)) {
    let port = free_port();
    let _serving = serving(port);
    for version in ["resp2", "resp3"] {
        let client = client(port, version);
        let mut connection = connect(&client);
        let _: () = redis::cmd("FLUSHALL").query(&mut connection).expect("flushed");
        test(&client, &mut connection);
    }
}

#[test]
fn values_pipelines_and_walks_of_redis_rs() {
    each_version(|_, redis| {
        let (set, read): (String, Option<String>) =
            pipe().set_ex("k", "v", 100).get("k").query(redis).expect("a pipeline");
        assert_eq!((set.as_str(), read.as_deref()), ("OK", Some("v")));
        assert!((1..=100).contains(&Commands::ttl::<_, i64>(redis, "k").unwrap()));
        assert_eq!(Commands::get::<_, Option<String>>(redis, "none").unwrap(), None);
        let bytes: Vec<u8> = (0..100_000u32).map(|number| number as u8).collect();
        let _: () = Commands::set(redis, "bytes", &bytes).unwrap();
        assert_eq!(Commands::get::<_, Vec<u8>>(redis, "bytes").unwrap(), bytes);
        let mut many = pipe();
        for number in 0..1000 {
            many.set(format!("walk:{number}"), number).ignore().incr(format!("walk:{number}"), 1);
        }
        let sums: Vec<i64> = many.query(redis).expect("a long pipeline");
        assert_eq!(sums, (1..=1000).collect::<Vec<i64>>());
        let met: RedisResult<HashSet<String>> = Commands::scan_match(redis, "walk:*").unwrap().collect();
        assert_eq!(met.expect("a walk").len(), 1000);
        let fault = Commands::incr::<_, _, i64>(redis, "k", 1).unwrap_err();
        assert!(fault.to_string().contains("not an integer"), "{fault}");
        assert_eq!(Commands::del::<_, i64>(redis, &["walk:1", "walk:2", "none"]).unwrap(), 2);
    });
}

#[test]
fn hashes_small_and_large_of_redis_rs() {
    each_version(|_, redis| {
        assert_eq!(TypedCommands::hset(redis, "user", "name", "Ada").unwrap(), 1);
        assert_eq!(Commands::hincr::<_, _, _, i64>(redis, "user", "visits", 5).unwrap(), 5);
        let all: BTreeMap<String, String> = Commands::hgetall(redis, "user").unwrap();
        assert_eq!(all, BTreeMap::from([("name".into(), "Ada".into()), ("visits".into(), "5".into())]));
        let fields: Vec<(String, String)> = (0..5000).map(|n| (format!("f{n}"), format!("v{n}"))).collect();
        let _: () = Commands::hset_multiple(redis, "wide", &fields).unwrap();
        let met: RedisResult<BTreeMap<String, String>> = Commands::hscan(redis, "wide").unwrap().collect();
        assert_eq!(met.expect("a walk"), fields.iter().cloned().collect());
        assert_eq!(Commands::hlen::<_, i64>(redis, "wide").unwrap(), 5000);
        let fault = Commands::get::<_, String>(redis, "user").unwrap_err();
        assert_eq!(fault.code(), Some("WRONGTYPE"));
        assert_eq!(Commands::del::<_, i64>(redis, "wide").unwrap(), 1);
        assert_eq!(redis::cmd("DBSIZE").query::<i64>(redis).unwrap(), 1);
    });
}

#[test]
fn transactions_of_redis_rs_lose_nothing() {
    each_version(|client, redis| {
        let (one, two): (i64, i64) = pipe().atomic().incr("t", 1).incr("t", 1).query(redis).expect("a transaction");
        assert_eq!((one, two), (1, 2));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut redis = connect(client);
                    for _ in 0..25 {
                        let (_,): (i64,) = redis::transaction(&mut redis, &["sum"], |redis, pipe| {
                            let before: i64 = Commands::get::<_, Option<i64>>(redis, "sum")?.unwrap_or(0);
                            pipe.set("sum", before + 1).ignore().get("sum").query(redis)
                        })
                        .expect("a transaction that watches");
                    }
                });
            }
        });
        assert_eq!(Commands::get::<_, i64>(redis, "sum").unwrap(), 100);
    });
}

#[test]
fn redis_rs_subscribers_receive_published_messages() {
    each_version(|client, redis| {
        let mut subscriber = connect(client);
        let mut listens = subscriber.as_pubsub();
        listens.subscribe("news").expect("subscribed");
        listens.psubscribe("s*").expect("subscribed to a pattern");
        assert_eq!(Commands::publish::<_, _, i64>(redis, "news", "hello").unwrap(), 1);
        assert_eq!(Commands::publish::<_, _, i64>(redis, "sport", "goal").unwrap(), 1);
        for (name, text, pattern) in [("news", "hello", None), ("sport", "goal", Some("s*"))] {
            let message = listens.get_message().expect("a message");
            assert_eq!((message.get_channel_name(), message.get_payload_bytes()), (name, text.as_bytes()));
            assert_eq!(message.get_pattern::<Option<String>>().unwrap().as_deref(), pattern);
        }
    });
}

#[test]
fn redis_rs_receives_pushes_between_replies() {
    let port = free_port();
    let _serving = serving(port);
    let client = client(port, "resp3");
    let (mut subscriber, mut redis) = (connect(&client), connect(&client));
    let (sender, pushes) = channel();
    subscriber.set_push_sender(sender);
    let _: () = subscriber.subscribe_resp3("news").expect("subscribed");
    // The library did not wait for the reply to the previous request. The reply to this request follows the push
    // message.
    let _: () = Commands::set(&mut subscriber, "k", "before").unwrap();
    assert_eq!(Commands::publish::<_, _, i64>(&mut redis, "news", "hello").unwrap(), 1);
    // The same connection can still send requests.
    let _: () = Commands::set(&mut subscriber, "k", "v").unwrap();
    assert_eq!(Commands::get::<_, String>(&mut subscriber, "k").unwrap(), "v");
    let told: Vec<PushInfo> = pushes.try_iter().collect();
    assert!(told.iter().any(|push| push.kind == PushKind::Message && push.data.len() == 2), "{told:?}");
}

#[test]
fn redis_rs_pool_reconnects_after_a_server_restart() {
    let port = free_port();
    let first = serving(port);
    let pool =
        r2d2::Pool::builder().max_size(4).connection_timeout(PATIENCE).build(client(port, "resp3")).expect("a pool");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let _: i64 = Commands::incr(&mut *pool.get().expect("a connection"), "all", 1).expect("a reply");
                }
            });
        }
    });
    assert_eq!(Commands::get::<_, i64>(&mut *pool.get().unwrap(), "all").unwrap(), 200);
    let mut held = pool.get().unwrap();
    drop(first);
    let gone = Commands::get::<_, Option<i64>>(&mut *held, "all").unwrap_err();
    assert!(gone.is_connection_dropped() || gone.kind() == ErrorKind::Io, "{gone}");
    drop(held);
    let _second = serving(port);
    // The pool tests each connection before it hands the connection out.
    assert_eq!(Commands::get::<_, Option<i64>>(&mut *pool.get().unwrap(), "all").unwrap(), None);
    let _: () = Commands::set(&mut *pool.get().unwrap(), "all", 1).unwrap();
}
