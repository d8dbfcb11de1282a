//! One server, kept in reach: what is asked of it is asked again over a new connection when one is lost.

use super::Fault;
use super::link::{Link, Patience, Trouble, sleep};

/// Circumstances of a conversation with a server.
#[derive(Clone, Copy)]
pub(super) struct Care<'a> {
    /// Rules for reconnecting to a lost server.
    pub patience: Patience,
    /// The user has ended it.
    pub is_stopped: &'a dyn Fn() -> bool,
    /// Called with notes for the user.
    pub tell: &'a dyn Fn(&str),
}

/// A peer at the other end of a [`Link`].
pub(super) trait Side {
    /// The connection.
    fn link(&mut self) -> &mut Link;
    /// Sends the first requests of a new connection.
    fn greet(&mut self) -> Result<(), Trouble>;
    /// Returns the peer's name, for messages.
    fn name(&self) -> &str;
}

/// Does `work`, over as many connections as it takes and `care` allows. Work that is repeated starts from its
/// beginning, so it keeps outside itself what was answered.
pub(super) fn persist<S: Side, T>(
    side: &mut S,
    care: &Care<'_>,
    mut work: impl FnMut(&mut S) -> Result<T, Trouble>,
) -> Result<T, Fault> {
    let mut attempt = 0;
    loop {
        if (care.is_stopped)() {
            return Err(Fault::Stopped);
        }
        let result = if side.link().is_up() { Ok(()) } else { connect(side) };
        let lost = match result.and_then(|()| work(side)) {
            Ok(value) => return Ok(value),
            Err(Trouble::Refused(what)) => {
                side.link().close();
                return Err(Fault::Refused(format!("{}: {what}", side.name())));
            }
            Err(Trouble::Stopped) => return Err(Fault::Stopped),
            Err(Trouble::Lost(what)) => what,
        };
        side.link().close();
        if care.patience.attempts == 0 {
            return Err(Fault::Lost(format!("{}: {lost}; is it running there?", side.name())));
        }
        if attempt == care.patience.attempts {
            return Err(Fault::Lost(format!("{}: {lost}; {} further attempts did not help", side.name(), attempt)));
        }
        let pause = care.patience.pause(attempt);
        attempt += 1;
        let of = care.patience.attempts;
        (care.tell)(&format!("{}: {lost}; attempt {attempt} of {of} in {} ms", side.name(), pause.as_millis()));
        if !sleep(pause, care.is_stopped) {
            return Err(Fault::Stopped);
        }
    }
}

fn connect<S: Side>(side: &mut S) -> Result<(), Trouble> {
    side.link().connect()?;
    side.greet()
}
