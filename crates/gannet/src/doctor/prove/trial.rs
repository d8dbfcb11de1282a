//! Takes one measurement: sends requests to a server at a rate, by `gannet load`'s open-loop engine, and reads the
//! kernel's counters. If the user gives no rate, trials find one first, by the rule in `doctor::prove::pace`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use base::units::TimeSpan;
use doctor::Host;
use doctor::counters::Counters;
use doctor::prove::pace::{RateSearch, Trial, Used};
use doctor::prove::{Measured, counted_figures};
use load::engine::{Config, PREEMPTED_SHARE_MAX};
use load::result::{RunResult, SearchResult};
use load::session::RunControl;
use load::timeline::locate;

use super::super::args::failed;
use crate::Failure;
use crate::load::one;
use crate::load::started::{StartedServer, with_free_ports};

/// Default length of the runs that find the rate: a closed-loop run, and each trial.
const TRIAL: &str = "3s";
/// Memory limit of the demonstration server.
const MEMORY: &str = "256MiB";
/// Maximum number of attempts to start a demonstration server. An attempt fails if another program takes the free port.
const STARTS_MAX: usize = 3;
const NO_PREFILL: &str = "--no-prefill";
/// Time around each measurement, in seconds: the pause after a change, the start of the server, prefill and warm-up.
const AROUND_S: u64 = 8;
/// Approximate length of the trials that find the rate, in seconds.
const CALIBRATION_S: u64 = 60;
/// Approximate number of trials of a search for the highest rate.
const SEARCH_TRIALS: u64 = 15;
/// Flags of `gannet load` that the proof sets, unless the user sets them.
const YIELDING: [&str; 2] = ["--warm-up", "--confirm"];

/// The settings of the measurements: server, load and length.
pub struct Bench {
    /// A command that starts the server at the target, once for each measurement.
    pub server: Option<String>,
    /// The server's address; `None` for a demonstration server on a free port.
    pub target: Option<String>,
    /// The process id that the user gave, for a server that the proof does not start and cannot find by its port.
    pub pid: Option<u32>,
    /// Requests per second; `None` until the rate is known.
    pub rate: Option<String>,
    /// The reason for the rate, in words.
    pub why: String,
    /// Length of each measurement in seconds.
    pub seconds: u64,
    /// Latency objectives, if each measurement also searches for the highest rate that meets them.
    pub slo: Option<String>,
    /// Length of each trial of a search.
    pub trial: String,
    /// The user's additional flags of `gannet load`.
    pub flags: Vec<String>,
    /// True if the keys have been stored.
    pub is_filled: bool,
}

/// A server that runs for a measurement.
struct TrialServer {
    target: String,
    pid: Option<u32>,
    started: Option<StartedServer>,
}

impl Bench {
    /// Describes the server that is measured.
    pub fn server_words(&self) -> String {
        match (&self.server, &self.target) {
            (Some(server), _) => format!("`{server}`, restarted for each measurement"),
            (None, Some(target)) => format!("the server at {target}"),
            (None, None) => "a Gannet of this build, restarted for each measurement".to_owned(),
        }
    }

    /// Describes the load.
    pub fn load_words(&self) -> String {
        let rate = self.rate.as_deref().unwrap_or("?").trim_end_matches("/s");
        let slo = self.slo.as_ref().map_or(String::new(), |slo| format!(", then the highest rate with {slo}"));
        let flags = if self.flags.is_empty() { String::new() } else { format!(", {}", self.flags.join(" ")) };
        format!("open loop, {rate} requests/s for {} s{slo}{flags}", self.seconds)
    }

    /// Returns the approximate time of one measurement, in seconds.
    pub fn measurement_s(&self) -> u64 {
        let trial_s = self.trial.parse::<TimeSpan>().map_or(0, |trial| trial.0.div_ceil(1_000_000_000));
        let search_s = self.slo.as_ref().map_or(0, |_| SEARCH_TRIALS * (trial_s + 1));
        self.seconds + AROUND_S + search_s
    }

    /// Returns the approximate time until the rate is known, in seconds.
    pub fn calibration_s(&self) -> u64 {
        if self.rate.is_some() { 0 } else { CALIBRATION_S }
    }

    fn start(&self, pin: Option<&str>) -> Result<TrialServer, Failure> {
        let started = |command: &str, target: String| {
            let server = StartedServer::start(command, &target)?;
            Ok(TrialServer { target, pid: Some(server.pid()), started: Some(server) })
        };
        let pin = pin.map_or(String::new(), |pin| format!(" --pin {pin}"));
        match (&self.server, &self.target) {
            (Some(command), Some(target)) => started(&format!("{}{pin}", with_free_ports(command)), target.clone()),
            (None, Some(target)) => {
                let pid = self.pid.or_else(|| locate::listener(target));
                Ok(TrialServer { target: target.clone(), pid, started: None })
            }
            (_, None) => {
                let program = std::env::current_exe().map_err(|error| {
                    Failure::Failed(vec![format!("cannot find this program's file: {error}; pass a --server")])
                })?;
                let program = program.display().to_string();
                let mut last = Err(Failure::Failed(Vec::new()));
                for _ in 0..STARTS_MAX {
                    let target = free_address()?;
                    let command = format!("'{program}' serve --memcached {target} --admin none --memory {MEMORY}{pin}");
                    last = started(&command, target);
                    if last.is_ok() {
                        break;
                    }
                }
                last
            }
        }
    }

    /// Finds the rate by a closed loop and trials, if the user gave none.
    pub fn calibrate(&mut self, pin: Option<&str>, run_control: &RunControl) -> Result<(), Failure> {
        if self.rate.is_some() {
            return Ok(());
        }
        let asked = self.start(pin)?;
        self.fill(&asked, run_control)?;
        let mut pace = RateSearch::new(tried(&self.run(&asked, &["--closed", "--duration", TRIAL], run_control)?));
        while let Some(rate) = pace.next().filter(|_| !run_control.is_stopped()) {
            let text = whole(rate);
            let mut flags = vec!["--rate", &text, "--duration", TRIAL];
            flags.extend(self.slo.iter().flat_map(|slo| ["--slo", slo.as_str()]));
            pace.take(rate, &tried(&self.run(&asked, &flags, run_control)?));
        }
        match pace.chosen() {
            Ok(chosen) => (self.rate, self.why) = (Some(whole(chosen.rate_per_s)), chosen.why),
            // If the operator stopped the run, no measurement follows, so a missing rate is no error.
            Err(_) if run_control.is_stopped() => {}
            Err(why) => return Err(failed(vec![why])),
        }
        Ok(())
    }

    /// Takes one measurement. If the measurement does not count, the result contains the reason. An error ends the
    /// whole proof.
    pub fn measure(&mut self, pin: Option<&str>, run_control: &RunControl) -> Result<Measured, Failure> {
        let asked = self.start(pin)?;
        let rate = self.rate.clone().unwrap_or_default();
        self.fill(&asked, run_control)?;
        let host = Host::now("/".into(), asked.pid);
        let begun = Instant::now();
        let before = Counters::read(&host, begun.elapsed());
        let duration = format!("{}s", self.seconds);
        let result = self.run(&asked, &["--rate", &rate, "--duration", &duration], run_control)?;
        let grown = Counters::read(&host, begun.elapsed()).since(&before);
        let mut measured = Measured { figures: counted_figures(&grown), fault: fault(&result) };
        let response = &result.figures.response;
        let times = [("p999_ns", response.p999_ns), ("p99_ns", response.p99_ns), ("p50_ns", response.p50_ns)];
        let times = times.map(|(id, ns)| (id.to_owned(), ns as f64));
        measured.figures.extend(BTreeMap::from(times));
        measured.figures.insert("answers_per_s".to_owned(), result.figures.achieved_per_s);
        if let (Some(slo), None, false) = (self.slo.clone(), &measured.fault, run_control.is_stopped()) {
            let flags = ["--slo", &slo, "--start", &rate, "--trial", &self.trial, "--confirm", "1", "--warm-up", "1s"];
            let searched = self.run(&asked, &flags, run_control)?;
            match searched.search.as_ref().filter(|_| searched.invalid.is_none()).and_then(kept_per_s) {
                Some(rate) => {
                    measured.figures.insert("rate_within_slo_per_s".to_owned(), rate);
                }
                None => measured.fault = Some(format!("the search: {}", searched.verdict.headline)),
            }
        }
        drop(asked.started);
        Ok(measured)
    }

    /// Stores the keys; this is not part of the measurement.
    fn fill(&mut self, asked: &TrialServer, run_control: &RunControl) -> Result<(), Failure> {
        if !self.is_filled && !self.flags.iter().any(|flag| flag == NO_PREFILL) {
            let all = self.all(asked, &["--closed", "--requests", "1", "--warm-up", "0s"]);
            one(&all, run_control)?;
            // A server that the proof does not start continues to run between measurements and retains its keys.
            self.is_filled = asked.started.is_none();
        }
        Ok(())
    }

    fn run(&self, asked: &TrialServer, more: &[&str], run_control: &RunControl) -> Result<RunResult, Failure> {
        let mut all = self.all(asked, more);
        if !all.iter().any(|flag| flag == NO_PREFILL) {
            all.push(NO_PREFILL.to_owned());
        }
        one(&all, run_control)
    }

    fn all(&self, asked: &TrialServer, more: &[&str]) -> Vec<String> {
        let mut all = vec!["--target".to_owned(), asked.target.clone()];
        let mut more = more.iter();
        while let Some(flag) = more.next() {
            // Skips a default of the proof if the user has set the same flag after `--`.
            if YIELDING.contains(flag) && self.flags.iter().any(|own| own == flag) {
                more.next();
                continue;
            }
            all.push((*flag).to_owned());
        }
        all.extend(self.flags.iter().cloned());
        all
    }
}

/// Converts the result of a run to a trial, by which the search for the rate decides whether this rate is too high.
fn tried(result: &RunResult) -> Trial {
    let generator = &result.figures.generator;
    let waited = generator.threads.iter().map(|thread| thread.waiting_share).fold(0.0, f64::max);
    let line = result.timelines.iter().find(|line| line.source == "host" && line.name == "CPU busy/all");
    let mean = |points: &[(f64, f64)]| points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64;
    Trial {
        answered_per_s: result.figures.achieved_per_s,
        late_ns: Used { value: generator.lateness.p99_ns as f64, allowed: Config::default().lateness_ns_max as f64 },
        waited: Used { value: waited, allowed: PREEMPTED_SHARE_MAX },
        busy: line.filter(|line| !line.points.is_empty()).map(|line| mean(&line.points)),
        fault: fault(result),
        is_broken: result.is_broken,
    }
}

fn whole(rate_per_s: f64) -> String {
    format!("{rate_per_s:.0}")
}

/// Returns the highest rate, in requests per second, that met a search's objectives; 0 if no rate met them.
fn kept_per_s(search: &SearchResult) -> Option<f64> {
    match search.end.as_str() {
        "never kept" => Some(0.0),
        // A lower bound is no figure to compare.
        "generator limited" => None,
        _ => search.answer_per_s,
    }
}

/// Returns the reason why a run's figures are invalid; otherwise `None`.
fn fault(result: &RunResult) -> Option<String> {
    result.invalid.clone().or_else(|| result.partial.clone())
}

fn free_address() -> Result<String, Failure> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    free.map(|addr| addr.to_string())
        .map_err(|error| Failure::Failed(vec![format!("no port is free ({error}); pass a --target")]))
}

/// Waits without measuring until the effects of a change are over, or until the operator stops the run.
pub fn settle(time: Duration, run_control: &RunControl) {
    let begun = Instant::now();
    while begun.elapsed() < time && !run_control.is_stopped() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::result::{GeneratorThread, Timeline};

    #[test]
    fn flags_after_the_double_dash_override_only_the_matching_defaults() {
        let flags = ["--warm-up", "0s", "--rate-max", "60"].map(str::to_owned).to_vec();
        let bench = Bench {
            server: None,
            target: None,
            pid: None,
            rate: None,
            why: String::new(),
            seconds: 1,
            slo: None,
            trial: "2s".to_owned(),
            flags,
            is_filled: false,
        };
        let asked = TrialServer { target: "here".to_owned(), pid: None, started: None };
        let all = bench.all(&asked, &["--start", "30", "--warm-up", "1s", "--confirm", "1"]);
        let wanted = "--target here --start 30 --confirm 1 --warm-up 0s --rate-max 60";
        assert_eq!(all.join(" "), wanted);
    }

    #[test]
    fn trial_reports_its_worst_thread_and_the_mean_host_cpu_load() {
        let mut result = RunResult::default();
        let share = |waiting_share| GeneratorThread { waiting_share, ..Default::default() };
        result.figures.generator.threads = vec![share(0.02), share(0.07)];
        result.figures.generator.lateness.p99_ns = 300_000;
        assert_eq!(tried(&result).busy, None);
        let line = |name: &str, points: &[f64]| Timeline {
            source: "host".to_owned(),
            name: name.to_owned(),
            unit: "share".to_owned(),
            points: points.iter().map(|value| (1.0, *value)).collect(),
        };
        result.timelines = vec![line("CPU busy/busiest", &[1.0]), line("CPU busy/all", &[0.5, 1.0])];
        let tried = tried(&result);
        assert_eq!((tried.waited.value, tried.late_ns.value, tried.busy), (0.07, 300_000.0, Some(0.75)));
        assert_eq!((tried.waited.allowed, tried.late_ns.allowed), (0.1, 1e6), "what a measurement is held to");
    }

    #[test]
    fn rate_is_0_if_never_sustained_and_absent_if_the_search_stopped() {
        let search = |end: &str, answer_per_s| SearchResult { end: end.to_owned(), answer_per_s, ..Default::default() };
        assert_eq!(kept_per_s(&search("found", Some(5.0))), Some(5.0));
        assert_eq!(kept_per_s(&search("never kept", None)), Some(0.0));
        assert_eq!(kept_per_s(&search("stopped", None)), None);
        assert_eq!(kept_per_s(&search("generator limited", Some(2e3))), None);
    }
}
