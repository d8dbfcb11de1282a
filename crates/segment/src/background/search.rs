//! The background's side of [`crate::heap::back_pressure`]: records whether a round of the header scan found memory
//! that can be freed for a waiting thread.

use super::{Background, SCAN_HEADERS, of_pool};
use crate::core::capacity::alive_or_free;
use crate::core::store::Store;
use crate::layout::key::Namespace;

/// A round of the header scan for one pool. A pool is a namespace with a quota, or all namespaces without a quota.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SearchRound {
    /// The value of [`Search::passed`] when the round began. `None`: no round is in progress.
    began: Option<u64>,
    /// The pool's bytes in live items and free segments when the round began.
    alive_or_free: u64,
}

/// The rounds of all pools.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The total number of headers that the scan has passed.
    passed: u64,
    rounds: [SearchRound; Namespace::MAX],
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

    /// Records that memory can be freed for a pool. Ends the pool's round and clears the finding that the pool is full.
    pub(super) fn found(&mut self, store: &Store, pool: u8) {
        self.rounds[usize::from(pool)] = SearchRound::default();
        store.shortages.report(pool, None);
    }
}

/// Ends the rounds in which every header was passed, and begins rounds for other pools with waiting threads. Called
/// after each slice. `digs`: deferred frees or work on the second tier's regions are in progress, so that more bytes
/// may become free.
pub(super) fn follow_shortages(background: &mut Background, store: &Store, digs: bool) {
    let pools = std::iter::once(Namespace::DEFAULT.0).chain(store.spaces.with_quota());
    for pool in pools.filter(|pool| store.keeps(Namespace(*pool))) {
        if !store.shortages.is_asked(pool) {
            background.search.rounds[usize::from(pool)] = SearchRound::default();
            continue;
        }
        let soon = of_pool(store, pool).any(|namespace| background.soon_free[usize::from(namespace)] > 0);
        if digs || soon {
            background.search.found(store, pool);
            continue;
        }
        let Search { passed, rounds } = &mut background.search;
        let round = &mut rounds[usize::from(pool)];
        match round.began {
            Some(began) if *passed - began < store.segments.high_water() as u64 => {}
            Some(_) => {
                store.shortages.report(pool, Some(round.alive_or_free));
                *round = SearchRound::default();
            }
            None => *round = SearchRound { began: Some(*passed), alive_or_free: alive_or_free(store, pool) },
        }
    }
}
