//! Measures the cost of memory in a file: CPU per request, and the times of sets while pages are written back.
//!
//! ```text
//!   cost   the same requests to servers whose memory is private, in a file on tmpfs, in a file on disk: the CPU time
//!          per request in each round
//!   tails  sets in the open loop, for longer than the age at which the kernel writes back a changed page (30 s)
//! ```

use std::time::Duration;

use super::generator::{KEYS, Talk, key, store_keys};
use super::rounds::{BenchLoad, GENERATOR_CPU, RoundsPlan, SERVER_CPU, median_min_max, run_load};
use testbed::generator::{Folder, load_with};
use testbed::server::{MemoryFile, ServerKind, ServerOptions, TestServer, pin};

const MEMORY_MIB: u64 = 1024;
const VALUE_BYTES: usize = 200;
const LOAD: BenchLoad = BenchLoad { connections: 50, depth: 16 };
/// Number of keys for the tails. Their items exceed the amount of changed pages at which the kernel writes back at
/// once.
const TAIL_KEYS: usize = 500_000;
const TAIL_VALUE_BYTES: usize = 1000;
/// The rate at which the tails are measured, as a share of the highest rate.
const SHARE: f64 = 0.5;
/// Minimum ratio of CPU without a file to CPU with one.
const GOAL: f64 = 0.97;

const PLACES: [(&str, Option<MemoryFile>); 5] = [
    ("no file", None),
    ("tmpfs", Some(MemoryFile { on_disk: false, more: &[] })),
    ("disk", Some(MemoryFile { on_disk: true, more: &[] })),
    ("disk, index in DRAM", Some(MemoryFile { on_disk: true, more: &["--file-index", "dram"] })),
    (
        "disk, index in DRAM, checkpoints every 10 s",
        Some(MemoryFile { on_disk: true, more: &["--file-index", "dram", "--checkpoint", "10s"] }),
    ),
];

fn server(file: Option<MemoryFile>) -> Result<TestServer, String> {
    TestServer::start(
        ServerKind::Gannet,
        &ServerOptions { cpu: Some(SERVER_CPU), file, ..ServerOptions::memory(MEMORY_MIB) },
    )
}

/// Runs the measurement and prints the results.
///
/// # Errors
/// If a server does not start, or gives a wrong reply.
pub fn run(quick: bool) -> Result<(), String> {
    println!("Stores of {MEMORY_MIB} MiB; files on disk are in {}.\n", std::env::temp_dir().display());
    cost(quick)?;
    tails(quick)
}

fn cost(quick: bool) -> Result<(), String> {
    let plan = match quick {
        true => RoundsPlan { rounds: 3, rounds_extra_max: 0, turn: Duration::from_millis(300) },
        false => RoundsPlan { rounds: 15, rounds_extra_max: 10, turn: Duration::from_secs(1) },
    };
    // The place with checkpoints is left out, because a checkpoint's cost is not part of a request.
    let places = &PLACES[..4];
    let servers = places.iter().map(|(_, file)| server(*file)).collect::<Result<Vec<_>, _>>()?;
    servers.iter().try_for_each(|server| store_keys(server.address))?;
    let value = "x".repeat(VALUE_BYTES);
    let set = |out: &mut Vec<u8>, index| {
        out.extend(format!("set {} 0 0 {VALUE_BYTES}\r\n{value}\r\n", key(index)).bytes());
    };
    let talks = [("get", Talk::gets()), ("set", Talk::of(KEYS, "STORED\r\n".len(), b"RED\r\n", set))];
    println!(
        "{} connections, {} requests in flight on each; {} B + {VALUE_BYTES} B; {} rounds of {:?} per server (goal: \
         {GOAL:.2}):\n",
        LOAD.connections,
        LOAD.depth,
        super::generator::KEY_BYTES,
        plan.rounds,
        plan.turn
    );
    println!(
        "| request | memory | CPU-ns per request, median (min-max) | CPU without a file / with it, median (min-max) \
         |\n|---|---|---|---|"
    );
    pin(Some(GENERATOR_CPU))?;
    for (name, talk) in &talks {
        let pairs: Vec<(&TestServer, &Talk)> = servers.iter().map(|server| (server, talk)).collect();
        let outcome = run_load(&pairs, LOAD, plan)?;
        let (_, none) = &outcome.cpu_ns[0];
        for ((place, _), (_, cpu_ns)) in places.iter().zip(&outcome.cpu_ns) {
            let ratios: Vec<f64> = none.iter().zip(cpu_ns).map(|(none, own)| none / own).collect();
            let (cpu, cpu_low, cpu_high) = median_min_max(cpu_ns);
            let (ratio, low, high) = median_min_max(&ratios);
            let noisy = if outcome.noisy { ", noisy" } else { "" };
            println!(
                "| {name} | {place} | {cpu:.0} ({cpu_low:.0}-{cpu_high:.0}) | {ratio:.3} ({low:.3}-{high:.3}){noisy} |"
            );
        }
    }
    pin(None)?;
    println!();
    Ok(())
}

fn tails(quick: bool) -> Result<(), String> {
    let (rounds, turn) = if quick { (1, "2s") } else { (3, "45s") };
    let keys = if quick { TAIL_KEYS / 10 } else { TAIL_KEYS };
    let folder = Folder::new()?;
    let text = format!(
        "protocol = \"memcache\"\n[connections]\ncount = 50\ndepth = 1\n[[keys]]\ncount = {keys}\nprefix = \"key-\"\n\
         key_bytes = \"24B\"\nvalue_bytes = \"{TAIL_VALUE_BYTES}B\"\nverbs = [{{ verb = \"set\" }}]\n"
    );
    let workload = folder.write("sets.toml", &text)?;
    let mut rate = 0;
    let mut seen = vec![Vec::new(); PLACES.len()];
    for _ in 0..rounds {
        for ((_, file), times) in PLACES.iter().zip(&mut seen) {
            // Waits until the previous server's pages are written, so that they do not delay this server.
            rustix::fs::sync();
            let server = server(*file)?;
            pin(Some(GENERATOR_CPU))?;
            let address = server.address.to_string();
            let fill = ["--closed", "--duration", "2s"];
            let highest = load_with(&address, &workload, &fill, &folder)?.figures.achieved_per_s;
            if rate == 0 {
                rate = (highest * SHARE) as u64;
            }
            let flags = ["--rate", &rate.to_string(), "--duration", turn];
            let response = load_with(&address, &workload, &flags, &folder)?.figures.response;
            pin(None)?;
            times.push([response.p50_ns, response.p99_ns, response.p999_ns, response.max_ns].map(|ns| ns as f64 / 1e3));
        }
    }
    println!(
        "Sets of {TAIL_VALUE_BYTES} B on {keys} keys in the open loop, {rate} per second for {turn}, {rounds} rounds, \
         one server at a time:\n"
    );
    println!("| memory | p50, us | p99, us | p999, us, median (min-max) | longest, us |\n|---|---|---|---|---|");
    for ((place, _), times) in PLACES.iter().zip(&seen) {
        let of = |at: usize| median_min_max(&times.iter().map(|row: &[f64; 4]| row[at]).collect::<Vec<_>>());
        let (p999, low, high) = of(2);
        println!("| {place} | {:.0} | {:.0} | {p999:.0} ({low:.0}-{high:.0}) | {:.0} |", of(0).0, of(1).0, of(3).0);
    }
    println!();
    Ok(())
}
