//! The state of checkpoints, which all threads share: see [`crate::durable::checkpoint`].

use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;

use base::clock::UnixMillis;

use crate::durable::checkpoint::record::{Record, Records};
use crate::layout::raw::{Mutex, MutexGuard};
use crate::locks::undo_log::{ChangingKey, RECORDS_MAX};

/// The state of a store's checkpoints.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    pub(super) records: Option<Records>,
    /// The sequence below which open segments have to be sealed.
    pub(super) before: AtomicU64,
    /// Keys of atomic changes that began before the latest checkpoint's `begin` and ended after it: at most
    /// [`RECORDS_MAX`] + 1 keys, which is enough to detect that they do not fit.
    pub(super) spanning: Mutex<Vec<ChangingKey>>,
    pub(super) made: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) at_ms: AtomicU64,
    pub(super) segments: AtomicU64,
}

/// The results of checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStats {
    /// Checkpoints that this process made.
    pub made: u64,
    /// Checkpoints that failed because of a write error of the disk.
    pub failed: u64,
    /// The instant at which the last checkpoint in the file was begun, by this process or an earlier process. 0: the
    /// file has no checkpoint.
    pub last: UnixMillis,
    /// The number of segments that the last checkpoint includes.
    pub segments: u64,
}

impl Checkpoints {
    pub(crate) fn new(records: Option<Records>) -> Self {
        let last = records.as_ref().and_then(Records::latest);
        let (at_ms, segments) = last.map_or((0, 0), |last| (last.at_ms, last.segments()));
        Self {
            records,
            before: AtomicU64::new(0),
            spanning: Mutex::new(Vec::new()),
            made: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            at_ms: AtomicU64::new(at_ms),
            segments: AtomicU64::new(segments),
        }
    }

    /// Returns the sequence below which open segments have to be sealed.
    #[inline]
    pub(crate) fn before(&self) -> u64 {
        self.before.load(Acquire)
    }

    /// Returns true if this process makes checkpoints.
    #[inline]
    pub(crate) fn are_made(&self) -> bool {
        self.records.is_some()
    }

    /// Records the keys of an atomic change that began before the latest checkpoint's `begin` and is about to end.
    #[cold]
    pub(crate) fn note_spanning(&self, keys: impl Iterator<Item = ChangingKey>) {
        let mut all = self.spanning();
        let room = RECORDS_MAX + 1 - all.len();
        all.extend(keys.take(room));
    }

    pub(super) fn spanning(&self) -> MutexGuard<'_, Vec<ChangingKey>> {
        self.spanning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last checkpoint in the file.
    pub(crate) fn latest(&self) -> Option<Record> {
        self.records.as_ref().and_then(Records::latest)
    }
}
