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
pub mod file;
pub mod key;
pub mod model;
pub mod place;
pub mod prefill;
pub mod presets;
pub mod source;
pub mod units;
mod validate;
pub mod value;

pub use fault::{FaultPlace, WorkloadFault};
pub use model::{KeyCommand, KeySpace, Order, Pace, Placement, Protocol, Sizes, Verb, Workload};
pub use prefill::Prefill;
pub use source::RequestSource;
