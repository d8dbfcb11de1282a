//! What is wrong with a trace: the file, the place in it, and what to do.

use std::fmt;
use std::path::PathBuf;

/// Place of a fault in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePlace {
    /// The file itself.
    File,
    /// A line of text, from 1.
    Line(u64),
    /// An entry of a binary trace, from 1.
    Entry(u64),
    /// A block of a recorded trace, from 1, and the entries before it.
    Block {
        /// Its number, from 1.
        number: u64,
        /// Entries before it.
        entries: u64,
    },
}

/// TraceError of a trace. Shows as `day.csv:17: what is wrong; what to do`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The file, as it was named.
    pub path: PathBuf,
    /// Place of the fault in the file.
    pub place: TracePlace,
    /// Description of the fault.
    pub what: String,
    /// Remedy for the fault.
    pub remedy: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.place {
            TracePlace::File => write!(f, "{path}: ")?,
            TracePlace::Line(number) => write!(f, "{path}:{number}: ")?,
            TracePlace::Entry(number) => write!(f, "{path}: entry {number}: ")?,
            TracePlace::Block { number, entries } => write!(f, "{path}: block {number}, after {entries} entries: ")?,
        }
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

impl std::error::Error for TraceError {}

/// A fault without its place: what is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceDefect {
    /// Description of the fault.
    pub what: String,
    /// Remedy for the fault.
    pub remedy: &'static str,
}

impl TraceDefect {
    /// Of these words.
    pub fn new(what: impl Into<String>, remedy: &'static str) -> Self {
        Self { what: what.into(), remedy }
    }
}
