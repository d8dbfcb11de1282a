//! Receives requests: their header fields, then their message.
//!
//! A get or a set whose message arrives as a whole joins the plain calls at once, without a copy of its request. The
//! message of any other request is collected until its stream ends.

use super::calls::Decode;
use super::compression::Encoding;
use super::plan::{CallError, message_error, no_memory};
use super::replies::Reply;
use super::request::CallRequest;
use super::session::GrpcSession;
use crate::clients::faults;
use crate::context::WorkerContext;
use crate::context::grpc_buffers::GrpcBuffers;
use crate::visit::out::OutBuffer;
use base::clock::UnixMillis;
use protocol::grpc::{self, MessageError, Refusal, Status, whole_message};
use protocol::http2::{self, FieldName, FrameEvent};
use std::sync::Arc;

/// The maximum number of messages and replies of a connection that wait, if requests with several messages are among
/// them. A request with one message has a stream of its own, so that the limit of streams bounds those.
pub(super) const MESSAGES_MAX: usize = 256;

/// Handles the next frame. Returns the number of consumed bytes; `None` if the frame is incomplete.
pub(super) fn receive(
    input: &[u8],
    out: &mut OutBuffer,
    session: &mut GrpcSession,
    buffers: &mut GrpcBuffers,
    ctx: &WorkerContext,
) -> Option<usize> {
    let received = http2::receive(&mut session.wire.http, input, &mut buffers.fields, out);
    match received.event {
        FrameEvent::Incomplete => return None,
        FrameEvent::Nothing | FrameEvent::WindowOpened { .. } | FrameEvent::PeerGoAway { .. } => {}
        FrameEvent::Headers { stream, end_stream } | FrameEvent::HeadersTooLong { stream, end_stream } => {
            begin(stream, session, buffers, ctx);
            if end_stream {
                complete(stream, session, ctx);
            }
        }
        FrameEvent::Data { stream, user, bytes, end_stream } => {
            if let Some(place) = session.receiving_place(stream, user) {
                data(place, bytes, end_stream, session, buffers, ctx);
            }
            session.wire.http.consumed(stream, bytes.len(), out);
        }
        FrameEvent::Trailers { stream, .. } => complete(stream, session, ctx),
        FrameEvent::Reset { stream, .. } => session.cancel(stream, ctx),
        FrameEvent::ConnectionError { .. } => session.is_ending = true,
    }
    Some(received.consumed)
}

/// Begins the request of a stream with its header fields.
fn begin(stream: u32, session: &mut GrpcSession, buffers: &GrpcBuffers, ctx: &WorkerContext) {
    let call = match grpc::Call::of(&buffers.fields) {
        Ok(call) => call,
        Err(refusal @ (Refusal::Method | Refusal::ContentType)) => {
            let names = (None, Arc::default());
            let request = CallRequest::new(stream, Err(refusal), names, ctx.clock.ticks(), None);
            return session.add_receiving(request);
        }
        Err(refusal) => return session.wire.replies.push_back(Reply::refusal(stream, refusal)),
    };
    let Some(method) = session.method(call.service, call.method) else {
        let path = buffers.fields.value(FieldName::Path).unwrap_or_default();
        let text = format!("unknown method {}", String::from_utf8_lossy(path));
        return session.wire.replies.push_back(Reply::error(stream, CallError::new(Status::Unimplemented, text)));
    };
    let token = session.shared_token(buffers.fields.value(FieldName::Authorization).unwrap_or_default());
    let cache = buffers.fields.value(FieldName::Cache).map(|name| session.shared_cache(name));
    let mut request = CallRequest::new(stream, Ok(method), (cache, token), ctx.clock.ticks(), call.timeout_ns);
    if matches!(method.decode, Decode::Tokens(..)) {
        request.authority = buffers.fields.value(FieldName::Authority).unwrap_or_default().into();
    }
    if let Some(name) = buffers.fields.value(FieldName::GrpcEncoding) {
        request.encoding = Encoding::named(name);
    }
    if let Some(counts) = &ctx.shared.faults {
        request.faults = faults::of(&buffers.fields, method.name, counts);
    }
    let own_bytes = session.own_bytes(&request) + request.authority.len();
    if !request.charge_names(own_bytes, ctx) {
        return session.wire.replies.push_back(Reply::error(stream, no_memory()));
    }
    session.add_receiving(request);
}

/// Handles a part of the message of the request at `place`.
fn data(
    place: usize,
    bytes: &[u8],
    is_end: bool,
    session: &mut GrpcSession,
    buffers: &mut GrpcBuffers,
    ctx: &WorkerContext,
) {
    let stream = session.receiving[place].stream;
    if is_end
        && let Ok(method) = session.receiving[place].method
        && method.plain.is_some()
        && session.receiving[place].is_new()
        && session.receiving[place].faults.is_none()
        && let Some((false, message)) = whole_message(bytes)
        && session.add_plain(place, method, message, buffers, ctx)
    {
        session.take_receiving(place);
        return;
    }
    let mut rest = bytes;
    loop {
        let request = &mut session.receiving[place];
        if let Err(error) = request.append(&mut rest, ctx) {
            session.take_receiving(place);
            return session.wire.replies.push_back(Reply::error(stream, error));
        }
        if !request.is_whole || !request.method.is_ok_and(|method| method.is_streaming) {
            break;
        }
        let one = request.take_message();
        if session.waiting.len() + session.wire.replies.len() >= MESSAGES_MAX {
            session.take_receiving(place);
            let text = "too many messages without a reader of their replies; read them first";
            return session
                .wire
                .replies
                .push_back(Reply::error(stream, CallError::new(Status::ResourceExhausted, text)));
        }
        session.waiting.push_back(one);
    }
    if is_end {
        complete(stream, session, ctx);
    }
}

/// Queues a request whose last byte was received. A fault may delay it.
fn complete(stream: u32, session: &mut GrpcSession, ctx: &WorkerContext) {
    let Some(place) = session.receiving_place(stream, session.wire.http.user(stream).unwrap_or_default()) else {
        return;
    };
    let request = session.take_receiving(place);
    if let Err(refusal) = request.method {
        return session.wire.replies.push_back(Reply::refusal(stream, refusal));
    }
    // The end of a request with several messages follows them.
    let is_end = request.method.is_ok_and(|method| method.is_streaming) && request.is_new();
    if request.is_cut() {
        return session.wire.replies.push_back(Reply::error(stream, message_error(MessageError::Truncated)));
    }
    if !request.is_whole && !is_end {
        return session.wire.replies.push_back(Reply::error(stream, CallError::no_message()));
    }
    match request.faults {
        Some(faults) if faults.delay_ms > 0 => {
            session.delayed.push((UnixMillis(ctx.now.0 + faults.delay_ms), request));
        }
        _ => session.waiting.push_back(request),
    }
}
