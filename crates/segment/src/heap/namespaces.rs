//! What each namespace may take of the store, and what it takes.
//!
//! ```text
//!   all segments  |  quota of 3   |  quota of 7  |       shared by those without a quota        | kept free |
//!                 | used .. free  | used .. free | used                    .. free              |           |
//!                   evicts its      evicts its     evict theirs, the oldest of all of them first
//!                   own             own
//! ```
//!
//! A namespace with a quota has that much memory whatever the others do, and never more: its segments are counted where
//! they are taken and where they become free, and a lane that finds none left waits, or is refused, though there are
//! free ones that belong to others. Each has eviction queues of its own, so what goes for a namespace is its own. Those
//! without a quota share what is left and their eviction.
//!
//! The index is shared. So that many small items cannot take memory from others by making it grow, a quota is charged
//! [`INDEX_BYTES_AN_ITEM`] for each of its items; and an item never loses its place in a crowded index bucket to one of
//! another quota: the index grows for that, however little it holds.
//!
//! Bounds: the segments of a namespace exceed its quota by those that the background has open for it, which replace
//! others that it empties.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use base::clock::UnixMillis;

use crate::core::op::{Expire, OpError};
use crate::heap::config::{HEADER_BYTES, OPEN_MIN};
use crate::heap::open::Whose;
use crate::heap::segments::SegmentId;
use crate::layout::key::Namespace;
use crate::store::Store;

/// Index bytes of an item: a slot of 8 bytes at the load that the index is held at.
pub(crate) const INDEX_BYTES_AN_ITEM: u64 = 10;
/// The last segments of a quota, which only the background may take.
const RESERVE: usize = 2;
/// All quotas together are at most this part of the memory, in percent.
const QUOTAS_PERCENT_MAX: u64 = 80;

/// The settings of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Memory of its own, and all that it has, in bytes. `None`: it shares what is left with all other such namespaces.
    pub memory_bytes: Option<u64>,
    /// True if nothing of it is evicted: an item that does not fit is refused. Without a quota, [`Store::keep_all`]
    /// sets this.
    pub keeps: bool,
    /// Time to live of an item that is stored without an end, in ms; 0: it never ends.
    pub ttl_default_ms: u64,
    /// The longest time to live of its items, in ms; 0: any.
    pub ttl_max_ms: u64,
}

/// Why a namespace cannot be given that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermsError {
    /// Open segments and the largest item need more.
    TooSmall {
        /// Least quota, in bytes.
        least_bytes: u64,
    },
    /// So much is not left beside the other quotas and what the default namespace needs.
    TooLarge {
        /// Largest quota, in bytes.
        most_bytes: u64,
    },
    /// The default namespace has what the others leave.
    Default,
    /// A namespace that shares memory with others cannot keep all of its items.
    KeepsWithoutQuota,
}

impl std::fmt::Display for TermsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooSmall { least_bytes } => {
                write!(f, "too small for what is open and for the item maximum: give at least {least_bytes} bytes")
            }
            Self::TooLarge { most_bytes } => {
                write!(f, "more than is left beside the other quotas: give at most {most_bytes} bytes")
            }
            Self::Default => f.write_str("the default namespace has what the others leave: give them quotas"),
            Self::KeepsWithoutQuota => f.write_str("what shares memory is evicted with the rest: give it a quota"),
        }
    }
}

impl std::error::Error for TermsError {}

/// One namespace's part.
#[derive(Debug, Default)]
struct Space {
    /// Segments that are its own now, whatever their state.
    used: AtomicUsize,
    /// Its quota in segments as they are now, its share of the index left out; 0: none.
    limit: AtomicUsize,
    quota_bytes: AtomicU64,
    /// Free segments that a large value waits for, beyond those that are always kept.
    wanted: AtomicUsize,
    ttl_default_ms: AtomicU64,
    ttl_max_ms: AtomicU64,
}

/// All namespaces' parts.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    spaces: [Space; Namespace::MAX],
    /// A bit for each with a quota.
    quotas: AtomicU32,
    /// A bit for each whose items are not evicted.
    keeps: AtomicU32,
    /// A bit for each with a rule for times to live.
    ttls: AtomicU32,
}

impl Spaces {
    fn space(&self, namespace: u8) -> &Space {
        &self.spaces[usize::from(namespace)]
    }

    /// Returns the namespaces with a quota.
    pub(crate) fn with_quota(&self) -> impl Iterator<Item = u8> + use<> {
        let quotas = self.quotas.load(Relaxed);
        (0..Namespace::MAX as u8).filter(move |namespace| quotas & 1 << namespace != 0)
    }

    pub(crate) fn any_quota(&self) -> bool {
        self.quotas.load(Relaxed) != 0
    }

    pub(crate) fn has_quota(&self, namespace: u8) -> bool {
        self.quotas.load(Relaxed) & 1 << namespace != 0
    }

    #[inline(always)]
    pub(crate) fn keeps(&self, namespace: u8) -> bool {
        self.keeps.load(Relaxed) & 1 << namespace != 0
    }

    pub(crate) fn keep_all(&self) {
        self.keeps.store(u32::MAX, Relaxed);
    }

    /// Returns the number of segments of the namespace.
    pub(crate) fn used(&self, namespace: u8) -> usize {
        self.space(namespace).used.load(Relaxed)
    }

    /// Returns the quota in segments.
    pub(crate) fn limit(&self, namespace: u8) -> Option<usize> {
        Some(self.space(namespace).limit.load(Relaxed)).filter(|limit| *limit > 0)
    }

    pub(crate) fn takes(&self, namespace: u8) {
        self.space(namespace).used.fetch_add(1, Relaxed);
    }

    pub(crate) fn gives_back(&self, namespace: u8) {
        self.space(namespace).used.fetch_sub(1, Relaxed);
    }

    /// Returns the number of segments that belong to quotas and are not used.
    pub(crate) fn reserved(&self) -> usize {
        let left = |namespace| self.limit(namespace).unwrap_or(0).saturating_sub(self.used(namespace));
        self.with_quota().map(left).sum()
    }

    /// Returns the number of segments that a large value of the namespace waits for.
    pub(crate) fn wanted(&self, namespace: u8) -> usize {
        self.space(namespace).wanted.load(Relaxed)
    }

    pub(crate) fn stop_wanting(&self, namespace: u8) {
        self.space(namespace).wanted.store(0, Relaxed);
    }

    /// Returns the requested expiry as the namespace's rule limits it.
    #[inline(always)]
    pub(crate) fn expire(&self, namespace: u8, expire: Expire, now: UnixMillis) -> Expire {
        if self.rules_ttl(namespace) { self.ruled(namespace, expire, now) } else { expire }
    }

    /// Returns true if the namespace has a rule for times to live.
    #[inline(always)]
    pub(crate) fn rules_ttl(&self, namespace: u8) -> bool {
        self.ttls.load(Relaxed) & 1 << namespace != 0
    }

    #[cold]
    fn ruled(&self, namespace: u8, expire: Expire, now: UnixMillis) -> Expire {
        let space = self.space(namespace);
        let within = |ms: u64| (ms > 0).then(|| Expire::At(now.plus_ms(ms)));
        let most = within(space.ttl_max_ms.load(Relaxed));
        match (expire, most) {
            (Expire::Never, _) => within(space.ttl_default_ms.load(Relaxed)).or(most).unwrap_or(Expire::Never),
            (Expire::At(at), Some(Expire::At(most))) => Expire::At(at.min(most)),
            (at, _) => at,
        }
    }
}

impl Store {
    /// Gives a namespace its terms, in the place of those that it has. What it has too much for a smaller quota, the
    /// background evicts.
    ///
    /// # Errors
    /// See [`TermsError`]; nothing is changed then.
    pub fn give_terms(&self, namespace: Namespace, terms: &Terms) -> Result<(), TermsError> {
        if terms.memory_bytes.is_some() && namespace == Namespace::DEFAULT {
            return Err(TermsError::Default);
        }
        if terms.keeps && terms.memory_bytes.is_none() && namespace != Namespace::DEFAULT && !self.spaces.keeps(0) {
            return Err(TermsError::KeepsWithoutQuota);
        }
        if let Some(bytes) = terms.memory_bytes {
            let least_bytes = self.geometry.least_quota_bytes();
            let most_bytes = self.quotas_most_bytes(self.memory.wanted_bytes(), Some(namespace));
            if bytes < least_bytes {
                return Err(TermsError::TooSmall { least_bytes });
            }
            if bytes > most_bytes {
                return Err(TermsError::TooLarge { most_bytes });
            }
        }
        let (space, bit) = (self.spaces.space(namespace.0), 1 << namespace.0);
        let set = |mask: &AtomicU32, on: bool| match on {
            true => mask.fetch_or(bit, Relaxed),
            false => mask.fetch_and(!bit, Relaxed),
        };
        space.ttl_default_ms.store(terms.ttl_default_ms, Relaxed);
        space.ttl_max_ms.store(terms.ttl_max_ms, Relaxed);
        set(&self.spaces.ttls, terms.ttl_default_ms > 0 || terms.ttl_max_ms > 0);
        let keeps = if terms.memory_bytes.is_none() { self.spaces.keeps(0) } else { terms.keeps };
        set(&self.spaces.keeps, keeps);
        space.wanted.store(0, Relaxed);
        space.quota_bytes.store(terms.memory_bytes.unwrap_or(0), Relaxed);
        self.follow_quota(namespace.0);
        set(&self.spaces.quotas, terms.memory_bytes.is_some());
        self.call_background();
        Ok(())
    }

    /// Returns the bytes that the quotas, except that of namespace `but`, leave in a memory of so many bytes.
    fn quotas_most_bytes(&self, memory_bytes: u64, but: Option<Namespace>) -> u64 {
        let most = memory_bytes / 100 * QUOTAS_PERCENT_MAX;
        let most = most.min(memory_bytes.saturating_sub(self.geometry.least_resize_bytes()));
        let others = self.spaces.with_quota().filter(|namespace| Some(Namespace(*namespace)) != but);
        most.saturating_sub(others.map(|namespace| self.spaces.space(namespace).quota_bytes.load(Relaxed)).sum())
    }

    /// Returns the least memory that leaves all quotas what they have, in bytes.
    pub(crate) fn least_for_quotas(&self) -> u64 {
        let sum: u64 = self.spaces.with_quota().map(|n| self.spaces.space(n).quota_bytes.load(Relaxed)).sum();
        if sum == 0 {
            return 0;
        }
        (sum.div_ceil(QUOTAS_PERCENT_MAX) * 100 + 100).max(sum + self.geometry.least_resize_bytes())
    }

    /// Works out how many segments a quota is now.
    pub(crate) fn follow_quota(&self, namespace: u8) {
        let space = self.spaces.space(namespace);
        let bytes = space.quota_bytes.load(Relaxed);
        let limit = if bytes == 0 {
            0
        } else {
            let index = self.space_totals(namespace).items() * INDEX_BYTES_AN_ITEM;
            let segment = self.geometry.segment_bytes as u64 + HEADER_BYTES;
            // However many items there are: what is open has to have room.
            ((bytes.saturating_sub(index) / segment) as usize).max(self.geometry.quota_segments_min() / 2)
        };
        space.limit.store(limit, Relaxed);
    }

    /// Returns the number of its segments that the background keeps free for a namespace with a quota.
    fn low_of(&self, namespace: u8, limit: usize) -> usize {
        (limit / 50).max(RESERVE + self.geometry.lanes_max) + self.spaces.wanted(namespace)
    }

    /// Returns true if segments of the namespace are short. `soon`: those of it that are about to be free.
    pub(crate) fn is_short(&self, namespace: u8, soon: usize) -> bool {
        let Some(limit) = self.spaces.limit(namespace) else { return false };
        limit + soon < self.spaces.used(namespace) + self.low_of(namespace, limit)
    }

    /// Returns the number of free segments that no quota has a right to.
    pub(crate) fn shared_free(&self) -> usize {
        let free = self.segments.free_count();
        if self.spaces.any_quota() { free.saturating_sub(self.spaces.reserved()) } else { free }
    }

    /// Returns the number of free segments that a namespace may take.
    pub(crate) fn free_of(&self, namespace: u8) -> usize {
        match self.spaces.limit(namespace) {
            Some(limit) => limit.saturating_sub(self.spaces.used(namespace)),
            None => self.shared_free(),
        }
    }

    /// Returns the number of segments that the background keeps free for a namespace, or for all that share.
    pub(crate) fn free_low_of(&self, namespace: u8) -> usize {
        match self.spaces.limit(namespace) {
            Some(limit) => self.low_of(namespace, limit),
            None => self.memory.free_low(),
        }
    }

    /// Returns the number of open segments of one namespace that a table may have.
    pub(crate) fn open_max_of(&self, namespace: u8) -> usize {
        let most = self.memory.open_max();
        match self.spaces.limit(namespace) {
            Some(limit) => (limit / 10 / (self.geometry.lanes_max + 1)).clamp(OPEN_MIN, most),
            None => most,
        }
    }

    /// Returns a free segment for a namespace, if it may have one.
    ///
    /// # Errors
    /// As [`Store::no_segment`].
    pub(crate) fn take_segment(&self, whose: Whose, namespace: u8) -> Result<SegmentId, OpError> {
        let taken = self.segments.take_free(match whose {
            Whose::Background => 0,
            Whose::Lane if !self.spaces.any_quota() => self.memory.free_reserve(),
            Whose::Lane => self.lane_leaves(namespace).ok_or_else(|| self.no_segment(namespace))?,
        });
        let id = taken.ok_or_else(|| self.no_segment(namespace))?;
        self.spaces.takes(namespace);
        Ok(id)
    }

    /// Returns the number of free segments that a lane has to leave when it takes one for a namespace, if there are
    /// quotas. Returns `None` if it may take none.
    fn lane_leaves(&self, namespace: u8) -> Option<usize> {
        let reserve = self.memory.free_reserve();
        let Some(limit) = self.spaces.limit(namespace) else {
            if self.shared_free() < self.free_low() {
                self.call_background();
            }
            return Some(reserve + self.spaces.reserved());
        };
        if self.is_short(namespace, 0) {
            self.call_background();
        }
        (self.spaces.used(namespace) + RESERVE < limit).then_some(reserve)
    }

    /// Returns whether the free segments of a namespace hold a large value that takes so many. If not, asks the
    /// background once to free as many.
    pub(crate) fn call_for_segments(&self, namespace: u8, segments: usize) -> bool {
        let Some(limit) = self.spaces.limit(namespace) else {
            let wanted = segments.min(self.segments.count() / 2);
            let room = self.shared_free() >= wanted + self.memory.free_reserve();
            if !room {
                self.room_wanted.fetch_max(wanted, Relaxed);
            }
            return room;
        };
        let wanted = segments.min(limit / 2);
        let room = self.free_of(namespace) >= wanted + RESERVE;
        if !room {
            self.spaces.space(namespace).wanted.fetch_max(wanted, Relaxed);
            self.call_background();
        }
        room
    }

    /// Returns true if a value of so many bytes is more than half of a namespace's quota.
    #[cold]
    pub(crate) fn exceeds_quota(&self, namespace: u8, value_bytes: u64) -> bool {
        let limit = self.spaces.limit(namespace);
        limit.is_some_and(|limit| value_bytes * 2 > (limit * self.geometry.segment_bytes) as u64)
    }

    /// Returns true if two namespaces have their memory apart.
    pub(crate) fn are_apart(&self, a: u8, b: u8) -> bool {
        a != b && (self.spaces.has_quota(a) || self.spaces.has_quota(b))
    }
}
