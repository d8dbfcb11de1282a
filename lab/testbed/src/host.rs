//! Reads facts about the machine, and the CPU time and memory of processes. Measurements print them with their results.

use std::fs;
use std::process::Command;

/// CPU time of the whole machine since it started, in clock ticks (1/100 s).
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineTicks {
    /// Ticks in all states.
    pub total: u64,
    /// Ticks in states other than idle and steal.
    pub busy: u64,
    /// Ticks taken by the hypervisor.
    pub steal: u64,
}

/// One clock tick of `/proc/stat`, in nanoseconds.
pub const TICK_NS: u64 = 10_000_000;

/// Returns the machine's CPU time so far.
pub fn ticks() -> MachineTicks {
    fs::read_to_string("/proc/stat").map(|text| parse_ticks(&text)).unwrap_or_default()
}

fn parse_ticks(stat: &str) -> MachineTicks {
    let line = stat.lines().next().unwrap_or_default();
    let fields: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|field| field.parse().ok()).collect();
    let field = |index: usize| fields.get(index).copied().unwrap_or(0);
    let total: u64 = fields.iter().sum();
    MachineTicks { total, busy: total - field(3) - field(4) - field(7), steal: field(7) }
}

/// Returns the nanoseconds for which the live threads of process `pid` were on a CPU, in total.
pub fn cpu_ns(pid: u32) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let of_task = |entry: fs::DirEntry| -> Option<u64> {
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    tasks.filter_map(Result::ok).filter_map(of_task).sum()
}

/// Returns the CPU time of this process's children that have ended and were waited for, in nanoseconds.
pub fn children_cpu_ns() -> u64 {
    // The fields `cutime` and `cstime`: the user and system time of ended children.
    stat_ticks("self", 13) * TICK_NS
}

/// Returns the nanoseconds for which all threads of process `pid` were on a CPU, including ended threads; a multiple of
/// a tick.
pub fn whole_cpu_ns(pid: u32) -> u64 {
    // The fields `utime` and `stime`: the user and system time of the process.
    stat_ticks(&pid.to_string(), 11) * TICK_NS
}

/// Returns the sum of two adjacent fields of a process's `stat` file. `from` is the number of fields between the
/// process's name and the first of the two.
fn stat_ticks(process: &str, from: usize) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // proc(5): the name is in brackets and may contain any character.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().skip(from).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Returns the resident memory of process `pid` in bytes.
pub fn rss_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Returns the memory that new programs can use without swapping (`MemAvailable`), in bytes.
pub fn memory_available_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Returns one line with the machine's CPU, memory and kernel, and the version of memcached.
pub fn facts() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo");
    let model = model.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("?");
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = read("/proc/meminfo");
    let kib: u64 = memory.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0);
    let kernel = read("/proc/sys/kernel/osrelease");
    let pages = read("/sys/kernel/mm/transparent_hugepage/enabled");
    let pages = pages.split(['[', ']']).nth(1).unwrap_or("absent").to_owned();
    let peer = Command::new("memcached")
        .arg("-V")
        .output()
        .map_or_else(|_| "no memcached".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    format!(
        "{} ({cpus} CPUs, {} GiB), Linux {}, transparent huge pages: {pages}, {peer}",
        model.trim_start_matches([' ', '\t', ':']),
        kib / 1024 / 1024,
        kernel.trim(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ticks_of_idle_and_steal_are_not_busy() {
        let ticks = parse_ticks("cpu  10 1 5 100 4 2 3 7 0 0\ncpu0 1 1 1 1\n");
        assert_eq!((ticks.total, ticks.busy, ticks.steal), (132, 21, 7));
    }

    #[test]
    fn this_process_uses_cpu_and_memory() {
        let pid = std::process::id();
        // The kernel counts CPU time in ticks (often 10 ms), so the test works until at least one tick is counted.
        let before = cpu_ns(pid);
        let mut sum = 0u64;
        let used = (0..10_000).any(|_| {
            for i in 0..1_000_000u64 {
                sum = std::hint::black_box(sum ^ i);
            }
            cpu_ns(pid) > before
        });
        assert!(used, "no tick of CPU time in 10^10 steps");
        assert!(rss_bytes(pid) > 100_000);
    }
}
