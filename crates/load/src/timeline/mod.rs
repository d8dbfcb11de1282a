//! Timelines of host, server and generator during a run, and the figure that rose first.
//!
//! ```text
//!   host     /proc/stat: busy, softirq and steal of all CPUs and of the busiest
//!   server   /proc of its process, if it is local: CPU and waiting by thread, switches, faults, memory
//!            its own statistics: `stats` (memcached), `INFO` (RESP), `/metrics` (an admin port)
//!                     \  |  /
//!                    recorder: a thread that reads each source every half second
//!                        |
//!                    timelines ──> limit: figures above their threshold while objectives were broken, by time
//! ```
//!
//! Invariants: a source that cannot be read leaves a gap and never stops a run; threads, timelines and points are
//! bounded.

pub mod host;
pub mod limit;
pub mod locate;
pub mod process;
pub mod server;

use std::collections::HashMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::result::Timeline;

/// Highest number of timelines of a run.
pub const TIMELINES_MAX: usize = 128;
/// Highest number of points of a timeline. Beyond it, every second point is removed and the period doubles.
pub const POINTS_MAX: usize = 4096;
/// Initial time between two readings.
pub const PERIOD: Duration = Duration::from_millis(500);

/// The unit of a figure, which determines how it is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A share of 1.
    Share,
    /// A plain number.
    Count,
    /// A number of bytes.
    Bytes,
    /// A counter, shown as its increase per second.
    PerSecond,
    /// A counter of seconds, shown as a share of the time.
    SecondsSpent,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Share | Self::SecondsSpent => "share",
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::PerSecond => "per_s",
        }
    }

    fn is_counter(self) -> bool {
        matches!(self, Self::PerSecond | Self::SecondsSpent)
    }
}

/// A figure as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureReading {
    /// Name of the figure; `group/name` if several figures share a chart.
    pub name: String,
    /// Meaning of the value.
    pub unit: Unit,
    /// The value.
    pub value: f64,
}

impl FigureReading {
    /// Creates a figure.
    pub fn new(name: impl Into<String>, unit: Unit, value: f64) -> Self {
        Self { name: name.into(), unit, value }
    }
}

/// A source of figures that can be read repeatedly.
pub trait Source: Send {
    /// Returns the owner of the figures: `host`, `server` or `generator`.
    fn whose(&self) -> &'static str;

    /// Returns the current figures; none if they cannot be read.
    fn read(&mut self) -> Vec<FigureReading>;
}

/// Timelines under construction.
#[derive(Default)]
pub struct GrowingTimelines {
    lines: Vec<Timeline>,
    places: HashMap<(&'static str, String), usize>,
    counters: HashMap<(&'static str, String), (f64, f64)>,
}

impl GrowingTimelines {
    /// Adds the readings taken at `at_s` seconds since the start.
    pub fn add(&mut self, at_s: f64, whose: &'static str, readings: Vec<FigureReading>) {
        for reading in readings {
            let key = (whose, reading.name);
            let value = if reading.unit.is_counter() {
                let Some((before_s, before)) = self.counters.insert(key.clone(), (at_s, reading.value)) else {
                    continue;
                };
                let passed_s = at_s - before_s;
                if passed_s <= 0.0 {
                    continue;
                }
                // A counter that decreased was reset.
                (reading.value - before).max(0.0) / passed_s
            } else {
                reading.value
            };
            if let Some(at) = self.place(key, reading.unit) {
                self.lines[at].points.push((at_s, value));
            }
        }
    }

    fn place(&mut self, key: (&'static str, String), unit: Unit) -> Option<usize> {
        if let Some(at) = self.places.get(&key) {
            return Some(*at);
        }
        if self.lines.len() == TIMELINES_MAX {
            return None;
        }
        let (source, name) = (key.0.to_owned(), key.1.clone());
        self.lines.push(Timeline { source, name, unit: unit.name().to_owned(), points: Vec::new() });
        self.places.insert(key, self.lines.len() - 1);
        Some(self.lines.len() - 1)
    }

    /// Removes every second point if there are too many. Returns whether it did.
    fn thin(&mut self) -> bool {
        let full = self.lines.iter().any(|line| line.points.len() >= POINTS_MAX);
        if full {
            for line in &mut self.lines {
                let mut at = 0;
                line.points.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
            }
        }
        full
    }

    /// Returns the timelines.
    pub fn into_timelines(mut self) -> Vec<Timeline> {
        self.lines.retain(|line| !line.points.is_empty());
        self.lines
    }
}

/// A thread that reads sources until it is stopped.
pub struct Recorder {
    end: Sender<()>,
    thread: JoinHandle<GrowingTimelines>,
}

impl Recorder {
    /// Starts reading `sources`; times are relative to `started`.
    pub fn start(mut sources: Vec<Box<dyn Source>>, started: Instant) -> std::io::Result<Self> {
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().name("timeline".to_owned()).spawn(move || {
            let (mut lines, mut period) = (GrowingTimelines::default(), PERIOD);
            loop {
                for source in &mut sources {
                    let readings = source.read();
                    lines.add(started.elapsed().as_secs_f64(), source.whose(), readings);
                }
                if lines.thin() {
                    period *= 2;
                }
                match ended.recv_timeout(period) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return lines,
                }
            }
        })?;
        Ok(Self { end, thread })
    }

    /// Ends the thread and returns the timelines.
    pub fn finish(self) -> Vec<Timeline> {
        let _ = self.end.send(());
        self.thread.join().map(GrowingTimelines::into_timelines).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_rates_and_a_reset_is_no_negative_rate() {
        let mut lines = GrowingTimelines::default();
        for (at_s, value) in [(0.0, 100.0), (0.5, 150.0), (1.0, 20.0), (2.0, 30.0)] {
            let readings = vec![
                FigureReading::new("ops", Unit::PerSecond, value),
                FigureReading::new("cpu", Unit::SecondsSpent, at_s / 2.0),
                FigureReading::new("memory", Unit::Bytes, 7.0),
            ];
            lines.add(at_s, "server", readings);
        }
        let lines = lines.into_timelines();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines.iter().find(|line| line.name == "ops").unwrap().points,
            [(0.5, 100.0), (1.0, 0.0), (2.0, 10.0)]
        );
        let cpu = lines.iter().find(|line| line.name == "cpu").unwrap();
        assert_eq!((cpu.points[0], cpu.unit.as_str()), ((0.5, 0.5), "share"));
    }

    #[test]
    fn lines_and_points_are_bounded() {
        let mut lines = GrowingTimelines::default();
        for n in 0..2 * TIMELINES_MAX {
            lines.add(0.0, "host", vec![FigureReading::new(format!("{n}"), Unit::Count, 1.0)]);
        }
        for n in 0..3 * POINTS_MAX {
            lines.add(n as f64, "host", vec![FigureReading::new("0", Unit::Count, 1.0)]);
            lines.thin();
        }
        let lines = lines.into_timelines();
        assert_eq!(lines.len(), TIMELINES_MAX);
        let points = &lines[0].points;
        assert!(points.len() <= POINTS_MAX && points.windows(2).all(|pair| pair[0].0 < pair[1].0 || pair[0].0 == 0.0));
    }

    #[test]
    fn a_recorder_reads_until_it_is_ended() {
        struct Ticks(f64, Sender<()>);
        impl Source for Ticks {
            fn whose(&self) -> &'static str {
                "server"
            }
            fn read(&mut self) -> Vec<FigureReading> {
                self.0 += 1.0;
                let _ = self.1.send(());
                vec![FigureReading::new("ticks", Unit::Count, self.0)]
            }
        }
        let (tick, ticked) = channel();
        let recorder = Recorder::start(vec![Box::new(Ticks(0.0, tick))], Instant::now()).unwrap();
        for _ in 0..2 {
            ticked.recv_timeout(Duration::from_secs(20)).unwrap();
        }
        let lines = recorder.finish();
        assert!(lines[0].points.len() >= 2 && lines[0].points[1].1 == 2.0, "{lines:?}");
    }
}
