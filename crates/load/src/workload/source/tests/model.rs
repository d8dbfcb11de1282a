//! A server in memory that reads requests with the protocol crate's own parsers and answers as servers do.

use std::collections::{BTreeMap, HashMap};

use protocol::memcache::key::KeyScratch;
use protocol::memcache::meta::{Meta, MetaStoreMode};
use protocol::memcache::reply::{self, MetaLine};
use protocol::memcache::request::{Get, Store, StoreMode};
use protocol::memcache::{Parsed, Request, parse};
use protocol::resp;

/// The contents of a server, and the requests that it received.
#[derive(Default)]
pub struct Model {
    pub items: HashMap<Vec<u8>, Item>,
    pub hashes: HashMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>,
    pub requests: u64,
    pub exptimes: Vec<i64>,
    pub greeted: Vec<String>,
    /// True if the replies are in RESP3.
    pub resp3: bool,
    tokens: u64,
}

#[derive(Clone, Default)]
pub struct Item {
    pub value: Vec<u8>,
    pub cas: u64,
}

impl Model {
    fn store(&mut self, key: &[u8], mode: StoreMode, compare: Option<u64>, value: &[u8]) -> &'static [u8] {
        self.tokens += 1;
        let cas = self.tokens;
        let old = self.items.get(key);
        let value = match (mode, compare, old) {
            (_, Some(_), None) => return b"NOT_FOUND\r\n",
            (_, Some(token), Some(old)) if old.cas != token => return b"EXISTS\r\n",
            (StoreMode::Add, _, Some(_)) | (StoreMode::Replace | StoreMode::Append | StoreMode::Prepend, _, None) => {
                return b"NOT_STORED\r\n";
            }
            (StoreMode::Append, _, Some(old)) => [&old.value, value].concat(),
            (StoreMode::Prepend, _, Some(old)) => [value, &old.value].concat(),
            _ => value.to_vec(),
        };
        self.items.insert(key.to_vec(), Item { value, cas });
        b"STORED\r\n"
    }

    fn arith(&mut self, key: &[u8], delta: u64, decrement: bool) -> Option<u64> {
        let old: u64 = std::str::from_utf8(&self.items.get(key)?.value).ok()?.parse().ok()?;
        let new = if decrement { old.saturating_sub(delta) } else { old.wrapping_add(delta) };
        self.store(key, StoreMode::Set, None, new.to_string().as_bytes());
        Some(new)
    }

    /// Replies to all requests in `input`, which must contain only complete, valid requests.
    pub fn memcache(&mut self, mut input: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        while !input.is_empty() {
            if let Some(rest) = input.strip_prefix(b"PING\r\n") {
                (input, self.requests) = (rest, self.requests + 1);
                out.extend_from_slice(b"PONG\r\n");
                continue;
            }
            let parsed = parse(input);
            let Parsed::Request { request, consumed } = parsed else {
                panic!("{parsed:?} of {:?}", String::from_utf8_lossy(&input[..input.len().min(200)]));
            };
            self.requests += 1;
            let mut behind = &input[consumed..];
            let mut body = |len: u32| {
                let (value, rest) = behind.split_at(len as usize);
                behind = rest.strip_prefix(b"\r\n").expect("a line end behind the value");
                value
            };
            match request {
                Request::Get(get) => self.text_get(get, &mut out),
                Request::Store(Store { mode, key, compare, value_len, exptime, .. }) => {
                    let value = body(value_len);
                    if key == b"auth" {
                        self.greeted.push(String::from_utf8_lossy(value).into_owned());
                    }
                    self.exptimes.push(exptime);
                    out.extend_from_slice(self.store(key, mode, compare, value));
                }
                Request::Delete { key, .. } => {
                    let found = self.items.remove(key).is_some();
                    out.extend_from_slice(if found { b"DELETED\r\n" } else { b"NOT_FOUND\r\n" });
                }
                Request::Arith(arith) => match self.arith(arith.key, arith.delta, arith.decrement) {
                    Some(value) => reply::number(&mut out, value),
                    None => out.extend_from_slice(b"NOT_FOUND\r\n"),
                },
                Request::Touch { key, exptime, .. } => {
                    self.exptimes.push(exptime);
                    let found = self.items.contains_key(key);
                    out.extend_from_slice(if found { b"TOUCHED\r\n" } else { b"NOT_FOUND\r\n" });
                }
                Request::Version => out.extend_from_slice(b"VERSION 1.6.45\r\n"),
                Request::MetaNoop => out.extend_from_slice(b"MN\r\n"),
                Request::MetaGet(meta) => self.meta_get(&meta, &mut out),
                Request::MetaStore(meta, len) => {
                    let value = body(len);
                    self.exptimes.extend(meta.expire());
                    let mode = match meta.store_mode() {
                        MetaStoreMode::Set => StoreMode::Set,
                        MetaStoreMode::Add => StoreMode::Add,
                        MetaStoreMode::Replace => StoreMode::Replace,
                        MetaStoreMode::Append => StoreMode::Append,
                        MetaStoreMode::Prepend => StoreMode::Prepend,
                    };
                    let key = meta.key.bytes(&mut KeyScratch::default()).to_vec();
                    out.extend_from_slice(match self.store(&key, mode, meta.compare(), value) {
                        b"STORED\r\n" => b"HD\r\n",
                        b"EXISTS\r\n" => b"EX\r\n",
                        b"NOT_FOUND\r\n" => b"NF\r\n",
                        _ => b"NS\r\n",
                    });
                }
                Request::MetaDelete(meta) => {
                    let key = meta.key.bytes(&mut KeyScratch::default()).to_vec();
                    let found = self.items.remove(&key).is_some();
                    out.extend_from_slice(if found { b"HD\r\n" } else { b"NF\r\n" });
                }
                Request::MetaArith(meta) => {
                    let key = meta.key.bytes(&mut KeyScratch::default()).to_vec();
                    let found = self.arith(&key, meta.delta(), meta.is_decrement()).is_some();
                    out.extend_from_slice(if found { b"HD\r\n" } else { b"NF\r\n" });
                }
                other => panic!("{other:?} is not answered here"),
            }
            input = behind;
        }
        out
    }

    fn text_get(&mut self, get: Get<'_>, out: &mut Vec<u8>) {
        for key in get.keys {
            if let Some(item) = self.items.get(key) {
                reply::value_header(out, key, 0, item.value.len() as u64, get.with_cas.then_some(item.cas));
                out.extend_from_slice(&item.value);
                out.extend_from_slice(b"\r\n");
            }
        }
        out.extend_from_slice(b"END\r\n");
    }

    fn meta_get(&mut self, meta: &Meta<'_>, out: &mut Vec<u8>) {
        self.exptimes.extend(meta.expire());
        let key = meta.key.bytes(&mut KeyScratch::default()).to_vec();
        let Some(item) = self.items.get(&key) else {
            if !meta.has(b'q') {
                out.extend_from_slice(b"EN\r\n");
            }
            return;
        };
        let with_value = meta.has(b'v');
        let len = item.value.len() as u64;
        let mut line = if with_value { MetaLine::with_value(out, len) } else { MetaLine::new(out, b"HD") };
        if meta.has(b'c') {
            line.number(b'c', item.cas);
        }
        line.reflect(meta);
        line.finish();
        if with_value {
            out.extend_from_slice(&item.value);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Replies to RESP requests, as [`Model::memcache`] does to memcached's.
    pub fn resp(&mut self, mut input: &[u8]) -> Vec<u8> {
        let limits = resp::Limits { long_bytes_min: u32::MAX, ..resp::Limits::REDIS };
        let mut out = Vec::new();
        while !input.is_empty() {
            let parsed = resp::Parser::new().parse(input, &limits);
            let resp::Parsed::Request { args, consumed } = parsed else { panic!("{parsed:?} of {input:?}") };
            self.requests += 1;
            let args: Vec<&[u8]> = args.into_iter().collect();
            self.command(&args, &mut out);
            input = &input[consumed..];
        }
        out
    }

    fn command(&mut self, args: &[&[u8]], out: &mut Vec<u8>) {
        let version = if self.resp3 { resp::Version::Resp3 } else { resp::Version::Resp2 };
        let text = |arg: &[u8]| String::from_utf8(arg.to_vec()).unwrap();
        let number = |arg: &[u8]| text(arg).parse::<i64>().unwrap();
        let bulk = |out: &mut Vec<u8>, value: Option<&[u8]>| match value {
            Some(value) => resp::reply::bulk(out, value),
            None => resp::reply::null(out, version),
        };
        match (text(args[0]).as_str(), &args[1..]) {
            ("PING", []) => resp::reply::simple(out, b"PONG"),
            ("HELLO", said) => {
                self.greeted.push(said.iter().map(|word| text(word)).collect::<Vec<_>>().join(" "));
                resp::reply::map(out, version, 2);
                resp::reply::bulk(out, b"proto");
                resp::reply::int(out, 3);
                resp::reply::bulk(out, b"modules");
                resp::reply::array(out, 0);
            }
            ("AUTH" | "SELECT" | "CLIENT", said) => {
                self.greeted.push(said.iter().map(|word| text(word)).collect::<Vec<_>>().join(" "));
                resp::reply::simple(out, b"OK");
            }
            ("GET", [key]) => bulk(out, self.items.get(*key).map(|item| &item.value[..])),
            ("MGET", keys) => {
                resp::reply::array(out, keys.len() as u64);
                keys.iter().for_each(|key| bulk(out, self.items.get(*key).map(|item| &item.value[..])));
            }
            ("SETEX", [key, seconds, value]) => {
                self.exptimes.push(number(seconds));
                self.store(key, StoreMode::Set, None, value);
                resp::reply::simple(out, b"OK");
            }
            ("SET", [key, value, options @ ..]) => {
                let mode = match options {
                    [b"NX", ..] => StoreMode::Add,
                    [b"XX", ..] => StoreMode::Replace,
                    _ => StoreMode::Set,
                };
                if let [_, b"EX", seconds] = options {
                    self.exptimes.push(number(seconds));
                }
                match self.store(key, mode, None, value) {
                    b"STORED\r\n" => resp::reply::simple(out, b"OK"),
                    _ => resp::reply::null(out, version),
                }
            }
            ("APPEND", [key, value]) => {
                let item = self.items.entry(key.to_vec()).or_default();
                item.value.extend_from_slice(value);
                resp::reply::int(out, item.value.len() as i64);
            }
            ("INCRBY" | "DECRBY", [key, delta]) => {
                let delta = number(delta) as u64;
                self.items.entry(key.to_vec()).or_insert_with(|| Item { value: b"0".to_vec(), cas: 0 });
                match self.arith(key, delta, args[0] == b"DECRBY") {
                    Some(value) => resp::reply::int(out, value as i64),
                    None => resp::reply::error(out, b"ERR value is not an integer or out of range"),
                }
            }
            ("DEL", [key]) => resp::reply::int(out, self.items.remove(*key).is_some().into()),
            ("EXPIRE", [key, seconds]) => {
                self.exptimes.push(number(seconds));
                resp::reply::int(out, self.items.contains_key(*key).into());
            }
            ("HSET", [key, pairs @ ..]) => {
                let hash = self.hashes.entry(key.to_vec()).or_default();
                let new = pairs.chunks(2).filter(|pair| hash.insert(pair[0].to_vec(), pair[1].to_vec()).is_none());
                resp::reply::int(out, new.count() as i64);
            }
            ("HINCRBY", [key, field, delta]) => {
                let count = self.hashes.entry(key.to_vec()).or_default().entry(field.to_vec()).or_insert(b"0".to_vec());
                let next = text(count).parse::<i64>().unwrap() + number(delta);
                *count = next.to_string().into_bytes();
                resp::reply::int(out, next);
            }
            ("HGET", [key, field]) => bulk(out, self.field(key, field)),
            ("HMGET", [key, fields @ ..]) => {
                resp::reply::array(out, fields.len() as u64);
                fields.iter().for_each(|field| bulk(out, self.field(key, field)));
            }
            ("HGETALL", [key]) => {
                let hash = self.hashes.get(*key);
                resp::reply::map(out, version, hash.map_or(0, BTreeMap::len) as u64);
                for (field, value) in hash.into_iter().flatten() {
                    resp::reply::bulk(out, field);
                    resp::reply::bulk(out, value);
                }
            }
            ("HDEL", [key, fields @ ..]) => {
                let hash = self.hashes.entry(key.to_vec()).or_default();
                resp::reply::int(out, fields.iter().filter(|field| hash.remove(**field).is_some()).count() as i64);
            }
            (other, _) => panic!("{other} is not answered here"),
        }
    }

    fn field(&self, key: &[u8], field: &[u8]) -> Option<&[u8]> {
        self.hashes.get(key)?.get(field).map(|value| &value[..])
    }
}
