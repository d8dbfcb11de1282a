//! Nodes at distance 2: their set, and the ones with the most common neighbours.

use crate::error::GraphError;
use crate::query::walk::{Meter, Place, QueryStep, Scratch, Walk, walk, walk_all};
use crate::schema::TypeId;
use crate::view::View;

/// A query of a node's second degree: all nodes at distance 2.
#[derive(Debug)]
pub struct SecondDegreeQuery {
    source: Option<u32>,
    ty: u8,
    phase: SecondPhase,
    meter: Meter,
    scratch: Scratch,
    /// The number of common neighbours of each node in `scratch.second`, in the order of node numbers.
    common: Option<Vec<u32>>,
    changes: u64,
}

#[derive(Clone, Copy, Debug)]
enum SecondPhase {
    First(u32),
    Second(Place),
    End,
}

/// The node numbers of a second degree, ascending, and the state of the graph that they were computed from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecondDegree {
    pub(crate) node: u32,
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
        counts: bool,
    ) -> Result<Self, GraphError> {
        let (ty, source) = (view.check_type(ty)?, view.node(source)?);
        scratch.reset(view.nodes());
        let (phase, meter, common) = (SecondPhase::First(0), Meter::new(budget), counts.then(Vec::new));
        Ok(Self { source, ty, phase, meter, scratch, common, changes: view.graph.changes(ty) })
    }

    /// Begins a query of the set.
    ///
    /// # Errors
    /// If the type is unknown or the identifier reserved.
    pub fn begin(view: &View<'_>, scratch: Scratch, source: u64, ty: TypeId, budget: u64) -> Result<Self, GraphError> {
        Self::start(view, scratch, source, ty, budget, false)
    }

    /// Begins a query that also counts common neighbours, for [`SecondDegreeQuery::finish_suggestions`].
    ///
    /// # Errors
    /// If the type is unknown or the identifier reserved.
    pub fn begin_suggestions(
        view: &View<'_>,
        scratch: Scratch,
        source: u64,
        ty: TypeId,
        budget: u64,
    ) -> Result<Self, GraphError> {
        Self::start(view, scratch, source, ty, budget, true)
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
                SecondPhase::End => return QueryStep::Done,
            };
            match next {
                Some(phase) => self.phase = phase,
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
        let (scratch, counts) = (&mut self.scratch, self.common.is_some());
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
        (result == Walk::Finished).then_some(SecondPhase::End)
    }

    /// Returns the set, and the scratch memory for the next query. Sorts the set.
    #[must_use]
    pub fn finish(mut self) -> (SecondDegree, Scratch) {
        let mut numbers = self.scratch.second.clone();
        numbers.sort_unstable();
        numbers.dedup();
        self.scratch.second.clear();
        let (node, is_partial) = (self.source.unwrap_or(u32::MAX), self.meter.is_partial());
        let edges = self.meter.touched();
        (SecondDegree { node, ty: self.ty, numbers, changes: self.changes, is_partial, edges }, self.scratch)
    }

    /// Returns the `count` nodes with the most common neighbours, the first appeared first among equals, whether the
    /// answer is partial, and the scratch memory.
    #[must_use]
    pub fn finish_suggestions(mut self, view: &View<'_>, count: usize) -> (Vec<Suggestion>, bool, Scratch) {
        self.scratch.second.sort_unstable();
        let runs = self.scratch.second.chunk_by(|a, b| a == b);
        let mut ranked: Vec<(u32, u32)> = runs.map(|run| (u32::MAX - run.len() as u32, run[0])).collect();
        if count < ranked.len() {
            ranked.select_nth_unstable(count);
            ranked.truncate(count);
        }
        ranked.sort_unstable();
        let suggestion = |(rank, id): (u32, u32)| Suggestion { node: view.external(id), common: u32::MAX - rank };
        (ranked.into_iter().map(suggestion).collect(), self.meter.is_partial(), self.scratch)
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
        let hash = crate::query::cursor::query_hash([2, u64::from(self.node), u64::from(self.ty)]);
        let from = cursor.place(hash)?.map_or(0, |(_, id)| id);
        let start = self.numbers.partition_point(|id| *id < from);
        let end = self.numbers.len().min(start.saturating_add(limit.max(1)));
        let page = self.numbers[start..end].iter().map(|id| view.external(*id)).collect();
        let next = self.numbers.get(end).map_or(crate::Cursor::START, |id| crate::Cursor::new(hash, 0, *id));
        Ok((next, page))
    }
}
