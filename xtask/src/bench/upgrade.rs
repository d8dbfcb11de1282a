//! Measures how long clients wait while a new process takes over a server.
//!
//! ```text
//!   idle       1,000 idle connections that are handed over
//!   asking     sends one get after another on one connection; the result is the longest reply time of a round
//!   coming     repeatedly connects, sends one get and closes; the result is the longest time from connect to reply
//!   round      500 ms without a takeover (calm); then a takeover by `gannet serve --upgrade`, and 500 ms after it
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::rounds::median_min_max;
use testbed::server::gannet_binary;

/// Number of idle connections.
const IDLE: usize = 1000;
const KEY_BYTES: usize = 24;
const VALUE_BYTES: usize = 200;
/// Approximate bytes of an item in the store.
const ITEM_BYTES: u64 = 232;
const PATIENCE: Duration = Duration::from_secs(60);
/// Length of a round's part without a takeover, and time for which requests continue after a takeover.
const CALM: Duration = Duration::from_millis(500);
/// Pause between two new connections.
const PAUSE: Duration = Duration::from_millis(1);

/// Runs the measurement and prints the results.
///
/// # Errors
/// If a server does not start or take over, or gives a wrong reply.
pub fn run(quick: bool) -> Result<(), String> {
    let (rounds, sizes) = if quick { (3, vec![64]) } else { (9, vec![256, 4096]) };
    println!(
        "A new process takes over a server full of items of {KEY_BYTES} + {VALUE_BYTES} B with {IDLE} idle \
         connections, {rounds} times; the longest reply time, ms, median (min-max).\n"
    );
    println!("| memory | gets on one connection | calm | connect and get | calm | items before and after |");
    println!("|---|---|---|---|---|---|");
    for memory_mib in sizes {
        for place in [MemoryBacking::File, MemoryBacking::FileAndDram, MemoryBacking::Memory] {
            measure(place, memory_mib, rounds)?;
        }
    }
    println!();
    Ok(())
}

/// The kind of memory that the server hands over.
#[derive(Clone, Copy, PartialEq)]
enum MemoryBacking {
    File,
    /// In a file on tmpfs, with the index in DRAM.
    FileAndDram,
    Memory,
}

/// A server that is taken over repeatedly.
struct Taken {
    child: Child,
    addr: SocketAddr,
    args: Vec<String>,
    file: Option<PathBuf>,
}

impl Taken {
    fn start(place: MemoryBacking, memory_mib: u64) -> Result<Self, String> {
        let probe = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let addr = probe.local_addr().map_err(|error| error.to_string())?;
        drop(probe);
        let file = (place != MemoryBacking::Memory)
            .then(|| PathBuf::from(format!("/dev/shm/gannet-bench-upgrade-{}", std::process::id())));
        let memory = format!("{memory_mib}MiB");
        let text = addr.to_string();
        let fixed = ["serve", "--memcached", &text, "--admin", "none", "--memory", &memory, "--log", "warn"];
        let mut args: Vec<String> = fixed.map(str::to_owned).to_vec();
        match &file {
            Some(path) => args.extend(["--file".to_owned(), path.display().to_string()]),
            None => args.push("--upgradable".to_owned()),
        }
        if place == MemoryBacking::FileAndDram {
            args.extend(["--file-index", "dram"].map(str::to_owned));
        }
        let child = spawn(&args)?;
        let taken = Self { child, addr, args, file };
        let begun = Instant::now();
        while TcpStream::connect(addr).is_err() {
            if begun.elapsed() > PATIENCE {
                return Err(format!("cannot connect to {addr}: no server listens there"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(taken)
    }

    /// Starts a new process that takes over from the current one. Returns when the old process has ended.
    fn upgrade(&mut self) -> Result<(), String> {
        let mut next = spawn(&[&self.args[..], &["--upgrade".to_owned()]].concat())?;
        let begun = Instant::now();
        loop {
            if let Ok(Some(status)) = next.try_wait() {
                return Err(format!("the new process ended: {status}"));
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                self.child = next;
                return if status.success() { Ok(()) } else { Err(format!("the old process ended: {status}")) };
            }
            if begun.elapsed() > PATIENCE {
                let _ = next.kill();
                let _ = next.wait();
                return Err("the new process did not take over".to_owned());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(path) = &self.file {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn spawn(args: &[String]) -> Result<Child, String> {
    let mut command = Command::new(gannet_binary()?);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().map_err(|error| format!("gannet: {error}"))
}

fn connect(addr: SocketAddr) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(addr).map_err(|error| format!("{addr}: {error}"))?;
    stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(PATIENCE))).map_err(|e| e.to_string())?;
    Ok(stream)
}

fn key(number: u64) -> String {
    format!("{number:0KEY_BYTES$}")
}

/// Stores items until the memory is eight tenths full. Returns their number.
fn fill(addr: SocketAddr, memory_mib: u64) -> Result<u64, String> {
    let items = (memory_mib << 20) / 10 * 8 / ITEM_BYTES;
    let mut stream = connect(addr)?;
    let value = "v".repeat(VALUE_BYTES);
    let mut reply = [0; 4];
    for from in (0..items).step_by(1000) {
        let mut batch: String = (from..items.min(from + 1000))
            .map(|number| format!("set {} 0 0 {VALUE_BYTES} noreply\r\n{value}\r\n", key(number)))
            .collect();
        batch.push_str("mn\r\n");
        stream.write_all(batch.as_bytes()).map_err(|error| error.to_string())?;
        stream.read_exact(&mut reply).map_err(|error| error.to_string())?;
        if &reply != b"MN\r\n" {
            return Err(format!("a set got the reply {reply:?}"));
        }
    }
    Ok(items)
}

/// Returns the number of items that the server reports.
fn items(addr: SocketAddr) -> Result<u64, String> {
    let mut stream = connect(addr)?;
    stream.write_all(b"stats\r\n").map_err(|error| error.to_string())?;
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(|error| error.to_string())?;
        if let Some(count) = line.strip_prefix("STAT curr_items ") {
            return count.parse().map_err(|_| line.clone());
        }
        if line == "END" {
            break;
        }
    }
    Err("the server does not report the number of its items".to_owned())
}

/// Sends a get of an existing key. Returns the time to the whole reply.
fn get(stream: &mut TcpStream, number: u64) -> Result<Duration, String> {
    let begun = Instant::now();
    let key = key(number);
    let len = format!("VALUE {key} 0 {VALUE_BYTES}\r\n").len() + VALUE_BYTES + "\r\nEND\r\n".len();
    let mut reply = vec![0; len];
    stream.write_all(format!("get {key}\r\n").as_bytes()).map_err(|error| format!("a get: {error}"))?;
    stream.read_exact(&mut reply).map_err(|error| format!("a get got no reply: {error}"))?;
    if reply.starts_with(b"VALUE ") && reply.ends_with(b"\r\nEND\r\n") {
        Ok(begun.elapsed())
    } else {
        Err(format!("the get of {key} got the reply {:?}", String::from_utf8_lossy(&reply[..40])))
    }
}

/// The longest reply times since the last call of [`Longest::take_ms`], in ns.
#[derive(Default)]
struct Longest {
    asking: AtomicU64,
    coming: AtomicU64,
}

impl Longest {
    fn take_ms(&self) -> [f64; 2] {
        [&self.asking, &self.coming].map(|longest| longest.swap(0, Relaxed) as f64 / 1e6)
    }
}

fn measure(place: MemoryBacking, memory_mib: u64, rounds: usize) -> Result<(), String> {
    let mut server = Taken::start(place, memory_mib)?;
    let addr = server.addr;
    let count = fill(addr, memory_mib)?;
    let before = items(addr)?;
    let idle = (0..IDLE).map(|_| connect(addr)).collect::<Result<Vec<_>, _>>()?;
    let (longest, over) = (Longest::default(), AtomicBool::new(false));
    let mut figures: [Vec<f64>; 4] = Default::default();
    let outcome = std::thread::scope(|scope| {
        let (longest, over) = (&longest, &over);
        let asking = scope.spawn(move || -> Result<(), String> {
            let mut stream = connect(addr)?;
            for number in 0.. {
                if over.load(Relaxed) {
                    break;
                }
                longest.asking.fetch_max(get(&mut stream, number * 7919 % count)?.as_nanos() as u64, Relaxed);
            }
            Ok(())
        });
        let coming = scope.spawn(move || -> Result<(), String> {
            for number in 0.. {
                if over.load(Relaxed) {
                    break;
                }
                let begun = Instant::now();
                get(&mut connect(addr)?, number * 104_729 % count)?;
                longest.coming.fetch_max(begun.elapsed().as_nanos() as u64, Relaxed);
                std::thread::sleep(PAUSE);
            }
            Ok(())
        });
        let mut upgrades = || {
            for _ in 0..rounds {
                longest.take_ms();
                std::thread::sleep(CALM);
                let calm = longest.take_ms();
                server.upgrade()?;
                std::thread::sleep(CALM);
                let upgraded = longest.take_ms();
                for (figure, ms) in figures.iter_mut().zip([upgraded[0], calm[0], upgraded[1], calm[1]]) {
                    figure.push(ms);
                }
            }
            Ok::<(), String>(())
        };
        let upgraded = upgrades();
        over.store(true, Relaxed);
        let asked = asking.join().map_err(|_| "a thread panicked".to_owned()).and_then(|asked| asked);
        let came = coming.join().map_err(|_| "a thread panicked".to_owned()).and_then(|came| came);
        upgraded.and(asked).and(came)
    });
    outcome?;
    let after = items(addr)?;
    for stream in idle.iter().step_by(IDLE / 10) {
        get(&mut stream.try_clone().map_err(|error| error.to_string())?, 0)?;
    }
    let cells = figures.each_ref().map(|figure| {
        let (median, low, high) = median_min_max(figure);
        format!("{median:.2} ({low:.2}-{high:.2})")
    });
    let name = match place {
        MemoryBacking::File => "--file on tmpfs",
        MemoryBacking::FileAndDram => "--file on tmpfs, --file-index dram",
        MemoryBacking::Memory => "--upgradable",
    };
    println!("| {memory_mib} MiB, {name} | {} | {before}, {after} |", cells.join(" | "));
    Ok(())
}
