//! Trees with the files of a process and of its control group.

use super::{Case, Files, case};
use gannet_doctor::Verdict::{Bad, Ok, Warn};

const TWO_CPUS: &Files = &[("/sys/devices/system/cpu/cpu0/online", "1"), ("/sys/devices/system/cpu/cpu1/online", "1")];

const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units
Max processes             95000                95000                processes
Max open files            65536                65536                files
Max locked memory         unlimited            unlimited            bytes";

/// A certificate that is valid until 2100.
const UNTIL_2100: &str = "-----BEGIN CERTIFICATE-----
MIIBGjCBwAIBATAKBggqhkjOPQQDAjAYMRYwFAYDVQQDDA1jYWNoZS5leGFtcGxl
MCAXDTAwMDEwMTAwMDAwMFoYDzIxMDAwMTAxMDAwMDAwWjAYMRYwFAYDVQQDDA1j
YWNoZS5leGFtcGxlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEzr3+myfYb/Dv
sBgIatDhmqOMctT19/axY/dZr3Y+afqFk7qDBo31IEafcs7NiAdCjKpht9KK14UJ
qaTTkh5iTjAKBggqhkjOPQQDAgNJADBGAiEAmI9BW153ea59R3a8yQSiT4i3u0Uj
UNl6VHUgHOPQjbMCIQCGfypqOx9mRijz4I4P9RMN9C+zqFyPsllo8EdwA0Gh2w==
-----END CERTIFICATE-----";

/// A certificate that was valid until 2001.
const UNTIL_2001: &str = "-----BEGIN CERTIFICATE-----
MIIBFzCBvgIBATAKBggqhkjOPQQDAjAYMRYwFAYDVQQDDA1jYWNoZS5leGFtcGxl
MB4XDTAwMDEwMTAwMDAwMFoXDTAxMDEwMTAwMDAwMFowGDEWMBQGA1UEAwwNY2Fj
aGUuZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABM69/psn2G/w77AY
CGrQ4ZqjjHLU9ff2sWP3Wa92Pmn6hZO6gwaN9SBGn3LOzYgHQoyqYbfSiteFCamk
05IeYk4wCgYIKoZIzj0EAwIDSAAwRQIhAPNWgnGlRHQgbRycQ+DKfczkcZmer4KB
ZuRn3ERaqYwxAiBlUwiFOD5q3wJ81IcP2WnYT6IRyiOnbFeMPy1cL4ovkQ==
-----END CERTIFICATE-----";

pub const CASES: &[Case] = &[
    Case {
        id: "cpu.involuntary-switch",
        common: &[
            ("/proc/7/task/7/comm", "redis-server"),
            (
                "/proc/7/task/7/status",
                "Name:\tredis-server\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t100",
            ),
        ],
        good: &[("/later/proc/7/task/7/status", "voluntary_ctxt_switches:\t99\nnonvoluntary_ctxt_switches:\t102")],
        bad: &[("/later/proc/7/task/7/status", "voluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t900")],
        verdict: Bad,
    },
    Case {
        id: "cpu.migrations",
        common: &[("/proc/7/task/7/sched", "se.nr_migrations    :     5\nnr_switches : 3")],
        good: &[("/later/proc/7/task/7/sched", "se.nr_migrations    :     5\nnr_switches : 30")],
        bad: &[("/later/proc/7/task/7/sched", "se.nr_migrations    :     55\nnr_switches : 30")],
        verdict: Warn,
    },
    Case {
        id: "mem.majfault",
        common: &[("/proc/7/stat", "7 (a name) 3) S 1 7 7 0 -1 4194560 1200 0 5 0 33 12 0 0 20 0 4 0 100")],
        good: &[("/later/proc/7/stat", "7 (a name) 3) S 1 7 7 0 -1 4194560 9900 0 5 0 33 12 0 0 20 0 4 0 100")],
        bad: &[("/later/proc/7/stat", "7 (a name) 3) S 1 7 7 0 -1 4194560 1200 0 65 0 33 12 0 0 20 0 4 0 100")],
        verdict: Bad,
    },
    Case {
        id: "numa.placement",
        common: &[
            ("/sys/devices/system/node/node0/cpulist", "0"),
            ("/sys/devices/system/node/node1/cpulist", "1"),
            ("/proc/7/status", "Cpus_allowed_list:\t0-1"),
        ],
        good: &[("/proc/7/numa_maps", "7f00 default anon=9000 dirty=9000 N0=4500 N1=4500 kernelpagesize_kB=4")],
        bad: &[("/proc/7/numa_maps", "7f00 default anon=9000 dirty=9000 N0=8900 N1=100 kernelpagesize_kB=4")],
        verdict: Warn,
    },
    Case {
        id: "lim.nofile",
        common: &[("/proc/7/fd/0", ""), ("/proc/7/fd/1", "")],
        good: &[("/proc/7/limits", LIMITS)],
        bad: &[("/proc/7/limits", "Max open files            1024                 4096                 files")],
        verdict: Warn,
    },
    Case {
        id: "lim.memlock",
        common: &[("/proc/7/status", "VmRSS:\t  500000 kB"), ("/proc/swaps", "Filename Type\n/swap file 1 0 -2")],
        good: &[("/proc/7/limits", LIMITS)],
        bad: &[("/proc/7/limits", "Max locked memory         8388608              8388608              bytes")],
        verdict: Warn,
    },
    Case {
        id: "lim.nproc",
        common: &[("/proc/7/task/7/comm", "a"), ("/proc/7/task/8/comm", "b")],
        good: &[("/proc/7/limits", LIMITS)],
        bad: &[("/proc/7/limits", "Max processes             2                    2                    processes")],
        verdict: Bad,
    },
    Case {
        id: "tls.expiry",
        common: &[
            ("/proc/7/cmdline", "gannet\0serve\0/etc/gannet/cache.toml\0"),
            ("/etc/gannet/cache.toml", "[tls]\ncert = [\"/etc/gannet/cache.crt\"]"),
        ],
        good: &[("/etc/gannet/cache.crt", UNTIL_2100)],
        bad: &[("/etc/gannet/cache.crt", UNTIL_2001)],
        verdict: Bad,
    },
    Case {
        id: "cg.cpu-quota",
        common: &[
            ("/proc/7/cgroup", "0::/kubepods/pod1"),
            ("/sys/fs/cgroup/kubepods/pod1/cpu.stat", "usage_usec 9\nnr_periods 10\nnr_throttled 2\nthrottled_usec 5"),
        ],
        good: &[("/sys/fs/cgroup/kubepods/pod1/cpu.max", "max 100000")],
        bad: &[
            ("/sys/fs/cgroup/kubepods/pod1/cpu.max", "50000 100000"),
            (
                "/later/sys/fs/cgroup/kubepods/pod1/cpu.stat",
                "usage_usec 9\nnr_periods 20\nnr_throttled 9\nthrottled_usec 5",
            ),
        ],
        verdict: Bad,
    },
    Case {
        id: "cg.cpuset",
        common: TWO_CPUS,
        good: &[("/proc/7/status", "Cpus_allowed_list:\t0-1"), ("/proc/7/task/7/comm", "a")],
        bad: &[
            ("/proc/7/status", "Cpus_allowed_list:\t1"),
            ("/proc/7/task/7/comm", "a"),
            ("/proc/7/task/8/comm", "a"),
            ("/proc/7/task/9/comm", "a"),
            ("/proc/7/task/10/comm", "a"),
            ("/proc/7/task/11/comm", "a"),
        ],
        verdict: Warn,
    },
    Case {
        id: "cg.memory",
        common: &[("/proc/7/cgroup", "8:pids:/x\n4:memory:/box\n1:cpu,cpuacct:/")],
        good: &[
            ("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712"),
            ("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "1000000"),
        ],
        bad: &[
            ("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1000000000"),
            ("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "970000000"),
        ],
        verdict: Bad,
    },
    case(
        "cg.pressure",
        &[
            ("/proc/pressure/cpu", "some avg10=2.00 avg60=0.00 avg300=0.00 total=5"),
            ("/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5"),
            ("/proc/pressure/io", "some avg10=0.10 avg60=0.00 avg300=0.00 total=5"),
        ],
        &[
            ("/proc/pressure/cpu", "some avg10=2.00 avg60=0.00 avg300=0.00 total=5"),
            ("/proc/pressure/memory", "some avg10=12.00 avg60=0.00 avg300=0.00 total=5"),
            ("/proc/pressure/io", "some avg10=0.10 avg60=0.00 avg300=0.00 total=5"),
        ],
        Warn,
    ),
    Case {
        id: "mem.swap",
        common: &[("/proc/sys/vm/swappiness", "60")],
        good: &[("/proc/swaps", "Filename\tType\tSize\tUsed\tPriority")],
        bad: &[("/proc/swaps", "Filename Type\n/swap file 1 0 -2"), ("/proc/7/status", "VmSwap:\t  90000 kB")],
        verdict: Bad,
    },
    Case {
        id: "mem.map-count",
        common: &[("/proc/7/maps", "00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/a")],
        good: &[("/proc/sys/vm/max_map_count", "1048576")],
        bad: &[("/proc/sys/vm/max_map_count", "65530")],
        verdict: Warn,
    },
    case("sys.kernel", &[("/proc/sys/kernel/osrelease", "6.12.9")], &[], Ok),
];
