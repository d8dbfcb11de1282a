//! Replays realistic requests, drawn from the statistics of production caches, on Gannet and on Debian's memcached.
//!
//! Both servers get the same stream from one seed, the same memory and the same pace, so that items expire after the
//! same number of requests. Every reply is checked; a wrong byte ends the replay.

mod client;
pub mod table;
mod workload;

use std::path::Path;
use std::time::{Duration, Instant};

use client::{CONNECTIONS, ReplayClient, ReplayTally, TURN_REQUESTS};
use testbed::host;
use testbed::server::{ServerKind, ServerOptions, TestServer, pin};
use workload::{StreamName, WEEK_S, Workload};

/// The length, the pace and the memory limits of a replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// Number of requests of each stream.
    pub requests: u64,
    /// Requests per second for both servers.
    pub pace: u64,
    /// Memory limit for kvcache_reg, in MiB.
    pub kvcache_mib: u64,
    /// Memory limit for cluster52, in MiB.
    pub cluster52_mib: u64,
    /// True to count each replay as a test and print the result like a test runner.
    pub as_test: bool,
    /// True to leave Gannet out.
    pub without_gannet: bool,
}

impl ReplayOptions {
    /// Returns the options of the replay whose results are published as tables: 20 million requests.
    pub fn full() -> Self {
        let (kvcache_mib, cluster52_mib) = (128, 64);
        Self { requests: 20_000_000, pace: 75_000, kvcache_mib, cluster52_mib, as_test: false, without_gannet: false }
    }

    /// Returns the options of a replay of a few seconds for `make test`, which only checks replies.
    pub fn short() -> Self {
        let (kvcache_mib, cluster52_mib) = (16, 64);
        Self { requests: 300_000, pace: 60_000, kvcache_mib, cluster52_mib, as_test: true, without_gannet: false }
    }

    /// Returns the number of seconds in production that one second of the replay represents. The whole replay
    /// represents one week.
    fn compression(&self) -> f64 {
        WEEK_S * self.pace as f64 / self.requests as f64
    }
}

const SEED: u64 = 20;

struct ReplayRow {
    tally: ReplayTally,
    items: u64,
    evictions: u64,
    rss_bytes: u64,
    cpu_ns: u64,
    elapsed: Duration,
}

/// Replays both workloads on both servers and prints the table. Returns false if a reply was wrong.
///
/// # Errors
/// If a server does not start, or if the data is missing.
pub fn run(root: &Path, options: ReplayOptions) -> Result<bool, String> {
    println!("{}\n", host::facts());
    let workloads = [Workload::kvcache_reg(&root.join("data"))?, Workload::cluster52(options.requests)];
    println!(
        "{} requests, {CONNECTIONS} connections, {TURN_REQUESTS} requests per turn, {} requests/s; one second \
         represents {:.0} s, so that the replay is one week.\n",
        options.requests,
        options.pace,
        options.compression()
    );
    for workload in &workloads {
        println!("- {}: {}", workload.name.text(), workload.scale);
    }
    println!(
        "\n| workload | server | limit, MiB | hit ratio | items held | RSS, MiB | RSS per item, B | evictions | \
         CPU-ns per command | requests/s | errors |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let kinds = if options.without_gannet {
        vec![ServerKind::Memcached]
    } else {
        vec![ServerKind::Gannet, ServerKind::Memcached]
    };
    let (mut passed, mut failed) = (0, 0);
    for workload in &workloads {
        for kind in &kinds {
            match replay(*kind, workload, options) {
                Ok(row) => {
                    passed += 1;
                    print_row(*kind, workload, options, &row);
                }
                Err(error) => {
                    failed += 1;
                    println!("| {} | {} | {error} |", workload.name.text(), kind.name());
                }
            }
        }
    }
    if options.as_test {
        println!("test result: {}. {passed} passed; {failed} failed;", if failed == 0 { "ok" } else { "FAILED" });
    }
    Ok(failed == 0)
}

fn memory_mib(workload: &Workload, options: ReplayOptions) -> u64 {
    match workload.name {
        StreamName::KvcacheReg => options.kvcache_mib,
        StreamName::Cluster52 => options.cluster52_mib,
    }
}

fn replay(kind: ServerKind, workload: &Workload, options: ReplayOptions) -> Result<ReplayRow, String> {
    let pinned = !options.as_test;
    let cpu = pinned.then_some(0);
    let server =
        TestServer::start(kind, &ServerOptions { cpu, ..ServerOptions::memory(memory_mib(workload, options)) })?;
    if pinned {
        pin(Some(1))?;
    }
    let mut client = ReplayClient::connect(server.address, workload, options.compression(), SEED)
        .map_err(|error| error.to_string())?;
    let cpu_before = server.cpu_ns();
    let started = Instant::now();
    while client.tally.requests < options.requests {
        let due = (started.elapsed().as_secs_f64() * options.pace as f64) as u64;
        let ready = due.min(options.requests).saturating_sub(client.tally.requests);
        if ready < TURN_REQUESTS && client.tally.requests + ready < options.requests {
            std::thread::sleep(Duration::from_micros(200));
            continue;
        }
        client.iterate(ready.min(TURN_REQUESTS))?;
    }
    client.iterate(0)?;
    let elapsed = started.elapsed();
    if pinned {
        pin(None)?;
    }
    let tally = client.tally;
    if tally.hits == 0 || tally.misses == 0 || tally.stored == 0 {
        return Err(format!("the replay did not reach hits, misses and stores: {tally:?}"));
    }
    Ok(ReplayRow {
        tally,
        items: server.stat("curr_items")?,
        evictions: server.stat("evictions")?,
        rss_bytes: server.rss_bytes(),
        cpu_ns: server.cpu_ns() - cpu_before,
        elapsed,
    })
}

fn print_row(kind: ServerKind, workload: &Workload, options: ReplayOptions, row: &ReplayRow) {
    let tally = &row.tally;
    println!(
        "| {} | {} | {} | {:.4} | {} | {:.0} | {:.0} | {} | {:.0} | {:.0} | {} |",
        workload.name.text(),
        kind.name(),
        memory_mib(workload, options),
        tally.hits as f64 / (tally.hits + tally.misses) as f64,
        row.items,
        row.rss_bytes as f64 / 1024.0 / 1024.0,
        row.rss_bytes as f64 / row.items.max(1) as f64,
        row.evictions,
        row.cpu_ns as f64 / tally.commands as f64,
        tally.requests as f64 / row.elapsed.as_secs_f64(),
        tally.errors
    );
}
