//! One thread's work as a state machine over a [`Net`]: it reads no clock and no socket but through it, so that a
//! simulated clock drives it exactly as a real one does.
//!
//! ```text
//!   turn:  upkeep      slices, timeouts, connections to make or to close
//!          let out     what is due goes to the connection that has had room for the longest
//!          flush       one send for each connection that was given something
//!          wait        until the next instant of any of these, or an event
//!          events      one receive each; answers are matched in order and filed
//! ```
//!
//! Invariants: intended instants are taken in order and each ends in the figures once; what can not be let out stays
//! in the schedule, which is a position and no list; a connection never has more than `depth` requests in flight.

use super::connection::{Connection, InFlight, State};
use super::control::Control;
use super::net::{Connecting, Event, Moved, Net};
use crate::measure::{Ended, Fate, RawSlice, Recorder, Snapshot};
use crate::schedule::Intents;
use crate::traffic::{Progress, Traffic};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::mpsc::SyncSender;

/// Bytes that one receive takes.
const RECEIVE_BYTES: usize = 256 * 1024;
/// Receives of one connection in a turn, before the others have theirs.
const RECEIVES_MAX: usize = 64;
/// Bytes that an answer may leave unread while more of it is wanted.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Bytes that wait to be sent on a connection that is not waited for.
const BLIND_BYTES_MAX: usize = 256 * 1024;
/// Events that are taken at once.
const EVENTS_MAX: usize = 256;
const TICK_NS_MIN: u64 = 1_000_000;
const TICK_NS_MAX: u64 = 250_000_000;

/// How a thread lets requests out.
#[derive(Debug)]
pub(crate) enum Pacing {
    /// Each at its instant.
    Open(Intents),
    /// As answers come.
    Closed,
    /// At their instants, or without them as fast as bytes are taken; answers are not matched.
    Blind(Option<Intents>),
}

/// What a core needs to know; times are nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The target of each of its connections.
    pub targets: Vec<usize>,
    /// The targets' names, for what is said of faults.
    pub names: Vec<String>,
    pub routed: bool,
    pub depth: usize,
    pub warm_up_ns: u64,
    pub duration_ns: u64,
    pub drain_ns: u64,
    pub requests_max: u64,
    pub timeout_ns: u64,
    pub connect_timeout_ns: u64,
    pub pause_ns: u64,
    /// From one purposeful close to the next; `u64::MAX`: none.
    pub reconnect_every_ns: u64,
    /// From one storm to the next; `u64::MAX`: none.
    pub storm_every_ns: u64,
    pub connects_at_once_max: usize,
    pub slice_ns: u64,
    /// Whether the control's rate is this stream's.
    pub follows_control: bool,
}

pub(crate) struct Core<'c, N, T> {
    net: N,
    traffic: T,
    settings: Settings,
    control: &'c Control,
    slices: Option<SyncSender<RawSlice>>,
    pacing: Pacing,
    pub recorder: Recorder,
    connections: Vec<Connection>,
    /// Connections with room, the one that has had it longest first; one list for each target where `routed`.
    ready: Vec<VecDeque<u32>>,
    /// Since when each list has had somebody.
    room_ns: Vec<u64>,
    dirty: Vec<u32>,
    /// Connections to make, by the instant from which on.
    to_make: BinaryHeap<Reverse<(u64, u32)>>,
    connecting: usize,
    up: usize,
    in_flight: usize,
    /// Requests that may still be let out.
    left: u64,
    started: bool,
    start_ns: u64,
    end_ns: u64,
    /// When this turn began.
    now_ns: u64,
    rate_bits: u64,
    tick_ns: u64,
    next_tick_ns: u64,
    next_slice_ns: u64,
    next_reconnect_ns: u64,
    next_storm_ns: u64,
    /// Connections are made without waiting for one another, until all are up.
    storming: bool,
    /// Whose turn it is to be closed on purpose.
    reconnect_at: usize,
    events: Vec<Event>,
    buffer: Vec<u8>,
}

impl<'c, N: Net, T: Traffic> Core<'c, N, T> {
    pub fn new(
        net: N,
        traffic: T,
        pacing: Pacing,
        settings: Settings,
        control: &'c Control,
        slices: Option<SyncSender<RawSlice>>,
    ) -> Self {
        let lists = if settings.routed { settings.names.len() } else { 1 };
        let connections: Vec<Connection> = settings.targets.iter().map(|target| Connection::new(*target)).collect();
        let recorder = Recorder::new(traffic.verbs(), u64::MAX, u64::MAX);
        Self {
            recorder,
            ready: vec![VecDeque::with_capacity(connections.len()); lists],
            room_ns: vec![0; lists],
            dirty: Vec::with_capacity(connections.len()),
            to_make: (0..connections.len() as u32).map(|connection| Reverse((0, connection))).collect(),
            connections,
            connecting: 0,
            up: 0,
            in_flight: 0,
            left: settings.requests_max,
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

    /// Makes every connection, each tried once. How many are up then.
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

    /// Begins the run at the instant that the clock shows.
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

    /// Connections that are up.
    pub const fn up(&self) -> usize {
        self.up
    }

    /// Whether all requests asked for were let out.
    pub fn is_exhausted(&self) -> bool {
        self.left == 0 || self.traffic.is_exhausted()
    }

    /// Works until the run is over.
    pub fn run(&mut self) -> std::io::Result<()> {
        while self.turn()? {}
        Ok(())
    }

    /// One turn. False: the run is over.
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

    /// The next instant at which there is something to do without an event.
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
        if has_room && self.left > 0 {
            wake_ns = wake_ns.min(self.next_due_ns());
        }
        let is_draining = self.now_ns >= self.end_ns;
        wake_ns.min(self.end_ns.saturating_add(if is_draining { self.settings.drain_ns } else { 0 }))
    }

    /// When the next request is due by the schedule; `u64::MAX`: none before the end.
    fn next_due_ns(&self) -> u64 {
        let next_ns = match &self.pacing {
            Pacing::Open(intents) | Pacing::Blind(Some(intents)) => intents.peek_ns().saturating_add(self.start_ns),
            Pacing::Closed => u64::MAX,
            Pacing::Blind(None) => 0,
        };
        if next_ns < self.end_ns { next_ns } else { u64::MAX }
    }

    // --- letting requests out ---

    fn let_out(&mut self, now_ns: u64) {
        if now_ns < self.start_ns {
            return;
        }
        if self.control.is_stopped() && now_ns < self.end_ns {
            self.end_ns = now_ns;
            self.recorder.cut(now_ns);
        }
        self.follow_rate(now_ns);
        while self.traffic.has_follow_up() && self.let_one_out(now_ns, now_ns) {}
        match self.pacing {
            Pacing::Open(_) | Pacing::Blind(Some(_)) => {
                while self.left > 0 && !self.traffic.is_exhausted() {
                    let due_ns = self.next_due_ns();
                    if due_ns > now_ns || !self.let_one_out(due_ns, now_ns) {
                        break;
                    }
                    if let Pacing::Open(intents) | Pacing::Blind(Some(intents)) = &mut self.pacing {
                        intents.take_ns();
                    }
                    self.left -= 1;
                }
            }
            Pacing::Closed | Pacing::Blind(None) => {
                while now_ns < self.end_ns
                    && self.left > 0
                    && !self.traffic.is_exhausted()
                    && self.let_one_out(now_ns, now_ns)
                {
                    self.left -= 1;
                }
            }
        }
    }

    fn follow_rate(&mut self, now_ns: u64) {
        let bits = self.control.rate_per_s().to_bits();
        if bits == self.rate_bits || !self.settings.follows_control {
            return;
        }
        self.rate_bits = bits;
        if let Pacing::Open(intents) | Pacing::Blind(Some(intents)) = &mut self.pacing {
            intents.change_rate(now_ns.saturating_sub(self.start_ns), f64::from_bits(bits));
        }
    }

    /// Hands the next request to a connection with room. False: there is none.
    fn let_one_out(&mut self, intended_ns: u64, now_ns: u64) -> bool {
        let list = if self.settings.routed { self.traffic.target() } else { 0 };
        let depth = self.settings.depth;
        let index = loop {
            let Some(index) = self.ready[list].pop_front() else { return false };
            let connection = &mut self.connections[index as usize];
            connection.queued = false;
            if connection.has_room(depth) {
                break index;
            }
        };
        let connection = &mut self.connections[index as usize];
        let pending = self.traffic.next(index as usize, &mut connection.out);
        let room_ns = self.room_ns[list];
        if matches!(self.pacing, Pacing::Blind(_)) {
            self.recorder.send(intended_ns, room_ns, now_ns);
            connection.blocked = connection.unsent_bytes() >= BLIND_BYTES_MAX;
        } else {
            connection.in_flight.push_back(InFlight { pending, intended_ns, room_ns, sent_ns: 0 });
            self.in_flight += 1;
        }
        if connection.has_room(depth) {
            connection.queued = true;
            // A closed loop fills a connection before it goes to the next; by a schedule they take turns.
            if matches!(self.pacing, Pacing::Closed) {
                self.ready[list].push_front(index);
            } else {
                self.ready[list].push_back(index);
            }
        }
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(index);
        }
        true
    }

    /// Stands a connection with room in its list.
    fn queue(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        if connection.queued || !connection.has_room(self.settings.depth) {
            return;
        }
        connection.queued = true;
        let list = if self.settings.routed { connection.target } else { 0 };
        if self.ready[list].is_empty() {
            self.room_ns[list] = now_ns;
        }
        self.ready[list].push_back(index as u32);
    }

    // --- bytes out ---

    fn flush(&mut self) {
        while let Some(index) = self.dirty.pop() {
            self.connections[index as usize].dirty = false;
            self.send(index as usize);
        }
    }

    fn send(&mut self, index: usize) {
        let now_ns = self.net.now_ns();
        let connection = &mut self.connections[index];
        if !matches!(connection.state, State::Up | State::Greeting) || connection.unsent_bytes() == 0 {
            return;
        }
        let is_up = connection.state == State::Up;
        let closed = matches!(self.pacing, Pacing::Closed);
        for request in connection.in_flight.range_mut(connection.stamped..) {
            request.sent_ns = now_ns;
            if is_up {
                if closed {
                    (request.intended_ns, request.room_ns) = (now_ns, now_ns);
                }
                self.recorder.send(request.intended_ns, request.room_ns, now_ns);
            }
        }
        connection.stamped = connection.in_flight.len();
        match self.net.send(index, &connection.out[connection.out_begin..]) {
            Moved::Bytes(bytes) => {
                connection.sent(bytes);
                connection.blocked = connection.unsent_bytes() > 0;
                self.recorder.bytes_out(now_ns, bytes as u64);
                self.queue(index, now_ns);
            }
            Moved::Blocked => connection.blocked = true,
            Moved::Closed => self.lose(index, now_ns, "closed-by-server", "it closed while requests were sent"),
            Moved::Broken(error) => self.lose(index, now_ns, fault_name(&error), &error.to_string()),
        }
    }

    // --- events ---

    fn handle(&mut self, event: Event) {
        let index = event.connection;
        match self.connections[index].state {
            State::Waiting => {}
            State::Connecting => {
                if event.writable {
                    let made = self.net.finish_connect(index);
                    let now_ns = self.net.now_ns();
                    self.connect_went(index, made, now_ns);
                }
            }
            State::Greeting | State::Up => {
                if event.writable {
                    self.connections[index].blocked = false;
                    self.send(index);
                }
                if event.readable {
                    self.receive(index);
                }
                if event.writable {
                    let now_ns = self.net.now_ns();
                    self.queue(index, now_ns);
                }
            }
        }
    }

    fn receive(&mut self, index: usize) {
        if !matches!(self.connections[index].state, State::Greeting | State::Up) {
            return;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..RECEIVES_MAX {
            let moved = self.net.receive(index, &mut buffer);
            let now_ns = self.net.now_ns();
            match moved {
                Moved::Bytes(bytes) => {
                    self.recorder.bytes_in(now_ns, bytes as u64);
                    if !matches!(self.pacing, Pacing::Blind(_)) || self.connections[index].state == State::Greeting {
                        self.take(index, &buffer[..bytes], now_ns);
                    }
                    let is_open = matches!(self.connections[index].state, State::Greeting | State::Up);
                    if bytes == buffer.len() && is_open {
                        continue;
                    }
                }
                Moved::Blocked => {}
                Moved::Closed => self.lose(index, now_ns, "closed-by-server", "it closed the connection"),
                Moved::Broken(error) => self.lose(index, now_ns, fault_name(&error), &error.to_string()),
            }
            break;
        }
        self.buffer = buffer;
    }

    /// Reads answers out of what was kept and what has come.
    fn take(&mut self, index: usize, come: &[u8], now_ns: u64) {
        let mut kept = std::mem::take(&mut self.connections[index].kept);
        let had_kept = !kept.is_empty();
        if had_kept {
            kept.extend_from_slice(come);
        }
        let bytes = if had_kept { &kept[..] } else { come };
        match self.match_answers(index, bytes, now_ns) {
            Ok(used) => {
                let rest = bytes.len() - used;
                if rest > KEPT_BYTES_MAX {
                    let message = format!("{rest} bytes of an answer came, and it did not end");
                    return self.lose(index, now_ns, "garbage", &message);
                }
                if had_kept {
                    kept.drain(..used);
                } else {
                    kept.extend_from_slice(&come[used..]);
                }
                self.connections[index].kept = kept;
                self.answered(index, now_ns);
            }
            Err((at, what)) => {
                let seen = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 60)]).into_owned();
                self.lose(index, now_ns, "garbage", &format!("{what}: {seen:?}"));
            }
        }
    }

    /// How many of `bytes` belong to answers that are whole or under way; or where, and why, they are no answers.
    fn match_answers(&mut self, index: usize, bytes: &[u8], now_ns: u64) -> Result<usize, (usize, &'static str)> {
        let connection = &mut self.connections[index];
        let is_up = connection.state == State::Up;
        let mut used = 0;
        while used < bytes.len() {
            let Some(request) = connection.in_flight.front_mut().filter(|_| connection.stamped > 0) else {
                return Err((used, "bytes came that nothing had asked for"));
            };
            let (taken, progress) = self.traffic.answer(&mut request.pending, &bytes[used..]);
            used += taken;
            let (outcome, value_bytes) = match progress {
                Progress::More => break,
                Progress::Garbage(what) => return Err((used, what)),
                Progress::Done { outcome, value_bytes } => (outcome, value_bytes),
            };
            let request = *request;
            connection.in_flight.pop_front();
            connection.stamped -= 1;
            self.in_flight -= 1;
            if is_up {
                self.recorder.end(&Ended {
                    verb: request.pending.verb,
                    fate: Fate::from(outcome),
                    read_bytes: value_bytes,
                    written_bytes: request.pending.value_bytes,
                    intended_ns: request.intended_ns,
                    sent_ns: request.sent_ns,
                    ended_ns: now_ns,
                });
            } else if Fate::from(outcome).is_failure() {
                return Err((0, "what the connection said first was refused"));
            }
        }
        Ok(used)
    }

    /// After answers: the greeting may be over, there may be room, or it was only waited for to be closed.
    fn answered(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        if connection.in_flight.is_empty() {
            match connection.state {
                State::Greeting => return self.is_up(index, now_ns),
                State::Up if connection.closing => return self.close_on_purpose(index, now_ns),
                _ => {}
            }
        }
        self.queue(index, now_ns);
    }

    // --- connections ---

    fn make_connections(&mut self, now_ns: u64) {
        while self.storming || self.connecting < self.settings.connects_at_once_max {
            match self.to_make.peek() {
                Some(Reverse((from_ns, _))) if *from_ns <= now_ns => {}
                _ => break,
            }
            let Some(Reverse((_, index))) = self.to_make.pop() else { break };
            self.make(index as usize, now_ns);
        }
        self.storming &= self.up < self.connections.len();
    }

    fn make(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        debug_assert_eq!(connection.state, State::Waiting, "only a closed connection is made");
        connection.state = State::Connecting;
        connection.since_ns = now_ns;
        self.connecting += 1;
        let made = self.net.connect(index, connection.target);
        self.connect_went(index, made, now_ns);
    }

    fn connect_went(&mut self, index: usize, made: Connecting, now_ns: u64) {
        match made {
            Connecting::UnderWay => {}
            Connecting::Failed(error) => {
                let name = if error.kind() == std::io::ErrorKind::ConnectionRefused {
                    "connect-refused"
                } else {
                    "connect-failed"
                };
                self.lose(index, now_ns, name, &error.to_string());
            }
            Connecting::Done => {
                let connection = &mut self.connections[index];
                connection.state = State::Greeting;
                let greeting = self.traffic.greet(index, &mut connection.out);
                for pending in greeting {
                    let request = InFlight { pending, intended_ns: now_ns, room_ns: now_ns, sent_ns: now_ns };
                    connection.in_flight.push_back(request);
                    self.in_flight += 1;
                }
                if connection.in_flight.is_empty() {
                    self.is_up(index, now_ns);
                }
                self.send(index);
            }
        }
    }

    fn is_up(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        connection.state = State::Up;
        self.connecting -= 1;
        self.up += 1;
        self.recorder.connected(now_ns.saturating_sub(connection.since_ns));
        self.queue(index, now_ns);
    }

    /// Takes a connection down and lets it be made again from `from_ns` on.
    fn take_down(&mut self, index: usize, from_ns: u64) {
        let connection = &mut self.connections[index];
        match connection.state {
            State::Waiting => return,
            State::Connecting | State::Greeting => self.connecting -= 1,
            State::Up => self.up -= 1,
        }
        connection.reset();
        self.net.close(index);
        self.to_make.push(Reverse((from_ns, index as u32)));
    }

    fn close_on_purpose(&mut self, index: usize, now_ns: u64) {
        self.take_down(index, now_ns);
    }

    /// A connection broke: what was in flight on it is lost, and its time counts.
    fn lose(&mut self, index: usize, now_ns: u64, name: &str, what: &str) {
        let connection = &mut self.connections[index];
        let target = &self.settings.names[connection.target];
        self.recorder.fault(name, || format!("{target}: {what}"));
        self.lose_in_flight(index, now_ns);
        self.take_down(index, now_ns.saturating_add(self.settings.pause_ns).max(1));
    }

    fn lose_in_flight(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        let is_up = connection.state == State::Up;
        for (at, request) in connection.in_flight.drain(..).enumerate() {
            self.in_flight -= 1;
            if !is_up {
                continue;
            }
            let mut sent_ns = request.sent_ns;
            if at >= connection.stamped {
                self.recorder.send(request.intended_ns, request.room_ns, now_ns);
                sent_ns = now_ns;
            }
            self.recorder.end(&Ended {
                verb: request.pending.verb,
                fate: Fate::Lost,
                read_bytes: 0,
                written_bytes: request.pending.value_bytes,
                intended_ns: request.intended_ns,
                sent_ns,
                ended_ns: now_ns,
            });
        }
        connection.stamped = 0;
    }

    // --- upkeep ---

    fn upkeep(&mut self, now_ns: u64) {
        while now_ns >= self.next_slice_ns {
            self.hand_over_slice(now_ns);
            self.next_slice_ns = self.next_slice_ns.saturating_add(self.settings.slice_ns);
        }
        if now_ns >= self.next_tick_ns {
            self.next_tick_ns = now_ns + self.tick_ns;
            self.look_for_timeouts(now_ns);
        }
        if now_ns >= self.next_storm_ns && now_ns < self.end_ns {
            self.next_storm_ns = self.next_storm_ns.saturating_add(self.settings.storm_every_ns);
            self.storm(now_ns);
        }
        while now_ns >= self.next_reconnect_ns && now_ns < self.end_ns {
            self.next_reconnect_ns = self.next_reconnect_ns.saturating_add(self.settings.reconnect_every_ns);
            self.close_next(now_ns);
        }
        if now_ns < self.end_ns {
            self.make_connections(now_ns);
        }
    }

    fn hand_over_slice(&mut self, now_ns: u64) {
        let due_ns = self.next_due_ns();
        let rate_per_s = match &self.pacing {
            Pacing::Open(intents) | Pacing::Blind(Some(intents)) => intents.rate_per_s(),
            Pacing::Closed | Pacing::Blind(None) => 0.0,
        };
        let slice = &mut self.recorder.slice;
        let number = slice.number;
        slice.rate_per_s = rate_per_s;
        slice.behind_ns = if matches!(self.pacing, Pacing::Blind(None)) { 0 } else { now_ns.saturating_sub(due_ns) };
        slice.in_flight = self.in_flight as u64;
        slice.connections = self.up as u64;
        let whole = std::mem::take(slice);
        slice.number = number + 1;
        if let Some(slices) = &self.slices
            && slices.try_send(whole).is_err()
        {
            self.recorder.fault("slice-lost", || "the timeline was not taken up in time".to_owned());
        }
    }

    fn look_for_timeouts(&mut self, now_ns: u64) {
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            match connection.state {
                State::Waiting => {}
                State::Connecting | State::Greeting => {
                    if now_ns.saturating_sub(connection.since_ns) > self.settings.connect_timeout_ns {
                        self.lose(index, now_ns, "connect-timeout", "it did not take the connection in time");
                    }
                }
                State::Up => {
                    let oldest_ns = connection.in_flight.front().map_or(u64::MAX, |request| request.sent_ns);
                    if connection.stamped > 0 && now_ns.saturating_sub(oldest_ns) > self.settings.timeout_ns {
                        self.lose(index, now_ns, "timeout", "it did not answer in time");
                    }
                }
            }
        }
    }

    fn storm(&mut self, now_ns: u64) {
        self.storming = true;
        for index in 0..self.connections.len() {
            self.close_when_idle(index, now_ns);
        }
    }

    /// Closes the next connection that is up, so that all have their turn.
    fn close_next(&mut self, now_ns: u64) {
        for _ in 0..self.connections.len() {
            let index = self.reconnect_at;
            self.reconnect_at = (index + 1) % self.connections.len();
            if self.connections[index].state == State::Up && !self.connections[index].closing {
                return self.close_when_idle(index, now_ns);
            }
        }
    }

    fn close_when_idle(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        if connection.state != State::Up {
            return;
        }
        connection.closing = true;
        if connection.in_flight.is_empty() {
            self.close_on_purpose(index, now_ns);
        }
    }

    // --- the end ---

    fn is_over(&self, now_ns: u64) -> bool {
        if !self.started {
            return false;
        }
        let nothing_left = self.is_exhausted();
        if now_ns < self.end_ns {
            return nothing_left && self.in_flight == 0 && !self.traffic.has_follow_up();
        }
        if matches!(self.pacing, Pacing::Blind(_)) {
            return true;
        }
        let behind = !nothing_left && self.next_due_ns() != u64::MAX;
        let idle = self.in_flight == 0 && !behind && !self.traffic.has_follow_up();
        idle || now_ns >= self.end_ns.saturating_add(self.settings.drain_ns)
    }

    /// Gives up what is under way, and returns the figures, the traffic and the net.
    pub fn finish(mut self) -> (Snapshot, T, N) {
        let now_ns = self.net.now_ns();
        for index in 0..self.connections.len() {
            let waiting = self.connections[index].in_flight.len();
            if waiting > 0 && self.connections[index].state == State::Up {
                let target = &self.settings.names[self.connections[index].target];
                self.recorder.fault("unanswered-at-end", || format!("{target}: {waiting} requests on a connection"));
            }
            self.lose_in_flight(index, now_ns);
            if self.connections[index].state != State::Waiting {
                self.net.close(index);
            }
        }
        if let Pacing::Open(_) | Pacing::Blind(Some(_)) = &self.pacing {
            self.give_up_what_is_due(now_ns);
        }
        if now_ns < self.end_ns {
            self.recorder.cut(now_ns);
        }
        if self.started {
            self.hand_over_slice(now_ns);
        }
        (self.recorder.finish(), self.traffic, self.net)
    }

    fn give_up_what_is_due(&mut self, now_ns: u64) {
        while self.left > 0 && !self.traffic.is_exhausted() {
            let due_ns = self.next_due_ns();
            if due_ns >= now_ns {
                break;
            }
            if let Pacing::Open(intents) | Pacing::Blind(Some(intents)) = &mut self.pacing {
                intents.take_ns();
            }
            self.recorder.give_up(due_ns, now_ns);
            self.left -= 1;
        }
    }
}

fn fault_name(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::ConnectionReset => "reset-by-server",
        std::io::ErrorKind::BrokenPipe => "closed-by-server",
        std::io::ErrorKind::TimedOut => "network-timeout",
        _ => "broken",
    }
}
