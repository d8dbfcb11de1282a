//! Tests of a full store without eviction: nothing is lost that is not in a reply, and queues can be emptied.

use crate::common::redis::{Replies, both, resp};
use crate::common::start;
use command::resp::catalog::{COMMANDS, Flag};
use gannet_server::start::{Running, ServerConfig};
use std::fmt::Write;

const ELEMENTS: u64 = 4000;

fn small() -> Running {
    start(ServerConfig { workers: 1, memory_bytes: 32 << 20, evict: false, ..both() })
}

fn short(reply: &str) -> &str {
    &reply[..reply.len().min(80)]
}

fn number(redis: &mut Replies, request: &str) -> u64 {
    let reply = redis.text(request);
    reply[1..].parse().unwrap_or_else(|_| panic!("{request}: {}", short(&reply)))
}

/// Stores strings until the store refuses a short one.
fn fill(redis: &mut Replies, next: &mut u64) {
    for len in [20_000, 300, 1] {
        let value = "x".repeat(len);
        while redis.text(&format!("SET fill:{next} {value}")) == "+OK" {
            *next += 1;
        }
    }
}

/// Returns the words of the elements `from..to` for a command that adds them.
fn elements(from: u64, to: u64, put: impl Fn(&mut String, u64)) -> String {
    let mut line = String::new();
    (from..to).for_each(|element| put(&mut line, element));
    line
}

/// Adds the same elements to a list, a set, a sorted set and a hash.
fn add_collections(redis: &mut Replies, number: u64) {
    for from in (0..ELEMENTS).step_by(500) {
        let to = from + 500;
        let plain = elements(from, to, |line, element| write!(line, " {element:06}eeee").expect("text"));
        let scored = elements(from, to, |line, element| write!(line, " {element} {element:06}eeee").expect("text"));
        let fields = elements(from, to, |line, element| write!(line, " {element:06}eeee v").expect("text"));
        for line in [
            format!("RPUSH l{number}{plain}"),
            format!("SADD s{number}{plain}"),
            format!("ZADD z{number}{scored}"),
            format!("HSET h{number}{fields}"),
        ] {
            assert!(redis.text(&line).starts_with(':'), "{}", short(&line));
        }
    }
}

fn add_stream(redis: &mut Replies, key: &str, entries: u64) {
    (1..=entries).for_each(|id| assert!(redis.text(&format!("XADD {key} {id}-0 f v")).starts_with('$')));
    assert_eq!(redis.text(&format!("XGROUP CREATE {key} g 0")), "+OK");
}

/// Delivers entries until the store refuses to hold one more pending entry, or all are delivered.
fn deliver_all(redis: &mut Replies, key: &str) {
    for count in [300, 20, 1] {
        while redis.text(&format!("XREADGROUP GROUP g c COUNT {count} STREAMS {key} >")).starts_with("*1") {}
    }
}

/// Regression: deliveries took the memory that pops need, and pops of many elements were errors after a part of them
/// was removed.
#[test]
fn pops_from_a_full_store_reply_with_all_that_they_remove() {
    const KEYS: u64 = 4;
    let running = small();
    let redis = &mut resp(&running);
    (0..KEYS).for_each(|number| add_collections(redis, number));
    (0..8).for_each(|stream| add_stream(redis, &format!("x{stream}"), 4000));
    let fields = elements(0, 3900, |line, element| write!(line, " {element:06}eeee").expect("text"));
    let (mut next, mut popped_at_all) = (0, 0);
    for key in 0..KEYS {
        fill(redis, &mut next);
        (2 * key..2 * key + 2).for_each(|stream| deliver_all(redis, &format!("x{stream}")));
        for (pop, size, is_hash) in [
            (format!("ZPOPMIN z{key} 3900"), format!("ZCARD z{key}"), false),
            (format!("HGETDEL h{key} FIELDS 3900{fields}"), format!("HLEN h{key}"), true),
            (format!("SPOP s{key} 3900"), format!("SCARD s{key}"), false),
            (format!("LMPOP 1 l{key} RIGHT COUNT 3900"), format!("LLEN l{key}"), false),
        ] {
            let (before, reply) = (number(redis, &size), redis.text(&pop));
            let popped = if is_hash { reply.matches("$1 v").count() } else { reply.matches("eeee").count() } as u64;
            assert_eq!(number(redis, &size), before - popped, "{}: {}", short(&pop), short(&reply));
            assert!(!is_hash || popped == 0 || reply.starts_with("*3900 "), "{}", short(&reply));
            assert!(popped > 0, "{}: {}", short(&pop), short(&reply));
            popped_at_all += popped;
        }
    }
    assert!(popped_at_all > 0);
    running.stop();
}

/// Regression: `XREADGROUP`, `XCLAIM` and `XAUTOCLAIM` were errors after entries were delivered.
#[test]
fn deliveries_in_a_full_store_reply_with_all_that_they_deliver() {
    let running = small();
    let redis = &mut resp(&running);
    for stream in 0..6 {
        add_stream(redis, &format!("x{stream}"), 3000);
        assert_eq!(redis.text(&format!("XGROUP CREATE x{stream} n 0")), "+OK");
    }
    let mut next = 0;
    fill(redis, &mut next);
    let (mut has_refused, mut has_part) = (false, false);
    for stream in 0..6 {
        for (group, noack) in [("g", ""), ("n", " NOACK")] {
            let group_state = |redis: &mut Replies| {
                let groups = redis.text(&format!("XINFO GROUPS x{stream}"));
                let of_group = groups.split("$4 name ").find(|part| part.split(' ').nth(1) == Some(group));
                let last = of_group.and_then(|part| part.split("last-delivered-id ").nth(1)).expect("a group");
                last.split(' ').nth(1).and_then(|id| id.split('-').next()).expect("an id").parse::<u64>().expect("ms")
            };
            let before = group_state(redis);
            let reply = redis.text(&format!("XREADGROUP GROUP {group} c{noack} COUNT 1400 STREAMS x{stream} >"));
            let delivered = reply.matches("-0 ").count() as u64;
            assert_eq!(group_state(redis), before + delivered, "x{stream} {group}: {}", short(&reply));
            has_refused |= delivered == 0;
            has_part |= delivered > 0 && delivered < 1400;
        }
    }
    assert!(has_refused || has_part, "the store had room for all deliveries");
    running.stop();
}

/// Commands that may let the store grow. `LONG` stands for a long word.
const GROWING: [&str; 51] = [
    "SET new 1",
    "SETEX new 100 v",
    "PSETEX new 100000 v",
    "SETNX new v",
    "GETSET string w",
    "MSET new v",
    "MSETNX new v",
    "APPEND string LONG",
    "SETRANGE string 3000 v",
    "SETBIT string 90000 1",
    "BITFIELD string SET u8 90000 1",
    "BITOP NOT new string",
    "INCR new",
    "DECRBY new 2",
    "INCRBYFLOAT new 1.5",
    "COPY string new",
    "RPUSH list v",
    "LPUSH list v",
    "LPUSHX list v",
    "RPUSHX list v",
    "LINSERT list BEFORE a v",
    "LSET list 0 v",
    "LMOVE list other LEFT LEFT",
    "RPOPLPUSH list other",
    "SADD set v",
    "SUNIONSTORE new set",
    "SINTERSTORE new set",
    "SDIFFSTORE new set",
    "ZADD zset 3 v",
    "ZINCRBY zset 3 v",
    "ZUNIONSTORE new 1 zset",
    "ZINTERSTORE new 1 zset",
    "ZDIFFSTORE new 1 zset",
    "ZRANGESTORE new zset 0 -1",
    "SORT set ALPHA STORE new",
    "GEOADD geo 2 2 v",
    "GEOSEARCHSTORE new geo FROMLONLAT 1 1 BYRADIUS 900 km",
    "HSET hash g v",
    "HMSET hash g v",
    "HSETNX hash g v",
    "HINCRBY hash f 1",
    "HINCRBYFLOAT hash f 1.5",
    "HSETEX hash EX 100 FIELDS 1 f v",
    "HEXPIRE hash 100 FIELDS 1 f",
    "HPEXPIRE hash 100000 FIELDS 1 f",
    "HEXPIREAT hash 99999999999 FIELDS 1 f",
    "PFADD hll b c d",
    "PFMERGE new hll",
    "XADD stream 2-0 f v",
    "XSETID stream 5-0",
    "XGROUP CREATE stream g 0",
];

/// Commands that may let the store grow leave the memory that removals need.
#[test]
fn commands_that_grow_the_store_are_refused_by_a_full_one() {
    let running = small();
    let redis = &mut resp(&running);
    for line in [
        "SET string value",
        "SET number 5",
        "RPUSH list a b c",
        "SADD set a b c",
        "ZADD zset 1 a 2 b",
        "HSET hash f 1",
        "GEOADD geo 1 1 a",
        "PFADD hll a",
        "XADD stream 1-0 f v",
    ] {
        assert!(!redis.text(line).starts_with('-'), "{line}");
    }
    let mut next = 0;
    fill(redis, &mut next);
    let long = "y".repeat(2000);
    let mut wrong = String::new();
    for line in GROWING {
        let line = line.replace("LONG", &long);
        // Segments are freed at any time, so a store that refused a value may take a later one.
        let is_refused = (0..20).any(|_| {
            let is_refused = redis.text(&line).starts_with("-OOM");
            if !is_refused {
                redis.text("DEL new other");
                fill(redis, &mut next);
            }
            is_refused
        });
        if !is_refused {
            writeln!(wrong, "{}", short(&line)).expect("text");
        }
    }
    assert!(wrong.is_empty(), "not refused:\n{wrong}");
    // Removals are not refused.
    assert_eq!(redis.text("XGROUP DESTROY stream g"), ":0");
    for line in ["LPOP list", "SPOP set", "ZPOPMIN zset", "HGETDEL hash FIELDS 1 f", "XTRIM stream MAXLEN 0"] {
        assert!(!redis.text(line).starts_with('-'), "{line}");
    }
    running.stop();
}

/// Requests of commands that change keys and that Redis executes in a full store. `@` is replaced by `s`, whose values
/// are one item each, and by `l`, whose values have parts. The keys of some of them are only used once.
const NOT_GROWING: [&str; 58] = [
    "BLMPOP 1 1 list.@ LEFT",
    "BLPOP list.@ 1",
    "BRPOP list.@ 1",
    "BZMPOP 1 1 zset.@ MIN",
    "BZPOPMAX zset.@ 1",
    "BZPOPMIN zset.@ 1",
    "DELEX string.a.@",
    "DELIFEQ string.b.@ VALUE.@",
    "EXPIRE hash.@ 1000",
    "EXPIREAT list.@ 99999999999",
    "GETDEL string.c.@",
    "GETEX string.d.@ EX 100",
    "GETEX string.d.@ PERSIST",
    "HGETEX hash.@ EX 1000 FIELDS 1 000001eeee",
    "HPERSIST hash.@ FIELDS 1 000001eeee",
    "HDEL hash.@ 000001eeee",
    "HGETDEL hash.@ FIELDS 1 000002eeee",
    "LEASE.STALE string.d.@",
    "LMPOP 1 list.@ LEFT",
    "LPOP list.@",
    "LREM list.@ 1 000008eeee",
    "LTRIM list.@ 1 -1",
    "MOVE string.e.@ 1",
    "MOVE hash.a.@ 1",
    "PERSIST hash.@",
    "PEXPIRE zset.@ 1000000",
    "PEXPIREAT set.@ 99999999999999",
    "RENAME string.d.@ string.f.@",
    "RENAME zset.@ zset.b.@",
    "RENAME zset.b.@ zset.@",
    "RENAMENX set.@ set.b.@",
    "RENAMENX set.b.@ set.@",
    "RPOP list.@",
    "SMOVE set.@ set.a.@ 000001eeee",
    "SMOVE set.a.@ new.@ 000002eeee",
    "SPOP set.@",
    "SREM set.a.@ 000003eeee",
    "SWAPDB 0 2",
    "SWAPDB 0 2",
    "XREADGROUP GROUP g c COUNT 3 STREAMS stream.@ >",
    "XACK stream.@ g 1-0",
    "XCLAIM stream.@ g d 0 2-0",
    "XAUTOCLAIM stream.@ g e 0 0",
    "XGROUP SETID stream.@ g 0",
    "XGROUP DELCONSUMER stream.@ g e",
    "XGROUP DESTROY stream.@ g",
    "XDEL stream.@ 4-0",
    "XTRIM stream.@ MAXLEN 3",
    "ZMPOP 1 zset.@ MIN",
    "ZPOPMAX zset.@",
    "ZPOPMIN zset.@",
    "ZREM zset.@ 000007eeee",
    "ZREMRANGEBYRANK zset.@ 0 0",
    "ZREMRANGEBYSCORE zset.@ 6 6",
    "ZREMRANGEBYLEX lex.@ - [000003eeee",
    "REC.DEL record.@",
    "DEL list.@ set.@",
    "UNLINK zset.@ stream.@",
];

/// Rows above that are sent for values of one item only. Copies need memory for a long value. The removal needs some
/// for new parts, and the removals before it may have used up what a full store keeps for them.
const ONE_ITEM_ONLY: [&str; 3] = ["MOVE ", "RENAME string", "ZREMRANGEBYLEX "];
/// The attempts of a request. Removals in quick succession may use up the memory that is kept for them, until the
/// background has freed some.
const ATTEMPTS: usize = 5;

/// Commands without a row above: the memory of graphs is another one, and these have no keys.
const NOT_GROWING_APART: [&str; 6] = ["flushall", "flushdb", "g.del", "g.drop", "rec.index", "rec.truncate"];

/// Stores the keys of [`NOT_GROWING`], with collections of `elements` elements and strings of `len` bytes. Returns the
/// value of the strings.
fn add_keys(redis: &mut Replies, form: char, elements: u64, len: usize) -> String {
    let plain = self::elements(0, elements, |line, element| write!(line, " {element:06}eeee").expect("text"));
    let scored =
        self::elements(0, elements, |line, element| write!(line, " {element} {element:06}eeee").expect("text"));
    let equal = self::elements(0, elements, |line, element| write!(line, " 0 {element:06}eeee").expect("text"));
    let fields = self::elements(0, elements, |line, element| write!(line, " {element:06}eeee v").expect("text"));
    let value = "v".repeat(len);
    for line in [
        format!("RPUSH list.{form}{plain}"),
        format!("SADD set.{form}{plain}"),
        format!("SADD set.a.{form}{plain}"),
        format!("SREM set.a.{form} 000001eeee"),
        format!("ZADD zset.{form}{scored}"),
        format!("ZADD lex.{form}{equal}"),
        format!("HSET hash.{form}{fields}"),
        format!("HSET hash.a.{form}{fields}"),
        format!("REC.PUT record.{form} BINS a STR {value}"),
    ] {
        assert!(!redis.text(&line).starts_with('-'), "{}", short(&line));
    }
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(redis.text(&format!("SET string.{name}.{form} {value}")), "+OK");
    }
    add_stream(redis, &format!("stream.{form}"), elements);
    value
}

/// Regression: `SMOVE` and `XGROUP SETID` were refused.
#[test]
fn commands_that_do_not_grow_the_store_are_executed_by_a_full_one() {
    let (running, mut next) = (small(), 0);
    let redis = &mut resp(&running);
    let values = [add_keys(redis, 's', 30, 100), add_keys(redis, 'l', 2000, 500_000)];
    let mut wrong = String::new();
    for line in NOT_GROWING {
        for (form, value) in ["s", "l"].iter().zip(&values) {
            if *form == "l" && ONE_ITEM_ONLY.iter().any(|start| line.starts_with(start)) {
                continue;
            }
            let line = line.replace("VALUE.@", value).replace('@', form);
            let mut reply = String::new();
            for _ in 0..ATTEMPTS {
                // The memory that the last request freed must not serve this one.
                fill(redis, &mut next);
                reply = redis.text(&line);
                if !reply.starts_with("-OOM") {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            if reply.starts_with('-') || [":0", "$-1", "*-1", "*0"].contains(&&reply[..]) {
                writeln!(wrong, "{}: {}", short(&line), short(&reply)).expect("text");
            }
        }
    }
    assert!(wrong.is_empty(), "not executed:\n{wrong}");
    let is_tested = |name: &&str| NOT_GROWING.iter().any(|line| line.to_lowercase().starts_with(&format!("{name} ")));
    let may_not_refuse = |flags: &[Flag]| flags.contains(&Flag::Write) && !flags.contains(&Flag::DenyOom);
    let names = COMMANDS.iter().filter(|command| may_not_refuse(command.flags)).map(|command| command.name);
    let missing: Vec<&str> = names.filter(|name| !is_tested(name) && !NOT_GROWING_APART.contains(name)).collect();
    assert!(missing.is_empty(), "no row tests {missing:?}");
    fill(redis, &mut next);
    assert_eq!((redis.text("FLUSHDB"), redis.text("FLUSHALL")), ("+OK".to_owned(), "+OK".to_owned()));
    running.stop();
}

/// Regression: a key of another type was an error inside the array, so that no later reply was read correctly.
#[test]
fn mget_longer_than_the_receive_buffer_has_null_for_keys_of_other_types() {
    let running = start(ServerConfig { workers: 1, ..both() });
    let redis = &mut resp(&running);
    for (add, key) in [("RPUSH q a", "q"), ("HSET m a 1", "m"), ("SADD s a", "s")] {
        redis.text(add);
        redis.text("SET v value");
        let mut line = "MGET".to_owned();
        (0..4000).for_each(|number| {
            let name = if number == 2000 { key.to_owned() } else { format!("key:{number:0100}") };
            write!(line, " {name}").expect("text");
        });
        let reply = redis.text(&(line + " v"));
        assert!(reply.starts_with("*4001 $-1 ") && reply.ends_with("$5 value"), "{}", short(&reply));
        assert_eq!(reply.matches("$-1").count(), 4000, "{add}");
        assert_eq!(redis.text("PING"), "+PONG");
    }
    running.stop();
}

/// Regression: each `XREADGROUP` delivered the entry once more.
#[test]
fn entry_with_the_highest_identifier_is_delivered_once() {
    const MAX: &str = "18446744073709551615-18446744073709551615";
    let running = start(ServerConfig { workers: 1, ..both() });
    let redis = &mut resp(&running);
    assert!(redis.text("XADD x 1-1 a 1").starts_with('$'));
    assert!(redis.text(&format!("XADD x {MAX} a 2")).starts_with('$'));
    assert_eq!(redis.text("XGROUP CREATE x g 0"), "+OK");
    assert_eq!(redis.text("XREADGROUP GROUP g c STREAMS x >").matches(MAX).count(), 1);
    assert_eq!(redis.text("XREADGROUP GROUP g c STREAMS x >"), "*-1");
    assert_eq!(redis.text("XREADGROUP GROUP g d COUNT 500 STREAMS x >"), "*-1");
    assert_eq!(redis.text("XREADGROUP GROUP g c COUNT 1 STREAMS x 1-1").matches(MAX).count(), 1);
    assert_eq!(redis.text("XREADGROUP GROUP g c COUNT 200 STREAMS x 0").matches(MAX).count(), 1);
    running.stop();
}

/// Regression: a call gathered all elements that its `COUNT` allows, whatever their length, outside of all budgets.
#[test]
fn long_elements_are_scanned_and_popped_a_few_at_a_time() {
    const LONG: u64 = 120;
    let running = start(ServerConfig { workers: 1, memory_bytes: 128 << 20, ..both() });
    let redis = &mut resp(&running);
    let text = "e".repeat(100_000);
    for element in 0..LONG {
        for add in ["SADD s", "RPUSH l", "SADD t"] {
            assert!(redis.text(&format!("{add} {element}-{text}")).starts_with(':'), "{add}");
        }
        assert_eq!(redis.text(&format!("ZADD z {element} {element}-{text}")), ":1");
    }
    let (mut cursor, mut found, mut calls) = ("0".to_owned(), 0, 0);
    loop {
        let reply = redis.text(&format!("SSCAN s {cursor} COUNT 4096"));
        assert!(reply.len() < 1 << 20, "{} bytes", reply.len());
        (found, calls) = (found + reply.matches(&text).count() as u64, calls + 1);
        cursor = reply.split(' ').nth(2).expect("a cursor").to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert!(found == LONG && calls > 20, "{found} elements by {calls} calls");
    for (read, count) in [
        ("SUNION s t", LONG),
        ("SDIFF s none", LONG),
        ("LRANGE l 0 -1", LONG),
        ("SRANDMEMBER s 100", 100),
        ("SRANDMEMBER s -100", 100),
        ("ZSCAN z 0 COUNT 4000", LONG),
        ("SPOP s 100", 100),
        ("SPOP s 100", LONG - 100),
        ("LPOP l 100", 100),
        ("RPOP l 100", LONG - 100),
        ("ZPOPMAX z 20", 20),
        ("ZPOPMIN z 200", LONG - 20),
    ] {
        assert_eq!(redis.text(read).matches(&text).count() as u64, count, "{read}");
    }
    assert_eq!(redis.text("SINTERCARD 1 t"), format!(":{LONG}"));
    assert_eq!(redis.text("EXISTS s l z"), ":0");
    running.stop();
}
