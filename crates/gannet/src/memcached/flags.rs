//! memcached's flags, one object each: what is read, what `-h` prints, and the page in `docs/`.
//!
//! A flag that is not here does not exist. What a flag does is said once, for both readers.

use std::fmt::Write;

use command::memcache::VERSION;

use super::suboptions::{SUBOPTIONS, Suboption, Use};

/// The argument of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Nothing.
    None,
    /// A value, or nothing, and it makes no difference.
    Optional(&'static str),
    /// A value.
    Needed(&'static str),
}

/// One flag.
#[derive(Debug)]
pub struct Flag {
    /// Its letter.
    pub letter: char,
    /// Its long name, without the dashes.
    pub name: &'static str,
    /// Its argument.
    pub argument: Argument,
    /// Its effect here, in whole sentences.
    pub what: &'static str,
}

const fn flag(letter: char, name: &'static str, argument: Argument, what: &'static str) -> Flag {
    Flag { letter, name, argument, what }
}

use Argument::{Needed, None as Nothing, Optional};

/// All flags, in the order in which `-h` lists them.
pub static FLAGS: [Flag; 37] = [
    flag('p', "port", Needed("num"), "The TCP port, 11211 without it. -1 takes a free one, 0 listens on no TCP port."),
    flag('U', "udp-port", Needed("num"), "Only 0 is taken: UDP is not spoken."),
    flag(
        's',
        "unix-socket",
        Needed("file"),
        "A Unix socket to listen on, and no TCP port. The file is removed at the end.",
    ),
    flag('a', "unix-mask", Needed("mask"), "The permission bits of the Unix socket, octal; 700 without it."),
    flag('A', "enable-shutdown", Nothing, "Clients may stop the server with the shutdown command."),
    flag(
        'l',
        "listen",
        Needed("addr"),
        "Addresses or names to listen on, each with or without a port, parted by commas; may be repeated. Without it: \
         all of this machine's.",
    ),
    flag('d', "daemon", Nothing, "Run in the background. The command ends when clients can connect, or says why not."),
    flag('r', "enable-coredumps", Nothing, "Raise the limit on the size of core files."),
    flag('u', "user", Needed("user"), "The user to become; required if started by root."),
    flag(
        'm',
        "memory-limit",
        Needed("num"),
        "The memory for items, their index and buffers, in MiB; 64 without it, and 16 at least.",
    ),
    flag('c', "conn-limit", Needed("num"), "Connections at once; 1024 without it."),
    flag('k', "lock-memory", Nothing, "Lock all memory, so that none of it is swapped out."),
    flag('v', "verbose", Optional("num"), "Log more: -v what happens, -vv details, -vvv everything."),
    flag('h', "help", Nothing, "Print this and end."),
    flag('i', "license", Nothing, "Print the license and end."),
    flag('V', "version", Nothing, "Print the version and end."),
    flag('P', "pidfile", Needed("file"), "Write the process id to a file. With -d it is removed at the end."),
    flag('f', "slab-growth-factor", Needed("num"), "Taken and without effect: the store has no slab classes."),
    flag('n', "slab-min-size", Needed("bytes"), "Taken and without effect: the store has no slab classes."),
    flag('L', "enable-largepages", Nothing, "Ask for huge pages, which is done without it too."),
    flag(
        't',
        "threads",
        Needed("num"),
        "Threads that serve clients, at most 128. Without it one for each CPU, and not more than 4.",
    ),
    flag(
        'R',
        "max-reqs-per-event",
        Needed("num"),
        "Requests of one client before it is the others' turn; 64 without it, and at most.",
    ),
    flag(
        'C',
        "disable-cas",
        Nothing,
        "No CAS tokens: they are reported as 0, and a cas of an item that exists never matches.",
    ),
    flag('b', "listen-backlog", Needed("num"), "Connections that wait in the kernel to be accepted; 1024 without it."),
    flag('B', "protocol", Needed("name"), "auto or ascii. The binary protocol is refused: its authors retired it."),
    flag(
        'I',
        "max-item-size",
        Needed("size"),
        "The largest item, in bytes, or with k or m behind the number; 1m without it, from 1k to 1024m and to half of \
         the memory.",
    ),
    flag('F', "disable-flush-all", Nothing, "Refuse the flush_all command."),
    flag('X', "disable-dumping", Nothing, "Refuse stats cachedump and lru_crawler metadump and mgdump."),
    flag('W', "disable-watch", Nothing, "Refuse the watch command."),
    flag('o', "extended", Needed("options"), "Options parted by commas; see below."),
    flag('N', "napi-ids", Needed("num"), "Taken and without effect: connections go to the thread that has the fewest."),
    flag(
        'M',
        "disable-evictions",
        Nothing,
        "Nothing is evicted: what does not fit is refused, until items end or are deleted.",
    ),
    flag(
        'D',
        "",
        Needed("char"),
        "Count requests by key prefix, which ends before this character. Without it the character is a colon, and \
         clients turn the counting on with stats detail on.",
    ),
    flag(
        'Y',
        "auth-file",
        Needed("file"),
        "A file of user:password lines, 8 at most. A client has to send \"user password\" as the value of its first \
         set.",
    ),
    flag('S', "enable-sasl", Nothing, "Refused: SASL belongs to the binary protocol."),
    flag('Z', "enable-ssl", Nothing, "Refused: this build has no TLS."),
    flag('e', "memory-file", Needed("file"), "Refused: this build has no store in a file."),
];

/// The flag with this letter.
pub fn by_letter(letter: char) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.letter == letter)
}

/// The text of `-V`.
pub fn version() -> String {
    format!("memcached {VERSION}\n")
}

/// The text of `-i`.
pub fn license() -> String {
    version()
        + concat!(
            "gannet ",
            env!("CARGO_PKG_VERSION"),
            ", in the place of memcached and without code of it.\n",
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
            ("", Needed(value)) => format!("-{} <{value}>", self.letter),
            ("", _) => format!("-{}", self.letter),
            (name, _) => format!("-{}, --{name}{value}", self.letter),
        }
    }
}

/// The text of `-h`.
pub fn help() -> String {
    let mut out = version();
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

/// The page on memcached's flags, in Markdown.
pub fn docs() -> String {
    let mut out = String::from(PAGE_HEAD);
    out.push_str("| flag | what it does |\n|---|---|\n");
    for flag in &FLAGS {
        let _ = writeln!(out, "| `{}` | {} |", flag.usage(), flag.what);
    }
    out.push_str("\n## Options of `-o`\n\n");
    out.push_str("Those without effect are taken with a warning, and their values are checked as memcached does.\n\n");
    out.push_str("| option | what it does |\n|---|---|\n");
    let has_effect = |option: &&Suboption| !matches!(option.use_, Use::Ignored(_));
    for option in SUBOPTIONS.iter().filter(has_effect) {
        let _ = writeln!(out, "| `{}` | {} |", option.name, option.what());
    }
    let ignored: Vec<String> = SUBOPTIONS.iter().filter(|o| !has_effect(o)).map(|o| format!("`{}`", o.name)).collect();
    let _ = writeln!(out, "\nWithout effect: {}.", ignored.join(", "));
    out.push_str(PAGE_TAIL);
    out
}

const PAGE_HEAD: &str = include_str!("page_head.md");
const PAGE_TAIL: &str = include_str!("page_tail.md");

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
            assert!(help.contains(&format!("\n-{}", flag.letter)), "-{}", flag.letter);
        }
        assert!(SUBOPTIONS.iter().all(|option| help.contains(&format!("- {}:", option.name))));
        assert!(help.lines().all(|line| line.len() <= 136), "{help}");
    }

    #[test]
    fn the_page_of_flags_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/memcached.md");
        let page = std::fs::read_to_string(path).unwrap();
        assert!(page == docs(), "run: cargo run -p gannet -- config --memcached-docs > docs/memcached.md");
    }
}
