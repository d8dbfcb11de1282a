//! What a request costs: rates from results or a table, prices from a list.
//!
//! ```text
//!   machine,network,tps,usd_hour,usd_month      price list: one row a machine type, prices an hour or a month
//!   + results by machine type                   the rate within the objectives that was measured there
//!   = requests for a dollar, dollars for a million requests, by price
//!
//!   kind,module_gb,usd_per_gb                   memory list: one row a module
//!   + nodes, as 2xdram:16+2xpmem:128            = gigabytes and dollars of a node
//! ```
//!
//! Lines that begin with `#` are comments. Invariant: a row that cannot be used is an error with its line, never left
//! out in silence.

pub mod machines;
pub mod nodes;
pub mod table;

/// Rows of a list at most.
pub const ROWS_MAX: usize = 10_000;
/// Bytes of a list at most.
pub const LIST_BYTES_MAX: usize = 4 << 20;
