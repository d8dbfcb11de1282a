//! The thread that does the store's background work: eviction, expiry, compaction, growth, in slices.

use crate::clock::Clock;
use crate::shared::Shared;
use segment::{Background, SliceKind};
use std::sync::Arc;
use std::time::Duration;

/// How long it sleeps when nothing is waiting and no worker wakes it.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// CPU time of one slice, after which it ends at its next item.
const SLICE_NS: u64 = 200_000;

/// Slices until the workers are gone. `shared` must be able to unpark the calling thread.
pub(crate) fn run(shared: &Arc<Shared>, mut background: Background, clock: &Clock) {
    while !shared.stop.workers_gone() {
        let begun = clock.ticks();
        let mut over = || clock.ns_between(begun, clock.ticks()) >= SLICE_NS;
        let report = background.slice(clock.unix(), &mut over);
        if report.kind != SliceKind::Idle {
            shared.background.slice(clock.ns_between(begun, clock.ticks()));
        }
        if report.more {
            // A worker may share this CPU, and it goes first.
            std::thread::yield_now();
        } else {
            std::thread::park_timeout(SLEEP_MAX);
        }
    }
}
