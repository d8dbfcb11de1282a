//! A fake server on sockets: one thread with epoll that replies to every line by the script.

use super::script::GARBAGE;
use super::{Misconduct, OneKeyRequests, Script};
use link::Address;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags};
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

const READ_BYTES: usize = 64 * 1024;
/// Number of replies stored in one buffer, ready to send.
const ANSWERS_READY: usize = 1024;
const CONNECTIONS_MAX: usize = 16_384;
const LISTENER: u64 = u64::MAX;
/// Interval at which the thread checks whether it must end.
const LOOK_NS: u64 = 20_000_000;
/// Time before a due reply at which the thread begins to poll. A virtual machine may wake the thread late by as much.
const POLL_NS: u64 = 2_000_000;

/// The address of a server.
#[derive(Clone, Debug)]
enum FakeAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// A running fake server. Dropping it ends the server.
#[derive(Debug)]
pub struct FakeServer {
    place: FakeAddress,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    cpu_ns: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<std::io::Result<()>>>,
}

/// The counters of a fake server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Number of requests with a reply.
    pub answered: u64,
    /// CPU time of the server's thread in nanoseconds.
    pub cpu_ns: u64,
}

impl FakeServer {
    /// Starts a fake server on a free port of 127.0.0.1. Without a script it replies at once, as fast as it can (the
    /// null server). `cpu` is the CPU that its thread is pinned to.
    ///
    /// # Errors
    /// If there is no free port, or if no epoll instance can be created.
    pub fn start(script: Option<Script>, value_bytes: usize, cpu: Option<usize>) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let place = FakeAddress::Tcp(listener.local_addr()?);
        Self::start_on(listener.into(), place, script, value_bytes, cpu)
    }

    /// Starts a fake server on a unix socket at `path`, which must not exist.
    ///
    /// # Errors
    /// If the path cannot be bound, or if no epoll instance can be created.
    pub fn start_unix(path: &Path, script: Option<Script>, value_bytes: usize) -> std::io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Self::start_on(listener.into(), FakeAddress::Unix(path.to_owned()), script, value_bytes, None)
    }

    fn start_on(
        listener: OwnedFd,
        place: FakeAddress,
        script: Option<Script>,
        value_bytes: usize,
        cpu: Option<usize>,
    ) -> std::io::Result<Self> {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        let answer = OneKeyRequests::answer_of(value_bytes);
        let mut body = FakeServerThread {
            listener,
            poll,
            script,
            answers: answer.repeat(ANSWERS_READY),
            answer_bytes: answer.len(),
            connections: Vec::new(),
            begin: None,
            number: 0,
            free_ns: 0,
            answered: answered.clone(),
        };
        let cpu_ns = Arc::<AtomicU64>::default();
        let (stopped, used) = (stop.clone(), cpu_ns.clone());
        let thread = std::thread::Builder::new().name("fake-server".to_owned()).spawn(move || {
            if let Some(cpu) = cpu {
                io::affinity::pin_this_thread(cpu)?;
            }
            let served = body.serve(&stopped);
            used.store(this_threads_cpu_ns(), Ordering::Relaxed);
            served
        })?;
        Ok(Self { place, stop, answered, cpu_ns, thread: Some(thread) })
    }

    /// Returns the address of the server.
    pub fn target(&self) -> Address {
        match &self.place {
            FakeAddress::Tcp(address) => Address::Tcp(address.to_string()),
            FakeAddress::Unix(path) => Address::Unix(path.clone()),
        }
    }

    /// Ends the server and returns its counters.
    pub fn stop(mut self) -> Served {
        self.join();
        Served { answered: self.answered.load(Ordering::Relaxed), cpu_ns: self.cpu_ns.load(Ordering::Relaxed) }
    }

    fn join(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread may be waiting without a time limit; a connection wakes it.
        match &self.place {
            FakeAddress::Tcp(address) => drop(TcpStream::connect(address)),
            FakeAddress::Unix(path) => drop(UnixStream::connect(path)),
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.join();
    }
}

/// Reads `/proc/self/schedstat` (proc(5)): time on a CPU, time waiting for a CPU, number of time slices.
fn this_threads_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

struct FakeConnection {
    stream: OwnedFd,
    /// Instants at which the missing replies are due, the oldest first; in nanoseconds from the first request.
    due_ns: VecDeque<u64>,
    /// Bytes of due replies that are not sent yet.
    owed_bytes: usize,
    waits_for_room: bool,
    /// True if the server no longer replies on this connection.
    silent: bool,
}

struct FakeServerThread {
    listener: OwnedFd,
    poll: OwnedFd,
    script: Option<Script>,
    answers: Vec<u8>,
    answer_bytes: usize,
    connections: Vec<Option<FakeConnection>>,
    begin: Option<Instant>,
    number: u64,
    free_ns: u64,
    answered: Arc<AtomicU64>,
}

impl FakeServerThread {
    fn serve(&mut self, stop: &AtomicBool) -> std::io::Result<()> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(1024);
        let mut buffer = vec![0; READ_BYTES];
        while !stop.load(Ordering::Relaxed) {
            let next_ns = self.answer_what_is_due();
            let timeout = Timespec { tv_sec: 0, tv_nsec: self.sleep_ns(next_ns) as i64 };
            let timeout = self.script.is_some().then_some(&timeout);
            events.clear();
            match epoll::wait(&self.poll, spare_capacity(&mut events), timeout) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    index => self.turn(index as usize, &mut buffer)?,
                }
            }
        }
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.begin.map_or(0, |begin| begin.elapsed().as_nanos() as u64)
    }

    fn sleep_ns(&self, next_ns: u64) -> u64 {
        let left_ns = next_ns.saturating_sub(self.now_ns());
        if left_ns < POLL_NS { 0 } else { (left_ns - POLL_NS).min(LOOK_NS) }
    }

    fn accept(&mut self) -> std::io::Result<()> {
        loop {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let stream = match rustix::net::accept_with(&self.listener, flags) {
                Ok(stream) => stream,
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let index = self.connections.iter().position(Option::is_none).unwrap_or(self.connections.len());
            if index == CONNECTIONS_MAX {
                continue;
            }
            // This fails on a unix socket, which does not delay small sends.
            let _ = rustix::net::sockopt::set_tcp_nodelay(&stream, true);
            epoll::add(&self.poll, &stream, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
            let connection =
                FakeConnection { stream, due_ns: VecDeque::new(), owed_bytes: 0, waits_for_room: false, silent: false };
            match self.connections.get_mut(index) {
                Some(place) => *place = Some(connection),
                None => self.connections.push(Some(connection)),
            }
        }
    }

    /// Receives once and sends the due replies.
    fn turn(&mut self, index: usize, buffer: &mut [u8]) -> std::io::Result<()> {
        let Some(connection) = &mut self.connections[index] else { return Ok(()) };
        let read = if connection.waits_for_room {
            Ok(None)
        } else {
            rustix::io::read(&connection.stream, &mut *buffer).map(Some)
        };
        let lines = match read {
            Ok(Some(0)) => return self.end(index),
            Ok(Some(bytes)) => buffer[..bytes].iter().filter(|byte| **byte == b'\n').count(),
            Ok(None) => 0,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => return self.end(index),
        };
        match &self.script {
            None => connection.owed_bytes += lines * self.answer_bytes,
            Some(script) => {
                let begin = *self.begin.get_or_insert_with(Instant::now);
                let now_ns = begin.elapsed().as_nanos() as u64;
                for _ in 0..lines {
                    let wrong = script.misconduct_at(self.number);
                    self.free_ns = script.answer_ns(now_ns, self.free_ns, self.number);
                    self.number += 1;
                    match wrong {
                        Some(Misconduct::Close) => return self.end(index),
                        Some(Misconduct::Garbage) => {
                            let _ = rustix::net::send(&connection.stream, GARBAGE, SendFlags::NOSIGNAL);
                            return Ok(());
                        }
                        Some(Misconduct::Silence) => connection.silent = true,
                        None => {}
                    }
                    if connection.silent {
                        continue;
                    }
                    // Replies keep the order of their requests.
                    let due_ns = connection.due_ns.back().map_or(self.free_ns, |last| self.free_ns.max(*last));
                    connection.due_ns.push_back(due_ns);
                }
            }
        }
        self.send(index)
    }

    /// Sends the due replies and returns the instant of the next one.
    fn answer_what_is_due(&mut self) -> u64 {
        let mut next_ns = u64::MAX;
        if self.script.is_none() {
            return next_ns;
        }
        let now_ns = self.now_ns();
        for index in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[index] else { continue };
            let due = connection.due_ns.iter().take_while(|due_ns| **due_ns <= now_ns).count();
            connection.due_ns.drain(..due);
            connection.owed_bytes += due * self.answer_bytes;
            next_ns = next_ns.min(connection.due_ns.front().copied().unwrap_or(u64::MAX));
            if due > 0 && self.send(index).is_err() {
                self.connections[index] = None;
            }
        }
        next_ns
    }

    fn send(&mut self, index: usize) -> std::io::Result<()> {
        let Some(connection) = &mut self.connections[index] else { return Ok(()) };
        let mut answered = 0;
        while connection.owed_bytes > 0 {
            // A send that begins within a reply ends at the end of a reply, so the bytes line up.
            let inside = (self.answer_bytes - connection.owed_bytes % self.answer_bytes) % self.answer_bytes;
            let end = self.answers.len().min(inside + connection.owed_bytes);
            match rustix::net::send(&connection.stream, &self.answers[inside..end], SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    answered += (inside + sent) / self.answer_bytes;
                    connection.owed_bytes -= sent;
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return self.end(index),
            }
        }
        self.answered.fetch_add(answered as u64, Ordering::Relaxed);
        let waits = connection.owed_bytes > 0;
        if waits != connection.waits_for_room {
            connection.waits_for_room = waits;
            let flags = if waits { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
            epoll::modify(&self.poll, &connection.stream, epoll::EventData::new_u64(index as u64), flags)?;
        }
        Ok(())
    }

    fn end(&mut self, index: usize) -> std::io::Result<()> {
        self.connections[index] = None;
        Ok(())
    }
}
