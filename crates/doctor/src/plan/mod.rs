//! The plan: the role of each CPU, with the reason. It is a pure function of the topology and of the wishes.
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
//! | 1, 2 | none of its own, and nothing is pinned unless it was measured to help |
//! | up to 8 cores | one, with housekeeping on it |
//! | more | a quarter, at most [`NETWORK_CPUS_MAX`]; each with one queue |
//!
//! Invariants:
//! - The plan uses only CPUs that are allowed, and gives none two hot threads; a test tries every small topology.
//! - If the first CPU of a core is hot, the second has housekeeping or nothing, unless more threads are wanted than
//!   there are cores.
//! - Equal topologies and wishes yield equal plans.

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

/// The kind of program that is to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// A server.
    #[default]
    Server,
    /// A load generator.
    Generator,
}

/// The caller's wishes. A field that is `None` follows from the topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The kind of program that is to run.
    pub purpose: Purpose,
    /// Worker threads, of all processes together.
    pub workers: Option<usize>,
    /// Number of CPUs that each have a queue of the network interface.
    pub queues: Option<usize>,
    /// Number of processes, 1 if `None`. A process stays within a memory node if possible.
    pub processes: Option<usize>,
    /// Storage threads of each process, beside its workers.
    pub storage: usize,
    /// A generator's sampler, which has a CPU of its own.
    pub sampler: bool,
}

/// The role of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A thread that serves or sends requests.
    Worker,
    /// A thread that owns the data, in servers that have such.
    Storage,
    /// The thread that samples latency beside a load.
    Sampler,
    /// A queue of the network interface: its interrupts and the kernel's work on its packets.
    Network,
    /// Everything else: log, admin port, compaction, other programs.
    Housekeeping,
    /// No work: the CPU is left free.
    Free,
    /// None: the CPU may not be used.
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
    /// The process that owns the CPU's thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<usize>,
    /// The interface's queue on this CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<usize>,
    /// The reason.
    #[serde(default)]
    pub why: String,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuPlan {
    /// The format's version: [`VERSION`].
    pub version: u32,
    /// The kind of program that the plan is for.
    #[serde(default)]
    pub purpose: Purpose,
    /// True if threads are to be bound to their CPUs. On the smallest hosts the scheduler does as well.
    #[serde(default = "yes")]
    pub pinned: bool,
    /// The network interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    /// Number of queues that the interface is to have; `None` leaves it unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<usize>,
    /// CPUs to which packets are passed on (receive packet steering), if there are fewer queues than such CPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steering: Vec<usize>,
    /// Every CPU, ascending.
    pub cpus: Vec<CpuRow>,
    /// Notes for the reader, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

fn yes() -> bool {
    true
}

impl CpuPlan {
    /// Returns the CPUs with a role, ordered by process and then ascending.
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
