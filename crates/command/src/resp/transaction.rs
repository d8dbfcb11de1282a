//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`: what is queued and what is watched, until it is executed.
//!
//! ```text
//!   WATCH k ──> Watching ──MULTI──> Queueing ──EXEC──> Obtaining ──> Running ──> Telling ──> none      see `atomic`
//!                                      └─DISCARD, EXEC of a refused request, RESET──> none
//! ```
//!
//! A watched key counts as changed when its item is another one, is gone, or ends at another time; one that was absent
//! when it came, though it may have gone again ([`segment::Version`]).

use super::atomic;
use super::catalog::{self, Entry, entry};
use super::error::Fault;
use crate::context::WorkerContext;
use crate::handover::{CarriedTransaction, CarriedWatch};
use crate::keyspace::namespaces::Namespaces;
use crate::memory::budget::{self, Budget, Grant};
use crate::metrics::Command;
use crate::resp::call::{Call, CommandFunctions, Run, Stop};
use crate::resp::session::{Answers, SessionState};
use crate::visit::clock::{Moment, Ticks};
use crate::visit::out::{OutBuffer, Spot};
use crate::visit::progress::{OPS_A_BATCH, State};
use protocol::resp::{Args, Limits, Parsed, Parser, reply};
use segment::{Guard, Key, KeyLocks, Namespace, Version};
use std::collections::HashSet;
use std::sync::Arc;

/// Keys that one connection watches.
pub const WATCHED_MAX: usize = 4096;
/// Bytes of an answer that says that something was done: what `EXEC` makes sure of before it begins.
const SHORT_ANSWER_BYTES: usize = 16;

/// The capacity that a buffer of `capacity` gets to hold `need`.
fn grown(capacity: usize, need: usize) -> usize {
    if need <= capacity { capacity } else { need.max(capacity + capacity / 2) }
}

/// Bytes of one hash in a set of them, and what that has beside it.
const HASH_BYTES: usize = 18;

/// Stage of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
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
struct Watched {
    /// Offset of the end of its bytes among those of all; they begin where the ones before end.
    end: usize,
    namespace: Namespace,
    version: Version,
}

/// A request of a queue that was read: it need not be read again when it goes on in another visit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    /// Offset of its arguments in the queue, and how many they are.
    pub(super) first: usize,
    pub(super) args: u32,
    /// Offset of the next request.
    pub(super) end: usize,
    /// Time at which it began. Relative times to live are counted from here, however many visits the request takes.
    pub(super) moment: Moment,
}

/// A connection's transaction.
pub(super) struct Transaction {
    pub(super) stage: Stage,
    /// A request was refused: nothing will be executed.
    is_spoilt: bool,
    /// A command that has become a transaction of its own: its answer is no array.
    pub(super) is_lone: bool,
    /// Such a one that changes nothing.
    pub(super) only_reads: bool,
    /// Its answers were too long to be kept.
    pub(super) is_cut: bool,
    pub(super) kind: Command,
    /// Requests, as they came.
    pub(super) queue: Vec<u8>,
    /// Number of the queued commands.
    pub(super) commands: u32,
    /// Its share of client memory, without its replies: see [`Transaction::cost`].
    held: Grant,
    /// Of the bytes of the queue, those that are done.
    pub(super) at: usize,
    /// The request at hand, if it was begun.
    pub(super) current: Option<Current>,
    /// Namespaces that its requests may be in, a bit each: those of the keys that are queued.
    namespaces: u32,
    watched: Vec<Watched>,
    watched_bytes: Vec<u8>,
    /// The hashes of the watched keys.
    watched_hashes: HashSet<u64>,
    /// Watched keys that were compared with what they were, and where the next one's bytes begin.
    compared: (usize, usize),
    pub(super) key_locks: KeyLocks,
    pub(super) out: OutBuffer,
    /// Start of the reply to the current request among those of all.
    pub(super) answer_at: Spot,
    /// Bytes of the first block of the replies that the client was sent.
    pub(super) told: usize,
    /// The replies that the client wants.
    pub(super) answers: Answers,
    /// Time at which the bytes of the request that began it were there.
    pub(super) ready: Ticks,
    /// Time at which its first request was begun.
    pub(super) begun: Ticks,
}

impl Transaction {
    pub(super) fn new(key_locks: KeyLocks, budget: &Arc<Budget>) -> Self {
        Self {
            stage: Stage::Watching,
            is_spoilt: false,
            is_lone: false,
            only_reads: false,
            is_cut: false,
            kind: atomic::KIND,
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
            told: 0,
            answers: Answers::All,
            ready: Ticks(0),
            begun: Ticks(0),
        }
    }

    /// Is as new, keeps no more than `bytes` in any buffer, and counts for nothing until it is used again.
    pub(super) fn forget(&mut self, bytes: usize, budget: &Arc<Budget>) {
        self.stage = Stage::Watching;
        (self.is_spoilt, self.is_lone, self.is_cut, self.only_reads) = (false, false, false, false);
        (self.commands, self.at, self.told, self.answer_at) = (0, 0, 0, Spot::default());
        (self.kind, self.answers, self.namespaces) = (atomic::KIND, Answers::All, 0);
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
    fn cost(queue: usize, watched: usize, watched_bytes: usize) -> u64 {
        (size_of::<Self>() + queue + watched * (size_of::<Watched>() + HASH_BYTES) + watched_bytes) as u64
    }

    /// Makes room for `more` bytes of requests; false if client memory is used up.
    pub(super) fn room_to_queue(&mut self, more: usize) -> bool {
        let queue = grown(self.queue.capacity(), self.queue.len() + more);
        let has = self.held.resize(Self::cost(queue, self.watched.capacity(), self.watched_bytes.capacity()));
        if has {
            self.queue.reserve_exact(queue - self.queue.len());
        }
        has
    }

    /// Makes room for one more watched key of so many bytes; false if client memory is used up.
    fn room_to_watch(&mut self, more: usize) -> bool {
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
    pub(super) fn room_to_answer(&mut self) -> bool {
        let want = atomic::ANSWER_BYTES.max(self.commands as usize * SHORT_ANSWER_BYTES);
        self.out.wake() && self.out.make_room(want)
    }

    /// Makes room for `more` bytes of requests, and for a short answer, whatever client memory is used: for a command
    /// that has changed something already.
    pub(super) fn force_room(&mut self, more: usize) {
        self.held.force(Self::cost(
            self.queue.capacity().max(self.queue.len() + more),
            self.watched.capacity(),
            self.watched_bytes.capacity(),
        ));
        self.out.force_room(atomic::ANSWER_BYTES);
    }

    /// The answer so far of what goes on here.
    pub(super) fn keep_answer(&mut self, answer: &[u8]) {
        self.out.force_room(answer.len());
        self.out.push(answer);
    }

    /// Returns when it was begun, and the bytes of its replies, while these are sent to its client.
    pub(super) fn answer_held(&self) -> Option<(Ticks, u64)> {
        (self.stage == Stage::Telling).then(|| (self.begun, self.out.held()))
    }

    fn unwatch(&mut self) {
        self.watched.clear();
        self.watched_bytes.clear();
        self.watched_hashes.clear();
        self.compared = (0, 0);
    }

    /// Each watched key with what it was.
    fn watched(&self) -> impl Iterator<Item = (&[u8], &Watched)> {
        let mut from = 0;
        self.watched.iter().map(move |watched| {
            let bytes = &self.watched_bytes[std::mem::replace(&mut from, watched.end)..watched.end];
            (bytes, watched)
        })
    }

    /// Returns the transaction as it moves to another process. Nothing of it is executed yet.
    pub(super) fn carried(&self) -> CarriedTransaction {
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
    fn watch(&mut self, key: &Key<'_>, namespace: Namespace, version: Version) -> bool {
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
    pub(super) fn is_watched_changed(&mut self, guard: &mut Guard<'_>, ops: &mut usize) -> Result<bool, State> {
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

impl SessionState {
    pub(super) fn is_queueing(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.stage == Stage::Queueing)
    }

    /// The request at hand was refused: if it was to be queued, what is queued will not be executed.
    #[cold]
    pub(super) fn spoil(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.is_spoilt |= transaction.stage == Stage::Queueing;
        }
    }
}

/// Queues the request, if one is to be queued; false if it is to be executed.
#[cold]
pub(super) fn queues<'c>(
    call: &mut Call<'c, '_>,
    entry: &'static Entry,
    args: Args<'c>,
    consumed: usize,
) -> Result<bool, Fault> {
    let at_once = matches!(entry.name, "multi" | "exec" | "discard" | "watch" | "quit" | "reset");
    if !call.session.is_queueing() || at_once {
        return Ok(false);
    }
    let Some(transaction) = &mut call.session.transaction else { return Ok(false) };
    if transaction.queue.len() + consumed > atomic::QUEUE_BYTES_MAX {
        return Err(Fault::QueueTooLong);
    }
    if !transaction.room_to_queue(consumed) {
        return Err(Fault::ClientMemory);
    }
    transaction.queue.extend_from_slice(&call.buf[call.at..call.at + consumed]);
    transaction.commands += 1;
    if entry.kind == Command::Flush {
        transaction.key_locks.add_all();
    }
    transaction.namespaces |= 1 << call.session.namespace.0;
    if entry.name == "select" {
        // Whether it will get there is not known yet, so what follows is kept from others in both.
        let to = args.into_iter().next().and_then(|text| call.ctx.shared.namespaces.find(text));
        transaction.namespaces |= to.map_or(0, |to| 1 << to.0);
    }
    for key in entry.keys_of(args) {
        let queued = transaction.namespaces;
        for namespace in Namespaces::numbers().filter(|namespace| queued & 1 << namespace.0 != 0) {
            transaction.key_locks.add(&call.guard.key(namespace, key));
        }
    }
    call.out.push(reply::QUEUED);
    Ok(true)
}

/// Restores a transaction whose queued requests are this call's buffer. False: client memory is used up.
pub(super) fn requeue(call: &mut Call<'_, '_>, carried: &CarriedTransaction) -> bool {
    let mut transaction = atomic::spare_transaction(call);
    for CarriedWatch { namespace, key, version } in &carried.watched {
        let key = call.guard.key(*namespace, key);
        let version = match version {
            // Differs from the version of any key.
            None => Version::Absent(u64::MAX, 0),
            Some(Version::Absent(..)) => call.guard.items().absent_at_open(),
            Some(version) => *version,
        };
        if !transaction.watch(&key, *namespace, version) {
            transaction.put_away(call.ctx);
            return false;
        }
    }
    if !transaction.room_to_queue(0) {
        transaction.put_away(call.ctx);
        return false;
    }
    transaction.stage = if carried.is_queueing { Stage::Queueing } else { Stage::Watching };
    transaction.is_spoilt = carried.is_spoilt;
    call.session.transaction = Some(transaction);
    let limits = Limits { long_bytes_min: u32::MAX, ..Limits::REDIS };
    while call.at < call.buf.len() {
        let Parsed::Request { mut args, consumed } = Parser::new().parse(&call.buf[call.at..], &limits) else {
            return false;
        };
        let mark = call.out.mark();
        let entry = args.next().and_then(catalog::find);
        if !entry.is_some_and(|entry| queues(call, entry, args, consumed) == Ok(true)) {
            // Another build may not know the command, or have other limits.
            call.session.spoil();
            break;
        }
        call.out.truncate(mark);
        call.at += consumed;
    }
    true
}

/// Discards what is queued and watched.
pub(super) fn discard_all(call: &mut Call<'_, '_>) {
    if let Some(transaction) = call.session.transaction.take() {
        transaction.put_away(call.ctx);
    }
}

pub(super) fn multi<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    if call.session.is_queueing() {
        return Err(Fault::NestedMulti.into());
    }
    let mut transaction = match call.session.transaction.take() {
        Some(watching) => watching,
        None => atomic::spare_transaction(call),
    };
    if !transaction.room_to_queue(0) {
        transaction.put_away(call.ctx);
        return Err(Fault::ClientMemory.into());
    }
    transaction.stage = Stage::Queueing;
    call.session.transaction = Some(transaction);
    call.out.push(reply::OK);
    Ok(())
}

pub(super) fn discard<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    if !call.session.is_queueing() {
        return Err(Fault::WithoutMulti("DISCARD").into());
    }
    discard_all(call);
    call.out.push(reply::OK);
    Ok(())
}

pub(super) fn exec<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    if !call.session.is_queueing() {
        return Err(Fault::WithoutMulti("EXEC").into());
    }
    let Some(mut transaction) = call.session.transaction.take() else { return Ok(()) };
    if transaction.is_spoilt {
        transaction.put_away(call.ctx);
        return Err(Fault::ExecAbort.into());
    }
    if !transaction.room_to_answer() {
        // Nothing is executed whose answers could not be kept.
        transaction.put_away(call.ctx);
        return Err(Fault::ClientMemory.into());
    }
    let Transaction { watched, watched_bytes, key_locks, stage, .. } = &mut *transaction;
    let mut from = 0;
    for watched in watched {
        key_locks.add(&call.guard.key(watched.namespace, &watched_bytes[from..watched.end]));
        from = watched.end;
    }
    *stage = Stage::Obtaining;
    atomic::begin(call, transaction);
    Err(Stop::UnderWay)
}

pub(super) fn watch<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if call.session.is_queueing() {
        return Err(Fault::WatchInMulti.into());
    }
    if !call.beside && args.len() > OPS_A_BATCH {
        return atomic::run_beside(call, entry("watch"), args);
    }
    let mut transaction = match call.session.transaction.take() {
        Some(watching) => watching,
        None => atomic::spare_transaction(call),
    };
    let watched = watch_each(call, &mut transaction, args);
    call.session.transaction = Some(transaction);
    watched?;
    call.out.push(reply::OK);
    Ok(())
}

fn watch_each<'c>(call: &mut Call<'c, '_>, transaction: &mut Transaction, args: Args<'c>) -> Run {
    call.each_key(args, |call, bytes| {
        let (namespace, key) = (call.session.namespace, call.key(bytes));
        let is_same = |(watched, what): (&[u8], &Watched)| watched == bytes && what.namespace == namespace;
        if transaction.watched_hashes.contains(&key.hash()) && transaction.watched().any(is_same) {
            return Ok(());
        }
        let room = atomic::QUEUE_BYTES_MAX / 64;
        if transaction.watched.len() >= WATCHED_MAX || transaction.watched_bytes.len() + bytes.len() > room {
            return Err(Fault::QueueTooLong.into());
        }
        let version = call.guard.versions().version(&key)?;
        if transaction.watch(&key, namespace, version) { Ok(()) } else { Err(Fault::ClientMemory.into()) }
    })
}

pub(super) fn unwatch<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    // Queued, it comes when nothing is watched any more.
    if call.session.transaction.as_ref().is_some_and(|transaction| transaction.stage == Stage::Watching) {
        discard_all(call);
    }
    call.out.push(reply::OK);
    Ok(())
}

/// Returns what the connection's transaction holds, if it has one. Returns false if the caller has to call it again in
/// a later iteration, because something is half done.
pub(super) fn end(
    session: &mut SessionState,
    guard: &mut Guard<'_>,
    ctx: &mut WorkerContext,
    functions: &'static CommandFunctions,
) -> bool {
    for transaction in [session.transaction.take(), session.under_way.take()].into_iter().flatten() {
        session.under_way = transaction.end(guard, session, ctx, functions);
    }
    session.under_way.is_none()
}
