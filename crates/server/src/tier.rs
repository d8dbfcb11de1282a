//! The second tier of the server's store: its devices, and the log lines about them.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use base::clock::UnixMillis;
use flash::{FileDevice, Flash, FlashConfig, FlashSizeError, Lost, OpenError, Sizes};
use segment::{IndexPlace, Store, StoreConfig, TierBacking, TierPlan};

use crate::config::kinds::FlashPlace;
use crate::start::config::{ServerConfig, StartError};
use crate::start::opened::ReleasedStore;

/// The assumed size of an item in memory, in bytes: the index has slots for as many such items as fit in memory, in
/// addition to those for items on flash.
const MEMORY_ITEM_BYTES: u64 = 128;
/// The target load of the index, in percent.
const LOAD_PERCENT: u64 = 85;
/// The size of an index slot, in bytes.
const SLOT_BYTES: u64 = 8;

/// A second tier with its open devices.
pub(crate) struct Tiered {
    pub(crate) flash: Arc<Flash>,
    /// The devices of the tier, in the order of the configuration, for a process that takes them over.
    pub(crate) files: Vec<Arc<File>>,
}

/// The store, its background work, and its second tier.
pub(crate) type Opened = (Arc<Store>, segment::Background, Option<Tiered>);

/// Returns the layout of the devices, and the plan of a store that uses these devices and has its index at `index`.
pub(crate) fn plan(config: &ServerConfig, index: IndexPlace) -> Result<(Sizes, TierPlan), StartError> {
    let device_bytes: Vec<u64> = config.flash.iter().map(|place| place.size.0).collect();
    let sizes = Sizes::of(&device_bytes).map_err(|error| match error {
        FlashSizeError::TooSmall { .. } => StartError::Config("the devices of store.flash are too small"),
        FlashSizeError::TooLarge { .. } => StartError::Config("the devices of store.flash are too large"),
    })?;
    let items = sizes.items(&device_bytes, config.flash_item_bytes);
    Ok((sizes, sizes.plan(&device_bytes, index_slots(config, items), index)))
}

fn open_device(
    place: &FlashPlace,
    left: Option<Arc<File>>,
    is_view: bool,
    resets: bool,
) -> Result<FileDevice, StartError> {
    let (path, bytes) = (&place.path, place.size.0);
    let device = match left {
        Some(file) => FileDevice::adopt(file, path, bytes),
        None if is_view => FileDevice::view(path, bytes),
        None if resets => FileDevice::reset(path, bytes),
        None => FileDevice::open(path, bytes),
    };
    let device = device.map_err(|error| StartError::Flash { path: path.clone(), error })?;
    if !device.is_direct() {
        tracing::warn!("{} is read and written through the page cache: its file system is in memory", path.display());
    }
    Ok(device)
}

/// Opens the devices and creates a store that evicts to them, in the memory that another server handed over, if there
/// is any.
pub(crate) fn open(
    config: &ServerConfig,
    store: &StoreConfig,
    left: ReleasedStore,
    now: UnixMillis,
) -> Result<Opened, StartError> {
    let file = crate::start::opened::memory_file(config, left.memory)?;
    let (sizes, plan) = plan(config, file.as_ref().map_or(IndexPlace::File, |file| file.index))?;
    assert!(
        left.devices.is_empty() || left.devices.len() == config.flash.len(),
        "{} devices were left for {:?}",
        left.devices.len(),
        config.flash
    );
    let mut left_devices = left.devices.into_iter();
    let is_view = left.is_view;
    let resets = config.flash_reset;
    let devices = config.flash.iter().map(|place| open_device(place, left_devices.next(), is_view, resets));
    let devices = devices.collect::<Result<Vec<_>, _>>()?;
    let files = devices.iter().map(FileDevice::share).collect();
    let devices = devices.into_iter().map(|device| Box::new(device) as Box<dyn flash::device::Device>).collect();
    let mut ground = TierBacking::lay(store, file.as_ref(), &plan, now).map_err(StartError::Store)?;
    let on_lost = Box::new(|lost: &Lost| {
        tracing::error!(
            "{} failed and is not used any more: {}; its items are misses; replace it and restart",
            lost.device,
            lost.why
        );
    });
    let is_lost = ground.is_lost();
    let (room, seed) = (ground.take_room(), RandomState::new().hash_one(now.0));
    let writes_a_day_bytes = config.flash_writes_a_day_bytes;
    let handles = store.handles_max;
    let flash = Flash::new(FlashConfig { devices, sizes, handles, room, seed, writes_a_day_bytes, on_lost, is_view });
    if let Some(device) = flash.strangers().into_iter().next().filter(|_| is_view && !is_lost) {
        return Err(StartError::Flash { path: device.into(), error: OpenError::Other });
    }
    for device in flash.exchanged() {
        tracing::warn!("{device} is not what it was when the memory file was last used: its items are lost");
    }
    let (store, background) = ground.store(Arc::clone(&flash) as _, now).map_err(StartError::Store)?;
    Ok((store, background, Some(Tiered { flash, files })))
}

/// Returns the number of index slots for `on_flash` items and those in memory. The index uses at most half of the
/// memory.
fn index_slots(config: &ServerConfig, on_flash: u64) -> u64 {
    let items = on_flash + config.memory_bytes / MEMORY_ITEM_BYTES;
    (items * 100 / LOAD_PERCENT).min(config.memory_bytes / 2 / SLOT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flash_index_has_a_slot_per_item_and_uses_at_most_half_of_the_memory() {
        let config = ServerConfig { memory_bytes: 1 << 30, ..ServerConfig::default() };
        assert_eq!(index_slots(&config, 16 << 20), ((16 << 20) + (1 << 30) / 128) * 100 / 85);
        assert_eq!(index_slots(&config, 1 << 30), (1 << 30) / 16);
    }
}
