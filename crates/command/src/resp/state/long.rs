//! The state of a request that is partly consumed while the rest is still being received.

use crate::lookup::large::LargeSet;
use crate::memory::budget::{Budget, Grant, MemoryUse};
use crate::resp::catalog::{self, CommandSpec};
use crate::resp::state::transaction::{QUEUE_BYTES_MAX, grown};
use crate::resp::state::waits::{WaitingCommand, Waits};
use protocol::resp::Args;
use segment::{Expire, Put, PutMode};
use std::sync::Arc;

/// A request that is partly consumed while the rest is still being received.
pub(in crate::resp) struct Long {
    pub(in crate::resp) entry: &'static CommandSpec,
    /// The number of arguments that are still to be received, not counting the value that is being received.
    pub(in crate::resp) left: u32,
    pub(in crate::resp) stage: LongStage,
}

#[expect(clippy::large_enum_variant, reason = "the value lives in a connection's slot; a box would need an allocation")]
pub(in crate::resp) enum LongStage {
    /// A value is being received.
    Value { large: LargeSet, rule: ValueEffect },
    /// The keys of the request, or its pairs of a key and a value, are processed one after another.
    Each(Each),
    /// The next `bytes` bytes are discarded. Then the remaining arguments are processed as `then` states, or discarded
    /// if `then` is `None`.
    Skipped { bytes: u64, then: Option<Each> },
    /// The request is collected in client memory, and executed when it is complete.
    Collected(Box<Collected>),
    /// The request was received completely. The client waits for other clients.
    Waits(Box<Waits>),
}

/// A request that is collected in client memory. Its length is bounded by [`QUEUE_BYTES_MAX`].
pub(in crate::resp) struct Collected {
    grant: Grant,
    /// The received bytes of the request.
    pub(in crate::resp) request: Vec<u8>,
    /// The offset of the first word, the command's name, and the number of words.
    first: usize,
    words: u32,
    /// The number of bytes of the current argument that are still to be received, with its end.
    pub(in crate::resp) bytes: usize,
}

impl Collected {
    /// Returns the start of a request of a command that has this number of words, the name included.
    pub(in crate::resp) fn new(budget: &Arc<Budget>, name: &str, words: u32) -> Self {
        let head = format!("*{words}\r\n");
        let request = format!("{head}${}\r\n{name}\r\n", name.len()).into_bytes();
        let grant = Grant::none(budget, MemoryUse::Queued);
        Self { grant, request, first: head.len(), words, bytes: 0 }
    }

    /// Returns true if the request is short enough with `more` bytes.
    pub(in crate::resp) fn may_have(&self, more: usize) -> bool {
        self.request.len().saturating_add(more) <= QUEUE_BYTES_MAX
    }

    /// Appends received bytes. Returns false if client memory is used up.
    pub(in crate::resp) fn add(&mut self, more: &[u8]) -> bool {
        let capacity = grown(self.request.capacity(), self.request.len() + more.len());
        let has_room = self.grant.resize(capacity as u64);
        if has_room {
            self.request.reserve_exact(capacity - self.request.len());
            self.request.extend_from_slice(more);
        }
        has_room
    }

    /// Returns the words of the request, which is complete.
    pub(in crate::resp) fn args(&self) -> Args<'_> {
        Args::resumed(&self.request[self.first..], self.words)
    }
}

impl Long {
    /// Returns the bytes of client memory that hold the received part of the request.
    pub(in crate::resp) fn collected_bytes(&self) -> u64 {
        if let LongStage::Collected(collected) = &self.stage { collected.grant.bytes() } else { 0 }
    }

    /// Returns the state of a client that waits for other clients.
    pub(in crate::resp) fn waits(&self) -> Option<&Waits> {
        if let LongStage::Waits(waits) = &self.stage { Some(waits) } else { None }
    }

    /// Returns the same state in the field `long` of a session.
    pub(in crate::resp) fn waits_of(long: &Option<Self>) -> Option<&Waits> {
        long.as_ref().and_then(Self::waits)
    }

    /// Returns the blocking command that waits.
    pub(in crate::resp) fn command_of(long: &Option<Self>) -> Option<&WaitingCommand> {
        Self::waits_of(long)?.command.as_ref()
    }

    /// Returns true if a session can wait for other clients: its request is not being received in parts.
    pub(in crate::resp) fn may_wait(long: &Option<Self>) -> bool {
        long.as_ref().is_none_or(|long| long.waits().is_some())
    }

    /// Returns the state of a client that waits for other clients. Creates it if the client does not wait yet.
    pub(in crate::resp) fn waits_mut(long: &mut Option<Self>) -> &mut Waits {
        let long = long.get_or_insert_with(|| Self {
            // The request itself has ended, or is retained elsewhere.
            entry: catalog::entry("wait"),
            left: 0,
            stage: LongStage::Waits(Box::default()),
        });
        match &mut long.stage {
            LongStage::Waits(waits) => waits,
            _ => unreachable!("a request that is received in parts fills no key with waiters"),
        }
    }

    /// Removes and returns a collected request that is complete, with its command.
    pub(in crate::resp) fn take_collected(long: &mut Option<Self>) -> Option<(&'static CommandSpec, Box<Collected>)> {
        let is_complete = |long: &mut Self| {
            long.left == 0 && matches!(&long.stage, LongStage::Collected(collected) if collected.bytes == 0)
        };
        match long.take_if(is_complete)? {
            Self { entry, stage: LongStage::Collected(collected), .. } => Some((entry, collected)),
            _ => None,
        }
    }

    /// Removes and returns the state of a client that waits for other clients.
    pub(in crate::resp) fn take_waits(long: &mut Option<Self>) -> Option<Box<Waits>> {
        match long.take_if(|long| long.waits().is_some())?.stage {
            LongStage::Waits(waits) => Some(waits),
            _ => None,
        }
    }
}

/// The effect on the store of a value that was received completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum ValueEffect {
    /// `SET`: the words after the value determine the effect.
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

/// The operation that a request with many keys executes on each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum Each {
    Get,
    Delete,
    Exists,
    Touch,
    /// Stores the value that follows the key.
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
    /// Returns the [`Put`] that writes a value with this effect to the store.
    pub(in crate::resp) fn put(self) -> Put<'static> {
        match self {
            Self::Until(expire) => Put { expire, ..Put::set(b"") },
            Self::Absent => Put { mode: PutMode::Add, ..Put::set(b"") },
            Self::Append => Put { mode: PutMode::Append, vivify: Some(Expire::Never), ..Put::set(b"") },
            Self::Set | Self::Swap | Self::Range(_) | Self::Pair => Put::set(b""),
        }
    }

    /// Returns true if the command replies with the previous value. `tail` are the words after the value.
    pub(in crate::resp) fn reads_key(self, tail: &[&[u8]]) -> bool {
        match self {
            Self::Swap => true,
            Self::Set => tail.iter().any(|word| word.eq_ignore_ascii_case(b"get")),
            _ => false,
        }
    }

    /// Returns true if the value is stored regardless of the existing item.
    pub(in crate::resp) fn replaces(self) -> bool {
        matches!(self, Self::Set | Self::Until(_) | Self::Pair)
    }
}
