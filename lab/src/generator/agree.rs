//! Compares closed-loop throughput with that of other generators, in interleaved rounds.
//!
//! redis-benchmark loads redis-server, and memcaslap loads memcached. Our generator runs with the same connections,
//! requests in flight, keys and values. The server is pinned to one CPU, the generator to another. The result is the
//! ratio of the two rates within a round. It would differ from 1 if a generator received replies late, or counted
//! requests without a reply.
//!
//! The ratio counts only if the server limits both generators, which its CPU time shows. If a generator keeps the
//! server less busy, the ratio compares the generators' own speeds; it is printed but not judged.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::{TRIES_MAX, quietly};
use testbed::generator::{Folder, load_with, output, prefilled};
use testbed::host;
use testbed::server::{ServerKind, ServerOptions, TestServer, pin};

/// The length and number of rounds.
#[derive(Clone, Debug, clap::Args)]
pub struct AgreeOptions {
    /// Number of rounds of each load; at least one.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: u64,
    /// Length of each generator's turn in seconds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// Run only the loads whose names contain one of these, separated by commas, as in `redis get,memcached`.
    #[arg(long, default_value = "")]
    pub only: String,
    /// Maximum number of attempts of a round. A round is repeated if other work on the machine disturbed it.
    #[arg(long, default_value_t = TRIES_MAX)]
    pub tries: usize,
}

const SERVER_CPU: usize = 0;
const GENERATOR_CPU: usize = 1;
const CONNECTIONS: usize = 50;
const VALUE_BYTES: usize = 200;
/// Maximum relative difference between the two generators' rates.
const OFF_MAX: f64 = 0.10;
/// Minimum share of the server's CPU that the server must use to count as the bottleneck. The share is measured over
/// a generator's whole turn, including its start and end. While requests are waiting, the share is 0.97 to 0.99.
const BUSY_MIN: f64 = 0.92;
/// Number of requests in redis-benchmark's first turn. The length of its turns is set by a number of requests, not by a
/// time.
const REQUESTS_FIRST: u64 = 50_000;
/// Number of keys from which redis-benchmark draws; a key is `key:` and twelve digits.
const REDIS_KEYS: u64 = 100_000;
/// Number of keys in a window of memcaslap; each connection requests its own keys.
const MEMCASLAP_WINDOW: u64 = 1_024;
/// Minimum length of a memcaslap run in seconds. memcaslap first stores all keys and counts that time as part of the
/// run, so the run must be much longer.
const MEMCASLAP_SECONDS_MIN: u64 = 4;
const MEMCASLAP_KEYS: u64 = MEMCASLAP_WINDOW * CONNECTIONS as u64;

/// The results of one generator's turn.
#[derive(Clone, Copy, Debug)]
struct GeneratorTurn {
    requests_per_s: f64,
    /// Share of the server's CPU that the server used during the turn, from 0 to 1.
    busy: f64,
}

/// For each round: the results of our generator's turn, then those of the other generator's turn.
type Rounds = Vec<(GeneratorTurn, GeneratorTurn)>;

/// A load that both our generator and another generator can send.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    server: ServerKind,
    verb: &'static str,
    /// Number of keys in one request.
    keys: usize,
    depth: usize,
}

const CASES: [Case; 9] = [
    Case { name: "redis get 1", server: ServerKind::Redis, verb: "get", keys: 1, depth: 1 },
    Case { name: "redis set 1", server: ServerKind::Redis, verb: "set", keys: 1, depth: 1 },
    Case { name: "redis get 16", server: ServerKind::Redis, verb: "get", keys: 1, depth: 16 },
    Case { name: "redis set 16", server: ServerKind::Redis, verb: "set", keys: 1, depth: 16 },
    Case { name: "redis get-many 1", server: ServerKind::Redis, verb: "get", keys: 50, depth: 1 },
    Case { name: "redis get-many 16", server: ServerKind::Redis, verb: "get", keys: 50, depth: 16 },
    Case { name: "memcached get 1", server: ServerKind::Memcached, verb: "get", keys: 1, depth: 1 },
    Case { name: "memcached set 1", server: ServerKind::Memcached, verb: "set", keys: 1, depth: 1 },
    Case { name: "memcached get-many 1", server: ServerKind::Memcached, verb: "get", keys: 50, depth: 1 },
];

impl Case {
    const fn other(self) -> &'static str {
        match self.server {
            ServerKind::Redis => "redis-benchmark",
            _ => "memcaslap",
        }
    }

    /// Returns the load as a workload file.
    fn workload(self) -> String {
        let (protocol, prefix, key_bytes, keys) = match self.server {
            ServerKind::Redis => ("resp", "key:", 16, REDIS_KEYS),
            _ => ("memcache", "key:", 24, MEMCASLAP_KEYS),
        };
        format!(
            "protocol = \"{protocol}\"\n[connections]\ncount = {CONNECTIONS}\ndepth = {}\n[[keys]]\ncount = {keys}\n\
             prefix = \"{prefix}\"\nkey_bytes = \"{key_bytes}B\"\nvalue_bytes = \"{VALUE_BYTES}B\"\n\
             verbs = [{{ verb = \"{}\"{} }}]\n",
            self.depth,
            self.verb,
            if self.keys > 1 { format!(", keys = {}", self.keys) } else { String::new() }
        )
    }
}

/// Runs the measurement and prints the results. Returns true if at least one load
/// can be judged and the rates of all such loads agree.
///
/// # Errors
/// If a server or a generator does not run, or if a generator prints no rate.
pub fn measure(options: &AgreeOptions) -> Result<bool, String> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err("two CPUs are needed: one for the server and one for the generator".into());
    }
    println!("{}\n", host::facts());
    println!(
        "{CONNECTIONS} connections, values of {VALUE_BYTES} B; server on CPU {SERVER_CPU}, generator on CPU \
         {GENERATOR_CPU}; {} rounds of {} s per generator.\n",
        options.rounds, options.seconds
    );
    println!(
        "| server | verb | keys | in flight | other generator | other's requests/s | ours | server busy, other / ours \
         | ours / other, median (min-max) | agree |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let folder = Folder::new()?;
    let (mut differ, mut agree) = (false, false);
    let wanted = |case: &&Case| options.only.split(',').any(|part| case.name.contains(part.trim()));
    for case in CASES.iter().filter(wanted) {
        let verdict = one(*case, options, &folder)?;
        agree |= verdict == AgreeVerdict::Agree;
        differ |= matches!(verdict, AgreeVerdict::Differ | AgreeVerdict::Noisy);
    }
    println!();
    Ok(agree && !differ)
}

fn one(case: Case, options: &AgreeOptions, folder: &Folder) -> Result<AgreeVerdict, String> {
    let server_options = ServerOptions { cpu: Some(SERVER_CPU), ..ServerOptions::memory(512) };
    let server = TestServer::start(case.server, &server_options)?;
    pin(Some(GENERATOR_CPU))?;
    let rounds = rounds(case, options, folder, &server);
    pin(None)?;
    let (rounds, quiet) = rounds?;
    let mut ratios: Vec<f64> = rounds.iter().map(|(ours, other)| ours.requests_per_s / other.requests_per_s).collect();
    ratios.sort_by(f64::total_cmp);
    let median = |of: fn(&(GeneratorTurn, GeneratorTurn)) -> f64| {
        let mut sorted: Vec<f64> = rounds.iter().map(of).collect();
        sorted.sort_by(f64::total_cmp);
        middle(&sorted)
    };
    let (ratio, busy) = (middle(&ratios), (median(|(_, other)| other.busy), median(|(ours, _)| ours.busy)));
    let verdict = AgreeVerdict::of(ratio, busy.0.min(busy.1), quiet);
    println!(
        "| {} | {} | {} | {} | {} | {:.0} | {:.0} | {:.0} % / {:.0} % | {ratio:.3} ({:.3}-{:.3}) | {} |",
        case.server.name(),
        case.verb,
        case.keys,
        case.depth,
        case.other(),
        median(|(_, other)| other.requests_per_s),
        median(|(ours, _)| ours.requests_per_s),
        busy.0 * 100.0,
        busy.1 * 100.0,
        ratios[0],
        ratios[ratios.len() - 1],
        verdict.text()
    );
    Ok(verdict)
}

/// The verdict on a load's rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgreeVerdict {
    Agree,
    Differ,
    /// The rates are not comparable: a generator, not the server, was the bottleneck.
    Apart,
    Noisy,
}

impl AgreeVerdict {
    fn of(ratio: f64, busy: f64, quiet: bool) -> Self {
        match (quiet, busy >= BUSY_MIN, (ratio - 1.0).abs() <= OFF_MAX) {
            (_, false, _) => Self::Apart,
            (false, true, _) => Self::Noisy,
            (true, true, true) => Self::Agree,
            (true, true, false) => Self::Differ,
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Agree => "yes",
            Self::Differ => "NO",
            Self::Apart => "a generator is the bottleneck",
            Self::Noisy => "noisy",
        }
    }
}

/// Returns the median of sorted values; there must be at least one.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// Runs one generator's turn. The generator returns its rate.
fn turn(server: &TestServer, generator: impl FnOnce() -> Result<f64, String>) -> Result<GeneratorTurn, String> {
    let (begun, cpu_ns) = (Instant::now(), server.cpu_ns());
    let requests_per_s = generator()?;
    let busy = (server.cpu_ns() - cpu_ns) as f64 / begun.elapsed().as_nanos() as f64;
    Ok(GeneratorTurn { requests_per_s, busy })
}

/// Runs our generator's turn and the other generator's turn in every round; the order alternates. Returns the results
/// of the rounds, and true if nothing disturbed them.
fn rounds(case: Case, options: &AgreeOptions, folder: &Folder, server: &TestServer) -> Result<(Rounds, bool), String> {
    let workload = folder.write("workload.toml", &case.workload())?;
    let (addr, seconds) = (server.address.to_string(), options.seconds);
    ours(&addr, &prefilled(&workload, folder)?, 1, folder)?;
    let mut requests = match case.server {
        ServerKind::Redis => REQUESTS_FIRST,
        _ => 0,
    };
    let theirs = |requests: &mut u64| -> Result<f64, String> {
        if case.server != ServerKind::Redis {
            return memcaslap(case, &addr, seconds.max(MEMCASLAP_SECONDS_MIN), folder);
        }
        let rate = redis_benchmark(case, server, *requests)?;
        *requests = (rate * seconds as f64) as u64;
        Ok(rate)
    };
    if case.server == ServerKind::Redis {
        // The first turn does not count. It only determines the number of requests that take the requested time.
        theirs(&mut requests)?;
    }
    let (mut rounds, mut all_quiet) = (Vec::new(), true);
    for round in 0..options.rounds {
        let (pair, quiet) = quietly(options.tries, Some(server.pid()), || {
            if round % 2 == 0 {
                let own = turn(server, || ours(&addr, &workload, seconds, folder))?;
                return Ok((own, turn(server, || theirs(&mut requests))?));
            }
            let other = turn(server, || theirs(&mut requests))?;
            Ok((turn(server, || ours(&addr, &workload, seconds, folder))?, other))
        })?;
        rounds.push(pair);
        all_quiet &= quiet;
    }
    Ok((rounds, all_quiet))
}

fn ours(addr: &str, workload: &Path, seconds: u64, folder: &Folder) -> Result<f64, String> {
    let duration = format!("{seconds}s");
    Ok(load_with(addr, workload, &["--closed", "--duration", &duration], folder)?.figures.achieved_per_s)
}

fn redis_benchmark(case: Case, server: &TestServer, requests: u64) -> Result<f64, String> {
    let mut command = Command::new("redis-benchmark");
    command.args(["-h", "127.0.0.1", "-p", &server.address.port().to_string(), "--csv"]);
    command.args(["-c", &CONNECTIONS.to_string(), "-P", &case.depth.to_string(), "-n", &requests.to_string()]);
    command.args(["-r", &REDIS_KEYS.to_string(), "-d", &VALUE_BYTES.to_string()]);
    match case.keys {
        1 => command.args(["-t", case.verb]),
        keys => command.arg("MGET").args(std::iter::repeat_n("key:__rand_int__", keys)),
    };
    csv_rate(&output(command)?)
}

/// Parses `"GET","123456.78","0.215",...` below a header line.
fn csv_rate(text: &str) -> Result<f64, String> {
    let line = text.lines().rfind(|line| ["\"GET", "\"SET", "\"MGET"].iter().any(|name| line.starts_with(name)));
    let rate = line.and_then(|line| line.split(',').nth(1)).and_then(|field| field.trim_matches('"').parse().ok());
    rate.ok_or_else(|| format!("redis-benchmark printed no rate: {text}"))
}

fn memcaslap(case: Case, addr: &str, seconds: u64, folder: &Folder) -> Result<f64, String> {
    let (sets, gets) = if case.verb == "set" { (1.0, 0.0) } else { (0.0, 1.0) };
    let mut text = String::new();
    let _ = write!(text, "key\n24 24 1\nvalue\n{VALUE_BYTES} {VALUE_BYTES} 1\ncmd\n0 {sets:.1}\n1 {gets:.1}\n");
    let config = folder.write("memcaslap.cfg", &text)?;
    let mut command = Command::new("memcaslap");
    command.args(["-s", addr, "-T", "1", "-c", &CONNECTIONS.to_string(), "-t", &format!("{seconds}s")]);
    command.args(["-w", &format!("{}k", MEMCASLAP_WINDOW / 1024), "-d", &case.keys.to_string(), "-F"]).arg(config);
    // memcaslap counts keys instead of requests, so its rate is divided by the keys per request.
    Ok(tps_rate(&output(command)?)? / case.keys as f64)
}

/// Parses `Run time: 2.0s Ops: 300000 TPS: 150000 Net_rate: 35.1M/s`.
fn tps_rate(text: &str) -> Result<f64, String> {
    let field = text.split("TPS: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    field.and_then(|field| field.parse().ok()).ok_or_else(|| format!("memcaslap printed no rate: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed_from_generator_output() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"GET\",\"142857.14\",\"0.187\"\n";
        assert_eq!(csv_rate(csv), Ok(142_857.14));
        let many = "\"test\",\"rps\"\n\"MGET key:__rand_int__ key:__rand_int__\",\"11500.25\",\"4.1\"\n";
        assert_eq!(csv_rate(many), Ok(11_500.25));
        assert!(csv_rate("\"test\",\"rps\"\n").is_err());
        assert_eq!(tps_rate("Run time: 2.0s Ops: 300000 TPS: 149925 Net_rate: 35.1M/s\n"), Ok(149_925.0));
        assert!(tps_rate("").is_err());
    }

    #[test]
    fn every_case_is_a_workload_that_can_be_run() {
        for case in CASES {
            let workload = load::workload::Workload::read_text(Path::new("case.toml"), &case.workload()).unwrap();
            assert_eq!((workload.connections as usize, workload.depth as usize), (CONNECTIONS, case.depth));
        }
        assert_eq!(middle(&[1.0, 2.0, 4.0]), 2.0);
        assert_eq!(middle(&[1.0, 2.0]), 1.5);
    }

    #[test]
    fn generators_that_leave_the_server_idle_are_not_judged_by_their_speed() {
        assert_eq!(AgreeVerdict::of(1.4, 0.6, true), AgreeVerdict::Apart);
        assert_eq!(AgreeVerdict::of(1.4, 0.95, true), AgreeVerdict::Differ);
        assert_eq!(AgreeVerdict::of(1.05, 0.95, true), AgreeVerdict::Agree);
        assert_eq!(AgreeVerdict::of(1.05, 0.95, false), AgreeVerdict::Noisy);
    }
}
