//! The table of all checks, with one file per group, and the selection of checks by name.

pub(crate) mod cgroup;
pub(crate) mod clock;
mod cloud;
mod cpu;
pub(crate) mod irq;
mod limits;
mod measured;
pub(crate) mod memory;
mod net;
mod nic;
mod numa;
pub(crate) mod placed;
pub(crate) mod reads;
pub(crate) mod storage;
mod tls;

use base::nearest::nearest;

use crate::check::Check;

/// Returns all checks, group by group.
pub fn all() -> impl Iterator<Item = &'static Check> {
    [
        cpu::CHECKS,
        placed::CHECKS,
        irq::CHECKS,
        net::CHECKS,
        nic::CHECKS,
        memory::CHECKS,
        numa::CHECKS,
        storage::CHECKS,
        measured::CHECKS,
        clock::CHECKS,
        limits::CHECKS,
        tls::CHECKS,
        cgroup::CHECKS,
        cloud::CHECKS,
    ]
    .into_iter()
    .flatten()
}

/// Returns the check's group: the part of its id before the dot.
fn group(check: &Check) -> &'static str {
    check.id.split('.').next().unwrap_or_default()
}

/// Returns the end of an error message with the check or group whose name is most similar to `name`; empty if no name
/// is similar.
pub fn nearest_of(name: &str) -> String {
    let names = all().flat_map(|check| [check.id, group(check)]);
    nearest(name, names).map_or_else(String::new, |near| format!("; the nearest is {near}"))
}

/// Returns the checks with the ids or groups in `only`; all checks if `only` is empty.
///
/// # Errors
/// A line for each name that is neither a check nor a group, with the most similar name.
pub fn select(only: &[String]) -> Result<Vec<&'static Check>, Vec<String>> {
    let all: Vec<&Check> = all().collect();
    let mut faults = Vec::new();
    for name in only {
        if !all.iter().any(|check| check.id == name || group(check) == name) {
            faults.push(format!("{name:?} is no check and no group of checks{}", nearest_of(name)));
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let wanted = |check: &&Check| only.is_empty() || only.iter().any(|name| check.id == name || group(check) == name);
    Ok(all.into_iter().filter(wanted).collect())
}
