//! Measures the CPU time of Redis clients' requests on Gannet, Debian's Redis, Valkey and the null server, in one run.
//!
//! A row of the table is a kind of request: its requests have equal lengths, and so have its replies. To add a row, add
//! an entry to [`ROWS`], or for collections to those of [`types`].

mod types;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::bench::generator::{KEY_BYTES, KEYS, Talk, VALUE_BYTES, key};
use crate::bench::rounds::{BenchLoad, GENERATOR_CPU, LoadResults, RoundsPlan, SERVER_CPU, median_min_max, run_load};
use crate::bench::tails;
use testbed::server::{NullReply, ServerKind, ServerOptions, TestServer, pin};

const CONNECTIONS: usize = 50;
const DEPTHS: [usize; 3] = [1, 16, 100];
/// Number of keys in one `MGET`.
const MGET_KEYS: usize = 50;
/// Number of different requests in a row whose requests are long.
const LONG_REQUESTS: usize = 4000;
const REPLY_WAIT_MAX: Duration = Duration::from_secs(60);

/// A function that appends the request with a number to a buffer.
type WriteRequest = fn(&mut Vec<u8>, usize);

/// A kind of request.
struct RespRequest {
    name: &'static str,
    /// Number of different requests.
    count: usize,
    /// Function that writes a request.
    request: WriteRequest,
    reply_bytes: usize,
    /// Gannet's own command for the same data, if Gannet has one, with the length of its reply.
    ours: Option<(WriteRequest, usize)>,
    /// Minimum ratio of the better peer's CPU time to Gannet's, for each depth of [`DEPTHS`].
    goals: [f64; 3],
}

impl RespRequest {
    fn talk(&self, count_max: usize) -> Talk {
        Talk::of(self.count.min(count_max), self.reply_bytes, b"\r\n", self.request)
    }

    fn talk_of_ours(&self, count_max: usize) -> Talk {
        let (request, reply_bytes) = self.ours.unwrap_or((self.request, self.reply_bytes));
        Talk::of(self.count.min(count_max), reply_bytes, b"\r\n", request)
    }
}

/// `$200\r\n<value>\r\n`
const HIT_BYTES: usize = 6 + VALUE_BYTES + 2;

/// Goals of rows in which Gannet may be as slow as the better peer.
const NO_SLOWER: [f64; 3] = [1.0; 3];

const ROWS: &[RespRequest] = &[
    RespRequest {
        name: "GET",
        count: KEYS,
        request: |out, n| words(out, &["GET", &key(n)]),
        reply_bytes: HIT_BYTES,
        ours: None,
        goals: [1.15, 2.0, 2.5],
    },
    RespRequest {
        name: "SET",
        count: KEYS,
        request: |out, n| words(out, &["SET", &key(n), &"v".repeat(VALUE_BYTES)]),
        reply_bytes: 5,
        ours: None,
        goals: [1.15, 2.0, 2.5],
    },
    RespRequest {
        name: "MGET of 50",
        count: LONG_REQUESTS,
        request: |out, n| {
            let keys: Vec<String> = (0..MGET_KEYS).map(|i| key((n * 7919 + i * 104_729) % KEYS)).collect();
            let all: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
            words(out, &all);
        },
        reply_bytes: 5 + MGET_KEYS * HIT_BYTES,
        ours: None,
        goals: NO_SLOWER,
    },
    RespRequest {
        name: "INCR",
        count: KEYS,
        request: |out, n| words(out, &["INCR", &counter(n)]),
        reply_bytes: 22,
        ours: None,
        goals: NO_SLOWER,
    },
    RespRequest {
        name: "EXPIRE",
        count: KEYS,
        request: |out, n| words(out, &["EXPIRE", &key(n), "100000"]),
        reply_bytes: 4,
        ours: None,
        goals: NO_SLOWER,
    },
    RespRequest {
        name: "HSET",
        count: HASHES,
        request: |out, n| words(out, &["HSET", &hash(n), "field7", "0123456789"]),
        reply_bytes: 4,
        ours: None,
        goals: NO_SLOWER,
    },
    RespRequest {
        name: "HGETALL",
        count: HASHES,
        request: |out, n| words(out, &["HGETALL", &hash(n)]),
        reply_bytes: 5 + FIELDS * (12 + FIELD_HIT_BYTES),
        ours: None,
        goals: NO_SLOWER,
    },
    RespRequest {
        name: "HMGET of 10",
        count: HASHES,
        request: |out, n| {
            let (hash, fields) = (hash(n), (0..FIELDS).map(field).collect::<Vec<_>>());
            let all: Vec<&str> = ["HMGET", &hash].into_iter().chain(fields.iter().map(String::as_str)).collect();
            words(out, &all);
        },
        reply_bytes: 5 + FIELDS * FIELD_HIT_BYTES,
        ours: None,
        goals: NO_SLOWER,
    },
    RespRequest {
        name: "REC.GET of 10 bins, on peers HGETALL",
        count: HASHES,
        request: |out, n| words(out, &["HGETALL", &record(n)]),
        reply_bytes: 5 + FIELDS * (12 + FIELD_HIT_BYTES),
        // Before the bins, the reply has a revision of 1 and a time to live of -1: `*3`, `:1`, `:-1`.
        ours: Some((|out, n| words(out, &["REC.GET", &record(n)]), 13 + 5 + FIELDS * (12 + FIELD_HIT_BYTES))),
        goals: [2.0; 3],
    },
];

/// Number of stored hashes, each with ten fields of ten bytes.
const HASHES: usize = 20_000;
const FIELDS: usize = 10;
/// `$10\r\n<value>\r\n`
const FIELD_HIT_BYTES: usize = 17;

fn hash(n: usize) -> String {
    format!("hsh-{n:020}")
}

/// Returns the key of a record. It is stored like a hash, but never changed, so that its revision has one digit.
fn record(n: usize) -> String {
    format!("rec-{n:020}")
}

fn field(number: usize) -> String {
    format!("field{number}")
}

fn counter(n: usize) -> String {
    format!("cnt-{n:020}")
}

/// Writes a request as an array of bulk strings.
fn words(out: &mut Vec<u8>, words: &[&str]) {
    out.extend(format!("*{}\r\n", words.len()).bytes());
    words.iter().for_each(|word| out.extend(format!("${}\r\n{word}\r\n", word.len()).bytes()));
}

/// The row name that selects the response times of the open loop.
const TAILS: &str = "tails";
/// The row name that selects the memory of elements.
const BYTES: &str = "bytes";

/// Stores the keys and counters that the rows use.
fn store(server: &TestServer) -> Result<(), String> {
    let store = || -> std::io::Result<usize> {
        let mut stream = TcpStream::connect(server.resp)?;
        stream.set_read_timeout(Some(REPLY_WAIT_MAX))?;
        let (value, mut stored) = ("x".repeat(VALUE_BYTES), 0);
        for first in (0..KEYS).step_by(100) {
            let mut batch = Vec::new();
            for n in first..first + 100 {
                words(&mut batch, &["SET", &key(n), &value]);
                // The counters are so large that increments do not change the number of digits.
                words(&mut batch, &["SET", &counter(n), "1000000000000000000"]);
            }
            stream.write_all(&batch)?;
            let mut reply = vec![0; 5 * 200];
            stream.read_exact(&mut reply)?;
            stored += reply.chunks(5).filter(|line| *line == b"+OK\r\n").count();
        }
        for first in (0..HASHES).step_by(100) {
            let mut batch = Vec::new();
            for n in first..first + 100 {
                let fields: Vec<String> = (0..FIELDS).map(field).collect();
                for key in [hash(n), record(n)] {
                    let pairs = fields.iter().flat_map(|field| [field.as_str(), "0123456789"]);
                    words(&mut batch, &["HSET", &key].into_iter().chain(pairs).collect::<Vec<_>>());
                }
            }
            stream.write_all(&batch)?;
            stream.read_exact(&mut vec![0; b":10\r\n".len() * 200])?;
        }
        Ok(stored)
    };
    match store() {
        Ok(stored) if stored == 2 * KEYS => Ok(()),
        Ok(stored) => Err(format!("{}: {stored} of {} keys were stored", server.kind.name(), 2 * KEYS)),
        Err(error) => Err(format!("{}: cannot store the keys: {error}", server.kind.name())),
    }
}

/// Measures and prints the rows whose names begin with one of `only`, at the requested depth. Also measures the
/// response times of the open loop if no row and no depth is selected, or if `only` contains [`TAILS`].
///
/// # Errors
/// If a server does not start, or gives a wrong reply.
pub fn run(
    kinds: &[ServerKind],
    only: &[String],
    depth: Option<usize>,
    plan: RoundsPlan,
    tails: tails::TailsPlan,
) -> Result<(), String> {
    let options = ServerOptions { cpu: Some(SERVER_CPU), resp: true, ..ServerOptions::memory(512) };
    let peers: Vec<TestServer> =
        kinds.iter().map(|kind| TestServer::start(*kind, &options)).collect::<Result<_, _>>()?;
    peers.iter().try_for_each(store)?;
    peers.iter().try_for_each(types::store)?;
    println!(
        "Requests of Redis clients: {KEYS} keys of {KEY_BYTES} B, values of {VALUE_BYTES} B, {CONNECTIONS} \
         connections; {} rounds of {:?} per server. The ratio is the better peer's CPU / Gannet's, by round.\n",
        plan.rounds, plan.turn
    );
    println!(
        "| request | depth | server | CPU-ns per request, median (min-max) | R, median (min-max) | requests/s | \
         rounds |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut verdicts = Vec::new();
    let is_asked = |row: &&RespRequest| {
        only.is_empty() || only.iter().any(|part| row.name.to_lowercase().starts_with(&part.to_lowercase()))
    };
    for row in ROWS.iter().chain(types::ROWS).filter(is_asked) {
        let (talk, ours) = (row.talk(row.count), row.talk_of_ours(row.count));
        let lines = talk.lines();
        let null_options = ServerOptions { null: NullReply { bytes: row.reply_bytes, lines }, ..options };
        let null = TestServer::start(ServerKind::Null, &null_options)?;
        let mut servers: Vec<(&TestServer, &Talk)> = vec![(&null, &talk)];
        servers.extend(peers.iter().map(|peer| (peer, if peer.kind == ServerKind::Gannet { &ours } else { &talk })));
        pin(Some(GENERATOR_CPU))?;
        for (at, of_row) in
            DEPTHS.into_iter().enumerate().filter(|(_, of_row)| depth.is_none_or(|depth| depth == *of_row))
        {
            let outcome = run_load(&servers, BenchLoad { connections: CONNECTIONS, depth: of_row }, plan)?;
            print_row(row.name, &outcome);
            verdicts.extend(ratio(&outcome).map(|ratio| (row.name, of_row, ratio, row.goals[at])));
        }
        pin(None)?;
    }
    println!("\n| request | depth | better peer / gannet, median (min-max) | goal | reached |\n|---|---|---|---|---|");
    for (name, depth, (ratio, low, high), goal) in verdicts {
        let reached = if ratio >= goal { "yes" } else { "NO" };
        println!("| {name} | {depth} | {ratio:.2} ({low:.2}-{high:.2}) | {goal:.2} | {reached} |");
    }
    println!();
    let is_wanted = |name| only.is_empty() && depth.is_none() || only.iter().any(|part| part == name);
    if is_wanted(BYTES) {
        types::print_memory(&peers)?;
    }
    if is_wanted(TAILS) {
        tails::run(&peers, tails)?;
    }
    Ok(())
}

fn print_row(name: &str, outcome: &LoadResults) {
    for (index, (kind, cpu_ns)) in outcome.cpu_ns.iter().enumerate() {
        let (cpu, low, high) = median_min_max(cpu_ns);
        let rate = median_min_max(&outcome.rates[index].1).0;
        let of_null = outcome.ratios.iter().find(|(of, _)| of == kind).map_or("1".to_owned(), |(_, ratios)| {
            let (ratio, low, high) = median_min_max(ratios);
            format!("{ratio:.3} ({low:.3}-{high:.3})")
        });
        let noisy = if outcome.noisy { ", noisy" } else { "" };
        println!(
            "| {name} | {} | {} | {cpu:.0} ({low:.0}-{high:.0}) | {of_null} | {rate:.0} | {}{noisy} |",
            outcome.load.depth,
            kind.name(),
            cpu_ns.len()
        );
    }
}

/// Returns the better peer's CPU time divided by Gannet's: the median, lowest and highest of all rounds. `None` without
/// a peer or without Gannet.
fn ratio(outcome: &LoadResults) -> Option<(f64, f64, f64)> {
    let of = |kind: ServerKind| outcome.cpu_ns.iter().find(|(of, _)| *of == kind).map(|(_, rounds)| rounds);
    let ours = of(ServerKind::Gannet)?;
    let peers: Vec<&Vec<f64>> = [ServerKind::Redis, ServerKind::Valkey].into_iter().filter_map(of).collect();
    let better = |round: usize| peers.iter().map(|peer| peer[round]).fold(f64::INFINITY, f64::min);
    let ratios: Vec<f64> = ours.iter().enumerate().map(|(round, ours)| better(round) / ours).collect();
    (!peers.is_empty()).then(|| median_min_max(&ratios))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::generator::Generator;

    #[test]
    fn the_ratio_is_to_the_better_peer_of_each_round() {
        let cpu_ns = vec![
            (ServerKind::Null, vec![1.0, 1.0]),
            (ServerKind::Gannet, vec![10.0, 20.0]),
            (ServerKind::Redis, vec![30.0, 40.0]),
            (ServerKind::Valkey, vec![20.0, 60.0]),
        ];
        let load = BenchLoad { connections: 1, depth: 1 };
        let outcome = LoadResults { load, cpu_ns, rates: vec![], ratios: vec![], dropped: 0, noisy: false };
        assert_eq!(ratio(&outcome), Some((2.0, 2.0, 2.0)));
    }

    #[test]
    fn redis_replies_as_expected_to_every_row() {
        let server =
            TestServer::start(ServerKind::Redis, &ServerOptions::memory(512)).expect("redis-server is installed");
        store(&server).expect("every key is stored");
        types::store(&server).expect("every collection is stored");
        for row in ROWS.iter().chain(types::ROWS) {
            let talk = row.talk(LONG_REQUESTS);
            let mut generator = Generator::connect(server.resp, 4, 16, 1, &talk).expect("connections");
            let answered =
                generator.run(Duration::from_millis(50)).unwrap_or_else(|error| panic!("{}: {error}", row.name));
            assert!(answered >= 64, "{}", row.name);
        }
    }
}
