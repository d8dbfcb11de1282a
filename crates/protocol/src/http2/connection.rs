//! The state of a connection, and what a caller may ask of it.

use super::frame::{
    ErrorCode, GOAWAY_BYTES_MAX, PAYLOAD_BYTES_MAX, RST_STREAM_BYTES, STREAM_ID_MAX, WINDOW_BYTES_DEFAULT,
    WINDOW_UPDATE_BYTES, put_goaway, put_rst_stream, put_window_update,
};
use super::guard::{DEADLINE_MS_MIN, Guard};
use super::hpack::{HpackDecoder, TABLE_BYTES_MAX};
use super::streams::{Stream, Streams};
use crate::sink::Sink;
use std::ops::RangeInclusive;

/// A server's limits for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The maximum number of open streams. More are refused, so that the client may retry them.
    pub concurrent_streams_max: u32,
    /// The bytes of DATA that a client may send on a stream before the caller consumes them; at least 65,535.
    pub stream_window_bytes: u32,
    /// The bytes of DATA that a client may send on all streams before the caller consumes them; at least 65,535.
    pub connection_window_bytes: u32,
    /// The maximum size of a request's header fields, each counted with 32 bytes more.
    pub header_list_bytes_max: u32,
    /// The maximum length of a header block in its compressed form.
    pub header_block_bytes_max: u32,
    /// The maximum number of CONTINUATION frames of a header block.
    pub continuations_max: u32,
    /// The number of streams, beyond `concurrent_streams_max`, that a client may reset before their replies. Each 10 ms
    /// takes back `concurrent_streams_max` of them.
    pub remote_resets_max: u32,
    /// The number of streams that may be reset for a client's errors.
    pub local_resets_max: u32,
    /// The cost of frames that carry no part of a request: about 10,000 WINDOW_UPDATE frames, 1,000 PING frames, or 100
    /// SETTINGS or empty DATA frames between two ticks.
    pub overhead_max: u32,
}

impl ConnectionLimits {
    /// ConnectionLimits for a server of small requests, some of which have values of several megabytes.
    pub const DEFAULT: Self = Self {
        concurrent_streams_max: 100,
        stream_window_bytes: 256 * 1024,
        connection_window_bytes: 1024 * 1024,
        header_list_bytes_max: 16 * 1024,
        header_block_bytes_max: 32 * 1024,
        continuations_max: 16,
        remote_resets_max: 10_000,
        local_resets_max: 1024,
        overhead_max: 10_000,
    };

    fn assert_valid(&self) {
        let windows = WINDOW_BYTES_DEFAULT as u32..1 << 30;
        assert!(windows.contains(&self.stream_window_bytes), "a stream's window is at least 65,535 bytes");
        assert!(windows.contains(&self.connection_window_bytes), "a connection's window is at least 65,535 bytes");
        assert!((1..=1 << 16).contains(&self.concurrent_streams_max), "1 to 65,536 concurrent streams");
        assert!(self.header_block_bytes_max as usize >= PAYLOAD_BYTES_MAX, "a block has at least a frame's length");
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The maximum number of bytes that [`receive`](super::receive()) writes: an RST_STREAM frame, the WINDOW_UPDATE
/// frames of a stream and of the connection, and a GOAWAY frame. Replies to other frames are shorter.
pub const CONTROL_BYTES_MAX: usize = RST_STREAM_BYTES + 2 * WINDOW_UPDATE_BYTES + GOAWAY_BYTES_MAX;

/// The maximum memory of a connection without streams after two ticks: its own size and the dynamic table. An active
/// one has 40 bytes a stream more, at most 2.5-fold by the hash table's growth, and a header block while it arrives in
/// parts.
pub const IDLE_BYTES_MAX: usize = size_of::<ServerConnection>() + TABLE_BYTES_MAX + TABLE_BYTES_MAX / 32 * 12;

const _: () = assert!(size_of::<ServerConnection>() <= 288 && IDLE_BYTES_MAX < 6 * 1024);

/// The progress of a connection's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The client's preface is expected.
    Preface,
    /// The client's first SETTINGS frame is expected.
    Settings,
    /// Any frame may come.
    Open,
    /// GOAWAY was sent for an error.
    Failed(ErrorCode, &'static str),
}

/// The rest of a DATA frame's payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload {
    /// The stream; 0 if the payload is ignored.
    pub(super) stream: u32,
    pub(super) data_bytes: u32,
    pub(super) padding_bytes: u32,
    pub(super) end_stream: bool,
}

impl Payload {
    /// No payload.
    pub(super) const NONE: Self = Self { stream: 0, data_bytes: 0, padding_bytes: 0, end_stream: false };
}

/// A header block that arrives in several frames.
#[derive(Debug)]
pub(super) struct PartialBlock {
    pub(super) stream: u32,
    pub(super) end_stream: bool,
    /// The HEADERS frame made the stream depend on itself.
    pub(super) self_dependent: bool,
    pub(super) continuations: u32,
    pub(super) bytes: Vec<u8>,
}

/// A server's side of a connection.
#[derive(Debug)]
pub struct ServerConnection {
    pub(super) limits: ConnectionLimits,
    pub(super) phase: Phase,
    /// The DATA frame whose payload is being received.
    pub(super) payload: Payload,
    /// The bytes left of a frame that is ignored.
    pub(super) skip_bytes: u32,
    pub(super) block: Option<Box<PartialBlock>>,
    pub(super) decoder: HpackDecoder,
    pub(super) streams: Option<Box<Streams>>,
    pub(super) guard: Guard,
    /// The bytes of DATA that the client may still send.
    pub(super) receive_window: i32,
    /// Consumed bytes that no WINDOW_UPDATE has returned yet.
    pub(super) unannounced: u32,
    /// The bytes of DATA that may still be sent.
    pub(super) send_window: i32,
    /// The client's SETTINGS_INITIAL_WINDOW_SIZE.
    pub(super) initial_send_window: i32,
    /// The client has lowered SETTINGS_HEADER_TABLE_SIZE, which the next header block must acknowledge.
    pub(super) owes_table_size: bool,
    /// The highest identifier that the client has used.
    pub(super) last_stream: u32,
    /// The highest identifier that was not refused.
    pub(super) last_accepted: u32,
    /// The identifiers of the streams that were refused last, with no accepted one between them. Frames for them are
    /// ignored: the client sent them before it learned of the refusal.
    pub(super) refused: RangeInclusive<u32>,
    /// Streams above are refused.
    pub(super) accept_max: u32,
    /// A stream was opened since the last tick.
    pub(super) was_active: bool,
}

impl ServerConnection {
    /// Creates the state of a connection on which nothing was received yet.
    ///
    /// # Panics
    /// If a limit is out of its documented range.
    pub fn new(limits: ConnectionLimits) -> Self {
        limits.assert_valid();
        let remote_resets_max = limits.remote_resets_max + limits.concurrent_streams_max;
        Self {
            limits,
            phase: Phase::Preface,
            payload: Payload::NONE,
            skip_bytes: 0,
            block: None,
            decoder: HpackDecoder::new(),
            streams: None,
            guard: Guard::new(remote_resets_max, limits.local_resets_max, limits.overhead_max),
            receive_window: limits.connection_window_bytes as i32,
            unannounced: 0,
            send_window: WINDOW_BYTES_DEFAULT,
            initial_send_window: WINDOW_BYTES_DEFAULT,
            owes_table_size: false,
            last_stream: 0,
            last_accepted: 0,
            refused: RangeInclusive::new(0, 0),
            accept_max: STREAM_ID_MAX,
            was_active: false,
        }
    }

    /// Returns `bytes` bytes of DATA to the client's windows, because the caller has used them. Writes at most two
    /// WINDOW_UPDATE frames to `control`, and none until half a window is used.
    ///
    /// The end of a stream returns what is left, so a request that is answered at once needs no call.
    pub fn consumed(&mut self, stream: u32, bytes: usize, control: &mut impl Sink) {
        let Some(found) = self.streams.as_mut().and_then(|streams| streams.find_mut(stream)) else { return };
        let bytes = found.held.min(u32::try_from(bytes).unwrap_or(u32::MAX));
        found.held -= bytes;
        found.unannounced += bytes;
        self.unannounced += bytes;
        announce_stream(found, &self.limits, control);
        self.announce(control);
    }

    /// Ends a stream with `code`: RST_STREAM, and a WINDOW_UPDATE frame if one is due. Does nothing if it is closed.
    ///
    /// After a complete reply to an incomplete request, [`ErrorCode::NO_ERROR`] asks the client to stop sending.
    pub fn reset(&mut self, stream: u32, code: ErrorCode, control: &mut impl Sink) {
        if self.close(stream, true).is_some() {
            put_rst_stream(control, stream, code);
            self.announce(control);
        }
    }

    /// Returns the value that the caller has set for a stream; `None` if the stream is closed.
    #[inline]
    pub fn user(&self, stream: u32) -> Option<u32> {
        self.streams.as_ref()?.find(stream).map(|found| found.user)
    }

    /// Sets the value that events of a stream carry; 0 at first. Does nothing if the stream is closed.
    #[inline]
    pub fn set_user(&mut self, stream: u32, user: u32) {
        if let Some(found) = self.streams.as_mut().and_then(|streams| streams.find_mut(stream)) {
            found.user = user;
        }
    }

    /// Returns true if the header fields of a stream's reply were sent, and the stream is open.
    pub fn has_sent_headers(&self, stream: u32) -> bool {
        self.streams.as_ref().and_then(|streams| streams.find(stream)).is_some_and(|found| found.reply_begun)
    }

    /// Returns the number of bytes of DATA that a stream may send now; `None` if the stream is closed or its reply is
    /// complete.
    #[inline]
    pub fn window(&self, stream: u32) -> Option<usize> {
        let found = self.streams.as_ref()?.find(stream).filter(|found| !found.local_ended)?;
        Some(found.send_window.min(self.send_window).max(0) as usize)
    }

    /// Returns true if the client has begun the connection, and no error has ended it.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Returns the number of open streams.
    pub fn open_streams(&self) -> usize {
        self.streams.as_ref().map_or(0, |streams| streams.len())
    }

    /// Returns the number of bytes of heap memory.
    pub fn heap_bytes(&self) -> usize {
        self.decoder.heap_bytes()
            + self.streams.as_ref().map_or(0, |streams| streams.heap_bytes())
            + self.block.as_ref().map_or(0, |block| size_of::<PartialBlock>() + block.bytes.capacity())
    }

    /// Notes that `ms` milliseconds have passed, by which the client may reset further streams.
    pub fn elapse(&mut self, ms: u64) {
        let resets = ms.saturating_mul(self.limits.concurrent_streams_max.div_ceil(DEADLINE_MS_MIN).into());
        self.guard.forget_remote_resets(u32::try_from(resets).unwrap_or(u32::MAX));
    }

    /// Renews the budgets for frames without requests, and frees the memory of a connection that has had no stream
    /// since the last call. To be called about once a second.
    pub fn tick(&mut self) {
        self.guard.tick();
        if !self.was_active && self.open_streams() == 0 {
            self.streams = None;
            self.decoder.shrink();
        }
        self.was_active = false;
    }

    /// Announces that the server will stop: GOAWAY with the highest identifier. Streams are still accepted, because the
    /// client opens some before it learns of the stop. [`ServerConnection::finish`] follows after a round trip.
    pub fn shut_down(&mut self, control: &mut impl Sink) {
        put_goaway(control, STREAM_ID_MAX, ErrorCode::NO_ERROR, "");
    }

    /// Stops accepting streams: GOAWAY with the last accepted one. Later ones are refused; present ones continue.
    pub fn finish(&mut self, control: &mut impl Sink) {
        self.accept_max = self.last_accepted;
        put_goaway(control, self.last_accepted, ErrorCode::NO_ERROR, "");
    }

    /// Ends the connection for an error: GOAWAY with a code and a text of at most 64 bytes.
    pub fn fail(&mut self, code: ErrorCode, text: &'static str, control: &mut impl Sink) {
        put_goaway(control, self.last_accepted, code, text);
        (self.phase, self.block) = (Phase::Failed(code, text), None);
    }

    /// Removes a stream from the table. Its unconsumed bytes return to the connection's window.
    pub(super) fn close(&mut self, stream: u32, reset: bool) -> Option<Stream> {
        let closed = self.streams.as_mut()?.close(stream, reset)?;
        self.unannounced += closed.held;
        Some(closed)
    }

    /// Writes a WINDOW_UPDATE frame for the connection if half of its window is used.
    #[inline]
    pub(super) fn announce(&mut self, control: &mut impl Sink) {
        if self.unannounced >= self.limits.connection_window_bytes / 2 {
            put_window_update(control, 0, self.unannounced);
            self.receive_window += self.unannounced as i32;
            self.unannounced = 0;
        }
    }
}

/// Writes a WINDOW_UPDATE frame for a stream if half of its window is used and the client has more to send.
#[inline]
pub(super) fn announce_stream(stream: &mut Stream, limits: &ConnectionLimits, control: &mut impl Sink) {
    if stream.unannounced >= limits.stream_window_bytes / 2 && !stream.remote_ended {
        put_window_update(control, stream.id, stream.unannounced);
        stream.receive_window += stream.unannounced as i32;
        stream.unannounced = 0;
    }
}
