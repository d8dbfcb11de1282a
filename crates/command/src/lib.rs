//! What every command of every protocol does: sessions, users and rights, push messages, figures of clients.
//!
//! ```text
//!   worker ── bytes ──┬─> memcache::serve ── protocol::memcache::parse ──┬─> segment::Guard ──> replies into
//!   OutBuffer         └─> resp::serve ────── protocol::resp::Parser ─────┘
//! ```
//!
//! A listener has one protocol, and each of its connections that protocol's state ([`session::SessionState`]). A
//! protocol's `serve` never waits. When it cannot continue, it returns the reason as a [`visit::progress::State`], and
//! the worker calls it again with the same bytes. What it must remember until then is in its session state.
//!
//! It never opens a socket, starts a thread or sends a reply: the server does, and commands reach the server through
//! [`host::Host`] alone.
//!
//! Where things are, from the lowest to the highest:
//!
//! ```text
//!   visit, memory      what a worker lends for one visit: clock, pace, room for replies; memory that clients hold
//!   metrics            counters, latencies, hot keys
//!   clients            users of the server, connections
//!   keyspace           keys by namespace, set and prefix
//!   push               messages that a client did not request
//!   host, config       what commands ask of the server
//!   shared, context    what all workers share, and what one worker has
//!   lookup             lookups in groups, long values, values on flash, for both protocols
//!   memcache, resp     the two protocols' commands
//!   session, handover  one connection's state, and its form between two processes
//! ```
#![forbid(unsafe_code)]

pub mod clients;
pub mod config;
pub mod context;
pub(crate) mod glob;
pub mod handover;
pub mod host;
pub mod keyspace;
pub mod lookup;
pub mod memcache;
pub mod memory;
pub mod metrics;
pub mod push;
pub mod resp;
pub mod session;
pub mod shared;
pub mod visit;
