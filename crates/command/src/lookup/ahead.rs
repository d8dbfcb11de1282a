//! Prefetches for the first request of each session of a batch before any session is served, so that the waits for
//! memory overlap.
//!
//! ```text
//!   for each session   head   find the key in the bytes, hash it, prefetch its index bucket; of a `set`, both buckets
//!   for each session   look   find its slot, prefetch its item
//!   for each session   serve  compare and copy, or change
//! ```
//!
//! A `set` also prefetches for the next `set` behind it in the same input, in the same two stages ([`NextSet`]). The
//! index buckets are prefetched one request before the next `set` is served. Its item is prefetched when it is served,
//! while the value is copied.

use segment::{Guard, Key, KeyHash, Namespace, Prefetched};

/// The result of the early look at the first request of a session.
#[derive(Clone, Copy)]
pub enum PrefetchedHead<'l> {
    /// A plain request that reads one key.
    Read(ReadHead<'l>),
    /// A `set`.
    Set(NextSet),
}

/// A `set` whose index buckets were prefetched.
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
    pub(crate) fn prefetch_keys(guard: &Guard<'_>, namespace: Namespace, at: usize, key: &[u8]) -> Self {
        let hashed = guard.key(namespace, key);
        guard.items().prefetch_change(&hashed);
        Self { at, key: hashed.key_hash(), key_len: key.len() }
    }

    /// Returns the key of the request that begins at `at`, if this is that request's prefetch, and prefetches its item.
    /// The early look ended the key at the first blank. A request that is parsed differently has another key, for which
    /// the prefetch does not apply.
    #[inline]
    pub(crate) fn key<'k>(self, guard: &Guard<'_>, at: usize, key: &'k [u8]) -> Option<Key<'k>> {
        if self.at != at || self.key_len != key.len() {
            return None;
        }
        let _ = guard.items().prefetch_item(self.key);
        Some(self.key.key(key))
    }
}

/// The result of the early look at a plain request that reads one key.
#[derive(Clone, Copy)]
pub struct ReadHead<'l> {
    /// The key without its bytes.
    pub(crate) key: KeyHash,
    pub(crate) key_len: usize,
    /// The length of the request in bytes.
    pub(crate) consumed: usize,
    pub(crate) ahead: Prefetched<'l>,
}

impl<'l> PrefetchedHead<'l> {
    /// Creates the head of a request that reads `key` and is `consumed` bytes long. Its index bucket is prefetched.
    #[inline]
    pub(crate) fn read(guard: &Guard<'l>, key: &Key<'_>, consumed: usize) -> Self {
        guard.items().prefetch(key);
        Self::Read(ReadHead { key: key.key_hash(), key_len: key.bytes().len(), consumed, ahead: Prefetched::default() })
    }

    /// Finds the key's slot and prefetches its item.
    #[inline]
    pub fn prefetch_items(&mut self, guard: &Guard<'l>) {
        match self {
            Self::Read(head) => head.ahead = guard.items().prefetch_item(head.key),
            Self::Set(set) => drop(guard.items().prefetch_item(set.key)),
        }
    }
}
