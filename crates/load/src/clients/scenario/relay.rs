//! A network path between a client and a server, which a scenario interrupts.
//!
//! ```text
//!   client <── pump ──> server     forward: bytes pass
//!            <── pump              hold:    bytes wait in both directions, and connections get no reply
//!                                  swallow: bytes are lost; a connection of that time is silent until it is closed
//! ```

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathState {
    Forward,
    Hold,
    Swallow,
    /// The relay was dropped.
    Ended,
}

struct RelayState {
    path: PathState,
    /// The number of accepted connections.
    accepted: usize,
    /// The number of the first connections that have lost bytes, and stay silent.
    lost: usize,
    /// Both sides of each connection.
    sockets: Vec<TcpStream>,
}

struct SharedRelay {
    state: Mutex<RelayState>,
    changed: Condvar,
}

impl SharedRelay {
    fn lock(&self) -> MutexGuard<'_, RelayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while bytes are held. Returns true if those of a connection pass, false if they are lost.
    fn passes(&self, number: usize) -> bool {
        let state = self.changed.wait_while(self.lock(), |state| state.path == PathState::Hold);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        state.path != PathState::Swallow && number >= state.lost
    }
}

/// A listener whose connections continue to a server. They end when it is dropped.
pub(super) struct Relay {
    /// The address for clients.
    pub(super) address: SocketAddr,
    shared: Arc<SharedRelay>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.path = PathState::Ended;
        for socket in &state.sockets {
            // A connection that has ended already is not an error.
            drop(socket.shutdown(Shutdown::Both));
        }
        drop(state);
        self.shared.changed.notify_all();
        // Ends the wait of the thread that accepts connections.
        drop(TcpStream::connect(self.address));
    }
}

impl Relay {
    /// Starts a relay to a server.
    ///
    /// # Errors
    /// If there is no free port.
    pub(super) fn start(server: SocketAddr) -> Result<Self, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let found = listener.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
        let (listener, address) = found.map_err(|error| format!("cannot find a free port: {error}"))?;
        let state = RelayState { path: PathState::Forward, accepted: 0, lost: 0, sockets: Vec::new() };
        let shared = Arc::new(SharedRelay { state: Mutex::new(state), changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || accept(&listener, server, &accepting));
        Ok(Self { address, shared })
    }

    /// Executes a step with `network`.
    ///
    /// # Errors
    /// If the step is unknown.
    pub(super) fn step(&self, step: &str) -> Result<(), String> {
        let path = match step {
            "forward" => PathState::Forward,
            "hold" => PathState::Hold,
            "swallow" => PathState::Swallow,
            _ => return Err(format!("`network` is {step}; it is forward, hold or swallow")),
        };
        let mut state = self.shared.lock();
        if state.path == PathState::Swallow || path == PathState::Swallow {
            state.lost = state.accepted;
        }
        state.path = path;
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }
}

fn accept(listener: &TcpListener, server: SocketAddr, shared: &Arc<SharedRelay>) {
    while let Ok((client, _)) = listener.accept() {
        if shared.lock().path == PathState::Ended {
            return;
        }
        // Without a server, the connection ends at once.
        let Ok(server) = TcpStream::connect(server) else { continue };
        // The threads of a connection that cannot be shared are not started, and it ends.
        drop(begin(client, server, shared));
    }
}

fn begin(client: TcpStream, server: TcpStream, shared: &Arc<SharedRelay>) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_reads, server_reads) = (client.try_clone()?, server.try_clone()?);
    let kept = [client.try_clone()?, server.try_clone()?];
    let mut state = shared.lock();
    let number = state.accepted;
    state.accepted += 1;
    state.sockets.extend(kept);
    drop(state);
    for (source, sink) in [(client_reads, server), (server_reads, client)] {
        let shared = Arc::clone(shared);
        std::thread::spawn(move || pump(source, sink, number, &shared));
    }
    Ok(())
}

/// Sends on what one side of a connection sends, until one side closes it. Then both sides end.
fn pump(mut source: TcpStream, mut sink: TcpStream, number: usize, shared: &SharedRelay) {
    let mut buffer = [0; 16 << 10];
    while let Ok(len @ 1..) = source.read(&mut buffer) {
        if shared.passes(number) && sink.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    for socket in [source, sink] {
        // A side that has closed the connection is not an error.
        drop(socket.shutdown(Shutdown::Both));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Starts a server that sends back all bytes, and a relay to it.
    fn echo() -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let relay = Relay::start(listener.local_addr().expect("an address")).expect("a relay");
        std::thread::spawn(move || {
            while let Ok((mut socket, _)) = listener.accept() {
                std::thread::spawn(move || {
                    let mut byte = [0];
                    while let Ok(1) = socket.read(&mut byte) {
                        socket.write_all(&byte).expect("the relay is open");
                    }
                });
            }
        });
        relay
    }

    fn client(relay: &Relay) -> TcpStream {
        TcpStream::connect(relay.address).expect("the relay accepts connections")
    }

    fn send(socket: &mut TcpStream, byte: u8) {
        socket.write_all(&[byte]).expect("the relay reads");
    }

    /// Returns the bytes that arrive within this time, at most one.
    fn received(socket: &mut TcpStream, ms: u64) -> Vec<u8> {
        socket.set_read_timeout(Some(Duration::from_millis(ms))).expect("a timeout");
        let mut byte = [0];
        match socket.read(&mut byte) {
            Ok(len) => byte[..len].to_vec(),
            Err(_) => Vec::new(),
        }
    }

    #[test]
    fn held_bytes_arrive_later_and_swallowed_ones_never() {
        let relay = echo();
        let mut first = client(&relay);
        send(&mut first, 1);
        assert_eq!(received(&mut first, 10_000), [1]);
        relay.step("hold").expect("a step");
        send(&mut first, 2);
        assert!(received(&mut first, 100).is_empty());
        relay.step("forward").expect("a step");
        assert_eq!(received(&mut first, 10_000), [2]);
        relay.step("swallow").expect("a step");
        let mut second = client(&relay);
        for socket in [&mut first, &mut second] {
            send(socket, 3);
        }
        assert!(received(&mut first, 100).is_empty() && received(&mut second, 100).is_empty());
        relay.step("forward").expect("a step");
        send(&mut first, 4);
        assert!(received(&mut first, 100).is_empty(), "a connection that lost bytes stays silent");
        let mut third = client(&relay);
        send(&mut third, 5);
        assert_eq!(received(&mut third, 10_000), [5]);
        assert!(relay.step("cut").expect_err("a step").contains("forward, hold or swallow"));
    }
}
