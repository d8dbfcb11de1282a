//! One server, kept in reach: what is asked of it is asked again over a new connection when one is lost.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use link::Link;
use link::tls::{Failure, TlsClient};

use super::MigrateError;
use super::place::ServerAddress;

/// Connection settings for servers.
#[derive(Clone, Debug)]
pub struct ConnectSettings {
    /// Material for the connections to servers that are to be secured.
    pub tls: Option<TlsClient>,
    /// Time limit for an answer.
    pub timeout: Duration,
}

impl ConnectSettings {
    /// Prepares a connection to `server`, not yet connected.
    pub(super) fn link(&self, server: &ServerAddress) -> Link {
        Link::new(server.target.clone(), self.tls.as_ref().filter(|_| server.is_secured), self.timeout)
    }
}

/// Circumstances of a conversation with a server.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// Rules for reconnecting to a lost server.
    pub retries: RetryPolicy,
    /// The user has ended it.
    pub is_stopped: &'a dyn Fn() -> bool,
    /// Called with notes for the user.
    pub tell: &'a dyn Fn(&str),
}

/// A peer at the other end of a [`Link`].
pub(super) trait Reconnecting {
    /// The connection.
    fn link(&mut self) -> &mut Link;
    /// Sends the first requests of a new connection.
    fn greet(&mut self) -> Result<(), RequestError>;
    /// Returns the peer's name, for messages.
    fn name(&self) -> &str;
}

/// Does `work`, over as many connections as it takes and `context` allows. Work that is repeated starts from its
/// beginning, so it keeps outside itself what was answered.
pub(super) fn persist<S: Reconnecting, T>(
    side: &mut S,
    context: &Context<'_>,
    mut work: impl FnMut(&mut S) -> Result<T, RequestError>,
) -> Result<T, MigrateError> {
    let mut attempt = 0;
    loop {
        if (context.is_stopped)() {
            return Err(MigrateError::Stopped);
        }
        let result = if side.link().is_up() { Ok(()) } else { connect(side) };
        let lost = match result.and_then(|()| work(side)) {
            Ok(value) => return Ok(value),
            Err(RequestError::Refused(what)) => {
                side.link().close();
                return Err(MigrateError::Refused(format!("{}: {what}", side.name())));
            }
            Err(RequestError::Stopped) => return Err(MigrateError::Stopped),
            Err(RequestError::Lost(what)) => what,
        };
        side.link().close();
        if context.retries.attempts == 0 {
            return Err(MigrateError::Lost(format!("{}: {lost}; is it running there?", side.name())));
        }
        if attempt == context.retries.attempts {
            return Err(MigrateError::Lost(format!(
                "{}: {lost}; {} further attempts did not help",
                side.name(),
                attempt
            )));
        }
        let pause = context.retries.pause(attempt);
        attempt += 1;
        let of = context.retries.attempts;
        (context.tell)(&format!("{}: {lost}; attempt {attempt} of {of} in {} ms", side.name(), pause.as_millis()));
        if !sleep(pause, context.is_stopped) {
            return Err(MigrateError::Stopped);
        }
    }
}

fn connect<S: Reconnecting>(side: &mut S) -> Result<(), RequestError> {
    side.link().connect()?;
    side.greet()
}

/// Number of attempts to reconnect after a loss, and the time between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts after a connection was lost; 0: none.
    pub attempts: u32,
    /// Before the first attempt; twice as long before each further one.
    pub pause_min: Duration,
    /// Never longer than this.
    pub pause_max: Duration,
}

impl Default for RetryPolicy {
    /// Ten attempts within about half a minute.
    fn default() -> Self {
        Self { attempts: 10, pause_min: Duration::from_millis(100), pause_max: Duration::from_secs(5) }
    }
}

impl RetryPolicy {
    /// The pause before attempt `number`, counted from 0.
    pub fn pause(&self, number: u32) -> Duration {
        self.pause_min.saturating_mul(1 << number.min(20)).min(self.pause_max)
    }
}

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum RequestError {
    /// The connection is gone, or the server cannot serve yet: worth another attempt.
    Lost(String),
    /// The server refuses, or answers what is no answer: another attempt would not help.
    Refused(String),
    /// The user ended it.
    Stopped,
}

impl From<io::Error> for RequestError {
    fn from(error: io::Error) -> Self {
        // What was closed or cut off may go better the next time; a certificate does not change.
        if let Some(failure) = Failure::in_error(&error).filter(|failure| !failure.may_pass()) {
            return Self::Refused(failure.to_string());
        }
        Self::Lost(match error.kind() {
            ErrorKind::TimedOut => "it does not answer".to_owned(),
            _ => error.to_string(),
        })
    }
}

/// Sleeps, a little at a time, so that an end is noticed; whether it slept to the end.
pub(super) fn sleep(span: Duration, is_stopped: &dyn Fn() -> bool) -> bool {
    const STEP: Duration = Duration::from_millis(50);
    let end = Instant::now() + span;
    loop {
        if is_stopped() {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(STEP));
    }
}
