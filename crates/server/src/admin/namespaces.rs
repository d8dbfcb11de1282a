//! `/namespaces`: lists namespaces, and creates, changes and drops them while the server runs.
//!
//! ```text
//!   PUT    /namespaces/NAME          sets keys of the [[namespace]] table; omitted keys remain unchanged
//!   DELETE /namespaces/NAME          removes the items, the name and the settings of the namespace
//!          ...?keep=true             also writes the change to the configuration file
//! ```

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::PoisonError;

use segment::Namespace;

use super::RunningSettings;
use super::http::Response;
use crate::config::file::{Origins, read_file, read_text};
use crate::config::namespaces::{KEYS, NamespaceName, NamespaceSettings, numbers, read_one, rewritten};
use crate::config::value::{Auto, Value};
use crate::config::{ConfigFault, Settings};
use crate::config::{live, prefix};
use crate::shared::Shared;
use crate::start::sandbox;
use command::keyspace::namespaces::DEFAULT_NAME;

/// Returns the settings of all named namespaces, including their numbers, as `[[namespace]]` tables in the format of
/// the configuration file.
pub fn list(shared: &Shared, settings: &RunningSettings) -> Response {
    let mut running = settings.lock().unwrap_or_else(PoisonError::into_inner);
    live::adopt(&mut running.0, shared);
    let tables = running.0.namespaces.iter().map(|namespace| format!("[[namespace]]\n{}", namespace.lines()));
    Response::text(200, tables.collect::<Vec<_>>().join("\n"))
}

/// The response to a refused request.
type Refused = Response;

/// Creates the namespace `name`, or changes it, with the settings in `text`.
pub fn put(name: &str, text: &str, keep: bool, shared: &Shared, settings: &RunningSettings) -> Response {
    let mut running = settings.lock().unwrap_or_else(PoisonError::into_inner);
    live::adopt(&mut running.0, shared);
    match change(name, text, keep, shared, &mut running.0) {
        Ok(done) | Err(done) => done,
    }
}

fn change(name: &str, text: &str, keep: bool, shared: &Shared, running: &mut Settings) -> Result<Response, Refused> {
    check_kept(keep, shared)?;
    let mut checked = NamespaceName::default();
    checked.read(name).map_err(|wrong| Response::text(400, format!("{}; {}\n", wrong.what, wrong.remedy)))?;
    let place = running.namespaces.iter().position(|namespace| namespace.name == checked);
    let plain = NamespaceSettings { name: checked, ..NamespaceSettings::default() };
    let before = place.map_or(plain, |place| running.namespaces[place].clone());
    let source = format!("PUT /namespaces/{name}");
    let mut wanted = read_one(Path::new(&source), text, before.clone()).map_err(|faults| refuse(&faults))?;
    if wanted.name != before.name {
        return Err(Response::text(400, "the name in the path cannot be changed\n"));
    }
    if wanted.memcached != before.memcached || wanted.resp != before.resp {
        return Err(Response::text(409, "listeners are set in the file, and need a restart; nothing was changed\n"));
    }
    if place.is_some() && wanted.number != before.number {
        return Err(Response::text(409, "the number of a namespace cannot be changed; nothing was changed\n"));
    }
    let mut all = running.namespaces.clone();
    let place = place.unwrap_or(all.len());
    match all.get_mut(place) {
        Some(there) => *there = wanted.clone(),
        None => all.push(wanted.clone()),
    }
    let numbers =
        numbers(&all).map_err(|(_, wrong)| Response::text(409, format!("{}; {}\n", wrong.what, wrong.remedy)))?;
    prefix::check(&all, &numbers).map_err(|(_, wrong)| {
        Response::text(409, format!("{}; {}; nothing was changed\n", wrong.what, wrong.remedy))
    })?;
    wanted.number = Auto::Is(numbers[place].into());
    all[place].number = wanted.number;
    let config = wanted.config(numbers[place]);
    shared
        .namespaces
        .set(&shared.store, &config)
        .map_err(|error| Response::text(409, format!("cannot change {name}: {error}; nothing was changed\n")))?;
    shared.host.wake_background();
    running.namespaces = all;
    let mut done = String::new();
    for key in &KEYS {
        let (was, is) = (key.text(&before), key.text(&wanted));
        if was != is {
            let _ = writeln!(done, "{name}: {} was {was} and is {is}", key.key);
        }
    }
    tracing::info!("{source}: {}", done.trim_end().replace('\n', "; "));
    kept(keep, done, shared, running)
}

/// Drops the namespace `name`. Its items are removed, and its number becomes a database without settings again. Its
/// clients remain connected to that database.
pub fn delete(name: &str, keep: bool, shared: &Shared, settings: &RunningSettings) -> Response {
    let mut running = settings.lock().unwrap_or_else(PoisonError::into_inner);
    live::adopt(&mut running.0, shared);
    match take_away(name, keep, shared, &mut running.0) {
        Ok(done) | Err(done) => done,
    }
}

fn take_away(name: &str, keep: bool, shared: &Shared, running: &mut Settings) -> Result<Response, Refused> {
    check_kept(keep, shared)?;
    if name == DEFAULT_NAME {
        return Err(Response::text(409, "the default namespace cannot be deleted; FLUSHDB deletes its items\n"));
    }
    let Some(place) = running.namespaces.iter().position(|namespace| namespace.name.0 == name) else {
        return Err(Response::text(404, "there is no such namespace; /namespaces lists all\n"));
    };
    let namespace = &running.namespaces[place];
    if !namespace.memcached.is_empty() || !namespace.resp.is_empty() {
        let line = "it has listeners; remove them from the file, and restart the server first; nothing was changed\n";
        return Err(Response::text(409, line));
    }
    let number = Namespace(namespace.number.explicit().unwrap_or_default() as u8);
    running.namespaces.remove(place);
    shared.namespaces.unset(&shared.store, number, !shared.store.keeps(Namespace::DEFAULT));
    shared.store.flush(number);
    shared.announce_flush(number);
    shared.host.wake_background();
    tracing::info!("DELETE /namespaces/{name}: removed");
    let connections = shared.namespaces.stats(number).connections;
    kept(keep, format!("{name} was deleted; {connections} connections are in database {}\n", number.0), shared, running)
}

/// Checks that the change can be written to the configuration file, if `keep` requests that.
fn check_kept(keep: bool, shared: &Shared) -> Result<(), Refused> {
    if keep && shared.config.config_file.is_none() {
        let line = "the server was started without a file; start it with one, or omit keep; nothing was changed\n";
        return Err(Response::text(409, line));
    }
    Ok(())
}

/// Rewrites the configuration file if `keep` requests that, and returns the response.
fn kept(keep: bool, mut done: String, shared: &Shared, running: &Settings) -> Result<Response, Refused> {
    let Some(path) = shared.config.config_file.as_deref().filter(|_| keep) else {
        return Ok(Response::text(200, done));
    };
    match write(path, &running.namespaces) {
        Ok(()) => {
            let _ = writeln!(done, "{} was written", path.display());
            Ok(Response::text(200, done))
        }
        Err(error) => {
            tracing::error!("cannot write {}: {error}", path.display());
            Err(Response::text(500, format!("{done}cannot write {}: {error}\n", path.display())))
        }
    }
}

/// Replaces all namespaces in the configuration file. On an error the file is unchanged.
fn write(path: &Path, namespaces: &[NamespaceSettings]) -> Result<(), String> {
    let (mut before, mut after) = (Settings::default(), Settings::default());
    let faulty = |faults: Vec<ConfigFault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    read_file(path, &mut before, &mut Origins::new()).map_err(faulty)?;
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let text = rewritten(&text, namespaces);
    read_text(path, &text, &mut after, &mut Origins::new()).map_err(faulty)?;
    before.namespaces = namespaces.to_vec();
    if before != after {
        return Err("the change would affect other settings; edit the file by hand".to_owned());
    }
    // A symbolic link stays one: the file that it names is replaced.
    let path = std::fs::canonicalize(path).map_err(|error| error.to_string())?;
    let mut new = path.clone().into_os_string();
    new.push(".new");
    let put = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&new)?;
        file.set_permissions(std::fs::metadata(&path)?.permissions())?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &path)
    };
    put().map_err(|error| error.to_string()).map_err(|line| {
        // On an error, the new file may not exist, or be incomplete.
        drop(std::fs::remove_file(&new));
        format!("{line}{}", sandbox::hint(&line))
    })
}

fn refuse(faults: &[ConfigFault]) -> Refused {
    Response::text(400, faults.iter().map(|fault| format!("{fault}\n")).collect::<String>())
}
