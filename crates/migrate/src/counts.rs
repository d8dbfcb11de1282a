//! What became of every key: nothing is left out in silence.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Reasons that are counted separately; further reasons are counted as one.
const REASONS_MAX: usize = 64;

/// Counts of keys. All but `bytes`, `without_flags` and `field_ttls` add up to `seen`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCounts {
    /// Keys that the source has named.
    pub seen: u64,
    /// Copied.
    pub copied: u64,
    /// Bytes of keys and values that were copied.
    pub bytes: u64,
    /// Not copied since the target had the key already.
    pub already_there: u64,
    /// Gone from the source between its naming and its reading: evicted, deleted, expired.
    pub gone: u64,
    /// Expired on the way.
    pub expired: u64,
    /// Left out by prefix, exclusion or database.
    pub not_chosen: u64,
    /// Keys that the target has no place for, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Keys that the target refused, by its words.
    pub refused: BTreeMap<String, u64>,
    /// Copied keys whose client flags the target has no place for.
    pub without_flags: u64,
    /// Fields of copied hashes whose own expiries were left out.
    pub field_ttls: u64,
}

fn add(counts: &mut BTreeMap<String, u64>, reason: String) {
    let known = counts.len() < REASONS_MAX || counts.contains_key(&reason);
    *counts.entry(if known { reason } else { "another reason".to_owned() }).or_default() += 1;
}

impl KeyCounts {
    /// One more that the target has no place for.
    pub fn skip(&mut self, reason: String) {
        add(&mut self.skipped, reason);
    }

    /// One more that the target refused.
    pub fn refuse(&mut self, words: String) {
        add(&mut self.refused, words);
    }

    /// Keys that the target has no place for.
    pub fn skipped_sum(&self) -> u64 {
        self.skipped.values().sum()
    }

    /// Keys that the target refused.
    pub fn refused_sum(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Keys that are done with, one way or another.
    pub fn done(&self) -> u64 {
        let Self { copied, already_there, gone, expired, not_chosen, .. } = self;
        copied + already_there + gone + expired + not_chosen + self.skipped_sum() + self.refused_sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_a_new_excuse_for_every_key_grows_no_memory() {
        let mut counts = KeyCounts::default();
        for n in 0..1_000 {
            counts.refuse(format!("no: {n}"));
        }
        assert_eq!((counts.refused.len(), counts.refused_sum()), (REASONS_MAX + 1, 1_000));
        assert_eq!(counts.refused["another reason"], 1_000 - REASONS_MAX as u64);
    }
}
