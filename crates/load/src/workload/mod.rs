//! Workloads: the requests to a server, as plain data, as files, as presets, and as drawn requests.
//!
//! ```text
//!   TOML file  ->  file  --\
//!   preset     ->  file  ---+->  Workload  --validate-->  Source  (one per thread; a crate::traffic::Traffic)
//!   flags, other tools    --/                               draw: keys and lengths   key, value: their bytes
//! ```
//!
//! Invariants: one seed gives one sequence of requests. All properties of a key follow from its number. A validated
//! workload never draws an invalid request.

pub mod draw;
pub mod fault;
pub mod file;
pub mod graph;
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
