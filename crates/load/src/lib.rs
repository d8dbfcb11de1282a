//! The load generator: which requests are sent, when they are sent, how long the replies take, and the highest rate
//! that meets an SLO.
//!
//! ```text
//!   workload  requests: verbs, keys, sizes, TTLs         schedule  instants: constant, Poisson, bursts, ramp, a trace
//!    dialect  the same from other tools' command lines |
//!        \                                              /
//!         engine    threads, connections, bytes out and in; knows requests only through [`traffic`]
//!         measure   response time from the intended instant, service time from the send; use of the host meanwhile
//!            |
//!         search    trials at rising rates, bisection, confirmation          result  the stored form of a run (JSON)
//!            |
//!         report    terminal, HTML, CSV, HDR logs, Prometheus
//! ```
//!
//! Invariants: a request's response time counts from its intended instant, whatever delays the request. The figures
//! include every request that was due. A run that the generator itself limited is marked as such.
//!
//! # Example
//! ```
//! use gannet_load::schedule::{Intents, SendPlan};
//!
//! // 1,000 requests per second from one thread: one each millisecond, regardless of the previous one.
//! let mut intents = Intents::new(&SendPlan::constant(), 1_000.0, 0, 1, 1);
//! let instants: Vec<u64> = (0..3).map(|_| intents.take_ns()).collect();
//! assert_eq!(instants, [0, 1_000_000, 2_000_000]);
//! ```
#![forbid(unsafe_code)]

pub mod agents;
pub mod clients;
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
