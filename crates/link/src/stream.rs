//! A blocking connection: bytes in both directions over a non-blocking socket, with or without TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags};

use crate::address::{Address, connect_tcp};
use crate::channel::{Channel, Handshake, Moved, RECORDS_BYTES, ROOM_BYTES};
use crate::tls::{Maker, TlsSettings};

/// A connection. Its [`Read`] and [`Write`] wait for the server, at most for the time limit.
#[derive(Debug)]
pub struct ServerStream {
    socket: OwnedFd,
    secured: Option<SecuredStream>,
    timeout: Duration,
}

/// The TLS state of a connection.
#[derive(Debug)]
struct SecuredStream {
    channel: Channel,
    settings: TlsSettings,
    /// Buffer for records while they are read.
    records: Box<[u8]>,
    /// Decrypted bytes that [`Read`] has no room for yet, from `plain_begin` on.
    plain: Vec<u8>,
    plain_begin: usize,
}

impl ServerStream {
    /// Connects to `address`, over TLS if `maker` is given and uses TLS for its first target. The connection attempt,
    /// the handshake and every later wait take at most `timeout` each.
    ///
    /// # Errors
    /// If the server cannot be reached or does not reply in time; a [`crate::tls::Failure`] if TLS fails.
    pub fn connect(address: &Address, maker: Option<&Maker>, timeout: Duration) -> io::Result<Self> {
        let socket: OwnedFd = match address {
            Address::Unix(path) => UnixStream::connect(path)?.into(),
            Address::Tcp(address) => {
                let stream = connect_tcp(address, timeout)?;
                stream.set_nodelay(true)?;
                stream.into()
            }
        };
        rustix::io::ioctl_fionbio(&socket, true)?;
        let mut stream = Self { socket, secured: None, timeout };
        if let Some(maker) = maker {
            stream.secure(maker)?;
        }
        Ok(stream)
    }

    fn secure(&mut self, maker: &Maker) -> io::Result<()> {
        let Some(mut channel) = maker.make(0, 0)? else { return Ok(()) };
        let end = Instant::now() + self.timeout;
        loop {
            let sending = match channel.shake(&self.socket, maker.settings())? {
                Handshake::Done => break,
                Handshake::WantsInput => false,
                Handshake::WantsOutput => true,
            };
            self.wait_within(sending, end.saturating_duration_since(Instant::now()))?;
        }
        let records = vec![0; RECORDS_BYTES].into();
        let settings = maker.settings().clone();
        self.secured = Some(SecuredStream { channel, settings, records, plain: Vec::new(), plain_begin: 0 });
        Ok(())
    }

    /// Changes the time limit of later waits.
    pub const fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Sends as many bytes from the front of `bytes` as the socket accepts now.
    pub(crate) fn send_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.secured {
            None => Ok(rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL)?),
            Some(secured) => moved(secured.channel.send(&self.socket, bytes)),
        }
    }

    /// Sends buffered bytes. Returns true if none remain.
    pub(crate) fn flush_now(&mut self) -> io::Result<bool> {
        self.secured.as_mut().map_or(Ok(true), |secured| secured.channel.flush(&self.socket))
    }

    /// Receives what has arrived. Returns 0 if the server has closed the connection. With TLS, `into` must have room
    /// for [`ROOM_BYTES`].
    pub(crate) fn receive_now(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.secured {
            None => Ok(rustix::net::recv(&self.socket, into, RecvFlags::empty())?.0),
            Some(SecuredStream { channel, settings, records, .. }) => {
                moved(channel.receive(&self.socket, settings, into, records).0)
            }
        }
    }

    /// Waits until the socket has input, or accepts output if `sending` is true.
    pub(crate) fn wait(&self, sending: bool) -> io::Result<()> {
        self.wait_within(sending, self.timeout)
    }

    fn wait_within(&self, sending: bool, timeout: Duration) -> io::Result<()> {
        if wait_for(&mut [self.interest(sending)], timeout)? { Ok(()) } else { Err(ErrorKind::TimedOut.into()) }
    }

    /// Returns the events to wait for: input, and also output if `sending` is true.
    pub(crate) fn interest(&self, sending: bool) -> PollFd<'_> {
        let flags = if sending { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        PollFd::from_borrowed_fd(self.socket.as_fd(), flags)
    }
}

/// Waits for one of the events, at most `timeout`. Returns false if the time is over.
pub(crate) fn wait_for(events: &mut [PollFd<'_>], timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    match poll(events, Some(&timeout)) {
        Ok(0) => Ok(false),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

impl SecuredStream {
    /// Copies decrypted bytes into `into`; decrypts more first if none are left.
    fn read(&mut self, socket: &OwnedFd, into: &mut [u8]) -> io::Result<usize> {
        if self.plain_begin == self.plain.len() {
            self.plain_begin = 0;
            self.plain.resize(2 * ROOM_BYTES, 0);
            let received = moved(self.channel.receive(socket, &self.settings, &mut self.plain, &mut self.records).0);
            self.plain.truncate(*received.as_ref().unwrap_or(&0));
            received?;
        }
        let plain = &self.plain[self.plain_begin..];
        let bytes = plain.len().min(into.len());
        into[..bytes].copy_from_slice(&plain[..bytes]);
        self.plain_begin += bytes;
        Ok(bytes)
    }
}

impl Read for ServerStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let received = match &mut self.secured {
                Some(secured) => secured.read(&self.socket, into),
                None => self.receive_now(into),
            };
            match received {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(false)?,
                result => return result,
            }
        }
    }
}

impl Write for ServerStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.send_now(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(true)?,
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.flush_now()? {
            self.wait(true)?;
        }
        Ok(())
    }
}

fn moved(moved: Moved) -> io::Result<usize> {
    match moved {
        Moved::Bytes(bytes) => Ok(bytes),
        Moved::Blocked => Err(ErrorKind::WouldBlock.into()),
        Moved::Closed => Ok(0),
        Moved::Broken(error) => Err(error),
    }
}
