//! What every command of every protocol does: sessions, users and rights, push messages, figures of clients.
//!
//! ```text
//!   worker ── bytes ──┬─> memcache::serve ── protocol::memcache::parse ──┬─> segment::Guard ──> replies into
//!   OutBuffer         └─> resp::serve ────── protocol::resp::Parser ─────┘
//! ```
//!
//! A listener has one protocol, and each of its connections that protocol's state ([`session::SessionState`]). A
//! protocol's `serve` never waits. When it cannot continue, it returns the reason as a [`context::State`], and the
//! worker calls it again with the same bytes. What it must remember until then is in its session state.
//!
//! It never opens a socket, starts a thread or sends a reply: the server does, and commands reach the server through
//! [`host::Host`] alone.
//!
//! Where things are:
//!
//! ```text
//!   session, carried        one connection's state, and its form between two processes
//!   memcache, resp          the two protocols' commands
//!   run, ahead              lookups in groups, for both protocols
//!   flash, large, values    reads from flash, long values, text of values, for both protocols
//!   context, pace, clock, out     what a worker lends to a command: state, its share of work, time, room for replies
//!   shared, host, config    what all commands share, and what they ask of the server
//!   auth, resp::acl         users and rights
//!   namespaces, routes, prefixes, metadata, indexes   keys by namespace, set and prefix
//!   mail, notify, watch     messages that a client did not request
//!   metrics, counters, hot_keys, connection_table     what is measured and listed
//! ```
#![forbid(unsafe_code)]

mod ahead;
pub mod auth;
pub mod background;
pub mod budget;
pub mod carried;
pub mod client_info;
pub mod clock;
pub mod command_counters;
pub mod config;
pub mod connection_table;
pub mod context;
pub mod counters;
pub mod delayed_flush;
mod flash;
pub mod host;
pub mod hot_keys;
pub mod indexes;
mod large;
pub mod mail;
pub mod memcache;
pub mod metadata;
pub mod metrics;
pub mod namespaces;
pub mod notify;
pub mod out;
pub mod pace;
pub mod pins;
pub mod prefixes;
pub mod resp;
pub mod routes;
mod run;
pub mod session;
pub mod shared;
pub mod survey;
mod values;
pub mod watch;
