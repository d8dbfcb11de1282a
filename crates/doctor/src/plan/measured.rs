//! Derives the number of CPUs that the network needs from the CPUs' activity under the load that is planned for.
//!
//! ```text
//!   /proc/stat, twice:   interrupts and soft interrupts of all CPUs ─> network    / 0.80 ─> CPUs for the network
//!                        user and system time of all CPUs           ─> threads    / 0.95 ─> CPUs for the threads
//! ```
//! The sums over all CPUs do not depend on which CPU did the work, so the host need not follow a plan during the
//! measurement. If a CPU of the network is busy for more than four fifths of the time, bursts of packets wait. A worker
//! may use nearly all of its CPU.

use super::{NETWORK_CPUS_MAX, Wanted};
use crate::counters::ticks;
use crate::host::{Host, Unread};
use crate::topology::Topology;

/// Maximum busy share of a CPU of the network.
const NETWORK_BUSY_MAX: f64 = 0.8;
const THREAD_BUSY_MAX: f64 = 0.95;
/// Minimum busy share of the host. Below it, the measurement does not represent the load that is planned for.
const BUSY_MIN: f64 = 0.25;
/// Minimum number of cores of a host on which a core is reserved for the network.
const CORES_MIN: usize = 3;

/// The activity of all CPUs during the window, as numbers of CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CpuLoad {
    network: f64,
    threads: f64,
    cpus: usize,
}

fn load(host: &Host) -> Result<CpuLoad, Unread> {
    let twice = host.twice("/proc/stat")?;
    let (before, after) = (ticks(&twice.before), ticks(&twice.after));
    let mut load = CpuLoad { network: 0.0, threads: 0.0, cpus: 0 };
    for (cpu, after) in &after {
        let Some(before) = before.get(cpu) else { continue };
        let grown: Vec<f64> = after.iter().zip(before).map(|(a, b)| a.saturating_sub(*b) as f64).collect();
        let sum = grown.iter().sum::<f64>().max(1.0);
        load.threads += (grown[0] + grown[1] + grown[2]) / sum;
        load.network += (grown[5] + grown[6]) / sum;
        load.cpus += 1;
    }
    if load.cpus == 0 { Err(Unread::Garbage("/proc/stat".to_owned(), "lines of CPUs")) } else { Ok(load) }
}

/// Returns `wanted` with the number of network CPUs that the host's load needs, and a sentence about the measurement.
///
/// # Errors
/// [`Unread`]: if the counters were not read twice.
pub fn measured(host: &Host, topology: &Topology, wanted: Wanted) -> Result<(Wanted, String), Unread> {
    let load = load(host)?;
    let mut cores: Vec<usize> = topology.cpus.iter().filter(|cpu| cpu.is_allowed).map(|cpu| cpu.core).collect();
    cores.sort_unstable();
    cores.dedup();
    let load_text =
        format!("Measured: interrupts took {:.1} CPUs, threads {:.1}, of {}", load.network, load.threads, load.cpus);
    if load.network + load.threads < BUSY_MIN * load.cpus as f64 {
        return Ok((
            wanted,
            format!("{load_text}: too little for a plan; measure under the load that the plan is for."),
        ));
    }
    if cores.len() < CORES_MIN {
        return Ok((wanted, format!("{load_text}; too few cores to reserve one for the network.")));
    }
    // A load that exceeds a whole number of CPUs by at most a thousandth does not need another CPU.
    let cpus = |load: f64, busy: f64| (load / busy - 1e-3).ceil() as usize;
    let needed = cpus(load.network, NETWORK_BUSY_MAX);
    let hot = wanted.workers.unwrap_or_else(|| cpus(load.threads, THREAD_BUSY_MAX));
    let room = cores.len().saturating_sub(hot).max(1);
    let queues = needed.clamp(1, NETWORK_CPUS_MAX).min(room);
    let short = if queues < needed { ", though it needs more: the threads leave no others" } else { "" };
    let what = if queues == 1 { "one CPU is the network's".to_owned() } else { format!("{queues} are the network's") };
    Ok((Wanted { queues: Some(queues), ..wanted }, format!("{load_text}: {what}{short}.")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Cpu;

    /// Plans for a host of `cores` cores. Each core spent a second with these ticks of user, softirq and idle time.
    fn planned(name: &str, cores: usize, [user, softirq, idle]: [u64; 3]) -> (Option<usize>, String) {
        let root = std::env::temp_dir().join(format!("gannet-measured-{}-{name}", std::process::id()));
        let stat = |times: u64| -> String {
            let line = |cpu| format!("cpu{cpu} {} 0 0 {} 0 0 {} 0 0 0\n", user * times, idle * times, softirq * times);
            (0..cores).map(line).collect()
        };
        for (folder, times) in [("proc", 3), ("later/proc", 4)] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
            std::fs::write(root.join(folder).join("stat"), stat(times)).unwrap();
        }
        let cpu = |number| Cpu { number, package: 0, core: number, l3: None, node: 0, is_allowed: true };
        let topology = Topology { cpus: (0..cores).map(cpu).collect(), ..Topology::default() };
        let (wanted, load_text) = measured(&Host::now(root.clone(), None), &topology, Wanted::default()).unwrap();
        let _ = std::fs::remove_dir_all(root);
        (wanted.queues, load_text)
    }

    #[test]
    fn the_network_has_as_many_cpus_as_its_work_needs_and_the_threads_leave() {
        // Packets take a fifth of each of 16 CPUs, 3.2 CPUs in total. Four CPUs handle that, busy for four fifths.
        let (queues, load_text) = planned("fits", 16, [50, 20, 30]);
        assert_eq!(
            (queues, load_text.as_str()),
            (Some(4), "Measured: interrupts took 3.2 CPUs, threads 8.0, of 16: 4 are the network's.")
        );
        // The threads use 12.8 CPUs and so need 14, which leaves two for the network.
        let (queues, load_text) = planned("short", 16, [80, 20, 0]);
        assert!(queues == Some(2) && load_text.contains("though it needs more"), "{queues:?} {load_text}");
        assert_eq!(planned("few", 8, [60, 5, 35]).0, Some(1));
        // On an idle host, or one that is too small, the rules apply unchanged.
        assert_eq!((planned("idle", 16, [3, 1, 96]).0, planned("small", 2, [60, 20, 20]).0), (None, None));
    }
}
