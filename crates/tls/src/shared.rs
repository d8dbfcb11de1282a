//! The state of TLS that all reactors of a server share: the current certificates, limits and figures.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustls::ServerConfig;

use crate::certificates::Loaded;
use crate::failure::{FailureKind, HandshakeFailure};
use crate::figures::Figures;
use crate::settings::{ClientAuth, SettingError, TlsSettings};

/// The bound on the memory of the records that connections hold.
pub trait MemoryBound: Send + Sync {
    /// Reserves `bytes` bytes. Returns false and reserves nothing if the bound would be exceeded.
    fn reserve(&self, bytes: u64) -> bool;

    /// Returns `bytes` reserved bytes.
    fn release(&self, bytes: u64);
}

/// The protocol that the clients of a listener use within TLS.
#[derive(Clone, Copy, Debug, Default)]
pub struct Application {
    /// True if the protocol is HTTP/2. A client that offers others alone is refused.
    pub is_http2: bool,
    /// The reply to a client whose first bytes are not TLS.
    pub hint: &'static [u8],
}

/// The limits of handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeLimits {
    /// The maximum duration of a handshake.
    pub handshake_timeout: Duration,
    /// The maximum number of handshakes under way at once, in all reactors.
    pub handshakes_max: u64,
}

/// The result of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// The new certificates are in use.
    Replaced,
    /// The files cannot be used. The earlier certificates stay in use.
    Kept(Vec<SettingError>),
}

/// The time between two log lines about connections.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// An event that is logged, unless another one was logged within the last second.
#[derive(Clone, Copy, Debug)]
pub enum LogEvent<'e> {
    /// A handshake has failed.
    Failed(&'e HandshakeFailure),
    /// A connection was closed after its handshake, because of what its peer sent, or for want of memory.
    Broken(&'e HandshakeFailure),
    /// The certificate of a client names none of the server's users. These are the names.
    UnknownUser(&'e [String]),
}

impl LogEvent<'_> {
    /// The number of kinds of events.
    const KINDS: usize = FailureKind::ALL.len() + 2;

    /// Returns the number of the event's kind.
    const fn kind(self) -> usize {
        match self {
            Self::Failed(failure) => failure.kind as usize,
            Self::Broken(_) => FailureKind::ALL.len(),
            Self::UnknownUser(_) => FailureKind::ALL.len() + 1,
        }
    }

    /// Returns the name of a kind: that of a failed handshake in metrics, or of another event.
    fn kind_name(kind: usize) -> &'static str {
        FailureKind::ALL
            .get(kind)
            .map_or_else(|| if kind == FailureKind::ALL.len() { "broken" } else { "unknown_user" }, |kind| kind.name())
    }
}

/// A function that logs an event: the peer, the event, and the number of events since the last call that were not
/// logged, by kind.
pub type EventLog = Box<dyn Fn(Option<std::net::SocketAddr>, LogEvent<'_>, &[(&'static str, u64)]) + Send + Sync>;

/// The instant of the last line in the log, and the number of events since then, by kind.
#[derive(Debug, Default)]
struct Logged {
    at: Option<Instant>,
    since: [u64; LogEvent::KINDS],
}

/// The state of TLS that all reactors of a server share.
pub struct Tls {
    current: RwLock<Arc<Loaded>>,
    /// The identity of each file when it was last read or found broken.
    files: Mutex<Vec<(PathBuf, Option<FileState>)>>,
    handshake_timeout_ms: AtomicU64,
    handshakes_max: AtomicU64,
    pub(crate) reactors: u64,
    pub(crate) memory: Arc<dyn MemoryBound>,
    log: EventLog,
    logged: Mutex<Logged>,
    /// Counters for metrics.
    pub figures: Figures,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("figures", &self.figures).finish_non_exhaustive()
    }
}

/// The state of a file that changes when the file is replaced or rewritten: device, inode, time of the last change in
/// ns, size.
type FileState = (u64, u64, i128, u64);

/// Returns the state of a file behind symbolic links, as a mounted secret has them.
fn file_state(path: &PathBuf) -> Option<FileState> {
    let meta = std::fs::metadata(path).ok()?;
    let changed_ns = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
    Some((meta.dev(), meta.ino(), changed_ns, meta.size()))
}

/// Returns the current states of all files of `settings`.
fn file_states(settings: &TlsSettings) -> Vec<(PathBuf, Option<FileState>)> {
    let pairs = settings.certificates.iter().flat_map(|files| [&files.chain, &files.key]);
    pairs.chain(&settings.client_ca).map(|path| (path.clone(), file_state(path))).collect()
}

impl Tls {
    /// Reads the files of `settings`. `reactors` is the number of reactors that share the limits, `memory` the bound on
    /// the memory of connections, and `log` is called about failures of connections, at most once a second.
    ///
    /// # Errors
    /// All faults of the settings and files.
    pub fn new(
        settings: &TlsSettings,
        limits: HandshakeLimits,
        reactors: usize,
        memory: Arc<dyn MemoryBound>,
        log: EventLog,
    ) -> Result<Self, Vec<SettingError>> {
        let files = file_states(settings);
        let loaded = Loaded::read(settings, None)?;
        let tls = Self {
            current: RwLock::new(Arc::new(loaded)),
            files: Mutex::new(files),
            handshake_timeout_ms: AtomicU64::new(0),
            handshakes_max: AtomicU64::new(0),
            reactors: reactors.max(1) as u64,
            memory,
            log,
            logged: Mutex::default(),
            figures: Figures::default(),
        };
        tls.set_limits(limits);
        Ok(tls)
    }

    /// Changes the limits. Handshakes under way are measured by the new limits.
    pub fn set_limits(&self, limits: HandshakeLimits) {
        self.handshake_timeout_ms.store(limits.handshake_timeout.as_millis() as u64, Relaxed);
        self.handshakes_max.store(limits.handshakes_max, Relaxed);
    }

    pub(crate) fn handshake_timeout(&self) -> Duration {
        Duration::from_millis(self.handshake_timeout_ms.load(Relaxed))
    }

    /// Returns the maximum number of handshakes under way in one reactor, at least 1.
    pub(crate) fn handshakes_max(&self) -> usize {
        self.handshakes_max.load(Relaxed).div_ceil(self.reactors).max(1) as usize
    }

    /// Returns what handshakes use now.
    pub fn current(&self) -> Arc<Loaded> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if every client needs a certificate.
    pub fn requires_certificates(&self) -> bool {
        self.current().settings.client_auth == ClientAuth::Required
    }

    pub(crate) fn config(&self, application: Application) -> Arc<ServerConfig> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(if application.is_http2 { &current.http2 } else { &current.config })
    }

    /// Reads the files of `settings`, for all handshakes from now on. Connections stay as they are.
    pub fn reload(&self, settings: &TlsSettings) -> Reloaded {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        self.reload_locked(settings, &mut files)
    }

    /// Reads the files again if one of them has changed since it was last read. Called about twice a second.
    pub fn reload_changed(&self) -> Option<Reloaded> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = self.current().settings.clone();
        (*files != file_states(&settings)).then(|| self.reload_locked(&settings, &mut files))
    }

    fn reload_locked(&self, settings: &TlsSettings, files: &mut Vec<(PathBuf, Option<FileState>)>) -> Reloaded {
        // The states are taken before the files are read: a change in between is noticed at the next check. If other
        // files were requested and are broken, those in use are still watched.
        let (current, states) = (self.current(), file_states(settings));
        let states_before = if current.settings == *settings { states.clone() } else { file_states(&current.settings) };
        match Loaded::read(settings, Some(&current)) {
            Ok(loaded) => {
                *files = states;
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
                self.figures.reloads.fetch_add(1, Relaxed);
                Reloaded::Replaced
            }
            Err(faults) => {
                *files = states_before;
                self.figures.reloads_failed.fetch_add(1, Relaxed);
                Reloaded::Kept(faults)
            }
        }
    }

    /// Counts a failed handshake, and logs it unless another event was logged within the last second.
    pub(crate) fn fail(&self, peer: Option<std::net::SocketAddr>, failure: &HandshakeFailure) {
        self.figures.fail(failure.kind);
        self.note(peer, LogEvent::Failed(failure));
    }

    /// Counts a connection that is closed after its handshake because of `failure`, and logs it likewise.
    pub(crate) fn broke(&self, peer: Option<std::net::SocketAddr>, failure: &HandshakeFailure) {
        self.figures.broken.fetch_add(1, Relaxed);
        self.note(peer, LogEvent::Broken(failure));
    }

    /// Counts a client whose certificate names no user of the server, and logs it likewise.
    pub fn unknown_user(&self, peer: Option<std::net::SocketAddr>, names: &[String]) {
        self.figures.unknown_users.fetch_add(1, Relaxed);
        self.note(peer, LogEvent::UnknownUser(names));
    }

    fn note(&self, peer: Option<std::net::SocketAddr>, event: LogEvent<'_>) {
        let since = {
            let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            if logged.at.is_some_and(|at| now.saturating_duration_since(at) < LOG_EVERY) {
                logged.since[event.kind()] += 1;
                return;
            }
            logged.at = Some(now);
            std::mem::take(&mut logged.since)
        };
        let named = since.iter().enumerate().map(|(kind, count)| (LogEvent::kind_name(kind), *count));
        let named: Vec<_> = named.filter(|(_, count)| *count > 0).collect();
        (self.log)(peer, event, &named);
    }
}
