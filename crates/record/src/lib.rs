//! Values with parts, encoded as the bytes of one item.
//!
//! ```text
//!   item of the store    key ──> type byte, bytes
//!                                [`Kind`]      [`Record`] reads them, [`Edit`] writes new ones
//! ```
//!
//! A record is a revision and bins. A bin is a name with a typed value, and may have its own end (expiry time). Redis
//! clients call a record a hash and its bins fields. `docs/format/record.md` draws the encoding.
//!
//! This crate knows no store, protocol, clock or thread. Damaged bytes cause an error ([`Damaged`]), never a panic.
//!
//! [`hyperloglog`] reads and changes the bytes of a string that is a HyperLogLog.
//!
//! Modules: `read` and `edit` read and write a record, and `tree` a record that is too large for one item. `value`,
//! `collection` and `coding` define values and their encoding. `sets` and `query` define sets of records, their indexes
//! and queries. `collections` contains the lists, sets, sorted sets and streams of Redis. `coding::hash` hashes
//! the names of large values.
//!
//! # Example
//! ```
//! use gannet_record::{Edit, Name, Record, Value};
//!
//! let now_ms = 1_700_000_000_000;
//! let mut bytes = Vec::new();
//! let mut edit = Edit::of(None, now_ms, &mut bytes)?;
//! edit.set(&Name::new(b"visits"), &Value::Integer(3), false)?;
//! assert!(edit.finish(), "the record has a bin");
//!
//! let record = Record::open(&bytes)?;
//! let bin = record.find(&Name::new(b"visits"), now_ms)?;
//! assert_eq!(bin.map(|bin| bin.value), Some(Value::Integer(3)));
//! # Ok::<(), gannet_record::Damaged>(())
//! ```
#![forbid(unsafe_code)]

mod coding;
mod collections;
mod edit;
pub mod hyperloglog;
mod kind;
mod query;
mod read;
mod sets;
mod tree;
mod value;

pub use coding::collection::{DEPTH_MAX, List, Map, Values, push_value};
pub use coding::hash::{HASHES, Salt};
pub use collections::{
    Bound, Collection, EntrySearch, ListEdit, ListEnd, ListValue, Lists, PendingEntry, ScoredHashes, SetEdit,
    SetSearch, SetValue, SortedSetEdit, SortedSetValue, SortedSets, StreamConsumer, StreamEdit, StreamEntry,
    StreamGroup, StreamGroups, StreamGroupsEdit, StreamId, StreamState, StreamValue, Streams, TextSets,
    entry_bytes_max,
};
pub use edit::{Edit, bin_bytes_max};
pub use kind::Kind;
pub use query::{FILTER_BYTES_MAX, Filter, FilterError, Index, IndexFull, IndexPosting, IndexType};
pub use read::{ANSWER_BYTES_A_BYTE, Bin, Bins, Record};
pub use sets::{
    Added, BIN_NAMES_ALL_MAX, BIN_NAMES_MAX, InSet, SET_NAME_BYTES_MAX, SETS_MAX, Set, SetStore, Sets, TooManySets,
};
pub use tree::{ENTRY_BYTES, LARGE_BYTES, NoParts, Parts, Source};
pub use value::{Digits, Name, Value, ValueType};

/// The error that bytes are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the bytes are not a valid record")
    }
}

impl std::error::Error for Damaged {}

/// The latest end that a bin may have, in milliseconds since the epoch: the largest six-byte number.
pub const END_MS_MAX: u64 = (1 << 48) - 1;

/// The maximum length of a bin's name in record commands, in bytes. A hash field may be as long as its item.
pub const BIN_NAME_BYTES_MAX: usize = 63;
