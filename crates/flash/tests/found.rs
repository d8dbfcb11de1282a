//! The search for items of an earlier process, on the tier alone: which items are shown, and which regions are freed
//! unread.

use std::collections::BTreeSet;
use std::sync::Arc;

use arena::MapFile;
use base::clock::UnixMillis;
use gannet_flash::device::Device;
use gannet_flash::{Flash, FlashConfig, SimDisk, SimHand, Sizes};
use segment::{
    FlashAddress, IndexPlace, Power, Reclaimed, RetainedItem, StoreConfig, StoreFile, Tier, TierBacking, TierFind,
    TierItem, WalkProgress,
};

const NOW: UnixMillis = UnixMillis(1_700_000_000_000);
const SIZES: Sizes = Sizes { region_bytes: 64 << 10, chunk_bytes: 16 << 10 };
/// Room for the front and sixteen regions.
const DISK_BYTES: u64 = 17 * (64 << 10);

fn begin(file: &Arc<MapFile>, disk: SimDisk) -> (Arc<Flash>, TierBacking) {
    let config = StoreConfig {
        memory_bytes: 800 << 10,
        memory_bytes_max: 0,
        segment_bytes: Some(16 << 10),
        item_bytes_max: 64 << 10,
        handles_max: 1,
        hash_seed: 1,
        huge_pages: false,
    };
    let file = StoreFile {
        file: Arc::clone(file),
        reset: false,
        index: IndexPlace::Dram,
        index_left: None,
        power: Power::default(),
    };
    let plan = SIZES.plan(&[DISK_BYTES], 512, IndexPlace::Dram);
    let mut ground = TierBacking::lay(&config, Some(&file), &plan, NOW).expect("memory");
    let flash = Flash::new(FlashConfig {
        devices: vec![Box::new(disk)],
        sizes: SIZES,
        handles: 1,
        room: ground.take_room(),
        seed: file.file.bytes().expect("its length"),
        writes_a_day_bytes: 0,
        is_view: false,
        on_lost: Box::new(|lost| panic!("{lost:?}")),
    });
    (flash, ground)
}

fn hash_of(number: u64) -> u64 {
    base::prng::split_mix(number)
}

fn offer(flash: &Flash, number: u64) -> Option<FlashAddress> {
    let (key, value) = (number.to_le_bytes(), vec![number as u8; 500 + number as usize % 300]);
    let item = TierItem {
        hash: hash_of(number),
        namespace: 0,
        key: &key,
        kept: RetainedItem::Bytes,
        value: &value,
        client_flags: 0,
        expire_at: None,
        token: None,
        sequence: 1,
        class: 0,
        is_read: false,
    };
    flash.offer(&item)
}

/// Offers items until no more are accepted. Returns the items that were named: those that a slot is said to reference.
fn fill(flash: &Flash, numbers: std::ops::Range<u64>) -> Vec<(u64, FlashAddress)> {
    let (mut scratch, mut named) = (flash.scratch(), Vec::new());
    for number in numbers {
        let Some(at) = offer(flash, number) else { break };
        if number % 5 != 0 {
            flash.name(at);
            named.push((hash_of(number), at));
        }
        while flash.write(&mut scratch) {}
    }
    named
}

/// Runs the search to its end. Returns each live item.
fn find(flash: &Flash) -> BTreeSet<(u64, u32, u16)> {
    let (mut scratch, mut found) = (flash.scratch(), BTreeSet::new());
    loop {
        let step = Tier::find(flash, &mut |hash, at| {
            if flash.is_gone(hash, at, 0) {
                return WalkProgress::Gone;
            }
            assert!(found.insert((hash, at.region(), at.block())), "{hash} is shown once");
            WalkProgress::Entered
        });
        if step == TierFind::Whole {
            return found;
        }
        while flash.work(&mut scratch) {}
    }
}

fn seen(items: &[(u64, FlashAddress)]) -> BTreeSet<(u64, u32, u16)> {
    items.iter().map(|(hash, at)| (*hash, at.region(), at.block())).collect()
}

fn next(hand: &SimHand, file: &Arc<MapFile>) -> (Arc<Flash>, TierBacking, SimHand) {
    let (disk, hand) = hand.copy(7);
    let (flash, ground) = begin(file, disk);
    (flash, ground, hand)
}

#[test]
fn recovery_lists_each_named_live_item_once_wherever_it_is() {
    let file = Arc::new(MapFile::in_memory().expect("a file"));
    let (disk, hand) = SimDisk::new(DISK_BYTES, 4096, 1);
    let (first, ground) = begin(&file, disk);
    let (store, background) = ground.store(Arc::clone(&first) as _, NOW).expect("a store");
    assert!(first.is_found(), "there was nothing");
    // Chunks that are written, that wait to be written, and that are being filled.
    let mut named = fill(&first, 0..400);
    for number in 400..460 {
        let at = offer(&first, number).expect("there is room");
        first.name(at);
        named.push((hash_of(number), at));
    }
    assert!(first.waiting().1 > 1, "chunks wait to be written");
    let dead: Vec<_> = named.iter().step_by(7).copied().collect();
    dead.iter().for_each(|(_, at)| first.kill(*at, 0));
    drop((first, store, background));
    let (second, _ground, _) = next(&hand, &file);
    assert!(!second.is_found());
    let mut lives = seen(&named);
    // Items that share a block with a dead item have its mark too, because all tags are equal here.
    lives.retain(|(_, region, block)| !dead.iter().any(|(_, at)| (at.region(), at.block()) == (*region, *block)));
    assert_eq!(find(&second), lives);
    assert!(second.is_found() && second.found().items == lives.len() as u64, "they are counted anew");
}

#[test]
fn unscanned_region_is_freed_without_reading_if_regions_are_short() {
    let file = Arc::new(MapFile::in_memory().expect("a file"));
    let (disk, hand) = SimDisk::new(DISK_BYTES, 4096, 1);
    let (first, ground) = begin(&file, disk);
    let (store, background) = ground.store(Arc::clone(&first) as _, NOW).expect("a store");
    let named = fill(&first, 0..2000);
    assert!(first.regions().0 == 0, "all are full");
    // The marks set here are cleared when these regions start their next life.
    named.iter().filter(|(_, at)| at.region() < 3).for_each(|(_, at)| first.kill(*at, 0));
    drop((first, store, background));
    let (second, _ground, hand) = next(&hand, &file);
    second.change(named[0].0);
    second.reclaim(NOW, &mut |_, _, _| Reclaimed::Done);
    assert_eq!(
        (second.counts().regions_dropped, second.regions().0),
        (1, 0),
        "one is given up, and waits for its device"
    );
    let image = Arc::new(file.image().expect("an image"));
    let (cut, _ground_of_cut, _) = next(&hand, &image);
    assert_eq!(cut.regions().0, 1, "it is free whenever the process is killed");
    let mut scratch = second.scratch();
    while second.regions().0 < 3 {
        second.reclaim(NOW, &mut |_, _, _| Reclaimed::Done);
        assert!(second.work(&mut scratch) || second.regions().0 >= 3, "the device is told");
    }
    assert!(second.counts().regions_dropped >= 3 && second.counts().reclaim_read_bytes == 0);
    let more = fill(&second, 5000..5080);
    let found = find(&second);
    assert!(more.len() > 40 && found.is_subset(&seen(&named)), "this process's own are not shown");
    assert!(found.iter().all(|(_, region, _)| *region >= 3), "the oldest are gone");
    assert!(found.len() > 500, "the others are found: {}", found.len());
    // After another kill, the next process finds both, except the changed items.
    drop(second);
    let (third, _ground, _) = next(&hand, &file);
    let again = find(&third);
    assert!(seen(&more).is_subset(&again) && found.is_subset(&again));
}

#[test]
fn item_unreadable_in_a_recovery_is_not_found_by_a_later_recovery() {
    let file = Arc::new(MapFile::in_memory().expect("a file"));
    let (disk, hand) = SimDisk::new(DISK_BYTES, 4096, 1);
    let (first, ground) = begin(&file, disk);
    let (store, background) = ground.store(Arc::clone(&first) as _, NOW).expect("a store");
    let named = fill(&first, 0..400);
    drop((first, store, background));
    let (damaged, _) = hand.copy(3);
    // The end of the second chunk of the first region, after the front.
    let zeros = vec![0; 8192];
    let from = zeros.as_ptr().align_offset(4096);
    damaged.write(&zeros[from..from + 4096], (64 << 10) + (32 << 10) - 4096).expect("written");
    let (second, _ground) = begin(&file, damaged);
    let found = find(&second);
    assert_eq!(second.counts().footers_failed, 1);
    let is_there = |at: &FlashAddress| at.region() == 0 && (32..64).contains(&at.block());
    let lost = named.iter().filter(|(_, at)| is_there(at)).count();
    assert!(lost > 5 && found.len() + lost == named.len(), "{lost} are lost, {} are found", found.len());
    // While that process served, keys of lost items may have been changed. So the items must stay lost.
    drop(second);
    let (third, _ground, _) = next(&hand, &file);
    assert_eq!(find(&third), found);
}

#[test]
fn item_stored_after_recovery_is_not_hidden_by_an_earlier_change() {
    let file = Arc::new(MapFile::in_memory().expect("a file"));
    let (disk, hand) = SimDisk::new(DISK_BYTES, 4096, 1);
    let (first, ground) = begin(&file, disk);
    let (store, background) = ground.store(Arc::clone(&first) as _, NOW).expect("a store");
    let named = fill(&first, 0..100);
    drop((first, store, background));
    let (second, _ground, hand) = next(&hand, &file);
    let changed = named[7];
    second.change(changed.0);
    assert!(!find(&second).contains(&(changed.0, changed.1.region(), changed.1.block())));
    // As the store does: marks the old item dead, stores its key again, and writes the new item to flash.
    second.kill(changed.1, 1);
    let at = offer(&second, 9).expect("there is room");
    assert_eq!(hash_of(9), changed.0, "the same key");
    second.name(at);
    drop(second);
    let (third, _ground, _) = next(&hand, &file);
    let again = find(&third);
    assert!(again.contains(&(changed.0, at.region(), at.block())), "it is found");
}
