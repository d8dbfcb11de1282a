//! The index, which maps a key's hash to the slot that names the key's item.
//!
//! ```text
//!  hash   63                     32 31        18 17    12 11       0
//!        +-------------------------+------------+--------+----------+
//!        |  group hash 32          |            | bucket |   tag    |
//!        +-------------------------+------------+--------+----------+
//!  group = group hash * groups >> 32         any number of groups
//!
//!  group: 64 index buckets of 8 slots, 4 KiB. A key lives in `bucket` or in `bucket ^ f(tag)` of its group.
//! ```
//!
//! - **Readers take no lock.** They search both index buckets. A slot that moves to its other bucket is copied, then
//!   its stripe's move counter is incremented, then the old copy is cleared. A reader that finds nothing searches again
//!   if the counter or the growth word has changed meanwhile.
//! - **Every change is made under the stripe lock of the group** (4096 stripes, group modulo 4096). A worker tries to
//!   take the lock a bounded number of times and then parks its operation.
//! - **Growth** increases the number of groups in place, beginning with the last group: see [`growth`]. [`shrink`]
//!   decreases it.
//!
//! Bounds: the index never allocates; its address space is reserved for the largest number of groups.

pub(crate) mod ghosts;
pub(crate) mod growth;
mod order;
pub(crate) mod repair;
mod room;
mod shrink;
mod tiered;

pub(crate) use order::{Order, Part};

use std::io;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

pub(crate) use crate::layout::key::Hash;
use crate::layout::persistent::PersistentPage;
use crate::layout::raw::{Array, Word32, Word64, prefetch_line_of};
use crate::layout::slot::Slot;

/// The number of slots in an index bucket, which fills one cache line.
pub(crate) const BUCKET_SLOTS: usize = 8;
/// The number of index buckets in a group.
pub(crate) const GROUP_BUCKETS: usize = 64;
/// The number of slots in a group.
pub(crate) const GROUP_SLOTS: usize = GROUP_BUCKETS * BUCKET_SLOTS;
/// The size of a group in bytes.
pub(crate) const GROUP_BYTES: usize = GROUP_SLOTS * 8;
/// The number of stripe locks, which all groups share.
pub(crate) const STRIPES: usize = 4096;
/// The number of birth counters of each stripe. A birth counter counts the new keys that were stored.
const BIRTHS_A_STRIPE: usize = 16;
/// The number of times that a worker tries to take a lock before it parks the operation.
const LOCK_SPINS: usize = 64;

/// An index bucket: one cache line of slots.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    slots: [Word64; BUCKET_SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Hash {
    /// Returns a hash with this group hash; its other bits are arbitrary.
    fn with_group_hash(group_hash: u32) -> Self {
        Self(u64::from(group_hash) << 32)
    }

    #[inline(always)]
    fn bucket(self) -> usize {
        (self.0 >> 12) as usize % GROUP_BUCKETS
    }
}

/// Returns the other of a tag's two index buckets: `bucket ^ f(tag)`. The function is its own inverse, and its result
/// always differs from `bucket`.
#[inline(always)]
pub(crate) fn other_bucket(bucket: usize, tag: u16) -> usize {
    let spread = (u32::from(tag).wrapping_mul(0x9E37_79B1) >> 26) as usize;
    bucket ^ spread.max(1)
}

/// A stripe: a lock, and the number of displacements of slots that the lock protects.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Stripe {
    /// The lock word: the number of times that the lock was taken or released, odd while a thread holds the lock. After
    /// a crash, an odd number in the file marks the groups that the process was changing: see
    /// [`crate::durable::reopen`].
    lock: Word32,
    moves: Word32,
}

/// The index of one store.
#[derive(Debug)]
pub(crate) struct Index {
    buckets: Array<Bucket>,
    stripes: Array<Stripe>,
    /// The birth counters: how often a new key was stored. Each stripe has several counters, selected by the key's tag;
    /// they are written under the stripe's lock.
    births: Box<[Word32]>,
    /// The growth word ([`growth::Growth`]). This field and `groups_next` are copies of words in the persistent header.
    growth: Word64,
    /// The number of groups after the growth. Written only while no growth is in progress.
    groups_next: Word32,
    /// The age up to which ghosts count.
    pub(crate) ghosts: ghosts::GhostClock,
    kept: PersistentPage,
}

/// The maximum number of slots of a range: the slots of two groups, while a group is split or merged.
pub(crate) const RANGE_SLOTS_MAX: usize = 2 * GROUP_SLOTS;

/// The number of steps in which a walk visits the keys of a group, so that each step has few keys. The upper bits of a
/// key's tag select the step.
pub(crate) const RANGE_PARTS: u128 = 16;

/// The keys of a group, or of a part of one while it is split or merged: see [`Index::range`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// The last group hash of the range.
    pub(crate) last: u32,
    group: usize,
    then: Option<usize>,
    /// The number of slots in the range.
    pub(crate) count: usize,
}

/// Returns the last group hash of the group of `from`, in an index of `groups` groups.
fn group_end(from: u32, groups: usize) -> u32 {
    let groups = groups as u128;
    // Group `i` begins at the first hash for which `hash * groups >> 32` equals `i`.
    let next = ((u128::from(from) * groups) >> 32) + 1;
    let begins = (next << 32).div_ceil(groups);
    u32::try_from(begins - 1).unwrap_or(u32::MAX)
}

/// A slot that was found, and the result of the caller's `matches` for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotHit<'i, T> {
    pub(crate) word: &'i Word64,
    pub(crate) slot: Slot,
    pub(crate) what: T,
}

/// The groups to search for a key: its group and, while that group is being split, the group to which the key may have
/// moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotPlace {
    group: usize,
    then: Option<usize>,
}

impl Index {
    /// Creates an empty index of `groups` groups, with address space for `groups_max` groups.
    #[cfg(test)]
    pub(crate) fn reserve(groups: usize, groups_max: usize, huge_pages: bool) -> io::Result<Self> {
        assert!(groups >= 1 && groups <= groups_max && groups_max < growth::GROUPS_MAX);
        let kept = PersistentPage::private()?.begun(Self::growth_of(groups), groups, 0);
        Ok(Self::on(Self::private_buckets(groups_max, huge_pages)?, Array::reserve(STRIPES, false)?, kept))
    }

    /// Reserves address space for `groups_max` groups.
    pub(crate) fn private_buckets(groups_max: usize, huge_pages: bool) -> io::Result<Array<Bucket>> {
        Array::reserve(groups_max * GROUP_BUCKETS, huge_pages)
    }

    /// Returns the growth word for the persistent header of an index of `groups` groups that is not growing.
    pub(crate) fn growth_of(groups: usize) -> u64 {
        growth::Growth::still(groups).0
    }

    /// Returns the number of groups that an index with this persistent header uses, including the new groups of a
    /// growth in progress.
    pub(crate) fn groups_kept(kept: &PersistentPage) -> usize {
        let growth = growth::Growth(kept.growth.load(Acquire));
        match growth.is_changing() {
            true => growth.groups().max(kept.groups_next.load(Acquire) as usize),
            false => growth.groups(),
        }
    }

    /// Returns the number of groups that this index uses, including the new groups of a growth in progress.
    pub(crate) fn groups_used(&self) -> usize {
        Self::groups_kept(&self.kept)
    }

    /// Iterates over every slot of some groups.
    pub(crate) fn words_used(&self, groups: std::ops::Range<usize>) -> impl Iterator<Item = &Word64> {
        Self::words_in(&self.buckets, groups)
    }

    /// Iterates over every slot of some groups of an index that is not opened yet.
    pub(crate) fn words_in(buckets: &Array<Bucket>, groups: std::ops::Range<usize>) -> impl Iterator<Item = &Word64> {
        (groups.start * GROUP_BUCKETS..groups.end * GROUP_BUCKETS).flat_map(|bucket| &buckets.at(bucket).slots)
    }

    /// Resets the growth words of the persistent header for an empty index of the previous size.
    pub(crate) fn begin_empty(kept: &PersistentPage) {
        let groups = Self::groups_kept(kept);
        kept.growth.store(Self::growth_of(groups), Release);
        kept.groups_next.store(groups as u64, Release);
    }

    /// Returns true if the growth word and `next` are valid for an index with room for `groups_max` groups. `next` is
    /// the number of groups after a change of size in progress.
    pub(crate) fn is_growth(growth: u64, next: usize, groups_max: usize) -> bool {
        let growth = growth::Growth(growth);
        let (groups, cursor) = (growth.groups(), growth.cursor());
        let is_change = match (growth.is_changing(), growth.is_shrinking()) {
            (false, _) => cursor == groups,
            (true, false) => next > groups && next <= groups * 2 && (1..=groups).contains(&cursor),
            (true, true) => next < groups && next * 2 >= groups && cursor < next,
        };
        (1..=groups_max).contains(&groups) && (1..=groups_max).contains(&next) && is_change
    }

    /// Creates the index over the given memory, with the size that the persistent header `kept` records.
    pub(crate) fn on(buckets: Array<Bucket>, stripes: Array<Stripe>, kept: PersistentPage) -> Self {
        assert!(stripes.len() == STRIPES && buckets.len() < growth::GROUPS_MAX * GROUP_BUCKETS);
        let growth = growth::Growth(kept.growth.load(Acquire));
        // If the growth word shows no change, `groups_next` belongs to a change that never began, and is ignored.
        let next = if growth.is_changing() { kept.groups_next.load(Acquire) as usize } else { growth.groups() };
        Self {
            buckets,
            stripes,
            births: (0..STRIPES * BIRTHS_A_STRIPE).map(|_| Word32::new(0)).collect(),
            growth: Word64::new(growth.0),
            groups_next: Word32::new(next as u32),
            ghosts: ghosts::GhostClock::new(),
            kept,
        }
    }

    pub(crate) fn map(&self) -> &arena::Map {
        self.buckets.map()
    }

    /// Returns the size of the stripes in bytes. The stripes have a memory map of their own.
    pub(crate) const fn stripes_bytes() -> usize {
        STRIPES * size_of::<Stripe>()
    }

    #[inline(always)]
    fn bucket(&self, group: usize, bucket: usize) -> &Bucket {
        self.buckets.at(group * GROUP_BUCKETS + bucket)
    }

    #[inline(always)]
    fn stripe(&self, group: usize) -> &Stripe {
        self.stripes.at(group % STRIPES)
    }

    /// Prefetches the cache line of the key's first index bucket.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: Hash) {
        let place = self.place(growth::Growth(self.growth.load(Relaxed)), hash);
        self.buckets.prefetch(place.group * GROUP_BUCKETS + hash.bucket());
    }

    /// Prefetches the cache lines of both of the key's index buckets, and of its stripe lock.
    pub(crate) fn prefetch_change(&self, hash: Hash) {
        let group = self.write_group(hash);
        for bucket in [hash.bucket(), other_bucket(hash.bucket(), hash.tag())] {
            self.buckets.prefetch(group * GROUP_BUCKETS + bucket);
        }
        self.stripes.prefetch(group % STRIPES);
        prefetch_line_of(self.births_of(group, hash));
    }

    #[inline(always)]
    fn scan<T>(&self, group: usize, hash: Hash, matches: &impl Fn(Slot) -> Option<T>) -> Option<SlotHit<'_, T>> {
        let (tag, first) = (hash.tag(), hash.bucket());
        for bucket in [first, other_bucket(first, tag)] {
            for word in &self.bucket(group, bucket).slots {
                let slot = Slot(word.load(Acquire));
                if slot.tag() == tag
                    && slot.is_item()
                    && let Some(what) = matches(slot)
                {
                    return Some(SlotHit { word, slot, what });
                }
            }
        }
        None
    }

    #[inline(always)]
    fn scan_place<T>(
        &self,
        place: SlotPlace,
        hash: Hash,
        matches: &impl Fn(Slot) -> Option<T>,
    ) -> Option<SlotHit<'_, T>> {
        match self.scan(place.group, hash, matches) {
            None => place.then.and_then(|then| self.scan(then, hash, matches)),
            found => found,
        }
    }

    /// Finds the slot with the hash's tag for which `matches` returns `Some`. Takes no lock.
    #[inline]
    pub(crate) fn find<T>(&self, hash: Hash, matches: impl Fn(Slot) -> Option<T>) -> Option<SlotHit<'_, T>> {
        let place = self.place(growth::Growth(self.growth.load(Acquire)), hash);
        match self.scan_place(place, hash, &matches) {
            None => self.find_again(hash, &matches),
            found => found,
        }
    }

    /// Calls `visit` with the first slot that names an item and has the hash's tag. The search is not repeated if the
    /// index changes meanwhile, so it may miss a slot.
    #[inline(always)]
    pub(crate) fn first_match<'i>(&'i self, hash: Hash, visit: impl FnOnce(&'i Word64, Slot)) {
        let place = self.place(growth::Growth(self.growth.load(Acquire)), hash);
        let (tag, first) = (hash.tag(), hash.bucket());
        for bucket in [first, other_bucket(first, tag)] {
            for word in &self.bucket(place.group, bucket).slots {
                let slot = Slot(word.load(Relaxed));
                if slot.tag() == tag && slot.is_item() {
                    return visit(word, slot);
                }
            }
        }
    }

    /// Searches for a slot until the result is certain: a miss counts only if no slot was displaced and no group was
    /// split meanwhile.
    #[inline]
    fn find_again<T>(&self, hash: Hash, matches: &impl Fn(Slot) -> Option<T>) -> Option<SlotHit<'_, T>> {
        loop {
            let growth = self.growth.load(Acquire);
            let place = self.place(growth::Growth(growth), hash);
            let moves = self.moves(place);
            if let Some(found) = self.scan_place(place, hash, matches) {
                return Some(found);
            }
            fence(Acquire);
            if self.moves(place) == moves && self.growth.load(Relaxed) == growth {
                return None;
            }
        }
    }

    /// Returns the sum of the move counters of the place's groups. The counters never decrease, so equal sums mean that
    /// no slot was displaced meanwhile.
    fn moves(&self, place: SlotPlace) -> u32 {
        let of = |group: usize| self.stripe(group).moves.load(Acquire);
        of(place.group).wrapping_add(place.then.map_or(0, of))
    }

    fn births_of(&self, group: usize, hash: Hash) -> &Word32 {
        &self.births[group % STRIPES * BIRTHS_A_STRIPE + usize::from(hash.tag()) % BIRTHS_A_STRIPE]
    }

    /// Returns the growth word, which is the first half of [`Index::births`].
    pub(crate) fn growth_word(&self) -> u64 {
        self.growth.load(Acquire)
    }

    /// Returns a number that changes when the key, which has no item, is stored. It may also change for other reasons.
    /// Call this before the key is looked up.
    pub(crate) fn births(&self, hash: Hash) -> (u64, u32) {
        let growth = self.growth.load(Acquire);
        let group = self.place(growth::Growth(growth), hash).group;
        (growth, self.births_of(group, hash).load(Acquire))
    }

    /// Takes the stripe lock of the key's group. Returns `None` if [`LOCK_SPINS`] attempts fail.
    #[inline]
    pub(crate) fn lock(&self, hash: Hash) -> Option<Locked<'_>> {
        for _ in 0..LOCK_SPINS {
            // A growth may change the key's group before the lock is taken, so the group is checked again under the
            // lock.
            let group = self.write_group(hash);
            let Some(guard) = self.try_lock_group(group) else {
                std::hint::spin_loop();
                continue;
            };
            if self.write_group(hash) == group {
                return Some(Locked { index: self, guard, group, hash });
            }
        }
        None
    }

    fn try_lock_group(&self, group: usize) -> Option<StripeGuard<'_>> {
        let stripe = self.stripe(group);
        let idle = stripe.lock.load(Relaxed);
        if !idle.is_multiple_of(2) {
            return None;
        }
        stripe.lock.compare_exchange(idle, idle.wrapping_add(1), Acquire).ok()?;
        // A thread that sees a change made after this fence also sees that the lock was taken.
        fence(Release);
        Some(StripeGuard { stripe })
    }

    /// Returns the state of growth as an opaque number. If two results are equal, every key was in the same group at
    /// both instants.
    #[inline]
    pub(crate) fn growth(&self) -> u64 {
        self.growth.load(Acquire)
    }

    /// Returns the lock word of the stripe of the key's group, which counts how often the lock was taken and released.
    /// Returns `None` while a thread holds the lock.
    #[inline]
    pub(crate) fn changes(&self, hash: Hash) -> Option<u32> {
        let count = self.stripe(self.write_group(hash)).lock.load(Acquire);
        count.is_multiple_of(2).then_some(count)
    }

    /// Returns all slots of `group`, in order, as they are now.
    pub(crate) fn group_words(&self, group: usize) -> impl Iterator<Item = (&Word64, Slot)> + '_ {
        (0..GROUP_SLOTS).map(move |i| {
            let word = self.slot_word(group, i);
            (word, Slot(word.load(Acquire)))
        })
    }

    /// Returns the slots of all keys whose group hash is from `from` up to [`Range::last`], and possibly others. A walk
    /// that continues after `last` visits every hash once, even while the index grows or shrinks.
    pub(crate) fn range(&self, from: u32, slots: &mut [Slot; RANGE_SLOTS_MAX]) -> Range {
        loop {
            let word = self.growth.load(Acquire);
            let growth = growth::Growth(word);
            let place = self.place(growth, Hash::with_group_hash(from));
            let moves = self.moves(place);
            let groups = [growth.groups(), self.groups_next()];
            let last = groups.into_iter().map(|groups| group_end(from, groups)).min().unwrap_or(u32::MAX);
            // The group from which keys move is read first: a slot in that group is cleared only after the key has its
            // new slot.
            let mut count = 0;
            for group in [Some(place.group), place.then].into_iter().flatten() {
                for (_, slot) in self.group_words(group) {
                    slots[count] = slot;
                    count += 1;
                }
            }
            fence(Acquire);
            if self.moves(place) == moves && self.growth.load(Relaxed) == word {
                return Range { last, group: place.group, then: place.then, count };
            }
        }
    }

    /// Returns the word of slot number `at` of a range.
    pub(crate) fn range_word(&self, range: &Range, at: usize) -> &Word64 {
        let group = if at < GROUP_SLOTS { range.group } else { range.then.unwrap_or(range.group) };
        self.slot_word(group, at % GROUP_SLOTS)
    }

    /// Returns the word of slot number `i` of a group.
    pub(crate) fn slot_word(&self, group: usize, i: usize) -> &Word64 {
        &self.bucket(group, i / BUCKET_SLOTS).slots[i % BUCKET_SLOTS]
    }
}

/// A held stripe lock, released on drop.
#[derive(Debug)]
struct StripeGuard<'i> {
    stripe: &'i Stripe,
}

impl Drop for StripeGuard<'_> {
    fn drop(&mut self) {
        self.stripe.lock.store(self.stripe.lock.load(Relaxed).wrapping_add(1), Release);
    }
}

/// The right to change the slots of one key's group. The holder must not wait.
#[derive(Debug)]
pub(crate) struct Locked<'i> {
    index: &'i Index,
    guard: StripeGuard<'i>,
    group: usize,
    hash: Hash,
}

impl<'i> Locked<'i> {
    /// Finds the key's slot. The result is exact, because no slot moves under the lock.
    #[inline]
    pub(crate) fn find<T>(&self, matches: impl Fn(Slot) -> Option<T>) -> Option<SlotHit<'i, T>> {
        self.index.scan(self.group, self.hash, &matches)
    }

    /// Returns the right to change the slots of another key's group too, if this lock covers that group. The caller
    /// uses it only while it holds `self`.
    pub(crate) fn beside(&self, hash: Hash) -> Option<ManuallyDrop<Self>> {
        let group = self.index.write_group(hash);
        let guard = StripeGuard { stripe: self.guard.stripe };
        // `self` releases the lock, so this value must not.
        let beside = ManuallyDrop::new(Locked { index: self.index, guard, group, hash });
        (group % STRIPES == self.group % STRIPES).then_some(beside)
    }

    /// Records that the key, which had no live item before, now has a live item. The caller has stored the slot before.
    pub(crate) fn note_birth(&self) {
        let births = self.index.births_of(self.group, self.hash);
        births.store(births.load(Relaxed).wrapping_add(1), Release);
    }

    /// Replaces the slot in `word` by `to`. If `keep_freq` is true, `to` gets the present frequency, which readers may
    /// have increased meanwhile.
    #[inline]
    pub(crate) fn replace(&self, word: &Word64, from: Slot, to: Slot, keep_freq: bool) {
        let mut seen = from;
        loop {
            debug_assert!(seen.same_item(from), "a slot changed under its lock");
            let next = if keep_freq { to.with_freq(seen.freq()) } else { to };
            match word.compare_exchange(seen.0, next.0, Release) {
                Ok(_) => return,
                Err(now) => seen = Slot(now),
            }
        }
    }
}

/// Increments the slot's access frequency, up to [`crate::layout::slot::FREQ_MAX`]. If another thread changes the slot
/// at the same time, this read is not counted.
#[inline(always)]
pub(crate) fn bump(word: &Word64, slot: Slot) {
    if slot.freq() < crate::layout::slot::FREQ_MAX {
        let _ = word.compare_exchange(slot.0, slot.with_freq(slot.freq() + 1).0, Relaxed);
    }
}
