//! The commands `G.*`, which change and query graphs ([`graph`]).
//!
//! ```text
//!   G.ADD ..   ── words ──> EdgeChange, all checked first ──> the graph's writer, some in each visit ──> their number
//!   G.DIST ..  ── words ──> query ──> steps until the slice is used ─┬─ done: reply
//!                                     ^──────── next visit ──────────┴─ not done: state of the session
//! ```
//!
//! Invariants:
//! - A graph is a key only for the rights of users. It is in no namespace, and commands on keys do not affect it.
//! - A request that finds its graph dropped between two visits ends with an error.
//! - A visit stays in one epoch of the graph's reader, and the epoch ends with it. A query holds no reference into the
//!   store between two visits.
//! - A reply is written when the query is complete. Its length is bounded by the limit of the page.

mod change;
mod compound;
mod fault;
mod load;
mod node;
mod operate;
mod query;
mod run;
mod syntax;
mod words;

pub use change::parse_edge_type;
pub(super) use change::{add, archive, declare, del, restore};
pub(super) use compound::query_several;
pub(crate) use fault::PARTS_MAX;
pub use load::encode_attributes;
pub(super) use load::load;
pub(super) use node::node;
pub use node::texts_of;
pub(super) use operate::{compact, drop_graph, figures, segments, snapshot, stats};
pub(crate) use query::LIMIT_MAX;
pub(super) use run::{count, deg2, diff, dist, get, inter, mutual, path, range, suggest, union};
pub use words::attributes_of;
pub(crate) use words::is_reserved_attribute;
