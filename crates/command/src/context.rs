//! The interface between workers and commands: the input of a protocol's `serve`, and its result.
//!
//! ```text
//!   worker: receive -> serve(guard, unconsumed bytes, output, the protocol's session state, context) -> Progress
//! ```
//!
//! A `serve` executes requests in order until it reaches one of the states of [`crate::visit::progress::SessionWait`].
//! It consumes whole requests and whole pieces of large values, so the unconsumed bytes start where it continues next
//! time. It calls [`WorkerContext::ops_done`] for all operations and executes at most
//! [`crate::visit::progress::OPS_A_BATCH`] a call.
//!
//! `command::SessionState` holds the protocol's state of a connection. It is created without allocation. Its `release`
//! returns what it holds in the store, and is called once when the connection ends.

use crate::clients::connection_table::ConnectionTable;
use crate::keyspace::namespaces::{PAUSED, ROUTED, ROUTED_AWAY};
use crate::keyspace::routes::Routes;
use crate::memory::scratch::Scratch;
use crate::metrics::counters::WorkerCounters;
use crate::metrics::hot_keys::{SampledAccess, Sampler};
use crate::metrics::{Command, SlowLine, SlowLines};
use crate::push::notify::{self, KeyEvent};
use crate::push::outbox::{ChannelKind, Publishing};
use crate::push::watch::Watch;
use crate::resp::RetiredTransactions;
use crate::shared::{Pause, Shared};
use crate::visit::clock::{Clock, Moment, Ticks};
use crate::visit::out::{OpTimes, OutBuffer};
use crate::visit::pace::Pace;
use base::clock::UnixMillis;
use segment::{Guard, Key, Namespace, OpError, Pinned};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// The longest request line in bytes, its end included. A longer line gets an error, and the connection is closed.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// The maximum number of values that one worker receives in place at once. Further values are received into buffers.
pub const IN_PLACE_RECEIVES_MAX: usize = 64;

/// The number of bytes whose parsing and serving takes as long as filling one outbox: about 100 ns.
const ENTRY_WORK_BYTES: usize = 128;

/// The number of entries that count as one operation.
const ENTRIES_AN_OP: usize = 16;

/// The maximum number of outboxes that one visit fills when it publishes: about 100 us.
pub(crate) const PUBLISH_WORK: usize = 1024;

/// The number of unpublished key events of one worker from which on its requests wait.
const UNPUBLISHED_MAX: usize = 256;

/// A key event that is published in slices.
pub struct Unpublished {
    name: Box<[u8]>,
    text: Box<[u8]>,
    publishing: Publishing,
}

/// The division of keys into namespaces, as of the beginning of a batch.
#[derive(Default)]
pub(crate) struct BatchRoutes {
    /// A bit for each namespace whose operations per second are bounded, in this batch, and [`ROUTED`], [`PAUSED`] and
    /// [`ROUTED_AWAY`].
    pub(crate) guards: u32,
    /// The current routes of keys by their prefixes, if there are any.
    pub(crate) routes: Arc<Routes>,
    /// The number of route changes when `routes` was taken.
    pub(crate) route_changes: u64,
}

/// The requests that are refused or delayed, as of the beginning of a batch.
#[derive(Default)]
pub(crate) struct Admission {
    /// The clients that wait, in this batch.
    pub(crate) pause: Pause,
    /// True if some Redis commands may be refused or delayed in this batch, for any client.
    pub(crate) restrained: bool,
    /// Number of changes of users; 0: every client may do everything.
    pub(crate) user_changes: u64,
    /// True if a client that has not authenticated may do nothing.
    pub(crate) requires_authentication: bool,
}

/// Messages that a worker's commands cause for other clients.
#[derive(Default)]
pub struct PushState {
    /// The events that are watched, and the unpublished ones of this batch.
    pub watch: Watch,
    /// A bit for each worker whose connections have received messages in this batch.
    pub to_wake: u128,
    /// Key events that are not published yet, in order.
    pub unpublished: VecDeque<Unpublished>,
}

/// The values that a worker receives in place.
#[derive(Default)]
pub(crate) struct InPlaceReceives {
    /// The number of values that are being received in place.
    pub(crate) receives: usize,
    /// The number of keys of such values that are too long for their sessions.
    pub(crate) long_keys: usize,
}

/// State of a worker for all its sessions; single-threaded.
pub struct WorkerContext {
    /// The store's clock of this iteration.
    pub now: UnixMillis,
    /// The lead of the wall clock over `now`, in ms.
    pub wall_lead_ms: i64,
    /// State that all threads of the server share: store, settings, counters of all workers, the stop switch.
    pub shared: Arc<Shared>,
    /// This worker's number, from 0.
    pub worker: usize,
    /// The clock.
    pub clock: Clock,
    /// The length of the longest request that must be whole in a receive buffer, in bytes.
    pub(crate) request_bytes_max: usize,
    /// The division of keys into namespaces, in this batch.
    pub(crate) keys: BatchRoutes,
    /// The requests that are refused or delayed, in this batch.
    pub(crate) admission: Admission,
    /// Messages that commands cause for other clients.
    pub push: PushState,
    /// The values that are being received in place.
    pub(crate) in_place: InPlaceReceives,
    /// Bounds of the current iteration and visit.
    pub pace: Pace,
    /// Start of the operation in progress.
    pub op_begun: Ticks,
    /// Time at which the bytes of the session that is served were known to be there.
    pub ready: Ticks,
    /// The number of operations executed in this batch.
    pub batch_ops: usize,
    /// The request lines of operations that were slow before their reply was sent.
    pub slow_lines: SlowLines,
    /// The cost of this batch's work that its parsed bytes do not show, in bytes.
    pub work_bytes: usize,
    /// True if a parked operation waits only for other workers' iterations, which are short. The next iteration then
    /// begins at once.
    pub retry_at_once: bool,
    /// The sampler of hot keys.
    pub(crate) sampler: Sampler,
    /// Finished transactions, for reuse.
    pub(crate) spares: RetiredTransactions,
    /// See [`WorkerContext::scratch`].
    scratch: Cell<Vec<u8>>,
}

const _: () = assert!(crate::config::WORKERS_MAX <= u128::BITS as usize);

impl WorkerContext {
    /// Creates the state of a worker's commands before its first iteration. `request_bytes_max` is the length of the
    /// longest request that must be whole in a receive buffer, in bytes.
    pub fn new(shared: Arc<Shared>, worker: usize, clock: Clock, request_bytes_max: usize) -> Self {
        let op_begun = clock.ticks();
        Self {
            now: UnixMillis::default(),
            wall_lead_ms: 0,
            shared,
            worker,
            pace: Pace::new(&clock),
            clock,
            keys: BatchRoutes::default(),
            admission: Admission::default(),
            push: PushState::default(),
            in_place: InPlaceReceives::default(),
            request_bytes_max,
            op_begun,
            ready: op_begun,
            batch_ops: 0,
            slow_lines: SlowLines::default(),
            retry_at_once: false,
            work_bytes: 0,
            sampler: Sampler::new(worker),
            spares: RetiredTransactions::default(),
            scratch: Cell::default(),
        }
    }

    /// Returns the worker's buffer for a new value. `guard` knows the length of a piece.
    #[inline]
    pub(crate) fn scratch(&self, guard: &Guard<'_>) -> Scratch<'_> {
        Scratch::take(&self.scratch, guard.sizes().piece_bytes_max())
    }

    /// Returns this worker's counters.
    #[inline]
    pub fn counters(&self) -> &WorkerCounters {
        &self.shared.workers[self.worker].counters
    }

    /// Returns the connections of this worker.
    pub fn connection_table(&self) -> &ConnectionTable {
        &self.shared.workers[self.worker].connection_table
    }

    /// Records `count` operations that were executed together and whose replies, if any, are in `out`. Their times are
    /// complete once the replies are sent. Each operation took from the beginning of the first to the end of the last.
    /// `line` begins with the first one's request line, or is empty if that is gone; it is read only if they were slow.
    #[inline]
    pub fn ops_done(
        &mut self,
        out: &mut OutBuffer,
        namespace: Namespace,
        (command, count): (Command, usize),
        line: &[u8],
    ) {
        let ended = self.clock.ticks();
        if self.slow_lines.is_slow(self.ready, ended) {
            self.slow_lines.record(self.op_begun, line);
        }
        let (namespace, count_u32) = (namespace.0, count as u32);
        out.push_op(OpTimes { command, namespace, count: count_u32, ready: self.ready, begun: self.op_begun, ended });
        self.op_begun = ended;
        self.batch_ops += count;
    }

    /// Records an operation whose reply is sent together with the replies of others. Records its wait since `ready` and
    /// its execution, but no send time.
    pub(crate) fn op_done_unsent(&mut self, namespace: Namespace, command: Command, ready: Ticks, line: &[u8]) {
        let ended = self.clock.ticks();
        let parts_ns =
            [(ready, self.op_begun), (self.op_begun, ended)].map(|(from, to)| self.clock.ns_between(from, to));
        let recorder = &self.shared.workers[self.worker].recorder;
        if recorder.record_unsent(command, namespace.0, parts_ns) {
            recorder.record_slow(command, SlowLine::of(line), [parts_ns[0], parts_ns[1], 0]);
        }
        self.op_begun = ended;
        self.batch_ops += 1;
    }

    /// Returns this iteration's instant, for conversions between the store's clock and the wall clock.
    #[inline]
    pub(crate) fn moment(&self) -> Moment {
        Moment { now: self.now, wall_lead_ms: self.wall_lead_ms }
    }

    /// Records a key that was sampled.
    #[cold]
    #[inline(never)]
    pub(crate) fn sample(&mut self, guard: &Guard<'_>, key: &Key<'_>, is_read: bool) {
        // A value that may be on flash is not a miss yet, and its length is unknown.
        let on_flash = || guard.walks().hash_may_be_on_flash(key.hash()).then_some(0);
        let bytes = guard.items().peek(key).map(|item| item.value.client_bytes()).or_else(on_flash);
        let hot_keys = &self.shared.workers[self.worker].hot_keys;
        let named = (key.namespace(), key.bytes());
        self.shared.minutes.note(hot_keys, named, SampledAccess { bytes, is_read }, &mut self.sampler.big_above);
    }

    /// Records the length of a value that will be stored, if it is among the longest of this minute.
    #[inline]
    pub(crate) fn note_length(&mut self, namespace: Namespace, key: &[u8], bytes: u64) {
        if bytes > self.sampler.big_above {
            let hot_keys = &self.shared.workers[self.worker].hot_keys;
            self.shared.minutes.note_big(hot_keys, (namespace, key), bytes, &mut self.sampler.big_above);
        }
    }

    /// Counts work on `entries` (outboxes filled, names checked, subscriptions) against the iteration's share.
    #[inline]
    pub(crate) fn note_work(&mut self, entries: usize) {
        self.work_bytes += entries * ENTRY_WORK_BYTES;
        self.pace.charge(entries / ENTRIES_AN_OP);
    }

    /// Continues a publication. Returns the number of receivers once it is done, or `None` if `work` is used up.
    pub(crate) fn publish_some(
        &mut self,
        publishing: &mut Publishing,
        kind: ChannelKind,
        message: (&[u8], &[u8]),
        work: &mut usize,
    ) -> Option<u64> {
        let Self { shared, worker, push: PushState { to_wake, .. }, .. } = self;
        let note = |to, connection| mark_messages(shared, *worker, to_wake, to, connection);
        shared.channels.publish_some(publishing, kind, message, work, note)
    }

    /// Publishes a key event to its subscribers: at once if that is little work and no earlier event waits, otherwise
    /// in slices between batches.
    #[cold]
    pub(crate) fn publish_change(&mut self, namespace: Namespace, event: KeyEvent, key: &[u8]) {
        let Self { shared, worker, push: PushState { to_wake, unpublished, .. }, .. } = self;
        notify::publish(&shared.channels, shared.key_events(), namespace, event, key, |name, text| {
            let (mut publishing, mut work) = (Publishing::default(), PUBLISH_WORK / 16);
            let note = |to, connection| mark_messages(shared, *worker, to_wake, to, connection);
            let is_first = unpublished.is_empty();
            let channels = &shared.channels;
            let is_done = is_first
                && channels
                    .publish_some(&mut publishing, ChannelKind::Channel, (name, text), &mut work, note)
                    .is_some();
            if !is_done {
                unpublished.push_back(Unpublished { name: name.into(), text: text.into(), publishing });
            }
        });
    }

    /// Continues to publish waiting key events, for a bounded time.
    #[cold]
    pub fn publish_waiting(&mut self) {
        let mut work = PUBLISH_WORK;
        self.note_work(work);
        while let Some(mut first) = self.push.unpublished.pop_front() {
            let message = (&first.name[..], &first.text[..]);
            if self.publish_some(&mut first.publishing, ChannelKind::Channel, message, &mut work).is_none() {
                self.push.unpublished.push_front(first);
                return;
            }
        }
    }

    /// Returns true if the number of unpublished key events is so high that no further request may be executed first.
    #[inline]
    pub fn is_behind_publishing(&self) -> bool {
        self.push.unpublished.len() >= UNPUBLISHED_MAX
    }

    /// Sends a line to the monitoring clients. Returns their number.
    pub(crate) fn send_to_monitors(&mut self, line: &[u8]) -> usize {
        let Self { shared, worker, push: PushState { to_wake, .. }, .. } = self;
        shared.channels.send_to_monitors(line, |to, connection| mark_messages(shared, *worker, to_wake, to, connection))
    }

    /// Determines at the beginning of a batch which restrictions apply to Redis clients in it.
    pub fn load_restrictions(&mut self) {
        let shared = &self.shared;
        self.admission.pause = shared.live.pause.now(self.now);
        self.keys.guards = shared.namespaces.guards() | ROUTED_AWAY;
        self.admission.user_changes = shared.users.changes();
        self.admission.requires_authentication = shared.requires_authentication();
        self.admission.restrained = self.admission.pause != Pause::None
            || !shared.config.disabled.is_empty()
            || self.admission.user_changes != 0;
        if self.admission.pause != Pause::None {
            self.keys.guards |= PAUSED;
        }
        if self.keys.guards & ROUTED != 0 {
            self.follow_routes();
        }
    }

    #[cold]
    fn follow_routes(&mut self) {
        let changes = self.shared.namespaces.route_changes();
        if changes != self.keys.route_changes {
            (self.keys.route_changes, self.keys.routes) = (changes, self.shared.namespaces.routes());
        }
    }

    /// Returns true if the operations per second of a namespace are bounded.
    #[inline(always)]
    pub(crate) fn has_op_quota(&self, namespace: Namespace) -> bool {
        self.keys.guards & 1 << namespace.0 != 0
    }

    /// Returns true if the current visit has used its slice of time, as of the end of the last operation.
    #[inline(always)]
    pub(crate) fn is_slice_over(&self) -> bool {
        self.pace.is_slice_over(self.op_begun)
    }

    /// Checks that there is room for `bytes` more, or that eviction will make it.
    ///
    /// # Errors
    /// If there is no room: see [`segment::Store::check_room`].
    #[inline]
    pub(crate) fn check_room(&self, namespace: Namespace, bytes: u64) -> Result<(), OpError> {
        self.shared.store.check_room(namespace, bytes)
    }

    /// Records that a connection of worker `to` has queued messages, or is to be closed.
    pub(crate) fn mark_messages_queued(&mut self, to: usize, connection: u32) {
        mark_messages(&self.shared, self.worker, &mut self.push.to_wake, to, connection);
    }

    /// Returns the CAS token to report to a client: `token`, or 0 in a store without CAS tokens.
    pub(crate) fn client_token(&self, token: u64) -> u64 {
        if self.shared.config.cas { token } else { 0 }
    }

    /// Reserves `bytes` of the store to be pinned for a reader. If it returns false, the `serve` stops with
    /// `State::OutputFull`. If pinning then fails, [`WorkerContext::pin_refund`] returns the bytes. Otherwise
    /// `OutBuffer::push_pinned` takes them over.
    pub fn pin_budget(&self, bytes: u64) -> bool {
        self.shared.pins.grant(bytes)
    }

    /// Pins a value that was read completely under the current guard. Returns `None` if the budget is used up; the
    /// caller then copies the value. The caller passes a pinned value to `OutBuffer::push_pinned` or
    /// [`WorkerContext::unpin`].
    #[cold]
    pub(crate) fn pin(&self, value: &[u8]) -> Option<Pinned> {
        let store = &self.shared.store;
        self.shared.pins.grant_optional(store.pin_charge(value.len())).then(|| store.pin(value))
    }

    /// Releases a pinned value and its bytes in the budget.
    pub fn unpin(&self, pinned: Pinned) {
        self.shared.pins.release(pinned.charge());
        self.shared.store.unpin(pinned);
    }

    /// Reserves one more in-place receive, if available.
    pub(crate) fn begin_in_place(&mut self, charge: u64) -> bool {
        let granted = self.in_place.receives < IN_PLACE_RECEIVES_MAX && self.shared.pins.grant_optional(charge);
        self.in_place.receives += usize::from(granted);
        granted
    }

    /// Releases the reservation of an in-place receive.
    pub(crate) fn end_in_place(&mut self, charge: u64) {
        assert!(self.in_place.receives > 0, "an arrival ends once");
        self.in_place.receives -= 1;
        self.shared.pins.release(charge);
    }

    /// Returns bytes to the budget that [`WorkerContext::pin_budget`] granted and that were not pinned.
    pub fn pin_refund(&self, bytes: u64) {
        self.shared.pins.release(bytes);
    }
}

/// Records for worker `to` that `connection` has queued messages. The worker is woken once this worker's batch is done.
fn mark_messages(shared: &Shared, me: usize, to_wake: &mut u128, to: usize, connection: u32) {
    if shared.workers[to].push_queue.note(connection) && to != me {
        *to_wake |= 1 << to;
    }
}
