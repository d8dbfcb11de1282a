//! The kernel's counters of the host and of a process's threads, at an instant and between two instants.
//!
//! ```text
//!   /proc/PID/task/*   status, schedstat, sched, stat      each thread: on a CPU, waiting, switches, moves, faults
//!   /proc/stat         each CPU: soft interrupts, steal, idle
//!   /proc/vmstat       reclaim          /proc/pressure/*   time spent waiting   cpu.stat   stops by a quota
//!          Counters ── later ──> Counters ──since──> Grown: the growth as rates and shares of the time between
//! ```
//! Invariant: a counter that cannot be read is absent; it is never 0.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::host::{Host, field};

/// Ticks of a CPU, by kind: user, nice, system, idle, iowait, irq, softirq, steal.
pub(crate) type Ticks = [u64; 8];

/// The counters of a thread since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The thread's name.
    pub name: String,
    /// Time on a CPU, in ns.
    pub ran_ns: u64,
    /// Time in which the thread was runnable and had no CPU, in ns.
    pub waited_ns: u64,
    /// Number of voluntary context switches: the thread went to sleep.
    pub voluntary: u64,
    /// Number of involuntary context switches: the kernel preempted the thread.
    pub involuntary: u64,
    /// Number of migrations to another CPU; `None` if the kernel does not report it.
    pub moves: Option<u64>,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
}

/// All counters of the host and of a process at an instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// The instant, as the time since a start that the caller chooses.
    pub at: Duration,
    /// The process's threads, by their ids.
    pub threads: BTreeMap<u64, Thread>,
    /// The ticks of each CPU, by its number.
    pub cpus: BTreeMap<usize, Ticks>,
    /// The kernel's memory counters, by name: those in [`MEMORY`].
    pub memory: BTreeMap<&'static str, u64>,
    /// Time for which some task waited for `cpu`, `memory` or `io`, in us.
    pub pressure: BTreeMap<&'static str, u64>,
    /// The number of times that a CPU quota stopped the process, and the total duration of the stops in ns.
    pub throttled: Option<(u64, u64)>,
}

/// The memory counters that are recorded.
const MEMORY: [&str; 5] = ["pgscan_direct", "pgscan_kswapd", "pgmajfault", "compact_stall", "thp_fault_alloc"];

fn thread(host: &Host, folder: &str) -> Option<Thread> {
    let read = |name: &str| host.read(&format!("{folder}/{name}")).ok();
    let (status, stat) = (read("status")?, read("stat")?);
    let count = |key| field(&status, key).and_then(|count| u64::try_from(count).ok());
    // The thread's name may contain any characters, and ends at the last parenthesis.
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    let times = read("schedstat").unwrap_or_default();
    let mut times = times.split_whitespace().map(|ns| ns.parse().unwrap_or(0));
    let moves = read("sched").and_then(|text| field(&text, "se.nr_migrations"));
    Some(Thread {
        name: read("comm")?,
        ran_ns: times.next().unwrap_or(0),
        waited_ns: times.next().unwrap_or(0),
        voluntary: count("voluntary_ctxt_switches")?,
        involuntary: count("nonvoluntary_ctxt_switches")?,
        moves: moves.and_then(|moves| u64::try_from(moves).ok()),
        minor_faults: number(7)?,
        major_faults: number(9)?,
    })
}

pub(crate) fn ticks(stat: &str) -> BTreeMap<usize, Ticks> {
    let cpu = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        let mut ticks = Ticks::default();
        let words: Vec<u64> = rest.split_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
        ticks.copy_from_slice(words.get(..8)?);
        Some((name.strip_prefix("cpu")?.parse().ok()?, ticks))
    };
    stat.lines().filter_map(cpu).collect()
}

/// Returns the total of a line such as `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`, in us.
fn waited_us(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("some ")?.split_once("total=")?.1.trim().parse().ok())
}

fn throttled(host: &Host) -> Option<(u64, u64)> {
    let of = |folder: &String| {
        let text = host.read(&format!("{folder}/cpu.stat")).ok()?;
        let number = |key| field(&text, key).and_then(|number| u64::try_from(number).ok());
        // The two versions of control groups use different units.
        let ns = number("throttled_time").or_else(|| Some(number("throttled_usec")? * 1000));
        Some((number("nr_throttled")?, ns?))
    };
    // A quota of any group above also stops the process.
    let folders = host.groups("cpu").ok()?;
    folders.iter().filter_map(of).reduce(|sum, one| (sum.0 + one.0, sum.1 + one.1))
}

impl Counters {
    /// Reads all available counters. `at` is the instant, as the time since a start that the caller
    /// chooses.
    pub fn read(host: &Host, at: Duration) -> Self {
        let threads = host.threads().unwrap_or_default();
        let id = |folder: &str| folder.rsplit('/').next()?.parse::<u64>().ok();
        let vmstat = host.read("/proc/vmstat").unwrap_or_default();
        let memory = |name: &'static str| Some((name, u64::try_from(field(&vmstat, name)?).ok()?));
        let pressure =
            |name: &'static str| Some((name, waited_us(&host.read(&format!("/proc/pressure/{name}")).ok()?)?));
        Self {
            at,
            threads: threads.iter().filter_map(|folder| Some((id(folder)?, thread(host, folder)?))).collect(),
            cpus: ticks(&host.read("/proc/stat").unwrap_or_default()),
            memory: MEMORY.into_iter().filter_map(memory).collect(),
            pressure: ["cpu", "memory", "io"].into_iter().filter_map(pressure).collect(),
            throttled: throttled(host),
        }
    }

    /// Returns the growth of the counters since `earlier`.
    pub fn since(&self, earlier: &Self) -> Grown {
        let seconds = self.at.saturating_sub(earlier.at).as_secs_f64().max(1e-3);
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        let threads = self.threads.iter().filter_map(|(id, now)| {
            let then = earlier.threads.get(id)?;
            Some(ThreadGrown {
                name: now.name.clone(),
                ran: rate(now.ran_ns, then.ran_ns) / 1e9,
                waited: rate(now.waited_ns, then.waited_ns) / 1e9,
                voluntary_per_s: rate(now.voluntary, then.voluntary),
                involuntary_per_s: rate(now.involuntary, then.involuntary),
                moves_per_s: now.moves.zip(then.moves).map(|(now, then)| rate(now, then)),
                minor_faults_per_s: rate(now.minor_faults, then.minor_faults),
                major_faults_per_s: rate(now.major_faults, then.major_faults),
            })
        });
        let cpus = self.cpus.iter().filter_map(|(number, now)| {
            let then = earlier.cpus.get(number)?;
            let grown: Vec<u64> = now.iter().zip(then).map(|(now, then)| now.saturating_sub(*then)).collect();
            let all = grown.iter().sum::<u64>().max(1) as f64;
            let share = |at: usize| grown[at] as f64 / all;
            Some(CpuGrown {
                number: *number,
                busy: (1.0 - share(3) - share(4)).max(0.0),
                softirq: share(6),
                steal: share(7),
            })
        });
        let both = |now: &BTreeMap<&'static str, u64>, then: &BTreeMap<&'static str, u64>, unit: f64| {
            let pairs = now.iter().filter_map(|(name, now)| Some((*name, rate(*now, *then.get(name)?) / unit)));
            pairs.collect::<BTreeMap<&'static str, f64>>()
        };
        Grown {
            seconds,
            threads: threads.collect(),
            cpus: cpus.collect(),
            memory_per_s: both(&self.memory, &earlier.memory, 1.0),
            pressure: both(&self.pressure, &earlier.pressure, 1e6),
            throttled: self.throttled.zip(earlier.throttled).map(|(now, then)| rate(now.1, then.1) / 1e9),
        }
    }
}

/// The growth of a thread's counters over a period.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadGrown {
    /// The thread's name.
    pub name: String,
    /// Share of the time that the thread was on a CPU, 0 to 1.
    pub ran: f64,
    /// Share of the time that the thread was runnable and had no CPU, 0 to 1.
    pub waited: f64,
    /// Voluntary context switches per second.
    pub voluntary_per_s: f64,
    /// Involuntary context switches per second.
    pub involuntary_per_s: f64,
    /// Migrations to another CPU per second; `None` if the kernel does not report them.
    pub moves_per_s: Option<f64>,
    /// Page faults per second that needed no disk.
    pub minor_faults_per_s: f64,
    /// Page faults per second that waited for a disk.
    pub major_faults_per_s: f64,
}

/// A CPU's work over a period, as shares of the time.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuGrown {
    /// The CPU's number.
    pub number: usize,
    /// Share of the time in which the CPU was not idle.
    pub busy: f64,
    /// Share of the time in soft interrupts.
    pub softirq: f64,
    /// Share of the time that the hypervisor gave to other guests.
    pub steal: f64,
}

/// The growth of all counters over a period.
#[derive(Clone, Debug, PartialEq)]
pub struct Grown {
    /// Length of the period in seconds.
    pub seconds: f64,
    /// The threads that existed at the beginning and at the end of the period.
    pub threads: Vec<ThreadGrown>,
    /// The growth of each CPU's counters.
    pub cpus: Vec<CpuGrown>,
    /// Growth of the memory counters per second, by name.
    pub memory_per_s: BTreeMap<&'static str, f64>,
    /// Shares of the time in which some task waited for `cpu`, `memory` or `io`.
    pub pressure: BTreeMap<&'static str, f64>,
    /// Share of the time for which a CPU quota stopped the process, summed over the CPUs; above 1 if several stopped.
    pub throttled: Option<f64>,
}

impl Grown {
    /// Returns the sum of a value over the threads; `None` if there are no threads, or if the value of a thread is
    /// unknown.
    pub fn sum(&self, of: impl Fn(&ThreadGrown) -> Option<f64>) -> Option<f64> {
        if self.threads.is_empty() { None } else { self.threads.iter().map(of).sum() }
    }

    /// Returns the highest value of any CPU; `None` if the kernel reports no CPUs.
    pub fn most(&self, of: impl Fn(&CpuGrown) -> f64) -> Option<f64> {
        self.cpus.iter().map(of).max_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_was_not_read_is_none_and_never_zero() {
        let (empty, grown) = (Counters::default(), Counters::default().since(&Counters::default()));
        assert_eq!((grown.sum(|thread| Some(thread.ran)), grown.most(|cpu| cpu.busy)), (None, None));
        assert_eq!((grown.throttled, grown.pressure.get("cpu")), (None, None));
        let thread = |moves| Counters {
            at: Duration::from_secs(2),
            threads: BTreeMap::from([(7, Thread { involuntary: 30, moves, ..Thread::default() })]),
            ..empty.clone()
        };
        let mut before = thread(Some(3));
        (before.at, before.threads.get_mut(&7).unwrap().involuntary) = (Duration::ZERO, 10);
        let grown = thread(None).since(&before);
        assert_eq!(grown.sum(|thread| Some(thread.involuntary_per_s)), Some(10.0));
        assert_eq!(grown.sum(|thread| thread.moves_per_s), None);
    }

    #[test]
    fn shares_of_a_cpu_are_of_its_own_time() {
        let stat = |text: &str, at| Counters { at: Duration::from_secs(at), cpus: ticks(text), ..Counters::default() };
        let before = stat("cpu  9 9 9 9 9 9 9 9\ncpu0 0 0 0 100 0 0 0 0 0 0\ncpu3 0 0 0 0 0 0 0 0\nintr 1", 0);
        let after = stat("cpu  9 9 9 9 9 9 9 9\ncpu0 10 0 10 150 0 0 20 10 0 0\ncpu3 5 0 0 0 0 0 0 5\nintr 2", 1);
        let grown = after.since(&before);
        assert_eq!(grown.cpus.iter().map(|cpu| cpu.number).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(grown.cpus[0], CpuGrown { number: 0, busy: 0.5, softirq: 0.2, steal: 0.1 });
        assert_eq!(grown.most(|cpu| cpu.steal), Some(0.5));
    }

    #[test]
    fn counters_of_the_own_process_show_cpu_time() {
        let host = Host::now("/".into(), Some(std::process::id()));
        let begun = std::time::Instant::now();
        let before = Counters::read(&host, begun.elapsed());
        let ran = loop {
            std::hint::black_box((0..2_000_000_u64).sum::<u64>());
            let grown = Counters::read(&host, begun.elapsed()).since(&before);
            let ran = grown.sum(|thread| Some(thread.ran)).expect("its threads are there");
            if ran > 0.0 || begun.elapsed().as_secs() > 20 {
                break ran;
            }
        };
        assert!(ran > 0.0 && !before.cpus.is_empty());
    }
}
