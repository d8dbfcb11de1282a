//! RDB files and DUMP payloads of Redis 1 to 8 and Valkey 7.2 to 9: decodes all encodings as a stream of elements, and
//! encodes payloads.
//!
//! ```text
//!  "REDIS0010" | aux: name, value ... | select db 0 | sizes | [expiry] type key value ... | 0xFF | CRC-64, 8 bytes
//!   magic, version                                     `---- entry, once per key ----'
//!
//!  type | value | version, 2 bytes | CRC-64, 8 bytes     the payload of DUMP and RESTORE
//!
//!   file      records between keys; one event at a time
//!   value     the encodings of types: their elements, one at a time
//!   packed    values in one string: listpack, ziplist, intset, zipmap
//!   stream    streams: entries in listpacks, groups, consumers, pending entries
//!   input     bytes with their offset: lengths, strings in all encodings, including compressed ones
//!   step      the element that was read last, and its strings
//!   sum       checksums
//!   whole     checks a whole file before it is used
//!   dump      payloads: checks and reads them
//!   encode    payloads: writes them, in encodings that Redis 7.0 reads
//! ```
//!
//! The crate does no I/O of its own: it reads from any [`std::io::Read`].
//!
//! Invariants:
//! - No input causes a panic. Every error has the offset of the byte at which reading ended.
//! - Memory is bounded by the longest string of the input, compressed and expanded, and this by
//!   [`ReadLimits::string_bytes_max`]. A length that the input only claims reserves at most 1 MiB.
//!
//! # Example
//! ```
//! use gannet_rdb::{Element, Event, FileReader, ReadLimits};
//!
//! # fn main() -> Result<(), gannet_rdb::Damage> {
//! let file = b"REDIS0004\xfe\x00\x01\x04list\x02\x01a\x01b\xff";
//! let mut reader = FileReader::new(&file[..], ReadLimits::default())?;
//! let mut members = Vec::new();
//! while let Some(event) = reader.next_event()? {
//!     match event {
//!         Event::Key(key) => assert_eq!((key.db, key.name), (0, &b"list"[..])),
//!         Event::Element(Element::Member(member)) => members.push(member.to_vec()),
//!         _ => {}
//!     }
//! }
//! assert_eq!(members, [b"a", b"b"]);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod dump;
mod encode;
mod event;
mod file;
mod input;
mod packed;
mod step;
mod stream;
mod sum;
mod value;
mod whole;

use std::fmt;
use std::io;

pub use dump::{DumpCheck, DumpError, DumpReader, PausedDump, VERSION as DUMP_VERSION, is_text};
pub use encode::{CountedElement, Encoder, FieldTimes, Misplaced, PayloadWriter};
pub use event::{Element, Event, Key, ModuleType, StreamId, StreamTotals, ValueType};
pub use file::{FileReader, Mark, VERSION_MAX};
pub use sum::sum_of;
pub use whole::{Checked, check};

/// ReadLimits of what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Highest number of bytes of a string, and of a value that is packed in one string.
    pub string_bytes_max: u64,
}

impl Default for ReadLimits {
    /// Returns the limit of Redis for strings: 512 MiB.
    fn default() -> Self {
        Self { string_bytes_max: 512 << 20 }
    }
}

/// The reason why an input cannot be read further, with the offset.
#[derive(Debug)]
pub struct Damage {
    /// Bytes from the start of the input.
    pub offset: u64,
    /// The kind of the damage.
    pub what: What,
}

/// A kind of damage.
#[derive(Debug)]
pub enum What {
    /// The input ends in the middle of an element.
    Truncated,
    /// The bytes are invalid.
    Malformed(String),
    /// The system could not read the input.
    System(io::Error),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Truncated => write!(f, "byte {}: the file ends in the middle of an element", self.offset),
            What::Malformed(what) => write!(f, "byte {}: {what}", self.offset),
            What::System(error) => write!(f, "byte {}: cannot read the file ({error})", self.offset),
        }
    }
}

impl std::error::Error for Damage {}

fn malformed(offset: u64, what: impl Into<String>) -> Damage {
    Damage { offset, what: What::Malformed(what.into()) }
}

/// Returns the damage of an input that could not be read at `offset`.
fn unreadable(offset: u64, error: io::Error) -> Damage {
    let what = if error.kind() == io::ErrorKind::UnexpectedEof { What::Truncated } else { What::System(error) };
    Damage { offset, what }
}

#[cfg(test)]
mod tests;
