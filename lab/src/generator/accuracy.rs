//! Compares percentiles of runs against a fake server on sockets with those of the same runs under a simulated clock.
//!
//! The fake server delays each reply by a script: by a fixed time, by one of two times, or with a stall. Under the
//! simulated clock only the script takes time, so its results are the true values. On sockets the machine adds its own
//! delays, which the self-test measures with a null server.

use load::engine::{Config, Control, Load, Run, run};
use load::fake::{Delay, FakeServer, OneKeyRequests, Script, SimNet, simulate};
use load::measure::{Histogram, Snapshot};
use load::schedule::SendPlan;
use load::selftest::{self, Trial};

use super::{TRIES_MAX, quietly};
use testbed::host;

/// The length and number of runs.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct AccuracyOptions {
    /// Length of each run in seconds.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Number of runs of each kind.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Maximum number of attempts of a run. A run is repeated if other work on the machine disturbed it.
    #[arg(long, default_value_t = TRIES_MAX)]
    pub tries: usize,
}

const VALUE_BYTES: usize = 200;
const CONNECTIONS: usize = 16;
const DEPTH: usize = 64;
const RATE_PER_S: f64 = 1_000.0;
const SERVER_CPU: usize = 0;
const GENERATOR_CPU: usize = 1;
const MS: u64 = 1_000_000;
/// Maximum error of a percentile, as a share of the true value. [`OFF_NS_MAX`] applies if it is larger.
const OFF_SHARE_MAX: f64 = 0.02;
/// Error of a percentile that is always allowed, in nanoseconds.
const OFF_NS_MAX: u64 = 50_000;

/// A case: the script of the fake server's delays, and the plan by which the load is sent.
struct ServerBehaviour {
    name: &'static str,
    script: Script,
    plan: SendPlan,
}

fn shapes(seconds: u64) -> [ServerBehaviour; 4] {
    let bimodal = Delay::Bimodal { fast_ns: 300_000, slow_ns: 8 * MS, slow_per_10k: 300 };
    let stalled = Script::fixed(300_000).with_stall(seconds * 400 * MS, 500 * MS);
    [
        ServerBehaviour { name: "1 ms", script: Script::fixed(MS), plan: SendPlan::constant() },
        ServerBehaviour { name: "1 ms, Poisson arrivals", script: Script::fixed(MS), plan: SendPlan::poisson() },
        ServerBehaviour {
            name: "0.3 ms, and 8 ms of 3 %",
            script: Script { delay: bimodal, ..Script::fixed(0) },
            plan: SendPlan::poisson(),
        },
        ServerBehaviour { name: "0.3 ms, stall of 500 ms", script: stalled, plan: SendPlan::constant() },
    ]
}

/// One percentile: its true value under the simulated clock, its value on sockets, and the allowed error.
struct AccuracyRow {
    shape: &'static str,
    what: &'static str,
    truth_ns: u64,
    seen_ns: u64,
    allowed_ns: u64,
    quiet: bool,
}

impl AccuracyRow {
    fn off_ns(&self) -> u64 {
        self.seen_ns.abs_diff(self.truth_ns)
    }

    fn holds(&self) -> bool {
        self.off_ns() <= self.allowed_ns
    }
}

/// Runs the measurement and prints the results. Returns true if every figure is within the allowed error.
///
/// # Errors
/// If the machine has one CPU, or if the engine cannot run.
pub fn measure(options: AccuracyOptions) -> Result<bool, String> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err("two CPUs are needed: one for the server and one for the generator".into());
    }
    println!("{}\n", host::facts());
    println!(
        "Response times over {} s at {RATE_PER_S} requests/s on {CONNECTIONS} connections; server on CPU \
         {SERVER_CPU}, generator on CPU {GENERATOR_CPU}.\nAllowed error: {:.0} % or {} us, plus the round's self-test \
         result for a null server.\n",
        options.seconds,
        OFF_SHARE_MAX * 100.0,
        OFF_NS_MAX / 1000
    );
    println!("| server delay | percentile | computed, us | on sockets, us | error, us | allowed, us | within |");
    println!("|---|---|---|---|---|---|---|");
    let (mut rows, mut blind) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let (own, own_quiet) = quietly(options.tries, None, own_error)?;
        for shape in shapes(options.seconds) {
            let open = Load::Open(shape.plan.clone());
            let ((truth, seen), quiet) = quietly(options.tries, None, || both(&shape, options.seconds, open.clone()))?;
            for (what, share, own_ns) in [("p50", 0.5, own.0), ("p99", 0.99, own.1)] {
                let row = AccuracyRow {
                    quiet: quiet && own_quiet,
                    ..row(shape.name, what, share, own_ns, &truth.response, &seen.bulk.response)
                };
                print(&row);
                rows.push(row);
            }
            if shape.script.stall.is_some() {
                blind.push((seen, both(&shape, options.seconds, Load::Closed)?.1));
            }
        }
    }
    println!();
    for (open, closed) in &blind {
        let ms = |histogram: &Histogram, share| histogram.quantile_ns(share) as f64 / MS as f64;
        println!(
            "The stall: p99 {:.1} ms and p999 {:.1} ms in the open loop; p99 {:.1} ms and p999 {:.1} ms in a closed \
             loop, with a maximum of {:.0} ms.",
            ms(&open.bulk.response, 0.99),
            ms(&open.bulk.response, 0.999),
            ms(&closed.bulk.response, 0.99),
            ms(&closed.bulk.response, 0.999),
            closed.bulk.response.max_ns() as f64 / MS as f64
        );
    }
    let quiet: Vec<&AccuracyRow> = rows.iter().filter(|row| row.quiet).collect();
    let held = quiet.iter().filter(|row| row.holds()).count();
    println!(
        "\n{held} of {} figures are within the allowed error; {} were disturbed by other work and do not count.",
        quiet.len(),
        rows.len() - quiet.len()
    );
    Ok(held == rows.len())
}

/// Returns the self-test's result for a null server at this rate: response times at p50 and p99, in nanoseconds.
fn own_error() -> Result<(u64, u64), String> {
    let trial = Trial {
        generator_cpu: Some(GENERATOR_CPU),
        server_cpu: Some(SERVER_CPU),
        timing_rate_per_s: RATE_PER_S,
        part_ns: 1_000 * MS,
        ..Trial::default()
    };
    let outcome = selftest::try_host(&trial).map_err(|error| error.to_string())?;
    Ok((outcome.response_p50_ns, outcome.response_p99_ns))
}

/// Runs the same load under a simulated clock and on sockets.
fn both(shape: &ServerBehaviour, seconds: u64, load: Load) -> Result<(Snapshot, Run), String> {
    let server = FakeServer::start(Some(shape.script.clone()), VALUE_BYTES, Some(SERVER_CPU));
    let server = server.map_err(|error| format!("the fake server: {error}"))?;
    let depth = if load == Load::Closed { 1 } else { DEPTH };
    let config = Config {
        targets: vec![server.target()],
        cpus: vec![GENERATOR_CPU],
        connections: if load == Load::Closed { 1 } else { CONNECTIONS },
        depth,
        load,
        duration_ns: seconds * 1_000 * MS,
        ..Config::default()
    };
    let net = SimNet::new(shape.script.clone(), VALUE_BYTES, config.connections);
    let control = Control::new(RATE_PER_S);
    let (truth, _) =
        simulate(net, &config, OneKeyRequests::new(VALUE_BYTES), &control).map_err(|error| error.to_string())?;
    let seen = run(&config, |_| OneKeyRequests::new(VALUE_BYTES), &control).map_err(|error| error.to_string())?;
    Ok((truth, seen))
}

fn row(
    shape: &'static str,
    what: &'static str,
    share: f64,
    own_ns: u64,
    truth: &Histogram,
    seen: &Histogram,
) -> AccuracyRow {
    let (truth_ns, seen_ns) = (truth.quantile_ns(share), seen.quantile_ns(share));
    let off_ns = ((truth_ns as f64 * OFF_SHARE_MAX) as u64).max(OFF_NS_MAX);
    AccuracyRow { shape, what, truth_ns, seen_ns, allowed_ns: off_ns + own_ns, quiet: true }
}

fn print(row: &AccuracyRow) {
    let us = |ns: u64| ns as f64 / 1000.0;
    println!(
        "| {} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {} |",
        row.shape,
        row.what,
        us(row.truth_ns),
        us(row.seen_ns),
        us(row.off_ns()),
        us(row.allowed_ns),
        match (row.quiet, row.holds()) {
            (false, _) => "noisy",
            (true, true) => "yes",
            (true, false) => "NO",
        }
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_passes_only_within_its_tolerance() {
        let histogram = |ns: u64| {
            let mut histogram = Histogram::new();
            histogram.record(ns);
            histogram
        };
        let truth = histogram(10 * MS);
        let seen_at = |ns| row("x", "p50", 0.5, 30_000, &truth, &histogram(ns));
        // Each class of the histogram is 0.1 % wide, so a recorded time is not exact.
        assert!(seen_at(10 * MS).allowed_ns.abs_diff(230_000) < 300, "2 % and what the machine adds");
        assert!(seen_at(10 * MS + 200_000).holds() && !seen_at(10 * MS + 300_000).holds());
        assert!(!seen_at(10 * MS - 300_000).holds(), "too short a time is as wrong as too long a one");
        let short = row("x", "p50", 0.5, 0, &histogram(MS), &histogram(MS + 40_000));
        assert!(short.holds(), "50 us where 2 % are less");
    }

    /// Checks that runs under the simulated clock yield the delays of the script, because socket runs are compared with
    /// them.
    #[test]
    fn the_computed_percentiles_are_those_of_the_scripts() {
        let shares = [0.5, 0.99];
        let expected = [[1_000, 1_000], [1_000, 1_000], [300, 8_000], [300, 400_000]];
        for (shape, expected_us) in shapes(10).iter().zip(expected) {
            let config = Config {
                targets: vec!["127.0.0.1:1".parse().unwrap()],
                connections: CONNECTIONS,
                depth: DEPTH,
                load: Load::Open(shape.plan.clone()),
                ..Config::default()
            };
            let net = SimNet::new(shape.script.clone(), VALUE_BYTES, CONNECTIONS);
            let control = Control::new(RATE_PER_S);
            let (truth, _) = simulate(net, &config, OneKeyRequests::new(VALUE_BYTES), &control).unwrap();
            for (share, us) in shares.into_iter().zip(expected_us) {
                let seen_us = truth.response.quantile_ns(share) as f64 / 1000.0;
                assert!((seen_us / f64::from(us) - 1.0).abs() < 0.01, "{} {share}: {seen_us}", shape.name);
            }
        }
    }
}
