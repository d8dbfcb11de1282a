//! What the core of a thread stands on: a clock and connections. `sockets` is the real one,
//! [`crate::fake::SimNet`] one in simulated time.

use link::{Moved, Secured};

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetEvent {
    /// The connection's number.
    pub connection: usize,
    /// There may be bytes, or the end of the stream.
    pub readable: bool,
    /// It was made, or can take bytes again.
    pub writable: bool,
}

/// The state of a connection attempt.
#[derive(Debug)]
pub enum Connecting {
    /// It is made.
    Done,
    /// An event will tell.
    UnderWay,
    /// It cannot be made.
    Failed(std::io::Error),
}

/// Name and sentence for a connection that is not made in time.
pub const OVERDUE: (&str, &str) = ("connect-timeout", "it did not take the connection in time");

/// A clock and numbered connections, for one thread.
///
/// Events are edges: a connection is reported readable once each time something arrives, so that its bytes are
/// received until a receive is shorter than its buffer. It is reported writable when it is connected, and after a
/// blocked send.
pub trait Net {
    /// Nanoseconds since the run's clock began.
    fn now_ns(&mut self) -> u64;

    /// Begins to connect `connection` to target number `target`.
    fn connect(&mut self, connection: usize, target: usize) -> Connecting;

    /// After an event for an attempt under way: how it stands. A handshake that secures the connection belongs to it.
    fn finish_connect(&mut self, connection: usize) -> Connecting;

    /// Returns what secures a connection that is made; `None`: nothing does.
    fn secured(&mut self, _connection: usize) -> Option<Secured> {
        None
    }

    /// Returns what is said of an attempt under way that takes too long: a name and a sentence.
    fn overdue(&self, _connection: usize) -> (&'static str, &'static str) {
        OVERDUE
    }

    /// Sends from the front of `bytes`, which is not empty.
    fn send(&mut self, connection: usize, bytes: &[u8]) -> Moved;

    /// Receives into `into`, which is not empty.
    fn receive(&mut self, connection: usize, into: &mut [u8]) -> Moved;

    /// Closes, whatever state it is in.
    fn close(&mut self, connection: usize);

    /// Waits until something happens or `until_ns` is reached, and fills `events`, which it clears first. With an
    /// instant that is past it only looks.
    ///
    /// # Errors
    /// When the system cannot wait: the run ends.
    fn wait(&mut self, until_ns: u64, events: &mut Vec<NetEvent>) -> std::io::Result<()>;
}
