//! The protocol of Redis over the store: one call serves what a session has received.
//!
//! ```text
//!   input   [ *2 $3 GET $1 a | *3 $3 SET $1 b $5 hel ]
//!             ^ at             not all there: NeedInput
//!   serve     parse ──> table: name, arguments, who may ──> the command's function ──> reply
//! ```
//!
//! Invariants:
//! - Replies are in the order of the requests. Room for a reply is made sure of before its operation is done, so no
//!   operation is done twice and no reply is lost.
//! - A request is consumed when its last reply byte is in the output. One whose reply is longer than the output goes on
//!   where it was left ([`SessionState::done`]); one over several keys, which are read or changed as one, has become a
//!   transaction then (`atomic`), and is consumed.
//! - A request lies whole in the receive buffer, but for long values and requests of many keys: [`long`].
//! - What a command is, its name, arity, keys and text, stands in one table ([`table::COMMANDS`]), by which requests
//!   are looked up and `COMMAND` is answered.

pub mod acl;
mod admit;
mod aside;
mod atomic;
mod carry;
mod client;
mod clients;
mod config;
mod connection;
mod error;
mod expire;
mod hash;
mod hotkeys;
mod info;
mod keys;
mod lease;
mod listing;
mod long;
mod mget;
mod number;
mod pair;
mod pattern;
mod pubsub;
mod records;
mod run;
mod scan;
mod slices;
mod slowlog;
mod string;
pub mod support;
pub mod table;
mod told;
mod transaction;
mod typed;
mod walk;
pub(super) use walk::walk_step_ops;

use crate::clients::client_info::ClientInfo;
use crate::context::WorkerContext;
use crate::lookup::ahead::Head;
use crate::lookup::large::ARRIVING_BYTES_MIN;
use crate::lookup::values::LINE_ROOM;
use crate::metrics::Command;
use crate::metrics::command_counters::CommandCounters;
use crate::push::mail::Publishing;
use crate::push::notify::Event;
use crate::shared::Pause;
use crate::visit::clock::Moment;
use crate::visit::out::OutBuffer;
use crate::visit::progress::{OPS_A_BATCH, Progress, State};
use acl::Asked;
use aside::Aside;
use error::Fault;
use long::Long;
use protocol::resp::{Args, Limits, Parsed, Parser, Version, reply};
pub(super) use run::head_key;
use segment::{Guard, Key, Namespace, OpError};
use told::Identity;

/// The version of Redis whose commands these are. Clients and tools compare the three numbers.
pub const REDIS_VERSION: &str = "7.2.4";

pub use atomic::KEYS_AS_ONE_MAX;
pub use atomic::Spares;
pub use records::index::{enter_kept, make_kept};

/// Which requests a client wants to be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Answers {
    #[default]
    All,
    /// All but the next one.
    SkipNext,
    None,
}

/// The state that the protocol retains of a connection between calls.
#[derive(Default)]
pub struct SessionState {
    /// Namespace of its keys.
    pub(super) namespace: Namespace,
    /// Namespace of its listener.
    home: Namespace,
    /// True if the current request is already counted among the operations of a second.
    is_paid: bool,
    parser: Parser,
    version: Version,
    answers: Answers,
    /// Its client has said who it is.
    known: bool,
    /// Keys or lines of the request at hand that are answered.
    done: u32,
    /// Arguments of the current request that were passed, and the bytes that these take: see [`Call::behind`].
    passed: (u32, usize),
    /// Sum over the answered keys or lines.
    sum: i64,
    /// A value that is copied into the answer over several visits.
    copying: Option<told::Copying>,
    /// Those that are subscribed know of the change.
    is_published: bool,
    /// Time at which a request was begun that may take several visits.
    moment: Moment,
    /// All that the request at hand is to store was looked at, and none of it is too long.
    fits: bool,
    /// True if the value being read changes so often that its key is to be claimed.
    wants_key_locks: bool,
    /// The user that its client acts as.
    who: acl::Who,
    /// Count of changes to the users at the last check of `who`.
    seen_changes: u64,
    /// Count of changes to the users when its client was found to be free to do everything; 0: it was not.
    free_at: u64,
    /// A request of which some is consumed.
    long: Option<Long>,
    /// The command that it called last.
    last: &'static str,
    /// Its client is on another host and could be anyone.
    held_off: bool,
    /// End of the current `DEBUG SLEEP`, in Unix ms; 0: none is running.
    sleeps_until_ms: u64,
    /// Messages that the client is sent besides replies, if any.
    aside: Option<Box<Aside>>,
    /// Keys that are watched and commands that are queued.
    transaction: Option<Box<transaction::Transaction>>,
    /// The transaction that is executed, before any other request.
    under_way: Option<Box<transaction::Transaction>>,
    /// A copy of a value in many parts that is under way.
    copy: Option<Box<segment::PartsCopy>>,
    /// A publication that is under way.
    publishing: Option<Box<Publishing>>,
    /// A list that is put together over several visits.
    listing: Option<Box<listing::Listing>>,
    /// A walk over the keys that is under way.
    walk: Option<Box<walk::Walk>>,
    /// Time before which a rate-limited walk over records does not go on, in Unix ms.
    paced_until_ms: u64,
}

impl SessionState {
    /// Returns the state of a new connection.
    pub(super) fn of(namespace: Namespace) -> Self {
        Self { namespace, home: namespace, ..Self::default() }
    }

    /// Releases what the connection holds. Returns false if the caller has to call it again in a later iteration.
    pub(super) fn release(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext) -> bool {
        self.end_long(guard, ctx);
        self.end_some_subscriptions() && self.end_transaction(guard, ctx)
    }

    /// Resets the state of the current request: it is answered.
    #[inline(always)]
    fn end_request(&mut self) {
        (self.done, self.passed, self.sum, self.is_published) = (0, (0, 0), 0, false);
        (self.copying, self.fits) = (None, false);
    }

    /// Gives up the current request, with the state that it holds between visits.
    #[cold]
    fn give_up(&mut self) {
        (self.walk, self.publishing, self.listing) = (None, None, None);
        self.end_request();
    }

    /// Returns true if a part of the reply to the current request stands, whatever the request waits for.
    fn is_answered_in_part(&self) -> bool {
        self.done > 0 || self.copying.is_some()
    }

    /// Returns true if the current request takes many visits.
    pub(super) fn is_long(&self) -> bool {
        self.under_way.is_some() || self.walk.is_some() || self.listing.is_some() || self.done > 0
    }

    /// Returns true if a transaction was begun whose requests are not all done, or whose replies are not all sent.
    #[inline]
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }
}

/// Executes what `buf` begins with, at most [`OPS_A_BATCH`] operations of it, and says how far it came. `head` was made
/// of the same bytes and session, in the same guard.
pub fn serve<'l>(
    guard: &mut Guard<'l>,
    buf: &[u8],
    head: Option<Head<'l>>,
    out: &mut OutBuffer,
    session: &mut SessionState,
    ctx: &mut WorkerContext,
) -> Progress {
    // Operations that this session is not to have in one visit count as done.
    let ops = OPS_A_BATCH - ctx.shared.config.requests_a_visit;
    ctx.turn_to(session.namespace);
    let mut call =
        Call { guard, buf, at: 0, line_at: 0, out, session, ctx, ops, beside: false, copies: false, reads: (0, 0) };
    let mut step = match (call.go_on(), head) {
        (Ok(()), Some(Head::Read(head))) if call.runs_plain() && call.out.room() >= LINE_ROOM => call.head_run(head),
        (step, _) => step,
    };
    let state = loop {
        match step {
            Ok(()) => step = call.step(),
            Err(state) => break state,
        }
    };
    call.ctx.pace.charge(call.ops - ops);
    Progress { consumed: call.at, state }
}

/// One call of [`serve`]. Its steps end with the state that keeps the next one from being made.
struct Call<'c, 'l> {
    guard: &'c mut Guard<'l>,
    buf: &'c [u8],
    /// Bytes of `buf` consumed.
    at: usize,
    /// Offset of the requests of a run that are not accounted for yet, in bytes.
    line_at: usize,
    out: &'c mut OutBuffer,
    session: &'c mut SessionState,
    ctx: &'c mut WorkerContext,
    /// Operations done, and those that the session may not have in this visit.
    ops: usize,
    /// Its answers go into a buffer beside the session's own.
    beside: bool,
    /// Values are copied into the output, whatever their length, so that they can be taken back.
    copies: bool,
    /// Keys asked for, and found, that are not counted as long as what was read may be taken back.
    reads: (u64, u64),
}

/// `Err` says why the call ends here.
type Step = Result<(), State>;

/// Why a command's function ends before it has answered.
enum Stop {
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
type Run = Result<(), Stop>;

impl<'c> Call<'c, '_> {
    fn step(&mut self) -> Step {
        if self.ops >= OPS_A_BATCH || self.ctx.is_slice_over() {
            self.counters().yields.add(1);
            return Err(State::Yield);
        }
        if self.out.room() < LINE_ROOM {
            return Err(State::OutputFull { want: LINE_ROOM });
        }
        if self.session.is_under_way() {
            return self.go_on_as_one();
        }
        if self.session.long.is_some() {
            return self.long_go_on();
        }
        if self.at == self.buf.len() {
            return Err(State::NeedInput { want: 0 });
        }
        if let Some(step) = self.run_of_plain() {
            return step;
        }
        let mut limits = self.limits();
        loop {
            return match self.session.parser.parse(self.rest(), &limits) {
                Parsed::Incomplete => Err(State::NeedInput { want: 0 }),
                Parsed::Request { args, consumed } => self.execute(args, consumed),
                Parsed::Inline { inline, consumed } => self.inline(&inline, consumed),
                Parsed::Nothing { consumed } => {
                    self.at += consumed;
                    Ok(())
                }
                Parsed::Head { args, value_len, left, consumed } => {
                    if !self.head(args, value_len, left, consumed)? {
                        // It is waited for; one behind it may be longer.
                        limits.long_bytes_min = value_len + 1;
                        continue;
                    }
                    Ok(())
                }
                Parsed::Long { args, left, consumed } => self.too_long(args, left, consumed),
                Parsed::Fatal(error) => self.fatal(error),
            };
        }
    }

    fn limits(&self) -> Limits {
        let limits = if self.is_stranger() { Limits::UNAUTHENTICATED } else { Limits::REDIS };
        let long_bytes_min = limits.long_bytes_min.max(ARRIVING_BYTES_MIN as u32);
        Limits { request_bytes_max: self.ctx.request_bytes_max, long_bytes_min, ..limits }
    }

    /// Returns the limits for a request that the session waits for, as far as there is a buffer for it.
    fn waiting_limits(&self) -> Limits {
        Limits { long_bytes_min: u32::MAX, ..self.limits() }
    }

    /// Returns the input that has not been consumed.
    fn rest(&self) -> &'c [u8] {
        &self.buf[self.at..]
    }

    /// Returns true if plain requests may be answered in runs: no monitor is sent each of them, and none is refused.
    #[inline(always)]
    fn runs_plain(&self) -> bool {
        let restrained = self.ctx.restrained || self.session.held_off;
        let free = (!restrained || self.is_free()) && !self.ctx.rationed_here;
        free && !self.is_stranger() && !self.ctx.watch.watched.tells_commands()
    }

    /// Returns true if the only restraint is that there are users with fewer rights than this client's.
    #[cold]
    fn is_free(&self) -> bool {
        let others = self.ctx.pause != Pause::None || !self.ctx.shared.config.disabled.is_empty();
        !others && !self.session.held_off && self.session.free_at == self.ctx.user_changes
    }

    /// Returns true if this connection's client has to authenticate first.
    fn is_stranger(&self) -> bool {
        !self.session.known && self.ctx.asks
    }

    #[cold]
    fn fatal(&mut self, error: protocol::resp::ProtocolError) -> Step {
        self.at = self.buf.len();
        self.counters().protocol_errors.add(1);
        error.put(self.out);
        self.done(Command::Other, b"");
        Err(State::Close)
    }

    /// Words on a line: they are few, so they are rewritten beside the buffer.
    #[cold]
    fn inline(&mut self, inline: &protocol::resp::Inline<'_>, consumed: usize) -> Step {
        if consumed * 7 / 2 + 16 > INLINE_ROOM {
            return self.fatal(protocol::resp::ProtocolError::InlineTooLong);
        }
        let mut text = protocol::sink::Fixed::<INLINE_ROOM>::new();
        inline.rewrite(&mut text);
        let Parsed::Request { args, .. } = Parser::new().parse(text.as_slice(), &Limits::REDIS) else {
            unreachable!("a rewritten command is a request");
        };
        let mut call = Call {
            guard: &mut *self.guard,
            buf: text.as_slice(),
            at: 0,
            out: &mut *self.out,
            session: &mut *self.session,
            ctx: &mut *self.ctx,
            ops: self.ops,
            beside: false,
            copies: false,
            line_at: 0,
            reads: (0, 0),
        };
        let step = call.execute(args, text.as_slice().len());
        let (done, ops) = (call.at > 0, call.ops);
        self.ops = ops;
        if done {
            self.at += consumed;
        }
        step
    }

    /// A record of many parts has lost one, or was changed while it was looked at: the request is asked again. One that
    /// has lost a part is gone then.
    #[cold]
    fn look_again<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) -> State {
        for bytes in keys {
            let key = self.key(bytes);
            // One whose lock is not had is looked at again with the request.
            let _ = self.guard.parts_mut().end_broken(&key);
        }
        self.ctx.hurries = true;
        State::Parked
    }

    /// Runs one request and accounts for it, unless it is to be asked again.
    #[inline]
    fn execute(&mut self, mut args: Args<'c>, consumed: usize) -> Step {
        let name = args.next().unwrap_or_default();
        let (mark, answers) = (self.out.mark(), self.session.answers);
        let entry = table::find(name);
        let kind = entry.map_or(Command::Other, |entry| entry.kind);
        let ran = match entry {
            Some(entry) => self.run(entry, args, consumed),
            None => {
                self.session.spoil();
                error::unknown(self.out, name, args);
                self.ops += error::UNKNOWN_OPS;
                Ok(())
            }
        };
        let quits = matches!(ran, Err(Stop::Quit));
        // It is counted and reported when it is executed.
        let queued = matches!(ran, Err(Stop::Queued));
        match ran {
            Ok(()) | Err(Stop::Quit | Stop::Queued) => {}
            Err(Stop::UnderWay) => {
                self.session.last = entry.map_or("", |entry| entry.name);
                self.session.is_paid = false;
                self.at += consumed;
                // One that is long by itself goes on behind new requests.
                let is_long = self.session.under_way.as_ref().is_some_and(|transaction| transaction.is_lone);
                return if is_long { Err(State::Yield) } else { Ok(()) };
            }
            Err(Stop::State(state)) => {
                if self.session.done == 0 || answers != Answers::All {
                    // It starts over, or the client does not want the reply so far.
                    self.out.truncate(mark);
                }
                return Err(state);
            }
            Err(Stop::Fault(Fault::Damaged)) if self.guard.parts().take_lost() => {
                let keys = entry.map(|entry| entry.keys_of(args));
                if self.session.done == 0 {
                    self.out.truncate(mark);
                }
                return Err(self.look_again(keys.into_iter().flatten()));
            }
            Err(Stop::Fault(fault)) => {
                // What was answered in part goes; a request that was answered in an earlier call has no fault left.
                self.out.truncate(mark);
                self.session.give_up();
                self.fault(fault);
            }
        }
        self.session.end_request();
        self.session.is_paid = false;
        self.hush(mark, answers);
        if self.ctx.watch.watched.tells_commands() && entry.is_some() && !queued {
            self.tell_monitors(name, args);
        }
        self.session.last = entry.map_or("", |entry| entry.name);
        let line = &self.buf[self.at..];
        self.at += consumed;
        // The request of an unauthenticated client may contain a secret.
        let secret = entry.is_some_and(table::Entry::has_secret);
        let line = if self.ctx.asks || secret { &[][..] } else { line };
        self.done(if queued { Command::Other } else { kind }, line);
        if quits { Err(State::Close) } else { Ok(()) }
    }

    fn run(&mut self, entry: &'static table::Entry, args: Args<'c>, consumed: usize) -> Run {
        self.admit_command(entry, args.len() + 1, Asked::All(args))?;
        if self.session.transaction.is_some() {
            match self.queues(entry, args, consumed) {
                Ok(true) => return Err(Stop::Queued),
                Ok(false) => {}
                Err(fault) => return Err(self.refused(entry, fault)),
            }
        }
        if self.ctx.sampler.takes(1) {
            self.sample(entry, args);
        }
        if self.guard.is_tiered() && self.awaits_flash(entry, args) {
            return Err(State::Parked.into());
        }
        if entry.keys.0 != entry.keys.1 && self.session.done == 0 && entry.key_count(args) > 1 {
            if self.takes_slices(entry, args) {
                return self.run_beside(entry, args);
            }
            if self.ops > 0 && self.ops + entry.key_count(args) > OPS_A_BATCH {
                // Once begun it would have to be taken back, or go on from a copy.
                return Err(State::Yield.into());
            }
            if entry.name != "watch" {
                return self.run_unchanged(entry, args).unwrap_or_else(|| self.run_as_one(entry, args));
            }
        }
        if self.guard.is_contended() && self.is_kept_away(entry, args) {
            return Err(State::Parked.into());
        }
        if self.guard.is_tiered() { self.run_settled(entry, args) } else { (entry.run)(self, args) }
    }

    /// Runs a command of a store with flash. An item may move between memory and flash while a command reads. If a
    /// read-only command misses such an item, it is parked and run again. Commands that write look under the lock.
    #[cold]
    pub(super) fn run_settled(&mut self, entry: &'static table::Entry, args: Args<'c>) -> Run {
        let may_start_over = self.session.done == 0 && entry.has(table::Flag::ReadOnly);
        let _ = self.guard.tier().take_false_miss();
        let ran = (entry.run)(self, args);
        let is_answered = matches!(ran, Ok(()) | Err(Stop::Fault(_)));
        if may_start_over && is_answered && self.guard.tier().take_false_miss() {
            self.session.end_request();
            return Err(State::Parked.into());
        }
        ran
    }

    /// Looks at the keys of a request that is sampled, before anything is done to them: at most so many as fit a run.
    #[cold]
    #[inline(never)]
    fn sample(&mut self, entry: &'static table::Entry, args: Args<'c>) {
        // Names of channels are no keys.
        if self.ctx.sampler.next(0, 1).is_none() || entry.keys.0 == 0 || entry.has(table::Flag::PubSub) {
            return;
        }
        for bytes in entry.keys_of(args).take(OPS_A_BATCH) {
            let key = self.key(bytes);
            self.ctx.sample(self.guard, &key, entry.has(table::Flag::ReadOnly));
        }
    }

    /// Returns what `look` reads from or changes in the connection's client info; `None` if there is no client info.
    fn with_client_info<T>(&self, look: impl FnOnce(&mut ClientInfo) -> T) -> Option<T> {
        self.ctx.connection_table().client_info(self.ctx.watch.connection, look)
    }

    /// Returns the connection's number, which is unique among all since the server's start.
    fn id(&self) -> u64 {
        self.with_client_info(|client_info| client_info.id).unwrap_or(0)
    }

    /// Notes the called command on the client info, for commands that report it.
    fn note_command(&self, name: &'static str) {
        self.with_client_info(|client_info| client_info.command = name);
    }

    fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::TooLong => self.counters().store_too_large.add(1),
            Fault::OutOfMemory => self.counters().store_no_memory.add(1),
            _ => {}
        }
        fault.say(self.out);
    }

    /// Takes the answer back that the client does not want; values were not even put ([`Call::tell`]). `before`: what
    /// it wanted before the request, which may have been the one that changes it.
    fn hush(&mut self, mark: usize, before: Answers) {
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

    fn counters(&self) -> &CommandCounters {
        &self.ctx.shared.workers[self.ctx.worker].commands[usize::from(self.session.namespace.0)]
    }

    fn done(&mut self, command: Command, line: &[u8]) {
        self.ops += 1;
        self.ctx.ops_done(self.out, command, 1, line);
    }

    /// Returns the time at which the current request was begun.
    fn moment(&self) -> Moment {
        if self.beside { self.session.moment } else { self.ctx.moment() }
    }

    /// Goes on only if `bytes` and a line fit into the output.
    fn room(&self, bytes: usize) -> Step {
        let want = LINE_ROOM + bytes;
        if self.out.room() < want { Err(State::OutputFull { want }) } else { Ok(()) }
    }

    #[inline(always)]
    fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.guard.key(self.session.namespace, bytes)
    }

    fn null(&mut self) {
        reply::null(self.out, self.session.version);
    }

    fn int(&mut self, number: i64) {
        reply::int(self.out, number);
    }

    /// Notifies the clients that are subscribed to changes of this key, if notifications are on.
    #[inline]
    fn changed(&mut self, event: Event, key: &[u8]) {
        if self.ctx.watch.watched.tells_changes() {
            self.ctx.tell_change(self.session.namespace, event, key);
        }
    }

    /// Counts a key that was read.
    fn note_read(&mut self, hit: bool) {
        self.note_reads(1, u64::from(hit));
    }

    /// Counts keys that were asked for. What may be taken back is counted once it stands.
    fn note_reads(&mut self, reads: u64, hits: u64) {
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
    fn each_key(&mut self, args: Args<'c>, mut each: impl FnMut(&mut Self, &'c [u8]) -> Run) -> Run {
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
    fn behind(&self, args: Args<'c>, count: u32) -> Args<'c> {
        let (passed, bytes) = self.session.passed;
        if count > 0 && passed == count {
            return args.behind(count, bytes);
        }
        let mut left = args;
        (0..count).all(|_| left.next().is_some());
        left
    }

    /// Notes where the arguments `left` behind the first `count` of the request's `args` begin.
    fn passed(&mut self, args: Args<'c>, left: Args<'c>, count: u32) {
        self.session.passed = (count, args.wire_bytes() - left.wire_bytes());
    }
}

/// The longest inline command, rewritten, in bytes: far more than a person types.
const INLINE_ROOM: usize = 32 << 10;
