//! Interrupts: the CPUs that handle them.

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::host::{Host, Twice, Unread};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "irq.irqbalance",
        reads: "/proc/*/comm, /etc/default/irqbalance or /etc/sysconfig/irqbalance",
        mechanism: "Every ten seconds irqbalance moves interrupts to idle CPUs. It also moves pinned interrupts, \
                    even to the workers' CPUs.",
        remedy: "exclude the workers' CPUs with IRQBALANCE_BANNED_CPULIST (IRQBALANCE_BANNED_CPUS before 1.8), or \
                 stop irqbalance if interrupts are pinned",
        expect: "interrupts stay on their CPUs",
        needs: Needs::Root,
        undo: "remove the exclusion, or start irqbalance again",
        source: "man 1 irqbalance",
        probe: irqbalance,
    },
    Check {
        id: "irq.concentration",
        reads: "/proc/interrupts, read twice",
        mechanism: "If one CPU handles nearly all device interrupts, it is saturated while other CPUs are idle. All \
                    packets of the host wait for that CPU.",
        remedy: "use more queues, each with its own CPU; with a single queue, use receive packet steering (net.rps)",
        expect: "the maximum packet rate rises until another CPU is fully used",
        needs: Needs::Root,
        undo: "restore the old affinity and number of queues",
        source: "Aerospike on EC2: 250 k transactions/s of one network interface's CPU",
        probe: concentration,
    },
    Check {
        id: "irq.softirq-time",
        reads: "/proc/stat (softirq of each CPU), read twice",
        mechanism: "Soft interrupts receive packets, and take precedence over every thread on their CPU. A worker \
                    on that CPU gets only the remaining time.",
        remedy: "assign the network's queues to CPUs without pinned workers",
        expect: "workers get all the time of their CPUs; p999 falls under load",
        needs: Needs::Root,
        undo: "restore the old affinity",
        source: "kernel: networking/scaling",
        probe: softirq_time,
    },
    Check {
        id: "irq.net-drops",
        reads: "/proc/net/softnet_stat (dropped, squeezed), read twice",
        mechanism: "A CPU processes a limited number of packets per round: the rest waits for the next round \
                    (squeezed), and packets that find the backlog full are dropped. A dropped packet is \
                    retransmitted after at least 200 ms.",
        remedy: "double sysctl net.core.netdev_max_backlog and net.core.netdev_budget until neither counter grows",
        expect: "no pauses of 200 ms because of a full backlog; more memory for packets in a burst",
        needs: Needs::Root,
        undo: "write the old values back",
        source: "kernel: admin-guide/sysctl/net",
        probe: net_drops,
    },
];

/// Paths of irqbalance's settings on common distributions.
pub(crate) const IRQBALANCE_FILES: [&str; 2] = ["/etc/default/irqbalance", "/etc/sysconfig/irqbalance"];

/// Returns whether a line of irqbalance's settings bans CPUs, or names a script that decides about each interrupt.
fn is_kept_off(line: &str) -> bool {
    let Some((name, value)) = line.trim().split_once('=') else { return false };
    let value = value.trim_matches(['"', '\'', ' ', '\t']);
    match name.strip_prefix("export ").unwrap_or(name).trim() {
        "IRQBALANCE_BANNED_CPULIST" => !value.is_empty(),
        // The value is a mask.
        "IRQBALANCE_BANNED_CPUS" => value.bytes().any(|byte| byte.is_ascii_hexdigit() && byte != b'0'),
        "IRQBALANCE_ARGS" | "OPTIONS" => ["--policyscript", "-l "].iter().any(|option| value.contains(option)),
        _ => false,
    }
}

fn irqbalance(host: &Host) -> Probed {
    let mut running = false;
    for name in host.list("/proc")?.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
        running |= host.read(&format!("/proc/{name}/comm")).is_ok_and(|comm| comm == "irqbalance");
    }
    // In a tree without processes this read fails, and the check has no verdict.
    host.read("/proc/1/comm")?;
    if !running && !host.sees_all_processes() {
        return Err(Unread::Beside(
            "the host's processes are not visible from this container, and irqbalance may be one of them",
        ));
    }
    let mut kept_off = false;
    for path in IRQBALANCE_FILES {
        match host.read(path) {
            Ok(text) => kept_off |= text.lines().any(is_kept_off),
            Err(Unread::Absent(_)) => {}
            Err(why) if running => return Err(why),
            Err(_) => {}
        }
    }
    Ok(match (running, kept_off) {
        (false, _) => ProbeResult::ok("irqbalance does not run"),
        (true, true) => ProbeResult::ok("irqbalance runs, and does not use some CPUs"),
        (true, false) => ProbeResult::warn("irqbalance runs, and may use every CPU"),
    })
}

/// Minimum number of CPUs for a finding. On smaller hosts one CPU handles most interrupts in any case.
const SPREAD_CPUS_MIN: usize = 4;
/// Minimum rate of device interrupts for a finding, per second.
const INTERRUPTS_A_SECOND_MIN: f64 = 1000.0;
/// Maximum share of the interrupts on one CPU without a finding.
const SHARE_MAX: f64 = 0.7;

/// Returns the number of device interrupts on each CPU.
fn device_interrupts(text: &str) -> Option<Vec<u64>> {
    let mut lines = text.lines();
    let head = lines.next()?;
    if !head.split_whitespace().all(|word| word.starts_with("CPU")) {
        return None;
    }
    let cpus = head.split_whitespace().count();
    let mut sums = vec![0; cpus];
    for line in lines {
        let (name, counts) = line.split_once(':')?;
        if name.trim().bytes().all(|byte| byte.is_ascii_digit()) {
            for (sum, count) in sums.iter_mut().zip(counts.split_whitespace()) {
                *sum += count.parse::<u64>().unwrap_or(0);
            }
        }
    }
    Some(sums)
}

fn concentration(host: &Host) -> Probed {
    let path = "/proc/interrupts";
    let twice = host.twice(path)?;
    let garbage = || Unread::Garbage(path.to_owned(), "table of CPUs");
    let before = device_interrupts(&twice.before).ok_or_else(garbage)?;
    let after = device_interrupts(&twice.after).ok_or_else(garbage)?;
    let grown: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a.saturating_sub(*b) as f64 / twice.seconds).collect();
    let (sum, most) = (grown.iter().sum::<f64>(), grown.iter().copied().fold(0.0, f64::max));
    let share = if sum > 0.0 { most / sum } else { 0.0 };
    let value =
        format!("{sum:.0} device interrupts per second, {:.0} % of them on one of {} CPUs", share * 100.0, grown.len());
    let is_bad = grown.len() >= SPREAD_CPUS_MIN && sum >= INTERRUPTS_A_SECOND_MIN && share > SHARE_MAX;
    Ok(ProbeResult::bad_if(is_bad, value).weighing(share))
}

/// Index of the soft interrupts among the numbers in a CPU's line of /proc/stat.
const SOFTIRQ: usize = 6;
/// Maximum share of a CPU's time in soft interrupts without a warning.
const SOFTIRQ_MAX: f64 = 0.2;

/// Returns the CPU that spent the largest share of its time in the state of this column of /proc/stat, and that share.
pub(super) fn most_of_a_cpu(twice: &Twice, column: usize) -> Option<(String, f64)> {
    let mut worst: Option<(String, f64)> = None;
    for (before, after) in twice.before.lines().zip(twice.after.lines()) {
        let (mut before, mut after) = (before.split_whitespace(), after.split_whitespace());
        let name = after.next()?;
        if !name.starts_with("cpu") || name == "cpu" || before.next() != Some(name) {
            continue;
        }
        let ticks =
            |words: std::str::SplitWhitespace<'_>| words.take(8).map(|n| n.parse().ok()).collect::<Option<Vec<u64>>>();
        let (before, after) = (ticks(before)?, ticks(after)?);
        let grown: Vec<u64> = after.iter().zip(&before).map(|(a, b)| a.saturating_sub(*b)).collect();
        let share = *grown.get(column)? as f64 / grown.iter().sum::<u64>().max(1) as f64;
        if worst.as_ref().is_none_or(|(_, most)| share > *most) {
            worst = Some((name.to_owned(), share));
        }
    }
    worst
}

fn softirq_time(host: &Host) -> Probed {
    let path = "/proc/stat";
    let (cpu, share) =
        most_of_a_cpu(&host.twice(path)?, SOFTIRQ).ok_or(Unread::Garbage(path.to_owned(), "lines of CPUs"))?;
    let value = format!("{cpu} spends {:.0} % of its time in soft interrupts", share * 100.0);
    Ok(ProbeResult::warn_if(share > SOFTIRQ_MAX, value).weighing(share))
}

/// Returns the number of dropped packets, and how often a CPU used up its packet budget.
fn softnet(text: &str) -> Option<(u64, u64)> {
    let (mut dropped, mut squeezed) = (0, 0);
    for line in text.lines() {
        let mut words = line.split_whitespace().skip(1).map(|word| u64::from_str_radix(word, 16).ok());
        dropped += words.next()??;
        squeezed += words.next()??;
    }
    Some((dropped, squeezed))
}

fn net_drops(host: &Host) -> Probed {
    let path = "/proc/net/softnet_stat";
    let twice = host.twice(path)?;
    let garbage = || Unread::Garbage(path.to_owned(), "hexadecimal columns");
    let before = softnet(&twice.before).ok_or_else(garbage)?;
    let after = softnet(&twice.after).ok_or_else(garbage)?;
    let (dropped, squeezed) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    let value = format!("{dropped} packets dropped, {squeezed} times out of budget in {:.0} s", twice.seconds);
    Ok(if dropped > 0 { ProbeResult::bad(value).weighing(1.0) } else { ProbeResult::warn_if(squeezed > 0, value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn irqbalance_ban_is_detected_only_if_it_lists_cpus() {
        for line in [
            "IRQBALANCE_BANNED_CPULIST=0",
            " IRQBALANCE_BANNED_CPULIST=\"2-3\"",
            "export IRQBALANCE_BANNED_CPUS=0000000c",
            "IRQBALANCE_ARGS=\"--policyscript=/etc/irq.sh\"",
        ] {
            assert!(is_kept_off(line), "{line}");
        }
        for line in [
            "IRQBALANCE_BANNED_CPULIST=",
            "IRQBALANCE_BANNED_CPULIST=\"\"",
            "#IRQBALANCE_BANNED_CPULIST=2-3",
            "IRQBALANCE_BANNED_CPUS=00000000",
            "IRQBALANCE_ONESHOT=1",
            "",
        ] {
            assert!(!is_kept_off(line), "{line}");
        }
    }
}
