//! Compares the store's misses with those of published eviction policies, with the same memory in bytes.
//!
//! ```text
//!   streams.rs ──accesses──> gannet.rs   the real store: one thread handle, background slices between the accesses
//!        └─────trace file──> peers.py    LRU, SIEVE, S3-FIFO, W-TinyLFU and ARC of libCacheSim
//! ```
//!
//! An access reads a key, and stores the item if the read misses. For Gannet and for the peers, an item costs its
//! stored size in Gannet plus one index slot. The peers use the whole memory for items. Gannet uses a part of it for
//! its free reserve, dead bytes and open segments.
//!
//! All random numbers follow from seeds, so two runs print the same table.

mod clusters;
mod flash;
mod gannet;
mod memcached;
mod meta;
mod peers;
pub mod plot;
pub mod recorded;
mod streams;
mod summary;

use std::path::Path;

use summary::{Summary, columns};

/// The selection of streams, and the variants of the store.
#[derive(Clone, Debug)]
pub struct PolicyOptions {
    /// Number of accesses of each stream; half as many for streams with lifetimes.
    pub accesses: usize,
    /// Run only the streams whose names contain one of these, separated by commas.
    pub only: String,
    /// If set, fixes the small queue's share of the segments at this percentage.
    pub small_percent: Option<u8>,
    /// True to run only Gannet, without the peers.
    pub without_peers: bool,
    /// True to run with a second tier instead of the peers.
    pub flash: bool,
    /// If set, replay these streams instead.
    pub recorded: Option<recorded::RecordedOptions>,
}

/// Replays every stream at every size and prints the tables. `root` is the repository's directory.
///
/// # Errors
/// If the peers' library or the data is not available, or if a store cannot be created.
pub fn run(root: &Path, target: &Path, options: &PolicyOptions) -> Result<bool, String> {
    if options.flash {
        return flash::run(root, options);
    }
    let peers = if options.without_peers { None } else { Some(peers::Peers::install(target)?) };
    let wanted = |name: &str| options.only.split(',').any(|part| name.contains(part));
    if let Some(recorded) = &options.recorded {
        let starts = |name: &str| options.only.split(',').any(|part| name.starts_with(part));
        return recorded::run(peers.as_ref(), recorded, &starts);
    }
    let names = peers.as_ref().map_or(&[][..], |_| &peers::POLICIES);
    println!("| stream | memory, MB | gannet |{} gannet / best |", columns(names.iter().copied()));
    println!("|---|---|---|{}---|", "---|".repeat(names.len()));
    let (mut summary, mut accounts) = (Summary::default(), String::new());
    for stream in streams::all(&root.join("data"))?.into_iter().filter(|stream| wanted(stream.name)) {
        let accesses = stream.draw(options.accesses);
        let sizes = stream.memories(&accesses);
        let table = match &peers {
            Some(peers) => peers.misses(stream.name, stream.has_lifetimes(), &accesses, &sizes)?,
            None => vec![Vec::new(); sizes.len()],
        };
        for (memory, row) in sizes.into_iter().zip(table) {
            let (ours, account) = gannet::misses(&accesses, memory, options.small_percent)
                .map_err(|error| format!("{} in {memory} bytes: {error}", stream.name))?;
            let percent = |misses: u64| format!("{:.2}", misses as f64 * 100.0 / accesses.len() as f64);
            let ratio = summary.add(stream.has_lifetimes(), ours, &row);
            let megabytes = memory as f64 / 1e6;
            let cells = columns(std::iter::once(ours).chain(row).map(percent));
            println!("| {} | {megabytes:.1} |{cells} {ratio} |", stream.name);
            accounts += &format!("| {} | {megabytes:.1} |{}\n", stream.name, account.columns());
        }
    }
    println!("\n{}", summary.text(names));
    println!("Use of Gannet's memory in percent, as means over each stream's second half:\n");
    println!(
        "| stream | memory, MB | live items | dead | free | open, not written | index | index load | small share |"
    );
    println!("|---|---|---|---|---|---|---|---|---|\n{}", accounts.trim_end());
    Ok(true)
}
