//! A list whose reply is collected over several visits.

use crate::memory::budget::Grant;
use crate::push::outbox::NamesCursor;
use std::collections::BTreeSet;
/// The space reserved for the header of a list, in bytes. The header contains the number of entries, which is known
/// when the list is complete.
pub(in crate::resp) const HEAD_BYTES: usize = 40;

/// A list that is being collected.
pub(in crate::resp) struct Listing {
    /// [`HEAD_BYTES`] bytes for the list's header, then the collected text.
    pub(in crate::resp) text: Vec<u8>,
    /// The number of entries in the list, or the number of closed connections.
    pub(in crate::resp) count: u64,
    /// The position among the names of all channels at which the next visit continues.
    pub(in crate::resp) names: NamesCursor,
    /// The position among the connections of all workers at which the next visit continues: the worker's number, and
    /// the connection's number in the worker's connection table.
    pub(in crate::resp) connection: (usize, usize),
    /// The numbers of the requested clients. If empty, all clients are requested.
    pub(in crate::resp) ids: BTreeSet<u64>,
    /// True if the calling client's own connection must be closed too.
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
