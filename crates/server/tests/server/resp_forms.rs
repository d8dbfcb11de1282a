//! Sends every command that this server and Debian's Redis have to both, in valid, malformed and boundary forms: too
//! few and too many arguments, and in place of each argument an empty one, a text, numbers at the ends of their ranges,
//! and keys of another type. This server gets each request in two parts. The table in `docs/protocol/resp.md` has the
//! differences.

use crate::common::redis::{Redis, Replies, both, request, resp};
use crate::common::start;
use base::prng::Prng;
use command::resp::catalog::COMMANDS;
use std::collections::{BTreeMap, BTreeSet};

/// The commands that are not sent, by the reason.
const NOT_SENT: [(&str, &[&str]); 5] = [
    (
        "it changes the connection, and has its own tests",
        &[
            "auth",
            "client",
            "discard",
            "exec",
            "hello",
            "monitor",
            "multi",
            "psubscribe",
            "punsubscribe",
            "quit",
            "reset",
            "ssubscribe",
            "subscribe",
            "sunsubscribe",
            "unsubscribe",
            "unwatch",
            "watch",
        ],
    ),
    (
        "it reports on the server or its users, and has its own tests",
        &[
            "acl", "command", "config", "info", "latency", "memory", "object", "pubsub", "role", "slowlog", "time",
            "xinfo",
        ],
    ),
    (
        "its reply depends on chance or on the order of keys",
        &["hrandfield", "hscan", "keys", "randomkey", "scan", "spop", "srandmember", "sscan", "zrandmember", "zscan"],
    ),
    ("tests of Redis only", &["debug"]),
    ("hashes have another encoding; it has its own tests", &["dump", "restore"]),
];

/// The differences that remain: the command, the beginning of this server's reply, of Redis's reply, and the reason.
#[rustfmt::skip]
const DIFFERENCES: &[(&str, &str, &str, &str)] = &[
    ("hincrbyfloat", "$19\\r\\n9223372036854776000", "$19\\r\\n922337203685477", FLOAT),
    ("hincrbyfloat", "$20\\r\\n-9223372036854776000", "$20\\r\\n-922337203685477", FLOAT),
    ("incrbyfloat", "$19\\r\\n9223372036854776000", "$19\\r\\n922337203685477", FLOAT),
    ("incrbyfloat", "$20\\r\\n-9223372036854776000", "$20\\r\\n-922337203685477", FLOAT),
    ("lpos", "-ERR value is out of range, value must between", "*1", "refuses the rank, as Redis 7.2 does"),
    ("zadd", "*6", "*6", DIGITS),
    ("zincrby", "$21\\r\\n9.223372036854776e+18", "$22\\r\\n9.2233720368547758e+18", DIGITS),
    ("zincrby", "$22\\r\\n-9.223372036854776e+18", "$23\\r\\n-9.2233720368547758e+18", DIGITS),
    ("zincrby", "*6", "*6", DIGITS),
    ("zrank", "-ERR syntax error", "-ERR wrong number of arguments", "accepts `WITHSCORE`, as Redis 7.2 does"),
    ("zrevrank", "-ERR syntax error", "-ERR wrong number of arguments", "accepts `WITHSCORE`, as Redis 7.2 does"),
    ("zunion", "*6", "*6", DIGITS),
];

const DIGITS: &str = "writes a score in the fewest digits, as Redis 7.2 does";
const FLOAT: &str = "computes with 64-bit floating point instead of 80-bit";

/// Words in place of an argument.
const WORDS: [&str; 16] = [
    "",
    "abc",
    "-1",
    "0",
    "1",
    "1.5",
    "+5",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "text",
    "number",
    "hash",
    "list",
    "set",
    "none",
];

/// Returns a valid request of a command, with arguments that fit its name.
fn valid(name: &str) -> String {
    let args = match name {
        "copy" | "rename" | "renamenx" => "text other",
        "move" => "text 1",
        "decrby" | "incrby" | "incrbyfloat" => "number 3",
        "incr" | "decr" => "number",
        "expire" | "pexpire" => "text 100000",
        "expireat" => "text 4000000000",
        "pexpireat" => "text 4000000000000",
        "getrange" | "substr" => "text 0 2",
        "setrange" => "text 1 xyz",
        "lcs" => "text number",
        "setbit" => "text 5 1",
        "getbit" => "text 5",
        "bitcount" => "text 0 1",
        "bitpos" => "text 1 0 -1",
        "bitop" => "and other text number",
        "bitfield" => "text INCRBY u8 0 1 GET i4 3",
        "bitfield_ro" => "text GET u8 0",
        "pfadd" => "other a b",
        "pfdebug" => "encoding none",
        "setex" | "psetex" => "text 100000 value",
        "getex" => "text EX 100000",
        "set" => "text value EX 100000",
        "delex" => "text IFDNE 0123456789abcdef",
        "msetex" => "2 text value other value EX 100000",
        "mset" | "msetnx" => "text value other value",
        "hset" | "hmset" => "hash field value",
        "hsetnx" | "hincrby" | "hincrbyfloat" => "hash number 4",
        "hget" | "hdel" | "hexists" | "hstrlen" | "hmget" => "hash number",
        "hgetall" | "hkeys" | "hlen" | "hvals" => "hash",
        "lindex" => "list 1",
        "linsert" => "list BEFORE b x",
        "llen" => "list",
        "blmove" => "list other LEFT RIGHT 0.01",
        "blmpop" => "0.01 2 none list LEFT COUNT 2",
        "blpop" | "brpop" => "none list 0.01",
        "brpoplpush" => "list other 0.01",
        "bzmpop" => "0.01 2 none zset MIN COUNT 2",
        "bzpopmax" | "bzpopmin" => "none zset 0.01",
        "lmove" => "list other LEFT RIGHT",
        "lmpop" => "2 list other LEFT COUNT 2",
        "lpop" | "rpop" => "list 2",
        "lpos" => "list b RANK 1 COUNT 2 MAXLEN 5",
        "lpush" | "lpushx" | "rpush" | "rpushx" => "list x y",
        "lrange" | "ltrim" => "list 0 1",
        "lrem" => "list 1 b",
        "lset" => "list 1 x",
        "rpoplpush" => "list other",
        "sadd" | "srem" | "smismember" => "set a d",
        "scard" | "smembers" => "set",
        "sdiff" | "sinter" | "sunion" => "set set",
        "sdiffstore" | "sinterstore" | "sunionstore" => "other set set",
        "sintercard" => "2 set set LIMIT 1",
        "sismember" => "set a",
        "smove" => "set other a",
        "zadd" => "zset CH 5 c",
        "zincrby" => "zset 2 c",
        "zrem" | "zmscore" => "zset b x",
        "zscore" | "zrank" | "zrevrank" => "zset b",
        "zcard" => "zset",
        "zcount" | "zremrangebyscore" => "zset 1 (3",
        "zlexcount" | "zremrangebylex" => "zset [a (c",
        "zrange" => "zset 0 5 BYSCORE LIMIT 0 5 WITHSCORES",
        "zrevrange" => "zset 0 1 WITHSCORES",
        "zrangebyscore" | "zrevrangebyscore" => "zset 1 3 LIMIT 0 1",
        "zrangebylex" | "zrevrangebylex" => "zset [a [b LIMIT 0 1",
        "zremrangebyrank" => "zset 0 1",
        "zunion" | "zinter" => "2 zset none WEIGHTS 2 3 AGGREGATE MAX WITHSCORES",
        "zdiff" => "2 zset none WITHSCORES",
        "sort" => "list BY number ALPHA LIMIT 0 2 GET # DESC STORE other",
        "sort_ro" => "list ALPHA LIMIT 0 2 GET #",
        "geoadd" => "geo XX CH 15 37 b",
        "geodist" => "geo a b km",
        "geohash" | "geopos" => "geo a none b",
        "georadius" => "geo 15 37 200 km COUNT 5 ANY DESC STORE other",
        "georadius_ro" => "geo 15 37 200 km WITHDIST WITHCOORD WITHHASH ASC",
        "georadiusbymember" => "geo a 200 km ASC STOREDIST other",
        "georadiusbymember_ro" => "geo a 200 mi WITHDIST COUNT 1",
        "geosearch" => "geo FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHDIST COUNT 3",
        "geosearchstore" => "other geo FROMMEMBER a BYRADIUS 200 km STOREDIST",
        "zrangestore" => "other zset 0 5 BYSCORE LIMIT 0 5",
        "zunionstore" | "zinterstore" => "other 2 zset set WEIGHTS 2 3 AGGREGATE MAX",
        "zdiffstore" => "other 2 zset set",
        "zintercard" => "2 zset zset LIMIT 2",
        "zmpop" => "2 none zset MIN COUNT 2",
        "zpopmin" | "zpopmax" => "zset 2",
        "xadd" => "stream MAXLEN 5 7-* c 5",
        "xlen" => "stream",
        "xrange" => "stream (5 7-1 COUNT 2",
        "xrevrange" => "stream + - COUNT 1",
        "xdel" => "stream 5-1 5-2",
        "xtrim" => "stream MAXLEN = 1",
        "xsetid" => "stream 7-1 ENTRIESADDED 5 MAXDELETEDID 3-1",
        "xread" => "COUNT 1 STREAMS stream none 5 0",
        "xack" => "stream group 5-1",
        "xclaim" => "stream group other 0 5-1 JUSTID",
        "xautoclaim" => "stream group other 0 0 COUNT 5 JUSTID",
        "xpending" => "stream group",
        "xreadgroup" => "GROUP group one COUNT 1 STREAMS stream >",
        "xgroup" => "SETID stream group 5",
        "xinfo" => "HELP",
        "publish" | "spublish" => "channel message",
        "wait" => "0 100",
        "select" => "0",
        "append" | "getset" | "setnx" => "text value",
        "flushall" | "flushdb" | "dbsize" | "ping" => "",
        "echo" => "message",
        "eval" | "eval_ro" => "return{KEYS[1],ARGV[1]} 1 text a",
        _ => "text",
    };
    format!("{name} {args}").trim_end().to_owned()
}

/// Returns the requests of a command, each with its words.
fn forms(name: &str, arity: i8) -> Vec<Vec<String>> {
    let valid: Vec<String> = valid(name).split(' ').map(str::to_owned).collect();
    let mut all = vec![valid.clone()];
    for words in 1..valid.len() {
        all.push(valid[..words].to_vec());
    }
    for more in [1, 2, 7] {
        let words = valid.iter().cloned().chain((0..more).map(|n| format!("more{n}")));
        all.push(words.collect());
    }
    for place in 1..valid.len() {
        for word in WORDS {
            let mut words = valid.clone();
            word.clone_into(&mut words[place]);
            all.push(words);
        }
    }
    assert!(all.len() > usize::from(arity.unsigned_abs()));
    all
}

/// Returns true if two replies are the same, apart from the time between them.
fn same(name: &str, ours: &str, theirs: &str) -> bool {
    let number = |reply: &str| reply.strip_prefix(':').and_then(|text| text.parse::<i64>().ok());
    let lasting = ["ttl", "pttl", "expiretime", "pexpiretime"].contains(&name);
    match (number(ours), number(theirs)) {
        (Some(a), Some(b)) if lasting && a > 0 && b > 0 => a.abs_diff(b) <= 20_000,
        _ => ours == theirs,
    }
}

/// A difference: the command, and the two replies, without the words of the request.
type Difference = (String, String, String);

/// Sends every form to both servers, and returns the differences with their first requests, and the number of forms.
fn compare(ours: &mut Replies, theirs: &mut Replies) -> (BTreeMap<Difference, String>, usize) {
    let skipped: BTreeSet<&str> = NOT_SENT.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let (mut found, mut sent, mut prng) = (BTreeMap::new(), 0, Prng::new(7));
    let state: [&[&[u8]]; 14] = [
        &[b"FLUSHALL"],
        &[b"GEOADD", b"geo", b"13.361389", b"38.115556", b"a", b"15.087269", b"37.502669", b"b"],
        &[b"SET", b"text", b"some text", b"PX", b"500000"],
        &[b"SET", b"number", b"10"],
        &[b"HSET", b"hash", b"number", b"5", b"text", b"abc"],
        &[b"RPUSH", b"list", b"a", b"b", b"c"],
        &[b"SADD", b"set", b"a"],
        &[b"ZADD", b"zset", b"1", b"a", b"1", b"b", b"1", b"c"],
        &[b"XADD", b"stream", b"5-1", b"a", b"1"],
        &[b"XADD", b"stream", b"6-1", b"b", b"x"],
        &[b"XGROUP", b"CREATE", b"stream", b"group", b"0"],
        &[b"XREADGROUP", b"GROUP", b"group", b"one", b"COUNT", b"1", b"STREAMS", b"stream", b">"],
        // Delivered long ago, so that no form depends on the milliseconds since the delivery.
        &[b"XCLAIM", b"stream", b"group", b"one", b"0", b"5-1", b"IDLE", b"1000000", b"RETRYCOUNT", b"1", b"JUSTID"],
        &[b"SELECT", b"0"],
    ];
    let reads: [&[&[u8]]; 7] = [
        &[b"GET", b"text"],
        &[b"GET", b"number"],
        &[b"HLEN", b"hash"],
        &[b"LRANGE", b"list", b"0", b"-1"],
        &[b"ZRANGE", b"zset", b"0", b"-1", b"WITHSCORES"],
        &[b"XRANGE", b"stream", b"-", b"+"],
        &[b"XPENDING", b"stream", b"group"],
    ];
    let known = COMMANDS.iter().filter(|entry| !entry.since.is_empty() && entry.since < "7.2");
    for entry in known.filter(|entry| !skipped.contains(entry.name)) {
        for words in forms(entry.name, entry.arity) {
            let asked: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            let requests = state.iter().copied().chain([&asked[..]]).chain(reads);
            let bytes: Vec<u8> = requests.flat_map(request).collect();
            let (one, two) = bytes.split_at(prng.below(bytes.len() as u64) as usize);
            ours.client.send(one);
            ours.client.send(two);
            theirs.client.send(&bytes);
            let mut next = |is_asked: bool| {
                let replies = [&mut *ours, &mut *theirs].map(|client| client.next().escape_ascii().to_string());
                let [ours, theirs] = replies.map(|reply| reply.trim_end_matches("\\r\\n").to_owned());
                let name = if is_asked { entry.name } else { "get" };
                if !same(name, &ours, &theirs) {
                    found.entry((entry.name.to_owned(), ours, theirs)).or_insert_with(|| words.join(" "));
                }
            };
            state.iter().for_each(|_| next(false));
            next(true);
            reads.iter().for_each(|_| next(false));
            sent += 1;
        }
    }
    (found, sent)
}

/// Compares the differences with the list, and the list with the table of the docs page. With `GANNET_WRITE_DOCS` set,
/// rewrites the table instead.
#[test]
fn the_page_lists_every_difference_between_replies_to_forms_of_commands() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let (found, sent) = compare(&mut ours, &mut theirs);
    println!("{sent} requests, {} differences", found.len());
    let is = |(name, ours, theirs): &Difference, known: &(&str, &str, &str, &str)| {
        name == known.0 && ours.starts_with(known.1) && theirs.starts_with(known.2)
    };
    let new: Vec<_> = found.iter().filter(|(one, _)| !DIFFERENCES.iter().any(|known| is(one, known))).collect();
    assert!(new.is_empty(), "{} differences are not listed:\n{new:#?}", new.len());
    for known in DIFFERENCES {
        assert!(found.keys().any(|one| is(one, known)), "there is no difference {known:?} any more");
    }
    assert!(sent > 1500, "{sent} requests are too few");
    running.stop();
    let mut wanted =
        String::from("| command | reply of this server | reply of Redis 7.0 | reason |\n|---|---|---|---|\n");
    for (name, ours, theirs, why) in DIFFERENCES {
        wanted += &format!("| `{}` | `{ours}` | `{theirs}` | {why} |\n", name.to_ascii_uppercase());
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol/resp.md");
    let (begin, end) = ("<!-- forms -->\n", "<!-- end of forms -->");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(begin).expect("the page has a table");
    let (table, behind) = rest.split_once(end).expect("the table has an end");
    if std::env::var_os("GANNET_WRITE_DOCS").is_some() {
        std::fs::write(path, format!("{before}{begin}{wanted}{end}{behind}")).unwrap();
        return;
    }
    assert_eq!(table, wanted, "GANNET_WRITE_DOCS=1 cargo test -p gannet-server --test server the_page writes it");
}
