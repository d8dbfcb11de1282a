//! Receives values in place in the store, and limits the time that slow senders take.
//!
//! ```text
//!   serve: space reserved ──> receive into it, over iterations ──> complete: serve commits it
//!                                    └ incomplete after a second: moved into a buffer, which receives the rest
//!                                        └ no buffer until the stall timeout: the connection is closed
//! ```

use super::batch::receive;
use crate::buffers::Input;
use crate::session::Phase;
use crate::worker::core::Core;
use crate::worker::hold;
use crate::worker::output;
use command::context::IN_PLACE_RECEIVES_MAX;
use io::{Backend, Received};
use segment::Guard;
use std::sync::atomic::Ordering::Relaxed;

/// The time limit to receive a value, or a piece of a large value, in place.
const RECEIVE_NS_MAX: u64 = 1_000_000_000;
/// The interval at which in-place receives are checked against [`RECEIVE_NS_MAX`].
const CHECK_NS: u64 = 25_000_000;

/// Adds a session with an in-place receive to the list.
pub(super) fn note_receive<B: Backend>(core: &mut Core<B>, index: u32) {
    if core.arrivals.sessions.contains(&index) {
        return;
    }
    if core.arrivals.sessions.len() == IN_PLACE_RECEIVES_MAX {
        // The number of in-place receives never exceeds this maximum, so some listed receives have ended.
        let sessions = &core.sessions;
        let arrives = |index: &u32| sessions.peek(*index as usize).is_some_and(|session| session.state.is_arriving());
        core.arrivals.sessions.retain(arrives);
    }
    core.arrivals.sessions.push(index);
}

/// Receives once into the value's place in the store. Returns the number of received bytes, or `None` if the session is
/// dead.
pub(super) fn receive_in_place<B: Backend>(core: &mut Core<B>, index: u32) -> Option<usize> {
    let session = core.sessions.at(index);
    let room = session.state.in_place_room(&core.ctx.shared.store);
    let (Some(room), Some(stream)) = (room, &session.stream) else { return None };
    let room_bytes = room.len();
    let is_early = session.early.is_some();
    let mut received = 0;
    match receive(&mut core.io, stream, &mut session.early, room) {
        Received::Bytes(bytes) => {
            received = bytes;
            session.state.arrived(bytes);
            session.readable = bytes == room_bytes || session.hangup || is_early;
            session.servable = bytes == room_bytes;
            session.received_ns = core.now_ns;
            core.arrivals.bytes += bytes;
            core.ctx.counters().bytes_read.add(bytes as u64);
            core.ctx.counters().receives.add(1);
        }
        Received::Blocked => session.readable = false,
        Received::Closed => (session.readable, session.ended) = (false, true),
        Received::Reset => {
            output::kill(core, index);
            return None;
        }
    }
    Some(received)
}

/// Returns true if it is time to check for in-place receives that take too long.
pub(super) fn receives_due<B: Backend>(core: &Core<B>) -> bool {
    !core.arrivals.sessions.is_empty() && core.now_ns - core.arrivals.checked_ns >= CHECK_NS
}

/// Moves values of slow senders into buffers, so that unfinished values do not prevent the reuse of segments.
pub(super) fn end_slow_receives<B: Backend>(core: &mut Core<B>, guard: &mut Guard<'_>) {
    core.arrivals.checked_ns = core.now_ns;
    let stall_ns = core.ctx.shared.live.stall_timeout_ms.load(Relaxed).saturating_mul(1_000_000);
    let mut at = 0;
    while let Some(index) = core.arrivals.sessions.get(at).copied() {
        let session = core.sessions.peek(index as usize).filter(|session| session.phase != Phase::Dead);
        if !session.is_some_and(|session| session.state.is_arriving()) {
            core.arrivals.sessions.swap_remove(at);
            continue;
        }
        let since = session.and_then(|session| session.state.arriving_since());
        let age_ns = since.map_or(0, |since| core.ctx.clock.ns_between(since, core.iteration_ticks));
        if age_ns < RECEIVE_NS_MAX {
            at += 1;
        } else if move_to_buffer(core, guard, index) {
            core.arrivals.sessions.swap_remove(at);
        } else if age_ns >= stall_ns {
            core.ctx.counters().slow_senders_dropped.add(1);
            output::kill(core, index);
        } else {
            at += 1;
        }
    }
}

/// Moves one value into a buffer. Returns false if no buffer is free.
fn move_to_buffer<B: Backend>(core: &mut Core<B>, guard: &mut Guard<'_>, index: u32) -> bool {
    let session = core.sessions.at(index);
    debug_assert!(session.input.is_none(), "what arrives goes to one place");
    let want = session.state.in_place_bytes();
    let block = loop {
        match core.buffers.take_input(want) {
            Ok(block) => break block,
            Err(class) if hold::reclaim(core, class, index) => {}
            Err(_) => return false,
        }
    };
    let session = core.sessions.at(index);
    let mut input = Input::new(block);
    let bytes = session.state.move_to_buffer(guard, &mut core.ctx, input.room(want));
    if bytes > 0 {
        input.received(bytes);
        core.holders.note_input(index, &input, core.now_ns);
        session.input = Some(input);
        session.held_ns = core.now_ns;
    } else {
        core.buffers.put_input(input);
    }
    session.input_want = want as u32;
    core.ctx.counters().moved_out.add(1);
    true
}
