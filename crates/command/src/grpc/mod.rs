//! The calls of gRPC clients, on the items of all protocols: those of `gannet.v1`, and of Momento's protocol.
//!
//! ```text
//!   bytes ──> protocol::http2 ──> receiving ──┬─> plain: gets and sets, together ───────────┬─> replies ──> bytes
//!                                             └─> waiting ──> calls: CallPlan ──> execution ─┘
//! ```
//!
//! A connection executes its calls in the order in which their requests were complete. Gets and sets that follow one
//! another are executed together ([`plain`]), all others one by one ([`execution`]). Replies are sent as the client's
//! windows allow, so that a slow stream does not delay the others.
//!
//! A cache is a namespace: a call selects that of its header `cache` (its name or number). A token is a password of the
//! default user, `USER:PASSWORD`, or a signed token.
//!
//! Bounds: at most as many requests and replies a connection as streams ([`ConnectionLimits`]). Their bytes and those
//! of the connection's state count as client memory.
//!
//! [`ConnectionLimits`]: protocol::http2::ConnectionLimits

mod calls;
mod compression;
mod credentials;
mod execution;
mod graph_errors;
mod item_replies;
mod key_watch;
mod plain;
mod plan;
mod receiving;
mod replies;
mod request;
mod session;
mod subscriptions;

pub use session::GrpcSession;

use crate::clients::faults::{self, FAULT_TEXT};
use crate::context::WorkerContext;
use crate::context::grpc_buffers::GrpcBuffers;
use crate::memory::budget::Grant;
use crate::resp;
use crate::visit::out::OutBuffer;
use crate::visit::progress::{Progress, SessionWait};
use plan::CallError;
use protocol::grpc::Status;
use protocol::http2::{CONTROL_BYTES_MAX, ErrorCode};
use replies::{Reply, Timed};
use segment::Guard;
use session::RunningCall;
use subscriptions::StreamEnds;

/// The room that a step of [`serve`] needs in the output: for control frames, and for the longest block of headers.
const STEP_ROOM: usize = protocol::grpc::reply::TRAILERS_BYTES_MAX + 2 * CONTROL_BYTES_MAX;

/// Returns the names of all methods, by their numbers in [`crate::metrics::call_stats`].
pub fn method_names() -> impl Iterator<Item = &'static str> {
    calls::method_names()
}

/// Serves a connection: handles the received bytes, executes calls and writes replies, until it must wait.
pub fn serve(
    guard: &mut Guard<'_>,
    buf: &[u8],
    out: &mut OutBuffer,
    session: &mut GrpcSession,
    ctx: &mut WorkerContext,
) -> Progress {
    let mut buffers = ctx.grpc.take().unwrap_or_else(GrpcBuffers::new);
    session.relax(ctx.now);
    session.end_delays(ctx.now);
    let mut at = 0;
    let state = loop {
        if out.room() < STEP_ROOM {
            break SessionWait::OutputFull { want: STEP_ROOM };
        }
        if session.is_ending {
            break SessionWait::Close;
        }
        session.say_goodbye(out);
        if session.wire.write(out, ctx)
            || subscriptions::advance(&mut session.subscriptions, &mut session.wire, session.is_leaving, guard, ctx)
        {
            continue;
        }
        if ctx.is_slice_over() {
            break SessionWait::Yield;
        }
        // A client may cancel a query in execution. Later calls wait.
        let may_read_on = match &session.running {
            None => session.waiting.is_empty(),
            Some(running) => running.may_end_early() && session.waiting.len() < receiving::MESSAGES_MAX,
        };
        let may_receive = may_read_on && session.plain.may_grow();
        if may_receive && let Some(consumed) = receiving::receive(&buf[at..], out, session, &mut buffers, ctx) {
            at += consumed;
            continue;
        }
        match execute(guard, out, session, &mut buffers, ctx) {
            Ok(true) => {}
            // An incomplete frame needs at least one byte more.
            Ok(false) if session.awaits_guards() => {
                ctx.retry_at_once = true;
                break SessionWait::Parked;
            }
            Ok(false) if at < buf.len() => break SessionWait::NeedInput { want: buf.len() - at + 1 },
            Ok(false) => break SessionWait::NeedInput { want: 0 },
            Err(state) => break state,
        }
    };
    if !session.account(ctx) && !session.is_ending && out.room() >= CONTROL_BYTES_MAX {
        session.wire.http.fail(ErrorCode::ENHANCE_YOUR_CALM, "client memory is used up", out);
        session.is_ending = true;
    }
    session.set_timer(ctx);
    ctx.grpc = Some(buffers);
    Progress { consumed: at, state }
}

/// Executes the collected gets and sets, or continues the call in execution, or begins the next one. Returns false if
/// there is none.
///
/// # Errors
/// The reason why the visit must end.
fn execute(
    guard: &mut Guard<'_>,
    out: &mut OutBuffer,
    session: &mut GrpcSession,
    buffers: &mut GrpcBuffers,
    ctx: &mut WorkerContext,
) -> Result<bool, SessionWait> {
    if !session.plain.is_empty() {
        let connection = (&mut session.redis, &mut session.wire);
        return plain::execute(&mut session.plain, guard, connection, out, buffers, ctx).map(|()| true);
    }
    if session.running.is_none() && !begin_next(session, ctx)? {
        return Ok(false);
    }
    let Some(mut running) = session.running.take() else { return Ok(true) };
    if running.may_end_early() && running.is_late(ctx) && resp::abandon_query(&mut session.redis) {
        let error = CallError::new(Status::DeadlineExceeded, "the deadline was past before the query was complete");
        let reply = Reply::error(running.stream, error);
        session.wire.replies.push_back(running.timed(reply, ctx));
        return Ok(true);
    }
    let (stream, execution) = (running.stream, &mut running.execution);
    match execution.advance(guard, &mut session.redis, buffers, ctx) {
        Ok(Ok((messages, grant))) => {
            complete(running, (messages, grant), guard, session, ctx);
            Ok(true)
        }
        Ok(Err(error)) => {
            if !execution.is_authenticated() || error.status == Status::Unauthenticated {
                session.forget_token();
            }
            session.forget_request(stream);
            session.wire.replies.push_back(running.timed(Reply::error(stream, error), ctx));
            Ok(true)
        }
        Err(state) => {
            session.running = Some(running);
            Err(state)
        }
    }
}

/// Begins the next call, or replies to it if it cannot begin. Returns false if no call waits.
///
/// # Errors
/// The reason why the visit must end.
fn begin_next(session: &mut GrpcSession, ctx: &WorkerContext) -> Result<bool, SessionWait> {
    let Some(mut request) = session.waiting.pop_front() else { return Ok(false) };
    let stream = request.stream;
    match request.decompress(ctx) {
        Ok(true) => {}
        Ok(false) => {
            session.waiting.push_front(request);
            return Err(SessionWait::Yield);
        }
        Err(error) => {
            session.forget_request(stream);
            session.wire.replies.push_back(Reply::error(stream, error));
            return Ok(true);
        }
    }
    if !request.is_whole {
        session.wire.replies.push_back(Reply::end(stream));
        return Ok(true);
    }
    let (method, ready, cache) = (request.method, request.received, request.cache.clone());
    let deadline = request.deadline(ctx);
    let faults = request.faults.unwrap_or_default();
    let begun = match faults.error {
        _ if request.is_late(ctx) => {
            Err(CallError::new(Status::DeadlineExceeded, "the deadline was past before the call began"))
        }
        Some(status) => Err(CallError::new(status, FAULT_TEXT)),
        None => session.begin(request, ctx),
    };
    match begun {
        Ok(execution) => {
            let begun = ctx.clock.ticks();
            let (execution, ends) = (Box::new(execution), StreamEnds { cut: faults.cut, deadline });
            session.running = Some(RunningCall { stream, method, ready, begun, execution, cache, ends });
        }
        Err(error) => {
            session.forget_request(stream);
            let reply = Reply::error(stream, error);
            let timed = method.ok().map(|method| Timed { method, times: None });
            session.wire.replies.push_back(if let Some(timed) = timed { reply.timed(timed) } else { reply });
            return Ok(true);
        }
    }
    Ok(true)
}

/// Replies to a call that was executed, or begins its subscription.
fn complete(
    mut running: RunningCall,
    (mut messages, grant): (Vec<u8>, Grant),
    guard: &Guard<'_>,
    session: &mut GrpcSession,
    ctx: &mut WorkerContext,
) {
    let stream = running.stream;
    if let Some(request) = running.execution.take_subscription().map(|request| request.within(running.cache.take()))
        && let Err(error) = session.subscribe(stream, request, running.ends, guard, ctx)
    {
        return session.wire.replies.push_back(running.timed(Reply::error(stream, error), ctx));
    }
    let stays_open = running.execution.stays_open();
    let cut = running.ends.cut.filter(|_| !stays_open).filter(|(limit, _)| faults::cut(&mut messages, *limit));
    let reply = Reply::messages(stream, messages, grant, ctx.clock.ticks());
    let reply = if stays_open || cut.is_some() { reply.staying_open() } else { reply };
    session.wire.replies.push_back(running.timed(reply, ctx));
    if let Some((_, status)) = cut {
        session.wire.replies.push_back(Reply::error(stream, CallError::new(status, FAULT_TEXT)));
    }
}
