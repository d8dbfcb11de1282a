//! The reactor under the workers: what is ready, bytes in, bytes out, and nothing else.
//!
//! [`Backend`] is the one door. Three things stand behind it: [`epoll::Epoll`] and [`uring::Uring`], which serve real
//! sockets, and [`sim::Sim`], which serves connections held in memory whose faults (short reads, short writes,
//! would-block, resets, delays) follow from a seed, so that a worker runs unmodified in a test that one number
//! reproduces.
//!
//! ```text
//!            wait(timeout) -> events            one system call for all connections
//!   worker   receive(stream, lent buffer)       only for streams an event named: idle connections lend nothing
//!            send(stream, parts)                one a session and turn
//!            submit()                           end of a batch: where a completion ring may be entered
//! ```
//!
//! Invariants: a back end holds no bytes of a connection that the worker could not bound, never blocks apart from
//! `wait`, and allocates nothing after it was made.
//!
//! epoll makes a system call for each receive and send. io_uring has the bytes before it reports the event, and takes
//! over what is sent until the next `wait`. Both show the same edges, so a worker cannot see which it has.
#![deny(unsafe_code)]

pub mod affinity;
pub mod allocation;
pub mod away;
pub mod disk;
pub mod epoll;
pub mod listen;
pub mod pass;
pub mod signal;
pub mod sim;
pub mod uring;
pub mod waker;

use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Duration;

/// Names a connection to its owner: 32 bits of slot index, 32 bits of generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

impl Token {
    /// A token of slot `index` in its life number `generation`.
    pub const fn new(index: u32, generation: u32) -> Self {
        Self((generation as u64) << 32 | index as u64)
    }

    /// The slot's index.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    /// Which life of the slot is meant; an event for an earlier life is stale.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// An event of one connection, as [`Backend::wait`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The token it was attached with.
    pub token: Token,
    /// Bytes, or the end of the stream, are there to be received.
    pub readable: bool,
    /// Bytes can be sent again. Only reported between `want_writable(true)` and `want_writable(false)`.
    pub writable: bool,
    /// The peer has closed or reset: receive until [`Received::Closed`], however short the receives are.
    pub hangup: bool,
}

/// The result of a [`Backend::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes, at least 1, are in the buffer. If these are fewer than the buffer holds, nothing more is there
    /// now, and an event will report when there is (unless an event said `hangup`).
    Bytes(usize),
    /// The stream has no bytes now; an event will report when it has.
    Blocked,
    /// The peer has sent its last byte.
    Closed,
    /// The connection is broken.
    Reset,
}

/// The result of a [`Backend::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// So many bytes, at least 1, are the back end's now; perhaps fewer than were given.
    Bytes(usize),
    /// The peer does not read: ask for an event with [`Backend::want_writable`].
    Blocked,
    /// The connection is broken.
    Reset,
}

/// A stream that was detached, and what its back end still had of its bytes.
#[derive(Debug)]
pub struct Detached<S> {
    /// Open, of no reactor.
    pub stream: S,
    /// Bytes that were received and not taken.
    pub received: Vec<u8>,
    /// Bytes that were taken over for sending, and that its peer has not taken.
    pub unsent: Vec<u8>,
}

/// One reactor, owned by one thread.
///
/// Events are edges: one event for each time that something arrives. Its owner receives until a receive is shorter than
/// the buffer, or remembers that more is there.
pub trait Backend {
    /// A connection. Dropping one that was never attached closes it.
    type Stream;

    /// The other end's address, where it has one.
    fn peer(stream: &Self::Stream) -> Option<SocketAddr>;

    /// Its own end's address, where it has one.
    fn local(stream: &Self::Stream) -> Option<SocketAddr>;

    /// Begins to report events of `stream` under `token`. Bytes that are there already are reported too. Fails when
    /// the kernel has no memory for it.
    fn attach(&mut self, stream: &Self::Stream, token: Token) -> std::io::Result<()>;

    /// Ends reporting and closes. What was taken over for sending still goes out. Every attached stream ends this way,
    /// and before the back end is dropped: its descriptor may be named in operations that the kernel has.
    fn close(&mut self, stream: Self::Stream);

    /// Ends reporting of each of `streams` and leaves it open, for another reactor or process: in their order; `None`
    /// for one that is broken: it is closed. At the end of a reactor's work: it may wait, and allocates.
    fn detach(&mut self, streams: Vec<Self::Stream>) -> Vec<Option<Detached<Self::Stream>>>;

    /// Waits until something is ready, a [`waker::Waker`] was rung or `timeout` is over (`None`: for ever), and fills
    /// `events` up to its capacity. It never grows `events`.
    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> std::io::Result<()>;

    /// Receives into a lent buffer, which must not be empty.
    fn receive(&mut self, stream: &Self::Stream, into: &mut [u8]) -> Received;

    /// Sends `parts` one after another; they must not all be empty.
    fn send(&mut self, stream: &Self::Stream, parts: &[IoSlice<'_>]) -> Sent;

    /// Says whether events of `stream` shall report that it can be written to.
    fn want_writable(&mut self, stream: &Self::Stream, token: Token, want: bool);

    /// Shuts down the sending side: the peer sees that nothing more will be sent.
    fn shutdown_send(&mut self, stream: &Self::Stream);

    /// The end of a batch. What was sent goes out with the next `wait` at the latest; where many sends have been taken
    /// over, it goes out now, so that the first of them do not wait for the last batch of a long turn.
    fn submit(&mut self);
}
