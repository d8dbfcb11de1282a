//! What is found out about the first request of each session of a batch before any of them is served, so that their
//! waits for memory overlap.
//!
//! ```text
//!   for each session   of     find the key in the bytes, hash it, ask for its index bucket
//!   for each session   look   find its slot, ask for its item
//!   for each session   serve  compare and copy
//! ```

use super::{SessionState, memcache, resp};
use segment::{Ahead, KeyHash, Turn};

/// What was found out about the first request of a session: a plain one, of one key.
#[derive(Clone, Copy)]
pub(crate) struct Head<'l> {
    /// The key, but for its bytes.
    pub(super) key: KeyHash,
    pub(super) key_len: usize,
    /// The request's bytes.
    pub(super) consumed: usize,
    pub(super) ahead: Ahead<'l>,
}

impl<'l> Head<'l> {
    /// The head of what a session has received, if it begins with such a request; its index bucket is asked for.
    #[inline]
    pub(crate) fn of(turn: &Turn<'l>, buf: &[u8], state: &SessionState) -> Option<Self> {
        let ((bytes, consumed), namespace) = match state {
            SessionState::Memcache(state) => (memcache::head_key(buf, state)?, state.namespace),
            SessionState::Resp(state) => (resp::head_key(buf, state)?, state.namespace),
        };
        let key = turn.key(namespace, bytes);
        turn.prefetch(&key);
        Some(Self { key: key.key_hash(), key_len: bytes.len(), consumed, ahead: Ahead::default() })
    }

    /// Finds the key's slot and asks for its item.
    #[inline]
    pub(crate) fn look(&mut self, turn: &Turn<'l>) {
        self.ahead = turn.look_ahead(self.key);
    }
}
