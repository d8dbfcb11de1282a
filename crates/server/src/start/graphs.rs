//! The memory of the graph store: anonymous, or a file that a later process opens.
//!
//! ```text
//!   byte 0     magic, version          16  identity of the boot, 16 bytes       4096  segments
//! ```
//!
//! After a power loss, pages of a file on a disk may have any age. The contents of such a file are therefore discarded
//! if it was written in another boot.

use super::config::{ServerConfig, StartError};
use arena::{MapFile, Words};
use base::units::ByteSize;
use command::keyspace::graphs::Graphs;
use graph::limits::SEGMENT_BYTES;
use graph::{AtomicU32, Backing, GraphError, GraphStore, GraphStoreConfig, RestartReport};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The minimum size of a graph store: the pool's minimum of segments.
pub const GRAPH_BYTES_MIN: u64 = 9 * SEGMENT_BYTES as u64;
/// The maximum size of a graph store: a position in it has 32 bits and counts units of 8 bytes.
pub const GRAPH_BYTES_MAX: u64 = 32 << 30;

/// The bytes of the header.
const HEADER_BYTES: usize = 4096;
const MAGIC: u32 = u32::from_le_bytes(*b"GGRF");
const VERSION: u32 = 1;
/// The word at which the identity of the boot begins.
const BOOT_WORD: usize = 4;

/// The memory of the store, behind the header.
struct GraphMemory(Words);

impl Backing for GraphMemory {
    fn words(&self) -> &[AtomicU32] {
        &self.0.as_slice()[HEADER_BYTES / 4..]
    }
}

/// Opens the graph store of a server, in the memory that another server handed over if there is any. Returns its file
/// too, if it is in one.
///
/// # Errors
/// If the file cannot be opened, or has another size or version.
pub(crate) fn open(
    config: &ServerConfig,
    left: Option<Arc<MapFile>>,
) -> Result<(Graphs, Option<Arc<MapFile>>), StartError> {
    if config.graph_memory_bytes == 0 && left.is_none() {
        return Ok((Graphs::default(), None));
    }
    let is_handed_over = left.is_some();
    let file = match (left, &config.graph_file) {
        (Some(file), _) => Some(file),
        (None, Some(path)) => {
            let refused = |error| StartError::Graphs { path: path.clone(), what: format!("{error}; see --graph-file") };
            let opened = MapFile::open(path).map_err(refused)?;
            Some(Arc::new(opened))
        }
        (None, None) if config.file.is_some() || config.upgradable => Some(Arc::new(MapFile::in_memory()?)),
        (None, None) => None,
    };
    let fault = |what: String| {
        let path = config.graph_file.clone().unwrap_or_else(|| Path::new("shared memory").to_owned());
        StartError::Graphs { path, what }
    };
    let wanted = config.graph_memory_bytes as usize + HEADER_BYTES;
    let mut bytes = wanted;
    if let Some(file) = &file {
        let found = file.bytes()? as usize;
        if found != 0 && !is_handed_over && !is_graph_store(file, found) {
            return Err(fault("it is no graph store; use another file".to_owned()));
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
        if let Some(file) = &file {
            check_header(&words, file).map_err(&fault)?;
        }
        let store = GraphStoreConfig { readers_max: config.workers + 2, ..GraphStoreConfig::default() };
        match (GraphStore::open(GraphMemory(words), &store), &file) {
            (Ok((store, report)), _) => break (store, report, bytes),
            (Err(GraphError::NoSpace), Some(file)) if (bytes as u64) < GRAPH_BYTES_MAX => {
                bytes += (bytes / 4).next_multiple_of(SEGMENT_BYTES);
                enlarge(file, bytes)?;
            }
            (Err(error), _) => return Err(fault(error.to_string())),
        }
    };
    log_restart(&report, file.as_deref());
    let is_durable = config.graph_file.is_some();
    Ok((Graphs::new(store, (bytes - HEADER_BYTES) as u64, is_durable, config.workers), file))
}

fn log_restart(report: &RestartReport, file: Option<&MapFile>) {
    if report.graphs > 0 {
        let (graphs, nodes, lists) = (report.graphs, report.nodes, report.lists);
        tracing::info!("opened {graphs} graphs with {nodes} nodes and {lists} lists");
    }
    if report.segments_torn > 0 || report.records_orphaned > 0 {
        let (torn, orphaned) = (report.segments_torn, report.records_orphaned);
        tracing::warn!(
            "the graphs in {} are damaged: {torn} segments end in a record whose checksum is wrong, and {orphaned} \
             records belong to none; everything before is in use; restore a copy of the file if you have one",
            file.map_or(Path::new("memory"), MapFile::path).display()
        );
    }
}

/// Returns true if a file of `bytes` bytes begins with the header of a graph store.
fn is_graph_store(file: &Arc<MapFile>, bytes: usize) -> bool {
    let has_header = bytes as u64 >= GRAPH_BYTES_MIN;
    has_header
        && Words::of_file(file, HEADER_BYTES, false).is_ok_and(|words| {
            let first = words.as_slice()[0].load(Relaxed);
            // A file that was created, and whose server was killed before it wrote the header, is empty.
            first == MAGIC || first == 0
        })
}

/// Enlarges the file of a store that has no room for the lists which its restart writes again.
fn enlarge(file: &MapFile, bytes: usize) -> std::io::Result<()> {
    let (path, size) = (file.path().display(), ByteSize(bytes as u64));
    tracing::warn!("the graphs in {path} are enlarged to {size}, because their restart needs room; raise graph.memory");
    file.set_bytes(bytes as u64)?;
    file.allocate(0, bytes as u64)
}

/// Checks the header, and writes it if there is none. Clears the memory of a file that another boot wrote to a disk.
fn check_header(words: &Words, file: &MapFile) -> Result<(), String> {
    let words = words.as_slice();
    let boot = arena::boot_id().unwrap_or(0);
    let boot_words: [u32; 4] = std::array::from_fn(|at| (boot >> (32 * at)) as u32);
    let word = |at: usize| words[at].load(Relaxed);
    match (word(0), word(1)) {
        (0, 0) => {}
        (MAGIC, VERSION) => {
            let is_same_boot = (0..4).all(|at| word(BOOT_WORD + at) == boot_words[at]);
            if !is_same_boot {
                tracing::warn!(
                    "{} was written before the last boot; its graphs are discarded, because a power loss may have \
                     damaged them",
                    file.path().display()
                );
                words.iter().for_each(|word| word.store(0, Relaxed));
            }
        }
        (MAGIC, version) => return Err(format!("it has version {version}, but this build reads version {VERSION}")),
        _ => return Err("it is no graph store; use another file".to_owned()),
    }
    words[0].store(MAGIC, Relaxed);
    words[1].store(VERSION, Relaxed);
    boot_words.iter().zip(&words[BOOT_WORD..]).for_each(|(value, word)| word.store(*value, Relaxed));
    Ok(())
}
