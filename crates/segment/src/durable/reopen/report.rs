//! The findings of opening a store in a file.

use base::clock::UnixMillis;

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
    pub rebuilds_index: bool,
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
