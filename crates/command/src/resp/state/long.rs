//! A request that is partly consumed before the rest is received.

use crate::lookup::large::LargeSet;
use crate::resp::catalog::CommandSpec;
use segment::Expire;
use segment::Put;
use segment::PutMode;
/// A request that is partly consumed.
pub(in crate::resp) struct Long {
    pub(in crate::resp) entry: &'static CommandSpec,
    /// The number of arguments still to be received, without the value that is being received.
    pub(in crate::resp) left: u32,
    pub(in crate::resp) stage: LongStage,
}

#[expect(clippy::large_enum_variant, reason = "the value lives in a connection's slot; a box would need an allocation")]
pub(in crate::resp) enum LongStage {
    /// A value is being received.
    Value { large: LargeSet, rule: ValueEffect },
    /// Keys, or keys and values, are processed one after another.
    Each(Each),
    /// The next `bytes` bytes are discarded, and then the remaining arguments.
    Skipped { bytes: u64, then: Option<Each> },
}

/// The effect of a value that was received completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum ValueEffect {
    /// `SET`: the words after the value determine it.
    Set,
    /// `SETEX` and `PSETEX`.
    Until(Expire),
    /// `SETNX`.
    Absent,
    /// `GETSET`.
    Swap,
    Append,
    /// `SETRANGE`.
    Range(u64),
    /// A value of `MSET`.
    Pair,
}

/// The operation on each argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum Each {
    Get,
    Delete,
    Exists,
    Touch,
    /// A key and a value together.
    Set,
}

impl Each {
    pub(in crate::resp) fn of(entry: &CommandSpec) -> Option<Self> {
        Some(match entry.name {
            "mget" => Self::Get,
            "del" | "unlink" => Self::Delete,
            "exists" => Self::Exists,
            "touch" => Self::Touch,
            "mset" => Self::Set,
            _ => return None,
        })
    }
}

impl ValueEffect {
    /// Returns the [`Put`] with which a value of this effect is written to the store.
    pub(in crate::resp) fn put(self) -> Put<'static> {
        match self {
            Self::Until(expire) => Put { expire, ..Put::set(b"") },
            Self::Absent => Put { mode: PutMode::Add, ..Put::set(b"") },
            Self::Append => Put { mode: PutMode::Append, vivify: Some(Expire::Never), ..Put::set(b"") },
            Self::Set | Self::Swap | Self::Range(_) | Self::Pair => Put::set(b""),
        }
    }

    /// Returns true if the value is stored whatever the existing item.
    pub(in crate::resp) fn replaces(self) -> bool {
        matches!(self, Self::Set | Self::Until(_) | Self::Pair)
    }
}
