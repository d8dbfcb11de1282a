//! Workloads: what is asked of a server, as plain data, as files, as presets, and as the requests drawn from it.
//!
//! ```text
//!   TOML file  ->  file  --\
//!   preset     ->  file  ---+->  Workload  --validate-->  Source  (one a thread; a crate::traffic::Traffic)
//!   flags, other tools    --/                               draw: which key, how long   key, value: their bytes
//! ```
//!
//! Invariants: one seed gives one sequence of requests; everything about a key follows from its number; a workload that
//! was validated draws nothing illegal.

pub mod draw;
pub mod fault;
pub mod key;
pub mod model;
pub mod place;
pub mod units;
pub mod value;
