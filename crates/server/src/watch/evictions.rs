//! The background thread as one that is watched.

use super::{Head, Hub, Kind, Lines};
use crate::clock::Clock;
use segment::{Evicted, EvictionObserver, Expire, Namespace};
use std::sync::{Arc, Mutex, PoisonError};

/// Evictions that are not published yet. The store's observer and the background thread each have one; both are the
/// same thread, so its lock is always free.
#[derive(Clone, Debug)]
pub(crate) struct Evictions {
    hub: Arc<Hub>,
    clock: Clock,
    lines: Arc<Mutex<Lines>>,
    /// The last slice was watched: there may be something to free.
    was_watched: bool,
}

impl Evictions {
    pub(crate) fn new(hub: &Arc<Hub>, clock: &Clock) -> Self {
        Self { hub: Arc::clone(hub), clock: clock.clone(), lines: Arc::default(), was_watched: false }
    }

    /// The end of a slice: publishes what was evicted in it.
    pub(crate) fn publish(&mut self, wake: impl FnMut(usize)) {
        let watched = self.hub.watched().any();
        if watched || self.was_watched {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            if watched {
                self.hub.publish(&mut lines, wake);
            } else {
                lines.free();
            }
        }
        self.was_watched = watched;
    }
}

impl EvictionObserver for Evictions {
    fn wanted(&self) -> bool {
        self.hub.watched().has(Kind::Evictions)
    }

    fn evicted(&mut self, evicted: &Evicted<'_>) {
        if evicted.namespace != Namespace::DEFAULT {
            return;
        }
        let now = self.clock.unix();
        let ttl = match evicted.item.expire {
            Expire::Never => -1,
            Expire::At(at) => i64::try_from(at.ms_since(now).div_ceil(1000)).unwrap_or(i64::MAX),
        };
        let idle = now.ms_since(evicted.item.last_access) / 1000;
        let head = Head { now, gid: self.hub.number() };
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.tell(Kind::Evictions, |line| head.eviction(line, evicted.item, ttl, idle));
    }
}
