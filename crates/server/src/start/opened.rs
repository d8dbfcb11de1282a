//! The parts of a store that another server has handed over, and the file with the memory of a store.

use super::config::{ServerConfig, StartError};
use arena::MapFile;
use command::clients::auth::Auth;
use segment::{Power, StoreFile};
use std::fs::File;
use std::sync::Arc;

/// The users of a server, for the server that resumes in the same process after a failed takeover.
#[derive(Debug)]
pub struct LoadedUsers {
    pub(crate) auth: Option<Arc<Auth>>,
    /// The Redis users, as lines of an ACL file.
    pub(crate) rights: Vec<u8>,
}

/// The store that another server handed over.
#[derive(Debug, Default)]
pub(crate) struct ReleasedStore {
    /// The memory of the store.
    pub(crate) memory: Option<Arc<MapFile>>,
    /// A copy of the index, if the index is not in the memory file.
    pub(crate) index: Option<Arc<MapFile>>,
    /// The flash devices, in the order of the configuration.
    pub(crate) devices: Vec<Arc<File>>,
    /// The memory of the graph store.
    pub(crate) graphs: Option<Arc<MapFile>>,
    /// The users of this process, so that their files are not read again.
    pub(crate) known: Option<LoadedUsers>,
    /// True if the store is only read and never changed.
    pub(crate) is_view: bool,
}

/// Returns the file with the store's memory, if there is one. It is the file that was handed over, the configured file,
/// or an unnamed file that can be handed over.
pub(crate) fn memory_file(config: &ServerConfig, left: Option<Arc<MapFile>>) -> Result<Option<StoreFile>, StartError> {
    let (file, reset) = match (left, &config.file) {
        (Some(file), _) => (file, false),
        (None, Some(path)) => {
            let file = MapFile::open(path).map_err(|error| StartError::File { path: path.clone(), error })?;
            (Arc::new(file), config.file_reset)
        }
        (None, None) if config.upgradable => (Arc::new(MapFile::in_memory()?), false),
        (None, None) => return Ok(None),
    };
    let boot = arena::boot_id();
    if boot.is_none() && config.checkpoint.is_some() {
        let error = "the kernel does not identify its boots (/proc/sys/kernel/random/boot_id); remove --checkpoint";
        return Err(std::io::Error::other(error).into());
    }
    if arena::boot_id_override().is_some() {
        tracing::warn!("{} sets the identity of this boot, which is only for tests", arena::BOOT_ID_VARIABLE);
    }
    let power = Power { boot: boot.unwrap_or(0), checkpoints: config.checkpoint.is_some() };
    Ok(Some(StoreFile { file, reset, index: config.file_index, index_left: None, power }))
}
