//! The state of a client's connection, and the requests that it sends.

use super::super::connection::{PartialBlock, Payload};
use super::super::frame::{
    ErrorCode, FrameHeader, PAYLOAD_BYTES_MAX, PREFACE, STREAM_ID_MAX, WINDOW_BYTES_DEFAULT, flag, kind, put_goaway,
    put_header, put_rst_stream, put_settings, put_window_update, setting,
};
use super::super::hpack::HpackDecoder;
use super::super::hpack::encode::TABLE_SIZE_0;
use super::super::streams::{Stream, Streams};
use crate::sink::Sink;

/// A client's limits for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// The bytes of DATA that the server may send on a stream before they are delivered; at least 65,535.
    pub stream_window_bytes: u32,
    /// The bytes of DATA that the server may send on all streams before they are delivered; at least 65,535.
    pub connection_window_bytes: u32,
    /// The maximum size of a reply's header fields, each counted with 32 bytes more.
    pub header_list_bytes_max: u32,
    /// The maximum length of a header block in its compressed form.
    pub header_block_bytes_max: u32,
    /// The maximum number of CONTINUATION frames of a header block.
    pub continuations_max: u32,
}

impl ClientLimits {
    /// Limits for replies of up to several megabytes.
    pub const DEFAULT: Self = Self {
        stream_window_bytes: 1024 * 1024,
        connection_window_bytes: 16 * 1024 * 1024,
        header_list_bytes_max: 16 * 1024,
        header_block_bytes_max: 32 * 1024,
        continuations_max: 16,
    };
}

/// A connection ends when fewer identifiers are left, so that a caller that asks now and then never runs out of them.
const IDENTIFIERS_SPARE: u32 = 1 << 18;

/// The progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientPhase {
    /// The server's SETTINGS frame is expected.
    Settings,
    /// Streams may be opened.
    Open,
    /// The server has sent GOAWAY: present streams continue.
    GoingAway,
    /// GOAWAY was sent for an error of the server.
    Failed(ErrorCode, &'static str),
}

/// A client's side of a connection.
#[derive(Debug)]
pub struct ClientConnection {
    pub(super) limits: ClientLimits,
    pub(super) phase: ClientPhase,
    /// The DATA frame whose payload is being received.
    pub(super) payload: Payload,
    /// The bytes left of a frame that is ignored.
    pub(super) skip_bytes: u32,
    pub(super) block: Option<Box<PartialBlock>>,
    pub(super) decoder: HpackDecoder,
    pub(super) streams: Streams,
    /// The bytes of DATA that the server may still send.
    pub(super) receive_window: i32,
    /// Delivered bytes that no WINDOW_UPDATE has returned yet.
    pub(super) unannounced: u32,
    /// The bytes of DATA that may still be sent.
    pub(super) send_window: i32,
    /// The server's SETTINGS_INITIAL_WINDOW_SIZE.
    pub(super) initial_send_window: i32,
    /// The server's SETTINGS_MAX_CONCURRENT_STREAMS.
    pub(super) streams_max: u32,
    /// The server has lowered SETTINGS_HEADER_TABLE_SIZE, which the next header block must acknowledge.
    pub(super) owes_table_size: bool,
    /// The identifier of the next stream.
    pub(super) next_stream: u32,
}

impl ClientConnection {
    /// Creates the state of a new connection, and writes the bytes that begin it: the preface, SETTINGS, and a larger
    /// window.
    ///
    /// # Panics
    /// If a window is smaller than 65,535 bytes or larger than 1 GiB.
    pub fn begin(limits: ClientLimits, sink: &mut impl Sink) -> Self {
        let windows = WINDOW_BYTES_DEFAULT as u32..=1 << 30;
        assert!(windows.contains(&limits.stream_window_bytes), "a stream's window is 65,535 bytes to 1 GiB");
        assert!(windows.contains(&limits.connection_window_bytes), "a connection's window is 65,535 bytes to 1 GiB");
        sink.put(PREFACE);
        put_settings(
            sink,
            &[
                (setting::ENABLE_PUSH, 0),
                (setting::INITIAL_WINDOW_SIZE, limits.stream_window_bytes),
                (setting::MAX_HEADER_LIST_SIZE, limits.header_list_bytes_max),
            ],
        );
        let more = limits.connection_window_bytes - WINDOW_BYTES_DEFAULT as u32;
        if more > 0 {
            put_window_update(sink, 0, more);
        }
        Self {
            limits,
            phase: ClientPhase::Settings,
            payload: Payload::NONE,
            skip_bytes: 0,
            block: None,
            decoder: HpackDecoder::new(),
            streams: Streams::new(),
            receive_window: limits.connection_window_bytes as i32,
            unannounced: 0,
            send_window: WINDOW_BYTES_DEFAULT,
            initial_send_window: WINDOW_BYTES_DEFAULT,
            streams_max: u32::MAX,
            owes_table_size: false,
            next_stream: 1,
        }
    }

    /// Returns the number of streams that may be opened now.
    #[inline]
    pub fn room(&self) -> usize {
        if self.phase != ClientPhase::Open {
            return 0;
        }
        let left = (STREAM_ID_MAX - self.next_stream.min(STREAM_ID_MAX)) as usize / 2;
        (self.streams_max as usize).saturating_sub(self.streams.len()).min(left)
    }

    /// Returns true if the connection should open no further streams: the server has sent GOAWAY, the connection has
    /// failed, or few identifiers are left.
    pub fn is_ending(&self) -> bool {
        let is_used_up = self.next_stream > STREAM_ID_MAX - IDENTIFIERS_SPARE;
        matches!(self.phase, ClientPhase::GoingAway | ClientPhase::Failed(..)) || is_used_up
    }

    /// Returns the number of open streams.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Opens a stream with the header block `block`, the work of [`hpack::encode`](super::super::hpack::encode), of at
    /// most one frame. Events of the stream carry `user`. Returns the stream, or `None` if there is no room.
    ///
    /// # Panics
    /// If the block is longer than a frame.
    pub fn open(&mut self, block: &[u8], end_stream: bool, user: u32, sink: &mut impl Sink) -> Option<u32> {
        if self.room() == 0 {
            return None;
        }
        let size_update: &[u8] = if std::mem::take(&mut self.owes_table_size) { &[TABLE_SIZE_0] } else { &[] };
        let len = size_update.len() + block.len();
        assert!(len <= PAYLOAD_BYTES_MAX, "a request's header block must fit in one frame");
        let stream = self.next_stream;
        self.next_stream += 2;
        let end = if end_stream { flag::END_STREAM } else { 0 };
        put_header(sink, kind::HEADERS, flag::END_HEADERS | end, stream, len);
        sink.put(size_update);
        sink.put(block);
        self.streams.insert(Stream {
            id: stream,
            user,
            send_window: self.initial_send_window,
            receive_window: self.limits.stream_window_bytes as i32,
            content_left: -1,
            local_ended: end_stream,
            ..Stream::default()
        });
        Some(stream)
    }

    /// Opens a stream whose request is `block` and one DATA frame of `data_len` bytes, which the caller must append.
    /// Returns `None`, and writes nothing, if there is no room or the windows do not permit all the bytes now.
    #[inline]
    pub fn open_whole(&mut self, block: &[u8], data_len: usize, user: u32, sink: &mut impl Sink) -> Option<u32> {
        let window = self.send_window.min(self.initial_send_window).max(0) as usize;
        if data_len > window.min(PAYLOAD_BYTES_MAX) {
            return None;
        }
        let stream = self.open(block, false, user, sink)?;
        sink.put(&FrameHeader { len: data_len, kind: kind::DATA, flags: flag::END_STREAM, stream }.encode());
        self.send_window -= data_len as i32;
        if let Some(found) = self.streams.find_mut(stream) {
            found.send_window -= data_len as i32;
            found.local_ended = true;
        }
        Some(stream)
    }

    /// Sets the value that events of a stream carry. Does nothing if the stream is closed.
    pub fn set_user(&mut self, stream: u32, user: u32) {
        if let Some(found) = self.streams.find_mut(stream) {
            found.user = user;
        }
    }

    /// Returns the number of bytes of DATA that a stream may send now; `None` if the stream is closed or its request is
    /// complete.
    pub fn window(&self, stream: u32) -> Option<usize> {
        let found = self.streams.find(stream).filter(|found| !found.local_ended)?;
        Some(found.send_window.min(self.send_window).max(0) as usize)
    }

    /// Sends as much of `bytes` as the windows permit, and returns its length. If that is all and `end_stream`, the
    /// request is complete.
    pub fn send_data(&mut self, stream: u32, bytes: &[u8], end_stream: bool, sink: &mut impl Sink) -> usize {
        let Some(window) = self.window(stream) else { return 0 };
        let accepted = bytes.len().min(window);
        let ends = end_stream && accepted == bytes.len();
        let mut rest = &bytes[..accepted];
        if rest.is_empty() && ends {
            put_header(sink, kind::DATA, flag::END_STREAM, stream, 0);
        }
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(rest.len().min(PAYLOAD_BYTES_MAX));
            rest = behind;
            let flags = if ends && rest.is_empty() { flag::END_STREAM } else { 0 };
            put_header(sink, kind::DATA, flags, stream, part.len());
            sink.put(part);
        }
        self.send_window -= accepted as i32;
        if let Some(found) = self.streams.find_mut(stream) {
            found.send_window -= accepted as i32;
            found.local_ended = ends;
            if ends && found.remote_ended {
                self.streams.close(stream, false);
            }
        }
        accepted
    }

    /// Ends a stream with `code`. Later frames of the stream are ignored. Returns false if it is closed.
    pub fn reset(&mut self, stream: u32, code: ErrorCode, sink: &mut impl Sink) -> bool {
        let is_open = self.discard(stream);
        if is_open {
            put_rst_stream(sink, stream, code);
        }
        is_open
    }

    /// Removes a stream that the server will not process, because its GOAWAY names an earlier one. Returns false if it
    /// is closed.
    pub fn discard(&mut self, stream: u32) -> bool {
        self.streams.close(stream, true).is_some()
    }

    /// Ends the connection for an error of the server: GOAWAY with a code and a text of at most 64 bytes.
    pub(super) fn fail(&mut self, code: ErrorCode, text: &'static str, sink: &mut impl Sink) {
        put_goaway(sink, 0, code, text);
        (self.phase, self.block) = (ClientPhase::Failed(code, text), None);
    }

    /// Returns `bytes` bytes of DATA to the connection's window, by a WINDOW_UPDATE frame if half of it is used.
    #[inline]
    pub(super) fn give_back(&mut self, bytes: u32, sink: &mut impl Sink) {
        self.unannounced += bytes;
        if self.unannounced >= self.limits.connection_window_bytes / 2 {
            put_window_update(sink, 0, self.unannounced);
            self.receive_window += self.unannounced as i32;
            self.unannounced = 0;
        }
    }

    /// Returns true if `stream` was never opened.
    pub(super) fn is_idle(&self, stream: u32) -> bool {
        stream >= self.next_stream || stream.is_multiple_of(2)
    }
}
