//! Connections in memory whose faults follow from a seed.
//!
//! ```text
//!   SimClient ── send: cut into fragments, each with a delay ──> arrived ── receive ──> worker
//!   SimClient <── take ── bytes in flight, within a window <── send: may be cut short or blocked ── worker
//! ```
//!
//! The back end has the guarantees of a real back end. Events are edges, one for each arrival. A receive that does not
//! fill its buffer has taken all arrived bytes. After a blocked send, an event follows once there is room, if the owner
//! requested the event. The seed decides everything else: fragments, delays, spurious events, the order of events, and
//! where sends are cut. Time is a number that [`Backend::wait`] advances.

use crate::{Backend, Detached, IoEvent, Received, Sent, Token};
use base::prng::Prng;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The rates and limits of the simulated network's faults.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Maximum length in bytes of the fragments in which bytes arrive.
    pub fragment_bytes_max: usize,
    /// Maximum delay of a fragment, in nanoseconds.
    pub delay_ns_max: u64,
    /// Maximum number of bytes in flight to a client. Further sends are blocked.
    pub window_bytes: usize,
    /// Number of sends per 1000 that are cut short although there is room.
    pub short_sends: u64,
    /// Number of waits per 1000 that report a connection without any change.
    pub idle_events: u64,
}

impl Faults {
    /// A network without faults.
    pub const NONE: Self = Self {
        fragment_bytes_max: usize::MAX,
        delay_ns_max: 0,
        window_bytes: usize::MAX,
        short_sends: 0,
        idle_events: 0,
    };
}

/// A connection with both its ends.
#[derive(Default)]
struct SimWire {
    token: Option<Token>,
    /// Fragments in flight to the server, with their times of arrival in ns. An empty fragment is the end of the
    /// stream.
    coming: VecDeque<(u64, Vec<u8>)>,
    arrived: VecDeque<u8>,
    ended: bool,
    reset: bool,
    /// Bytes that the client has not taken yet.
    to_client: Vec<u8>,
    server_closed: bool,
    want_writable: bool,
    edge_in: bool,
    edge_out: bool,
}

struct Net {
    prng: Prng,
    faults: Faults,
    clock_ns: Arc<AtomicU64>,
    wires: Vec<SimWire>,
    received_bytes: u64,
    sends: u64,
}

/// The network and the server's side of it.
pub struct Sim {
    net: Rc<RefCell<Net>>,
    events_max: usize,
}

/// The server's end of one connection.
#[derive(Debug)]
pub struct SimStream(usize);

/// The client's end of one connection.
pub struct SimClient {
    net: Rc<RefCell<Net>>,
    wire: usize,
}

impl Sim {
    /// Creates a network whose faults all follow from `seed`, and whose time is `clock_ns`.
    pub fn new(seed: u64, faults: Faults, clock_ns: Arc<AtomicU64>, events_max: usize) -> Self {
        let net = Net { prng: Prng::new(seed), faults, clock_ns, wires: Vec::new(), received_bytes: 0, sends: 0 };
        Self { net: Rc::new(RefCell::new(net)), events_max }
    }

    /// Returns an object that opens connections to the server of this back end.
    pub fn dialler(&self) -> SimDialler {
        SimDialler { net: Rc::clone(&self.net) }
    }
}

/// An object that opens connections.
pub struct SimDialler {
    net: Rc<RefCell<Net>>,
}

impl SimDialler {
    /// Opens a connection. Returns the client's end, and the server's end for a worker.
    pub fn connect(&self) -> (SimClient, SimStream) {
        let mut net = self.net.borrow_mut();
        net.wires.push(SimWire::default());
        let wire = net.wires.len() - 1;
        (SimClient { net: Rc::clone(&self.net), wire }, SimStream(wire))
    }

    /// Returns the number of bytes that the server has received over all connections.
    pub fn received_bytes(&self) -> u64 {
        self.net.borrow().received_bytes
    }

    /// Returns the number of the server's sends over all connections that sent something.
    pub fn sends(&self) -> u64 {
        self.net.borrow().sends
    }

    /// Returns true if a worker has nothing to wait for: no byte is in flight to it and no event is due.
    pub fn is_quiet(&self) -> bool {
        let net = self.net.borrow();
        net.wires.iter().all(|wire| wire.coming.is_empty() && !wire.edge_in && !wire.edge_out)
    }
}

impl SimClient {
    /// Sends `bytes`. They arrive later, in order and in fragments.
    pub fn send(&self, bytes: &[u8]) {
        let net = &mut *self.net.borrow_mut();
        let mut rest = bytes;
        while !rest.is_empty() {
            let longest = net.faults.fragment_bytes_max.min(rest.len()) as u64;
            let (fragment, behind) = rest.split_at(1 + net.prng.below(longest) as usize);
            net.launch(self.wire, fragment.to_vec());
            rest = behind;
        }
    }

    /// Ends the client's sending side.
    pub fn close_send(&self) {
        self.net.borrow_mut().launch(self.wire, Vec::new());
    }

    /// Resets the connection at once and discards all bytes in flight to the server.
    pub fn reset(&self) {
        let net = &mut *self.net.borrow_mut();
        let wire = &mut net.wires[self.wire];
        wire.reset = true;
        wire.edge_in = wire.token.is_some();
        wire.coming.clear();
        wire.arrived.clear();
    }

    /// Takes at most `bytes_max` of the bytes that the server has sent.
    pub fn take(&self, bytes_max: usize) -> Vec<u8> {
        let net = &mut *self.net.borrow_mut();
        let wire = &mut net.wires[self.wire];
        let taken: Vec<u8> = wire.to_client.drain(..bytes_max.min(wire.to_client.len())).collect();
        wire.edge_out |= wire.want_writable && !taken.is_empty();
        taken
    }

    /// Returns true if the server has closed this connection or ended its sending side.
    pub fn is_closed(&self) -> bool {
        self.net.borrow().wires[self.wire].server_closed
    }
}

impl Net {
    fn now_ns(&self) -> u64 {
        self.clock_ns.load(Relaxed)
    }

    fn launch(&mut self, wire: usize, fragment: Vec<u8>) {
        let delay_ns = self.prng.below(self.faults.delay_ns_max.saturating_add(1).max(1));
        let earliest = self.wires[wire].coming.back().map_or(0, |(at, _)| *at);
        let at = (self.now_ns() + delay_ns).max(earliest);
        self.wires[wire].coming.push_back((at, fragment));
    }

    /// Delivers the fragments that are due.
    fn arrive(&mut self) {
        let now_ns = self.now_ns();
        for wire in &mut self.wires {
            while wire.coming.front().is_some_and(|(at, _)| *at <= now_ns) {
                let Some((_, fragment)) = wire.coming.pop_front() else { break };
                wire.ended |= fragment.is_empty();
                wire.arrived.extend(fragment);
                wire.edge_in = true;
            }
        }
    }

    fn next_arrival_ns(&self) -> Option<u64> {
        self.wires.iter().filter_map(|wire| wire.coming.front().map(|(at, _)| *at)).min()
    }

    /// Moves edges into `events`, in an order that the seed decides.
    fn report(&mut self, events: &mut Vec<IoEvent>, events_max: usize) {
        let count = self.wires.len();
        if count == 0 {
            return;
        }
        let first = self.prng.below(count as u64) as usize;
        for step in 0..count {
            if events.len() == events_max {
                return;
            }
            let idle = self.prng.chance(self.faults.idle_events, 1000 * count as u64);
            let wire = &mut self.wires[(first + step) % count];
            let Some(token) = wire.token else { continue };
            let writable = (wire.edge_out && wire.want_writable) || wire.reset;
            if wire.edge_in || (wire.edge_out && wire.want_writable) || idle {
                let hangup = wire.ended || wire.reset;
                events.push(IoEvent { token, readable: wire.edge_in || idle, writable, hangup });
                (wire.edge_in, wire.edge_out) = (false, wire.edge_out && !writable);
            }
        }
    }
}

impl Backend for Sim {
    type Stream = SimStream;

    fn peer(_: &SimStream) -> Option<std::net::SocketAddr> {
        None
    }

    fn descriptor(_: &SimStream) -> Option<u32> {
        None
    }

    fn local(_: &SimStream) -> Option<std::net::SocketAddr> {
        None
    }

    fn attach(&mut self, stream: &SimStream, token: Token) -> std::io::Result<()> {
        let net = &mut *self.net.borrow_mut();
        let wire = &mut net.wires[stream.0];
        assert!(wire.token.is_none(), "attached twice");
        wire.token = Some(token);
        wire.edge_in = !wire.arrived.is_empty() || wire.ended || wire.reset;
        Ok(())
    }

    fn close(&mut self, stream: SimStream) {
        let net = &mut *self.net.borrow_mut();
        let wire = &mut net.wires[stream.0];
        (wire.token, wire.server_closed) = (None, true);
        (wire.edge_in, wire.edge_out) = (false, false);
        wire.coming.clear();
    }

    fn detach(&mut self, streams: Vec<SimStream>) -> Vec<Option<Detached<SimStream>>> {
        let net = &mut *self.net.borrow_mut();
        let take = |stream: SimStream| {
            let wire = &mut net.wires[stream.0];
            (wire.token, wire.edge_in, wire.edge_out) = (None, false, false);
            (!wire.reset).then(|| Detached { stream, received: Vec::new(), unsent: Vec::new() })
        };
        streams.into_iter().map(take).collect()
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<IoEvent>) -> std::io::Result<()> {
        let net = &mut *self.net.borrow_mut();
        events.clear();
        net.clock_ns.fetch_add(1_000, Relaxed);
        net.arrive();
        net.report(events, self.events_max);
        if !events.is_empty() {
            return Ok(());
        }
        let until_timeout = timeout.map(|timeout| net.now_ns() + timeout.as_nanos() as u64);
        let wake_ns = match (until_timeout, net.next_arrival_ns()) {
            (Some(timeout), Some(arrival)) => Some(timeout.min(arrival)),
            (one, other) => one.or(other),
        };
        if let Some(wake_ns) = wake_ns {
            net.clock_ns.fetch_max(wake_ns, Relaxed);
        }
        net.arrive();
        net.report(events, self.events_max);
        Ok(())
    }

    fn receive(&mut self, stream: &SimStream, into: &mut [u8]) -> Received {
        assert!(!into.is_empty(), "a receive into an empty buffer");
        let net = &mut *self.net.borrow_mut();
        let wire = &mut net.wires[stream.0];
        if wire.reset {
            return Received::Reset;
        }
        let bytes = into.len().min(wire.arrived.len());
        for (place, byte) in into.iter_mut().zip(wire.arrived.drain(..bytes)) {
            *place = byte;
        }
        net.received_bytes += bytes as u64;
        match bytes {
            0 if wire.ended => Received::Closed,
            0 => Received::Blocked,
            _ => Received::Bytes(bytes),
        }
    }

    fn send(&mut self, stream: &SimStream, parts: &[IoSlice<'_>]) -> Sent {
        let net = &mut *self.net.borrow_mut();
        let wire = &mut net.wires[stream.0];
        if wire.reset {
            return Sent::Reset;
        }
        let offered: usize = parts.iter().map(|part| part.len()).sum();
        assert!(offered > 0, "a send of no bytes");
        let mut taken = offered.min(net.faults.window_bytes.saturating_sub(wire.to_client.len()));
        if taken == 0 {
            return Sent::Blocked;
        }
        if net.prng.chance(net.faults.short_sends, 1000) {
            taken = 1 + net.prng.below(taken as u64) as usize;
        }
        net.sends += 1;
        let mut left = taken;
        for part in parts {
            let bytes = left.min(part.len());
            wire.to_client.extend_from_slice(&part[..bytes]);
            left -= bytes;
        }
        Sent::Bytes(taken)
    }

    fn want_writable(&mut self, stream: &SimStream, token: Token, want: bool) {
        let net = &mut *self.net.borrow_mut();
        let wire = &mut net.wires[stream.0];
        assert_eq!(wire.token, Some(token), "another connection's token");
        wire.want_writable = want;
        wire.edge_out = want && wire.to_client.len() < net.faults.window_bytes;
    }

    fn shutdown_send(&mut self, stream: &SimStream) {
        self.net.borrow_mut().wires[stream.0].server_closed = true;
    }

    fn submit(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAULTS: Faults =
        Faults { fragment_bytes_max: 5, delay_ns_max: 9_000, window_bytes: 7, short_sends: 500, idle_events: 100 };

    /// Echoes bytes through the back end. Returns the bytes that the client received, and the number of waits.
    fn echo(seed: u64, bytes: &[u8]) -> (Vec<u8>, usize) {
        let mut sim = Sim::new(seed, FAULTS, Arc::new(AtomicU64::new(0)), 8);
        let (client, stream) = sim.dialler().connect();
        let token = Token::new(3, 9);
        sim.attach(&stream, token).unwrap();
        client.send(bytes);
        let (mut held, mut got, mut events, mut waits) = (Vec::new(), Vec::new(), Vec::with_capacity(8), 0);
        sim.want_writable(&stream, token, true);
        while got.len() < bytes.len() {
            waits += 1;
            assert!(waits < 10_000, "an event was lost");
            sim.wait(Some(Duration::from_millis(1)), &mut events).unwrap();
            if events.iter().any(|event| event.readable) {
                let mut buffer = [0; 64];
                if let Received::Bytes(n) = sim.receive(&stream, &mut buffer) {
                    held.extend_from_slice(&buffer[..n]);
                }
            }
            if !held.is_empty()
                && let Sent::Bytes(n) = sim.send(&stream, &[IoSlice::new(&held)])
            {
                held.drain(..n);
            }
            got.extend(client.take(64));
        }
        (got, waits)
    }

    #[test]
    fn simulated_network_preserves_bytes_and_is_reproducible_by_seed() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut lengths = std::collections::HashSet::new();
        for seed in 0..20 {
            let (got, waits) = echo(seed, &bytes);
            assert_eq!(got, bytes, "seed {seed}");
            assert_eq!(echo(seed, &bytes).1, waits, "seed {seed}");
            lengths.insert(waits);
        }
        assert!(lengths.len() > 5, "the seeds do not differ");
    }
}
