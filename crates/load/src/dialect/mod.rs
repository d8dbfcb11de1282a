//! Maps other tools' command lines and files to workloads, so that an existing benchmark runs unchanged.
//!
//! ```text
//!   aerospike   -h H -n test -k 10000000 -o S:10 -b 10 -w RU,80      records are hashes, bins their fields
//!   rpc-perf    its TOML, version 5 and the older form                --\
//!   mc-crusher  send=ascii_get,recv=blind_read,conns=50,...           ---+->  Mapped { workload, run, notes }
//!   memtier     --ratio 1:10 -c 50 -t 4 -d 32 ...                     --/
//! ```
//!
//! Invariants: no setting is dropped silently. A setting without an equivalent is a fault with its remedy. A setting
//! without an effect, or with a slightly different meaning, produces a note for the user. Every resulting workload is
//! valid.

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

/// The workload and run that another tool's command line or file describes.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapped {
    /// The requests, their servers, and the pace.
    pub workload: Workload,
    /// The length of the run, and its reports.
    pub run: Run,
    /// Notes for the user, one sentence each, about arguments that are ignored or mean something slightly different
    /// here.
    pub notes: Vec<String>,
}

/// The settings of a run that are not part of the workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Length of the run. Without it and without `requests_max` the run continues until the user stops it.
    pub duration: Option<TimeSpan>,
    /// Number of requests over all connections after which the run ends.
    pub requests_max: Option<u64>,
    /// Number of consecutive runs; 0 means 1.
    pub rounds: u32,
    /// Interval between two lines of progress.
    pub interval: Option<TimeSpan>,
    /// Time limit for a reply.
    pub timeout: Option<TimeSpan>,
    /// Time limit for opening a connection.
    pub connect_timeout: Option<TimeSpan>,
    /// Address of the generator's own admin port: `HOST:PORT`.
    pub admin: Option<String>,
    /// The steps in which the rate rises; the workload's rate is the first step.
    pub steps: Option<Steps>,
    /// Percentiles to show, in percent; the default ones if empty.
    pub percentiles: Vec<f64>,
    /// File that also receives the printed text.
    pub out: Option<PathBuf>,
    /// File that receives the results as JSON.
    pub json: Option<PathBuf>,
    /// Prefix of the names of HDR histogram logs.
    pub hdr: Option<PathBuf>,
}

/// A sequence of rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// First rate in requests per second.
    pub from_per_s: f64,
    /// Last rate in requests per second.
    pub to_per_s: f64,
    /// Increase per step, in requests per second.
    pub by_per_s: f64,
    /// Time for which each rate is held.
    pub each: TimeSpan,
    /// True if the rates are in random order.
    pub shuffled: bool,
    /// The action after the last rate.
    pub then: Then,
}

/// Highest number of rates in one run.
pub const RATES_MAX: usize = 10_000;

impl Steps {
    /// Returns the rates per second in their order; `seed` shuffles them. With `duration`, returns as many rates as
    /// fill it, where [`Steps::then`] decides what follows the last one. Without it, returns each rate once. There are
    /// at most [`RATES_MAX`].
    pub fn rates(&self, duration: Option<TimeSpan>, seed: u64) -> Vec<f64> {
        let (low, high) = (self.from_per_s.min(self.to_per_s), self.from_per_s.max(self.to_per_s));
        // A last step that exceeds the end only by rounding still counts.
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
            // Up and down, each end once: 0 1 2 1 0 1 2 ...
            Then::Mirror if last == 0 => 0,
            Then::Mirror => last - (step % (2 * last)).abs_diff(last),
        };
        (0..wanted).map(|step| rates[at(step)]).collect()
    }
}

/// The action after the last of several rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Then {
    /// The last rate holds.
    #[default]
    Stable,
    /// The sequence starts again at the first rate.
    Loop,
    /// The rates repeat in reverse order, then forwards, and so on.
    Mirror,
}

/// Renames the fields in `faults` to the names that the user wrote: to the first of `names` whose path is a prefix of
/// the field's path.
fn renamed(faults: Vec<WorkloadFault>, names: &[(&str, &str)]) -> Vec<WorkloadFault> {
    let rename = |fault: WorkloadFault| {
        let known = names.iter().find(|(field, _)| fault.name.starts_with(field));
        WorkloadFault { name: known.map_or(fault.name, |(_, flag)| (*flag).to_owned()), ..fault }
    };
    faults.into_iter().map(rename).collect()
}

/// Returns the mapped run if there are no faults, neither in `faults` nor in the workload.
fn checked(
    mapped: Mapped,
    mut faults: Vec<WorkloadFault>,
    names: &[(&str, &str)],
) -> Result<Mapped, Vec<WorkloadFault>> {
    // A value that could not be parsed has its default, which may contradict other values. Such follow-up faults are
    // not reported.
    if faults.is_empty()
        && let Err(found) = mapped.workload.validate()
    {
        faults = renamed(found, names);
    }
    faults.truncate(FAULTS_MAX);
    if faults.is_empty() { Ok(mapped) } else { Err(faults) }
}

/// Returns `HOST:PORT`; `host` may already contain a port.
fn address(host: &str, port: u64) -> String {
    let has_port = match host.rsplit_once(':') {
        // An IPv6 address contains colons; with a port it is in brackets.
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
    fn rate_steps_are_extended_to_fill_the_duration() {
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
        assert_eq!(of(Then::Stable, Some(3)), [10.0, 20.0], "only as many rates as fit the duration");
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
    fn explicit_port_of_host_overrides_default_port() {
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
