//! A reload: the settings that changed, and the changes that a running server applies.

use std::sync::atomic::Ordering::Relaxed;

use base::units::ByteSize;
use segment::{Namespace, ResizeError};

use super::file::Origins;
use super::namespaces::{NamespaceName, NamespaceSettings};
use super::prefix;
use super::settings::Settings;
use super::table::{Reload, SETTINGS};
use super::value::{Auto, Wrong};
use crate::shared::Shared;
use command::keyspace::namespaces::DEFAULT_NAME;

/// A setting whose requested value differs from the value in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The setting's path.
    pub path: &'static str,
    /// The value in force.
    pub before: String,
    /// The requested value, as text.
    pub after: String,
    /// The effect on a running server.
    pub reload: Reload,
}

/// Returns the differences between the settings in force and the requested ones.
pub fn changes(running: &Settings, wanted: &Settings) -> Vec<Change> {
    let change = |setting: &'static super::table::Setting| {
        let (before, after) = (setting.show(running), setting.show(wanted));
        (before != after).then_some(Change { path: setting.path, before, after, reload: setting.reload })
    };
    SETTINGS.iter().filter_map(change).collect()
}

/// Copies the settings of `wanted` that a running server can apply, and their origins, into `running`.
pub fn take(running: &mut (Settings, Origins), wanted: &Settings, origins: &Origins) {
    for setting in SETTINGS.iter().filter(|setting| setting.reload == Reload::Live) {
        copy(setting, wanted, &mut running.0);
        match origins.get(setting.path) {
            Some(origin) => running.1.insert(setting.path, origin.clone()),
            None => running.1.remove(setting.path),
        };
    }
}

/// Changes the memory size of a running server if `wanted` differs from the settings in force. Otherwise the size
/// remains, even if a client has changed the size meanwhile.
///
/// # Errors
/// If the size cannot be applied: the error and its remedy.
pub fn resize(running: &Settings, wanted: &Settings, shared: &Shared) -> Result<(), Wrong> {
    let Some(memory) = wanted.memory.explicit().filter(|_| wanted.memory != running.memory) else { return Ok(()) };
    shared.resize_memory(memory.0).map_err(|error| match error {
        ResizeError::TooSmall { least_bytes } => Wrong::new(
            format!("{memory} is too small for its open segments and the largest item"),
            format!("write at least {}", ByteSize::mib(least_bytes.div_ceil(1 << 20))),
        ),
        ResizeError::TooLarge { most_bytes } => Wrong::new(
            format!("{memory} exceeds the address space reserved at the start"),
            format!("write at most {}, or restart", ByteSize::mib(most_bytes >> 20)),
        ),
    })
}

/// Makes the settings agree with the namespaces of the server: calls of gRPC clients create and delete namespaces too.
pub fn adopt(running: &mut Settings, shared: &Shared) {
    let named = shared.namespaces.named();
    let is_default = |namespace: &NamespaceSettings| namespace.name.0 == DEFAULT_NAME;
    running
        .namespaces
        .retain(|namespace| is_default(namespace) || named.iter().any(|config| config.name == namespace.name.0));
    for config in named {
        if running.namespaces.iter().all(|namespace| namespace.name.0 != config.name) {
            running.namespaces.push(NamespaceSettings {
                name: NamespaceName(config.name),
                number: Auto::Is(config.number.into()),
                ..NamespaceSettings::default()
            });
        }
    }
}

/// Applies `wanted` to a running server's namespaces: creates new ones, and changes existing ones. A namespace in
/// `wanted` has a number only if the user specified one. An existing namespace keeps its number, whatever its position
/// in `wanted`. Returns a log line for each applied change, and for each change that needs a restart.
pub fn namespaces(running: &mut Settings, wanted: &Settings, shared: &Shared) -> Vec<String> {
    let mut lines = Vec::new();
    adopt(running, shared);
    let prefixes_stay = match prefixes_fault(running, wanted) {
        Some(wrong) => {
            lines.push(format!("the prefixes of all namespaces are unchanged: {}; {}", wrong.what, wrong.remedy));
            true
        }
        None => false,
    };
    for namespace in &wanted.namespaces {
        let name = &namespace.name.0;
        let place = running.namespaces.iter().position(|other| other.name == namespace.name);
        let before = place.map(|place| &running.namespaces[place]);
        let mut after = namespace.clone();
        if let Some(before) = before {
            let other_number = after.number.explicit().is_some() && after.number != before.number;
            if (&before.memcached, &before.resp) != (&after.memcached, &after.resp) || other_number {
                lines.push(format!(
                    "the listeners and the number of namespace {name} are unchanged; they need a restart"
                ));
            }
            (after.number, after.memcached, after.resp) =
                (before.number, before.memcached.clone(), before.resp.clone());
        } else if !after.memcached.is_empty() || !after.resp.is_empty() {
            lines.push(format!("the listeners of namespace {name} need a restart"));
            (after.memcached, after.resp) = (Vec::new(), Vec::new());
        }
        if prefixes_stay {
            after.prefix = before.map(|before| before.prefix.clone()).unwrap_or_default();
        }
        if before == Some(&after) {
            continue;
        }
        let Some(number) = number_of(&after, running, wanted) else {
            lines.push(format!("cannot create namespace {name}: all numbers are in use"));
            continue;
        };
        after.number = Auto::Is(number.into());
        if place.is_none() && running.namespaces.iter().any(|other| other.number == after.number) {
            lines.push(format!("cannot create namespace {name}: another namespace has the number {number}"));
            continue;
        }
        match shared.namespaces.set(&shared.store, &after.config(number)) {
            Ok(()) => {
                lines.push(format!("namespace {name} now has {}", after.lines().trim_end().replace('\n', ", ")));
                match place {
                    Some(place) => running.namespaces[place] = after,
                    None => running.namespaces.push(after),
                }
            }
            Err(error) => lines.push(format!("cannot change namespace {name}: {error}")),
        }
    }
    for gone in running.namespaces.iter().filter(|n| !wanted.namespaces.iter().any(|other| other.name == n.name)) {
        lines.push(format!("namespace {} remains until it is deleted through the admin port", gone.name.0));
    }
    lines
}

/// Returns the number of a namespace: the configured number, or the lowest number that no current or wanted namespace
/// uses.
fn number_of(namespace: &NamespaceSettings, running: &Settings, wanted: &Settings) -> Option<u8> {
    if namespace.name.0 == DEFAULT_NAME {
        return Some(Namespace::DEFAULT.0);
    }
    let all = || running.namespaces.iter().chain(&wanted.namespaces);
    let is_free = |number: &u8| !all().any(|other| other.number == Auto::Is(u64::from(*number)));
    let said = namespace.number.explicit().map(|number| number as u8);
    said.or_else(|| (1..Namespace::MAX as u8).find(is_free))
}

/// Returns the error in the prefixes of the namespaces that will exist: the wanted namespaces, and the running ones
/// that remain.
fn prefixes_fault(running: &Settings, wanted: &Settings) -> Option<Wrong> {
    let mut all = wanted.namespaces.clone();
    let stays = |there: &&NamespaceSettings| !wanted.namespaces.iter().any(|other| other.name == there.name);
    all.extend(running.namespaces.iter().filter(stays).cloned());
    // The check only compares the numbers of namespaces with each other, so positions can replace the real numbers.
    let number =
        |(place, there): (usize, &NamespaceSettings)| if there.name.0 == DEFAULT_NAME { 0 } else { place as u8 + 1 };
    let numbers: Vec<u8> = all.iter().enumerate().map(number).collect();
    prefix::check(&all, &numbers).err().map(|(_, wrong)| wrong)
}

/// Reads the certificates of a running server again, with the settings of `wanted`. Called for each reload, also if no
/// setting has changed. A listener cannot begin or end to use TLS. Returns false if a file or setting cannot be used:
/// then all settings of `[tls]` in `wanted` become those of `running`, which stay in use.
pub fn tls(running: &Settings, wanted: &mut Settings, shared: &Shared) -> bool {
    if !wanted.uses_tls() || crate::start::encryption::reload(shared, &wanted.tls(), wanted.tls_limits()) {
        return true;
    }
    for setting in SETTINGS.iter().filter(|setting| setting.path.starts_with("tls.")) {
        copy(setting, running, wanted);
    }
    false
}

/// Copies the value of one setting.
fn copy(setting: &'static super::table::Setting, from: &Settings, to: &mut Settings) {
    let entries = setting.view(from, |value| value.entries());
    let texts: Vec<&str> = entries.iter().map(String::as_str).collect();
    setting.set(to, &texts).expect("a value that was read once is read again");
}

/// Applies the live settings to the threads of a running server, except the log level, which the log applies itself.
pub fn apply(settings: &Settings, shared: &Shared) {
    let live = &shared.live;
    let most = shared.config.connections_max as u64;
    live.connections_max.store(settings.maxconns.explicit().unwrap_or(most).min(most), Relaxed);
    live.idle_timeout_ms.store(settings.idle_timeout.as_ms_ceil(), Relaxed);
    live.stall_timeout_ms.store(settings.stall_timeout.as_ms_ceil(), Relaxed);
    live.login_timeout_ms.store(settings.login_timeout.as_ms_ceil(), Relaxed);
    live.source_connections_max.store(settings.maxconns_per_source, Relaxed);
    shared.set_key_events(settings.keyspace_events);
    shared.channels.backlog_bytes_max.store(settings.subscriber_backlog.0, Relaxed);
    let slow_ns = settings.slow_request.as_ns();
    for worker in &shared.workers {
        worker.recorder.set_slow_above_ns((slow_ns > 0).then_some(slow_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;
    use crate::config::table::setting;

    #[test]
    fn reload_applies_live_settings_and_lists_the_others() {
        let running = Settings::default();
        let mut wanted = running.clone();
        for (path, text) in [("log.level", "debug"), ("store.segment", "1MiB"), ("limits.maxconns", "5")] {
            setting(path).unwrap().set(&mut wanted, &[text]).unwrap();
        }
        let found = changes(&running, &wanted);
        let live: Vec<_> = found.iter().map(|change| (change.path, change.reload == Reload::Live)).collect();
        assert_eq!(live, [("store.segment", false), ("limits.maxconns", true), ("log.level", true)]);
        let origins = Origins::from([("log.level", Origin::Flag("log")), ("store.segment", Origin::Flag("segment"))]);
        let mut taken = (running.clone(), Origins::from([("limits.maxconns", Origin::Flag("maxconns"))]));
        take(&mut taken, &wanted, &origins);
        assert_eq!((taken.0.log_level, taken.0.maxconns), (wanted.log_level, wanted.maxconns));
        assert_eq!(taken.0.segment, running.segment);
        assert_eq!(taken.1, Origins::from([("log.level", Origin::Flag("log"))]));
    }
}
