//! Other tools' command lines and files, mapped to our workloads, so that a benchmark runs here as it was written.
//!
//! ```text
//!   aerospike   -h H -n test -k 10000000 -o S:10 -b 10 -w RU,80      records are hashes, bins their fields
//!   rpc-perf    its TOML, today's and the older one                   --\
//!   mc-crusher  send=ascii_get,recv=blind_read,conns=50,...           ---+->  Mapped { workload, run, notes }
//!   memtier     --ratio 1:10 -c 50 -t 4 -d 32 ...                     --/
//! ```
//!
//! Invariants: nothing is taken in silence. What has no equal here is a fault with its remedy; what means nothing here,
//! or something slightly else, is a note that the user is shown. Every workload that comes out is valid.

pub mod aerospike;
mod flags;
pub mod mc_crusher;
pub mod memtier;
pub mod rpc_perf;
mod tls;

use std::path::PathBuf;

use base::prng::Prng;
use base::units::TimeSpan;

use crate::workload::fault::{FAULTS_MAX, WorkloadFault};
use crate::workload::model::Workload;

/// A workload and run that another tool's command line or file asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapped {
    /// The requests, their servers, and their pace.
    pub workload: Workload,
    /// The length of the run, and its reports.
    pub run: Run,
    /// Arguments that were left out or mean something slightly else here, a sentence each, for the user.
    pub notes: Vec<String>,
}

/// The part of a command line beside the workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Length of the run; without it and without `requests_max` the run goes on until it is stopped.
    pub duration: Option<TimeSpan>,
    /// Requests after which it ends, over all connections.
    pub requests_max: Option<u64>,
    /// Runs one after the other; 0 and 1 are one.
    pub rounds: u32,
    /// Between two lines of progress.
    pub interval: Option<TimeSpan>,
    /// Time limit for an answer.
    pub timeout: Option<TimeSpan>,
    /// Time limit for a connection.
    pub connect_timeout: Option<TimeSpan>,
    /// Address that the generator itself listens on: `HOST:PORT`.
    pub admin: Option<String>,
    /// The rate goes up in steps; the workload's own is the first.
    pub steps: Option<Steps>,
    /// Percentiles that are shown, in percent; empty: the usual ones.
    pub percentiles: Vec<f64>,
    /// File that the printed text is also written to.
    pub out: Option<PathBuf>,
    /// File that the results are written to as JSON.
    pub json: Option<PathBuf>,
    /// Beginning of the names of HDR histogram logs.
    pub hdr: Option<PathBuf>,
}

/// Rates one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// Requests a second at first.
    pub from_per_s: f64,
    /// Requests a second at last.
    pub to_per_s: f64,
    /// Increase with each step, in requests a second.
    pub by_per_s: f64,
    /// Time for which each rate is held.
    pub each: TimeSpan,
    /// The rates come in random order.
    pub shuffled: bool,
    /// The action after the last rate.
    pub then: Then,
}

/// Rates of one run at most.
pub const RATES_MAX: usize = 10_000;

impl Steps {
    /// The rates in their order, a second; `seed` shuffles them. With `duration` as many as fill it: what comes after
    /// the last says [`Steps::then`]. Without it each once. At most [`RATES_MAX`].
    pub fn rates(&self, duration: Option<TimeSpan>, seed: u64) -> Vec<f64> {
        let (low, high) = (self.from_per_s.min(self.to_per_s), self.from_per_s.max(self.to_per_s));
        // A last step that ends above the end by rounding alone belongs to it.
        let count = ((high - low) / self.by_per_s + 1e-9).floor().clamp(0.0, RATES_MAX as f64 - 1.0) as usize + 1;
        let mut rates: Vec<f64> = (0..count).map(|step| low + step as f64 * self.by_per_s).collect();
        if self.from_per_s > self.to_per_s {
            rates = rates.iter().map(|rate| high + low - rate).collect();
        }
        if self.shuffled {
            let mut random = Prng::new(seed);
            for last in (1..rates.len()).rev() {
                rates.swap(last, random.below(last as u64 + 1) as usize);
            }
        }
        let Some(duration) = duration else { return rates };
        let wanted = duration.0.div_ceil(self.each.0.max(1)).clamp(1, RATES_MAX as u64) as usize;
        let last = count - 1;
        let at = |step: usize| match self.then {
            Then::Stable => step.min(last),
            Then::Loop => step % count,
            // There and back, each end once: 0 1 2 1 0 1 2 ...
            Then::Mirror if last == 0 => 0,
            Then::Mirror => last - (step % (2 * last)).abs_diff(last),
        };
        (0..wanted).map(|step| rates[at(step)]).collect()
    }
}

/// The action after the last of several rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Then {
    /// It is kept.
    #[default]
    Stable,
    /// The first again.
    Loop,
    /// The same rates backwards, and so on.
    Mirror,
}

/// Faults that name fields of a workload, named as the user wrote them: by the first of `names` that the field's path
/// begins with.
fn renamed(faults: Vec<WorkloadFault>, names: &[(&str, &str)]) -> Vec<WorkloadFault> {
    let rename = |fault: WorkloadFault| {
        let known = names.iter().find(|(field, _)| fault.name.starts_with(field));
        WorkloadFault { name: known.map_or(fault.name, |(_, flag)| (*flag).to_owned()), ..fault }
    };
    faults.into_iter().map(rename).collect()
}

/// The mapped run if nothing was wrong with it, neither so far nor as a workload.
fn checked(
    mapped: Mapped,
    mut faults: Vec<WorkloadFault>,
    names: &[(&str, &str)],
) -> Result<Mapped, Vec<WorkloadFault>> {
    // A value that could not be read has its default, which may not fit the others: nothing new is said of it.
    if faults.is_empty()
        && let Err(found) = mapped.workload.validate()
    {
        faults = renamed(found, names);
    }
    faults.truncate(FAULTS_MAX);
    if faults.is_empty() { Ok(mapped) } else { Err(faults) }
}

/// `HOST:PORT` of a host that may bring its own port.
fn address(host: &str, port: u64) -> String {
    let has_port = match host.rsplit_once(':') {
        // An address of version 6 has colons in it; with a port it is in brackets.
        Some((before, digits)) => digits.parse::<u16>().is_ok() && (!before.contains(':') || before.ends_with(']')),
        None => false,
    };
    match host {
        host if has_port => host.to_owned(),
        host if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{port}"),
        host => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_fill_the_time_by_what_comes_after_the_last() {
        let steps = Steps {
            from_per_s: 10.0,
            to_per_s: 30.0,
            by_per_s: 10.0,
            each: TimeSpan::secs(2),
            shuffled: false,
            then: Then::Stable,
        };
        let of = |then, seconds: Option<u64>| Steps { then, ..steps }.rates(seconds.map(TimeSpan::secs), 1);
        assert_eq!(of(Then::Loop, None), [10.0, 20.0, 30.0]);
        assert_eq!(of(Then::Stable, Some(9)), [10.0, 20.0, 30.0, 30.0, 30.0]);
        assert_eq!(of(Then::Loop, Some(10)), [10.0, 20.0, 30.0, 10.0, 20.0]);
        assert_eq!(of(Then::Mirror, Some(14)), [10.0, 20.0, 30.0, 20.0, 10.0, 20.0, 30.0]);
        assert_eq!(of(Then::Stable, Some(3)), [10.0, 20.0], "no longer than the time");
        let down = Steps { from_per_s: 30.0, to_per_s: 10.0, ..steps };
        assert_eq!(down.rates(None, 1), [30.0, 20.0, 10.0]);
        let one = Steps { to_per_s: 10.0, then: Then::Mirror, ..steps };
        assert_eq!(one.rates(Some(TimeSpan::secs(4)), 1), [10.0, 10.0]);
        let many = Steps { to_per_s: 1e9, by_per_s: 1.0, ..steps };
        assert_eq!(many.rates(None, 1).len(), RATES_MAX);
        let shuffled = Steps { to_per_s: 100.0, shuffled: true, ..steps }.rates(None, 7);
        let mut sorted = shuffled.clone();
        sorted.sort_by(f64::total_cmp);
        let straight = Steps { to_per_s: 100.0, ..steps }.rates(None, 7);
        assert!(sorted == straight && shuffled != straight, "{shuffled:?}");
    }

    #[test]
    fn a_host_keeps_the_port_that_it_brings() {
        for (host, expected) in [
            ("h", "h:3000"),
            ("h:1", "h:1"),
            ("10.0.0.1", "10.0.0.1:3000"),
            ("::1", "[::1]:3000"),
            ("[::1]", "[::1]:3000"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(address(host, 3000), expected);
        }
    }
}
