//! The actions between two stretches of the main load, when no requests are in flight. A stretch is an equal part of
//! the load's requests.
//!
//! ```text
//!   cycle:  512 MiB, nothing evicted ─> clock ─> 192 MiB ─> delayed flush_all ─> 96 MiB ─> clock ─> 160 MiB
//!           ─> flush_all ─> clock                                        (a short run: 160, 60, 30 and 50 MiB)
//! ```
//! MiB: a new memory limit; clock: the server's clock is moved forward.
//!
//! After each stretch, the server's resident memory is compared with its limit, and the number of lost items with the
//! server's count of evictions.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base::prng::Prng;

use super::SoakOptions;
use super::client::{SoakClient, SoakTally};
use testbed::server::TestServer;

/// The server's initial memory, which is also its maximum, in MiB.
const MEMORY_MIB_WHOLE: u64 = 512;
const MEMORY_MIB_SHORT: u64 = 160;
/// Number of parts of the maximum memory; one part is the unit of [`SoakStage::Memory`].
const MEMORY_PARTS: u64 = 32;

const MIB: u64 = 1 << 20;
/// Maximum resident memory of the server beyond its memory limit: 16 MiB for the program, 17 MiB per worker, and 8 MiB
/// more per worker with io_uring.
const PROGRAM_MIB: u64 = 16;
const WORKER_MIB: u64 = 17;
const WORKER_URING_MIB: u64 = 25;
/// Maximum additional memory for a client that uses `watch`: 5 MiB, and 128 KiB per worker.
const WATCHER_BYTES: u64 = 5 * MIB;
const WATCHER_WORKER_BYTES: u64 = 128 << 10;
/// Time limit within which the server must reduce its memory to a new limit.
const SETTLE_MAX: Duration = Duration::from_secs(30);
const CYCLES_WHOLE: u64 = 20;
const CYCLES_SHORT: u64 = 2;
const REQUESTS_A_CYCLE_MIN: u64 = 1_000_000;
const STEP_S_MAX: f64 = 2_592_000.0;

/// The action at the end of a stretch.
#[derive(Clone, Copy, Debug)]
enum SoakStage {
    /// Sets the memory limit to this number of 32nds of the maximum.
    Memory(u64),
    Clock,
    Flush,
    FlushLater,
    Quiet,
}

/// The actions of one cycle, each after a stretch of equal length.
const CYCLE: [SoakStage; 10] = [
    SoakStage::Memory(32),
    SoakStage::Clock,
    SoakStage::Memory(12),
    SoakStage::FlushLater,
    SoakStage::Memory(6),
    SoakStage::Clock,
    SoakStage::Quiet,
    SoakStage::Memory(10),
    SoakStage::Flush,
    SoakStage::Clock,
];

/// Returns the server's initial memory, which is also its maximum, in MiB.
pub fn memory_mib_max(options: &SoakOptions) -> u64 {
    if is_whole(options) { MEMORY_MIB_WHOLE } else { MEMORY_MIB_SHORT }
}

fn is_whole(options: &SoakOptions) -> bool {
    options.requests / CYCLES_WHOLE >= REQUESTS_A_CYCLE_MIN
}

/// The progress of the run, and the limits that it checks.
pub struct Stages {
    prng: Prng,
    requests: u64,
    stretch: u64,
    done: usize,
    limit_mib: u64,
    memory_mib_max: u64,
    constant_bytes: u64,
    evictions: u64,
    rss_bytes_max: u64,
    rss_over_limit_max: i64,
    steps_s: u64,
    begun: Instant,
    last: (Instant, u64),
}

impl Stages {
    /// Creates the state before the first stretch.
    pub fn new(server: &TestServer, options: &SoakOptions) -> Self {
        let cycles = if is_whole(options) { CYCLES_WHOLE } else { CYCLES_SHORT };
        let worker_mib = if options.uring { WORKER_URING_MIB } else { WORKER_MIB };
        let workers = options.workers as u64;
        let constant_bytes =
            (PROGRAM_MIB + worker_mib * workers) * MIB + WATCHER_BYTES + workers * WATCHER_WORKER_BYTES;
        println!("RSS must stay below the current memory limit plus {:.1} MiB.\n", mib(constant_bytes));
        Self {
            prng: Prng::new(options.seed ^ 0x57A6),
            requests: options.requests,
            stretch: (options.requests / (cycles * CYCLE.len() as u64)).max(1),
            done: 0,
            limit_mib: memory_mib_max(options),
            memory_mib_max: memory_mib_max(options),
            constant_bytes,
            evictions: 0,
            rss_bytes_max: server.rss_bytes(),
            rss_over_limit_max: i64::MIN,
            steps_s: 0,
            begun: Instant::now(),
            last: (Instant::now(), 0),
        }
    }

    /// Returns the total number of requests at which the stretch that begins after `requests` ends.
    pub fn next_stop(&self, requests: u64) -> u64 {
        (requests / self.stretch + 1) * self.stretch
    }

    /// Compares the server's resident memory with its limit, and the lost items with the server's evictions.
    ///
    /// # Errors
    /// A sentence about the limit that was exceeded.
    pub fn check(&mut self, server: &TestServer, client: &SoakClient) -> Result<(), String> {
        let rss = server.rss_bytes();
        let most = self.limit_mib * MIB + self.constant_bytes;
        self.rss_bytes_max = self.rss_bytes_max.max(rss);
        self.rss_over_limit_max = self.rss_over_limit_max.max(rss as i64 - (self.limit_mib * MIB) as i64);
        if rss > most {
            return Err(format!("RSS is {:.1} MiB, but the promised limit is {:.1} MiB", mib(rss), mib(most)));
        }
        self.evictions = server.stat("evictions")?;
        if client.tally.lost > self.evictions {
            let (lost, evictions) = (client.tally.lost, self.evictions);
            return Err(format!("{lost} items were lost, but the server reports {evictions} evictions"));
        }
        self.print_progress(&client.tally, rss);
        Ok(())
    }

    /// Executes the next action.
    ///
    /// # Errors
    /// If the server refuses the action, or if flushed items still exist.
    pub fn advance(&mut self, server: &TestServer, client: &mut SoakClient) -> Result<(), String> {
        let stage = CYCLE[self.done % CYCLE.len()];
        self.done += 1;
        match stage {
            SoakStage::Memory(parts) => self.resize(server, self.memory_mib_max * parts / MEMORY_PARTS),
            SoakStage::Clock => self.step(client),
            SoakStage::Flush => {
                ask(server, "flush_all\r\n", "OK\r\n")?;
                client.flushed();
                Ok(())
            }
            SoakStage::FlushLater => {
                let delay_s = 10 + self.prng.below(3600);
                ask(server, &format!("flush_all {delay_s}\r\n"), "OK\r\n")?;
                // Adds a second, because the server's time may be up to a second behind the clock.
                client.clock.step(delay_s + 1)?;
                client.flushed();
                Ok(())
            }
            SoakStage::Quiet => Ok(()),
        }
    }

    fn resize(&mut self, server: &TestServer, limit_mib: u64) -> Result<(), String> {
        ask(server, &format!("cache_memlimit {limit_mib}\r\n"), "OK\r\n")?;
        self.limit_mib = self.limit_mib.max(limit_mib);
        let begun = Instant::now();
        while limit_mib < self.limit_mib && server.stat("memory_held_bytes")? > limit_mib * MIB {
            if begun.elapsed() > SETTLE_MAX {
                return Err(format!("the memory does not shrink to {limit_mib} MiB"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.limit_mib = limit_mib;
        Ok(())
    }

    /// Moves the server's clock forward by a random time from a second to 30 days.
    fn step(&mut self, client: &mut SoakClient) -> Result<(), String> {
        let seconds = (self.prng.unit() * STEP_S_MAX.log2()).exp2() as u64;
        self.steps_s += seconds;
        client.clock.step(seconds)
    }

    fn print_progress(&mut self, tally: &SoakTally, rss: u64) {
        let (then, requests) = self.last;
        let rate = (tally.requests - requests) as f64 / then.elapsed().as_secs_f64();
        self.last = (Instant::now(), tally.requests);
        println!(
            "{:>6.0} s  {:>9} k requests  {:>5.0} k/s  {:>8} k hits  {:>8} k evicted  {:>6} k lost  RSS {:>3.0} of \
             {:>3} MiB",
            self.begun.elapsed().as_secs_f64(),
            tally.requests / 1000,
            rate / 1000.0,
            tally.hits / 1000,
            self.evictions / 1000,
            tally.lost / 1000,
            mib(rss),
            self.limit_mib
        );
    }

    /// Prints the totals, and checks that the run had hits, evictions, expiries and swaps.
    ///
    /// # Errors
    /// A sentence with the counts, if one of these did not occur.
    pub fn finish(&self, client: &SoakClient, took: Duration) -> Result<(), String> {
        let tally = &client.tally;
        println!(
            "\n{} requests in {:.0} s, {:.0} per second; {} reads were hits, {:.1} GB compared; {} missed, of them {} \
             expired, deleted or flushed and {} lost to eviction; {} stored, {} swaps refused",
            tally.requests,
            took.as_secs_f64(),
            tally.requests as f64 / took.as_secs_f64(),
            tally.hits,
            tally.value_bytes as f64 / 1e9,
            tally.misses,
            tally.gone,
            tally.lost,
            tally.stored,
            tally.refused
        );
        println!(
            "RSS at most {:.0} MiB, at most {:.1} MiB above the current limit; the clock was moved forward by {} days \
             in total",
            mib(self.rss_bytes_max),
            self.rss_over_limit_max as f64 / MIB as f64,
            self.steps_s / 86_400
        );
        let whole = tally.requests >= self.requests;
        let reached = [tally.hits, tally.lost, tally.gone, tally.refused, self.steps_s, self.evictions];
        match !whole || reached.iter().all(|count| *count > 0) {
            true => Ok(()),
            false => Err(format!("the run did not cover hits, evictions, expiries and swaps: {tally:?}")),
        }
    }
}

fn ask(server: &TestServer, request: &str, reply: &str) -> Result<(), String> {
    let exchange = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(server.address)?;
        stream.set_read_timeout(Some(SETTLE_MAX))?;
        stream.write_all(format!("{request}quit\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    match exchange().map_err(|error| format!("{}: {error}", request.trim_end()))? {
        answer if answer == reply => Ok(()),
        answer => Err(format!("'{}' was answered '{}'", request.trim_end(), answer.trim_end())),
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}
