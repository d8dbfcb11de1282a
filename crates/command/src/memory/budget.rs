//! Client memory: one limit on the bytes that connections hold outside the store.
//!
//! ```text
//!   request ── needs bytes that outlive its visit ──> reserve ──┬─ within the bound ──> Grant, returned when dropped
//!                                                               └─ above the bound: error for the client (`OOM ...`)
//!   above 3/4 of the bound: each worker closes its oldest slow reader that holds such bytes
//! ```
//!
//! | kind | counted bytes | maximum share of the bound |
//! |---|---|---|
//! | `queued` | requests of `MULTI` and of commands over several keys, watched keys | all |
//! | `replies` | unsent replies of transactions, and long replies | all |
//! | `requests` | parts of incomplete requests outside buffers: long keys of values received in place | all |
//! | `walks` | the state of a walk over keys, records or fields between two visits | all |
//! | `messages` | messages that wait for subscribers, and the queues of them | all |
//! | `subscriptions` | names of channels and patterns | a half |
//! | `rules` | users of `ACL`, their passwords and rules | a quarter |
//! | `tls` | keys of connections with TLS, their incomplete and unsent records | a half |
//!
//! Invariants:
//! - Bytes are reserved before they are allocated. The reservation counts capacity, not length.
//! - The buffers of the workers are not counted, because they are allocated at start.
//! - The number of used bytes is the sum over all kinds. A [`Grant`] returns its bytes when it is dropped.
//! - Two kinds of reservations may exceed the bound. One is for a message; its slow subscribers are then dropped. The
//!   other is for a command that has already changed an item and must be completed ([`Grant::force`]). Both count as
//!   used bytes, so that further reservations are refused.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// The minimum bound in bytes, even if the store's memory is small.
pub const BYTES_MIN: u64 = 16 << 20;
/// Unless a setting specifies the bound, the bound is the store's memory divided by this number.
pub const MEMORY_PART: u64 = 8;

/// The minimum decrease of used bytes after which freed memory is returned to the kernel, in bytes.
const FALLEN_BYTES_MIN: u64 = 2 << 20;
/// The minimum decrease after which freed memory is returned once clients use no more and no less, in bytes.
const SETTLED_BYTES_MIN: u64 = 128 << 10;

/// The purposes of client memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUse {
    /// Requests of transactions and of commands over several keys, and watched keys.
    Queued,
    /// Unsent replies.
    Replies,
    /// Parts of incomplete requests.
    Requests,
    /// The state of walks over keys, records or fields.
    Walks,
    /// Messages that wait for subscribers.
    Messages,
    /// Names of channels and patterns.
    Subscriptions,
    /// Users and their rules.
    Rules,
    /// Connections with TLS: their keys, and records that are incomplete or unsent.
    Tls,
}

impl MemoryUse {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Queued,
        Self::Replies,
        Self::Requests,
        Self::Walks,
        Self::Messages,
        Self::Subscriptions,
        Self::Rules,
        Self::Tls,
    ];

    /// Returns the kind's name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Replies => "replies",
            Self::Requests => "requests",
            Self::Walks => "walks",
            Self::Messages => "messages",
            Self::Subscriptions => "subscriptions",
            Self::Rules => "rules",
            Self::Tls => "tls",
        }
    }

    /// Returns the divisor for this kind's limit: the kind may use the bound divided by this number. Clients can occupy
    /// some kinds of memory indefinitely. The limits of these kinds leave room for short-lived memory.
    const fn part(self) -> u64 {
        match self {
            Self::Subscriptions | Self::Tls => 2,
            Self::Rules => 4,
            _ => 1,
        }
    }
}

/// The bytes that connections hold outside the store, and their bound.
#[derive(Debug)]
pub struct Budget {
    bytes_max: AtomicU64,
    /// True if the bound depends on the store's memory, because no setting specifies it.
    follows: bool,
    used: AtomicU64,
    /// The highest number of used bytes since [`Budget::has_freed_much`] last returned true.
    peak: AtomicU64,
    kinds: [AtomicU64; MemoryUse::ALL.len()],
    /// The number of refused reservations.
    refused: AtomicU64,
    /// True if a reservation was refused since the last check for slow readers.
    wanted: AtomicBool,
    /// True if the thread that returns freed memory was woken and has not run yet.
    woken: AtomicBool,
    trimmer: OnceLock<Thread>,
}

impl Budget {
    /// Creates the budget for a store of `memory_bytes`. `bytes_max` is the bound if a setting specifies one.
    pub fn new(memory_bytes: u64, bytes_max: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            bytes_max: AtomicU64::new(bytes_max.unwrap_or_else(|| Self::auto(memory_bytes))),
            follows: bytes_max.is_none(),
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            kinds: Default::default(),
            refused: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
            woken: AtomicBool::new(false),
            trimmer: OnceLock::new(),
        })
    }

    /// Returns the default bound for a store of `memory_bytes` bytes.
    pub fn auto(memory_bytes: u64) -> u64 {
        (memory_bytes / MEMORY_PART).max(BYTES_MIN)
    }

    /// Adjusts the bound to a store of `memory_bytes` bytes, unless a setting specifies the bound.
    pub(crate) fn adjust_to(&self, memory_bytes: u64) {
        if self.follows {
            self.bytes_max.store(Self::auto(memory_bytes), Relaxed);
        }
    }

    /// Returns the bound, in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Relaxed)
    }

    /// Returns the bound of a kind, in bytes.
    pub(crate) fn bytes_max_of(&self, kind: MemoryUse) -> u64 {
        self.bytes_max() / kind.part()
    }

    /// Returns the number of used bytes.
    pub fn used(&self) -> u64 {
        self.used.load(Acquire)
    }

    /// Returns the number of used bytes of a kind.
    pub fn used_by(&self, kind: MemoryUse) -> u64 {
        self.kinds[kind as usize].load(Relaxed)
    }

    /// Returns the number of refused reservations.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Returns true if workers must close slow readers: more than three quarters of the bound are used, or a
    /// reservation was refused since the last call.
    pub fn is_short(&self) -> bool {
        let wanted = self.wanted.load(Relaxed) && self.wanted.swap(false, Relaxed);
        wanted || self.is_nearly_full()
    }

    /// Returns true if more than three quarters of the bound are used.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.used() > self.bytes_max() / 4 * 3
    }

    /// Returns true if no more than three quarters of the bound would be used with `bytes` further bytes. A caller that
    /// can wait then reserves them without a need to close slow readers.
    pub(crate) fn has_spare(&self, bytes: u64) -> bool {
        self.used().saturating_add(bytes) <= self.bytes_max() / 4 * 3
    }

    /// Reserves `bytes` bytes. Returns false and reserves nothing if the bound would be exceeded.
    pub fn reserve(&self, kind: MemoryUse, bytes: u64) -> bool {
        let bytes_max = self.bytes_max();
        let within = |used: u64, most: u64| used.checked_add(bytes).filter(|sum| *sum <= most);
        let fits = kind.part() == 1 || within(self.used_by(kind), self.bytes_max_of(kind)).is_some();
        let reserved = match fits {
            true => self.used.fetch_update(AcqRel, Acquire, |used| within(used, bytes_max)).ok(),
            false => None,
        };
        match reserved {
            Some(before) => {
                self.kinds[kind as usize].fetch_add(bytes, Relaxed);
                self.note_peak(before + bytes);
            }
            None => self.refuse(),
        }
        reserved.is_some()
    }

    fn note_peak(&self, used: u64) {
        if used > self.peak.load(Relaxed) {
            self.peak.fetch_max(used, Relaxed);
        }
    }

    /// Sets the thread to unpark whenever [`Budget::has_freed_much`] becomes true. Only the first call has an effect.
    pub fn wake_when_fallen(&self, thread: Thread) {
        self.trimmer.get_or_init(|| thread);
    }

    /// Returns true if the number of used bytes has fallen below its peak by a sixteenth of the bound, and by at least
    /// 2 MiB. The peak is the highest number since this function last returned true.
    pub fn has_freed_much(&self) -> bool {
        self.woken.swap(false, AcqRel);
        let used = self.used();
        let fallen = self.falls_to(used);
        if fallen {
            self.peak.store(used, Relaxed);
        }
        fallen
    }

    /// Returns true if the number of used bytes is still `used_before`, and below its peak by at least 128 KiB. This is
    /// the last part of a fall, which [`Budget::has_freed_much`] does not report.
    pub fn has_settled(&self, used_before: u64) -> bool {
        let used = self.used();
        let settled = used == used_before && self.peak.load(Relaxed).saturating_sub(used) >= SETTLED_BYTES_MIN;
        if settled {
            self.peak.store(used, Relaxed);
        }
        settled
    }

    fn falls_to(&self, used: u64) -> bool {
        self.peak.load(Relaxed).saturating_sub(used) >= (self.bytes_max() / 16).max(FALLEN_BYTES_MIN)
    }

    /// Wakes the trimming thread. Makes no further system call until that thread has run.
    #[cold]
    fn wake_trimmer(&self) {
        if !self.woken.swap(true, AcqRel)
            && let Some(thread) = self.trimmer.get()
        {
            thread.unpark();
        }
    }

    #[cold]
    fn refuse(&self) {
        self.refused.fetch_add(1, Relaxed);
        self.wanted.store(true, Relaxed);
    }

    /// Reserves `bytes` bytes even if the bound is exceeded. Returns true if the total is within the bound.
    pub fn take(&self, kind: MemoryUse, bytes: u64) -> bool {
        self.kinds[kind as usize].fetch_add(bytes, Relaxed);
        let used = self.used.fetch_add(bytes, AcqRel) + bytes;
        self.note_peak(used);
        let within = used <= self.bytes_max();
        if !within {
            self.refuse();
        }
        within
    }

    /// Returns `bytes` reserved bytes to the budget.
    pub fn release(&self, kind: MemoryUse, bytes: u64) {
        self.kinds[kind as usize].fetch_sub(bytes, Relaxed);
        let before = self.used.fetch_sub(bytes, AcqRel);
        debug_assert!(before >= bytes, "more bytes were released than were reserved");
        if self.falls_to(before - bytes) {
            self.wake_trimmer();
        }
    }

    /// Reserves `bytes` bytes until the returned grant is dropped. Returns `None` if the bound would be exceeded.
    pub(crate) fn grant(self: &Arc<Self>, kind: MemoryUse, bytes: u64) -> Option<Grant> {
        let mut grant = Grant::none(self, kind);
        grant.resize(bytes).then_some(grant)
    }
}

/// A reservation in a budget. When the grant is dropped, its bytes return to the budget.
#[derive(Debug)]
pub struct Grant {
    budget: Arc<Budget>,
    kind: MemoryUse,
    bytes: u64,
}

impl Grant {
    /// Creates a grant of 0 bytes.
    pub(crate) fn none(budget: &Arc<Budget>, kind: MemoryUse) -> Self {
        Self { budget: Arc::clone(budget), kind, bytes: 0 }
    }

    /// Returns the number of reserved bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the reservation to `bytes` bytes. Returns false and changes nothing if the bound would be exceeded.
    pub(crate) fn resize(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 && !self.budget.reserve(self.kind, more) {
            return false;
        }
        self.shrink(bytes);
        self.bytes = bytes;
        true
    }

    /// Raises the reservation to at least `bytes` bytes, even above the bound. Used for an operation that has begun and
    /// must be completed.
    pub(crate) fn force(&mut self, bytes: u64) {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            self.budget.take(self.kind, more);
            self.bytes = bytes;
        }
    }

    /// Reduces the reservation to at most `bytes` bytes.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        if less > 0 {
            self.budget.release(self.kind, less);
            self.bytes = bytes;
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

/// The memory of inputs and outputs that one worker has moved out of its buffers. Only this worker writes the counters,
/// and any thread may read them.
#[derive(Debug, Default)]
pub struct SetAside {
    bytes: AtomicU64,
    inputs: AtomicU64,
    outputs: AtomicU64,
}

impl SetAside {
    /// Returns the memory of all inputs and outputs that are set aside, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Returns the number of sessions whose input is set aside.
    pub fn inputs(&self) -> u64 {
        self.inputs.load(Relaxed)
    }

    /// Returns the number of sessions whose output is set aside.
    pub fn outputs(&self) -> u64 {
        self.outputs.load(Relaxed)
    }

    /// Adds `bytes` to the memory that is set aside. To subtract, the caller passes a wrapped negative number. Only the
    /// worker may call this function.
    pub fn add_bytes(&self, bytes: u64) {
        add(&self.bytes, bytes);
    }

    /// Adds `count` to the number of sessions whose input is set aside. Only the worker may call this function.
    pub fn add_inputs(&self, count: u64) {
        add(&self.inputs, count);
    }

    /// Adds `count` to the number of sessions whose output is set aside. Only the worker may call this function.
    pub fn add_outputs(&self, count: u64) {
        add(&self.outputs, count);
    }
}

/// Adds to a number that only the calling thread writes.
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Relaxed).wrapping_add(more), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservation_above_the_budget_reserves_nothing_and_is_counted() {
        let budget = Budget::new(0, Some(100));
        let first = budget.grant(MemoryUse::Replies, 60).expect("it fits");
        assert!(budget.grant(MemoryUse::Queued, 41).is_none() && budget.grant(MemoryUse::Queued, u64::MAX).is_none());
        assert_eq!((budget.used(), budget.used_by(MemoryUse::Queued), budget.refused()), (60, 0, 2));
        let second = budget.grant(MemoryUse::Queued, 40).expect("it fits");
        drop(first);
        assert_eq!((budget.used(), budget.used_by(MemoryUse::Replies), budget.used_by(MemoryUse::Queued)), (40, 0, 40));
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn resized_grant_releases_its_current_size_when_dropped() {
        let budget = Budget::new(0, Some(100));
        let mut grant = Grant::none(&budget, MemoryUse::Walks);
        assert!(grant.resize(70) && grant.resize(30) && grant.resize(100) && !grant.resize(101));
        assert_eq!((grant.bytes(), budget.used()), (100, 100));
        grant.force(120);
        assert!((budget.used(), budget.is_short()) == (120, true));
        assert!(!budget.reserve(MemoryUse::Walks, 1), "what was forced counts");
        grant.shrink(10);
        assert_eq!(budget.used(), 10);
        drop(grant);
        assert_eq!((budget.used(), budget.used_by(MemoryUse::Walks)), (0, 0));
    }

    #[test]
    fn long_lived_kinds_leave_room_for_others() {
        let budget = Budget::new(0, Some(100));
        assert!(budget.reserve(MemoryUse::Rules, 25) && !budget.reserve(MemoryUse::Rules, 1));
        assert!(budget.reserve(MemoryUse::Subscriptions, 50) && !budget.reserve(MemoryUse::Subscriptions, 1));
        assert!(budget.reserve(MemoryUse::Replies, 25) && !budget.reserve(MemoryUse::Replies, 1));
    }

    #[test]
    fn budget_follows_the_memory_size_unless_set_explicitly() {
        let (auto, named) = (Budget::new(1 << 30, None), Budget::new(1 << 30, Some(5)));
        assert_eq!((auto.bytes_max(), named.bytes_max()), (128 << 20, 5));
        auto.adjust_to(64 << 20);
        named.adjust_to(64 << 20);
        assert_eq!((auto.bytes_max(), named.bytes_max()), (BYTES_MIN, 5));
    }

    #[test]
    fn a_decrease_wakes_the_trimmer_once() {
        let budget = Budget::new(0, Some(64 << 20));
        let (asks, asked) = std::sync::mpsc::channel();
        let trims = std::thread::spawn({
            let budget = Arc::clone(&budget);
            move || {
                budget.wake_when_fallen(std::thread::current());
                asks.send(()).expect("the test listens");
                while !budget.has_freed_much() {
                    std::thread::park();
                }
            }
        });
        asked.recv().expect("it waits");
        // The bytes are less than twice a sixteenth of the bound, so the thread must report only one decrease.
        let held: Vec<Grant> = (0..7).filter_map(|_| budget.grant(MemoryUse::Queued, 1 << 20)).collect();
        assert!(!budget.woken.load(Relaxed));
        drop(held);
        trims.join().expect("it was woken");
        assert!(!budget.has_freed_much(), "one fall is reported once");
        let one = budget.grant(MemoryUse::Queued, 3 << 20);
        drop(one);
        assert!(!budget.has_freed_much() && !budget.woken.load(Relaxed), "a small fall is none");
        assert!(!budget.has_settled(1), "the number of used bytes has changed");
        assert!(budget.has_settled(0) && !budget.has_settled(0), "the last part of a fall is reported once");
    }

    #[test]
    fn threads_that_reserve_at_once_never_pass_the_bound() {
        let budget = Budget::new(0, Some(1000));
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let budget = &budget;
                scope.spawn(move || {
                    for round in 0..20_000u64 {
                        let kind = MemoryUse::ALL[(round as usize + worker) % 5];
                        let grant = budget.grant(kind, 1 + (round * 7 + worker as u64) % 600);
                        assert!(budget.used() <= 1000);
                        drop(grant);
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
        assert!(MemoryUse::ALL.iter().all(|kind| budget.used_by(*kind) == 0));
    }
}
