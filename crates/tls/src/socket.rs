//! A socket with or without TLS, for a server of few connections with an event loop of its own, such as the admin port.
//!
//! Workers use [`crate::Secure`], which holds no buffers in idle connections. Here the library's own buffers suffice.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustls::{HandshakeKind, InvalidMessage, ServerConnection, Stream};

use crate::certificates::session_end::SessionEnd;
use crate::connection::HANDSHAKE_RECORD;
use crate::failure::HandshakeFailure;
use crate::shared::{Application, Tls};

/// A non-blocking socket with or without TLS. The handshake is part of the first reads.
#[derive(Debug)]
pub struct SecureSocket {
    socket: TcpStream,
    secured: Option<Secured>,
}

#[derive(Debug)]
struct Secured {
    tls: Arc<Tls>,
    connection: Box<ServerConnection>,
    session_end: SessionEnd,
    is_shaking: bool,
    /// True if the peer's first byte begins a handshake.
    has_begun: bool,
}

impl Secured {
    /// Calls `work` with the stream over `socket`.
    fn stream<T>(
        &mut self,
        socket: &mut TcpStream,
        work: impl FnOnce(&mut Stream<'_, ServerConnection, TcpStream>) -> io::Result<T>,
    ) -> io::Result<T> {
        let Self { connection, session_end, .. } = self;
        session_end.with(|| work(&mut Stream::new(&mut **connection, socket)))
    }
}

impl SecureSocket {
    /// Takes over a socket whose peer uses no TLS.
    pub const fn plain(socket: TcpStream) -> Self {
        Self { socket, secured: None }
    }

    /// Takes over a socket whose peer begins a handshake.
    ///
    /// # Errors
    /// If the library cannot create a connection.
    pub fn secured(socket: TcpStream, tls: &Arc<Tls>) -> io::Result<Self> {
        let connection = ServerConnection::new(tls.config(Application::default())).map_err(io::Error::other)?;
        let secured = Secured {
            tls: Arc::clone(tls),
            connection: Box::new(connection),
            session_end: SessionEnd::default(),
            is_shaking: true,
            has_begun: false,
        };
        Ok(Self { socket, secured: Some(secured) })
    }

    /// Returns true if records wait until the socket accepts bytes.
    pub fn wants_write(&self) -> bool {
        self.secured.as_ref().is_some_and(|secured| secured.connection.wants_write())
    }

    /// Returns true if `error` of a read or write means that the peer does not use TLS. It can read plain bytes then.
    pub fn is_not_tls(error: &io::Error) -> bool {
        let error = error.get_ref().and_then(|inner| inner.downcast_ref());
        matches!(error, Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)))
    }

    /// Sends bytes without TLS, to a peer that does not use it. First reads what the peer has sent: closing over unread
    /// bytes would reset the connection, and could lose the answer.
    pub fn write_plain(&mut self, bytes: &[u8]) {
        let _ = self.socket.read(&mut [0; 8192]);
        let _ = self.socket.write(bytes);
    }

    /// Ends the sending side, with a close_notify if the peer uses TLS. Records that the socket does not accept now are
    /// lost.
    pub fn end(&mut self) {
        if let Some(secured) = &mut self.secured {
            secured.connection.send_close_notify();
            let _ = secured.connection.write_tls(&mut self.socket);
        }
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Records the end of the handshake, successful or not, from the result of a read or write.
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        let Some(Secured { tls, connection, is_shaking: is_shaking @ true, .. }) = &mut self.secured else {
            return result;
        };
        if !connection.is_handshaking() {
            *is_shaking = false;
            let is_resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
            if is_resumed { &tls.figures.resumed } else { &tls.figures.full }.fetch_add(1, Relaxed);
        } else if let Err(error) = &result
            && error.kind() != io::ErrorKind::WouldBlock
        {
            *is_shaking = false;
            let failure = match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                _ if Self::is_not_tls(error) => HandshakeFailure::not_tls(),
                Some(error) => HandshakeFailure::of(error),
                None => HandshakeFailure::closed(),
            };
            tls.fail(self.socket.peer_addr().ok(), &failure);
        }
        result
    }
}

impl Read for SecureSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(secured) = &mut self.secured else { return self.socket.read(into) };
        if !secured.has_begun {
            // The library would reply with an alert, which a client without TLS cannot read.
            let mut first = [0];
            match self.socket.peek(&mut first)? {
                0 => return Ok(0),
                _ if first[0] != HANDSHAKE_RECORD => {
                    let error = rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType);
                    return self.note(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
                }
                _ => secured.has_begun = true,
            }
        }
        let result = secured.stream(&mut self.socket, |stream| stream.read(into));
        self.note(result)
    }
}

impl Write for SecureSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(secured) = &mut self.secured else { return self.socket.write(bytes) };
        let result = secured.stream(&mut self.socket, |stream| stream.write(bytes));
        self.note(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(secured) = &mut self.secured else { return Ok(()) };
        secured.stream(&mut self.socket, |stream| stream.flush())
    }
}

impl AsFd for SecureSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
