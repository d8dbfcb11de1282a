//! Distances from one node to a list of nodes.
//!
//! ```text
//!   1   stamp the source's neighbours; a stamped target has distance 1
//!   2   a target with a stamped neighbour (against the edges' direction) has distance 2
//!   3   the cheaper of: stamp the neighbours' neighbours, and look at the targets' neighbours again;
//!       or look at the neighbours of each target's neighbours
//! ```
//!
//! All targets share the stamped neighbours of the source. A list that is much longer than these is not walked, but
//! searched for each of them, so that a hub costs no more than the smaller side.
//!
//! A directed type without an inverse has no lists against the edges' direction. There, the second and the third ring
//! are walked from the source.

use crate::error::GraphError;
use crate::limits::DISTANCE_MAX;
use crate::query::read::ListReader;
use crate::query::walk::{Meter, Place, QueryStep, Scratch, Walk, meeting_edges, meets, walk, walk_all};
use crate::schema::TypeId;
use crate::view::View;

/// A query of distances.
#[derive(Debug)]
pub struct DistanceQuery {
    source: Option<u32>,
    ty: u8,
    reverse: Option<u8>,
    max: u8,
    targets: Vec<DistanceTarget>,
    /// The index of the first target that may be open.
    open: usize,
    /// The targets by node number, for types without lists against the edges' direction.
    by_node: Vec<(u32, u32)>,
    phase: Phase,
    meter: Meter,
    scratch: Scratch,
    /// The neighbours of the target that is searched, against the edges' direction.
    near: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct DistanceTarget {
    node: Option<u32>,
    distance: Option<u8>,
}

impl DistanceTarget {
    fn is_open(&self) -> bool {
        self.node.is_some() && self.distance.is_none()
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Looks for edges from the source to each target.
    Edges(usize),
    /// Stamps the source's neighbours.
    First(u32),
    /// Looks at the neighbours of each target for a node of the ring `ring`.
    Near {
        ring: u8,
        place: Place,
    },
    /// Chooses the cheaper way to distance 3.
    Choose,
    /// Stamps the neighbours of the last ring, the first or the second.
    Ring {
        ring: u8,
        place: Place,
    },
    /// Collects the neighbours of a target.
    Collect {
        target: usize,
        from: u32,
    },
    /// Looks at the neighbours of the collected nodes.
    Far {
        target: usize,
        place: Place,
    },
    End,
}

/// The distances that a query found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distances {
    /// The distance to each target, or `None` if it is farther than the maximum, or unknown.
    pub distances: Vec<Option<u8>>,
    /// True if the budget did not suffice: the distances are right, but some may be missing or too long.
    pub is_partial: bool,
    /// The number of edges that the query touched.
    pub edges: u64,
}

impl DistanceQuery {
    /// Begins a query. `budget` is the maximum number of edges to touch.
    ///
    /// # Errors
    /// If the type is unknown, an identifier reserved or the maximum not from 1 to 3.
    pub fn begin(
        view: &View<'_>,
        mut scratch: Scratch,
        source: u64,
        ty: TypeId,
        targets: &[u64],
        max: u8,
        budget: u64,
    ) -> Result<Self, GraphError> {
        let ty = view.check_type(ty)?;
        if max == 0 || max > DISTANCE_MAX {
            return Err(GraphError::BadDistance(max));
        }
        let source = view.node(source)?;
        let target = |external: &u64| {
            let node = view.node(*external)?;
            let distance = (node.is_some() && node == source).then_some(0);
            Ok(DistanceTarget { node, distance })
        };
        let targets = targets.iter().map(target).collect::<Result<Vec<DistanceTarget>, GraphError>>()?;
        scratch.reset(view.nodes());
        let (reverse, meter) = (view.reverse(ty), Meter::new(budget));
        let mut by_node = Vec::new();
        if reverse.is_none() {
            by_node.extend((0..).zip(&targets).filter_map(|(index, target)| target.node.map(|node| (node, index))));
            by_node.sort_unstable();
        }
        let (open, phase, near) = (0, Phase::Edges(0), Vec::new());
        Ok(Self { source, ty, reverse, max, targets, open, by_node, phase, meter, scratch, near })
    }

    /// Touches about `edges` edges at most.
    pub fn step(&mut self, view: &View<'_>, edges: u32) -> QueryStep {
        self.meter.begin(edges);
        self.scratch.grow(view.nodes());
        loop {
            let closed = self.targets[self.open..].iter().take_while(|target| !target.is_open()).count();
            self.open += closed;
            let (Some(source), true) = (self.source, self.open < self.targets.len()) else {
                self.phase = Phase::End;
                return QueryStep::Done;
            };
            let next = match self.phase {
                Phase::Edges(target) => self.edges(view, source, target),
                Phase::First(from) => self.first(view, source, from),
                Phase::Near { ring, place } => self.near(view, ring, place),
                Phase::Choose => Some(self.choose(view)),
                Phase::Ring { ring, place } => self.ring(view, ring, place),
                Phase::Collect { target, from } => self.collect(view, target, from),
                Phase::Far { target, place } => self.far(view, target, place),
                Phase::End => return QueryStep::Done,
            };
            match next {
                Some(phase) => self.phase = phase,
                None => return self.meter.step(),
            }
        }
    }

    /// Returns the answer, and the scratch memory for the next query.
    #[must_use]
    pub fn finish(self) -> (Distances, Scratch) {
        let distances = self.targets.iter().map(|target| target.distance).collect();
        let answer = Distances { distances, is_partial: self.meter.is_partial(), edges: self.meter.touched() };
        (answer, self.scratch)
    }

    fn edges(&mut self, view: &View<'_>, source: u32, first: usize) -> Option<Phase> {
        let list = view.list(source, self.ty);
        for index in first..self.targets.len() {
            self.phase = Phase::Edges(index);
            if !self.meter.take_list() {
                return None;
            }
            let target = &mut self.targets[index];
            if target.is_open() && target.node.is_some_and(|node| list.contains(node)) {
                target.distance = Some(1);
            }
        }
        Some(if self.max >= 2 { Phase::First(0) } else { Phase::End })
    }

    fn first(&mut self, view: &View<'_>, source: u32, mut from: u32) -> Option<Phase> {
        let scratch = &mut self.scratch;
        if from == 0 {
            scratch.set(source, 3);
            scratch.first.clear();
        }
        let mut stamp = |id: u32| {
            scratch.set(id, 1);
            scratch.first.push(id);
            true
        };
        let result = walk(&view.list(source, self.ty), &mut from, &mut self.meter, &mut stamp);
        self.phase = Phase::First(from);
        if result != Walk::Finished {
            return None;
        }
        let place = Place::default();
        Some(if self.reverse.is_some() {
            Phase::Near { ring: 1, place }
        } else {
            Phase::Ring { ring: 1, place: Place::default() }
        })
    }

    fn near(&mut self, view: &View<'_>, ring: u8, mut place: Place) -> Option<Phase> {
        let reverse = self.reverse.expect("the phase needs lists against the edges' direction");
        while place.index < self.targets.len() {
            if let Some(node) = self.targets[place.index].node.filter(|_| self.targets[place.index].is_open()) {
                let scratch = &self.scratch;
                let mut look = |id: u32| scratch.stamp(id) != u32::from(ring);
                let list = view.list(node, reverse);
                let result = if place.from == 0 && !self.meter.take_list() {
                    Walk::Paused
                } else if ring == 1 {
                    meets(&list, &scratch.first, scratch, &mut place.from, &mut self.meter)
                } else {
                    walk(&list, &mut place.from, &mut self.meter, &mut look)
                };
                self.phase = Phase::Near { ring, place };
                match result {
                    Walk::Paused => return None,
                    Walk::Ended => self.targets[place.index].distance = Some(ring + 1),
                    Walk::Finished => {}
                }
            }
            place = Place { index: place.index + 1, from: 0 };
        }
        Some(if ring == 1 && self.max >= 3 { Phase::Choose } else { Phase::End })
    }

    /// Compares the degrees of both sides, as far as a sample of each shows them.
    fn choose(&mut self, view: &View<'_>) -> Phase {
        let (source, reverse) = (self.source.expect("open"), self.reverse.expect("chosen with both directions"));
        let edges = |live| u64::from(live);
        let from_source = sampled_degrees(view, source, self.ty, self.ty, &edges);
        let first = self.scratch.first.len();
        let edges = |live| meeting_edges(live, first);
        let open = self.targets.iter().filter(|target| target.is_open()).filter_map(|target| target.node);
        let from_targets: u64 = open.take(64).map(|node| sampled_degrees(view, node, reverse, reverse, &edges)).sum();
        // A search from a target ends at its first hit, and most of them hit early.
        if from_source < from_targets / 4 {
            return Phase::Ring { ring: 1, place: Place::default() };
        }
        Phase::Collect { target: 0, from: 0 }
    }

    fn ring(&mut self, view: &View<'_>, ring: u8, mut place: Place) -> Option<Phase> {
        let nodes = std::mem::take(if ring == 1 { &mut self.scratch.first } else { &mut self.scratch.second });
        let (scratch, targets, by_node) = (&mut self.scratch, &mut self.targets, &self.by_node);
        let has_reverse = self.reverse.is_some();
        let mut visit = |_: u32, id: u32| {
            if scratch.stamp(id) != 0 {
                return true;
            }
            if ring == 1 {
                scratch.set(id, 2);
                scratch.second.push(id);
            } else {
                scratch.set(id, 3);
            }
            // A node may be a target several times.
            let first = by_node.partition_point(|(node, _)| *node < id);
            for (_, index) in by_node[first..].iter().take_while(|(node, _)| *node == id) {
                let target = &mut targets[*index as usize];
                target.distance = target.distance.or(Some(ring + 1));
            }
            true
        };
        let result = walk_all(view, &nodes, self.ty, &mut place, &mut self.meter, &mut visit);
        *(if ring == 1 { &mut self.scratch.first } else { &mut self.scratch.second }) = nodes;
        self.phase = Phase::Ring { ring, place };
        if result != Walk::Finished {
            return None;
        }
        Some(match (has_reverse, ring) {
            (true, 1) => Phase::Near { ring: 2, place: Place::default() },
            (false, 1) if self.max >= 3 => Phase::Ring { ring: 2, place: Place::default() },
            _ => Phase::End,
        })
    }

    fn collect(&mut self, view: &View<'_>, mut target: usize, mut from: u32) -> Option<Phase> {
        let reverse = self.reverse.expect("the phase needs lists against the edges' direction");
        while self.targets.get(target).is_some_and(|found| !found.is_open()) {
            target += 1;
        }
        let Some(node) = self.targets.get(target).and_then(|found| found.node) else { return Some(Phase::End) };
        if from == 0 {
            self.near.clear();
        }
        let near = &mut self.near;
        let mut push = |id: u32| {
            near.push(id);
            true
        };
        let result = walk(&view.list(node, reverse), &mut from, &mut self.meter, &mut push);
        self.phase = Phase::Collect { target, from };
        (result == Walk::Finished).then_some(Phase::Far { target, place: Place::default() })
    }

    fn far(&mut self, view: &View<'_>, target: usize, mut place: Place) -> Option<Phase> {
        let reverse = self.reverse.expect("the phase needs lists against the edges' direction");
        while let Some(node) = self.near.get(place.index).copied() {
            let result = if place.from == 0 && !self.meter.take_list() {
                Walk::Paused
            } else {
                let list = view.list(node, reverse);
                meets(&list, &self.scratch.first, &self.scratch, &mut place.from, &mut self.meter)
            };
            self.phase = Phase::Far { target, place };
            match result {
                Walk::Paused => return None,
                Walk::Ended => {
                    self.targets[target].distance = Some(3);
                    break;
                }
                Walk::Finished => place = Place { index: place.index + 1, from: 0 },
            }
        }
        Some(Phase::Collect { target: target + 1, from: 0 })
    }
}

/// The maximum number of edges that are read for a sample: the first ones of a list may be removed.
const SAMPLED_MAX: usize = 64;

/// Returns an estimate of the sum of the edges that the neighbours of a node cost, from up to 16 of them. `edges`
/// returns the edges that a degree costs.
fn sampled_degrees(view: &View<'_>, node: u32, ty: u8, next: u8, edges: &dyn Fn(u32) -> u64) -> u64 {
    let list = view.list(node, ty);
    let mut sample = [0; 16];
    let (count, _) = ListReader::new(list, 0).read(&mut sample, SAMPLED_MAX);
    let sum: u64 = sample[..count].iter().map(|id| edges(view.graph.head(*id, next).live)).sum();
    (sum * u64::from(list.head.live)).checked_div(count as u64).unwrap_or(0)
}
