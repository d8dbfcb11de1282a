//! `gannet config`: prints the sample file, checks a file, and prints the documentation page.

pub mod generate;

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use server::config::file::{Origins, read_file};
use server::config::host::Host;
use server::config::plan::plan;
use server::config::value::Wrong;
use server::config::{ConfigFault, Origin, Settings, text};
use server::start::ServerConfig;

use crate::{Failure, memcached, print};

/// The subcommand's arguments.
pub fn command() -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    Command::new("config")
        .about("Print or check settings")
        .arg(flag("default").help("Print a file with every setting at its default"))
        .arg(
            Arg::new("check")
                .long("check")
                .value_name("FILE")
                .help("Check a file against this machine; reports every fault with its line and remedy"),
        )
        .arg(flag("docs").help("Print the documentation page of all settings, in Markdown"))
        .arg(flag("memcached-docs").help("Print the documentation page of memcached's flags, in Markdown"))
        .group(ArgGroup::new("what").args(["default", "check", "docs", "memcached-docs"]).required(true))
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    if let Some(path) = matches.get_one::<String>("check") {
        return check(Path::new(path));
    }
    if matches.get_flag("memcached-docs") {
        return print(&memcached::flags::docs());
    }
    print(&if matches.get_flag("docs") { text::docs() } else { text::sample() })
}

/// Returns the settings with paths that a server could not use on this machine. The other faults of a path, such as a
/// file of another owner, appear when the server opens it.
fn path_faults(config: &ServerConfig) -> Vec<(&'static str, Wrong)> {
    let mut faults = Vec::new();
    let mut fault = |name, what: String, remedy: &str| faults.push((name, Wrong { what, remedy: remedy.to_owned() }));
    let audit = config.audit.as_ref().map(|audit| audit.path.clone());
    for (name, path) in [("store.file", &config.file), ("graph.file", &config.graph_file), ("log.audit", &audit)] {
        if let Some(folder) = path.as_deref().and_then(missing_folder) {
            fault(name, format!("there is no folder {}", folder.display()), "create it, or name another path");
        }
    }
    for (name, path) in [("listen.auth_file", &config.auth_file), ("listen.token_key", &config.token_key_file)] {
        if let Some(path) = path.as_deref().filter(|path| !path.exists()) {
            fault(name, format!("there is no file {}", path.display()), "create it, or name another path");
        }
    }
    for place in &config.flash {
        let path = &place.path;
        if let Some(folder) = missing_folder(path) {
            fault("store.flash", format!("there is no folder {}", folder.display()), "create it, or name another path");
        } else if let Ok(found) = path.metadata()
            && !found.is_file()
            && !found.file_type().is_block_device()
        {
            let what = format!("{} is neither a file nor a block device", path.display());
            fault("store.flash", what, "name a file or a block device");
        }
    }
    faults
}

/// Returns the folder of a path if it does not exist.
fn missing_folder(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
}

fn check(path: &Path) -> Result<(), Failure> {
    let (mut settings, mut origins) = (Settings::default(), Origins::new());
    let mut faults = read_file(path, &mut settings, &mut origins).err().unwrap_or_default();
    let notes = match plan(&settings, &origins, &Host::probe()) {
        Ok(plan) => {
            let of = |(name, wrong): (&'static str, Wrong)| {
                ConfigFault::new(origins.get(name).cloned().unwrap_or(Origin::Default), name, wrong)
            };
            faults.extend(path_faults(&plan.server).into_iter().map(of));
            plan.notes
        }
        Err(more) => {
            faults.extend(more);
            Vec::new()
        }
    };
    if !faults.is_empty() {
        return Err(Failure::Failed(faults.iter().map(ToString::to_string).collect()));
    }
    let notes: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
    print(&format!(
        "{}: no faults, {} settings of {}\n{notes}",
        path.display(),
        origins.len(),
        server::config::table::SETTINGS.len()
    ))
}
