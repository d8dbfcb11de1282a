//! The table of long commands, each with a size at which it takes many slices. The test with a simulated clock and the
//! measurement over sockets (`xtask bench --only-bystander`) run them beside a bystander; `xtask gate` counts their
//! instructions.

use super::request;

/// The protocol of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Resp,
    Memcache,
}

/// The unit of a command's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A key or field that counts as one operation.
    Operation,
    /// A key or field that a walk passes.
    Walked,
    /// A byte that is copied.
    Byte,
}

/// A long command.
pub struct BystanderCase {
    pub name: &'static str,
    pub wire: Wire,
    pub request: Vec<u8>,
    /// The command's length, in `unit`.
    pub units: usize,
    pub unit: Unit,
    /// True if the command changes the keys, so that only its first execution is long.
    pub is_once: bool,
}

impl BystanderCase {
    fn new(name: &'static str, request: Vec<u8>, units: usize, unit: Unit) -> Self {
        Self { name, wire: Wire::Resp, request, units, unit, is_once: false }
    }

    fn memcached(name: &'static str, request: String, units: usize, unit: Unit) -> Self {
        Self { wire: Wire::Memcache, ..Self::new(name, request.into_bytes(), units, unit) }
    }

    fn once(self) -> Self {
        Self { is_once: true, ..self }
    }

    /// Returns the length with its unit, as text.
    pub fn length(&self) -> String {
        let unit = match self.unit {
            Unit::Operation => "operations",
            Unit::Walked => "walked over",
            Unit::Byte => "bytes",
        };
        format!("{} {unit}", self.units)
    }

    /// Returns a request to send after the command, and the bytes at the end of its reply. A dump of keys over
    /// memcached's protocol discards later requests, but its reply has its own end.
    pub fn mark(&self) -> (Vec<u8>, &'static [u8]) {
        match self.wire {
            Wire::Resp => (line("ECHO all-answered"), b"$12\r\nall-answered\r\n"),
            Wire::Memcache if self.name.contains("metadump") => (Vec::new(), b"END\r\n"),
            Wire::Memcache if self.name.contains("mgdump") => (Vec::new(), b"EN\r\n"),
            Wire::Memcache => (b"mn\r\n".to_vec(), b"MN\r\n"),
        }
    }
}

/// Commands that run on the same keys.
pub struct Group {
    /// RESP requests that store the keys for the commands.
    pub fill: Vec<Vec<u8>>,
    pub entries: Vec<BystanderCase>,
}

/// Encodes a line as a RESP request. Spaces separate its words.
pub fn line(text: &str) -> Vec<u8> {
    let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
    request(&words)
}

/// Returns a command followed by words for each of `count` numbers.
fn many(head: &str, count: usize, words: impl Fn(usize) -> String) -> Vec<u8> {
    let mut all: Vec<Vec<u8>> = head.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    for number in 0..count {
        all.extend(words(number).split(' ').map(|word| word.as_bytes().to_vec()));
    }
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    request(&all)
}

/// Returns `count` requests as one transaction.
fn transaction(count: usize, request: impl Fn(usize) -> String) -> Vec<u8> {
    let mut bytes = line("MULTI");
    (0..count).for_each(|number| bytes.extend(line(&request(number))));
    bytes.extend(line("EXEC"));
    bytes
}

/// Returns the commands that walk over `n` keys.
pub fn walks_over_all_keys(n: usize) -> Group {
    Group {
        fill: (0..n).map(|number| line(&format!("SET key:{number} value:{number}"))).collect(),
        entries: vec![
            BystanderCase::new("KEYS nomatch*", line("KEYS nomatch*"), n, Unit::Walked),
            BystanderCase::new("KEYS *", line("KEYS *"), n, Unit::Walked),
            BystanderCase::new("SCAN 0 COUNT 1000000", line("SCAN 0 COUNT 1000000"), n, Unit::Walked),
            BystanderCase::memcached(
                "lru_crawler metadump all",
                "lru_crawler metadump all\r\n".into(),
                n,
                Unit::Walked,
            ),
            BystanderCase::memcached("lru_crawler mgdump all", "lru_crawler mgdump all\r\n".into(), n, Unit::Walked),
        ],
    }
}

/// Returns the commands on thousands of keys.
pub fn commands_over_many_keys() -> Group {
    let keys: String = (0..5000).map(|number| format!(" key:{number}")).collect();
    let entry = |name, request, units| BystanderCase::new(name, request, units, Unit::Operation);
    let memcached = |name, request| BystanderCase::memcached(name, request, 5000, Unit::Operation);
    Group {
        fill: (0..10_000).map(|number| line(&format!("SET key:{number} value:{number}"))).collect(),
        entries: vec![
            entry("EXEC of 8,000 SET", transaction(8000, |n| format!("SET m:{n} v")), 8000),
            entry("EXEC of 8,000 GET", transaction(8000, |_| "GET key:1".into()), 8000),
            entry("WATCH of 4,096 keys", many("WATCH", 4096, |n| format!("key:{n}")), 4096),
            entry("MGET of 10,000 keys", many("MGET", 10_000, |n| format!("key:{n}")), 10_000),
            entry("MSET of 5,000 keys", many("MSET", 5_000, |n| format!("ms:{n} v")), 5_000),
            entry("MSET of 4,000 keys as one", many("MSET", 4_000, |n| format!("ms:{n} v")), 4_000),
            entry("EXISTS of 10,000 keys", many("EXISTS", 10_000, |n| format!("ms:{n}")), 10_000),
            entry("TOUCH of 10,000 keys", many("TOUCH", 10_000, |n| format!("ms:{n}")), 10_000),
            entry("DEL of 10,000 keys", many("DEL", 10_000, |n| format!("ms:{n}")), 10_000),
            memcached("get of 5,000 keys", format!("get{keys}\r\n")),
            memcached("gat of 5,000 keys", format!("gat 100{keys}\r\n")),
        ],
    }
}

/// Returns the commands on one hash of `n` fields.
pub fn commands_over_one_large_hash(n: usize) -> Group {
    let part = |part| many("HSET h", 100, |at| format!("field:{0} value:{0}", 100 * part + at));
    let fields = |head: &str, count, name: &'static str| many(head, count, move |number| format!("{name}:{number}"));
    let walk = |name, text: &str| BystanderCase::new(name, line(text), n, Unit::Walked);
    let reads = |name, request| BystanderCase::new(name, request, 10_000, Unit::Operation);
    // Each field is changed in one of its many parts, which takes three operations.
    let changes = |name, request| BystanderCase::new(name, request, 1_500 * 3, Unit::Operation);
    Group {
        fill: (0..n / 100).map(part).collect(),
        entries: vec![
            walk("HGETALL", "HGETALL h"),
            walk("DUMP of a hash", "DUMP h"),
            walk("HKEYS", "HKEYS h"),
            walk("HVALS", "HVALS h"),
            walk("HRANDFIELD h 1000000", "HRANDFIELD h 1000000"),
            BystanderCase::new("HRANDFIELD h -20000", line("HRANDFIELD h -20000 WITHVALUES"), 20_000, Unit::Operation),
            walk("HSCAN COUNT 1000000", "HSCAN h 0 COUNT 1000000"),
            walk("HSCAN MATCH", "HSCAN h 0 MATCH nomatch* COUNT 1000000"),
            reads("HMGET of 10,000 fields", fields("HMGET h", 10_000, "field")),
            reads("HTTL of 10,000 fields", fields("HTTL h FIELDS 10000", 10_000, "field")),
            changes("HSET of 1,500 fields", many("HSET h", 1_500, |n| format!("field:{n} new"))),
            changes("HSET of 1,500 new fields", many("HSET h", 1_500, |n| format!("new:{n} new"))),
            changes("HDEL of 1,500 fields", fields("HDEL h", 1_500, "new")),
            changes("HEXPIRE of 1,500 fields", fields("HEXPIRE h 1000 FIELDS 1500", 1_500, "field")),
            changes("HPERSIST of 1,500 fields", fields("HPERSIST h FIELDS 1500", 1_500, "field")),
            changes("HGETEX of 1,500 fields", fields("HGETEX h EX 100 FIELDS 1500", 1_500, "field")),
            changes("RESTORE of 1,500 fields", restore(1_500)).once(),
            changes("RESTORE of 1,500 scored members", restore_scored(1_500)).once(),
            changes("HGETDEL of 1,500 fields", fields("HGETDEL h FIELDS 1500", 1_500, "field")).once(),
            BystanderCase::new("COPY of a hash", line("COPY h h2 REPLACE"), n / 40, Unit::Operation),
            BystanderCase::new("MOVE of a hash", line("MOVE h2 1"), n / 40, Unit::Operation).once(),
            BystanderCase::new("MEMORY USAGE of a hash", line("MEMORY USAGE h"), n / 30, Unit::Operation),
        ],
    }
}

/// Returns a request that restores a hash of `count` fields.
fn restore(count: usize) -> Vec<u8> {
    let mut writer = rdb::PayloadWriter::hash(None, 0);
    (0..count).for_each(|n| writer.field(format!("field:{n}").as_bytes(), b"some value", None));
    restore_request(writer)
}

/// Returns a request that restores a sorted set of `count` members.
fn restore_scored(count: usize) -> Vec<u8> {
    let mut writer = rdb::PayloadWriter::sorted_set(0);
    (0..count).for_each(|n| writer.scored(format!("member:{n}").as_bytes(), n as f64));
    restore_request(writer)
}

fn restore_request(mut writer: rdb::PayloadWriter) -> Vec<u8> {
    writer.end();
    writer.advance(usize::MAX >> 1);
    let (payload, start) = writer.into_parts();
    request(&[b"RESTORE", b"restored", b"0", &payload[start..], b"REPLACE"])
}

/// Returns the commands on one value of 40 MiB.
pub fn commands_over_one_long_value() -> Group {
    let bytes = 40 << 20;
    let entry = |name, text: &str, bytes: usize| BystanderCase::new(name, line(text), bytes, Unit::Byte);
    let memcached = |name, text: &str| BystanderCase::memcached(name, text.into(), bytes, Unit::Byte).once();
    Group {
        fill: vec![
            request(&[b"SET", b"v", &vec![b'x'; bytes]]),
            request(&[b"SET", b"text", &vec![b'x'; 1 << 20]]),
            line("SET two xy"),
            request(&[b"SET", b"part", &vec![b'x'; 64 << 10]]),
            many("RPUSH parts", 200, |_| "t".to_owned()),
        ],
        entries: vec![
            entry("GET", "GET v", bytes),
            entry("GETRANGE", "GETRANGE v 1 -1", bytes),
            entry("MGET", "MGET v none", bytes),
            entry("SETRANGE", "SETRANGE v 41943039 abc", bytes).once(),
            entry("APPEND", "APPEND v abc", bytes).once(),
            entry("COPY", "COPY v v2", bytes).once(),
            entry("EXPIRE", "EXPIRE v2 1000", bytes).once(),
            entry("EXPIRE to a later time", "EXPIRE v2 100000", bytes).once(),
            entry("BITCOUNT", "BITCOUNT v", bytes),
            entry("DIGEST", "DIGEST v", bytes),
            entry("SET IFDEQ", "SET v x IFDEQ 0123456789abcdef", bytes),
            entry("DELEX IFDEQ", "DELEX v IFDEQ 0123456789abcdef", bytes),
            entry("BITOP", "BITOP ONE v3 v v none", 3 * bytes).once(),
            entry("SETBIT behind the end", "SETBIT v 340000000 1", bytes).once(),
            entry("LCS", "LCS text two IDX", 1 << 20),
            entry("DUMP", "DUMP v", bytes),
            entry("SORT BY long values", "SORT parts BY par* ALPHA LIMIT 0 1", 200 << 16),
            BystanderCase::new(
                "SORT GET",
                many("SORT parts LIMIT 0 1 BY no", 60, |_| "GET par*".into()),
                60 << 16,
                Unit::Byte,
            ),
            entry("SETRANGE into nothing", "SETRANGE zeros 40000000 abc", 40_000_000).once(),
            entry("BITPOS", "BITPOS zeros 1 80 -1 BIT", 40_000_000),
            memcached("append", "append v 0 0 3\r\nabc\r\n"),
            memcached("prepend", "prepend v 0 0 3\r\nabc\r\n"),
            memcached("touch", "touch v 1000\r\n"),
        ],
    }
}

/// Returns the commands on one stream, of which `n` entries are pending in a group.
pub fn commands_over_one_large_stream(n: usize) -> Group {
    let part = |part| transaction(100, |at| format!("XADD s {}-1 name value:{at}", 100 * part + at + 1));
    let ids = |head: &str, count, from| many(head, count, move |number| format!("{}-1", from + number));
    let walk = |name, text: &str| BystanderCase::new(name, line(text), n, Unit::Walked);
    // Each identifier is changed in two of many parts, which takes three operations.
    let changes = |name, request| BystanderCase::new(name, request, 1_500 * 3, Unit::Operation);
    let mut fill: Vec<Vec<u8>> = (0..n / 100).map(part).collect();
    fill.push(line("XGROUP CREATE s g 0"));
    fill.extend((0..n / 1_000).map(|_| line("XREADGROUP GROUP g one COUNT 1000 STREAMS s >")));
    fill.extend((0..2_000).map(|at| line(&format!("XGROUP CREATE groups g{at} 0 MKSTREAM"))));
    fill.extend((0..2_000).map(|at| line(&format!("XGROUP CREATECONSUMER groups g0 c{at}"))));
    fill.extend(["XADD groups 1-1 name value", "XREADGROUP GROUP g0 c0 STREAMS groups >"].map(line));
    Group {
        fill,
        entries: vec![
            walk("XRANGE", "XRANGE s - +"),
            walk("DUMP of a stream", "DUMP s"),
            walk("XPENDING", "XPENDING s g - + 1000000"),
            walk("XPENDING of a consumer", "XPENDING s g - + 1000000 one"),
            walk("XPENDING IDLE", "XPENDING s g IDLE 100000000 - + 10"),
            walk("XINFO STREAM FULL", "XINFO STREAM s FULL COUNT 0"),
            BystanderCase::new("XINFO GROUPS", line("XINFO GROUPS groups"), 2_000 * 2, Unit::Operation),
            BystanderCase::new("XINFO CONSUMERS", line("XINFO CONSUMERS groups g0"), 2_000, Unit::Operation),
            BystanderCase::new("XPENDING of consumers", line("XPENDING groups g0"), 2_000 * 2, Unit::Operation),
            BystanderCase::new(
                "XGROUP DESTROY of consumers",
                line("XGROUP DESTROY groups g0"),
                2_000 * 16,
                Unit::Operation,
            )
            .once(),
            changes("XCLAIM of 1,500 entries", ids("XCLAIM s g two 0", 1_500, 1)),
            BystanderCase::new("XAUTOCLAIM", line("XAUTOCLAIM s g three 0 - COUNT 1500"), 1_500 * 3, Unit::Operation),
            changes("XACK of 1,500 entries", ids("XACK s g", 1_500, 1)).once(),
            changes("XDEL of 1,500 entries", ids("XDEL s", 1_500, 1)).once(),
            changes("RESTORE of 1,500 entries", restore_entries(1_500)).once(),
            BystanderCase::new("XGROUP DESTROY", line("XGROUP DESTROY s g"), n / 256 * 16, Unit::Operation).once(),
        ],
    }
}

/// Returns a request that restores a stream of `count` entries.
fn restore_entries(count: usize) -> Vec<u8> {
    let id = |n: usize| rdb::StreamId { ms: n as u64, seq: 0 };
    let mut writer = rdb::PayloadWriter::stream(0);
    for n in 1..=count {
        let field = rdb::CountedElement::Field { name: b"name", value: b"some value" };
        for element in [rdb::CountedElement::Entry(id(n)), field] {
            writer.add(&element).expect("a field follows its entry");
        }
    }
    let (length, last_id) = (count as u64, id(count));
    let totals = rdb::StreamTotals { length, last_id, entries_added: length, ..rdb::StreamTotals::default() };
    let totals = rdb::StreamTotals { first_id: Some(id(1)), ..totals };
    writer.add(&rdb::CountedElement::Totals { totals, groups: 0 }).expect("the end of the entries");
    restore_request(writer)
}

/// Returns the commands on a set of `n` records.
pub fn commands_over_many_records(n: usize) -> Group {
    let put = |at| line(&format!("REC.PUT p:{at} IN people BINS name STR n{at} age INT {}", at % 100));
    let entry = |name, text: &str, units| BystanderCase::new(name, line(text), units, Unit::Operation);
    Group {
        fill: (0..n).map(put).collect(),
        entries: vec![
            entry("REC.SCAN", "REC.SCAN people 0 COUNT 4096", 2000),
            entry("REC.INDEX CREATE", "REC.INDEX CREATE people age INT", n).once(),
            entry("REC.QUERY", "REC.QUERY people age BETWEEN 0 100 LIMIT 4096", 4096),
            entry("REC.TRUNCATE", "REC.TRUNCATE people", n).once(),
        ],
    }
}
