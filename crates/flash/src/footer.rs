//! The footer of a chunk. It lists the position and the hash of each item, so that a new process finds items without
//! reading them. Chunks have footers only if the index does not outlive the process.
//!
//! ```text
//!   | item | item | ... zeros, 24 at least | entry n-1 | ... | entry 1 | entry 0 | count 4 | 0 4 | check 8 |
//!                                              10
//!   entry:  hash 8 | named 1, length in units of 8 bytes 15
//! ```
//!
//! - Items lie one after another, so the lengths determine where each begins.
//! - An entry is written together with its item, without the `named` bit. A single store sets the bit when a slot is
//!   about to reference the item. If the process ends before that, the item does not count.
//! - Count and checksum are written when the chunk is full. Until then, the table holds the count. The checksum's seed
//!   is derived from the chunk's position and from the region's current life.
//! - The zeros end a walk over the items.

use crate::entry::{ALIGN, HEADER_BYTES, Seed, padded};

const TAIL_BYTES: usize = 16;
const ENTRY_BYTES: usize = 10;
const NAMED: u16 = 1 << 15;

/// Returns the length in bytes of a footer with `entries` entries, including the zeros before the footer.
pub(crate) const fn footer_bytes(entries: usize) -> usize {
    HEADER_BYTES + ENTRY_BYTES * entries + TAIL_BYTES
}

/// Length of the longest item that an entry can describe, in bytes.
pub(crate) const LONGEST_BYTES: usize = (NAMED as usize - 1) * ALIGN;

/// Returns the offset of entry `number` in a chunk of `chunk_bytes` bytes.
fn place(chunk_bytes: usize, number: usize) -> usize {
    chunk_bytes - TAIL_BYTES - (number + 1) * ENTRY_BYTES
}

/// Writes the entry of an item that no slot references yet.
pub(crate) fn put(chunk: &mut [u8], number: usize, hash: u64, bytes: usize) {
    assert!(bytes <= LONGEST_BYTES, "an item of {bytes} bytes");
    let at = place(chunk.len(), number);
    chunk[at..at + 8].copy_from_slice(&hash.to_le_bytes());
    let units = (padded(bytes) / ALIGN) as u16;
    chunk[at + 8..at + 10].copy_from_slice(&units.to_le_bytes());
}

/// Sets the `named` bit of entry `number`: a slot references the entry's item from now on.
pub(crate) fn name(chunk: &mut [u8], number: usize) {
    let at = place(chunk.len(), number) + 9;
    chunk[at] |= (NAMED >> 8) as u8;
}

/// Completes the footer of a full chunk that begins at `base` of its region, and zeroes the free space after `used`.
pub(crate) fn seal(chunk: &mut [u8], used: usize, count: usize, seed: Seed, base: usize) {
    let (end, first) = (chunk.len(), place(chunk.len(), count) + ENTRY_BYTES);
    chunk[used..first].fill(0);
    chunk[end - 16..end - 12].copy_from_slice(&(count as u32).to_le_bytes());
    chunk[end - 12..end - 8].fill(0);
    let check = seed.check_footer(base, &chunk[first..end - 8]);
    chunk[end - 8..].copy_from_slice(&check.to_le_bytes());
}

/// An iterator over the entries of a footer, from the first item on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entries {
    /// The encoded entries. They are stored backwards, so the first item's entry is the last.
    bytes: Vec<u8>,
    next: usize,
    /// Offset of the next item in the chunk.
    offset: usize,
}

/// An item, as described by its chunk's footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FooterEntry {
    pub(crate) hash: u64,
    /// Offset of the item in the chunk.
    pub(crate) offset: usize,
    /// Length of the item, rounded up to whole units of 8 bytes.
    pub(crate) bytes: usize,
}

/// The result of reading the end of a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Footer {
    Entries(Entries),
    /// The footer is longer than the bytes passed. Holds the number of bytes at the chunk's end to read.
    Longer(usize),
    /// The bytes are not as written.
    Broken,
}

/// Reads the footer of a chunk that begins at `base` of its region. `end` holds the chunk's last bytes.
pub(crate) fn read(end: &[u8], chunk_bytes: usize, base: usize, seed: Seed) -> Footer {
    let len = end.len();
    assert!((TAIL_BYTES..=chunk_bytes).contains(&len), "{len} bytes of a chunk");
    let count = u32::from_le_bytes(end[len - 16..len - 12].try_into().expect("four bytes")) as usize;
    let bytes = count * ENTRY_BYTES + TAIL_BYTES;
    if bytes > chunk_bytes {
        return Footer::Broken;
    }
    if bytes > len {
        return Footer::Longer(bytes);
    }
    let first = len - bytes;
    if end[len - 8..] != seed.check_footer(base, &end[first..len - 8]).to_le_bytes() {
        return Footer::Broken;
    }
    Footer::Entries(Entries { bytes: end[first..len - TAIL_BYTES].to_vec(), next: 0, offset: 0 })
}

impl Entries {
    fn entry(&self) -> Option<(u64, u16)> {
        let behind = self.bytes.len().checked_sub(self.next * ENTRY_BYTES).filter(|behind| *behind > 0)?;
        let entry = &self.bytes[behind - ENTRY_BYTES..behind];
        let (hash, rest) = entry.split_at(8);
        Some((
            u64::from_le_bytes(hash.try_into().expect("eight bytes")),
            u16::from_le_bytes(rest.try_into().expect("two bytes")),
        ))
    }

    /// Returns the next item that a slot referenced, without consuming it. Skips items that no slot referenced.
    pub(crate) fn peek(&mut self) -> Option<FooterEntry> {
        while let Some((hash, rest)) = self.entry() {
            if rest & NAMED != 0 {
                return Some(FooterEntry { hash, offset: self.offset, bytes: usize::from(rest & !NAMED) * ALIGN });
            }
            self.pass();
        }
        None
    }

    /// Consumes the current item.
    pub(crate) fn pass(&mut self) {
        if let Some((_, rest)) = self.entry() {
            self.offset += usize::from(rest & !NAMED) * ALIGN;
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = Seed { salt: 9, region: 4 };

    fn chunk() -> Vec<u8> {
        let mut chunk = vec![0xee; 4096];
        for (number, bytes) in [100, 8, 1000, 33].into_iter().enumerate() {
            put(&mut chunk, number, 70 + number as u64, bytes);
        }
        [0, 1, 3].into_iter().for_each(|number| name(&mut chunk, number));
        seal(&mut chunk, 1152, 4, SEED, 8192);
        chunk
    }

    #[test]
    fn footer_lists_named_items_with_offsets_and_skips_the_others() {
        let chunk = chunk();
        assert!(chunk[1152..4096 - 16 - 40].iter().all(|byte| *byte == 0), "what is free is zero");
        let Footer::Entries(mut entries) = read(&chunk[3000..], 4096, 8192, SEED) else { panic!("it is whole") };
        let mut told = Vec::new();
        while let Some(FooterEntry { hash, offset, bytes }) = entries.peek() {
            told.push((hash, offset, bytes));
            entries.pass();
        }
        assert_eq!(told, [(70, 0, 104), (71, 104, 8), (73, 1112, 40)]);
        assert_eq!(read(&chunk[4096 - 32..], 4096, 8192, SEED), Footer::Longer(56), "more has to be read");
        assert!(matches!(read(&chunk[4096 - 56..], 4096, 8192, SEED), Footer::Entries(_)));
    }

    #[test]
    fn no_changed_byte_and_no_other_place_or_life_passes() {
        let mut chunk = chunk();
        for seed in [Seed { salt: 8, ..SEED }, Seed { region: 5, ..SEED }] {
            assert_eq!(read(&chunk, 4096, 8192, seed), Footer::Broken, "{seed:?}");
        }
        assert_eq!(read(&chunk, 4096, 4096, SEED), Footer::Broken, "another place");
        for at in 4096 - 56..4096 {
            for bit in 0..8 {
                chunk[at] ^= 1 << bit;
                assert!(!matches!(read(&chunk, 4096, 8192, SEED), Footer::Entries(_)), "byte {at} bit {bit}");
                chunk[at] ^= 1 << bit;
            }
        }
        assert_eq!(read(&[0; 4096], 4096, 8192, SEED), Footer::Broken, "nothing was written");
    }
}
