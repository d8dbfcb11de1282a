//! An echo server on [`Secure`] over a simulated network, and its clients.

use gannet_tls::{
    Application, EventLog, HandshakeFailure, HandshakeLimits, LogEvent, MemoryBound, Secure, SecureStream, Tls,
    TlsSettings,
};
use io::sim::{Faults, Sim, SimClient, SimDialler, SimStream};
use io::{Backend, IoEvent, Received, Sent, Token};
use rustls::ClientConnection;
use std::io::{IoSlice, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const SMOOTH: Faults =
    Faults { fragment_bytes_max: 1 << 20, delay_ns_max: 0, window_bytes: 1 << 20, short_sends: 0, idle_events: 0 };
pub const ROUGH: Faults =
    Faults { fragment_bytes_max: 700, delay_ns_max: 9_000, window_bytes: 900, short_sends: 300, idle_events: 50 };
pub const LIMITS: HandshakeLimits = HandshakeLimits { handshake_timeout: Duration::from_secs(10), handshakes_max: 100 };
pub const HINT: &[u8] = b"-ERR this port uses TLS\r\n";

/// A bound that counts.
#[derive(Default)]
pub struct Bytes {
    pub used: AtomicU64,
    pub peak: AtomicU64,
    pub max: AtomicU64,
}

impl MemoryBound for Bytes {
    fn reserve(&self, bytes: u64) -> bool {
        let used = self.used.load(Relaxed) + bytes;
        let fits = used <= self.max.load(Relaxed);
        if fits {
            self.used.store(used, Relaxed);
            self.peak.fetch_max(used, Relaxed);
        }
        fits
    }

    fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}

/// One connection of the echo server.
struct Served {
    stream: Option<SecureStream<SimStream>>,
    token: Token,
    readable: bool,
    ended: bool,
    out: Vec<u8>,
    blocked: bool,
}

/// The echo server. It sends back every byte, and closes when the client has ended and everything is sent.
pub struct World {
    pub io: Secure<Sim>,
    pub tls: Arc<Tls>,
    pub memory: Arc<Bytes>,
    pub failures: Arc<Mutex<Vec<HandshakeFailure>>>,
    pub users: Vec<Vec<String>>,
    dialler: SimDialler,
    served: Vec<Served>,
    events: Vec<IoEvent>,
    /// Size of the server's buffer.
    pub room: usize,
}

impl World {
    pub fn new(settings: &TlsSettings, seed: u64, faults: Faults) -> Self {
        Self::with_limits(settings, seed, faults, LIMITS)
    }

    pub fn with_limits(settings: &TlsSettings, seed: u64, faults: Faults, limits: HandshakeLimits) -> Self {
        let memory = Arc::new(Bytes { max: AtomicU64::new(u64::MAX), ..Bytes::default() });
        let failures: Arc<Mutex<Vec<HandshakeFailure>>> = Arc::default();
        let log = Arc::clone(&failures);
        let bound = Arc::clone(&memory) as Arc<dyn MemoryBound>;
        let log: EventLog = Box::new(move |_, event, _| {
            if let LogEvent::Failed(failure) = event {
                log.lock().unwrap().push(failure.clone());
            }
        });
        let tls = Arc::new(Tls::new(settings, limits, 1, bound, log).unwrap());
        let sim = Sim::new(seed, faults, Arc::new(AtomicU64::new(0)), 64);
        let dialler = sim.dialler();
        let io = Secure::new(sim, Some(Arc::clone(&tls)));
        let events = Vec::with_capacity(64);
        Self { io, tls, memory, failures, users: Vec::new(), dialler, served: Vec::new(), events, room: 4096 }
    }

    /// Opens a connection whose client speaks no TLS by itself.
    pub fn connect_raw(&mut self) -> SimClient {
        let (client, stream) = self.dialler.connect();
        let stream = SecureStream::secured(stream, Application { is_http2: false, hint: HINT });
        let token = Token::new(self.served.len() as u32, 7);
        self.io.attach(&stream, token).unwrap();
        let stream = Some(stream);
        self.served.push(Served { stream, token, readable: false, ended: false, out: Vec::new(), blocked: false });
        client
    }

    /// Opens a connection in the place of the last one, if that is closed.
    pub fn reconnect_raw(&mut self) -> SimClient {
        let Some(last) = self.served.last_mut().filter(|last| last.stream.is_none()) else { return self.connect_raw() };
        let (client, stream) = self.dialler.connect();
        let stream = SecureStream::secured(stream, Application { is_http2: false, hint: HINT });
        last.token = Token::new(last.token.index(), last.token.generation() + 1);
        self.io.attach(&stream, last.token).unwrap();
        (last.stream, last.readable, last.ended, last.blocked) = (Some(stream), false, false, false);
        client
    }

    pub fn connect(&mut self, config: &Arc<rustls::ClientConfig>, host: &str) -> Client {
        let name = host.to_owned().try_into().unwrap();
        Client { wire: self.connect_raw(), tls: ClientConnection::new(Arc::clone(config), name).unwrap(), error: None }
    }

    /// Returns true if the server has closed connection number `at`.
    pub fn is_closed(&self, at: usize) -> bool {
        self.served[at].stream.is_none()
    }

    /// Runs one iteration of the server.
    pub fn turn(&mut self) {
        self.io.wait(Some(Duration::from_millis(1)), &mut self.events).unwrap();
        for event in self.events.clone() {
            let served = &mut self.served[event.token.index() as usize];
            served.readable |= event.readable || event.hangup;
            if event.writable && served.blocked {
                served.blocked = false;
            }
        }
        for at in 0..self.served.len() {
            self.serve(at);
        }
    }

    fn serve(&mut self, at: usize) {
        let served = &mut self.served[at];
        let Some(stream) = &served.stream else { return };
        let mut room = vec![0; self.room];
        // One receive before each send, as a worker does.
        if served.readable && !served.blocked && !served.ended {
            match self.io.receive(stream, &mut room) {
                Received::Bytes(bytes) => {
                    self.users.extend(self.io.proven_users(stream));
                    served.out.extend_from_slice(&room[..bytes]);
                    served.readable = bytes == room.len();
                }
                Received::Blocked => served.readable = false,
                Received::Closed => served.ended = true,
                Received::Reset => {
                    self.io.close(served.stream.take().unwrap());
                    return;
                }
            }
        }
        while !served.out.is_empty() && !served.blocked {
            let (first, rest) = served.out.split_at(served.out.len().min(100));
            match self.io.send(stream, &[IoSlice::new(first), IoSlice::new(rest)]) {
                Sent::Bytes(bytes) => drop(served.out.drain(..bytes)),
                Sent::Blocked => {
                    served.blocked = true;
                    self.io.want_writable(stream, served.token, true);
                }
                Sent::Reset => {
                    self.io.close(served.stream.take().unwrap());
                    return;
                }
            }
        }
        if served.ended && served.out.is_empty() {
            self.io.close(served.stream.take().unwrap());
        }
    }

    /// Runs the server and `clients` until `done`. Fails after too many iterations.
    pub fn run(&mut self, clients: &mut [&mut Client], mut done: impl FnMut(&mut Self, &mut [&mut Client]) -> bool) {
        for _ in 0..200_000 {
            for client in clients.iter_mut() {
                client.turn();
            }
            self.turn();
            for client in clients.iter_mut() {
                client.turn();
            }
            if done(self, clients) {
                return;
            }
        }
        let errors: Vec<_> = clients.iter().map(|client| &client.error).collect();
        panic!("the exchange does not end; failures: {:?}; clients: {errors:?}", self.failures.lock().unwrap());
    }
}

/// A client with TLS.
pub struct Client {
    pub wire: SimClient,
    pub tls: ClientConnection,
    pub error: Option<rustls::Error>,
}

impl Client {
    /// Moves records between the library and the network.
    pub fn turn(&mut self) {
        let mut records = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut records).unwrap();
        }
        if !records.is_empty() {
            self.wire.send(&records);
        }
        let taken = self.wire.take(600);
        let mut left = &taken[..];
        while !left.is_empty() {
            self.tls.read_tls(&mut left).unwrap();
            if let Err(error) = self.tls.process_new_packets() {
                self.error.get_or_insert(error);
                return;
            }
        }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.tls.set_buffer_limit(None);
        self.tls.writer().write_all(bytes).unwrap();
    }

    /// Returns the received bytes.
    pub fn read(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut part = [0; 4096];
        while let Ok(count @ 1..) = self.tls.reader().read(&mut part) {
            bytes.extend_from_slice(&part[..count]);
        }
        bytes
    }
}

/// Bytes that follow from a seed.
pub fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..count).map(next).collect()
}

/// Sends `bytes` through the server, and returns what comes back.
pub fn echo(world: &mut World, client: &mut Client, bytes: &[u8]) -> Vec<u8> {
    client.write(bytes);
    let mut got = Vec::new();
    world.run(&mut [client], |_, clients| {
        got.extend(clients[0].read());
        got.len() >= bytes.len()
    });
    got
}
