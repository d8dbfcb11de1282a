//! Runs the search with engine and figures against a fake server of known capacity, under a simulated clock.

use std::time::Duration;

use super::trials::observed;
use crate::engine::{Config, Control, Ending, GeneratorUse, Load, LoopKind, Run};
use crate::fake::{OneKeyRequests, Script, SimNet, simulate};
use crate::schedule::SendPlan;
use crate::search::objective::Condition;
use crate::search::{End, Observed, SearchSettings, Stop, Trial, TrialRequest, search};

/// Service time of each request in nanoseconds; the server handles one at a time.
const SERVICE_NS: u64 = 100_000;

/// Trials of the engine against a fake server that handles one request after another.
struct Simulated {
    trials: u64,
}

impl Trial for Simulated {
    fn run(&mut self, ask: TrialRequest) -> Result<Observed, Stop> {
        self.trials += 1;
        let config = Config {
            targets: vec!["127.0.0.1:1".parse().expect("an address")],
            connections: 16,
            depth: 1024,
            load: Load::Open(SendPlan::poisson()),
            seed: self.trials,
            warm_up_ns: 500_000_000,
            duration_ns: ask.duration.as_nanos() as u64,
            slice_ns: 500_000_000,
            ..Config::default()
        };
        let net = SimNet::new(Script::queue(SERVICE_NS), 8, config.connections);
        let (bulk, _) =
            simulate(net, &config, OneKeyRequests::new(8), &Control::new(ask.rate.per_s())).expect("it runs");
        let (kind, ending) = (LoopKind::Open, Ending::Complete);
        let (watched, limits, hosts) = (GeneratorUse::default(), Vec::new(), Vec::new());
        let run = Run { kind, ending, started_unix_ms: 0, bulk, sampler: None, watched, limits, hosts };
        Ok(observed(&run, 0.0))
    }
}

/// Returns the answer of a search with trials of `trial_s` seconds, and a bracket of width `tolerance`.
fn found(slo: &str, trial_s: u64, tolerance: f64) -> f64 {
    let settings = SearchSettings {
        objectives: Condition::parse_list(slo).expect("an objective"),
        tolerance,
        trial: Duration::from_secs(trial_s),
        warm_up: Duration::from_secs(1),
        ..SearchSettings::default()
    };
    let found = search(&settings, &mut Simulated { trials: 0 }, &mut |_| {});
    assert_eq!(found.end, End::Found);
    let (answer, interval) = (found.answer.expect("found"), found.interval.expect("found"));
    assert!(interval.lower <= answer && answer < interval.upper);
    answer.per_s()
}

/// Returns the share of requests that wait at most `services` whole service times at a load of `load`, for Poisson
/// arrivals at one server with equal service times (Crommelin 1932).
fn waits_at_most(services: u32, load: f64) -> f64 {
    let term = |number: u32| {
        let mean = load * (f64::from(number) - f64::from(services));
        let power = (1..=number).fold(1.0, |product, factor| product * mean / f64::from(factor));
        power * (-mean).exp()
    };
    (1.0 - load) * (0..=services).map(term).sum::<f64>()
}

#[test]
fn the_search_finds_where_a_fake_server_is_full() {
    let capacity = 1e9 / SERVICE_NS as f64;
    let answer = found("p50=1s", 5, 0.02);
    assert!((answer / capacity - 1.0).abs() < 0.03, "{answer} and not {capacity}");
}

#[test]
fn the_search_finds_where_a_fake_servers_queue_breaks_a_percentile() {
    // A request that finds the server idle does not wait; a share of (1 - load) e^load waits less than one service
    // time.
    assert!((waits_at_most(0, 0.7) - 0.3).abs() < 1e-12);
    assert!((waits_at_most(1, 0.5) - 0.5 * 0.5f64.exp()).abs() < 1e-12);
    let (mut low, mut high) = (0.01, 0.99);
    for _ in 0..60 {
        let load = f64::midpoint(low, high);
        if waits_at_most(4, load) >= 0.99 { low = load } else { high = load }
    }
    // 99 % get a reply within five service times, including their own.
    let capacity = low * 1e9 / SERVICE_NS as f64;
    let answer = found("p99=500us", 10, 0.01);
    assert!((answer / capacity - 1.0).abs() < 0.03, "{answer} and not {capacity}");
}
