//! The list of all types of values with parts. A new type needs a row here, its file in this crate and its file of
//! commands.

use crate::{Damaged, NoParts, Record, Sets};

/// The type of a value with parts. Its number is the type byte in the item, and never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A record outside any set. Redis clients see a record as a hash.
    Hash = 1,
    /// A record of a set ([`crate::Set`]). Redis clients see it as a hash, too.
    InSet = 2,
    /// A list ([`crate::ListValue`]).
    List = 3,
    /// A set of texts ([`crate::SetValue`]).
    Set = 4,
    /// A sorted set ([`crate::SortedSetValue`]).
    SortedSet = 5,
    /// A stream ([`crate::StreamValue`]).
    Stream = 6,
    /// A record outside any set, stored in parts. The store recognises a value in parts by the bit `PARTS` of the
    /// number.
    Large = PARTS | 1,
    /// A record in a set. The record is stored in parts.
    LargeInSet = PARTS | 2,
    /// A list, stored in parts.
    LargeList = PARTS | 3,
    /// A set, stored in parts.
    LargeSet = PARTS | 4,
    /// A sorted set, stored in parts.
    LargeSortedSet = PARTS | 5,
    /// A stream, stored in parts.
    LargeStream = PARTS | 6,
}

/// The bit in a type's number that marks values stored in parts.
const PARTS: u8 = 0x80;

impl Kind {
    /// Every type.
    pub const ALL: [Self; 12] = [
        Self::Hash,
        Self::InSet,
        Self::List,
        Self::Set,
        Self::SortedSet,
        Self::Stream,
        Self::Large,
        Self::LargeInSet,
        Self::LargeList,
        Self::LargeSet,
        Self::LargeSortedSet,
        Self::LargeStream,
    ];

    /// Returns the type with this byte.
    pub fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Returns true if values of this type are stored in parts.
    pub const fn is_large(self) -> bool {
        self as u8 & PARTS != 0
    }

    /// Returns true if values of this type are records ([`crate::Record`]).
    pub const fn is_record(self) -> bool {
        matches!(self, Self::Hash | Self::InSet | Self::Large | Self::LargeInSet)
    }

    /// Returns the name that `TYPE` reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hash | Self::InSet | Self::Large | Self::LargeInSet => "hash",
            Self::List | Self::LargeList => "list",
            Self::Set | Self::LargeSet => "set",
            Self::SortedSet | Self::LargeSortedSet => "zset",
            Self::Stream | Self::LargeStream => "stream",
        }
    }

    /// Returns true if a value of this type is empty at `now_ms`: all its bins have expired, or its set was truncated.
    /// Clients do not see an empty value.
    ///
    /// # Errors
    /// [`Damaged`]. A large record also causes this error if a bin has expired and the head does not show whether a
    /// live bin remains, because this function reads no parts.
    pub fn is_empty(self, bytes: &[u8], sets: &Sets, now_ms: u64) -> Result<bool, Damaged> {
        if !self.is_record() {
            // The last element takes its key with it, unless the value is a stream, which clients see without entries.
            return Ok(false);
        }
        Record::of(self, bytes, sets, &NoParts)?.map_or(Ok(true), |record| record.is_empty(now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_known_by_its_byte_and_no_other() {
        for byte in 0..=255 {
            let known = Kind::of(byte);
            assert_eq!(known.is_some(), matches!(byte & !PARTS, 1..=6), "{byte}");
            assert!(known.is_none_or(|kind| kind as u8 == byte));
        }
    }
}
