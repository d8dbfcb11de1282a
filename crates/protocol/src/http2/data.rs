//! DATA frames, which are charged to the windows as a whole and delivered in parts as they arrive.

use super::connection::{Payload, announce_stream};
use super::context::{ConnectionFailure, FrameContext, frame_size, protocol};
use super::event::{FrameEvent, Received};
use super::frame::{ErrorCode, FRAME_HEADER_BYTES, FrameHeader, flag, put_rst_stream};
use super::guard::cost;
use crate::sink::Sink;

/// Handles the header of a DATA frame, and delivers what has arrived of its payload.
pub(super) fn data<'b, S: Sink>(
    context: &mut FrameContext<'_, S>,
    header: FrameHeader,
    input: &'b [u8],
) -> Result<Received<'b>, ConnectionFailure> {
    let (padding, consumed) = match (header.has(flag::PADDED), input.get(FRAME_HEADER_BYTES)) {
        (false, _) => (0, FRAME_HEADER_BYTES),
        (true, _) if header.len == 0 => return Err(frame_size("padded frame without a padding length")),
        (true, None) => return Ok(Received { consumed: 0, event: FrameEvent::Incomplete }),
        (true, Some(padding)) => (usize::from(*padding) + 1, FRAME_HEADER_BYTES + 1),
    };
    if padding > header.len {
        return Err(protocol("padding longer than its frame"));
    }
    if header.stream == 0 || context.is_idle(header.stream) {
        return Err(protocol("DATA on an idle stream"));
    }
    if header.len as i64 > i64::from(context.connection.receive_window) {
        return Err(ConnectionFailure(ErrorCode::FLOW_CONTROL_ERROR, "DATA beyond the connection's window"));
    }
    context.connection.receive_window -= header.len as i32;
    let data = header.len - padding;
    let end_stream = header.has(flag::END_STREAM);
    context.connection.payload = Payload {
        stream: header.stream,
        data_bytes: data as u32,
        padding_bytes: padding.saturating_sub(1) as u32,
        end_stream,
    };
    let is_empty = data == 0 && !end_stream;
    if is_empty {
        context.connection.guard.add_overhead(cost::EMPTY_DATA)?;
    }
    let ignored = account(context, header, data, padding)?;
    // Only DATA of an open stream is part of a request.
    if !is_empty && ignored.is_none() {
        context.connection.guard.add_useful();
    }
    if let Some(event) = ignored {
        // The caller sees nothing of the payload, so it returns to the connection's window at once.
        context.connection.payload.stream = 0;
        context.connection.unannounced += header.len as u32;
        context.connection.announce(context.control);
        return Ok(Received { consumed, event });
    }
    Ok(deliver(context, input, consumed))
}

/// Charges a DATA frame to its stream. Returns an event if the payload must be ignored.
#[inline]
pub(super) fn account<'b, S: Sink>(
    context: &mut FrameContext<'_, S>,
    header: FrameHeader,
    data: usize,
    padding: usize,
) -> Result<Option<FrameEvent<'b>>, ConnectionFailure> {
    let id = header.stream;
    let Some(stream) = context.connection.streams.as_mut().and_then(|streams| streams.find_mut(id)) else {
        return data_after_close(context, id).map(Some);
    };
    if stream.remote_ended {
        return context.stream_error(id, ErrorCode::STREAM_CLOSED).map(Some);
    }
    if header.len as i64 > i64::from(stream.receive_window) {
        return context.stream_error(id, ErrorCode::FLOW_CONTROL_ERROR).map(Some);
    }
    if stream.content_left >= 0 {
        stream.content_left -= data as i64;
        // RFC 9113, 8.1.1: the body has exactly the length that `content-length` promised.
        if stream.content_left < 0 || header.has(flag::END_STREAM) && stream.content_left > 0 {
            return context.stream_error(id, ErrorCode::PROTOCOL_ERROR).map(Some);
        }
    }
    stream.receive_window -= header.len as i32;
    stream.held += data as u32;
    if padding > 0 {
        // The caller never sees padding.
        stream.unannounced += padding as u32;
        context.connection.unannounced += padding as u32;
        announce_stream(stream, &context.connection.limits, context.control);
        context.connection.announce(context.control);
    }
    Ok(None)
}

/// Ignores DATA of a stream that this side has reset lately: the client sent it before it learned of the reset.
#[cold]
pub(super) fn data_after_close<'b, S: Sink>(
    context: &mut FrameContext<'_, S>,
    stream: u32,
) -> Result<FrameEvent<'b>, ConnectionFailure> {
    let is_expected = context.connection.refused.contains(&stream) || context.streams().was_reset(stream);
    let cost = if is_expected { cost::IGNORED } else { cost::CLOSED_STREAM };
    context.connection.guard.add_overhead(cost)?;
    if !is_expected {
        put_rst_stream(context.control, stream, ErrorCode::STREAM_CLOSED);
        context.streams().remember(stream, true);
    }
    Ok(FrameEvent::Nothing)
}

/// Delivers the part of the payload that `input` has from `at`.
#[inline]
pub(super) fn deliver<'b, S: Sink>(context: &mut FrameContext<'_, S>, input: &'b [u8], at: usize) -> Received<'b> {
    let payload = &mut context.connection.payload;
    let rest = &input[at..];
    let bytes = &rest[..rest.len().min(payload.data_bytes as usize)];
    let had_data = payload.data_bytes > 0;
    payload.data_bytes -= bytes.len() as u32;
    let padding = (rest.len() - bytes.len()).min(payload.padding_bytes as usize);
    let is_last = payload.data_bytes == 0;
    if is_last {
        payload.padding_bytes -= padding as u32;
    }
    let consumed = at + bytes.len() + if is_last { padding } else { 0 };
    let (id, ends) = (payload.stream, payload.end_stream && is_last);
    // The end is delivered once: with the last byte of data, or with the header of an empty frame.
    let is_new = !bytes.is_empty() || ends && !had_data && at > 0;
    let found = context.connection.streams.as_mut().and_then(|streams| streams.find_mut(id.max(1)));
    let Some(stream) = found.filter(|_| id != 0 && is_new) else {
        return Received { consumed, event: FrameEvent::Nothing };
    };
    let user = stream.user;
    if ends {
        context.end_remote(id);
    }
    Received { consumed, event: FrameEvent::Data { stream: id, user, bytes, end_stream: ends } }
}
