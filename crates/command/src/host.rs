//! The services that commands need from the server that runs them.
//!
//! ```text
//!   command ── Shared::host ──> Host ── implemented by the server's threads
//! ```
//!
//! Invariants: ordinary requests never call the host. No call blocks.

use std::sync::{Arc, OnceLock};

/// Work that may block, for example on a disk.
pub type Job = Box<dyn FnOnce() + Send>;

/// The server that runs the commands, with its threads.
pub trait Host: Send + Sync {
    /// Wakes a worker if it waits.
    fn wake_worker(&self, worker: usize);

    /// Wakes the background thread if it sleeps.
    fn wake_background(&self);

    /// Executes a job in a thread that serves no clients, after the earlier jobs. If the server stops first, drops it.
    fn run_aside(&self, job: Job);

    /// Executes a job that hashes a password, in a thread of its own, one job at a time. `source` is the number of the
    /// client's source; jobs of operators have none and come first. If the server stops first, drops the job. Returns
    /// false, and drops the job, if too many jobs wait, in all or of its source.
    fn hash_aside(&self, job: Job, source: Option<u128>) -> bool;

    /// Requests a graceful stop. Does not wait for the stop, so that a command may call it.
    fn request_stop(&self);

    /// Returns true if a stop has been requested.
    fn is_stopping(&self) -> bool;

    /// Returns true if workers must not begin an in-place receive, because a handover is being prepared.
    fn is_draining(&self) -> bool;

    /// Returns the figures of the second tier, if there is one.
    fn flash(&self) -> Option<FlashFigures>;

    /// Returns the state of TLS, if a listener uses it.
    fn tls(&self) -> Option<TlsState>;

    /// Reads the certificates again, in a thread that serves no clients. Sets the result when it is done: the errors of
    /// broken files, which change nothing.
    fn reload_certificates(&self) -> ReloadResult;

    /// Changes settings of TLS and reads the certificates again, in a thread that serves no clients. Sets the result
    /// when it is done: an error changes nothing.
    fn change_tls(&self, changes: Vec<TlsChange>) -> ReloadResult;

    /// Returns the end of a message about a file that cannot be read or written, if the sandbox may be the reason.
    fn sandbox_hint(&self, message: &str) -> &'static str;
}

/// The result of a reload of certificates, once there is one.
pub type ReloadResult = Arc<OnceLock<Result<(), String>>>;

/// A change of a setting of TLS while the server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsChange {
    /// The file of the first certificate.
    CertFile(String),
    /// The file of its key.
    KeyFile(String),
    /// The file of the CAs of client certificates; empty for none.
    CaFile(String),
    /// The need of clients for a certificate: `yes`, `optional` or `no`.
    AuthClients(&'static str),
    /// The part of a client's certificate that names its user: `CN`, `URI` or `off`.
    ClientsUser(&'static str),
    /// The allowed versions, as in [`TlsState::protocols`].
    Protocols(&'static str),
    /// True if clients can resume sessions.
    Resumes(bool),
}

/// A certificate in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsCertificate {
    /// The serial number, in hexadecimal.
    pub serial: String,
    /// The instant until which the certificate is valid, in Unix seconds.
    pub not_after: i64,
}

/// The state of TLS: the settings in force, under the names and with the words of Redis, and figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsState {
    /// The file of the first certificate.
    pub cert_file: String,
    /// The file of its key.
    pub key_file: String,
    /// The file of the CAs of client certificates; empty if there is none.
    pub ca_file: String,
    /// The need of clients for a certificate: `yes`, `optional` or `no`.
    pub auth_clients: &'static str,
    /// The part of a client's certificate that names its user: `CN`, `URI` or `off`.
    pub clients_user: &'static str,
    /// The allowed versions.
    pub protocols: &'static str,
    /// The allowed cipher suites, with colons between them; empty for all.
    pub ciphers: String,
    /// True if clients can resume sessions.
    pub resumes: bool,
    /// The certificate of the server that expires first.
    pub certificate: TlsCertificate,
    /// The CA of client certificates that expires first; the default if there is none.
    pub ca: TlsCertificate,
    /// The time since the certificates were last read, in seconds.
    pub read_ago_secs: u64,
    /// The number of connections that are encrypted now.
    pub open: u64,
    /// The number of handshakes under way.
    pub under_way: u64,
    /// The number of connections that wait to begin a handshake.
    pub waiting: u64,
    /// The number of handshakes that established a new session.
    pub full: u64,
    /// The number of handshakes that resumed a session.
    pub resumed: u64,
    /// The number of handshakes that failed.
    pub failed: u64,
    /// The number of reloads of certificates that succeeded, and of those that failed.
    pub reloads: (u64, u64),
}

/// Figures of the second tier (flash).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashFigures {
    /// The number of regions that have not been read yet since the start, so that their items are unknown.
    pub regions_unread: u64,
    /// The number of items that were evicted from memory but not written to flash.
    pub items_refused: u64,
    /// The number of reads from devices.
    pub reads: u64,
    /// The number of bytes of items that were written.
    pub item_bytes: u64,
    /// The number of all bytes that were written, metadata included.
    pub written_bytes: u64,
    /// The number of devices that are no longer used because they failed.
    pub devices_lost: u64,
    /// The size of all devices, in bytes.
    pub bytes: u64,
    /// The number of free regions.
    pub regions_free: u64,
    /// The number of regions in use.
    pub regions_used: u64,
    /// The number of regions that were freed.
    pub regions_freed: u64,
    /// The number of bytes that were read from devices.
    pub read_bytes: u64,
    /// The number of reads that wait for a thread.
    pub reads_waiting: u64,
    /// The number of bytes of items that were written once more, because their region was freed.
    pub again_bytes: u64,
}
