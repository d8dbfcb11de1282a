//! Sends every command that this server and Debian's Redis have to both, in valid, malformed and boundary forms: too
//! few and too many arguments, and in place of each argument an empty one, a text, numbers at the ends of their ranges,
//! and keys of another type. This server gets each request in two parts. The table in `docs/protocol/resp.md` has the
//! differences.

use crate::common::redis::{Redis, Replies, both, request, resp};
use crate::common::start;
use base::prng::Prng;
use command::resp::catalog::{COMMANDS, Flag};
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
            "acl",
            "command",
            "config",
            "info",
            "latency",
            "memory",
            "object",
            "pubsub",
            "replicaof",
            "role",
            "slaveof",
            "slowlog",
            "time",
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
    ("bitcount", ":", "-ERR syntax error", "accepts a start alone, as Valkey 8.1 does"),
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

/// More differences, which only random requests have.
#[rustfmt::skip]
const RANDOM_DIFFERENCES: &[(&str, &str, &str, &str)] = &[
    ("acl", "-ERR Error in ACL SETUSER modifier \\'()\\': Syntax error", "+OK", "there are no selectors"),
    ("bitcount", "-ERR value is not an integer", "-ERR syntax error", "accepts a start alone, as Valkey 8.1 does"),
    ("lpos", "-ERR value is out of range, value must between", "-ERR", "refuses the rank, as Redis 7.2 does"),
    ("zincrby", "-ERR value is not a valid float", "-ERR syntax error", "has no options of `ZADD`"),
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

/// The requests that create the state for each request.
const STATE: [&[&[u8]]; 14] = [
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
/// The requests after it that read the state.
const READS: [&[&[u8]]; 7] = [
    &[b"GET", b"text"],
    &[b"GET", b"number"],
    &[b"HLEN", b"hash"],
    &[b"LRANGE", b"list", b"0", b"-1"],
    &[b"ZRANGE", b"zset", b"0", b"-1", b"WITHSCORES"],
    &[b"XRANGE", b"stream", b"-", b"+"],
    &[b"XPENDING", b"stream", b"group"],
];

/// Sends every form to both servers, and returns the differences with their first requests, and the number of forms.
fn compare(ours: &mut Replies, theirs: &mut Replies) -> (BTreeMap<Difference, String>, usize) {
    let skipped: BTreeSet<&str> = NOT_SENT.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let (mut found, mut sent, mut prng) = (BTreeMap::new(), 0, Prng::new(7));
    let known = COMMANDS.iter().filter(|entry| !entry.since.is_empty() && entry.since < "7.2");
    for entry in known.filter(|entry| !skipped.contains(entry.name)) {
        for words in forms(entry.name, entry.arity) {
            let asked: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            let requests = STATE.into_iter().chain([&asked[..]]).chain(READS);
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
            STATE.iter().for_each(|_| next(false));
            next(true);
            READS.iter().for_each(|_| next(false));
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

/// Templates of requests of commands whose valid replies cannot be compared: they report on the server or its clients,
/// or depend on chance. Their errors are compared, and of other replies the type. `@k` is a key, `@n` a number, `@w`
/// any word, and `@r` a rule of `ACL SETUSER`. No template pauses, kills or silences a client.
#[rustfmt::skip]
const REPORTS: &[(&str, &[&str])] = &[
    ("acl", &["", "@w", "setuser", "setuser u1 @r @r", "setuser u1 @r", "getuser u1", "getuser", "getuser @w",
        "deluser", "deluser u1 @w", "whoami @w", "cat @w", "cat read @w", "genpass @n", "genpass @n @n", "log @n",
        "log @w @w", "dryrun", "dryrun u1 get k", "dryrun @w get k", "dryrun default @w", "dryrun default get",
        "list @w", "users @w", "save @w", "load @w"]),
    ("auth", &["", "@w", "@w @w", "default @w", "a b c"]),
    ("client", &["", "@w", "getname @w", "setname @w", "setname", "id @w", "info @w", "list @w", "list type @w",
        "list type", "list id @w", "list id", "kill", "kill a", "kill a b", "kill type @w", "kill user @w",
        "kill skipme a", "kill id a", "kill id -1", "kill addr", "pause", "pause a", "pause -1", "pause 1 a",
        "unpause @w", "reply", "reply a", "no-evict @w", "no-evict", "unblock", "unblock a", "unblock 0 @w",
        "getredir @w", "caching @w", "caching", "tracking", "tracking @w", "tracking on @w", "tracking off @w",
        "trackinginfo @w", "help @w"]),
    ("command", &["@w", "count @w", "getkeys", "getkeys @w", "getkeys get", "getkeys set @k v", "getkeys mset @k",
        "getkeysandflags @w", "getkeysandflags set @k v", "list @w", "list filterby @w", "list filterby @w @w",
        "list filterby pattern", "docs", "info"]),
    ("config", &["", "@w", "get", "get @w", "set", "set @w", "set a @w", "set timeout a", "set timeout -1",
        "set maxmemory a", "set a b c", "set timeout a timeout b", "resetstat @w", "rewrite @w", "help @w"]),
    ("discard", &["", "@w"]),
    ("dump", &["", "@k", "@k @w"]),
    ("eval", &["", "@w", "return(1) @w", "return(1) @n", "return(1) 1", "return(1) 1 @k @w", "return(1) 2 @k"]),
    ("evalsha", &["@w", "@w @n", "@w 0", "@w 1 @k"]),
    ("exec", &["", "@w"]),
    ("fcall", &["@w", "@w @n", "@w 1 @k", "@w @w @w"]),
    ("function", &["", "@w", "load", "load @w", "load replace @w", "load @w @w", "delete", "delete @w", "flush @w",
        "flush @w @w", "kill @w", "list @w", "list libraryname", "list libraryname @w @w", "stats @w", "restore @w",
        "restore @w @w", "restore @w replace @w", "dump @w"]),
    ("hello", &["", "@n", "@w", "2 @w", "3 @w", "3 auth", "3 auth @w", "3 auth @w @w", "2 setname", "2 setname @w",
        "3 setname @w auth default", "4", "1"]),
    ("hrandfield", &["", "@k", "@k @n", "@k @n @w", "@k @n withvalues @w"]),
    ("hscan", &["@k", "@k @n", "@k @n @w", "@k 0 match", "@k 0 count @n", "@k 0 count @n match @w", "@k 0 @w @w"]),
    ("info", &["@w", "@w @w"]),
    ("keys", &["", "@w", "@w @w"]),
    ("latency", &["", "@w", "reset @w", "history", "history @w", "history @w @w", "graph", "latest @w", "doctor @w",
        "help @w"]),
    ("memory", &["", "@w", "usage", "usage @k", "usage @k @w", "usage @k samples", "usage @k samples @n",
        "usage @k samples 1 @w", "doctor @w", "purge @w", "stats @w"]),
    ("module", &["", "list", "list @w", "help @w"]),
    ("monitor", &["@w"]),
    ("multi", &["@w"]),
    ("object", &["", "@w", "encoding", "encoding @k", "encoding @k @w", "encoding @w", "refcount @k", "refcount",
        "freq @k", "idletime @w", "help @w"]),
    ("psubscribe", &[""]),
    ("pubsub", &["", "@w", "channels @w @w", "channels @w", "numpat @w", "numsub @w", "shardchannels @w @w"]),
    ("randomkey", &["@w"]),
    ("restore", &["@k", "@k @n", "@k @n @w", "new @n @w", "new @n @w @w", "new 0 @w freq", "new 0 @w freq @n",
        "new 0 @w idletime @n", "new 0 @w idletime 1 freq 1", "new @n @w absttl replace", "@k @n @w replace"]),
    ("replicaof", &["no one", "NO oNe", "no", "no one @w"]),
    ("role", &["", "@w"]),
    ("scan", &["", "@n", "@w", "0 @w", "0 @w @w", "0 match", "0 match @w", "0 count @n", "0 type @w", "0 count @n @w"]),
    ("script", &["", "@w", "exists", "exists @w", "flush @w", "flush @w @w", "kill @w", "load", "load @w @w"]),
    ("select", &["", "@w", "1 @w"]),
    ("slaveof", &["no one", "no one @w"]),
    ("slowlog", &["", "@w", "get @n", "get @w @w", "len @w", "reset @w", "help @w"]),
    ("spop", &["", "@k", "@k @n", "@k @n @w"]),
    ("srandmember", &["", "@k", "@k @n", "@k @n @w"]),
    ("sscan", &["@k", "@k @n", "@k @n @w", "@k 0 match", "@k 0 count @n", "@k 0 @w @w"]),
    ("subscribe", &[""]),
    ("swapdb", &["", "@w", "@w @w", "0 @w", "0 1 @w"]),
    ("time", &["", "@w"]),
    ("unwatch", &["", "@w"]),
    ("watch", &["", "@k", "@k @k"]),
    ("xinfo", &["", "@w", "stream", "stream @k", "stream @k @w", "stream @k full @w", "stream stream full count @n",
        "groups", "groups @k", "groups @k @w", "consumers @k", "consumers @k @w", "consumers stream group", "help @w"]),
    ("zrandmember", &["", "@k", "@k @n", "@k @n @w", "@k @n withscores @w"]),
    ("zscan", &["@k", "@k @n", "@k @n @w", "@k 0 match", "@k 0 count @n", "@k 0 @w @w"]),
];

/// Words of `@k`: keys of each type, and keys that do not exist.
const KEYS: [&str; 10] = ["text", "number", "hash", "list", "set", "zset", "stream", "geo", "none", ""];
/// Words of `@n`.
#[rustfmt::skip]
const NUMBERS: [&str; 16] = [
    "0", "1", "2", "-1", "3", "10", "1.5", "abc", "", "+5", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "4294967296", " 1", "0x1",
];
/// Rules of `ACL SETUSER`, most of them malformed.
#[rustfmt::skip]
const RULES: [&str; 34] = [
    "on", "off", "nopass", "resetpass", ">pw", "<pw", "#12", "!12", "~*", "~k*", "%R~k*", "%W~", "%~k", "%X~k", "%RR~k",
    "allkeys", "resetkeys", "&*", "&c", "allchannels", "resetchannels", "+get", "-set", "+@read", "-@nosuch", "+nosuch",
    "+config|get", "+config|nosuch", "+config|", "+get|", "zzz", "(", "()", "clearselectors",
];

/// Returns the words of a random request of a command with templates in [`REPORTS`].
fn report(prng: &mut Prng, name: &str, templates: &[&str]) -> Vec<String> {
    let any = |prng: &mut Prng, words: &[&str]| words[prng.below(words.len() as u64) as usize].to_owned();
    let template = any(prng, templates);
    let words = template.split(' ').filter(|word| !word.is_empty()).map(|word| match word {
        "@k" => any(prng, &KEYS),
        "@n" => any(prng, &NUMBERS),
        "@w" => match prng.below(3) {
            0 => any(prng, &NUMBERS),
            1 => any(prng, &KEYS),
            _ => any(prng, &OPTIONS),
        },
        "@r" => any(prng, &RULES),
        word => word.to_owned(),
    });
    std::iter::once(name.to_owned()).chain(words.collect::<Vec<_>>()).collect()
}

/// Option words of many commands, in place of `@w` and among the words of valid requests.
#[rustfmt::skip]
const OPTIONS: [&str; 40] = [
    "NX", "XX", "GT", "LT", "CH", "INCR", "EX", "PX", "EXAT", "PXAT", "KEEPTTL", "GET", "PERSIST", "WITHSCORES",
    "LIMIT", "COUNT", "MATCH", "TYPE", "BYSCORE", "BYLEX", "REV", "WEIGHTS", "AGGREGATE", "MAXLEN", "MINID", "~", "=",
    "ASC", "DESC", "ANY", "STORE", "LEFT", "RIGHT", "BEFORE", "RANK", "REPLACE", "JUSTID", "(1", "[a", "-inf",
];

/// Returns a valid request of a command with up to three changes: a word is replaced, removed, repeated or moved, or an
/// option is added.
fn changed(prng: &mut Prng, name: &str) -> Vec<String> {
    let mut words: Vec<String> = valid(name).split(' ').map(str::to_owned).collect();
    for _ in 0..prng.below(4) {
        let at = 1 + prng.below(words.len().max(2) as u64 - 1) as usize;
        let any = |prng: &mut Prng, words: &[&str]| words[prng.below(words.len() as u64) as usize].to_owned();
        match prng.below(7) {
            0 if at < words.len() => words[at] = any(prng, &KEYS),
            1 if at < words.len() => words[at] = any(prng, &NUMBERS),
            2 if at < words.len() => words[at] = any(prng, &OPTIONS),
            3 if at < words.len() => drop(words.remove(at)),
            4 if at < words.len() => words.insert(at, words[at].clone()),
            5 if at + 1 < words.len() => words.swap(at, at + 1),
            _ => words.insert(at.min(words.len()), any(prng, &OPTIONS)),
        }
    }
    // Redis removes whole nodes of a stream with `~`, and this server each entry.
    for word in words.iter_mut().filter(|word| *word == "~") {
        "=".clone_into(word);
    }
    words
}

/// Reads a number from the environment.
fn number_of(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// The request that was sent last, which is shown if the test fails.
struct Sent(Vec<String>);

impl Drop for Sent {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the last request: {:?}", self.0);
        }
    }
}

/// Sends `rounds` random requests to both servers, each on the same state, and returns the differences.
fn compare_random(
    ours: &mut Replies,
    theirs: &mut Replies,
    (seed, rounds): (u64, u64),
) -> (BTreeMap<Difference, String>, [u64; 2]) {
    let skipped: BTreeSet<&str> = NOT_SENT.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let plain: Vec<&str> = COMMANDS
        .iter()
        .filter(|entry| !entry.since.is_empty() && entry.since < "7.2" && !skipped.contains(entry.name))
        .filter(|entry| !entry.flags.contains(&Flag::Blocking) && entry.name != "wait")
        .map(|entry| entry.name)
        .collect();
    let (mut prng, mut found, mut compared) = (Prng::new(seed), BTreeMap::new(), [0; 2]);
    let mut sent = Sent(Vec::new());
    for _ in 0..rounds {
        let reports = prng.chance(1, 2).then(|| REPORTS[prng.below(REPORTS.len() as u64) as usize]);
        let words = match reports {
            Some((name, templates)) => report(&mut prng, name, templates),
            None => {
                let name = plain[prng.below(plain.len() as u64) as usize];
                changed(&mut prng, name)
            }
        };
        sent.0.clone_from(&words);
        let asked: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let before: [&[&[u8]]; 3] = [&[b"RESET"], &[b"ACL", b"DELUSER", b"u1"], &[b"FUNCTION", b"FLUSH"]];
        let requests = before.into_iter().chain(STATE).chain([&asked[..]]);
        // `RESET` ends what the request began, so that the reads are executed and have replies of RESP 2.
        let after: [&[&[u8]]; 1] = [&[b"RESET"]];
        let bytes: Vec<u8> = requests.chain(after).chain(READS).flat_map(request).collect();
        ours.client.send(&bytes);
        theirs.client.send(&bytes);
        let name = &words[0][..];
        // The replies to these requests differ after a request that only one of the servers has refused.
        for client in [&mut *ours, &mut *theirs] {
            before.iter().for_each(|_| drop(client.next()));
        }
        let mut next = |is_asked: bool| {
            let replies = [&mut *ours, &mut *theirs].map(|client| client.next().escape_ascii().to_string());
            let [ours, theirs] = replies.map(|reply| reply.trim_end_matches("\\r\\n").to_owned());
            let has_error = ours.starts_with('-') || theirs.starts_with('-');
            if is_asked && has_error {
                compared[1] += 1;
            }
            let is_same = match is_asked && reports.is_some() && !has_error {
                // A map of RESP 3 and an array of RESP 2 are reported by commands that depend on `HELLO`.
                true => ours.as_bytes().first() == theirs.as_bytes().first() || ours.starts_with('$'),
                false => same(if is_asked { name } else { "get" }, &ours, &theirs),
            };
            if !is_same {
                found.entry((name.to_owned(), ours, theirs)).or_insert_with(|| words.join(" "));
            }
        };
        (0..STATE.len()).for_each(|_| next(false));
        next(true);
        (0..after.len() + READS.len()).for_each(|_| next(false));
        compared[0] += 1;
    }
    (found, compared)
}

/// The random requests have the same replies as from Redis, or a difference that is listed. `GANNET_SEED` is the seed,
/// and `GANNET_FORMS` the number of requests.
#[test]
fn random_forms_of_commands_get_the_replies_of_redis_or_listed_differences() {
    let (seed, rounds) = (number_of("GANNET_SEED", 1), number_of("GANNET_FORMS", 6000));
    println!(
        "repeat: GANNET_SEED={seed} GANNET_FORMS={rounds} cargo test -p gannet-server --test server random_forms_of"
    );
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    assert_eq!(ours.text("CONFIG SET maxmemory-policy noeviction"), "+OK");
    let (mut found, compared) = compare_random(&mut ours, &mut theirs, (seed, rounds));
    let listed = DIFFERENCES.iter().chain(RANDOM_DIFFERENCES);
    found.retain(|(name, ours, theirs), _| {
        let is = |known: &&(&str, &str, &str, &str)| {
            name == known.0 && ours.starts_with(known.1) && theirs.starts_with(known.2)
        };
        listed.clone().find(is).is_none()
    });
    assert!(found.is_empty(), "{} differences are not listed:\n{found:#?}", found.len());
    assert!(compared[1] * 3 > compared[0] && compared[1] * 10 < compared[0] * 9, "{compared:?} errors and requests");
    running.stop();
}
