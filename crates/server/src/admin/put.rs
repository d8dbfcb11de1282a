//! `PUT /config`: changes settings while the server runs, in the syntax of the configuration file.

use std::fmt::Write;
use std::path::Path;
use std::sync::PoisonError;

use super::RunningSettings;
use super::http::Response;
use crate::config::file::{Origins, read_text};
use crate::config::host::Host;
use crate::config::plan::plan;
use crate::config::table::Reload;
use crate::config::{ConfigFault, Origin, Settings, live};
use crate::shared::Shared;

/// The name that errors and origins show in place of a configuration file.
const SOURCE: &str = "PUT /config";
/// Settings that a running server reads only from its configuration file. The admin port cannot change them.
const FROM_FILE: [&str; 1] = ["log.level"];

/// Applies all settings in `text`. If any of them is refused, applies none.
pub fn config(text: &str, shared: &Shared, settings: &RunningSettings) -> Response {
    let mut running = settings.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut wanted, mut origins) = running.clone();
    if let Err(faults) = read_text(Path::new(SOURCE), text, &mut wanted, &mut origins) {
        return Response::text(400, lines(&faults));
    }
    if wanted.namespaces != running.0.namespaces {
        return Response::text(409, "namespaces are changed at /namespaces/NAME; nothing was changed\n");
    }
    let changes = live::changes(&running.0, &wanted);
    let mut stay = String::new();
    for change in changes.iter().filter(|c| c.reload == Reload::Restart || FROM_FILE.contains(&c.path)) {
        let how =
            if change.reload == Reload::Restart { "needs a restart" } else { "is reloaded from the file by SIGHUP" };
        let _ = writeln!(stay, "{}: {} stays, {} {how}; nothing was changed", change.path, change.before, change.after);
    }
    if !stay.is_empty() {
        return Response::text(409, stay);
    }
    match take(&mut running, &wanted, &mut origins, shared) {
        Err(faults) => Response::text(400, lines(&faults)),
        Ok(()) => {
            let mut done = String::new();
            for change in &changes {
                let _ = writeln!(done, "{} was {} and is {}", change.path, change.before, change.after);
                tracing::info!("{SOURCE}: {} was {} and is {}", change.path, change.before, change.after);
            }
            Response::text(200, done)
        }
    }
}

fn take(
    running: &mut (Settings, Origins),
    wanted: &Settings,
    origins: &mut Origins,
    shared: &Shared,
) -> Result<(), Vec<ConfigFault>> {
    let resolved = plan(wanted, origins, &Host::probe())?.resolved;
    if wanted.memory != running.0.memory {
        live::resize(&running.0, &resolved, shared).map_err(|wrong| {
            let origin = origins.get("store.memory").cloned().unwrap_or(Origin::Default);
            vec![ConfigFault::new(origin, "store.memory", wrong)]
        })?;
    }
    live::apply(&resolved, shared);
    *running = (resolved, std::mem::take(origins));
    Ok(())
}

fn lines(faults: &[ConfigFault]) -> String {
    faults.iter().map(|fault| format!("{fault}\n")).collect()
}
