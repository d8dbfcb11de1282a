//! Prefetches for a batch of sessions: the first request of each session is prefetched before any session is served, so
//! that the waits for memory overlap.
//!
//! ```text
//!   for each session   head   find the key in the input, hash it, prefetch its index bucket; for a `set`, both buckets
//!   for each session   look   find the key's slot, prefetch its item
//!   for each session   serve  compare the key, then copy or change the item
//! ```
//!
//! While a `set` is served, the next `set` in the same input is prefetched too, in the same two stages ([`NextSet`]).
//! Its index buckets are prefetched while the previous `set` is served. Its item is prefetched when the worker begins
//! to serve it, so that the wait for memory overlaps with the copy of its value.

use segment::{Guard, Key, KeyHash, Namespace, Prefetched};

/// The prefetched first request of a session.
#[derive(Clone, Copy)]
pub enum PrefetchedHead<'l> {
    /// A plain request that reads one key.
    Read(ReadHead<'l>),
    /// A `set`.
    Set(NextSet),
}

/// A `set` whose index buckets have been prefetched.
#[derive(Clone, Copy)]
pub struct NextSet {
    /// The offset of the request in the input, in bytes.
    at: usize,
    key: KeyHash,
    key_len: usize,
}

impl NextSet {
    /// Prefetches the index buckets of a `set` that begins at offset `at` and has this key.
    #[inline]
    pub(crate) fn prefetch_keys(guard: &Guard<'_>, namespace: Namespace, at: usize, key: &[u8]) -> Self {
        let hashed = guard.key(namespace, key);
        guard.items().prefetch_change(&hashed);
        Self { at, key: hashed.key_hash(), key_len: key.len() }
    }

    /// Returns the key with its hash, and prefetches its item. Returns `None` if this prefetch does not belong to the
    /// request that begins at offset `at`. The prefetch assumed that the key ends at the first blank. If the request
    /// was parsed differently, it has another key, and the prefetch does not apply.
    #[inline]
    pub(crate) fn key<'k>(self, guard: &Guard<'_>, at: usize, key: &'k [u8]) -> Option<Key<'k>> {
        if self.at != at || self.key_len != key.len() {
            return None;
        }
        let _ = guard.items().prefetch_item(self.key);
        Some(self.key.key(key))
    }
}

/// A prefetched plain request that reads one key.
#[derive(Clone, Copy)]
pub struct ReadHead<'l> {
    /// The hash and namespace of the key, without its bytes.
    pub(crate) key: KeyHash,
    pub(crate) key_len: usize,
    /// The length of the request in bytes.
    pub(crate) consumed: usize,
    pub(crate) ahead: Prefetched<'l>,
}

impl<'l> PrefetchedHead<'l> {
    /// Prefetches the index bucket of a request that reads `key` and is `consumed` bytes long.
    #[inline]
    pub(crate) fn read(guard: &Guard<'l>, key: &Key<'_>, consumed: usize) -> Self {
        guard.items().prefetch(key);
        Self::Read(ReadHead { key: key.key_hash(), key_len: key.bytes().len(), consumed, ahead: Prefetched::default() })
    }

    /// Finds the key's slot and prefetches its item. For a `set`, the position of the slot is not retained.
    #[inline]
    pub fn prefetch_items(&mut self, guard: &Guard<'l>) {
        match self {
            Self::Read(head) => head.ahead = guard.items().prefetch_item(head.key),
            Self::Set(set) => drop(guard.items().prefetch_item(set.key)),
        }
    }
}
