//! One measurement: a server, requests at a rate from the open-loop engine, and what the kernel counts meanwhile.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use doctor::Host;
use doctor::counters::Counters;
use doctor::prove::{Measured, counted_figures};
use load::result::{RunResult, SearchResult};
use load::session::Desk;
use load::timeline::locate;

use crate::Failure;
use crate::load::one;
use crate::load::started::Server;

/// How long the closed loop is of which the rate is taken, where none is asked for.
const CLOSED: &str = "3s";
/// The part of what a closed loop reaches that is asked for then.
const OF_CLOSED: f64 = 0.5;
/// Memory of the server that is started where none is named.
const MEMORY: &str = "256MiB";
/// Servers that are started where none is named may find their port taken by somebody else.
const STARTS_MAX: usize = 3;
const NO_PREFILL: &str = "--no-prefill";
/// Flags with a value that the caller's own take the place of.
const YIELDING: [&str; 2] = ["--warm-up", "--confirm"];

/// What is measured, and how.
pub struct Bench {
    /// A command that starts the server at the target, anew for each measurement.
    pub server: Option<String>,
    /// Where the server listens; `None`: wherever a demonstration server finds a free port.
    pub target: Option<String>,
    /// The server's process, if it is not started here and not found by its port.
    pub pid: Option<u32>,
    /// Requests a second; `None` until it is known.
    pub rate: Option<String>,
    /// How long each measurement is.
    pub seconds: u64,
    /// Objectives, for the rate within them too.
    pub slo: Option<String>,
    /// How long each trial of a search is.
    pub trial: String,
    /// More flags of `gannet load`.
    pub flags: Vec<String>,
    /// The keys are stored already.
    pub is_filled: bool,
}

/// A server that is there for a measurement.
struct Asked {
    target: String,
    pid: Option<u32>,
    started: Option<Server>,
}

impl Bench {
    /// What is asked, in words.
    pub fn server_words(&self) -> String {
        match (&self.server, &self.target) {
            (Some(server), _) => format!("`{server}`, started anew for each measurement"),
            (None, Some(target)) => format!("the server at {target}"),
            (None, None) => "a Gannet of this program, started anew for each measurement".to_owned(),
        }
    }

    /// How it is asked, in words.
    pub fn load_words(&self) -> String {
        let rate = self.rate.as_deref().unwrap_or("?");
        let slo = self.slo.as_ref().map_or(String::new(), |slo| format!(", then the highest rate with {slo}"));
        let flags = if self.flags.is_empty() { String::new() } else { format!(", {}", self.flags.join(" ")) };
        format!("open loop, {rate} requests/s for {} s{slo}{flags}", self.seconds)
    }

    fn start(&self, pin: Option<&str>) -> Result<Asked, Failure> {
        let started = |command: &str, target: String| {
            let server = Server::start(command, &target)?;
            Ok(Asked { target, pid: Some(server.pid()), started: Some(server) })
        };
        let pin = pin.map_or(String::new(), |pin| format!(" --pin {pin}"));
        match (&self.server, &self.target) {
            (Some(command), Some(target)) => started(&format!("{command}{pin}"), target.clone()),
            (None, Some(target)) => {
                let pid = self.pid.or_else(|| locate::listener(target));
                Ok(Asked { target: target.clone(), pid, started: None })
            }
            (_, None) => {
                let program = std::env::current_exe().map_err(|error| {
                    Failure::Failed(vec![format!("this program's file is not told ({error}); name a --server")])
                })?;
                let program = program.display().to_string();
                let mut last = Err(Failure::Failed(Vec::new()));
                for _ in 0..STARTS_MAX {
                    let target = free_address()?;
                    let command = format!("'{program}' serve --memcached {target} --memory {MEMORY}{pin}");
                    last = started(&command, target);
                    if last.is_ok() {
                        break;
                    }
                }
                last
            }
        }
    }

    /// Takes the rate from a closed loop, if none was asked for.
    pub fn calibrate(&mut self, pin: Option<&str>, desk: &Desk) -> Result<(), Failure> {
        if self.rate.is_some() {
            return Ok(());
        }
        let asked = self.start(pin)?;
        self.fill(&asked, desk)?;
        let result = self.run(&asked, &["--closed", "--duration", CLOSED], desk)?;
        let rate = result.figures.achieved_per_s * OF_CLOSED;
        if rate < 10.0 {
            return Err(Failure::Failed(vec![format!(
                "a closed loop of {CLOSED} got {:.0} answers a second; name a --rate",
                result.figures.achieved_per_s
            )]));
        }
        // Two digits: the rate is read and written down by people.
        let unit = 10f64.powf(rate.log10().floor() - 1.0);
        self.rate = Some(format!("{:.0}", (rate / unit).round() * unit));
        Ok(())
    }

    /// Measures once. What makes it not count is in it; an error is what ends all of it.
    pub fn measure(&mut self, pin: Option<&str>, desk: &Desk) -> Result<Measured, Failure> {
        let asked = self.start(pin)?;
        let rate = self.rate.clone().unwrap_or_default();
        self.fill(&asked, desk)?;
        let host = Host::now("/".into(), asked.pid);
        let begun = Instant::now();
        let before = Counters::read(&host, begun.elapsed());
        let duration = format!("{}s", self.seconds);
        let result = self.run(&asked, &["--rate", &rate, "--duration", &duration], desk)?;
        let grown = Counters::read(&host, begun.elapsed()).since(&before);
        let mut measured = Measured { figures: counted_figures(&grown), fault: fault(&result) };
        let response = &result.figures.response;
        let times = [("p999_ns", response.p999_ns), ("p99_ns", response.p99_ns), ("p50_ns", response.p50_ns)];
        let times = times.map(|(id, ns)| (id.to_owned(), ns as f64));
        measured.figures.extend(BTreeMap::from(times));
        measured.figures.insert("answers_per_s".to_owned(), result.figures.achieved_per_s);
        if let (Some(slo), None, false) = (self.slo.clone(), &measured.fault, desk.is_stopped()) {
            let flags = ["--slo", &slo, "--start", &rate, "--trial", &self.trial, "--confirm", "1", "--warm-up", "1s"];
            let searched = self.run(&asked, &flags, desk)?;
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

    /// Stores the keys, which is no part of what is measured.
    fn fill(&mut self, asked: &Asked, desk: &Desk) -> Result<(), Failure> {
        if !self.is_filled && !self.flags.iter().any(|flag| flag == NO_PREFILL) {
            let all = self.all(asked, &["--closed", "--requests", "1", "--warm-up", "0s"]);
            one(&all, desk)?;
            // A server that goes on between measurements keeps its keys.
            self.is_filled = asked.started.is_none();
        }
        Ok(())
    }

    fn run(&self, asked: &Asked, more: &[&str], desk: &Desk) -> Result<RunResult, Failure> {
        let mut all = self.all(asked, more);
        if !all.iter().any(|flag| flag == NO_PREFILL) {
            all.push(NO_PREFILL.to_owned());
        }
        one(&all, desk)
    }

    fn all(&self, asked: &Asked, more: &[&str]) -> Vec<String> {
        let mut all = vec!["--target".to_owned(), asked.target.clone()];
        let mut more = more.iter();
        while let Some(flag) = more.next() {
            // What is only a habit of this program gives way to what was asked for behind `--`.
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

/// The rate that a search found to be kept. Where none is, that is an answer too: 0.
fn kept_per_s(search: &SearchResult) -> Option<f64> {
    search.answer_per_s.or_else(|| (search.end == "never kept").then_some(0.0))
}

/// Why a run's figures say nothing.
fn fault(result: &RunResult) -> Option<String> {
    result.invalid.clone().or_else(|| result.partial.clone())
}

fn free_address() -> Result<String, Failure> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    free.map(|addr| addr.to_string())
        .map_err(|error| Failure::Failed(vec![format!("no port is free ({error}); name a --target")]))
}

/// A time in which nothing is measured, so that what a change set off is over; shorter if somebody ends it.
pub fn settle(time: Duration, desk: &Desk) {
    let begun = Instant::now();
    while begun.elapsed() < time && !desk.is_stopped() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_behind_the_dashes_takes_the_place_of_a_habit_and_of_nothing_else() {
        let flags = ["--warm-up", "0s", "--rate-max", "60"].map(str::to_owned).to_vec();
        let bench = Bench {
            server: None,
            target: None,
            pid: None,
            rate: None,
            seconds: 1,
            slo: None,
            trial: "2s".to_owned(),
            flags,
            is_filled: false,
        };
        let asked = Asked { target: "here".to_owned(), pid: None, started: None };
        let all = bench.all(&asked, &["--start", "30", "--warm-up", "1s", "--confirm", "1"]);
        let wanted = "--target here --start 30 --confirm 1 --warm-up 0s --rate-max 60";
        assert_eq!(all.join(" "), wanted);
    }

    #[test]
    fn a_state_in_which_no_rate_is_kept_has_the_rate_0_and_one_that_was_not_searched_has_none() {
        let search = |end: &str, answer_per_s| SearchResult { end: end.to_owned(), answer_per_s, ..Default::default() };
        assert_eq!(kept_per_s(&search("found", Some(5.0))), Some(5.0));
        assert_eq!(kept_per_s(&search("never kept", None)), Some(0.0));
        assert_eq!(kept_per_s(&search("stopped", None)), None);
    }
}
