//! Runs a whole server with random requests: both protocols, several connections, a clock that jumps, and restarts over
//! a memory file with other limits. Used by a test and a fuzz target.
//!
//! ```text
//!   bytes ──> Choices ──> step: a command of Redis | one of memcached | the clock | a client's accident | a restart
//!                           └──> World: one worker, its background, up to 6 clients on a simulated network
//! ```
//!
//! One input is one run. For every input, nothing panics (assertions and overflow checks are enabled). Once all clients
//! have disconnected, no session, buffer, pin or byte of client memory is in use.

#![allow(dead_code, reason = "the test and the fuzz target each use a part")]

mod choices;
pub mod commands;

use base::clock::UnixMillis;
use choices::Choices;
use command::clients::endpoint::Protocol;
use command::memory::budget::MemoryUse;
use command::visit::clock::Clock;
use gannet_server::shared::Shared;
use gannet_server::start::{ServerConfig, assemble};
use gannet_server::worker::{EVENTS_MAX, Worker, WorkerParts};
use io::sim::{Faults, Sim, SimClient, SimDialler};
use segment::Background;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};

const START_NS: u64 = 1_700_000_000_000_000_000;
/// The number of connections of each protocol.
const CLIENTS: usize = 3;
/// The maximum number of steps of one input.
const STEPS_MAX: usize = 600;
/// The maximum number of restarts of one input. Each restart opens a file.
const RESTARTS_MAX: usize = 2;
/// The number of iterations without a byte after which no further reply is expected.
const SILENT_TURNS: usize = 12;
/// A time longer than any wait of a request, in ns: a pause of a day, a sleep of an hour, the stall timeout.
const PATIENCE_NS: u64 = 2 * 86_400 * 1_000_000_000;

/// Counts of the events that a run has reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    pub resp: usize,
    pub memcache: usize,
    pub restarts: usize,
    pub reply_bytes: usize,
    pub errors: usize,
    /// The CPU time of the longest iteration of the worker, in ns.
    pub longest_ns: u64,
}

impl Reached {
    /// Returns the sum of the counts of two runs.
    pub fn and(self, other: Self) -> Self {
        Self {
            resp: self.resp + other.resp,
            memcache: self.memcache + other.memcache,
            restarts: self.restarts + other.restarts,
            reply_bytes: self.reply_bytes + other.reply_bytes,
            errors: self.errors + other.errors,
            longest_ns: self.longest_ns.max(other.longest_ns),
        }
    }
}

struct Client {
    end: SimClient,
    protocol: Protocol,
    /// True if the client does not read the replies.
    is_slow: bool,
    /// The received bytes, if the test needs them.
    taken: Option<Vec<u8>>,
}

/// One server, its clients, and its configuration.
struct World {
    worker: Worker<Sim>,
    background: Background,
    shared: Arc<Shared>,
    dialler: SimDialler,
    intake: SyncSender<gannet_server::handover::ReceivedConnection<io::sim::SimStream>>,
    clock_ns: Arc<AtomicU64>,
    clients: Vec<Client>,
    reached: Reached,
    /// Returns the CPU time of this thread, in ns.
    cpu_ns: fn() -> u64,
    /// The beginnings of the last requests.
    recent: VecDeque<String>,
}

/// The number of requests that are shown with a long iteration.
const RECENT_MAX: usize = 8;

/// The clock of a run that measures no CPU time.
fn unmeasured() -> u64 {
    0
}

fn config(file: Option<&Path>) -> ServerConfig {
    ServerConfig {
        graph_memory_bytes: 90 << 20,
        memory_bytes: 24 << 20,
        memory_bytes_max: 32 << 20,
        item_bytes_max: 4 << 20,
        segment_bytes: Some(256 << 10),
        connections_max: 2 * CLIENTS + 2,
        workers: 1,
        hash_seed: Some(7),
        huge_pages: false,
        debug_command: true,
        file: file.map(Path::to_owned),
        ..ServerConfig::default()
    }
}

impl World {
    fn new(config: ServerConfig, clock_ns: Arc<AtomicU64>, reached: Reached) -> Option<Self> {
        let now = UnixMillis(clock_ns.load(Relaxed) / 1_000_000);
        let sessions_max = config.connections_max;
        let (shared, background) = assemble(config, now).ok()?;
        let io = Sim::new(1, Faults::NONE, Arc::clone(&clock_ns), EVENTS_MAX);
        let (dialler, (intake, receiver)) = (io.dialler(), sync_channel(sessions_max));
        let handle = shared.store.handle().expect("the first lane");
        let clock = Clock::Simulated(Arc::clone(&clock_ns));
        let shared_too = Arc::clone(&shared);
        let worker = Worker::new(WorkerParts {
            io,
            handle,
            shared: shared_too,
            number: 0,
            intake: receiver,
            clock,
            sessions_max,
        });
        let (clients, cpu_ns, recent) = (Vec::new(), unmeasured, VecDeque::new());
        let mut world =
            Self { worker, background, shared, dialler, intake, clock_ns, clients, reached, cpu_ns, recent };
        (0..CLIENTS).for_each(|_| [Protocol::Resp, Protocol::Memcache].into_iter().for_each(|p| world.connect(p)));
        Some(world)
    }

    fn connect(&mut self, protocol: Protocol) {
        let (end, stream) = self.dialler.connect();
        self.intake.send((stream, protocol.into()).into()).expect("room in the intake");
        self.clients.push(Client { end, protocol, is_slow: false, taken: None });
    }

    /// Runs an iteration of the worker and a slice of background work. Returns the number of bytes that the clients
    /// have read.
    fn guard(&mut self) -> usize {
        let begun = (self.cpu_ns)();
        assert!(self.worker.iterate(), "the worker does not stop by itself");
        let ns = (self.cpu_ns)() - begun;
        if ns > self.reached.longest_ns {
            self.reached.longest_ns = ns;
            show(|| format!("an iteration of {} us after {:#?}", ns / 1000, self.recent));
        }
        // The survey thread and the thread that hashes passwords, which do not run here, execute jobs of workers.
        let threads = &self.shared.threads;
        while let Some(job) = threads.next_job().or_else(|| threads.next_hash()) {
            job();
        }
        let mut steps = 0;
        let now = UnixMillis(self.clock_ns.load(Relaxed) / 1_000_000);
        self.background.slice(now, &mut || {
            steps += 1;
            steps > 16
        });
        let mut bytes = 0;
        for client in self.clients.iter_mut().filter(|client| !client.is_slow) {
            let taken = client.end.take(usize::MAX);
            if let Some(all) = &mut client.taken {
                all.extend_from_slice(&taken);
            }
            bytes += taken.len();
            self.reached.errors += usize::from(taken.first() == Some(&b'-'));
        }
        self.reached.reply_bytes += bytes;
        bytes
    }

    /// Runs iterations until no further bytes arrive.
    fn settle(&mut self) {
        let mut silent = 0;
        while silent < SILENT_TURNS {
            // A long request sends nothing in most of its slices.
            silent = if self.guard() == 0 && !self.worker.is_busy() { silent + 1 } else { 0 };
        }
    }

    /// Replaces the connections that the server has closed.
    fn replace_closed(&mut self) {
        for number in (0..self.clients.len()).rev() {
            if self.clients[number].end.is_closed() {
                let client = self.clients.swap_remove(number);
                self.connect(client.protocol);
            }
        }
    }

    /// Ends all connections and asserts that nothing is held for them.
    fn finish(mut self) -> Reached {
        self.clients.iter_mut().for_each(|client| client.is_slow = false);
        for _ in 0..2 {
            self.settle();
            // This ends all waits for an instant, or for a client that sends nothing more.
            self.clock_ns.fetch_add(PATIENCE_NS, Relaxed);
        }
        self.clients.iter().for_each(|client| client.end.close_send());
        self.settle();
        // Some connections may still be open, because messages remain for them or because they sleep repeatedly.
        self.clients.iter().for_each(|client| client.end.reset());
        for _ in 0..2 {
            self.settle();
            self.clock_ns.fetch_add(PATIENCE_NS, Relaxed);
        }
        let held = (self.worker.sessions(), self.worker.buffers_lent());
        assert_eq!(held, (0, 0), "sessions and buffers are given back");
        let shared = &self.shared;
        assert_eq!((shared.pins.used(), shared.store.stats().pins), (0, 0), "pins and places are given back");
        for kind in MemoryUse::ALL.into_iter().filter(|kind| *kind != MemoryUse::Rules) {
            assert_eq!(shared.budget.used_by(kind), 0, "the client memory of {} is given back", kind.name());
        }
        assert_eq!(
            shared.budget.used(),
            shared.budget.used_by(MemoryUse::Rules),
            "what is used is the sum of all kinds"
        );
        self.reached
    }
}

/// A folder for the memory file of one run, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let root = Path::new("/dev/shm");
        let root = if root.is_dir() { root.to_owned() } else { std::env::temp_dir() };
        let name = format!("gannet-whole-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let folder = root.join(name);
        std::fs::create_dir_all(&folder).expect("a folder for the memory file");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Restarts the server over the same file with other limits. If these are refused, uses the previous limits.
fn restart(world: World, file: &Path, choices: &mut Choices<'_>) -> Option<World> {
    let World { worker, background, shared, clock_ns, mut reached, cpu_ns, recent, .. } = world;
    drop((worker, background, shared));
    reached.restarts += 1;
    let item_bytes_max = *choices.of(&[4 << 20, 1 << 20, 64 << 10, 1 << 10, 12 << 20])?;
    let memory_bytes = *choices.of(&[24 << 20, 24 << 20, 32 << 20, 16 << 20])?;
    let evict = choices.chance(3, 4)?;
    show(|| format!("restart with item_max {item_bytes_max}, memory {memory_bytes}, evict {evict}"));
    let other = ServerConfig { item_bytes_max, memory_bytes, evict, ..config(Some(file)) };
    let again =
        World::new(other, Arc::clone(&clock_ns), reached).or_else(|| World::new(config(Some(file)), clock_ns, reached));
    again.map(|again| World { cpu_ns, recent, ..again })
}

/// Returns a server's replies to requests that are sent one after another, each by the first client of its protocol.
pub fn answers(requests: &[(Protocol, Vec<u8>)]) -> Vec<Vec<u8>> {
    let clock_ns = Arc::new(AtomicU64::new(START_NS));
    let mut world = World::new(config(None), clock_ns, Reached::default()).expect("a new store");
    let mut replied = Vec::new();
    for (protocol, request) in requests {
        let client = world.clients.iter_mut().find(|client| client.protocol == *protocol).expect("one of each");
        client.taken = Some(Vec::new());
        client.end.send(request);
        world.settle();
        let client = world.clients.iter_mut().find(|client| client.protocol == *protocol).expect("it is there still");
        replied.extend(client.taken.take());
    }
    world.finish();
    replied
}

/// Runs one input to its end.
pub fn run(bytes: &[u8]) -> Reached {
    run_measured(bytes, unmeasured)
}

/// Runs one input to its end, and measures the iterations of the worker with `cpu_ns`, the CPU time of this thread.
pub fn run_measured(bytes: &[u8], cpu_ns: fn() -> u64) -> Reached {
    let folder = Folder::new();
    let file = folder.0.join("store");
    let mut choices = Choices::new(bytes);
    let in_file = choices.chance(1, 2).unwrap_or(false);
    let clock_ns = Arc::new(AtomicU64::new(START_NS));
    let begun = config(in_file.then_some(&file));
    let world = World::new(begun, clock_ns, Reached::default()).expect("a new store");
    let mut world = World { cpu_ns, ..world };
    for _ in 0..STEPS_MAX {
        let Some(kind) = choices.below(32) else { break };
        if kind == 31 && in_file && world.reached.restarts < RESTARTS_MAX {
            let Some(again) = restart(world, &file, &mut choices) else { return Reached::default() };
            world = again;
        } else if step(&mut world, kind, &mut choices).is_none() {
            break;
        }
        world.replace_closed();
    }
    world.finish()
}

/// Prints a step, if `GANNET_WHOLE_SHOW` is set.
fn show(text: impl FnOnce() -> String) {
    if std::env::var_os("GANNET_WHOLE_SHOW").is_some() {
        println!("{}", text());
    }
}

/// Executes one step. Returns `None` if the input has no more choices.
fn step(world: &mut World, kind: u64, choices: &mut Choices<'_>) -> Option<()> {
    let client = choices.below(world.clients.len() as u64)? as usize;
    if kind > 24 {
        show(|| format!("{client} step {kind}"));
    }
    match kind {
        0..=24 => {
            let Client { end, protocol, .. } = &world.clients[client];
            let request = match protocol {
                Protocol::Grpc => unreachable!("the world has no gRPC clients"),
                Protocol::Resp => {
                    world.reached.resp += 1;
                    choices.resp_request()?
                }
                Protocol::Memcache => {
                    world.reached.memcache += 1;
                    choices.memcache_request()?
                }
            };
            show(|| format!("{client} {protocol:?} {}", request[..request.len().min(160)].escape_ascii()));
            world.recent.push_back(request[..request.len().min(160)].escape_ascii().to_string());
            if world.recent.len() > RECENT_MAX {
                world.recent.pop_front();
            }
            end.send(&request);
        }
        25 => {
            let now_ms = world.clock_ns.load(Relaxed) / 1_000_000;
            let ms = *choices.of(&[1, 100, 1100, 31_000, 3_600_000, 86_400_000, 315_360_000_000])?;
            // Wall clocks end: ten jumps of ten years stay within the range of a millisecond clock.
            if now_ms + ms < 4_000_000_000_000 {
                world.clock_ns.fetch_add(ms * 1_000_000, Relaxed);
            }
        }
        26 => world.clients[client].is_slow ^= true,
        27 => world.clients[client].end.close_send(),
        28 => world.clients[client].end.reset(),
        // Random bytes, for instance half of a request.
        29 => world.clients[client].end.send(&choices.garbage()?),
        _ => world.settle(),
    }
    for _ in 0..choices.below(4)? {
        world.guard();
    }
    Some(())
}
