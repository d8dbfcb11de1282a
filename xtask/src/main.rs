//! Gannet's workshop: the checks, the test runner and the measurements, as one program. Long runs are in `lab`.
//!
//! `cargo run -p xtask -- COMMAND`; the Makefile names the usual ones.
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
        /// Print the largest import cycle of this crate: its modules, and those of the cycle that each names.
        #[arg(long, value_name = "CRATE", conflicts_with = "sample")]
        cycle: Option<String>,
    },
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
        /// Seconds that each target runs.
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

/// The measurements of `bench`.
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
    /// Cost of a memory file: CPU a request, and times of sets while its pages are written back.
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

/// The servers of `bench`.
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
