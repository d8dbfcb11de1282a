//! Trees with the files of devices, and of the CPUs on which threads run.

use super::{Case, Files, case};
use gannet_doctor::Verdict::{Bad, Warn};

/// Two cores of two CPUs each, with a cache per core.
const SIBLINGS: &Files = &[
    ("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2"),
    ("/sys/devices/system/cpu/cpu0/cache/index3/level", "3"),
    ("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "0,2"),
    ("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3"),
    ("/sys/devices/system/cpu/cpu1/cache/index3/level", "3"),
    ("/sys/devices/system/cpu/cpu1/cache/index3/shared_cpu_list", "1,3"),
    ("/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2"),
    ("/sys/devices/system/cpu/cpu2/cache/index3/level", "3"),
    ("/sys/devices/system/cpu/cpu2/cache/index3/shared_cpu_list", "0,2"),
    ("/sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "1,3"),
    ("/sys/devices/system/cpu/cpu3/cache/index3/level", "3"),
    ("/sys/devices/system/cpu/cpu3/cache/index3/shared_cpu_list", "1,3"),
];
/// Files of two busy threads, one on CPU 0 and the other on the given CPU, and further files.
macro_rules! threads {
    ($other:literal $(, $file:expr)* $(,)?) => {
        &[
            ("/proc/7/task/7/comm", "one"),
            ("/proc/7/task/8/comm", "other"),
            ("/proc/7/task/7/stat", ran!("100", "0")),
            ("/proc/7/task/8/stat", ran!("100", $other)),
            ("/later/proc/7/task/7/stat", ran!("150", "0")),
            ("/later/proc/7/task/8/stat", ran!("150", $other)),
            ("/proc/7/task/7/status", "Cpus_allowed_list:\t0"),
            ("/proc/7/task/8/status", concat!("Cpus_allowed_list:\t", $other)),
            $($file),*
        ]
    };
}

/// A thread's file `stat`, with its ticks in user mode and the CPU on which it ran last.
macro_rules! ran {
    ($ticks:literal, $cpu:literal) => {
        concat!(
            "7 (a name) S 1 7 7 0 -1 0 0 0 0 0 ",
            $ticks,
            " 12 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 ",
            $cpu,
            " 0 0"
        )
    };
}

/// Two busy threads on different cores.
const APART: &Files = threads!("1");
/// Two busy threads on the two CPUs of one core.
const TOGETHER: &Files = threads!("2");

const NIC: &str = "/sys/class/net/eth0/device/uevent";
const DROPS: &str = "/sys/class/net/eth0/statistics/rx_missed_errors";
const RING: &str = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t4096\nCurrent hardware settings:\nRX:\t256";

pub const CASES: &[Case] = &[
    Case { id: "cpu.smt-siblings", common: SIBLINGS, good: APART, bad: TOGETHER, verdict: Warn },
    // Each cache belongs to a single core here, so threads on different cores cannot share a cache.
    Case {
        id: "cpu.cache-sharing",
        common: &[
            ("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0"),
            ("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1"),
            ("/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2"),
            ("/sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "3"),
            ("/sys/devices/system/cpu/cpu0/cache/index3/level", "3"),
            ("/sys/devices/system/cpu/cpu1/cache/index3/level", "3"),
            ("/sys/devices/system/cpu/cpu2/cache/index3/level", "3"),
            ("/sys/devices/system/cpu/cpu3/cache/index3/level", "3"),
            ("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "0,2"),
            ("/sys/devices/system/cpu/cpu1/cache/index3/shared_cpu_list", "1,3"),
            ("/sys/devices/system/cpu/cpu2/cache/index3/shared_cpu_list", "0,2"),
            ("/sys/devices/system/cpu/cpu3/cache/index3/shared_cpu_list", "1,3"),
        ],
        good: TOGETHER,
        bad: APART,
        verdict: Warn,
    },
    Case {
        id: "cpu.workqueue-mask",
        common: &[
            ("/sys/devices/system/cpu/isolated", "2-3"),
            ("/proc/7/task/7/stat", ran!("100", "0")),
            ("/later/proc/7/task/7/stat", ran!("100", "0")),
        ],
        good: &[("/sys/devices/virtual/workqueue/cpumask", "3")],
        bad: &[("/sys/devices/virtual/workqueue/cpumask", "f")],
        verdict: Warn,
    },
    Case {
        id: "irq.affinity",
        common: threads!(
            "1",
            ("/sys/devices/system/cpu/cpu0/online", "1"),
            ("/sys/devices/system/cpu/cpu1/online", "1"),
            ("/sys/devices/system/cpu/cpu2/online", "1"),
            ("/sys/devices/system/cpu/cpu3/online", "1"),
            (
                "/proc/interrupts",
                "      CPU0  CPU1\n 31:  1  2  PCI-MSI 1-edge  eth0-Tx-Rx-0\n 32:  1  2  PCI-MSI 2-edge  nvme0q1",
            ),
            (NIC, "DRIVER=ena"),
        ),
        good: &[("/proc/irq/31/smp_affinity_list", "0-3"), ("/proc/irq/31/effective_affinity_list", "3")],
        bad: &[("/proc/irq/31/smp_affinity_list", "1")],
        verdict: Warn,
    },
    Case {
        id: "numa.nic-node",
        common: threads!(
            "1",
            ("/sys/devices/system/node/node0/cpulist", "0-1"),
            ("/sys/devices/system/node/node1/cpulist", "2-3"),
        ),
        good: &[("/sys/class/net/eth0/device/numa_node", "0")],
        bad: &[("/sys/class/net/eth0/device/numa_node", "1")],
        verdict: Warn,
    },
    case(
        "cpu.noise",
        &[("/measured/cpu.noise", "cpu0 3\ncpu1 12.5")],
        &[("/measured/cpu.noise", "cpu0 3\ncpu1 900")],
        Warn,
    ),
    case(
        "disk.fsync-probe",
        &[("/measured/disk.fsync-probe", "p50_us 300\np99_us 900")],
        &[("/measured/disk.fsync-probe", "p50_us 300\np99_us 9000")],
        Bad,
    ),
    Case {
        id: "net.coalesce",
        common: &[(NIC, "DRIVER=ena")],
        good: &[(
            "/ethtool/eth0/c",
            "Coalesce parameters for eth0:\nAdaptive RX: off  TX: n/a\nrx-usecs: 8\nrx-frames: 0",
        )],
        bad: &[(
            "/ethtool/eth0/c",
            "Coalesce parameters for eth0:\nAdaptive RX: on  TX: n/a\nrx-usecs: 8\nrx-frames: 0",
        )],
        verdict: Warn,
    },
    Case {
        id: "net.ring",
        common: &[
            (NIC, "DRIVER=ena"),
            (DROPS, "5"),
            ("/sys/class/net/eth0/statistics/rx_fifo_errors", "0"),
            ("/later/sys/class/net/eth0/statistics/rx_fifo_errors", "0"),
            ("/ethtool/eth0/g", RING),
        ],
        good: &[("/later/sys/class/net/eth0/statistics/rx_missed_errors", "5")],
        bad: &[("/later/sys/class/net/eth0/statistics/rx_missed_errors", "90")],
        verdict: Bad,
    },
    Case {
        id: "cloud.allowance",
        common: &[
            (NIC, "DRIVER=ena"),
            ("/ethtool/eth0/S", "NIC statistics:\n     bw_in_allowance_exceeded: 3\n     pps_allowance_exceeded: 0"),
        ],
        good: &[(
            "/later/ethtool/eth0/S",
            "NIC statistics:\n     bw_in_allowance_exceeded: 3\n     pps_allowance_exceeded: 0",
        )],
        bad: &[(
            "/later/ethtool/eth0/S",
            "NIC statistics:\n     bw_in_allowance_exceeded: 3\n     pps_allowance_exceeded: 17",
        )],
        verdict: Bad,
    },
    case(
        "disk.mount",
        &[(
            "/proc/mounts",
            "proc /proc proc rw,nosuid 0 0\n/dev/vda1 / ext4 rw,relatime 0 0\n/dev/sr0 /cd iso9660 ro 0 0",
        )],
        &[(
            "/proc/mounts",
            "proc /proc proc rw,nosuid 0 0\n/dev/vda1 / ext4 rw,relatime 0 0\n/dev/vdb /data xfs rw,attr2 0 0",
        )],
        Warn,
    ),
    Case {
        id: "clock.slew",
        common: &[("/measured/clock.slew", "ppm -14"), ("/proc/2/comm", "kthreadd")],
        good: &[("/proc/33/comm", "chronyd")],
        bad: &[("/proc/33/comm", "nginx")],
        verdict: Warn,
    },
    case(
        "cloud.placement",
        &[("/measured/cloud.placement", "zone us-east-1a\ngroup tails")],
        &[("/measured/cloud.placement", "zone us-east-1a\ngroup none")],
        Warn,
    ),
];
