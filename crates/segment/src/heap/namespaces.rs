//! The memory that each namespace may use, and the memory that it uses.
//!
//! ```text
//!   all segments  | namespace 3's | namespace 7's |     shared by all namespaces without a quota  | always |
//!                 | quota         | quota         |                                               | free   |
//!                 | used .. free  | used .. free  | used                    .. free               |        |
//!                   evicts only     evicts only     evicts the oldest items of all these namespaces
//!                   its own items   its own items
//! ```
//!
//! A namespace with a quota can always use the memory of its quota, and never more, regardless of other namespaces. Its
//! segments are counted when they are taken and when they become free. When its quota is used up, a writing thread
//! waits or is refused, even if other segments are free. Each namespace has its own eviction queues. To make room in a
//! namespace with a quota, only its own items are evicted. Namespaces without a quota share the remaining memory, and
//! are evicted from together.
//!
//! The index is shared. Many small items of one namespace must not take memory from others by making the index grow. So
//! each item of a namespace takes [`crate::core::capacity::INDEX_BYTES_AN_ITEM`] bytes of the namespace's quota. In a
//! crowded index bucket, an item never loses its slot to an item of another quota. The index grows instead, even if it
//! holds few items.
//!
//! Bounds: a namespace exceeds its quota only by the segments that the background has open for it. The background fills
//! them with items of segments that it empties.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use base::clock::UnixMillis;

use crate::layout::key::Namespace;
use crate::layout::ttl::Expire;

/// The settings of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The namespace's quota in bytes: memory that is reserved for it, and also its maximum. If `None`, the namespace
    /// shares the remaining memory with all other namespaces without a quota.
    pub memory_bytes: Option<u64>,
    /// True if no item of the namespace is evicted, and an item that does not fit is refused. For namespaces without a
    /// quota, [`crate::Store::set_eviction`] decides this instead.
    pub keeps: bool,
    /// The time to live of an item that is stored without one, in milliseconds. If 0, such an item never expires.
    pub ttl_default_ms: u64,
    /// The maximum time to live of the namespace's items, in milliseconds. If 0, it is unlimited.
    pub ttl_max_ms: u64,
}

/// The reason why the terms of a namespace are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermsError {
    /// The quota is too small for the open segments and the largest item.
    TooSmall {
        /// The smallest possible quota, in bytes.
        least_bytes: u64,
    },
    /// The quota is larger than the memory that remains beside the other quotas and the needs of the default namespace.
    TooLarge {
        /// The largest possible quota, in bytes.
        most_bytes: u64,
    },
    /// The default namespace cannot have a quota: it uses the memory that the quotas of other namespaces leave.
    Default,
    /// Eviction cannot be disabled for a namespace without a quota.
    KeepsWithoutQuota,
}

impl std::fmt::Display for TermsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooSmall { least_bytes } => {
                write!(
                    f,
                    "the quota is too small for the open segments and the largest item: pass at least {least_bytes} \
                     bytes"
                )
            }
            Self::TooLarge { most_bytes } => {
                write!(f, "the quota is more than the other quotas leave: pass at most {most_bytes} bytes")
            }
            Self::Default => f.write_str("the default namespace cannot have a quota; set quotas for the others"),
            Self::KeepsWithoutQuota => {
                f.write_str("eviction cannot be disabled without a quota; set the namespace's quota with memory")
            }
        }
    }
}

impl std::error::Error for TermsError {}

/// The limits and the usage of one namespace.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// The number of segments that the namespace uses now, in any state except free.
    pub(crate) used: AtomicUsize,
    /// The namespace's quota in segments now, less the index space of its items. 0: the namespace has no quota.
    pub(crate) limit: AtomicUsize,
    pub(crate) quota_bytes: AtomicU64,
    /// The number of free segments that a waiting large value needs, in addition to those that are always kept free.
    pub(crate) wanted: AtomicUsize,
    pub(crate) ttl_default_ms: AtomicU64,
    pub(crate) ttl_max_ms: AtomicU64,
}

/// The limits and the usage of all namespaces.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    pub(crate) spaces: [Space; Namespace::MAX],
    /// A bit for each namespace with a quota.
    pub(crate) quotas: AtomicU32,
    /// A bit for each namespace whose items are not evicted.
    pub(crate) keeps: AtomicU32,
    /// A bit for each namespace with a rule for times to live.
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

    /// Decides whether items are evicted: those of the namespace if it has a quota, otherwise those of all namespaces
    /// without one.
    pub(crate) fn set_eviction(&self, namespace: u8, evicts: bool) {
        let quotas = self.quotas.load(Relaxed);
        let bits = if self.has_quota(namespace) { 1 << namespace } else { !quotas };
        match evicts {
            true => self.keeps.fetch_and(!bits, Relaxed),
            false => self.keeps.fetch_or(bits, Relaxed),
        };
    }

    /// Returns the number of segments that the namespace uses.
    pub(crate) fn used(&self, namespace: u8) -> usize {
        self.space(namespace).used.load(Relaxed)
    }

    /// Returns the namespace's quota in segments, less the index space of its items, or `None` if it has no quota.
    pub(crate) fn limit(&self, namespace: u8) -> Option<usize> {
        Some(self.space(namespace).limit.load(Relaxed)).filter(|limit| *limit > 0)
    }

    pub(crate) fn takes(&self, namespace: u8) {
        self.space(namespace).used.fetch_add(1, Relaxed);
    }

    pub(crate) fn gives_back(&self, namespace: u8) {
        self.space(namespace).used.fetch_sub(1, Relaxed);
    }

    /// Returns the number of segments that are reserved for quotas and not used yet.
    pub(crate) fn reserved(&self) -> usize {
        let left = |namespace| self.limit(namespace).unwrap_or(0).saturating_sub(self.used(namespace));
        self.with_quota().map(left).sum()
    }

    /// Returns the number of free segments that a waiting large value of the namespace needs.
    pub(crate) fn wanted(&self, namespace: u8) -> usize {
        self.space(namespace).wanted.load(Relaxed)
    }

    pub(crate) fn stop_wanting(&self, namespace: u8) {
        self.space(namespace).wanted.store(0, Relaxed);
    }

    /// Returns the expiry of a new item: the requested expiry, changed by the namespace's default and maximum time to
    /// live.
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
