//! Measures items on flash, for Gannet and for memcached's extstore: the time of a hit on flash and of a plain read of
//! the device, the effect of such hits on hits in memory, and the memory per item.
//!
//! ```text
//!   fill     sets of values of 1000 B, far more than fit in memory; then sets of keys that stay in memory
//!   device   fio reads 4 KiB at random places of a file of the same size, past the page cache, one read at a time
//!   hits     one connection, one get at a time, of keys whose items are on flash
//!   memory   gets that hit memory, at a fifth of the highest rate, alone and beside a maximum of gets from flash
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use super::generator::{Generator, Talk, store_keys};
use super::neighbour::{Loads, NeighbourTurn};
use super::rounds::{GENERATOR_CPU, SERVER_CPU, median_min_max};
use testbed::needs::{Need, install};
use testbed::server::{ServerKind, ServerOptions, TestServer, pin};

const FIO: Need = Need { program: "fio", arguments: &["--version"], packages: &["fio"] };
const VALUE_BYTES: usize = 1000;
/// Requests sent together while the server is filled.
const BATCH: usize = 50;
/// Maximum factor by which gets from flash may slow hits in memory.
const GOAL: f64 = 1.3;
/// The rate of gets that hit memory, as a share of their highest rate.
const QUIET_SHARE: f64 = 0.2;

/// Number of keys that the flood requests, beginning with key number [`FIRST`]. Their items together are larger than
/// the memory. The first and the last keys of the store are excluded, because memcached drops some of them and has
/// others in memory.
const FLOODED: usize = 700_000;
const FLOODED_QUICK: usize = 100_000;
const FIRST: usize = 800_000;
const FIRST_QUICK: usize = 50_000;

struct FlashPlan {
    keys: usize,
    /// Memory in MiB: enough for extstore's data per item, and far less than the keys need.
    memory_mib: u64,
    /// Number of the first key that the flood requests; then the number of such keys, and the function that returns a
    /// request for the flood.
    first: usize,
    flooded: usize,
    request: fn(usize) -> Vec<u8>,
    flash_mib: u64,
    reads: usize,
    rounds: usize,
    turn: Duration,
}

impl FlashPlan {
    fn new(quick: bool) -> Self {
        match quick {
            true => Self {
                keys: 200_000,
                memory_mib: 96,
                first: FIRST_QUICK,
                flooded: FLOODED_QUICK,
                request: flash_request::<FIRST_QUICK, FLOODED_QUICK>,
                flash_mib: 512,
                reads: 2000,
                rounds: 2,
                turn: Duration::from_millis(1000),
            },
            false => Self {
                keys: 2_000_000,
                memory_mib: 384,
                first: FIRST,
                flooded: FLOODED,
                request: flash_request::<FIRST, FLOODED>,
                flash_mib: 4096,
                reads: 20_000,
                // So short that the flood requests no key twice: a repeated key returns to memory and displaces the
                // keys of the quiet gets.
                rounds: 7,
                turn: Duration::from_millis(1500),
            },
        }
    }
}

/// Runs the measurement and prints the results.
///
/// # Errors
/// If a server does not start, or gives a wrong reply.
pub fn run(quick: bool) -> Result<(), String> {
    let plan = FlashPlan::new(quick);
    println!(
        "{} values of {VALUE_BYTES} B, {} MiB of memory, {} MiB of flash in a file in {}; server on CPU 0, \
         generator on CPU 1.\n",
        plan.keys,
        plan.memory_mib,
        plan.flash_mib,
        std::env::temp_dir().display()
    );
    let device = device_times(&plan)?;
    println!("| what | p50, us | p99 | p999 | items on flash | memory per item on flash, B | hits/s, 50 connections |");
    println!("|---|---|---|---|---|---|---|");
    let [p50, p99, p999] = device;
    println!("| the device, 4 KiB, by fio | {p50:.0} | {p99:.0} | {p999:.0} | - | - | - |");
    let mut beside = String::new();
    for kind in [ServerKind::Gannet, ServerKind::Memcached] {
        let options = ServerOptions {
            cpu: Some(SERVER_CPU),
            flash_mib: plan.flash_mib,
            ..ServerOptions::memory(plan.memory_mib)
        };
        let server = TestServer::start(kind, &options)?;
        pin(Some(GENERATOR_CPU))?;
        // Stores these keys first, because memcached has no free page for another item size once its memory is full.
        store_keys(server.address)?;
        fill(&server, plan.keys)?;
        store_keys(server.address)?;
        let (items, item_bytes) = on_flash(&server)?;
        let (times, found) = hit_times(&server, &plan).map_err(|error| error.to_string())?;
        let (turns, hits) = memory_hits(&server, &plan)?;
        println!(
            "| {} | {} | {items} ({found} of {} requested) | {item_bytes:.1} | {hits:.0} |",
            kind.name(),
            columns(&times),
            plan.reads
        );
        let ratios: Vec<f64> = turns.iter().map(|(alone, beside)| beside.us(0.999) / alone.us(0.999)).collect();
        let (ratio, low, high) = median_min_max(&ratios);
        let of = |pick: fn(&(NeighbourTurn, NeighbourTurn)) -> &NeighbourTurn| {
            median_min_max(&turns.iter().map(|turn| pick(turn).us(0.999)).collect::<Vec<_>>()).0
        };
        let (alone, with) = (of(|turn| &turn.0), of(|turn| &turn.1));
        beside += &format!("| {} | {alone:.0} | {with:.0} | {ratio:.2} ({low:.2}-{high:.2}) |\n", kind.name());
        pin(None)?;
    }
    println!("\nHits in memory, alone and beside as many gets of flash as possible (goal: at most {GOAL}):\n");
    println!("| server | p999 alone, us | beside | beside / alone, median (min-max) |\n|---|---|---|---|\n{beside}");
    Ok(())
}

fn columns(times_ns: &[u64]) -> String {
    let at =
        |share: f64| times_ns.get((times_ns.len() as f64 * share) as usize).map_or(f64::NAN, |ns| *ns as f64 / 1e3);
    format!("{:.0} | {:.0} | {:.0}", at(0.5), at(0.99), at(0.999))
}

/// Returns the device's p50, p99 and p999 in us: fio's reads of 4 KiB at random places of a file as large as the
/// server's, past the page cache, one at a time, on the generator's CPU.
fn device_times(plan: &FlashPlan) -> Result<[f64; 3], String> {
    install(&[FIO])?;
    let path = std::env::temp_dir().join(format!("flash-device-{}", std::process::id()));
    let fio = Command::new("fio")
        .args(["--name=device", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=psync", "--output-format=json"])
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--size={}M", plan.flash_mib))
        .arg(format!("--number_ios={}", plan.reads))
        .arg(format!("--cpus_allowed={GENERATOR_CPU}"))
        .output();
    let _ = std::fs::remove_file(&path);
    let output = fio.map_err(|error| format!("fio: {error}"))?;
    if !output.status.success() {
        return Err(format!("fio: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("fio: {error}"))?;
    // fio reports the times of whole calls, in ns.
    let times = &report["jobs"][0]["read"]["clat_ns"]["percentile"];
    let at = |share: &str| times[share].as_f64().map(|ns| ns / 1e3);
    let all = [at("50.000000"), at("99.000000"), at("99.900000")];
    let [Some(p50), Some(p99), Some(p999)] = all else { return Err(format!("fio reported no percentiles: {times}")) };
    Ok([p50, p99, p999])
}

fn key(number: usize) -> String {
    format!("flash:{number:018}")
}

/// Returns the flood's request with this number. The keys are requested in an order other than the one in which they
/// were stored.
fn flash_request<const FIRST: usize, const KEYS: usize>(number: usize) -> Vec<u8> {
    format!("get {}\r\n", key(FIRST + number.wrapping_mul(7919) % KEYS)).into_bytes()
}

fn fill(server: &TestServer, keys: usize) -> Result<(), String> {
    let mut stream = TcpStream::connect(server.address).map_err(|error| error.to_string())?;
    let mut replies = vec![0; 8 * BATCH];
    for first in (0..keys).step_by(BATCH) {
        let mut batch = Vec::with_capacity(BATCH * (VALUE_BYTES + 64));
        for number in first..first + BATCH {
            batch.extend(format!("set {} 0 0 {VALUE_BYTES}\r\n", key(number)).into_bytes());
            batch.resize(batch.len() + VALUE_BYTES, b'x');
            batch.extend(b"\r\n");
        }
        let asked = stream.write_all(&batch).and_then(|()| stream.read_exact(&mut replies));
        asked.map_err(|error| format!("filling {}: {error}", server.kind.name()))?;
        // A device that is slower than the sets would cause both servers to drop most items.
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_secs(1));
    Ok(())
}

/// Returns the number of items on flash, and the bytes of memory per item on flash. For Gannet, the memory is the
/// index, counted per item when the index is fullest. For memcached, it is the chunk with the item's header, which
/// stays in memory, and a word of the hash table.
fn on_flash(server: &TestServer) -> Result<(u64, f64), String> {
    if server.kind == ServerKind::Memcached {
        let items = server.stat("extstore_objects_used")?;
        let slabs = server.stats("stats slabs")?;
        let column = |what: &str| -> Vec<u64> {
            let end = format!(":{what} ");
            slabs.lines().filter_map(|line| line.split_once(&end)?.1.trim().parse().ok()).collect()
        };
        let classes = column("chunk_size").into_iter().zip(column("used_chunks"));
        let most = classes.max_by_key(|(_, used)| *used).map_or(0, |(bytes, _)| bytes);
        // Adds one word of the hash table, which has 1 to 1.5 words per item.
        return Ok((items, most as f64 + 8.0));
    }
    let page = server.admin_page("/metrics")?;
    let figure = |name: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse::<f64>().ok()).ok_or_else(|| format!("{name} is not among the metrics"))
    };
    let per_slot = figure("gannet_index_bytes")? / figure("gannet_index_slots")?;
    Ok((figure("gannet_flash_items")? as u64, per_slot / 0.85))
}

/// Returns the times of gets of keys on flash, one at a time, in ascending order, and the number of hits.
fn hit_times(server: &TestServer, plan: &FlashPlan) -> std::io::Result<(Vec<u64>, usize)> {
    let mut stream = BufReader::new(TcpStream::connect(server.address)?);
    stream.get_ref().set_nodelay(true)?;
    let (mut times, mut line) = (Vec::with_capacity(plan.reads), String::new());
    let mut value = vec![0; VALUE_BYTES + 7];
    for number in 0..plan.reads {
        // Requests each key once, because a get may bring its item back to memory.
        let request = format!("get {}\r\n", key(plan.first + number * 3 % plan.flooded));
        let begun = Instant::now();
        stream.get_mut().write_all(request.as_bytes())?;
        line.clear();
        stream.read_line(&mut line)?;
        if line.starts_with("VALUE") {
            stream.read_exact(&mut value)?;
            times.push(begun.elapsed().as_nanos() as u64);
        }
    }
    let found = times.len();
    times.sort_unstable();
    Ok((times, found))
}

/// Runs gets that hit memory, alternately alone and beside gets from flash. Returns the times of the former, and the
/// number of gets from flash per second.
fn memory_hits(server: &TestServer, plan: &FlashPlan) -> Result<(Vec<(NeighbourTurn, NeighbourTurn)>, f64), String> {
    let talk = Talk::gets();
    let io = |error: std::io::Error| format!("{}: {error}", server.kind.name());
    let mut closed = Generator::connect(server.address, 50, 1, 1, &talk).map_err(io)?;
    closed.run(plan.turn / 4)?;
    let highest = closed.run(plan.turn / 2)? as f64 / (plan.turn / 2).as_secs_f64();
    let mut loads = Loads { number: 0, request: plan.request, end: b"END\r\n" };
    let (mut turns, mut answered) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let alone = loads.run(server, highest * QUIET_SHARE, 0.0, plan.turn).map_err(io)?;
        let beside = loads.run(server, highest * QUIET_SHARE, f64::INFINITY, plan.turn).map_err(io)?;
        answered.push(beside.answered as f64 / plan.turn.as_secs_f64());
        turns.push((alone, beside));
    }
    Ok((turns, median_min_max(&answered).0))
}
