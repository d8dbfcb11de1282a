//! The thread that writes the memory file to its disk periodically ([`segment::Checkpointer`]).
//!
//! The thread waits for the disk; no other thread waits for it. Each failed write is logged once and counted. The
//! server continues.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use segment::{Checkpointer, Finished};

use crate::shared::Shared;
use command::visit::clock::Clock;

/// The sleep between two checks for work.
const LOOK: Duration = Duration::from_millis(50);
/// The pause before a checkpoint is retried that had no room for the keys of running transactions. The retry is not
/// immediate, because each checkpoint seals the open segments.
const AGAIN: Duration = Duration::from_secs(1);

/// Writes checkpoints until all workers have ended. The first checkpoint starts at once, because nothing is on disk
/// before it.
pub(crate) fn run(shared: &Arc<Shared>, mut checkpointer: Checkpointer, every: Duration, clock: &Clock) {
    let (mut begun, mut wait) = (None, every);
    while !shared.threads.stop.workers_ended() {
        std::thread::sleep(LOOK);
        if checkpointer.begun_at().is_some() {
            if checkpointer.is_sealed() {
                wait = if finish(shared, &mut checkpointer, clock) { every } else { every.min(AGAIN) };
            }
            continue;
        }
        let now = clock.ticks();
        let is_due = begun.is_none_or(|begun| u128::from(clock.ns_between(begun, now)) >= wait.as_nanos());
        // No checkpoint begins while the index is being rebuilt.
        if is_due && checkpointer.begin(clock.unix()) {
            begun = Some(now);
            shared.host.wake_background();
        }
    }
}

/// Completes a checkpoint. Returns false if the checkpoint must be restarted.
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
                "transactions are changing more keys than a checkpoint has room for; it is tried again in a second"
            );
            return false;
        }
        Err(error) => tracing::warn!(
            "cannot write a checkpoint of the memory file: {error}; check the disk; the last checkpoint was made {} s \
             after 1970-01-01: a power loss would lose all newer items, and later checkpoints protect items stored \
             before this error only if clients store them again",
            stats.last.0 / 1000
        ),
    }
    true
}
