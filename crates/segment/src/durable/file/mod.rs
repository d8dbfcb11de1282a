//! A store's memory in a file: its parts and their places, its creation, and the reasons to refuse an existing file.
//!
//! ```text
//!   superblock x 2 | persistent  | index   | metadata  | undo log | segment headers | checkpoint     | ...
//!   page 0, 1      | header      | locks   | log x 2   |          |                 | record x 2     |
//!                  | page 2      | 3 .. 10 | 16 ..     | pages    | pages           | pages          |
//!
//!   ... | room of the tier | index   | heap
//!         | pages            | aligned | aligned (to `ALIGN`; to pages if the heap is below `ALIGNED_FROM`)
//! ```
//!
//! Invariants:
//! - The segment size, the numbers of segments and groups, and the size of the tier's room determine the place of each
//!   part.
//! - Each part is mapped separately, so that it is accessed like private memory.
//! - A file is changed only if it is known to be this store's, is empty, or was requested to be reset.
//! - Space for everything in use is allocated: see [`arena::Map::allocate`].
//! - If the index is in the process ([`IndexPlace::Dram`]), the places of the index and of its locks in the file are
//!   holes.

mod backing;
pub(crate) mod copy;
mod fault;
mod held;
pub(crate) mod index_left;
mod index_place;
pub(crate) mod inspect;
pub(crate) mod notes;
mod places;
pub(crate) mod superblock;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use arena::{Map, MapFile};
use base::clock::UnixMillis;

use crate::durable::checkpoint::record::{Record, Records};
use crate::heap::config::{Geometry, StartError, StoreConfig};
use crate::index::{GROUP_BYTES, Index};
use crate::layout::header::SegmentHeader;
use crate::layout::raw::Array;
use crate::locks::undo_log::LOG_BYTES;
use crate::tier::TierPlan;
use crate::tier::room::TierRoom;
pub(crate) use backing::Backing;
use backing::{backing_of, new_backing};
pub use fault::FileFault;
pub(crate) use held::{Held, Shutdown};
pub use index_place::IndexPlace;
#[cfg(all(test, not(shuttle)))]
pub(crate) use places::parts;
use places::{ALIGN, NOTES_AT, PAGE, Places, layout_hash};
use superblock::{Superblock, SuperblockState, Superblocks, VERSION};

/// The file of a store, opened by a caller that may access files.
#[derive(Clone, Debug)]
pub struct StoreFile {
    /// The open file. No other process uses it.
    pub file: Arc<MapFile>,
    /// If true, the file's contents are discarded.
    pub reset: bool,
    /// Place of the index.
    pub index: IndexPlace,
    /// A copy of the previous store's index in DRAM, if any: [`crate::Store::leave_index`].
    pub index_left: Option<Arc<MapFile>>,
    /// Provisions for a loss of power.
    pub power: Power,
}

/// The provisions of a store in a file for a loss of power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Power {
    /// The ID of the machine's present boot: [`arena::boot_id`]. 0: the ID is unknown, and the file is assumed to be
    /// from the same boot.
    pub boot: u128,
    /// True if checkpoints are made: [`crate::Checkpointer`].
    pub checkpoints: bool,
}

pub(crate) fn index_of(block: &Superblock) -> IndexPlace {
    if block.index_in_dram == 1 { IndexPlace::Dram } else { IndexPlace::File }
}

/// The contents of a file: a store, or nothing, so that a store may be created in it.
enum There {
    Store(Superblock),
    Nothing,
}

fn look(file: &Arc<MapFile>) -> Result<There, FileFault> {
    let bytes = file.bytes()?;
    if bytes == 0 {
        return Ok(There::Nothing);
    }
    if bytes < 2 * PAGE {
        return Err(FileFault::Foreign);
    }
    let superblocks = map_superblocks(file)?;
    match superblocks.find() {
        SuperblockState::Whole { block, .. } if block.made == 0 => Ok(There::Nothing),
        SuperblockState::Whole { block, .. } if block.file_bytes != bytes => {
            let what = format!("it has {bytes} bytes instead of {}", block.file_bytes);
            Err(FileFault::Damaged(what))
        }
        SuperblockState::Whole { block, .. } => Ok(There::Store(block)),
        SuperblockState::OtherVersion(found) => Err(FileFault::Version { found, known: VERSION }),
        SuperblockState::OtherLayout => Err(FileFault::Layout),
        SuperblockState::Damaged => Err(FileFault::Damaged("neither copy of its superblock is intact".to_owned())),
        // The creation of the file was interrupted.
        SuperblockState::Blank if bytes == front_bytes(file) => Ok(There::Nothing),
        SuperblockState::Blank | SuperblockState::Foreign => Err(FileFault::Foreign),
    }
}

/// Returns the length of both superblocks, rounded up to whole pages of the file system, in bytes.
fn front_bytes(file: &MapFile) -> u64 {
    if file.medium() == arena::Medium::HugePages { ALIGN } else { 2 * PAGE }
}

fn map_superblocks(file: &Arc<MapFile>) -> io::Result<Superblocks> {
    let map = Map::of_file(file, 0, 2 * PAGE as usize, false)?;
    Ok(Superblocks::of(Array::of_map(map, 2), layout_hash()))
}

/// Opens or creates the file of a store. Returns the store's sizes, its memory and the open file.
pub(crate) fn lay(
    config: &StoreConfig,
    store_file: &StoreFile,
    tier: Option<&TierPlan>,
    now: UnixMillis,
) -> Result<(Geometry, Backing, Held), StartError> {
    Places::check();
    let fault = |fault| StartError::File { path: store_file.file.path().to_owned(), fault };
    let there = if store_file.reset { There::Nothing } else { look(&store_file.file).map_err(fault)? };
    let segment_bytes = match there {
        There::Store(block) => Some(block.segment_bytes as u32),
        There::Nothing => config.segment_bytes,
    };
    // A file does not grow, so its memory size is also the maximum for a resize.
    let sized = StoreConfig { memory_bytes_max: 0, segment_bytes, ..config.clone() };
    if let There::Store(block) = &there {
        tier_fits(tier, block).map_err(fault)?;
    }
    let geometry = match (&there, tier) {
        (There::Store(block), Some(_)) => geometry_of(&sized, block)?,
        (There::Nothing, Some(plan)) => Geometry::with_index(&sized, plan.groups(), plan.room_bytes())?,
        (_, None) => Geometry::of(&sized)?,
    };
    let geometry = match &there {
        There::Store(block) => geometry.with_pieces(block.piece_bytes),
        There::Nothing => geometry,
    };
    let held = match there {
        There::Store(block) => take(config, &geometry, store_file, block),
        There::Nothing => make(config, &geometry, store_file, tier.map_or(0, |plan| plan.bytes), now),
    }
    .map_err(fault)?;
    let mut held = held;
    if held.left.is_some_and(|left| left.lost) {
        held.lost = restore(config, &geometry, &held).map_err(fault)?;
        if held.lost.is_none() {
            let (geometry, ground, held) = lay(config, &StoreFile { reset: true, ..store_file.clone() }, tier, now)?;
            return Ok((geometry, ground, Held { lost_all: true, ..held }));
        }
    }
    if tier.is_some() && held.has_checkpoints() {
        let from = Places::of(&geometry).tier;
        held.believe_none_of(from..from + geometry.tier_bytes).map_err(|error| fault(FileFault::Io(error)))?;
    }
    let ground = match held.left {
        Some(_) => backing_of(&geometry, config, &held.file, &held.block),
        None => new_backing(&geometry, config, &held.file, held.index()).map_err(FileFault::Io),
    };
    let ground = ground.map_err(fault)?;
    if held.left.is_some() {
        begin(&mut held, &ground, store_file.index_left.as_ref()).map_err(|error| fault(FileFault::Io(error)))?;
    } else {
        let segments = geometry.segments_for(config.memory_bytes, geometry.groups_start);
        let (kept, groups) = (ground.kept.clone(), geometry.groups_start);
        drop(kept.begun(Index::growth_of(groups), groups, segments));
        if let Some(records) = ground.records.as_ref().filter(|_| held.has_checkpoints()) {
            records.allocate().map_err(|error| fault(FileFault::Io(error)))?;
        }
        held.rebuilds_index = held.index() == IndexPlace::Dram;
        // Writes both copies. If one copy is damaged later, the other must not state that the file's creation is
        // incomplete.
        held.superblocks.write(&held.block);
        held.superblocks.write(&held.block);
    }
    Ok((geometry, ground, held))
}

/// Restores the persistent header from the last checkpoint. Returns the record of that checkpoint, or `None` if the
/// file has none.
fn restore(config: &StoreConfig, geometry: &Geometry, held: &Held) -> Result<Option<Box<Record>>, FileFault> {
    let ground = new_backing(geometry, config, &held.file, held.index())?;
    let record = ground.records.as_ref().and_then(Records::latest);
    if record.is_none() && held.file.is_view() {
        return Err(FileFault::Damaged("power was lost before the first checkpoint".to_owned()));
    }
    Ok(record.map(|record| {
        ground.kept.restore(&record.kept);
        Box::new(record)
    }))
}

/// Makes the first changes to an existing file: marks it as in use, and prepares its index.
fn begin(held: &mut Held, ground: &Backing, index_left: Option<&Arc<MapFile>>) -> io::Result<()> {
    if held.lost.is_none() {
        held.superblocks.write(&held.block);
        if held.has_checkpoints() {
            // The superblock must be on the disk before any later change. Otherwise a change could reach the disk while
            // the superblock there still marks the file as cleanly closed.
            held.sync()?;
        }
    }
    if held.has_checkpoints()
        && let Some(records) = &ground.records
    {
        records.allocate()?;
    }
    let in_dram = held.index() == IndexPlace::Dram;
    if let Some(left) = index_left.filter(|_| in_dram && held.lost.is_none())
        && index_left::take(left, held, ground)?
    {
        return Ok(());
    }
    held.rebuilds_index = in_dram || held.lost.is_some() || ground.kept.rebuilding.load(Acquire) != 0;
    if !held.rebuilds_index {
        return Ok(());
    }
    Index::begin_empty(&ground.kept);
    if !in_dram {
        let groups_bytes = ground.kept.groups_next.load(Acquire) as usize * GROUP_BYTES;
        // Releases the old contents. Released ranges of the file read as zeros.
        let (stripes, buckets) = (ground.stripes.map(), ground.buckets.map());
        stripes.release(0, stripes.bytes())?;
        stripes.allocate(0, stripes.bytes())?;
        buckets.release(0, buckets.bytes())?;
        buckets.allocate(0, groups_bytes)?;
    }
    Ok(())
}

/// Checks that a store with these sizes and this second tier can be opened in the file. The check only reads the file,
/// so another process may be using it.
///
/// # Errors
/// See [`FileFault`].
pub fn file_fits(config: &StoreConfig, file: &StoreFile, tier: Option<&TierPlan>) -> Result<(), FileFault> {
    let There::Store(block) = look(&file.file)? else {
        return Err(FileFault::Damaged("its creation was not completed".to_owned()));
    };
    tier_fits(tier, &block)?;
    let segment_bytes = Some(block.segment_bytes as u32);
    let geometry = geometry_of(&StoreConfig { memory_bytes_max: 0, segment_bytes, ..config.clone() }, &block);
    let geometry = geometry.map_err(|error| FileFault::Damaged(error.to_string()))?;
    fits(config, &geometry, file, &block)
}

/// Checks that the requested second tier is the one that the superblock records.
fn tier_fits(tier: Option<&TierPlan>, block: &Superblock) -> Result<(), FileFault> {
    let (asked, room_bytes) = tier.map_or((0, 0), |plan| (plan.bytes, plan.room_bytes()));
    if block.flash_bytes != asked {
        return Err(FileFault::Flash { found: block.flash_bytes, asked });
    }
    if tier.is_some_and(|plan| plan.finds != (index_of(block) == IndexPlace::Dram)) {
        return Err(FileFault::Index { found: index_of(block) });
    }
    if block.flash_room_bytes == room_bytes { Ok(()) } else { Err(FileFault::Layout) }
}

/// Returns the sizes of a store in a file with this superblock.
fn geometry_of(config: &StoreConfig, block: &Superblock) -> Result<Geometry, StartError> {
    if block.flash_bytes == 0 {
        return Geometry::of(config);
    }
    // Both sizes are limited here in case the superblock is wrong. `Geometry::with_index` refuses sizes that do not fit
    // into the memory.
    let groups = block.groups_start.min(config.memory_bytes / GROUP_BYTES as u64).max(1);
    Geometry::with_index(config, groups as usize, block.flash_room_bytes.min(block.file_bytes))
}

/// Returns the room of a second tier in a file.
pub(crate) fn tier_room(geometry: &Geometry, held: &Held, plan: &TierPlan) -> io::Result<TierRoom> {
    TierRoom::in_file(plan, held, Places::of(geometry).tier)
}

/// Checks that the superblock matches the requested settings.
fn fits(config: &StoreConfig, geometry: &Geometry, file: &StoreFile, block: &Superblock) -> Result<(), FileFault> {
    if index_of(block) != file.index {
        return Err(FileFault::Index { found: index_of(block) });
    }
    if block.memory_bytes != config.memory_bytes {
        return Err(FileFault::Memory { found: block.memory_bytes, asked: config.memory_bytes });
    }
    if let Some(asked) = config.segment_bytes.map(u64::from).filter(|asked| *asked != block.segment_bytes) {
        return Err(FileFault::Segment { found: block.segment_bytes, asked });
    }
    check_sizes(geometry, block)
}

/// Returns both halves of a boot ID, as the superblock stores them.
fn boot_words(boot: u128) -> [u64; 2] {
    [(boot >> 64) as u64, boot as u64]
}

/// Returns true if the file was last opened in the boot `boot` of the machine, or if that boot's ID is unknown.
fn is_of_run(block: &Superblock, boot: u128) -> bool {
    boot == 0 || boot_words(boot) == [block.boot_high, block.boot_low]
}

/// Checks that an existing file matches the requested settings, and returns the open file.
fn take(config: &StoreConfig, geometry: &Geometry, file: &StoreFile, block: Superblock) -> Result<Held, FileFault> {
    fits(config, geometry, file, &block)?;
    let (power, file) = (&file.power, &file.file);
    // Files of earlier builds have only a part of it.
    let reserved = file.allocate(Places::of(geometry).undo, LOG_BYTES as u64);
    reserved.map_err(|error| FileFault::UndoSpace { bytes: LOG_BYTES as u64, error })?;
    let clean = block.clean == 1;
    let (is_lost, knows_run) = (!clean && !is_of_run(&block, power.boot), block.boot_high | block.boot_low != 0);
    let lost = is_lost && block.checkpoints == 1;
    let left = Some(Shutdown { clean, lost, unsynced: is_lost && knows_run && !lost });
    let [boot_high, boot_low] = boot_words(power.boot);
    let checkpoints = u64::from(power.checkpoints);
    let block = Superblock { clean: 0, opened: block.opened + 1, checkpoints, boot_high, boot_low, ..block };
    Ok(Held::new(file, map_superblocks(file)?, block, left))
}

/// Checks that the sizes in the superblock equal those that this build derives from the configuration.
fn check_sizes(geometry: &Geometry, block: &Superblock) -> Result<(), FileFault> {
    let sizes = [geometry.segments_max, geometry.groups_start, geometry.groups_max].map(|size| size as u64);
    let same = sizes == [block.segments_max, block.groups_start, block.groups_max];
    if same && Places::of(geometry).end == block.file_bytes { Ok(()) } else { Err(FileFault::Layout) }
}

/// Creates the file, except for its persistent header. Until the header is written, the superblock marks the file as
/// incomplete.
fn make(
    config: &StoreConfig,
    geometry: &Geometry,
    StoreFile { file, index, power, .. }: &StoreFile,
    flash_bytes: u64,
    now: UnixMillis,
) -> Result<Held, FileFault> {
    let places = Places::of(geometry);
    let segments = geometry.segments_for(config.memory_bytes, geometry.groups_start);
    file.set_bytes(0)?;
    file.set_bytes(front_bytes(file))?;
    let groups = if *index == IndexPlace::File { geometry.groups_start } else { 0 };
    let bytes = NOTES_AT + LOG_BYTES as u64 + geometry.tier_bytes + geometry.bytes_of(segments, groups);
    let space = |error| FileFault::Space { bytes, error };
    file.allocate(0, front_bytes(file)).map_err(space)?;
    let superblocks = map_superblocks(file)?;
    let [boot_high, boot_low] = boot_words(power.boot);
    let block = Superblock {
        file_bytes: places.end,
        memory_bytes: config.memory_bytes,
        segment_bytes: geometry.segment_bytes as u64,
        segments_max: geometry.segments_max as u64,
        groups_start: geometry.groups_start as u64,
        groups_max: geometry.groups_max as u64,
        hash_seed: config.hash_seed,
        made_ms: now.0,
        index_in_dram: u64::from(*index == IndexPlace::Dram),
        flash_bytes,
        flash_room_bytes: geometry.tier_bytes,
        checkpoints: u64::from(power.checkpoints),
        boot_high,
        boot_low,
        piece_bytes: geometry.piece_bytes as u64,
        ..Superblock::default()
    };
    superblocks.write(&block);
    let allocated = file.set_bytes(places.end).map_err(FileFault::Io).and_then(|()| {
        let parts = [
            (0, NOTES_AT),
            // An opening reads the whole undo log, and even a read of a hole takes space on tmpfs.
            (places.undo, LOG_BYTES as u64),
            (places.headers, (geometry.segments_max * size_of::<SegmentHeader>()) as u64),
            (places.tier, geometry.tier_bytes),
            (places.index, (groups * GROUP_BYTES) as u64),
            (places.heap, (segments * geometry.segment_bytes) as u64),
        ];
        let mut parts = parts.into_iter().filter(|(_, bytes)| *bytes > 0);
        parts.try_for_each(|(at, bytes)| file.allocate(at, bytes)).map_err(space)
    });
    if let Err(fault) = allocated {
        // Frees the space that was already allocated.
        let _ = file.set_bytes(0);
        return Err(fault);
    }
    let block = Superblock { made: 1, opened: 1, ..block };
    Ok(Held::new(file, superblocks, block, None))
}
