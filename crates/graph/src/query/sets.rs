//! Set operations over adjacency lists: intersection, union and difference, and common neighbours.
//!
//! Each list is read through a window of up to 256 neighbours. A window that must move far finds its place by binary
//! search, so an intersection with a long list costs a search for each neighbour of the short one and not a scan.

use crate::error::GraphError;
use crate::limits::SETS_MAX;
use crate::query::cursor::{Cursor, query_hash};
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

impl Window {
    fn new(node: u32, ty: u8, from: u32) -> Self {
        Self { node, ty, ids: [0; WINDOW], at: 0, count: 0, next: Some(from), room: 8 }
    }

    /// Returns the first neighbour from `from` on. `Err` if the meter allows no read.
    #[inline]
    fn seek(&mut self, view: &View<'_>, meter: &mut Meter, from: u32) -> Result<Option<u32>, ()> {
        loop {
            while self.at < self.count {
                if self.ids[self.at] >= from {
                    return Ok(Some(self.ids[self.at]));
                }
                self.at += 1;
            }
            let Some(next) = self.next else { return Ok(None) };
            if !meter.take_list() {
                return Err(());
            }
            self.room = if from > next { 8 } else { (self.room * 2).min(WINDOW) };
            (self.at, self.count, self.next) = (0, 0, None);
            view.list(self.node, self.ty).neighbours(next.max(from), &mut |id| {
                if self.count == self.room || !meter.take() {
                    self.next = Some(id);
                    return false;
                }
                self.ids[self.count] = id;
                self.count += 1;
                true
            });
            if self.count == 0 && self.next.is_some() {
                return Err(());
            }
        }
    }
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
        while !self.is_at_end && self.count < self.limit as u64 {
            if self.operation == SetOperation::Intersection && self.windows.len() == 2 && self.intersect_windows() {
                continue;
            }
            let next = match self.operation {
                SetOperation::Intersection => self.next_of_all(view),
                SetOperation::Union => self.next_of_any(view),
                SetOperation::Difference => self.next_of_first(view),
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

    /// Intersects the neighbours that both windows hold, without a branch for each. Returns true if it found some.
    fn intersect_windows(&mut self) -> bool {
        let [left, right] = &mut self.windows[..] else { return false };
        let (hits, mut count) = (&mut self.hits, 0);
        let (left_ids, right_ids) = (&left.ids[..left.count], &right.ids[..right.count]);
        hits.resize(WINDOW, 0);
        while let (Some(own), Some(other)) = (left_ids.get(left.at), right_ids.get(right.at)) {
            // Both windows hold ascending numbers, so there are no more hits than numbers in one of them.
            hits[count % WINDOW] = *own;
            count += usize::from(own == other);
            left.at += usize::from(own <= other);
            right.at += usize::from(other <= own);
        }
        let first = hits[..count].partition_point(|id| *id < self.from);
        let room = usize::try_from(self.limit as u64 - self.count).unwrap_or(usize::MAX);
        let hits = &hits[first..count.min(first.saturating_add(room))];
        let Some(last) = hits.last() else { return false };
        self.from = last + 1;
        self.count += hits.len() as u64;
        if !self.counts_only {
            self.found.extend_from_slice(hits);
        }
        true
    }

    fn next_of_all(&mut self, view: &View<'_>) -> Result<Option<u32>, ()> {
        let (first, others) = self.windows.split_first_mut().expect("at least one list");
        'candidates: while let Some(id) = first.seek(view, &mut self.meter, self.from)? {
            self.from = id;
            for other in &mut *others {
                match other.seek(view, &mut self.meter, id)? {
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

    fn next_of_any(&mut self, view: &View<'_>) -> Result<Option<u32>, ()> {
        let mut least: Option<u32> = None;
        for window in &mut self.windows {
            let found = window.seek(view, &mut self.meter, self.from)?;
            least = [least, found].into_iter().flatten().min();
        }
        Ok(least)
    }

    fn next_of_first(&mut self, view: &View<'_>) -> Result<Option<u32>, ()> {
        let (first, others) = self.windows.split_first_mut().expect("at least one list");
        while let Some(id) = first.seek(view, &mut self.meter, self.from)? {
            let mut is_in_other = false;
            for other in &mut *others {
                is_in_other |= other.seek(view, &mut self.meter, id)? == Some(id);
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
