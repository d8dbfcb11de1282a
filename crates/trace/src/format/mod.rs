//! The formats of traces, which are read and written as streams.
//!
//! ```text
//!   recorder ──> Blocks ──> FILE (docs/load/traces.md) ──┐
//!                Twitter's lines, .zst too ──────────────┼──> Reader ──> Entry, Entry, ...    one at a time
//!                oracleGeneral, .zst too ────────────────┘               Spread: seconds become instants
//! ```
//!
//! Invariants: no file is held in memory as a whole. Instants never descend. A fault is a [`TraceError`] with the file,
//! the line, entry or block, and a remedy. An entry contains a hash of its key and never the key.

pub mod blocks;
mod fault;
mod key;
pub mod oracle;
pub mod own;
mod reader;
mod spread;
#[cfg(test)]
mod tests;
pub mod twitter;

pub use blocks::{Blocks, Header, Summary};
pub use fault::{TraceError, TracePlace};
pub use key::{KEY_TEXT_BYTES_MIN, KeyHash, Secret, put_key};
pub use reader::{Selection, Times, TraceFormat, TraceReader};
pub use spread::SECOND_ENTRIES_MAX;

/// One request of a trace. A request for several keys has one entry per key, of which all except the first are
/// `joined`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// The instant of the request, in microseconds since the trace's beginning.
    pub at_us: u64,
    /// The hash of the key, which distinguishes keys.
    pub key: u64,
    /// The length of the key in bytes.
    pub key_bytes: u32,
    /// The length of the value that was written or read, in bytes; 0 for a read if the length is unknown or there was
    /// no value.
    pub value_bytes: u32,
    /// The time to live in seconds; 0 if the key does not expire or the time is unknown.
    pub ttl_s: u32,
    /// The number of the connection or client that sent the request.
    pub connection: u32,
    /// The operation that was requested.
    pub verb: Verb,
    /// The outcome of the request.
    pub outcome: RequestOutcome,
    /// True if the entry belongs to the same request as the previous entry.
    pub joined: bool,
}

impl Default for TraceEntry {
    fn default() -> Self {
        Self {
            at_us: 0,
            key: 0,
            key_bytes: 0,
            value_bytes: 0,
            ttl_s: 0,
            connection: 0,
            verb: Verb::Get,
            outcome: RequestOutcome::Unknown,
            joined: false,
        }
    }
}

/// The operation that a request performs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verb {
    /// Reads a key.
    #[default]
    Get = 0,
    /// Reads a key and its CAS token.
    Gets = 1,
    /// Stores a key.
    Set = 2,
    /// Stores a key only if it does not exist.
    Add = 3,
    /// Stores a key only if it exists.
    Replace = 4,
    /// Stores a key if no other client has stored it since the read.
    Cas = 5,
    /// Appends to the value.
    Append = 6,
    /// Prepends to the value.
    Prepend = 7,
    /// Deletes a key.
    Delete = 8,
    /// Increments a number.
    Incr = 9,
    /// Decrements a number.
    Decr = 10,
    /// Sets a new time to live.
    Touch = 11,
    /// Reads a key and sets a new time to live.
    Gat = 12,
    /// Reads fields of a hash.
    HashGet = 13,
    /// Stores fields of a hash.
    HashSet = 14,
    /// Removes fields of a hash.
    HashDelete = 15,
    /// Reads all fields of a hash.
    HashGetAll = 16,
}

impl Verb {
    /// All verbs in the order of their numbers, with their names.
    pub const ALL: [(&'static str, Self); 17] = [
        ("get", Self::Get),
        ("gets", Self::Gets),
        ("set", Self::Set),
        ("add", Self::Add),
        ("replace", Self::Replace),
        ("cas", Self::Cas),
        ("append", Self::Append),
        ("prepend", Self::Prepend),
        ("delete", Self::Delete),
        ("incr", Self::Incr),
        ("decr", Self::Decr),
        ("touch", Self::Touch),
        ("gat", Self::Gat),
        ("hget", Self::HashGet),
        ("hset", Self::HashSet),
        ("hdel", Self::HashDelete),
        ("hgetall", Self::HashGetAll),
    ];

    /// Returns the verb's name in files and figures.
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// Returns the verb with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).map(|(_, verb)| *verb)
    }

    /// Returns the verb with this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, verb)| *verb)
    }

    /// Returns true if the verb reads a value.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Get | Self::Gets | Self::Gat | Self::HashGet | Self::HashGetAll)
    }

    /// Returns true if the verb sends a value.
    pub const fn writes(self) -> bool {
        use Verb::{Add, Append, Cas, HashSet, Prepend, Replace, Set};
        matches!(self, Set | Add | Replace | Cas | Append | Prepend | HashSet)
    }

    /// Returns true if the verb changes a value in place, after which a replay can no longer check the value.
    pub const fn alters(self) -> bool {
        matches!(self, Self::Append | Self::Prepend | Self::Incr | Self::Decr)
    }
}

/// The outcome of a request, as far as the trace contains it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RequestOutcome {
    /// The trace does not contain the outcome.
    #[default]
    Unknown = 0,
    /// The key existed, or the write succeeded.
    Hit = 1,
    /// The key did not exist, or the condition of the write failed.
    Miss = 2,
    /// The server replied with an error.
    Error = 3,
}

impl RequestOutcome {
    /// Returns the outcome encoded in the lowest two bits of `number`.
    pub const fn from_number(number: u8) -> Self {
        match number & 3 {
            1 => Self::Hit,
            2 => Self::Miss,
            3 => Self::Error,
            _ => Self::Unknown,
        }
    }
}
