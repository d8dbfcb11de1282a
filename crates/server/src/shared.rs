//! The state that all threads of one server share.

use crate::start::config::ServerConfig;
use crate::threads::Threads;
use command::host::Host;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// One server's common state. It holds what commands share, and what only the server's own threads use. The admin port
/// and the program reach it through `Running::shared`.
pub struct Shared {
    /// The state that commands share.
    pub commands: Arc<command::shared::Shared>,
    /// The switches of the threads.
    pub threads: Arc<Threads>,
    /// Configuration that the server was started with.
    pub config: ServerConfig,
    /// Time that its memory took to open, or to create.
    pub opened_in: Duration,
    /// Time that the last checkpoint took, from when all was sealed.
    pub checkpoint_ns: AtomicU64,
    /// Devices of the second tier, in the order of the configuration.
    pub(crate) flash_files: Vec<Arc<std::fs::File>>,
}

impl Shared {
    /// Requests a graceful stop. Returns at once.
    pub fn request_stop(&self) {
        self.threads.request_stop();
    }

    /// Requests a hand-over: see [`Threads::request_hand_over`].
    pub fn request_hand_over(&self) {
        self.threads.request_hand_over();
    }
}

/// Most of the state of a server is what its commands share.
impl Deref for Shared {
    type Target = command::shared::Shared;

    fn deref(&self) -> &Self::Target {
        &self.commands
    }
}
