//! A list whose reply is collected over several visits.

use crate::memory::budget::Grant;
use crate::push::mail::NamesCursor;
use std::collections::BTreeSet;
/// Room for the line before a list, whose count is known when all of it is there.
pub(in crate::resp) const HEAD_BYTES: usize = 40;

/// A list, as far as it is.
pub(in crate::resp) struct Listing {
    /// Its text, behind room for its head.
    pub(in crate::resp) text: Vec<u8>,
    /// Entries in it, or done.
    pub(in crate::resp) count: u64,
    /// Place among names of channels at which it continues.
    pub(in crate::resp) names: NamesCursor,
    /// Place among connections at which it continues: the worker, and the number there.
    pub(in crate::resp) connection: (usize, usize),
    /// Clients that it is about, by number; empty: all.
    pub(in crate::resp) ids: BTreeSet<u64>,
    /// The one who asks is among those that are closed.
    pub(in crate::resp) closes_me: bool,
    /// Its share of client memory between two visits.
    pub(in crate::resp) grant: Option<Grant>,
}

impl Default for Listing {
    fn default() -> Self {
        Self {
            text: vec![0; HEAD_BYTES],
            count: 0,
            names: NamesCursor::default(),
            connection: (0, 0),
            ids: BTreeSet::new(),
            closes_me: false,
            grant: None,
        }
    }
}

impl Listing {
    /// Bytes of its text.
    pub(in crate::resp) fn len(&self) -> usize {
        self.text.len() - HEAD_BYTES
    }
}
