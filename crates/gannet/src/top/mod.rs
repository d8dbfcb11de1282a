//! `gannet top`: shows the activity of a server live in a terminal, from its admin port.
//!
//! ```text
//!   admin port ──/stats.json, /hotkeys.json──> Reading ──two readings──> lines ──> the terminal, or standard output
//! ```

mod arrange;
mod graphs;
mod reading;
mod view;

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::Duration;

use base::units::TimeSpan;
use clap::{Arg, ArgMatches, Command};
use link::tls::Maker;

use crate::load::{args, ask, stop};
use crate::screen::{LiveView, Size, ViewLine};
use crate::{Failure, print, screen};
pub use reading::page;
use reading::{ADMIN, PATIENCE, ServerFigures};
use view::{Layout, RowOrder};

/// The size of the output if it is not a terminal.
pub const PLAIN: Size = Size { columns: 120, rows: usize::MAX };
/// The shortest time that the live view waits for a reply.
const PATIENCE_MIN: Duration = Duration::from_secs(1);
/// Number of request rates that are retained for the history.
const HISTORY: usize = 512;

/// The subcommand's arguments.
pub fn command() -> Command {
    let top = Command::new("top")
        .about("Watch a server live: rates, percentiles, hot keys, workers, memory, evictions")
        .after_help(
            "Keys: q or Esc quits, space pauses and resumes, s changes the order, g shows graphs, ? lists the keys.",
        )
        .arg(Arg::new("ADMIN-ADDR").help("The server's admin port (listen.admin)").default_value(ADMIN))
        .args(screen::readings());
    args::tls(top)
}

/// Runs the subcommand.
///
/// # Errors
/// A usage error for invalid arguments; a failure if the server cannot be read.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let addr: SocketAddr = text("ADMIN-ADDR").parse().map_err(|_| {
        let line = format!("'{}' is not an address with a port; write it as {ADMIN}", text("ADMIN-ADDR"));
        Failure::Usage(vec![line])
    })?;
    let interval = interval(text("interval"))?;
    let tls = ask::tls_maker(matches, &addr.to_string())?;
    let (order, history) = (RowOrder::Rate, VecDeque::new());
    let mut top = Top { addr, tls, patience: PATIENCE, order, history, shows_graphs: false };
    if matches.get_flag("once") || !std::io::stdout().is_terminal() {
        let failed = |why: String| Failure::Failed(vec![why]);
        let first = top.take().map_err(failed)?;
        std::thread::sleep(interval);
        let now = top.take().map_err(failed)?;
        let mut lines = top.show(&now, Some(&first), PLAIN);
        if graphs::has_graphs(&now) {
            top.shows_graphs = true;
            lines.extend(top.show(&now, Some(&first), PLAIN));
        }
        return print(&screen::plain(&lines));
    }
    // The figures of a server that stopped must not stay without a mark.
    top.patience = interval.clamp(PATIENCE_MIN, PATIENCE);
    let ends = stop::switch()?;
    screen::run(interval, &mut top, &ends).map_err(no_terminal)
}

/// The live view of a server.
struct Top {
    addr: SocketAddr,
    tls: Option<Maker>,
    /// The time within which the server must reply.
    patience: Duration,
    order: RowOrder,
    /// Requests per second of the last readings, the oldest first.
    history: VecDeque<f64>,
    /// True while the page of graphs is shown.
    shows_graphs: bool,
}

impl LiveView for Top {
    type Reading = ServerFigures;

    fn take(&mut self) -> Result<ServerFigures, String> {
        ServerFigures::take(self.addr, self.tls.as_ref(), self.patience)
    }

    fn taken(&mut self, now: &ServerFigures, before: Option<&ServerFigures>) {
        if before.is_none() {
            return;
        }
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(view::requests_per_s(now, before));
    }

    fn show(&self, now: &ServerFigures, before: Option<&ServerFigures>, size: Size) -> Vec<ViewLine> {
        let history: Vec<f64> = self.history.iter().copied().collect();
        let layout = Layout { size, order: self.order, history: &history };
        let lines = if self.shows_graphs { graphs::lines } else { view::lines };
        lines(now, before, &self.addr.to_string(), &layout)
    }

    fn keys(&self) -> &'static [(&'static str, &'static str)] {
        &[("s", "order by requests/s, by execute p999, or by name"), ("g", "show graphs, or the whole server")]
    }

    fn press(&mut self, key: char) {
        match key {
            's' => self.order = self.order.next(),
            'g' => self.shows_graphs = !self.shows_graphs,
            _ => {}
        }
    }
}

/// Converts a terminal error to a failure of the subcommand.
pub fn no_terminal(error: std::io::Error) -> Failure {
    Failure::Failed(vec![format!("cannot use the terminal: {error}")])
}

pub fn interval(text: &str) -> Result<Duration, Failure> {
    let wrong = || {
        let line = format!("--interval: '{text}' is not a time from 100ms to 1h; write it as 1s or 500ms");
        Failure::Usage(vec![line])
    };
    let span: TimeSpan = text.parse().map_err(|_| wrong())?;
    let interval = Duration::from_nanos(span.0);
    let allowed = Duration::from_millis(100)..=Duration::from_secs(3600);
    if allowed.contains(&interval) { Ok(interval) } else { Err(wrong()) }
}
