//! Tests of publishing and subscribing over sockets: comparison of the messages with those of Debian's Redis, no
//! message inside a reply, and the end of subscribers that do not read.

use crate::common::redis::{Redis, Replies, both, request, resp, resp_addr};
use crate::common::{start, wait_until};
use command::push::notify::KeyEvents;
use gannet_server::start::{Running, ServerConfig};
use std::sync::atomic::Ordering::Relaxed;

/// Returns a configuration with two workers, so that subscribers and publishers are on different workers.
fn two() -> ServerConfig {
    ServerConfig { workers: 2, ..both() }
}

/// Steps, each with the connection that sends, its request, and the number of replies that each connection reads
/// afterwards.
type Script = &'static [(usize, &'static [&'static [u8]], [usize; 3])];

/// The commands of subscribers and publishers, each with the numbers of replies and messages.
const SCRIPT: Script = &[
    (0, &[b"SUBSCRIBE", b"news", b"sport", b"news"], [3, 0, 0]),
    (1, &[b"PSUBSCRIBE", b"n*", b"?ews"], [0, 2, 0]),
    (2, &[b"PUBLISH", b"news", b"hello"], [1, 2, 1]),
    (2, &[b"PUBLISH", b"sport", b""], [1, 0, 1]),
    (2, &[b"PUBLISH", b"nobody here", b"x"], [0, 1, 1]),
    (2, &[b"PUBLISH", b"empty", b"with\r\nline ends"], [0, 0, 1]),
    (2, &[b"PUBSUB", b"NUMSUB", b"news", b"sport", b"none"], [0, 0, 1]),
    (2, &[b"PUBSUB", b"NUMPAT"], [0, 0, 1]),
    (2, &[b"PUBSUB", b"CHANNELS", b"s*"], [0, 0, 1]),
    (2, &[b"PUBSUB", b"NUMSUB"], [0, 0, 1]),
    (0, &[b"UNSUBSCRIBE", b"sport", b"never"], [2, 0, 0]),
    (2, &[b"PUBLISH", b"sport", b"again"], [0, 0, 1]),
    (0, &[b"PING"], [1, 0, 0]),
    (0, &[b"PING", b"text"], [1, 0, 0]),
    (0, &[b"UNSUBSCRIBE"], [1, 0, 0]),
    (0, &[b"UNSUBSCRIBE"], [1, 0, 0]),
    (0, &[b"PUNSUBSCRIBE"], [1, 0, 0]),
    (0, &[b"PING"], [1, 0, 0]),
    (1, &[b"PUNSUBSCRIBE", b"n*"], [0, 1, 0]),
    (0, &[b"SSUBSCRIBE", b"shard"], [1, 0, 0]),
    (2, &[b"SPUBLISH", b"shard", b"to it alone"], [1, 0, 1]),
    (2, &[b"PUBLISH", b"shard", b"to nobody"], [0, 0, 1]),
    (2, &[b"PUBSUB", b"SHARDCHANNELS"], [0, 0, 1]),
    (2, &[b"PUBSUB", b"SHARDNUMSUB", b"shard"], [0, 0, 1]),
    (0, &[b"SUNSUBSCRIBE"], [1, 0, 0]),
    (2, &[b"PUBSUB", b"CHANNELS"], [0, 0, 1]),
    (1, &[b"RESET"], [0, 1, 0]),
    (2, &[b"PUBSUB", b"NUMPAT"], [0, 0, 1]),
    (1, &[b"MULTI"], [0, 1, 0]),
    (1, &[b"SSUBSCRIBE", b"shard"], [0, 1, 0]),
    (1, &[b"GET", b"none"], [0, 1, 0]),
    (1, &[b"EXEC"], [0, 1, 0]),
    (2, &[b"SPUBLISH", b"shard", b"to nobody"], [0, 0, 1]),
    (0, &[b"SUBSCRIBE", b"a"], [1, 0, 0]),
    (0, &[b"SUBSCRIBE"], [1, 0, 0]),
    (2, &[b"PUBLISH", b"a"], [0, 0, 1]),
    (0, &[b"QUIT"], [1, 0, 0]),
];

fn compare(version: &[u8]) {
    let (redis, running) = (Redis::start(), start(two()));
    let mut ours = [(); 3].map(|()| resp(&running));
    let mut theirs = [(); 3].map(|()| Replies::connect(redis.addr));
    for replies in ours.iter_mut().chain(&mut theirs) {
        assert!(matches!(replies.ask(&[b"HELLO", version])[0], b'*' | b'%'));
    }
    for (step, (who, words, replies)) in SCRIPT.iter().enumerate() {
        ours[*who].client.send(&request(words));
        theirs[*who].client.send(&request(words));
        for (reader, count) in replies.iter().enumerate() {
            let mut replied = [Vec::new(), Vec::new()];
            for _ in 0..*count {
                replied[0].push(ours[reader].next().escape_ascii().to_string());
                replied[1].push(theirs[reader].next().escape_ascii().to_string());
            }
            // If several patterns match, the messages may arrive in any order.
            replied.iter_mut().for_each(|replied| replied.sort());
            assert_eq!(replied[0], replied[1], "step {step}: {words:?} read by {reader}");
        }
    }
    running.stop();
}

#[test]
fn resp2_subscribers_receive_the_same_as_from_redis() {
    compare(b"2");
}

#[test]
fn resp3_subscribers_receive_the_same_as_from_redis() {
    compare(b"3");
}

#[test]
fn resp2_subscriber_is_restricted_and_resp3_subscriber_is_not() {
    let running = start(two());
    let mut client = resp(&running);
    assert!(client.ask(&[b"SUBSCRIBE", b"c"]).starts_with(b"*3\r\n"));
    assert!(client.ask(&[b"GET", b"k"]).starts_with(b"-ERR Can't execute 'get': only (P|S)SUBSCRIBE"));
    assert_eq!(client.ask(&[b"RESET"]), b"+RESET\r\n");
    assert_eq!(client.ask(&[b"GET", b"k"]), b"$-1\r\n");
    assert!(client.ask(&[b"HELLO", b"3"]).starts_with(b"%7"));
    assert!(client.ask(&[b"SUBSCRIBE", b"c"]).starts_with(b">3\r\n"));
    assert_eq!(client.ask(&[b"GET", b"k"]), b"_\r\n");
    running.stop();
}

/// Tests long replies and long messages on one connection. Both are longer than an output buffer.
#[test]
fn pushed_messages_and_replies_are_never_interleaved() {
    const ROUNDS: usize = 60;
    let running = start(two());
    let (mut subscriber, mut publisher) = (resp(&running), resp(&running));
    assert!(subscriber.ask(&[b"HELLO", b"3"]).starts_with(b"%7"));
    let value = crate::common::pattern(30_000);
    assert_eq!(publisher.ask(&[b"SET", b"long", &value]), b"+OK\r\n");
    assert!(subscriber.ask(&[b"SUBSCRIBE", b"c"]).starts_with(b">3"));
    let text = crate::common::pattern(50_000);
    let message = [b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$50000\r\n", &text[..], b"\r\n"].concat();
    let one = [b"$30000\r\n", &value[..], b"\r\n"].concat();
    let reply = [b"*5\r\n", &one[..], &one, &one, &one, &one].concat();
    let publishing = std::thread::spawn(move || {
        for _ in 0..ROUNDS {
            assert_eq!(publisher.ask(&[b"PUBLISH", b"c", &text]), b":1\r\n");
        }
        publisher
    });
    let mut asked = subscriber.client.stream.try_clone().unwrap();
    let asking = std::thread::spawn(move || {
        for _ in 0..ROUNDS {
            let get = request(&[b"MGET", b"long", b"long", b"long", b"long", b"long"]);
            std::io::Write::write_all(&mut asked, &get).unwrap();
        }
    });
    let (mut messages, mut replies) = (0, 0);
    while messages < ROUNDS || replies < ROUNDS {
        let next = subscriber.next();
        match next[0] {
            b'>' => {
                assert!(next == message, "message {messages}");
                messages += 1;
            }
            _ => {
                assert!(next == reply, "reply {replies}");
                replies += 1;
            }
        }
    }
    asking.join().unwrap();
    publishing.join().unwrap();
    assert_eq!(running.shared().channels.bytes() / 1000, 0, "nothing waits any more");
    running.stop();
}

#[test]
fn unsubscribe_reply_follows_every_pending_message() {
    let running = start(two());
    let (mut subscriber, mut publisher) = (resp(&running), resp(&running));
    let text = crate::common::pattern(20_000);
    for round in 0..30 {
        assert!(subscriber.ask(&[b"SUBSCRIBE", b"c", b"d"]).starts_with(b"*3"));
        assert!(subscriber.next().starts_with(b"*3"));
        for _ in 0..10 {
            publisher.client.send(&request(&[b"PUBLISH", b"c", &text]));
        }
        subscriber.client.send(&request(&[b"UNSUBSCRIBE"]));
        let (mut messages, mut left) = (0, 0);
        while left < 2 {
            let next = subscriber.next();
            if next.starts_with(b"*3\r\n$7\r\nmessage") {
                assert_eq!(next.len(), 20_000 + 34, "round {round}");
                messages += 1;
            } else {
                assert!(next.starts_with(b"*3\r\n$11\r\nunsubscribe"), "{}", next.escape_ascii());
                left += 1;
            }
        }
        let replied: usize = (0..10).map(|_| usize::from(publisher.next() == b":1\r\n")).sum();
        assert_eq!(messages, replied, "round {round}: who was counted was told, and before it left");
        assert_eq!(subscriber.ask(&[b"PING"]), b"+PONG\r\n");
    }
    running.stop();
}

#[test]
fn a_subscriber_that_does_not_read_is_dropped_and_the_others_miss_nothing() {
    let backlog = 256 << 10;
    let running = start(ServerConfig { subscriber_backlog_bytes: backlog, ..two() });
    let (mut slow, mut good, mut publisher) = (resp(&running), resp(&running), resp(&running));
    for client in [&mut slow, &mut good] {
        assert!(client.ask(&[b"SUBSCRIBE", b"c"]).starts_with(b"*3"));
    }
    let text = crate::common::pattern(10_000);
    let dropped = || running.shared().workers.iter().map(|w| w.counters.subscribers_dropped.value()).sum::<u64>();
    let mut published = 0;
    // Its socket takes some megabytes first.
    while dropped() == 0 {
        assert!(publisher.ask(&[b"PUBLISH", b"c", &text]).starts_with(b":"));
        assert!(good.next().starts_with(b"*3\r\n$7\r\nmessage"));
        published += 1;
        assert!(published < 10_000, "it is never dropped");
        assert!(running.shared().channels.bytes() < 2 * backlog, "{} bytes wait", running.shared().channels.bytes());
    }
    assert_eq!((dropped(), running.shared().channels.dropped.load(Relaxed)), (1, 1));
    slow.client.read_to_end();
    assert_eq!(publisher.ask(&[b"PUBLISH", b"c", b"last"]), b":1\r\n");
    assert!(good.next().ends_with(b"last\r\n"));
    running.stop();
}

#[test]
fn disconnect_ends_all_subscriptions_of_a_client() {
    let running = start(two());
    let mut publisher = resp(&running);
    {
        let mut subscribers: Vec<_> = (0..20).map(|_| resp(&running)).collect();
        for client in &mut subscribers {
            client.ask(&[b"SUBSCRIBE", b"c"]);
            client.ask(&[b"PSUBSCRIBE", b"c*"]);
        }
        assert_eq!(publisher.ask(&[b"PUBLISH", b"c", b"x"]), b":40\r\n");
    }
    wait_until("the end of their subscriptions", || publisher.ask(&[b"PUBLISH", b"c", b"x"]) == b":0\r\n");
    assert_eq!(publisher.ask(&[b"PUBSUB", b"CHANNELS"]), b"*0\r\n");
    wait_until("the end of what was kept for them", || running.shared().channels.bytes() == 0);
    running.stop();
}

#[test]
fn channel_list_longer_than_an_output_is_complete() {
    let running = start(two());
    let (mut subscriber, mut other) = (resp(&running), resp(&running));
    let names: Vec<String> = (0..5000).map(|number| format!("channel:{number:040}")).collect();
    let mut words: Vec<&[u8]> = vec![b"SUBSCRIBE"];
    words.extend(names.iter().map(String::as_bytes));
    // Each name is answered.
    for names in words[1..].chunks(1000) {
        let asked = [&[&b"SUBSCRIBE"[..]], names].concat();
        subscriber.client.send(&request(&asked));
        names.iter().for_each(|_| assert!(subscriber.next().starts_with(b"*3")));
    }
    let replied = other.ask(&[b"PUBSUB", b"CHANNELS"]);
    assert!(replied.starts_with(b"*5000\r\n") && replied.len() > 5000 * 50, "{} bytes", replied.len());
    assert_eq!(other.ask(&[b"PING"]), b"+PONG\r\n");
    subscriber.client.send(&request(&[b"UNSUBSCRIBE"]));
    (0..5000).for_each(|_| assert!(subscriber.next().starts_with(b"*3\r\n$11\r\nunsubscribe")));
    assert_eq!(other.ask(&[b"PUBSUB", b"CHANNELS"]), b"*0\r\n");
    running.stop();
}

#[test]
fn monitor_shows_commands_and_hides_their_secrets() {
    let running = start(two());
    let (mut monitor, mut client) = (resp(&running), resp(&running));
    assert_eq!(monitor.ask(&[b"MONITOR"]), b"+OK\r\n");
    assert_eq!(client.ask(&[b"SET", b"key", b"a \"b\"\r\n\x01"]), b"+OK\r\n");
    client.ask(&[b"HELLO", b"3", b"AUTH", b"default", b"secret"]);
    client.ask(&[b"NOSUCH"]);
    assert!(client.ask(&[b"GET", b"key"]).starts_with(b"$"));
    let peer = client.client.stream.local_addr().unwrap();
    let replied: Vec<String> = (0..3).map(|_| String::from_utf8(monitor.next()).unwrap()).collect();
    assert!(
        replied[0].ends_with(&format!(" [0 {peer}] \"SET\" \"key\" \"a \\\"b\\\"\\r\\n\\x01\"\r\n")),
        "{replied:?}"
    );
    let hello = "] \"HELLO\" \"3\" \"AUTH\" \"(redacted)\" \"(redacted)\"\r\n";
    assert!(replied[0].starts_with('+') && replied[1].ends_with(hello), "{replied:?}");
    assert!(replied[2].ends_with("] \"GET\" \"key\"\r\n"), "{replied:?}");
    drop(monitor);
    wait_until("the end of monitoring", || {
        client.ask(&[b"PING"]);
        !running.shared().watch.has_monitors()
    });
    running.stop();
}

#[test]
fn monitor_shows_scripts_and_waits_when_they_begin_like_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let seen = [resp_addr(&running), redis.addr].map(|addr| {
        let [mut monitor, mut client, mut other] = [(); 3].map(|()| Replies::connect(addr));
        assert_eq!(monitor.ask(&[b"MONITOR"]), b"+OK\r\n");
        let peers = [&client, &other].map(|client| client.client.stream.local_addr().unwrap().to_string());
        client.ask(&[b"EVAL", b"redis.call('set', KEYS[1], 'v') return redis.pcall('get', KEYS[1])", b"1", b"k"]);
        client.ask(&[b"EVALSHA", &[b'0'; 40], b"0"]);
        client.ask(&[b"BLPOP", b"none", b"0.01"]);
        client.ask(&[b"XREAD", b"BLOCK", b"10", b"STREAMS", b"none", b"5-5"]);
        client.ask(&[b"WAIT", b"1", b"10"]);
        client.ask(&[b"RPUSH", b"list", b"a"]);
        client.ask(&[b"BLPOP", b"list", b"0"]);
        client.client.send(&request(&[b"BLPOP", b"list", b"0"]));
        let mut lines = Vec::new();
        let mut next = |count: usize| {
            for _ in 0..count {
                let line = String::from_utf8(monitor.next()).unwrap();
                let (_, line) = line.split_once(' ').expect("a time");
                let line = line.replace(&peers[0], "client").replace(&peers[1], "other");
                // The name of a command that waits or executes a script has lost its case.
                lines.push(line.to_lowercase());
            }
        };
        // The last one has begun to wait.
        next(10);
        other.ask(&[b"RPUSH", b"list", b"b"]);
        client.next();
        other.ask(&[b"ECHO", b"end"]);
        next(2);
        lines
    });
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0][1].starts_with("[0 lua] \"set\"") && seen[0][0].starts_with("[0 client] \"eval\""), "{seen:?}");
    running.stop();
}

#[test]
fn monitor_shows_transactions_when_executed_like_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let replied = [resp_addr(&running), redis.addr].map(|addr| {
        let [mut monitor, mut client, mut other] = [(); 3].map(|()| Replies::connect(addr));
        assert_eq!(monitor.ask(&[b"MONITOR"]), b"+OK\r\n");
        for (who, line) in [
            (0, "MULTI"),
            (0, "SET k v"),
            (1, "SET other 1"),
            (0, "GET k"),
            (0, "MGET k other"),
            (0, "Exec"),
            (0, "MULTI"),
            (0, "INCR n"),
            (0, "DISCARD"),
            (0, "WATCH k"),
            (1, "SET k w"),
            (0, "MULTI"),
            (0, "GET k"),
            (0, "EXEC"),
            (1, "SELECT 3"),
            (1, "MULTI"),
            (1, "INCR k"),
            (1, "HSET k f v"),
            (1, "exec"),
            (0, "ECHO end"),
        ] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            [&mut client, &mut other][who].ask(&words);
        }
        let mut lines: Vec<String> = Vec::new();
        while !lines.last().is_some_and(|line| line.contains("\"end\"")) {
            let line = String::from_utf8(monitor.next()).unwrap();
            // Without the time and the client's port.
            let (head, words) = line.split_once("] ").expect("a client");
            let database = head.split_once('[').expect("a client").1.split(' ').next().expect("a database");
            lines.push(format!("{database} {words}"));
        }
        lines
    });
    assert_eq!(replied[0], replied[1]);
    running.stop();
}

/// Redis commands on keys, and the number of events of each. Each event is published in two channels.
const CHANGES: &[(&[&[u8]], usize)] = &[
    (&[b"SET", b"a", b"1"], 1),
    (&[b"SET", b"a", b"1", b"EX", b"100"], 2),
    (&[b"SET", b"a", b"5", b"KEEPTTL"], 1),
    (&[b"SET", b"a", b"5", b"NX"], 0),
    (&[b"SET", b"a", b"5", b"GET"], 1),
    (&[b"APPEND", b"a", b"0"], 1),
    (&[b"INCR", b"a"], 1),
    (&[b"DECRBY", b"a", b"5"], 1),
    (&[b"INCRBYFLOAT", b"a", b"0.5"], 1),
    (&[b"SETRANGE", b"a", b"2", b"xx"], 1),
    (&[b"GETEX", b"a", b"EX", b"50"], 1),
    (&[b"GETEX", b"a", b"PERSIST"], 1),
    (&[b"EXPIRE", b"a", b"100"], 1),
    (&[b"EXPIRE", b"a", b"50", b"GT"], 0),
    (&[b"PERSIST", b"a"], 1),
    (&[b"PERSIST", b"a"], 0),
    (&[b"GETDEL", b"a"], 1),
    (&[b"GETDEL", b"a"], 0),
    (&[b"MSET", b"b", b"1", b"c", b"2"], 2),
    (&[b"SETNX", b"d", b"1"], 1),
    (&[b"SETEX", b"e", b"100", b"1"], 2),
    (&[b"GETSET", b"e", b"2"], 1),
    (&[b"EXPIRE", b"e", b"-1"], 1),
    (&[b"DEL", b"b", b"nothing", b"c"], 2),
    (&[b"UNLINK", b"d"], 1),
    (&[b"GET", b"d"], 0),
    (&[b"HSET", b"h", b"a", b"1", b"b", b"2", b"c", b"x"], 1),
    (&[b"HSETNX", b"h", b"a", b"1"], 0),
    (&[b"HSETNX", b"h", b"d", b"1"], 1),
    (&[b"HINCRBY", b"h", b"a", b"5"], 1),
    (&[b"HINCRBY", b"h", b"c", b"5"], 0),
    (&[b"HINCRBYFLOAT", b"h", b"a", b"0.5"], 1),
    (&[b"HDEL", b"h", b"none"], 0),
    (&[b"HDEL", b"h", b"d", b"none"], 1),
    (&[b"EXPIRE", b"h", b"100"], 1),
    (&[b"HDEL", b"h", b"a", b"b", b"c"], 2),
    (&[b"HGET", b"h", b"a"], 0),
];

/// Returns a server that publishes all changes, and a client that is subscribed to them.
fn changing() -> (Running, Replies) {
    let events = KeyEvents::of(b"KEA").unwrap();
    let running = start(ServerConfig { key_events: events, ..two() });
    let mut subscriber = resp(&running);
    assert!(subscriber.ask(&[b"PSUBSCRIBE", b"__key*__:*"]).starts_with(b"*3"));
    (running, subscriber)
}

#[test]
fn keyspace_events_match_redis() {
    let redis = Redis::start();
    let (running, mut ours) = changing();
    let (mut our_client, mut their_client) = (resp(&running), Replies::connect(redis.addr));
    let mut theirs = Replies::connect(redis.addr);
    assert_eq!(their_client.ask(&[b"CONFIG", b"SET", b"notify-keyspace-events", b"KEA"]), b"+OK\r\n");
    assert!(theirs.ask(&[b"PSUBSCRIBE", b"__key*__:*"]).starts_with(b"*3"));
    for (words, events) in CHANGES {
        assert_eq!(our_client.ask(words), their_client.ask(words), "{words:?}");
        for event in 0..2 * events {
            let (replied, wanted) = (ours.next(), theirs.next());
            let show = |bytes: &[u8]| bytes.escape_ascii().to_string();
            assert_eq!(show(&replied), show(&wanted), "event {event} of {words:?}");
        }
    }
    // Nothing more was published.
    our_client.ask(&[b"PUBLISH", b"__key__:", b"end"]);
    assert!(ours.next().ends_with(b"$3\r\nend\r\n"));
    running.stop();
}

/// Commands on keys that exist or not, for the events about new keys and misses. `-` is a key that never exists.
const LOOKUPS: &[&str] = &[
    "GETBIT - 0",
    "BITCOUNT -",
    "BITPOS - 1",
    "BITFIELD - GET u8 0",
    "BITFIELD_RO - GET u8 0",
    "BITFIELD bf SET u8 0 1",
    "BITFIELD bf GET u8 0",
    "SETBIT sb 1 1",
    "SETBIT sb 2 1",
    "BITOP AND op - sb",
    "BITOP OR op - sb",
    "BITOP OR op sb -",
    "PFADD hll a b",
    "PFADD hll a",
    "PFADD hll2",
    "PFCOUNT -",
    "PFCOUNT - hll",
    "PFMERGE hll3 hll -",
    "PFMERGE hll3 hll",
    "GET -",
    "GETRANGE - 0 1",
    "GETRANGE - a b",
    "STRLEN -",
    "MGET - - x",
    "EXISTS - x -",
    "TOUCH - x -",
    "TTL -",
    "PTTL -",
    "EXPIRETIME -",
    "PEXPIRETIME -",
    "TYPE -",
    "OBJECT ENCODING -",
    "OBJECT IDLETIME -",
    "MEMORY USAGE -",
    "GETEX -",
    "GETEX - EX 10",
    "GETEX - EX a",
    "GETDEL -",
    "EXPIRE - 10",
    "PEXPIRE - 10",
    "PERSIST -",
    "DEL - -",
    "UNLINK -",
    "HGET - f",
    "HMGET - f g",
    "HGETALL -",
    "HKEYS -",
    "HVALS -",
    "HLEN -",
    "HEXISTS - f",
    "HSTRLEN - f",
    "HRANDFIELD -",
    "HRANDFIELD - 2",
    "HSCAN - 0",
    "HDEL - f",
    "COPY - y",
    "RENAME - y",
    "RENAMENX - y",
    "SET - v XX",
    "SET - v XX GET",
    "SETRANGE - 0 ",
    "GET - extra",
    "SCAN 0 MATCH none",
    "DBSIZE",
    "WATCH -",
    "UNWATCH",
    "SET a 1",
    "SET a 2",
    "SET b 1 EX 100",
    "SET c 1 NX",
    "SET c 1 NX",
    "SET d 1 GET",
    "SET d 2 get EX 10",
    "SET e 1 NX GET",
    "SETNX f 1",
    "SETNX f 1",
    "SETEX g 10 v",
    "PSETEX h 10000 v",
    "GETSET i 1",
    "GETSET i 2",
    "APPEND j 1",
    "APPEND j 1",
    "SETRANGE k 3 v",
    "SETRANGE k 3 v",
    "INCR l",
    "INCR l",
    "INCRBY m 2",
    "DECR n",
    "DECRBY o 2",
    "INCRBYFLOAT p 1.5",
    "INCRBYFLOAT p 1.5",
    "MSET q 1 r 2 q 3",
    "MSETNX s 1 t 2",
    "MSETNX s 1 u 2",
    "HSET ha f v",
    "HSET ha f w g v",
    "HMSET hb f v",
    "HSETNX hc f v",
    "HSETNX hc f v",
    "HINCRBY hd f 1",
    "HINCRBYFLOAT he f 1.5",
    "HGET ha none",
    "INCR ha",
    "COPY a a2",
    "COPY a b",
    "COPY a b REPLACE",
    "RENAME a2 a3",
    "RENAME a3 b",
    "RENAMENX b b2",
    "RENAMENX b2 c",
    "GET a",
    "GETEX a EX 100",
    "GETDEL a",
    "GETDEL a",
    "GETSET a 1",
    "HDEL hb f",
    "HSET hb f v",
    "EXPIRE hb -1",
    "HGETALL hb",
];

/// Returns the messages to `subscriber` up to that of an end, which `client` publishes.
fn events(subscriber: &mut Replies, client: &mut Replies) -> Vec<String> {
    client.ask(&[b"PUBLISH", b"__key__:", b"end"]);
    let mut events = Vec::new();
    loop {
        let message = subscriber.next().escape_ascii().to_string();
        if message.ends_with("$3\\r\\nend\\r\\n") {
            return events;
        }
        events.push(message);
    }
}

#[test]
fn new_keys_and_misses_are_published_as_by_redis() {
    let redis = Redis::start();
    let (running, mut ours) = changing();
    let (mut our_client, mut their_client) = (resp(&running), Replies::connect(redis.addr));
    let mut theirs = Replies::connect(redis.addr);
    assert!(theirs.ask(&[b"PSUBSCRIBE", b"__key*__:*"]).starts_with(b"*3"));
    for client in [&mut our_client, &mut their_client] {
        assert_eq!(client.ask(&[b"CONFIG", b"SET", b"notify-keyspace-events", b"KEAnm"]), b"+OK\r\n");
    }
    let mut compare =
        |lines: &[&str], our_client: &mut Replies, their_client: &mut Replies, replies: &mut (usize, Vec<String>)| {
            for line in lines {
                let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                our_client.ask(&words);
                their_client.ask(&words);
            }
            let (replied, wanted) = (events(&mut ours, our_client), events(&mut theirs, their_client));
            replies.0 += wanted.iter().filter(|event| event.contains("keymiss") || event.contains(":new")).count();
            if replied != wanted {
                replies.1.push(format!("{lines:?}\n  {replied:#?}\n  {wanted:#?}"));
            }
        };
    let mut found = (0, Vec::new());
    for line in LOOKUPS {
        compare(&[line], &mut our_client, &mut their_client, &mut found);
    }
    compare(&["FLUSHALL"], &mut our_client, &mut their_client, &mut found);
    for line in LOOKUPS.iter().filter(|line| !line.ends_with("WATCH -") && !line.ends_with("extra")) {
        compare(&["MULTI", line, "EXEC"], &mut our_client, &mut their_client, &mut found);
    }
    let long = "v".repeat(300_000);
    for command in ["SET", "GETSET", "APPEND", "SETNX", "SET", "GETSET"] {
        compare(&[&format!("{command} long:{command} {long}")], &mut our_client, &mut their_client, &mut found);
    }
    compare(&[&format!("SET long {long} GET")], &mut our_client, &mut their_client, &mut found);
    assert!(found.1.is_empty(), "{}", found.1.join("\n"));
    assert!(found.0 > 200, "{} events", found.0);
    running.stop();
}

#[test]
fn changes_by_memcached_clients_publish_keyspace_events() {
    let (running, mut ours) = changing();
    let mut memcached = crate::common::Client::connect(crate::common::tcp(&running));
    for (line, reply, events) in [
        ("set k 0 0 1\r\n1\r\n", "STORED\r\n", &["set"][..]),
        ("incr k 4\r\n", "5\r\n", &["incrby"]),
        ("append k 0 0 1\r\n0\r\n", "STORED\r\n", &["append"]),
        ("set k 0 100 1\r\n1\r\n", "STORED\r\n", &["set", "expire"]),
        ("add k 0 0 1\r\n1\r\n", "NOT_STORED\r\n", &[]),
        ("touch k 0\r\n", "TOUCHED\r\n", &["persist"]),
        ("touch none 0\r\n", "NOT_FOUND\r\n", &[]),
        ("ms k 1 T50\r\n7\r\n", "HD\r\n", &["set", "expire"]),
        ("ma k D3\r\n", "HD\r\n", &["incrby"]),
        ("mg k T90\r\n", "HD\r\n", &["expire"]),
        ("gat 10 k\r\n", "VALUE k 0 2\r\n10\r\nEND\r\n", &["expire"]),
        ("md k\r\n", "HD\r\n", &["del"]),
        ("delete k\r\n", "NOT_FOUND\r\n", &[]),
        ("set end 0 0 1\r\n1\r\n", "STORED\r\n", &["set"]),
    ] {
        memcached.ask(line.as_bytes(), reply.as_bytes());
        let key = line.split([' ', '\r']).find(|word| ["k", "none", "end"].contains(word)).unwrap();
        for event in events {
            let (by_key, by_event) = (ours.next(), ours.next());
            let ends = |replied: &[u8], name: String, text: &str| {
                let end = format!("${}\r\n{name}\r\n${}\r\n{text}\r\n", name.len(), text.len());
                assert!(replied.ends_with(end.as_bytes()), "{line:?}: {}", replied.escape_ascii());
            };
            ends(&by_key, format!("__keyspace@0__:{key}"), event);
            ends(&by_event, format!("__keyevent@0__:{event}"), key);
        }
    }
    running.stop();
}

#[test]
fn new_keys_and_misses_of_memcached_clients_are_published() {
    let running = start(ServerConfig { key_events: KeyEvents::of(b"Enm").unwrap(), ..two() });
    let (mut subscriber, mut client) = (resp(&running), resp(&running));
    assert!(subscriber.ask(&[b"PSUBSCRIBE", b"__key*__:*"]).starts_with(b"*3"));
    let mut memcached = crate::common::Client::connect(crate::common::tcp(&running));
    for (lines, reply, wanted) in [
        ("get a\r\nget a b\r\n", "END\r\nEND\r\n", &["keymiss a", "keymiss a", "keymiss b"][..]),
        ("gets a\r\nmg a v\r\ngat 10 a\r\n", "END\r\nEN\r\nEND\r\n", &["keymiss a", "keymiss a", "keymiss a"]),
        ("touch a 5\r\ndelete a\r\nincr a 1\r\n", "NOT_FOUND\r\nNOT_FOUND\r\nNOT_FOUND\r\n", &[]),
        (
            "set a 0 0 1\r\nx\r\nset a 0 0 1\r\nx\r\nget a\r\n",
            "STORED\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
            &["new a"],
        ),
        ("add b 0 0 1\r\nx\r\nadd b 0 0 1\r\nx\r\n", "STORED\r\nNOT_STORED\r\n", &["new b"]),
        ("ma c N0\r\nma c N0\r\nms d 1\r\nx\r\n", "HD\r\nHD\r\nHD\r\n", &["new c", "new d"]),
        ("mg e v N10\r\nmg e v N10\r\n", "VA 0 W\r\n\r\nVA 0 Z\r\n\r\n", &["keymiss e", "new e"]),
    ] {
        memcached.ask(lines.as_bytes(), reply.as_bytes());
        let event = |message: &String| {
            let words: Vec<&str> = message.split("\\r\\n").collect();
            format!("{} {}", words[6].rsplit(':').next().unwrap_or_default(), words[8])
        };
        let events: Vec<String> = events(&mut subscriber, &mut client).iter().map(event).collect();
        assert_eq!(events, wanted, "{lines:?}");
    }
    running.stop();
}

#[test]
fn expired_and_evicted_keys_publish_keyspace_events() {
    let running = start(ServerConfig { key_events: KeyEvents::of(b"Exe").unwrap(), memory_bytes: 16 << 20, ..two() });
    let (mut subscriber, mut client) = (resp(&running), resp(&running));
    assert!(subscriber.ask(&[b"SUBSCRIBE", b"__keyevent@0__:expired"]).starts_with(b"*3"));
    assert_eq!(client.ask(&[b"SET", b"short", b"x", b"PX", b"20"]), b"+OK\r\n");
    assert!(subscriber.next().ends_with(b"$22\r\n__keyevent@0__:expired\r\n$5\r\nshort\r\n"));
    assert!(subscriber.ask(&[b"SUBSCRIBE", b"__keyevent@0__:evicted"]).starts_with(b"*3"));
    let value = crate::common::pattern(10_000);
    let mut number = 0;
    let writer = std::thread::spawn(move || {
        // More than fits.
        while number < 6000 {
            assert_eq!(client.ask(&[b"SET", format!("key:{number}").as_bytes(), &value]), b"+OK\r\n");
            number += 1;
        }
    });
    let replied = subscriber.next();
    assert!(String::from_utf8_lossy(&replied).contains("__keyevent@0__:evicted\r\n$"), "{}", replied.escape_ascii());
    writer.join().unwrap();
    running.stop();
}
