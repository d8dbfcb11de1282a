//! Bulk loads: edges from files, in batches that are written as leaves and not as one change at a time.
//!
//! ```text
//!   bytes ──EdgeReader──> edges ──push──> BulkBatch ──BulkWriter::begin──> steps ──finish──> report
//!
//!   number   the nodes of the edges get numbers, in the order of the edges
//!   sort     one entry for each list that has the edge, by list and node number
//!   check    edges of lists that might exceed their cap are deferred
//!   log      one edge record for each edge
//!   lists    the entries of a leaf are merged into it at once
//!   deferred edges that might exceed a cap are applied one at a time
//!   release  the edge records are dead
//! ```
//!
//! A batch is repeatable, not atomic. After a restart amid a batch, each of its edges is in the lists of both
//! directions or in none, because the restart replays edge records that a list lacks. The caller loads the batch
//! again: edges that are present already have no effect.

pub(crate) mod batch;
pub(crate) mod parse;
pub(crate) mod sort;
pub(crate) mod write;
