//! A large value that is being written, piece by piece.

use crate::core::op::{Expire, LargeRef};
use crate::core::store::Store;
use crate::items::unpublished::{Content, Plan};
use crate::layout::header::EvictionQueue;
use crate::layout::hidden_key::piece_name;
use crate::layout::item::ItemKind;

/// A large value that is being written, piece by piece, possibly over several iterations.
///
/// Pass it to [`crate::LargeValues::commit`] or [`crate::LargeValues::abort`]. If it is dropped instead, its pieces
/// remain in the store until they are evicted.
#[derive(Debug)]
pub struct LargeWriter {
    pub(crate) namespace: u8,
    pub(super) object: u64,
    pub(super) bytes: u64,
    pub(crate) written: u64,
    pub(super) expire: Expire,
}

impl LargeWriter {
    /// Returns the whole value's length, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the expiry of its pieces.
    pub(crate) fn expire(&self) -> Expire {
        self.expire
    }

    /// Returns the number of bytes written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns a reference to the complete value. Panics if not all pieces are written.
    pub(crate) fn whole(&self) -> LargeRef {
        assert!(self.written == self.bytes, "{} of {} bytes are written", self.written, self.bytes);
        LargeRef { object: self.object, bytes: self.bytes, revision: 0 }
    }

    /// Returns the hidden key of the next piece.
    pub(crate) fn next_name(&self, store: &Store) -> [u8; 12] {
        piece_name(self.object, (self.written / store.geometry.piece_bytes as u64) as u32)
    }

    /// Returns the plan of the item that stores the next piece, with this content.
    pub(crate) fn piece_plan<'v>(&self, content: Content<'v>) -> Plan<'v> {
        Plan {
            kind: ItemKind::Piece,
            content,
            client_flags: 0,
            expire: self.expire,
            token: None,
            taken: false,
            meta: None,
            queue: EvictionQueue::Small,
        }
    }
}
