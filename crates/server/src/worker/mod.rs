//! A worker: one thread, its connections from first byte to last, and its handle to the store.
//!
//! ```text
//!   iteration:   wait ──> admit new connections, list the ready sessions, resume parked and waiting ones
//!           batch (again until the iteration's share of work is done, or no session is ready):        pace.rs
//!               gather   up to 64 ready sessions: lend buffers, one receive each           batch.rs
//!               serve    inside one guard: at most 64 operations a session            batch.rs
//!               settle   one send each; sessions with more to do go to the end of the queue    output.rs
//!           long: one visit each to sessions that used their share of the last one, at least one an iteration
//!           mail: unrequested messages to sessions, also after each batch that published any   mail.rs
//!           upkeep: timeouts, slow readers, a stop in progress                             upkeep.rs
//!           a hand-over: connections leave as they are                                     leave.rs
//! ```
//!
//! Invariants:
//! - A session is in one list at most.
//! - After start no list, queue or buffer grows, except the list of sessions whose replies are retained outside the
//!   store. Each session is in that list at most once.
//! - Only `Backend::wait` blocks (`poll.rs`). The guard is not held across a system call.
//! - Between two waits at most 500 us of work are done ([`command::pace`]). A session whose request takes many visits
//!   waits in a list of its own, behind every new request.

mod arrive;
mod batch;
mod coming;
mod hold;
mod leave;
mod mail;
mod output;
mod poll;
mod upkeep;

use crate::buffers::{Buffers, CLASSES, Class, Sizes};
use crate::handover::{Arrival, Carried, Moved};
use crate::session::{Phase, Place, Table};
use crate::shared::Shared;
use arrive::Arrivals;
use coming::Coming;
use command::clients::client_info::ClientInfo;
use command::clients::endpoint::{Endpoint, Protocol};
use command::context::WorkerContext;
use command::visit::clock::{Clock, Follower, Ticks};
use hold::Holders;
use io::{Backend, Event};
use segment::ThreadHandle;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use upkeep::Pinners;

/// The maximum number of sessions in one batch.
pub const BATCH_SESSIONS_MAX: usize = 64;
/// The maximum number of sessions in one batch whose request takes many visits.
const BATCH_LONG_MAX: usize = 16;
/// The number of operations after which a batch takes no further session.
pub const BATCH_OPS_MAX: usize = 256;
/// The number of parsed bytes after which an iteration ends.
pub const TURN_BYTES_MAX: usize = 256 << 10;
/// The minimum cost of one visit to a session, in parsed bytes. It bounds the number of visits in an iteration.
const VISIT_BYTES: usize = 64;
/// The maximum number of events that one wait reports.
pub const EVENTS_MAX: usize = 512;
/// The time that a parked operation waits for its next iteration.
const PARKED_WAIT: Duration = Duration::from_millis(1);
/// The maximum number of successive iterations without a sleep while the store waits for other workers' iterations.
const HURRIED_MAX: u32 = 64;
/// The longest sleep of a worker with connections. It is the interval at which timeouts are checked.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// The longest sleep of a worker without connections.
const SLEEP_ALONE_MAX: Duration = Duration::from_secs(1);
/// The maximum number of steps in which an ending worker releases what its connections hold. Unfinished operations
/// complete in slices.
const RELEASES_MAX: usize = 1 << 20;
/// The interval at which a worker hands old open segments to the background thread.
const TIDY_NS: u64 = 1_000_000_000;

/// The queue from which a batch takes its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    /// Sessions that have work to do.
    Ready,
    /// Sessions whose request takes many visits, or that have more requests than one visit serves.
    Long,
}

/// The parts of a worker.
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
    pub intake: Receiver<Arrival<B::Stream>>,
    /// The worker's clock.
    pub clock: Clock,
    /// The maximum number of connections at once.
    pub sessions_max: usize,
}

/// A worker.
pub struct Worker<B: Backend> {
    handle: ThreadHandle,
    core: Core<B>,
}

/// All of a worker except its store handle, so that a guard can be open while a session is changed.
struct Core<B: Backend> {
    io: B,
    /// The state that all threads share; commands see their part of it in `ctx`.
    shared: Arc<Shared>,
    ctx: WorkerContext,
    sessions: Table<B::Stream>,
    buffers: Buffers,
    intake: Receiver<Arrival<B::Stream>>,
    events: Vec<Event>,
    ready: VecDeque<u32>,
    /// Sessions whose request takes many visits, whose output takes many sends, or that used their share of the last
    /// visit.
    long: VecDeque<u32>,
    parked: Vec<u32>,
    coming: Coming,
    waiting: [VecDeque<u32>; CLASSES.len()],
    holders: Holders,
    batch: Vec<u32>,
    /// The number of sessions of the batch that were visited. The others come first in the next batch.
    served: usize,
    /// Dead sessions whose state is released in the next guard.
    graves: VecDeque<u32>,
    born: Ticks,
    unix: Follower,
    /// The instant of this iteration, in ticks and in ns of the worker's life.
    turn_ticks: Ticks,
    now_ns: u64,
    swept_ns: u64,
    sweep_at: usize,
    pins_checked_ns: u64,
    /// Blocked sessions with pins. Some may no longer be blocked.
    pinners: Pinners,
    /// Blocked sessions whose replies are retained outside the store. Some may no longer be blocked.
    keepers: Vec<u32>,
    /// True if the intake may hold more new connections.
    intake_left: bool,
    arrivals: Arrivals,
    tidied_ns: u64,
    /// The instant at which a stop in progress closes the remaining connections, in ns of the worker's life.
    stop_deadline_ns: Option<u64>,
    /// Connections with queued messages: those to serve next, and those that could not take all of theirs.
    mail: VecDeque<u32>,
    again: Vec<u32>,
    /// True if some of `mail` were not visited in this iteration, or key events remain to be published.
    mail_left: bool,
    /// The number of successive iterations without a sleep since the store began to wait for other workers.
    hurried: u32,
    /// Connections that were taken over and are not set up yet, with their state.
    taken_over: Vec<(u32, Arc<Carried>)>,
    /// Connections that have left, and the number of unsent bytes that others may still leave with.
    moved: Vec<Moved<B::Stream>>,
    output_left: u64,
    /// The last round of [`crate::threads::Drain`] that the worker answered.
    drain_round: u64,
}

impl<B: Backend> Worker<B> {
    /// Creates a worker without connections. It allocates here all memory that it will ever use.
    pub fn new(mut parts: WorkerParts<B>) -> Self {
        let guard = parts.handle.guard(parts.clock.unix());
        let piece_bytes_max = (guard.sizes().large_threshold() as usize).max(guard.sizes().piece_bytes_max());
        drop(guard);
        let sizes = Sizes::new(parts.sessions_max, piece_bytes_max);
        let buffers = Buffers::of_worker(sizes, &parts.shared, parts.number);
        let (born, unix) = (parts.clock.ticks(), Follower::new(&parts.clock));
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
            coming: Coming::default(),
            waiting: CLASSES.map(|_| VecDeque::with_capacity(sessions_max)),
            holders: Holders::new(sessions_max),
            batch: Vec::with_capacity(BATCH_SESSIONS_MAX),
            served: 0,
            graves: VecDeque::with_capacity(sessions_max),
            born,
            unix,
            turn_ticks: born,
            now_ns: 0,
            swept_ns: 0,
            sweep_at: 0,
            pins_checked_ns: 0,
            pinners: Pinners::new(sessions_max),
            keepers: Vec::with_capacity(sizes.out_count),
            intake_left: false,
            arrivals: Arrivals::new(),
            tidied_ns: 0,
            stop_deadline_ns: None,
            mail: VecDeque::new(),
            again: Vec::new(),
            mail_left: false,
            hurried: 0,
            taken_over: Vec::new(),
            moved: Vec::new(),
            output_left: leave::OUTPUTS_BYTES_MAX,
            drain_round: 0,
        };
        Self { handle: parts.handle, core }
    }

    /// Runs iterations until a requested stop is complete. After a hand-over, returns the connections that left.
    pub fn run(mut self) -> Vec<Moved<B::Stream>> {
        while self.iterate() {}
        self.take_moved()
    }

    /// Returns the connections that have left since the last call.
    pub fn take_moved(&mut self) -> Vec<Moved<B::Stream>> {
        std::mem::take(&mut self.core.moved)
    }

    /// Returns the number of connections.
    pub fn sessions(&self) -> usize {
        self.core.sessions.len()
    }

    /// Returns true if the worker must not sleep: sessions have work to do, or ended sessions have unfinished
    /// operations.
    pub fn is_busy(&self) -> bool {
        !self.core.ready.is_empty() || !self.core.long.is_empty() || !self.core.graves.is_empty()
    }

    /// Returns the number of buffers that are lent to sessions now.
    pub fn buffers_lent(&self) -> usize {
        self.core.buffers.lent()
    }

    /// Runs one iteration. Returns false once a stop is complete: no connection is left and none will come.
    pub fn iterate(&mut self) -> bool {
        let core = &mut self.core;
        let timeout = core.sleep();
        poll::wait(core, timeout);
        core.begin_turn();
        if !core.taken_over.is_empty() {
            leave::set_up_taken_over(core, &mut self.handle.guard(core.ctx.now));
        }
        coming::call_back_landed(core, &mut self.handle);
        let mut bytes = 0;
        while bytes < TURN_BYTES_MAX && !core.ready.is_empty() && !core.is_over() {
            bytes += Self::batch(&mut self.handle, core, Queue::Ready);
        }
        for batch in 0..core.long.len().div_ceil(BATCH_LONG_MAX) {
            // New requests come first, but they never keep a long request from completing.
            if batch > 0 && core.is_over() {
                break;
            }
            Self::batch(&mut self.handle, core, Queue::Long);
        }
        mail::serve_mail(core);
        upkeep::upkeep(core);
        if arrive::arrivals_due(core) {
            arrive::relieve_arrivals(core, &mut self.handle.guard(core.ctx.now));
        }
        if !core.graves.is_empty() {
            upkeep::release(core, &mut self.handle.guard(core.ctx.now));
        }
        if core.now_ns - core.tidied_ns >= TIDY_NS {
            core.tidied_ns = core.now_ns;
            self.handle.tidy(core.ctx.now);
        }
        coming::call_back_landed_since(core, &mut self.handle);
        let shared = &core.ctx.shared;
        if !core.parked.is_empty() || shared.store.needs_background() {
            shared.host.wake_background();
        }
        let publishes = core.shared.threads.stop.hands_over() && !core.ctx.unpublished.is_empty();
        !(core.stop_deadline_ns.is_some() && core.sessions.len() == 0 && !publishes)
    }

    /// Serves one batch. Returns the number of parsed bytes, at least [`VISIT_BYTES`] for each session.
    fn batch(handle: &mut ThreadHandle, core: &mut Core<B>, queue: Queue) -> usize {
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
        if mail::has_mail(core) {
            mail::serve_mail(core);
        }
        core.io.submit();
        core.ctx.counters().batches.add(1);
        bytes.max(visits * VISIT_BYTES) + discarded
    }
}

impl<B: Backend> Drop for Worker<B> {
    /// Closes all open connections and releases what they held in the store.
    fn drop(&mut self) {
        let core = &mut self.core;
        upkeep::kill_all(core);
        while let Some(index) = core.ready.pop_front().or_else(|| core.long.pop_front()).or_else(|| core.parked.pop()) {
            core.graves.push_back(index);
        }
        for waiting in &mut core.waiting {
            core.graves.extend(waiting.drain(..));
        }
        for _ in 0..RELEASES_MAX {
            if core.graves.is_empty() {
                break;
            }
            core.ctx.pace.begin_iteration(core.ctx.clock.ticks());
            upkeep::release(core, &mut self.handle.guard(core.ctx.now));
        }
    }
}

impl<B: Backend> Core<B> {
    /// Returns the longest time that the next wait may take.
    fn sleep(&self) -> Duration {
        let recallable = |class: Class| !self.waiting[class.slot()].is_empty() && self.buffers.free(class) > 0;
        let hurries = self.ctx.hurries && self.hurried < HURRIED_MAX;
        let ready = !self.ready.is_empty() || !self.long.is_empty();
        let sleep = if ready || self.intake_left || hurries || CLASSES.into_iter().any(recallable) {
            Duration::ZERO
        } else if !self.parked.is_empty()
            || self.coming.wants_room()
            || self.mail_left
            || !self.mail.is_empty()
            || !self.graves.is_empty()
        {
            // Work that the iteration left because it had used its share continues at once.
            let left = self.mail_left || self.graves.len() > upkeep::GRAVES_A_TURN;
            if left { Duration::ZERO } else { PARKED_WAIT }
        } else if !self.pinners.sessions.is_empty() || !self.keepers.is_empty() {
            upkeep::PIN_CHECK
        } else if self.sessions.len() > 0 {
            SLEEP_MAX
        } else {
            SLEEP_ALONE_MAX
        };
        if self.holders.is_busy { sleep.min(self.holders.quiet(self.now_ns)) } else { sleep }
    }

    /// Returns true if the iteration must poll before it visits another session.
    fn is_over(&self) -> bool {
        self.ctx.pace.is_over(self.ctx.op_begun)
    }

    /// Reads the clocks and finds the sessions that have work to do.
    fn begin_turn(&mut self) {
        poll::read_clocks(self);
        self.ctx.pace.begin_iteration(self.turn_ticks);
        self.hurried = if self.ctx.hurries { self.hurried + 1 } else { 0 };
        self.ctx.hurries = false;
        self.ctx.counters().iterations.add(1);
        poll::admit_new(self);
        for number in 0..self.events.len() {
            self.note(self.events[number]);
        }
        while let Some(index) = self.parked.pop() {
            self.call_back(index);
        }
        for class in CLASSES {
            let waiting = self.waiting[class.slot()].len();
            if waiting == 0 {
                continue;
            }
            for _ in 0..waiting.min(self.buffers.free(class)) {
                if let Some(index) = self.waiting[class.slot()].pop_front() {
                    let waited_ns = self.now_ns.saturating_sub(self.sessions.at(index).waits_ns);
                    self.ctx.counters().buffer_wait_ns.add(waited_ns);
                    self.call_back(index);
                }
            }
        }
    }

    /// Adds a new connection to the table.
    fn admit(&mut self, arrival: Arrival<B::Stream>) {
        let Arrival { stream, endpoint, carried } = arrival;
        if !endpoint.is_counted {
            self.ctx.shared.namespaces.count_in(endpoint.namespace);
        }
        let attached = match self.sessions.next_token() {
            Some(token) => self.io.attach(&stream, token),
            // The acceptor gives no worker more connections than its table holds.
            None => Err(std::io::ErrorKind::QuotaExceeded.into()),
        };
        if attached.is_ok() {
            let peer = B::peer(&stream);
            let index = self.sessions.insert(stream, endpoint, self.now_ns);
            self.ctx.connection_table().open(index, peer, self.ctx.now.secs());
            if endpoint.protocol == Protocol::Resp {
                self.introduce(index, peer, endpoint);
            }
            match carried {
                // The connection is counted once it is set up.
                Some(carried) => self.taken_over.push((index, carried)),
                None => self.ctx.counters().connections_total.add(1),
            }
            if self.stop_deadline_ns.is_some() {
                self.sessions.at(index).readable = true;
                self.make_ready(index);
            }
        } else {
            self.ctx.counters().connections_total.add(1);
            self.ctx.counters().connections_closed.add(1);
            self.ctx.shared.namespaces.leave(endpoint.namespace);
            self.io.close(stream);
        }
    }

    /// Adds the client info of a Redis client to the connection table.
    fn introduce(&mut self, index: u32, peer: Option<std::net::SocketAddr>, endpoint: Endpoint) {
        let (shared, session) = (&self.ctx.shared, self.sessions.at(index));
        let client_info = ClientInfo {
            id: shared.clients.next(),
            local: session.stream.as_ref().and_then(B::local),
            since_secs: self.ctx.now.secs(),
            database: endpoint.namespace.0,
            ..ClientInfo::default()
        };
        self.ctx.connection_table().introduce(index, client_info);
        let distant = peer.is_some_and(|peer| !peer.ip().to_canonical().is_loopback());
        if distant && shared.config.protected && !shared.asks_who() {
            session.state.hold_off();
        }
    }

    /// Records one event of the reactor.
    fn note(&mut self, event: Event) {
        let Some(session) = self.sessions.find(event.token) else {
            return;
        };
        session.readable |= event.readable;
        session.hangup |= event.hangup;
        session.sending |= event.writable && session.blocked;
        self.make_ready(event.token.index());
    }

    /// Resumes a session that was taken out of the list it was in.
    fn call_back(&mut self, index: u32) {
        self.sessions.at(index).place = Place::Idle;
        self.make_ready(index);
    }

    /// Puts a session at the end of the queue if it is in no list and has work to do.
    fn make_ready(&mut self, index: u32) {
        let session = self.sessions.at(index);
        if session.place != Place::Idle {
            return;
        }
        if session.phase == Phase::Dead {
            self.graves.push_back(index);
        } else if session.has_work() {
            session.place = Place::Ready;
            session.ready_at = self.turn_ticks;
            if session.is_long() { self.long.push_back(index) } else { self.ready.push_back(index) }
        }
    }

    /// Puts a session into the queue for a buffer. Sends its output first, because its peer may wait for that.
    fn wait_for(&mut self, index: u32, class: Class) {
        output::send(self, index);
        let session = self.sessions.at(index);
        if session.phase == Phase::Dead || session.blocked {
            return;
        }
        session.place = Place::Waiting;
        session.waits_ns = self.now_ns;
        if let Some(input) = &session.input {
            self.holders.note_input(index, input, self.now_ns);
        }
        self.holders.is_busy = true;
        self.waiting[class.slot()].push_back(index);
        self.ctx.counters().buffer_waits.add(1);
    }
}
