//! The commands of all protocols: sessions, users and rights, push messages, figures of clients.
//!
//! ```text
//!   worker ── bytes ──┬─> memcache::serve ── protocol::memcache::parse ──┬─> segment::Guard ──> replies into
//!   OutBuffer         └─> resp::serve ────── protocol::resp::Parser ─────┘
//! ```
//!
//! A listener has one protocol, and each of its connections has the state of that protocol ([`session::SessionState`]).
//! A protocol's `serve` never blocks. When it cannot continue, it returns the reason as a
//! [`visit::progress::SessionWait`]. The worker then calls it again later with the same bytes. All state that the next
//! call needs is in the session state.
//!
//! This crate never opens a socket, starts a thread or sends a reply; the server does that. Commands call the server
//! only through [`host::Host`].
//!
//! The modules, from the lowest to the highest:
//!
//! ```text
//!   visit, memory      the resources of one visit: clock, pace, room for replies; memory that clients hold
//!   metrics            counters, latencies, hot keys
//!   clients            users of the server, connections
//!   keyspace           keys by namespace, set and prefix
//!   push               messages that a client did not request
//!   host, config       the services and settings that commands need from the server
//!   shared, context    the state of all workers, and the state of one worker
//!   lookup             lookups in groups, long values, values on flash, for both protocols
//!   memcache, resp     the commands of memcached and Redis
//!   grpc               the calls of gRPC, by Redis commands
//!   session, handover  the state of one connection, and its form during a handover to another process
//! ```
#![forbid(unsafe_code)]

pub mod clients;
pub mod config;
pub mod context;
pub(crate) mod glob;
pub mod grpc;
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
