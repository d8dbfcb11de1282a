//! The first two steps of a batch: gathering sessions with their bytes, and serving these sessions under one guard.

use crate::buffers::{Buffers, Class, Input};
use crate::handover::EarlyInput;
use crate::session::{Pause, Phase, Session, SessionPlace};
use crate::worker::core::{BATCH_LONG_MAX, BATCH_OPS_MAX, BATCH_SESSIONS_MAX, VISIT_BYTES};
use crate::worker::core::{Core, WaitQueue};
use crate::worker::hold;
use crate::worker::in_place;
use crate::worker::output;
use arrayvec::ArrayVec;
use command::context::WorkerContext;
use command::session::{PrefetchedHead, SessionState};
use command::visit::progress::{Progress, SessionWait};
use command::{grpc, memcache, resp};
use io::{Backend, Received};
use segment::Guard;

/// The maximum number of sessions that one call of [`gather`] visits.
const VISITS_MAX: usize = 4 * BATCH_SESSIONS_MAX;
/// The number of bytes after which [`gather`] ends. Received bytes, discarded bytes, and bytes sent for blocked
/// sessions count.
const GATHER_BYTES_MAX: u64 = 256 << 10;
/// The number of reply bytes after which a batch serves no further session. This limits the number of bytes that are
/// sent for one batch.
const REPLY_BYTES_MAX: u64 = 256 << 10;
/// The number of bytes of a long value that one visit copies within the store. The copy takes about 50 us.
pub(super) const COPIED_BYTES_MAX: u64 = 256 << 10;

/// The prefetched lookup of each session in a batch.
type Heads<'l> = ArrayVec<Option<PrefetchedHead<'l>>, BATCH_SESSIONS_MAX>;

/// Receives once: from the bytes that were received before the connection moved to this worker, or else from its
/// stream.
#[inline(always)]
pub(super) fn receive<B: Backend>(
    io: &mut B,
    stream: &B::Stream,
    early: &mut Option<Box<EarlyInput>>,
    room: &mut [u8],
) -> Received {
    match early {
        None => io.receive(stream, room),
        Some(_) => receive_early(early, room),
    }
}

#[cold]
fn receive_early(early: &mut Option<Box<EarlyInput>>, room: &mut [u8]) -> Received {
    let bytes = early.as_mut().map_or(0, |early| early.take(room));
    if early.as_ref().is_some_and(|early| early.rest().is_empty()) {
        *early = None;
    }
    Received::Bytes(bytes)
}

/// Fills the batch with sessions from the front of a queue. Returns the number of bytes that were received for finished
/// sessions and discarded, but at least [`VISIT_BYTES`] for each visit.
///
/// A session is visited once. A session that becomes ready again meanwhile is served in the next batch. So a call ends
/// after [`VISITS_MAX`] visits, or [`GATHER_BYTES_MAX`] bytes plus one receive, whatever the peers send.
pub(super) fn gather<B: Backend>(core: &mut Core<B>, queue: WaitQueue) -> usize {
    core.served = 0;
    let (mut received, mut discarded, from) = (0, 0, bytes_sent(core));
    let (sessions_max, waiting) = match queue {
        WaitQueue::Ready => (BATCH_SESSIONS_MAX, core.ready.len()),
        WaitQueue::Long => (BATCH_LONG_MAX, core.long.len()),
    };
    for _ in 0..waiting.min(VISITS_MAX) {
        let moved = bytes_sent(core) - from + (received + discarded) as u64;
        if core.batch.len() == sessions_max || moved >= GATHER_BYTES_MAX {
            break;
        }
        let popped = match queue {
            WaitQueue::Ready => core.ready.pop_front(),
            WaitQueue::Long => core.long.pop_front(),
        };
        let Some(index) = popped else { break };
        let session = core.sessions.at(index);
        session.place = SessionPlace::Idle;
        match session.phase {
            Phase::Dead => core.ended_sessions.push_back(index),
            Phase::Open | Phase::Finishing if std::mem::take(&mut session.sending) => {
                output::send_again(core, index);
            }
            Phase::Finishing => {}
            Phase::Lingering => discarded += VISIT_BYTES + output::linger(core, index),
            Phase::Open => received += prepare(core, index),
        }
    }
    discarded
}

/// Returns the number of bytes that this worker has sent.
fn bytes_sent<B: Backend>(core: &Core<B>) -> u64 {
    core.ctx.counters().bytes_written.value()
}

/// Receives for one session, lends the session an output if a complete request may have been received, and adds the
/// session to the batch. Returns the number of received bytes.
fn prepare<B: Backend>(core: &mut Core<B>, index: u32) -> usize {
    let session = core.sessions.at(index);
    if session.blocked && !session.takes_turn() {
        return 0;
    }
    let mut received = 0;
    // A session that executes a request receives nothing more, unless its client may cancel that request.
    let may_receive = !session.servable || session.input.is_none() && session.state.may_be_cancelled();
    if may_receive && session.readable {
        match receive_into(core, index) {
            Some(bytes) => received = bytes,
            None => return 0,
        }
    }
    let session = core.sessions.at(index);
    if session.servable
        && let Err(class) = lend_output(session, &mut core.buffers)
    {
        hold::reclaim_for(core, index, class);
        return received;
    }
    session.place = SessionPlace::Batch;
    core.batch.push(index);
    received
}

/// Receives once into the session's buffer. Returns the number of bytes, or `None` if the session cannot be served now:
/// the session waits for a buffer, or is dead.
fn receive_into<B: Backend>(core: &mut Core<B>, index: u32) -> Option<usize> {
    let session = core.sessions.at(index);
    if session.state.is_arriving() {
        return in_place::receive_in_place(core, index);
    }
    let held = session.input.as_ref().map_or(0, Input::len);
    let need = (session.input_want as usize).max(held + 1);
    let capacity = session.input.as_ref().map_or(0, Input::capacity);
    if need > capacity {
        if need > core.buffers.big_bytes() {
            // No protocol requests more bytes than fit into a big buffer. Otherwise, this connection could never
            // continue.
            core.ctx.counters().protocol_errors.add(1);
            output::kill(core, index);
            return None;
        }
        let block = match core.buffers.take_input(need) {
            Ok(block) => block,
            Err(class) => {
                hold::reclaim_for(core, index, class);
                return None;
            }
        };
        match &mut session.input {
            Some(input) => core.buffers.put_input(input.exchange(block)),
            None => {
                session.input = Some(Input::new(block));
                session.held_ns = core.now_ns;
            }
        }
    }
    let (Some(input), Some(stream)) = (&mut session.input, &session.stream) else {
        return None;
    };
    let room = input.room(need);
    let room_bytes = room.len();
    let is_early = session.early.is_some();
    let mut received = 0;
    match receive(&mut core.io, stream, &mut session.early, room) {
        Received::Bytes(bytes) => {
            received = bytes;
            input.received(bytes);
            session.readable = bytes == room_bytes || session.hangup || is_early;
            session.servable = input.len() >= session.input_want as usize;
            if !session.servable {
                core.holders.note_input(index, input, core.now_ns);
            }
            session.received_ns = core.now_ns;
            core.ctx.counters().bytes_read.add(bytes as u64);
            core.ctx.counters().receives.add(1);
            if session.is_unidentified {
                core.identify(index);
            }
        }
        Received::Blocked => session.readable = false,
        Received::Closed => (session.readable, session.ended) = (false, true),
        Received::Reset => {
            output::kill(core, index);
            return None;
        }
    }
    let session = core.sessions.at(index);
    let input = session.input.as_ref()?;
    if input.len() == 0
        && let Some(input) = session.input.take()
    {
        core.buffers.put_input(input);
    }
    Some(received)
}

/// Serves the batch's sessions. Returns the number of request bytes that were consumed.
pub(super) fn serve<B: Backend>(core: &mut Core<B>, guard: &mut Guard<'_>, queue: WaitQueue) -> usize {
    core.ctx.batch_ops = 0;
    core.ctx.push.watch.watched = core.ctx.shared.watch.watched();
    core.ctx.load_restrictions();
    core.ctx.slow_lines.follow(core.ctx.shared.workers[core.ctx.worker].recorder.slow_above_ns(), &core.ctx.clock);
    core.ctx.op_begun = core.ctx.clock.ticks();
    let mut heads = Heads::new();
    prefetch(core, guard, &mut heads);
    let (mut bytes, mut replies) = (0, 0);
    for number in 0..core.batch.len() {
        if core.ctx.batch_ops >= BATCH_OPS_MAX || replies >= REPLY_BYTES_MAX {
            break;
        }
        // The first session is always visited, so every iteration makes progress.
        if number > 0 && core.ctx.pace.is_over(core.ctx.op_begun) {
            break;
        }
        core.served = number + 1;
        let index = core.batch[number];
        let session = core.sessions.at(index);
        let Some(out) = &mut session.out else { continue };
        if !session.servable {
            continue;
        }
        core.ctx.ready = session.ready_at;
        core.ctx.push.watch.connection = index;
        // A session without input may have to continue a reply, because its output was full at the last visit.
        let input = session.input.as_ref().map_or(&[][..], Input::bytes);
        guard.begin_request();
        guard.serve(session.token.0, COPIED_BYTES_MAX);
        core.ctx.pace.begin_visit(core.ctx.op_begun, index, queue == WaitQueue::Long);
        let mut progress = match &mut session.state {
            SessionState::Memcache(state) => memcache::serve(guard, input, heads[number], out, state, &mut core.ctx),
            SessionState::Resp(state) => resp::serve(guard, input, heads[number], out, state, &mut core.ctx),
            SessionState::Grpc(state) => grpc::serve(guard, input, out, state, &mut core.ctx),
        };
        if let Some(input) = &mut session.input {
            if progress.consumed > 0 {
                input.consume(progress.consumed);
                session.held_ns = core.now_ns;
                bytes += progress.consumed;
            }
            if input.len() > 0 {
                core.holders.note_input(index, input, core.now_ns);
            } else if let Some(input) = session.input.take() {
                core.buffers.put_input(input);
            }
        }
        replies += out.unsent();
        progress.state = close_if_left(&mut core.ctx, session, progress.state);
        let parked = progress.state == SessionWait::Parked;
        if !matches!(progress.state, SessionWait::NeedInput { .. }) {
            // The visit may have ended without completing an operation.
            core.ctx.op_begun = core.ctx.clock.ticks();
        }
        apply(session, progress);
        session.paused = progress.state == SessionWait::Yield || parked && guard.is_paused();
        if parked && session.paused {
            session.pause = Pause::None;
        } else if parked {
            core.ctx.counters().parked.add(1);
            session.pause = guard.tier().awaited().map_or(Pause::Store, Pause::Flash);
        }
        if session.state.is_arriving() {
            in_place::note_receive(core, index);
        }
    }
    core.ctx.counters().ops.add(core.ctx.batch_ops as u64);
    bytes
}

/// Closes a session whose client has left while it waits for the end of a pause (`CLIENT PAUSE`), so that it does not
/// keep its slot until then. Returns the session's new state.
fn close_if_left<S>(ctx: &mut WorkerContext, session: &Session<S>, state: SessionWait) -> SessionWait {
    let has_left = state == SessionWait::Parked && ctx.take_delayed() && session.hangup;
    if has_left { SessionWait::Close } else { state }
}

/// Prefetches the keys of the batch's first requests, stage by stage, so that their memory accesses overlap. Does
/// nothing for a single session, which has no other accesses to overlap with.
fn prefetch<'l, B: Backend>(core: &mut Core<B>, guard: &Guard<'l>, heads: &mut Heads<'l>) {
    if core.batch.len() == 1 {
        return heads.push(None);
    }
    for index in &core.batch {
        let session = core.sessions.at(*index);
        let input = session.input.as_ref().filter(|_| session.servable);
        heads.push(input.and_then(|input| session.state.head(guard, input.bytes())));
    }
    heads.iter_mut().flatten().for_each(|head| head.prefetch_items(guard));
}

/// Executes a delayed flush that is due, before this iteration's operations. Returns false if the background thread is
/// busy and the flush cannot be executed now. Then no operation may be executed until the flush is executed.
pub(super) fn flush_if_due<B: Backend>(core: &mut Core<B>, guard: &mut Guard<'_>) -> bool {
    let now = core.ctx.now;
    while let Some(namespace) = core.ctx.shared.delayed_flush.take(now) {
        if guard.items_mut().flush(namespace).is_err() {
            core.ctx.shared.delayed_flush.put_back(namespace, now);
            return false;
        }
        core.ctx.flushed(Some(namespace));
    }
    true
}

/// Parks the batch's sessions unserved. They are retried in the next iteration, because a delayed flush could not be
/// executed, or key events wait to be published.
pub(super) fn hold<B: Backend>(core: &mut Core<B>) {
    for index in &core.batch {
        let session = core.sessions.at(*index);
        if session.servable {
            session.pause = Pause::Store;
            if let Some(input) = &session.input {
                core.holders.note_input(*index, input, core.now_ns);
            }
            core.ctx.counters().parked.add(1);
        }
    }
}

/// Updates a session with the result of the last call that served it.
fn apply<S>(session: &mut Session<S>, progress: Progress) {
    let left = session.input.as_ref().map_or(0, Input::len);
    (session.input_want, session.out_want, session.pause) = (0, 0, Pause::None);
    match progress.state {
        SessionWait::NeedInput { want } => {
            debug_assert!(want == 0 || want > left, "all the bytes it wants are there");
            session.input_want = want as u32;
            session.servable = false;
        }
        // The output may contain a part of a reply, although no more bytes were received after its request.
        SessionWait::Yield => session.servable = left > 0 || session.state.is_replying(),
        SessionWait::OutputFull { want } => {
            // If the output has nothing to send, the session waits until other sessions release their pins.
            let longer = session.out.as_ref().is_some_and(|out| want > out.capacity() && !out.is_lent());
            let stuck = session.out.as_ref().is_some_and(|out| out.is_empty()) && !longer;
            session.pause = if stuck { Pause::Store } else { Pause::Output };
            session.out_want = want as u32;
            session.servable = true;
        }
        SessionWait::Parked => {
            session.pause = Pause::Store;
            session.servable = true;
        }
        SessionWait::Blocked => {
            session.pause = Pause::Clients;
            session.servable = false;
            // Messages that found no room in the output follow when the output is sent.
            session.mail |= session.state.has_messages();
        }
        SessionWait::Close => {
            session.phase = Phase::Finishing;
            session.servable = false;
        }
    }
}

/// Ensures that a session has an output with room for the next reply. Otherwise returns the class of buffers that is
/// used up.
fn lend_output<S>(session: &mut Session<S>, buffers: &mut Buffers) -> Result<(), Class> {
    if session.out.is_none() {
        session.out = buffers.take_out();
    }
    let Some(out) = &mut session.out else { return Err(Class::Out) };
    if session.out_want as usize > out.capacity() && out.is_empty() && !out.is_lent() {
        out.lend(buffers.take_big_out().ok_or(Class::BigOut)?);
    }
    Ok(())
}
