//! Elements that are longer than an eighth of a segment, and requests that are longer than the receive buffer, compared
//! with Debian's Redis.

use crate::common::redis::{Redis, Replies, both, request, resp};
use crate::common::start;
use base::prng::Prng;
use gannet_server::start::ServerConfig;

/// The configuration of a server with an item limit of 1 MiB. Its segments have 64 KiB, so that an item holds 8 KiB.
fn config() -> ServerConfig {
    ServerConfig { memory_bytes: 64 << 20, item_bytes_max: 1 << 20, ..both() }
}

fn element(bytes: usize, number: usize) -> Vec<u8> {
    let mut element = format!("{number:06}").into_bytes();
    element.resize(bytes, b'a' + (number % 26) as u8);
    element
}

/// Sends a request to both servers, and compares the replies. `in_order` is false if the order of the elements of the
/// reply means nothing.
fn compare((ours, theirs): (&mut Replies, &mut Replies), words: &[&[u8]], in_order: bool) -> Vec<u8> {
    let (our, mut their) = (ours.ask(words), theirs.ask(words));
    let mut sorted = our.clone();
    if !in_order {
        [&mut sorted, &mut their].into_iter().for_each(|reply| {
            let mut lines: Vec<Vec<u8>> = reply.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            lines.sort();
            *reply = lines.concat();
        });
    }
    let shown = |reply: &[u8]| format!("{} ({} bytes)", reply[..reply.len().min(60)].escape_ascii(), reply.len());
    let names: Vec<_> = words.iter().map(|word| shown(word)).collect();
    assert!(sorted == their, "{names:?}: {} but {}", shown(&our), shown(&their));
    our
}

#[test]
fn long_elements_of_every_type_are_those_of_redis() {
    let (redis, server) = (Redis::start(), start(config()));
    let (mut ours, mut theirs) = (resp(&server), Replies::connect(redis.addr));
    let mut both = |words: &[&[u8]], in_order: bool| compare((&mut ours, &mut theirs), words, in_order);
    // Around one and two full fragments, beyond the receive buffer, and near the limit.
    for bytes in [8131, 8132, 8133, 16_264, 100_000, 300_000, 1_000_000] {
        let all: Vec<Vec<u8>> = (0..6).map(|number| element(bytes, number)).collect();
        for (number, element) in all.iter().enumerate() {
            let (score, id) = (format!("{}", number % 3).into_bytes(), format!("1-{}", number + 1).into_bytes());
            let field = format!("field-{number}").into_bytes();
            both(&[b"RPUSH", b"list", element], true);
            both(&[if number < 4 { b"SADD" } else { b"SREM" }, b"set", element], true);
            both(&[b"SADD", b"other", element], true);
            both(&[b"ZADD", b"zset", &score, element], true);
            both(&[b"HSET", b"hash", &field, element], true);
            both(&[b"XADD", b"stream", &id, b"field", element], true);
        }
        for words in [
            &[&b"LRANGE"[..], b"list", b"0", b"-1"][..],
            &[b"LINDEX", b"list", b"-2"],
            &[b"LSET", b"list", b"1", &all[0]],
            &[b"LINSERT", b"list", b"BEFORE", &all[3], b"short"],
            &[b"LREM", b"list", b"1", &all[0]],
            &[b"LPOS", b"list", &all[4]],
            &[b"LMOVE", b"list", b"moved", b"RIGHT", b"LEFT"],
            &[b"LPOP", b"list"],
            &[b"LRANGE", b"list", b"0", b"-1"],
            &[b"SISMEMBER", b"set", &all[2]],
            &[b"SISMEMBER", b"set", &all[5]],
            &[b"SINTERCARD", b"2", b"set", b"other"],
            &[b"SMOVE", b"set", b"moved-set", &all[1]],
            &[b"ZSCORE", b"zset", &all[4]],
            &[b"ZRANK", b"zset", &all[4]],
            &[b"ZINCRBY", b"zset", b"10", &all[4]],
            &[b"ZRANGE", b"zset", b"0", b"-1", b"WITHSCORES"],
            &[b"ZPOPMIN", b"zset"],
            &[b"HGET", b"hash", b"field-3"],
            &[b"HSTRLEN", b"hash", b"field-3"],
            &[b"HDEL", b"hash", b"field-1"],
            &[b"XDEL", b"stream", b"1-1"],
            &[b"XRANGE", b"stream", b"-", b"+"],
            &[b"XREVRANGE", b"stream", b"+", b"-", b"COUNT", b"2"],
            &[b"COPY", b"list", b"copy"],
            &[b"RENAME", b"copy", b"renamed"],
            &[b"LRANGE", b"renamed", b"0", b"-1"],
            &[b"SORT", b"list", b"ALPHA"],
            &[b"EVAL", b"return redis.call('LINDEX', KEYS[1], 0) .. ARGV[1]", b"1", b"list", &all[2]],
            &[b"MULTI"],
            &[b"RPUSH", b"list", &all[5]],
            &[b"LINDEX", b"list", b"-1"],
            &[b"EXEC"],
        ] {
            both(words, true);
        }
        both(&[b"SMEMBERS", b"set"], false);
        both(&[b"SDIFF", b"other", b"set"], false);
        both(&[b"HGETALL", b"hash"], false);
        for key in ["list", "set", "zset", "hash", "stream"].map(str::as_bytes) {
            both(&[b"TYPE", key], true);
        }
        let keys =
            &[&b"DEL"[..], b"list", b"moved", b"renamed", b"set", b"moved-set", b"other", b"zset", b"hash", b"stream"];
        both(keys, true);
    }
    crate::common::wait_until("all parts are removed", || server.shared().store_stats().items == 0);
    server.stop();
}

#[test]
fn payloads_with_long_elements_are_restored_in_both_directions() {
    let (redis, server) = (Redis::start(), start(config()));
    let (mut ours, mut theirs) = (resp(&server), Replies::connect(redis.addr));
    let bulk = |reply: Vec<u8>| {
        let start = reply.iter().position(|byte| *byte == b'\n').expect("a bulk string") + 1;
        reply[start..reply.len() - 2].to_vec()
    };
    for bytes in [9000, 700_000] {
        for number in 0..3 {
            let element = element(bytes, number);
            let score = number.to_string();
            for words in [
                &[&b"RPUSH"[..], b"l", &element][..],
                &[b"SADD", b"s", &element],
                &[b"ZADD", b"z", score.as_bytes(), &element],
                &[b"HSET", b"h", score.as_bytes(), &element],
            ] {
                assert_eq!(ours.ask(words), theirs.ask(words));
            }
        }
        for (key, read) in
            [("l", "LRANGE l 0 -1"), ("s", "SORT s ALPHA"), ("z", "ZRANGE z 0 -1 WITHSCORES"), ("h", "SORT h2")]
        {
            let (our, their) =
                (bulk(ours.ask(&[b"DUMP", key.as_bytes()])), bulk(theirs.ask(&[b"DUMP", key.as_bytes()])));
            for (payload, name) in [(&our, "ours"), (&their, "theirs")] {
                let restore = &[&b"RESTORE"[..], key.as_bytes(), b"0", payload, b"REPLACE"];
                assert_eq!(ours.ask(restore), b"+OK\r\n", "{key}, {bytes} bytes, {name}");
                assert_eq!(theirs.ask(restore), b"+OK\r\n", "{key}, {bytes} bytes, {name}");
            }
            let read: Vec<&[u8]> = read.split(' ').map(str::as_bytes).collect();
            assert!(ours.ask(&read) == theirs.ask(&read), "{key}, {bytes} bytes");
        }
        assert_eq!(ours.ask(&[b"HSTRLEN", b"h", b"2"]), format!(":{bytes}\r\n").into_bytes());
        assert_eq!(ours.ask(&[b"FLUSHALL"]), theirs.ask(&[b"FLUSHALL"]));
    }
    server.stop();
}

#[test]
fn requests_beyond_the_receive_buffer_are_executed_whole() {
    let (redis, server) = (Redis::start(), start(config()));
    let (mut ours, mut theirs) = (resp(&server), Replies::connect(redis.addr));
    let elements: Vec<Vec<u8>> = (0..30_000).map(|number| format!("{number:07}-element").into_bytes()).collect();
    let plain: Vec<&[u8]> = elements.iter().map(Vec::as_slice).collect();
    let pairs: Vec<&[u8]> = elements.iter().flat_map(|element| [&element[..7], &element[..]]).collect();
    let requests: [[&[&[u8]]; 2]; 9] = [
        [&[&b"RPUSH"[..], b"list"], &plain],
        [&[&b"SADD"[..], b"set"], &plain],
        [&[&b"SREM"[..], b"set"], &plain[10_000..]],
        [&[&b"ZADD"[..], b"zset"], &pairs],
        [&[&b"HSET"[..], b"hash"], &pairs],
        [&[&b"HMGET"[..], b"hash"], &plain],
        [&[&b"PFADD"[..], b"estimate"], &plain],
        [&[&b"EVAL"[..], b"return {#KEYS, #ARGV, ARGV[5000]}", b"0"], &plain[..7000]],
        [&[&b"XADD"[..], b"stream", b"1-1"], &pairs[..20_000]],
    ];
    let mut prng = Prng::new(3);
    for [head, words] in requests {
        let whole: Vec<&[u8]> = [head, words].concat();
        let bytes = request(&whole);
        // The request arrives in parts, and others follow it at once.
        let (cut, other) = (prng.below(bytes.len() as u64) as usize, prng.below(bytes.len() as u64) as usize);
        let (first, second) = (cut.min(other), cut.max(other));
        for part in [&bytes[..first], &bytes[first..second], &[&bytes[second..], b"*1\r\n$4\r\nPING\r\n"].concat()] {
            ours.client.send(part);
        }
        let reply = ours.next();
        assert_eq!(ours.next(), b"+PONG\r\n");
        let their = theirs.ask(&whole);
        assert!(reply == their, "{}: {}", head[0].escape_ascii(), reply[..reply.len().min(80)].escape_ascii());
        // In a transaction, with a wrong number of words, and without the right to execute it.
        for replies in [&mut ours, &mut theirs] {
            assert_eq!(replies.ask(&[b"MULTI"]), b"+OK\r\n");
            assert_eq!(replies.ask(&whole), b"+QUEUED\r\n", "{}", head[0].escape_ascii());
        }
        assert!(ours.ask(&[b"EXEC"]) == theirs.ask(&[b"EXEC"]), "{}", head[0].escape_ascii());
    }
    for query in ["LLEN list", "SCARD set", "ZCARD zset", "HLEN hash", "XLEN stream", "PFCOUNT estimate"] {
        assert_eq!(ours.text(query), theirs.text(query), "{query}");
    }
    let odd: Vec<&[u8]> = [&[&b"HSET"[..], b"hash"][..], &pairs[..29_999]].concat();
    assert_eq!(ours.ask(&odd), theirs.ask(&odd));
    server.stop();
}

#[test]
fn a_long_request_without_client_memory_or_rights_is_refused_and_skipped() {
    let config = ServerConfig { client_memory_bytes: Some(4 << 20), ..config() };
    let server = start(config);
    let mut client = resp(&server);
    let words = vec![b'x'; 900_000];
    let many: Vec<&[u8]> = [&[&b"SADD"[..], b"set"][..], &[&words[..]; 12]].concat();
    let refused = client.ask(&many);
    assert!(refused.starts_with(b"-OOM client memory is used up"), "{}", refused.escape_ascii());
    assert_eq!(client.ask(&[b"EXISTS", b"set"]), b":0\r\n");
    // A transaction with such a request is not executed.
    assert_eq!(client.ask(&[b"MULTI"]), b"+OK\r\n");
    assert!(client.ask(&many).starts_with(b"-OOM client memory is used up"));
    assert!(client.ask(&[b"EXEC"]).starts_with(b"-EXECABORT"));
    // An element above the limit of an item.
    let long = vec![b'x'; (1 << 20) + 100_000];
    let refused = client.ask(&[b"RPUSH", b"list", b"short", &long]);
    assert!(refused.starts_with(b"-ERR an element would be longer than an item may be"), "{}", refused.escape_ascii());
    let refused = client.ask(&[b"HSET", b"hash", b"field", &long]);
    assert!(refused.starts_with(b"-ERR a field with its value would be longer"), "{}", refused.escape_ascii());
    assert_eq!(client.ask(&[b"EXISTS", b"list", b"hash"]), b":0\r\n");
    // A user without the right to change keys sends such a request.
    assert_eq!(client.text("ACL SETUSER reader on >pw ~* +@read"), "+OK");
    let mut reader = resp(&server);
    assert_eq!(reader.text("AUTH reader pw"), "+OK");
    let refused = reader.ask(&many);
    assert!(refused.starts_with(b"-NOPERM"), "{}", refused.escape_ascii());
    assert_eq!(reader.ask(&[b"EXISTS", b"set"]), b":0\r\n");
    // A user of some keys may send a long request on one of them, and on no other.
    assert_eq!(client.text("ACL SETUSER some on >pw ~mine* +@all"), "+OK");
    let mut some = resp(&server);
    assert_eq!(some.text("AUTH some pw"), "+OK");
    assert_eq!(some.ask(&[b"RPUSH", b"mine", &words, b"x"]), b":2\r\n");
    let refused = some.ask(&[b"RPUSH", b"other", &words, b"x"]);
    assert!(refused.starts_with(b"-NOPERM"), "{}", refused.escape_ascii());
    // A client that goes in the midst of such a request returns the memory.
    let mut gone = resp(&server);
    gone.client.send(&request(&many)[..2_000_000]);
    drop(gone);
    crate::common::wait_until("the memory is returned", || {
        client.ask(&[&[&b"RPUSH"[..], b"list"][..], &[&words[..]; 2]].concat()).starts_with(b":")
    });
    server.stop();
}

#[test]
fn a_full_store_refuses_a_long_element_and_keeps_the_value() {
    let config = ServerConfig { memory_bytes: 16 << 20, evict: false, ..config() };
    let server = start(config);
    let mut client = resp(&server);
    let mut pushed = 0;
    let reply = loop {
        let reply = client.ask(&[b"RPUSH", b"list", &element(200_000, pushed)]);
        if reply.starts_with(b"-") {
            break reply;
        }
        pushed += 1;
        assert!(pushed < 200, "the store never is full");
    };
    assert!(reply.starts_with(b"-OOM"), "{}", reply.escape_ascii());
    assert_eq!(client.ask(&[b"LLEN", b"list"]), format!(":{pushed}\r\n").into_bytes());
    for number in 0..pushed {
        let read = client.ask(&[b"LINDEX", b"list", number.to_string().as_bytes()]);
        assert!(read.len() > 200_000 && read[9..].starts_with(&element(200_000, number)), "{number}");
    }
    assert_eq!(client.ask(&[b"LTRIM", b"list", b"5", b"-1"]), b"+OK\r\n");
    crate::common::wait_until("there is room again", || {
        client.ask(&[b"RPUSH", b"list", &element(200_000, pushed)]).starts_with(b":")
    });
    server.stop();
}

#[test]
fn long_elements_survive_a_restart() {
    let path = std::env::temp_dir().join(format!("gannet-elements-{}", std::process::id()));
    let config = || ServerConfig { file: Some(path.clone()), ..config() };
    let server = start(config());
    let mut client = resp(&server);
    for number in 0..5 {
        client.ask(&[b"RPUSH", b"list", &element(100_000 * (number + 1), number)]);
        client.ask(&[b"HSET", b"hash", number.to_string().as_bytes(), &element(50_000, number)]);
    }
    let read = |client: &mut Replies| [client.text("LRANGE list 0 -1"), client.text("HMGET hash 0 1 2 3 4")];
    let before = read(&mut client);
    let items = server.shared().store_stats().items;
    server.stop();
    let server = start(config());
    let mut client = resp(&server);
    assert!(read(&mut client) == before && before[0].len() > 1_500_000);
    assert_eq!(server.shared().store_stats().items, items);
    assert_eq!(client.ask(&[b"DEL", b"list", b"hash"]), b":2\r\n");
    crate::common::wait_until("all parts are removed", || server.shared().store_stats().items == 0);
    server.stop();
    let _ = std::fs::remove_file(&path);
}
