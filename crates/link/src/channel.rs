//! TLS on one connection over a non-blocking socket: the handshake, and bytes in both directions.
//!
//! ```text
//!   send      bytes -> records -> socket     records that the socket does not accept stay queued and are sent first
//!   receive   socket -> records -> bytes     everything that has arrived: edge-triggered polling reports it once
//! ```
//!
//! Invariants: no more bytes are encrypted while records wait for the socket, so at most one buffer of records waits.
//! The end of the stream, or an error, is reported after the bytes that precede it.

use crate::tls::{Failure, TlsSettings};
use rustix::fd::OwnedFd;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use rustls::HandshakeKind;
use rustls::client::ClientConnection;
use std::io::{ErrorKind, IoSlice, Read, Write};

/// Number of bytes taken from a socket at once.
pub const RECORDS_BYTES: usize = 32 * 1024;
/// Largest number of decrypted bytes from one read of records, including earlier records that were buffered.
pub(crate) const ROOM_BYTES: usize = 2 * RECORDS_BYTES;
/// Maximum number of bytes stored from the beginning of the server's reply, to show them if they are not TLS.
const FIRST_BYTES_MAX: usize = 64;

/// The progress of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// The connection is encrypted.
    Done,
    /// The handshake needs input from the peer.
    WantsInput,
    /// The handshake needs the socket to accept output.
    WantsOutput,
}

/// The way in which a connection ended.
#[derive(Debug)]
enum ConnectionEnd {
    Closed,
    Broken(std::io::Error),
}

/// The result of a send or receive on a non-blocking socket.
#[derive(Debug)]
pub enum Moved {
    /// The number of bytes that were sent or received, at least 1.
    Bytes(usize),
    /// No bytes were sent or received now: the socket must become readable or writable first.
    Blocked,
    /// The peer closed the connection normally.
    Closed,
    /// The connection failed.
    Broken(std::io::Error),
}

/// The TLS parameters of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secured {
    /// Duration of the handshake in nanoseconds.
    pub took_ns: u64,
    /// The protocol and its version, such as `TLS 1.3`.
    pub version: &'static str,
    /// The cipher suite.
    pub cipher: &'static str,
    /// True if an earlier session was resumed.
    pub resumed: bool,
}

/// TLS on one connection.
pub struct Channel {
    tls: ClientConnection,
    begun_ns: u64,
    took_ns: u64,
    first: Vec<u8>,
    ended: Option<ConnectionEnd>,
}

/// A socket as the [`Read`] and [`Write`] that the TLS library needs.
struct TlsSocket<'a>(&'a OwnedFd);

impl Read for TlsSocket<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::net::recv(self.0, &mut *into, RecvFlags::empty()))?.0)
    }
}

impl Write for TlsSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL))?)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> std::io::Result<usize> {
        let send = || rustix::net::sendmsg(self.0, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL);
        Ok(rustix::io::retry_on_intr(send)?)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel").field("secured", &self.secured()).finish_non_exhaustive()
    }
}

impl Channel {
    /// Creates the channel for a connected socket. The duration of the handshake is counted from `now_ns`.
    pub(crate) fn new(tls: ClientConnection, now_ns: u64) -> Self {
        Self { tls, begun_ns: now_ns, took_ns: 0, first: Vec::new(), ended: None }
    }

    /// Continues the handshake as far as the socket allows.
    ///
    /// # Errors
    /// If the handshake fails; the error contains a [`Failure`] if TLS is the cause.
    pub fn shake(&mut self, socket: &OwnedFd, settings: &TlsSettings) -> std::io::Result<Handshake> {
        loop {
            if !self.flush(socket)? {
                return Ok(Handshake::WantsOutput);
            }
            if !self.tls.is_handshaking() {
                return Ok(Handshake::Done);
            }
            let mut records = [0; 4096];
            let count = match TlsSocket(socket).read(&mut records) {
                Ok(0) => return Err(Failure::closed().into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Handshake::WantsInput),
                Err(error) => return Err(error),
            };
            let room = FIRST_BYTES_MAX - self.first.len();
            self.first.extend_from_slice(&records[..count.min(room)]);
            if let Err(error) = self.take(&records[..count], |_| true) {
                // Sends the server an alert; whether it arrives is irrelevant.
                let _ = self.flush(socket);
                let failure = match error {
                    rustls::Error::InvalidMessage(_) if !is_tls(&self.first) => Failure::not_spoken(&self.first),
                    error => Failure::of(&error, settings),
                };
                return Err(failure.into());
            }
        }
    }

    /// Records that the handshake ended at `now_ns`.
    pub fn shaken(&mut self, now_ns: u64) {
        self.took_ns = now_ns.saturating_sub(self.begun_ns);
    }

    /// Decrypts `records`. After each piece, `drain` removes the decrypted bytes; it returns false if it has no room
    /// for them.
    fn take(
        &mut self,
        mut records: &[u8],
        mut drain: impl FnMut(&mut ClientConnection) -> bool,
    ) -> Result<(), rustls::Error> {
        while !records.is_empty() {
            // `read_tls` fails on a slice only if too many decrypted bytes wait to be read, and `drain` has removed
            // them.
            if self.tls.read_tls(&mut records).is_err() {
                return Err(rustls::Error::General("decrypted bytes are still waiting to be read".to_owned()));
            }
            self.tls.process_new_packets()?;
            if !drain(&mut self.tls) {
                return Err(rustls::Error::General("no room for decrypted bytes".to_owned()));
            }
        }
        Ok(())
    }

    /// Returns the TLS parameters of an encrypted connection.
    pub fn secured(&self) -> Secured {
        let version = match self.tls.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLS 1.3",
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLS 1.2",
            _ => "TLS",
        };
        let cipher = self.tls.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        Secured {
            took_ns: self.took_ns,
            version,
            cipher: cipher.unwrap_or("another cipher"),
            resumed: self.tls.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// Sends waiting TLS records. Returns false if TLS records still wait because the socket is full.
    ///
    /// # Errors
    /// If the socket failed.
    pub fn flush(&mut self, socket: &OwnedFd) -> std::io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut TlsSocket(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Returns whether records wait for the socket.
    pub fn is_waiting(&self) -> bool {
        self.tls.wants_write()
    }

    /// Encrypts bytes from the front of `bytes` and sends them. Returns the number of encrypted bytes. If
    /// [`Channel::is_waiting`] is then true, the caller must flush or send again when the socket accepts more.
    pub fn send(&mut self, socket: &OwnedFd, bytes: &[u8]) -> Moved {
        match self.flush(socket) {
            Ok(true) => {}
            Ok(false) => return Moved::Blocked,
            Err(error) => return Moved::Broken(error),
        }
        let mut taken = 0;
        while taken < bytes.len() {
            match self.tls.writer().write(&bytes[taken..]) {
                Ok(count) => taken += count,
                Err(error) => return Moved::Broken(error),
            }
            match self.flush(socket) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Moved::Broken(error),
            }
        }
        Moved::Bytes(taken)
    }

    /// Receives everything that has arrived into `into`. The second value is true if the caller must receive again,
    /// because `into` had too little room, or because the end of the stream or an error follows the bytes. `records` is
    /// a buffer for encrypted records.
    pub fn receive(
        &mut self,
        socket: &OwnedFd,
        settings: &TlsSettings,
        into: &mut [u8],
        records: &mut [u8],
    ) -> (Moved, bool) {
        let mut filled = 0;
        let mut has_more = false;
        while self.ended.is_none() {
            drain(&mut self.tls, into, &mut filled);
            if into.len() - filled < ROOM_BYTES {
                has_more = true;
                break;
            }
            let count = match TlsSocket(socket).read(records) {
                Ok(0) => {
                    self.ended = Some(ConnectionEnd::Closed);
                    break;
                }
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.ended = Some(ConnectionEnd::Broken(error));
                    break;
                }
            };
            let mut is_closed = false;
            let taken = self.take(&records[..count], |tls| {
                is_closed |= drain(tls, into, &mut filled);
                true
            });
            match taken {
                Err(error) => self.ended = Some(ConnectionEnd::Broken(Failure::of(&error, settings).into())),
                Ok(()) if is_closed => self.ended = Some(ConnectionEnd::Closed),
                Ok(()) if count < records.len() => break,
                Ok(()) => {}
            }
        }
        // Sends the reply to a key update, or the reason why the connection failed.
        let _ = self.flush(socket);
        match self.ended.take_if(|_| filled == 0) {
            Some(ConnectionEnd::Closed) => (Moved::Closed, false),
            Some(ConnectionEnd::Broken(error)) => (Moved::Broken(error), false),
            None if filled == 0 => (Moved::Blocked, has_more),
            None => (Moved::Bytes(filled), has_more || self.ended.is_some()),
        }
    }

    /// Notifies the peer that nothing more will be sent, if the socket accepts the notification now.
    pub fn close(&mut self, socket: &OwnedFd) {
        self.tls.send_close_notify();
        let _ = self.flush(socket);
    }
}

/// Moves decrypted bytes to `into`, from position `filled` on, and advances `filled`. Returns true if the peer has
/// ended the stream.
fn drain(tls: &mut ClientConnection, into: &mut [u8], filled: &mut usize) -> bool {
    while *filled < into.len() {
        match tls.reader().read(&mut into[*filled..]) {
            Ok(0) => return true,
            Ok(count) => *filled += count,
            Err(_) => return false,
        }
    }
    false
}

/// Returns true if `first` can begin a TLS record: an alert or a handshake message, with the major version 3.
fn is_tls(first: &[u8]) -> bool {
    matches!(first, [0x15 | 0x16, 0x03, ..])
}
