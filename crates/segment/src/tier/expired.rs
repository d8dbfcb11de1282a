//! Keys whose items on flash a handle has found expired. They wait for the background, which reports them to its
//! observer.

use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::layout::key::Namespace;
use crate::layout::raw::{Mutex, MutexGuard};

/// The maximum memory of waiting keys, in bytes. More keys are not named to the observer, which learns that some are
/// missing.
const BYTES_MAX: usize = 64 << 10;
/// The bytes before each key: its namespace, and its length in two bytes.
const HEAD_BYTES: usize = 3;

/// The waiting keys. A store without a second tier has none, and no memory for them.
#[derive(Debug)]
pub(crate) struct ExpiredKeys {
    waits: AtomicBool,
    keys: Mutex<KeyList>,
}

/// Keys in the order in which they were found, each after its namespace and length.
#[derive(Debug, Default)]
pub(crate) struct KeyList {
    bytes: Vec<u8>,
    /// True if a key was left out because the memory was used up.
    pub(crate) is_incomplete: bool,
}

impl KeyList {
    /// Calls `each` with every key and its namespace.
    pub(crate) fn for_each(&self, mut each: impl FnMut(Namespace, &[u8])) {
        let mut left = &self.bytes[..];
        while let Some((&[namespace, low, high], rest)) = left.split_first_chunk::<HEAD_BYTES>() {
            let (key, next) = rest.split_at(usize::from(u16::from_le_bytes([low, high])));
            each(Namespace(namespace), key);
            left = next;
        }
    }
}

impl ExpiredKeys {
    /// Creates the list of a store, with memory if the store has a second tier.
    pub(crate) fn new(is_tiered: bool) -> Self {
        let bytes = Vec::with_capacity(if is_tiered { BYTES_MAX } else { 0 });
        Self { waits: AtomicBool::new(false), keys: Mutex::new(KeyList { bytes, is_incomplete: false }) }
    }

    fn lock(&self) -> MutexGuard<'_, KeyList> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a key. Allocates no memory.
    pub(crate) fn add(&self, namespace: u8, key: &[u8]) {
        let mut keys = self.lock();
        match u16::try_from(key.len()) {
            Ok(len) if keys.bytes.len() + HEAD_BYTES + key.len() <= keys.bytes.capacity() => {
                let [low, high] = len.to_le_bytes();
                keys.bytes.extend_from_slice(&[namespace, low, high]);
                keys.bytes.extend_from_slice(key);
            }
            _ => keys.is_incomplete = true,
        }
        self.waits.store(true, Release);
    }

    /// Calls `report` with the waiting keys, and removes them. Does nothing if no key waits.
    pub(crate) fn take(&self, report: impl FnOnce(&KeyList)) {
        if self.waits.load(Acquire) {
            let mut keys = self.lock();
            self.waits.store(false, Release);
            report(&keys);
            keys.bytes.clear();
            keys.is_incomplete = false;
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn taken(keys: &ExpiredKeys) -> (Vec<(u8, Vec<u8>)>, bool) {
        let mut taken = (Vec::new(), false);
        keys.take(|list| {
            list.for_each(|namespace, key| taken.0.push((namespace.0, key.to_vec())));
            taken.1 = list.is_incomplete;
        });
        taken
    }

    #[test]
    fn keys_are_taken_once_and_those_beyond_the_memory_are_noticed() {
        let keys = ExpiredKeys::new(true);
        keys.add(0, b"a");
        keys.add(3, b"");
        assert_eq!(taken(&keys), (vec![(0, b"a".to_vec()), (3, Vec::new())], false));
        assert_eq!(taken(&keys), (Vec::new(), false));
        let key = [b'k'; 1021];
        (0..100).for_each(|_| keys.add(1, &key));
        let (names, is_incomplete) = taken(&keys);
        assert_eq!((names.len(), is_incomplete), (BYTES_MAX / 1024, true));
        keys.add(1, b"b");
        assert_eq!(taken(&keys), (vec![(1, b"b".to_vec())], false));
    }
}
