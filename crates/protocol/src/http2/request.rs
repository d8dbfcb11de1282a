//! HEADERS and CONTINUATION frames: new requests, and the trailers that end one.

use super::connection::PartialBlock;
use super::context::{ConnectionFailure, FrameContext, frame_size, protocol};
use super::event::FrameEvent;
use super::frame::{ErrorCode, FrameHeader, STREAM_ID_MAX, flag, put_rst_stream};
use super::guard::cost;
use super::streams::Stream;
use crate::sink::Sink;

#[inline]
pub(super) fn headers<'b, S: Sink>(
    context: &mut FrameContext<'_, S>,
    header: FrameHeader,
    payload: &[u8],
) -> Result<FrameEvent<'b>, ConnectionFailure> {
    if header.stream == 0 || header.stream.is_multiple_of(2) {
        return Err(protocol("HEADERS on a stream that no client opens"));
    }
    let mut fragment = payload;
    let mut self_dependent = false;
    if header.flags & (flag::PADDED | flag::PRIORITY) != 0 {
        (fragment, self_dependent) = strip(header, payload)?;
    }
    let end_stream = header.has(flag::END_STREAM);
    if header.has(flag::END_HEADERS) {
        return whole_block(context, header.stream, end_stream, self_dependent, fragment);
    }
    let bytes = fragment.to_vec();
    let block = PartialBlock { stream: header.stream, end_stream, self_dependent, continuations: 0, bytes };
    context.connection.block = Some(Box::new(block));
    Ok(FrameEvent::Nothing)
}

pub(super) fn continuation<'b, S: Sink>(
    context: &mut FrameContext<'_, S>,
    header: FrameHeader,
    payload: &[u8],
) -> Result<FrameEvent<'b>, ConnectionFailure> {
    let limits = context.connection.limits;
    let mut block = context.connection.block.take().ok_or(protocol("CONTINUATION without HEADERS"))?;
    block.continuations += 1;
    if block.continuations > limits.continuations_max
        || block.bytes.len() + payload.len() > limits.header_block_bytes_max as usize
    {
        return Err(ConnectionFailure(ErrorCode::ENHANCE_YOUR_CALM, "header block too long"));
    }
    block.bytes.reserve_exact(payload.len());
    block.bytes.extend_from_slice(payload);
    if header.has(flag::END_HEADERS) {
        return whole_block(context, block.stream, block.end_stream, block.self_dependent, &block.bytes);
    }
    context.connection.block = Some(block);
    Ok(FrameEvent::Nothing)
}

/// Decodes a whole header block, and opens a stream or ends a request. Each block is decoded, even for a stream that
/// is refused, so that the table stays equal to the client's.
#[inline]
pub(super) fn whole_block<'b, S: Sink>(
    context: &mut FrameContext<'_, S>,
    id: u32,
    end_stream: bool,
    self_dependent: bool,
    block: &[u8],
) -> Result<FrameEvent<'b>, ConnectionFailure> {
    context.connection.decoder.decode(block, context.fields)?;
    if id <= context.connection.last_stream {
        return trailers(context, id, end_stream);
    }
    let before = std::mem::replace(&mut context.connection.last_stream, id);
    context.connection.was_active = true;
    context.connection.guard.add_useful();
    let limits = context.connection.limits;
    let accept_max = context.connection.accept_max;
    let streams = context.streams();
    if id > accept_max || streams.len() >= limits.concurrent_streams_max as usize {
        // RFC 9113, 8.7: the client may retry, because nothing was processed.
        let follows = context.connection.refused.contains(&before);
        let from = if follows { *context.connection.refused.start() } else { id };
        context.connection.refused = from..=id;
        put_rst_stream(context.control, id, ErrorCode::REFUSED_STREAM);
        return Ok(FrameEvent::Nothing);
    }
    context.connection.last_accepted = id;
    let content_left = context.fields.content_length().map_or(-1, |length| length as i64);
    if self_dependent || !context.fields.is_request() || end_stream && content_left > 0 {
        return context.stream_error(id, ErrorCode::PROTOCOL_ERROR);
    }
    let (send_window, receive_window) = (context.connection.initial_send_window, limits.stream_window_bytes as i32);
    let stream =
        Stream { id, send_window, receive_window, content_left, remote_ended: end_stream, ..Stream::default() };
    context.streams().insert(stream);
    Ok(match context.fields.is_too_long() {
        false => FrameEvent::Headers { stream: id, end_stream },
        true => FrameEvent::HeadersTooLong { stream: id, end_stream },
    })
}

/// Handles a header block on a stream that was opened before.
#[cold]
pub(super) fn trailers<'b, S: Sink>(
    context: &mut FrameContext<'_, S>,
    id: u32,
    end_stream: bool,
) -> Result<FrameEvent<'b>, ConnectionFailure> {
    let is_valid = end_stream && context.fields.is_trailers();
    let Some(stream) = context.find(id) else {
        let is_refused = context.connection.refused.contains(&id);
        let streams = context.streams();
        if is_refused || streams.was_reset(id) {
            context.connection.guard.add_overhead(cost::CLOSED_STREAM)?;
            return Ok(FrameEvent::Nothing);
        }
        // RFC 9113, 5.1 and 5.1.1: a closed stream, or one that a higher identifier has skipped.
        return Err(match streams.was_closed(id) {
            true => ConnectionFailure(ErrorCode::STREAM_CLOSED, "HEADERS on a closed stream"),
            false => protocol("HEADERS on a stream below the last one"),
        });
    };
    let user = stream.user;
    if stream.remote_ended {
        return context.stream_error(id, ErrorCode::STREAM_CLOSED);
    }
    if !is_valid || stream.content_left > 0 {
        return context.stream_error(id, ErrorCode::PROTOCOL_ERROR);
    }
    context.end_remote(id);
    Ok(FrameEvent::Trailers { stream: id, user })
}

/// Removes padding and priority from a HEADERS frame's payload. Returns the block's fragment, and true if the stream
/// depends on itself.
pub(super) fn strip(header: FrameHeader, payload: &[u8]) -> Result<(&[u8], bool), ConnectionFailure> {
    let mut fragment = payload;
    let mut padding = 0;
    if header.has(flag::PADDED) {
        let (len, rest) = fragment.split_first().ok_or(frame_size("padded frame without a padding length"))?;
        (padding, fragment) = (usize::from(*len), rest);
    }
    let mut self_dependent = false;
    if header.has(flag::PRIORITY) {
        let (priority, rest) = fragment.split_first_chunk::<5>().ok_or(frame_size("HEADERS without its priority"))?;
        self_dependent =
            priority.first_chunk().is_some_and(|parent| u32::from_be_bytes(*parent) & STREAM_ID_MAX == header.stream);
        fragment = rest;
    }
    let len = fragment.len().checked_sub(padding).ok_or(protocol("padding longer than its frame"))?;
    Ok((&fragment[..len], self_dependent))
}
