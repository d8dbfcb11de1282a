//! Trees with the files of the machine.

use super::{Case, Files, case};
use gannet_doctor::Verdict::{Bad, Ok, Warn};

const EIGHT_CPUS: &Files = &[
    ("/sys/devices/system/cpu/cpu0/online", "1"),
    ("/sys/devices/system/cpu/cpu1/online", "1"),
    ("/sys/devices/system/cpu/cpu2/online", "1"),
    ("/sys/devices/system/cpu/cpu3/online", "1"),
    ("/sys/devices/system/cpu/cpu4/online", "1"),
    ("/sys/devices/system/cpu/cpu5/online", "1"),
    ("/sys/devices/system/cpu/cpu6/online", "1"),
    ("/sys/devices/system/cpu/cpu7/online", "1"),
    ("/sys/class/net/eth0/device/uevent", "DRIVER=virtio_net"),
];
const MEMINFO: &str = "MemTotal:       64000000 kB\nMemFree:         9000000 kB\nInactive(file):  2000000 kB";
const STAT: &str = "cpu  100 0 100 900 0 0 10 0 0 0\ncpu0 50 0 50 450 0 0 5 0 0 0\ncpu1 50 0 50 450 0 0 5 0 0 0";
const VMSTAT: &str =
    "pgalloc_normal 1000\npgscan_direct 70\npgscan_direct_throttle 0\nallocstall_normal 3\nallocstall_movable 4";
const SNMP: &str = "Tcp: RtoAlgorithm OutSegs RetransSegs\nTcp: 1 100000 50";
const NETSTAT: &str = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 4 4";
const INTERRUPTS: &str = "           CPU0       CPU1       CPU2       CPU3
 24:       1000       1000       1000       1000   PCI-MSI 65537-edge      virtio0-input.0
LOC:      90000      90000      90000      90000   Local timer interrupts";
const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const DEFRAG: &str = "/sys/kernel/mm/transparent_hugepage/defrag";
const GOVERNOR: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";

pub const CASES: &[Case] = &[
    Case {
        id: "cpu.governor",
        common: EIGHT_CPUS,
        good: &[(GOVERNOR, "performance")],
        bad: &[(GOVERNOR, "powersave")],
        verdict: Warn,
    },
    Case {
        id: "cpu.cstates",
        common: &[
            ("/sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state0/disable", "0"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "133"),
        ],
        good: &[("/sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "1")],
        bad: &[("/sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0")],
        verdict: Warn,
    },
    case(
        "cpu.boost",
        &[("/sys/devices/system/cpu/cpufreq/boost", "1")],
        &[("/sys/devices/system/cpu/intel_pstate/no_turbo", "1")],
        Warn,
    ),
    Case {
        id: "cpu.isolated",
        common: EIGHT_CPUS,
        good: &[("/sys/devices/system/cpu/isolated", "4-7")],
        bad: &[("/sys/devices/system/cpu/isolated", "\n")],
        verdict: Warn,
    },
    case(
        "cpu.autogroup",
        &[("/proc/sys/kernel/sched_autogroup_enabled", "0")],
        &[("/proc/sys/kernel/sched_autogroup_enabled", "1")],
        Warn,
    ),
    case(
        "cpu.mitigations",
        &[("/sys/devices/system/cpu/vulnerabilities/mds", "Mitigation: Clear CPU buffers")],
        &[],
        Ok,
    ),
    Case {
        id: "irq.irqbalance",
        common: &[("/proc/1/comm", "systemd"), ("/proc/33/comm", "irqbalance")],
        good: &[("/etc/sysconfig/irqbalance", "# a list\nIRQBALANCE_BANNED_CPULIST=2-3\n")],
        bad: &[("/etc/default/irqbalance", "#IRQBALANCE_BANNED_CPULIST=2-3\nIRQBALANCE_BANNED_CPULIST=\"\"\n")],
        verdict: Warn,
    },
    Case {
        id: "irq.concentration",
        common: &[("/proc/interrupts", INTERRUPTS)],
        good: &[("/later/proc/interrupts", " CPU0 CPU1 CPU2 CPU3\n 24: 9000 9000 9000 9000   PCI-MSI")],
        bad: &[("/later/proc/interrupts", " CPU0 CPU1 CPU2 CPU3\n 24: 91000 1010 1010 1010   PCI-MSI")],
        verdict: Bad,
    },
    Case {
        id: "irq.softirq-time",
        common: &[("/proc/stat", STAT)],
        good: &[("/later/proc/stat", "cpu  0\ncpu0 100 0 90 480 0 0 6 0 0 0\ncpu1 100 0 90 480 0 0 6 0 0 0")],
        bad: &[("/later/proc/stat", "cpu  0\ncpu0 60 0 60 460 0 0 75 0 0 0\ncpu1 60 0 60 530 0 0 5 0 0 0")],
        verdict: Warn,
    },
    Case {
        id: "irq.net-drops",
        common: &[(
            "/proc/net/softnet_stat",
            "0000ffff 00000001 00000002 00000000\n0000ffff 00000000 00000000 00000000",
        )],
        good: &[(
            "/later/proc/net/softnet_stat",
            "0001ffff 00000001 00000002 00000000\n0001ffff 00000000 00000000 00000000",
        )],
        bad: &[(
            "/later/proc/net/softnet_stat",
            "0001ffff 0000000b 00000002 00000000\n0001ffff 00000000 00000000 00000000",
        )],
        verdict: Bad,
    },
    Case {
        id: "net.queues",
        common: EIGHT_CPUS,
        good: &[("/sys/class/net/eth0/queues/rx-0/rps_cpus", "00"), ("/sys/class/net/eth0/queues/rx-1/rps_cpus", "00")],
        bad: &[("/sys/class/net/eth0/queues/rx-0/rps_cpus", "00")],
        verdict: Warn,
    },
    Case {
        id: "net.rps",
        common: EIGHT_CPUS,
        good: &[("/sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,0000000f")],
        bad: &[("/sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,00000000")],
        verdict: Warn,
    },
    Case {
        id: "net.rfs",
        common: EIGHT_CPUS,
        good: &[
            ("/proc/sys/net/core/rps_sock_flow_entries", "32768"),
            ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0"),
        ],
        bad: &[("/proc/sys/net/core/rps_sock_flow_entries", "0"), ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0")],
        verdict: Warn,
    },
    Case {
        id: "net.xps",
        common: EIGHT_CPUS,
        good: &[("/sys/class/net/eth0/queues/tx-0/xps_cpus", "1"), ("/sys/class/net/eth0/queues/tx-1/xps_cpus", "2")],
        bad: &[("/sys/class/net/eth0/queues/tx-0/xps_cpus", "0"), ("/sys/class/net/eth0/queues/tx-1/xps_cpus", "0")],
        verdict: Warn,
    },
    Case {
        id: "net.somaxconn",
        common: &[("/proc/sys/net/core/somaxconn", "4096"), ("/proc/net/netstat", NETSTAT)],
        good: &[("/later/proc/net/netstat", NETSTAT)],
        bad: &[("/later/proc/net/netstat", "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 9 9")],
        verdict: Bad,
    },
    Case {
        id: "cloud.queues-default",
        common: EIGHT_CPUS,
        good: &[("/ethtool/eth0/l", "Pre-set maximums:\nCombined: 8\nCurrent hardware settings:\nCombined: 1")],
        bad: &[("/ethtool/eth0/l", "Pre-set maximums:\nCombined: 8\nCurrent hardware settings:\nCombined: 8")],
        verdict: Warn,
    },
    Case {
        id: "net.syn-backlog",
        common: &[("/proc/sys/net/ipv4/tcp_max_syn_backlog", "512")],
        good: &[("/proc/sys/net/ipv4/tcp_syncookies", "1")],
        bad: &[("/proc/sys/net/ipv4/tcp_syncookies", "0")],
        verdict: Warn,
    },
    case(
        "net.slow-start-idle",
        &[("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "0")],
        &[("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "1")],
        Warn,
    ),
    case("net.busy-poll", &[("/proc/sys/net/core/busy_read", "0"), ("/proc/sys/net/core/busy_poll", "50")], &[], Ok),
    Case {
        id: "net.tcp-mem",
        common: &[("/proc/sys/net/ipv4/tcp_mem", "1000\t2000\t3000")],
        good: &[("/proc/net/sockstat", "sockets: used 9\nTCP: inuse 4 orphan 0 tw 0 alloc 5 mem 12")],
        bad: &[("/proc/net/sockstat", "sockets: used 9\nTCP: inuse 4 orphan 0 tw 0 alloc 5 mem 2900")],
        verdict: Bad,
    },
    Case {
        id: "net.retrans",
        common: &[("/proc/net/snmp", SNMP)],
        good: &[("/later/proc/net/snmp", "Tcp: RtoAlgorithm OutSegs RetransSegs\nTcp: 1 900000 51")],
        bad: &[("/later/proc/net/snmp", "Tcp: RtoAlgorithm OutSegs RetransSegs\nTcp: 1 110000 90")],
        verdict: Bad,
    },
    Case {
        id: "net.qdisc",
        common: &[("/proc/sys/net/core/default_qdisc", "pfifo_fast")],
        good: &[("/proc/sys/net/ipv4/tcp_congestion_control", "cubic")],
        bad: &[("/proc/sys/net/ipv4/tcp_congestion_control", "bbr")],
        verdict: Warn,
    },
    Case {
        id: "net.conntrack",
        common: &[("/proc/sys/net/netfilter/nf_conntrack_max", "262144")],
        good: &[("/proc/sys/net/netfilter/nf_conntrack_count", "400")],
        bad: &[("/proc/sys/net/netfilter/nf_conntrack_count", "262000")],
        verdict: Bad,
    },
    case(
        "net.ports",
        &[("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999")],
        &[("/proc/sys/net/ipv4/ip_local_port_range", "49152\t65535")],
        Warn,
    ),
    case("mem.thp", &[(ENABLED, "always [madvise] never")], &[(ENABLED, "[always] madvise never")], Warn),
    Case {
        id: "mem.thp-defrag",
        common: &[(ENABLED, "always [madvise] never")],
        good: &[(DEFRAG, "always defer [defer+madvise] madvise never")],
        bad: &[(DEFRAG, "[always] defer defer+madvise madvise never")],
        verdict: Bad,
    },
    Case {
        id: "mem.min-free",
        common: &[("/proc/meminfo", MEMINFO)],
        good: &[("/proc/sys/vm/min_free_kbytes", "700000")],
        bad: &[("/proc/sys/vm/min_free_kbytes", "11584")],
        verdict: Warn,
    },
    Case {
        id: "mem.watermark-scale",
        common: &[("/proc/vmstat", VMSTAT), ("/later/proc/vmstat", "pgalloc_dma 0\npgalloc_normal 900000")],
        good: &[("/proc/sys/vm/watermark_scale_factor", "100")],
        bad: &[("/proc/sys/vm/watermark_scale_factor", "10")],
        verdict: Warn,
    },
    case(
        "mem.overcommit",
        &[("/proc/sys/vm/overcommit_memory", "1")],
        &[("/proc/sys/vm/overcommit_memory", "2")],
        Warn,
    ),
    Case {
        id: "mem.dirty",
        common: &[("/proc/meminfo", MEMINFO), ("/proc/sys/vm/dirty_ratio", "20")],
        good: &[("/proc/sys/vm/dirty_bytes", "268435456")],
        bad: &[("/proc/sys/vm/dirty_bytes", "0")],
        verdict: Warn,
    },
    Case {
        id: "mem.reclaim",
        common: &[("/proc/vmstat", VMSTAT)],
        good: &[("/later/proc/vmstat", VMSTAT)],
        bad: &[(
            "/later/proc/vmstat",
            "pgalloc_normal 1000\npgscan_direct 9070\nallocstall_normal 33\nallocstall_movable 4",
        )],
        verdict: Bad,
    },
    case(
        "mem.page-cache-garbage",
        &[("/proc/meminfo", MEMINFO)],
        &[("/proc/meminfo", "MemTotal:       64000000 kB\nMemFree:         300000 kB\nInactive(file):  32000000 kB")],
        Warn,
    ),
    case(
        "mem.mglru",
        &[("/sys/kernel/mm/lru_gen/enabled", "0x0007"), ("/sys/kernel/mm/lru_gen/min_ttl_ms", "0")],
        &[],
        Ok,
    ),
    case("mem.ksm", &[("/sys/kernel/mm/ksm/run", "0")], &[("/sys/kernel/mm/ksm/run", "1")], Warn),
    case(
        "numa.zone-reclaim",
        &[("/proc/sys/vm/zone_reclaim_mode", "0")],
        &[("/proc/sys/vm/zone_reclaim_mode", "1")],
        Bad,
    ),
    Case {
        id: "numa.balancing",
        common: &[("/sys/devices/system/node/node0/cpulist", "0"), ("/sys/devices/system/node/node1/cpulist", "1")],
        good: &[("/proc/sys/kernel/numa_balancing", "0")],
        bad: &[("/proc/sys/kernel/numa_balancing", "1")],
        verdict: Warn,
    },
    case(
        "disk.scheduler",
        &[("/sys/block/nvme0n1/queue/scheduler", "[none] mq-deadline"), ("/sys/block/nvme0n1/queue/rotational", "0")],
        &[("/sys/block/nvme0n1/queue/scheduler", "none [mq-deadline]"), ("/sys/block/nvme0n1/queue/rotational", "0")],
        Warn,
    ),
    case(
        "disk.readahead",
        &[("/sys/block/vda/queue/read_ahead_kb", "128"), ("/sys/block/loop0/queue/read_ahead_kb", "8192")],
        &[("/sys/block/vda/queue/read_ahead_kb", "8192")],
        Bad,
    ),
    case(
        "disk.write-throttle",
        &[("/sys/block/vda/queue/wbt_lat_usec", "2000"), ("/sys/block/vda/queue/nomerges", "0")],
        &[],
        Ok,
    ),
    case(
        "clock.source",
        &[("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc")],
        &[("/sys/devices/system/clocksource/clocksource0/current_clocksource", "xen")],
        Bad,
    ),
    Case {
        id: "clock.ticks",
        common: &[("/sys/devices/system/cpu/isolated", "2-3"), ("/proc/sys/kernel/nmi_watchdog", "0")],
        good: &[("/proc/sys/kernel/timer_migration", "0"), ("/proc/sys/vm/stat_interval", "10")],
        bad: &[("/proc/sys/kernel/timer_migration", "1"), ("/proc/sys/vm/stat_interval", "1")],
        verdict: Warn,
    },
    Case {
        id: "cloud.steal",
        common: &[("/proc/stat", STAT)],
        good: &[("/later/proc/stat", "cpu  0\ncpu0 100 0 90 480 0 0 6 0 0 0\ncpu1 100 0 90 480 0 0 6 0 0 0")],
        bad: &[("/later/proc/stat", "cpu  0\ncpu0 60 0 60 460 0 0 5 80 0 0\ncpu1 60 0 60 530 0 0 5 0 0 0")],
        verdict: Bad,
    },
    case(
        "cloud.nic-driver",
        &[("/sys/class/net/eth0/device/uevent", "DRIVER=ena\nPCI_CLASS=20000")],
        &[("/sys/class/net/eth0/device/uevent", "DRIVER=ixgbevf\nPCI_CLASS=20000")],
        Warn,
    ),
    case(
        "cloud.burstable",
        &[("/sys/class/dmi/id/sys_vendor", "Amazon EC2"), ("/sys/class/dmi/id/product_name", "c7g.4xlarge")],
        &[("/sys/class/dmi/id/sys_vendor", "Amazon EC2"), ("/sys/class/dmi/id/product_name", "t3.medium")],
        Warn,
    ),
];
