//! A simulated clock and server; only the delays of the script take time.

use super::script::GARBAGE;
use super::{Misconduct, OneKeyRequests, Script};
use crate::engine::net::{Connecting, Net, NetEvent};
use crate::engine::{Config, Control, Error};
use crate::measure::Snapshot;
use crate::traffic::Traffic;
use link::Moved;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// An event that a connection receives at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Delivery {
    Answer,
    Garbage,
    Close,
}

/// Instant, order of the requests, connection, the connection's generation, and the event.
type UnderWay = (u64, u64, usize, u64, Delivery);

#[derive(Debug, Default)]
struct Link {
    /// Generation of the connection; deliveries to an earlier generation are ignored.
    life: u64,
    is_open: bool,
    /// Instant at which the last reply is due; the next reply is not due earlier.
    last_due_ns: u64,
    silent: bool,
    /// Bytes of replies that are ready, and the reader's offset within a reply.
    ready_bytes: usize,
    inside_bytes: usize,
    garbage: bool,
    closed: bool,
}

/// Connections to one simulated server.
#[derive(Debug)]
pub struct SimNet {
    now_ns: u64,
    script: Script,
    answer: Vec<u8>,
    links: Vec<Link>,
    /// Pending deliveries.
    under_way: BinaryHeap<Reverse<UnderWay>>,
    order: u64,
    number: u64,
    /// Number of sends, by the number of requests in a send.
    sends: BTreeMap<usize, u64>,
    free_ns: u64,
    /// Delay with which a wait without an event ends, in nanoseconds.
    oversleep_ns: u64,
    /// Highest number of connections that the server accepts; it refuses further ones.
    connections_max: usize,
}

impl SimNet {
    /// Creates a server that behaves by `script` and replies to [`OneKeyRequests`] with values of `value_bytes` bytes.
    pub fn new(script: Script, value_bytes: usize, connections: usize) -> Self {
        Self {
            now_ns: 0,
            script,
            answer: OneKeyRequests::answer_of(value_bytes),
            links: (0..connections).map(|_| Link::default()).collect(),
            under_way: BinaryHeap::new(),
            order: 0,
            number: 0,
            sends: BTreeMap::new(),
            free_ns: 0,
            oversleep_ns: 0,
            connections_max: usize::MAX,
        }
    }

    /// Returns the net with a clock whose waits end `oversleep_ns` late.
    #[must_use]
    pub const fn with_oversleep(mut self, oversleep_ns: u64) -> Self {
        self.oversleep_ns = oversleep_ns;
        self
    }

    /// Returns the net with at most `connections_max` accepted connections.
    #[must_use]
    pub const fn with_connections_max(mut self, connections_max: usize) -> Self {
        self.connections_max = connections_max;
        self
    }

    /// Returns the number of requests that reached the server.
    pub const fn requests(&self) -> u64 {
        self.number
    }

    /// Returns the number of sends, by the number of requests in a send.
    pub const fn sends(&self) -> &BTreeMap<usize, u64> {
        &self.sends
    }

    fn deliver(&mut self, at_ns: u64, connection: usize, what: Delivery) {
        self.order += 1;
        let life = self.links[connection].life;
        self.under_way.push(Reverse((at_ns, self.order, connection, life, what)));
    }

    fn request(&mut self, connection: usize) {
        let number = self.number;
        self.number += 1;
        self.free_ns = self.script.answer_ns(self.now_ns, self.free_ns, number);
        let link = &mut self.links[connection];
        let due_ns = self.free_ns.max(link.last_due_ns);
        link.last_due_ns = due_ns;
        let wrong = self.script.misconduct_at(number);
        link.silent |= wrong == Some(Misconduct::Silence);
        if link.silent {
            return;
        }
        let what = match wrong {
            Some(Misconduct::Close) => Delivery::Close,
            Some(Misconduct::Garbage) => Delivery::Garbage,
            _ => Delivery::Answer,
        };
        self.deliver(due_ns, connection, what);
    }

    /// Moves the due deliveries to `events`.
    fn take_due(&mut self, events: &mut Vec<NetEvent>) {
        while let Some(Reverse((at_ns, _, connection, life, what))) = self.under_way.peek().copied() {
            if at_ns > self.now_ns {
                break;
            }
            self.under_way.pop();
            let link = &mut self.links[connection];
            if link.life != life || !link.is_open {
                continue;
            }
            match what {
                Delivery::Answer => link.ready_bytes += self.answer.len(),
                Delivery::Garbage => link.garbage = true,
                Delivery::Close => link.closed = true,
            }
            if !events.iter().any(|event| event.connection == connection) {
                events.push(NetEvent { connection, readable: true, writable: false });
            }
        }
    }
}

impl Net for SimNet {
    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn connect(&mut self, connection: usize, _target: usize) -> Connecting {
        if self.links.iter().filter(|link| link.is_open).count() >= self.connections_max {
            return Connecting::Failed(std::io::ErrorKind::ConnectionRefused.into());
        }
        let life = self.links[connection].life + 1;
        self.links[connection] = Link { life, is_open: true, ..Link::default() };
        Connecting::Done
    }

    fn finish_connect(&mut self, _connection: usize) -> Connecting {
        Connecting::Done
    }

    fn send(&mut self, connection: usize, bytes: &[u8]) -> Moved {
        if !self.links[connection].is_open {
            return Moved::Closed;
        }
        let requests = bytes.iter().filter(|byte| **byte == b'\n').count();
        *self.sends.entry(requests).or_default() += 1;
        for _ in 0..requests {
            self.request(connection);
        }
        Moved::Bytes(bytes.len())
    }

    fn receive(&mut self, connection: usize, into: &mut [u8]) -> Moved {
        let link = &mut self.links[connection];
        if link.ready_bytes == 0 {
            return match (link.garbage, link.closed) {
                (true, _) => {
                    link.garbage = false;
                    into[..GARBAGE.len()].copy_from_slice(GARBAGE);
                    Moved::Bytes(GARBAGE.len())
                }
                (false, true) => Moved::Closed,
                (false, false) => Moved::Blocked,
            };
        }
        let length = into.len().min(link.ready_bytes);
        let mut filled = 0;
        while filled < length {
            let from = link.inside_bytes;
            let step = (self.answer.len() - from).min(length - filled);
            into[filled..filled + step].copy_from_slice(&self.answer[from..from + step]);
            filled += step;
            link.inside_bytes = (from + step) % self.answer.len();
        }
        link.ready_bytes -= length;
        Moved::Bytes(length)
    }

    fn close(&mut self, connection: usize) {
        self.links[connection].is_open = false;
    }

    fn wait(&mut self, until_ns: u64, events: &mut Vec<NetEvent>) -> std::io::Result<()> {
        events.clear();
        let next_ns = self.under_way.peek().map_or(u64::MAX, |Reverse((at_ns, ..))| *at_ns);
        if until_ns > self.now_ns {
            self.now_ns = if next_ns <= until_ns { next_ns.max(self.now_ns) } else { until_ns + self.oversleep_ns };
        }
        self.take_due(events);
        Ok(())
    }
}

/// Runs `config` on one thread in simulated time against `net`. The targets of `config` are only names.
///
/// # Errors
/// If the configuration is invalid, or if `net` accepts no connection.
pub fn simulate<T: Traffic>(
    net: SimNet,
    config: &Config,
    traffic: T,
    control: &Control,
) -> Result<(Snapshot, SimNet), Error> {
    crate::engine::join::run_on(net, config, traffic, control)
}

/// Runs only the sampler of `config` in simulated time against `net`. The script's behaviour depends only on time. So
/// together with [`simulate`] and the same script, this acts as the second stream to one server, if that server handles
/// any number of requests at once.
///
/// # Errors
/// As for [`simulate`]; also if `config` has no sampler.
pub fn simulate_sampler<T: Traffic>(
    net: SimNet,
    config: &Config,
    traffic: T,
    control: &Control,
) -> Result<(Snapshot, SimNet), Error> {
    crate::engine::join::run_sampler_on(net, config, traffic, control)
}

#[cfg(test)]
mod tests;
