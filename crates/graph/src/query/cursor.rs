//! Cursors: the place where the next page of a query begins.
//!
//! ```text
//!   bits 96-127  hash of the query, never 0      bits 32-79  time, for pages in time order      bits 0-31  node number
//! ```
//!
//! A cursor names an edge and not an index, so insertions and deletions before it move nothing.

use std::fmt;
use std::str::FromStr;

use base::prng::split_mix;

use crate::error::GraphError;

/// A cursor. [`Cursor::START`] begins a query, and ends its last page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cursor(u128);

impl Cursor {
    /// The cursor of a query's first page, and of its end.
    pub const START: Self = Self(0);

    pub(crate) fn new(query: u32, time: u64, id: u32) -> Self {
        Self(u128::from(query) << 96 | u128::from(time) << 32 | u128::from(id))
    }

    /// Returns the time and the node number, or `None` for the start.
    pub(crate) fn place(self, query: u32) -> Result<Option<(u64, u32)>, GraphError> {
        match self.0 {
            0 => Ok(None),
            bits if (bits >> 96) as u32 == query => Ok(Some(((bits >> 32) as u64, bits as u32))),
            _ => Err(GraphError::BadCursor),
        }
    }
}

/// Returns the hash of a query's words, which is never 0.
pub(crate) fn query_hash(words: impl IntoIterator<Item = u64>) -> u32 {
    (words.into_iter().fold(1, |hash, word| split_mix(hash ^ word)) >> 32) as u32 | 1
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Cursor {
    type Err = GraphError;

    fn from_str(text: &str) -> Result<Self, GraphError> {
        text.parse().map(Self).map_err(|_| GraphError::BadCursor)
    }
}
