//! The entries of heads and pages.

use crate::Damaged;

/// Offsets of the fields of an entry, in bytes.
const COUNT_AT: usize = 8;
const KEY_LEN_AT: usize = 14;
pub(super) const KEY_AT: usize = 16;

/// One entry: the number of its part, the number of elements below it, and the lower bound of their keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'n> {
    pub(super) part: u64,
    pub(super) count: u64,
    pub(super) key: &'n [u8],
    /// The offset in the page of the next entry.
    pub(super) end: usize,
}

impl<'n> Entry<'n> {
    /// Reads the entry that begins at offset `at` of a page.
    pub(super) fn at(page: &'n [u8], at: usize) -> Result<Self, Damaged> {
        let fixed: &[u8; KEY_AT] = page.get(at..).and_then(<[u8]>::first_chunk).ok_or(Damaged)?;
        let part = u64::from_le_bytes(*fixed.first_chunk().expect("eight bytes"));
        let count = u64::from_le_bytes(*fixed.last_chunk().expect("eight bytes")) & COUNT_MAX;
        let key_len = usize::from(u16::from_le_bytes([fixed[KEY_LEN_AT], fixed[KEY_LEN_AT + 1]]));
        let end = at + KEY_AT + key_len;
        let key = page.get(at + KEY_AT..end).filter(|key| !key.is_empty()).ok_or(Damaged)?;
        Ok(Self { part, count, key, end })
    }

    /// Returns the section of the entry's elements.
    pub(super) fn section(&self) -> u8 {
        self.key[0]
    }
}

/// The maximum number of elements: 48 bits.
const COUNT_MAX: u64 = (1 << 48) - 1;

/// Appends an entry.
pub(super) fn push(part: u64, count: u64, key: &[u8], to: &mut Vec<u8>) {
    debug_assert!(!key.is_empty() && count <= COUNT_MAX);
    to.extend_from_slice(&part.to_le_bytes());
    to.extend_from_slice(&count.to_le_bytes()[..6]);
    to.extend_from_slice(&(key.len() as u16).to_le_bytes());
    to.extend_from_slice(key);
}

/// Changes the part of the entry at offset `at`.
pub(super) fn set_part(page: &mut [u8], at: usize, part: u64) {
    page[at..at + COUNT_AT].copy_from_slice(&part.to_le_bytes());
}

/// Adds `by` to the number of elements of the entry at offset `at`.
pub(super) fn add_count(page: &mut [u8], at: usize, by: i64) -> Result<(), Damaged> {
    let count = Entry::at(page, at)?.count.checked_add_signed(by).ok_or(Damaged)?;
    page[at + COUNT_AT..at + KEY_LEN_AT].copy_from_slice(&count.to_le_bytes()[..6]);
    Ok(())
}

/// Returns the entries of a page, each with its offset.
pub(super) fn entries(page: &[u8]) -> impl Iterator<Item = Result<(usize, Entry<'_>), Damaged>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= page.len() {
            return None;
        }
        let entry = Entry::at(page, at).map(|entry| (at, entry));
        at = entry.as_ref().map_or(page.len(), |(_, entry)| entry.end);
        Some(entry)
    })
}

/// Returns the number of elements below all entries of a page.
pub(super) fn total(page: &[u8]) -> Result<u64, Damaged> {
    entries(page).map(|entry| Ok(entry?.1.count)).sum()
}
