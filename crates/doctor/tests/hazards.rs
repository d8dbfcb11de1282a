//! Tests hosts on which a check could be wrong: limits of groups above the process's own, caches that can be reclaimed,
//! processes and networks that are not visible from this container, and privileges that exist or are missing.

mod tree;

use gannet_doctor::checks::select;
use gannet_doctor::{Topology, Verdict, run};
use tree::Tree;

use Verdict::{Bad, Ok, Unknown, Warn};

const PID: u32 = 7;

fn tree(name: &str, files: &[(&str, &str)]) -> Tree {
    let tree = Tree::new(name);
    files.iter().for_each(|(path, text)| tree.write(path, text));
    tree
}

fn found(tree: &Tree, id: &str) -> (Verdict, String) {
    let finding = run(&tree.host(Some(PID)), &select(&[id.to_owned()]).unwrap()).remove(0);
    (finding.verdict, finding.value)
}

/// Checks the check's verdict with these files, and that its value contains `part`.
fn is_told(files: &[(&str, &str)], id: &str, verdict: Verdict, part: &str) {
    let (is, value) = found(&tree(id, files), id);
    assert!(is == verdict && value.contains(part), "{id}: {is:?}, not {verdict:?} with {part:?}: {value}");
}

const STOPPED: &str = "nr_periods 20\nnr_throttled 9\nthrottled_usec 5";
const STILL: &str = "nr_periods 10\nnr_throttled 2\nthrottled_usec 5";

#[test]
fn cpu_quota_of_a_parent_cgroup_is_reported() {
    const V2: &str = "/sys/fs/cgroup/kubepods/pod1";
    const V1: &str = "/sys/fs/cgroup/cpu/kubepods/pod1";
    let second = [
        ("/proc/7/cgroup", "0::/kubepods/pod1/box"),
        (&format!("{V2}/box/cpu.max"), "max 100000"),
        (&format!("{V2}/box/cpu.stat"), STILL),
        (&format!("{V2}/cpu.max"), "50000 100000"),
        (&format!("{V2}/cpu.stat"), STILL),
        (&format!("/later{V2}/cpu.stat"), STOPPED),
    ];
    is_told(&second, "cg.cpu-quota", Bad, "0.50 CPUs (set above its own group, on /kubepods/pod1); stopped in 7 of 10");
    let first = [
        ("/proc/7/cgroup", "4:cpu,cpuacct:/kubepods/pod1/box\n1:name=systemd:/x\n0::/"),
        (&format!("{V1}/box/cpu.cfs_quota_us"), "200000"),
        (&format!("{V1}/box/cpu.cfs_period_us"), "100000"),
        (&format!("{V1}/box/cpu.stat"), STILL),
        (&format!("/later{V1}/box/cpu.stat"), STILL),
        (&format!("{V1}/cpu.cfs_quota_us"), "150000"),
        (&format!("{V1}/cpu.cfs_period_us"), "100000"),
        (&format!("{V1}/cpu.stat"), STILL),
        (&format!("/later{V1}/cpu.stat"), STILL),
        ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1"),
        ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"),
        ("/sys/devices/system/cpu/cpu0/online", "1"),
    ];
    is_told(&first, "cg.cpu-quota", Warn, "1.50 CPUs (set above its own group, on /cpu/kubepods/pod1)");
    let tree = tree("quota-plan", &first);
    assert_eq!(Topology::read(&tree.host(Some(PID)), None).unwrap().quota_cpus, Some(1.5), "the smaller one counts");
}

#[test]
fn missing_cgroup_controller_means_no_quota_if_all_cgroups_are_visible() {
    let seen = [
        ("/proc/7/cgroup", "0::/system.slice/redis.service"),
        ("/sys/fs/cgroup/cgroup.controllers", "cpu memory pids"),
        ("/sys/fs/cgroup/system.slice/cgroup.type", "domain"),
        ("/sys/fs/cgroup/system.slice/redis.service/cgroup.type", "domain"),
    ];
    is_told(&seen, "cg.cpu-quota", Ok, "no quota");
    is_told(&seen, "cg.memory", Ok, "no limit");
    // The top group in a container is an ordinary group on the host, with other groups above it.
    let hidden = [seen[0], seen[1], ("/sys/fs/cgroup/cgroup.type", "domain")];
    is_told(&hidden, "cg.cpu-quota", Unknown, "does not exist");
    is_told(&hidden, "cg.memory", Unknown, "does not exist");
}

#[test]
fn file_cache_at_a_groups_limit_is_no_memory_that_is_used_up() {
    const BOX: &str = "/sys/fs/cgroup/box";
    let group = |used: &'static str, stat: &'static str, events: &'static str| {
        let tree = tree(
            "memory",
            &[
                ("/proc/7/cgroup", "0::/box"),
                (&format!("{BOX}/memory.max"), "1000000000"),
                (&format!("{BOX}/memory.high"), "max"),
                (&format!("{BOX}/memory.current"), used),
                (&format!("{BOX}/memory.stat"), stat),
                (&format!("{BOX}/memory.events"), "low 0\nhigh 0\nmax 10\noom 0\noom_kill 0"),
                (&format!("/later{BOX}/memory.events"), events),
            ],
        );
        found(&tree, "cg.memory")
    };
    const STILL: &str = "high 0\nmax 10";
    let cache = "anon 200000000\nfile 600000000\ninactive_file 500000000\nactive_file 100000000";
    assert_eq!(group("930000000", cache, STILL).0, Ok);
    let (verdict, value) = group("930000000", cache, "high 3\nmax 12");
    assert!(verdict == Warn && value.contains("572 MiB of it file cache; at the limit 5 times"), "{value}");
    assert_eq!(group("990000000", cache, STILL).0, Warn, "what is needed next is taken from the cache");
    assert_eq!(group("930000000", "anon 920000000\ninactive_file 1000000", STILL).0, Bad);
}

#[test]
fn process_confined_to_a_numa_node_with_local_memory_passes() {
    let maps = |maps: &'static str, cpus: &'static str| {
        tree(
            "placement",
            &[
                ("/sys/devices/system/node/node0/cpulist", "0-3"),
                ("/sys/devices/system/node/node1/cpulist", "4-7"),
                ("/proc/7/status", &format!("Cpus_allowed_list:\t{cpus}")),
                ("/proc/7/numa_maps", maps),
            ],
        )
    };
    const ON_ONE: &str = "7f00 bind:1 anon=9000 N1=9000 kernelpagesize_kB=4";
    assert_eq!(found(&maps(ON_ONE, "4-7"), "numa.placement").0, Ok);
    let (verdict, value) = found(&maps(ON_ONE, "0-3"), "numa.placement");
    assert!(verdict == Warn && value.contains("100 % of its memory is away from node 0"), "{value}");
    assert_eq!(found(&maps(ON_ONE, "0-7"), "numa.placement").0, Warn, "one node is filled");
    // 20 pages of 2 MiB (hugetlbfs) are more memory than 9000 pages of 4 KiB.
    const HUGE: &str =
        "7f00 default anon=9000 N1=9000 kernelpagesize_kB=4\n7f01 default huge N0=20 kernelpagesize_kB=2048";
    let (_, value) = found(&maps(HUGE, "4-7"), "numa.placement");
    assert!(value.contains("53 % of its memory is away from node 1"), "{value}");
}

#[test]
fn processes_hidden_by_a_container_are_unknown_and_not_absent() {
    let own = [("/proc/1/comm", "server"), ("/proc/2/comm", "sh"), ("/measured/clock.slew", "ppm 3")];
    is_told(&own, "irq.irqbalance", Unknown, "not visible from this container");
    is_told(&own, "clock.slew", Unknown, "not visible from this container");
    let host = [own[0], ("/proc/2/comm", "kthreadd"), own[2]];
    is_told(&host, "irq.irqbalance", Ok, "does not run");
    is_told(&host, "clock.slew", Warn, "no known time service");
}

#[test]
fn unreadable_counts_are_judged_by_their_limits_alone() {
    let limits = "Max open files            20000                20000                files";
    // A file in the place of a directory, or a directory in the place of a file, cannot be read, like one without
    // permission.
    fn files(limits: &str) -> [(&str, &str); 3] {
        [("/proc/7/limits", limits), ("/proc/7/fd", ""), ("/proc/7/status", "FDSize:\t256")]
    }
    is_told(&files(limits), "lim.nofile", Ok, "at most 256 open, 20000 allowed");
    let few = limits.replace("20000", "300  ");
    is_told(&files(&few), "lim.nofile", Warn, "300 allowed");
    is_told(&files(limits)[..2], "lim.nofile", Unknown, "/proc/7/fd");
    let maps = |most| [("/proc/sys/vm/max_map_count", most), ("/proc/7/maps/none", "")];
    is_told(&maps("65530"), "mem.map-count", Warn, "65530 allowed; the number in use is unknown");
    is_told(&maps("1048576"), "mem.map-count", Unknown, "/proc/7/maps");
}

#[test]
fn capability_lifts_the_process_limit_but_not_the_cgroup_limit() {
    let limits = "Max processes             9                    9                    processes\n\
                  Max locked memory         8388608              8388608              bytes";
    let files = |bits| {
        [
            ("/proc/7/limits", limits),
            ("/proc/7/status", bits),
            ("/proc/swaps", "Filename Type\n/swap file 1 0 -2"),
            ("/proc/7/task/7/comm", "a"),
        ]
    };
    const ROOT: &str = "VmRSS:\t500000 kB\nCapEff:\t000001ffffffffff";
    const USER: &str = "VmRSS:\t500000 kB\nCapEff:\t0000000000000000";
    is_told(&files(ROOT), "lim.memlock", Ok, "CAP_IPC_LOCK");
    is_told(&files(USER), "lim.memlock", Warn, "8 MiB may be locked");
    is_told(&files(ROOT), "lim.nproc", Ok, "lift");
    let group = [
        ("/proc/7/cgroup", "0::/box"),
        ("/sys/fs/cgroup/box/pids.max", "100"),
        ("/sys/fs/cgroup/box/pids.current", "90"),
    ];
    is_told(&[&files(ROOT)[..], &group].concat(), "lim.nproc", Bad, "90 of 100 in the control group");
}

#[test]
fn sleep_state_forbidden_by_a_latency_request_is_not_reported() {
    let states = [
        ("/sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "2"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "133"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "0"),
        ("/dev/cpu_dma_latency", "10"),
    ];
    is_told(&states, "cpu.cstates", Ok, "up to 2 us to wake up; a program holds it to 10 us");
    is_told(&[&states[..4], &[("/dev/cpu_dma_latency", "2000000000")]].concat(), "cpu.cstates", Warn, "133 us");
}

#[test]
fn a_group_of_cpu_time_overrides_the_sessions() {
    let on = ("/proc/sys/kernel/sched_autogroup_enabled", "1");
    is_told(&[on, ("/proc/7/cgroup", "4:cpu,cpuacct:/")], "cpu.autogroup", Warn, "= 1");
    is_told(&[on, ("/proc/7/cgroup", "4:cpu,cpuacct:/box")], "cpu.autogroup", Ok, "overrides");
    let second = [on, ("/proc/7/cgroup", "0::/box"), ("/sys/fs/cgroup/box/pids.max", "max")];
    is_told(&second, "cpu.autogroup", Warn, "= 1");
    is_told(&[&second[..], &[("/sys/fs/cgroup/box/cpu.weight", "100")]].concat(), "cpu.autogroup", Ok, "overrides");
}

#[test]
fn process_in_another_network_namespace_is_judged_by_its_own_counters() {
    let files = [
        ("/proc/sys/net/core/somaxconn", "128"),
        ("/proc/net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 100 0"),
        ("/later/proc/net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 200 90"),
        ("/proc/7/net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 100 0"),
        ("/later/proc/7/net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 200 0"),
    ];
    for (its, somaxconn, retrans) in [("net:[1]", "/proc/net/netstat", Bad), ("net:[2]", "nsenter -t PID", Ok)] {
        let tree = tree("network", &files);
        for (process, network) in [("self", "net:[1]"), ("7", its)] {
            let folder = tree.0.join(format!("proc/{process}/ns"));
            std::fs::create_dir_all(&folder).unwrap();
            std::os::unix::fs::symlink(network, folder.join("net")).unwrap();
        }
        let (verdict, value) = found(&tree, "net.somaxconn");
        assert!(verdict == Unknown && value.contains(somaxconn), "{value}");
        assert_eq!(found(&tree, "net.retrans").0, retrans, "{its}");
    }
}

#[test]
fn of_threads_of_which_nothing_was_read_it_is_not_known_that_they_rest() {
    let files = [
        ("/sys/devices/system/node/node0/cpulist", "0"),
        ("/sys/devices/system/node/node1/cpulist", "1"),
        ("/sys/class/net/eth0/device/numa_node", "0"),
        ("/proc/7/task/7/stat", "7 (a) S 1 7"),
    ];
    is_told(&files, "numa.nic-node", Unknown, "was read once");
}

#[test]
fn the_read_ahead_of_a_volume_counts_and_not_only_that_of_its_disks() {
    let disk = ("/sys/block/nvme0n1/queue/read_ahead_kb", "128");
    for volume in ["dm-0", "md127"] {
        let path = format!("/sys/block/{volume}/queue/read_ahead_kb");
        let files = [disk, (&path, "8192"), ("/sys/block/loop0/queue/read_ahead_kb", "9999")];
        is_told(&files, "disk.readahead", Bad, &format!("{volume}: 8192 KB"));
    }
}

/// Two disks, of which only the first has a large read-ahead. The root file system is on its partition.
const DISKS: [(&str, &str); 8] = [
    ("/sys/block/vda/queue/read_ahead_kb", "8192"),
    ("/sys/block/vda/queue/scheduler", "[bfq] none"),
    ("/sys/block/vda/dev", "253:0"),
    ("/sys/block/vda/vda1/dev", "253:1"),
    ("/sys/block/vdb/queue/read_ahead_kb", "128"),
    ("/sys/block/vdb/queue/scheduler", "[none] bfq"),
    ("/sys/block/vdb/dev", "253:16"),
    (
        "/proc/7/mountinfo",
        "21 1 253:1 / / rw shared:1 - ext4 /dev/vda1 rw\n30 21 253:16 / /data rw - xfs /dev/vdb rw\n40 21 0:5 / /dev \
         rw - devtmpfs none rw\n50 21 0:44 / /box rw - overlay overlay rw",
    ),
];
const PROGRAM: &str = "55d0-55e0 r-xp 00000000 fd:01 77 /usr/bin/server";

#[test]
fn disk_without_files_of_the_process_is_no_finding() {
    let with = |open: &'static str, maps: &'static str| {
        [&DISKS[..], &[("/proc/7/fdinfo/5", open), ("/proc/7/maps", maps)]].concat()
    };
    // The program itself is on the first disk, its data on the second.
    let data = with("pos:\t0\nflags:\t02\nmnt_id:\t30", PROGRAM);
    is_told(&data, "disk.readahead", Ok, "vdb: 128 KB; the process reads no file on vda");
    is_told(&data, "disk.scheduler", Ok, "vdb: none; the process has no file on vda");
    let null = with("pos:\t0\nflags:\t02\nmnt_id:\t40", PROGRAM);
    is_told(&null, "disk.readahead", Ok, "the process reads no file on vda, vdb");
    let root = with("pos:\t0\nflags:\t02\nmnt_id:\t21", PROGRAM);
    is_told(&root, "disk.readahead", Bad, "vda: 8192 KB");
    is_told(&root, "disk.scheduler", Warn, "vda: bfq");
    // A log is only written.
    let log = with("pos:\t0\nflags:\t0102001\nmnt_id:\t21", PROGRAM);
    is_told(&log, "disk.readahead", Ok, "the process reads no file on vda, vdb");
    is_told(&log, "disk.scheduler", Warn, "vda: bfq");
    let mapped = with("mnt_id:\t30", "7f00-7f10 rw-s 00000000 fd:01 12 /data/memory");
    is_told(&mapped, "disk.readahead", Bad, "vda: 8192 KB");
    // The disks below an overlay are unknown, so all count.
    is_told(&with("mnt_id:\t50", PROGRAM), "disk.readahead", Bad, "vda: 8192 KB");
    let volume = [
        ("/sys/block/dm-0/queue/read_ahead_kb", "128"),
        ("/sys/block/dm-0/dev", "253:1"),
        ("/sys/block/dm-0/slaves/vdc", ""),
        ("/sys/block/vdc/queue/read_ahead_kb", "9999"),
    ];
    let volume = [&volume[..], &DISKS[7..], &[("/proc/7/fdinfo/5", "mnt_id:\t21"), ("/proc/7/maps", PROGRAM)]].concat();
    is_told(&volume, "disk.readahead", Bad, "vdc: 9999 KB");
}

#[test]
fn read_ahead_of_a_disk_is_no_proven_problem_without_a_process_that_reads_it() {
    let tree = tree("readahead-alone", &DISKS);
    let find = |pid| {
        let found = run(&tree.host(pid), &select(&["disk.readahead".to_owned()]).unwrap()).remove(0);
        (found.verdict, found.value)
    };
    let (verdict, value) = find(None);
    assert!(verdict == Warn && value.contains("vda: 8192 KB; pass --pid"), "{verdict:?} {value}");
    assert_eq!(find(Some(7)).0, Bad, "the devices of the process are unknown, so all count");
}

#[test]
fn queueing_discipline_of_each_device_counts_and_not_only_the_default() {
    let with = |default: &'static str, control: &'static str, eth0: &'static str| {
        [
            ("/proc/sys/net/core/default_qdisc", default),
            ("/proc/sys/net/ipv4/tcp_congestion_control", control),
            ("/sys/class/net/eth0/device/vendor", "0x1af4"),
            ("/qdisc/eth0", eth0),
        ]
    };
    let before = with("fq", "bbr", "root pfifo_fast");
    is_told(&before, "net.qdisc", Warn, "queueing discipline fq by default, eth0: pfifo_fast");
    is_told(&with("pfifo_fast", "bbr", "root fq"), "net.qdisc", Ok, "eth0: fq");
    is_told(&with("fq", "cubic", "root pfifo_fast"), "net.qdisc", Ok, "congestion control cubic");
    let queues = with("fq", "bbr", "root mq\nchild fq\nchild fq_codel");
    is_told(&queues, "net.qdisc", Warn, "eth0: fq and fq_codel");
    is_told(&with("fq_codel", "bbr", "root mq\nchild fq\nchild fq"), "net.qdisc", Ok, "eth0: fq");
    is_told(&before[..3], "net.qdisc", Ok, "queueing discipline fq by default");
}

#[test]
fn few_retransmissions_are_no_rate() {
    let of = |sent: u32, again: u32| format!("Tcp: OutSegs RetransSegs\nTcp: {sent} {again}");
    for (sent, again, verdict) in [(13_138, 2, Ok), (13_138, 9, Ok), (13_138, 12, Bad), (900_000, 12, Ok)] {
        let (before, after) = (of(1000, 5), of(1000 + sent, 5 + again));
        let files = [("/proc/net/snmp", before.as_str()), ("/later/proc/net/snmp", after.as_str())];
        is_told(&files, "net.retrans", verdict, &format!("{again} of {sent} segments"));
    }
}

#[test]
fn a_groups_name_that_leads_out_of_where_groups_are_is_not_followed() {
    let files = [("/proc/7/cgroup", "0::/../../secret"), ("/sys/secret/cpu.max", "50000 100000")];
    is_told(&files, "cg.cpu-quota", Unknown, "does not exist");
}
