//! Limits of the process.

use crate::check::{Check, Needs, Probed, Seen};
use crate::host::{Host, Unread};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "lim.nofile",
        reads: "/proc/PID/limits (Max open files), /proc/PID/fd",
        mechanism: "Every connection is an open file. When the limit is reached connections are refused, or wait \
                    unaccepted.",
        remedy: "LimitNOFILE= of the service, twice the connections that are expected",
        needs: Needs::Restart,
        undo: "take it out of the service",
        source: "man 5 systemd.exec",
        probe: nofile,
    },
    Check {
        id: "lim.memlock",
        reads: "/proc/PID/limits (Max locked memory), /proc/PID/status (VmRSS)",
        mechanism: "Memory that is not locked may be swapped out or dropped, and read back from disk in a request. \
                    Locking more than the limit fails.",
        remedy: "LimitMEMLOCK=infinity of the service, where there is swap",
        needs: Needs::Restart,
        undo: "take it out of the service",
        source: "man 2 mlock",
        probe: memlock,
    },
    Check {
        id: "lim.nproc",
        reads: "/proc/PID/limits (Max processes), /proc/PID/task",
        mechanism: "Threads count as processes of their user. At the limit no further one can be made, and what it \
                    was for fails.",
        remedy: "LimitNPROC= of the service",
        needs: Needs::Restart,
        undo: "take it out of the service",
        source: "man 2 getrlimit",
        probe: nproc,
    },
];

/// The soft limit of this name; `None`: there is none.
fn limit(host: &Host, name: &'static str) -> Result<Option<u64>, Unread> {
    let path = host.process("limits")?;
    let text = host.read(&path)?;
    let word = text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    match word.ok_or(Unread::Garbage(path.clone(), name))? {
        "unlimited" => Ok(None),
        number => number.parse().map(Some).map_err(|_| Unread::Garbage(path, name)),
    }
}

/// Fewer open files than this are too few for any server.
const NOFILE_MIN: u64 = 4096;

fn nofile(host: &Host) -> Probed {
    let Some(most) = limit(host, "Max open files")? else { return Ok(Seen::ok("no limit")) };
    let open = host.count(&host.process("fd")?)?;
    let value = format!("{open} open, {most} allowed");
    Ok(if open * 10 > most * 8 { Seen::bad(value) } else { Seen::warn_if(most < NOFILE_MIN, value) })
}

fn memlock(host: &Host) -> Probed {
    let limit = limit(host, "Max locked memory")?;
    let path = host.process("status")?;
    let rss_kb = crate::host::field(&host.read(&path)?, "VmRSS").ok_or(Unread::Garbage(path, "VmRSS"))?;
    let Some(most) = limit else { return Ok(Seen::ok("no limit")) };
    let swaps = host.read("/proc/swaps")?.lines().count() > 1;
    let value = format!("{} MiB may be locked, {} MiB are in use", most >> 20, rss_kb >> 10);
    Ok(Seen::warn_if(swaps && most < rss_kb as u64 * 1024, value))
}

fn nproc(host: &Host) -> Probed {
    let Some(most) = limit(host, "Max processes")? else { return Ok(Seen::ok("no limit")) };
    let threads = host.count(&host.process("task")?)?;
    Ok(Seen::bad_if(threads * 10 > most * 8, format!("{threads} threads, {most} processes allowed to its user")))
}
