//! Compaction: copies the live records out of the emptiest segment, in slices, so that the segment can be reused.
//!
//! A list to which a record belongs is merged if that frees more words than it writes. A leaf that is much longer than
//! its recent changes is not written again for them: a hub would be rewritten for each edge that compaction meets.
//! Its changes are copied, until there are enough of them. A segment may hold edges of
//! thousands of lists, though, whose merges need more than the reserved segments. So merges end where the room would
//! not suffice to copy the rest of the segment. From there on records are copied as they are, and the lists refer to
//! the copies. Every segment that compaction begins is therefore emptied, even in a full store.

use crate::append::{Stream, Writer};
use crate::error::GraphError;
use crate::leaf::Leaf;
use crate::list::{ListPart, recent_change, recent_count};
use crate::memory::AtomicU32;
use crate::paged::PAGE;
use crate::record::{LEAVES_WORDS, RECENT_ENTRY_WORDS, RECENT_LEAF, RECENT_WORDS, RecordKind, RecordRef};
use crate::state::Compaction;
use std::sync::atomic::Ordering::Release;

/// The length of a leaf that is merged, for each word of its recent changes.
const LEAF_WORDS_A_CHANGE_WORD: usize = 8;

/// The result of a slice of compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionStep {
    /// The segment has more records.
    More,
    /// A segment was emptied. It becomes free when no reader can be in it.
    Emptied,
    /// No sealed segment of this graph is as empty as the caller wants.
    Nothing,
}

/// Returns the stream that a copy of a record goes to.
fn stream_of(record: RecordRef<'_>) -> Stream {
    match record.kind() {
        Some(RecordKind::Edge | RecordKind::Recent) => Stream::Short,
        Some(RecordKind::Nodes) if record.word(3) == 1 => Stream::Short,
        _ => Stream::Long,
    }
}

impl<'g> Writer<'g> {
    /// Reads about `words_max` words of the segment that is being emptied, and copies its live records. If no segment
    /// is, chooses the emptiest one of this graph of which at most `live_percent_max` percent are live.
    ///
    /// # Errors
    /// If no segment is free, not even a reserved one.
    pub fn compact(&mut self, live_percent_max: u32, words_max: usize) -> Result<CompactionStep, GraphError> {
        let info = |at: &Compaction| self.store.pool.info(at.segment).map(|info| info.sequence);
        let unfinished = self.state.compaction.filter(|at| info(at) == Some(at.sequence));
        let Some(mut at) = unfinished.or_else(|| self.emptiest(live_percent_max)) else {
            return Ok(CompactionStep::Nothing);
        };
        self.may_take_reserve = true;
        let end = at.used.min(at.word + words_max);
        while at.word < end && self.store.pool.live_words(at.segment) > 0 {
            let position = self.store.pool.position(at.segment, at.word);
            let record = RecordRef::at(self.store.pool.words(), position);
            let length = record.len();
            // A record whose copy failed is tried again later.
            self.state.compaction = Some(at);
            let rest = at.used - at.word;
            let has_room = self.check_room_to_copy(stream_of(record), length);
            let copied = has_room.and_then(|()| self.move_record(position, record, rest));
            copied.inspect_err(|_| self.may_take_reserve = false)?;
            at.word += length;
            self.state.compaction = Some(at);
        }
        self.may_take_reserve = false;
        if at.word < at.used && self.store.pool.live_words(at.segment) > 0 {
            return Ok(CompactionStep::More);
        }
        debug_assert_eq!(self.store.pool.live_words(at.segment), 0, "a live record was not found");
        self.state.compaction = None;
        Ok(CompactionStep::Emptied)
    }

    /// Returns the sealed segment of this graph with the fewest live words.
    fn emptiest(&self, live_percent_max: u32) -> Option<Compaction> {
        let pool = &self.store.pool;
        let most = (pool.segment_words() as u64 * u64::from(live_percent_max) / 100) as u32;
        let is_open = |segment: u32| self.state.open.iter().flatten().any(|open| open.segment == segment);
        // Edge records of a bulk batch are live although no list names them yet.
        let is_log = |segment: u32| {
            self.state
                .bulk
                .as_ref()
                .is_some_and(|bulk| bulk.log_segments.iter().any(|(position, _)| pool.segment_of(*position) == segment))
        };
        let candidates = (0..pool.segments() as u32).filter(|segment| !is_open(*segment) && !is_log(*segment));
        let of_graph = candidates.filter_map(|segment| {
            let live = pool.live_words(segment);
            let info = (live > 0 && live <= most).then(|| pool.info(segment))??;
            (info.graph == self.graph.number).then_some((live, segment, info))
        });
        let (_, segment, info) = of_graph.min_by_key(|(live, segment, _)| (*live, *segment))?;
        let (sequence, used) = (info.sequence, info.used);
        Some(Compaction { segment, sequence, word: crate::pool::SEGMENT_HEADER_WORDS, used })
    }

    /// Writes a record again elsewhere if it is live.
    /// Another `rest` words of the segment, with this record, may have to be copied.
    fn move_record(&mut self, position: u32, record: RecordRef<'_>, rest: usize) -> Result<(), GraphError> {
        match record.kind() {
            Some(RecordKind::Name) if self.state.name_position == position => self.write_name(),
            Some(RecordKind::EdgeType) => {
                let ty = record.word(2) as usize;
                let is_live = self.state.type_positions.get(ty) == Some(&position);
                if is_live { self.write_type(ty as u8) } else { Ok(()) }
            }
            Some(RecordKind::Nodes) => self.move_nodes(position, record),
            Some(RecordKind::Edge) => self.copy_edge(position, record, rest),
            Some(RecordKind::Leaf) => self.copy_leaf(position, record, rest),
            Some(RecordKind::Recent) if recent_count(record) > 0 => self.copy_recent(position, record, rest),
            Some(RecordKind::Leaves) => self.move_leaves(position, record),
            Some(RecordKind::Mark) => {
                let mark = self.state.marks.get(&record.word(2)).copied();
                let mark = mark.filter(|mark| mark.position == position);
                mark.map_or(Ok(()), |mark| self.write_mark(record.word(2), mark.is_archived, mark.time))
            }
            Some(RecordKind::Object) => self.move_object(position, record),
            Some(RecordKind::Batch) => match self.state.batch.filter(|batch| batch.position == position) {
                Some(batch) => self.write_batch(batch.lsn, batch.is_complete),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Appends a copy of a record.
    fn copy_record(&mut self, record: RecordRef<'_>, stream: Stream) -> Result<u32, GraphError> {
        self.state.record.clear();
        self.state.record.extend((0..record.len()).map(|at| record.word(at)));
        self.append_buffer(stream)
    }

    /// Copies an edge record to which the recent changes of a list refer.
    fn copy_edge(&mut self, position: u32, record: RecordRef<'_>, rest: usize) -> Result<(), GraphError> {
        let (ty, ..) = record.edge_properties();
        let (source, destination) = (record.word(2), record.word(3));
        let reverse = self.graph.edge_type(ty).and_then(|found| found.reverse());
        if self.entry_of(source, ty, destination, position).is_some() {
            self.merge_if_shorter(source, ty, destination, (Stream::Short, rest))?;
        }
        if let Some(ty) = reverse.filter(|ty| self.entry_of(destination, *ty, source, position).is_some()) {
            self.merge_if_shorter(destination, ty, source, (Stream::Short, rest))?;
        }
        let own = self.entry_of(source, ty, destination, position);
        let other = reverse.and_then(|ty| self.entry_of(destination, ty, source, position));
        if own.is_none() && other.is_none() {
            return Ok(());
        }
        let copy = self.copy_record(record, Stream::Short)?;
        let entries = if reverse.is_some() { vec![own, other] } else { vec![own] };
        for entry in entries {
            // A list that was merged since does not refer to the copy either.
            match entry {
                Some(entry) => {
                    entry.store(copy, Release);
                    self.release_edge(position, ty);
                }
                None => self.release_edge(copy, ty),
            }
        }
        Ok(())
    }

    /// Returns the word of a list's recent changes that refers to an edge record.
    fn entry_of(&self, node: u32, ty: u8, id: u32, position: u32) -> Option<&'g AtomicU32> {
        let list = self.list(node, ty);
        if list.head.position == 0 {
            return None;
        }
        let recent = list.part(list.part_of(id)).recent?;
        let index = (0..recent_count(recent)).find(|at| recent_change(recent, *at).position == position)?;
        Some(&recent.words()[RECENT_WORDS + index * RECENT_ENTRY_WORDS + 1])
    }

    /// Returns the index and the part of a list that has the edge to `id`.
    fn part_with(&self, node: u32, ty: u8, id: u32) -> Option<(usize, ListPart<'g>)> {
        let list = self.list(node, ty);
        let index = list.part_of(id);
        (list.head.position != 0).then(|| (index, list.part(index)))
    }

    /// Merges the part of a list that has the edge to `id`, if that frees more words than it writes, and if `rest`
    /// words of a segment of this stream can still be copied after it. A leaf much longer than its changes is merged
    /// only for itself. Returns true if it did.
    fn merge_if_shorter(
        &mut self,
        node: u32,
        ty: u8,
        id: u32,
        (stream, rest): (Stream, usize),
    ) -> Result<bool, GraphError> {
        let Some((index, part)) = self.part_with(node, ty, id) else { return Ok(false) };
        let words = self.store.pool.words();
        let length = |position: u32| if position == 0 { 0 } else { RecordRef::at(words, position).len() };
        let has_reverse = self.graph.edge_type(ty).is_some_and(|found| found.reverse().is_some());
        let edges = |recent| (0..recent_count(recent)).map(move |at| length(recent_change(recent, at).position));
        let edges = part.recent.map_or(0, |recent| edges(recent).sum()) / if has_reverse { 2 } else { 1 };
        let (changes, leaf) = (edges + part.recent.map_or(0, |recent| recent.len()), length(part.leaf_position));
        // A leaf that is copied anyway is merged.
        if matches!(stream, Stream::Short) && leaf > LEAF_WORDS_A_CHANGE_WORD * changes {
            return Ok(false);
        }
        let freed = changes + leaf;
        let written = self.merged_words(part, node, ty);
        // Without recent changes, only dropped tombstones make a leaf shorter.
        let gain_min = usize::from(part.recent.is_none());
        if written + gain_min > freed || written > self.merge_room(stream, rest) {
            return Ok(false);
        }
        self.merge(node, ty, index)?;
        Ok(true)
    }

    /// Returns the number of words that merges may write so that `rest` words can still be copied to a stream.
    fn merge_room(&self, stream: Stream, rest: usize) -> usize {
        // The last words of a segment stay empty, because no record fits.
        let usable = self.store.pool.segment_words() * 4 / 5;
        let free = self.store.pool.reclaim_now(&self.store.epochs);
        let long = self.words_left(Stream::Long);
        match stream {
            Stream::Long => (long + free * usable).saturating_sub(rest),
            Stream::Short if self.words_left(Stream::Short) >= rest => long + free * usable,
            Stream::Short => long + free.saturating_sub(1) * usable,
        }
    }

    /// Copies the recent changes of a list.
    fn copy_recent(&mut self, position: u32, record: RecordRef<'_>, rest: usize) -> Result<(), GraphError> {
        let (node, ty) = (record.word(2), record.word(3) as u8);
        let id = recent_change(record, 0).id;
        let part = self.part_with(node, ty, id);
        let Some((index, _)) = part.filter(|(_, part)| part.position == position) else { return Ok(()) };
        if self.merge_if_shorter(node, ty, id, (Stream::Short, rest))? {
            return Ok(());
        }
        let copy = self.copy_record(record, Stream::Short)?;
        self.replace_part(node, ty, index, copy);
        self.release(position);
        Ok(())
    }

    /// Copies a leaf, or merges it with its recent changes if that is not longer.
    fn copy_leaf(&mut self, position: u32, record: RecordRef<'_>, rest: usize) -> Result<(), GraphError> {
        let leaf = Leaf::of(record);
        let (node, ty) = (leaf.source(), leaf.edge_type());
        let (id, _) = leaf.range();
        let part = self.part_with(node, ty, id);
        let Some((index, part)) = part.filter(|(_, part)| part.leaf_position == position) else { return Ok(()) };
        let may_shorten = part.recent.is_some() || leaf.marked_at().is_some();
        if may_shorten && self.merge_if_shorter(node, ty, id, (Stream::Long, rest))? {
            return Ok(());
        }
        let copy = self.copy_record(record, Stream::Long)?;
        match part.recent {
            Some(recent) => recent.words()[RECENT_LEAF].store(copy, Release),
            None => self.replace_part(node, ty, index, copy),
        }
        self.release(position);
        Ok(())
    }

    fn move_nodes(&mut self, position: u32, record: RecordRef<'_>) -> Result<(), GraphError> {
        let block = record.word(2) as usize / PAGE;
        if self.state.node_blocks.get(block) == Some(&position) {
            return self.write_node_block(block);
        }
        let single = self.state.node_singles.iter().position(|single| *single == position);
        let Some(single) = single.filter(|_| block == self.state.node_blocks.len()) else { return Ok(()) };
        let new = self.write_node(record.word(2), record.long(4))?;
        self.state.node_singles[single] = new;
        self.release(position);
        Ok(())
    }

    fn move_leaves(&mut self, position: u32, record: RecordRef<'_>) -> Result<(), GraphError> {
        let (node, ty) = (record.word(2), record.word(3) as u8);
        let list = self.list(node, ty);
        if list.head.position != position {
            return Ok(());
        }
        let entry = |at: usize| (record.word(LEAVES_WORDS + at * 2), record.word(LEAVES_WORDS + at * 2 + 1));
        let leaves: Vec<(u32, u32)> = (0..list.parts()).map(entry).collect();
        let new = self.write_leaves(node, ty, &leaves)?;
        self.graph.publish(node, ty, crate::state::Head { position: new, ..list.head });
        self.release(position);
        Ok(())
    }

    fn move_object(&mut self, position: u32, record: RecordRef<'_>) -> Result<(), GraphError> {
        let number = record.word(2);
        let current = self.graph.objects.find(number).map(|word| word.load(std::sync::atomic::Ordering::Relaxed));
        if current != Some(position) {
            return Ok(());
        }
        let mut bytes = Vec::new();
        record.copy_bytes(7, record.word(6) as usize, &mut bytes);
        let is_there = record.word(5) == 0;
        self.write_object(number, is_there.then_some(&bytes[..]), record.long(3))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::{RecordRef, recent_change, recent_count};
    use crate::{
        Direction, EdgeAction, EdgeChange, EdgeTypeConfig, GraphStore, GraphStoreConfig, TypeId, Writer, anonymous,
    };

    const NEIGHBOURS: u64 = 4000;

    fn add(writer: &mut Writer<'_>, edge_type: TypeId, destination: u64) {
        let action = EdgeAction::Add(b"");
        writer.apply(&EdgeChange { source: 1, edge_type, destination, time_ms: 1, action }).expect("room");
    }

    /// Copies the hub's first recent change, as compaction of its segment does.
    fn copy_first_change(writer: &mut Writer<'_>, hub: u32, ty: u8) {
        let recent = writer.list(hub, ty).part(0).recent.expect("a recent change");
        let position = recent_change(recent, 0).position;
        writer.copy_edge(position, RecordRef::at(writer.store.pool.words(), position), 0).expect("room");
    }

    #[test]
    fn compaction_writes_a_long_list_again_for_one_change() {
        let store = GraphStore::new(anonymous(256 << 20), &GraphStoreConfig::default()).expect("enough");
        let graph = store.create_graph("g").expect("room");
        let mut writer = graph.writer();
        let config = EdgeTypeConfig { direction: Direction::Undirected, ..Default::default() };
        let edge_type = writer.declare_type("knows", &config).expect("valid");
        (2..2 + NEIGHBOURS).for_each(|destination| add(&mut writer, edge_type, destination));
        let (hub, ty) = (writer.graph.ids.find(1).expect("known"), edge_type.0);
        writer.merge(hub, ty, 0).expect("room");
        let leaf = writer.list(hub, ty).part(0).leaf_position;
        add(&mut writer, edge_type, 10_000);
        copy_first_change(&mut writer, hub, ty);
        let part = writer.list(hub, ty).part(0);
        assert_eq!((part.leaf_position, part.recent.map(recent_count)), (leaf, Some(1)));
        // These are as many changes as a merge is worth.
        (10_001..10_060).for_each(|destination| add(&mut writer, edge_type, destination));
        assert_eq!(writer.list(hub, ty).part(0).leaf_position, leaf, "the list was merged before compaction");
        copy_first_change(&mut writer, hub, ty);
        let list = writer.list(hub, ty);
        assert!(list.part(0).recent.is_none() && list.head.live == NEIGHBOURS as u32 + 60);
    }
}
