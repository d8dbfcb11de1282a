//! Invalidations, which are sent to their clients in slices.

use super::Tracking;
use super::client::{TrackingClient, bit_of, lock};
use super::prefixes::{CLIENTS_A_LOCK, Prefix};
use crate::push::outbox::{Channels, Message, MessageForm};
use protocol::resp::reply;
use segment::Namespace;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// A changed key, and the client that has changed it; 0 for another one.
type ChangedKey = (Box<[u8]>, u64);

/// A prefix with its changed keys, and the client that has changed each of them.
type ChangedPrefix = (Arc<Prefix>, BTreeMap<Box<[u8]>, u64>);

/// The keys of a prefix that have changed during a batch. They are sent together when the batch ends, as Redis does.
#[derive(Debug, Default)]
pub(crate) struct Broadcasts {
    prefixes: BTreeMap<(u64, u8), ChangedPrefix>,
    /// The number of bytes of all keys, each counted once for each prefix.
    bytes: usize,
}

impl Broadcasts {
    /// Adds a key that the client `author` has changed.
    pub(super) fn add(&mut self, prefix: &Arc<Prefix>, namespace: Namespace, key: &[u8], author: u64) {
        let place = (prefix.number, namespace.0);
        self.bytes += key.len();
        let (_, keys) = self.prefixes.entry(place).or_insert_with(|| (Arc::clone(prefix), BTreeMap::new()));
        keys.insert(key.into(), author);
    }

    /// Returns true if no key was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// Returns the number of bytes of all keys.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes all keys, and returns their invalidations.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Invalidation> + use<> {
        std::mem::take(self).prefixes.into_iter().map(|((_, namespace), (prefix, keys))| Invalidation {
            keys: keys.into_iter().collect(),
            to: Receivers::Prefix { prefix, namespaces: bit_of(Namespace(namespace)), after: 0 },
        })
    }
}

/// The clients that receive an invalidation, from the next one on.
#[derive(Debug)]
enum Receivers {
    Clients { clients: Vec<Arc<TrackingClient>>, at: usize },
    Prefix { prefix: Arc<Prefix>, namespaces: u32, after: u64 },
    All { namespaces: u32, after: u64 },
}

/// An invalidation with the clients that have not received it.
#[derive(Debug)]
pub(crate) struct Invalidation {
    /// The changed keys; none for all keys.
    keys: Vec<ChangedKey>,
    to: Receivers,
}

impl Invalidation {
    /// Creates the invalidation of a key that the client `author` has changed.
    pub(super) fn of_key(key: &[u8], clients: Vec<Arc<TrackingClient>>, author: u64) -> Self {
        Self { keys: vec![(key.into(), author)], to: Receivers::Clients { clients, at: 0 } }
    }

    /// Creates the invalidation of all keys for some clients.
    pub(super) fn of_all_keys(clients: Vec<Arc<TrackingClient>>) -> Self {
        Self { keys: Vec::new(), to: Receivers::Clients { clients, at: 0 } }
    }

    /// Creates the invalidation of all keys for the clients that have used one of some namespaces.
    pub(super) fn of_flush(namespaces: u32) -> Self {
        Self { keys: Vec::new(), to: Receivers::All { namespaces, after: 0 } }
    }

    /// Sends the invalidation to all its clients. Only threads that are not workers may call this function.
    pub(crate) fn send_all(&mut self, tracking: &Tracking, note: &mut impl FnMut(usize, u32)) {
        let mut work = usize::MAX;
        while !self.send_some(tracking, &mut work, note) {}
    }

    /// Sends the invalidation to further clients. Each costs one unit of `work`. Returns true if no client is left.
    /// Calls `note` with the worker and the number of each connection that must be notified.
    pub(crate) fn send_some(
        &mut self,
        tracking: &Tracking,
        work: &mut usize,
        note: &mut impl FnMut(usize, u32),
    ) -> bool {
        let Self { keys, to } = self;
        let mut message = KeysMessage { keys, without: 0, made: [None, None] };
        while *work > 0 {
            let clients = to.next(tracking);
            *work = work.saturating_sub(clients.len() + 1);
            for client in clients.iter().filter(|client| to.concerns(client)) {
                let authored = |key: &ChangedKey| key.1 == client.id;
                if client.is_no_loop() && keys.iter().any(authored) {
                    if !keys.iter().all(authored) {
                        let mut others = KeysMessage { keys, without: client.id, made: [None, None] };
                        tracking.send(client, &mut others, note);
                        *work = work.saturating_sub(keys.len());
                    }
                    continue;
                }
                tracking.send(client, &mut message, note);
            }
            if clients.len() < CLIENTS_A_LOCK {
                return true;
            }
        }
        false
    }
}

impl Receivers {
    /// Returns the next clients. Fewer than [`CLIENTS_A_LOCK`] are the last.
    fn next(&mut self, tracking: &Tracking) -> Vec<Arc<TrackingClient>> {
        let (next, after) = match self {
            Self::Clients { clients, at } => {
                let next: Vec<_> = clients[*at..].iter().take(CLIENTS_A_LOCK).cloned().collect();
                *at += next.len();
                return next;
            }
            Self::Prefix { prefix, after, .. } => (prefix.clients_after(*after), after),
            Self::All { after, .. } => {
                let behind = (Bound::Excluded(*after), Bound::Unbounded);
                let clients = lock(&tracking.clients);
                let next = clients.range(behind).map(|(_, client)| Arc::clone(client)).take(CLIENTS_A_LOCK);
                (next.collect(), after)
            }
        };
        *after = next.last().map_or(*after, |client: &Arc<TrackingClient>| client.id);
        next
    }

    /// Returns true if a client has used a namespace of the changed keys.
    fn concerns(&self, client: &TrackingClient) -> bool {
        match self {
            Self::Clients { .. } => true,
            Self::Prefix { namespaces, .. } | Self::All { namespaces, .. } => client.uses(*namespaces),
        }
    }
}

/// A message with keys, in the forms that its receivers need.
pub(super) struct KeysMessage<'k> {
    keys: &'k [ChangedKey],
    /// The client whose changes are left out; 0 for none.
    without: u64,
    /// The message for the client itself, and the message for a client to which it is redirected.
    made: [Option<Arc<Message>>; 2],
}

impl KeysMessage<'_> {
    /// Returns the message in one form.
    pub(super) fn get(&mut self, channels: &Channels, form: MessageForm) -> &Arc<Message> {
        let Self { keys, without, made } = self;
        made[usize::from(form == MessageForm::Redirected)].get_or_insert_with(|| {
            let listed = keys.iter().filter(|(_, author)| *without == 0 || author != without);
            let mut text = Vec::new();
            if !keys.is_empty() {
                reply::array(&mut text, listed.clone().count() as u64);
                listed.for_each(|(key, _)| reply::bulk(&mut text, key));
            }
            channels.new_message(form, text)
        })
    }
}
