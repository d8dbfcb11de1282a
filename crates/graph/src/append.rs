//! The writer's appends to segments, and its count of live words.
//!
//! Short-lived records (edges, recent changes) and long-lived ones go to different open segments, so most segments of
//! the first kind become free without a copy. A small graph has one segment for both: a stream without a segment
//! appends to that of the other one until it is half full.

use crate::error::GraphError;
use crate::limits::{LEAF_WORDS_MAX, SEGMENTS_FOR_REMOVALS, SEGMENTS_RESERVED};
use crate::pool::Pool;
use crate::record::RecordRef;
use crate::state::{GraphState, OpenSegment, StoreState, WriterState};
use crate::sync::MutexGuard;

/// The open segment for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Edges and recent changes.
    Short = 0,
    /// Everything else.
    Long = 1,
}

/// More words than a change of an edge appends: it merges two lists at most, each into two leaves and their directory.
const CHANGE_WORDS_MAX: usize = 96 << 10;

/// More words than a change of an edge appends besides.
const SHORT_WORDS_MIN: usize = 4096;

/// More bytes than one change adds to the index, unless a table of pages grows.
pub(crate) const INDEX_BYTES_A_CHANGE: usize = 64 << 10;

/// The writer of a graph. It exists once at a time: others wait for its end.
#[derive(Debug)]
pub struct Writer<'g> {
    pub(crate) store: &'g StoreState,
    pub(crate) graph: &'g GraphState,
    pub(crate) state: MutexGuard<'g, WriterState>,
    /// True if the writer may take the segments that are reserved for compaction.
    pub(crate) may_take_reserve: bool,
    /// True during a restart. Records are counted as live one after another, so a segment whose count is 0 may hold
    /// records that are not counted yet: it is not retired.
    pub(crate) is_restoring: bool,
    /// True if the writer uses the room that is reserved for its bulk batch.
    pub(crate) has_reservation: bool,
}

impl Writer<'_> {
    /// Returns an error unless there is room for a change, so that no change ends half-way.
    pub(crate) fn check_room(&self) -> Result<(), GraphError> {
        if !self.has_reservation {
            self.store.index.check(INDEX_BYTES_A_CHANGE)?;
        }
        self.check_room_beside(SEGMENTS_FOR_REMOVALS)
    }

    /// Returns an error unless there is room for a removal, which may take segments that other changes may not: a full
    /// store could not be emptied otherwise.
    pub(crate) fn check_room_to_remove(&self) -> Result<(), GraphError> {
        self.check_room_beside(0)
    }

    /// Returns an error unless compaction can copy a record of `words` words, in segments that are reserved for it.
    pub(crate) fn check_room_to_copy(&self, stream: Stream, words: usize) -> Result<(), GraphError> {
        let has_room = self.words_left(stream) >= words || self.store.pool.has_free(1, &self.store.epochs);
        if has_room { Ok(()) } else { Err(GraphError::NoSpace) }
    }

    pub(crate) fn check_room_beside(&self, reserved: usize) -> Result<(), GraphError> {
        let has_own = self.words_left(Stream::Short) >= SHORT_WORDS_MIN;
        if has_own && self.words_left(Stream::Long) >= CHANGE_WORDS_MAX || has_room_in_one_segment(self) {
            return Ok(());
        }
        // Removals make room.
        if reserved > 0 && !self.has_reservation && self.store.pool.has_reservations() {
            let claim = (CHANGE_WORDS_MAX + SHORT_WORDS_MIN) as u64;
            if words_unclaimed(self) < claim {
                return Err(GraphError::NoSpace);
            }
        }
        let wanted = SEGMENTS_RESERVED + reserved + 1 + segments_a_change(&self.store.pool);
        if self.store.pool.has_free(wanted, &self.store.epochs) { Ok(()) } else { Err(GraphError::NoSpace) }
    }

    /// Returns the number of words that are left in the open segment of a stream.
    pub(crate) fn words_left(&self, stream: Stream) -> usize {
        let words = self.store.pool.segment_words();
        self.state.open[stream as usize].map_or(0, |open| words - open.used)
    }

    /// Appends a record and returns its position.
    pub(crate) fn append(&mut self, stream: Stream, record: &[u32]) -> Result<u32, GraphError> {
        let (pool, stream) = (&self.store.pool, taker_of(self, stream));
        let fits = |open: &OpenSegment| open.used + record.len() <= pool.segment_words();
        let open = match self.state.open[stream as usize].filter(fits) {
            Some(open) => open,
            None => self.open_segment(stream)?,
        };
        let pool = &self.store.pool;
        pool.add_live(open.segment, record.len() as u32);
        self.state.appended += record.len() as u64;
        pool.write(open.segment, open.used, record);
        self.state.open[stream as usize] = Some(OpenSegment { used: open.used + record.len(), ..open });
        Ok(pool.position(open.segment, open.used))
    }

    /// Replaces the open segment of a stream by a free one.
    fn open_segment(&mut self, stream: Stream) -> Result<OpenSegment, GraphError> {
        if self.graph.is_dropped() {
            return Err(GraphError::GraphDropped);
        }
        let (pool, epochs) = (&self.store.pool, &self.store.epochs);
        let segment = pool.open(self.graph.number, self.may_take_reserve, epochs)?;
        if let Some(full) = self.state.open[stream as usize].take()
            && !self.is_restoring
            && pool.live_words(full.segment) == 0
        {
            pool.retire(full.segment, epochs);
        }
        let open = OpenSegment { segment, used: crate::pool::SEGMENT_HEADER_WORDS };
        self.state.open[stream as usize] = Some(open);
        Ok(open)
    }

    /// Ends the open segments, so that compaction can choose them. The next change opens others.
    pub fn seal(&mut self) {
        for full in std::mem::take(&mut self.state.open).into_iter().flatten() {
            if self.store.pool.live_words(full.segment) == 0 {
                self.store.pool.retire(full.segment, &self.store.epochs);
            }
        }
    }

    /// Appends the record in the writer's buffer.
    pub(crate) fn append_buffer(&mut self, stream: Stream) -> Result<u32, GraphError> {
        let record = std::mem::take(&mut self.state.record);
        let position = self.append(stream, &record);
        self.state.record = record;
        position
    }

    /// Counts words of a record as dead. A segment without live records is retired, unless it is open.
    pub(crate) fn release_words(&mut self, position: u32, words: u32) {
        let segment = self.store.pool.segment_of(position);
        let is_empty = self.store.pool.sub_live(segment, words);
        if is_empty && !self.is_restoring && !self.state.open.iter().flatten().any(|open| open.segment == segment) {
            self.store.pool.retire(segment, &self.store.epochs);
        }
    }

    /// Counts a record as dead. Position 0 is no record.
    pub(crate) fn release(&mut self, position: u32) {
        if position != 0 {
            let words = RecordRef::at(self.store.pool.words(), position).len() as u32;
            self.release_words(position, words);
        }
    }

    /// Counts one list's reference to an edge record as dead. The lists of both directions refer to a record if the
    /// type has a reverse.
    pub(crate) fn release_edge(&mut self, position: u32, ty: u8) {
        let words = RecordRef::at(self.store.pool.words(), position).len() as u32;
        let has_reverse = self.graph.edge_type(ty).is_some_and(|found| found.reverse().is_some());
        self.release_words(position, if has_reverse { words / 2 } else { words });
    }
}

/// Returns the number of segments that the long records of one change fill at most.
fn segments_a_change(pool: &Pool) -> usize {
    CHANGE_WORDS_MAX.div_ceil(pool.segment_words() * 4 / 5)
}

/// Returns the number of free segments below which an addition is refused unless the open segments have room for it.
pub(crate) fn segments_before_addition(pool: &Pool) -> usize {
    SEGMENTS_RESERVED + SEGMENTS_FOR_REMOVALS + 1 + segments_a_change(pool)
}

/// Returns true if both streams share a segment, and still share it after a change.
fn has_room_in_one_segment(writer: &Writer<'_>) -> bool {
    let shared = match writer.state.open {
        [Some(open), None] | [None, Some(open)] => open,
        _ => return false,
    };
    shared.used + CHANGE_WORDS_MAX + SHORT_WORDS_MIN <= shared_words(writer)
}

/// Returns the number of used words up to which a segment takes the records of both streams.
fn shared_words(writer: &Writer<'_>) -> usize {
    writer.store.pool.segment_words() / 2
}

/// Returns the stream whose open segment takes a record of a stream.
fn taker_of(writer: &Writer<'_>, stream: Stream) -> Stream {
    let other = if stream == Stream::Short { Stream::Long } else { Stream::Short };
    let open = |stream: Stream| writer.state.open[stream as usize];
    let is_shared = open(stream).is_none() && open(other).is_some_and(|open| open.used < shared_words(writer));
    if is_shared { other } else { stream }
}

/// Returns the number of words that changes can use once compaction removed all dead records, apart from those that
/// bulk batches have reserved. The ends of segments stay empty, because no record fits. The open segments of other
/// graphs are theirs.
pub(crate) fn words_unclaimed(writer: &Writer<'_>) -> u64 {
    let pool = &writer.store.pool;
    let graphs = writer.store.existing();
    let (mut open_segments, mut open_live) = (0, 0);
    for graph in graphs.filter(|graph| graph.number != writer.graph.number) {
        // A graph that another thread changes has two open segments at most.
        let open = graph.writer.try_lock().map_or(None, |state| Some(state.open));
        open_segments += open.map_or(2, |open| open.iter().flatten().count());
        let live = |open: OpenSegment| u64::from(pool.live_words(open.segment));
        open_live += open.map_or(0, |open| open.into_iter().flatten().map(live).sum());
    }
    let beside = SEGMENTS_RESERVED + SEGMENTS_FOR_REMOVALS + 2 + segments_a_change(pool);
    let segments = pool.segments().saturating_sub(beside + open_segments);
    let usable = pool.segment_words() - LEAF_WORDS_MAX;
    (segments as u64 * usable as u64 + open_live).saturating_sub(pool.words_claimed())
}
