//! Measures the background thread's slices while the index grows under load, and while the memory is raised and
//! lowered.
//!
//! Two servers are filled with items of 24 + 200 bytes through one connection, while another connection reads stored
//! items. The first server has all its memory from the start. The second starts with 64 MiB, which are raised step by
//! step and then lowered again. The result is the longest slice of each kind, in CPU time of its thread: on a machine
//! with fewer free CPUs than threads, wall time would include other threads.
//!
//! On a virtual machine even CPU time includes time taken by the host. So beside each server a control thread
//! repeatedly spins for 200 us. The time by which its longest spin exceeds 200 us is due to the machine. The number
//! of slices above 1 ms is printed beside the longest slice.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use base::prng::Prng;

use super::memory::{ItemShape, SHAPES, StoringClient, key};
use testbed::server::{ServerKind, ServerOptions, TestServer};

/// Items with keys of 24 bytes and values of 200 bytes, without a TTL.
const SHAPE: ItemShape = SHAPES[2];
/// Bytes that such an item takes in its segment.
const ITEM_BYTES: u64 = 228;
/// Memory in addition to the items (index, free reserve, headers), as a fraction of the items' bytes.
const BESIDE_PARTS: u64 = 11;
const SMALL_MIB: u64 = 64;
const BATCH: u64 = 10_000;
const SETTLE_MAX: Duration = Duration::from_secs(120);

/// Fills both servers with `item_mib` MiB of items and prints the longest slices.
///
/// # Errors
/// If a server does not start, gives a wrong reply, or does not reach its size.
pub fn run(item_mib: u64) -> Result<(), String> {
    let items = (item_mib << 20) / ITEM_BYTES;
    let memory_mib = item_mib + item_mib / BESIDE_PARTS + SMALL_MIB;
    println!("{items} items of {} + {} B; the longest slice by kind.\n", SHAPE.key_bytes, SHAPE.value_bytes);
    println!(
        "| server | seconds | index, MiB | growths | RSS, MiB | evicted | longest slice: CPU us (wall us), above 1 ms \
         of all | control, CPU us |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let server = TestServer::start(ServerKind::Gannet, &ServerOptions::memory(memory_mib))?;
    let begun = Instant::now();
    fill(&server, items, |_| Ok(()))?;
    report(&server, &format!("{memory_mib} MiB from the start"), begun)?;
    drop(server);
    let server = TestServer::start(ServerKind::Gannet, &ServerOptions::memory(SMALL_MIB))?;
    let begun = Instant::now();
    let mut limit_mib = SMALL_MIB;
    fill(&server, items, |stored| {
        // Raises the limit before the memory is full, so that nothing is evicted.
        while limit_mib < memory_mib && stored * ITEM_BYTES > (limit_mib << 20) / 2 {
            limit_mib = (limit_mib * 2).min(memory_mib);
            set_limit(&server, limit_mib)?;
        }
        Ok(())
    })?;
    report(&server, &format!("raised from {SMALL_MIB} MiB in doublings"), begun)?;
    let begun = Instant::now();
    set_limit(&server, memory_mib / 8)?;
    while server.stat("memory_held_bytes")? > (memory_mib / 8) << 20 {
        if begun.elapsed() > SETTLE_MAX {
            return Err("the memory is not lowered".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    report(&server, &format!("then lowered to {} MiB", memory_mib / 8), begun)?;
    println!();
    Ok(())
}

/// Stores the items while another thread reads stored ones.
fn fill(server: &TestServer, items: u64, mut before: impl FnMut(u64) -> Result<(), String>) -> Result<(), String> {
    let mut client = StoringClient::connect(server)?;
    let (stored, over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| spin(&over));
        let reader = scope.spawn(|| read(server, &stored, &over));
        let mut write = || {
            for first in (0..items).step_by(BATCH as usize) {
                before(first)?;
                client.store(SHAPE, first, BATCH.min(items - first))?;
                stored.store(first, Relaxed);
            }
            Ok(())
        };
        let written: Result<(), String> = write();
        over.store(true, Relaxed);
        let read = reader.join().map_err(|_| "the reader thread ended".to_owned())?;
        written.and(read)
    })
}

/// Reads items that were stored, sixteen at a time, until `over` is set.
fn read(server: &TestServer, stored: &AtomicU64, over: &AtomicBool) -> Result<(), String> {
    let stream = TcpStream::connect(server.address).map_err(|error| error.to_string())?;
    let mut reader = BufReader::new(stream);
    let mut prng = Prng::new(1);
    let mut line = String::new();
    while !over.load(Relaxed) {
        let there = stored.load(Relaxed).max(1);
        let asked: String = (0..16).map(|_| format!("mg {} s\r\n", key(SHAPE, prng.below(there)))).collect();
        reader.get_mut().write_all(asked.as_bytes()).map_err(|error| error.to_string())?;
        for _ in 0..16 {
            line.clear();
            reader.read_line(&mut line).map_err(|error| error.to_string())?;
            if line != "HD s200\r\n" && line != "EN\r\n" {
                return Err(format!("a meta get got the reply '{}'", line.trim_end()));
            }
        }
    }
    Ok(())
}

/// The longest single spin of the control thread ([`spin`]), in ns of CPU time.
static CONTROL_NS: AtomicU64 = AtomicU64::new(0);

/// Spins for 200 us of CPU time and sleeps for 1 ms, until `over` is set.
fn spin(over: &AtomicBool) {
    let cpu_ns = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    CONTROL_NS.store(0, Relaxed);
    while !over.load(Relaxed) {
        let begun = cpu_ns();
        let mut spent = 0;
        while spent < 200_000 {
            spent = cpu_ns() - begun;
        }
        CONTROL_NS.fetch_max(spent, Relaxed);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn set_limit(server: &TestServer, mib: u64) -> Result<(), String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(server.address)?;
        stream.write_all(format!("cache_memlimit {mib}\r\nquit\r\n").as_bytes())?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        Ok(reply)
    };
    match ask().map_err(|error| error.to_string())?.as_str() {
        "OK\r\n" => Ok(()),
        other => Err(format!("a limit of {mib} MiB got the reply '{}'", other.trim_end())),
    }
}

fn report(server: &TestServer, what: &str, begun: Instant) -> Result<(), String> {
    let seconds = begun.elapsed().as_secs_f64();
    let page = server.admin_page("/metrics")?;
    let value = |series: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or(0.0)
    };
    let kinds = ["evict", "expire", "compact", "grow", "resize", "populate"];
    let of = |name: &str, kind: &str| value(&format!("gannet_background_{name}{{kind=\"{kind}\"}}"));
    let slices = kinds.map(|kind| {
        let us = |name| of(name, kind) * 1e6;
        let (cpu, wall) = (us("slice_cpu_max_seconds"), us("slice_max_seconds"));
        let (long, all) = (of("slices_long_total", kind), of("slice_seconds_count", kind));
        format!("{kind} {cpu:.0} ({wall:.0}), {long} of {all}")
    });
    println!(
        "| {what} | {seconds:.1} | {:.0} | {} | {} | {} | {} | {} |",
        value("gannet_index_bytes") / 1048576.0,
        value("gannet_index_growths_total"),
        server.rss_bytes() >> 20,
        value("gannet_evicted_total"),
        slices.join("; "),
        CONTROL_NS.load(Relaxed) / 1000
    );
    Ok(())
}
