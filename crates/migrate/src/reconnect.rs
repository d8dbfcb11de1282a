//! Maintains the connection to a server: a request is repeated over a new connection after a connection is lost.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use link::Link;
use link::tls::{Failure, TlsClient};

use super::MigrateError;
use super::place::ServerAddress;

/// Connection settings for servers.
#[derive(Clone, Debug)]
pub struct ConnectSettings {
    /// TLS settings for connections that must be encrypted.
    pub tls: Option<TlsClient>,
    /// Time limit for a reply.
    pub timeout: Duration,
}

impl ConnectSettings {
    /// Prepares a connection to `server`, not yet connected.
    pub(super) fn link(&self, server: &ServerAddress) -> Link {
        Link::new(server.target.clone(), self.tls.as_ref().filter(|_| server.is_secured), self.timeout)
    }
}

/// The context of an exchange with a server.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// Rules for reconnecting to a lost server.
    pub retries: RetryPolicy,
    /// Returns whether the user has stopped the copy.
    pub is_stopped: &'a dyn Fn() -> bool,
    /// Called with notes for the user.
    pub tell: &'a dyn Fn(&str),
}

/// A peer at the other end of a [`Link`].
pub(super) trait Reconnecting {
    /// The connection.
    fn link(&mut self) -> &mut Link;
    /// Sends the greeting of a new connection.
    fn greet(&mut self) -> Result<(), RequestError>;
    /// Returns the peer's name, for messages.
    fn name(&self) -> &str;
}

/// The run of a server. It ends when the server is restarted, and with it all that the server had in memory only.
#[derive(Debug, Default)]
pub(super) struct ServerRun {
    /// Identifier of the present run; empty if the server does not report it, or is not connected yet.
    id: String,
    /// True if there was a connection to the server, or if an earlier process had one.
    is_known: bool,
    /// True if a later connection is to another run, or may be to another one.
    has_ended: bool,
}

impl ServerRun {
    /// Sets the run to which an earlier process was connected.
    pub fn expect(&mut self, id: &str) {
        (self.id, self.is_known) = (id.to_owned(), true);
    }

    /// Sets the run of a new connection. The run of a server that does not report it may have ended each time.
    pub fn greet(&mut self, id: String) {
        self.has_ended |= self.is_known && (id.is_empty() || id != self.id);
        (self.id, self.is_known) = (id, true);
    }

    /// Returns the identifier of the present run.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns whether an earlier run has ended, or may have ended, since the last call of [`Self::take_end`].
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns a sentence about the end of an earlier run of the server `name`, once.
    pub fn take_end(&mut self, name: &str) -> Option<String> {
        let verb = if self.id.is_empty() { "may have been" } else { "was" };
        std::mem::take(&mut self.has_ended).then(|| format!("{name} {verb} restarted"))
    }
}

/// Runs `work`, with as many reconnects as `context` allows. Repeated work starts from its beginning, so it must keep
/// the results of earlier replies outside itself.
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
            return Err(MigrateError::Lost(format!("{}: {lost}; check that the server is running", side.name())));
        }
        if attempt == context.retries.attempts {
            return Err(MigrateError::Lost(format!(
                "{}: {lost}; {} attempts to reconnect failed",
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

/// The number of attempts to reconnect after a loss, and the pauses between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Number of attempts after a connection was lost; 0 for none.
    pub attempts: u32,
    /// Pause before the first attempt; it doubles before each further one.
    pub pause_min: Duration,
    /// Longest pause.
    pub pause_max: Duration,
}

impl Default for RetryPolicy {
    /// Returns ten attempts within about half a minute.
    fn default() -> Self {
        Self { attempts: 10, pause_min: Duration::from_millis(100), pause_max: Duration::from_secs(5) }
    }
}

impl RetryPolicy {
    /// Returns the pause before attempt `number`, counted from 0.
    pub fn pause(&self, number: u32) -> Duration {
        self.pause_min.saturating_mul(1 << number.min(20)).min(self.pause_max)
    }
}

/// The reason why a request got no reply.
#[derive(Debug)]
pub(super) enum RequestError {
    /// The connection was lost, or the server is not ready yet. Another attempt may succeed.
    Lost(String),
    /// The server refused the request, or sent an invalid reply. Another attempt would not help.
    Refused(String),
    /// The user stopped the copy.
    Stopped,
}

impl From<io::Error> for RequestError {
    fn from(error: io::Error) -> Self {
        // A closed connection may succeed at the next attempt; a certificate does not change.
        if let Some(failure) = Failure::in_error(&error).filter(|failure| !failure.may_pass()) {
            return Self::Refused(failure.to_string());
        }
        Self::Lost(match error.kind() {
            ErrorKind::TimedOut => "the server does not reply".to_owned(),
            _ => error.to_string(),
        })
    }
}

/// Sleeps in short steps until `span` is over or `is_stopped` returns true. Returns whether it slept for the whole
/// span.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ends_when_another_one_replies_and_may_end_if_none_is_reported() {
        let mut run = ServerRun::default();
        run.greet("a".to_owned());
        run.greet("a".to_owned());
        assert_eq!((run.has_ended(), run.take_end("s")), (false, None));
        run.greet("b".to_owned());
        // A second loss before the end is taken does not hide it.
        run.greet("b".to_owned());
        assert_eq!(run.take_end("s").as_deref(), Some("s was restarted"));
        assert_eq!(run.take_end("s"), None);
        let mut run = ServerRun::default();
        run.greet(String::new());
        assert!(!run.has_ended());
        run.greet(String::new());
        assert_eq!(run.take_end("s").as_deref(), Some("s may have been restarted"));
        let mut run = ServerRun::default();
        run.expect("of an earlier process");
        run.greet("a".to_owned());
        assert!(run.has_ended());
    }
}
