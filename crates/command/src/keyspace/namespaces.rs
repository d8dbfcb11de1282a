//! The namespaces of a server: their names, terms and connections.
//!
//! ```text
//!   memcached  ── the listener's namespace ─┐
//!   RESP       ── the listener, or SELECT ──┴─> connection: a number ──> keys, counters, notifications
//!   memcached, a default listener ── a key's prefix ──> the number for this request                      see `routes`
//! ```
//!
//! Redis clients use databases, whose numbers are those of namespaces until `SWAPDB` exchanges the namespaces of two
//! databases ([`Databases`]). Names, terms and listeners' counters remain with the namespace.
//!
//! There are always [`Namespace::MAX`] numbered namespaces, like the 16 databases of Redis. A namespace's terms are its
//! limits and settings. A namespace without a name has no terms of its own, and shares the memory of the default
//! namespace, whose number is 0. Creating a namespace gives it a name and terms. Dropping a namespace removes its
//! items, its name and its terms. The number itself always exists, so a connection is always in an existing namespace.
//!
//! The store enforces the limits of memory and times to live ([`segment::Terms`]). This module enforces the limits of
//! connections and operations per second.
//!
//! Invariants: from its start to its end, a connection is counted in exactly one namespace. A refused connection or
//! operation does not count towards a limit.

use std::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::keyspace::op_quota::OpQuota;
use crate::keyspace::routes::Routes;
use base::clock::UnixMillis;
use segment::{Namespace, Store, TermsError};

use crate::keyspace::databases::Databases;
use crate::keyspace::metadata::MetadataLog;
use crate::keyspace::namespace_config::NamespaceConfig;

/// The name of namespace 0.
pub const DEFAULT_NAME: &str = "default";
/// The limits of one namespace, and their current use.
#[derive(Debug, Default)]
struct Usage {
    connections: AtomicU64,
    connections_max: AtomicU64,
    connections_refused: AtomicU64,
    ops: OpQuota,
}

/// The use of a namespace's limits of connections and operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageStats {
    /// The number of open connections.
    pub connections: u64,
    /// The number of connections that were refused because the namespace had its maximum number of connections.
    pub connections_refused: u64,
    /// The number of operations that were refused because the namespace had used up its quota of operations per second.
    pub ops_refused: u64,
}

/// All namespaces of a server.
#[derive(Debug, Default)]
pub struct Namespaces {
    /// The metadata log that persists names and terms.
    notes: Option<MetadataLog>,
    rooms: [Usage; Namespace::MAX],
    named: Mutex<Vec<NamespaceConfig>>,
    /// The number of calls of [`Namespaces::set`] and [`Namespaces::unset`].
    changes: AtomicU64,
    /// A bit for each namespace with a quota of operations per second, and the bit [`ROUTED`].
    guards: AtomicU32,
    routes: Mutex<Arc<Routes>>,
    /// The number of changes of the routes since start.
    route_changes: AtomicU64,
    /// The namespaces of all databases, as [`Databases`] packs them.
    databases: AtomicDatabases,
    /// The number of calls of [`Namespaces::swap`].
    swaps: AtomicU64,
    /// The number of those calls that concerned each database.
    swaps_of: [AtomicU32; Namespace::MAX],
}

/// [`Databases`] that threads share.
#[derive(Debug)]
struct AtomicDatabases(AtomicU64);

impl Default for AtomicDatabases {
    fn default() -> Self {
        Self(AtomicU64::new(Databases::default().packed()))
    }
}

/// The bit that is set while rules route keys of the default listeners to other namespaces. It is the first bit above
/// the bits of the namespaces.
pub(crate) const ROUTED: u32 = 1 << Namespace::MAX;
/// The bit that is set while `CLIENT PAUSE` delays clients. Each worker sets it in its own copy of the guards, before
/// each batch.
pub(crate) const PAUSED: u32 = ROUTED << 1;
/// The bit that marks a session whose last request was routed away from its listener's namespace. This bit is always
/// set in a worker's copy of the guards.
pub(crate) const ROUTED_AWAY: u32 = ROUTED << 2;
/// The bit that is set if a session may be in another namespace than its database, so that each request is checked.
pub(crate) const SWAPPED: u32 = ROUTED << 3;
/// The bit that is set once users have changed, so that the rights of memcached clients may be limited. Each worker
/// sets it in its own copy of the guards, before each batch.
pub(crate) const LIMITED: u32 = ROUTED << 4;

/// The numbers of all namespaces.
const NUMBERS: std::ops::Range<u8> = 0..Namespace::MAX as u8;

impl Namespaces {
    /// Creates all namespaces, without names. Names, terms and databases that are set later are persisted in `store`.
    pub fn persisted_in(store: &std::sync::Arc<Store>, databases: Databases) -> Self {
        let all = Self { notes: Some(MetadataLog::of(store)), ..Self::default() };
        all.databases.0.store(databases.packed(), SeqCst);
        all.guard(SWAPPED, databases != Databases::default());
        all
    }

    fn room(&self, namespace: Namespace) -> &Usage {
        &self.rooms[usize::from(namespace.0)]
    }

    fn lock(&self) -> MutexGuard<'_, Vec<NamespaceConfig>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the numbers of all namespaces.
    pub fn numbers() -> impl Iterator<Item = Namespace> {
        NUMBERS.map(Namespace)
    }

    /// Sets or changes the name and the terms of a namespace.
    ///
    /// # Errors
    /// If the store refuses the terms. The namespace is then unchanged.
    pub fn set(&self, store: &Store, config: &NamespaceConfig) -> Result<(), TermsError> {
        let namespace = Namespace(config.number);
        let mut named = self.lock();
        store.give_terms(namespace, &config.terms())?;
        // If the metadata log has no room for the record, an error is logged, and the namespace's name and terms are
        // lost when the process ends.
        if named.iter().all(|there| there != config)
            && let Some(notes) = &self.notes
        {
            let _ = notes.namespace(config);
        }
        let room = self.room(namespace);
        room.connections_max.store(config.connections_max, Relaxed);
        room.ops.set(config.ops_max);
        let bit = 1 << config.number;
        self.guard(bit, config.ops_max > 0);
        named.retain(|other| other.number != config.number);
        named.push(config.clone());
        named.sort_by_key(|config| config.number);
        self.route(&named);
        self.changes.fetch_add(1, Release);
        Ok(())
    }

    fn guard(&self, bit: u32, on: bool) {
        if on {
            self.guards.fetch_or(bit, Relaxed);
        } else {
            self.guards.fetch_and(!bit, Relaxed);
        }
    }

    /// Replaces the routing table (key prefix to namespace) with one built from the prefixes of `named`.
    fn route(&self, named: &[NamespaceConfig]) {
        let prefixes = |config: &NamespaceConfig| {
            let namespace = Namespace(config.number);
            config.prefixes.iter().map(move |prefix| (prefix.as_bytes().to_vec(), namespace)).collect::<Vec<_>>()
        };
        let all: Vec<_> = named.iter().flat_map(prefixes).collect();
        let routes = Routes::new(all.iter().map(|(prefix, namespace)| (&prefix[..], *namespace)));
        let mut now = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if routes != **now {
            self.guard(ROUTED, !routes.is_empty());
            *now = Arc::new(routes);
            self.route_changes.fetch_add(1, Release);
        }
    }

    /// Returns the routes from key prefixes to namespaces.
    pub fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns how often [`Namespaces::routes`] has changed since the start of the server.
    pub(crate) fn route_changes(&self) -> u64 {
        self.route_changes.load(Acquire)
    }

    /// Removes the name and the terms of a namespace. The caller must flush the namespace's items with
    /// [`segment::ItemsMut::flush`]. `evict` is true if items of namespaces without a quota are evicted.
    pub fn unset(&self, store: &Store, namespace: Namespace, evict: bool) {
        let plain = NamespaceConfig::plain(namespace.0, evict);
        self.set(store, &plain).expect("terms without limits are never refused");
        self.lock().retain(|config| config.number != namespace.0);
        self.changes.fetch_add(1, Release);
        if let Some(notes) = &self.notes {
            let _ = notes.namespace_removed(namespace.0);
        }
    }

    /// Returns the namespaces of all databases.
    pub fn databases(&self) -> Databases {
        Databases::of(self.databases.0.load(Acquire)).unwrap_or_default()
    }

    /// Returns how often [`Namespaces::swap`] was called.
    pub(crate) fn swaps(&self) -> u64 {
        self.swaps.load(Acquire)
    }

    /// Returns how often [`Namespaces::swap`] was called for a database.
    pub(crate) fn swaps_of(&self, database: u8) -> u32 {
        self.swaps_of[usize::from(database)].load(Acquire)
    }

    /// Exchanges the namespaces of two databases. The caller keeps all other workers from accessing keys until they
    /// have begun another batch.
    pub(crate) fn swap(&self, a: u8, b: u8) {
        let databases = self.databases().swapped(a, b);
        // If the metadata log has no room for the record, an error is logged, and the change is lost when the process
        // ends.
        if let Some(notes) = &self.notes {
            let _ = notes.databases(databases);
        }
        for database in [a, b] {
            self.swaps_of[usize::from(database)].fetch_add(1, SeqCst);
        }
        self.databases.0.store(databases.packed(), SeqCst);
        self.swaps.fetch_add(1, SeqCst);
        self.guard(SWAPPED, true);
    }

    /// Returns how often a name or terms were set or removed.
    pub fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Returns the namespaces that have a name, in the order of their numbers.
    pub fn named(&self) -> Vec<NamespaceConfig> {
        self.lock().clone()
    }

    /// Returns the name of a namespace, or its number if it has no name.
    pub fn name(&self, namespace: Namespace) -> String {
        let name = self.lock().iter().find(|config| config.number == namespace.0).map(|config| config.name.clone());
        match name {
            Some(name) => name,
            None if namespace == Namespace::DEFAULT => DEFAULT_NAME.to_owned(),
            None => namespace.0.to_string(),
        }
    }

    /// Returns the namespace with this name, or of the database with this number.
    pub fn find(&self, text: &[u8]) -> Option<Namespace> {
        let number = std::str::from_utf8(text).ok()?;
        // As in Redis, a number has no plus sign and no leading zeros.
        if let Some(number) = number.parse::<u8>().ok().filter(|parsed| parsed.to_string() == number) {
            return NUMBERS.contains(&number).then(|| self.databases().namespace(number));
        }
        let named = self.lock().iter().find(|config| config.name.as_bytes() == text).map(|c| Namespace(c.number));
        named.or_else(|| (text == DEFAULT_NAME.as_bytes()).then_some(Namespace::DEFAULT))
    }

    /// Counts a new connection and returns true. If the namespace already has its maximum number of connections, counts
    /// a refused connection instead and returns false.
    pub fn enter(&self, namespace: Namespace) -> bool {
        let room = self.room(namespace);
        let most = room.connections_max.load(Relaxed);
        let one_more = |open: u64| (most == 0 || open < most).then_some(open + 1);
        let entered = room.connections.fetch_update(Relaxed, Relaxed, one_more).is_ok();
        if !entered {
            room.connections_refused.fetch_add(1, Relaxed);
        }
        entered
    }

    /// Counts a connection that was already admitted, without checking the limit.
    pub fn count_in(&self, namespace: Namespace) {
        self.room(namespace).connections.fetch_add(1, Relaxed);
    }

    /// Subtracts a connection that ends or switches to another namespace.
    pub fn leave(&self, namespace: Namespace) {
        let before = self.room(namespace).connections.fetch_sub(1, Relaxed);
        assert!(before > 0, "only a counted connection leaves");
    }

    /// Returns a bit for each namespace with a quota of operations per second, and the bit [`ROUTED`].
    #[inline]
    pub(crate) fn guards(&self) -> u32 {
        self.guards.load(Relaxed)
    }

    /// Takes one operation from a namespace's quota of operations per second, and returns true. If the quota is used
    /// up, counts a refused operation and returns false.
    pub(crate) fn take_op(&self, namespace: Namespace, now: UnixMillis) -> bool {
        self.room(namespace).ops.take(now)
    }

    /// Uses up a namespace's quota of operations for the next `ms` milliseconds, so that all operations are refused
    /// during that time. An operator can use this to block the namespace's clients for a while. Tests use it too.
    pub fn use_up_quota(&self, namespace: Namespace, ms: u64) {
        self.room(namespace).ops.use_up(UnixMillis(UnixMillis::now().0 + ms));
    }

    /// Returns the use of a namespace's limits of connections and operations.
    pub fn stats(&self, namespace: Namespace) -> UsageStats {
        let room = self.room(namespace);
        UsageStats {
            connections: room.connections.load(Relaxed),
            connections_refused: room.connections_refused.load(Relaxed),
            ops_refused: room.ops.refused(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segment::StoreConfig;

    fn store() -> std::sync::Arc<Store> {
        let config = StoreConfig {
            memory_bytes: 32 << 20,
            memory_bytes_max: 0,
            segment_bytes: None,
            item_bytes_max: 1 << 20,
            handles_max: 1,
            hash_seed: 1,
            huge_pages: false,
        };
        Store::new(&config, UnixMillis(1)).expect("store").0
    }

    #[test]
    fn namespace_is_found_by_name_and_number_until_it_is_dropped() {
        let (namespaces, store) = (Namespaces::default(), store());
        assert_eq!(namespaces.find(b"15"), Some(Namespace(15)));
        assert_eq!((namespaces.find(b"16"), namespaces.find(b"-1"), namespaces.find(b"shop")), (None, None, None));
        assert_eq!(namespaces.find(b"default"), Some(Namespace::DEFAULT));
        let shop = NamespaceConfig { name: "shop".to_owned(), ..NamespaceConfig::plain(3, true) };
        namespaces.set(&store, &shop).expect("it may be");
        assert_eq!((namespaces.find(b"shop"), namespaces.name(Namespace(3))), (Some(Namespace(3)), "shop".to_owned()));
        namespaces.unset(&store, Namespace(3), true);
        assert_eq!((namespaces.find(b"shop"), namespaces.name(Namespace(3))), (None, "3".to_owned()));
        assert_eq!(namespaces.named(), []);
    }

    #[test]
    fn connections_and_operations_are_refused_above_their_quota_and_counted() {
        let (namespaces, store) = (Namespaces::default(), store());
        let config = NamespaceConfig { connections_max: 2, ops_max: 100, ..NamespaceConfig::plain(3, true) };
        namespaces.set(&store, &config).expect("it may be");
        let shop = Namespace(3);
        assert!(namespaces.enter(shop) && namespaces.enter(shop) && !namespaces.enter(shop));
        namespaces.leave(shop);
        assert!(namespaces.enter(shop) && namespaces.guards() == 8);
        // A burst holds the operations of a tenth of a second. Then one operation is allowed every ten milliseconds.
        let taken = |ms: u64| (0..50).filter(|_| namespaces.take_op(shop, UnixMillis(1_000_000 + ms))).count();
        assert_eq!([taken(0), taken(0), taken(10), taken(1000), taken(2000)], [10, 0, 1, 10, 10]);
        let stats = namespaces.stats(shop);
        assert_eq!((stats.connections, stats.connections_refused, stats.ops_refused), (2, 1, 250 - 31));
    }
}
