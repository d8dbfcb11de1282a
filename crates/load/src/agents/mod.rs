//! One load run on several hosts: an agent on each host, and a coordinator that splits the load and joins the
//! measurements.
//!
//! ```text
//!   coordinator (Fleet)                                   agent (Agent), one per host
//!     greeting      version, nonces, proofs of the token    <->  one coordinator at a time
//!     Prepare       its share of the run, the workload file  ->  connections are made
//!                                                            <-  Ready
//!     Clock         rounds; the shortest one counts         <->  the reading of its clock
//!     Start         an instant of the agent's own clock      ->  threads start at that instant
//!                   slices with their histograms             <-  Slice, as each is complete
//!     Rate, Stop    when the user asks for them              ->
//!     join          counts of histograms are added           <-  Over: all its measurements
//!     Alive, every second                                   <->  Alive, twice a second
//! ```
//!
//! The threads of all agents have consecutive numbers, and thread i of n does the same work on any host. It has part i
//! of the schedule, of the sequential keys and of the prefill, and its own random draws. So n threads on two hosts send
//! the same requests as n threads on one host. Connections, reconnects and the number of requests of a run are divided
//! among the agents; `threads` is the number of threads per agent.
//!
//! One host measures a response time with one clock. Clock offsets matter only for the common start. The error of an
//! agent's start is at most half the shortest round trip. The coordinator refuses an agent whose error may exceed the
//! limit.
//!
//! Wire format: a preamble of [`wire::MAGIC`] and a version, then frames of a length (u32, big-endian) and JSON.
//! Nothing is encrypted. Both sides prove that they have the same token without sending it.
//!
//! Invariants: histograms are joined count by count. Losing an agent stops the run; the result names the agent and
//! includes what it had reported. An agent obeys only peers that have the token. Frames, peers and waits are bounded.

mod agent;
pub mod clock;
mod fleet;
mod greet;
mod join;
mod split;
#[cfg(test)]
mod tests;
pub mod wire;

pub use agent::Agent;
pub use fleet::{AGENTS_MAX, Fleet, FleetLimits};
pub use wire::AgentRequests;
