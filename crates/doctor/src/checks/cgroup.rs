//! Control groups: what a container may use. Of the process that was named, else of whom the doctor runs as.

use crate::check::{Check, Needs, Probed, Seen};
use crate::host::{Host, Unread, field};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "cg.cpu-quota",
        reads: "cpu.max (version 1: cpu.cfs_quota_us), cpu.stat, twice",
        mechanism: "A group that has used its share of a period is stopped until the next one, all of its threads \
                    together. That is 10 to 100 ms for every request that is there, at a load far below what the \
                    CPUs could do.",
        remedy: "no CPU limit for the server, or whole CPUs of its own (Kubernetes: static CPU manager, requests \
                 equal to limits)",
        needs: Needs::Nothing,
        undo: "set the old limit",
        source: "kernel: scheduler/sched-bwc",
        probe: cpu_quota,
    },
    Check {
        id: "cg.cpuset",
        reads: "/proc/PID/status (Cpus_allowed_list), the CPUs",
        mechanism: "The process may use some of the CPUs only. A plan that names others does not hold, and as many \
                    workers as the host has CPUs share fewer.",
        remedy: "as many workers as CPUs allowed",
        needs: Needs::Nothing,
        undo: "nothing was changed",
        source: "man 7 cpuset",
        probe: cpuset,
    },
    Check {
        id: "cg.memory",
        reads: "memory.max, memory.high, memory.current (version 1: memory.limit_in_bytes, memory.usage_in_bytes)",
        mechanism: "Above memory.high the kernel slows the group's threads down while they free memory; at \
                    memory.max it kills. Cache of files counts too.",
        remedy: "a limit a tenth above what the server uses, or less memory for the server",
        needs: Needs::Nothing,
        undo: "set the old limit",
        source: "kernel: admin-guide/cgroup-v2",
        probe: memory,
    },
    Check {
        id: "cg.pressure",
        reads: "/proc/pressure/{cpu,memory,io}",
        mechanism: "Pressure is the part of the time in which something waited for CPU, memory or a disk. It is \
                    the one number that says how much was lost, whatever the cause.",
        remedy: "see the checks of the kind that is high",
        needs: Needs::Nothing,
        undo: "nothing was changed",
        source: "kernel: accounting/psi",
        probe: pressure,
    },
];

/// The quota and the period in microseconds, if there is a quota.
pub(crate) fn quota(host: &Host) -> Result<Option<(i64, i64)>, Unread> {
    let Ok(path) = host.cgroup("cpu", "cpu.max") else {
        let path = host.cgroup("cpu", "cpu.cfs_quota_us")?;
        let quota = host.number(&path)?;
        let period = host.number(&path.replace("cpu.cfs_quota_us", "cpu.cfs_period_us"))?;
        return Ok((quota > 0).then_some((quota, period)));
    };
    let text = host.read(&path)?;
    let mut words = text.split_whitespace();
    match (words.next(), words.next().and_then(|word| word.parse().ok())) {
        (Some("max"), Some(_)) => Ok(None),
        (Some(quota), Some(period)) => match quota.parse() {
            Ok(quota) => Ok(Some((quota, period))),
            Err(_) => Err(Unread::Garbage(path, "quota")),
        },
        _ => Err(Unread::Garbage(path, "quota and period")),
    }
}

fn cpu_quota(host: &Host) -> Probed {
    let Some((quota, period)) = quota(host)? else { return Ok(Seen::ok("no quota")) };
    let value = format!("{quota} of every {period} us: {:.2} CPUs", quota as f64 / period.max(1) as f64);
    let path = host.cgroup("cpu", "cpu.stat")?;
    let twice = match host.twice(&path) {
        Err(Unread::Once(_)) => return Ok(Seen::warn(value)),
        twice => twice?,
    };
    let grown = |key: &'static str| {
        let garbage = || Unread::Garbage(path.clone(), key);
        Ok(field(&twice.after, key).ok_or_else(garbage)? - field(&twice.before, key).ok_or_else(garbage)?)
    };
    let (periods, throttled) = (grown("nr_periods")?, grown("nr_throttled")?);
    let value = format!("{value}; stopped in {throttled} of {periods} periods");
    let share = throttled as f64 / periods.max(1) as f64;
    Ok(if throttled > 0 { Seen::bad(value).weighing(share) } else { Seen::warn(value) })
}

/// CPUs in a list: `0-3,8`.
fn count(list: &str) -> Option<usize> {
    list.split(',').try_fold(0, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
        Some(sum + last.checked_sub(first)? + 1)
    })
}

fn cpuset(host: &Host) -> Probed {
    let path = host.process("status")?;
    let text = host.read(&path)?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(str::trim);
    let allowed = list.and_then(count).ok_or(Unread::Garbage(path, "Cpus_allowed_list"))?;
    let (cpus, threads) = (host.cpus()?.len(), host.threads()?.len());
    let value = format!("{allowed} of {cpus} CPUs allowed, {threads} threads");
    Ok(Seen::warn_if(allowed < cpus && threads > 4 * allowed, value))
}

fn memory(host: &Host) -> Probed {
    let number = |path: &str| -> Result<Option<i64>, Unread> {
        match host.read(path)?.as_str() {
            "max" => Ok(None),
            text => text.parse().map(Some).map_err(|_| Unread::Garbage(path.to_owned(), "number or max")),
        }
    };
    let (limit, used) = match host.cgroup("memory", "memory.max") {
        Ok(path) => {
            let high = number(&path.replace("/memory.max", "/memory.high"))?;
            let max = number(&path)?;
            let limit = high.into_iter().chain(max).min();
            (limit, host.number(&path.replace("/memory.max", "/memory.current"))?)
        }
        Err(_) => {
            let path = host.cgroup("memory", "memory.limit_in_bytes")?;
            // Without a limit version 1 has the largest number that is a whole number of pages.
            let limit = number(&path)?.filter(|bytes| *bytes < 1 << 60);
            (limit, host.number(&path.replace("/memory.limit_in_bytes", "/memory.usage_in_bytes"))?)
        }
    };
    let Some(limit) = limit else { return Ok(Seen::ok(format!("no limit, {} MiB in use", used >> 20))) };
    let value = format!("{} of {} MiB in use", used >> 20, limit >> 20);
    Ok(Seen::bad_if(used / 9 > limit / 10, value))
}

/// Parts of the time of the last ten seconds that are let pass.
const CPU_PRESSURE_MAX: f64 = 20.0;
const PRESSURE_MAX: f64 = 1.0;

fn pressure(host: &Host) -> Probed {
    let (mut high, mut told) = (0.0_f64, Vec::new());
    for (kind, most) in [("cpu", CPU_PRESSURE_MAX), ("memory", PRESSURE_MAX), ("io", PRESSURE_MAX)] {
        let path = format!("/proc/pressure/{kind}");
        let text = host.read(&path)?;
        let average = text.lines().find_map(|line| line.strip_prefix("some avg10=")?.split_whitespace().next());
        let part: f64 = average.and_then(|word| word.parse().ok()).ok_or(Unread::Garbage(path, "some avg10="))?;
        high = high.max(part / most);
        told.push(format!("{kind} {part:.1} %"));
    }
    Ok(Seen::warn_if(high > 1.0, format!("something waited for {}", told.join(", "))))
}
