//! Handling of received frames.
//!
//! ```text
//!   Preface ──> Settings ──> Open          any ── connection error ──> Failed
//!                             │ ▲
//!              DATA header    │ │ its last byte       a DATA payload is delivered as it arrives
//!                             ▼ │
//!                            Payload
//! ```

use super::connection::{Phase, ServerConnection};
use super::context::{ConnectionFailure, FrameContext, protocol};
use super::event::{FrameEvent, Received};
use super::frame::{
    FRAME_HEADER_BYTES, FrameHeader, PREFACE, WINDOW_BYTES_DEFAULT, kind, put_settings, put_window_update, setting,
};
use super::guard::cost;
use super::hpack::FieldList;
use super::{control, data, request};
use crate::sink::Sink;

/// Handles the start of `input`, at most one frame, and returns the event. Pass the bytes after `consumed` to the next
/// call.
///
/// Writes at most [`CONTROL_BYTES_MAX`](super::CONTROL_BYTES_MAX) bytes to `control`. After [`FrameEvent::Headers`],
/// [`FrameEvent::HeadersTooLong`] and [`FrameEvent::Trailers`], `fields` has the header fields. A buffer for `input`
/// must have room for a frame with [`PAYLOAD_BYTES_MAX`](super::frame::PAYLOAD_BYTES_MAX); no more has to be buffered.
#[inline]
pub fn receive<'b>(
    connection: &mut ServerConnection,
    input: &'b [u8],
    fields: &mut FieldList,
    control: &mut impl Sink,
) -> Received<'b> {
    let mut context = FrameContext { connection, fields, control };
    step(&mut context, input).unwrap_or_else(|failure| fail(&mut context, failure, input.len()))
}

#[inline]
fn step<'b, S: Sink>(context: &mut FrameContext<'_, S>, input: &'b [u8]) -> Result<Received<'b>, ConnectionFailure> {
    let connection = &mut *context.connection;
    if input.is_empty() {
        return Ok(Received { consumed: 0, event: FrameEvent::Incomplete });
    }
    match connection.phase {
        Phase::Open if connection.skip_bytes > 0 => {
            let consumed = input.len().min(connection.skip_bytes as usize);
            connection.skip_bytes -= consumed as u32;
            return Ok(Received { consumed, event: FrameEvent::Nothing });
        }
        Phase::Open if connection.payload.data_bytes + connection.payload.padding_bytes > 0 => {
            return Ok(data::deliver(context, input, 0));
        }
        Phase::Open | Phase::Settings => {}
        Phase::Preface => return preface(context, input),
        Phase::Failed(code, text) => {
            return Ok(Received { consumed: input.len(), event: FrameEvent::ConnectionError { code, text } });
        }
    }
    let Some(header) = FrameHeader::parse(input) else {
        return Ok(Received { consumed: 0, event: FrameEvent::Incomplete });
    };
    context.check(header)?;
    match header.kind {
        kind::DATA => return data::data(context, header, input),
        kind::HEADERS..=kind::CONTINUATION => {}
        _ => {
            context.connection.guard.add_overhead(cost::IGNORED)?;
            context.connection.skip_bytes = header.len as u32;
            return Ok(Received { consumed: FRAME_HEADER_BYTES, event: FrameEvent::Nothing });
        }
    }
    let consumed = FRAME_HEADER_BYTES + header.len;
    let Some(payload) = input.get(FRAME_HEADER_BYTES..consumed) else {
        return Ok(Received { consumed: 0, event: FrameEvent::Incomplete });
    };
    let event = match header.kind {
        kind::HEADERS => request::headers(context, header, payload)?,
        kind::CONTINUATION => request::continuation(context, header, payload)?,
        kind::WINDOW_UPDATE => control::window_update(context, header, payload)?,
        kind::RST_STREAM => control::rst_stream(context, header, payload)?,
        kind::PING => control::ping(context, header, payload)?,
        kind::SETTINGS => control::settings(context, header, payload)?,
        kind::PRIORITY => control::priority(context, header, payload)?,
        kind::GOAWAY => control::goaway(context, header, payload)?,
        _ => return Err(protocol("PUSH_PROMISE from a client")),
    };
    Ok(Received { consumed, event })
}

/// Consumes the client's preface and sends this side's: SETTINGS, and a larger window.
#[cold]
fn preface<'b, S: Sink>(context: &mut FrameContext<'_, S>, input: &'b [u8]) -> Result<Received<'b>, ConnectionFailure> {
    let len = input.len().min(PREFACE.len());
    if input[..len] != PREFACE[..len] {
        return Err(protocol(match input[0] {
            // The first byte of a TLS handshake.
            0x16 => "TLS on a plaintext port: use no TLS, or a tls: address",
            b'A'..=b'Z' => "HTTP/1 on a port for gRPC",
            _ => "invalid connection preface",
        }));
    }
    if len < PREFACE.len() {
        return Ok(Received { consumed: 0, event: FrameEvent::Incomplete });
    }
    let limits = context.connection.limits;
    put_settings(
        context.control,
        &[
            (setting::MAX_CONCURRENT_STREAMS, limits.concurrent_streams_max),
            (setting::INITIAL_WINDOW_SIZE, limits.stream_window_bytes),
            (setting::MAX_HEADER_LIST_SIZE, limits.header_list_bytes_max),
        ],
    );
    let more = limits.connection_window_bytes - WINDOW_BYTES_DEFAULT as u32;
    if more > 0 {
        put_window_update(context.control, 0, more);
    }
    context.connection.phase = Phase::Settings;
    Ok(Received { consumed: len, event: FrameEvent::Nothing })
}

#[cold]
fn fail<'b, S: Sink>(
    context: &mut FrameContext<'_, S>,
    ConnectionFailure(code, text): ConnectionFailure,
    consumed: usize,
) -> Received<'b> {
    context.connection.fail(code, text, context.control);
    Received { consumed, event: FrameEvent::ConnectionError { code, text } }
}
