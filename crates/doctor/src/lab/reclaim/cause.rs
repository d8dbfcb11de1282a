//! Why a read was slow: where its thread was meanwhile, and what the kernel counted.
//!
//! ```text
//!   time of a read = run queue + on the CPU + off it
//!                       │           │            └ a major fault: disk, else blocked (a lock, throttled)
//!                       │           └ the limit was reached, or pages were scanned: reclaim, else CPU
//!                       └ run queue, or steal where the hypervisor took the CPU
//! ```

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host::field;

/// Bytes of a file that are read: more than any of them has before what is looked for.
const BYTES_MAX: usize = 16 << 10;
/// Fields of /proc/PID/stat behind the name: major faults.
const MAJOR_FAULTS: usize = 9;
/// Of the first line of /proc/stat, behind its name: steal.
const STEAL: usize = 7;
/// What a tick of /proc/stat is, in ns.
const TICK_NS: u64 = 10_000_000;

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
    /// Times that its memory's limit was reached, or pages scanned by who needed memory.
    pub pressed: u64,
    /// The hypervisor's time, in ticks of all CPUs.
    pub steal: u64,
}

/// What a read between two readings was held up by.
pub fn cause(before: &Reading, after: &Reading, ns: u64) -> Cause {
    let (run, wait) = (after.run_ns.saturating_sub(before.run_ns), after.wait_ns.saturating_sub(before.wait_ns));
    let off = ns.saturating_sub(run + wait);
    let pressed = after.pressed > before.pressed;
    if wait >= run.max(off) {
        let stolen = after.steal.saturating_sub(before.steal) * TICK_NS;
        if stolen >= ns / 2 { Cause::Steal } else { Cause::RunQueue }
    } else if off > run {
        match (after.major_faults > before.major_faults, pressed) {
            (true, _) => Cause::Disk,
            (false, true) => Cause::Reclaim,
            (false, false) => Cause::Blocked,
        }
    } else if pressed {
        Cause::Reclaim
    } else {
        Cause::Cpu
    }
}

/// Where it is told that memory is short.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Pressed {
    /// `memory.failcnt` of a group: a number.
    Number(PathBuf),
    /// `memory.events` of a group, or /proc/vmstat: names and numbers; this one counts.
    Field(PathBuf, String),
}

/// Reads the counters of the thread that made it.
#[derive(Debug)]
pub struct Meter {
    stat: File,
    schedstat: File,
    cpus: File,
    pressed: Option<(File, Pressed)>,
    buffer: Vec<u8>,
}

impl Meter {
    /// Of this thread.
    ///
    /// # Errors
    /// The file that is not there.
    pub fn new(pressed: &Pressed) -> Result<Self, String> {
        let open = |path: &Path| File::open(path).map_err(|error| format!("{}: {error}", path.display()));
        let (Pressed::Number(path) | Pressed::Field(path, _)) = pressed;
        Ok(Self {
            stat: open("/proc/thread-self/stat".as_ref())?,
            schedstat: open("/proc/thread-self/schedstat".as_ref())?,
            cpus: open("/proc/stat".as_ref())?,
            pressed: File::open(path).ok().map(|file| (file, pressed.clone())),
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
        let pressed = match &self.pressed {
            Some((file, Pressed::Number(_))) => words(text(file, buffer), 0),
            Some((file, Pressed::Field(_, key))) => field(text(file, buffer), key).unwrap_or(0).unsigned_abs(),
            None => 0,
        };
        Reading { run_ns, wait_ns, major_faults, pressed, steal }
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
        let read =
            |run_ns, wait_ns, major_faults, pressed, steal| Reading { run_ns, wait_ns, major_faults, pressed, steal };
        let zero = Reading::default();
        let ms = 1_000_000;
        for (after, wanted) in [
            (read(0, 8 * ms, 1, 1, 0), Cause::RunQueue),
            (read(0, 8 * ms, 1, 1, 1), Cause::Steal),
            (read(ms, ms, 1, 1, 1), Cause::Disk),
            (read(ms, ms, 0, 1, 0), Cause::Reclaim),
            (read(ms, ms, 0, 0, 0), Cause::Blocked),
            (read(8 * ms, ms, 1, 1, 0), Cause::Reclaim),
            (read(8 * ms, ms, 1, 0, 0), Cause::Cpu),
        ] {
            assert_eq!(cause(&zero, &after, 10 * ms), wanted, "{after:?}");
        }
    }

    #[test]
    fn a_thread_reads_its_own_time_on_the_cpu() {
        let Ok(mut meter) = Meter::new(&Pressed::Field("/proc/vmstat".into(), "pgfault".to_owned())) else {
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
        assert!(after.run_ns > before.run_ns && before.pressed > 0, "{before:?} {after:?}");
    }
}
