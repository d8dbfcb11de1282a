//! The head of a value in parts, and the entries by which heads and pages name parts: `docs/format/record.md`.

use crate::layout::hidden_key::word;

/// The bit that is set in the type of every value in parts.
pub const KIND_IN_PARTS: u8 = 0x80;

/// The size of an entry of a head or a page, in bytes: eight for the part's number, and ten that the caller defines.
pub const ENTRY_BYTES: usize = 18;
/// The size of a head's fixed fields in bytes: type, object, levels and number of entries.
const FIXED_BYTES: usize = 14;
/// Returns the numbers of the parts that entries name.
pub(crate) fn entries(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(ENTRY_BYTES).map(|entry| word(&entry[4..]))
}

/// Returns the number of the part that entry `number` names.
pub(crate) fn entry_at(bytes: &[u8], number: usize) -> Option<u64> {
    let entry = bytes.get(number * ENTRY_BYTES..)?.get(..ENTRY_BYTES)?;
    Some(word(&entry[4..]))
}

/// Returns the object's number from the bytes of a value in parts, which may be split between two slices.
pub(crate) fn object_of(a: &[u8], b: &[u8]) -> Option<u64> {
    if a.first()? & KIND_IN_PARTS == 0 {
        return None;
    }
    let object: Vec<u8> = a[1..].iter().chain(b).take(8).copied().collect();
    (object.len() == 8).then(|| word(&object))
}

/// The head of a value in parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartsHead<'b> {
    pub(crate) object: u64,
    pub(crate) levels: u8,
    pub(crate) root: &'b [u8],
}

impl<'b> PartsHead<'b> {
    /// Returns the head in an item's value, or `None` if the value is no head.
    pub(crate) fn of(value: &'b [u8]) -> Option<Self> {
        let (fixed, rest) = value.split_at_checked(FIXED_BYTES)?;
        let count = u32::from_le_bytes(fixed[10..].try_into().expect("four bytes")) as usize;
        let root = rest.get(..count.checked_mul(ENTRY_BYTES)?)?;
        (fixed[0] & KIND_IN_PARTS != 0).then(|| Self { object: word(&fixed[1..]), levels: fixed[9], root })
    }

    /// Returns a copy of `value`, which begins with this head, for another object with the same number of entries.
    pub(crate) fn with(&self, value: &[u8], object: u64, root: &[u8]) -> Vec<u8> {
        debug_assert!(root.len() == self.root.len());
        let mut bytes = value.to_vec();
        bytes[1..9].copy_from_slice(&object.to_le_bytes());
        bytes[FIXED_BYTES..][..root.len()].copy_from_slice(root);
        bytes
    }
}
