//! The command `CONFIG`, which returns the server's settings under Redis's names, and changes some of them while the
//! server runs.
//!
//! A change lasts until the server stops. In the configuration file, the settings have other names: see
//! docs/configuration.md.

use super::catalog::lower;
use super::error::ErrorReply;
use super::help::other_subcommand;
use super::number::integer;
use super::pattern::check;
use crate::config::Address;
use crate::glob::matches;
use crate::metrics::SLOW_MAX;
use crate::push::notify::KeyEvents;
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::shared::Shared;
use protocol::resp::{Args, reply};
use segment::ResizeError;
use std::sync::atomic::Ordering::Relaxed;

/// The name of a Redis setting, and the function that returns its value.
type Known = (&'static str, fn(&Shared) -> String);

/// All settings that `CONFIG GET` supports, by name.
const KNOWN: [Known; 19] = [
    ("appendonly", |_| "no".to_owned()),
    ("bind", |shared| hosts(shared)),
    ("client-output-buffer-limit", |shared| {
        let bytes = shared.channels.backlog_bytes_max.load(Relaxed);
        format!("normal 0 0 0 slave 0 0 0 pubsub {bytes} 0 0")
    }),
    ("databases", |_| segment::Namespace::MAX.to_string()),
    ("io-threads", |shared| shared.workers.len().to_string()),
    ("latency-monitor-threshold", |shared| slow_us(shared).map_or(0, |us| us / 1000).to_string()),
    ("maxclients", |shared| shared.live.connections_max.load(Relaxed).to_string()),
    ("maxmemory", |shared| shared.store.memory_bytes().to_string()),
    ("maxmemory-policy", |shared| super::info::policy(shared).to_owned()),
    ("notify-keyspace-events", |shared| shared.key_events().letters()),
    ("port", |shared| port(shared)),
    ("proto-max-bulk-len", |shared| shared.config.item_bytes_max.to_string()),
    ("protected-mode", |shared| if shared.config.protected { "yes" } else { "no" }.to_owned()),
    ("requirepass", |_| String::new()),
    ("save", |_| String::new()),
    ("slowlog-log-slower-than", |shared| slow_us(shared).map_or("-1".to_owned(), |us| us.to_string())),
    ("slowlog-max-len", |shared| (shared.workers.len() * SLOW_MAX).to_string()),
    ("tcp-keepalive", |_| "0".to_owned()),
    ("timeout", |shared| (shared.live.idle_timeout_ms.load(Relaxed) / 1000).to_string()),
];

fn tcp(shared: &Shared) -> impl Iterator<Item = std::net::SocketAddr> {
    shared.config.resp.iter().filter_map(|addr| if let Address::Tcp(addr) = addr { Some(*addr) } else { None })
}

fn hosts(shared: &Shared) -> String {
    tcp(shared).map(|addr| addr.ip().to_string()).collect::<Vec<_>>().join(" ")
}

fn port(shared: &Shared) -> String {
    tcp(shared).next().map_or(0, |addr| addr.port()).to_string()
}

/// Returns the duration above which a request counts as slow, in microseconds. Returns `None` if no request counts as
/// slow.
fn slow_us(shared: &Shared) -> Option<u64> {
    let above_ns = shared.workers[0].recorder.slow_above_ns();
    (above_ns != u64::MAX).then_some(above_ns / 1000)
}

/// The maximum number of patterns of one `CONFIG GET`.
const GET_PATTERNS_MAX: usize = 256;

/// A change of a setting, with its new value, which is valid.
enum Change {
    Memory(u64),
    Clients(u64),
    TimeoutMs(u64),
    Events(KeyEvents),
    /// The duration above which a request counts as slow, in ns. `None` if no request counts as slow.
    SlowNs(Option<u64>),
    BacklogBytes(u64),
    /// No change: the setting already has this value, or the value has no effect.
    None,
}

/// Executes `CONFIG GET pattern ... | SET name value ... | RESETSTAT | REWRITE`.
pub(super) fn config<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    match (&lower(topic)[..], args.len()) {
        (b"get", 1..) => {
            if args.len() > GET_PATTERNS_MAX {
                return Err(ErrorReply::TooManyPatterns.into());
            }
            args.into_iter().try_for_each(check)?;
            let wanted =
                |name: &str| args.into_iter().any(|pattern| matches(&pattern.to_ascii_lowercase(), name.as_bytes()));
            let known: Vec<&Known> = KNOWN.iter().filter(|(name, _)| wanted(name)).collect();
            let mut all = Vec::new();
            reply::map(&mut all, call.session.version, known.len() as u64);
            for (name, value) in known {
                reply::bulk(&mut all, name.as_bytes());
                reply::bulk(&mut all, value(&call.ctx.shared).as_bytes());
            }
            aside::send_long_reply(call, all)
        }
        (b"set", 2..) if args.len().is_multiple_of(2) => config_set(call, args),
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

/// Parses a size with an optional unit, as Redis does: `kb` is 1024 bytes, `k` is 1000 bytes. Returns bytes.
fn size(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit: u64 = match &text[digits..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

/// Parses a value of `client-output-buffer-limit`. Only the hard limit of the class `pubsub` (subscribers) has an
/// effect.
fn backlog(value: &[u8]) -> Result<Change, &'static str> {
    let text = std::str::from_utf8(value).map_err(|_| "it must be text")?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut change = Change::None;
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.");
    }
    for class in words.chunks(4) {
        let hard = size(class[1].as_bytes()).ok_or("Error in hard, soft or soft_seconds setting in buffer limit.")?;
        match class[0] {
            "pubsub" if hard < 16 << 10 => return Err("the hard limit of pubsub must be at least 16kb"),
            "pubsub" => change = Change::BacklogBytes(hard),
            "normal" | "slave" | "replica" => {}
            _ => return Err("Invalid client class specified in buffer limit configuration."),
        }
    }
    Ok(change)
}

impl Change {
    /// Parses the new value of the setting `name`.
    fn read(name: &str, value: &[u8], shared: &Shared) -> Result<Self, &'static str> {
        let number = integer(value).ok();
        let above_0 = number.and_then(|number| u64::try_from(number).ok());
        match name {
            "maxmemory" => size(value).filter(|bytes| *bytes > 0).map(Self::Memory).ok_or("it must be a size above 0"),
            "maxclients" => {
                let most = shared.config.connections_max as u64;
                let within = above_0.filter(|number| (1..=most).contains(number));
                within.map(Self::Clients).ok_or("it must be from 1 to the value of limits.maxconns at start")
            }
            "timeout" => {
                let ms = above_0.and_then(|secs| secs.checked_mul(1000));
                ms.map(Self::TimeoutMs).ok_or("it must be a number of seconds, 0 for no timeout")
            }
            "notify-keyspace-events" => {
                KeyEvents::of(value).map(Self::Events).ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
            }
            "slowlog-log-slower-than" => match number {
                Some(-1) => Ok(Self::SlowNs(None)),
                Some(us) if us >= 0 => Ok(Self::SlowNs(Some((us as u64).saturating_mul(1000)))),
                _ => Err("it must be a number of microseconds, or -1 for none"),
            },
            "latency-monitor-threshold" => match above_0 {
                Some(0) => Ok(Self::SlowNs(None)),
                Some(ms) => Ok(Self::SlowNs(Some(ms.saturating_mul(1_000_000)))),
                None => Err("it must be a number of milliseconds, or 0 for none"),
            },
            "client-output-buffer-limit" => backlog(value),
            _ => {
                let now = KNOWN.iter().find(|(known, _)| *known == name).map(|(_, now)| now(shared));
                // Scripts may set a fixed setting to the value that it already has, which is no error.
                if now.is_some_and(|now| now.as_bytes() == value) {
                    Ok(Self::None)
                } else {
                    Err("can't set immutable config")
                }
            }
        }
    }

    fn apply(self, shared: &Shared) -> Result<(), String> {
        match self {
            Self::Memory(bytes) => {
                return shared.resize_memory(bytes).map_err(|error| match error {
                    ResizeError::TooSmall { least_bytes } => format!("the minimum is {least_bytes} bytes"),
                    ResizeError::TooLarge { most_bytes } => {
                        format!("the maximum without a restart is {most_bytes} bytes")
                    }
                });
            }
            Self::Clients(most) => shared.live.connections_max.store(most, Relaxed),
            Self::TimeoutMs(ms) => shared.live.idle_timeout_ms.store(ms, Relaxed),
            Self::Events(events) => shared.set_key_events(events),
            Self::SlowNs(above) => shared.workers.iter().for_each(|worker| worker.recorder.set_slow_above_ns(above)),
            Self::BacklogBytes(bytes) => shared.channels.backlog_bytes_max.store(bytes, Relaxed),
            Self::None => {}
        }
        Ok(())
    }
}

/// Executes `CONFIG SET`: applies all changes, or none if one of them is invalid.
fn config_set<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let mut changes = Vec::new();
    let (mut words, shared) = (args, &call.ctx.shared);
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        let lower = name.to_ascii_lowercase();
        let Some((name, _)) = KNOWN.iter().find(|(known, _)| known.as_bytes() == lower) else {
            super::error::word(call.out, "ERR Unknown option or number of arguments for CONFIG SET -", name);
            return Ok(());
        };
        match Change::read(name, value, shared) {
            Ok(change) => changes.push((*name, change)),
            Err(why) => {
                config_failed(call, name, why);
                return Ok(());
            }
        }
    }
    // The memory limit is changed first, because only this change can still fail.
    changes.sort_by_key(|(_, change)| !matches!(change, Change::Memory(_)));
    for (name, change) in changes {
        if let Err(why) = change.apply(&call.ctx.shared) {
            config_failed(call, name, &why);
            return Ok(());
        }
    }
    call.ctx.push.watch.watched = call.ctx.shared.watch.watched();
    call.out.push(reply::OK);
    Ok(())
}

fn config_failed(call: &mut Call<'_, '_>, name: &str, why: &str) {
    let text = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
    reply::error(call.out, text.as_bytes());
}
