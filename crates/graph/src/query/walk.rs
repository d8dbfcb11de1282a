//! Slices, budgets and scratch memory of queries.

use crate::leaf::EdgeState;
use crate::list::List;
use crate::view::View;

/// The result of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryStep {
    /// The query needs more slices.
    More,
    /// The answer is complete, or as complete as the budget allowed.
    Done,
}

/// The least number of edges of a slice. A slice that is used up by the opening of one list would repeat it forever.
const SLICE_EDGES_MIN: u32 = 16;

/// The number of edges that the opening of a list counts for: about the same number of cache misses.
const LIST_EDGES: u64 = 4;

/// The edges that a query may touch: in this slice and in all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    budget: u64,
    slice: u64,
    touched: u64,
    is_partial: bool,
}

impl Meter {
    pub(crate) fn new(budget: u64) -> Self {
        Self { budget, slice: 0, touched: 0, is_partial: false }
    }

    /// Begins a slice of at most `edges` edges, or [`SLICE_EDGES_MIN`].
    pub(crate) fn begin(&mut self, edges: u32) {
        self.slice = u64::from(edges.max(SLICE_EDGES_MIN));
    }

    /// Takes one edge of the slice and the budget. Returns false if none is left.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> bool {
        self.take_many(1)
    }

    /// Takes the cost of a list's opening.
    #[inline]
    pub(crate) fn take_list(&mut self) -> bool {
        self.take_many(LIST_EDGES)
    }

    #[inline(always)]
    fn take_many(&mut self, edges: u64) -> bool {
        if self.slice == 0 {
            return false;
        }
        if self.touched >= self.budget {
            self.is_partial = true;
            return false;
        }
        self.slice = self.slice.saturating_sub(edges);
        self.touched += edges;
        true
    }

    /// Returns the number of edges that the slice and the budget allow, at most `edges`.
    #[inline]
    pub(crate) fn room(&mut self, edges: usize) -> usize {
        let left = self.budget.saturating_sub(self.touched);
        self.is_partial |= left == 0 && self.slice > 0;
        left.min(self.slice).min(edges as u64) as usize
    }

    /// Takes edges that were touched.
    #[inline]
    pub(crate) fn charge(&mut self, edges: usize) {
        self.slice = self.slice.saturating_sub(edges as u64);
        self.touched += edges as u64;
    }

    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial
    }

    pub(crate) fn touched(&self) -> u64 {
        self.touched
    }

    /// Returns the result of a slice that ended because [`Meter::take`] returned false.
    pub(crate) fn step(&self) -> QueryStep {
        if self.is_partial { QueryStep::Done } else { QueryStep::More }
    }
}

/// The reason why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    /// All neighbours were visited.
    Finished,
    /// The slice or the budget is used up.
    Paused,
    /// The visitor ended the walk.
    Ended,
}

/// Calls `f` for the live neighbours of a list from number `from` on, as far as the meter allows. Sets `from` so that a
/// later call continues.
#[inline]
pub(crate) fn walk(list: &List<'_>, from: &mut u32, meter: &mut Meter, f: &mut impl FnMut(u32) -> bool) -> Walk {
    let (mut next, mut result) = (*from, Walk::Finished);
    // Edges that are not live are touched too: a list may have millions of removed ones.
    list.walk_states(*from, &mut |id, state| {
        next = id;
        if !meter.take() {
            result = Walk::Paused;
            return false;
        }
        next = id + 1;
        if state == EdgeState::Live && list.shows(id) && !f(id) {
            result = Walk::Ended;
            return false;
        }
        true
    });
    *from = next;
    result
}

/// Looks for one of `ids`, which ascend and have the stamp 1, among the live neighbours of a list from number `from`
/// on. A list that is much longer than `ids` is searched for each of them, and a shorter one is walked.
pub(crate) fn meets(list: &List<'_>, ids: &[u32], scratch: &Scratch, from: &mut u32, meter: &mut Meter) -> Walk {
    if !is_searched(list.head.live, ids.len()) {
        return walk(list, from, meter, &mut |id| scratch.stamp(id) != 1);
    }
    for id in &ids[ids.partition_point(|id| id < from)..] {
        *from = *id;
        if !meter.take_list() {
            return Walk::Paused;
        }
        if list.contains(*id) {
            return Walk::Ended;
        }
    }
    Walk::Finished
}

/// Returns true if [`meets`] searches a list of `live` neighbours for each of `ids` numbers.
#[inline]
fn is_searched(live: u32, ids: usize) -> bool {
    u64::from(live) > ids as u64 * LIST_EDGES
}

/// Returns the number of edges that [`meets`] counts at most, apart from the opening of the list.
#[inline]
pub(crate) fn meeting_edges(live: u32, ids: usize) -> u64 {
    u64::from(live).min(ids as u64 * LIST_EDGES)
}

/// A place in the neighbours of a list of nodes: the index of the node, and the neighbour to continue from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) index: usize,
    pub(crate) from: u32,
}

/// Calls `f` with each node of `nodes` and each of its live neighbours, as [`walk`] does for one list.
#[inline]
pub(crate) fn walk_all(
    view: &View<'_>,
    nodes: &[u32],
    ty: u8,
    place: &mut Place,
    meter: &mut Meter,
    f: &mut impl FnMut(u32, u32) -> bool,
) -> Walk {
    while let Some(node) = nodes.get(place.index).copied() {
        if place.from == 0 && !meter.take_list() {
            return Walk::Paused;
        }
        match walk(&view.list(node, ty), &mut place.from, meter, &mut |id| f(node, id)) {
            Walk::Finished => *place = Place { index: place.index + 1, from: 0 },
            other => return other,
        }
    }
    Walk::Finished
}

/// Memory that queries use again: a stamp for each node, which a new generation clears without a write.
#[derive(Debug, Default)]
pub struct Scratch {
    stamps: Vec<u32>,
    generation: u32,
    pub(crate) first: Vec<u32>,
    pub(crate) second: Vec<u32>,
}

/// The number of different stamps in one generation.
const STAMPS: u32 = 4;
/// The number of stamps that are cleared at most, because clearing belongs to a query's slice. For more of them, memory
/// is allocated that the kernel clears page by page as it is first used.
const CLEARED_MAX: usize = 1 << 15;
/// The number of nodes by which room for stamps grows.
const GROWTH: usize = 4096;

impl Scratch {
    /// Returns empty scratch memory. It grows to 4 bytes a node with the first query.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Prepares for a query of a graph with `nodes` nodes.
    pub(crate) fn reset(&mut self, nodes: u32) {
        let missing = (nodes as usize).saturating_sub(self.stamps.len());
        if missing > CLEARED_MAX || self.generation > u32::MAX - 3 * STAMPS {
            let len = self.stamps.len().max((nodes as usize).next_multiple_of(GROWTH));
            (self.stamps, self.generation) = (vec![0; len], 0);
        }
        self.grow(nodes);
        self.generation += STAMPS;
        self.first.clear();
        self.second.clear();
    }

    /// Makes room for nodes that were added since the query began.
    pub(crate) fn grow(&mut self, nodes: u32) {
        if self.stamps.len() < nodes as usize {
            self.stamps.resize((nodes as usize).next_multiple_of(GROWTH), 0);
        }
    }

    /// Returns a node's stamp in this generation, or 0.
    #[inline]
    pub(crate) fn stamp(&self, node: u32) -> u32 {
        let stamp = self.stamps.get(node as usize).copied().unwrap_or(0);
        stamp.saturating_sub(self.generation)
    }

    /// Stamps a node with 1, 2 or 3.
    #[inline]
    pub(crate) fn set(&mut self, node: u32, stamp: u32) {
        debug_assert!((1..STAMPS).contains(&stamp));
        if let Some(word) = self.stamps.get_mut(node as usize) {
            *word = self.generation + stamp;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_sees_no_stamps_of_earlier_ones_when_the_graph_has_grown_or_the_generations_are_used_up() {
        let mut scratch = Scratch::new();
        for (nodes, generation) in [(10, 0), (5_000, 4), (1 << 20, 8), (1 << 20, u32::MAX - 3 * STAMPS + 1), (9, 12)] {
            scratch.generation = generation;
            scratch.reset(nodes);
            assert!((0..nodes).all(|node| scratch.stamp(node) == 0), "{nodes} nodes after generation {generation}");
            (1..STAMPS).for_each(|stamp| scratch.set(stamp, stamp));
            assert!((1..STAMPS).all(|stamp| scratch.stamp(stamp) == stamp));
            assert!(scratch.stamps.len() >= nodes as usize && scratch.generation <= u32::MAX - 2 * STAMPS);
        }
    }
}
