//! The reactor under the workers. It reports ready connections, receives bytes and sends bytes.
//!
//! [`Backend`] is the interface. It has three implementations. [`epoll::Epoll`] and [`uring::Uring`] serve real
//! sockets. [`sim::Sim`] serves connections in memory. It injects faults (short reads, short writes, would-block,
//! resets, delays) from a seed. So a test runs an unmodified worker, and the seed alone reproduces the run.
//!
//! ```text
//!            wait(timeout) -> events            one system call for all connections
//!   worker   receive(stream, lent buffer)       only for streams with an event: idle connections need no buffer
//!            send(stream, parts)                once per session and event-loop iteration
//!            submit()                           at the end of a batch: io_uring may enter the kernel here
//! ```
//!
//! Invariants: a back end holds a bounded number of bytes per connection. It blocks only in `wait`, and allocates
//! nothing after its creation.
//!
//! epoll makes a system call for each receive and each send. io_uring receives the bytes before it reports the
//! event, and collects bytes to send until the next `wait`. Both report the same edges, so a worker cannot
//! distinguish them.
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

/// The identity of a connection for its owner: 32 bits of slot index, 32 bits of generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

impl Token {
    /// Creates the token for slot `index` in generation `generation`.
    pub const fn new(index: u32, generation: u32) -> Self {
        Self((generation as u64) << 32 | index as u64)
    }

    /// Returns the slot's index.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    /// Returns the slot's generation. An event for an earlier generation is stale.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// An event of one connection, as [`Backend::wait`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoEvent {
    /// The token that the connection was attached with.
    pub token: Token,
    /// Bytes, or the end of the stream, can be received.
    pub readable: bool,
    /// Bytes can be sent again. Reported only between `want_writable(true)` and `want_writable(false)`.
    pub writable: bool,
    /// The peer has closed or reset the connection. Receive until [`Received::Closed`], even after a short receive.
    pub hangup: bool,
}

/// The result of a [`Backend::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The number of bytes in the buffer, at least 1. If the buffer is not full, the stream has no more bytes now; an
    /// event follows when more arrive (unless an event reported `hangup`).
    Bytes(usize),
    /// The stream has no bytes now. An event follows when some arrive.
    Blocked,
    /// The peer has sent its last byte.
    Closed,
    /// The connection is broken.
    Reset,
}

/// The result of a [`Backend::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The number of bytes that the back end took over, at least 1. It may be fewer than were given.
    Bytes(usize),
    /// No bytes were sent, because the peer does not read. Request an event with [`Backend::want_writable`].
    Blocked,
    /// The connection is broken.
    Reset,
}

/// A detached stream, and the bytes of it that its back end still held.
#[derive(Debug)]
pub struct Detached<S> {
    /// The open stream, attached to no reactor.
    pub stream: S,
    /// Bytes that the back end received and the owner has not taken.
    pub received: Vec<u8>,
    /// Bytes that the back end took over for sending and has not sent.
    pub unsent: Vec<u8>,
}

/// One reactor, owned by one thread.
///
/// Events are edges: each arrival causes one event. The owner receives until a receive does not fill the buffer, or
/// remembers that more bytes wait.
pub trait Backend {
    /// A connection. Dropping a connection that was never attached closes it.
    type Stream;

    /// Returns the peer's address, if it has one.
    fn peer(stream: &Self::Stream) -> Option<SocketAddr>;

    /// Returns the number of the stream's file descriptor, if it has one.
    fn descriptor(stream: &Self::Stream) -> Option<u32>;

    /// Returns the local address, if there is one.
    fn local(stream: &Self::Stream) -> Option<SocketAddr>;

    /// Returns true if the stream can leave for another process. A stream whose state is in this process cannot.
    fn is_movable(_stream: &Self::Stream) -> bool {
        true
    }

    /// Returns the names of users that the peer has proved, in the order of preference. Empty: it has proved none.
    /// `None`: peers of this stream prove no users. Called once bytes were received.
    fn proven_users(&self, _stream: &Self::Stream) -> Option<Vec<String>> {
        None
    }

    /// Starts to report events of `stream` under `token`. Bytes that have already arrived cause an event too. Fails if
    /// the kernel has no memory for the registration.
    fn attach(&mut self, stream: &Self::Stream, token: Token) -> std::io::Result<()>;

    /// Stops reporting and closes the stream. Bytes that were taken over are still sent. The owner must close every
    /// attached stream in this way before it drops the back end, because operations in the kernel may name the
    /// descriptor.
    fn close(&mut self, stream: Self::Stream);

    /// Stops reporting for each of `streams` and leaves them open, for another reactor or process. The result has the
    /// same order; `None` stands for a broken stream, which is closed. Called only at the end of a reactor's work,
    /// because it may wait, and it allocates.
    fn detach(&mut self, streams: Vec<Self::Stream>) -> Vec<Option<Detached<Self::Stream>>>;

    /// Waits until a stream is ready, a [`waker::Waker`] was rung or `timeout` has passed (`None`: no timeout). Fills
    /// `events` up to its capacity and never grows it.
    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<IoEvent>) -> std::io::Result<()>;

    /// Receives into a buffer of the caller, which must not be empty.
    fn receive(&mut self, stream: &Self::Stream, into: &mut [u8]) -> Received;

    /// Sends `parts` one after another. At least one of them must not be empty.
    fn send(&mut self, stream: &Self::Stream, parts: &[IoSlice<'_>]) -> Sent;

    /// Sets whether events of `stream` report that it can be written to.
    fn want_writable(&mut self, stream: &Self::Stream, token: Token, want: bool);

    /// Shuts down the sending side. The peer then sees the end of the stream.
    fn shutdown_send(&mut self, stream: &Self::Stream);

    /// Marks the end of a batch. Queued sends are submitted by the next `wait` at the latest. If many are queued, they
    /// are submitted now, so that the first of them do not wait for the last batch of a long event-loop iteration.
    fn submit(&mut self);
}
