//! The state of a walk that takes several visits: over keys, over the records of a set, or over one long value.

use crate::memory::budget;
use crate::memory::budget::Budget;
use crate::memory::budget::Grant;
use crate::resp::error::ErrorReply;
use crate::resp::state::dump_work::StreamPlace;
use crate::resp::state::name_hashes::HASH_BYTES;
use crate::resp::state::string_work::StringWork;
use crate::visit::out::HeadPlace;
use base::clock::UnixMillis;
use record::{IndexPosting, Salt};
use segment::{PartSizes, Stride};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
/// An unfinished walk.
#[derive(Default)]
pub(in crate::resp) struct Walk {
    pub(in crate::resp) cursor: u64,
    /// The items on flash that the current step waits for.
    pub(in crate::resp) stride: Stride,
    /// The place of the reply's header in the output, if the reply is collected.
    pub(in crate::resp) head: Option<HeadPlace>,
    /// The state of the read, if the walk is over one value.
    pub(in crate::resp) reading: Reading,
    /// The number of fields that are still to be selected. Commands with named fields store the number of finished
    /// bytes of the request instead.
    pub(in crate::resp) wanted: u64,
    /// The number of fields that have not been examined yet. Commands with named fields store the number of finished
    /// fields instead.
    pub(in crate::resp) left: u64,
    /// The hashes of the keys that the current step has found. They prevent a key whose item moves during the step from
    /// being reported twice.
    pub(in crate::resp) found_hashes: HashSet<u64>,
    /// Results that are not in the reply yet.
    pub(in crate::resp) found: Vec<u8>,
    /// The number of keys in `found`, or in the whole reply.
    pub(in crate::resp) keys: u64,
    /// The number of examined keys.
    pub(in crate::resp) examined: usize,
    /// The number of steps, of those kinds that the command limits.
    pub(in crate::resp) steps: usize,
    /// The number of consecutive draws of fields that the reply already has.
    pub(in crate::resp) repeats: usize,
    /// The position at which the walk began.
    pub(in crate::resp) start: u64,
    /// The mean length of popped elements in the reply, in bytes; 0 until a step of them did not fit into the output.
    pub(in crate::resp) element_bytes: u64,
    /// True if the walk has continued at the first key after the last key. Commands on hashes use this field as a flag
    /// for another purpose.
    pub(in crate::resp) has_wrapped: bool,
    /// True if a command that has started over had stored a part of its result.
    pub(in crate::resp) has_part: bool,
    /// The cursor after the completed step or walk. `None` while it is not complete.
    pub(in crate::resp) ended: Option<u64>,
    /// Records that were found and are not in the reply yet.
    pub(in crate::resp) records: FoundRecords,
    /// The progress of an index query.
    pub(in crate::resp) query: QueryProgress,
    /// The elements of a combination of sorted sets that are not in the reply yet.
    pub(in crate::resp) scored: ScoredElements,
    /// The elements of a `SORT` that are not in the reply yet.
    pub(in crate::resp) sorted: SortedElements,
    /// The salt of the hashes that the current step looks for.
    pub(in crate::resp) salt: Option<Salt>,
    /// The next part of the description of a stream.
    pub(in crate::resp) place: Option<StreamPlace>,
    /// The time since which the command waits for room in the store.
    pub(in crate::resp) full_since: Option<UnixMillis>,
    /// The state of a command on strings, which is no walk.
    pub(in crate::resp) work: Option<StringWork>,
    /// The memory of a value's parts, if the command adds it up.
    pub(in crate::resp) sizes: Option<Box<PartSizes>>,
    /// The walk's share of client memory.
    pub(in crate::resp) grant: Option<Grant>,
}

impl Walk {
    /// Creates a walk that begins at `cursor`.
    pub(in crate::resp) fn from(cursor: u64) -> Box<Self> {
        Box::new(Self { cursor, start: cursor, ..Self::default() })
    }

    /// Returns the number of bytes that the walk holds. Counts half of the set of hashes in addition, because the set
    /// is copied when it grows.
    pub(in crate::resp) fn held_bytes(&self) -> usize {
        let met = self.found_hashes.capacity() * HASH_BYTES * 3 / 2;
        let elements = self.scored.held_bytes() + self.sorted.held_bytes();
        let sizes = self.sizes.as_ref().map_or(0, |sizes| sizes.held_bytes());
        met + self.found.capacity() + self.records.held_bytes() + self.query.held_bytes() + elements + sizes
    }

    /// Reserves the bytes that the walk will hold when it holds `more` bytes more. Returns false if client memory is
    /// used up.
    pub(in crate::resp) fn reserve_more(&mut self, budget: &Arc<Budget>, more: usize) -> bool {
        let bytes = self.held_bytes() + more;
        bytes <= FREE_BYTES && self.grant.is_none() || self.grant(budget).resize(bytes as u64)
    }

    /// Accounts for the bytes that the walk holds, even if client memory is used up.
    pub(in crate::resp) fn force(&mut self, budget: &Arc<Budget>) {
        let bytes = self.held_bytes() as u64;
        self.grant(budget).force(bytes);
    }

    fn grant(&mut self, budget: &Arc<Budget>) -> &mut Grant {
        self.grant.get_or_insert_with(|| Grant::none(budget, budget::MemoryUse::Walks))
    }

    /// Reserves the bytes that the walk holds. Returns false if client memory is used up. A short walk reserves
    /// nothing.
    pub(in crate::resp) fn reserve(&mut self, budget: &Arc<Budget>) -> bool {
        self.reserve_more(budget, 0)
    }
}

/// The number of bytes that a walk may hold without a reservation.
pub(in crate::resp) const FREE_BYTES: usize = 4 << 10;

/// Returns a number whose order is that of `score`. Both zeros have the same.
pub(in crate::resp) fn order_of(score: f64) -> u64 {
    let bits = (score + 0.0).to_bits() as i64;
    bits as u64 ^ ((bits >> 63) as u64 | 1 << 63)
}

/// Elements in the order of their places, and of numbers if places are the same.
#[derive(Default)]
pub(in crate::resp) struct SortedElements {
    elements: BTreeMap<SortedPlace, Vec<u8>>,
    /// The total length of the places and elements in bytes.
    text_bytes: usize,
}

/// The place of an element in an order, and its number. Without an order, all places are empty.
#[derive(PartialEq, Eq)]
struct SortedPlace {
    place: Vec<u8>,
    number: u64,
}

impl Ord for SortedPlace {
    fn cmp(&self, other: &Self) -> Ordering {
        // Empty places are not passed to `memcmp`: for a pointer to no memory, it takes hundreds of ns on some CPUs.
        let places = match (self.place.is_empty(), other.place.is_empty()) {
            (false, false) => self.place.cmp(&other.place),
            (is_empty, is_other_empty) => is_other_empty.cmp(&is_empty),
        };
        places.then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for SortedPlace {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl SortedElements {
    /// Adds an element. No other has this number.
    pub(in crate::resp) fn add(&mut self, place: Vec<u8>, number: u64, text: Vec<u8>) {
        self.text_bytes += place.len() + text.len();
        self.elements.insert(SortedPlace { place, number }, text);
    }

    pub(in crate::resp) fn len(&self) -> usize {
        self.elements.len()
    }

    /// Returns the first element, or the last one.
    pub(in crate::resp) fn peek(&self, is_last: bool) -> Option<&[u8]> {
        let found = if is_last { self.elements.last_key_value() } else { self.elements.first_key_value() };
        found.map(|(_, text)| &text[..])
    }

    /// Removes the first element, or the last one.
    pub(in crate::resp) fn pop(&mut self, is_last: bool) {
        let popped = if is_last { self.elements.pop_last() } else { self.elements.pop_first() };
        self.text_bytes -= popped.map_or(0, |(at, text)| at.place.len() + text.len());
    }

    /// Returns the number of bytes that this value holds, about.
    fn held_bytes(&self) -> usize {
        self.text_bytes + self.elements.len() * SORTED_BYTES
    }
}

/// The number of bytes of a sorted element besides its place and text.
const SORTED_BYTES: usize = 120;

/// Elements of sorted sets in the order of their scores and texts.
#[derive(Default)]
pub(in crate::resp) struct ScoredElements {
    /// The scores by their places in the order, and the texts.
    elements: BTreeMap<(u64, Vec<u8>), f64>,
    /// The total length of the texts in bytes.
    text_bytes: usize,
}

impl ScoredElements {
    /// Adds an element, which is not there. Returns true.
    pub(in crate::resp) fn add(&mut self, score: f64, text: &[u8]) -> bool {
        self.text_bytes += text.len();
        self.elements.insert((order_of(score), text.to_vec()), score);
        true
    }

    pub(in crate::resp) fn len(&self) -> usize {
        self.elements.len()
    }

    /// Returns the element with the lowest score.
    pub(in crate::resp) fn first(&self) -> Option<(f64, &[u8])> {
        self.elements.first_key_value().map(|((_, text), score)| (*score, &text[..]))
    }

    /// Removes and returns the element with the lowest score.
    pub(in crate::resp) fn pop_first(&mut self) -> Option<(f64, Vec<u8>)> {
        let ((_, text), score) = self.elements.pop_first()?;
        self.text_bytes -= text.len();
        Some((score, text))
    }

    /// Returns the number of bytes that this value holds, about.
    fn held_bytes(&self) -> usize {
        self.text_bytes + self.elements.len() * SCORED_BYTES
    }
}

/// The number of bytes of a collected element besides its text.
const SCORED_BYTES: usize = 72;

/// The results of a walk over records: the encoded records, each with its position in the order of the walk.
#[derive(Default)]
pub(in crate::resp) struct FoundRecords {
    pub(in crate::resp) bytes: Vec<u8>,
    /// The position of each record, and its range in `bytes`.
    pub(in crate::resp) records: Vec<(u64, std::ops::Range<usize>)>,
    /// The number of examined keys.
    pub(in crate::resp) looked: usize,
    /// The number of examined keys that are records of the walked set.
    pub(in crate::resp) of_set: usize,
    pub(in crate::resp) fault: Option<ErrorReply>,
    /// The key of a large record with a missing part.
    pub(in crate::resp) broken: Option<Vec<u8>>,
    /// The number of records that earlier steps of the walk have found.
    pub(in crate::resp) before: usize,
}

impl FoundRecords {
    /// Returns the number of bytes that this value holds.
    pub(in crate::resp) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.records.capacity() * size_of::<(u32, std::ops::Range<usize>)>()
    }
}

/// The progress of an index query.
#[derive(Default)]
pub(in crate::resp) struct QueryProgress {
    /// The fetched index entries.
    pub(in crate::resp) entries: Vec<IndexPosting>,
    /// The number of fetched entries that have been examined.
    pub(in crate::resp) at: usize,
    /// The number of stale entries that were removed from the index since the last fetch of entries.
    pub(in crate::resp) swept: usize,
    /// The number of times that entries were fetched.
    pub(in crate::resp) fills: usize,
    /// The last examined entry.
    pub(in crate::resp) last: Option<IndexPosting>,
    /// The hashes of the keys whose records are in the reply.
    pub(in crate::resp) replied: HashSet<u64>,
    /// The encoded records of the reply.
    pub(in crate::resp) bytes: Vec<u8>,
    /// True if the reply is complete.
    pub(in crate::resp) is_whole: bool,
}

impl QueryProgress {
    /// Returns the number of bytes that this value holds.
    pub(in crate::resp) fn held_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<IndexPosting>()
            + 2 * self.replied.capacity() * size_of::<u64>()
            + self.bytes.capacity()
    }
}

/// A read of one value that takes several visits.
#[derive(Debug, Default)]
pub(in crate::resp) struct Reading {
    /// The value's identity when it was first read. `None` if nothing was read yet.
    pub(in crate::resp) identity: Option<(u64, u32, u64)>,
    pub(in crate::resp) restarts: u32,
    /// The number of keys of the command that existed when the read began. `None` if they are not compared.
    pub(in crate::resp) keys: Option<u64>,
}

impl Reading {
    /// Allows the value to change between visits without a restart of the read.
    pub(in crate::resp) fn allow_changes(&mut self) {
        self.identity = Some(MISSING);
    }

    /// Returns true if nothing was read yet.
    pub(in crate::resp) fn is_new(&self) -> bool {
        self.identity.is_none()
    }

    /// Returns true if the value existed.
    pub(in crate::resp) fn was_there(&self) -> bool {
        self.identity.is_some_and(|identity| identity != MISSING)
    }
}

/// The identity of a missing value.
pub(in crate::resp) const MISSING: (u64, u32, u64) = (0, 0, 0);

#[cfg(test)]
mod tests {
    use super::SortedElements;

    #[test]
    fn elements_are_ordered_by_place_and_number_and_those_without_a_place_come_first() {
        let mut sorted = SortedElements::default();
        for (place, number) in [(&b"b"[..], 1), (b"", 4), (b"a", 5), (b"", 2), (b"a", 3), (b"ab", 0)] {
            sorted.add(place.to_vec(), number, number.to_string().into_bytes());
        }
        let mut found = Vec::new();
        while let Some(text) = sorted.peek(false) {
            found.push(String::from_utf8(text.to_vec()).expect("text"));
            sorted.pop(false);
        }
        assert_eq!(found, ["2", "4", "3", "5", "0", "1"]);
        assert_eq!(sorted.held_bytes(), 0);
    }
}
