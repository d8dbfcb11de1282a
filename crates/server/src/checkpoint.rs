//! The thread that has the memory file written to its disk every so often ([`segment::Checkpointer`]).
//!
//! It waits for the disk, and nobody waits for it. A disk that refuses is told once for each time and counted; the
//! server goes on.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use segment::{Checkpointer, Finished};

use crate::clock::Clock;
use crate::shared::Shared;

/// Sleep between two checks for work.
const LOOK: Duration = Duration::from_millis(50);
/// And between two checkpoints of which the first was crowded: each ends the segments that are open.
const AGAIN: Duration = Duration::from_secs(1);

/// Makes checkpoints until the workers are gone: the first one at once, since nothing is safe before.
pub(crate) fn run(shared: &Arc<Shared>, mut checkpointer: Checkpointer, every: Duration, clock: &Clock) {
    let (mut begun, mut wait) = (None, every);
    while !shared.stop.workers_gone() {
        std::thread::sleep(LOOK);
        if checkpointer.begun_at().is_some() {
            if checkpointer.is_sealed() {
                wait = if finish(shared, &mut checkpointer, clock) { every } else { every.min(AGAIN) };
            }
            continue;
        }
        let now = clock.ticks();
        let is_due = begun.is_none_or(|begun| u128::from(clock.ns_between(begun, now)) >= wait.as_nanos());
        // Not while the index is made anew.
        if is_due && checkpointer.begin(clock.unix()) {
            begun = Some(now);
            shared.wake_background();
        }
    }
}

/// False: it is to be begun again.
fn finish(shared: &Shared, checkpointer: &mut Checkpointer, clock: &Clock) -> bool {
    let begun = clock.ticks();
    let done = checkpointer.finish();
    let ns = clock.ns_between(begun, clock.ticks());
    shared.checkpoint_ns.store(ns, Relaxed);
    let stats = shared.store.checkpoint_stats().unwrap_or_default();
    match done {
        Ok(Finished::Made) if stats.made == 1 => tracing::info!(
            "the first checkpoint is on the disk: {} segments; it took {} ms",
            stats.segments,
            ns / 1_000_000
        ),
        Ok(Finished::Made) => {}
        Ok(Finished::Crowded) => {
            tracing::warn!(
                "more keys are being changed in transactions than a checkpoint has room for; it is tried again in a \
                 second"
            );
            return false;
        }
        Err(error) => tracing::warn!(
            "the memory file's disk did not take a checkpoint ({error}); the last one is of {} s since 1970; look at \
             the disk: what is stored now would be gone with the power, and of what was there before only what is \
             stored anew comes into a later checkpoint",
            stats.last.0 / 1000
        ),
    }
    true
}
