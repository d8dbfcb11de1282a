//! The frames of gRPC calls as a client library sends them: after the first calls of a connection, all header fields
//! are in the dynamic table of HPACK (RFC 7541).
//!
//! ```text
//!   begin    preface, SETTINGS, a large window;  a Set and a Get whose fields enter the dynamic table
//!   batch    get, set: frames of stream 0 ──> number: a stream for each HEADERS frame ──> server
//!   receive  frames, until as many streams have ended as the batch has calls
//! ```

use std::io::{Read, Write};
use std::net::TcpStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEADER_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Length of a message with a result and no value: the prefix, and the field 1.
pub const RESULT_BYTES: usize = 5 + 2;

/// `:method: POST` and `:scheme: http` of the static table.
const FIXED: [u8; 2] = [0x83, 0x86];
/// The place of `:path` in the static table.
const PATH: u8 = 4;
const GET: &str = "/gannet.v1.Cache/Get";
const SET: &str = "/gannet.v1.Cache/Set";
/// The other fields of all calls.
const COMMON: [(&str, &str); 5] = [
    (":authority", "127.0.0.1:7000"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
    ("user-agent", "grpc-go/1.76.0"),
    ("grpc-timeout", "15S"),
];
/// The first place of the dynamic table, that of the field that entered last: the path of Get.
const GET_PLACE: u8 = 62;
/// The fields in [`COMMON`] entered before it, and the path of Set before them.
const COMMON_PLACES: [u8; COMMON.len()] = [67, 66, 65, 64, 63];
const SET_PLACE: u8 = 68;
/// The least index of a name that does not fit in the first byte of a literal without indexing, which has four bits.
const LONG_NAME: u8 = 15;

fn put_frame(out: &mut Vec<u8>, kind: u8, flags: u8, payload: &[u8]) {
    out.extend(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend([kind, flags, 0, 0, 0, 0]);
    out.extend(payload);
}

/// Appends a string of at most 126 bytes, without Huffman code.
fn put_text(block: &mut Vec<u8>, text: &str) {
    block.push(text.len() as u8);
    block.extend(text.bytes());
}

/// Appends a path that enters the dynamic table.
fn put_new_path(block: &mut Vec<u8>, path: &str) {
    block.push(0x40 | PATH);
    put_text(block, path);
}

fn put_indexed(block: &mut Vec<u8>, places: &[u8]) {
    block.extend(places.iter().map(|place| 0x80 | place));
}

fn put_field(message: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    message.push(tag);
    match bytes.len() {
        len @ 0..=0x7f => message.push(len as u8),
        len => message.extend([len as u8 | 0x80, (len >> 7) as u8]),
    }
    message.extend(bytes);
}

/// Appends the frames of a call, of stream 0, whose header block is `block`.
fn put_call(out: &mut Vec<u8>, block: &[u8], message: &[u8]) {
    put_frame(out, HEADERS, END_HEADERS, block);
    let prefix = (message.len() as u32).to_be_bytes();
    put_frame(out, DATA, END_STREAM, &[&[0], &prefix[..], message].concat());
}

/// Returns the header block of a call whose path has this place. All calls of a method have the same.
fn block(path_place: u8) -> Vec<u8> {
    let mut block = FIXED.to_vec();
    put_indexed(&mut block, &[path_place]);
    put_indexed(&mut block, &COMMON_PLACES);
    block
}

fn message_of_key(key: &str) -> Vec<u8> {
    let mut message = Vec::new();
    put_field(&mut message, 0x0a, key.as_bytes());
    message
}

fn message_of_item(key: &str, value: &[u8]) -> Vec<u8> {
    let mut message = message_of_key(key);
    put_field(&mut message, 0x12, value);
    // The field 3, ttl_ms, is an hour.
    message.extend([0x18, 0x80, 0xdd, 0xdb, 0x01]);
    message
}

/// Appends a Get.
pub fn get(out: &mut Vec<u8>, key: &str) {
    put_call(out, &block(GET_PLACE), &message_of_key(key));
}

/// Appends a Get with another deadline than its neighbours, in microseconds, as some libraries send it.
pub fn timed_get(out: &mut Vec<u8>, key: &str, n: usize) {
    let [others @ .., timeout] = COMMON_PLACES;
    let mut block = FIXED.to_vec();
    put_indexed(&mut block, &[GET_PLACE]);
    put_indexed(&mut block, &others);
    block.extend([LONG_NAME, timeout - LONG_NAME]);
    put_text(&mut block, &format!("{}u", 14_999_000 + n % 1000));
    put_call(out, &block, &message_of_key(key));
}

/// Appends a Set.
pub fn set(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    put_call(out, &block(SET_PLACE), &message_of_item(key, value));
}

/// Returns the length of the message of a hit, with its prefix.
pub fn hit_bytes(value_bytes: usize) -> usize {
    RESULT_BYTES + if value_bytes < 0x80 { 2 } else { 3 } + value_bytes
}

/// The streams of a connection.
pub struct Streams {
    next: u32,
}

impl Streams {
    /// Begins a connection, with a window for all replies, and fills the server's dynamic table.
    ///
    /// # Errors
    /// If a call fails.
    pub fn begin(stream: &mut TcpStream, reply: &mut Vec<u8>) -> Result<Self, String> {
        let mut bytes = PREFACE.to_vec();
        put_frame(&mut bytes, SETTINGS, 0, &[]);
        put_frame(&mut bytes, WINDOW_UPDATE, 0, &(i32::MAX as u32 - 65_535).to_be_bytes());
        let mut first = FIXED.to_vec();
        put_new_path(&mut first, SET);
        for (name, value) in COMMON {
            first.push(0x40);
            put_text(&mut first, name);
            put_text(&mut first, value);
        }
        let mut second = FIXED.to_vec();
        put_new_path(&mut second, GET);
        put_indexed(&mut second, &COMMON_PLACES);
        let mut calls = Vec::new();
        put_call(&mut calls, &first, &message_of_item("first", b"v"));
        put_call(&mut calls, &second, &message_of_key("first"));
        let mut streams = Self { next: 1 };
        let count = streams.number(&mut calls);
        bytes.extend(calls);
        stream.write_all(&bytes).map_err(|error| error.to_string())?;
        receive(stream, reply, count, RESULT_BYTES + hit_bytes(1))?;
        Ok(streams)
    }

    /// Numbers the streams of the frames in `bytes`: each HEADERS frame begins the next stream. Returns the number of
    /// calls.
    pub fn number(&mut self, bytes: &mut [u8]) -> usize {
        let (mut at, first) = (0, self.next);
        while let Some(head) = bytes.get_mut(at..at + FRAME_HEADER_BYTES) {
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            if head[3] == HEADERS {
                self.next += 2;
            }
            head[5..].copy_from_slice(&(self.next - 2).to_be_bytes());
            at += FRAME_HEADER_BYTES + len;
        }
        ((self.next - first) / 2) as usize
    }
}

/// Reads frames until `calls` streams have ended. Their DATA frames must have `data_bytes` bytes together.
///
/// # Errors
/// If a stream or the connection fails, or the length differs.
pub fn receive(stream: &mut TcpStream, reply: &mut Vec<u8>, calls: usize, data_bytes: usize) -> Result<(), String> {
    let (mut ended, mut data) = (0, 0);
    while ended < calls {
        let mut head = [0; FRAME_HEADER_BYTES];
        let read = |stream: &mut TcpStream, into: &mut [u8]| {
            stream.read_exact(into).map_err(|error| format!("{ended} of {calls} calls have replies: {error}"))
        };
        read(stream, &mut head)?;
        reply.resize(u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize, 0);
        read(stream, reply)?;
        match (head[3], head[4]) {
            (DATA, _) => data += reply.len(),
            (HEADERS, flags) if flags & END_STREAM != 0 => ended += 1,
            (RST_STREAM | GOAWAY, _) => return Err(format!("unexpected frame: {head:?} {reply:?}")),
            _ => {}
        }
    }
    match data == data_bytes {
        true => Ok(()),
        false => Err(format!("the replies have {data} bytes of messages, but {data_bytes} are expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_call_share_its_stream_and_the_next_call_has_the_next_one() {
        let (mut bytes, mut streams) = (Vec::new(), Streams { next: 5 });
        get(&mut bytes, "a");
        set(&mut bytes, "b", &[0; 20]);
        assert_eq!(streams.number(&mut bytes), 2);
        let (mut at, mut found) = (0, Vec::new());
        while let Some(head) = bytes.get(at..at + FRAME_HEADER_BYTES) {
            found.push((head[3], head[8]));
            at += FRAME_HEADER_BYTES + usize::from(head[2]);
        }
        assert_eq!((at, found), (bytes.len(), vec![(HEADERS, 5), (DATA, 5), (HEADERS, 7), (DATA, 7)]));
    }
}
