//! Client-side caching: clients that keep copies of values that they have read, and learn when these change
//! (`CLIENT TRACKING`).
//!
//! ```text
//!   GET k by C ──> table: k is tracked by C ──> the value is read ──> reply
//!   change of k, by any protocol or the background ──> table: k and its clients are removed ─┐
//!   change of k ──> prefixes: k is collected until the batch ends ──> clients of the prefix ─┤
//!   flush ──> table is emptied ──> all tracking clients ─────────────────────────────────────┤
//!                                   outbox of the client, or of the client to which it redirects
//! ```
//!
//! Invariant: a client that keeps a copy of a value has a tracked key, or an invalidation in its outbox behind the
//! reply, if the value has changed since it was read. The steps and their order:
//! - A client's tracking begins when the guards of all other workers that were in progress have ended
//!   ([`segment::GuardsMet`]). Each later guard sees [`Watched::has_trackers`](crate::push::watch::Watched), and
//!   reports its changes.
//! - A worker enters the key into the table, passes a `SeqCst` fence and then reads the value. It does so again in each
//!   visit in which it executes the request. A worker that changes the value does so first, passes a `SeqCst` fence and
//!   then looks into the table. One of the fences comes first: the change finds the entry, or the read finds the new
//!   value.
//! - The removal of an entry and the creation of its invalidation are one step. So the next change of the key sends
//!   nothing until the client has read the key again.
//! - While a request is unfinished, no message is moved to the client's output. An invalidation of a value that the
//!   request has already read therefore follows the reply. If a client redirects its invalidations, they may arrive on
//!   the other connection before the reply; clients mark a key before they request it, as for Redis.
//! - If a key cannot be tracked because memory is used up, the client receives its invalidation at once. If there are
//!   too many keys in one request, all its copies are invalidated.
//!
//! Bounds:
//!
//! | bounded | maximum | when it is exceeded |
//! |---|---|---|
//! | tracked keys | `tracking-table-max-keys` | another tracked key is invalidated and removed |
//! | keys and prefixes | client memory for subscriptions | as above; a prefix is refused |
//! | keys that one request tracks | [`KEYS_A_REQUEST_MAX`] | all the client's copies are invalidated |
//! | prefixes of a client, of all clients | [`PREFIXES_MAX`], [`ALL_PREFIXES_MAX`] | the command is refused |
//! | bytes of a prefix | [`PREFIX_BYTES_MAX`] | the command is refused |
//! | unsent invalidations of a client | as for a subscriber | the client is dropped |
//!
//! The clients of one key, of a prefix, and all clients are sent their messages in slices ([`Invalidation`]). Without
//! tracking clients, a change costs nothing: workers check a bit of a word that they load in any case.

mod client;
mod invalidation;
mod prefixes;
mod table;

pub(crate) use client::TrackingClient;
pub(crate) use invalidation::{Broadcasts, Invalidation};
pub(crate) use prefixes::PrefixRefused;
pub use prefixes::{ALL_PREFIXES_MAX, PREFIX_BYTES_MAX, PREFIXES_MAX};
pub use table::KEYS_MAX_DEFAULT;

use crate::push::outbox::{Channels, MessageForm};
use crate::push::watch::Hub;
use client::{bit_of, lock};
use prefixes::Prefixes;
use segment::Namespace;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use table::KeyTable;

/// The maximum number of keys that one request tracks.
pub(crate) const KEYS_A_REQUEST_MAX: usize = 1024;

/// All tracking clients, the keys that they track, and the prefixes of keys of which all changes are sent.
#[derive(Debug)]
pub struct Tracking {
    hub: Arc<Hub>,
    channels: Arc<Channels>,
    clients: Mutex<BTreeMap<u64, Arc<TrackingClient>>>,
    table: KeyTable,
    prefixes: Prefixes,
}

impl Tracking {
    /// Creates the table without clients. `hub` shows all workers if there are clients, and `channels` delivers their
    /// messages.
    pub fn new(hub: &Arc<Hub>, channels: &Arc<Channels>) -> Self {
        Self {
            hub: Arc::clone(hub),
            channels: Arc::clone(channels),
            clients: Mutex::default(),
            table: KeyTable::new(channels),
            prefixes: Prefixes::new(channels),
        }
    }

    /// Returns the number of clients that track keys.
    pub fn clients(&self) -> u64 {
        lock(&self.clients).len() as u64
    }

    /// Returns the number of tracked keys.
    pub fn keys(&self) -> u64 {
        self.table.keys()
    }

    /// Returns the number of tracked keys, counted once for each of their clients.
    pub fn items(&self) -> u64 {
        self.table.items()
    }

    /// Returns the number of prefixes of which clients receive all changes.
    pub fn prefixes(&self) -> u64 {
        self.prefixes.count()
    }

    /// Returns the maximum number of tracked keys; 0 for no maximum.
    pub fn keys_max(&self) -> u64 {
        self.table.keys_max()
    }

    /// Sets the maximum number of tracked keys; 0 for no maximum.
    pub fn set_keys_max(&self, keys: u64) {
        self.table.set_keys_max(keys);
    }

    /// Adds a client that begins to track keys.
    pub(crate) fn begin(&self, client: &Arc<TrackingClient>) {
        let mut clients = lock(&self.clients);
        clients.insert(client.id, Arc::clone(client));
        self.hub.set_trackers(true);
    }

    /// Removes a client that tracks keys no longer. The prefixes of the client are removed already.
    pub(crate) fn end(&self, client: &TrackingClient) {
        client.switch_off();
        self.table.note_ended();
        let mut clients = lock(&self.clients);
        clients.remove(&client.id);
        if clients.is_empty() {
            self.hub.set_trackers(false);
            self.table.clear();
        }
    }

    /// Enters a key into the table, before the client reads it. Returns the invalidations that this causes: of keys
    /// for which there is no more room, or of this key.
    pub(crate) fn track(&self, namespace: Namespace, key: &[u8], client: &Arc<TrackingClient>) -> Vec<Invalidation> {
        let (is_tracked, removed) = self.table.track((namespace, key), client);
        let removed = removed.into_iter().map(|(key, clients)| Invalidation::of_key(&key, clients, 0));
        let own = (!is_tracked).then(|| Invalidation::of_key(key, vec![Arc::clone(client)], 0));
        removed.chain(own).collect()
    }

    /// Returns the invalidation of all copies of one client.
    pub(crate) fn invalidate_all_of(client: &Arc<TrackingClient>) -> Invalidation {
        Invalidation::of_all_keys(vec![Arc::clone(client)])
    }

    /// Records a change of a key by the client `author` (0: another one). Removes the key from the table, and returns
    /// the invalidation for its clients. Collects the key in `broadcasts` if clients receive all changes of a prefix.
    pub(crate) fn change(
        &self,
        (namespace, key): (Namespace, &[u8]),
        author: u64,
        broadcasts: &mut Broadcasts,
    ) -> Option<Invalidation> {
        let clients = self.table.remove((namespace, key));
        if self.prefixes.count() != 0 {
            self.prefixes.each_of(key, |prefix| broadcasts.add(prefix, namespace, key, author));
        }
        clients.map(|clients| Invalidation::of_key(key, clients, author))
    }

    /// Returns true if a change of the key must be reported.
    pub(crate) fn may_have(&self, namespace: Namespace, key: &[u8]) -> bool {
        self.prefixes.count() != 0 || self.table.may_have((namespace, key))
    }

    /// Records that all keys of a namespace were removed, or of all namespaces. Empties the table, and returns the
    /// invalidation for all clients. They drop all their copies, also those of other namespaces, as in Redis.
    pub(crate) fn flush(&self) -> Invalidation {
        self.table.clear();
        Invalidation::of_flush(u32::MAX)
    }

    /// Records that databases have exchanged these two namespaces: a client that has used one of them is concerned by
    /// both from now on.
    pub(crate) fn swapped(&self, namespaces: [Namespace; 2]) {
        for client in lock(&self.clients).values() {
            if namespaces.into_iter().any(|namespace| client.uses(bit_of(namespace))) {
                namespaces.into_iter().for_each(|namespace| client.note_namespace(namespace));
            }
        }
    }

    /// Registers a client for all changes of keys with a prefix.
    pub(crate) fn add_prefix(&self, prefix: &[u8], client: &Arc<TrackingClient>) -> Result<(), PrefixRefused> {
        self.prefixes.add(prefix, client)
    }

    /// Removes the registration of a client for a prefix.
    pub(crate) fn remove_prefix(&self, prefix: &[u8], client: &TrackingClient) {
        self.prefixes.remove(prefix, client);
    }

    /// Frees the memory of removed keys, and removes entries of clients that have ended. The survey thread calls this
    /// function once a second.
    pub fn tidy(&self) {
        self.table.tidy();
    }

    /// Puts a message into the outbox of a client, or of the client to which it redirects. If that client has ended,
    /// reports this instead.
    fn send(
        &self,
        client: &TrackingClient,
        message: &mut invalidation::KeysMessage<'_>,
        note: &mut impl FnMut(usize, u32),
    ) {
        match client.target() {
            _ if !client.is_on() => {}
            None => self.channels.put(client.outbox(), message.get(&self.channels, MessageForm::Invalidation), note),
            Some(target) if !target.is_closed() => {
                self.channels.put(&target, message.get(&self.channels, MessageForm::Redirected), note);
            }
            Some(_) => {
                let text = client.record_broken_redirection();
                let message = self.channels.new_message(MessageForm::Push, text);
                self.channels.put(client.outbox(), &message, note);
            }
        }
    }
}
