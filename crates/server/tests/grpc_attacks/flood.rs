//! A server on a simulated network with one attacker and a bystander.

use crate::common;
use crate::grpc_client::{Answer, DATA, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, headers};
use crate::sim::World;
use crate::sim::bystander::{Bystander, LATE_MAX, cpu_ns};
use command::clients::endpoint::Protocol;
use gannet_server::start::ServerConfig;
use io::sim::{Faults, SimClient};
use protocol::http2::hpack::{FieldList, FieldName, HpackDecoder};

/// The ends of the names of methods whose streams stay open.
const ENDLESS: [&str; 4] = ["/Subscribe", "/WatchKeys", "/Watch", "/ServerReflectionInfo"];

/// The number of iterations within which each call has a reply.
const ITERATIONS_MAX: u64 = 500_000;

/// More than the client memory of the connections without calls, in bytes.
const CONNECTIONS_BYTES: u64 = 128 << 10;

/// A client of one connection on a simulated network, which observes the server's windows.
pub(crate) struct SimCalls {
    client: SimClient,
    stream: u32,
    received: Vec<u8>,
    decoder: HpackDecoder,
    /// The windows of a new stream, of the connection, and of the stream in use, in bytes.
    initial: i64,
    connection: i64,
    window: i64,
}

impl SimCalls {
    fn connect(world: &World) -> Self {
        let client = world.connect(Protocol::Grpc);
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        // Windows for replies of any length.
        client.send(&frame(SETTINGS, 0, 0, &[0, 4, 0x40, 0, 0, 0]));
        client.send(&frame(WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes()));
        let (received, decoder) = (Vec::new(), HpackDecoder::new());
        Self { client, stream: 1, received, decoder, initial: 65_535, connection: 65_535, window: 65_535 }
    }

    /// Begins a call, and returns its message with the prefix, which is still to be sent.
    fn begin(&mut self, path: &str, encoding: Option<&str>, message: &[u8]) -> Vec<u8> {
        let fields = encoding.map(|encoding| ("grpc-encoding", encoding));
        self.client.send(&frame(HEADERS, 4, self.stream, &headers(path, fields.as_slice())));
        self.window = self.initial;
        [&[u8::from(encoding.is_some())], &(message.len() as u32).to_be_bytes()[..], message].concat()
    }

    /// Sends as much as the windows allow. Returns the number of bytes.
    fn send(&mut self, left: &[u8]) -> usize {
        let mut sent = 0;
        while sent < left.len() {
            let len = (left.len() - sent).min(16_384).min(self.window.min(self.connection).max(0) as usize);
            if len == 0 {
                break;
            }
            let is_last = u8::from(sent + len == left.len());
            self.client.send(&frame(DATA, is_last, self.stream, &left[sent..sent + len]));
            (self.window, self.connection, sent) = (self.window - len as i64, self.connection - len as i64, sent + len);
        }
        sent
    }

    /// Reads what was received. Returns true if the reply is complete. That of an endless
    /// stream is complete when it begins.
    fn receive(&mut self, answer: &mut Answer, is_endless: bool) -> bool {
        self.received.extend(self.client.take(usize::MAX));
        let mut is_complete = false;
        while let Some(head) = self.received.first_chunk::<9>() {
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let of = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            if self.received.len() < 9 + len {
                break;
            }
            let payload: Vec<u8> = self.received.drain(..9 + len).skip(9).collect();
            let number = || i64::from(u32::from_be_bytes(payload[..4].try_into().expect("four bytes")));
            match kind {
                SETTINGS if flags & 1 == 0 => {
                    let initial = payload.chunks_exact(6).find(|setting| setting[..2] == [0, 4]);
                    if let Some(initial) = initial {
                        self.initial = i64::from(u32::from_be_bytes(initial[2..].try_into().expect("four bytes")));
                    }
                }
                WINDOW_UPDATE if of == 0 => self.connection += number(),
                WINDOW_UPDATE if of == self.stream => self.window += number(),
                HEADERS => {
                    let mut fields = FieldList::new(1 << 20);
                    self.decoder.decode(&payload, &mut fields).expect("valid headers");
                    let text = |name| String::from_utf8_lossy(fields.value(name).unwrap_or_default()).into_owned();
                    if of == self.stream && fields.value(FieldName::GrpcStatus).is_some() {
                        (answer.status, answer.text) = (text(FieldName::GrpcStatus), text(FieldName::GrpcMessage));
                        is_complete = true;
                    } else if of == self.stream && is_endless {
                        "open".clone_into(&mut answer.status);
                        is_complete = true;
                    }
                }
                RST_STREAM if of == self.stream && !is_complete => {
                    answer.status = format!("reset {payload:?}");
                    is_complete = true;
                }
                _ => {}
            }
        }
        is_complete
    }
}

/// A server with all services, one client and a bystander.
pub(crate) struct Flood {
    pub(crate) world: World,
    calls: SimCalls,
    bystander: Bystander,
    iteration: u64,
}

/// The longest iteration and the number of iterations of a call.
pub(crate) struct Effort {
    pub(crate) longest_ns: u64,
    pub(crate) iterations: u64,
}

impl Flood {
    pub(crate) fn new() -> Self {
        let config = ServerConfig {
            memory_bytes: 256 << 20,
            client_memory_bytes: Some(512 << 20),
            graph_memory_bytes: 90 << 20,
            item_bytes_max: 16 << 20,
            ..common::config()
        };
        let mut world = World::new(1, Faults::NONE, config);
        let bystander = Bystander::new(&mut world);
        let calls = SimCalls::connect(&world);
        let mut flood = Self { world, calls, bystander, iteration: 0 };
        for _ in 0..10 {
            flood.iterate();
        }
        flood.calls.receive(&mut Answer::default(), false);
        flood
    }

    fn iterate(&mut self) -> u64 {
        self.bystander.ask(self.iteration);
        let before = cpu_ns();
        assert!(self.world.worker.iterate(), "the worker does not stop by itself");
        let took = cpu_ns() - before;
        self.iteration += 1;
        self.bystander.listen(self.iteration);
        took
    }

    /// Sends a request, and returns its reply. An endless stream has the status "open", and is then reset.
    pub(crate) fn call(&mut self, path: &str, message: &[u8]) -> (Answer, Effort) {
        self.call_encoded(path, None, message)
    }

    /// Sends a request whose message is compressed, unless `encoding` is `None`.
    pub(crate) fn call_encoded(&mut self, path: &str, encoding: Option<&str>, message: &[u8]) -> (Answer, Effort) {
        let body = self.calls.begin(path, encoding, message);
        let (mut answer, mut at) = (Answer::default(), 0);
        let is_endless = ENDLESS.iter().any(|name| path.ends_with(name));
        let (begun, mut longest_ns) = (self.iteration, 0);
        while !self.calls.receive(&mut answer, is_endless) {
            at += self.calls.send(&body[at..]);
            longest_ns = self.iterate().max(longest_ns);
            assert!(self.iteration - begun < ITERATIONS_MAX, "{path}: no reply");
        }
        if is_endless {
            self.calls.client.send(&frame(RST_STREAM, 0, self.calls.stream, &[0, 0, 0, 8]));
        }
        self.calls.stream += 2;
        (answer, Effort { longest_ns, iterations: self.iteration - begun })
    }

    pub(crate) fn assert_bystander_was_served(&self, path: &str) {
        let late = self.bystander.late_max;
        assert!(late <= LATE_MAX && self.bystander.answers > 0, "{path}: a PING took {late} iterations");
    }
}

impl Flood {
    /// Sends a request, and resets its stream some iterations after its last byte.
    pub(crate) fn reset_while_executed(&mut self, path: &str, encoding: Option<&str>, message: &[u8], after: usize) {
        let body = self.calls.begin(path, encoding, message);
        let mut at = 0;
        while at < body.len() {
            at += self.calls.send(&body[at..]);
            self.iterate();
            self.calls.receive(&mut Answer::default(), false);
        }
        (0..after).for_each(|_| {
            self.iterate();
        });
        self.calls.client.send(&frame(RST_STREAM, 0, self.calls.stream, &[0, 0, 0, 8]));
        self.calls.stream += 2;
        // The server reads the reset after it has decompressed the message.
        for _ in 0..1000 {
            self.iterate();
            self.calls.receive(&mut Answer::default(), false);
        }
    }

    /// Sends the header fields and the further frames of many streams at once. Returns the CPU time that they take.
    pub(crate) fn burst(&mut self, path: &str, count: u32, more: impl Fn(u32) -> Vec<u8>) -> u64 {
        let fields = headers(path, &[]);
        let mut bytes = Vec::new();
        for _ in 0..count {
            bytes.extend(frame(HEADERS, 4, self.calls.stream, &fields));
            bytes.extend(more(self.calls.stream));
            self.calls.stream += 2;
        }
        let all = self.world.received_bytes() + bytes.len() as u64;
        self.calls.client.send(&bytes);
        let mut cpu_ns = 0;
        while self.world.received_bytes() < all {
            cpu_ns += self.iterate();
            self.calls.receive(&mut Answer::default(), false);
        }
        // The last replies.
        for _ in 0..20 {
            cpu_ns += self.iterate();
            self.calls.receive(&mut Answer::default(), false);
        }
        cpu_ns
    }

    /// Asserts that the server holds no more for its clients than their connections.
    pub(crate) fn assert_no_request_is_held(&self, of: &str) {
        let used = self.world.shared.budget.used();
        assert!(used < CONNECTIONS_BYTES, "{of}: {used} bytes of client memory are in use");
    }
}
