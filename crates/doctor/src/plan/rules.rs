//! The rules that produce a plan.

use std::collections::BTreeMap;

use super::{CpuPlan, CpuRow, NETWORK_CPUS_MAX, PROCESSES_MAX, Purpose, Role, VERSION, Wanted};
use crate::topology::{Cpu, Topology};

/// Maximum number of CPUs of a host on which no CPU is reserved for the network.
const SHARED_CPUS_MAX: usize = 2;
/// Maximum number of cores of a host on which a single CPU handles the network.
const ONE_NETWORK_CPU_CORES_MAX: usize = 8;
/// Number of cores per network core, on larger hosts.
const CORES_A_NETWORK_CPU: usize = 4;

/// A core with its usable CPUs. The first CPU may get a hot thread.
#[derive(Clone, Debug)]
struct Core {
    cpus: Vec<usize>,
    l3: usize,
    node: usize,
    /// True if the kernel reports the L3 cache; otherwise `l3` is the number of the package.
    is_l3_known: bool,
    /// True if the core's other CPU is treated as a separate core.
    is_half: bool,
    /// True if the kernel runs only explicitly pinned threads on the core (isolcpus).
    is_isolated: bool,
}

/// A thread that gets a core: its process, and its role.
type Thread = (Option<usize>, Role);

struct Planner<'t> {
    topology: &'t Topology,
    wanted: &'t Wanted,
    rows: BTreeMap<usize, CpuRow>,
    notes: Vec<String>,
}

/// Plans the use of the CPUs.
///
/// # Errors
/// One line for each wish that cannot be fulfilled, with a possible value.
pub fn plan(topology: &Topology, wanted: &Wanted) -> Result<CpuPlan, Vec<String>> {
    let usable: Vec<&Cpu> = topology.cpus.iter().filter(|cpu| cpu.is_allowed).collect();
    if usable.is_empty() {
        return Err(vec!["no CPU may be used: the affinity and the control group exclude all online CPUs".to_owned()]);
    }
    let wanted = &within_quota(topology, wanted, usable.len());
    let faults = wrong_wishes(wanted, usable.len());
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut planner = Planner { topology, wanted, rows: BTreeMap::new(), notes: Vec::new() };
    planner.outside();
    planner.quota();
    let pinned = usable.len() > SHARED_CPUS_MAX;
    if pinned {
        planner.apart(&usable)?
    } else {
        planner.shared(&usable)
    };
    Ok(planner.finish(pinned))
}

/// Limits the number of workers to the CPUs that the control group's quota allows, unless the caller chose the number.
/// More workers would use up the quota earlier in each period.
fn within_quota(topology: &Topology, wanted: &Wanted, usable: usize) -> Wanted {
    let paid = topology.quota_cpus.map(|quota| quota as usize).filter(|paid| *paid < usable);
    let workers = paid.map(|paid| paid.saturating_sub(others(wanted)).max(wanted.processes.unwrap_or(1)));
    Wanted { workers: wanted.workers.or(workers), ..wanted.clone() }
}

/// Returns a message for each wish that no topology, or not this topology, can fulfil.
fn wrong_wishes(wanted: &Wanted, usable: usize) -> Vec<String> {
    let mut faults = Vec::new();
    let processes = wanted.processes.unwrap_or(1);
    if processes == 0 || processes > PROCESSES_MAX {
        faults.push(format!("{processes} processes: the number must be 1 to {PROCESSES_MAX}"));
    }
    if wanted.workers.is_some_and(|workers| workers < processes) {
        faults.push(format!("there are fewer workers than processes ({processes}): each process needs at least one"));
    }
    if wanted.queues == Some(0) {
        faults.push("0 queues: an interface has at least one".to_owned());
    }
    let (workers, others) = (wanted.workers.unwrap_or(processes), others(wanted));
    let hot = workers.saturating_add(others);
    if hot > usable {
        let room = usable.saturating_sub(others);
        let what = if others > 0 {
            format!("{workers} workers and {others} other threads")
        } else {
            format!("{workers} workers")
        };
        faults.push(format!("{what} are requested, and {usable} CPUs may be used; name {room} workers or fewer"));
    }
    faults
}

/// Returns the number of hot threads other than workers.
fn others(wanted: &Wanted) -> usize {
    wanted.storage.saturating_mul(wanted.processes.unwrap_or(1)).saturating_add(usize::from(wanted.sampler))
}

impl Planner<'_> {
    fn row(&mut self, cpu: usize, roles: &[Role], why: impl Into<String>) -> &mut CpuRow {
        let row = CpuRow { cpu, roles: roles.to_vec(), process: None, queue: None, why: why.into() };
        self.rows.insert(cpu, row);
        self.rows.get_mut(&cpu).expect("it was just inserted")
    }

    fn outside(&mut self) {
        let outside: Vec<usize> =
            self.topology.cpus.iter().filter(|cpu| !cpu.is_allowed).map(|cpu| cpu.number).collect();
        for cpu in outside {
            self.row(cpu, &[Role::Outside], "the affinity or the control group excludes it");
        }
    }

    fn quota(&mut self) {
        if let Some(quota) = self.topology.quota_cpus {
            self.notes.push(format!(
                "The control group's quota allows {quota:.2} CPUs. Threads that use more are stopped for the rest of \
                 each period, however they are pinned."
            ));
        }
    }

    /// Plans a host of one or two CPUs: every CPU has all roles.
    fn shared(&mut self, usable: &[&Cpu]) {
        let room = usable.len() - others(self.wanted);
        let workers = self.wanted.workers.unwrap_or(room).min(room);
        for (at, cpu) in usable.iter().enumerate() {
            let mut roles = vec![Role::Network, Role::Housekeeping];
            let is_hot = at < workers + others(self.wanted);
            if is_hot {
                let role = if at < workers { Role::Worker } else { self.other_role() };
                roles.insert(0, role);
            }
            let why = "too few CPUs to reserve one for the network";
            self.row(cpu.number, &roles, why).process = is_hot.then_some(at % self.wanted.processes.unwrap_or(1));
        }
        self.notes.push(
            "On one or two CPUs the scheduler places threads as well as a plan does: pin them only if a \
             measurement shows a benefit."
                .to_owned(),
        );
        if let Some(queues) = self.wanted.queues {
            self.notes.push(format!(
                "{queues} queues are requested, but with so few CPUs the plan reserves none for queues."
            ));
        }
    }

    fn other_role(&self) -> Role {
        if self.wanted.sampler { Role::Sampler } else { Role::Storage }
    }

    /// Plans a larger host, on which the network and each hot thread have their own CPUs.
    fn apart(&mut self, usable: &[&Cpu]) -> Result<(), Vec<String>> {
        let mut cores = cores(usable, &self.topology.isolated);
        self.isolated(&cores);
        let network = self.network_cores(cores.len(), usable.len())?;
        let home = self.home(&cores);
        let networks = take_for_network(&mut cores, network, home);
        // The cores nearest to the interface come first. A generator takes cores from the other end of the list, so
        // that it stays away from a server on the same host.
        cores.sort_by_key(|core| (home.is_some_and(|home| core.node != home), core.l3, core.cpus[0]));
        if self.wanted.purpose == Purpose::Generator {
            cores.reverse();
        }
        // Hot threads get isolated cores first.
        cores.sort_by_key(|core| !core.is_isolated);
        let seconds = self.split_if_short(&mut cores);
        let left = self.hot_threads(cores);
        self.rest(&networks, left, seconds);
        let processes = self.wanted.processes.unwrap_or(1);
        let has_worker = |process| self.rows.values().any(|row| row.process == process && row.roles[0] == Role::Worker);
        match (0..processes).find(|process| !has_worker(Some(*process))) {
            None => Ok(()),
            Some(idle) => Err(vec![format!(
                "process {idle} of {processes} would have no CPU for a worker; name fewer processes or storage threads"
            )]),
        }
    }

    /// Adds a note if there are isolated CPUs that this process may not use.
    fn isolated(&mut self, cores: &[Core]) {
        if !self.topology.isolated.is_empty() && cores.iter().all(|core| !core.is_isolated) {
            self.notes.push(format!(
                "CPUs {} are set apart (isolcpus), and the affinity excludes them. To plan threads on them, start the \
                 server with all CPUs, by CPUAffinity= or `taskset -c`.",
                io::affinity::show_cpus(&self.topology.isolated)
            ));
        }
    }

    /// Returns the number of cores for the network.
    fn network_cores(&mut self, cores: usize, usable: usize) -> Result<usize, Vec<String>> {
        let hot = self.wanted.workers.map(|workers| workers + others(self.wanted));
        let least = hot.unwrap_or(self.wanted.processes.unwrap_or(1) + others(self.wanted));
        if let Some(queues) = self.wanted.queues {
            if queues.saturating_add(least) > cores {
                let room = cores.saturating_sub(least);
                return Err(vec![format!(
                    "{queues} queues and {least} threads need {} cores, and {cores} may be used; name {room} queues or \
                     fewer; without a number, threads and network may share cores",
                    queues.saturating_add(least)
                )]);
            }
            return Ok(queues);
        }
        let rule = match cores {
            0..=SHARED_CPUS_MAX => 0,
            3..=ONE_NETWORK_CPU_CORES_MAX => 1,
            _ => cores.div_ceil(CORES_A_NETWORK_CPU).min(NETWORK_CPUS_MAX),
        };
        let network = rule.min(cores.saturating_sub(least));
        if network < rule && cores > SHARED_CPUS_MAX {
            self.notes.push(format!(
                "{least} threads leave {network} of {usable} CPUs to the network, instead of the usual {rule}: the \
                 threads may wait while packets are received."
            ));
        }
        Ok(network)
    }

    /// Returns the memory node of the interface, if the kernel reports it and if it has usable cores.
    fn home(&self, cores: &[Core]) -> Option<usize> {
        let node = self.topology.nic()?.node?;
        cores.iter().any(|core| core.node == node).then_some(node)
    }

    /// If there are more hot threads than cores, treats the second CPUs of cores as separate cores. Returns whether it
    /// did so.
    fn split_if_short(&mut self, cores: &mut Vec<Core>) -> bool {
        let processes = self.wanted.processes.unwrap_or(1);
        let hot = self.wanted.workers.unwrap_or(processes) + others(self.wanted);
        if hot <= cores.len() {
            return false;
        }
        let mut seconds = Vec::new();
        for core in cores.iter_mut() {
            core.is_half = core.cpus.len() > 1;
            for cpu in core.cpus.split_off(1) {
                seconds.push(Core { cpus: vec![cpu], ..core.clone() });
            }
        }
        cores.extend(seconds);
        self.notes.push(format!(
            "{hot} threads are more than the number of cores: some threads share a core, and each of them gets about \
             half of it."
        ));
        true
    }

    /// Assigns a core to every hot thread, with the cores of a process close together. Returns the remaining cores.
    fn hot_threads(&mut self, mut cores: Vec<Core>) -> Vec<Core> {
        let processes = self.wanted.processes.unwrap_or(1);
        if self.wanted.sampler && !cores.is_empty() {
            let core = cores.remove(cores.len() - 1);
            self.row(
                core.cpus[0],
                &[Role::Sampler],
                "separate from the load, so that it measures the effect of the load",
            );
            self.siblings(&core);
        }
        let nodes: Vec<usize> = cores.iter().fold(Vec::new(), |mut nodes, core| {
            if !nodes.contains(&core.node) {
                nodes.push(core.node);
            }
            nodes
        });
        for process in 0..processes {
            let node = nodes[process % nodes.len()];
            let (mates, before) = if self.wanted.workers.is_some() {
                (processes, process)
            } else {
                // If the caller chose no number of workers, each process gets its share of its node's cores.
                let mates = (0..processes).filter(|other| nodes[other % nodes.len()] == node);
                (mates.clone().count(), mates.filter(|other| *other < process).count())
            };
            let share = match self.wanted.workers {
                Some(workers) => workers / mates + usize::from(before < workers % mates) + self.wanted.storage,
                None if processes == 1 => cores.len(),
                None => cores.iter().filter(|core| core.node == node).count() / (mates - before),
            };
            let mine = take_together(&mut cores, share, node);
            let spread = mine.iter().any(|core| core.l3 != mine[0].l3 || !core.is_l3_known);
            let storage_from = mine.len().saturating_sub(self.wanted.storage);
            for (at, core) in mine.iter().enumerate() {
                let role = if at < storage_from { Role::Worker } else { Role::Storage };
                self.hot(core, (Some(process), role), spread);
            }
        }
        cores
    }

    fn hot(&mut self, core: &Core, (process, role): Thread, spread: bool) {
        let alone = match core.cpus.len() {
            1 if core.is_half => "it shares a core with another thread",
            1 => "a core of its own",
            _ => "the first CPU of a core of its own",
        };
        let why = if spread { alone.to_owned() } else { format!("{alone}, in one cache with the others") };
        self.row(core.cpus[0], &[role], why).process = process;
        self.siblings(core);
    }

    fn siblings(&mut self, core: &Core) {
        for cpu in &core.cpus[1..] {
            self.row(*cpu, &[Role::Free], format!("it shares a core with CPU {}, which is hot", core.cpus[0]));
        }
    }

    /// Assigns the CPUs of the network and of housekeeping, and marks the remaining CPUs as free.
    fn rest(&mut self, networks: &[Core], left: Vec<Core>, has_split: bool) {
        let spare: Vec<usize> = left.iter().flat_map(|core| core.cpus.clone()).collect();
        let has_siblings = networks.iter().any(|core| core.cpus.len() > 1);
        for (queue, core) in networks.iter().enumerate() {
            let (roles, why): (&[Role], _) = if spare.is_empty() && !has_siblings {
                (&[Role::Network, Role::Housekeeping], "receives packets, and runs all work that may wait")
            } else {
                (&[Role::Network], "receives packets, and has no other work")
            };
            self.row(core.cpus[0], roles, why).queue = Some(queue);
            for cpu in &core.cpus[1..] {
                self.row(
                    *cpu,
                    &[Role::Housekeeping],
                    format!("it shares a core with CPU {} of the network", core.cpus[0]),
                );
            }
        }
        for (at, cpu) in spare.iter().enumerate() {
            let roles: &[Role] = match (at, networks.is_empty(), has_siblings) {
                (0, true, _) => &[Role::Network, Role::Housekeeping],
                (0, false, false) => &[Role::Housekeeping],
                _ => &[Role::Free],
            };
            self.row(*cpu, roles, "no thread was requested for it");
        }
        if networks.is_empty() && spare.is_empty() {
            self.beside_the_threads(has_split);
        }
    }

    /// Lets the network share CPUs with other work, because no core remains for it.
    fn beside_the_threads(&mut self, has_split: bool) {
        let free: Vec<usize> = self.rows.values().filter(|row| row.roles == [Role::Free]).map(|row| row.cpu).collect();
        let hot: Vec<usize> =
            self.rows.values().filter(|row| row.roles.iter().any(|role| role.is_hot())).map(|row| row.cpu).collect();
        let is_free = !free.is_empty();
        for cpu in if is_free && !has_split { free } else { hot } {
            let row = self.rows.get_mut(&cpu).expect("it was just listed");
            row.roles.retain(|role| *role != Role::Free);
            row.roles.extend([Role::Network, Role::Housekeeping]);
            row.why = if is_free && !has_split {
                format!("{}, but there is no other CPU for the network", row.why)
            } else {
                "every CPU has a thread, so the network shares the CPUs".to_owned()
            };
        }
    }

    fn finish(mut self, pinned: bool) -> CpuPlan {
        let networks: Vec<usize> = self.rows.values().filter(|row| row.queue.is_some()).map(|row| row.cpu).collect();
        let nic = self.topology.nic();
        let most = nic.and_then(|nic| nic.queues_max);
        let queues = (!networks.is_empty()).then(|| networks.len().min(most.unwrap_or(usize::MAX)).max(1));
        let mut steering = Vec::new();
        if let (Some(queues), Some(nic)) = (queues, nic)
            && queues < networks.len()
        {
            steering = networks.clone();
            self.notes.push(format!(
                "{} has at most {queues} queues: the kernel distributes their packets over all {} CPUs of the network.",
                nic.name,
                networks.len()
            ));
            self.rows.values_mut().filter(|row| row.queue.is_some_and(|queue| queue >= queues)).for_each(|row| {
                row.queue = None;
                row.why = "receives packets from another CPU, because the interface has too few queues".to_owned();
            });
        }
        if queues.is_some() && nic.is_none() {
            self.notes.push("No hardware network interface was found, so no queues are planned.".to_owned());
        } else if queues.is_some() && most.is_none() {
            self.notes
                .push("The interface's maximum number of queues is unknown: check it with `ethtool -l`.".to_owned());
        }
        let nodes: Vec<usize> = self.topology.cpus.iter().filter(|cpu| cpu.is_allowed).map(|cpu| cpu.node).collect();
        if pinned && self.wanted.processes.is_none() && nodes.iter().any(|node| *node != nodes[0]) {
            self.notes.push(
                "The CPUs belong to several memory nodes: one process per node (--processes) keeps memory local."
                    .to_owned(),
            );
        }
        CpuPlan {
            version: VERSION,
            purpose: self.wanted.purpose,
            pinned,
            nic: nic.map(|nic| nic.name.clone()),
            queues: queues.filter(|_| nic.is_some()),
            steering,
            cpus: self.rows.into_values().collect(),
            notes: self.notes,
        }
    }
}

/// Returns the cores of usable CPUs, in the order of their first CPU.
fn cores(usable: &[&Cpu], isolated: &[usize]) -> Vec<Core> {
    let mut cores: BTreeMap<usize, Core> = BTreeMap::new();
    for cpu in usable {
        // If the kernel reports no L3 cache, the package is used instead.
        let l3 = cpu.l3.unwrap_or(cpu.package);
        let core = cores.entry(cpu.core).or_insert_with(|| Core {
            cpus: Vec::new(),
            l3,
            node: cpu.node,
            is_l3_known: cpu.l3.is_some(),
            is_half: false,
            is_isolated: isolated.contains(&cpu.number),
        });
        core.cpus.push(cpu.number);
    }
    let mut cores: Vec<Core> = cores.into_values().collect();
    cores.sort_by_key(|core| core.cpus[0]);
    cores
}

/// Removes and returns the network's cores: from the interface's node, or if that is unknown from every node in turn.
/// The lowest CPUs come first, because the kernel does its own work there in any case. Isolated cores come last.
fn take_for_network(cores: &mut Vec<Core>, count: usize, home: Option<usize>) -> Vec<Core> {
    let mut of_node: BTreeMap<usize, usize> = BTreeMap::new();
    let mut order: Vec<(bool, bool, usize, usize, usize)> = Vec::new();
    cores.sort_by_key(|core| (core.l3, core.cpus[0]));
    for (at, core) in cores.iter().enumerate() {
        let turn = of_node.entry(core.node).or_default();
        let away = home.is_some_and(|home| core.node != home);
        order.push((core.is_isolated, away, if home.is_some() { 0 } else { *turn }, core.node, at));
        *turn += 1;
    }
    order.sort_unstable();
    let mut chosen: Vec<usize> = order.into_iter().take(count).map(|(.., at)| at).collect();
    chosen.sort_unstable();
    let mut taken: Vec<Core> = chosen.into_iter().rev().map(|at| cores.remove(at)).collect();
    taken.sort_by_key(|core| core.cpus[0]);
    taken
}

/// Removes and returns cores for one process. Prefers a single cache: of the caches with enough cores, the one with the
/// fewest. Otherwise uses as few caches as possible, those of the process's own node first.
fn take_together(cores: &mut Vec<Core>, count: usize, node: usize) -> Vec<Core> {
    let mut groups: Vec<(usize, bool, usize)> = Vec::new();
    for core in cores.iter() {
        match groups.iter_mut().find(|(l3, _, _)| *l3 == core.l3) {
            Some((_, _, size)) => *size += 1,
            None => groups.push((core.l3, core.node != node, 1)),
        }
    }
    let fits = groups.iter().filter(|(_, away, size)| !away && *size >= count).min_by_key(|(_, _, size)| *size);
    let order: Vec<usize> = match fits {
        Some((l3, _, _)) => vec![*l3],
        None => {
            groups.sort_by_key(|(_, away, size)| (*away, std::cmp::Reverse(*size)));
            groups.iter().map(|(l3, _, _)| *l3).collect()
        }
    };
    let mut taken = Vec::new();
    for l3 in order {
        while taken.len() < count
            && let Some(at) = cores.iter().position(|core| core.l3 == l3)
        {
            taken.push(cores.remove(at));
        }
    }
    taken
}
