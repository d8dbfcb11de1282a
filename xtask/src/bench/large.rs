//! Measures values of 1 MiB and 100 MiB: bytes per second in comparison with a plain transfer over loopback, and the
//! growth of the server's resident memory.
//!
//! The plain transfer is the upper limit: a thread on the server's CPU reads the same number of bytes into one buffer,
//! or writes them from one buffer, and does nothing else.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use super::rounds::median_min_max;
use testbed::server::{ServerKind, ServerOptions, TestServer, pin};

const MIB: usize = 1 << 20;
const VALUE_MIB: [usize; 2] = [1, 100];
/// Bytes that the generator and the plain transfer read or write with one system call.
const CALL_BYTES: usize = 256 << 10;
/// Total length of all stored values, in MiB; each of the two sizes has half.
const KEPT_MIB: usize = 400;
const SERVER_CPU: usize = 0;
const GENERATOR_CPU: usize = 1;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Set,
    Get,
}

/// A server, or a plain transfer, that receives and sends values.
struct Peer {
    name: &'static str,
    stream: TcpStream,
    server: Option<TestServer>,
    rss_bytes: u64,
}

/// Results of one value size, one direction and one peer.
struct TransferResults {
    gb_s: Vec<f64>,
    cpu_ns_kib: Vec<f64>,
    of_plain: Vec<f64>,
}

/// Runs the measurement and prints the results.
///
/// # Errors
/// If a server does not start, or gives a wrong reply.
pub fn run(quick: bool) -> Result<(), String> {
    let (rounds, turn_mib) = if quick { (3, 200) } else { (7, 1000) };
    let mut peers = vec![plain()?];
    for kind in [ServerKind::GannetEpoll, ServerKind::GannetUring] {
        let item_bytes_max = 128 * MIB as u64;
        let server = TestServer::start(
            kind,
            &ServerOptions { cpu: Some(SERVER_CPU), item_bytes_max, ..ServerOptions::memory(1024) },
        )?;
        let stream = connect(server.address)?;
        peers.push(Peer { name: kind.name(), stream, server: Some(server), rss_bytes: 0 });
    }
    pin(Some(GENERATOR_CPU))?;
    for peer in peers.iter_mut().skip(1) {
        // Overwrites the values several times, so that the server has touched its memory before RSS is read.
        VALUE_MIB.into_iter().try_for_each(|mib| transfer(peer, Way::Set, mib, 3 * KEPT_MIB).map(|_| ()))?;
        peer.rss_bytes = peer.server.as_ref().map_or(0, TestServer::rss_bytes);
    }
    println!("| value | direction | server | GB/s, median (min-max) | ratio to the plain transfer | CPU-ns per KiB |");
    println!("|---|---|---|---|---|---|");
    for (mib, way) in VALUE_MIB.into_iter().flat_map(|mib| [(mib, Way::Set), (mib, Way::Get)]) {
        let mut rows: Vec<TransferResults> =
            peers.iter().map(|_| TransferResults { gb_s: vec![], cpu_ns_kib: vec![], of_plain: vec![] }).collect();
        for _ in 0..rounds {
            for (peer, row) in peers.iter_mut().zip(&mut rows) {
                let (gb_s, cpu_ns_kib) = transfer(peer, way, mib, turn_mib)?;
                row.gb_s.push(gb_s);
                row.cpu_ns_kib.push(cpu_ns_kib);
            }
            let plain = rows[0].gb_s.last().copied().unwrap_or(f64::NAN);
            rows.iter_mut().for_each(|row| row.of_plain.push(row.gb_s.last().copied().unwrap_or(f64::NAN) / plain));
        }
        for (peer, row) in peers.iter().zip(&rows) {
            let (gb_s, low, high) = median_min_max(&row.gb_s);
            let (of_plain, cpu) = (median_min_max(&row.of_plain).0, median_min_max(&row.cpu_ns_kib).0);
            let way = if way == Way::Set { "set" } else { "get" };
            println!(
                "| {mib} MiB | {way} | {} | {gb_s:.2} ({low:.2}-{high:.2}) | {of_plain:.2} | {cpu:.0} |",
                peer.name
            );
        }
    }
    println!();
    for peer in peers.iter().skip(1) {
        let grown = peer.server.as_ref().map_or(0, TestServer::rss_bytes) as f64 - peer.rss_bytes as f64;
        println!("{} grew by {:.1} MiB during the measurement.", peer.name, grown / MIB as f64);
    }
    pin(None)
}

/// Transfers `turn_mib` MiB in values of `mib` MiB. Returns the speed in GB/s, and the server's CPU time in ns per KiB.
fn transfer(peer: &mut Peer, way: Way, mib: usize, turn_mib: usize) -> Result<(f64, f64), String> {
    let bytes = vec![b'v'; CALL_BYTES];
    let cpu = || peer.server.as_ref().map_or(0, TestServer::cpu_ns);
    let (before, begun) = (cpu(), Instant::now());
    let values = turn_mib.div_ceil(mib);
    for number in 0..values {
        let key = format!("{mib}-{}", number % (KEPT_MIB / mib / 2).max(1));
        let moved = match way {
            Way::Set => set(&mut peer.stream, &key, mib * MIB, &bytes),
            Way::Get => get(&mut peer.stream, &key, mib * MIB),
        };
        moved.map_err(|error| format!("{}: {key}: {error}", peer.name))?;
    }
    let moved = (values * mib * MIB) as f64;
    Ok((moved / begun.elapsed().as_nanos() as f64, (cpu() - before) as f64 * 1024.0 / moved))
}

fn set(stream: &mut TcpStream, key: &str, value_bytes: usize, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(format!("set {key} 0 0 {value_bytes}\r\n").as_bytes())?;
    let mut left = value_bytes;
    while left > 0 {
        let take = left.min(bytes.len());
        stream.write_all(&bytes[..take])?;
        left -= take;
    }
    stream.write_all(b"\r\n")?;
    let mut reply = [0; 8];
    stream.read_exact(&mut reply)?;
    if &reply == b"STORED\r\n" { Ok(()) } else { Err(std::io::Error::other("not stored")) }
}

fn get(stream: &mut TcpStream, key: &str, value_bytes: usize) -> std::io::Result<()> {
    stream.write_all(format!("get {key}\r\n").as_bytes())?;
    let mut left = format!("VALUE {key} 0 {value_bytes}\r\n").len() + value_bytes + b"\r\nEND\r\n".len();
    let mut into = vec![0; CALL_BYTES];
    let mut last = 0;
    while left > 0 {
        let take = left.min(into.len());
        let got = stream.read(&mut into[..take])?;
        if got == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        left -= got;
        last = got;
    }
    if into[..last].ends_with(b"\n") { Ok(()) } else { Err(std::io::Error::other("not a hit")) }
}

fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    let connect = || TcpStream::connect(address).and_then(|stream| stream.set_nodelay(true).map(|()| stream));
    connect().map_err(|error| error.to_string())
}

/// Starts the thread of the plain transfer, and connects to it.
fn plain() -> Result<Peer, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address: SocketAddr = listener.local_addr().map_err(|error| error.to_string())?;
    std::thread::spawn(move || {
        let _ = pin(Some(SERVER_CPU));
        if let Ok((stream, _)) = listener.accept()
            && stream.set_nodelay(true).is_ok()
        {
            // An error ends the thread. It occurs when the generator closes the connection.
            let _ = move_bytes(stream);
        }
    });
    let stream = connect(address)?;
    Ok(Peer { name: "plain", stream, server: None, rss_bytes: 0 })
}

fn move_bytes(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = vec![b'v'; CALL_BYTES];
    loop {
        let got = stream.read(&mut buffer)?;
        let line_bytes = buffer[..got].iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = String::from_utf8_lossy(&buffer[..line_bytes]).into_owned();
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next(), words.nth(2)) {
            (Some("set"), Some(_), Some(len)) => {
                let mut left = len.parse::<usize>().unwrap_or(0) + 2 - (got - line_bytes);
                while left > 0 {
                    let take = left.min(buffer.len());
                    left -= stream.read(&mut buffer[..take])?;
                }
                stream.write_all(b"STORED\r\n")?;
            }
            (Some("get"), Some(key), None) => {
                let mib = key.split('-').next().and_then(|mib| mib.parse::<usize>().ok()).unwrap_or(0);
                let mut left = format!("VALUE {key} 0 {}\r\n", mib * MIB).len() + mib * MIB + 7;
                buffer.fill(b'\n');
                while left > 0 {
                    let take = left.min(buffer.len());
                    stream.write_all(&buffer[..take])?;
                    left -= take;
                }
            }
            _ => return Ok(()),
        }
    }
}
