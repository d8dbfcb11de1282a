//! The load of a batch, in slices: see [`crate::bulk`].

use crate::append::{Writer, words_unclaimed};
use crate::bulk::batch::{BulkBatch, BulkPhase, BulkReport, BulkState, DEFERRED};
use crate::bulk::sort::EdgeRef;
use crate::change::{EdgeAction, EdgeChange, EdgeValue};
use crate::error::GraphError;
use crate::ids::FIND_MAX;
use crate::leaf::{EdgeState, LeafEntry, LeafPlace, encode_plain};
use crate::limits::{LEAF_ENTRIES_MAX, LEAVES_MAX};
use crate::list::{ListPart, recent_change, recent_count};
use crate::record::{OF_BATCH, RECENT_ENTRY_WORDS, RecordRef};
use crate::schema::TypeId;
use crate::state::Head;
use std::sync::atomic::Ordering::Relaxed;

/// The maximum number of entries that are merged into one leaf at once, and of the bytes of their attributes. The
/// leaves that result fit into the room that `Writer::check_room` guarantees.
const ADDITIONS_MAX: usize = LEAF_ENTRIES_MAX;
const ADDITION_BYTES_MAX: usize = 32 << 10;
/// A part of a list with more than this many entries for each addition collects the additions as recent changes.
const ENTRIES_REWRITTEN_MAX: usize = 64;
/// The maximum words of an entry of a leaf, without attributes (number, time, state and end of the attributes), or of a
/// recent change in a record with twice the room.
const ENTRY_WORDS: u64 = 6;
/// The maximum words of a leaf before its node numbers, with its place in the record of the list's leaves.
const LEAF_HEADER_WORDS: u64 = 14;
/// The number of entries that a leaf certainly holds, even if attributes fill it.
const LEAF_ENTRIES_LEAST: usize = 64;

/// The maximum number of lists that are prefetched at once, and of their entries.
const LISTS_PREFETCHED: usize = 16;
const ENTRIES_PREFETCHED: usize = 512;

/// The result of a slice of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkStep {
    /// The batch is not loaded completely.
    More,
    /// The batch is loaded, or there is none.
    Done,
}

/// A writer that loads batches. A batch belongs to its graph: if this value ends amid a batch, another one continues.
///
/// # Example
/// ```
/// use gannet_graph::*;
///
/// let store = GraphStore::new(anonymous(96 << 20), &GraphStoreConfig::default())?;
/// let graph = store.create_graph("people")?;
/// let direction = Direction::Undirected;
/// let config = EdgeTypeConfig { direction, ..Default::default() };
/// let knows = graph.writer().declare_type("knows", &config)?;
/// let mut batch = BulkBatch::new(knows, 1000);
/// for (source, destination) in [(1, 2), (2, 3), (2, 1)] {
///     batch.push(source, destination, 5, b"")?;
/// }
/// let mut writer = graph.writer();
/// let mut bulk = BulkWriter::new(&mut writer);
/// bulk.begin(batch).map_err(|(error, _)| error)?;
/// while bulk.step(4096)? == BulkStep::More {}
/// let (report, _batch) = bulk.finish().expect("complete");
/// assert_eq!((report.edges, report.edges_changed, report.nodes_added), (3, 2, 3));
/// # Ok::<(), GraphError>(())
/// ```
#[derive(Debug)]
pub struct BulkWriter<'w, 'g> {
    writer: &'w mut Writer<'g>,
}

impl<'w, 'g> BulkWriter<'w, 'g> {
    /// Creates a loader of batches.
    pub fn new(writer: &'w mut Writer<'g>) -> Self {
        Self { writer }
    }

    /// Begins to load a batch.
    ///
    /// # Errors
    /// If another batch is not finished, the type is unknown, or the batch has attributes and the type no schema. The
    /// batch is returned.
    #[expect(clippy::result_large_err, reason = "one call a batch, and the caller gets its edges back")]
    pub fn begin(&mut self, batch: BulkBatch) -> Result<(), (GraphError, BulkBatch)> {
        if self.writer.state.bulk.is_some() {
            return Err((GraphError::BulkInProgress, batch));
        }
        let Some(edge_type) = self.writer.graph.edge_type(batch.ty) else {
            return Err((self.writer.graph.no_type(), batch));
        };
        if batch.text_bytes() > 0 && edge_type.schema.is_empty() {
            return Err((GraphError::NoSchema, batch));
        }
        self.writer.state.bulk = Some(Box::new(BulkState::new(batch, self.writer.graph.ids.len())));
        Ok(())
    }

    /// Touches about `edges_max` edges at most.
    ///
    /// # Errors
    /// If no segment is free, or the graph was dropped. If none is free, the caller compacts the graph and calls this
    /// function again. If compaction finds nothing either, [`BulkWriter::cancel`] may return the batch.
    pub fn step(&mut self, edges_max: u32) -> Result<BulkStep, GraphError> {
        let Some(mut bulk) = self.writer.state.bulk.take() else {
            let is_dropped = self.writer.graph.is_dropped();
            return if is_dropped { Err(GraphError::GraphDropped) } else { Ok(BulkStep::Done) };
        };
        self.writer.has_reservation = true;
        let result = LoadSlice { writer: self.writer, bulk: &mut bulk, left: edges_max as usize }.run();
        self.writer.has_reservation = false;
        self.writer.state.bulk = Some(bulk);
        result
    }

    /// Returns the report of a batch that is loaded completely, and the batch without its edges.
    pub fn finish(&mut self) -> Option<(BulkReport, BulkBatch)> {
        let bulk = self.writer.state.bulk.take_if(|bulk| bulk.phase == BulkPhase::Done)?;
        let mut batch = bulk.batch;
        batch.clear();
        Some((bulk.report, batch))
    }

    /// Gives up a batch that has stored nodes at most, and returns it. A smaller batch needs less room.
    pub fn cancel(&mut self) -> Option<BulkBatch> {
        use BulkPhase::{Check, Number, Sort};
        let is_unstored = |bulk: &mut Box<BulkState>| matches!(bulk.phase, Number | Sort | Check);
        let bulk = self.writer.state.bulk.take_if(is_unstored)?;
        self.writer.store.pool.end_reservation(bulk.reserved);
        let mut batch = bulk.batch;
        batch.sort.clear();
        batch.log.clear();
        Some(batch)
    }
}

/// A run of entries that are merged into one part of a list.
struct EntryRun {
    node: u32,
    ty: u8,
    /// The index of the part.
    index: usize,
    /// The indexes of the entries.
    entries: std::ops::Range<usize>,
}

/// The number of entries of a list that a merge changed.
#[derive(Default)]
struct Merged {
    /// Entries that became live.
    live: u32,
    /// Entries whose time, state or attributes changed.
    entries: u64,
    /// Edges whose state or attributes changed, counted in one of their two lists.
    edges: u64,
}

/// One slice of a load.
struct LoadSlice<'a, 'g> {
    writer: &'a mut Writer<'g>,
    bulk: &'a mut BulkState,
    left: usize,
}

impl<'g> LoadSlice<'_, 'g> {
    fn run(&mut self) -> Result<BulkStep, GraphError> {
        loop {
            let (is_complete, next) = match self.bulk.phase {
                BulkPhase::Number => (self.number()?, BulkPhase::Sort),
                BulkPhase::Sort => (self.sort(), BulkPhase::Check),
                BulkPhase::Check => (self.check()? && self.begin_log()?, BulkPhase::Log),
                BulkPhase::Log => (self.log()?, BulkPhase::Lists),
                BulkPhase::Lists => (self.lists()?, BulkPhase::Deferred),
                BulkPhase::Deferred => (self.apply_deferred()?, BulkPhase::Release),
                BulkPhase::Release => (self.release()?, BulkPhase::Done),
                BulkPhase::Done => return Ok(BulkStep::Done),
            };
            if !is_complete {
                return Ok(BulkStep::More);
            }
            self.bulk.phase = next;
            (self.bulk.at, self.bulk.prefetched) = (0, 0);
        }
    }

    /// Takes one edge of the slice. Returns false if none is left.
    fn take(&mut self) -> bool {
        let has_one = self.left > 0;
        self.left -= usize::from(has_one);
        has_one
    }

    fn reverse(&self) -> Option<u8> {
        self.writer.graph.edge_type(self.bulk.batch.ty).and_then(|found| found.reverse())
    }

    /// Returns the type of the list that has an entry.
    fn type_of(&self, entry: EdgeRef) -> u8 {
        let ty = self.bulk.batch.ty;
        if entry.is_reverse() { self.reverse().unwrap_or(ty) } else { ty }
    }

    fn number(&mut self) -> Result<bool, GraphError> {
        let (ty, reverse) = (self.bulk.batch.ty, self.reverse());
        while self.bulk.at < self.bulk.batch.len() {
            if self.left == 0 {
                return Ok(false);
            }
            let ends = &self.bulk.batch.ends[self.bulk.at..];
            let count = ends.len().min(self.left).min(FIND_MAX / 2);
            let mut externals = [0; FIND_MAX];
            for (pair, (source, destination)) in externals.as_chunks_mut::<2>().0.iter_mut().zip(&ends[..count]) {
                *pair = [*source, *destination];
            }
            let found = self.writer.graph.ids.find_many(&externals[..count * 2]);
            let pairs = externals.as_chunks::<2>().0.iter().zip(found.as_chunks::<2>().0);
            for (externals, found) in pairs.take(count) {
                let (source, destination) =
                    (self.number_of(externals[0], found[0])?, self.number_of(externals[1], found[1])?);
                let edge = self.bulk.at;
                self.bulk.batch.sort.push(EdgeRef::new(source, destination, edge, false));
                if let Some(reverse) = reverse {
                    self.bulk.batch.sort.push(EdgeRef::new(destination, source, edge, reverse != ty));
                }
                self.bulk.batch.log.push(0);
                self.bulk.at += 1;
                self.left -= 1;
            }
        }
        self.bulk.report.nodes_added = u64::from(self.writer.graph.ids.len() - self.bulk.nodes_before);
        let has_sides = reverse.is_some_and(|reverse| reverse != ty);
        self.bulk.batch.sort.begin(self.writer.graph.ids.len(), has_sides);
        Ok(true)
    }

    /// Returns the number of a node, and adds the node unless it was found.
    fn number_of(&mut self, external: u64, found: Option<u32>) -> Result<u32, GraphError> {
        if let Some(number) = found {
            return Ok(number);
        }
        self.writer.check_room()?;
        self.writer.store.index.check(0)?;
        self.writer.node_number(external)
    }

    fn sort(&mut self) -> bool {
        // An entry is moved in a fraction of the time that other work on an edge needs.
        while self.left > 0 {
            let entries = self.left.min(1024);
            self.left -= entries;
            if self.bulk.batch.sort.step(entries * 4) {
                return true;
            }
        }
        false
    }

    /// Defers the edges of lists that might exceed their cap or their number of leaves. All other edges of the batch
    /// can be added in any order.
    fn check(&mut self) -> Result<bool, GraphError> {
        if self.bulk.reserved > 0 {
            return Ok(true);
        }
        while self.bulk.at < self.bulk.batch.sort.refs.len() {
            if !self.take() {
                return Ok(false);
            }
            self.prefetch_lists();
            let first = self.bulk.batch.sort.refs[self.bulk.at];
            if self.bulk.at < self.bulk.deferred_end {
                self.bulk.batch.log[first.edge()] = DEFERRED;
                self.bulk.at += 1;
                continue;
            }
            let end = group_end(&self.bulk.batch.sort.refs, self.bulk.at);
            let (ty, additions) = (self.type_of(first), end - self.bulk.at);
            let cap = self.writer.graph.edge_type(ty).map_or(0, |found| found.cap);
            let head = self.writer.graph.head(first.node, ty);
            let growth = self.growth(self.bulk.at, end, ty);
            self.bulk.growth += growth;
            self.count_head(first.node, ty);
            let may_exceed_cap = cap != 0 && head.live as usize + additions > cap as usize;
            // A short list has few leaves, so most lists are not opened.
            let is_long = head.live as usize + additions > LEAF_ENTRIES_LEAST * LEAVES_MAX / 4;
            let leaves = if is_long { self.writer.list(first.node, ty).parts() } else { 0 };
            if may_exceed_cap || (is_long && leaves + additions / LEAF_ENTRIES_LEAST + 2 > LEAVES_MAX) {
                self.bulk.deferred_end = end;
                self.bulk.has_deferred = true;
            } else {
                self.bulk.at = end;
            }
        }
        self.reserve()?;
        Ok(true)
    }

    /// Counts the page of a list's head if the batch creates it. Lists of one page follow each other.
    fn count_head(&mut self, node: u32, ty: u8) {
        if let Some((page, bytes)) = self.writer.graph.missing_head_page(node, ty)
            && self.bulk.head_page.replace((ty, page)) != Some((ty, page))
        {
            self.bulk.index_growth += bytes;
        }
    }

    /// Brings the heads and the records of the next lists into the cache. Their cache misses overlap, in contrast to
    /// those of the code that reads one list after another.
    fn prefetch_lists(&mut self) {
        if self.bulk.at < self.bulk.prefetched {
            return;
        }
        let refs = &self.bulk.batch.sort.refs[self.bulk.at..];
        let (mut lists, mut count) = ([(0, 0); LISTS_PREFETCHED], 0);
        let mut last = None;
        let mut end = 0;
        for entry in &refs[..refs.len().min(ENTRIES_PREFETCHED)] {
            if last.is_none_or(|last| !entry.is_beside(last)) {
                if count == LISTS_PREFETCHED {
                    break;
                }
                lists[count] = (entry.node, self.type_of(*entry));
                count += 1;
                last = Some(*entry);
            }
            end += 1;
        }
        let positions = lists.map(|(node, ty)| self.writer.graph.head(node, ty).position);
        let words = self.writer.store.pool.words();
        let sum = positions[..count].iter().fold(0, |sum, position| sum ^ words[*position as usize * 2].load(Relaxed));
        std::hint::black_box(sum);
        self.bulk.prefetched = self.bulk.at + end;
    }

    /// Returns more words than the entries from `at` to `end`, which belong to one list, add to its records.
    fn growth(&mut self, mut at: usize, end: usize, ty: u8) -> u64 {
        let list = self.writer.list(self.bulk.batch.sort.refs[at].node, ty);
        // Full leaves are divided. A list with several leaves has a record of them.
        let mut leaves = 1 + ((end - at) / LEAF_ENTRIES_LEAST) as u64;
        let mut words = (end - at) as u64 * ENTRY_WORDS + crate::record::LEAVES_WORDS as u64;
        while list.head.position != 0 && at < end {
            let refs = &self.bulk.batch.sort.refs[at..end];
            let index = list.part_of(refs[0].id);
            let (_, end_id) = list.range_of(index);
            at += refs.partition_point(|entry| entry.id < end_id).max(1);
            words += self.column_words(&list.part(index));
            leaves += 1;
            self.left = self.left.saturating_sub(1);
        }
        words + leaves * LEAF_HEADER_WORDS
    }

    /// Returns the words of recent changes, and of the columns that the batch may add to a leaf: an entry with another
    /// time or state, or with attributes, adds one for all edges of the leaf.
    fn column_words(&self, part: &ListPart<'_>) -> u64 {
        let batch = &self.bulk.batch;
        // Recent changes get room for twice their number.
        let recent = part.recent.map_or(0, |recent| (recent_count(recent) * RECENT_ENTRY_WORDS) as u64);
        let Some(leaf) = part.leaf else { return recent };
        let is_plain_batch = batch.has_one_time && batch.text_bytes() == 0 && part.recent.is_none();
        if is_plain_batch && leaf.is_plain(batch.times[0]) {
            return 0;
        }
        let words = RecordRef::at(self.writer.store.pool.words(), part.leaf_position).len();
        recent + (leaf.count() as u64 * ENTRY_WORDS).saturating_sub(words as u64)
    }

    /// Returns an error unless the whole batch has room once compaction removed all dead records, and reserves the
    /// room. No batch is begun that cannot be completed.
    fn reserve(&mut self) -> Result<(), GraphError> {
        self.writer.store.index.check(self.bulk.index_growth)?;
        let text = self.bulk.batch.text_bytes() as u64;
        let records = self.bulk.batch.len() as u64 * self.bulk.record_words(usize::MAX) as u64;
        // Attributes are in the edge record and in both lists.
        let wanted = records + self.bulk.growth + text;
        if words_unclaimed(self.writer) < wanted {
            return Err(GraphError::NoSpace);
        }
        self.writer.store.pool.reserve_words(wanted);
        self.bulk.reserved = wanted;
        Ok(())
    }

    /// Records that a batch begins, so that a restart knows that the lists may lack its edges.
    fn begin_log(&mut self) -> Result<bool, GraphError> {
        self.writer.check_room()?;
        let lsn = self.writer.next_lsn();
        self.writer.write_batch(lsn, false)?;
        Ok(true)
    }

    fn is_deferred(&self, edge: usize) -> bool {
        self.bulk.has_deferred && self.bulk.batch.log[edge] == DEFERRED
    }

    fn log(&mut self) -> Result<bool, GraphError> {
        let has_one_value = self.bulk.batch.has_one_time && self.bulk.batch.text_bytes() == 0;
        while let Some(entry) = self.bulk.batch.sort.refs.get(self.bulk.at).copied() {
            let edge = entry.edge();
            if !self.is_counted(entry) || self.is_deferred(edge) {
                self.bulk.at += 1;
                continue;
            }
            if !self.take() {
                return Ok(false);
            }
            let last = self.bulk.at.checked_sub(1).map(|last| self.bulk.batch.sort.refs[last]);
            if let Some(last) = last.filter(|last| has_one_value && last.is_beside(entry) && last.id == entry.id) {
                self.bulk.batch.log[edge] = self.bulk.batch.log[last.edge()];
            } else {
                self.writer.check_room()?;
                let value = self.bulk.batch.value(edge);
                let ends = (entry.node, self.bulk.batch.ty, entry.id);
                let position = self.writer.write_edge(ends, &value, OF_BATCH)?;
                self.bulk.batch.log[edge] = position;
                self.count_log(position, self.bulk.record_words(edge) as u32);
            }
            self.bulk.at += 1;
        }
        Ok(true)
    }

    /// Adds a record to the words that are released at the end.
    fn count_log(&mut self, position: u32, words: u32) {
        let pool = &self.writer.store.pool;
        let segment = pool.segment_of(position);
        match self.bulk.log_segments.last_mut() {
            Some((other, sum)) if pool.segment_of(*other) == segment => *sum += words,
            _ => self.bulk.log_segments.push((position, words)),
        }
    }

    /// Excludes a list's share of an edge record from the words that are released at the end: the list refers to it.
    fn retain_log(&mut self, edge: usize) {
        let words = self.bulk.record_words(edge) as u32 / if self.reverse().is_some() { 2 } else { 1 };
        let pool = &self.writer.store.pool;
        let segment = pool.segment_of(self.bulk.batch.log[edge]);
        let found = self.bulk.log_segments.iter_mut().find(|(position, _)| pool.segment_of(*position) == segment);
        found.expect("counted when it was written").1 -= words;
    }

    fn lists(&mut self) -> Result<bool, GraphError> {
        while let Some(first) = self.bulk.batch.sort.refs.get(self.bulk.at).copied() {
            if self.is_deferred(first.edge()) {
                self.bulk.at += 1;
                continue;
            }
            if self.left == 0 {
                return Ok(false);
            }
            self.writer.check_room()?;
            self.prefetch_lists();
            let ty = self.type_of(first);
            let list = self.writer.list(first.node, ty);
            let index = list.part_of(first.id);
            let (_, end_id) = list.range_of(index);
            let part = (list.head.position != 0).then(|| list.part(index));
            let entries = self.run_end(first, end_id);
            let run = EntryRun { node: first.node, ty, index, entries };
            let old =
                part.map_or(0, |part| part.leaf.map_or(0, |leaf| leaf.count()) + part.recent.map_or(0, recent_count));
            self.left = self.left.saturating_sub(run.entries.len());
            if old > run.entries.len() * ENTRIES_REWRITTEN_MAX {
                self.enter(&run)?;
            } else {
                self.left = self.left.saturating_sub(old / 8);
                self.merge(&run, part)?;
            }
            self.bulk.at = run.entries.end;
        }
        Ok(true)
    }

    /// Returns the entries from the current one on that belong to the same list, have lower numbers than `end_id` and
    /// can be merged at once.
    fn run_end(&self, first: EdgeRef, end_id: u32) -> std::ops::Range<usize> {
        let refs = &self.bulk.batch.sort.refs[self.bulk.at..];
        let mut bytes = 0;
        let has_text = self.bulk.batch.text_bytes() > 0;
        let is_one = |entry: &&EdgeRef| {
            if has_text {
                bytes += self.bulk.batch.attributes(entry.edge()).len() + 8;
            }
            entry.is_beside(first) && entry.id < end_id && bytes <= ADDITION_BYTES_MAX
        };
        let count = refs.iter().take(ADDITIONS_MAX).take_while(is_one).count().max(1);
        self.bulk.at..self.bulk.at + count
    }

    /// Enters the edge records into the list's recent changes.
    fn enter(&mut self, run: &EntryRun) -> Result<(), GraphError> {
        for at in run.entries.clone() {
            let entry = self.bulk.batch.sort.refs[at];
            if self.is_deferred(entry.edge()) {
                continue;
            }
            // If the room ends, the next slice continues with this entry.
            self.bulk.at = at;
            self.writer.check_room()?;
            let own = self.bulk.batch.value(entry.edge());
            let before = self.writer.edge_value(run.node, run.ty, entry.id);
            let old = before.clone().filter(|old| !self.is_void(run, entry.id, old, &own));
            let mut value = old.clone().unwrap_or_else(|| own.clone());
            if !value.merge(&own) && old.is_some() {
                continue;
            }
            let list = self.writer.list(run.node, run.ty);
            let index = list.part_of(entry.id);
            let part = list.part(index);
            let log_lsn = RecordRef::at(self.writer.store.pool.words(), self.bulk.batch.log[entry.edge()]).long(4);
            // A restart would replay the batch's record before a change that arrived during the load.
            let is_changed_since =
                |recent| (0..recent_count(recent)).any(|at| recent_change(recent, at).id == entry.id);
            if value != own
                || old != before
                || part.recent.is_some_and(is_changed_since)
                || part.leaf.is_some_and(|leaf| leaf.lsn() > log_lsn)
            {
                // The record does not have the value that results, or a restart would not let it take effect.
                let one = EntryRun { node: run.node, ty: run.ty, index, entries: at..at + 1 };
                self.merge(&one, Some(part))?;
                continue;
            }
            let position = self.bulk.batch.log[entry.edge()];
            let old_state = old.as_ref().map(|old| old.state);
            self.writer.enter(run.node, run.ty, entry.id, position, old_state, value.state)?;
            self.retain_log(entry.edge());
            self.writer.graph.count_changes(run.ty, 1);
            let is_changed = old.is_none_or(|old| old.state != value.state || old.attributes != value.attributes);
            self.bulk.report.edges_changed += u64::from(is_changed && self.is_counted(entry));
        }
        Ok(())
    }

    /// Returns true if a list's value of an edge is a tombstone that has no effect on an addition.
    fn is_void(&self, run: &EntryRun, id: u32, old: &EdgeValue, own: &EdgeValue) -> bool {
        old.state == EdgeState::Removed
            && own.time <= old.time
            && self.writer.is_lone_tombstone(run.node, run.ty, id, old)
    }

    /// Returns true for one of the two entries of an edge.
    fn is_counted(&self, entry: EdgeRef) -> bool {
        !entry.is_reverse() && (entry.node < entry.id || self.reverse() != Some(self.bulk.batch.ty))
    }

    /// Merges entries into a part of a list.
    fn merge(&mut self, run: &EntryRun, part: Option<ListPart<'g>>) -> Result<(), GraphError> {
        let batch = &self.bulk.batch;
        let time = batch.times[0];
        let is_plain_part =
            part.is_none_or(|part| part.recent.is_none() && part.leaf.is_some_and(|leaf| leaf.is_plain(time)));
        let is_plain = batch.has_one_time && batch.text_bytes() == 0 && is_plain_part && !self.bulk.has_deferred;
        let mut leaves = std::mem::take(&mut self.bulk.leaves);
        leaves.clear();
        let merged = if is_plain {
            self.merge_plain(run, part, time, &mut leaves)?
        } else {
            self.merge_values(run, part, &mut leaves)?
        };
        if !leaves.is_empty() {
            self.writer.install_leaves(run.node, run.ty, run.index, &leaves)?;
            let head = self.writer.graph.head(run.node, run.ty);
            self.writer.graph.publish(run.node, run.ty, Head { live: head.live + merged.live, ..head });
            self.writer.graph.count_changes(run.ty, merged.entries);
        }
        self.bulk.report.edges_changed += merged.edges;
        self.bulk.leaves = leaves;
        Ok(())
    }

    /// Returns the range of the part into which entries are merged.
    fn range_of(&self, run: &EntryRun) -> (u32, u32) {
        self.writer.list(run.node, run.ty).range_of(run.index)
    }

    /// Merges entries into a part if all its edges and the additions are live, of one time and without attributes.
    /// Writes no leaf if the part has them all.
    fn merge_plain(
        &mut self,
        run: &EntryRun,
        part: Option<ListPart<'g>>,
        time: u64,
        leaves: &mut Vec<(u32, u32)>,
    ) -> Result<Merged, GraphError> {
        let (mut ids, mut old_ids) = (std::mem::take(&mut self.bulk.ids), std::mem::take(&mut self.bulk.old_ids));
        ids.clear();
        old_ids.clear();
        if let Some(leaf) = part.and_then(|part| part.leaf) {
            leaf.numbers.copy(0..leaf.count(), &mut old_ids);
        }
        let (mut old, mut edges) = (&old_ids[..], 0);
        for at in run.entries.clone() {
            let entry = self.bulk.batch.sort.refs[at];
            let (before, after) = old.split_at(lower_bound(old, entry.id));
            ids.extend_from_slice(before);
            old = after;
            if old.first() != Some(&entry.id) && ids.last() != Some(&entry.id) {
                ids.push(entry.id);
                edges += u64::from(self.is_counted(entry));
            }
        }
        ids.extend_from_slice(old);
        let added = ids.len() - old_ids.len();
        if added > 0 {
            let (start, end) = self.range_of(run);
            let parts = halves(ids.len());
            let count = parts.len();
            for (index, part) in parts.enumerate() {
                let first = if index == 0 { start } else { ids[part.start] };
                let range = (first, if index + 1 == count { end } else { ids[part.end] });
                let place = LeafPlace { source: run.node, ty: run.ty, range, lsn: self.writer.next_lsn() };
                encode_plain(&ids[part], time, &place, &mut self.writer.state.record);
                leaves.push((first, self.writer.append_buffer(crate::append::Stream::Long)?));
            }
        }
        (self.bulk.ids, self.bulk.old_ids) = (ids, old_ids);
        Ok(Merged { live: added as u32, entries: added as u64, edges })
    }

    /// Merges entries into a part. Writes no leaf if no value changes.
    fn merge_values(
        &mut self,
        run: &EntryRun,
        part: Option<ListPart<'g>>,
        leaves: &mut Vec<(u32, u32)>,
    ) -> Result<Merged, GraphError> {
        let has_schema = self.writer.graph.edge_type(run.ty).is_some_and(|found| !found.schema.is_empty());
        let mut entries = std::mem::take(&mut self.writer.state.entries);
        let mut list = std::mem::take(&mut self.bulk.merged);
        entries.clear();
        list.clear();
        if let Some(part) = part {
            part.read_into(&mut entries);
        }
        let (mut index, mut merged) = (0, Merged::default());
        for at in run.entries.clone() {
            let addition = self.bulk.batch.sort.refs[at];
            if self.is_deferred(addition.edge()) {
                continue;
            }
            while let Some(old) = entries.list.get(index).filter(|old| old.id <= addition.id) {
                list.push(*old);
                index += 1;
            }
            let own = self.bulk.batch.value(addition.edge());
            let old = list.last().copied().filter(|old| old.id == addition.id);
            let before = old.map(|old| EdgeValue::stored(old.state, old.time, entries.attributes(&old)));
            let before = before.filter(|before| !self.is_void(run, addition.id, before, &own));
            let mut value = before.clone().unwrap_or_else(|| own.clone());
            if !value.merge(&own) && before.is_some() {
                continue;
            }
            let start = entries.text.len() as u32;
            value.push_text(has_schema, &mut entries.text);
            let bytes = (entries.text.len() as u32 - start) as u16;
            list.truncate(list.len() - usize::from(old.is_some()));
            let (id, state, time) = (addition.id, value.state, value.time);
            list.push(LeafEntry { id, state, is_marked: false, time, start, bytes });
            let was_live = old.is_some_and(|old| old.state == EdgeState::Live);
            merged.live += u32::from(value.state == EdgeState::Live && !was_live);
            merged.entries += 1;
            let is_changed = before.is_none_or(|old| old.state != value.state || old.attributes != value.attributes);
            merged.edges += u64::from(is_changed && self.is_counted(addition));
        }
        if merged.entries > 0 {
            list.extend_from_slice(&entries.list[index..]);
            std::mem::swap(&mut list, &mut entries.list);
            leaves.extend(self.writer.write_part(&entries, (run.node, run.ty), self.range_of(run))?);
        }
        self.writer.state.entries = entries;
        self.bulk.merged = list;
        Ok(merged)
    }

    /// Applies the deferred edges one at a time, in their order.
    fn apply_deferred(&mut self) -> Result<bool, GraphError> {
        while self.bulk.has_deferred && self.bulk.at < self.bulk.batch.len() {
            if !self.take() {
                return Ok(false);
            }
            let edge = self.bulk.at;
            if self.is_deferred(edge) {
                let batch = &self.bulk.batch;
                let ((source, destination), edge_type) = (batch.ends[edge], TypeId(batch.ty));
                let (time_ms, action) = (batch.times[edge], EdgeAction::Add(batch.attributes(edge)));
                match self.writer.apply(&EdgeChange { source, edge_type, destination, time_ms, action }) {
                    Ok(is_changed) => self.bulk.report.edges_changed += u64::from(is_changed),
                    Err(error @ (GraphError::CapReached { .. } | GraphError::ListFull(_))) => {
                        self.bulk.report.refuse(source, destination, error);
                    }
                    Err(error) => return Err(error),
                }
            }
            self.bulk.at += 1;
        }
        Ok(true)
    }

    /// Records that the lists have all edges, and counts the edge records as dead that no list refers to.
    fn release(&mut self) -> Result<bool, GraphError> {
        if let Some(batch) = self.writer.state.batch.filter(|batch| !batch.is_complete) {
            self.writer.check_room()?;
            self.writer.write_batch(batch.lsn, true)?;
        }
        self.writer.store.pool.end_reservation(std::mem::take(&mut self.bulk.reserved));
        for (position, words) in std::mem::take(&mut self.bulk.log_segments) {
            if words > 0 {
                self.writer.release_words(position, words);
            }
        }
        Ok(true)
    }
}

/// Returns the end of the entries of one list from `at` on, after a number of steps that grows with the logarithm of
/// their number.
fn group_end(refs: &[EdgeRef], at: usize) -> usize {
    let mut width = 1;
    while refs.get(at + width).is_some_and(|entry| entry.is_beside(refs[at])) {
        width *= 2;
    }
    let window = &refs[at..refs.len().min(at + width)];
    at + window.partition_point(|entry| entry.is_beside(window[0]))
}

/// Returns the index of the first number that is `id` or higher, which is likely near the start.
#[inline]
fn lower_bound(ids: &[u32], id: u32) -> usize {
    let mut width = 1;
    while ids.get(width - 1).is_some_and(|other| *other < id) {
        width *= 2;
    }
    let start = width / 2;
    start + ids[start..ids.len().min(width)].partition_point(|other| *other < id)
}

/// Divides entries into ranges of equal size that fit into one leaf each.
fn halves(entries: usize) -> impl ExactSizeIterator<Item = std::ops::Range<usize>> {
    let leaves = entries.div_ceil(LEAF_ENTRIES_MAX);
    (0..leaves).map(move |leaf| leaf * entries / leaves..(leaf + 1) * entries / leaves)
}
