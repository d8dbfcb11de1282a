//! Runs the streams with a second tier that is ten times as large as the memory, on a simulated disk. The results are
//! the misses that the tier saves, the bytes that are written, and the additional misses under a write budget.

use std::path::Path;
use std::sync::Arc;

use flash::{Flash, FlashConfig, Scratch, SimDisk, Sizes};
use segment::{FromFlash, IndexPlace, Namespace, Prefetched, StoreConfig, TierBacking};

use super::gannet::{self, Rig};
use super::streams::{self, Access, VALUE_BYTES_MAX};

/// Ratio of the second tier's size to the memory's size.
const TIMES: u64 = 10;
/// Number of regions of the second tier. With more regions, a chunk could be shorter than an item.
const REGIONS: u64 = 256;
const REGION_BYTES_MIN: u64 = 128 << 10;
/// Number of chunks in a region.
const CHUNKS: usize = 4;
/// Write budgets, in percent of the bytes written without a budget.
const BUDGETS_PERCENT: [u64; 2] = [50, 25];
/// Minimum memory of a store whose index also has the items of a second tier, in bytes.
const MEMORY_BYTES_MIN: u64 = 320 << 10;
/// Length of a day in milliseconds, for streams whose accesses have no times.
const DAY_MS: u64 = 24 * 3600 * 1000;

/// The results of a replay.
#[derive(Clone, Copy, Debug, Default)]
struct Replayed {
    misses: u64,
    written_bytes: u64,
    item_bytes: u64,
    again_bytes: u64,
}

/// Replays the streams of Meta and Twitter, and some others, in the two smallest memories, and prints the table.
///
/// # Errors
/// If the data cannot be read, or if a store cannot be created.
pub(super) fn run(root: &Path, options: &super::PolicyOptions) -> Result<bool, String> {
    println!(
        "| stream | memory, MB | memory alone | with flash | written, GB | written / evicted bytes | half of that | a \
         quarter |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let wanted = |name: &str| options.only.split(',').any(|part| name.contains(part));
    for stream in streams::all(&root.join("data"))?.into_iter().filter(|stream| wanted(stream.name)) {
        let accesses = stream.draw(options.accesses);
        let (memories, small): (Vec<u64>, Vec<u64>) =
            stream.memories(&accesses).into_iter().take(2).partition(|memory| *memory >= MEMORY_BYTES_MIN);
        small.iter().for_each(|memory| println!("| {} | {:.1} | too small |", stream.name, *memory as f64 / 1e6));
        for memory in memories {
            let alone = gannet::misses(&accesses, memory, options.small_percent)?.0;
            let whole = replay(&accesses, memory, 0)?;
            let spans_ms = if stream.has_lifetimes() { accesses.last().map_or(0, |last| last.at_ms) } else { DAY_MS };
            let mut short = Vec::new();
            for percent in BUDGETS_PERCENT {
                let a_day = u128::from(whole.written_bytes) * u128::from(percent * DAY_MS) / u128::from(100 * spans_ms);
                short.push(replay(&accesses, memory, a_day as u64)?.misses);
            }
            let percent = |misses: u64| misses as f64 * 100.0 / accesses.len() as f64;
            let first = whole.item_bytes - whole.again_bytes;
            println!(
                "| {} | {:.1} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
                stream.name,
                memory as f64 / 1e6,
                percent(alone),
                percent(whole.misses),
                whole.written_bytes as f64 / 1e9,
                whole.written_bytes as f64 / first.max(1) as f64,
                percent(short[0]),
                percent(short[1]),
            );
        }
    }
    Ok(true)
}

fn replay(accesses: &[Access], memory_bytes: u64, writes_a_day_bytes: u64) -> Result<Replayed, String> {
    let disk_bytes = memory_bytes * TIMES;
    let region_bytes = 1 << (disk_bytes / REGIONS).max(REGION_BYTES_MIN).ilog2();
    let sizes = Sizes { region_bytes, chunk_bytes: region_bytes / CHUNKS };
    let config = StoreConfig { item_bytes_max: VALUE_BYTES_MAX * 2, ..gannet::config(memory_bytes) };
    let mean = accesses.iter().map(gannet::cost_bytes).sum::<u64>() / accesses.len().max(1) as u64;
    let slots = (disk_bytes + memory_bytes) / mean * 100 / 85;
    let plan = sizes.plan(&[disk_bytes], slots.min(memory_bytes / 16), IndexPlace::File);
    let mut ground = TierBacking::lay(&config, None, &plan, gannet::START).map_err(|error| error.to_string())?;
    let flash = Flash::new(FlashConfig {
        devices: vec![Box::new(SimDisk::new(disk_bytes, 4096, 1).0)],
        sizes,
        handles: 1,
        room: ground.take_room(),
        seed: 1,
        writes_a_day_bytes,
        is_view: false,
        on_lost: Box::new(|_| {}),
    });
    let (store, background) =
        ground.store(Arc::clone(&flash) as _, gannet::START).map_err(|error| error.to_string())?;
    let mut rig = Rig::new(store, background)?;
    let mut scratch = flash.scratch();
    let mut misses = 0;
    for (number, access) in accesses.iter().enumerate() {
        let now = match access.at_ms {
            0 => gannet::START.plus_ms(number as u64 * DAY_MS / accesses.len() as u64),
            at_ms => gannet::START.plus_ms(at_ms),
        };
        if !hit(&mut rig, access, now, &flash, &mut scratch) {
            misses += 1;
            rig.store(access, now, &mut || while flash.work(&mut scratch) {})?;
        }
        rig.meanwhile(number, access, now);
        while flash.write(&mut scratch) || flash.work(&mut scratch) {}
    }
    let counts = flash.counts();
    Ok(Replayed {
        misses,
        written_bytes: counts.written_bytes,
        item_bytes: counts.item_bytes,
        again_bytes: counts.again_bytes,
    })
}

/// Reads an item from memory or flash. Returns whether it was a hit.
fn hit(rig: &mut Rig, access: &Access, now: base::clock::UnixMillis, flash: &Flash, scratch: &mut Scratch) -> bool {
    let text = gannet::key_text(access);
    loop {
        let mut guard = rig.handle.guard(now);
        let key = guard.key(Namespace::DEFAULT, &text);
        if guard.items().read(&key, Prefetched::default()).is_some() {
            return true;
        }
        match guard.tier().read(&key) {
            FromFlash::Nowhere => return false,
            FromFlash::Here(hit) => {
                guard.tier_mut().served(&key, hit);
                return true;
            }
            FromFlash::Coming => {}
        }
        drop(guard);
        while flash.work(scratch) {}
    }
}
