//! Tests that a request of millions of fields delays no other client. A field may be two bytes long, and a decoder
//! reads a message once for each field that it looks for.
//!
//! The tests send such requests of all methods of the schema, and assert what the server refuses and the number of
//! iterations in which another client (the bystander) gets its reply. `--nocapture` prints the CPU time of the longest
//! iteration of each.

use crate::common;
use crate::grpc_client::{Answer, DATA, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, headers};
use crate::grpc_schema::{Schema, SchemaMethod};
use crate::sim::World;
use crate::sim::bystander::{Bystander, LATE_MAX, cpu_ns};
use command::clients::endpoint::Protocol;
use gannet_server::start::ServerConfig;
use io::sim::{Faults, SimClient};
use protocol::grpc::MESSAGE_BYTES_MAX;
use protocol::grpc::protobuf::{Encoder, FIELDS_MAX};
use protocol::http2::hpack::{FieldList, FieldName, HpackDecoder};

const INVALID_ARGUMENT: &str = "3";
const RESOURCE_EXHAUSTED: &str = "8";

/// The ends of the names of methods whose streams stay open.
const ENDLESS: [&str; 4] = ["/Subscribe", "/WatchKeys", "/Watch", "/ServerReflectionInfo"];

/// The number of iterations within which each call has a reply.
const ITERATIONS_MAX: u64 = 500_000;

/// The number of a field that no request has.
const UNKNOWN: u32 = 15;

/// A client of one connection on a simulated network, which observes the server's windows.
struct SimCalls {
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
    fn begin(&mut self, path: &str, message: &[u8]) -> Vec<u8> {
        self.client.send(&frame(HEADERS, 4, self.stream, &headers(path, &[])));
        self.window = self.initial;
        [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat()
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

    /// Reads what was received. Returns true if the reply is complete, which that of an endless stream is when it begins.
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
struct Flood {
    world: World,
    calls: SimCalls,
    bystander: Bystander,
    iteration: u64,
}

/// The longest iteration and the number of iterations of a call.
struct Effort {
    longest_ns: u64,
    iterations: u64,
}

impl Flood {
    fn new() -> Self {
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

    /// Sends a request, and returns its reply. A stream that stays open has the status "open".
    fn call(&mut self, path: &str, message: &[u8]) -> (Answer, Effort) {
        let body = self.calls.begin(path, message);
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

    fn assert_bystander_was_served(&self, path: &str) {
        let late = self.bystander.late_max;
        assert!(late <= LATE_MAX && self.bystander.answers > 0, "{path}: a PING took {late} iterations");
    }
}

/// Returns a field that the request does not know, `count` times: two bytes each.
fn unknown(count: usize) -> Vec<u8> {
    let mut one = Encoder::new();
    one.one_of_uint(UNKNOWN, 0);
    one.as_slice().repeat(count)
}

/// Returns the floods of a method, each a name and the encoding of one field.
fn floods(schema: &Schema, method: &SchemaMethod) -> Vec<(String, Vec<u8>)> {
    let mut floods = vec![("unknown fields".to_owned(), unknown(1))];
    for field in schema.fields(method) {
        if field.number == 1 {
            let mut one = Encoder::new();
            field.write(&mut one, schema, b"k", 0);
            floods.push(("occurrences of field 1".to_owned(), one.as_slice().to_vec()));
        }
        if field.is_message() {
            let mut one = Encoder::new();
            one.item(field.number, b"");
            floods.push((format!("empty messages of field {}", field.number), one.as_slice().to_vec()));
        }
    }
    floods
}

#[test]
fn schema_names_every_method_of_the_server() {
    let schema = Schema::read();
    let named = |name: &str| schema.methods.iter().any(|method| method.path.rsplit('/').next() == Some(name));
    let missing: Vec<&str> = command::grpc::method_names().filter(|name| !named(name)).collect();
    assert!(missing.is_empty(), "the tests of all methods do not have {missing:?}");
}

#[test]
fn request_of_10_mib_of_short_fields_is_refused_by_every_method() {
    let (schema, mut flood) = (Schema::read(), Flood::new());
    for method in &schema.methods {
        let base = schema.request(method, b"k");
        for (name, field) in floods(&schema, method) {
            let count = (MESSAGE_BYTES_MAX as usize - base.len()) / field.len();
            // A field that is long has its count bounded by the length of the request.
            if count <= FIELDS_MAX as usize {
                continue;
            }
            let request = [&base[..], &field.repeat(count)].concat();
            let (answer, Effort { longest_ns, iterations }) = flood.call(&method.path, &request);
            let (path, us) = (&method.path, longest_ns / 1000);
            println!("{path}: {count} {name}: {iterations} iterations, the longest {us} us");
            let is_refused = answer.status == RESOURCE_EXHAUSTED && answer.text.contains("more than");
            assert!(is_refused, "{path}: {count} {name}: {answer:?}");
            flood.assert_bystander_was_served(path);
        }
    }
}

#[test]
fn request_of_as_many_fields_as_permitted_delays_no_other_client() {
    let (schema, mut flood) = (Schema::read(), Flood::new());
    for method in &schema.methods {
        let base = schema.request(method, b"k");
        for (name, field) in floods(&schema, method) {
            // The fields of nested messages count too: at most one for each two bytes.
            let fields = if field.len() > 4 { 1 + field.len() / 2 } else { 1 };
            let count = (FIELDS_MAX as usize - base.len()) / fields;
            let request = [&base[..], &field.repeat(count)].concat();
            let (answer, Effort { longest_ns, iterations }) = flood.call(&method.path, &request);
            let (path, status, us) = (&method.path, &answer.status, longest_ns / 1000);
            println!("{path}: {count} {name}: status {status}, {iterations} iterations, the longest {us} us");
            assert!(!answer.text.contains("too many fields for this call"), "{path}: {count} {name}: {answer:?}");
            assert!(!answer.text.contains("more than 65536 fields"), "{path}: {count} {name}: {answer:?}");
            flood.assert_bystander_was_served(path);
        }
    }
}

#[test]
fn cut_varint_behind_many_fields_is_refused_with_its_place() {
    let (schema, mut flood) = (Schema::read(), Flood::new());
    for method in &schema.methods {
        let fields = unknown(1000);
        let request = [&fields[..], &[8, 0x80, 0x80]].concat();
        let (answer, _) = flood.call(&method.path, &request);
        let place = format!("at byte {}", fields.len());
        let is_refused = answer.status == INVALID_ARGUMENT && answer.text.contains(&place);
        assert!(is_refused, "{}: {answer:?}", method.path);
        flood.assert_bystander_was_served(&method.path);
    }
}
