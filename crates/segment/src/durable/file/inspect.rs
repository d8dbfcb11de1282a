//! Inspection of a memory file that no server uses. The file is not changed.
//!
//! Invariants:
//! - Nothing is written, so that the state after a crash can be inspected as it is.
//! - If a file was in use when the machine lost power, only the contents of its last checkpoint are inspected.
//!   Inconsistencies elsewhere are no fault, because a server does not trust those parts either
//!   ([`crate::durable::checkpoint`]).

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use arena::{Map, MapFile};
use base::clock::UnixMillis;

use super::notes::Notes;
use super::superblock::Superblock;
use super::{FileFault, IndexPlace, There, backing_of, index_of, is_of_run, look, new_backing};
use crate::durable::checkpoint::record::Records;
use crate::heap::checksums::{ITEM_STEP, WalkedItem};
use crate::heap::config::StoreConfig;
use crate::heap::segments::{SegmentId, Segments};
use crate::index::Index;
use crate::index::repair;
use crate::layout::header::{STATES, SegmentState};
use crate::layout::item::{DEAD, ItemKind, Layout};
use crate::layout::key::{Hasher, Namespace};
use crate::layout::raw::{Array, Word64};
use crate::layout::slot::Slot;

/// The state of a memory file, as its superblock and headers record it. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileStats {
    /// The fields of the superblock, by name.
    pub superblock: Vec<(&'static str, u64)>,
    /// True if the file was closed cleanly.
    pub clean: bool,
    /// True if the machine was restarted while the file was in use. The segment figures are then those of the last
    /// checkpoint, if checkpoints were made.
    pub lost: bool,
    /// The number of segments by state, in the order of [`crate::SEGMENT_STATES`]. Segments that were never allocated
    /// count as free.
    pub segments: [u64; STATES.len()],
    /// The number of items, as the headers of segments count them. A value in pieces or in parts counts once.
    pub items: u64,
    /// The total size of the items, in bytes.
    pub item_bytes: u64,
    /// The number of items of each namespace.
    pub items_by_namespace: [u64; Namespace::MAX],
    /// The number of index groups, and the number after a change of the index's size that is in progress.
    pub groups: [u64; 2],
    /// The number of index locks that were held.
    pub stripes_held: u64,
    /// The next segment sequence.
    pub sequence: u64,
    /// The latest time that a process recorded in the file.
    pub clock: UnixMillis,
    /// The number of metadata records, and their total size in bytes.
    pub notes: [u64; 2],
    /// The instant at which the last checkpoint was begun, and the number of its segments. `None`: there is no
    /// checkpoint.
    pub checkpoint: Option<(UnixMillis, u64)>,
}

/// The findings of a walk over a whole memory file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileCheck {
    /// The number of live items that a slot names. If the index is not in the file: the number of live items.
    pub items: u64,
    /// The number of slots that name items in memory.
    pub slots: u64,
    /// The number of slots that name items on flash. The flash is not read. 0 if the index is not in the file.
    pub flash_slots: u64,
    /// The number of live items that no slot names. A crash may leave such items, and the next opening marks them dead.
    pub unnamed: u64,
    /// The number of duplicate slots. A crash may leave such slots in groups whose lock was held.
    pub doubled: u64,
    /// The number of damaged items. After a power loss they are counted in no other figure.
    pub damaged: u64,
    /// Descriptions of faults that a crash cannot cause, one line each; at most [`FAULTS_MAX`].
    pub faults: Vec<String>,
}

/// The maximum number of reported faults.
pub const FAULTS_MAX: usize = 20;

struct Inspected {
    block: Superblock,
    segments: Segments,
    index: Index,
    hasher: Hasher,
    sum_seed: u64,
    stats: FileStats,
    /// The sequences in the last checkpoint, by segment, if only its segments are trusted after a power loss.
    believed: Option<Vec<u64>>,
}

/// Returns the configuration with which a store in the file can be opened, for one handle. Its sizes are those of the
/// file.
///
/// # Errors
/// If the file cannot be opened.
pub fn file_config(file: &Arc<MapFile>) -> Result<StoreConfig, FileFault> {
    Ok(config_of(&block_of(file)?))
}

/// Returns the place of the index of a store in the file.
///
/// # Errors
/// If the file cannot be opened.
pub fn file_index(file: &Arc<MapFile>) -> Result<IndexPlace, FileFault> {
    Ok(index_of(&block_of(file)?))
}

/// Returns true if the store in the file was closed cleanly. If not, its server was killed or still runs.
///
/// # Errors
/// As for opening it.
pub fn file_is_clean(file: &Arc<MapFile>) -> Result<bool, FileFault> {
    Ok(block_of(file)?.clean == 1)
}

/// The words that a second tier persists in a memory file.
#[derive(Debug)]
pub struct TierWords(Array<Word64>);

impl TierWords {
    /// Returns the number of words.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns the word at `number`.
    pub fn load(&self, number: u64) -> u64 {
        self.0.at(number as usize).load(Acquire)
    }
}

/// Returns the words of a second tier in the file. Returns `None` if the file was created without a second tier, or if
/// only its last checkpoint is trusted, which does not include these words.
///
/// # Errors
/// If the file cannot be opened.
pub fn file_tier(file: &Arc<MapFile>, boot: u128) -> Result<Option<TierWords>, FileFault> {
    let block = block_of(file)?;
    if block.flash_bytes == 0 || lost_to_checkpoint(&block, boot) {
        return Ok(None);
    }
    let geometry = super::geometry_of(&config_of(&block), &block);
    let geometry = geometry.map_err(|error| FileFault::Damaged(error.to_string()))?;
    super::check_sizes(&geometry, &block)?;
    let bytes = geometry.tier_bytes as usize;
    let map = Map::of_file(file, super::places::Places::of(&geometry).tier, bytes, false)?;
    Ok(Some(TierWords(Array::of_map(map, bytes / size_of::<Word64>()))))
}

/// Returns true if the machine was restarted while the file was in use.
fn lost_since(block: &Superblock, boot: u128) -> bool {
    block.clean == 0 && block.boot_high | block.boot_low != 0 && !is_of_run(block, boot)
}

/// Returns true if the machine was restarted while the file was in use and checkpoints were made. Only the last
/// checkpoint is then trusted.
fn lost_to_checkpoint(block: &Superblock, boot: u128) -> bool {
    lost_since(block, boot) && block.checkpoints == 1
}

fn block_of(file: &Arc<MapFile>) -> Result<Superblock, FileFault> {
    match look(file)? {
        There::Store(block) => Ok(block),
        There::Nothing => Err(FileFault::Damaged("its creation was not completed".to_owned())),
    }
}

fn config_of(block: &Superblock) -> StoreConfig {
    StoreConfig {
        memory_bytes: block.memory_bytes,
        memory_bytes_max: 0,
        segment_bytes: Some(block.segment_bytes as u32),
        item_bytes_max: 1,
        handles_max: 1,
        hash_seed: block.hash_seed,
        huge_pages: false,
    }
}

fn open(file: &Arc<MapFile>, boot: u128) -> Result<Inspected, FileFault> {
    let block = block_of(file)?;
    let config = config_of(&block);
    let geometry = super::geometry_of(&config, &block).map_err(|error| FileFault::Damaged(error.to_string()))?;
    let (lost, has_checkpoints) = (lost_since(&block, boot), lost_to_checkpoint(&block, boot));
    let ground = match has_checkpoints {
        // The persistent header may be newer or older than the contents that it describes, so it is not checked.
        true => new_backing(&geometry, &config, file, index_of(&block))?,
        false => backing_of(&geometry, &config, file, &block)?,
    };
    let (kept, mut notes) = (ground.kept.clone(), [0; 2]);
    if let Some(all) = ground.notes.as_ref().filter(|notes| Notes::is_sound(notes)) {
        all.read(&mut |note| notes = [notes[0] + 1, notes[1] + note.len() as u64]);
    }
    let checkpoint = ground.records.as_ref().and_then(Records::latest);
    let stats = FileStats {
        checkpoint: checkpoint.as_ref().map(|record| (UnixMillis(record.at_ms), record.segments())),
        lost,
        superblock: block.named().to_vec(),
        clean: block.clean == 1,
        sequence: kept.sequence.load(Acquire),
        clock: UnixMillis(kept.clock_ms.load(Acquire)),
        notes,
        ..FileStats::default()
    };
    let segments = Segments::on(&geometry, ground.heap, ground.headers, kept.clone());
    let index = Index::on(ground.buckets, ground.stripes, kept);
    Ok(Inspected {
        block,
        segments,
        index,
        hasher: Hasher::new(block.hash_seed),
        sum_seed: crate::heap::checksums::seed(block.hash_seed),
        stats,
        believed: has_checkpoints.then(|| checkpoint.map(|record| record.sequences).unwrap_or_default()),
    })
}

impl Inspected {
    /// Returns the segments that are trusted: after a power failure with checkpoints, those that the last checkpoint
    /// records as sealed; otherwise all segments.
    fn ids(&self) -> Vec<SegmentId> {
        let is_believed = |id: &SegmentId| {
            let Some(sequences) = &self.believed else { return true };
            let recorded = sequences.get(id.0 as usize).copied().unwrap_or(0);
            self.segments.header(*id).is_sealed_as(recorded)
        };
        (0..self.block.segments_max as u32).map(SegmentId).filter(is_believed).collect()
    }

    fn count(&mut self) -> Result<(), FileFault> {
        for id in self.ids() {
            let header = self.segments.header(id);
            if !header.has_state() {
                return Err(FileFault::Damaged(format!("segment {} has an invalid state", id.0)));
            }
            self.stats.segments[header.state() as usize] += 1;
            if holds_items(header.state()) {
                let (items, written) = (u64::from(header.live_keys()), u64::from(header.written.load(Acquire)));
                let used = if header.state() == SegmentState::Open { written } else { self.block.segment_bytes };
                self.stats.items += items;
                self.stats.items_by_namespace[usize::from(header.namespace())] += items;
                self.stats.item_bytes += used.saturating_sub(u64::from(header.dead_bytes()));
            }
        }
        if self.believed.is_some() {
            return Ok(());
        }
        self.stats.groups = [self.index.groups() as u64, self.index.groups_next() as u64];
        self.stats.stripes_held = repair::held_stripes(&self.index).count() as u64;
        Ok(())
    }

    /// Returns the key hash of the item at an address.
    fn hash_at(&self, address: usize, layout: &Layout) -> crate::index::Hash {
        let (bytes, namespace) =
            (layout.key(&self.segments.heap, address), self.segments.header_of(address).namespace());
        match layout.kind() {
            ItemKind::Piece => self.hasher.piece(namespace, bytes).hash,
            _ => self.hasher.key(Namespace(namespace), bytes).hash,
        }
    }

    /// Returns true if a slot names the item at an address, or if the file has no trusted index.
    fn is_named(&self, address: usize, layout: &Layout) -> bool {
        let hash = self.hash_at(address, layout);
        let finds = || self.index.find(hash, |slot| (slot.address() == address).then_some(())).is_some();
        !self.has_index() || finds()
    }

    /// Returns true if the index is in the file and is trusted.
    fn has_index(&self) -> bool {
        index_of(&self.block) == IndexPlace::File && self.believed.is_none()
    }

    /// Walks each segment from item to item.
    fn check_segments(&self, check: &mut FileCheck) {
        for id in self.ids().into_iter().filter(|id| holds_items(self.segments.header(*id).state())) {
            let (start, written) = (self.segments.start(id), self.segments.header(id).written.load(Acquire) as usize);
            if written > self.segments.segment_bytes() {
                check.fault(format!("segment {} has a write offset of {written}, past its end", id.0));
                continue;
            }
            self.check_segment(check, id, start, written);
        }
    }

    /// Walks a segment from item to item. Behind a damaged part, the walk continues at the next item with the right
    /// checksum.
    fn check_segment(&self, check: &mut FileCheck, id: SegmentId, start: usize, written: usize) {
        let (mut at, mut gap_from) = (0, None);
        while at < written {
            let item = match gap_from {
                Some(_) => self.segments.sound_item(self.sum_seed, id, at),
                None => self.segments.walked(self.sum_seed, id, at),
            };
            let Some(WalkedItem { layout, is_damaged }) = item else {
                gap_from = gap_from.or(Some(at));
                at += ITEM_STEP;
                continue;
            };
            self.end_gap(check, id, gap_from.take(), at);
            if is_damaged {
                check.damaged += 1;
                self.torn(check, || format!("the item at {at} of segment {} has a wrong checksum", id.0));
            }
            let is_skipped = layout.has(DEAD) || is_damaged && self.believed.is_some();
            if !is_skipped {
                let named = self.is_named(start + at, &layout);
                check.items += u64::from(named);
                check.unnamed += u64::from(!named);
            }
            at += layout.size;
        }
        self.end_gap(check, id, gap_from, written);
    }

    /// Reports a damaged part of a segment, in which no item can be read. It counts as one damaged item.
    fn end_gap(&self, check: &mut FileCheck, id: SegmentId, from: Option<usize>, to: usize) {
        if let Some(from) = from {
            check.damaged += 1;
            self.torn(check, || format!("segment {} is damaged from {from} to {to}", id.0));
        }
    }

    /// Reports a torn item as a fault, unless the machine lost power.
    fn torn(&self, check: &mut FileCheck, what: impl FnOnce() -> String) {
        if self.believed.is_none() {
            check.fault(what());
        }
    }

    /// Checks the item that each slot names.
    fn check_index(&self, check: &mut FileCheck) {
        if !self.has_index() {
            return;
        }
        for group in 0..self.index.groups().max(self.index.groups_next()) {
            check.doubled += repair::count_doubles(&self.index, group);
            for (_, slot) in self.index.group_words(group).filter(|(_, slot)| slot.is_taken()) {
                if slot.is_flash() {
                    check.flash_slots += 1;
                    continue;
                }
                check.slots += 1;
                if let Err(what) = self.check_slot(slot) {
                    check.fault(format!("a slot of index group {group} points to {what}"));
                }
            }
        }
    }

    fn check_slot(&self, slot: Slot) -> Result<(), String> {
        let id = self.segments.of(slot.address());
        if u64::from(id.0) >= self.block.segments_max {
            return Err(format!("segment {}, which does not exist", id.0));
        }
        let (header, at) = (self.segments.header(id), slot.address() - self.segments.start(id));
        if !holds_items(header.state()) || header.slot_generation() != slot.generation() {
            return Err(format!("segment {} of another generation", id.0));
        }
        let written = header.written.load(Acquire) as usize;
        let left = written.min(self.segments.segment_bytes()).saturating_sub(at);
        let Some(layout) = Layout::read_within(&self.segments.heap, slot.address(), left) else {
            return Err(format!("offset {at} of segment {}, where no item is", id.0));
        };
        if self.hash_at(slot.address(), &layout).tag() != slot.tag() {
            return Err(format!("another key's item at {at} of segment {}", id.0));
        }
        Ok(())
    }
}

impl FileCheck {
    fn fault(&mut self, what: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(what);
        }
    }
}

fn holds_items(state: SegmentState) -> bool {
    matches!(state, SegmentState::Open | SegmentState::Sealed | SegmentState::Draining)
}

/// Reads a memory file's description of itself: its superblock, its persistent header, and the 128-byte header of each
/// segment. `boot` is the ID of the machine's present boot, as in [`crate::Power`].
///
/// # Errors
/// As for opening it.
pub fn file_stats(file: &Arc<MapFile>, boot: u128) -> Result<FileStats, FileFault> {
    let mut inspected = open(file, boot)?;
    inspected.count()?;
    Ok(inspected.stats)
}

/// Checks every item and every slot of a memory file; `boot` as for [`file_stats`]. After a loss of power, torn items
/// are counted but are no fault, because no server serves them.
///
/// # Errors
/// As for opening it.
pub fn file_check(file: &Arc<MapFile>, boot: u128) -> Result<FileCheck, FileFault> {
    let mut inspected = open(file, boot)?;
    inspected.count()?;
    let mut check = FileCheck::default();
    inspected.check_segments(&mut check);
    inspected.check_index(&mut check);
    Ok(check)
}
