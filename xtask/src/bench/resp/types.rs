//! Requests on lists, sets, sorted sets and streams, and scripts; and the memory of their elements.
//!
//! Each kind of collection has [`COLLECTIONS`] keys with [`ELEMENTS`] elements of ten bytes. The reads of ten elements
//! have the same replies at all times, because other rows change other keys.

use super::{FIELD_HIT_BYTES, HIT_BYTES, RespRequest, counter, hash, words};
use crate::bench::generator::key;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use testbed::server::TestServer;

/// Number of keys of each kind of collection.
const COLLECTIONS: usize = 1000;
/// Number of elements of each of these keys.
const ELEMENTS: usize = 100;

/// Goals of requests on collections: from depth 16 on, a third less CPU time than the better peer.
const A_THIRD_LESS: [f64; 3] = [1.0, 1.5, 1.5];

/// `*10\r\n` and ten elements of ten bytes.
const TEN_HITS_BYTES: usize = 5 + 10 * FIELD_HIT_BYTES;
/// A key in a reply: `$24\r\n<key>\r\n`.
const KEY_HIT_BYTES: usize = 5 + 24 + 2;
/// An entry with one field: `*2`, its identifier of 8 bytes, `*2`, `field` and ten bytes.
const ENTRY_BYTES: usize = 4 + 14 + 4 + 11 + FIELD_HIT_BYTES;

/// Three commands on three keys.
const SCRIPT: &str = "redis.call('INCR',KEYS[1]) redis.call('HSET',KEYS[2],'field7','0123456789') \
                      return redis.call('GET',KEYS[3])";

fn named(kind: &str, n: usize) -> String {
    format!("{kind}-{:020}", n % COLLECTIONS)
}

fn element(number: usize) -> String {
    format!("member-{number:03}")
}

const fn row(name: &'static str, request: super::WriteRequest, reply_bytes: usize) -> RespRequest {
    RespRequest { name, count: 20_000, request, reply_bytes, ours: None, goals: A_THIRD_LESS }
}

pub(super) const ROWS: &[RespRequest] = &[
    row(
        "ZADD",
        |out, n| {
            words(out, &["ZADD", &named("zch", n), &(100 + n * 37 % 900).to_string(), &element(n * 7 % ELEMENTS)]);
        },
        4,
    ),
    row("ZRANGE of 10", |out, n| words(out, &["ZRANGE", &named("zst", n), "0", "9"]), TEN_HITS_BYTES),
    row("ZRANGEBYSCORE of 10", |out, n| words(out, &["ZRANGEBYSCORE", &named("zst", n), "20", "29"]), TEN_HITS_BYTES),
    row("ZRANK", |out, n| words(out, &["ZRANK", &named("zst", n), &element(10 + n * 7 % 90)]), 5),
    row(
        "LPUSH, LPOP",
        |out, n| {
            words(out, &["LPUSH", &named("lch", n), "0123456789"]);
            words(out, &["LPOP", &named("lch", n)]);
        },
        6 + FIELD_HIT_BYTES,
    ),
    row("LRANGE of 10", |out, n| words(out, &["LRANGE", &named("lst", n), "0", "9"]), TEN_HITS_BYTES),
    row("SADD", |out, n| words(out, &["SADD", &named("set", n), &element(n * 7 % ELEMENTS)]), 4),
    row("SISMEMBER", |out, n| words(out, &["SISMEMBER", &named("set", n), &element(n * 7 % ELEMENTS)]), 4),
    row("SINTER to 10", |out, n| words(out, &["SINTER", &named("set", n), &named("oth", n)]), TEN_HITS_BYTES),
    row(
        "XADD",
        |out, n| words(out, &["XADD", &named("xch", n), "MAXLEN", "~", "1000", "*", "field", "0123456789"]),
        5 + 15 + 2,
    ),
    row(
        "XREADGROUP of 10",
        |out, n| {
            words(out, &["XREADGROUP", "GROUP", "group", "one", "COUNT", "10", "STREAMS", &named("str", n), "0"]);
        },
        8 + KEY_HIT_BYTES + 5 + 10 * ENTRY_BYTES,
    ),
    row("EVAL of 3", |out, n| words(out, &["EVAL", SCRIPT, "3", &counter(n), &hash(n), &key(n)]), HIT_BYTES),
];

/// Sends requests and discards their replies, which are `lines` lines.
fn send(stream: &mut BufReader<TcpStream>, requests: &[u8], lines: usize) -> std::io::Result<()> {
    stream.get_mut().write_all(requests)?;
    let mut line = String::new();
    for _ in 0..lines {
        line.clear();
        stream.read_line(&mut line)?;
        if line.starts_with('-') {
            return Err(std::io::Error::other(line));
        }
    }
    Ok(())
}

/// Writes one request that adds the elements `range` to a collection under `key`. `kind` is its type.
fn add(out: &mut Vec<u8>, kind: &str, key: &str, range: std::ops::Range<usize>) {
    let texts = range.clone().map(|number| match kind {
        "intset" => (number * 7).to_string(),
        _ if number < 1000 => element(number),
        _ => format!("m{number:09}"),
    });
    let (name, pairs): (&str, Vec<String>) = match kind {
        "list" => ("RPUSH", texts.collect()),
        "set" | "intset" => ("SADD", texts.collect()),
        "zset" => ("ZADD", range.zip(texts).flat_map(|(score, text)| [score.to_string(), text]).collect()),
        _ => ("HSET", texts.flat_map(|text| [text, "0123456789".to_owned()]).collect()),
    };
    words(out, &[name, key].into_iter().chain(pairs.iter().map(String::as_str)).collect::<Vec<_>>());
}

/// Stores the collections that the rows use.
///
/// # Errors
/// If the server refuses a request or disconnects.
pub(super) fn store(server: &TestServer) -> Result<(), String> {
    let store = || -> std::io::Result<()> {
        let mut stream = BufReader::new(TcpStream::connect(server.resp)?);
        for n in 0..COLLECTIONS {
            let mut batch = Vec::new();
            for (name, kind, range) in [
                ("zch", "zset", 0..ELEMENTS),
                ("zst", "zset", 0..ELEMENTS),
                ("lch", "list", 0..ELEMENTS),
                ("lst", "list", 0..ELEMENTS),
                ("set", "set", 0..ELEMENTS),
                ("oth", "set", ELEMENTS - 10..2 * ELEMENTS - 10),
            ] {
                add(&mut batch, kind, &named(name, n), range);
            }
            send(&mut stream, &batch, 6)?;
            batch.clear();
            let stream_key = named("str", n);
            for number in 0..10 {
                words(&mut batch, &["XADD", &stream_key, &format!("1000-{}", 100 + number), "field", "0123456789"]);
            }
            words(&mut batch, &["XGROUP", "CREATE", &stream_key, "group", "0"]);
            send(&mut stream, &batch, 21)?;
            batch.clear();
            words(&mut batch, &["XREADGROUP", "GROUP", "group", "one", "STREAMS", &stream_key, ">"]);
            let lines = 5 + 10 * 8;
            send(&mut stream, &batch, lines)?;
        }
        Ok(())
    };
    store().map_err(|error| format!("{}: cannot store the collections: {error}", server.kind.name()))
}

/// The numbers of elements whose memory is measured.
const SIZES: [usize; 3] = [10, 1000, 1_000_000];

/// Returns the bytes that a key with `count` elements needs, as `MEMORY USAGE` reports them.
fn memory_usage(server: &TestServer, kind: &str, count: usize) -> std::io::Result<u64> {
    let mut stream = BufReader::new(TcpStream::connect(server.resp)?);
    let key = format!("bytes-{kind}");
    for first in (0..count).step_by(500) {
        let (mut batch, range) = (Vec::new(), first..count.min(first + 500));
        if kind == "stream" {
            range.clone().for_each(|number| {
                let id = format!("{}-0", 1_700_000_000_000 + number as u64);
                words(&mut batch, &["XADD", &key, &id, "field", "0123456789"]);
            });
            send(&mut stream, &batch, 2 * range.len())?;
        } else {
            add(&mut batch, kind, &key, range);
            send(&mut stream, &batch, 1)?;
        }
    }
    let mut request = Vec::new();
    words(&mut request, &["MEMORY", "USAGE", &key, "SAMPLES", "0"]);
    words(&mut request, &["DEL", &key]);
    stream.get_mut().write_all(&request)?;
    let mut reply = String::new();
    stream.read_line(&mut reply)?;
    stream.read_exact(&mut [0; 4])?;
    reply.trim_start_matches(':').trim().parse().map_err(|_| std::io::Error::other(reply))
}

/// Prints the memory of an element, beyond the ten bytes of its text and of its value, at each number of elements.
///
/// # Errors
/// If a server refuses a request or disconnects.
pub(super) fn print_memory(servers: &[TestServer]) -> Result<(), String> {
    println!("Bytes an element beyond the bytes of its text and value (`MEMORY USAGE`, the key included):\n");
    print!("| type | elements |");
    servers.iter().for_each(|server| print!(" {} |", server.kind.name()));
    println!("\n|---|---|{}", "---|".repeat(servers.len()));
    for (kind, name, own_bytes) in [
        ("list", "list", 10),
        ("set", "set", 10),
        ("intset", "set of integers", 0),
        ("zset", "sorted set", 10),
        ("hash", "hash", 20),
        ("stream", "stream of one field", 10),
    ] {
        for count in SIZES {
            print!("| {name} | {count} |");
            for server in servers {
                let usage = memory_usage(server, kind, count)
                    .map_err(|error| format!("{}, {kind}: {error}", server.kind.name()))?;
                print!(" {:.1} |", usage as f64 / count as f64 - f64::from(own_bytes));
            }
            println!();
        }
    }
    println!();
    Ok(())
}
