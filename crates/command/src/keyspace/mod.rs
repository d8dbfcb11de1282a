//! The division of the keys into namespaces, sets and prefixes.
//!
//! ```text
//!   namespaces   terms and figures of each namespace       routes     key prefixes that lead to other namespaces
//!   metadata     persisted metadata of sets and indexes    indexes    secondary indexes of sets
//!   prefixes     counters by prefix                        delayed_flush
//! ```

pub mod delayed_flush;
pub mod figures;
pub mod indexes;
pub mod metadata;
pub mod namespace_config;
pub mod namespaces;
pub mod prefixes;
pub mod routes;
