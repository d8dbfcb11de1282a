//! The formats of traces, read and written as streams.
//!
//! ```text
//!   recorder ──> Blocks ──> FILE (docs/load/traces.md) ──┐
//!                Twitter's lines, .zst too ──────────────┼──> Reader ──> Entry, Entry, ...    one at a time
//!                oracleGeneral, .zst too ────────────────┘               Spread: seconds become instants
//! ```
//!
//! Invariants: no file is ever in memory whole; instants never descend; what cannot be read is a [`TraceError`] that
//! names the file, the line, entry or block, and what to do; an entry holds a hash of its key and never the key.

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

/// One request of a trace. Of a request for several keys there is one for each, the first of them not `joined`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// Microseconds since the trace's beginning.
    pub at_us: u64,
    /// Hash that distinguishes keys; not the key.
    pub key: u64,
    /// Length of the key in bytes.
    pub key_bytes: u32,
    /// Length of the value that was written or read, in bytes; 0 in a read: not known, or none.
    pub value_bytes: u32,
    /// Seconds to live; 0: for ever, or none is given.
    pub ttl_s: u32,
    /// Number of the connection or client that asked.
    pub connection: u32,
    /// Operation that was requested.
    pub verb: Verb,
    /// Outcome of the request.
    pub outcome: RequestOutcome,
    /// It is of one request with the entry before it.
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

/// Operation of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verb {
    /// Reads.
    #[default]
    Get = 0,
    /// Reads with the CAS token.
    Gets = 1,
    /// Stores.
    Set = 2,
    /// Stores if nothing is there.
    Add = 3,
    /// Stores if something is there.
    Replace = 4,
    /// Stores if no other client stored since it was read.
    Cas = 5,
    /// Adds to the end of what is there.
    Append = 6,
    /// Adds before what is there.
    Prepend = 7,
    /// Removes.
    Delete = 8,
    /// Counts up.
    Incr = 9,
    /// Counts down.
    Decr = 10,
    /// Gives a new time to live.
    Touch = 11,
    /// Reads, and gives a new time to live.
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
    /// All of them, in the order of their numbers, each with its name.
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

    /// As in files and figures.
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// The verb of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).map(|(_, verb)| *verb)
    }

    /// The verb of this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, verb)| *verb)
    }

    /// Reads a value.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Get | Self::Gets | Self::Gat | Self::HashGet | Self::HashGetAll)
    }

    /// Sends a value.
    pub const fn writes(self) -> bool {
        use Verb::{Add, Append, Cas, HashSet, Prepend, Replace, Set};
        matches!(self, Set | Add | Replace | Cas | Append | Prepend | HashSet)
    }

    /// Leaves another value than one that can be checked.
    pub const fn alters(self) -> bool {
        matches!(self, Self::Append | Self::Prepend | Self::Incr | Self::Decr)
    }
}

/// Outcome of a request, as far as the trace knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RequestOutcome {
    /// The trace does not say.
    #[default]
    Unknown = 0,
    /// The key was there, or the write was done.
    Hit = 1,
    /// The key was not there, or the write's condition did not hold.
    Miss = 2,
    /// The server refused.
    Error = 3,
}

impl RequestOutcome {
    /// The outcome of the lowest two bits of `number`.
    pub const fn from_number(number: u8) -> Self {
        match number & 3 {
            1 => Self::Hit,
            2 => Self::Miss,
            3 => Self::Error,
            _ => Self::Unknown,
        }
    }
}
