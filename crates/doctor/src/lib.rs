//! Finds the causes of latency tails on a Linux host, explains them, and names the remedies. For any server's process.
//!
//! ```text
//!   Host      files below a root: the machine's own, or a tree that was captured or written for a test
//!     │          read once, twice some time apart (counters), or absent
//!     v
//!   Check     data: what it reads, the mechanism, the remedy, its undo; and a probe: Host -> Seen
//!     v
//!   Finding   ok, warn, bad, or cannot tell (and why); worst first
//!     v
//!   Report    text of a minute's reading, or JSON with a schema; two reports of two hosts side by side
//! ```
//!
//! Invariants:
//! - A file that was not read never counts as fine. If a file is absent, refused or garbage, its check has the verdict
//!   "cannot tell" with the file's name, and the other checks go on. A test runs every check on an empty tree.
//! - Only [`tune`] and [`lab`] change anything. Text that was read is never executed. A file longer than
//!   [`host::FILE_BYTES_MAX`], or a folder with more than [`host::ENTRIES_MAX`] entries, is not read in part: it is
//!   reported as not read.
//! - Each check has a tree on which it is fine, one on which it is not, and one without its files (`tests/checks.rs`).
#![forbid(unsafe_code)]

pub mod bundle;
pub mod check;
pub mod checks;
pub mod counters;
pub mod diff;
mod ethtool;
mod groups;
pub mod host;
pub mod lab;
mod metadata;
mod netlink;
pub mod plan;
pub mod prove;
pub mod report;
mod shell;
pub mod topology;
pub mod tune;

pub use check::{Check, Finding, Verdict, run};
pub use host::{CheckTarget, Host, OptInActions};
pub use plan::{CpuPlan, Wanted};
pub use report::Report;
pub use topology::Topology;
