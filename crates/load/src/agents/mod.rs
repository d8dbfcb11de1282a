//! One run on several hosts: an agent on each, and a coordinator that splits the load and joins what was measured.
//!
//! ```text
//!   coordinator (Fleet)                                   agent (Agent), one a host
//!     greeting      version, nonces, proofs of the token    <->  one coordinator at a time
//!     Prepare       its share of the run, the workload file  ->  connections are made
//!                                                            <-  Ready
//!     Clock         rounds; the shortest one counts         <->  what its clock shows
//!     Start         an instant of the agent's own clock      ->  threads start at that instant
//!                   slices with their histograms             <-  Slice, as they become whole
//!     Rate, Stop    as they come                             ->
//!     join          counts of histograms are added           <-  Over: everything that it measured
//!     Alive, every second                                   <->  Alive, twice a second
//! ```
//!
//! The threads of all agents are numbered through, and thread i of n is the same wherever it runs: it has part i of the
//! schedule, of the sequential keys, of the prefill, and draws of its own. So n threads on two hosts ask for what
//! n threads on one would. Connections, the requests of a run that ends by their number, and reconnects are split;
//! `threads` is meant for each agent.
//!
//! A response time is measured on one host by one clock. Clocks matter for one thing, that all begin together; how far
//! an agent may be off is half the shortest round trip, and an agent for which that is too much is refused.
//!
//! The wire: a preamble of [`wire::MAGIC`] and a version, then frames of a length (u32, big-endian) and JSON. Nothing
//! is encrypted; both sides prove that they have the same token without sending it.
//!
//! Invariants: histograms are joined count by count; an agent that is lost stops the run, is named, and what it had
//! reported until then is kept; an agent obeys no peer without the token; frames, peers and waits are bounded.

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
