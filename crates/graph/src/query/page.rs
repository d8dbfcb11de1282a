//! Pages of one list, in the order of node numbers or of time.
//!
//! A page in time order selects the newest edges after the cursor from the whole list, because lists are stored in the
//! order of node numbers. It touches each edge of the list once, in slices.

use std::collections::BinaryHeap;

use crate::error::GraphError;
use crate::leaf::EdgeState;
use crate::list::{List, ListEdge};
use crate::query::cursor::{Cursor, query_hash};
use crate::query::read::ListReader;
use crate::query::walk::{Meter, QueryStep};
use crate::schema::TypeId;
use crate::view::{EdgeView, View, edge_view};

/// The maximum number of edges that a page reserves memory for at once.
const ROOM_MAX: usize = 4096;
/// The maximum number of edges that a page reads at once.
const RUN: usize = 1024;

/// The properties of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOptions {
    /// The state of the edges to list.
    pub state: EdgeState,
    /// The maximum number of edges.
    pub limit: usize,
    /// True for the reverse of the type's order.
    pub is_reversed: bool,
    /// Only edges whose time is in this range, both ends included. It makes the page one in time order.
    pub by_time: Option<(u64, u64)>,
    /// True to list times and attributes.
    pub with_attributes: bool,
    /// The maximum number of edges to touch.
    pub budget: u64,
}

impl Default for PageOptions {
    fn default() -> Self {
        let budget = u64::MAX;
        Self { state: EdgeState::Live, limit: 100, is_reversed: false, by_time: None, with_attributes: false, budget }
    }
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    /// The cursor of the next page, or [`Cursor::START`] after the last one.
    pub next: Cursor,
    /// The edges.
    pub edges: Vec<PageEdge>,
    /// True if the budget did not suffice.
    pub is_partial: bool,
}

/// An edge of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageEdge {
    /// The identifier of the neighbour.
    pub node: u64,
    /// The time, in milliseconds since the epoch, if the page lists attributes.
    pub time_ms: u64,
    /// The attributes, if the page lists them.
    pub attributes: Vec<u8>,
}

/// The key by which a page sorts: the time or 0, and the node number, both inverted for a descending order.
type Key = (u64, u32);

/// A query of one page.
#[derive(Debug)]
pub struct PageQuery {
    node: Option<u32>,
    ty: u8,
    options: PageOptions,
    hash: u32,
    is_by_time: bool,
    /// The key that the page begins with.
    start: Key,
    /// The place of the walk: the next number, or for a walk backwards the number after it.
    from: u32,
    is_done: bool,
    /// The lowest keys found, one more than the limit, in the order of time.
    keys: BinaryHeap<Key>,
    /// The node numbers of a page in their order, one more than the limit. They are found in their order.
    numbers: Vec<u32>,
    meter: Meter,
}

impl PageQuery {
    /// Begins a query of a page.
    ///
    /// # Errors
    /// If the type is unknown or not sorted by time, the identifier reserved or the cursor of another query.
    pub fn begin(
        view: &View<'_>,
        node: u64,
        ty: TypeId,
        cursor: Cursor,
        options: &PageOptions,
    ) -> Result<Self, GraphError> {
        let (number, found) = (view.check_type(ty)?, view.node(node)?);
        let is_by_time = view.is_by_time(number);
        if options.by_time.is_some() && !is_by_time {
            return Err(GraphError::NotSortedByTime);
        }
        let (low, high) = options.by_time.unwrap_or((0, u64::MAX));
        let words = [3, node, u64::from(ty.0), options.state as u64, u64::from(options.is_reversed), low, high];
        let order = view.graph.identity() << 1 | u64::from(is_by_time);
        let hash = query_hash(words.into_iter().chain([order]));
        let place = cursor.place(hash)?;
        let mut query = Self {
            node: found,
            ty: number,
            options: PageOptions { limit: options.limit.clamp(1, u32::MAX as usize), ..*options },
            hash,
            is_by_time,
            start: (0, 0),
            from: 0,
            is_done: false,
            keys: BinaryHeap::new(),
            numbers: Vec::new(),
            meter: Meter::new(options.budget),
        };
        if let Some((time, id)) = place {
            query.start = query.key(time, id);
        }
        if !is_by_time {
            let backward = if place.is_some() { (u32::MAX - query.start.1).saturating_add(1) } else { u32::MAX };
            query.from = if options.is_reversed { backward } else { query.start.1 };
        }
        Ok(query)
    }

    /// Returns the key of an edge. The order by time lists the newest edge first.
    fn key(&self, time: u64, id: u32) -> Key {
        let is_descending = self.is_by_time != self.options.is_reversed;
        let time = if !self.is_by_time {
            0
        } else if is_descending {
            u64::MAX - time
        } else {
            time
        };
        (time, if self.options.is_reversed { u32::MAX - id } else { id })
    }

    /// Returns the time and the node number of a key.
    fn place(&self, (time, id): Key) -> (u64, u32) {
        let is_descending = self.is_by_time != self.options.is_reversed;
        let time = if self.is_by_time && is_descending { u64::MAX - time } else { time };
        (time, if self.options.is_reversed { u32::MAX - id } else { id })
    }

    /// Touches about `edges` edges at most.
    pub fn step(&mut self, view: &View<'_>, edges: u32) -> QueryStep {
        self.meter.begin(edges);
        let Some(node) = self.node.filter(|_| !self.is_done) else { return QueryStep::Done };
        let list = view.list(node, self.ty);
        if !self.is_by_time {
            let room = self.options.limit.min(list.head.live as usize).min(ROOM_MAX) + 1;
            self.numbers.reserve(room.saturating_sub(self.numbers.len()));
            return if self.options.is_reversed { self.step_back(view, &list) } else { self.step_on(view, &list) };
        }
        let mut next = self.from;
        self.is_done = list.walk(self.from, &mut |edge| {
            next = edge.id;
            let has_room = self.meter.take();
            if has_room {
                next = edge.id + 1;
                self.offer(view, &edge);
            }
            has_room
        });
        self.from = next;
        if self.is_done { QueryStep::Done } else { self.meter.step() }
    }

    /// Reads live neighbours in the order of node numbers.
    fn step_live(&mut self, list: &List<'_>) -> QueryStep {
        let mut reader = ListReader::new(*list, self.from);
        loop {
            let start = self.numbers.len();
            let entries = self.meter.room(RUN);
            if entries == 0 {
                return self.meter.step();
            }
            self.numbers.resize(self.options.limit.saturating_add(1).min(start + entries), 0);
            let (count, touched) = reader.read(&mut self.numbers[start..], entries);
            self.numbers.truncate(start + count);
            self.meter.charge(touched);
            self.from = reader.next();
            self.is_done = reader.is_at_end() || self.numbers.len() > self.options.limit;
            if self.is_done {
                return QueryStep::Done;
            }
        }
    }

    /// Walks on in the order of node numbers.
    fn step_on(&mut self, view: &View<'_>, list: &List<'_>) -> QueryStep {
        if self.options.state == EdgeState::Live {
            return self.step_live(list);
        }
        let mut next = self.from;
        let is_finished = list.walk_states(self.from, &mut |id, state| {
            next = id;
            if !self.meter.take() {
                return false;
            }
            next = id + 1;
            if self.lists(view, id, state) {
                self.numbers.push(id);
            }
            self.numbers.len() <= self.options.limit
        });
        self.from = next;
        self.is_done = is_finished || self.numbers.len() > self.options.limit;
        if self.is_done { QueryStep::Done } else { self.meter.step() }
    }

    /// Walks part by part from the end. A part is one slice, because it is read forward.
    fn step_back(&mut self, view: &View<'_>, list: &List<'_>) -> QueryStep {
        while list.parts() > 0 && self.from > 0 {
            let index = list.part_of(self.from - 1);
            let part = list.part(index);
            let mut edges = Vec::new();
            let mut is_cut = false;
            part.walk_states(0, &mut |id, state| {
                is_cut |= id >= self.from;
                if !is_cut {
                    edges.push((id, state));
                }
                !is_cut
            });
            for (id, state) in edges.into_iter().rev() {
                if !self.meter.take() {
                    return self.meter.step();
                }
                if self.lists(view, id, state) {
                    self.numbers.push(id);
                }
                self.from = id;
                if self.numbers.len() > self.options.limit {
                    self.is_done = true;
                    return QueryStep::Done;
                }
            }
            self.from = if index == 0 { 0 } else { list.first_of(index) };
        }
        self.is_done = true;
        QueryStep::Done
    }

    /// Returns true if a page lists an edge in this state, to this node.
    #[inline]
    fn lists(&self, view: &View<'_>, id: u32, state: EdgeState) -> bool {
        state == self.options.state && !(view.graph.has_archived() && view.graph.is_archived(id))
    }

    /// Retains the key of an edge if the page in time order may list the edge.
    fn offer(&mut self, view: &View<'_>, edge: &ListEdge<'_>) {
        if !self.lists(view, edge.id, edge.state) {
            return;
        }
        let time = edge.time();
        let key = self.key(time, edge.id);
        let is_in_time = self.options.by_time.is_none_or(|(low, high)| (low..=high).contains(&time));
        if key < self.start || !is_in_time {
            return;
        }
        if self.keys.len() <= self.options.limit {
            self.keys.push(key);
        } else if self.keys.peek().is_some_and(|last| key < *last) {
            self.keys.pop();
            self.keys.push(key);
        }
    }

    /// Returns the page.
    #[must_use]
    pub fn finish(mut self, view: &View<'_>) -> ListPage {
        let keys = std::mem::take(&mut self.keys).into_sorted_vec();
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.extend(keys.iter().map(|key| self.place(*key).1));
        let time = |at: usize| keys.get(at).map_or(0, |key| self.place(*key).0);
        let next = numbers.get(self.options.limit).map(|number| (time(self.options.limit), *number));
        let continued = (!self.is_done && self.node.is_some() && !self.is_by_time)
            .then_some((0, self.from - u32::from(self.options.is_reversed && self.from > 0)));
        let next = next.or(continued).map_or(Cursor::START, |(time, id)| Cursor::new(self.hash, time, id));
        numbers.truncate(self.options.limit);
        let is_partial = self.meter.is_partial();
        let plain = |number: &u32| PageEdge { node: view.external(*number), time_ms: 0, attributes: Vec::new() };
        let Some(node) = self.node.filter(|_| self.options.with_attributes) else {
            return ListPage { next, edges: numbers.iter().map(plain).collect(), is_partial };
        };
        let list = view.list(node, self.ty);
        // An edge may have changed since a slice listed it.
        let is_listed = |value: &EdgeView| {
            let is_in_time = self.options.by_time.is_none_or(|(low, high)| (low..=high).contains(&value.time_ms));
            value.state == self.options.state && is_in_time
        };
        let edge = |number: &u32| {
            let EdgeView { time_ms, attributes, .. } = list.find(*number).as_ref().map(edge_view).filter(is_listed)?;
            Some(PageEdge { node: view.external(*number), time_ms, attributes })
        };
        ListPage { next, edges: numbers.iter().filter_map(edge).collect(), is_partial }
    }
}
