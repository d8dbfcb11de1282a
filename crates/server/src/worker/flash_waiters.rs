//! Sessions whose requests wait for flash. Each resumes only when its read has completed.
//!
//! ```text
//!   parked for a read ──> reads ──its read has completed─────────> ready
//!   parked for room ────> room ──as many reads as can be started──> ready, in the order in which they parked
//! ```
//!
//! - A session is in one of the two lists at most ([`crate::session::SessionPlace::AwaitsFlash`]). So the two lists
//!   together have at most as many entries as there are sessions.
//! - Each awaited read completes, at the latest when the device is abandoned. The handle's bell then rings.
//! - A worker checks for completed reads before it sleeps, because every guard of the iteration may have collected
//!   some.

use crate::worker::core::Core;
use crate::worker::state::FlashWaiting;

use io::Backend;
use segment::ThreadHandle;

/// Begins an iteration: collects completed reads and resumes the sessions that waited for them. Of the sessions that
/// wait for room, resumes as many as reads can be started.
pub(super) fn resume_completed<B: Backend>(core: &mut Core<B>, handle: &mut ThreadHandle) {
    if core.coming.is_empty() {
        return;
    }
    drop(handle.guard(core.ctx.now));
    call_back_read(core, handle);
    // At least one waiting session resumes, because its attempt frees room if no session needs the read values any
    // more.
    resume_waiting(core, handle.reads_free().max(1), |_| false);
}

/// Ends an iteration: resumes the sessions whose reads were collected during the iteration.
pub(super) fn resume_completed_since<B: Backend>(core: &mut Core<B>, handle: &mut ThreadHandle) {
    if !core.coming.is_empty() {
        call_back_read(core, handle);
    }
}

fn call_back_read<B: Backend>(core: &mut Core<B>, handle: &mut ThreadHandle) {
    let mut landed = std::mem::take(&mut core.coming.landed);
    handle.take_completed_reads(&mut landed);
    if !landed.is_empty() {
        resume_waiting(core, 0, |hash| landed.contains(&hash));
    }
    landed.clear();
    core.coming.landed = landed;
}

/// Resumes the sessions for whose key hash `is_there` returns true, and up to `room` of the sessions that wait for
/// room.
pub(super) fn resume_waiting<B: Backend>(core: &mut Core<B>, room: usize, is_there: impl Fn(u64) -> bool) {
    let mut called = std::mem::take(&mut core.coming.called);
    let FlashWaiting { reads, room: waiting, .. } = &mut core.coming;
    called.extend(reads.extract_if(.., |(hash, _)| is_there(*hash)).map(|(_, session)| session));
    called.extend(waiting.drain(..room.min(waiting.len())));
    called.drain(..).for_each(|session| core.call_back(session));
    core.coming.called = called;
}
