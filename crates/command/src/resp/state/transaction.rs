//! The state of a transaction: watched keys, queued commands, and the replies so far.

use crate::config::Config;
use crate::handover::CarriedTransaction;
use crate::handover::CarriedWatch;
use crate::memory::budget;
use crate::memory::budget::Budget;
use crate::memory::budget::Grant;
use crate::metrics::Command;
use crate::resp::catalog;
use crate::resp::state::Answers;
use crate::visit::clock::Moment;
use crate::visit::clock::Ticks;
use crate::visit::out::LINE_ROOM;
use crate::visit::out::OutBuffer;
use crate::visit::out::Spot;
use crate::visit::progress::OPS_A_BATCH;
use crate::visit::progress::State;
use protocol::resp::Args;
use segment::Guard;
use segment::Key;
use segment::KeyLocks;
use segment::Namespace;
use segment::Version;
use std::collections::HashSet;
use std::sync::Arc;
/// Keys that one connection watches.
pub const WATCHED_MAX: usize = 4096;

/// Bytes of an answer that says that something was done: what `EXEC` makes sure of before it begins.
pub(in crate::resp) const SHORT_ANSWER_BYTES: usize = 16;

/// The capacity that a buffer of `capacity` gets to hold `need`.
pub(in crate::resp) fn grown(capacity: usize, need: usize) -> usize {
    if need <= capacity { capacity } else { need.max(capacity + capacity / 2) }
}

/// Bytes of one hash in a set of them, and what that has beside it.
pub(in crate::resp) const HASH_BYTES: usize = 18;

/// Stage of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum Stage {
    /// Keys are watched; requests are executed as they come.
    Watching,
    /// Requests are queued.
    Queueing,
    /// The key lock set of its keys is not had yet.
    Obtaining,
    /// Its requests are run.
    Running,
    /// All requests are done; the replies are being sent to the client.
    Telling,
}

/// A key that is watched, and what it was.
pub(in crate::resp) struct Watched {
    /// Offset of the end of its bytes among those of all; they begin where the ones before end.
    pub(in crate::resp) end: usize,
    pub(in crate::resp) namespace: Namespace,
    pub(in crate::resp) version: Version,
}

/// A request of a queue that was read: it need not be read again when it goes on in another visit.
#[derive(Clone, Copy, Debug)]
pub(in crate::resp) struct Current {
    /// Offset of its arguments in the queue, and how many they are.
    pub(in crate::resp) first: usize,
    pub(in crate::resp) args: u32,
    /// Offset of the next request.
    pub(in crate::resp) end: usize,
    /// Time at which it began. Relative times to live are counted from here, however many visits the request takes.
    pub(in crate::resp) moment: Moment,
}

/// A connection's transaction.
pub(in crate::resp) struct Transaction {
    pub(in crate::resp) stage: Stage,
    /// A request was refused: nothing will be executed.
    pub(in crate::resp) is_spoilt: bool,
    /// A command that has become a transaction of its own: its answer is no array.
    pub(in crate::resp) is_lone: bool,
    /// Such a one that changes nothing.
    pub(in crate::resp) only_reads: bool,
    /// Its answers were too long to be kept.
    pub(in crate::resp) is_cut: bool,
    pub(in crate::resp) kind: Command,
    /// Requests, as they came.
    pub(in crate::resp) queue: Vec<u8>,
    /// Number of the queued commands.
    pub(in crate::resp) commands: u32,
    /// Its share of client memory, without its replies: see [`Transaction::cost`].
    pub(in crate::resp) held: Grant,
    /// Bytes of the queue whose requests are done.
    pub(in crate::resp) at: usize,
    /// The request at hand, if it was begun.
    pub(in crate::resp) current: Option<Current>,
    /// Namespaces that its requests may be in, a bit each: those of the keys that are queued.
    pub(in crate::resp) namespaces: u32,
    pub(in crate::resp) watched: Vec<Watched>,
    pub(in crate::resp) watched_bytes: Vec<u8>,
    /// The hashes of the watched keys.
    pub(in crate::resp) watched_hashes: HashSet<u64>,
    /// Watched keys that were compared with what they were, and where the next one's bytes begin.
    pub(in crate::resp) compared: (usize, usize),
    pub(in crate::resp) key_locks: KeyLocks,
    pub(in crate::resp) out: OutBuffer,
    /// Start of the reply to the current request among those of all.
    pub(in crate::resp) answer_at: Spot,
    /// Bytes of the first block of the replies that the client was sent.
    pub(in crate::resp) sent: usize,
    /// The replies that the client wants.
    pub(in crate::resp) answers: Answers,
    /// Time at which the bytes of the request that began it were there.
    pub(in crate::resp) ready: Ticks,
    /// Time at which its first request was begun.
    pub(in crate::resp) begun: Ticks,
}

impl Transaction {
    pub(in crate::resp) fn new(key_locks: KeyLocks, budget: &Arc<Budget>) -> Self {
        Self {
            stage: Stage::Watching,
            is_spoilt: false,
            is_lone: false,
            only_reads: false,
            is_cut: false,
            kind: KIND,
            queue: Vec::new(),
            commands: 0,
            held: Grant::none(budget, budget::Kind::Queued),
            at: 0,
            current: None,
            namespaces: 0,
            watched: Vec::new(),
            watched_bytes: Vec::new(),
            watched_hashes: HashSet::new(),
            compared: (0, 0),
            key_locks,
            out: OutBuffer::beside(budget),
            answer_at: Spot::default(),
            sent: 0,
            answers: Answers::All,
            ready: Ticks(0),
            begun: Ticks(0),
        }
    }

    /// Is as new, keeps no more than `bytes` in any buffer, and counts for nothing until it is used again.
    pub(in crate::resp) fn forget(&mut self, bytes: usize, budget: &Arc<Budget>) {
        self.stage = Stage::Watching;
        (self.is_spoilt, self.is_lone, self.is_cut, self.only_reads) = (false, false, false, false);
        (self.commands, self.at, self.sent, self.answer_at) = (0, 0, 0, Spot::default());
        (self.kind, self.answers, self.namespaces) = (KIND, Answers::All, 0);
        self.queue.clear();
        self.queue.shrink_to(bytes);
        self.unwatch();
        self.watched.shrink_to(bytes / size_of::<Watched>());
        self.watched_bytes.shrink_to(bytes);
        self.watched_hashes.shrink_to(bytes / size_of::<Watched>());
        self.out.forget();
        if self.out.capacity() > bytes {
            self.out = OutBuffer::beside(budget);
        }
        self.current = None;
        self.out.rest();
        self.held.shrink(0);
    }

    /// Returns the memory of a transaction with buffers of such capacities, in bytes.
    pub(in crate::resp) fn cost(queue: usize, watched: usize, watched_bytes: usize) -> u64 {
        (size_of::<Self>() + queue + watched * (size_of::<Watched>() + HASH_BYTES) + watched_bytes) as u64
    }

    /// Makes room for `more` bytes of requests; false if client memory is used up.
    pub(in crate::resp) fn room_to_queue(&mut self, more: usize) -> bool {
        let queue = grown(self.queue.capacity(), self.queue.len() + more);
        let has = self.held.resize(Self::cost(queue, self.watched.capacity(), self.watched_bytes.capacity()));
        if has {
            self.queue.reserve_exact(queue - self.queue.len());
        }
        has
    }

    /// Makes room for one more watched key of so many bytes; false if client memory is used up.
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

    /// Makes room for the answers to as many requests as are queued, if they are short; false if client memory is used
    /// up.
    pub(in crate::resp) fn room_to_answer(&mut self) -> bool {
        let want = ANSWER_BYTES.max(self.commands as usize * SHORT_ANSWER_BYTES);
        self.out.wake() && self.out.make_room(want)
    }

    /// Makes room for `more` bytes of requests, and for a short answer, whatever client memory is used: for a command
    /// that has changed something already.
    pub(in crate::resp) fn force_room(&mut self, more: usize) {
        self.held.force(Self::cost(
            self.queue.capacity().max(self.queue.len() + more),
            self.watched.capacity(),
            self.watched_bytes.capacity(),
        ));
        self.out.force_room(ANSWER_BYTES);
    }

    /// The answer so far of what goes on here.
    pub(in crate::resp) fn keep_answer(&mut self, answer: &[u8]) {
        self.out.force_room(answer.len());
        self.out.push(answer);
    }

    /// Returns when it was begun, and the bytes of its replies, while these are sent to its client.
    pub(in crate::resp) fn answer_held(&self) -> Option<(Ticks, u64)> {
        (self.stage == Stage::Telling).then(|| (self.begun, self.out.held()))
    }

    pub(in crate::resp) fn unwatch(&mut self) {
        self.watched.clear();
        self.watched_bytes.clear();
        self.watched_hashes.clear();
        self.compared = (0, 0);
    }

    /// Each watched key with what it was.
    pub(in crate::resp) fn watched(&self) -> impl Iterator<Item = (&[u8], &Watched)> {
        let mut from = 0;
        self.watched.iter().map(move |watched| {
            let bytes = &self.watched_bytes[std::mem::replace(&mut from, watched.end)..watched.end];
            (bytes, watched)
        })
    }

    /// Returns the transaction as it moves to another process. Nothing of it is executed yet.
    pub(in crate::resp) fn carried(&self) -> CarriedTransaction {
        debug_assert!(matches!(self.stage, Stage::Watching | Stage::Queueing), "{:?}", self.stage);
        let watch = |(key, watched): (&[u8], &Watched)| CarriedWatch {
            namespace: watched.namespace,
            key: key.to_vec(),
            version: Some(watched.version),
        };
        CarriedTransaction {
            is_queueing: self.stage == Stage::Queueing,
            is_spoilt: self.is_spoilt,
            queue: self.queue.clone(),
            watched: self.watched().map(watch).collect(),
        }
    }

    /// Adds a watched key. False: client memory is used up.
    pub(in crate::resp) fn watch(&mut self, key: &Key<'_>, namespace: Namespace, version: Version) -> bool {
        let has_room = self.room_to_watch(key.bytes().len());
        if has_room {
            self.watched_bytes.extend_from_slice(key.bytes());
            self.watched_hashes.insert(key.hash());
            self.watched.push(Watched { end: self.watched_bytes.len(), namespace, version });
        }
        has_room
    }

    /// Returns whether a watched key has changed. The caller has obtained the key lock set.
    ///
    /// # Errors
    /// [`State::Yield`] after so many keys as a visit has room for, [`State::Parked`]: again in a later one.
    pub(in crate::resp) fn is_watched_changed(
        &mut self,
        guard: &mut Guard<'_>,
        ops: &mut usize,
    ) -> Result<bool, State> {
        while let Some(watched) = self.watched.get(self.compared.0) {
            if *ops >= OPS_A_BATCH {
                return Err(State::Yield);
            }
            *ops += 1;
            let key = guard.key(watched.namespace, &self.watched_bytes[self.compared.1..watched.end]);
            if guard.versions().version(&key).map_err(|_| State::Parked)? != watched.version {
                return Ok(true);
            }
            self.compared = (self.compared.0 + 1, watched.end);
        }
        Ok(false)
    }
}

impl Transaction {
    /// Starts the transaction over: none of it is done, and its key lock set is to be obtained.
    pub(in crate::resp) fn restart(&mut self) {
        (self.stage, self.at, self.current) = (Stage::Obtaining, 0, None);
        self.answer_at = Spot::default();
        self.out.forget();
    }

    /// Holds one request alone; false if client memory is used up, which does not count if the request is begun.
    pub(in crate::resp) fn hold(&mut self, entry: &catalog::Entry, args: Args<'_>, is_begun: bool) -> bool {
        let name = entry.name;
        let head = format!("*{}\r\n${}\r\n{name}\r\n", args.len() + 1, name.len());
        let bytes = head.len() + args.wire_bytes();
        if is_begun {
            self.force_room(bytes);
        } else if !self.room_to_queue(bytes) || !self.room_to_answer() {
            return false;
        }
        self.queue.extend_from_slice(head.as_bytes());
        self.queue.extend_from_slice(args.wire());
        (self.commands, self.is_lone, self.kind) = (1, true, entry.kind);
        self.only_reads = entry.has(catalog::Flag::ReadOnly);
        true
    }
}

/// Transactions that are done with.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "a connection has its transaction in the same box")]
pub struct Spares(pub(in crate::resp) Vec<Box<Transaction>>);

/// Transactions that a worker keeps at hand once they are done with, so that the next one allocates nothing.
pub(in crate::resp) const SPARE_MAX: usize = 4;

/// Bytes that the buffer for answers begins with.
pub(in crate::resp) const ANSWER_BYTES: usize = 16 << 10;

/// Bytes of requests that one connection queues.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;

/// Bytes of answers that one transaction keeps until its client takes them, if no value is longer. A request whose
/// answer would not fit is answered with an error instead, and not executed.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Bytes of answers that are kept at most, which have room for every value that can be stored now.
pub(in crate::resp) fn answers_bytes_max(config: &Config) -> usize {
    ANSWER_BYTES_MAX.max(config.item_bytes_max as usize + 2 * LINE_ROOM)
}

/// Kind that a request over several keys that has become a transaction counts for until it is known.
pub(in crate::resp) const KIND: Command = Command::Other;
