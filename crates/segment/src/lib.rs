//! The item store. Reads take no lock, every change happens under its stripe lock, and eviction runs in the background.
//!
//! ```text
//!   key --hash--> index group, index bucket --slot--> segment, offset --> item
//!
//!   Store       shared by all threads: index, segments, epochs, counters
//!   ThreadHandle  one data thread's entry to the store: its epoch word and its open segments
//!   Guard         that thread's access to the store within one epoch; items that it reads stay valid until it ends
//!   Checkpointer  writes a file to its disk, so that the store survives a loss of power
//!   Background  the one thread that seals, expires, evicts, compacts and grows, in slices
//! ```
//!
//! The modules, in ascending order of layers. A module uses only modules of its own layer or below:
//! `xtask/src/tidy/floors.rs` defines the exact order.
//!
//! ```text
//!   layout      bytes: items, slots, headers, keys, TTL classes; the only unsafe code is in layout/raw
//!   index       the hash index: lookup, locks, growth and shrinking
//!   heap        segments, memory limits, quotas, memory obtained ahead of its use
//!   core        the store's state and lookup; per-thread handle, epochs, pins, open segments
//!   items       reads, changes, walks; items that are not published yet
//!   tier        the second tier: its interface, reads from it, moves of items to it and back
//!   values      large values in pieces, records in parts, and deferred frees of both
//!   locks       atomic operations on several keys: key locks, undo log, snapshots
//!   durable     the memory file: format, checkpoints, opening, rebuild of the index
//!   background  eviction, expiry, compaction, growth, scrubbing; statistics
//!   store       assembly: a store is created, opened and closed
//! ```
//!
//! The engine knows no protocol and no threads, and reads no clock: each iteration and each slice gets the time as an
//! argument. The byte layouts are drawn in `layout::item`, `layout::slot` and `layout::header`, and in
//! `docs/format/segment.md`.
//!
//! The engine never does the following. It allocates nothing after the start for an operation on an item that is stored
//! whole. It takes no lock for a read. It evicts nothing inside a request, except the one item that an overfull index
//! bucket pushes out. It holds no pointer in the shared memory.
//!
//! # Example
//! ```
//! use base::clock::UnixMillis;
//! use gannet_segment::{Namespace, Put, Store, StoreConfig, Value};
//!
//! let config = StoreConfig {
//!     memory_bytes: 16 << 20,
//!     memory_bytes_max: 0,
//!     segment_bytes: None,
//!     item_bytes_max: 1 << 20,
//!     handles_max: 1,
//!     hash_seed: 1,
//!     huge_pages: false,
//! };
//! let now = UnixMillis(1_700_000_000_000);
//! let (store, mut background) = Store::new(&config, now)?;
//! let mut handle = store.handle()?;
//! {
//!     let mut guard = handle.guard(now);
//!     let key = guard.key(Namespace::DEFAULT, b"greeting");
//!     guard.items_mut().put(&key, &Put::set(b"hello")).expect("an empty store has room");
//!     assert_eq!(guard.items().get(&key).map(|item| item.value), Some(Value::Bytes(b"hello")));
//! }
//! // A dedicated thread calls `slice` repeatedly. The closure returns true when the slice's time has elapsed.
//! background.slice(now, &mut || false);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

mod background;
mod core;
mod durable;
mod heap;
mod index;
mod items;
mod layout;
mod locks;
#[cfg(test)]
mod map_tier;
#[cfg(all(test, shuttle))]
mod models;
mod store;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod tier;
mod values;

pub use crate::core::store::Store;
pub use background::populator::Populator;
pub use background::stats::{Census, DRAIN_REASONS, NamespaceStats, SEGMENT_STATES, StoreStats};
pub use background::{Background, Evicted, EvictionObserver, LostItems, SliceKind, SliceReport};
pub use core::ended_keys::KeyEnd;
pub use core::facets::{
    Items, ItemsMut, LargeValues, LockChecks, LockHolds, Numbers, PartReads, PartWrites, Pieces, Receiver, Renames,
    Sizes, TierMoves, TierReads, Versions, Walks,
};
pub use core::handle::{Guard, HandleError, ThreadHandle};
pub use core::op::{
    Arith, ArithOutcome, Delete, DeleteOutcome, Expire, Fetch, Fetched, Item, LargeRef, Lease, OpError, PATCHES_MAX,
    Patch, Put, PutMode, PutOutcome, Value, decimal_len,
};
pub use core::pin::Pinned;
pub use durable::checkpoint::{CheckpointStats, Checkpointer, Finished};
pub use durable::file::copy::{Copied, copy_flash, copy_store, longest_item};
pub use durable::file::inspect::{
    FAULTS_MAX, FileCheck, FileStats, TierWords, file_check, file_config, file_index, file_is_clean, file_stats,
    file_tier,
};
pub use durable::file::notes::NoteFault;
pub use durable::file::{FileFault, IndexPlace, Power, StoreFile, file_fits};
pub use durable::rebuild::{RebuildProgress, RebuildStep, Rebuilder};
pub use durable::reopen::Reopened;
pub use durable::tier_backing::TierBacking;
pub use heap::config::{StartError, StoreConfig};
pub use heap::memory::ResizeError;
pub use heap::namespaces::{Terms, TermsError};
pub use items::read::{Hit, Prefetched};
pub use items::receive::{InPlaceReceive, TAIL_BYTES_MAX};
pub use items::versions::Version;
pub use items::walk::{OnFlash, Stride, WalkVisit};
pub use items::write::replace::{AddOutcome, Attempts, ItemVersion, Loaded, Parts, Replaced, Replacement};
pub use layout::key::{Key, KeyHash, Namespace};
pub use layout::parts_head::{ENTRY_BYTES, KIND_IN_PARTS};
pub use layout::raw::TierChunk;
pub use locks::guards_met::GuardsMet;
pub use locks::key_locks::KeyLocks;
pub use locks::snapshot::Snapshot;
pub use locks::words::KEY_LOCKS_MAX;
pub use tier::room::TierRoom;
pub use tier::staging::Awaited;
pub use tier::tiered::{FlashHit, FromFlash};
pub use tier::{
    FlashAddress, Found, Parts as TierParts, ReadBy, Reclaimed, RetainedItem, SlotMatch, Tier, TierFind, TierFound,
    TierItem, TierPlan, TierRead, TierShow, Visit, WalkProgress,
};
pub use values::joined::JoinedParts;
pub use values::part_sizes::PartSizes;
pub use values::parts::PartBytes;
pub use values::rename::{CopyStep, PartsCopy};
pub use values::writer::LargeWriter;
