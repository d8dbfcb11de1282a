//! The state that the handlers of one received frame share, and the errors by which they end.
//!
//! A connection error ends the connection with GOAWAY (RFC 9113, 5.4.1). A stream error ends one stream with
//! RST_STREAM (5.4.2).

use super::connection::{Phase, ServerConnection};
use super::event::FrameEvent;
use super::frame::{ErrorCode, FrameHeader, PAYLOAD_BYTES_MAX, flag, kind, put_rst_stream};
use super::guard::Exceeded;
use super::hpack::{FieldList, HpackError};
use super::streams::{Stream, Streams};
use crate::sink::Sink;

/// A connection error.
pub(super) struct ConnectionFailure(pub(super) ErrorCode, pub(super) &'static str);

impl From<Exceeded> for ConnectionFailure {
    fn from(text: Exceeded) -> Self {
        Self(ErrorCode::ENHANCE_YOUR_CALM, text)
    }
}

impl From<HpackError> for ConnectionFailure {
    fn from(error: HpackError) -> Self {
        match error {
            HpackError::Bomb => Self(ErrorCode::ENHANCE_YOUR_CALM, error.text()),
            _ => Self(ErrorCode::COMPRESSION_ERROR, error.text()),
        }
    }
}

pub(super) const fn protocol(text: &'static str) -> ConnectionFailure {
    ConnectionFailure(ErrorCode::PROTOCOL_ERROR, text)
}

pub(super) const fn frame_size(text: &'static str) -> ConnectionFailure {
    ConnectionFailure(ErrorCode::FRAME_SIZE_ERROR, text)
}

/// The state of one frame's handling.
pub(super) struct FrameContext<'c, S> {
    pub(super) connection: &'c mut ServerConnection,
    pub(super) fields: &'c mut FieldList,
    pub(super) control: &'c mut S,
}

impl<S: Sink> FrameContext<'_, S> {
    pub(super) fn streams(&mut self) -> &mut Streams {
        self.connection.streams.get_or_insert_with(|| Box::new(Streams::new()))
    }

    #[inline]
    pub(super) fn find(&mut self, stream: u32) -> Option<&mut Stream> {
        self.connection.streams.as_mut()?.find_mut(stream)
    }

    /// Returns true if the client has not used the identifier and has skipped none above.
    pub(super) fn is_idle(&self, stream: u32) -> bool {
        stream > self.connection.last_stream || stream.is_multiple_of(2)
    }

    /// Ends a stream for an error of the client, with an event if the caller knows the stream.
    #[cold]
    pub(super) fn stream_error<'b>(
        &mut self,
        stream: u32,
        code: ErrorCode,
    ) -> Result<FrameEvent<'b>, ConnectionFailure> {
        put_rst_stream(self.control, stream, code);
        let closed = self.connection.close(stream, true);
        self.connection.announce(self.control);
        self.connection.guard.add_local_reset()?;
        match closed {
            Some(closed) => Ok(FrameEvent::Reset { stream, user: closed.user, code }),
            None => {
                self.streams().remember(stream, true);
                Ok(FrameEvent::Nothing)
            }
        }
    }

    /// Notes that the request is complete.
    #[inline]
    pub(super) fn end_remote(&mut self, id: u32) {
        let Some(stream) = self.find(id) else { return };
        stream.remote_ended = true;
        if stream.local_ended {
            self.connection.close(id, false);
            self.connection.announce(self.control);
        }
    }

    /// Checks a frame's length and its place among other frames.
    #[inline]
    pub(super) fn check(&self, header: FrameHeader) -> Result<(), ConnectionFailure> {
        if header.len > PAYLOAD_BYTES_MAX {
            return Err(frame_size("frame longer than SETTINGS_MAX_FRAME_SIZE"));
        }
        if let Some(block) = &self.connection.block {
            // RFC 9113, 6.10: no other frame, of any stream or type, comes between.
            if header.kind != kind::CONTINUATION || header.stream != block.stream {
                return Err(protocol("CONTINUATION expected"));
            }
        } else if header.kind == kind::CONTINUATION {
            return Err(protocol("CONTINUATION without HEADERS"));
        }
        if self.connection.phase == Phase::Settings && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            return Err(protocol("the first frame is not SETTINGS"));
        }
        Ok(())
    }
}
