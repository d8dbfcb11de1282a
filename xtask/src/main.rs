//! Gannet's workshop: the checks, the test runner, the measurements and the replays, as one program.
//!
//! `cargo run -p xtask -- COMMAND`; the Makefile names the usual ones.
#![forbid(unsafe_code)]

mod bench;
mod dax;
mod gate;
mod generator;
mod guests;
mod host;
mod lab_numa;
mod machines;
mod null_server;
mod policy;
mod prove_irq;
mod replay;
mod server;
mod soak;
mod test_run;
mod tidy;
mod valkey;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use server::Kind;
use test_run::target_folder;

#[derive(Parser)]
#[command(name = "xtask", about = "Gannet's checks, tests, measurements and replays")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check the style and the architecture of the whole tree.
    Tidy,
    /// Print the shape of each crate: modules, import cycles, methods of the largest type, openings of doc comments.
    House,
    /// Run every test, or the runners whose names contain one of PARTS.
    Test {
        /// Parts of runners' names.
        parts: Vec<String>,
    },
    /// Measure CPU a get and bytes an item.
    Bench(BenchArgs),
    /// Count instructions a request and compare them with those that are kept.
    Gate {
        /// Count Debian's memcached and Redis too.
        #[arg(long)]
        with_peer: bool,
        /// Keep the counts of this run.
        #[arg(long)]
        keep: bool,
    },
    /// Replay requests drawn from production caches.
    Replay {
        /// A few hundred thousand requests: checks replies, gives nothing to quote.
        #[arg(long)]
        short: bool,
        /// Requests of each stream.
        #[arg(long)]
        requests: Option<u64>,
        /// Requests a second.
        #[arg(long)]
        pace: Option<u64>,
        /// Leave Gannet out.
        #[arg(long)]
        without_gannet: bool,
    },
    /// Compare misses with those of published eviction policies.
    Policy {
        /// Accesses of each stream; half as many where items have lifetimes.
        #[arg(long, default_value_t = 2_000_000)]
        accesses: usize,
        /// Only the streams whose name contains one of these, with commas between them.
        #[arg(long, default_value = "")]
        only: String,
        /// Hold the small queue at so many percent of the segments.
        #[arg(long)]
        small_percent: Option<u8>,
        /// Gannet alone.
        #[arg(long)]
        without_peers: bool,
        /// With a second tier ten times as large beside it, and without.
        #[arg(long)]
        flash: bool,
        /// Only draw the curves of docs/policy.md as docs/policy.svg.
        #[arg(long)]
        plot: bool,
    },
    /// Load the server with every kind of request for a long time, and check every answer.
    Soak {
        /// A million and a half requests: shows that all works.
        #[arg(long)]
        short: bool,
        /// Requests of the main load.
        #[arg(long, conflicts_with = "short")]
        requests: Option<u64>,
        /// End after so many seconds at the latest.
        #[arg(long)]
        seconds: Option<u64>,
        /// What all requests are drawn from.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Threads of the server that serve clients; one is pinned.
        #[arg(long, default_value_t = 1)]
        workers: usize,
        /// io_uring under the server's workers.
        #[arg(long)]
        uring: bool,
    },
    /// Compare the load generator's percentiles with those that a fake server's known delays make.
    LoadAccuracy(generator::accuracy::Options),
    /// Compare the load generator's closed-loop throughput with redis-benchmark's and memcaslap's.
    LoadAgree(generator::agree::Options),
    /// Run the reclaim lab in guests with two memory nodes, under QEMU and several of Debian's kernels.
    LabNuma(lab_numa::Options),
    /// Kill servers, and cut off machines, whose memory files lie on persistent memory, in guests under QEMU.
    Dax(dax::Options),
    /// Prove the remedy for interrupts' CPUs in a guest under QEMU, whose kernel lets them be moved.
    ProveIrq(prove_irq::Options),
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
        /// How long each target runs, in seconds.
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
        /// Lines of a request.
        #[arg(long, default_value_t = 1)]
        request_lines: usize,
    },
}

/// What `bench` measures.
#[derive(clap::Args)]
struct BenchArgs {
    /// Short rounds and little memory: shows that all works, gives nothing to quote.
    #[arg(long)]
    quick: bool,
    /// Leave Gannet out: checks the method with the other two.
    #[arg(long)]
    without_gannet: bool,
    /// Leave Valkey out, which PyPI brings.
    #[arg(long)]
    without_valkey: bool,
    /// CPU a get only.
    #[arg(long, conflicts_with = "only_memory")]
    only_rates: bool,
    /// Bytes an item only.
    #[arg(long)]
    only_memory: bool,
    /// CPU a get of the two ways of waiting for sockets, epoll and io_uring, in turn.
    #[arg(long, conflicts_with = "only_memory")]
    only_io: bool,
    /// The background's slices while the index grows to 8 GiB of items and the memory goes up and down.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io"])]
    only_growth: bool,
    /// Values of 1 MiB and 100 MiB beside a plain transfer.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth"])]
    only_large: bool,
    /// 5,000 connects a second beside half of the highest load.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_storm: bool,
    /// A namespace that is flooded beside another one: what that does to the other's times.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_neighbour: bool,
    /// A client that sends `PING` beside one that runs a long command, beside redis-server and memcached.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_bystander: bool,
    /// What a memory file costs: CPU a request, and times of sets while its pages are written back.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_file: bool,
    /// Items on flash only, beside memcached's extstore.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_flash: bool,
    /// Requests of Redis clients beside redis-server, Valkey and null.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_resp: bool,
    /// Stores that are ended and started again, beside memcached's and redis-server's: until the first answer, and
    /// until all is found.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_restart: bool,
    /// A server that is taken over by a new process: how long clients wait.
    #[arg(long, conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth", "only_large"])]
    only_upgrade: bool,
    /// Of requests of Redis clients, long commands, or stores that are started again, only those whose names begin so:
    /// `get,mget`; `tails`, the times of the open loop; `HGETALL`; `4096 MiB memcached`.
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["only_memory", "only_rates", "only_io", "only_growth"])]
    rows: Vec<String>,
    /// Another release build of Gannet, named by `GANNET_OTHER_BIN`, in memcached's place: what a change does.
    #[arg(long, conflicts_with_all = ["only_io", "only_memory", "only_growth", "only_large", "only_storm"])]
    with_other: bool,
    /// Only the load with so many connections.
    #[arg(long)]
    connections: Option<usize>,
    /// Only the load with so many requests in flight on each connection.
    #[arg(long)]
    depth: Option<usize>,
}

fn run(command: Command) -> Result<bool, String> {
    let target = target_folder(&root());
    match command {
        Command::Tidy => tidy::run(&root()).map_err(|error| error.to_string()),
        Command::House => tidy::house(&root()).map(|()| true).map_err(|error| error.to_string()),
        Command::Test { parts } => test_run::run(&root(), &parts),
        Command::Bench(args) => bench::run(&args.options()),
        Command::Gate { with_peer, keep } => gate::run(&root(), &gate::Options { with_peer, keep }),
        Command::Replay { short, requests, pace, without_gannet } => {
            replay::run(&root(), replay_options(short, requests, pace, without_gannet))
        }
        Command::Policy { plot: true, .. } => policy::plot::run(&root()),
        Command::Policy { accesses, only, small_percent, without_peers, flash, .. } => {
            policy::run(&root(), &target, &policy::Options { accesses, only, small_percent, without_peers, flash })
        }
        Command::Soak { short, requests, seconds, seed, workers, uring } => {
            let requests = requests.unwrap_or(if short { soak::REQUESTS_SHORT } else { soak::REQUESTS_WHOLE });
            soak::run(&target, &soak::Options { requests, seconds, seed, workers, uring, as_test: short })
        }
        Command::LoadAccuracy(options) => generator::accuracy::measure(options),
        Command::LoadAgree(options) => generator::agree::measure(&options),
        Command::Dax(options) => dax::run(&target, &options),
        Command::ProveIrq(options) => prove_irq::run(&target, &options),
        Command::LabNuma(options) => lab_numa::run(&target, &options),
        Command::Loom => machines::models(&root(), &target),
        Command::Asan => machines::asan(&root(), &target),
        Command::Miri => machines::miri(&root(), &target),
        Command::Valgrind => machines::valgrind(&root()),
        Command::Fuzz { seconds } => machines::fuzz(&root(), &target, seconds),
        Command::NullServer { port, reply_bytes, request_lines } => {
            null_server::run(port, server::NullReply { bytes: reply_bytes, lines: request_lines })
        }
    }
}

impl BenchArgs {
    fn options(self) -> bench::Options {
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
        bench::Options {
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

/// How long and how fast `replay` goes.
fn replay_options(short: bool, requests: Option<u64>, pace: Option<u64>, without_gannet: bool) -> replay::Options {
    let mut options = if short { replay::Options::short() } else { replay::Options::full() };
    options.requests = requests.unwrap_or(options.requests);
    options.pace = pace.unwrap_or(options.pace);
    options.without_gannet = without_gannet;
    options
}

/// The servers of `bench`.
fn bench_kinds(only_io: bool, with_other: bool, without_gannet: bool) -> Vec<Kind> {
    let mut kinds = match (only_io, with_other) {
        (true, _) => vec![Kind::Null, Kind::GannetEpoll, Kind::GannetUring],
        (_, true) => vec![Kind::Null, Kind::Gannet, Kind::GannetOther],
        _ => vec![Kind::Null, Kind::Gannet, Kind::Memcached],
    };
    kinds.retain(|kind| !(without_gannet && *kind == Kind::Gannet));
    kinds
}

/// The repository's root: the folder above this crate.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies below the root").to_path_buf()
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
