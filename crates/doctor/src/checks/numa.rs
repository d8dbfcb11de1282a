//! Memory that is nearer to some CPUs than to others.

use crate::check::{Check, Needs, Probed, Seen};
use crate::host::{Host, Unread};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "numa.zone-reclaim",
        reads: "/proc/sys/vm/zone_reclaim_mode",
        mechanism: "With this mode a node that is full frees memory of its own before another's is used, in the \
                    thread that asks. Reads of mapped files then wait for it, while the next node has memory to \
                    spare.",
        remedy: "sysctl vm.zone_reclaim_mode=0",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "LinkedIn's GraphDB; kernel: admin-guide/sysctl/vm",
        probe: zone_reclaim,
    },
    Check {
        id: "numa.balancing",
        reads: "/proc/sys/kernel/numa_balancing",
        mechanism: "Automatic balancing unmaps pages to see who touches them. Each touch after that is a fault, \
                    and pages are copied between the nodes.",
        remedy: "sysctl kernel.numa_balancing=0, and place the server's threads and memory",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/sysctl/kernel",
        probe: balancing,
    },
    Check {
        id: "numa.placement",
        reads: "/proc/PID/numa_maps",
        mechanism: "Memory of another node is slower by 60 to 100 ns an access. A server whose pages lie mostly on \
                    one node of several fills that node, and what is on the others is far.",
        remedy: "a process for each node (numactl --cpunodebind --membind), or --interleave=all where one must \
                 have all",
        needs: Needs::Restart,
        undo: "start it as before",
        source: "man 5 numa",
        probe: placement,
    },
    Check {
        id: "numa.nic-node",
        reads: "/sys/class/net/*/device/numa_node",
        mechanism: "Packets are written into the memory of the node that the network interface hangs on. Workers \
                    of another node fetch each of them across.",
        remedy: "run the workers on the interface's node",
        needs: Needs::Nothing,
        undo: "give the old affinity back",
        source: "kernel: networking/scaling",
        probe: nic_node,
    },
];

fn zone_reclaim(host: &Host) -> Probed {
    let mode = host.sysctl("vm.zone_reclaim_mode")?;
    Ok(Seen::bad_if(mode != 0, format!("vm.zone_reclaim_mode = {mode}")))
}

fn balancing(host: &Host) -> Probed {
    let nodes = host.nodes()?;
    if nodes == 1 {
        return Ok(Seen::ok("one node"));
    }
    let on = host.sysctl("kernel.numa_balancing")?;
    Ok(Seen::warn_if(on != 0, format!("kernel.numa_balancing = {on}, on {nodes} nodes")))
}

/// A node with more than this part of all pages, of several nodes, is lopsided.
const SHARE_MAX: f64 = 0.75;
/// A small process lies anywhere.
const PAGES_MIN: u64 = 4096;

/// Pages of a process on each node.
fn pages(text: &str) -> Vec<u64> {
    let mut nodes = Vec::new();
    for word in text.split_whitespace() {
        let Some((node, count)) = word.strip_prefix('N').and_then(|rest| rest.split_once('=')) else { continue };
        let (Ok(node), Ok(count)) = (node.parse::<usize>(), count.parse::<u64>()) else { continue };
        if node < 1024 {
            nodes.resize(nodes.len().max(node + 1), 0);
            nodes[node] += count;
        }
    }
    nodes
}

fn placement(host: &Host) -> Probed {
    let path = host.process("numa_maps")?;
    let nodes = host.nodes()?;
    if nodes == 1 {
        return Ok(Seen::ok("one node"));
    }
    let pages = pages(&host.read(&path)?);
    let (sum, most) = (pages.iter().sum::<u64>(), pages.iter().copied().max().unwrap_or(0));
    if sum == 0 {
        return Err(Unread::Garbage(path, "pages of a node (N0=...)"));
    }
    let share = most as f64 / sum as f64;
    let value = format!("{:.0} % of its pages on one of {nodes} nodes", share * 100.0);
    Ok(Seen::warn_if(share > SHARE_MAX && sum >= PAGES_MIN, value).weighing(share))
}

fn nic_node(host: &Host) -> Probed {
    let nodes = host.nodes()?;
    let mut told = Vec::new();
    for nic in host.nics()? {
        let node = host.number(&format!("/sys/class/net/{nic}/device/numa_node"));
        told.push(match node {
            Ok(node) if node >= 0 => format!("{nic}: node {node}"),
            _ => format!("{nic}: no node told"),
        });
    }
    let value = told.join(", ");
    // Only a server with a process for each node can follow: it is told, and weighs where workers are elsewhere.
    if nodes == 1 { Ok(Seen::ok("one node")) } else { Ok(Seen::warn(value)) }
}
