//! The command `watch`, and its connections (watchers), which receive events of items as lines of memcached's log
//! stream.
//!
//! ```text
//!   worker 0 ── a batch's events ──> Lines ──┐  publish, after the batch         take, by the watcher's own worker
//!   worker 1 ── a batch's events ──> Lines ──┼──────────────────────> Queue ────────────────────> output, socket
//!   background ── evictions ───────> Lines ──┘   (one queue for each watcher; its worker is woken)
//! ```
//!
//! A watcher is an ordinary session. After its `watch` command, its further input is discarded. One word,
//! [`Hub::watched`], counts the watchers of each kind of event. A worker reads this word once in each batch and once in
//! each iteration. While the word is 0, `watch` causes no further cost.
//!
//! Bounds:
//!
//! | bounded | maximum | when it is exceeded |
//! |---|---|---|
//! | watchers | [`WATCHERS_MAX`] | `WATCHER_TOO_MANY` |
//! | lines of one worker's batch, or of one slice of the background thread | 128 KiB | the line is dropped |
//! | unread lines of a watcher | [`QUEUE_BYTES`] | the line is dropped |
//! | length of a line | about 1 KiB | cannot happen: keys have a maximum length |
//!
//! A thread allocates its 128 KiB when it writes its first line, and frees this memory when the last watcher has ended.
//! A queue exists as long as its watcher. In the place of lost lines, a watcher receives their number: `skipped=N`. No
//! thread waits for a watcher. A watcher that does not read is not closed. It occupies one output buffer and its queue.
//!
//! Invariants: without watchers, no lock is taken and no memory is allocated for `watch`. A lock is held while bytes
//! are copied, but never during a system call. A queue holds only whole lines until bytes are taken from it.

mod evictions;
mod lines;
mod queue;

pub use evictions::Evictions;
use lines::LINE_BYTES_MAX;
pub use lines::{LINES_BYTES, Lines};
pub(crate) use lines::{LineHead, StoreEvent};
pub use queue::QUEUE_BYTES;

use queue::WatchQueue;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of watchers at the same time.
pub const WATCHERS_MAX: usize = 20;

/// The number of kinds of events that can be watched.
const KINDS: usize = 5;
/// The counts of a watcher of all kinds.
const ALL_KINDS: u64 = 0x01_0101_0101;

/// The bit of a handed-over watcher's kinds that stands for [`WatchKind::Connections`].
const CONNECTIONS_SHIFT: u32 = 1;

/// The reason for the end of a connection, as a watcher's line reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloseReason {
    /// An error of the connection, or its client was too slow.
    #[default]
    Error,
    /// The client closed the connection, or a request was its last one.
    Normal,
    /// The client was silent for too long.
    IdleTimeout,
    /// The server stops.
    Shutdown,
}

impl CloseReason {
    /// Returns memcached's word for the reason.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Normal => "normal",
            Self::IdleTimeout => "idle_timeout",
            Self::Shutdown => "shutdown",
        }
    }
}

/// The kinds of events that can be watched. The number of a kind is the position of its byte in [`Watched`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchKind {
    /// Lookups of keys.
    Fetchers,
    /// Storage commands.
    Mutations,
    /// Evictions.
    Evictions,
    /// Deletions by a client.
    Deletions,
    /// Connections that open or close.
    Connections,
}

impl WatchKind {
    /// All kinds, in the order of their bytes in [`Watched`].
    const ALL: [Self; KINDS] = [Self::Fetchers, Self::Mutations, Self::Evictions, Self::Deletions, Self::Connections];

    const fn shift(self) -> u32 {
        8 * self as u32
    }
}

/// The number of watchers of each kind. Each kind has one byte, so that one addition adds or removes a watcher of
/// several kinds.
///
/// ```text
///    39         32 31       24 23       16 15        8 7         0
///   [ connections | deletions | evictions | mutations | fetchers  ]     each at most WATCHERS_MAX
/// ```
/// A count never needs the highest bit of its byte. These bits stand for other reasons to inspect a request. Bit 40:
/// clients track keys. Bit 39: clients wait for keys.
/// Bit 31: requests are counted by key prefix. Bit 23: a client is in MONITOR mode. Bit 15: key events are published.
/// Bit 7: events about new keys or misses are published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched(u64);

const _: () = assert!(WATCHERS_MAX < 0x80);

/// The bit that is set while clients track keys.
const TRACKING: u64 = 1 << 40;
/// The bit that is set while clients wait for keys.
const WAITERS: u64 = 1 << 39;
/// The bit that is set while requests are counted by key prefix.
const PREFIXES: u64 = 1 << 31;
/// The bit that is set while a client is in MONITOR mode.
const COMMANDS: u64 = 1 << 23;
/// The bit that is set while key events are published.
const CHANGES: u64 = 1 << 15;
/// The bit that is set while events about new keys or misses are published.
const ABSENCES: u64 = 1 << 7;

impl Watched {
    /// Returns these counts plus one watcher of `kind`.
    pub(crate) const fn and(self, kind: WatchKind) -> Self {
        Self(self.0 + (1 << kind.shift()))
    }

    /// Returns true if there is any watcher, or any other reason to inspect requests.
    #[inline]
    pub fn any(self) -> bool {
        self.0 != 0
    }

    /// Returns true if `kind` has a watcher.
    #[inline]
    pub(crate) const fn has(self, kind: WatchKind) -> bool {
        (self.0 >> kind.shift()) & 0x7f != 0
    }

    /// Returns true if requests are counted by key prefix.
    #[inline]
    pub(crate) const fn counts_prefixes(self) -> bool {
        self.0 & PREFIXES != 0
    }

    /// Returns true if a client is in MONITOR mode.
    #[inline]
    pub(crate) const fn has_monitors(self) -> bool {
        self.0 & COMMANDS != 0
    }

    /// Returns true if key events are published.
    #[inline]
    pub(crate) const fn has_key_events(self) -> bool {
        self.0 & CHANGES != 0
    }

    /// Returns true if clients wait for keys.
    pub(crate) const fn has_waiters(self) -> bool {
        self.0 & WAITERS != 0
    }

    /// Returns true if clients track keys.
    pub(crate) const fn has_trackers(self) -> bool {
        self.0 & TRACKING != 0
    }

    /// Returns true if each change of a key has to be reported: key events are published, or clients wait for keys or
    /// track them.
    #[inline]
    pub(crate) const fn reports_changes(self) -> bool {
        self.0 & (CHANGES | WAITERS | TRACKING) != 0
    }

    /// Returns true if events about new keys or misses are published.
    #[inline]
    pub(crate) const fn has_absence_events(self) -> bool {
        self.0 & ABSENCES != 0
    }

    /// Returns true if each request of a Redis client has to be inspected.
    #[inline]
    pub(crate) const fn inspects_each_request(self) -> bool {
        self.0 & (COMMANDS | ABSENCES) != 0
    }
}

/// The state that watchers share with the threads whose events are watched.
#[derive(Debug, Default)]
pub struct Hub {
    watched: AtomicU64,
    /// The number of entries of clients in queues for the end of a stream (`WaitKind::Group`).
    group_waiters: AtomicU64,
    /// The number of the last line, which is also the total number of lines.
    numbered: AtomicU64,
    slots: [Slot; WATCHERS_MAX],
    /// The number of lines that workers and the background thread passed to the queues, whether or not a queue had
    /// room.
    pub written: AtomicU64,
    /// The number of lines that were dropped because a worker or the background thread had no room for them.
    pub dropped: AtomicU64,
    /// The number of lines that were put into queues, counted once for each watcher.
    pub sent: AtomicU64,
    /// The number of lines that watchers did not receive, counted once for each watcher.
    pub skipped: AtomicU64,
}

/// The slot of one watcher.
#[derive(Debug, Default)]
struct Slot {
    /// The kinds of events that the watcher has selected, as in [`Watched`]. 0: the slot is free.
    kinds: AtomicU64,
    /// The watcher's worker in the upper 32 bits, and its connection in the lower 32 bits.
    owner: AtomicU64,
    /// True if the queue has bytes to send. Only written under the lock.
    waiting: AtomicBool,
    queue: Mutex<Option<WatchQueue>>,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<WatchQueue>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of a watcher. When this struct is dropped, the slot is released.
#[derive(Debug)]
pub(crate) struct Watching {
    hub: Arc<Hub>,
    slot: usize,
}

impl Watching {
    fn slot(&self) -> &Slot {
        &self.hub.slots[self.slot]
    }

    /// Returns the kinds of events that the watcher has selected, for [`Hub::watch_again`].
    pub(crate) fn kinds(&self) -> u32 {
        let kinds = self.slot().kinds.load(Relaxed);
        kinds as u32 | ((kinds >> 32) as u32) << CONNECTIONS_SHIFT
    }

    /// Returns true if the queue has bytes to send.
    pub(crate) fn is_waiting(&self) -> bool {
        self.slot().waiting.load(Acquire)
    }

    /// Copies the next bytes of the queue to the beginning of `into`, and removes them from the queue. Returns their
    /// number.
    pub(crate) fn take(&self, into: &mut [u8]) -> usize {
        let slot = self.slot();
        let mut locked = slot.lock();
        let Some(queue) = &mut *locked else { return 0 };
        let taken = queue.take(into);
        if queue.is_empty() {
            slot.waiting.store(false, Relaxed);
        }
        taken
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let slot = &self.hub.slots[self.slot];
        let mut queue = slot.lock();
        let kinds = slot.kinds.swap(0, Relaxed);
        slot.waiting.store(false, Relaxed);
        *queue = None;
        self.hub.watched.fetch_sub(kinds, Release);
    }
}

impl Hub {
    /// Returns the current counts of watchers, and the other reasons to inspect requests.
    #[inline]
    pub fn watched(&self) -> Watched {
        Watched(self.watched.load(Relaxed))
    }

    /// Enables or disables counting of requests by key prefix, from each worker's next batch on.
    pub fn count_prefixes(&self, on: bool) {
        self.switch(PREFIXES, on);
    }

    /// Enables or disables the sending of commands to monitoring clients, from each worker's next batch on.
    pub(crate) fn set_monitors(&self, on: bool) {
        self.switch(COMMANDS, on);
    }

    /// Returns true if a client is in MONITOR mode.
    pub fn has_monitors(&self) -> bool {
        self.watched().has_monitors()
    }

    /// Enables or disables the publication of key events, and of those about new keys or misses, from each worker's
    /// next batch on.
    pub(crate) fn set_key_events(&self, on: bool, of_absent: bool) {
        self.switch(CHANGES, on);
        self.switch(ABSENCES, of_absent);
    }

    /// Records whether clients wait for keys. Guards that begin after the next `SeqCst` fence see the change.
    pub(crate) fn set_waiters(&self, on: bool) {
        self.switch(WAITERS, on);
    }

    /// Counts the entries of clients that wait for the entries of a group, or for the end of its stream.
    pub(crate) fn count_group_waiters(&self, joins: bool) {
        if joins {
            self.group_waiters.fetch_add(1, Relaxed);
        } else {
            self.group_waiters.fetch_sub(1, Relaxed);
        }
    }

    /// Returns true if a client waits for the end of a stream.
    pub(crate) fn has_group_waiters(&self) -> bool {
        self.group_waiters.load(Relaxed) != 0
    }

    /// Records whether clients track keys. Guards that begin after the next `SeqCst` fence see the change.
    pub(crate) fn set_trackers(&self, on: bool) {
        self.switch(TRACKING, on);
    }

    fn switch(&self, bit: u64, on: bool) {
        if on {
            self.watched.fetch_or(bit, Relaxed);
        } else {
            self.watched.fetch_and(!bit, Relaxed);
        }
    }

    /// Returns the number of watchers.
    pub fn watchers(&self) -> u64 {
        self.slots.iter().filter(|slot| slot.kinds.load(Relaxed) != 0).count() as u64
    }

    /// Returns a new line number. Sorting the lines of several threads by these numbers gives the order of their
    /// events.
    pub(crate) fn number(&self) -> u64 {
        self.numbered.fetch_add(1, Relaxed) + 1
    }

    /// Restores a watcher after a handover. `kinds` is the value of [`Watching::kinds`] in the previous process.
    pub(crate) fn watch_again(hub: &Arc<Self>, kinds: u32, worker: usize, connection: u32) -> Option<Watching> {
        let connections = u64::from(kinds >> CONNECTIONS_SHIFT & 1) << 32;
        let kinds = Watched((u64::from(kinds) | connections) & ALL_KINDS);
        if kinds.any() { Self::watch(hub, kinds, worker, connection) } else { None }
    }

    /// Registers connection `connection` of worker `worker` as a watcher of `kinds`, which has a count of at most 1 for
    /// each kind. Returns `None` if there are already [`WATCHERS_MAX`] watchers.
    pub(crate) fn watch(hub: &Arc<Self>, kinds: Watched, worker: usize, connection: u32) -> Option<Watching> {
        debug_assert!(kinds.any() && kinds.0 & !ALL_KINDS == 0, "a watcher of nothing, or more than one");
        for (number, slot) in hub.slots.iter().enumerate() {
            let mut queue = slot.lock();
            if queue.is_none() {
                *queue = Some(WatchQueue::new());
                slot.owner.store((worker as u64) << 32 | u64::from(connection), Relaxed);
                slot.kinds.store(kinds.0, Relaxed);
                hub.watched.fetch_add(kinds.0, Release);
                return Some(Watching { hub: Arc::clone(hub), slot: number });
            }
        }
        None
    }

    /// Appends `lines` to the queues of their watchers, and empties `lines`. Calls `note` with the worker and the
    /// connection of each watcher whose queue was empty.
    pub fn publish(&self, lines: &mut Lines, mut note: impl FnMut(usize, u32)) {
        if lines.is_empty() {
            return;
        }
        let (mut sent, mut skipped) = (0, 0);
        for slot in &self.slots {
            if slot.kinds.load(Relaxed) == 0 {
                continue;
            }
            let mut locked = slot.lock();
            let Some(queue) = &mut *locked else { continue };
            let kinds = Watched(slot.kinds.load(Relaxed));
            let was_empty = queue.is_empty();
            for (kind, line) in lines.each() {
                if kinds.has(kind) {
                    if queue.push(line) {
                        sent += 1;
                    } else {
                        skipped += 1;
                    }
                }
            }
            let dropped =
                WatchKind::ALL.into_iter().filter(|kind| kinds.has(*kind)).map(|kind| lines.dropped(kind)).sum();
            queue.skip(dropped);
            skipped += dropped;
            if was_empty && !queue.is_empty() {
                slot.waiting.store(true, Release);
                drop(locked);
                let owner = slot.owner.load(Relaxed);
                note((owner >> 32) as usize, owner as u32);
            }
        }
        self.written.fetch_add(lines.count(), Relaxed);
        self.dropped.fetch_add(WatchKind::ALL.into_iter().map(|kind| lines.dropped(kind)).sum(), Relaxed);
        self.sent.fetch_add(sent, Relaxed);
        self.skipped.fetch_add(skipped, Relaxed);
        lines.clear();
    }
}

/// A worker's state for `watch`.
#[derive(Debug, Default)]
pub struct Watch {
    /// The watchers at the beginning of this batch, and the other reasons to inspect requests.
    pub watched: Watched,
    /// The number of the connection that is being served.
    pub connection: u32,
    /// The lines of this batch that are not published yet.
    pub lines: Lines,
}

#[cfg(test)]
mod tests {
    use super::lines::LINES_BYTES;
    use super::*;

    fn report(lines: &mut Lines, kind: WatchKind, text: &'static [u8]) {
        lines.write_line(kind, |line| protocol::sink::Sink::put(line, text));
    }

    fn taken(watching: &Watching) -> Vec<u8> {
        let mut bytes = vec![0; QUEUE_BYTES];
        let len = watching.take(&mut bytes);
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn watcher_receives_only_its_subscribed_kinds_and_is_woken_once() {
        let hub = Arc::new(Hub::default());
        let first = Hub::watch(&hub, Watched::default().and(WatchKind::Fetchers), 3, 7).unwrap();
        let second =
            Hub::watch(&hub, Watched::default().and(WatchKind::Fetchers).and(WatchKind::Mutations), 5, 8).unwrap();
        let mut lines = Lines::default();
        let mut woken = Vec::new();
        for _ in 0..2 {
            report(&mut lines, WatchKind::Fetchers, b"get\n");
            report(&mut lines, WatchKind::Mutations, b"set\n");
            report(&mut lines, WatchKind::Evictions, b"out\n");
            hub.publish(&mut lines, |worker, connection| woken.push((worker, connection)));
            assert!(lines.is_empty());
        }
        assert_eq!(woken, [(3, 7), (5, 8)]);
        assert!(first.is_waiting() && second.is_waiting());
        assert_eq!((taken(&first), taken(&second)), (b"get\nget\n".to_vec(), b"get\nset\nget\nset\n".to_vec()));
        assert_eq!((first.is_waiting(), hub.sent.load(Relaxed)), (false, 6));
        drop(first);
        assert!(hub.watched().has(WatchKind::Fetchers) && hub.watched().has(WatchKind::Mutations));
        drop(second);
        assert!(!hub.watched().any() && hub.watchers() == 0);
    }

    #[test]
    fn a_place_that_was_given_up_is_free_for_the_next_watcher_and_not_before() {
        let hub = Arc::new(Hub::default());
        let all = WatchKind::ALL.into_iter().fold(Watched::default(), Watched::and);
        let mut held: Vec<_> = (0..WATCHERS_MAX).map(|n| Hub::watch(&hub, all, 0, n as u32).unwrap()).collect();
        assert!(Hub::watch(&hub, all, 0, 99).is_none());
        drop(held.remove(4));
        let again = Hub::watch(&hub, all, 1, 99).unwrap();
        assert_eq!((again.slot, hub.watchers()), (4, WATCHERS_MAX as u64));
        drop((again, held));
        assert!(!hub.watched().any());
    }

    #[test]
    fn lines_dropped_by_a_worker_count_as_skipped() {
        let hub = Arc::new(Hub::default());
        let gets = Hub::watch(&hub, Watched::default().and(WatchKind::Fetchers), 0, 0).unwrap();
        let sets = Hub::watch(&hub, Watched::default().and(WatchKind::Mutations), 0, 1).unwrap();
        let mut lines = Lines::default();
        let long = Box::leak(vec![b'x'; LINE_BYTES_MAX].into_boxed_slice());
        let total = LINES_BYTES as u64 / LINE_BYTES_MAX as u64 + 10;
        (0..total).for_each(|_| report(&mut lines, WatchKind::Fetchers, long));
        hub.publish(&mut lines, |_, _| {});
        let dropped = hub.dropped.load(Relaxed);
        assert!(dropped >= 10 && dropped + hub.written.load(Relaxed) == total, "{dropped}");
        let replied = taken(&gets);
        assert!(replied.ends_with(format!("skipped={}\n", hub.skipped.load(Relaxed)).as_bytes()));
        assert_eq!(hub.sent.load(Relaxed) + hub.skipped.load(Relaxed), total);
        assert_eq!(taken(&sets), b"");
    }
}
