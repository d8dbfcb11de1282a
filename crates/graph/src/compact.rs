//! Compaction: copies the live records out of the emptiest segment, in slices, so that the segment can be reused.
//!
//! An edge record is not copied. The lists that refer to it are merged, after which it is dead.

use crate::append::Writer;
use crate::error::GraphError;
use crate::leaf::Leaf;
use crate::list::{recent_change, recent_count};
use crate::paged::PAGE;
use crate::record::{LEAVES_WORDS, RecordKind, RecordRef};
use crate::state::Compaction;

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

impl Writer<'_> {
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
            let copied = self.move_record(position, record);
            at.word += record.len();
            self.state.compaction = Some(at);
            copied.inspect_err(|_| self.may_take_reserve = false)?;
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
    fn move_record(&mut self, position: u32, record: RecordRef<'_>) -> Result<(), GraphError> {
        match record.kind() {
            Some(RecordKind::Name) if self.state.name_position == position => self.write_name(),
            Some(RecordKind::EdgeType) => {
                let ty = record.word(2) as usize;
                let is_live = self.state.type_positions.get(ty) == Some(&position);
                if is_live { self.write_type(ty as u8) } else { Ok(()) }
            }
            Some(RecordKind::Nodes) => self.move_nodes(position, record),
            Some(RecordKind::Edge) => {
                let (ty, ..) = record.edge_properties();
                self.merge_if_named(record.word(2), ty, record.word(3), position)?;
                let reverse = self.graph.edge_type(ty).and_then(|found| found.reverse());
                reverse.map_or(Ok(()), |ty| self.merge_if_named(record.word(3), ty, record.word(2), position))
            }
            Some(RecordKind::Leaf) => {
                let leaf = Leaf::of(record);
                self.merge_if_current(leaf.source(), leaf.edge_type(), leaf.numbers.at(0), position)
            }
            Some(RecordKind::Recent) if recent_count(record) > 0 => {
                let first = recent_change(record, 0).id;
                self.merge_if_current(record.word(2), record.word(3) as u8, first, position)
            }
            Some(RecordKind::Leaves) => self.move_leaves(position, record),
            Some(RecordKind::Mark) => {
                let mark = self.state.marks.get(&record.word(2)).copied();
                let mark = mark.filter(|mark| mark.position == position);
                mark.map_or(Ok(()), |mark| self.write_mark(record.word(2), mark.is_archived, mark.time))
            }
            Some(RecordKind::Object) => self.move_object(position, record),
            _ => Ok(()),
        }
    }

    /// Merges the part of a list that has the edge to `id`, if the part refers to an edge record.
    fn merge_if_named(&mut self, node: u32, ty: u8, id: u32, position: u32) -> Result<(), GraphError> {
        let list = self.list(node, ty);
        let index = list.part_of(id);
        let recent = (list.head.position != 0).then(|| list.part(index).recent).flatten();
        let names = |record| (0..recent_count(record)).any(|at| recent_change(record, at).position == position);
        if recent.is_some_and(names) { self.merge(node, ty, index) } else { Ok(()) }
    }

    /// Merges the part of a list that has the edge to `id`, if the part consists of the record at `position`.
    fn merge_if_current(&mut self, node: u32, ty: u8, id: u32, position: u32) -> Result<(), GraphError> {
        let list = self.list(node, ty);
        if list.head.position == 0 {
            return Ok(());
        }
        let index = list.part_of(id);
        let part = list.part(index);
        let is_current = part.position == position || part.leaf_position == position;
        if is_current { self.merge(node, ty, index) } else { Ok(()) }
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
