//! Workloads from the rows of Twitter's table: sizes, mix, times to live, skew, and the share of keys that are
//! requested once, per cluster.
//!
//! The row has mean sizes, so value lengths are uniform around the mean. Its share of one-hit keys counts keys;
//! dividing by `mean freq`, the requests per key, converts it to a share of requests. A cluster without stores is read
//! look-aside. The keys are a sample of [`KEYS`]; the rate is the row's.

use base::units::TimeSpan;

use super::super::key;
use super::super::model::{Arrivals, KeyCommand, KeySpace, Order, Pace, Sizes, Verb, Workload};
use super::super::units::Share;

/// Number of keys of a preset; the real cluster has more.
const KEYS: u64 = 1_000_000;

const TABLE: &str = include_str!("../../../../../data/twitter-2020Mar.md");

/// Returns the cells of the rows, without the table's header.
fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    let rows = TABLE.lines().filter(|line| line.trim_start_matches(['|', ' ']).starts_with("cluster"));
    rows.map(|line| line.trim().trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>())
        .filter(|cells| cells.len() == 14 && cells[3].parse::<u64>().is_ok())
}

/// Returns the clusters that have figures.
pub fn clusters() -> impl Iterator<Item = &'static str> {
    rows().map(|cells| cells[0])
}

/// Returns the workload of `cluster`; `None` if no row has it.
pub fn workload(cluster: &str) -> Option<Workload> {
    let cells = rows().find(|cells| cells[0] == cluster)?;
    let number = |at: usize| cells[at].parse::<f64>().ok();
    let (key_bytes, value_bytes) = (number(3)? as u64, number(4)? as u64);
    let frequency = number(6).unwrap_or(1.0).max(1.0);
    let commands = commands(cells[12]);
    let stores = commands.iter().any(|command| command.verb.stores());
    let is_counter = |command: &KeyCommand| matches!(command.verb, Verb::Incr | Verb::Decr);
    let (counters, others): (Vec<KeyCommand>, Vec<KeyCommand>) = commands.into_iter().partition(is_counter);
    let space = |prefix: &str, verbs: Vec<KeyCommand>| {
        let mut space = KeySpace {
            weight: verbs.iter().map(|command| command.weight).sum(),
            count: KEYS,
            prefix: prefix.into(),
            order: match number(13) {
                Some(exponent) if exponent > 0.0 => Order::Zipf { exponent },
                _ => Order::Uniform,
            },
            once: Share((number(7).unwrap_or(0.0) / 100.0 / frequency).clamp(0.0, 1.0)),
            verbs,
            value_bytes: Sizes::Range(value_bytes.div_ceil(2), value_bytes + value_bytes / 2),
            ttl: ttls(cells[9]),
            ..KeySpace::default()
        };
        space.key_bytes = Sizes::Fixed(key_bytes.max(key::bytes_least(&space)));
        space
    };
    let mut keys = Vec::new();
    if !others.is_empty() {
        keys.push(space("", others));
    }
    if !counters.is_empty() {
        keys.push(space("#", counters));
    }
    Some(Workload {
        name: format!("twitter:{cluster}"),
        about: format!("Twitter's {cluster}: sizes, mix, times to live and skew of its row, over {KEYS} keys"),
        pace: Pace::Open { rate_per_s: number(5)? * 1000.0, arrivals: Arrivals::Poisson },
        connections: 100,
        prefill: true,
        fill_on_miss: !stores,
        keys,
        ..Workload::default()
    })
}

/// Parses `get:0.93 set:0.07`. A `cas` also sends a `gets` for the token, so its weight is subtracted from that of
/// `gets`.
fn commands(cell: &str) -> Vec<KeyCommand> {
    let parts = cell.split_ascii_whitespace().filter_map(|part| {
        let (name, weight) = part.split_once(':')?;
        let verb = Verb::NAMES.iter().find(|(known, _)| *known == name)?.1;
        Some(KeyCommand::weighted(verb, weight.parse().ok()?))
    });
    let mut commands: Vec<KeyCommand> = parts.collect();
    let swaps: f64 = commands.iter().filter(|command| command.verb == Verb::Cas).map(|command| command.weight).sum();
    for command in commands.iter_mut().filter(|command| command.verb == Verb::Gets) {
        command.weight = (command.weight - swaps).max(0.0);
    }
    commands.retain(|command| command.weight > 0.0);
    commands
}

/// Parses `60s:0.39, 1.5h:0.24,` into whole seconds.
fn ttls(cell: &str) -> Vec<(TimeSpan, f64)> {
    let parts = cell.split(',').filter_map(|part| {
        let (ttl, weight) = part.trim().split_once(':')?;
        let seconds = ttl.parse::<TimeSpan>().ok()?.as_ns() / 1_000_000_000;
        Some((TimeSpan::secs(seconds), weight.parse().ok()?))
    });
    parts.collect()
}
