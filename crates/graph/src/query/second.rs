//! Nodes at distance 2: their set, and the ones with the most common neighbours.
//!
//! ```text
//!   First ── neighbours ──> Second ── their neighbours ──> Sort ──┬──> the set, ascending
//!                                                                 └──> Rank ── runs of one node ──> the best k
//! ```
//!
//! Sorting and ranking take slices too, because a budget allows a million nodes.

use std::collections::BinaryHeap;

use crate::error::GraphError;
use crate::query::walk::{Meter, Place, QueryStep, Scratch, Walk, walk, walk_all};
use crate::schema::TypeId;
use crate::view::View;

/// A query of a node's second degree: all nodes at distance 2.
#[derive(Debug)]
pub struct SecondDegreeQuery {
    source: Option<u32>,
    external: u64,
    ty: u8,
    phase: SecondPhase,
    meter: Meter,
    scratch: Scratch,
    /// The found nodes while and after they are sorted. A node that suggestions rank is there once for each common
    /// neighbour.
    sort: SlicedSort,
    /// The ranking, if suggestions are asked for.
    ranking: Option<Ranking>,
    changes: u64,
}

#[derive(Clone, Copy, Debug)]
enum SecondPhase {
    First(u32),
    Second(Place),
    Sort,
    Rank,
    End,
}

/// The best nodes so far: the greatest ranks are dropped first. A rank is the complement of the number of common
/// neighbours, then the node number.
#[derive(Debug)]
struct Ranking {
    count: usize,
    at: usize,
    best: BinaryHeap<(u32, u32)>,
}

/// The numbers that are sorted on their own before they are merged.
const RUN: usize = 512;
/// The steps of a merge that cost as much as touching one edge.
const MERGES_AN_EDGE: usize = 4;

/// A sort that can be interrupted: runs are sorted, then neighbouring runs are merged until one is left.
#[derive(Debug, Default)]
struct SlicedSort {
    from: Vec<u32>,
    to: Vec<u32>,
    /// The length of sorted runs; 0 while they are being sorted.
    run: usize,
    /// The next run to sort, or the places in the two runs that are being merged and the start of the first.
    start: usize,
    left: usize,
    right: usize,
}

impl SlicedSort {
    fn new(numbers: Vec<u32>) -> Self {
        Self { from: numbers, ..Self::default() }
    }

    /// Takes steps that cost about as much as touching `edges` edges. Returns true if all is sorted.
    fn step(&mut self, edges: u32) -> bool {
        let mut steps = edges as usize * MERGES_AN_EDGE;
        while self.run == 0 {
            if self.start >= self.from.len() {
                (self.run, self.start) = (RUN, 0);
                self.begin_pair();
                break;
            }
            let end = self.from.len().min(self.start + RUN);
            self.from[self.start..end].sort_unstable();
            self.start = end;
            steps = steps.saturating_sub(RUN * MERGES_AN_EDGE);
            if steps == 0 {
                return false;
            }
        }
        while self.run < self.from.len() {
            if steps == 0 {
                return false;
            }
            steps -= 1;
            let (middle, end) = (self.end_of(self.start), self.end_of(self.start + self.run));
            match (self.left < middle, self.right < end) {
                (false, false) if end == self.from.len() => {
                    std::mem::swap(&mut self.from, &mut self.to);
                    self.to.clear();
                    (self.run, self.start) = (self.run * 2, 0);
                    self.begin_pair();
                }
                (false, false) => {
                    self.start = end;
                    self.begin_pair();
                }
                (true, has_right) if !has_right || self.from[self.left] <= self.from[self.right] => {
                    self.to.push(self.from[self.left]);
                    self.left += 1;
                }
                _ => {
                    self.to.push(self.from[self.right]);
                    self.right += 1;
                }
            }
        }
        true
    }

    fn begin_pair(&mut self) {
        (self.left, self.right) = (self.start, self.end_of(self.start));
    }

    fn end_of(&self, start: usize) -> usize {
        self.from.len().min(start + self.run)
    }
}

impl Ranking {
    /// Ranks runs of equal numbers, about `numbers` of them. Returns true at the end.
    fn step(&mut self, sorted: &[u32], numbers: usize) -> bool {
        let end = self.at + numbers;
        while self.at < sorted.len() {
            if self.at >= end {
                return false;
            }
            let (id, rest) = (sorted[self.at], &sorted[self.at..]);
            let length = rest.iter().take_while(|other| **other == id).count();
            self.at += length;
            self.best.push((u32::MAX - length as u32, id));
            if self.best.len() > self.count {
                self.best.pop();
            }
        }
        true
    }
}

/// The node numbers of a second degree, ascending, and the state of the graph that they were computed from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecondDegree {
    /// The node's number, or `u32::MAX` if it does not exist or is archived, and its identifier.
    pub(crate) node: u32,
    external: u64,
    pub(crate) ty: u8,
    pub(crate) numbers: Vec<u32>,
    pub(crate) changes: u64,
    /// True if the budget did not suffice: some nodes may be missing.
    pub is_partial: bool,
    /// The number of edges that the query touched.
    pub edges: u64,
}

/// A suggested node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// The identifier.
    pub node: u64,
    /// The number of common neighbours.
    pub common: u32,
}

impl SecondDegreeQuery {
    fn start(
        view: &View<'_>,
        mut scratch: Scratch,
        source: u64,
        ty: TypeId,
        budget: u64,
        count: Option<usize>,
    ) -> Result<Self, GraphError> {
        let (external, ty, source) = (source, view.check_type(ty)?, view.node(source)?);
        scratch.reset(view.nodes());
        let (phase, meter, sort) = (SecondPhase::First(0), Meter::new(budget), SlicedSort::default());
        let ranking = count.map(|count| Ranking { count, at: 0, best: BinaryHeap::new() });
        Ok(Self { source, external, ty, phase, meter, scratch, sort, ranking, changes: view.graph.visible_changes(ty) })
    }

    /// Begins a query of the set.
    ///
    /// # Errors
    /// If the type is unknown or the identifier reserved.
    pub fn begin(view: &View<'_>, scratch: Scratch, source: u64, ty: TypeId, budget: u64) -> Result<Self, GraphError> {
        Self::start(view, scratch, source, ty, budget, None)
    }

    /// Begins a query of the `count` nodes with the most common neighbours, for
    /// [`SecondDegreeQuery::finish_suggestions`].
    ///
    /// # Errors
    /// If the type is unknown or the identifier reserved.
    pub fn begin_suggestions(
        view: &View<'_>,
        scratch: Scratch,
        source: u64,
        ty: TypeId,
        count: usize,
        budget: u64,
    ) -> Result<Self, GraphError> {
        Self::start(view, scratch, source, ty, budget, Some(count))
    }

    /// Touches about `edges` edges at most.
    pub fn step(&mut self, view: &View<'_>, edges: u32) -> QueryStep {
        self.meter.begin(edges);
        self.scratch.grow(view.nodes());
        let Some(source) = self.source else { return QueryStep::Done };
        loop {
            let next = match self.phase {
                SecondPhase::First(from) => self.first(view, source, from),
                SecondPhase::Second(place) => self.second(view, place),
                SecondPhase::Sort if !self.sort.step(edges) => return QueryStep::More,
                SecondPhase::Sort => Some(if self.ranking.is_some() { SecondPhase::Rank } else { SecondPhase::End }),
                SecondPhase::Rank => {
                    let sorted = &self.sort.from;
                    let is_done = self.ranking.as_mut().is_none_or(|ranking| ranking.step(sorted, edges as usize));
                    if !is_done {
                        return QueryStep::More;
                    }
                    Some(SecondPhase::End)
                }
                SecondPhase::End => return QueryStep::Done,
            };
            match next {
                Some(phase) => self.phase = phase,
                // What was found within the budget is sorted too.
                None if self.meter.is_partial() => self.begin_sort(),
                None => return self.meter.step(),
            }
        }
    }

    fn first(&mut self, view: &View<'_>, source: u32, mut from: u32) -> Option<SecondPhase> {
        let scratch = &mut self.scratch;
        scratch.set(source, 3);
        let mut stamp = |id: u32| {
            scratch.set(id, 1);
            scratch.first.push(id);
            true
        };
        let result = walk(&view.list(source, self.ty), &mut from, &mut self.meter, &mut stamp);
        self.phase = SecondPhase::First(from);
        (result == Walk::Finished).then_some(SecondPhase::Second(Place::default()))
    }

    fn second(&mut self, view: &View<'_>, mut place: Place) -> Option<SecondPhase> {
        let nodes = std::mem::take(&mut self.scratch.first);
        let (scratch, counts) = (&mut self.scratch, self.ranking.is_some());
        let mut visit = |_: u32, id: u32| {
            match scratch.stamp(id) {
                0 => {
                    scratch.set(id, 2);
                    scratch.second.push(id);
                }
                2 if counts => scratch.second.push(id),
                _ => {}
            }
            true
        };
        let result = walk_all(view, &nodes, self.ty, &mut place, &mut self.meter, &mut visit);
        self.scratch.first = nodes;
        self.phase = SecondPhase::Second(place);
        if result != Walk::Finished {
            return None;
        }
        self.begin_sort();
        Some(SecondPhase::Sort)
    }

    fn begin_sort(&mut self) {
        self.sort = SlicedSort::new(std::mem::take(&mut self.scratch.second));
        self.phase = SecondPhase::Sort;
    }

    /// Returns the set, and the scratch memory for the next query.
    #[must_use]
    pub fn finish(self) -> (SecondDegree, Scratch) {
        let (node, is_partial) = (self.source.unwrap_or(u32::MAX), self.meter.is_partial());
        let (edges, numbers) = (self.meter.touched(), self.sort.from);
        let Self { external, ty, changes, scratch, .. } = self;
        (SecondDegree { node, external, ty, numbers, changes, is_partial, edges }, scratch)
    }

    /// Returns the nodes with the most common neighbours, the first appeared first among equals, whether the answer is
    /// partial, the number of edges that were touched, and the scratch memory.
    #[must_use]
    pub fn finish_suggestions(self, view: &View<'_>) -> (Vec<Suggestion>, bool, u64, Scratch) {
        let ranked = self.ranking.map(|ranking| ranking.best.into_sorted_vec()).unwrap_or_default();
        let suggestion = |(rank, id): (u32, u32)| Suggestion { node: view.external(id), common: u32::MAX - rank };
        let found = ranked.into_iter().map(suggestion).collect();
        (found, self.meter.is_partial(), self.meter.touched(), self.scratch)
    }
}

impl SecondDegree {
    /// Returns the number of nodes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Returns up to `limit` identifiers from a cursor on, and the cursor of the next page.
    ///
    /// # Errors
    /// If the cursor is of another query.
    pub fn page(
        &self,
        view: &View<'_>,
        cursor: crate::Cursor,
        limit: usize,
    ) -> Result<(crate::Cursor, Vec<u64>), GraphError> {
        let hash = crate::query::cursor::query_hash([2, self.external, u64::from(self.ty), view.graph.identity()]);
        let from = cursor.place(hash)?.map_or(0, |(_, id)| id);
        let start = self.numbers.partition_point(|id| *id < from);
        let end = self.numbers.len().min(start.saturating_add(limit.max(1)));
        let page = self.numbers[start..end].iter().map(|id| view.external(*id)).collect();
        let next = self.numbers.get(end).map_or(crate::Cursor::START, |id| crate::Cursor::new(hash, 0, *id));
        Ok((next, page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn numbers_sorted_in_slices_equal_those_sorted_at_once() {
        let mut prng = Prng::new(3);
        for length in [0, 1, 2, RUN - 1, RUN, RUN + 1, 3 * RUN + 7, 20_000] {
            let numbers: Vec<u32> = (0..length).map(|_| prng.below(5000) as u32).collect();
            let mut sort = SlicedSort::new(numbers.clone());
            while !sort.step(16 + prng.below(200) as u32) {}
            let mut expected = numbers;
            expected.sort_unstable();
            assert_eq!(sort.from, expected);
            let mut ranking = Ranking { count: 5, at: 0, best: BinaryHeap::new() };
            while !ranking.step(&sort.from, 100) {}
            let runs = expected.chunk_by(|a, b| a == b).map(|run| (u32::MAX - run.len() as u32, run[0]));
            let mut runs: Vec<(u32, u32)> = runs.collect();
            runs.sort_unstable();
            runs.truncate(5);
            assert_eq!(ranking.best.into_sorted_vec(), runs);
        }
    }
}
