//! The keys as namespaces, sets and prefixes divide them.
//!
//! ```text
//!   namespaces   terms and figures of each namespace       routes     prefixes whose keys belong to another one
//!   metadata     what sets and indexes keep in the store   indexes    secondary indexes of sets
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
