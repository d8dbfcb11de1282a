//! What requests do to the store: one module for each protocol.
//!
//! ```text
//!   worker ── bytes ──┬─> memcache::serve ── protocol::memcache::parse ──┬─> segment::Turn ──> replies into OutBuffer
//!                     └─> resp::serve ────── protocol::resp::Parser ─────┘
//! ```
//!
//! A listener has one protocol, and each of its connections that protocol's state. A protocol's `serve` never waits:
//! what it cannot do now it says by its [`crate::context::State`], and is asked again with the same bytes. What it has
//! to remember until then is in its `SessionState`.

pub mod counters;
pub mod memcache;
pub mod resp;
mod values;

use crate::clock::Ticks;
use crate::context::WorkerContext;
use segment::{Store, Turn};

/// What a listener's clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// memcached's, text and meta.
    Memcache,
    /// That of Redis, in its versions 2 and 3.
    Resp,
}

impl Protocol {
    /// Its name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memcache => "memcached",
            Self::Resp => "Redis",
        }
    }

    /// What a client reads that comes when there are as many as may be.
    pub const fn refusal(self) -> &'static [u8] {
        match self {
            Self::Memcache => b"ERROR Too many open connections\r\n",
            Self::Resp => b"-ERR max number of clients reached\r\n",
        }
    }
}

/// What a protocol keeps of a connection between calls.
#[expect(
    clippy::large_enum_variant,
    reason = "a connection's slot is made for the larger one; a box would be allocated"
)]
pub(crate) enum SessionState {
    Memcache(memcache::SessionState),
    Resp(resp::SessionState),
}

impl SessionState {
    pub(crate) fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Memcache => Self::Memcache(memcache::SessionState::default()),
            Protocol::Resp => Self::Resp(resp::SessionState::default()),
        }
    }

    /// Gives back what the connection holds in the store and among the watchers. Call it once, when it ends.
    pub(crate) fn release(&mut self, turn: &mut Turn<'_>, ctx: &mut WorkerContext) {
        if let Self::Memcache(state) = self {
            state.release(turn, ctx);
        }
    }

    /// A value is being received into its place in the store.
    #[inline]
    pub(crate) fn is_arriving(&self) -> bool {
        matches!(self, Self::Memcache(state) if state.is_arriving())
    }

    /// Since when a part of a value that is not all there is received into its place.
    pub(crate) fn arriving_since(&self) -> Option<Ticks> {
        match self {
            Self::Memcache(state) => state.arriving_since(),
            Self::Resp(_) => None,
        }
    }

    /// Where the value that is arriving is to be received.
    pub(crate) fn arrival_room<'a>(&'a mut self, store: &'a Store) -> Option<&'a mut [u8]> {
        match self {
            Self::Memcache(state) => state.arrival_room(store),
            Self::Resp(_) => None,
        }
    }

    /// So many bytes were received there.
    pub(crate) fn arrived(&mut self, bytes: usize) {
        if let Self::Memcache(state) = self {
            state.arrived(bytes);
        }
    }

    /// How long the part that is arriving is, its line end included, in bytes.
    pub(crate) fn arrival_bytes(&self) -> usize {
        match self {
            Self::Memcache(state) => state.arrival_bytes(),
            Self::Resp(_) => 0,
        }
    }

    /// Has the value that is arriving go on in a buffer, into which what is there is moved: so many bytes.
    pub(crate) fn move_arrival(&mut self, turn: &mut Turn<'_>, ctx: &mut WorkerContext, buffer: &mut [u8]) -> usize {
        match self {
            Self::Memcache(state) => state.move_arrival(turn, ctx, buffer),
            Self::Resp(_) => 0,
        }
    }

    /// A request is half done: its value is arriving.
    pub(crate) fn is_receiving(&self) -> bool {
        matches!(self, Self::Memcache(state) if state.is_receiving())
    }

    /// The connection is a watcher.
    pub(crate) fn watches(&self) -> bool {
        matches!(self, Self::Memcache(state) if state.watches())
    }
}
