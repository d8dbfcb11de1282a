//! Measures response times of Redis clients' requests in the open loop, at 50 % and 80 % of the highest rate of the
//! slowest server.
//!
//! ```text
//!   highest   closed loop, 50 connections, one request in flight on each     requests/s of each server in this round
//!   tails     open loop at 50 % and at 80 % of the lowest of these rates     p50, p99, p999 from the due instants
//! ```
//! All servers get the same rate in a round, so that their times are comparable. The servers run one after another in
//! each round, and a server's figure is the median of its rounds.

use std::path::PathBuf;
use std::time::Duration;

use super::generator::{KEYS, VALUE_BYTES};
use super::rounds::{GENERATOR_CPU, median_min_max};
use testbed::generator::{Folder, load_with};
use testbed::server::{TestServer, pin};

/// Shares of the slowest server's highest rate.
const SHARES: [f64; 2] = [0.5, 0.8];
const CONNECTIONS: usize = 50;

/// The number of rounds, and the length of a turn.
#[derive(Clone, Copy, Debug)]
pub struct TailsPlan {
    pub rounds: usize,
    pub turn: Duration,
}

/// The times of one turn, in us.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    p50: f64,
    p99: f64,
    p999: f64,
}

/// Writes a workload file with one verb, for keys that have been stored already. Returns its path.
fn workload(verb: &str, folder: &Folder) -> Result<PathBuf, String> {
    let text = format!(
        "protocol = \"resp\"\n[connections]\ncount = {CONNECTIONS}\ndepth = 1\n[[keys]]\ncount = {KEYS}\n\
         prefix = \"key-\"\nkey_bytes = \"24B\"\nvalue_bytes = \"{VALUE_BYTES}B\"\nverbs = [{{ verb = \"{verb}\" }}]\n"
    );
    folder.write(&format!("{verb}.toml"), &text)
}

/// Runs the measurement and prints the results. The generator's keys must be stored on the servers.
///
/// # Errors
/// If a generator does not run, or if a server gives a wrong reply.
pub fn run(servers: &[TestServer], plan: TailsPlan) -> Result<(), String> {
    println!(
        "Open loop, {CONNECTIONS} connections, at a share of the highest closed-loop rate of the slowest server in \
         the same round; {} rounds of {:?} per server. Times are from the instant at which a request was due.\n",
        plan.rounds, plan.turn
    );
    println!("| request | load | requests/s | server | p50, us | p99, us | p999, us, median (min-max) |");
    println!("|---|---|---|---|---|---|---|");
    let folder = Folder::new()?;
    pin(Some(GENERATOR_CPU))?;
    let printed = ["get", "set"].iter().try_for_each(|verb| of_verb(verb, servers, plan, &folder));
    pin(None)?;
    println!();
    printed
}

fn of_verb(verb: &str, servers: &[TestServer], plan: TailsPlan, folder: &Folder) -> Result<(), String> {
    let workload = workload(verb, folder)?;
    let duration = format!("{}ms", plan.turn.as_millis());
    let mut seen = vec![[const { Vec::new() }; SHARES.len()]; servers.len()];
    let mut rates = [const { Vec::new() }; SHARES.len()];
    for _ in 0..plan.rounds {
        let mut highest = f64::INFINITY;
        for server in servers {
            let flags = ["--closed", "--duration", &duration];
            let rate = load_with(&server.resp.to_string(), &workload, &flags, folder)?.figures.achieved_per_s;
            highest = highest.min(rate);
        }
        for (at, share) in SHARES.into_iter().enumerate() {
            let rate = (highest * share) as u64;
            rates[at].push(rate as f64);
            for (server, times) in servers.iter().zip(&mut seen) {
                let flags = ["--rate", &rate.to_string(), "--duration", &duration];
                let response = load_with(&server.resp.to_string(), &workload, &flags, folder)?.figures.response;
                let us = |ns: u64| ns as f64 / 1000.0;
                times[at].push(Times {
                    p50: us(response.p50_ns),
                    p99: us(response.p99_ns),
                    p999: us(response.p999_ns),
                });
            }
        }
    }
    for (at, share) in SHARES.into_iter().enumerate() {
        for (server, times) in servers.iter().zip(&seen) {
            let row = row(&times[at]);
            let rate = median_min_max(&rates[at]).0;
            println!("| {verb} | {:.0} % | {rate:.0} | {} | {row} |", share * 100.0, server.kind.name());
        }
    }
    Ok(())
}

/// Formats the columns of p50, p99 and p999.
fn row(times: &[Times]) -> String {
    let of = |pick: fn(&Times) -> f64| median_min_max(&times.iter().map(pick).collect::<Vec<_>>());
    let (p999, low, high) = of(|times| times.p999);
    format!("{:.0} | {:.0} | {p999:.0} ({low:.0}-{high:.0})", of(|times| times.p50).0, of(|times| times.p99).0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::workload::Workload;

    #[test]
    fn each_figure_is_the_median_of_its_own_rounds() {
        let times = [(1.0, 10.0, 900.0), (3.0, 30.0, 100.0), (2.0, 20.0, 300.0)];
        let times = times.map(|(p50, p99, p999)| Times { p50, p99, p999 });
        assert_eq!(row(&times), "2 | 20 | 300 (100-900)");
    }

    #[test]
    fn tails_workload_has_its_connections_and_a_single_key_space() {
        let folder = Folder::new().unwrap();
        let path = workload("get", &folder).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let workload = Workload::read_text(&path, &text).unwrap();
        assert_eq!((workload.connections as usize, workload.keys.len()), (CONNECTIONS, 1));
    }
}
