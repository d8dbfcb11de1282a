//! Finds the best size of the small queue, and the best age up to which ghosts count. For each candidate, a miniature
//! of the store (a shadow) counts the misses.
//!
//! ```text
//!   samples ──> shadow with  2 %, young ghosts ── misses ──┐
//!          ├──> shadow with  2 %, old ghosts ──── misses ──┤ fewest, over the last rounds
//!          ├──> ...                                        ├─────────────────────────────> the store's candidate
//!          └──> shadow with 85 %, no ghosts ───── misses ──┘
//! ```
//!
//! A shadow holds only the hashes of sampled keys, in queues like those of the store. It ignores the items' sizes and
//! lifetimes. No candidate suits every workload:
//!
//! - A small queue of a tenth has more misses than plain LRU if keys are read again after a while and then never again
//!   (a sliding window). A large small queue has more misses if many keys are read only once.
//! - Old ghosts bring keys into the main queue that are requested rarely but again and again, for example those of a
//!   loop after the workload has changed. In a loop over several times as many keys as fit, they only replace one key
//!   of the loop by another.
//!
//! Bounds: each shadow holds at most [`ITEMS_MAX`] items, and as many ghosts as its candidate counts. If the store
//! grows beyond what the sample covers, a smaller part of the keys is sampled, and the shadows start again empty.

use std::collections::{HashMap, VecDeque};

use crate::heap::samples::{RequestKind, Samples, THIN_MAX, THIN_START};
use crate::index::ghosts::{GhostClock, TICKS_A_MEMORY};

/// A candidate of the policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// The share of the small queue, in percent of the segments.
    pub(super) small: u8,
    /// The number of values evicted from the small queue after which a ghost no longer counts, in percent of the values
    /// that fit into the memory.
    pub(super) ghosts: u16,
    /// The number of reads that move an item from the small queue to the main queue, and with which an item of a key
    /// with a ghost begins.
    pub(super) promote_freq: u64,
    /// True if the main queue gives an item one more round for all its reads together, false if it gives one for each
    /// read. One round is best if keys are read again soon and then never again, so that earlier reads predict no later
    /// ones.
    one_round: bool,
}

/// The candidates of a store, and the rules by which one of them is chosen.
#[derive(Debug)]
struct Choice {
    candidates: &'static [Candidate],
    /// The divisor that gives the number of reads in a round: the number of a shadow's items divided by it.
    round_parts: usize,
    /// Another candidate replaces the present one if its misses are below this percentage of the present one's misses.
    better_percent: f64,
    /// The factor by which the counted misses are multiplied after each round, so that older rounds count less.
    decay: f64,
}

/// The choice of a store without a second tier. The published S3-FIFO is the first candidate. These gave the fewest
/// misses on recorded and drawn streams.
const IN_MEMORY: Choice = Choice {
    candidates: &[
        Candidate { small: 10, ghosts: 90, promote_freq: 2, one_round: false },
        Candidate { small: 2, ghosts: 25, promote_freq: 1, one_round: false },
        Candidate { small: 2, ghosts: 240, promote_freq: 1, one_round: false },
        Candidate { small: 50, ghosts: 240, promote_freq: 2, one_round: false },
        Candidate { small: 25, ghosts: 90, promote_freq: 2, one_round: false },
        Candidate { small: 50, ghosts: 25, promote_freq: 1, one_round: true },
        Candidate { small: 85, ghosts: 240, promote_freq: 1, one_round: false },
    ],
    round_parts: 16,
    better_percent: 99.9,
    decay: 0.985,
};
/// The choice of a store with a second tier. One read promotes an item: an item that waited for its second read would
/// be written to the tier.
const WITH_TIER: Choice = Choice {
    candidates: &[
        Candidate { small: 2, ghosts: 25, promote_freq: 1, one_round: false },
        Candidate { small: 2, ghosts: 240, promote_freq: 1, one_round: false },
        Candidate { small: 5, ghosts: 240, promote_freq: 1, one_round: false },
        Candidate { small: 25, ghosts: 240, promote_freq: 1, one_round: false },
        Candidate { small: 50, ghosts: 25, promote_freq: 1, one_round: true },
        Candidate { small: 85, ghosts: 0, promote_freq: 1, one_round: true },
    ],
    round_parts: 8,
    better_percent: 99.0,
    decay: 0.97,
};
/// The index in [`Choice::candidates`] of the one with which a store begins.
const START: usize = 2;
/// The maximum number of items of one shadow.
const ITEMS_MAX: usize = 2048;
/// The minimum number of items of a shadow. The result of a smaller shadow would not be significant.
const ITEMS_MIN: usize = 64;
/// The maximum number of counted reads of an item in a shadow, as in an index slot.
const FREQ_MAX: u8 = crate::layout::slot::FREQ_MAX as u8;

/// The number of segments that are evicted from the small queue before one of the main queue is. Items of the main
/// queue that no client reads therefore leave even if no item is promoted, and the small queue takes their memory. In a
/// loop over up to thirty times as many keys as fit, the items of the main queue are read again before they are
/// examined.
pub(super) const SMALL_IN_A_ROW_MAX: u8 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShadowPlace {
    Small,
    Main,
    Ghost,
}

#[derive(Clone, Copy, Debug)]
struct ShadowEntry {
    place: ShadowPlace,
    freq: u8,
    /// The number of items that the shadow had evicted from its small queue when this item became a ghost.
    evicted: u32,
}

/// A shadow: a miniature of the store with one candidate.
#[derive(Debug)]
struct Shadow {
    candidate: Candidate,
    small_max: usize,
    ghosts_max: usize,
    items_max: usize,
    entries: HashMap<u64, ShadowEntry>,
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    /// The keys evicted from the small queue, whether their ghosts are still there or not.
    ghosts: VecDeque<u64>,
    /// The number of items evicted from the small queue.
    evicted: u32,
    misses: f64,
    /// True until the first eviction: items beyond the small queue's share enter the main queue.
    filling: bool,
    /// The number of items evicted from the small queue since one of the main queue was.
    small_in_a_row: u8,
}

impl Shadow {
    fn new(candidate: Candidate) -> Self {
        let ghosts_max = candidate.ghosts_of(ITEMS_MAX);
        Self {
            candidate,
            small_max: 0,
            ghosts_max: 0,
            items_max: 0,
            entries: HashMap::with_capacity(ITEMS_MAX + ghosts_max + 2),
            small: VecDeque::with_capacity(ITEMS_MAX + 1),
            main: VecDeque::with_capacity(ITEMS_MAX + 1),
            ghosts: VecDeque::with_capacity(ghosts_max + 1),
            evicted: 0,
            misses: 0.0,
            filling: true,
            small_in_a_row: 0,
        }
    }

    fn begin(&mut self, items_max: usize, ghosts_max: usize) {
        self.entries.clear();
        self.small.clear();
        self.main.clear();
        self.ghosts.clear();
        self.filling = true;
        self.resize(items_max, ghosts_max);
    }

    /// Changes the number of items, and the number of ghosts for which the store's index has slots.
    fn resize(&mut self, items_max: usize, ghosts_max: usize) {
        self.items_max = items_max;
        self.small_max = (items_max * usize::from(self.candidate.small) / 100).max(1);
        self.ghosts_max = self.candidate.ghosts_of(items_max).min(ghosts_max);
    }

    fn ask(&mut self, hash: u64, asked: RequestKind) {
        let freq = match self.entries.get_mut(&hash) {
            Some(entry) if entry.place != ShadowPlace::Ghost => {
                if asked == RequestKind::Read {
                    entry.freq = (entry.freq + 1).min(FREQ_MAX);
                }
                return;
            }
            Some(_) => self.candidate.promote_freq as u8,
            None => 0,
        };
        if asked == RequestKind::Read {
            self.misses += 1.0;
        }
        // If the key had a ghost, its old entry in `ghosts` remains, and is skipped when it reaches the front.
        self.entries.insert(hash, ShadowEntry { place: ShadowPlace::Small, freq, evicted: 0 });
        self.small.push_back(hash);
        if self.filling && self.small.len() > self.small_max {
            self.move_to_main();
        }
        while self.small.len() + self.main.len() > self.items_max {
            self.evict();
        }
    }

    /// Moves the oldest item of the small queue to the main queue.
    fn move_to_main(&mut self) {
        let Some(hash) = self.small.pop_front() else { return };
        if let Some(entry) = self.entries.get_mut(&hash) {
            entry.place = ShadowPlace::Main;
            self.main.push_back(hash);
        }
    }

    fn evict(&mut self) {
        self.filling = false;
        let small_full = self.small.len() > self.small_max;
        if self.main.is_empty() || small_full && self.small_in_a_row < SMALL_IN_A_ROW_MAX {
            self.small_in_a_row = self.small_in_a_row.saturating_add(1);
            self.evict_small();
        } else {
            self.small_in_a_row = 0;
            self.evict_main();
        }
    }

    fn evict_small(&mut self) {
        let Some(hash) = self.small.pop_front() else { return };
        let Some(entry) = self.entries.get_mut(&hash) else { return };
        if u64::from(entry.freq) >= self.candidate.promote_freq {
            *entry = ShadowEntry { place: ShadowPlace::Main, freq: 0, evicted: 0 };
            self.main.push_back(hash);
        } else {
            self.evicted = self.evicted.wrapping_add(1);
            *entry = ShadowEntry { place: ShadowPlace::Ghost, freq: 0, evicted: self.evicted };
            self.ghosts.push_back(hash);
            while self.ghosts.len() > self.ghosts_max {
                self.forget();
            }
        }
    }

    fn evict_main(&mut self) {
        let Some(hash) = self.main.pop_front() else { return };
        let Some(entry) = self.entries.get_mut(&hash) else { return };
        if entry.freq > 0 {
            entry.freq = self.candidate.freq_of_next_round(entry.freq.into()) as u8;
            self.main.push_back(hash);
        } else {
            self.entries.remove(&hash);
        }
    }

    /// Removes the oldest ghost, unless its key was stored again since.
    fn forget(&mut self) {
        let evicted = self.evicted.wrapping_sub(self.ghosts.len() as u32 - 1);
        if let Some(hash) = self.ghosts.pop_front()
            && self.entries.get(&hash).is_some_and(|e| e.place == ShadowPlace::Ghost && e.evicted == evicted)
        {
            self.entries.remove(&hash);
        }
    }
}

impl Candidate {
    /// Returns the number of evictions after which a ghost no longer counts, in a memory of `items` items.
    const fn ghosts_of(self, items: usize) -> usize {
        items * self.ghosts as usize / 100
    }

    /// Returns the number of reads that an item retains when it begins another round in the main queue. `freq` is its
    /// number of reads before, and is above 0.
    pub(super) fn freq_of_next_round(self, freq: u64) -> u64 {
        if self.one_round { 0 } else { freq - 1 }
    }
}

/// The advance of the clock by which ghosts age ([`GhostClock`]).
#[derive(Debug, Default)]
pub(super) struct GhostAge {
    /// The number of values that are evicted from small queues in a tick. 0: unknown, so the clock stands.
    a_tick: u64,
    /// The number of values evicted since the last tick.
    evicted: u64,
}

impl GhostAge {
    /// Counts a value that is evicted from a small queue.
    pub(super) fn evicted(&mut self, clock: &GhostClock) {
        self.evicted += 1;
        if self.a_tick > 0 && self.evicted >= self.a_tick {
            self.evicted = 0;
            clock.tick();
        }
    }

    /// Adjusts the clock to the number of values that fit into the memory, and to the chosen candidate.
    pub(super) fn follow(&mut self, clock: &GhostClock, items: Option<u64>, candidate: Candidate) {
        self.a_tick = items.unwrap_or(self.a_tick).div_ceil(TICKS_A_MEMORY.into());
        clock.limit(u32::from(candidate.ghosts) * TICKS_A_MEMORY / 100);
        clock.begin_with(candidate.promote_freq);
    }
}

/// All shadows, and the candidate that they have chosen.
#[derive(Debug)]
pub(crate) struct Shadows {
    choice: &'static Choice,
    shadows: Box<[Shadow]>,
    /// The sampling factor, as a power of two.
    thin: u32,
    /// The minimum sampling factor. It rises when requests were dropped because the background read them too late.
    thin_min: u32,
    items: usize,
    ghosts: usize,
    reads: usize,
    chosen: usize,
}

impl Shadows {
    /// Creates the shadows of a store with a second tier, or without one.
    pub(super) fn new(is_tiered: bool) -> Self {
        let choice = if is_tiered { &WITH_TIER } else { &IN_MEMORY };
        let shadows = choice.candidates.iter().copied().map(Shadow::new).collect();
        Self { choice, shadows, thin: THIN_START, thin_min: 0, items: 0, ghosts: 0, reads: 0, chosen: START }
    }

    /// Returns the chosen candidate.
    pub(super) fn candidate(&self) -> Candidate {
        self.choice.candidates[self.chosen]
    }

    /// Runs the shadows over the requests that were sampled since the last call. `items` is the number of items that
    /// the store holds when its memory is full, or `None` as long as that is unknown. `unused` is the number of index
    /// slots without an item, which ghosts may take.
    pub(super) fn run(&mut self, samples: &Samples, items: Option<u64>, unused: u64) {
        let Some(items) = items else {
            samples.take(|_, _| {});
            return;
        };
        self.fit(samples, items as usize, unused as usize);
        if self.items < ITEMS_MIN {
            samples.take(|_, _| {});
            return;
        }
        let is_whole = samples.take(|hash, asked| {
            self.reads += usize::from(asked == RequestKind::Read);
            self.shadows.iter_mut().for_each(|shadow| shadow.ask(hash, asked));
        });
        if !is_whole {
            self.thin_min = (self.thin + 1).min(THIN_START);
        }
        if self.reads >= self.items / self.choice.round_parts {
            self.end_round();
        }
    }

    /// Adjusts the sampling factor and the shadows' size to the store's number of items.
    fn fit(&mut self, samples: &Samples, items: usize, unused: usize) {
        let mut thin = self.thin.max(self.thin_min);
        while thin < THIN_MAX && items >> thin > ITEMS_MAX {
            thin += 1;
        }
        while thin > self.thin_min && items >> (thin - 1) <= ITEMS_MAX * 3 / 4 {
            thin -= 1;
        }
        let (part, ghosts) = (items >> thin, unused >> thin);
        if thin != self.thin || self.items == 0 {
            samples.thin(thin);
            (self.thin, self.items, self.ghosts, self.reads) = (thin, part, ghosts, 0);
            self.shadows.iter_mut().for_each(|shadow| shadow.begin(part, ghosts));
        } else if part.abs_diff(self.items) > self.items / 16 || ghosts.abs_diff(self.ghosts) > self.items / 16 {
            (self.items, self.ghosts) = (part, ghosts);
            self.shadows.iter_mut().for_each(|shadow| shadow.resize(part, ghosts));
        }
    }

    fn end_round(&mut self) {
        self.reads = 0;
        let misses = |shadow: usize| self.shadows[shadow].misses;
        let best =
            (0..self.shadows.len()).min_by(|a, b| misses(*a).total_cmp(&misses(*b))).expect("there are candidates");
        if misses(best) * 100.0 < misses(self.chosen) * self.choice.better_percent {
            self.chosen = best;
        }
        self.shadows.iter_mut().for_each(|shadow| shadow.misses *= self.choice.decay);
    }

    /// The maximum memory of all shadows, in bytes: their hash tables with unused entries, and their queues.
    pub(crate) const BYTES_MAX: u64 = {
        let (memory, tier) = (IN_MEMORY.bytes(), WITH_TIER.bytes());
        if memory > tier { memory } else { tier }
    };
}

impl Choice {
    /// Returns the maximum memory of the candidates' shadows, in bytes.
    const fn bytes(&self) -> u64 {
        let (mut bytes, mut number) = (0, 0);
        while number < self.candidates.len() {
            let ghosts = self.candidates[number].ghosts_of(ITEMS_MAX);
            let buckets = ((ITEMS_MAX + ghosts + 2) * 8 / 7 + 1).next_power_of_two();
            bytes += buckets * (size_of::<(u64, ShadowEntry)>() + 1);
            bytes += (2 * ITEMS_MAX + ghosts + 3) * size_of::<u64>();
            number += 1;
        }
        bytes as u64
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::index::Hash;
    use base::prng::{Prng, split_mix};

    /// Returns the share that the shadows of a store of 16,384 items choose, if request number n reads the key that
    /// `key(n)` returns.
    fn percent_for(mut key: impl FnMut(u64, &mut Prng) -> u64) -> u8 {
        let (samples, mut shadows, mut prng) = (Samples::new(1), Shadows::new(false), Prng::new(3));
        for number in 0..2_000_000 {
            samples.note(0, Hash(split_mix(key(number, &mut prng))), RequestKind::Read);
            if number % 256 == 0 {
                shadows.run(&samples, Some(16_384), 32_768);
            }
        }
        shadows.candidate().small
    }

    #[test]
    fn a_sliding_window_wants_a_large_small_queue() {
        let percent = percent_for(|number, prng| number / 8 + prng.below(15_000));
        assert!(percent >= 50, "{percent} %");
    }

    #[test]
    fn one_time_keys_favour_a_small_small_queue() {
        let percent = percent_for(|number, prng| {
            let popular = 40_000.0 * prng.unit() * prng.unit() * prng.unit();
            if number % 2 == 0 { 1 << 40 | number } else { popular as u64 }
        });
        assert!(percent <= 10, "{percent} %");
    }

    #[test]
    fn item_survives_a_round_per_read_or_a_single_round() {
        let rounds = |one_round| {
            let candidate = Candidate { small: 10, ghosts: 90, promote_freq: 2, one_round };
            let next = |freq: &u64| (*freq > 0).then(|| candidate.freq_of_next_round(*freq));
            std::iter::successors(Some(u64::from(FREQ_MAX)), next).count() - 1
        };
        assert_eq!([false, true].map(rounds), [3, 1]);
    }

    #[test]
    fn a_shadow_holds_no_more_than_its_items_and_its_ghosts() {
        let mut shadow = Shadow::new(Candidate { small: 10, ghosts: 200, promote_freq: 1, one_round: false });
        shadow.begin(100, 50);
        let mut prng = Prng::new(1);
        for _ in 0..100_000 {
            let asked = if prng.below(3) == 0 { RequestKind::Store } else { RequestKind::Read };
            shadow.ask(prng.below(400), asked);
            assert!(shadow.small.len() + shadow.main.len() <= 100 && shadow.ghosts.len() <= 50);
            assert!(shadow.entries.len() <= 150);
        }
        let placed = |place| shadow.entries.values().filter(|entry| entry.place == place).count();
        assert!(placed(ShadowPlace::Ghost) <= shadow.ghosts.len());
        assert_eq!((placed(ShadowPlace::Small), placed(ShadowPlace::Main)), (shadow.small.len(), shadow.main.len()));
    }
}
