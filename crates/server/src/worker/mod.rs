//! A worker: one thread, its connections from first byte to last, and its way into the store.
//!
//! ```text
//!   iteration:   wait ──> admit new connections, note who is ready, call back who was parked or waited for a buffer
//!           batch (again until the iteration's share of work is done, or no session is ready):        pace.rs
//!               gather   up to 64 ready sessions: lend buffers, one receive each           batch.rs
//!               serve    inside one guard: at most 64 operations a session            batch.rs
//!               settle   one send each; who has more to do goes to the end of the queue    output.rs
//!           long: one visit each to sessions that used their share of the last one, at least one an iteration
//!           mail: what sessions are told unasked, also after each batch that told any       mail.rs
//!           upkeep: timeouts, slow readers, a stop in progress                             upkeep.rs
//!           a hand-over: connections leave as they are                                     leave.rs
//! ```
//!
//! Invariants: a session is noted in one list at most; no list, queue or buffer grows after start but the
//! list of sessions with an answer that is kept for them, which has each at most once; nothing but `Backend::wait`
//! waits (`poll.rs`); the guard holds no system call. Between two waits at most 500 us of work are
//! done ([`crate::pace`]): a session whose request takes many visits waits in a list of its own, behind every new
//! request.

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
use crate::card::Card;
use crate::clock::{Clock, Follower, Ticks};
use crate::command::resp::Spares;
use crate::command::{Door, Protocol};
use crate::context::WorkerContext;
use crate::handover::{Arrival, Carried, Moved};
use crate::heat::Sampler;
use crate::metrics::SlowLines;
use crate::pace::Pace;
use crate::session::{Phase, Place, Table};
use crate::shared::{Pause, Shared};
use crate::watch::Watch;
use arrive::Arrivals;
use base::clock::UnixMillis;
use coming::Coming;
use hold::Holders;
use io::{Backend, Event};
use segment::{Namespace, ThreadHandle};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use upkeep::Pinners;

/// Sessions in one batch.
pub const BATCH_SESSIONS_MAX: usize = 64;
/// Sessions of one batch whose request takes many visits.
const BATCH_LONG_MAX: usize = 16;
/// Operations after which a batch takes no further session.
pub const BATCH_OPS_MAX: usize = 256;
/// Bytes parsed after which an iteration ends.
pub const TURN_BYTES_MAX: usize = 256 << 10;
/// What a session costs an iteration at least, in bytes parsed: so many visits, too, end it.
const VISIT_BYTES: usize = 64;
/// Events that one wait reports.
pub const EVENTS_MAX: usize = 512;
/// How long a parked operation waits for its next iteration.
const PARKED_WAIT: Duration = Duration::from_millis(1);
/// Turns in a row that begin without a sleep since something waits for other workers' iterations.
const HURRIED_MAX: u32 = 64;
/// How long a worker with connections sleeps at most: what its timeouts are checked by.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// How long a worker without connections sleeps at most.
const SLEEP_ALONE_MAX: Duration = Duration::from_secs(1);
/// Steps in which a worker that ends gives back what its connections hold; what they have begun is done in slices.
const RELEASES_MAX: usize = 1 << 20;
/// How often a worker hands old open segments to the background.
const TIDY_NS: u64 = 1_000_000_000;

/// Which sessions a batch takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    /// Those that have something to do.
    Ready,
    /// Those whose request takes many visits, or that have more requests than one visit does.
    Long,
}

/// What a worker is made of.
pub struct WorkerParts<B: Backend> {
    /// Its reactor, which reports at most [`EVENTS_MAX`] events at once.
    pub io: B,
    /// Its way into the store.
    pub handle: ThreadHandle,
    /// What it shares with the others.
    pub shared: Arc<Shared>,
    /// Its number.
    pub number: usize,
    /// New connections.
    pub intake: Receiver<Arrival<B::Stream>>,
    /// Its clock.
    pub clock: Clock,
    /// Connections that it has at once.
    pub sessions_max: usize,
}

/// A worker.
pub struct Worker<B: Backend> {
    handle: ThreadHandle,
    core: Core<B>,
}

/// All of a worker but its way into the store, so that a guard can be open while a session is changed.
struct Core<B: Backend> {
    io: B,
    ctx: WorkerContext,
    sessions: Table<B::Stream>,
    buffers: Buffers,
    intake: Receiver<Arrival<B::Stream>>,
    events: Vec<Event>,
    ready: VecDeque<u32>,
    /// Sessions whose request takes many visits, or whose output many sends, or that used their share of the last
    /// visit.
    long: VecDeque<u32>,
    parked: Vec<u32>,
    coming: Coming,
    waiting: [VecDeque<u32>; CLASSES.len()],
    holders: Holders,
    batch: Vec<u32>,
    /// Sessions of the batch that were visited; the others are the first of the next one.
    served: usize,
    /// Dead sessions whose state is to be given back in the next guard.
    graves: VecDeque<u32>,
    born: Ticks,
    unix: Follower,
    /// This iteration's instant, in ticks and in ns of the worker's life.
    turn_ticks: Ticks,
    now_ns: u64,
    swept_ns: u64,
    sweep_at: usize,
    pins_checked_ns: u64,
    /// Blocked sessions with pins; some are so no more.
    pinners: Pinners,
    /// Blocked sessions for which answers are kept outside the store; some are so no more.
    keepers: Vec<u32>,
    /// More new connections may be in the intake.
    intake_left: bool,
    arrivals: Arrivals,
    tidied_ns: u64,
    /// When a stop in progress becomes impatient, in ns of the worker's life.
    stop_deadline_ns: Option<u64>,
    /// Connections with mail: those that are served next, and those that could not be given all of it.
    mail: VecDeque<u32>,
    again: Vec<u32>,
    /// Some of the former were not visited in this iteration, or changes of keys are left to be published.
    mail_left: bool,
    /// Turns in a row that began at once since something hurried.
    hurried: u32,
    /// Connections that were taken over and are not set up yet, with their state.
    taken_over: Vec<(u32, Arc<Carried>)>,
    /// Connections that have left, and how many unsent bytes others may still leave with.
    moved: Vec<Moved<B::Stream>>,
    output_left: u64,
    /// The last round of [`crate::shared::Drain`] that was answered.
    drain_round: u64,
}

/// What a worker's commands have in common, before its first iteration.
fn context(shared: Arc<Shared>, worker: usize, clock: Clock, request_bytes_max: usize) -> WorkerContext {
    let op_begun = clock.ticks();
    WorkerContext {
        now: UnixMillis::default(),
        ahead_ms: 0,
        shared,
        worker,
        pace: Pace::new(&clock),
        clock,
        request_bytes_max,
        op_begun,
        ready: op_begun,
        namespace: Namespace::DEFAULT,
        guards: 0,
        routes: Arc::default(),
        route_changes: 0,
        rationed_here: false,
        batch_ops: 0,
        arrivals: 0,
        long_keys: 0,
        slow_lines: SlowLines::default(),
        watch: Watch::default(),
        to_wake: 0,
        pause: Pause::None,
        restrained: false,
        user_changes: 0,
        asks: false,
        hurries: false,
        work_bytes: 0,
        unpublished: VecDeque::new(),
        sampler: Sampler::new(worker),
        spares: Spares::default(),
    }
}

impl<B: Backend> Worker<B> {
    /// A worker without connections. All that it will ever allocate is allocated here.
    pub fn new(mut parts: WorkerParts<B>) -> Self {
        let guard = parts.handle.guard(parts.clock.unix());
        let piece_bytes_max = (guard.large_threshold() as usize).max(guard.large_piece_max());
        drop(guard);
        let sizes = Sizes::new(parts.sessions_max, piece_bytes_max);
        let buffers = Buffers::of_worker(sizes, &parts.shared, parts.number);
        let (born, unix) = (parts.clock.ticks(), Follower::new(&parts.clock));
        let sessions_max = parts.sessions_max;
        let ctx = context(parts.shared, parts.number, parts.clock, sizes.big_bytes);
        let core = Core {
            io: parts.io,
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

    /// Turns until a stop has been asked for and is done. Tells the connections that left, if it was a hand-over.
    pub fn run(mut self) -> Vec<Moved<B::Stream>> {
        while self.iterate() {}
        self.take_moved()
    }

    /// The connections that have left since it was asked last.
    pub fn take_moved(&mut self) -> Vec<Moved<B::Stream>> {
        std::mem::take(&mut self.core.moved)
    }

    /// Connections it has.
    pub fn sessions(&self) -> usize {
        self.core.sessions.len()
    }

    /// Whether it goes on at once: sessions have something to do, or have ended with something begun.
    pub fn is_busy(&self) -> bool {
        !self.core.ready.is_empty() || !self.core.long.is_empty() || !self.core.graves.is_empty()
    }

    /// Buffers that are lent to sessions now.
    pub fn buffers_lent(&self) -> usize {
        self.core.buffers.lent()
    }

    /// One iteration. False once a stop is done: no connection is left and none will come.
    pub fn iterate(&mut self) -> bool {
        let core = &mut self.core;
        let timeout = core.sleep();
        core.wait(timeout);
        core.begin_turn();
        if !core.taken_over.is_empty() {
            core.set_up_taken_over(&mut self.handle.guard(core.ctx.now));
        }
        core.call_back_landed(&mut self.handle);
        let mut bytes = 0;
        while bytes < TURN_BYTES_MAX && !core.ready.is_empty() && !core.is_over() {
            bytes += Self::batch(&mut self.handle, core, Queue::Ready);
        }
        for batch in 0..core.long.len().div_ceil(BATCH_LONG_MAX) {
            // New requests come first, but can never keep a long one from its end.
            if batch > 0 && core.is_over() {
                break;
            }
            Self::batch(&mut self.handle, core, Queue::Long);
        }
        core.serve_mail();
        core.upkeep();
        if core.arrivals_due() {
            core.relieve_arrivals(&mut self.handle.guard(core.ctx.now));
        }
        if !core.graves.is_empty() {
            core.release(&mut self.handle.guard(core.ctx.now));
        }
        if core.now_ns - core.tidied_ns >= TIDY_NS {
            core.tidied_ns = core.now_ns;
            self.handle.tidy(core.ctx.now);
        }
        core.call_back_landed_since(&mut self.handle);
        let shared = &core.ctx.shared;
        if !core.parked.is_empty() || shared.store.needs_background() {
            shared.wake_background();
        }
        let publishes = shared.stop.hands_over() && !core.ctx.unpublished.is_empty();
        !(core.stop_deadline_ns.is_some() && core.sessions.len() == 0 && !publishes)
    }

    /// One batch; returns the bytes it parsed, each session counted as at least [`VISIT_BYTES`].
    fn batch(handle: &mut ThreadHandle, core: &mut Core<B>, queue: Queue) -> usize {
        let discarded = core.gather(queue);
        let visits = core.batch.len().max(1);
        let mut guard = handle.guard(core.ctx.now);
        let served = if !core.ctx.is_behind_publishing() && core.flush_if_due(&mut guard) {
            core.serve(&mut guard, queue)
        } else {
            core.hold();
            core.served = core.batch.len();
            0
        };
        let bytes = served + core.arrivals.take_bytes() + std::mem::take(&mut core.ctx.work_bytes);
        drop(guard);
        core.settle(queue);
        if core.has_mail() {
            core.serve_mail();
        }
        core.io.submit();
        core.ctx.counters().batches.add(1);
        bytes.max(visits * VISIT_BYTES) + discarded
    }
}

impl<B: Backend> Drop for Worker<B> {
    /// Closes what is open and gives the store back what it held.
    fn drop(&mut self) {
        let core = &mut self.core;
        core.kill_all();
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
            core.release(&mut self.handle.guard(core.ctx.now));
        }
    }
}

impl<B: Backend> Core<B> {
    /// How long the next wait may take.
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
            // What an iteration left undone because it had done enough goes on at once.
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

    /// Whether the iteration is to poll before it visits another session.
    fn is_over(&self) -> bool {
        self.ctx.pace.is_over(self.ctx.op_begun)
    }

    /// Reads the clocks and finds out who has something to do.
    fn begin_turn(&mut self) {
        self.read_clocks();
        self.ctx.pace.begin_iteration(self.turn_ticks);
        self.hurried = if self.ctx.hurries { self.hurried + 1 } else { 0 };
        self.ctx.hurries = false;
        self.ctx.counters().iterations.add(1);
        self.admit_new();
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

    /// Takes a new connection in.
    fn admit(&mut self, arrival: Arrival<B::Stream>) {
        let Arrival { stream, door, carried } = arrival;
        if !door.is_counted {
            self.ctx.shared.namespaces.count_in(door.namespace);
        }
        let attached = match self.sessions.next_token() {
            Some(token) => self.io.attach(&stream, token),
            // The acceptor gives no worker more than its table holds.
            None => Err(std::io::ErrorKind::QuotaExceeded.into()),
        };
        if attached.is_ok() {
            let peer = B::peer(&stream);
            let index = self.sessions.insert(stream, door, self.now_ns);
            self.ctx.roster().open(index, peer, self.ctx.now.secs());
            if door.protocol == Protocol::Resp {
                self.introduce(index, peer, door);
            }
            match carried {
                // Counted once it is set up.
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
            self.ctx.shared.namespaces.leave(door.namespace);
            self.io.close(stream);
        }
    }

    /// Writes a card for a client of Redis.
    fn introduce(&mut self, index: u32, peer: Option<std::net::SocketAddr>, door: Door) {
        let (shared, session) = (&self.ctx.shared, self.sessions.at(index));
        let card = Card {
            id: shared.clients.next(),
            local: session.stream.as_ref().and_then(B::local),
            since_secs: self.ctx.now.secs(),
            database: door.namespace.0,
            ..Card::default()
        };
        self.ctx.roster().introduce(index, card);
        let distant = peer.is_some_and(|peer| !peer.ip().to_canonical().is_loopback());
        if distant && shared.config.protected && !shared.asks_who() {
            session.state.hold_off();
        }
    }

    /// Takes one event in.
    fn note(&mut self, event: Event) {
        let Some(session) = self.sessions.find(event.token) else {
            return;
        };
        session.readable |= event.readable;
        session.hangup |= event.hangup;
        session.sending |= event.writable && session.blocked;
        self.make_ready(event.token.index());
    }

    /// Has a session go on that was taken out of the list that noted it.
    fn call_back(&mut self, index: u32) {
        self.sessions.at(index).place = Place::Idle;
        self.make_ready(index);
    }

    /// Puts a session that is noted nowhere and has something to do at the end of the queue.
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

    /// Notes that a session waits for a buffer. What it has to say goes out first: its peer may wait for that.
    fn wait_for(&mut self, index: u32, class: Class) {
        self.send(index);
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
