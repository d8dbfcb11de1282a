//! Reads of a list on demand: the reader asks for the next neighbours, and may skip some.
//!
//! ```text
//!   part  leaf, all edges live ──────────────────────> numbers, copied from the leaf
//!         leaf with states, or recent changes ──merge──> chunk, up to 1,024 entries ──> numbers
//! ```

use crate::leaf::{EdgeState, Numbers};
use crate::list::List;

/// The number of entries of a part that are merged at once: few after a jump, more in a run.
const CHUNK_MIN: usize = 64;
const CHUNK_MAX: usize = 1024;

/// A reader of the live neighbours of a list that are not archived, ascending.
#[derive(Debug)]
pub(crate) struct ListReader<'a> {
    list: List<'a>,
    parts: usize,
    /// The part that is being read.
    part: usize,
    /// The numbers of the part's leaf if all its edges are live and nothing has changed since.
    leaf: Option<Numbers<'a>>,
    /// The chunk of a part that must be merged, and the number from which the next chunk continues.
    chunk: Vec<u32>,
    chunk_max: usize,
    rest: Option<u32>,
    /// The place in the leaf or the chunk, and its length.
    at: usize,
    count: usize,
    /// The number from which another reader of the list continues.
    next: u32,
    /// The entries that were read or merged, whether they were neighbours or not.
    touched: usize,
}

/// Returns the least index from `start` on, below `end`, of which `is_before` is false, or `end`. The search takes as
/// many steps as the distance has bits, twice.
#[inline]
pub(crate) fn gallop(start: usize, end: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut step) = (start, 1);
    // All indexes below `low` are before.
    while low + step <= end && is_before(low + step - 1) {
        low += step;
        step *= 2;
    }
    let mut size = step.min(end - low);
    while size > 0 {
        let half = size / 2;
        if is_before(low + half) {
            low += half + 1;
            size -= half + 1;
        } else {
            size = half;
        }
    }
    low
}

impl<'a> ListReader<'a> {
    /// Begins to read a list at the first neighbour from `from` on.
    pub(crate) fn new(list: List<'a>, from: u32) -> Self {
        let mut reader = Self {
            list,
            parts: list.parts(),
            part: 0,
            leaf: None,
            chunk: Vec::new(),
            chunk_max: CHUNK_MIN,
            rest: None,
            at: 0,
            count: 0,
            next: from,
            touched: 0,
        };
        if reader.parts > 0 {
            reader.open(list.part_of(from), from);
        }
        reader
    }

    /// Opens a part at the first entry from `from` on.
    fn open(&mut self, part: usize, from: u32) {
        self.part = part;
        let found = self.list.part(part);
        self.leaf = None;
        if let Some(leaf) = found.leaf.filter(|leaf| found.recent.is_none() && leaf.all_live()) {
            (self.leaf, self.rest) = (Some(leaf.numbers), None);
            let is_whole = from == 0 || part > 0 && from <= self.list.first_of(part);
            (self.at, self.count) = (if is_whole { 0 } else { leaf.lower_bound(from) }, leaf.count());
        } else {
            (self.rest, self.at, self.count, self.chunk_max) = (Some(from), 0, 0, CHUNK_MIN);
        }
    }

    /// Merges the next chunk of the part, of at most `room` entries.
    fn merge(&mut self, from: u32, room: usize) {
        self.chunk.clear();
        self.rest = None;
        let (mut entries, mut last) = (0, from);
        let (chunk, rest, entries_max) = (&mut self.chunk, &mut self.rest, self.chunk_max.min(room));
        self.list.part(self.part).walk_states(from, &mut |id, state| {
            if entries == entries_max {
                *rest = Some(id);
                return false;
            }
            if state == EdgeState::Live {
                chunk.push(id);
            }
            (entries, last) = (entries + 1, id + 1);
            true
        });
        self.touched += entries - self.chunk.len();
        if self.chunk.is_empty() {
            self.next = self.next.max(last);
        }
        (self.at, self.count) = (0, self.chunk.len());
        self.chunk_max = CHUNK_MAX.min(self.chunk_max * 4);
    }

    /// Prepares the next entries if those of the leaf or chunk are read, and merges at most `room` of them. Returns
    /// false at the end of the list.
    #[inline]
    fn advance(&mut self, room: usize) -> bool {
        if self.at < self.count {
            return true;
        }
        if let Some(from) = self.rest {
            self.merge(from, room);
        } else if self.part + 1 < self.parts {
            self.open(self.part + 1, self.next);
        } else {
            return false;
        }
        true
    }

    /// Returns true if no neighbour is left. False does not mean that there is one.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.count && self.rest.is_none() && self.part + 1 >= self.parts
    }

    /// Returns the number from which another reader of the list continues.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Skips the neighbours below `from`. Returns true if they are more than a few.
    pub(crate) fn skip_to(&mut self, from: u32) -> bool {
        self.next = self.next.max(from);
        let start = self.at;
        self.at = match self.leaf {
            Some(numbers) => gallop(start, self.count, |at| numbers.at(at) < from),
            None => gallop(start, self.count, |at| self.chunk[at] < from),
        };
        if self.at < self.count || self.is_at_end() {
            return self.at - start > CHUNK_MIN;
        }
        let part = self.list.part_of(from);
        if part > self.part {
            self.open(part, from);
            return true;
        }
        let is_far = self.rest.is_some_and(|rest| rest < from);
        if is_far {
            (self.rest, self.chunk_max) = (Some(from), CHUNK_MIN);
        }
        is_far || self.at - start > CHUNK_MIN
    }

    /// Copies the next neighbours to `out`, as many as fit, but touches at most `entries_max` entries. Returns the
    /// number of neighbours, and of the entries that were touched for them.
    pub(crate) fn read(&mut self, out: &mut [u32], entries_max: usize) -> (usize, usize) {
        self.touched = 0;
        let mut filled = 0;
        while filled < out.len() && self.touched < entries_max && self.advance(entries_max - self.touched) {
            let count = (out.len() - filled).min(self.count - self.at).min(entries_max - self.touched);
            if count == 0 {
                continue;
            }
            let found = &mut out[filled..filled + count];
            match self.leaf {
                Some(numbers) => numbers.read(self.at, found),
                None => found.copy_from_slice(&self.chunk[self.at..self.at + count]),
            }
            self.at += count;
            self.touched += count;
            self.next = found[count - 1] + 1;
            filled += self.list.retain_shown(found);
        }
        (filled, self.touched)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn gallop_finds_the_place_that_a_binary_search_finds() {
        let list: Vec<u32> = (0..40).map(|at| at * 3).collect();
        for (start, end) in (0..=40).flat_map(|start| (start..=40).map(move |end| (start, end))) {
            for wanted in 0..125 {
                let expected = start + list[start..end].partition_point(|number| *number < wanted);
                assert_eq!(gallop(start, end, |at| list[at] < wanted), expected, "{wanted} from {start} to {end}");
            }
        }
    }
}
