//! Measurements of `xtask bench`, printed as Markdown tables. The basic two are CPU time per get, compared with a null
//! server, and bytes per item.
//!
//! CPU time is the cost of a request regardless of other load on the machine; wall-clock rates are printed too. Each
//! round runs the servers one after another. R is a ratio within one round: the null server's CPU time per get / the
//! server's CPU time per get.

mod bystander;
mod file;
mod flash;
mod generator;
mod growth;
mod large;
mod memory;
mod neighbour;
mod resp;
mod restart;
mod rounds;
mod storm;
mod summary;
mod tails;
mod upgrade;

use std::time::Duration;

use memory::Fill;
use rounds::{BenchLoad, LOAD_OF_MANY, LOADS, LoadResults, RoundsPlan, median_min_max};
use testbed::host;
use testbed::server::ServerKind;

/// The selected measurements and their length.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// True for fewer and shorter rounds and less memory, which only test that the measurements work.
    pub quick: bool,
    /// Servers, including the null server.
    pub kinds: Vec<ServerKind>,
    /// Measure CPU per get.
    pub rates: bool,
    /// Measure bytes per item.
    pub memory: bool,
    /// Include Valkey in the bytes per item.
    pub valkey: bool,
    /// Measure background slices while index and memory grow.
    pub growth: bool,
    /// Measure values of 1 MiB and 100 MiB.
    pub large: bool,
    /// Measure a storm of connections beside a steady load.
    pub storm: bool,
    /// Measure the requests of a namespace while another namespace is flooded.
    pub neighbour: bool,
    /// Measure how long a client waits while another client runs a long command.
    pub bystander: bool,
    /// Measure the restart time of a store.
    pub restart: bool,
    /// Measure the cost of a memory file.
    pub file: bool,
    /// Measure items on flash.
    pub flash: bool,
    /// Measure requests of Redis clients.
    pub resp: bool,
    /// Measure the effect of a takeover by a new process on clients.
    pub upgrade: bool,
    /// Beginnings of the names of the rows to measure; if empty, all rows are measured.
    pub rows: Vec<String>,
    /// If set, only loads with this number of connections are measured.
    pub connections: Option<usize>,
    /// If set, only loads with this number of requests in flight on each connection are measured.
    pub depth: Option<usize>,
}

/// Runs the measurements and prints the results.
///
/// # Errors
/// If a server does not start, or gives a wrong reply.
pub fn run(options: &BenchOptions) -> Result<bool, String> {
    println!("{}\n", host::facts());
    let (mut outcomes, mut fills) = (Vec::new(), Vec::new());
    if options.rates {
        let plan = match options.quick {
            true => RoundsPlan { rounds: 3, rounds_extra_max: 0, turn: Duration::from_millis(500) },
            false => RoundsPlan { rounds: 7, rounds_extra_max: 14, turn: Duration::from_secs(2) },
        };
        let is_asked = |load: &BenchLoad| {
            options.connections.is_none_or(|connections| connections == load.connections)
                && options.depth.is_none_or(|depth| depth == load.depth)
        };
        let many = options.kinds.contains(&ServerKind::GannetUring).then_some(LOAD_OF_MANY);
        let loads: Vec<BenchLoad> = LOADS.into_iter().chain(many).filter(is_asked).collect();
        outcomes = rounds::run(&options.kinds, &loads, plan)?;
        print_rates(&outcomes, plan);
    }
    if options.resp {
        let plan = match options.quick {
            true => RoundsPlan { rounds: 3, rounds_extra_max: 0, turn: Duration::from_millis(400) },
            false => RoundsPlan { rounds: 7, rounds_extra_max: 7, turn: Duration::from_secs(1) },
        };
        let mut kinds = vec![ServerKind::Gannet, ServerKind::Redis];
        kinds.extend(options.valkey.then_some(ServerKind::Valkey));
        let tails = match options.quick {
            true => tails::TailsPlan { rounds: 1, turn: Duration::from_millis(500) },
            false => tails::TailsPlan { rounds: 5, turn: Duration::from_secs(2) },
        };
        resp::run(&kinds, &options.rows, options.depth, plan, tails)?;
    }
    if options.memory {
        let mut kinds = options.kinds.clone();
        kinds.extend(options.valkey.then_some(ServerKind::Valkey));
        fills = print_memory(&kinds, if options.quick { 64 } else { 512 })?;
    }
    if options.growth {
        growth::run(if options.quick { 512 } else { 8192 })?;
    }
    if options.storm {
        storm::run(options.quick)?;
    }
    if options.neighbour {
        neighbour::run(options.quick)?;
    }
    if options.bystander {
        bystander::run(options.quick, &options.rows)?;
    }
    if options.restart {
        restart::run(if options.quick { &[1024] } else { &[1024, 4096, 16384] }, &options.rows)?;
    }
    if options.upgrade {
        upgrade::run(options.quick)?;
    }
    if options.file {
        file::run(options.quick)?;
    }
    if options.flash {
        flash::run(options.quick)?;
    }
    if options.large {
        large::run(options.quick)?;
    }
    if options.rates || options.memory {
        summary::print(&outcomes, &fills, options.quick);
    }
    Ok(true)
}

fn print_rates(outcomes: &[LoadResults], plan: RoundsPlan) {
    println!(
        "Gets of {} keys, {} B key, {} B value; server on CPU 0, generator on CPU 1; {} rounds of {:?} per server.\n",
        generator::KEYS,
        generator::KEY_BYTES,
        generator::VALUE_BYTES,
        plan.rounds,
        plan.turn
    );
    println!(
        "| connections | depth | server | CPU-ns per get, median (min-max) | R, median (min-max) | gets/s | rounds |"
    );
    println!("|---|---|---|---|---|---|---|");
    for outcome in outcomes {
        for (index, (kind, cpu_ns)) in outcome.cpu_ns.iter().enumerate() {
            let (cpu, low, high) = median_min_max(cpu_ns);
            let rate = median_min_max(&outcome.rates[index].1).0;
            let ratio = outcome.ratios.iter().find(|(of, _)| of == kind).map_or("1".to_owned(), |(_, ratios)| {
                let (ratio, low, high) = median_min_max(ratios);
                format!("{ratio:.3} ({low:.3}-{high:.3})")
            });
            let rounds = match (outcome.noisy, outcome.dropped) {
                (true, _) => format!("{}, noisy", cpu_ns.len()),
                (false, 0) => cpu_ns.len().to_string(),
                (false, dropped) => format!("{}, {dropped} dropped", cpu_ns.len()),
            };
            println!(
                "| {} | {} | {} | {cpu:.0} ({low:.0}-{high:.0}) | {ratio} | {rate:.0} | {rounds} |",
                outcome.load.connections,
                outcome.load.depth,
                kind.name()
            );
        }
    }
    println!();
}

fn print_memory(kinds: &[ServerKind], memory_mib: u64) -> Result<Vec<(ServerKind, Fill)>, String> {
    println!("Filled to the first eviction under {memory_mib} MiB.\n");
    println!(
        "| key + value, bytes | TTL | server | items | limit/items - payload | RSS/items - payload | RSS, MiB (empty) |"
    );
    println!("|---|---|---|---|---|---|---|");
    let (mut accounts, mut fills) = (Vec::new(), Vec::new());
    for shape in memory::SHAPES {
        for kind in kinds.iter().filter(|kind| **kind != ServerKind::Null) {
            let fill = memory::fill(*kind, shape, memory_mib)?;
            println!(
                "| {} + {} | {} | {} | {} | {:.1} | {:.1} | {:.0} ({:.0}) |",
                shape.key_bytes,
                shape.value_bytes,
                if shape.ttl_s > 0 { "1 day" } else { "none" },
                kind.name(),
                fill.items,
                fill.overhead_of_limit(),
                fill.overhead_of_rss(),
                mib(fill.rss_bytes),
                mib(fill.rss_empty_bytes)
            );
            accounts.extend(fill.stats.clone().map(|stats| (shape, fill.items, stats)));
            fills.push((*kind, fill));
        }
    }
    println!();
    for (shape, items, stats) in accounts {
        let store = stats.get("store").unwrap_or(&stats);
        println!("gannet at {} + {} B, {items} items: {store}", shape.key_bytes, shape.value_bytes);
    }
    println!();
    Ok(fills)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}
