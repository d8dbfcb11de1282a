//! Reads a file of graphs that no server uses, through private maps: the file stays unchanged.
//!
//! ```text
//!   file ── private map ──> check of every record ──> opened as at a start, repaired in the map ──> lists, edges
//! ```
//!
//! Invariants:
//! - The reported edges are those that a server would serve if it opened the file now.
//! - A file of another boot is read too: as of its last commit, or if it has none, as it is, although a server discards
//!   its contents.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arena::{MapFile, Words};
use command::resp::graph::{attributes_of, texts_of};
use graph::limits::SEGMENT_BYTES;
use graph::{
    Direction, EdgeState, Graph, GraphError, GraphStore, GraphStoreConfig, ListOrder, ListedEdge, MemoryCheck,
    NodeObject, RestartReport, TypeId, Watermark, check_memory,
};
use serde_json::{Map, Value as Json, json};

use super::json::bytes;
use crate::start::graph_log::{SYNCED_WORD, last_commit};
use crate::start::graphs::{
    GRAPH_BYTES_MAX, GRAPH_BYTES_MIN, GraphHeader, GraphMemory, HEADER_BYTES, TRUNCATED, graph_hash_seed,
};

/// The version of the dump's format.
const VERSION: u32 = 1;

/// The boot that wrote a file of graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileBoot {
    /// This one: a server opens all graphs.
    Current,
    /// An earlier one: a server opens the graphs as of the commit with this number.
    Committed(u64),
    /// An earlier one, without commits: a server discards the graphs.
    Discarded,
}

/// A file of graphs that is being read.
#[derive(Debug)]
pub struct GraphFile {
    /// The store that a server would open.
    pub store: GraphStore,
    /// The records in the file, before the restart wrote any.
    pub memory: MemoryCheck,
    /// The report of the restart.
    pub restart: RestartReport,
    /// The length of the file, in bytes.
    pub bytes: u64,
    /// The length that the header states, if the file is shorter. The edges at its end are lost.
    pub stated_bytes: Option<u64>,
    /// The boot that wrote the file, and what a server does with the graphs.
    pub boot: FileBoot,
}

/// Returns true if a file begins as a file of graphs does. Returns false if it cannot be read.
#[must_use]
pub fn is_graph_file(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file && std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"GGRF"
}

impl GraphFile {
    /// Opens a file. Fails if another process has it open.
    ///
    /// # Errors
    /// A text with cause and remedy.
    pub fn open(path: &Path) -> Result<Self, String> {
        let file = MapFile::view(path).map_err(|error| match error {
            arena::OpenError::Locked => "another process has the file open; stop the server that uses it".to_owned(),
            error => format!("{error}; check the path and its permissions"),
        })?;
        let (file, unread) = (Arc::new(file), |error: std::io::Error| format!("it cannot be mapped: {error}"));
        let bytes = file.bytes().map_err(unread)?;
        if bytes < HEADER_BYTES as u64 {
            return Err(TRUNCATED.to_owned());
        }
        let header = Words::of_file(&file, HEADER_BYTES, false).map_err(unread)?;
        let (stated, boot) = match GraphHeader::read(header.as_slice())? {
            GraphHeader::Written { bytes, boot } => (bytes, boot),
            GraphHeader::Zero => (0, 0),
        };
        let map = || Words::of_file(&file, bytes as usize, false).map_err(unread);
        let commit = last_commit(header.as_slice()).filter(|_| header.as_slice()[SYNCED_WORD].load(Relaxed) != 0);
        let (boot, watermarks) = match commit {
            _ if Some(boot) == arena::boot_id() => (FileBoot::Current, None),
            Some((number, watermarks)) => (FileBoot::Committed(number), Some(watermarks)),
            None => (FileBoot::Discarded, None),
        };
        let mut memory = check_memory(&map()?.as_slice()[HEADER_BYTES / 4..], SEGMENT_BYTES);
        if watermarks.is_some() {
            // Records that a power loss tore are above the watermarks.
            (memory.faults, memory.faults_count) = (Vec::new(), 0);
        }
        let (store, restart) = open_store(bytes, &map, watermarks.as_deref())?;
        let stated_bytes = (stated > bytes || bytes < GRAPH_BYTES_MIN).then_some(stated.max(GRAPH_BYTES_MIN));
        Ok(Self { store, memory, restart, bytes, stated_bytes, boot })
    }

    /// Calls `f` with each edge of a type in every state. Stops if `f` fails.
    ///
    /// # Errors
    /// The error of `f`.
    pub fn each_edge<E>(
        &self,
        graph: &Graph,
        ty: TypeId,
        f: &mut dyn FnMut(&ListedEdge) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut reader = self.store.reader().expect("a store of this module has one reader at a time");
        let guard = reader.enter();
        let mut result = Ok(());
        let found = guard.view(graph).each_edge(ty, &mut |edge| {
            result = f(edge);
            result.is_ok()
        });
        assert!(found.is_ok(), "the type is of this graph");
        result
    }

    /// Writes all graphs as lines of JSON, in the format of `docs/format/dump.md`.
    ///
    /// # Errors
    /// The error of `write`.
    pub fn dump<E>(&self, write: &mut dyn FnMut(&str) -> Result<(), E>) -> Result<DumpCounts, E> {
        let mut counts = DumpCounts::default();
        write(&json!({ "gannet_graph_dump": VERSION }).to_string())?;
        for graph in self.store.graphs() {
            for (name, ty) in types_of(&graph) {
                write(&type_line(&graph, &name, ty).to_string())?;
            }
            for (name, ty) in types_of(&graph) {
                let config = graph.type_config(ty).expect("declared");
                if matches!(config.direction, Direction::InverseOf(_)) {
                    continue;
                }
                self.each_edge(&graph, ty, &mut |edge| {
                    let line = edge_line(graph.name(), &name, &config.schema, edge);
                    let is_removed = edge.edge.state == EdgeState::Removed;
                    counts.edges += u64::from(!is_removed);
                    counts.removed += u64::from(is_removed);
                    write(&line.to_string())
                })?;
            }
            let mut reader = self.store.reader().expect("a store of this module has one reader at a time");
            let (guard, mut result) = (reader.enter(), Ok(()));
            guard.view(&graph).each_marked_node(&mut |node, object, is_archived| {
                counts.objects += u64::from(object.is_some());
                result = write(&node_line(graph.name(), node, object, is_archived).to_string());
                result.is_ok()
            });
            result?;
        }
        Ok(counts)
    }
}

/// The numbers of dumped values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpCounts {
    /// Edges that are not removed.
    pub edges: u64,
    /// Removed edges, whose times the store retains.
    pub removed: u64,
    /// Objects of nodes.
    pub objects: u64,
}

/// Returns the types of a graph with their names.
pub fn types_of(graph: &Graph) -> impl Iterator<Item = (String, TypeId)> {
    graph.edge_types().into_iter().map(|name| {
        let ty = graph.edge_type(&name).expect("a listed type is declared");
        (name, ty)
    })
}

/// Opens a store in a private map of a file of `bytes` bytes. If the file is too short for a store, or lists that a
/// restart writes again have no room, the store is opened in a larger copy.
fn open_store(
    bytes: u64,
    map: &dyn Fn() -> Result<Words, String>,
    watermarks: Option<&[Watermark]>,
) -> Result<(GraphStore, RestartReport), String> {
    let config = GraphStoreConfig { readers_max: 2, hash_seed: graph_hash_seed(), ..GraphStoreConfig::default() };
    let larger_copy = |bytes: usize| -> Result<Words, String> {
        let no_memory = |error| format!("there is no memory for a copy of it: {error}; free {bytes} bytes");
        let (from, to) = (map()?, Words::anonymous(bytes, false).map_err(no_memory)?);
        (from.as_slice().iter().zip(to.as_slice())).for_each(|(from, to)| to.store(from.load(Relaxed), Relaxed));
        Ok(to)
    };
    let least = GRAPH_BYTES_MIN as usize + HEADER_BYTES;
    let mut words = if (bytes as usize) < least { larger_copy(least)? } else { map()? };
    loop {
        let bytes = words.as_slice().len() * 4;
        let opened = match watermarks {
            Some(watermarks) => GraphStore::open_committed(GraphMemory(words), &config, watermarks),
            None => GraphStore::open(GraphMemory(words), &config),
        };
        match opened {
            Ok(opened) => return Ok(opened),
            Err(GraphError::NoSpace) if (bytes as u64) < GRAPH_BYTES_MAX => {
                words = larger_copy(bytes + (bytes / 4).next_multiple_of(SEGMENT_BYTES))?;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Encodes the declaration of a type.
fn type_line(graph: &Graph, name: &str, ty: TypeId) -> Json {
    let config = graph.type_config(ty).expect("a listed type is declared");
    let mut fields = Map::new();
    fields.insert("graph".to_owned(), json!(graph.name()));
    fields.insert("declares".to_owned(), json!(name));
    match &config.direction {
        Direction::Directed => {}
        Direction::Undirected => drop(fields.insert("undirected".to_owned(), json!(true))),
        Direction::InverseOf(other) => drop(fields.insert("inverse_of".to_owned(), json!(other))),
    }
    if config.order == ListOrder::Time {
        fields.insert("sort".to_owned(), json!("time"));
    }
    if config.cap > 0 {
        fields.insert("cap".to_owned(), json!(config.cap));
    }
    if !config.schema.is_empty() {
        fields.insert("schema".to_owned(), json!(config.schema));
    }
    Json::Object(fields)
}

/// Encodes an edge.
fn edge_line(graph: &str, ty: &str, schema: &[String], edge: &ListedEdge) -> Json {
    let mut fields = Map::new();
    fields.insert("graph".to_owned(), json!(graph));
    fields.insert("type".to_owned(), json!(ty));
    fields.insert("source".to_owned(), json!(edge.source));
    fields.insert("destination".to_owned(), json!(edge.destination));
    fields.insert("time_ms".to_owned(), json!(edge.edge.time_ms));
    if edge.edge.state != EdgeState::Live {
        fields.insert("state".to_owned(), json!(state_name(edge.edge.state)));
    }
    if edge.is_hidden {
        fields.insert("hidden".to_owned(), json!(true));
    }
    let attributes = attributes_of(&edge.edge.attributes);
    let named = attributes.filter_map(|(number, value)| Some(json!([schema.get(number)?, bytes(value)])));
    let named: Vec<Json> = named.collect();
    if !named.is_empty() {
        fields.insert("attributes".to_owned(), Json::Array(named));
    }
    Json::Object(fields)
}

/// Encodes the object of a node and its mark.
fn node_line(graph: &str, node: u64, object: Option<NodeObject>, is_archived: bool) -> Json {
    let mut fields = Map::new();
    fields.insert("graph".to_owned(), json!(graph));
    fields.insert("node".to_owned(), json!(node));
    if is_archived {
        fields.insert("state".to_owned(), json!(state_name(EdgeState::Archived)));
    }
    if let Some(object) = object {
        let texts: Vec<Json> = texts_of(&object.bytes).map(bytes).collect();
        let (ty, bins) = texts.split_first().map_or((Json::Null, &[][..]), |(ty, bins)| (ty.clone(), bins));
        fields.insert("time_ms".to_owned(), json!(object.time_ms));
        fields.insert("type".to_owned(), ty);
        fields.insert("bins".to_owned(), bins.chunks(2).map(|bin| json!(bin)).collect());
    }
    Json::Object(fields)
}

/// Returns the name of a state, as the commands have it.
#[must_use]
pub fn state_name(state: EdgeState) -> &'static str {
    match state {
        EdgeState::Live => "live",
        EdgeState::Negative => "negative",
        EdgeState::Archived => "archived",
        EdgeState::Removed => "removed",
    }
}

/// Encodes a live edge as a line that the bulk reader reads. Returns `None` if an attribute contains a line feed, which
/// such a line cannot have.
#[must_use]
pub fn csv_line(edge: &ListedEdge, schema: &[String]) -> Option<Vec<u8>> {
    let mut line = format!("{},{},{}", edge.source, edge.destination, edge.edge.time_ms).into_bytes();
    let mut values: Vec<Option<&[u8]>> = vec![None; schema.len()];
    for (number, value) in attributes_of(&edge.edge.attributes) {
        *values.get_mut(number)? = Some(value);
    }
    let present = values.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    for value in &values[..present] {
        line.push(b',');
        match value {
            None => {}
            Some(value) if value.contains(&b'\n') => return None,
            // An empty field is an absent attribute.
            Some(b"") => line.extend(b"\"\""),
            Some(value) => put_field(&mut line, value),
        }
    }
    Some(line)
}

/// Appends a field of CSV, in quotes if necessary.
pub fn put_field(line: &mut Vec<u8>, value: &[u8]) {
    if !value.iter().any(|byte| b",\"\r".contains(byte)) {
        line.extend(value);
        return;
    }
    line.push(b'"');
    for byte in value {
        line.push(*byte);
        if *byte == b'"' {
            line.push(b'"');
        }
    }
    line.push(b'"');
}
