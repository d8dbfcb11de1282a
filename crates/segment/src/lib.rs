//! The item store. Reads take no lock, every change happens under its stripe lock, and eviction runs in the background.
//!
//! ```text
//!   key --hash--> index group, index bucket --slot--> segment, offset --> item
//!
//!   Store       shared by all threads: index, segments, epochs, counters
//!   Lane        one data thread's handle: its epoch word and its open segments
//!   Turn        one iteration of that thread's event loop, inside an epoch; what it reads stays valid until it ends
//!   Checkpointer  writes a file to its disk, so that the store survives a loss of power
//!   Background  the one thread that seals, expires, evicts, compacts and grows, in slices
//! ```
//!
//! The engine knows no protocol and no threads, and reads no clock: each turn and each slice gets the time as an
//! argument. The byte layouts are drawn in [`mod@item`], [`mod@slot`] and [`mod@header`], and in
//! `docs/format/segment.md`.
//!
//! The engine never does the following. It allocates nothing after the start for an operation on an item that is stored
//! whole. It takes no lock for a read. It evicts nothing inside a request, except the one item that an overfull index
//! bucket pushes out. It holds no pointer in the shared memory.
#![deny(unsafe_code)]

mod ahead;
mod arriving;
mod background;
mod by_hash;
mod checkpoint;
mod claim;
mod config;
mod counters;
mod draft;
mod epoch;
mod file;
mod flash_keys;
mod graves;
mod header;
mod index;
mod item;
mod kept;
mod key;
mod lane;
mod large;
#[cfg(test)]
mod map_tier;
mod memory;
#[cfg(all(test, shuttle))]
mod models;
mod moving;
mod op;
mod open;
mod orphans;
mod parts;
mod pin;
#[allow(unsafe_code)]
mod raw;
mod read;
mod rebuild;
mod rename;
mod reopen;
mod samples;
mod segments;
mod shortage;
mod slot;
mod snapshot;
mod spaces;
mod staging;
mod stats;
mod store;
mod sums;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod tier;
mod tier_room;
mod tiered;
mod ttl;
mod undo;
mod unfinished;
mod verify;
mod walk;
mod write;

pub use ahead::Populator;
pub use arriving::{Arriving, TAIL_BYTES_MAX};
pub use background::{Background, Evicted, EvictionObserver, SliceKind, SliceReport};
pub use checkpoint::{CheckpointStats, Checkpointer, Finished};
pub use claim::{CLAIMS_MAX, Claim};
pub use config::{StartError, StoreConfig};
pub use file::copy::{Copied, copy_flash, copy_store, longest_item};
pub use file::inspect::{
    FAULTS_MAX, FileCheck, FileStats, TierWords, file_check, file_config, file_index, file_is_clean, file_stats,
    file_tier,
};
pub use file::notes::NoteFault;
pub use file::{FileFault, IndexPlace, Power, StoreFile, file_fits};
pub use key::{Key, KeyHash, Namespace};
pub use lane::{Lane, LaneError, Turn};
pub use large::LargeWriter;
pub use memory::ResizeError;
pub use op::{
    Arith, ArithOutcome, Delete, DeleteOutcome, Expire, Fetch, Fetched, Item, LargeRef, Lease, OpError, Put, PutMode,
    PutOutcome, Value, decimal_len,
};
pub use parts::{DecideParts, ENTRY_BYTES, KIND_IN_PARTS, Parts};
pub use pin::Pinned;
pub use raw::TierChunk;
pub use read::{Ahead, Hit, Version};
pub use rebuild::{RebuildProgress, RebuildStep, Rebuilder};
pub use rename::{CopyStep, PartsCopy};
pub use reopen::Reopened;
pub use snapshot::Snapshot;
pub use spaces::{Terms, TermsError};
pub use staging::Awaited;
pub use stats::{Census, DRAIN_REASONS, NamespaceStats, SEGMENT_STATES, StoreStats};
pub use store::Store;
pub use tier::{
    FlashAddress, Found, Kept, Parts as TierParts, ReadBy, Reclaimed, Shown, SlotMatch, Tier, TierFind, TierFound,
    TierItem, TierPlan, TierRead, TierShow, Visit,
};
pub use tier_room::{TierGround, TierRoom};
pub use tiered::{FlashHit, FromFlash};
pub use walk::{OnFlash, Stride, WalkVisit};
pub use write::change::{AddOutcome, Change, Decide, DecideAlone};
