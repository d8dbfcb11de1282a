//! The counts of the keys that one worker has sampled in the current minute. Each list of counted names consists of a
//! count-min sketch and the names with the greatest counts.
//!
//! ```text
//!   hash ──> 4 rows of 2048 counters: the smallest of the four, plus one ──> greater than the smallest leading amount?
//!                                                                                  └─yes─> names: 32 at most
//! ```
//! A counter is raised only if it is the smallest of the four (conservative update). A count is therefore never too
//! small. The count of a name is too large only if each of its four counters also counts other names, which together
//! raised the counter higher.

use arrayvec::ArrayVec;
use segment::Namespace;

const ROWS: usize = 4;
const WIDTH_LOG2: u32 = 11;
const WIDTH: usize = 1 << WIDTH_LOG2;
/// The maximum number of leading names in one list of one worker.
pub(super) const LEADING: usize = 32;
/// The maximum length of a stored name, in bytes. Longer names are truncated in reports, but their hashes keep them
/// distinct.
pub const NAME_BYTES_MAX: usize = 64;

/// The beginning of a key or prefix, as reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SketchName {
    /// The first bytes of the key or prefix.
    pub bytes: ArrayVec<u8, NAME_BYTES_MAX>,
    /// True if the key or prefix is longer than `bytes`.
    pub is_cut: bool,
    /// The namespace of the key.
    pub namespace: Namespace,
}

impl SketchName {
    fn of((namespace, bytes): (Namespace, &[u8])) -> Self {
        let mut kept = ArrayVec::new();
        kept.try_extend_from_slice(&bytes[..bytes.len().min(NAME_BYTES_MAX)]).expect("it was cut to fit");
        Self { bytes: kept, is_cut: bytes.len() > NAME_BYTES_MAX, namespace }
    }
}

/// A leading name and its amount.
#[derive(Clone, Debug)]
pub struct Leader {
    /// The key or prefix.
    pub name: SketchName,
    /// The hash of the complete name. It distinguishes names with the same beginning.
    pub(super) hash: u64,
    /// The number of requests, or the number of bytes of a value.
    pub amount: u64,
}

/// The keys or prefixes with the greatest amounts ([`Leader::amount`]). The hashes and amounts are read for each sample
/// and are close together in memory. The names, which are rarely read, are stored separately.
#[derive(Debug, Default)]
pub(super) struct Leaders {
    hashes: ArrayVec<u64, LEADING>,
    amounts: ArrayVec<u64, LEADING>,
    names: ArrayVec<SketchName, LEADING>,
    /// The smallest amount in the list, or 0 while the list has room for more names.
    least: u64,
}

impl Leaders {
    /// Sets the amount of `name`, if it is greater than the previous amount and large enough for the list. Otherwise
    /// does nothing.
    #[inline]
    pub(super) fn note(&mut self, hash: u64, name: (Namespace, &[u8]), amount: u64) {
        if amount <= self.least {
            return;
        }
        match self.hashes.iter().position(|known| *known == hash) {
            Some(place) => {
                let before = self.amounts[place];
                self.amounts[place] = before.max(amount);
                if before <= self.least {
                    self.find_least();
                }
            }
            None => self.lead(hash, name, amount),
        }
    }

    #[cold]
    fn lead(&mut self, hash: u64, name: (Namespace, &[u8]), amount: u64) {
        if self.hashes.is_full() {
            let last = self.amounts.iter().position(|amount| *amount == self.least).expect("the list holds the least");
            (self.hashes[last], self.amounts[last], self.names[last]) = (hash, amount, SketchName::of(name));
        } else {
            self.hashes.push(hash);
            self.amounts.push(amount);
            self.names.push(SketchName::of(name));
        }
        self.find_least();
    }

    fn find_least(&mut self) {
        if self.hashes.is_full() {
            self.least = self.amounts.iter().copied().min().unwrap_or(0);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Leader> + '_ {
        let amounts = self.hashes.iter().zip(&self.amounts);
        amounts.zip(&self.names).map(|((hash, amount), name)| Leader {
            name: name.clone(),
            hash: *hash,
            amount: *amount,
        })
    }

    /// Returns the amount of the name with this hash, or 0 if it is not in the list.
    pub(super) fn amount(&self, hash: u64) -> u64 {
        self.hashes.iter().position(|known| *known == hash).map_or(0, |place| self.amounts[place])
    }

    /// Returns the smallest amount in the list, or 0 while the list has room for more names.
    pub(super) fn least(&self) -> u64 {
        self.least
    }

    fn clear(&mut self) {
        self.hashes.clear();
        self.amounts.clear();
        self.names.clear();
        self.least = 0;
    }
}

/// Counters by hash, and the names with the greatest counts.
#[derive(Debug)]
pub(super) struct Counted {
    cells: Box<[u32]>,
    pub(super) leaders: Leaders,
}

impl Default for Counted {
    fn default() -> Self {
        Self { cells: vec![0; ROWS * WIDTH].into(), leaders: Leaders::default() }
    }
}

impl Counted {
    /// Counts one sample of `name`.
    pub(super) fn add(&mut self, hash: u64, name: (Namespace, &[u8])) {
        let count = self.raise(hash);
        self.leaders.note(hash, name, u64::from(count));
    }

    fn raise(&mut self, hash: u64) -> u32 {
        let places: [usize; ROWS] = std::array::from_fn(|row| {
            let column = (hash >> (row as u32 * WIDTH_LOG2)) as usize % WIDTH;
            row * WIDTH + column
        });
        let least = places.iter().map(|place| self.cells[*place]).min().unwrap_or(0);
        let count = least.saturating_add(1);
        for place in places {
            self.cells[place] = self.cells[place].max(count);
        }
        count
    }

    fn clear(&mut self) {
        self.cells.fill(0);
        self.leaders.clear();
    }
}

/// All counts of one worker: about 145 KiB.
#[derive(Debug, Default)]
pub(super) struct Sketch {
    pub(super) keys: Counted,
    pub(super) missed: Counted,
    pub(super) prefixes: Counted,
    pub(super) missed_prefixes: Counted,
    pub(super) big: Leaders,
}

impl Sketch {
    pub(super) fn clear(&mut self) {
        for counted in [&mut self.keys, &mut self.missed, &mut self.prefixes, &mut self.missed_prefixes] {
            counted.clear();
        }
        self.big.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::{Prng, split_mix};
    use std::collections::HashMap;

    /// Returns a random name by Zipf's law with exponent 1 over `names` names, from the inverse of its distribution.
    fn zipf(prng: &mut Prng, names: f64) -> u64 {
        (names + 1.0).powf(prng.unit()) as u64 - 1
    }

    /// The space-saving summary (Metwally, Agrawal, El Abbadi, 2005). It was the alternative to a count-min sketch.
    struct SpaceSaving {
        counts: HashMap<u64, u64>,
        room: usize,
    }

    impl SpaceSaving {
        fn add(&mut self, name: u64) {
            if let Some(count) = self.counts.get_mut(&name) {
                *count += 1;
            } else if self.counts.len() < self.room {
                self.counts.insert(name, 1);
            } else {
                let (last, count) = self.counts.iter().min_by_key(|(name, count)| (**count, **name)).unwrap();
                let (last, count) = (*last, *count);
                self.counts.remove(&last);
                self.counts.insert(name, count + 1);
            }
        }
    }

    fn first(mut all: Vec<(u64, u64)>, count: usize) -> Vec<u64> {
        all.sort_by_key(|(name, amount)| (std::cmp::Reverse(*amount), *name));
        all.into_iter().take(count).map(|(name, _)| name).collect()
    }

    /// Prints the figures of docs/decisions/0011-hot-keys.md if the test runs with `--nocapture`.
    #[test]
    fn the_leading_names_of_a_zipf_stream_lead_and_are_counted_within_a_percent_of_the_stream() {
        const SAMPLES: u64 = 300_000;
        for seed in 1..=3 {
            let mut prng = Prng::new(seed);
            let mut counted = Counted::default();
            // The summary gets as many bytes as the sketch: 32 KiB of cells and 32 names, or about 340 names with their
            // links.
            let mut saving = SpaceSaving { counts: HashMap::new(), room: 340 };
            let mut exact: HashMap<u64, u64> = HashMap::new();
            for _ in 0..SAMPLES {
                let name = zipf(&mut prng, 1e6);
                *exact.entry(name).or_default() += 1;
                counted.add(split_mix(name), (Namespace::DEFAULT, &name.to_le_bytes()));
                saving.add(name);
            }
            let wanted = first(exact.iter().map(|(name, count)| (*name, *count)).collect(), 20);
            let by_hash: HashMap<u64, u64> = wanted.iter().map(|name| (split_mix(*name), *name)).collect();
            let report: HashMap<u64, u64> = counted.leaders.iter().map(|leader| (leader.hash, leader.amount)).collect();
            let found = by_hash.keys().filter(|hash| report.contains_key(hash)).count();
            let saved = first(saving.counts.clone().into_iter().collect(), LEADING);
            let saved_found = wanted.iter().filter(|name| saved.contains(name)).count();
            let over = by_hash.iter().filter_map(|(hash, name)| Some(report.get(hash)? - exact[name])).max().unwrap();
            let saved_over = wanted.iter().filter_map(|name| Some(saving.counts.get(name)? - exact[name])).max();
            println!(
                "seed {seed}: of 20, {found} found and {over} counted too much at most of {SAMPLES}; space-saving \
                 {saved_found} and {saved_over:?}"
            );
            assert_eq!(found, 20, "seed {seed}");
            assert!(over <= SAMPLES / 100, "seed {seed}: {over} too many");
            assert!(report.iter().all(|(hash, amount)| by_hash.get(hash).is_none_or(|name| *amount >= exact[name])));
        }
    }

    #[test]
    fn leader_list_retains_the_largest_amounts_without_duplicates() {
        let mut leaders = Leaders::default();
        for number in 0..1000u64 {
            leaders.note(number % 500, (Namespace::DEFAULT, &number.to_le_bytes()), number % 500 + 1);
        }
        let mut amounts: Vec<u64> = leaders.iter().map(|leader| leader.amount).collect();
        amounts.sort_unstable();
        assert_eq!(amounts, (500 - LEADING as u64 + 1..=500).collect::<Vec<_>>());
        assert_eq!(leaders.least(), 500 - LEADING as u64 + 1);
        leaders.clear();
        assert!(leaders.iter().next().is_none() && leaders.least() == 0);
    }

    #[test]
    fn truncated_long_names_with_a_common_prefix_stay_distinct() {
        let mut leaders = Leaders::default();
        let (a, b) = ([b'x'; 200], [b'x'; 100]);
        leaders.note(1, (Namespace::DEFAULT, &a), 1);
        leaders.note(2, (Namespace::DEFAULT, &b), 2);
        assert_eq!(leaders.iter().count(), 2);
        assert!(leaders.iter().all(|leader| leader.name.is_cut && leader.name.bytes.len() == NAME_BYTES_MAX));
    }
}
