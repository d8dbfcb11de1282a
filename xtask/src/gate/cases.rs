//! The measured cases: for each, the bytes of a batch of requests and the length of its replies.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use super::grpc;

/// Number of keys that are stored before the first case. Keys have 24 bytes, values 200.
const KEYS: usize = 4096;
const VALUE_BYTES: usize = 200;
/// Number of stored counters. A key's position in the index differs from start to start, and so does its cost. With
/// many counters, their average hardly changes.
const COUNTERS: usize = 1024;
/// Minimum number of requests that a case sends before the measured ones.
const WARM_REQUESTS: usize = 2048;
/// Time limit for a reply; callgrind slows a server down about fifty times.
const REPLY_WAIT_MAX: Duration = Duration::from_secs(60);

/// The protocol of a case's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateProtocol {
    Memcache,
    Resp,
    Grpc,
}

/// A case: one kind of request, sent in batches whose instructions are counted.
pub struct Case {
    /// Name of the case in the file of stored counts.
    pub name: &'static str,
    /// Description of its requests.
    pub what: &'static str,
    /// The protocol of its requests.
    pub protocol: GateProtocol,
    /// Number of requests in flight, written as one batch.
    pub depth: usize,
    /// Number of measured batches.
    pub batches: usize,
    /// Number of keys in one request.
    keys: usize,
    /// Function that appends the request with a number.
    request: fn(&mut Vec<u8>, usize),
    /// Function that returns the length of the reply to the request with a number, in bytes. For gRPC it is that of the
    /// payloads of all DATA frames, because the server also sends frames that belong to no reply.
    reply_bytes: fn(usize) -> usize,
}

/// `VALUE KEY 0 200\r\n<value>\r\n`
const HIT_BYTES: usize = 6 + 24 + 8 + VALUE_BYTES + 2;

const PLAIN: Case = Case {
    name: "get",
    what: "get, hit",
    protocol: GateProtocol::Memcache,
    depth: 64,
    batches: 150,
    keys: 1,
    request: |out, n| out.extend(format!("get {}\r\n", key(n)).bytes()),
    reply_bytes: |_| HIT_BYTES + 5,
};

/// All cases, in the order in which they run.
pub const ALL: &[Case] = &[
    PLAIN,
    Case { name: "get-1", depth: 1, batches: 2000, ..PLAIN },
    Case { name: "get-16", depth: 16, batches: 400, ..PLAIN },
    Case {
        name: "get-miss",
        what: "get, miss",
        request: |out, n| out.extend(format!("get none{}\r\n", key(n)).bytes()),
        reply_bytes: |_| 5,
        ..PLAIN
    },
    Case {
        name: "multi-get",
        what: "get of 50 keys, all hits; per key",
        protocol: GateProtocol::Memcache,
        depth: 4,
        batches: 60,
        keys: 50,
        request: |out, n| {
            out.extend(b"get");
            (0..50).for_each(|i| out.extend(format!(" {}", key(n * 50 + i)).bytes()));
            out.extend(b"\r\n");
        },
        reply_bytes: |_| 50 * HIT_BYTES + 5,
    },
    Case {
        name: "meta-get",
        what: "mg KEY v, hit",
        request: |out, n| out.extend(format!("mg {} v\r\n", key(n)).bytes()),
        reply_bytes: |_| 8 + VALUE_BYTES + 2,
        ..PLAIN
    },
    Case {
        name: "set",
        what: "set of 200 bytes, overwriting",
        request: |out, n| set(out, "set", n),
        reply_bytes: |_| 8,
        ..PLAIN
    },
    Case {
        name: "meta-set",
        what: "ms KEY 200, overwriting",
        request: |out, n| {
            out.extend(format!("ms {} {VALUE_BYTES}\r\n", key(n)).bytes());
            value(out);
        },
        reply_bytes: |_| 4,
        ..PLAIN
    },
    Case {
        name: "touch",
        what: "touch",
        request: |out, n| out.extend(format!("touch {} 0\r\n", key(n)).bytes()),
        reply_bytes: |_| 9,
        ..PLAIN
    },
    Case {
        name: "incr",
        what: "incr",
        request: |out, n| out.extend(format!("incr counter-{} 1\r\n", n % COUNTERS).bytes()),
        reply_bytes: |_| 21,
        ..PLAIN
    },
    Case {
        name: "set-delete",
        what: "set, then delete; per request",
        request: |out, n| match n % 2 {
            0 => set(out, "set", n),
            _ => out.extend(format!("delete {}\r\n", key(n - 1)).bytes()),
        },
        reply_bytes: |n| 8 + n % 2,
        ..PLAIN
    },
    RESP,
    Case { name: "resp-get-1", depth: 1, batches: 2000, ..RESP },
    Case { name: "resp-get-16", depth: 16, batches: 400, ..RESP },
    Case {
        name: "resp-set",
        what: "SET of 200 bytes, overwriting",
        request: |out, n| words(out, &["SET", &key(n), &"x".repeat(VALUE_BYTES)]),
        reply_bytes: |_| 5,
        ..RESP
    },
    Case {
        name: "resp-mget",
        what: "MGET of 50 keys, all hits; per key",
        // With one request in flight, an iteration ends before its time is used up. With four, a time slice would end
        // it, and the count would depend on the machine's speed.
        depth: 1,
        batches: 240,
        keys: 50,
        request: |out, n| {
            let keys: Vec<String> = (0..50).map(|i| key(n * 50 + i)).collect();
            words(out, &["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect::<Vec<_>>());
        },
        reply_bytes: |_| 5 + 50 * BULK_BYTES,
        ..RESP
    },
    Case {
        name: "resp-incr",
        what: "INCR",
        request: |out, n| words(out, &["INCR", &format!("counter-{}", n % COUNTERS)]),
        reply_bytes: |_| 22,
        ..RESP
    },
    Case {
        name: "resp-unknown",
        what: "a command that does not exist",
        request: |out, _| words(out, &["1099511627776"]),
        reply_bytes: |_| UNKNOWN.len(),
        ..RESP
    },
    Case {
        name: "resp-expire",
        what: "EXPIRE",
        // Each pass over the keys sets another time, because setting the same time again costs less.
        request: |out, n| words(out, &["EXPIRE", &key(n), &(100_000 + n / KEYS).to_string()]),
        reply_bytes: |_| 4,
        ..RESP
    },
    Case {
        name: "resp-hgetall",
        what: "HGETALL of ten fields of ten bytes",
        request: |out, n| words(out, &["HGETALL", &hash(n)]),
        reply_bytes: |_| HASH_BYTES,
        ..RESP
    },
    Case {
        name: "resp-rec-get",
        what: "REC.GET of ten bins of ten bytes",
        request: |out, n| words(out, &["REC.GET", &hash(n)]),
        // The reply has `*3\r\n:1\r\n:-1\r\n` before the bins.
        reply_bytes: |_| 13 + HASH_BYTES,
        ..RESP
    },
    Case {
        name: "resp-hmget",
        what: "HMGET of the ten fields",
        request: |out, n| {
            let hash = hash(n);
            words(out, &["HMGET", &hash].into_iter().chain(FIELDS).collect::<Vec<_>>());
        },
        reply_bytes: |_| 5 + FIELDS.len() * 17,
        ..RESP
    },
    Case {
        name: "resp-hset",
        what: "HSET of one field of ten",
        request: |out, n| words(out, &["HSET", &hash(n), FIELDS[7], "9876543210"]),
        reply_bytes: |_| 4,
        ..RESP
    },
    GRPC,
    Case { name: "grpc-get-1", depth: 1, batches: 2000, ..GRPC },
    Case {
        name: "grpc-get-timed",
        what: "gRPC Get, hit, each with another deadline",
        request: |out, n| grpc::timed_get(out, &key(n), n),
        ..GRPC
    },
    Case {
        name: "grpc-get-miss",
        what: "gRPC Get, miss",
        request: |out, n| grpc::get(out, &format!("none{}", key(n))),
        reply_bytes: |_| grpc::RESULT_BYTES,
        ..GRPC
    },
    Case {
        name: "grpc-set",
        what: "gRPC Set of 200 bytes, overwriting",
        request: |out, n| grpc::set(out, &key(n), &[b'x'; VALUE_BYTES]),
        reply_bytes: |_| grpc::RESULT_BYTES,
        ..GRPC
    },
];

/// The reply to a command whose name is neither known nor similar to a known name.
const UNKNOWN: &str = "-ERR unknown command '1099511627776', with args beginning with: \r\n";
/// Number of stored hashes.
const HASHES: usize = 1024;
const FIELDS: [&str; 10] =
    ["field0", "field1", "field2", "field3", "field4", "field5", "field6", "field7", "field8", "field9"];
/// `*20\r\n`, and `$6\r\nfield0\r\n$10\r\n<value>\r\n` ten times.
const HASH_BYTES: usize = 5 + FIELDS.len() * (12 + 17);

fn hash(n: usize) -> String {
    format!("hash-{:019}", n % HASHES)
}

/// `$200\r\n<value>\r\n`
const BULK_BYTES: usize = 6 + VALUE_BYTES + 2;

const RESP: Case = Case {
    name: "resp-get",
    what: "GET, hit",
    protocol: GateProtocol::Resp,
    request: |out, n| words(out, &["GET", &key(n)]),
    reply_bytes: |_| BULK_BYTES,
    ..PLAIN
};

/// As many calls are in flight as a connection may have streams.
const GRPC: Case = Case {
    name: "grpc-get",
    what: "gRPC Get, hit",
    protocol: GateProtocol::Grpc,
    depth: 100,
    batches: 120,
    request: |out, n| grpc::get(out, &key(n)),
    reply_bytes: |_| grpc::hit_bytes(VALUE_BYTES),
    ..PLAIN
};

impl Case {
    /// Returns the number of batches before the measured ones.
    pub fn warm_batches(&self) -> usize {
        WARM_REQUESTS.div_ceil(self.requests_a_batch())
    }

    /// Returns the number by which a batch's instructions are divided: its requests, or the keys of all its requests.
    pub fn requests_a_batch(&self) -> usize {
        self.depth * self.keys
    }
}

fn key(n: usize) -> String {
    format!("key-{:020}", n % KEYS)
}

fn value(out: &mut Vec<u8>) {
    out.extend([b'x'; VALUE_BYTES]);
    out.extend(b"\r\n");
}

fn set(out: &mut Vec<u8>, verb: &str, n: usize) {
    out.extend(format!("{verb} {} 0 0 {VALUE_BYTES}\r\n", key(n)).bytes());
    value(out);
}

/// Appends a RESP request: an array with the words as bulk strings.
fn words(out: &mut Vec<u8>, words: &[&str]) {
    out.extend(format!("*{}\r\n", words.len()).bytes());
    words.iter().for_each(|word| out.extend(format!("${}\r\n{word}\r\n", word.len()).bytes()));
}

/// One connection, which has at most one batch in flight.
pub struct GateClient {
    stream: TcpStream,
    reply: Vec<u8>,
    /// The streams of a gRPC connection.
    grpc: Option<grpc::Streams>,
}

impl GateClient {
    /// Connects to the server.
    ///
    /// # Errors
    /// If the server does not accept the connection.
    pub fn connect(protocol: GateProtocol, address: SocketAddr) -> Result<Self, String> {
        let mut stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(REPLY_WAIT_MAX)));
        set.map_err(|error| error.to_string())?;
        let mut reply = Vec::new();
        let grpc = match protocol {
            GateProtocol::Grpc => Some(grpc::Streams::begin(&mut stream, &mut reply)?),
            GateProtocol::Memcache | GateProtocol::Resp => None,
        };
        Ok(Self { stream, reply, grpc })
    }

    /// Stores the items that the case uses, unless earlier cases left them in place. `is_first` if the server has had
    /// no case of this protocol.
    ///
    /// # Errors
    /// If a store gets a wrong reply.
    pub fn prepare(&mut self, case: &Case, is_first: bool) -> Result<(), String> {
        let stores = Case { name: "prepare", request: |out, n| set(out, "set", n), reply_bytes: |_| 8, ..PLAIN };
        if case.protocol == GateProtocol::Resp && is_first {
            let set = |out: &mut Vec<u8>, n: usize| words(out, &["SET", &key(n), &"x".repeat(VALUE_BYTES)]);
            let stores = Case { name: "prepare", request: set, reply_bytes: |_| 5, ..RESP };
            self.run(&stores, 0..KEYS / stores.depth)?;
            let counter = |out: &mut Vec<u8>, n: usize| {
                words(out, &["SET", &format!("counter-{n}"), "1000000000000000000"]);
            };
            let counters = Case { name: "prepare", request: counter, reply_bytes: |_| 5, ..RESP };
            self.run(&counters, 0..COUNTERS / counters.depth)?;
            let hash_of = |out: &mut Vec<u8>, n: usize| {
                let hash = hash(n);
                let mut all: Vec<&str> = vec!["HSET", &hash];
                FIELDS.iter().for_each(|field| all.extend([*field, "0123456789"]));
                words(out, &all);
            };
            let hashes = Case { request: hash_of, reply_bytes: |_| 5, ..RESP };
            self.run(&hashes, 0..HASHES / hashes.depth)?;
        }
        if case.protocol == GateProtocol::Grpc && is_first {
            let set = |out: &mut Vec<u8>, n: usize| grpc::set(out, &key(n), &[b'x'; VALUE_BYTES]);
            let stores = Case { request: set, reply_bytes: |_| grpc::RESULT_BYTES, ..GRPC };
            self.run(&stores, 0..KEYS.div_ceil(stores.depth))?;
        }
        if case.protocol == GateProtocol::Memcache && (is_first || matches!(case.name, "touch" | "set-delete")) {
            self.run(&stores, 0..KEYS / stores.depth)?;
            // The counters are so large that increments do not change the number of digits.
            let counter = |out: &mut Vec<u8>, n: usize| {
                out.extend(format!("set counter-{n} 0 0 19\r\n1000000000000000000\r\n").bytes());
            };
            let counters = Case { name: "prepare", request: counter, reply_bytes: |_| 8, ..PLAIN };
            self.run(&counters, 0..COUNTERS / counters.depth)?;
        }
        Ok(())
    }

    /// Runs the batches of a case.
    ///
    /// # Errors
    /// If a reply does not have the length that the case expects.
    pub fn run(&mut self, case: &Case, batches: Range<usize>) -> Result<(), String> {
        let mut bytes = Vec::new();
        for batch in batches {
            bytes.clear();
            let requests = batch * case.depth..(batch + 1) * case.depth;
            requests.clone().for_each(|n| (case.request)(&mut bytes, n));
            let reply_bytes = requests.map(case.reply_bytes).sum();
            match &mut self.grpc {
                Some(streams) => {
                    let calls = streams.number(&mut bytes);
                    self.stream.write_all(&bytes).map_err(|error| error.to_string())?;
                    grpc::receive(&mut self.stream, &mut self.reply, calls, reply_bytes)?;
                }
                None => self.exchange(&bytes, reply_bytes)?,
            }
        }
        Ok(())
    }

    /// Sends `bytes`, then reads exactly `reply_bytes` bytes, which must end with a line end.
    fn exchange(&mut self, bytes: &[u8], reply_bytes: usize) -> Result<(), String> {
        self.reply.resize(reply_bytes, 0);
        let done = self.stream.write_all(bytes).and_then(|()| self.stream.read_exact(&mut self.reply));
        done.map_err(|error| format!("the reply is shorter than {reply_bytes} bytes: {error}"))?;
        match self.reply.ends_with(b"\r\n") {
            true => Ok(()),
            false => Err(format!("unexpected reply: {:?}", String::from_utf8_lossy(&self.reply))),
        }
    }
}
