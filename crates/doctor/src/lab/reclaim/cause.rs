//! Finds the cause of a slow read: the state in which its thread spent the time, according to the kernel's accounting.
//!
//! ```text
//!   time of a read = run queue + on the CPU + off it
//!                       │         └────┬──────┘  └ disk if there was a major fault, else blocked (a lock, throttled)
//!                       │              └ reclaim: the thread itself freed memory, on the CPU or off it
//!                       └ run queue, or steal if the hypervisor took the CPU
//! ```
//! The delay accounting of taskstats reports the time for which a thread freed memory, whichever limit caused that. A
//! counter of reached limits would not show this, because other threads reach the limits all the time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::netlink::{Family, attribute, find};

/// Maximum number of bytes read from a file. The needed values are within this part of every file.
const BYTES_MAX: usize = 16 << 10;
/// Index of the major faults among the fields of /proc/PID/stat after the name.
const MAJOR_FAULTS: usize = 9;
/// Index of the steal time among the fields of the first line of /proc/stat after its name.
const STEAL: usize = 7;
/// Length of a tick of /proc/stat, in ns.
const TICK_NS: u64 = 10_000_000;

/// Numbers of taskstats (linux/taskstats.h): the request for a thread's statistics, and the attributes of the reply.
const GET: u8 = 1;
const THREAD: u16 = 1;
const OF_THREAD: u16 = 4;
const STATISTICS: u16 = 3;
/// Offset of the time in direct reclaim within the statistics, in bytes. The time is in ns.
const RECLAIM_AT: usize = 320;

/// The main cause of a slow read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The thread had to free memory first.
    Reclaim,
    /// Pages had to be read from a disk.
    Disk,
    /// The thread was off the CPU for another reason.
    Blocked,
    /// The thread was runnable, and other threads used the CPU.
    RunQueue,
    /// The hypervisor ran other guests on the CPU.
    Steal,
    /// The thread was on the CPU all the time.
    Cpu,
}

impl Cause {
    /// All causes, each with the name of its figure.
    pub const ALL: [(&'static str, Self); 6] = [
        ("slow_reclaim", Self::Reclaim),
        ("slow_disk", Self::Disk),
        ("slow_blocked", Self::Blocked),
        ("slow_run_queue", Self::RunQueue),
        ("slow_steal", Self::Steal),
        ("slow_cpu", Self::Cpu),
    ];
}

/// Counters of a thread and of its surroundings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounters {
    /// Time on a CPU, in ns.
    pub run_ns: u64,
    /// Time in a run queue, in ns.
    pub wait_ns: u64,
    /// Major faults: pages that were read from a disk for the thread.
    pub major_faults: u64,
    /// Time for which the thread itself freed memory, on or off a CPU, in ns.
    pub reclaim_ns: u64,
    /// Time stolen by the hypervisor, in ticks of all CPUs.
    pub steal: u64,
}

/// Returns the main cause of a read's delay of `ns` nanoseconds, from the counters before and after the read.
pub fn cause(before: &ThreadCounters, after: &ThreadCounters, ns: u64) -> Cause {
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

/// The delay accounting of the thread that created it.
#[derive(Debug)]
pub struct Delays {
    taskstats: Family,
    thread: Vec<u8>,
}

impl Delays {
    /// Opens the accounting of this thread.
    ///
    /// # Errors
    /// If the kernel has no taskstats, or reports them only to root.
    pub fn new() -> Result<Self, String> {
        let taskstats = Family::open("TASKSTATS").map_err(|error| format!("taskstats: {error}"))?;
        let thread = attribute(THREAD, &rustix::thread::gettid().as_raw_nonzero().get().to_ne_bytes());
        let mut delays = Self { taskstats, thread };
        delays.reclaim_ns().map_err(|error| format!("taskstats: {error}"))?;
        Ok(delays)
    }

    /// Returns the time in direct reclaim until now, in ns.
    fn reclaim_ns(&mut self) -> std::io::Result<u64> {
        let reply = self.taskstats.request(GET, &self.thread)?;
        let statistics = find(reply, OF_THREAD).and_then(|inner| find(inner, STATISTICS)).unwrap_or_default();
        let bytes = statistics.get(RECLAIM_AT..).and_then(|rest| rest.first_chunk());
        bytes.map(|bytes| u64::from_ne_bytes(*bytes)).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
    }
}

/// A reader of the counters of the thread that created it.
#[derive(Debug)]
pub struct Meter {
    stat: File,
    schedstat: File,
    cpus: File,
    delays: Option<Delays>,
    buffer: Vec<u8>,
}

impl Meter {
    /// Opens the counters of this thread. With `counts_reclaim` they include its time in direct reclaim, which is 0
    /// otherwise.
    ///
    /// # Errors
    /// The name of a missing counter.
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

    /// Reads the counters.
    pub fn read(&mut self) -> ThreadCounters {
        let buffer = &mut self.buffer;
        let major_faults = words(text(&self.stat, buffer).rsplit(')').next().unwrap_or_default(), MAJOR_FAULTS);
        let times = text(&self.schedstat, buffer);
        let (run_ns, wait_ns) = (words(times, 0), words(times, 1));
        let steal = words(text(&self.cpus, buffer).lines().next().unwrap_or_default(), STEAL + 1);
        let reclaim_ns = self.delays.as_mut().and_then(|delays| delays.reclaim_ns().ok()).unwrap_or(0);
        ThreadCounters { run_ns, wait_ns, major_faults, reclaim_ns, steal }
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
        let read = |run_ns, wait_ns, major_faults, reclaim_ns, steal| ThreadCounters {
            run_ns,
            wait_ns,
            major_faults,
            reclaim_ns,
            steal,
        };
        let zero = ThreadCounters::default();
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
    fn taskstats_reply_is_for_the_calling_thread_and_long_enough() {
        let Ok(mut delays) = Delays::new() else {
            eprintln!("skipped: taskstats are for root, and this kernel may have none");
            return;
        };
        let reply = delays.taskstats.request(GET, &delays.thread).unwrap();
        let statistics = find(find(reply, OF_THREAD).unwrap(), STATISTICS).unwrap();
        // The thread's id is at offset 128 in every version. If it is correct, the statistics have the expected layout.
        let id = i32::from_ne_bytes(statistics[128..132].try_into().unwrap());
        assert_eq!(id, rustix::thread::gettid().as_raw_nonzero().get());
        assert!(statistics.len() >= RECLAIM_AT + 8 && delays.reclaim_ns().is_ok());
    }
}
