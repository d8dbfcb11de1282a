//! The journal of a load of edges: the position after the last acknowledged part.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::text::EdgePart;
use crate::MigrateError;
use crate::journal::replace;

/// The time between two writes of the journal.
const PERIOD: Duration = Duration::from_millis(200);
/// The version of the journal's format.
const VERSION: u32 = 2;

/// The counts of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphLoadCounts {
    /// Edges that were read.
    pub edges: u64,
    /// Edges whose state or attributes changed.
    pub changed: u64,
    /// Lines and edges that were refused.
    pub refused: u64,
}

impl GraphLoadCounts {
    /// Adds the counts of a part.
    pub fn add(&mut self, more: Self) {
        self.edges += more.edges;
        self.changed += more.changed;
        self.refused += more.refused;
    }
}

/// The load to which a journal belongs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadIdentity {
    pub graph: String,
    pub edge_type: String,
    pub format: String,
}

impl LoadIdentity {
    pub fn new(graph: &str, edge_type: &str, format: &str) -> Self {
        Self { graph: graph.to_owned(), edge_type: edge_type.to_owned(), format: format.to_owned() }
    }
}

/// The progress of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadJournal {
    version: u32,
    load: LoadIdentity,
    /// The time of edges whose lines have none.
    pub time_ms: u64,
    /// The run of the server that acknowledged the parts, if the server reports one.
    pub server_run: String,
    /// The number of bytes of text, and of lines, that are acknowledged.
    pub position: u64,
    pub lines: u64,
    /// The hash of that text.
    pub digest: u64,
    pub counts: GraphLoadCounts,
}

/// The file of a journal, and the progress that it has or will have.
#[derive(Debug)]
pub(crate) struct LoadJournalFile {
    path: Option<PathBuf>,
    pub journal: LoadJournal,
    written: Instant,
}

impl LoadJournalFile {
    /// Opens the journal of a load, or begins one. Without a path, the journal is in no file.
    ///
    /// # Errors
    /// If the file cannot be read or written, is the journal of another load, or exists and `resumes` is false.
    pub fn open(path: Option<PathBuf>, load: LoadIdentity, resumes: bool, now_ms: u64) -> Result<Self, MigrateError> {
        let counts = GraphLoadCounts::default();
        let fresh = LoadJournal {
            version: VERSION,
            load,
            time_ms: now_ms,
            server_run: String::new(),
            position: 0,
            lines: 0,
            digest: 0,
            counts,
        };
        let journal = match &path {
            None => fresh,
            Some(path) => {
                let refused =
                    |what: &str| MigrateError::Refused(format!("cannot use the journal {}: {what}", path.display()));
                match std::fs::read(path) {
                    Err(error) if error.kind() == ErrorKind::NotFound => fresh,
                    Err(error) => return Err(refused(&error.to_string())),
                    Ok(_) if !resumes => {
                        let what =
                            "an earlier load was not completed; pass --resume to continue it, or delete the file";
                        return Err(refused(what));
                    }
                    Ok(bytes) => {
                        let found = serde_json::from_slice::<LoadJournal>(&bytes).map_err(|_| {
                            refused("it is not the journal of a load; pass another file with --journal")
                        })?;
                        if (found.version, &found.load) != (VERSION, &fresh.load) {
                            let what = "it is of another load: the graph, the type or the format differs; delete it to \
                                        begin again";
                            return Err(refused(what));
                        }
                        found
                    }
                }
            }
        };
        let file = Self { path, journal, written: Instant::now() };
        file.write()?;
        Ok(file)
    }

    /// Writes the file, if there is one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self) -> Result<(), MigrateError> {
        let Some(path) = &self.path else { return Ok(()) };
        let text = serde_json::to_vec(&self.journal).expect("a journal is plain data");
        replace(path, &text).map_err(|error| {
            let path = path.display();
            MigrateError::Refused(format!("cannot write the journal {path}: {error}; pass another file with --journal"))
        })
    }

    /// Records that a part is loaded. Writes the file several times a second.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn acknowledge(&mut self, part: &EdgePart, counts: GraphLoadCounts) -> Result<(), MigrateError> {
        self.journal.position += part.bytes;
        self.journal.lines += part.lines;
        self.journal.digest = part.digest;
        self.journal.counts.add(counts);
        if self.written.elapsed() >= PERIOD {
            self.write()?;
            self.written = Instant::now();
        }
        Ok(())
    }

    /// Removes the file of a complete load.
    pub fn remove(self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}
