//! The second tier of the server's store: its devices, and what is said of them.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use base::clock::UnixMillis;
use flash::{FileDevice, Flash, FlashConfig, FlashSizeError, Lost, Sizes};
use segment::{StoreConfig, TierGround};

use crate::start::{Opened, ServerConfig, StartError};

/// What an item in memory takes at least, in bytes, of what the index has to have slots for beside those on flash.
const MEMORY_ITEM_BYTES: u64 = 128;
/// The index is to be so full, in percent.
const LOAD_PERCENT: u64 = 85;
/// What a slot takes, in bytes.
const SLOT_BYTES: u64 = 8;

/// Opens the devices and makes a store that evicts to them.
pub(crate) fn open(config: &ServerConfig, store: &StoreConfig, now: UnixMillis) -> Result<Opened, StartError> {
    let device_bytes: Vec<u64> = config.flash.iter().map(|place| place.size.0).collect();
    let sizes = Sizes::of(&device_bytes).map_err(|error| match error {
        FlashSizeError::TooSmall { .. } => StartError::Config("the devices of store.flash are too small"),
        FlashSizeError::TooLarge { .. } => StartError::Config("the devices of store.flash are more than can be named"),
    })?;
    let mut devices = Vec::new();
    for place in &config.flash {
        let device = FileDevice::open(&place.path, place.size.0)
            .map_err(|error| StartError::Flash { path: place.path.clone(), error })?;
        if !device.is_direct() {
            tracing::warn!(
                "{} is read and written through the page cache: its file system is in memory",
                place.path.display()
            );
        }
        devices.push(Box::new(device) as Box<dyn flash::device::Device>);
    }
    let plan = sizes.plan(&device_bytes, index_slots(config, device_bytes.iter().sum()));
    let file = crate::start::memory_file(config, None)?;
    let mut ground = TierGround::lay(store, file.as_ref(), &plan, now).map_err(StartError::Store)?;
    let on_lost = Box::new(|lost: &Lost| {
        tracing::error!(
            "{} is not used any more: {}; its items are misses, replace it and restart",
            lost.device,
            lost.why
        );
    });
    let (room, seed) = (ground.take_room(), RandomState::new().hash_one(now.0));
    let writes_a_day_bytes = config.flash_writes_a_day_bytes;
    let lanes = store.lanes_max;
    let flash = Flash::new(FlashConfig { devices, sizes, lanes, room, seed, writes_a_day_bytes, on_lost });
    for device in flash.exchanged() {
        tracing::warn!("{device} is not what it was when the memory file was used last: its items are gone");
    }
    let (store, background) = ground.store(Arc::clone(&flash) as _, now).map_err(StartError::Store)?;
    Ok((store, background, Some(flash)))
}

/// Slots for the items that fit on flash and in memory, in half of the memory at most.
fn index_slots(config: &ServerConfig, flash_bytes: u64) -> u64 {
    let items = flash_bytes / config.flash_item_bytes.max(1) + config.memory_bytes / MEMORY_ITEM_BYTES;
    (items * 100 / LOAD_PERCENT).min(config.memory_bytes / 2 / SLOT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_has_a_slot_for_each_item_and_takes_half_of_the_memory_at_most() {
        let config = ServerConfig { memory_bytes: 1 << 30, flash_item_bytes: 1024, ..ServerConfig::default() };
        let items = (16 << 30) / 1024 + (1 << 30) / 128;
        assert_eq!(index_slots(&config, 16 << 30), items * 100 / 85);
        assert_eq!(index_slots(&config, 1 << 40), (1 << 30) / 16);
    }
}
