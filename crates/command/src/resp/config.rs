//! The command `CONFIG`, which returns the server's settings under Redis's names, and changes some of them while the
//! server runs.
//!
//! A change lasts until the server stops. In the configuration file, the settings have other names: see
//! docs/configuration.md. [`super::config_set`] has the changes.

use super::catalog::lower;
use super::error::ErrorReply;
use super::help::other_subcommand;
use super::pattern::check;
use crate::config::{Address, BACKGROUND_HZ};
use crate::glob::matches;
use crate::host::TlsState;
use crate::metrics::SLOW_MAX;
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::config_hints;
use crate::resp::config_set;
use crate::shared::Shared;
use protocol::resp::{Args, reply};
use segment::Namespace;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The name of a Redis setting, and the function that returns its value for a client of a namespace.
pub(super) type Known = (&'static str, fn(&Shared, Namespace) -> String);

/// All settings that `CONFIG GET` supports, by name.
pub(super) const KNOWN: [Known; 41] = [
    ("appendonly", |_, _| "no".to_owned()),
    ("bind", |shared, _| hosts(shared)),
    ("busy-reply-threshold", |shared, _| shared.scripts.busy_ms().to_string()),
    ("client-output-buffer-limit", |shared, _| {
        let bytes = shared.channels.backlog_bytes_max.load(Relaxed);
        format!("normal 0 0 0 slave 0 0 0 pubsub {bytes} 0 0")
    }),
    ("commandlog-execution-slower-than", |shared, _| slow_us(shared).map_or("-1".to_owned(), |us| us.to_string())),
    ("commandlog-slow-execution-max-len", |shared, _| slow_entries(shared).to_string()),
    ("databases", |_, _| segment::Namespace::MAX.to_string()),
    ("dir", |shared, _| shared.config.process.directory.display().to_string()),
    ("hz", |_, _| BACKGROUND_HZ.to_string()),
    ("io-threads", |shared, _| shared.workers.len().to_string()),
    ("latency-monitor-threshold", |shared, _| slow_us(shared).map_or(0, |us| us / 1000).to_string()),
    ("latency-tracking", |_, _| "yes".to_owned()),
    ("latency-tracking-info-percentiles", |_, _| "50 99 99.9".to_owned()),
    ("lua-time-limit", |shared, _| shared.scripts.busy_ms().to_string()),
    ("maxclients", |shared, _| shared.live.connections_max.load(Relaxed).to_string()),
    ("maxmemory", |shared, _| memory_max(shared).to_string()),
    ("maxmemory-policy", |shared, namespace| super::info::policy(shared, namespace).to_owned()),
    ("notify-keyspace-events", |shared, _| shared.key_events().letters()),
    ("port", |shared, _| port(shared).to_string()),
    ("proto-max-bulk-len", |shared, _| shared.config.item_bytes_max.to_string()),
    ("protected-mode", |shared, _| if shared.config.protected { "yes" } else { "no" }.to_owned()),
    ("requirepass", |shared, _| shared.live.password()),
    ("save", |_, _| String::new()),
    ("slowlog-log-slower-than", |shared, _| slow_us(shared).map_or("-1".to_owned(), |us| us.to_string())),
    ("slowlog-max-len", |shared, _| slow_entries(shared).to_string()),
    ("tcp-keepalive", |shared, _| shared.config.tcp_keepalive.as_secs().to_string()),
    ("timeout", |shared, _| (shared.live.idle_timeout_ms.load(Relaxed) / 1000).to_string()),
    ("tls-auth-clients", |shared, _| tls(shared).auth_clients.to_owned()),
    ("tls-auth-clients-user", |shared, _| tls(shared).clients_user.to_owned()),
    ("tls-ca-cert-file", |shared, _| tls(shared).ca_file),
    ("tls-cert-file", |shared, _| tls(shared).cert_file),
    ("tls-ciphers", |shared, _| tls(shared).ciphers),
    ("tls-ciphersuites", |shared, _| tls(shared).ciphers),
    ("tls-cluster", |_, _| "no".to_owned()),
    ("tls-key-file", |shared, _| tls(shared).key_file),
    ("tls-port", |shared, _| shared.config.tls_port.to_string()),
    ("tls-prefer-server-ciphers", |_, _| "yes".to_owned()),
    ("tls-protocols", |shared, _| tls(shared).protocols.to_owned()),
    ("tls-replication", |_, _| "no".to_owned()),
    ("tls-session-caching", |shared, _| if tls(shared).resumes { "yes" } else { "no" }.to_owned()),
    ("tracking-table-max-keys", |shared, _| shared.tracking.keys_max().to_string()),
];

/// Returns the memory limit that a client has set, or that of the start, in bytes.
fn memory_max(shared: &Shared) -> u64 {
    match shared.live.memory_below_least.load(Relaxed) {
        0 => shared.store.memory_bytes(),
        below_least => below_least,
    }
}

/// Returns the state of TLS. Without TLS, all its fields are empty.
fn tls(shared: &Shared) -> TlsState {
    shared.host.tls().unwrap_or_default()
}

fn tcp(shared: &Shared) -> impl Iterator<Item = std::net::SocketAddr> {
    shared.config.resp.iter().filter_map(|addr| if let Address::Tcp(addr) = addr { Some(*addr) } else { None })
}

fn hosts(shared: &Shared) -> String {
    tcp(shared).map(|addr| addr.ip().to_string()).collect::<Vec<_>>().join(" ")
}

/// Returns the TCP port of the Redis protocol; 0 if there is none.
pub(super) fn port(shared: &Shared) -> u16 {
    tcp(shared).next().map_or(0, |addr| addr.port())
}

/// Returns the maximum number of slow requests that `SLOWLOG` reports: that of `slowlog-max-len`, or the number that
/// the server retains, if it is less.
pub(super) fn slow_entries(shared: &Shared) -> usize {
    let wanted = shared.live.slow_entries_max.load(Relaxed);
    usize::try_from(wanted).unwrap_or(usize::MAX).min(shared.workers.len() * SLOW_MAX)
}

/// Returns the duration above which a request counts as slow, in microseconds. Returns `None` if no request counts as
/// slow.
fn slow_us(shared: &Shared) -> Option<u64> {
    let above_ns = shared.workers[0].recorder.slow_above_ns();
    (above_ns != u64::MAX).then_some(above_ns / 1000)
}

/// The source of a setting's value.
enum ConfigEntry {
    Known(fn(&Shared, Namespace) -> String),
    Hint(usize),
}

/// The maximum number of patterns of one `CONFIG GET`.
const GET_PATTERNS_MAX: usize = 256;

/// Executes `CONFIG GET pattern ... | SET name value ... | RESETSTAT | REWRITE`.
pub(super) fn config<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    match (&lower(topic)[..], args.len()) {
        (b"get", 1..) => get(call, args),
        (b"set", 2..) => config_set::set(call, args),
        (b"resetstat", 0) => {
            call.ctx.shared.reset_stats();
            call.out.push(reply::OK);
            Ok(())
        }
        (b"rewrite", 0) => {
            reply::error(
                call.out,
                b"ERR cannot rewrite the configuration file: change the setting in the file yourself; \
                  GET /config on the admin port shows all current settings",
            );
            Ok(())
        }
        _ => other_subcommand(call, "config", topic),
    }
}

/// Executes `CONFIG GET`. As in Redis, a name without wildcards is returned as the client wrote it.
fn get<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if args.len() > GET_PATTERNS_MAX {
        return Err(ErrorReply::TooManyPatterns.into());
    }
    args.into_iter().try_for_each(check)?;
    let (shared, namespace) = (Arc::clone(&call.ctx.shared), call.session.namespace);
    let mut found: Vec<(&[u8], String)> = Vec::new();
    let known = KNOWN.iter().map(|(name, value)| (*name, ConfigEntry::Known(*value)));
    for (name, setting) in known.chain(config_hints::names().map(|(at, name)| (name, ConfigEntry::Hint(at)))) {
        let name = name.as_bytes();
        let value = || match setting {
            ConfigEntry::Known(value) => value(&shared, namespace),
            ConfigEntry::Hint(at) => shared.live.hints.text(at),
        };
        let same = |word: &&[u8]| word.eq_ignore_ascii_case(name);
        let fits = |word: &[u8]| matches(&word.to_ascii_lowercase(), name);
        match args.into_iter().find(same) {
            Some(word) => found.push((word, value())),
            None if args.into_iter().any(fits) => found.push((name, value())),
            None => {}
        }
    }
    let mut all = Vec::new();
    reply::map(&mut all, call.session.version, found.len() as u64);
    for (name, value) in found {
        reply::bulk(&mut all, name);
        reply::bulk(&mut all, value.as_bytes());
    }
    aside::send_long_reply(call, all)
}

#[cfg(test)]
mod tests {
    use super::KNOWN;
    use crate::resp::secrets::{SECRET_SETTINGS, is_known_setting};

    #[test]
    fn each_setting_is_known_to_be_public_or_secret() {
        for (name, _) in KNOWN {
            let sounds_secret = ["pass", "auth", "secret", "token"].iter().any(|word| name.contains(word));
            // The settings on certificates of clients contain no secret.
            let sounds_secret = sounds_secret && !name.starts_with("tls-auth-clients");
            assert_eq!(SECRET_SETTINGS.contains(&name), sounds_secret, "{name}");
            assert!(is_known_setting(name.as_bytes()), "{name}");
        }
    }
}
