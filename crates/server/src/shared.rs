//! The state that all threads of one server share.

use crate::auth::Auth;
use crate::background::BackgroundCounters;
use crate::budget::Budget;
use crate::buffers::SetAside;
use crate::clock::{Clock, Origin};
use crate::command::counters::{CommandCounters, CommandShared, CommandTotals};
use crate::command::resp::acl::Users;
use crate::connection_table::ConnectionTable;
use crate::counters::{Counter, WorkerCounters};
use crate::hot_keys::{HotKeys, Minutes, Told};
use crate::mail::{Channels, Post};
use crate::metrics::Recorder;
use crate::namespaces::Namespaces;
use crate::notify::KeyEvents;
use crate::prefixes::Prefixes;
use crate::start::ServerConfig;
use crate::survey::Survey;
use crate::watch::Hub;
use base::clock::UnixMillis;
use io::waker::Waker;
use segment::{Namespace, ResizeError, Store, StoreStats};
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// One server's common state. Commands reach it through their context, the admin port and the program through
/// `Running::shared`.
pub struct Shared {
    /// The item store.
    pub store: Arc<Store>,
    /// Configuration that the server was started with.
    pub config: ServerConfig,
    /// Settings that a reload may change.
    pub live: Live,
    /// The shared state of each worker, in their order.
    pub workers: Vec<WorkerShared>,
    /// State that the commands of all workers share.
    pub commands: CommandShared,
    /// The source of client numbers.
    pub clients: Clients,
    /// The acceptor's counters.
    pub acceptor: AcceptorCounters,
    /// The background thread's counters.
    pub background: BackgroundCounters,
    /// Findings that are slow to obtain, as of the last survey.
    pub survey: Survey,
    /// Bytes of the store that readers may pin.
    pub pins: PinBudget,
    /// Bytes that connections hold outside the store.
    pub budget: Arc<Budget>,
    /// Names, terms and figures of namespaces.
    pub namespaces: Namespaces,
    /// Delayed flushes that are not due yet.
    pub delayed_flush: DelayedFlush,
    /// Users of the server; without it, every client may use it.
    pub auth: Option<Arc<Auth>>,
    /// Rights of Redis clients.
    pub users: Users,
    /// Counters by key prefix, while they are on.
    pub prefixes: Prefixes,
    /// Facts that the records of each set share.
    pub sets: record::Sets,
    /// Hot, big and missed keys, minute by minute.
    pub minutes: Minutes,
    /// Secondary indexes of sets.
    pub indexes: crate::indexes::Indexes,
    /// Watchers, by kind of event.
    pub watch: Arc<Hub>,
    /// Subscribers, by channel.
    pub channels: Arc<Channels>,
    /// Start of the server, by the store's clock.
    pub started: UnixMillis,
    /// Origin of the store's clock.
    pub(crate) origin: Origin,
    /// The lead of the wall clock over the store's clock, in ms: see `Moment`.
    pub(crate) wall_ahead_ms: AtomicI64,
    /// Time that its memory took to open, or to create.
    pub opened_in: Duration,
    /// The stop switch.
    pub stop: StopSwitch,
    /// The state of a hand-over in preparation.
    pub(crate) drain: Drain,
    pub(crate) background_thread: OnceLock<Thread>,
    /// Time that the last checkpoint took, from when all was sealed.
    pub checkpoint_ns: AtomicU64,
    /// The tier that evicted items go to.
    pub flash: Option<Arc<flash::Flash>>,
    /// Its devices, in the order of the configuration.
    pub(crate) flash_files: Vec<Arc<std::fs::File>>,
}

impl Shared {
    /// Returns the machine's clocks, with the store's clock.
    pub(crate) fn clock(&self) -> Clock {
        Clock::machine().from(self.origin)
    }

    /// Returns the time of the store's clock, for threads that have no clock of their own.
    pub fn now(&self) -> UnixMillis {
        self.origin.now()
    }

    /// Returns the lead of the wall clock over the store's clock, in ms.
    pub fn wall_ahead_ms(&self) -> i64 {
        self.wall_ahead_ms.load(Relaxed)
    }

    /// Sets the lead of the wall clock over the store's clock, also for the next process.
    pub fn set_wall_ahead_ms(&self, ahead_ms: i64) {
        self.wall_ahead_ms.store(ahead_ms, Relaxed);
        self.store.keep_wall_ahead(ahead_ms);
    }

    /// Detects a step of the wall clock and records it.
    pub(crate) fn follow_wall(&self) {
        let (before, wall, after) = (self.now(), UnixMillis::now(), self.now());
        // A thread that was delayed between two readings has not seen a step.
        if after.ms_since(before) > 100 {
            return;
        }
        if let Some(ahead_ms) = crate::clock::stepped(before, wall, self.wall_ahead_ms()) {
            tracing::warn!(
                "the wall clock was stepped by {} ms: times to live go on as they were",
                ahead_ms.saturating_sub(self.wall_ahead_ms())
            );
            self.set_wall_ahead_ms(ahead_ms);
        }
    }

    /// Returns the number of open connections of all workers.
    pub fn connections_open(&self) -> u64 {
        self.workers.iter().map(|worker| worker.counters.connections_open()).sum()
    }

    /// Returns the store's figures, for a worker. Counters are current; the states of segments and their dead bytes are
    /// those of the last census.
    pub fn store_stats(&self) -> StoreStats {
        self.store.stats_by(&self.survey.latest().census)
    }

    /// Changes the memory of heap and index, in bytes. The background thread completes it.
    ///
    /// # Errors
    /// If the store cannot continue with so little memory, or no address space was reserved for so much.
    pub fn resize_memory(&self, memory_bytes: u64) -> Result<(), ResizeError> {
        self.resize_store(memory_bytes.saturating_sub(self.indexes.bytes()))
    }

    /// Changes the store's memory to `memory_bytes`, which is what secondary indexes leave.
    pub(crate) fn resize_store(&self, memory_bytes: u64) -> Result<(), ResizeError> {
        self.store.resize(memory_bytes)?;
        self.pins.follow(memory_bytes);
        self.budget.follow(memory_bytes);
        self.wake_background();
        Ok(())
    }

    /// Wakes the background thread if it sleeps.
    pub fn wake_background(&self) {
        if let Some(thread) = self.background_thread.get() {
            thread.unpark();
        }
    }

    /// Sets which key events are published.
    pub fn set_key_events(&self, events: KeyEvents) {
        self.live.key_events.store(events.0, Relaxed);
        self.watch.tell_changes(events.any());
    }

    /// Returns which key events are published.
    pub fn key_events(&self) -> KeyEvents {
        KeyEvents(self.live.key_events.load(Relaxed))
    }

    /// Makes the reported command counts start from here. The counters themselves belong to their workers.
    pub fn reset_stats(&self) {
        let totals = crate::command::memcache::command_totals(self);
        *self.commands.baseline.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = totals;
        self.prefixes.clear();
    }

    /// Returns the command counts since the last reset.
    pub fn stats_since_reset(&self) -> CommandTotals {
        let baseline = *self.commands.baseline.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        crate::command::memcache::command_totals(self).since(&baseline)
    }

    /// Collects the workers' hot keys of a minute that is over.
    pub(crate) fn roll_minutes(&self, now: UnixMillis) {
        self.minutes.roll(now, self.workers.iter().map(|worker| &worker.hot_keys));
    }

    /// Returns hot, big and missed keys of the last `minutes` whole minutes and of the current one, at most `count` of
    /// each.
    pub fn hot_keys(&self, minutes: usize, count: usize) -> Told {
        self.minutes.read(minutes, count, self.workers.iter().map(|worker| &worker.hot_keys))
    }

    /// Records that a worker's connection has queued messages, and wakes the worker. For any thread that is not a
    /// worker.
    pub(crate) fn note_mail(&self, worker: usize, connection: u32) {
        let worker = &self.workers[worker];
        if worker.post.note(connection) {
            worker.waker.wake();
        }
    }

    /// Returns true if a Redis client that has not authenticated may do nothing.
    pub fn asks_who(&self) -> bool {
        self.auth.is_some() || self.users.asks()
    }

    /// Reloads the files of users, if there are any. If a file cannot be loaded, its current users remain.
    pub fn reload_users(&self) {
        if let Some(path) = &self.config.acl_file {
            match self.users.load() {
                Ok(()) => tracing::info!("users were read from {}", path.display()),
                Err(error) => tracing::error!("users stay as they were: {}: {error}", path.display()),
            }
        }
        let Some(auth) = &self.auth else { return };
        match auth.reload() {
            Ok(()) => tracing::info!("users were read from {}", auth.path().display()),
            Err(error) => tracing::error!("users stay as they were: {}: {error}", auth.path().display()),
        }
    }

    /// Requests a hand-over: no client is accepted any more, and [`crate::start::Running::join`] continues it. Returns
    /// at once. If a stop is requested before or meanwhile, the server stops instead.
    pub fn request_hand_over(&self) {
        self.stop.closed.store(true, Release);
        self.acceptor.waker.wake();
    }

    /// Prepares a hand-over while clients are served as usual. From now on no worker begins an in-place receive,
    /// because such a connection could not move. Values that are being received have `patience` to complete.
    pub(crate) fn drain(&self, patience: Duration) {
        let end = Instant::now() + patience;
        while !self.stop.is_shut() {
            self.drain.round.fetch_add(1, AcqRel);
            self.workers.iter().for_each(|worker| worker.waker.wake());
            std::thread::sleep(DRAIN_ROUND);
            let is_drained = |worker: &WorkerShared| Drain::is_drained(worker.arriving.load(Acquire));
            if self.workers.iter().all(is_drained) || Instant::now() >= end {
                return;
            }
        }
    }

    /// Lets connections leave, once no client is accepted any more.
    pub(crate) fn hand_over(&self) {
        self.stop.hands_over.store(true, Release);
        self.switch_off();
    }

    /// Requests a graceful stop. Returns at once, so that a command may call it.
    pub fn request_stop(&self) {
        self.stop.asked.store(true, Release);
        self.switch_off();
    }

    /// Records that the acceptor begins, or has no listeners any more.
    pub(crate) fn accepts(&self, accepts: bool) {
        self.stop.accepts.store(accepts, Release);
        if !accepts {
            self.workers.iter().for_each(|worker| worker.waker.wake());
        }
    }

    /// Ends the threads, for a stop and for a hand-over.
    pub(crate) fn switch_off(&self) {
        self.stop.switch_off();
        for worker in &self.workers {
            worker.waker.wake();
        }
        self.acceptor.waker.wake();
        self.wake_background();
    }
}

/// The time between two rounds of [`Drain`].
const DRAIN_ROUND: Duration = Duration::from_millis(5);

/// The question to all workers before a hand-over, repeated in rounds: how many in-place receives are there?
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// The number of the current round. 0: no hand-over is being prepared.
    round: AtomicU64,
}

impl Drain {
    /// Returns the number of the current round. 0: no hand-over is being prepared.
    #[inline]
    pub(crate) fn round(&self) -> u64 {
        self.round.load(Relaxed)
    }

    /// Returns true if workers must not begin an in-place receive.
    pub(crate) fn is_on(&self) -> bool {
        self.round() != 0
    }

    /// Encodes a worker's answer: `[ round 32 | in-place receives 32 ]`.
    pub(crate) fn report(round: u64, arriving: u32) -> u64 {
        round << 32 | u64::from(arriving)
    }

    /// Returns true if the worker has answered that it has no in-place receive. It begins none from then on.
    fn is_drained(report: u64) -> bool {
        report != 0 && report as u32 == 0
    }
}

/// The state of one worker that other threads see.
pub struct WorkerShared {
    /// Its counters.
    pub counters: WorkerCounters,
    /// Counters of its commands, by namespace.
    pub commands: [CommandCounters; Namespace::MAX],
    /// The latencies of its operations.
    pub recorder: Recorder,
    /// Bytes of requests and replies that it has set aside, beside its pools of buffers.
    pub aside: Arc<SetAside>,
    /// Its connections.
    pub connection_table: ConnectionTable,
    /// The hot keys that the worker has sampled.
    pub hot_keys: HotKeys,
    /// Its connections with queued messages.
    pub post: Post,
    /// Ends its wait.
    pub waker: Waker,
    /// Its answer to [`Drain`].
    pub(crate) arriving: AtomicU64,
}

/// Settings that a reload may change. A worker reads them once an iteration.
#[derive(Debug)]
pub struct Live {
    /// The maximum number of connections at once.
    pub connections_max: AtomicU64,
    /// The instant until which clients wait.
    pub pause: PauseSwitch,
    /// Unix time in ms before which `SLOWLOG` reports no slow request.
    pub slow_reset_ms: AtomicU64,
    /// Unix time in ms before which `LATENCY` reports no slow request.
    pub latency_reset_ms: AtomicU64,
    /// The key events that are published: the bits of [`KeyEvents`].
    pub key_events: AtomicU32,
    /// The time without received bytes after which a connection is closed, in ms. 0: never.
    pub idle_timeout_ms: AtomicU64,
    /// The time after which a stalled connection is closed, in ms: one that takes nothing of its output, or that holds
    /// an incomplete request while others wait for its buffer.
    pub stall_timeout_ms: AtomicU64,
}

/// The clients that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    /// No clients.
    #[default]
    None,
    /// Clients whose requests change something.
    Writes,
    /// All clients.
    All,
}

/// The instant until which clients wait, and which of them: one word, `ms << 1 | all`.
#[derive(Debug, Default)]
pub struct PauseSwitch(AtomicU64);

impl PauseSwitch {
    /// Makes clients wait until an instant. An earlier call with a later instant, or for all clients, remains in force.
    pub fn set(&self, until: UnixMillis, all: bool) {
        let longer = |word: u64| Some(until.0.max(word >> 1) << 1 | word & 1 | u64::from(all));
        let _ = self.0.fetch_update(Relaxed, Relaxed, longer);
    }

    /// Ends the wait of all clients.
    pub fn end(&self) {
        self.0.store(0, Relaxed);
    }

    /// Returns the clients that wait at `now`.
    #[inline]
    pub fn now(&self, now: UnixMillis) -> Pause {
        match self.0.load(Relaxed) {
            0 => Pause::None,
            word => self.look(word, now),
        }
    }

    #[cold]
    fn look(&self, word: u64, now: UnixMillis) -> Pause {
        if now.0 >= word >> 1 {
            let _ = self.0.compare_exchange(word, 0, Relaxed, Relaxed);
            return Pause::None;
        }
        if word & 1 == 1 { Pause::All } else { Pause::Writes }
    }
}

/// A source of numbers, from 1.
#[derive(Debug, Default)]
pub struct Clients(AtomicU64);

impl Clients {
    /// Returns a number that was not used before.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Relaxed) + 1
    }
}

/// Counters of the acceptor.
#[derive(Debug)]
pub struct AcceptorCounters {
    /// Connections accepted and handed to a worker.
    pub accepted: Counter,
    /// Connections refused because the limit was reached.
    pub rejected: Counter,
    /// The number of times that no file descriptor was left.
    pub descriptors_exhausted: Counter,
    pub(crate) waker: Waker,
}

impl AcceptorCounters {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            accepted: Counter::default(),
            rejected: Counter::default(),
            descriptors_exhausted: Counter::default(),
            waker,
        }
    }
}

/// Share of the store's memory that slow readers may pin, in percent.
const PIN_PERCENT: u64 = 5;

/// The number of store bytes that slow clients may keep from being reused.
///
/// The bound is `bytes_max`, or one value if that is longer: a value is always granted while nothing is pinned.
#[derive(Debug)]
pub struct PinBudget {
    bytes_max: AtomicU64,
    used: AtomicU64,
    wanted: AtomicBool,
}

impl PinBudget {
    /// Creates the budget of a store of `memory_bytes`.
    pub(crate) fn new(memory_bytes: u64) -> Self {
        let pins = Self { bytes_max: AtomicU64::new(0), used: AtomicU64::new(0), wanted: AtomicBool::new(false) };
        pins.follow(memory_bytes);
        pins
    }

    /// Adjusts the bound to a store of `memory_bytes`.
    fn follow(&self, memory_bytes: u64) {
        self.bytes_max.store(memory_bytes / 100 * PIN_PERCENT, Relaxed);
    }

    /// Takes `bytes` if they are available. Otherwise records that a reader waits.
    pub fn grant(&self, bytes: u64) -> bool {
        let bytes_max = self.bytes_max.load(Relaxed);
        let take = |used: u64| (used == 0 || used + bytes <= bytes_max).then_some(used + bytes);
        let granted = self.used.fetch_update(AcqRel, Acquire, take).is_ok();
        if !granted {
            self.wanted.store(true, Relaxed);
        }
        granted
    }

    /// Takes `bytes` if they are within the bound, for a caller that can do without.
    pub fn grant_spare(&self, bytes: u64) -> bool {
        let take = |used: u64| (used + bytes <= self.bytes_max.load(Relaxed)).then_some(used + bytes);
        self.used.fetch_update(AcqRel, Acquire, take).is_ok()
    }

    /// Returns `bytes` to the budget.
    pub fn release(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, AcqRel);
        assert!(before >= bytes, "more was given back than was granted");
    }

    /// Returns the number of granted bytes.
    pub fn used(&self) -> u64 {
        self.used.load(Acquire)
    }

    /// Returns true if a grant was refused since the last call.
    pub(crate) fn take_wanted(&self) -> bool {
        self.wanted.load(Relaxed) && self.wanted.swap(false, Relaxed)
    }
}

/// `flush_all` with a delay: one instant for each namespace, the latest requested. The first worker iteration past the
/// instant executes the flush.
#[derive(Debug, Default)]
pub struct DelayedFlush {
    /// The store that retains it beyond the process.
    store: Option<Arc<Store>>,
    /// A bit for each namespace with a delayed flush.
    scheduled: AtomicU32,
    at_ms: [AtomicU64; Namespace::MAX],
    refused: AtomicBool,
}

impl DelayedFlush {
    /// Restores the delayed flushes of the previous process, and persists new ones in `store`.
    pub(crate) fn kept_in(store: &Arc<Store>) -> Self {
        let flush = Self::default();
        for namespace in (0..Namespace::MAX as u8).map(Namespace) {
            if let Some(at) = store.kept_flush_at(namespace) {
                flush.schedule(namespace, at);
            }
        }
        Self { store: Some(Arc::clone(store)), ..flush }
    }

    /// Schedules a flush at `at`. It replaces an earlier request that is not due yet.
    pub fn schedule(&self, namespace: Namespace, at: UnixMillis) {
        if let Some(store) = &self.store {
            store.keep_flush_at(namespace, Some(at));
        }
        self.at_ms[usize::from(namespace.0)].store(at.0.max(1), Release);
        self.scheduled.fetch_or(1 << namespace.0, Release);
    }

    /// Cancels a scheduled flush.
    pub fn cancel(&self, namespace: Namespace) {
        if let Some(store) = &self.store {
            store.keep_flush_at(namespace, None);
        }
        self.at_ms[usize::from(namespace.0)].store(0, Release);
    }

    /// Takes a flush that is due at `now`. Each is returned to one caller only.
    #[inline]
    pub(crate) fn take(&self, now: UnixMillis) -> Option<Namespace> {
        if self.scheduled.load(Acquire) == 0 { None } else { self.take_scheduled(now) }
    }

    #[cold]
    fn take_scheduled(&self, now: UnixMillis) -> Option<Namespace> {
        let scheduled = self.scheduled.load(Acquire);
        for number in (0..Namespace::MAX as u8).filter(|number| scheduled & 1 << number != 0) {
            let at_ms = &self.at_ms[usize::from(number)];
            let at = at_ms.load(Acquire);
            if at != 0 && at <= now.0 && at_ms.compare_exchange(at, 0, AcqRel, Relaxed).is_ok() {
                return Some(Namespace(number));
            }
        }
        None
    }

    /// Makes a flush that could not be executed due again, unless another one was scheduled meanwhile.
    pub(crate) fn put_back(&self, namespace: Namespace, now: UnixMillis) {
        self.note_refused();
        let _ = self.at_ms[usize::from(namespace.0)].compare_exchange(0, now.0.max(1), AcqRel, Relaxed);
    }

    /// Records that a flush, delayed or not, found the background thread busy. It is retried soon.
    pub(crate) fn note_refused(&self) {
        self.refused.store(true, Relaxed);
    }

    /// Returns true if a flush was refused since the last call.
    pub(crate) fn take_refused(&self) -> bool {
        self.refused.load(Relaxed) && self.refused.swap(false, Relaxed)
    }
}

/// The switch that stops the server, in two steps: it finishes what is in flight, then its workers are gone.
///
/// ```text
///   stop        off ──> shut ──> workers gone
///   hand-over   closed ──> shut ──> hands over, off ──> workers gone      connections leave instead of being finished
/// ```
///
/// Shut: no listener is open. Connections are closed only then, so that a client that reconnects at once finds no open
/// port.
#[derive(Debug, Default)]
pub struct StopSwitch {
    asked: AtomicBool,
    closed: AtomicBool,
    /// True while the acceptor has listeners.
    accepts: AtomicBool,
    hands_over: AtomicBool,
    off: AtomicBool,
    workers_gone: AtomicBool,
}

impl StopSwitch {
    /// Returns true if a stop was requested.
    pub fn is_off(&self) -> bool {
        self.off.load(Acquire)
    }

    /// Returns true if a stop was requested, not a hand-over.
    pub fn was_asked(&self) -> bool {
        self.asked.load(Acquire)
    }

    /// Returns true if no client is accepted any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Acquire) || self.is_off()
    }

    /// Returns true if a stop was requested and no listener is open any more, so that workers may close their
    /// connections.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_off() && !self.accepts.load(Acquire)
    }

    /// Returns true if connections are to leave as they are.
    pub(crate) fn hands_over(&self) -> bool {
        self.hands_over.load(Acquire)
    }

    /// Returns true if no worker runs any more.
    pub(crate) fn workers_gone(&self) -> bool {
        self.workers_gone.load(Acquire)
    }

    pub(crate) fn say_workers_gone(&self) {
        self.workers_gone.store(true, Release);
    }

    fn switch_off(&self) {
        self.off.store(true, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_at_its_time_or_when_it_is_ended_and_a_shorter_one_shortens_it_not() {
        let pause = PauseSwitch::default();
        assert_eq!(pause.now(UnixMillis(5)), Pause::None);
        pause.set(UnixMillis(100), false);
        pause.set(UnixMillis(50), false);
        assert_eq!((pause.now(UnixMillis(99)), pause.now(UnixMillis(100))), (Pause::Writes, Pause::None));
        pause.set(UnixMillis(100), true);
        pause.set(UnixMillis(50), false);
        assert_eq!(pause.now(UnixMillis(60)), Pause::All);
        pause.end();
        assert_eq!(pause.now(UnixMillis(60)), Pause::None);
    }

    #[test]
    fn a_value_above_the_pin_budget_passes_alone_and_then_blocks_others() {
        let pins = PinBudget::new(2000);
        assert!(pins.grant(500));
        assert!(!pins.grant(1));
        assert!(pins.take_wanted() && !pins.take_wanted());
        pins.release(500);
        assert!(pins.grant(60) && !pins.grant(60) && pins.grant(40));
        assert_eq!(pins.used(), 100);
    }

    #[test]
    fn who_can_do_without_a_pin_takes_none_above_the_bound_and_calls_for_none() {
        let pins = PinBudget::new(2000);
        assert!(!pins.grant_spare(101) && pins.grant_spare(100) && !pins.grant_spare(1));
        assert!(!pins.take_wanted());
    }

    #[test]
    fn a_delayed_flush_is_taken_once_and_not_before_its_time() {
        let (flush, shop) = (DelayedFlush::default(), Namespace(3));
        assert_eq!(flush.take(UnixMillis(u64::MAX)), None);
        flush.schedule(shop, UnixMillis(50));
        flush.schedule(Namespace::DEFAULT, UnixMillis(60));
        assert_eq!((flush.take(UnixMillis(49)), flush.take(UnixMillis(50))), (None, Some(shop)));
        assert_eq!(flush.take(UnixMillis(50)), None);
        flush.put_back(shop, UnixMillis(50));
        assert_eq!(flush.take(UnixMillis(51)), Some(shop));
        flush.cancel(Namespace::DEFAULT);
        assert_eq!(flush.take(UnixMillis(61)), None);
    }
}
