//! What one protocol stores, as the other reads and changes it: each row of the table in `docs/namespaces.md`.

mod common;

use common::redis::Replies;
use common::{Client, config, pattern, set, start, value};
use gannet_server::command::{Door, Protocol};
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use segment::Namespace;

/// A client of each protocol in one namespace.
struct Both {
    running: Running,
    redis: Replies,
    memcached: Client,
}

impl Both {
    fn new(namespace: Namespace) -> Self {
        let any = || ListenAddr::Tcp(([127, 0, 0, 1], 0).into());
        let protocols = [Protocol::Memcache, Protocol::Resp];
        let doors = protocols.map(|protocol| (Door::new(protocol, namespace), any())).to_vec();
        let running = start(ServerConfig { doors, ..config() });
        let addr = |protocol| {
            let found = running.doors().find_map(|(door, addr)| match addr {
                ListenAddr::Tcp(addr) if (door.protocol, door.namespace) == (protocol, namespace) => Some(*addr),
                _ => None,
            });
            found.expect("a listener")
        };
        let redis = Replies::connect(addr(Protocol::Resp));
        let memcached = Client::connect(addr(Protocol::Memcache));
        Self { running, redis, memcached }
    }

    /// A request of words, and its whole reply.
    fn r(&mut self, words: &str, reply: &str) {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        let got = self.redis.ask(&words);
        assert_eq!(String::from_utf8_lossy(&got), reply, "{:?}", String::from_utf8_lossy(&words.join(&b' ')));
    }

    /// A request with `/` for its line ends, and its whole reply.
    fn m(&mut self, request: &str, reply: &str) {
        let lines = |text: &str| [&text.replace('/', "\r\n"), "\r\n"].concat();
        self.memcached.ask(lines(request).as_bytes(), lines(reply).as_bytes());
    }
}

/// In the default namespace, and in another one.
fn in_each(rows: impl Fn(&mut Both)) {
    for namespace in [Namespace::DEFAULT, Namespace(5)] {
        let mut both = Both::new(namespace);
        rows(&mut both);
        both.running.stop();
    }
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

#[test]
fn values_and_flags() {
    in_each(|both| {
        both.m("set a 7 0 5/hello", "STORED");
        both.r("GET a", "$5\r\nhello\r\n");
        both.r("SET b theirs", "+OK\r\n");
        both.m("get b", "VALUE b 0 6/theirs/END");
        for words in ["APPEND a !", "SETRANGE a 0 J", "EXPIRE a 1000", "GETEX a PERSIST", "RENAME a c", "COPY c a"] {
            both.redis.ask(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            both.m(if words.ends_with(" c") { "get c" } else { "get a" }, &{
                let key = if words.ends_with(" c") { "c" } else { "a" };
                let value = match words {
                    "APPEND a !" => "hello!",
                    _ => "Jello!",
                };
                format!("VALUE {key} 7 6/{value}/END")
            });
        }
        both.m("set n 9 0 2/41", "STORED");
        both.r("INCR n", ":42\r\n");
        both.m("get n", "VALUE n 9 2/42/END");
        both.r("SET a new", "+OK\r\n");
        both.m("get a", "VALUE a 0 3/new/END");
        both.m("set a 7 0 5/hello", "STORED");
        both.r("SET a new KEEPTTL", "+OK\r\n");
        both.m("get a", "VALUE a 0 3/new/END");
    });
}

#[test]
fn ends() {
    in_each(|both| {
        both.m("set a 0 1000 1/x", "STORED");
        let reply = both.redis.ask(&[b"PTTL", b"a"]);
        let ms: i64 = String::from_utf8_lossy(&reply[1..]).trim().parse().expect("a number");
        assert!((900_000..=1_000_000).contains(&ms), "{ms}");
        both.m("set a 0 4102444800 1/x", "STORED");
        both.r("EXPIRETIME a", ":4102444800\r\n");
        both.r("SET b x EXAT 4102444800", "+OK\r\n");
        for (words, end) in [("PERSIST b", "t-1"), ("EXPIREAT b 4102444800", "t")] {
            both.redis.ask(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            both.memcached.send(b"mg b t\r\n");
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                let mut byte = [0];
                std::io::Read::read_exact(&mut both.memcached.stream, &mut byte).expect("an answer");
                line.push(byte[0]);
            }
            let line = String::from_utf8(line).expect("text");
            assert!(
                line.starts_with(&format!("HD {end}")) && (end == "t-1") == line.contains("t-1"),
                "{words}: {line}"
            );
        }
        both.m("touch b 0", "TOUCHED");
        both.r("TTL b", ":-1\r\n");
        both.m("gat 4102444800 b", "VALUE b 0 1/x/END");
        both.r("EXPIRETIME b", ":4102444800\r\n");
        both.m("set gone 0 -1 1/x", "STORED");
        both.r("EXISTS gone", ":0\r\n");
    });
}

#[test]
fn numbers() {
    in_each(|both| {
        both.m("set n 0 0 2/41", "STORED");
        both.r("INCR n", ":42\r\n");
        both.m("incr n 1", "43");
        both.m("ms n 2/50", "HD");
        both.r("DECRBY n 60", ":-10\r\n");
        both.m("get n", "VALUE n 0 3/-10/END");
        both.m("incr n 1", "CLIENT_ERROR cannot increment or decrement non-numeric value");
        both.m("set t 0 0 4/text", "STORED");
        both.r("INCR t", "-ERR value is not an integer or out of range\r\n");
        both.r("SET t text", "+OK\r\n");
        both.m("incr t 1", "CLIENT_ERROR cannot increment or decrement non-numeric value");
    });
}

#[test]
fn conditions_and_tokens() {
    in_each(|both| {
        both.r("SET a x", "+OK\r\n");
        both.m("add a 0 0 1/y", "NOT_STORED");
        both.m("replace a 0 0 1/y", "STORED");
        both.m("set b 0 0 1/x", "STORED");
        both.r("SET b y NX", "$-1\r\n");
        both.r("SET b y XX", "+OK\r\n");
        both.m("append a 0 0 1/z", "STORED");
        both.m("prepend a 0 0 1/w", "STORED");
        both.r("GET a", "$3\r\nwyz\r\n");
        both.r("STRLEN a", ":3\r\n");
        for (words, outcome) in [("SET a new", "EXISTS"), ("EXPIRE a 1000", "STORED"), ("INCR a", "EXISTS")] {
            both.m("set a 0 0 1/1", "STORED");
            both.memcached.send(b"mg a c\r\n");
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                let mut byte = [0];
                std::io::Read::read_exact(&mut both.memcached.stream, &mut byte).expect("an answer");
                line.push(byte[0]);
            }
            let line = String::from_utf8(line).expect("text");
            let token = line.trim_end().strip_prefix("HD c").expect("a token").to_owned();
            both.redis.ask(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            both.m(&format!("cas a 0 0 1 {token}/2"), outcome);
        }
        both.m("delete a", "DELETED");
        both.r("EXISTS a", ":0\r\n");
        both.r("DEL b", ":1\r\n");
        both.m("get b", "END");
        both.r("WATCH a", "+OK\r\n");
        both.m("set a 0 0 1/x", "STORED");
        both.r("MULTI", "+OK\r\n");
        both.r("GET a", "+QUEUED\r\n");
        both.r("EXEC", "*-1\r\n");
    });
}

#[test]
fn types_and_leases() {
    in_each(|both| {
        both.r("HSET h f v", ":1\r\n");
        both.m("get h", "END");
        both.m("append h 0 0 1/x", "NOT_STORED");
        both.m("prepend h 0 0 1/x", "NOT_STORED");
        both.m("incr h 1", "CLIENT_ERROR cannot increment or decrement non-numeric value");
        both.m("add h 0 0 1/x", "NOT_STORED");
        both.r("HGET h f", "$1\r\nv\r\n");
        both.m("set h 0 0 1/x", "STORED");
        both.r("TYPE h", "+string\r\n");
        both.r("HGET h f", WRONG_TYPE);
        both.r("HSET h f v", WRONG_TYPE);
        both.r("HSET other f v", ":1\r\n");
        both.r("GET other", WRONG_TYPE);
        both.m("delete other", "DELETED");
        both.r("EXISTS other", ":0\r\n");
        both.m("set s 0 0 3/old", "STORED");
        both.m("md s I", "HD");
        both.r("GET s", "$3\r\nold\r\n");
        both.m("mg s v", "VA 3 X W/old");
        both.r("SET s new", "+OK\r\n");
        both.m("mg s v", "VA 3/new");
    });
}

#[test]
fn long_values() {
    in_each(|both| {
        let long = pattern(1_000_000);
        both.memcached.ask(&set("m", &long), b"STORED\r\n");
        let reply = both.redis.ask(&[b"GET", b"m"]);
        assert!(reply.starts_with(b"$1000000\r\n") && reply[10..][..long.len()] == long);
        assert_eq!(both.redis.ask(&[b"SET", b"r", &long]), b"+OK\r\n");
        both.memcached.ask(b"get r\r\n", &value("r", &long));
    });
}
