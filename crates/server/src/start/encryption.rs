//! TLS in the server: opens the certificates at start, reads changed ones, and describes their state.
//!
//! ```text
//!   survey thread, twice a second: files changed? ──> new handshakes use them; a broken file is logged, once
//!   SIGHUP: settings and files ──────────────────────^
//! ```

use crate::shared::Shared;
use crate::start::StartError;
use crate::start::config::ServerConfig;
use crate::start::sandbox;
use base::clock::UnixMillis;
use command::clients::audit::{AuditEvent, AuditOrigin};
use command::host::{TlsCertificate, TlsState};
use command::memory::budget::{Budget, MemoryUse};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tls::{CertificateFacts, ClientAuth, HandshakeLimits, MemoryBound, Reloaded, Tls, TlsSettings, UserFrom, Versions};

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
    let log = |peer: Option<std::net::SocketAddr>, failure: &tls::HandshakeFailure, suppressed: u64| {
        let peer = peer.map_or_else(|| "a client".to_owned(), |peer| peer.to_string());
        if suppressed == 0 {
            tracing::info!("the TLS handshake of {peer} failed: {failure}");
        } else {
            tracing::info!("the TLS handshake of {peer} failed, as did {suppressed} others: {failure}");
        }
    };
    let tls = Tls::new(&wanted.settings, wanted.limits, config.workers, memory, Box::new(log));
    let tls = tls.map_err(StartError::Tls)?;
    warn_of_invalid(&tls);
    Ok(Some(Arc::new(tls)))
}

/// Logs the certificates that are not valid now. Clients refuse them, but the reason may be a wrong clock.
fn warn_of_invalid(tls: &Tls) {
    let now = UnixMillis::now().secs() as i64;
    for facts in &tls.current().certificates {
        let (file, names) = (facts.file.display(), facts.names.join(", "));
        let days = |secs: i64| secs / (24 * 60 * 60);
        if now >= facts.not_after {
            let days = days(now - facts.not_after);
            tracing::warn!("the certificate of {names} in {file} expired {days} days ago; replace it");
        } else if now < facts.not_before {
            let days = days(facts.not_before - now);
            tracing::warn!(
                "the certificate of {names} in {file} becomes valid only in {days} days; check the clock, or replace it"
            );
        }
    }
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
    let reloaded = shared.tls().and_then(|tls| tls.reload_changed().map(|reloaded| (tls, reloaded)));
    if let Some((tls, reloaded)) = reloaded {
        audit_reload(shared, &reloaded);
        log_reload(tls, &reloaded);
    }
}

/// Uses other settings, files and limits from now on. Connections stay as they are.
pub fn reload(shared: &Shared, settings: &TlsSettings, limits: HandshakeLimits) {
    let Some(tls) = shared.tls() else { return };
    tls.set_limits(limits);
    let reloaded = tls.reload(settings);
    audit_reload(shared, &reloaded);
    log_reload(tls, &reloaded);
}

/// Reads the files of certificates again, with the settings in force.
///
/// # Errors
/// If a file is broken. The earlier certificates stay in use.
pub(crate) fn reload_now(tls: &Tls) -> Result<(), String> {
    let reloaded = tls.reload(tls.current().settings());
    log_reload(tls, &reloaded);
    match reloaded {
        Reloaded::Replaced => Ok(()),
        Reloaded::Kept(faults) => Err(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}

fn audit_reload(shared: &Shared, reloaded: &Reloaded) {
    let result = if matches!(reloaded, Reloaded::Replaced) { "in use" } else { "refused; the earlier ones stay" };
    shared.audit.record(AuditEvent::CertificateReload, AuditOrigin::Server, b"", || result.to_owned());
}

fn log_reload(tls: &Tls, reloaded: &Reloaded) {
    match reloaded {
        Reloaded::Replaced => {
            for facts in &tls.current().certificates {
                let (file, names) = (facts.file.display(), facts.names.join(", "));
                let serial = &facts.serial;
                tracing::info!("new connections use the certificate of {names} in {file}, serial number {serial}");
            }
            warn_of_invalid(tls);
        }
        Reloaded::Kept(faults) => {
            for fault in faults {
                let hint = sandbox::hint(&fault.what);
                tracing::warn!("the earlier certificates stay in use: {fault}{hint}");
            }
        }
    }
}

/// Returns the state of TLS, in the words of Redis.
pub(crate) fn state(tls: &Tls) -> TlsState {
    let (current, figures) = (tls.current(), &tls.figures);
    let settings = current.settings();
    let first = settings.certificates.first();
    let shown = |path: &std::path::Path| path.display().to_string();
    let of = |facts: Option<&CertificateFacts>| {
        facts.map_or_else(TlsCertificate::default, |facts| TlsCertificate {
            serial: facts.serial.clone(),
            not_after: facts.not_after,
        })
    };
    TlsState {
        cert_file: first.map_or_else(String::new, |files| shown(&files.chain)),
        key_file: first.map_or_else(String::new, |files| shown(&files.key)),
        ca_file: settings.client_ca.as_deref().map_or_else(String::new, shown),
        auth_clients: match settings.client_auth {
            ClientAuth::No => "no",
            ClientAuth::Optional => "optional",
            ClientAuth::Required => "yes",
        },
        clients_user: match settings.user_from {
            UserFrom::None => "off",
            UserFrom::CommonName => "CN",
            UserFrom::SanUri => "URI",
        },
        protocols: match settings.versions {
            Versions::Both => "TLSv1.2 TLSv1.3",
            Versions::Tls12 => "TLSv1.2",
            Versions::Tls13 => "TLSv1.3",
        },
        ciphers: settings.ciphers.join(":"),
        resumes: settings.resumption,
        certificate: of(current.first_to_expire()),
        ca: of(current.client_cas.iter().min_by_key(|facts| facts.not_after)),
        read_ago_secs: current.read_at.elapsed().as_secs(),
        open: figures.open.load(Relaxed),
        under_way: figures.under_way.load(Relaxed),
        waiting: figures.waiting.load(Relaxed),
        full: figures.full.load(Relaxed),
        resumed: figures.resumed.load(Relaxed),
        failed: figures.failed_total(),
        reloads: (figures.reloads.load(Relaxed), figures.reloads_failed.load(Relaxed)),
    }
}
