//! A list whose reply is collected over several visits.

use crate::memory::budget::Grant;
use crate::push::outbox::NamesCursor;
use std::collections::BTreeSet;
/// Room for the line before a list, whose count is known when the list is complete.
pub(in crate::resp) const HEAD_BYTES: usize = 40;

/// A list that is being collected.
pub(in crate::resp) struct Listing {
    /// The collected text, after the room for the list's head.
    pub(in crate::resp) text: Vec<u8>,
    /// The number of entries in the list, or of clients that were handled.
    pub(in crate::resp) count: u64,
    /// The position in the names of channels at which the next visit continues.
    pub(in crate::resp) names: NamesCursor,
    /// The position in the connections at which the next visit continues: the worker, and the connection's number
    /// there.
    pub(in crate::resp) connection: (usize, usize),
    /// The numbers of the requested clients; empty: all clients.
    pub(in crate::resp) ids: BTreeSet<u64>,
    /// True if the calling client is among those to close.
    pub(in crate::resp) closes_me: bool,
    /// The list's share of client memory between two visits.
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
    /// Returns the number of bytes of the collected text.
    pub(in crate::resp) fn len(&self) -> usize {
        self.text.len() - HEAD_BYTES
    }
}
