//! Gannet's workshop: the checks, the test runner, the measurements and the replays, as one program.
//!
//! `cargo run -p xtask -- COMMAND`; the Makefile names the usual ones.
#![forbid(unsafe_code)]

mod bench;
mod host;
mod null_server;
mod server;
mod test_run;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use server::Kind;

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
    /// Run every test there is; or the runners whose name contains ONLY.
    Test {
        /// Part of a runner's name.
        #[arg(default_value = "")]
        only: String,
    },
    /// Measure CPU a get and bytes an item.
    Bench {
        /// Short rounds and little memory: shows that all works, gives nothing to quote.
        #[arg(long)]
        quick: bool,
        /// Leave Gannet out: checks the method with the other two.
        #[arg(long)]
        without_gannet: bool,
        /// CPU a get only.
        #[arg(long, conflicts_with = "only_memory")]
        only_rates: bool,
        /// Bytes an item only.
        #[arg(long)]
        only_memory: bool,
    },
    /// Serve as the null server (started by `bench`).
    NullServer {
        /// Port on 127.0.0.1.
        #[arg(long)]
        port: u16,
        /// Length of the reply to each line, in bytes.
        #[arg(long)]
        reply_bytes: usize,
    },
}

fn run(command: Command) -> Result<bool, String> {
    match command {
        Command::Tidy => tidy::run(&root()).map_err(|error| error.to_string()),
        Command::Test { only } => test_run::run(&root(), &only),
        Command::Bench { quick, without_gannet, only_rates, only_memory } => {
            let mut kinds = vec![Kind::Null, Kind::Gannet, Kind::Memcached];
            kinds.retain(|kind| !(without_gannet && *kind == Kind::Gannet));
            bench::run(&bench::Options { quick, kinds, rates: !only_memory, memory: !only_rates })
        }
        Command::NullServer { port, reply_bytes } => {
            null_server::serve(port, reply_bytes).map_err(|error| error.to_string())
        }
    }
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
