//! Opens a store in memory that an earlier store left, at whatever moment it ended.
//!
//! ```text
//!   scan     every segment's records up to its used words; a torn record, whose checksum is wrong, ends the segment
//!   declare  graphs, types and nodes
//!   adopt    a list with one leaf, or with one that contains all others: the leaf stays where it is
//!   rebuild  other lists, from all their leaves
//!   replay   edge records in the order of their LSNs: each enters the lists that lack its value
//! ```
//!
//! Values merge in any order, so old versions of leaves and edges in segments that were not reused yet do no harm.

use std::collections::HashMap;

use crate::append::{Stream, Writer};
use crate::change::EdgeValue;
use crate::error::GraphError;
use crate::leaf::{EdgeState, Leaf, LeafEntries, LeafEntry};
use crate::limits::{GRAPHS_MAX, TYPES_MAX};
use crate::memory::Backing;
use crate::paged::PAGE;
use crate::pool::{Pool, SEGMENT_HEADER_WORDS};
use crate::record::{RecordKind, RecordRef};
use crate::schema::EdgeType;
use crate::state::{Head, NodeMark, OpenSegment};
use crate::store::{GraphStore, GraphStoreConfig};

/// A report of a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestartReport {
    /// The number of graphs.
    pub graphs: usize,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of lists.
    pub lists: usize,
    /// The number of lists that were written again.
    pub lists_rebuilt: usize,
    /// The number of edge records that were not in a leaf yet.
    pub edges_replayed: usize,
    /// The number of segments with a torn record at their end.
    pub segments_torn: usize,
    /// The number of records that name a node or type whose own record is missing.
    pub records_orphaned: usize,
}

/// The records of one graph, by their positions.
#[derive(Debug, Default)]
struct GraphScan {
    name: Option<(u32, String)>,
    types: Vec<(u32, u8, EdgeType)>,
    nodes: Vec<u32>,
    /// Type, source, position.
    leaves: Vec<(u8, u32, u32)>,
    /// LSN, position.
    edges: Vec<(u64, u32)>,
    marks: Vec<u32>,
    objects: Vec<u32>,
    /// Segments whose records are all whole, with the words that are used.
    whole: Vec<OpenSegment>,
}

impl GraphScan {
    fn add(&mut self, position: u32, record: RecordRef<'_>, kind: RecordKind) {
        match kind {
            RecordKind::Name => {
                let mut text = Vec::new();
                record.copy_bytes(4, record.word(3) as usize, &mut text);
                self.name = String::from_utf8(text).ok().map(|name| (position, name)).or(self.name.take());
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
            RecordKind::Recent | RecordKind::Leaves => {}
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
        if let Some(bytes) = Pool::other_size(memory.words(), config.segment_bytes) {
            return Err(GraphError::OtherSegmentSize(bytes));
        }
        let store = Self::new(memory, config)?;
        let mut report = RestartReport::default();
        let scans = store.scan(&mut report);
        for (number, scan) in scans.into_iter().enumerate().filter(|(_, scan)| scan.name.is_some()) {
            let (_, name) = scan.name.as_ref().expect("filtered");
            let graph = store.place_graph(number, name);
            let mut writer = graph.writer();
            writer.may_take_reserve = true;
            writer.reopen(&scan.whole);
            writer.restore(scan, &mut report)?;
            writer.may_take_reserve = false;
            report.graphs += 1;
        }
        let pool = &store.state.pool;
        let is_open = |segment: u32| store.open_segments().contains(&segment);
        for segment in 0..pool.segments() as u32 {
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
        let graphs = self.state.graphs.iter().filter_map(std::sync::OnceLock::get);
        let open = |graph: &crate::state::GraphState| graph.writer.lock().expect("no holder of the lock panics").open;
        graphs.flat_map(|graph| open(graph)).flatten().map(|open| open.segment).collect()
    }

    /// Reads all records, and takes their segments out of the free ones.
    fn scan(&self, report: &mut RestartReport) -> Vec<GraphScan> {
        let pool = &self.state.pool;
        let mut scans: Vec<GraphScan> = (0..GRAPHS_MAX).map(|_| GraphScan::default()).collect();
        let (mut used, mut sequence) = (Vec::new(), 0);
        for segment in 0..pool.segments() as u32 {
            let Some(info) = pool.info(segment).filter(|info| usize::from(info.graph) < GRAPHS_MAX) else { continue };
            sequence = sequence.max(info.sequence);
            let (mut word, words) = (SEGMENT_HEADER_WORDS, &pool.segment(segment)[..info.used]);
            let scan = &mut scans[usize::from(info.graph)];
            while word < info.used {
                let Some((record, kind)) = RecordRef::checked(&words[word..]) else {
                    report.segments_torn += 1;
                    break;
                };
                scan.add(pool.position(segment, word), record, kind);
                word += record.len();
            }
            if word > SEGMENT_HEADER_WORDS {
                used.push(segment);
                if word == info.used {
                    scan.whole.push(OpenSegment { segment, used: word });
                }
            }
        }
        pool.adopt(&used, sequence);
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
        let (position, _) = scan.name.take().expect("the caller found it");
        self.state.name_position = position;
        self.adopt(position);
        self.restore_types(scan.types);
        self.restore_nodes(&scan.nodes)?;
        report.nodes += self.graph.ids.len() as usize;
        self.restore_marks(&scan.marks);
        self.restore_objects(&scan.objects);
        let (nodes, types) = (self.graph.ids.len(), self.state.type_positions.len());
        let all = scan.leaves.len();
        scan.leaves.retain(|(ty, node, _)| *node < nodes && usize::from(*ty) < types);
        report.records_orphaned += all - scan.leaves.len();
        self.restore_lists(scan.leaves, report)?;
        scan.edges.sort_unstable();
        for (lsn, position) in scan.edges {
            self.state.lsn = self.state.lsn.max(lsn + 1);
            self.replay(position, report)?;
        }
        Ok(())
    }

    fn restore_types(&mut self, mut types: Vec<(u32, u8, EdgeType)>) {
        // A type has an older record without a reverse if its inverse was declared later.
        types.sort_by_key(|(position, ty, found)| (*ty, std::cmp::Reverse(found.reverse().is_some()), *position));
        for (position, ty, found) in types {
            if usize::from(ty) == self.state.type_positions.len() && usize::from(ty) < TYPES_MAX {
                self.state.type_positions.push(position);
                self.graph.add_type(ty, found);
                self.adopt(position);
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
    }

    fn restore_nodes(&mut self, positions: &[u32]) -> Result<(), GraphError> {
        let memory = self.store.pool.words();
        let mut nodes: HashMap<u32, (u64, u32)> = HashMap::new();
        for position in positions {
            let record = RecordRef::at(memory, *position);
            let (first, count) = (record.word(2), record.word(3));
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
        while let Some((external, _)) = nodes.get(&self.graph.ids.len()) {
            let added = self.graph.ids.add(*external, &mut self.state.id_pages, &self.store.epochs);
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
            let position = nodes[&number].1;
            self.state.node_singles.push(position);
            self.adopt(position);
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

    fn restore_lists(&mut self, mut leaves: Vec<(u8, u32, u32)>, report: &mut RestartReport) -> Result<(), GraphError> {
        leaves.sort_unstable();
        let mut rebuilt = Vec::new();
        for all in leaves.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let list = self.without_earlier_versions(all);
            let (ty, node, _) = list[0];
            report.lists += 1;
            self.graph.count_changes(ty, 1);
            let merged = if list.len() == 1 { None } else { Some(self.merged(&list, ty)) };
            match self.containing(&list, merged.as_ref()) {
                Some((position, live)) => {
                    self.graph.publish(node, ty, Head { position, live });
                    self.adopt(position);
                }
                None => rebuilt.push(list),
            }
        }
        for list in rebuilt {
            let (ty, node, _) = list[0];
            report.lists_rebuilt += 1;
            let entries = self.merged(&list, ty);
            self.write_list(node, ty, &entries)?;
        }
        Ok(())
    }

    /// Returns the leaves of a list without those that another one supersedes. The memory holds many versions of a leaf
    /// that grew by single changes, and merging all of them takes time in the square of its length.
    ///
    /// Each version has all node numbers of the earlier ones in its range, with the same or newer values. So of two
    /// leaves, the one with more numbers in the range of the other is the later one, and with as many numbers the one
    /// with the greater sum of times and states.
    fn without_earlier_versions(&self, list: &[(u8, u32, u32)]) -> Vec<(u8, u32, u32)> {
        let words = self.store.pool.words();
        let leaf = |position: u32| Leaf::of(RecordRef::at(words, position));
        let mut sorted: Vec<_> = list.iter().map(|found| (leaf(found.2), *found)).collect();
        sorted.retain(|(leaf, _)| leaf.count() > 0);
        sorted.sort_by_key(|(leaf, _)| std::cmp::Reverse(leaf.count()));
        let sum = |leaf: &Leaf<'_>, range: std::ops::Range<usize>| -> u128 {
            range.map(|index| u128::from(leaf.time(index)) << 2 | leaf.state(index) as u128).sum()
        };
        let mut kept: Vec<(Leaf<'_>, (u8, u32, u32))> = Vec::new();
        for (leaf, found) in sorted {
            let (first, last) = (leaf.numbers.at(0), leaf.numbers.at(leaf.count() - 1));
            let is_superseded = kept.iter().any(|(other, _)| {
                if first < other.numbers.at(0) || last > other.numbers.at(other.count() - 1) {
                    return false;
                }
                let range = other.lower_bound(first)..other.lower_bound(last + 1);
                match range.len().cmp(&leaf.count()) {
                    std::cmp::Ordering::Greater => true,
                    std::cmp::Ordering::Equal => sum(other, range) > sum(&leaf, 0..leaf.count()),
                    std::cmp::Ordering::Less => false,
                }
            });
            if !is_superseded {
                kept.push((leaf, found));
            }
        }
        if kept.is_empty() { list.to_vec() } else { kept.into_iter().map(|(_, found)| found).collect() }
    }

    /// Returns the leaf of a list that equals the merged entries of all its leaves, and its number of live entries.
    fn containing(&self, list: &[(u8, u32, u32)], merged: Option<&LeafEntries>) -> Option<(u32, u32)> {
        for (_, _, position) in list {
            let leaf = Leaf::of(RecordRef::at(self.store.pool.words(), *position));
            let mut entries = LeafEntries::default();
            leaf.read_into(&mut entries);
            let same = |(a, b): (&LeafEntry, &LeafEntry), merged: &LeafEntries| {
                (a.id, a.state, a.time) == (b.id, b.state, b.time) && entries.attributes(a) == merged.attributes(b)
            };
            let is_whole = merged.is_none_or(|merged| {
                entries.list.len() == merged.list.len()
                    && entries.list.iter().zip(&merged.list).all(|pair| same(pair, merged))
            });
            if is_whole && !leaf.is_part() {
                return Some((*position, entries.live()));
            }
        }
        None
    }

    /// Merges all leaves of a list.
    fn merged(&self, list: &[(u8, u32, u32)], ty: u8) -> LeafEntries {
        let has_schema = self.graph.edge_type(ty).is_some_and(|found| !found.schema.is_empty());
        let mut values: std::collections::BTreeMap<u32, EdgeValue> = std::collections::BTreeMap::new();
        for (_, _, position) in list {
            let mut entries = LeafEntries::default();
            Leaf::of(RecordRef::at(self.store.pool.words(), *position)).read_into(&mut entries);
            for entry in &entries.list {
                let value = EdgeValue::stored(entry.state, entry.time, entries.attributes(entry));
                values
                    .entry(entry.id)
                    .and_modify(|old| {
                        old.merge(&value);
                    })
                    .or_insert(value);
            }
        }
        let mut entries = LeafEntries::default();
        for (id, value) in values {
            let start = entries.text.len() as u32;
            value.push_text(has_schema, &mut entries.text);
            let bytes = (entries.text.len() as u32 - start) as u16;
            entries.list.push(LeafEntry { id, state: value.state, time: value.time, start, bytes });
        }
        entries
    }

    /// Writes a whole list as new leaves.
    fn write_list(&mut self, node: u32, ty: u8, entries: &LeafEntries) -> Result<(), GraphError> {
        let ranges = entries.leaves();
        let is_part = ranges.len() > 1;
        let mut leaves = Vec::with_capacity(ranges.len());
        for range in ranges {
            let first = entries.list[range.start].id;
            entries.encode(range, node, ty, is_part, &mut self.state.record);
            leaves.push((first, self.append_buffer(Stream::Long)?));
        }
        let position = match leaves[..] {
            [(_, position)] => position,
            _ => self.write_leaves(node, ty, &leaves)?,
        };
        self.graph.publish(node, ty, Head { position, live: entries.live() });
        Ok(())
    }

    /// Enters an edge record into the lists that lack its value.
    fn replay(&mut self, position: u32, report: &mut RestartReport) -> Result<(), GraphError> {
        let record = RecordRef::at(self.store.pool.words(), position);
        let (ty, state, bytes) = record.edge_properties();
        let (source, destination) = (record.word(2), record.word(3));
        let Some(edge_type) = self.graph.edge_type(ty).filter(|_| source.max(destination) < self.graph.ids.len())
        else {
            report.records_orphaned += 1;
            return Ok(());
        };
        let mut text = Vec::new();
        record.copy_bytes(crate::record::EDGE_WORDS, bytes, &mut text);
        let value = EdgeValue::stored(EdgeState::of(state), record.long(6), &text);
        let reverse = edge_type.reverse();
        let words = record.len() as u32 / if reverse.is_some() { 2 } else { 1 };
        let ends = [Some((source, ty, destination)), reverse.map(|reverse| (destination, reverse, source))];
        let mut is_replayed = false;
        for (node, list_type, id) in ends.into_iter().flatten() {
            let old = self.edge_value(node, list_type, id);
            let mut merged = old.clone().unwrap_or_else(|| value.clone());
            if !merged.merge(&value) && old.is_some() {
                continue;
            }
            is_replayed = true;
            let named = if merged == value {
                self.store.pool.add_live(self.store.pool.segment_of(position), words);
                position
            } else {
                // A record of a bulk batch has the value that the batch alone causes.
                let new = self.write_edge(source, ty, destination, &merged)?;
                if reverse.is_some() {
                    self.release_words(new, RecordRef::at(self.store.pool.words(), new).len() as u32 / 2);
                }
                new
            };
            self.enter(node, list_type, id, named, old.map(|old| old.state), merged.state)?;
            self.graph.count_changes(list_type, 1);
        }
        report.edges_replayed += usize::from(is_replayed);
        Ok(())
    }
}
