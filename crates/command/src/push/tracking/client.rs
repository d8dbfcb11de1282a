//! A client that tracks keys.

use crate::clients::client_info::TrackingFlags;
use crate::push::outbox::Outbox;
use protocol::resp::{Version, reply};
use segment::Namespace;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the bit of a namespace.
pub(super) fn bit_of(namespace: Namespace) -> u32 {
    1 << namespace.0
}

/// A client that tracks keys, as the tables see it.
#[derive(Debug)]
pub(crate) struct TrackingClient {
    pub(crate) id: u64,
    /// The properties that `CLIENT LIST` shows.
    pub(crate) flags: Arc<TrackingFlags>,
    is_on: AtomicBool,
    /// True if the client receives no invalidations because of its own changes.
    no_loop: AtomicBool,
    /// A bit for each namespace that the client has used since it began to track keys.
    namespaces: AtomicU32,
    outbox: Arc<Outbox>,
    /// The outbox of the client to which the invalidations are redirected.
    target: Mutex<Option<Arc<Outbox>>>,
}

impl TrackingClient {
    /// Creates a client with the number `id`, whose messages go to `outbox`.
    pub(crate) fn new(id: u64, outbox: &Arc<Outbox>) -> Arc<Self> {
        Arc::new(Self {
            id,
            flags: Arc::default(),
            is_on: AtomicBool::new(true),
            no_loop: AtomicBool::new(false),
            namespaces: AtomicU32::new(0),
            outbox: Arc::clone(outbox),
            target: Mutex::default(),
        })
    }

    /// Sets the client to which the invalidations are redirected, and whether own changes are not reported.
    pub(crate) fn set(&self, redirect: Option<(u64, Arc<Outbox>)>, broadcasts: bool, no_loop: bool) {
        self.flags.redirect.store(redirect.as_ref().map_or(0, |(id, _)| *id), Relaxed);
        self.flags.is_broken.store(false, Relaxed);
        self.flags.broadcasts.store(broadcasts, Relaxed);
        self.no_loop.store(no_loop, Relaxed);
        *lock(&self.target) = redirect.map(|(_, outbox)| outbox);
    }

    /// Records that the client uses a namespace.
    pub(crate) fn note_namespace(&self, namespace: Namespace) {
        if !self.uses(bit_of(namespace)) {
            self.namespaces.fetch_or(bit_of(namespace), Relaxed);
        }
    }

    /// Returns true if the client has used one of the namespaces with these bits.
    pub(super) fn uses(&self, namespaces: u32) -> bool {
        self.namespaces.load(Relaxed) & namespaces != 0
    }

    /// Returns true if the client receives no invalidations because of its own changes.
    pub(crate) fn is_no_loop(&self) -> bool {
        self.no_loop.load(Relaxed)
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    pub(super) fn switch_off(&self) {
        self.is_on.store(false, Relaxed);
    }

    pub(super) fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    pub(super) fn target(&self) -> Option<Arc<Outbox>> {
        lock(&self.target).clone()
    }

    /// Records that the client to which the invalidations are redirected has ended. Returns the message about it.
    pub(super) fn record_broken_redirection(&self) -> Vec<u8> {
        self.flags.is_broken.store(true, Relaxed);
        let mut text = Vec::new();
        reply::push(&mut text, Version::Resp3, 2);
        reply::bulk(&mut text, b"tracking-redir-broken");
        reply::int(&mut text, self.flags.redirect.load(Relaxed) as i64);
        text
    }
}
