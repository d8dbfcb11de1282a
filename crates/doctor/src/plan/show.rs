//! Formats a plan as a table, or as configuration for taskset, systemd or Kubernetes.

use std::fmt::Write as _;

use io::affinity::show_cpus;

use super::{CpuPlan, CpuRow, Purpose, Role};
use crate::topology::Topology;

/// The output format of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanFormat {
    /// One line per CPU, with its reason.
    Table,
    /// A shell script.
    Taskset,
    /// A drop-in for a systemd service.
    Systemd,
    /// A part of a pod's specification, and of the kubelet's settings.
    Kubernetes,
}

impl PlanFormat {
    /// All formats, each with its name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("table", Self::Table),
        ("taskset", Self::Taskset),
        ("systemd", Self::Systemd),
        ("kubernetes", Self::Kubernetes),
    ];
}

pub(super) fn text(plan: &CpuPlan, format: PlanFormat, topology: &Topology) -> String {
    match format {
        PlanFormat::Table => table(plan, topology),
        PlanFormat::Taskset => taskset(plan),
        PlanFormat::Systemd => systemd(plan, topology),
        PlanFormat::Kubernetes => kubernetes(plan),
    }
}

fn roles(plan: &CpuPlan, row: &CpuRow) -> String {
    let mut names: Vec<String> = row.roles.iter().map(|role| role.text().to_owned()).collect();
    if let Some(process) = row.process.filter(|_| plan.processes() > 1)
        && !names.is_empty()
    {
        names[0] = format!("{} of process {process}", names[0]);
    }
    let text = names.join(" + ");
    row.queue.map_or_else(|| text.clone(), |queue| format!("queue {queue}: {text}"))
}

fn table(plan: &CpuPlan, topology: &Topology) -> String {
    let lines: Vec<(&CpuRow, String)> = plan.cpus.iter().map(|row| (row, roles(plan, row))).collect();
    let width = lines.iter().map(|(_, roles)| roles.len()).max().unwrap_or(0).max(4);
    let mut text = format!(" CPU  node  core    L3  {:<width$}  why\n", "role");
    for (row, roles) in lines {
        let cpu = topology.cpu(row.cpu);
        let or_dash = |number: Option<usize>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let (node, core) = (or_dash(cpu.map(|cpu| cpu.node)), or_dash(cpu.map(|cpu| cpu.core)));
        let l3 = or_dash(cpu.and_then(|cpu| cpu.l3));
        let _ = writeln!(text, "{:>4}  {node:>4}  {core:>4}  {l3:>4}  {roles:<width$}  {}", row.cpu, row.why);
    }
    let _ = writeln!(text, "\n{}", summary(plan));
    for note in &plan.notes {
        let _ = writeln!(text, "Note: {note}");
    }
    text
}

/// Returns a one-line summary of the plan.
fn summary(plan: &CpuPlan) -> String {
    let (workers, storage) = (plan.cpus_of(Role::Worker).len(), plan.cpus_of(Role::Storage).len());
    let mut text = format!("{workers} workers");
    if storage > 0 {
        let _ = write!(text, " and {storage} storage threads");
    }
    if plan.processes() > 1 {
        let _ = write!(text, " in {} processes", plan.processes());
    }
    text.push_str(if plan.pinned { ", pinned" } else { ", not pinned" });
    let cpus = show_cpus(&plan.cpus_of(Role::Network));
    let is_apart = |row: &CpuRow| row.roles.contains(&Role::Network) && !row.roles.iter().any(|role| role.is_hot());
    let _ = match (&plan.nic, plan.queues) {
        (Some(nic), Some(queues)) => write!(text, "; {queues} queues of {nic} on CPUs {cpus}"),
        _ if plan.cpus.iter().any(is_apart) => write!(text, "; the network on CPUs {cpus}"),
        _ => write!(text, "; the network has no CPU of its own"),
    };
    text + "."
}

/// Formats CPUs as a mask in the kernel's format: words of eight hexadecimal digits, the highest first.
pub(crate) fn mask(cpus: &[usize]) -> String {
    let words = cpus.iter().max().map_or(1, |last| last / 32 + 1);
    let mut mask = vec![0_u32; words];
    for cpu in cpus {
        mask[cpu / 32] |= 1 << (cpu % 32);
    }
    let mut text = format!("{:x}", mask[words - 1]);
    for word in mask[..words - 1].iter().rev() {
        let _ = write!(text, ",{word:08x}");
    }
    text
}

/// Quotes a word if a shell would interpret characters in it.
fn quoted(word: &str) -> String {
    crate::shell::quoted(word)
}

/// Returns the CPU list and the flags of each process's command.
fn commands(plan: &CpuPlan) -> Vec<(String, String)> {
    let mut commands = Vec::new();
    for process in 0..plan.processes() {
        let workers = plan.cpus_of_process(process, Role::Worker);
        let mut cpus = workers.clone();
        cpus.extend(plan.cpus_of_process(process, Role::Storage));
        // The list includes the housekeeping CPUs, for the process's threads that may wait.
        let mut all = cpus.clone();
        all.extend(plan.cpus_of(Role::Housekeeping));
        all.extend(plan.cpus_of(Role::Sampler));
        all.sort_unstable();
        all.dedup();
        let mut flags = match plan.purpose {
            Purpose::Server => format!("serve --workers {}", workers.len()),
            Purpose::Generator => format!("load HOST:PORT --threads {}", workers.len()),
        };
        if plan.pinned {
            let _ = write!(flags, " --pin {}", show_cpus(&workers));
        }
        commands.push((show_cpus(&all), flags));
    }
    commands
}

fn taskset(plan: &CpuPlan) -> String {
    let mut text = "#!/bin/sh\nset -eu\n".to_owned();
    network(plan, &mut text);
    for (cpus, flags) in commands(plan) {
        let _ = writeln!(text, "taskset -c {cpus} gannet {flags} &");
    }
    text.push_str("wait\n");
    notes(plan, &mut text);
    text
}

/// Appends the commands that configure the network interface.
fn network(plan: &CpuPlan, text: &mut String) {
    let (Some(nic), Some(queues)) = (&plan.nic, plan.queues) else { return };
    let _ = writeln!(text, "# The link is interrupted for a moment.\nethtool -L {} combined {queues}", quoted(nic));
    for (queue, row) in plan.cpus.iter().filter_map(|row| Some((row.queue?, row))) {
        let _ =
            writeln!(text, "# The interrupts of queue {queue}, as /proc/interrupts names them, to CPU {}:", row.cpu);
        let _ = writeln!(text, "#   echo {} > /proc/irq/N/smp_affinity_list", row.cpu);
    }
    if !plan.steering.is_empty() {
        for queue in 0..queues {
            let file = format!("/sys/class/net/{nic}/queues/rx-{queue}/rps_cpus");
            let _ = writeln!(text, "echo {} > {}", mask(&plan.steering), quoted(&file));
        }
    }
}

fn notes(plan: &CpuPlan, text: &mut String) {
    for note in &plan.notes {
        let _ = writeln!(text, "# {note}");
    }
}

fn systemd(plan: &CpuPlan, topology: &Topology) -> String {
    let mut text = String::new();
    let commands = commands(plan);
    let many = commands.len() > 1;
    for (process, (cpus, flags)) in commands.into_iter().enumerate() {
        let unit = if many { format!("gannet@{process}") } else { "gannet".to_owned() };
        let _ = writeln!(text, "# /etc/systemd/system/{unit}.service.d/90-plan.conf\n[Service]\nCPUAffinity={cpus}");
        let mut nodes: Vec<usize> = plan
            .cpus_of_process(process, Role::Worker)
            .into_iter()
            .filter_map(|cpu| Some(topology.cpu(cpu)?.node))
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        let is_numa = topology.cpus.iter().any(|cpu| cpu.node != topology.cpus[0].node);
        if is_numa && nodes.len() == 1 {
            let _ = writeln!(text, "NUMAPolicy=bind\nNUMAMask={}", nodes[0]);
        } else if is_numa {
            text.push_str("NUMAPolicy=interleave\nNUMAMask=all\n");
        }
        let _ = writeln!(text, "ExecStart=\nExecStart=/usr/bin/gannet {flags}\n");
    }
    notes(plan, &mut text);
    text
}

fn kubernetes(plan: &CpuPlan) -> String {
    let mut text =
        "# The kubelet gives a container whole CPUs and keeps others off them:\n#   cpuManagerPolicy: static\n\
                    #   cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}   where cores have two CPUs\n#   \
                    topologyManagerPolicy: single-numa-node\n#   reservedSystemCPUs: "
            .to_owned();
    let (network, keeping) = (plan.cpus_of(Role::Network), plan.cpus_of(Role::Housekeeping));
    let mut reserved: Vec<usize> = network.into_iter().chain(keeping).collect();
    reserved.sort_unstable();
    reserved.dedup();
    let hot: Vec<usize> =
        plan.cpus.iter().filter(|row| row.roles.iter().any(|role| role.is_hot())).map(|row| row.cpu).collect();
    reserved.retain(|cpu| !hot.contains(cpu));
    let _ = writeln!(text, "{}", if reserved.is_empty() { "none to spare".to_owned() } else { show_cpus(&reserved) });
    text.push_str(
        "# It numbers the CPUs itself, so the server plans with what it was given: --pin auto.\ncontainers:\n",
    );
    for process in 0..plan.processes() {
        let workers = plan.cpus_of_process(process, Role::Worker).len();
        let cpus = workers + plan.cpus_of_process(process, Role::Storage).len();
        let _ = write!(
            text,
            "- name: gannet-{process}\n  args: [\"serve\", \"--workers\", \"{workers}\", \"--pin\", \"auto\"]\n  \
             # Equal, and whole: else it shares CPUs and has a quota.\n  resources:\n  \
             \x20 requests: {{cpu: \"{cpus}\"}}\n  \
             \x20 limits: {{cpu: \"{cpus}\"}}\n"
        );
    }
    notes(plan, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn a_mask_has_words_as_the_kernel_reads_them() {
        assert_eq!((mask(&[0]), mask(&[0, 1, 2, 3]), mask(&[])), ("1".into(), "f".into(), "0".into()));
        assert_eq!((mask(&[31, 32]), mask(&[64])), ("1,80000000".into(), "1,00000000,00000000".into()));
    }
}
