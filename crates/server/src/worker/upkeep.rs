//! Work outside requests: timeouts, slow readers that hold the store's memory, a stop in progress, and the release of
//! ended connections.

use super::batch::COPIED_BYTES_MAX;
use super::output::LINGER_NS;
use crate::buffers::Input;
use crate::session::{Phase, Session, SessionPlace, Table};
use crate::worker::core::Core;
use crate::worker::flash_waiters;
use crate::worker::handover;
use crate::worker::hold;
use crate::worker::output;
use crate::worker::state::Pinners;
use command::clients::client_info::ClientMemory;
use command::clients::connection_table::ConnectionState;
use command::memcache::report_connection;
use command::push::watch::CloseReason;
use command::session::{
    SessionState, has_lost_user, incomplete_bytes, needs_login, waits_for_window, waits_in_command,
};
use command::visit::clock::Ticks;
use command::visit::out::OutBuffer;
use io::Backend;
use segment::Guard;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The time in which the whole session table is checked once. Each iteration checks a slice of the table.
const SWEEP_NS: u64 = 1_000_000_000;
/// The maximum number of ended connections that one iteration releases. It is also the maximum number of connections
/// that remain unfinished after a step.
pub(super) const RELEASES_PER_ITERATION: usize = 64;
const UNFINISHED_PER_ITERATION: usize = 2;
/// The time for which a reader may hold pinned values while other sessions wait for memory to pin.
const PIN_GRACE_NS: u64 = 1_000_000_000;
/// The time for which a blocked reader's values stay pinned before they are copied, if they fit into a big block.
const COPY_OUT_NS: u64 = 100_000_000;
/// The time for which a reader may read nothing of a retained reply while client memory is short.
const READ_GRACE_NS: u64 = 100_000_000;
/// The time for which a client may send nothing while it holds at least [`INCOMPLETE_BYTES_MIN`] bytes of an incomplete
/// request or transaction and client memory is short.
const INCOMPLETE_GRACE_NS: u64 = 1_000_000_000;
const INCOMPLETE_BYTES_MIN: u64 = 16 << 10;
/// The time for which a client may read none of its replies while the server stops. A client that reads receives bytes
/// within this time even if a packet is lost, so the stop does not wait for its whole time limit.
const STOP_READ_NS: u64 = 2_000_000_000;
/// The shortest time for which a worker that stops completes commands whose connections it has closed.
const COMPLETION_NS_MIN: u64 = 5_000_000_000;
/// The interval at which the worker checks for blocked readers with pins, and for refused pins.
pub(super) const PIN_CHECK: Duration = Duration::from_millis(25);

/// Does the upkeep at the end of an iteration.
pub(super) fn upkeep<B: Backend>(core: &mut Core<B>) {
    if core.shared.threads.drain.is_on() {
        handover::report_arriving(core);
    }
    if core.shared.threads.stop.is_shut() {
        if core.shared.threads.stop.hands_over() { handover::move_out(core) } else { stop(core) }
    }
    if core.holders.is_busy {
        hold::relieve_holders(core);
    }
    let elapsed_ns = core.now_ns - core.swept_ns;
    let due = (core.sessions.used_high() as u64 * elapsed_ns.min(SWEEP_NS) / SWEEP_NS) as usize;
    if due > 0 {
        core.swept_ns = core.now_ns;
        sweep(core, due);
    } else if elapsed_ns > SWEEP_NS {
        core.swept_ns = core.now_ns;
    }
    if core.now_ns - core.pins_checked_ns >= PIN_CHECK.as_nanos() as u64 {
        core.pins_checked_ns = core.now_ns;
        relieve_pinners(core);
        if core.ctx.shared.pins.take_wanted() {
            drop_slowest_pinner(core);
        }
        let sessions = &core.sessions;
        core.reply_holders.retain(|index| holds_reply(sessions, *index).is_some());
        core.memory_wanted = 0;
        if core.ctx.shared.budget.is_short() {
            let budget = &core.ctx.shared.budget;
            core.memory_wanted = budget.used().saturating_sub(budget.bytes_max() / 4 * 3).max(1);
            drop_oldest_readers(core);
        }
    }
}

/// Adds a session that has just been blocked with pinned values.
pub(super) fn note_pinner<B: Backend>(core: &mut Core<B>, index: u32) {
    let Pinners { sessions, since_ns } = &mut core.pin_holders;
    if std::mem::replace(&mut since_ns[index as usize], core.now_ns.max(1)) == 0 {
        sessions.push(index);
    }
}

/// Copies the pinned values of slow readers into big blocks, if the values fit and a block is free. Other values stay
/// pinned until the reader reads them, another session waits for a pin, or the stall timeout is over.
fn relieve_pinners<B: Backend>(core: &mut Core<B>) {
    let mut at = 0;
    while let Some(index) = core.pin_holders.sessions.get(at).copied() {
        let pinned_ns = core.now_ns.saturating_sub(core.pin_holders.since_ns[index as usize]);
        if !pins(&core.sessions, index) || (pinned_ns >= COPY_OUT_NS && copy_out(core, index)) {
            core.pin_holders.sessions.swap_remove(at);
            core.pin_holders.since_ns[index as usize] = 0;
        } else {
            at += 1;
        }
    }
}

/// Copies one session's pinned values. Returns false if they are too long, or if no block is free.
fn copy_out<B: Backend>(core: &mut Core<B>, index: u32) -> bool {
    let Some(out) = &mut core.sessions.at(index).out else { return true };
    if out.unsent() > core.buffers.big_bytes() as u64 {
        return false;
    }
    let Some(block) = core.buffers.take_spare_big_out() else { return false };
    if let Some(block) = out.copy_out(&core.ctx.shared.store, block, |pinned| core.ctx.unpin(pinned)) {
        core.buffers.put_big_out(block);
    }
    core.ctx.counters().copied_out.add(1);
    true
}

/// Returns `memory` with the memory of the session's buffers.
fn memory_of<S>(session: &Session<S>, memory: ClientMemory) -> ClientMemory {
    let (input, out) = (session.input.as_ref(), session.out.as_deref());
    let query_bytes = input.map_or(0, Input::len);
    ClientMemory {
        query_bytes,
        query_free_bytes: input.map_or(0, Input::capacity) - query_bytes,
        reply_bytes: out.map_or(0, OutBuffer::unsent),
        reply_capacity: out.map_or(0, OutBuffer::capacity),
        is_sending: session.blocked && !session.rests(),
        ..memory
    }
}

/// Updates the client info of the session at the sweep's position, and the peaks of buffers.
fn note_client<B: Backend>(core: &mut Core<B>) {
    if core.sweep_at == 0 {
        core.buffer_peaks.end_pass(core.ctx.counters());
    }
    let Some(session) = core.sessions.peek(core.sweep_at) else { return };
    let Some((command, memory)) = session.state.activity() else { return };
    let memory = memory_of(session, memory);
    core.buffer_peaks.note(&memory);
    core.ctx.connection_table().client_info(core.sweep_at as u32, |client_info| {
        (client_info.command, client_info.memory) = (command, memory);
    });
}

/// Checks the next `count` slots of the table for timeouts.
fn sweep<B: Backend>(core: &mut Core<B>, count: usize) {
    let live = &core.ctx.shared.live;
    let idle_ns = live.idle_timeout_ms.load(Relaxed).saturating_mul(1_000_000);
    let stall_ns = live.stall_timeout_ms.load(Relaxed).saturating_mul(1_000_000);
    let login_ns = live.login_timeout_ms.load(Relaxed).saturating_mul(1_000_000);
    let checks_users = core.ctx.shared.users.changes() > 0 || core.ctx.shared.requires_authentication();
    let stop_began_ns = stop_began_ns(core);
    let wanted = core.waiting.iter().any(|list| !list.is_empty());
    for _ in 0..count {
        core.sweep_at = (core.sweep_at + 1) % core.sessions.used_high();
        note_client(core);
        let Some(session) = core.sessions.peek(core.sweep_at) else {
            continue;
        };
        let unmoved_ns = core.now_ns.saturating_sub(session.moved_ns);
        let silent_ns = core.now_ns.saturating_sub(session.received_ns);
        let held_ns = core.now_ns.saturating_sub(session.held_ns);
        let received_secs = core.ctx.now.secs().saturating_sub(silent_ns / 1_000_000_000);
        core.ctx.connection_table().update(core.sweep_at as u32, received_secs, waits_for(session));
        let is_late = login_ns > 0 && session.age_ns(core.now_ns) >= login_ns && session.phase == Phase::Open;
        let is_late = is_late && session.place == SessionPlace::Idle;
        if is_late && needs_login(&session.state, &core.ctx.shared) {
            core.ctx.counters().login_timeouts.add(1);
            let line = session.state.protocol().login_timeout();
            output::refuse(core, core.sweep_at as u32, line);
            continue;
        }
        if checks_users && session.phase == Phase::Open && has_lost_user(&session.state, &core.ctx.shared) {
            output::kill(core, core.sweep_at as u32);
            continue;
        }
        let counters = core.ctx.counters();
        let end = match session.phase {
            Phase::Dead => None,
            // A watcher may be silent for any time, as long as its peer is connected.
            Phase::Open if session.state.watches() && !session.hangup && !is_slow_waiter(session) => None,
            // The client waits until other clients have been served.
            Phase::Open if session.rests() && !is_slow_waiter(session) => None,
            Phase::Lingering => (unmoved_ns >= LINGER_NS).then_some((None, CloseReason::Normal)),
            _ if stop_began_ns.is_some_and(|began_ns| holds_up_stop(session, began_ns, core.now_ns)) => {
                Some((Some(&counters.slow_readers_dropped), CloseReason::Error))
            }
            _ if session.blocked => {
                (unmoved_ns >= stall_ns).then_some((Some(&counters.slow_readers_dropped), CloseReason::Error))
            }
            _ if session.place != SessionPlace::Idle => None,
            _ if wanted && session.input.as_ref().is_some_and(Input::is_lent) && held_ns >= stall_ns => {
                Some((Some(&counters.slow_senders_dropped), CloseReason::Error))
            }
            _ if session.state.listens() => None,
            _ if core.memory_wanted > 0 && holds_incomplete(session, silent_ns) => {
                core.memory_wanted = core.memory_wanted.saturating_sub(incomplete_bytes(&session.state));
                Some((Some(&counters.client_memory_dropped), CloseReason::Error))
            }
            _ => {
                let is_idle = idle_ns > 0 && silent_ns >= idle_ns;
                is_idle.then_some((Some(&counters.idle_closed), CloseReason::IdleTimeout))
            }
        };
        if let Some((counter, reason)) = end {
            if let Some(counter) = counter {
                counter.add(1);
            }
            core.sessions.at(core.sweep_at as u32).close_reason = reason;
            output::kill(core, core.sweep_at as u32);
        }
    }
}

/// Returns true if a client in a blocking command reads nothing of its output. It is a slow reader, as any other.
fn is_slow_waiter<S>(session: &Session<S>) -> bool {
    session.blocked && session.out.is_some() && waits_in_command(&session.state)
}

/// Returns true if a client has sent nothing for a while, and holds much client memory with an incomplete request or
/// transaction.
fn holds_incomplete<S>(session: &Session<S>, silent_ns: u64) -> bool {
    silent_ns >= INCOMPLETE_GRACE_NS && incomplete_bytes(&session.state) >= INCOMPLETE_BYTES_MIN
}

/// Returns what a connection waits for.
fn waits_for<S>(session: &Session<S>) -> ConnectionState {
    match session.state.watches() {
        true => ConnectionState::Events,
        // The input ends within a value, which is received into the input or into its place.
        false if session.input_want > 0 || session.state.is_receiving() => ConnectionState::Value,
        false => ConnectionState::Request,
    }
}

/// Closes the slowest of this worker's readers that have read nothing for a while. Called when a value could not be
/// pinned.
fn drop_slowest_pinner<B: Backend>(core: &mut Core<B>) {
    let slowest = (core.pin_holders.sessions.iter())
        .filter(|index| pins(&core.sessions, **index))
        .filter_map(|index| core.sessions.peek(*index as usize).map(|session| (*index, session.moved_ns)))
        .filter(|(_, moved_ns)| core.now_ns.saturating_sub(*moved_ns) >= PIN_GRACE_NS)
        .min_by_key(|(_, moved_ns)| *moved_ns);
    if let Some((index, _)) = slowest {
        core.ctx.counters().slow_readers_dropped.add(1);
        output::kill(core, index);
    }
}

/// Adds a session that has just been blocked with a reply that is retained outside the store.
pub(super) fn note_reply_holder<B: Backend>(core: &mut Core<B>, index: u32) {
    if core.reply_holders.contains(&index) {
        return;
    }
    if core.reply_holders.len() == core.reply_holders.capacity() {
        // Sessions that retain no reply any more are removed first. Each session is in the list once, so the number of
        // sessions limits its length.
        let sessions = &core.sessions;
        core.reply_holders.retain(|index| holds_reply(sessions, *index).is_some());
    }
    core.reply_holders.push(index);
}

/// Closes readers that read nothing of their retained replies, beginning with the oldest replies, until client memory
/// is no longer short.
fn drop_oldest_readers<B: Backend>(core: &mut Core<B>) {
    while core.memory_wanted > 0 {
        let oldest = (core.reply_holders.iter().enumerate())
            .filter(|(_, index)| is_slow(core, **index))
            .filter_map(|(place, index)| Some((place, *index, holds_reply(&core.sessions, *index)?)))
            .min_by_key(|(_, _, (since, _))| *since);
        let Some((place, index, (_, bytes))) = oldest else { return };
        core.reply_holders.swap_remove(place);
        core.ctx.counters().client_memory_dropped.add(1);
        output::kill(core, index);
        core.memory_wanted = core.memory_wanted.saturating_sub(bytes);
    }
}

/// Advances a stop: closes watchers at once, other connections between two requests, and all remaining connections when
/// the time limit is reached. The limit of their commands is that of [`abandons_commands`].
fn stop<B: Backend>(core: &mut Core<B>) {
    match core.stop_deadline_ns {
        None => {
            core.stop_deadline_ns = Some(core.now_ns + core.shared.config.stop_timeout.as_nanos() as u64);
            for index in 0..core.sessions.used_high() {
                let Some(session) = core.sessions.peek(index) else { continue };
                if session.phase == Phase::Open && session.state.watches() {
                    output::kill(core, index as u32);
                } else if session.phase == Phase::Open {
                    // One more receive detects whether another request has arrived.
                    let session = core.sessions.at(index as u32);
                    session.readable = true;
                    command::session::leave(&mut session.state);
                    core.make_ready(index as u32);
                }
            }
        }
        Some(deadline) if core.now_ns >= deadline => {
            say_farewell(core);
            kill_all(core);
        }
        Some(_) => {}
    }
}

/// Returns true if a stop that began at `began_ns` waits for a client that reads nothing.
fn holds_up_stop<S>(session: &Session<S>, began_ns: u64, now_ns: u64) -> bool {
    let is_unread = session.blocked || waits_for_window(&session.state);
    is_unread && now_ns.saturating_sub(began_ns.max(session.moved_ns)) >= STOP_READ_NS
}

/// Returns the instant at which a stop in progress began, in ns since the worker started. Returns `None` during a
/// handover, which moves connections instead of waiting for their clients.
fn stop_began_ns<B: Backend>(core: &Core<B>) -> Option<u64> {
    let deadline_ns = core.stop_deadline_ns.filter(|_| !core.shared.threads.stop.hands_over())?;
    Some(deadline_ns.saturating_sub(core.shared.config.stop_timeout.as_nanos() as u64))
}

/// Returns true if a stop waits no longer for commands in execution. Their connections were closed at the stop's
/// deadline, and since then the commands have had as much time again, at least [`COMPLETION_NS_MIN`]. A command may
/// wait for ever, for example for memory that is not freed.
pub(super) fn abandons_commands<B: Backend>(core: &Core<B>) -> bool {
    let completion_ns = (core.shared.config.stop_timeout.as_nanos() as u64).max(COMPLETION_NS_MIN);
    let is_over = |deadline_ns: u64| core.now_ns >= deadline_ns.saturating_add(completion_ns);
    core.stop_deadline_ns.is_some_and(is_over) && !core.shared.threads.stop.hands_over()
}

/// Sends the last bytes of their protocols to all clients that have received their replies as far as they are complete.
fn say_farewell<B: Backend>(core: &mut Core<B>) {
    for index in 0..core.sessions.used_high() {
        let may_send = |session: &Session<B::Stream>| session.phase == Phase::Open && session.out.is_none();
        if core.sessions.peek(index).is_some_and(may_send) {
            output::farewell(core, index as u32);
        }
    }
}

/// Closes every connection and discards its unsent bytes.
pub(super) fn kill_all<B: Backend>(core: &mut Core<B>) {
    for index in 0..core.sessions.used_high() {
        if core.sessions.peek(index).is_some_and(|s| s.phase != Phase::Dead) {
            output::kill(core, index as u32);
        }
    }
    // Sessions that wait for flash are resumed, because their reads may take long.
    flash_waiters::resume_waiting(core, usize::MAX, |_| true);
}

/// Releases the store resources of ended connections: up to [`RELEASES_PER_ITERATION`] connections, and fewer if they
/// held much. An unfinished connection is retried in the next iteration, after the others.
pub(super) fn release<B: Backend>(core: &mut Core<B>, guard: &mut Guard<'_>) {
    let mut unfinished = 0;
    for number in 0..core.ended_sessions.len().min(RELEASES_PER_ITERATION) {
        if number > 0 && core.is_over() {
            break;
        }
        let Some(index) = core.ended_sessions.pop_front() else { break };
        let session = core.sessions.at(index);
        guard.serve(session.token.0, COPIED_BYTES_MAX);
        core.ctx.push.watch.connection = index;
        if !session.state.release(guard, &mut core.ctx) {
            core.ended_sessions.push_back(index);
            unfinished += 1;
            if unfinished == UNFINISHED_PER_ITERATION {
                break;
            }
            continue;
        }
        let reason = session.close_reason;
        let state = core.sessions.remove(index);
        if matches!(state, SessionState::Memcache(_)) {
            report_connection(&mut core.ctx, index, Some(reason));
        }
        core.ctx.shared.namespaces.leave(state.namespace());
        core.ctx.connection_table().close(index);
        core.ctx.counters().connections_closed.add(1);
    }
}

/// Returns the instant since which a session's reply is retained outside the store, and the reply's size in bytes. The
/// reply waits for the socket, or for the windows of a gRPC client.
fn holds_reply<S>(sessions: &Table<S>, index: u32) -> Option<(Ticks, u64)> {
    let session = sessions.peek(index as usize).filter(|session| session.phase != Phase::Dead)?;
    let waits = session.blocked || waits_for_window(&session.state);
    if waits { session.state.reply_held() } else { None }
}

/// Returns true if a session's client reads nothing of its output, or opens no window for its oldest reply.
fn is_slow<B: Backend>(core: &Core<B>, index: u32) -> bool {
    let Some(session) = core.sessions.peek(index as usize) else { return false };
    let still_ns = match session.state.reply_held() {
        Some((since, _)) if waits_for_window(&session.state) => {
            core.ctx.clock.ns_between(since, core.ctx.clock.ticks())
        }
        _ => core.now_ns.saturating_sub(session.moved_ns),
    };
    still_ns >= READ_GRACE_NS
}

/// Returns true if a session is blocked and holds pinned values.
fn pins<S>(sessions: &Table<S>, index: u32) -> bool {
    let session = sessions.peek(index as usize);
    session.is_some_and(|s| s.blocked && s.out.as_ref().is_some_and(|out| out.pinned_bytes() > 0))
}
