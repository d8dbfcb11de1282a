//! The errors in a trace, each with the file, the place in the file, and the remedy.

use std::fmt;
use std::path::PathBuf;

/// The place of a fault in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePlace {
    /// The file as a whole.
    File,
    /// A line of a text trace, counted from 1.
    Line(u64),
    /// An entry of a binary trace, counted from 1.
    Entry(u64),
    /// A block of a recorded trace.
    Block {
        /// The number of the block, counted from 1.
        number: u64,
        /// The number of entries before the block.
        entries: u64,
    },
}

/// A fault of a trace. Displayed as `day.csv:17: description; remedy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The path of the file, as the user specified it.
    pub path: PathBuf,
    /// The place of the fault in the file.
    pub place: TracePlace,
    /// The description of the fault.
    pub what: String,
    /// The remedy for the fault.
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

/// A fault without its place: the description and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceDefect {
    /// The description of the fault.
    pub what: String,
    /// The remedy for the fault.
    pub remedy: &'static str,
}

impl TraceDefect {
    /// Creates a fault from its texts.
    pub fn new(what: impl Into<String>, remedy: &'static str) -> Self {
        Self { what: what.into(), remedy }
    }
}
