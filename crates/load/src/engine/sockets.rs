//! Sockets on epoll, with a wait that ends close to its instant.
//!
//! ```text
//!   now                                    instant
//!    |------ epoll sleeps ------|-- polls --|      it sleeps until `margin` before the instant, then polls
//! ```
//! The margin follows the lateness with which the kernel wakes the thread. A late wake-up widens it at once, and it
//! narrows slowly. A physical machine wakes a thread about 5 us late; an idle virtual machine takes tens to hundreds of
//! microseconds. Replies end the sleep when they arrive, so only scheduled instants cost polling.

use super::config::Wait;
use super::net::{Connecting, Net, NetEvent, OVERDUE};
use super::watch::Polled;
use base::clock::MonoClock;
use link::tls::{Failure, Maker};
use link::{Channel, Handshake, Moved, RECORDS_BYTES, Resolved, Secured};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};
use std::io::ErrorKind;
use std::sync::Arc;

const EVENTS_MAX: usize = 256;
/// Smallest margin: about the time from the timer to the first instruction.
const MARGIN_NS_MIN: u64 = 5_000;
/// Largest margin: a later wake-up is the host's fault and counts as lateness.
const MARGIN_NS_MAX: u64 = 2_000_000;
/// Shortest sleep that is worth its system call.
const SLEEP_NS_MIN: u64 = 5_000;

const INPUT: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP).union(epoll::EventFlags::ET);
const BOTH: epoll::EventFlags = INPUT.union(epoll::EventFlags::OUT);

/// The connections of one thread.
pub(crate) struct Sockets {
    clock: MonoClock,
    poll: OwnedFd,
    targets: Vec<Resolved>,
    streams: Vec<Option<OwnedFd>>,
    /// Creates TLS connections, if TLS is used.
    maker: Option<Maker>,
    /// The TLS channel of each encrypted connection.
    channels: Vec<Option<Box<Channel>>>,
    /// The target of each connection.
    of: Vec<usize>,
    /// Buffer for TLS records before decryption.
    records: Vec<u8>,
    /// Connections with input that was not received yet; they are reported readable without waiting.
    again: Vec<usize>,
    raw: Vec<epoll::Event>,
    wait: Wait,
    margin_ns: u64,
    polled: Arc<Polled>,
}

/// Returns the CPU time of the calling thread, in nanoseconds.
fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Sockets {
    /// Creates sockets for connections numbered below `connections`; `maker` adds TLS. `polled` accumulates the CPU
    /// time spent polling.
    pub fn new(
        clock: MonoClock,
        targets: Vec<Resolved>,
        connections: usize,
        maker: Option<Maker>,
        wait: Wait,
        polled: Arc<Polled>,
    ) -> std::io::Result<Self> {
        Ok(Self {
            clock,
            poll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            targets,
            streams: (0..connections).map(|_| None).collect(),
            channels: (0..connections).map(|_| None).collect(),
            of: vec![0; connections],
            records: vec![0; if maker.is_some() { RECORDS_BYTES } else { 0 }],
            again: Vec::new(),
            maker,
            raw: Vec::with_capacity(EVENTS_MAX),
            wait,
            margin_ns: 50_000,
            polled,
        })
    }

    fn open(&mut self, connection: usize, target: usize) -> std::io::Result<Connecting> {
        let (stream, is_connected) = self.targets[target].begin()?;
        let interest = if is_connected { INPUT } else { BOTH };
        epoll::add(&self.poll, &stream, epoll::EventData::new_u64(connection as u64), interest)?;
        self.streams[connection] = Some(stream);
        self.of[connection] = target;
        if is_connected { self.secure(connection) } else { Ok(Connecting::UnderWay) }
    }

    /// Begins the TLS handshake on a connected socket, if the target uses TLS.
    fn secure(&mut self, connection: usize) -> std::io::Result<Connecting> {
        let Some(maker) = &self.maker else { return Ok(Connecting::Done) };
        let Some(channel) = maker.make(self.of[connection], self.clock.now().0)? else { return Ok(Connecting::Done) };
        self.channels[connection] = Some(Box::new(channel));
        self.shake(connection)
    }

    /// Continues the handshake.
    fn shake(&mut self, connection: usize) -> std::io::Result<Connecting> {
        let (Some(stream), Some(channel), Some(maker)) =
            (&self.streams[connection], &mut self.channels[connection], &self.maker)
        else {
            return Err(std::io::ErrorKind::NotConnected.into());
        };
        let shaken = channel.shake(stream, maker.settings()).map_err(|error| match error.kind() {
            // During the handshake, the sent bytes are a handshake message.
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Failure::closed().into(),
            _ => error,
        })?;
        if shaken == Handshake::Done {
            channel.shaken(self.clock.now().0);
        }
        self.interest(connection, if shaken == Handshake::WantsOutput { BOTH } else { INPUT });
        if shaken != Handshake::Done {
            return Ok(Connecting::UnderWay);
        }
        // Data that arrived with the end of the handshake causes no further event.
        self.again.push(connection);
        Ok(Connecting::Done)
    }

    /// Sends pending records; if the socket is full, waits for the event that it accepts more.
    fn flush(&mut self, connection: usize) {
        if let (Some(stream), Some(channel)) = (&self.streams[connection], &mut self.channels[connection]) {
            // A failed socket returns its error on the next receive.
            let is_flushed = channel.flush(stream).unwrap_or(true);
            if !is_flushed {
                self.interest(connection, BOTH);
            }
        }
    }

    fn interest(&self, connection: usize, flags: epoll::EventFlags) {
        if let Some(stream) = &self.streams[connection] {
            // This fails if the kernel has no memory; the timeout then closes the connection.
            let _ = epoll::modify(&self.poll, stream, epoll::EventData::new_u64(connection as u64), flags);
        }
    }

    /// Waits for events for at most `sleep_ns`; 0 polls once.
    fn look(&mut self, sleep_ns: u64) -> std::io::Result<usize> {
        let timeout =
            Timespec { tv_sec: (sleep_ns / 1_000_000_000) as i64, tv_nsec: (sleep_ns % 1_000_000_000) as i64 };
        self.raw.clear();
        match epoll::wait(&self.poll, spare_capacity(&mut self.raw), Some(&timeout)) {
            Ok(count) => Ok(count),
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Sleeps until an event occurs or shortly before `until_ns`. Returns the number of events.
    fn sleep(&mut self, now_ns: u64, until_ns: u64) -> std::io::Result<usize> {
        let left_ns = until_ns.saturating_sub(now_ns);
        if self.wait == Wait::Poll || left_ns < self.margin_ns + SLEEP_NS_MIN {
            return self.look(0);
        }
        let count = self.look(left_ns - self.margin_ns)?;
        if count == 0 {
            let overslept_ns = self.now_ns().saturating_sub(until_ns - self.margin_ns);
            let wanted_ns = (overslept_ns + overslept_ns / 4).clamp(MARGIN_NS_MIN, MARGIN_NS_MAX);
            self.margin_ns =
                if wanted_ns > self.margin_ns { wanted_ns } else { self.margin_ns - (self.margin_ns - wanted_ns) / 64 };
        }
        Ok(count)
    }
}

impl Net for Sockets {
    fn now_ns(&mut self) -> u64 {
        self.clock.now().0
    }

    fn connect(&mut self, connection: usize, target: usize) -> Connecting {
        self.open(connection, target).unwrap_or_else(Connecting::Failed)
    }

    fn finish_connect(&mut self, connection: usize) -> Connecting {
        let Some(stream) = &self.streams[connection] else {
            return Connecting::Failed(std::io::ErrorKind::NotConnected.into());
        };
        match sockopt::socket_error(stream) {
            Ok(Ok(())) => {}
            Ok(Err(_)) if self.channels[connection].is_some() => return Connecting::Failed(Failure::closed().into()),
            Ok(Err(error)) | Err(error) => return Connecting::Failed(error.into()),
        }
        if self.channels[connection].is_some() {
            return self.shake(connection).unwrap_or_else(Connecting::Failed);
        }
        if rustix::net::getpeername(stream).is_err() {
            return Connecting::UnderWay;
        }
        self.interest(connection, INPUT);
        self.secure(connection).unwrap_or_else(Connecting::Failed)
    }

    fn secured(&mut self, connection: usize) -> Option<Secured> {
        self.channels[connection].as_ref().map(|channel| channel.secured())
    }

    fn overdue(&self, connection: usize) -> (&'static str, &'static str) {
        if self.channels[connection].is_none() {
            return OVERDUE;
        }
        let what = "the server accepted the connection but did not finish the TLS handshake in time; use its TLS \
                    port, or remove --tls";
        ("tls-timeout", what)
    }

    fn send(&mut self, connection: usize, bytes: &[u8]) -> Moved {
        let Some(stream) = &self.streams[connection] else { return Moved::Closed };
        if let Some(channel) = &mut self.channels[connection] {
            let moved = channel.send(stream, bytes);
            if channel.is_waiting() {
                self.interest(connection, BOTH);
            }
            return moved;
        }
        loop {
            return match rustix::net::send(stream, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    if sent < bytes.len() {
                        self.interest(connection, BOTH);
                    }
                    Moved::Bytes(sent)
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    self.interest(connection, BOTH);
                    Moved::Blocked
                }
                Err(error) => Moved::Broken(error.into()),
            };
        }
    }

    fn receive(&mut self, connection: usize, into: &mut [u8]) -> Moved {
        let Some(stream) = &self.streams[connection] else { return Moved::Closed };
        if let (Some(channel), Some(maker)) = (&mut self.channels[connection], &self.maker) {
            let (moved, look_again) = channel.receive(stream, maker.settings(), into, &mut self.records);
            if look_again {
                self.again.push(connection);
            }
            if channel.is_waiting() {
                self.interest(connection, BOTH);
            }
            return moved;
        }
        loop {
            return match rustix::net::recv(stream.as_fd(), &mut *into, RecvFlags::empty()) {
                Ok((0, _)) => Moved::Closed,
                Ok((received, _)) => Moved::Bytes(received),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Moved::Blocked,
                Err(error) => Moved::Broken(error.into()),
            };
        }
    }

    fn close(&mut self, connection: usize) {
        if let (Some(stream), Some(mut channel)) = (&self.streams[connection], self.channels[connection].take()) {
            channel.close(stream);
        }
        self.again.retain(|again| *again != connection);
        // Closing the last descriptor of a socket removes its registration too.
        self.streams[connection] = None;
    }

    fn wait(&mut self, until_ns: u64, events: &mut Vec<NetEvent>) -> std::io::Result<()> {
        events.clear();
        let readable = |connection| NetEvent { connection, readable: true, writable: false };
        events.extend(self.again.drain(..).map(readable));
        let until_ns = if events.is_empty() { until_ns } else { 0 };
        let now_ns = self.now_ns();
        let mut count = self.sleep(now_ns, until_ns)?;
        if count == 0 {
            // Uses the thread's own CPU clock, so that time in which another thread had the CPU does not count as
            // polling.
            let begin_ns = thread_cpu_ns();
            let mut now_ns = self.now_ns();
            while count == 0 && now_ns < until_ns {
                if self.wait == Wait::Sleep && until_ns - now_ns > MARGIN_NS_MAX + SLEEP_NS_MIN {
                    // A signal ended the sleep early.
                    break;
                }
                count = self.look(0)?;
                now_ns = self.now_ns();
            }
            let end_ns = thread_cpu_ns();
            self.polled.add(end_ns - begin_ns, end_ns);
        }
        for raw in &self.raw[..count] {
            let flags = raw.flags;
            let broken = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            events.push(NetEvent {
                connection: raw.data.u64() as usize,
                readable: broken || flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP),
                writable: broken || flags.contains(epoll::EventFlags::OUT),
            });
        }
        for event in events.iter().filter(|event| event.writable) {
            // Reported once; the next blocked send requests the event again.
            self.interest(event.connection, INPUT);
            self.flush(event.connection);
        }
        Ok(())
    }
}
