//! A data thread's handle of the store, and the guard through which it reads and changes items.

use crate::core::op::OpError;
use crate::heap::samples::RequestKind;
use crate::tier::staging::Staging;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use base::clock::UnixMillis;

use crate::core::capacity::Whose;
use crate::core::counters::Counters;
use crate::core::open::OpenTable;
use crate::core::store::Store;
use crate::layout::header::TOKEN_OFFSET_BITS;
use crate::layout::key::{Key, Namespace};
use crate::locks::undo_log::Group;
use crate::tier::reads::Reads;
use crate::values::unfinished::Unfinished;

/// A data thread's access to the store: its epoch, open segments and counters. The handle is `Send`, so that it can be
/// moved to its thread. Only one thread may use a handle at a time.
#[derive(Debug)]
pub struct ThreadHandle {
    store: Arc<Store>,
    own: Own,
}

/// The state that belongs to one handle alone.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) id: usize,
    pub(crate) open: OpenTable,
    pub(crate) tokens: Tokens,
    /// Buffer for the bytes of one piece, while a large value is assembled from other values.
    pub(crate) scratch: Vec<u8>,
    /// Buffer in which a whole new value is built when a byte range of the old one changes.
    pub(crate) change: Vec<u8>,
    /// Changes made for the key lock set that the guard acts for.
    pub(crate) group: RefCell<Group>,
    /// Reads that the handle requested from a second tier.
    pub(crate) reads: Reads,
    /// Large values that are assembled over several iterations.
    pub(crate) unfinished: Unfinished,
}

/// The error if all thread handles of the store are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleError {
    /// Number of thread handles that the store has.
    pub handles_max: usize,
}

impl std::fmt::Display for HandleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "all {} thread handles of the store are in use; open it with more", self.handles_max)
    }
}

impl std::error::Error for HandleError {}

/// CAS tokens for in-place changes. They are taken from a segment sequence that no segment uses, which yields 2^18
/// tokens.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    next: u64,
    left: u64,
}

impl Tokens {
    pub(crate) fn fresh(&mut self, store: &Store) -> u64 {
        if self.left == 0 {
            self.next = store.segments.next_sequence() << TOKEN_OFFSET_BITS;
            self.left = 1 << TOKEN_OFFSET_BITS;
        }
        self.left -= 1;
        self.next += 1;
        self.next - 1
    }
}

impl ThreadHandle {
    pub(crate) fn new(store: Arc<Store>, id: usize) -> Self {
        let open = OpenTable::new(Whose::ThreadHandle);
        let scratch = vec![0; store.geometry.piece_bytes];
        let change = Vec::with_capacity(store.geometry.piece_bytes);
        let (group, reads) = (RefCell::default(), Reads::new(&store));
        let unfinished = Unfinished::new();
        Self { store, own: Own { id, open, tokens: Tokens::default(), scratch, change, group, reads, unfinished } }
    }

    /// Returns the handle's number: handles are numbered from 0 in the order in which they are opened.
    pub fn number(&self) -> usize {
        self.own.id
    }

    /// Begins a guard. Items that are read through the [`Guard`] stay in memory until it is dropped. The guard uses
    /// `now` as the current time.
    #[inline]
    pub fn guard(&mut self, now: UnixMillis) -> Guard<'_> {
        self.store.epochs.enter(self.own.id);
        // This check must follow the entry into the epoch: see `crate::locks::key_locks`.
        let contended = self.store.key_locks.any();
        let tiered = self.store.tier.is_some();
        let (store, own) = (&*self.store, &mut self.own);
        let mut guard = Guard {
            store,
            own,
            now,
            contended,
            tiered,
            acting: 0,
            lost: Cell::new(false),
            unsettled: Cell::new(false),
        };
        if tiered {
            guard.tier_mut().settle_reads();
        }
        guard
    }

    /// Appends to `into` the hashes of keys whose reads of the second tier have completed. Only reads that
    /// [`crate::TierReads::awaited`] has reported are included. A read counts as complete once a guard has begun since
    /// and has taken in its result.
    pub fn take_completed_reads(&mut self, into: &mut Vec<u64>) {
        if self.store.tier.is_some() {
            self.own.reads.with(|reads| reads.take_completed(into));
        }
    }

    /// Returns the number of further flash reads that can be requested now.
    pub fn reads_free(&self) -> usize {
        if self.store.tier.is_some() { self.own.reads.with(|reads| reads.free()) } else { 0 }
    }

    /// Seals open segments that are old or flushed, so that the background can process them. A thread that wakes up
    /// without writing calls this function about once a second.
    pub fn tidy(&mut self, now: UnixMillis) {
        self.own.open.seal_ended(&self.store, now);
        if !self.own.unfinished.is_empty() {
            self.own.unfinished.grow_older();
            let mut guard = self.guard(now);
            while let Some(writer) = guard.own.unfinished.take_idle() {
                if let Some(writer) = writer {
                    guard.large().abort(writer);
                }
            }
        }
    }
}

impl Drop for ThreadHandle {
    fn drop(&mut self) {
        self.own.open.seal_all(&self.store);
    }
}

/// A data thread's access to the store within one epoch.
#[derive(Debug)]
pub struct Guard<'l> {
    /// Inside the crate, values that are read have the lifetime of the store. The public methods shorten that lifetime
    /// to that of the guard.
    pub(crate) store: &'l Store,
    pub(crate) own: &'l mut Own,
    pub(crate) now: UnixMillis,
    /// True if a thread held or had announced a key lock set when the guard began.
    pub(crate) contended: bool,
    /// True if the store has a second tier.
    pub(crate) tiered: bool,
    /// The number of the key lock set under which the guard works, or 0.
    pub(crate) acting: u32,
    /// True if a part of a value was looked up and not found.
    pub(crate) lost: Cell<bool>,
    /// See [`crate::TierReads::take_false_miss`].
    pub(crate) unsettled: Cell<bool>,
}

impl<'l> Guard<'l> {
    /// Returns the guard's time.
    pub fn now(&self) -> UnixMillis {
        self.now
    }

    /// Sets the guard's time, for an operation that takes several guards and sees the same time in all of them.
    pub fn set_now(&mut self, now: UnixMillis) {
        self.now = now;
    }

    /// Begins or resumes the request of `requester`. The request may copy at most `bytes` bytes in this guard. A
    /// request that needs to copy more is parked ([`Guard::is_paused`]). The requester repeats it in later guards, and
    /// it resumes at the same position.
    #[inline(always)]
    pub fn serve(&mut self, requester: u64, bytes: u64) {
        self.own.unfinished.begin(requester, bytes);
    }

    /// Returns true if the last operation was parked only because it has copied as many bytes as [`Guard::serve`]
    /// allowed.
    pub fn is_paused(&self) -> bool {
        self.own.unfinished.is_paused()
    }

    /// Makes this guard's writes leave some free segments of a store without eviction to other writes, until it is
    /// called with false. For requests that let a value grow although the store is full: removals, which need memory
    /// too, then find some.
    pub fn spare_segments(&mut self, spares: bool) {
        self.own.open.spare_segments(spares);
    }

    /// Prepares a key for a lookup.
    #[inline]
    pub fn key<'k>(&self, namespace: Namespace, bytes: &'k [u8]) -> Key<'k> {
        self.store.hasher.key(namespace, bytes)
    }

    /// Records a request for the background, if its key is among the sampled keys.
    #[inline(always)]
    pub(crate) fn sample(&self, key: &Key<'_>, asked: RequestKind) {
        self.store.samples.note(self.own.id, key.hash, asked);
    }

    #[cold]
    pub(crate) fn parked(&self) -> OpError {
        self.counters().parked.add(1);
        OpError::Parked
    }

    /// Returns true if every change must be made to a copy of the item and never in place. That is so under a key lock
    /// set if checkpoints are made. After a power loss, the disk might otherwise contain one change of the set without
    /// the others.
    #[inline(always)]
    pub(crate) fn copies_all(&self) -> bool {
        self.acting != 0 && self.store.checkpoints.are_made()
    }

    /// Returns true if key lock sets are in flight, so that a key has to be checked ([`crate::LockChecks::is_blocked`])
    /// before it is read.
    #[inline(always)]
    pub fn is_contended(&self) -> bool {
        self.contended
    }

    /// Returns true if keys may be unavailable to this guard: because of key lock sets, or because they are on flash.
    #[inline(always)]
    pub fn is_guarded(&self) -> bool {
        self.contended | self.tiered
    }

    /// Returns true if the store has a second tier.
    #[inline(always)]
    pub fn is_tiered(&self) -> bool {
        self.tiered
    }

    /// Begins a request. A new request does not wait for any flash read yet.
    #[inline(always)]
    pub fn begin_request(&self) {
        if self.tiered {
            self.own.reads.with(Staging::begin_request);
        }
    }

    #[inline(always)]
    pub(crate) fn counters(&self) -> &'l Counters {
        &self.store.counters[self.own.id]
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.store.epochs.leave(self.own.id);
    }
}

#[cfg(all(test, not(shuttle)))]
impl ThreadHandle {
    pub(crate) fn own_seal(&mut self, store: &Store) {
        self.own.open.seal_all(store);
    }
}

#[cfg(all(test, shuttle))]
impl ThreadHandle {
    pub(crate) fn seal_for_model(&mut self, store: &Store) {
        self.own.open.seal_all(store);
    }
}
