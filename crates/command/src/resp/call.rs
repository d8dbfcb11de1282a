//! One visit to a session: what every command needs while it runs, and the ways in which it ends.

use super::catalog::{self, COMMAND_COUNT, Entry};
use super::error::Fault;
use super::session::SessionState;
use crate::clients::client_info::ClientInfo;
use crate::context::WorkerContext;
use crate::lookup::large::ARRIVING_BYTES_MIN;
use crate::metrics::Command;
use crate::metrics::command_counters::CommandCounters;
use crate::push::notify::Event;
use crate::resp::state::Answers;
use crate::visit::clock::Moment;
use crate::visit::out::LINE_ROOM;
use crate::visit::out::OutBuffer;
use crate::visit::progress::{OPS_A_BATCH, State};
use protocol::resp::{Args, Limits, reply};
use segment::{Guard, Key, OpError};
/// One call of [`super::serve`]. Its steps end with the state that keeps the next one from being made.
pub(super) struct Call<'c, 'l> {
    pub(super) guard: &'c mut Guard<'l>,
    pub(super) buf: &'c [u8],
    /// Bytes of `buf` consumed.
    pub(super) at: usize,
    /// Offset of the requests of a run that are not accounted for yet, in bytes.
    pub(super) line_at: usize,
    pub(super) out: &'c mut OutBuffer,
    pub(super) session: &'c mut SessionState,
    pub(super) ctx: &'c mut WorkerContext,
    /// Operations done, and those that the session may not have in this visit.
    pub(super) ops: usize,
    /// Its answers go into a buffer beside the session's own.
    pub(super) beside: bool,
    /// Values are copied into the output, whatever their length, so that they can be taken back.
    pub(super) copies: bool,
    /// Keys asked for, and found, that are not counted as long as what was read may be taken back.
    pub(super) reads: (u64, u64),
    /// The functions of all commands, by [`Entry::number`].
    pub(super) functions: &'static CommandFunctions,
}

/// The function of a command. It gets the arguments behind the command's name.
pub(super) type CommandFunction = for<'c, 'l, 'x> fn(&'x mut Call<'c, 'l>, Args<'c>) -> Run;

/// The functions of all commands.
pub(super) type CommandFunctions = [CommandFunction; COMMAND_COUNT];

/// `Err` says why the call ends here.
pub(super) type Step = Result<(), State>;

/// Why a command's function ends before it has answered.
pub(super) enum Stop {
    /// It is asked again.
    State(State),
    /// It is answered with an error.
    Fault(Fault),
    /// It is answered; the connection ends.
    Quit,
    /// It is consumed, and has become the session's transaction.
    UnderWay,
    /// It is queued, and answered so.
    Queued,
}

impl From<State> for Stop {
    fn from(state: State) -> Self {
        Self::State(state)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<OpError> for Stop {
    fn from(error: OpError) -> Self {
        match error {
            OpError::Parked => Self::State(State::Parked),
            OpError::TooLarge => Self::Fault(Fault::TooLong),
            OpError::OutOfMemory => Self::Fault(Fault::OutOfMemory),
        }
    }
}

/// Result of a command's function.
pub(super) type Run = Result<(), Stop>;

impl<'c, 'l> Call<'c, 'l> {
    /// Creates a call that has done nothing, whose replies go to the session's own buffer.
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
            beside: false,
            copies: false,
            reads: (0, 0),
            functions,
        }
    }
}

impl<'c> Call<'c, '_> {
    /// Returns whether this visit has used its slice, by its operations or by the clock, which is read.
    pub(super) fn is_spent(&self) -> bool {
        self.ops >= self.ctx.pace.share() || self.ctx.pace.is_slice_over(self.ctx.clock.ticks())
    }

    /// Runs the function of a command.
    pub(super) fn run(&mut self, entry: &'static Entry, args: Args<'c>) -> Run {
        if self.guard.is_tiered() {
            return self.run_settled(entry, args);
        }
        (self.functions[entry.number])(self, args)
    }

    /// Runs a command of a store with flash. An item may move between memory and flash while a command reads. If a
    /// read-only command misses such an item, it is parked and run again. Commands that write look under the lock.
    #[cold]
    fn run_settled(&mut self, entry: &'static catalog::Entry, args: Args<'c>) -> Run {
        let may_start_over = self.session.done == 0 && entry.has(catalog::Flag::ReadOnly);
        let _ = self.guard.tier().take_false_miss();
        let ran = (self.functions[entry.number])(self, args);
        let is_answered = matches!(ran, Ok(()) | Err(Stop::Fault(_)));
        if may_start_over && is_answered && self.guard.tier().take_false_miss() {
            self.session.end_request();
            return Err(State::Parked.into());
        }
        ran
    }

    pub(super) fn limits(&self) -> Limits {
        let limits = if self.is_stranger() { Limits::UNAUTHENTICATED } else { Limits::REDIS };
        let long_bytes_min = limits.long_bytes_min.max(ARRIVING_BYTES_MIN as u32);
        Limits { request_bytes_max: self.ctx.request_bytes_max, long_bytes_min, ..limits }
    }

    /// Returns the limits for a request that the session waits for, as far as there is a buffer for it.
    pub(super) fn waiting_limits(&self) -> Limits {
        Limits { long_bytes_min: u32::MAX, ..self.limits() }
    }

    /// Returns the input that has not been consumed.
    pub(super) fn rest(&self) -> &'c [u8] {
        &self.buf[self.at..]
    }

    /// Returns true if this connection's client has to authenticate first.
    pub(super) fn is_stranger(&self) -> bool {
        !self.session.known && self.ctx.admission.asks
    }

    #[cold]
    pub(super) fn fatal(&mut self, error: protocol::resp::ProtocolError) -> Step {
        self.at = self.buf.len();
        self.counters().protocol_errors.add(1);
        error.put(self.out);
        self.done(Command::Other, b"");
        Err(State::Close)
    }

    /// A record of many parts has lost one, or was changed while it was looked at: the request is asked again. One that
    /// has lost a part is gone then.
    #[cold]
    pub(super) fn look_again<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) -> State {
        for bytes in keys {
            let key = self.key(bytes);
            // One whose lock is not had is looked at again with the request.
            let _ = self.guard.parts_mut().end_broken(&key);
        }
        self.ctx.hurries = true;
        State::Parked
    }

    /// Returns what `look` reads from or changes in the connection's client info; `None` if there is no client info.
    pub(super) fn with_client_info<T>(&self, look: impl FnOnce(&mut ClientInfo) -> T) -> Option<T> {
        self.ctx.connection_table().client_info(self.ctx.push.watch.connection, look)
    }

    /// Returns the connection's number, which is unique among all since the server's start.
    pub(super) fn id(&self) -> u64 {
        self.with_client_info(|client_info| client_info.id).unwrap_or(0)
    }

    /// Notes the called command on the client info, for commands that report it.
    pub(super) fn note_command(&self, name: &'static str) {
        self.with_client_info(|client_info| client_info.command = name);
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::TooLong => self.counters().store_too_large.add(1),
            Fault::OutOfMemory => self.counters().store_no_memory.add(1),
            _ => {}
        }
        fault.say(self.out);
    }

    /// Removes a reply that the client does not want. Values were not written at all: see `value_reply::tell`. `before`
    /// is the setting before the request, which may be the one that changes it.
    pub(super) fn hush(&mut self, mark: usize, before: Answers) {
        match (before, self.session.answers) {
            (Answers::All, _) | (Answers::None, Answers::All) => {}
            (Answers::None, _) => self.out.truncate(mark),
            (Answers::SkipNext, now) => {
                self.out.truncate(mark);
                if now == Answers::SkipNext {
                    self.session.answers = Answers::All;
                }
            }
        }
    }

    pub(super) fn counters(&self) -> &CommandCounters {
        &self.ctx.shared.workers[self.ctx.worker].commands[usize::from(self.session.namespace.0)]
    }

    pub(super) fn done(&mut self, command: Command, line: &[u8]) {
        self.ops += 1;
        self.ctx.ops_done(self.out, self.session.namespace, (command, 1), line);
    }

    /// Returns the time at which the current request was begun.
    pub(super) fn moment(&self) -> Moment {
        if self.beside { self.session.moment } else { self.ctx.moment() }
    }

    /// Goes on only if `bytes` and a line fit into the output.
    pub(super) fn room(&self, bytes: usize) -> Step {
        let want = LINE_ROOM + bytes;
        if self.out.room() < want { Err(State::OutputFull { want }) } else { Ok(()) }
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

    /// Notifies the clients that are subscribed to changes of this key, if notifications are on.
    #[inline]
    pub(super) fn changed(&mut self, event: Event, key: &[u8]) {
        if self.ctx.push.watch.watched.tells_changes() {
            self.ctx.tell_change(self.session.namespace, event, key);
        }
    }

    /// Counts a key that was read.
    pub(super) fn note_read(&mut self, hit: bool) {
        self.note_reads(1, u64::from(hit));
    }

    /// Counts keys that were asked for. What may be taken back is counted once it stands.
    pub(super) fn note_reads(&mut self, reads: u64, hits: u64) {
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

    /// Does `each` for every key of the request that was not done in an earlier call.
    pub(super) fn each_key(&mut self, args: Args<'c>, mut each: impl FnMut(&mut Self, &'c [u8]) -> Run) -> Run {
        let mut left = self.behind(args, self.session.done);
        loop {
            let Some(key) = left.next() else { return Ok(()) };
            self.room(0)?;
            if self.ops >= OPS_A_BATCH {
                return Err(State::Yield.into());
            }
            each(self, key)?;
            self.session.done += 1;
            self.passed(args, left, self.session.done);
            self.ops += 1;
        }
    }

    /// The arguments behind the first `count`. Where [`Call::passed`] has noted where they begin, none is walked over.
    pub(super) fn behind(&self, args: Args<'c>, count: u32) -> Args<'c> {
        let (passed, bytes) = self.session.passed;
        if count > 0 && passed == count {
            return args.behind(count, bytes);
        }
        let mut left = args;
        (0..count).all(|_| left.next().is_some());
        left
    }

    /// Notes where the arguments `left` behind the first `count` of the request's `args` begin.
    pub(super) fn passed(&mut self, args: Args<'c>, left: Args<'c>, count: u32) {
        self.session.passed = (count, args.wire_bytes() - left.wire_bytes());
    }
}
