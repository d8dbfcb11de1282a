//! Flushes that clients scheduled for a later instant (`flush_all` with a delay).

use base::clock::UnixMillis;
use segment::{Namespace, Store};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// The delayed flushes of all namespaces, at most one for each namespace. A new request replaces the namespace's
/// earlier flush. The first worker that begins an iteration after the scheduled instant executes the flush.
#[derive(Debug, Default)]
pub struct DelayedFlush {
    /// The store that persists the delayed flushes for the next process.
    store: Option<Arc<Store>>,
    /// A bit for each namespace that has a delayed flush, or had one earlier. Bits are never cleared.
    scheduled: AtomicU32,
    at_ms: [AtomicU64; Namespace::MAX],
    refused: AtomicBool,
}

impl DelayedFlush {
    /// Restores the delayed flushes of the previous process, and persists new ones in `store`.
    pub fn persisted_in(store: &Arc<Store>) -> Self {
        let flush = Self::default();
        for namespace in (0..Namespace::MAX as u8).map(Namespace) {
            if let Some(at) = store.persisted_flush_at(namespace) {
                flush.schedule(namespace, at);
            }
        }
        Self { store: Some(Arc::clone(store)), ..flush }
    }

    /// Schedules a flush of `namespace` at `at`. Replaces an earlier scheduled flush of the namespace that has not been
    /// executed yet.
    pub fn schedule(&self, namespace: Namespace, at: UnixMillis) {
        if let Some(store) = &self.store {
            store.persist_flush_at(namespace, Some(at));
        }
        self.at_ms[usize::from(namespace.0)].store(at.0.max(1), Release);
        self.scheduled.fetch_or(1 << namespace.0, Release);
    }

    /// Returns the instant of the scheduled flush of `namespace`.
    pub(crate) fn at(&self, namespace: Namespace) -> Option<UnixMillis> {
        Some(UnixMillis(self.at_ms[usize::from(namespace.0)].load(Acquire))).filter(|at| at.0 != 0)
    }

    /// Cancels a scheduled flush.
    pub fn cancel(&self, namespace: Namespace) {
        if let Some(store) = &self.store {
            store.persist_flush_at(namespace, None);
        }
        self.at_ms[usize::from(namespace.0)].store(0, Release);
    }

    /// Returns a namespace whose flush is due at `now`, and removes the flush. If several threads call this function,
    /// only one of them receives the flush.
    #[inline]
    pub fn take(&self, now: UnixMillis) -> Option<Namespace> {
        if self.scheduled.load(Acquire) == 0 { None } else { self.take_scheduled(now) }
    }

    #[cold]
    fn take_scheduled(&self, now: UnixMillis) -> Option<Namespace> {
        let scheduled = self.scheduled.load(Acquire);
        for number in (0..Namespace::MAX as u8).filter(|number| scheduled & 1 << number != 0) {
            let at_ms = &self.at_ms[usize::from(number)];
            let at = at_ms.load(Acquire);
            if at != 0 && at <= now.0 && at_ms.compare_exchange(at, 0, AcqRel, Relaxed).is_ok() {
                return Some(Namespace(number));
            }
        }
        None
    }

    /// Reschedules a flush that could not be executed, with `now` as its instant. Does nothing if a client has
    /// scheduled another flush of the namespace meanwhile.
    pub fn put_back(&self, namespace: Namespace, now: UnixMillis) {
        self.note_refused();
        let _ = self.at_ms[usize::from(namespace.0)].compare_exchange(0, now.0.max(1), AcqRel, Relaxed);
    }

    /// Records that a flush could not be executed because the background thread was busy. The flush is retried soon.
    pub(crate) fn note_refused(&self) {
        self.refused.store(true, Relaxed);
    }

    /// Returns true if a flush could not be executed since the last call of this function.
    pub fn take_refused(&self) -> bool {
        self.refused.load(Relaxed) && self.refused.swap(false, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delayed_flush_is_taken_once_and_not_before_it_is_due() {
        let (flush, shop) = (DelayedFlush::default(), Namespace(3));
        assert_eq!(flush.take(UnixMillis(u64::MAX)), None);
        flush.schedule(shop, UnixMillis(50));
        flush.schedule(Namespace::DEFAULT, UnixMillis(60));
        assert_eq!((flush.take(UnixMillis(49)), flush.take(UnixMillis(50))), (None, Some(shop)));
        assert_eq!(flush.take(UnixMillis(50)), None);
        flush.put_back(shop, UnixMillis(50));
        assert_eq!(flush.take(UnixMillis(51)), Some(shop));
        flush.cancel(Namespace::DEFAULT);
        assert_eq!(flush.take(UnixMillis(61)), None);
    }
}
