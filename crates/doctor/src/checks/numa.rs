//! Memory nodes (NUMA): memory that is nearer to some CPUs than to others.

use super::placed::busy;
use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::host::{Host, Unread};
use crate::topology::{cpu_list, nodes};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "numa.zone-reclaim",
        reads: "/proc/sys/vm/zone_reclaim_mode",
        mechanism: "With this mode a thread on a full node frees memory of that node before it uses another node's \
                    free memory. Reads of mapped files then wait, although other nodes have free memory.",
        remedy: "sysctl vm.zone_reclaim_mode=0",
        expect: "no request waits to free memory while another node has free memory",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "LinkedIn's GraphDB; kernel: admin-guide/sysctl/vm",
        probe: zone_reclaim,
    },
    Check {
        id: "numa.balancing",
        reads: "/proc/sys/kernel/numa_balancing",
        mechanism: "Automatic balancing unmaps pages to see which thread uses them. The next access of each page \
                    faults, and pages are copied between nodes.",
        remedy: "sysctl kernel.numa_balancing=0, and place the server's threads and memory",
        expect: "no faults for balancing; memory stays on its node",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/sysctl/kernel",
        probe: balancing,
    },
    Check {
        id: "numa.placement",
        reads: "/proc/PID/numa_maps, /proc/PID/status (Cpus_allowed_list), /sys/devices/system/node/node*/cpulist",
        mechanism: "An access to another node's memory takes 60 to 100 ns longer. A server whose threads run on one \
                    node should have its memory there, and a server that runs on several nodes but has all its \
                    memory on one fills that node.",
        remedy: "run one process per node (numactl --cpunodebind --membind), or use --interleave=all if one process \
                 needs all the memory",
        expect: "accesses to formerly remote memory take 60 to 100 ns less",
        needs: Needs::Restart,
        undo: "restart it with the old options",
        source: "man 7 numa",
        probe: placement,
    },
    Check {
        id: "numa.nic-node",
        reads: "/sys/class/net/*/device/numa_node, /proc/PID/task/*/{stat,status}, read twice",
        mechanism: "The interface writes packets into the memory of the node that it is attached to. Workers on \
                    another node fetch each packet from there.",
        remedy: "run the workers on the interface's node",
        expect: "less time per packet; no change if CPUs are mostly idle",
        needs: Needs::Nothing,
        undo: "restore the old affinity",
        source: "kernel: networking/scaling",
        probe: nic_node,
    },
];

fn zone_reclaim(host: &Host) -> Probed {
    let mode = host.sysctl("vm.zone_reclaim_mode")?;
    Ok(ProbeResult::bad_if(mode != 0, format!("vm.zone_reclaim_mode = {mode}")))
}

fn balancing(host: &Host) -> Probed {
    let nodes = host.nodes()?;
    if nodes == 1 {
        return Ok(ProbeResult::ok("one node"));
    }
    let on = host.sysctl("kernel.numa_balancing")?;
    Ok(ProbeResult::warn_if(on != 0, format!("kernel.numa_balancing = {on}, on {nodes} nodes")))
}

/// Maximum share of a process's pages on one of several nodes without a warning, if the process runs on several nodes.
const SHARE_MAX: f64 = 0.75;
/// Maximum share of a process's memory on other nodes without a warning, if the process runs on a single node.
const FAR_MAX: f64 = 0.1;
/// Minimum number of a process's pages for a warning. For a smaller process the node does not matter.
const PAGES_MIN: u64 = 4096;
/// Size of the pages in which all memory is counted, in KiB.
const PAGE_KB: u64 = 4;

/// Returns the memory of a process on each node, in pages of 4 KiB. The kernel counts a huge page of hugetlbfs as one
/// page, so its size is taken into account.
fn pages(text: &str) -> Vec<u64> {
    let mut pages = Vec::new();
    for line in text.lines() {
        let size = line.split_whitespace().find_map(|word| word.strip_prefix("kernelpagesize_kB=")?.parse().ok());
        let times = size.unwrap_or(PAGE_KB) / PAGE_KB;
        for word in line.split_whitespace() {
            let Some((node, count)) = word.strip_prefix('N').and_then(|rest| rest.split_once('=')) else { continue };
            let (Ok(node), Ok(count)) = (node.parse::<usize>(), count.parse::<u64>()) else { continue };
            if node < 1024 {
                pages.resize(pages.len().max(node + 1), 0);
                pages[node] += count.saturating_mul(times.max(1));
            }
        }
    }
    pages
}

/// Returns the nodes whose CPUs the process may run on.
fn own_nodes(host: &Host) -> Result<Vec<usize>, Unread> {
    let path = host.process("status")?;
    let text = host.read(&path)?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = cpu_list(&path, list.ok_or_else(|| Unread::Garbage(path.clone(), "Cpus_allowed_list"))?.trim())?;
    let is_own = |(_, cpus): &(usize, Vec<usize>)| cpus.iter().any(|cpu| allowed.contains(cpu));
    Ok(nodes(host)?.into_iter().filter(is_own).map(|(node, _)| node).collect())
}

fn placement(host: &Host) -> Probed {
    let path = host.process("numa_maps")?;
    let nodes = host.nodes()?;
    if nodes == 1 {
        return Ok(ProbeResult::ok("one node"));
    }
    let pages = pages(&host.read(&path)?);
    let (sum, most) = (pages.iter().sum::<u64>(), pages.iter().copied().max().unwrap_or(0));
    if sum == 0 {
        return Err(Unread::Garbage(path, "pages of a node (N0=...)"));
    }
    let share = |pages: u64| pages as f64 / sum as f64;
    let (part, is_bad, value) = match own_nodes(host)?[..] {
        [own] => {
            let far = share(sum - pages.get(own).copied().unwrap_or(0));
            (far, far > FAR_MAX, format!("{:.0} % of its memory is away from node {own}, where it runs", far * 100.0))
        }
        _ => {
            let value = format!("{:.0} % of its memory on one of {nodes} nodes", share(most) * 100.0);
            (share(most), share(most) > SHARE_MAX, value)
        }
    };
    Ok(ProbeResult::warn_if(is_bad && sum >= PAGES_MIN, value).weighing(part))
}

fn nic_node(host: &Host) -> Probed {
    let count = host.nodes()?;
    let (mut parts, mut near) = (Vec::new(), Vec::new());
    for nic in host.nics()? {
        let node = host.number(&format!("/sys/class/net/{nic}/device/numa_node"));
        if let Some(node) = node.ok().and_then(|node| usize::try_from(node).ok()) {
            parts.push(format!("{nic}: node {node}"));
            near.push(node);
        }
    }
    if count == 1 {
        return Ok(ProbeResult::ok("one node"));
    }
    if near.is_empty() {
        return Err(Unread::Beside("no network interface here reports its node"));
    }
    let nodes = nodes(host)?;
    let node_of = |cpu: usize| nodes.iter().find(|(_, cpus)| cpus.contains(&cpu)).map(|(node, _)| *node);
    let busy = busy(host)?;
    let far = busy.iter().find_map(|thread| {
        let node = node_of(thread.cpu).filter(|node| !near.contains(node))?;
        Some(format!("the busy thread {} is on node {node}; {}", thread.name, parts.join(", ")))
    });
    Ok(far.map_or_else(
        || ProbeResult::ok(format!("{} busy threads; {}", busy.len(), parts.join(", "))),
        ProbeResult::warn,
    ))
}
