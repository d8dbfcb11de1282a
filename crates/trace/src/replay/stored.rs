//! The keys whose values can no longer be checked, because the replay changed them in place.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::prng::split_mix;

/// The number of bits, as a power of two.
const BITS_LOG: u32 = 22;

/// Keys that were appended to or incremented, as bits by their hashes. Other keys with the same bit are not checked
/// either. The set never shrinks and never grows in memory.
#[derive(Debug)]
pub struct Altered {
    words: Box<[AtomicU64]>,
}

impl Default for Altered {
    fn default() -> Self {
        Self { words: (0..1usize << (BITS_LOG - 6)).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Altered {
    fn place(key: u64) -> (usize, u64) {
        let bit = split_mix(key) >> (64 - BITS_LOG);
        ((bit >> 6) as usize, 1 << (bit & 63))
    }

    /// Marks `key`: its value can no longer be checked.
    pub fn add(&self, key: u64) {
        let (word, bit) = Self::place(key);
        if self.words[word].load(Relaxed) & bit == 0 {
            self.words[word].fetch_or(bit, Relaxed);
        }
    }

    /// Returns true if the value of `key` cannot be checked.
    pub fn has(&self, key: u64) -> bool {
        let (word, bit) = Self::place(key);
        self.words[word].load(Relaxed) & bit != 0
    }
}
