//! Keys whose items have ended without the background: items that lost their slots to other keys, values that lost a
//! part, and items on flash that a handle has found expired. The keys wait for the background, which reports them to
//! its observer.

use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::layout::key::Namespace;
use crate::layout::raw::{Mutex, MutexGuard};

/// The maximum memory of waiting keys, in bytes. More keys are not named to the observer, which learns that some are
/// missing.
const BYTES_MAX: usize = 64 << 10;
/// The bytes before each key: its namespace, the reason of its end, and its length in two bytes.
const HEAD_BYTES: usize = 4;

/// The reason why a key's item has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEnd {
    /// The item has expired.
    Expired,
    /// The item made room: its region of flash was reclaimed, its slot was given to another key, or a part of its value
    /// was lost.
    Evicted,
}

/// The waiting keys.
#[derive(Debug)]
pub(crate) struct EndedKeys {
    waits: AtomicBool,
    keys: Mutex<KeyList>,
    /// An empty list, with which the waiting keys are exchanged, so that no handle waits while keys are reported.
    spare: Mutex<KeyList>,
}

/// Keys in the order in which they ended.
#[derive(Debug)]
pub(crate) struct KeyList {
    bytes: Vec<u8>,
    /// True if a key was left out because the memory was used up.
    pub(crate) is_incomplete: bool,
}

impl KeyList {
    fn new() -> Self {
        Self { bytes: Vec::with_capacity(BYTES_MAX), is_incomplete: false }
    }

    /// Calls `each` with every key, its namespace and the reason of its end.
    pub(crate) fn for_each(&self, mut each: impl FnMut(Namespace, &[u8], KeyEnd)) {
        let mut left = &self.bytes[..];
        while let Some((&[namespace, end, low, high], rest)) = left.split_first_chunk::<HEAD_BYTES>() {
            let (key, next) = rest.split_at(usize::from(u16::from_le_bytes([low, high])));
            let end = if end == KeyEnd::Expired as u8 { KeyEnd::Expired } else { KeyEnd::Evicted };
            each(Namespace(namespace), key, end);
            left = next;
        }
    }
}

fn locked(list: &Mutex<KeyList>) -> MutexGuard<'_, KeyList> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EndedKeys {
    /// Creates the list of a store, with its memory.
    pub(crate) fn new() -> Self {
        let [keys, spare] = [KeyList::new(), KeyList::new()].map(Mutex::new);
        Self { waits: AtomicBool::new(false), keys, spare }
    }

    /// Adds a key. Allocates no memory.
    pub(crate) fn add(&self, namespace: u8, key: &[u8], end: KeyEnd) {
        let mut keys = locked(&self.keys);
        match u16::try_from(key.len()) {
            Ok(len) if keys.bytes.len() + HEAD_BYTES + key.len() <= keys.bytes.capacity() => {
                let [low, high] = len.to_le_bytes();
                keys.bytes.extend_from_slice(&[namespace, end as u8, low, high]);
                keys.bytes.extend_from_slice(key);
            }
            _ => keys.is_incomplete = true,
        }
        self.waits.store(true, Release);
    }

    /// Calls `report` with the waiting keys, and removes them. Does nothing if no key waits.
    pub(crate) fn take(&self, report: impl FnOnce(&KeyList)) {
        if self.waits.load(Acquire) {
            let mut taken = locked(&self.spare);
            {
                let mut keys = locked(&self.keys);
                self.waits.store(false, Release);
                std::mem::swap(&mut *keys, &mut *taken);
            }
            report(&taken);
            taken.bytes.clear();
            taken.is_incomplete = false;
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn taken(keys: &EndedKeys) -> (Vec<(u8, Vec<u8>, KeyEnd)>, bool) {
        let mut taken = (Vec::new(), false);
        keys.take(|list| {
            list.for_each(|namespace, key, end| taken.0.push((namespace.0, key.to_vec(), end)));
            taken.1 = list.is_incomplete;
        });
        taken
    }

    #[test]
    fn keys_are_taken_once_and_those_beyond_the_memory_are_noticed() {
        use KeyEnd::{Evicted, Expired};
        let keys = EndedKeys::new();
        keys.add(0, b"a", Expired);
        keys.add(3, b"", Evicted);
        assert_eq!(taken(&keys), (vec![(0, b"a".to_vec(), Expired), (3, Vec::new(), Evicted)], false));
        assert_eq!(taken(&keys), (Vec::new(), false));
        let key = [b'k'; 1020];
        for _ in 0..2 {
            (0..100).for_each(|_| keys.add(1, &key, Evicted));
            let (names, is_incomplete) = taken(&keys);
            assert_eq!((names.len(), is_incomplete), (BYTES_MAX / 1024, true));
            keys.add(1, b"b", Expired);
            assert_eq!(taken(&keys), (vec![(1, b"b".to_vec(), Expired)], false));
        }
    }
}
