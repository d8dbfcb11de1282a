//! The memory of a store: 32-bit words that the caller provides, and the checksum of records in it.
//!
//! All words are atomic, so a reader that races with a writer reads a wrong value at worst, and no undefined behaviour
//! exists in this crate. On current CPUs a relaxed load of such a word is an ordinary load.

use std::sync::atomic::Ordering::Relaxed;

#[cfg(not(shuttle))]
pub use std::sync::atomic::AtomicU32;

#[cfg(shuttle)]
pub use shuttle::sync::atomic::AtomicU32;

/// The memory that a store lives in, zeroed or with the contents of an earlier store. It may be anonymous memory or a
/// memory file. Its address and size stay the same for the store's life.
pub trait Backing: Send + Sync + 'static {
    /// Returns the words.
    fn words(&self) -> &[AtomicU32];
}

/// Words in anonymous memory.
impl Backing for Box<[AtomicU32]> {
    fn words(&self) -> &[AtomicU32] {
        self
    }
}

/// Allocates zeroed anonymous memory of `bytes` bytes, rounded down to whole words.
#[must_use]
pub fn anonymous(bytes: usize) -> Box<[AtomicU32]> {
    (0..bytes / 4).map(|_| AtomicU32::new(0)).collect()
}

/// Returns a copy of memory, for tests of recovery.
#[must_use]
pub fn image(words: &[AtomicU32]) -> Box<[AtomicU32]> {
    words.iter().map(|word| AtomicU32::new(word.load(Relaxed))).collect()
}

/// The tables of CRC-32C (Castagnoli) for eight bytes at a time. A constant would be copied to each place of its use.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut byte = 0;
    while byte < 256 {
        let mut table = 1;
        while table < 8 {
            let before: u32 = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            table += 1;
        }
        byte += 1;
    }
    tables
};

/// Returns the CRC-32C of words, as little-endian bytes, continued from `seed`.
pub(crate) fn crc32c(seed: u32, mut words: impl Iterator<Item = u32>) -> u32 {
    // The share of a word that `TABLES[table..]` are for.
    let share = |word: u32, table: usize| {
        TABLES[table + 3][(word & 0xFF) as usize]
            ^ TABLES[table + 2][(word >> 8 & 0xFF) as usize]
            ^ TABLES[table + 1][(word >> 16 & 0xFF) as usize]
            ^ TABLES[table][(word >> 24) as usize]
    };
    let mut crc = !seed;
    while let Some(first) = words.next() {
        // Two words at a time: the share of the second one does not wait for that of the first.
        crc = match words.next() {
            Some(second) => share(crc ^ first, 4) ^ share(second, 0),
            None => share(crc ^ first, 0),
        };
    }
    !crc
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn checksum_equals_the_published_value() {
        // RFC 3720, appendix B.4: 32 bytes of zeros, and the bytes 0 to 31.
        assert_eq!(crc32c(0, std::iter::repeat_n(0, 8)), 0x8A91_36AA);
        let ascending = (0..8u32).map(|word| u32::from_le_bytes([0, 1, 2, 3].map(|byte| (word * 4) as u8 + byte)));
        assert_eq!(crc32c(0, ascending.clone()), 0x46DD_794E);
        for words in 0..8 {
            let (start, rest) = (ascending.clone().take(words), ascending.clone().skip(words));
            assert_eq!(crc32c(crc32c(0, start), rest), 0x46DD_794E, "{words} words and the rest");
        }
    }
}
