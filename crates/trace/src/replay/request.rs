//! Writes an entry's request in each protocol.
//!
//! | trace | memcache | meta | RESP |
//! |---|---|---|---|
//! | get; several keys | `get` | `mg v`; `mg v k q` ... `mn` | `GET`; `MGET` |
//! | gets | `gets` | `mg c v` | `GET`, `MGET` |
//! | gat | `gat` | `mg v T` | `GETEX`; `MGET` |
//! | set, add, replace | the same | `ms`, `ms ME`, `ms MR` | `SET`, `SET NX`, `SET XX` |
//! | cas | `cas` with the token of the last gets | `ms C` with that token | `SET XX` |
//! | append, prepend | the same | `ms MA`, `ms MP` | `APPEND` |
//! | incr, decr | by 1 | `ma`, `ma MD` | `INCRBY`, `DECRBY` |
//! | delete, touch | the same | `md`, `mg T` | `DEL`, `EXPIRE` |
//! | hget, hgetall, hset, hdel | get, get, set, delete | get, get, set, delete | the same, with field `f` |

use base::prng::split_mix;
use protocol::memcache::client::{self, Expect, MetaRequest};
use protocol::memcache::request::{Arith, Store, StoreMode};
use protocol::resp::client::{self as resp, CommandLine};

use super::Script;
use crate::format::{TraceEntry, Verb};
use load::workload::model::Protocol;

const CRLF: &[u8] = b"\r\n";
/// Longest relative time to live in seconds; memcached treats larger numbers as instants.
const RELATIVE_S_MAX: u64 = 30 * 86_400;
/// Constant that is mixed into a key's hash to compute the mark in the key's values.
const MARK: u64 = 0x7265_706C_6179_0001;
/// The maximum number of digits of a number that can be incremented.
const NUMBER_DIGITS_MAX: u64 = 18;
/// The field that represents a whole hash.
const FIELD: &[u8] = b"f";

/// Returns the mark in the values of `key`.
pub fn mark(key: u64) -> u64 {
    split_mix(key ^ MARK)
}

/// A request that is being written.
pub struct RequestDraft<'d> {
    /// Settings of the replay.
    pub script: &'d Script,
    /// The entry to send.
    pub entry: &'d TraceEntry,
    /// The text of the entry's key.
    pub key: &'d [u8],
    /// Version in the value's mark.
    pub version: u64,
    /// The token that a swap compares.
    pub token: u64,
    /// Buffer for a value.
    pub word: &'d mut Vec<u8>,
}

/// Returns the reply that memcached gives to its form of `verb`, alone or with other keys.
pub fn expect(protocol: Protocol, verb: Verb, is_alone: bool) -> Expect {
    match (protocol, verb) {
        (Protocol::Meta, _) if is_alone => Expect::Meta,
        (Protocol::Meta, _) => Expect::UntilNoop,
        (_, verb) if verb.reads() => Expect::Values,
        (_, Verb::Delete | Verb::HashDelete) => Expect::Delete,
        (_, Verb::Incr | Verb::Decr) => Expect::Arith,
        (_, Verb::Touch) => Expect::Touch,
        _ => Expect::Store,
    }
}

impl RequestDraft<'_> {
    /// Writes the request. Returns the number of bytes of value in it.
    pub fn put(&mut self, out: &mut Vec<u8>) -> u64 {
        match self.script.protocol {
            Protocol::Resp | Protocol::Resp3 => self.put_resp(out),
            Protocol::Meta => self.put_meta(out),
            Protocol::Memcache | Protocol::Ping | Protocol::Grpc => self.put_text(out),
        }
    }

    fn exptime(&self) -> i64 {
        match self.script.ttl_s(self.entry.ttl_s) {
            seconds @ 0..=RELATIVE_S_MAX => seconds as i64,
            seconds => (self.script.now_s + seconds) as i64,
        }
    }

    fn value_bytes(&self) -> u32 {
        self.script.sent_bytes(self.entry.value_bytes)
    }

    /// Appends the value. A short value of an altered key is a number, so that it can be incremented.
    fn put_value(&self, out: &mut Vec<u8>) -> u64 {
        let (key, len) = (self.entry.key, u64::from(self.value_bytes()));
        if (1..=NUMBER_DIGITS_MAX).contains(&len) && self.script.altered.has(key) {
            out.push(b'1');
            out.resize(out.len() + len as usize - 1, b'0');
        } else {
            self.script.values.put(mark(key), self.version, len, out);
        }
        len
    }

    fn put_text(&self, out: &mut Vec<u8>) -> u64 {
        let key = self.key;
        let (mode, compare) = match self.entry.verb {
            Verb::Get | Verb::HashGet | Verb::HashGetAll => {
                client::get(out, key);
                return 0;
            }
            Verb::Gets => {
                client::multi_gets(out, [key]);
                return 0;
            }
            Verb::Gat => {
                client::gat(out, self.exptime(), [key]);
                return 0;
            }
            Verb::Delete | Verb::HashDelete => {
                client::delete(out, key, false);
                return 0;
            }
            verb @ (Verb::Incr | Verb::Decr) => {
                client::arith(out, &Arith { key, delta: 1, decrement: verb == Verb::Decr, noreply: false });
                return 0;
            }
            Verb::Touch => {
                client::touch(out, key, self.exptime(), false);
                return 0;
            }
            Verb::Set | Verb::HashSet => (StoreMode::Set, None),
            Verb::Cas => (StoreMode::Set, Some(self.token)),
            Verb::Add => (StoreMode::Add, None),
            Verb::Replace => (StoreMode::Replace, None),
            Verb::Append => (StoreMode::Append, None),
            Verb::Prepend => (StoreMode::Prepend, None),
        };
        let (exptime, value_len) = (self.exptime(), self.value_bytes());
        client::store(out, &Store { mode, key, client_flags: 0, exptime, value_len, compare, noreply: false });
        let bytes = self.put_value(out);
        out.extend_from_slice(CRLF);
        bytes
    }

    fn put_meta(&self, out: &mut Vec<u8>) -> u64 {
        let key = self.key;
        let mode: &[u8] = match self.entry.verb {
            Verb::Get | Verb::HashGet | Verb::HashGetAll => {
                MetaRequest::get(out, key).flag(b'v').finish();
                return 0;
            }
            Verb::Gets => {
                MetaRequest::get(out, key).flag(b'c').flag(b'v').finish();
                return 0;
            }
            Verb::Gat => {
                MetaRequest::get(out, key).flag(b'v').signed(b'T', self.exptime()).finish();
                return 0;
            }
            Verb::Delete | Verb::HashDelete => {
                MetaRequest::delete(out, key).finish();
                return 0;
            }
            Verb::Incr => {
                MetaRequest::arith(out, key).finish();
                return 0;
            }
            Verb::Decr => {
                MetaRequest::arith(out, key).token(b'M', b"D").finish();
                return 0;
            }
            Verb::Touch => {
                MetaRequest::get(out, key).signed(b'T', self.exptime()).finish();
                return 0;
            }
            Verb::Set | Verb::HashSet | Verb::Cas => b"",
            Verb::Add => b"E",
            Verb::Replace => b"R",
            Verb::Append => b"A",
            Verb::Prepend => b"P",
        };
        let mut request = MetaRequest::store(out, key, self.value_bytes());
        if !mode.is_empty() {
            request = request.token(b'M', mode);
        }
        if self.entry.verb == Verb::Cas {
            request = request.number(b'C', self.token);
        }
        if self.entry.ttl_s > 0 {
            request = request.signed(b'T', self.exptime());
        }
        request.finish();
        let bytes = self.put_value(out);
        out.extend_from_slice(CRLF);
        bytes
    }

    fn put_resp(&mut self, out: &mut Vec<u8>) -> u64 {
        let key = self.key;
        let ttl_s = self.script.ttl_s(self.entry.ttl_s) as i64;
        let line = |out, args, name: &[u8]| CommandLine::new(out, args).arg(name).arg(key);
        match self.entry.verb {
            Verb::Get | Verb::Gets => resp::get(out, key),
            Verb::Gat if ttl_s == 0 => drop(line(out, 3, b"GETEX").arg(b"PERSIST")),
            Verb::Gat => drop(line(out, 4, b"GETEX").arg(b"EX").number(ttl_s)),
            Verb::Delete => drop(line(out, 2, b"DEL")),
            Verb::Incr => drop(line(out, 3, b"INCRBY").number(1)),
            Verb::Decr => drop(line(out, 3, b"DECRBY").number(1)),
            Verb::Touch if ttl_s == 0 => drop(line(out, 2, b"PERSIST")),
            Verb::Touch => drop(line(out, 3, b"EXPIRE").number(ttl_s)),
            Verb::HashGet => drop(line(out, 3, b"HGET").arg(FIELD)),
            Verb::HashGetAll => drop(line(out, 2, b"HGETALL")),
            Verb::HashDelete => drop(line(out, 3, b"HDEL").arg(FIELD)),
            verb => return self.put_resp_value(verb, ttl_s, out),
        }
        0
    }

    fn put_resp_value(&mut self, verb: Verb, ttl_s: i64, out: &mut Vec<u8>) -> u64 {
        let mut word = std::mem::take(self.word);
        word.clear();
        let bytes = self.put_value(&mut word);
        let condition: &[u8] = match verb {
            Verb::Add => b"NX",
            Verb::Replace | Verb::Cas => b"XX",
            _ => b"",
        };
        let line = |out, args, name: &[u8]| CommandLine::new(out, args).arg(name).arg(self.key);
        match verb {
            Verb::Append | Verb::Prepend => drop(line(out, 3, b"APPEND").arg(&word)),
            Verb::HashSet => drop(line(out, 4, b"HSET").arg(FIELD).arg(&word)),
            _ => {
                let args = 3 + u32::from(!condition.is_empty()) + if ttl_s > 0 { 2 } else { 0 };
                let mut request = line(out, args, b"SET").arg(&word);
                if !condition.is_empty() {
                    request = request.arg(condition);
                }
                if ttl_s > 0 {
                    request.arg(b"EX").number(ttl_s);
                }
            }
        }
        *self.word = word;
        bytes
    }
}

/// Appends a request for `count` keys to `out`. `text` appends the key with a given index to a buffer.
pub fn put_many(
    script: &Script,
    verb: Verb,
    count: usize,
    text: &mut dyn FnMut(usize, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    match script.protocol {
        Protocol::Resp | Protocol::Resp3 => {
            let mut line = CommandLine::new(out, 1 + count as u32).arg(b"MGET");
            let mut key = Vec::new();
            for at in 0..count {
                key.clear();
                text(at, &mut key);
                line = line.arg(&key);
            }
        }
        Protocol::Meta => {
            let mut key = Vec::new();
            for at in 0..count {
                key.clear();
                text(at, &mut key);
                let request = MetaRequest::get(out, &key).flag(b'v').flag(b'k').flag(b'q');
                if verb == Verb::Gets { request.flag(b'c') } else { request }.finish();
            }
            client::meta_noop(out);
        }
        Protocol::Memcache | Protocol::Ping | Protocol::Grpc => {
            out.extend_from_slice(match verb {
                Verb::Gets => b"gets",
                _ => b"get".as_slice(),
            });
            for at in 0..count {
                out.push(b' ');
                text(at, out);
            }
            out.extend_from_slice(CRLF);
        }
    }
}
