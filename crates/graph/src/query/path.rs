//! The k shortest paths between two nodes, without loops, of at most 3 edges.
//!
//! ```text
//!   1 edge    source -> destination
//!   2 edges   source -> a -> destination           a in both neighbourhoods
//!   3 edges   source -> a -> b -> destination      b of the neighbours of each a
//! ```
//!
//! The path from a node to itself is the node.
//!
//! Paths come in the order of their lengths, then of their nodes' numbers.

use crate::error::GraphError;
use crate::limits::DISTANCE_MAX;
use crate::query::walk::{Meter, Place, QueryStep, Scratch, Walk, walk, walk_all};
use crate::schema::TypeId;
use crate::view::View;

/// A query of paths.
#[derive(Debug)]
pub struct PathQuery {
    ends: Option<(u32, u32)>,
    ty: u8,
    reverse: Option<u8>,
    max: u8,
    paths_max: usize,
    paths: Vec<Vec<u32>>,
    phase: PathPhase,
    meter: Meter,
    scratch: Scratch,
}

#[derive(Clone, Copy, Debug)]
enum PathPhase {
    /// Looks for the edge.
    Edge,
    /// Stamps the nodes from which an edge leads to the destination.
    Last(u32),
    /// Collects the source's neighbours, and the paths of 2 edges.
    First(u32),
    /// Looks at the neighbours of the source's neighbours.
    Middle(Place),
    End,
}

/// The paths that a query found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The paths, each with the identifiers of its nodes from the source to the destination.
    pub paths: Vec<Vec<u64>>,
    /// True if the budget did not suffice: some paths may be missing.
    pub is_partial: bool,
    /// The number of edges that the query touched.
    pub edges: u64,
}

impl PathQuery {
    /// Begins a query of at most `paths_max` paths.
    ///
    /// # Errors
    /// If the type is unknown, an identifier reserved or the maximum is not from 1 to 3.
    #[allow(clippy::too_many_arguments, reason = "each is a part of the query")]
    pub fn begin(
        view: &View<'_>,
        mut scratch: Scratch,
        source: u64,
        destination: u64,
        ty: TypeId,
        max: u8,
        paths_max: usize,
        budget: u64,
    ) -> Result<Self, GraphError> {
        let ty = view.check_type(ty)?;
        if max == 0 || max > DISTANCE_MAX {
            return Err(GraphError::BadDistance(max));
        }
        let ends = view.node(source)?.zip(view.node(destination)?);
        scratch.reset(view.nodes());
        let (reverse, meter, mut paths) = (view.reverse(ty), Meter::new(budget), Vec::new());
        let mut phase = PathPhase::Edge;
        if let Some((source, destination)) = ends
            && source == destination
        {
            // The path without edges is the only one without a loop.
            paths.push(vec![source]);
            phase = PathPhase::End;
        }
        Ok(Self { ends, ty, reverse, max, paths_max, paths, phase, meter, scratch })
    }

    /// Touches about `edges` edges at most.
    pub fn step(&mut self, view: &View<'_>, edges: u32) -> QueryStep {
        self.meter.begin(edges);
        self.scratch.grow(view.nodes());
        loop {
            let (Some((source, destination)), true) = (self.ends, self.paths.len() < self.paths_max) else {
                return QueryStep::Done;
            };
            let next = match self.phase {
                PathPhase::Edge => self.edge(view, source, destination),
                PathPhase::Last(from) => self.last(view, source, destination, from),
                PathPhase::First(from) => self.first(view, source, destination, from),
                PathPhase::Middle(place) => self.middle(view, source, destination, place),
                PathPhase::End => return QueryStep::Done,
            };
            match next {
                Some(phase) => self.phase = phase,
                None => return self.meter.step(),
            }
        }
    }

    /// Returns the answer, and the scratch memory for the next query.
    #[must_use]
    pub fn finish(self, view: &View<'_>) -> (Paths, Scratch) {
        let path = |path: &Vec<u32>| path.iter().map(|node| view.external(*node)).collect();
        let paths = self.paths.iter().map(path).collect();
        (Paths { paths, is_partial: self.meter.is_partial(), edges: self.meter.touched() }, self.scratch)
    }

    fn edge(&mut self, view: &View<'_>, source: u32, destination: u32) -> Option<PathPhase> {
        if !self.meter.take_list() {
            return None;
        }
        if view.list(source, self.ty).contains(destination) {
            self.paths.push(vec![source, destination]);
        }
        Some(match self.reverse {
            _ if self.max == 1 => PathPhase::End,
            Some(_) => PathPhase::Last(0),
            None => PathPhase::First(0),
        })
    }

    fn last(&mut self, view: &View<'_>, source: u32, destination: u32, mut from: u32) -> Option<PathPhase> {
        let reverse = self.reverse.expect("the phase needs lists against the edges' direction");
        let scratch = &mut self.scratch;
        let mut stamp = |id: u32| {
            if id != source {
                scratch.set(id, 1);
            }
            true
        };
        let result = walk(&view.list(destination, reverse), &mut from, &mut self.meter, &mut stamp);
        self.phase = PathPhase::Last(from);
        (result == Walk::Finished).then_some(PathPhase::First(0))
    }

    fn first(&mut self, view: &View<'_>, source: u32, destination: u32, mut from: u32) -> Option<PathPhase> {
        let (scratch, paths, most, ty) = (&mut self.scratch, &mut self.paths, self.paths_max, self.ty);
        let has_reverse = self.reverse.is_some();
        if from == 0 {
            scratch.first.clear();
        }
        let mut visit = |id: u32| {
            scratch.first.push(id);
            let leads = if has_reverse { scratch.stamp(id) == 1 } else { view.list(id, ty).contains(destination) };
            if leads && id != destination {
                paths.push(vec![source, id, destination]);
            }
            paths.len() < most
        };
        let result = walk(&view.list(source, ty), &mut from, &mut self.meter, &mut visit);
        self.phase = PathPhase::First(from);
        match result {
            Walk::Paused => None,
            Walk::Ended => Some(PathPhase::End),
            Walk::Finished if self.max >= 3 => Some(PathPhase::Middle(Place::default())),
            Walk::Finished => Some(PathPhase::End),
        }
    }

    fn middle(&mut self, view: &View<'_>, source: u32, destination: u32, mut place: Place) -> Option<PathPhase> {
        let nodes = std::mem::take(&mut self.scratch.first);
        let (scratch, paths, most, ty) = (&self.scratch, &mut self.paths, self.paths_max, self.ty);
        let has_reverse = self.reverse.is_some();
        let mut visit = |a: u32, b: u32| {
            let is_loop = a == destination || b == source || b == destination;
            let leads = |b| if has_reverse { scratch.stamp(b) == 1 } else { view.list(b, ty).contains(destination) };
            if !is_loop && leads(b) {
                paths.push(vec![source, a, b, destination]);
            }
            paths.len() < most
        };
        let result = walk_all(view, &nodes, ty, &mut place, &mut self.meter, &mut visit);
        self.scratch.first = nodes;
        self.phase = PathPhase::Middle(place);
        (result != Walk::Paused).then_some(PathPhase::End)
    }
}
