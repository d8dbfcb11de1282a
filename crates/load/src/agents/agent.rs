//! An agent: carries out its share of a coordinator's runs.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Gate, channel, sync_channel};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::clock::UnixMillis;

use super::clock::HostClock;
use super::greet::{self, About, Sender};
use super::wire::{AgentRequests, Prepare, ToAgent, ToCoordinator};
use crate::engine::{self, Control, Error, LoadStream, Run, Together, TrafficThread};
use crate::result::from_run;
use crate::result::{Machine, RunResult};
use crate::workload::{Prefill, RequestSource, Workload};

/// Interval at which the agent checks whether it must stop.
const LOOK: Duration = Duration::from_millis(50);
/// Interval between two `Alive` messages.
const ALIVE: Duration = Duration::from_millis(500);
/// A coordinator that sends nothing for this long counts as lost.
const SILENCE: Duration = Duration::from_secs(30);
/// Time for which the agent lets a new coordinator wait for the previous coordinator to leave.
const SEAT: Duration = Duration::from_secs(5);
/// Time limit for the start message, and the longest time by which the start may lie in the future.
const START: Duration = Duration::from_secs(120);
/// Highest number of simultaneous peers; only one of them is an authenticated coordinator.
const PEERS_MAX: usize = 8;
/// Highest number of slices that wait to be sent.
const SLICES_WAITING_MAX: usize = 64;

/// A running agent. Dropping it ends the agent and its runs.
#[derive(Debug)]
pub struct Agent {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by all connections of an agent.
struct Shared {
    token: Option<Vec<u8>>,
    about: About,
    clock: HostClock,
    stop: Arc<AtomicBool>,
    /// Locked by the coordinator that the agent serves.
    seat: Mutex<()>,
    peers: AtomicUsize,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl Agent {
    /// Serves coordinators at `addr`, one at a time. A coordinator must prove that it has `token`. The agent uses
    /// `clock` as its monotonic clock. `tell` receives a log line for each coordinator that connects or leaves.
    ///
    /// # Errors
    /// If the agent cannot listen on the address, or if other hosts can reach the address and there is no token.
    pub fn start(
        addr: &str,
        token: Option<Vec<u8>>,
        clock: HostClock,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        if !addr.ip().to_canonical().is_loopback() && token.is_none() {
            let what = "other hosts can reach this address and could make the agent load any server; pass --token FILE";
            return Err(std::io::Error::new(ErrorKind::PermissionDenied, what));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let about = About { program: RunResult::new("").program, machine: Machine::here() };
        let shared = Arc::new(Shared {
            token,
            about,
            clock,
            stop: stop.clone(),
            seat: Mutex::new(()),
            peers: AtomicUsize::new(0),
            tell: Box::new(tell),
        });
        let thread = std::thread::Builder::new().name("agent".to_owned()).spawn(move || accept(&listener, &shared))?;
        Ok(Self { addr, stop, thread: Some(thread) })
    }

    /// Returns the address that the agent listens on.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !shared.stop.load(Ordering::Relaxed) {
        let Ok((stream, peer)) = listener.accept() else {
            std::thread::sleep(LOOK);
            continue;
        };
        threads.retain(|thread| !thread.is_finished());
        if shared.peers.load(Ordering::Relaxed) >= PEERS_MAX {
            continue;
        }
        shared.peers.fetch_add(1, Ordering::Relaxed);
        let mine = shared.clone();
        let spawned = std::thread::Builder::new().name("coordinator".to_owned()).spawn(move || {
            let why = serve(stream, peer, &mine).err();
            mine.peers.fetch_sub(1, Ordering::Relaxed);
            if let Some(why) = why {
                (mine.tell)(&format!("{peer}: {why}"));
            }
        });
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(_) => _ = shared.peers.fetch_sub(1, Ordering::Relaxed),
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// Greets a peer and serves it until it disconnects. Returns the reason why the connection ended.
fn serve(stream: TcpStream, peer: SocketAddr, shared: &Shared) -> Result<(), String> {
    let seat = || {
        let begun = Instant::now();
        loop {
            match shared.seat.try_lock() {
                Ok(seat) => return Ok(seat),
                Err(TryLockError::Poisoned(seat)) => return Ok(seat.into_inner()),
                Err(TryLockError::WouldBlock) if begun.elapsed() > SEAT => {
                    return Err(
                        "the agent serves another coordinator; stop that coordinator, or use another agent".to_owned()
                    );
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
            }
        }
    };
    let ((sender, mut receiver), _seat) = greet::coordinator(stream, shared.token.as_deref(), &shared.about, seat)?;
    (shared.tell)(&format!("{peer} coordinates"));
    let sender = Arc::new(sender);
    let (leave, left) = channel::<()>();
    let alive = sender.clone();
    std::thread::scope(|scope| {
        // If the peer does not read, a write of this thread times out, which ends the connection.
        scope.spawn(move || {
            while left.recv_timeout(ALIVE) == Err(RecvTimeoutError::Timeout) {
                if alive.send(&ToCoordinator::Alive).is_err() {
                    alive.close();
                    return;
                }
            }
        });
        let mut session = Session { shared, sender: sender.clone(), running: None };
        let mut heard = Instant::now();
        let why = loop {
            let mut wait = || match () {
                () if shared.stop.load(Ordering::Relaxed) => Err("the agent is stopping".to_owned()),
                () if heard.elapsed() > SILENCE => Err("the coordinator sent nothing for 30 s".to_owned()),
                () => Ok(()),
            };
            match receiver.read(&mut wait) {
                Ok(message) => session.handle(message),
                Err(why) => break why,
            }
            heard = Instant::now();
        };
        session.end();
        drop(leave);
        sender.close();
        Err(why)
    })
}

/// The runs of one coordinator.
struct Session<'a> {
    shared: &'a Shared,
    sender: Arc<Sender>,
    running: Option<Running>,
}

/// A run in progress, in its own thread.
struct Running {
    run: u64,
    control: Arc<Control>,
    gate: Gate<u64>,
    thread: JoinHandle<()>,
}

impl Session<'_> {
    fn handle(&mut self, message: ToAgent) {
        let running = |run: u64| self.running.as_ref().filter(|running| running.run == run);
        match message {
            ToAgent::Clock { number } => {
                let (at_ns, unix_ms) = (self.shared.clock.now_ns(), UnixMillis::now().0);
                let _ = self.sender.send(&ToCoordinator::Clock { number, at_ns, unix_ms });
            }
            ToAgent::Prepare(prepare) => self.prepare(*prepare),
            ToAgent::Start { run, at_ns } => {
                if let Some(running) = running(run) {
                    let _ = running.gate.send(at_ns);
                }
            }
            ToAgent::Rate { run, per_s } => {
                if let Some(running) = running(run) {
                    running.control.set_rate(per_s);
                }
            }
            ToAgent::Stop { run } => {
                if let Some(running) = running(run) {
                    running.control.stop();
                }
            }
            // A second greeting has no effect.
            ToAgent::Hello { .. } | ToAgent::Proof { .. } | ToAgent::Alive => {}
        }
    }

    /// Ends the current run, if any.
    fn end(&mut self) {
        if let Some(running) = self.running.take() {
            running.control.stop();
            drop(running.gate);
            let _ = running.thread.join();
        }
    }

    fn prepare(&mut self, prepare: Prepare) {
        self.end();
        let run = prepare.run;
        let control = Arc::new(Control::new(prepare.rate_per_s));
        let (gate, opened) = channel();
        let (sender, clock, held) = (self.sender.clone(), self.shared.clock, control.clone());
        let spawned = std::thread::Builder::new().name("run".to_owned()).spawn(move || {
            let carried = std::panic::AssertUnwindSafe(|| carry(&prepare, &held, clock, &opened, &sender));
            let outcome =
                std::panic::catch_unwind(carried).unwrap_or(Err("an internal error aborted the run".to_owned()));
            // The reader thread notices a coordinator that has disconnected.
            let _ = match outcome {
                Ok((measured, achieved_per_s)) => {
                    sender.send(&ToCoordinator::Over { run, measured: Box::new(measured), achieved_per_s })
                }
                Err(why) => sender.send(&ToCoordinator::Failed { run, why }),
            };
        });
        match spawned {
            Ok(thread) => self.running = Some(Running { run, control, gate, thread }),
            Err(error) => {
                let why = format!("cannot start a thread ({error})");
                let _ = self.sender.send(&ToCoordinator::Failed { run, why });
            }
        }
    }
}

/// Carries out the share `prepare`. Returns its measurements and its replies per second.
fn carry(
    prepare: &Prepare,
    control: &Control,
    clock: HostClock,
    opened: &Receiver<u64>,
    sender: &Sender,
) -> Result<(Run, f64), String> {
    let workload = Workload::read_text(Path::new("the coordinator's workload"), &prepare.workload)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let part =
        prepare.config.part.ok_or("the share has an invalid range of threads; use the same build on all hosts")?;
    if workload.threads as usize != part.threads {
        return Err("the share and its workload differ in their threads; use the same build on all hosts".to_owned());
    }
    let now = UnixMillis(prepare.now_unix_ms);
    let mut late = None;
    let mut start = || {
        sender.send(&ToCoordinator::Ready { run: prepare.run }).ok()?;
        let begun = Instant::now();
        let at_ns = loop {
            match opened.recv_timeout(LOOK) {
                Ok(at_ns) => break at_ns,
                Err(RecvTimeoutError::Timeout) if begun.elapsed() < START && !control.is_stopped() => {}
                Err(_) => return None,
            }
        };
        let ahead_ns = at_ns as i128 - i128::from(clock.now_ns());
        if !(0..=START.as_nanos() as i128).contains(&ahead_ns) {
            late = Some(ahead_ns);
            return None;
        }
        clock.instant_at(at_ns)
    };
    // The sampler draws the same random numbers as the first thread of this host.
    let thread = |place: TrafficThread| match place.stream {
        LoadStream::Bulk => place.thread as u32,
        LoadStream::Sampler => part.first_thread as u32,
    };
    let outcome = std::thread::scope(|scope| {
        let (slices, whole) = sync_channel(SLICES_WAITING_MAX);
        scope.spawn(move || {
            for slice in whole {
                let _ = sender.send(&ToCoordinator::Slice { run: prepare.run, slice: Box::new(slice) });
            }
        });
        let together = Together { start: &mut start, slices };
        match prepare.kind {
            AgentRequests::Requests => {
                let make = |place: TrafficThread| requests(&workload, place.stream, thread(place), now);
                engine::run_together(&prepare.config, make, control, together)
            }
            AgentRequests::Prefill => {
                let make = |place| Prefill::new(&workload, thread(place), now);
                engine::run_together(&prepare.config, make, control, together)
            }
        }
    });
    if let Some(ahead_ns) = late {
        let off_ms = ahead_ns as f64 / 1e6;
        return Err(format!("the received start time is {off_ms:.0} ms away by the agent's clock; repeat the run"));
    }
    let mut run = outcome.map_err(|error: Error| error.to_string().replace('\n', "; "))?;
    let achieved_per_s = from_run::answered_in_time_per_s(&run);
    // The coordinator already has the complete slices with their histograms.
    run.bulk.timeline = Vec::new();
    if let Some(sampler) = &mut run.sampler {
        sampler.timeline = Vec::new();
    }
    Ok((run, achieved_per_s))
}

/// Creates the requests of a thread of a stream.
fn requests(workload: &Workload, stream: LoadStream, thread: u32, now: UnixMillis) -> RequestSource {
    match stream {
        LoadStream::Bulk => RequestSource::new(workload, thread, now),
        LoadStream::Sampler => RequestSource::beside(workload, thread, now),
    }
}
