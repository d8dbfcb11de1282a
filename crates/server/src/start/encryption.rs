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
use command::host::{TlsCertificate, TlsChange, TlsState};
use command::memory::budget::{Budget, MemoryUse};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tls::{
    CertificateFacts, ClientAuth, HandshakeLimits, LogEvent, MemoryBound, Reloaded, Tls, TlsSettings, UserFrom,
    Versions,
};

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
    let tls = Tls::new(&wanted.settings, wanted.limits, config.workers, memory, Box::new(log_event));
    let tls = tls.map_err(StartError::Tls)?;
    warn_of_invalid(&tls);
    Ok(Some(Arc::new(tls)))
}

/// Logs an event of a connection. `since` has the number of events, by kind, that were not logged since the last one
/// that was.
fn log_event(peer: Option<std::net::SocketAddr>, event: LogEvent<'_>, since: &[(&'static str, u64)]) {
    let peer = peer.map_or_else(|| "a client".to_owned(), |peer| peer.to_string());
    let others = since.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ");
    let others = if others.is_empty() { others } else { format!(" (not logged since the last line: {others})") };
    match event {
        LogEvent::Failed(failure) => tracing::info!("the TLS handshake of {peer} failed: {failure}{others}"),
        LogEvent::Broken(failure) => tracing::info!("the TLS connection of {peer} was closed: {failure}{others}"),
        LogEvent::UnknownUser([]) => tracing::info!(
            "the certificate of {peer} names no user; issue one with a name as tls.user_from says{others}"
        ),
        LogEvent::UnknownUser(names) => tracing::info!(
            "the certificate of {peer} names {names:?}, which is no enabled user; add the user, for example with \
             gannet user add --certificate{others}"
        ),
    }
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
/// Returns false, and changes nothing, if a file or setting cannot be used.
pub fn reload(shared: &Shared, settings: &TlsSettings, limits: HandshakeLimits) -> bool {
    let Some(tls) = shared.tls() else { return true };
    let reloaded = tls.reload(settings);
    audit_reload(shared, &reloaded);
    log_reload(tls, &reloaded);
    let is_replaced = matches!(reloaded, Reloaded::Replaced);
    if is_replaced {
        tls.set_limits(limits);
    }
    is_replaced
}

/// Reads the files of certificates again, with the settings in force.
///
/// # Errors
/// If a file is broken. The earlier certificates stay in use.
pub(crate) fn reload_now(tls: &Tls) -> Result<(), String> {
    change_now(tls, &[])
}

/// Changes settings until the next reload of the configuration, and reads the files of certificates again.
///
/// # Errors
/// If a file is broken or does not fit. The earlier settings and certificates stay in use.
pub(crate) fn change_now(tls: &Tls, changes: &[TlsChange]) -> Result<(), String> {
    let mut settings = tls.current().settings().clone();
    for change in changes {
        let first = settings.certificates.first_mut();
        match (change, first) {
            (TlsChange::CertFile(path), Some(first)) => first.chain = path.into(),
            (TlsChange::KeyFile(path), Some(first)) => first.key = path.into(),
            (TlsChange::CertFile(_) | TlsChange::KeyFile(_), None) => {}
            (TlsChange::CaFile(path), _) => settings.client_ca = (!path.is_empty()).then(|| path.into()),
            (TlsChange::AuthClients(word), _) => {
                settings.client_auth = *find(&AUTH_WORDS, word);
            }
            (TlsChange::ClientsUser(word), _) => settings.user_from = *find(&USER_WORDS, word),
            (TlsChange::Protocols(word), _) => settings.versions = *find(&VERSION_WORDS, word),
            (TlsChange::Resumes(resumes), _) => settings.resumption = *resumes,
        }
    }
    let reloaded = tls.reload(&settings);
    log_reload(tls, &reloaded);
    match reloaded {
        Reloaded::Replaced => Ok(()),
        Reloaded::Kept(faults) => {
            let shown = |fault: &tls::SettingError| format!("{fault}{}", sandbox::hint(&fault.what));
            Err(faults.iter().map(shown).collect::<Vec<_>>().join("; "))
        }
    }
}

/// The values of settings, with the words of Redis.
type Words<T> = [(T, &'static str); 3];
const AUTH_WORDS: Words<ClientAuth> =
    [(ClientAuth::No, "no"), (ClientAuth::Optional, "optional"), (ClientAuth::Required, "yes")];
const USER_WORDS: Words<UserFrom> = [(UserFrom::None, "off"), (UserFrom::CommonName, "CN"), (UserFrom::SanUri, "URI")];
const VERSION_WORDS: Words<Versions> =
    [(Versions::Both, "TLSv1.2 TLSv1.3"), (Versions::Tls12, "TLSv1.2"), (Versions::Tls13, "TLSv1.3")];

/// Returns the value with this word, which exists.
fn find<'w, T>(words: &'w Words<T>, word: &str) -> &'w T {
    &words.iter().find(|(_, known)| *known == word).expect("the word of a value").0
}

/// Returns the word of a value.
fn word<T: PartialEq>(words: &Words<T>, value: &T) -> &'static str {
    words.iter().find(|(known, _)| known == value).expect("each value has a word").1
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
        auth_clients: word(&AUTH_WORDS, &settings.client_auth),
        clients_user: word(&USER_WORDS, &settings.user_from),
        protocols: word(&VERSION_WORDS, &settings.versions),
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
