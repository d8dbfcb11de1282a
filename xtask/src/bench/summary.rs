//! Prints a table that compares this run's figures with their goals.

use super::memory::{Fill, SHAPES};
use super::rounds::{LOADS, LoadResults, median_min_max};
use testbed::server::ServerKind;

/// Minimum R by load: connections, depth, R. R is the null server's CPU time per get / the server's.
const RATIO_GOALS: [(usize, usize, f64); 4] = [(50, 1, 0.90), (1000, 1, 0.85), (50, 16, 0.55), (50, 100, 0.35)];
/// Minimum number of items of 16 + 64 bytes under a limit of 512 MiB; the flag is true for items with a TTL.
const ITEMS_GOALS: [(bool, u64); 2] = [(true, 5_000_000), (false, 5_300_000)];

/// Prints a line for each goal that this run measured.
pub fn print(outcomes: &[LoadResults], fills: &[(ServerKind, Fill)], quick: bool) {
    println!("| measure | memcached | valkey | gannet | goal | reached |\n|---|---|---|---|---|---|");
    for (connections, depth, goal) in RATIO_GOALS {
        debug_assert!(LOADS.iter().any(|load| (load.connections, load.depth) == (connections, depth)));
        let of_load = |outcome: &&LoadResults| (outcome.load.connections, outcome.load.depth) == (connections, depth);
        let Some(outcome) = outcomes.iter().find(of_load) else { continue };
        let ratio = |kind: ServerKind| {
            let (_, ratios) = outcome.ratios.iter().find(|(of, _)| *of == kind)?;
            Some(median_min_max(ratios).0)
        };
        let text = |kind| ratio(kind).map_or("-".into(), |ratio| format!("{ratio:.2}"));
        println!(
            "| CPU per get, null server / measured server (R), {connections} connections, depth {depth} \
             | {} | - | {} | {goal:.2} | {} |",
            text(ServerKind::Memcached),
            text(ServerKind::Gannet),
            verdict(ratio(ServerKind::Gannet).map(|ratio| ratio >= goal), quick)
        );
    }
    for (with_ttl, goal) in ITEMS_GOALS {
        let shape = SHAPES[usize::from(with_ttl)];
        let items = |kind: ServerKind| {
            let is_it = |(of, fill): &&(ServerKind, Fill)| {
                *of == kind
                    && (fill.shape.key_bytes, fill.shape.value_bytes) == (shape.key_bytes, shape.value_bytes)
                    && (fill.shape.ttl_s > 0) == with_ttl
            };
            fills.iter().find(is_it).map(|(_, fill)| fill)
        };
        let Some(ours) = items(ServerKind::Gannet) else { continue };
        let text = |kind| items(kind).map_or("-".into(), |fill| fill.items.to_string());
        println!(
            "| items of 16 + 64 B held under {} MiB{} | {} | {} | {} | {goal} | {} |",
            ours.memory_bytes >> 20,
            if with_ttl { ", with a TTL" } else { "" },
            text(ServerKind::Memcached),
            text(ServerKind::Valkey),
            ours.items,
            verdict(Some(ours.items >= goal), quick)
        );
    }
    println!("\nInstructions per request: `make bench-gate ARGS=--with-peer`. Misses: `make policy`.");
}

fn verdict(reached: Option<bool>, quick: bool) -> &'static str {
    match reached {
        _ if quick => "not judged",
        Some(true) => "yes",
        Some(false) => "NO",
        None => "-",
    }
}
