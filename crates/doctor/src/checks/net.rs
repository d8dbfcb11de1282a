//! The network: queues, limits and losses.

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::host::{Host, Unread};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "net.queues",
        reads: "/sys/class/net/*/queues, the CPUs",
        mechanism: "Each queue of a network interface is served by one CPU. With one queue on many CPUs that one \
                    is the limit of the whole host.",
        remedy: "ethtool -L IFACE combined N, with N a quarter of the CPUs, as far as the interface has them",
        expect: "the most packets a second rises, until another CPU is full",
        needs: Needs::Root,
        undo: "set the old number (the link is interrupted for a moment)",
        source: "kernel: networking/scaling; Pelikan on T2A",
        probe: queues,
    },
    Check {
        id: "net.rps",
        reads: "/sys/class/net/*/queues/rx-*/rps_cpus",
        mechanism: "Receive packet steering hands the packets of few queues on to more CPUs. Without it the CPUs \
                    of those queues do all of the protocol's work.",
        remedy: "write a mask of the CPUs that are left to the network into rps_cpus, where queues are fewer than \
                 a quarter of the CPUs",
        expect: "the most packets a second rises; at low load each packet takes a hand-over more",
        needs: Needs::Root,
        undo: "write the old mask back",
        source: "kernel: networking/scaling; Aerospike on EC2: 800 k transactions/s with four CPUs",
        probe: rps,
    },
    Check {
        id: "net.rfs",
        reads: "/proc/sys/net/core/rps_sock_flow_entries",
        mechanism: "Receive flow steering sends packets to the CPU whose thread reads them. Without it, where \
                    queues are fewer than CPUs, most wake a thread on another CPU.",
        remedy: "sysctl net.core.rps_sock_flow_entries=32768, shared out over the queues' rps_flow_cnt; not where \
                 workers are kept off the network's CPUs",
        expect: "fewer wake-ups across CPUs; nothing where workers and queues have CPUs apart",
        needs: Needs::Root,
        undo: "write the old values back",
        source: "kernel: networking/scaling",
        probe: rfs,
    },
    Check {
        id: "net.xps",
        reads: "/sys/class/net/*/queues/tx-*/xps_cpus",
        mechanism: "Transmit packet steering gives each CPU a queue of its own to send by. Without it CPUs wait \
                    for each other's lock on one.",
        remedy: "write each CPU's mask into one queue's xps_cpus",
        expect: "less waiting for locks among CPUs that send",
        needs: Needs::Root,
        undo: "write the old masks back",
        source: "kernel: networking/scaling",
        probe: xps,
    },
    Check {
        id: "net.somaxconn",
        reads: "/proc/sys/net/core/somaxconn, /proc/net/netstat (ListenOverflows), twice",
        mechanism: "Connections that the server has not accepted yet wait in a queue of this length. When it is full \
                    the client's packet is dropped, and it tries again after a second.",
        remedy: "sysctl net.core.somaxconn=4096, and as long a backlog in the server",
        expect: "no connection waits a second or more to be opened in a rush; nothing for open ones",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: networking/ip-sysctl",
        probe: somaxconn,
    },
    Check {
        id: "net.syn-backlog",
        reads: "/proc/sys/net/ipv4/{tcp_max_syn_backlog,tcp_syncookies}",
        mechanism: "Without SYN cookies a connection that is being opened is dropped when the last quarter of a list \
                    of this length is reached, and tried again after a second. With cookies (1, the default) the list \
                    is as long as the server's own backlog, and this setting counts for nothing.",
        remedy: "sysctl net.ipv4.tcp_max_syn_backlog=4096, or net.ipv4.tcp_syncookies=1; and net.somaxconn",
        expect: "no connection waits a second or more to be opened in a rush; nothing for open ones",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: networking/ip-sysctl",
        probe: syn_backlog,
    },
    Check {
        id: "net.slow-start-idle",
        reads: "/proc/sys/net/ipv4/tcp_slow_start_after_idle",
        mechanism: "A connection that was idle begins again with a small window. Its next large answer takes more \
                    round trips than the one before.",
        remedy: "sysctl net.ipv4.tcp_slow_start_after_idle=0",
        expect: "answers beyond some ten packets take fewer round trips after a pause; small ones none fewer",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: networking/ip-sysctl",
        probe: slow_start_idle,
    },
    Check {
        id: "net.busy-poll",
        reads: "/proc/sys/net/core/{busy_read,busy_poll}",
        mechanism: "With busy polling a thread asks the interface instead of waiting for its interrupt, which \
                    saves 5 to 20 us. It costs a CPU that is to spare.",
        remedy: "a socket option of the server; the host's setting only where all programs on it may burn CPU",
        expect: "5 to 20 us less a request, for a CPU that is always busy",
        needs: Needs::Nothing,
        undo: "write the old value back",
        source: "kernel: admin-guide/sysctl/net",
        probe: busy_poll,
    },
    Check {
        id: "net.tcp-mem",
        reads: "/proc/sys/net/ipv4/tcp_mem, /proc/net/sockstat",
        mechanism: "All connections share a limited number of pages of buffers. Near that limit the kernel shrinks \
                    windows and drops what arrives.",
        remedy: "sysctl net.ipv4.tcp_mem, the high one three times what is in use",
        expect: "no shrunken windows while many connections hold data",
        needs: Needs::Root,
        undo: "write the old values back",
        source: "kernel: networking/ip-sysctl",
        probe: tcp_mem,
    },
    Check {
        id: "net.retrans",
        reads: "/proc/net/snmp (OutSegs, RetransSegs), twice",
        mechanism: "A lost packet is sent again after 200 ms at the least, unless others behind it tell sooner. \
                    One in ten thousand is one request in ten thousand at 200 ms.",
        remedy: "find where they are lost: irq.net-drops, the interface's own counters (ethtool -S), the switch",
        expect: "no pauses of 200 ms for each loss that is mended",
        needs: Needs::Nothing,
        undo: "nothing was changed",
        source: "RFC 6298; kernel: networking/snmp_counter",
        probe: retrans,
    },
    Check {
        id: "net.qdisc",
        reads: "/proc/sys/net/core/default_qdisc, /proc/sys/net/ipv4/tcp_congestion_control",
        mechanism: "BBR paces what it sends, and needs a queue that can: fq. With another the kernel's own timers \
                    do it for each connection, later and dearer.",
        remedy: "sysctl net.core.default_qdisc=fq, or net.ipv4.tcp_congestion_control=cubic within a data centre",
        expect: "less CPU time for pacing; evener sending",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "man 8 tc-fq",
        probe: qdisc,
    },
    Check {
        id: "net.conntrack",
        reads: "/proc/sys/net/netfilter/{nf_conntrack_count,nf_conntrack_max}",
        mechanism: "Where connections are tracked every packet is looked up in a table. When that is full the packets \
                    of new connections are dropped.",
        remedy: "sysctl net.netfilter.nf_conntrack_max, or no tracking (NOTRACK) for the server's port",
        expect: "no new connection dropped for want of room; without tracking less work a packet too",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: networking/nf_conntrack-sysctl",
        probe: conntrack,
    },
    Check {
        id: "net.ports",
        reads: "/proc/sys/net/ipv4/ip_local_port_range",
        mechanism: "Each connection from here to one server's port takes a port of this range, and for a minute \
                    after it has ended. A load generator or proxy runs out.",
        remedy: "sysctl net.ipv4.ip_local_port_range='32768 60999', or from lower where no server listens there",
        expect: "a load generator or proxy can open more connections to one port",
        needs: Needs::Root,
        undo: "write the old range back",
        source: "kernel: networking/ip-sysctl",
        probe: ports,
    },
];

/// Returns the names of an interface's queues of one kind: `rx-` or `tx-`.
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
            // An interface with one queue has no such file, or refuses to read it.
            let mask = host.read(&format!("/sys/class/net/{nic}/queues/{queue}/xps_cpus"));
            mapped += u32::from(mask.is_ok_and(|mask| has_cpu(&mask)));
        }
        missing |= queues.len() > 1 && mapped == 0;
        parts.push(format!("{nic}: {mapped} of {} send queues have CPUs", queues.len()));
    }
    Ok(ProbeResult::warn_if(missing, parts.join(", ")))
}

/// Waiting connections that a server should be able to have.
const BACKLOG_MIN: i64 = 4096;

/// Returns the value of a column of /proc/net/netstat or snmp. The line before the values holds the names.
fn column(text: &str, table: &str, name: &str) -> Option<u64> {
    let mut rows = text.lines().filter_map(|line| line.strip_prefix(table)?.strip_prefix(':'));
    let (names, values) = (rows.next()?, rows.next()?);
    let at = names.split_whitespace().position(|word| word == name)?;
    values.split_whitespace().nth(at)?.parse().ok()
}

/// Returns the growth of a column.
fn grown(host: &Host, path: &str, table: &str, name: &'static str) -> Result<u64, Unread> {
    let twice = host.twice(path)?;
    let garbage = || Unread::Garbage(path.to_owned(), name);
    let before = column(&twice.before, table, name).ok_or_else(garbage)?;
    Ok(column(&twice.after, table, name).ok_or_else(garbage)?.saturating_sub(before))
}

fn somaxconn(host: &Host) -> Probed {
    let most = host.sysctl("net.core.somaxconn")?;
    let overflows = grown(host, "/proc/net/netstat", "TcpExt", "ListenOverflows")?;
    let value = format!("net.core.somaxconn = {most}; {overflows} connections dropped meanwhile");
    Ok(if overflows > 0 {
        ProbeResult::bad(value).weighing(1.0)
    } else {
        ProbeResult::warn_if(most < BACKLOG_MIN, value)
    })
}

fn syn_backlog(host: &Host) -> Probed {
    let most = host.sysctl("net.ipv4.tcp_max_syn_backlog")?;
    let cookies = match host.sysctl("net.ipv4.tcp_syncookies") {
        // The kernel is built without them.
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

/// Segments per lost segment: a loss of one in this many passes.
const SEGMENTS_A_LOSS_MIN: u64 = 10_000;

fn retrans(host: &Host) -> Probed {
    let path = "/proc/net/snmp";
    let (sent, again) = (grown(host, path, "Tcp", "OutSegs")?, grown(host, path, "Tcp", "RetransSegs")?);
    let value = format!("{again} of {sent} segments were sent again");
    let share = again as f64 / sent.max(1) as f64;
    Ok(ProbeResult::bad_if(again > 0 && again * SEGMENTS_A_LOSS_MIN > sent, value).weighing(share))
}

fn qdisc(host: &Host) -> Probed {
    let qdisc = host.read("/proc/sys/net/core/default_qdisc")?;
    let control = host.read("/proc/sys/net/ipv4/tcp_congestion_control")?;
    Ok(ProbeResult::warn_if(control.starts_with("bbr") && qdisc != "fq", format!("{control} over {qdisc}")))
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
