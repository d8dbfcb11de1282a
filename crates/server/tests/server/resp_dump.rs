//! Tests of `DUMP` and `RESTORE`: values are exchanged with Debian's Redis in both directions, and errors are compared.

use crate::common::redis::{Redis, Replies, both, resp};
use crate::common::{pattern, start};
use gannet_server::start::ServerConfig;

fn servers() -> (Redis, gannet_server::start::Running, Replies, Replies) {
    let config =
        ServerConfig { memory_bytes: 256 << 20, item_bytes_max: 16 << 20, segment_bytes: Some(1 << 20), ..both() };
    let (redis, running) = (Redis::start(), start(config));
    let (ours, theirs) = (resp(&running), Replies::connect(redis.addr));
    (redis, running, ours, theirs)
}

/// Returns the bytes of a bulk string.
fn bulk(reply: &[u8]) -> &[u8] {
    let end = reply.iter().position(|byte| *byte == b'\n').expect("a line");
    assert!(reply[0] == b'$' && reply.len() > end + 3, "{}", reply[..reply.len().min(100)].escape_ascii());
    &reply[end + 1..reply.len() - 2]
}

/// Returns a value: the string, or the fields in order.
fn value(server: &mut Replies, key: &str) -> Vec<Vec<u8>> {
    if server.text(&format!("TYPE {key}")) != "+hash" {
        return vec![server.ask(&[b"GET", key.as_bytes()])];
    }
    let all = server.ask(&[b"HGETALL", key.as_bytes()]);
    let lines: Vec<Vec<u8>> = all.split(|byte| *byte == b'\n').skip(2).step_by(2).map(<[u8]>::to_vec).collect();
    let mut pairs: Vec<Vec<u8>> = lines.chunks(2).map(<[Vec<u8>]>::concat).collect();
    pairs.sort();
    pairs
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
    theirs.text("RPUSH list a");
    ours.text("RPUSH own a");
    assert!(ours.text("DUMP own").starts_with("-ERR this server dumps and restores only strings and hashes"));
    let payload = ours.ask(&[b"DUMP", b"text"]);
    assert_eq!(ours.ask(&[b"RESTORE", b"own", b"0", bulk(&payload), b"REPLACE"]), b"+OK\r\n");
    assert_eq!(ours.text("TYPE own"), "+string");
    let payload = theirs.ask(&[b"DUMP", b"list"]);
    let refused = ours.ask(&[b"RESTORE", b"list", b"0", bulk(&payload)]);
    assert!(
        refused.starts_with(b"-ERR this server dumps and restores only strings and hashes"),
        "{}",
        refused.escape_ascii()
    );
    running.stop();
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
        (&[b"new", b"5", text, b"replace", b"freq", b"5"], "STRLEN new"),
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
        assert_eq!(ours.text(state), theirs.text(state), "{} after {}", state, words.concat().escape_ascii());
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
