//! Starts the threads of a run at one common instant, follows them, and joins their measurements.

use super::config::{Config, Load, SLICES_MAX, Sampler, Wait};
use super::control::{Control, RECENT_MAX, RunPhase};
use super::core::{Core, CoreSettings, GREETING_REFUSED, Pacing};
use super::net::Net;
use super::sockets::Sockets;
use super::watch::{KernelWatch, Polled, Watchee, limits};
use super::{Ending, Error, HostShare, LoadStream, LoopKind, Run, Together, TrafficThread};
use crate::measure::{NamedFailure, RawSlice, Snapshot, Timeline, Totals};
use crate::schedule::{Intents, SendPlan};
use crate::traffic::Traffic;
use base::clock::{MonoClock, UnixMillis};
use link::tls::Maker;
use link::{Address, Resolved};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Highest number of slices per thread that wait to be joined.
const SLICES_WAITING_MAX: usize = 16;
/// Time from the last thread's readiness to the start.
const HEAD_START_NS: u64 = 2_000_000;
/// Longest interval between two checks of the run when no slice arrives.
const LOOK_NS_MAX: u64 = 100_000_000;
/// Mixed into the seed of the sampler's schedule, so that it is independent of the bulk load's schedule.
pub(crate) const SAMPLER_SEED: u64 = 0x5A4D_504C_4552_0001;

/// The work of one thread.
struct ThreadJob {
    place: TrafficThread,
    cpu: Option<usize>,
    targets: Vec<Resolved>,
    secure: Option<Maker>,
    settings: CoreSettings,
    load: Load,
    rate_per_s: f64,
    seed: u64,
    wait: Wait,
    slices: SyncSender<RawSlice>,
    polled: Arc<Polled>,
}

/// The report of a thread that has opened its connections, or failed to.
struct Ready {
    job: usize,
    thread_id: i32,
    up: usize,
    faults: Vec<NamedFailure>,
    error: Option<Error>,
    /// The channel on which the thread waits for the start; it is closed if the run does not start.
    start: Sender<u64>,
}

/// The results of a thread.
struct ThreadResults {
    stream: LoadStream,
    snapshot: Snapshot,
    up: usize,
    exhausted: bool,
}

type Handle<'scope> = ScopedJoinHandle<'scope, Result<ThreadResults, Error>>;

pub(super) fn run<T: Traffic>(
    config: &Config,
    make_traffic: &(impl Fn(TrafficThread) -> T + Sync),
    control: &Control,
    mut together: Option<Together<'_>>,
) -> Result<Run, Error> {
    let clock = MonoClock::start();
    let (bulk_out, bulk_in) = sync_channel(SLICES_WAITING_MAX * config.threads);
    let (sampler_out, sampler_in) = sync_channel(SLICES_WAITING_MAX);
    let mut jobs = bulk_jobs(config, control, &bulk_out)?;
    if let Some(sampler) = &config.sampler {
        jobs.push(sampler_job(config, sampler, &sampler_out)?);
    }
    drop((bulk_out, sampler_out));
    let (polled, cpus): (Vec<Arc<Polled>>, Vec<Option<usize>>) =
        jobs.iter().map(|job| (job.polled.clone(), job.cpu)).unzip();
    let (ready_out, ready_in) = channel();
    std::thread::scope(|scope| {
        let mut handles: Vec<Handle<'_>> = Vec::with_capacity(jobs.len());
        let mut names = Vec::with_capacity(jobs.len());
        for (number, job) in jobs.into_iter().enumerate() {
            let ready = ready_out.clone();
            let name = match job.place.stream {
                LoadStream::Bulk => format!("load-{}", job.place.thread),
                LoadStream::Sampler => format!("sampler-{}", job.place.thread),
            };
            let builder = std::thread::Builder::new().name(name.clone());
            let body = move || work(number, job, clock, make_traffic, control, &ready);
            match builder.spawn_scoped(scope, body) {
                Ok(handle) => handles.push(handle),
                Err(error) => return Err(Error::System { doing: "starting a thread", error }),
            }
            names.push(name);
        }
        drop(ready_out);
        let readies = gather(&ready_in, names.len())?;
        let watchees = readies.iter().zip(names).zip(polled).zip(cpus).map(|(((ready, name), polled), cpu)| Watchee {
            name,
            cpu,
            thread_id: ready.thread_id,
            polled,
        });
        let start_ns = match &mut together {
            None => clock.now().0 + HEAD_START_NS,
            Some(together) => start_ns(clock, (together.start)()).ok_or_else(no_start)?,
        };
        let tap = together.map(|together| together.slices);
        let mut follower = Follower::new(config, clock, control, KernelWatch::new(watchees.collect()), start_ns, tap);
        for ready in &readies {
            // A thread that has ended early returns its reason when it is joined.
            let _ = ready.start.send(follower.start_ns);
        }
        follower.follow(&bulk_in, &sampler_in, &handles);
        let mut left = Vec::with_capacity(handles.len());
        for handle in handles {
            match handle.join() {
                Ok(result) => left.push(result?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        follower.drain(&bulk_in, &sampler_in);
        Ok(follower.finish(left))
    })
}

/// Waits until all threads are ready. On an error, drops the channels that the threads wait on, so that they end.
fn gather(ready_in: &Receiver<Ready>, threads: usize) -> Result<Vec<Ready>, Error> {
    let mut readies: Vec<Ready> = ready_in.iter().take(threads).collect();
    readies.sort_by_key(|ready| ready.job);
    if let Some(error) = readies.iter_mut().find_map(|ready| ready.error.take()) {
        return Err(error);
    }
    if readies.iter().all(|ready| ready.up == 0) {
        return Err(not_connected(readies.into_iter().flat_map(|ready| ready.faults).collect()));
    }
    Ok(readies)
}

fn not_connected(faults: Vec<NamedFailure>) -> Error {
    let refused = !faults.is_empty() && faults.iter().all(|fault| fault.name == GREETING_REFUSED);
    let mut faults: Vec<String> = faults.into_iter().map(said).collect();
    faults.sort();
    faults.dedup();
    Error::Connect { faults, refused }
}

/// Converts `instant` to the run's clock; a past instant becomes the present.
fn start_ns(clock: MonoClock, instant: Option<Instant>) -> Option<u64> {
    let from_now = instant?.saturating_duration_since(Instant::now());
    Some(clock.now().0 + from_now.as_nanos() as u64)
}

// --- each thread's share ---

fn bulk_jobs(config: &Config, control: &Control, slices: &SyncSender<RawSlice>) -> Result<Vec<ThreadJob>, Error> {
    let resolved = config.targets.iter().map(resolve).collect::<Result<Vec<Resolved>, Error>>()?;
    let names: Vec<String> = config.targets.iter().map(Address::to_string).collect();
    let share = |whole: u64, thread: usize| {
        whole / config.threads as u64 + u64::from((thread as u64) < whole % config.threads as u64)
    };
    let HostShare { first_thread, threads } =
        config.part.unwrap_or(HostShare { first_thread: 0, threads: config.threads });
    let jobs = (0..config.threads).map(|thread| {
        let connections = share(config.connections as u64, thread) as usize;
        let mut settings = settings(config, names.clone());
        // Each thread's connections begin with another target, so that few connections also cover all targets.
        settings.targets =
            (0..connections).map(|connection| (connection + first_thread + thread) % names.len()).collect();
        settings.requests_max = config.requests_max.map_or(u64::MAX, |whole| share(whole, thread));
        settings.reconnect_every_ns = match config.reconnect.per_s {
            0.0 => u64::MAX,
            per_s => (1e9 * config.threads as f64 / per_s) as u64,
        };
        settings.reconnect_every_ns = settings.reconnect_every_ns.max(1);
        ThreadJob {
            place: TrafficThread { stream: LoadStream::Bulk, thread: first_thread + thread, threads, connections },
            cpu: config.cpus.get(thread).copied(),
            targets: resolved.clone(),
            secure: config.tls.as_ref().map(|client| client.maker(&config.targets, connections)),
            settings,
            load: config.load.clone(),
            rate_per_s: control.rate_per_s(),
            seed: config.seed,
            wait: config.wait,
            slices: slices.clone(),
            polled: Arc::default(),
        }
    });
    Ok(jobs.collect())
}

fn sampler_job(config: &Config, sampler: &Sampler, slices: &SyncSender<RawSlice>) -> Result<ThreadJob, Error> {
    let settings = CoreSettings {
        targets: vec![0; sampler.connections],
        routed: false,
        depth: 1,
        batch: 1,
        reconnect_every_ns: u64::MAX,
        storm_every_ns: u64::MAX,
        follows_control: false,
        ..settings(config, vec![sampler.target.to_string()])
    };
    Ok(ThreadJob {
        place: TrafficThread { stream: LoadStream::Sampler, thread: 0, threads: 1, connections: sampler.connections },
        cpu: sampler.cpu,
        targets: vec![resolve(&sampler.target)?],
        secure: config
            .tls
            .as_ref()
            .map(|client| client.maker(std::slice::from_ref(&sampler.target), sampler.connections)),
        settings,
        load: Load::Open(SendPlan::poisson()),
        rate_per_s: sampler.rate_per_s,
        seed: config.seed ^ SAMPLER_SEED ^ config.part.map_or(0, |part| (part.first_thread as u64) << 32),
        wait: config.wait,
        slices: slices.clone(),
        polled: Arc::default(),
    })
}

fn resolve(target: &Address) -> Result<Resolved, Error> {
    target.resolve().map_err(|error| Error::Name { target: target.to_string(), error })
}

fn settings(config: &Config, names: Vec<String>) -> CoreSettings {
    let storm_every_ns = config.reconnect.storm_every_ns;
    CoreSettings {
        targets: Vec::new(),
        names,
        routed: config.routed,
        depth: config.depth,
        batch: config.batch,
        warm_up_ns: config.warm_up_ns,
        duration_ns: config.duration_ns,
        drain_ns: config.drain_ns,
        requests_max: u64::MAX,
        timeout_ns: config.timeout_ns,
        connect_timeout_ns: config.connect_timeout_ns,
        pause_ns: config.reconnect.pause_ns,
        reconnect_every_ns: u64::MAX,
        storm_every_ns: if storm_every_ns == 0 { u64::MAX } else { storm_every_ns },
        connects_at_once_max: config.connects_at_once_max,
        slice_ns: config.slice_ns,
        live_verbs: config.live_verbs,
        follows_control: true,
    }
}

// --- a thread ---

fn work<T: Traffic>(
    number: usize,
    job: ThreadJob,
    clock: MonoClock,
    make_traffic: &(impl Fn(TrafficThread) -> T + Sync),
    control: &Control,
    ready_out: &Sender<Ready>,
) -> Result<ThreadResults, Error> {
    let stream = job.place.stream;
    let (start_out, start_in) = channel();
    let mut ready = Ready {
        job: number,
        thread_id: rustix::thread::gettid().as_raw_nonzero().get(),
        up: 0,
        faults: Vec::new(),
        error: None,
        start: start_out,
    };
    let going_on = |error| Error::System { doing: "waiting for events", error };
    let connected = prepare(job, clock, make_traffic, control).and_then(|mut core| {
        ready.up = core.connect_all().map_err(going_on)?;
        Ok(core)
    });
    let mut core = match connected {
        Ok(core) => core,
        Err(error) => {
            ready.error = Some(error);
            let _ = ready_out.send(ready);
            return Err(no_start());
        }
    };
    ready.faults = core.recorder.faults().to_vec();
    let _ = ready_out.send(ready);
    let Ok(start_ns) = start_in.recv() else { return Err(no_start()) };
    core.begin(start_ns);
    core.run().map_err(going_on)?;
    let (up, exhausted) = (core.up(), core.is_exhausted());
    let (snapshot, _, _) = core.finish();
    Ok(ThreadResults { stream, snapshot, up, exhausted })
}

/// Describes a failure of the first connection attempts, with its remedy.
fn said(fault: NamedFailure) -> String {
    // Faults of TLS have their own remedy, and a server that refused a greeting is running.
    let has_remedy = fault.name.starts_with("tls-") || fault.name == GREETING_REFUSED;
    let remedy = if has_remedy { "" } else { "; check that the server is running" };
    format!("{}{remedy}", fault.first)
}

/// Returns the result of a thread that did not start because another one failed.
fn no_start() -> Error {
    Error::System { doing: "waiting for the start", error: std::io::ErrorKind::Interrupted.into() }
}

fn prepare<'c, T: Traffic>(
    job: ThreadJob,
    clock: MonoClock,
    make_traffic: &(impl Fn(TrafficThread) -> T + Sync),
    control: &'c Control,
) -> Result<Core<'c, Sockets, T>, Error> {
    if let Some(cpu) = job.cpu {
        io::affinity::pin_this_thread(cpu)
            .map_err(|error| Error::System { doing: "pinning a thread to its CPU", error })?;
    }
    sharpen_timers();
    let connections = job.settings.targets.len();
    let pacing = pacing(&job);
    let net = Sockets::new(clock, job.targets, connections, job.secure, job.wait, job.polled)
        .map_err(|error| Error::System { doing: "creating an epoll instance", error })?;
    Ok(Core::new(net, make_traffic(job.place), pacing, job.settings, control, Some(job.slices)))
}

fn pacing(job: &ThreadJob) -> Pacing {
    let TrafficThread { thread, threads, .. } = job.place;
    // Each entry of the schedule is a batch.
    let batches_per_s = job.rate_per_s / job.settings.batch as f64;
    let intents = |plan: &SendPlan| Intents::new(plan, batches_per_s, thread, threads, job.seed);
    match &job.load {
        Load::Open(plan) => Pacing::Open(intents(plan)),
        Load::Closed => Pacing::Closed,
        Load::Blind(plan) => Pacing::Blind(plan.as_ref().map(intents)),
    }
}

/// Executes `run` on one thread and on `net`, from the current instant of its clock.
pub(crate) fn run_on<N: Net, T: Traffic>(
    net: N,
    config: &Config,
    traffic: T,
    control: &Control,
) -> Result<(Snapshot, N), Error> {
    let config = Config { threads: 1, ..config.clone() };
    one_job_on(net, &config, traffic, control, |slices| Ok(bulk_jobs(&config, control, slices)?.remove(0)))
}

/// Executes only the sampler's stream.
pub(crate) fn run_sampler_on<N: Net, T: Traffic>(
    net: N,
    config: &Config,
    traffic: T,
    control: &Control,
) -> Result<(Snapshot, N), Error> {
    one_job_on(net, config, traffic, control, |slices| match &config.sampler {
        Some(sampler) => sampler_job(config, sampler, slices),
        None => Err(Error::Config(vec!["there is no sampler; set its target and rate".to_owned()])),
    })
}

fn one_job_on<N: Net, T: Traffic>(
    net: N,
    config: &Config,
    traffic: T,
    control: &Control,
    job: impl FnOnce(&SyncSender<RawSlice>) -> Result<ThreadJob, Error>,
) -> Result<(Snapshot, N), Error> {
    let faults = config.faults();
    if !faults.is_empty() {
        return Err(Error::Config(faults));
    }
    let (slices_out, slices_in) = sync_channel(SLICES_MAX as usize);
    let job = job(&slices_out)?;
    let going_on = |error| Error::System { doing: "waiting for events", error };
    let pacing = pacing(&job);
    let mut core = Core::new(net, traffic, pacing, job.settings, control, Some(slices_out));
    if core.connect_all().map_err(going_on)? == 0 {
        return Err(not_connected(core.recorder.faults().to_vec()));
    }
    core.begin_now();
    core.run().map_err(going_on)?;
    let (mut snapshot, _, net) = core.finish();
    let (begin_ns, length_ns) = (config.warm_up_ns, snapshot.measured_ns);
    let mut timeline = Timeline::new(1, config.slice_ns, begin_ns, begin_ns + length_ns);
    slices_in.try_iter().for_each(|raw| timeline.add(raw));
    snapshot.timeline = timeline.finish();
    Ok((snapshot, net))
}

/// The kernel may end a thread's sleep 50 us late to save wake-ups; this thread requests 1 ns (proc(5), timerslack_ns).
fn sharpen_timers() {
    let thread_id = rustix::thread::gettid().as_raw_nonzero();
    // If this fails, only the margin of the wait grows.
    let _ = std::fs::write(format!("/proc/{thread_id}/timerslack_ns"), "1");
}

// --- the run in progress ---

struct Follower<'a> {
    config: &'a Config,
    clock: MonoClock,
    control: &'a Control,
    watch: KernelWatch,
    start_ns: u64,
    started_unix_ms: u64,
    bulk: Timeline,
    sampler: Timeline,
    phase: RunPhase,
    slices_seen: usize,
    totals: Totals,
}

impl<'a> Follower<'a> {
    fn new(
        config: &'a Config,
        clock: MonoClock,
        control: &'a Control,
        watch: KernelWatch,
        start_ns: u64,
        tap: Option<SyncSender<RawSlice>>,
    ) -> Self {
        let ahead_ms = start_ns.saturating_sub(clock.now().0) / 1_000_000;
        let (begin_ns, end_ns) = (config.warm_up_ns, config.warm_up_ns.saturating_add(config.duration_ns));
        let timeline = |threads| Timeline::new(threads, config.slice_ns, begin_ns, end_ns);
        Self {
            config,
            clock,
            control,
            watch,
            start_ns,
            started_unix_ms: UnixMillis::now().0 + ahead_ms,
            bulk: timeline(config.threads).shown_to(tap),
            sampler: timeline(1),
            phase: RunPhase::Connecting,
            slices_seen: 0,
            totals: Totals::default(),
        }
    }

    fn elapsed_ns(&self) -> u64 {
        self.clock.now().0.saturating_sub(self.start_ns)
    }

    fn follow(&mut self, bulk: &Receiver<RawSlice>, sampler: &Receiver<RawSlice>, handles: &[Handle<'_>]) {
        while !handles.iter().all(ScopedJoinHandle::is_finished) {
            self.change_phase();
            match bulk.recv_timeout(Duration::from_nanos(self.next_look_ns())) {
                Ok(raw) => self.add(raw),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(Duration::from_millis(1)),
            }
            for raw in sampler.try_iter() {
                self.sampler.add(raw);
            }
        }
    }

    /// Takes the slices that the threads left in the channels when they ended.
    fn drain(&mut self, bulk: &Receiver<RawSlice>, sampler: &Receiver<RawSlice>) {
        for raw in bulk.try_iter() {
            self.add(raw);
        }
        for raw in sampler.try_iter() {
            self.sampler.add(raw);
        }
    }

    /// Returns the next instant at which the phase changes, or the present plus a short interval.
    fn next_look_ns(&self) -> u64 {
        let elapsed_ns = self.elapsed_ns();
        let begin_ns = self.config.warm_up_ns;
        let end_ns = begin_ns.saturating_add(self.config.duration_ns);
        let next = [begin_ns, end_ns].into_iter().find(|at_ns| *at_ns > elapsed_ns).unwrap_or(u64::MAX);
        (next - elapsed_ns).clamp(100_000, LOOK_NS_MAX)
    }

    fn change_phase(&mut self) {
        let elapsed_ns = self.elapsed_ns();
        let end_ns = self.config.warm_up_ns.saturating_add(self.config.duration_ns);
        let phase = match elapsed_ns {
            0 => RunPhase::Connecting,
            now if now < self.config.warm_up_ns => RunPhase::WarmUp,
            now if now < end_ns && !self.control.is_stopped() => RunPhase::Measuring,
            _ => RunPhase::Draining,
        };
        if phase == self.phase {
            return;
        }
        match phase {
            RunPhase::Measuring => self.watch.begin(elapsed_ns),
            RunPhase::Draining => self.watch.end(elapsed_ns),
            _ => {}
        }
        self.phase = phase;
        self.control.show(|live| {
            live.phase = phase;
            live.elapsed_ns = elapsed_ns;
        });
    }

    fn add(&mut self, raw: RawSlice) {
        add_totals(&mut self.totals, &raw);
        self.bulk.add(raw);
        let slices = self.bulk.slices();
        if slices.len() == self.slices_seen {
            return;
        }
        self.slices_seen = slices.len();
        let elapsed_ns = self.elapsed_ns();
        self.watch.slice(elapsed_ns);
        let recent = &slices[slices.len().saturating_sub(RECENT_MAX)..];
        self.control.show(|live| {
            live.elapsed_ns = elapsed_ns;
            live.totals = self.totals;
            live.response.clone_from(self.bulk.response());
            live.recent = recent.to_vec();
            live.verbs.clear();
            live.verbs.extend_from_slice(self.bulk.verbs());
        });
    }

    fn finish(self, left: Vec<ThreadResults>) -> Run {
        let elapsed_ns = self.elapsed_ns();
        let watched = self.watch.finish(elapsed_ns);
        let mut bulk = Snapshot { timeline: self.bulk.finish(), ..Snapshot::default() };
        let mut sampler =
            self.config.sampler.as_ref().map(|_| Snapshot { timeline: self.sampler.finish(), ..Snapshot::default() });
        let (mut up, mut exhausted) = (0, true);
        for one in left {
            match one.stream {
                LoadStream::Bulk => {
                    up += one.up;
                    exhausted &= one.exhausted;
                    bulk.merge(&one.snapshot);
                }
                LoadStream::Sampler => sampler.iter_mut().for_each(|sampler| sampler.merge(&one.snapshot)),
            }
        }
        let ending = match () {
            () if self.control.is_stopped() => Ending::Stopped,
            () if up == 0 => Ending::Deserted,
            () if exhausted => Ending::Exhausted,
            () => Ending::Complete,
        };
        self.control.show(|live| live.phase = RunPhase::Over);
        let kind = match self.config.load {
            Load::Open(_) => LoopKind::Open,
            Load::Closed => LoopKind::Closed,
            Load::Blind(_) => LoopKind::Blind,
        };
        let limits = limits(&watched, &bulk, self.config.lateness_ns_max);
        Run { kind, ending, started_unix_ms: self.started_unix_ms, bulk, sampler, watched, limits, hosts: Vec::new() }
    }
}

/// Adds the counts of one thread or host in a slice, as far as slices contain them.
pub(crate) fn add_totals(totals: &mut Totals, raw: &RawSlice) {
    let [hits, misses, partial, errors, wrong, lost, _] = raw.ended;
    totals.due += raw.sent;
    totals.sent += raw.sent;
    totals.answered += hits + misses + partial + errors + wrong;
    totals.hits += hits + partial;
    totals.misses += misses;
    totals.errors += errors;
    totals.wrong += wrong;
    totals.lost += lost;
    totals.bytes_sent += raw.bytes_sent;
    totals.bytes_received += raw.bytes_received;
    totals.connects += raw.connects;
}
