//! One connection, with its requests in flight in their order.
//!
//! ```text
//!   Waiting --> Connecting --> Greeting --> Up --> Waiting        any state --> Waiting when the connection fails
//!                     \____________________/                      (no greeting is needed)
//! ```
//! Only a connection in the state Up accepts requests. There is no edge from Waiting to Up.

use crate::traffic::Pending;
use std::collections::VecDeque;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// The connection is closed and waits for its next attempt.
    Waiting,
    /// The other end has not accepted the connection yet.
    Connecting,
    /// The connection's greeting has no reply yet.
    Greeting,
    /// The connection accepts requests.
    Up,
}

/// A request that was given to a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub pending: Pending,
    pub intended_ns: u64,
    /// Instant from which a connection had room for the request.
    pub room_ns: u64,
    pub sent_ns: u64,
    /// Number of redirects of the request. Its times are those of the first send.
    pub redirects: u8,
}

#[derive(Debug)]
pub(super) struct LoadConnection {
    pub target: usize,
    pub state: ConnectionState,
    /// Bytes to send; those before `out_begin` have been sent.
    pub out: Vec<u8>,
    pub out_begin: usize,
    /// Received bytes of an incomplete reply.
    pub kept: Vec<u8>,
    /// Requests without a reply, oldest first. The first `stamped` of them have their send time.
    pub in_flight: VecDeque<InFlight>,
    pub stamped: usize,
    /// True if the connection is in the list of connections with room.
    pub queued: bool,
    /// True if the connection is in the list of connections with bytes to send.
    pub dirty: bool,
    /// True if the socket accepts no more bytes now.
    pub blocked: bool,
    /// True if the connection closes as soon as it has no requests in flight.
    pub closing: bool,
    /// Start of the connection attempt, in nanoseconds.
    pub since_ns: u64,
    /// The last batch that gave a request to the connection.
    pub batch: u64,
}

impl LoadConnection {
    pub const fn new(target: usize) -> Self {
        Self {
            target,
            state: ConnectionState::Waiting,
            out: Vec::new(),
            out_begin: 0,
            kept: Vec::new(),
            in_flight: VecDeque::new(),
            stamped: 0,
            queued: false,
            dirty: false,
            blocked: false,
            closing: false,
            since_ns: 0,
            batch: 0,
        }
    }

    /// Returns whether the connection accepts `requests` more requests.
    pub fn has_room(&self, requests: usize, depth: usize) -> bool {
        self.state == ConnectionState::Up && !self.blocked && !self.closing && self.in_flight.len() + requests <= depth
    }

    /// Returns the number of unsent bytes.
    pub const fn unsent_bytes(&self) -> usize {
        self.out.len() - self.out_begin
    }

    /// Marks `bytes` bytes as sent.
    pub fn sent(&mut self, bytes: usize) {
        self.out_begin += bytes;
        debug_assert!(self.out_begin <= self.out.len(), "no more bytes than were queued");
        if self.out_begin == self.out.len() {
            self.out.clear();
            self.out_begin = 0;
        }
    }

    /// Clears the connection's buffers; the caller has already taken the requests in flight.
    pub fn reset(&mut self) {
        debug_assert!(self.in_flight.is_empty(), "requests in flight would be lost without being counted");
        self.state = ConnectionState::Waiting;
        self.out.clear();
        self.out_begin = 0;
        self.kept.clear();
        self.stamped = 0;
        self.blocked = false;
        self.closing = false;
    }
}
