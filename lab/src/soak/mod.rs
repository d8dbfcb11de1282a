//! The soak: hundreds of millions of requests of every kind against the release binary, with every reply checked.
//!
//! ```text
//!   client.rs   the main load: every read is compared with the model (requests.rs, replies.rs, model.rs)
//!   rough*.rs   misbehaving clients with separate keys: disconnects, half-closes, slow reads, bursts, invalid requests
//!   probe.rs    one get per millisecond: the latency of the last tenth of the run is compared with that of the first
//!   stages.rs   changes of the memory limit and of the clock, flushes, checks of RSS and of lost items
//! ```
//!
//! Two runs with the same seed send the same requests on each connection. The server's timing depends on the machine.

mod client;
mod model;
mod probe;
mod replies;
mod requests;
mod rough;
mod rough_client;
mod stages;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use client::SoakClient;
use probe::{PARTS, Probe};
use rough::Rough;
use stages::{Stages, memory_mib_max};
use testbed::clock::Clock;
use testbed::host;
use testbed::server::{ServerKind, ServerOptions, TestServer, pin};

/// The length and the settings of a soak.
#[derive(Clone, Copy, Debug)]
pub struct SoakOptions {
    /// Number of requests of the main load.
    pub requests: u64,
    /// Maximum length of the run in seconds.
    pub seconds: Option<u64>,
    /// The seed of all requests.
    pub seed: u64,
    /// Number of the server's workers. With one worker, the server runs on CPU 0 and the clients on CPU 1.
    pub workers: usize,
    /// True to use io_uring in the server's workers.
    pub uring: bool,
    /// True if the soak runs as a test. Tail latencies are then printed without a verdict, because a short run has too
    /// few samples.
    pub as_test: bool,
}

/// Number of requests of a short run.
pub const REQUESTS_SHORT: u64 = 1_500_000;
/// Number of requests of the whole soak.
pub const REQUESTS_WHOLE: u64 = 300_000_000;

/// Number of keys of the main load; their items take about 200 MiB.
const KEYS: u32 = 600_000;
const ITEM_BYTES_MAX: u64 = 11 << 20;
const ROUGH_CLIENTS: u64 = 3;
const SERVER_CPU: usize = 0;
const CLIENT_CPU: usize = 1;
/// Factor by which the p999 latency may grow from the first to the last tenth of the run. The growth of the echo
/// thread's p999 and [`TAIL_NOISE_US`] are allowed in addition. A tenth of the whole soak has about 15,000 samples, of
/// which 15 are above the p999, so the p999 varies randomly by a quarter.
const TAIL_FACTOR_MAX: f64 = 1.5;
/// Growth of the p999 latency that late wake-ups on a shared machine may cause, in microseconds.
const TAIL_NOISE_US: f64 = 1000.0;

/// Runs the soak and prints the results. Returns false if the p999 latency grew more than is allowed.
///
/// # Errors
/// The first wrong reply, with the seed.
pub fn run(target: &Path, options: &SoakOptions) -> Result<bool, String> {
    println!("{}\n", host::facts());
    println!("seed {}, {} requests, {} workers", options.seed, options.requests, options.workers);
    let passed = soak(target, options).map_err(|error| format!("soak with seed {}: {error}", options.seed));
    if options.as_test {
        let failed = usize::from(!matches!(passed, Ok(true)));
        println!("test result: {}. {} passed; {failed} failed;", if failed == 0 { "ok" } else { "FAILED" }, 1 - failed);
    }
    passed
}

fn soak(target: &Path, options: &SoakOptions) -> Result<bool, String> {
    let clock = Clock::build(&target.join("soak"))?;
    let pinned = options.workers == 1 && std::thread::available_parallelism().map_or(1, usize::from) > 1;
    let kind = if options.uring { ServerKind::GannetUring } else { ServerKind::GannetEpoll };
    let server_options = ServerOptions {
        item_bytes_max: ITEM_BYTES_MAX,
        cpu: pinned.then_some(SERVER_CPU),
        workers: options.workers,
        ..ServerOptions::memory(memory_mib_max(options))
    };
    let server = TestServer::start_under(&clock.prefix(), kind, &server_options)?;
    if pinned {
        pin(Some(CLIENT_CPU))?;
    }
    let probe = Probe::new();
    let over = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let (over, probe, server) = (&over, &probe, &server);
        let run = |work: &mut dyn FnMut() -> Result<String, String>| {
            let result = work();
            if result.is_err() {
                over.store(true, Relaxed);
            }
            result
        };
        let cpu = pinned.then_some(SERVER_CPU);
        let mut threads =
            vec![scope.spawn(move || run(&mut || probe.run(server.address, cpu, over).map(|()| String::new())))];
        for number in 0..ROUGH_CLIENTS {
            let mut rough = Rough::new(server.address, options.seed, number);
            threads.push(scope.spawn(move || run(&mut || rough.run(over).map(|()| rough.summary()))));
        }
        let main = main_load(server, clock, options, probe, over);
        over.store(true, Relaxed);
        let mut failure = main.err();
        for thread in threads {
            match thread.join() {
                Ok(Ok(summary)) => print!("{summary}"),
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(_) => failure = failure.or(Some("a client thread panicked".into())),
            }
        }
        failure.map_or(Ok(()), Err)
    });
    pin(None)?;
    if outcome.is_err() {
        // The counters of waits and dropped connections often show the cause.
        println!("\nThe server's counters:\n{}", server.admin_page("/metrics").unwrap_or_else(|error| error));
    }
    outcome?;
    Ok(judge_tail(&probe) || options.as_test)
}

fn main_load(
    server: &TestServer,
    clock: Clock,
    options: &SoakOptions,
    probe: &Probe,
    over: &AtomicBool,
) -> Result<(), String> {
    let mut client =
        SoakClient::connect(server.address, clock, KEYS, options.seed).map_err(|error| error.to_string())?;
    let mut stages = Stages::new(server, options);
    let begun = Instant::now();
    let seconds_max = options.seconds.map_or(f64::INFINITY, |seconds| seconds as f64);
    while client.tally.requests < options.requests && !over.load(Relaxed) {
        let done = client.tally.requests as f64 / options.requests as f64;
        let done = done.max(begun.elapsed().as_secs_f64() / seconds_max);
        if done >= 1.0 {
            break;
        }
        probe.part.store((done * PARTS as f64) as usize, Relaxed);
        let target = stages.next_stop(client.tally.requests);
        client.run(target.min(options.requests), over)?;
        stages.check(server, &client)?;
        if !over.load(Relaxed) {
            stages.advance(server, &mut client)?;
        }
    }
    stages.finish(&client, begun.elapsed())
}

/// Prints the latencies of each tenth of the run. Returns true if the p999 latency grew no more than is allowed.
fn judge_tail(probe: &Probe) -> bool {
    println!("\n| tenth | samples | p50, us | p999, us | echo's p999, us |\n|---|---|---|---|---|");
    let rows: Vec<_> = (0..PARTS).map(|part| probe.row(part)).collect();
    for (part, (samples, p50, p999, echo)) in rows.iter().enumerate() {
        println!("| {} | {samples} | {p50} | {p999} | {echo} |", part + 1);
    }
    let ((_, _, first, echo_first), (samples, _, last, echo_last)) = (rows[0], rows[PARTS - 1]);
    let most = f64::from(first) * TAIL_FACTOR_MAX + f64::from(echo_last.saturating_sub(echo_first)) + TAIL_NOISE_US;
    let passed = samples > 0 && f64::from(last) <= most;
    println!("\np999 of the last tenth: {last} us; at most {most:.0} us: {}", if passed { "ok" } else { "WORSE" });
    passed
}
