//! The background's side of [`crate::heap::back_pressure`]: it records whether a round of the scan found memory for a
//! caller that has no room.

use super::{Background, SCAN_HEADERS, of_pool};
use crate::core::capacity::alive_or_free;
use crate::core::store::Store;
use crate::layout::key::Namespace;

/// A round of the scan for one pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SearchRound {
    /// The total number of headers that had been passed when it began. `None`: no round is in progress.
    began: Option<u64>,
    /// The bytes of the pool that were alive or free when it began.
    alive_or_free: u64,
}

/// The rounds of all pools.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The total number of headers that were passed.
    passed: u64,
    rounds: [SearchRound; Namespace::MAX],
}

impl Search {
    /// Records that the scan passes a header.
    pub(super) fn pass(&mut self) {
        self.passed += 1;
    }

    /// Records that a walk finds no room for its copies.
    pub(super) fn is_stuck(&mut self) {
        self.passed += SCAN_HEADERS as u64;
    }

    /// Records that something was found for a pool: what was known of the pool is no longer true.
    pub(super) fn found(&mut self, store: &Store, pool: u8) {
        self.rounds[usize::from(pool)] = SearchRound::default();
        store.shortages.report(pool, None);
    }
}

/// Ends the rounds that are over and begins others. Called after a slice. `digs`: deferred frees, or work on the
/// second tier's regions, are in progress, so that more bytes may become free.
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
