//! Gannet's graph store as a way to store segments.
//!
//! ```text
//!   place     ──> lists of 16 KiB: 64 edges, each with attributes of 248 bytes
//!   read      ──> the lists that contain the range, with their attributes
//!   replace   ──> a bulk batch of all edges of a place, with a later time ──> new lists
//!                  └─ no segment is free ──> compaction: emptied segments are reused in place
//! ```
//!
//! The store has as much memory as the segments of the other engines, and ten of its own segments more, which it needs
//! for open segments and compaction. Its memory is anonymous and populated at the start, as that of a server without
//! `--graph-file` is once its graphs have grown. Lists fill three quarters of each place, because a store whose memory
//! is full of live lists cannot compact.
//!
//! One lock serializes writers, which hold it for one replacement. Readers take one of the store's readers from a list
//! behind a lock that is held only for that.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use arena::Words;
use graph::limits::{SEGMENT_BYTES, SEGMENT_BYTES_MIN};
use graph::{
    AtomicU32, Backing, BulkBatch, BulkStep, BulkWriter, CompactionStep, Cursor, Direction, EdgeTypeConfig, Graph,
    GraphError, GraphReader, GraphStore, GraphStoreConfig, PageOptions, PageQuery, QueryStep, TypeId, Writer,
};

use super::engine::held;

/// The edges of a list, the attributes of each in bytes, and the bytes that the list counts as.
const LIST_EDGES: usize = 64;
const ATTRIBUTE_BYTES: usize = 248;
const LIST_BYTES: usize = 16 << 10;
/// The first number of the nodes that all edges lead to.
const DESTINATIONS: u64 = 1 << 40;
/// The number of segments that the store needs beside its lists.
const EXTRA_SEGMENTS: usize = 10;
/// The number of edges of a slice of a load, and the number of words of a slice of compaction.
const SLICE_EDGES: u32 = 1024;
const SLICE_WORDS: usize = 1 << 16;

struct Memory(Arc<Words>);

impl Backing for Memory {
    fn words(&self) -> &[AtomicU32] {
        self.0.as_slice()
    }
}

/// The batch that the next replacement fills, and the time of its edges.
struct Load {
    batch: Option<BulkBatch>,
    time_ms: u64,
}

/// Places in a graph store.
pub(super) struct GraphSegments {
    words: Arc<Words>,
    store: GraphStore,
    graph: Graph,
    edge_type: TypeId,
    readers: Mutex<Vec<GraphReader>>,
    load: Mutex<Load>,
    lists: usize,
}

fn failed(error: GraphError) -> String {
    format!("the graph store: {error}")
}

fn store_segment_bytes(segment_bytes: usize) -> usize {
    segment_bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES)
}

/// Returns the number of bytes of memory that a store with `segments` segments takes, those of writers included.
pub(super) fn memory_bytes(segment_bytes: usize, segments: usize) -> usize {
    segments * segment_bytes + EXTRA_SEGMENTS * store_segment_bytes(segment_bytes)
}

impl GraphSegments {
    /// Creates a store with `places` places in the memory of `places` and `spare` segments.
    ///
    /// # Errors
    /// If memory cannot be mapped, or the lists find no room.
    pub(super) fn make(segment_bytes: usize, places: usize, spare: usize) -> Result<Self, String> {
        let bytes = memory_bytes(segment_bytes, places + spare);
        let words = Arc::new(Words::anonymous(bytes, false).map_err(|error| format!("a segment: {error}"))?);
        words.as_slice().iter().step_by(arena::PAGE_BYTES / 4).for_each(|word| word.store(0, Relaxed));
        let config =
            GraphStoreConfig { segment_bytes: store_segment_bytes(segment_bytes), ..GraphStoreConfig::default() };
        let store = GraphStore::new(Memory(Arc::clone(&words)), &config).map_err(failed)?;
        let graph = store.create_graph("lab").map_err(failed)?;
        let schema = vec!["data".to_owned()];
        let declared = EdgeTypeConfig { direction: Direction::Directed, schema, ..EdgeTypeConfig::default() };
        let edge_type = graph.writer().declare_type("holds", &declared).map_err(failed)?;
        let lists = (segment_bytes / 4 * 3 / LIST_BYTES).max(1);
        let batch = Some(BulkBatch::new(edge_type, lists * LIST_EDGES));
        let load = Mutex::new(Load { batch, time_ms: 0 });
        let segments = Self { words, store, graph, edge_type, readers: Mutex::new(Vec::new()), load, lists };
        for place in 0..places {
            segments.replace(place, place as u64)?;
        }
        Ok(segments)
    }

    fn list(&self, place: usize, list: usize) -> u64 {
        (place * self.lists + list + 1) as u64
    }

    /// Reads the lists that contain the `bytes` bytes at `offset` of a place. Returns the sum of their first bytes.
    pub(super) fn read(&self, place: usize, offset: usize, bytes: usize) -> u64 {
        let spare = held(&self.readers).pop();
        let mut reader = match spare.map_or_else(|| self.store.reader(), Ok) {
            Ok(reader) => reader,
            Err(error) => unreachable!("the store has more readers than the lab has threads: {error}"),
        };
        let (first, last) = (offset / LIST_BYTES, (offset + bytes).div_ceil(LIST_BYTES));
        let sum = (first..last).map(|list| self.read_list(&mut reader, self.list(place, list % self.lists))).sum();
        held(&self.readers).push(reader);
        sum
    }

    fn read_list(&self, reader: &mut GraphReader, node: u64) -> u64 {
        let guard = reader.enter();
        let view = guard.view(&self.graph);
        let options = PageOptions { limit: LIST_EDGES, with_attributes: true, ..PageOptions::default() };
        let mut query = PageQuery::begin(&view, node, self.edge_type, Cursor::START, &options)
            .expect("the type and the node exist, and the cursor is of no query");
        while query.step(&view, u32::MAX) == QueryStep::More {}
        query.finish(&view).edges.iter().map(|edge| u64::from(edge.attributes[0])).sum()
    }

    /// Returns the percentage of the store's memory that is resident.
    pub(super) fn resident_percent(&self) -> f64 {
        let all = self.words.as_slice().len() as f64 * 4.0;
        self.words.resident_bytes().map_or(0.0, |bytes| bytes as f64 / all * 100.0)
    }

    /// Writes all lists of a place.
    ///
    /// # Errors
    /// If the store refuses the edges, or compaction finds no room for them.
    pub(super) fn replace(&self, place: usize, word: u64) -> Result<(), String> {
        let mut load = held(&self.load);
        load.time_ms += 1;
        let time_ms = load.time_ms;
        let mut batch = load.batch.take().unwrap_or_else(|| BulkBatch::new(self.edge_type, self.lists * LIST_EDGES));
        let data = [word as u8; ATTRIBUTE_BYTES];
        for list in 0..self.lists {
            for edge in 0..LIST_EDGES as u64 {
                batch.push(self.list(place, list), DESTINATIONS + edge, time_ms, &data).map_err(failed)?;
            }
        }
        let mut writer = self.graph.writer();
        BulkWriter::new(&mut writer).begin(batch).map_err(|(error, _)| failed(error))?;
        loop {
            match BulkWriter::new(&mut writer).step(SLICE_EDGES) {
                Ok(BulkStep::More) => {}
                Ok(BulkStep::Done) => break,
                Err(GraphError::NoSpace) => compact(&mut writer).map_err(failed)?,
                Err(error) => return Err(failed(error)),
            }
        }
        load.batch = BulkWriter::new(&mut writer).finish().map(|(_, batch)| batch);
        Ok(())
    }
}

/// Empties all segments of which at most three quarters are live, or else the emptiest one. They are free as soon as no
/// reader is in them.
fn compact(writer: &mut Writer<'_>) -> Result<(), GraphError> {
    writer.seal();
    let mut emptied = 0;
    for live_percent_max in [75, 100] {
        while emptied == 0 || live_percent_max < 100 {
            match writer.compact(live_percent_max, SLICE_WORDS)? {
                CompactionStep::More => {}
                CompactionStep::Emptied => emptied += 1,
                CompactionStep::Nothing => break,
            }
        }
    }
    if emptied == 0 { Err(GraphError::NoSpace) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_places_hold_the_latest_data_however_often_the_segments_turn_over() {
        let (segment_bytes, places) = (64 << 10, 24);
        let segments = GraphSegments::make(segment_bytes, places, 2).expect("there is room");
        let memory = memory_bytes(segment_bytes, places + 2);
        let mut written = 0;
        for round in 1..=20 {
            for place in 0..places {
                segments.replace(place, (round + place) as u64).expect("compaction finds room");
                written += segments.lists * LIST_EDGES * ATTRIBUTE_BYTES;
            }
        }
        assert!(written > 3 * memory, "all segments turn over: {written} bytes in {memory}");
        for place in 0..places {
            let lists = (0..4).map(|list| list * LIST_BYTES).map(|offset| segments.read(place, offset, LIST_BYTES));
            assert!(lists.eq([(20 + place as u64) * LIST_EDGES as u64; 4]), "place {place}");
        }
        let stats = segments.store.stats();
        assert_eq!(stats.segments, memory / store_segment_bytes(segment_bytes));
        assert_eq!(segments.resident_percent(), 100.0);
    }
}
