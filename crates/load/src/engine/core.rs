//! The work of one thread, as a state machine over a [`Net`]. It uses clock and sockets only through the [`Net`], so a
//! simulated clock drives the same code as a real one.
//!
//! ```text
//!   turn:  upkeep      slices, timeouts, connections to open or to close
//!          send        due requests, a batch at a time, to the connection that has had room for the longest
//!          flush       one send for each connection with new bytes
//!          wait        until the next instant of any of these, or an event
//!          events      one receive each; replies are matched in order, or by their streams, and recorded
//! ```
//!
//! Invariants: intended instants are taken in order, and each is recorded once. Requests that cannot be sent yet stay
//! in the schedule, which stores only a position. A connection never has more than `depth` requests in flight. A
//! batch is sent on one connection, or if routed on one per target. It is sent only when a connection has room for all
//! its requests.

mod answers;
mod connections;
mod ending;
mod redirect;
mod send;
mod streams;
mod upkeep;

use super::connection::{InFlight, LoadConnection};
pub(super) use answers::GREETING_REFUSED;

use super::control::Control;
use super::net::{Net, NetEvent};
use crate::measure::{RawSlice, Recorder};
use crate::schedule::Intents;
use crate::traffic::Traffic;
use link::tls::Failure;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::mpsc::SyncSender;

/// Largest number of bytes taken by one receive.
const RECEIVE_BYTES: usize = 256 * 1024;
/// Highest number of receives of one connection in a turn, before other connections are served.
const RECEIVES_MAX: usize = 64;
/// Largest number of received bytes of an incomplete reply.
const RETAINED_BYTES_MAX: usize = 64 << 20;
/// Largest number of unsent bytes on a connection whose replies are not matched.
const BLIND_BYTES_MAX: usize = 256 * 1024;
/// Highest number of events taken at once.
const EVENTS_MAX: usize = 256;
/// Interval at which the traffic is polled for an instant that is not known yet.
const POLL_NS: u64 = 200_000;
const TICK_NS_MIN: u64 = 1_000_000;
const TICK_NS_MAX: u64 = 250_000_000;

/// The rule by which a thread sends requests.
#[derive(Debug)]
pub(crate) enum Pacing {
    /// Each request is sent at its instant.
    Open(Intents),
    /// Each reply triggers the next request.
    Closed,
    /// Requests are sent at their instants, or as fast as bytes are accepted; replies are not matched.
    Blind(Option<Intents>),
}

/// The settings of a core; times are in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct CoreSettings {
    /// The target of each connection of the core.
    pub targets: Vec<usize>,
    /// The targets' names, for fault messages.
    pub names: Vec<String>,
    pub routed: bool,
    pub depth: usize,
    pub batch: usize,
    pub warm_up_ns: u64,
    pub duration_ns: u64,
    pub drain_ns: u64,
    pub requests_max: u64,
    pub timeout_ns: u64,
    pub connect_timeout_ns: u64,
    pub pause_ns: u64,
    /// Interval between deliberate closes; `u64::MAX` for none.
    pub reconnect_every_ns: u64,
    /// Interval between storms; `u64::MAX` for none.
    pub storm_every_ns: u64,
    pub connects_at_once_max: usize,
    pub slice_ns: u64,
    pub live_verbs: bool,
    /// True if this stream uses the control's rate.
    pub follows_control: bool,
}

pub(crate) struct Core<'c, N, T> {
    net: N,
    traffic: T,
    settings: CoreSettings,
    control: &'c Control,
    slices: Option<SyncSender<RawSlice>>,
    pacing: Pacing,
    pub recorder: Recorder,
    connections: Vec<LoadConnection>,
    /// Connections with room, the longest waiting first; one list for each target if `routed`.
    ready: Vec<VecDeque<u32>>,
    /// Instant from which each list was not empty.
    room_ns: Vec<u64>,
    dirty: Vec<u32>,
    /// Redirected requests by target, waiting for room on a connection there. They count as in flight.
    redirected: Vec<VecDeque<InFlight>>,
    /// Number of redirected requests that wait.
    redirected_count: usize,
    /// Connections to open, by the earliest instant of the next attempt.
    to_make: BinaryHeap<Reverse<(u64, u32)>>,
    connecting: usize,
    up: usize,
    in_flight: usize,
    /// Number of requests that may still be sent.
    left: u64,
    /// Number of the current batch, from 1.
    batch: u64,
    /// Requests of the current batch that are not sent yet.
    batch_left: usize,
    /// True if the due request waits for room, so that only an event lets it continue.
    is_stuck: bool,
    started: bool,
    start_ns: u64,
    end_ns: u64,
    /// Start of the current turn, in nanoseconds.
    now_ns: u64,
    rate_bits: u64,
    tick_ns: u64,
    next_tick_ns: u64,
    next_slice_ns: u64,
    next_reconnect_ns: u64,
    next_storm_ns: u64,
    /// True if all connections are being reopened at once.
    storming: bool,
    /// Index of the next connection to close on purpose.
    reconnect_at: usize,
    events: Vec<NetEvent>,
    buffer: Vec<u8>,
}

impl<'c, N: Net, T: Traffic> Core<'c, N, T> {
    pub fn new(
        net: N,
        traffic: T,
        pacing: Pacing,
        settings: CoreSettings,
        control: &'c Control,
        slices: Option<SyncSender<RawSlice>>,
    ) -> Self {
        let lists = if settings.routed { settings.names.len() } else { 1 };
        let connections: Vec<LoadConnection> =
            settings.targets.iter().map(|target| LoadConnection::new(*target)).collect();
        let mut recorder = Recorder::new(traffic.verbs(), u64::MAX, u64::MAX);
        if settings.live_verbs {
            recorder.name_verbs();
        }
        Self {
            recorder,
            ready: vec![VecDeque::with_capacity(connections.len()); lists],
            room_ns: vec![0; lists],
            dirty: Vec::with_capacity(connections.len()),
            redirected: vec![VecDeque::new(); lists],
            redirected_count: 0,
            to_make: (0..connections.len() as u32).map(|connection| Reverse((0, connection))).collect(),
            connections,
            connecting: 0,
            up: 0,
            in_flight: 0,
            left: settings.requests_max,
            batch: 0,
            batch_left: 0,
            is_stuck: false,
            started: false,
            start_ns: 0,
            end_ns: u64::MAX,
            now_ns: 0,
            rate_bits: control.rate_per_s().to_bits(),
            tick_ns: (settings.timeout_ns.min(settings.connect_timeout_ns) / 16).clamp(TICK_NS_MIN, TICK_NS_MAX),
            next_tick_ns: 0,
            next_slice_ns: u64::MAX,
            next_reconnect_ns: u64::MAX,
            next_storm_ns: u64::MAX,
            storming: false,
            reconnect_at: 0,
            events: Vec::with_capacity(EVENTS_MAX),
            buffer: vec![0; RECEIVE_BYTES],
            net,
            traffic,
            pacing,
            settings,
            control,
            slices,
        }
    }

    /// Opens every connection, with one attempt each. Returns the number of open connections.
    pub fn connect_all(&mut self) -> std::io::Result<usize> {
        while self.connecting > 0 || self.to_make.peek().is_some_and(|Reverse((from_ns, _))| *from_ns == 0) {
            let now_ns = self.net.now_ns();
            self.upkeep(now_ns);
            self.flush();
            if self.control.is_stopped() {
                break;
            }
            if self.connecting > 0 {
                self.wait()?;
            }
        }
        Ok(self.up)
    }

    /// Begins the run at the current instant of the clock.
    pub fn begin_now(&mut self) {
        let now_ns = self.net.now_ns();
        self.begin(now_ns);
    }

    /// Begins the run at `start_ns` of the clock.
    pub fn begin(&mut self, start_ns: u64) {
        let settings = &self.settings;
        let begin_ns = start_ns + settings.warm_up_ns;
        self.started = true;
        self.start_ns = start_ns;
        self.end_ns = begin_ns.saturating_add(settings.duration_ns);
        self.recorder.set_window(begin_ns, self.end_ns);
        self.next_slice_ns = start_ns.saturating_add(settings.slice_ns);
        self.next_reconnect_ns = start_ns.saturating_add(settings.reconnect_every_ns);
        self.next_storm_ns = start_ns.saturating_add(settings.storm_every_ns);
    }

    /// Returns the number of connections that are up.
    pub const fn up(&self) -> usize {
        self.up
    }

    /// Returns whether all requested requests have been sent.
    pub fn is_exhausted(&self) -> bool {
        let is_over = match &self.pacing {
            Pacing::Open(intents) | Pacing::Blind(Some(intents)) => intents.is_over(),
            Pacing::Closed | Pacing::Blind(None) => false,
        };
        self.left == 0 || is_over || self.traffic.is_exhausted()
    }

    /// Runs until the run is over.
    pub fn run(&mut self) -> std::io::Result<()> {
        while self.turn()? {}
        Ok(())
    }

    /// Executes one turn. Returns false if the run is over.
    pub fn turn(&mut self) -> std::io::Result<bool> {
        let now_ns = self.net.now_ns();
        self.now_ns = now_ns;
        self.upkeep(now_ns);
        self.let_out(now_ns);
        self.flush();
        if self.is_over(now_ns) {
            return Ok(false);
        }
        self.wait()?;
        Ok(true)
    }

    fn wait(&mut self) -> std::io::Result<()> {
        let until_ns = self.wake_ns();
        let mut events = std::mem::take(&mut self.events);
        let waited = self.net.wait(until_ns, &mut events);
        for event in &events {
            self.handle(*event);
        }
        self.events = events;
        waited
    }

    /// Returns the next instant at which work is due without an event.
    fn wake_ns(&self) -> u64 {
        let mut wake_ns = self.next_tick_ns.min(self.next_slice_ns);
        if self.now_ns < self.end_ns {
            wake_ns = wake_ns.min(self.next_reconnect_ns).min(self.next_storm_ns);
        }
        if self.now_ns < self.end_ns
            && self.connecting < self.settings.connects_at_once_max
            && let Some(Reverse((from_ns, _))) = self.to_make.peek()
        {
            wake_ns = wake_ns.min(*from_ns);
        }
        if !self.started {
            return wake_ns;
        }
        if self.now_ns < self.start_ns {
            return wake_ns.min(self.start_ns);
        }
        let has_room = self.ready.iter().any(|list| !list.is_empty());
        if has_room && !self.is_stuck && self.left > 0 {
            wake_ns = wake_ns.min(self.next_due_ns());
        }
        if let Pacing::Open(intents) | Pacing::Blind(Some(intents)) = &self.pacing
            && intents.is_waiting()
        {
            wake_ns = wake_ns.min(self.now_ns + POLL_NS);
        }
        let is_draining = self.now_ns >= self.end_ns;
        wake_ns.min(self.end_ns.saturating_add(if is_draining { self.settings.drain_ns } else { 0 }))
    }

    /// Returns the instant at which the next request is due by the schedule; `u64::MAX` if no request is due before the
    /// end.
    fn next_due_ns(&self) -> u64 {
        let next_ns = match &self.pacing {
            Pacing::Open(intents) | Pacing::Blind(Some(intents)) => intents.peek_ns().saturating_add(self.start_ns),
            Pacing::Closed => u64::MAX,
            Pacing::Blind(None) => 0,
        };
        if next_ns < self.end_ns { next_ns } else { u64::MAX }
    }
}

fn fault_name(error: &std::io::Error) -> &'static str {
    if let Some(failure) = Failure::in_error(error) {
        return failure.name;
    }
    match error.kind() {
        std::io::ErrorKind::ConnectionReset => "reset-by-server",
        std::io::ErrorKind::BrokenPipe => "closed-by-server",
        std::io::ErrorKind::TimedOut => "network-timeout",
        _ => "broken",
    }
}
