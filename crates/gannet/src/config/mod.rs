//! `gannet config`: prints the sample file, checks a file, and prints the documentation page.

pub mod generate;

use std::path::Path;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use server::config::file::{Origins, read_file};
use server::config::host::Host;
use server::config::plan::plan;
use server::config::{Settings, text};

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

fn check(path: &Path) -> Result<(), Failure> {
    let (mut settings, mut origins) = (Settings::default(), Origins::new());
    let mut faults = read_file(path, &mut settings, &mut origins).err().unwrap_or_default();
    let notes = match plan(&settings, &origins, &Host::probe()) {
        Ok(plan) => plan.notes,
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
