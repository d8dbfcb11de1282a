//! The host's topology: its CPUs with their shared cores and caches, the allowed CPUs, and the network interfaces'
//! nodes.
//!
//! ```text
//!   node 0                          node 1
//!   ├─ package 0                    └─ package 1
//!   │  ├─ L3                           ...
//!   │  │  ├─ core: CPU 0, CPU 64 (siblings)
//!   │  │  └─ core: CPU 1, CPU 65
//!   │  └─ L3 ...
//!   └─ eth0, with at most 32 queues
//! ```

use io::affinity::{CPU_NUMBER_END, read_cpus};

use crate::host::{Host, Unread};

/// A logical CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The CPU's number.
    pub number: usize,
    /// The number of the CPU's package.
    pub package: usize,
    /// The CPU's core, identified by the lowest number of a CPU on that core.
    pub core: usize,
    /// The CPU's L3 cache, identified by the lowest number of a CPU that shares it; `None` if the kernel does not
    /// report it.
    pub l3: Option<usize>,
    /// The CPU's memory node.
    pub node: usize,
    /// True if the affinity and the control group allow the use of the CPU.
    pub is_allowed: bool,
}

/// A network interface of a hardware device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// The interface's name.
    pub name: String,
    /// The memory node that the interface is attached to, if the kernel reports it.
    pub node: Option<usize>,
    /// Current number of receive queues, if the kernel reports it.
    pub queues: Option<usize>,
    /// Maximum number of queues, if known.
    pub queues_max: Option<usize>,
}

/// The properties of a host from which a plan follows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// The online CPUs, in ascending order.
    pub cpus: Vec<Cpu>,
    /// The network interfaces, sorted by name.
    pub nics: Vec<Nic>,
    /// Number of CPUs that the control group's quota allows; `None` without a quota.
    pub quota_cpus: Option<f64>,
    /// CPUs on which the kernel runs only threads that are pinned there explicitly (isolcpus).
    pub isolated: Vec<usize>,
}

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// Returns the CPUs of a list in the kernel's format, which may be empty.
pub(crate) fn cpu_list(path: &str, text: &str) -> Result<Vec<usize>, Unread> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    read_cpus(text).map_err(|_| Unread::Garbage(path.to_owned(), "list of CPUs"))
}

impl Topology {
    /// Reads the topology. The allowed CPUs are those of the process `pid`, or without it those of the doctor's own
    /// process. In a tree that has neither, all CPUs are allowed.
    ///
    /// # Errors
    /// [`Unread`]: if the CPUs are not listed, or if a file has invalid content.
    pub fn read(host: &Host, pid: Option<u32>) -> Result<Self, Unread> {
        let nodes = nodes(host)?;
        let allowed = allowed(host, pid)?;
        let online = optional(host, &format!("{CPUS}/online"))?;
        let mut cpus = Vec::new();
        for name in host.cpus()? {
            let number = name["cpu".len()..].parse().unwrap_or(usize::MAX);
            if number >= CPU_NUMBER_END || online.as_ref().is_some_and(|online| !online.contains(&number)) {
                continue;
            }
            let folder = format!("{CPUS}/{name}");
            cpus.push(Cpu {
                number,
                package: package(host, &folder)?,
                core: core(host, &folder)?.unwrap_or(number),
                l3: l3(host, &folder)?,
                node: nodes.iter().find(|(_, list)| list.contains(&number)).map_or(0, |(node, _)| *node),
                is_allowed: allowed.as_ref().is_none_or(|allowed| allowed.contains(&number)),
            });
        }
        cpus.sort_by_key(|cpu| cpu.number);
        // A plan is possible even without hardware interfaces.
        let nics = host.nics().unwrap_or_default().into_iter().map(|name| nic(host, name)).collect();
        let quota_cpus = crate::checks::cgroup::quota_cpus(host).ok().flatten();
        let isolated = optional(host, &format!("{CPUS}/isolated"))?.unwrap_or_default();
        Ok(Self { cpus, nics, quota_cpus, isolated })
    }

    /// Returns a CPU by its number.
    pub fn cpu(&self, number: usize) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&number, |cpu| cpu.number).ok().map(|at| &self.cpus[at])
    }

    /// Returns the interface to plan for: the first of those with the highest maximum number of queues.
    pub fn nic(&self) -> Option<&Nic> {
        self.nics.iter().rev().max_by_key(|nic| nic.queues_max.or(nic.queues))
    }
}

/// Returns the list of CPUs in a file; `None` if the file is absent.
fn optional(host: &Host, path: &str) -> Result<Option<Vec<usize>>, Unread> {
    match host.read(path) {
        Ok(text) => cpu_list(path, &text).map(Some),
        Err(Unread::Absent(_)) => Ok(None),
        Err(why) => Err(why),
    }
}

/// Returns the memory nodes, each with its CPUs.
pub(crate) fn nodes(host: &Host) -> Result<Vec<(usize, Vec<usize>)>, Unread> {
    let mut nodes = Vec::new();
    for name in host.list(NODES).unwrap_or_default() {
        let Some(number) = name.strip_prefix("node").and_then(|rest| rest.parse().ok()) else { continue };
        nodes.push((number, optional(host, &format!("{NODES}/{name}/cpulist"))?.unwrap_or_default()));
    }
    Ok(nodes)
}

/// Returns the CPUs that the process may run on. The kernel derives them from its affinity and its control group.
fn allowed(host: &Host, pid: Option<u32>) -> Result<Option<Vec<usize>>, Unread> {
    let path = pid.map_or_else(|| "/proc/self/status".to_owned(), |pid| format!("/proc/{pid}/status"));
    let text = match host.read(&path) {
        Ok(text) => text,
        Err(Unread::Absent(_)) if pid.is_none() => return Ok(None),
        Err(why) => return Err(why),
    };
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.ok_or_else(|| Unread::Garbage(path.clone(), "Cpus_allowed_list"))?;
    cpu_list(&path, list.trim()).map(Some)
}

fn package(host: &Host, folder: &str) -> Result<usize, Unread> {
    match host.number(&format!("{folder}/topology/physical_package_id")) {
        // Some virtual machines have no packages and report -1.
        Ok(package) => Ok(usize::try_from(package).unwrap_or(0)),
        Err(Unread::Absent(_)) => Ok(0),
        Err(why) => Err(why),
    }
}

fn core(host: &Host, folder: &str) -> Result<Option<usize>, Unread> {
    let siblings = optional(host, &format!("{folder}/topology/thread_siblings_list"))?;
    Ok(siblings.and_then(|siblings| siblings.into_iter().min()))
}

fn l3(host: &Host, folder: &str) -> Result<Option<usize>, Unread> {
    let caches = host.list(&format!("{folder}/cache")).unwrap_or_default();
    for cache in caches.iter().filter(|name| name.starts_with("index")) {
        if host.number(&format!("{folder}/cache/{cache}/level")).is_ok_and(|level| level == 3) {
            let shared = optional(host, &format!("{folder}/cache/{cache}/shared_cpu_list"))?;
            return Ok(shared.and_then(|shared| shared.into_iter().min()));
        }
    }
    Ok(None)
}

fn nic(host: &Host, name: String) -> Nic {
    let folder = format!("/sys/class/net/{name}");
    let node = host.number(&format!("{folder}/device/numa_node")).ok().and_then(|node| usize::try_from(node).ok());
    let queues = host.list(&format!("{folder}/queues")).ok();
    let queues = queues.map(|names| names.iter().filter(|name| name.starts_with("rx-")).count());
    let queues_max = host.ethtool(&name, "l").ok().and_then(|text| crate::ethtool::channels_max(&text));
    Nic { name, node, queues, queues_max }
}
