//! A TCP proxy that adds a round trip.
//!
//! ```text
//!   client ──> receive ──> queue of (due, bytes) ──> send at `due` ──> server      and the same in reverse
//! ```
//!
//! Bounds: [`CONNECTIONS_MAX`] connections, each with four threads, and [`CHUNKS_MAX`] chunks of [`CHUNK_BYTES`] in
//! each direction. A direction with more bytes under way receives no more, as a network path that is full.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// The maximum number of connections at once. Further ones are closed at once.
pub const CONNECTIONS_MAX: usize = 256;
/// The maximum number of chunks under way in one direction of a connection.
const CHUNKS_MAX: usize = 256;
const CHUNK_BYTES: usize = 16 << 10;

/// The state that a proxy shares with its threads.
#[derive(Debug, Default)]
struct ProxyState {
    is_stopping: AtomicBool,
    open: AtomicUsize,
    most: AtomicUsize,
}

/// A proxy on a free port of the loopback address. It ends with the value.
#[derive(Debug)]
pub struct DelayProxy {
    address: SocketAddr,
    state: Arc<ProxyState>,
}

impl DelayProxy {
    /// Starts a proxy to `target` that adds `round_trip`.
    ///
    /// # Errors
    /// If no port is free, or no thread can be created.
    pub fn start(target: SocketAddr, round_trip: Duration) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let (address, state) = (listener.local_addr()?, Arc::<ProxyState>::default());
        let shared = Arc::clone(&state);
        let accept = move || {
            for client in listener.incoming() {
                if shared.is_stopping.load(Relaxed) {
                    return;
                }
                // If the server refuses the connection, the client's ends.
                if let Ok(client) = client
                    && let Ok(server) = TcpStream::connect(target)
                {
                    let _ = pass_on(&client, &server, round_trip / 2, &shared);
                }
            }
        };
        std::thread::Builder::new().name("proxy-accept".into()).spawn(accept)?;
        Ok(Self { address, state })
    }

    /// Returns the address to which clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the most connections that were open at once since the last call.
    pub fn take_most(&self) -> usize {
        self.state.most.swap(self.state.open.load(Relaxed), Relaxed)
    }
}

impl Drop for DelayProxy {
    fn drop(&mut self) {
        self.state.is_stopping.store(true, Relaxed);
        // The thread that accepts sees the flag at its next connection.
        let _ = TcpStream::connect(self.address);
    }
}

/// Counts a connection while a thread of it runs.
struct OpenConnection(Arc<ProxyState>);

impl OpenConnection {
    fn of(state: &Arc<ProxyState>) -> Option<Arc<Self>> {
        let open = state.open.fetch_add(1, Relaxed) + 1;
        let connection = Self(Arc::clone(state));
        state.most.fetch_max(open.min(CONNECTIONS_MAX), Relaxed);
        (open <= CONNECTIONS_MAX).then(|| Arc::new(connection))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

/// Starts the threads of a connection.
fn pass_on(client: &TcpStream, server: &TcpStream, delay: Duration, state: &Arc<ProxyState>) -> std::io::Result<()> {
    let Some(open) = OpenConnection::of(state) else { return Ok(()) };
    for (from, to) in [(client, server), (server, client)] {
        to.set_nodelay(true)?;
        let (queue, chunks) = sync_channel(CHUNKS_MAX);
        let (from, to, open) = (from.try_clone()?, to.try_clone()?, Arc::clone(&open));
        let name = |part: &str| std::thread::Builder::new().name(format!("proxy-{part}"));
        name("in").spawn(move || receive(from, &queue, delay))?;
        name("out").spawn(move || {
            send(to, &chunks);
            drop(open);
        })?;
    }
    Ok(())
}

fn receive(mut from: TcpStream, queue: &SyncSender<(Instant, Vec<u8>)>, delay: Duration) {
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if queue.send((Instant::now() + delay, buffer[..read].to_vec())).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Read);
}

fn send(mut to: TcpStream, chunks: &Receiver<(Instant, Vec<u8>)>) {
    for (due, bytes) in chunks {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // The end of one direction ends the connection: HTTP/2 has no half-closed connections.
    let _ = to.shutdown(Shutdown::Both);
}
