//! The table of tracked keys, each with the clients that have read it.

use super::client::{TrackingClient, lock};

use crate::push::outbox::Channels;
use segment::Namespace;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, MutexGuard};

/// The maximum number of tracked keys by default, as in Redis.
pub const KEYS_MAX_DEFAULT: u64 = 1_000_000;

/// The number of parts into which the table is divided. Each part has its own lock.
const PARTS: usize = 64;
/// The number of counters of tracked keys by their hash.
const COUNTERS: usize = 4096;
/// The approximate memory of a tracked key without its name, and of each of its clients, in bytes.
const KEY_OVERHEAD: u64 = 192;
const CLIENT_BYTES: u64 = 16;
/// The maximum number of keys that are removed to make room for one.
const REMOVED_AT_ONCE: usize = 4;
/// The number of clients of keys that are examined under one lock when entries of ended clients are removed.
const TIDIED_A_LOCK: usize = 1024;

/// A tracked key.
#[derive(Debug)]
struct TrackedKey {
    namespace: Namespace,
    key: Box<[u8]>,
    /// The clients that have read the key, by their ids.
    clients: Vec<Arc<TrackingClient>>,
}

impl TrackedKey {
    fn bytes(&self) -> u64 {
        KEY_OVERHEAD + self.key.len() as u64 + CLIENT_BYTES * self.clients.len() as u64
    }

    /// Adds a client. Returns false if it is there already.
    fn add(&mut self, client: &Arc<TrackingClient>) -> bool {
        match self.clients.binary_search_by_key(&client.id, |client| client.id) {
            Ok(at) if Arc::ptr_eq(&self.clients[at], client) => return false,
            // The client has tracked keys before, and began again.
            Ok(at) => self.clients[at] = Arc::clone(client),
            Err(at) => {
                self.clients.insert(at, Arc::clone(client));
                return true;
            }
        }
        false
    }
}

/// The keys of a part by their hash.
type Keys = BTreeMap<u64, Vec<TrackedKey>>;

/// A part of the table, with the number of its keys, and with that of its keys for each client.
#[derive(Debug, Default)]
struct TablePart {
    by_hash: Keys,
    keys: u64,
    items: u64,
}

type Removed = (Box<[u8]>, Vec<Arc<TrackingClient>>);

/// The tracked keys by their hash.
#[derive(Debug)]
pub(super) struct KeyTable {
    channels: Arc<Channels>,
    parts: [Mutex<TablePart>; PARTS],
    /// The number of tracked keys by hash, so that a change of another key needs no lock.
    counters: Box<[AtomicU32]>,
    hasher: RandomState,
    keys: AtomicU64,
    items: AtomicU64,
    keys_max: AtomicU64,
    /// Parts that were removed, and that [`KeyTable::tidy`] frees.
    removed: Mutex<Vec<Keys>>,
    /// True if clients have ended since the last call of [`KeyTable::tidy`].
    has_ended: AtomicBool,
}

impl KeyTable {
    pub(super) fn new(channels: &Arc<Channels>) -> Self {
        Self {
            channels: Arc::clone(channels),
            parts: [(); PARTS].map(|()| Mutex::default()),
            counters: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect(),
            hasher: RandomState::new(),
            keys: AtomicU64::new(0),
            items: AtomicU64::new(0),
            keys_max: AtomicU64::new(KEYS_MAX_DEFAULT),
            removed: Mutex::default(),
            has_ended: AtomicBool::new(false),
        }
    }

    pub(super) fn keys(&self) -> u64 {
        self.keys.load(Relaxed)
    }

    pub(super) fn items(&self) -> u64 {
        self.items.load(Relaxed)
    }

    pub(super) fn keys_max(&self) -> u64 {
        self.keys_max.load(Relaxed)
    }

    pub(super) fn set_keys_max(&self, keys: u64) {
        self.keys_max.store(keys, Relaxed);
    }

    /// Records that a client has ended, whose entries [`KeyTable::tidy`] removes.
    pub(super) fn note_ended(&self) {
        self.has_ended.store(true, Relaxed);
    }

    fn hash(&self, (namespace, key): (Namespace, &[u8])) -> u64 {
        self.hasher.hash_one((namespace.0, key))
    }

    fn part(&self, hash: u64) -> MutexGuard<'_, TablePart> {
        lock(&self.parts[(hash >> 32) as usize % PARTS])
    }

    fn counter(&self, hash: u64) -> &AtomicU32 {
        &self.counters[hash as usize % COUNTERS]
    }

    /// Enters a key for a client. Returns false if memory for it is used up, and the keys that were removed to make
    /// room.
    pub(super) fn track(&self, key: (Namespace, &[u8]), client: &Arc<TrackingClient>) -> (bool, Vec<Removed>) {
        let (hash, mut removed) = (self.hash(key), Vec::new());
        let mut is_tracked = self.enter(hash, key, client);
        while !is_tracked && removed.len() < REMOVED_AT_ONCE {
            let Some(other) = self.remove_any(hash) else { break };
            removed.push(other);
            is_tracked = self.enter(hash, key, client);
        }
        let keys_max = self.keys_max();
        while keys_max != 0 && self.keys() > keys_max && removed.len() < REMOVED_AT_ONCE {
            let Some(other) = self.remove_any(hash) else { break };
            removed.push(other);
        }
        // The value is read after the key was entered.
        fence(SeqCst);
        (is_tracked, removed)
    }

    fn enter(&self, hash: u64, (namespace, bytes): (Namespace, &[u8]), client: &Arc<TrackingClient>) -> bool {
        let part = &mut *self.part(hash);
        let keys = part.by_hash.entry(hash).or_default();
        let key = keys.iter_mut().find(|key| key.namespace == namespace && *key.key == *bytes);
        let is_new = key.is_none();
        if let Some(key) = key {
            if !self.channels.reserve_names(CLIENT_BYTES) {
                return false;
            }
            if !key.add(client) {
                self.channels.release_names(CLIENT_BYTES);
                return true;
            }
        } else {
            let key = TrackedKey { namespace, key: bytes.into(), clients: vec![Arc::clone(client)] };
            if !self.channels.reserve_names(key.bytes()) {
                if keys.is_empty() {
                    part.by_hash.remove(&hash);
                }
                return false;
            }
            keys.push(key);
        }
        part.items += 1;
        self.items.fetch_add(1, Relaxed);
        if is_new {
            part.keys += 1;
            self.keys.fetch_add(1, Relaxed);
            self.counter(hash).fetch_add(1, Relaxed);
        }
        true
    }

    /// Returns false if no client tracks the key.
    pub(super) fn may_have(&self, key: (Namespace, &[u8])) -> bool {
        fence(SeqCst);
        self.counter(self.hash(key)).load(Relaxed) != 0
    }

    /// Removes a key that has changed. Returns its clients.
    pub(super) fn remove(&self, (namespace, bytes): (Namespace, &[u8])) -> Option<Vec<Arc<TrackingClient>>> {
        let hash = self.hash((namespace, bytes));
        // The value has changed before the table is examined.
        fence(SeqCst);
        if self.counter(hash).load(Relaxed) == 0 {
            return None;
        }
        let mut part = self.part(hash);
        let at = part.by_hash.get(&hash)?.iter().position(|key| key.namespace == namespace && *key.key == *bytes)?;
        Some(self.take(&mut part, hash, at).1)
    }

    /// Removes a key. Its hash selects one of the keys after it.
    fn remove_any(&self, hash: u64) -> Option<Removed> {
        let first = (hash >> 32) as usize;
        for number in first + 1..=first + PARTS {
            let mut part = lock(&self.parts[number % PARTS]);
            let behind = (Bound::Excluded(hash), Bound::Unbounded);
            let next = part.by_hash.range(behind).next().or_else(|| part.by_hash.first_key_value());
            let next = next.map(|(hash, _)| *hash);
            if let Some(hash) = next {
                return Some(self.take(&mut part, hash, 0));
            }
        }
        None
    }

    fn take(&self, part: &mut TablePart, hash: u64, at: usize) -> Removed {
        let Some(keys) = part.by_hash.get_mut(&hash) else { return Removed::default() };
        let key = keys.swap_remove(at);
        if keys.is_empty() {
            part.by_hash.remove(&hash);
        }
        self.count_removed(part, 1, key.clients.len() as u64);
        self.release(hash, &key);
        (key.key, key.clients)
    }

    fn count_removed(&self, part: &mut TablePart, keys: u64, items: u64) {
        (part.keys, part.items) = (part.keys - keys, part.items - items);
        self.keys.fetch_sub(keys, Relaxed);
        self.items.fetch_sub(items, Relaxed);
    }

    /// Releases the memory of a removed key.
    fn release(&self, hash: u64, key: &TrackedKey) {
        self.channels.release_names(key.bytes());
        self.counter(hash).fetch_sub(1, Relaxed);
    }

    /// Removes all keys. The caller then invalidates all copies of the clients, or no client is left.
    pub(super) fn clear(&self) {
        for part in &self.parts {
            let part = &mut *lock(part);
            if part.keys != 0 {
                lock(&self.removed).push(std::mem::take(&mut part.by_hash));
                self.count_removed(part, part.keys, part.items);
            }
        }
    }

    /// Frees removed parts, and removes entries of ended clients.
    pub(super) fn tidy(&self) {
        let removed = std::mem::take(&mut *lock(&self.removed));
        for (hash, keys) in removed.into_iter().flatten() {
            keys.iter().for_each(|key| self.release(hash, key));
        }
        if self.has_ended.swap(false, Relaxed) {
            self.parts.iter().for_each(|part| self.tidy_part(part));
        }
    }

    fn tidy_part(&self, part: &Mutex<TablePart>) {
        let mut from = 0;
        loop {
            let part = &mut *lock(part);
            let mut examined = 0;
            let next = part.by_hash.range(from..).take_while(|(_, keys)| {
                let is_next = examined < TIDIED_A_LOCK;
                examined += keys.iter().map(|key| key.clients.len()).sum::<usize>();
                is_next
            });
            let hashes: Vec<u64> = next.map(|(hash, _)| *hash).collect();
            hashes.iter().for_each(|hash| self.tidy_keys(part, *hash));
            match hashes.last().and_then(|last| last.checked_add(1)) {
                Some(next) => from = next,
                None => return,
            }
        }
    }

    /// Removes the ended clients of the keys with a hash, and the keys without clients.
    fn tidy_keys(&self, part: &mut TablePart, hash: u64) {
        let Some(keys) = part.by_hash.get_mut(&hash) else { return };
        let (mut ended_items, mut unused) = (0, Vec::new());
        for at in (0..keys.len()).rev() {
            let before = keys[at].clients.len();
            keys[at].clients.retain(|client| client.is_on());
            let ended = (before - keys[at].clients.len()) as u64;
            self.channels.release_names(CLIENT_BYTES * ended);
            ended_items += ended;
            if keys[at].clients.is_empty() {
                unused.push(keys.swap_remove(at));
            }
        }
        if keys.is_empty() {
            part.by_hash.remove(&hash);
        }
        unused.iter().for_each(|key| self.release(hash, key));
        self.count_removed(part, unused.len() as u64, ended_items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::budget::Budget;

    const HERE: Namespace = Namespace(0);

    fn table(bytes_max: u64) -> (KeyTable, Arc<Channels>) {
        let channels = Arc::new(Channels::new(&Arc::default(), &Budget::new(0, Some(bytes_max)), 1 << 20));
        (KeyTable::new(&channels), channels)
    }

    fn client(channels: &Channels, id: u64) -> Arc<TrackingClient> {
        TrackingClient::new(id, &channels.outbox(0, id as u32))
    }

    #[test]
    fn entries_of_ended_clients_and_cleared_keys_return_their_memory() {
        let (table, channels) = table(64 << 20);
        let clients: Vec<_> = (1..=3).map(|id| client(&channels, id)).collect();
        for number in 0..2000_u32 {
            let key = number.to_be_bytes();
            let readers = clients.iter().take(1 + number as usize % 3);
            readers.for_each(|client| assert!(table.track((HERE, &key), client).0));
            assert!(table.track((Namespace(1), &key), &clients[0]).0);
        }
        assert_eq!((table.keys(), table.items()), (4000, 2000 + 2000 + 1333 + 666));
        clients[0].switch_off();
        table.note_ended();
        table.tidy();
        assert_eq!((table.keys(), table.items()), (1333, 1333 + 666), "keys of the first client alone are removed");
        let changed = table.remove((HERE, &1_u32.to_be_bytes())).expect("tracked");
        assert_eq!(changed.iter().map(|client| client.id).collect::<Vec<_>>(), [2]);
        assert!(table.remove((HERE, &1_u32.to_be_bytes())).is_none() && table.remove((HERE, b"other")).is_none());
        table.clear();
        assert_eq!((table.keys(), table.items()), (0, 0));
        table.tidy();
        assert_eq!(channels.bytes(), 0);
        assert!((0..2000_u32).all(|number| !table.may_have((HERE, &number.to_be_bytes()))));
    }

    #[test]
    fn key_beyond_the_maximum_or_beyond_memory_takes_the_place_of_another_which_is_reported() {
        let (table, channels) = table(16 << 10);
        table.set_keys_max(10);
        let reader = client(&channels, 7);
        let mut kept = std::collections::BTreeSet::new();
        for number in 0..200_u32 {
            if number == 100 {
                table.set_keys_max(0);
            }
            let key = number.to_be_bytes();
            let (is_tracked, removed) = table.track((HERE, &key), &reader);
            assert!(is_tracked && kept.insert(key.to_vec()));
            removed.iter().for_each(|(key, _)| assert!(kept.remove(&key[..]), "reported once"));
            assert_eq!(table.keys(), kept.len() as u64);
            assert!(number >= 100 || kept.len() <= 10);
        }
        assert!(kept.len() > 20 && kept.len() < 100, "the memory is the limit at last: {}", kept.len());
        assert!(kept.iter().all(|key| table.remove((HERE, key)).is_some()));
        assert_eq!(channels.bytes(), 0);
    }
}
