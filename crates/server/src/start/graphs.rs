//! The memory of the graph store: anonymous, or a file that a later process opens.
//!
//! ```text
//!   byte 0   magic, version      8  bytes of the file, or 0 if unknown      16  identity of the boot, 16 bytes
//!   32       commits: see `graph_log`
//!   4096     segments
//! ```
//!
//! After a power loss, pages of a file on a disk may have any age. The contents of a file that was written in another
//! boot are therefore those of the last commit, or discarded if there were no commits.

use super::config::{ServerConfig, StartError};
use super::graph_log::{CommitLog, SYNCED_WORD, last_commit};
use arena::{MapFile, Medium, Words};
use base::units::ByteSize;
use command::keyspace::graph_commits::GraphSync;
use command::keyspace::graphs::Graphs;
use graph::limits::SEGMENT_BYTES;
use graph::{AtomicU32, Backing, GraphError, GraphStore, GraphStoreConfig, RestartReport, Watermark};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// The minimum size of a graph store: the pool's minimum of segments.
pub const GRAPH_BYTES_MIN: u64 = 9 * SEGMENT_BYTES as u64;
/// The maximum size of a graph store: a position in it has 32 bits and counts units of 8 bytes.
pub const GRAPH_BYTES_MAX: u64 = 32 << 30;

/// The bytes of the header.
pub(crate) const HEADER_BYTES: usize = 4096;
const MAGIC: u32 = u32::from_le_bytes(*b"GGRF");
const VERSION: u32 = 3;
/// The word at which the length of the file begins, in bytes.
const BYTES_WORD: usize = 2;
/// The word at which the identity of the boot begins.
const BOOT_WORD: usize = 4;

/// The contents of a file.
#[derive(Debug, PartialEq, Eq)]
enum Contents {
    /// Nothing, or what this boot wrote.
    Current,
    /// Those of another boot, as of the commit with these watermarks.
    Committed(Vec<Watermark>),
}

/// The graph store of a server.
#[derive(Default)]
pub(crate) struct OpenGraphs {
    pub(crate) graphs: Graphs,
    /// The file with its memory.
    pub(crate) file: Option<Arc<MapFile>>,
    /// Its commits, if it is committed to a disk.
    pub(crate) commits: Option<CommitLog>,
}

/// The memory of the store, behind the header.
pub(crate) struct GraphMemory(pub(crate) Words);

impl Backing for GraphMemory {
    fn words(&self) -> &[AtomicU32] {
        &self.0.as_slice()[HEADER_BYTES / 4..]
    }
}

/// Opens the graph store of a server, in the memory that another server handed over if there is any.
///
/// # Errors
/// If the file cannot be opened, has another size or version, or cannot be committed.
pub(crate) fn open(config: &ServerConfig, left: Option<Arc<MapFile>>) -> Result<OpenGraphs, StartError> {
    if config.graph_memory_bytes == 0 && left.is_none() {
        return Ok(OpenGraphs::default());
    }
    let is_handed_over = left.is_some();
    let file = file_of(config, left)?;
    let fault = |what: String| {
        let path = config.graph_file.clone().unwrap_or_else(|| Path::new("shared memory").to_owned());
        StartError::Graphs { path, what }
    };
    let wanted = config.graph_memory_bytes as usize + HEADER_BYTES;
    let mut bytes = wanted;
    if let Some(file) = &file {
        let found = file.bytes()? as usize;
        if found != 0 && !is_handed_over {
            check_contents(file, found).map_err(&fault)?;
        }
        bytes = found.max(wanted);
        if found > wanted && !is_handed_over {
            let size = ByteSize((found - HEADER_BYTES) as u64);
            tracing::warn!("the graphs in {} stay {size}: a file is not shortened", file.path().display());
        }
        if is_handed_over && found != 0 {
            bytes = found;
        } else if found < wanted {
            file.set_bytes(bytes as u64)?;
        }
        if config.graph_file.is_some() {
            file.allocate(0, bytes as u64)?;
        }
    }
    let (store, report, bytes) = loop {
        let words = match &file {
            Some(file) => Words::of_file(file, bytes, config.huge_pages)?,
            None => Words::anonymous(bytes, config.huge_pages)?,
        };
        // Anonymous memory needs no header, whose page would stay resident in a server without graphs.
        let contents = match &file {
            Some(file) => check_header(&words, file).map_err(&fault)?,
            None => Contents::Current,
        };
        let store = store_config(config, file.is_some(), bytes - HEADER_BYTES);
        let opened = match &contents {
            Contents::Current => GraphStore::open(GraphMemory(words), &store),
            Contents::Committed(watermarks) => GraphStore::open_committed(GraphMemory(words), &store, watermarks),
        };
        match (opened, &file) {
            (Ok((store, report)), _) => break (store, report, bytes),
            (Err(GraphError::NoSpace), Some(file)) if (bytes as u64) < GRAPH_BYTES_MAX => {
                bytes += (bytes / 4).next_multiple_of(SEGMENT_BYTES);
                enlarge(file, bytes)?;
            }
            (Err(error), _) => return Err(fault(error.to_string())),
        }
    };
    log_restart(&report, file.as_deref());
    let commits = match &file {
        Some(file) => own_file(file, config.graph_sync, &store)?,
        None => None,
    };
    let kept = (config.graph_file.is_some(), config.graph_sync);
    let graphs = Graphs::new(store, (bytes - HEADER_BYTES) as u64, kept, config.workers);
    Ok(OpenGraphs { graphs, file, commits })
}

/// Returns the configuration of the store. Its index may take as many bytes as its pool, which has `bytes`. Until the
/// start has read and written the state of the commits, the store assumes that commits protect a file.
fn store_config(config: &ServerConfig, is_file: bool, bytes: usize) -> GraphStoreConfig {
    GraphStoreConfig {
        readers_max: config.workers + 2,
        needs_commits: is_file,
        hash_seed: graph_hash_seed(),
        index_bytes_max: bytes,
        ..GraphStoreConfig::default()
    }
}

/// Draws the secret of the map of identifiers, which is rebuilt at each start.
pub(crate) fn graph_hash_seed() -> u64 {
    RandomState::new().hash_one(0)
}

/// Returns the file of the store's memory, if it is in one.
fn file_of(config: &ServerConfig, left: Option<Arc<MapFile>>) -> Result<Option<Arc<MapFile>>, StartError> {
    Ok(match (left, &config.graph_file) {
        (Some(file), _) => Some(file),
        (None, Some(path)) => {
            let refused = |error| StartError::Graphs { path: path.clone(), what: format!("{error}; see --graph-file") };
            Some(Arc::new(MapFile::open(path).map_err(refused)?))
        }
        (None, None) if config.file.is_some() || config.upgradable => Some(Arc::new(MapFile::in_memory()?)),
        (None, None) => None,
    })
}

/// Marks a file as one that this boot writes, with commits or without them.
fn own_file(file: &Arc<MapFile>, sync: GraphSync, store: &GraphStore) -> std::io::Result<Option<CommitLog>> {
    let header = Words::of_file(file, HEADER_BYTES, false)?;
    let words = header.as_slice();
    if sync == GraphSync::Never && words[SYNCED_WORD].load(Relaxed) != 0 {
        // From now on no commit protects the contents. A kill in between finds them whole, in this boot.
        write_header(words, file.bytes()?);
        words[SYNCED_WORD].store(0, Relaxed);
        file.sync_data()?;
    }
    let commits = match sync {
        GraphSync::Never => {
            store.waive_commits();
            None
        }
        GraphSync::Always | GraphSync::Every(_) => Some(CommitLog::open(file, HEADER_BYTES, store)?),
    };
    if sync != GraphSync::Never && file.medium() != Medium::Disk {
        let path = file.path().display();
        tracing::warn!("{path} is in memory, where graph.sync protects from no power loss; move it to a disk");
    }
    // Contents of another boot are those of a commit until here, in case the restart is interrupted.
    write_header(words, file.bytes()?);
    Ok(commits)
}

fn log_restart(report: &RestartReport, file: Option<&MapFile>) {
    if report.graphs > 0 {
        let (graphs, nodes, lists, edges) = (report.graphs, report.nodes, report.lists, report.edges_replayed);
        tracing::info!("opened {graphs} graphs with {nodes} nodes: {lists} lists in place, {edges} edges replayed");
    }
    let lost = report.nodes_lost + report.types_lost + report.graphs_lost;
    if report.damaged_places > 0 || report.records_orphaned > 0 || lost > 0 {
        let RestartReport { damaged_places: places, damaged_bytes: bytes, records_orphaned: orphaned, .. } = *report;
        tracing::warn!(
            "the graphs in {} are damaged: {bytes} bytes of records in {places} places are lost, {orphaned} records \
             belong to none, and {lost} graphs, nodes or edge types have no record of their own; edges of these \
             records are missing or have an earlier state; all others are in use; restore a copy of the file if you \
             have one",
            file.map_or(Path::new("memory"), MapFile::path).display()
        );
    }
}

/// The header of a file with graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphHeader {
    /// The header page has zeros only. A server that was killed before it wrote the header leaves such a file.
    Zero,
    /// A server wrote it: the length of the file in bytes, or 0 if it is unknown, and the identity of the boot.
    Written { bytes: u64, boot: u128 },
}

impl GraphHeader {
    /// Reads the header of `words`, which are the first page of a file or more.
    ///
    /// # Errors
    /// A text with cause and remedy if the file is no graph store or has another version.
    pub(crate) fn read(words: &[AtomicU32]) -> Result<Self, String> {
        let word = |at: usize| words[at].load(Relaxed);
        match (word(0), word(1)) {
            (MAGIC, VERSION) => {
                let bytes = u64::from(word(BYTES_WORD)) | u64::from(word(BYTES_WORD + 1)) << 32;
                let boot = (0..4).fold(0, |boot, at| boot | u128::from(word(BOOT_WORD + at)) << (32 * at));
                Ok(Self::Written { bytes, boot })
            }
            (MAGIC, version) => Err(format!(
                "it has version {version}, but this build reads version {VERSION}; use the release that wrote it"
            )),
            _ if words[..HEADER_BYTES / 4].iter().all(|word| word.load(Relaxed) == 0) => Ok(Self::Zero),
            _ => Err("it is no graph store; use another file".to_owned()),
        }
    }
}

/// Returns an error unless a file of `bytes` bytes is a complete graph store, or has zeros only.
fn check_contents(file: &Arc<MapFile>, bytes: usize) -> Result<(), String> {
    let map =
        |bytes: usize| Words::of_file(file, bytes, false).map_err(|error| format!("it cannot be mapped: {error}"));
    if (bytes as u64) < GRAPH_BYTES_MIN {
        let is_graph_store = bytes >= HEADER_BYTES
            && matches!(GraphHeader::read(map(HEADER_BYTES)?.as_slice()), Ok(GraphHeader::Written { .. }));
        let what = if is_graph_store { TRUNCATED } else { "it is no graph store; use another file" };
        return Err(what.to_owned());
    }
    match GraphHeader::read(map(HEADER_BYTES)?.as_slice())? {
        GraphHeader::Zero if map(bytes)?.as_slice().iter().any(|word| word.load(Relaxed) != 0) => {
            Err("it begins with zeros and contains other data, so it is no graph store; use another file".to_owned())
        }
        GraphHeader::Written { bytes: stated, .. } if stated > bytes as u64 => Err(TRUNCATED.to_owned()),
        _ => Ok(()),
    }
}

/// The error of a file that lost its end.
pub(crate) const TRUNCATED: &str = "it is shorter than its header states, so edges at its end are lost; restore a \
                                    complete copy, or use another file";

/// Enlarges the file of a store that has no room for the lists which its restart writes again.
fn enlarge(file: &MapFile, bytes: usize) -> std::io::Result<()> {
    let (path, size) = (file.path().display(), ByteSize(bytes as u64));
    tracing::warn!("the graphs in {path} are enlarged to {size}, because their restart needs room; raise graph.memory");
    file.set_bytes(bytes as u64)?;
    file.allocate(0, bytes as u64)
}

/// Checks the header, and writes it if there is none. Clears the memory of a file that another boot wrote to a disk
/// without commits.
fn check_header(words: &Words, file: &MapFile) -> Result<Contents, String> {
    let words = words.as_slice();
    if let GraphHeader::Written { boot, .. } = GraphHeader::read(words)?
        && boot != arena::boot_id().unwrap_or(0)
    {
        let path = file.path().display();
        let commit = last_commit(words).filter(|_| words[SYNCED_WORD].load(Relaxed) != 0);
        if let Some((number, watermarks)) = commit {
            tracing::info!("{path} was written before the last boot; its graphs are those of commit {number}");
            return Ok(Contents::Committed(watermarks));
        }
        tracing::warn!(
            "{path} was written before the last boot; its graphs are discarded, because a power loss may have damaged \
             them; --graph-sync retains them on a disk"
        );
        // The header is cleared last, so that a restart that is interrupted clears the file once more.
        let (header, segments) = words.split_at(HEADER_BYTES / 4);
        segments.iter().chain(header).for_each(|word| word.store(0, Relaxed));
    }
    write_header(words, words.len() as u64 * 4);
    Ok(Contents::Current)
}

/// Writes the header of a file that this boot writes.
fn write_header(words: &[AtomicU32], bytes: u64) {
    let boot = arena::boot_id().unwrap_or(0);
    words[1].store(VERSION, Relaxed);
    words[BYTES_WORD].store(bytes as u32, Relaxed);
    words[BYTES_WORD + 1].store((bytes >> 32) as u32, Relaxed);
    (0..4).for_each(|at| words[BOOT_WORD + at].store((boot >> (32 * at)) as u32, Relaxed));
    words[0].store(MAGIC, Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_of(bytes: u64, contents: &[(usize, u32)]) -> Arc<MapFile> {
        let file = Arc::new(MapFile::in_memory().expect("memory"));
        file.set_bytes(bytes).expect("a size");
        let words = Words::of_file(&file, bytes as usize, false).expect("a map");
        contents.iter().for_each(|(at, value)| words.as_slice()[*at].store(*value, Relaxed));
        file
    }

    #[test]
    fn empty_segments_of_a_file_wait_for_the_first_commit_of_a_start_unless_there_are_no_commits() {
        let bytes = GRAPH_BYTES_MIN + HEADER_BYTES as u64;
        let file = file_of(bytes, &[]);
        let open = || {
            let words = Words::of_file(&file, bytes as usize, false).expect("a map");
            let config = store_config(&ServerConfig::default(), true, usize::MAX);
            GraphStore::open(GraphMemory(words), &config).expect("room").0
        };
        let store = open();
        store.drop_graph(&store.create_graph("g").expect("room")).expect("exists");
        for sync in [GraphSync::Always, GraphSync::Never] {
            let store = open();
            // A new graph frees all segments that may be reused.
            let graphs = [store.create_graph("g").expect("room")];
            assert!(store.stats().segments_retired > 0, "{sync:?}: a power loss would lead back to them");
            own_file(&file, sync, &store).expect("memory takes all writes");
            let others = [store.create_graph("h").expect("room")];
            assert_eq!(store.stats().segments_retired, 0, "{sync:?}");
            graphs.iter().chain(&others).for_each(|graph| store.drop_graph(graph).expect("exists"));
        }
    }

    #[test]
    fn foreign_file_that_begins_with_zeros_is_refused() {
        let bytes = GRAPH_BYTES_MIN + HEADER_BYTES as u64;
        let end = bytes as usize / 4 - 1;
        for place in [2, HEADER_BYTES / 4 - 1, HEADER_BYTES / 4, end] {
            let refused = check_contents(&file_of(bytes, &[(place, 1)]), bytes as usize);
            assert!(refused.expect_err("not zeros only").contains("no graph store"), "word {place}");
        }
        assert_eq!(check_contents(&file_of(bytes, &[]), bytes as usize), Ok(()));
    }

    #[test]
    fn file_that_lost_its_end_is_refused() {
        let bytes = GRAPH_BYTES_MIN + HEADER_BYTES as u64;
        let header = [(0, MAGIC), (1, VERSION), (BYTES_WORD, bytes as u32)];
        assert_eq!(check_contents(&file_of(bytes, &header), bytes as usize), Ok(()));
        // A longer file is one that a server was enlarging when it was killed.
        assert_eq!(check_contents(&file_of(bytes * 2, &header), bytes as usize * 2), Ok(()));
        for short in [bytes - 1, GRAPH_BYTES_MIN, HEADER_BYTES as u64] {
            let refused = check_contents(&file_of(bytes, &header), short as usize);
            assert_eq!(refused, Err(TRUNCATED.to_owned()), "{short} bytes");
        }
    }
}
