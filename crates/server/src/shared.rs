//! The state that all threads of one server share.

use crate::start::config::ServerConfig;
use crate::threads::Threads;
use command::host::Host;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// One server's common state: the part that commands share, and the part that only the server's own threads use. The
/// admin port and the program access it through `Running::shared`.
pub struct Shared {
    /// The state that commands share.
    pub commands: Arc<command::shared::Shared>,
    /// The switches that wake and stop the threads.
    pub threads: Arc<Threads>,
    /// The configuration that the server was started with.
    pub config: ServerConfig,
    /// The time that it took to open or create the store.
    pub opened_in: Duration,
    /// The duration of the last checkpoint in ns, from the time at which all of its segments were sealed.
    pub checkpoint_ns: AtomicU64,
    /// The file with the memory of the graph store, if it is in one.
    pub(crate) graph_file: Option<Arc<arena::MapFile>>,
    /// The commits of the graph store, until the thread that commits takes them.
    pub(crate) graph_commit_log: std::sync::Mutex<Option<crate::start::graph_log::CommitLog>>,
    /// The devices of the second tier, in the order of the configuration.
    pub(crate) flash_files: Vec<Arc<std::fs::File>>,
}

impl Shared {
    /// Returns the certificates, limits and figures of TLS, if a listener uses it.
    pub fn tls(&self) -> Option<&Arc<tls::Tls>> {
        self.threads.tls.as_ref()
    }

    /// Returns true if connections with TLS need a client certificate.
    pub(crate) fn requires_certificates(&self) -> bool {
        self.tls().is_some_and(|tls| tls.requires_certificates())
    }

    /// Requests a graceful stop. Returns at once.
    pub fn request_stop(&self) {
        self.threads.request_stop();
    }

    /// Requests a handover: see [`Threads::request_hand_over`].
    pub fn request_hand_over(&self) {
        self.threads.request_hand_over();
    }
}

/// Gives direct access to the state that commands share, which is most of the server's state.
impl Deref for Shared {
    type Target = command::shared::Shared;

    fn deref(&self) -> &Self::Target {
        &self.commands
    }
}
