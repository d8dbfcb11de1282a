//! The table of memcached's flags. The parser, the output of `-h` and the page in `docs/` all use this table.
//!
//! The program accepts only flags of the table. Both `-h` and the page print a flag's description.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command};
use command::memcache::VERSION;

use super::suboptions::{SUBOPTIONS, Suboption, Use};

/// The letter of a flag that only has a long name. No argument contains this character.
pub const NO_LETTER: char = '\0';

/// The argument of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The flag takes no argument.
    None,
    /// The flag accepts a value, which has no effect.
    Optional(&'static str),
    /// The flag requires a value.
    Needed(&'static str),
}

/// A flag of memcached.
#[derive(Debug)]
pub struct Flag {
    /// Its letter, or [`NO_LETTER`].
    pub letter: char,
    /// Its long name, without the dashes.
    pub name: &'static str,
    /// Its argument.
    pub argument: Argument,
    /// Its effect here, in complete sentences.
    pub what: &'static str,
}

const fn flag(letter: char, name: &'static str, argument: Argument, what: &'static str) -> Flag {
    Flag { letter, name, argument, what }
}

use Argument::{Needed, None as Nothing, Optional};

/// All flags, in the order in which `-h` lists them.
pub static FLAGS: [Flag; 38] = [
    flag('p', "port", Needed("num"), "TCP port; default 11211. -1 chooses a free port, 0 disables TCP."),
    flag(
        'U',
        "udp-port",
        Needed("num"),
        "UDP is not supported. With a port other than 0 the server warns, and serves only TCP clients.",
    ),
    flag(
        NO_LETTER,
        "udp-required",
        Nothing,
        "Not a flag of memcached: with it, -U with a port other than 0 is refused.",
    ),
    flag(
        's',
        "unix-socket",
        Needed("file"),
        "Unix socket to listen on instead of a TCP port. The file is removed at exit.",
    ),
    flag('a', "unix-mask", Needed("mask"), "Permission bits of the Unix socket, in octal; default 700."),
    flag('A', "enable-shutdown", Nothing, "Allow clients to stop the server with the shutdown command."),
    flag(
        'l',
        "listen",
        Needed("addr"),
        "Addresses or names to listen on, each with or without a port, separated by commas; may be repeated. Default: \
         all addresses of this machine.",
    ),
    flag(
        'd',
        "daemon",
        Nothing,
        "Run in the background. The command returns when clients can connect, or reports why not.",
    ),
    flag('r', "enable-coredumps", Nothing, "Raise the limit on the size of core files."),
    flag('u', "user", Needed("user"), "User to run as; required when started by root."),
    flag(
        'm',
        "memory-limit",
        Needed("num"),
        "Memory for items, their index and buffers, in MiB; default 64, minimum 16.",
    ),
    flag('c', "conn-limit", Needed("num"), "Maximum number of simultaneous connections; default 1024."),
    flag('k', "lock-memory", Nothing, "Lock all memory, so that it is never swapped out."),
    flag('v', "verbose", Optional("num"), "Log more: -v events, -vv details, -vvv everything."),
    flag('h', "help", Nothing, "Print this help and exit."),
    flag('i', "license", Nothing, "Print the license and exit."),
    flag('V', "version", Nothing, "Print the version and exit."),
    flag('P', "pidfile", Needed("file"), "Write the process id to a file. With -d it is removed at exit."),
    flag('f', "slab-growth-factor", Needed("num"), "Accepted without effect: the store has no slab classes."),
    flag('n', "slab-min-size", Needed("bytes"), "Accepted without effect: the store has no slab classes."),
    flag('L', "enable-largepages", Nothing, "Accepted without effect: huge pages are always requested."),
    flag(
        't',
        "threads",
        Needed("num"),
        "Maximum number of threads that serve clients, at most 128. Default: one per CPU, at most 4.",
    ),
    flag(
        'R',
        "max-reqs-per-event",
        Needed("num"),
        "Requests of one client before other clients are served; default and maximum 64.",
    ),
    flag(
        'C',
        "disable-cas",
        Nothing,
        "Disable CAS tokens: they are reported as 0, and a cas of an existing item never matches.",
    ),
    flag('b', "listen-backlog", Needed("num"), "Length of the kernel's queue of connections to accept; default 1024."),
    flag(
        'B',
        "protocol",
        Needed("name"),
        "auto or ascii. The binary protocol is refused; memcached has deprecated it.",
    ),
    flag(
        'I',
        "max-item-size",
        Needed("size"),
        "Largest item, in bytes or with the suffix k or m; default 1m, from 1k to 1024m and at most half of the \
         memory.",
    ),
    flag('F', "disable-flush-all", Nothing, "Refuse the flush_all command."),
    flag('X', "disable-dumping", Nothing, "Refuse stats cachedump and lru_crawler metadump and mgdump."),
    flag('W', "disable-watch", Nothing, "Refuse the watch command."),
    flag('o', "extended", Needed("options"), "Options separated by commas; see below."),
    flag('N', "napi-ids", Needed("num"), "Accepted without effect: connections go to the thread with the fewest."),
    flag(
        'M',
        "disable-evictions",
        Nothing,
        "Disable eviction: items that do not fit are refused until others expire or are deleted.",
    ),
    flag(
        'D',
        "",
        Needed("char"),
        "Count requests by key prefix, which ends before this character. By default the character is a colon, and \
         clients enable the counters with stats detail on.",
    ),
    flag(
        'Y',
        "auth-file",
        Needed("file"),
        "File of user:password lines, at most 8. A client must send \"user password\" as the value of its first set.",
    ),
    flag('S', "enable-sasl", Nothing, "Refused: SASL is part of the binary protocol."),
    flag('Z', "enable-ssl", Nothing, "Encrypt all TCP connections with TLS; -o ssl_chain_cert names the certificate."),
    flag(
        'e',
        "memory-file",
        Needed("file"),
        "File for the items, best on tmpfs. They are there again after any stop, a kill included. A file of another \
         size, or one that memcached has left with its metadata, is started empty.",
    ),
];

/// Returns the flag with this letter.
pub fn by_letter(letter: char) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.letter == letter)
}

/// Returns the output of `-V`.
pub fn version() -> String {
    format!("memcached {VERSION}\n")
}

/// Returns the output of `-i`.
pub fn license() -> String {
    version()
        + concat!(
            "gannet ",
            env!("CARGO_PKG_VERSION"),
            ", a replacement of memcached that contains no code of it.\n",
            "Licensed under the Apache License, version 2.0: https://www.apache.org/licenses/LICENSE-2.0\n"
        )
}

impl Flag {
    /// Formats the flag and its argument: `-p, --port=<num>`.
    fn usage(&self) -> String {
        let value = match self.argument {
            Nothing => String::new(),
            Optional(value) => format!("[=<{value}>]"),
            Needed(value) => format!("=<{value}>"),
        };
        match (self.name, self.argument) {
            (name, _) if self.letter == NO_LETTER => format!("--{name}{value}"),
            ("", Needed(value)) => format!("-{} <{value}>", self.letter),
            ("", _) => format!("-{}", self.letter),
            (name, _) => format!("-{}, --{name}{value}", self.letter),
        }
    }
}

/// Returns the flags as arguments of `gannet memcached`, for man pages and completions. The subcommand itself follows
/// the conventions of `getopt_long`, so it does not parse with these.
pub fn command() -> Command {
    let options = SUBOPTIONS.iter().map(|option| format!("{}: {}", option.name, option.what()));
    let arg = |flag: &Flag| {
        let arg = Arg::new(flag.letter.to_string()).short(flag.letter).help(flag.what);
        let arg = if flag.name.is_empty() { arg } else { arg.long(flag.name) };
        match flag.argument {
            Nothing => arg.action(ArgAction::SetTrue),
            Optional(value) => arg.num_args(0..=1).require_equals(true).value_name(value),
            Needed(value) => arg.value_name(value),
        }
    };
    Command::new("memcached")
        .about("Run the server by memcached's own flags")
        .after_help(format!("Options of -o:\n\n{}", options.collect::<Vec<_>>().join("\n\n")))
        .disable_help_flag(true)
        .args(FLAGS.iter().map(arg))
}

/// The lines of `-h` before the flags.
const USAGE: &str = "\
Usage: memcached [-p port] [-l addresses] [-m megabytes] [-c clients]
                 [-t threads] [-u user] [-d] [-P file] [-o options] [flags]
This program accepts all flags of memcached. A flag without effect here says so
below, and the server warns about it. Try: memcached -m 1024 -l 127.0.0.1
The same server with other flags and a configuration file: gannet serve -h

";

/// Returns the output of `-h`. As that of memcached, it lists all flags and options, on more than one screen.
pub fn help() -> String {
    let mut out = version();
    out.push_str(USAGE);
    let mut line = |head: &str, text: &str| {
        let mut column = out.len() + 26;
        let _ = write!(out, "{head:<25}");
        for word in text.split_whitespace() {
            if column + 95 < out.len() {
                let _ = write!(out, "\n{:25}", "");
                column = out.len();
            }
            let _ = write!(out, " {word}");
        }
        out.push('\n');
    };
    for flag in &FLAGS {
        line(&flag.usage(), flag.what);
    }
    for option in &SUBOPTIONS {
        line(&format!("   - {}:", option.name), &option.what());
    }
    out
}

/// Returns the page on memcached's flags, in Markdown.
pub fn docs() -> String {
    let mut out = String::from(PAGE_HEAD);
    out.push_str("| flag | effect |\n|---|---|\n");
    for flag in &FLAGS {
        let _ = writeln!(out, "| `{}` | {} |", flag.usage(), flag.what);
    }
    out.push_str("\n## Options of `-o`\n\n");
    out.push_str(
        "Options without effect are accepted with a warning, and their values are checked as memcached \
                  does.\n\n",
    );
    out.push_str("| option | effect |\n|---|---|\n");
    let has_effect = |option: &&Suboption| !matches!(option.use_, Use::Ignored(_));
    for option in SUBOPTIONS.iter().filter(has_effect) {
        let _ = writeln!(out, "| `{}` | {} |", option.name, option.what());
    }
    let ignored: Vec<String> = SUBOPTIONS.iter().filter(|o| !has_effect(o)).map(|o| format!("`{}`", o.name)).collect();
    let _ = writeln!(out, "\nWithout effect: {}.", ignored.join(", "));
    out.push_str(PAGE_TAIL);
    out.push_str(PAGE_DIFFERENCES);
    out
}

const PAGE_HEAD: &str = include_str!("page_head.md");
const PAGE_TAIL: &str = include_str!("page_tail.md");
/// The rows of the page's last table. The test `memcache_table` of `server` writes them.
const PAGE_DIFFERENCES: &str = include_str!("page_differences.md");

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn letters_and_names_are_unique_and_texts_are_whole_sentences() {
        let mut names = HashSet::new();
        for flag in &FLAGS {
            assert!(names.insert(flag.letter.to_string()), "-{} is there twice", flag.letter);
            assert!(flag.name.is_empty() || names.insert(flag.name.to_owned()), "--{} is there twice", flag.name);
            assert!(flag.what.ends_with('.') && !flag.what.contains("  "), "-{}", flag.letter);
        }
    }

    #[test]
    fn help_names_everything_in_lines_that_fit() {
        let help = help();
        for flag in &FLAGS {
            assert!(help.contains(&format!("\n{} ", flag.usage())), "{}", flag.usage());
        }
        assert!(SUBOPTIONS.iter().all(|option| help.contains(&format!("- {}:", option.name))));
        assert!(help.lines().all(|line| line.len() <= 136), "{help}");
        let first: Vec<&str> = help.lines().take(24).collect();
        for word in ["Usage:", "gannet serve", "--port", "--listen", "--memory-limit", "--conn-limit"] {
            assert!(first.iter().any(|line| line.contains(word)), "{word} is not on the first screen:\n{help}");
        }
        assert!(USAGE.lines().all(|line| line.len() <= 80), "{USAGE}");
    }

    #[test]
    fn the_page_of_flags_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/memcached.md");
        let page = std::fs::read_to_string(path).unwrap();
        assert!(page == docs(), "run: cargo run -p gannet -- config --memcached-docs > docs/memcached.md");
    }
}
