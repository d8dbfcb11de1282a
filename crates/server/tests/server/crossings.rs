//! Tests of items that one protocol stores and the other reads and changes: each row of the table in
//! `docs/namespaces.md`, in the same order, in the default namespace and in another namespace.

use crate::common::redis::Replies;
use crate::common::{Client, config, pattern, set, start, value};
use command::clients::endpoint::{Endpoint, Protocol};
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use segment::Namespace;

/// Two clients of one namespace, one for each protocol.
struct Both {
    running: Running,
    redis: Replies,
    memcached: Client,
}

impl Both {
    fn new(namespace: Namespace) -> Self {
        let any = || ListenAddr::Tcp(([127, 0, 0, 1], 0).into());
        let protocols = [Protocol::Memcache, Protocol::Resp];
        let endpoints = protocols.map(|protocol| (Endpoint::new(protocol, namespace), any())).to_vec();
        let running = start(ServerConfig { endpoints, ..config() });
        let addr = |protocol| {
            let found = running.endpoints().find_map(|(endpoint, addr)| match addr {
                ListenAddr::Tcp(addr) if (endpoint.protocol, endpoint.namespace) == (protocol, namespace) => {
                    Some(*addr)
                }
                _ => None,
            });
            found.expect("a listener")
        };
        let redis = Replies::connect(addr(Protocol::Resp));
        let memcached = Client::connect(addr(Protocol::Memcache));
        Self { running, redis, memcached }
    }

    /// Sends a Redis request of words and asserts its whole reply.
    fn r(&mut self, words: &str, reply: &str) {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        let got = self.redis.ask(&words);
        assert_eq!(String::from_utf8_lossy(&got), reply, "{:?}", String::from_utf8_lossy(&words.join(&b' ')));
    }

    /// Sends a Redis request of words and ignores the reply.
    fn do_r(&mut self, words: &str) {
        self.redis.ask(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }

    /// Sends a Redis request of words and returns the number in its reply.
    fn number(&mut self, words: &str) -> i64 {
        let reply = self.redis.ask(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        String::from_utf8_lossy(&reply[1..]).trim().parse().expect("a number")
    }

    /// Sends a meta command and returns the line of its reply.
    fn line(&mut self, request: &str) -> String {
        self.memcached.send(format!("{request}\r\n").as_bytes());
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            std::io::Read::read_exact(&mut self.memcached.stream, &mut byte).expect("an answer");
            line.push(byte[0]);
        }
        String::from_utf8(line).expect("text").trim_end().to_owned()
    }

    /// Sends a memcached request, in which `/` stands for a line end, and asserts its whole reply.
    fn m(&mut self, request: &str, reply: &str) {
        let lines = |text: &str| [&text.replace('/', "\r\n"), "\r\n"].concat();
        self.memcached.ask(lines(request).as_bytes(), lines(reply).as_bytes());
    }
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
const NO_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";

/// A row of the table: the text of its first column, and the function that checks the row.
type Row = (&'static str, fn(&mut Both));

const ROWS: [Row; 21] = [
    ("`set` by memcached, with flags", |both| {
        both.m("set a 7 0 5/hello", "STORED");
        both.r("GET a", "$5\r\nhello\r\n");
    }),
    ("`SET` by Redis", |both| {
        both.r("SET a theirs", "+OK\r\n");
        both.m("get a", "VALUE a 0 6/theirs/END");
    }),
    ("`set` with flags, then `APPEND`, `SETRANGE`, `INCR`, `EXPIRE`, `GETEX`, `RENAME`, `COPY`", |both| {
        both.m("set a 7 0 5/hello", "STORED");
        for (words, key, value) in [
            ("APPEND a !", "a", "hello!"),
            ("SETRANGE a 0 J", "a", "Jello!"),
            ("EXPIRE a 1000", "a", "Jello!"),
            ("GETEX a PERSIST", "a", "Jello!"),
            ("RENAME a b", "b", "Jello!"),
            ("COPY b a", "a", "Jello!"),
        ] {
            both.do_r(words);
            both.m(&format!("get {key}"), &format!("VALUE {key} 7 6/{value}/END"));
        }
        both.m("set n 9 0 2/41", "STORED");
        both.r("INCR n", ":42\r\n");
        both.m("get n", "VALUE n 9 2/42/END");
    }),
    ("`set` with flags, then `SET`", |both| {
        for words in ["SET a new", "SET a new KEEPTTL", "SET a new XX", "SET a new EX 100", "SETEX a 100 new"] {
            both.m("set a 7 1000 5/hello", "STORED");
            both.r(words, "+OK\r\n");
            both.m("get a", "VALUE a 0 3/new/END");
        }
        both.m("set a 7 1000 5/hello", "STORED");
        both.r("GETSET a new", "$5\r\nhello\r\n");
        both.m("get a", "VALUE a 0 3/new/END");
    }),
    ("`set` with an exptime", |both| {
        both.m("set a 0 1000 1/x", "STORED");
        assert!((900_000..=1_000_000).contains(&both.number("PTTL a")));
        assert!((900..=1000).contains(&both.number("TTL a")));
        both.m("set a 0 4102444800 1/x", "STORED");
        both.r("EXPIRETIME a", ":4102444800\r\n");
        both.r("PEXPIRETIME a", ":4102444800000\r\n");
        both.m("set a 0 -1 1/x", "STORED");
        both.r("EXISTS a", ":0\r\n");
    }),
    ("`set` with an exptime, then `SET`", |both| {
        both.m("set a 0 4102444800 1/x", "STORED");
        both.r("SET a y KEEPTTL", "+OK\r\n");
        both.r("EXPIRETIME a", ":4102444800\r\n");
        both.m("mg a v", "VA 1/y");
        both.r("SET a z", "+OK\r\n");
        assert_eq!(both.line("mg a t"), "HD t-1");
    }),
    ("`SET ... EX`, `PX`, `EXPIRE`, `PERSIST`", |both| {
        for (words, ends) in [
            ("SET b x EXAT 4102444800", true),
            ("SET b x PXAT 4102444800000", true),
            ("SET b x EX 1000", true),
            ("SET b x PX 1000000", true),
            ("PERSIST b", false),
            ("EXPIREAT b 4102444800", true),
            ("PERSIST b", false),
            ("EXPIRE b 1000", true),
        ] {
            both.do_r(words);
            let replied: i64 = both.line("mg b t").strip_prefix("HD t").expect("an end").parse().expect("a number");
            assert_eq!(replied > 0, ends, "{words}: {replied}");
            assert!((both.number("TTL b") - replied).abs() <= 1, "{words}: {replied}");
        }
    }),
    ("`touch`, `gat`", |both| {
        both.r("SET b x EX 100", "+OK\r\n");
        both.m("touch b 0", "TOUCHED");
        both.r("TTL b", ":-1\r\n");
        both.m("gat 4102444800 b", "VALUE b 0 1/x/END");
        both.r("EXPIRETIME b", ":4102444800\r\n");
    }),
    ("a number by `set` or `ms`", |both| {
        both.m("set n 0 0 2/41", "STORED");
        both.r("INCR n", ":42\r\n");
        both.m("incr n 1", "43");
        both.m("ms n 2/50", "HD");
        both.r("INCR n", ":51\r\n");
        both.m("incr n 1", "52");
    }),
    ("a number below 0 by `DECR`", |both| {
        both.r("DECR n", ":-1\r\n");
        both.m("incr n 1", NO_NUMBER);
        both.m("get n", "VALUE n 0 2/-1/END");
    }),
    ("a value that is no number", |both| {
        both.m("set t 0 0 4/text", "STORED");
        both.r("INCR t", "-ERR value is not an integer or out of range\r\n");
        both.r("SET t text", "+OK\r\n");
        both.m("incr t 1", NO_NUMBER);
    }),
    ("`add` where `SET` was", |both| {
        both.r("SET a x", "+OK\r\n");
        both.m("add a 0 0 1/y", "NOT_STORED");
        both.m("replace a 0 0 1/y", "STORED");
        both.m("set b 0 0 1/x", "STORED");
        both.r("SET b y NX", "$-1\r\n");
        both.r("SET b y XX", "+OK\r\n");
    }),
    ("`append`, `prepend`", |both| {
        both.r("SET a y", "+OK\r\n");
        both.m("append a 0 0 1/z", "STORED");
        both.m("prepend a 0 0 1/w", "STORED");
        both.r("GET a", "$3\r\nwyz\r\n");
        both.r("STRLEN a", ":3\r\n");
    }),
    ("`gets`, then `SET`, then `cas`", |both| cas_behind(both, "SET a new", "EXISTS")),
    ("`gets`, then `EXPIRE`, then `cas`", |both| cas_behind(both, "EXPIRE a 1000", "STORED")),
    ("`delete`", |both| {
        both.r("MSET a x b x", "+OK\r\n");
        both.m("delete a", "DELETED");
        both.r("EXISTS a", ":0\r\n");
        both.r("DEL b", ":1\r\n");
        both.m("get b", "END");
    }),
    ("`WATCH`, then `set` by memcached", |both| {
        both.r("WATCH a", "+OK\r\n");
        both.m("set a 0 0 1/x", "STORED");
        both.r("MULTI", "+OK\r\n");
        both.r("GET a", "+QUEUED\r\n");
        both.r("EXEC", "*-1\r\n");
    }),
    ("a hash by `HSET`", |both| {
        both.r("HSET h f v", ":1\r\n");
        both.m("get h", "END");
        both.m("append h 0 0 1/x", "NOT_STORED");
        both.m("prepend h 0 0 1/x", "NOT_STORED");
        both.m("incr h 1", NO_NUMBER);
        both.m("add h 0 0 1/x", "NOT_STORED");
        both.r("HGET h f", "$1\r\nv\r\n");
        both.m("set h 0 0 1/x", "STORED");
        both.r("TYPE h", "+string\r\n");
        both.r("HSET other f v", ":1\r\n");
        both.r("GET other", WRONG_TYPE);
        both.m("delete other", "DELETED");
        both.r("EXISTS other", ":0\r\n");
    }),
    ("a value by `set`", |both| {
        both.m("set h 0 0 1/x", "STORED");
        both.r("HGET h f", WRONG_TYPE);
        both.r("HSET h f v", WRONG_TYPE);
    }),
    ("`ms ... I`, `md ... I`: stale", |both| {
        both.m("set s 0 0 3/old", "STORED");
        both.m("md s I", "HD");
        both.r("GET s", "$3\r\nold\r\n");
        both.m("mg s v", "VA 3 X W/old");
        both.r("SET s new", "+OK\r\n");
        both.m("mg s v", "VA 3/new");
        let token = both.line("mg s c").strip_prefix("HD c").expect("a token").parse::<u64>().expect("a number");
        both.m(&format!("ms s 4 C{} I/late", token - 1), "HD");
        both.r("GET s", "$4\r\nlate\r\n");
        both.m("mg s v", "VA 4 X W/late");
    }),
    ("a value of 1 MiB by either", |both| {
        let long = pattern(1_000_000);
        both.memcached.ask(&set("m", &long), b"STORED\r\n");
        let reply = both.redis.ask(&[b"GET", b"m"]);
        assert!(reply.starts_with(b"$1000000\r\n") && reply[10..][..long.len()] == long);
        assert_eq!(both.redis.ask(&[b"SET", b"r", &long]), b"+OK\r\n");
        both.memcached.ask(b"get r\r\n", &value("r", &long));
    }),
];

/// Reads a CAS token, executes `words`, and asserts the outcome of a store with this token.
fn cas_behind(both: &mut Both, words: &str, outcome: &str) {
    both.m("set a 0 0 1/1", "STORED");
    let token = both.line("mg a c").strip_prefix("HD c").expect("a token").to_owned();
    both.do_r(words);
    both.m(&format!("cas a 0 0 1 {token}/2"), outcome);
}

#[test]
fn every_row_of_the_table_of_crossings_holds() {
    let page = include_str!("../../../../docs/namespaces.md");
    let table = page.split("| what was stored | read or changed by the other protocol |\n|---|---|\n").nth(1);
    let rows: Vec<&str> = table
        .expect("the table is there")
        .lines()
        .map_while(|line| line.strip_prefix("| ")?.split_once(" | ").map(|(stored, _)| stored))
        .collect();
    assert_eq!(rows, ROWS.map(|(stored, _)| stored), "each row has its test, in the order of the page");
    for namespace in [Namespace::DEFAULT, Namespace(5)] {
        let mut both = Both::new(namespace);
        for (stored, shows) in ROWS {
            println!("{stored}");
            both.r("FLUSHDB", "+OK\r\n");
            shows(&mut both);
        }
        both.running.stop();
    }
}

#[test]
fn a_flush_of_redis_cancels_the_delayed_flush_of_memcached() {
    let mut both = Both::new(Namespace::DEFAULT);
    for flush in ["FLUSHALL", "FLUSHDB"] {
        both.m("flush_all 1", "OK");
        both.r(flush, "+OK\r\n");
        both.r("SET kept v", "+OK\r\n");
        std::thread::sleep(std::time::Duration::from_millis(1500));
        both.r("GET kept", "$1\r\nv\r\n");
    }
    // Without another flush, the delayed one is executed.
    both.m("flush_all 1", "OK");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    both.r("GET kept", "$-1\r\n");
    both.running.stop();
}

/// The store counts long times to live in units of more than a millisecond.
#[test]
fn long_time_to_live_is_never_longer_than_requested() {
    let mut both = Both::new(Namespace::DEFAULT);
    // 30 days, a year, and 463 days, which have different units.
    for ttl in [2_592_000, 31_536_000, 40_000_000_i64] {
        let requests = [
            format!("SET a x EX {ttl}"),
            format!("SET a x PX {}", ttl * 1000),
            format!("SETEX a {ttl} x"),
            format!("EXPIRE a {ttl}"),
            format!("PEXPIRE a {}", ttl * 1000),
            format!("GETEX a EX {ttl}"),
        ];
        for words in requests {
            both.do_r(&words);
            assert_ttl(&mut both, "a", ttl, &words);
        }
        let end = both.number("EXPIRETIME a") / 7 * 7 + 7;
        for (at, by) in [(end, "EXPIREAT"), (end * 1000, "PEXPIREAT")] {
            both.do_r(&format!("{by} a {at}"));
            both.r("EXPIRETIME a", &format!(":{end}\r\n"));
            both.r("PEXPIRETIME a", &format!(":{end}000\r\n"));
        }
        both.do_r(&format!("PEXPIREAT a {end}877"));
        let exact = both.number("PEXPIRETIME a");
        assert!(exact == end * 1000 + if ttl < 33_000_000 { 870 } else { 0 }, "{exact} of {end}877");
        both.do_r("COPY a b REPLACE");
        both.do_r("RENAME b c");
        let dump = both.redis.ask(&[b"DUMP", b"a"]);
        let body = &dump[dump.iter().position(|byte| *byte == b'\n').expect("a length") + 1..dump.len() - 2];
        both.redis.ask(&[b"RESTORE", b"d", exact.to_string().as_bytes(), body, b"REPLACE", b"ABSTTL"]);
        assert_eq!(["c", "d"].map(|key| both.number(&format!("PEXPIRETIME {key}"))), [exact; 2]);
    }
    both.m("set a 0 2592000 1/x", "STORED");
    assert_ttl(&mut both, "a", 2_592_000, "set");
    both.m("touch a 2592000", "TOUCHED");
    assert_ttl(&mut both, "a", 2_592_000, "touch");
    both.do_r("HSET h f v");
    both.do_r("HEXPIRE h 40000000 FIELDS 1 f");
    let field = String::from_utf8(both.redis.ask(&[b"HPTTL", b"h", b"FIELDS", b"1", b"f"])).expect("text");
    let left_ms: i64 = field.trim().rsplit(':').next().and_then(|ms| ms.parse().ok()).expect("a number");
    assert!((39_990_000_000..=40_000_000_000).contains(&left_ms), "{left_ms}");
}

/// Asserts that all commands report a time to live of `ttl` seconds, less the time of the test.
fn assert_ttl(both: &mut Both, key: &str, ttl: i64, by: &str) {
    let [left, left_ms] = ["TTL", "PTTL"].map(|name| both.number(&format!("{name} {key}")));
    let meta: i64 = both.line(&format!("mg {key} t")).strip_prefix("HD t").expect("an end").parse().expect("a number");
    for (left, name) in [(left, "TTL"), (meta, "mg"), (left_ms.div_euclid(1000), "PTTL")] {
        assert!((ttl - 10..=ttl).contains(&left), "{name} is {left} after {by}");
    }
    assert!(left_ms <= ttl * 1000, "{left_ms} ms after {by}");
}
