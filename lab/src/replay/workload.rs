//! Draws two streams of requests, each from the published statistics of a production cache.
//!
//! For `kvcache_reg`, Meta's files give the popularity of groups of keys, the value sizes and the mix of operations.
//! Its lifetimes are those of Twitter's cluster19, because Meta's files have none. `cluster52` matches the cluster's
//! row in Twitter's data: the mix of operations, the Zipf exponent, the requests per key, the share of keys requested
//! once, and the lifetimes. All properties of a key (key length, value length, lifetime) follow from its number, so
//! that they are the same in every run and on every server.

use std::path::Path;

use base::prng::{Prng, split_mix};

use super::table::WeightTable;

/// Seconds of production time that a replay represents; the traces behind Twitter's figures cover one week.
pub const WEEK_S: f64 = 7.0 * 86_400.0;

/// Maximum length of a key in memcached, in bytes. Meta's file has lengths up to 255 bytes, which memcached refuses.
const KEY_BYTES_MAX: u64 = 250;
/// Keys from this number on are requested only once.
const LONE: u64 = 1 << 40;

/// One request of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads the key; a miss is followed by a fill.
    Get(u64),
    /// Stores the key if it is absent.
    Add(u64),
    /// Reads the key with its CAS token, then stores it with compare-and-swap.
    GetsCas(u64),
}

/// The name of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamName {
    /// Meta's key-value cache.
    KvcacheReg,
    /// Twitter's cluster 52.
    Cluster52,
}

impl StreamName {
    /// Returns the name in the tables.
    pub fn text(self) -> &'static str {
        match self {
            Self::KvcacheReg => "kvcache_reg",
            Self::Cluster52 => "cluster52",
        }
    }
}

/// The distributions of a stream.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The name of the stream.
    pub name: StreamName,
    /// A sentence, for the printed result, about the scale of the stream relative to production.
    pub scale: String,
    /// Number of keys that may be requested more than once. These keys are numbered from 0.
    pub keys: u64,
    popularity: Popularity,
    sizes: WeightTable,
    size_edges: Vec<u64>,
    operations: WeightTable,
    lifetimes: WeightTable,
    lifetime_s: Vec<f64>,
    key_bytes: (u64, u64),
}

#[derive(Clone, Debug)]
enum Popularity {
    /// Groups of equally popular keys. A group has the number of its first key and its number of keys.
    Groups { weights: WeightTable, groups: Vec<(u64, u64)> },
    /// Zipf over the keys, mixed with a share of uniform draws.
    Zipf { weights: WeightTable, uniform: f64 },
}

const CLUSTER19_HOURS: [(f64, f64); 10] = [
    (7.5, 0.08),
    (7.4, 0.07),
    (6.6, 0.07),
    (7.2, 0.07),
    (6.7, 0.07),
    (7.0, 0.07),
    (7.1, 0.07),
    (6.8, 0.07),
    (6.9, 0.07),
    (7.3, 0.06),
];

impl Workload {
    /// Reads Meta's kvcache_reg from `data`.
    ///
    /// # Errors
    /// If a file is missing or has another format.
    pub fn kvcache_reg(data: &Path) -> Result<Self, String> {
        let read = |file: &str| -> Result<serde_json::Value, String> {
            let path = data.join("meta-kvcache_reg").join(file);
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
        };
        let (config, pop, sizes) = (read("config.json")?, read("pop.json")?, read("sizes.json")?);
        let counts = numbers(&pop, "popularityBuckets")?;
        let mut keys = 0;
        let groups = counts
            .iter()
            .map(|count| {
                let group = (keys, *count as u64);
                keys += group.1;
                group
            })
            .collect();
        let config = &config["test_config"];
        let ratio =
            |name: &str| config[name].as_f64().ok_or_else(|| format!("config.json: the value {name} is missing"));
        Ok(Self {
            name: StreamName::KvcacheReg,
            scale: format!(
                "{keys} keys (the groups of the popularity file) represent the configuration's {}",
                config["numKeys"]
            ),
            keys,
            popularity: Popularity::Groups { weights: WeightTable::new(numbers(&pop, "popularityWeights")?), groups },
            sizes: WeightTable::new(numbers(&sizes, "valSizeRangeProbability")?),
            size_edges: numbers(&sizes, "valSizeRange")?.iter().map(|edge| *edge as u64).collect(),
            operations: WeightTable::new([ratio("getRatio")?, 0.0, 0.0, ratio("loneGetRatio")?]),
            lifetimes: WeightTable::new(CLUSTER19_HOURS.map(|(_, share)| share)),
            lifetime_s: CLUSTER19_HOURS.map(|(hours, _)| hours * 3600.0).to_vec(),
            key_bytes: (16, KEY_BYTES_MAX),
        })
    }

    /// Creates Twitter's cluster 52, scaled so that `requests` requests have the row's number of requests per key.
    pub fn cluster52(requests: u64) -> Self {
        const MEAN_FREQUENCY: f64 = 32.6;
        const ONE_HIT_SHARE: f64 = 0.1936;
        const ALPHA: f64 = 1.2117;
        let distinct = requests as f64 / MEAN_FREQUENCY;
        let (keys, uniform) = fit(requests as f64, distinct, ONE_HIT_SHARE * distinct, ALPHA);
        Self {
            name: StreamName::Cluster52,
            scale: format!(
                "{keys} keys, Zipf {ALPHA} with {:.1} % of uniform draws, fitted to {MEAN_FREQUENCY} requests per key \
                 and {:.2} % of keys requested once",
                uniform * 100.0,
                ONE_HIT_SHARE * 100.0
            ),
            keys,
            popularity: Popularity::Zipf {
                weights: WeightTable::new((1..=keys).map(|rank| (rank as f64).powf(-ALPHA))),
                uniform,
            },
            // The row gives only the mean length, 273 bytes. The drawn lengths are uniform around it.
            sizes: WeightTable::new([1.0]),
            size_edges: vec![137, 410],
            operations: WeightTable::new([0.91, 0.04, 0.02, 0.0]),
            lifetimes: WeightTable::new([0.65, 0.27, 0.07]),
            lifetime_s: vec![86_400.0, 14.0 * 86_400.0, 43_200.0],
            key_bytes: (20, 20),
        }
    }

    /// Draws the next request. `lone` counts the keys that are requested once.
    pub fn next(&self, prng: &mut Prng, lone: &mut u64) -> Request {
        match self.operations.draw(prng) {
            0 => Request::Get(self.key(prng)),
            1 => Request::Add(self.key(prng)),
            2 => Request::GetsCas(self.key(prng)),
            _ => {
                *lone += 1;
                Request::Get(LONE + *lone)
            }
        }
    }

    fn key(&self, prng: &mut Prng) -> u64 {
        match &self.popularity {
            Popularity::Groups { weights, groups } => {
                let (first, count) = groups[weights.draw(prng)];
                first + prng.below(count)
            }
            Popularity::Zipf { uniform, .. } if prng.unit() < *uniform => prng.below(self.keys),
            Popularity::Zipf { weights, .. } => weights.draw(prng) as u64,
        }
    }

    /// Returns whether only one request uses the key.
    pub fn is_lone(key: u64) -> bool {
        key >= LONE
    }

    /// Appends the key's text to `out`.
    pub fn write_key(&self, key: u64, out: &mut Vec<u8>) {
        let (low, high) = self.key_bytes;
        let length = low + fact(key, 1) % (high - low + 1);
        let begin = out.len();
        let mut word = split_mix(key);
        while ((out.len() - begin) as u64) < length {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            for shift in (0..16).take(length as usize - (out.len() - begin)) {
                out.push(DIGITS[(word >> (shift * 4)) as usize & 15]);
            }
            word = split_mix(word);
        }
    }

    /// Returns the length of the key's value in bytes.
    pub fn value_bytes(&self, key: u64) -> usize {
        let index = self.sizes.at(fact(key, 2) as f64 / (1u64 << 53) as f64);
        let low = self.size_edges[index];
        let high = self.size_edges.get(index + 1).copied().unwrap_or(low + 1);
        (low + fact(key, 3) % (high - low).max(1)) as usize
    }

    /// Returns the seconds to live in the replay, if one of its seconds represents `compression` seconds; at least 1.
    pub fn lifetime_s(&self, key: u64, compression: f64) -> u64 {
        let seconds = self.lifetime_s[self.lifetimes.at(fact(key, 4) as f64 / (1u64 << 53) as f64)];
        (seconds / compression).round().max(1.0) as u64
    }
}

/// Returns 53 pseudo-random bits that depend only on the key's number and on `which`.
fn fact(key: u64, which: u64) -> u64 {
    split_mix(split_mix(key) ^ which) >> 11
}

fn numbers(from: &serde_json::Value, name: &str) -> Result<Vec<f64>, String> {
    let list = from[name].as_array().ok_or_else(|| format!("the list {name} is missing"))?;
    list.iter().map(|number| number.as_f64().ok_or_else(|| format!("{name}: the value is not a number"))).collect()
}

/// Returns a number of keys and a share of uniform draws. With these, `requests` draws are expected to draw `distinct`
/// different keys, `singles` of them once.
fn fit(requests: f64, distinct: f64, singles: f64, alpha: f64) -> (u64, f64) {
    let keys_for = |uniform: f64| {
        let (mut low, mut high) = (distinct, distinct * 50.0);
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            match expected(requests, middle, uniform, alpha).0 < distinct {
                true => low = middle,
                false => high = middle,
            }
        }
        high
    };
    let (mut low, mut high) = (0.001, 0.5);
    for _ in 0..30 {
        let middle = (low + high) / 2.0;
        match expected(requests, keys_for(middle), middle, alpha).1 > singles {
            true => low = middle,
            false => high = middle,
        }
    }
    (keys_for(high).round() as u64, high)
}

/// Returns the expected number of distinct keys and of keys drawn once. Ranks are combined in groups of 0.5 % width.
fn expected(requests: f64, keys: f64, uniform: f64, alpha: f64) -> (f64, f64) {
    let mut groups = Vec::new();
    let mut rank = 1.0;
    while rank <= keys {
        let next = (rank * 1.005f64).max(rank + 1.0).floor().min(keys + 1.0);
        groups.push((next - rank, ((rank + next - 1.0) / 2.0).powf(-alpha)));
        rank = next;
    }
    let sum: f64 = groups.iter().map(|(count, weight)| count * weight).sum();
    groups.iter().fold((0.0, 0.0), |(distinct, singles), (count, weight)| {
        let mean = requests * ((1.0 - uniform) * weight / sum + uniform / keys);
        (distinct + count * (1.0 - (-mean).exp()), singles + count * mean * (-mean).exp())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn cluster52_matches_its_requests_per_key_and_one_hit_share() {
        let requests = 400_000;
        let workload = Workload::cluster52(requests);
        let (mut prng, mut lone) = (Prng::new(1), 0);
        let mut counts: HashMap<u64, u32> = HashMap::new();
        for _ in 0..requests {
            let (Request::Get(key) | Request::Add(key) | Request::GetsCas(key)) = workload.next(&mut prng, &mut lone);
            *counts.entry(key).or_default() += 1;
        }
        let mean = requests as f64 / counts.len() as f64;
        let ones = counts.values().filter(|count| **count == 1).count() as f64 / counts.len() as f64;
        assert!((31.0..34.0).contains(&mean), "{mean} requests a key");
        assert!((0.17..0.22).contains(&ones), "{ones} asked for once");
    }

    #[test]
    fn kvcache_reg_has_its_files_mean_value_size_and_lone_share() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data");
        let workload = Workload::kvcache_reg(&data).expect("the data is there");
        let (mut prng, mut lone) = (Prng::new(1), 0);
        let mut bytes = 0;
        for number in 0..200_000 {
            workload.next(&mut prng, &mut lone);
            bytes += workload.value_bytes(number);
        }
        let mean = bytes as f64 / 200_000.0;
        assert!((300.0..400.0).contains(&mean), "mean value of {mean} bytes");
        assert!((23_000..25_200).contains(&lone), "{lone} lone gets");
    }

    #[test]
    fn keys_are_legal_distinct_and_always_the_same() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data");
        let workload = Workload::kvcache_reg(&data).expect("the data is there");
        let text = |key| {
            let mut out = Vec::new();
            workload.write_key(key, &mut out);
            out
        };
        let keys: std::collections::HashSet<Vec<u8>> = (0..10_000).map(text).collect();
        assert_eq!(keys.len(), 10_000);
        assert!(keys.iter().all(|key| (16..=250).contains(&key.len())));
        assert_eq!(text(7), text(7));
    }
}
