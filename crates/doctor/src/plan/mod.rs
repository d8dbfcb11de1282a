//! The plan: which CPU does what, and why. A pure function of the topology and of what is wanted.
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
//! - No CPU is planned that may not be used, and none has two hot threads; a test tries every small topology.
//! - The second CPU of a core whose first one is hot has housekeeping or nothing, unless more threads are asked for
//!   than there are cores.
//! - The same topology and wishes make the same plan.

mod edited;
mod measured;
mod rules;
mod show;

use serde::{Deserialize, Serialize};

use crate::topology::Topology;

pub use edited::{Checked, check};
pub use measured::measured;
pub use rules::plan;
pub use show::Format;
pub(crate) use show::mask;

/// Raised when the JSON's meaning changes.
pub const VERSION: u32 = 1;
/// CPUs for the network at most.
pub const NETWORK_CPUS_MAX: usize = 8;
/// Processes at most.
pub const PROCESSES_MAX: usize = 64;

/// What is to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// A server.
    #[default]
    Server,
    /// A load generator.
    Generator,
}

/// What is wished for; what is `None` follows from the topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// What is to run.
    pub purpose: Purpose,
    /// Worker threads, of all processes together.
    pub workers: Option<usize>,
    /// CPUs with a queue of the network interface each.
    pub queues: Option<usize>,
    /// Processes. Without it one; a process stays within a memory node where it can.
    pub processes: Option<usize>,
    /// Storage threads of each process, beside its workers.
    pub storage: usize,
    /// A generator's sampler, which has a CPU of its own.
    pub sampler: bool,
}

/// What a CPU does.
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
    /// Nothing: it is left free.
    Free,
    /// It may not be used.
    Outside,
}

impl Role {
    /// As it is printed.
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

    /// A thread that must not wait is pinned to it.
    pub fn is_hot(self) -> bool {
        matches!(self, Self::Worker | Self::Storage | Self::Sampler)
    }
}

/// A CPU and what it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The CPU's number.
    pub cpu: usize,
    /// What it does; several only of the network and housekeeping, and on hosts of one or two CPUs.
    pub roles: Vec<Role>,
    /// The process whose thread it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<usize>,
    /// The interface's queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<usize>,
    /// Why.
    #[serde(default)]
    pub why: String,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`VERSION`].
    pub version: u32,
    /// What it is for.
    #[serde(default)]
    pub purpose: Purpose,
    /// Threads are to be bound to their CPUs. On the smallest hosts the scheduler does as well.
    #[serde(default = "yes")]
    pub pinned: bool,
    /// The network interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    /// Queues that it is to have; without it, as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<usize>,
    /// CPUs that packets are handed on to (receive packet steering), where queues are fewer than they.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steering: Vec<usize>,
    /// Every CPU, ascending.
    pub cpus: Vec<Row>,
    /// What one should know, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

fn yes() -> bool {
    true
}

impl Plan {
    /// The CPUs that have a role: a process's before the next one's, each ascending.
    pub fn cpus_of(&self, role: Role) -> Vec<usize> {
        let mut rows: Vec<&Row> = self.cpus.iter().filter(|row| row.roles.contains(&role)).collect();
        rows.sort_by_key(|row| (row.process, row.cpu));
        rows.into_iter().map(|row| row.cpu).collect()
    }

    /// Processes that have threads.
    pub fn processes(&self) -> usize {
        self.cpus.iter().filter_map(|row| row.process).max().map_or(1, |last| last.saturating_add(1))
    }

    /// The CPUs of a process that have a role.
    pub fn cpus_of_process(&self, process: usize, role: Role) -> Vec<usize> {
        let of = |row: &&Row| row.process == Some(process) && row.roles.contains(&role);
        self.cpus.iter().filter(of).map(|row| row.cpu).collect()
    }

    /// As JSON, with a line end; [`check`] reads it back.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan is plain JSON") + "\n"
    }

    /// As text.
    pub fn text(&self, format: Format, topology: &Topology) -> String {
        show::text(self, format, topology)
    }
}
