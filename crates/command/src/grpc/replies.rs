//! Replies: written at once if they are short and the windows allow it, otherwise queued and written in parts.

use super::calls::Method;
use super::plan::CallError;
use crate::context::WorkerContext;
use crate::memory::budget::Grant;
use crate::visit::clock::Ticks;
use crate::visit::out::OutBuffer;
use protocol::grpc::reply::{self, UNARY_HEAD_BYTES_MAX, UNARY_TAIL_BYTES};
use protocol::grpc::{Refusal, Status};
use protocol::http2::frame::PAYLOAD_BYTES_MAX;
use protocol::http2::{ConnectionLimits, ErrorCode, ServerConnection, data_frames_bytes};
use std::collections::VecDeque;

/// The text of the reply to a request of HTTP.
const HTTP_TEXT: &[u8] = b"this port serves gRPC: POST with content-type application/grpc\n";

/// The reply to a request.
enum ReplyBody {
    /// The messages, with their prefixes.
    Messages(Vec<u8>),
    /// The end of a stream that stayed open.
    End,
    /// The call failed.
    Error(CallError),
    /// The request is not a call, or is one of HTTP and gets a text.
    Refused(Refusal),
}

/// A reply that is not completely written.
pub(super) struct Reply {
    pub(super) stream: u32,
    body: ReplyBody,
    /// The share of client memory of the messages, and the instant at which a part of them was last written.
    held: Option<(Grant, Ticks)>,
    /// The number of bytes of the messages that are written.
    sent: usize,
    /// True if the stream stays open after the messages.
    stays_open: bool,
    /// The method and the times of the call, for the statistics.
    timed: Option<Timed>,
}

/// A call for the statistics.
#[derive(Clone, Copy)]
pub(super) struct Timed {
    pub(super) method: &'static Method,
    /// The instants at which the request was complete, and at which the execution began and ended. `None` if the call
    /// was not executed.
    pub(super) times: Option<[Ticks; 3]>,
}

impl Timed {
    /// Counts the call, whose reply is now in the output.
    #[inline]
    pub(super) fn record(self, status: Status, ctx: &WorkerContext) {
        let parts_ns = self.times.map(|[ready, begun, ended]| {
            let now = ctx.clock.ticks();
            [(ready, begun), (begun, ended), (ended, now)].map(|(from, to)| ctx.clock.ns_between(from, to))
        });
        let stats = &ctx.shared.workers[ctx.worker].call_stats;
        stats.record(self.method.number(), status as usize, parts_ns);
    }
}

impl Reply {
    /// Creates the reply with an error.
    pub(super) fn error(stream: u32, error: CallError) -> Self {
        Self { stream, body: ReplyBody::Error(error), held: None, sent: 0, stays_open: false, timed: None }
    }

    /// Creates the end of a reply whose messages precede it.
    pub(super) fn end(stream: u32) -> Self {
        Self { stream, body: ReplyBody::End, held: None, sent: 0, stays_open: false, timed: None }
    }

    /// Creates the reply to a request that is not a call.
    pub(super) fn refusal(stream: u32, refusal: Refusal) -> Self {
        Self { stream, body: ReplyBody::Refused(refusal), held: None, sent: 0, stays_open: false, timed: None }
    }

    /// Creates the reply with messages, complete at the instant `now`. `grant` is their share of client memory.
    pub(super) fn messages(stream: u32, messages: Vec<u8>, grant: Grant, now: Ticks) -> Self {
        Self {
            stream,
            body: ReplyBody::Messages(messages),
            held: Some((grant, now)),
            sent: 0,
            stays_open: false,
            timed: None,
        }
    }

    /// Returns true if other replies may precede this one on its stream.
    fn is_part(&self) -> bool {
        self.stays_open || !matches!(self.body, ReplyBody::Messages(_))
    }

    /// Returns the reply with its call, for the statistics.
    pub(super) fn timed(self, timed: Timed) -> Self {
        Self { timed: Some(timed), ..self }
    }

    /// Returns the reply of a stream that stays open.
    pub(super) fn staying_open(self) -> Self {
        Self { stays_open: true, ..self }
    }

    /// Returns the number of held bytes, and the instant since which the client has read none of them.
    pub(super) fn held(&self) -> Option<(u64, Ticks)> {
        self.held.as_ref().map(|(grant, since)| (grant.bytes(), *since))
    }
}

/// The state of HTTP/2 and the replies that are not written.
pub(super) struct Wire {
    pub(super) http: ServerConnection,
    /// Replies that are not completely written. At most one for each open stream, and 256 for requests with several
    /// messages.
    pub(super) replies: VecDeque<Reply>,
}

impl Wire {
    pub(super) fn new() -> Self {
        Self { http: ServerConnection::new(ConnectionLimits::DEFAULT), replies: VecDeque::new() }
    }

    /// Writes the reply of a call with one message, which has the parts `message`. Returns false, and writes nothing,
    /// if the windows or the output have no room for all of it.
    #[inline]
    pub(super) fn write_unary(&mut self, stream: u32, message: [&[u8]; 2], out: &mut OutBuffer) -> bool {
        let len = message[0].len() + message[1].len();
        if out.room() < UNARY_HEAD_BYTES_MAX + len + UNARY_TAIL_BYTES
            || !reply::begin_unary(&mut self.http, stream, len, out)
        {
            return false;
        }
        message.iter().for_each(|part| out.push(part));
        reply::end_unary(stream, out);
        true
    }

    /// Writes a part of the first reply that can be sent. Returns false if there is none. The output has room for a
    /// step.
    pub(super) fn write(&mut self, out: &mut OutBuffer, ctx: &WorkerContext) -> bool {
        let http = &mut self.http;
        for place in 0..self.replies.len() {
            let stream = self.replies[place].stream;
            if http.window(stream).is_none() {
                self.replies.remove(place);
                return true;
            }
            // The parts of a reply that stays open are sent in their order.
            if self.replies[place].is_part() && self.replies.range(..place).any(|before| before.stream == stream) {
                continue;
            }
            let reply = &mut self.replies[place];
            let messages = match &reply.body {
                ReplyBody::Messages(messages) => &messages[..],
                ReplyBody::End => {
                    reply::end(http, stream, Status::Ok, "", out);
                    return self.end(place, out, ctx);
                }
                ReplyBody::Error(error) => {
                    let metadata = error.metadata.map(|(name, value)| (name, value.as_bytes()));
                    reply::end_with(http, stream, error.status, &error.text, metadata.as_slice(), out);
                    return self.end(place, out, ctx);
                }
                ReplyBody::Refused(Refusal::Method | Refusal::ContentType) => HTTP_TEXT,
                ReplyBody::Refused(refusal) => {
                    reply::refuse(http, stream, *refusal, out);
                    return self.end(place, out, ctx);
                }
            };
            if !http.has_sent_headers(stream) {
                match reply.body {
                    ReplyBody::Refused(refusal) => reply::http_headers(http, stream, refusal, out),
                    _ => reply::headers(http, stream, out),
                };
            }
            let sent = reply.sent;
            let room = out.room().saturating_sub(reply::TRAILERS_BYTES_MAX + data_frames_bytes(0));
            let part = (messages.len() - sent).min(room).min(PAYLOAD_BYTES_MAX);
            let is_http = matches!(reply.body, ReplyBody::Refused(_));
            let written =
                http.send_data(stream, &messages[sent..sent + part], is_http && sent + part == messages.len(), out);
            reply.sent = sent + written;
            if sent + written == messages.len() {
                if reply.stays_open {
                    let timed = self.replies.remove(place).and_then(|reply| reply.timed);
                    timed.inspect(|timed| timed.record(Status::Ok, ctx));
                    return true;
                }
                if !is_http {
                    reply::trailers(http, stream, Status::Ok, "", &[], out);
                }
                return self.end(place, out, ctx);
            }
            if written > 0 {
                if let Some((_, since)) = &mut reply.held {
                    *since = ctx.clock.ticks();
                }
                // The other replies come first, so that a long one does not delay them.
                if !reply.stays_open
                    && let Some(reply) = self.replies.remove(place)
                {
                    self.replies.push_back(reply);
                }
                return true;
            }
        }
        false
    }

    /// Removes a reply that is completely written, and asks a client whose request is not complete to stop sending.
    fn end(&mut self, place: usize, out: &mut OutBuffer, ctx: &WorkerContext) -> bool {
        if let Some(reply) = self.replies.remove(place) {
            if let Some(timed) = reply.timed {
                let status = if let ReplyBody::Error(error) = &reply.body { error.status } else { Status::Ok };
                timed.record(status, ctx);
            }
            self.http.reset(reply.stream, ErrorCode::NO_ERROR, out);
        }
        true
    }
}
