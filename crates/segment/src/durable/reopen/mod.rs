//! Repair of a store whose process was killed during its writes. `docs/decisions/0012-restartable-memory.md` lists the
//! changes that can be incomplete, and shows that no others exist.
//!
//! ```text
//!   1  stripes     index groups whose lock (stripe) was held: duplicate slots removed, tokens renewed, locks released
//!   2  growth      the group being split or merged: copied slots are cleared, then the split or merge is completed
//!   3  undo        keys changed under a key lock set that was not released: their old slots are restored
//!   4  segments    open segments and in-place receives: walked, live items counted (by slot), then Sealed
//!                  Draining -> Sealed, Quarantine -> Free; no pins, no in-place receives
//!   5  lists       free, sealed and decommitted segments; segments per namespace; totals
//!   6  tier        slots of items on a missing device are cleared
//! ```
//!
//! Invariants:
//! - One thread repairs the store, before any other thread uses it.
//! - Each step leaves repaired parts unchanged, so an interrupted opening can be repeated.
//! - The time depends on the open segments and the number of segments, not on the stored bytes.
//!
//! If the index is not in the file, only the segments are repaired: [`scattered`]. After a power loss, only the
//! segments of the last checkpoint are repaired: [`lost`].

mod index;
mod lost;
pub(crate) mod report;
pub(crate) mod scattered;
mod segments;
mod undo;

use std::sync::atomic::Ordering::Relaxed;

use base::clock::UnixMillis;

use crate::core::store::Store;
use crate::durable::file::FileFault;
use crate::durable::reopen::index::{repair_growth, repair_stripes, take_tier};
use crate::durable::reopen::lost::look_at_all_once;
use crate::durable::reopen::segments::{check_headers, recount, repair_segments};
use crate::durable::reopen::undo::{forget_undone, undo_open};
pub use report::Reopened;

/// The greatest lead of the store's clock over the wall clock, ten years in ms, that is still applied at the next
/// start. After a greater lead, the last process began with a wrong wall clock, such as that of a machine without a
/// battery.
const LEAD_MAX_MS: u64 = 10 * 365 * 24 * 3_600_000;
/// The end of the recorded clocks that are believed, the year 3000 in ms since 1970. A later one is damaged.
const CLOCK_END: UnixMillis = UnixMillis(32_503_680_000_000);

/// Returns the time at which the store's clock resumes, and by how many ms the wall clock `wall` is behind. Times to
/// live continue to run while no process uses the file, and never run backwards, whatever the wall clock is.
pub(crate) fn resume_clock(store: &Store, wall: UnixMillis) -> (UnixMillis, u64) {
    let ahead_ms = store.persistent.wall_ahead_ms.load(Relaxed) as i64;
    // A wall clock that was ahead of the store's, by whatever difference, cannot end items early: the clock does not
    // resume before its last time.
    let is_applied = ahead_ms >= 0 || ahead_ms.unsigned_abs() <= LEAD_MAX_MS;
    let resumed = UnixMillis(wall.0.saturating_add_signed(if is_applied { -ahead_ms } else { 0 }));
    let last = UnixMillis(store.persistent.clock_ms.load(Relaxed));
    if last >= CLOCK_END {
        return (wall, 0);
    }
    (resumed.max(last), last.ms_since(resumed))
}

/// Records for the next process by how many ms the wall clock is ahead of the store's.
pub(crate) fn persist_wall_lead(store: &Store, ahead_ms: i64) {
    store.persistent.wall_ahead_ms.store(ahead_ms as u64, Relaxed);
}

/// Repairs the state in the file.
pub(crate) fn reopen(store: &Store) -> Result<Reopened, FileFault> {
    let mut report = Reopened { found: true, ..Reopened::default() };
    // The headers are checked before any step follows a slot into a segment.
    check_headers(store)?;
    repair_stripes(store, &mut report);
    repair_growth(store, &mut report);
    undo_open(store, &mut report);
    look_at_all_once(store);
    repair_segments(store, &mut report)?;
    forget_undone(store);
    store.segments.relist();
    recount(store, &mut report);
    take_tier(store, &mut report);
    Ok(report)
}
