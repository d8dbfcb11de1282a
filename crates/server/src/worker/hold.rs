//! Frees buffers that sessions hold without using them. Their bytes are set aside; if that fails, some sessions are
//! closed.
//!
//! ```text
//!   an incomplete request remains ─────> inputs ──after LENT_NS_MAX, or if a session waits──> set aside ──> aside
//!   the peer reads no more output ─────> outputs ────────────────────if a session waits──────> set aside ──> aside
//!   the limit of set-aside bytes is reached ──> the first session of `aside` is closed
//! ```
//!
//! [`crate::buffers`] defines the rules. Each list contains a session at most once, so no list is longer than the
//! table. A session that no longer belongs in a list is removed from it when its entry is reached.

use crate::buffers::{CLASSES, Class, Input, LENT_NS_MAX, READER_GRACE_NS};
use crate::session::{Phase, Session, SessionPlace};
use crate::worker::core::Core;
use crate::worker::output;
use crate::worker::state::RETRY_NS;
use command::clients::endpoint::Protocol;
use command::visit::out::OutBuffer;
use io::Backend;
use std::collections::VecDeque;

/// The maximum number of sessions that one iteration sets aside because they held a buffer for too long, and of list
/// entries that one search checks.
const CHECKS_MAX: usize = 32;
/// The number of bytes that one iteration copies to set aside sessions that held a buffer for too long.
const BYTES_PER_ITERATION: usize = 256 << 10;
/// The maximum number of sessions that are closed to free memory for one other session.
const CLOSED_MAX: usize = 8;

/// Frees buffers that sessions have held for too long, and buffers that other sessions wait for: sets them aside, that
/// is, copies their bytes to allocations that the sessions own. Updates the gauges of waiting sessions.
#[cold]
#[inline(never)]
pub(super) fn relieve_holders<B: Backend>(core: &mut Core<B>) {
    if core.now_ns.saturating_sub(core.holders.full_ns) >= RETRY_NS {
        core.holders.full_ns = 0;
    }
    for class in [Class::Small, Class::Big] {
        relieve_inputs(core, class);
    }
    for class in CLASSES {
        let waiting = core.waiting[class.slot()].len().min(CHECKS_MAX);
        while core.buffers.free(class) < waiting && reclaim(core, class, u32::MAX) {}
    }
    publish_waits(core);
}

/// Frees the receive buffers of one class that sessions have held for too long, while memory is available. The received
/// bytes are copied to allocations that the sessions own.
fn relieve_inputs<B: Backend>(core: &mut Core<B>, class: Class) {
    let mut copied = 0;
    for _ in 0..CHECKS_MAX {
        let list = &mut core.holders.inputs[class.slot()];
        let Some(&(index, since_ns)) = list.queue.front() else { return };
        // A session whose request is complete leaves at once: each iteration examines the list until it is empty.
        let Some((session, input)) = holder(core.sessions.peek(index as usize)) else {
            list.pop();
            continue;
        };
        let is_due = core.now_ns.saturating_sub(since_ns) >= LENT_NS_MAX;
        if !is_due || copied >= BYTES_PER_ITERATION || core.holders.full_ns > 0 {
            return;
        }
        list.pop();
        let active_ns = session.received_ns.max(session.held_ns);
        let len = input.len();
        if session.place == SessionPlace::Ready {
            core.holders.note_input(index, input, core.now_ns);
        } else if core.now_ns.saturating_sub(active_ns) < LENT_NS_MAX {
            core.holders.note_input(index, input, active_ns);
        } else if set_input_aside(core, index) {
            copied += len;
        } else {
            // The session keeps its position and its buffer until another session waits for a buffer.
            core.holders.inputs[class.slot()].put_back(index, since_ns);
            core.holders.full_ns = core.now_ns;
        }
    }
}

/// Publishes the number of sessions that wait for a buffer, and how long the first of them has waited.
fn publish_waits<B: Backend>(core: &mut Core<B>) {
    let waiting = core.waiting.iter().map(VecDeque::len).sum::<usize>();
    let since = |list: &VecDeque<u32>| core.sessions.peek(*list.front()? as usize).map(|one| one.waits_ns);
    let oldest_ns = core.waiting.iter().filter_map(since).min();
    let counters = core.ctx.counters();
    counters.buffer_waiters.set(waiting as u64);
    counters.buffer_wait_oldest_ns.set(oldest_ns.map_or(0, |since_ns| core.now_ns.saturating_sub(since_ns)));
    // Outputs are set aside only for sessions that wait.
    core.holders.is_busy = waiting > 0 || core.holders.inputs.iter().any(|list| !list.queue.is_empty());
}

/// Frees a buffer of `class` for a session that found no free buffer. The session is then served next, or queued for a
/// buffer.
#[cold]
#[inline(never)]
pub(super) fn reclaim_for<B: Backend>(core: &mut Core<B>, index: u32, class: Class) {
    if reclaim(core, class, index) {
        core.sessions.at(index).place = SessionPlace::Ready;
        core.ready.push_front(index);
    } else {
        output::wait_for(core, index, class);
    }
}

/// Frees one buffer of `class` for session `asking`: sets aside the bytes of another session that holds such a buffer
/// without being served. Returns false if no such session exists.
#[cold]
#[inline(never)]
pub(super) fn reclaim<B: Backend>(core: &mut Core<B>, class: Class, asking: u32) -> bool {
    match class {
        Class::Small | Class::Big => reclaim_input(core, class, asking),
        Class::Out | Class::BigOut => reclaim_output(core, class, asking),
    }
}

fn reclaim_input<B: Backend>(core: &mut Core<B>, class: Class, asking: u32) -> bool {
    for _ in 0..core.holders.inputs[class.slot()].queue.len().min(CHECKS_MAX) {
        let Some((index, _)) = core.holders.inputs[class.slot()].pop() else { break };
        let Some((session, input)) = holder(core.sessions.peek(index as usize)) else { continue };
        let is_served = matches!(session.place, SessionPlace::Ready | SessionPlace::Batch);
        if is_served || index == asking || input.class() != Some(class) {
            core.holders.note_input(index, input, core.now_ns);
            continue;
        }
        if !with_room(core, [index, asking], 0, set_input_aside) {
            close_holder(core, index);
        }
        return true;
    }
    false
}

fn reclaim_output<B: Backend>(core: &mut Core<B>, class: Class, asking: u32) -> bool {
    let holds = |out: &OutBuffer| if class == Class::BigOut { out.is_lent() } else { out.reserved() == 0 };
    let grace_ns = if class == Class::BigOut { READER_GRACE_NS } else { 0 };
    for _ in 0..core.holders.outputs.queue.len().min(CHECKS_MAX) {
        let Some((index, since_ns)) = core.holders.outputs.pop() else { break };
        let Some(session) = core.sessions.peek_mut(index) else { continue };
        let Some(out) = session.out.as_ref().filter(|_| session.blocked && session.phase != Phase::Dead) else {
            continue;
        };
        let (here, any) = (holds(out), out.holds_lent());
        if !here || index == asking || session.place == SessionPlace::Batch {
            if any {
                core.holders.note_output(index, core.now_ns);
            }
            continue;
        }
        if !with_room(core, [index, asking], grace_ns, set_output_aside) {
            if core.now_ns.saturating_sub(since_ns) < grace_ns {
                core.holders.outputs.put_back(index, since_ns);
                return false;
            }
            close_holder(core, index);
        }
        return true;
    }
    false
}

/// Calls `set_aside` for the first of the two sessions in `but`. Until memory suffices, closes the oldest of the
/// sessions outside `but` that were set aside at least `grace_ns` ago.
fn with_room<B: Backend>(
    core: &mut Core<B>,
    but: [u32; 2],
    grace_ns: u64,
    set_aside: impl Fn(&mut Core<B>, u32) -> bool,
) -> bool {
    for _ in 0..CLOSED_MAX {
        if set_aside(core, but[0]) {
            return true;
        }
        if !close_first_aside(core, but, grace_ns) {
            return false;
        }
    }
    false
}

/// Sets the input of one session aside. Returns false if the limit of bytes set aside is reached.
fn set_input_aside<B: Backend>(core: &mut Core<B>, index: u32) -> bool {
    let session = core.sessions.at(index);
    let (want, receives) = (session.input_want as usize, !session.servable);
    let Some(input) = &mut session.input else { return true };
    let done = core.buffers.set_input_aside(input, want, receives);
    if done {
        note_aside(core, index);
    }
    done
}

/// Sets the output of one session aside. Returns false if the limit of bytes set aside is reached.
fn set_output_aside<B: Backend>(core: &mut Core<B>, index: u32) -> bool {
    let session = core.sessions.at(index);
    let Some(out) = session.out.take() else { return true };
    let (out, done) = match core.buffers.set_output_aside(out) {
        Ok(out) => (out, true),
        Err(out) => (out, false),
    };
    session.out = Some(out);
    if done {
        note_aside(core, index);
    }
    done
}

fn note_aside<B: Backend>(core: &mut Core<B>, index: u32) {
    core.holders.aside.note(index, core.now_ns);
    core.ctx.counters().set_aside.add(1);
}

/// Closes the session that was set aside first, at least `grace_ns` ago, among those that wait only for their peers.
/// Returns false if no such session exists.
fn close_first_aside<B: Backend>(core: &mut Core<B>, but: [u32; 2], grace_ns: u64) -> bool {
    for _ in 0..core.holders.aside.queue.len().min(CHECKS_MAX) {
        let Some((index, since_ns)) = core.holders.aside.pop() else { break };
        let Some(session) = core.sessions.peek(index as usize) else { continue };
        let has_input = session.input.as_ref().is_some_and(|input| !input.is_lent());
        let has_output = session.out.as_ref().is_some_and(|out| out.reserved() > 0);
        if session.phase == Phase::Dead || !(has_input || has_output) {
            continue;
        }
        let is_served = session.servable && !session.blocked || session.place == SessionPlace::Batch;
        // The list entry is from an earlier request, or of an earlier connection in this slot.
        let is_newer = !has_output && session.held_ns > since_ns;
        if is_served || is_newer || but.contains(&index) {
            core.holders.aside.note(index, core.now_ns);
            continue;
        }
        if core.now_ns.saturating_sub(since_ns) < grace_ns {
            core.holders.aside.put_back(index, since_ns);
            return false;
        }
        close_holder(core, index);
        return true;
    }
    false
}

/// Closes a session to free the buffer or the memory that it holds. First sends an error, unless the session has unsent
/// output.
fn close_holder<B: Backend>(core: &mut Core<B>, index: u32) {
    let session = core.sessions.at(index);
    if session.blocked || session.phase != Phase::Open {
        core.ctx.counters().slow_readers_dropped.add(1);
        return output::kill(core, index);
    }
    core.ctx.counters().slow_senders_dropped.add(1);
    let line = error(session.state.protocol());
    output::refuse(core, index, line);
}

/// Returns the session and its input, if the session is alive and the input is in a lent buffer.
fn holder<S>(session: Option<&Session<S>>) -> Option<(&Session<S>, &Input)> {
    let session = session.filter(|session| session.phase != Phase::Dead)?;
    Some((session, session.input.as_ref().filter(|input| input.is_lent())?))
}

/// Returns the error for a client whose incomplete request cannot be retained.
const fn error(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Memcache => b"SERVER_ERROR out of memory reading request\r\n",
        Protocol::Resp => {
            b"-ERR cannot read request: memory for incomplete requests is used up; send requests whole\r\n"
        }
        // The connection ends without a frame, which the client reports as unavailable.
        Protocol::Grpc => b"",
    }
}
