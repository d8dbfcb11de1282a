//! The clock and the connections that the core of a thread uses. `sockets` has the real ones, [`crate::fake::SimNet`]
//! simulates both.

use link::{Moved, Secured};

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetEvent {
    /// The connection's number.
    pub connection: usize,
    /// True if there may be bytes to receive, or the end of the stream.
    pub readable: bool,
    /// True if the connection was opened, or accepts bytes again.
    pub writable: bool,
}

/// The state of a connection attempt.
#[derive(Debug)]
pub enum Connecting {
    /// The connection is open.
    Done,
    /// The attempt is in progress; an event will report its end.
    UnderWay,
    /// The attempt failed.
    Failed(std::io::Error),
}

/// Fault name and sentence for a connection attempt that takes too long.
pub const OVERDUE: (&str, &str) = ("connect-timeout", "the server did not accept the connection in time");

/// A clock and numbered connections, for one thread.
///
/// Events are edge-triggered. A connection is reported readable once each time data arrives, so the caller receives
/// until a receive is shorter than its buffer. It is reported writable when it is connected, and after a blocked send.
pub trait Net {
    /// Returns nanoseconds since the run's clock began.
    fn now_ns(&mut self) -> u64;

    /// Begins to connect `connection` to the target with index `target`.
    fn connect(&mut self, connection: usize, target: usize) -> Connecting;

    /// Continues an attempt in progress after an event and returns its state. A TLS handshake is part of the attempt.
    fn finish_connect(&mut self, connection: usize) -> Connecting;

    /// Returns the TLS parameters of an open connection; `None` if it is not encrypted.
    fn secured(&mut self, _connection: usize) -> Option<Secured> {
        None
    }

    /// Returns a fault name and a sentence for an attempt that takes too long.
    fn overdue(&self, _connection: usize) -> (&'static str, &'static str) {
        OVERDUE
    }

    /// Sends from the front of `bytes`, which must not be empty.
    fn send(&mut self, connection: usize, bytes: &[u8]) -> Moved;

    /// Receives into `into`, which must not be empty.
    fn receive(&mut self, connection: usize, into: &mut [u8]) -> Moved;

    /// Closes the connection in any state.
    fn close(&mut self, connection: usize);

    /// Clears `events`, waits until an event occurs or `until_ns` is reached, and fills `events`. With a past instant
    /// it only polls.
    ///
    /// # Errors
    /// If the system cannot wait; the run ends then.
    fn wait(&mut self, until_ns: u64, events: &mut Vec<NetEvent>) -> std::io::Result<()>;
}
