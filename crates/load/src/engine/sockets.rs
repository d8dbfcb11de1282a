//! Sockets through epoll, and a wait that ends close to its instant.
//!
//! ```text
//!   now                                    instant
//!    |------ epoll sleeps ------|-- polls --|      it sleeps until `margin` before the instant, then only looks
//! ```
//! The margin follows how late the kernel woke the thread before: a late wake widens it at once, and it narrows slowly.
//! A machine of its own wakes a thread some 5 us late; a virtual one that was left idle takes tens to hundreds. Answers
//! end the sleep as they come, so that only the instants of the schedule pay for the polling.

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
/// The margin is never narrower: about the time from the timer to the first instruction.
const MARGIN_NS_MIN: u64 = 5_000;
/// The margin is never wider: a wake that is later than this is the host's fault, and shows as lateness.
const MARGIN_NS_MAX: u64 = 2_000_000;
/// A sleep shorter than this is not worth its system call.
const SLEEP_NS_MIN: u64 = 5_000;

const INPUT: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP).union(epoll::EventFlags::ET);
const BOTH: epoll::EventFlags = INPUT.union(epoll::EventFlags::OUT);

/// Connections of one thread.
pub(crate) struct Sockets {
    clock: MonoClock,
    poll: OwnedFd,
    targets: Vec<Resolved>,
    streams: Vec<Option<OwnedFd>>,
    /// Maker of TLS connections, if they are secured.
    maker: Option<Maker>,
    /// Of each connection that is secured, or about to be.
    channels: Vec<Option<Box<Channel>>>,
    /// The target of each connection.
    of: Vec<usize>,
    /// Buffer of records before they are deciphered.
    records: Vec<u8>,
    /// Connections that are reported readable without waiting: they have input that was not received yet.
    again: Vec<usize>,
    raw: Vec<epoll::Event>,
    wait: Wait,
    margin_ns: u64,
    polled: Arc<Polled>,
}

/// CPU time of the calling thread, in nanoseconds.
fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Sockets {
    /// For connections numbered below `connections`, which `maker` secures. `polled` receives the CPU time that was
    /// spent polling.
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

    /// The socket is connected: a handshake begins where the target wants one.
    fn secure(&mut self, connection: usize) -> std::io::Result<Connecting> {
        let Some(maker) = &self.maker else { return Ok(Connecting::Done) };
        let Some(channel) = maker.make(self.of[connection], self.clock.now().0)? else { return Ok(Connecting::Done) };
        self.channels[connection] = Some(Box::new(channel));
        self.shake(connection)
    }

    /// Goes on with the handshake.
    fn shake(&mut self, connection: usize) -> std::io::Result<Connecting> {
        let (Some(stream), Some(channel), Some(maker)) =
            (&self.streams[connection], &mut self.channels[connection], &self.maker)
        else {
            return Err(std::io::ErrorKind::NotConnected.into());
        };
        let shaken = channel.shake(stream, maker.settings()).map_err(|error| match error.kind() {
            // Within a handshake that is an answer to it.
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
        // What has come with the end of the handshake makes no event of its own.
        self.again.push(connection);
        Ok(Connecting::Done)
    }

    /// Sends the records that wait, and waits for the event that the socket takes more.
    fn flush(&mut self, connection: usize) {
        if let (Some(stream), Some(channel)) = (&self.streams[connection], &mut self.channels[connection]) {
            // A socket that broke says so to the next receive.
            let is_flushed = channel.flush(stream).unwrap_or(true);
            if !is_flushed {
                self.interest(connection, BOTH);
            }
        }
    }

    fn interest(&self, connection: usize, flags: epoll::EventFlags) {
        if let Some(stream) = &self.streams[connection] {
            // It fails when the kernel has no memory for it; the timeout then ends the connection.
            let _ = epoll::modify(&self.poll, stream, epoll::EventData::new_u64(connection as u64), flags);
        }
    }

    /// One look or sleep; 0: it only looks.
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

    /// Sleeps until something happens or shortly before `until_ns`. How many events there are.
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
        let what = "it took the connection and did not end the TLS handshake in time; name the port on which it \
                    speaks TLS, or leave --tls away";
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
        // The last descriptor of a socket takes its registration with it.
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
            // By the thread's own clock: time in which another had the CPU is not the polling's.
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
            // Reported once; a send that is blocked again asks again.
            self.interest(event.connection, INPUT);
            self.flush(event.connection);
        }
        Ok(())
    }
}
