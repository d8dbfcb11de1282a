//! Traces: timed requests, stored in a file, recorded from live clients, and replayed as a load.
//!
//! ```text
//!   clients ──> record ──> format: FILE ──> replay ──> the load engine, at the trace's instants
//!                                  │
//!                                  └──────> pace: only the instants, for another workload
//! ```
//!
//! The crate never stores a key or a value of a recorded client: an entry has a hash of its key, computed with a
//! secret. The crate never holds a whole trace in memory. The load engine sends the requests, not this crate.
//!
//! Invariant: the reader returns the entries in the order in which the recorder wrote them. The replay sends the
//! requests for one key in that order.
//!
//! # Example
//! ```
//! use gannet_trace::{Blocks, Header, Selection, Summary, TraceEntry, TraceReader, Verb};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut blocks = Blocks::default();
//! let mut file = Header { began_unix_us: 0, chosen_secret: false }.bytes().to_vec();
//! let entry = TraceEntry { at_us: 0, key: 42, key_bytes: 12, verb: Verb::Get, ..TraceEntry::default() };
//! blocks.push(&entry); // Returns a block's bytes when one is full.
//! file.extend(blocks.take().unwrap_or_default());
//! file.extend(blocks.end(&Summary { entries: 1, ..Summary::default() }));
//!
//! let length = file.len() as u64;
//! let source = Box::new(std::io::Cursor::new(file));
//! let mut reader = TraceReader::over(&Selection::new("day.trace"), source, Some(length))?;
//! assert_eq!(reader.entry()?, Some(entry));
//! assert_eq!(reader.entry()?, None);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod format;
mod pace;
pub mod record;
pub mod replay;

pub use format::{
    Blocks, Header, KEY_TEXT_BYTES_MIN, KeyHash, RequestOutcome, SECOND_ENTRIES_MAX, Secret, Selection, Summary, Times,
    TraceEntry, TraceError, TraceFormat, TracePlace, TraceReader, Verb, blocks, oracle, put_key, twitter,
};
pub use pace::{FirstError, TracePace};
