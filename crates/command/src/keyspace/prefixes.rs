//! Counters of requests by key prefix. A key's prefix is the part before the first delimiter.
//!
//! ```text
//!   user:17 ──> "user" ──> hash table (open addressing) ──> entries: gets, hits, sets, deletes ──> names
//! ```
//! These counters are for inspecting a running server. While they are enabled, each request takes a lock. Address space
//! for the counters is reserved at start, and the kernel provides a page of memory when the page is first used. When
//! all of the memory is used, new prefixes are not counted.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of prefixes that are counted.
pub const PREFIXES_MAX: usize = 1 << 16;
/// The maximum total length of all prefixes, in bytes.
pub const NAME_BYTES_MAX: usize = 2 << 20;
/// The number of slots of the hash table. At most half of the slots are used.
const PLACES: usize = PREFIXES_MAX * 2;

/// The counted events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A request that reads a key.
    Get {
        /// True if the key existed.
        hit: bool,
    },
    /// A storage command, successful or not.
    Set,
    /// A deletion, successful or not.
    Delete,
}

/// A prefix and its counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefixCounters {
    name_at: u32,
    name_len: u32,
    /// The number of lookups.
    pub gets: u64,
    /// The number of lookups whose key existed.
    pub hits: u64,
    /// The number of storage commands.
    pub sets: u64,
    /// The number of deletions.
    pub deletes: u64,
}

#[derive(Debug)]
struct Table {
    /// The hash table. Each slot contains the number of an entry, counted from 1, or 0 if the slot is free.
    places: Vec<u32>,
    entries: Vec<PrefixCounters>,
    names: Vec<u8>,
    hasher: RandomState,
}

impl Table {
    fn name(&self, entry: &PrefixCounters) -> &[u8] {
        &self.names[entry.name_at as usize..][..entry.name_len as usize]
    }

    fn entry(&mut self, prefix: &[u8]) -> Option<&mut PrefixCounters> {
        let mut place = self.hasher.hash_one(prefix) as usize % PLACES;
        while self.places[place] != 0 {
            let number = self.places[place] as usize - 1;
            if self.name(&self.entries[number]) == prefix {
                return Some(&mut self.entries[number]);
            }
            place = (place + 1) % PLACES;
        }
        if self.entries.len() == PREFIXES_MAX || self.names.len() + prefix.len() > NAME_BYTES_MAX {
            return None;
        }
        let (name_at, name_len) = (self.names.len() as u32, prefix.len() as u32);
        self.names.extend_from_slice(prefix);
        self.entries.push(PrefixCounters { name_at, name_len, ..PrefixCounters::default() });
        self.places[place] = self.entries.len() as u32;
        self.entries.last_mut()
    }
}

/// The prefix counters of a server.
#[derive(Debug)]
pub struct Prefixes {
    delimiter: u8,
    table: Mutex<Table>,
}

impl Prefixes {
    /// Creates the counters. A key's prefix ends before the first byte of the key that equals `delimiter`.
    pub fn new(delimiter: u8) -> Self {
        let table = Table {
            places: vec![0; PLACES],
            entries: Vec::with_capacity(PREFIXES_MAX),
            names: Vec::with_capacity(NAME_BYTES_MAX),
            hasher: RandomState::new(),
        };
        Self { delimiter, table: Mutex::new(table) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request for `key` by its prefix. A key without a delimiter has no prefix and is not counted.
    pub fn count(&self, key: &[u8], count: Count) {
        let Some(len) = key.iter().position(|byte| *byte == self.delimiter) else { return };
        let mut table = self.table();
        let Some(entry) = table.entry(&key[..len]) else { return };
        match count {
            Count::Get { hit } => {
                entry.gets += 1;
                entry.hits += u64::from(hit);
            }
            Count::Set => entry.sets += 1,
            Count::Delete => entry.deletes += 1,
        }
    }

    /// Removes all prefixes and their counters.
    pub fn clear(&self) {
        let mut table = self.table();
        table.places.fill(0);
        table.entries.clear();
        table.names.clear();
    }

    /// Calls `tell` for the prefixes in the order of their first occurrence, and skips the first `first` prefixes.
    /// Stops when `tell` returns false.
    pub fn each(&self, first: usize, mut tell: impl FnMut(&[u8], &PrefixCounters) -> bool) {
        let table = self.table();
        let _ = table.entries.iter().skip(first).all(|entry| tell(table.name(entry), entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replied(prefixes: &Prefixes) -> Vec<String> {
        let mut replied = Vec::new();
        prefixes.each(0, |name, e| {
            replied.push(format!("{} {} {} {} {}", String::from_utf8_lossy(name), e.gets, e.hits, e.sets, e.deletes));
            true
        });
        replied
    }

    #[test]
    fn keys_are_counted_by_the_text_before_the_first_delimiter() {
        let prefixes = Prefixes::new(b':');
        for (key, count) in [
            ("a:1", Count::Get { hit: true }),
            ("a:2:3", Count::Get { hit: false }),
            ("b:", Count::Set),
            ("a:", Count::Delete),
            ("none", Count::Set),
            (":x", Count::Set),
            ("ab:1", Count::Set),
        ] {
            prefixes.count(key.as_bytes(), count);
        }
        assert_eq!(replied(&prefixes), ["a 2 1 0 1", "b 0 0 1 0", " 0 0 1 0", "ab 0 0 1 0"]);
        prefixes.clear();
        assert!(replied(&prefixes).is_empty());
        prefixes.count(b"b:1", Count::Set);
        assert_eq!(replied(&prefixes), ["b 0 0 1 0"]);
    }

    #[test]
    fn prefixes_above_the_maximum_are_not_counted_and_use_no_memory() {
        let prefixes = Prefixes::new(b':');
        for number in 0..PREFIXES_MAX + 100 {
            prefixes.count(format!("{number}:k").as_bytes(), Count::Set);
        }
        prefixes.count(b"0:k", Count::Set);
        let (mut count, mut first_sets) = (0, 0);
        prefixes.each(0, |name, entry| {
            if name == b"0" {
                first_sets = entry.sets;
            }
            count += 1;
            true
        });
        assert_eq!((count, first_sets), (PREFIXES_MAX, 2));
        let long = Prefixes::new(b':');
        for number in 0..20_000 {
            long.count(format!("{number:0>240}:k").as_bytes(), Count::Set);
        }
        assert!(replied(&long).len() == NAME_BYTES_MAX / 240 && long.table().names.capacity() == NAME_BYTES_MAX);
    }
}
