//! Resource limits of the process.

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::host::{Host, Unread};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "lim.nofile",
        reads: "/proc/PID/limits (Max open files), /proc/PID/fd or /proc/PID/status (FDSize)",
        mechanism: "Every connection is an open file. At the limit new connections are refused, or wait without \
                    being accepted.",
        remedy: "set LimitNOFILE= of the service to at least twice the expected number of connections",
        expect: "no connection is refused because of the limit; no change in latency",
        needs: Needs::Restart,
        undo: "remove the setting from the service",
        source: "man 5 systemd.exec",
        probe: nofile,
    },
    Check {
        id: "lim.memlock",
        reads: "/proc/PID/limits (Max locked memory), /proc/PID/status (VmRSS, CapEff), /proc/swaps",
        mechanism: "Unlocked memory may be swapped out or dropped, and is then read back from disk during a \
                    request. Locking more memory than the limit fails.",
        remedy: "set LimitMEMLOCK=infinity for the service if the host has swap",
        expect: "locking succeeds, and locked memory never waits for a disk",
        needs: Needs::Restart,
        undo: "remove the setting from the service",
        source: "man 2 mlock",
        probe: memlock,
    },
    Check {
        id: "lim.nproc",
        reads: "/proc/PID/limits (Max processes), /proc/PID/status (CapEff), /proc/PID/task, pids.max of its group",
        mechanism: "Threads count as processes of their user and of their control group. At either limit no new \
                    thread can be created, and the operation that needs it fails.",
        remedy: "raise LimitNPROC= and TasksMax= of the service, and pids.max of a container",
        expect: "threads can be created; no change in latency",
        needs: Needs::Restart,
        undo: "restore the old limits",
        source: "man 2 getrlimit",
        probe: nproc,
    },
];

/// Returns the process's soft limit called `name`; `None` if it is unlimited.
fn limit(host: &Host, name: &'static str) -> Result<Option<u64>, Unread> {
    let path = host.process("limits")?;
    let text = host.read(&path)?;
    let word = text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    match word.ok_or(Unread::Garbage(path.clone(), name))? {
        "unlimited" => Ok(None),
        number => number.parse().map(Some).map_err(|_| Unread::Garbage(path, name)),
    }
}

/// Numbers of the capabilities with which a process may exceed its limits.
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;

/// Returns whether a process has one of the capabilities `of`, according to its file `status`.
fn is_capable(status: &str, of: &[u32]) -> bool {
    let word = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = word.and_then(|word| u64::from_str_radix(word.trim(), 16).ok()).unwrap_or(0);
    of.iter().any(|capability| bits >> capability & 1 == 1)
}

/// Minimum limit of open files: a lower limit is too low for any server.
const NOFILE_MIN: u64 = 4096;

fn nofile(host: &Host) -> Probed {
    let Some(most) = limit(host, "Max open files")? else { return Ok(ProbeResult::ok("no limit")) };
    let open = match host.count(&host.process("fd")?) {
        Ok(open) => open,
        Err(_) if most < NOFILE_MIN => {
            return Ok(ProbeResult::warn(format!("{most} allowed; the number in use is unknown")));
        }
        // Without permission to count the open files, the size of the table of open files is still readable. The
        // number of open files never exceeds it.
        Err(why) => match slots(host) {
            Some(slots) if slots * 10 <= most * 8 => {
                return Ok(ProbeResult::ok(format!("at most {slots} open, {most} allowed")));
            }
            _ => return Err(why),
        },
    };
    let value = format!("{open} open, {most} allowed");
    Ok(if open * 10 > most * 8 { ProbeResult::bad(value) } else { ProbeResult::warn_if(most < NOFILE_MIN, value) })
}

/// Returns the size of the process's table of open files.
fn slots(host: &Host) -> Option<u64> {
    u64::try_from(crate::host::field(&host.read(&host.process("status").ok()?).ok()?, "FDSize")?).ok()
}

fn memlock(host: &Host) -> Probed {
    let limit = limit(host, "Max locked memory")?;
    let path = host.process("status")?;
    let status = host.read(&path)?;
    let rss_kb = crate::host::field(&status, "VmRSS").ok_or(Unread::Garbage(path, "VmRSS"))?;
    let Some(most) = limit else { return Ok(ProbeResult::ok("no limit")) };
    if is_capable(&status, &[CAP_IPC_LOCK]) {
        return Ok(ProbeResult::ok(format!("{} MiB, which its capability (CAP_IPC_LOCK) lifts", most >> 20)));
    }
    let swaps = host.read("/proc/swaps")?.lines().count() > 1;
    let value = format!("{} MiB may be locked, {} MiB are in use", most >> 20, rss_kb >> 10);
    Ok(ProbeResult::warn_if(swaps && most < rss_kb as u64 * 1024, value))
}

fn nproc(host: &Host) -> Probed {
    let limit = limit(host, "Max processes")?;
    let threads = host.count(&host.process("task")?)?;
    let status = host.process("status").and_then(|path| host.read(&path)).unwrap_or_default();
    let mut value = format!("{threads} threads");
    let mut is_near = false;
    match limit {
        Some(most) if !is_capable(&status, &[CAP_SYS_ADMIN, CAP_SYS_RESOURCE]) => {
            is_near = threads * 10 > most * 8;
            value += &format!(", {most} processes allowed for its user");
        }
        Some(_) => value += ", and its capabilities lift its user's limit",
        None => value += ", no limit for its user",
    }
    for folder in host.groups("pids").unwrap_or_default() {
        let number = |name: &str| host.number(&format!("{folder}/{name}"));
        // "max" is not a number, and means no limit.
        if let (Ok(most), Ok(now)) = (number("pids.max"), number("pids.current")) {
            is_near |= now.saturating_mul(10) > most.saturating_mul(8);
            value += &format!(", {now} of {most} in the control group");
        }
    }
    Ok(ProbeResult::bad_if(is_near, value))
}
