//! Changes of a graph: nodes, edges, marks and objects.

use crate::append::{INDEX_BYTES_A_CHANGE, Stream, Writer};
use crate::change::{EdgeAction, EdgeChange, EdgeValue};
use crate::error::GraphError;
use crate::ids::check_node;
use crate::leaf::{EdgeState, LeafEntries, LeafPlace};
use crate::limits::{ATTRIBUTE_BYTES_MAX, LEAVES_MAX, OBJECT_BYTES_MAX, RECENT_MAX, RECENT_MIN, TIME_MS_MAX};
use crate::list::{List, ListPart, recent_change, recent_count};
use crate::paged::PAGE;
use crate::record::{self, LEAVES_WORDS, RECENT_COUNT, RECENT_ENTRY_WORDS, RECENT_WORDS, RecordKind, RecordRef};
use crate::state::{BatchMark, GraphState, Head, NodeMark};
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Returns the time of a change that happens now and follows one at `last`. Several changes may happen in one
/// millisecond, clocks of several hosts differ, and a clock may be set back, so the time is moved behind a later
/// `last`.
fn time_now(now_ms: u64, last: Option<u64>) -> u64 {
    match last {
        Some(last) if last >= now_ms => (last + 1).min(TIME_MS_MAX),
        _ => now_ms,
    }
}

/// Returns an error if a graph refuses a change, apart from caps and room.
pub(crate) fn check_change(graph: &GraphState, change: &EdgeChange<'_>) -> Result<(), GraphError> {
    let edge_type = graph.edge_type(change.edge_type.0).ok_or_else(|| graph.no_type())?;
    check_node(change.source)?;
    check_node(change.destination)?;
    check_time(change.time_ms)?;
    if change.source == change.destination {
        return Err(GraphError::SelfEdge(change.source));
    }
    let attributes = change.action.attributes().unwrap_or(&[]).len();
    if attributes > ATTRIBUTE_BYTES_MAX {
        return Err(GraphError::AttributesTooLong(attributes));
    }
    if attributes > 0 && edge_type.schema.is_empty() {
        return Err(GraphError::NoSchema);
    }
    Ok(())
}

fn check_time(time_ms: u64) -> Result<(), GraphError> {
    if time_ms > TIME_MS_MAX { Err(GraphError::TimeOutOfRange(time_ms)) } else { Ok(()) }
}

impl<'g> Writer<'g> {
    pub(crate) fn list(&self, node: u32, ty: u8) -> List<'g> {
        List::open(self.graph, self.store.pool.words(), node, ty)
    }

    /// Checks a change, apart from caps and room.
    ///
    /// # Errors
    /// If the type is unknown, an identifier reserved, both ends are one node, the time is out of range or the type
    /// does not store these attributes.
    pub fn check(&self, change: &EdgeChange<'_>) -> Result<(), GraphError> {
        check_change(self.graph, change)
    }

    /// Applies a change to an edge, in both directions. Returns true if the edge's state or attributes changed. An
    /// older change than the edge's newest has no effect.
    ///
    /// # Errors
    /// If [`Writer::check`] refuses the change, a list is at its cap or full, or no segment is free.
    pub fn apply(&mut self, change: &EdgeChange<'_>) -> Result<bool, GraphError> {
        self.check(change)?;
        let ty = change.edge_type.0;
        let known = (self.graph.ids.find(change.source), self.graph.ids.find(change.destination));
        let before = match known {
            (Some(source), Some(destination)) => self.edge_value(source, ty, destination),
            _ => None,
        };
        if change.action == EdgeAction::Remove {
            self.check_room_to_remove()?;
            if before.is_none() {
                // The removal of an edge that never existed is stored, and may add nodes.
                self.store.index.check(INDEX_BYTES_A_CHANGE)?;
            }
        } else {
            self.check_room()?;
        }
        let own = EdgeValue::of(change.action, change.time_ms);
        let mut value = before.clone().unwrap_or_else(|| own.clone());
        let mut is_newer = value.merge(&own) || before.is_none();
        let mut old_states = [before.as_ref().map(|before| before.state); 2];
        if self.state.bulk.is_some()
            && let (Some(source), Some(destination)) = known
            && let Some(reverse) = self.graph.edge_type(ty).and_then(|found| found.reverse())
        {
            // A bulk batch may have written one of the two lists only.
            let other = self.edge_value(destination, reverse, source);
            old_states[1] = other.as_ref().map(|other| other.state);
            other.iter().for_each(|other| is_newer |= value.merge(other));
            is_newer |= other.as_ref() != Some(&value);
        }
        if !is_newer {
            return Ok(false);
        }
        if value.state == EdgeState::Live && old_states != [Some(EdgeState::Live); 2] {
            self.check_caps(change, known, old_states)?;
        }
        let source = self.node_number(change.source)?;
        let destination = self.node_number(change.destination)?;
        self.store_edge(source, ty, destination, old_states, &value)?;
        // The removal of an edge that never existed is stored, in case an older addition arrives, but changes nothing.
        Ok(before.map_or(value.state != EdgeState::Removed, |before| {
            before.state != value.state || before.attributes != value.attributes
        }))
    }

    /// Applies a change as [`Writer::apply`] does, that happens now: if the edge's last change has the same time or a
    /// later one, the change gets a time after it.
    ///
    /// # Errors
    /// As [`Writer::apply`].
    pub fn apply_now(&mut self, change: &EdgeChange<'_>) -> Result<bool, GraphError> {
        let known = self.graph.ids.find(change.source).zip(self.graph.ids.find(change.destination));
        let before = known.and_then(|(source, to)| self.edge_value(source, change.edge_type.0, to));
        let last = before.map(|before| before.time.max(before.attributes_time));
        self.apply(&EdgeChange { time_ms: time_now(change.time_ms, last), ..*change })
    }

    /// Returns the value of an edge, if it was ever changed.
    pub(crate) fn edge_value(&self, source: u32, ty: u8, destination: u32) -> Option<EdgeValue> {
        let edge = self.list(source, ty).find(destination)?;
        let mut text = Vec::new();
        edge.text(&mut text);
        Some(EdgeValue::stored(edge.state, edge.time(), &text))
    }

    /// Returns an error if the change would bring a list above its cap, or if a list has no room for more leaves.
    fn check_caps(
        &self,
        change: &EdgeChange<'_>,
        known: (Option<u32>, Option<u32>),
        old_states: [Option<EdgeState>; 2],
    ) -> Result<(), GraphError> {
        let ty = change.edge_type.0;
        let reverse = self.graph.edge_type(ty).and_then(|found| found.reverse());
        let ends = [(known.0, change.source, Some(ty)), (known.1, change.destination, reverse)];
        let added = ends.into_iter().zip(old_states).filter(|(_, old)| *old != Some(EdgeState::Live));
        for ((number, node, ty), _) in added {
            let (Some(number), Some(ty)) = (number, ty) else { continue };
            let cap = self.graph.edge_type(ty).map_or(0, |found| found.cap);
            let list = self.list(number, ty);
            if cap != 0 && list.head.live >= cap {
                return Err(GraphError::CapReached { node, cap });
            }
            if list.parts() + 2 > LEAVES_MAX {
                return Err(GraphError::ListFull(node));
            }
        }
        Ok(())
    }

    /// Returns the number of a node, and adds the node if necessary.
    pub(crate) fn node_number(&mut self, external: u64) -> Result<u32, GraphError> {
        if let Some(number) = self.graph.ids.find(external) {
            return Ok(number);
        }
        let position = self.write_node(self.graph.ids.len(), external)?;
        let added = self.graph.ids.add(external, &mut self.state.id_pages, &self.store.epochs);
        let Some(number) = added else {
            self.release(position);
            return Err(GraphError::TooManyNodes);
        };
        self.state.node_singles.push(position);
        if self.state.node_singles.len() == PAGE {
            self.write_node_block(number as usize / PAGE)?;
        }
        Ok(number)
    }

    /// Appends the record of one node.
    pub(crate) fn write_node(&mut self, number: u32, external: u64) -> Result<u32, GraphError> {
        let words = &mut self.state.record;
        record::begin(words, RecordKind::Nodes, 0);
        words.extend([number, 1]);
        record::push_u64(words, external);
        record::seal(words);
        self.append_buffer(Stream::Short)
    }

    /// Writes a complete block of nodes as one record, in place of a record for each node.
    pub(crate) fn write_node_block(&mut self, block: usize) -> Result<(), GraphError> {
        let first = (block * PAGE) as u32;
        let mut words = std::mem::take(&mut self.state.record);
        record::begin(&mut words, RecordKind::Nodes, 0);
        words.extend([first, PAGE as u32]);
        (first..first + PAGE as u32).for_each(|number| record::push_u64(&mut words, self.graph.ids.external(number)));
        record::seal(&mut words);
        self.state.record = words;
        let position = self.append_buffer(Stream::Long)?;
        if block < self.state.node_blocks.len() {
            let old = std::mem::replace(&mut self.state.node_blocks[block], position);
            self.release(old);
        } else {
            self.state.node_blocks.push(position);
            for single in std::mem::take(&mut self.state.node_singles) {
                self.release(single);
            }
        }
        Ok(())
    }

    /// Appends an edge's record and enters it into the lists of both directions.
    fn store_edge(
        &mut self,
        source: u32,
        ty: u8,
        destination: u32,
        old_states: [Option<EdgeState>; 2],
        value: &EdgeValue,
    ) -> Result<(), GraphError> {
        let edge_type = self.graph.edge_type(ty).expect("checked");
        let position = self.write_edge((source, ty, destination), value, 0)?;
        self.enter(source, ty, destination, position, old_states[0], value.state)?;
        if let Some(reverse) = edge_type.reverse() {
            self.enter(destination, reverse, source, position, old_states[1], value.state)?;
            self.graph.count_changes(reverse, 1);
        }
        self.graph.count_changes(ty, 1);
        Ok(())
    }

    /// Appends an edge's record. Its flags are 0 or [`record::OF_BATCH`].
    pub(crate) fn write_edge(
        &mut self,
        (source, ty, destination): (u32, u8, u32),
        value: &EdgeValue,
        flags: u32,
    ) -> Result<u32, GraphError> {
        let has_schema = self.graph.edge_type(ty).is_some_and(|found| !found.schema.is_empty());
        let mut text = Vec::new();
        value.push_text(has_schema, &mut text);
        let lsn = self.next_lsn();
        let words = &mut self.state.record;
        record::begin(words, RecordKind::Edge, flags);
        words.extend([source, destination]);
        record::push_u64(words, lsn);
        record::push_u64(words, value.time);
        words.push(u32::from(ty) | (value.state as u32) << 8 | (text.len() as u32) << 16);
        record::push_bytes(words, &text);
        record::seal(words);
        self.append_buffer(Stream::Short)
    }

    /// Enters an edge record into one list.
    pub(crate) fn enter(
        &mut self,
        node: u32,
        ty: u8,
        id: u32,
        position: u32,
        old: Option<EdgeState>,
        new: EdgeState,
    ) -> Result<(), GraphError> {
        let list = self.list(node, ty);
        let is_live = |state: Option<EdgeState>| u32::from(state == Some(EdgeState::Live));
        let live = list.head.live + is_live(Some(new)) - is_live(old);
        let index = list.part_of(id);
        let part = (list.head.position != 0).then(|| list.part(index));
        let recent = part.and_then(|part| part.recent);
        let entry = [id, position, new as u32];
        let count = recent.map_or(0, recent_count);
        if let Some(record) = recent
            && record.len() >= RECENT_WORDS + (count + 1) * RECENT_ENTRY_WORDS
        {
            let at = RECENT_WORDS + count * RECENT_ENTRY_WORDS;
            record.words()[at..].iter().zip(entry).for_each(|(word, value)| word.store(value, Relaxed));
            record.words()[RECENT_COUNT].store(count as u32 + 1, Release);
            self.graph.publish(node, ty, Head { live, ..list.head });
        } else {
            self.lengthen_recent(node, ty, index, part, entry)?;
            let position = self.graph.head(node, ty).position;
            self.graph.publish(node, ty, Head { live, position });
        }
        let leaf_entries = part.and_then(|part| part.leaf).map_or(0, |leaf| leaf.count());
        if count + 1 >= (leaf_entries / 8).clamp(RECENT_MIN, RECENT_MAX) {
            self.merge(node, ty, index)?;
        }
        Ok(())
    }

    /// Returns true if a list has only a tombstone of an edge that the list of the other direction does not have as
    /// one: the other list dropped it, or the batch that is being loaded replaced it. It has no effect then.
    pub(crate) fn is_lone_tombstone(&self, node: u32, ty: u8, id: u32, value: &EdgeValue) -> bool {
        let reverse = self.graph.edge_type(ty).and_then(|found| found.reverse());
        value.state == EdgeState::Removed
            && reverse.is_some_and(|reverse| {
                self.edge_value(id, reverse, node).is_none_or(|other| other.state != EdgeState::Removed)
            })
    }

    /// Replaces a part's recent changes by a record with twice the room and one more entry.
    fn lengthen_recent(
        &mut self,
        node: u32,
        ty: u8,
        index: usize,
        part: Option<ListPart<'g>>,
        entry: [u32; 3],
    ) -> Result<(), GraphError> {
        let old = part.and_then(|part| part.recent);
        let count = old.map_or(0, recent_count);
        let room = (count * 2).clamp(2, RECENT_MAX);
        let words = &mut self.state.record;
        record::begin(words, RecordKind::Recent, 0);
        words.extend([node, u32::from(ty), part.map_or(0, |part| part.leaf_position), count as u32 + 1]);
        if let Some(old) = old {
            words.extend((RECENT_WORDS..RECENT_WORDS + count * RECENT_ENTRY_WORDS).map(|at| old.word(at)));
        }
        words.extend(entry);
        words.resize(RECENT_WORDS + room * RECENT_ENTRY_WORDS, 0);
        record::seal(words);
        let position = self.append_buffer(Stream::Short)?;
        self.replace_part(node, ty, index, position);
        if let Some(part) = part.filter(|part| part.recent.is_some()) {
            self.release(part.position);
        }
        Ok(())
    }

    /// Makes a list refer to another record for one of its parts. The list's number of live edges stays.
    pub(crate) fn replace_part(&mut self, node: u32, ty: u8, index: usize, position: u32) {
        let list = self.list(node, ty);
        match list.leaves {
            Some(leaves) => leaves.words()[LEAVES_WORDS + index * 2 + 1].store(position, Release),
            None => self.graph.publish(node, ty, Head { position, ..list.head }),
        }
    }

    /// Merges the recent changes of a part into new leaves, and ages its tombstones.
    pub(crate) fn merge(&mut self, node: u32, ty: u8, index: usize) -> Result<(), GraphError> {
        let list = self.list(node, ty);
        let mut entries = std::mem::take(&mut self.state.entries);
        entries.clear();
        list.part(index).read_into(&mut entries);
        self.age(&mut entries);
        let leaves = self.write_part(&entries, (node, ty), list.range_of(index));
        self.state.entries = entries;
        self.install_leaves(node, ty, index, &leaves?)
    }

    /// Returns the clock of tombstones, unless a bulk batch is in some lists only.
    pub(crate) fn tombstone_clock(&self) -> Option<(u32, u32)> {
        let is_complete = self.state.batch.is_none_or(|batch| batch.is_complete);
        self.store.tombstones.get().filter(|_| is_complete)
    }

    /// Marks and drops tombstones.
    fn age(&self, entries: &mut LeafEntries) {
        if let Some(clock) = self.tombstone_clock() {
            entries.age(clock);
        }
    }

    /// Returns the next sequence number.
    pub(crate) fn next_lsn(&mut self) -> u64 {
        self.state.lsn += 1;
        self.state.lsn - 1
    }

    /// Appends the edges of a range of a list as leaves. Returns the first node number that each leaf may hold, and its
    /// position.
    pub(crate) fn write_part(
        &mut self,
        entries: &LeafEntries,
        (source, ty): (u32, u8),
        (start, end): (u32, u32),
    ) -> Result<Vec<(u32, u32)>, GraphError> {
        let parts = entries.leaves();
        let mut leaves = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            let first = if index == 0 { start } else { entries.list[part.start].id };
            let next = parts.get(index + 1).map_or(end, |next| entries.list[next.start].id);
            // A restart replays records one by one. All leaves that one of them causes include the same records.
            let lsn = if self.is_restoring { self.state.lsn } else { self.next_lsn() };
            let place = LeafPlace { source, ty, range: (first, next), lsn };
            entries.encode(part.clone(), &place, &mut self.state.record);
            leaves.push((first, self.append_buffer(Stream::Long)?));
        }
        Ok(leaves)
    }

    /// Replaces a part of a list, or an empty list, by leaves: each with its first node number and position. The list's
    /// number of live edges stays.
    pub(crate) fn install_leaves(
        &mut self,
        node: u32,
        ty: u8,
        index: usize,
        leaves: &[(u32, u32)],
    ) -> Result<(), GraphError> {
        let list = self.list(node, ty);
        let part = (list.head.position != 0).then(|| list.part(index));
        match leaves {
            [(_, position)] => self.replace_part(node, ty, index, *position),
            _ => self.replace_leaves(node, ty, list, index, leaves)?,
        }
        if let Some(part) = part {
            self.release_part(part, ty);
        }
        Ok(())
    }

    /// Returns the length of the leaves that a merge of a part would write, in words.
    pub(crate) fn merged_words(&mut self, part: ListPart<'g>, node: u32, ty: u8) -> usize {
        let mut entries = std::mem::take(&mut self.state.entries);
        entries.clear();
        part.read_into(&mut entries);
        self.age(&mut entries);
        let mut words = 0;
        let place = LeafPlace { source: node, ty, range: (0, 1), lsn: 0 };
        for range in entries.leaves() {
            entries.encode(range, &place, &mut self.state.record);
            words += self.state.record.len();
        }
        self.state.entries = entries;
        words
    }

    /// Counts the records of a replaced part as dead.
    fn release_part(&mut self, part: ListPart<'_>, ty: u8) {
        if let Some(recent) = part.recent {
            (0..recent_count(recent)).for_each(|at| self.release_edge(recent_change(recent, at).position, ty));
            self.release(part.position);
        }
        self.release(part.leaf_position);
    }

    /// Replaces part `index` of a list by several leaves: writes a new record of the list's leaves.
    fn replace_leaves(
        &mut self,
        node: u32,
        ty: u8,
        list: List<'_>,
        index: usize,
        leaves: &[(u32, u32)],
    ) -> Result<(), GraphError> {
        let old = |at: usize| match list.leaves {
            Some(record) => (record.word(LEAVES_WORDS + at * 2), record.word(LEAVES_WORDS + at * 2 + 1)),
            None => (0, list.head.position),
        };
        let before = (0..index).map(old);
        let after = (index + 1..list.parts()).map(old);
        let all: Vec<(u32, u32)> = before.chain(leaves.iter().copied()).chain(after).collect();
        let position = self.write_leaves(node, ty, &all)?;
        self.graph.publish(node, ty, Head { position, ..list.head });
        if list.leaves.is_some() {
            self.release(list.head.position);
        }
        Ok(())
    }

    /// Appends a record of a list's leaves: each with its first node number and position.
    pub(crate) fn write_leaves(&mut self, node: u32, ty: u8, leaves: &[(u32, u32)]) -> Result<u32, GraphError> {
        let words = &mut self.state.record;
        record::begin(words, RecordKind::Leaves, 0);
        words.extend([node, u32::from(ty), leaves.len() as u32]);
        words.extend(leaves.iter().flat_map(|(first, position)| [*first, *position]));
        record::seal(words);
        self.append_buffer(Stream::Long)
    }

    /// Archives a node, or restores it: hides all its edges, in its own lists and in others, or shows them again. Costs
    /// one record whatever the node's degree. Returns true if the node's mark changed.
    ///
    /// # Errors
    /// If the identifier is reserved, the time is out of range or no segment is free.
    pub fn mark_node(&mut self, node: u64, is_archived: bool, time_ms: u64) -> Result<bool, GraphError> {
        check_node(node)?;
        check_time(time_ms)?;
        self.check_room()?;
        let number = self.node_number(node)?;
        let old = self.state.marks.get(&number).copied();
        if old.is_some_and(|old| (old.time, old.is_archived) >= (time_ms, is_archived)) {
            return Ok(false);
        }
        self.write_mark(number, is_archived, time_ms)?;
        Ok(old.map_or(is_archived, |old| old.is_archived != is_archived))
    }

    /// Archives or restores a node as [`Writer::mark_node`] does, now: after the node's last mark.
    ///
    /// # Errors
    /// As [`Writer::mark_node`].
    pub fn mark_node_now(&mut self, node: u64, is_archived: bool, now_ms: u64) -> Result<bool, GraphError> {
        let last = self.graph.ids.find(node).and_then(|number| self.state.marks.get(&number)).map(|mark| mark.time);
        self.mark_node(node, is_archived, time_now(now_ms, last))
    }

    /// Appends a node's mark in place of its last one.
    pub(crate) fn write_mark(&mut self, number: u32, is_archived: bool, time: u64) -> Result<(), GraphError> {
        let lsn = self.next_lsn();
        let words = &mut self.state.record;
        record::begin(words, RecordKind::Mark, 0);
        words.push(number);
        record::push_u64(words, time);
        words.push(u32::from(is_archived));
        record::push_u64(words, lsn);
        record::seal(words);
        let position = self.append_buffer(Stream::Long)?;
        self.graph.set_archived(number, is_archived);
        if let Some(old) = self.state.marks.insert(number, NodeMark { time, is_archived, position }) {
            self.release(old.position);
        }
        Ok(())
    }

    /// Appends the record of the last bulk batch in place of the earlier one.
    pub(crate) fn write_batch(&mut self, lsn: u64, is_complete: bool) -> Result<(), GraphError> {
        let own = self.next_lsn();
        let words = &mut self.state.record;
        record::begin(words, RecordKind::Batch, 0);
        record::push_u64(words, lsn);
        words.push(u32::from(is_complete));
        record::push_u64(words, own);
        record::seal(words);
        let position = self.append_buffer(Stream::Long)?;
        if let Some(old) = self.state.batch.replace(BatchMark { lsn, is_complete, position }) {
            self.release(old.position);
        }
        Ok(())
    }

    /// Stores a node's object (type and bins as bytes that the store does not interpret), or removes it. Returns false
    /// if a newer change was stored before, or there was nothing to remove. A removal is stored even then, because an
    /// older object may arrive later.
    ///
    /// # Errors
    /// If the identifier is reserved, the time is out of range, the object too long or no segment is free.
    pub fn set_object(&mut self, node: u64, object: Option<&[u8]>, time_ms: u64) -> Result<bool, GraphError> {
        check_node(node)?;
        check_time(time_ms)?;
        let bytes = object.unwrap_or(&[]);
        if bytes.len() > OBJECT_BYTES_MAX {
            return Err(GraphError::ObjectTooLong(bytes.len()));
        }
        let known = self.graph.ids.find(node).and_then(|number| self.object(number));
        if object.is_none() && known.is_some_and(|(_, is_there, _)| is_there) {
            self.check_room_to_remove()?;
        } else {
            self.check_room()?;
        }
        let number = self.node_number(node)?;
        let (old, key) = (self.object(number), (time_ms, object.is_some(), bytes));
        if old.as_ref().is_some_and(|(time, is_there, old)| (*time, *is_there, &old[..]) >= key) {
            return Ok(false);
        }
        self.write_object(number, object, time_ms)?;
        Ok(object.is_some() || old.is_some_and(|(_, is_there, _)| is_there))
    }

    /// Stores or removes an object as [`Writer::set_object`] does, now: after the object's last change.
    ///
    /// # Errors
    /// As [`Writer::set_object`].
    pub fn set_object_now(&mut self, node: u64, object: Option<&[u8]>, now_ms: u64) -> Result<bool, GraphError> {
        let last = self.graph.ids.find(node).and_then(|number| self.object(number)).map(|(time, ..)| time);
        self.set_object(node, object, time_now(now_ms, last))
    }

    /// Returns the time of a node's object, if it is present, and its bytes.
    fn object(&self, number: u32) -> Option<(u64, bool, Vec<u8>)> {
        let position = self.graph.objects.find(number)?.load(Relaxed);
        let record = (position != 0).then(|| RecordRef::at(self.store.pool.words(), position))?;
        let mut bytes = Vec::new();
        record.copy_bytes(7, record.word(6) as usize, &mut bytes);
        Some((record.long(3), record.word(5) == 0, bytes))
    }

    pub(crate) fn write_object(&mut self, number: u32, object: Option<&[u8]>, time: u64) -> Result<(), GraphError> {
        let (bytes, lsn) = (object.unwrap_or(&[]), self.next_lsn());
        let words = &mut self.state.record;
        record::begin(words, RecordKind::Object, 0);
        words.push(number);
        record::push_u64(words, time);
        words.extend([u32::from(object.is_none()), bytes.len() as u32]);
        record::push_bytes(words, bytes);
        record::push_u64(words, lsn);
        record::seal(words);
        let position = self.append_buffer(Stream::Long)?;
        let word = self.graph.objects.create(number);
        let old = word.load(Relaxed);
        word.store(position, Release);
        self.release(old);
        Ok(())
    }

    /// Applies changes in their order. Checks all of them first, apart from caps and room.
    ///
    /// # Errors
    /// As [`Writer::apply`], with the number of edges that earlier changes changed.
    pub fn apply_all(&mut self, changes: &[EdgeChange<'_>]) -> Result<usize, (usize, GraphError)> {
        changes.iter().try_for_each(|change| self.check(change)).map_err(|error| (0, error))?;
        let mut changed = 0;
        for change in changes {
            match self.apply(change) {
                Ok(has_changed) => changed += usize::from(has_changed),
                Err(error) => return Err((changed, error)),
            }
        }
        Ok(changed)
    }
}
