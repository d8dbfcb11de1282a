//! The state of `DUMP` and `RESTORE` between two visits.

use crate::memory::budget::Grant;
use crate::resp::state::walk::Reading;
use rdb::PayloadWriter;

/// The part of a payload that is written next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum DumpPart {
    /// The earliest expiry of a hash's fields is searched.
    Earliest,
    /// The value is copied.
    Value,
    /// The checksum is computed.
    Sum,
}

/// The state of `DUMP`.
pub(in crate::resp) struct DumpWork {
    pub(in crate::resp) part: DumpPart,
    pub(in crate::resp) writer: PayloadWriter,
    /// The length of the string; `None` if the value is a hash.
    pub(in crate::resp) len: Option<u64>,
    /// The next byte of the string to copy, or the position in the hash.
    pub(in crate::resp) cursor: u64,
    /// The earliest expiry of the hash's fields that was found, by the store's clock.
    pub(in crate::resp) earliest: Option<u64>,
    pub(in crate::resp) reading: Reading,
    /// The share of client memory.
    pub(in crate::resp) grant: Grant,
}

/// A field of a payload: the ends of its name and of its value in the bytes of all fields, and its expiry by the
/// store's clock.
#[derive(Clone, Copy, Debug)]
pub(in crate::resp) struct RestoredField {
    pub(in crate::resp) name_end: usize,
    pub(in crate::resp) value_end: usize,
    pub(in crate::resp) end_ms: Option<u64>,
}

/// The state of `RESTORE` of a hash.
pub(in crate::resp) struct RestoreWork {
    /// The names and values of all fields.
    pub(in crate::resp) bytes: Vec<u8>,
    pub(in crate::resp) fields: Vec<RestoredField>,
    /// The number of stored fields.
    pub(in crate::resp) done: usize,
    /// True if the old value was removed.
    pub(in crate::resp) is_begun: bool,
    /// The share of client memory.
    pub(in crate::resp) grant: Grant,
}
