//! What a protocol's `serve` is given, and what it answers: the seam between workers and commands.
//!
//! ```text
//!   worker: receive -> serve(guard, unconsumed bytes, output, the protocol's session state, context) -> Progress
//! ```
//!
//! A `serve` executes requests in order until one of the [`State`]s is reached. It consumes whole requests (and whole
//! pieces of large values), so what it leaves begins where it will begin next time. It calls
//! [`WorkerContext::ops_done`] for all operations and executes at most [`OPS_A_BATCH`] a call.
//!
//! What the protocol keeps for a connection is in `command::SessionState`: made without allocation, and `release` gives
//! back what it holds in the store, called once when the connection ends.

use crate::clock::{Clock, Moment, Ticks};
use crate::command::resp::Spares;
use crate::connection_table::ConnectionTable;
use crate::counters::WorkerCounters;
use crate::hot_keys::{Look, Sampler};
use crate::mail::{Kind, Publishing};
use crate::metrics::{Command, SlowLine, SlowLines};
use crate::namespaces::{AWAY, PAUSED, ROUTED};
use crate::notify::{self, Event};
use crate::out::{OpTimes, OutBuffer};
use crate::pace::Pace;
use crate::routes::Routes;
use crate::shared::{Pause, Shared};
use crate::watch::Watch;
use base::clock::UnixMillis;
use segment::{Guard, Key, Namespace, OpError, Pinned};
use std::collections::VecDeque;
use std::sync::Arc;

/// Operations that one session may execute before the others of its batch have had theirs.
pub const OPS_A_BATCH: usize = 64;

/// Longest request line in bytes, its end included. A longer one gets an error and the connection is closed.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Values that one worker receives straight into the store at once; the next ones are received into buffers.
pub const ARRIVALS_MAX: usize = 64;

/// Bytes whose parsing and serving takes about as long as filling a mailbox: some 100 ns.
const ENTRY_WORK_BYTES: usize = 128;

/// Entries that count as one operation.
const ENTRIES_AN_OP: usize = 16;

/// Most mailboxes that one visit fills when it publishes: about 100 us.
pub(crate) const PUBLISH_WORK: usize = 1024;

/// Changes of keys that wait to be published, of one worker, from which on its requests wait.
const UNPUBLISHED_MAX: usize = 256;

/// A change of a key that is published in slices.
pub(crate) struct Unpublished {
    name: Box<[u8]>,
    text: Box<[u8]>,
    publishing: Publishing,
}

/// The progress of a `serve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input that need not be shown again.
    pub consumed: usize,
    /// Why it came no further.
    pub state: State,
}

/// Why a `serve` came no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// What is left is no whole request, or nothing is left. Asking again is of use once `want` bytes, counted from the
    /// first unconsumed one, are there; 0 if that is not known. Nothing left and 0 means: between two requests, so that
    /// a server that stops may close here; inside a large value or a swallowed one, `want` is at least 1.
    NeedInput {
        /// Length of the unconsumed rest, in bytes, at which the next step can be made.
        want: usize,
    },
    /// [`OPS_A_BATCH`] operations are done, or a slice of time is used up, and more may be to do.
    Yield,
    /// The next reply needs `want` bytes of room, or a pin. Asked again when the output was sent, with an empty buffer
    /// of at least that capacity.
    OutputFull {
        /// Room that the next reply needs, in bytes; at most the longest value that is not large and its head.
        want: usize,
    },
    /// The store asks for another iteration; the request was not consumed and nothing was changed.
    Parked,
    /// Send what is there, then close.
    Close,
}

/// State of a worker for all its sessions; single-threaded.
pub struct WorkerContext {
    /// The store's clock of this iteration.
    pub now: UnixMillis,
    /// By how many ms the wall clock is ahead of it.
    pub(crate) ahead_ms: i64,
    /// State that all threads of the server share: store, settings, counters of all workers, the stop switch.
    pub shared: Arc<Shared>,
    /// This worker's number, from 0.
    pub worker: usize,
    /// The clock.
    pub clock: Clock,
    /// The longest request that has to lie whole in a receive buffer, in bytes.
    pub(crate) request_bytes_max: usize,
    /// Bounds of the iteration and the visit at hand.
    pub(crate) pace: Pace,
    /// Start of the operation in progress.
    pub(crate) op_begun: Ticks,
    /// Time at which the bytes of the session that is served were known to be there.
    pub(crate) ready: Ticks,
    /// The namespace of the session that is served.
    pub(crate) namespace: Namespace,
    /// The namespaces whose operations a second are bounded, a bit each, in this batch, and [`ROUTED`],
    /// [`PAUSED`] and [`AWAY`].
    pub(crate) guards: u32,
    /// Where keys go by what they begin with: those of now, where there are some.
    pub(crate) routes: Arc<Routes>,
    /// Number of times that they had changed when they were taken.
    pub(crate) route_changes: u64,
    /// That of the session that is served is one of them.
    pub(crate) rationed_here: bool,
    /// Operations executed in this batch.
    pub(crate) batch_ops: usize,
    /// Values that are being received straight into the store.
    pub(crate) arrivals: usize,
    /// Keys of such values that a session has no room for.
    pub(crate) long_keys: usize,
    /// The request lines of operations that were slow before their reply was sent.
    pub(crate) slow_lines: SlowLines,
    /// The events that are watched, and those of this batch to report.
    pub(crate) watch: Watch,
    /// Which clients wait, in this batch.
    pub(crate) pause: Pause,
    /// Some commands of Redis may be refused or put off in this batch, to whomever.
    pub(crate) restrained: bool,
    /// Number of changes of users; 0: every client may do everything.
    pub(crate) user_changes: u64,
    /// True if a client that has not authenticated may do nothing.
    pub(crate) asks: bool,
    /// Workers whose connections got mail in this batch, a bit each.
    pub(crate) to_wake: u128,
    /// Work of this batch that the bytes it parses do not show, as that of so many more bytes.
    pub(crate) work_bytes: usize,
    /// Changes of keys that are not published yet, in order.
    pub(crate) unpublished: VecDeque<Unpublished>,
    /// Something was parked that waits for other workers' iterations alone, which are short: the next iteration begins
    /// at once.
    pub(crate) hurries: bool,
    /// Which keys are looked at for what is hot.
    pub(crate) sampler: Sampler,
    /// Transactions that are done with.
    pub(crate) spares: Spares,
}

const _: () = assert!(crate::start::WORKERS_MAX <= u128::BITS as usize);

impl WorkerContext {
    /// This worker's counters.
    #[inline]
    pub fn counters(&self) -> &WorkerCounters {
        &self.shared.workers[self.worker].counters
    }

    /// Returns the connections of this worker.
    pub(crate) fn connection_table(&self) -> &ConnectionTable {
        &self.shared.workers[self.worker].connection_table
    }

    /// `count` operations have been executed together and their replies, if any, are in `out`: keeps their times until
    /// those were sent. Done together, each of them took from the beginning of the first to the end of the last. `line`
    /// begins with the first one's request line, or is empty if that is gone; it is looked at only if they were slow.
    #[inline]
    pub fn ops_done(&mut self, out: &mut OutBuffer, command: Command, count: usize, line: &[u8]) {
        let ended = self.clock.ticks();
        if self.slow_lines.is_slow(self.ready, ended) {
            self.slow_lines.keep(self.op_begun, line);
        }
        let (namespace, count_u32) = (self.namespace.0, count as u32);
        out.push_op(OpTimes { command, namespace, count: count_u32, ready: self.ready, begun: self.op_begun, ended });
        self.op_begun = ended;
        self.batch_ops += count;
    }

    /// An operation has been executed whose answer is sent with others': keeps what it waited from `ready` on and what
    /// its execution took, but no time of sending.
    pub(crate) fn op_done_unsent(&mut self, command: Command, ready: Ticks, line: &[u8]) {
        let ended = self.clock.ticks();
        let parts_ns =
            [(ready, self.op_begun), (self.op_begun, ended)].map(|(from, to)| self.clock.ns_between(from, to));
        let recorder = &self.shared.workers[self.worker].recorder;
        if recorder.record_unsent(command, self.namespace.0, parts_ns) {
            recorder.keep_slow(command, SlowLine::of(line), [parts_ns[0], parts_ns[1], 0]);
        }
        self.op_begun = ended;
        self.batch_ops += 1;
    }

    /// This iteration's instant, for what clients name and are told by the wall clock.
    #[inline]
    pub(crate) fn moment(&self) -> Moment {
        Moment { now: self.now, ahead_ms: self.ahead_ms }
    }

    /// Looks at a key that was sampled.
    #[cold]
    #[inline(never)]
    pub(crate) fn sample(&mut self, guard: &Guard<'_>, key: &Key<'_>, is_read: bool) {
        // What may be on flash is no miss yet, and its length is not known.
        let on_flash = || guard.hash_may_be_on_flash(key.hash()).then_some(0);
        let bytes = guard.peek(key).map(|item| item.value.client_bytes()).or_else(on_flash);
        let hot_keys = &self.shared.workers[self.worker].hot_keys;
        let named = (key.namespace(), key.bytes());
        self.shared.minutes.note(hot_keys, named, Look { bytes, is_read }, &mut self.sampler.big_above);
    }

    /// A value of so many bytes is to be stored: notes it if it is one of the longest of this minute.
    #[inline]
    pub(crate) fn note_length(&mut self, key: &[u8], bytes: u64) {
        if bytes > self.sampler.big_above {
            let hot_keys = &self.shared.workers[self.worker].hot_keys;
            self.shared.minutes.note_big(hot_keys, (self.namespace, key), bytes, &mut self.sampler.big_above);
        }
    }

    /// Counts work on `entries` (mailboxes filled, names looked at, subscriptions) in what ends an iteration.
    #[inline]
    pub(crate) fn note_work(&mut self, entries: usize) {
        self.work_bytes += entries * ENTRY_WORK_BYTES;
        self.pace.charge(entries / ENTRIES_AN_OP);
    }

    /// Goes on with a publication; returns how many were told once it is done, `None` when `work` is used up.
    pub(crate) fn publish_some(
        &mut self,
        publishing: &mut Publishing,
        kind: Kind,
        message: (&[u8], &[u8]),
        work: &mut usize,
    ) -> Option<u64> {
        let Self { shared, worker, to_wake, .. } = self;
        let note = |to, connection| note_mail(shared, *worker, to_wake, to, connection);
        shared.channels.publish_some(publishing, kind, message, work, note)
    }

    /// Tells those that are subscribed of a change of `key`: now, as far as that is little work and nothing is before
    /// it, else in slices between batches.
    #[cold]
    pub(crate) fn tell_change(&mut self, namespace: Namespace, event: Event, key: &[u8]) {
        let Self { shared, worker, to_wake, unpublished, .. } = self;
        notify::tell(&shared.channels, shared.key_events(), namespace, event, key, |name, text| {
            let (mut publishing, mut work) = (Publishing::default(), PUBLISH_WORK / 16);
            let note = |to, connection| note_mail(shared, *worker, to_wake, to, connection);
            let is_first = unpublished.is_empty();
            let channels = &shared.channels;
            let is_done = is_first
                && channels.publish_some(&mut publishing, Kind::Channel, (name, text), &mut work, note).is_some();
            if !is_done {
                unpublished.push_back(Unpublished { name: name.into(), text: text.into(), publishing });
            }
        });
    }

    /// Goes on telling those that are subscribed of changes, for a bounded time.
    #[cold]
    pub(crate) fn publish_waiting(&mut self) {
        let mut work = PUBLISH_WORK;
        self.note_work(work);
        while let Some(mut first) = self.unpublished.pop_front() {
            let message = (&first.name[..], &first.text[..]);
            if self.publish_some(&mut first.publishing, Kind::Channel, message, &mut work).is_none() {
                self.unpublished.push_front(first);
                return;
            }
        }
    }

    /// So many changes wait to be published that no further request is to be done first.
    #[inline]
    pub(crate) fn is_behind_publishing(&self) -> bool {
        self.unpublished.len() >= UNPUBLISHED_MAX
    }

    /// Tells those that monitor; returns how many.
    pub(crate) fn tell_monitors(&mut self, line: &[u8]) -> usize {
        let Self { shared, worker, to_wake, .. } = self;
        shared.channels.tell_monitors(line, |to, connection| note_mail(shared, *worker, to_wake, to, connection))
    }

    /// Finds out at the beginning of a batch what clients of Redis may not do in it.
    pub(crate) fn restrain(&mut self) {
        let shared = &self.shared;
        self.pause = shared.live.pause.now(self.now);
        self.guards = shared.namespaces.guards() | AWAY;
        self.user_changes = shared.users.changes();
        self.asks = shared.asks_who();
        self.restrained = self.pause != Pause::None || !shared.config.disabled.is_empty() || self.user_changes != 0;
        if self.pause != Pause::None {
            self.guards |= PAUSED;
        }
        if self.guards & ROUTED != 0 {
            self.follow_routes();
        }
    }

    #[cold]
    fn follow_routes(&mut self) {
        let changes = self.shared.namespaces.route_changes();
        if changes != self.route_changes {
            (self.route_changes, self.routes) = (changes, self.shared.namespaces.routes());
        }
    }

    /// Serves a session of this namespace from here on.
    #[inline(always)]
    pub(crate) fn turn_to(&mut self, namespace: Namespace) {
        self.namespace = namespace;
        self.rationed_here = self.guards & 1 << namespace.0 != 0;
    }

    /// Returns whether the visit at hand has used its slice of time, as of the end of the last operation.
    #[inline(always)]
    pub(crate) fn is_slice_over(&self) -> bool {
        self.pace.is_slice_over(self.op_begun)
    }

    /// There is room for `bytes` more, or will be by eviction.
    ///
    /// # Errors
    /// See [`segment::Store::check_room`].
    #[inline]
    pub(crate) fn check_room(&self, bytes: u64) -> Result<(), OpError> {
        self.shared.store.check_room(self.namespace, bytes)
    }

    /// A connection of worker `to` has mail, or is to be closed.
    pub(crate) fn note_mail(&mut self, to: usize, connection: u32) {
        note_mail(&self.shared, self.worker, &mut self.to_wake, to, connection);
    }

    /// The CAS token that a client is told: `token`, or 0 in a store without CAS tokens.
    pub(crate) fn told_token(&self, token: u64) -> u64 {
        if self.shared.config.cas { token } else { 0 }
    }

    /// Asks that `bytes` of the store may be pinned for a reader. If not, the answer is [`State::OutputFull`]. If
    /// pinning then fails, [`WorkerContext::pin_refund`] gives them back; else `OutBuffer::push_pinned` takes them
    /// over.
    pub fn pin_budget(&self, bytes: u64) -> bool {
        self.shared.pins.grant(bytes)
    }

    /// Pins a value that was read whole in this guard, if pins are to be had; else it is to be copied.
    /// `OutBuffer::push_pinned` takes it over, or [`WorkerContext::unpin`].
    #[cold]
    pub(crate) fn pin(&self, value: &[u8]) -> Option<Pinned> {
        let store = &self.shared.store;
        self.shared.pins.grant_spare(store.pin_charge(value.len())).then(|| store.pin(value))
    }

    /// Lets a pinned value go, and what was granted for it.
    pub(crate) fn unpin(&self, pinned: Pinned) {
        self.shared.pins.release(pinned.charge());
        self.shared.store.unpin(pinned);
    }

    /// Takes the right to receive one more value straight into the store, if it is to be had.
    pub(crate) fn begin_arrival(&mut self, charge: u64) -> bool {
        let granted = self.arrivals < ARRIVALS_MAX && self.shared.pins.grant_spare(charge);
        self.arrivals += usize::from(granted);
        granted
    }

    /// Gives it back.
    pub(crate) fn end_arrival(&mut self, charge: u64) {
        assert!(self.arrivals > 0, "an arrival ends once");
        self.arrivals -= 1;
        self.shared.pins.release(charge);
    }

    /// Gives back what [`WorkerContext::pin_budget`] granted and was not pinned.
    pub fn pin_refund(&self, bytes: u64) {
        self.shared.pins.release(bytes);
    }
}

/// Notes for worker `to` that `connection` has mail; it is woken once this worker's batch is done.
fn note_mail(shared: &Shared, me: usize, to_wake: &mut u128, to: usize, connection: u32) {
    if shared.workers[to].post.note(connection) && to != me {
        *to_wake |= 1 << to;
    }
}
