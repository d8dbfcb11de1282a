//! A gRPC client of hand-made frames.

use crate::common::Client;
use crate::common::redis::{addr, both};
use command::clients::endpoint::{Endpoint, Protocol};
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use protocol::grpc::protobuf::{Encoder, Message};
use protocol::http2::hpack::{FieldList, FieldName, HpackDecoder, encode};
use std::io::Read;
use std::net::SocketAddr;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) fn config() -> ServerConfig {
    let grpc = (Endpoint::from(Protocol::Grpc), ListenAddr::Tcp(([127, 0, 0, 1], 0).into()));
    ServerConfig { endpoints: vec![grpc], item_bytes_max: 16 << 20, ..both() }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

pub(crate) fn headers(path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let fixed = [(":method", "POST"), (":scheme", "http"), (":path", path), ("content-type", "application/grpc")];
    for (name, value) in fixed.iter().chain(more) {
        encode::literal(&mut block, name.as_bytes(), value.as_bytes());
    }
    block
}

/// Returns a message with its prefix.
pub(crate) fn prefixed(write: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut encoder = Encoder::new();
    write(&mut encoder);
    let mut bytes = vec![0];
    bytes.extend_from_slice(&(encoder.as_slice().len() as u32).to_be_bytes());
    bytes.extend_from_slice(encoder.as_slice());
    bytes
}

pub(crate) fn key(name: &str) -> Vec<u8> {
    prefixed(|out| {
        out.bytes(1, name.as_bytes());
    })
}

pub(crate) fn item(name: &str, value: &[u8]) -> Vec<u8> {
    prefixed(|out| {
        out.bytes(1, name.as_bytes()).bytes(2, value).uint(3, 60_000);
    })
}

/// Returns the frames of a call.
pub(crate) fn call(stream: u32, path: &str, message: &[u8]) -> Vec<u8> {
    let mut bytes = frame(HEADERS, 4, stream, &headers(path, &[]));
    let mut parts = message.chunks(16_384).peekable();
    while let Some(part) = parts.next() {
        bytes.extend_from_slice(&frame(DATA, u8::from(parts.peek().is_none()), stream, part));
    }
    bytes
}

pub(crate) const GET: &str = "/cache_client.Scs/Get";
pub(crate) const SET: &str = "/cache_client.Scs/Set";

/// The reply to a call.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: String,
    pub(crate) text: String,
    pub(crate) data: Vec<u8>,
}

impl Answer {
    /// Returns the value of a hit.
    pub(crate) fn value(&self) -> Option<Vec<u8>> {
        let message = Message::parse(self.data.get(5..)?).ok()?;
        (message.uint(1) == 2).then(|| message.bytes(2).to_vec())
    }
}

/// A client with one connection.
pub(crate) struct Grpc {
    pub(crate) client: Client,
    pub(crate) decoder: HpackDecoder,
}

impl Grpc {
    pub(crate) fn connect(running: &Running) -> Self {
        Self::connect_to(addr(running, Protocol::Grpc))
    }

    pub(crate) fn connect_to(addr: SocketAddr) -> Self {
        let mut client = Client::connect(addr);
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client.send(&frame(SETTINGS, 0, 0, &[]));
        // As much as a client may receive.
        client.send(&frame(WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes()));
        Self { client, decoder: HpackDecoder::new() }
    }

    /// Returns the next frame: its type, flags, stream and payload; `None` at the end of the connection.
    pub(crate) fn frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.client.stream.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.client.stream.read_exact(&mut payload).ok()?;
        Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload))
    }

    /// Returns the next frame of a type.
    pub(crate) fn wait_for(&mut self, kind: u8) -> Vec<u8> {
        loop {
            let (of, _, _, payload) = self.frame().expect("a frame before the end");
            if of == kind {
                return payload;
            }
        }
    }

    /// Reads the replies to calls, and opens the windows of their streams.
    pub(crate) fn answers(&mut self, streams: &[u32]) -> Vec<Answer> {
        let mut answers: Vec<Answer> = streams.iter().map(|_| Answer::default()).collect();
        let mut left = streams.len();
        while left > 0 {
            let (kind, flags, stream, payload) = self.frame().expect("a frame before the replies are complete");
            let Some(place) = streams.iter().position(|of| *of == stream) else { continue };
            match kind {
                HEADERS => {
                    let mut fields = FieldList::new(1 << 20);
                    self.decoder.decode(&payload, &mut fields).expect("valid headers");
                    let text = |name| String::from_utf8_lossy(fields.value(name).unwrap_or_default()).into_owned();
                    if fields.value(FieldName::GrpcStatus).is_some() {
                        answers[place].status = text(FieldName::GrpcStatus);
                        answers[place].text = text(FieldName::GrpcMessage);
                    }
                }
                DATA => {
                    answers[place].data.extend_from_slice(&payload);
                    if !payload.is_empty() {
                        let more = (payload.len() as u32).to_be_bytes();
                        self.client.send(&frame(WINDOW_UPDATE, 0, stream, &more));
                    }
                }
                RST_STREAM => answers[place].status = format!("reset {payload:?}"),
                _ => continue,
            }
            left -= usize::from(flags & 1 != 0 && kind != SETTINGS || kind == RST_STREAM);
        }
        answers
    }

    pub(crate) fn answer(&mut self, stream: u32, path: &str, message: &[u8]) -> Answer {
        self.client.send(&call(stream, path, message));
        self.answers(&[stream]).remove(0)
    }
}
