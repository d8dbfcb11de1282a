//! `gannet top`: shows the activity of a server live in a terminal, from its admin port.
//!
//! ```text
//!   admin port ──/stats.json, /hotkeys.json──> Reading ──two readings──> lines ──> the terminal, or standard output
//! ```

mod reading;
mod view;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::Duration;

use base::units::TimeSpan;
use clap::{Arg, ArgMatches, Command};

use crate::{Failure, print, screen};
use reading::ServerFigures;
pub use reading::page;

/// The default admin port of a server.
const ADMIN: &str = "127.0.0.1:9555";
/// Number of columns if standard output is not a terminal.
pub const PLAIN_COLUMNS: usize = 120;

/// The subcommand's arguments.
pub fn command() -> Command {
    Command::new("top")
        .about("Watch a server live: rates, percentiles, hot keys, workers, memory, evictions")
        .after_help("Keys: q or Esc quits, space pauses and resumes.")
        .arg(Arg::new("ADMIN-ADDR").help("The server's admin port (listen.admin)").default_value(ADMIN))
        .args(screen::readings())
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
    if matches.get_flag("once") || !std::io::stdout().is_terminal() {
        let first = reading(addr)?;
        std::thread::sleep(interval);
        let lines = view::lines(&reading(addr)?, Some(&first), &addr.to_string(), PLAIN_COLUMNS);
        return print(&screen::plain(&lines));
    }
    let show = |now: &ServerFigures, before: Option<&ServerFigures>, columns| {
        view::lines(now, before, &addr.to_string(), columns)
    };
    screen::run(interval, || ServerFigures::take(addr), show).map_err(no_terminal)
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

fn reading(addr: SocketAddr) -> Result<ServerFigures, Failure> {
    ServerFigures::take(addr).map_err(|fault| Failure::Failed(vec![fault]))
}
