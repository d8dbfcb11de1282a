//! Describes ten of Twitter's cache clusters, by their rows in `data/twitter-2020Mar.md`.

const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;
/// The period of the rows' statistics, in hours.
const WEEK_HOURS: f64 = 168.0;

/// The figures of a row, and the part of the row's week that a stream represents.
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    /// Name in the tables.
    pub name: &'static str,
    /// The Zipf exponent.
    pub alpha: f64,
    /// Mean number of requests per key in a week.
    frequency: f64,
    /// Percentage of the keys that are requested once.
    once_percent: f64,
    /// Lifetimes in seconds with their weights, except those below 2 %.
    ttl_s: &'static [(f64, f64)],
    /// Mean length of a value in bytes.
    value_bytes: u32,
    /// Hours that a stream represents: about seven times the longest common lifetime, at most a week. In so short a
    /// period, enough keys are live at the same time to fill a memory.
    hours: f64,
    /// Factor by which this stream is longer than the other streams. It is above 1 for a row with few keys per request.
    /// At the usual length, the memories for such a stream would have too few segments.
    pub longer: usize,
}

const fn row(
    name: &'static str,
    (alpha, frequency, once_percent): (f64, f64, f64),
    value_bytes: u32,
    hours: f64,
    ttl_s: &'static [(f64, f64)],
) -> Cluster {
    Cluster { name, alpha, frequency, once_percent, ttl_s, value_bytes, hours, longer: 1 }
}

/// The rows of all clusters.
pub const ALL: [Cluster; 10] = [
    row(
        "cluster4",
        (1.1004, 26.5, 29.33),
        2439,
        6.0,
        &[(MINUTE, 0.39), (5.0 * MINUTE, 0.24), (HOUR, 0.13), (10.0 * MINUTE, 0.12), (4.0 * HOUR, 0.09), (DAY, 0.03)],
    ),
    row(
        "cluster7",
        (1.0666, 72.9, 0.01),
        1936,
        12.0,
        &[(1.8 * HOUR, 0.28), (1.7 * HOUR, 0.24), (1.9 * HOUR, 0.23), (1.6 * HOUR, 0.13), (2.0 * HOUR, 0.12)],
    ),
    Cluster {
        longer: 4,
        ..row("cluster11", (1.4891, 45.7, 6.18), 170, WEEK_HOURS, &[(5.0 * DAY, 0.97), (20.0, 0.03)])
    },
    row("cluster14", (1.2959, 35.4, 10.94), 414, WEEK_HOURS, &[(DAY, 1.0)]),
    row(
        "cluster19",
        (0.735, 4.7, 7.46),
        101,
        48.0,
        // The row has ten lifetimes of 6.6 to 7.5 hours with 6 to 8 % each.
        &[(7.5 * HOUR, 0.08), (7.3 * HOUR, 0.2), (7.1 * HOUR, 0.14), (6.9 * HOUR, 0.14), (6.7 * HOUR, 0.14)],
    ),
    row("cluster22", (0.7624, 4.3, 41.48), 4, WEEK_HOURS, &[(DAY, 0.85), (HOUR, 0.11), (30.0 * MINUTE, 0.03)]),
    row("cluster29", (1.2323, 22.5, 23.04), 799, 12.0, &[(HOUR, 0.67), (2.0 * HOUR, 0.33)]),
    row(
        "cluster34",
        (1.1401, 49.4, 0.26),
        322,
        72.0,
        // The row has ten lifetimes of 9.7 to 11.1 hours with 3 to 4 % each.
        &[(11.1 * HOUR, 0.2), (10.6 * HOUR, 0.4), (10.1 * HOUR, 0.2), (9.8 * HOUR, 0.2)],
    ),
    row("cluster40", (0.8551, 11.8, 0.1), 155, 48.0, &[(8.0 * HOUR, 0.95), (DAY, 0.05)]),
    row("cluster52", (1.2117, 32.6, 19.36), 273, WEEK_HOURS, &[(DAY, 0.65), (14.0 * DAY, 0.27), (12.0 * HOUR, 0.07)]),
];

impl Cluster {
    /// Returns the number of keys of a stream with `accesses` accesses. Each key is read as often per hour as in the
    /// row.
    pub fn keys(&self, accesses: usize) -> usize {
        (accesses as f64 / self.frequency * WEEK_HOURS / self.hours) as usize
    }

    /// Returns the share of accesses to keys that are requested only once, from 0 to 1.
    pub fn once_share(&self) -> f64 {
        self.once_percent / 100.0 / self.frequency
    }

    /// Returns the instant of access `number` of `count`, in milliseconds.
    pub fn at_ms(&self, number: usize, count: usize) -> u64 {
        (self.hours * HOUR * 1000.0 * number as f64 / count as f64) as u64
    }

    /// Returns the lifetime at quantile `unit` of the row's lifetimes, in milliseconds. `unit` is in [0, 1).
    pub fn ttl_ms(&self, unit: f64) -> u64 {
        let mut point = unit * self.ttl_s.iter().map(|(_, weight)| weight).sum::<f64>();
        let drawn = self.ttl_s.iter().find(|(_, weight)| {
            point -= weight;
            point < 0.0
        });
        (drawn.unwrap_or(&self.ttl_s[0]).0 * 1000.0) as u64
    }

    /// Returns the mean length of a value, in bytes.
    pub fn value_bytes(&self) -> u64 {
        u64::from(self.value_bytes)
    }
}
