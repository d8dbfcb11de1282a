//! The switches of a server's threads: they wake threads, stop them, and prepare a handover.
//!
//! Commands access the switches as a [`command::host::Host`]. The threads themselves are in [`crate::start::Running`].

use crate::start::{encryption, sandbox};
use command::host::{FlashFigures, Host, Job, ReloadResult, TlsChange, TlsState};
use io::waker::Waker;
use std::collections::VecDeque;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The switches of all threads of one server.
#[derive(Debug)]
pub struct Threads {
    /// The stop switch.
    pub stop: StopSwitch,
    /// The state of a handover in preparation.
    pub(crate) drain: Drain,
    /// The workers, in their order.
    pub workers: Vec<WorkerThread>,
    /// Ends the acceptor's wait for connections.
    pub(crate) acceptor: Waker,
    /// The background thread, once it runs.
    pub(crate) background: OnceLock<Thread>,
    /// The survey thread, once it runs, and the jobs that it executes.
    pub(crate) survey: OnceLock<Thread>,
    jobs: Jobs<Job>,
    /// The thread that hashes passwords, once it runs, and its jobs.
    pub(crate) passwords: OnceLock<Thread>,
    /// The jobs that hash passwords, with the sources of their clients.
    hashes: Jobs<(Job, Option<u128>)>,
    /// The tier that evicted items are written to.
    pub flash: Option<Arc<flash::Flash>>,
    /// The certificates and figures of TLS.
    pub(crate) tls: Option<Arc<tls::Tls>>,
    /// The reload of certificates that clients have requested and that has not begun: one at most.
    reload: Arc<Mutex<Option<ReloadResult>>>,
}

/// The maximum number of logins that wait for the thread that hashes passwords. With the parameters of new hashes, the
/// last one waits for about a second.
const HASHES_MAX: usize = 64;
/// The maximum number of these of one source, so that the attempts of one do not keep the logins of others waiting.
const HASHES_OF_SOURCE_MAX: usize = 2;

/// Jobs that were not begun yet. Each connection has at most one.
struct Jobs<J>(Mutex<VecDeque<J>>);

impl<J> Jobs<J> {
    fn lock(&self) -> MutexGuard<'_, VecDeque<J>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J> Default for Jobs<J> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<J> std::fmt::Debug for Jobs<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(jobs)")
    }
}

/// The part of one worker that other threads access.
#[derive(Debug)]
pub struct WorkerThread {
    /// Ends the worker's wait for events.
    pub waker: Waker,
    /// The worker's last report to [`Drain`]: see [`Drain::report`].
    pub(crate) arriving: AtomicU64,
}

impl Threads {
    /// Creates the switches of a server with `workers` workers.
    ///
    /// # Errors
    /// If no file descriptor is left.
    pub(crate) fn new(
        workers: usize,
        flash: Option<Arc<flash::Flash>>,
        tls: Option<Arc<tls::Tls>>,
    ) -> std::io::Result<Self> {
        let worker = || Ok(WorkerThread { waker: Waker::new()?, arriving: AtomicU64::new(0) });
        Ok(Self {
            stop: StopSwitch::default(),
            drain: Drain::default(),
            workers: (0..workers).map(|_| worker()).collect::<std::io::Result<_>>()?,
            acceptor: Waker::new()?,
            background: OnceLock::new(),
            survey: OnceLock::new(),
            jobs: Jobs::default(),
            passwords: OnceLock::new(),
            hashes: Jobs::default(),
            flash,
            tls,
            reload: Arc::default(),
        })
    }

    /// Requests a handover: no client is accepted any more, and [`crate::start::Running::join`] continues the handover.
    /// Returns at once. If a stop is also requested before the handover is complete, the server stops instead.
    pub fn request_hand_over(&self) {
        self.stop.closed.store(true, Release);
        self.acceptor.wake();
    }

    /// Removes and returns the first job that was not begun.
    pub fn next_job(&self) -> Option<Job> {
        self.jobs.lock().pop_front()
    }

    /// Removes and returns the first job that hashes a password.
    pub fn next_hash(&self) -> Option<Job> {
        self.hashes.lock().pop_front().map(|(job, _)| job)
    }

    /// Prepares a handover while clients are served as usual. From now on no worker begins an in-place receive, because
    /// such a connection could not move. Values that are being received have `patience` to complete.
    pub(crate) fn drain(&self, patience: Duration) {
        let end = Instant::now() + patience;
        while !self.stop.is_shut() {
            self.drain.round.fetch_add(1, AcqRel);
            self.workers.iter().for_each(|worker| worker.waker.wake());
            std::thread::sleep(DRAIN_ROUND);
            let is_drained = |worker: &WorkerThread| Drain::is_drained(worker.arriving.load(Acquire));
            if self.workers.iter().all(is_drained) || Instant::now() >= end {
                return;
            }
        }
    }

    /// Makes the workers release their connections for a handover. The caller ensures that no client is accepted any
    /// more.
    pub(crate) fn hand_over(&self) {
        self.stop.hands_over.store(true, Release);
        self.switch_off();
    }

    /// Records that the acceptor begins, or has no listeners any more.
    pub(crate) fn accepts(&self, accepts: bool) {
        self.stop.accepts.store(accepts, Release);
        if !accepts {
            self.workers.iter().for_each(|worker| worker.waker.wake());
        }
    }

    /// Makes all threads end, for a stop or a handover.
    pub(crate) fn switch_off(&self) {
        self.stop.switch_off();
        for worker in &self.workers {
            worker.waker.wake();
        }
        self.acceptor.wake();
        self.wake_background();
    }
}

impl Host for Threads {
    fn wake_worker(&self, worker: usize) {
        self.workers[worker].waker.wake();
    }

    fn wake_background(&self) {
        if let Some(thread) = self.background.get() {
            thread.unpark();
        }
    }

    fn run_aside(&self, job: Job) {
        self.jobs.lock().push_back(job);
        if let Some(thread) = self.survey.get() {
            thread.unpark();
        }
    }

    fn hash_aside(&self, job: Job, source: Option<u128>) -> bool {
        let mut hashes = self.hashes.lock();
        if source.is_none() {
            hashes.push_front((job, source));
        } else if hashes.len() < HASHES_MAX
            && hashes.iter().filter(|(_, of)| *of == source).count() < HASHES_OF_SOURCE_MAX
        {
            hashes.push_back((job, source));
        } else {
            return false;
        }
        drop(hashes);
        if let Some(thread) = self.passwords.get() {
            thread.unpark();
        }
        true
    }

    fn request_stop(&self) {
        self.stop.asked.store(true, Release);
        self.switch_off();
    }

    fn is_stopping(&self) -> bool {
        self.stop.is_off()
    }

    fn is_draining(&self) -> bool {
        self.drain.is_on()
    }

    fn tls(&self) -> Option<TlsState> {
        self.tls.as_ref().map(|tls| encryption::state(tls))
    }

    fn reload_certificates(&self) -> ReloadResult {
        let mut waiting = self.reload.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = &*waiting {
            return Arc::clone(result);
        }
        let result = ReloadResult::default();
        *waiting = Some(Arc::clone(&result));
        let (tls, set, waiting) = (self.tls.clone(), Arc::clone(&result), Arc::clone(&self.reload));
        self.run_aside(Box::new(move || {
            // Requests from now on need another reload, because files may change after they were read.
            waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
            let reloaded = tls.map_or_else(|| Err("TLS is not enabled".to_owned()), |tls| encryption::reload_now(&tls));
            let _ = set.set(reloaded);
        }));
        result
    }

    fn sandbox_hint(&self, message: &str) -> &'static str {
        sandbox::hint(message)
    }

    fn change_tls(&self, changes: Vec<TlsChange>) -> ReloadResult {
        let result = ReloadResult::default();
        let (tls, set) = (self.tls.clone(), Arc::clone(&result));
        self.run_aside(Box::new(move || {
            let changed =
                tls.map_or_else(|| Err("TLS is not enabled".to_owned()), |tls| encryption::change_now(&tls, &changes));
            let _ = set.set(changed);
        }));
        result
    }

    fn flash(&self) -> Option<FlashFigures> {
        self.flash.as_ref().map(|tier| {
            let counts = tier.counts();
            let (free, all) = tier.regions();
            FlashFigures {
                bytes: tier.devices().iter().map(|device| device.bytes).sum(),
                regions_free: free as u64,
                regions_used: (all - free) as u64,
                regions_freed: counts.regions_reclaimed + counts.regions_dropped,
                read_bytes: counts.read_bytes + counts.reclaim_read_bytes,
                reads_waiting: tier.waiting().0 as u64,
                again_bytes: counts.again_bytes,
                regions_unread: tier.regions_unread() as u64,
                items_refused: counts.refused(),
                reads: counts.reads,
                item_bytes: counts.item_bytes,
                written_bytes: counts.written_bytes,
                devices_lost: counts.devices_lost,
            }
        })
    }
}

/// The longest sleep of the thread that hashes passwords.
const HASH_SLEEP_MAX: Duration = Duration::from_secs(60);

/// Executes the jobs of [`Host::hash_aside`], one at a time, until all workers have ended. Then drops the jobs that
/// were not begun. One hash is computed at a time, so the memory of all hashes is that of one.
pub(crate) fn hash_passwords(threads: &Threads) {
    io::affinity::give_way();
    let _ = threads.passwords.set(std::thread::current());
    while !threads.stop.workers_ended() {
        match threads.next_hash() {
            Some(job) => job(),
            None => std::thread::park_timeout(HASH_SLEEP_MAX),
        }
    }
    while threads.next_hash().is_some() {}
}

/// The time between two rounds of [`Drain`].
const DRAIN_ROUND: Duration = Duration::from_millis(5);

/// A query to all workers before a handover, repeated in rounds: how many in-place receives are in
/// progress?
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// The number of the current round. 0: no handover is being prepared.
    round: AtomicU64,
}

impl Drain {
    /// Returns the number of the current round. 0: no handover is being prepared.
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

    /// Returns true if `report` says that the worker has no in-place receive. The worker then begins no further
    /// in-place receive.
    fn is_drained(report: u64) -> bool {
        report != 0 && report as u32 == 0
    }
}

/// The switch that stops the server, in two steps: requests in flight are completed, then the workers have ended.
///
/// ```text
///   stop        off ──> shut ──> workers ended
///   handover    closed ──> shut ──> hands over, off ──> workers ended      connections move and are not closed
/// ```
///
/// Shut: no listener is open. Connections are closed only in this state, so that a client that reconnects at once finds
/// no open port.
#[derive(Debug, Default)]
pub struct StopSwitch {
    asked: AtomicBool,
    closed: AtomicBool,
    /// True while the acceptor has open listeners.
    accepts: AtomicBool,
    hands_over: AtomicBool,
    off: AtomicBool,
    workers_gone: AtomicBool,
}

impl StopSwitch {
    /// Returns true if the threads must end, for a stop or a handover.
    pub fn is_off(&self) -> bool {
        self.off.load(Acquire)
    }

    /// Returns true if a stop was requested, not a handover.
    pub fn was_stop_requested(&self) -> bool {
        self.asked.load(Acquire)
    }

    /// Returns true if no client is accepted any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Acquire) || self.is_off()
    }

    /// Returns true if the threads must end and no listener is open any more, so that workers may close or move their
    /// connections.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_off() && !self.accepts.load(Acquire)
    }

    /// Returns true if the workers must move their connections to another process (a handover) instead of closing them.
    pub(crate) fn hands_over(&self) -> bool {
        self.hands_over.load(Acquire)
    }

    /// Returns true if all workers have ended.
    pub(crate) fn workers_ended(&self) -> bool {
        self.workers_gone.load(Acquire)
    }

    pub(crate) fn signal_workers_ended(&self) {
        self.workers_gone.store(true, Release);
    }

    fn switch_off(&self) {
        self.off.store(true, Release);
    }
}
