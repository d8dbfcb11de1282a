//! Why a read was slow: where its thread was meanwhile, by the kernel's own account of it.
//!
//! ```text
//!   time of a read = run queue + on the CPU + off it
//!                       │         └────┬──────┘  └ a major fault: disk, else blocked (a lock, throttled)
//!                       │              └ reclaim: the thread itself freed memory, on the CPU or off it
//!                       └ run queue, or steal where the hypervisor took the CPU
//! ```
//! How long a thread freed memory is told by the delay accounting of taskstats, whoever's limit it was. That a limit
//! was reached meanwhile says nothing of it: other threads reach it all the time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::netlink::{Family, attribute, find};

/// Bytes of a file that are read: more than any of them has before what is looked for.
const BYTES_MAX: usize = 16 << 10;
/// Fields of /proc/PID/stat behind the name: major faults.
const MAJOR_FAULTS: usize = 9;
/// Of the first line of /proc/stat, behind its name: steal.
const STEAL: usize = 7;
/// What a tick of /proc/stat is, in ns.
const TICK_NS: u64 = 10_000_000;

/// Of taskstats (linux/taskstats.h): the question for a thread, and where the answer has its statistics.
const GET: u8 = 1;
const THREAD: u16 = 1;
const OF_THREAD: u16 = 4;
const STATISTICS: u16 = 3;
/// Where in these the time of direct reclaim is, in ns.
const RECLAIM_AT: usize = 320;

/// What held a read up most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Pages had to be freed first.
    Reclaim,
    /// Pages had to be read.
    Disk,
    /// It was off the CPU for another reason.
    Blocked,
    /// Others had the CPU.
    RunQueue,
    /// The hypervisor had it.
    Steal,
    /// It was on the CPU all the while.
    Cpu,
}

impl Cause {
    /// All of them with the name of their figure.
    pub const ALL: [(&'static str, Self); 6] = [
        ("slow_reclaim", Self::Reclaim),
        ("slow_disk", Self::Disk),
        ("slow_blocked", Self::Blocked),
        ("slow_run_queue", Self::RunQueue),
        ("slow_steal", Self::Steal),
        ("slow_cpu", Self::Cpu),
    ];
}

/// Counters of a thread and of what is around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Time on a CPU.
    pub run_ns: u64,
    /// Time in a run queue.
    pub wait_ns: u64,
    /// Pages that were read from a disk for it.
    pub major_faults: u64,
    /// Time in which it freed memory itself, on a CPU or off it.
    pub reclaim_ns: u64,
    /// The hypervisor's time, in ticks of all CPUs.
    pub steal: u64,
}

/// What a read between two readings was held up by.
pub fn cause(before: &Reading, after: &Reading, ns: u64) -> Cause {
    let (run, wait) = (after.run_ns.saturating_sub(before.run_ns), after.wait_ns.saturating_sub(before.wait_ns));
    let off = ns.saturating_sub(run + wait);
    if after.reclaim_ns.saturating_sub(before.reclaim_ns) >= ns / 2 {
        Cause::Reclaim
    } else if wait >= run.max(off) {
        let stolen = after.steal.saturating_sub(before.steal) * TICK_NS;
        if stolen >= ns / 2 { Cause::Steal } else { Cause::RunQueue }
    } else if off > run {
        if after.major_faults > before.major_faults { Cause::Disk } else { Cause::Blocked }
    } else {
        Cause::Cpu
    }
}

/// The delays of the thread that made it.
#[derive(Debug)]
pub struct Delays {
    taskstats: Family,
    thread: Vec<u8>,
}

impl Delays {
    /// Of this thread.
    ///
    /// # Errors
    /// The kernel has no taskstats, or does not tell them to whoever is not root.
    pub fn new() -> Result<Self, String> {
        let taskstats = Family::open("TASKSTATS").map_err(|error| format!("taskstats: {error}"))?;
        let thread = attribute(THREAD, &rustix::thread::gettid().as_raw_nonzero().get().to_ne_bytes());
        let mut delays = Self { taskstats, thread };
        delays.reclaim_ns().map_err(|error| format!("taskstats: {error}"))?;
        Ok(delays)
    }

    /// Time in direct reclaim until now.
    fn reclaim_ns(&mut self) -> std::io::Result<u64> {
        let told = self.taskstats.ask(GET, &self.thread)?;
        let statistics = find(told, OF_THREAD).and_then(|inner| find(inner, STATISTICS)).unwrap_or_default();
        let bytes = statistics.get(RECLAIM_AT..).and_then(|rest| rest.first_chunk());
        bytes.map(|bytes| u64::from_ne_bytes(*bytes)).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
    }
}

/// Reads the counters of the thread that made it.
#[derive(Debug)]
pub struct Meter {
    stat: File,
    schedstat: File,
    cpus: File,
    delays: Option<Delays>,
    buffer: Vec<u8>,
}

impl Meter {
    /// Of this thread; with `counts_reclaim` its time in direct reclaim too, which is 0 otherwise.
    ///
    /// # Errors
    /// What is not there.
    pub fn new(counts_reclaim: bool) -> Result<Self, String> {
        let open = |path: &Path| File::open(path).map_err(|error| format!("{}: {error}", path.display()));
        Ok(Self {
            stat: open("/proc/thread-self/stat".as_ref())?,
            schedstat: open("/proc/thread-self/schedstat".as_ref())?,
            cpus: open("/proc/stat".as_ref())?,
            delays: counts_reclaim.then(Delays::new).transpose()?,
            buffer: vec![0; BYTES_MAX],
        })
    }

    /// What they are now.
    pub fn read(&mut self) -> Reading {
        let buffer = &mut self.buffer;
        let major_faults = words(text(&self.stat, buffer).rsplit(')').next().unwrap_or_default(), MAJOR_FAULTS);
        let times = text(&self.schedstat, buffer);
        let (run_ns, wait_ns) = (words(times, 0), words(times, 1));
        let steal = words(text(&self.cpus, buffer).lines().next().unwrap_or_default(), STEAL + 1);
        let reclaim_ns = self.delays.as_mut().and_then(|delays| delays.reclaim_ns().ok()).unwrap_or(0);
        Reading { run_ns, wait_ns, major_faults, reclaim_ns, steal }
    }
}

fn text<'a>(file: &File, buffer: &'a mut [u8]) -> &'a str {
    let bytes = file.read_at(buffer, 0).unwrap_or(0);
    std::str::from_utf8(&buffer[..bytes]).unwrap_or_default()
}

fn words(text: &str, at: usize) -> u64 {
    text.split_whitespace().nth(at).and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_part_of_a_read_names_its_cause() {
        let read = |run_ns, wait_ns, major_faults, reclaim_ns, steal| Reading {
            run_ns,
            wait_ns,
            major_faults,
            reclaim_ns,
            steal,
        };
        let zero = Reading::default();
        let ms = 1_000_000;
        for (after, wanted) in [
            (read(0, 8 * ms, 1, ms, 0), Cause::RunQueue),
            (read(0, 8 * ms, 1, ms, 1), Cause::Steal),
            (read(ms, ms, 1, 4 * ms, 1), Cause::Disk),
            (read(ms, ms, 1, 6 * ms, 1), Cause::Reclaim),
            (read(ms, ms, 0, ms, 0), Cause::Blocked),
            (read(8 * ms, ms, 1, 7 * ms, 0), Cause::Reclaim),
            (read(8 * ms, ms, 1, 0, 0), Cause::Cpu),
        ] {
            assert_eq!(cause(&zero, &after, 10 * ms), wanted, "{after:?}");
        }
    }

    #[test]
    fn a_thread_reads_its_own_time_on_the_cpu() {
        let Ok(mut meter) = Meter::new(false) else {
            eprintln!("skipped: this kernel does not tell threads' times");
            return;
        };
        let before = meter.read();
        let begun = std::time::Instant::now();
        let mut sum = 0u64;
        while begun.elapsed() < std::time::Duration::from_millis(30) {
            sum = std::hint::black_box(sum + 1);
        }
        let after = meter.read();
        assert!(after.run_ns > before.run_ns && after.reclaim_ns == 0, "{before:?} {after:?}");
    }

    #[test]
    fn what_taskstats_tell_is_of_this_thread_and_long_enough() {
        let Ok(mut delays) = Delays::new() else {
            eprintln!("skipped: taskstats are for root, and this kernel may have none");
            return;
        };
        let told = delays.taskstats.ask(GET, &delays.thread).unwrap();
        let statistics = find(find(told, OF_THREAD).unwrap(), STATISTICS).unwrap();
        // Its number, which stands at 128 in every version: the layout is the one that is read.
        let id = i32::from_ne_bytes(statistics[128..132].try_into().unwrap());
        assert_eq!(id, rustix::thread::gettid().as_raw_nonzero().get());
        assert!(statistics.len() >= RECLAIM_AT + 8 && delays.reclaim_ns().is_ok());
    }
}
