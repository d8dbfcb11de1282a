//! Frames that carry no part of a reply: windows, resets, settings, pings and the server's GOAWAY.

use super::super::context::{ConnectionFailure, frame_size, protocol};
use super::super::control::word;
use super::super::frame::{
    ErrorCode, FrameHeader, PAYLOAD_BYTES_MAX, STREAM_ID_MAX, WINDOW_BYTES_MAX, flag, kind, put_header, setting,
};
use super::super::hpack::TABLE_BYTES_MAX;
use super::connection::{ClientConnection, ClientPhase};
use super::receive::{ReplyEvent, stream_error};
use crate::sink::Sink;

pub(super) fn window_update<'b>(
    connection: &mut ClientConnection,
    header: FrameHeader,
    payload: &[u8],
    sink: &mut impl Sink,
) -> Result<ReplyEvent<'b>, ConnectionFailure> {
    let increment = word(payload).ok_or(frame_size("WINDOW_UPDATE of another length than 4"))? & STREAM_ID_MAX;
    if header.stream == 0 {
        if increment == 0 {
            return Err(protocol("WINDOW_UPDATE of 0 bytes"));
        }
        let overflow = ConnectionFailure(ErrorCode::FLOW_CONTROL_ERROR, "the connection's window exceeds 2^31-1");
        connection.send_window = connection.send_window.checked_add(increment as i32).ok_or(overflow)?;
        return Ok(ReplyEvent::WindowOpened { stream: None });
    }
    if connection.is_idle(header.stream) {
        return Err(protocol("WINDOW_UPDATE on an idle stream"));
    }
    let Some(stream) = connection.streams.find_mut(header.stream) else { return Ok(ReplyEvent::Nothing) };
    if increment == 0 {
        return Ok(stream_error(connection, header.stream, ErrorCode::PROTOCOL_ERROR, sink));
    }
    match stream.send_window.checked_add(increment as i32) {
        Some(window) => stream.send_window = window,
        None => return Ok(stream_error(connection, header.stream, ErrorCode::FLOW_CONTROL_ERROR, sink)),
    }
    Ok(ReplyEvent::WindowOpened { stream: Some(header.stream) })
}

pub(super) fn rst_stream<'b>(
    connection: &mut ClientConnection,
    header: FrameHeader,
    payload: &[u8],
) -> Result<ReplyEvent<'b>, ConnectionFailure> {
    let code = ErrorCode(word(payload).ok_or(frame_size("RST_STREAM of another length than 4"))?);
    let stream = header.stream;
    if stream == 0 || connection.is_idle(stream) {
        return Err(protocol("RST_STREAM on an idle stream"));
    }
    Ok(match connection.streams.close(stream, false) {
        Some(closed) => ReplyEvent::Reset { stream, user: closed.user, code },
        None => ReplyEvent::Nothing,
    })
}

pub(super) fn ping<'b>(
    header: FrameHeader,
    payload: &[u8],
    sink: &mut impl Sink,
) -> Result<ReplyEvent<'b>, ConnectionFailure> {
    if header.stream != 0 {
        return Err(protocol("PING on a stream"));
    }
    if payload.len() != 8 {
        return Err(frame_size("PING of another length than 8"));
    }
    if !header.has(flag::ACK) {
        put_header(sink, kind::PING, flag::ACK, 0, payload.len());
        sink.put(payload);
    }
    Ok(ReplyEvent::Nothing)
}

pub(super) fn settings<'b>(
    connection: &mut ClientConnection,
    header: FrameHeader,
    payload: &[u8],
    sink: &mut impl Sink,
) -> Result<ReplyEvent<'b>, ConnectionFailure> {
    if header.stream != 0 {
        return Err(protocol("SETTINGS on a stream"));
    }
    let is_ack = header.has(flag::ACK);
    if is_ack && !payload.is_empty() || !payload.len().is_multiple_of(6) {
        return Err(frame_size("SETTINGS of an invalid length"));
    }
    if is_ack {
        return Ok(ReplyEvent::Nothing);
    }
    let initial_before = connection.initial_send_window;
    for entry in payload.chunks_exact(6) {
        let [id_1, id_0, value @ ..] = entry else { break };
        apply(connection, u16::from_be_bytes([*id_1, *id_0]), word(value).unwrap_or(0))?;
    }
    put_header(sink, kind::SETTINGS, flag::ACK, 0, 0);
    // RFC 9113, 6.9.2: the change applies to open streams, whose windows may become negative.
    let delta = i64::from(connection.initial_send_window) - i64::from(initial_before);
    if delta != 0 && !connection.streams.adjust_send_windows(delta) {
        return Err(ConnectionFailure(ErrorCode::FLOW_CONTROL_ERROR, "a stream's window exceeds 2^31-1"));
    }
    if connection.phase == ClientPhase::Settings {
        connection.phase = ClientPhase::Open;
        return Ok(ReplyEvent::Ready);
    }
    Ok(if delta > 0 { ReplyEvent::WindowOpened { stream: None } } else { ReplyEvent::Nothing })
}

/// Applies one setting of the server (RFC 9113, 6.5.2). Those that limit what a client never does are ignored.
fn apply(connection: &mut ClientConnection, id: u16, value: u32) -> Result<(), ConnectionFailure> {
    match id {
        // The encoder uses no table, so it never needs more than it has said once.
        setting::HEADER_TABLE_SIZE if value < TABLE_BYTES_MAX as u32 => connection.owes_table_size = true,
        setting::ENABLE_PUSH if value != 0 => return Err(protocol("SETTINGS_ENABLE_PUSH from a server")),
        setting::MAX_CONCURRENT_STREAMS => connection.streams_max = value,
        setting::INITIAL_WINDOW_SIZE if value > WINDOW_BYTES_MAX as u32 => {
            return Err(ConnectionFailure(ErrorCode::FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1"));
        }
        setting::INITIAL_WINDOW_SIZE => connection.initial_send_window = value as i32,
        setting::MAX_FRAME_SIZE if !(PAYLOAD_BYTES_MAX as u32..1 << 24).contains(&value) => {
            return Err(protocol("SETTINGS_MAX_FRAME_SIZE out of range"));
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn goaway<'b>(
    connection: &mut ClientConnection,
    header: FrameHeader,
    payload: &[u8],
) -> Result<ReplyEvent<'b>, ConnectionFailure> {
    if header.stream != 0 {
        return Err(protocol("GOAWAY on a stream"));
    }
    let number = |range| payload.get(range).and_then(word).ok_or(frame_size("GOAWAY shorter than 8"));
    let (last_stream, code) = (number(0..4)? & STREAM_ID_MAX, ErrorCode(number(4..8)?));
    connection.phase = ClientPhase::GoingAway;
    Ok(ReplyEvent::GoAway { last_stream, code })
}
