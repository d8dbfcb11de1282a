//! The server's settings. One table defines the flags, the configuration file, its sample, the docs page and the admin
//! port's text.
//!
//! ```text
//! defaults (table) -> CONFIG.toml -> command line -> Settings -> resolve(Host) -> Plan -> the server
//!                     all faults at once, each with its origin, description and remedy
//! ```
//! Invariants: every setting is in the table. A fault never leaves a partly changed value. If the server reads the
//! output of `sample`, every setting has its default.

pub mod exposure;
pub mod fault;
pub mod file;
pub mod host;
pub mod kinds;
pub mod live;
pub mod namespaces;
pub mod plan;
pub mod prefix;
pub mod remedy;
pub mod settings;
pub mod table;
pub mod text;
pub mod value;

pub use fault::{ConfigFault, Origin};
pub use namespaces::NamespaceSettings;
pub use plan::Plan;
pub use settings::Settings;
