//! Large values that are put together over several turns, so that no turn copies more than its share.
//!
//! ```text
//!   append, splice, copy of a large value
//!     join    some pieces, until the turn's share is used up ──> Parked, what is written is kept here
//!     join    the same request in a later turn: the same item, the same lengths ──> goes on behind what is written
//!     commit  the head, if the item that is there is still the one that the join began with
//! ```
//!
//! Invariants: a join belongs to one requester, who repeats the same request until it is answered
//! ([`crate::Turn::serve`]); one that is met with another item or other lengths begins anew, and what it had written is
//! removed. Nothing is published before all is written.
//!
//! Bounds: [`JOINS_MAX`] for each per-thread handle, the oldest goes first; one whose requester has not come back for
//! two calls of [`crate::Lane::tidy`] goes too.

use crate::large::LargeWriter;
use crate::op::Expire;
use crate::write::Snap;

/// Joins that one handle keeps.
const JOINS_MAX: usize = 64;
/// Sources of a join at most.
pub(crate) const SOURCES_MAX: usize = 4;

/// What tells one join from another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinOf {
    pub(crate) namespace: u8,
    /// The hash of the key that the value is for.
    pub(crate) hash: u64,
    /// When its pieces end: no head may outlive them.
    pub(crate) expire: Expire,
    /// The item that is there.
    pub(crate) there: Option<Snap>,
    /// How long each source is, and of a large one which it is.
    pub(crate) sources: [(u64, u64); SOURCES_MAX],
}

impl JoinOf {
    fn same(&self, other: &Self) -> bool {
        let same_item = match (&self.there, &other.there) {
            (None, None) => true,
            (Some(one), Some(other)) => one.same(other),
            _ => false,
        };
        let same_key = self.namespace == other.namespace && self.hash == other.hash;
        same_key && self.expire == other.expire && self.sources == other.sources && same_item
    }
}

#[derive(Debug)]
struct Join {
    requester: u64,
    of: JoinOf,
    writer: LargeWriter,
    /// Calls of `tidy` since its requester came last.
    idle: u32,
}

/// The joins of one handle that are not at their end, and the share of the turn at hand.
#[derive(Debug)]
pub(crate) struct Unfinished {
    joins: Vec<Join>,
    requester: u64,
    /// Bytes that the request at hand may still copy.
    left: u64,
    /// The request at hand has used its share, and goes on in a later turn.
    paused: bool,
}

impl Unfinished {
    /// None; requests have no share but do all at once until [`Unfinished::begin`] is called.
    pub(crate) fn new() -> Self {
        Self { joins: Vec::new(), requester: 0, left: u64::MAX, paused: false }
    }

    /// A request of `requester` begins, and may copy so many bytes.
    #[inline(always)]
    pub(crate) fn begin(&mut self, requester: u64, bytes: u64) {
        (self.requester, self.left, self.paused) = (requester, bytes, false);
    }

    /// Counts bytes that are copied; false if the share is used up.
    pub(crate) fn spend(&mut self, bytes: u64) -> bool {
        if self.left != u64::MAX {
            self.left = self.left.saturating_sub(bytes);
        }
        self.left > 0
    }

    /// The request at hand has used its share.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Notes that the request goes on in a later turn.
    pub(crate) fn pause(&mut self) {
        self.paused = true;
    }

    /// Whether the last request was put off since it had used its share.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// The join that this is, to go on with; one of the same requester that is not it comes back as the second.
    pub(crate) fn take(&mut self, of: &JoinOf) -> (Option<LargeWriter>, Option<LargeWriter>) {
        let Some(at) = self.joins.iter().position(|join| join.requester == self.requester) else { return (None, None) };
        let join = self.joins.remove(at);
        if join.of.same(of) { (Some(join.writer), None) } else { (None, Some(join.writer)) }
    }

    /// Keeps a join; the oldest one comes back if there are too many.
    pub(crate) fn keep(&mut self, of: JoinOf, writer: LargeWriter) -> Option<LargeWriter> {
        let oldest = (self.joins.len() == JOINS_MAX).then(|| self.joins.remove(0).writer);
        self.joins.push(Join { requester: self.requester, of, writer, idle: 0 });
        self.paused = true;
        oldest
    }

    /// One whose requester has not come back since two calls ago.
    pub(crate) fn take_idle(&mut self) -> Option<LargeWriter> {
        let at = self.joins.iter().position(|join| join.idle >= 2)?;
        Some(self.joins.remove(at).writer)
    }

    /// Another call of `tidy`.
    pub(crate) fn grow_older(&mut self) {
        self.joins.iter_mut().for_each(|join| join.idle += 1);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.joins.is_empty()
    }
}
