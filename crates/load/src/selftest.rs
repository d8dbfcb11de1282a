//! Measures the generator's speed and timing on this host, with the engine against a null server in the same process.
//!
//! ```text
//!   rate     closed loop, 64 in flight per connection, null server on another CPU      requests/s, CPU per request
//!   depth 1  the same with one in flight                                               requests/s, CPU per request
//!   timing   open loop at a low rate: lateness of the sends                            microseconds
//!   host     the generator's CPU, before and after the timing part: lateness of a
//!            thread that only reads the clock                                          microseconds
//! ```
//! Measurements of another server are not reliable below the timing error, or near the maximum rate.

use crate::engine::{Config, Control, Error, Limit, Load, Run, run};
use crate::fake::{FakeServer, OneKeyRequests, Served};
use crate::schedule::SendPlan;
use io::away::Away;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Bytes of the value in each reply.
const VALUE_BYTES: usize = 200;
/// Target for the timer error at the 99th percentile, in nanoseconds.
pub const TIMER_ERROR_NS_MAX: u64 = 20_000;

/// Settings of a self-test.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Length of each part in nanoseconds.
    pub part_ns: u64,
    /// The CPU of the generator's thread.
    pub generator_cpu: Option<usize>,
    /// The CPU of the null server's thread.
    pub server_cpu: Option<usize>,
    /// Number of connections.
    pub connections: usize,
    /// Requests in flight per connection in the first part.
    pub depth: usize,
    /// Requests per second in the timing part.
    pub timing_rate_per_s: f64,
}

impl Default for Trial {
    /// Returns three parts of two seconds each, on the last two CPUs that the process may use.
    fn default() -> Self {
        let cpus = io::affinity::usable_cpus().unwrap_or_default();
        let from_last = |back: usize| (cpus.len() > 1).then(|| cpus[cpus.len() - back]);
        Self {
            part_ns: 2_000_000_000,
            generator_cpu: from_last(1),
            server_cpu: from_last(2),
            connections: 16,
            depth: 64,
            timing_rate_per_s: 2_000.0,
        }
    }
}

/// Throughput of one part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Number of connections.
    pub connections: usize,
    /// Requests in flight per connection.
    pub depth: usize,
    /// Replies per second.
    pub rate_per_s: f64,
    /// CPU time of the generator's thread per request, in nanoseconds.
    pub cpu_ns: f64,
    /// CPU time of the null server's thread per request, in nanoseconds.
    pub null_cpu_ns: f64,
    /// Share of the time that the generator's thread worked.
    pub busy_share: f64,
}

impl Speed {
    /// Returns the rate that one CPU of the generator could reach at this cost, in requests per second.
    pub fn one_cpu_rate_per_s(&self) -> f64 {
        if self.cpu_ns > 0.0 { 1e9 / self.cpu_ns } else { 0.0 }
    }
}

/// The results of a self-test on this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfTestOutcome {
    /// Speed with many requests in flight.
    pub deep: Speed,
    /// Speed with one request in flight per connection.
    pub shallow: Speed,
    /// Requests per second in the timing part.
    pub timing_rate_per_s: f64,
    /// Lateness in nanoseconds that 50 % of the sends do not exceed.
    pub lateness_p50_ns: u64,
    /// Lateness in nanoseconds that 99 % of the sends do not exceed.
    pub lateness_p99_ns: u64,
    /// Lateness in nanoseconds that 99.9 % of the sends do not exceed.
    pub lateness_p999_ns: u64,
    /// The largest lateness of a send in nanoseconds.
    pub lateness_max_ns: u64,
    /// Lateness in nanoseconds that 50 % of the instants do not exceed in a thread on the same CPU that only waits.
    pub host_lateness_p50_ns: u64,
    /// Lateness in nanoseconds that 99 % of the instants do not exceed in that thread.
    pub host_lateness_p99_ns: u64,
    /// Response time of the null server at the timing rate that 50 % of the requests do not exceed, in nanoseconds.
    pub response_p50_ns: u64,
    /// Response time of the null server at the timing rate that 99 % of the requests do not exceed, in nanoseconds.
    pub response_p99_ns: u64,
    /// Share of the machine's CPU time that the hypervisor gave to other guests in the worst part, from 0 to 1.
    pub steal_share: f64,
    /// Disturbances of the timing part.
    pub disturbed: Vec<Limit>,
}

impl fmt::Display for SelfTestOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for speed in [&self.deep, &self.shallow] {
            writeln!(
                f,
                "{:>3} connections, {:>2} in flight each: {:>9.0} requests/s, {:.0} % busy, {:>5.0} ns of CPU per \
                 request (null server: {:.0} ns)",
                speed.connections,
                speed.depth,
                speed.rate_per_s,
                speed.busy_share * 100.0,
                speed.cpu_ns,
                speed.null_cpu_ns
            )?;
        }
        let us = |ns: u64| ns as f64 / 1000.0;
        writeln!(
            f,
            "timer error at {:.0} requests/s: p50 {:.1} us, p99 {:.1} us, p999 {:.1} us, max {:.1} us",
            self.timing_rate_per_s,
            us(self.lateness_p50_ns),
            us(self.lateness_p99_ns),
            us(self.lateness_p999_ns),
            us(self.lateness_max_ns)
        )?;
        writeln!(
            f,
            "of this, the part that the host causes without a generator: p50 {:.1} us, p99 {:.1} us",
            us(self.host_lateness_p50_ns),
            us(self.host_lateness_p99_ns)
        )?;
        writeln!(
            f,
            "response time of the null server at that rate: p50 {:.1} us, p99 {:.1} us",
            us(self.response_p50_ns),
            us(self.response_p99_ns)
        )?;
        writeln!(f, "steal: {:.1} %", self.steal_share * 100.0)?;
        for limit in &self.disturbed {
            writeln!(f, "disturbed: {limit}")?;
        }
        Ok(())
    }
}

/// Runs the self-test on this host.
///
/// # Errors
/// If there is no free port for the null server, or if the engine cannot run.
pub fn try_host(trial: &Trial) -> Result<SelfTestOutcome, Error> {
    let deep = part(trial, Load::Closed, trial.depth, 0.0)?;
    let shallow = part(trial, Load::Closed, 1, 0.0)?;
    let before = host_away(trial)?;
    let timing = part(trial, Load::Open(SendPlan::poisson()), 1, trial.timing_rate_per_s)?;
    let host = before.and(host_away(trial)?);
    let steal = [&deep, &shallow, &timing].map(|(run, _)| run.watched.steal_share);
    let (timing, _) = timing;
    let (lateness, response) = (&timing.bulk.lateness, &timing.bulk.response);
    Ok(SelfTestOutcome {
        deep: speed(trial, trial.depth, &deep),
        shallow: speed(trial, 1, &shallow),
        timing_rate_per_s: trial.timing_rate_per_s,
        lateness_p50_ns: lateness.quantile_ns(0.50),
        lateness_p99_ns: lateness.quantile_ns(0.99),
        lateness_p999_ns: lateness.quantile_ns(0.999),
        lateness_max_ns: lateness.max_ns(),
        host_lateness_p50_ns: host.lateness_ns(0.50),
        host_lateness_p99_ns: host.lateness_ns(0.99),
        response_p50_ns: response.quantile_ns(0.50),
        response_p99_ns: response.quantile_ns(0.99),
        steal_share: steal.into_iter().fold(0.0, f64::max),
        disturbed: timing.limits,
    })
}

/// Measures for half the length of a part, because it runs before and after the timing part.
fn host_away(trial: &Trial) -> Result<Away, Error> {
    let error = |error| Error::System { doing: "watching the generator's CPU", error };
    let last = || io::affinity::usable_cpus().map_err(error).map(|cpus| cpus.last().copied().unwrap_or_default());
    let cpu = trial.generator_cpu.map_or_else(last, Ok)?;
    Away::watch(cpu, Duration::from_nanos(trial.part_ns / 2)).map_err(error)
}

fn part(trial: &Trial, load: Load, depth: usize, rate_per_s: f64) -> Result<(Run, Served), Error> {
    let server = FakeServer::start(None, VALUE_BYTES, trial.server_cpu)
        .map_err(|error| Error::System { doing: "starting the null server", error })?;
    let config = Config {
        targets: vec![server.target()],
        cpus: trial.generator_cpu.into_iter().collect(),
        connections: trial.connections,
        depth,
        load,
        warm_up_ns: trial.part_ns / 10,
        duration_ns: trial.part_ns,
        slice_ns: (trial.part_ns / 4).max(1_000_000),
        ..Config::default()
    };
    let run = run(&config, |_| OneKeyRequests::new(VALUE_BYTES), &Control::new(rate_per_s))?;
    Ok((run, server.stop()))
}

fn speed(trial: &Trial, depth: usize, (run, served): &(Run, Served)) -> Speed {
    let thread = run.watched.threads.first().cloned().unwrap_or_default();
    let answered = run.bulk.totals.answered.max(1) as f64;
    Speed {
        connections: trial.connections,
        depth,
        rate_per_s: run.bulk.answered_per_s(),
        cpu_ns: thread.run_ns.saturating_sub(thread.polled_ns) as f64 / answered,
        null_cpu_ns: served.cpu_ns as f64 / served.answered.max(1) as f64,
        busy_share: thread.busy_share(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_tried_in_all_parts() {
        let trial = Trial { part_ns: 300_000_000, connections: 4, timing_rate_per_s: 500.0, ..Trial::default() };
        // Where other processes leave the threads little CPU time, a part has too few requests for the clock.
        let tries = (0..5).map(|_| try_host(&trial).unwrap());
        let outcome = tries.into_iter().find(|outcome| outcome.deep.cpu_ns > 0.0).expect("five tries");
        assert!(outcome.deep.rate_per_s > 0.0 && outcome.shallow.rate_per_s > 0.0);
        assert!(outcome.deep.one_cpu_rate_per_s() > 0.0);
        assert!(outcome.lateness_p50_ns <= outcome.lateness_p99_ns);
        assert!(outcome.host_lateness_p50_ns <= outcome.host_lateness_p99_ns);
        assert!(outcome.lateness_p999_ns <= outcome.lateness_max_ns && outcome.response_p50_ns > 0);
        let text = outcome.to_string();
        assert!(text.contains("timer error at 500 requests/s") && text.contains("64 in flight"), "{text}");
    }
}
