//! Replays recorded streams, and streams drawn from a seed, with values of several lengths.
//!
//! ```text
//!   DIR/*.xz, DIR/*.txt   an object number per line  ──┐
//!   drawn from a seed     phases of mixed patterns   ──┴─> stream ─ × value length × memory ──> a cell of the table
//! ```
//!
//! A cell is a stream at one value length and one memory. All items of a cell have the same length, so the misses of a
//! peer depend only on the number of items that its memory holds: the peers replay each stream once per memory. The
//! store has the segment size that a server of that memory has.
//!
//! Constants of the policy may be chosen on the first half of the recorded streams in alphabetical order. The table
//! shows the second half and the drawn streams separately.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use base::prng::{Prng, split_mix};
use segment::StoreConfig;

use super::gannet::{KEY_BYTES, Rig, START, cost_bytes};
use super::memcached;
use super::peers::{POLICIES, Peers};
use super::streams::Access;
use super::summary::columns;
use crate::replay::table::WeightTable;

/// Lengths of the values in bytes.
const VALUE_BYTES: [u32; 5] = [200, 3_000, 10_000, 30_000, 200_000];
/// Memory sizes, in thousandths of the bytes of all objects of a stream.
const PERMILLE: [u64; 4] = [50, 100, 200, 400];
/// Minimum number of items that a cell's memory holds.
const ITEMS_MIN: u64 = 500;
/// Maximum sum of the bytes of a stream's objects.
const FOOTPRINT_BYTES_MAX: u64 = 8 << 30;
/// Number of accesses of a drawn stream.
const DRAWN_ACCESSES: usize = 200_000;
/// Number of drawn streams.
const DRAWN: u64 = 6;
/// Number of accesses between two background slices: a server's background also runs between requests.
const SLICE_EVERY: usize = 4;
/// Sizes of segments in a memory that is too small for a server, in bytes.
const SEGMENT_BYTES_SMALL: [u32; 5] = [64 << 10, 32 << 10, 16 << 10, 8 << 10, 4 << 10];
/// Number of thread handles: two workers, and those that every server adds.
const HANDLES: usize = 5;

/// The selection of streams and cells.
#[derive(Clone, Debug)]
pub struct RecordedOptions {
    /// The folder with the recorded streams.
    pub folder: PathBuf,
    /// Seed of the drawn streams.
    pub seed: u64,
    /// Replay only the value lengths in this list, separated by commas. Empty: all.
    pub lengths: String,
    /// If set, fixes the small queue's share of the segments at this percentage.
    pub small_percent: Option<u8>,
    /// True to replay the cells on a memcached server too.
    pub with_memcached: bool,
}

/// A stream of object numbers.
#[derive(Debug)]
struct RecordedStream {
    name: String,
    /// Index in [`GROUPS`].
    group: usize,
    keys: Vec<u64>,
    objects: u64,
}

/// The groups of streams that the summary shows apart.
const GROUPS: [&str; 3] = ["recorded, first half", "recorded, second half", "drawn"];

/// One cell of the table.
#[derive(Clone, Copy, Debug)]
struct RecordedCell {
    stream: usize,
    value_bytes: u32,
    permille: usize,
}

/// The results of a cell.
#[derive(Clone, Debug, Default)]
struct CellResult {
    misses: u64,
    peers: Vec<u64>,
    memcached: Option<u64>,
    /// Bytes of keys and values that can be read at the end, in percent of the memory.
    payload_percent: f64,
}

/// Replays every cell and prints the table. `wanted` selects streams by name.
///
/// # Errors
/// If a file cannot be read, if the peers' library is not available, or if a store cannot be created.
pub fn run(peers: Option<&Peers>, options: &RecordedOptions, wanted: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let mut streams = read_all(&options.folder)?;
    streams.extend((0..DRAWN).map(|number| drawn(options.seed, number)));
    streams.retain(|stream| wanted(&stream.name));
    let lengths: Vec<u32> = options.lengths.split(',').filter_map(|length| length.parse().ok()).collect();
    let of_peers = streams.iter().map(|stream| of_peers(peers, stream)).collect::<Result<Vec<_>, String>>()?;
    let cells = cells(&streams, &lengths);
    let (next, results) = (AtomicUsize::new(0), Mutex::new(vec![None; cells.len()]));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((number, cell)) = Some(next.fetch_add(1, Relaxed)).and_then(|n| Some((n, cells.get(n)?)))
                {
                    let result = replay(&streams[cell.stream], cell, options);
                    results.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let names = peers.map_or(&[][..], |_| &POLICIES);
    println!(
        "| stream | value | memory, MB | items | gannet |{} gannet / best | memcached | payload, % |",
        columns(names.iter().copied())
    );
    println!("|---|---|---|---|---|{}---|---|---|", "---|".repeat(names.len()));
    let mut table = Vec::new();
    for (cell, result) in cells.iter().zip(results) {
        let Some(mut result) = result.ok_or("a thread of the replay panicked")?? else { continue };
        result.peers.clone_from(&of_peers[cell.stream][cell.permille]);
        println!("{}", row(&streams[cell.stream], cell, &result));
        table.push((streams[cell.stream].group, *cell, result));
    }
    if !names.is_empty() {
        println!("\n{}", summary(&table));
    }
    Ok(true)
}

fn row(stream: &RecordedStream, cell: &RecordedCell, result: &CellResult) -> String {
    let percent = |misses: u64| format!("{:.2}", misses as f64 * 100.0 / stream.keys.len() as f64);
    let cells = columns(std::iter::once(result.misses).chain(result.peers.iter().copied()).map(percent));
    let memory = memory_bytes(stream, cell);
    format!(
        "| {} | {} | {:.1} | {} |{cells} {} | {} | {:.1} |",
        stream.name,
        cell.value_bytes,
        memory as f64 / 1e6,
        memory / cost_of(cell.value_bytes),
        ratio(result).map_or("-".into(), |ratio| format!("{ratio:.3}")),
        result.memcached.map_or("-".into(), percent),
        result.payload_percent,
    )
}

/// Returns the ratio of Gannet's misses to those of the best peer.
fn ratio(result: &CellResult) -> Option<f64> {
    result.peers.iter().min().map(|best| result.misses as f64 / (*best).max(1) as f64)
}

/// Returns the table of geometric means and worst ratios, by group of streams and by value length.
fn summary(table: &[(usize, RecordedCell, CellResult)]) -> String {
    let mut text =
        String::from("| misses / best peer's misses | cells | mean | worst | above 1.10 | payload, least % |\n");
    text += "|---|---|---|---|---|---|\n";
    let mut add = |what: &str, chosen: &dyn Fn(usize, &RecordedCell) -> bool| {
        let chosen: Vec<_> = table.iter().filter(|(group, cell, _)| chosen(*group, cell)).collect();
        let ratios: Vec<f64> = chosen.iter().filter_map(|(_, _, result)| ratio(result)).collect();
        if ratios.is_empty() {
            return;
        }
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let worst = ratios.iter().fold(0.0, |worst: f64, ratio| worst.max(*ratio));
        let above = ratios.iter().filter(|ratio| **ratio > 1.10).count();
        let payload = chosen.iter().fold(100.0, |least: f64, (_, _, result)| least.min(result.payload_percent));
        text += &format!("| {what} | {} | {mean:.3} | {worst:.3} | {above} | {payload:.1} |\n", ratios.len());
    };
    for (number, name) in GROUPS.iter().enumerate() {
        add(name, &|group, _| group == number);
        for length in VALUE_BYTES {
            add(&format!("{name}, {length} bytes"), &|group, cell| group == number && cell.value_bytes == length);
        }
    }
    add("all", &|_, _| true);
    text
}

fn access(key: u64, value_bytes: u32) -> Access {
    Access { key, at_ms: 0, ttl_ms: 0, value_bytes }
}

fn cost_of(value_bytes: u32) -> u64 {
    cost_bytes(&access(0, value_bytes))
}

fn memory_bytes(stream: &RecordedStream, cell: &RecordedCell) -> u64 {
    stream.objects * cost_of(cell.value_bytes) * PERMILLE[cell.permille] / 1000
}

fn cells(streams: &[RecordedStream], lengths: &[u32]) -> Vec<RecordedCell> {
    let mut cells = Vec::new();
    for (stream, of) in streams.iter().enumerate() {
        for value_bytes in VALUE_BYTES {
            for permille in 0..PERMILLE.len() {
                let cell = RecordedCell { stream, value_bytes, permille };
                let footprint = of.objects * cost_of(value_bytes);
                let holds = memory_bytes(of, &cell) / cost_of(value_bytes);
                let wanted = lengths.is_empty() || lengths.contains(&value_bytes);
                if wanted && footprint <= FOOTPRINT_BYTES_MAX && holds >= ITEMS_MIN {
                    cells.push(cell);
                }
            }
        }
    }
    cells
}

/// Returns the misses of every peer at each memory, a list for each entry of [`PERMILLE`].
fn of_peers(peers: Option<&Peers>, stream: &RecordedStream) -> Result<Vec<Vec<u64>>, String> {
    let Some(peers) = peers else { return Ok(vec![Vec::new(); PERMILLE.len()]) };
    let accesses: Vec<Access> = stream.keys.iter().map(|key| access(*key, VALUE_BYTES[0])).collect();
    let cell = |permille| RecordedCell { stream: 0, value_bytes: VALUE_BYTES[0], permille };
    let sizes: Vec<u64> = (0..PERMILLE.len()).map(|permille| memory_bytes(stream, &cell(permille))).collect();
    peers.misses(&stream.name, false, &accesses, &sizes)
}

/// Replays a cell. Returns `None` if its memory is too small for a store.
fn replay(
    stream: &RecordedStream,
    cell: &RecordedCell,
    options: &RecordedOptions,
) -> Result<Option<CellResult>, String> {
    let memory = memory_bytes(stream, cell);
    let at = |error: String| format!("{} with {} bytes in {memory} bytes: {error}", stream.name, cell.value_bytes);
    let start = |segment| Rig::start(&config(memory, segment, cell.value_bytes), options.small_percent).ok();
    // A memory that is too small for a server gets the largest segments with which a store starts.
    let Some(mut rig) = start(None).or_else(|| SEGMENT_BYTES_SMALL.into_iter().find_map(|bytes| start(Some(bytes))))
    else {
        return Ok(None);
    };
    let mut result = CellResult::default();
    for (number, key) in stream.keys.iter().enumerate() {
        let access = access(*key, cell.value_bytes);
        let now = START.plus_ms(number as u64 / 16);
        if !rig.hit(&access, now).map_err(at)? {
            result.misses += 1;
            rig.store(&access, now, &mut || {}).map_err(at)?;
        }
        if number.is_multiple_of(SLICE_EVERY) {
            rig.slice(now);
        }
    }
    let end = START.plus_ms(stream.keys.len() as u64 / 16);
    let mut held = 0u64;
    for key in 0..stream.objects {
        held += u64::from(rig.hit(&access(key, cell.value_bytes), end).map_err(at)?);
    }
    let payload = held * (u64::from(cell.value_bytes) + KEY_BYTES as u64);
    result.payload_percent = payload as f64 * 100.0 / memory as f64;
    if options.with_memcached {
        result.memcached = memcached::misses(&stream.keys, cell.value_bytes, memory).map_err(at)?;
    }
    Ok(Some(result))
}

fn config(memory_bytes: u64, segment_bytes: Option<u32>, value_bytes: u32) -> StoreConfig {
    StoreConfig {
        memory_bytes,
        memory_bytes_max: 0,
        segment_bytes,
        item_bytes_max: u64::from(value_bytes) + 64,
        handles_max: if segment_bytes.is_some() { 1 } else { HANDLES },
        hash_seed: 1,
        huge_pages: false,
    }
}

/// Reads the streams of a folder, in alphabetical order.
fn read_all(folder: &Path) -> Result<Vec<RecordedStream>, String> {
    let at = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.extension().is_some_and(|end| end == "xz" || end == "txt") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{}: no stream: expected files that end in .xz or .txt", folder.display()));
    }
    let half = paths.len().div_ceil(2);
    paths.iter().enumerate().map(|(number, path)| read(path, usize::from(number >= half))).collect()
}

/// Reads a stream: an object number per line, in a file that xz may have compressed.
fn read(path: &Path, group: usize) -> Result<RecordedStream, String> {
    let at = |error: String| format!("{}: {error}", path.display());
    let text = if path.extension().is_some_and(|end| end == "xz") {
        let done = Command::new("xz").arg("-dc").arg(path).output().map_err(|error| at(format!("xz: {error}")))?;
        if !done.status.success() {
            return Err(at(format!("xz: {}: {}", done.status, String::from_utf8_lossy(&done.stderr))));
        }
        String::from_utf8(done.stdout).map_err(|error| at(error.to_string()))?
    } else {
        std::fs::read_to_string(path).map_err(|error| at(error.to_string()))?
    };
    let parse = |(number, line): (usize, &str)| {
        line.trim().parse().map_err(|_| at(format!("line {}: {line:?} is not an object number", number + 1)))
    };
    let keys: Vec<u64> = text.lines().enumerate().map(parse).collect::<Result<_, String>>()?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("stream");
    let name = name.split('.').next().unwrap_or(name);
    Ok(RecordedStream::new(name.to_owned(), group, keys))
}

impl RecordedStream {
    /// Renumbers the objects from 0 in the order of their first access.
    fn new(name: String, group: usize, mut keys: Vec<u64>) -> Self {
        let mut numbers = std::collections::HashMap::new();
        for key in &mut keys {
            let next = numbers.len() as u64;
            *key = *numbers.entry(*key).or_insert(next);
        }
        Self { name, group, keys, objects: numbers.len() as u64 }
    }
}

/// Draws a stream: two phases, each a mixture of up to three patterns with random weights and sizes.
fn drawn(seed: u64, number: u64) -> RecordedStream {
    let mut prng = Prng::new(split_mix(split_mix(seed) ^ number));
    let mut keys = Vec::with_capacity(DRAWN_ACCESSES);
    let mut lone = 1 << 40;
    for phase in 0..2 {
        let mut patterns: Vec<(f64, Pattern)> =
            (0..1 + prng.below(3)).map(|_| (0.2 + prng.unit(), Pattern::draw(&mut prng))).collect();
        let sum: f64 = patterns.iter().map(|(weight, _)| weight).sum();
        for step in 0..DRAWN_ACCESSES / 2 {
            let mut at = prng.unit() * sum;
            let last = patterns.len() - 1;
            let pick = patterns.iter().position(|(weight, _)| {
                at -= weight;
                at < 0.0
            });
            let base = (phase * 8 + pick.unwrap_or(last) as u64) << 32;
            keys.push(patterns[pick.unwrap_or(last)].1.next(base, step, &mut lone, &mut prng));
        }
    }
    RecordedStream::new(format!("drawn-{seed}-{number}"), 2, keys)
}

/// A pattern of accesses.
#[derive(Debug)]
enum Pattern {
    /// Keys by popularity.
    Zipf(WeightTable),
    /// A cycle through this many keys.
    Loop { keys: u64, at: u64 },
    /// Keys that are requested once.
    Once,
    /// Uniform in a window of `width` keys that moves by `pace` keys in a hundred accesses.
    Window { width: u64, pace: u64 },
}

impl Pattern {
    fn draw(prng: &mut Prng) -> Self {
        match prng.below(8) {
            0..=3 => {
                let (keys, alpha) = (2_000 + prng.below(20_000), 0.6 + 0.6 * prng.unit());
                Self::Zipf(WeightTable::new((1..=keys).map(|rank| (rank as f64).powf(-alpha))))
            }
            4 | 5 => Self::Loop { keys: 1_000 + prng.below(6_000), at: 0 },
            6 => Self::Once,
            _ => Self::Window { width: 1_000 + prng.below(4_000), pace: 1 + prng.below(40) },
        }
    }

    fn next(&mut self, base: u64, step: usize, lone: &mut u64, prng: &mut Prng) -> u64 {
        match self {
            Self::Zipf(ranks) => base + ranks.draw(prng) as u64,
            Self::Loop { keys, at } => {
                *at = (*at + 1) % *keys;
                base + *at
            }
            Self::Once => {
                *lone += 1;
                *lone
            }
            Self::Window { width, pace } => base + step as u64 * *pace / 100 + prng.below(*width),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_streams_are_reproducible_and_request_objects_again() {
        for number in 0..DRAWN {
            let (once, again) = (drawn(7, number), drawn(7, number));
            assert_eq!(once.keys, again.keys);
            assert_eq!(once.keys.len(), DRAWN_ACCESSES);
            assert!(once.keys.iter().all(|key| *key < once.objects), "objects are numbered from 0");
        }
        assert_ne!(drawn(7, 0).keys, drawn(8, 0).keys);
    }

    #[test]
    fn cells_hold_enough_items_and_not_too_many_bytes() {
        let stream = |objects| RecordedStream { name: "s".into(), group: 0, keys: Vec::new(), objects };
        let of = |objects| cells(&[stream(objects)], &[]).len();
        assert_eq!((of(1_000), of(1_300), of(20_000)), (0, VALUE_BYTES.len(), VALUE_BYTES.len() * PERMILLE.len()));
        assert_eq!(of(1_000_000), 2 * PERMILLE.len(), "8 GiB hold a million values of 200 and of 3,000 bytes");
    }
}
