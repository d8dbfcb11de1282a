//! Decides how much memory a namespace may take now, from the limits and quotas, and which error a thread gets if no
//! segment is free.
//!
//! The state is in [`crate::heap::memory`], [`crate::heap::namespaces`] and [`crate::heap::back_pressure`], whose
//! comments define each figure.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use crate::core::op::OpError;
use crate::core::store::{Store, space_totals, totals};
use crate::heap::back_pressure::{FLUSHED, UNKNOWN};
use crate::heap::config::{HEADER_BYTES, OPEN_MIN};
use crate::heap::memory::ResizeError;
use crate::heap::namespaces::{Terms, TermsError};
use crate::heap::segments::SegmentId;
use crate::layout::key::Namespace;

/// Index bytes for each item: a slot of 8 bytes, divided by the usual share of slots in use.
pub(crate) const INDEX_BYTES_AN_ITEM: u64 = 10;
/// The number of segments in each quota that only the background may take.
const RESERVE: usize = 2;
/// The maximum sum of all quotas, in percent of the memory.
const QUOTAS_PERCENT_MAX: u64 = 80;

/// The owner of a table of open segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A data thread, which may not take segments from the reserve of free segments.
    ThreadHandle,
    /// The background, which may take segments from the reserve, because it frees more segments than it takes.
    Background,
}

impl Store {
    /// Changes the memory limit of segments and index together, in bytes. The background then carries out the resize,
    /// and [`crate::StoreStats::held_bytes`] shows its progress. If the limit is lowered, the eviction policy chooses
    /// the items to evict.
    ///
    /// # Errors
    /// If `memory_bytes` is less than the store needs, or more than the address space that was reserved at start.
    pub fn resize(&self, memory_bytes: u64) -> Result<(), ResizeError> {
        let least_bytes = self.geometry.least_resize_bytes().max(least_for_quotas(self));
        if memory_bytes < least_bytes {
            return Err(ResizeError::TooSmall { least_bytes });
        }
        if memory_bytes > self.geometry.memory_bytes_max {
            return Err(ResizeError::TooLarge { most_bytes: self.geometry.memory_bytes_max });
        }
        self.memory.request(memory_bytes);
        self.call_background();
        Ok(())
    }

    /// Returns the memory limit that was last requested, at start or by [`Store::resize`], in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.wanted_bytes()
    }

    /// Returns true if a value of `value_bytes` bytes fits into the namespace's free memory. The segments that are
    /// always kept free do not count.
    pub fn has_room(&self, namespace: Namespace, value_bytes: u64) -> bool {
        let whole = value_bytes < self.geometry.item_whole_max as u64;
        let wanted = if whole { 0 } else { segments_for(self, value_bytes) };
        free_of(self, namespace.0) > free_low_of(self, namespace.0) + wanted
    }
}

/// Returns the number of bytes that segments and index hold now. Free segments are included, and memory that is not
/// returned to the kernel yet; decommitted segments are not.
pub(crate) fn held_bytes(store: &Store) -> u64 {
    let groups = store.index.groups().max(store.index.groups_next());
    store.geometry.bytes_of(store.segments.count(), groups) + store.ahead.surplus_bytes(&store.segments)
}

impl Store {
    /// Replaces the terms of a namespace (quota, lifetimes, eviction). If the new quota is smaller than the old one,
    /// the background evicts items until the namespace fits into it.
    ///
    /// # Errors
    /// See [`TermsError`]. After an error, nothing was changed.
    pub fn give_terms(&self, namespace: Namespace, terms: &Terms) -> Result<(), TermsError> {
        if terms.memory_bytes.is_some() && namespace == Namespace::DEFAULT {
            return Err(TermsError::Default);
        }
        if terms.keeps && terms.memory_bytes.is_none() && namespace != Namespace::DEFAULT && !self.spaces.keeps(0) {
            return Err(TermsError::KeepsWithoutQuota);
        }
        if let Some(bytes) = terms.memory_bytes {
            let least_bytes = self.geometry.least_quota_bytes();
            let most_bytes = quotas_most_bytes(self, self.memory.wanted_bytes(), Some(namespace));
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
        follow_quota(self, namespace.0);
        set(&self.spaces.quotas, terms.memory_bytes.is_some());
        self.call_background();
        Ok(())
    }
}

/// Returns the largest quota in bytes that fits into a memory of `memory_bytes` bytes beside the quotas of all
/// namespaces except `but`.
fn quotas_most_bytes(store: &Store, memory_bytes: u64, but: Option<Namespace>) -> u64 {
    let most = memory_bytes / 100 * QUOTAS_PERCENT_MAX;
    let most = most.min(memory_bytes.saturating_sub(store.geometry.least_resize_bytes()));
    let others = store.spaces.with_quota().filter(|namespace| Some(Namespace(*namespace)) != but);
    most.saturating_sub(others.map(|namespace| store.spaces.space(namespace).quota_bytes.load(Relaxed)).sum())
}

/// Returns the smallest memory limit at which all quotas can stay as they are, in bytes.
pub(crate) fn least_for_quotas(store: &Store) -> u64 {
    let sum: u64 = store.spaces.with_quota().map(|n| store.spaces.space(n).quota_bytes.load(Relaxed)).sum();
    if sum == 0 {
        return 0;
    }
    (sum.div_ceil(QUOTAS_PERCENT_MAX) * 100 + 100).max(sum + store.geometry.least_resize_bytes())
}

/// Updates the number of segments that a namespace may use: its quota, less the index space of its items.
pub(crate) fn follow_quota(store: &Store, namespace: u8) {
    let space = store.spaces.space(namespace);
    let bytes = space.quota_bytes.load(Relaxed);
    let limit = if bytes == 0 {
        0
    } else {
        let index = space_totals(store, namespace).items() * INDEX_BYTES_AN_ITEM;
        let segment = store.geometry.segment_bytes as u64 + HEADER_BYTES;
        // The open segments need a minimum number of segments, however much index space the items take.
        ((bytes.saturating_sub(index) / segment) as usize).max(store.geometry.quota_segments_min() / 2)
    };
    space.limit.store(limit, Relaxed);
}

/// Returns the number of segments of its quota that the background keeps free for a namespace.
fn low_of(store: &Store, namespace: u8, limit: usize) -> usize {
    (limit / 50).max(RESERVE + store.geometry.handles_max) + store.spaces.wanted(namespace)
}

/// Returns true if a namespace with a quota has too few free segments. `soon` is the number of its segments that will
/// be free soon.
pub(crate) fn is_short(store: &Store, namespace: u8, soon: usize) -> bool {
    let Some(limit) = store.spaces.limit(namespace) else { return false };
    limit + soon < store.spaces.used(namespace) + low_of(store, namespace, limit)
}

/// Returns the number of free segments that are not reserved for a quota.
pub(crate) fn shared_free(store: &Store) -> usize {
    let free = store.segments.free_count();
    if store.spaces.any_quota() { free.saturating_sub(store.spaces.reserved()) } else { free }
}

/// Returns the number of free segments that a namespace may take.
pub(crate) fn free_of(store: &Store, namespace: u8) -> usize {
    match store.spaces.limit(namespace) {
        Some(limit) => limit.saturating_sub(store.spaces.used(namespace)),
        None => shared_free(store),
    }
}

/// Returns the number of segments that the background keeps free for a namespace with a quota, or for all namespaces
/// without a quota together.
pub(crate) fn free_low_of(store: &Store, namespace: u8) -> usize {
    match store.spaces.limit(namespace) {
        Some(limit) => low_of(store, namespace, limit),
        None => store.memory.free_low(),
    }
}

/// Returns the maximum number of open segments of one namespace in one thread's table.
pub(crate) fn open_max_of(store: &Store, namespace: u8) -> usize {
    let most = store.memory.open_max();
    match store.spaces.limit(namespace) {
        Some(limit) => (limit / 10 / (store.geometry.handles_max + 1)).clamp(OPEN_MIN, most),
        None => most,
    }
}

/// Returns the number of segments that a write which spares segments ([`crate::Guard::spare_segments`]) leaves free in
/// addition to the reserve: half of those that the background keeps free, if the namespace's items are never evicted.
fn spared_of(store: &Store, namespace: u8) -> usize {
    if !store.spaces.keeps(namespace) {
        return 0;
    }
    let kept = match store.spaces.limit(namespace) {
        Some(limit) => low_of(store, namespace, limit) - RESERVE,
        None => store.memory.free_low() - store.memory.free_reserve(),
    };
    kept.div_ceil(2)
}

/// Takes a free segment for a namespace, if its limits allow it. If `spares` is true, leaves [`spared_of`] segments.
///
/// # Errors
/// The error that [`no_segment`] returns.
pub(crate) fn take_segment(store: &Store, whose: Whose, namespace: u8, spares: bool) -> Result<SegmentId, OpError> {
    let spared = if spares { spared_of(store, namespace) } else { 0 };
    let taken = store.segments.take_free(match whose {
        Whose::Background => 0,
        Whose::ThreadHandle if !store.spaces.any_quota() => store.memory.free_reserve() + spared,
        Whose::ThreadHandle => handle_leaves(store, namespace, spared).ok_or_else(|| no_segment(store, namespace))?,
    });
    let id = taken.ok_or_else(|| no_segment(store, namespace))?;
    store.spaces.takes(namespace);
    Ok(id)
}

/// Returns the number of segments that must remain free after a data thread takes one for a namespace and leaves
/// `spared` segments of those that the namespace may take. Called if any namespace has a quota. Returns `None` if the
/// thread may take no segment.
fn handle_leaves(store: &Store, namespace: u8, spared: usize) -> Option<usize> {
    let reserve = store.memory.free_reserve();
    let Some(limit) = store.spaces.limit(namespace) else {
        if shared_free(store) < store.free_low() {
            store.call_background();
        }
        return Some(reserve + store.spaces.reserved() + spared);
    };
    if is_short(store, namespace, 0) {
        store.call_background();
    }
    (store.spaces.used(namespace) + RESERVE + spared < limit).then_some(reserve)
}

/// Returns true if a namespace has enough free segments for a large value that takes `segments` segments. Otherwise
/// asks the background to free that number.
pub(crate) fn call_for_segments(store: &Store, namespace: u8, segments: usize) -> bool {
    let Some(limit) = store.spaces.limit(namespace) else {
        let wanted = segments.min(store.segments.count() / 2);
        let room = shared_free(store) >= wanted + store.memory.free_reserve();
        if !room {
            store.room_wanted.fetch_max(wanted, Relaxed);
        }
        return room;
    };
    let wanted = segments.min(limit / 2);
    let room = free_of(store, namespace) >= wanted + RESERVE;
    if !room {
        store.spaces.space(namespace).wanted.fetch_max(wanted, Relaxed);
        store.call_background();
    }
    room
}

/// Returns true if a value of `value_bytes` is more than a third of a namespace's quota.
#[cold]
pub(crate) fn exceeds_quota(store: &Store, namespace: u8, value_bytes: u64) -> bool {
    let limit = store.spaces.limit(namespace);
    limit.is_some_and(|limit| value_bytes * 3 > (limit * store.geometry.segment_bytes) as u64)
}

/// Returns true if two namespaces do not share memory.
pub(crate) fn are_apart(store: &Store, a: u8, b: u8) -> bool {
    a != b && (store.spaces.has_quota(a) || store.spaces.has_quota(b))
}

impl Store {
    /// Checks that there is room for `bytes` more bytes, if the namespace is one whose items are never evicted.
    ///
    /// # Errors
    /// [`OpError::Parked`] if there may be room soon. [`OpError::OutOfMemory`] if live items fill the memory.
    #[inline(always)]
    pub fn check_room(&self, namespace: Namespace, bytes: u64) -> Result<(), OpError> {
        if self.keeps(namespace) && !self.has_room(namespace, bytes) {
            return Err(no_segment(self, namespace.0));
        }
        Ok(())
    }
}

/// Returns the error for a thread that finds no free segment: `Parked` if a segment may become free, and `OutOfMemory`
/// if not.
#[cold]
#[inline(never)]
pub(crate) fn no_segment(store: &Store, namespace: u8) -> OpError {
    if store.spaces.keeps(namespace) {
        let pool = pool(store, namespace);
        if is_full(store, pool) {
            return OpError::OutOfMemory;
        }
        store.shortages.asked.fetch_or(1 << pool, Relaxed);
    }
    store.call_background();
    OpError::Parked
}

/// Returns true if the background has found no memory to free for the pool, and less than a segment's bytes of items
/// have been removed since.
pub(crate) fn is_full(store: &Store, pool: u8) -> bool {
    let barren = store.shortages.known[usize::from(pool)].load(Relaxed);
    ![UNKNOWN, FLUSHED].contains(&barren) && alive_or_free(store, pool) + store.segments.segment_bytes() as u64 > barren
}

/// Returns the pool of a namespace: itself if it has a quota, otherwise the default namespace.
pub(crate) fn pool(store: &Store, namespace: u8) -> u8 {
    if store.spaces.has_quota(namespace) { namespace } else { Namespace::DEFAULT.0 }
}

/// Returns the sum of a pool's bytes in live items and in free segments. The sum falls when items are removed.
pub(crate) fn alive_or_free(store: &Store, number: u8) -> u64 {
    let alive = match store.spaces.any_quota() {
        true => {
            let pooled = (0..Namespace::MAX as u8).filter(|namespace| pool(store, *namespace) == number);
            pooled.map(|namespace| space_totals(store, namespace).item_bytes()).sum()
        }
        false => totals(store).item_bytes(),
    };
    alive + (free_of(store, number) * store.segments.segment_bytes()) as u64
}

/// Returns the number of segments that a large value of `bytes` takes.
pub(crate) fn segments_for(store: &Store, bytes: u64) -> usize {
    // Adds one segment for the open segment in which the value begins, and one for the unused ends of the other
    // segments.
    (bytes * 8).div_ceil(store.geometry.segment_bytes as u64 * 7) as usize + 2
}
