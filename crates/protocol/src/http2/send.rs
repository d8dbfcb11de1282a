//! Sending of replies.

use super::connection::ServerConnection;
use super::frame::{FRAME_HEADER_BYTES, PAYLOAD_BYTES_MAX, WINDOW_UPDATE_BYTES, flag, kind, put_header};
use super::hpack::encode::TABLE_SIZE_0;
use crate::sink::Sink;

/// Returns the maximum number of bytes that [`ServerConnection::send_headers`] writes for a block of `block_len` bytes.
pub const fn headers_frames_bytes(block_len: usize) -> usize {
    block_len + 1 + FRAME_HEADER_BYTES * (1 + (block_len + 1) / PAYLOAD_BYTES_MAX) + WINDOW_UPDATE_BYTES
}

/// Returns the maximum number of bytes that [`ServerConnection::send_data`] writes for `len` bytes.
pub const fn data_frames_bytes(len: usize) -> usize {
    len + FRAME_HEADER_BYTES * (1 + len / PAYLOAD_BYTES_MAX) + WINDOW_UPDATE_BYTES
}

impl ServerConnection {
    /// Sends a header block, or trailers if `end_stream` and a header block was sent before. `block` is the work of
    /// [`hpack::encode`](super::hpack::encode). Returns false, and writes nothing, if the stream is closed.
    ///
    /// Writes at most [`headers_frames_bytes`]. Header blocks use no window.
    pub fn send_headers(&mut self, stream: u32, block: &[u8], end_stream: bool, sink: &mut impl Sink) -> bool {
        let Some(found) = self.streams.as_mut().and_then(|streams| streams.find_mut(stream)) else { return false };
        if found.local_ended {
            return false;
        }
        found.reply_begun = true;
        let size_update: &[u8] = if std::mem::take(&mut self.owes_table_size) { &[TABLE_SIZE_0] } else { &[] };
        let end = if end_stream { flag::END_STREAM } else { 0 };
        let (first, mut rest) = block.split_at(block.len().min(PAYLOAD_BYTES_MAX - size_update.len()));
        let last = |rest: &[u8]| if rest.is_empty() { flag::END_HEADERS } else { 0 };
        put_header(sink, kind::HEADERS, end | last(rest), stream, size_update.len() + first.len());
        sink.put(size_update);
        sink.put(first);
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(rest.len().min(PAYLOAD_BYTES_MAX));
            rest = behind;
            put_header(sink, kind::CONTINUATION, last(rest), stream, part.len());
            sink.put(part);
        }
        if end_stream {
            end_local(self, stream, sink);
        }
        true
    }

    /// Sends as much of `bytes` as the windows permit, and returns its length. If that is all and `end_stream`, the
    /// reply is complete. Writes at most [`data_frames_bytes`]; nothing if the stream is closed.
    ///
    /// Frames have at most 16,384 bytes, even if the client accepts longer ones, so that replies on other streams are
    /// not delayed.
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
            self.guard.add_useful();
        }
        use_windows(self, stream, accepted);
        if ends {
            end_local(self, stream, sink);
        }
        accepted
    }

    /// Claims the windows for a reply of HEADERS, one DATA frame of `data_len` bytes and trailers, and completes the
    /// stream. If it returns true, the caller must write exactly these three frames, each with the stream's identifier,
    /// without a change of the dynamic table. If it returns false, the reply must be sent by
    /// [`ServerConnection::send_headers`] and [`ServerConnection::send_data`].
    ///
    /// Writes at most one WINDOW_UPDATE frame to `sink`, before the reply.
    #[inline]
    pub fn claim_whole_reply(&mut self, stream: u32, data_len: usize, sink: &mut impl Sink) -> bool {
        let Some(found) = self.streams.as_mut().and_then(|streams| streams.find_mut(stream)) else { return false };
        let window = found.send_window.min(self.send_window).max(0) as usize;
        let may = !found.local_ended && !found.reply_begun && !self.owes_table_size;
        if !may || data_len > window.min(PAYLOAD_BYTES_MAX) {
            return false;
        }
        self.guard.add_useful();
        use_windows(self, stream, data_len);
        end_local(self, stream, sink);
        true
    }
}

#[inline]
fn use_windows(connection: &mut ServerConnection, stream: u32, bytes: usize) {
    // At most a window, so it fits in an i32.
    connection.send_window -= bytes as i32;
    if let Some(found) = connection.streams.as_mut().and_then(|streams| streams.find_mut(stream)) {
        found.send_window -= bytes as i32;
    }
}

/// Notes that the reply is complete. A request that is not stays half-closed until its client ends or resets it.
#[inline]
fn end_local(connection: &mut ServerConnection, stream: u32, sink: &mut impl Sink) {
    connection.guard.add_reply();
    let Some(found) = connection.streams.as_mut().and_then(|streams| streams.find_mut(stream)) else { return };
    found.local_ended = true;
    if found.remote_ended {
        connection.close(stream, false);
        connection.announce(sink);
    }
}
