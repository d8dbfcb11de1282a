//! One connection, with its requests in flight in the order in which they were sent.
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
    /// Highest number of requests in flight that the server permits.
    pub streams_max: usize,
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
            streams_max: usize::MAX,
            batch: 0,
        }
    }

    /// Returns whether the connection accepts `requests` more requests, or as many as the server permits if that is
    /// less.
    pub fn has_room(&self, requests: usize, depth: usize) -> bool {
        let depth = depth.min(self.streams_max);
        let fits = depth > 0 && self.in_flight.len() + requests.min(depth) <= depth;
        self.state == ConnectionState::Up && !self.blocked && !self.closing && fits
    }

    /// Removes and returns the request of `stream`.
    pub fn take_stream(&mut self, stream: u32) -> Option<InFlight> {
        let at = self.in_flight.binary_search_by_key(&stream, |request| request.pending.stream).ok()?;
        self.stamped -= usize::from(at < self.stamped);
        self.in_flight.remove(at)
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
        self.streams_max = usize::MAX;
    }
}
