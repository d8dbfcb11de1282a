//! The creation of a store that has a second tier.
//!
//! ```text
//!   TierBacking::lay ──room──> the caller creates the tier on it ──TierBacking::store──> the store with its tier
//! ```

use std::sync::Arc;

use base::clock::UnixMillis;

use crate::background::Background;
use crate::core::store::Store;
use crate::durable::file::{Backing, Held, IndexPlace, StoreFile};
use crate::heap::config::{Geometry, StartError, StoreConfig};
use crate::tier::room::TierRoom;
use crate::tier::{Tier, TierPlan};

/// A store that is complete except for its second tier.
#[derive(Debug)]
pub struct TierBacking {
    config: StoreConfig,
    geometry: Geometry,
    ground: Backing,
    held: Option<Held>,
    room: Option<TierRoom>,
    regions: usize,
}

impl TierBacking {
    /// Opens or creates the memory of a store whose index has a fixed size, which a resize does not change. The memory
    /// lies in `file`, or in the process if `file` is `None`.
    ///
    /// # Errors
    /// As for a store without a tier. Also if the file was created with another tier, or with none.
    pub fn lay(
        config: &StoreConfig,
        file: Option<&StoreFile>,
        plan: &TierPlan,
        now: UnixMillis,
    ) -> Result<Self, StartError> {
        let Some(file) = file else {
            let geometry = Geometry::with_index(config, plan.groups(), 0)?;
            let count = geometry.segments_for(config.memory_bytes, plan.groups());
            let ground = Backing::private(&geometry, count, config.huge_pages).map_err(StartError::Map)?;
            let room = TierRoom::private(plan).map_err(StartError::Map)?;
            return Ok(Self {
                config: config.clone(),
                geometry,
                ground,
                held: None,
                room: Some(room),
                regions: plan.regions,
            });
        };
        assert!(plan.finds == (file.index == IndexPlace::Dram), "{plan:?} beside an index in {:?}", file.index);
        let (geometry, ground, held) = crate::durable::file::lay(config, file, Some(plan), now)?;
        let config = StoreConfig { hash_seed: held.block.hash_seed, memory_bytes_max: 0, ..config.clone() };
        let room = crate::durable::file::tier_room(&geometry, &held, plan)
            .map_err(|error| StartError::File { path: held.file.path().to_owned(), fault: error.into() })?;
        Ok(Self { config, geometry, ground, held: Some(held), room: Some(room), regions: plan.regions })
    }

    /// Returns the room to create the tier on. It can be taken once.
    pub fn take_room(&mut self) -> TierRoom {
        self.room.take().expect("the room is given out once")
    }

    /// Returns true if the machine lost power, so that the tier's contents are lost.
    pub fn is_lost(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.lost.is_some())
    }

    /// Returns the store, and the handle that does its background work.
    ///
    /// # Errors
    /// If the state that an earlier process left is inconsistent.
    pub fn store(self, tier: Arc<dyn Tier>, now: UnixMillis) -> Result<(Arc<Store>, Background), StartError> {
        Store::on(&self.config, self.geometry, self.ground, self.held, Some((tier, self.regions)), now)
    }
}
