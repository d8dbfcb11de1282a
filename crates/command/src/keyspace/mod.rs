//! The modules that assign keys to namespaces, record sets and key prefixes.
//!
//! ```text
//!   namespaces   terms and figures of each namespace       routes     key prefixes that select another namespace
//!   metadata     persisted metadata of sets and indexes    indexes    secondary indexes of sets
//!   databases    the namespace of each database of Redis    op_quota    operations per second
//!   prefixes     counters by key prefix                    delayed_flush   flushes at a later instant
//!   graphs       the graph store
//! ```

pub mod databases;
pub mod delayed_flush;
pub mod figures;
pub mod graph_commits;
pub mod graphs;
pub mod indexes;
pub mod libraries;
pub mod metadata;
pub mod namespace_config;
pub mod namespaces;
pub(crate) mod op_quota;
pub mod prefixes;
pub mod routes;
pub mod scripts;
