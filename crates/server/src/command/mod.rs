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

mod ahead;
pub mod counters;
mod flash;
mod large;
pub mod memcache;
pub mod resp;
mod values;

use crate::clock::Ticks;
use crate::context::WorkerContext;
use crate::handover::Carried;
use crate::mail::Subscriber;
use crate::shared::Shared;
pub(crate) use ahead::{Head, ReadHead};
use large::LargeSet;
use segment::{Namespace, Store, Turn};

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

/// Where a connection came in: what its client speaks, and which namespace its keys are in, to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Door {
    /// What its client speaks.
    pub protocol: Protocol,
    /// The namespace of its listener.
    pub namespace: Namespace,
    /// It was counted there when it came in.
    pub(crate) is_counted: bool,
}

impl Door {
    /// The door of a listener.
    pub const fn new(protocol: Protocol, namespace: Namespace) -> Self {
        Self { protocol, namespace, is_counted: false }
    }
}

/// The door to the default namespace.
impl From<Protocol> for Door {
    fn from(protocol: Protocol) -> Self {
        Self::new(protocol, Namespace::DEFAULT)
    }
}

/// What a protocol keeps of a connection between calls.
pub(crate) enum SessionState {
    Memcache(memcache::SessionState),
    Resp(resp::SessionState),
}

impl SessionState {
    pub(crate) fn new(door: Door) -> Self {
        match door.protocol {
            Protocol::Memcache => Self::Memcache(memcache::SessionState::of(door.namespace)),
            Protocol::Resp => Self::Resp(resp::SessionState::of(door.namespace)),
        }
    }

    /// What its client speaks.
    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Self::Memcache(_) => Protocol::Memcache,
            Self::Resp(_) => Protocol::Resp,
        }
    }

    /// The namespace that it counts as a connection of.
    #[inline]
    pub(crate) fn namespace(&self) -> Namespace {
        match self {
            Self::Memcache(state) => state.home(),
            Self::Resp(state) => state.namespace,
        }
    }

    /// Gives back what the connection holds in the store and among the watchers. Call it when it ends, until it says
    /// true: false asks for another turn.
    pub(crate) fn release(&mut self, turn: &mut Turn<'_>, ctx: &mut WorkerContext) -> bool {
        ctx.turn_to(self.namespace());
        match self {
            Self::Memcache(state) => {
                state.release(turn, ctx);
                true
            }
            Self::Resp(state) => state.release(turn, ctx),
        }
    }

    /// Returns the state that moves to another process, with `input`. `None`: a request is half done.
    pub(crate) fn carried(&self, input: &[u8]) -> Option<Carried> {
        match self {
            Self::Memcache(state) => state.carried(input),
            Self::Resp(state) => state.carried(input),
        }
    }

    /// Removes and returns its subscriptions.
    pub(crate) fn take_subscriber(&mut self) -> Option<Subscriber> {
        match self {
            Self::Memcache(_) => None,
            Self::Resp(state) => state.take_subscriber(),
        }
    }

    /// Restores subscriptions and transaction after a move. False: client memory is used up.
    pub(crate) fn take_up(&mut self, carried: &Carried, turn: &mut Turn<'_>, ctx: &mut WorkerContext) -> bool {
        match self {
            Self::Memcache(state) => state.take_up(carried, ctx),
            Self::Resp(state) => state.take_up(carried, turn, ctx),
        }
    }

    /// Goes on as what was carried over.
    pub(crate) fn go_on_as(&mut self, carried: &Carried, shared: &Shared) {
        match self {
            Self::Memcache(state) => state.go_on_as(carried),
            Self::Resp(state) => state.go_on_as(carried, shared),
        }
    }

    /// The value that is arriving.
    #[inline]
    fn large(&self) -> Option<&LargeSet> {
        match self {
            Self::Memcache(state) => state.large(),
            Self::Resp(state) => state.large(),
        }
    }

    fn large_mut(&mut self) -> Option<&mut LargeSet> {
        match self {
            Self::Memcache(state) => state.large_mut(),
            Self::Resp(state) => state.large_mut(),
        }
    }

    /// The request at hand takes many visits.
    pub(crate) fn is_long(&self) -> bool {
        match self {
            Self::Memcache(state) => state.is_long(),
            Self::Resp(state) => state.is_long(),
        }
    }

    /// A value is being received into its place in the store.
    #[inline]
    pub(crate) fn is_arriving(&self) -> bool {
        self.large().is_some_and(LargeSet::is_arriving)
    }

    /// Since when a part of a value that is not all there is received into its place.
    pub(crate) fn arriving_since(&self) -> Option<Ticks> {
        self.large().and_then(LargeSet::arriving_since)
    }

    /// Where the value that is arriving is to be received.
    pub(crate) fn arrival_room<'a>(&'a mut self, store: &'a Store) -> Option<&'a mut [u8]> {
        self.large_mut().and_then(|large| large.room(store))
    }

    /// So many bytes were received there.
    pub(crate) fn arrived(&mut self, bytes: usize) {
        if let Some(large) = self.large_mut() {
            large.receive(bytes);
        }
    }

    /// How long the part that is arriving is, its line end included, in bytes.
    pub(crate) fn arrival_bytes(&self) -> usize {
        self.large().map_or(0, LargeSet::part_bytes)
    }

    /// Has the value that is arriving go on in a buffer, into which what is there is moved: so many bytes.
    pub(crate) fn move_arrival(&mut self, turn: &mut Turn<'_>, ctx: &mut WorkerContext, buffer: &mut [u8]) -> usize {
        self.large_mut().map_or(0, |large| large.move_out(turn, ctx, buffer))
    }

    /// True if a part of a request is consumed and the rest is still to be received.
    pub(crate) fn is_taking_in(&self) -> bool {
        match self {
            Self::Memcache(state) => state.large().is_some(),
            Self::Resp(state) => state.is_taking_in(),
        }
    }

    /// A request is half done: some of it is consumed, or it is under way.
    pub(crate) fn is_receiving(&self) -> bool {
        match self {
            Self::Memcache(state) => state.large().is_some(),
            Self::Resp(state) => state.is_receiving(),
        }
    }

    /// The connection is a watcher.
    pub(crate) fn watches(&self) -> bool {
        matches!(self, Self::Memcache(state) if state.watches())
    }

    /// There is something for it that it did not ask for.
    pub(crate) fn has_mail(&self) -> bool {
        match self {
            Self::Memcache(state) => state.has_mail(),
            Self::Resp(state) => state.has_mail(),
        }
    }

    /// There was more of that than may wait: the connection is to be closed.
    pub(crate) fn is_mail_broken(&self) -> bool {
        matches!(self, Self::Resp(state) if state.is_mail_broken())
    }

    /// Moves what is next of that to the front of `into`; returns how many bytes that was.
    pub(crate) fn take_mail(&mut self, into: &mut [u8]) -> usize {
        match self {
            Self::Memcache(state) => state.take_mail(into),
            Self::Resp(state) => state.take_mail(into),
        }
    }

    /// A reply was put in part: nothing may come between it and the rest.
    pub(crate) fn is_answering(&self) -> bool {
        matches!(self, Self::Resp(state) if state.is_answering())
    }

    /// Since when an answer is kept for its client outside the store, with its bytes; `None`: none is.
    pub(crate) fn reply_held(&self) -> Option<(Ticks, u64)> {
        match self {
            Self::Memcache(_) => None,
            Self::Resp(state) => state.reply_held(),
        }
    }

    /// The connection is subscribed to something: it may be silent as long as it likes.
    pub(crate) fn listens(&self) -> bool {
        matches!(self, Self::Resp(state) if state.listens())
    }

    /// The last command that a client of Redis called.
    pub(crate) fn last_command(&self) -> Option<&'static str> {
        match self {
            Self::Memcache(_) => None,
            Self::Resp(state) => state.last_command(),
        }
    }

    /// Its client may do next to nothing, since it is on another host and could be anyone.
    pub(crate) fn hold_off(&mut self) {
        if let Self::Resp(state) = self {
            state.hold_off();
        }
    }
}
