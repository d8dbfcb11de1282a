//! The server's side of one connection.
//!
//! ```text
//!   preface ──> frames ──┬─ HEADERS [CONTINUATION ...] ──> a whole block ──> decoded ──> Http2Event::Headers
//!                        └─ DATA, also in parts ────────────────────────────────────────> Http2Event::Data
//!
//!   stream:   idle ──HEADERS──> open ──END_STREAM──> half closed ──reply ends──> closed
//!                                 └──reply ends, RST_STREAM (either side)──────────^
//! ```
//!
//! Invariants: at most [`STREAMS_MAX`] streams are open; further ones are refused. At most [`BLOCK_BYTES_MAX`] bytes
//! of an incomplete header block are held. The received bytes of all streams that the caller has not consumed are at
//! most [`WINDOW_BYTES`] ([`Http2::consume`] opens the windows again). One call of [`Http2::receive`] handles at
//! most one frame, and writes at most [`CONTROL_BYTES_MAX`] bytes.

use super::frame::{ErrorCode, FrameHead, HEAD_BYTES, PAYLOAD_BYTES_MAX, PREFACE, flag, kind, put_head, put_numbers};
use super::hpack::{DecodeError, Fields, HeaderDecoder};
use crate::sink::Sink;

/// The maximum number of open streams: `SETTINGS_MAX_CONCURRENT_STREAMS`.
pub const STREAMS_MAX: usize = 100;
/// The initial receive window of a stream, and the receive window of the connection, in bytes.
pub const WINDOW_BYTES: u32 = 1 << 20;
/// The maximum length of a header block, in bytes.
const BLOCK_BYTES_MAX: usize = 32 << 10;
/// The maximum size of a decoded header list, in bytes: `SETTINGS_MAX_HEADER_LIST_SIZE`.
const LIST_BYTES_MAX: usize = 16 << 10;
/// The maximum number of frames of one header block.
const BLOCK_FRAMES_MAX: u32 = 16;
/// The maximum number of bytes that one call of [`Http2::receive`] writes.
pub const CONTROL_BYTES_MAX: usize = 128;
/// The maximum number of frames between two calls of [`Http2::relax`] that cause work and end no request: pings,
/// settings, empty data, resets, priorities, small window updates.
const IDLE_FRAMES_MAX: u32 = 2_000;
/// The maximum number of streams that a peer resets before their reply ends, beyond the number of completed ones.
const RESETS_MAX: u32 = 200;
/// The initial send window (RFC 9113, 6.9.2).
const INITIAL_WINDOW: i64 = 65_535;
/// The maximum window (RFC 9113, 6.9.1).
const WINDOW_MAX: i64 = (1 << 31) - 1;

/// A consequence of received bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Http2Event<'b> {
    /// The next step needs more bytes.
    Incomplete,
    /// A frame was handled.
    Handled,
    /// A stream begins. Its headers are [`Http2::fields`] until the next call of [`Http2::receive`].
    Headers {
        /// The stream.
        stream: u32,
        /// True if no data follows.
        end: bool,
    },
    /// Data of an open stream. The caller reports its bytes with [`Http2::consume`] when they need no memory any
    /// more.
    Data {
        /// The stream.
        stream: u32,
        /// A part of the data.
        bytes: &'b [u8],
        /// True if no data follows.
        end: bool,
    },
    /// The stream ended early. No reply to it can be sent.
    Reset {
        /// The stream.
        stream: u32,
    },
    /// A window was opened: replies that waited for it can go on.
    Opened,
    /// The connection must be closed when all is sent. `GOAWAY` with the reason was written.
    Failed,
}

/// The reason why a frame was not handled.
enum Fault {
    /// The connection ends.
    Connection(ErrorCode),
    /// The stream ends.
    Stream(u32, ErrorCode),
}

/// An open stream.
#[derive(Clone, Copy, Debug)]
struct Stream {
    id: u32,
    /// The number of bytes that may be sent, which is negative after a decrease of the peer's initial window.
    send: i64,
    /// The number of bytes that the peer may send.
    receive: u32,
    /// The number of bytes that were received and not consumed.
    held: u32,
    /// The rest of the announced length of the data; `None` if no length was announced.
    length: Option<u64>,
    /// True if the peer has ended its side.
    ended: bool,
}

/// The DATA frame that is partly received.
#[derive(Clone, Copy, Debug)]
struct DataFrame {
    stream: u32,
    left: usize,
    padding: usize,
    end: bool,
}

/// The header block that is partly received.
#[derive(Debug)]
struct Block {
    stream: u32,
    end: bool,
    frames: u32,
}

/// The server's side of a connection.
#[derive(Debug)]
pub struct Http2 {
    /// The number of bytes of the preface that were received.
    preface: usize,
    has_settings: bool,
    data: Option<DataFrame>,
    block: Option<Block>,
    block_bytes: Vec<u8>,
    decoder: HeaderDecoder,
    fields: Fields,
    /// The open streams, in the order of their numbers.
    streams: Vec<Stream>,
    /// The highest stream that has begun.
    last: u32,
    /// The last streams that this side has reset, for which frames may still be on their way.
    reset: [u32; 32],
    resets: usize,
    send: i64,
    receive: u32,
    /// The number of consumed bytes for which the connection's window is not open again.
    consumed: u32,
    peer_window: i64,
    peer_frame: usize,
    /// The number of frames that caused work and ended no request.
    idle_frames: u32,
    /// The number of resets by the peer, less the number of completed streams.
    peer_resets: u32,
    has_failed: bool,
}

impl Default for Http2 {
    fn default() -> Self {
        Self {
            preface: 0,
            has_settings: false,
            data: None,
            block: None,
            block_bytes: Vec::new(),
            decoder: HeaderDecoder::default(),
            fields: Fields::default(),
            streams: Vec::new(),
            last: 0,
            reset: [0; 32],
            resets: 0,
            send: INITIAL_WINDOW,
            receive: WINDOW_BYTES,
            consumed: 0,
            peer_window: INITIAL_WINDOW,
            peer_frame: PAYLOAD_BYTES_MAX,
            idle_frames: 0,
            peer_resets: 0,
            has_failed: false,
        }
    }
}

impl Http2 {
    /// Returns the headers of the stream that began last.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Frees the memory of long headers, which are no longer needed.
    pub fn free_fields(&mut self) {
        self.fields.free();
    }

    /// Returns the memory that the connection holds, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.block_bytes.capacity()
            + self.decoder.memory_bytes()
            + self.fields.memory_bytes()
            + self.streams.capacity() * size_of::<Stream>()
    }

    /// Writes the server's preface. The caller writes it first.
    pub fn begin(&mut self, sink: &mut impl Sink) {
        let settings = [(3u16, STREAMS_MAX as u32), (4, WINDOW_BYTES), (6, LIST_BYTES_MAX as u32)];
        put_head(sink, 6 * settings.len(), kind::SETTINGS, 0, 0);
        for (id, value) in settings {
            sink.put(&id.to_be_bytes());
            sink.put(&value.to_be_bytes());
        }
        put_numbers(sink, kind::WINDOW_UPDATE, 0, &[WINDOW_BYTES - INITIAL_WINDOW as u32]);
    }

    /// Handles the next frame, or the next part of one. Returns the number of consumed bytes. `sink` has room for
    /// [`CONTROL_BYTES_MAX`] bytes.
    pub fn receive<'b>(&mut self, input: &'b [u8], sink: &mut impl Sink) -> (usize, Http2Event<'b>) {
        if self.has_failed {
            return (input.len(), Http2Event::Failed);
        }
        match self.step(input, sink) {
            Ok(done) => {
                self.open_window(sink);
                done
            }
            Err((_, Fault::Connection(code))) => {
                self.fail(code, sink);
                (input.len(), Http2Event::Failed)
            }
            Err((consumed, Fault::Stream(stream, code))) => {
                let was_open = self.position(stream).is_some();
                self.reset(stream, code, sink);
                self.open_window(sink);
                (consumed, if was_open { Http2Event::Reset { stream } } else { Http2Event::Handled })
            }
        }
    }

    /// Ends the connection with an error: writes `GOAWAY`. [`Http2::receive`] then returns [`Http2Event::Failed`].
    pub fn fail(&mut self, code: ErrorCode, sink: &mut impl Sink) {
        put_numbers(sink, kind::GOAWAY, 0, &[self.last, code as u32]);
        (self.has_failed, self.data, self.block) = (true, None, None);
    }

    fn step<'b>(&mut self, input: &'b [u8], sink: &mut impl Sink) -> Result<(usize, Http2Event<'b>), (usize, Fault)> {
        let whole = |fault| (0, fault);
        if self.preface < PREFACE.len() {
            let len = input.len().min(PREFACE.len() - self.preface);
            if input[..len] != PREFACE[self.preface..self.preface + len] {
                return Err(whole(Fault::Connection(ErrorCode::ProtocolError)));
            }
            self.preface += len;
            return Ok((len, if len == 0 { Http2Event::Incomplete } else { Http2Event::Handled }));
        }
        if let Some(frame) = self.data {
            return Ok(self.data_part(frame, input));
        }
        let Some(head) = FrameHead::read(input) else { return Ok((0, Http2Event::Incomplete)) };
        self.check_order(head).map_err(whole)?;
        if head.kind == kind::DATA {
            return self.begin_data(head, input);
        }
        let end = HEAD_BYTES + head.length;
        let Some(payload) = input.get(HEAD_BYTES..end) else { return Ok((0, Http2Event::Incomplete)) };
        match self.handle(head, payload, sink) {
            Ok(event) => Ok((end, event)),
            Err(fault) => Err((end, fault)),
        }
    }

    /// Checks what can be checked before a frame's payload is received.
    fn check_order(&self, head: FrameHead) -> Result<(), Fault> {
        if head.length > PAYLOAD_BYTES_MAX {
            return Err(Fault::Connection(ErrorCode::FrameSizeError));
        }
        if !self.has_settings && (head.kind != kind::SETTINGS || head.has(flag::ACK)) {
            return Err(Fault::Connection(ErrorCode::ProtocolError));
        }
        let continues = head.kind == kind::CONTINUATION;
        let is_in_order = match &self.block {
            Some(block) => continues && head.stream == block.stream,
            None => !continues,
        };
        if is_in_order { Ok(()) } else { Err(Fault::Connection(ErrorCode::ProtocolError)) }
    }

    /// Counts a frame that causes work and ends no request.
    fn count_idle(&mut self) -> Result<(), Fault> {
        self.idle_frames += 1;
        match self.idle_frames > IDLE_FRAMES_MAX {
            true => Err(Fault::Connection(ErrorCode::EnhanceYourCalm)),
            false => Ok(()),
        }
    }

    fn handle(&mut self, head: FrameHead, payload: &[u8], sink: &mut impl Sink) -> Result<Http2Event<'static>, Fault> {
        let size = |is_valid: bool| if is_valid { Ok(()) } else { Err(Fault::Connection(ErrorCode::FrameSizeError)) };
        let on_stream = |is_valid: bool| match is_valid {
            true => Ok(()),
            false => Err(Fault::Connection(ErrorCode::ProtocolError)),
        };
        match head.kind {
            kind::HEADERS => return self.begin_block(head, payload),
            kind::CONTINUATION => return self.continue_block(head, payload),
            kind::PRIORITY => {
                on_stream(head.stream != 0)?;
                self.count_idle()?;
                if payload.len() != 5 {
                    return Err(Fault::Stream(head.stream, ErrorCode::FrameSizeError));
                }
                check_dependency(head.stream, payload)?;
            }
            kind::RST_STREAM => {
                on_stream(head.stream != 0 && head.stream <= self.last)?;
                size(payload.len() == 4)?;
                self.count_idle()?;
                if let Some(at) = self.position(head.stream) {
                    self.close_at(at);
                    self.peer_resets += 1;
                    if self.peer_resets > RESETS_MAX {
                        return Err(Fault::Connection(ErrorCode::EnhanceYourCalm));
                    }
                    return Ok(Http2Event::Reset { stream: head.stream });
                }
            }
            kind::SETTINGS => {
                on_stream(head.stream == 0)?;
                return self.settings(head, payload, sink);
            }
            kind::PUSH_PROMISE => on_stream(false)?,
            kind::PING => {
                on_stream(head.stream == 0)?;
                size(payload.len() == 8)?;
                self.count_idle()?;
                if !head.has(flag::ACK) {
                    put_head(sink, payload.len(), kind::PING, flag::ACK, 0);
                    sink.put(payload);
                }
            }
            kind::GOAWAY => {
                on_stream(head.stream == 0)?;
                size(payload.len() >= 8)?;
                self.count_idle()?;
            }
            kind::WINDOW_UPDATE => return self.window_update(head, payload),
            // RFC 9113, 5.5: frames of unknown types are ignored.
            _ => self.count_idle()?,
        }
        Ok(Http2Event::Handled)
    }

    fn settings(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        sink: &mut impl Sink,
    ) -> Result<Http2Event<'static>, Fault> {
        let is_valid = if head.has(flag::ACK) { payload.is_empty() } else { payload.len().is_multiple_of(6) };
        if !is_valid {
            return Err(Fault::Connection(ErrorCode::FrameSizeError));
        }
        self.count_idle()?;
        if head.has(flag::ACK) {
            return Ok(Http2Event::Handled);
        }
        self.has_settings = true;
        for setting in payload.chunks_exact(6) {
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            match u16::from_be_bytes([setting[0], setting[1]]) {
                2 if value > 1 => return Err(Fault::Connection(ErrorCode::ProtocolError)),
                4 => {
                    if i64::from(value) > WINDOW_MAX {
                        return Err(Fault::Connection(ErrorCode::FlowControlError));
                    }
                    let more = i64::from(value) - self.peer_window;
                    self.peer_window = i64::from(value);
                    for stream in &mut self.streams {
                        stream.send += more;
                        if stream.send > WINDOW_MAX {
                            return Err(Fault::Connection(ErrorCode::FlowControlError));
                        }
                    }
                }
                5 => match value {
                    16_384..=16_777_215 => self.peer_frame = (value as usize).min(PAYLOAD_BYTES_MAX),
                    _ => return Err(Fault::Connection(ErrorCode::ProtocolError)),
                },
                // This side enters no header in a table, pushes nothing, and ignores unknown settings.
                _ => {}
            }
        }
        put_head(sink, 0, kind::SETTINGS, flag::ACK, 0);
        Ok(Http2Event::Opened)
    }

    fn window_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<Http2Event<'static>, Fault> {
        let Ok(bytes) = <[u8; 4]>::try_from(payload) else {
            return Err(Fault::Connection(ErrorCode::FrameSizeError));
        };
        let more = i64::from(u32::from_be_bytes(bytes) & 0x7fff_ffff);
        if more < 1_024 {
            self.count_idle()?;
        }
        if head.stream == 0 {
            if more == 0 {
                return Err(Fault::Connection(ErrorCode::ProtocolError));
            }
            self.send += more;
            if self.send > WINDOW_MAX {
                return Err(Fault::Connection(ErrorCode::FlowControlError));
            }
            return Ok(Http2Event::Opened);
        }
        if head.stream > self.last {
            return Err(Fault::Connection(ErrorCode::ProtocolError));
        }
        let Some(at) = self.position(head.stream) else { return Ok(Http2Event::Handled) };
        if more == 0 {
            return Err(Fault::Stream(head.stream, ErrorCode::ProtocolError));
        }
        self.streams[at].send += more;
        if self.streams[at].send > WINDOW_MAX {
            return Err(Fault::Stream(head.stream, ErrorCode::FlowControlError));
        }
        Ok(Http2Event::Opened)
    }

    fn position(&self, stream: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&stream, |of| of.id).ok()
    }

    /// Closes a stream. Its bytes that were not consumed open the connection's window.
    fn close_at(&mut self, at: usize) {
        self.consumed += self.streams.remove(at).held;
    }

    /// Resets a stream. Frames that are on their way to it are ignored.
    pub fn reset(&mut self, stream: u32, code: ErrorCode, sink: &mut impl Sink) {
        if let Some(at) = self.position(stream) {
            self.close_at(at);
        }
        self.reset[self.resets % self.reset.len()] = stream;
        self.resets += 1;
        put_numbers(sink, kind::RST_STREAM, stream, &[code as u32]);
    }
}

/// Checks that a stream does not depend on itself (RFC 7540, 5.3.1). Priorities are otherwise ignored.
fn check_dependency(stream: u32, payload: &[u8]) -> Result<(), Fault> {
    let on = payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes) & 0x7fff_ffff);
    if on == stream { Err(Fault::Stream(stream, ErrorCode::ProtocolError)) } else { Ok(()) }
}

/// Header blocks.
impl Http2 {
    fn begin_block(&mut self, head: FrameHead, payload: &[u8]) -> Result<Http2Event<'static>, Fault> {
        if head.stream.is_multiple_of(2) {
            return Err(Fault::Connection(ErrorCode::ProtocolError));
        }
        let mut block = payload;
        if head.has(flag::PADDED) {
            let (padding, rest) = block.split_first().ok_or(Fault::Connection(ErrorCode::FrameSizeError))?;
            let kept = rest.len().checked_sub(usize::from(*padding));
            block = &rest[..kept.ok_or(Fault::Connection(ErrorCode::ProtocolError))?];
        }
        let mut depends = Ok(());
        if head.has(flag::PRIORITY) {
            let (priority, rest) = block.split_at_checked(5).ok_or(Fault::Connection(ErrorCode::FrameSizeError))?;
            depends = check_dependency(head.stream, priority);
            block = rest;
        }
        self.block_bytes.clear();
        self.block_bytes.extend_from_slice(block);
        self.block = Some(Block { stream: head.stream, end: head.has(flag::END_STREAM), frames: 1 });
        let event = if head.has(flag::END_HEADERS) { self.end_block()? } else { Http2Event::Handled };
        depends.map(|()| event)
    }

    fn continue_block(&mut self, head: FrameHead, payload: &[u8]) -> Result<Http2Event<'static>, Fault> {
        if let Some(block) = &mut self.block {
            block.frames += 1;
            if block.frames > BLOCK_FRAMES_MAX || self.block_bytes.len() + payload.len() > BLOCK_BYTES_MAX {
                return Err(Fault::Connection(ErrorCode::EnhanceYourCalm));
            }
        }
        self.block_bytes.extend_from_slice(payload);
        if head.has(flag::END_HEADERS) { self.end_block() } else { Ok(Http2Event::Handled) }
    }

    /// Decodes a complete header block, which begins a stream or ends its data with trailers.
    fn end_block(&mut self) -> Result<Http2Event<'static>, Fault> {
        let Some(Block { stream, end, .. }) = self.block.take() else { return Ok(Http2Event::Handled) };
        self.fields.clear();
        self.decoder.decode(&self.block_bytes, LIST_BYTES_MAX, &mut self.fields).map_err(|error| {
            Fault::Connection(match error {
                DecodeError::Malformed => ErrorCode::CompressionError,
                DecodeError::TooLong => ErrorCode::EnhanceYourCalm,
            })
        })?;
        if self.block_bytes.capacity() > 4_096 {
            self.block_bytes = Vec::new();
        }
        if let Some(at) = self.position(stream) {
            return self.trailers(at, end);
        }
        if stream <= self.last {
            return match self.reset.contains(&stream) {
                true => Ok(Http2Event::Handled),
                false => Err(Fault::Connection(ErrorCode::StreamClosed)),
            };
        }
        self.last = stream;
        if self.streams.len() >= STREAMS_MAX {
            self.count_idle()?;
            return Err(Fault::Stream(stream, ErrorCode::RefusedStream));
        }
        let length = self.check_request().ok_or(Fault::Stream(stream, ErrorCode::ProtocolError))?;
        if end && length.is_some_and(|length| length > 0) {
            return Err(Fault::Stream(stream, ErrorCode::ProtocolError));
        }
        let (send, receive) = (self.peer_window, WINDOW_BYTES);
        self.streams.push(Stream { id: stream, send, receive, held: 0, length, ended: end });
        Ok(Http2Event::Headers { stream, end })
    }

    fn trailers(&mut self, at: usize, end: bool) -> Result<Http2Event<'static>, Fault> {
        let stream = &mut self.streams[at];
        if stream.ended {
            return Err(Fault::Stream(stream.id, ErrorCode::StreamClosed));
        }
        let has_pseudo = self.fields.iter().any(|(name, _)| name.first() == Some(&b':'));
        if !end || has_pseudo || stream.length.is_some_and(|left| left > 0) {
            return Err(Fault::Stream(stream.id, ErrorCode::ProtocolError));
        }
        stream.ended = true;
        Ok(Http2Event::Data { stream: stream.id, bytes: &[], end: true })
    }

    /// Checks that the headers are those of a request (RFC 9113, 8.2 and 8.3). Returns the announced length of its
    /// data; `None` if the request is malformed.
    #[expect(clippy::option_option, reason = "the outer one is the result of the check")]
    fn check_request(&self) -> Option<Option<u64>> {
        let (mut seen, mut is_regular, mut length) = (0u8, false, None);
        for (name, value) in self.fields.iter() {
            if let Some(pseudo) = name.strip_prefix(b":") {
                let bit = match pseudo {
                    b"method" => 1,
                    b"scheme" => 2,
                    b"path" if !value.is_empty() => 4,
                    b"authority" => 8,
                    _ => return None,
                };
                if is_regular || seen & bit != 0 {
                    return None;
                }
                seen |= bit;
                continue;
            }
            is_regular = true;
            if name.is_empty() || name.iter().any(|byte| byte.is_ascii_uppercase() || *byte <= b' ' || *byte >= 0x7f) {
                return None;
            }
            match name {
                b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => return None,
                b"te" if value != b"trailers" => return None,
                b"content-length" => length = Some(std::str::from_utf8(value).ok()?.parse().ok()?),
                _ => {}
            }
            if value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
                return None;
            }
        }
        (seen & 7 == 7 || self.fields.is_cut).then_some(length)
    }
}

/// Data.
impl Http2 {
    fn begin_data<'b>(&mut self, head: FrameHead, input: &'b [u8]) -> Result<(usize, Http2Event<'b>), (usize, Fault)> {
        let fail = |code| (0, Fault::Connection(code));
        if head.stream == 0 || head.stream > self.last {
            return Err(fail(ErrorCode::ProtocolError));
        }
        let (mut consumed, mut padding) = (HEAD_BYTES, 0);
        if head.has(flag::PADDED) {
            if head.length == 0 {
                return Err(fail(ErrorCode::FrameSizeError));
            }
            let Some(byte) = input.get(HEAD_BYTES) else { return Ok((0, Http2Event::Incomplete)) };
            (consumed, padding) = (HEAD_BYTES + 1, usize::from(*byte));
        }
        let left = head.length - (consumed - HEAD_BYTES);
        if padding > left {
            return Err(fail(ErrorCode::ProtocolError));
        }
        let flow = head.length as u32;
        self.receive = self.receive.checked_sub(flow).ok_or(fail(ErrorCode::FlowControlError))?;
        if left - padding == 0 && !head.has(flag::END_STREAM) {
            self.count_idle().map_err(|fault| (0, fault))?;
        }
        let end = head.has(flag::END_STREAM);
        self.data = Some(DataFrame { stream: head.stream, left, padding, end });
        let at = match self.position(head.stream) {
            Some(at) if !self.streams[at].ended => at,
            _ => {
                self.consumed += flow;
                return match self.reset.contains(&head.stream) {
                    true => Ok((consumed, Http2Event::Handled)),
                    false => Err((consumed, Fault::Stream(head.stream, ErrorCode::StreamClosed))),
                };
            }
        };
        let stream = &mut self.streams[at];
        let data = (left - padding) as u64;
        let fault = match (stream.receive.checked_sub(flow), stream.length) {
            (None, _) => Some(ErrorCode::FlowControlError),
            (Some(_), Some(rest)) if data > rest || end && data < rest => Some(ErrorCode::ProtocolError),
            (Some(receive), rest) => {
                (stream.receive, stream.length) = (receive, rest.map(|rest| rest - data));
                // Padding needs no memory: it counts as consumed.
                stream.held += data as u32;
                self.consumed += flow - data as u32;
                None
            }
        };
        if let Some(code) = fault {
            self.consumed += flow;
            return Err((consumed, Fault::Stream(head.stream, code)));
        }
        Ok((consumed, Http2Event::Handled))
    }

    fn data_part<'b>(&mut self, mut frame: DataFrame, input: &'b [u8]) -> (usize, Http2Event<'b>) {
        let data = input.len().min(frame.left - frame.padding);
        let (bytes, mut consumed) = (&input[..data], data);
        frame.left -= data;
        if frame.left == frame.padding {
            let padding = (input.len() - data).min(frame.padding);
            (frame.left, frame.padding) = (frame.left - padding, frame.padding - padding);
            consumed += padding;
        }
        let is_whole = frame.left == 0;
        self.data = (!is_whole).then_some(frame);
        let Some(at) = self.position(frame.stream).filter(|at| !self.streams[*at].ended) else {
            return (consumed, if is_whole || consumed > 0 { Http2Event::Handled } else { Http2Event::Incomplete });
        };
        if consumed == 0 && !is_whole {
            return (0, Http2Event::Incomplete);
        }
        let end = is_whole && frame.end;
        self.streams[at].ended = end;
        (consumed, Http2Event::Data { stream: frame.stream, bytes, end })
    }

    /// Records that `bytes` received bytes of a stream need no memory any more, and writes updates of windows of which
    /// a half is used. `sink` has room for [`CONTROL_BYTES_MAX`] bytes.
    pub fn consume(&mut self, stream: u32, bytes: usize, sink: &mut impl Sink) {
        if let Some(at) = self.position(stream) {
            let stream = &mut self.streams[at];
            let bytes = (bytes as u32).min(stream.held);
            stream.held -= bytes;
            self.consumed += bytes;
            let used = WINDOW_BYTES - stream.receive - stream.held;
            if !stream.ended && used >= WINDOW_BYTES / 2 {
                stream.receive += used;
                put_numbers(sink, kind::WINDOW_UPDATE, stream.id, &[used]);
            }
        }
        self.open_window(sink);
    }

    /// Opens the connection's window if a half of it is used. The bytes of streams that have ended, and padding, count
    /// without a call of [`Http2::consume`].
    fn open_window(&mut self, sink: &mut impl Sink) {
        if self.consumed >= WINDOW_BYTES / 2 {
            put_numbers(sink, kind::WINDOW_UPDATE, 0, &[self.consumed]);
            (self.receive, self.consumed) = (self.receive + self.consumed, 0);
        }
    }
}

/// Replies.
impl Http2 {
    /// Permits the peer as many idle frames and resets as at the beginning. The caller calls this about once a second.
    pub fn relax(&mut self) {
        (self.idle_frames, self.peer_resets) = (0, 0);
    }

    /// Returns true if a reply to the stream can be sent.
    pub fn is_open(&self, stream: u32) -> bool {
        self.position(stream).is_some()
    }

    /// Writes a header block, encoded by [`super::hpack::encode`], of at most 16,384 bytes. `end` ends the stream,
    /// which is then closed; if the peer has not ended it, it is reset without an error (RFC 9113, 8.1). `sink` has
    /// room for the block and [`CONTROL_BYTES_MAX`] bytes.
    pub fn send_headers(&mut self, stream: u32, block: &[u8], end: bool, sink: &mut impl Sink) {
        assert!(block.len() <= PAYLOAD_BYTES_MAX, "a header block of {} bytes", block.len());
        let Some(at) = self.position(stream) else { return };
        let flags = flag::END_HEADERS | if end { flag::END_STREAM } else { 0 };
        put_head(sink, block.len(), kind::HEADERS, flags, stream);
        sink.put(block);
        if end {
            self.end_stream(at, sink);
        }
    }

    /// Ends a stream with an empty DATA frame. `sink` has room for [`CONTROL_BYTES_MAX`] bytes.
    pub fn end(&mut self, stream: u32, sink: &mut impl Sink) {
        let Some(at) = self.position(stream) else { return };
        put_head(sink, 0, kind::DATA, flag::END_STREAM, stream);
        self.end_stream(at, sink);
    }

    /// Closes a stream after the end of its reply.
    fn end_stream(&mut self, at: usize, sink: &mut impl Sink) {
        (self.idle_frames, self.peer_resets) = (0, self.peer_resets.saturating_sub(1));
        match self.streams[at].ended {
            true => self.close_at(at),
            false => self.reset(self.streams[at].id, ErrorCode::NoError, sink),
        }
    }

    /// Writes as much data as the windows and `room` allow, at most one frame. Returns the number of bytes of `data`
    /// that it wrote.
    pub fn send_data(&mut self, stream: u32, data: &[u8], room: usize, sink: &mut impl Sink) -> usize {
        let Some(at) = self.position(stream) else { return 0 };
        let window = self.send.min(self.streams[at].send).max(0) as usize;
        let len = data.len().min(window).min(self.peer_frame).min(room.saturating_sub(HEAD_BYTES));
        if len == 0 {
            return 0;
        }
        put_head(sink, len, kind::DATA, 0, stream);
        sink.put(&data[..len]);
        self.send -= len as i64;
        // A client may open its windows again by as much as each frame has used, in two updates.
        self.idle_frames = self.idle_frames.saturating_sub(2);
        self.streams[at].send -= len as i64;
        len
    }
}
