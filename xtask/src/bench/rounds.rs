//! Runs servers alternately, once per round: null, Gannet, memcached, null, Gannet, memcached ... so that disturbances
//! on the machine affect all servers alike.

use std::time::{Duration, Instant};

use super::generator::{Generator, REPLY_BYTES, Talk, store_keys};
use testbed::host;
use testbed::server::{NullReply, ServerKind, ServerOptions, TestServer, pin};

/// A load: its connections, and the requests in flight on each.
#[derive(Clone, Copy, Debug)]
pub struct BenchLoad {
    /// Open connections.
    pub connections: usize,
    /// Requests in flight on each connection.
    pub depth: usize,
}

/// The loads that are measured, one in each row of the printed table.
pub const LOADS: [BenchLoad; 5] = [
    BenchLoad { connections: 1, depth: 1 },
    BenchLoad { connections: 50, depth: 1 },
    BenchLoad { connections: 50, depth: 16 },
    BenchLoad { connections: 50, depth: 100 },
    BenchLoad { connections: 1000, depth: 1 },
];

/// An additional load, for comparing epoll with io_uring.
pub const LOAD_OF_MANY: BenchLoad = BenchLoad { connections: 10_000, depth: 1 };

/// The length of a turn, and the number of rounds.
#[derive(Clone, Copy, Debug)]
pub struct RoundsPlan {
    /// Number of rounds needed in which no other work disturbed a server.
    pub rounds: usize,
    /// Maximum number of additional rounds, to replace disturbed ones.
    pub rounds_extra_max: usize,
    /// Length of a server's turn in a round.
    pub turn: Duration,
}

const WARM_UP: Duration = Duration::from_millis(300);
const STEAL_MAX: f64 = 0.01;
const OTHERS_MAX: f64 = 0.05;

/// The CPU of the servers.
pub const SERVER_CPU: usize = 0;
/// The CPU of the generator.
pub const GENERATOR_CPU: usize = 1;

/// The results of one server's turn in a round.
#[derive(Clone, Copy, Debug)]
struct ServerTurn {
    cpu_ns_per_get: f64,
    gets_per_second: f64,
    clean: bool,
}

/// The results of one load: for each server, the CPU time per get and R of every round.
#[derive(Clone, Debug)]
pub struct LoadResults {
    /// The load.
    pub load: BenchLoad,
    /// CPU-ns per get of each server, by round, in the order of the servers.
    pub cpu_ns: Vec<(ServerKind, Vec<f64>)>,
    /// Gets per second of each server, by round.
    pub rates: Vec<(ServerKind, Vec<f64>)>,
    /// R of each server except null, by round: the null server's CPU time per get / the server's.
    pub ratios: Vec<(ServerKind, Vec<f64>)>,
    /// Number of rounds that were dropped because the machine was busy with other work.
    pub dropped: usize,
    /// True if disturbed rounds are included, because too few rounds were undisturbed.
    pub noisy: bool,
}

/// Starts the servers and runs the loads on them in turn.
///
/// # Errors
/// If a server does not start, or gives a wrong reply.
pub fn run(kinds: &[ServerKind], loads: &[BenchLoad], plan: RoundsPlan) -> Result<Vec<LoadResults>, String> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err("two CPUs are needed: one for the server, one for the generator".into());
    }
    let connections_max = LOAD_OF_MANY.connections + 100;
    let null = NullReply { bytes: REPLY_BYTES, lines: 1 };
    let options = ServerOptions { cpu: Some(SERVER_CPU), null, connections_max, ..ServerOptions::memory(512) };
    let servers: Vec<TestServer> =
        kinds.iter().map(|kind| TestServer::start(*kind, &options)).collect::<Result<_, _>>()?;
    for server in servers.iter().filter(|server| server.kind != ServerKind::Null) {
        store_keys(server.address)?;
    }
    pin(Some(GENERATOR_CPU))?;
    let talk = Talk::gets();
    let servers: Vec<(&TestServer, &Talk)> = servers.iter().map(|server| (server, &talk)).collect();
    let outcomes = loads.iter().map(|load| run_load(&servers, *load, plan)).collect();
    pin(None)?;
    outcomes
}

/// Runs one load on running servers, each with its own requests. The calling thread must be pinned to the generator's
/// CPU.
///
/// # Errors
/// If a server gives a wrong reply.
pub fn run_load(servers: &[(&TestServer, &Talk)], load: BenchLoad, plan: RoundsPlan) -> Result<LoadResults, String> {
    eprintln!("bench: {} connections, depth {}", load.connections, load.depth);
    let mut clean: Vec<Vec<ServerTurn>> = Vec::new();
    let mut others: Vec<Vec<ServerTurn>> = Vec::new();
    for round in 0..plan.rounds + plan.rounds_extra_max {
        if clean.len() == plan.rounds {
            break;
        }
        let turns = servers.iter().map(|(server, talk)| turn(server, talk, load, plan.turn, round as u64));
        let turns: Vec<ServerTurn> = turns.collect::<Result<_, _>>()?;
        match turns.iter().all(|turn| turn.clean) {
            true => clean.push(turns),
            false => others.push(turns),
        }
    }
    let noisy = clean.len() < plan.rounds;
    let dropped = if noisy { 0 } else { others.len() };
    if noisy {
        clean.append(&mut others);
    }
    let outcome = outcome(servers.iter().map(|(server, _)| server.kind).collect(), load, &clean, dropped, noisy);
    for (kind, ratios) in &outcome.ratios {
        let (median, lowest, highest) = median_min_max(ratios);
        eprintln!("  {}: R {median:.3} ({lowest:.3} to {highest:.3})", kind.name());
    }
    Ok(outcome)
}

fn outcome(
    kinds: Vec<ServerKind>,
    load: BenchLoad,
    rounds: &[Vec<ServerTurn>],
    dropped: usize,
    noisy: bool,
) -> LoadResults {
    let column = |index: usize, pick: fn(&ServerTurn) -> f64| rounds.iter().map(|round| pick(&round[index])).collect();
    let null = kinds.iter().position(|kind| *kind == ServerKind::Null);
    let each = || kinds.iter().copied().enumerate();
    LoadResults {
        load,
        cpu_ns: each().map(|(index, kind)| (kind, column(index, |turn| turn.cpu_ns_per_get))).collect(),
        rates: each().map(|(index, kind)| (kind, column(index, |turn| turn.gets_per_second))).collect(),
        ratios: each()
            .filter(|(index, _)| null.is_some() && null != Some(*index))
            .map(|(index, kind)| {
                let null = null.expect("filtered above");
                let ratio = |round: &Vec<ServerTurn>| round[null].cpu_ns_per_get / round[index].cpu_ns_per_get;
                (kind, rounds.iter().map(ratio).collect())
            })
            .collect(),
        dropped,
        noisy,
    }
}

fn turn(server: &TestServer, talk: &Talk, load: BenchLoad, length: Duration, seed: u64) -> Result<ServerTurn, String> {
    let describe = |error: String| format!("{}: {error}", server.kind.name());
    let mut generator = Generator::connect(server.resp, load.connections, load.depth, seed, talk)
        .map_err(|error| describe(error.to_string()))?;
    generator.run(WARM_UP.min(length)).map_err(describe)?;
    let (machine, own, cpu) = (host::ticks(), host::cpu_ns(std::process::id()), server.cpu_ns());
    let started = Instant::now();
    let gets = generator.run(length).map_err(describe)?;
    let seconds = started.elapsed().as_secs_f64();
    let cpu_ns = server.cpu_ns() - cpu;
    let own_ns = host::cpu_ns(std::process::id()) - own;
    let after = host::ticks();
    let total = (after.total - machine.total).max(1) as f64;
    let busy_ns = (after.busy - machine.busy) * host::TICK_NS;
    let others = busy_ns.saturating_sub(cpu_ns + own_ns) as f64 / (total * host::TICK_NS as f64);
    let steal = (after.steal - machine.steal) as f64 / total;
    Ok(ServerTurn {
        cpu_ns_per_get: cpu_ns as f64 / gets as f64,
        gets_per_second: gets as f64 / seconds,
        clean: steal <= STEAL_MAX && others <= OTHERS_MAX,
    })
}

/// Returns the median of `values`, with the lowest and the highest.
pub fn median_min_max(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => (f64::NAN, f64::NAN, f64::NAN),
        n if n % 2 == 1 => (sorted[n / 2], sorted[0], sorted[n - 1]),
        n => ((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0, sorted[0], sorted[n - 1]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_computed_per_round_not_from_medians() {
        let turn = |cpu_ns_per_get| ServerTurn { cpu_ns_per_get, gets_per_second: 1.0, clean: true };
        let rounds = [vec![turn(10.0), turn(20.0)], vec![turn(30.0), turn(40.0)], vec![turn(50.0), turn(50.0)]];
        let outcome = outcome(vec![ServerKind::Null, ServerKind::Gannet], LOADS[0], &rounds, 0, false);
        assert_eq!(outcome.ratios, vec![(ServerKind::Gannet, vec![0.5, 0.75, 1.0])]);
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median_min_max(&[3.0, 1.0, 2.0]), (2.0, 1.0, 3.0));
        assert_eq!(median_min_max(&[4.0, 1.0, 2.0, 3.0]), (2.5, 1.0, 4.0));
    }
}
