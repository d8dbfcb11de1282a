//! Queries over records: conditions on bins, and the order of an index.

mod filter;
mod index;

pub use filter::{FILTER_BYTES_MAX, Filter, FilterError};
pub use index::{Index, IndexFull, IndexPosting, IndexType};
