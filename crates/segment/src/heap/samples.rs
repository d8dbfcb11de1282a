//! Samples of requests, for the background. A sample consists of all requests for a small part of the keys, which is
//! chosen by the keys' hashes.
//!
//! ```text
//!   handle: hash & mask == 0 ? ──no──> not recorded   (one load and one test for each request)
//!                            └─yes─> ring of the handle ──read in every slice──> shadow caches
//! ```
//!
//! Because every request for a chosen key is retained, the sample shows the store in miniature. A sample of single
//! requests would not.
//!
//! Bounds: a ring holds [`RING_WORDS`] requests. Requests that arrive while the ring is full are dropped. One thread
//! writes a ring, and another thread empties it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::index::Hash;

/// The number of sampled requests that a ring holds until the background reads them.
const RING_WORDS: usize = 512;
/// The position of the lowest hash bit by which keys are chosen. From there on, the bits do not determine a key's place
/// in the index.
const CHOICE_SHIFT: u32 = 24;
/// The sampling factor of a new store, as a power of two: 1 key in 16 is sampled, so that sampling costs nearly
/// nothing. Only a full store with a few thousand items samples more of them, because fewer would not be significant.
pub(crate) const THIN_START: u32 = 4;
/// The maximum sampling factor, as a power of two. No store holds enough items to need more.
pub(crate) const THIN_MAX: u32 = 30;

/// The kind of a sampled request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// A read that found the key, or a read that missed.
    Read,
    /// A write of an item.
    Store,
}

/// The ring buffer with the sampled requests of one handle.
#[derive(Debug)]
#[repr(align(128))]
struct Ring {
    words: Box<[AtomicU64]>,
    /// The total number of requests that were written to the ring. Only the handle changes this number.
    written: AtomicU64,
    /// The total number of requests that were read from the ring. Only the background changes this number.
    taken: AtomicU64,
}

/// The rings of all handles.
#[derive(Debug)]
pub(crate) struct Samples {
    mask: AtomicU64,
    rings: Box<[Ring]>,
}

impl Samples {
    pub(crate) fn new(handles_max: usize) -> Self {
        let ring = || Ring {
            words: (0..RING_WORDS).map(|_| AtomicU64::new(0)).collect(),
            written: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        };
        let samples = Self { mask: AtomicU64::new(0), rings: (0..handles_max).map(|_| ring()).collect() };
        samples.thin(THIN_START);
        samples
    }

    /// Samples one key in 2^`thin` from now on.
    pub(crate) fn thin(&self, thin: u32) {
        let thin = thin.min(THIN_MAX);
        self.mask.store(((1 << thin) - 1) << CHOICE_SHIFT, Relaxed);
    }

    /// Records a request, if its key is among the sampled keys.
    #[inline(always)]
    pub(crate) fn note(&self, handle: usize, hash: Hash, asked: RequestKind) {
        if hash.0 & self.mask.load(Relaxed) == 0 {
            self.rings[handle].push(hash.0 & !1 | asked as u64);
        }
    }

    /// Calls `each` for every request that was recorded since the last call. Returns false if a ring was full, so that
    /// requests may have been dropped.
    pub(crate) fn take(&self, mut each: impl FnMut(u64, RequestKind)) -> bool {
        let mut is_whole = true;
        for ring in &self.rings {
            let (written, mut taken) = (ring.written.load(Acquire), ring.taken.load(Relaxed));
            is_whole &= written - taken < RING_WORDS as u64;
            while taken != written {
                let word = ring.words[taken as usize % RING_WORDS].load(Relaxed);
                each(word & !1, if word & 1 == 0 { RequestKind::Read } else { RequestKind::Store });
                taken += 1;
            }
            ring.taken.store(taken, Release);
        }
        is_whole
    }

    /// Returns the memory of the rings, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.rings.len() * (RING_WORDS * size_of::<AtomicU64>() + size_of::<Ring>())) as u64
    }
}

impl Ring {
    #[cold]
    fn push(&self, word: u64) {
        let written = self.written.load(Relaxed);
        if written - self.taken.load(Acquire) < RING_WORDS as u64 {
            self.words[written as usize % RING_WORDS].store(word, Relaxed);
            self.written.store(written + 1, Release);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn sampled_requests_are_returned_in_order_and_full_ring_drops_newest() {
        let samples = Samples::new(2);
        let chosen = |n: u64| Hash(n << 40);
        for n in 1..=RING_WORDS as u64 + 9 {
            samples.note(1, chosen(n), if n % 2 == 0 { RequestKind::Read } else { RequestKind::Store });
            samples.note(0, Hash(n << 40 | 1 << CHOICE_SHIFT), RequestKind::Read);
        }
        let mut report = Vec::new();
        let is_whole = samples.take(|hash, asked| report.push((hash >> 40, asked == RequestKind::Read)));
        assert!(!is_whole, "requests were dropped");
        assert_eq!(report, (1..=RING_WORDS as u64).map(|n| (n, n % 2 == 0)).collect::<Vec<_>>());
        samples.note(1, chosen(7), RequestKind::Read);
        report.clear();
        assert!(samples.take(|hash, asked| report.push((hash >> 40, asked == RequestKind::Read))));
        assert_eq!(report, [(7, true)]);
    }
}
