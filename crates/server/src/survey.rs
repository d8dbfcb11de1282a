//! What is slow to find out: the census of segments and the memory that the kernel gave. A thread of its own finds it
//! out now and then, and the others read what it found last. It also puts minutes of hot keys away
//! ([`crate::hot_keys`]), and returns freed client memory to the kernel as soon as [`crate::budget`] wakes it: until
//! then clients can allocate as much again elsewhere in the heaps.
//!
//! Invariant: a worker that tells `stats` walks no segment headers and reads nothing of `/proc` about memory.

use crate::shared::Shared;
use base::units::ByteSize;
use segment::{Census, Store};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Greatest age of a census.
const CENSUS_STEP: Duration = Duration::from_secs(1);
/// The least time between two returns of freed memory: threads that allocate wait while one is under way.
const TRIM_PAUSE: Duration = Duration::from_millis(10);
/// Huge pages are counted with every tenth census, from the second on: the kernel walks page tables for it.
const PAGES_EVERY: u64 = 10;

/// The latest findings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Findings {
    /// Segments by state and their dead bytes, a second old at most.
    pub census: Census,
    /// Bytes of the store that huge pages stand behind, about ten seconds old at most; 0 in the first second.
    pub huge_page_bytes: u64,
}

/// The latest findings, shared. The lock is held only while a few words are copied.
#[derive(Debug)]
pub struct Survey {
    latest: Mutex<Findings>,
}

impl Survey {
    pub(crate) fn new(store: &Store) -> Self {
        Self { latest: Mutex::new(Findings { census: store.census(), huge_page_bytes: 0 }) }
    }

    /// Returns what was found last.
    pub fn latest(&self) -> Findings {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, findings: Findings) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = findings;
    }
}

/// Surveys until the workers are gone. An unpark makes it look whether they are, and whether memory was freed.
pub(crate) fn run(shared: &Shared) {
    shared.budget.wake_when_fallen(std::thread::current());
    let mut found = shared.survey.latest();
    let mut rounds = 0;
    let mut due = Instant::now();
    while !shared.stop.workers_gone() {
        if Instant::now() >= due {
            look(shared, rounds, &mut found);
            rounds += 1;
            due = Instant::now() + CENSUS_STEP;
        }
        if shared.budget.has_fallen() {
            io::allocation::trim();
            std::thread::sleep(TRIM_PAUSE);
        }
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
    }
}

/// Takes the census, and whatever else is due in this round.
fn look(shared: &Shared, round: u64, found: &mut Findings) {
    if round % PAGES_EVERY == 1 {
        found.huge_page_bytes = shared.store.huge_page_bytes().unwrap_or(0);
    }
    if round == 1 && shared.config.huge_pages {
        say_huge_pages(found.huge_page_bytes);
    }
    found.census = shared.store.census();
    shared.survey.publish(*found);
    shared.roll_minutes(shared.now());
}

/// Says what was had, a second after the start: by then the background has got the memory that is used first.
fn say_huge_pages(bytes: u64) {
    let whole_mib = |bytes: u64| ByteSize(bytes >> 20 << 20);
    let (had, of) = (whole_mib(bytes), whole_mib(resident_bytes().unwrap_or(0)));
    if bytes > 0 {
        tracing::info!("huge pages stand behind {had} of the {of} in use so far");
    } else {
        tracing::warn!("huge pages were asked for and none were had for the {of} in use so far");
    }
}

/// Memory of this process that is in RAM; `None` where the kernel does not say.
pub(crate) fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use crate::start::{ServerConfig, assemble};
    use base::clock::UnixMillis;
    use segment::{Namespace, Put};

    #[test]
    fn counters_are_of_now_though_the_census_is_old() {
        let config = ServerConfig { huge_pages: false, ..ServerConfig::default() };
        let now = UnixMillis(1_700_000_000_000);
        let (shared, _background) = assemble(config, now).expect("a store");
        let mut handle = shared.store.handle().expect("a thread handle");
        let mut guard = handle.guard(now);
        let key = guard.key(Namespace::DEFAULT, b"k");
        guard.put(&key, &Put::set(b"v")).expect("room");
        drop(guard);
        let (told, walked) = (shared.store_stats(), shared.store.stats());
        assert_eq!((told.items, told.item_bytes), (1, walked.item_bytes));
        assert_eq!((told.segments[1], walked.segments[1]), (0, 1), "open segments");
        let count: u64 = walked.segments.iter().sum();
        assert_eq!((told.segments[0], walked.segments[0]), (count, count - 1), "free segments");
    }
}
