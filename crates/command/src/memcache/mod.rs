//! The memcached protocol over the store: one call serves what a session has received.
//!
//! ```text
//!   input   [ get a\r\n | get b c\r\n | set d 0 0 5\r\nval          ]
//!             ^ at        retrieval      not all there: NeedInput
//!   serve     probe a, b, c: hash, prefetch  ->  look up in order  ->  replies in order            run.rs
//! ```
//!
//! Invariants:
//! - Replies are in the order of the requests. Room for a reply is made sure of before its operation is done, so no
//!   operation is done twice and no reply is lost.
//! - A request is consumed when its last reply byte is in the output. A retrieval or a table of statistics longer than
//!   the output goes on where it was left ([`SessionState::retrieval`], [`SessionState::lines_done`]).
//! - A large value is written piece by piece ([`crate::large`]); a session holds at most one.

mod auth;
mod dump;
mod exptime;
mod get;
mod guarded;
mod large;
mod meta;
mod run;
mod small;
mod stats;
mod store;
mod watch;

use crate::context::WorkerContext;
use crate::handover::Carried;
use crate::metrics::Command;
use crate::push::watch::{Hub, Watching};
use crate::session::{Door, Protocol};
use crate::visit::out::OutBuffer;
use crate::visit::progress::{OPS_A_BATCH, Progress, State};
use dump::Dumping;
use large::Storing;
use meta::FirstFetch;
use protocol::memcache::meta::Meta;
use protocol::memcache::request::Dump;
use protocol::memcache::{Error, KeyScratch, Parsed, Request, lone_get, parse, reply};
use run::Retrieval;
pub(super) use run::{head_key, head_set_key};
use segment::{Guard, Namespace};

use crate::lookup::ahead::{Head, NextSet};
use crate::lookup::large::LargeSet;
use crate::metrics::command_counters::CommandCounters;

pub use stats::command_totals;

/// The version that the server reports to clients: the memcached whose protocol this is, then our own. Clients and
/// tools compare the three numbers to decide which commands they may send and how strict a server is.
pub const VERSION: &str = concat!("1.6.45-gannet-", env!("CARGO_PKG_VERSION"));

/// Room for the longest reply that is one line, and for the end of a retrieval behind it, in bytes.
const LINE_ROOM: usize = crate::lookup::values::LINE_ROOM;

const _: () = assert!(reply::META_LINE_BYTES_MAX + 32 <= LINE_ROOM);
const _: () = assert!(reply::ITEM_FACTS_BYTES_MAX + 32 <= LINE_ROOM);
const _: () = assert!(reply::VALUE_HEADER_BYTES_MAX + 32 <= LINE_ROOM);

/// The state that the protocol retains of a connection between calls.
#[derive(Default)]
pub struct SessionState {
    /// Namespace of the key of its request.
    pub(super) namespace: Namespace,
    /// Namespace of its listener.
    home: Namespace,
    /// Checks to make before its requests are done, as bits of [`WorkerContext::guards`].
    guards: u32,
    /// True if the current request is already counted among the operations of a second.
    is_paid: bool,
    /// Bytes of input that belong to a request that was refused; without end in a watcher.
    swallow: u64,
    /// A retrieval that was answered in part; its line is what the input begins with.
    retrieval: Option<Retrieval>,
    /// Statistics were answered in part: this many lines are sent.
    lines_done: usize,
    /// A large value that is arriving.
    large: Option<Storing>,
    /// A dump that is being answered.
    dump: Option<Box<Dumping>>,
    /// A fetch was done and its answer did not fit: what its first run found.
    fetched: Option<FirstFetch>,
    /// Its client has said who it is.
    known: bool,
    /// The connection's place among the watchers.
    watching: Option<Watching>,
}

impl SessionState {
    /// Returns the state of a new connection.
    pub(super) fn of(namespace: Namespace) -> Self {
        Self { namespace, home: namespace, guards: Self::guards_of(namespace), ..Self::default() }
    }

    /// Releases what the connection holds in the store and among the watchers. The caller calls it once, when the
    /// connection ends.
    pub fn release(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext) {
        if let Some(storing) = self.large.take() {
            storing.large.end(guard, ctx);
        }
        self.watching = None;
    }

    /// The value that is arriving.
    #[inline]
    pub(super) fn large(&self) -> Option<&LargeSet> {
        self.large.as_ref().map(|storing| &storing.large)
    }

    /// Returns the value that is arriving, to receive into.
    pub(super) fn large_mut(&mut self) -> Option<&mut LargeSet> {
        self.large.as_mut().map(|storing| &mut storing.large)
    }

    /// Returns true if the input begins with a request, or with a retrieval that is answered in part.
    fn is_between_requests(&self) -> bool {
        (self.swallow == 0 || self.watching.is_some())
            && self.lines_done == 0
            && self.large.is_none()
            && self.dump.is_none()
            && self.fetched.is_none()
    }

    /// Returns the state that moves to another process, with `input`. `None`: a request is half done. A retrieval that
    /// is answered in part is replaced by one for the keys that are left.
    pub(super) fn carried(&self, mut input: &[u8]) -> Option<Carried> {
        if !self.is_between_requests() {
            return None;
        }
        let mut carried = Carried { known: self.known, ..Carried::new(Door::new(Protocol::Memcache, self.home)) };
        carried.watches = self.watching.as_ref().map_or(0, Watching::kinds);
        if let Some(retrieval) = self.retrieval {
            let line = input.split_off(..retrieval.consumed)?;
            match retrieval.rest_of(line) {
                Some(rest) => carried.input = rest,
                // All keys are answered.
                None => carried.output = reply::END.to_vec(),
            }
        }
        carried.input.extend_from_slice(input);
        Some(carried)
    }

    /// Goes on as what was carried over.
    pub(super) fn go_on_as(&mut self, carried: &Carried) {
        self.known = carried.known;
    }

    /// Restores `watch`. Returns false if there are already as many watchers as allowed.
    pub(super) fn take_up(&mut self, carried: &Carried, ctx: &WorkerContext) -> bool {
        if carried.watches != 0 {
            self.watching = Hub::watch_again(&ctx.shared.watch, carried.watches, ctx.worker, ctx.watch.connection);
            self.swallow = u64::MAX;
        }
        carried.watches == 0 || self.watching.is_some()
    }

    /// Returns true if lines wait for this watcher.
    pub(crate) fn has_mail(&self) -> bool {
        self.watching.as_ref().is_some_and(Watching::is_waiting)
    }

    /// Moves the next of them to the front of `into`; returns how many bytes that was.
    pub(crate) fn take_mail(&self, into: &mut [u8]) -> usize {
        self.watching.as_ref().map_or(0, |watching| watching.take(into))
    }

    /// Returns true if the current request was answered in part.
    pub(crate) fn is_long(&self) -> bool {
        self.retrieval.is_some() || self.lines_done > 0 || self.dump.is_some()
    }

    /// Returns true if the connection is a watcher.
    pub(crate) fn watches(&self) -> bool {
        self.watching.is_some()
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
    ctx.namespace = session.namespace;
    let guarded = ctx.guards & session.guards != 0;
    let mut call = Call {
        guard,
        buf,
        at: 0,
        line_at: 0,
        out,
        session,
        ctx,
        ops,
        guarded,
        run_max: crate::lookup::run::PROBES_MAX,
        next_set: None,
    };
    let mut step = match head {
        _ if call.is_stranger() => call.admit(),
        Some(Head::Read(head)) if !call.guarded => call.head_run(head),
        Some(Head::Set(set)) if !call.guarded => {
            call.next_set = Some(set);
            Ok(())
        }
        _ => Ok(()),
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
    /// Offset of the line of the current request, in bytes.
    line_at: usize,
    out: &'c mut OutBuffer,
    session: &'c mut SessionState,
    ctx: &'c mut WorkerContext,
    /// Operations done, and those that the session may not have in this visit.
    ops: usize,
    /// Each request is looked at before it is done: [`guarded`].
    guarded: bool,
    /// Most keys that are looked up together.
    run_max: usize,
    /// The `set` that comes next, if there is one.
    next_set: Option<NextSet>,
}

/// `Err` says why the call ends here.
type Step = Result<(), State>;

impl<'c> Call<'c, '_> {
    fn step(&mut self) -> Step {
        if self.ops >= OPS_A_BATCH || self.ctx.is_slice_over() {
            self.counters().yields.add(1);
            return Err(State::Yield);
        }
        if self.session.swallow > 0 {
            return self.swallow();
        }
        self.room(LINE_ROOM)?;
        if self.session.large.is_some() {
            // Its line went with the bytes before its first piece.
            self.line_at = self.buf.len();
            return self.large_go_on();
        }
        self.line_at = self.at;
        if let Some(retrieval) = self.session.retrieval {
            return self.retrieval_go_on(retrieval);
        }
        if self.at == self.buf.len() {
            return Err(State::NeedInput { want: 0 });
        }
        if let Some((key, consumed)) = lone_get(self.rest()).filter(|_| !self.guarded) {
            return self.lone_run(key, consumed);
        }
        match parse(self.rest()) {
            Parsed::Incomplete => Err(State::NeedInput { want: 0 }),
            Parsed::Request { request, consumed } if self.guarded => self.execute_guarded(request, consumed),
            Parsed::Request { request, consumed } => self.execute(request, consumed),
            Parsed::Bad { error, consumed, swallow, quiet } => {
                self.turn_home();
                self.at += consumed;
                self.session.swallow = swallow;
                self.counters().protocol_errors.add(1);
                if !quiet {
                    reply::error(self.out, error);
                }
                self.done(Command::Other);
                Ok(())
            }
            Parsed::Fatal(error) => {
                self.turn_home();
                self.at = self.buf.len();
                self.counters().protocol_errors.add(1);
                reply::error(self.out, error);
                self.done(Command::Other);
                Err(State::Close)
            }
        }
    }

    #[inline(always)]
    fn execute(&mut self, request: Request<'c>, consumed: usize) -> Step {
        match request {
            Request::Get(get) if get.touch.is_none() => self.get(get, consumed),
            Request::Get(get) => self.get_and_touch(get, consumed),
            Request::Store(header) => self.store(header, consumed),
            Request::Delete { key, noreply } => self.delete(key, noreply, consumed),
            Request::Arith(arith) => self.arith(arith, consumed),
            Request::Touch { key, exptime, noreply } => self.touch(key, exptime, noreply, consumed),
            Request::FlushAll { delay, noreply } if self.ctx.shared.config.flush_command => {
                self.flush_all(delay, noreply, consumed)
            }
            Request::FlushAll { noreply, .. } => self.refused(Error::FlushDisabled, noreply, consumed),
            Request::MetaGet(mut meta) => self.meta_get(self.tokens(&mut meta), consumed),
            Request::MetaStore(mut meta, len) => self.meta_store(self.tokens(&mut meta), len, consumed),
            Request::MetaDelete(mut meta) => self.meta_delete(self.tokens(&mut meta), consumed),
            Request::MetaArith(mut meta) => self.meta_arith(self.tokens(&mut meta), consumed),
            Request::MetaDebug(key) => self.meta_debug(key, consumed),
            Request::MetaNoop => self.answer(reply::META_NOOP, consumed),
            Request::Version => self.version(consumed),
            Request::Verbosity { noreply } if noreply => self.answer(b"", consumed),
            Request::Verbosity { .. } | Request::CrawlerSetting => self.answer(reply::OK, consumed),
            Request::CacheMemlimit { mib, noreply } => self.cache_memlimit(mib, noreply, consumed),
            Request::Quit => {
                self.at = self.buf.len();
                Err(State::Close)
            }
            Request::Shutdown { .. } => self.shutdown(consumed),
            Request::Stats(topic) => self.stats(topic, consumed),
            Request::Watch(watch) if self.ctx.shared.config.watch_command => self.watch(watch, consumed),
            Request::Watch(_) => self.refused(Error::WatchDisabled, false, consumed),
            Request::Dump(format) if self.ctx.shared.config.dump_command => self.dump(format.into(), consumed),
            Request::Dump(Dump::Metadump) => self.refused(Error::MetadumpDisabled, false, consumed),
            Request::Dump(Dump::Mgdump) => self.refused(Error::MgdumpDisabled, false, consumed),
        }
    }

    /// Looks at the key of a request if it is sampled, before anything is done to it.
    #[inline(always)]
    fn sample(&mut self, key: &[u8], is_read: bool) {
        if self.ctx.sampler.takes(1) {
            self.sample_key(key, is_read);
        }
    }

    /// Looks at the key of a meta command if it is sampled, before anything is done to it.
    #[inline(always)]
    fn sample_meta(&mut self, meta: &Meta<'c>, is_read: bool) {
        if self.ctx.sampler.takes(1) {
            let mut scratch = KeyScratch::default();
            self.sample_key(meta.key.bytes(&mut scratch), is_read);
        }
    }

    #[cold]
    #[inline(never)]
    fn sample_key(&mut self, key: &[u8], is_read: bool) {
        if self.ctx.sampler.next(0, 1).is_some() {
            self.ctx.sample(self.guard, &self.guard.key(self.session.namespace, key), is_read);
        }
    }

    /// Returns the input that has not been consumed.
    fn rest(&self) -> &'c [u8] {
        &self.buf[self.at..]
    }

    fn counters(&self) -> &CommandCounters {
        &self.ctx.shared.workers[self.ctx.worker].commands[usize::from(self.session.namespace.0)]
    }

    /// Goes on only if `bytes` fit into the output.
    fn room(&self, bytes: usize) -> Step {
        if self.out.room() < bytes { Err(State::OutputFull { want: bytes }) } else { Ok(()) }
    }

    /// The operation at hand is done and answered.
    fn done(&mut self, command: Command) {
        self.ops += 1;
        self.ctx.ops_done(self.out, command, 1, &self.buf[self.line_at..]);
    }

    /// A request that needs nothing but its answer.
    fn answer(&mut self, line: &[u8], consumed: usize) -> Step {
        self.out.push(line);
        self.at += consumed;
        self.done(Command::Other);
        Ok(())
    }

    /// Refuses a command that the configuration disables.
    #[cold]
    fn refused(&mut self, error: Error, quiet: bool, consumed: usize) -> Step {
        self.answer(if quiet { b"" } else { error.wire() }, consumed)
    }

    /// The request as a store without CAS tokens has to see it, if this is one.
    #[inline]
    fn tokens<'m>(&self, meta: &'m mut Meta<'c>) -> &'m Meta<'c> {
        if !self.ctx.shared.config.cas {
            meta.without_tokens();
        }
        meta
    }

    fn swallow(&mut self) -> Step {
        let gone = self.session.swallow.min(self.rest().len() as u64);
        self.at += gone as usize;
        self.session.swallow -= gone;
        if self.session.swallow > 0 { Err(State::NeedInput { want: 1 }) } else { Ok(()) }
    }
}
