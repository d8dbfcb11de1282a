//! Messages and long replies that a session sends in addition to its own output buffer.

use crate::memory::budget;
use crate::memory::budget::Budget;
use crate::memory::budget::Grant;
use crate::push::outbox::Subscriber;
use crate::resp::error::ErrorReply;
use crate::resp::state::tracking::SessionTracking;
use crate::visit::clock::Ticks;
use protocol::sink::Sink;
use std::sync::Arc;
/// A connection's output in addition to the replies to its current requests.
#[derive(Default)]
pub(in crate::resp) struct PendingOutput {
    pub(in crate::resp) subscriber: Option<Subscriber>,
    /// The tracking of keys that the client has read. If there is one, there is a subscriber too.
    pub(in crate::resp) tracking: Option<Box<SessionTracking>>,
    /// A long reply, whose first `sent` bytes are already in the output. Empty if there is none.
    pub(in crate::resp) long: Vec<u8>,
    pub(in crate::resp) sent: usize,
    /// The long reply's share of client memory, and the instant at which its request began.
    pub(in crate::resp) held: Option<(Grant, Ticks)>,
}

/// The maximum length of a reply that is collected outside the output buffer, in bytes.
pub(in crate::resp) const LONG_REPLY_BYTES_MAX: usize = 64 << 20;

/// The minimum capacity of a non-empty [`LongReply`], in bytes.
pub(in crate::resp) const LONG_REPLY_BYTES_MIN: usize = 4 << 10;

/// A reply that is collected outside the output buffer. Its client memory is reserved before it is allocated.
pub(in crate::resp) struct LongReply {
    pub(in crate::resp) bytes: Vec<u8>,
    pub(in crate::resp) grant: Grant,
    pub(in crate::resp) refused: Option<ErrorReply>,
}

impl LongReply {
    pub(in crate::resp) fn new(budget: &Arc<Budget>) -> Self {
        Self { bytes: Vec::new(), grant: Grant::none(budget, budget::MemoryUse::Replies), refused: None }
    }

    /// Makes room for `more` bytes. Returns false if the reply would be too long or client memory is used up. After
    /// such a refusal, always returns false.
    pub(in crate::resp) fn make_room(&mut self, more: usize) -> bool {
        let need = self.bytes.len() + more;
        let capacity = self.bytes.capacity();
        if need <= capacity || self.refused.is_some() {
            return self.refused.is_none();
        }
        let grown = need.max(capacity + capacity / 2).max(LONG_REPLY_BYTES_MIN);
        if need > LONG_REPLY_BYTES_MAX {
            self.refused = Some(ErrorReply::RepliesTooLong);
        } else if !self.grant.resize(grown as u64) {
            self.refused = Some(ErrorReply::ClientMemory);
        }
        if self.refused.is_some() {
            self.bytes = Vec::new();
            self.grant.shrink(0);
            return false;
        }
        self.bytes.reserve_exact(grown - self.bytes.len());
        true
    }
}

impl Sink for LongReply {
    fn put(&mut self, bytes: &[u8]) {
        if self.make_room(bytes.len()) {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

impl std::fmt::Write for LongReply {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

/// The number of subscriptions that one visit ends, which takes about 100 us.
pub(in crate::resp) const ENDED_A_VISIT: usize = 256;
