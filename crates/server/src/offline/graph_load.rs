//! Loads edges into a file of graphs that no server uses, or into a new one.
//!
//! ```text
//!   text ── lines ──> batch ── bulk writer ──> segments in the file ── commits ──> disk
//!                                 └─ no room: commit, compact, continue
//! ```
//!
//! Invariants: the file is locked, so no server opens it meanwhile. A batch that is loaded survives `kill -9`, and a
//! power loss from the next commit on. A batch that is loaded again has no effect.

use std::path::Path;
use std::time::{Duration, Instant};

use base::units::TimeSpan;
use command::keyspace::graph_commits::GraphSync;
use command::resp::graph::encode_attributes;
use graph::limits::BULK_REFUSED_MAX;
use graph::{
    BulkBatch, BulkStep, BulkWriter, CompactionStep, EdgeFormat, EdgeReader, EdgeTypeConfig, Graph, GraphError,
    GraphStore, TypeId, Writer,
};

use crate::start::ServerConfig;
use crate::start::graphs::{self, GRAPH_BYTES_MIN, OpenGraphs};

/// The memory of a new file, in bytes: the default of `graph.memory`.
const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;
/// The maximum number of edges of a batch. Each batch rewrites most lists of a large graph, so a text of the default
/// length is one batch if the memory has room for it.
const BATCH_EDGES_MAX: usize = 1 << 22;
/// The number of edges of a batch even if there is little room.
const BATCH_EDGES_MIN: usize = 1 << 16;
/// More bytes than the load of an edge without attributes reserves: its record, an entry and a new leaf in two lists.
const EDGE_BYTES: u64 = 256;
/// More segments than the engine leaves free for compaction and removals.
const SEGMENTS_BESIDE: usize = 8;
/// The number of copies of attributes that a load reserves: in the record and in two lists, rounded up to words.
const ATTRIBUTE_COPIES: u64 = 4;
/// The edges of a step of the writer.
const STEP_EDGES: u32 = 1 << 16;
/// The time between two commits.
const COMMIT_PERIOD: Duration = Duration::from_secs(1);
/// The number of segments that are compacted when there is no room, and the words of a step.
const COMPACTED_SEGMENTS: usize = 8;
const COMPACTION_WORDS: usize = 1 << 20;
/// The maximum share of live words of a segment that is compacted, in percent.
const LIVE_MAX: u32 = 75;

/// The place of the edges.
#[derive(Clone, Debug)]
pub struct GraphFileTarget<'a> {
    /// The file. It is created if it does not exist.
    pub path: &'a Path,
    /// The size of the memory for graphs in bytes. A file that is larger stays so. `None`: that of the file.
    pub memory_bytes: Option<u64>,
    /// The graph's name. The graph is created if it does not exist.
    pub graph: &'a str,
    /// The name of the edge type.
    pub edge_type: &'a str,
    /// The properties of the edge type, if it is to be declared. A type that exists must have the same.
    pub declared: Option<&'a EdgeTypeConfig>,
}

/// The counts of a text, and its first refusals.
#[derive(Debug, Default)]
pub struct LoadedText {
    /// Edges that were read.
    pub edges: u64,
    /// Edges that changed.
    pub changed: u64,
    /// Refused lines and edges.
    pub refused: u64,
    /// The first refusals.
    pub refusals: Vec<String>,
}

/// A file of graphs that is being loaded.
pub struct GraphFileLoad {
    opened: OpenGraphs,
    graph: Graph,
    edge_type: TypeId,
    schema: Vec<String>,
    batch: Option<BulkBatch>,
    committed: Instant,
}

impl GraphFileLoad {
    /// Opens or creates a file, its graph and its edge type.
    ///
    /// # Errors
    /// A text with cause and remedy, also if a server uses the file.
    pub fn open(target: &GraphFileTarget<'_>) -> Result<Self, String> {
        let is_new = std::fs::metadata(target.path).map_or(true, |found| found.len() == 0);
        let default_bytes = if is_new { MEMORY_BYTES_DEFAULT } else { GRAPH_BYTES_MIN };
        let config = ServerConfig {
            graph_file: Some(target.path.to_owned()),
            graph_memory_bytes: target.memory_bytes.unwrap_or(default_bytes),
            // The load commits by itself.
            graph_sync: GraphSync::Every(TimeSpan(u64::MAX)),
            workers: 1,
            huge_pages: false,
            ..ServerConfig::default()
        };
        let opened = graphs::open(&config, None).map_err(|error| error.to_string())?;
        let store = opened.graphs.store().ok_or("there is no memory for graphs; pass --graph-memory")?;
        let text = |error: GraphError| error.to_string();
        let graph = match (store.graph(target.graph), target.declared) {
            (Some(graph), _) => graph,
            (None, Some(declared)) => {
                declared.check(target.edge_type).map_err(text)?;
                store.create_graph(target.graph).map_err(text)?
            }
            (None, None) => {
                let name = target.graph;
                return Err(format!("it has no graph '{name}'; pass --declare, which creates graph and edge type"));
            }
        };
        if let Some(declared) = target.declared {
            graph.writer().declare_type(target.edge_type, declared).map_err(text)?;
        }
        let edge_type = graph
            .edge_type(target.edge_type)
            .map_err(|_| format!("the graph has no edge type '{}'; pass --declare to add it", target.edge_type))?;
        let schema = graph.schema(edge_type).map_err(text)?.to_vec();
        Ok(Self { graph, edge_type, schema, batch: None, committed: Instant::now(), opened })
    }

    fn store(&self) -> &GraphStore {
        self.opened.graphs.store().expect("an open load has a store")
    }

    /// Loads a text of whole lines. `lines_before` is the number of lines before it, and `time_ms` the time of edges
    /// whose lines have none.
    ///
    /// # Errors
    /// A text with cause and remedy. Edges before the error may be loaded.
    pub fn load(
        &mut self,
        format: EdgeFormat,
        text: &[u8],
        lines_before: u64,
        time_ms: u64,
    ) -> Result<LoadedText, String> {
        let (mut reader, mut input) = (EdgeReader::resume(format, 0, lines_before), text);
        let (mut loaded, mut attributes, mut is_read) = (LoadedText::default(), Vec::new(), false);
        while !is_read {
            let mut batch = self.batch.take().unwrap_or_else(|| BulkBatch::new(self.edge_type, BATCH_EDGES_MAX));
            let (bytes_max, mut bytes) = (self.batch_bytes_max(), 0);
            while !is_read && !batch.is_full() && (bytes < bytes_max || batch.len() < BATCH_EDGES_MIN) {
                let line = match reader.next(&mut input) {
                    Some(line) => line,
                    None => {
                        is_read = true;
                        match reader.finish() {
                            Some(line) => line,
                            None => break,
                        }
                    }
                };
                let read = match line {
                    Ok(edge) => {
                        attributes.clear();
                        let encoded = encode_attributes(edge.attributes(), &self.schema, &mut attributes);
                        let time_ms = edge.time_ms.unwrap_or(time_ms);
                        encoded.and_then(|()| {
                            let pushed = batch.push(edge.source, edge.destination, time_ms, &attributes);
                            pushed.map_err(|error| error.to_string())
                        })
                    }
                    Err(error) => Err(error.cause.to_string()),
                };
                match read {
                    Ok(()) => {
                        loaded.edges += 1;
                        bytes += EDGE_BYTES + attributes.len() as u64 * ATTRIBUTE_COPIES;
                    }
                    Err(cause) => loaded.refuse(|| format!("line {}: {cause}", reader.line())),
                }
            }
            self.write(batch, &mut loaded)?;
        }
        if self.committed.elapsed() >= COMMIT_PERIOD {
            self.commit()?;
        }
        Ok(loaded)
    }

    /// Returns the number of bytes that a batch may reserve: half of those that would be free after a compaction. A
    /// batch that reserves more than there is would be refused, although its edges may fit.
    fn batch_bytes_max(&self) -> u64 {
        let stats = self.store().stats();
        let usable = stats.segments.saturating_sub(SEGMENTS_BESIDE) * stats.segment_bytes;
        (usable.saturating_sub(stats.live_bytes) / 2) as u64
    }

    /// Loads a batch, which may be empty.
    fn write(&mut self, batch: BulkBatch, loaded: &mut LoadedText) -> Result<(), String> {
        if batch.is_empty() {
            self.batch = Some(batch);
            return Ok(());
        }
        let graph = self.graph.clone();
        BulkWriter::new(&mut graph.writer()).begin(batch).map_err(|(error, _)| error.to_string())?;
        // The segments that were opened until the last time that there was no room.
        let mut opened_before = None;
        loop {
            let mut writer = graph.writer();
            match steps(&mut writer) {
                Ok(()) => break,
                Err(GraphError::NoSpace) => {
                    drop(writer);
                    let is_stuck = opened_before == Some(self.store().stats().segments_opened);
                    if !self.make_room()? && is_stuck {
                        return Err("the memory for graphs is full; pass a larger --graph-memory".to_owned());
                    }
                    opened_before = Some(self.store().stats().segments_opened);
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        let complete = BulkWriter::new(&mut graph.writer()).finish();
        if let Some((report, mut batch)) = complete {
            loaded.changed += report.edges_changed;
            loaded.refused += report.edges_refused;
            for edge in report.refused {
                let text = format!("edge {} to {}: {}", edge.source, edge.destination, edge.error);
                if loaded.refusals.len() < BULK_REFUSED_MAX {
                    loaded.refusals.push(text);
                }
            }
            batch.clear();
            self.batch = Some(batch);
        }
        Ok(())
    }

    /// Compacts some segments. Returns false if that frees none.
    fn make_room(&mut self) -> Result<bool, String> {
        // Segments that became empty are free after a commit.
        let empty = |load: &Self| {
            let stats = load.store().stats();
            stats.segments_free + stats.segments_retired
        };
        let before = empty(self);
        let mut emptied = 0;
        while emptied < COMPACTED_SEGMENTS {
            let step = self.graph.writer().compact(LIVE_MAX, COMPACTION_WORDS);
            match step.map_err(|error| error.to_string())? {
                CompactionStep::More => {}
                CompactionStep::Emptied => emptied += 1,
                CompactionStep::Nothing => break,
            }
        }
        self.commit()?;
        Ok(empty(self) > before)
    }

    fn commit(&mut self) -> Result<(), String> {
        self.committed = Instant::now();
        let (graphs, log) = (&self.opened.graphs, &mut self.opened.commits);
        let (Some(store), Some(log)) = (graphs.store(), log) else { return Ok(()) };
        log.commit(store).map_err(|error| {
            log.record_failure();
            format!("the disk refused a commit: {error}; check the disk and its free space")
        })
    }

    /// Commits all edges and closes the file.
    ///
    /// # Errors
    /// If the disk refuses the commit.
    pub fn close(mut self) -> Result<(), String> {
        self.commit()
    }
}

/// Writes the batch that the writer has begun.
fn steps(writer: &mut Writer<'_>) -> Result<(), GraphError> {
    let mut bulk = BulkWriter::new(writer);
    while bulk.step(STEP_EDGES)? == BulkStep::More {}
    Ok(())
}

impl LoadedText {
    fn refuse(&mut self, text: impl FnOnce() -> String) {
        self.refused += 1;
        if self.refusals.len() < BULK_REFUSED_MAX {
            self.refusals.push(text());
        }
    }
}
