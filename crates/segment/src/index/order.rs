//! The order in which a walk visits the items of an index that keeps its size, if some items are on flash.
//!
//! ```text
//!   hash   | group hash 32            | 14 bits | bucket 6 |  tag 12   |
//!               |                        |                   |     |
//!   place  |  group  |  part 4: tag's upper bits  |  tag's lower 8, then 12 of the 14 bits: scaled to the part  |
//! ```
//!
//! The slot of an item on flash determines the item's group, its tag and its two index buckets, but not its key. A walk
//! has to assign the slot to a part without reading the key. So a part consists of the slots of one group whose tags
//! have the same upper four bits: about 27 slots of a full group. If the group hash alone ordered the walk, as in a
//! store without flash, each of the sixteen parts of a group would have to read all of the group's items on flash. A
//! step over a whole group would need about 430 reads.
//!
//! Invariants: the place is a function of the key's hash, which does not change while the index keeps its size. The
//! places of one part are contiguous.

use super::growth::group_of;
use super::{GROUP_BUCKETS, Hash, Index, RANGE_PARTS, other_bucket};
use crate::layout::slot::Slot;

/// The number of hash bits that order the keys of a part.
const FINE_BITS: u32 = 20;
/// The number of lower bits of a tag. They are the upper bits of the [`FINE_BITS`] bits.
const TAG_LOWER_BITS: u32 = 8;

/// The order in which a walk visits the items of an index of `groups` groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    groups: usize,
}

/// Consecutive parts of one group, from one place to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    order: Order,
    /// The first place.
    pub(crate) first: u32,
    /// The last place, inclusive.
    pub(crate) last: u32,
    number: u64,
    number_last: u64,
}

impl Order {
    /// Returns the number of parts. Every part has at least one place, because an index with more parts than places
    /// would be larger than any memory.
    fn parts(self) -> u128 {
        let parts = self.groups as u128 * RANGE_PARTS;
        assert!(parts <= 1 << 32, "{} groups are more than a walk has places for", self.groups);
        parts
    }

    /// Returns the first place of a part.
    fn begin(self, part: u64) -> u64 {
        (u128::from(part) << 32).div_ceil(self.parts()) as u64
    }

    /// Returns the part that contains place `first`, from that place on.
    pub(crate) fn part(self, first: u32) -> Part {
        let number = ((u128::from(first) * self.parts()) >> 32) as u64;
        Part { order: self, first, last: (self.begin(number + 1) - 1) as u32, number, number_last: number }
    }

    fn part_of(self, group: usize, tag: u16) -> u64 {
        group as u64 * RANGE_PARTS as u64 + u64::from(tag >> TAG_LOWER_BITS)
    }

    /// Returns the place that belongs to the ordering bits of a part.
    fn place_in(self, part: u64, fine: u64) -> u32 {
        let (begin, end) = (self.begin(part), self.begin(part + 1));
        (begin + (((end - begin) * fine) >> FINE_BITS)) as u32
    }

    /// Returns the place of a key with this hash in the walk.
    pub(crate) fn place(self, hash: Hash) -> u32 {
        let group = group_of(hash.group_hash(), self.groups);
        let lower = u64::from(hash.tag()) & ((1 << TAG_LOWER_BITS) - 1);
        let upper = (hash.0 >> 18) & ((1 << (FINE_BITS - TAG_LOWER_BITS)) - 1);
        let fine = (lower << (FINE_BITS - TAG_LOWER_BITS)) | upper;
        self.place_in(self.part_of(group, hash.tag()), fine)
    }

    /// Returns the bits of the key's hash that a slot with this tag, in this index bucket of a group, determines. All
    /// hashes with the same slot give the same result, which is one of these hashes.
    pub(crate) fn hash_of_slot(self, group: usize, bucket: usize, tag: u16) -> Hash {
        let group_hash = ((group as u64) << 32).div_ceil(self.groups as u64);
        let bucket = bucket.min(other_bucket(bucket, tag));
        Hash((group_hash << 32) | ((bucket as u64) << 12) | u64::from(tag))
    }

    /// Returns the bits of a key's hash that the key's slot determines.
    pub(crate) fn slot_hash(self, hash: Hash) -> Hash {
        self.hash_of_slot(group_of(hash.group_hash(), self.groups), hash.bucket(), hash.tag())
    }
}

impl Part {
    /// Returns true if the place is in this part.
    pub(crate) fn has(&self, place: u32) -> bool {
        (self.first..=self.last).contains(&place)
    }

    /// Returns true if the slot, in one of its group's index buckets, may belong to a key of the part.
    pub(crate) fn may_have(&self, slot: Slot) -> bool {
        let number = self.order.part_of(self.group(), slot.tag());
        let lower = u64::from(slot.tag()) & ((1 << TAG_LOWER_BITS) - 1);
        let latest = (lower + 1) << (FINE_BITS - TAG_LOWER_BITS);
        (self.number..=self.number_last).contains(&number) && self.order.place_in(number, latest - 1) >= self.first
    }

    fn group(&self) -> usize {
        (self.number / RANGE_PARTS as u64) as usize
    }

    /// Extends this part up to the part with number `number_last`, in the same group.
    fn up_to(self, number_last: u64) -> Self {
        debug_assert!(number_last / RANGE_PARTS as u64 == self.group() as u64, "another group");
        Self { number_last, last: (self.order.begin(number_last + 1) - 1) as u32, ..self }
    }

    /// Returns the bits of the key's hash that slot number `at` of the part's group determines.
    pub(crate) fn hash_of(&self, at: usize, slot: Slot) -> Hash {
        self.order.hash_of_slot(self.group(), at / super::BUCKET_SLOTS % GROUP_BUCKETS, slot.tag())
    }
}

impl Index {
    /// Returns the order of a walk. The index must keep its size.
    pub(crate) fn order(&self) -> Order {
        debug_assert!(self.groups() == self.groups_next(), "an index beside a second tier keeps its size");
        Order { groups: self.groups() }
    }

    /// Returns the parts from place `first` on that have at most `items` items together. If the first part alone has
    /// more, returns that part.
    pub(crate) fn parts_from(&self, first: u32, items: usize) -> Part {
        let part = self.order().part(first);
        let mut counts = [0; RANGE_PARTS as usize];
        for (_, slot) in self.group_words(part.group()).filter(|(_, slot)| slot.is_taken()) {
            counts[usize::from(slot.tag() >> TAG_LOWER_BITS)] += 1;
        }
        let from = (part.number % RANGE_PARTS as u64) as usize;
        let mut sum = counts[from];
        let more = counts[from + 1..].iter().take_while(|count| {
            sum += **count;
            sum <= items
        });
        part.up_to(part.number + more.count() as u64)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::tier::FlashAddress;

    #[test]
    fn index_parts_are_contiguous_and_cover_every_position() {
        let mut random = base::prng::Prng::new(1);
        for groups in [1, 3, 32, 1000, (1 << 28) - 1] {
            let order = Order { groups };
            let mut place = 0;
            for _ in 0..100 {
                let part = order.part(place);
                assert!(part.first == place && part.last >= place);
                let Some(next) = part.last.checked_add(1) else { break };
                assert_ne!(order.part(next).number, part.number);
                place = next;
            }
            assert_eq!(order.part(u32::MAX).last, u32::MAX);
            for _ in 0..10_000 {
                let hash = Hash(random.next_u64());
                let (place, group) = (order.place(hash), group_of(hash.group_hash(), groups));
                let part = order.part(place);
                assert!(part.has(place), "{groups} {hash:?}");
                let slot = Slot::flash(hash.tag(), 0, FlashAddress::new(1, 2, 3, 4));
                assert!(part.may_have(slot), "{groups} {hash:?}");
                assert_eq!(part.number / 16, group as u64);
                for bucket in [hash.bucket(), other_bucket(hash.bucket(), hash.tag())] {
                    let known = part.hash_of(bucket * super::super::BUCKET_SLOTS + 7, slot);
                    assert_eq!(known, order.slot_hash(hash));
                    assert_eq!(group_of(known.group_hash(), groups), group);
                    assert!([known.bucket(), other_bucket(known.bucket(), known.tag())].contains(&bucket));
                }
                // The rest of the part from its last place on may have a slot with the part's highest tag only if the
                // last possible place of such a slot is the part's last place.
                let behind = Part { first: part.last, ..part };
                let last = order.place_in(part.number, (1 << FINE_BITS) - 1);
                assert_eq!(
                    behind.may_have(Slot::flash(0xff | hash.tag(), 0, FlashAddress::new(1, 2, 3, 4))),
                    last == part.last
                );
            }
        }
    }

    #[test]
    fn a_walk_that_ends_anywhere_in_a_part_leaves_out_only_slots_of_places_before() {
        let order = Order { groups: 32 };
        let mut random = base::prng::Prng::new(2);
        let (mut left_out, mut taken) = (0, 0);
        for _ in 0..10_000 {
            let (hash, other) = (Hash(random.next_u64()), Hash(random.next_u64()));
            let other = Hash(hash.0 & !0xfff_f0ff | other.0 & 0xfff_f0ff);
            let part = order.part(order.place(other));
            let slot = Slot::flash(hash.tag(), 0, FlashAddress::new(1, 2, 3, 4));
            if part.has(order.place(hash)) {
                assert!(part.may_have(slot));
                taken += 1;
            } else if part.number == order.part(order.place(hash)).number && !part.may_have(slot) {
                left_out += 1;
            }
        }
        assert!(left_out > 100 && taken > 100, "{left_out} {taken}");
    }
}
