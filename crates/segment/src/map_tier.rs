//! A second tier for tests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use base::clock::UnixMillis;

use crate::tier::room::TierRoom;
use crate::tier::{
    FlashAddress, Found, Parts, ReadBy, Reclaimed, Tier, TierFind, TierFound, TierItem, TierPlan, TierRead, TierShow,
    Visit, WalkProgress,
};

/// The plan of a store with a [`MapTier`] that does not find its items again after a restart.
pub(crate) const PLAN: TierPlan =
    TierPlan { index_slots: 512, bytes: 1, regions: 1, words: 1, chunks: 0, chunk_bytes: 0, finds: false };

/// The maximum number of items of a tier that finds its items again after a restart.
const BLOCKS: usize = 1 << 14;
const TOMBSTONES: usize = 4096;
const TOMBSTONES_AT: usize = 1;
const BLOCKS_AT: usize = TOMBSTONES_AT + TOMBSTONES / 64;
const NAMED: u64 = 1;
const DEAD: u64 = 2;

/// The plan of a store with a [`MapTier`] that finds its items again if the index was lost with the process.
#[cfg_attr(shuttle, allow(dead_code, reason = "models use no file"))]
pub(crate) const PLAN_FOUND: TierPlan = TierPlan {
    index_slots: 512,
    bytes: 1,
    regions: 1,
    words: BLOCKS_AT + BLOCKS,
    chunks: 0,
    chunk_bytes: 0,
    finds: true,
};

/// A tier that holds all items in a map, each in a block of its own. A requested read completes at once. A tier that
/// finds its items again records in the words of its room which blocks are named by slots and which are dead. An image
/// of the store's file therefore includes these records: `finding | tombstones | one word per block`.
#[derive(Debug, Default)]
pub(crate) struct MapTier {
    state: Mutex<MapTierState>,
    room: Mutex<Option<Arc<TierRoom>>>,
}

#[derive(Debug, Default)]
struct MapTierState {
    items: HashMap<u16, (u64, Vec<u8>, Parts)>,
    next: u16,
    done: Vec<TierRead>,
    /// Blocks that the tier has not offered to the store yet.
    left: Vec<u16>,
    found: bool,
    /// True while offering blocks is paused.
    paused: bool,
    /// Blocks to reclaim.
    reclaimed: Vec<u16>,
    /// First block that may hold a current item; earlier blocks were obsolete when the store was opened.
    from: u16,
}

impl MapTier {
    fn state(&self) -> MutexGuard<'_, MapTierState> {
        self.state.lock().expect("no thread panics")
    }

    /// Continues with the contents of `room` that an earlier store wrote.
    #[cfg_attr(shuttle, allow(dead_code, reason = "models use no file"))]
    pub(crate) fn go_on(&self, room: TierRoom) {
        let mut state = self.state();
        if !room.is_found() {
            state.from = state.next;
        }
        if !room.finds() {
            return;
        }
        let named = |block: &u16| room.load(BLOCKS_AT + usize::from(*block)) & NAMED != 0;
        state.left = if room.is_found() { (0..state.next).filter(named).collect() } else { Vec::new() };
        state.found = state.left.is_empty();
        if state.found {
            room.store(0, 0);
        } else if room.load(0) == 0 {
            (TOMBSTONES_AT..BLOCKS_AT).for_each(|word| room.store(word, 0));
            room.store(0, 1);
        }
        *self.room.lock().expect("no thread panics") = Some(Arc::new(room));
    }

    /// Returns a tier with the same items, for the store of an image.
    #[cfg_attr(shuttle, allow(dead_code, reason = "models use no file"))]
    pub(crate) fn copy(&self) -> Self {
        let MapTierState { items, next, from, .. } = &*self.state();
        let state = MapTierState { items: items.clone(), next: *next, from: *from, ..MapTierState::default() };
        Self { state: Mutex::new(state), ..Self::default() }
    }

    /// Pauses or resumes the offering of blocks.
    #[cfg_attr(shuttle, allow(dead_code, reason = "models use no file"))]
    pub(crate) fn pause(&self, paused: bool) {
        self.state().paused = paused;
    }

    /// Reclaims all blocks.
    #[cfg_attr(shuttle, allow(dead_code, reason = "models use no file"))]
    pub(crate) fn reclaim_all(&self) {
        let mut state = self.state();
        state.reclaimed = (0..state.next).collect();
    }

    fn room(&self) -> Arc<TierRoom> {
        Arc::clone(self.room.lock().expect("no thread panics").as_ref().expect("it finds its items again"))
    }
}

/// Returns true if the tier could have assigned this address.
fn is_given(at: FlashAddress) -> bool {
    at == FlashAddress::new(1, 0, at.block(), 1)
}

fn deferred(hash: u64) -> (usize, u64) {
    let bit = hash as usize % TOMBSTONES;
    (TOMBSTONES_AT + bit / 64, 1 << (bit % 64))
}

impl Tier for MapTier {
    fn offer(&self, item: &TierItem<'_>) -> Option<FlashAddress> {
        let mut state = self.state();
        let bytes = [item.key, item.value].concat();
        let parts = Parts {
            namespace: item.namespace,
            key: 0..item.key.len(),
            value: item.key.len()..bytes.len(),
            kept: item.kept,
            client_flags: item.client_flags,
            expire_at: item.expire_at,
            token: item.token,
            sequence: item.sequence,
        };
        let block = state.next;
        state.next += 1;
        assert!(usize::from(block) < BLOCKS, "so many are not offered");
        state.items.insert(block, (item.hash, bytes, parts));
        Some(FlashAddress::new(1, 0, block, 1))
    }

    fn release(&self, _: FlashAddress) {}

    fn ask(&self, mut read: TierRead) -> Result<(), TierRead> {
        let mut state = self.state();
        assert!(read.at.block() >= state.from, "a slot names what was there before a loss of power");
        read.buffer.clear();
        let Some((hash, bytes, parts)) = state.items.get(&read.at.block()).filter(|_| is_given(read.at)) else {
            // Only a slot of a damaged file has such an address.
            state.done.push(TierRead { found: Found::Failed, ..read });
            return Ok(());
        };
        read.buffer.extend_from_slice(bytes);
        let is_it = match read.by {
            ReadBy::Key => *hash == read.hash,
            ReadBy::Slot(slot) => slot.fits(read.hash, *hash),
        };
        read.found = if is_it { Found::Item(Box::new(parts.clone())) } else { Found::Other };
        state.done.push(read);
        Ok(())
    }

    fn collect(&self, handle: usize) -> Option<TierRead> {
        let mut state = self.state();
        let place = state.done.iter().position(|read| read.handle == handle)?;
        Some(state.done.swap_remove(place))
    }

    fn found(&self) -> TierFound {
        TierFound::default()
    }

    fn may_name(&self, at: FlashAddress) -> bool {
        is_given(at) && self.state().items.contains_key(&at.block())
    }

    fn name(&self, at: FlashAddress) {
        self.room().set_bits(BLOCKS_AT + usize::from(at.block()), NAMED);
    }

    fn kill(&self, at: FlashAddress, _: u16) {
        self.room().set_bits(BLOCKS_AT + usize::from(at.block()), DEAD);
    }

    fn change(&self, hash: u64) {
        if !self.is_found() {
            let (word, bit) = deferred(hash);
            self.room().set_bits(word, bit);
        }
    }

    fn is_gone(&self, hash: u64, at: FlashAddress, _: u16) -> bool {
        let (room, (word, bit)) = (self.room(), deferred(hash));
        room.load(BLOCKS_AT + usize::from(at.block())) & DEAD != 0 || room.load(word) & bit != 0
    }

    fn is_found(&self) -> bool {
        self.state().found
    }

    fn find(&self, show: &mut TierShow<'_>) -> TierFind {
        if self.state().paused {
            return TierFind::Waits;
        }
        let room = self.room();
        loop {
            let next = self.state().left.last().copied();
            let Some(block) = next else {
                room.store(0, 0);
                self.state().found = true;
                return TierFind::Whole;
            };
            let hash = self.state().items[&block].0;
            if show(hash, FlashAddress::new(1, 0, block, 1)) == WalkProgress::Later {
                return TierFind::More;
            }
            self.state().left.pop();
        }
    }

    fn sync(&self) {}

    fn reclaim(&self, _: UnixMillis, visit: &mut Visit<'_>) -> bool {
        loop {
            let Some(block) = self.state().reclaimed.last().copied() else { return false };
            let (_, bytes, parts) = self.state().items[&block].clone();
            let item = TierItem {
                hash: 0,
                namespace: parts.namespace,
                key: &bytes[parts.key],
                kept: parts.kept,
                value: &bytes[parts.value],
                client_flags: parts.client_flags,
                expire_at: parts.expire_at,
                token: parts.token,
                sequence: parts.sequence,
                class: 0,
                is_read: true,
            };
            if visit(&item, FlashAddress::new(1, 0, block, 1), true) == Reclaimed::Later {
                return true;
            }
            self.state().reclaimed.pop();
        }
    }
}
