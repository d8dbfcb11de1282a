//! The CPUs of busy threads, and other users of these CPUs: sibling CPUs, shared caches, kernel work, interrupts.

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::host::{Host, Unread};
use crate::topology::{Topology, cpu_list};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "cpu.smt-siblings",
        reads: "/sys/devices/system/cpu/cpu*/topology/thread_siblings_list, /proc/PID/task/*/{stat,status}, read twice",
        mechanism: "Two busy threads on the two CPUs of one core share its execution units and caches. Each runs at \
                    about half speed, and the speed varies with the other thread's work.",
        remedy: "run one busy thread per core; see `gannet doctor plan`",
        expect: "steadier times and more work per thread; less total throughput if CPUs stay idle",
        needs: Needs::Nothing,
        undo: "restore the old affinity",
        source: "kernel: admin-guide/cputopology",
        probe: siblings,
    },
    Check {
        id: "cpu.cache-sharing",
        reads: "/sys/devices/system/cpu/cpu*/cache/index*/shared_cpu_list, /proc/PID/task/*/{stat,status}, read twice",
        mechanism: "Data that one thread writes and another reads is transferred between their caches. Between CPUs \
                    with different last-level caches this takes several times as long.",
        remedy: "run the threads of one process on CPUs that share a cache, if it has enough CPUs; see `gannet \
                 doctor plan`",
        expect: "cheaper hand-overs between threads; no change if the threads share no data",
        needs: Needs::Nothing,
        undo: "restore the old affinity",
        source: "kernel: admin-guide/cputopology",
        probe: caches,
    },
    Check {
        id: "cpu.workqueue-mask",
        reads: "/sys/devices/virtual/workqueue/cpumask, the CPUs that are isolated or that the process is pinned to",
        mechanism: "The kernel's own work (writeback, driver timers) runs on the CPUs of this mask. On the CPU of a \
                    pinned thread, the thread waits until the work is done.",
        remedy: "write a mask without the isolated and pinned CPUs into it",
        expect: "no kernel work on the pinned CPUs; more on the other CPUs",
        needs: Needs::Root,
        undo: "write the old mask back",
        source: "kernel: core-api/workqueue",
        probe: workqueue,
    },
    Check {
        id: "irq.affinity",
        reads: "/proc/interrupts, /proc/irq/*/{effective_affinity_list,smp_affinity_list}, /proc/PID/task/*, twice",
        mechanism: "A network interface's interrupts, and the kernel's work on its packets, run on the CPUs of the \
                    interrupts' affinity. A busy thread on such a CPU waits for each of them.",
        remedy: "write the network CPUs of `gannet doctor plan` into smp_affinity_list; the kernel refuses this for \
                 interrupts that the driver manages",
        expect: "packets do not interrupt workers, which helps under load; each wake-up from another CPU costs \
                 slightly more",
        needs: Needs::Root,
        undo: "write the old list back",
        source: "kernel: core-api/irq/irq-affinity",
        probe: interrupts,
    },
];

/// A thread of the process that uses at least [`BUSY_SHARE_MIN`] of a CPU.
pub(super) struct Busy {
    pub name: String,
    /// The CPU that the thread is pinned to; if it is not pinned, the CPU on which it ran last.
    pub cpu: usize,
    is_pinned: bool,
}

/// Minimum share of a CPU that a busy thread uses.
const BUSY_SHARE_MIN: f64 = 0.2;
/// Ticks per second in /proc.
const TICKS_A_SECOND: f64 = 100.0;

/// Returns a thread's CPU time in ticks and the CPU on which it ran last, from its file `stat`.
fn ticks(text: &str) -> Option<(u64, usize)> {
    // The thread's name may contain any characters, and ends at the last parenthesis.
    let words: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    Some((number(11)? + number(12)?, number(36)? as usize))
}

/// Returns the busy threads of the process.
pub(super) fn busy(host: &Host) -> Result<Vec<Busy>, Unread> {
    let (mut threads, mut unread, mut is_read) = (Vec::new(), None, false);
    for thread in host.threads()? {
        let path = format!("{thread}/stat");
        let twice = match host.twice(&path) {
            Ok(twice) => twice,
            // The thread started between the two readings, or has ended.
            Err(why) => {
                unread = Some(why);
                continue;
            }
        };
        is_read = true;
        let garbage = || Unread::Garbage(path.clone(), "ticks and CPU");
        let (before, _) = ticks(&twice.before).ok_or_else(garbage)?;
        let (after, last) = ticks(&twice.after).ok_or_else(garbage)?;
        if after.saturating_sub(before) as f64 / TICKS_A_SECOND / twice.seconds.max(0.001) < BUSY_SHARE_MIN {
            continue;
        }
        let path = format!("{thread}/status");
        let text = host.read(&path)?;
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let list = list.ok_or_else(|| Unread::Garbage(path.clone(), "Cpus_allowed_list"))?;
        let allowed = cpu_list(&path, list.trim())?;
        let name = host.read(&format!("{thread}/comm")).unwrap_or_else(|_| thread.clone());
        let is_pinned = allowed.len() == 1;
        threads.push(Busy { name, cpu: if is_pinned { allowed[0] } else { last }, is_pinned });
    }
    // If no thread could be read, the result is an error: the threads may be busy or idle.
    unread.filter(|_| !is_read).map_or(Ok(threads), Err)
}

/// Returns the topology, if the kernel reports siblings.
fn topology(host: &Host) -> Result<Topology, Unread> {
    let first = host.cpus()?.remove(0);
    host.read(&format!("/sys/devices/system/cpu/{first}/topology/thread_siblings_list"))?;
    // Passes no process id, because this function's callers do not use the topology's allowed CPUs.
    Topology::read(host, None)
}

fn siblings(host: &Host) -> Probed {
    let topology = topology(host)?;
    let has_siblings = topology.cpus.iter().any(|cpu| cpu.core != cpu.number);
    if !has_siblings {
        return Ok(ProbeResult::ok("no core has two CPUs"));
    }
    let busy = busy(host)?;
    let core = |thread: &Busy| topology.cpu(thread.cpu).map(|cpu| cpu.core);
    let pair = busy.iter().enumerate().find_map(|(at, one)| {
        let other = busy[at + 1..].iter().find(|other| core(other) == core(one) && other.cpu != one.cpu)?;
        Some(format!("{} and {} share a core (CPUs {} and {})", one.name, other.name, one.cpu, other.cpu))
    });
    Ok(pair
        .map_or_else(|| ProbeResult::ok(format!("{} busy threads, each on its core", busy.len())), ProbeResult::warn))
}

fn caches(host: &Host) -> Probed {
    let topology = topology(host)?;
    if topology.cpus.iter().any(|cpu| cpu.l3.is_none()) {
        return Err(Unread::Absent("/sys/devices/system/cpu/cpu*/cache/index*/level of 3".to_owned()));
    }
    let room = |l3| topology.cpus.iter().filter(|cpu| cpu.l3 == l3 && cpu.core == cpu.number).count();
    let most = topology.cpus.iter().map(|cpu| room(cpu.l3)).max().unwrap_or(0);
    if topology.cpus.iter().all(|cpu| cpu.l3 == topology.cpus[0].l3) {
        return Ok(ProbeResult::ok("all CPUs share one cache"));
    }
    let busy = busy(host)?;
    let mut used: Vec<Option<usize>> = busy.iter().filter_map(|thread| Some(topology.cpu(thread.cpu)?.l3)).collect();
    used.sort_unstable();
    used.dedup();
    let value = format!("{} busy threads in {} caches, the largest with {most} cores", busy.len(), used.len());
    Ok(ProbeResult::warn_if(used.len() > 1 && busy.len() <= most, value))
}

/// Returns the CPUs of a mask such as `ff,00000001`.
pub(crate) fn mask_cpus(mask: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for (word, digits) in mask.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(digits, 16).ok()?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| word * 32 + bit));
    }
    Some(cpus)
}

/// Returns the CPUs on which the kernel's own work may run, and the CPUs that are isolated or have a pinned busy
/// thread.
pub(crate) fn kernel_work(host: &Host) -> Result<(Vec<usize>, Vec<usize>), Unread> {
    let path = "/sys/devices/virtual/workqueue/cpumask";
    let mask = mask_cpus(&host.read(path)?).ok_or(Unread::Garbage(path.to_owned(), "mask of CPUs"))?;
    let isolated = "/sys/devices/system/cpu/isolated";
    let mut apart = cpu_list(isolated, &host.read(isolated)?)?;
    match busy(host) {
        Ok(busy) => apart.extend(busy.iter().filter(|thread| thread.is_pinned).map(|thread| thread.cpu)),
        Err(Unread::NoProcess) => {}
        Err(why) => return Err(why),
    }
    apart.sort_unstable();
    apart.dedup();
    Ok((mask, apart))
}

fn workqueue(host: &Host) -> Probed {
    let (mask, apart) = kernel_work(host)?;
    let shared = apart.iter().filter(|cpu| mask.contains(cpu)).count();
    let has_others = mask.iter().any(|cpu| !apart.contains(cpu));
    if apart.is_empty() {
        return Ok(ProbeResult::ok("no CPU is set apart, and no busy thread is pinned"));
    }
    let value = format!("kernel work may run on {shared} of the {} CPUs that are set apart or pinned to", apart.len());
    Ok(ProbeResult::warn_if(shared > 0 && has_others, value))
}

/// Returns the interrupts of network interfaces: their numbers and their names in /proc/interrupts.
pub(crate) fn nic_interrupts(host: &Host) -> Result<Vec<(u32, String)>, Unread> {
    let text = host.read("/proc/interrupts")?;
    let nics = host.nics()?;
    let mut known = Vec::new();
    let mut names = nics.clone();
    for nic in &nics {
        let folder = format!("/sys/class/net/{nic}/device");
        let own = host.list(&format!("{folder}/msi_irqs")).unwrap_or_default();
        known.extend(own.iter().filter_map(|number| number.parse::<u32>().ok()));
        // The interrupts of a virtual interface carry the device's name, not the interface's.
        names.extend(host.link_name(&folder));
    }
    let ours = |word: &str| {
        names.iter().any(|name| {
            word.split([',', '@', ':', '/']).any(|part| {
                part.strip_prefix(name.as_str()).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
            })
        })
    };
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let Ok(number) = number.trim().parse::<u32>() else { continue };
        let name = rest.split_whitespace().next_back().unwrap_or_default();
        // An interrupt that only reports changed settings carries no packets.
        if (ours(name) || known.contains(&number)) && !name.ends_with("-config") && !name.ends_with("-mgmnt") {
            found.push((number, name.to_owned()));
        }
    }
    if found.is_empty() {
        Err(Unread::Garbage("/proc/interrupts".to_owned(), "interrupt of a network interface"))
    } else {
        Ok(found)
    }
}

/// Minimum number of CPUs for a finding. On smaller hosts threads and interrupts share CPUs in any case.
const SPREAD_CPUS_MIN: usize = 4;

fn interrupts(host: &Host) -> Probed {
    let mut places = Vec::new();
    for (number, _) in nic_interrupts(host)? {
        let folder = format!("/proc/irq/{number}");
        let effective = host.read(&format!("{folder}/effective_affinity_list")).ok().filter(|list| !list.is_empty());
        let (path, list) = match effective {
            Some(list) => (format!("{folder}/effective_affinity_list"), list),
            None => (format!("{folder}/smp_affinity_list"), host.read(&format!("{folder}/smp_affinity_list"))?),
        };
        places.extend(cpu_list(&path, &list)?);
    }
    let count = places.len();
    places.sort_unstable();
    places.dedup();
    let value = format!("the network's interrupts run on CPUs {}", io::affinity::show_cpus(&places));
    match busy(host) {
        Err(Unread::NoProcess) => {
            let cpus = host.cpus()?.len();
            Ok(ProbeResult::warn_if(count > 1 && places.len() == 1 && cpus >= SPREAD_CPUS_MIN, value))
        }
        Err(why) => Err(why),
        Ok(busy) => {
            let cpus = host.cpus()?.len();
            Ok(match busy.iter().find(|thread| places.contains(&thread.cpu)) {
                // On smaller hosts threads and interrupts have to share CPUs.
                Some(thread) if cpus >= SPREAD_CPUS_MIN => {
                    ProbeResult::warn(format!("{value}; the busy thread {} is on CPU {}", thread.name, thread.cpu))
                }
                _ => ProbeResult::ok(value),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_whose_name_holds_brackets_is_read() {
        let text = "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 33 12 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 5 0 0";
        assert_eq!(ticks(text), Some((45, 5)));
        assert_eq!(ticks("7 (a) S 1 7"), None);
        assert_eq!(mask_cpus("3,80000001"), Some(vec![0, 31, 32, 33]));
        assert_eq!(mask_cpus("x"), None);
    }
}
