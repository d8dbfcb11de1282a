//! The sources from which a joined value is concatenated.

use crate::core::op::LargeRef;

/// One source of bytes of a joined value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'v> {
    Bytes(&'v [u8]),
    /// This number of zero bytes.
    Zeros(u64),
    /// The bytes `from..to` of the present item's large value.
    Item {
        large: LargeRef,
        from: u64,
        to: u64,
    },
    /// A value that [`crate::LargeValues::write_piece`] wrote, and that no item names.
    Part(LargeRef),
    /// The large value of another key's item, in the namespace of that key.
    Copied(LargeRef, u8),
}

impl Source<'_> {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Zeros(bytes) => *bytes,
            Self::Item { from, to, .. } => to - from,
            Self::Part(large) | Self::Copied(large, _) => large.bytes,
        }
    }

    /// Returns the source's length in bytes, and its identity: the object number and the revision of a large value, or
    /// the hash of bytes (another request of the same client may have as many bytes).
    pub(super) fn identity(&self) -> (u64, u64) {
        match self {
            Self::Bytes(bytes) => (self.len(), xxhash_rust::xxh3::xxh3_64(bytes)),
            Self::Zeros(_) => (self.len(), 0),
            Self::Item { large, .. } | Self::Part(large) | Self::Copied(large, _) => (self.len(), large.identity()),
        }
    }

    /// Returns a source with the bytes `from..to` of this source, which must be an item's value.
    pub(crate) fn cut(self, from: u64, to: u64) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(&bytes[from as usize..to as usize]),
            Self::Item { large, from: begin, .. } => Self::Item { large, from: begin + from, to: begin + to },
            Self::Zeros(_) | Self::Part(_) | Self::Copied(..) => unreachable!("an item's value is bytes or large"),
        }
    }
}
