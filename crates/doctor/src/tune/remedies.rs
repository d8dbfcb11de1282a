//! The table of the checks whose remedy consists of settings, with the settings that the doctor writes for each.

use super::Setting;
use crate::checks::placed::{kernel_work, nic_interrupts};
use crate::checks::reads::FileUse;
use crate::checks::storage::used_by_process;
use crate::ethtool::{number, parts};
use crate::host::{Host, Unread};
use crate::plan::{CpuPlan, Role, Wanted, mask, plan};
use crate::topology::Topology;

/// A setting that a remedy writes.
pub(super) struct Wish {
    pub new: Setting,
    /// The setting to write for the undo, if writing the old value back does not restore the old state.
    pub back: Option<Setting>,
}

type Wishes = Result<Vec<Wish>, Unread>;

/// The way in which the doctor determines the settings of a remedy.
enum How {
    /// Sysctls with fixed values: each sysctl's name, and its value.
    Sysctls(&'static [(&'static str, &'static str)]),
    /// A function that derives the settings from the host.
    Made(fn(&Host) -> Wishes),
}

const REMEDIES: &[(&str, How)] = &[
    ("cpu.governor", How::Made(governor)),
    ("cpu.boost", How::Made(boost)),
    ("cpu.autogroup", How::Sysctls(&[("kernel.sched_autogroup_enabled", "0")])),
    ("cpu.workqueue-mask", How::Made(workqueue)),
    ("irq.affinity", How::Made(affinity)),
    ("irq.net-drops", How::Made(net_drops)),
    ("net.queues", How::Made(channels)),
    ("net.coalesce", How::Made(coalesce)),
    ("net.ring", How::Made(ring)),
    ("cloud.queues-default", How::Made(channels)),
    ("net.rps", How::Made(rps)),
    ("net.rfs", How::Made(rfs)),
    ("net.xps", How::Made(xps)),
    ("net.somaxconn", How::Sysctls(&[("net.core.somaxconn", "4096")])),
    ("net.syn-backlog", How::Sysctls(&[("net.ipv4.tcp_max_syn_backlog", "4096")])),
    ("net.slow-start-idle", How::Sysctls(&[("net.ipv4.tcp_slow_start_after_idle", "0")])),
    ("net.qdisc", How::Sysctls(&[("net.core.default_qdisc", "fq")])),
    ("net.conntrack", How::Made(conntrack)),
    ("net.ports", How::Sysctls(&[("net.ipv4.ip_local_port_range", "32768 60999")])),
    ("mem.thp", How::Made(|_| Ok(vec![one("/sys/kernel/mm/transparent_hugepage/enabled", "madvise")]))),
    ("mem.thp-defrag", How::Made(|_| Ok(vec![one("/sys/kernel/mm/transparent_hugepage/defrag", "defer+madvise")]))),
    ("mem.min-free", How::Made(min_free)),
    ("mem.watermark-scale", How::Sysctls(&[("vm.watermark_scale_factor", "100")])),
    ("mem.swap", How::Sysctls(&[("vm.swappiness", "1")])),
    ("mem.map-count", How::Sysctls(&[("vm.max_map_count", "1048576")])),
    ("mem.dirty", How::Made(dirty)),
    ("mem.ksm", How::Made(|_| Ok(vec![one("/sys/kernel/mm/ksm/run", "0")]))),
    ("numa.zone-reclaim", How::Sysctls(&[("vm.zone_reclaim_mode", "0")])),
    ("numa.balancing", How::Sysctls(&[("kernel.numa_balancing", "0")])),
    ("disk.scheduler", How::Made(scheduler)),
    ("disk.readahead", How::Made(readahead)),
    ("clock.source", How::Made(clock)),
    (
        "clock.ticks",
        How::Sysctls(&[("kernel.timer_migration", "0"), ("kernel.nmi_watchdog", "0"), ("vm.stat_interval", "10")]),
    ),
];

/// Returns whether the doctor has settings to write for a check.
pub(super) fn is_there(check: &str) -> bool {
    REMEDIES.iter().any(|(id, _)| *id == check)
}

/// Returns the sysctls that a check's remedy sets to fixed values.
#[cfg(test)]
pub(super) fn fixed(check: &str) -> &'static [(&'static str, &'static str)] {
    match REMEDIES.iter().find(|(id, _)| *id == check) {
        Some((_, How::Sysctls(values))) => values,
        _ => &[],
    }
}

/// Returns the settings of a check's remedy; `None` if the remedy is not a setting that the doctor writes.
pub(super) fn of(check: &str, host: &Host) -> Option<Wishes> {
    let (_, how) = REMEDIES.iter().find(|(id, _)| *id == check)?;
    Some(match how {
        How::Sysctls(values) => Ok(values.iter().map(|(name, value)| one(&sysctl(name), value)).collect()),
        How::Made(make) => make(host),
    })
}

fn one(path: &str, value: impl ToString) -> Wish {
    Wish { new: Setting { path: path.to_owned(), value: value.to_string() }, back: None }
}

fn sysctl(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

fn planned(host: &Host) -> Result<CpuPlan, Unread> {
    let made = plan(&Topology::read(host, None)?, &Wanted::default());
    let made = made.map_err(|_| Unread::Beside("no CPU may be used, so there is no plan"))?;
    if made.cpus_of(Role::Network).is_empty() || !made.pinned {
        return Err(Unread::Beside("the host has too few CPUs to reserve some for the network"));
    }
    Ok(made)
}

fn governor(host: &Host) -> Wishes {
    let path = |cpu: &String| format!("/sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor");
    let has = |path: &String| host.read(path).is_ok();
    Ok(host.cpus()?.iter().map(path).filter(has).map(|path| one(&path, "performance")).collect())
}

fn boost(host: &Host) -> Wishes {
    let (intel, others) = ("/sys/devices/system/cpu/intel_pstate/no_turbo", "/sys/devices/system/cpu/cpufreq/boost");
    Ok(vec![if host.read(intel).is_ok() { one(intel, 0) } else { one(others, 1) }])
}

fn workqueue(host: &Host) -> Wishes {
    let (mut cpus, apart) = kernel_work(host)?;
    cpus.retain(|cpu| !apart.contains(cpu));
    if cpus.is_empty() {
        return Err(Unread::Beside(
            "every CPU is isolated or has a pinned thread, so the kernel's work must share one",
        ));
    }
    Ok(vec![one("/sys/devices/virtual/workqueue/cpumask", mask(&cpus))])
}

/// Assigns each interrupt to one CPU of the network. All interrupts of one queue get the same CPU.
fn affinity(host: &Host) -> Wishes {
    let cpus = planned(host)?.cpus_of(Role::Network);
    let wish = |(at, (number, name)): (usize, (u32, String))| {
        let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let queue = name[head.len()..].parse().unwrap_or(at);
        one(&format!("/proc/irq/{number}/smp_affinity_list"), cpus[queue % cpus.len()])
    };
    Ok(nic_interrupts(host)?.into_iter().enumerate().map(wish).collect())
}

/// Returns the setting with twice its current value, up to a limit.
fn doubled(host: &Host, name: &str, most: i64) -> Result<Wish, Unread> {
    let now = host.sysctl(name)?;
    Ok(one(&sysctl(name), now.saturating_mul(2).min(most).max(now)))
}

fn net_drops(host: &Host) -> Wishes {
    Ok(vec![doubled(host, "net.core.netdev_max_backlog", 65_536)?, doubled(host, "net.core.netdev_budget", 4_800)?])
}

fn conntrack(host: &Host) -> Wishes {
    Ok(vec![doubled(host, "net.netfilter.nf_conntrack_max", 1 << 24)?])
}

/// Sets the interface's number of queues to that of the plan.
fn channels(host: &Host) -> Wishes {
    let plan = planned(host)?;
    let (Some(nic), Some(queues)) = (plan.nic, plan.queues) else {
        return Err(Unread::Beside("the plan has no number of queues for this interface"));
    };
    let path = |name: &str| format!("/ethtool/{nic}/l/{name}");
    let names: &[&str] = match host.setting(&path("Combined")) {
        Ok(count) if count != "0" => &["Combined"],
        _ => &["RX", "TX"],
    };
    Ok(names.iter().map(|name| one(&path(name), queues)).collect())
}

/// Time for which an interface waits for more packets before it interrupts, in microseconds. It is short compared with
/// a request's time, but avoids an interrupt per packet.
const WAIT_US: u64 = 8;

fn coalesce(host: &Host) -> Wishes {
    let mut wishes = Vec::new();
    for nic in host.nics()? {
        let path = |name: &str| format!("/ethtool/{nic}/c/{name}");
        let is_adaptive = host.setting(&path("Adaptive RX")).is_ok_and(|state| state == "on");
        let wait_us = host.setting(&path("rx-usecs")).ok().and_then(|us| us.parse::<u64>().ok());
        wishes.extend(is_adaptive.then(|| one(&path("Adaptive RX"), "off")));
        let is_long = wait_us.is_some_and(|us| us > WAIT_US);
        wishes.extend((is_long || (is_adaptive && wait_us.is_some())).then(|| one(&path("rx-usecs"), WAIT_US)));
    }
    Ok(wishes)
}

/// Doubles the receive rings, up to the interface's maximum.
fn ring(host: &Host) -> Wishes {
    let mut wishes = Vec::new();
    for nic in host.nics()? {
        let text = host.ethtool(&nic, "g")?;
        let sizes = parts(&text).and_then(|(most, now)| Some((number(most, "RX")?, number(now, "RX")?)));
        let (most, now) = sizes.ok_or_else(|| Unread::Garbage(format!("ethtool -g {nic}"), "RX"))?;
        wishes.push(one(&format!("/ethtool/{nic}/g/RX"), now.saturating_mul(2).min(most).max(now)));
    }
    Ok(wishes)
}

/// Returns the paths of `file` of all queues of one kind, per interface.
fn queues(host: &Host, kind: &str, file: &str) -> Result<Vec<Vec<String>>, Unread> {
    let mut nics = Vec::new();
    for nic in host.nics()? {
        let folder = format!("/sys/class/net/{nic}/queues");
        let names = host.list(&folder)?;
        let paths = names.iter().filter(|name| name.starts_with(kind)).map(|name| format!("{folder}/{name}/{file}"));
        nics.push(paths.collect());
    }
    Ok(nics)
}

fn rps(host: &Host) -> Wishes {
    let cpus = mask(&planned(host)?.cpus_of(Role::Network));
    Ok(queues(host, "rx-", "rps_cpus")?.concat().iter().map(|path| one(path, &cpus)).collect())
}

/// Number of flows that receive flow steering tracks on the whole host.
const FLOWS: usize = 32_768;

fn rfs(host: &Host) -> Wishes {
    let mut wishes = vec![one(&sysctl("net.core.rps_sock_flow_entries"), FLOWS)];
    for queues in queues(host, "rx-", "rps_flow_cnt")? {
        let share = FLOWS / queues.len().max(1).next_power_of_two();
        wishes.extend(queues.iter().map(|path| one(path, share)));
    }
    Ok(wishes)
}

fn xps(host: &Host) -> Wishes {
    let topology = Topology::read(host, None)?;
    let mut wishes = Vec::new();
    for queues in queues(host, "tx-", "xps_cpus")? {
        for (at, path) in queues.iter().enumerate() {
            let cpus: Vec<usize> =
                topology.cpus.iter().map(|cpu| cpu.number).filter(|cpu| cpu % queues.len() == at).collect();
            wishes.push(one(path, mask(&cpus)));
        }
    }
    Ok(wishes)
}

fn min_free(host: &Host) -> Wishes {
    Ok(vec![one(&sysctl("vm.min_free_kbytes"), crate::checks::memory::min_free_floor_kb(host)?)])
}

/// Sets the limits in bytes. Writing the old ratios undoes them, because the kernel refuses a limit of 0 bytes.
fn dirty(host: &Host) -> Wishes {
    let mut wishes = Vec::new();
    // The lower limit is written first, because it must stay below the other one.
    for (bytes, ratio, value) in [
        ("vm.dirty_background_bytes", "vm.dirty_background_ratio", 64_u64 << 20),
        ("vm.dirty_bytes", "vm.dirty_ratio", 256 << 20),
    ] {
        let back = match host.sysctl(bytes)? {
            0 => Some(Setting { path: sysctl(ratio), value: host.sysctl(ratio)?.to_string() }),
            _ => None,
        };
        wishes.push(Wish { back, ..one(&sysctl(bytes), value) });
    }
    Ok(wishes)
}

fn scheduler(host: &Host) -> Wishes {
    let moves = |disk: &String| host.number(&format!("/sys/block/{disk}/queue/rotational")).unwrap_or(0) == 1;
    let disks = used_by_process(host, host.disks()?, FileUse::Any).0.into_iter().filter(|disk| !moves(disk));
    Ok(disks.map(|disk| one(&format!("/sys/block/{disk}/queue/scheduler"), "none")).collect())
}

fn readahead(host: &Host) -> Wishes {
    let path = |disk: String| format!("/sys/block/{disk}/queue/read_ahead_kb");
    let large = |path: &String| host.number(path).is_ok_and(|kb| kb > crate::checks::storage::READAHEAD_KB_MAX);
    Ok(used_by_process(host, host.volumes()?, FileUse::Read)
        .0
        .into_iter()
        .map(path)
        .filter(large)
        .map(|path| one(&path, 128))
        .collect())
}

fn clock(host: &Host) -> Wishes {
    let folder = "/sys/devices/system/clocksource/clocksource0";
    let there = host.read(&format!("{folder}/available_clocksource"))?;
    let best = ["tsc", "kvm-clock", "arch_sys_counter"]
        .into_iter()
        .find(|name| there.split_whitespace().any(|word| word == *name));
    let best = best.ok_or(Unread::Beside("the kernel has no faster clock"))?;
    Ok(vec![one(&format!("{folder}/current_clocksource"), best)])
}
