//! Executes the Redis commands of a call, over one or more visits.
//!
//! ```text
//!   commands ──> resp::serve(the connection's Redis session) ──> output of the worker ──> replies of this call
//!                     └── must wait: the visit ends, and the next one continues at the first byte not consumed
//! ```
//!
//! The Redis session belongs to the connection, and executes one call at a time. Its replies go to an output of the
//! worker that is emptied after each step, so that the session never waits for a reader.
//!
//! Invariant: the commands of a call that has begun are executed to their end, even if the client resets its stream. If
//! the connection ends, its Redis session completes a transaction that has begun, and nothing else.
//! The memory of short replies is reserved before a command is executed, so that no change is reported as failed for
//! want of memory.

use super::calls::common::missing;
use super::credentials::caller;
use super::item_replies::{ItemError, ItemReply};
use super::plan::{CallError, CallPlan, Commands, Flow, Publication, StreamRequest, error_of, no_memory};
use crate::context::WorkerContext;
use crate::context::grpc_buffers::GrpcBuffers;
use crate::memory::budget::{Grant, MemoryUse};
use crate::resp::{self, TokenUser};
use crate::visit::out::OutBuffer;
use crate::visit::progress::SessionWait;
use protocol::resp::client::{ParsedValue, Value, value};
use segment::{Guard, Namespace};
use std::sync::Arc;

/// The number of bytes that are reserved for the replies to the commands of a call. The replies to changes fit into it.
const SHORT_REPLIES_BYTES: u64 = 1024;

/// Returns the memory that commands and short replies to them need, in bytes.
fn needed_bytes(commands: &Commands) -> u64 {
    commands.request.capacity() as u64 + SHORT_REPLIES_BYTES
}

/// A call in execution.
pub(super) struct Execution {
    plan: CallPlan,
    /// The commands that precede those of the call, until they are executed: authentication.
    preamble: Option<Commands>,
    /// The namespace of the commands; `None` for that of the listener.
    namespace: Option<Namespace>,
    /// The number of bytes of the commands that are consumed.
    at: usize,
    replies: Vec<u8>,
    /// The share of client memory of the commands and replies.
    grant: Grant,
    /// True if client memory was used up, so that the replies are discarded.
    is_cut: bool,
    /// The subscription that the call begins, when its commands are executed.
    subscription: Option<StreamRequest>,
    /// The user of the call, until the commands that authenticate are executed.
    user: CallIdentity,
}

/// The user of a call beside that of a password.
#[derive(Default)]
pub(super) struct CallIdentity {
    /// The user of the call's signed token, if it has one.
    pub(super) token_user: Option<Arc<TokenUser>>,
    /// The name in the client's certificate, if the user of an earlier call must be replaced by that one.
    pub(super) identity: Option<Arc<[u8]>>,
}

impl Execution {
    /// Creates the execution of a plan. `preamble` precedes its commands.
    ///
    /// # Errors
    /// If client memory is used up.
    pub(super) fn new(
        plan: CallPlan,
        preamble: Commands,
        namespace: Option<Namespace>,
        user: CallIdentity,
        ctx: &WorkerContext,
    ) -> Result<Self, CallError> {
        let mut grant = Grant::none(&ctx.shared.budget, MemoryUse::Replies);
        if !grant.resize(plan.held_bytes + needed_bytes(&plan.commands)) {
            return Err(no_memory());
        }
        let preamble = Some(preamble).filter(|preamble| preamble.count > 0);
        Ok(Self {
            plan,
            preamble,
            namespace,
            at: 0,
            replies: Vec::new(),
            grant,
            is_cut: false,
            subscription: None,
            user,
        })
    }

    /// Returns true if the commands that authenticate the call are executed, or there are none.
    pub(super) fn is_authenticated(&self) -> bool {
        self.preamble.is_none()
    }

    /// Returns true if the stream stays open after the messages of the reply.
    pub(super) fn stays_open(&self) -> bool {
        self.plan.stays_open
    }

    /// Removes and returns the subscription that the call begins.
    pub(super) fn take_subscription(&mut self) -> Option<StreamRequest> {
        self.subscription.take()
    }

    /// Continues the call. Returns the messages of its reply with their share of client memory, or its error.
    ///
    /// # Errors
    /// The reason why the visit must end; the caller then calls this function again in a later visit.
    pub(super) fn advance(
        &mut self,
        guard: &mut Guard<'_>,
        session: &mut resp::SessionState,
        buffers: &mut GrpcBuffers,
        ctx: &mut WorkerContext,
    ) -> Result<Result<(Vec<u8>, Grant), CallError>, SessionWait> {
        loop {
            if self.preamble.is_none() {
                self.enter(session, ctx);
            }
            // `SWAPDB` may move the session, but not once its commands have begun.
            if self.preamble.is_none() && self.at == 0 && !resp::enter_namespace(session, ctx, self.namespace) {
                return Ok(Err(CallError::namespace_full()));
            }
            if self.preamble.is_none() && self.at == 0 {
                resp::speak_version_3(session, self.plan.has_types);
            }
            if self.preamble.is_none()
                && let Some(Publication { is_text }) = self.plan.publication.take()
            {
                resp::prepare_publication(session, is_text);
            }
            if let Err(error) = self.execute(guard, session, buffers, ctx)? {
                return Ok(Err(error));
            }
            let next = match self.next() {
                Ok(Flow::WithCaller(next)) => next(caller(session, ctx)),
                Ok(Flow::IfMayFlush(namespace, next)) => match resp::flush_refusal(session, &ctx.shared, namespace) {
                    Some(reply) => Err(error_of(&reply)),
                    None => next(),
                },
                Ok(Flow::MissingCache(name)) => match resp::cache_refusal(session, &ctx.shared, &name) {
                    // As for a cache that exists.
                    Some(_) if self.plan.stays_open => Err(CallError::stream_denied()),
                    Some(reply) => Err(error_of(&reply)),
                    None => Err(CallError::no_cache(&name)),
                },
                next => next,
            };
            match next {
                Ok(Flow::WithCaller(_) | Flow::IfMayFlush(..) | Flow::MissingCache(_)) => {
                    return Ok(Err(CallError::unexpected()));
                }
                Ok(Flow::Execute(commands)) => {
                    self.replies = Vec::new();
                    if !self.grant.resize(self.plan.held_bytes + needed_bytes(&commands)) {
                        return Ok(Err(no_memory()));
                    }
                    (self.plan.commands, self.at) = (commands, 0);
                }
                Ok(Flow::Reply(messages)) => return Ok(self.charged(messages, ctx)),
                Ok(Flow::Subscribe(request, messages)) => {
                    self.subscription = Some(request);
                    return Ok(self.charged(messages, ctx));
                }
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// Gives the session the user of the call.
    fn enter(&mut self, session: &mut resp::SessionState, ctx: &WorkerContext) {
        let CallIdentity { token_user, identity } = std::mem::take(&mut self.user);
        if let Some(user) = token_user {
            resp::enter_as_token(session, &user);
        } else if let Some(name) = identity {
            // If the user was removed, the session stays that of a client that must authenticate.
            resp::identify(session, &name, &ctx.shared);
        }
    }

    /// Returns the messages of the reply with their share of client memory, in place of that of the commands.
    fn charged(&mut self, messages: Vec<u8>, ctx: &WorkerContext) -> Result<(Vec<u8>, Grant), CallError> {
        let none = Grant::none(&ctx.shared.budget, MemoryUse::Replies);
        let mut grant = std::mem::replace(&mut self.grant, none);
        (self.replies, self.plan.commands) = (Vec::new(), Commands::default());
        if grant.resize(messages.capacity() as u64) { Ok((messages, grant)) } else { Err(no_memory()) }
    }

    /// Executes the commands to their end, or to the end of the first ones if these must succeed and fail.
    fn execute(
        &mut self,
        guard: &mut Guard<'_>,
        session: &mut resp::SessionState,
        buffers: &mut GrpcBuffers,
        ctx: &mut WorkerContext,
    ) -> Result<Result<(), CallError>, SessionWait> {
        let ended = loop {
            if self.plan.items.as_mut().is_some_and(ItemReply::advance) {
                break Err(SessionWait::Yield);
            }
            let commands = self.preamble.as_ref().unwrap_or(&self.plan.commands);
            let (opening, all) = (commands.opening_bytes, commands.request.len());
            if opening > 0 && self.at == opening && self.has_error() {
                break Ok(Ok(()));
            }
            let end = if self.at < opening { opening } else { all };
            let progress = resp::serve(guard, &commands.request[self.at..end], None, &mut buffers.out, session, ctx);
            self.at += progress.consumed;
            let is_done = self.at == end;
            let has_output = buffers.out.unsent() > 0;
            self.collect(&mut buffers.out, ctx);
            match progress.state {
                SessionWait::NeedInput { .. } if is_done && end < all => {}
                SessionWait::NeedInput { .. }
                    if is_done && self.plan.items.as_mut().is_some_and(ItemReply::advance) =>
                {
                    break Err(SessionWait::Yield);
                }
                SessionWait::NeedInput { .. } if is_done => break Ok(Ok(())),
                SessionWait::OutputFull { want } if want > buffers.out.capacity() => {
                    buffers.extend_out(want);
                }
                SessionWait::OutputFull { .. } if has_output => {}
                // Other sessions must release their pins first: the output is empty and long enough.
                SessionWait::OutputFull { .. } => break Err(SessionWait::Parked),
                SessionWait::NeedInput { .. } | SessionWait::Close => {
                    break Ok(Err(CallError::not_executed()));
                }
                wait => break Err(wait),
            }
        };
        buffers.restore_out();
        ended
    }

    /// Moves the output's bytes to the replies.
    fn collect(&mut self, out: &mut OutBuffer, ctx: &WorkerContext) {
        if out.unsent() > 0 {
            let unsent = out.take_unsent(&ctx.shared.store);
            let items = self.plan.items.as_mut().filter(|_| self.preamble.is_none());
            let bytes = self.plan.commands.request.capacity() + self.replies.len() + unsent.len();
            let held = self.plan.held_bytes + items.as_ref().map_or(0, |items| items.held_bytes());
            let bytes = held + bytes as u64;
            self.is_cut |= bytes > self.grant.bytes() && !self.grant.resize(bytes);
            match items {
                _ if self.is_cut => {}
                Some(items) => items.add(&unsent),
                None => self.replies.extend_from_slice(&unsent),
            }
        }
        ctx.record_sent(ctx.push.watch.connection, out.ops());
        out.clear(|pinned| ctx.unpin(pinned));
    }

    /// Returns true if the first reply is an error.
    fn has_error(&self) -> bool {
        self.replies.first() == Some(&b'-')
    }

    /// Passes the replies to the plan.
    fn next(&mut self) -> Result<Flow, CallError> {
        if self.is_cut {
            return Err(no_memory());
        }
        if self.preamble.is_none()
            && let Some(items) = &mut self.plan.items
        {
            return match items.finish() {
                Ok(Some(messages)) => Ok(Flow::Reply(messages)),
                Ok(None) => missing(),
                Err(ItemError::Refused(line)) => Err(error_of(&line)),
                Err(ItemError::Unexpected) => Err(CallError::unexpected()),
            };
        }
        let (mut values, mut rest) = (Vec::with_capacity(self.plan.commands.count), &self.replies[..]);
        while !rest.is_empty() {
            let ParsedValue::Value { value, consumed } = value(rest) else { return Err(CallError::unexpected()) };
            if self.preamble.is_some() || !self.plan.takes_errors {
                check(&value)?;
            }
            values.push(value);
            rest = &rest[consumed..];
        }
        if self.preamble.take().is_some() {
            return Ok(Flow::Execute(std::mem::take(&mut self.plan.commands)));
        }
        if values.len() != self.plan.commands.count {
            return Err(CallError::unexpected());
        }
        (self.plan.next)(&values)
    }
}

/// Returns the error of a reply, or of a command within a transaction.
fn check(value: &Value<'_>) -> Result<(), CallError> {
    match value {
        Value::Error(text) => Err(error_of(text)),
        Value::Array(items) => items.into_iter().try_for_each(|item| match item {
            Value::Error(text) => Err(error_of(text)),
            _ => Ok(()),
        }),
        _ => Ok(()),
    }
}
