//! The latest slow requests of one worker: a ring with one writer, which readers never hold up.
//!
//! Each entry is a sequence lock: the writer makes the entry's sequence odd, writes the words, and makes it even. A
//! reader that saw an odd sequence, or two different ones, leaves that entry out.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};

use base::clock::UnixMillis;

use super::command::Command;

/// Slow requests that are kept for each worker.
pub const SLOW_MAX: usize = 64;

/// A request that took longer than the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// When its reply had been sent.
    pub at: UnixMillis,
    /// Who served it.
    pub worker: usize,
    /// What it was.
    pub command: Command,
    /// The hash of its key as the store places it; 0 if that is not known.
    pub key_hash: u64,
    /// From the arrival of its bytes to its execution, in ns.
    pub wait_ns: u64,
    /// Its execution, in ns.
    pub execute_ns: u64,
    /// From its execution until the kernel had taken the reply, in ns.
    pub send_ns: u64,
}

impl SlowRequest {
    /// All parts together, in ns. Saturates.
    pub const fn total_ns(&self) -> u64 {
        self.wait_ns.saturating_add(self.execute_ns).saturating_add(self.send_ns)
    }
}

#[derive(Debug, Default)]
struct Entry {
    sequence: AtomicU64,
    words: [AtomicU64; 6],
}

impl Entry {
    fn write(&self, words: [u64; 6]) {
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence + 1, Relaxed);
        fence(Release);
        for (place, word) in self.words.iter().zip(words) {
            place.store(word, Relaxed);
        }
        self.sequence.store(sequence + 2, Release);
    }

    fn read(&self) -> Option<[u64; 6]> {
        let before = self.sequence.load(Acquire);
        if before == 0 || before % 2 == 1 {
            return None;
        }
        let words = std::array::from_fn(|place| self.words[place].load(Relaxed));
        fence(Acquire);
        (self.sequence.load(Relaxed) == before).then_some(words)
    }
}

/// The ring.
#[derive(Debug)]
pub struct SlowRing {
    entries: Box<[Entry]>,
    pushed: AtomicU64,
}

impl Default for SlowRing {
    fn default() -> Self {
        Self { entries: (0..SLOW_MAX).map(|_| Entry::default()).collect(), pushed: AtomicU64::new(0) }
    }
}

impl SlowRing {
    /// Keeps `request`, in the place of the oldest if the ring is full. Only the owner's thread may.
    pub fn push(&self, request: &SlowRequest) {
        let pushed = self.pushed.load(Relaxed);
        self.entries[pushed as usize % SLOW_MAX].write([
            request.at.0,
            request.command as u64,
            request.key_hash,
            request.wait_ns,
            request.execute_ns,
            request.send_ns,
        ]);
        self.pushed.store(pushed + 1, Relaxed);
    }

    /// How many were kept since start, also those that newer ones have replaced.
    pub fn total(&self) -> u64 {
        self.pushed.load(Relaxed)
    }

    /// What is in the ring now, in no particular order, as requests of worker number `worker`. An entry that is being
    /// written is left out.
    pub fn read(&self, worker: usize) -> Vec<SlowRequest> {
        let request = |[at, command, key_hash, wait_ns, execute_ns, send_ns]: [u64; 6]| SlowRequest {
            at: UnixMillis(at),
            worker,
            command: Command::ALL[command as usize],
            key_hash,
            wait_ns,
            execute_ns,
            send_ns,
        };
        self.entries.iter().filter_map(Entry::read).map(request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64) -> SlowRequest {
        SlowRequest {
            at: UnixMillis(number),
            worker: 0,
            command: Command::Get,
            key_hash: number,
            wait_ns: number,
            execute_ns: number,
            send_ns: number,
        }
    }

    #[test]
    fn a_full_ring_forgets_the_oldest() {
        let ring = SlowRing::default();
        assert!(ring.read(0).is_empty());
        for number in 0..SLOW_MAX as u64 + 5 {
            ring.push(&request(number));
        }
        let mut kept: Vec<u64> = ring.read(0).iter().map(|request| request.at.0).collect();
        kept.sort_unstable();
        assert_eq!(kept, (5..SLOW_MAX as u64 + 5).collect::<Vec<_>>());
        assert_eq!(ring.total(), SLOW_MAX as u64 + 5);
    }

    #[test]
    fn a_reader_never_sees_half_an_entry_while_it_is_written() {
        let ring = SlowRing::default();
        let done = std::sync::atomic::AtomicBool::new(false);
        let (mut seen, mut latest) = (0u64, 0u64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 0;
                while !done.load(Relaxed) {
                    number += 1;
                    ring.push(&request(number));
                }
            });
            while seen < 200_000 {
                for request in ring.read(0) {
                    seen += 1;
                    let at = request.at.0;
                    latest = latest.max(at);
                    assert_eq!((request.key_hash, request.wait_ns, request.send_ns), (at, at, at));
                }
            }
            done.store(true, Relaxed);
        });
        assert!(latest > SLOW_MAX as u64, "the writer never came round while entries were read");
    }
}
