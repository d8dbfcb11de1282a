//! Computes the cost of a request. Rates come from results or a table, prices from a list.
//!
//! ```text
//!   machine,network,tps,usd_hour,usd_month      price list: one row per machine type, prices per hour or per month
//!   + results by machine type                   the measured rate within the objectives
//!   = requests per dollar, dollars per million requests, by price
//!
//!   kind,module_gb,usd_per_gb                   memory list: one row per module
//!   + nodes, as 2xdram:16+2xpmem:128            = gigabytes and dollars of a node
//! ```
//!
//! Lines that begin with `#` are comments. Invariant: a row that cannot be used is an error with its line; no row is
//! skipped silently.

pub mod machines;
pub mod nodes;
pub mod table;

/// Highest number of rows in a list.
pub const ROWS_MAX: usize = 10_000;
/// Largest size of a list in bytes.
pub const LIST_BYTES_MAX: usize = 4 << 20;
