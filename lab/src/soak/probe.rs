//! Measures latency during the main load: one get per millisecond on a separate connection to the server, and one
//! request per millisecond to an echo thread.
//!
//! The echo thread runs on the server's CPU and only sends back the bytes that it reads. Its reply times show the
//! delays that the machine causes, not the server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use testbed::server::pin;

/// Number of equal parts of the run; latencies are collected separately for each part.
pub const PARTS: usize = 10;
const PACE: Duration = Duration::from_millis(1);
const REPLY_WAIT_MAX: Duration = Duration::from_secs(30);
const SET: &[u8] = b"set probe 0 0 5\r\nvalue\r\n";
const GET: &[u8] = b"get probe\r\n";
const HIT: &[u8] = b"VALUE probe 0 5\r\nvalue\r\nEND\r\n";
const MISS: &[u8] = b"END\r\n";

/// The latencies of one part, in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    server_us: Vec<u32>,
    echo_us: Vec<u32>,
}

/// The state that the probe shares with the run.
#[derive(Debug)]
pub struct Probe {
    /// The current part of the run.
    pub part: AtomicUsize,
    parts: [Mutex<Latencies>; PARTS],
}

impl Probe {
    /// Creates a probe without measurements.
    pub fn new() -> Self {
        Self { part: AtomicUsize::new(0), parts: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Measures until `over` is set.
    ///
    /// # Errors
    /// A wrong reply, or no reply.
    pub fn run(&self, server: SocketAddr, server_cpu: Option<usize>, over: &AtomicBool) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let echo = listener.local_addr().map_err(|error| error.to_string())?;
        std::thread::scope(|scope| {
            scope.spawn(|| echo_back(&listener, server_cpu));
            let measured = self.measure(server, echo, over);
            // The echo thread waits for one connection and ends with it. If the measurement failed before it connected,
            // this connection ends the thread.
            drop(TcpStream::connect(echo));
            measured.map_err(|error| format!("probe: {error}"))
        })
    }

    fn measure(&self, server: SocketAddr, echo: SocketAddr, over: &AtomicBool) -> std::io::Result<()> {
        let connect = |address| -> std::io::Result<TcpStream> {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(REPLY_WAIT_MAX))?;
            Ok(stream)
        };
        let (mut server, mut echo) = (connect(server)?, connect(echo)?);
        while !over.load(Relaxed) {
            let part = self.part.load(Relaxed).min(PARTS - 1);
            std::thread::sleep(PACE);
            let begun = Instant::now();
            server.write_all(GET)?;
            let hit = read_answer(&mut server)?;
            let server_us = begun.elapsed().as_micros() as u32;
            if !hit {
                server.write_all(SET)?;
                server.read_exact(&mut [0; b"STORED\r\n".len()])?;
            }
            std::thread::sleep(PACE);
            let begun = Instant::now();
            echo.write_all(GET)?;
            echo.read_exact(&mut [0; GET.len()])?;
            let echo_us = begun.elapsed().as_micros() as u32;
            let mut latencies = self.parts[part].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            latencies.server_us.push(server_us);
            latencies.echo_us.push(echo_us);
        }
        Ok(())
    }

    /// Returns the figures of one part: the number of samples, then the server's p50, the server's p999 and the echo
    /// thread's p999, in microseconds.
    pub fn row(&self, part: usize) -> (usize, u32, u32, u32) {
        let mut latencies = self.parts[part].lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        latencies.server_us.sort_unstable();
        latencies.echo_us.sort_unstable();
        let at = |sorted: &[u32], share: f64| {
            sorted.get((sorted.len() as f64 * share) as usize).or(sorted.last()).copied().unwrap_or(0)
        };
        let server = &latencies.server_us;
        (server.len(), at(server, 0.5), at(server, 0.999), at(&latencies.echo_us, 0.999))
    }
}

fn read_answer(stream: &mut TcpStream) -> std::io::Result<bool> {
    let mut answer = [0; HIT.len()];
    stream.read_exact(&mut answer[..MISS.len()])?;
    if &answer[..MISS.len()] == MISS {
        return Ok(false);
    }
    stream.read_exact(&mut answer[MISS.len()..])?;
    match answer == *HIT {
        true => Ok(true),
        false => Err(std::io::Error::other(format!("answered '{}'", String::from_utf8_lossy(&answer)))),
    }
}

fn echo_back(listener: &TcpListener, cpu: Option<usize>) {
    if cpu.is_some() && pin(cpu).is_err() {
        eprintln!("soak: the echo thread is not on the server's CPU");
    }
    let Ok((mut stream, _)) = listener.accept() else { return };
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..read]).is_err() {
            return;
        }
    }
}
