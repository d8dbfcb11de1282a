//! The command `CONFIG SET`, which changes settings while the server runs. All changes of one command are applied, or
//! none.

use super::acl::{self, WorkedPasswords};
use super::config::KNOWN;
use super::config_hints::{self, HintKind};
use super::error::{ErrorReply, word};
use super::number::integer;
use super::secrets::shown_line;
use super::session::OutsideWait;
use crate::clients::audit::AuditEvent;
use crate::context::audit_redis;
use crate::host::TlsChange;
use crate::push::notify::KeyEvents;
use crate::resp::call::{Call, Interrupt, Run};
use crate::shared::Shared;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, reply};
use segment::{Namespace, ResizeError};
use std::sync::atomic::Ordering::Relaxed;

/// The eviction policies of Redis. The server has two: `allkeys-lfu`, whose name is returned for all `allkeys`
/// policies, and `noeviction`.
const POLICIES: [&str; 8] = [
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

/// A change of a setting, with its new value, which is valid.
enum Change {
    /// A memory limit. One that is less than the store needs changes no memory, and commands that may need more memory
    /// are refused.
    Memory(u64),
    /// The time after which a script counts as too slow, in ms; 0: never.
    BusyMs(u64),
    Clients(u64),
    TimeoutMs(u64),
    Events(KeyEvents),
    /// The duration above which a request counts as slow, in ns. `None` if no request counts as slow.
    SlowNs(Option<u64>),
    SlowEntries(u64),
    BacklogBytes(u64),
    /// The maximum number of keys that clients track; 0 for no maximum.
    TrackedKeys(u64),
    /// Eviction of items, in the namespace of the client and in those that share memory with it.
    Eviction(bool),
    /// The password of the default user. Empty for none.
    Password(Vec<u8>),
    /// A setting of TLS.
    Tls(TlsChange),
    /// A setting without a meaning for this server, by its number.
    Hint(usize, i64),
    /// No change: the setting already has this value, or the value has no effect.
    None,
}

/// Parses a size with an optional unit, as Redis does: `kb` is 1024 bytes, `k` is 1000 bytes. Returns bytes.
pub(super) fn size(text: &[u8]) -> Option<u64> {
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

/// Parses an integer from `least` to `most`, with the errors of Redis.
pub(super) fn number(value: &[u8], least: i64, most: i64) -> Result<i64, String> {
    let number = integer(value).map_err(|_| "argument couldn't be parsed into an integer".to_owned())?;
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    Err(format!("argument must be between {least} and {most} inclusive"))
}

/// Parses the new value of setting number `at` of [`config_hints`].
fn hint(at: usize, value: &[u8]) -> Result<i64, String> {
    match config_hints::kind(at) {
        HintKind::Number(least, most) => number(value, least, most),
        HintKind::Size => {
            let bytes = size(value).ok_or_else(|| "argument must be a memory value".to_owned())?;
            Ok(i64::try_from(bytes).unwrap_or(i64::MAX))
        }
        HintKind::Switch if value.eq_ignore_ascii_case(b"yes") => Ok(1),
        HintKind::Switch if value.eq_ignore_ascii_case(b"no") => Ok(0),
        HintKind::Switch => Err("argument must be 'yes' or 'no'".to_owned()),
    }
}

/// Parses a value of `client-output-buffer-limit`. Only the hard limit of the class `pubsub` (subscribers) has an
/// effect.
fn backlog(value: &[u8]) -> Result<Change, String> {
    const NOT_A_SIZE: &str = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
    let text = std::str::from_utf8(value).map_err(|_| NOT_A_SIZE)?;
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    // As in Redis, an empty value changes nothing.
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    let mut change = Change::None;
    for class in words.chunks(4) {
        let (name, limits) = (class[0].to_ascii_lowercase(), [class[1], class[2]].map(|text| size(text.as_bytes())));
        if !["normal", "slave", "replica", "pubsub"].contains(&&name[..]) {
            return Err("Invalid client class specified in buffer limit configuration.".to_owned());
        }
        let ([Some(hard), Some(_)], Ok(0..)) = (limits, integer(class[3].as_bytes())) else {
            return Err(NOT_A_SIZE.to_owned());
        };
        match &name[..] {
            "pubsub" if hard < 16 << 10 => return Err("the hard limit of pubsub must be at least 16kb".to_owned()),
            "pubsub" => change = Change::BacklogBytes(hard),
            _ => {}
        }
    }
    Ok(change)
}

/// Parses a value of `maxmemory-policy`. Policies that evict only some keys are refused, because the server may evict
/// each key.
fn policy(value: &[u8], now: &str, is_tiered: bool) -> Result<Change, String> {
    let value = value.to_ascii_lowercase();
    match POLICIES.iter().find(|known| known.as_bytes() == value) {
        Some(known) if *known == now => Ok(Change::None),
        Some(&"noeviction") if is_tiered => {
            Err("flash stores evicted items, so the policy with store.flash is allkeys-lfu".to_owned())
        }
        Some(&"noeviction") => Ok(Change::Eviction(false)),
        Some(known) if known.starts_with("allkeys") => Ok(Change::Eviction(true)),
        Some(_) => Err(format!("the policy is {now}; choose allkeys-lfu or noeviction")),
        None => Err(format!("argument(s) must be one of the following: {}", POLICIES.join(", "))),
    }
}

/// Parses one of several words, and returns it in the form of `words`.
fn one_of(value: &[u8], words: &[&'static str]) -> Result<&'static str, String> {
    let found = words.iter().find(|word| value.eq_ignore_ascii_case(word.as_bytes()));
    found.copied().ok_or_else(|| format!("argument(s) must be one of the following: {}", words.join(", ")))
}

/// Parses a value of `tls-protocols`: a list of versions.
fn protocols(value: &[u8]) -> Result<&'static str, String> {
    let text = String::from_utf8_lossy(value).to_ascii_uppercase();
    let mut versions: Vec<&str> = text.split_whitespace().collect();
    versions.sort_unstable();
    versions.dedup();
    match versions[..] {
        // As in Redis, an empty list stands for the default.
        [] | ["TLSV1.2", "TLSV1.3"] => Ok("TLSv1.2 TLSv1.3"),
        ["TLSV1.2"] => Ok("TLSv1.2"),
        ["TLSV1.3"] => Ok("TLSv1.3"),
        _ => Err("the versions are TLSv1.2 and TLSv1.3; older ones are not secure".to_owned()),
    }
}

/// Parses the new value of a setting of TLS. A file that is named again is read again.
fn tls(name: &str, now: &str, value: &[u8]) -> Result<Change, String> {
    let file = || {
        let path = String::from_utf8(value.to_vec()).map_err(|_| "the name of the file is not UTF-8".to_owned())?;
        let is_name = !path.is_empty() && !path.contains('\0');
        if is_name { Ok(path) } else { Err("argument must be the name of a file".to_owned()) }
    };
    let change = match name {
        "tls-cert-file" => TlsChange::CertFile(file()?),
        "tls-key-file" => TlsChange::KeyFile(file()?),
        "tls-ca-cert-file" if value.is_empty() => TlsChange::CaFile(String::new()),
        "tls-ca-cert-file" => TlsChange::CaFile(file()?),
        "tls-auth-clients" => TlsChange::AuthClients(one_of(value, &["no", "yes", "optional"])?),
        "tls-auth-clients-user" => TlsChange::ClientsUser(one_of(value, &["off", "CN", "URI"])?),
        "tls-protocols" => TlsChange::Protocols(protocols(value)?),
        "tls-session-caching" => TlsChange::Resumes(one_of(value, &["yes", "no"])? == "yes"),
        _ => return unchanged(now, value),
    };
    Ok(Change::Tls(change))
}

/// Returns no change if the setting, which cannot be changed, already has this value. Scripts may set it.
fn unchanged(now: &str, value: &[u8]) -> Result<Change, String> {
    let is_switch = ["yes", "no"].contains(&now);
    if now.as_bytes() == value || is_switch && value.eq_ignore_ascii_case(now.as_bytes()) {
        return Ok(Change::None);
    }
    if is_switch && !["yes", "no"].iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes())) {
        return Err("argument must be 'yes' or 'no'".to_owned());
    }
    Err("can't set immutable config".to_owned())
}

impl Change {
    /// Parses the new value of a setting, whose present value is `now`. `is_tiered` is true if the server uses flash.
    fn read(name: &str, now: &str, value: &[u8], (shared, is_tiered): (&Shared, bool)) -> Result<Self, String> {
        if let Some((at, _)) = config_hints::find(name.as_bytes()) {
            return hint(at, value).map(|value| Self::Hint(at, value));
        }
        match name {
            "maxmemory" => match size(value) {
                // Redis has no limit then. The server returns to its own.
                Some(0) => Ok(Self::Memory(shared.config.memory_bytes)),
                Some(bytes) => Ok(Self::Memory(bytes)),
                None => Err("argument must be a memory value".to_owned()),
            },
            "maxmemory-policy" => policy(value, now, is_tiered),
            "busy-reply-threshold" | "lua-time-limit" => Ok(Self::BusyMs(number(value, 0, i64::MAX)?.unsigned_abs())),
            "maxclients" => Ok(Self::Clients(number(value, 1, shared.config.connections_max as i64)?.unsigned_abs())),
            "timeout" => Ok(Self::TimeoutMs(number(value, 0, i32::MAX.into())?.unsigned_abs() * 1000)),
            "notify-keyspace-events" => KeyEvents::of(value)
                .map(Self::Events)
                .ok_or_else(|| "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned()),
            "commandlog-execution-slower-than" | "slowlog-log-slower-than" => {
                let us = u64::try_from(number(value, -1, i64::MAX)?).ok();
                Ok(Self::SlowNs(us.map(|us| us.saturating_mul(1000))))
            }
            // Of a greater number, as many entries are retained as there is memory for.
            "commandlog-slow-execution-max-len" | "slowlog-max-len" => {
                Ok(Self::SlowEntries(number(value, 0, i64::MAX)?.unsigned_abs()))
            }
            "latency-monitor-threshold" => {
                let ms = number(value, 0, i64::MAX)?.unsigned_abs();
                Ok(Self::SlowNs((ms > 0).then(|| ms.saturating_mul(1_000_000))))
            }
            "client-output-buffer-limit" => backlog(value),
            "tracking-table-max-keys" => Ok(Self::TrackedKeys(number(value, 0, i64::MAX)?.unsigned_abs())),
            "requirepass" if shared.auth.is_some() => {
                Err("the passwords are in the file of listen.auth_file; change them there".to_owned())
            }
            "requirepass" => Ok(Self::Password(value.to_vec())),
            _ if name.starts_with("tls-") && shared.host.tls().is_some() => tls(name, now, value),
            _ if name.starts_with("tls-") && unchanged(now, value).is_err() => {
                Err("no listener uses TLS: start the server with one, such as --resp tls:127.0.0.1:6380".to_owned())
            }
            _ => unchanged(now, value),
        }
    }

    /// Applies the change. `worked` has the hash of a new password.
    fn apply(self, call: &mut Call<'_, '_>, worked: &mut WorkedPasswords) -> Result<(), String> {
        match self {
            Self::Password(password) => {
                let worked = std::mem::take(worked);
                acl::set_default_password(call, password, worked).map_err(str::to_owned)
            }
            change => change.apply_in(&call.ctx.shared, call.session.namespace),
        }
    }

    /// Applies a change that is not of a password, for a client of a namespace.
    fn apply_in(self, shared: &Shared, namespace: Namespace) -> Result<(), String> {
        match self {
            Self::Memory(bytes) => {
                let below_least = match shared.resize_memory(bytes) {
                    Ok(()) => 0,
                    Err(ResizeError::TooSmall { .. }) => bytes,
                    Err(ResizeError::TooLarge { most_bytes }) => {
                        return Err(format!("the maximum without a restart is {most_bytes} bytes"));
                    }
                };
                shared.live.memory_below_least.store(below_least, Relaxed);
            }
            Self::BusyMs(ms) => shared.scripts.set_busy_ms(ms),
            Self::Clients(most) => shared.live.connections_max.store(most, Relaxed),
            Self::TimeoutMs(ms) => shared.live.idle_timeout_ms.store(ms, Relaxed),
            Self::Events(events) => shared.set_key_events(events),
            Self::SlowNs(above) => shared.workers.iter().for_each(|worker| worker.recorder.set_slow_above_ns(above)),
            Self::SlowEntries(most) => shared.live.slow_entries_max.store(most, Relaxed),
            Self::BacklogBytes(bytes) => shared.channels.backlog_bytes_max.store(bytes, Relaxed),
            Self::TrackedKeys(keys) => shared.tracking.set_keys_max(keys),
            Self::Eviction(evicts) => shared.store.set_eviction(namespace, evicts),
            Self::Hint(at, value) => shared.live.hints.set(at, value),
            // Changes of TLS were applied together, before all others.
            Self::Tls(_) | Self::Password(_) | Self::None => {}
        }
        Ok(())
    }

    /// Returns the new password, if the change sets one.
    fn password(&self) -> Option<&[u8]> {
        if let Self::Password(password) = self { Some(password) } else { None }
    }

    /// Returns true if the change is one of a setting that a new process gets at a handover. A password belongs to the
    /// users, and the files of TLS are read again.
    fn is_handed_over(&self) -> bool {
        !matches!(self, Self::Password(_) | Self::Tls(_) | Self::None)
    }

    /// Returns true if the change may still fail.
    fn may_fail(&self) -> bool {
        matches!(self, Self::Memory(_) | Self::Password(_))
    }
}

/// A setting that `CONFIG SET` has changed: its name, the number of the client's namespace, and its value.
pub type ChangedSetting = (String, u8, String);

/// Returns the name of a setting, in any case, and its value for a client of a namespace.
fn setting(shared: &Shared, name: &[u8], namespace: Namespace) -> Option<(&'static str, String)> {
    let lower = name.to_ascii_lowercase();
    let known = KNOWN.iter().find(|(known, _)| known.as_bytes() == lower);
    let hint = || config_hints::find(&lower).map(|(at, name)| (name, shared.live.hints.text(at)));
    known.map(|(name, now)| (*name, now(shared, namespace))).or_else(hint)
}

/// Returns the settings that `CONFIG SET` has changed since the start, with their present values, for the process that
/// takes over.
pub fn changed_settings(shared: &Shared) -> Vec<ChangedSetting> {
    let value = |(name, namespace): (&str, u8)| {
        let (name, value) = setting(shared, name.as_bytes(), Namespace(namespace))?;
        Some((name.to_owned(), namespace, value))
    };
    shared.live.changed().into_iter().filter_map(value).collect()
}

/// Applies the settings that [`changed_settings`] returned in the process that handed over. Returns a text for each
/// that cannot be applied.
pub fn restore_settings(shared: &Shared, settings: &[ChangedSetting]) -> Vec<String> {
    let restore = |(name, number, value): &ChangedSetting| {
        let namespace = Some(Namespace(*number)).filter(|of| usize::from(of.0) < Namespace::MAX);
        let namespace = namespace.ok_or("unknown database")?;
        let (name, now) = setting(shared, name.as_bytes(), namespace).ok_or("unknown setting")?;
        // A server with flash has refused the policy that this check would refuse.
        Change::read(name, &now, value.as_bytes(), (shared, false))?.apply_in(shared, namespace)?;
        shared.live.note_changed(name, namespace);
        Ok(())
    };
    let described = |setting: &ChangedSetting| {
        restore(setting).err().map(|why: String| format!("{}={}: {why}", setting.0, setting.2))
    };
    settings.iter().filter_map(described).collect()
}

/// Executes `CONFIG SET`: applies all changes, or none if one of them is invalid.
pub(super) fn set<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if !args.len().is_multiple_of(2) {
        return Err(ErrorReply::Syntax.into());
    }
    let mut pairs: Vec<(&'static str, String, &[u8])> = Vec::new();
    let mut words = args;
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        let Some((name, now)) = setting(&call.ctx.shared, name, call.session.namespace) else {
            word(call.out, "ERR Unknown option or number of arguments for CONFIG SET -", name);
            return Ok(());
        };
        if pairs.iter().any(|(other, ..)| *other == name) {
            return refuse(call, name, "duplicate parameter");
        }
        pairs.push((name, now, value));
    }
    let mut changes = Vec::new();
    for (name, now, value) in pairs {
        match Change::read(name, &now, value, (&call.ctx.shared, call.guard.is_tiered())) {
            Ok(change) => changes.push((name, change)),
            Err(why) => return refuse(call, name, &why),
        }
    }
    if let Err(why) = change_tls(call, &changes)? {
        return refuse(call, "tls-cert-file", &why);
    }
    let password = changes.iter().find_map(|(_, change)| change.password());
    let mut worked = password.map_or(Ok(WorkedPasswords::new()), |new| acl::hash_default_password(call, new))?;
    // The changes that can still fail are applied first. The memory limit is the first of them, and the other one only
    // fails if client memory is used up.
    changes.sort_by_key(|(_, change)| (!matches!(change, Change::Memory(_)), !change.may_fail()));
    for (name, change) in changes {
        let is_handed_over = change.is_handed_over();
        if let Err(why) = change.apply(call, &mut worked) {
            return refuse(call, name, &why);
        }
        if is_handed_over {
            call.ctx.shared.live.note_changed(name, call.session.namespace);
        }
    }
    audit_redis(call.ctx, AuditEvent::Config, || {
        String::from_utf8_lossy(&shown_line(b"CONFIG", [&b"SET"[..]].into_iter().chain(args))).into_owned()
    });
    call.ctx.push.watch.watched = call.ctx.shared.watch.watched();
    call.out.push(reply::OK);
    Ok(())
}

/// Applies the changes of settings of TLS together, in another thread, because it reads files. The request is parked
/// until that is done. Returns the fault if they cannot be applied; then nothing has changed.
fn change_tls(call: &mut Call<'_, '_>, changes: &[(&str, Change)]) -> Result<Result<(), String>, Interrupt> {
    let wanted = changes.iter().filter_map(|(_, change)| match change {
        Change::Tls(change) => Some(change.clone()),
        _ => None,
    });
    let wanted: Vec<TlsChange> = wanted.collect();
    if wanted.is_empty() {
        return Ok(Ok(()));
    }
    let result = match call.session.outside.take().map(|outside| *outside) {
        Some(OutsideWait::Certificates(result)) => result,
        _ => call.ctx.shared.host.change_tls(wanted),
    };
    if let Some(done) = result.get() {
        return Ok(done.clone());
    }
    call.session.outside = Some(Box::new(OutsideWait::Certificates(result)));
    Err(SessionWait::Parked.into())
}

fn refuse(call: &mut Call<'_, '_>, name: &str, why: &str) -> Run {
    let text = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
    reply::error(call.out, text.as_bytes());
    Ok(())
}
