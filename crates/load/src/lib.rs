//! The load generator: what is asked, when it is asked, what the answers took, and the highest rate that keeps an SLO.
//!
//! ```text
//!   workload  what to ask: verbs, keys, sizes, TTLs      schedule  when: constant, Poisson, bursts, ramp, a trace
//!    dialect  the same from other tools' command lines |
//!        \                                              /
//!         engine    threads, connections, bytes out and in; knows of a request only what [`traffic`] says
//!         measure   response time from the intended instant, service time from the send; what the host did meanwhile
//!            |
//!         search    trials at rising rates, bisection, confirmation          result  what is kept of a run (JSON)
//!            |
//!         report    terminal, HTML, CSV, HDR logs, Prometheus
//! ```
//!
//! Invariants: a request's response time counts from the instant at which it was meant to be sent, whatever held it up;
//! nothing that was due is left out of the figures; a run that the generator itself limited says so.
//!
//! # Example
//! ```
//! use gannet_load::schedule::{Intents, Plan};
//!
//! // 1,000 requests a second from one thread: one each millisecond, whatever happens to the one before.
//! let mut intents = Intents::new(&Plan::constant(), 1_000.0, 0, 1, 1);
//! let instants: Vec<u64> = (0..3).map(|_| intents.take_ns()).collect();
//! assert_eq!(instants, [0, 1_000_000, 2_000_000]);
//! ```
#![forbid(unsafe_code)]

pub mod agents;
pub mod cost;
pub mod dialect;
pub mod engine;
pub mod fake;
pub mod measure;
pub mod report;
pub mod result;
pub mod schedule;
pub mod search;
pub mod selftest;
pub mod session;
pub mod timeline;
pub mod traffic;
pub mod workload;
