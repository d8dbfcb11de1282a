//! The network: queues, limits and lost packets.

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::host::{Host, Unread};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "net.queues",
        reads: "/sys/class/net/*/queues, the CPUs",
        mechanism: "Each queue of a network interface is served by one CPU. With a single queue on a host with many \
                    CPUs, that CPU limits the whole host.",
        remedy: "ethtool -L IFACE combined N, with the number of queues that `gannet doctor plan` shows",
        expect: "the maximum packet rate rises until another CPU is fully used",
        needs: Needs::Root,
        undo: "set the old number of queues (the link is interrupted for a moment)",
        source: "kernel: networking/scaling; measurements of the cache server Pelikan on Google Cloud's T2A machines",
        probe: queues,
    },
    Check {
        id: "net.rps",
        reads: "/sys/class/net/*/queues/rx-*/rps_cpus",
        mechanism: "Receive packet steering distributes the packets of a few queues over more CPUs. Without it the \
                    CPUs of those queues do all of the protocol work.",
        remedy: "if there are fewer queues than a quarter of the CPUs, write a mask of the network CPUs into rps_cpus",
        expect: "the maximum packet rate rises; at low load each packet costs one more hand-over between CPUs",
        needs: Needs::Root,
        undo: "write the old mask back",
        source: "kernel: networking/scaling; Aerospike on EC2: 800 k transactions/s with four CPUs",
        probe: rps,
    },
    Check {
        id: "net.rfs",
        reads: "/proc/sys/net/core/rps_sock_flow_entries",
        mechanism: "Receive flow steering sends packets to the CPU of the thread that reads them. Without it, and \
                    with fewer queues than CPUs, most packets wake up a thread on another CPU.",
        remedy: "sysctl net.core.rps_sock_flow_entries=32768, divided among the queues' rps_flow_cnt; not if \
                 workers and the network use separate CPUs",
        expect: "fewer wake-ups across CPUs; no change if workers and queues use separate CPUs",
        needs: Needs::Root,
        undo: "write the old values back",
        source: "kernel: networking/scaling",
        probe: rfs,
    },
    Check {
        id: "net.xps",
        reads: "/sys/class/net/*/queues/tx-*/xps_cpus",
        mechanism: "Transmit packet steering gives each CPU its own send queue. Without it CPUs share a queue and \
                    wait for its lock.",
        remedy: "write each CPU's mask into one queue's xps_cpus",
        expect: "CPUs that send wait less for locks",
        needs: Needs::Root,
        undo: "write the old masks back",
        source: "kernel: networking/scaling",
        probe: xps,
    },
    Check {
        id: "net.somaxconn",
        reads: "/proc/sys/net/core/somaxconn, /proc/net/netstat (ListenOverflows), read twice",
        mechanism: "Connections that the server has not accepted yet wait in a queue of this length. If the queue \
                    is full, the kernel drops the client's packet, and the client retries after 1 s.",
        remedy: "sysctl net.core.somaxconn=4096, and set the server's backlog to the same value",
        expect: "when many clients connect at once, no connection waits 1 s or more; no change for open connections",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: networking/ip-sysctl",
        probe: somaxconn,
    },
    Check {
        id: "net.syn-backlog",
        reads: "/proc/sys/net/ipv4/{tcp_max_syn_backlog,tcp_syncookies}",
        mechanism: "Without SYN cookies the kernel drops new connections when a list of this length is three \
                    quarters full, and the client retries after 1 s. With cookies (1, the default) the server's own \
                    backlog limits the list, and this setting has no effect.",
        remedy: "sysctl net.ipv4.tcp_max_syn_backlog=4096, or net.ipv4.tcp_syncookies=1; and net.somaxconn",
        expect: "when many clients connect at once, no connection waits 1 s or more; no change for open connections",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: networking/ip-sysctl",
        probe: syn_backlog,
    },
    Check {
        id: "net.slow-start-idle",
        reads: "/proc/sys/net/ipv4/tcp_slow_start_after_idle",
        mechanism: "After an idle period a connection starts again with a small congestion window. The next large \
                    reply then takes more round trips.",
        remedy: "sysctl net.ipv4.tcp_slow_start_after_idle=0",
        expect: "after an idle period, replies of more than ten packets take fewer round trips; no change for \
                 smaller replies",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: networking/ip-sysctl",
        probe: slow_start_idle,
    },
    Check {
        id: "net.busy-poll",
        reads: "/proc/sys/net/core/{busy_read,busy_poll}",
        mechanism: "With busy polling a thread polls the interface instead of waiting for its interrupt, which \
                    saves 5 to 20 us. It keeps a CPU busy all the time.",
        remedy: "set the server's socket option; use the host's setting only if all its programs may busy-poll",
        expect: "5 to 20 us less per request, at the price of a CPU that is always busy",
        needs: Needs::Nothing,
        undo: "write the old value back",
        source: "kernel: admin-guide/sysctl/net",
        probe: busy_poll,
    },
    Check {
        id: "net.tcp-mem",
        reads: "/proc/sys/net/ipv4/tcp_mem, /proc/net/sockstat",
        mechanism: "All connections share a limited number of buffer pages. Near that limit the kernel shrinks \
                    windows and drops received packets.",
        remedy: "raise the third number of sysctl net.ipv4.tcp_mem to three times the pages in use",
        expect: "no shrunken windows while many connections have data in their buffers",
        needs: Needs::Root,
        undo: "write the old values back",
        source: "kernel: networking/ip-sysctl",
        probe: tcp_mem,
    },
    Check {
        id: "net.retrans",
        reads: "/proc/net/snmp (OutSegs, RetransSegs), read twice",
        mechanism: "A lost packet is retransmitted after at least 200 ms, unless acknowledgements of later packets \
                    reveal the loss sooner. If 1 packet in 10,000 is lost, about 1 request in 10,000 takes 200 ms \
                    longer.",
        remedy: "find where packets are lost: irq.net-drops, the interface's own counters (ethtool -S), the switch",
        expect: "no pauses of 200 ms once the losses stop",
        needs: Needs::Nothing,
        undo: "nothing to undo on this host",
        source: "RFC 6298; kernel: networking/snmp_counter",
        probe: retrans,
    },
    Check {
        id: "net.qdisc",
        reads: "/proc/sys/net/core/default_qdisc, /proc/sys/net/ipv4/tcp_congestion_control, tc qdisc",
        mechanism: "BBR paces its packets, and fq is the queueing discipline that does this efficiently. With any \
                    other discipline the kernel uses a timer per connection, which costs more CPU time and is less \
                    precise.",
        remedy: "tc qdisc replace dev DEVICE root fq for each device that is named, and sysctl \
                 net.core.default_qdisc=fq for devices that appear later; or net.ipv4.tcp_congestion_control=cubic \
                 within a data centre",
        expect: "less CPU time for pacing; smoother pacing",
        needs: Needs::Root,
        undo: "write the old value back; tc qdisc del dev DEVICE root restores the default",
        source: "man 8 tc-fq",
        probe: qdisc,
    },
    Check {
        id: "net.conntrack",
        reads: "/proc/sys/net/netfilter/{nf_conntrack_count,nf_conntrack_max}",
        mechanism: "If connection tracking is on, every packet is looked up in a table. If the table is full, \
                    packets of new connections are dropped.",
        remedy: "double net.netfilter.nf_conntrack_max, or disable tracking (NOTRACK) for the server's port",
        expect: "no new connection is dropped because the table is full; without tracking, less CPU time per packet",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: networking/nf_conntrack-sysctl",
        probe: conntrack,
    },
    Check {
        id: "net.ports",
        reads: "/proc/sys/net/ipv4/ip_local_port_range",
        mechanism: "Each connection from this host to one server port uses a local port of this range, and keeps it \
                    for a minute after it ends. A load generator or proxy can run out of ports.",
        remedy: "sysctl net.ipv4.ip_local_port_range='32768 60999', or a lower start if no server listens there",
        expect: "a load generator or proxy can open more connections to one server port",
        needs: Needs::Root,
        undo: "write the old range back",
        source: "kernel: networking/ip-sysctl",
        probe: ports,
    },
];

/// Returns the names of an interface's queues whose names begin with `kind`: `rx-` or `tx-`.
fn queue_names(host: &Host, nic: &str, kind: &str) -> Result<Vec<String>, Unread> {
    let folder = format!("/sys/class/net/{nic}/queues");
    let names: Vec<String> = host.list(&folder)?.into_iter().filter(|name| name.starts_with(kind)).collect();
    if names.is_empty() { Err(Unread::Absent(format!("{folder}/{kind}0"))) } else { Ok(names) }
}

fn queues(host: &Host) -> Probed {
    let cpus = host.cpus()?.len();
    let (mut few, mut parts) = (false, Vec::new());
    for nic in host.nics()? {
        let queues = queue_names(host, &nic, "rx-")?.len();
        few |= queues == 1 && cpus >= 4;
        parts.push(format!("{nic}: {queues}"));
    }
    Ok(ProbeResult::warn_if(few, format!("receive queues on {cpus} CPUs: {}", parts.join(", "))))
}

/// Returns whether a mask such as `00000000,0000000f` contains a CPU.
fn has_cpu(mask: &str) -> bool {
    mask.bytes().any(|byte| byte.is_ascii_hexdigit() && byte != b'0')
}

fn rps(host: &Host) -> Probed {
    let cpus = host.cpus()?.len();
    let (mut missing, mut parts) = (false, Vec::new());
    for nic in host.nics()? {
        let queues = queue_names(host, &nic, "rx-")?;
        let mut steered = 0;
        for queue in &queues {
            steered += u32::from(has_cpu(&host.read(&format!("/sys/class/net/{nic}/queues/{queue}/rps_cpus"))?));
        }
        missing |= queues.len() * 4 < cpus && steered == 0;
        parts.push(format!("{nic}: {steered} of {} receive queues are steered", queues.len()));
    }
    Ok(ProbeResult::warn_if(missing, format!("{}, on {cpus} CPUs", parts.join(", "))))
}

fn rfs(host: &Host) -> Probed {
    let entries = host.sysctl("net.core.rps_sock_flow_entries")?;
    let cpus = host.cpus()?.len();
    let mut few = false;
    for nic in host.nics()? {
        few |= queue_names(host, &nic, "rx-")?.len() * 4 < cpus;
    }
    Ok(ProbeResult::warn_if(few && entries == 0, format!("net.core.rps_sock_flow_entries = {entries}")))
}

fn xps(host: &Host) -> Probed {
    let (mut missing, mut parts) = (false, Vec::new());
    for nic in host.nics()? {
        let queues = queue_names(host, &nic, "tx-")?;
        let mut mapped = 0;
        for queue in &queues {
            // For an interface with a single queue this file is absent or unreadable.
            let mask = host.read(&format!("/sys/class/net/{nic}/queues/{queue}/xps_cpus"));
            mapped += u32::from(mask.is_ok_and(|mask| has_cpu(&mask)));
        }
        missing |= queues.len() > 1 && mapped == 0;
        parts.push(format!("{nic}: {mapped} of {} send queues are assigned to CPUs", queues.len()));
    }
    Ok(ProbeResult::warn_if(missing, parts.join(", ")))
}

/// Smallest limit of connections that wait to be accepted without a warning.
const BACKLOG_MIN: i64 = 4096;

/// Returns the value of a column of /proc/net/netstat or snmp. The column names are on the line before the values.
fn column(text: &str, table: &str, name: &str) -> Option<u64> {
    let mut rows = text.lines().filter_map(|line| line.strip_prefix(table)?.strip_prefix(':'));
    let (names, values) = (rows.next()?, rows.next()?);
    let at = names.split_whitespace().position(|word| word == name)?;
    values.split_whitespace().nth(at)?.parse().ok()
}

/// Returns the growth of a column between the two readings.
fn grown(host: &Host, path: &str, table: &str, name: &'static str) -> Result<u64, Unread> {
    let twice = host.twice(path)?;
    let garbage = || Unread::Garbage(path.to_owned(), name);
    let before = column(&twice.before, table, name).ok_or_else(garbage)?;
    Ok(column(&twice.after, table, name).ok_or_else(garbage)?.saturating_sub(before))
}

fn somaxconn(host: &Host) -> Probed {
    let most = host.sysctl("net.core.somaxconn")?;
    let overflows = grown(host, "/proc/net/netstat", "TcpExt", "ListenOverflows")?;
    let value = format!("net.core.somaxconn = {most}; {overflows} connections dropped between the readings");
    Ok(if overflows > 0 {
        ProbeResult::bad(value).weighing(1.0)
    } else {
        ProbeResult::warn_if(most < BACKLOG_MIN, value)
    })
}

fn syn_backlog(host: &Host) -> Probed {
    let most = host.sysctl("net.ipv4.tcp_max_syn_backlog")?;
    let cookies = match host.sysctl("net.ipv4.tcp_syncookies") {
        // The kernel was built without SYN cookies.
        Err(Unread::Absent(_)) => 0,
        read => read?,
    };
    let value = format!("net.ipv4.tcp_max_syn_backlog = {most}, tcp_syncookies = {cookies}");
    Ok(ProbeResult::warn_if(most < BACKLOG_MIN && cookies == 0, value))
}

fn slow_start_idle(host: &Host) -> Probed {
    let on = host.sysctl("net.ipv4.tcp_slow_start_after_idle")?;
    Ok(ProbeResult::warn_if(on == 1, format!("net.ipv4.tcp_slow_start_after_idle = {on}")))
}

fn busy_poll(host: &Host) -> Probed {
    let (read, poll) = (host.sysctl("net.core.busy_read")?, host.sysctl("net.core.busy_poll")?);
    Ok(ProbeResult::ok(format!("busy_read {read} us, busy_poll {poll} us")))
}

fn tcp_mem(host: &Host) -> Probed {
    let (limits, sockstat) = ("/proc/sys/net/ipv4/tcp_mem", "/proc/net/sockstat");
    let high = host.read(limits)?.split_whitespace().nth(2).and_then(|word| word.parse::<u64>().ok());
    let high = high.ok_or(Unread::Garbage(limits.to_owned(), "third number"))?;
    let text = host.read(sockstat)?;
    let mut words = text.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap_or_default().split_whitespace();
    let used = words.find(|word| *word == "mem").and_then(|_| words.next()?.parse::<u64>().ok());
    let used = used.ok_or(Unread::Garbage(sockstat.to_owned(), "TCP: ... mem"))?;
    Ok(ProbeResult::bad_if(used * 10 > high * 8, format!("{used} of {high} pages in use")))
}

/// Minimum number of sent segments per retransmitted segment without a finding.
const SEGMENTS_A_LOSS_MIN: u64 = 10_000;
/// Minimum number of retransmitted segments that show a rate.
const LOSSES_MIN: u64 = 10;

fn retrans(host: &Host) -> Probed {
    let path = "/proc/net/snmp";
    let (sent, again) = (grown(host, path, "Tcp", "OutSegs")?, grown(host, path, "Tcp", "RetransSegs")?);
    let value = format!("{again} of {sent} segments were retransmitted");
    let share = again as f64 / sent.max(1) as f64;
    if again * SEGMENTS_A_LOSS_MIN <= sent {
        return Ok(ProbeResult::ok(value).weighing(share));
    }
    if again < LOSSES_MIN {
        let few = format!("{value}; fewer than {LOSSES_MIN} do not show a rate, watch longer with --seconds");
        return Ok(ProbeResult::ok(few));
    }
    Ok(ProbeResult::bad(value).weighing(share))
}

/// The queueing discipline of a device with several queues. Each queue has its own below it.
const QDISC_OF_QUEUES: &str = "mq";

/// Judges the queueing disciplines of the interfaces. The default applies only to devices that appear later, and alone
/// decides if those of the interfaces cannot be read.
fn qdisc(host: &Host) -> Probed {
    let default = host.read("/proc/sys/net/core/default_qdisc")?;
    let control = host.read("/proc/sys/net/ipv4/tcp_congestion_control")?;
    let mut devices = Vec::new();
    for nic in host.nics().unwrap_or_default() {
        let Ok(text) = host.qdiscs(&nic) else { continue };
        let mut kinds: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
        if kinds.len() > 1 && text.starts_with(&format!("root {QDISC_OF_QUEUES}")) {
            kinds.remove(0);
        }
        kinds.sort_unstable();
        kinds.dedup();
        if !kinds.is_empty() {
            devices.push((nic, kinds.join(" and ")));
        }
    }
    let is_paced = match devices.is_empty() {
        true => default == "fq",
        false => devices.iter().all(|(_, kinds)| kinds == "fq"),
    };
    let devices: String = devices.iter().map(|(nic, kinds)| format!(", {nic}: {kinds}")).collect();
    let value = format!("congestion control {control}, queueing discipline {default} by default{devices}");
    Ok(ProbeResult::warn_if(control.starts_with("bbr") && !is_paced, value))
}

fn conntrack(host: &Host) -> Probed {
    let most = host.sysctl("net.netfilter.nf_conntrack_max")?;
    let count = host.sysctl("net.netfilter.nf_conntrack_count")?;
    Ok(ProbeResult::bad_if(count * 10 > most * 8, format!("{count} of {most} connections tracked")))
}

const PORTS_MIN: i64 = 20_000;

fn ports(host: &Host) -> Probed {
    let path = "/proc/sys/net/ipv4/ip_local_port_range";
    let text = host.read(path)?;
    let mut ends = text.split_whitespace().map(|word| word.parse::<i64>().ok());
    let (Some(Some(low)), Some(Some(high))) = (ends.next(), ends.next()) else {
        return Err(Unread::Garbage(path.to_owned(), "two numbers"));
    };
    Ok(ProbeResult::warn_if(high - low < PORTS_MIN, format!("{low} to {high}")))
}
