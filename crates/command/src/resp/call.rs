//! One visit to a session: the state that every command needs while it runs, and the ways in which a visit ends.

use super::catalog::{self, COMMAND_COUNT, CommandSpec};
use super::error::ErrorReply;
use super::session::{SessionState, tracking_id};
use crate::clients::client_info::ClientInfo;
use crate::context::WorkerContext;
use crate::lookup::large::IN_PLACE_BYTES_MIN;
use crate::metrics::Command;
use crate::metrics::command_counters::CommandCounters;
use crate::push::notify::KeyEvent;
use crate::push::waiters::WaitKey;
use crate::resp::state::Answers;
use crate::resp::state::long::Long;
use crate::visit::clock::Moment;
use crate::visit::out::LINE_ROOM;
use crate::visit::out::OutBuffer;
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use protocol::resp::{Args, Limits, reply};
use segment::{Delete, DeleteOutcome, Guard, Key, Namespace, OpError};
/// The state of one call of [`super::serve`]. Such a call is one visit to a session: the worker executes requests of
/// the session until it must wait or its share of work is used up. A step that cannot continue returns a
/// [`SessionWait`], which ends the visit.
pub(super) struct Call<'c, 'l> {
    pub(super) guard: &'c mut Guard<'l>,
    pub(super) buf: &'c [u8],
    /// The number of bytes at the start of `buf` that have been consumed.
    pub(super) at: usize,
    /// The offset in `buf` of the first request that has not been counted in the metrics yet.
    pub(super) line_at: usize,
    pub(super) out: &'c mut OutBuffer,
    pub(super) session: &'c mut SessionState,
    pub(super) ctx: &'c mut WorkerContext,
    /// The number of operations charged to this visit. A long request counts as several operations. The visit ends when
    /// [`OPS_A_BATCH`] are charged.
    pub(super) ops: usize,
    /// True if replies go into a separate buffer, not into the session's own output.
    pub(super) collects_replies: bool,
    /// True if all values are copied into the output, and none is sent from the store. The output can then be discarded
    /// again.
    pub(super) copies: bool,
    /// The numbers of lookups and of hits that are not counted yet, because the reads may be discarded.
    pub(super) reads: (u64, u64),
    /// The functions of all commands, indexed by [`CommandSpec::number`].
    pub(super) functions: &'static CommandFunctions,
    /// True if the current request was refused before its execution.
    pub(super) is_refused: bool,
    /// True if a blocking command may wait. It may not in a transaction of `MULTI`.
    pub(super) may_wait: bool,
}

/// The function of a command. Its arguments are those after the command's name.
pub(super) type CommandFunction = for<'c, 'l, 'x> fn(&'x mut Call<'c, 'l>, Args<'c>) -> Run;

/// The functions of all commands.
pub(super) type CommandFunctions = [CommandFunction; COMMAND_COUNT];

/// The result of a step. `Err` is the reason why the call ends.
pub(super) type Step = Result<(), SessionWait>;

/// The reason why a command's function ends without a complete reply.
pub(super) enum Interrupt {
    /// The request is executed again later.
    State(SessionWait),
    /// The reply is an error.
    Fault(ErrorReply),
    /// The reply is written, and the connection is closed after it.
    Quit,
    /// The request is consumed, and has become a transaction of the session, which is executed next.
    UnderWay,
    /// The request was queued in a transaction. The reply is `QUEUED`.
    Queued,
}

impl From<SessionWait> for Interrupt {
    fn from(state: SessionWait) -> Self {
        Self::State(state)
    }
}

impl From<ErrorReply> for Interrupt {
    fn from(fault: ErrorReply) -> Self {
        Self::Fault(fault)
    }
}

impl From<OpError> for Interrupt {
    fn from(error: OpError) -> Self {
        match error {
            OpError::Parked => Self::State(SessionWait::Parked),
            OpError::TooLarge => Self::Fault(ErrorReply::TooLong),
            OpError::OutOfMemory => Self::Fault(ErrorReply::OutOfMemory),
        }
    }
}

/// The result of a command's function.
pub(super) type Run = Result<(), Interrupt>;

impl<'c, 'l> Call<'c, 'l> {
    /// Creates a call that has not executed anything yet. Its replies go into the session's own output.
    pub(super) fn new(
        (guard, ctx): (&'c mut Guard<'l>, &'c mut WorkerContext),
        buf: &'c [u8],
        out: &'c mut OutBuffer,
        session: &'c mut SessionState,
        functions: &'static CommandFunctions,
    ) -> Self {
        Self {
            guard,
            buf,
            at: 0,
            line_at: 0,
            out,
            session,
            ctx,
            ops: 0,
            collects_replies: false,
            copies: false,
            reads: (0, 0),
            functions,
            is_refused: false,
            may_wait: true,
        }
    }
}

impl<'c> Call<'c, '_> {
    /// Returns true if this visit has used up its share of operations or its time. Reads the clock.
    pub(super) fn is_slice_used(&self) -> bool {
        self.ops >= self.ctx.pace.share() || self.ctx.pace.is_slice_over(self.ctx.clock.ticks())
    }

    /// Returns true if a query of a graph must end its slice: a short one while other sessions have requests.
    pub(super) fn is_query_slice_used(&self) -> bool {
        self.ctx.pace.is_query_slice_over(self.ops, self.ctx.clock.ticks())
    }

    /// Runs the function of a command.
    pub(super) fn run(&mut self, entry: &'static CommandSpec, args: Args<'c>) -> Run {
        if self.guard.is_tiered() {
            return self.run_with_flash(entry, args);
        }
        (self.functions[entry.number])(self, args)
    }

    /// Runs a command on a store with flash. While a command looks up an item, the item may move between memory and
    /// flash. If a read-only command misses such an item, the command is parked and run again. Commands that write look
    /// up the item under the key's lock.
    #[cold]
    fn run_with_flash(&mut self, entry: &'static catalog::CommandSpec, args: Args<'c>) -> Run {
        let may_start_over = self.session.done == 0 && entry.has(catalog::Flag::ReadOnly);
        let _ = self.guard.tier().take_false_miss();
        let ran = (self.functions[entry.number])(self, args);
        let is_answered = matches!(ran, Ok(()) | Err(Interrupt::Fault(_)));
        if may_start_over && is_answered && self.guard.tier().take_false_miss() {
            self.session.end_request();
            return Err(SessionWait::Parked.into());
        }
        ran
    }

    pub(super) fn limits(&self) -> Limits {
        let limits = if self.is_unauthenticated() { Limits::UNAUTHENTICATED } else { Limits::REDIS };
        let long_bytes_min = limits.long_bytes_min.max(IN_PLACE_BYTES_MIN as u32);
        Limits { request_bytes_max: self.ctx.request_bytes_max, long_bytes_min, ..limits }
    }

    /// Returns the parser's limits for a request that must be received into a buffer completely before it is executed.
    pub(super) fn waiting_limits(&self) -> Limits {
        Limits { long_bytes_min: u32::MAX, ..self.limits() }
    }

    /// Returns the input that has not been consumed.
    pub(super) fn rest(&self) -> &'c [u8] {
        &self.buf[self.at..]
    }

    /// Returns true if this connection's client must authenticate first.
    pub(super) fn is_unauthenticated(&self) -> bool {
        !self.session.known && self.ctx.admission.requires_authentication
    }

    #[cold]
    pub(super) fn fatal(&mut self, error: protocol::resp::ProtocolError) -> Step {
        self.at = self.buf.len();
        self.counters().protocol_errors.add(1);
        error.put(self.out);
        self.ctx.command_stats().record_error(b"ERR");
        self.done(Command::Other, b"");
        Err(SessionWait::Close)
    }

    /// Handles a record that could not be read, because a part is lost or the record was changed during the read.
    /// Deletes the record if a part is lost. Returns the wait state after which the request is executed again.
    #[cold]
    pub(super) fn retry_after_lost_part<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) -> SessionWait {
        for bytes in keys {
            let key = self.key(bytes);
            // If a record's lock is not available, the next execution of the request tries again.
            let _ = self.guard.parts_mut().end_broken(&key);
        }
        self.ctx.retry_at_once = true;
        SessionWait::Parked
    }

    /// Calls `look` with the connection's client info, which `look` may read or change. Returns `None` if the
    /// connection has no client info.
    pub(super) fn with_client_info<T>(&self, look: impl FnOnce(&mut ClientInfo) -> T) -> Option<T> {
        self.ctx.connection_table().client_info(self.ctx.push.watch.connection, look)
    }

    /// Returns the connection's number, which is unique among all connections since the server's start.
    pub(super) fn id(&self) -> u64 {
        self.with_client_info(|client_info| client_info.id).unwrap_or(0)
    }

    pub(super) fn fault(&mut self, fault: ErrorReply) {
        match fault {
            ErrorReply::TooLong => self.counters().store_too_large.add(1),
            ErrorReply::OutOfMemory => self.counters().store_no_memory.add(1),
            _ => {}
        }
        fault.write(self.out);
    }

    /// Removes the reply of a request of the command `entry` if the client has switched replies off. Values for such a
    /// client were not written at all (see `value_reply::reply_value`). `before` is the client's setting before the
    /// request. The request itself may have changed the setting: the reply to `CLIENT REPLY ON` is wanted.
    #[inline]
    pub(super) fn remove_unwanted_reply(&mut self, mark: usize, before: Answers, entry: Option<&CommandSpec>) {
        if self.session.answers != Answers::All {
            self.switch_replies(mark, before, entry);
        }
    }

    #[cold]
    fn switch_replies(&mut self, mark: usize, before: Answers, entry: Option<&CommandSpec>) {
        let keeps = before.wants_reply() || entry.is_some_and(|entry| entry.replies_in_pushes(self.out.since(mark)));
        if !keeps {
            self.out.truncate(mark);
        }
        self.session.answers = match self.session.answers {
            Answers::SkipNext => Answers::All,
            Answers::SkipAfter => Answers::SkipNext,
            lasting => lasting,
        };
    }

    pub(super) fn counters(&self) -> &CommandCounters {
        &self.ctx.shared.workers[self.ctx.worker].commands[usize::from(self.session.namespace.0)]
    }

    pub(super) fn done(&mut self, command: Command, line: &[u8]) {
        self.ops += 1;
        self.ctx.ops_done(self.out, self.session.namespace, (command, 1), line);
    }

    /// Returns the instant from which the current request's relative times count. For a request that takes several
    /// visits, this is the instant at which it began.
    pub(super) fn moment(&self) -> Moment {
        if self.collects_replies { self.session.moment } else { self.ctx.moment() }
    }

    /// Returns an error unless the output buffer has room for `bytes` bytes and one protocol line.
    pub(super) fn room(&self, bytes: usize) -> Step {
        let want = LINE_ROOM + bytes;
        if self.out.room() < want { Err(SessionWait::OutputFull { want }) } else { Ok(()) }
    }

    /// Returns a key in the form in which clients wait for it.
    pub(super) fn wait_key<'k>(&self, bytes: &'k [u8]) -> WaitKey<'k> {
        WaitKey { namespace: self.session.namespace, hash: self.key(bytes).hash(), bytes, group: b"" }
    }

    #[inline(always)]
    pub(super) fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.guard.key(self.session.namespace, bytes)
    }

    pub(super) fn null(&mut self) {
        reply::null(self.out, self.session.version);
    }

    pub(super) fn int(&mut self, number: i64) {
        reply::int(self.out, number);
    }

    /// Notifies the clients that are subscribed to changes of this key, if notifications are on, and those that wait
    /// for the key or have cached its value.
    #[inline]
    pub(super) fn changed(&mut self, event: KeyEvent, key: &[u8]) {
        if self.ctx.push.watch.watched.reports_changes() {
            report_change(self, event, (self.session.namespace, key));
        }
    }

    /// Removes a key as `delete` requests. If its item had expired and the background has not removed it yet, notifies
    /// the clients of its expiry.
    pub(super) fn remove(&mut self, key: &Key<'_>, delete: &Delete) -> Result<DeleteOutcome, OpError> {
        let outcome = self.guard.items_mut().delete(key, delete)?;
        if outcome == DeleteOutcome::Expired && self.ctx.push.watch.watched.reports_changes() {
            // As in Redis, no client is the author of an expiry: `NOLOOP` does not hide it.
            self.ctx.report_expired(self.session.namespace, key.bytes());
        }
        Ok(outcome)
    }

    /// Invalidates the copies of clients that have cached the value of a key, which was created without a value.
    pub(super) fn invalidate(&mut self, key: &[u8]) {
        if self.ctx.push.watch.watched.has_trackers() {
            self.ctx.invalidate(self.session.namespace, key, tracking_id(self.session));
        }
    }

    /// Notifies the same clients of a change of a key in any namespace.
    pub(super) fn changed_in(&mut self, namespace: Namespace, event: KeyEvent, key: &[u8]) {
        if self.ctx.push.watch.watched.reports_changes() {
            report_change(self, event, (namespace, key));
        }
    }

    /// Counts a key that was read.
    pub(super) fn count_read(&mut self, hit: bool) {
        self.count_reads(1, u64::from(hit));
    }

    /// Counts lookups of keys, and the hits among them. Reads that may be discarded are counted when they are final.
    pub(super) fn count_reads(&mut self, reads: u64, hits: u64) {
        if self.copies {
            self.reads.0 += reads;
            self.reads.1 += hits;
            return;
        }
        let counters = self.counters();
        counters.cmd_get.add(reads);
        counters.get_hits.add(hits);
        counters.get_misses.add(reads - hits);
    }

    /// Calls `each` for every key in `args`, except the keys that an earlier visit has processed.
    pub(super) fn each_key(&mut self, args: Args<'c>, mut each: impl FnMut(&mut Self, &'c [u8]) -> Run) -> Run {
        let mut left = self.args_after(args, self.session.done);
        loop {
            let Some(key) = left.next() else { return Ok(()) };
            self.room(0)?;
            if self.ops >= OPS_A_BATCH {
                return Err(SessionWait::Yield.into());
            }
            each(self, key)?;
            self.session.done += 1;
            self.record_position(args, left, self.session.done);
            self.ops += 1;
        }
    }

    /// Returns the arguments after the first `count`. If [`Call::record_position`] has recorded their start, no
    /// argument is parsed again.
    pub(super) fn args_after(&self, args: Args<'c>, count: u32) -> Args<'c> {
        let (passed, bytes) = self.session.passed;
        if count > 0 && passed == count {
            return args.after(count, bytes as usize);
        }
        let mut left = args;
        (0..count).all(|_| left.next().is_some());
        left
    }

    /// Records the start of the arguments `left`, which follow the first `count` of the request's `args`.
    pub(super) fn record_position(&mut self, args: Args<'c>, left: Args<'c>, count: u32) {
        self.session.passed = (count, (args.wire_bytes() - left.wire_bytes()) as u32);
    }
}

/// Records a change of `key` for clients that wait for it, invalidates the copies of clients that have cached its
/// value, and publishes the change if notifications are on.
#[cold]
fn report_change(call: &mut Call<'_, '_>, event: KeyEvent, (namespace, key): (Namespace, &[u8])) {
    let watched = call.ctx.push.watch.watched;
    if watched.has_waiters() && event.concerns_waiters() {
        let hash = call.guard.key(namespace, key).hash();
        let key = WaitKey { namespace, hash, bytes: key, group: b"" };
        if call.ctx.shared.waiters.may_have(key.hash) {
            record_change(call, event, key);
        }
    }
    if watched.has_trackers() && event.is_change() {
        let author = tracking_id(call.session);
        call.ctx.invalidate(namespace, key, author);
    }
    if watched.has_key_events() && namespace == call.session.namespace {
        publish_change(call.ctx, call.session, event, key);
    } else if watched.has_key_events() {
        // The misses of the request are those of its own namespace.
        call.ctx.publish_change(namespace, event, key);
    }
}

/// Records that the current request has changed a key with waiters. The change is announced when the request is done,
/// or at once if the request has no key lock set and may change more keys.
#[cold]
fn record_change(call: &mut Call<'_, '_>, event: KeyEvent, key: WaitKey<'_>) {
    // These requests may have more keys than are changed together. They then continue after this change.
    let is_one_of_many = matches!(event, KeyEvent::DEL | KeyEvent::SET) && !call.guard.locks().is_attached();
    if !is_one_of_many && Long::may_wait(&call.session.long) {
        return Long::waits_mut(&mut call.session.long).fill(key);
    }
    // No key lock hides the change.
    let key = call.guard.key(key.namespace, key.bytes);
    call.ctx.announce(&key);
}

/// Publishes a change of `key`. First publishes the misses of the request, and that the change creates the key, if it
/// does.
#[cold]
fn publish_change(ctx: &mut WorkerContext, session: &mut SessionState, event: KeyEvent, key: &[u8]) {
    if let Some(absent) = &mut session.absent {
        absent.take_misses().for_each(|miss| ctx.publish_change(session.namespace, KeyEvent::KEYMISS, miss));
        if event.may_create() && absent.remove(key) && event != KeyEvent::NEW {
            ctx.publish_change(session.namespace, KeyEvent::NEW, key);
        }
    }
    ctx.publish_change(session.namespace, event, key);
}
