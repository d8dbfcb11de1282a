//! A server in this process with one worker, a simulated network and a simulated clock, and clients that drive it.

use super::table::{BystanderCase, Wire, line};
use crate::common;
use crate::sim::World;
use command::clients::endpoint::Protocol;
use gannet_server::start::ServerConfig;
use io::sim::{Faults, SimClient};
use std::sync::atomic::Ordering::Relaxed;

/// The default number of keys and fields. A server with more of them gets more memory.
pub const SCALE: usize = 30_000;

/// Returns the protocol of a command.
pub fn protocol(entry: &BystanderCase) -> Protocol {
    match entry.wire {
        Wire::Resp => Protocol::Resp,
        Wire::Memcache => Protocol::Memcache,
    }
}

pub struct Lab {
    pub world: World,
    /// The number of keys and fields for commands that walk over all of them.
    pub scale: usize,
}

impl Lab {
    pub fn new(scale: usize) -> Self {
        let config = ServerConfig {
            connections_max: 512,
            memory_bytes: if scale > SCALE { 4 << 30 } else { 512 << 20 },
            item_bytes_max: 128 << 20,
            segment_bytes: Some(1 << 20),
            ..common::config()
        };
        Self { world: World::new(1, Faults::NONE, config), scale }
    }

    /// Runs one iteration of the worker's event loop. Never inlined, because the gate counts the instructions of this
    /// function by its name.
    #[inline(never)]
    pub fn worker_iteration(&mut self) {
        assert!(self.world.worker.iterate(), "the worker does not stop by itself");
    }

    /// Runs an iteration of the worker and a slice of background work.
    pub fn iterate(&mut self) {
        self.worker_iteration();
        self.run_background();
    }

    /// Runs a slice of background work.
    pub fn run_background(&mut self) {
        let now = base::clock::UnixMillis(self.world.clock_ns.load(Relaxed) / 1_000_000);
        let mut steps = 0;
        self.world.background.slice(now, &mut || {
            steps += 1;
            steps > 8
        });
    }

    /// Sends two requests and waits for the reply to the second request.
    pub fn drive(&mut self, client: &SimClient, first: &[u8], second: &[u8], end: &[u8]) {
        client.send(first);
        client.send(second);
        let mut got = Vec::new();
        for _ in 0..1_000_000 {
            self.iterate();
            got.extend(client.take(usize::MAX));
            if got.ends_with(end) {
                return;
            }
        }
        panic!("no answer: {}", got[..got.len().min(300)].escape_ascii());
    }

    pub fn fill(&mut self, requests: &[Vec<u8>]) {
        let client = self.world.connect(Protocol::Resp);
        for batch in requests.chunks(500) {
            self.drive(&client, &batch.concat(), &line("PING"), b"+PONG\r\n");
        }
        client.close_send();
    }
}
