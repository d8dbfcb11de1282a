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

/// The tables of CRC-32C (Castagnoli) for four bytes at a time.
const TABLES: [[u32; 256]; 4] = {
    let mut tables = [[0; 256]; 4];
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
        while table < 4 {
            let before: u32 = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            table += 1;
        }
        byte += 1;
    }
    tables
};

/// Returns the CRC-32C of words, as little-endian bytes, continued from `seed`.
pub(crate) fn crc32c(seed: u32, words: impl Iterator<Item = u32>) -> u32 {
    let mut crc = !seed;
    for word in words {
        let x = crc ^ word;
        crc = TABLES[3][(x & 0xFF) as usize]
            ^ TABLES[2][(x >> 8 & 0xFF) as usize]
            ^ TABLES[1][(x >> 16 & 0xFF) as usize]
            ^ TABLES[0][(x >> 24) as usize];
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
        assert_eq!(crc32c(0, ascending), 0x46DD_794E);
    }
}
