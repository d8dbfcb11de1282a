//! A simulation: one unmodified worker, with a network and a clock that follow from a seed.

pub mod bystander;

use base::clock::UnixMillis;
use command::clients::endpoint::Endpoint;
use command::visit::clock::Clock;
use gannet_server::handover::ReceivedConnection;
use gannet_server::shared::Shared;
use gannet_server::start::{ServerConfig, assemble};
use gannet_server::worker::{EVENTS_MAX, Worker, WorkerParts};
use io::sim::{Faults, Sim, SimClient, SimDialler, SimStream};
use segment::Background;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};

/// The time at which the simulation begins, in Unix ns.
pub const START_NS: u64 = 1_700_000_000_000_000_000;

pub struct World {
    pub worker: Worker<Sim>,
    pub background: Background,
    #[allow(dead_code, reason = "not every test binary reads the shared state")]
    pub shared: Arc<Shared>,
    dialler: SimDialler,
    intake: SyncSender<ReceivedConnection<SimStream>>,
    pub clock_ns: Arc<AtomicU64>,
}

impl World {
    pub fn new(seed: u64, faults: Faults, config: ServerConfig) -> Self {
        let clock_ns = Arc::new(AtomicU64::new(START_NS));
        let sessions_max = config.connections_max;
        let (shared, background) = assemble(config, UnixMillis(START_NS / 1_000_000)).expect("a store");
        let io = Sim::new(seed, faults, Arc::clone(&clock_ns), EVENTS_MAX);
        let (dialler, (intake, receiver)) = (io.dialler(), sync_channel(sessions_max));
        let handle = shared.store.handle().expect("the first lane");
        let clock = Clock::Simulated(Arc::clone(&clock_ns));
        let parts =
            WorkerParts { io, handle, shared: Arc::clone(&shared), number: 0, intake: receiver, clock, sessions_max };
        Self { worker: Worker::new(parts), background, shared, dialler, intake, clock_ns }
    }

    /// Connects a client to a listener with this protocol and namespace.
    pub fn connect(&self, endpoint: impl Into<Endpoint>) -> SimClient {
        let (client, stream) = self.dialler.connect();
        self.intake.send((stream, endpoint.into()).into()).expect("room in the intake");
        client
    }

    /// Returns the number of bytes that the worker has received on all connections.
    #[allow(dead_code, reason = "not every test binary asks")]
    pub fn received_bytes(&self) -> u64 {
        self.dialler.received_bytes()
    }

    /// Returns the number of the worker's sends on all connections.
    #[allow(dead_code, reason = "not every test binary asks")]
    pub fn sends(&self) -> u64 {
        self.dialler.sends()
    }

    /// Runs an iteration of the worker and a short slice of background work.
    pub fn guard(&mut self) {
        assert!(self.worker.iterate(), "the worker does not stop by itself");
        let mut steps = 0;
        let now = UnixMillis(self.clock_ns.load(Relaxed) / 1_000_000);
        self.background.slice(now, &mut || {
            steps += 1;
            steps > 8
        });
    }

    #[allow(dead_code, reason = "not every test binary skips iterations")]
    pub fn iterations(&mut self, count: usize) {
        (0..count).for_each(|_| self.guard());
    }
}
