//! Checks whether the generator itself limited a run, by its own CPU time, its access to a CPU, or its timers.

use crate::measure::Snapshot;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Share of time that a thread works, above which the thread was the bottleneck.
pub const BUSY_SHARE_MAX: f64 = 0.95;
/// Share of time that a thread waits for a CPU, above which that wait was the bottleneck.
pub const PREEMPTED_SHARE_MAX: f64 = 0.10;
/// Share of the machine's CPU time given to other guests by the hypervisor, above which that was the bottleneck.
pub const STEAL_SHARE_MAX: f64 = 0.10;

/// The resources that one thread of the generator used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// The thread's name: `load-0`, `sampler-0`.
    pub name: String,
    /// The CPU that the thread is pinned to.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// Length of the measured part, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time in nanoseconds.
    pub run_ns: u64,
    /// CPU time in which the thread only polled for the next instant; part of `run_ns`.
    pub polled_ns: u64,
    /// Time in which the thread was runnable and had no CPU, in nanoseconds.
    pub preempted_ns: u64,
    /// Number of times that the kernel preempted the thread.
    pub involuntary_switches: u64,
}

impl ThreadUse {
    /// Returns the share of time that the thread worked, from 0 to 1.
    pub fn busy_share(&self) -> f64 {
        share(self.run_ns.saturating_sub(self.polled_ns), self.wall_ns)
    }

    /// Returns the share of time that the thread waited for a CPU, from 0 to 1.
    pub fn preempted_share(&self) -> f64 {
        share(self.preempted_ns, self.wall_ns)
    }
}

/// The resources that the generator used in one slice of the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UseSlice {
    /// End of the slice, in nanoseconds from the start of the run.
    pub end_ns: u64,
    /// The largest share of the time that one of its threads worked, from 0 to 1.
    pub busy_share: f64,
    /// The largest share of the time that one of its threads waited for a CPU, from 0 to 1.
    pub preempted_share: f64,
    /// Share of the machine's CPU time given to other guests by the hypervisor, from 0 to 1.
    pub steal_share: f64,
    /// Share of the machine's CPU time that was used, from 0 to 1.
    pub machine_share: f64,
}

/// The resources that the generator used in the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorUse {
    /// The use of each thread.
    pub threads: Vec<ThreadUse>,
    /// Share of the machine's CPU time given to other guests by the hypervisor, from 0 to 1.
    pub steal_share: f64,
    /// The use over time, including the warm-up.
    pub timeline: Vec<UseSlice>,
}

/// The reason why the generator, and not the server, was the bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "cause")]
pub enum Limit {
    /// A thread worked all the time.
    Cpu {
        /// The thread's name.
        thread: String,
        /// Share of time that the thread worked, from 0 to 1.
        busy_share: f64,
    },
    /// Requests were sent late although connections had room.
    Late {
        /// Lateness at the 99th percentile, in nanoseconds.
        p99_ns: u64,
        /// Limit in nanoseconds.
        max_ns: u64,
    },
    /// Other programs used the CPU of a thread.
    Preempted {
        /// The thread's name.
        thread: String,
        /// Share of time that the thread waited for a CPU, from 0 to 1.
        preempted_share: f64,
    },
    /// The hypervisor gave the CPUs to other guests.
    Steal {
        /// Share of CPU time given to other guests, from 0 to 1.
        steal_share: f64,
    },
    /// The generator on one of several hosts was the bottleneck.
    Host {
        /// The host's name.
        name: String,
        /// The reason on that host.
        limit: Box<Limit>,
    },
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu { thread, busy_share } => write!(
                f,
                "thread {thread} worked {:.0} % of the time; add threads, or spread the load over several hosts",
                busy_share * 100.0
            ),
            Self::Late { p99_ns, max_ns } => write!(
                f,
                "1 % of the requests were sent at least {} us late; the limit is {} us; pin the threads to CPUs that \
                 nothing else uses, or let them poll",
                p99_ns / 1000,
                max_ns / 1000
            ),
            Self::Preempted { thread, preempted_share } => write!(
                f,
                "thread {thread} waited for a CPU {:.0} % of the time; pin it to a CPU that nothing else uses",
                preempted_share * 100.0
            ),
            Self::Steal { steal_share } => write!(
                f,
                "the hypervisor took {:.0} % of the CPU time; use a machine that is not shared",
                steal_share * 100.0
            ),
            Self::Host { name, limit } => write!(f, "agent {name}: {limit}"),
        }
    }
}

/// Returns every reason why the generator was the bottleneck. `lateness_ns_max` is the limit at the 99th percentile.
pub fn limits(watched: &GeneratorUse, bulk: &Snapshot, lateness_ns_max: u64) -> Vec<Limit> {
    let mut limits = Vec::new();
    for thread in &watched.threads {
        if thread.busy_share() >= BUSY_SHARE_MAX {
            limits.push(Limit::Cpu { thread: thread.name.clone(), busy_share: thread.busy_share() });
        }
        if thread.preempted_share() >= PREEMPTED_SHARE_MAX {
            let preempted_share = thread.preempted_share();
            limits.push(Limit::Preempted { thread: thread.name.clone(), preempted_share });
        }
    }
    if watched.steal_share >= STEAL_SHARE_MAX {
        limits.push(Limit::Steal { steal_share: watched.steal_share });
    }
    let p99_ns = bulk.lateness.quantile_ns(0.99);
    if p99_ns > lateness_ns_max {
        limits.push(Limit::Late { p99_ns, max_ns: lateness_ns_max });
    }
    limits
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A thread whose use is measured.
#[derive(Clone, Debug)]
pub(super) struct Watchee {
    pub name: String,
    pub cpu: Option<usize>,
    pub thread_id: i32,
    pub polled: Arc<Polled>,
}

/// Counters of a thread at one instant.
#[derive(Clone, Debug, Default)]
struct ProcessCounters {
    at_ns: u64,
    threads: Vec<ThreadUse>,
    machine: CpuTicks,
}

/// Ticks of all CPUs together, from `/proc/stat`.
#[derive(Clone, Copy, Debug, Default)]
struct CpuTicks {
    all: u64,
    idle: u64,
    steal: u64,
}

/// Reads the kernel's counters during the run.
#[derive(Debug)]
pub(super) struct KernelWatch {
    watchees: Vec<Watchee>,
    last: ProcessCounters,
    begin: ProcessCounters,
    end: Option<ProcessCounters>,
    timeline: Vec<UseSlice>,
}

impl KernelWatch {
    pub fn new(watchees: Vec<Watchee>) -> Self {
        let mut watch = Self {
            watchees,
            last: ProcessCounters::default(),
            begin: ProcessCounters::default(),
            end: None,
            timeline: Vec::new(),
        };
        watch.begin(0);
        watch
    }

    /// Marks the beginning of the measured part at `at_ns` of the run.
    pub fn begin(&mut self, at_ns: u64) {
        self.begin = self.read(at_ns);
        self.last = self.begin.clone();
    }

    /// Marks the end of the measured part; only the first call counts.
    pub fn end(&mut self, at_ns: u64) {
        if self.end.is_none() {
            self.end = Some(self.read(at_ns));
        }
    }

    /// Records the end of a slice.
    pub fn slice(&mut self, at_ns: u64) {
        let now = self.read(at_ns);
        let used = difference(&self.last, &now);
        let machine = (now.machine.all - self.last.machine.all.min(now.machine.all)).max(1);
        let idle = now.machine.idle.saturating_sub(self.last.machine.idle);
        let most = |part: fn(&ThreadUse) -> f64| used.threads.iter().map(part).fold(0.0, f64::max);
        self.timeline.push(UseSlice {
            end_ns: at_ns,
            busy_share: most(ThreadUse::busy_share),
            preempted_share: most(ThreadUse::preempted_share),
            steal_share: used.steal_share,
            machine_share: 1.0 - (idle as f64 / machine as f64).min(1.0),
        });
        self.last = now;
    }

    pub fn finish(mut self, at_ns: u64) -> GeneratorUse {
        self.end(at_ns);
        let end = self.end.take().unwrap_or_default();
        GeneratorUse { timeline: self.timeline, ..difference(&self.begin, &end) }
    }

    fn read(&self, at_ns: u64) -> ProcessCounters {
        let threads = self.watchees.iter().map(|watchee| read_thread(watchee, at_ns)).collect();
        ProcessCounters { at_ns, threads, machine: read_machine() }
    }
}

fn difference(begin: &ProcessCounters, end: &ProcessCounters) -> GeneratorUse {
    let threads = begin.threads.iter().zip(&end.threads).map(|(before, after)| ThreadUse {
        name: after.name.clone(),
        cpu: after.cpu,
        wall_ns: end.at_ns.saturating_sub(begin.at_ns),
        run_ns: after.run_ns.saturating_sub(before.run_ns),
        polled_ns: after.polled_ns.saturating_sub(before.polled_ns),
        preempted_ns: after.preempted_ns.saturating_sub(before.preempted_ns),
        involuntary_switches: after.involuntary_switches.saturating_sub(before.involuntary_switches),
    });
    let all = end.machine.all.saturating_sub(begin.machine.all);
    let steal = end.machine.steal.saturating_sub(begin.machine.steal);
    GeneratorUse { threads: threads.collect(), steal_share: share(steal, all), timeline: Vec::new() }
}

/// CPU time that a thread reports after it has polled. The kernel's figure for a running thread is up to one tick old,
/// while this figure is as old as the last poll. So the computed share of polling never exceeds 100 percent.
#[derive(Debug, Default)]
pub struct Polled {
    polled_ns: AtomicU64,
    run_ns: AtomicU64,
}

impl Polled {
    /// Adds CPU time spent polling, until the thread had used `run_ns` in all. Only the thread itself calls it.
    pub fn add(&self, polled_ns: u64, run_ns: u64) {
        self.run_ns.store(run_ns, Ordering::Relaxed);
        self.polled_ns.store(self.polled_ns.load(Ordering::Relaxed) + polled_ns, Ordering::Release);
    }

    /// Returns the CPU time spent polling, and a lower bound of the total CPU time.
    fn read(&self) -> (u64, u64) {
        let polled_ns = self.polled_ns.load(Ordering::Acquire);
        (polled_ns, self.run_ns.load(Ordering::Relaxed))
    }
}

fn read_thread(watchee: &Watchee, at_ns: u64) -> ThreadUse {
    let (polled_ns, run_ns) = watchee.polled.read();
    let folder = format!("/proc/self/task/{}", watchee.thread_id);
    let schedstat = std::fs::read_to_string(format!("{folder}/schedstat")).unwrap_or_default();
    let mut numbers = schedstat.split_whitespace().map(|number| number.parse().unwrap_or(0));
    let status = std::fs::read_to_string(format!("{folder}/status")).unwrap_or_default();
    let involuntary = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    ThreadUse {
        name: watchee.name.clone(),
        cpu: watchee.cpu,
        wall_ns: at_ns,
        run_ns: numbers.next().unwrap_or(0).max(run_ns),
        preempted_ns: numbers.next().unwrap_or(0),
        polled_ns,
        involuntary_switches: involuntary.and_then(|text| text.trim().parse().ok()).unwrap_or(0),
    }
}

/// The first line: `cpu user nice system idle iowait irq softirq steal ...` (proc(5)).
fn read_machine() -> CpuTicks {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).map(|tick| tick.parse().unwrap_or(0)).collect();
    let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
    CpuTicks { all: ticks.iter().sum(), idle: at(3) + at(4), steal: at(7) }
}
