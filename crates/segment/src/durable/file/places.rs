//! The offsets of the parts of a store's file: see the diagram in [`super`].

use super::notes;
use super::superblock::VERSION_MIN;
use crate::durable::checkpoint::record::Records;
use crate::heap::config::Geometry;
use crate::index::{GROUP_BYTES, STRIPES, Stripe};
use crate::layout::header::SegmentHeader;
use crate::layout::persistent::PersistentHeader;
use crate::locks::undo_log::LOG_BYTES;
#[cfg(all(test, not(shuttle)))]
use crate::{StoreConfig, TierPlan};

pub(super) const PAGE: u64 = arena::PAGE_BYTES as u64;
/// The alignment of heap and index in the file, in bytes, so that huge pages can back them.
pub(super) const ALIGN: u64 = arena::HUGE_PAGE_BYTES as u64;
/// The size in bytes from which a heap is aligned to [`ALIGN`]. A smaller heap would not benefit from huge pages.
pub(super) const ALIGNED_FROM: u64 = 32 * ALIGN;
/// Offset of the metadata log in the file, in bytes.
pub(super) const NOTES_AT: u64 = 16 * PAGE;
/// Length of one half of the metadata log, in bytes.
pub(super) const NOTES_BYTES: u64 = 4 << 20;

/// The offsets of the parts of a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) stripes: u64,
    pub(super) undo: u64,
    pub(super) headers: u64,
    pub(super) records: u64,
    pub(super) tier: u64,
    pub(super) index: u64,
    pub(super) heap: u64,
    pub(super) end: u64,
}

/// Returns the name and the byte range of each part, for tests that damage a part. With a plan of a second tier, the
/// tier's part is included.
#[cfg(all(test, not(shuttle)))]
pub(crate) fn parts(config: &StoreConfig, plan: Option<&TierPlan>) -> Vec<(&'static str, std::ops::Range<u64>)> {
    let with_tier = |plan: &TierPlan| Geometry::with_index(config, plan.groups(), plan.room_bytes());
    let geometry = plan.map_or_else(|| Geometry::of(config), with_tier).expect("sizes that fit");
    let Places { stripes, undo, headers, records, tier, index, heap, .. } = Places::of(&geometry);
    let index_end = index + (geometry.groups_start * GROUP_BYTES) as u64;
    let headers_end = headers + (geometry.segments_max * size_of::<SegmentHeader>()) as u64;
    vec![
        ("superblock", 0..2 * PAGE),
        ("kept words", 2 * PAGE..2 * PAGE + 512),
        ("stripes", stripes..stripes + (STRIPES * size_of::<Stripe>()) as u64),
        ("notes", NOTES_AT..NOTES_AT + 256),
        ("undo log", undo..undo + PAGE),
        ("headers", headers..headers_end),
        ("checkpoint", records..records + PAGE),
        ("tier", tier..tier + geometry.tier_bytes),
        ("index", index..index_end),
        ("heap", heap..heap + (geometry.segments_max * geometry.segment_bytes) as u64),
    ]
}

impl Places {
    pub(super) fn of(geometry: &Geometry) -> Self {
        let heap_bytes = (geometry.segments_max * geometry.segment_bytes) as u64;
        let align = if heap_bytes < ALIGNED_FROM { PAGE } else { ALIGN };
        let undo = NOTES_AT + 2 * NOTES_BYTES;
        let headers = undo + LOG_BYTES as u64;
        let headers_bytes = (geometry.segments_max * size_of::<SegmentHeader>()) as u64;
        let records = (headers + headers_bytes).next_multiple_of(PAGE);
        let tier = records + Records::bytes(geometry.segments_max);
        let index = (tier + geometry.tier_bytes).next_multiple_of(align);
        let heap = (index + (geometry.groups_max * GROUP_BYTES) as u64).next_multiple_of(align);
        let end = (heap + heap_bytes).next_multiple_of(align);
        Self { stripes: 3 * PAGE, undo, headers, records, tier, index, heap, end }
    }

    pub(super) fn check() {
        const { assert!(size_of::<PersistentHeader>() as u64 == PAGE) };
        const { assert!(3 * PAGE + (STRIPES * size_of::<Stripe>()) as u64 <= NOTES_AT) };
    }
}

/// Returns a hash of this build's file layout. It covers every size and offset that does not follow from the sizes in
/// the superblock. These are the same in all versions that this build reads.
pub(super) fn layout_hash() -> u64 {
    let sizes = [
        VERSION_MIN,
        PAGE,
        ALIGN,
        ALIGNED_FROM,
        NOTES_AT,
        NOTES_BYTES,
        notes::FRONT_BYTES as u64,
        LOG_BYTES as u64,
        crate::durable::checkpoint::record::HEAD_WORDS as u64,
        STRIPES as u64,
        size_of::<Stripe>() as u64,
        size_of::<PersistentHeader>() as u64,
        size_of::<SegmentHeader>() as u64,
        GROUP_BYTES as u64,
        crate::layout::slot::HEAP_BYTES_MAX,
        u64::from(crate::layout::header::TOKEN_OFFSET_BITS),
        crate::layout::item::SUM_BYTES as u64,
        u64::from(cfg!(target_endian = "big")),
    ];
    let bytes: Vec<u8> = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
    xxhash_rust::xxh3::xxh3_64(&bytes)
}
