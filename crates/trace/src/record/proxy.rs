//! A proxy between clients and a server, which passes bytes both ways and records the requests.
//!
//! ```text
//!   client -- receive --> Pipe up   (64 KiB) -- send ----> server      a full pipe is not filled further, so a fast
//!   client <-- send ----- Pipe down (64 KiB) <-- receive -- server      sender has to wait, as without a proxy
//!                           |
//!                       Follower reads the bytes as they arrive
//! ```
//!
//! The proxy uses one thread and one epoll instance. Beyond [`CONNECTIONS_MAX`], clients wait in the listener's queue,
//! as they do for a server at its connection limit. The end of a stream is passed on, and a broken connection closes
//! its partner.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use base::clock::{MonoClock, UnixMillis};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, sockopt};

use super::{Follower, Ledger, Pen, Seen, Tape};
use crate::format::Secret;
use link::{Address, Resolved};

/// The maximum number of simultaneous client connections.
pub const CONNECTIONS_MAX: usize = 16_384;
/// The maximum number of buffered bytes in one direction of a connection.
const PIPE_BYTES: usize = 64 << 10;
const EVENTS_MAX: usize = 256;
/// The interval at which settled entries are written and the stop flag is checked.
const LOOK_NS: i64 = 100_000_000;
/// The interval at which written entries are handed to the file.
const FLUSH_US: u64 = 1_000_000;
/// The listener's event number; connections are numbered from 0, with two sides each.
const LISTENER: u64 = u64::MAX;

const IN: epoll::EventFlags = epoll::EventFlags::IN;
const OUT: epoll::EventFlags = epoll::EventFlags::OUT;

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    begin: usize,
    /// True if the sender has ended its stream.
    ended: bool,
    /// True if the end of the stream was forwarded to the receiver.
    passed: bool,
}

impl Pipe {
    const fn is_empty(&self) -> bool {
        self.begin == self.bytes.len()
    }

    const fn has_room(&self) -> bool {
        !self.ended && self.bytes.len() < PIPE_BYTES
    }
}

/// A client and its connection to the server.
struct Pair {
    /// The client's socket and the server's socket.
    sides: [OwnedFd; 2],
    /// The pipe from the client, and the pipe from the server.
    pipes: [Pipe; 2],
    /// The events that are awaited on each side.
    interest: [epoll::EventFlags; 2],
    connecting: bool,
    number: u32,
    follower: Follower,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A proxy that records requests.
pub struct Proxy {
    poll: OwnedFd,
    listener: Listener,
    target: Resolved,
    connections_max: usize,
    pairs: Vec<Option<Pair>>,
    free: Vec<usize>,
    accepting: bool,
    ledger: Ledger,
    tape: Tape,
    seen: Seen,
    secret: Secret,
    clock: MonoClock,
    now_us: u64,
    flushed_us: u64,
    refused: u64,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("target", &self.target).field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Proxy {
    /// Listens at `at` and forwards clients to `target`.
    ///
    /// # Errors
    /// If the proxy cannot listen on the address.
    pub fn listen(
        at: &Address,
        target: &Address,
        tape: Tape,
        secret: Secret,
        connections_max: usize,
    ) -> io::Result<Self> {
        let listener = match at {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address.as_str())?;
                listener.set_nonblocking(true)?;
                Listener::Tcp(listener)
            }
            Address::Unix(path) => {
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Listener::Unix(listener, path.clone())
            }
        };
        // The name is resolved once, because a look-up per connection would delay the clients.
        let target = target.resolve()?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut proxy = Self {
            poll,
            listener,
            target,
            connections_max: connections_max.clamp(1, CONNECTIONS_MAX),
            pairs: Vec::new(),
            free: Vec::new(),
            accepting: false,
            ledger: Ledger::default(),
            tape,
            seen: Seen::default(),
            secret,
            clock: MonoClock::start(),
            now_us: 0,
            flushed_us: 0,
            refused: 0,
        };
        proxy.accept_more()?;
        Ok(proxy)
    }

    /// Returns the address that the proxy listens on.
    ///
    /// # Errors
    /// If the system does not report the address.
    pub fn address(&self) -> io::Result<String> {
        match &self.listener {
            Listener::Tcp(listener) => Ok(listener.local_addr()?.to_string()),
            Listener::Unix(_, path) => Ok(format!("unix:{}", path.display())),
        }
    }

    /// Returns the counts so far, and the entries that were handed to the file and lost.
    pub const fn seen(&self) -> (Seen, (u64, u64)) {
        (self.seen, self.tape.counts())
    }

    /// Returns the number of connections that the server refused.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns true if the file can no longer be written.
    pub fn is_tape_broken(&self) -> bool {
        self.tape.is_broken()
    }

    /// Forwards bytes until `stop` is set; `look` is called about ten times a second.
    ///
    /// # Errors
    /// If the system cannot wait for events.
    pub fn run(&mut self, stop: &AtomicBool, look: &mut dyn FnMut(&Self)) -> io::Result<()> {
        let mut raw = Vec::with_capacity(EVENTS_MAX);
        let mut room = vec![0; PIPE_BYTES];
        let mut looked_us = 0;
        while !stop.load(Ordering::Relaxed) {
            raw.clear();
            let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
            match epoll::wait(&self.poll, spare_capacity(&mut raw), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.now_us = self.clock.now().0 / 1000;
            for event in &raw {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    side => self.handle((side / 2) as usize, (side % 2) as usize, event.flags, &mut room),
                }
            }
            let (tape, now_us) = (&mut self.tape, self.now_us);
            self.ledger.drain(now_us, |entry| tape.put(entry));
            if now_us - self.flushed_us >= FLUSH_US {
                self.flushed_us = now_us;
                self.tape.flush();
            }
            if now_us - looked_us >= LOOK_NS as u64 / 1000 {
                looked_us = now_us;
                look(self);
            }
        }
        Ok(())
    }

    /// Closes all connections and ends the file. Returns the counts.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn end(mut self) -> Result<Seen, super::TapeError> {
        for pair in 0..self.pairs.len() {
            self.close(pair);
        }
        let tape = &mut self.tape;
        self.ledger.close(|entry| tape.put(entry));
        let mut seen = self.seen;
        self.tape.end(&mut seen)?;
        Ok(seen)
    }

    fn accept_more(&mut self) -> io::Result<()> {
        if self.accepting {
            return Ok(());
        }
        self.accepting = true;
        let data = epoll::EventData::new_u64(LISTENER);
        match &self.listener {
            Listener::Tcp(listener) => epoll::add(&self.poll, listener, data, IN)?,
            Listener::Unix(listener, _) => epoll::add(&self.poll, listener, data, IN)?,
        }
        Ok(())
    }

    fn accept_no_more(&mut self) -> io::Result<()> {
        self.accepting = false;
        match &self.listener {
            Listener::Tcp(listener) => epoll::delete(&self.poll, listener)?,
            Listener::Unix(listener, _) => epoll::delete(&self.poll, listener)?,
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        while self.accepting {
            if self.pairs.len() - self.free.len() >= self.connections_max {
                return self.accept_no_more();
            }
            let taken = match &self.listener {
                Listener::Tcp(listener) => listener.accept().map(|(stream, _)| {
                    let _ = stream.set_nodelay(true);
                    OwnedFd::from(stream)
                }),
                Listener::Unix(listener, _) => listener.accept().map(|(stream, _)| OwnedFd::from(stream)),
            };
            match taken {
                Ok(client) => self.join(client),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {
                }
                // No descriptor is available; waiting clients are accepted after a connection has ended.
                Err(_) if self.pairs.len() > self.free.len() => return self.accept_no_more(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Connects a client to the server.
    fn join(&mut self, client: OwnedFd) {
        self.seen.connections += 1;
        let Ok((server, is_connected)) =
            rustix::io::ioctl_fionbio(&client, true).map_err(io::Error::from).and_then(|()| self.target.begin())
        else {
            self.refused += 1;
            return;
        };
        let at = self.free.pop().unwrap_or_else(|| {
            self.pairs.push(None);
            self.pairs.len() - 1
        });
        let none = epoll::EventFlags::empty();
        let pair = Pair {
            sides: [client, server],
            pipes: [Pipe::default(), Pipe::default()],
            interest: [none, none],
            connecting: !is_connected,
            number: self.seen.connections as u32,
            follower: Follower::default(),
        };
        let data = |side: usize| epoll::EventData::new_u64((at * 2 + side) as u64);
        let added = [CLIENT, SERVER]
            .into_iter()
            .all(|side| epoll::add(&self.poll, &pair.sides[side], data(side), none).is_ok());
        self.pairs[at] = Some(pair);
        if added { self.wait_for(at) } else { self.close(at) }
    }

    fn close(&mut self, at: usize) {
        let Some(mut pair) = self.pairs[at].take() else { return };
        pair.follower.closed(&mut self.ledger);
        self.free.push(at);
        // This fails if the system is out of memory; the next end of a connection tries again.
        let _ = self.accept_more();
    }

    /// Updates the events that epoll reports for both sides.
    fn wait_for(&mut self, at: usize) {
        let Some(pair) = &mut self.pairs[at] else { return };
        for side in [CLIENT, SERVER] {
            let (from, to) = (&pair.pipes[side], &pair.pipes[1 - side]);
            let connecting = pair.connecting && side == SERVER;
            let mut flags = epoll::EventFlags::empty();
            if from.has_room() && !connecting {
                flags |= IN;
            }
            if !to.is_empty() || connecting {
                flags |= OUT;
            }
            if flags != pair.interest[side] {
                pair.interest[side] = flags;
                let data = epoll::EventData::new_u64((at * 2 + side) as u64);
                // This fails if the kernel has no memory; the client's own timeout then ends the connection.
                let _ = epoll::modify(&self.poll, &pair.sides[side], data, flags);
            }
        }
    }

    fn handle(&mut self, at: usize, side: usize, flags: epoll::EventFlags, room: &mut [u8]) {
        let went = self.turn(at, side, flags, room);
        let Some(pair) = self.pairs.get(at).and_then(Option::as_ref) else { return };
        let is_over = pair.pipes.iter().all(|pipe| pipe.passed);
        if went.is_err() || is_over { self.close(at) } else { self.wait_for(at) }
    }

    /// Handles the events of `side` of a connection. An error ends the connection.
    fn turn(&mut self, at: usize, side: usize, flags: epoll::EventFlags, room: &mut [u8]) -> io::Result<()> {
        let Some(pair) = self.pairs.get_mut(at).and_then(Option::as_mut) else { return Ok(()) };
        let broken = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
        if pair.connecting && side == SERVER {
            if let Err(error) = sockopt::socket_error(&pair.sides[SERVER])
                .map_err(io::Error::from)
                .and_then(|left| left.map_err(Into::into))
            {
                self.refused += 1;
                return Err(error);
            }
            pair.connecting = false;
        }
        if flags.contains(OUT) || broken {
            pass(pair, 1 - side)?;
        }
        if (flags.contains(IN) || broken) && pair.pipes[side].has_room() {
            let pen = Pen {
                secret: self.secret,
                at_us: self.now_us,
                now_s: UnixMillis::now().secs(),
                connection: pair.number,
            };
            take(pair, side, room, &pen, &mut self.ledger, &mut self.seen)?;
            return pass(pair, side);
        }
        // A closed side sends and accepts no more bytes.
        if broken && pair.pipes[side].ended { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

/// Receives the bytes that `from` has sent, as far as its pipe has room, and passes them to the follower.
fn take(
    pair: &mut Pair,
    from: usize,
    room: &mut [u8],
    pen: &Pen,
    ledger: &mut Ledger,
    seen: &mut Seen,
) -> io::Result<()> {
    let pipe = &mut pair.pipes[from];
    let most = (PIPE_BYTES - pipe.bytes.len()).min(room.len());
    let received = match rustix::net::recv(&pair.sides[from], &mut room[..most], RecvFlags::empty()) {
        Ok((0, _)) => {
            pipe.ended = true;
            return Ok(());
        }
        Ok((received, _)) => received,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let bytes = &room[..received];
    pipe.bytes.extend_from_slice(bytes);
    if from == CLIENT {
        pair.follower.asked(bytes, pen, ledger, seen);
    } else {
        pair.follower.answered(bytes, pen, ledger, seen);
    }
    Ok(())
}

/// Sends the buffered bytes of `from` to the other side, followed by the end of the stream.
fn pass(pair: &mut Pair, from: usize) -> io::Result<()> {
    let to = 1 - from;
    if pair.connecting && to == SERVER {
        return Ok(());
    }
    let pipe = &mut pair.pipes[from];
    while !pipe.is_empty() {
        match rustix::net::send(&pair.sides[to], &pipe.bytes[pipe.begin..], SendFlags::NOSIGNAL) {
            Ok(sent) => pipe.begin += sent,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(error) => return Err(error.into()),
        }
    }
    if pipe.is_empty() {
        pipe.bytes.clear();
        pipe.begin = 0;
        if pipe.ended && !pipe.passed {
            pipe.passed = true;
            rustix::net::shutdown(&pair.sides[to], Shutdown::Write)?;
        }
    } else if pipe.bytes.len() == PIPE_BYTES {
        pipe.bytes.drain(..pipe.begin);
        pipe.begin = 0;
    }
    Ok(())
}
