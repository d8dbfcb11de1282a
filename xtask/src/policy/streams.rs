//! Streams of accesses, each drawn from a seed.
//!
//! The keys of a stream are numbers; a value's length and lifetime follow from its key's number. Where items live for
//! ever, one access comes every millisecond of the store's clock. The streams named after a cluster have the Zipf
//! exponent, requests a key, share of keys asked for once, lifetimes and mean value length of its row in
//! `data/twitter-2020Mar.md`, over one week: a sample of the cluster's keys, so that lifetimes and the time between two
//! requests for a key stay in proportion.

use base::prng::{Prng, split_mix};

use crate::replay::table::Table;

/// One access: a read, and a store if the read misses.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The key's number.
    pub key: u64,
    /// When, in milliseconds since the stream began.
    pub at_ms: u64,
    /// How long a stored item lives, in milliseconds; 0: for ever.
    pub ttl_ms: u64,
    /// The value's length.
    pub value_bytes: u32,
}

/// How keys are chosen.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Zipf over the keys; so many percent of the accesses are to keys that are asked for once.
    Zipf { alpha: f64, once_percent: u64 },
    /// Zipf whose popular keys change: every hundred accesses one of them changes place with any other.
    Churn { alpha: f64 },
    /// Zipf, with a scan through a tenth as many keys as the stream has accesses, twenty times.
    Scan { alpha: f64 },
    /// Zipf, half of the accesses; the other half go round through a tenth of the keys.
    Loop { alpha: f64 },
    /// Uniform in a window of a tenth of the keys that slides over all of them.
    Window,
    /// A week of a cluster's row.
    Cluster(Cluster),
}

/// What a row says of a cluster.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    alpha: f64,
    /// Requests for a key, on average.
    frequency: f64,
    /// Percent of the keys that are asked for once.
    once_percent: f64,
    /// Lifetimes in seconds, with their weights.
    ttl_s: &'static [(f64, f64)],
    /// Mean length of a value.
    value_bytes: u32,
}

/// A named stream.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// As in the tables.
    pub name: &'static str,
    shape: Shape,
}

/// Keys asked for once are numbered from here.
const ONCE: u64 = 1 << 40;
/// One key for so many accesses.
const ACCESSES_A_KEY: usize = 5;
const CHURN_EVERY: usize = 100;
const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;
const WEEK_MS: f64 = 7.0 * DAY * 1000.0;

/// Every stream of the table.
pub fn all() -> Vec<Stream> {
    use Shape::{Churn, Loop, Scan, Window, Zipf};
    let cluster = |name, alpha, frequency, once_percent, ttl_s, value_bytes| {
        stream(name, Shape::Cluster(Cluster { alpha, frequency, once_percent, ttl_s, value_bytes }))
    };
    vec![
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
        cluster("cluster4", 1.1004, 26.5, 29.33, &[(60.0, 0.39), (300.0, 0.24), (HOUR, 0.13), (600.0, 0.12)], 2439),
        cluster("cluster7", 1.0666, 72.9, 0.01, &[(1.8 * HOUR, 0.28), (1.7 * HOUR, 0.24), (1.9 * HOUR, 0.23)], 1936),
        cluster("cluster11", 1.4891, 45.7, 6.18, &[(5.0 * DAY, 0.97), (20.0, 0.03)], 170),
        cluster("cluster14", 1.2959, 35.4, 10.94, &[(DAY, 1.0)], 414),
        cluster("cluster19", 0.735, 4.7, 7.46, &[(7.5 * HOUR, 0.3), (7.0 * HOUR, 0.3), (6.6 * HOUR, 0.3)], 101),
        cluster("cluster22", 0.7624, 4.3, 41.48, &[(DAY, 0.85), (HOUR, 0.11), (1800.0, 0.03)], 4),
        cluster("cluster29", 1.2323, 22.5, 23.04, &[(HOUR, 0.67), (2.0 * HOUR, 0.33)], 799),
        cluster("cluster34", 1.1401, 49.4, 0.26, &[(10.6 * HOUR, 0.5), (11.1 * HOUR, 0.3), (9.8 * HOUR, 0.2)], 322),
        cluster("cluster40", 0.8551, 11.8, 0.1, &[(8.0 * HOUR, 0.95), (DAY, 0.05)], 155),
        cluster("cluster52", 1.2117, 32.6, 19.36, &[(DAY, 0.65), (14.0 * DAY, 0.27), (12.0 * HOUR, 0.07)], 273),
    ]
}

const fn stream(name: &'static str, shape: Shape) -> Stream {
    Stream { name, shape }
}

impl Stream {
    /// The stream's first `count` accesses.
    pub fn draw(&self, count: usize) -> Vec<Access> {
        let mut prng = Prng::new(split_mix(self.name.bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte))));
        let keys = match self.shape {
            Shape::Cluster(cluster) => (count as f64 / cluster.frequency) as usize,
            _ => count / ACCESSES_A_KEY,
        };
        let alpha = match self.shape {
            Shape::Zipf { alpha, .. }
            | Shape::Churn { alpha }
            | Shape::Scan { alpha }
            | Shape::Loop { alpha }
            | Shape::Cluster(Cluster { alpha, .. }) => alpha,
            Shape::Window => 0.0,
        };
        let ranks = Table::new((1..=keys).map(|rank| (rank as f64).powf(-alpha)));
        let mut by_rank: Vec<u64> = (0..keys as u64).collect();
        let mut lone = ONCE;
        (0..count)
            .map(|number| {
                let key = self.key(number, count, &ranks, &mut by_rank, &mut lone, &mut prng);
                self.access(key, number, count)
            })
            .collect()
    }

    fn key(
        &self,
        number: usize,
        count: usize,
        ranks: &Table,
        by_rank: &mut [u64],
        lone: &mut u64,
        prng: &mut Prng,
    ) -> u64 {
        let keys = by_rank.len();
        let once = |lone: &mut u64| {
            *lone += 1;
            *lone
        };
        match self.shape {
            Shape::Zipf { once_percent, .. } => {
                if prng.below(100) < once_percent {
                    once(lone)
                } else {
                    ranks.draw(prng) as u64
                }
            }
            Shape::Cluster(Cluster { frequency, once_percent, .. }) => {
                let once_share = once_percent / 100.0 / frequency;
                if prng.unit() < once_share { once(lone) } else { ranks.draw(prng) as u64 }
            }
            Shape::Churn { .. } => {
                if number.is_multiple_of(CHURN_EVERY) {
                    let (a, b) = (ranks.draw(prng), prng.below(keys as u64) as usize);
                    by_rank.swap(a, b);
                }
                by_rank[ranks.draw(prng)]
            }
            Shape::Scan { .. } => {
                // Twenty scans, each a two-hundredth of the stream, evenly spaced.
                let (part, length) = (number % (count / 20), count / 200);
                if part < length { ONCE + part as u64 } else { ranks.draw(prng) as u64 }
            }
            Shape::Loop { .. } => {
                if number.is_multiple_of(2) {
                    ONCE + (number / 2 % (keys / 10)) as u64
                } else {
                    ranks.draw(prng) as u64
                }
            }
            Shape::Window => {
                let width = keys / 10;
                let from = (keys - width) as u64 * number as u64 / count as u64;
                from + prng.below(width as u64)
            }
        }
    }

    fn access(&self, key: u64, number: usize, count: usize) -> Access {
        let fact = split_mix(key ^ 0x5bd1);
        match self.shape {
            Shape::Cluster(Cluster { ttl_s, value_bytes, .. }) => {
                let weights: f64 = ttl_s.iter().map(|(_, weight)| weight).sum();
                let mut point = (fact >> 11) as f64 / (1u64 << 53) as f64 * weights;
                let ttl = ttl_s.iter().find(|(_, weight)| {
                    point -= weight;
                    point < 0.0
                });
                let ttl_ms = (ttl.unwrap_or(&ttl_s[0]).0 * 1000.0) as u64;
                let at_ms = (WEEK_MS * number as f64 / count as f64) as u64;
                let value_bytes = value_bytes / 2 + (split_mix(fact) % u64::from(value_bytes)) as u32;
                Access { key, at_ms, ttl_ms, value_bytes }
            }
            _ => Access { key, at_ms: number as u64, ttl_ms: 0, value_bytes: 100 + (fact % 400) as u32 },
        }
    }
}
