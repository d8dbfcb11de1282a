//! Finds the causes of tail latency on a Linux host, explains them, and names the remedies. It works for the process of
//! any server.
//!
//! ```text
//!   Host      files below a root: the machine's own, or a tree that was captured or written for a test
//!     │          settings are read once, counters twice; a file may be absent
//!     v
//!   Check     texts: the files it reads, the mechanism, the remedy, its undo; and a probe: Host -> ProbeResult
//!     v
//!   Finding   a verdict: ok, warn, bad, or cannot tell (with the reason); the worst come first
//!     v
//!   Report    text that is read in a minute, or JSON with a schema; two reports can be compared
//! ```
//!
//! Invariants:
//! - A file that could not be read never counts as fine. If a file is absent, unreadable or malformed, its check has
//!   the verdict "cannot tell" with the file's name, and the other checks still run. A test runs every check on an
//!   empty tree.
//! - Only [`tune`] and [`lab`] change anything. Text that was read is never executed. A file longer than
//!   [`host::FILE_BYTES_MAX`], or a folder with more than [`host::ENTRIES_MAX`] entries, is not read
//!   at all, and is reported as unread.
//! - Tests run each check on three trees: a host without the problem, a host with it, and a tree without the files that
//!   the check reads (`tests/checks.rs`).
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
