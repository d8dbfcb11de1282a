//! Clients for the few requests that tests send to the servers between which keys are copied.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::{PATIENCE, Serving};

/// Starts Gannet with the memcached protocol. Returns the server and its port.
pub fn gannet() -> (Serving, u16) {
    let args =
        ["--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "128MiB", "--item-max", "4MiB", "--workers", "1"];
    let mut serving = Serving::start(&args);
    let port = serving.addr_behind("memcached clients connect to ").port();
    (serving, port)
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// A value with its flags, and the range of instants at which it expires.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub value: Vec<u8>,
    pub flags: u32,
    pub expires_ms: Option<(i64, i64)>,
}

/// A connection that uses memcached's meta commands.
pub struct Meta(BufReader<TcpStream>);

impl Meta {
    pub fn to(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).unwrap();
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    pub fn ask(&mut self, request: &[u8]) -> String {
        self.0.get_mut().write_all(request).unwrap();
        self.line()
    }

    pub fn set(&mut self, key: &[u8], value: &[u8], flags: u32, ttl_s: u64) {
        // The protocol interprets a time above 30 days as an instant.
        let ttl_s = if ttl_s > 30 * 86_400 { now_ms() as u64 / 1000 + ttl_s } else { ttl_s };
        let head = format!("ms {} {} b F{flags} T{ttl_s}\r\n", base64(key), value.len());
        assert_eq!(self.ask(&[head.as_bytes(), value, b"\r\n"].concat()), "HD");
    }

    pub fn read(&mut self, key: &[u8]) -> Option<Kept> {
        let before_ms = now_ms();
        let line = self.ask(format!("mg {} b v f t\r\n", base64(key)).as_bytes());
        let after_ms = now_ms();
        if line == "EN" {
            return None;
        }
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[0], "VA", "{line}");
        let mut value = vec![0; words[1].parse::<usize>().unwrap() + 2];
        self.0.read_exact(&mut value).unwrap();
        value.truncate(value.len() - 2);
        let flag = |letter: char| words[2..].iter().find_map(|word| word.strip_prefix(letter)).unwrap();
        let ttl_s: i64 = flag('t').parse().unwrap();
        let expires_ms = (ttl_s >= 0).then_some((before_ms + ttl_s * 1000 - 1000, after_ms + ttl_s * 1000 + 1000));
        Some(Kept { value, flags: flag('f').parse().unwrap(), expires_ms })
    }

    pub fn statistic(&mut self, name: &str) -> u64 {
        let mut line = self.ask(b"stats\r\n");
        let mut found = None;
        while line != "END" {
            if let Some(value) = line.strip_prefix(&format!("STAT {name} ")) {
                found = value.parse().ok();
            }
            line = self.line();
        }
        found.unwrap_or_else(|| panic!("no statistic {name}"))
    }
}

/// Checks that the keys' values, flags and expiry times are the same at both servers. Expiry times may differ by a
/// second.
pub fn assert_same(keys: &[Vec<u8>], from: &mut Meta, to: &mut Meta) {
    for key in keys {
        let shown = key.escape_ascii();
        let own = from.read(key).unwrap_or_else(|| panic!("{shown} is gone"));
        let other = to.read(key).unwrap_or_else(|| panic!("{shown} was not copied"));
        assert!(own.value == other.value, "{shown}: {} bytes, {} bytes", own.value.len(), other.value.len());
        assert_eq!(own.flags, other.flags, "{shown}");
        match (own.expires_ms, other.expires_ms) {
            (None, None) => {}
            (Some(own), Some(other)) => assert!(own.0 <= other.1 && other.0 <= own.1, "{shown}: {own:?} {other:?}"),
            others => panic!("{shown}: {others:?}"),
        }
    }
}

pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let at = (word >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit <= three.len() { char::from(DIGITS[at]) } else { '=' });
        }
    }
    text
}

/// The type of a key, its value and its expiry time.
pub type Value = (Vec<u8>, Answer, Answer);
/// All keys of a database.
pub type Values = BTreeMap<Vec<u8>, Value>;

/// A reply in RESP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    Nil,
    Int(i64),
    Text(Vec<u8>),
    Error(String),
    List(Vec<Answer>),
}

/// A connection that uses RESP.
pub struct Resp(BufReader<TcpStream>);

impl Resp {
    pub fn to(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    pub fn ask(&mut self, args: &[&[u8]]) -> Answer {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            request.extend_from_slice(arg);
            request.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&request).unwrap();
        self.answer()
    }

    /// Sends a request, whose words are separated by spaces in `words`. Returns the reply.
    pub fn say(&mut self, words: &str) -> Answer {
        self.ask(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    fn answer(&mut self) -> Answer {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).unwrap();
        let text = String::from_utf8_lossy(&line[1..]).trim_end().to_owned();
        match line[0] {
            b'+' => Answer::Text(text.into_bytes()),
            b'-' => Answer::Error(text),
            b':' => Answer::Int(text.parse().unwrap()),
            b'$' if text == "-1" => Answer::Nil,
            b'*' if text == "-1" => Answer::Nil,
            b'$' => {
                let mut bytes = vec![0; text.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Answer::Text(bytes)
            }
            b'*' => Answer::List((0..text.parse::<usize>().unwrap()).map(|_| self.answer()).collect()),
            other => panic!("an answer that begins with {other}"),
        }
    }

    /// Returns every key of the database with its type, its value in an order that is the same on all servers, and its
    /// expiry time.
    pub fn all(&mut self) -> Values {
        let Answer::List(keys) = self.say("KEYS *") else { panic!("no keys") };
        let mut all = BTreeMap::new();
        for key in keys {
            let Answer::Text(key) = key else { panic!("no key") };
            let Answer::Text(kind) = self.ask(&[b"TYPE", &key]) else { panic!("no type") };
            let value = match kind.as_slice() {
                b"string" => self.ask(&[b"GET", &key]),
                b"hash" => self.ask(&[b"HGETALL", &key]),
                b"list" => self.ask(&[b"LRANGE", &key, b"0", b"-1"]),
                b"set" => self.ask(&[b"SMEMBERS", &key]),
                b"zset" => self.ask(&[b"ZRANGE", &key, b"0", b"-1", b"WITHSCORES"]),
                b"stream" => self.ask(&[b"XRANGE", &key, b"-", b"+"]),
                other => panic!("type {}", other.escape_ascii()),
            };
            let value = match (kind.as_slice(), value) {
                (b"hash", Answer::List(list)) => {
                    let mut pairs: Vec<Answer> = list.chunks(2).map(|pair| Answer::List(pair.to_vec())).collect();
                    pairs.sort();
                    Answer::List(pairs)
                }
                (b"set", Answer::List(mut list)) => {
                    list.sort();
                    Answer::List(list)
                }
                (_, value) => value,
            };
            let expires = self.ask(&[b"PEXPIRETIME", &key]);
            all.insert(key, (kind, value, expires));
        }
        all
    }
}
