//! Counts the outcome of every key; no key is skipped silently.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Highest number of reasons that are counted separately; further reasons share one count.
const REASONS_MAX: usize = 64;

/// Counts of keys. All but `bytes`, `without_flags` and `field_ttls` add up to `seen`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCounts {
    /// Keys that the source has listed.
    pub seen: u64,
    /// Keys that were copied.
    pub copied: u64,
    /// Bytes of keys and values that were copied.
    pub bytes: u64,
    /// Keys that were not copied because the target already had them.
    pub already_there: u64,
    /// Keys that disappeared from the source between listing and reading: evicted, deleted or expired.
    pub gone: u64,
    /// Keys that expired during the copy.
    pub expired: u64,
    /// Keys excluded by the selection of prefixes. Keys of other databases count as `skipped`.
    pub not_chosen: u64,
    /// Keys that the target cannot store, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Keys that the target refused, by its error text.
    pub refused: BTreeMap<String, u64>,
    /// Copied keys whose client flags the target cannot store.
    pub without_flags: u64,
    /// Fields of copied hashes whose own expiry was dropped.
    pub field_ttls: u64,
}

/// Counts `reason`, or the reason that all others share.
pub(crate) fn add(counts: &mut BTreeMap<String, u64>, reason: String) {
    let known = counts.len() < REASONS_MAX || counts.contains_key(&reason);
    *counts.entry(if known { reason } else { "another reason".to_owned() }).or_default() += 1;
}

impl KeyCounts {
    /// Counts a key that the target cannot store.
    pub fn skip(&mut self, reason: String) {
        add(&mut self.skipped, reason);
    }

    /// Counts a key that the target refused.
    pub fn refuse(&mut self, words: String) {
        add(&mut self.refused, words);
    }

    /// Returns the number of keys that the target cannot store.
    pub fn skipped_sum(&self) -> u64 {
        self.skipped.values().sum()
    }

    /// Returns the number of keys that the target refused.
    pub fn refused_sum(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Returns the number of keys with a final outcome.
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
