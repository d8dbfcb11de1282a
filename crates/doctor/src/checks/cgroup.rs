//! Control groups: the limits of a container. The checks examine the groups of the named process, or of the doctor's
//! own process if the caller named none.

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::host::{Host, Unread, field};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "cg.cpu-quota",
        reads: "cpu.max (version 1: cpu.cfs_quota_us) of its group and of those above, cpu.stat, read twice",
        mechanism: "When a group has used its quota for a period, all of its threads are stopped until the next \
                    period. Every request in progress then waits 10 to 100 ms, even if the CPUs are mostly idle.",
        remedy: "run the server without a CPU limit, or with whole exclusive CPUs (Kubernetes: static CPU manager, \
                 requests equal to limits)",
        expect: "no stops of 10 to 100 ms; p999 falls, several times if stops were frequent",
        needs: Needs::Nothing,
        undo: "set the old limit",
        source: "kernel: scheduler/sched-bwc",
        probe: cpu_quota,
    },
    Check {
        id: "cg.cpuset",
        reads: "/proc/PID/status (Cpus_allowed_list), the CPUs",
        mechanism: "The process may use only some of the host's CPUs. A plan with other CPUs cannot be applied, and \
                    a server with one worker per host CPU runs several workers per CPU.",
        remedy: "run as many workers as there are allowed CPUs",
        expect: "fewer threads that wait for each other's CPU",
        needs: Needs::Nothing,
        undo: "nothing to undo on this host",
        source: "man 7 cpuset",
        probe: cpuset,
    },
    Check {
        id: "cg.memory",
        reads: "memory.{max,high,current,stat,events} (version 1: memory.{limit_in_bytes,usage_in_bytes,stat,failcnt}) \
                of its group and of those above",
        mechanism: "Above memory.high the kernel slows the group's threads down while they free memory, and at \
                    memory.max it kills a process. File cache counts too.",
        remedy: "raise the limit to 10 % above the server's use, or give the server less memory",
        expect: "no thread is slowed down to free memory, and no process is killed",
        needs: Needs::Nothing,
        undo: "set the old limit",
        source: "kernel: admin-guide/cgroup-v2",
        probe: memory,
    },
    Check {
        id: "cg.pressure",
        reads: "/proc/pressure/{cpu,memory,io}, /proc/PID/cgroup",
        mechanism: "Pressure is the share of time in which some task waited for CPU, memory or I/O. It measures the \
                    lost time, whatever the cause.",
        remedy: "see the checks of the resource with high pressure",
        expect: "see the checks of that resource",
        needs: Needs::Nothing,
        undo: "nothing to undo on this host",
        source: "kernel: accounting/psi",
        probe: pressure,
    },
];

/// A group's CPU quota: the CPU time per period, in microseconds.
pub(crate) struct Quota {
    /// The group's folder.
    folder: String,
    quota_us: i64,
    period_us: i64,
}

impl Quota {
    /// Returns the number of CPUs that the quota allows.
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us.max(1) as f64
    }
}

/// Returns the quota of one group; `None` if the group has no quota. The file is absent if the group has no CPU
/// controller.
fn quota_of(host: &Host, folder: String) -> Result<Option<Quota>, Unread> {
    let max = format!("{folder}/cpu.max");
    let (quota_us, period_us) = match host.read(&max) {
        Ok(text) => {
            let mut words = text.split_whitespace();
            let period = words.clone().nth(1).and_then(|word| word.parse().ok());
            match (words.next(), period) {
                (Some("max"), Some(_)) => return Ok(None),
                (Some(quota), Some(period)) => (quota.parse().map_err(|_| Unread::Garbage(max, "quota"))?, period),
                _ => return Err(Unread::Garbage(max, "quota and period")),
            }
        }
        Err(Unread::Absent(_)) => {
            let quota = host.number(&format!("{folder}/cpu.cfs_quota_us"))?;
            (quota, host.number(&format!("{folder}/cpu.cfs_period_us"))?)
        }
        Err(why) => return Err(why),
    };
    Ok((quota_us > 0).then_some(Quota { folder, quota_us, period_us }))
}

/// Returns the quotas that apply to the process: first the quota of its own group, then the quotas of the groups above.
fn quotas(host: &Host) -> Result<Vec<Quota>, Unread> {
    let folders = host.groups("cpu")?;
    let (mut quotas, mut absent, mut is_read) = (Vec::new(), None, false);
    for folder in &folders {
        match quota_of(host, folder.clone()) {
            Ok(quota) => {
                is_read = true;
                quotas.extend(quota);
            }
            Err(why @ Unread::Absent(_)) => absent = absent.or(Some(why)),
            Err(why) => return Err(why),
        }
    }
    match absent {
        Some(why) if !is_read && !host.sees_all_groups(&folders) => Err(why),
        _ => Ok(quotas),
    }
}

/// Returns the number of CPUs that the smallest quota allows; `None` if there is no quota.
pub(crate) fn quota_cpus(host: &Host) -> Result<Option<f64>, Unread> {
    Ok(quotas(host)?.iter().map(Quota::cpus).min_by(f64::total_cmp))
}

/// Returns the growth of a group's counter; `None` if the counter was read only once.
fn grown(host: &Host, path: &str, key: &'static str) -> Result<Option<i64>, Unread> {
    let twice = match host.twice(path) {
        Err(Unread::Once(_)) => return Ok(None),
        twice => twice?,
    };
    let count = |text: &str| field(text, key).ok_or_else(|| Unread::Garbage(path.to_owned(), key));
    Ok(Some(count(&twice.after)? - count(&twice.before)?))
}

/// Returns a remark with the group's name if the group is above the process's own group; otherwise an empty text.
fn above(own: &str, folder: &str) -> String {
    let name = folder.strip_prefix("/sys/fs/cgroup").unwrap_or(folder);
    if own == folder { String::new() } else { format!(" (set above its own group, on {name})") }
}

fn cpu_quota(host: &Host) -> Probed {
    let own = host.groups("cpu")?.swap_remove(0);
    let mut worst: Option<(f64, ProbeResult)> = None;
    for quota in quotas(host)? {
        let mut value = format!("{} of every {} us: {:.2} CPUs", quota.quota_us, quota.period_us, quota.cpus());
        value += &above(&own, &quota.folder);
        let path = format!("{}/cpu.stat", quota.folder);
        let (mut share, mut seen) = (0.0, ProbeResult::warn(value.clone()));
        if let (Some(periods), Some(stopped)) = (grown(host, &path, "nr_periods")?, grown(host, &path, "nr_throttled")?)
        {
            share = stopped as f64 / periods.max(1) as f64;
            let value = format!("{value}; stopped in {stopped} of {periods} periods");
            seen = if stopped > 0 { ProbeResult::bad(value).weighing(share) } else { ProbeResult::warn(value) };
        }
        // If no quota has stopped the process, the smallest quota is reported.
        let rank = share - quota.cpus() / 1e6;
        if worst.as_ref().is_none_or(|(most, _)| rank > *most) {
            worst = Some((rank, seen));
        }
    }
    Ok(worst.map_or_else(|| ProbeResult::ok("no quota"), |(_, seen)| seen))
}

/// Counts the CPUs in a list: `0-3,8`.
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
    Ok(ProbeResult::warn_if(allowed < cpus && threads > 4 * allowed, value))
}

/// A group's limit and use of memory, in bytes.
struct Memory {
    folder: String,
    limit: i64,
    used: i64,
    /// Bytes of `used` that are file cache, which the kernel can reclaim.
    cache: i64,
}

fn bytes(host: &Host, path: &str) -> Result<Option<i64>, Unread> {
    match host.read(path)?.as_str() {
        "max" => Ok(None),
        text => text.parse().map(Some).map_err(|_| Unread::Garbage(path.to_owned(), "number or max")),
    }
}

/// Returns the limit and use of one group. Without a limit, `limit` is the largest number. Returns `None` if the group
/// reports neither.
fn memory_of(host: &Host, folder: String) -> Result<Option<Memory>, Unread> {
    let file = |name: &str| format!("{folder}/{name}");
    let (limit, used) = match bytes(host, &file("memory.max")) {
        Ok(max) => (max.into_iter().chain(bytes(host, &file("memory.high"))?).min(), "memory.current"),
        Err(Unread::Absent(_)) => match bytes(host, &file("memory.limit_in_bytes")) {
            // Without a limit, version 1 reports the largest number that is a multiple of the page size.
            Ok(limit) => (limit.filter(|bytes| *bytes < 1 << 60), "memory.usage_in_bytes"),
            Err(Unread::Absent(_)) => return Ok(None),
            Err(why) => return Err(why),
        },
        Err(why) => return Err(why),
    };
    let used = host.number(&file(used))?;
    let stat = host.read(&file("memory.stat")).unwrap_or_default();
    // In version 1 the counters whose names begin with `total_` include the groups below.
    let of = |name: &str| field(&stat, &format!("total_{name}")).or_else(|| field(&stat, name)).unwrap_or(0);
    let cache = of("active_file") + of("inactive_file");
    Ok(Some(Memory { limit: limit.unwrap_or(i64::MAX), used, cache, folder }))
}

/// Returns how often a group's memory reached a limit between the two readings; 0 if the kernel does not count this.
fn at_limit(host: &Host, folder: &str) -> i64 {
    let events = format!("{folder}/memory.events");
    let of = |key| grown(host, &events, key).ok().flatten();
    let failures = || {
        let twice = host.twice(&format!("{folder}/memory.failcnt")).ok()?;
        Some(twice.after.parse::<i64>().ok()? - twice.before.parse::<i64>().ok()?)
    };
    of("high").zip(of("max")).map(|(high, max)| high + max).or_else(failures).unwrap_or(0)
}

fn memory(host: &Host) -> Probed {
    let folders = host.groups("memory")?;
    let mut tightest: Option<Memory> = None;
    for folder in &folders {
        let Some(group) = memory_of(host, folder.clone())? else { continue };
        let filled = |group: &Memory| (group.used - group.cache) as f64 / group.limit.max(1) as f64;
        if tightest.as_ref().is_none_or(|most| filled(&group) > filled(most)) {
            tightest = Some(group);
        }
    }
    let Some(group) = tightest else {
        let why = Unread::Absent(format!("{}/memory.max", folders[0]));
        return if host.sees_all_groups(&folders) { Ok(ProbeResult::ok("no limit")) } else { Err(why) };
    };
    if group.limit == i64::MAX {
        return Ok(ProbeResult::ok(format!("no limit, {} MiB in use", group.used >> 20)));
    }
    let mut value = format!("{} of {} MiB in use", group.used >> 20, group.limit >> 20);
    if group.cache > 0 {
        value += &format!(", {} MiB of it file cache", group.cache >> 20);
    }
    value += &above(&folders[0], &group.folder);
    let times = at_limit(host, &group.folder);
    if times > 0 {
        value += &format!("; at the limit {times} times meanwhile");
    }
    if (group.used - group.cache) / 9 > group.limit / 10 {
        return Ok(ProbeResult::bad(value).weighing(if times > 0 { 0.1 } else { 0.0 }));
    }
    // The next allocation must reclaim memory from the cache, in the thread that needs it.
    Ok(ProbeResult::warn_if(times > 0 || group.used / 19 > group.limit / 20, value))
}

/// Maximum CPU pressure without a warning, in % of the last ten seconds.
const CPU_PRESSURE_MAX: f64 = 20.0;
/// Maximum memory and I/O pressure without a warning, in % of the last ten seconds.
const PRESSURE_MAX: f64 = 1.0;

fn pressure(host: &Host) -> Probed {
    let (mut high, mut parts) = (0.0_f64, Vec::new());
    for (kind, most) in [("cpu", CPU_PRESSURE_MAX), ("memory", PRESSURE_MAX), ("io", PRESSURE_MAX)] {
        let path = format!("/proc/pressure/{kind}");
        let text = host.read(&path)?;
        let average = text.lines().find_map(|line| line.strip_prefix("some avg10=")?.split_whitespace().next());
        let part: f64 = average.and_then(|word| word.parse().ok()).ok_or(Unread::Garbage(path, "some avg10="))?;
        high = high.max(part / most);
        parts.push(format!("{kind} {part:.1} %"));
    }
    let mut value = format!("something waited for {}", parts.join(", "));
    if let Some(version) = host.groups_version() {
        value += &format!("; control groups of version {version}");
    }
    Ok(ProbeResult::warn_if(high > 1.0, value))
}
