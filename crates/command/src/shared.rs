//! The state that the commands of all workers share and that other threads of the server read.

use crate::clients::audit::{AuditEvent, AuditLog, AuditOrigin};
use crate::clients::auth::Auth;
use crate::clients::auth_delay::AuthDelay;
use crate::clients::connection_table::ConnectionTable;
use crate::clients::faults::FaultCounts;
use crate::clients::source::Sources;
use crate::clients::tokens::TokenKey;
use crate::config::Config;
use crate::host::Host;
use crate::keyspace::delayed_flush::DelayedFlush;
use crate::keyspace::graphs::{GraphCounters, Graphs};
use crate::keyspace::namespaces::Namespaces;
use crate::keyspace::prefixes::Prefixes;
use crate::keyspace::scripts::Scripts;
use crate::memory::budget::{Budget, SetAside};
use crate::memory::pins::PinBudget;
use crate::metrics::background::BackgroundCounters;
use crate::metrics::call_stats::CallStats;
use crate::metrics::command_counters::{CommandCounters, CommandShared, CommandTotals};
use crate::metrics::command_stats::{CommandStats, StatsSums};
use crate::metrics::counters::{Counter, WorkerCounters};
use crate::metrics::hot_keys::{HotKeyReport, HotKeys, Minutes};
use crate::metrics::info_totals::{InfoCounts, InfoTotals};
use crate::metrics::survey::Survey;
use crate::metrics::{BucketCounts, Command, Recorder};
use crate::push::notify::KeyEvents;
use crate::push::outbox::{Channels, PushQueue};
use crate::push::topics::Topics;
use crate::push::tracking::Tracking;
use crate::push::waiters::Waiters;
use crate::push::watch::Hub;
use crate::resp::acl::Users;
use crate::resp::config_hints::Hints;
use crate::visit::clock::{Clock, Origin};
use base::clock::UnixMillis;
use segment::{Namespace, ResizeError, Store, StoreStats};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The state that the commands of all workers share. Commands access it through [`crate::context::WorkerContext`].
pub struct Shared {
    /// The item store.
    pub store: Arc<Store>,
    /// Configuration of the commands.
    pub config: Config,
    /// The server that runs the commands.
    pub host: Arc<dyn Host>,
    /// Settings that a reload may change.
    pub live: Live,
    /// The shared state of each worker, by worker number.
    pub workers: Vec<WorkerShared>,
    /// The baseline of the command counters.
    pub commands: CommandShared,
    /// The cached scripts, and those in execution.
    pub scripts: Scripts,
    /// The source of client numbers.
    pub clients: Clients,
    /// The acceptor's counters.
    pub acceptor: AcceptorCounters,
    /// The background thread's counters.
    pub background: BackgroundCounters,
    /// Figures that are expensive to compute, as of the last survey.
    pub survey: Survey,
    /// The budget of store bytes that readers may pin.
    pub pins: PinBudget,
    /// The budget of client memory: bytes that connections hold outside the store.
    pub budget: Arc<Budget>,
    /// Names, limits and figures of namespaces.
    pub namespaces: Namespaces,
    /// Held while a gRPC call creates or deletes a cache, which takes a bounded time: it chooses a number of a
    /// namespace.
    pub cache_creation: Mutex<()>,
    /// Delayed flushes that are not due yet.
    pub delayed_flush: DelayedFlush,
    /// The users of the password file, for clients of both protocols. If `None`, no password file is configured.
    pub auth: Option<Arc<Auth>>,
    /// The sources of failed authentication attempts.
    pub auth_delay: AuthDelay,
    /// The number of open connections of each source.
    pub sources: Arc<Sources>,
    /// The queue of the audit log.
    pub audit: AuditLog,
    /// Rights of Redis clients.
    pub users: Users,
    /// Counters by key prefix, which are filled while detailed statistics are on.
    pub prefixes: Prefixes,
    /// Names and bin lists that the records of each set share.
    pub sets: record::Sets,
    /// Hot, big and missed keys, by minute.
    pub minutes: Minutes,
    /// Secondary indexes of sets.
    pub indexes: crate::keyspace::indexes::Indexes,
    /// The graph store.
    pub graphs: Graphs,
    /// Watchers, by kind of event.
    pub watch: Arc<Hub>,
    /// Clients that wait for keys.
    pub waiters: Waiters,
    /// Subscribers, by channel.
    pub channels: Arc<Channels>,
    /// The messages of channels, for gRPC clients.
    pub topics: Topics,
    /// The key that signs tokens of gRPC clients.
    pub token_key: TokenKey,
    /// The faults of tests; `None` if calls may not ask for faults.
    pub faults: Option<FaultCounts>,
    /// Clients that cache values, and the keys of these values.
    pub tracking: Arc<Tracking>,
    /// The instant of the server's start, by the store's clock.
    pub started: UnixMillis,
    /// The origin of the store's clock.
    pub origin: Origin,
    /// The lead of the wall clock over the store's clock, in ms: see `Moment`.
    pub wall_ahead_ms: AtomicI64,
}

impl Shared {
    /// Returns a clock that reads the machine's clocks and the store's clock.
    pub fn clock(&self) -> Clock {
        Clock::machine().from(self.origin)
    }

    /// Returns the time of the store's clock, for threads without a [`Clock`].
    pub fn now(&self) -> UnixMillis {
        self.origin.now()
    }

    /// Returns the lead of the wall clock over the store's clock, in ms.
    pub fn wall_ahead_ms(&self) -> i64 {
        self.wall_ahead_ms.load(Relaxed)
    }

    /// Sets the lead of the wall clock over the store's clock, and persists it for the next process.
    pub fn set_wall_ahead_ms(&self, ahead_ms: i64) {
        self.wall_ahead_ms.store(ahead_ms, Relaxed);
        self.store.persist_wall_lead(ahead_ms);
    }

    /// Checks if the wall clock was stepped, and records the new lead if so.
    pub fn detect_clock_step(&self) {
        let (before, wall, after) = (self.now(), UnixMillis::now(), self.now());
        // If the thread was delayed between the readings, their difference does not prove a step.
        if after.ms_since(before) > 100 {
            return;
        }
        if let Some(ahead_ms) = crate::visit::clock::stepped(before, wall, self.wall_ahead_ms()) {
            tracing::warn!(
                "the wall clock was stepped by {} ms: times to live are unchanged",
                ahead_ms.saturating_sub(self.wall_ahead_ms())
            );
            self.set_wall_ahead_ms(ahead_ms);
        }
    }

    /// Returns the number of open connections of all workers.
    pub fn connections_open(&self) -> u64 {
        self.workers.iter().map(|worker| worker.counters.connections_open()).sum()
    }

    /// Returns the store's figures. Counters are current. Segment states and dead bytes are those of the last census.
    /// The function is cheap enough for a worker to call.
    pub fn store_stats(&self) -> StoreStats {
        self.store.stats_by(&self.survey.latest().census)
    }

    /// Changes the memory of the store and the secondary indexes together, in bytes. The background thread completes
    /// the change.
    ///
    /// # Errors
    /// If the store cannot work with so little memory, or if the reserved address space is too small for so much.
    pub fn resize_memory(&self, memory_bytes: u64) -> Result<(), ResizeError> {
        self.resize_store(memory_bytes.saturating_sub(self.indexes.bytes()))
    }

    /// Sets the store's memory to `memory_bytes`, which does not include the secondary indexes.
    pub(crate) fn resize_store(&self, memory_bytes: u64) -> Result<(), ResizeError> {
        self.store.resize(memory_bytes)?;
        self.pins.follow(memory_bytes);
        self.budget.adjust_to(memory_bytes);
        self.host.wake_background();
        Ok(())
    }

    /// Sets which key events are published.
    pub fn set_key_events(&self, events: KeyEvents) {
        self.live.key_events.store(events.0, Relaxed);
        self.watch.set_key_events(events.any(), events.any_of_absent());
    }

    /// Returns which key events are published.
    pub fn key_events(&self) -> KeyEvents {
        KeyEvents(self.live.key_events.load(Relaxed))
    }

    /// Resets the counts that commands report. The workers' own counters are unchanged; reports subtract their current
    /// values.
    pub fn reset_stats(&self) {
        let totals = self.command_totals();
        *self.commands.baseline.lock().unwrap_or_else(PoisonError::into_inner) = totals;
        let totals = self.info_totals();
        *self.commands.info_baseline.lock().unwrap_or_else(PoisonError::into_inner) = totals;
        self.prefixes.clear();
    }

    /// Returns the counts of the whole server that `INFO` reports, since start.
    pub fn info_counts(&self) -> InfoCounts {
        let sum = |of: fn(&WorkerCounters) -> &Counter| -> u64 {
            self.workers.iter().map(|worker| of(&worker.counters).value()).sum()
        };
        let store = self.store_stats();
        InfoCounts {
            connections: sum(|counters| &counters.connections_total),
            ops: sum(|counters| &counters.ops),
            bytes_read: sum(|counters| &counters.bytes_read),
            bytes_written: sum(|counters| &counters.bytes_written),
            rejected: self.acceptor.rejected.value() + self.acceptor.source_rejected.value(),
            expired: store.expired,
            evicted: store.evicted,
            expired_unread: store.expired_unread,
            evicted_unread: store.evicted_unread,
            flash_evicted: store.flash_evicted,
            read_expired: store.read_expired,
            read_flushed: store.read_flushed,
            receives: sum(|counters| &counters.receives),
            sends: sum(|counters| &counters.sends),
            idle_closed: sum(|counters| &counters.idle_closed),
            descriptors_exhausted: self.acceptor.descriptors_exhausted.value(),
            expire_cpu_ms: self.background.cpu_ms("expire"),
        }
    }

    /// Returns the counts of [`Shared::info_counts`] since the last reset.
    pub fn counts_since_reset(&self) -> InfoCounts {
        let counts = self.info_counts();
        let baseline = self.commands.info_baseline.lock().unwrap_or_else(PoisonError::into_inner);
        counts.since(&baseline.counts)
    }

    /// Returns the counts and the statistics of Redis commands that `INFO` reports, since start.
    pub fn info_totals(&self) -> InfoTotals {
        let plain = |command| {
            let mut times = BucketCounts::default();
            self.workers.iter().for_each(|worker| worker.recorder.add_plain(command, &mut times));
            times
        };
        InfoTotals {
            counts: self.info_counts(),
            stats: StatsSums::read(self.workers.iter().map(|worker| &worker.command_stats)),
            plain: Command::PLAIN.map(plain),
        }
    }

    /// Returns the totals of [`Shared::info_totals`] since the last reset.
    pub fn info_since_reset(&self) -> InfoTotals {
        let totals = self.info_totals();
        let baseline = self.commands.info_baseline.lock().unwrap_or_else(PoisonError::into_inner);
        totals.since(&baseline)
    }

    /// Returns the counts of the commands of all workers since start.
    pub fn command_totals(&self) -> CommandTotals {
        let mut totals = CommandTotals::default();
        self.workers.iter().flat_map(|worker| &worker.commands).for_each(|block| totals.add(block));
        totals
    }

    /// Returns the command counts since the last reset.
    pub fn stats_since_reset(&self) -> CommandTotals {
        let baseline = *self.commands.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        self.command_totals().since(&baseline)
    }

    /// Collects the workers' hot keys of the minute that has ended.
    pub fn collect_minute(&self, now: UnixMillis) {
        self.minutes.end_minute(now, self.workers.iter().map(|worker| &worker.hot_keys));
    }

    /// Returns hot, big and missed keys of the last `minutes` whole minutes and of the current one, at most `count` of
    /// each.
    pub fn hot_keys(&self, minutes: usize, count: usize) -> HotKeyReport {
        self.minutes.read(minutes, count, self.workers.iter().map(|worker| &worker.hot_keys))
    }

    /// Returns the estimated number of recent requests of a key; 0 if it is not a hot key.
    pub(crate) fn hot_requests(&self, key: (Namespace, &[u8])) -> u64 {
        self.minutes.requests(key, self.workers.iter().map(|worker| &worker.hot_keys))
    }

    /// Records that a worker's connection has queued messages, and wakes the worker. Only threads that are not workers
    /// may call this function.
    pub(crate) fn mark_messages(&self, worker: usize, connection: u32) {
        if self.workers[worker].push_queue.note(connection) {
            self.host.wake_worker(worker);
        }
    }

    /// Announces a flush of a namespace to clients that wait for entries of a group, and to clients that cache values.
    /// Only threads that are not workers may call this function.
    pub fn announce_flush(&self, namespace: Namespace) {
        self.waiters.announce_flush(Some(namespace), &mut |worker, connection| self.mark_messages(worker, connection));
        if self.watch.watched().has_trackers() {
            let note = &mut |worker, connection| self.mark_messages(worker, connection);
            self.tracking.flush().send_all(&self.tracking, note);
        }
    }

    /// Returns true if a Redis client must authenticate before it may execute commands.
    pub fn requires_authentication(&self) -> bool {
        self.auth.is_some() || self.users.requires_authentication()
    }

    /// Reloads the users files, if any are configured. If a file cannot be loaded, its previous users remain.
    pub fn reload_users(&self) {
        if let Some(path) = &self.config.acl_file {
            self.note_users_read(path, self.users.load());
        }
        if let Some(auth) = &self.auth {
            self.note_users_read(auth.path(), auth.reload());
        }
    }

    /// Records the result of a reload in the audit log and in the log.
    fn note_users_read(&self, path: &Path, loaded: Result<(), impl std::fmt::Display>) {
        let path = path.display();
        let result = if loaded.is_ok() { "was read" } else { "was refused; the previous users remain" };
        self.audit.record(AuditEvent::UsersReload, AuditOrigin::Server, b"", || format!("{path} {result}"));
        match loaded {
            Ok(()) => tracing::info!("users were read from {path}"),
            Err(error) => {
                let line = format!("cannot load users from {path}: {error}; the previous users remain");
                tracing::error!("{line}{}", self.host.sandbox_hint(&line));
            }
        }
    }
}

/// The state of one worker that other threads read.
pub struct WorkerShared {
    /// The worker's counters.
    pub counters: WorkerCounters,
    /// The worker's command counters, by namespace.
    pub commands: [CommandCounters; Namespace::MAX],
    /// The latencies of the worker's operations.
    pub recorder: Recorder,
    /// The statistics of the worker's Redis commands.
    pub command_stats: CommandStats,
    /// The statistics of the worker's gRPC calls.
    pub call_stats: CallStats,
    /// The counters of the worker's graph commands.
    pub graph: GraphCounters,
    /// The request and reply bytes that the worker holds in addition to its buffer pools.
    pub aside: Arc<SetAside>,
    /// The worker's connections.
    pub connection_table: ConnectionTable,
    /// The hot keys that the worker has sampled.
    pub hot_keys: HotKeys,
    /// The worker's connections with queued messages.
    pub push_queue: PushQueue,
}

/// Settings that can change while the server runs. A worker reads them once in each iteration.
#[derive(Debug)]
pub struct Live {
    /// The maximum number of open connections.
    pub connections_max: AtomicU64,
    /// The state of `CLIENT PAUSE`: which clients wait, and until when.
    pub pause: PauseSwitch,
    /// The maximum number of slow requests that `SLOWLOG` reports.
    pub slow_entries_max: AtomicU64,
    /// The `maxmemory` that a client has set, in bytes, if it is less than the store needs; 0 if not. The store's
    /// memory is unchanged then, and commands that may need more memory are refused.
    pub memory_below_least: AtomicU64,
    /// Settings of Redis without a meaning for this server.
    pub hints: Hints,
    /// The password that `CONFIG SET requirepass` has set, for `CONFIG GET`. Empty for none.
    pub password: Mutex<Password>,
    /// The settings that `CONFIG SET` has changed, by name, each with the namespace of the client.
    pub changed: Mutex<BTreeSet<(&'static str, u8)>>,
    /// The key events that are published, as the bits of [`KeyEvents`].
    pub key_events: AtomicU32,
    /// The time without received bytes after which a connection is closed, in ms. 0: never.
    pub idle_timeout_ms: AtomicU64,
    /// The time after which a stalled connection is closed, in ms. A connection is stalled if its client reads none of
    /// its output, or if it holds an incomplete request while other connections wait for its buffer.
    pub stall_timeout_ms: AtomicU64,
    /// The time after which a client that has to authenticate and has not is closed, in ms. 0: never.
    pub login_timeout_ms: AtomicU64,
    /// The maximum number of connections of one source. 0: no limit.
    pub source_connections_max: AtomicU64,
}

impl Live {
    /// Records that `CONFIG SET` has changed a setting.
    pub(crate) fn note_changed(&self, name: &'static str, namespace: Namespace) {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).insert((name, namespace.0));
    }

    /// Returns the settings that `CONFIG SET` has changed.
    pub(crate) fn changed(&self) -> BTreeSet<(&'static str, u8)> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the password that `CONFIG SET requirepass` has set, or an empty text.
    pub(crate) fn password(&self) -> String {
        let password = self.password.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&password.0).into_owned()
    }

    /// Records the password that `CONFIG SET requirepass` has set.
    pub(crate) fn set_password(&self, password: Vec<u8>) {
        self.password.lock().unwrap_or_else(PoisonError::into_inner).0 = password;
    }
}

/// A password, which no log line contains.
#[derive(Default)]
pub struct Password(Vec<u8>);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(a password)")
    }
}

/// The clients whose requests wait (`CLIENT PAUSE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    /// No clients.
    #[default]
    None,
    /// Clients that send write requests.
    Writes,
    /// All clients.
    All,
}

/// The instant until which clients wait, and a flag that is set if all clients wait, not only writers. Both are stored
/// in one word: `ms << 1 | all`.
#[derive(Debug, Default)]
pub struct PauseSwitch {
    word: AtomicU64,
    /// The number of the last pause, from 1.
    number: AtomicU64,
}

impl PauseSwitch {
    /// Makes clients wait from `now` until an instant. If an earlier call set a later instant, that instant remains in
    /// force. If it applied to all clients, all clients continue to wait.
    pub fn set(&self, now: UnixMillis, until: UnixMillis, all: bool) {
        // A pause whose time has passed has no effect on this one, even if no worker has noticed its end yet.
        let current = |word: u64| if word >> 1 > now.0 { word } else { 0 };
        let longer = |word: u64| Some(until.0.max(current(word) >> 1) << 1 | current(word) & 1 | u64::from(all));
        if self.word.fetch_update(Relaxed, Relaxed, longer).is_ok_and(|word| current(word) == 0) {
            self.number.fetch_add(1, Relaxed);
        }
    }

    /// Ends the wait of all clients.
    pub fn end(&self) {
        self.word.store(0, Relaxed);
    }

    /// Returns the number of the current or last pause; 0 if there was none.
    pub fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// Returns which clients wait at `now`.
    #[inline]
    pub fn now(&self, now: UnixMillis) -> Pause {
        match self.word.load(Relaxed) {
            0 => Pause::None,
            word => self.update_clock(word, now),
        }
    }

    #[cold]
    fn update_clock(&self, word: u64, now: UnixMillis) -> Pause {
        if now.0 >= word >> 1 {
            let _ = self.word.compare_exchange(word, 0, Relaxed, Relaxed);
            return Pause::None;
        }
        if word & 1 == 1 { Pause::All } else { Pause::Writes }
    }
}

/// A source of unique client numbers, which start at 1.
#[derive(Debug, Default)]
pub struct Clients(AtomicU64);

impl Clients {
    /// Returns the next number. No number is returned twice.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Relaxed) + 1
    }
}

/// Counters of the acceptor.
#[derive(Debug, Default)]
pub struct AcceptorCounters {
    /// The number of connections that were accepted and passed to a worker.
    pub accepted: Counter,
    /// The number of connections that were refused because the limit of connections was reached.
    pub rejected: Counter,
    /// The number of connections that were refused because their source had as many as it may have.
    pub source_rejected: Counter,
    /// The number of times that accepting failed because no file descriptor was available.
    pub descriptors_exhausted: Counter,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_ends_on_time_or_on_request_and_a_shorter_pause_has_no_effect() {
        let (pause, start) = (PauseSwitch::default(), UnixMillis(1));
        assert_eq!(pause.now(UnixMillis(5)), Pause::None);
        pause.set(start, UnixMillis(100), false);
        pause.set(start, UnixMillis(50), false);
        assert_eq!((pause.now(UnixMillis(99)), pause.now(UnixMillis(100))), (Pause::Writes, Pause::None));
        pause.set(start, UnixMillis(100), true);
        pause.set(start, UnixMillis(50), false);
        assert_eq!(pause.now(UnixMillis(60)), Pause::All);
        pause.end();
        assert_eq!(pause.now(UnixMillis(60)), Pause::None);
        assert_eq!(pause.number(), 2);
    }

    #[test]
    fn a_pause_whose_time_has_passed_unnoticed_does_not_strengthen_the_next_one() {
        let pause = PauseSwitch::default();
        pause.set(UnixMillis(1), UnixMillis(100), true);
        pause.set(UnixMillis(100), UnixMillis(200), false);
        assert_eq!((pause.now(UnixMillis(150)), pause.number()), (Pause::Writes, 2));
    }
}
