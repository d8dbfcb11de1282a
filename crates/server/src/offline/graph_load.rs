//! Loads edges into a file of graphs that no server uses, or into a new one.
//!
//! ```text
//!   text ── lines ──> batch ── bulk writer ──> segments in the file ── commits ──> disk
//!                                 └─ no room: commit, compact, continue
//!   text after it ── lines, by another thread ──> next batch
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
    /// A batch without edges, whose memory the next one uses.
    batch: Option<BulkBatch>,
    /// The batch of the next text, if it was read already.
    prepared: Option<FilledBatch>,
    committed: Instant,
}

/// Whole lines of a file of edges.
#[derive(Clone, Copy, Debug)]
pub struct LinesOfFile<'t> {
    /// The lines.
    pub text: &'t [u8],
    /// The number of lines before them.
    pub lines_before: u64,
}

/// The reader of a text, which several batches may continue.
struct TextReader {
    format: EdgeFormat,
    time_ms: u64,
    lines_before: u64,
    bytes: usize,
    edges: EdgeReader,
    /// The number of bytes that are read.
    at: usize,
    is_read: bool,
}

impl TextReader {
    fn new(format: EdgeFormat, text: LinesOfFile<'_>, time_ms: u64) -> Self {
        let (lines_before, bytes) = (text.lines_before, text.text.len());
        let edges = EdgeReader::resume(format, 0, lines_before);
        Self { format, time_ms, lines_before, bytes, edges, at: 0, is_read: false }
    }

    /// Returns true if this is the reader of a text.
    fn is_of(&self, format: EdgeFormat, text: LinesOfFile<'_>, time_ms: u64) -> bool {
        let own = (self.format, self.time_ms, self.lines_before, self.bytes);
        own == (format, time_ms, text.lines_before, text.text.len())
    }
}

/// A batch with the edges of a text, or of a part of it.
struct FilledBatch {
    batch: BulkBatch,
    /// The number of bytes that it reserves in the memory of the graphs.
    bytes: u64,
    reader: TextReader,
    loaded: LoadedText,
}

impl FilledBatch {
    /// Adds edges of the text until it ends, the batch is full, or the batch reserves `bytes_max` bytes.
    fn fill(&mut self, text: &[u8], schema: &[String], bytes_max: u64) {
        let (reader, mut attributes) = (&mut self.reader, Vec::new());
        let mut input = &text[reader.at..];
        while !reader.is_read && !self.batch.is_full() && (self.bytes < bytes_max || self.batch.len() < BATCH_EDGES_MIN)
        {
            let line = match reader.edges.next(&mut input) {
                Some(line) => line,
                None => {
                    reader.is_read = true;
                    match reader.edges.finish() {
                        Some(line) => line,
                        None => break,
                    }
                }
            };
            let read = match line {
                Ok(edge) => {
                    attributes.clear();
                    let encoded = encode_attributes(edge.attributes(), schema, &mut attributes);
                    let time_ms = edge.time_ms.unwrap_or(reader.time_ms);
                    encoded.and_then(|()| {
                        let pushed = self.batch.push(edge.source, edge.destination, time_ms, &attributes);
                        pushed.map_err(|error| error.to_string())
                    })
                }
                Err(error) => Err(error.cause.to_string()),
            };
            match read {
                Ok(()) => {
                    self.loaded.edges += 1;
                    self.bytes += EDGE_BYTES + attributes.len() as u64 * ATTRIBUTE_COPIES;
                }
                Err(cause) => self.loaded.refuse(|| format!("line {}: {cause}", reader.edges.line())),
            }
        }
        reader.at = text.len() - input.len();
    }
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
        Ok(Self { graph, edge_type, schema, batch: None, prepared: None, committed: Instant::now(), opened })
    }

    fn store(&self) -> &GraphStore {
        self.opened.graphs.store().expect("an open load has a store")
    }

    /// Loads a text of whole lines. `time_ms` is the time of edges whose lines have none. Another thread reads the
    /// edges of `next`, the text after it, meanwhile.
    ///
    /// # Errors
    /// A text with cause and remedy. Edges before the error may be loaded.
    pub fn load(
        &mut self,
        format: EdgeFormat,
        text: LinesOfFile<'_>,
        next: Option<LinesOfFile<'_>>,
        time_ms: u64,
    ) -> Result<LoadedText, String> {
        let prepared = self.prepared.take().filter(|filled| filled.reader.is_of(format, text, time_ms));
        let mut filled = match prepared {
            Some(filled) => filled,
            None => self.empty_batch(TextReader::new(format, text, time_ms)),
        };
        let mut loaded = LoadedText::default();
        loop {
            let bytes_max = self.batch_bytes_max();
            filled.fill(text.text, &self.schema, bytes_max);
            let FilledBatch { batch, reader, .. } = filled;
            loaded.add(filled.loaded);
            let next = next.filter(|_| reader.is_read);
            let mut prepared = next.map(|next| self.empty_batch(TextReader::new(format, next, time_ms)));
            let schema = self.schema.clone();
            let written = std::thread::scope(|scope| {
                if let Some((next, prepared)) = next.zip(prepared.as_mut()) {
                    scope.spawn(|| prepared.fill(next.text, &schema, bytes_max / 2));
                }
                self.write(batch, &mut loaded)
            });
            if let Some((prepared, spare)) = prepared.as_mut().zip(self.batch.as_mut()) {
                prepared.batch.swap_memory(spare);
            }
            self.prepared = prepared;
            written?;
            if reader.is_read {
                break;
            }
            filled = self.empty_batch(reader);
        }
        if self.committed.elapsed() >= COMMIT_PERIOD {
            self.commit()?;
        }
        Ok(loaded)
    }

    /// Returns a batch without edges for the text of a reader. It has the memory of an earlier batch if there is one.
    fn empty_batch(&mut self, reader: TextReader) -> FilledBatch {
        let batch = self.batch.take().unwrap_or_else(|| BulkBatch::new(self.edge_type, BATCH_EDGES_MAX));
        FilledBatch { batch, bytes: 0, reader, loaded: LoadedText::default() }
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
    /// Adds the counts and refusals of a batch.
    fn add(&mut self, other: Self) {
        self.edges += other.edges;
        self.refused += other.refused;
        self.refusals.extend(other.refusals);
        self.refusals.truncate(BULK_REFUSED_MAX);
    }

    fn refuse(&mut self, text: impl FnOnce() -> String) {
        self.refused += 1;
        if self.refusals.len() < BULK_REFUSED_MAX {
            self.refusals.push(text());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A file of graphs that is removed at the end of a test.
    struct TemporaryFile(PathBuf);

    impl Drop for TemporaryFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn open(file: &TemporaryFile) -> GraphFileLoad {
        let declared = EdgeTypeConfig { schema: vec!["note".to_owned()], ..EdgeTypeConfig::default() };
        let (graph, edge_type) = ("g", "knows");
        let target = GraphFileTarget { path: &file.0, memory_bytes: None, graph, edge_type, declared: Some(&declared) };
        GraphFileLoad::open(&target).expect("a new file")
    }

    /// Returns texts of `lines` lines each, of which the last lacks its line feed. Every 100th line is bad.
    fn texts(lines: u64) -> Vec<String> {
        let line = |number: u64| match number % 100 {
            99 => "7,7,1,none".to_owned(),
            _ => format!("{},{},5,note {number}", number % 500 + 1, number + 1000),
        };
        let text = |part: u64| (part * lines..(part + 1) * lines).map(line).collect::<Vec<_>>().join("\n");
        (0..3).map(text).collect()
    }

    #[test]
    fn texts_that_another_thread_reads_ahead_are_loaded_as_those_that_are_read_in_turn() {
        let texts = texts(1000);
        let lines = |part: usize| LinesOfFile { text: texts[part].as_bytes(), lines_before: part as u64 * 1000 };
        let mut reports = Vec::new();
        for is_ahead in [false, true] {
            let path = std::env::temp_dir().join(format!("gannet-read-ahead-{}-{is_ahead}", std::process::id()));
            let file = TemporaryFile(path);
            let mut load = open(&file);
            let mut report = Vec::new();
            for part in 0..3 {
                let next = (is_ahead && part < 2).then(|| lines(part + 1));
                let loaded = load.load(EdgeFormat::Csv, lines(part), next, 1).expect("room");
                assert_eq!(load.prepared.is_some(), next.is_some());
                report.push((loaded.edges, loaded.changed, loaded.refused, loaded.refusals));
            }
            let mut reader = load.store().reader().expect("the only one");
            let hash = reader.enter().view(&load.graph).state_hash(load.edge_type).expect("declared");
            drop(reader);
            load.close().expect("the disk works");
            assert!(report.iter().all(|(edges, changed, refused, _)| (*edges, *changed, *refused) == (990, 990, 10)));
            assert_eq!(report[2].3[0].split(':').next(), Some("line 2100"));
            reports.push((report, hash));
        }
        assert_eq!(reports[0], reports[1]);
    }

    #[test]
    fn text_that_was_read_ahead_and_is_not_the_next_one_is_not_loaded() {
        let texts = texts(100);
        let lines = |part: usize| LinesOfFile { text: texts[part].as_bytes(), lines_before: part as u64 * 100 };
        let file = TemporaryFile(std::env::temp_dir().join(format!("gannet-read-other-{}", std::process::id())));
        let mut load = open(&file);
        let loaded = load.load(EdgeFormat::Csv, lines(0), Some(lines(1)), 1).expect("room");
        assert_eq!((loaded.changed, load.prepared.is_some()), (99, true));
        let loaded = load.load(EdgeFormat::Csv, lines(2), None, 1).expect("room");
        assert_eq!((loaded.changed, load.prepared.is_some()), (99, false));
        let mut reader = load.store().reader().expect("the only one");
        let guard = reader.enter();
        let view = guard.view(&load.graph);
        let has = |number: u64| view.has_edge(number % 500 + 1, load.edge_type, number + 1000);
        assert_eq!((has(50), has(150), has(250)), (Ok(true), Ok(false), Ok(true)));
    }
}
