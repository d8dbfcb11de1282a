//! A worker: one thread, its connections from first byte to last, and its handle to the store.
//!
//! ```text
//!   iteration: wait ──> admit new connections, list the ready sessions, resume parked and waiting ones
//!           batch (again until the iteration's share of work is done, or no session is ready):         pace.rs
//!               gather   up to 64 ready sessions: lend buffers, one receive each                       batch.rs
//!               serve    inside one guard: at most 64 operations a session                             batch.rs
//!               settle   one send each; sessions with more to do go to the end of the queue            output.rs
//!           long: one visit to each session that used its share in its last visit; at least one batch
//!           push: unrequested messages to sessions, also after each batch that published any           messages.rs
//!           upkeep: timeouts, slow readers, a stop in progress                                         upkeep.rs
//!           a handover: connections leave in their current state                                       handover.rs
//! ```
//!
//! Invariants:
//! - A session is in at most one list.
//! - After start no buffer grows, and most lists already have their maximum capacity. The lists for push messages,
//!   flash reads, takeovers and retained replies grow when they are used.
//! - Only `Backend::wait` blocks (`poll.rs`). The guard is not held across a system call.
//! - Between two waits the worker does at most 500 us of work ([`command::visit::pace`]). A session whose request takes
//!   many visits waits in a separate list, after all new requests.

mod batch;
mod core;
mod flash_waiters;
mod handover;
mod hold;
mod in_place;
mod messages;
mod output;
mod poll;
mod state;
mod upkeep;

use self::core::{BATCH_LONG_MAX, VISIT_BYTES};
pub use self::core::{BATCH_OPS_MAX, BATCH_SESSIONS_MAX};
use crate::buffers::{Buffers, CLASSES, Class, Sizes};
use crate::handover::{ReceivedConnection, ReleasedConnection};
use crate::session::Table;
use crate::shared::Shared;
use crate::worker::core::{Core, WaitQueue};
use crate::worker::state::{BufferPeaks, FlashWaiting, Holders, InPlaceReceives, Pinners};
use command::context::WorkerContext;
use command::visit::clock::{CachedClock, Clock};
use io::Backend;
use segment::ThreadHandle;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The number of parsed bytes after which an iteration serves no further batch.
pub const ITERATION_BYTES_MAX: usize = 256 << 10;
/// The maximum number of events that one wait reports.
pub const EVENTS_MAX: usize = 512;
/// The longest wait for events while an operation is parked; then the next iteration retries the operation.
const PARKED_WAIT: Duration = Duration::from_millis(1);
/// The maximum number of successive iterations without a sleep while the store waits for other workers' iterations.
const ITERATIONS_WITHOUT_SLEEP_MAX: u32 = 64;
/// The longest sleep of a worker with connections. Timeouts are checked at this interval.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// The longest sleep of a worker without connections.
const SLEEP_ALONE_MAX: Duration = Duration::from_secs(1);
/// The maximum number of steps in which an ending worker releases its connections' references into the store.
/// Unfinished operations are completed in slices.
const RELEASES_MAX: usize = 1 << 20;
/// The maximum number of these steps if the worker has abandoned commands, which would use up all steps.
const RELEASES_ABANDONED_MAX: usize = 1 << 10;
/// The interval at which a worker hands old open segments to the background thread.
const TIDY_NS: u64 = 1_000_000_000;

/// The arguments of [`Worker::new`].
pub struct WorkerParts<B: Backend> {
    /// The reactor, which reports at most [`EVENTS_MAX`] events at once.
    pub io: B,
    /// The worker's handle to the store.
    pub handle: ThreadHandle,
    /// The state that all threads share.
    pub shared: Arc<Shared>,
    /// The worker's number.
    pub number: usize,
    /// The queue of new connections.
    pub intake: Receiver<ReceivedConnection<B::Stream>>,
    /// The worker's clock.
    pub clock: Clock,
    /// The maximum number of connections at once.
    pub sessions_max: usize,
}

/// A worker: an event loop, its connections and its store handle.
pub struct Worker<B: Backend> {
    handle: ThreadHandle,
    core: Core<B>,
}

impl<B: Backend> Worker<B> {
    /// Creates a worker without connections. Allocates its buffers, and the lists that ordinary requests use.
    pub fn new(mut parts: WorkerParts<B>) -> Self {
        let guard = parts.handle.guard(parts.clock.unix());
        let piece_bytes_max = (guard.sizes().large_threshold() as usize).max(guard.sizes().piece_bytes_max());
        drop(guard);
        let sizes = Sizes::new(parts.sessions_max, piece_bytes_max);
        let buffers = Buffers::of_worker(sizes, &parts.shared, parts.number);
        let (born, unix) = (parts.clock.ticks(), CachedClock::new(&parts.clock));
        let sessions_max = parts.sessions_max;
        let ctx = WorkerContext::new(Arc::clone(&parts.shared.commands), parts.number, parts.clock, sizes.big_bytes);
        let core = Core {
            io: parts.io,
            shared: parts.shared,
            ctx,
            sessions: Table::new(sessions_max),
            buffers,
            intake: parts.intake,
            events: Vec::with_capacity(EVENTS_MAX),
            ready: VecDeque::with_capacity(sessions_max),
            long: VecDeque::with_capacity(sessions_max),
            parked: Vec::with_capacity(sessions_max),
            coming: FlashWaiting::default(),
            waiting: CLASSES.map(|_| VecDeque::with_capacity(sessions_max)),
            holders: Holders::new(sessions_max),
            batch: Vec::with_capacity(BATCH_SESSIONS_MAX),
            served: 0,
            ended_sessions: VecDeque::with_capacity(sessions_max),
            born,
            unix,
            iteration_ticks: born,
            now_ns: 0,
            swept_ns: 0,
            sweep_at: 0,
            buffer_peaks: BufferPeaks::default(),
            pins_checked_ns: 0,
            pin_holders: Pinners::new(sessions_max),
            reply_holders: Vec::with_capacity(sizes.out_count),
            memory_wanted: 0,
            intake_left: false,
            arrivals: InPlaceReceives::new(),
            tidied_ns: 0,
            stop_deadline_ns: None,
            mail: VecDeque::new(),
            again: Vec::new(),
            mail_left: false,
            iterations_without_sleep: 0,
            taken_over: Vec::new(),
            moved: Vec::new(),
            output_left: handover::OUTPUTS_BYTES_MAX,
            drained: 0,
            drain_round: 0,
        };
        Self { handle: parts.handle, core }
    }

    /// Runs iterations until a requested stop is complete. After a handover, returns the connections that left.
    pub fn run(mut self) -> Vec<ReleasedConnection<B::Stream>> {
        while self.iterate() {}
        if upkeep::abandons_commands(&self.core) {
            let (worker, abandoned) = (self.core.ctx.worker, self.core.sessions.len());
            tracing::warn!(worker, "abandoned {abandoned} commands that did not end within the limit of the stop");
        }
        if self.core.drained > 0 {
            let (worker, closed) = (self.core.ctx.worker, self.core.drained);
            tracing::info!(
                worker,
                "closed {closed} connections with TLS or gRPC, which cannot move to another process"
            );
        }
        self.take_moved()
    }

    /// Returns the connections that have left since the last call.
    pub fn take_moved(&mut self) -> Vec<ReleasedConnection<B::Stream>> {
        std::mem::take(&mut self.core.moved)
    }

    /// Returns the number of connections.
    pub fn sessions(&self) -> usize {
        self.core.sessions.len()
    }

    /// Returns true if the worker must not sleep: sessions have work to do, or ended sessions have unfinished
    /// operations.
    pub fn is_busy(&self) -> bool {
        !self.core.ready.is_empty() || !self.core.long.is_empty() || !self.core.ended_sessions.is_empty()
    }

    /// Returns the number of buffers that are lent to sessions now.
    pub fn buffers_lent(&self) -> usize {
        self.core.buffers.lent()
    }

    /// Runs one iteration. Returns false once a stop is complete: no connection remains, and no new connection will
    /// arrive. Also returns false if a command has not ended long after the stop closed its connection.
    pub fn iterate(&mut self) -> bool {
        let core = &mut self.core;
        let timeout = sleep(core);
        poll::wait(core, timeout);
        begin_iteration(core);
        if !core.taken_over.is_empty() {
            handover::set_up_taken_over(core, &mut self.handle.guard(core.ctx.now));
        }
        flash_waiters::resume_completed(core, &mut self.handle);
        let mut bytes = 0;
        while bytes < ITERATION_BYTES_MAX && !core.ready.is_empty() && !core.is_over() {
            bytes += Self::batch(&mut self.handle, core, WaitQueue::Ready);
        }
        for batch in 0..core.long.len().div_ceil(BATCH_LONG_MAX) {
            // New requests are served first, but they never prevent a long request from completing.
            if batch > 0 && core.is_over() {
                break;
            }
            Self::batch(&mut self.handle, core, WaitQueue::Long);
        }
        messages::send_messages(core);
        upkeep::upkeep(core);
        if in_place::receives_due(core) {
            in_place::end_slow_receives(core, &mut self.handle.guard(core.ctx.now));
        }
        if !core.ended_sessions.is_empty() {
            upkeep::release(core, &mut self.handle.guard(core.ctx.now));
        }
        if core.now_ns - core.tidied_ns >= TIDY_NS {
            core.tidied_ns = core.now_ns;
            self.handle.tidy(core.ctx.now);
        }
        flash_waiters::resume_completed_since(core, &mut self.handle);
        let shared = &core.ctx.shared;
        if !core.parked.is_empty() || shared.store.needs_background() {
            shared.host.wake_background();
        }
        let publishes = core.shared.threads.stop.hands_over() && core.ctx.push.has_unpublished();
        let is_complete = core.stop_deadline_ns.is_some() && core.sessions.len() == 0 && !publishes;
        !(is_complete || upkeep::abandons_commands(core))
    }

    /// Serves one batch. Returns the number of parsed bytes, at least [`VISIT_BYTES`] for each session.
    fn batch(handle: &mut ThreadHandle, core: &mut Core<B>, queue: WaitQueue) -> usize {
        let discarded = batch::gather(core, queue);
        let visits = core.batch.len().max(1);
        let mut guard = handle.guard(core.ctx.now);
        let served = if !core.ctx.is_behind_publishing() && batch::flush_if_due(core, &mut guard) {
            batch::serve(core, &mut guard, queue)
        } else {
            batch::hold(core);
            core.served = core.batch.len();
            0
        };
        let bytes = served + core.arrivals.take_bytes() + std::mem::take(&mut core.ctx.work_bytes);
        drop(guard);
        output::settle(core, queue);
        if messages::has_messages(core) {
            messages::send_messages(core);
        }
        core.io.submit();
        core.ctx.counters().batches.add(1);
        bytes.max(visits * VISIT_BYTES) + discarded
    }
}

impl<B: Backend> Drop for Worker<B> {
    /// Closes all open connections and releases the pins and unfinished operations that they held in the store.
    fn drop(&mut self) {
        let core = &mut self.core;
        upkeep::kill_all(core);
        while let Some(index) = core.ready.pop_front().or_else(|| core.long.pop_front()).or_else(|| core.parked.pop()) {
            core.ended_sessions.push_back(index);
        }
        for waiting in &mut core.waiting {
            core.ended_sessions.extend(waiting.drain(..));
        }
        let abandons = upkeep::abandons_commands(core);
        for _ in 0..if abandons { RELEASES_ABANDONED_MAX } else { RELEASES_MAX } {
            if core.ended_sessions.is_empty() {
                break;
            }
            core.ctx.pace.begin_iteration(core.ctx.clock.ticks());
            upkeep::release(core, &mut self.handle.guard(core.ctx.now));
        }
    }
}

/// Returns the maximum time of the next wait.
fn sleep<B: Backend>(core: &Core<B>) -> Duration {
    let recallable = |class: Class| !core.waiting[class.slot()].is_empty() && core.buffers.free(class) > 0;
    let hurries = core.ctx.retry_at_once && core.iterations_without_sleep < ITERATIONS_WITHOUT_SLEEP_MAX;
    let ready = !core.ready.is_empty() || !core.long.is_empty();
    let sleep = if ready || core.intake_left || hurries || CLASSES.into_iter().any(recallable) {
        Duration::ZERO
    } else if !core.parked.is_empty()
        || core.coming.wants_room()
        || core.mail_left
        || !core.mail.is_empty()
        || !core.ended_sessions.is_empty()
    {
        // Work that was postponed because the iteration had used its share continues at once.
        let left = core.mail_left || core.ended_sessions.len() > upkeep::RELEASES_PER_ITERATION;
        if left { Duration::ZERO } else { PARKED_WAIT }
    } else if !core.pin_holders.sessions.is_empty() || !core.reply_holders.is_empty() {
        upkeep::PIN_CHECK
    } else if core.sessions.len() > 0 {
        SLEEP_MAX
    } else {
        SLEEP_ALONE_MAX
    };
    let now = core.ctx.now;
    let sleep = sleep.min(Duration::from_millis(core.ctx.deadlines.ms_left(now).min(core.ctx.timers.ms_left(now))));
    if core.holders.is_busy { sleep.min(core.holders.quiet(core.now_ns)) } else { sleep }
}

/// Reads the clocks and lists the sessions that have work to do.
fn begin_iteration<B: Backend>(core: &mut Core<B>) {
    poll::read_clocks(core);
    core.ctx.pace.begin_iteration(core.iteration_ticks);
    core.iterations_without_sleep = if core.ctx.retry_at_once { core.iterations_without_sleep + 1 } else { 0 };
    core.ctx.retry_at_once = false;
    core.ctx.counters().iterations.add(1);
    poll::admit_new(core);
    for number in 0..core.events.len() {
        core.note(core.events[number]);
    }
    while let Some(index) = core.ctx.deadlines.pop_due(core.ctx.now) {
        core.wake(index);
    }
    while let Some(index) = core.ctx.timers.pop_due(core.ctx.now) {
        core.visit(index);
    }
    while let Some(index) = core.parked.pop() {
        core.call_back(index);
    }
    for class in CLASSES {
        let waiting = core.waiting[class.slot()].len();
        if waiting == 0 {
            continue;
        }
        for _ in 0..waiting.min(core.buffers.free(class)) {
            if let Some(index) = core.waiting[class.slot()].pop_front() {
                let waited_ns = core.now_ns.saturating_sub(core.sessions.at(index).waits_ns);
                core.ctx.counters().buffer_wait_ns.add(waited_ns);
                core.call_back(index);
            }
        }
    }
}
