//! The admin port's loop: one thread, non-blocking sockets, a deadline for each connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::http::{BODY_BYTES_MAX, HEAD_BYTES_MAX, ParsedHttp, Response, parse};
use super::page::Pages;
use command::clients::source::ClientSource;
use tls::{SecureSocket, Tls};

/// The maximum number of simultaneous admin connections.
pub const CONNECTIONS_MAX: usize = 16;
/// The time limit for a peer to send its request. The same limit applies again to reading the response.
pub const DEADLINE: Duration = Duration::from_secs(5);
/// The pause after the kernel refused to accept a connection.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// The maximum number of reads of what a peer sent beyond its request.
const REST_READS_MAX: usize = 32;

/// The connection of one peer.
struct Connection {
    stream: SecureSocket,
    /// True if the peer is on this machine.
    local: bool,
    source: ClientSource,
    deadline: Instant,
    state: AdminState,
}

enum AdminState {
    /// The request bytes received so far.
    Reading(Vec<u8>),
    /// The response, and the number of its bytes that are sent.
    Writing(Vec<u8>, usize),
    /// The connection will be dropped.
    Over,
}

/// The state of the admin port's loop.
pub struct Server {
    listener: TcpListener,
    stop: UnixStream,
    pages: Pages,
    /// The certificates, if connections use TLS.
    tls: Option<Arc<Tls>>,
    connections: Vec<Connection>,
    accept_from: Instant,
}

impl Server {
    /// Creates a server for connections to `listener`, which use TLS if `tls` is given. The server ends when the other
    /// end of `stop` is closed. Both sockets must be non-blocking.
    pub fn new(listener: TcpListener, stop: UnixStream, pages: Pages, tls: Option<Arc<Tls>>) -> Self {
        let connections = Vec::with_capacity(CONNECTIONS_MAX);
        Self { listener, stop, pages, tls, connections, accept_from: Instant::now() }
    }

    /// Serves until the server is stopped. Returns the listener.
    pub fn run(mut self) -> TcpListener {
        while !self.stopped() {
            let ready = self.wait();
            let now = Instant::now();
            self.pages.tick(now);
            for (connection, ready) in self.connections.iter_mut().zip(&ready.connections) {
                if *ready {
                    connection.advance(&mut self.pages, now);
                }
                if now >= connection.deadline {
                    connection.time_out(now);
                }
            }
            self.connections.retain(|connection| !matches!(connection.state, AdminState::Over));
            if ready.listener {
                self.accept(now);
            }
        }
        self.listener
    }

    fn stopped(&mut self) -> bool {
        matches!(self.stop.read(&mut [0]), Ok(0))
    }

    /// Waits until a socket is ready or a deadline is reached.
    fn wait(&self) -> Ready {
        let now = Instant::now();
        let accepting = now >= self.accept_from;
        let due = self.connections.iter().map(|connection| connection.deadline).chain([self.pages.due()]);
        let due = due.chain((!accepting).then_some(self.accept_from)).min().expect("a reading is always due");
        let timeout = Timespec::try_from(due.saturating_duration_since(now)).expect("no deadline is years away");
        let mut descriptors = Vec::with_capacity(CONNECTIONS_MAX + 2);
        descriptors.push(PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN));
        let wanted = if accepting { PollFlags::IN } else { PollFlags::empty() };
        descriptors.push(PollFd::from_borrowed_fd(self.listener.as_fd(), wanted));
        for connection in &self.connections {
            let wanted = match connection.state {
                AdminState::Reading(_) if connection.stream.wants_write() => PollFlags::IN | PollFlags::OUT,
                AdminState::Reading(_) => PollFlags::IN,
                AdminState::Writing(..) | AdminState::Over => PollFlags::OUT,
            };
            descriptors.push(PollFd::from_borrowed_fd(connection.stream.as_fd(), wanted));
        }
        if poll(&mut descriptors, Some(&timeout)).is_err() {
            // A signal interrupted the wait, or kernel memory is short: check the deadlines again.
            return Ready::default();
        }
        let ready: Vec<bool> = descriptors.iter().map(|descriptor| !descriptor.revents().is_empty()).collect();
        Ready { listener: ready[1] && accepting, connections: ready[2..].to_vec() }
    }

    fn accept(&mut self, now: Instant) {
        match self.listener.accept() {
            Ok((stream, peer)) if stream.set_nonblocking(true).is_ok() => {
                if self.connections.len() == CONNECTIONS_MAX {
                    self.make_room();
                }
                let Some(stream) = self.secure(stream) else { return };
                let state = AdminState::Reading(Vec::new());
                self.connections.push(Connection {
                    stream,
                    local: peer.ip().to_canonical().is_loopback(),
                    source: ClientSource::of(Some(peer)),
                    deadline: now + DEADLINE,
                    state,
                });
            }
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.accept_from = now + ACCEPT_REST,
        }
    }

    /// Returns the socket with TLS, if connections use it; `None` if the library refuses.
    fn secure(&self, socket: TcpStream) -> Option<SecureSocket> {
        match &self.tls {
            None => Some(SecureSocket::plain(socket)),
            Some(tls) => SecureSocket::secured(socket, tls).ok(),
        }
    }

    /// Drops the connection with the earliest deadline, which has been idle for longest.
    fn make_room(&mut self) {
        let first = (0..self.connections.len()).min_by_key(|index| self.connections[*index].deadline);
        self.connections.swap_remove(first.expect("a full table is not empty"));
    }
}

/// The readiness of the listener and of each connection, as [`Server::wait`] reports it.
#[derive(Default)]
struct Ready {
    listener: bool,
    connections: Vec<bool>,
}

impl Connection {
    /// Advances the connection as far as possible without blocking.
    fn advance(&mut self, pages: &mut Pages, now: Instant) {
        // The socket is read until it is empty: bytes that TLS has decrypted would not make it readable again.
        while let AdminState::Reading(bytes) = &mut self.state {
            let mut chunk = [0; 2048];
            match self.stream.read(&mut chunk) {
                Ok(0) => self.state = AdminState::Over,
                Ok(count) => {
                    let room = HEAD_BYTES_MAX + BODY_BYTES_MAX - bytes.len();
                    bytes.extend_from_slice(&chunk[..count.min(room)]);
                    match parse(bytes, |name| pages.is_admin_host(name)) {
                        ParsedHttp::Partial => {}
                        ParsedHttp::Request { path, query, delete, body, credentials, .. }
                            if delete || body.is_some() =>
                        {
                            let response = if self.local {
                                pages.change(&path, &query, body.as_deref(), credentials.as_ref(), self.source)
                            } else {
                                Response::text(403, "only this machine may change anything here\n")
                            };
                            self.answer(&response, false, now);
                        }
                        ParsedHttp::Request { path, query, head_only, .. } => {
                            self.answer(&pages.answer(&path, &query, now), head_only, now);
                        }
                        ParsedHttp::Refused(response) => self.answer(&response, false, now),
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failed(&error);
                    break;
                }
            }
        }
        if let AdminState::Writing(bytes, sent) = &mut self.state {
            if *sent < bytes.len() {
                match self.stream.write(&bytes[*sent..]) {
                    Ok(count) => *sent += count,
                    Err(error) => return self.failed(&error),
                }
            }
            if *sent == bytes.len() {
                match self.stream.flush() {
                    Ok(()) => self.finish(),
                    Err(error) => self.failed(&error),
                }
            }
        }
    }

    fn answer(&mut self, response: &Response, head_only: bool, now: Instant) {
        self.deadline = now + DEADLINE;
        self.state = AdminState::Writing(response.bytes(head_only), 0);
    }

    /// Closes a connection whose response is sent. First reads what the peer sent beyond its request: closing over
    /// unread bytes would reset the connection, and could lose the response.
    fn finish(&mut self) {
        let mut rest = [0; 2048];
        for _ in 0..REST_READS_MAX {
            if !matches!(self.stream.read(&mut rest), Ok(1..)) {
                break;
            }
        }
        self.stream.end();
        self.state = AdminState::Over;
    }

    fn failed(&mut self, error: &std::io::Error) {
        if SecureSocket::is_not_tls(error) {
            self.stream.write_plain(&Response::text(400, "this port uses TLS: request https://\n").bytes(false));
        }
        if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) {
            self.state = AdminState::Over;
        }
    }

    /// Ends a connection at its deadline. A peer that has begun a request gets an error. A peer that does not read its
    /// response is dropped.
    fn time_out(&mut self, now: Instant) {
        match &self.state {
            AdminState::Reading(bytes) if !bytes.is_empty() => {
                self.answer(&Response::text(408, "the request did not arrive within 5 s\n"), false, now);
                // `advance` sends the response once the socket is writable.
            }
            _ => self.state = AdminState::Over,
        }
    }
}
