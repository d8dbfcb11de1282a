//! Checks of the processors: the speed at which they respond, and the other work that uses them.

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::host::{Host, Unread, field};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "cpu.governor",
        reads: "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        mechanism: "A governor that follows the load clocks an idle CPU down. The first requests after a pause run \
                    at that speed until the governor raises it.",
        remedy: "write performance into every cpufreq/scaling_governor",
        expect: "the first requests after a pause are as fast as under load; more power when idle",
        needs: Needs::Root,
        undo: "write the old governor back",
        source: "kernel: admin-guide/pm/cpufreq",
        probe: governor,
    },
    Check {
        id: "cpu.cstates",
        reads: "/sys/devices/system/cpu/cpu0/cpuidle/state*/{latency,disable}, /dev/cpu_dma_latency (as root)",
        mechanism: "The longer a CPU is idle, the deeper its sleep state. Each state has a wake-up time, and a \
                    request that arrives at a sleeping CPU waits for it.",
        remedy: "while the server runs, hold /dev/cpu_dma_latency open with 1 us written into it",
        expect: "no request waits for a CPU to wake up, which takes at most the time shown; more power when idle",
        needs: Needs::Root,
        undo: "close the file; the setting also ends with the process that holds it",
        source: "kernel: admin-guide/pm/cpuidle, power/pm_qos_interface",
        probe: cstates,
    },
    Check {
        id: "cpu.boost",
        reads: "/sys/devices/system/cpu/cpufreq/boost or intel_pstate/no_turbo",
        mechanism: "With boost off every core stays at its base clock. The maximum rate of a busy worker falls in \
                    proportion.",
        remedy: "write 1 into cpufreq/boost, or 0 into intel_pstate/no_turbo",
        expect: "the maximum rate of a busy worker rises in proportion to the clock",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/pm/cpufreq, intel_pstate",
        probe: boost,
    },
    Check {
        id: "cpu.isolated",
        reads: "/sys/devices/system/cpu/{isolated,nohz_full}",
        mechanism: "The kernel's tick and its own threads run on every CPU that is not isolated. On a host with \
                    many cores, some CPUs can be kept free of both.",
        remedy: "set isolcpus=, nohz_full= and rcu_nocbs= for the workers' CPUs on the kernel's command line; do \
                 this after all other remedies",
        expect: "fewer interruptions of the workers' CPUs; less CPU time for all other programs",
        needs: Needs::Restart,
        undo: "remove the parameters",
        source: "kernel: admin-guide/kernel-parameters",
        probe: isolated,
    },
    Check {
        id: "cpu.involuntary-switch",
        reads: "/proc/PID/task/*/status, read twice",
        mechanism: "A thread that is preempted while it has work serves no client until it runs again. On a busy \
                    host, each of its requests waits for milliseconds.",
        remedy: "pin each of the server's hot threads to a CPU that nothing else uses",
        expect: "p99 and p999 fall under load, p50 hardly changes; no change if CPUs are idle",
        needs: Needs::Nothing,
        undo: "restore the old affinity",
        source: "Pelikan on T2A: with pinning, p999 fell by half at 320 k requests/s",
        probe: involuntary,
    },
    Check {
        id: "cpu.migrations",
        reads: "/proc/PID/task/*/sched (nr_migrations), read twice",
        mechanism: "After a thread moves to another CPU, its data is not in that CPU's caches. Its next requests \
                    take longer.",
        remedy: "pin the server's hot threads",
        expect: "fewer requests with cold caches; measure it, because the scheduler can balance less",
        needs: Needs::Nothing,
        undo: "restore the old affinity",
        source: "kernel: scheduler/sched-debug",
        probe: migrations,
    },
    Check {
        id: "cpu.autogroup",
        reads: "/proc/sys/kernel/sched_autogroup_enabled, /proc/PID/cgroup",
        mechanism: "Autogroup divides the CPUs among sessions, not among threads. A build in one shell then gets as \
                    much CPU time as the whole server, unless the server has its own CPU control group.",
        remedy: "sysctl kernel.sched_autogroup_enabled=0",
        expect: "the server gets CPU time in proportion to its threads; no change on a host that runs only the server",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "man 7 sched",
        probe: autogroup,
    },
    Check {
        id: "cpu.mitigations",
        reads: "/sys/devices/system/cpu/vulnerabilities/*",
        mechanism: "Protection against speculative attacks makes each system call slower. It is shown so that hosts \
                    can be compared, and should stay on.",
        remedy: "none: use fewer system calls per request, and keep the mitigations",
        expect: "none",
        needs: Needs::Nothing,
        undo: "nothing to undo on this host",
        source: "kernel: admin-guide/hw-vuln",
        probe: mitigations,
    },
];

fn governor(host: &Host) -> Probed {
    let (mut slow, mut all, mut last) = (0, 0, String::new());
    for cpu in host.cpus()? {
        let path = format!("/sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor");
        last = match host.read(&path) {
            // Some CPUs have no governor, for example those of a virtual machine, because the physical host sets their
            // speed.
            Err(Unread::Absent(_)) if all > 0 => continue,
            read => read?,
        };
        all += 1;
        slow += u32::from(last != "performance");
    }
    let value = match slow {
        0 => format!("performance on all {all} CPUs with a governor"),
        _ => format!("{slow} of {all} CPUs do not use the performance governor (the last one uses {last})"),
    };
    Ok(ProbeResult::warn_if(slow > 0, value))
}

/// Longest wake-up time without a warning, in microseconds.
const WAKE_US_MAX: i64 = 10;

fn cstates(host: &Host) -> Probed {
    let folder = "/sys/devices/system/cpu/cpu0/cpuidle";
    let allowed_us = host.wake_us_allowed().unwrap_or(i64::MAX);
    let (mut deepest, mut is_held) = (0, false);
    for state in host.list(folder)?.iter().filter(|name| name.starts_with("state")) {
        let latency = host.number(&format!("{folder}/{state}/latency"))?;
        if host.number(&format!("{folder}/{state}/disable"))? == 0 {
            is_held |= latency > allowed_us;
            deepest = deepest.max(if latency > allowed_us { 0 } else { latency });
        }
    }
    let by = if is_held { format!("; a program holds it to {allowed_us} us") } else { String::new() };
    Ok(ProbeResult::warn_if(deepest > WAKE_US_MAX, format!("up to {deepest} us to wake up{by}")))
}

fn boost(host: &Host) -> Probed {
    let folder = "/sys/devices/system/cpu";
    let is_off = match host.number(&format!("{folder}/intel_pstate/no_turbo")) {
        Ok(off) => off == 1,
        Err(_) => host.number(&format!("{folder}/cpufreq/boost"))? == 0,
    };
    Ok(ProbeResult::warn_if(is_off, if is_off { "off" } else { "on" }))
}

/// Minimum number of CPUs of a host on which some can be isolated.
const ISOLATION_CPUS_MIN: usize = 8;

fn isolated(host: &Host) -> Probed {
    let cpus = host.cpus()?.len();
    let isolated = host.read("/sys/devices/system/cpu/isolated")?;
    if cpus < ISOLATION_CPUS_MIN {
        return Ok(ProbeResult::ok(format!("{cpus} CPUs: too few to isolate any")));
    }
    Ok(ProbeResult::warn_if(isolated.is_empty(), format!("isolated CPUs (of {cpus}): {}", or_none(&isolated))))
}

fn or_none(list: &str) -> &str {
    if list.is_empty() { "none" } else { list }
}

/// Returns the name of the thread whose counter grew fastest, and its growth per second.
fn grown(host: &Host, file: &str, key: &'static str) -> Result<(String, f64), Unread> {
    let mut worst: Option<(String, f64)> = None;
    let mut unread = None;
    for thread in host.threads()? {
        let path = format!("{thread}/{file}");
        let twice = match host.twice(&path) {
            Ok(twice) => twice,
            // The thread started between the two readings, or has ended.
            Err(why) => {
                unread = Some(why);
                continue;
            }
        };
        let garbage = || Unread::Garbage(path.clone(), key);
        let before = field(&twice.before, key).ok_or_else(garbage)?;
        let after = field(&twice.after, key).ok_or_else(garbage)?;
        let rate = (after - before) as f64 / twice.seconds;
        if worst.as_ref().is_none_or(|(_, most)| rate > *most) {
            let name = host.read(&format!("{thread}/comm")).unwrap_or_else(|_| thread.clone());
            worst = Some((name, rate));
        }
    }
    worst.ok_or_else(|| unread.unwrap_or(Unread::Beside("the process has ended")))
}

/// Maximum rate of involuntary switches of one thread without a finding, per second.
const SWITCHES_A_SECOND_MAX: f64 = 10.0;

fn involuntary(host: &Host) -> Probed {
    let (thread, rate) = grown(host, "status", "nonvoluntary_ctxt_switches")?;
    let value = format!("thread {thread}: preempted {rate:.0} times per second");
    // The weight assumes that a preempted thread waits for 3 ms.
    Ok(ProbeResult::bad_if(rate > SWITCHES_A_SECOND_MAX, value).weighing((rate * 0.003).min(1.0)))
}

/// Maximum rate of moves of one thread without a warning, per second.
const MOVES_A_SECOND_MAX: f64 = 1.0;

fn migrations(host: &Host) -> Probed {
    let (thread, rate) = grown(host, "sched", "se.nr_migrations")?;
    Ok(ProbeResult::warn_if(
        rate > MOVES_A_SECOND_MAX,
        format!("thread {thread}: moved to another CPU {rate:.1} times per second"),
    ))
}

fn autogroup(host: &Host) -> Probed {
    let on = host.sysctl("kernel.sched_autogroup_enabled")?;
    let value = format!("kernel.sched_autogroup_enabled = {on}");
    if on == 1 && has_own_group(host).unwrap_or(false) {
        return Ok(ProbeResult::ok(format!("{value}; the process's control group overrides it")));
    }
    Ok(ProbeResult::warn_if(on == 1, value))
}

/// Returns whether the process is in a CPU control group below the root group.
fn has_own_group(host: &Host) -> Result<bool, Unread> {
    let text = host.read(&host.process("cgroup")?)?;
    // A line of version 1 names the CPU controller's group, even of a process in a container. Under version 2 the line
    // does not show whether the group has a CPU controller, so the group's files decide.
    let is_named = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        parts.next().is_some_and(|names| names.split(',').any(|name| name == "cpu")) && parts.next() != Some("/")
    };
    let has_weight = |folder: &String| host.is_there(&format!("{folder}/cpu.weight"));
    Ok(text.lines().any(is_named) || host.groups("cpu")?.iter().any(has_weight))
}

fn mitigations(host: &Host) -> Probed {
    let folder = "/sys/devices/system/cpu/vulnerabilities";
    let (mut mitigated, mut open) = (0, 0);
    for name in host.list(folder)? {
        let text = host.read(&format!("{folder}/{name}"))?;
        mitigated += u32::from(text.starts_with("Mitigation"));
        open += u32::from(text.starts_with("Vulnerable"));
    }
    Ok(ProbeResult::ok(format!("{mitigated} mitigated, {open} open")))
}
