//! The queue of deferred frees that wait for the background: see [`crate::values::deferred_free`].

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::layout::raw::{Mutex, MutexGuard};
use crate::values::part_walk::PartWalk;

/// The maximum memory of the queue, in bytes: enough for the parts of about 50,000,000 hash fields.
pub(crate) const QUEUE_BYTES_MAX: u64 = 8 << 20;

/// The pieces or parts of one value that still have to be removed.
#[derive(Debug)]
pub(crate) struct DeferredFree {
    pub(super) namespace: u8,
    pub(super) object: u64,
    pub(super) left: Remaining,
}

/// The work of one slice of the background on deferred frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// There was none.
    Nothing,
    /// All are complete, or the next one waits for a lock.
    AllOrBusy,
    /// More are waiting, and the next slice can continue.
    SomeOfMore,
}

#[derive(Debug)]
pub(super) enum Remaining {
    /// The pieces `next..end`.
    Pieces { next: u32, end: u32 },
    /// Parts with all parts below them. If they are all parts of the object (`ends`), its anchor is removed after them.
    Parts { walk: PartWalk, ends: bool },
}

/// The deferred frees that wait for the background.
#[derive(Debug, Default)]
pub(crate) struct FreeQueue {
    pub(super) queue: Mutex<WaitingFrees>,
    /// The memory that the waiting and reserved deferred frees take, in bytes.
    pub(super) bytes: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct WaitingFrees {
    pub(super) deferred: VecDeque<DeferredFree>,
    /// The objects whose pieces or parts are all to be removed, including reserved ones.
    pub(super) objects: HashSet<u64>,
}

impl DeferredFree {
    /// Returns a deferred free of all parts of an object, and of its anchor.
    pub(crate) fn of_object(namespace: u8, object: u64, walk: PartWalk) -> Self {
        Self { namespace, object, left: Remaining::Parts { walk, ends: true } }
    }

    /// Returns a deferred free of parts, and of the parts below them, that the head of their object does not name any
    /// more.
    pub(crate) fn of_loose(namespace: u8, object: u64, walk: PartWalk) -> Self {
        Self { namespace, object, left: Remaining::Parts { walk, ends: false } }
    }

    /// Returns the object's number if all its pieces or parts are removed, or `None` for loose parts.
    pub(crate) fn ends(&self) -> Option<u64> {
        (!matches!(self.left, Remaining::Parts { ends: false, .. })).then_some(self.object)
    }

    fn bytes(&self) -> u64 {
        let parts = match &self.left {
            Remaining::Pieces { .. } => 0,
            Remaining::Parts { walk, .. } => walk.bytes(),
        };
        // The object's number also takes memory in `WaitingFrees::objects`.
        (size_of::<Self>() + parts + 3 * size_of::<u64>()) as u64
    }
}

impl FreeQueue {
    /// Adds a deferred free to the queue, or returns it as the error if the queue is full.
    pub(super) fn push(&self, deferred: DeferredFree) -> Result<(), DeferredFree> {
        if !self.reserve(&deferred) {
            return Err(deferred);
        }
        self.push_reserved(deferred);
        Ok(())
    }

    /// Reserves room in the queue for a deferred free that is pushed later. Returns false if the queue is full. After
    /// a reservation, [`FreeQueue::ends`] already returns true for its object.
    pub(crate) fn reserve(&self, deferred: &DeferredFree) -> bool {
        let bytes = deferred.bytes();
        if self.bytes.fetch_add(bytes, Relaxed) + bytes > QUEUE_BYTES_MAX {
            self.bytes.fetch_sub(bytes, Relaxed);
            return false;
        }
        self.lock().objects.extend(deferred.ends());
        true
    }

    /// Adds a deferred free for which room was reserved.
    pub(crate) fn push_reserved(&self, deferred: DeferredFree) {
        self.lock().deferred.push_back(deferred);
    }

    pub(crate) fn pop(&self) -> Option<DeferredFree> {
        if self.bytes.load(Relaxed) == 0 {
            return None;
        }
        let mut queue = self.lock();
        let deferred = queue.deferred.pop_front()?;
        deferred.ends().map(|object| queue.objects.remove(&object));
        self.bytes.fetch_sub(deferred.bytes(), Relaxed);
        Some(deferred)
    }

    /// Returns true if a deferred free that waits or is reserved removes all pieces or parts of this object.
    pub(crate) fn ends(&self, object: u64) -> bool {
        self.bytes.load(Relaxed) > 0 && self.lock().objects.contains(&object)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, WaitingFrees> {
        self.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
