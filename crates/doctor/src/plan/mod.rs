//! The CPU plan: the role of each CPU, with the reason. It depends only on the topology and on the caller's wishes.
//!
//! ```text
//!   16 CPUs of one node, 16 queues at most, 2 processes of 5 workers and a storage thread each:
//!
//!   CPU    0    1    2    3    4    5    6    7    8    9    10   11   12   13   14   15
//!          q0   q1   q2   q3   w    w    w    w    w    s    w    w    w    w    w    s
//!         └─ network, and ───┘└──── process 0 ───────────┘└──── process 1 ─────────────┘
//!            housekeeping
//! ```
//!
//! | CPUs | for the network |
//! |---|---|
//! | 1, 2 | none; threads are not pinned by default |
//! | up to 8 cores | one, shared with housekeeping |
//! | more | a quarter of the cores, at most [`NETWORK_CPUS_MAX`], each with one queue |
//!
//! Invariants:
//! - The plan uses only allowed CPUs, and never puts two hot threads on one CPU. A test tries every small topology.
//! - If the first CPU of a core has a hot thread, the second CPU has housekeeping or no work, unless there are more hot
//!   threads than cores.
//! - Equal topologies with equal wishes give equal plans.

mod edited;
mod measured;
mod rules;
mod show;

use serde::{Deserialize, Serialize};

use crate::topology::Topology;

pub use edited::{Checked, check};
pub use measured::measured;
pub use rules::plan;
pub use show::PlanFormat;
pub(crate) use show::mask;

/// The version of the JSON format, raised when the meaning changes.
pub const VERSION: u32 = 1;
/// Maximum number of CPUs for the network.
pub const NETWORK_CPUS_MAX: usize = 8;
/// Maximum number of processes.
pub const PROCESSES_MAX: usize = 64;

/// The kind of program that the plan is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// A server.
    #[default]
    Server,
    /// A load generator.
    Generator,
}

/// The caller's wishes. The planner chooses the value of a field that is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The kind of program that the plan is for.
    pub purpose: Purpose,
    /// Number of worker threads of all processes together.
    pub workers: Option<usize>,
    /// Number of CPUs that each have a queue of the network interface.
    pub queues: Option<usize>,
    /// Number of processes; 1 if `None`. A process stays within one memory node if possible.
    pub processes: Option<usize>,
    /// Number of storage threads of each process, in addition to its workers.
    pub storage: usize,
    /// True to reserve a CPU for a load generator's sampler.
    pub sampler: bool,
}

/// The role of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A thread that serves or sends requests.
    Worker,
    /// A storage thread, which owns the data, in servers with such threads.
    Storage,
    /// The thread that samples latency while other threads generate load.
    Sampler,
    /// A queue of the network interface: its interrupts and the kernel's work on its packets.
    Network,
    /// Everything else: log, admin port, compaction, other programs.
    Housekeeping,
    /// No work: the CPU is left free.
    Free,
    /// No role: the process may not use the CPU.
    Outside,
}

impl Role {
    /// Returns the role's printed name.
    pub fn text(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Storage => "storage",
            Self::Sampler => "sampler",
            Self::Network => "network",
            Self::Housekeeping => "housekeeping",
            Self::Free => "free",
            Self::Outside => "outside",
        }
    }

    /// Returns true if a thread that must not wait is pinned to a CPU with this role.
    pub fn is_hot(self) -> bool {
        matches!(self, Self::Worker | Self::Storage | Self::Sampler)
    }
}

/// A CPU with its roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuRow {
    /// The CPU's number.
    pub cpu: usize,
    /// The CPU's roles. Only network and housekeeping share a CPU, except on hosts of one or two CPUs.
    pub roles: Vec<Role>,
    /// The number of the process whose thread is on this CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<usize>,
    /// The interface's queue that this CPU serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<usize>,
    /// The reason for the roles.
    #[serde(default)]
    pub why: String,
}

/// A plan: the roles of all CPUs, and the network interface's queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuPlan {
    /// The format's version: [`VERSION`].
    pub version: u32,
    /// The kind of program that the plan is for.
    #[serde(default)]
    pub purpose: Purpose,
    /// True if threads should be pinned to their CPUs. On the smallest hosts the scheduler places them equally well.
    #[serde(default = "yes")]
    pub pinned: bool,
    /// The name of the network interface, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    /// Number of queues to set for the interface; `None` leaves the number unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<usize>,
    /// CPUs for receive packet steering, if the interface has fewer queues than the network has CPUs; otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steering: Vec<usize>,
    /// All CPUs, in ascending order.
    pub cpus: Vec<CpuRow>,
    /// Notes for the reader, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

fn yes() -> bool {
    true
}

impl CpuPlan {
    /// Returns the CPUs with a role, ordered by process and then by number.
    pub fn cpus_of(&self, role: Role) -> Vec<usize> {
        let mut rows: Vec<&CpuRow> = self.cpus.iter().filter(|row| row.roles.contains(&role)).collect();
        rows.sort_by_key(|row| (row.process, row.cpu));
        rows.into_iter().map(|row| row.cpu).collect()
    }

    /// Returns the number of processes that have threads.
    pub fn processes(&self) -> usize {
        self.cpus.iter().filter_map(|row| row.process).max().map_or(1, |last| last.saturating_add(1))
    }

    /// Returns the CPUs of one process with a role.
    pub fn cpus_of_process(&self, process: usize, role: Role) -> Vec<usize> {
        let of = |row: &&CpuRow| row.process == Some(process) && row.roles.contains(&role);
        self.cpus.iter().filter(of).map(|row| row.cpu).collect()
    }

    /// Returns the plan as JSON, with a line end. [`check`] reads it back.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan is plain JSON") + "\n"
    }

    /// Returns the plan as text.
    pub fn text(&self, format: PlanFormat, topology: &Topology) -> String {
        show::text(self, format, topology)
    }
}
