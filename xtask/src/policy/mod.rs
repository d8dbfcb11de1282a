//! How many requests miss, beside the eviction policies that are published, at equal bytes.
//!
//! ```text
//!   streams.rs ──accesses──> gannet.rs   the real store: one lane, its background in slices between the accesses
//!        └─────trace file──> peers.py    LRU, SIEVE, S3-FIFO, W-TinyLFU and ARC of libCacheSim
//! ```
//!
//! An access reads a key and stores it if it misses. An item costs its stored size and one index slot in both, so that
//! the peers get what Gannet's best case would hold; Gannet pays for its free reserve, dead bytes and open segments.
//! Where items have lifetimes, the peers remove an item when a read finds that it has ended.
//!
//! Everything is drawn from seeds: two runs print the same table.

mod gannet;
mod peers;
pub mod plot;
mod streams;

use std::path::Path;

use streams::{Access, Stream};

/// What to replay.
#[derive(Clone, Debug)]
pub struct Options {
    /// Accesses of each stream.
    pub accesses: usize,
    /// Only the streams whose name contains this.
    pub only: String,
    /// Hold the small queue's share at so many percent.
    pub small_percent: Option<u8>,
    /// Leave the peers out.
    pub without_peers: bool,
}

/// Memory of a run, in parts of a thousand of the bytes of all keys that the stream asks for. What is under the least
/// memory of a store is left out.
const SIZES_PERMILLE: [u64; 5] = [25, 50, 100, 200, 400];

/// Replays every stream at every size and prints the table.
///
/// # Errors
/// When the peers' library is not to be had, or a store cannot be made.
pub fn run(target: &Path, options: &Options) -> Result<bool, String> {
    let peers = if options.without_peers { None } else { Some(peers::Peers::install(target)?) };
    let names = peers.as_ref().map_or(&[][..], |_| &peers::POLICIES);
    println!("{} accesses a stream; misses in percent of the accesses\n", options.accesses);
    print!("| stream | memory, MB | gannet |");
    names.iter().for_each(|name| print!(" {name} |"));
    println!(" gannet / best |\n|---|---|---|{}---|", "---|".repeat(names.len()));
    let (mut ratios, mut accounts) = (Vec::new(), String::new());
    for stream in streams::all().into_iter().filter(|stream| stream.name.contains(&options.only)) {
        let accesses = stream.draw(options.accesses);
        let footprint = footprint(&accesses);
        let sizes = SIZES_PERMILLE.map(|permille| footprint * permille / 1000);
        let sizes: Vec<u64> = sizes.into_iter().filter(|bytes| *bytes >= gannet::MEMORY_MIN_BYTES).collect();
        let table = match &peers {
            Some(peers) => peers.misses(&stream, &accesses, &sizes)?,
            None => vec![Vec::new(); sizes.len()],
        };
        for (memory, row) in sizes.into_iter().zip(table) {
            let (ours, account) = gannet::misses(&accesses, memory, options.small_percent)?;
            let percent = |misses: u64| misses as f64 * 100.0 / accesses.len() as f64;
            print!("| {} | {:.0} | {:.2} |", stream.name, memory as f64 / 1e6, percent(ours));
            for misses in &row {
                match misses {
                    Some(misses) => print!(" {:.2} |", percent(*misses)),
                    None => print!(" - |"),
                }
            }
            match row.iter().flatten().min() {
                Some(best) => {
                    let ratio = ours as f64 / (*best).max(1) as f64;
                    ratios.push(ratio);
                    println!(" {ratio:.3} |");
                }
                None => println!(" |"),
            }
            let gannet::Account { live, dead, free, open, index, load, .. } = account;
            accounts += &format!(
                "| {} | {:.0} | {live:.1} | {dead:.1} | {free:.1} | {open:.1} | {index:.1} | {load:.0} |\n",
                stream.name,
                memory as f64 / 1e6
            );
        }
    }
    if !ratios.is_empty() {
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        println!("\nGeometric mean of gannet / best: {mean:.3}; the worst: {worst:.3}.");
    }
    println!("\nWhere Gannet's memory is, in percent of it, on the mean of each stream's second half:\n");
    println!("| stream | memory, MB | live items | dead | free | open, not written | index | index load |");
    println!("|---|---|---|---|---|---|---|---|\n{}", accounts.trim_end());
    Ok(true)
}

/// The bytes of all keys that are asked for.
fn footprint(accesses: &[Access]) -> u64 {
    let mut seen = std::collections::HashSet::new();
    accesses.iter().filter(|access| seen.insert(access.key)).map(gannet::cost_bytes).sum()
}
