//! The store, the disk, the model and the operations on them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arena::MapFile;
use base::clock::UnixMillis;
use base::prng::Prng;
use gannet_flash::{Flash, FlashConfig, Scratch, SimDisk, SimHand, Sizes};
use segment::{
    Arith, ArithOutcome, Background, Delete, DeleteOutcome, Expire, FromFlash, Guard, IndexPlace, Item, Namespace,
    OpError, Power, Prefetched, Put, PutMode, PutOutcome, Store, StoreConfig, StoreFile, Stride, ThreadHandle,
    TierBacking, Value,
};

use crate::cutting::Cutting;
use crate::power::Synced;

const KEYS: u64 = 9000;
const DISK_BYTES: u64 = 2 << 20;
/// Number of slots of the index: more than the number of keys.
pub const SLOTS: u64 = 16 << 10;

/// Counts of the events of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub hits: u64,
    pub hits_late: u64,
    pub from_flash: u64,
    pub misses: u64,
    pub changed: u64,
    pub steps: u64,
}

#[derive(Clone, Debug)]
pub struct Live {
    pub value: Vec<u8>,
    pub expire: Expire,
    pub flags: u32,
    /// The token that a client received, as long as it is still the item's token.
    pub token: Option<u64>,
}

pub struct World {
    pub store: Arc<Store>,
    pub flash: Arc<Flash>,
    pub hand: SimHand,
    pub seen: Seen,
    /// The store's memory file and the place of its index, if the memory outlives the process.
    pub file: Option<(Arc<MapFile>, IndexPlace)>,
    slots: u64,
    pub tier: Arc<Cutting>,
    background: Background,
    pub handle: ThreadHandle,
    scratch: Scratch,
    pub random: Prng,
    pub now: UnixMillis,
    pub model: HashMap<Vec<u8>, Live>,
    /// True if a step may flush everything.
    pub flushes: bool,
    lost: Arc<AtomicU64>,
    pub power: Power,
    pub synced: Synced,
}

fn text(value: &Value<'_>) -> Vec<u8> {
    match value {
        Value::Bytes(bytes) => bytes.to_vec(),
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::Large(_) | Value::Typed { .. } => panic!("neither large values nor records here"),
    }
}

impl World {
    pub fn new(seed: u64) -> Self {
        let block_bytes = if seed.is_multiple_of(2) { 4096 } else { 512 };
        let disk = SimDisk::new(DISK_BYTES, block_bytes, seed);
        Self::on(seed, disk, None, SLOTS, UnixMillis(1_700_000_000_000), Power::default())
    }

    /// Creates a world with its memory in a file.
    pub fn in_file(seed: u64, index: IndexPlace) -> Self {
        Self::of_slots(seed, index, SLOTS)
    }

    /// Creates such a world with an index of `slots` slots.
    pub fn of_slots(seed: u64, index: IndexPlace, slots: u64) -> Self {
        Self::of_power(seed, index, slots, Power::default())
    }

    /// Creates such a world with the given behaviour at a power loss.
    pub fn of_power(seed: u64, index: IndexPlace, slots: u64, power: Power) -> Self {
        let file = Some((Arc::new(MapFile::in_memory().expect("a file")), index));
        Self::on(seed, SimDisk::new(DISK_BYTES, 4096, seed), file, slots, UnixMillis(1_700_000_000_000), power)
    }

    fn on(
        seed: u64,
        (disk, hand): (SimDisk, SimHand),
        file: Option<(Arc<MapFile>, IndexPlace)>,
        slots: u64,
        now: UnixMillis,
        power: Power,
    ) -> Self {
        let mut random = Prng::new(seed);
        let lost = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&lost);
        let config = StoreConfig {
            memory_bytes: 800 << 10,
            memory_bytes_max: 0,
            segment_bytes: Some(16 << 10),
            item_bytes_max: 64 << 10,
            handles_max: 1,
            hash_seed: seed,
            huge_pages: false,
        };
        let sizes = Sizes { region_bytes: 64 << 10, chunk_bytes: 16 << 10 };
        let index = file.as_ref().map_or(IndexPlace::File, |(_, index)| *index);
        let plan = sizes.plan(&[DISK_BYTES], slots, index);
        let store_file =
            file.clone().map(|(file, index)| StoreFile { file, reset: false, index, index_left: None, power });
        let mut ground = TierBacking::lay(&config, store_file.as_ref(), &plan, now).expect("memory");
        let flash = Flash::new(FlashConfig {
            devices: vec![Box::new(disk)],
            sizes,
            handles: 1,
            room: ground.take_room(),
            seed: random.next_u64(),
            writes_a_day_bytes: 0,
            is_view: false,
            on_lost: Box::new(move |_| {
                told.fetch_add(1, Relaxed);
            }),
        });
        let tier = Arc::new(Cutting::new(Arc::clone(&flash), file.as_ref().map(|(file, _)| Arc::clone(file)), &hand));
        let (store, background) = ground.store(Arc::clone(&tier) as _, now).expect("a store");
        let (handle, scratch) = (store.handle().expect("a thread handle"), flash.scratch());
        let seen = Seen::default();
        let (model, flushes) = (HashMap::new(), true);
        let synced = Synced::default();
        Self {
            store,
            flash,
            hand,
            seen,
            file,
            slots,
            tier,
            background,
            handle,
            scratch,
            random,
            now,
            model,
            flushes,
            lost,
            power,
            synced,
        }
    }

    /// Kills the process, and starts another process with the current memory file and disk.
    pub fn kill(&mut self) {
        let seed = self.random.next_u64();
        self.begin_with(self.hand.copy(seed), seed);
    }

    /// Kills the process, and the disk loses its unsynced writes.
    pub fn cut_off(&mut self) {
        let seed = self.random.next_u64();
        self.begin_with(self.hand.copy_cut_off(seed), seed);
    }

    /// Kills the process and replaces its disk by an empty one.
    pub fn exchange(&mut self) {
        let seed = self.random.next_u64();
        self.begin_with(SimDisk::new(DISK_BYTES, 4096, seed), seed);
    }

    /// Does a step. Returns the worlds that start after a kill, one for each point of the step at which the process may
    /// be killed, and the changed key.
    pub fn cut_step(&mut self) -> (Vec<Self>, Vec<u8>) {
        self.tier.begin();
        let before = self.model.clone();
        let key = self.step();
        let (index, slots) = (self.file.as_ref().expect("it is in a file").1, self.slots);
        let worlds = self.tier.end().into_iter().map(|(file, disk)| {
            let next = Self::on(self.random.next_u64(), disk, Some((file, index)), slots, self.now, self.power);
            Self { model: before.clone(), ..next }
        });
        (worlds.collect(), key)
    }

    /// Checks as [`World::check`] does, but accepts any present value of the given key and of the number under `n:`
    /// with that key.
    pub fn check_but(&mut self, key: &[u8]) -> usize {
        for key in [key.to_vec(), [b"n:", key].concat()] {
            // Any present value of the key is right.
            match self.peek(&key) {
                Some((value, flags)) => self.note(&key, &value, Expire::Never, flags),
                None => drop(self.model.remove(&key)),
            }
        }
        self.check()
    }

    fn begin_with(&mut self, disk: (SimDisk, SimHand), seed: u64) {
        self.begin_in(self.image(), disk, seed);
    }

    /// Starts another process with this file and disk.
    pub fn begin_in(&mut self, file: Arc<MapFile>, disk: (SimDisk, SimHand), seed: u64) {
        let index = self.file.as_ref().expect("it is in a file").1;
        let next = Self::on(seed, disk, Some((file, index)), self.slots, self.now, self.power);
        let (model, synced) = (std::mem::take(&mut self.model), std::mem::take(&mut self.synced));
        let (seen, flushes) = (self.seen, self.flushes);
        *self = Self { model, seen, flushes, synced, ..next };
    }

    /// Continues until the search of flash is complete.
    pub fn find_all(&mut self) {
        while self.store.is_finding() {
            self.meanwhile();
        }
    }

    /// Returns every present key with its value, from memory or flash. Changes nothing.
    pub fn all(&mut self) -> HashMap<Vec<u8>, Vec<u8>> {
        let keys: Vec<Vec<u8>> =
            (0..KEYS).flat_map(|n| [format!("key:{n}"), format!("n:key:{n}")]).map(String::into_bytes).collect();
        keys.into_iter().filter_map(|key| self.peek(&key).map(|(value, _)| (key, value))).collect()
    }

    /// Does one iteration of a walk. Passes reported items to `told`, and checks that each has the value stored last.
    /// Returns false if the walk parks.
    pub fn walk_on(
        &mut self,
        namespace: Namespace,
        cursor: &mut Option<u64>,
        stride: &mut Stride,
        told: &mut dyn FnMut(&[u8], &[u8]),
    ) -> bool {
        let from = cursor.expect("it is not at its end");
        let mut met = Vec::new();
        let guard = self.handle.guard(self.now);
        let next =
            guard.walks().walk(namespace, from, stride, &mut |item| met.push((item.key.to_vec(), text(&item.value))));
        drop(guard);
        for (key, value) in met {
            if namespace == Namespace::DEFAULT {
                let live = self.live(&key).unwrap_or_else(|| panic!("{} came back", key.escape_ascii()));
                assert!(live.value == value, "{}: another value than was stored last", key.escape_ascii());
            }
            told(&key, &value);
        }
        match next {
            Ok(next) => *cursor = next,
            Err(OpError::Parked) => return false,
            Err(error) => panic!("{error}"),
        }
        true
    }

    /// Looks up keys by their hashes in one iteration, from `at` on, until a lookup parks. Checks that each reported
    /// item has the value stored last.
    pub fn hashes_on(&mut self, keys: &[Vec<u8>], at: &mut usize, told: &mut dyn FnMut(&[u8])) {
        let mut met = Vec::new();
        let guard = self.handle.guard(self.now);
        let hash = |key: &Vec<u8>| guard.key(Namespace::DEFAULT, key).hash();
        while let Some(key) = keys.get(*at) {
            let ahead = keys[*at + 1..].iter().map(hash);
            let visit = &mut |item: &Item<'_>| met.push((item.key.to_vec(), text(&item.value)));
            match guard.walks().visit_hash(Namespace::DEFAULT, hash(key), ahead, visit) {
                Ok(visited) => assert!(!visited || met.last().is_some_and(|(met, _)| met == key), "another key"),
                Err(error) => {
                    assert_eq!(error, OpError::Parked);
                    break;
                }
            }
            *at += 1;
        }
        drop(guard);
        for (key, value) in met {
            let live = self.live(&key).unwrap_or_else(|| panic!("{} came back", key.escape_ascii()));
            assert!(live.value == value, "{}: another value than was stored last", key.escape_ascii());
            told(&key);
        }
    }

    /// Does one iteration.
    pub fn guard<T>(&mut self, act: impl FnOnce(&mut Guard<'_>) -> T) -> T {
        act(&mut self.handle.guard(self.now))
    }

    /// Completes all requests to the disk.
    pub fn work_all(&mut self) {
        while self.flash.work(&mut self.scratch) {}
    }

    /// Stores an item that expires later than all other items.
    pub fn set_late(&mut self, key: &[u8], value: &[u8]) {
        let expire = Expire::At(self.now.plus_ms(40 * 24 * 3_600_000));
        self.put(key, &Put { expire, ..Put::set(value) });
        self.note(key, value, expire, 0);
    }

    /// Returns the present value of a key.
    pub fn value_now(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.peek(key).map(|(value, _)| value)
    }

    /// Returns the first place of a walk that reports the key.
    pub fn place(&mut self, key: &[u8]) -> u64 {
        let guard = self.handle.guard(self.now);
        guard.walks().walk_place(&guard.key(Namespace::DEFAULT, key))
    }

    /// Returns the present value of a key and its flags.
    fn peek(&mut self, key: &[u8]) -> Option<(Vec<u8>, u32)> {
        for _ in 0..1000 {
            let guard = self.handle.guard(self.now);
            let key = guard.key(Namespace::DEFAULT, key);
            if let Some(hit) = guard.items().read(&key, Prefetched::default()) {
                return Some((text(&hit.value), hit.client_flags));
            }
            match guard.tier().read(&key) {
                FromFlash::Nowhere => return None,
                FromFlash::Coming => {}
                FromFlash::Here(hit) => {
                    let found = (text(&hit.value()), hit.client_flags());
                    guard.tier().put_back(hit, false);
                    return Some(found);
                }
            }
            drop(guard);
            while self.flash.work(&mut self.scratch) {}
        }
        panic!("it never comes");
    }

    /// Checks that every present item has the value stored last. Returns their number.
    pub fn check(&mut self) -> usize {
        let all = self.all();
        for (key, value) in &all {
            let live = self.live(key).unwrap_or_else(|| panic!("{} came back", key.escape_ascii()));
            assert!(live.value == *value, "{}: another value than was stored last", key.escape_ascii());
        }
        all.len()
    }

    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Returns the number of slots that reference items on flash.
    pub fn items_on_flash(&self) -> u64 {
        self.store.flash_slots()
    }

    /// Does some of the work that threads would do meanwhile.
    pub fn meanwhile(&mut self) {
        for _ in 0..self.random.below(3) {
            let waiting = self.flash.waiting().0 as u64;
            if waiting > 0 {
                let place = self.random.below(waiting) as usize;
                self.flash.work_at(0, place, &mut self.scratch);
            }
        }
        if self.random.chance(1, 3) {
            self.flash.write(&mut self.scratch);
        }
        let mut looks = self.random.below(4);
        self.background.slice(self.now, &mut || {
            looks = looks.saturating_sub(1);
            looks == 0
        });
    }

    /// Calls `act` in one iteration after another until it does not park. Returns its result.
    pub fn done<T>(&mut self, mut act: impl FnMut(&mut Guard<'_>) -> Result<T, OpError>) -> Option<T> {
        for _ in 0..200_000 {
            let mut guard = self.handle.guard(self.now);
            match act(&mut guard) {
                Ok(done) => return Some(done),
                Err(OpError::Parked) => {
                    drop(guard);
                    self.meanwhile();
                }
                Err(OpError::OutOfMemory) => return None,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("it is parked for ever: {:?}\n{:?}", self.store.stats(), self.flash.counts());
    }

    pub fn key(&mut self) -> Vec<u8> {
        // Some keys are used far more often than others.
        let most = if self.random.chance(1, 2) { KEYS / 20 } else { KEYS };
        format!("key:{}", self.random.below(most)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.random.below(20) {
            0 => self.random.below(1900),
            1 => 0,
            _ => self.random.below(600),
        };
        let mut value = vec![0; len as usize];
        self.random.fill(&mut value);
        value
    }

    fn expire(&mut self) -> Expire {
        match self.random.below(6) {
            0 => Expire::At(self.now.plus_ms(1 + self.random.below(20_000))),
            1 => Expire::At(self.now.plus_ms(1 + self.random.below(4_000_000))),
            _ => Expire::Never,
        }
    }

    /// Returns the model's state of a key, unless it has expired.
    fn live(&mut self, key: &[u8]) -> Option<Live> {
        let now = self.now;
        self.model
            .get(key)
            .filter(|live| match live.expire {
                Expire::Never => true,
                Expire::At(at) => at > now,
            })
            .cloned()
    }

    /// Does one random operation, and returns its key.
    pub fn step(&mut self) -> Vec<u8> {
        self.seen.steps += 1;
        if self.random.chance(1, 4) {
            self.meanwhile();
        }
        self.now = self.now.plus_ms(self.random.below(20));
        let key = self.key();
        match self.random.below(100) {
            0..40 => self.read(&key),
            40..70 => self.set(&key),
            70..76 => self.delete(&key),
            76..82 => self.add_or_replace(&key),
            82..88 => self.append(&key),
            88..93 => self.count(&key),
            93..99 => self.compare_and_set(&key),
            _ if self.random.chance(1, 400) && self.flushes => self.flush(),
            _ => self.read(&key),
        }
        key
    }

    pub fn read(&mut self, key: &[u8]) {
        let live = self.live(key);
        let found = self.done(|guard| {
            let key = guard.key(Namespace::DEFAULT, key);
            if let Some(hit) = guard.items().read(&key, Prefetched::default()) {
                return Ok(Some((text(&hit.value), hit.client_flags, false)));
            }
            match guard.tier().read(&key) {
                FromFlash::Nowhere => Ok(None),
                FromFlash::Coming => Err(OpError::Parked),
                FromFlash::Here(hit) => {
                    let told = (text(&hit.value()), hit.client_flags(), true);
                    guard.tier_mut().served(&key, hit);
                    Ok(Some(told))
                }
            }
        });
        match found.expect("a read needs no memory") {
            None => {
                self.seen.misses += 1;
                self.forget(key);
            }
            Some((value, flags, from_flash)) => {
                let live = live.unwrap_or_else(|| panic!("{} is there and should not be", key.escape_ascii()));
                assert!(value == live.value, "{}: another value than was stored last", key.escape_ascii());
                assert_eq!(flags, live.flags);
                self.seen.hits += 1;
                self.seen.hits_late += u64::from(self.seen.steps > 100_000);
                self.seen.from_flash += u64::from(from_flash);
            }
        }
    }

    /// Records a miss in the model: removes the key, unless the search of flash may still find the item.
    fn forget(&mut self, key: &[u8]) {
        if !self.store.is_finding() {
            self.model.remove(key);
        }
    }

    fn put(&mut self, key: &[u8], put: &Put<'_>) -> Option<PutOutcome> {
        let outcome = self.done(|guard| {
            let key = guard.key(Namespace::DEFAULT, key);
            guard.items_mut().put(&key, put)
        });
        if let Some(PutOutcome::Stored { .. }) = outcome {
            self.seen.changed += 1;
        }
        if outcome.is_none() {
            self.forget(key);
        }
        outcome
    }

    fn note(&mut self, key: &[u8], value: &[u8], expire: Expire, flags: u32) {
        let live = Live { value: value.to_vec(), expire, flags, token: None };
        if self.synced.file.is_some() {
            self.synced.told.entry(key.to_vec()).or_default().push(live.clone());
        }
        self.model.insert(key.to_vec(), live);
    }

    pub fn set(&mut self, key: &[u8]) {
        let (value, expire) = (self.value(), self.expire());
        let flags = self.random.below(3) as u32;
        if self.put(key, &Put { expire, client_flags: flags, ..Put::set(&value) }).is_some() {
            self.note(key, &value, expire, flags);
        }
    }

    fn delete(&mut self, key: &[u8]) {
        let live = self.live(key).is_some();
        let outcome = self.done(|guard| {
            let key = guard.key(Namespace::DEFAULT, key);
            guard.items_mut().delete(&key, &Delete::default())
        });
        let is_gone = matches!(outcome, Some(DeleteOutcome::NotFound | DeleteOutcome::Expired));
        assert!(live || is_gone, "{} was gone", key.escape_ascii());
        self.seen.changed += u64::from(outcome == Some(DeleteOutcome::Deleted));
        self.model.remove(key);
    }

    fn add_or_replace(&mut self, key: &[u8]) {
        let (value, live) = (self.value(), self.live(key));
        let mode = if self.random.chance(1, 2) { PutMode::Add } else { PutMode::Replace };
        let Some(outcome) = self.put(key, &Put { mode, ..Put::set(&value) }) else { return };
        match (mode, outcome) {
            (PutMode::Add, PutOutcome::NotStored) => assert!(live.is_some(), "nothing is there to keep it out"),
            (PutMode::Replace, PutOutcome::NotStored) => self.forget(key),
            (PutMode::Replace, PutOutcome::Stored { .. }) => {
                assert!(live.is_some(), "{} is not there to be replaced", key.escape_ascii());
                self.note(key, &value, Expire::Never, 0);
            }
            (_, PutOutcome::Stored { .. }) => self.note(key, &value, Expire::Never, 0),
            (_, other) => panic!("{other:?}"),
        }
    }

    fn append(&mut self, key: &[u8]) {
        let (part, live) = (self.value(), self.live(key));
        if live.as_ref().is_some_and(|live| live.value.len() + part.len() > 1900) {
            return;
        }
        match self.put(key, &Put { mode: PutMode::Append, ..Put::set(&part) }) {
            Some(PutOutcome::Stored { .. }) => {
                let live = live.unwrap_or_else(|| panic!("{} is not there to be appended to", key.escape_ascii()));
                let value = [&live.value[..], &part].concat();
                self.note(key, &value, live.expire, live.flags);
            }
            _ => self.forget(key),
        }
    }

    fn count(&mut self, key: &[u8]) {
        let key = [b"n:", key].concat();
        let live = self.live(&key);
        let vivify = Some((7, Expire::Never));
        let arith =
            Arith { delta: 3, decrement: false, vivify, expire: None, compare: None, token: None, want_token: false };
        let outcome = self.done(|guard| {
            let key = guard.key(Namespace::DEFAULT, &key);
            guard.numbers().arith(&key, &arith)
        });
        let Some(ArithOutcome::Number { value, .. }) = outcome else { return self.forget(&key) };
        let was = live.map(|live| String::from_utf8(live.value).expect("digits").parse::<u64>().expect("a number"));
        assert!(value == 7 || was.is_some_and(|was| was + 3 == value), "{was:?} and 3 are not {value}");
        self.seen.changed += 1;
        self.note(&key, value.to_string().as_bytes(), Expire::Never, 0);
    }

    /// Obtains a token in one call and uses it in a later call. In between, the item may have been moved to flash and
    /// back.
    fn compare_and_set(&mut self, key: &[u8]) {
        let live = self.live(key);
        if let Some(token) = live.as_ref().and_then(|live| live.token) {
            let value = self.value();
            match self.put(key, &Put { compare: Some(token), ..Put::set(&value) }) {
                Some(PutOutcome::Stored { .. }) => self.note(key, &value, Expire::Never, 0),
                Some(PutOutcome::NotFound) | None => self.forget(key),
                other => panic!("nobody changed {} since its token was told: {other:?}", key.escape_ascii()),
            }
            return;
        }
        let told = self.done(|guard| {
            let key = guard.key(Namespace::DEFAULT, key);
            Ok(guard.versions().gets(&key)?.map(|item| (text(&item.value), item.token)))
        });
        match told.expect("no memory is needed that does not come") {
            None => self.forget(key),
            Some((value, token)) => {
                assert!(live.is_some_and(|live| live.value == value), "{}", key.escape_ascii());
                self.model.get_mut(key).expect("it lives").token = Some(token);
            }
        }
    }

    pub fn flush(&mut self) {
        self.done(|guard| guard.items_mut().flush(Namespace::DEFAULT));
        self.model.clear();
    }
}
