//! The network interface's own settings and counters.

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::ethtool::{number, parts};
use crate::host::{Host, Unread};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "net.coalesce",
        reads: "ethtool -c (Adaptive RX, rx-usecs)",
        mechanism: "The interface waits this long for more packets before it raises an interrupt, and every request \
                    waits with it. With adaptive coalescing the wait changes from one second to the next.",
        remedy: "ethtool -C IFACE adaptive-rx off rx-usecs 8, or the value that `gannet doctor prove` confirms; 0 \
                 means an interrupt per packet",
        expect: "each request waits less, by up to the time shown; more interrupts",
        needs: Needs::Root,
        undo: "set the old values",
        source: "man 8 ethtool",
        probe: coalesce,
    },
    Check {
        id: "net.ring",
        reads: "ethtool -g, /sys/class/net/*/statistics/{rx_missed_errors,rx_fifo_errors}, read twice",
        mechanism: "Packets of a burst wait in the interface's ring until a CPU receives them. If the ring is full, \
                    a packet is dropped, and retransmitted after at least 200 ms.",
        remedy: "ethtool -G IFACE rx N, with twice the current number, at most the interface's maximum; then use more \
                 CPUs for the network",
        expect: "no pauses of 200 ms because of a full ring; packets of a burst may wait longer in the ring",
        needs: Needs::Root,
        undo: "set the old size (the link is interrupted for a moment)",
        source: "man 8 ethtool; kernel: networking/statistics",
        probe: ring,
    },
    Check {
        id: "cloud.allowance",
        reads: "ethtool -S (*_allowance_exceeded), read twice",
        mechanism: "A cloud limits the bandwidth, packets and connections of each machine type. The hypervisor \
                    delays or drops the excess, and only these counters show it.",
        remedy: "use a larger machine type, or send fewer packets by larger batches and pipelines",
        expect: "the hypervisor delays and drops no packets",
        needs: Needs::Restart,
        undo: "nothing to undo on this host",
        source: "Linux driver ena: ethtool counters",
        probe: allowance,
    },
];

/// Longest time that an interface may wait for more packets without a warning, in microseconds.
const WAIT_US_MAX: u64 = 20;

fn coalesce(host: &Host) -> Probed {
    let (mut slow, mut parts) = (false, Vec::new());
    for nic in host.nics()? {
        let text = host.ethtool(&nic, "c")?;
        let is_adaptive = text.lines().any(|line| line.trim().starts_with("Adaptive RX: on"));
        let wait = number(&text, "rx-usecs");
        if wait.is_none() && !is_adaptive {
            return Err(Unread::Garbage(format!("ethtool -c {nic}"), "rx-usecs"));
        }
        slow |= is_adaptive || wait.is_some_and(|us| us > WAIT_US_MAX);
        let wait = wait.map_or_else(|| "unknown".to_owned(), |us| format!("{us} us"));
        parts.push(format!("{nic}: {wait}{}", if is_adaptive { ", adaptive" } else { "" }));
    }
    Ok(ProbeResult::warn_if(slow, format!("interrupts wait for more packets: {}", parts.join("; "))))
}

fn ring(host: &Host) -> Probed {
    let (mut lost, mut rings) = (0, Vec::new());
    for nic in host.nics()? {
        for name in ["rx_missed_errors", "rx_fifo_errors"] {
            let path = format!("/sys/class/net/{nic}/statistics/{name}");
            let twice = host.twice(&path)?;
            let count = |text: &str| text.parse::<u64>().map_err(|_| Unread::Garbage(path.clone(), "number"));
            lost += count(&twice.after)?.saturating_sub(count(&twice.before)?);
        }
        let text = host.ethtool(&nic, "g")?;
        let sizes = parts(&text).and_then(|(most, now)| Some((number(most, "RX")?, number(now, "RX")?)));
        let (most, now) = sizes.ok_or_else(|| Unread::Garbage(format!("ethtool -g {nic}"), "RX"))?;
        rings.push(format!("{nic}: {now} of {most}"));
    }
    let value = format!(
        "receive rings {}; {lost} packets dropped between the readings because of a full ring",
        rings.join(", ")
    );
    Ok(if lost > 0 { ProbeResult::bad(value).weighing(1.0) } else { ProbeResult::ok(value) })
}

/// Returns the sum of the counters of traffic beyond the cloud's limits; `None` if there are no such counters.
fn exceeded(text: &str) -> Option<u64> {
    let counters: Vec<u64> = text
        .lines()
        .filter_map(|line| line.trim().split_once(':'))
        .filter(|(name, _)| name.ends_with("_allowance_exceeded"))
        .filter_map(|(_, count)| count.trim().parse().ok())
        .collect();
    (!counters.is_empty()).then(|| counters.iter().sum())
}

fn allowance(host: &Host) -> Probed {
    let (mut grown, mut parts) = (0, Vec::new());
    for nic in host.nics()? {
        let Ok(twice) = host.ethtool_twice(&nic, "S") else { continue };
        if let (Some(before), Some(after)) = (exceeded(&twice.before), exceeded(&twice.after)) {
            grown += after.saturating_sub(before);
            parts.push(format!("{nic}: {after} packets since the interface came up"));
        }
    }
    if parts.is_empty() {
        return Err(Unread::Beside("no interface of this host counts packets beyond an allowance"));
    }
    let value = format!("beyond the allowance: {}; {grown} between the readings", parts.join(", "));
    Ok(if grown > 0 { ProbeResult::bad(value).weighing(1.0) } else { ProbeResult::ok(value) })
}
