//! Tests whole hosts as trees: all checks on each, the important verdicts, the plan, and the settings that would be
//! written.
//!
//! A tree is written as a text: `== PATH` is followed by the contents of that file, up to the next such line; `==
//! PATH/` is a directory without files, and `== PATH -> NAME` a link. The first line says whether the tree was captured
//! (by `gannet doctor bundle`) or composed, and from which source. The tests add the CPUs and queues of composed trees.

mod tree;

use gannet_doctor::checks::select;
use gannet_doctor::plan::{Role, plan};
use gannet_doctor::tune::draft;
use gannet_doctor::{Report, Topology, Verdict, Wanted, run};
use tree::Tree;

use Verdict::{Bad, Ok, Unknown, Warn};

/// The id of the process in trees that have one.
const PID: u32 = 7;

/// The CPUs of a composed host.
struct Shape {
    cores: usize,
    /// Number of CPUs per core. The second CPUs of all cores are numbered after all first CPUs.
    threads: usize,
    nodes: usize,
    nic: &'static str,
    queues: usize,
}

struct Host {
    text: &'static str,
    /// The tree that this tree extends, if it is not complete.
    base: Option<&'static str>,
    shape: Option<Shape>,
    has_process: bool,
    /// The id of the first finding.
    first: &'static str,
    verdicts: &'static [(&'static str, Verdict)],
}

const PLAIN: &str = include_str!("hosts/plain.tree");

const METAL: Host = Host {
    text: include_str!("hosts/metal.tree"),
    base: Some(PLAIN),
    shape: Some(Shape { cores: 32, threads: 2, nodes: 2, nic: "ens1f0np0", queues: 63 }),
    has_process: false,
    first: "cpu.governor",
    verdicts: &[
        ("cpu.governor", Warn),
        ("cpu.cstates", Warn),
        ("cpu.boost", Ok),
        ("cpu.isolated", Warn),
        ("irq.irqbalance", Warn),
        ("net.coalesce", Warn),
        ("net.ring", Ok),
        ("net.queues", Ok),
        ("mem.swap", Warn),
        ("mem.min-free", Warn),
        ("mem.dirty", Warn),
        ("mem.thp", Ok),
        ("numa.balancing", Warn),
        ("numa.zone-reclaim", Ok),
        ("numa.nic-node", Unknown),
        ("disk.readahead", Ok),
        ("cloud.queues-default", Warn),
        ("cloud.burstable", Ok),
        ("cloud.allowance", Unknown),
        ("cpu.involuntary-switch", Unknown),
    ],
};

const ENA: Host = Host {
    text: include_str!("hosts/ena.tree"),
    base: Some(PLAIN),
    shape: Some(Shape { cores: 8, threads: 2, nodes: 1, nic: "ens5", queues: 8 }),
    has_process: false,
    first: "cloud.allowance",
    verdicts: &[
        ("cloud.allowance", Bad),
        ("cloud.nic-driver", Ok),
        ("cloud.burstable", Ok),
        ("cloud.queues-default", Warn),
        ("net.coalesce", Warn),
        ("clock.source", Ok),
        ("numa.nic-node", Ok),
        ("cpu.governor", Unknown),
        ("mem.swap", Ok),
    ],
};

const GVNIC: Host = Host {
    text: include_str!("hosts/gvnic.tree"),
    base: Some(PLAIN),
    shape: Some(Shape { cores: 4, threads: 2, nodes: 1, nic: "ens4", queues: 4 }),
    has_process: false,
    first: "cloud.steal",
    verdicts: &[
        ("cloud.steal", Warn),
        // All machine types of this vendor have the same product name.
        ("cloud.burstable", Unknown),
        ("cloud.nic-driver", Ok),
        ("cloud.queues-default", Warn),
        ("clock.source", Ok),
        ("disk.scheduler", Warn),
        // This driver does not report coalescing.
        ("net.coalesce", Unknown),
        ("net.ring", Ok),
    ],
};

const T2A: Host = Host {
    text: include_str!("hosts/t2a.tree"),
    base: Some(PLAIN),
    shape: Some(Shape { cores: 16, threads: 1, nodes: 1, nic: "ens4", queues: 8 }),
    has_process: true,
    first: "cpu.involuntary-switch",
    verdicts: &[
        ("cpu.involuntary-switch", Bad),
        ("irq.affinity", Warn),
        ("cloud.queues-default", Warn),
        ("lim.nofile", Warn),
        ("lim.memlock", Ok),
        ("clock.source", Ok),
    ],
};

const CONTAINER: &[(&str, Verdict)] = &[
    ("cg.cpu-quota", Bad),
    ("cg.memory", Bad),
    ("cg.cpuset", Ok),
    ("irq.irqbalance", Unknown),
    ("clock.slew", Unknown),
    ("net.queues", Unknown),
    ("disk.readahead", Unknown),
    ("cpu.governor", Unknown),
    ("mem.map-count", Warn),
];
const CONTAINER_V1: Host = Host {
    text: include_str!("hosts/container-v1.tree"),
    base: Some(PLAIN),
    shape: Some(Shape { cores: 64, threads: 1, nodes: 1, nic: "", queues: 0 }),
    has_process: true,
    first: "cg.cpu-quota",
    verdicts: CONTAINER,
};
const CONTAINER_V2: Host = Host { text: include_str!("hosts/container-v2.tree"), ..CONTAINER_V1 };

const MICROVM: Host = Host {
    text: include_str!("hosts/microvm.tree"),
    base: None,
    shape: None,
    has_process: false,
    first: "cpu.autogroup",
    verdicts: &[
        ("disk.readahead", Warn),
        ("cpu.autogroup", Warn),
        ("net.qdisc", Warn),
        ("mem.min-free", Warn),
        ("mem.dirty", Warn),
        ("cg.pressure", Warn),
        ("cpu.governor", Unknown),
        ("cloud.allowance", Unknown),
        ("cpu.smt-siblings", Ok),
        ("irq.affinity", Ok),
        ("net.queues", Ok),
        ("mem.thp", Ok),
        ("cloud.steal", Ok),
        ("cloud.nic-driver", Ok),
        ("clock.source", Ok),
    ],
};

fn place(tree: &Tree, text: &str) {
    let (head, files) = text.split_once("\n== ").expect("a tree has files");
    assert!(head.starts_with("# captured") || head.starts_with("# composed"), "{head}");
    for file in files.split("\n== ") {
        let (path, text) = file.split_once('\n').unwrap_or((file, ""));
        if let Some((link, name)) = path.split_once(" -> ") {
            let place = tree.0.join(&link[1..]);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(name, place).unwrap();
            continue;
        }
        if path.ends_with('/') {
            std::fs::create_dir_all(tree.0.join(&path[1..])).unwrap();
            continue;
        }
        tree.write(path, text.strip_suffix('\n').unwrap_or(text));
    }
}

impl Shape {
    fn make(&self, tree: &Tree) {
        let count = self.cores * self.threads;
        let per_node = self.cores / self.nodes;
        for cpu in 0..count {
            let (core, folder) = (cpu % self.cores, format!("/sys/devices/system/cpu/cpu{cpu}"));
            let list = |first: usize, last: usize| {
                let parts: Vec<String> = (0..self.threads)
                    .map(|thread| (first + thread * self.cores, last + thread * self.cores))
                    .map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") })
                    .collect();
                parts.join(",")
            };
            let node = core / per_node;
            let near = list(node * per_node, (node + 1) * per_node - 1);
            tree.write(&format!("{folder}/topology/thread_siblings_list"), &list(core, core));
            tree.write(&format!("{folder}/topology/physical_package_id"), &node.to_string());
            tree.write(&format!("{folder}/cache/index3/level"), "3");
            tree.write(&format!("{folder}/cache/index3/shared_cpu_list"), &near);
            tree.write(&format!("/sys/devices/system/node/node{node}/cpulist"), &near);
        }
        for queue in 0..self.queues {
            let folder = format!("/sys/class/net/{}/queues", self.nic);
            tree.write(&format!("{folder}/rx-{queue}/rps_cpus"), "0");
            tree.write(&format!("{folder}/tx-{queue}/xps_cpus"), &format!("{:x}", 1u64 << (queue % count)));
        }
    }
}

impl Host {
    fn tree(&self, name: &str) -> Tree {
        let tree = Tree::new(name);
        self.base.into_iter().chain([self.text]).for_each(|text| place(&tree, text));
        self.shape.iter().for_each(|shape| shape.make(&tree));
        tree
    }

    /// Runs all checks, compares the verdicts with the expected ones, and returns the tree.
    fn examine(&self, name: &str) -> Tree {
        let tree = self.tree(name);
        let pid = self.has_process.then_some(PID);
        let host = tree.host(pid);
        let findings = run(&host, &select(&[]).unwrap());
        let told: Vec<String> =
            findings.iter().map(|finding| format!("{:?} {}: {}", finding.verdict, finding.id, finding.value)).collect();
        for (id, verdict) in self.verdicts {
            let finding = findings.iter().find(|finding| finding.id == *id).unwrap();
            assert_eq!(finding.verdict, *verdict, "{name}, {id}: {}\n{}", finding.value, told.join("\n"));
        }
        assert_eq!(findings[0].id, self.first, "{name}: {}", told.join("\n"));
        // The tree is well-formed, so every check must understand its files.
        let odd: Vec<&String> = told.iter().filter(|line| line.contains(" has no ")).collect();
        assert!(odd.is_empty(), "{name}: {odd:?}");
        let report = Report::new(&host, pid, findings);
        let text = report.text(false);
        assert!(text.contains(self.first) && text.lines().all(|line| line.chars().count() <= 140), "{text}");
        tree
    }
}

#[test]
fn two_socket_host_is_diagnosed_by_power_saving_and_numa_nodes() {
    let tree = METAL.examine("metal");
    let host = tree.host(None);
    let made = plan(&Topology::read(&host, None).unwrap(), &Wanted::default()).unwrap();
    // The interface is attached to node 1, whose CPUs begin at 16.
    assert_eq!(made.cpus_of(Role::Network), (16..24).collect::<Vec<_>>(), "{made:?}");
    let draft = draft(&host, &select(&["numa".into(), "net.coalesce".into()]).unwrap());
    let paths: Vec<&str> = draft.steps.iter().map(|step| step.new.path.as_str()).collect();
    assert_eq!(paths, ["/ethtool/ens1f0np0/c/Adaptive RX", "/proc/sys/kernel/numa_balancing"], "{draft:?}");
}

#[test]
fn exceeded_cloud_network_allowance_is_reported_first() {
    ENA.examine("ena");
}

#[test]
fn stolen_cpu_time_is_reported_and_missing_driver_values_are_unknown() {
    GVNIC.examine("gvnic");
}

#[test]
fn queues_on_worker_cpus_are_reported_and_moved_by_the_plan() {
    let tree = T2A.examine("t2a");
    let host = tree.host(Some(PID));
    let wanted = Wanted { processes: Some(2), storage: 1, ..Wanted::default() };
    let made = plan(&Topology::read(&host, None).unwrap(), &wanted).unwrap();
    assert_eq!((made.cpus_of(Role::Network).len(), made.cpus_of(Role::Worker).len()), (4, 10), "{made:?}");
    let draft = draft(&host, &select(&["cloud.queues-default".into(), "irq.affinity".into()]).unwrap());
    let steps: Vec<String> = draft.steps.iter().map(|step| format!("{}={}", step.new.path, step.new.value)).collect();
    // The number of queues is set to the plan's before the interrupts are moved.
    assert_eq!(steps[..2], ["/ethtool/ens4/l/RX=4", "/ethtool/ens4/l/TX=4"], "{steps:?}");
    assert!(steps[2..].iter().all(|step| step.starts_with("/proc/irq/")), "{steps:?}");
}

#[test]
fn captured_micro_vm_is_diagnosed_as_expected() {
    let tree = MICROVM.examine("microvm");
    let made = plan(&Topology::read(&tree.host(None), None).unwrap(), &Wanted::default()).unwrap();
    assert_eq!(made.cpus_of(Role::Worker).len(), 2, "{made:?}");
}

#[test]
fn container_is_diagnosed_by_its_limits_under_cgroup_v1_and_v2() {
    for (name, host) in [("v1", CONTAINER_V1), ("v2", CONTAINER_V2)] {
        let tree = host.examine(name);
        let made = plan(&Topology::read(&tree.host(Some(PID)), None).unwrap(), &Wanted::default()).unwrap();
        // The container sees 64 CPUs, and its quota is 4 CPUs.
        let notes = made.notes.join(" ");
        assert!(notes.contains('4') && made.cpus_of(Role::Worker).len() <= 4, "{name}: {made:?}");
    }
}
