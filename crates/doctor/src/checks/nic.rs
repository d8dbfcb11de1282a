//! The network interface's own settings and counters.

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::ethtool::{number, parts};
use crate::host::{Host, Unread};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "net.coalesce",
        reads: "ethtool -c (Adaptive RX, rx-usecs)",
        mechanism: "The interface waits this long for more packets before it interrupts. Every request waits as long; \
                    an adaptive interface waits as it likes, and differently from one second to the next.",
        remedy: "ethtool -C IFACE adaptive-rx off rx-usecs 8, or what `prove` finds: 0 gives an interrupt a packet",
        expect: "each request waits less, by up to the time shown; more interrupts",
        needs: Needs::Root,
        undo: "set the old values",
        source: "man 8 ethtool",
        probe: coalesce,
    },
    Check {
        id: "net.ring",
        reads: "ethtool -g, /sys/class/net/*/statistics/{rx_missed_errors,rx_fifo_errors}, twice",
        mechanism: "Packets of a burst wait in the interface's ring until a CPU takes them in. What finds it full is \
                     dropped, and sent again after 200 ms at the least.",
        remedy: "ethtool -G IFACE rx N, up to what it has; then more CPUs for the network",
        expect: "no pauses of 200 ms for this cause; packets of a burst may wait longer instead",
        needs: Needs::Root,
        undo: "set the old size (the link is interrupted for a moment)",
        source: "man 8 ethtool; kernel: networking/statistics",
        probe: ring,
    },
    Check {
        id: "cloud.allowance",
        reads: "ethtool -S (*_allowance_exceeded), twice",
        mechanism: "A cloud limits the bandwidth, packets and connections of each type of machine. The excess is held \
                    back or dropped below this machine, where nothing else shows it.",
        remedy: "a larger type of machine, or fewer packets: larger batches, pipelines",
        expect: "nothing held back or dropped below this machine",
        needs: Needs::Restart,
        undo: "nothing was changed",
        source: "Linux driver ena: ethtool counters",
        probe: allowance,
    },
];

/// Longest wait of an interface that passes, in microseconds.
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
    Ok(ProbeResult::warn_if(slow, format!("packets wait for others: {}", parts.join("; "))))
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
    let value = format!("receive rings {}; {lost} packets found them full meanwhile", rings.join(", "));
    Ok(if lost > 0 { ProbeResult::bad(value).weighing(1.0) } else { ProbeResult::ok(value) })
}

/// Returns the sum of the counters of traffic beyond an allowance; `None` if there are no such counters.
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
            parts.push(format!("{nic}: {after} packets since it is up"));
        }
    }
    if parts.is_empty() {
        return Err(Unread::Beside("no interface here counts what is beyond an allowance"));
    }
    let value = format!("beyond the allowance: {}; {grown} meanwhile", parts.join(", "));
    Ok(if grown > 0 { ProbeResult::bad(value).weighing(1.0) } else { ProbeResult::ok(value) })
}
