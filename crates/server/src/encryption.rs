//! TLS in the server: opens the certificates at start, reads changed ones, and describes their state.
//!
//! ```text
//!   survey thread, twice a second: files changed? ──> new handshakes use them; a broken file is logged, once
//!   SIGHUP: settings and files ──────────────────────^
//! ```

use crate::shared::Shared;
use crate::start::StartError;
use crate::start::config::ServerConfig;
use command::memory::budget::{Budget, MemoryUse};
use std::sync::Arc;
use tls::{Limits, MemoryBound, Reloaded, Tls, TlsSettings};

/// The share of client memory that connections with TLS may use.
struct ClientMemory(Arc<Budget>);

impl MemoryBound for ClientMemory {
    fn reserve(&self, bytes: u64) -> bool {
        self.0.reserve(MemoryUse::Tls, bytes)
    }

    fn release(&self, bytes: u64) {
        self.0.release(MemoryUse::Tls, bytes);
    }
}

/// Reads the certificates, if a listener uses TLS.
///
/// # Errors
/// If a file or setting cannot be used.
pub(crate) fn open(config: &ServerConfig, budget: &Arc<Budget>) -> Result<Option<Arc<Tls>>, StartError> {
    let Some(wanted) = &config.tls else { return Ok(None) };
    let memory = Arc::new(ClientMemory(Arc::clone(budget)));
    let log = |peer: Option<std::net::SocketAddr>, failure: &tls::Failure, suppressed: u64| {
        let peer = peer.map_or_else(|| "a client".to_owned(), |peer| peer.to_string());
        if suppressed == 0 {
            tracing::info!("the TLS handshake of {peer} failed: {failure}");
        } else {
            tracing::info!("the TLS handshake of {peer} failed, as did {suppressed} others: {failure}");
        }
    };
    let tls = Tls::new(&wanted.settings, wanted.limits, config.workers, memory, Box::new(log));
    tls.map(|tls| Some(Arc::new(tls))).map_err(StartError::Tls)
}

/// Checks that the certificates can be used. A new process calls this before the running server hands over.
///
/// # Errors
/// If a file or setting cannot be used.
pub fn check(config: &ServerConfig) -> Result<(), StartError> {
    let Some(wanted) = &config.tls else { return Ok(()) };
    tls::Loaded::read(&wanted.settings, None).map(drop).map_err(StartError::Tls)
}

/// Reads the files of certificates again, if one of them has changed.
pub(crate) fn reload_changed(shared: &Shared) {
    let reloaded = shared.tls.as_ref().and_then(|tls| tls.reload_changed().map(|reloaded| (tls, reloaded)));
    if let Some((tls, reloaded)) = reloaded {
        log_reload(tls, &reloaded);
    }
}

/// Uses other settings, files and limits from now on. Connections stay as they are.
pub fn reload(shared: &Shared, settings: &TlsSettings, limits: Limits) {
    let Some(tls) = &shared.tls else { return };
    tls.set_limits(limits);
    log_reload(tls, &tls.reload(settings));
}

fn log_reload(tls: &Tls, reloaded: &Reloaded) {
    match reloaded {
        Reloaded::Replaced => {
            for facts in &tls.current().certificates {
                let (file, names) = (facts.file.display(), facts.names.join(", "));
                let serial = &facts.serial;
                tracing::info!("new connections use the certificate of {names} in {file}, serial number {serial}");
            }
        }
        Reloaded::Kept(faults) => {
            for fault in faults {
                tracing::warn!("the earlier certificates stay in use: {fault}");
            }
        }
    }
}

/// Returns the whole days until the first of the server's certificates expires, at `now` in Unix seconds. Negative: it
/// has expired.
pub fn days_left(tls: &Tls, now: i64) -> Option<i64> {
    let current = tls.current();
    current.first_to_expire().map(|facts| (facts.not_after - now).div_euclid(86_400))
}
