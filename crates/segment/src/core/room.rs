//! The memory that a namespace may take now: limits, quotas, and the answer where none is free.
//!
//! The state is in [`crate::heap::memory`], [`crate::heap::namespaces`] and [`crate::heap::shortage`], whose texts say
//! what each figure means.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use crate::core::op::OpError;
use crate::core::store::Store;
use crate::heap::config::{HEADER_BYTES, OPEN_MIN};
use crate::heap::memory::ResizeError;
use crate::heap::namespaces::{Terms, TermsError};
use crate::heap::segments::SegmentId;
use crate::heap::shortage::{FLUSHED, UNKNOWN};
use crate::layout::key::Namespace;

/// Index bytes of an item: a slot of 8 bytes at the load that the index is held at.
pub(crate) const INDEX_BYTES_AN_ITEM: u64 = 10;
/// The last segments of a quota, which only the background may take.
const RESERVE: usize = 2;
/// All quotas together are at most this part of the memory, in percent.
const QUOTAS_PERCENT_MAX: u64 = 80;

/// The owner of open segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A data thread's: leaves the reserve of free segments alone.
    ThreadHandle,
    /// The background's, which frees more than it takes.
    Background,
}

impl Store {
    /// Changes the memory that segments and index may use, in bytes. The background does the work from here on, and
    /// reports its progress in [`crate::StoreStats::held_bytes`]. For a smaller memory, the eviction policy chooses the
    /// items to evict.
    ///
    /// # Errors
    /// If it is less than the store needs to go on, or more than address space was reserved for.
    pub fn resize(&self, memory_bytes: u64) -> Result<(), ResizeError> {
        let least_bytes = self.geometry.least_resize_bytes().max(self.least_for_quotas());
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

    /// Returns the memory that was last requested, at start or by [`Store::resize`], in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.wanted_bytes()
    }

    /// Returns the bytes that segments and index hold now: free segments count, decommitted ones do not.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.geometry.bytes_of(self.segments.count(), self.index.groups().max(self.index.groups_next()))
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
        (limit / 50).max(RESERVE + self.geometry.handles_max) + self.spaces.wanted(namespace)
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
            Some(limit) => (limit / 10 / (self.geometry.handles_max + 1)).clamp(OPEN_MIN, most),
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
            Whose::ThreadHandle if !self.spaces.any_quota() => self.memory.free_reserve(),
            Whose::ThreadHandle => self.handle_leaves(namespace).ok_or_else(|| self.no_segment(namespace))?,
        });
        let id = taken.ok_or_else(|| self.no_segment(namespace))?;
        self.spaces.takes(namespace);
        Ok(id)
    }

    /// Returns the number of free segments that a handle has to leave when it takes one for a namespace, if there are
    /// quotas. Returns `None` if it may take none.
    fn handle_leaves(&self, namespace: u8) -> Option<usize> {
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

impl Store {
    /// Checks that there is room for `bytes` more, where nothing is evicted.
    ///
    /// # Errors
    /// [`OpError::Parked`]: there may be some soon; [`OpError::OutOfMemory`]: all of it is alive.
    #[inline(always)]
    pub fn check_room(&self, namespace: Namespace, bytes: u64) -> Result<(), OpError> {
        if self.keeps(namespace) && !self.has_room(namespace, bytes) {
            return Err(self.no_segment(namespace.0));
        }
        Ok(())
    }

    /// Returns the answer for a thread that finds no free segment: to wait for one, or that none will come.
    #[cold]
    #[inline(never)]
    pub(crate) fn no_segment(&self, namespace: u8) -> OpError {
        if self.spaces.keeps(namespace) {
            let pool = self.pool(namespace);
            if self.is_full(pool) {
                return OpError::OutOfMemory;
            }
            self.shortages.asked.fetch_or(1 << pool, Relaxed);
        }
        self.call_background();
        OpError::Parked
    }

    /// Returns true if the background found nothing to win for the pool, and hardly anything has died since.
    fn is_full(&self, pool: u8) -> bool {
        let barren = self.shortages.known[usize::from(pool)].load(Relaxed);
        ![UNKNOWN, FLUSHED].contains(&barren)
            && self.alive_or_free(pool) + self.segments.segment_bytes() as u64 > barren
    }

    /// Returns the namespace under which is kept what is known of this one's.
    pub(crate) fn pool(&self, namespace: u8) -> u8 {
        if self.spaces.has_quota(namespace) { namespace } else { Namespace::DEFAULT.0 }
    }

    /// Returns the bytes of a pool that are alive, or free to be taken: as something dies this goes down.
    pub(crate) fn alive_or_free(&self, pool: u8) -> u64 {
        let alive = match self.spaces.any_quota() {
            true => {
                let pooled = (0..Namespace::MAX as u8).filter(|namespace| self.pool(*namespace) == pool);
                pooled.map(|namespace| self.space_totals(namespace).item_bytes()).sum()
            }
            false => self.totals().item_bytes(),
        };
        alive + (self.free_of(pool) * self.segments.segment_bytes()) as u64
    }
}
