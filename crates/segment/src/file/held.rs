//! A file that is a store's, from its opening to its close.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use arena::{Map, MapFile};
use base::clock::UnixMillis;

use super::superblock::{Superblock, Superblocks};
use super::{IndexPlace, index_of};
use crate::checkpoint::record::Record;

/// A file that is a store's, and its superblock.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) file: Arc<MapFile>,
    pub(super) superblocks: Superblocks,
    pub(crate) block: Superblock,
    /// How it was left: `None`, it was made now.
    pub(crate) left: Option<Left>,
    /// The index is made anew from the segments.
    pub(crate) index_anew: bool,
    /// The machine has lost its power since, and this is what the last checkpoint says.
    pub(crate) lost: Option<Box<Record>>,
    /// It has lost its power before the first checkpoint: the file was made anew.
    pub(crate) lost_all: bool,
    /// What a checkpoint has synced, where that is not all of the file.
    pub(super) believed: Option<[Map; 2]>,
}

/// How a file was left by the process before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) clean: bool,
    /// It was not, made checkpoints, and the machine was started since.
    pub(crate) lost: bool,
    /// The same without checkpoints.
    pub(crate) unsynced: bool,
}

impl Held {
    pub(super) fn new(file: &Arc<MapFile>, superblocks: Superblocks, block: Superblock, left: Option<Left>) -> Self {
        Self {
            file: Arc::clone(file),
            superblocks,
            block,
            left,
            index_anew: false,
            lost: None,
            lost_all: false,
            believed: None,
        }
    }

    /// A range of the file, in whole pages, is of no use after a loss of power: no checkpoint has it synced.
    pub(super) fn believe_none_of(&mut self, others: Range<u64>) -> io::Result<()> {
        let map = |range: Range<u64>| Map::of_file(&self.file, range.start, (range.end - range.start) as usize, false);
        self.believed = Some([map(0..others.start)?, map(others.end..self.block.file_bytes)?]);
        Ok(())
    }

    /// Where the index is.
    pub(crate) fn index(&self) -> IndexPlace {
        index_of(&self.block)
    }

    /// Checkpoints are made.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.block.checkpoints == 1
    }

    /// Has all of it written to the disk that a loss of power leaves something of.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let Some(maps) = &self.believed else { return self.sync_all() };
        maps.iter().try_for_each(Map::sync)?;
        #[cfg(all(test, not(shuttle)))]
        crate::tests::disk::synced(&self.file, false)?;
        Ok(())
    }

    /// Has all of it written to the disk.
    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_data()?;
        #[cfg(all(test, not(shuttle)))]
        crate::tests::disk::synced(&self.file, true)?;
        Ok(())
    }

    /// What was found is whole now, and this run of the machine has it.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        let marked = u64::from(self.has_checkpoints());
        let changes = self.lost.is_some() || self.has_checkpoints() || self.block.marked != marked;
        if !changes {
            return Ok(());
        }
        // Not before all else is on the disk: until then it is found to be lost once more.
        self.sync()?;
        self.block.marked = marked;
        self.superblocks.write(&self.block);
        self.sync()
    }

    /// Says that nobody works on it any more.
    pub(crate) fn close(&self, now: UnixMillis, has_lost_changes: bool) {
        // A process that had a fault of its own says nothing.
        let mut clean = u64::from(!std::thread::panicking());
        if self.has_checkpoints() {
            // What says that all of it is there comes after it.
            clean &= u64::from(!has_lost_changes && self.sync_all().is_ok());
        }
        self.superblocks.write(&Superblock { clean, closed_ms: now.0, ..self.block });
        let _ = self.sync_all();
    }
}
