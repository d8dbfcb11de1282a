//! The head of a value in parts, and the entries by which heads and pages name parts: `docs/format/record.md`.

use crate::layout::hidden_key::word;

/// The bit that is set in the type of every value in parts.
pub const KIND_IN_PARTS: u8 = 0x80;

/// The size of a fixed entry of a head or a page, in bytes: eight for the part's number, and ten that the caller
/// defines.
pub const ENTRY_BYTES: usize = 18;
/// The bit in a head's number of levels that is set if its entries have keys of different lengths.
const KEYED: u8 = 0x80;
/// The bit in a head's number of levels that is set if the caller has stored a salt after the entries.
const SALTED: u8 = 0x40;
/// The size of an entry without its key, in bytes.
const KEYED_ENTRY_BYTES: usize = 16;
/// The size of a head's fixed fields in bytes: type, object, levels, and number of entries or bytes.
const FIXED_BYTES: usize = 14;

/// The size of the number of an object, in bytes.
const OBJECT_BYTES: usize = 8;

/// The encoding of the entries of a head and its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryForm {
    /// `4 bytes of the caller | part 8 | 6 bytes of the caller`
    Fixed,
    /// `part 8 | 6 bytes of the caller | length of the key 2 | key`
    Keyed,
}

/// An entry: the number of its part, the offset of that number in the page, and the offset of the next entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) part: u64,
    pub(crate) part_at: usize,
    pub(crate) end: usize,
}

impl EntryForm {
    /// Returns the entry that begins at offset `at` of a page, or `None` after the last one.
    pub(crate) fn entry(self, page: &[u8], at: usize) -> Option<Entry> {
        let left = page.get(at..)?;
        let (part_at, bytes) = match self {
            Self::Fixed => (at + 4, ENTRY_BYTES),
            Self::Keyed => {
                let key = left.get(KEYED_ENTRY_BYTES - 2..KEYED_ENTRY_BYTES)?;
                (at, KEYED_ENTRY_BYTES + usize::from(u16::from_le_bytes([key[0], key[1]])))
            }
        };
        (left.len() >= bytes).then(|| Entry { part: word(&page[part_at..]), part_at, end: at + bytes })
    }

    /// Returns the numbers of the parts that the entries of a page name.
    pub(crate) fn parts(self, page: &[u8]) -> impl Iterator<Item = u64> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let entry = self.entry(page, at)?;
            at = entry.end;
            Some(entry.part)
        })
    }
}

/// Returns the object's number from the bytes of a value in parts, which may be split between two slices.
pub(crate) fn object_of(a: &[u8], b: &[u8]) -> Option<u64> {
    if a.first()? & KIND_IN_PARTS == 0 {
        return None;
    }
    let mut object = [0; OBJECT_BYTES];
    let in_a = (a.len() - 1).min(OBJECT_BYTES);
    object[..in_a].copy_from_slice(&a[1..][..in_a]);
    object[in_a..].copy_from_slice(b.get(..OBJECT_BYTES - in_a)?);
    Some(word(&object))
}

/// The head of a value in parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartsHead<'b> {
    pub(crate) object: u64,
    /// The number of levels of entries above the leaves: at least 1.
    pub(crate) levels: u8,
    pub(crate) form: EntryForm,
    pub(crate) root: &'b [u8],
}

impl<'b> PartsHead<'b> {
    /// Returns the head in an item's value, or `None` if the value is no head.
    pub(crate) fn of(value: &'b [u8]) -> Option<Self> {
        let (fixed, rest) = value.split_at_checked(FIXED_BYTES)?;
        let size = u32::from_le_bytes(fixed[10..].try_into().expect("four bytes")) as usize;
        let (form, bytes) = match fixed[9] & KEYED {
            0 => (EntryForm::Fixed, size.checked_mul(ENTRY_BYTES)?),
            _ => (EntryForm::Keyed, size),
        };
        let (levels, root) = (fixed[9] & !(KEYED | SALTED), rest.get(..bytes)?);
        (fixed[0] & KIND_IN_PARTS != 0).then(|| Self { object: word(&fixed[1..]), levels, form, root })
    }

    /// Returns a copy of `value`, which begins with this head, for another object with a root of the same length.
    pub(crate) fn with(&self, value: &[u8], object: u64, root: &[u8]) -> Vec<u8> {
        debug_assert!(root.len() == self.root.len());
        let mut bytes = value.to_vec();
        bytes[1..9].copy_from_slice(&object.to_le_bytes());
        bytes[FIXED_BYTES..][..root.len()].copy_from_slice(root);
        bytes
    }
}
