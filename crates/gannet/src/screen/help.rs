//! The help on one screen (`-h`): a command's subcommands and most used options, each in one line. `--help` lists all.
//!
//! ```text
//!   -h        short()  at most 24 lines of 80 columns, from the same definitions
//!   --help    the argument parser's own text, with every option and the examples
//! ```

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, Command};

/// The size of the smallest usual terminal.
const ROWS: usize = 24;
const COLUMNS: usize = 80;
/// Lines for the description, the usage, the last line, and the empty lines between them.
const FRAME_ROWS: usize = 6;
/// Lines for the two headings and the empty line between two lists.
const HEADS_ROWS: usize = 3;
/// Maximum number of columns of an option's name and value.
const HEAD_COLUMNS_MAX: usize = 30;

/// The options that are shown of commands with more options than fit, in this order.
const FIRST: [(&str, &[&str]); 8] = [
    (
        "serve",
        &[
            "CONFIG",
            "memcached",
            "resp",
            "admin",
            "memory",
            "workers",
            "maxconns",
            "item-max",
            "file",
            "flash",
            "pin",
            "log",
            "upgrade",
        ],
    ),
    ("load", LOAD),
    ("load versus", VERSUS),
    ("load replay", &["FILE", "target", "speed", "rate", "duration", "prefill", "verify", "assert", "report", "json"]),
    ("load rpc-perf", TOOL),
    ("load mc-crusher", TOOL),
    ("doctor", &["pid", "only", "measure", "json"]),
    (
        "doctor prove",
        &["remedy", "set", "pin", "live", "target", "server", "rate", "slo", "rounds", "seconds", "report", "undo"],
    ),
];
const LOAD: &[&str] = &[
    "target",
    "protocol",
    "slo",
    "rate",
    "closed",
    "duration",
    "connections",
    "keys",
    "value-bytes",
    "reads",
    "preset",
    "assert",
    "report",
];
const VERSUS: &[&str] =
    &["a", "b", "rounds", "target", "protocol", "slo", "rate", "closed", "duration", "connections", "keys", "report"];
const TOOL: &[&str] = &["FILE", "target", "duration", "report", "json", "assert", "quiet"];

/// Returns the short help, if the parser's `kind` of error is a request for help and the arguments, without the
/// program's name, ask for the short one.
pub fn short_for(program: &Command, args: &[OsString], kind: ErrorKind) -> Option<String> {
    let is_short = match kind {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
        ErrorKind::DisplayHelp => args.iter().find(|arg| *arg == "-h" || *arg == "--help")? == "-h",
        _ => false,
    };
    let (mut command, mut path) = (program, program.get_name().to_owned());
    for arg in args.iter().filter_map(|arg| arg.to_str()) {
        if let Some(below) = command.find_subcommand(arg) {
            command = below;
            path = format!("{path} {arg}");
        }
    }
    is_short.then(|| short(command, &path))
}

/// Formats the short help of the command that is called as `path`.
fn short(command: &Command, path: &str) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let arguments: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set() && !is_common(arg)).collect();
    let commands: Vec<&Command> = command.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let room = ROWS - FRAME_ROWS;
    let mut chosen = arguments.clone();
    if commands.len() + chosen.len() + HEADS_ROWS > room {
        chosen = first(&arguments, path);
    }
    let mut listed: Vec<String> = commands.iter().map(|command| command_line(command)).collect();
    if listed.len() + chosen.len() + HEADS_ROWS > room {
        let names: Vec<&str> = commands.iter().map(|command| command.get_name()).collect();
        listed = wrapped(&names);
    }
    let left = room.saturating_sub(listed.len() + HEADS_ROWS);
    if chosen.len() > left {
        // The command cannot be called without these.
        chosen.sort_by_key(|arg| !arg.is_positional());
        chosen.truncate(left);
    }
    let mut lines = vec![clause(&about, COLUMNS), String::new(), usage(path, &arguments, !commands.is_empty())];
    let options = option_lines(&chosen);
    for (head, list) in [("Commands:", listed), ("Options:", options)] {
        if !list.is_empty() {
            lines.extend([String::new(), head.to_owned()]);
            lines.extend(list);
        }
    }
    let more = match arguments.len() - chosen.len() {
        0 => format!("{path} --help explains them in full."),
        more => format!("{path} --help lists {more} more options."),
    };
    lines.extend([String::new(), more]);
    lines.join("\n") + "\n"
}

/// Returns whether every command has the argument.
fn is_common(arg: &Arg) -> bool {
    matches!(arg.get_id().as_str(), "help" | "version")
}

/// Returns the most used arguments, or all if none are named.
fn first<'a>(arguments: &[&'a Arg], path: &str) -> Vec<&'a Arg> {
    let known = FIRST.iter().find(|(name, _)| path.split_once(' ').is_some_and(|(_, path)| path == *name));
    match known {
        Some((_, ids)) if !ids.is_empty() => {
            ids.iter().filter_map(|id| arguments.iter().find(|arg| arg.get_id() == *id)).copied().collect()
        }
        _ => arguments.to_vec(),
    }
}

fn usage(path: &str, arguments: &[&Arg], has_commands: bool) -> String {
    let mut text = format!("Usage: {path}");
    if arguments.iter().any(|arg| !arg.is_positional()) {
        text += " [OPTIONS]";
    }
    for arg in arguments.iter().filter(|arg| arg.is_positional()) {
        text += &format!(" {}", head(arg));
    }
    if has_commands {
        text += " [COMMAND]";
    }
    text
}

/// Formats an argument's name and value.
fn head(arg: &Arg) -> String {
    let names: Vec<&str> = arg.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
    let value = if names.is_empty() { arg.get_id().as_str().to_owned() } else { names.join(" ") };
    if arg.is_positional() {
        return if arg.is_required_set() { format!("<{value}>") } else { format!("[{value}]") };
    }
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let name = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
    if arg.get_action().takes_values() { format!("{name} <{value}>") } else { name }
}

fn option_lines(arguments: &[&Arg]) -> Vec<String> {
    let heads: Vec<String> = arguments.iter().map(|arg| clause(&head(arg), HEAD_COLUMNS_MAX)).collect();
    let width = heads.iter().map(|head| head.chars().count()).max().unwrap_or(0);
    let line = |(head, arg): (&String, &&Arg)| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        format!("  {head:<width$}  {}", clause(&help, COLUMNS - width - 4)).trim_end().to_owned()
    };
    heads.iter().zip(arguments).map(line).collect()
}

fn command_line(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    format!("  {:<12}{}", command.get_name(), clause(&about, COLUMNS - 14))
}

/// Formats names as lines of a list.
fn wrapped(names: &[&str]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let name = if at + 1 < names.len() { format!("{name},") } else { (*name).to_owned() };
        match lines.last_mut() {
            Some(line) if line.len() + 1 + name.len() <= COLUMNS => *line += &format!(" {name}"),
            _ => lines.push(format!("  {name}")),
        }
    }
    lines
}

/// Returns the text if it has at most `columns` characters. Otherwise returns its longest part that fits and ends with
/// a sentence or clause, or with dots if there is none.
fn clause(text: &str, columns: usize) -> String {
    let length = |text: &str| text.chars().count();
    if length(text) <= columns {
        return text.to_owned();
    }
    let ends =
        [". ", "; ", ": ", ", ", " [", " ("].iter().flat_map(|end| text.match_indices(end)).map(|(at, _)| &text[..at]);
    // A part does not end within brackets.
    let is_whole = |part: &&str| part.matches('[').count() == part.matches(']').count();
    if let Some(part) = ends.filter(|part| length(part) <= columns).filter(is_whole).max_by_key(|part| part.len()) {
        return part.to_owned();
    }
    let words = text.match_indices(' ').map(|(at, _)| &text[..at]).filter(|part| length(part) + 4 <= columns);
    words.max_by_key(|part| part.len()).map_or_else(
        || text.chars().take(columns.saturating_sub(3)).collect::<String>() + "...",
        |part| format!("{} ...", part.trim_end_matches([',', ':', ';'])),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `act` with every command and its path.
    fn each(command: &Command, path: &str, act: &mut impl FnMut(&Command, &str)) {
        act(command, path);
        for below in command.get_subcommands() {
            each(below, &format!("{path} {}", below.get_name()), act);
        }
    }

    #[test]
    fn short_help_of_every_command_fits_one_screen() {
        let mut seen = 0;
        each(&crate::program(), "gannet", &mut |command, path| {
            let text = short(command, path);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(text.lines().count() <= ROWS && widest <= COLUMNS, "{path}: {widest} columns\n{text}");
            assert!(text.contains(&format!("Usage: {path}")) && text.contains(&format!("{path} --help")), "{text}");
            for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
                assert!(text.contains(below.get_name()), "{path}: {}\n{text}", below.get_name());
            }
            seen += 1;
        });
        assert!(seen > 30, "{seen}");
    }

    #[test]
    fn long_help_lists_every_option() {
        each(&crate::program(), "gannet", &mut |command, path| {
            let long = command.clone().render_long_help().to_string();
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let name = arg.get_long().map_or_else(|| head(arg), |long| format!("--{long}"));
                assert!(long.contains(&name), "{path}: {name}");
            }
        });
    }

    #[test]
    fn options_of_the_short_help_exist() {
        let program = crate::program();
        for (path, ids) in FIRST {
            let command = path.split(' ').fold(&program, |command, name| command.find_subcommand(name).unwrap());
            for id in ids {
                assert!(command.get_arguments().any(|arg| arg.get_id() == *id), "{path}: {id}");
            }
        }
    }

    #[test]
    fn first_help_flag_decides_and_the_last_subcommand_is_described() {
        let of = |words: &[&str], kind| {
            short_for(&crate::program(), &words.iter().map(OsString::from).collect::<Vec<_>>(), kind)
        };
        assert!(of(&["load", "versus", "-h"], ErrorKind::DisplayHelp).unwrap().contains("Usage: gannet load versus"));
        assert!(of(&["load", "--help", "-h"], ErrorKind::DisplayHelp).is_none());
        assert!(of(&["load", "-h"], ErrorKind::UnknownArgument).is_none());
        assert!(of(&["load"], ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand).is_some());
    }

    #[test]
    fn texts_are_cut_at_the_end_of_a_clause() {
        assert_eq!(clause("Short", 10), "Short");
        assert_eq!(clause("One thing; another thing", 12), "One thing");
        assert_eq!(clause("Listen here. Or there [default: x]", 24), "Listen here. Or there");
        assert_eq!(clause("A rate [default: one that is found by trials]", 24), "A rate");
        assert_eq!(clause("no clause ends in this text", 16), "no clause ...");
        assert_eq!(clause("unbreakable-and-long", 10), "unbreak...");
    }
}
