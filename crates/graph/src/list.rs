//! Reads of adjacency lists.
//!
//! ```text
//!   head ──> leaf                                   a list that was merged completely
//!        ──> recent ──> leaf                        up to 64 changes, and the leaf that they apply to
//!        ──> leaves ──> leaf or recent, for each range of node numbers
//! ```
//!
//! An entry of `recent` replaces the leaf's entry of the same node number, and earlier entries of `recent`.

use crate::leaf::{BLOCK, EdgeState, Leaf, LeafEntries, LeafEntry, Numbers, unpack};
use crate::limits::RECENT_MAX;
use crate::memory::AtomicU32;
use crate::record::{
    EDGE_WORDS, LEAVES_WORDS, RECENT_COUNT, RECENT_ENTRY_WORDS, RECENT_LEAF, RECENT_WORDS, RecordKind, RecordRef,
};
use crate::state::{GraphState, Head};

/// The least number of packed neighbours that a walk unpacks one at a time.
const FIRST_SINGLE: usize = 16;

/// A change in a `recent` record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecentChange {
    pub(crate) id: u32,
    pub(crate) position: u32,
    state: u32,
}

impl RecentChange {
    pub(crate) fn state(self) -> EdgeState {
        EdgeState::of(self.state as u8)
    }
}

/// The changes of a `recent` record: the latest of each node number, ascending.
struct RecentChanges {
    changes: [RecentChange; RECENT_MAX],
    count: usize,
}

/// Returns the number of entries of a `recent` record.
pub(crate) fn recent_count(record: RecordRef<'_>) -> usize {
    (record.published(RECENT_COUNT) as usize).min(RECENT_MAX)
}

/// Returns an entry of a `recent` record.
pub(crate) fn recent_change(record: RecordRef<'_>, index: usize) -> RecentChange {
    let at = RECENT_WORDS + index * RECENT_ENTRY_WORDS;
    RecentChange { id: record.word(at), position: record.published(at + 1), state: record.word(at + 2) }
}

impl RecentChanges {
    fn of(record: RecordRef<'_>) -> Self {
        let mut sorted = Self { changes: [RecentChange::default(); RECENT_MAX], count: 0 };
        for index in 0..recent_count(record) {
            let change = recent_change(record, index);
            let at = sorted.changes[..sorted.count].partition_point(|other| other.id < change.id);
            if at == sorted.count || sorted.changes[at].id != change.id {
                sorted.changes.copy_within(at..sorted.count, at + 1);
                sorted.count += 1;
            }
            sorted.changes[at] = change;
        }
        sorted
    }

    fn list(&self) -> &[RecentChange] {
        &self.changes[..self.count]
    }
}

/// An edge of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListEdge<'a> {
    pub(crate) id: u32,
    pub(crate) state: EdgeState,
    place: EdgePlace<'a>,
}

/// The record that holds an edge's time and attributes.
#[derive(Clone, Copy, Debug)]
enum EdgePlace<'a> {
    Leaf(Leaf<'a>, usize),
    RecordRef(RecordRef<'a>),
}

impl<'a> ListEdge<'a> {
    fn recent(memory: &'a [AtomicU32], change: RecentChange) -> Self {
        let place = EdgePlace::RecordRef(RecordRef::at(memory, change.position));
        Self { id: change.id, state: change.state(), place }
    }

    pub(crate) fn time(&self) -> u64 {
        match self.place {
            EdgePlace::Leaf(leaf, index) => leaf.time(index),
            EdgePlace::RecordRef(record) => record.long(6),
        }
    }

    /// Appends the stored text of the attributes to `out`: see `change`.
    pub(crate) fn text(&self, out: &mut Vec<u8>) {
        match self.place {
            EdgePlace::Leaf(leaf, index) => leaf.attributes(index, out),
            EdgePlace::RecordRef(record) => record.copy_bytes(EDGE_WORDS, record.edge_properties().2, out),
        }
    }
}

/// The maximum number of neighbours that a walk in runs passes on at once.
pub(crate) const RUN_MAX: usize = 256;
/// The number of neighbours of the first run. Each run is up to four times as long as the one before, because many
/// walks end early.
const RUN_FIRST: usize = 16;

/// A receiver of node numbers in runs of up to [`RUN_MAX`].
struct NumberRuns<'r, F> {
    numbers: &'r mut [u32; RUN_MAX],
    count: usize,
    /// The number of neighbours of the current run, if the list has as many.
    room: usize,
    receive: F,
}

impl<F: FnMut(&mut [u32]) -> bool> NumberRuns<'_, F> {
    /// Passes on the numbers that were added since the last run. Returns false if the receiver ended the walk.
    fn flush(&mut self) -> bool {
        let count = std::mem::take(&mut self.count);
        self.room = RUN_MAX.min(self.room * 4);
        count == 0 || (self.receive)(&mut self.numbers[..count])
    }

    /// Adds a number.
    #[inline]
    fn push(&mut self, id: u32) -> bool {
        self.numbers[self.count] = id;
        self.count += 1;
        self.count < self.room || self.flush()
    }

    /// Adds the numbers of a range of a leaf's entries.
    #[inline]
    fn extend(&mut self, numbers: Numbers<'_>, mut range: std::ops::Range<usize>) -> bool {
        while !range.is_empty() {
            let count = range.len().min(self.room - self.count);
            numbers.read(range.start, &mut self.numbers[self.count..][..count]);
            self.count += count;
            range.start += count;
            if self.count == self.room && !self.flush() {
                return false;
            }
        }
        true
    }
}

/// One leaf with its recent changes, or one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListPart<'a> {
    memory: &'a [AtomicU32],
    pub(crate) position: u32,
    pub(crate) recent: Option<RecordRef<'a>>,
    pub(crate) leaf: Option<Leaf<'a>>,
    pub(crate) leaf_position: u32,
}

impl<'a> ListPart<'a> {
    #[inline]
    pub(crate) fn at(memory: &'a [AtomicU32], position: u32) -> Self {
        let record = RecordRef::at(memory, position);
        let (recent, leaf_position) = match record.kind() {
            Some(RecordKind::Recent) => (Some(record), record.published(RECENT_LEAF)),
            _ => (None, position),
        };
        let leaf = (leaf_position != 0).then(|| Leaf::of(RecordRef::at(memory, leaf_position)));
        Self { memory, position, recent, leaf, leaf_position }
    }

    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<ListEdge<'a>> {
        if let Some(record) = self.recent {
            let mut changes = (0..recent_count(record)).rev().map(|index| recent_change(record, index));
            if let Some(change) = changes.find(|change| change.id == id) {
                return Some(ListEdge::recent(self.memory, change));
            }
        }
        let leaf = self.leaf?;
        let index = leaf.find(id)?;
        Some(ListEdge { id, state: leaf.state(index), place: EdgePlace::Leaf(leaf, index) })
    }

    /// Calls `f` for each edge from number `from` on, ascending. Returns false if `f` did, which ends the walk.
    pub(crate) fn walk(&self, from: u32, f: &mut impl FnMut(ListEdge<'a>) -> bool) -> bool {
        let sorted = self.recent.map(RecentChanges::of);
        let changes = sorted.as_ref().map_or(&[][..], RecentChanges::list);
        let mut changes = changes[changes.partition_point(|change| change.id < from)..].iter().copied().peekable();
        if let Some(leaf) = self.leaf {
            for index in leaf.lower_bound(from)..leaf.count() {
                let id = leaf.numbers.at(index);
                while let Some(change) = changes.next_if(|change| change.id < id) {
                    if !f(ListEdge::recent(self.memory, change)) {
                        return false;
                    }
                }
                let edge = match changes.next_if(|change| change.id == id) {
                    Some(change) => ListEdge::recent(self.memory, change),
                    None => ListEdge { id, state: leaf.state(index), place: EdgePlace::Leaf(leaf, index) },
                };
                if !f(edge) {
                    return false;
                }
            }
        }
        changes.all(|change| f(ListEdge::recent(self.memory, change)))
    }

    /// Calls `f` for the number of each live edge, as [`ListPart::walk`] does.
    #[inline]
    fn walk_live(&self, from: u32, f: &mut impl FnMut(u32) -> bool) -> bool {
        match self.leaf {
            Some(leaf) if self.recent.is_none() && leaf.all_live() => {
                let indexes = (if from == 0 { 0 } else { leaf.lower_bound(from) })..leaf.count();
                match leaf.numbers {
                    Numbers::Words(_) => indexes.into_iter().all(|index| f(leaf.numbers.at(index))),
                    numbers @ Numbers::Halves(..) => indexes.into_iter().all(|index| f(numbers.at(index))),
                    Numbers::Packed(first, width, words) => {
                        let (mut index, mut block) = (indexes.start, [0; BLOCK]);
                        while index < indexes.end {
                            // Many walks end early, so blocks are unpacked only after some single numbers.
                            let is_block = index % BLOCK == 0
                                && index >= indexes.start + FIRST_SINGLE
                                && index + BLOCK <= indexes.end;
                            let ids = if is_block {
                                unpack(&words[index / BLOCK * width as usize..], width, first, &mut block);
                                &block[..]
                            } else {
                                block[0] = leaf.numbers.at(index);
                                &block[..1]
                            };
                            index += ids.len();
                            if !ids.iter().all(|id| f(*id)) {
                                return false;
                            }
                        }
                        true
                    }
                }
            }
            _ => self.walk(from, &mut |edge| edge.state != EdgeState::Live || f(edge.id)),
        }
    }

    /// Passes the number of each live edge to `runs`, ascending. Returns false if the receiver ended the walk.
    fn numbers_into(&self, runs: &mut NumberRuns<'_, impl FnMut(&mut [u32]) -> bool>) -> bool {
        let Some(leaf) = self.leaf.filter(|leaf| leaf.all_live()) else {
            return self.walk_live(0, &mut |id| runs.push(id));
        };
        let mut start = 0;
        if let Some(recent) = self.recent {
            for change in RecentChanges::of(recent).list() {
                let at = leaf.lower_bound(change.id);
                if !runs.extend(leaf.numbers, start..at) {
                    return false;
                }
                start = at + usize::from(at < leaf.count() && leaf.numbers.at(at) == change.id);
                if change.state() == EdgeState::Live && !runs.push(change.id) {
                    return false;
                }
            }
        }
        runs.extend(leaf.numbers, start..leaf.count())
    }

    /// Calls `f` with the number and the state of each edge from number `from` on, as [`ListPart::walk`] does.
    #[inline]
    pub(crate) fn walk_states(&self, from: u32, f: &mut impl FnMut(u32, EdgeState) -> bool) -> bool {
        match self.leaf {
            Some(leaf) if self.recent.is_none() && leaf.all_live() => {
                self.walk_live(from, &mut |id| f(id, EdgeState::Live))
            }
            _ => self.walk(from, &mut |edge| f(edge.id, edge.state)),
        }
    }

    /// Appends the merged edges to `entries`.
    pub(crate) fn read_into(&self, entries: &mut LeafEntries) {
        entries.marked_at = self.leaf.and_then(Leaf::marked_at);
        let mut from = 0;
        for change in self.recent.map(RecentChanges::of).iter().flat_map(RecentChanges::list) {
            if let Some(leaf) = self.leaf {
                let at = leaf.lower_bound(change.id);
                leaf.read_into(from..at, entries);
                from = at + usize::from(at < leaf.count() && leaf.numbers.at(at) == change.id);
            }
            let edge = ListEdge::recent(self.memory, *change);
            let start = entries.text.len() as u32;
            edge.text(&mut entries.text);
            let bytes = (entries.text.len() as u32 - start) as u16;
            let (id, state, time) = (edge.id, edge.state, edge.time());
            entries.list.push(LeafEntry { id, state, is_marked: false, time, start, bytes });
        }
        if let Some(leaf) = self.leaf {
            leaf.read_into(from..leaf.count(), entries);
        }
    }
}

/// An adjacency list, as its head was when the list was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<'a> {
    graph: &'a GraphState,
    memory: &'a [AtomicU32],
    pub(crate) head: Head,
    /// The record of a long list's leaves.
    pub(crate) leaves: Option<RecordRef<'a>>,
    hides: bool,
}

impl<'a> List<'a> {
    #[inline]
    pub(crate) fn open(graph: &'a GraphState, memory: &'a [AtomicU32], node: u32, ty: u8) -> Self {
        let head = graph.head(node, ty);
        let record = (head.position != 0).then(|| RecordRef::at(memory, head.position));
        let leaves = record.filter(|record| record.kind() == Some(RecordKind::Leaves));
        Self { graph, memory, head, leaves, hides: graph.has_archived() }
    }

    /// Returns the number of parts.
    pub(crate) fn parts(&self) -> usize {
        self.leaves.map_or(usize::from(self.head.position != 0), |leaves| leaves.word(4) as usize)
    }

    /// Returns a part by its index.
    pub(crate) fn part(&self, index: usize) -> ListPart<'a> {
        let position = match self.leaves {
            Some(leaves) => leaves.published(LEAVES_WORDS + index * 2 + 1),
            None => self.head.position,
        };
        ListPart::at(self.memory, position)
    }

    /// Returns the first node number that a part may hold, and the end of its range.
    pub(crate) fn range_of(&self, index: usize) -> (u32, u32) {
        let end = if index + 1 < self.parts() { self.first_of(index + 1) } else { u32::MAX };
        (if index == 0 { 0 } else { self.first_of(index) }, end)
    }

    /// Returns the first node number of a part of a long list.
    pub(crate) fn first_of(&self, index: usize) -> u32 {
        self.leaves.map_or(0, |leaves| leaves.word(LEAVES_WORDS + index * 2))
    }

    /// Returns the index of the part that has or would have the edge to `id`.
    #[inline]
    pub(crate) fn part_of(&self, id: u32) -> usize {
        let Some(leaves) = self.leaves else { return 0 };
        let (mut start, mut size) = (1, leaves.word(4) as usize - 1);
        while size > 0 {
            let half = size / 2;
            if leaves.word(LEAVES_WORDS + (start + half) * 2) <= id {
                start += half + 1;
                size -= half + 1;
            } else {
                size = half;
            }
        }
        start - 1
    }

    /// Returns the edge to `id` in any state, and regardless of archived nodes.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<ListEdge<'a>> {
        (self.head.position != 0).then(|| self.part(self.part_of(id)).find(id))?
    }

    #[inline]
    pub(crate) fn shows(&self, id: u32) -> bool {
        !self.hides || !self.graph.is_archived(id)
    }

    /// Moves the numbers of nodes that are not archived to the front. Returns their number.
    #[inline]
    pub(crate) fn retain_shown(&self, numbers: &mut [u32]) -> usize {
        if !self.hides {
            return numbers.len();
        }
        let mut shown = 0;
        for at in 0..numbers.len() {
            numbers[shown] = numbers[at];
            shown += usize::from(!self.graph.is_archived(numbers[at]));
        }
        shown
    }

    /// Returns true if the list has a live edge to `id`, which is not archived.
    #[inline]
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.find(id).is_some_and(|edge| edge.state == EdgeState::Live) && self.shows(id)
    }

    /// Calls `f` for each edge from `from` on in any state, ascending. Returns false if `f` did.
    pub(crate) fn walk(&self, from: u32, f: &mut impl FnMut(ListEdge<'a>) -> bool) -> bool {
        let parts = self.parts();
        parts == 0 || (self.part_of(from)..parts).all(|index| self.part(index).walk(from, f))
    }

    /// Calls `f` for each edge from `from` on, with its number and its state, ascending. Returns false if `f` did.
    #[inline]
    pub(crate) fn walk_states(&self, from: u32, f: &mut impl FnMut(u32, EdgeState) -> bool) -> bool {
        let parts = self.parts();
        parts == 0 || (self.part_of(from)..parts).all(|index| self.part(index).walk_states(from, f))
    }

    /// Calls `f` with runs of the numbers of live neighbours that are not archived, ascending. `numbers` is memory for
    /// a run. Returns false if `f` did, which ends the walk.
    pub(crate) fn runs(&self, numbers: &mut [u32; RUN_MAX], mut f: impl FnMut(&[u32]) -> bool) -> bool {
        let receive = |run: &mut [u32]| {
            let shown = self.retain_shown(run);
            shown == 0 || f(&run[..shown])
        };
        let mut runs = NumberRuns { numbers, count: 0, room: RUN_FIRST, receive };
        (0..self.parts()).all(|index| self.part(index).numbers_into(&mut runs)) && runs.flush()
    }
}
