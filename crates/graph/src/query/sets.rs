//! Set operations over adjacency lists: intersection, union and difference, and common neighbours.
//!
//! Each list is read through a window of up to 256 neighbours. A window that must move finds its place by a search
//! whose steps double. An intersection with a long list therefore costs a search for each neighbour of the short list
//! and not a scan.
//! The windows of two lists are intersected block by block: see [`common_numbers`].

use crate::error::GraphError;
use crate::limits::SETS_MAX;
use crate::query::cursor::{Cursor, query_hash};
use crate::query::read::{ListReader, gallop};
use crate::query::walk::{Meter, QueryStep};
use crate::schema::TypeId;
use crate::view::View;

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    /// Neighbours that are in all lists.
    Intersection,
    /// Neighbours that are in some list.
    Union,
    /// Neighbours that are in the first list only.
    Difference,
}

const WINDOW: usize = 256;
/// The numbers that a window reads after a jump.
const WINDOW_FIRST: usize = 8;

/// A list that is read in order.
#[derive(Clone, Debug)]
struct Window {
    node: u32,
    ty: u8,
    ids: [u32; WINDOW],
    at: usize,
    count: usize,
    /// The first number after the window, or `None` if the list ends with it.
    next: Option<u32>,
    /// The number of neighbours that the window reads next: few after a jump, more in a run.
    room: usize,
}

/// The readers of the windows' lists within one slice.
type Readers<'v> = [Option<ListReader<'v>>];

impl Window {
    fn new(node: u32, ty: u8, from: u32) -> Self {
        Self { node, ty, ids: [0; WINDOW], at: 0, count: 0, next: Some(from), room: WINDOW_FIRST }
    }

    /// Skips the numbers below `from` that the window holds.
    #[inline]
    fn skip_to(&mut self, from: u32) {
        let ids = &self.ids[..self.count];
        self.at = gallop(self.at, self.count, |at| ids[at] < from);
    }

    /// Returns the first neighbour from `from` on. `Err` if the meter allows no read.
    #[inline]
    fn seek<'v>(
        &mut self,
        view: &View<'v>,
        reader: &mut Option<ListReader<'v>>,
        meter: &mut Meter,
        from: u32,
    ) -> Result<Option<u32>, ()> {
        loop {
            self.skip_to(from);
            if self.at < self.count {
                return Ok(Some(self.ids[self.at]));
            }
            let Some(next) = self.next else { return Ok(None) };
            self.fill(view, reader, meter, next.max(from))?;
        }
    }

    /// Reads the next neighbours from `from` on. `Err` if the meter allows no read.
    fn fill<'v>(
        &mut self,
        view: &View<'v>,
        reader: &mut Option<ListReader<'v>>,
        meter: &mut Meter,
        from: u32,
    ) -> Result<(), ()> {
        if !meter.take_list() {
            return Err(());
        }
        let is_far = match reader {
            Some(reader) => reader.skip_to(from),
            // The first read of a slice continues a run.
            None => self.next.is_some_and(|next| next < from),
        };
        let reader = reader.get_or_insert_with(|| ListReader::new(view.list(self.node, self.ty), from));
        self.room = if is_far { WINDOW_FIRST } else { (self.room * 2).min(WINDOW) };
        let entries = meter.room(self.room);
        let (count, touched) = reader.read(&mut self.ids[..self.room], entries);
        meter.charge(touched);
        (self.at, self.count) = (0, count);
        self.next = (!reader.is_at_end()).then(|| reader.next());
        if entries == 0 && self.next.is_some() { Err(()) } else { Ok(()) }
    }
}

/// The numbers that are compared with each other at once.
const LANES: usize = 8;

/// The numbers that two ascending lists have in common, as far as both reach.
struct Common {
    count: usize,
    /// The places after the numbers that were compared.
    left: usize,
    right: usize,
}

/// Counts the common numbers of two ascending lists up to the end of one of them. Writes them to `hits` unless it is
/// empty. `hits` has room for the numbers of one list and [`LANES`] more.
///
/// Blocks of both lists are compared number by number, which the compiler does with vectors. Then the block with the
/// lower end is replaced by the next one, without a branch that depends on the numbers.
fn common_numbers(left: &[u32], right: &[u32], hits: &mut [u32]) -> Common {
    let (mut left_at, mut right_at, mut count) = (0, 0, 0);
    let mut counts = [0u32; LANES];
    while let (Some(own), Some(other)) = (block(left, left_at), block(right, right_at)) {
        let mut is_common = [0u32; LANES];
        for number in other {
            for (is_common, own) in is_common.iter_mut().zip(own) {
                *is_common |= 0u32.wrapping_sub(u32::from(own == number));
            }
        }
        if hits.is_empty() {
            counts.iter_mut().zip(is_common).for_each(|(count, is_common)| *count = count.wrapping_sub(is_common));
        } else if is_common != [0; LANES] {
            for (own, is_common) in own.iter().zip(is_common) {
                hits[count] = *own;
                count += (is_common & 1) as usize;
            }
        }
        let (own_end, other_end) = (own[LANES - 1], other[LANES - 1]);
        left_at += usize::from(own_end <= other_end) * LANES;
        right_at += usize::from(other_end <= own_end) * LANES;
    }
    count += counts.iter().sum::<u32>() as usize;
    while let (Some(own), Some(other)) = (left.get(left_at), right.get(right_at)) {
        if let Some(hit) = hits.get_mut(count) {
            *hit = *own;
        }
        count += usize::from(own == other);
        left_at += usize::from(own <= other);
        right_at += usize::from(other <= own);
    }
    Common { count, left: left_at, right: right_at }
}

/// Returns the block of a list that begins at an index, if the list has all of it.
#[inline(always)]
fn block(list: &[u32], at: usize) -> Option<&[u32; LANES]> {
    list.get(at..)?.first_chunk()
}

/// A set operation that runs in slices.
#[derive(Debug)]
pub struct SetQuery {
    operation: SetOperation,
    windows: Vec<Window>,
    hash: u32,
    from: u32,
    limit: usize,
    counts_only: bool,
    count: u64,
    found: Vec<u32>,
    /// The common neighbours of two windows.
    hits: Vec<u32>,
    is_at_end: bool,
    meter: Meter,
}

/// A page of a set operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPage {
    /// The cursor of the next page, or [`Cursor::START`] after the last one.
    pub next: Cursor,
    /// The identifiers.
    pub nodes: Vec<u64>,
    /// The number of nodes that were found; without a limit if only their number was asked for.
    pub count: u64,
    /// True if the budget did not suffice. `next` continues where it ended.
    pub is_partial: bool,
    /// The number of edges that the query touched.
    pub edges: u64,
}

impl SetQuery {
    /// Begins an operation over up to 16 lists.
    ///
    /// # Errors
    /// If there are no lists or too many, a type is unknown, an identifier reserved or the cursor of another query.
    pub fn begin(
        view: &View<'_>,
        operation: SetOperation,
        lists: &[(u64, TypeId)],
        cursor: Cursor,
        limit: usize,
        budget: u64,
    ) -> Result<Self, GraphError> {
        if lists.is_empty() || lists.len() > SETS_MAX {
            return Err(GraphError::BadSetCount(lists.len()));
        }
        let words = lists.iter().flat_map(|(node, ty)| [*node, u64::from(ty.0)]);
        let hash = query_hash([1, operation as u64, view.graph.identity()].into_iter().chain(words));
        let from = cursor.place(hash)?.map_or(0, |(_, id)| id);
        let mut windows = Vec::with_capacity(lists.len());
        for (node, ty) in lists {
            let ty = view.check_type(*ty)?;
            // A node that does not exist has an empty list, as the number that no node has.
            windows.push(Window::new(view.node(*node)?.unwrap_or(u32::MAX - 1), ty, from));
        }
        if operation == SetOperation::Intersection {
            windows.sort_by_key(|window| view.graph.head(window.node, window.ty).live);
        }
        let (meter, limit) = (Meter::new(budget), limit.max(1));
        let (count, counts_only, is_at_end) = (0, false, false);
        Ok(Self {
            operation,
            windows,
            hash,
            from,
            limit,
            counts_only,
            count,
            found: Vec::new(),
            hits: Vec::new(),
            is_at_end,
            meter,
        })
    }

    /// Makes the query count nodes without a limit, in place of listing them.
    #[must_use]
    pub fn counting(self) -> Self {
        Self { counts_only: true, limit: usize::MAX, ..self }
    }

    /// Touches about `edges` edges at most.
    pub fn step(&mut self, view: &View<'_>, edges: u32) -> QueryStep {
        self.meter.begin(edges);
        let mut readers: Vec<Option<ListReader<'_>>> = Vec::new();
        readers.resize_with(self.windows.len(), || None);
        while !self.is_at_end && self.count < self.limit as u64 {
            if self.operation == SetOperation::Intersection && self.windows.len() == 2 && self.intersect_windows() {
                continue;
            }
            let next = match self.operation {
                SetOperation::Intersection => self.next_of_all(view, &mut readers),
                SetOperation::Union => self.next_of_any(view, &mut readers),
                SetOperation::Difference => self.next_of_first(view, &mut readers),
            };
            match next {
                Ok(Some(id)) => {
                    self.from = id + 1;
                    self.count += 1;
                    if !self.counts_only {
                        self.found.push(id);
                    }
                }
                Ok(None) => self.is_at_end = true,
                Err(()) => return self.meter.step(),
            }
        }
        QueryStep::Done
    }

    /// Intersects the neighbours from `from` on that both windows hold. Returns true if both held some.
    fn intersect_windows(&mut self) -> bool {
        let [left, right] = &mut self.windows[..] else { return false };
        left.skip_to(self.from);
        right.skip_to(self.from);
        let (left_ids, right_ids) = (&left.ids[left.at..left.count], &right.ids[right.at..right.count]);
        let Some((left_end, right_end)) = left_ids.last().zip(right_ids.last()) else { return false };
        if !self.counts_only {
            self.hits.resize(WINDOW + LANES, 0);
        }
        let found = common_numbers(left_ids, right_ids, &mut self.hits);
        // One of the windows has no further number, so all common ones up to its end were found.
        self.from = left_end.min(right_end) + 1;
        (left.at, right.at) = (left.at + found.left, right.at + found.right);
        if self.counts_only {
            self.count += found.count as u64;
            return true;
        }
        let room = usize::try_from(self.limit as u64 - self.count).unwrap_or(usize::MAX);
        let hits = &self.hits[..found.count.min(room)];
        if let Some(last) = hits.last().filter(|_| hits.len() == room) {
            self.from = last + 1;
        }
        self.count += hits.len() as u64;
        self.found.extend_from_slice(hits);
        true
    }

    fn next_of_all<'v>(&mut self, view: &View<'v>, readers: &mut Readers<'v>) -> Result<Option<u32>, ()> {
        let (first, others) = self.windows.split_first_mut().expect("at least one list");
        let (own, readers) = readers.split_first_mut().expect("a reader for each list");
        'candidates: while let Some(id) = first.seek(view, own, &mut self.meter, self.from)? {
            self.from = id;
            for (other, reader) in others.iter_mut().zip(&mut *readers) {
                match other.seek(view, reader, &mut self.meter, id)? {
                    Some(found) if found == id => {}
                    Some(found) => {
                        self.from = found;
                        continue 'candidates;
                    }
                    None => return Ok(None),
                }
            }
            return Ok(Some(id));
        }
        Ok(None)
    }

    fn next_of_any<'v>(&mut self, view: &View<'v>, readers: &mut Readers<'v>) -> Result<Option<u32>, ()> {
        let mut least: Option<u32> = None;
        for (window, reader) in self.windows.iter_mut().zip(readers) {
            let found = window.seek(view, reader, &mut self.meter, self.from)?;
            least = [least, found].into_iter().flatten().min();
        }
        Ok(least)
    }

    fn next_of_first<'v>(&mut self, view: &View<'v>, readers: &mut Readers<'v>) -> Result<Option<u32>, ()> {
        let (first, others) = self.windows.split_first_mut().expect("at least one list");
        let (own, readers) = readers.split_first_mut().expect("a reader for each list");
        while let Some(id) = first.seek(view, own, &mut self.meter, self.from)? {
            let mut is_in_other = false;
            for (other, reader) in others.iter_mut().zip(&mut *readers) {
                is_in_other |= other.seek(view, reader, &mut self.meter, id)? == Some(id);
            }
            if !is_in_other {
                return Ok(Some(id));
            }
            self.from = id + 1;
        }
        Ok(None)
    }

    /// Returns the page.
    #[must_use]
    pub fn finish(self, view: &View<'_>) -> SetPage {
        let next = if self.is_at_end { Cursor::START } else { Cursor::new(self.hash, 0, self.from) };
        let nodes = self.found.iter().map(|id| view.external(*id)).collect();
        let (count, is_partial, edges) = (self.count, self.meter.is_partial(), self.meter.touched());
        SetPage { next, nodes, count, is_partial, edges }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn common_numbers_of_blocks_and_of_their_ends_equal_those_of_a_plain_merge() {
        let mut prng = Prng::new(4);
        let (mut counted, mut empty) = (0, 0);
        for round in 0..4000 {
            let mut list = |count: u64, span: u64| {
                let mut list: Vec<u32> = (0..count).map(|_| prng.below(span) as u32).collect();
                list.sort_unstable();
                list.dedup();
                list
            };
            let (length, span) = (1 + round % 256, 1 + round % 700);
            let (left, right) = (list(length, span), list(1 + round * 7 % 256, span + round % 50));
            let (left_end, right_end) = (left[left.len() - 1], right[right.len() - 1]);
            let expected: Vec<u32> = left.iter().copied().filter(|number| right.contains(number)).collect();
            let mut hits = vec![0; WINDOW + LANES];
            let listed = common_numbers(&left, &right, &mut hits);
            assert_eq!(hits[..listed.count], expected, "round {round}");
            let found = common_numbers(&left, &right, &mut []);
            assert_eq!((found.count, found.left, found.right), (listed.count, listed.left, listed.right));
            assert!(found.left == left.len() && left_end <= right_end || found.right == right.len());
            counted += found.count;
            empty += usize::from(expected.is_empty());
        }
        assert!(counted > 100_000 && empty > 20, "{counted} common numbers, {empty} rounds without any");
    }
}
