//! The memory of a store's words and bytes: private memory, or maps of a file.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use arena::{Map, MapFile};

use super::notes::Notes;
use super::places::{NOTES_AT, NOTES_BYTES, PAGE, Places};
use super::superblock::Superblock;
use super::{FileFault, IndexPlace, check_sizes, index_of};
use crate::durable::checkpoint::record::Records;
use crate::heap::config::{Geometry, StoreConfig};
use crate::index::{Bucket, GROUP_BUCKETS, Index, STRIPES, Stripe};
use crate::layout::header::SegmentHeader;
use crate::layout::persistent::PersistentPage;
use crate::layout::raw::{Array, Heap};
use crate::locks::undo_log::{LOG_BYTES, UndoLog};

/// The number of bits of a sequence: those that a CAS token has for it.
const SEQUENCE_BITS: u32 = 64 - crate::layout::header::TOKEN_OFFSET_BITS;

/// All memory of a store: persistent header, index with its locks, segment headers, heap, and the parts that only a
/// file has.
#[derive(Debug)]
pub(crate) struct Backing {
    pub(crate) kept: PersistentPage,
    pub(crate) stripes: Array<Stripe>,
    pub(crate) headers: Array<SegmentHeader>,
    pub(crate) buckets: Array<Bucket>,
    pub(crate) heap: Heap,
    /// `None` unless the store is in a file.
    pub(crate) notes: Option<Notes>,
    /// `None` unless the store is in a file.
    pub(crate) undo: Option<UndoLog>,
    /// `None` unless the store is in a file.
    pub(crate) records: Option<Records>,
}

impl Backing {
    /// Returns private memory of the sizes in `geometry`.
    pub(crate) fn private(geometry: &Geometry, segments: usize, huge_pages: bool) -> io::Result<Self> {
        let kept = PersistentPage::private()?;
        Ok(Self {
            kept: kept.begun(Index::growth_of(geometry.groups_start), geometry.groups_start, segments),
            stripes: Array::reserve(STRIPES, false)?,
            headers: Array::reserve(geometry.segments_max, false)?,
            buckets: Index::private_buckets(geometry.groups_max, huge_pages)?,
            heap: Heap::reserve(geometry.segments_max * geometry.segment_bytes, huge_pages)?,
            notes: None,
            undo: None,
            records: None,
        })
    }
}

/// Checks that the persistent header and the metadata log are consistent. The rest of the file is read only after that.
fn check_persistent(ground: &Backing, geometry: &Geometry) -> Result<(), FileFault> {
    let kept = &ground.kept;
    if !ground.notes.as_ref().is_some_and(Notes::is_sound) {
        return Err(FileFault::Damaged("its metadata log has a wrong checksum".to_owned()));
    }
    let (end, next) = (kept.end.load(Acquire) as usize, kept.groups_next.load(Acquire) as usize);
    let growth = kept.growth.load(Acquire);
    let sequence = kept.sequence.load(Acquire);
    let flushed = kept.flushed.iter().map(|flushed| flushed.load(Acquire)).max().unwrap_or(0);
    if sequence == 0 || sequence >> SEQUENCE_BITS != 0 || flushed >= sequence {
        return Err(FileFault::Damaged(format!("inconsistent sequence numbers: next {sequence}, flushed {flushed}")));
    }
    if end <= geometry.segments_max && Index::is_growth(growth, next, geometry.groups_max) {
        return Ok(());
    }
    Err(FileFault::Damaged(format!("inconsistent sizes: {end} segments, index growth {growth:#x} to {next} groups")))
}

/// Maps the parts of a file with this superblock, and checks them.
pub(super) fn backing_of(
    geometry: &Geometry,
    config: &StoreConfig,
    file: &Arc<MapFile>,
    block: &Superblock,
) -> Result<Backing, FileFault> {
    check_sizes(geometry, block)?;
    let ground = new_backing(geometry, config, file, index_of(block))?;
    check_persistent(&ground, geometry)?;
    Ok(ground)
}

/// Maps the parts of a file with these sizes. Does not change the file's contents.
pub(super) fn new_backing(
    geometry: &Geometry,
    config: &StoreConfig,
    file: &Arc<MapFile>,
    index: IndexPlace,
) -> io::Result<Backing> {
    let places = Places::of(geometry);
    let map = |at: u64, bytes: usize, huge| Map::of_file(file, at, bytes, huge);
    let (buckets, headers) = (geometry.groups_max * GROUP_BUCKETS, geometry.segments_max);
    let heap_bytes = geometry.segments_max * geometry.segment_bytes;
    let kept = PersistentPage::of(Array::of_map(map(2 * PAGE, PAGE as usize, false)?, 1));
    let (stripes, buckets) = match index {
        IndexPlace::File => (
            Array::of_map(map(places.stripes, STRIPES * size_of::<Stripe>(), false)?, STRIPES),
            Array::of_map(map(places.index, buckets * size_of::<Bucket>(), config.huge_pages)?, buckets),
        ),
        IndexPlace::Dram => {
            (Array::reserve(STRIPES, false)?, Index::private_buckets(geometry.groups_max, config.huge_pages)?)
        }
    };
    let records_bytes = Records::bytes(geometry.segments_max) as usize;
    let records = Records::of(Array::of_map(map(places.records, records_bytes, false)?, records_bytes / 8), headers);
    Ok(Backing {
        records: Some(records),
        notes: Some(Notes::of(map(NOTES_AT, 2 * NOTES_BYTES as usize, false)?, kept.clone())),
        undo: Some(UndoLog::of(Array::of_map(map(places.undo, LOG_BYTES, false)?, LOG_BYTES / 8), kept.clone())),
        kept,
        stripes,
        headers: Array::of_map(map(places.headers, headers * size_of::<SegmentHeader>(), false)?, headers),
        buckets,
        heap: Heap::of_map(map(places.heap, heap_bytes, config.huge_pages)?).with_sums(),
    })
}
