//! Generates streams of accesses, each from a seed.
//!
//! The keys of a stream are numbers. A key's number determines the length of its value and the item's lifetime. In
//! streams without lifetimes, the store's clock advances by a millisecond per access. A stream with the name of a
//! Twitter cluster uses the figures in that cluster's row of the data: Zipf exponent, requests per key, share of keys
//! requested once, lifetimes and mean value length. Such a stream has a sample of the cluster's keys, with all requests
//! for these keys. So the ratio of a lifetime to the time between two requests for a key is the same as in the cluster.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use base::prng::{Prng, split_mix};

use super::clusters::{self, Cluster};
use super::gannet;
use super::meta::Meta;
use crate::replay::table::WeightTable;

/// An access: a read, followed by a store if the read misses.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The key's number.
    pub key: u64,
    /// The instant, in milliseconds from the start of the stream.
    pub at_ms: u64,
    /// Time to live of a stored item, in milliseconds; 0 for no expiry.
    pub ttl_ms: u64,
    /// The value's length in bytes.
    pub value_bytes: u32,
}

/// The distribution of keys.
#[derive(Clone, Debug)]
enum KeyDistribution {
    /// Zipf over the keys. `once_percent` percent of the accesses are to keys that are read only once.
    Zipf { alpha: f64, once_percent: u64 },
    /// Zipf with changing popular keys: every hundred accesses, a popular key is exchanged with a random key.
    Churn { alpha: f64 },
    /// Zipf, with twenty scans through the same keys. The scans together are a tenth of all accesses.
    Scan { alpha: f64 },
    /// Half of the accesses are Zipf; the other half cycle through a tenth of the keys.
    Loop { alpha: f64 },
    /// Uniform in a window of a tenth of the keys, which slides over all of them.
    Window,
    /// The published popularity and value lengths of one of Meta's caches, with each length divided by `scale`.
    Meta { meta: Box<Meta>, scale: u64 },
    /// The distributions of a Twitter cluster's row.
    Cluster(Cluster),
}

/// A named stream.
#[derive(Clone, Debug)]
pub struct AccessStream {
    /// Name in the tables.
    pub name: &'static str,
    shape: KeyDistribution,
}

/// Default mean length of a value; lengths are from half of it to one and a half times it.
const VALUE_BYTES: u64 = 240;
/// Lowest number of the keys that are requested once.
const ONCE: u64 = 1 << 40;
/// Number of accesses per key.
const ACCESSES_A_KEY: usize = 5;
/// Number of accesses between two changes of the popular keys in a `Churn` stream.
const CHURN_EVERY: usize = 100;
/// Maximum length of a value in bytes. The simulated memories are small, and one value must be a small part of them.
pub const VALUE_BYTES_MAX: u64 = 16 << 10;
/// Maximum mean length of a cluster's values, in bytes.
const CLUSTER_VALUE_BYTES_MAX: u64 = 400;
/// Divisor for the number of accesses of a stream with lifetimes. Such a stream is slow, because Python passes its keys
/// to the peer policies one by one.
const CLUSTER_PART: usize = 2;
/// Memory sizes, in thousandths of the bytes of all keys that the stream reads, without the keys drawn to be read once.
const PERMILLE: [u64; 5] = [25, 50, 100, 200, 400];
/// Memory sizes, in thousandths of the bytes that are live at once without eviction.
const PERMILLE_OF_LIVE: [u64; 5] = [200, 400, 600, 800, 1000];

/// Returns every stream of the table. `data` contains published data of production caches.
///
/// # Errors
/// If a file is missing or has another format.
pub fn all(data: &Path) -> Result<Vec<AccessStream>, String> {
    use KeyDistribution::{Churn, Loop, Scan, Window, Zipf};
    let meta = |name, folder: &str, scale| {
        let meta = Box::new(Meta::read(&data.join(folder))?);
        Ok::<_, String>(AccessStream { name, shape: KeyDistribution::Meta { meta, scale } })
    };
    let stream = |name, shape| AccessStream { name, shape };
    let mut streams = vec![
        stream("zipf-0.8", Zipf { alpha: 0.8, once_percent: 0 }),
        stream("zipf-0.99", Zipf { alpha: 0.99, once_percent: 0 }),
        stream("zipf-1.2", Zipf { alpha: 1.2, once_percent: 0 }),
        stream("once-10", Zipf { alpha: 0.99, once_percent: 10 }),
        stream("once-25", Zipf { alpha: 0.99, once_percent: 25 }),
        stream("once-50", Zipf { alpha: 0.99, once_percent: 50 }),
        stream("churn", Churn { alpha: 0.99 }),
        stream("scan", Scan { alpha: 0.99 }),
        stream("loop", Loop { alpha: 0.99 }),
        stream("window", Window),
        meta("meta-kv", "meta-kvcache_reg", 1)?,
        meta("meta-graph", "meta-graph_cache_leader_assocs", 1)?,
        meta("meta-cdn", "meta-cdn", 64)?,
    ];
    streams.extend(clusters::ALL.map(|row| AccessStream { name: row.name, shape: KeyDistribution::Cluster(row) }));
    Ok(streams)
}

impl AccessStream {
    /// Returns whether the stream's items have lifetimes.
    pub fn has_lifetimes(&self) -> bool {
        matches!(self.shape, KeyDistribution::Cluster(_))
    }

    /// Returns the stream's accesses: `count`, or a part of them for streams with lifetimes.
    pub fn draw(&self, count: usize) -> Vec<Access> {
        let count = match self.shape {
            KeyDistribution::Cluster(row) => count / CLUSTER_PART * row.longer,
            _ => count,
        };
        let mut prng = Prng::new(split_mix(self.name.bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte))));
        let keys = match &self.shape {
            KeyDistribution::Cluster(cluster) => cluster.keys(count),
            _ => count / ACCESSES_A_KEY,
        };
        let alpha = match self.shape {
            KeyDistribution::Zipf { alpha, .. }
            | KeyDistribution::Churn { alpha }
            | KeyDistribution::Scan { alpha }
            | KeyDistribution::Loop { alpha }
            | KeyDistribution::Cluster(Cluster { alpha, .. }) => alpha,
            KeyDistribution::Window | KeyDistribution::Meta { .. } => 0.0,
        };
        let ranks = WeightTable::new((1..=keys).map(|rank| (rank as f64).powf(-alpha)));
        let mut by_rank: Vec<u64> = (0..keys as u64).collect();
        let mut lone = ONCE;
        (0..count)
            .map(|number| {
                let key = self.key(number, count, &ranks, &mut by_rank, &mut lone, &mut prng);
                self.access(key, number, count)
            })
            .collect()
    }

    /// Returns the memory sizes at which the stream is replayed, in bytes.
    pub fn memories(&self, accesses: &[Access]) -> [u64; 5] {
        if self.has_lifetimes() {
            let live = live_bytes(accesses);
            return PERMILLE_OF_LIVE.map(|permille| live * permille / 1000);
        }
        // Keys that are requested once do not count, because no memory can turn their requests into hits.
        let lone = matches!(self.shape, KeyDistribution::Zipf { .. } | KeyDistribution::Meta { .. });
        let counts = |access: &Access| !lone || access.key < ONCE;
        let mut seen = std::collections::HashSet::new();
        let all = accesses.iter().filter(|access| counts(access) && seen.insert(access.key));
        let all: u64 = all.map(gannet::cost_bytes).sum();
        PERMILLE.map(|permille| all * permille / 1000)
    }

    fn key(
        &self,
        number: usize,
        count: usize,
        ranks: &WeightTable,
        by_rank: &mut [u64],
        lone: &mut u64,
        prng: &mut Prng,
    ) -> u64 {
        let keys = by_rank.len();
        let once = |lone: &mut u64| {
            *lone += 1;
            *lone
        };
        match &self.shape {
            KeyDistribution::Zipf { once_percent, .. } => {
                if prng.below(100) < *once_percent {
                    once(lone)
                } else {
                    ranks.draw(prng) as u64
                }
            }
            KeyDistribution::Cluster(row) if prng.unit() < row.once_share() => once(lone),
            KeyDistribution::Cluster(_) => ranks.draw(prng) as u64,
            KeyDistribution::Meta { meta, .. } if prng.unit() < meta.once_share => once(lone),
            KeyDistribution::Meta { meta, .. } => meta.key(keys, prng),
            KeyDistribution::Churn { .. } => {
                if number.is_multiple_of(CHURN_EVERY) {
                    let (a, b) = (ranks.draw(prng), prng.below(keys as u64) as usize);
                    by_rank.swap(a, b);
                }
                by_rank[ranks.draw(prng)]
            }
            KeyDistribution::Scan { .. } => {
                // Inserts twenty evenly spaced scans. Each scan is a two-hundredth of the stream.
                let (part, length) = (number % (count / 20), count / 200);
                if part < length { ONCE + part as u64 } else { ranks.draw(prng) as u64 }
            }
            KeyDistribution::Loop { .. } => {
                if number.is_multiple_of(2) {
                    ONCE + (number / 2 % (keys / 10)) as u64
                } else {
                    ranks.draw(prng) as u64
                }
            }
            KeyDistribution::Window => {
                let width = keys / 10;
                let from = (keys - width) as u64 * number as u64 / count as u64;
                from + prng.below(width as u64)
            }
        }
    }

    fn access(&self, key: u64, number: usize, count: usize) -> Access {
        let unit = |which: u64| (split_mix(split_mix(key) ^ which) >> 11) as f64 / (1u64 << 53) as f64;
        let around = |mean: u64| mean / 2 + (unit(1) * mean as f64) as u64;
        let (value_bytes, at_ms, ttl_ms) = match &self.shape {
            KeyDistribution::Cluster(row) => {
                let mean = row.value_bytes().min(CLUSTER_VALUE_BYTES_MAX);
                (around(mean), row.at_ms(number, count), row.ttl_ms(unit(2)))
            }
            KeyDistribution::Meta { meta, scale } => (meta.value_bytes(unit(1), unit(2)) / scale, number as u64, 0),
            _ => (around(VALUE_BYTES), number as u64, 0),
        };
        Access { key, at_ms, ttl_ms, value_bytes: value_bytes.min(VALUE_BYTES_MAX) as u32 }
    }
}

/// Returns the bytes of the items that are live at once without eviction, as a mean over the second half of the
/// accesses.
fn live_bytes(accesses: &[Access]) -> u64 {
    let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
    let mut end_of: HashMap<u64, u64> = HashMap::new();
    let (mut live, mut sum) = (0u64, 0u128);
    for (number, access) in accesses.iter().enumerate() {
        while let Some(entry) = ends.first_entry().filter(|entry| *entry.key() <= access.at_ms) {
            live -= entry.remove();
        }
        let bytes = gannet::cost_bytes(access);
        let end = end_of.entry(access.key).or_default();
        if *end <= access.at_ms {
            *end = access.at_ms + access.ttl_ms;
            *ends.entry(*end).or_default() += bytes;
            live += bytes;
        }
        if number * 2 >= accesses.len() {
            sum += u128::from(live);
        }
    }
    (sum / accesses.len().div_ceil(2) as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_bytes_exclude_expired_items_and_count_each_key_once() {
        let access = |key, at_ms| Access { key, at_ms, ttl_ms: 10, value_bytes: 100 };
        let one = gannet::cost_bytes(&access(1, 0));
        // In the second half of the accesses, two items are live, then one, then two again.
        let accesses = [access(1, 0), access(1, 5), access(2, 6), access(2, 9), access(2, 12), access(1, 13)];
        assert_eq!(live_bytes(&accesses), (2 * one + one + 2 * one) / 3);
    }

    #[test]
    fn streams_are_reproducible_and_request_keys_repeatedly() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data");
        for stream in all(&data).expect("the data is there") {
            let (once, again) = (stream.draw(20_000), stream.draw(20_000));
            assert!(once.iter().zip(&again).all(|(a, b)| (a.key, a.at_ms) == (b.key, b.at_ms)), "{}", stream.name);
            let keys: std::collections::HashSet<u64> = once.iter().map(|access| access.key).collect();
            assert!(keys.len() * 10 < once.len() * 9 && keys.len() > 50, "{}: {} keys", stream.name, keys.len());
            assert!(once.iter().all(|access| (access.ttl_ms > 0) == stream.has_lifetimes()), "{}", stream.name);
        }
    }
}
