//! A connection to one server that is waited on: requests are put into a buffer, answers come out of another.
//!
//! Both directions move at once: a server that stops reading until its answers are read never waits on a client that
//! stops reading until its requests are sent.
//!
//! ```text
//!   out   ---> requests  --->  server
//!   input <--- answers   <---          pump: sends what can be sent, takes what has come, waits at most `timeout`
//! ```

use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags};

use super::place::Server;
use crate::engine::Target;
use crate::engine::net::Moved;
use crate::engine::secured::{Channel, RECORDS_BYTES, Shaken};
use crate::tls::{self, Failure, Maker};

/// Bytes that are taken at once.
const CHUNK_BYTES: usize = 128 << 10;
/// A buffer that grew beyond this is given back when it is empty.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// Bytes both ways, through a socket that does not block.
struct Stream {
    socket: OwnedFd,
    secured: Option<Secured>,
}

/// State of a secured connection beside its socket.
struct Secured {
    channel: Channel,
    settings: tls::Settings,
    /// Buffer for records while they are read.
    records: Box<[u8]>,
}

impl Stream {
    fn connect(target: &Target, timeout: Duration) -> io::Result<Self> {
        let socket: OwnedFd = match target {
            Target::Unix(path) => UnixStream::connect(path)?.into(),
            Target::Tcp(address) => first_of(address, timeout)?.into(),
        };
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self { socket, secured: None })
    }

    /// Secures the connection by what `maker` makes for its first target.
    fn secure(&mut self, maker: &Maker, timeout: Duration) -> io::Result<()> {
        let Some(tls) = maker.make(0)? else { return Ok(()) };
        let mut channel = Channel::new(tls, 0);
        let end = Instant::now() + timeout;
        loop {
            let sending = match channel.shake(&self.socket, maker.settings())? {
                Shaken::Done => break,
                Shaken::WantsInput => false,
                Shaken::WantsOutput => true,
            };
            self.wait(sending, end.saturating_duration_since(Instant::now()))?;
        }
        let records = vec![0; RECORDS_BYTES].into();
        self.secured = Some(Secured { channel, settings: maker.settings().clone(), records });
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.secured {
            None => Ok(rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL)?),
            Some(secured) => moved(secured.channel.send(&self.socket, bytes)),
        }
    }

    /// Sends what was taken and not yet sent; whether that was all.
    fn flush(&mut self) -> io::Result<bool> {
        self.secured.as_mut().map_or(Ok(true), |secured| secured.channel.flush(&self.socket))
    }

    /// 0 bytes: the server has closed the connection.
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.secured {
            None => Ok(rustix::net::recv(&self.socket, into, RecvFlags::empty())?.0),
            Some(Secured { channel, settings, records }) => {
                moved(channel.receive(&self.socket, settings, into, records).0)
            }
        }
    }

    /// Waits until it can be read, or sent to if `sending`.
    fn wait(&self, sending: bool, timeout: Duration) -> io::Result<()> {
        let flags = if sending { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        match poll(&mut [PollFd::from_borrowed_fd(self.socket.as_fd(), flags)], Some(&timeout)) {
            Ok(0) => Err(ErrorKind::TimedOut.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// To the first address of a name that takes a connection.
fn first_of(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn moved(moved: Moved) -> io::Result<usize> {
    match moved {
        Moved::Bytes(bytes) => Ok(bytes),
        Moved::Blocked => Err(ErrorKind::WouldBlock.into()),
        Moved::Closed => Ok(0),
        Moved::Broken(error) => Err(error),
    }
}

/// Connection settings for servers.
#[derive(Clone, Debug)]
pub struct Reach {
    /// Material for the connections to servers that are to be secured.
    pub tls: Option<tls::Client>,
    /// Time limit for an answer.
    pub timeout: Duration,
}

/// One connection, which is reopened whenever it is needed.
pub(super) struct Link {
    target: Target,
    /// Maker of secured connections, if this one is to be secured.
    maker: Option<Maker>,
    timeout: Duration,
    stream: Option<Stream>,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    taken: usize,
    chunk: Box<[u8]>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("target", &self.target).field("is_up", &self.is_up()).finish_non_exhaustive()
    }
}

impl Link {
    /// Prepares a connection to `server`, not yet connected. A server that answers nothing for `reach.timeout` counts
    /// as gone.
    pub fn new(server: &Server, reach: &Reach) -> Self {
        let Reach { tls, timeout } = reach;
        let client = tls.as_ref().filter(|_| server.is_secured);
        Self {
            target: server.target.clone(),
            maker: client.map(|client| client.maker(std::slice::from_ref(&server.target), 1)),
            timeout: *timeout,
            stream: None,
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            taken: 0,
            chunk: vec![0; CHUNK_BYTES].into(),
        }
    }

    /// There is a connection.
    pub const fn is_up(&self) -> bool {
        self.stream.is_some()
    }

    /// Connects; what was in the buffers is gone.
    pub fn connect(&mut self) -> io::Result<()> {
        self.close();
        let mut stream = Stream::connect(&self.target, self.timeout)?;
        if let Some(maker) = &self.maker {
            stream.secure(maker, self.timeout)?;
        }
        self.stream = Some(stream);
        Ok(())
    }

    /// Ends the connection.
    pub fn close(&mut self) {
        self.stream = None;
        self.out.clear();
        self.input.clear();
        (self.sent, self.taken) = (0, 0);
    }

    /// Returns the buffer to which requests are appended.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Returns the input that was received and not yet taken.
    pub fn input(&self) -> &[u8] {
        &self.input[self.taken..]
    }

    /// The first `bytes` of the input are used up.
    pub fn take(&mut self, bytes: usize) {
        self.taken += bytes;
        assert!(self.taken <= self.input.len(), "only what has come can be taken");
        if self.taken == self.input.len() {
            self.input.clear();
            self.taken = 0;
            if self.input.capacity() > KEPT_BYTES_MAX {
                self.input = Vec::new();
            }
        }
    }

    /// Moves bytes until at least one has come.
    ///
    /// # Errors
    /// The connection is broken, closed by the server, or nothing moved for the timeout.
    pub fn pump(&mut self) -> io::Result<()> {
        loop {
            let sending = !self.flush()?;
            let stream = self.stream.as_mut().ok_or(ErrorKind::NotConnected)?;
            match stream.receive(&mut self.chunk) {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection")),
                Ok(bytes) => {
                    if self.taken > 0 {
                        self.input.drain(..self.taken);
                        self.taken = 0;
                    }
                    self.input.extend_from_slice(&self.chunk[..bytes]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => stream.wait(sending, self.timeout)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends what can be sent now; whether that was all.
    fn flush(&mut self) -> io::Result<bool> {
        let stream = self.stream.as_mut().ok_or(ErrorKind::NotConnected)?;
        while self.sent < self.out.len() {
            match stream.send(&self.out[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        if !stream.flush()? {
            return Ok(false);
        }
        if self.out.capacity() > KEPT_BYTES_MAX {
            self.out = Vec::new();
        }
        Ok(true)
    }
}

/// Number of attempts to reconnect after a loss, and the time between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Attempts after a connection was lost; 0: none.
    pub attempts: u32,
    /// Before the first attempt; twice as long before each further one.
    pub pause_min: Duration,
    /// Never longer than this.
    pub pause_max: Duration,
}

impl Default for Patience {
    /// Ten attempts within about half a minute.
    fn default() -> Self {
        Self { attempts: 10, pause_min: Duration::from_millis(100), pause_max: Duration::from_secs(5) }
    }
}

impl Patience {
    /// The pause before attempt `number`, counted from 0.
    pub fn pause(&self, number: u32) -> Duration {
        self.pause_min.saturating_mul(1 << number.min(20)).min(self.pause_max)
    }
}

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The connection is gone, or the server cannot serve yet: worth another attempt.
    Lost(String),
    /// The server refuses, or answers what is no answer: another attempt would not help.
    Refused(String),
    /// The user ended it.
    Stopped,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        // What was closed or cut off may go better the next time; a certificate does not change.
        if let Some(failure) = Failure::in_error(&error).filter(|failure| !failure.may_pass()) {
            return Self::Refused(failure.to_string());
        }
        Self::Lost(match error.kind() {
            ErrorKind::TimedOut => "it does not answer".to_owned(),
            _ => error.to_string(),
        })
    }
}

/// Sleeps, a little at a time, so that an end is noticed; whether it slept to the end.
pub(super) fn sleep(span: Duration, is_stopped: &dyn Fn() -> bool) -> bool {
    const STEP: Duration = Duration::from_millis(50);
    let end = Instant::now() + span;
    loop {
        if is_stopped() {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(STEP));
    }
}
