//! A client that other clients must not delay.
#![allow(dead_code, reason = "not every test binary has a bystander")]

use super::World;
use command::clients::endpoint::Protocol;
use io::sim::SimClient;

/// The maximum number of iterations until the bystander gets its reply.
pub const LATE_MAX: u64 = 2;

const REQUEST: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Returns the CPU time of this thread, in ns.
pub fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A client that sends a `PING` as soon as the previous `PING` is answered.
pub struct Bystander {
    pub client: SimClient,
    asked: Option<u64>,
    pub late_max: u64,
    pub answers: u64,
}

impl Bystander {
    /// Connects to the server, and waits for a first reply.
    pub fn new(world: &mut World) -> Self {
        let client = world.connect(Protocol::Resp);
        client.send(REQUEST);
        while client.take(usize::MAX).is_empty() {
            world.guard();
        }
        Self { client, asked: None, late_max: 0, answers: 0 }
    }

    /// Sends a `PING` before an iteration of the worker, unless one is not answered.
    pub fn ask(&mut self, iteration: u64) {
        if self.asked.is_none() {
            self.client.send(REQUEST);
            self.asked = Some(iteration);
        }
    }

    /// Receives the reply after an iteration of the worker.
    pub fn listen(&mut self, iteration: u64) {
        let Some(asked) = self.asked else { return };
        self.late_max = self.late_max.max(iteration - asked);
        if !self.client.take(usize::MAX).is_empty() {
            self.asked = None;
            self.answers += 1;
        }
    }
}
