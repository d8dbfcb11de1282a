//! The interface between workers and commands: the input of a protocol's `serve`, and its result.
//!
//! ```text
//!   worker: receive -> serve(guard, unconsumed bytes, output, the protocol's session state, context) -> Progress
//! ```
//!
//! A `serve` function executes requests in order until it reaches one of the states of
//! [`crate::visit::progress::SessionWait`]. It consumes only whole requests and whole pieces of large values. The next
//! call continues at the first unconsumed byte. Each call executes at most [`crate::visit::progress::OPS_A_BATCH`]
//! operations, and reports them with [`WorkerContext::ops_done`].
//!
//! `command::SessionState` holds the protocol's state of a connection. Creating it allocates no memory. Its `release`
//! frees the connection's resources in the store. The worker calls `release` when the connection ends.

mod audit;
mod auth_wait;
pub(crate) mod grpc_buffers;

pub(crate) use audit::{audit, audit_redis};
pub(crate) use auth_wait::AuthWait;

use crate::clients::connection_table::ConnectionTable;
use crate::context::grpc_buffers::GrpcBuffers;
use crate::keyspace::graphs::WorkerGraphs;
use crate::keyspace::namespaces::{LIMITED, PAUSED, ROUTED, ROUTED_AWAY, SWAPPED};
use crate::keyspace::routes::Routes;
use crate::memory::scratch::Scratch;
use crate::metrics::command_stats::CommandStats;
use crate::metrics::counters::WorkerCounters;
use crate::metrics::hot_keys::{SampledAccess, Sampler};
use crate::metrics::{Command, SlowClient, SlowLine, SlowLines};
use crate::push::notify::{self, KeyEvent};
use crate::push::outbox::{ChannelKind, Publishing};
use crate::push::topics::TopicPublishing;
use crate::push::tracking::{Broadcasts, Invalidation};
use crate::push::waiters::{Deadlines, WaitKey};
use crate::push::watch::Watch;
use crate::resp::{RetiredTransactions, WorkerScripts};
use crate::shared::{Pause, Shared};
use crate::visit::clock::{Clock, Moment, Ticks};
use crate::visit::out::{OpTimes, OutBuffer};
use crate::visit::pace::Pace;
use base::clock::UnixMillis;
use segment::{Guard, Key, Namespace, OpError, Pinned};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The maximum length of a request line in bytes, line end included. A longer line gets an error, and the connection is
/// closed.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// The size of an ordinary receive buffer, in bytes.
pub const INPUT_BYTES: usize = 16 << 10;

/// The maximum number of values that one worker receives in place at once. Further values are received into buffers.
pub const IN_PLACE_RECEIVES_MAX: usize = 64;

/// The cost of putting a message into one outbox, expressed in request bytes: parsing and executing this number of
/// bytes takes the same time, about 100 ns.
const ENTRY_WORK_BYTES: usize = 128;

/// The number of pubsub entries (outboxes filled or names checked) that cost as much as one operation.
const ENTRIES_AN_OP: usize = 16;

/// The maximum number of outboxes that one visit fills while it publishes: about 100 us of work.
pub(crate) const PUBLISH_WORK: usize = 1024;

/// The number of bytes of changed keys that a batch collects for clients that track prefixes.
const BROADCAST_BYTES_MAX: usize = 256 << 10;
/// The number of unpublished key events at which a worker stops executing further requests.
const UNPUBLISHED_MAX: usize = 256;

/// A message that is sent in slices, because it has many receivers.
pub(crate) enum Unpublished {
    /// A key event with a channel's name and its text.
    Event { name: Box<[u8]>, text: Box<[u8]>, publishing: Publishing },
    /// An invalidation of values that clients have cached.
    Invalidation(Invalidation),
}

/// The assignment of keys to namespaces, as read at the beginning of a batch.
#[derive(Default)]
pub(crate) struct BatchRoutes {
    /// A bit for each namespace that has a quota of operations per second, and the bits [`ROUTED`], [`PAUSED`] and
    /// [`ROUTED_AWAY`].
    pub(crate) guards: u32,
    /// The routes from key prefixes to namespaces. Empty if there are no rules.
    pub(crate) routes: Arc<Routes>,
    /// The change counter of the routes at the time when `routes` was read.
    pub(crate) route_changes: u64,
}

/// The restrictions that decide which requests are refused or delayed, as read at the beginning of a batch.
#[derive(Default)]
pub(crate) struct Admission {
    /// The clients that `CLIENT PAUSE` delays in this batch.
    pub(crate) pause: Pause,
    /// True if `CLIENT PAUSE` has delayed a request, until [`WorkerContext::take_delayed`] is called.
    pub(crate) has_delayed: bool,
    /// True if a Redis command of any client may be refused or delayed in this batch.
    pub(crate) restrained: bool,
    /// The number of changes of users since start. 0: no change, and every client has all rights.
    pub(crate) user_changes: u64,
    /// True if `maxmemory` is less than the store needs, so that commands that may need more memory are refused.
    pub(crate) is_below_least: bool,
    /// True if a client must authenticate before it may execute commands.
    pub(crate) requires_authentication: bool,
}

/// Messages that a worker's commands produce for other clients.
#[derive(Default)]
pub struct PushState {
    /// The watchers of this worker's events, and the events of this batch that are not yet sent to them.
    pub watch: Watch,
    /// A bit for each worker that must be woken, because its connections have queued messages from this batch.
    pub to_wake: u128,
    /// Key events and invalidations that are not published yet, oldest first.
    pub(crate) unpublished: VecDeque<Unpublished>,
    /// The keys that this batch has changed, for clients that receive all changes of their prefixes.
    pub(crate) broadcasts: Broadcasts,
}

impl PushState {
    /// Returns true if key events or invalidations are not published yet.
    #[inline]
    pub fn has_unpublished(&self) -> bool {
        !self.unpublished.is_empty()
    }
}

/// Counts of the values that a worker receives in place.
#[derive(Default)]
pub(crate) struct InPlaceReceives {
    /// The number of values that are being received in place.
    pub(crate) receives: usize,
    /// The number of those values whose key is too long to be held in the session's state.
    pub(crate) long_keys: usize,
}

/// The state of a worker for all its sessions. Only the worker's thread uses it.
pub struct WorkerContext {
    /// The store's clock, read once per iteration.
    pub now: UnixMillis,
    /// The lead of the wall clock over `now`, in ms.
    pub wall_lead_ms: i64,
    /// The state that all threads of the server share: store, settings, counters, stop request.
    pub shared: Arc<Shared>,
    /// This worker's number, from 0.
    pub worker: usize,
    /// The source of the worker's time.
    pub clock: Clock,
    /// The maximum length in bytes of a request that must be completely in the receive buffer before it is executed.
    pub(crate) request_bytes_max: usize,
    /// The assignment of keys to namespaces in this batch.
    pub(crate) keys: BatchRoutes,
    /// The restrictions by which requests are refused or delayed in this batch.
    pub(crate) admission: Admission,
    /// Messages that commands cause for other clients.
    pub push: PushState,
    /// The values that are being received in place.
    pub(crate) in_place: InPlaceReceives,
    /// The limits of work and time of the current iteration and visit.
    pub pace: Pace,
    /// The start of the operation in progress.
    pub op_begun: Ticks,
    /// The instant at which the worker learned that the current session has received bytes.
    pub ready: Ticks,
    /// The number of operations executed in this batch.
    pub batch_ops: usize,
    /// The request lines of operations that were already slow before their reply was sent.
    pub slow_lines: SlowLines,
    /// The cost of this batch's work that is not proportional to its request bytes, expressed in bytes.
    pub work_bytes: usize,
    /// True if a parked operation waits only until other workers end their current iteration, which is short. The next
    /// iteration then begins without a wait.
    pub retry_at_once: bool,
    /// The sampler of hot keys.
    pub(crate) sampler: Sampler,
    /// Finished transactions, for reuse.
    pub(crate) spares: RetiredTransactions,
    /// Lua states and known scripts.
    pub(crate) scripts: WorkerScripts,
    /// The deadlines of clients that wait in blocking commands.
    pub deadlines: Deadlines,
    /// The next instants at which gRPC connections must be visited.
    pub timers: Deadlines,
    /// The buffers that gRPC connections share; `None` before the first one.
    pub(crate) grpc: Option<Box<GrpcBuffers>>,
    /// The access to graphs; `None` before the first command that needs it.
    pub(crate) graph: Option<Box<WorkerGraphs>>,
    /// The memory of [`WorkerContext::scratch`].
    scratch: Cell<Vec<u8>>,
}

const _: () = assert!(crate::config::WORKERS_MAX <= u128::BITS as usize);

impl WorkerContext {
    /// Creates the context of a worker, before the worker's first iteration. `request_bytes_max` is the maximum length
    /// in bytes of a request that must be completely in the receive buffer.
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
            scripts: WorkerScripts::default(),
            deadlines: Deadlines::default(),
            timers: Deadlines::default(),
            grpc: None,
            graph: None,
            scratch: Cell::default(),
        }
    }

    /// Returns the worker's buffer for building a new value. `guard` provides the maximum length of a piece.
    #[inline]
    pub(crate) fn scratch(&self, guard: &Guard<'_>) -> Scratch<'_> {
        Scratch::take(&self.scratch, guard.sizes().piece_bytes_max())
    }

    /// Records the times of operations of a connection whose replies have been sent now.
    pub fn record_sent(&self, connection: u32, ops: &[OpTimes]) {
        let now = self.clock.ticks();
        let recorder = &self.shared.workers[self.worker].recorder;
        for op in ops {
            let parts = [(op.ready, op.begun), (op.begun, op.ended), (op.ended, now)];
            let parts_ns = parts.map(|(from, to)| self.clock.ns_between(from, to));
            recorder.record_in(op.namespace, op.count, parts_ns);
            if recorder.record(op.command, op.count, parts_ns) {
                let client = self.slow_client(connection);
                recorder.record_slow(op.command, (client, self.slow_lines.of(op.begun)), parts_ns);
            }
        }
    }

    /// Returns the client of a connection, for the record of its slow request.
    #[cold]
    fn slow_client(&self, connection: u32) -> SlowClient {
        let connections = self.connection_table();
        let name = connections.client_info(connection, |client_info| client_info.name.clone());
        SlowClient::new(connections.peer(connection), &name.unwrap_or_default())
    }

    /// Returns this worker's counters.
    #[inline]
    pub fn counters(&self) -> &WorkerCounters {
        &self.shared.workers[self.worker].counters
    }

    /// Returns the statistics of this worker's Redis commands.
    pub(crate) fn command_stats(&self) -> &CommandStats {
        &self.shared.workers[self.worker].command_stats
    }

    /// Returns the table of this worker's connections.
    pub fn connection_table(&self) -> &ConnectionTable {
        &self.shared.workers[self.worker].connection_table
    }

    /// Records `count` operations that were executed together and whose replies, if any, are in `out`. Their latencies
    /// are complete when the replies are sent. Each operation is counted with the time from the start of the first
    /// operation to the end of the last one. `line` begins with the request line of the first operation, or is empty if
    /// that line is no longer available. The line is read only if the operations were slow.
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

    /// Records an operation whose reply is sent together with later replies. Records its waiting time since `ready` and
    /// its execution time, but no send time.
    pub(crate) fn op_done_unsent(&mut self, namespace: Namespace, command: Command, ready: Ticks, line: &[u8]) {
        let ended = self.clock.ticks();
        let parts_ns =
            [(ready, self.op_begun), (self.op_begun, ended)].map(|(from, to)| self.clock.ns_between(from, to));
        let recorder = &self.shared.workers[self.worker].recorder;
        if recorder.record_unsent(command, namespace.0, parts_ns) {
            let client = self.slow_client(self.push.watch.connection);
            recorder.record_slow(command, (client, SlowLine::of(line)), [parts_ns[0], parts_ns[1], 0]);
        }
        self.op_begun = ended;
        self.batch_ops += 1;
    }

    /// Returns the current iteration's instant, which converts between the store's clock and the wall clock.
    #[inline]
    pub(crate) fn moment(&self) -> Moment {
        Moment { now: self.now, wall_lead_ms: self.wall_lead_ms }
    }

    /// Returns the current time of the wall clock, in microseconds since 1970. Reads the clock.
    pub(crate) fn wall_us(&self) -> u64 {
        self.clock.unix_us().saturating_add_signed(self.wall_lead_ms.saturating_mul(1000))
    }

    /// Records an access to a sampled key.
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

    /// Records the key and the length of a value that was stored, if the value is among the longest of this minute.
    #[inline]
    pub(crate) fn note_length(&mut self, namespace: Namespace, key: &[u8], bytes: u64) {
        if bytes > self.sampler.big_above {
            let hot_keys = &self.shared.workers[self.worker].hot_keys;
            self.shared.minutes.note_big(hot_keys, (namespace, key), bytes, &mut self.sampler.big_above);
        }
    }

    /// Counts work on `entries` (outboxes filled, names checked, subscriptions) towards the iteration's limit of
    /// counted work.
    #[inline]
    pub(crate) fn note_work(&mut self, entries: usize) {
        self.work_bytes += entries * ENTRY_WORK_BYTES;
        self.pace.charge(entries / ENTRIES_AN_OP);
    }

    /// Continues a publication. Returns the number of receivers when it is complete, or `None` if `work` is used up.
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

    /// Continues the publication of a message to the topic of a channel. Returns true when it is complete, or false if
    /// `work` is used up.
    pub(crate) fn publish_to_topic(
        &mut self,
        publishing: &mut TopicPublishing,
        namespace: Namespace,
        (name, value): (&[u8], &[u8]),
        work: &mut usize,
    ) -> bool {
        let now = self.now;
        let Self { shared, worker, push: PushState { to_wake, .. }, .. } = self;
        let note = |to, connection| mark_messages(shared, *worker, to_wake, to, connection);
        shared.topics.publish_some(publishing, (namespace, name), (value, now), work, note)
    }

    /// Publishes a key event to its subscribers. Publishes at once if the work is small and no earlier event waits. If
    /// not, the event is queued and published in slices between batches.
    #[cold]
    pub(crate) fn publish_change(&mut self, namespace: Namespace, event: KeyEvent, key: &[u8]) {
        let Self { shared, worker, push: PushState { to_wake, unpublished, .. }, .. } = self;
        let database = shared.namespaces.databases().database(namespace);
        notify::publish(&shared.channels, shared.key_events(), database, event, key, |name, text| {
            let (mut publishing, mut work) = (Publishing::default(), PUBLISH_WORK / 16);
            let note = |to, connection| mark_messages(shared, *worker, to_wake, to, connection);
            let is_first = unpublished.is_empty();
            let channels = &shared.channels;
            let is_done = is_first
                && channels
                    .publish_some(&mut publishing, ChannelKind::Channel, (name, text), &mut work, note)
                    .is_some();
            if !is_done {
                unpublished.push_back(Unpublished::Event { name: name.into(), text: text.into(), publishing });
            }
        });
    }

    /// Continues to publish waiting key events, for a bounded time.
    #[cold]
    pub fn publish_waiting(&mut self) {
        let mut work = PUBLISH_WORK;
        self.note_work(work);
        while let Some(mut first) = self.push.unpublished.pop_front() {
            let is_done = match &mut first {
                Unpublished::Event { name, text, publishing } => {
                    self.publish_some(publishing, ChannelKind::Channel, (name, text), &mut work).is_some()
                }
                Unpublished::Invalidation(invalidation) => self.send_invalidation(invalidation, &mut work),
            };
            if !is_done {
                self.push.unpublished.push_front(first);
                return;
            }
        }
    }

    /// Invalidates the copies that clients have of a key's value, because the client `author` (0: another one) has
    /// changed it.
    #[cold]
    pub(crate) fn invalidate(&mut self, namespace: Namespace, key: &[u8], author: u64) {
        let invalidation = self.shared.tracking.change((namespace, key), author, &mut self.push.broadcasts);
        if self.push.broadcasts.bytes() > BROADCAST_BYTES_MAX {
            self.queue_broadcasts();
        }
        invalidation.into_iter().for_each(|invalidation| self.queue_invalidation(invalidation));
    }

    /// Reports that a delete has removed an item that had expired: publishes the event of its expiry, and invalidates
    /// the copies that clients have.
    #[cold]
    pub(crate) fn report_expired(&mut self, namespace: Namespace, key: &[u8]) {
        if self.push.watch.watched.has_trackers() {
            self.invalidate(namespace, key, 0);
        }
        if self.push.watch.watched.has_key_events() {
            self.publish_change(namespace, KeyEvent::EXPIRED, key);
        }
    }

    /// Invalidates all copies that clients have of values, because a namespace was flushed.
    pub(crate) fn invalidate_flushed(&mut self) {
        if self.shared.watch.watched().has_trackers() {
            self.queue_invalidation(self.shared.tracking.flush());
        }
    }

    /// Sends an invalidation. If the work is not small or earlier messages wait, the rest is sent in slices between
    /// batches.
    pub(crate) fn queue_invalidation(&mut self, mut invalidation: Invalidation) {
        let mut work = PUBLISH_WORK / 16;
        let is_first = self.push.unpublished.is_empty();
        if !is_first || !self.send_invalidation(&mut invalidation, &mut work) {
            self.push.unpublished.push_back(Unpublished::Invalidation(invalidation));
        }
    }

    /// Queues the invalidations of the keys that the batch has changed, for the clients of their prefixes.
    #[cold]
    pub fn queue_broadcasts(&mut self) {
        if !self.push.broadcasts.is_empty() {
            self.push.broadcasts.take().for_each(|invalidation| self.queue_invalidation(invalidation));
        }
    }

    fn send_invalidation(&mut self, invalidation: &mut Invalidation, work: &mut usize) -> bool {
        let Self { shared, worker, push: PushState { to_wake, .. }, .. } = self;
        let note = &mut |to, connection| mark_messages(shared, *worker, to_wake, to, connection);
        invalidation.send_some(&shared.tracking, work, note)
    }

    /// Returns true if so many key events are unpublished that the worker must publish before it executes further
    /// requests.
    #[inline]
    pub fn is_behind_publishing(&self) -> bool {
        self.push.unpublished.len() >= UNPUBLISHED_MAX
    }

    /// Sends a line to the monitoring clients. Returns the number of these clients.
    pub(crate) fn send_to_monitors(&mut self, line: &[u8]) -> usize {
        let Self { shared, worker, push: PushState { to_wake, .. }, .. } = self;
        shared.channels.send_to_monitors(line, |to, connection| mark_messages(shared, *worker, to_wake, to, connection))
    }

    /// Reads the restrictions that apply to clients in the batch that begins.
    pub fn load_restrictions(&mut self) {
        let shared = &self.shared;
        self.admission.pause = shared.live.pause.now(self.now);
        self.keys.guards = shared.namespaces.guards() | ROUTED_AWAY;
        self.admission.user_changes = shared.users.changes();
        self.admission.requires_authentication = shared.requires_authentication();
        self.admission.is_below_least = shared.live.memory_below_least.load(Relaxed) != 0;
        self.admission.restrained = self.admission.pause != Pause::None
            || self.admission.is_below_least
            || !shared.config.disabled.is_empty()
            || self.admission.user_changes != 0;
        if self.admission.pause != Pause::None {
            self.keys.guards |= PAUSED;
        }
        if self.admission.user_changes != 0 {
            self.keys.guards |= LIMITED;
        }
        if self.keys.guards & (ROUTED | SWAPPED) != 0 {
            self.follow_routes();
        }
    }

    /// Announces a change of a key, which is visible, to the clients that wait for the key.
    #[cold]
    pub(crate) fn announce(&mut self, key: &Key<'_>) {
        let shared = Arc::clone(&self.shared);
        let key = WaitKey { namespace: key.namespace(), hash: key.hash(), bytes: key.bytes(), group: b"" };
        shared.waiters.announce(key, &[], &mut |worker, connection| self.mark_messages_queued(worker, connection));
    }

    /// Announces a flush of a namespace, or of all without one, to clients that wait for entries of a group, which no
    /// longer exists, and to clients that cache values.
    pub fn flushed(&mut self, namespace: Option<Namespace>) {
        let shared = Arc::clone(&self.shared);
        shared
            .waiters
            .announce_flush(namespace, &mut |worker, connection| self.mark_messages_queued(worker, connection));
        self.invalidate_flushed();
    }

    /// Returns true if `CLIENT PAUSE` has delayed a request since the last call.
    pub fn take_delayed(&mut self) -> bool {
        std::mem::take(&mut self.admission.has_delayed)
    }

    #[cold]
    fn follow_routes(&mut self) {
        let changes = self.shared.namespaces.route_changes();
        if changes != self.keys.route_changes {
            (self.keys.route_changes, self.keys.routes) = (changes, self.shared.namespaces.routes());
        }
        self.admission.restrained |= self.keys.guards & SWAPPED != 0;
    }

    /// Returns true if a namespace has a quota of operations per second.
    #[inline(always)]
    pub(crate) fn has_op_quota(&self, namespace: Namespace) -> bool {
        self.keys.guards & 1 << namespace.0 != 0
    }

    /// Returns true if the current visit had used up its time slice when the last operation ended.
    #[inline(always)]
    pub(crate) fn is_slice_over(&self) -> bool {
        self.pace.is_slice_over(self.op_begun)
    }

    /// Checks that the store has room for `bytes` more bytes, or can evict enough items.
    ///
    /// # Errors
    /// If there is no room; see [`segment::Store::check_room`].
    #[inline]
    pub(crate) fn check_room(&self, namespace: Namespace, bytes: u64) -> Result<(), OpError> {
        if self.admission.is_below_least {
            return Err(OpError::OutOfMemory);
        }
        self.shared.store.check_room(namespace, bytes)
    }

    /// Records that a connection of worker `to` has queued messages or must be closed.
    pub(crate) fn mark_messages_queued(&mut self, to: usize, connection: u32) {
        mark_messages(&self.shared, self.worker, &mut self.push.to_wake, to, connection);
    }

    /// Returns the CAS token to report to a client: `token`, or 0 in a store without CAS tokens.
    pub(crate) fn client_token(&self, token: u64) -> u64 {
        if self.shared.config.cas { token } else { 0 }
    }

    /// Reserves `bytes` bytes of the store, which the caller will pin for a reader. If this function returns false,
    /// `serve` must return `SessionWait::OutputFull`. If the pin then fails, the caller returns the bytes with
    /// [`WorkerContext::pin_refund`]. If the pin succeeds, `OutBuffer::push_pinned` takes over the reservation.
    pub fn pin_budget(&self, bytes: u64) -> bool {
        self.shared.pins.grant(bytes)
    }

    /// Pins a value that was read completely under the current guard. Returns `None` if the budget is used up, and the
    /// caller then copies the value. The caller passes a pinned value to `OutBuffer::push_pinned` or
    /// [`WorkerContext::unpin`].
    #[cold]
    pub(crate) fn pin(&self, value: &[u8]) -> Option<Pinned> {
        let store = &self.shared.store;
        self.shared.pins.grant_optional(store.pin_charge(value.len())).then(|| store.pin(value))
    }

    /// Unpins a value and returns its bytes to the budget.
    pub fn unpin(&self, pinned: Pinned) {
        self.shared.pins.release(pinned.charge());
        self.shared.store.unpin(pinned);
    }

    /// Reserves one in-place receive of `charge` bytes. Returns false if the worker has reached its maximum number of
    /// in-place receives or the budget of pins is used up.
    pub(crate) fn begin_in_place(&mut self, charge: u64) -> bool {
        let granted = self.in_place.receives < IN_PLACE_RECEIVES_MAX && self.shared.pins.grant_optional(charge);
        self.in_place.receives += usize::from(granted);
        granted
    }

    /// Releases the reservation of an in-place receive.
    pub(crate) fn end_in_place(&mut self, charge: u64) {
        assert!(self.in_place.receives > 0, "each in-place receive ends once");
        self.in_place.receives -= 1;
        self.shared.pins.release(charge);
    }

    /// Returns to the budget those bytes that [`WorkerContext::pin_budget`] reserved but that were not pinned.
    pub fn pin_refund(&self, bytes: u64) {
        self.shared.pins.release(bytes);
    }
}

/// Records in worker `to`'s push queue that `connection` has queued messages. Marks the worker to be woken when this
/// worker's batch ends.
fn mark_messages(shared: &Shared, me: usize, to_wake: &mut u128, to: usize, connection: u32) {
    if shared.workers[to].push_queue.note(connection) && to != me {
        *to_wake |= 1 << to;
    }
}
