//! One connection: what is in flight on it, and in which order.
//!
//! ```text
//!   Waiting --> Connecting --> Greeting --> Up --> Waiting        any state --> Waiting when it breaks
//!                     \____________________/                      (no greeting to be answered)
//! ```
//! Only a connection that is Up takes requests. There is no edge from Waiting to Up.

use crate::traffic::Pending;
use std::collections::VecDeque;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// It is to be made when its turn comes.
    Waiting,
    /// The other end has not taken it yet.
    Connecting,
    /// Its first request is being answered.
    Greeting,
    /// It takes requests.
    Up,
}

/// A request that was handed to a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub pending: Pending,
    pub intended_ns: u64,
    /// Since when there was room for it.
    pub room_ns: u64,
    pub sent_ns: u64,
    /// Number of times that an answer sent it to another target; its times are those of the first send.
    pub redirects: u8,
}

#[derive(Debug)]
pub(super) struct LoadConnection {
    pub target: usize,
    pub state: ConnectionState,
    /// Bytes to send; those before `out_begin` are sent.
    pub out: Vec<u8>,
    pub out_begin: usize,
    /// Bytes received that are not the whole of an answer.
    pub kept: Vec<u8>,
    /// Requests without an answer, the oldest first; the first `stamped` of them know when they were sent.
    pub in_flight: VecDeque<InFlight>,
    pub stamped: usize,
    /// It stands in its list of connections with room.
    pub queued: bool,
    /// It stands in the list of those with something to send.
    pub dirty: bool,
    /// The socket takes no more bytes now.
    pub blocked: bool,
    /// It is closed on purpose when nothing is in flight.
    pub closing: bool,
    /// Start of the attempt to make it.
    pub since_ns: u64,
    /// The last batch that it was given a request of.
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

    /// Returns whether it takes so many requests more.
    pub fn has_room(&self, requests: usize, depth: usize) -> bool {
        self.state == ConnectionState::Up && !self.blocked && !self.closing && self.in_flight.len() + requests <= depth
    }

    /// Bytes that are not sent.
    pub const fn unsent_bytes(&self) -> usize {
        self.out.len() - self.out_begin
    }

    /// So many bytes were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.out_begin += bytes;
        debug_assert!(self.out_begin <= self.out.len(), "no more than there was");
        if self.out_begin == self.out.len() {
            self.out.clear();
            self.out_begin = 0;
        }
    }

    /// Forgets what it carried; what was in flight has been taken by then.
    pub fn reset(&mut self) {
        debug_assert!(self.in_flight.is_empty(), "requests in flight would be lost uncounted");
        self.state = ConnectionState::Waiting;
        self.out.clear();
        self.out_begin = 0;
        self.kept.clear();
        self.stamped = 0;
        self.blocked = false;
        self.closing = false;
    }
}
