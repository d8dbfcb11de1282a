//! The hosts for tests of plans: topologies that hwloc generates from a description and that are stored as tables, and
//! a network interface.

use std::collections::BTreeMap;
use std::process::Command;

use gannet_doctor::Wanted;
use gannet_doctor::plan::Purpose;

use crate::tree::Tree;

/// A host, and the wishes for its plan.
pub struct Case {
    pub name: &'static str,
    /// hwloc's description of the topology.
    pub synthetic: &'static str,
    /// The interface's node, its number of queues and its maximum number of queues.
    pub nic: Option<(i32, usize, usize)>,
    /// The CPUs on which the process may run.
    pub allowed: &'static str,
    pub wanted: Wanted,
}

const PLAIN: Wanted =
    Wanted { purpose: Purpose::Server, workers: None, queues: None, processes: None, storage: 0, sampler: false };

const fn case(name: &'static str, synthetic: &'static str, nic: (i32, usize, usize), wanted: Wanted) -> Case {
    Case { name, synthetic, nic: Some(nic), allowed: "", wanted }
}

const SIXTEEN: &str = "package:1 l3:1 core:16 pu:1";
const TWO_SOCKETS: &str = "package:2 [numa] l3:4 core:8 pu:2(indexes=2*64:1*2)";

pub static CASES: &[Case] = &[
    case("1", "core:1 pu:1", (-1, 1, 1), PLAIN),
    case("2", "core:2 pu:1", (-1, 1, 1), PLAIN),
    case("2-of-one-core", "core:1 pu:2", (-1, 2, 2), PLAIN),
    case("4", "core:4 pu:1", (-1, 4, 4), PLAIN),
    case("4-of-two-cores", "core:2 pu:2", (-1, 4, 4), PLAIN),
    case("8", "l3:1 core:8 pu:1", (-1, 8, 8), PLAIN),
    // Google's T2A machine with 16 CPUs and 8 of 16 queues: two processes, each with a storage thread; the default for
    // workers is five each, on the twelve CPUs that the network does not use.
    case("16-t2a", SIXTEEN, (-1, 8, 16), Wanted { processes: Some(2), storage: 1, ..PLAIN }),
    case("16", SIXTEEN, (-1, 8, 16), PLAIN),
    case("16-few-queues", SIXTEEN, (-1, 1, 2), PLAIN),
    case("16-load", SIXTEEN, (-1, 8, 16), Wanted { purpose: Purpose::Generator, sampler: true, ..PLAIN }),
    case("16-more-threads", SIXTEEN, (-1, 8, 16), Wanted { workers: Some(14), ..PLAIN }),
    case("64", "package:1 l3:8 core:8 pu:1", (0, 32, 32), PLAIN),
    case("2x32-smt", TWO_SOCKETS, (1, 63, 63), Wanted { processes: Some(2), ..PLAIN }),
    case("2x32-smt-small", TWO_SOCKETS, (-1, 63, 63), Wanted { workers: Some(8), queues: Some(2), ..PLAIN }),
    Case {
        name: "64-in-a-container",
        synthetic: "package:1 l3:8 core:8 pu:1",
        nic: None,
        allowed: "8-11,20-23",
        wanted: PLAIN,
    },
];

/// A CPU: its number, package, core, shared cache and node. Core and cache are identified by their lowest CPU number.
type Cpu = [Option<usize>; 4];

fn set(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for (word, digits) in text.rsplit(',').enumerate() {
        let bits = u32::from_str_radix(digits.trim_start_matches("0x"), 16).unwrap_or(0);
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| word * 32 + bit));
    }
    cpus
}

fn attribute<'t>(tag: &'t str, name: &str) -> &'t str {
    tag.split_once(&format!(" {name}=\"")).map_or("", |(_, rest)| rest.split('"').next().unwrap())
}

/// Returns the topology that hwloc generates, if hwloc is installed.
pub fn by_hwloc(synthetic: &str) -> Option<String> {
    let output = ["lstopo-no-graphics", "lstopo"].iter().find_map(|program| {
        Command::new(program)
            .args(["-i", synthetic, "--of", "xml"])
            .output()
            .ok()
            .filter(|output| output.status.success())
    })?;
    let text = String::from_utf8(output.stdout).unwrap();
    let mut cpus: BTreeMap<usize, Cpu> = BTreeMap::new();
    for tag in text.split("<object").skip(1).map(|rest| rest.split('>').next().unwrap()) {
        let (at, kind) = match attribute(tag, "type") {
            "Package" => (0, "os_index"),
            "Core" => (1, "lowest"),
            "L3Cache" => (2, "lowest"),
            "NUMANode" => (3, "os_index"),
            "PU" => (4, ""),
            _ => continue,
        };
        let members = set(attribute(tag, "cpuset"));
        let number = if kind == "lowest" { members[0] } else { attribute(tag, "os_index").parse().unwrap() };
        for cpu in members {
            let row = cpus.entry(cpu).or_default();
            if at < 4 {
                row[at] = Some(number);
            }
        }
    }
    let told = |number: Option<usize>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let lines = cpus.iter().map(|(cpu, row)| format!("{cpu} {}\n", row.map(told).join(" ")));
    Some(format!("# lstopo -i '{synthetic}'; cpu package core l3 node\n{}", lines.collect::<String>()))
}

/// Creates the tree of a case from a stored table.
pub fn tree(case: &Case, table: &str) -> Tree {
    let tree = Tree::new(&format!("plan-{}", case.name));
    let rows: Vec<Vec<Option<usize>>> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(' ').map(|word| word.parse().ok()).collect())
        .collect();
    let sharing = |column: usize, value: usize| -> String {
        let cpus = rows.iter().filter(|row| row[column] == Some(value)).map(|row| row[0].unwrap().to_string());
        cpus.collect::<Vec<_>>().join(",")
    };
    for row in &rows {
        let folder = format!("/sys/devices/system/cpu/cpu{}", row[0].unwrap());
        tree.write(&format!("{folder}/topology/physical_package_id"), &row[1].map_or("-1".into(), |n| n.to_string()));
        tree.write(&format!("{folder}/topology/thread_siblings_list"), &sharing(2, row[2].unwrap()));
        if let Some(l3) = row[3] {
            tree.write(&format!("{folder}/cache/index3/level"), "3");
            tree.write(&format!("{folder}/cache/index3/shared_cpu_list"), &sharing(3, l3));
        }
        let node = row[4].unwrap_or(0);
        tree.write(&format!("/sys/devices/system/node/node{node}/cpulist"), &sharing(4, node));
    }
    if let Some((node, queues, most)) = case.nic {
        tree.write("/sys/class/net/eth0/device/numa_node", &node.to_string());
        (0..queues).for_each(|queue| tree.write(&format!("/sys/class/net/eth0/queues/rx-{queue}/rps_cpus"), "0"));
        let parts = format!("Pre-set maximums:\nCombined:\t{most}\nCurrent hardware settings:\nCombined:\t{queues}");
        tree.write("/ethtool/eth0/l", &parts);
    }
    if !case.allowed.is_empty() {
        tree.write("/proc/self/status", &format!("Name:\tgannet\nCpus_allowed_list:\t{}", case.allowed));
    }
    tree
}
