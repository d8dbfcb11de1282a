//! Tests of `DUMP` and `RESTORE`: values are exchanged with Debian's Redis in both directions, and errors are compared.

use crate::common::redis::{Redis, Replies, both, resp};
use crate::common::{pattern, start};
use gannet_server::start::ServerConfig;

pub(super) fn servers() -> (Redis, gannet_server::start::Running, Replies, Replies) {
    let config =
        ServerConfig { memory_bytes: 256 << 20, item_bytes_max: 16 << 20, segment_bytes: Some(1 << 20), ..both() };
    let (redis, running) = (Redis::start(), start(config));
    let (ours, theirs) = (resp(&running), Replies::connect(redis.addr));
    (redis, running, ours, theirs)
}

/// Returns the bytes of a bulk string.
pub(super) fn bulk(reply: &[u8]) -> &[u8] {
    let end = reply.iter().position(|byte| *byte == b'\n').expect("a line");
    assert!(reply[0] == b'$' && reply.len() > end + 3, "{}", reply[..reply.len().min(100)].escape_ascii());
    &reply[end + 1..reply.len() - 2]
}

/// Returns the strings of an array.
fn texts(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &reply[reply.iter().position(|byte| *byte == b'\n').expect("a line") + 1..];
    let mut texts = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let len: usize = str::from_utf8(&rest[1..end - 1]).expect("a length").parse().expect("a length");
        texts.push(rest[end + 1..end + 1 + len].to_vec());
        rest = &rest[end + 3 + len..];
    }
    texts
}

/// Returns a value: the string, or the elements; in order unless they are those of a list.
fn value(server: &mut Replies, key: &str) -> Vec<Vec<u8>> {
    let kind = server.text(&format!("TYPE {key}"));
    let (words, step): (&[&[u8]], _) = match &kind[1..] {
        "hash" => (&[b"HGETALL", key.as_bytes()], 2),
        "list" => (&[b"LRANGE", key.as_bytes(), b"0", b"-1"], 1),
        "set" => (&[b"SMEMBERS", key.as_bytes()], 1),
        "zset" => (&[b"ZRANGE", key.as_bytes(), b"0", b"-1", b"WITHSCORES"], 2),
        _ => return vec![server.ask(&[b"GET", key.as_bytes()])],
    };
    let all = server.ask(words);
    let lines = texts(&all);
    let mut elements: Vec<Vec<u8>> = lines.chunks(step).map(<[Vec<u8>]>::concat).collect();
    if kind == "+zset" {
        // Redis writes more digits of some scores.
        let score = |text: &[u8]| str::from_utf8(text).ok()?.parse::<f64>().ok();
        elements = lines.chunks(2).map(|pair| format!("{:?} {:?}", score(&pair[1]), pair[0]).into_bytes()).collect();
    }
    if kind != "+list" {
        elements.sort();
    }
    elements
}

fn fields(from: usize, count: usize, len: usize) -> Vec<Vec<u8>> {
    (from..from + count).flat_map(|n| [format!("field:{n}").into_bytes(), vec![b'a' + (n % 26) as u8; len]]).collect()
}

/// Stores values of all lengths and forms at a server. Returns their keys.
fn fill(server: &mut Replies, long: bool) -> Vec<&'static str> {
    let texts = [("int", b"-5".to_vec()), ("i32", b"-70000".to_vec()), ("text", b"hello".to_vec()), ("e", Vec::new())];
    for (key, text) in &texts {
        server.ask(&[b"SET", key.as_bytes(), text]);
    }
    server.ask(&[b"SET", b"middle", &pattern(50_000)]);
    let mut keys = vec!["int", "i32", "text", "e", "middle", "small", "many"];
    for (key, count, len) in [("small", 3, 10), ("many", 2000, 20), ("large", 30_000, 60)] {
        for from in (0..count).step_by(1000).take(if long || key != "large" { 100 } else { 0 }) {
            let fields = fields(from, 1000.min(count - from), len);
            let words: Vec<&[u8]> =
                [&b"HSET"[..], key.as_bytes()].into_iter().chain(fields.iter().map(Vec::as_slice)).collect();
            assert_eq!(server.ask(&words)[0], b':');
        }
    }
    if long {
        assert_eq!(server.ask(&[b"SET", b"long", &pattern(5 << 20)]), b"+OK\r\n");
        keys.extend(["long", "large"]);
    }
    keys
}

#[test]
fn values_are_the_same_after_they_moved_from_redis_or_to_it() {
    let (_redis, running, mut ours, mut theirs) = servers();
    for key in fill(&mut ours, true) {
        let payload = ours.ask(&[b"DUMP", key.as_bytes()]);
        let restored = theirs.ask(&[b"RESTORE", b"moved", b"0", bulk(&payload), b"REPLACE"]);
        assert_eq!(restored, b"+OK\r\n", "{key}: {}", restored.escape_ascii());
        assert!(value(&mut ours, key) == value(&mut theirs, "moved"), "{key}");
    }
    ours.text("FLUSHALL");
    for compression in ["yes", "no"] {
        theirs.text(&format!("CONFIG SET rdbcompression {compression}"));
        for key in fill(&mut theirs, false) {
            let payload = theirs.ask(&[b"DUMP", key.as_bytes()]);
            let restored = ours.ask(&[b"RESTORE", key.as_bytes(), b"0", bulk(&payload), b"REPLACE"]);
            assert_eq!(restored, b"+OK\r\n", "{key}: {}", restored.escape_ascii());
            assert!(value(&mut ours, key) == value(&mut theirs, key), "{key}");
            assert_eq!(ours.text(&format!("TTL {key}")), ":-1");
        }
    }
    running.stop();
}

/// The names of the elements of a collection.
#[derive(Clone, Copy, Debug)]
enum Names {
    Numbers,
    Short,
    Long,
}

/// Stores a list, a set and a sorted set of `count` elements. Returns their keys.
fn fill_collections(server: &mut Replies, count: usize, names: Names) -> Vec<String> {
    let name = |n: usize| match names {
        Names::Numbers => format!("{}", n * n * 31).into_bytes(),
        Names::Short => format!("member:{n}").into_bytes(),
        Names::Long => [format!("{n}:").into_bytes(), pattern(100 + n % 900)].concat(),
    };
    let step = if matches!(names, Names::Long) { 50 } else { 500 };
    for from in (0..count).step_by(step) {
        let members: Vec<Vec<u8>> = (from..count.min(from + step)).map(name).collect();
        for (verb, key) in [("RPUSH", "list"), ("SADD", "set"), ("ZADD", "zset")] {
            let mut words = vec![verb.as_bytes().to_vec(), format!("{key}:{count}").into_bytes()];
            for (at, member) in members.iter().enumerate() {
                match (verb, (from + at) % 4) {
                    ("ZADD", 0) => words.push(format!("{}", (from + at) as f64 / 8.0 - 3.0).into_bytes()),
                    ("ZADD", 1) => words.push(format!("{}e300", from + at).into_bytes()),
                    ("ZADD", 2) => words.push(b"-inf".to_vec()),
                    ("ZADD", _) => words.push(format!("{}", from + at).into_bytes()),
                    _ => {}
                }
                words.push(member.clone());
            }
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let reply = server.ask(&words);
            assert_eq!(reply[0], b':', "{}", reply.escape_ascii());
        }
    }
    ["list", "set", "zset"].map(|key| format!("{key}:{count}")).to_vec()
}

#[test]
fn collections_are_the_same_after_they_moved_from_redis_or_to_it() {
    let (_redis, running, mut ours, mut theirs) = servers();
    let mut encodings = std::collections::BTreeSet::new();
    for (count, names) in [(1, Names::Short), (100, Names::Numbers), (120, Names::Short), (3_000, Names::Numbers)]
        .into_iter()
        .chain([(400, Names::Long), (8_000, Names::Short)])
    {
        ours.text("FLUSHALL");
        for key in fill_collections(&mut ours, count, names) {
            let payload = ours.ask(&[b"DUMP", key.as_bytes()]);
            let restored = theirs.ask(&[b"RESTORE", b"moved", b"0", bulk(&payload), b"REPLACE"]);
            assert_eq!(restored, b"+OK\r\n", "{key} {names:?}: {}", restored.escape_ascii());
            assert!(value(&mut ours, &key) == value(&mut theirs, "moved"), "{key} {names:?} to Redis");
        }
        for compression in ["yes", "no"] {
            theirs.text(&format!("CONFIG SET rdbcompression {compression}"));
            theirs.text("FLUSHALL");
            for key in fill_collections(&mut theirs, count, names) {
                encodings.insert(theirs.text(&format!("OBJECT ENCODING {key}")).replace("$", ""));
                let payload = theirs.ask(&[b"DUMP", key.as_bytes()]);
                let restored = ours.ask(&[b"RESTORE", key.as_bytes(), b"0", bulk(&payload), b"REPLACE"]);
                assert_eq!(restored, b"+OK\r\n", "{key} {names:?}: {}", restored.escape_ascii());
                assert!(value(&mut ours, &key) == value(&mut theirs, &key), "{key} {names:?} from Redis");
                assert_eq!(ours.text(&format!("TYPE {key}")), theirs.text(&format!("TYPE {key}")));
                assert_eq!(ours.text(&format!("TTL {key}")), ":-1");
            }
        }
    }
    let all: Vec<&str> = encodings.iter().filter_map(|reply| reply.split(' ').next_back()).collect();
    for encoding in ["quicklist", "intset", "hashtable", "listpack", "skiplist"] {
        assert!(all.contains(&encoding), "{encoding} was not tried: {all:?}");
    }
    running.stop();
}

/// Returns a payload with a valid checksum.
pub(super) fn sealed(body: &[u8]) -> Vec<u8> {
    let body = [body, &rdb::DUMP_VERSION.to_le_bytes()].concat();
    let sum = rdb::sum_of(&body).to_le_bytes();
    [body, sum.to_vec()].concat()
}

#[test]
fn damaged_collection_leaves_the_old_value_as_it_was() {
    let (_redis, running, mut ours, mut theirs) = servers();
    let mut ends_early = vec![2, 0x42, 0x00];
    (0..511).for_each(|n| {
        ends_early.extend([4, b'm', b'0' + (n / 100) as u8, b'0' + (n / 10 % 10) as u8, b'0' + (n % 10) as u8])
    });
    let mut doubled = ends_early.clone();
    doubled.extend([4, b'm', b'0', b'0', b'0']);
    let nan = f64::NAN.to_le_bytes();
    let one = 1f64.to_le_bytes();
    for old in ["SET k old", "RPUSH k old", "SADD k old", "ZADD k 1 old"] {
        for (what, body) in [
            ("an empty list", vec![1, 0]),
            ("an empty set", vec![2, 0]),
            ("an empty sorted set", vec![5, 0]),
            ("a missing member", ends_early.clone()),
            ("a member twice", doubled.clone()),
            ("a member of a sorted set twice", [&[5, 2, 1, b'a'][..], &one, &[1, b'a'], &one].concat()),
            ("a score that is no number", [&[5, 1, 1, b'a'][..], &nan].concat()),
            ("a field twice", vec![4, 2, 1, b'a', 1, b'1', 1, b'a', 1, b'2']),
            ("an unknown node", vec![18, 1, 3, 1, b'a']),
            ("a short listpack", vec![20, 1, 0]),
            ("bytes behind the end", vec![1, 1, 1, b'a', 1]),
        ] {
            for server in [&mut ours, &mut theirs] {
                server.text("DEL k");
                server.text(old);
            }
            let words: [&[u8]; 5] = [b"RESTORE", b"k", b"0", &sealed(&body), b"REPLACE"];
            // Redis does not check what follows the value, nor the names in a small hash.
            if !what.starts_with("bytes") && !what.starts_with("a field") {
                assert_eq!(theirs.ask(&words).escape_ascii().to_string(), "-ERR Bad data format\\r\\n", "{what}");
            }
            assert_eq!(ours.ask(&words).escape_ascii().to_string(), "-ERR Bad data format\\r\\n", "{what}");
            let kept = match old {
                "SET k old" => ours.text("GET k"),
                "RPUSH k old" => ours.text("LRANGE k 0 -1"),
                "SADD k old" => ours.text("SMEMBERS k"),
                _ => ours.text("ZRANGE k 0 -1"),
            };
            assert!(kept.ends_with(" old"), "{what}: {kept}");
        }
    }
    for key in ["list", "set", "zset"] {
        theirs.text("FLUSHALL");
        fill_collections(&mut theirs, 700, Names::Short);
        let mut payload = bulk(&theirs.ask(&[b"DUMP", format!("{key}:700").as_bytes()])).to_vec();
        let middle = payload.len() / 2;
        payload[middle] ^= 4;
        let refused = ours.ask(&[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]);
        assert_eq!(refused, theirs.ask(&[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]));
        assert!(ours.text("ZRANGE k 0 -1").contains("old"), "{key}");
    }
    running.stop();
}

#[test]
fn full_store_keeps_the_old_value_of_a_restored_collection() {
    let config = ServerConfig { memory_bytes: 16 << 20, evict: false, ..both() };
    let running = start(config);
    let mut ours = resp(&running);
    fill_collections(&mut ours, 400, Names::Long);
    for (key, range) in [("list", "LLEN"), ("set", "SCARD"), ("zset", "ZCARD")] {
        let key = format!("{key}:400");
        let payload = bulk(&ours.ask(&[b"DUMP", key.as_bytes()])).to_vec();
        let mut copies = 0;
        // Segments are freed at any time, so a store that refused a value may take the next one.
        loop {
            let reply = ours.ask(&[b"RESTORE", format!("{key}:{copies}").as_bytes(), b"0", &payload]);
            if reply == b"+OK\r\n" {
                copies += 1;
                assert!(copies < 400, "the store is never full");
                continue;
            }
            assert!(reply.starts_with(b"-OOM "), "{}", reply.escape_ascii());
            assert_eq!(ours.text(&format!("EXISTS {key}:{copies}")), ":0");
            let reply = ours.ask(&[b"RESTORE", key.as_bytes(), b"0", &payload, b"REPLACE"]);
            assert_eq!(ours.text(&format!("{range} {key}")), ":400");
            if reply.starts_with(b"-OOM ") {
                break;
            }
            assert_eq!(reply.escape_ascii().to_string(), "+OK\\r\\n");
        }
        (0..copies).for_each(|copy| drop(ours.text(&format!("DEL {key}:{copy}"))));
    }
    running.stop();
}

#[test]
fn full_store_leaves_no_part_of_a_stored_result() {
    let config = ServerConfig { memory_bytes: 16 << 20, evict: false, ..both() };
    let running = start(config);
    let mut ours = resp(&running);
    fill_collections(&mut ours, 4000, Names::Long);
    for (command, count) in [("SUNIONSTORE {} set:4000", "SCARD"), ("ZUNIONSTORE {} 1 zset:4000", "ZCARD")] {
        // The copies of a round fill what earlier refusals have left.
        let (mut copies, mut refused) = (0, 0);
        while refused < 3 {
            let key = format!("{count}:{copies}");
            let reply = ours.text(&command.replace("{}", &key));
            let stored = ours.text(&format!("{count} {key}"));
            if reply == ":4000" {
                assert_eq!(stored, ":4000");
                copies += 1;
                assert!(copies < 4000, "the store is never full");
            } else {
                assert!(reply.starts_with("-OOM "), "{reply}");
                assert_eq!(stored, ":0", "{key}");
                refused += 1;
            }
        }
        (0..copies).for_each(|copy| drop(ours.text(&format!("DEL {count}:{copy}"))));
    }
    running.stop();
}

/// Returns true if a reply to `TTL` is at most `secs` seconds, and less by at most a minute.
fn is_nearly(ttl: &str, secs: u64) -> bool {
    ttl.strip_prefix(':').and_then(|ttl| ttl.parse().ok()).is_some_and(|ttl: u64| (secs - 60..=secs).contains(&ttl))
}

#[test]
fn errors_and_expiries_of_restore_are_those_of_redis() {
    let (_redis, running, mut ours, mut theirs) = servers();
    let hash = [&b"HSET"[..], b"h", b"a", b"1", b"b", b"2"];
    let mut payloads = Vec::new();
    for server in [&mut ours, &mut theirs] {
        server.text("SET s value");
        server.ask(&hash);
        payloads.push([&b"s"[..], b"h"].map(|key| bulk(&server.ask(&[b"DUMP", key])).to_vec()));
    }
    assert_eq!(payloads[0][0], payloads[1][0], "a short string has one encoding");
    let [text, fields] = &payloads[1];
    let wrong_sum: Vec<u8> = text.iter().map(|byte| byte ^ 1).collect();
    let newer = [&text[..text.len() - 10], b"\xff\x00", &text[text.len() - 8..]].concat();
    for (words, state) in [
        (&[&b"s"[..], b"0", text][..], "GET s"),
        (&[b"s", b"-1", b"bad"], "GET s"),
        (&[b"new", b"-1", text], "GET new"),
        (&[b"new", b"x", text], "GET new"),
        (&[b"new", b"0", b"bad"], "GET new"),
        (&[b"new", b"0", b""], "GET new"),
        (&[b"new", b"0", &wrong_sum], "GET new"),
        (&[b"new", b"0", &newer], "GET new"),
        (&[b"new", b"0", text, b"IDLETIME", b"-1"], "GET new"),
        (&[b"new", b"0", text, b"IDLETIME", b"x"], "GET new"),
        (&[b"new", b"0", text, b"IDLETIME"], "GET new"),
        (&[b"new", b"0", text, b"FREQ", b"256"], "GET new"),
        (&[b"new", b"0", text, b"FREQ", b"-1"], "GET new"),
        (&[b"new", b"0", text, b"FREQ", b"1", b"IDLETIME", b"1"], "GET new"),
        (&[b"new", b"0", text, b"odd"], "GET new"),
        (&[b"new", b"0", text, b"idletime", b"5"], "GET new"),
        (&[b"new", b"100000", text, b"replace", b"freq", b"5"], "STRLEN new"),
        (&[b"s", b"100000", text, b"REPLACE"], "TTL s"),
        (&[b"s", b"1", text, b"REPLACE", b"ABSTTL"], "EXISTS s"),
        (&[b"h", b"0", fields], "HLEN h"),
        (&[b"h", b"4102444800123", fields, b"REPLACE", b"ABSTTL"], "EXISTS h"),
        (&[b"h", b"0", text, b"REPLACE"], "GET h"),
        (&[b"h", b"100000", fields, b"REPLACE"], "TTL h"),
        (&[b"h", b"1", fields, b"REPLACE", b"ABSTTL"], "EXISTS h"),
        (&[b"h", b"9223372036854775807", fields, b"ABSTTL"], "HGET h b"),
    ] {
        let line: Vec<&[u8]> = [&b"RESTORE"[..]].into_iter().chain(words.iter().copied()).collect();
        let [one, other] = [&mut ours, &mut theirs].map(|server| server.ask(&line).escape_ascii().to_string());
        assert_eq!(one, other, "{}", words.concat().escape_ascii());
        let [one, other] = [&mut ours, &mut theirs].map(|server| server.text(state));
        // The time that passes between the requests is no difference.
        let is_same = one == other || state.starts_with("TTL ") && [&one, &other].iter().all(|ttl| is_nearly(ttl, 100));
        assert!(is_same, "{state}: {one}, not {other}, after {}", words.concat().escape_ascii());
        if state == "STRLEN new" {
            assert_eq!(ours.text("DEL new"), theirs.text("DEL new"));
        }
    }
    for line in ["DUMP none", "DUMP", "RESTORE a", "RESTORE a 0"] {
        assert_eq!(ours.text(line), theirs.text(line), "{line}");
    }
    running.stop();
}

#[test]
fn expiries_of_fields_and_transactions_survive_dump_and_restore() {
    let running = start(both());
    let mut redis = resp(&running);
    redis.text("HSET h a 1 b 2 c 3");
    redis.text("HPEXPIREAT h 4102444800123 FIELDS 1 a");
    redis.text("HPEXPIREAT h 4102444800000 FIELDS 1 b");
    let payload = bulk(&redis.ask(&[b"DUMP", b"h"])).to_vec();
    assert_eq!(payload[0], 24, "the format of Redis 7.4");
    for line in ["MULTI", "DUMP h"] {
        redis.text(line);
    }
    redis.ask(&[b"RESTORE", b"other", b"0", &payload]);
    let replies = redis.shown("EXEC");
    assert!(replies.contains("*2") && replies.contains("+OK"), "{replies}");
    assert_eq!(redis.text("HPEXPIRETIME other FIELDS 3 a b c"), "*3 :4102444800123 :4102444800000 :-1");
    assert_eq!(redis.text("HMGET other a b c"), redis.text("HMGET h a b c"));
    // A field that has expired is not restored.
    redis.text("HPEXPIRE h 1 FIELDS 1 c");
    redis.text("HPEXPIRE h 60 FIELDS 1 a");
    let payload = bulk(&redis.ask(&[b"DUMP", b"h"])).to_vec();
    std::thread::sleep(std::time::Duration::from_millis(80));
    assert_eq!(redis.ask(&[b"RESTORE", b"late", b"0", &payload]), b"+OK\r\n");
    assert_eq!(redis.text("HKEYS late"), "*1 $1 b");
    running.stop();
}

#[test]
fn restore_that_fails_to_store_the_first_elements_leaves_the_old_value() {
    let (redis, running) = (Redis::start(), start(ServerConfig { memory_bytes: 64 << 20, ..both() }));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    for prefix_bytes in [3000, 15_000, 30_000] {
        theirs.text("DEL z");
        for number in 0..10 {
            theirs.text(&format!("ZADD z 0 {}{number}", "p".repeat(prefix_bytes)));
        }
        let payload = bulk(&theirs.ask(&[b"DUMP", b"z"])).to_vec();
        for old in ["SET k old", "RPUSH k old", "HSET k old 1", "ZADD k 1 old"] {
            ours.text("DEL k");
            ours.text(old);
            let reply = ours.ask(&[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]);
            let is_stored = reply == b"+OK\r\n" && ours.text("ZCARD k") == ":10";
            let reply = reply.escape_ascii();
            assert!(is_stored || ours.text("EXISTS k") == ":1" && ours.text("ZCARD k") != ":10", "{old}: {reply}");
        }
    }
    running.stop();
}

#[test]
fn restore_replaces_an_old_value_of_any_type() {
    let running = start(both());
    let mut ours = resp(&running);
    let keys = fill_collections(&mut ours, 400, Names::Short);
    ours.text("HSET hash:1 f v g w");
    ours.text("XADD stream:1 1-1 f v");
    for key in keys.iter().map(String::as_str).chain(["hash:1", "stream:1"]) {
        let payload = bulk(&ours.ask(&[b"DUMP", key.as_bytes()])).to_vec();
        for old in ["SET k old", "RPUSH k old", "HSET k old 1", "ZADD k 1 old", "SADD k old", "XADD k 9-9 old v"] {
            ours.text("DEL k");
            ours.text(old);
            assert_eq!(ours.ask(&[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]), b"+OK\r\n", "{key}: {old}");
            // The order of a set depends on the order in which its elements were added.
            assert_eq!(bulk(&ours.ask(&[b"DUMP", b"k"])).len(), payload.len(), "{key}: {old}");
        }
    }
    running.stop();
}
