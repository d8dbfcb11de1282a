//! Values with parts, as the bytes of one item: bytes in, bytes out.
//!
//! ```text
//!   item of the store    key ──> type byte ──> bytes
//!                                [`Kind`]      [`Record`] reads them, [`Edit`] writes new ones
//! ```
//!
//! A record is a revision and bins: names with values of a type, each of which may have an end of its own. Clients
//! of Redis call it a hash, and its bins fields. The bytes are drawn in `docs/format/record.md`.
//!
//! Nothing here knows a store, a protocol, a clock or a thread. Damaged bytes are an error ([`Damaged`]), no panic.
//!
//! Where things are: `read` and `edit` read and write a record, `tree` one that is too large for one item; `value`,
//! `collection` and `coding` are values and their bytes; `sets`, `index` and `filter` are sets of records, their
//! indexes and queries.
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
mod collection;
mod edit;
mod filter;
mod index;
mod kind;
mod read;
mod sets;
mod tree;
mod value;

pub use collection::{DEPTH_MAX, List, Map, Values, push_value};
pub use edit::{Edit, bin_bytes_max};
pub use filter::{FILTER_BYTES_MAX, Filter, FilterError};
pub use index::{Entry, Index, IndexFull, IndexType};
pub use kind::Kind;
pub use read::{ANSWER_BYTES_A_BYTE, Bin, Bins, Record};
pub use sets::{
    Added, BIN_NAMES_ALL_MAX, BIN_NAMES_MAX, InSet, Keeper, SET_NAME_BYTES_MAX, SETS_MAX, Set, Sets, TooManySets,
};
pub use tree::{ENTRY_BYTES, LARGE_BYTES, NoParts, Parts, Source};
pub use value::{Digits, Name, Value, ValueType};

/// Bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the bytes are no record")
    }
}

impl std::error::Error for Damaged {}

/// The latest end that a bin may have, in milliseconds since the epoch: what its six bytes say.
pub const END_MS_MAX: u64 = (1 << 48) - 1;

/// The longest name of a bin that a record command takes, in bytes. A hash's field may be as long as its item.
pub const BIN_NAME_BYTES_MAX: usize = 63;

/// Names hash to numbers below this.
pub const HASHES: u64 = 1 << 32;

/// The place of a name in the order that walks over the bins of a record go by.
pub fn hash(name: &[u8]) -> u32 {
    (hash64(name) >> 32) as u32
}

fn hash64(text: &[u8]) -> u64 {
    // FNV-1a, and a last stir, for its high bits are what a walk goes by.
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    base::prng::split_mix(text.iter().fold(0xcbf2_9ce4_8422_2325, step))
}
