//! The arguments of commands and subcommands, as `COMMAND DOCS` describes them. `redis-cli` builds its help and its
//! hints from this description.
//!
//! `rows.txt` has a line for each command and subcommand: its name, the version of Redis or Valkey that introduced it
//! (`-` for none), and its arguments in order:
//!
//! ```text
//!  key/k0                            an argument: its name, and the letter of its type (see KINDS). The digit of a key
//!                                    is the number of its key specification
//!  count/i=COUNT                     an argument after the word COUNT
//!  nx/t=NX                           the word NX alone
//!  limit(offset/i count/i)=LIMIT     arguments one after another, after the word LIMIT
//!  expiry(|seconds/i=EX px/i=PX)     one of several arguments
//!  key/k0~text?+@6.2.0=WORD          all properties, in this order: the text that help shows instead of the name;
//!                                    `?` optional; `+` repeated, or `*` repeated together with its word; the version
//!                                    that introduced it, after `@`, or deprecated it, after `!`
//! ```
//!
//! The names and types are those of Valkey 9.1, which clients compare. The lines are sorted by name.

use protocol::resp::{Version, reply};
use std::sync::LazyLock;

/// The line of a command or subcommand.
#[derive(Clone, Copy, Debug)]
pub(super) struct SyntaxRow {
    name: &'static str,
    /// The version that introduced it. Empty if neither Redis nor Valkey has it.
    pub(super) since: &'static str,
    arguments: &'static str,
}

/// All lines, in the order of their names.
static ROWS: LazyLock<Vec<SyntaxRow>> = LazyLock::new(|| {
    let row = |line: &'static str| {
        let (name, rest) = line.split_once(' ').expect("every line has a name and a version");
        let (since, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
        SyntaxRow { name, since: since.trim_start_matches('-'), arguments }
    };
    include_str!("rows.txt").lines().map(row).collect()
});

/// The letters of types, and the names of the types.
const KINDS: [(u8, &str); 7] = [
    (b'k', "key"),
    (b's', "string"),
    (b'i', "integer"),
    (b'd', "double"),
    (b'u', "unix-time"),
    (b'p', "pattern"),
    (b't', "pure-token"),
];

/// A described argument, or a group of arguments.
#[derive(Debug, Default, PartialEq, Eq)]
struct Argument {
    name: &'static str,
    kind: &'static str,
    shown: Option<&'static str>,
    key_spec: Option<i64>,
    token: Option<&'static str>,
    since: Option<&'static str>,
    deprecated_since: Option<&'static str>,
    flags: Vec<&'static str>,
    /// The members of a group. Empty for a single argument.
    members: Vec<Argument>,
}

/// Returns the line of a command or subcommand, such as `get` or `config|get`.
pub(super) fn syntax_of(name: &str) -> Option<SyntaxRow> {
    ROWS.binary_search_by(|row| row.name.cmp(name)).ok().map(|place| ROWS[place])
}

impl SyntaxRow {
    /// Returns true if the command has arguments besides its own names.
    pub(super) fn has_arguments(&self) -> bool {
        !self.arguments.is_empty()
    }

    /// Writes the array of all arguments.
    pub(super) fn put_arguments(&self, out: &mut Vec<u8>, version: Version) {
        put_all(out, version, &SyntaxReader(self.arguments).arguments());
    }
}

fn put_all(out: &mut Vec<u8>, version: Version, arguments: &[Argument]) {
    reply::array(out, arguments.len() as u64);
    arguments.iter().for_each(|argument| argument.put(out, version));
}

impl Argument {
    /// Writes the map that describes the argument.
    fn put(&self, out: &mut Vec<u8>, version: Version) {
        let texts = [
            ("name", Some(self.name)),
            ("type", Some(self.kind)),
            ("display_text", self.shown),
            ("token", self.token),
            ("since", self.since),
            ("deprecated_since", self.deprecated_since),
        ];
        let texts = || texts.iter().filter_map(|(name, text)| Some((name, (*text)?)));
        let (has_flags, is_group) = (!self.flags.is_empty(), !self.members.is_empty());
        let others = u64::from(self.key_spec.is_some()) + u64::from(has_flags) + u64::from(is_group);
        reply::map(out, version, texts().count() as u64 + others);
        for (name, text) in texts() {
            reply::bulk(out, name.as_bytes());
            reply::bulk(out, text.as_bytes());
        }
        if let Some(number) = self.key_spec {
            reply::bulk(out, b"key_spec_index");
            reply::int(out, number);
        }
        if has_flags {
            reply::bulk(out, b"flags");
            reply::set(out, version, self.flags.len() as u64);
            self.flags.iter().for_each(|flag| reply::simple(out, flag.as_bytes()));
        }
        if is_group {
            reply::bulk(out, b"arguments");
            put_all(out, version, &self.members);
        }
    }
}

/// The characters of a line that are not read yet.
struct SyntaxReader(&'static str);

impl SyntaxReader {
    /// Reads arguments until the end of their group.
    fn arguments(&mut self) -> Vec<Argument> {
        let mut all = Vec::new();
        while !self.0.is_empty() && !self.0.starts_with(')') {
            all.push(self.argument());
            self.0 = self.0.trim_start();
        }
        all
    }

    fn argument(&mut self) -> Argument {
        let mut argument = Argument { name: self.word(), ..Argument::default() };
        if self.takes('(') {
            argument.kind = if self.takes('|') { "oneof" } else { "block" };
            argument.members = self.arguments();
            assert!(self.takes(')'), "a group without its end");
        } else {
            assert!(self.takes('/'), "{} without a type", argument.name);
            let letter = self.0.as_bytes()[0];
            let (_, kind) = KINDS.iter().find(|(kind, _)| *kind == letter).expect("the letter of a type");
            let (number, rest) =
                self.0[1..].split_at(self.0[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len() - 1));
            (argument.kind, argument.key_spec, self.0) = (kind, number.parse().ok(), rest);
            argument.shown = Some(if self.takes('~') { self.word() } else { argument.name });
        }
        if self.takes('?') {
            argument.flags.push("optional");
        }
        if self.takes('*') {
            argument.flags.extend(["multiple", "multiple_token"]);
        } else if self.takes('+') {
            argument.flags.push("multiple");
        }
        argument.since = self.takes('@').then(|| self.word());
        argument.deprecated_since = self.takes('!').then(|| self.word());
        argument.token = self.takes('=').then(|| self.until(|c| c == ' ' || c == ')'));
        argument
    }

    /// Reads letters, digits and the characters within names, versions and displayed texts.
    fn word(&mut self) -> &'static str {
        self.until(|c| !c.is_ascii_alphanumeric() && !"-_.:".contains(c))
    }

    fn until(&mut self, is_end: fn(char) -> bool) -> &'static str {
        let (word, rest) = self.0.split_at(self.0.find(is_end).unwrap_or(self.0.len()));
        self.0 = rest;
        word
    }

    /// Reads a character if it is the next one.
    fn takes(&mut self, character: char) -> bool {
        self.0.strip_prefix(character).map(|rest| self.0 = rest).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::catalog::COMMANDS;
    use crate::resp::subcommands::subcommands_of;

    #[test]
    fn every_command_and_supported_subcommand_has_one_line_in_order() {
        let parts = |name| subcommands_of(name).filter(|(_, part)| !part.help.is_empty()).map(|(_, part)| part.name);
        let mut names: Vec<_> =
            COMMANDS.iter().flat_map(|entry| std::iter::once(entry.name).chain(parts(entry.name))).collect();
        names.sort_unstable();
        assert_eq!(ROWS.iter().map(|row| row.name).collect::<Vec<_>>(), names);
        assert!(ROWS.iter().all(|row| syntax_of(row.name).is_some()));
    }

    #[test]
    fn every_line_is_read_to_its_end_and_has_flags_of_a_group_once() {
        for row in ROWS.iter() {
            let mut reader = SyntaxReader(row.arguments);
            let arguments = reader.arguments();
            assert_eq!((reader.0, arguments.is_empty()), ("", !row.has_arguments()), "{}", row.name);
            let mut out = Vec::new();
            row.put_arguments(&mut out, Version::Resp3);
            assert!(out.starts_with(format!("*{}\r\n", arguments.len()).as_bytes()));
        }
    }

    #[test]
    fn all_properties_of_an_argument_are_read() {
        let read = SyntaxReader("a/k1~b?*@1.2.3!4.5.6=W= c(|d/t=D e(f/i g/u+)?)").arguments();
        let single = Argument {
            name: "a",
            kind: "key",
            shown: Some("b"),
            key_spec: Some(1),
            token: Some("W="),
            since: Some("1.2.3"),
            deprecated_since: Some("4.5.6"),
            flags: vec!["optional", "multiple", "multiple_token"],
            members: Vec::new(),
        };
        assert_eq!(read[0], single);
        let group = &read[1];
        assert_eq!((group.name, group.kind, group.members.len()), ("c", "oneof", 2));
        assert_eq!((group.members[1].kind, &group.members[1].flags[..]), ("block", &["optional"][..]));
        assert_eq!((group.members[1].members[1].kind, group.members[1].members[1].shown), ("unix-time", Some("g")));
    }
}
