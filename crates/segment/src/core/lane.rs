//! A data thread's way into the store, and one turn of it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use base::clock::UnixMillis;

use crate::core::counters::Counters;
use crate::core::open::OpenTable;
use crate::core::room::Whose;
use crate::core::store::Store;
use crate::layout::header::TOKEN_OFFSET_BITS;
use crate::layout::key::{Key, Namespace};
use crate::locks::undo_log::Group;
use crate::tier::reads::Reads;
use crate::values::unfinished::Unfinished;

/// One data thread's epoch word, open segments and counters. `Send`, for a thread to take it along; used by one
/// thread at a time.
#[derive(Debug)]
pub struct Lane {
    store: Arc<Store>,
    own: Own,
}

/// State that a lane alone uses.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) id: usize,
    pub(crate) open: OpenTable,
    pub(crate) tokens: Tokens,
    /// A piece's bytes, while a large value is put together from others.
    pub(crate) scratch: Vec<u8>,
    /// The value that [`Turn::change`] is to store.
    pub(crate) change: Vec<u8>,
    /// Changes made for the claim that the turn acts for.
    pub(crate) group: RefCell<Group>,
    /// Reads that the lane requested from a second tier.
    pub(crate) reads: Reads,
    /// Large values that are put together over several turns.
    pub(crate) unfinished: Unfinished,
}

/// No lane is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneError {
    /// Number of lanes.
    pub lanes_max: usize,
}

impl std::fmt::Display for LaneError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "all {} lanes of the store are taken: make it with more", self.lanes_max)
    }
}

impl std::error::Error for LaneError {}

/// CAS tokens for changes in place: a segment sequence that no segment gets, and its 2^18 offsets.
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

impl Lane {
    pub(crate) fn new(store: Arc<Store>, id: usize) -> Self {
        let open = OpenTable::new(Whose::Lane);
        let scratch = vec![0; store.geometry.piece_bytes];
        let change = Vec::with_capacity(store.geometry.piece_bytes);
        let (group, reads) = (RefCell::default(), Reads::new(&store));
        let unfinished = Unfinished::new();
        Self { store, own: Own { id, open, tokens: Tokens::default(), scratch, change, group, reads, unfinished } }
    }

    /// Returns the lane's number: lanes are numbered from 0 in the order in which they are opened.
    pub fn number(&self) -> usize {
        self.own.id
    }

    /// Begins a turn: what it reads stays until the [`Turn`] is dropped. `now` is the turn's time.
    #[inline]
    pub fn turn(&mut self, now: UnixMillis) -> Turn<'_> {
        self.store.epochs.enter(self.own.id);
        // Behind the entry, never before: see `crate::locks::claim`.
        let contended = self.store.claims.any();
        let tiered = self.store.tier.is_some();
        let (store, own) = (&*self.store, &mut self.own);
        let mut turn =
            Turn { store, own, now, contended, tiered, acting: 0, lost: Cell::new(false), unsettled: Cell::new(false) };
        if tiered {
            turn.settle_reads();
        }
        turn
    }

    /// Appends the hashes of keys whose reads have completed, of those reads that [`Turn::awaited`] reported. A read
    /// counts as complete once a turn that has begun has taken it in.
    pub fn take_landed(&mut self, into: &mut Vec<u64>) {
        if self.store.tier.is_some() {
            self.own.reads.with(|reads| reads.take_landed(into));
        }
    }

    /// Reads of flash that could be asked for now.
    pub fn reads_free(&self) -> usize {
        if self.store.tier.is_some() { self.own.reads.with(|reads| reads.free()) } else { 0 }
    }

    /// Seals open segments that are old or flushed, so that the background can have them. For a thread that wakes
    /// without writing; call it about once a second.
    pub fn tidy(&mut self, now: UnixMillis) {
        self.own.open.seal_ended(&self.store, now);
        if !self.own.unfinished.is_empty() {
            self.own.unfinished.grow_older();
            let mut turn = self.turn(now);
            while let Some(writer) = turn.own.unfinished.take_idle() {
                if let Some(writer) = writer {
                    turn.large_abort(writer);
                }
            }
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.own.open.seal_all(&self.store);
    }
}

/// One turn of a data thread's loop, inside an epoch.
#[derive(Debug)]
pub struct Turn<'l> {
    /// Inside the crate, what is read lives as long as the store; the public methods tie it to the turn.
    pub(crate) store: &'l Store,
    pub(crate) own: &'l mut Own,
    pub(crate) now: UnixMillis,
    /// Claims are in flight.
    pub(crate) contended: bool,
    /// There is a second tier.
    pub(crate) tiered: bool,
    /// The number of the claim that it acts for, or 0.
    pub(crate) acting: u32,
    /// A part of a value was looked for and not found.
    pub(crate) lost: Cell<bool>,
    /// See [`Turn::takes_unsettled`].
    pub(crate) unsettled: Cell<bool>,
}

impl<'l> Turn<'l> {
    /// Returns the turn's time.
    pub fn now(&self) -> UnixMillis {
        self.now
    }

    /// Begins a visit of a requester, which repeats a request until it is answered. The request copies at most `bytes`
    /// in this turn. If it needs more, it is parked and goes on later where it was ([`Turn::is_paused`]).
    #[inline(always)]
    pub fn serve(&mut self, requester: u64, bytes: u64) {
        self.own.unfinished.begin(requester, bytes);
    }

    /// Returns whether the last operation was parked only because its share of the turn is used up.
    pub fn is_paused(&self) -> bool {
        self.own.unfinished.is_paused()
    }

    /// Makes a key ready to be looked up.
    #[inline]
    pub fn key<'k>(&self, namespace: Namespace, bytes: &'k [u8]) -> Key<'k> {
        self.store.hasher.key(namespace, bytes)
    }

    /// Brings the key's first index bucket into the cache: call it for a batch of keys, then [`Turn::look_ahead`] for
    /// each, then [`Turn::read`].
    #[inline]
    pub fn prefetch(&self, key: &Key<'_>) {
        self.store.index.prefetch(key.hash);
    }

    /// Prefetches a key that is about to be changed: both of its index buckets, and what is written beside them.
    #[inline]
    pub fn prefetch_change(&self, key: &Key<'_>) {
        self.store.index.prefetch_change(key.hash);
    }

    #[inline(always)]
    pub(crate) fn counters(&self) -> &'l Counters {
        &self.store.counters[self.own.id]
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.store.epochs.leave(self.own.id);
    }
}

#[cfg(all(test, not(shuttle)))]
impl Lane {
    pub(crate) fn own_seal(&mut self, store: &Store) {
        self.own.open.seal_all(store);
    }
}

#[cfg(all(test, shuttle))]
impl Lane {
    pub(crate) fn seal_for_model(&mut self, store: &Store) {
        self.own.open.seal_all(store);
    }
}
