//! Handling of received frames.

use super::super::connection::{PartialBlock, Payload};
use super::super::context::{ConnectionFailure, frame_size, protocol};
use super::super::frame::{
    ErrorCode, FRAME_HEADER_BYTES, FrameHeader, PAYLOAD_BYTES_MAX, flag, kind, put_rst_stream, put_window_update,
};
use super::super::hpack::{FieldList, FieldName};
use super::super::request::strip;
use super::connection::{ClientConnection, ClientPhase};
use super::control;
use crate::sink::Sink;

/// The result of [`receive_reply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedReply<'b> {
    /// The number of bytes to remove from the input's start; 0 with [`ReplyEvent::Incomplete`] only.
    pub consumed: usize,
    /// The event.
    pub event: ReplyEvent<'b>,
}

/// An event of a client's connection. A stream's `user` is the value with which it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyEvent<'b> {
    /// The input has less than a frame. Pass it again with more bytes.
    Incomplete,
    /// Bytes were handled that need nothing of the caller.
    Nothing,
    /// The server's first SETTINGS arrived: streams may be opened.
    Ready,
    /// The fields of a reply, or its trailers; they are in the list, which may lack some if it is too long.
    Headers {
        /// The stream.
        stream: u32,
        /// The caller's value.
        user: u32,
        /// True if the reply is complete: the fields are trailers, or the reply has no body.
        end_stream: bool,
    },
    /// A part of a reply's body, possibly empty at the end.
    Data {
        /// The stream.
        stream: u32,
        /// The caller's value.
        user: u32,
        /// The bytes.
        bytes: &'b [u8],
        /// True if the reply is complete.
        end_stream: bool,
    },
    /// The end of a stream before its reply was complete: the server reset it or violated the protocol.
    Reset {
        /// The stream.
        stream: u32,
        /// The caller's value.
        user: u32,
        /// The server's code, or that which was sent to the server. After `REFUSED_STREAM` the request may be repeated.
        code: ErrorCode,
    },
    /// A larger window: more may be sent on one stream, or on all if there is none here.
    WindowOpened {
        /// The stream.
        stream: Option<u32>,
    },
    /// The server opens no more streams. The caller discards the streams after `last_stream`, which the server has not
    /// processed, and may repeat their requests on another connection.
    GoAway {
        /// The last stream that the server has processed or will process.
        last_stream: u32,
        /// The server's reason.
        code: ErrorCode,
    },
    /// The end of the connection: a GOAWAY frame is in the sink. Close the connection after it is sent.
    ConnectionError {
        /// The code in that frame.
        code: ErrorCode,
        /// The reason in that frame.
        text: &'static str,
    },
}

/// Handles the start of `input`, at most one frame, and returns the event. Pass the bytes after `consumed` to the next
/// call. Frames that answer the server's frames are written to `sink`, to be sent before further requests.
///
/// After [`ReplyEvent::Headers`], `fields` has the header fields.
#[inline]
pub fn receive_reply<'b>(
    connection: &mut ClientConnection,
    input: &'b [u8],
    fields: &mut FieldList,
    sink: &mut impl Sink,
) -> ReceivedReply<'b> {
    step(connection, input, fields, sink).unwrap_or_else(|ConnectionFailure(code, text)| {
        connection.fail(code, text, sink);
        ReceivedReply { consumed: input.len(), event: ReplyEvent::ConnectionError { code, text } }
    })
}

#[inline]
fn step<'b>(
    connection: &mut ClientConnection,
    input: &'b [u8],
    fields: &mut FieldList,
    sink: &mut impl Sink,
) -> Result<ReceivedReply<'b>, ConnectionFailure> {
    const INCOMPLETE: ReceivedReply<'_> = ReceivedReply { consumed: 0, event: ReplyEvent::Incomplete };
    if input.is_empty() {
        return Ok(INCOMPLETE);
    }
    if let ClientPhase::Failed(code, text) = connection.phase {
        let event = ReplyEvent::ConnectionError { code, text };
        return Ok(ReceivedReply { consumed: input.len(), event });
    }
    if connection.skip_bytes > 0 {
        let consumed = input.len().min(connection.skip_bytes as usize);
        connection.skip_bytes -= consumed as u32;
        return Ok(ReceivedReply { consumed, event: ReplyEvent::Nothing });
    }
    if connection.payload.data_bytes + connection.payload.padding_bytes > 0 {
        return Ok(deliver(connection, input, 0, sink));
    }
    let Some(header) = FrameHeader::parse(input) else { return Ok(INCOMPLETE) };
    check(connection, header)?;
    if header.kind == kind::DATA {
        return data(connection, header, input, sink);
    }
    let consumed = FRAME_HEADER_BYTES + header.len;
    if header.kind > kind::CONTINUATION || header.kind == kind::PRIORITY {
        connection.skip_bytes = header.len as u32;
        return Ok(ReceivedReply { consumed: FRAME_HEADER_BYTES, event: ReplyEvent::Nothing });
    }
    let Some(payload) = input.get(FRAME_HEADER_BYTES..consumed) else { return Ok(INCOMPLETE) };
    let event = match header.kind {
        kind::HEADERS => headers(connection, header, payload, fields, sink)?,
        kind::CONTINUATION => continuation(connection, header, payload, fields, sink)?,
        kind::WINDOW_UPDATE => control::window_update(connection, header, payload, sink)?,
        kind::RST_STREAM => control::rst_stream(connection, header, payload)?,
        kind::PING => control::ping(header, payload, sink)?,
        kind::SETTINGS => control::settings(connection, header, payload, sink)?,
        kind::GOAWAY => control::goaway(connection, header, payload)?,
        _ => return Err(protocol("PUSH_PROMISE although push is off")),
    };
    Ok(ReceivedReply { consumed, event })
}

/// Checks a frame's length and its place among other frames.
#[inline]
fn check(connection: &ClientConnection, header: FrameHeader) -> Result<(), ConnectionFailure> {
    if connection.phase == ClientPhase::Settings && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
        return Err(protocol("the first frame is not SETTINGS"));
    }
    if header.len > PAYLOAD_BYTES_MAX {
        return Err(frame_size("frame longer than SETTINGS_MAX_FRAME_SIZE"));
    }
    match &connection.block {
        // RFC 9113, 6.10: no other frame, of any stream or type, comes between.
        Some(block) if header.kind != kind::CONTINUATION || header.stream != block.stream => {
            Err(protocol("CONTINUATION expected"))
        }
        None if header.kind == kind::CONTINUATION => Err(protocol("CONTINUATION without HEADERS")),
        _ => Ok(()),
    }
}

#[inline]
fn headers<'b>(
    connection: &mut ClientConnection,
    header: FrameHeader,
    payload: &[u8],
    fields: &mut FieldList,
    sink: &mut impl Sink,
) -> Result<ReplyEvent<'b>, ConnectionFailure> {
    if header.stream == 0 || connection.is_idle(header.stream) {
        return Err(protocol("HEADERS on an idle stream"));
    }
    let mut fragment = payload;
    if header.flags & (flag::PADDED | flag::PRIORITY) != 0 {
        (fragment, _) = strip(header, payload)?;
    }
    let end_stream = header.has(flag::END_STREAM);
    if header.has(flag::END_HEADERS) {
        return whole_block(connection, header.stream, end_stream, fragment, fields, sink);
    }
    connection.block = Some(Box::new(PartialBlock {
        stream: header.stream,
        end_stream,
        self_dependent: false,
        continuations: 0,
        bytes: fragment.to_vec(),
    }));
    Ok(ReplyEvent::Nothing)
}

fn continuation<'b>(
    connection: &mut ClientConnection,
    header: FrameHeader,
    payload: &[u8],
    fields: &mut FieldList,
    sink: &mut impl Sink,
) -> Result<ReplyEvent<'b>, ConnectionFailure> {
    let mut block = connection.block.take().ok_or(protocol("CONTINUATION without HEADERS"))?;
    block.continuations += 1;
    let limits = connection.limits;
    if block.continuations > limits.continuations_max
        || block.bytes.len() + payload.len() > limits.header_block_bytes_max as usize
    {
        return Err(ConnectionFailure(ErrorCode::ENHANCE_YOUR_CALM, "header block too long"));
    }
    block.bytes.extend_from_slice(payload);
    if header.has(flag::END_HEADERS) {
        return whole_block(connection, block.stream, block.end_stream, &block.bytes, fields, sink);
    }
    connection.block = Some(block);
    Ok(ReplyEvent::Nothing)
}

/// Decodes a whole header block. Each block is decoded, even for a closed stream, so that the table stays equal to the
/// server's.
#[inline]
fn whole_block<'b>(
    connection: &mut ClientConnection,
    id: u32,
    end_stream: bool,
    block: &[u8],
    fields: &mut FieldList,
    sink: &mut impl Sink,
) -> Result<ReplyEvent<'b>, ConnectionFailure> {
    connection.decoder.decode(block, fields)?;
    let Some(stream) = connection.streams.find_mut(id) else { return Ok(ReplyEvent::Nothing) };
    let user = stream.user;
    if stream.remote_ended {
        return Ok(stream_error(connection, id, ErrorCode::STREAM_CLOSED, sink));
    }
    let is_informational = !stream.reply_begun && fields.value(FieldName::Status).is_some_and(|s| s.starts_with(b"1"));
    let is_valid = match stream.reply_begun {
        true => end_stream && fields.is_trailers(),
        false => fields.is_response() && !(is_informational && end_stream),
    };
    if !is_valid {
        return Ok(stream_error(connection, id, ErrorCode::PROTOCOL_ERROR, sink));
    }
    if is_informational {
        return Ok(ReplyEvent::Nothing);
    }
    if !stream.reply_begun {
        stream.reply_begun = true;
        stream.content_left = fields.content_length().map_or(-1, |length| length as i64);
    }
    if end_stream {
        if stream.content_left > 0 {
            return Ok(stream_error(connection, id, ErrorCode::PROTOCOL_ERROR, sink));
        }
        end_remote(connection, id, sink);
    }
    Ok(ReplyEvent::Headers { stream: id, user, end_stream })
}

/// Ends a stream for an error of the server.
#[cold]
pub(super) fn stream_error<'b>(
    connection: &mut ClientConnection,
    stream: u32,
    code: ErrorCode,
    sink: &mut impl Sink,
) -> ReplyEvent<'b> {
    put_rst_stream(sink, stream, code);
    match connection.streams.close(stream, true) {
        Some(closed) => ReplyEvent::Reset { stream, user: closed.user, code },
        None => ReplyEvent::Nothing,
    }
}

/// Notes that a reply is complete. A request that is not complete has no more use, so its stream is reset.
#[inline]
fn end_remote(connection: &mut ClientConnection, id: u32, sink: &mut impl Sink) {
    let Some(closed) = connection.streams.close(id, false) else { return };
    if !closed.local_ended {
        put_rst_stream(sink, id, ErrorCode::CANCEL);
    }
}

/// Handles the header of a DATA frame, and delivers what has arrived of its payload.
fn data<'b>(
    connection: &mut ClientConnection,
    header: FrameHeader,
    input: &'b [u8],
    sink: &mut impl Sink,
) -> Result<ReceivedReply<'b>, ConnectionFailure> {
    let (padding, consumed) = match (header.has(flag::PADDED), input.get(FRAME_HEADER_BYTES)) {
        (false, _) => (0, FRAME_HEADER_BYTES),
        (true, _) if header.len == 0 => return Err(frame_size("padded frame without a padding length")),
        (true, None) => return Ok(ReceivedReply { consumed: 0, event: ReplyEvent::Incomplete }),
        (true, Some(padding)) => (usize::from(*padding) + 1, FRAME_HEADER_BYTES + 1),
    };
    if padding > header.len {
        return Err(protocol("padding longer than its frame"));
    }
    if header.stream == 0 || connection.is_idle(header.stream) {
        return Err(protocol("DATA on an idle stream"));
    }
    if header.len as i64 > i64::from(connection.receive_window) {
        return Err(ConnectionFailure(ErrorCode::FLOW_CONTROL_ERROR, "DATA beyond the connection's window"));
    }
    connection.receive_window -= header.len as i32;
    connection.give_back(header.len as u32, sink);
    let data = header.len - padding;
    let end_stream = header.has(flag::END_STREAM);
    let event = account(connection, header, data, sink);
    connection.payload = Payload {
        stream: if event.is_some() { 0 } else { header.stream },
        data_bytes: data as u32,
        padding_bytes: padding.saturating_sub(1) as u32,
        end_stream,
    };
    Ok(match event {
        Some(event) => ReceivedReply { consumed, event },
        None => deliver(connection, input, consumed, sink),
    })
}

/// Charges a DATA frame to its stream, and returns its bytes to the stream's window. Returns an event if the payload
/// must be ignored.
#[inline]
fn account<'b>(
    connection: &mut ClientConnection,
    header: FrameHeader,
    data: usize,
    sink: &mut impl Sink,
) -> Option<ReplyEvent<'b>> {
    let id = header.stream;
    let Some(stream) = connection.streams.find_mut(id) else { return Some(ReplyEvent::Nothing) };
    if stream.remote_ended {
        return Some(stream_error(connection, id, ErrorCode::STREAM_CLOSED, sink));
    }
    if !stream.reply_begun {
        return Some(stream_error(connection, id, ErrorCode::PROTOCOL_ERROR, sink));
    }
    if header.len as i64 > i64::from(stream.receive_window) {
        return Some(stream_error(connection, id, ErrorCode::FLOW_CONTROL_ERROR, sink));
    }
    if stream.content_left >= 0 {
        stream.content_left -= data as i64;
        // RFC 9113, 8.1.1: the body has exactly the length that `content-length` promised.
        if stream.content_left < 0 || header.has(flag::END_STREAM) && stream.content_left > 0 {
            return Some(stream_error(connection, id, ErrorCode::PROTOCOL_ERROR, sink));
        }
    }
    stream.receive_window -= header.len as i32;
    stream.unannounced += header.len as u32;
    if stream.unannounced >= connection.limits.stream_window_bytes / 2 && !header.has(flag::END_STREAM) {
        put_window_update(sink, id, stream.unannounced);
        stream.receive_window += stream.unannounced as i32;
        stream.unannounced = 0;
    }
    None
}

/// Delivers the part of the payload that `input` has from `at`.
#[inline]
fn deliver<'b>(
    connection: &mut ClientConnection,
    input: &'b [u8],
    at: usize,
    sink: &mut impl Sink,
) -> ReceivedReply<'b> {
    let payload = &mut connection.payload;
    let rest = &input[at..];
    let bytes = &rest[..rest.len().min(payload.data_bytes as usize)];
    let had_data = payload.data_bytes > 0;
    payload.data_bytes -= bytes.len() as u32;
    let is_last = payload.data_bytes == 0;
    let padding = if is_last { (rest.len() - bytes.len()).min(payload.padding_bytes as usize) } else { 0 };
    payload.padding_bytes -= padding as u32;
    let consumed = at + bytes.len() + padding;
    let (id, ends) = (payload.stream, payload.end_stream && is_last);
    // The end is delivered once: with the last byte of data, or with the header of an empty frame.
    let is_new = !bytes.is_empty() || ends && !had_data && at > 0;
    let nothing = ReceivedReply { consumed, event: ReplyEvent::Nothing };
    if id == 0 || !is_new {
        return nothing;
    }
    // The caller may have reset the stream since the frame began.
    let Some(stream) = connection.streams.find(id) else { return nothing };
    let user = stream.user;
    if ends {
        end_remote(connection, id, sink);
    }
    ReceivedReply { consumed, event: ReplyEvent::Data { stream: id, user, bytes, end_stream: ends } }
}
