//! Looks at the first request of each session of a batch before any of them is served, so that their waits for memory
//! overlap.
//!
//! ```text
//!   for each session   of     find the key in the bytes, hash it, ask for its index bucket; of a `set`, for both
//!   for each session   look   find its slot, ask for its item
//!   for each session   serve  compare and copy, or change
//! ```
//!
//! A `set` asks for what the next one behind it in the same input is to change, in the same two stages
//! ([`NextSet`]): its buckets a request before it is served, its item when it is served, while the value is copied.

use segment::{Ahead, Guard, Key, KeyHash, Namespace};

/// Result of the early look at the first request of a session.
#[derive(Clone, Copy)]
pub enum Head<'l> {
    /// A plain one that reads one key.
    Read(ReadHead<'l>),
    /// A `set`.
    Set(NextSet),
}

/// A `set` whose index buckets were asked for.
#[derive(Clone, Copy)]
pub struct NextSet {
    /// Offset of the request in the input, in bytes.
    at: usize,
    key: KeyHash,
    key_len: usize,
}

impl NextSet {
    /// Prefetches the index buckets of the `set` with this key that begins at `at`.
    #[inline]
    pub(crate) fn ask(guard: &Guard<'_>, namespace: Namespace, at: usize, key: &[u8]) -> Self {
        let hashed = guard.key(namespace, key);
        guard.items().prefetch_change(&hashed);
        Self { at, key: hashed.key_hash(), key_len: key.len() }
    }

    /// The key of the request that begins at `at`, if this is of it: its item is asked for. What was taken for the key
    /// beforehand ends at the first blank; where a request is read otherwise, its key is another.
    #[inline]
    pub(crate) fn key<'k>(self, guard: &Guard<'_>, at: usize, key: &'k [u8]) -> Option<Key<'k>> {
        if self.at != at || self.key_len != key.len() {
            return None;
        }
        let _ = guard.items().prefetch_item(self.key);
        Some(self.key.key(key))
    }
}

/// Result of the early look at a plain request that reads one key.
#[derive(Clone, Copy)]
pub struct ReadHead<'l> {
    /// The key without its bytes.
    pub(crate) key: KeyHash,
    pub(crate) key_len: usize,
    /// The request's bytes.
    pub(crate) consumed: usize,
    pub(crate) ahead: Ahead<'l>,
}

impl<'l> Head<'l> {
    /// Creates the head of a request that reads `key` and is `consumed` bytes long. Its index bucket is prefetched.
    #[inline]
    pub(crate) fn read(guard: &Guard<'l>, key: &Key<'_>, consumed: usize) -> Self {
        guard.items().prefetch(key);
        Self::Read(ReadHead { key: key.key_hash(), key_len: key.bytes().len(), consumed, ahead: Ahead::default() })
    }

    /// Finds the key's slot and asks for its item.
    #[inline]
    pub fn look(&mut self, guard: &Guard<'l>) {
        match self {
            Self::Read(head) => head.ahead = guard.items().prefetch_item(head.key),
            Self::Set(set) => drop(guard.items().prefetch_item(set.key)),
        }
    }
}
