//! The findings of opening a store in a file.

use base::clock::UnixMillis;

/// The findings of opening a store in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reopened {
    /// True if the file existed. Otherwise it was created.
    pub found: bool,
    /// True if the file was closed cleanly, and not left by a killed process.
    pub clean: bool,
    /// The number of times that the file was opened since its creation, including this time.
    pub opened: u64,
    /// True if the index is not in the file, and is rebuilt from now on.
    pub rebuilds_index: bool,
    /// True if the machine lost power: only the contents of the last checkpoint are used.
    pub lost: bool,
    /// True if the machine lost power before the first checkpoint: the contents were discarded, and the file was
    /// created again.
    pub lost_all: bool,
    /// True if the machine was restarted since the file was in use, and no checkpoints were made. The file is used as
    /// it is, although parts of it may be out of date.
    pub unsynced: bool,
    /// If `lost`: the instant at which the last checkpoint was begun, in ms since 1970.
    pub checkpoint_ms: u64,
    /// If `lost`: the number of segments of the last checkpoint that were emptied or reused after it.
    pub segments_emptied: u64,
    /// The number of items in memory, as the segment headers count them.
    pub items: u64,
    /// The number of segments that were being written to.
    pub segments_open: u64,
    /// The number of index locks that were held, each by a change in progress.
    pub stripes_held: u64,
    /// The number of duplicate slots.
    pub slots_doubled: u64,
    /// The number of checked slots that named no item because the file was damaged.
    pub slots_dropped: u64,
    /// The number of damaged parts of segments that were being written to, in which neither an item nor its length
    /// could be read.
    pub gaps: u64,
    /// The number of items that were lost in such segments, in these parts or with a damaged key.
    pub items_damaged: u64,
    /// The number of transactions and other atomic changes of several keys that were in progress and were undone.
    pub groups_undone: u64,
    /// The number of items on flash, as the tier counts them.
    pub flash_items: u64,
    /// The number of items on flash that were lost with their device.
    pub flash_lost: u64,
    /// True if there is flash and its contents were discarded because the machine lost power.
    pub flash_emptied: bool,
    /// True if a change of the index's size was in progress. It continues.
    pub index_changing: bool,
    /// The time in ms by which the wall clock is behind the time expected from the previous process's clocks. If it is
    /// behind, the store's clock resumes from its last value.
    pub clock_behind_ms: u64,
    /// The store's clock when the file was opened.
    pub at: UnixMillis,
}
