//! The prefixes of keys of which clients receive all changes (`CLIENT TRACKING ON BCAST`).

use super::client::{TrackingClient, lock};
use crate::push::outbox::Channels;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The maximum number of prefixes of one client.
pub const PREFIXES_MAX: usize = 256;
/// The maximum number of prefixes of all clients, counted once for each client.
pub const ALL_PREFIXES_MAX: u64 = 65_536;
/// The maximum length of a prefix, in bytes. It limits the work of a change: the number of prefixes of a key.
pub const PREFIX_BYTES_MAX: usize = 256;

/// The approximate memory of a client's prefix without its text, in bytes.
const PREFIX_OVERHEAD: u64 = 256;
/// The number of clients that are taken from a prefix under one lock.
pub(super) const CLIENTS_A_LOCK: usize = 64;

/// The reason why a prefix is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrefixRefused {
    /// All clients together have [`ALL_PREFIXES_MAX`] prefixes.
    TooMany,
    /// The memory for prefixes is used up.
    NoMemory,
}

/// A prefix with its clients.
#[derive(Debug)]
pub(super) struct Prefix {
    /// A unique number.
    pub(super) number: u64,
    clients: Mutex<BTreeMap<u64, Arc<TrackingClient>>>,
}

impl Prefix {
    /// Returns the next clients after the id `after`, at most [`CLIENTS_A_LOCK`].
    pub(super) fn clients_after(&self, after: u64) -> Vec<Arc<TrackingClient>> {
        let clients = lock(&self.clients);
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        clients.range(behind).map(|(_, client)| Arc::clone(client)).take(CLIENTS_A_LOCK).collect()
    }
}

/// All prefixes, in order.
#[derive(Debug)]
pub(super) struct Prefixes {
    channels: Arc<Channels>,
    prefixes: RwLock<BTreeMap<Box<[u8]>, Arc<Prefix>>>,
    next: AtomicU64,
    /// The number of prefixes, counted once for each of their clients.
    registrations: AtomicU64,
    count: AtomicU64,
}

impl Prefixes {
    pub(super) fn new(channels: &Arc<Channels>) -> Self {
        Self {
            channels: Arc::clone(channels),
            prefixes: RwLock::default(),
            next: AtomicU64::new(0),
            registrations: AtomicU64::new(0),
            count: AtomicU64::new(0),
        }
    }

    /// Returns the number of different prefixes.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Adds a client to a prefix, of which it is not a client yet.
    pub(super) fn add(&self, text: &[u8], client: &Arc<TrackingClient>) -> Result<(), PrefixRefused> {
        if !self.channels.reserve_names(PREFIX_OVERHEAD + text.len() as u64) {
            return Err(PrefixRefused::NoMemory);
        }
        let mut prefixes = self.prefixes.write().unwrap_or_else(PoisonError::into_inner);
        if self.registrations.load(Relaxed) >= ALL_PREFIXES_MAX {
            self.channels.release_names(PREFIX_OVERHEAD + text.len() as u64);
            return Err(PrefixRefused::TooMany);
        }
        let new = || Prefix { number: self.next.fetch_add(1, Relaxed), clients: Mutex::default() };
        let prefix = prefixes.entry(text.into()).or_insert_with(|| Arc::new(new()));
        lock(&prefix.clients).insert(client.id, Arc::clone(client));
        self.registrations.fetch_add(1, Relaxed);
        self.count.store(prefixes.len() as u64, Relaxed);
        Ok(())
    }

    /// Removes a client from a prefix.
    pub(super) fn remove(&self, text: &[u8], client: &TrackingClient) {
        let mut prefixes = self.prefixes.write().unwrap_or_else(PoisonError::into_inner);
        let Some(prefix) = prefixes.get(text) else { return };
        let mut clients = lock(&prefix.clients);
        if clients.remove(&client.id).is_none() {
            return;
        }
        let is_unused = clients.is_empty();
        drop(clients);
        if is_unused {
            prefixes.remove(text);
        }
        self.registrations.fetch_sub(1, Relaxed);
        self.count.store(prefixes.len() as u64, Relaxed);
        self.channels.release_names(PREFIX_OVERHEAD + text.len() as u64);
    }

    /// Calls `each` for every prefix of a key.
    ///
    /// The prefixes of a key are not greater than the key in the order of their bytes. If the greatest such entry is no
    /// prefix of the key, all prefixes of the key are prefixes of the part that both have in common. So each step
    /// shortens the part of the key in which prefixes are searched.
    pub(super) fn each_of(&self, key: &[u8], mut each: impl FnMut(&Arc<Prefix>)) {
        let prefixes = self.prefixes.read().unwrap_or_else(PoisonError::into_inner);
        let mut end = Bound::Included(&key[..key.len().min(PREFIX_BYTES_MAX)]);
        while let Some((text, prefix)) = prefixes.range::<[u8], _>((Bound::Unbounded, end)).next_back() {
            let common = text.iter().zip(key).take_while(|(one, other)| one == other).count();
            end = Bound::Included(&key[..common]);
            if common == text.len() {
                each(prefix);
                end = Bound::Excluded(&key[..common]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::budget::Budget;
    use base::prng::Prng;

    #[test]
    fn a_key_has_the_prefixes_that_a_scan_finds() {
        let channels = Arc::new(Channels::new(&Arc::default(), &Budget::new(0, Some(1 << 26)), 1 << 20));
        let prefixes = Prefixes::new(&channels);
        let client = TrackingClient::new(1, &channels.outbox(0, 0));
        let (mut prng, mut texts, mut found) = (Prng::new(5), Vec::<Vec<u8>>::new(), 0);
        for _ in 0..300 {
            let text: Vec<u8> = (0..prng.below(7)).map(|_| b'a' + prng.below(3) as u8).collect();
            if !texts.contains(&text) {
                prefixes.add(&text, &client).expect("room");
                texts.push(text);
            }
        }
        for _ in 0..2000 {
            let key: Vec<u8> = (0..prng.below(9)).map(|_| b'a' + prng.below(3) as u8).collect();
            let mut count = 0;
            prefixes.each_of(&key, |_| count += 1);
            assert_eq!(count, texts.iter().filter(|text| key.starts_with(text)).count(), "{key:?}");
            found += count;
        }
        assert!(found > 2000);
        texts.iter().for_each(|text| prefixes.remove(text, &client));
        assert_eq!((prefixes.count(), channels.bytes()), (0, 0));
    }
}
