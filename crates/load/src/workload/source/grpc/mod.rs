//! gRPC over HTTP/2: the connections of one thread, their calls in flight, and the replies to them.
//!
//! ```text
//!   put       request::write the message    -> one HEADERS and one DATA frame, or an unsent rest for the windows
//!   arrived   http2::client  the frames     -> reply::read each message; a stream's end is the reply's end
//! ```
//!
//! Invariants: a call takes memory of its connection's table, which is reused by later calls. A message that arrives in
//! one frame is read in place; another one is stored until it is whole.

mod reply;
mod request;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(in crate::workload) use tests::requests_read;

use std::collections::VecDeque;

use protocol::grpc::client::{put_reply_message, reply_status};
use protocol::grpc::{MESSAGE_PREFIX_BYTES, MessagePart, MessageReader, Status, message_prefix, whole_message};
use protocol::http2::client::{ClientConnection, ClientLimits, ReplyEvent, receive_reply};
use protocol::http2::{ErrorCode, FieldList};

use super::exchange::{AnswerReader, Follow, RequestDraft};
use super::progress;
use super::route::{RequestForm, Route};
use super::space::Space;
use crate::traffic::{Pending, ReplyOutcome, ReplyProgress, StreamProgress};

/// The gRPC connections of one thread.
#[derive(Debug)]
pub struct GrpcClient {
    connections: Vec<Option<GrpcConnection>>,
    fields: FieldList,
    /// Buffer for the body of a request.
    body: Vec<u8>,
    /// The status of the last call that failed.
    failed: Status,
}

/// The parts of a workload that the replies to its calls need.
pub struct CallReplies<'w> {
    /// The routes of the calls.
    pub routes: &'w [Route],
    /// The key spaces of the routes.
    pub spaces: &'w [Space],
    /// The follow-ups that replies cause.
    pub follow: &'w mut Follow,
    /// True if every value is compared.
    pub verify: bool,
}

impl GrpcClient {
    /// Creates a client without connections.
    pub fn new() -> Self {
        let fields = FieldList::new(ClientLimits::DEFAULT.header_list_bytes_max as usize);
        Self { connections: Vec::new(), fields, body: Vec::new(), failed: Status::Ok }
    }

    /// Begins a connection that has just been opened.
    pub fn begin(&mut self, connection: usize, out: &mut Vec<u8>) {
        if self.connections.len() <= connection {
            self.connections.resize_with(connection + 1, || None);
        }
        self.connections[connection] = Some(GrpcConnection::new(out));
    }

    /// Returns the highest number of requests that the connection may have in flight; `None` if it accepts no further
    /// ones, ever.
    pub fn streams_max(&self, connection: usize) -> Option<usize> {
        let http2 = &self.connections.get(connection)?.as_ref()?.http2;
        (!http2.is_ending()).then(|| http2.open_streams() + http2.room())
    }

    /// Writes the call of `draft` on a connection. Returns the pending request.
    pub fn put(&mut self, connection: usize, mut draft: RequestDraft<'_>, out: &mut Vec<u8>) -> Pending {
        let (route, plan) = (draft.route, draft.plan);
        let RequestForm::Grpc(call) = &route.wire else { unreachable!("all routes of the workload are gRPC") };
        let connection = self.connections[connection].as_mut().expect("the connection has begun");
        let body = &mut self.body;
        body.clear();
        body.extend_from_slice(&message_prefix(0));
        let value_bytes = request::write(&mut draft, call.verb, body);
        let len = body.len() - MESSAGE_PREFIX_BYTES;
        body[..MESSAGE_PREFIX_BYTES].copy_from_slice(&message_prefix(len as u32));
        let pending = Pending {
            verb: route.name,
            state: progress::begin(plan.route),
            key: plan.key,
            value_bytes,
            ..Pending::default()
        };
        let stream = connection.send(&call.block, body, pending, out);
        Pending { stream, ..pending }
    }

    /// Reads bytes of a connection up to the end of a stream.
    pub fn read(
        &mut self,
        connection: usize,
        bytes: &[u8],
        replies: &mut CallReplies<'_>,
        out: &mut Vec<u8>,
    ) -> (usize, StreamProgress) {
        let connection = self.connections[connection].as_mut().expect("the connection has begun");
        let fields = &mut self.fields;
        let mut used = 0;
        loop {
            if let Some(stream) = connection.again.pop() {
                return (used, StreamProgress::Again { stream });
            }
            let received = receive_reply(&mut connection.http2, &bytes[used..], fields, out);
            used += received.consumed;
            let (stream, user, body, is_end, has_fields) = match received.event {
                ReplyEvent::Incomplete => return (used, StreamProgress::More),
                ReplyEvent::Nothing | ReplyEvent::Headers { end_stream: false, .. } => continue,
                ReplyEvent::Ready => return (used, StreamProgress::Ready),
                ReplyEvent::WindowOpened { .. } => {
                    connection.send_rests(out);
                    continue;
                }
                ReplyEvent::GoAway { last_stream, .. } => {
                    connection.go_away(last_stream);
                    continue;
                }
                ReplyEvent::ConnectionError { text, .. } => return (used, StreamProgress::Garbage(text)),
                ReplyEvent::Reset { stream, user, code } => {
                    connection.forget(user);
                    let (status, progress) = reset(code, stream);
                    self.failed = status;
                    replies.follow.said =
                        format!("{}: the server reset the stream with code {}", status.name(), code.0).into_bytes();
                    return (used, progress);
                }
                ReplyEvent::Headers { stream, user, .. } => (stream, user, &[][..], true, true),
                ReplyEvent::Data { stream, user, bytes, end_stream } => (stream, user, bytes, end_stream, false),
            };
            let call = &mut connection.calls[user as usize];
            let route = &replies.routes[progress::AnswerState::of(&call.pending).route];
            let (space, verify) = (&replies.spaces[route.space], replies.verify);
            let mut reader = CallReader { route, space, verify, follow: &mut *replies.follow, call };
            reader.body(body);
            if !is_end {
                continue;
            }
            let (progress, status) = reader.end(has_fields.then_some(&*fields));
            connection.forget(user);
            let ReplyProgress::Done { outcome, value_bytes } = progress else { continue };
            if outcome == ReplyOutcome::Error {
                self.failed = status;
            }
            return (used, StreamProgress::Done { stream, outcome, value_bytes });
        }
    }

    /// Cancels a call whose time limit is past.
    pub fn expire(&mut self, connection: usize, stream: u32, out: &mut Vec<u8>) {
        let Some(connection) = self.connections.get_mut(connection).and_then(Option::as_mut) else { return };
        if let Some(at) = connection.calls.iter().position(|call| call.stream == stream) {
            connection.http2.reset(stream, ErrorCode::CANCEL, out);
            connection.forget(at as u32);
        }
    }

    /// Returns the name under which the last failed call is counted.
    pub const fn error_name(&self) -> &'static str {
        match self.failed {
            Status::Ok => "grpc-malformed-reply",
            Status::Cancelled => "grpc-cancelled",
            Status::Unknown => "grpc-unknown",
            Status::InvalidArgument => "grpc-invalid-argument",
            Status::DeadlineExceeded => "grpc-deadline-exceeded",
            Status::NotFound => "grpc-not-found",
            Status::AlreadyExists => "grpc-already-exists",
            Status::PermissionDenied => "grpc-permission-denied",
            Status::ResourceExhausted => "grpc-resource-exhausted",
            Status::FailedPrecondition => "grpc-failed-precondition",
            Status::Aborted => "grpc-aborted",
            Status::OutOfRange => "grpc-out-of-range",
            Status::Unimplemented => "grpc-unimplemented",
            Status::Internal => "grpc-internal",
            Status::Unavailable => "grpc-unavailable",
            Status::DataLoss => "grpc-data-loss",
            Status::Unauthenticated => "grpc-unauthenticated",
        }
    }

    /// Returns the remedy for the last failed call.
    pub const fn remedy(&self) -> &'static str {
        match self.failed {
            Status::Unauthenticated => "; pass a token or a password: --password-env, and --user for one user",
            Status::PermissionDenied => "; check the rights of the user or token",
            Status::NotFound => "; create the cache, or pass the name of one: --cache default",
            Status::Unimplemented => "; pass the address of the server's gRPC port",
            _ => "",
        }
    }
}

/// One connection.
#[derive(Debug)]
struct GrpcConnection {
    http2: ClientConnection,
    /// The calls, by the number that their streams carry.
    calls: Vec<OpenCall>,
    free: Vec<u32>,
    /// The rests of requests that the windows did not permit yet, oldest first.
    unsent: VecDeque<UnsentRest>,
    /// Streams that the server has not processed.
    again: Vec<u32>,
}

/// A call in flight.
#[derive(Debug, Default)]
struct OpenCall {
    /// The stream; 0 if the call is free.
    stream: u32,
    pending: Pending,
    reader: MessageReader,
    /// The bytes of a message that is not whole yet.
    partial: Vec<u8>,
    /// Number of messages read.
    messages: u32,
    /// The reply violates the schema for this reason.
    malformed: Option<&'static str>,
}

#[derive(Debug)]
struct UnsentRest {
    stream: u32,
    bytes: Vec<u8>,
    /// Number of bytes sent.
    sent: usize,
}

impl GrpcConnection {
    fn new(out: &mut Vec<u8>) -> Self {
        Self {
            http2: ClientConnection::begin(ClientLimits::DEFAULT, out),
            calls: Vec::new(),
            free: Vec::new(),
            unsent: VecDeque::new(),
            again: Vec::new(),
        }
    }

    /// Sends a request with the body `body`. Returns its stream.
    fn send(&mut self, block: &[u8], body: &[u8], pending: Pending, out: &mut Vec<u8>) -> u32 {
        let user = self.free.pop().unwrap_or(self.calls.len() as u32);
        let http2 = &mut self.http2;
        let stream = match http2.open_whole(block, body.len(), user, out) {
            Some(stream) => {
                out.extend_from_slice(body);
                stream
            }
            None => {
                let stream = http2.open(block, false, user, out).expect("the engine sends only what has room");
                // A rest that waits keeps its place before this request.
                let sent = if self.unsent.is_empty() { http2.send_data(stream, body, true, out) } else { 0 };
                if sent < body.len() {
                    self.unsent.push_back(UnsentRest { stream, bytes: body.to_vec(), sent });
                }
                stream
            }
        };
        if self.calls.len() <= user as usize {
            self.calls.resize_with(user as usize + 1, OpenCall::default);
        }
        let call = &mut self.calls[user as usize];
        (call.stream, call.pending, call.reader) = (stream, Pending { stream, ..pending }, MessageReader::new());
        (call.messages, call.malformed) = (0, None);
        call.partial.clear();
        stream
    }

    /// Continues the requests whose rests wait for a window.
    fn send_rests(&mut self, out: &mut Vec<u8>) {
        let http2 = &mut self.http2;
        self.unsent.retain_mut(|rest| {
            if http2.window(rest.stream).is_none() {
                return false;
            }
            rest.sent += http2.send_data(rest.stream, &rest.bytes[rest.sent..], true, out);
            rest.sent < rest.bytes.len()
        });
    }

    /// Removes a call whose stream is closed.
    fn forget(&mut self, user: u32) {
        self.calls[user as usize].stream = 0;
        self.free.push(user);
    }

    /// Marks the calls after `last_stream`, which the server does not process.
    fn go_away(&mut self, last_stream: u32) {
        for user in 0..self.calls.len() as u32 {
            let stream = self.calls[user as usize].stream;
            if stream > last_stream {
                self.http2.discard(stream);
                self.forget(user);
                self.again.push(stream);
            }
        }
        // The engine takes the last one first, and sends the requests again in their order.
        self.again.sort_unstable_by(|one, other| other.cmp(one));
    }
}

/// Reads the messages of a call.
struct CallReader<'r> {
    route: &'r Route,
    space: &'r Space,
    verify: bool,
    follow: &'r mut Follow,
    call: &'r mut OpenCall,
}

impl CallReader<'_> {
    /// Reads the next bytes of the reply's body.
    #[inline]
    fn body(&mut self, bytes: &[u8]) {
        if self.call.malformed.is_some() {
            return;
        }
        if self.call.reader.is_new()
            && let Some((compressed, message)) = whole_message(bytes)
        {
            return self.message(compressed, message);
        }
        self.parts(bytes);
    }

    fn parts(&mut self, mut bytes: &[u8]) {
        let mut compressed = false;
        while self.call.malformed.is_none() {
            match self.call.reader.next(&mut bytes) {
                Ok(MessagePart::More) => return,
                Ok(MessagePart::Start { compressed: is_compressed, len }) => {
                    compressed = is_compressed;
                    self.call.partial.clear();
                    self.call.partial.reserve(len as usize);
                    if bytes.is_empty() && len > 0 {
                        return self.refuse_compressed(compressed);
                    }
                }
                Ok(MessagePart::Bytes { bytes: part, last }) if last && self.call.partial.is_empty() => {
                    self.message(compressed, part);
                }
                Ok(MessagePart::Bytes { bytes: part, last }) => {
                    self.call.partial.extend_from_slice(part);
                    if last {
                        let partial = std::mem::take(&mut self.call.partial);
                        self.message(compressed, &partial);
                        self.call.partial = partial;
                        self.call.partial.clear();
                    }
                }
                Err(_) => self.call.malformed = Some("the reply's body is not a sequence of messages"),
            }
        }
    }

    fn refuse_compressed(&mut self, compressed: bool) {
        if compressed {
            self.call.malformed = Some("the reply is compressed, although no compression was accepted");
        }
    }

    fn message(&mut self, compressed: bool, message: &[u8]) {
        self.refuse_compressed(compressed);
        if self.call.malformed.is_some() {
            return;
        }
        let index = self.call.messages;
        self.call.messages += 1;
        if let Err(text) = self.answer(|answer| reply::read(answer, index, message)) {
            self.call.malformed = Some(text);
        }
    }

    /// Calls `read` with the state of the answer.
    fn answer<R>(&mut self, read: impl FnOnce(&mut AnswerReader<'_>) -> R) -> R {
        let mut answer = AnswerReader {
            route: self.route,
            space: self.space,
            verify: self.verify,
            follow: self.follow,
            state: progress::AnswerState::of(&self.call.pending),
            pending: &mut self.call.pending,
        };
        let read = read(&mut answer);
        let state = answer.state;
        state.keep(&mut self.call.pending);
        read
    }

    /// Ends the reply with the status in `fields`, if the stream ended with fields. Returns the progress and the
    /// status.
    fn end(&mut self, fields: Option<&FieldList>) -> (ReplyProgress, Status) {
        let status = fields.map_or(Status::Unknown, reply_status);
        let expected = if self.route.is_stream() { self.route.keys } else { 1 };
        if status == Status::Ok && self.call.malformed.is_none() && self.call.messages != expected {
            self.call.malformed = Some("the reply has another number of messages than expected");
        }
        let malformed = self.call.malformed;
        let progress = self.answer(|answer| {
            match (status, malformed) {
                (Status::Ok, None) => {}
                (Status::Ok, Some(text)) => answer.failed(text.as_bytes()),
                _ => {
                    let mut said = format!("{}: ", status.name()).into_bytes();
                    match fields {
                        Some(fields) => put_reply_message(fields, &mut said),
                        None => said.extend_from_slice(b"the reply has no trailers"),
                    }
                    answer.failed(&said);
                }
            }
            answer.done()
        });
        (progress, status)
    }
}

/// Returns the status and the progress of a stream that was reset with `code`.
fn reset(code: ErrorCode, stream: u32) -> (Status, StreamProgress) {
    let done = StreamProgress::Done { stream, outcome: ReplyOutcome::Error, value_bytes: 0 };
    match code {
        ErrorCode::REFUSED_STREAM => (Status::Unavailable, StreamProgress::Again { stream }),
        ErrorCode::CANCEL => (Status::Cancelled, done),
        ErrorCode::ENHANCE_YOUR_CALM => (Status::ResourceExhausted, done),
        ErrorCode::INADEQUATE_SECURITY => (Status::PermissionDenied, done),
        _ => (Status::Internal, done),
    }
}
