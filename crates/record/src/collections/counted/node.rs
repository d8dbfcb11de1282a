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

/// The fields of an entry that walks over many entries read. The key is not examined.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryStart {
    pub(super) part: u64,
    pub(super) count: u64,
    /// The offset in the page of the next entry. A damaged entry may end behind the page.
    pub(super) end: usize,
}

impl EntryStart {
    /// Reads the start of the entry that begins at offset `at` of a page.
    #[inline(always)]
    pub(super) fn at(page: &[u8], at: usize) -> Result<Self, Damaged> {
        let fixed: &[u8; KEY_AT] = page.get(at..).and_then(<[u8]>::first_chunk).ok_or(Damaged)?;
        let rest = u64::from_le_bytes(*fixed.last_chunk().expect("eight bytes"));
        let (count, key_len) = (rest & COUNT_MAX, (rest >> COUNT_BITS) as usize);
        Ok(Self {
            part: u64::from_le_bytes(*fixed.first_chunk().expect("eight bytes")),
            count,
            end: at + KEY_AT + key_len,
        })
    }
}

/// Returns the first eight bytes of a key as a number, with zeros behind a shorter key. If two keys have different
/// numbers, the lower key has the lower number.
pub(super) fn prefix(key: &[u8]) -> u64 {
    let mut bytes = [0; PREFIX_BYTES];
    let len = key.len().min(PREFIX_BYTES);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

/// Returns the [`prefix`] of the key of the entry from offset `at` to offset `end` of a page.
#[inline(always)]
pub(super) fn prefix_at(page: &[u8], at: usize, end: usize) -> Result<u64, Damaged> {
    let key = page.get(at + KEY_AT..end).ok_or(Damaged)?;
    Ok(match page[at + KEY_AT..].first_chunk() {
        // A shorter key is followed by the next entry.
        Some(bytes) if key.len() < PREFIX_BYTES => {
            u64::from_be_bytes(*bytes) & !u64::MAX.checked_shr(8 * key.len() as u32).unwrap_or(0)
        }
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => prefix(key),
    })
}

/// Number of bytes of a key that [`prefix`] considers.
const PREFIX_BYTES: usize = 8;

/// The maximum number of elements: 48 bits.
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const COUNT_BITS: u32 = 48;

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
    let (mut sum, mut at) = (0_u64, 0);
    while at < page.len() {
        let EntryStart { count, end, .. } = EntryStart::at(page, at)?;
        (sum, at) = (sum + count, end);
    }
    if at == page.len() { Ok(sum) } else { Err(Damaged) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of all lengths around that of a prefix, whose bytes are the lowest and the greatest.
    #[test]
    fn a_key_that_is_the_start_of_another_has_no_greater_prefix() {
        let mut keys = vec![vec![1], vec![2]];
        for len in 1..11 {
            let longer = keys.iter().filter(|key| key.len() == len);
            let longer: Vec<Vec<u8>> =
                longer.flat_map(|key| [0, 255].map(|byte| [&key[..], &[byte]].concat())).collect();
            keys.extend(longer.into_iter().take(64));
        }
        keys.sort();
        for keys in keys.windows(2) {
            assert!(prefix(&keys[0]) <= prefix(&keys[1]), "{keys:?}");
        }
        for key in &keys {
            // The entry is followed by another, and then it is the last one.
            let mut page = Vec::new();
            push(5, 7, key, &mut page);
            let end = page.len();
            assert_eq!(prefix_at(&page, 0, end), Ok(prefix(key)));
            push(6, 8, &[255; 12], &mut page);
            assert_eq!(prefix_at(&page, 0, end), Ok(prefix(key)));
            let EntryStart { part, count, end: found } = EntryStart::at(&page, 0).unwrap();
            assert_eq!((part, count, found, total(&page)), (5, 7, end, Ok(15)));
            assert_eq!(total(&page[..page.len() - 1]), Err(Damaged));
        }
    }
}
