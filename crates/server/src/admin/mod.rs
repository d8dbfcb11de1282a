//! The admin port: metrics, health, slow requests and the running configuration over HTTP, on a separate thread.
//!
//! ```text
//!   poll ──> listener: accepts a connection; at CONNECTIONS_MAX, drops the connection with the earliest deadline
//!        ──> every ten seconds: reads all latency recorders, for the latencies of the last minute
//! ```
//! Invariants: no worker waits for the admin port. A peer that sends or reads slowly holds one bounded connection until
//! its deadline, and does not delay other responses. The number of series in a response is bounded.

mod figures;
mod host;
mod hot;
mod http;
mod json;
mod namespaces;
mod page;
mod prometheus;
mod put;
mod serve;
mod threads;
pub(crate) mod time;
mod users;

use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::config::Settings;
use crate::config::file::Origins;
use crate::shared::Shared;
use crate::start::sandbox::{self, Role};

/// The settings that the server runs with, and the origin of each setting. `/config` shows them, and a reload replaces
/// them.
pub type RunningSettings = Arc<Mutex<(Settings, Origins)>>;

/// An admin port that is bound but does not serve yet. The port is bound before any thread starts, so that a port in
/// use is detected early.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    addr: SocketAddr,
}

impl Bound {
    /// Binds to `addr`.
    ///
    /// # Errors
    /// If the kernel refuses the address: it is in use, not permitted, or does not exist on this host.
    pub fn bind(addr: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::from(io::listen::bind_patiently(|| io::listen::bind_tcp(addr, false))?);
        listener.set_nonblocking(true)?;
        if addr.port() == 0 {
            // Another process may bind a free port too until one of them listens. The server would then end after its
            // other listeners have accepted clients. Early connections wait until the port serves.
            io::listen::listen(listener.as_fd(), io::listen::BACKLOG)?;
        }
        let addr = listener.local_addr()?;
        Ok(Self { listener, addr })
    }

    /// Adopts the listening socket of another process as the admin port.
    ///
    /// # Errors
    /// If the descriptor is not that of a listening socket.
    pub fn adopt(fd: std::os::fd::OwnedFd) -> std::io::Result<Self> {
        let listener = TcpListener::from(fd);
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        Ok(Self { listener, addr })
    }

    /// Returns the listening address, with the port that the kernel chose if port 0 was requested.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Begins to listen and to serve, on a separate thread.
    ///
    /// # Errors
    /// If no file descriptor or thread is available, or another process was bound at the same moment and listens now.
    pub fn start(self, shared: Arc<Shared>, settings: RunningSettings) -> std::io::Result<Admin> {
        io::listen::listen(self.listener.as_fd(), io::listen::BACKLOG)?;
        let (ours, theirs) = UnixStream::pair()?;
        theirs.set_nonblocking(true)?;
        let is_tls = settings.lock().unwrap_or_else(PoisonError::into_inner).0.admin.is_tls();
        let tls = shared.tls().filter(|_| is_tls).cloned();
        let server = serve::Server::new(self.listener, theirs, page::Pages::new(shared, settings), tls);
        let thread = sandbox::spawn("admin", Role::Admin, move || server.run())?;
        Ok(Admin { addr: self.addr, stop: Some(ours), thread: Some(thread) })
    }
}

/// An admin port that serves. Dropping this value ends the service.
#[derive(Debug)]
pub struct Admin {
    addr: SocketAddr,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<TcpListener>>,
}

impl Admin {
    /// Returns the listening address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops serving, while the socket still listens. Returns `None` if the thread has already ended, for instance by a
    /// panic.
    pub fn pause(mut self) -> Option<Bound> {
        self.stop = None;
        let listener = self.thread.take()?.join().ok()?;
        Some(Bound { listener, addr: self.addr })
    }
}

impl AsFd for Bound {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        // Closing this end of the socket pair makes the thread stop.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server whose admin port another process took after it was bound ended after it had accepted clients.
    #[test]
    fn free_port_that_the_kernel_chose_is_not_given_to_another_socket() {
        let bound = Bound::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let error = io::listen::bind_tcp(bound.addr(), false).expect_err("the port is in use");
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    }
}
