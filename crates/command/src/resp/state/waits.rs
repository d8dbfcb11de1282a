//! The state of a client that waits for another client: for a key of a blocking command, or until waiters are served.

use crate::memory::budget::Grant;
use crate::push::waiters::{Handoff, WaitKey, WaitKind, Waiter};
use crate::resp::catalog::CommandSpec;
use crate::resp::state::Answers;
use base::clock::UnixMillis;
use protocol::resp::Args;
use segment::Namespace;
use std::sync::Arc;

/// The state of a client that waits: during a blocking command, and after a request has filled keys
/// with waiters until its reply may be sent.
#[derive(Default)]
pub(in crate::resp) struct Waits {
    /// The blocking command that waits, if there is one.
    pub(in crate::resp) command: Option<WaitingCommand>,
    /// The keys that the current request has filled and that have waiters, in the order of the changes.
    pub(in crate::resp) filled: Vec<FilledKey>,
    /// The turns of waiters that the request has caused, once its keys are announced.
    pub(in crate::resp) handoff: Option<Arc<Handoff>>,
    /// The replies that are held until the turns have ended, or until the output has room for them.
    pub(in crate::resp) held: Vec<u8>,
    /// True if only another client, the deadline or `CLIENT UNBLOCK` ends the wait.
    pub(in crate::resp) rests: bool,
}

/// A key that may hold elements for which clients wait.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::resp) struct FilledKey {
    pub(in crate::resp) namespace: Namespace,
    pub(in crate::resp) hash: u64,
    pub(in crate::resp) bytes: Box<[u8]>,
}

impl FilledKey {
    pub(in crate::resp) fn key(&self) -> WaitKey<'_> {
        WaitKey { namespace: self.namespace, hash: self.hash, bytes: &self.bytes, group: b"" }
    }
}

impl Waits {
    /// Records a filled key, once.
    pub(in crate::resp) fn fill(&mut self, key: WaitKey<'_>) {
        let is_same = |filled: &FilledKey| {
            filled.hash == key.hash && filled.namespace == key.namespace && *filled.bytes == *key.bytes
        };
        if !self.filled.iter().any(is_same) {
            self.filled.push(FilledKey { namespace: key.namespace, hash: key.hash, bytes: key.bytes.into() });
        }
    }
}

/// The keys of a blocking command.
#[derive(Clone, Copy, Debug)]
pub(in crate::resp) struct WaitedKeys {
    pub(in crate::resp) kind: WaitKind,
    /// The number of arguments before the first key, and the number of keys.
    pub(in crate::resp) first: u32,
    pub(in crate::resp) count: u32,
    /// The number of arguments before the name of the group, for [`WaitKind::Group`].
    pub(in crate::resp) group: Option<u32>,
}

impl WaitedKeys {
    /// Returns `count` keys behind `first` arguments, which belong to no group.
    pub(in crate::resp) fn of_values(kind: WaitKind, first: u32, count: u32) -> Self {
        Self { kind, first, count, group: None }
    }

    /// Returns the keys among the arguments of the command.
    pub(in crate::resp) fn of<'c>(&self, args: Args<'c>) -> Args<'c> {
        args.split(self.first).1.split(self.count).0
    }

    /// Returns a key among those of the command, with the group among its arguments.
    pub(in crate::resp) fn key<'k>(&self, key: WaitKey<'k>, args: Args<'k>) -> WaitKey<'k> {
        let group = self.group.and_then(|at| args.split(at).1.next()).unwrap_or_default();
        WaitKey { group, ..key }
    }
}

/// The reply of a blocking command at its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum TimeoutReply {
    NullArray,
    Zero,
    /// Two zeros, of `WAITAOF`.
    Zeros,
}

/// A blocking command that waits.
pub(in crate::resp) struct WaitingCommand {
    pub(in crate::resp) entry: &'static CommandSpec,
    /// The encoded arguments, and their number.
    pub(in crate::resp) words: Box<[u8]>,
    pub(in crate::resp) words_count: u32,
    /// The keys; `None` for a command that waits for none.
    pub(in crate::resp) keys: Option<WaitedKeys>,
    pub(in crate::resp) deadline: Option<UnixMillis>,
    pub(in crate::resp) timeout_reply: TimeoutReply,
    /// The instant at which the first stream of a group expires or is flushed: the client then looks at the keys again.
    pub(in crate::resp) expires: Option<UnixMillis>,
    /// The waiter, once the client has joined the queues of the keys.
    pub(in crate::resp) waiter: Option<Arc<Waiter>>,
    /// The numbers of the keys for which the attempt in progress has the turn.
    pub(in crate::resp) turns: Vec<u32>,
    /// The replies that the client wants.
    pub(in crate::resp) answers: Answers,
    /// The client memory of the command and its entries in queues.
    pub(in crate::resp) grant: Grant,
}

impl WaitingCommand {
    /// Returns the encoded request.
    pub(in crate::resp) fn request(&self) -> Vec<u8> {
        let (count, name) = (self.words_count + 1, self.entry.name);
        let head = format!("*{count}\r\n${}\r\n{name}\r\n", name.len());
        [head.as_bytes(), &self.words].concat()
    }

    pub(in crate::resp) fn args(&self) -> Args<'_> {
        Args::resumed(&self.words, self.words_count)
    }
}
