//! Gets and sets that follow one another on a connection, which are executed together.
//!
//! ```text
//!   messages ──> requests: GET k1 | SET k2 v | GET k3 ──> resp::serve, which looks up their keys together
//!   streams  ──> calls                                         │
//!   output   <── messages <── one reply for each call <────────┘
//! ```
//!
//! The buffer of the commands belongs to the worker while it is empty, so that a call allocates nothing. A connection
//! keeps it while a command waits: for a lock, or for a value on flash.
//!
//! Bounds: at most [`CALLS_MAX`] calls, each with a whole message that was in the receive buffer. Bytes that wait count
//! as client memory ([`PlainCalls::held_bytes`]).

use super::calls::common::{HIT, MISS, OK};
use super::calls::{Method, PlainCall};
use super::plan::{CallError, error_of, no_memory};
use super::replies::{Reply, Timed, Wire};
use crate::context::WorkerContext;
use crate::context::grpc_buffers::GrpcBuffers;
use crate::lookup::run::PROBES_MAX;
use crate::memory::budget::{Grant, MemoryUse};
use crate::resp;
use crate::visit::clock::Ticks;
use crate::visit::out::OutBuffer;
use crate::visit::progress::SessionWait;
use arrayvec::ArrayVec;
use protocol::grpc::{Status, message_prefix};
use protocol::resp::client::{ParsedValue, Value, value};
use segment::{Guard, Namespace};

/// The maximum number of calls that are executed together: as many as the lookup engine looks up at once.
const CALLS_MAX: usize = PROBES_MAX;

/// The plain calls of a connection that are not answered yet.
#[derive(Default)]
pub(super) struct PlainCalls {
    /// The calls in their order, each with its stream. The first `answered` of them are answered.
    calls: ArrayVec<(u32, &'static Method), CALLS_MAX>,
    /// The instants at which the worker learned of the first one, and at which their execution began.
    ready: Ticks,
    begun: Ticks,
    answered: usize,
    /// The Redis commands of the calls, of which the first `consumed` bytes are executed.
    requests: Vec<u8>,
    consumed: usize,
    /// The start of a reply that is not complete.
    partial: Vec<u8>,
    /// The namespace of all calls; `None` for that of the listener.
    namespace: Option<Namespace>,
    /// The number of changes of namespaces at which the namespace was found.
    found_at: u64,
    has_begun: bool,
    /// The share of client memory of the incomplete reply.
    grant: Option<Grant>,
}

impl PlainCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns true if a call may join the others.
    pub(super) fn may_grow(&self) -> bool {
        !self.has_begun && self.calls.len() < CALLS_MAX
    }

    /// Returns the number of bytes that the buffers hold.
    pub(super) fn held_bytes(&self) -> usize {
        self.requests.capacity()
    }

    /// Adds a call, whose command `write` appends. Returns false if it must be executed apart from the others.
    pub(super) fn add(
        &mut self,
        stream: u32,
        method: &'static Method,
        namespace: Option<Namespace>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        if !self.is_empty() && self.namespace != namespace {
            return false;
        }
        self.namespace = namespace;
        self.calls.push((stream, method));
        write(&mut self.requests);
        true
    }

    /// Takes the worker's buffer for the commands of calls that arrived at the instant `ready`.
    /// `found_at`: the number of changes of namespaces at which their namespace was found.
    pub(super) fn begin(&mut self, buffers: &mut GrpcBuffers, ready: Ticks, found_at: u64) {
        self.requests = std::mem::take(&mut buffers.requests);
        (self.ready, self.found_at) = (ready, found_at);
    }

    /// Forgets all calls, and returns the buffer to the worker.
    fn clear(&mut self, buffers: &mut GrpcBuffers) {
        let mut requests = std::mem::take(self).requests;
        requests.clear();
        buffers.requests = requests;
    }
}

/// Executes the calls with the Redis session of their connection, and replies to them.
///
/// # Errors
/// The reason why the visit must end; the caller then calls this function again in a later visit.
pub(super) fn execute(
    plain: &mut PlainCalls,
    guard: &mut Guard<'_>,
    (redis, wire): (&mut resp::SessionState, &mut Wire),
    out: &mut OutBuffer,
    buffers: &mut GrpcBuffers,
    ctx: &mut WorkerContext,
) -> Result<(), SessionWait> {
    if let Some(error) = plain.refusal(redis, ctx) {
        plain.fail(wire, &error);
        plain.clear(buffers);
        return Ok(());
    }
    if !std::mem::replace(&mut plain.has_begun, true) {
        resp::speak_version_3(redis, false);
        plain.begun = ctx.clock.ticks();
    }
    loop {
        let commands = &plain.requests[plain.consumed..];
        let progress = resp::serve(guard, commands, None, &mut buffers.out, redis, ctx);
        plain.consumed += progress.consumed;
        let is_done = plain.consumed == plain.requests.len();
        let has_output = buffers.out.unsent() > 0;
        plain.answer(&mut buffers.out, wire, out, ctx);
        match progress.state {
            SessionWait::NeedInput { .. } if is_done => break,
            SessionWait::OutputFull { want } if want > buffers.out.capacity() => buffers.extend_out(want),
            SessionWait::OutputFull { .. } if has_output => {}
            // Other sessions must release their pins first: the output is empty and long enough.
            SessionWait::OutputFull { .. } => {
                buffers.restore_out();
                return Err(SessionWait::Parked);
            }
            SessionWait::NeedInput { .. } | SessionWait::Close => break,
            wait => {
                buffers.restore_out();
                return Err(wait);
            }
        }
    }
    if plain.answered < plain.calls.len() {
        plain.fail(wire, &CallError::not_executed());
    }
    plain.clear(buffers);
    buffers.restore_out();
    Ok(())
}

impl PlainCalls {
    /// Prepares the session for calls that have not begun. Returns the reason why they cannot begin.
    fn refusal(&self, redis: &mut resp::SessionState, ctx: &WorkerContext) -> Option<CallError> {
        if self.has_begun {
            return None;
        }
        if self.namespace.is_some() && self.found_at != ctx.shared.namespaces.changes() {
            // The cache may have been deleted while the calls waited.
            return Some(CallError::new(Status::Unavailable, "the caches have changed; call again"));
        }
        (!resp::enter_namespace(redis, ctx, self.namespace)).then(CallError::namespace_full)
    }

    /// Replies to all calls that are not answered with an error.
    fn fail(&self, wire: &mut Wire, error: &CallError) {
        for (stream, method) in &self.calls[self.answered..] {
            let reply = Reply::error(*stream, CallError::new(error.status, error.text.clone()));
            wire.replies.push_back(reply.timed(Timed { method, times: None }));
        }
    }

    /// Answers the calls whose commands have replied.
    fn answer(&mut self, replied: &mut OutBuffer, wire: &mut Wire, out: &mut OutBuffer, ctx: &WorkerContext) {
        let mut joined = std::mem::take(&mut self.partial);
        if replied.plain().is_none() || !joined.is_empty() {
            let unsent = replied.take_unsent(&ctx.shared.store);
            match joined.is_empty() {
                true => joined = unsent,
                false => joined.extend_from_slice(&unsent),
            }
        }
        let times = Some([self.ready, self.begun, ctx.clock.ticks()]);
        if let (Some((stream, method)), Some(value_bytes)) = (self.calls.get(self.answered), lone_hit_bytes(&joined)) {
            let call = (*stream, Timed { method, times });
            reply_in_place(call, std::mem::take(&mut joined), value_bytes, wire, out, ctx);
            self.answered += 1;
        }
        let mut rest = if joined.is_empty() { replied.plain().unwrap_or_default() } else { &joined[..] };
        while let (Some((stream, method)), ParsedValue::Value { value, consumed }) =
            (self.calls.get(self.answered), value(rest))
        {
            reply_to(*stream, Timed { method, times }, value, wire, out, ctx);
            self.answered += 1;
            rest = &rest[consumed..];
        }
        self.partial = rest.to_vec();
        if !self.partial.is_empty() {
            // The command has begun, and its reply is at most one value long.
            let grant = self.grant.get_or_insert_with(|| Grant::none(&ctx.shared.budget, MemoryUse::Replies));
            grant.force(self.partial.len() as u64);
        }
        ctx.record_sent(ctx.push.watch.connection, replied.ops());
        replied.clear(|pinned| ctx.unpin(pinned));
    }
}

/// Replies to a call: writes the reply, or queues it if it is long or the windows are closed.
fn reply_to(stream: u32, timed: Timed, value: Value<'_>, wire: &mut Wire, out: &mut OutBuffer, ctx: &WorkerContext) {
    let mut head = [0; HEAD_BYTES_MAX];
    let message = match (timed.method.plain, value) {
        (_, Value::Error(text)) => {
            return wire.replies.push_back(Reply::error(stream, error_of(text)).timed(timed));
        }
        (Some(PlainCall::Set), _) => [result(&mut head, OK), &[]],
        (_, value) => match value.text() {
            Some(text) => [hit(&mut head, text.len()), text],
            None => [result(&mut head, MISS), &[]],
        },
    };
    if wire.write_unary(stream, message, out) {
        return timed.record(Status::Ok, ctx);
    }
    let len = message[0].len() + message[1].len();
    let mut grant = Grant::none(&ctx.shared.budget, MemoryUse::Replies);
    let prefix = message_prefix(len as u32);
    if !grant.resize((prefix.len() + len) as u64) {
        return wire.replies.push_back(Reply::error(stream, no_memory()).timed(timed));
    }
    let messages = [&prefix, message[0], message[1]].concat();
    wire.replies.push_back(Reply::messages(stream, messages, grant, ctx.clock.ticks()).timed(timed));
}

/// Returns the length of the value if `replies` is the reply to one Get that has found it.
fn lone_hit_bytes(replies: &[u8]) -> Option<usize> {
    match value(replies) {
        ParsedValue::Value { value: Value::Bulk(text), consumed } if consumed == replies.len() => Some(text.len()),
        _ => None,
    }
}

/// Replies to a Get, as [`reply_to`] does. `reply` is the reply to its command: `$LENGTH`, a line end, the value, and a
/// line end. A reply that must be queued keeps these bytes: a long value is not copied once more.
fn reply_in_place(
    (stream, timed): (u32, Timed),
    mut reply: Vec<u8>,
    value_bytes: usize,
    wire: &mut Wire,
    out: &mut OutBuffer,
    ctx: &WorkerContext,
) {
    let mut head = [0; HEAD_BYTES_MAX];
    let head = hit(&mut head, value_bytes);
    reply.truncate(reply.len() - b"\r\n".len());
    let value_at = reply.len() - value_bytes;
    if wire.write_unary(stream, [head, &reply[value_at..]], out) {
        return timed.record(Status::Ok, ctx);
    }
    let prefix = message_prefix((head.len() + value_bytes) as u32);
    let mut grant = Grant::none(&ctx.shared.budget, MemoryUse::Replies);
    if !grant.resize((prefix.len() + head.len() + value_bytes) as u64) {
        return wire.replies.push_back(Reply::error(stream, no_memory()).timed(timed));
    }
    reply.reserve_exact(prefix.len() + head.len());
    reply.splice(..value_at, prefix.iter().chain(head).copied());
    wire.replies.push_back(Reply::messages(stream, reply, grant, ctx.clock.ticks()).timed(timed));
}

/// The maximum number of bytes of a message before its value: the field 1 as a varint, and the tag and length of the
/// field 2.
const HEAD_BYTES_MAX: usize = 2 + 1 + 5;

/// Encodes the message with 1 result.
fn result(head: &mut [u8; HEAD_BYTES_MAX], result: u64) -> &[u8] {
    (head[0], head[1]) = (0x08, result as u8);
    &head[..2]
}

/// Encodes the message with 1 result, a hit, and 2 value, without the value's bytes.
fn hit(head: &mut [u8; HEAD_BYTES_MAX], mut value_len: usize) -> &[u8] {
    result(head, HIT);
    head[2] = 0x12;
    let mut at = 3;
    while value_len >= 0x80 {
        head[at] = value_len as u8 | 0x80;
        value_len >>= 7;
        at += 1;
    }
    head[at] = value_len as u8;
    &head[..=at]
}

const _: () = assert!(HIT < 0x80 && MISS < 0x80 && OK < 0x80);
