//! Runs sequences of gRPC calls of all methods through a worker on a simulated network. Used by a test and a fuzz
//! target.
//!
//! ```text
//!   input   [ method | how | length, 2 bytes | message ] ...     method: its place in the schema, modulo their number
//!   how     bit 0: the stream is reset after the message         bit 1: the message is sent in two frames
//!           bit 2: the next call is sent in the same iteration   bit 3: a byte follows the message
//!           bit 4: the last byte of the message is missing       bit 5: the message is sent twice
//!           bit 6: the call has the cache `default` and a time limit of 0 to 1 s
//! ```

use super::grpc_schema::{Schema, SchemaMethod};
use base::clock::UnixMillis;
use command::clients::endpoint::Protocol;
use command::visit::clock::Clock;
use gannet_server::start::{ServerConfig, assemble};
use gannet_server::worker::{EVENTS_MAX, Worker, WorkerParts};
use io::sim::{Faults, Sim, SimClient};
use protocol::http2::hpack::{FieldList, FieldName, HpackDecoder, encode};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::sync_channel;

const START_NS: u64 = 1_700_000_000_000_000_000;
/// The number of iterations without a byte after which no further reply is expected.
const SILENT_ITERATIONS: usize = 12;
/// The maximum number of calls of an input, and of bytes of a message. All of them fit into the server's windows.
const CALLS_MAX: usize = 48;
const MESSAGE_BYTES_MAX: usize = 4096;
/// The ends of the names of methods whose streams stay open.
const ENDLESS: [&str; 4] = ["/Subscribe", "/WatchKeys", "/Watch", "/ServerReflectionInfo"];

/// The types of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;

/// A call of an input.
struct InputCall<'b> {
    method: usize,
    is_reset: bool,
    is_split: bool,
    is_joined: bool,
    has_tail: bool,
    is_cut: bool,
    is_twice: bool,
    has_fields: bool,
    message: &'b [u8],
}

impl<'b> InputCall<'b> {
    /// Removes the first call from the start of an input; `None` at its end.
    fn take(input: &mut &'b [u8]) -> Option<Self> {
        let (head, rest) = input.split_first_chunk::<4>()?;
        let [method, how, len @ ..] = *head;
        let len = usize::from(u16::from_le_bytes(len)).min(MESSAGE_BYTES_MAX).min(rest.len());
        let (message, rest) = rest.split_at(len);
        *input = rest;
        let has = |bit: u8| how & 1 << bit != 0;
        Some(Self {
            method: method.into(),
            is_reset: has(0),
            is_split: has(1),
            is_joined: has(2),
            has_tail: has(3),
            is_cut: has(4),
            is_twice: has(5),
            has_fields: has(6),
            message,
        })
    }
}

/// Returns the bytes of a call of an input.
pub fn input(method: usize, how: u8, message: &[u8]) -> Vec<u8> {
    let method = u8::try_from(method).expect("at most 256 methods");
    let len = u16::try_from(message.len()).expect("a short message").to_le_bytes();
    [&[method, how][..], &len, message].concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns the frames of a call.
fn frames(stream: u32, method: &SchemaMethod, call: &InputCall<'_>) -> Vec<u8> {
    let mut block = Vec::new();
    let fields =
        [(":method", "POST"), (":scheme", "http"), (":path", &method.path), ("content-type", "application/grpc")];
    for (name, value) in fields {
        encode::literal(&mut block, name.as_bytes(), value.as_bytes());
    }
    if call.has_fields {
        encode::literal(&mut block, b"cache", b"default");
        encode::literal(&mut block, b"grpc-timeout", format!("{}m", call.message.len() % 1000).as_bytes());
    }
    let mut bytes = frame(HEADERS, 4, stream, &block);
    let prefix = (call.message.len() as u32).to_be_bytes();
    let mut body = [&[0], &prefix[..], call.message].concat();
    if call.is_twice {
        body.extend_from_within(..);
    }
    if call.is_cut {
        body.pop();
    }
    if call.has_tail {
        body.push(0);
    }
    let (first, second) = body.split_at(if call.is_split { body.len() / 2 } else { 0 });
    if !first.is_empty() {
        bytes.extend(frame(DATA, 0, stream, first));
    }
    bytes.extend(frame(DATA, 1, stream, second));
    if call.is_reset {
        bytes.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
    }
    bytes
}

/// The replies of a connection.
#[derive(Default)]
struct Received {
    bytes: Vec<u8>,
    /// The streams that have ended, and the status of each that has one.
    ended: HashSet<u32>,
    statuses: HashMap<u32, String>,
    decoder: HpackDecoder,
}

impl Received {
    /// Reads what was received. Returns false if there was nothing.
    fn read(&mut self, client: &SimClient) -> bool {
        let taken = client.take(usize::MAX);
        let has_any = !taken.is_empty();
        self.bytes.extend(taken);
        while let Some(head) = self.bytes.first_chunk::<9>() {
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            if self.bytes.len() < 9 + len {
                break;
            }
            let payload: Vec<u8> = self.bytes.drain(..9 + len).skip(9).collect();
            if kind == HEADERS {
                let mut fields = FieldList::new(1 << 20);
                self.decoder.decode(&payload, &mut fields).expect("valid headers");
                let text = |name| String::from_utf8_lossy(fields.value(name).unwrap_or_default()).into_owned();
                if fields.value(FieldName::GrpcStatus).is_some() {
                    let status = format!("{} {}", text(FieldName::GrpcStatus), text(FieldName::GrpcMessage));
                    self.statuses.insert(stream, status);
                }
            }
            if kind == RST_STREAM || flags & 1 != 0 && (kind == HEADERS || kind == DATA) {
                self.ended.insert(stream);
            }
        }
        has_any
    }
}

impl Received {
    /// Asserts that a call has a reply with a status that explains it.
    fn check(&self, stream: u32, path: &str, is_refused: bool) {
        assert!(self.ended.contains(&stream), "{path}: no reply");
        let status = self.statuses.get(&stream).map_or("", String::as_str);
        assert!(!status.starts_with("2 "), "{path}: the error {status:?} has no status of its own");
        assert!(!is_refused || !status.starts_with("0 "), "{path}: a request that is not one message was executed");
    }
}

/// What an input reached.
#[derive(Debug, Default)]
pub struct Reached {
    /// The methods of which a call was complete.
    pub methods: HashSet<usize>,
    pub calls: usize,
}

/// Executes the calls of an input. Asserts that each call that was not reset has a reply, that no error is of an
/// unknown kind, that only a request of one message is executed, and that the server holds nothing when the client has
/// left.
pub fn run(schema: &Schema, input: &[u8]) -> Reached {
    let config = ServerConfig {
        memory_bytes: 32 << 20,
        item_bytes_max: 4 << 20,
        segment_bytes: Some(256 << 10),
        connections_max: 4,
        workers: 1,
        hash_seed: Some(7),
        huge_pages: false,
        graph_memory_bytes: 90 << 20,
        ..ServerConfig::default()
    };
    let clock_ns = Arc::new(AtomicU64::new(START_NS));
    let now = UnixMillis(START_NS / 1_000_000);
    let (shared, mut background) = assemble(config, now).expect("a store");
    let io = Sim::new(1, Faults::NONE, Arc::clone(&clock_ns), EVENTS_MAX);
    let (dialler, (intake, receiver)) = (io.dialler(), sync_channel(4));
    let handle = shared.store.handle().expect("the first lane");
    let clock = Clock::Simulated(Arc::clone(&clock_ns));
    let parts =
        WorkerParts { io, handle, shared: Arc::clone(&shared), number: 0, intake: receiver, clock, sessions_max: 4 };
    let mut worker = Worker::new(parts);
    let (client, stream) = dialler.connect();
    intake.send((stream, Protocol::Grpc.into()).into()).expect("room in the intake");
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    // Windows for replies of any length.
    client.send(&frame(SETTINGS, 0, 0, &[0, 4, 0x40, 0, 0, 0]));
    client.send(&frame(WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes()));
    let mut received = Received::default();
    let mut settle = |received: &mut Received| {
        let mut silent = 0;
        while silent < SILENT_ITERATIONS && worker.iterate() {
            background.slice(now, &mut || false);
            silent = if received.read(&client) { 0 } else { silent + 1 };
        }
        (worker.sessions(), worker.buffers_lent())
    };
    settle(&mut received);
    let (mut reached, mut rest, mut stream, mut awaited) = (Reached::default(), input, 1, Vec::new());
    while let Some(call) = InputCall::take(&mut rest)
        && reached.calls < CALLS_MAX
    {
        let place = call.method % schema.methods.len();
        let method = &schema.methods[place];
        client.send(&frames(stream, method, &call));
        reached.calls += 1;
        if !call.is_reset {
            reached.methods.insert(place);
            // A byte in place of the missing one makes the request whole again.
            let is_refused = call.is_twice || call.is_cut != call.has_tail;
            if !ENDLESS.iter().any(|name| method.path.ends_with(name)) {
                awaited.push((stream, &method.path, is_refused));
            }
        }
        if !call.is_joined {
            settle(&mut received);
        }
        stream += 2;
    }
    settle(&mut received);
    awaited.into_iter().for_each(|(stream, path, is_refused)| received.check(stream, path, is_refused));
    client.close_send();
    assert_eq!(settle(&mut received), (0, 0), "sessions and buffers are given back");
    assert_eq!((shared.pins.used(), shared.store.stats().pins), (0, 0), "pins and places are given back");
    reached
}
