//! Queries that may touch many edges.
//!
//! A query does its work in slices: each call of `step` touches a bounded number of edges and returns. Between slices
//! the caller leaves its epoch and serves others. A query holds node numbers and no references into the graph, so the
//! graph may change between slices. The answer is then right for each list at the time when the query read it.
//!
//! ```text
//!   begin ──> step ──More──> step ──More──> .. ──Done──> answer, partial if the budget did not suffice
//! ```

pub(crate) mod cursor;
pub(crate) mod distance;
pub(crate) mod inspect;
pub(crate) mod page;
pub(crate) mod path;
pub(crate) mod read;
pub(crate) mod second;
pub(crate) mod second_cache;
pub(crate) mod sets;
pub(crate) mod walk;
