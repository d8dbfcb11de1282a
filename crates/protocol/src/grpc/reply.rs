//! Replies to calls.
//!
//! ```text
//!  unary reply   HEADERS | DATA header, message prefix | message      | HEADERS: grpc-status 0
//!                |------- head, 43 bytes --------------| the caller's | tail, 24 bytes
//! ```

use super::call::Refusal;
use super::message::{MESSAGE_PREFIX_BYTES, message_prefix};
use super::percent;
use super::status::Status;
use crate::http2::ServerConnection;
use crate::http2::frame::{FRAME_HEADER_BYTES, FrameHeader, WINDOW_UPDATE_BYTES, flag, kind};
use crate::http2::hpack::encode;
use crate::sink::{Fixed, Sink};

/// Indexes of the static table (RFC 7541, appendix A).
mod index {
    pub(super) const STATUS_200: u8 = 8;
    pub(super) const ALLOW: u8 = 22;
    pub(super) const CONTENT_TYPE: u8 = 31;
}

/// The header block of a reply: `:status: 200`, `content-type: application/grpc`.
pub const HEADERS_BLOCK: &[u8; 20] = b"\x88\x0f\x10\x10application/grpc";

/// The header block of the trailers of a successful call: `grpc-status: 0`.
pub const OK_TRAILERS_BLOCK: &[u8; 15] = b"\0\x0bgrpc-status\x010";

/// The maximum number of bytes that [`begin_unary`] writes.
pub const UNARY_HEAD_BYTES_MAX: usize = WINDOW_UPDATE_BYTES + HEAD_BYTES;

/// The number of bytes that [`end_unary`] writes.
pub const UNARY_TAIL_BYTES: usize = FRAME_HEADER_BYTES + OK_TRAILERS_BLOCK.len();

const HEAD_BYTES: usize = 2 * FRAME_HEADER_BYTES + HEADERS_BLOCK.len() + MESSAGE_PREFIX_BYTES;

/// The maximum length of a block of trailers in bytes. Metadata that does not fit is omitted.
pub const TRAILERS_BLOCK_BYTES_MAX: usize = 4096;

/// The maximum number of bytes that [`trailers`], [`trailers_only`] and [`refuse`] write.
pub const TRAILERS_BYTES_MAX: usize = FRAME_HEADER_BYTES + 1 + TRAILERS_BLOCK_BYTES_MAX + WINDOW_UPDATE_BYTES;

/// The maximum length in bytes of a message in trailers before it is encoded.
const TEXT_BYTES_MAX: usize = 512;

/// A field of metadata: a lowercase name, and a value of printable ASCII.
pub type Metadata<'m> = (&'m str, &'m [u8]);

/// Begins the reply of a successful unary call whose message has `message_len` bytes. If it returns true, it has
/// written at most [`UNARY_HEAD_BYTES_MAX`] bytes and completed the stream; the caller appends the message, then calls
/// [`end_unary`].
///
/// If it returns false, it has written nothing: a window is too small, the message is longer than a frame, or the
/// stream is closed.
#[inline]
pub fn begin_unary(connection: &mut ServerConnection, stream: u32, message_len: usize, sink: &mut impl Sink) -> bool {
    let data_len = MESSAGE_PREFIX_BYTES + message_len;
    if !connection.claim_whole_reply(stream, data_len, sink) {
        return false;
    }
    let headers = FrameHeader { len: HEADERS_BLOCK.len(), kind: kind::HEADERS, flags: flag::END_HEADERS, stream };
    let data = FrameHeader { len: data_len, kind: kind::DATA, flags: 0, stream };
    let mut head = Fixed::<HEAD_BYTES>::new();
    head.put(&headers.encode());
    head.put(HEADERS_BLOCK);
    head.put(&data.encode());
    head.put(&message_prefix(message_len as u32));
    sink.put(head.as_slice());
    true
}

/// Ends a reply that [`begin_unary`] has begun, by [`UNARY_TAIL_BYTES`] bytes.
#[inline]
pub fn end_unary(stream: u32, sink: &mut impl Sink) {
    let flags = flag::END_HEADERS | flag::END_STREAM;
    let trailers = FrameHeader { len: OK_TRAILERS_BLOCK.len(), kind: kind::HEADERS, flags, stream };
    let mut tail = Fixed::<UNARY_TAIL_BYTES>::new();
    tail.put(&trailers.encode());
    tail.put(OK_TRAILERS_BLOCK);
    sink.put(tail.as_slice());
}

/// Sends the header fields of a reply whose messages follow by [`ServerConnection::send_data`]. Returns false if the
/// stream is closed.
pub fn headers(connection: &mut ServerConnection, stream: u32, sink: &mut impl Sink) -> bool {
    connection.send_headers(stream, HEADERS_BLOCK, false, sink)
}

/// Ends a reply after its header fields and messages. `text` explains a failure. Returns false if the stream is closed.
///
/// Writes at most [`TRAILERS_BYTES_MAX`] bytes. `text` is cut at 512 bytes.
pub fn trailers(
    connection: &mut ServerConnection,
    stream: u32,
    status: Status,
    text: &str,
    metadata: &[Metadata<'_>],
    sink: &mut impl Sink,
) -> bool {
    let mut block = Fixed::<TRAILERS_BLOCK_BYTES_MAX>::new();
    put_status(&mut block, status, text, metadata);
    connection.send_headers(stream, block.as_slice(), true, sink)
}

/// Sends a reply without messages, all fields of which are in one block: the usual form of a failure.
///
/// Writes at most [`TRAILERS_BYTES_MAX`] bytes. Returns false if the stream is closed.
pub fn trailers_only(
    connection: &mut ServerConnection,
    stream: u32,
    status: Status,
    text: &str,
    metadata: &[Metadata<'_>],
    sink: &mut impl Sink,
) -> bool {
    let mut block = Fixed::<TRAILERS_BLOCK_BYTES_MAX>::new();
    block.put(HEADERS_BLOCK);
    put_status(&mut block, status, text, metadata);
    connection.send_headers(stream, block.as_slice(), true, sink)
}

/// Ends a reply, whose header fields may have been sent: [`trailers`] or [`trailers_only`], without metadata.
pub fn end(connection: &mut ServerConnection, stream: u32, status: Status, text: &str, sink: &mut impl Sink) -> bool {
    end_with(connection, stream, status, text, &[], sink)
}

/// Ends a reply as [`end`] does, with metadata.
pub fn end_with(
    connection: &mut ServerConnection,
    stream: u32,
    status: Status,
    text: &str,
    metadata: &[Metadata<'_>],
    sink: &mut impl Sink,
) -> bool {
    let write = if connection.has_sent_headers(stream) { trailers } else { trailers_only };
    write(connection, stream, status, text, metadata, sink)
}

/// Begins the reply to a request of HTTP that is not a call: header fields with the status of `refusal`, after which
/// the caller sends a text. Returns false if the stream is closed.
pub fn http_headers(connection: &mut ServerConnection, stream: u32, refusal: Refusal, sink: &mut impl Sink) -> bool {
    let mut block = Fixed::<TRAILERS_BLOCK_BYTES_MAX>::new();
    put_http_status(&mut block, refusal.http_status());
    encode::with_indexed_name(&mut block, index::CONTENT_TYPE, b"text/plain");
    connection.send_headers(stream, block.as_slice(), false, sink)
}

fn put_http_status(block: &mut impl Sink, status: u16) {
    match status {
        200 => encode::indexed(block, index::STATUS_200),
        405 => {
            encode::with_indexed_name(block, index::STATUS_200, b"405");
            encode::with_indexed_name(block, index::ALLOW, b"POST");
        }
        _ => encode::with_indexed_name(block, index::STATUS_200, b"415"),
    }
}

/// Answers a request that is not a call, with the HTTP status that gRPC's mapping asks for.
///
/// Writes at most [`TRAILERS_BYTES_MAX`] bytes. Returns false if the stream is closed.
pub fn refuse(connection: &mut ServerConnection, stream: u32, refusal: Refusal, sink: &mut impl Sink) -> bool {
    let mut block = Fixed::<TRAILERS_BLOCK_BYTES_MAX>::new();
    put_http_status(&mut block, refusal.http_status());
    encode::with_indexed_name(&mut block, index::CONTENT_TYPE, b"application/grpc");
    put_status(&mut block, refusal.status(), refusal.text(), &[]);
    connection.send_headers(stream, block.as_slice(), true, sink)
}

/// Appends `grpc-status`, `grpc-message` unless it is empty, and as much of the metadata as fits.
fn put_status(block: &mut Fixed<TRAILERS_BLOCK_BYTES_MAX>, status: Status, text: &str, metadata: &[Metadata<'_>]) {
    encode::literal(block, b"grpc-status", status.digits().as_bytes());
    if !text.is_empty() {
        let end = (0..=text.len().min(TEXT_BYTES_MAX)).rfind(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let text = &text.as_bytes()[..end];
        encode::literal_of_parts(block, b"grpc-message", percent::encoded_len(text), |block| {
            percent::encode(block, text);
        });
    }
    for (name, value) in metadata {
        let most = name.len() + value.len() + encode::FIELD_OVERHEAD_BYTES_MAX;
        if block.as_slice().len() + most <= TRAILERS_BLOCK_BYTES_MAX {
            encode::literal(block, name.as_bytes(), value);
        }
    }
}
