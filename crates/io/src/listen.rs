//! TCP and unix listening sockets, and the streams that they accept.

use crate::waker::Waker;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum number of connections that the kernel completes before they are accepted.
pub const BACKLOG: i32 = 1024;

/// The time for which a starting server retries to bind an address in use. The kernel may still be tearing down a
/// killed process that used it. The server retries to lock a file of such a process for the same time.
pub const ADDRESS_WAIT: Duration = Duration::from_secs(1);
/// Pause between two attempts to bind.
const ADDRESS_TRY: Duration = Duration::from_millis(10);

/// Calls `bind`, and retries for [`ADDRESS_WAIT`] while the address is in use.
///
/// # Errors
/// If `bind` fails.
pub fn bind_patiently<T>(mut bind: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    let end = Instant::now() + ADDRESS_WAIT;
    loop {
        match bind() {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < end => {
                std::thread::sleep(ADDRESS_TRY);
            }
            bound => return bound,
        }
    }
}

/// The number of questions without a reply after which a peer counts as gone.
const KEEPALIVE_QUESTIONS: u32 = 3;

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    /// A TCP address. Port 0 means any free port.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix {
        /// Path of the socket file. An existing socket on which no process listens is replaced.
        path: PathBuf,
        /// Permission bits of the socket file.
        mode: u32,
    },
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix { path, .. } => write!(f, "unix:{}", path.display()),
        }
    }
}

/// An accepted connection: non-blocking, close-on-exec.
#[derive(Debug)]
pub struct AcceptedStream {
    fd: OwnedFd,
    /// Index of the slot in which the attached back end stores its state; [`NO_SLOT`] if there is none.
    slot: Cell<u32>,
    peer: Option<SocketAddr>,
}

const NO_SLOT: u32 = u32::MAX;

impl AcceptedStream {
    fn new(fd: OwnedFd, peer: Option<SocketAddr>) -> Self {
        Self { fd, slot: Cell::new(NO_SLOT), peer }
    }

    /// Takes over a connection that another process accepted.
    ///
    /// # Errors
    /// If the descriptor is not a connected socket.
    pub fn adopt(fd: OwnedFd) -> std::io::Result<Self> {
        let peer = net::getpeername(&fd)?;
        Ok(Self::new(fd, peer.and_then(|peer| SocketAddr::try_from(peer).ok())))
    }

    /// Returns the peer's address; `None` for a unix socket.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Returns the number of the file descriptor.
    pub fn descriptor(&self) -> u32 {
        // An open descriptor is never negative.
        self.fd.as_raw_fd().unsigned_abs()
    }

    /// Returns the local address; `None` for a unix socket. Makes a system call.
    pub fn local(&self) -> Option<SocketAddr> {
        rustix::net::getsockname(&self.fd).ok()?.try_into().ok()
    }

    pub(crate) fn slot(&self) -> Option<u32> {
        (self.slot.get() != NO_SLOT).then_some(self.slot.get())
    }

    pub(crate) fn set_slot(&self, slot: u32) {
        assert_ne!(slot, NO_SLOT, "NO_SLOT stands for no slot");
        self.slot.set(slot);
    }

    /// Marks that the back end has no operation left that names this descriptor.
    pub(crate) fn clear_slot(&self) {
        self.slot.set(NO_SLOT);
    }
}

impl Drop for AcceptedStream {
    /// A stream must not be dropped while attached: the kernel's operations would continue on the next file that gets
    /// this descriptor number.
    fn drop(&mut self) {
        debug_assert!(
            self.slot().is_none() || std::thread::panicking(),
            "an attached stream is closed by its back end"
        );
    }
}

impl AsFd for AcceptedStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A socket that is bound to an address. Clients can connect after it listens. Before that, the kernel refuses
/// connections, so that clients can try another server.
///
/// Dropping the listener closes the socket. It also removes the file of a unix socket, unless another process shares
/// the socket.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    addr: ListenAddr,
    /// The identity of the socket file that this process created.
    file: Option<FileId>,
    /// True if the socket listens.
    listens: bool,
    /// True if another process may continue to listen on the socket.
    is_shared: bool,
}

/// Identity of a file: its device and its inode number.
type FileId = (u64, u64);

fn file_id(path: &Path) -> std::io::Result<FileId> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::symlink_metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

/// The result of a [`Listener::accept`].
#[derive(Debug)]
pub enum Accepted {
    /// A new connection.
    Stream(AcceptedStream),
    /// No connection is waiting.
    Empty,
    /// The process or the machine has no file descriptor left. An immediate retry would fail in the same way.
    NoDescriptor,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let ListenAddr::Unix { path, .. } = &self.addr
            && !self.is_shared
            && self.has_its_file()
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Listener {
    /// Binds a socket to an address and listens.
    ///
    /// # Errors
    /// If the kernel reports an error: address in use, permission denied, no such directory.
    pub fn open(addr: &ListenAddr) -> std::io::Result<Self> {
        let mut listener = Self::bind(addr, false)?;
        listener.listen(BACKLOG)?;
        Ok(listener)
    }

    /// Binds a socket to an address. With `ipv6_only`, an IPv6 address accepts no IPv4 clients, so that both wildcard
    /// addresses can be bound.
    ///
    /// # Errors
    /// If the kernel reports an error: address in use, permission denied, no such directory.
    pub fn bind(addr: &ListenAddr, ipv6_only: bool) -> std::io::Result<Self> {
        match addr {
            ListenAddr::Tcp(addr) => {
                let fd = bind_tcp(*addr, ipv6_only)?;
                let bound = SocketAddr::try_from(net::getsockname(&fd)?)?;
                Ok(Self { fd, addr: ListenAddr::Tcp(bound), file: None, listens: false, is_shared: false })
            }
            ListenAddr::Unix { path, mode } => Self::bind_unix(path.clone(), *mode),
        }
    }

    /// Sets the time without packets after which the kernel asks a peer whether it is still there. If a peer does not
    /// reply to three such questions, each after a third of this time, its connection ends. Zero leaves the kernel's
    /// default. The connections that are accepted later have this setting.
    ///
    /// # Errors
    /// If the kernel refuses the time.
    pub fn keep_alive(&self, idle: Duration) -> std::io::Result<()> {
        if idle.is_zero() || matches!(self.addr, ListenAddr::Unix { .. }) {
            return Ok(());
        }
        sockopt::set_tcp_keepidle(&self.fd, idle)?;
        sockopt::set_tcp_keepintvl(&self.fd, (idle / KEEPALIVE_QUESTIONS).max(Duration::from_secs(1)))?;
        Ok(sockopt::set_tcp_keepcnt(&self.fd, KEEPALIVE_QUESTIONS)?)
    }

    /// Starts to listen. At most `backlog` connections wait to be accepted.
    ///
    /// # Errors
    /// `AddrInUse` if another process bound the same address at the same time and listens already. Otherwise the
    /// kernel's error.
    pub fn listen(&mut self, backlog: i32) -> std::io::Result<()> {
        if !self.listens && !self.has_its_file() {
            return Err(std::io::ErrorKind::AddrInUse.into());
        }
        listen(self.fd.as_fd(), backlog)?;
        self.listens = true;
        Ok(())
    }

    /// Returns true if the path still names the socket file that this process created. Another process that starts at
    /// the same time may have replaced the file, because no process listened on it yet.
    fn has_its_file(&self) -> bool {
        match (&self.addr, self.file) {
            (ListenAddr::Unix { path, .. }, Some(made)) => file_id(path).is_ok_and(|there| there == made),
            _ => true,
        }
    }

    fn bind_unix(path: PathBuf, mode: u32) -> std::io::Result<Self> {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt};
        if std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.file_type().is_socket()) {
            if std::os::unix::net::UnixStream::connect(&path).is_ok() {
                return Err(std::io::ErrorKind::AddrInUse.into());
            }
            std::fs::remove_file(&path)?;
        }
        let fd = socket(AddressFamily::UNIX)?;
        net::bind(&fd, &SocketAddrUnix::new(&path)?)?;
        let file = Some(file_id(&path)?);
        let addr = ListenAddr::Unix { path: path.clone(), mode };
        let listener = Self { fd, addr, file, listens: false, is_shared: false };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        Ok(listener)
    }

    /// Takes over the socket of `addr` on which another process listens. It counts as shared until [`Listener::share`]
    /// changes that.
    pub fn adopt(fd: OwnedFd, addr: ListenAddr) -> Self {
        Self { fd, addr, file: None, listens: true, is_shared: true }
    }

    /// Sets whether another process shares the socket. If so, dropping it leaves the file of a unix socket in place.
    pub fn share(&mut self, is_shared: bool) {
        self.is_shared = is_shared;
    }

    /// Returns the bound address. Port 0 is replaced by the real port.
    pub fn addr(&self) -> &ListenAddr {
        &self.addr
    }

    /// Accepts the next waiting connection. Never blocks.
    pub fn accept(&self) -> Accepted {
        loop {
            return match net::acceptfrom_with(&self.fd, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok((fd, peer)) => {
                    Accepted::Stream(AcceptedStream::new(fd, peer.and_then(|peer| SocketAddr::try_from(peer).ok())))
                }
                Err(Errno::AGAIN) => Accepted::Empty,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => Accepted::NoDescriptor,
                // The peer disconnected before it was accepted, or a signal arrived. Accepting the next connection may
                // succeed.
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO | Errno::PERM) => continue,
                Err(_) => Accepted::Empty,
            };
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Creates a TCP socket and binds it to an address. It does not listen yet.
///
/// # Errors
/// If the kernel reports an error: address in use, permission denied, no such address.
pub fn bind_tcp(addr: SocketAddr, ipv6_only: bool) -> std::io::Result<OwnedFd> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket(family)?;
    // The kernel may give one free port to two sockets that have this option and do not listen yet. So a socket that
    // asks for any free port gets the option after it has a port: its connections need it for the next start of a
    // server on that port, while they are in TIME_WAIT.
    let is_port_chosen = addr.port() != 0;
    sockopt::set_socket_reuseaddr(&fd, is_port_chosen)?;
    // Linux passes these options on to accepted sockets, which saves two calls for each connection.
    sockopt::set_tcp_nodelay(&fd, true)?;
    sockopt::set_socket_keepalive(&fd, true)?;
    if addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, ipv6_only)?;
    }
    net::bind(&fd, &addr)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    Ok(fd)
}

/// Starts to listen on a bound socket.
///
/// # Errors
/// `AddrInUse` if another socket has started to listen on that address meanwhile.
pub fn listen(fd: BorrowedFd<'_>, backlog: i32) -> std::io::Result<()> {
    Ok(net::listen(fd, backlog)?)
}

fn socket(family: AddressFamily) -> std::io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(net::socket_with(family, SocketType::STREAM, flags, None)?)
}

impl AcceptedStream {
    /// Sends as much of `line` as the socket accepts at once, then closes the connection. For a refused client.
    pub fn refuse(self, line: &[u8]) {
        let _ = net::send(&self.fd, line, net::SendFlags::NOSIGNAL);
        let _ = net::shutdown(&self.fd, net::Shutdown::Write);
    }
}

/// Waits until a listener has a connection, `waker` was rung, or `timeout` has passed.
///
/// Fills `ready` with the indexes of the listeners that have a connection. Allocates, so only an acceptor's thread may
/// use it.
pub fn wait(
    listeners: &[Listener],
    waker: &Waker,
    timeout: Option<Duration>,
    ready: &mut Vec<usize>,
) -> std::io::Result<()> {
    ready.clear();
    let mut fds: Vec<PollFd<'_>> = listeners.iter().map(|l| PollFd::new(l, PollFlags::IN)).collect();
    fds.push(PollFd::new(waker, PollFlags::IN));
    let timeout =
        timeout.map(|t| rustix::event::Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let rung = fds.last().is_some_and(|fd| !fd.revents().is_empty());
    ready.extend((0..listeners.len()).filter(|i| !fds[*i].revents().is_empty()));
    if rung {
        waker.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_socket_has_nodelay_and_keepalive() {
        let listener = Listener::open(&ListenAddr::Tcp(([127, 0, 0, 1], 0).into())).expect("a free port");
        let ListenAddr::Tcp(addr) = *listener.addr() else { panic!("a TCP address") };
        let client = std::net::TcpStream::connect(addr).expect("connects");
        let stream = loop {
            match listener.accept() {
                Accepted::Stream(stream) => break stream,
                Accepted::Empty => std::thread::yield_now(),
                Accepted::NoDescriptor => panic!("no descriptor is left"),
            }
        };
        assert_eq!(sockopt::tcp_nodelay(&stream), Ok(true));
        assert_eq!(sockopt::socket_keepalive(&stream), Ok(true));
        assert_eq!(stream.peer(), client.local_addr().ok());
    }

    #[test]
    fn sockets_that_ask_for_any_free_port_get_different_ports() {
        let any = ListenAddr::Tcp(([127, 0, 0, 1], 0).into());
        let bound: Vec<Listener> = (0..500).map(|_| Listener::bind(&any, false).expect("a free port")).collect();
        let ports: std::collections::HashSet<String> = bound.iter().map(|one| format!("{:?}", one.addr())).collect();
        assert_eq!(ports.len(), bound.len());
    }

    #[test]
    fn connection_to_a_bound_socket_is_refused_until_it_listens() {
        let path = std::env::temp_dir().join(format!("gannet-listen-{}", std::process::id()));
        for addr in [ListenAddr::Tcp(([127, 0, 0, 1], 0).into()), ListenAddr::Unix { path, mode: 0o600 }] {
            let mut bound = Listener::bind(&addr, false).expect("a free address");
            let addr = bound.addr().clone();
            let connects = || match &addr {
                ListenAddr::Tcp(addr) => std::net::TcpStream::connect(addr).map(drop),
                ListenAddr::Unix { path, .. } => std::os::unix::net::UnixStream::connect(path).map(drop),
            };
            let refused = connects().expect_err("nobody listens");
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
            // Two sockets that start at the same time are both bound; only one of them listens.
            let mut other = Listener::bind(bound.addr(), false).expect("no socket listens yet");
            other.listen(1).expect("no other socket listens");
            assert_eq!(bound.listen(1).expect_err("taken").kind(), std::io::ErrorKind::AddrInUse);
            connects().expect("the other socket listens");
            // A socket that already listens continues, whatever happens to its file.
            if let ListenAddr::Unix { path, .. } = &addr {
                let aside = path.with_extension("aside");
                std::fs::rename(path, &aside).expect("the socket file exists");
                other.listen(1).expect("it listens");
                std::fs::rename(aside, path).expect("the socket file exists");
            }
            drop(bound);
            match other.addr().clone() {
                ListenAddr::Unix { path, .. } => {
                    assert!(path.exists(), "the file belongs to the other listener");
                    drop(other);
                    assert!(!path.exists());
                }
                ListenAddr::Tcp(_) => drop(other),
            }
        }
    }
}
