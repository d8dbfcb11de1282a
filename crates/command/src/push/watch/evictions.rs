//! Reports of the background thread's evictions and expiries to watchers and subscribers.

use super::{Hub, LineHead, Lines, WatchKind};
use crate::push::notify::{self, KeyEvent};
use crate::push::tracking::{Broadcasts, Tracking};
use crate::shared::Shared;
use crate::visit::clock::Clock;
use segment::{Evicted, EvictionObserver, Expire, KeyEnd, Namespace};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum memory of the expired or evicted keys that are retained during one slice, with their entries, in bytes.
/// Events of further keys are lost, and clients that track keys receive the invalidation of all keys.
const ENDED_BYTES_MAX: usize = 128 << 10;

/// Evictions and expiries that are not published yet. The store's observer and the background thread share them. Both
/// run on the same thread, so the lock is never contended.
#[derive(Clone, Debug)]
pub struct Evictions {
    hub: Arc<Hub>,
    tracking: Arc<Tracking>,
    clock: Clock,
    lines: Arc<Mutex<Lines>>,
    /// The evicted or expired keys that must be published to subscribers.
    ended: Arc<Mutex<RemovedItem>>,
    /// True if there were watchers or other reasons to inspect requests (`Watched::any`) after the last slice. If there
    /// are none now, the memory of the lines is freed.
    was_watched: bool,
}

/// Evicted or expired keys, in order.
#[derive(Debug, Default)]
struct RemovedItem {
    bytes: Vec<u8>,
    keys: Vec<(KeyEvent, Namespace, usize)>,
    /// True if a key was lost because the memory was used up.
    is_incomplete: bool,
}

impl RemovedItem {
    fn add(&mut self, event: KeyEvent, namespace: Namespace, key: &[u8]) {
        let held = self.bytes.len() + self.keys.len() * size_of::<(KeyEvent, Namespace, usize)>();
        if held + key.len() < ENDED_BYTES_MAX {
            self.bytes.extend_from_slice(key);
            self.keys.push((event, namespace, self.bytes.len()));
        } else {
            self.is_incomplete = true;
        }
    }
}

impl Evictions {
    /// Creates an observer that reports evictions and expiries to the clients of the server.
    pub fn new(shared: &Shared, clock: &Clock) -> Self {
        Self {
            hub: Arc::clone(&shared.watch),
            tracking: Arc::clone(&shared.tracking),
            clock: clock.clone(),
            lines: Arc::default(),
            ended: Arc::default(),
            was_watched: false,
        }
    }

    /// Publishes the evictions and expiries of a slice that has ended.
    pub fn publish(&mut self, shared: &Shared) {
        let mut note = |worker, connection| shared.mark_messages(worker, connection);
        if self.hub.watched().reports_changes() || self.was_watched {
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let RemovedItem { bytes, keys, is_incomplete } = std::mem::take(&mut *ended);
            drop(ended);
            let (mut from, mut invalidations, mut broadcasts) = (0, Vec::new(), Broadcasts::default());
            if self.hub.has_group_waiters() && (is_incomplete || !keys.is_empty()) {
                let place = |from: &mut usize, (_, namespace, to): &(KeyEvent, Namespace, usize)| {
                    Some((*namespace, &bytes[std::mem::replace(from, *to)..*to]))
                };
                let removed: HashSet<(Namespace, &[u8])> = keys.iter().scan(0, place).collect();
                let is_removed = |namespace, key: &[u8]| is_incomplete || removed.contains(&(namespace, key));
                shared.waiters.announce_removed(&is_removed, &mut note);
            }
            if is_incomplete && self.hub.watched().has_trackers() {
                invalidations.push(shared.tracking.flush());
            }
            for (event, namespace, to) in keys {
                let (events, key) = (shared.key_events(), &bytes[from..to]);
                invalidations.extend(shared.tracking.change((namespace, key), 0, &mut broadcasts));
                let database = shared.namespaces.databases().database(namespace);
                notify::publish(&shared.channels, events, database, event, key, |name, text| {
                    shared.channels.publish(crate::push::outbox::ChannelKind::Channel, name, text, &mut note);
                });
                from = to;
            }
            for mut invalidation in invalidations.into_iter().chain(broadcasts.take()) {
                invalidation.send_all(&shared.tracking, &mut note);
            }
        }
        let watched = self.hub.watched().any();
        if watched || self.was_watched {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            if watched {
                self.hub.publish(&mut lines, &mut note);
            } else {
                lines.free();
            }
        }
        self.was_watched = watched;
    }
}

impl Evictions {
    /// Returns true if key events are published, or clients track keys or wait for the end of a stream.
    fn wants_ends(&self) -> bool {
        self.wants_expired() || self.hub.has_group_waiters()
    }

    /// Retains the key of a removed item until the slice ends, if key events are published or clients track the key.
    fn keep(&self, event: KeyEvent, namespace: Namespace, key: &[u8]) {
        let is_wanted = self.hub.watched().has_key_events() || self.hub.has_group_waiters();
        if !is_wanted && !self.tracking.may_have(namespace, key) {
            return;
        }
        let mut keys = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        keys.add(event, namespace, key);
    }
}

impl EvictionObserver for Evictions {
    fn wanted(&self) -> bool {
        let watched = self.hub.watched();
        watched.has(WatchKind::Evictions) || self.wants_ends()
    }

    fn wants_expired(&self) -> bool {
        self.hub.watched().has_key_events() || self.hub.watched().has_trackers()
    }

    fn expired(&mut self, expired: &Evicted<'_>) {
        self.keep(KeyEvent::EXPIRED, expired.namespace, expired.item.key);
    }

    fn key_ended(&mut self, namespace: Namespace, key: &[u8], end: KeyEnd) {
        let event = match end {
            KeyEnd::Expired => KeyEvent::EXPIRED,
            KeyEnd::Evicted => KeyEvent::EVICTED,
        };
        self.keep(event, namespace, key);
    }

    fn missed_keys(&mut self) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).is_incomplete = true;
    }

    fn evicted(&mut self, evicted: &Evicted<'_>) {
        if self.wants_ends() {
            self.keep(KeyEvent::EVICTED, evicted.namespace, evicted.item.key);
        }
        if !self.hub.watched().has(WatchKind::Evictions) {
            return;
        }
        let now = self.clock.unix();
        let ttl = match evicted.item.expire {
            Expire::Never => -1,
            Expire::At(at) => i64::try_from(at.ms_since(now).div_ceil(1000)).unwrap_or(i64::MAX),
        };
        let idle = now.ms_since(evicted.item.last_access) / 1000;
        let head = LineHead { now, gid: self.hub.number() };
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.write_line(WatchKind::Evictions, |line| head.eviction(line, evicted.item, ttl, idle));
    }
}
