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
//! they are taken and where they become free, and a handle that finds none left waits, or is refused, though there are
//! free ones that belong to others. Each has eviction queues of its own, so what goes for a namespace is its own. Those
//! without a quota share what is left and their eviction.
//!
//! The index is shared. So that many small items cannot take memory from others by making it grow, a quota is charged
//! [`crate::core::room::INDEX_BYTES_AN_ITEM`] for each of its items; and an item never loses its place in a crowded
//! index bucket to one of another quota: the index grows for that, however little it holds.
//!
//! Bounds: the segments of a namespace exceed its quota by those that the background has open for it, which replace
//! others that it empties.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use base::clock::UnixMillis;

use crate::layout::key::Namespace;
use crate::layout::ttl::Expire;

/// The settings of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Memory of its own, and all that it has, in bytes. `None`: it shares what is left with all other such namespaces.
    pub memory_bytes: Option<u64>,
    /// True if nothing of it is evicted: an item that does not fit is refused. Without a quota,
    /// [`crate::Store::keep_all`] sets this.
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
pub(crate) struct Space {
    /// Segments that are its own now, whatever their state.
    pub(crate) used: AtomicUsize,
    /// Its quota in segments as they are now, its share of the index left out; 0: none.
    pub(crate) limit: AtomicUsize,
    pub(crate) quota_bytes: AtomicU64,
    /// Free segments that a large value waits for, beyond those that are always kept.
    pub(crate) wanted: AtomicUsize,
    pub(crate) ttl_default_ms: AtomicU64,
    pub(crate) ttl_max_ms: AtomicU64,
}

/// All namespaces' parts.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    pub(crate) spaces: [Space; Namespace::MAX],
    /// A bit for each with a quota.
    pub(crate) quotas: AtomicU32,
    /// A bit for each whose items are not evicted.
    pub(crate) keeps: AtomicU32,
    /// A bit for each with a rule for times to live.
    pub(crate) ttls: AtomicU32,
}

impl Spaces {
    pub(crate) fn space(&self, namespace: u8) -> &Space {
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
