//! The types of values with parts: the one list of them. A new type is a row here, its file in this crate and its
//! file of commands.

use crate::{Damaged, NoParts, Record, Sets};

/// The type of a value with parts. The number is the type byte in the item, and never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A record: what clients of Redis call a hash.
    Hash = 1,
    /// A record of a set ([`crate::Set`]): a hash, too.
    InSet = 2,
    /// A record of no set that is kept in parts, which its number shows to the store.
    Large = PARTS | 1,
    /// A record of a set that is kept in parts.
    LargeInSet = PARTS | 2,
}

/// The bit in a type's number that says that its values are kept in parts.
const PARTS: u8 = 0x80;

impl Kind {
    /// Every type.
    pub const ALL: [Self; 4] = [Self::Hash, Self::InSet, Self::Large, Self::LargeInSet];

    /// The type of this byte.
    pub fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Its values are kept in parts.
    pub const fn is_large(self) -> bool {
        self as u8 & PARTS != 0
    }

    /// As `TYPE` names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hash | Self::InSet | Self::Large | Self::LargeInSet => "hash",
        }
    }

    /// As `OBJECT ENCODING` names what is closest to it.
    pub const fn encoding(self) -> &'static str {
        match self {
            Self::Hash | Self::InSet => "listpack",
            Self::Large | Self::LargeInSet => "hashtable",
        }
    }

    /// Returns whether a value of this type has nothing in it any more at `now_ms`: each part had an end that has come,
    /// or its set was truncated. A client sees no such value. Of a large record whose first bin has ended it is not
    /// known.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn is_empty(self, bytes: &[u8], sets: &Sets, now_ms: u64) -> Result<bool, Damaged> {
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
            assert_eq!(known.is_some(), matches!(byte, 1 | 2 | 0x81 | 0x82), "{byte}");
            assert!(known.is_none_or(|kind| kind as u8 == byte));
        }
    }
}
