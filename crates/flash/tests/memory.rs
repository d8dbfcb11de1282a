//! Tests that an item on flash takes at most 10 bytes of memory, even an item of 64 bytes. Measures the figures of the
//! store and the tier, and the memory of the process.
//!
//! The same store runs with a small device and with a large one. Memory that does not depend on the device is equal in
//! both. So the difference is the memory of the large device's additional items.

use std::path::PathBuf;
use std::sync::Arc;

use base::clock::UnixMillis;
use gannet_flash::{FileDevice, Flash, FlashConfig, Sizes};
use segment::{IndexPlace, Namespace, Put, StoreConfig, TierBacking};

const NOW: UnixMillis = UnixMillis(1_700_000_000_000);
/// Small regions, so that the share of free and open regions is the same as on large devices.
const SIZES: Sizes = Sizes { region_bytes: 64 << 10, chunk_bytes: 16 << 10 };
const MEMORY_BYTES: u64 = 4 << 20;
/// Length of key and value together.
const ITEM_BYTES: u64 = 64;
/// The maximum memory for an item on flash, in bytes.
const BYTES_AN_ITEM_MAX: f64 = 10.0;

/// The memory of a store full of items.
#[derive(Debug)]
struct Taken {
    on_flash: u64,
    /// Share of the device's capacity in use.
    percent: u64,
    index_bytes: u64,
    table_bytes: u64,
    /// Anonymous memory of the process, less that of the segments, all of which were written to.
    process_bytes: u64,
}

/// Returns the memory of the process, without that of files.
fn process_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("the kernel says it");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") << 10
}

struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Stores items until every region has been written more than once.
fn fill(device_bytes: u64) -> Taken {
    let place = Place(std::env::temp_dir().join(format!("gannet-flash-memory-{}", std::process::id())));
    let device = FileDevice::open(&place.0, device_bytes).expect("a file");
    let before = process_bytes();
    let config = StoreConfig {
        memory_bytes: MEMORY_BYTES,
        memory_bytes_max: 0,
        segment_bytes: Some(32 << 10),
        item_bytes_max: 16 << 10,
        handles_max: 1,
        hash_seed: 1,
        huge_pages: false,
    };
    let room = SIZES.items(&[device_bytes], ITEM_BYTES);
    // The number of slots that the server would choose.
    let slots = (room + MEMORY_BYTES / 128) * 100 / 85;
    let mut ground =
        TierBacking::lay(&config, None, &SIZES.plan(&[device_bytes], slots, IndexPlace::File), NOW).expect("memory");
    let flash = Flash::new(FlashConfig {
        devices: vec![Box::new(device)],
        sizes: SIZES,
        handles: 1,
        room: ground.take_room(),
        seed: 1,
        writes_a_day_bytes: 0,
        is_view: false,
        on_lost: Box::new(|lost| panic!("{lost:?}")),
    });
    let (store, mut background) = ground.store(Arc::clone(&flash) as _, NOW).expect("a store");
    let (mut handle, mut scratch) = (store.handle().expect("a thread handle"), flash.scratch());
    for number in 0..room * 5 / 4 + MEMORY_BYTES / 64 {
        let key = format!("{number:016}");
        let put = Put::set(&[7; ITEM_BYTES as usize - 16]);
        loop {
            let mut guard = handle.guard(NOW);
            let key = guard.key(Namespace::DEFAULT, key.as_bytes());
            let stored = guard.items_mut().put(&key, &put).is_ok();
            drop(guard);
            if stored && number % 64 != 0 {
                break;
            }
            background.slice(NOW, &mut || false);
            while flash.write(&mut scratch) || flash.work(&mut scratch) {}
            if stored {
                break;
            }
        }
    }
    let (stats, counts) = (store.stats(), flash.counts());
    let on_flash = store.flash_slots();
    assert!(counts.devices_lost + counts.reclaim_failed == 0, "{counts:?}");
    Taken {
        on_flash,
        percent: on_flash * 100 / room,
        index_bytes: stats.index_bytes,
        table_bytes: flash.memory_bytes(),
        process_bytes: process_bytes() - before - (MEMORY_BYTES - stats.index_bytes),
    }
}

#[test]
fn flash_item_of_64_bytes_needs_at_most_10_bytes_of_memory() {
    // After a first run, the allocator retains the same memory in both measured runs.
    fill(24 << 20);
    let (small, large) = (fill(8 << 20), fill(24 << 20));
    for taken in [&small, &large] {
        assert!(taken.percent >= 90, "the device is not full: {taken:?}");
    }
    let more = |of: fn(&Taken) -> u64| (of(&large) as f64) - (of(&small) as f64);
    let on_flash = more(|taken| taken.on_flash);
    let said = more(|taken| taken.index_bytes + taken.table_bytes) / on_flash;
    let had = more(|taken| taken.process_bytes) / on_flash;
    println!(
        "an item of {ITEM_BYTES} bytes on flash takes {said:.2} bytes by the store's account, {had:.2} of the process"
    );
    println!("{small:?}\n{large:?}");
    assert!(said <= BYTES_AN_ITEM_MAX, "{said} bytes: {small:?}, {large:?}");
    assert!(had <= BYTES_AN_ITEM_MAX, "{had} bytes of the process: {small:?}, {large:?}");
}
