//! A second tier for tests.

use std::collections::HashMap;
use std::sync::Mutex;

use base::clock::UnixMillis;

use crate::tier::{FlashAddress, Found, Kept, Parts, Tier, TierFound, TierItem, TierPlan, TierRead, Visit};

/// What a store with such a tier is made for.
pub(crate) const PLAN: TierPlan = TierPlan { index_slots: 512, bytes: 1, words: 1, chunks: 0, chunk_bytes: 0 };

/// A tier that has all in a map, each item in a block of its own. What is asked for has come at once.
#[derive(Debug, Default)]
pub(crate) struct MapTier {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    items: HashMap<u16, (u64, Vec<u8>, Parts)>,
    next: u16,
    done: Vec<TierRead>,
}

impl Tier for MapTier {
    fn offer(&self, item: &TierItem<'_>) -> Option<FlashAddress> {
        let mut state = self.state.lock().expect("nobody panics");
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
        assert_eq!(item.kept, Kept::Bytes);
        let block = state.next;
        state.next += 1;
        state.items.insert(block, (item.hash, bytes, parts));
        Some(FlashAddress::new(1, 0, block, 1))
    }

    fn release(&self, _: FlashAddress) {}

    fn ask(&self, mut read: TierRead) -> Result<(), TierRead> {
        let mut state = self.state.lock().expect("nobody panics");
        let (hash, bytes, parts) = &state.items[&read.at.block()];
        read.buffer.clear();
        read.buffer.extend_from_slice(bytes);
        read.found = if *hash == read.hash { Found::Item(Box::new(parts.clone())) } else { Found::Other };
        state.done.push(read);
        Ok(())
    }

    fn collect(&self, lane: usize) -> Option<TierRead> {
        let mut state = self.state.lock().expect("nobody panics");
        let place = state.done.iter().position(|read| read.lane == lane)?;
        Some(state.done.swap_remove(place))
    }

    fn found(&self) -> TierFound {
        TierFound::default()
    }

    fn may_name(&self, _: FlashAddress) -> bool {
        true
    }

    fn reclaim(&self, _: UnixMillis, _: &mut Visit<'_>) -> bool {
        false
    }
}
