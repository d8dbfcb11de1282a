//! The thread that does the store's background work: eviction, expiry, compaction, growth, in slices.

use crate::shared::Shared;
use base::clock::UnixMillis;
use segment::Background;
use std::sync::Arc;
use std::time::Duration;

/// How long it sleeps when nothing is waiting and no worker wakes it.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Slices until the workers are gone. `shared` must be able to unpark the calling thread.
pub(crate) fn run(shared: &Arc<Shared>, mut background: Background) {
    while !shared.stop.workers_gone() {
        let report = background.slice(UnixMillis::now());
        if report.busy_ns > 0 {
            shared.background.slice(report.busy_ns);
        }
        if report.more {
            // A worker may share this CPU, and it goes first.
            std::thread::yield_now();
        } else {
            std::thread::park_timeout(SLEEP_MAX);
        }
    }
}
