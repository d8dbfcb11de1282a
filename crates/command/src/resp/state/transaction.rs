//! The state of a transaction: its watched keys, its queued requests, and the replies that were collected so far.

use crate::config::Config;
use crate::handover::HandoverTransaction;
use crate::handover::HandoverWatch;
use crate::keyspace::namespaces::Namespaces;
use crate::memory::budget;
use crate::memory::budget::Budget;
use crate::memory::budget::Grant;
use crate::resp::catalog::{self, CommandSpec};
use crate::resp::state::Answers;
use crate::visit::clock::Moment;
use crate::visit::clock::Ticks;
use crate::visit::out::LINE_ROOM;
use crate::visit::out::OutBuffer;
use crate::visit::out::Position;
use crate::visit::progress::OPS_A_BATCH;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, reply};
use segment::Guard;
use segment::Key;
use segment::KeyLocks;
use segment::Namespace;
use segment::Version;
use std::collections::HashSet;
use std::sync::Arc;
/// The maximum number of keys that one connection watches.
pub const WATCHED_MAX: usize = 4096;

/// The number of bytes that `EXEC` reserves for the reply to each request before it executes the first one. Short
/// replies fit into them.
pub(in crate::resp) const SHORT_ANSWER_BYTES: usize = 16;

/// Returns the new capacity of a buffer whose capacity is `capacity`, and which must hold `need` bytes or elements.
pub(in crate::resp) fn grown(capacity: usize, need: usize) -> usize {
    if need <= capacity { capacity } else { need.max(capacity + capacity / 2) }
}

/// The number of bytes of one hash in a set of hashes, with its overhead.
pub(in crate::resp) const HASH_BYTES: usize = 18;

/// The stage of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum Stage {
    /// The client watches keys. Requests are executed at once.
    Watching,
    /// Requests are queued.
    Queueing,
    /// The transaction's key lock set is not acquired yet.
    Obtaining,
    /// The queued requests are being executed.
    Running,
    /// All requests have been executed. The replies are being sent to the client.
    Replying,
}

/// A watched key, with the version that it had when the client began to watch it.
pub(in crate::resp) struct Watched {
    /// The offset at which the key ends in the bytes of all watched keys. The key begins where the previous key ends.
    pub(in crate::resp) end: usize,
    pub(in crate::resp) namespace: Namespace,
    /// The number of the database, and how often its namespace had been exchanged.
    pub(in crate::resp) database: u8,
    pub(in crate::resp) swaps: u32,
    pub(in crate::resp) version: Version,
}

/// A parsed request of a queue. It is stored so that another visit can continue the request without parsing it again.
#[derive(Clone, Copy, Debug)]
pub(in crate::resp) struct Current {
    /// The offset of the request's arguments in the queue, in bytes.
    pub(in crate::resp) first: usize,
    /// The number of the request's arguments.
    pub(in crate::resp) args: u32,
    /// The offset of the next request in the queue, in bytes.
    pub(in crate::resp) end: usize,
    /// The instant at which the request began. Relative times to live count from this instant, even if the request
    /// takes several visits.
    pub(in crate::resp) moment: Moment,
}

/// A connection's transaction.
pub(in crate::resp) struct Transaction {
    pub(in crate::resp) stage: Stage,
    /// True if a request was refused. Then `EXEC` executes nothing.
    pub(in crate::resp) is_aborted: bool,
    /// True for a single-command transaction, whose reply is not wrapped in an array. False for `MULTI` ... `EXEC`.
    pub(in crate::resp) is_single_command: bool,
    /// True if a queued request waits while writes are paused.
    pub(in crate::resp) has_writes: bool,
    /// True for a single-command transaction that changes nothing.
    pub(in crate::resp) only_reads: bool,
    /// True if a queued request runs a script, which may access keys that are not in `key_locks`.
    pub(in crate::resp) has_script: bool,
    /// True if the transaction holds the right to extend its key lock set.
    pub(in crate::resp) has_right: bool,
    /// The number of the command or subcommand, in the statistics, of a command that a script calls.
    pub(in crate::resp) number: Option<usize>,
    /// True if a command of a call has failed, so that those after it are not executed.
    pub(in crate::resp) has_failed: bool,
    /// True if the transaction's replies exceeded the limit and were discarded.
    pub(in crate::resp) replies_dropped: bool,
    /// The command of a single-command transaction. `None` for `EXEC`.
    pub(in crate::resp) entry: Option<&'static CommandSpec>,
    /// The word `EXEC` as the client wrote it. Monitoring clients see it.
    pub(in crate::resp) exec_name: [u8; 4],
    /// The bytes of the queued requests, as they were received.
    pub(in crate::resp) queue: Vec<u8>,
    /// The number of queued commands.
    pub(in crate::resp) commands: u32,
    /// The transaction's share of client memory, without the memory of its replies (see [`Transaction::cost`]).
    pub(in crate::resp) held: Grant,
    /// The offset in the queue of the first request that is not done, in bytes.
    pub(in crate::resp) at: usize,
    /// The current request, if it has begun.
    pub(in crate::resp) current: Option<Current>,
    /// The offset in bytes and the number of the words of the only request in the queue. Such a request need not be
    /// parsed again. `None` for `EXEC`.
    pub(in crate::resp) words: Option<(usize, u32)>,
    /// A bit for each namespace in which a queued request may be executed. The keys of the queued requests are locked
    /// in all of these namespaces.
    pub(in crate::resp) namespaces: u32,
    pub(in crate::resp) watched: Vec<Watched>,
    pub(in crate::resp) watched_bytes: Vec<u8>,
    /// The hashes of the watched keys.
    pub(in crate::resp) watched_hashes: HashSet<u64>,
    /// The number of watched keys whose current versions were compared with the stored ones, and the offset of the next
    /// key in `watched_bytes`.
    pub(in crate::resp) compared: (usize, usize),
    pub(in crate::resp) key_locks: KeyLocks,
    /// The number of database exchanges (`SWAPDB`) before this transaction was created. If it has grown since,
    /// `key_locks` may lack keys.
    pub(in crate::resp) swaps: u64,
    pub(in crate::resp) out: OutBuffer,
    /// The start of the current request's reply in `out`, the replies to all requests.
    pub(in crate::resp) answer_at: Position,
    /// The number of bytes of the first block of `out` that are already in the connection's output.
    pub(in crate::resp) sent: usize,
    /// The replies that the client wants.
    pub(in crate::resp) answers: Answers,
    /// The instant at which the bytes of the request that began the transaction were available.
    pub(in crate::resp) ready: Ticks,
    /// The instant at which the first request of the transaction began.
    pub(in crate::resp) begun: Ticks,
}

impl Transaction {
    pub(in crate::resp) fn new(key_locks: KeyLocks, budget: &Arc<Budget>) -> Self {
        Self {
            stage: Stage::Watching,
            is_aborted: false,
            is_single_command: false,
            has_writes: false,
            only_reads: false,
            has_script: false,
            has_right: false,
            number: None,
            has_failed: false,
            replies_dropped: false,
            entry: None,
            exec_name: *b"EXEC",
            queue: Vec::new(),
            commands: 0,
            held: Grant::none(budget, budget::MemoryUse::Queued),
            at: 0,
            current: None,
            words: None,
            namespaces: 0,
            watched: Vec::new(),
            watched_bytes: Vec::new(),
            watched_hashes: HashSet::new(),
            compared: (0, 0),
            key_locks,
            swaps: 0,
            out: OutBuffer::beside(budget),
            answer_at: Position::default(),
            sent: 0,
            answers: Answers::All,
            ready: Ticks(0),
            begun: Ticks(0),
        }
    }

    /// Resets the transaction for reuse. Each of its buffers retains at most `bytes` bytes. The transaction holds no
    /// client memory until it is used again.
    pub(in crate::resp) fn reset(&mut self, bytes: usize, budget: &Arc<Budget>) {
        self.stage = Stage::Watching;
        (self.is_aborted, self.is_single_command, self.replies_dropped, self.only_reads) = (false, false, false, false);
        (self.commands, self.at, self.sent, self.answer_at) = (0, 0, 0, Position::default());
        (self.entry, self.answers, self.namespaces, self.has_writes) = (None, Answers::All, 0, false);
        (self.has_script, self.number, self.has_failed) = (false, None, false);
        self.queue.clear();
        self.queue.shrink_to(bytes);
        self.unwatch();
        self.watched.shrink_to(bytes / size_of::<Watched>());
        self.watched_bytes.shrink_to(bytes);
        self.watched_hashes.shrink_to(bytes / size_of::<Watched>());
        self.out.discard();
        if self.out.capacity() > bytes {
            self.out = OutBuffer::beside(budget);
        }
        (self.current, self.words) = (None, None);
        self.out.rest();
        self.held.shrink(0);
    }

    /// Returns the memory of a transaction in bytes, without its replies. The arguments are the capacities of its
    /// buffers.
    pub(in crate::resp) fn cost(queue: usize, watched: usize, watched_bytes: usize) -> u64 {
        (size_of::<Self>() + queue + watched * (size_of::<Watched>() + HASH_BYTES) + watched_bytes) as u64
    }

    /// Makes room for `more` bytes of requests. Returns false if client memory is used up.
    pub(in crate::resp) fn room_to_queue(&mut self, more: usize) -> bool {
        let queue = grown(self.queue.capacity(), self.queue.len() + more);
        let has = self.held.resize(Self::cost(queue, self.watched.capacity(), self.watched_bytes.capacity()));
        if has {
            self.queue.reserve_exact(queue - self.queue.len());
        }
        has
    }

    /// Makes room for one more watched key of `more` bytes. Returns false if client memory is used up.
    pub(in crate::resp) fn room_to_watch(&mut self, more: usize) -> bool {
        let watched = grown(self.watched.capacity(), self.watched.len() + 1);
        let bytes = grown(self.watched_bytes.capacity(), self.watched_bytes.len() + more);
        let has = self.held.resize(Self::cost(self.queue.capacity(), watched, bytes));
        if has {
            self.watched.reserve_exact(watched - self.watched.len());
            self.watched_bytes.reserve_exact(bytes - self.watched_bytes.len());
        }
        has
    }

    /// Makes room for a short reply to each queued request. Returns false if client memory is used up.
    pub(in crate::resp) fn room_to_answer(&mut self) -> bool {
        let want = ANSWER_BYTES.max(self.commands as usize * SHORT_ANSWER_BYTES);
        self.out.renew_charge() && self.out.make_room(want)
    }

    /// Makes room for `more` bytes of requests and for a short reply, even if client memory is used up. Used for a
    /// command whose execution has already begun, and which must therefore be completed.
    pub(in crate::resp) fn force_room(&mut self, more: usize) {
        self.held.force(Self::cost(
            self.queue.capacity().max(self.queue.len() + more),
            self.watched.capacity(),
            self.watched_bytes.capacity(),
        ));
        self.out.force_room(ANSWER_BYTES);
    }

    /// Appends `answer`, the part of the reply that was written before the command became a transaction.
    pub(in crate::resp) fn store_reply(&mut self, answer: &[u8]) {
        self.out.force_room(answer.len());
        self.out.push(answer);
    }

    /// Returns the instant at which the first request began, and the memory of the replies in bytes. Returns `None`
    /// unless the replies are being sent.
    pub(in crate::resp) fn answer_held(&self) -> Option<(Ticks, u64)> {
        (self.stage == Stage::Replying).then(|| (self.begun, self.out.held()))
    }

    pub(in crate::resp) fn unwatch(&mut self) {
        self.watched.clear();
        self.watched_bytes.clear();
        self.watched_hashes.clear();
        self.compared = (0, 0);
    }

    /// Returns each watched key with its version.
    pub(in crate::resp) fn watched(&self) -> impl Iterator<Item = (&[u8], &Watched)> {
        let mut from = 0;
        self.watched.iter().map(move |watched| {
            let bytes = &self.watched_bytes[std::mem::replace(&mut from, watched.end)..watched.end];
            (bytes, watched)
        })
    }

    /// Returns the transaction in the form in which it moves to another process. None of it is executed yet.
    pub(in crate::resp) fn to_handover(&self) -> HandoverTransaction {
        debug_assert!(matches!(self.stage, Stage::Watching | Stage::Queueing), "{:?}", self.stage);
        let watch = |(key, watched): (&[u8], &Watched)| HandoverWatch {
            namespace: watched.namespace,
            key: key.to_vec(),
            version: Some(watched.version),
        };
        HandoverTransaction {
            is_queueing: self.stage == Stage::Queueing,
            is_aborted: self.is_aborted,
            queue: self.queue.clone(),
            watched: self.watched().map(watch).collect(),
        }
    }

    /// Adds a watched key. Returns false if client memory is used up.
    pub(in crate::resp) fn watch(&mut self, key: &Key<'_>, watched: Watched) -> bool {
        let has_room = self.room_to_watch(key.bytes().len());
        if has_room {
            self.watched_bytes.extend_from_slice(key.bytes());
            self.watched_hashes.insert(key.hash());
            self.watched.push(Watched { end: self.watched_bytes.len(), ..watched });
        }
        has_room
    }

    /// Returns true if a watched key has changed. The caller has acquired the key lock set.
    ///
    /// # Errors
    /// [`SessionWait::Yield`] if there are too many keys for one visit. [`SessionWait::Parked`] if a key's version
    /// cannot be read now.
    pub(in crate::resp) fn is_watched_changed(
        &mut self,
        guard: &mut Guard<'_>,
        ops: &mut usize,
        namespaces: &Namespaces,
    ) -> Result<bool, SessionWait> {
        while let Some(watched) = self.watched.get(self.compared.0) {
            if *ops >= OPS_A_BATCH {
                return Err(SessionWait::Yield);
            }
            *ops += 1;
            let bytes = &self.watched_bytes[self.compared.1..watched.end];
            let mut version = |namespace| {
                let key = guard.key(namespace, bytes);
                guard.versions().version(&key).map_err(|_| SessionWait::Parked)
            };
            let before = version(watched.namespace)?;
            let is_changed = if namespaces.swaps_of(watched.database) == watched.swaps {
                before != watched.version
            } else {
                // As in Redis, the exchange of its database changes a key that exists in one of them.
                let now = version(namespaces.databases().namespace(watched.database))?;
                [before, now, watched.version].iter().any(|version| !matches!(version, Version::Absent(..)))
            };
            if is_changed {
                return Ok(true);
            }
            self.compared = (self.compared.0 + 1, watched.end);
        }
        Ok(false)
    }
}

impl Transaction {
    /// Resets the progress of the transaction, so that it acquires its key lock set and executes all requests again.
    pub(in crate::resp) fn restart(&mut self) {
        (self.stage, self.at, self.current, self.has_failed) = (Stage::Obtaining, 0, None, false);
        self.answer_at = Position::default();
        self.out.discard();
    }

    /// Queues one request as the only request of the transaction. Returns false if client memory is used up. If
    /// `is_begun` is true, the request has already begun, and the function cannot fail.
    pub(in crate::resp) fn set_single_request(
        &mut self,
        entry: &'static CommandSpec,
        args: Args<'_>,
        is_begun: bool,
    ) -> bool {
        let words = args.len() as u32 + 1;
        let bytes = HEAD_BYTES_MAX + entry.name.len() + args.wire_bytes();
        if is_begun {
            self.force_room(bytes);
        } else if !self.room_to_queue(bytes) || !self.room_to_answer() {
            return false;
        }
        debug_assert!(self.queue.is_empty(), "the request is the only one");
        reply::array(&mut self.queue, words.into());
        self.words = Some((self.queue.len(), words));
        reply::bulk(&mut self.queue, entry.name.as_bytes());
        self.queue.extend_from_slice(args.wire());
        (self.commands, self.is_single_command, self.entry) = (1, true, Some(entry));
        self.only_reads = entry.has(catalog::Flag::ReadOnly);
        true
    }
}

/// Ended transactions whose memory a worker retains for reuse.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "a connection has its transaction in the same box")]
pub struct RetiredTransactions(pub(in crate::resp) Vec<Box<Transaction>>);

/// The maximum number of ended transactions that a worker retains, so that the next one allocates nothing.
pub(in crate::resp) const SPARE_MAX: usize = 4;

/// The maximum length in bytes of what precedes the arguments of a single request, without the command's name.
const HEAD_BYTES_MAX: usize = 32;

/// The initial size of the buffer for replies, in bytes.
pub(in crate::resp) const ANSWER_BYTES: usize = 16 << 10;

/// The maximum number of bytes of requests that one connection queues.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;

/// The maximum number of bytes of replies that one transaction retains until its client reads them. If a storable value
/// may be longer, the limit is higher (see [`answers_bytes_max`]). A request whose reply does not fit is not executed,
/// and its reply is an error.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Returns the maximum number of bytes of replies that one transaction retains. It has room for a value of the maximum
/// length.
pub(in crate::resp) fn answers_bytes_max(config: &Config) -> usize {
    ANSWER_BYTES_MAX.max(config.item_bytes_max as usize + 2 * LINE_ROOM)
}
