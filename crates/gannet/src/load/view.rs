//! Prints progress during a run: a line that is overwritten in a terminal, or separate lines in a log.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use base::clock::UnixMillis;
use load::dialect::aerospike::Intervals;
use load::report::terminal::{self, RunProgress};
use load::result::StepResult;
use load::session::View;

use crate::print;

/// Default time between two plain lines of progress.
const PLAIN_PERIOD: Duration = Duration::from_secs(2);
/// Time between two updates of the line in a terminal.
const LINE_PERIOD: Duration = Duration::from_millis(200);

/// The progress display on standard error.
pub struct Screen {
    quiet: bool,
    terminal: bool,
    /// Length of the progress line that the terminal shows at present, in characters.
    width: usize,
    shown: Option<Instant>,
    /// Time between two plain lines of progress.
    period: Duration,
}

impl Screen {
    /// Creates a display. If `quiet` is true, it prints nothing.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, terminal: std::io::stderr().is_terminal(), width: 0, shown: None, period: PLAIN_PERIOD }
    }

    /// Returns the display with a plain line of progress every `period`.
    pub fn every(self, period: Duration) -> Self {
        Self { period, ..self }
    }

    /// Prints a line that is not overwritten.
    pub fn line(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        self.wipe();
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// Erases the line that will be overwritten.
    pub fn wipe(&mut self) {
        if self.width > 0 {
            let _ = write!(std::io::stderr(), "\r{:width$}\r", "", width = self.width);
            self.width = 0;
        }
    }

    /// Shows a progress line: overwritten in a terminal, printed at intervals elsewhere.
    pub fn now(&mut self, line: impl FnOnce() -> String) {
        let period = if self.terminal { LINE_PERIOD } else { self.period };
        if self.quiet || self.shown.is_some_and(|shown| shown.elapsed() < period) {
            return;
        }
        self.shown = Some(Instant::now());
        let line = line();
        if !self.terminal {
            let _ = writeln!(std::io::stderr(), "{line}");
            return;
        }
        self.wipe();
        self.width = line.chars().count();
        let _ = write!(std::io::stderr(), "{line}");
        let _ = std::io::stderr().flush();
    }
}

impl View for Screen {
    fn progress(&mut self, progress: &RunProgress) {
        self.now(|| terminal::progress(progress));
    }

    fn step(&mut self, step: &StepResult) {
        self.line(&terminal::step(step));
    }
}

/// A view that prints a line for each interval on standard output, in the format of the tool whose command line is run.
pub struct Spoken<'a> {
    /// The formatter of the intervals, which records those that have been printed.
    pub intervals: Intervals,
    /// Progress display on standard error.
    pub screen: &'a mut Screen,
}

impl View for Spoken<'_> {
    fn progress(&mut self, progress: &RunProgress) {
        let now_ms = UnixMillis::now().0;
        let lines = self.intervals.lines(&progress.verbs, progress.covered_ns, now_ms, progress.is_last);
        if let Some(lines) = lines {
            self.screen.wipe();
            // If the reader of standard output has closed it, the program ends when it prints the summary.
            let _ = print(&lines);
        }
    }

    fn step(&mut self, step: &StepResult) {
        self.screen.step(step);
    }
}
