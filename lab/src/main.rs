//! Gannet's lab: one program for long tests, replays, simulations and guests. It is not part of the product.
//!
//! ```text
//!   soak                    hundreds of millions of requests, with every reply checked
//!   replay                  requests drawn from statistics of production caches, on Gannet and on memcached
//!   policy                  the store's misses compared with those of published eviction policies
//!   generator               the load generator compared with known delays and with other generators
//!   numa, dax, prove_irq    tests in guests, which run Debian's kernels under QEMU (guests)
//! ```
//!
//! Usage: `cargo run -p lab -- COMMAND`; the Makefile has a target for each command. `make test` runs the short forms
//! of `soak` and `replay`.
#![forbid(unsafe_code)]

mod dax;
mod generator;
mod guests;
mod numa;
mod policy;
mod prove_irq;
mod replay;
mod soak;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use testbed::{root, target_folder};

#[derive(Parser)]
#[command(name = "lab", about = "Gannet's soak, replays, simulators and guests")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Replay requests drawn from production caches.
    Replay {
        /// A few hundred thousand requests: only checks replies.
        #[arg(long)]
        short: bool,
        /// Number of requests of each stream.
        #[arg(long)]
        requests: Option<u64>,
        /// Requests per second.
        #[arg(long)]
        pace: Option<u64>,
        /// Leave Gannet out.
        #[arg(long)]
        without_gannet: bool,
    },
    /// Compare misses with those of published eviction policies.
    Policy {
        /// Number of accesses of each stream; half as many for streams with lifetimes.
        #[arg(long, default_value_t = 2_000_000)]
        accesses: usize,
        /// Run only the streams whose names contain one of these, separated by commas.
        #[arg(long, default_value = "")]
        only: String,
        /// Fix the small queue at this percentage of the segments.
        #[arg(long)]
        small_percent: Option<u8>,
        /// Run only Gannet.
        #[arg(long)]
        without_peers: bool,
        /// Run with and without a second tier that is ten times as large.
        #[arg(long)]
        flash: bool,
        /// Only draw the curves of docs/policy.md into docs/policy.svg.
        #[arg(long)]
        plot: bool,
        /// Replay the recorded streams of this folder with values of several lengths, and streams drawn from a seed.
        #[arg(long, value_name = "DIR")]
        streams: Option<std::path::PathBuf>,
        /// Seed of the drawn streams.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Replay the streams only with values of these lengths in bytes, separated by commas.
        #[arg(long, default_value = "")]
        lengths: String,
        /// Replay the streams on memcached too.
        #[arg(long)]
        memcached: bool,
    },
    /// Load the server with every kind of request for a long time, and check every reply.
    Soak {
        /// A million and a half requests: a quick test.
        #[arg(long)]
        short: bool,
        /// Number of requests of the main load.
        #[arg(long, conflicts_with = "short")]
        requests: Option<u64>,
        /// Maximum length of the run in seconds.
        #[arg(long)]
        seconds: Option<u64>,
        /// Seed of all requests.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Threads of the server that serve clients; one is pinned.
        #[arg(long, default_value_t = 1)]
        workers: usize,
        /// Use io_uring in the server's workers.
        #[arg(long)]
        uring: bool,
    },
    /// Compare the load generator's percentiles with the true ones of a fake server with known delays.
    LoadAccuracy(generator::accuracy::AccuracyOptions),
    /// Compare the load generator's closed-loop throughput with redis-benchmark's and memcaslap's.
    LoadAgree(generator::agree::AgreeOptions),
    /// Run the reclaim lab in guests with two memory nodes, under QEMU and several of Debian's kernels.
    LabNuma(numa::NumaOptions),
    /// Kill servers, and cut off machines, with memory files on persistent memory, in guests under QEMU.
    Dax(dax::DaxOptions),
    /// Prove the remedy for the CPUs of interrupts in a guest under QEMU, whose kernel allows interrupts to be moved.
    ProveIrq(prove_irq::ProveIrqOptions),
}

fn run(command: Command) -> Result<bool, String> {
    let target = target_folder(&root());
    match command {
        Command::Replay { short, requests, pace, without_gannet } => {
            replay::run(&root(), replay_options(short, requests, pace, without_gannet))
        }
        Command::Policy { plot: true, .. } => policy::plot::run(&root()),
        Command::Policy {
            accesses,
            only,
            small_percent,
            without_peers,
            flash,
            streams,
            seed,
            lengths,
            memcached,
            ..
        } => {
            let recorded = streams.map(|folder| policy::recorded::RecordedOptions {
                folder,
                seed,
                lengths,
                small_percent,
                with_memcached: memcached,
            });
            let options = policy::PolicyOptions { accesses, only, small_percent, without_peers, flash, recorded };
            policy::run(&root(), &target, &options)
        }
        Command::Soak { short, requests, seconds, seed, workers, uring } => {
            let requests = requests.unwrap_or(if short { soak::REQUESTS_SHORT } else { soak::REQUESTS_WHOLE });
            soak::run(&target, &soak::SoakOptions { requests, seconds, seed, workers, uring, as_test: short })
        }
        Command::LoadAccuracy(options) => generator::accuracy::measure(options),
        Command::LoadAgree(options) => generator::agree::measure(&options),
        Command::Dax(options) => dax::run(&target, &options),
        Command::ProveIrq(options) => prove_irq::run(&target, &options),
        Command::LabNuma(options) => numa::run(&target, &options),
    }
}

/// Returns the length and the pace of `replay`.
fn replay_options(
    short: bool,
    requests: Option<u64>,
    pace: Option<u64>,
    without_gannet: bool,
) -> replay::ReplayOptions {
    let mut options = if short { replay::ReplayOptions::short() } else { replay::ReplayOptions::full() };
    options.requests = requests.unwrap_or(options.requests);
    options.pace = pace.unwrap_or(options.pace);
    options.without_gannet = without_gannet;
    options
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("lab: {message}");
            ExitCode::FAILURE
        }
    }
}
