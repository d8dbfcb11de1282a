//! Frames that carry no part of a request: windows, resets, settings, pings, priorities and the client's GOAWAY.

use super::connection::Phase;
use super::context::{ConnectionFailure, FrameContext, frame_size, protocol};
use super::event::FrameEvent;
use super::frame::{
    ErrorCode, FrameHeader, PAYLOAD_BYTES_MAX, STREAM_ID_MAX, WINDOW_BYTES_MAX, flag, kind, put_header, setting,
};
use super::guard::cost;
use super::hpack::TABLE_BYTES_MAX;
use crate::sink::Sink;

#[inline]
pub(super) fn window_update<'b, S: Sink>(
    context: &mut FrameContext<'_, S>,
    header: FrameHeader,
    payload: &[u8],
) -> Result<FrameEvent<'b>, ConnectionFailure> {
    let increment = word(payload).ok_or(frame_size("WINDOW_UPDATE of another length than 4"))? & STREAM_ID_MAX;
    context.connection.guard.add_overhead(cost::WINDOW_UPDATE)?;
    if header.stream == 0 {
        if increment == 0 {
            return Err(protocol("WINDOW_UPDATE of 0 bytes"));
        }
        let window = context.connection.send_window.checked_add(increment as i32);
        let overflow = ConnectionFailure(ErrorCode::FLOW_CONTROL_ERROR, "the connection's window exceeds 2^31-1");
        context.connection.send_window = window.ok_or(overflow)?;
        return Ok(FrameEvent::WindowOpened { stream: None });
    }
    if context.is_idle(header.stream) {
        return Err(protocol("WINDOW_UPDATE on an idle stream"));
    }
    let Some(stream) = context.find(header.stream) else { return Ok(FrameEvent::Nothing) };
    if increment == 0 {
        return context.stream_error(header.stream, ErrorCode::PROTOCOL_ERROR);
    }
    match stream.send_window.checked_add(increment as i32) {
        Some(window) => stream.send_window = window,
        None => return context.stream_error(header.stream, ErrorCode::FLOW_CONTROL_ERROR),
    }
    Ok(FrameEvent::WindowOpened { stream: Some(header.stream) })
}

pub(super) fn rst_stream<'b, S: Sink>(
    context: &mut FrameContext<'_, S>,
    header: FrameHeader,
    payload: &[u8],
) -> Result<FrameEvent<'b>, ConnectionFailure> {
    let code = ErrorCode(word(payload).ok_or(frame_size("RST_STREAM of another length than 4"))?);
    let stream = header.stream;
    if stream == 0 || context.is_idle(stream) {
        return Err(protocol("RST_STREAM on an idle stream"));
    }
    let Some(closed) = context.connection.close(stream, false) else {
        context.connection.guard.add_overhead(cost::CLOSED_STREAM)?;
        return Ok(FrameEvent::Nothing);
    };
    context.connection.announce(context.control);
    if !closed.local_ended {
        context.connection.guard.add_remote_reset()?;
    }
    Ok(FrameEvent::Reset { stream, user: closed.user, code })
}

pub(super) fn ping<'b, S: Sink>(
    context: &mut FrameContext<'_, S>,
    header: FrameHeader,
    payload: &[u8],
) -> Result<FrameEvent<'b>, ConnectionFailure> {
    if header.stream != 0 {
        return Err(protocol("PING on a stream"));
    }
    if payload.len() != 8 {
        return Err(frame_size("PING of another length than 8"));
    }
    context.connection.guard.add_overhead(cost::PING)?;
    if !header.has(flag::ACK) {
        put_header(context.control, kind::PING, flag::ACK, 0, payload.len());
        context.control.put(payload);
    }
    Ok(FrameEvent::Nothing)
}

pub(super) fn settings<'b, S: Sink>(
    context: &mut FrameContext<'_, S>,
    header: FrameHeader,
    payload: &[u8],
) -> Result<FrameEvent<'b>, ConnectionFailure> {
    if header.stream != 0 {
        return Err(protocol("SETTINGS on a stream"));
    }
    let is_ack = header.has(flag::ACK);
    if is_ack && !payload.is_empty() || !payload.len().is_multiple_of(6) {
        return Err(frame_size("SETTINGS of an invalid length"));
    }
    context.connection.guard.add_overhead(cost::SETTINGS)?;
    if is_ack {
        return Ok(FrameEvent::Nothing);
    }
    let initial_before = context.connection.initial_send_window;
    for entry in payload.chunks_exact(6) {
        let [id_1, id_0, value @ ..] = entry else { break };
        setting(context, u16::from_be_bytes([*id_1, *id_0]), word(value).unwrap_or(0))?;
    }
    context.connection.phase = Phase::Open;
    put_header(context.control, kind::SETTINGS, flag::ACK, 0, 0);
    // RFC 9113, 6.9.2: the change applies to open streams, whose windows may become negative.
    let delta = i64::from(context.connection.initial_send_window) - i64::from(initial_before);
    let fits = delta == 0 || context.connection.streams.as_mut().is_none_or(|open| open.adjust_send_windows(delta));
    if !fits {
        return Err(ConnectionFailure(ErrorCode::FLOW_CONTROL_ERROR, "a stream's window exceeds 2^31-1"));
    }
    Ok(if delta > 0 { FrameEvent::WindowOpened { stream: None } } else { FrameEvent::Nothing })
}

/// Applies one setting of the client (RFC 9113, 6.5.2). Those that limit what this side never does are ignored.
pub(super) fn setting<S: Sink>(
    context: &mut FrameContext<'_, S>,
    id: u16,
    value: u32,
) -> Result<(), ConnectionFailure> {
    match id {
        // The encoder uses no table, so it never needs more than it has said once.
        setting::HEADER_TABLE_SIZE if value < TABLE_BYTES_MAX as u32 => {
            context.connection.owes_table_size = true;
        }
        setting::ENABLE_PUSH if value > 1 => return Err(protocol("SETTINGS_ENABLE_PUSH above 1")),
        setting::INITIAL_WINDOW_SIZE if value > WINDOW_BYTES_MAX as u32 => {
            return Err(ConnectionFailure(ErrorCode::FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1"));
        }
        setting::INITIAL_WINDOW_SIZE => context.connection.initial_send_window = value as i32,
        setting::MAX_FRAME_SIZE if !(PAYLOAD_BYTES_MAX as u32..1 << 24).contains(&value) => {
            return Err(protocol("SETTINGS_MAX_FRAME_SIZE out of range"));
        }
        _ => {}
    }
    Ok(())
}

/// Ignores a priority, which RFC 9113 has deprecated, unless a stream would depend on itself.
pub(super) fn priority<'b, S: Sink>(
    context: &mut FrameContext<'_, S>,
    header: FrameHeader,
    payload: &[u8],
) -> Result<FrameEvent<'b>, ConnectionFailure> {
    if header.stream == 0 {
        return Err(protocol("PRIORITY on stream 0"));
    }
    context.connection.guard.add_overhead(cost::IGNORED)?;
    let code = match payload.get(..4).and_then(word) {
        _ if payload.len() != 5 => ErrorCode::FRAME_SIZE_ERROR,
        Some(parent) if parent & STREAM_ID_MAX == header.stream => ErrorCode::PROTOCOL_ERROR,
        _ => return Ok(FrameEvent::Nothing),
    };
    if context.find(header.stream).is_none() {
        // RST_STREAM is not permitted on an idle stream, so the error is the connection's.
        return Err(ConnectionFailure(code, "invalid PRIORITY"));
    }
    context.stream_error(header.stream, code)
}

pub(super) fn goaway<'b, S: Sink>(
    context: &mut FrameContext<'_, S>,
    header: FrameHeader,
    payload: &[u8],
) -> Result<FrameEvent<'b>, ConnectionFailure> {
    if header.stream != 0 {
        return Err(protocol("GOAWAY on a stream"));
    }
    let code = payload.get(4..8).and_then(word).ok_or(frame_size("GOAWAY shorter than 8"))?;
    context.connection.guard.add_overhead(cost::SETTINGS)?;
    Ok(FrameEvent::PeerGoAway { code: ErrorCode(code) })
}

/// Returns the 32-bit number of 4 bytes; `None` for another length.
#[inline]
pub(super) fn word(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}
