//! The runs of a study, and their results.

use super::bench::{self, BenchFigures, BenchOptions, BenchProgram};
use super::delay_proxy::{CONNECTIONS_MAX, DelayProxy};
use crate::result::Machine;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// The requests in flight of a library without a cap of its own.
pub const UNCAPPED: u32 = 5_000;
/// The maximum number of runs of a study.
pub const RUNS_MAX: usize = 100_000;

/// How the library is configured in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSetting {
    /// The name of the preset.
    pub preset: String,
    /// True if the library's cap of requests in flight is lifted.
    pub is_uncapped: bool,
}

impl ClientSetting {
    /// Returns the name of the setting in tables and charts.
    pub fn name(&self) -> String {
        if self.is_uncapped { format!("{} without its cap", self.preset) } else { self.preset.clone() }
    }
}

/// The grid of a study.
#[derive(Clone, Debug)]
pub struct StudyPlan {
    /// The server.
    pub target: SocketAddr,
    /// The libraries.
    pub programs: Vec<BenchProgram>,
    /// The configurations.
    pub settings: Vec<ClientSetting>,
    /// The numbers of requests that are offered at once.
    pub concurrencies: Vec<u32>,
    /// The round trips that are added.
    pub round_trips: Vec<Duration>,
    /// The number of runs of each combination.
    pub repeats: u32,
    /// The measured time of a run, in seconds.
    pub seconds: f64,
}

/// One combination of a study, with its runs.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct StudyCell {
    /// The name of the library.
    pub client: String,
    /// The name of the setting.
    pub setting: String,
    /// The number of requests that are offered at once.
    pub concurrency: u32,
    /// The added round trip, in us.
    pub round_trip_us: u64,
    /// The runs in which requests succeeded.
    pub runs: Vec<StudyRun>,
    /// The causes for which other runs do not count, each once.
    pub failures: Vec<String>,
}

/// A run in which requests succeeded.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct StudyRun {
    /// The figures that the program printed.
    #[serde(flatten)]
    pub figures: BenchFigures,
    /// The most connections that were open at once, as the proxy counts them.
    pub connections_seen: u64,
}

/// The result of a study.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct StudyResult {
    /// The machine.
    pub machine: Machine,
    /// The number of runs of each combination, and the measured time of each in seconds.
    pub repeats: u32,
    /// The measured time of a run, in seconds.
    pub seconds: f64,
    /// All combinations, in the order of the grid.
    pub cells: Vec<StudyCell>,
}

impl StudyPlan {
    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        let cells = self.programs.len() * self.settings.len() * self.concurrencies.len() * self.round_trips.len();
        cells * self.repeats as usize
    }

    /// Returns the grid without runs.
    fn cells(&self) -> Vec<StudyCell> {
        let mut cells = Vec::new();
        for round_trip in &self.round_trips {
            for setting in &self.settings {
                for concurrency in &self.concurrencies {
                    cells.extend(self.programs.iter().map(|program| StudyCell {
                        client: program.name.clone(),
                        setting: setting.name(),
                        concurrency: *concurrency,
                        round_trip_us: round_trip.as_micros() as u64,
                        runs: Vec::new(),
                        failures: Vec::new(),
                    }));
                }
            }
        }
        cells
    }

    /// Executes all runs. Calls `report` after each one with its number and its cell. Ends early if `is_stopped`.
    ///
    /// # Errors
    /// If a proxy cannot be started.
    pub fn run(
        &self,
        is_stopped: impl Fn() -> bool,
        mut report: impl FnMut(usize, &StudyCell),
    ) -> Result<StudyResult, String> {
        let start = |round_trip: &Duration| DelayProxy::start(self.target, *round_trip);
        let proxies: Result<Vec<DelayProxy>, _> = self.round_trips.iter().map(start).collect();
        let proxies = proxies.map_err(|error| format!("cannot start a proxy: {error}"))?;
        let (mut cells, per_setting) = (self.cells(), self.concurrencies.len() * self.programs.len());
        let mut number = 0;
        for repeat in 0..self.repeats as usize {
            for place in 0..cells.len() {
                if is_stopped() {
                    break;
                }
                // The libraries of one combination take turns in being the first.
                let first = place - place % self.programs.len();
                let place = first + (place + repeat) % self.programs.len();
                let setting = &self.settings[place / per_setting % self.settings.len()];
                let proxy = &proxies[place / per_setting / self.settings.len()];
                let cell = &mut cells[place];
                let options = BenchOptions {
                    address: proxy.address().to_string(),
                    preset: setting.preset.clone(),
                    in_flight_max: setting.is_uncapped.then_some(UNCAPPED),
                    concurrency: cell.concurrency,
                    seconds: self.seconds,
                };
                proxy.take_most();
                let ran = bench::run(&self.programs[place % self.programs.len()], &options, &is_stopped);
                cell.add(ran, proxy.take_most());
                number += 1;
                report(number, cell);
            }
        }
        Ok(StudyResult { machine: Machine::here(), repeats: self.repeats, seconds: self.seconds, cells })
    }
}

impl StudyCell {
    /// Adds a run, or the cause for which it does not count.
    fn add(&mut self, ran: Result<BenchFigures, String>, connections: usize) {
        let cause = match ran {
            Err(cause) => cause,
            Ok(_) if connections >= CONNECTIONS_MAX => {
                format!("the library opened {CONNECTIONS_MAX} connections or more; the proxy accepts no more")
            }
            Ok(figures) if figures.requests_per_s <= 0.0 => format!("no request succeeded: {}", figures.errors),
            Ok(figures) => return self.runs.push(StudyRun { figures, connections_seen: connections as u64 }),
        };
        if !self.failures.contains(&cause) {
            self.failures.push(cause);
        }
    }

    /// Returns the median of a figure over the runs; `None` if no run counts.
    pub fn median(&self, figure: impl Fn(&StudyRun) -> f64) -> Option<f64> {
        let mut values: Vec<f64> = self.runs.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }
}
