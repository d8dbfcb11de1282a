//! Tests with several devices, and with devices that do not answer.

use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex};

use arena::MapFile;
use base::clock::UnixMillis;
use base::prng::Prng;
use gannet_flash::device::Device;
use gannet_flash::{FileDevice, Flash, FlashConfig, SimDisk, SimHand, Sizes};
use io::waker::Waker;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use segment::{
    FlashAddress, Found, IndexPlace, ReadBy, Reclaimed, RetainedItem, StoreConfig, StoreFile, Tier, TierBacking,
    TierItem, TierPlan, TierRead, TierRoom,
};

const NOW: UnixMillis = UnixMillis(1_700_000_000_000);
const SIZES: Sizes = Sizes { region_bytes: 64 << 10, chunk_bytes: 16 << 10 };
/// Room for the front and eight regions.
const DISK_BYTES: u64 = 9 * (64 << 10);

fn plan() -> TierPlan {
    SIZES.plan(&[DISK_BYTES; 2], 512, IndexPlace::File)
}

fn flash(devices: Vec<Box<dyn Device>>, room: TierRoom, seed: u64) -> Arc<Flash> {
    let on_lost = Box::new(|_: &_| {});
    let (sizes, handles, writes_a_day_bytes, is_view) = (SIZES, 1, 0, false);
    Flash::new(FlashConfig { devices, sizes, handles, room, seed, writes_a_day_bytes, on_lost, is_view })
}

fn key(number: u64) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

/// Returns the value of an item: 1,000 bytes, or 12,000 bytes for every 300th item.
fn value_of(number: u64) -> Vec<u8> {
    vec![number as u8; if number % 300 == 99 { 12_000 } else { 1000 }]
}

/// Offers items, and writes full chunks, until the tier accepts no more. Returns the items' addresses.
fn fill(flash: &Flash) -> Vec<FlashAddress> {
    let mut scratch = flash.scratch();
    let mut taken = Vec::new();
    for number in 0.. {
        let (key, value) = (key(number), value_of(number));
        let item = TierItem {
            hash: number,
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
        let Some(at) = flash.offer(&item) else { return taken };
        taken.push(at);
        while flash.write(&mut scratch) {}
    }
    unreachable!("devices are full at some time")
}

fn read_of(number: u64, at: FlashAddress) -> TierRead {
    TierRead { handle: 0, hash: number, by: ReadBy::Key, at, buffer: Vec::new(), found: Found::Nothing }
}

fn ask(flash: &Flash, number: u64, at: FlashAddress) {
    flash.ask(read_of(number, at)).expect("there is room");
}

fn collect(flash: &Flash) -> TierRead {
    loop {
        match flash.collect(0) {
            Some(read) => return read,
            None => std::thread::yield_now(),
        }
    }
}

fn is_item(read: &TierRead) -> bool {
    let Found::Item(parts) = &read.found else { return false };
    assert_eq!(read.buffer[parts.key.clone()], key(read.hash));
    assert_eq!(read.buffer[parts.value.clone()], value_of(read.hash));
    true
}

/// A disk that does not answer while its gate is closed.
#[derive(Debug)]
struct Stuck {
    disk: SimDisk,
    gate: Gate,
    /// A descriptor that never has data. The ring reads from it instead of from the disk.
    silent: Option<OwnedFd>,
}

#[derive(Clone, Debug, Default)]
struct Gate(Arc<(Mutex<(bool, u64)>, Condvar)>);

impl Gate {
    fn close(&self, closed: bool) {
        self.0.0.lock().expect("nobody panics").0 = closed;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut state = self.0.0.lock().expect("nobody panics");
        state.1 += u64::from(state.0);
        self.0.1.notify_all();
        while state.0 {
            state = self.0.1.wait(state).expect("nobody panics");
        }
    }

    /// Waits until `waiting` requests wait at the gate.
    fn wait_for(&self, waiting: u64) {
        let mut state = self.0.0.lock().expect("nobody panics");
        while state.1 < waiting {
            state = self.0.1.wait(state).expect("nobody panics");
        }
    }
}

impl Device for Stuck {
    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.silent.as_ref().map(AsFd::as_fd)
    }

    fn bytes(&self) -> u64 {
        self.disk.bytes()
    }

    fn block_bytes(&self) -> usize {
        self.disk.block_bytes()
    }

    fn name(&self) -> String {
        "stuck".to_owned()
    }

    fn read(&self, into: &mut [u8], at: u64) -> std::io::Result<()> {
        self.gate.pass();
        self.disk.read(into, at)
    }

    fn write(&self, from: &[u8], at: u64) -> std::io::Result<()> {
        self.disk.write(from, at)
    }

    fn sync(&self) -> std::io::Result<()> {
        self.disk.sync()
    }

    fn discard(&self, at: u64, bytes: u64) {
        self.disk.discard(at, bytes);
    }
}

#[test]
fn hung_device_is_abandoned_and_the_other_device_continues() {
    let (gate, (slow, _), (fast, _)) =
        (Gate::default(), SimDisk::new(DISK_BYTES, 512, 1), SimDisk::new(DISK_BYTES, 512, 2));
    let devices: Vec<Box<dyn Device>> =
        vec![Box::new(Stuck { disk: slow, gate: gate.clone(), silent: None }), Box::new(fast)];
    let flash = flash(devices, TierRoom::private(&plan()).expect("memory"), 1);
    let taken = fill(&flash);
    let on = |of: std::ops::Range<u32>| taken.iter().position(|at| of.contains(&at.region())).expect("some are") as u64;
    let (on_slow, on_fast) = (on(0..8), on(8..16));
    flash.reclaim(NOW, &mut |_, _, _| Reclaimed::Later);
    let threads = flash.spawn(&[], || {}).expect("threads");
    gate.close(true);
    // Requests more reads than the device has threads. The remaining reads wait in its queue.
    let readers = Flash::readers(2) as u64;
    (0..readers + 3).for_each(|n| ask(&flash, on_slow + n, taken[(on_slow + n) as usize]));
    gate.wait_for(readers);
    ask(&flash, on_fast, taken[on_fast as usize]);
    assert!(is_item(&collect(&flash)), "the other device answers");
    assert!(flash.collect(0).is_none(), "and this one does not");
    let pass = |from_ms: u64, to_ms: u64| {
        (from_ms..=to_ms).step_by(1000).for_each(|ms| {
            flash.reclaim(NOW.plus_ms(ms), &mut |_, _, _| Reclaimed::Later);
        });
    };
    pass(0, 9_000);
    assert!(flash.collect(0).is_none() && !flash.devices()[0].lost, "it may take its time");
    pass(40_000, 49_000);
    assert!(flash.collect(0).is_none() && !flash.devices()[0].lost, "it was the process that stood still");
    pass(50_000, 52_000);
    let failed: Vec<TierRead> = (0..readers + 3).map(|_| collect(&flash)).collect();
    assert!(failed.iter().all(|read| read.found == Found::Failed));
    assert_eq!([flash.devices()[0].lost, flash.devices()[1].lost], [true, false]);
    ask(&flash, on_slow, taken[on_slow as usize]);
    pass(53_000, 53_000);
    assert_eq!(collect(&flash).found, Found::Failed, "nobody waits for it any more");
    gate.close(false);
    ask(&flash, on_fast, taken[on_fast as usize]);
    assert!(is_item(&collect(&flash)), "what it answers at last is told to nobody");
    drop(threads);
    assert!(flash.collect(0).is_none());
}

#[test]
fn hung_read_by_a_per_thread_handle_abandons_only_that_device() {
    let path = std::env::temp_dir().join(format!("gannet-flash-silent-{}", std::process::id()));
    let fast = FileDevice::open(&path, DISK_BYTES).expect("a file");
    std::fs::remove_file(&path).expect("removed");
    let ((slow, _), (silent, _open)) = (SimDisk::new(DISK_BYTES, 512, 1), std::io::pipe().expect("a pipe"));
    let slow = Stuck { disk: slow, gate: Gate::default(), silent: Some(silent.into()) };
    let flash = flash(vec![Box::new(slow), Box::new(fast)], TierRoom::private(&plan()).expect("memory"), 1);
    let taken = fill(&flash);
    let on = |of: std::ops::Range<u32>| taken.iter().position(|at| of.contains(&at.region())).expect("some are") as u64;
    let (on_slow, on_fast) = (on(0..8), on(8..16));
    flash.reclaim(NOW, &mut |_, _, _| Reclaimed::Later);
    let threads = flash.spawn(&[Waker::new().expect("a bell")], || {}).expect("threads");
    if let Some(refused) = threads.refused() {
        // Threads do the reads here, which the test above covers.
        return assert!(!refused.remedy.is_empty(), "{refused}");
    }
    (0..3).for_each(|n| ask(&flash, on_slow + n, taken[(on_slow + n) as usize]));
    ask(&flash, on_fast, taken[on_fast as usize]);
    assert!(is_item(&collect(&flash)), "the other device answers");
    let pass = |from_ms: u64, to_ms: u64| {
        (from_ms..=to_ms).step_by(1000).for_each(|ms| {
            flash.reclaim(NOW.plus_ms(ms), &mut |_, _, _| Reclaimed::Later);
        });
    };
    pass(0, 9_000);
    assert!(flash.collect(0).is_none() && !flash.devices()[0].lost, "it may take its time");
    // Waits only as long as needed, because the background's requests to the other device take real time.
    pass(10_000, 12_000);
    let failed: Vec<TierRead> = (0..3).map(|_| flash.collect(0).expect("given up")).collect();
    assert!(failed.iter().all(|read| read.found == Found::Failed));
    assert_eq!([flash.devices()[0].lost, flash.devices()[1].lost], [true, false]);
    ask(&flash, on_slow, taken[on_slow as usize]);
    assert_eq!(collect(&flash).found, Found::Failed, "nobody waits for it any more");
    ask(&flash, on_fast, taken[on_fast as usize]);
    assert!(is_item(&collect(&flash)));
}

#[test]
fn a_lanes_own_thread_reads_files_and_hears_of_each_item() {
    let path = std::env::temp_dir().join(format!("gannet-flash-lane-{}", std::process::id()));
    let device = FileDevice::open(&path, DISK_BYTES).expect("a file");
    std::fs::remove_file(&path).expect("removed");
    let room = TierRoom::private(&SIZES.plan(&[DISK_BYTES], 512, IndexPlace::File)).expect("memory");
    let flash = flash(vec![Box::new(device)], room, 1);
    let taken = fill(&flash);
    let bell = Waker::new().expect("a bell");
    let heard = bell.clone();
    flash.wake_by(Box::new(move |_| heard.wake()));
    let threads = flash.spawn(std::slice::from_ref(&bell), || {}).expect("threads");
    let (mut asked, mut there) = (0, 0);
    while there < taken.len() {
        // Submits as many reads as the ring accepts now. The next round submits more.
        while asked < taken.len() && flash.ask(read_of(asked as u64, taken[asked])).is_ok() {
            asked += 1;
        }
        let mut fds = [PollFd::new(&bell, PollFlags::IN)];
        assert_eq!(poll(&mut fds, None).expect("waited"), 1);
        bell.clear();
        while let Some(read) = flash.collect(0) {
            assert!(is_item(&read), "{read:?}");
            there += 1;
        }
    }
    drop(threads);
}

fn two_in_file(file: &Arc<MapFile>, disks: [SimDisk; 2], seed: u64) -> (Arc<Flash>, TierBacking) {
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
        index: IndexPlace::File,
        index_left: None,
        power: segment::Power::default(),
    };
    let mut ground = TierBacking::lay(&config, Some(&file), &plan(), NOW).expect("memory");
    let devices = disks.map(|disk| Box::new(disk) as Box<dyn Device>).into_iter().collect();
    (flash(devices, ground.take_room(), seed), ground)
}

fn told(flash: &Flash, taken: &[FlashAddress]) -> Vec<bool> {
    let mut scratch = flash.scratch();
    let told = taken.iter().enumerate().map(|(number, at)| {
        ask(flash, number as u64, *at);
        while flash.work(&mut scratch) {}
        is_item(&collect(flash))
    });
    told.collect()
}

#[test]
fn devices_are_recognised_in_any_order_and_a_replaced_device_is_empty() {
    let file = Arc::new(MapFile::in_memory().expect("a file"));
    let ((a, hand_a), (b, hand_b)) = (SimDisk::new(DISK_BYTES, 512, 1), SimDisk::new(DISK_BYTES, 512, 2));
    let (first, ground) = two_in_file(&file, [a, b], 1);
    let (store, background) = ground.store(Arc::clone(&first) as _, NOW).expect("a store");
    let taken = fill(&first);
    assert!(taken.len() > 900 && told(&first, &taken).iter().all(|told| *told));
    drop((first, store, background));
    let copy = |hand: &SimHand, seed| hand.copy(seed).0;
    let (second, ground) = two_in_file(&file, [copy(&hand_b, 3), copy(&hand_a, 4)], 2);
    assert!(second.exchanged().is_empty());
    assert_eq!(second.found().items, taken.len() as u64);
    assert!(told(&second, &taken).iter().all(|told| *told), "what was not written yet is there too");
    drop((second, ground));
    let (third, _ground) = two_in_file(&file, [SimDisk::new(DISK_BYTES, 512, 5).0, copy(&hand_b, 6)], 3);
    assert_eq!(third.exchanged().len(), 1);
    let (told, on_b) = (told(&third, &taken), |at: &FlashAddress| at.region() >= 8);
    let kept: Vec<bool> = taken.iter().map(on_b).collect();
    assert!(told == kept && kept.iter().any(|kept| !kept), "what was on the other one is there");
}

/// Returns the offset of the tier's words in a memory file.
fn words_at(file: &MapFile) -> u64 {
    let reader = std::fs::File::from(file.as_fd().try_clone_to_owned().expect("a descriptor"));
    let mut bytes = vec![0; file.bytes().expect("its length") as usize];
    reader.read_exact_at(&mut bytes, 0).expect("read");
    bytes.chunks(8).position(|word| word == b"GANNETFT").expect("a table") as u64 * 8
}

#[test]
fn noise_in_the_words_of_a_tier_costs_items_and_neither_the_process_nor_a_device() {
    let file = Arc::new(MapFile::in_memory().expect("a file"));
    let ((a, hand_a), (b, hand_b)) = (SimDisk::new(DISK_BYTES, 512, 1), SimDisk::new(DISK_BYTES, 512, 2));
    let (first, ground) = two_in_file(&file, [a, b], 1);
    let (store, background) = ground.store(Arc::clone(&first) as _, NOW).expect("a store");
    let taken = fill(&first);
    drop((first, store, background));
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let copy = Arc::new(file.image().expect("an image"));
        let writer = std::fs::File::from(copy.as_fd().try_clone_to_owned().expect("a descriptor"));
        let words = [2, 8, 64, 512][seed as usize % 4];
        let noise: Vec<u8> = (0..words).flat_map(|_| prng.next_u64().to_le_bytes()).collect();
        // The table begins with its magic number, and has six words for each of sixteen regions after its first 128
        // words.
        writer.write_all_at(&noise, words_at(&copy) + 8 + prng.below(224) * 8).expect("written");
        let disks = [hand_a.copy(seed).0, hand_b.copy(seed + 100).0];
        let (flash, _ground) = two_in_file(&copy, disks, seed + 2);
        let there = told(&flash, &taken).into_iter().filter(|there| *there).count();
        (lost, kept) = (lost + taken.len() - there, kept + there);
        for number in 0..300 {
            // Any address that a slot can hold.
            let (generation, blocks) = (prng.below(128) as u8, 1 + prng.below(63) as u8);
            let at = FlashAddress::new(generation, prng.below(20) as u32, prng.below(1 << 15) as u16, blocks);
            flash.release(at);
            assert_eq!(told(&flash, &[at]).len(), 1, "{number}");
        }
        let mut scratch = flash.scratch();
        for pass in 0..200 {
            flash.reclaim(NOW.plus_ms(pass), &mut |_, at, _| {
                flash.release(at);
                Reclaimed::Done
            });
            while flash.work(&mut scratch) || flash.write(&mut scratch) {}
        }
        fill(&flash);
        assert!(flash.devices().iter().all(|device| !device.lost), "seed {seed}");
    }
    assert!(lost > 0 && kept > 0, "{lost} lost, {kept} kept");
}
