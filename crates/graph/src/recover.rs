//! Opens a store in memory that an earlier store left, at whatever moment it ended.
//!
//! ```text
//!   scan     every segment's records up to its used words; damaged ones, whose checksums are wrong, become void
//!   declare  graphs, types and nodes; nodes that records name and that have no record are hidden
//!   adopt    for each range of a list the leaf with the highest sequence number, where it is
//!   replay   edge records in the order of their sequence numbers, into the lists whose leaf has a lower one
//!   complete an unfinished bulk batch: its edge records are merged into all lists
//! ```
//!
//! Earlier versions of leaves and edge records remain in segments that were not reused yet. The latest ones have
//! the highest sequence numbers.
//!
//! Invariants:
//! - A restart may itself be interrupted at any moment. So a leaf that it writes includes exactly the records with
//!   lower sequence numbers than its own: it gets the number after the record that was replayed last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::append::{Stream, Writer};
use crate::change::EdgeValue;
use crate::commit::Watermark;
use crate::error::GraphError;
use crate::ids::{LOST, check_node};
use crate::leaf::{EdgeState, Leaf, LeafEntries, LeafPlace, WHOLE};
use crate::limits::{GRAPHS_MAX, TIME_MS_MAX};
use crate::memory::Backing;
use crate::paged::PAGE;
use crate::pool::{Pool, SEGMENT_HEADER_WORDS};
use crate::query::inspect::shape::{SEARCH_WORDS_MAX, next_whole, whole_record};
use crate::record::{HEADER_WORDS, OF_BATCH, RecordKind, RecordRef};
use crate::schema::EdgeType;
use crate::state::{BatchMark, GraphState, Head, NodeMark, OpenSegment};
use crate::store::{GraphStore, GraphStoreConfig};

/// A report of a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestartReport {
    /// The number of graphs.
    pub graphs: usize,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of lists with leaves. Other lists are rebuilt from their edge records.
    pub lists: usize,
    /// The number of lists with leaves that had to be written again.
    pub lists_rebuilt: usize,
    /// The number of edge records that were not in a leaf yet.
    pub edges_replayed: usize,
    /// The number of segments with a damaged record.
    pub segments_torn: usize,
    /// The number of places with one or more damaged records in a row, and their bytes.
    pub damaged_places: usize,
    /// See `damaged_places`.
    pub damaged_bytes: u64,
    /// The number of graphs whose name is lost. They are named `lost:NUMBER`.
    pub graphs_lost: usize,
    /// The number of records that name a node or type whose own record is missing.
    pub records_orphaned: usize,
    /// The number of nodes whose own record is missing although others name them. Their edges are hidden, and their
    /// numbers stay taken: otherwise the edges would become those of later nodes.
    pub nodes_lost: usize,
    /// The number of edge types whose own record is missing although others name them. They are named `lost:NUMBER`.
    pub types_lost: usize,
}

/// The records of one graph, by their positions.
#[derive(Debug, Default)]
struct GraphScan {
    /// Position, text, creation.
    name: Option<(u32, String, u32)>,
    /// The position of the record that drops the graph.
    dropped: Option<u32>,
    types: Vec<(u32, u8, EdgeType)>,
    nodes: Vec<u32>,
    /// Type, source, position.
    leaves: Vec<(u8, u32, u32)>,
    /// LSN, position.
    edges: Vec<(u64, u32)>,
    marks: Vec<u32>,
    objects: Vec<u32>,
    batches: Vec<BatchMark>,
    /// Segments whose records are all whole, with the words that are used.
    whole: Vec<OpenSegment>,
}

impl GraphScan {
    /// Returns true if there is no record of the graph.
    fn is_empty(&self) -> bool {
        let lists = [&self.nodes, &self.marks, &self.objects];
        let is_unnamed = self.name.is_none() && self.types.is_empty();
        is_unnamed && self.leaves.is_empty() && self.edges.is_empty() && lists.iter().all(|list| list.is_empty())
    }

    fn add(&mut self, position: u32, record: RecordRef<'_>, kind: RecordKind) {
        match kind {
            RecordKind::Name => {
                let mut text = Vec::new();
                record.copy_bytes(4, record.word(3) as usize, &mut text);
                let end = 4 + text.len().div_ceil(4);
                let creation = if end < record.len() { record.word(end) } else { 0 };
                self.name = String::from_utf8(text).ok().map(|name| (position, name, creation)).or(self.name.take());
            }
            RecordKind::EdgeType => {
                self.types.extend(EdgeType::decode(record).map(|(ty, found)| (position, ty, found)))
            }
            RecordKind::Nodes => self.nodes.push(position),
            RecordKind::Leaf => {
                let leaf = Leaf::of(record);
                self.leaves.push((leaf.edge_type(), leaf.source(), position));
            }
            RecordKind::Edge => self.edges.push((record.long(4), position)),
            RecordKind::Mark => self.marks.push(position),
            RecordKind::Object => self.objects.push(position),
            RecordKind::Batch => {
                let (lsn, is_complete) = (record.long(2), record.word(4) != 0);
                self.batches.push(BatchMark { lsn, is_complete, position });
            }
            RecordKind::Drop => self.dropped = Some(position),
            RecordKind::Recent | RecordKind::Leaves | RecordKind::Void => {}
        }
    }
}

impl GraphStore {
    /// Opens the store in memory that an earlier one left, or an empty one in zeroed memory.
    ///
    /// # Errors
    /// If the segment size is not allowed or differs, the memory has too few segments, or none is free to write lists
    /// that must be written again.
    pub fn open(memory: impl Backing, config: &GraphStoreConfig) -> Result<(Self, RestartReport), GraphError> {
        Self::open_with(memory, config, None)
    }

    /// Opens the store in memory that is a file on a disk, after a power loss: as it was at the commit with these
    /// watermarks. All changes after the commit are lost.
    ///
    /// # Errors
    /// As [`GraphStore::open`].
    pub fn open_committed(
        memory: impl Backing,
        config: &GraphStoreConfig,
        watermarks: &[Watermark],
    ) -> Result<(Self, RestartReport), GraphError> {
        Self::open_with(memory, config, Some(watermarks))
    }

    fn open_with(
        memory: impl Backing,
        config: &GraphStoreConfig,
        watermarks: Option<&[Watermark]>,
    ) -> Result<(Self, RestartReport), GraphError> {
        if let Some(bytes) = Pool::other_size(memory.words(), config.segment_bytes) {
            return Err(GraphError::OtherSegmentSize(bytes));
        }
        let store = Self::new(memory, config)?;
        if watermarks.is_some() || config.needs_commits {
            // Until the next commit, a power loss leads back to the records that this restart replaces, or that the
            // killed process has replaced.
            store.require_commits();
        }
        let mut report = RestartReport::default();
        let scans = store.scan(watermarks, &mut report);
        let pool = &store.state.pool;
        let dropped: Vec<u32> =
            scans.iter().filter_map(|scan| scan.dropped).map(|position| pool.segment_of(position)).collect();
        let is_graph = |scan: &GraphScan| !scan.is_empty() && scan.dropped.is_none();
        for (number, scan) in scans.into_iter().enumerate().filter(|(_, scan)| is_graph(scan)) {
            report.graphs_lost += usize::from(scan.name.is_none());
            let (name, creation) = match &scan.name {
                Some((_, name, creation)) => (name.clone(), *creation),
                None => (format!("lost:{number}"), 0),
            };
            let graph = store.new_graph(number, &name, creation);
            store.place_graph(&graph);
            let mut writer = graph.writer();
            (writer.may_take_reserve, writer.is_restoring) = (true, true);
            writer.reopen(&scan.whole);
            writer.state.lsn = watermarks.and_then(|all| all.get(number)).map_or(0, |watermark| watermark.lsn);
            writer.restore(scan, &mut report)?;
            (writer.may_take_reserve, writer.is_restoring) = (false, false);
            report.graphs += 1;
        }
        let is_open = |segment: u32| store.open_segments().contains(&segment);
        // The segment that shows that a graph was dropped becomes free after the graph's others.
        let others = (0..pool.segments() as u32).filter(|segment| !dropped.contains(segment));
        for segment in others.chain(dropped.iter().copied()) {
            if pool.info(segment).is_some()
                && pool.live_words(segment) == 0
                && !is_open(segment)
                && pool.is_used(segment)
            {
                pool.retire(segment, &store.state.epochs);
            }
        }
        pool.reclaim_now(&store.state.epochs);
        Ok((store, report))
    }

    /// Returns the open segments of all graphs.
    fn open_segments(&self) -> Vec<u32> {
        let open = |graph: Arc<GraphState>| graph.writer.lock().expect("no holder of the lock panics").open;
        self.state.existing().flat_map(open).flatten().map(|open| open.segment).collect()
    }

    /// Reads all records, and takes their segments out of the free ones. Makes records above the watermarks void.
    fn scan(&self, watermarks: Option<&[Watermark]>, report: &mut RestartReport) -> Vec<GraphScan> {
        let pool = &self.state.pool;
        let mut scans: Vec<GraphScan> = (0..GRAPHS_MAX).map(|_| GraphScan::default()).collect();
        let (mut used, mut sequence) = (Vec::new(), 0);
        for segment in 0..pool.segments() as u32 {
            sequence = sequence.max(pool.last_sequence(segment));
            let Some(info) = pool.info(segment).filter(|info| usize::from(info.graph) < GRAPHS_MAX) else { continue };
            let watermark = watermarks.map(|all| all.get(usize::from(info.graph)).copied().unwrap_or_default());
            if watermark == Some(Watermark::default()) {
                // The graph was created after the commit.
                pool.forget(segment);
                continue;
            }
            let (mut word, words) = (SEGMENT_HEADER_WORDS, &pool.segment(segment)[..info.used]);
            let scan = &mut scans[usize::from(info.graph)];
            let (mut is_damaged, mut left) = (false, SEARCH_WORDS_MAX);
            while word < info.used {
                let Some((record, kind)) = whole_record(&words[word..], info.sequence as u32) else {
                    if watermark.is_some() {
                        // A power loss tears records after the commit, which is no damage.
                        break;
                    }
                    let next = next_whole(words, word, info.sequence as u32, &mut left);
                    report.damaged_places += 1;
                    report.damaged_bytes += (next - word) as u64 * 4;
                    if next - word >= HEADER_WORDS {
                        // Compaction walks over all records of a segment.
                        RecordRef::fill_void(&words[word..next], info.sequence as u32);
                    }
                    (is_damaged, word) = (true, next);
                    continue;
                };
                word += record.len();
                if watermark.is_some_and(|watermark| watermark.excludes(record, kind)) {
                    record.make_void(info.sequence as u32);
                    continue;
                }
                if kind == RecordKind::Leaf {
                    Leaf::of(record).marked_at().into_iter().for_each(|at| self.state.tombstones.find(at));
                }
                scan.add(pool.position(segment, word - record.len()), record, kind);
            }
            report.segments_torn += usize::from(is_damaged);
            if word > SEGMENT_HEADER_WORDS {
                used.push(segment);
                if watermarks.is_some() {
                    // Records of lost writes may lie behind. No restart must reach them.
                    pool.close(segment, word, info.sequence as u32);
                } else if !is_damaged {
                    scan.whole.push(OpenSegment { segment, used: word });
                }
            }
        }
        // The headers of segments that were opened after the commit may be lost, and their records not. At most all
        // segments were opened since.
        let lost = if watermarks.is_some() { pool.segments() as u64 } else { 0 };
        pool.adopt(&used, sequence + lost);
        scans
    }
}

impl Writer<'_> {
    /// Opens the segments with the most room again, so that restarts use up none.
    fn reopen(&mut self, whole: &[OpenSegment]) {
        let mut whole = whole.to_vec();
        whole.sort_unstable_by_key(|open| (open.used, open.segment));
        // Long records get the most room.
        [self.state.open[1], self.state.open[0]] = [whole.first().copied(), whole.get(1).copied()];
    }

    /// Counts a record that stays where it is as live.
    fn adopt(&mut self, position: u32) {
        let words = RecordRef::at(self.store.pool.words(), position).len() as u32;
        self.store.pool.add_live(self.store.pool.segment_of(position), words);
    }

    fn restore(&mut self, mut scan: GraphScan, report: &mut RestartReport) -> Result<(), GraphError> {
        match scan.name.take() {
            Some((position, ..)) => {
                self.state.name_position = position;
                self.adopt(position);
            }
            None => self.write_name()?,
        }
        report.types_lost += self.restore_types(&mut scan)?;
        let lost = self.restore_nodes(&scan)?;
        report.nodes += self.graph.ids.len() as usize;
        report.nodes_lost += lost.len();
        self.restore_marks(&scan.marks);
        self.hide_lost(&lost)?;
        self.restore_objects(&scan.objects);
        let (nodes, types) = (self.graph.ids.len(), self.state.type_positions.len());
        let all = scan.leaves.len();
        let words = self.store.pool.words();
        scan.leaves.retain(|(ty, node, position)| {
            let leaf = Leaf::of(RecordRef::at(words, *position));
            let last = leaf.count().checked_sub(1).map_or(0, |last| leaf.numbers.at(last));
            last.max(*node) < nodes && usize::from(*ty) < types
        });
        report.records_orphaned += all - scan.leaves.len();
        // A watermark must be above the marks and objects that its commit has.
        let lsn = self.lsn_after(&scan).max(self.restore_lists(scan.leaves, report)?);
        self.restore_edges(scan.edges, scan.batches, lsn, report)
    }

    /// Returns a sequence number that is higher than those of all marks, objects and batches.
    fn lsn_after(&self, scan: &GraphScan) -> u64 {
        let record = |position: &u32| RecordRef::at(self.store.pool.words(), *position);
        let marks = scan.marks.iter().filter_map(|position| record(position).node_lsn(RecordKind::Mark));
        let objects = scan.objects.iter().filter_map(|position| record(position).node_lsn(RecordKind::Object));
        let batches = scan.batches.iter().map(|batch| record(&batch.position).long(5));
        marks.chain(objects).chain(batches).max().map_or(0, |last| last + 1)
    }

    /// Replays edge records, and completes the last bulk batch: with sequence numbers above the watermark, so that a
    /// power loss before the next commit leaves the batch as it was. `lsn` is higher than the numbers of all leaves.
    fn restore_edges(
        &mut self,
        mut edges: Vec<(u64, u32)>,
        batches: Vec<BatchMark>,
        lsn: u64,
        report: &mut RestartReport,
    ) -> Result<(), GraphError> {
        let watermark = self.state.lsn;
        self.state.batch = batches.into_iter().max();
        if let Some(batch) = self.state.batch {
            self.adopt(batch.position);
        }
        let unfinished = self.state.batch.filter(|batch| !batch.is_complete);
        let words = self.store.pool.words();
        let is_unfinished = |(lsn, position): &(u64, u32)| {
            let is_of_batch = RecordRef::at(words, *position).flags() & OF_BATCH != 0;
            is_of_batch && unfinished.is_some_and(|batch| *lsn >= batch.lsn)
        };
        // Compaction may have left copies of a record.
        edges.sort_unstable();
        edges.dedup_by_key(|(lsn, _)| *lsn);
        let last = edges.last().map_or(0, |(lsn, _)| lsn + 1);
        for (lsn, position) in edges.iter().filter(|edge| !is_unfinished(edge)) {
            self.state.lsn = lsn + 1;
            self.replay(*position, report)?;
        }
        self.state.lsn = last.max(lsn).max(self.state.batch.map_or(0, |batch| batch.lsn + 1)).max(watermark);
        if let Some(batch) = unfinished {
            for (_, position) in edges.iter().filter(|edge| is_unfinished(edge)) {
                self.complete(*position, report)?;
            }
            self.write_batch(batch.lsn, true)?;
        }
        Ok(())
    }

    /// Restores the types. A type that records name and that has no record gets a name of its own, because another type
    /// would get its edges with its number otherwise. Returns the number of such types.
    fn restore_types(&mut self, scan: &mut GraphScan) -> Result<usize, GraphError> {
        let mut types = std::mem::take(&mut scan.types);
        // A type has an older record without a reverse if its inverse was declared later.
        types.sort_by_key(|(position, ty, found)| (*ty, std::cmp::Reverse(found.reverse().is_some()), *position));
        types.dedup_by_key(|(_, ty, _)| *ty);
        let words = self.store.pool.words();
        let edges = scan.edges.iter().map(|(_, position)| RecordRef::at(words, *position).edge_properties().0);
        let named = types.iter().flat_map(|(_, ty, found)| [*ty, found.reverse().unwrap_or(*ty)]);
        let end = named.chain(scan.leaves.iter().map(|(ty, ..)| *ty)).chain(edges).max().map_or(0, |last| last + 1);
        let (mut lost, mut types) = (0, types.into_iter().peekable());
        for ty in 0..end {
            match types.next_if(|(_, found, _)| *found == ty) {
                Some((position, _, found)) => {
                    self.graph.add_type(ty, found);
                    self.state.type_positions.push(position);
                    self.adopt(position);
                }
                None => {
                    lost += 1;
                    self.graph.add_type(ty, EdgeType::lost(ty));
                    self.state.type_positions.push(0);
                    self.write_type(ty)?;
                }
            }
        }
        // The inverse may have been declared without the second record of the other type.
        let inverses: Vec<(u8, u8)> =
            self.graph.types().filter_map(|(ty, found)| found.reverse().map(|reverse| (ty, reverse))).collect();
        for (ty, reverse) in inverses {
            if let Some(other) = self.graph.edge_type(reverse).filter(|other| other.reverse().is_none()) {
                other.reverse_plus_one.store(u32::from(ty) + 1, std::sync::atomic::Ordering::Release);
            }
        }
        Ok(lost)
    }

    /// Restores the nodes, and returns those that are lost.
    fn restore_nodes(&mut self, scan: &GraphScan) -> Result<Vec<u32>, GraphError> {
        let memory = self.store.pool.words();
        let mut nodes: HashMap<u32, (u64, u32)> = HashMap::new();
        let end = self.nodes_end(scan);
        for position in &scan.nodes {
            let record = RecordRef::at(memory, *position);
            let (first, count) = (record.word(2), record.word(3));
            if first >= end {
                continue;
            }
            if count as usize == PAGE {
                let block = first as usize / PAGE;
                let blocks = self.state.node_blocks.len().max(block + 1);
                self.state.node_blocks.resize(blocks, 0);
                self.state.node_blocks[block] = *position;
            }
            (0..count).for_each(|at| {
                nodes.insert(first + at, (record.long(4 + at as usize * 2), *position));
            });
        }
        let mut lost = Vec::new();
        for number in 0..end {
            let external = nodes.get(&number).map_or(LOST, |(external, _)| *external);
            let is_known = check_node(external).is_ok() && self.graph.ids.find(external).is_none();
            if !is_known {
                lost.push(number);
            }
            let external = if is_known { external } else { LOST };
            let added = self.graph.ids.add(external, &mut self.state.id_pages, &self.store.epochs);
            added.ok_or(GraphError::TooManyNodes)?;
        }
        let complete = self.graph.ids.len() as usize / PAGE;
        self.state.node_blocks.resize(complete, 0);
        for block in 0..complete {
            match self.state.node_blocks[block] {
                0 => self.write_node_block(block)?,
                position => self.adopt(position),
            }
        }
        for number in (complete * PAGE) as u32..self.graph.ids.len() {
            let position = match nodes.get(&number) {
                Some((_, position)) => {
                    self.adopt(*position);
                    *position
                }
                None => self.write_node(number, LOST)?,
            };
            self.state.node_singles.push(position);
        }
        Ok(lost)
    }

    /// Returns the end of the node numbers that the records of a graph name.
    fn nodes_end(&self, scan: &GraphScan) -> u32 {
        let words = self.store.pool.words();
        // The record of a node takes 8 bytes at least, so no store has a higher number.
        let most = (words.len() / 2) as u32;
        let record = |position: &u32| RecordRef::at(words, *position);
        let leaves = scan.leaves.iter().map(|(_, source, position)| {
            let leaf = Leaf::of(record(position));
            (*source).max(leaf.count().checked_sub(1).map_or(0, |last| leaf.numbers.at(last)))
        });
        let edges = scan.edges.iter().map(|(_, position)| record(position).word(2).max(record(position).word(3)));
        let nodes = scan.nodes.iter().map(|position| record(position).word(2) + record(position).word(3) - 1);
        let others = scan.marks.iter().chain(&scan.objects).map(|position| record(position).word(2));
        let named = leaves.chain(edges).chain(nodes).chain(others).filter(|number| *number < most);
        named.max().map_or(0, |last| last + 1)
    }

    /// Hides the edges of lost nodes.
    fn hide_lost(&mut self, lost: &[u32]) -> Result<(), GraphError> {
        for number in lost {
            if !self.graph.is_archived(*number) {
                self.write_mark(*number, true, TIME_MS_MAX)?;
            }
        }
        Ok(())
    }

    fn restore_marks(&mut self, positions: &[u32]) {
        for position in positions {
            let record = RecordRef::at(self.store.pool.words(), *position);
            let (node, time, is_archived) = (record.word(2), record.long(3), record.word(5) != 0);
            let old = self.state.marks.get(&node).copied();
            if node < self.graph.ids.len() && old.is_none_or(|old| (old.time, old.is_archived) < (time, is_archived)) {
                self.graph.set_archived(node, is_archived);
                self.state.marks.insert(node, NodeMark { time, is_archived, position: *position });
                self.adopt(*position);
                self.release(old.map_or(0, |old| old.position));
            }
        }
    }

    fn restore_objects(&mut self, positions: &[u32]) {
        let key = |position: u32| {
            let record = RecordRef::at(self.store.pool.words(), position);
            let mut bytes = Vec::new();
            record.copy_bytes(7, record.word(6) as usize, &mut bytes);
            (record.word(2), record.long(3), record.word(5) == 0, bytes)
        };
        let mut sorted: Vec<_> = positions.iter().map(|position| (key(*position), *position)).collect();
        sorted.sort();
        let mut latest: HashMap<u32, u32> = HashMap::new();
        sorted.iter().for_each(|((node, ..), position)| {
            latest.insert(*node, *position);
        });
        for (node, position) in latest.into_iter().filter(|(node, _)| *node < self.graph.ids.len()) {
            self.graph.objects.create(node).store(position, std::sync::atomic::Ordering::Release);
            self.adopt(position);
        }
    }

    /// Adopts the latest leaves of all lists. Returns a sequence number that is higher than those of all leaves.
    fn restore_lists(&mut self, leaves: Vec<(u8, u32, u32)>, report: &mut RestartReport) -> Result<u64, GraphError> {
        let words = self.store.pool.words();
        let mut versions: Vec<LeafVersion> = leaves
            .into_iter()
            .map(|(ty, node, position)| LeafVersion {
                ty,
                node,
                order: Reverse(Leaf::of(RecordRef::at(words, position)).lsn()),
                position,
            })
            .collect();
        versions.sort_unstable();
        for list in versions.chunk_by(|a, b| (a.ty, a.node) == (b.ty, b.node)) {
            let (ty, node) = (list[0].ty, list[0].node);
            report.lists += 1;
            self.graph.count_changes(ty, 1);
            let latest = latest_parts(
                list.iter().map(|version| (version.position, Leaf::of(RecordRef::at(words, version.position)).range())),
            );
            let mut parts = Vec::with_capacity(latest.len());
            let mut is_rebuilt = false;
            for part in latest {
                let is_whole = Leaf::of(RecordRef::at(words, part.position)).range() == part.range;
                is_rebuilt |= !is_whole;
                let position = if is_whole { part.position } else { self.cut(&part)? };
                if is_whole {
                    self.adopt(position);
                }
                parts.push((part.range.0, position));
            }
            report.lists_rebuilt += usize::from(is_rebuilt);
            let live = parts.iter().map(|(_, position)| live_entries(Leaf::of(RecordRef::at(words, *position)))).sum();
            let position = match parts[..] {
                [(_, position)] => position,
                _ => self.write_leaves(node, ty, &parts)?,
            };
            self.graph.publish(node, ty, Head { position, live });
        }
        Ok(versions.iter().map(|version| version.order.0 + 1).max().unwrap_or(0))
    }

    /// Writes a range of a leaf as a leaf with the same sequence number: a later leaf has the rest.
    fn cut(&mut self, part: &LatestPart) -> Result<u32, GraphError> {
        let leaf = Leaf::of(RecordRef::at(self.store.pool.words(), part.position));
        let mut entries = LeafEntries::default();
        leaf.read_into(0..leaf.count(), &mut entries);
        entries.list.retain(|entry| (part.range.0..part.range.1).contains(&entry.id));
        let place = LeafPlace { source: leaf.source(), ty: leaf.edge_type(), range: part.range, lsn: leaf.lsn() };
        entries.encode(0..entries.list.len(), &place, &mut self.state.record);
        self.append_buffer(Stream::Long)
    }

    /// Enters an edge record into the lists whose leaf does not include it.
    fn replay(&mut self, position: u32, report: &mut RestartReport) -> Result<(), GraphError> {
        let Some(edge) = self.logged_edge(position, report) else { return Ok(()) };
        let mut is_replayed = false;
        for (node, ty, id) in edge.ends.into_iter().flatten() {
            let list = self.list(node, ty);
            let part = (list.head.position != 0).then(|| list.part(list.part_of(id)));
            let includes = |leaf: Leaf<'_>| leaf.lsn() > edge.lsn;
            if part.and_then(|part| part.leaf).is_some_and(includes) {
                continue;
            }
            let old = self.edge_value(node, ty, id);
            if edge.is_of_batch && old.as_ref().is_some_and(|old| !edge.value.replaces(old)) {
                // A later record, or the leaf, has the value that resulted.
                continue;
            }
            is_replayed = true;
            self.store.pool.add_live(self.store.pool.segment_of(position), edge.words);
            self.enter(node, ty, id, position, old.map(|old| old.state), edge.value.state)?;
            self.graph.count_changes(ty, 1);
        }
        report.edges_replayed += usize::from(is_replayed);
        Ok(())
    }

    /// Merges an edge record of an unfinished bulk batch into both lists.
    fn complete(&mut self, position: u32, report: &mut RestartReport) -> Result<(), GraphError> {
        let Some(edge) = self.logged_edge(position, report) else { return Ok(()) };
        let mut is_replayed = false;
        for (node, ty, id) in edge.ends.into_iter().flatten() {
            let old = self.edge_value(node, ty, id);
            let old = old.filter(|old| old.time < edge.value.time || !self.is_lone_tombstone(node, ty, id, old));
            let mut merged = old.clone().unwrap_or_else(|| edge.value.clone());
            if !merged.merge(&edge.value) && old.is_some() {
                continue;
            }
            is_replayed = true;
            // The lists may need the edge record of one direction only.
            let (source, destination) = if edge.ends[0] == Some((node, ty, id)) { (node, id) } else { (id, node) };
            let new = self.write_edge((source, edge.ty, destination), &merged, 0)?;
            if edge.ends[1].is_some() {
                self.release_words(new, RecordRef::at(self.store.pool.words(), new).len() as u32 / 2);
            }
            self.enter(node, ty, id, new, old.map(|old| old.state), merged.state)?;
            self.graph.count_changes(ty, 1);
        }
        report.edges_replayed += usize::from(is_replayed);
        Ok(())
    }

    /// Reads an edge record. Returns `None` if its type or one of its nodes is missing.
    fn logged_edge(&self, position: u32, report: &mut RestartReport) -> Option<LoggedEdge> {
        let record = RecordRef::at(self.store.pool.words(), position);
        let (ty, state, bytes) = record.edge_properties();
        let (source, destination) = (record.word(2), record.word(3));
        let known = self.graph.edge_type(ty).filter(|_| source.max(destination) < self.graph.ids.len());
        let Some(edge_type) = known else {
            report.records_orphaned += 1;
            return None;
        };
        let mut text = Vec::new();
        record.copy_bytes(crate::record::EDGE_WORDS, bytes, &mut text);
        let reverse = edge_type.reverse();
        Some(LoggedEdge {
            ty,
            ends: [Some((source, ty, destination)), reverse.map(|reverse| (destination, reverse, source))],
            value: EdgeValue::stored(EdgeState::of(state), record.long(6), &text),
            lsn: record.long(4),
            is_of_batch: record.flags() & OF_BATCH != 0,
            words: record.len() as u32 / if reverse.is_some() { 2 } else { 1 },
        })
    }
}

/// A version of a leaf. Versions of a list are in the order of their age, the latest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LeafVersion {
    ty: u8,
    node: u32,
    order: Reverse<u64>,
    position: u32,
}

/// An edge record.
struct LoggedEdge {
    ty: u8,
    /// Node, type and neighbour of the list of each direction.
    ends: [Option<(u32, u8, u32)>; 2],
    value: EdgeValue,
    lsn: u64,
    is_of_batch: bool,
    /// The words that a reference of one list keeps alive.
    words: u32,
}

/// A range of a list, and the latest leaf for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LatestPart {
    range: (u32, u32),
    position: u32,
}

/// Divides the range of a list among the leaves that come first in `leaves`: positions and ranges, the latest first.
/// The parts are ascending.
fn latest_parts(leaves: impl Iterator<Item = (u32, (u32, u32))>) -> Vec<LatestPart> {
    let mut parts = Vec::new();
    // The ranges that no leaf has yet, by their starts.
    let mut gaps = BTreeMap::from([WHOLE]);
    for (position, (start, end)) in leaves {
        if gaps.is_empty() {
            break;
        }
        let before = gaps.range(..start).next_back().filter(|(_, gap_end)| **gap_end > start);
        let inside = gaps.range(start..end);
        let overlaps: Vec<(u32, u32)> = before.into_iter().chain(inside).map(|(start, end)| (*start, *end)).collect();
        for (gap_start, gap_end) in overlaps {
            gaps.remove(&gap_start);
            if gap_start < start {
                gaps.insert(gap_start, start);
            }
            if gap_end > end {
                gaps.insert(end, gap_end);
            }
            parts.push(LatestPart { range: (gap_start.max(start), gap_end.min(end)), position });
        }
    }
    parts.sort_unstable_by_key(|part| part.range);
    // A gap remains only if a leaf was lost. The part before it takes it over.
    for index in 0..parts.len() {
        let end = parts.get(index + 1).map_or(WHOLE.1, |next| next.range.0);
        parts[index].range.1 = end;
    }
    if let Some(first) = parts.first_mut() {
        first.range.0 = WHOLE.0;
    }
    parts
}

/// Returns the number of live entries of a leaf.
fn live_entries(leaf: Leaf<'_>) -> u32 {
    if leaf.all_live() {
        return leaf.count() as u32;
    }
    (0..leaf.count()).filter(|index| leaf.state(*index) == EdgeState::Live).count() as u32
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn parts(leaves: &[(u32, (u32, u32))]) -> Vec<(u32, u32, u32)> {
        let parts = latest_parts(leaves.iter().copied());
        parts.into_iter().map(|part| (part.range.0, part.range.1, part.position)).collect()
    }

    #[test]
    fn latest_leaf_of_each_range_is_chosen() {
        let end = u32::MAX;
        assert_eq!(parts(&[(1, WHOLE), (2, WHOLE)]), [(0, end, 1)]);
        // The second half of a split was not written before the end.
        assert_eq!(parts(&[(3, (0, 9)), (2, WHOLE)]), [(0, 9, 3), (9, end, 2)]);
        assert_eq!(
            parts(&[(5, (9, 20)), (4, (20, end)), (3, (0, 9)), (2, (9, end))]),
            [(0, 9, 3), (9, 20, 5), (20, end, 4)]
        );
        // A range amid an older one.
        assert_eq!(parts(&[(3, (5, 6)), (2, WHOLE)]), [(0, 5, 2), (5, 6, 3), (6, end, 2)]);
    }

    #[test]
    fn range_of_a_lost_leaf_belongs_to_its_neighbour() {
        assert_eq!(parts(&[(3, (9, 20)), (2, (30, 40))]), [(0, 30, 3), (30, u32::MAX, 2)]);
    }
}
