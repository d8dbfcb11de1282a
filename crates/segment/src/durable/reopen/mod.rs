//! Repair of a store whose process was killed in the midst of its writes: see
//! `docs/decisions/0012-restartable-memory.md` for what can be half done, and why nothing else can.
//!
//! ```text
//!   1  stripes     groups of held stripes: one of two equal slots goes; tokens of an older build are renewed; let go
//!   2  growth      the group at the cursor: what was copied is cleared, then its split or merge is run to its end
//!   3  undo        keys that were changed for a claim that was not let go: their slots are what they were
//!   4  segments    open and received into: walked; the slot decides who lives; counted; Sealed
//!                  Draining -> Sealed, Limbo -> Free; no pins, no arrivals
//!   5  lists       free, sealed, withheld; what each namespace has; totals
//!   6  tier        slots of items on a device that is gone are cleared
//! ```
//!
//! Invariants:
//! - One thread does it, before any other thread has the store.
//! - Each step leaves alone what it has made whole, so opening can be cut short and done again.
//! - The time depends on what was open and on the number of segments, not on how much is stored.
//!
//! If the index is not in the file, only the segments are repaired: [`scattered`]. After a loss of power, only those
//! that the last checkpoint has: [`lost`].

mod index;
mod lost;
mod scattered;
mod segments;
mod undo;

use std::sync::atomic::Ordering::Relaxed;

use base::clock::UnixMillis;

use crate::durable::file::FileFault;
use crate::store::Store;

/// The findings of opening a store in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reopened {
    /// The file was there; else it was made.
    pub found: bool,
    /// It was left in order, not by a process that was killed.
    pub clean: bool,
    /// Number of times that the file was opened since it was made, this time included.
    pub opened: u64,
    /// The index is not in the file, and is rebuilt from now on.
    pub index_anew: bool,
    /// The machine lost its power: only what the last checkpoint has is believed.
    pub lost: bool,
    /// The machine lost its power before the first checkpoint: nothing is believed, and the file was created again.
    pub lost_all: bool,
    /// The machine was restarted since the file was in use, and no checkpoints were made. Which of its contents are the
    /// latest is unknown, and it is taken as it is.
    pub unsynced: bool,
    /// Instant at which that checkpoint was made, ms since 1970.
    pub checkpoint_ms: u64,
    /// Segments that it has and that were emptied since.
    pub segments_emptied: u64,
    /// Items that are there, as far as the headers of segments say.
    pub items: u64,
    /// Segments that were being written to.
    pub segments_open: u64,
    /// Changes that were under way in the index.
    pub stripes_held: u64,
    /// Slots that were there twice.
    pub slots_doubled: u64,
    /// Slots that named no item, for the file was damaged, as far as they were looked at.
    pub slots_dropped: u64,
    /// Transactions, and changes of several keys as one, that were under way and are undone.
    pub groups_undone: u64,
    /// Items on flash, as far as was counted.
    pub flash_items: u64,
    /// Items on flash that are gone with their device.
    pub flash_lost: u64,
    /// There is flash, and nothing of what was there is believed, for the machine lost its power.
    pub flash_emptied: bool,
    /// A change of the index's size was under way, and goes on.
    pub index_changing: bool,
    /// By how much the wall clock is behind where it would be by the clocks of the process before, in ms. Its store's
    /// clock goes on then from where it stood.
    pub clock_behind_ms: u64,
    /// The store's clock when the file was opened.
    pub at: UnixMillis,
}

/// A clock that is further behind or ahead than ten years is none that a process has kept: the wall clock counts.
const CLOCK_TRUST_MS: u64 = 10 * 365 * 24 * 3_600_000;

impl Store {
    /// Returns the time at which the store's clock goes on, given the wall clock now, and how far the wall clock is
    /// behind. Times to live run on while no process has the file, and never back.
    pub(crate) fn resume_clock(&self, wall: UnixMillis) -> (UnixMillis, u64) {
        let ahead_ms = self.kept.wall_ahead_ms.load(Relaxed) as i64;
        let ahead_ms = if ahead_ms.unsigned_abs() <= CLOCK_TRUST_MS { ahead_ms } else { 0 };
        let resumed = UnixMillis(wall.0.saturating_add_signed(-ahead_ms));
        let last = UnixMillis(self.kept.clock_ms.load(Relaxed));
        let behind_ms = last.ms_since(resumed);
        if behind_ms <= CLOCK_TRUST_MS { (resumed.max(last), behind_ms) } else { (wall, behind_ms) }
    }

    /// Notes for the next process by how many ms the wall clock is ahead of the store's.
    pub fn keep_wall_ahead(&self, ahead_ms: i64) {
        self.kept.wall_ahead_ms.store(ahead_ms as u64, Relaxed);
    }
}

impl Store {
    /// Makes whole what is there.
    pub(crate) fn reopen(&self) -> Result<Reopened, FileFault> {
        let mut report = Reopened { found: true, ..Reopened::default() };
        // Before anything follows a slot into a segment.
        self.check_headers()?;
        self.repair_stripes(&mut report);
        self.repair_growth(&mut report);
        self.undo_open(&mut report);
        self.look_at_all_once();
        self.repair_segments(&mut report)?;
        self.forget_undone();
        self.segments.list_anew();
        self.count_anew(&mut report);
        self.take_tier(&mut report);
        Ok(report)
    }
}
