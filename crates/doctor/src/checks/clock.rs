//! Clock sources, clock corrections and periodic ticks.

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::host::{Clocks, Host, Unread};
use std::time::Instant;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "clock.source",
        reads: "/sys/devices/system/clocksource/clocksource0/current_clocksource; a timed loop",
        mechanism: "With tsc or kvm-clock a program reads the time without a system call. With any other clock \
                    source each reading is a system call, and a server reads the time several times per request.",
        remedy: "write tsc (or kvm-clock) into current_clocksource if available_clocksource lists it",
        expect: "each reading of the time takes 0.1 to 1 us less",
        needs: Needs::Root,
        undo: "write the old clock back",
        source: "kernel: timers/timekeeping; Valkey's --check-system",
        probe: source,
    },
    Check {
        id: "clock.slew",
        reads: "the wall clock compared with the hardware clock, both read twice; /proc/*/comm (chronyd, ntpd, \
                systemd-timesyn)",
        mechanism: "Without a time service a host's clock drifts, and times compared between hosts (leases, expiry) \
                    are wrong by the difference. A clock that is being corrected runs too fast or too slow.",
        remedy: "run chrony; if it runs and still corrects the clock, look at `chronyc tracking`",
        expect: "timestamps of different hosts agree within a few milliseconds",
        needs: Needs::Root,
        undo: "stop chrony",
        source: "man 2 adjtimex; chrony's documentation",
        probe: slew,
    },
    Check {
        id: "clock.ticks",
        reads: "/proc/sys/kernel/{timer_migration,nmi_watchdog}, /proc/sys/vm/stat_interval",
        mechanism: "The watchdog and the memory statistics wake up every CPU every few seconds, and timers of idle \
                    CPUs move to busy CPUs. On isolated CPUs these are the only interruptions left.",
        remedy: "sysctl kernel.timer_migration=0 kernel.nmi_watchdog=0 vm.stat_interval=10",
        expect: "fewer interruptions of isolated CPUs",
        needs: Needs::Root,
        undo: "write the old values back",
        source: "tuned: network-latency",
        probe: ticks,
    },
];

/// Maximum duration of a clock reading without a system call, in nanoseconds.
const CLOCK_NS_MAX: f64 = 60.0;
/// Duration in nanoseconds above which a clock reading must be a system call, whatever the clock's name. Some sandboxes
/// and kernels need a system call for every clock.
const SYSTEM_CALL_NS_MIN: f64 = 180.0;
const CLOCK_READINGS: u32 = 10_000;
const CLOCK_TRIALS: u32 = 10;

/// Returns the duration of one clock reading in nanoseconds. It is the minimum of several trials, because preemption
/// lengthens some of them.
fn clock_cost_ns() -> f64 {
    let trial = |_| {
        let begun = Instant::now();
        for _ in 0..CLOCK_READINGS {
            std::hint::black_box(Instant::now());
        }
        begun.elapsed().as_nanos() as f64 / f64::from(CLOCK_READINGS)
    };
    (0..CLOCK_TRIALS).map(trial).fold(f64::INFINITY, f64::min)
}

/// Judges a clock by its name and by the duration of a reading in nanoseconds, which is unknown in a tree.
fn judged(name: &str, ns: Option<f64>) -> ProbeResult {
    let is_slow = !matches!(name, "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page");
    let value = ns.map_or_else(|| name.to_owned(), |ns| format!("{name}: {ns:.0} ns per reading"));
    match ns {
        Some(ns) if !is_slow => ProbeResult::warn_if(ns > SYSTEM_CALL_NS_MIN, value),
        Some(ns) => ProbeResult::bad_if(ns > CLOCK_NS_MAX, value),
        None => ProbeResult::bad_if(is_slow, value),
    }
}

fn source(host: &Host) -> Probed {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let name = host.read(path)?;
    if name.is_empty() {
        return Err(Unread::Garbage(path.to_owned(), "name of a clock"));
    }
    Ok(judged(&name, host.is_live().then(clock_cost_ns)))
}

/// Maximum clock correction without a finding, in parts per million. A correct clock needs some ten; the kernel slews
/// by at most 500.
const SLEW_PPM_MAX: f64 = 200.0;
/// The shortest window in which the slew can be measured, in nanoseconds. In a shorter window the noise of the readings
/// dominates.
const SLEW_WINDOW_NS_MIN: i128 = 10_000_000;
/// Names of the programs that set the clock, as /proc shows them: cut to fifteen characters.
pub(crate) const SETTERS: [&str; 5] = ["chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys"];

/// Returns the parts per million by which the wall clock runs faster than the hardware clock.
fn slew_ppm(host: &Host) -> Result<f64, Unread> {
    let Some(before) = host.clocks() else {
        let figures = host.measured("clock.slew")?;
        let found = figures.iter().find(|(name, _)| name == "ppm").map(|(_, ppm)| *ppm);
        return found.ok_or_else(|| Unread::Garbage("/measured/clock.slew".to_owned(), "ppm"));
    };
    let now = Clocks::now();
    let (wall, raw) = (now.wall_ns - before.wall_ns, now.raw_ns - before.raw_ns);
    if raw < SLEW_WINDOW_NS_MIN {
        return Err(Unread::Once("the clock".to_owned()));
    }
    Ok((wall - raw) as f64 / raw as f64 * 1e6)
}

fn slew(host: &Host) -> Probed {
    let ppm = slew_ppm(host)?;
    let mut setter = None;
    for name in host.list("/proc")?.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
        let comm = host.read(&format!("/proc/{name}/comm")).unwrap_or_default();
        setter = setter.or_else(|| SETTERS.into_iter().find(|known| *known == comm));
    }
    let value =
        format!("corrected by {} ppm; set by {}", ppm.round() as i64, setter.unwrap_or("no known time service"));
    if ppm.abs() > SLEW_PPM_MAX {
        return Ok(ProbeResult::bad(value));
    }
    if setter.is_none() && !host.sees_all_processes() {
        return Err(Unread::Beside(
            "the host's processes are not visible from this container, and one of them may set the clock",
        ));
    }
    Ok(ProbeResult::warn_if(setter.is_none(), value))
}

fn ticks(host: &Host) -> Probed {
    let isolated = host.read("/sys/devices/system/cpu/isolated")?;
    let timers = host.sysctl("kernel.timer_migration")?;
    // Some kernels have no watchdog, and so no such setting.
    let watchdog = host.sysctl("kernel.nmi_watchdog").unwrap_or(0);
    let interval = host.sysctl("vm.stat_interval")?;
    let value = format!("timer_migration {timers}, nmi_watchdog {watchdog}, stat_interval {interval}");
    if isolated.is_empty() {
        return Ok(ProbeResult::ok(format!("{value}; no CPU is isolated")));
    }
    Ok(ProbeResult::warn_if(timers == 1 || watchdog == 1 || interval < 10, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;

    #[test]
    fn clock_source_is_judged_by_read_cost_as_well_as_by_name() {
        let verdict = |name, ns| judged(name, ns).verdict;
        assert_eq!((verdict("tsc", Some(25.0)), verdict("tsc", Some(400.0))), (Verdict::Ok, Verdict::Warn));
        // Some kernels read this clock without a system call.
        assert_eq!((verdict("xen", Some(40.0)), verdict("xen", Some(400.0))), (Verdict::Ok, Verdict::Bad));
        assert_eq!((verdict("hpet", None), verdict("kvm-clock", None)), (Verdict::Bad, Verdict::Ok));
        assert!(clock_cost_ns() > 0.0);
    }
}
