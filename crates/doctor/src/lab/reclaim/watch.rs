//! Records the kernel's memory counters while a lab runs: once per second for the charts, and at the ends of a phase
//! for its figures.

use std::collections::BTreeMap;

use super::super::group::Group;
use super::super::outcome::Timeline;
use crate::host::{field, read_at};

/// Counters of /proc/vmstat whose growth over a phase is recorded.
pub const COUNTERS: [&str; 35] = [
    "pgscan_direct",
    "pgscan_kswapd",
    "pgsteal_direct",
    "pgsteal_kswapd",
    "pgscan_direct_throttle",
    "allocstall_normal",
    "allocstall_movable",
    "zone_reclaim_success",
    "zone_reclaim_failed",
    "pgmajfault",
    "pgfault",
    "workingset_refault_file",
    "workingset_activate_file",
    "kswapd_low_wmark_hit_quickly",
    "kswapd_high_wmark_hit_quickly",
    "compact_stall",
    "compact_fail",
    "compact_success",
    "thp_fault_alloc",
    "thp_fault_fallback",
    "thp_split_page",
    "thp_collapse_alloc",
    "numa_hit",
    "numa_miss",
    "numa_foreign",
    "numa_interleave",
    "numa_other",
    "numa_pte_updates",
    "numa_hint_faults",
    "numa_pages_migrated",
    "pgmigrate_success",
    "pgmigrate_fail",
    "pgpromote_success",
    "pgdemote_direct",
    "drop_pagecache",
];

/// Lines of the charts that show the growth of a counter per second: the line's name, and the counter.
const RATES: [(&str, &str); 10] = [
    ("pages scanned/direct", "pgscan_direct"),
    ("pages scanned/kswapd", "pgscan_kswapd"),
    ("pages freed/direct", "pgsteal_direct"),
    ("pages freed/kswapd", "pgsteal_kswapd"),
    ("zone reclaim/success", "zone_reclaim_success"),
    ("zone reclaim/failed", "zone_reclaim_failed"),
    ("refaults/refaulted", "workingset_refault_file"),
    ("refaults/activated", "workingset_activate_file"),
    ("major faults", "pgmajfault"),
    ("limit reached", "limit_reached"),
];

/// Additional counters from a node's own files: whether memory was allocated on the intended node.
const NODE_COUNTERS: [&str; 6] =
    ["numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node"];
/// Lines of the charts that show amounts of memory on a node: the line's name, and the key in the node's meminfo.
const NODE_LEVELS: [(&str, &str); 3] = [
    ("free memory by node", "MemFree"),
    ("active file pages by node", "Active(file)"),
    ("inactive file pages by node", "Inactive(file)"),
];
/// The folder of the memory nodes.
const NODES: &str = "/sys/devices/system/node";

/// Size in KiB of a page, the unit of /proc/zoneinfo.
const PAGE_KIB: f64 = 4.0;

/// Counters by name. The host's counters have the names of /proc/vmstat, those of a node the prefix `node0_`, and those
/// of the control group the prefix `group_`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PressureCounters(BTreeMap<String, f64>);

fn text(path: &str) -> String {
    read_at(path.as_ref(), path).unwrap_or_default()
}

/// Returns the memory nodes if there are several. The counters of a single node would equal the host's.
fn nodes() -> Vec<String> {
    let is_node = |name: &String| name.strip_prefix("node").is_some_and(|digits| digits.parse::<u32>().is_ok());
    let entries = std::fs::read_dir(NODES).into_iter().flatten().filter_map(Result::ok);
    let mut nodes: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_node).collect();
    nodes.sort_unstable_by_key(|name| (name.len(), name.clone()));
    if nodes.len() > 1 { nodes } else { Vec::new() }
}

impl PressureCounters {
    /// Reads the current counters.
    pub fn now(group: Option<&Group>) -> Self {
        let mut counts = Self::default();
        counts.take("", &COUNTERS, &text("/proc/vmstat"));
        for node in nodes() {
            let start = format!("{node}_");
            counts.take(&start, &COUNTERS, &text(&format!("{NODES}/{node}/vmstat")));
            counts.take(&start, &NODE_COUNTERS, &text(&format!("{NODES}/{node}/numastat")));
        }
        if let Some(group) = group {
            counts.take("group_", &COUNTERS, &group.read("memory.stat"));
            counts.0.insert("limit_reached".to_owned(), group.limit_reached());
        }
        counts
    }

    /// Stores the values of `keys` in `text`, under names with the prefix `start`.
    fn take(&mut self, start: &str, keys: &[&str], text: &str) {
        self.0.extend(keys.iter().filter_map(|key| Some((format!("{start}{key}"), field(text, key)? as f64))));
    }

    /// Returns the growth of each counter since `before`.
    pub fn since(&self, before: &Self) -> BTreeMap<String, f64> {
        let grown = |(key, now): (&String, &f64)| Some((key.clone(), now - before.0.get(key)?));
        self.0.iter().filter_map(grown).collect()
    }
}

/// Returns the number of free pages and the low watermark in pages, each summed over the zones of `/proc/zoneinfo`.
fn free_and_low(zoneinfo: &str) -> (f64, f64) {
    let sum = |key: &str| -> f64 {
        let numbers = zoneinfo.lines().filter_map(|line| {
            let line = line.trim_start();
            line.strip_prefix("pages ").unwrap_or(line).trim_start().strip_prefix(key)?.trim().parse::<f64>().ok()
        });
        numbers.sum()
    };
    (sum("free "), sum("low "))
}

/// Returns a value from a line of a node's meminfo: `Node 0 MemFree:  123 kB`.
fn of_node(meminfo: &str, key: &str) -> Option<f64> {
    let line = |line: &str| line.trim().splitn(3, ' ').nth(2).and_then(|rest| field(rest, key));
    meminfo.lines().find_map(line).map(|kib| kib as f64)
}

/// Returns the time for which some task waited since the host's boot, in us.
fn lost_us(pressure: &str) -> Option<f64> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    some.rsplit_once("total=")?.1.parse().ok()
}

/// The recorded figures over time.
#[derive(Debug, Default)]
pub struct FigureWatch {
    lines: BTreeMap<String, Timeline>,
    last: Option<(f64, PressureCounters, BTreeMap<&'static str, f64>)>,
}

impl FigureWatch {
    fn point(&mut self, name: &str, unit: &'static str, at_s: f64, value: f64) {
        let fresh = || Timeline { name: name.to_owned(), unit, points: Vec::new() };
        self.lines.entry(name.to_owned()).or_insert_with(fresh).points.push((at_s, value));
    }

    /// Reads the counters if a second has passed since the last reading; it may be called more often.
    pub fn tick(&mut self, now_s: f64, group: Option<&Group>) {
        if self.last.as_ref().is_some_and(|(at_s, ..)| now_s - at_s < 1.0) {
            return;
        }
        self.levels(now_s, group);
        let counts = PressureCounters::now(group);
        let mut sums: BTreeMap<&'static str, f64> = BTreeMap::new();
        for (name, path) in [("time lost/memory", "/proc/pressure/memory"), ("time lost/disk", "/proc/pressure/io")] {
            sums.extend(lost_us(&text(path)).map(|us| (name, us)));
        }
        if let Some((then_s, before, sums_before)) = self.last.take() {
            let seconds = now_s - then_s;
            let grown = counts.since(&before);
            for (name, key) in RATES {
                // Each phase has its own control group, whose counters begin at 0.
                if let Some(grown) = grown.get(key).filter(|grown| **grown >= 0.0) {
                    self.point(name, "a second", now_s, grown / seconds);
                }
            }
            for (name, sum) in &sums {
                let Some(before) = sums_before.get(name) else { continue };
                self.point(name, "% of the time", now_s, (sum - before) / 1e4 / seconds);
            }
        }
        self.last = Some((now_s, counts, sums));
    }

    /// Records current amounts of memory.
    fn levels(&mut self, now_s: f64, group: Option<&Group>) {
        let (free, low) = free_and_low(&text("/proc/zoneinfo"));
        self.point("free memory/free", "MiB", now_s, free * PAGE_KIB / 1024.0);
        self.point("free memory/low mark", "MiB", now_s, low * PAGE_KIB / 1024.0);
        for node in nodes() {
            let fields = text(&format!("{NODES}/{node}/meminfo"));
            for (chart, key) in NODE_LEVELS {
                if let Some(kib) = of_node(&fields, key) {
                    self.point(&format!("{chart}/{node}"), "MiB", now_s, kib / 1024.0);
                }
            }
        }
        let (fields, keys, mib) = match group {
            Some(group) => (group.read("memory.stat"), ["active_file", "inactive_file"], f64::from(1 << 20)),
            None => (text("/proc/meminfo"), ["Active(file)", "Inactive(file)"], 1024.0),
        };
        for (name, key) in ["file pages/active", "file pages/inactive"].into_iter().zip(keys) {
            if let Some(value) = field(&fields, key) {
                self.point(name, "MiB", now_s, value as f64 / mib);
            }
        }
    }

    /// Returns all timelines, without those whose values were always 0.
    pub fn timelines(self) -> Vec<Timeline> {
        self.lines.into_values().filter(|line| line.points.iter().any(|point| point.1 != 0.0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONES: &str = "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_file 7\n  pages free     3840\n   \
                              boost    0\n \u{20}       min      10\n        low      13\n        high     16\nNode \
                         0, zone   Normal\n  pages free 100\n        low      7\n      nr_free_pages 100\n";

    #[test]
    fn marks_and_free_pages_are_summed_over_zones() {
        assert_eq!(free_and_low(ZONES), (3940.0, 20.0));
        assert_eq!(free_and_low(""), (0.0, 0.0));
    }

    #[test]
    fn only_counters_present_on_this_kernel_are_reported() {
        let of = |start: &str, text: &str| {
            let mut counts = PressureCounters::default();
            counts.take(start, &COUNTERS, text);
            counts
        };
        let before = of("", "pgscan_direct 5\npgfault 1000\nnr_free_pages 3\n");
        let after = of("", "pgscan_direct 12\npgfault 1500\npgmajfault 3\n");
        let grown = after.since(&before);
        assert_eq!(
            grown.into_iter().collect::<Vec<_>>(),
            [("pgfault".to_owned(), 500.0), ("pgscan_direct".to_owned(), 7.0)]
        );
        assert!(of("node1_", "pgscan_direct 5").since(&before).is_empty(), "another's counter of the same name");
        let node = "Node 1 MemTotal:  262144 kB\nNode 1 MemFree:   1024 kB\nNode 1 Active(file):     77 kB\n";
        assert_eq!((of_node(node, "MemFree"), of_node(node, "Active(file)")), (Some(1024.0), Some(77.0)));
        assert_eq!(of_node(node, "Mem"), None);
        assert_eq!(lost_us("some avg10=0.00 avg60=0.00 avg300=0.00 total=12345\nfull ..."), Some(12345.0));
    }

    #[test]
    fn it_looks_once_a_second() {
        let mut watch = FigureWatch::default();
        for tenth in 0..=20 {
            watch.tick(f64::from(tenth) / 10.0, None);
        }
        let lines = watch.timelines();
        let free = lines.iter().find(|line| line.name == "free memory/free").expect("this host has memory");
        assert_eq!(free.points.len(), 3, "{free:?}");
    }
}
