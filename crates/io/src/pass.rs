//! Messages with file descriptors between two processes of one user on one machine. A server uses them to hand over its
//! open files.
//!
//! ```text
//!   PassListener::bind(name)  <── connect ──  Pass::connect(name)       The name is in the abstract namespace of unix
//!          accept ──> Pass  <── messages, each with descriptors ──> Pass    sockets: no file remains afterwards.
//! ```
//!
//! Invariants:
//! - The peer belongs to this process's user or to the superuser; all other peers are refused. A process of the
//!   superuser accepts only the superuser. Otherwise it could hand other users files that they may not access, or
//!   accept replies from the wrong process.
//! - A process that connects is in the listener's user namespace and process namespace. A container with the network of
//!   its host also has the host's abstract sockets, and its superuser is the host's unless it has a user namespace.
//! - A message arrives whole with its descriptors, or not at all. It has at most [`MESSAGE_BYTES_MAX`] bytes and
//!   [`DESCRIPTORS_MAX`] descriptors.
//! - Received descriptors that the caller does not take are closed.
//! - No call waits for the peer longer than the caller's patience.

use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use crate::waker::Waker;
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, UCred, sockopt,
};
use rustix::process::Uid;

/// Maximum length of a message in bytes.
pub const MESSAGE_BYTES_MAX: usize = 96 << 10;
/// Maximum number of descriptors in one message.
pub const DESCRIPTORS_MAX: usize = 64;
/// Maximum length of a name in bytes.
pub const NAME_BYTES_MAX: usize = 107;
/// Pause before a send is retried because the socket had no room or too many descriptors of this user were in transit.
const CROWDED_REST: Duration = Duration::from_millis(1);

/// A listener for processes of the same user.
#[derive(Debug)]
pub struct PassListener(OwnedFd);

/// One end of a connection.
#[derive(Debug)]
pub struct Pass(OwnedFd);

/// A message with its descriptors.
#[derive(Debug)]
pub struct Message {
    /// The bytes of the message.
    pub bytes: Vec<u8>,
    /// The descriptors, in the order in which they were sent.
    pub descriptors: Vec<OwnedFd>,
}

fn socket() -> Result<OwnedFd> {
    Ok(net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

fn address(name: &[u8]) -> Result<SocketAddrUnix> {
    assert!(!name.is_empty() && name.len() <= NAME_BYTES_MAX, "a name of {} bytes", name.len());
    Ok(SocketAddrUnix::new_abstract_name(name)?)
}

fn refused<T>(why: String) -> Result<T> {
    Err(Error::new(ErrorKind::PermissionDenied, why))
}

fn check_user(peer: &UCred) -> Result<()> {
    if may_talk(rustix::process::geteuid(), peer.uid) {
        return Ok(());
    }
    refused(format!("the peer process belongs to user {}", peer.uid.as_raw()))
}

/// Reads a fact about the process with a number, or about `self`.
type ProcessFact = fn(&str) -> std::io::Result<String>;

/// Checks that a process which has connected is in this process's namespaces: that a number stands for the same user
/// and for the same process in both. The kernel reports for a listener the process that created it, which may have
/// ended, so the connecting process cannot check the other end.
///
/// The links in `/proc/PID/ns` would be simpler, but a process in a sandbox cannot read those of others.
fn check_namespaces(peer: &UCred) -> Result<()> {
    let theirs = peer.pid.as_raw_nonzero().to_string();
    let equal: [(&str, ProcessFact); 3] = [
        ("user", |pid| std::fs::read_to_string(format!("/proc/{pid}/uid_map"))),
        ("user", |pid| std::fs::read_to_string(format!("/proc/{pid}/gid_map"))),
        ("pid", |pid| Ok(pid_levels(&std::fs::read_to_string(format!("/proc/{pid}/status"))?).to_string())),
    ];
    for (kind, read) in equal {
        match read(&theirs) {
            Ok(theirs) if theirs == read("self")? => {}
            Ok(_) => return refused(format!("the peer process is in another {kind} namespace, as in a container")),
            Err(error) => return refused(format!("cannot read the {kind} namespace of the peer process: {error}")),
        }
    }
    Ok(())
}

/// Returns the number of PID namespaces, from that of the mounted `/proc` down, in which a process has a number.
fn pid_levels(status: &str) -> usize {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.map_or(0, |numbers| numbers.split_whitespace().count())
}

/// Returns true if the peer belongs to this process's user or to the superuser, which has all rights of that user.
fn may_talk(ours: Uid, theirs: Uid) -> bool {
    theirs == ours || theirs.is_root()
}

impl PassListener {
    /// Listens under a name.
    ///
    /// # Errors
    /// If the kernel reports an error. Most often another process already uses the name.
    pub fn bind(name: &[u8]) -> Result<Self> {
        let fd = socket()?;
        net::bind(&fd, &address(name)?)?;
        net::listen(&fd, 4)?;
        Ok(Self(fd))
    }

    /// Takes over a socket on which another process listened.
    pub fn adopt(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// If the kernel reports an error; `PermissionDenied` if the peer belongs to another user, or is in
    /// another namespace.
    pub fn accept(&self) -> Result<Pass> {
        let fd = loop {
            match net::accept_with(&self.0, SocketFlags::CLOEXEC) {
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                accepted => break accepted?,
            }
        };
        let peer = sockopt::socket_peercred(&fd)?;
        check_user(&peer)?;
        check_namespaces(&peer)?;
        Ok(Pass(fd))
    }
}

/// Waits until a process connects to one of the listeners, and returns its index; `None` if `waker` was rung.
///
/// # Errors
/// If the kernel reports an error.
pub fn wait(listeners: &[&PassListener], waker: &Waker) -> Result<Option<usize>> {
    loop {
        let mut fds: Vec<PollFd<'_>> = listeners.iter().map(|listener| PollFd::new(*listener, PollFlags::IN)).collect();
        fds.push(PollFd::new(waker, PollFlags::IN));
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let at = fds.iter().position(|fd| !fd.revents().is_empty());
        return Ok(at.filter(|at| *at < listeners.len()));
    }
}

impl AsFd for PassListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Pass {
    /// Connects to the process that listens under a name.
    ///
    /// # Errors
    /// If the kernel reports an error: `ConnectionRefused` if no process listens; `PermissionDenied` if the listening
    /// process belongs to another user.
    pub fn connect(name: &[u8]) -> Result<Self> {
        let fd = socket()?;
        net::connect(&fd, &address(name)?)?;
        check_user(&sockopt::socket_peercred(&fd).map_err(unseen)?)?;
        Ok(Self(fd))
    }

    /// Returns the id of the process that connected.
    ///
    /// # Errors
    /// If the kernel reports an error.
    pub fn peer_pid(&self) -> Result<u32> {
        Ok(sockopt::socket_peercred(&self.0)?.pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Sends a message. Waits if the socket has no room, because the peer may be stopped and receive nothing.
    ///
    /// # Errors
    /// If the kernel reports an error: `BrokenPipe` if the peer is gone; `TimedOut` if there was no room within
    /// `patience`.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>], patience: Duration) -> Result<()> {
        assert!(!bytes.is_empty() && bytes.len() <= MESSAGE_BYTES_MAX, "a message of {} bytes", bytes.len());
        assert!(descriptors.len() <= DESCRIPTORS_MAX, "{} descriptors", descriptors.len());
        let end = Instant::now() + patience;
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        loop {
            let mut control = SendAncillaryBuffer::new(&mut space);
            let fits = descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors));
            assert!(fits, "the buffer has room for DESCRIPTORS_MAX descriptors");
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match net::sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, flags) {
                // Descriptors in transit count against the limit of open files until the peer receives them.
                Err(Errno::TOOMANYREFS | Errno::AGAIN) if Instant::now() < end => std::thread::sleep(CROWDED_REST),
                Err(Errno::TOOMANYREFS | Errno::AGAIN) => return Err(ErrorKind::TimedOut.into()),
                Err(Errno::INTR) => {}
                sent => return Ok(sent.map(drop)?),
            }
        }
    }

    /// Receives the next message; `None` if the peer is gone.
    ///
    /// # Errors
    /// `TimedOut` if no message arrives within `patience`, `InvalidData` if the message was truncated, or the kernel's
    /// error.
    pub fn receive(&self, patience: Duration) -> Result<Option<Message>> {
        if !readable(self.0.as_fd(), patience)? {
            return Err(ErrorKind::TimedOut.into());
        }
        let mut bytes = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            match net::recvmsg(&self.0, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                // A reset also means that the peer has ended.
                Err(Errno::CONNRESET) => return Ok(None),
                received => break received?,
            }
        };
        let descriptors: Vec<OwnedFd> = (control.drain())
            .filter_map(|part| if let RecvAncillaryMessage::ScmRights(all) = part { Some(all) } else { None })
            .flatten()
            .collect();
        if received.bytes == 0 {
            return Ok(None);
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(Error::new(ErrorKind::InvalidData, "a message was truncated; raise `ulimit -n`"));
        }
        bytes.truncate(received.bytes);
        Ok(Some(Message { bytes, descriptors }))
    }
}

/// Returns the error for a process whose credentials cannot be read. Its id is 0 if it is in a PID namespace that this
/// process does not see, which is an error with the number 0.
fn unseen(error: Errno) -> Error {
    match error.raw_os_error() {
        0 => Error::new(ErrorKind::PermissionDenied, "the process is in another PID namespace"),
        _ => error.into(),
    }
}

/// Waits until the descriptor is readable or at its end. Returns false if `patience` has passed before.
fn readable(fd: BorrowedFd<'_>, patience: Duration) -> Result<bool> {
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A process, identified by a descriptor. It stays valid even if the process ID is reused.
#[derive(Debug)]
pub struct Process(OwnedFd);

impl Process {
    /// Returns a descriptor of this process, for passing to another.
    ///
    /// # Errors
    /// If the kernel reports an error: `ENOSYS` on kernels before 5.3.
    pub fn this() -> Result<Self> {
        use rustix::process::{PidfdFlags, getpid, pidfd_open};
        Ok(Self(pidfd_open(getpid(), PidfdFlags::empty())?))
    }

    /// Takes over the received descriptor of a process.
    pub fn of(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Waits at most `patience` for the process to exit. Returns true if it has exited.
    pub fn has_ended(&self, patience: Duration) -> bool {
        readable(self.0.as_fd(), patience).unwrap_or(false)
    }

    /// Waits up to `patience` for the process to exit, then kills it. After success, the process no longer runs.
    ///
    /// # Errors
    /// If this process may not kill the other, or the descriptor does not refer to a process.
    pub fn end(&self, patience: Duration) -> Result<()> {
        if readable(self.0.as_fd(), patience)? {
            return Ok(());
        }
        rustix::process::pidfd_send_signal(&self.0, rustix::process::Signal::KILL)?;
        if readable(self.0.as_fd(), KILL_PATIENCE)? { Ok(()) } else { Err(ErrorKind::TimedOut.into()) }
    }
}

/// Maximum time that a killed process may take to exit.
const KILL_PATIENCE: Duration = Duration::from_secs(20);

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn name(of: &str) -> Vec<u8> {
        format!("gannet-test-{}-{of}", std::process::id()).into_bytes()
    }

    #[test]
    fn messages_arrive_whole_with_descriptors_and_close_is_reported() {
        let patience = Duration::from_secs(20);
        let listener = PassListener::bind(&name("whole")).expect("a free name");
        assert!(PassListener::bind(&name("whole")).is_err(), "a name can be bound only once");
        let near = Pass::connect(&name("whole")).expect("connects");
        let far = listener.accept().expect("accepts");
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        near.send(&vec![7; MESSAGE_BYTES_MAX], &[theirs.as_fd()], patience).expect("sends");
        near.send(b"second", &vec![theirs.as_fd(); DESCRIPTORS_MAX], patience).expect("sends");
        drop(theirs);
        drop(near);
        let first = far.receive(patience).expect("receives").expect("a message");
        assert_eq!((first.bytes.len(), first.descriptors.len()), (MESSAGE_BYTES_MAX, 1));
        let second = far.receive(patience).expect("receives").expect("a message");
        assert_eq!((&second.bytes[..], second.descriptors.len()), (&b"second"[..], DESCRIPTORS_MAX));
        assert!(far.receive(patience).expect("receives").is_none());
        let mut theirs = std::os::unix::net::UnixStream::from(first.descriptors.into_iter().next().expect("one"));
        drop(second.descriptors);
        theirs.write_all(b"x").expect("the received descriptor is open");
        let mut byte = [0];
        ours.read_exact(&mut byte).expect("a byte");
        drop(theirs);
        assert_eq!(
            (byte, ours.read(&mut [0]).expect("the end")),
            (*b"x", 0),
            "descriptors that are not taken are closed"
        );
        assert_eq!(Pass::connect(&name("nobody")).expect_err("nobody").kind(), ErrorKind::ConnectionRefused);
    }

    /// Without the time limit, a server would wait for ever for a new process that was stopped.
    #[test]
    fn send_to_a_stalled_peer_times_out() {
        let listener = PassListener::bind(&name("stopped")).expect("a free name");
        let near = Pass::connect(&name("stopped")).expect("connects");
        let _far = listener.accept().expect("accepts");
        let sent = (0..10_000).find_map(|_| near.send(&[7; 4096], &[], Duration::from_millis(5)).err());
        assert_eq!(sent.expect("a full socket refuses a send").kind(), ErrorKind::TimedOut);
    }

    /// Without the check, any user of the host could receive the memory of a server that the superuser started.
    #[test]
    fn the_superuser_hands_nothing_to_other_users() {
        let (root, user, other) = (Uid::ROOT, Uid::from_raw(1000), Uid::from_raw(1001));
        assert!(may_talk(root, root) && may_talk(user, user) && may_talk(user, root));
        assert!(!may_talk(root, user) && !may_talk(user, other));
    }

    #[test]
    fn a_process_that_does_not_end_is_ended() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("it starts");
        let pid = rustix::process::Pid::from_child(&child);
        let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).expect("it runs");
        let process = Process::of(fd);
        assert!(!process.has_ended(Duration::ZERO));
        process.end(Duration::from_millis(1)).expect("the process ends");
        assert!(process.has_ended(Duration::ZERO));
        assert!(!child.wait().expect("its end").success());
    }
}
