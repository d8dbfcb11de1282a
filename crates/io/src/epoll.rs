//! Sockets through epoll, edge-triggered.
//!
//! A stream is registered once, for input only. The registration changes only when a send was blocked. So a served
//! request costs one receive and one send. A receive that does not fill its buffer shows that the socket is empty,
//! without a further call (epoll(7), "Questions and answers", 9).

use crate::listen::AcceptedStream;
use crate::waker::Waker;
use crate::{Backend, Detached, IoEvent, Received, Sent, Token};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use std::io::IoSlice;
use std::time::Duration;

/// The waker's token. No connection has this token, because slot indexes are less than `u32::MAX`.
const WAKER_TOKEN: u64 = u64::MAX;

/// The epoll back end.
pub struct Epoll {
    fd: OwnedFd,
    raw: Vec<epoll::Event>,
    _waker: Waker,
}

/// An epoll instance that can still move to the thread that will use it.
#[derive(Debug)]
pub struct Opened {
    fd: OwnedFd,
    waker: Waker,
}

impl Opened {
    /// Opens an instance that `waker` can wake. Fails if the process has no file descriptor left.
    pub fn open(waker: &Waker) -> std::io::Result<Self> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(WAKER_TOKEN);
        epoll::add(&fd, waker, data, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        Ok(Self { fd, waker: waker.clone() })
    }

    /// Creates the reactor, whose `wait` reports at most `events_max` events at once.
    pub fn reactor(self, events_max: usize) -> Epoll {
        assert!(events_max > 0, "events_max must be positive");
        Epoll { fd: self.fd, raw: Vec::with_capacity(events_max), _waker: self.waker }
    }
}

const INPUT: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP).union(epoll::EventFlags::ET);

impl Backend for Epoll {
    type Stream = AcceptedStream;

    fn peer(stream: &AcceptedStream) -> Option<std::net::SocketAddr> {
        stream.peer()
    }

    fn descriptor(stream: &AcceptedStream) -> Option<u32> {
        Some(stream.descriptor())
    }

    fn local(stream: &AcceptedStream) -> Option<std::net::SocketAddr> {
        stream.local()
    }

    fn attach(&mut self, stream: &AcceptedStream, token: Token) -> std::io::Result<()> {
        assert_ne!(token.0, WAKER_TOKEN, "the waker's token");
        Ok(epoll::add(&self.fd, stream, epoll::EventData::new_u64(token.0), INPUT)?)
    }

    fn close(&mut self, stream: AcceptedStream) {
        // Closing the last descriptor of a socket also removes its registration.
        drop(stream);
    }

    fn detach(&mut self, streams: Vec<AcceptedStream>) -> Vec<Option<Detached<AcceptedStream>>> {
        // Another descriptor keeps the socket open, and with it the registration, so the registration must be deleted.
        let taken = |stream: AcceptedStream| {
            epoll::delete(&self.fd, &stream).ok()?;
            Some(Detached { stream, received: Vec::new(), unsent: Vec::new() })
        };
        streams.into_iter().map(taken).collect()
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<IoEvent>) -> std::io::Result<()> {
        let timeout = timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
        self.raw.clear();
        events.clear();
        match epoll::wait(&self.fd, spare_capacity(&mut self.raw), timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        for raw in &self.raw {
            let token = raw.data.u64();
            if token == WAKER_TOKEN {
                continue;
            }
            debug_assert!(events.len() < events.capacity(), "the owner's list is shorter than events_max");
            let flags = raw.flags;
            let broken = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            events.push(IoEvent {
                token: Token(token),
                readable: broken || flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP),
                writable: broken || flags.contains(epoll::EventFlags::OUT),
                hangup: broken || flags.contains(epoll::EventFlags::RDHUP),
            });
        }
        Ok(())
    }

    fn receive(&mut self, stream: &AcceptedStream, into: &mut [u8]) -> Received {
        debug_assert!(!into.is_empty(), "a receive into an empty buffer looks like the end of the stream");
        loop {
            return match rustix::net::recv(stream, &mut *into, RecvFlags::empty()) {
                Ok((0, _)) => Received::Closed,
                Ok((n, _)) => Received::Bytes(n),
                Err(Errno::AGAIN) => Received::Blocked,
                Err(Errno::INTR) => continue,
                Err(_) => Received::Reset,
            };
        }
    }

    fn send(&mut self, stream: &AcceptedStream, parts: &[IoSlice<'_>]) -> Sent {
        let flags = SendFlags::NOSIGNAL;
        loop {
            let result = match parts {
                [part] => rustix::net::send(stream, part, flags),
                _ => rustix::net::sendmsg(stream, parts, &mut SendAncillaryBuffer::default(), flags),
            };
            return match result {
                Ok(n) => Sent::Bytes(n),
                Err(Errno::AGAIN | Errno::NOBUFS) => Sent::Blocked,
                Err(Errno::INTR) => continue,
                Err(_) => Sent::Reset,
            };
        }
    }

    fn want_writable(&mut self, stream: &AcceptedStream, token: Token, want: bool) {
        let flags = if want { INPUT | epoll::EventFlags::OUT } else { INPUT };
        // A registered socket of this thread can always be modified. If the kernel refuses nevertheless, the connection
        // stalls and its owner's timeout closes it.
        let _ = epoll::modify(&self.fd, stream, epoll::EventData::new_u64(token.0), flags);
    }

    fn shutdown_send(&mut self, stream: &AcceptedStream) {
        let _ = rustix::net::shutdown(stream, Shutdown::Write);
    }

    fn submit(&mut self) {}
}
