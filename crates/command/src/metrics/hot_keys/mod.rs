//! Reports of the keys with the most requests (hot), the longest values (big) or the most misses (missed), and of the
//! hot and missed key prefixes. Requests of both protocols are always sampled. The server retains a report for each
//! minute of the last day.
//!
//! ```text
//!   worker: request ──1 key of 128 on average─> does it exist, its size ──> its sketch ┐ every minute
//!           store of a value longer than those in the list ───────────────> its list   ┴──survey──> minutes: 1440
//!   HOTKEYS, admin port <── minutes, and the current contents of the sketches
//! ```
//! Invariants:
//! - If none of a request's keys is sampled, sampling costs the request one subtraction. Sampling a key allocates no
//!   memory and never waits for a lock. While a reader holds the sketch's lock, samples are dropped, and the dropped
//!   samples are counted.
//! - The memory is bounded: one sketch for each worker, and [`MINUTES_MAX`] minutes of five lists with at most
//!   [`NAMES_PER_LIST`] names of [`NAME_BYTES_MAX`] bytes. A day takes at most 7 MiB.
//! - A reported count is an estimate: the number of samples times [`SAMPLED_ONE_IN`]. The relative error for a key or
//!   prefix with `n` requests is about `sqrt(128 / n)`, which is 11 % for 10,000 requests. If several names share
//!   counters of the sketch, the counts of these names may be too large (see `sketch`).

mod sketch;

pub use sketch::{Leader, NAME_BYTES_MAX, SketchName};

use crate::metrics::counters::Counter;
use base::clock::UnixMillis;
use base::prng::{Prng, split_mix};
use segment::Namespace;
use sketch::{Leaders, Sketch};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// The mean sampling interval: on average, one of every `SAMPLED_ONE_IN` requested keys is sampled.
pub const SAMPLED_ONE_IN: u64 = 128;
/// The maximum number of past minutes whose lists are retained.
pub const MINUTES_MAX: usize = 24 * 60;
/// The number of names in each list of a retained minute.
pub const NAMES_PER_LIST: usize = 10;
/// The maximum number of names for each list in one reply.
pub const LEADERS_MAX: usize = 100;
/// The minimum length of a value in the list of big keys, in bytes.
pub const BIG_BYTES_MIN: u64 = 1024;
/// The length of a minute, in ms.
const MINUTE_MS: u64 = 60_000;

/// The lists of keys that a query can request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HotKeyList {
    /// The keys with the most requests. Amounts are requests.
    Keys,
    /// The keys with the longest values, of at least [`BIG_BYTES_MIN`] bytes. Amounts are bytes.
    Big,
    /// The keys that were read most often without existing. Amounts are requests.
    Missed,
    /// The key prefixes (the part before the first delimiter) with the most requests. Amounts are requests.
    Prefixes,
    /// The prefixes of keys that were read most often without existing. Amounts are requests.
    MissedPrefixes,
}

impl HotKeyList {
    /// All lists, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Keys, Self::Big, Self::Missed, Self::Prefixes, Self::MissedPrefixes];

    /// Returns the name of the list in commands and on pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Big => "big",
            Self::Missed => "missed",
            Self::Prefixes => "prefixes",
            Self::MissedPrefixes => "missed-prefixes",
        }
    }
}

/// A worker's sampler, which selects keys at random.
#[derive(Debug)]
pub struct Sampler {
    /// The number of keys to skip before the next sample.
    left: u32,
    prng: Prng,
    /// The length above which a value may belong to the longest values of the minute, in bytes.
    pub(crate) big_above: u64,
}

impl Sampler {
    /// Creates the sampler of worker number `worker`.
    pub fn new(worker: usize) -> Self {
        let mut sampler = Self { left: 0, prng: Prng::new(worker as u64), big_above: BIG_BYTES_MIN - 1 };
        sampler.left = sampler.gap();
        sampler
    }

    /// Returns the random number of keys to skip before the next sample, from 0 to about twice the mean. Because the
    /// number is random, a repeating sequence of requests is not always sampled at the same positions.
    fn gap(&mut self) -> u32 {
        self.prng.below(2 * SAMPLED_ONE_IN - 1) as u32
    }

    /// Counts `keys` requested keys. Returns true if at least one of them must be sampled. The caller then obtains the
    /// positions of the samples from [`Sampler::next`].
    #[inline(always)]
    pub(crate) fn should_sample(&mut self, keys: u32) -> bool {
        if keys <= self.left {
            self.left -= keys;
            return false;
        }
        true
    }

    /// Returns the position of the next key to sample, from position `from` to the end of a request's `keys` keys.
    /// Returns `None` if none of these keys must be sampled.
    #[cold]
    pub(crate) fn next(&mut self, from: u32, keys: u32) -> Option<u32> {
        if !self.should_sample(keys - from) {
            return None;
        }
        let place = from + self.left;
        self.left = self.gap();
        Some(place)
    }
}

/// A sampled access to a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampledAccess {
    /// The length of the key's value, in bytes. `None`: the key does not exist.
    pub(crate) bytes: Option<u64>,
    /// True if the request reads the key.
    pub(crate) is_read: bool,
}

/// The hot keys that one worker has sampled.
#[derive(Debug, Default)]
pub struct HotKeys {
    sketch: Mutex<Sketch>,
    /// The number of samples that were dropped because a reader held the sketch.
    pub lost: Counter,
}

impl HotKeys {
    fn sketch(&self) -> MutexGuard<'_, Sketch> {
        self.sketch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the sketch. Returns `None` if a reader holds the lock.
    fn try_sketch(&self) -> Option<MutexGuard<'_, Sketch>> {
        match self.sketch.try_lock() {
            Ok(sketch) => Some(sketch),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                self.lost.add(1);
                None
            }
        }
    }
}

/// The lists of one minute.
#[derive(Debug)]
struct Minute {
    began: UnixMillis,
    lists: [Box<[Leader]>; HotKeyList::ALL.len()],
}

/// The lists of past minutes.
#[derive(Debug)]
struct History {
    /// The start of the minute that the workers are counting.
    began: UnixMillis,
    minutes: VecDeque<Minute>,
}

/// The hot keys of a server, by minute.
#[derive(Debug)]
pub struct Minutes {
    delimiter: u8,
    /// A random number that is mixed into the hashes of names. Clients do not know it, so they cannot choose names that
    /// share counters.
    secret: u64,
    history: Mutex<History>,
}

/// The lists of hot keys over a period of several minutes.
#[derive(Debug)]
pub struct HotKeyReport {
    /// The start of the first minute.
    pub from: UnixMillis,
    /// One list for each [`HotKeyList`], in its order. Each list begins with the largest amount. Counts are estimates
    /// of all requests.
    pub lists: [Vec<Leader>; HotKeyList::ALL.len()],
}

impl HotKeyReport {
    /// Returns the leading names of `list`.
    pub fn list(&self, list: HotKeyList) -> &[Leader] {
        &self.lists[list as usize]
    }
}

impl Minutes {
    /// Creates the report history, whose first minute begins at `now`. A key's prefix ends before the first byte of the
    /// key that equals `delimiter`.
    pub fn new(delimiter: u8, now: UnixMillis) -> Self {
        let history = History { began: now, minutes: VecDeque::new() };
        Self { delimiter, secret: RandomState::new().hash_one(0), history: Mutex::new(history) }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hash(&self, (namespace, name): (Namespace, &[u8])) -> u64 {
        let mut hash = self.secret ^ name.len() as u64 ^ u64::from(namespace.0) << 56;
        let (words, rest) = name.as_chunks::<8>();
        for word in words {
            hash = split_mix(hash ^ u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        split_mix(hash ^ u64::from_le_bytes(last))
    }

    /// Records an access to a sampled key.
    pub(crate) fn note(&self, hot_keys: &HotKeys, key: (Namespace, &[u8]), look: SampledAccess, big_above: &mut u64) {
        let Some(mut sketch) = hot_keys.try_sketch() else { return };
        let hash = self.hash(key);
        let prefix_len = key.1.iter().position(|byte| *byte == self.delimiter);
        let prefix = prefix_len.map(|len| (key.0, &key.1[..len])).map(|prefix| (self.hash(prefix), prefix));
        sketch.keys.add(hash, key);
        if let Some((hash, prefix)) = prefix {
            sketch.prefixes.add(hash, prefix);
        }
        match look.bytes {
            Some(bytes) if bytes >= BIG_BYTES_MIN => sketch.big.note(hash, key, bytes),
            Some(_) => {}
            None if look.is_read => {
                sketch.missed.add(hash, key);
                if let Some((hash, prefix)) = prefix {
                    sketch.missed_prefixes.add(hash, prefix);
                }
            }
            None => {}
        }
        *big_above = sketch.big.least().max(BIG_BYTES_MIN - 1);
    }

    /// Records a key whose value is longer than `big_above`.
    #[cold]
    pub(crate) fn note_big(&self, hot_keys: &HotKeys, key: (Namespace, &[u8]), bytes: u64, big_above: &mut u64) {
        let Some(mut sketch) = hot_keys.try_sketch() else { return };
        sketch.big.note(self.hash(key), key, bytes);
        *big_above = sketch.big.least().max(BIG_BYTES_MIN - 1);
    }

    /// If the current minute has ended, moves the workers' counts of this minute into the history.
    pub(crate) fn end_minute<'h>(&self, now: UnixMillis, all_hot_keys: impl IntoIterator<Item = &'h HotKeys>) {
        let mut history = self.history();
        if now.0 < history.began.0 + MINUTE_MS {
            return;
        }
        let mut sums = Sums::default();
        for hot_keys in all_hot_keys {
            let mut sketch = hot_keys.sketch();
            sums.add_sketch(&sketch);
            sketch.clear();
        }
        let lists = sums.lists(NAMES_PER_LIST).map(Vec::into_boxed_slice);
        if history.minutes.len() == MINUTES_MAX {
            history.minutes.pop_front();
        }
        let began = std::mem::replace(&mut history.began, now);
        history.minutes.push_back(Minute { began, lists });
    }

    /// Returns the estimated number of requests of a key in the current minute and the last complete one. Returns 0 if
    /// the key is not among the keys with the most requests of either.
    pub fn requests<'h>(&self, key: (Namespace, &[u8]), all_hot_keys: impl IntoIterator<Item = &'h HotKeys>) -> u64 {
        let hash = self.hash(key);
        let history = self.history();
        let keys = history.minutes.back().map_or(&[][..], |minute| &minute.lists[HotKeyList::Keys as usize]);
        let last = keys.iter().find(|leader| leader.hash == hash).map_or(0, |leader| leader.amount);
        let current = all_hot_keys.into_iter().map(|hot_keys| hot_keys.sketch().keys.leaders.amount(hash));
        last + SAMPLED_ONE_IN * current.sum::<u64>()
    }

    /// Returns the lists over the last `minutes` complete minutes and the current minute. Each list has at most `count`
    /// names.
    pub fn read<'h>(
        &self,
        minutes: usize,
        count: usize,
        all_hot_keys: impl IntoIterator<Item = &'h HotKeys>,
    ) -> HotKeyReport {
        let history = self.history();
        let mut sums = Sums::default();
        let mut from = history.began;
        for minute in history.minutes.iter().rev().take(minutes) {
            sums.add_minute(minute);
            from = minute.began;
        }
        for hot_keys in all_hot_keys {
            sums.add_sketch(&hot_keys.sketch());
        }
        HotKeyReport { from, lists: sums.lists(count) }
    }
}

/// The sums of the amounts of several minutes, by list and name.
#[derive(Default)]
struct Sums([HashMap<u64, Leader>; HotKeyList::ALL.len()]);

impl Sums {
    fn add(&mut self, list: HotKeyList, leader: &Leader, scale: u64) {
        let amount = leader.amount * scale;
        let sum = self.0[list as usize].entry(leader.hash).or_insert_with(|| Leader { amount: 0, ..leader.clone() });
        // The lengths of values are not added up. The sum of a list of big keys is the maximum length.
        sum.amount = if list == HotKeyList::Big { sum.amount.max(amount) } else { sum.amount + amount };
    }

    fn add_sketch(&mut self, sketch: &Sketch) {
        let counted: [(HotKeyList, &Leaders); 4] = [
            (HotKeyList::Keys, &sketch.keys.leaders),
            (HotKeyList::Missed, &sketch.missed.leaders),
            (HotKeyList::Prefixes, &sketch.prefixes.leaders),
            (HotKeyList::MissedPrefixes, &sketch.missed_prefixes.leaders),
        ];
        for (list, leaders) in counted {
            leaders.iter().for_each(|leader| self.add(list, &leader, SAMPLED_ONE_IN));
        }
        sketch.big.iter().for_each(|leader| self.add(HotKeyList::Big, &leader, 1));
    }

    fn add_minute(&mut self, minute: &Minute) {
        for list in HotKeyList::ALL {
            minute.lists[list as usize].iter().for_each(|leader| self.add(list, leader, 1));
        }
    }

    fn lists(self, count: usize) -> [Vec<Leader>; HotKeyList::ALL.len()] {
        self.0.map(|sums| {
            let mut leaders: Vec<Leader> = sums.into_values().collect();
            leaders.sort_unstable_by(|a, b| {
                b.amount
                    .cmp(&a.amount)
                    .then_with(|| (&a.name.bytes, a.name.namespace).cmp(&(&b.name.bytes, b.name.namespace)))
            });
            leaders.truncate(count);
            leaders
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(minutes: &Minutes, hot_keys: &HotKeys, key: &str, bytes: Option<u64>) {
        note_in(minutes, hot_keys, Namespace::DEFAULT, key, bytes);
    }

    fn note_in(minutes: &Minutes, hot_keys: &HotKeys, namespace: Namespace, key: &str, bytes: Option<u64>) {
        minutes.note(hot_keys, (namespace, key.as_bytes()), SampledAccess { bytes, is_read: true }, &mut 0);
    }

    fn report(report: &HotKeyReport, list: HotKeyList) -> Vec<(String, u64)> {
        let text = |leader: &Leader| String::from_utf8_lossy(&leader.name.bytes).into_owned();
        report.list(list).iter().map(|leader| (text(leader), leader.amount)).collect()
    }

    fn pair(name: &str, amount: u64) -> (String, u64) {
        (name.to_owned(), amount)
    }

    #[test]
    fn workers_and_minutes_add_up_and_lengths_do_not() {
        let (minutes, all_hot_keys) = (Minutes::new(b':', UnixMillis(0)), [HotKeys::default(), HotKeys::default()]);
        for hot_keys in &all_hot_keys {
            note(&minutes, hot_keys, "a:1", Some(7000));
            note(&minutes, hot_keys, "a:2", None);
        }
        minutes.end_minute(UnixMillis(MINUTE_MS - 1), &all_hot_keys);
        assert_eq!(minutes.history().minutes.len(), 0, "no minute is over");
        minutes.end_minute(UnixMillis(MINUTE_MS), &all_hot_keys);
        note(&minutes, &all_hot_keys[1], "a:1", Some(6000));
        note(&minutes, &all_hot_keys[1], "plain", None);
        let all = minutes.read(9, 9, &all_hot_keys);
        assert_eq!(all.from, UnixMillis(0));
        assert_eq!(report(&all, HotKeyList::Keys), [pair("a:1", 384), pair("a:2", 256), pair("plain", 128)]);
        assert_eq!(report(&all, HotKeyList::Big), [pair("a:1", 7000)]);
        assert_eq!(report(&all, HotKeyList::Missed), [pair("a:2", 256), pair("plain", 128)]);
        assert_eq!(report(&all, HotKeyList::Prefixes), [pair("a", 640)]);
        assert_eq!(report(&all, HotKeyList::MissedPrefixes), [pair("a", 256)]);
        let now = minutes.read(0, 1, &all_hot_keys);
        assert_eq!((now.from, report(&now, HotKeyList::Keys)), (UnixMillis(MINUTE_MS), vec![pair("a:1", 128)]));
    }

    #[test]
    fn same_key_and_prefix_in_different_namespaces_are_counted_separately() {
        let (minutes, hot_keys) = (Minutes::new(b':', UnixMillis(0)), HotKeys::default());
        for (namespace, times) in [(3, 5), (0, 3), (15, 1)] {
            (0..times).for_each(|_| note_in(&minutes, &hot_keys, Namespace(namespace), "a:1", Some(2000)));
        }
        let all = minutes.read(0, 9, [&hot_keys]);
        for (list, scale) in [(HotKeyList::Keys, 128), (HotKeyList::Prefixes, 128)] {
            let report: Vec<_> = all.list(list).iter().map(|leader| (leader.name.namespace.0, leader.amount)).collect();
            assert_eq!(report, [(3, 5 * scale), (0, 3 * scale), (15, scale)], "{list:?}");
        }
        assert_eq!(all.list(HotKeyList::Big).len(), 3);
    }

    #[test]
    fn history_retains_a_day_and_few_names_per_minute() {
        let (minutes, hot_keys) = (Minutes::new(b':', UnixMillis(0)), HotKeys::default());
        for minute in 1..=MINUTES_MAX as u64 + 3 {
            for name in 0..20 {
                note(&minutes, &hot_keys, &format!("{minute}:{name}"), None);
            }
            minutes.end_minute(UnixMillis(minute * MINUTE_MS), [&hot_keys]);
        }
        let history = minutes.history();
        assert_eq!((history.minutes.len(), history.minutes[0].began), (MINUTES_MAX, UnixMillis(3 * MINUTE_MS)));
        assert!(history.minutes.iter().all(|minute| minute.lists[0].len() == NAMES_PER_LIST));
    }

    #[test]
    fn memory_matches_the_documented_size() {
        let minute = size_of::<Minute>() + HotKeyList::ALL.len() * NAMES_PER_LIST * size_of::<Leader>();
        assert!(MINUTES_MAX * minute < 7 << 20, "{minute} bytes a minute");
        let sketch = 4 * 4 * 2048 * size_of::<u32>() + size_of::<Sketch>();
        assert!(sketch < 145 << 10, "{sketch} bytes a worker");
    }

    #[test]
    fn sampler_samples_1_of_128_keys_evenly_over_a_repeating_stream() {
        let mut sampler = Sampler::new(0);
        let (mut taken, mut at) = (0u64, [0u64; 64]);
        for round in 0..20_000u32 {
            // Runs of 1 to 16 keys, 64 keys in each round.
            let mut first = 0;
            for keys in [1, 16, 15, 2, 16, 14] {
                let mut from = 0;
                if sampler.should_sample(keys) {
                    while let Some(place) = sampler.next(from, keys) {
                        assert!(place < keys, "round {round}");
                        at[(first + place) as usize] += 1;
                        taken += 1;
                        from = place + 1;
                    }
                }
                first += keys;
            }
        }
        assert!((9_700..=10_300).contains(&taken), "{taken} of 1280000");
        assert!(at.iter().all(|count| (100..=220).contains(count)), "{at:?}");
    }

    #[test]
    fn sample_is_dropped_and_counted_while_the_sketch_is_read() {
        let (minutes, hot_keys) = (Minutes::new(b':', UnixMillis(0)), HotKeys::default());
        let reader = hot_keys.sketch();
        note(&minutes, &hot_keys, "k", None);
        drop(reader);
        note(&minutes, &hot_keys, "k", None);
        assert_eq!(
            (hot_keys.lost.value(), report(&minutes.read(0, 9, [&hot_keys]), HotKeyList::Keys)),
            (1, vec![pair("k", 128)])
        );
    }
}
