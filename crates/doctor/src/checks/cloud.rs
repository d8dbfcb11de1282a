//! The virtual machine: stolen CPU time, machine type and placement.

use super::irq::most_of_a_cpu;
use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::ethtool::{channels_max, channels_now};
use crate::host::{Host, Unread};
use crate::metadata;
use crate::plan::{Wanted, plan};
use crate::topology::Topology;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "cloud.steal",
        reads: "/proc/stat (steal of each CPU), read twice",
        mechanism: "Steal is the time for which a virtual CPU was ready to run but the hypervisor ran another \
                    virtual machine. No setting within the guest reduces it.",
        remedy: "use another host, or a machine type whose CPUs are not shared",
        expect: "no waits for a CPU that another virtual machine uses",
        needs: Needs::Restart,
        undo: "nothing to undo on this host",
        source: "Aerospike's tests on EC2: steal of 0.2 to 0.7 % did no harm",
        probe: steal,
    },
    Check {
        id: "cloud.nic-driver",
        reads: "/sys/class/net/*/device/uevent (DRIVER)",
        mechanism: "An old paravirtual interface sends each packet through the hypervisor's software. It is limited \
                    to some ten thousand packets per second, however many CPUs are idle.",
        remedy: "use a machine type with enhanced networking (ena, gve, mana)",
        expect: "the maximum packet rate rises several times",
        needs: Needs::Restart,
        undo: "nothing to undo on this host",
        source: "Aerospike on EC2: 85 k packets a second",
        probe: nic_driver,
    },
    Check {
        id: "cloud.queues-default",
        reads: "ethtool -l, the plan",
        mechanism: "The driver of a cloud's interface chooses the initial number of queues and assigns them to the \
                    first CPUs. Workers on those CPUs are interrupted for every packet, including packets for other \
                    workers.",
        remedy: "set the number of queues that `gannet doctor plan` shows (ethtool -L IFACE combined N), and assign \
                 their interrupts to its network CPUs",
        expect: "p99 and p999 fall under load; no change when idle",
        needs: Needs::Root,
        undo: "set the old number of queues (the link is interrupted for a moment)",
        source: "Pelikan on T2A: 4 queues of 16 on CPUs of their own, p999 fell by half at 320 k requests/s",
        probe: queues_default,
    },
    Check {
        id: "cloud.burstable",
        reads: "/sys/class/dmi/id/{sys_vendor,product_name}",
        mechanism: "Burstable machine types earn CPU credits. When the credits are used up, the machine gets a \
                    fraction of a CPU, and latency rises hours after the test began.",
        remedy: "use a machine type with dedicated CPUs",
        expect: "the same CPU performance after hours as at the start",
        needs: Needs::Restart,
        undo: "nothing to undo on this host",
        source: "Amazon EC2: burstable performance instances",
        probe: burstable,
    },
    Check {
        id: "cloud.placement",
        reads: "the cloud's metadata service (--metadata)",
        mechanism: "Machines in one zone are a few network hops apart, and machines in one placement group fewer. \
                    Between zones each reply takes up to 1 ms longer.",
        remedy: "put clients and servers in one zone, and in one cluster placement group if tail latency matters",
        expect: "up to 1 ms less per round trip than between zones; a smaller gain within a zone",
        needs: Needs::Restart,
        undo: "nothing to undo on this host",
        source: "Amazon EC2: placement groups; Google Compute Engine: placement policies",
        probe: placement,
    },
    Check {
        id: "sys.kernel",
        reads: "/proc/sys/kernel/osrelease",
        mechanism: "The available remedies and the fixed kernel bugs depend on the version. It is shown so that \
                    hosts can be compared.",
        remedy: "none by itself",
        expect: "none",
        needs: Needs::Nothing,
        undo: "nothing to undo on this host",
        source: "man 5 proc",
        probe: kernel,
    },
];

/// Index of the stolen time among the numbers in a CPU's line of /proc/stat.
const STEAL: usize = 7;
/// Maximum share of stolen time without a warning.
const STEAL_MAX: f64 = 0.02;
/// Share of stolen time above which a CPU is often unavailable.
const STEAL_BAD: f64 = 0.1;

fn steal(host: &Host) -> Probed {
    let path = "/proc/stat";
    let (cpu, share) =
        most_of_a_cpu(&host.twice(path)?, STEAL).ok_or(Unread::Garbage(path.to_owned(), "lines of CPUs"))?;
    let value = format!("{:.1} % of the time, {cpu} waited for the hypervisor", share * 100.0);
    let seen = if share > STEAL_BAD { ProbeResult::bad(value) } else { ProbeResult::warn_if(share > STEAL_MAX, value) };
    Ok(seen.weighing(share))
}

fn nic_driver(host: &Host) -> Probed {
    let (mut old, mut parts) = (false, Vec::new());
    for nic in host.nics()? {
        let folder = format!("/sys/class/net/{nic}/device");
        let text = host.read(&format!("{folder}/uevent"))?;
        let driver = text.lines().find_map(|line| line.strip_prefix("DRIVER="));
        let driver = driver.ok_or_else(|| Unread::Garbage(format!("{folder}/uevent"), "DRIVER="))?;
        old |= matches!(driver, "vif" | "xen-netfront" | "ixgbevf" | "8139cp" | "e1000");
        parts.push(format!("{nic}: {driver}"));
    }
    Ok(ProbeResult::warn_if(old, parts.join(", ")))
}

fn queues_default(host: &Host) -> Probed {
    let topology = Topology::read(host, None)?;
    let planned = plan(&topology, &Wanted::default());
    let planned = planned.map_err(|_| Unread::Beside("this process may not use any CPU, so there is no plan"))?;
    let nic = topology.nic().ok_or_else(|| Unread::Absent("/sys/class/net/*/device".to_owned()))?;
    let command = || format!("ethtool -l {}", nic.name);
    let text = host.ethtool(&nic.name, "l")?;
    let most = channels_max(&text).ok_or_else(|| Unread::Garbage(command(), "most channels"))?;
    let now = channels_now(&text).ok_or_else(|| Unread::Garbage(command(), "channels"))?;
    let value = format!("{}: {now} queues of {most}", nic.name);
    Ok(match planned.queues {
        Some(queues) => ProbeResult::warn_if(queues != now, format!("{value}; the plan needs {queues}")),
        None => ProbeResult::ok(format!("{value}; the host has too few CPUs for a plan")),
    })
}

fn burstable(host: &Host) -> Probed {
    let vendor = host.read("/sys/class/dmi/id/sys_vendor")?;
    let product = host.read("/sys/class/dmi/id/product_name")?;
    // These vendors give every type of machine the same product name.
    if ["Google", "Microsoft", "Xen"].iter().any(|name| vendor.starts_with(name)) {
        return Err(Unread::Beside("this cloud does not report the machine type here"));
    }
    let is_amazon = vendor.starts_with("Amazon");
    let burstable = is_amazon && ["t2.", "t3.", "t3a.", "t4g."].iter().any(|kind| product.starts_with(kind));
    Ok(ProbeResult::warn_if(burstable, format!("{vendor} {product}")))
}

fn placement(host: &Host) -> Probed {
    let path = "/measured/cloud.placement";
    let text = if host.is_live() {
        if !host.asked().metadata {
            return Err(Unread::Beside("not checked: it needs a request to the metadata service; pass --metadata"));
        }
        metadata::query(metadata::ADDRESS)?
    } else {
        host.read(path)?
    };
    let word = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::trim));
    let zone = word("zone").ok_or_else(|| Unread::Garbage(path.to_owned(), "zone"))?;
    // Not every cloud reports the placement group.
    Ok(match word("group") {
        None => ProbeResult::ok(format!("zone {zone}; the group is unknown")),
        Some("none") => ProbeResult::warn(format!("zone {zone}, in no placement group")),
        Some(group) => ProbeResult::ok(format!("zone {zone}, placement group {group}")),
    })
}

fn kernel(host: &Host) -> Probed {
    Ok(ProbeResult::ok(host.read("/proc/sys/kernel/osrelease")?))
}
