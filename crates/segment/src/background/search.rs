//! The background's side of [`crate::heap::back_pressure`]: records whether rounds of the header scan gain memory for a
//! waiting thread.
//!
//! Compaction may copy a segment and gain nothing, because the copies leave as many unused bytes at the ends of their
//! segments. So a pool's gain is not what the scan finds. It is the number of segments that the background has freed,
//! less those that it has taken for its copies.

use super::{Background, SCAN_HEADERS, of_pool};
use crate::core::capacity::{alive_or_free, is_full};
use crate::core::store::Store;
use crate::layout::key::Namespace;

/// The number of times that the scan passes every header without a gain before a pool counts as full. Segments of which
/// little is dead are gained only when most of them have been copied, and the first round may begin beside a copy.
const ROUNDS: u64 = 2;
/// The maximum number of slices without a gain for which deferred frees, work on regions of the second tier, or
/// segments in quarantine keep a pool from counting as full.
const SLICES_MAX: u32 = 512;

/// The search for memory in one pool, since the last gain. A pool is a namespace with a quota, or all namespaces
/// without a quota.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PoolSearch {
    /// The value of [`Search::passed`] when the search began. `None`: no thread waits.
    began: Option<u64>,
    /// The number of slices since then.
    slices: u32,
    /// The pool's bytes in live items and free segments when the search began.
    alive_or_free: u64,
    /// The pool's balance when the search began.
    balance: i64,
    /// The highest sum of the pool's balance and its segments in quarantine, since the first thread waited.
    best: i64,
}

/// The searches of all pools.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The total number of headers that the scan has passed.
    passed: u64,
    /// The number of segments that the background has freed, by namespace.
    freed: [u64; Namespace::MAX],
    pools: [PoolSearch; Namespace::MAX],
}

impl Search {
    /// Records that the scan passes a header.
    pub(super) fn pass(&mut self) {
        self.passed += 1;
    }

    /// Records that a drain has no free segment for its copies. It counts as [`SCAN_HEADERS`] passed headers.
    pub(super) fn is_stuck(&mut self) {
        self.passed += SCAN_HEADERS as u64;
    }

    /// Records that a segment of a namespace was freed.
    pub(super) fn freed(&mut self, namespace: u8) {
        self.freed[usize::from(namespace)] += 1;
    }

    /// Records that a segment is drained without copies, which is a gain. Ends the pool's search, and clears the
    /// finding that the pool is full.
    pub(super) fn found(&mut self, store: &Store, pool: u8) {
        self.pools[usize::from(pool)].began = None;
        store.shortages.report(pool, None);
    }
}

/// Returns a pool's balance: the segments that the background has freed less those that it has taken. The second value
/// is the number of segments that will be free soon.
fn balance(background: &Background, store: &Store, pool: u8) -> (i64, i64) {
    of_pool(store, pool).fold((0, 0), |(balance, soon), namespace| {
        let at = usize::from(namespace);
        let (freed, taken) = (background.search.freed[at], background.open.taken(namespace));
        (balance + freed as i64 - taken as i64, soon + background.soon_free[at] as i64)
    })
}

/// Ends the searches that have gained nothing, and begins searches for other pools with waiting threads. Called after
/// each slice. `digs`: deferred frees or work on the second tier's regions are in progress, so that more bytes may
/// become free.
pub(super) fn follow_shortages(background: &mut Background, store: &Store, digs: bool) {
    let pools = std::iter::once(Namespace::DEFAULT.0).chain(store.spaces.with_quota());
    for pool in pools.filter(|pool| store.keeps(Namespace(*pool))) {
        let waits = store.shortages.is_asked(pool) || !store.has_room(Namespace(pool), 0) && !is_full(store, pool);
        let (balance, soon) = balance(background, store, pool);
        let Search { passed, pools, .. } = &mut background.search;
        let search = &mut pools[usize::from(pool)];
        if !waits {
            *search = PoolSearch::default();
            continue;
        }
        let Some(began) = search.began else {
            let (began, alive_or_free) = (Some(*passed), alive_or_free(store, pool));
            let best = search.best.max(balance + soon);
            *search = PoolSearch { began, slices: 0, alive_or_free, balance, best };
            continue;
        };
        search.slices += 1;
        if balance + soon > search.best {
            search.best = balance + soon;
            background.search.found(store, pool);
        } else if (digs || soon > 0) && search.slices < SLICES_MAX {
            continue;
        } else if *passed - began >= ROUNDS * store.segments.high_water() as u64 {
            // The background's own copies have changed the number of free segments, but no item has died of them.
            let gained = (balance - search.balance) * store.segments.segment_bytes() as i64;
            store.shortages.report(pool, Some(search.alive_or_free.saturating_add_signed(gained)));
            search.began = None;
        }
    }
}
