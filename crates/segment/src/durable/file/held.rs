//! The memory file of a store, from its opening to its close.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use arena::{Map, MapFile};
use base::clock::UnixMillis;

use super::superblock::{Superblock, Superblocks};
use super::{IndexPlace, index_of};
use crate::durable::checkpoint::record::Record;

/// The memory file of a store, and its superblock.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) file: Arc<MapFile>,
    pub(super) superblocks: Superblocks,
    pub(crate) block: Superblock,
    /// The state in which the previous process left the file. `None`: this process created the file.
    pub(crate) left: Option<Shutdown>,
    /// True if the index is rebuilt from the segments.
    pub(crate) rebuilds_index: bool,
    /// The record of the last checkpoint, if the machine has lost power since the file was in use.
    pub(crate) lost: Option<Box<Record>>,
    /// True if the machine lost power before the first checkpoint, so that the file was created again, empty.
    pub(crate) lost_all: bool,
    /// Maps of the parts that a checkpoint syncs. `None`: a checkpoint syncs the whole file.
    pub(super) believed: Option<[Map; 2]>,
}

/// The state in which the previous process left a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shutdown {
    pub(crate) clean: bool,
    /// True if the file was not closed cleanly, the process made checkpoints, and the machine was restarted since.
    pub(crate) lost: bool,
    /// True if the file was not closed cleanly, the process made no checkpoints, and the machine was restarted since.
    pub(crate) unsynced: bool,
}

impl Held {
    pub(super) fn new(
        file: &Arc<MapFile>,
        superblocks: Superblocks,
        block: Superblock,
        left: Option<Shutdown>,
    ) -> Self {
        Self {
            file: Arc::clone(file),
            superblocks,
            block,
            left,
            rebuilds_index: false,
            lost: None,
            lost_all: false,
            believed: None,
        }
    }

    /// Excludes a range of whole pages of the file from the parts that are trusted after a power loss. Checkpoints do
    /// not sync this range.
    pub(super) fn believe_none_of(&mut self, others: Range<u64>) -> io::Result<()> {
        let map = |range: Range<u64>| Map::of_file(&self.file, range.start, (range.end - range.start) as usize, false);
        self.believed = Some([map(0..others.start)?, map(others.end..self.block.file_bytes)?]);
        Ok(())
    }

    /// Returns the place of the index.
    pub(crate) fn index(&self) -> IndexPlace {
        index_of(&self.block)
    }

    /// Returns true if checkpoints are made.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.block.checkpoints == 1
    }

    /// Writes all parts that survive a loss of power to the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let Some(maps) = &self.believed else { return self.sync_all() };
        maps.iter().try_for_each(Map::sync)?;
        #[cfg(all(test, not(shuttle)))]
        crate::tests::disk::synced(&self.file, false)?;
        Ok(())
    }

    /// Writes the whole file to the disk.
    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_data()?;
        #[cfg(all(test, not(shuttle)))]
        crate::tests::disk::synced(&self.file, true)?;
        Ok(())
    }

    /// Records that the repair is complete, and that the file belongs to this boot of the machine.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        let marked = u64::from(self.has_checkpoints());
        let changes = self.lost.is_some() || self.has_checkpoints() || self.block.marked != marked;
        if !changes {
            return Ok(());
        }
        // The superblock is written only after everything else is on the disk. Until then, the next opening repairs the
        // file again.
        self.sync()?;
        self.block.marked = marked;
        self.superblocks.write(&self.block);
        self.sync()
    }

    /// Records that no thread works on the file any more.
    pub(crate) fn close(&self, now: UnixMillis, has_lost_changes: bool) {
        // A process that panics does not mark the file as clean.
        let mut clean = u64::from(!std::thread::panicking());
        if self.has_checkpoints() {
            // The superblock that marks the file as cleanly closed is written after everything else.
            clean &= u64::from(!has_lost_changes && self.sync_all().is_ok());
        }
        self.superblocks.write(&Superblock { clean, closed_ms: now.0, ..self.block });
        let _ = self.sync_all();
    }
}
