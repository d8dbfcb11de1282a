//! Reads back a plan that a person has edited, and checks it against the host.

use std::collections::HashMap;

use super::{CpuPlan, CpuRow, Role, VERSION};
use crate::topology::Topology;

/// A plan that is valid on this host.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The plan.
    pub plan: CpuPlan,
    /// Warnings about the valid plan, each with its line.
    pub doubts: Vec<String>,
}

/// Reads a plan as [`CpuPlan::json`] writes it, and checks it.
///
/// # Errors
/// All parts of the plan that are invalid on this host, each with its line and CPU. If the text is not a plan: the line
/// at which parsing fails.
pub fn check(text: &str, topology: &Topology) -> Result<Checked, Vec<String>> {
    let plan: CpuPlan = serde_json::from_str(text).map_err(|error| vec![no_plan(&error)])?;
    if plan.version != VERSION {
        let version = plan.version;
        return Err(vec![format!("the plan has version {version}, but this program reads version {VERSION}")]);
    }
    let lines = cpu_lines(text);
    let mut checker = Checker { plan: &plan, topology, lines: &lines, faults: Vec::new(), doubts: Vec::new() };
    checker.rows();
    checker.queues();
    checker.cores();
    checker.whole();
    let Checker { faults, doubts, .. } = checker;
    if faults.is_empty() { Ok(Checked { plan, doubts }) } else { Err(faults) }
}

fn no_plan(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    format!("line {}: this is not a plan: {what}; `gannet doctor plan --json` writes one", error.line())
}

/// Returns the numbers of the lines with the key `cpu`, in order: one for each CPU of the plan.
fn cpu_lines(text: &str) -> Vec<usize> {
    let (mut lines, mut line) = (Vec::new(), 1);
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte == b'\n' {
            line += 1;
        }
        if byte != b'"' {
            continue;
        }
        let mut word = Vec::new();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => break,
                b'\\' => word.extend(bytes.next()),
                byte => word.push(byte),
            }
        }
        while bytes.next_if(|byte| matches!(byte, b' ' | b'\t' | b'\r')).is_some() {}
        if word == b"cpu" && bytes.peek() == Some(&b':') {
            lines.push(line);
        }
    }
    lines
}

struct Checker<'p> {
    plan: &'p CpuPlan,
    topology: &'p Topology,
    lines: &'p [usize],
    faults: Vec<String>,
    doubts: Vec<String>,
}

fn is_hot(row: &CpuRow) -> bool {
    row.roles.iter().any(|role| role.is_hot())
}

impl Checker<'_> {
    fn place(&self, at: usize) -> String {
        let line = self.lines.get(at).map_or_else(|| "?".to_owned(), usize::to_string);
        format!("line {line}: CPU {}", self.plan.cpus[at].cpu)
    }

    fn fault(&mut self, at: usize, what: &str) {
        self.faults.push(format!("{}{what}", self.place(at)));
    }

    fn doubt(&mut self, at: usize, what: &str) {
        self.doubts.push(format!("{}{what}", self.place(at)));
    }

    /// Checks each row by itself.
    fn rows(&mut self) {
        let mut seen: HashMap<usize, usize> = HashMap::new();
        for (at, row) in self.plan.cpus.iter().enumerate() {
            if let Some(first) = seen.insert(row.cpu, at) {
                let line = self.lines.get(first).copied().unwrap_or(0);
                self.fault(at, &format!(" occurs twice, first on line {line}; remove one"));
                continue;
            }
            let is_used = row.roles.iter().any(|role| !matches!(role, Role::Free | Role::Outside));
            match self.topology.cpu(row.cpu) {
                None => self.fault(at, " is not on this host, or is off; `gannet doctor plan` lists those that are"),
                Some(cpu) if !cpu.is_allowed && is_used => {
                    self.fault(at, " may not be used: the affinity or the control group excludes it");
                }
                Some(_) => {}
            }
            if row.roles.is_empty() {
                self.fault(at, " has no role; write \"free\" if it has no work");
            }
            if row.roles.iter().filter(|role| role.is_hot()).count() > 1 {
                self.fault(at, " has two threads that must not wait; give each its own CPU");
            } else if self.plan.pinned && is_hot(row) && row.roles.len() > 1 {
                self.doubt(at, " has a hot thread beside other work: the thread waits for it");
            }
        }
    }

    fn queues(&mut self) {
        let mut seen: HashMap<usize, usize> = HashMap::new();
        let most = self.topology.nic().and_then(|nic| nic.queues_max);
        for (at, row) in self.plan.cpus.iter().enumerate() {
            let Some(queue) = row.queue else { continue };
            if let Some(first) = seen.insert(queue, at) {
                let other = self.plan.cpus[first].cpu;
                self.fault(at, &format!(": queue {queue} is CPU {other}'s already; a queue has one CPU"));
            }
            if most.is_some_and(|most| queue >= most) {
                let most = most.unwrap_or(0);
                self.fault(
                    at,
                    &format!(": there is no queue {queue}; the interface has at most {most}, numbered from 0"),
                );
            } else if self.plan.queues.is_some_and(|queues| queue >= queues) {
                self.fault(at, &format!(": queue {queue} is beyond the plan's \"queues\"; raise \"queues\""));
            }
            if !row.roles.contains(&Role::Network) {
                self.fault(at, ": it has a queue, but not the role \"network\"");
            }
        }
    }

    /// Checks the rows whose CPUs share a core.
    fn cores(&mut self) {
        let mut hot: HashMap<usize, usize> = HashMap::new();
        for (at, row) in self.plan.cpus.iter().enumerate().filter(|(_, row)| is_hot(row)) {
            let Some(cpu) = self.topology.cpu(row.cpu) else { continue };
            match hot.insert(cpu.core, row.cpu) {
                Some(other) if other != row.cpu => {
                    self.doubt(at, &format!(" shares a core with CPU {other}, which has a hot thread too"));
                }
                _ => {}
            }
        }
    }

    fn whole(&mut self) {
        let processes = self.plan.processes();
        if processes > super::PROCESSES_MAX {
            self.faults.push(format!(
                "process {}: the highest allowed number is {}",
                processes - 1,
                super::PROCESSES_MAX - 1
            ));
            return;
        }
        if self.plan.cpus_of(Role::Worker).is_empty() {
            self.faults.push("no CPU has the role \"worker\": nothing would serve".to_owned());
            return;
        }
        for process in 0..processes {
            let mine = self.plan.cpus.iter().any(|row| row.process == Some(process));
            if processes > 1 && !mine {
                self.faults.push(format!("process {process} has no CPU; number the processes from 0 on without a gap"));
            }
        }
        if let (Some(queues), Some(most)) = (self.plan.queues, self.topology.nic().and_then(|nic| nic.queues_max))
            && queues > most
        {
            self.faults.push(format!("\"queues\" is {queues}; the interface has at most {most}"));
        }
        for cpu in &self.plan.steering {
            if !self.topology.cpu(*cpu).is_some_and(|cpu| cpu.is_allowed) {
                self.faults.push(format!("\"steering\": CPU {cpu} may not be used"));
            }
        }
        let names = |nic: &String| self.topology.nics.iter().any(|other| other.name == *nic);
        if let Some(nic) = self.plan.nic.as_ref().filter(|nic| !names(nic)) {
            self.faults.push(format!("\"nic\": there is no interface {nic:?} with hardware behind it"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::cpu_lines;

    #[test]
    fn only_the_key_of_a_row_counts_as_its_line() {
        let text = "{\"a\": \"cpu\",\n\"why\": \"\\\"cpu\\\": 3\",\n \"cpu\" : 3, \"x\": {\n\"cpu\":4}}";
        assert_eq!(cpu_lines(text), [3, 4]);
    }
}
