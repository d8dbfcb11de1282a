//! Operations on large values that take several iterations, so that no guard copies more bytes than its share. A join
//! writes a new value from several sources (an append, a splice or a copy). In this module, a *work* is the state of an
//! unfinished join or of an unfinished change of expiry.
//!
//! ```text
//!   append, splice, copy   writes pieces until the iteration's share is used up, records them here ──> Parked
//!                          the same request in a later iteration continues after these pieces
//!                          at the end the head is written, if the key's item has not changed since the beginning
//!   later expiry           sets the expiry of some pieces, records the position here ──> Parked
//!                          at the end the head gets the expiry
//! ```
//!
//! Invariants: a work belongs to one requester, which repeats the same request until it is complete
//! ([`crate::Guard::serve`]). If the item or the bytes of a join differ in a later iteration, the join removes its
//! pieces and starts over. Nothing is published before all pieces are written. Pieces expire somewhat later than their
//! head ([`outlasting`]). So a request whose time to live is counted from a later iteration need not change finished
//! pieces.
//!
//! Bounds: at most [`WORKS_MAX`] works for each per-thread handle. If a handle has that many, a new join waits until
//! another work is complete. A work is dropped if its requester has not repeated the request within two calls of
//! [`crate::ThreadHandle::tidy`].

use base::clock::UnixMillis;

use crate::core::op::Expire;
use crate::core::snap::Snap;
use crate::values::writer::LargeWriter;

/// The maximum number of works of one handle.
const WORKS_MAX: usize = 64;
/// Pieces outlast their head by this many ms, plus its time to live divided by [`OUTLAST_PART`].
const OUTLAST_MS: u64 = 2000;
const OUTLAST_PART: u64 = 8;

/// Returns the expiry of the pieces of a head that expires at `head`: later by more time than a request can take.
pub(crate) fn outlasting(head: Expire, now: UnixMillis) -> Expire {
    match head {
        Expire::Never => Expire::Never,
        Expire::At(end) => Expire::At(end.plus_ms(OUTLAST_MS).plus_ms(end.ms_since(now) / OUTLAST_PART)),
    }
}

/// Returns whether pieces with expiry `pieces` may stay as they are under a head with expiry `head`. Pieces without an
/// expiry may not, if the head has one.
pub(crate) fn outlasts(pieces: Expire, head: Expire) -> bool {
    match (pieces, head) {
        (Expire::At(pieces), Expire::At(head)) => pieces >= head,
        (pieces, head) => pieces == head,
    }
}

/// Returns the earlier of two expiries.
pub(crate) fn earlier(one: Expire, other: Expire) -> Expire {
    match (one, other) {
        (Expire::At(one), Expire::At(other)) => Expire::At(one.min(other)),
        (Expire::Never, other) => other,
        (one, Expire::Never) => one,
    }
}

/// The identity of a join.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinOf {
    pub(crate) namespace: u8,
    /// The hash of the key that the value is for.
    pub(crate) hash: u64,
    /// Expiry of the head.
    pub(crate) expire: Expire,
    /// The present item.
    pub(crate) there: Option<Snap>,
    /// The hash of the lengths and identities of all sources ([`crate::values::source::Source::identity`]).
    pub(crate) sources: u64,
}

impl JoinOf {
    fn same(&self, other: &Self) -> bool {
        let same_item = match (&self.there, &other.there) {
            (None, None) => true,
            (Some(one), Some(other)) => one.same(other),
            _ => false,
        };
        let same_key = self.namespace == other.namespace && self.hash == other.hash;
        same_key && self.sources == other.sources && same_item
    }
}

#[derive(Debug)]
enum Work {
    Join {
        of: JoinOf,
        writer: LargeWriter,
    },
    /// A change of expiry. The pieces of `object` before piece `next` already expire at `lasts` or later.
    Touch {
        object: u64,
        next: u32,
        lasts: Expire,
    },
}

impl Work {
    fn into_writer(self) -> Option<LargeWriter> {
        match self {
            Self::Join { writer, .. } => Some(writer),
            Self::Touch { .. } => None,
        }
    }
}

#[derive(Debug)]
struct UnfinishedValue {
    requester: u64,
    work: Work,
    /// The number of calls of `tidy` since its requester last sent the request.
    idle: u32,
}

/// The unfinished works of one handle, and the share of the current iteration.
#[derive(Debug)]
pub(crate) struct Unfinished {
    begun: Vec<UnfinishedValue>,
    requester: u64,
    /// The number of bytes that the current request may still copy; `u64::MAX`: no limit.
    left: u64,
    /// True if the current request has used its share and continues in a later iteration.
    paused: bool,
}

impl Unfinished {
    /// Creates an empty list. Until [`Unfinished::begin`] is called, requests may copy any number of bytes at once.
    pub(crate) fn new() -> Self {
        Self { begun: Vec::new(), requester: 0, left: u64::MAX, paused: false }
    }

    /// Begins a request of `requester`, which may copy `bytes` bytes.
    #[inline(always)]
    pub(crate) fn begin(&mut self, requester: u64, bytes: u64) {
        (self.requester, self.left, self.paused) = (requester, bytes, false);
    }

    /// Subtracts copied bytes from the share. Returns false if the share is used up.
    pub(crate) fn spend(&mut self, bytes: u64) -> bool {
        if self.left != u64::MAX {
            self.left = self.left.saturating_sub(bytes);
        }
        self.left > 0
    }

    /// Returns true if the current request has used its share.
    pub(crate) fn is_share_used(&self) -> bool {
        self.left == 0
    }

    /// Records that the request continues in a later iteration.
    pub(crate) fn pause(&mut self) {
        self.paused = true;
    }

    /// Returns true if the last request was postponed because it had used its share.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Returns true if the current request needs no later iteration because its share is unlimited, or if there is room
    /// to retain its work. Call this after [`Unfinished::take_join`], which removes the request's previous entry.
    pub(crate) fn can_retain(&self) -> bool {
        self.left == u64::MAX || self.begun.len() < WORKS_MAX
    }

    fn take(&mut self) -> Option<Work> {
        let at = self.begun.iter().position(|begun| begun.requester == self.requester)?;
        Some(self.begun.remove(at).work)
    }

    /// Returns the retained join with this identity, to continue it. The second value is another join of the same
    /// requester, if there is one.
    pub(crate) fn take_join(&mut self, of: &JoinOf) -> (Option<LargeWriter>, Option<LargeWriter>) {
        match self.take() {
            Some(Work::Join { of: begun, writer }) if begun.same(of) && outlasts(writer.expire(), of.expire) => {
                (Some(writer), None)
            }
            other => (None, other.and_then(Work::into_writer)),
        }
    }

    /// Returns the number of the first piece of an object that may still need a later expiry, and the earliest expiry
    /// of the pieces before it. The second value is a join of the same requester, if there is one.
    pub(crate) fn take_touch(&mut self, of: u64, expire: Expire) -> ((u32, Expire), Option<LargeWriter>) {
        let start = (0, Expire::Never);
        match self.take() {
            Some(Work::Touch { object, next, lasts }) if object == of && outlasts(lasts, expire) => {
                ((next, lasts), None)
            }
            other => (start, other.and_then(Work::into_writer)),
        }
    }

    /// Retains a join until its requester repeats the request. [`Unfinished::can_retain`] must have returned true.
    pub(crate) fn retain_join(&mut self, of: JoinOf, writer: LargeWriter) {
        self.retain(Work::Join { of, writer });
    }

    /// Retains the progress of a change of an object's expiry, if there is room: the pieces before `next` already
    /// expire at `lasts` or later. If there is no room, the next request examines all pieces again.
    pub(crate) fn retain_touch(&mut self, object: u64, (next, lasts): (u32, Expire)) {
        self.retain(Work::Touch { object, next, lasts });
    }

    fn retain(&mut self, work: Work) {
        if self.begun.len() < WORKS_MAX {
            self.begun.push(UnfinishedValue { requester: self.requester, work, idle: 0 });
        }
    }

    /// Removes a work whose requester has not repeated the request during two calls of `tidy`. Returns `Some(None)` if
    /// that work has no writer, and `None` if there is no such work.
    pub(crate) fn take_idle(&mut self) -> Option<Option<LargeWriter>> {
        let at = self.begun.iter().position(|begun| begun.idle >= 2)?;
        Some(self.begun.remove(at).work.into_writer())
    }

    /// Counts another call of `tidy` for every work.
    pub(crate) fn grow_older(&mut self) {
        self.begun.iter_mut().for_each(|begun| begun.idle += 1);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }
}
