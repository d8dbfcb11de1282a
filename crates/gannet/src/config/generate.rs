//! `gannet generate`: writes man pages and shell completions, from the definitions of the arguments. Packages run it
//! when they are built, so it is not in the help.

use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;

use crate::{Failure, memcached};

/// Returns the subcommand's arguments.
pub fn command() -> Command {
    Command::new("generate")
        .about("Write man pages or the completions of a shell")
        .hide(true)
        .arg(Arg::new("what").required(true).value_parser(["man", "bash", "zsh", "fish"]).help("What to write"))
        .arg(Arg::new("DIR").required(true).help("An existing folder for the files"))
}

/// Runs the subcommand for the arguments of `program`.
pub fn run(matches: &ArgMatches, program: Command) -> Result<(), Failure> {
    let what = matches.get_one::<String>("what").expect("it is required");
    let folder = Path::new(matches.get_one::<String>("DIR").expect("it is required"));
    let mut program = visible(&program.mut_subcommand("memcached", |_| memcached::flags::command()));
    let written = match what.parse::<Shell>() {
        Ok(shell) => clap_complete::generate_to(shell, &mut program, "gannet", folder).map(|_| ()),
        Err(_) => clap_mangen::generate_to(program, folder),
    };
    written.map_err(|error| {
        let folder = folder.display();
        Failure::Failed(vec![format!("cannot write to {folder}: {error}; name an existing folder that is writable")])
    })
}

/// Returns `command` without hidden arguments and subcommands, which the generators would list otherwise.
fn visible(command: &Command) -> Command {
    let mut shown = Command::new(command.get_name().to_owned())
        .disable_help_subcommand(true)
        .disable_help_flag(command.is_disable_help_flag_set())
        .args(command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned())
        .groups(command.get_groups().cloned())
        .subcommands(command.get_subcommands().filter(|command| !command.is_hide_set()).map(visible));
    if let Some(version) = command.get_version() {
        shown = shown.version(version.to_owned());
    }
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    match command.get_after_help() {
        Some(after) => shown.after_help(after.clone()),
        None => shown,
    }
}
