//! `MOVE` and `COPY` with `DB`, beside Debian's Redis: replies, errors, events, and values of all types and sizes.

use crate::common::redis::{Redis, Replies, both, request, resp, running, words};
use crate::common::start;
use base::prng::Prng;

/// Requests that fill keys of all types, small ones and ones that are stored in pieces or parts.
fn filled() -> Vec<Vec<u8>> {
    let mut lines: Vec<String> = ["SET text v", "SET number 12", "HSET hash f v g 2", "RPUSH list a b", "SADD set a b"]
        .into_iter()
        .chain(["ZADD zset 1 a 2 b", "XADD stream 1-1 f v", "XGROUP CREATE stream g 0", "SET long v EX 100"])
        .map(str::to_owned)
        .collect();
    for first in (0..6000).step_by(100) {
        let many = |command: &str, each: &dyn Fn(usize) -> String| {
            (first..first + 100).fold(command.to_owned(), |line, n| line + " " + &each(n))
        };
        lines.push(many("HSET big-hash", &|n| format!("field:{n} value:{n}")));
        lines.push(many("RPUSH big-list", &|n| format!("element:{n}")));
        lines.push(many("SADD big-set", &|n| format!("element:{n}")));
        lines.push(many("ZADD big-zset", &|n| format!("{n} element:{n}")));
        lines.push(format!("XADD big-stream {}-1 field {}", first + 1, "v".repeat(300)));
    }
    let mut requests: Vec<_> = lines.iter().map(|line| request(&words(line))).collect();
    requests.push(request(&[b"SET", b"big-text", &vec![b'x'; 700_000]]));
    requests
}

/// The keys of [`filled`], and one that does not exist.
const KEYS: &str =
    "text number hash list set zset stream long big-hash big-list big-set big-zset big-stream big-text none";

/// Returns a request that reads all of a key's value, whatever its type; others reply with an error.
fn reads(key: &str) -> Vec<String> {
    ["TYPE {}", "GET {}", "HGETALL {}", "LRANGE {} 0 -1", "SMEMBERS {}", "ZRANGE {} 0 -1 WITHSCORES", "XRANGE {} - +"]
        .iter()
        .map(|line| line.replace("{}", key))
        .collect()
}

/// Sends a request to both servers, and compares the replies, in any order of their lines if `is_unordered`.
fn compare(both: &mut [Replies; 2], line: &str, is_unordered: bool) {
    let replies = both.each_mut().map(|replies| {
        let reply = replies.ask(&words(line)).escape_ascii().to_string();
        let mut lines: Vec<_> = reply.split("\\r\\n").map(str::to_owned).collect();
        if is_unordered {
            lines.sort();
        }
        lines
    });
    assert!(replies[0] == replies[1], "{line}: {:.300} / {:.300}", replies[0].join(" "), replies[1].join(" "));
}

fn line(prng: &mut Prng) -> String {
    let keys: Vec<&str> = KEYS.split(' ').collect();
    let key = |prng: &mut Prng| keys[prng.below(keys.len() as u64) as usize];
    let number =
        |prng: &mut Prng| ["0", "1", "1", "2", "2", "7", "16", "-1", "x", "99999999999"][prng.below(10) as usize];
    match prng.below(20) {
        0..6 => format!("MOVE {} {}", key(prng), number(prng)),
        6..12 => {
            let options = ["", " REPLACE", " DB 1", " db 2 replace", " REPLACE DB 0", " DB 16", " DB x", " DB", " x"];
            format!("COPY {} {}{}", key(prng), key(prng), options[prng.below(9) as usize])
        }
        12..15 => format!("SELECT {}", number(prng)),
        15 => format!("PEXPIRE {} 10000000", key(prng)),
        16 => format!("DEL {}", key(prng)),
        17 => ["MULTI", "EXEC", "DISCARD"][prng.below(3) as usize].to_owned(),
        _ => format!("PERSIST {}", key(prng)),
    }
}

#[test]
fn values_of_all_types_reach_another_database_whole_as_in_redis() {
    let (theirs, ours) = (Redis::start(), running());
    let mut both = [Replies::connect(theirs.addr), resp(&ours)];
    let mut subscribers = [Replies::connect(theirs.addr), resp(&ours)];
    for subscriber in &mut subscribers {
        subscriber.text("PSUBSCRIBE __key*__:*");
    }
    for seed in 0..4 {
        println!("seed {seed}");
        for replies in &mut both {
            replies.text("DISCARD");
            replies.ask(&[b"CONFIG", b"SET", b"notify-keyspace-events", b""]);
            assert_eq!(replies.text("FLUSHALL") + &replies.text("SELECT 0"), "+OK+OK");
            for request in filled() {
                replies.client.send(&request);
                replies.next();
            }
            replies.text("CONFIG SET notify-keyspace-events AKEn");
        }
        let mut prng = Prng::new(seed);
        for _ in 0..300 {
            compare(&mut both, &line(&mut prng), false);
        }
        for replies in &mut both {
            replies.text("DISCARD");
        }
        for database in 0..3 {
            compare(&mut both, &format!("SELECT {database}"), false);
            compare(&mut both, "DBSIZE", false);
            for key in KEYS.split(' ') {
                reads(key).iter().for_each(|line| compare(&mut both, line, true));
                let ttl = both.each_mut().map(|replies| replies.text(&format!("TTL {key}")) == ":-1");
                assert_eq!(ttl[0], ttl[1], "{key}");
            }
        }
    }
    for replies in &mut both {
        replies.ask(&[b"PUBLISH", b"__key__:", b"end"]);
    }
    let mut seen = std::collections::HashSet::new();
    loop {
        let event = subscribers.each_mut().map(|subscriber| subscriber.next().escape_ascii().to_string());
        assert_eq!(event[0], event[1]);
        seen.extend(["move_from", "move_to", "copy_to"].into_iter().filter(|name| event[0].contains(name)));
        if event[0].ends_with("$3\\r\\nend\\r\\n") {
            break;
        }
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
    ours.stop();
}

/// A script that returns `10` if the key is in database 0 only, and `01` if it is in database 3 only.
const SEEN_IN: &str = "local seen = '' \
    for _, database in ipairs({0, 3}) do \
        redis.call('select', database) seen = seen .. redis.call('exists', 'big-hash') end \
    return seen";

#[test]
fn a_moved_key_is_seen_in_one_database_only_and_by_watch() {
    let running = start(gannet_server::start::ServerConfig { workers: 2, ..both() });
    let (mut here, mut there) = (resp(&running), resp(&running));
    there.text("SELECT 3");
    for request in filled() {
        here.client.send(&request);
        here.next();
    }
    assert_eq!(there.text("WATCH big-hash"), "+OK");
    // The other client sees the key in exactly one of the two databases.
    here.client.send(&request(&words("MOVE big-hash 3")));
    loop {
        let seen = there.ask(&[b"EVAL", SEEN_IN.as_bytes(), b"0"]);
        let seen = seen.escape_ascii().to_string().replace("\\r\\n", " ").trim_end().to_owned();
        assert!(seen == "$2 10" || seen == "$2 01", "{seen}");
        if seen == "$2 01" {
            break;
        }
    }
    assert_eq!(here.next(), b":1\r\n");
    assert_eq!([there.text("MULTI"), there.text("PING"), there.text("EXEC")].join(" "), "+OK +QUEUED *-1");
    // A script locks the key in both databases, and a script's move is undone by none.
    assert_eq!(there.text("EVAL return(redis.call('move',KEYS[1],0)) 1 big-hash"), ":1");
    assert_eq!([here.text("HLEN big-hash"), there.text("EXISTS big-hash")], [":6000", ":0"]);
    // A record of a set stays, and a user needs both namespaces.
    assert_eq!(here.text("REC.PUT r IN people BINS a INT 1"), ":1");
    let error = "-ERR cannot copy or move a record of a set to another database";
    assert_eq!([here.text("MOVE r 3"), here.text("COPY r s DB 3")], [error, error]);
    here.text("ACL SETUSER ann on nopass ~* +@all ns=0");
    let mut ann = resp(&running);
    assert_eq!(ann.text("AUTH ann x"), "+OK");
    for line in ["MOVE text 3", "COPY text a DB 3"] {
        assert!(ann.text(line).starts_with("-NOPERM"), "{line}");
    }
    assert_eq!(ann.text("COPY text a"), ":1");
    running.stop();
}
