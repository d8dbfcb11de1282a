//! The calls of gRPC clients: the protocol of Momento's clients, on the items of all protocols.
//!
//! ```text
//!   bytes ──> protocol::grpc::http2 ──> CallRequest, complete ──> decode ──> CallPlan ──> Execution: Redis commands
//!   bytes <── protocol::grpc::http2 <── Reply <──────────────────────────────────────────── messages or an error
//! ```
//!
//! A connection executes its calls one after another, in the order in which their requests were complete. Replies are
//! sent as the client's windows allow, so that a slow stream does not delay the others.
//!
//! A cache is a namespace: a call selects that of its header `cache` (its name or number). A token is a password of the
//! default user, or `USER:PASSWORD`.
//!
//! Bounds: at most [`STREAMS_MAX`](protocol::grpc::http2::STREAMS_MAX) requests and replies a connection. Their bytes
//! and those of the connection's state count as client memory.

mod calls;
mod execution;
mod plan;
mod session;

pub use session::GrpcSession;

use crate::context::WorkerContext;
use crate::memory::budget::{Grant, MemoryUse};
use crate::visit::clock::Ticks;
use crate::visit::out::{LINE_ROOM, OutBuffer};
use crate::visit::progress::{Progress, SessionWait};
use plan::{CallError, no_memory};
use protocol::grpc::http2::{CONTROL_BYTES_MAX, ErrorCode, Http2, Http2Event, hpack};
use protocol::grpc::{Prefix, Status, encode_text, prefix, timeout_ns};
use segment::Guard;
use session::{CallRequest, Reply};

/// The room that a step of [`serve`] needs in the output: for control frames, and for the headers of a reply with the
/// longest text of an error.
const STEP_ROOM: usize = 2 * CONTROL_BYTES_MAX + 3 * LINE_ROOM / 2;
/// The maximum length of an error's text, in bytes.
const TEXT_BYTES_MAX: usize = 512;

/// `:status 200` and `content-type application/grpc`, encoded (RFC 7541, 6.1 and 6.2.2).
const REPLY_HEADERS: &[u8] = b"\x88\x0f\x10\x10application/grpc";
/// `:status 415` and `content-type text/plain`, encoded.
const HTTP_HEADERS: &[u8] = b"\x08\x03415\x0f\x10\x0atext/plain";
/// The reply to a request of HTTP.
const HTTP_TEXT: &[u8] = b"this port serves gRPC: POST with content-type application/grpc\n";
/// `grpc-status 0`, encoded.
const OK_TRAILERS: &[u8] = b"\x00\x0bgrpc-status\x010";

/// Serves a connection: handles the received bytes, executes calls and writes replies, until it must wait.
pub fn serve(
    guard: &mut Guard<'_>,
    buf: &[u8],
    out: &mut OutBuffer,
    session: &mut GrpcSession,
    ctx: &mut WorkerContext,
) -> Progress {
    let mut at = 0;
    let state = loop {
        if out.room() < STEP_ROOM {
            break SessionWait::OutputFull { want: STEP_ROOM };
        }
        if session.http.is_none() {
            let mut http = Box::<Http2>::default();
            http.begin(out);
            session.http = Some(http);
        }
        if session.is_ending {
            break SessionWait::Close;
        }
        session.relax(ctx.now.secs());
        if write_replies(session, out, ctx.clock.ticks()) {
            continue;
        }
        if ctx.is_slice_over() {
            break SessionWait::Yield;
        }
        match execute(guard, session, ctx) {
            Ok(true) => continue,
            Ok(false) => {}
            Err(state) => break state,
        }
        match receive(&buf[at..], out, session, ctx) {
            Some(consumed) => at += consumed,
            // An incomplete frame needs at least one byte more.
            None if at < buf.len() => break SessionWait::NeedInput { want: buf.len() - at + 1 },
            None => break SessionWait::NeedInput { want: 0 },
        }
    };
    Progress { consumed: at, state }
}

/// Handles the next bytes. Returns the number of consumed bytes; `None` if more are needed.
fn receive(input: &[u8], out: &mut OutBuffer, session: &mut GrpcSession, ctx: &mut WorkerContext) -> Option<usize> {
    let mut http = session.http.take()?;
    let (consumed, event) = http.receive(input, out);
    let is_incomplete = event == Http2Event::Incomplete;
    match event {
        Http2Event::Incomplete | Http2Event::Handled | Http2Event::Opened => {}
        Http2Event::Headers { stream, end } => {
            match request(&http, stream, ctx) {
                Ok(request) => session.receiving.push(request),
                Err(error) => session.replies.push_back(Reply::error(stream, error)),
            }
            http.free_fields();
            if end {
                complete(stream, session);
            }
        }
        Http2Event::Data { stream, bytes, end } => {
            receive_data(stream, bytes, session);
            http.consume(stream, bytes.len(), out);
            if end {
                complete(stream, session);
            }
        }
        Http2Event::Reset { stream } => cancel(stream, session),
        Http2Event::Failed => session.is_ending = true,
    }
    if !session.account(http.memory_bytes(), ctx) && !session.is_ending {
        http.fail(ErrorCode::EnhanceYourCalm, out);
        session.is_ending = true;
    }
    session.http = Some(http);
    (!is_incomplete || session.is_ending).then_some(consumed)
}

/// Creates the request of a stream from its headers.
fn request(http: &Http2, stream: u32, ctx: &WorkerContext) -> Result<CallRequest, CallError> {
    let fields = http.fields();
    if fields.is_cut {
        return Err(CallError::new(
            Status::ResourceExhausted,
            "the headers are longer than 16 KiB; send less metadata",
        ));
    }
    let path = fields.get(b":path").unwrap_or_default();
    let is_grpc = fields.get(b"content-type").is_some_and(|kind| kind.starts_with(b"application/grpc"));
    let is_grpc = is_grpc && fields.get(b":method") == Some(b"POST");
    let call = calls::find(path).filter(|_| is_grpc);
    if is_grpc && call.is_none() {
        let text = format!("unknown method {}", String::from_utf8_lossy(path));
        return Err(CallError::new(Status::Unimplemented, text));
    }
    let timeout_ns = match fields.get(b"grpc-timeout") {
        None => 0,
        Some(text) => timeout_ns(text).ok_or_else(|| {
            CallError::invalid("grpc-timeout is malformed; give 1 to 8 digits and a unit (H M S m u n)")
        })?,
    };
    let mut request = CallRequest {
        stream,
        decode: call.map(|call| call.decode),
        cache: fields.get(b"cache").map(Box::from),
        token: fields.get(b"authorization").map_or(Box::default(), Box::from),
        begun: ctx.clock.ticks(),
        timeout_ns,
        message: Vec::new(),
        grant: Grant::none(&ctx.shared.budget, MemoryUse::Requests),
    };
    match request.reserve(0) {
        true => Ok(request),
        false => Err(no_memory()),
    }
}

/// Appends received data to a request's message.
fn receive_data(stream: u32, bytes: &[u8], session: &mut GrpcSession) {
    let Some(place) = session.receiving.iter().position(|request| request.stream == stream) else { return };
    let request = &mut session.receiving[place];
    if request.decode.is_none() {
        return;
    }
    let length = match prefix(&request.message) {
        Prefix::Incomplete => request.message.len() + bytes.len(),
        Prefix::Message(length) => length,
        Prefix::Refused(..) => return,
    };
    let several = || CallError::new(Status::Unimplemented, "the call has more than one request message; send one");
    let refused = if request.message.len() + bytes.len() > length.max(request.message.len()) {
        Some(several())
    } else if !reserve(request, bytes.len(), length) {
        Some(no_memory())
    } else {
        request.message.extend_from_slice(bytes);
        match prefix(&request.message) {
            Prefix::Refused(status, text) => Some(CallError::new(status, text)),
            Prefix::Message(length) if request.message.len() > length => Some(several()),
            _ => None,
        }
    };
    if let Some(error) = refused {
        session.receiving.swap_remove(place);
        session.replies.push_back(Reply::error(stream, error));
    }
}

/// Ensures that a request's message has room for `more` bytes. Doubles the room up to `length`, so that a client holds
/// no more than twice of what it has sent. Returns false if client memory is used up.
fn reserve(request: &mut CallRequest, more: usize, length: usize) -> bool {
    let (held, wanted) = (request.message.capacity(), request.message.len() + more);
    if wanted <= held {
        return true;
    }
    let room = wanted.max(length.min(2 * held));
    let has_room = request.reserve(room);
    if has_room {
        request.message.reserve_exact(room - request.message.len());
    }
    has_room
}

/// Queues a request whose last byte was received.
fn complete(stream: u32, session: &mut GrpcSession) {
    let Some(place) = session.receiving.iter().position(|request| request.stream == stream) else { return };
    let request = session.receiving.swap_remove(place);
    if request.decode.is_none() {
        return session.replies.push_back(Reply { stream, result: None, held: None, sent: None });
    }
    match prefix(&request.message) {
        Prefix::Message(length) if length == request.message.len() => session.waiting.push_back(request),
        _ => {
            let error = CallError::new(Status::Internal, "the request ended within its message");
            session.replies.push_back(Reply::error(stream, error));
        }
    }
}

/// Forgets a stream that the client has reset. A call in execution is completed, because it may have changed items.
fn cancel(stream: u32, session: &mut GrpcSession) {
    session.receiving.retain(|request| request.stream != stream);
    session.waiting.retain(|request| request.stream != stream);
    session.replies.retain(|reply| reply.stream != stream);
}

/// Continues the call in execution, or begins the next one. Returns false if there is none.
///
/// # Errors
/// The reason why the visit must end.
fn execute(guard: &mut Guard<'_>, session: &mut GrpcSession, ctx: &mut WorkerContext) -> Result<bool, SessionWait> {
    if session.running.is_none() {
        let Some(request) = session.waiting.pop_front() else { return Ok(false) };
        let stream = request.stream;
        let is_late =
            request.timeout_ns > 0 && ctx.clock.ns_between(request.begun, ctx.clock.ticks()) >= request.timeout_ns;
        let begun = match is_late {
            true => Err(CallError::new(Status::DeadlineExceeded, "the deadline was past before the call began")),
            false => session.begin(request, ctx),
        };
        match begun {
            Ok(execution) => session.running = Some((stream, Box::new(execution))),
            Err(error) => {
                session.replies.push_back(Reply::error(stream, error));
                return Ok(true);
            }
        }
    }
    let Some((stream, mut execution)) = session.running.take() else { return Ok(false) };
    match execution.advance(guard, session.redis_mut(), ctx) {
        Ok(result) => {
            if matches!(&result, Err(error) if error.status == Status::Unauthenticated) {
                session.forget_token();
            }
            let (result, held) = match result {
                Ok((messages, grant)) => (Ok(messages), Some((grant, ctx.clock.ticks()))),
                Err(error) => (Err(error), None),
            };
            session.replies.push_back(Reply { stream, result: Some(result), held, sent: None });
            Ok(true)
        }
        Err(state) => {
            session.running = Some((stream, execution));
            Err(state)
        }
    }
}

/// Writes a part of the first reply that can be sent. Returns false if there is none.
fn write_replies(session: &mut GrpcSession, out: &mut OutBuffer, now: Ticks) -> bool {
    let Some(http) = &mut session.http else { return false };
    for place in 0..session.replies.len() {
        let reply = &mut session.replies[place];
        if !http.is_open(reply.stream) {
            session.replies.remove(place);
            return true;
        }
        let (messages, headers) = match &reply.result {
            None => (HTTP_TEXT, HTTP_HEADERS),
            Some(Ok(messages)) => (&messages[..], REPLY_HEADERS),
            Some(Err(error)) => {
                write_error(http, reply.stream, error, out);
                session.replies.remove(place);
                return true;
            }
        };
        if reply.sent.is_none() {
            http.send_headers(reply.stream, headers, false, out);
            reply.sent = Some(0);
        }
        let sent = reply.sent.unwrap_or(0);
        let room = out.room().saturating_sub(CONTROL_BYTES_MAX + OK_TRAILERS.len());
        let written = http.send_data(reply.stream, &messages[sent..], room, out);
        reply.sent = Some(sent + written);
        if sent + written == messages.len() {
            match reply.result {
                Some(_) => http.send_headers(reply.stream, OK_TRAILERS, true, out),
                None => http.end(reply.stream, out),
            }
            session.replies.remove(place);
            return true;
        }
        if written > 0 {
            if let Some((_, since)) = &mut reply.held {
                *since = now;
            }
            // The other replies come first, so that a long one does not delay them.
            if let Some(reply) = session.replies.remove(place) {
                session.replies.push_back(reply);
            }
            return true;
        }
    }
    false
}

/// Writes the reply of a call that failed: headers alone, which end the stream.
fn write_error(http: &mut Http2, stream: u32, error: &CallError, out: &mut OutBuffer) {
    let mut block = Vec::with_capacity(LINE_ROOM);
    block.extend_from_slice(REPLY_HEADERS);
    let mut text = Vec::new();
    encode_text(&error.text, TEXT_BYTES_MAX, &mut text);
    hpack::encode(b"grpc-status", (error.status as u8).to_string().as_bytes(), &mut block);
    hpack::encode(b"grpc-message", &text, &mut block);
    http.send_headers(stream, &block, true, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoded_headers_of_replies_are_what_they_should_be() {
        let mut fields = hpack::Fields::default();
        let mut decoder = hpack::HeaderDecoder::default();
        decoder.decode(REPLY_HEADERS, 1024, &mut fields).expect("a valid block");
        let expected: [(&[u8], &[u8]); 2] = [(b":status", b"200"), (b"content-type", b"application/grpc")];
        assert_eq!(fields.iter().collect::<Vec<_>>(), expected);
        fields.clear();
        decoder.decode(HTTP_HEADERS, 1024, &mut fields).expect("a valid block");
        assert_eq!(
            (fields.get(b":status"), fields.get(b"content-type")),
            (Some(&b"415"[..]), Some(&b"text/plain"[..]))
        );
        fields.clear();
        decoder.decode(OK_TRAILERS, 1024, &mut fields).expect("a valid block");
        assert_eq!(fields.get(b"grpc-status"), Some(&b"0"[..]));
    }
}
