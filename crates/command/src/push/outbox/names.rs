//! Names of channels and patterns, and the sets of their subscribers' outboxes.
//!
//! Names are ordered by a keyed hash, then by their bytes. Two names are therefore compared byte by byte only if they
//! are almost certainly equal, even if clients choose names with a long common prefix. All sets are trees, so that an
//! insertion moves no other entries.

use super::queue::Outbox;
use arrayvec::ArrayVec;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum number of receivers that are taken from a set under one lock.
pub(crate) const RECEIVERS_A_LOCK: usize = 64;

/// A name in its stored form, with its hash.
#[derive(Clone, Debug)]
pub(crate) struct ChannelName {
    hash: u64,
    bytes: Arc<[u8]>,
}

impl ChannelName {
    pub(crate) fn new(hash: u64, bytes: &[u8]) -> Self {
        Self { hash, bytes: bytes.into() }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn shared(&self) -> Arc<[u8]> {
        Arc::clone(&self.bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A name with its hash, stored or borrowed for a lookup.
pub(crate) trait Hashed {
    fn parts(&self) -> (u64, &[u8]);
}

impl Hashed for ChannelName {
    fn parts(&self) -> (u64, &[u8]) {
        (self.hash, &self.bytes)
    }
}

impl Hashed for (u64, &[u8]) {
    fn parts(&self) -> (u64, &[u8]) {
        *self
    }
}

impl<'n> Borrow<dyn Hashed + 'n> for ChannelName {
    fn borrow(&self) -> &(dyn Hashed + 'n) {
        self
    }
}

impl PartialEq for dyn Hashed + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Hashed + '_ {}

impl PartialOrd for dyn Hashed + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Hashed + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialEq for ChannelName {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for ChannelName {}

impl PartialOrd for ChannelName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ChannelName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

/// A set of outboxes, ordered by their numbers. A walk stores the number of the outbox after which it continues. This
/// number stays valid while outboxes are added or removed.
#[derive(Debug)]
pub(crate) enum Receivers {
    One(Arc<Outbox>),
    Many(BTreeMap<u64, Arc<Outbox>>),
}

impl Receivers {
    /// Returns the number of outboxes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(many) => many.len(),
        }
    }

    /// Adds an outbox that is not in the set.
    pub(crate) fn add(&mut self, outbox: &Arc<Outbox>) {
        if let Self::One(one) = self {
            *self = Self::Many(BTreeMap::from([(one.id, Arc::clone(one))]));
        }
        if let Self::Many(many) = self {
            many.insert(outbox.id, Arc::clone(outbox));
        }
    }

    /// Removes an outbox. Returns the number of remaining outboxes, or `None` if the outbox was not in the set.
    pub(crate) fn remove(&mut self, outbox: &Outbox) -> Option<usize> {
        match self {
            Self::One(one) => (one.id == outbox.id).then_some(0),
            Self::Many(many) => many.remove(&outbox.id).map(|_| many.len()),
        }
    }

    /// Copies the next outboxes into `into`, from number `from` on.
    pub(crate) fn take(&self, from: u64, into: &mut ArrayVec<Arc<Outbox>, RECEIVERS_A_LOCK>) {
        match self {
            Self::One(one) if one.id >= from => into.push(Arc::clone(one)),
            Self::One(_) => {}
            Self::Many(many) => into.extend(many.range(from..).map(|(_, one)| Arc::clone(one)).take(into.capacity())),
        }
    }
}
