//! The rights of a user to commands, keys, channels and namespaces, and the rules with which an operator sets the
//! rights.
//!
//! ```text
//!   role:read +get -set +@read +config|get  ~pattern %R~pattern  &pattern  ns=shop     on off >password nopass
//!   └───────────── commands ──────────────┘ └────── keys ──────┘ channels  namespaces  └───── the user ──────┘
//!
//!   ops=1000  at most 1000 requests per second, over all connections of the user
//! ```
//! Each command and subcommand has a number. The rights contain one bit for each number. The rules for commands are
//! also stored as text, because `ACL` lists them in that form.

use super::super::catalog::{COMMANDS, CommandSpec, find};
use super::super::subcommands::{SUBCOMMANDS, find_subcommand};
use super::super::support::absent_of;
use super::users::{BLOCK_BYTES, is_plain};
pub use crate::clients::access::{READ, WRITE};
use crate::glob::{is_bounded, matches};
use crate::keyspace::namespace_config::NAME_BYTES_MAX as NAMESPACE_BYTES_MAX;
use protocol::number::parse_u64;
use protocol::resp::Args;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The maximum number of commands and subcommands.
const NUMBERS_MAX: usize = 512;
/// The maximum number of rules of one user: patterns, namespaces and rules for commands together.
pub const RULES_MAX: usize = 1000;

/// The number of commands and subcommands.
pub const NUMBER_COUNT: usize = COMMANDS.len() + SUBCOMMANDS.len();

const _: () = assert!(NUMBER_COUNT <= NUMBERS_MAX);

/// The categories, in the order in which they are listed.
pub(super) const CATEGORIES: [&str; 22] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
    // Gannet's own.
    "graph",
];

/// The roles, and the rules that each stands for. A role replaces the rights to commands, so that a user who is given a
/// lesser one loses the greater one. Only the administrator's includes keys, channels and namespaces.
const ROLES: [(&str, &[&str]); 3] = [
    ("read", &["-@all", "+@read", "+@connection", "-@dangerous"]),
    // Functions that a user loads run with the rights of each user that calls them.
    ("write", &["-@all", "+@read", "+@write", "+@connection", "-@dangerous", "-function"]),
    ("admin", &["+@all", "allkeys", "allchannels", "allns"]),
];

/// Returns the rule of the role whose rules for commands are `commands`, as [`Rights::commands_text`] returns them.
pub(super) fn role_of(commands: &str) -> Option<&'static str> {
    [("read", "role:read"), ("write", "role:write"), ("admin", "role:admin")].into_iter().find_map(|(name, rule)| {
        let (_, rules) = ROLES.iter().find(|(known, _)| *known == name)?;
        let of_commands = rules.iter().filter(|rule| rule.starts_with(['+', '-'])).copied();
        (of_commands.collect::<Vec<_>>().join(" ") == commands).then_some(rule)
    })
}

/// A bit for each command and subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits([u64; NUMBERS_MAX / 64]);

impl Bits {
    const NONE: Self = Self([0; NUMBERS_MAX / 64]);
    const ALL: Self = Self([u64::MAX; NUMBERS_MAX / 64]);

    fn set(&mut self, number: usize, allowed: bool) {
        let bit = 1 << (number % 64);
        if allowed { self.0[number / 64] |= bit } else { self.0[number / 64] &= !bit }
    }

    pub(super) fn has(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }
}

/// Returns every command and subcommand with its number and its categories. A subcommand has the form `config|get`.
pub(super) fn numbers() -> impl Iterator<Item = (usize, &'static str, &'static [&'static str])> {
    let commands = COMMANDS.iter().map(|entry| (entry.name, entry.categories));
    let parts = SUBCOMMANDS.iter().map(|part| (part.name, part.categories));
    commands.chain(parts).enumerate().map(|(number, (name, categories))| (number, name, categories))
}

/// Returns the number of a request's subcommand if it has one, otherwise the number of its command.
pub(in crate::resp) fn number_of(entry: &CommandSpec, first: Option<&[u8]>) -> usize {
    let part = first.filter(|_| entry.is_container()).and_then(|first| find_subcommand(entry.name, first));
    part.map_or(entry.number, |(place, _)| COMMANDS.len() + place)
}

/// Returns the number of the command, or of its subcommand, of a request with these arguments.
pub(in crate::resp) fn number_of_request(entry: &CommandSpec, args: Args<'_>) -> usize {
    if entry.is_container() { number_of(entry, args.into_iter().next()) } else { entry.number }
}

/// Returns the name of the command or subcommand with this number, for error replies and the log.
pub(crate) fn name_of(number: usize) -> &'static str {
    number.checked_sub(COMMANDS.len()).map_or_else(|| COMMANDS[number].name, |place| SUBCOMMANDS[place].name)
}

/// Returns the number of the command or subcommand with this name, which must exist.
pub(crate) fn number_named(name: &str) -> usize {
    let (number, ..) = numbers().find(|(_, known, _)| *known == name).expect("the command exists");
    number
}

/// A pattern of keys, and the kinds of access that it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    may: u8,
    pattern: Vec<u8>,
}

/// The rights of a user.
#[derive(Clone, Debug)]
pub struct Rights {
    commands: Bits,
    /// The rules for commands that follow the last rule that allowed or refused all commands.
    rules: Vec<String>,
    all_commands: bool,
    keys: Vec<KeyPattern>,
    channels: Vec<Vec<u8>>,
    /// The names or numbers of the allowed namespaces. If empty, all namespaces are allowed.
    namespaces: Vec<String>,
    /// The maximum number of requests per second. 0: unlimited.
    ops_max: u64,
}

/// The reason why a rule is refused, in Redis's words.
pub type RuleError = &'static str;

const SYNTAX: RuleError = "Syntax error";
const UNKNOWN: RuleError = "Unknown command or category name in ACL";
const FIRST_ARGUMENT: RuleError = "Allowing first-arg of a subcommand is not supported";
const UNKNOWN_ROLE: RuleError = "Unknown role: use role:read, role:write or role:admin";
const OPS_NUMBER: RuleError = "ops= needs the requests per second: a number up to 999999999, or 0 for no limit";
const KEY_AFTER_ALL: RuleError = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does \
                                    not have any effect. Try 'resetkeys' to start with an empty list of patterns";
const CHANNEL_AFTER_ALL: RuleError = "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid \
                                        and does not have any effect. Try 'resetchannels' to start with an empty list \
                                        of channels";
const TOO_COMPLEX: RuleError = "Pattern too complex: more than 512 bytes between its first and its last *; shorten it";
const TOO_MANY: RuleError = "The user has the maximum number of rules";

impl Rights {
    /// Creates rights that allow nothing.
    pub(super) fn none() -> Self {
        Self {
            commands: Bits::NONE,
            rules: Vec::new(),
            all_commands: false,
            keys: Vec::new(),
            channels: Vec::new(),
            namespaces: Vec::new(),
            ops_max: 0,
        }
    }

    /// Creates rights that allow everything.
    pub(super) fn all() -> Self {
        let mut all = Self::none();
        for rule in ["allcommands", "allkeys", "allchannels"] {
            all.apply(rule.as_bytes()).expect("the rules are valid");
        }
        all
    }

    /// Creates the rights of a signed token: commands on data and topics, with patterns of keys and their bits of
    /// access, and patterns of channels, in one namespace.
    pub(super) fn of_token(keys: Vec<(u8, Vec<u8>)>, channels: Vec<Vec<u8>>, namespace: u8) -> Self {
        let mut rights = Self::none();
        for rule in ["role:write", "+publish", "+subscribe"] {
            rights.apply(rule.as_bytes()).expect("the rules are valid");
        }
        rights.keys = keys.into_iter().map(|(may, pattern)| KeyPattern { may, pattern }).collect();
        Self { channels, namespaces: vec![namespace.to_string()], ..rights }
    }

    /// Returns the number of bytes that the rights allocate.
    pub(super) fn cost(&self) -> u64 {
        let keys = self.keys.iter().map(|key| size_of::<KeyPattern>() + key.pattern.len());
        let texts = self.rules.iter().chain(&self.namespaces).map(|text| size_of::<String>() + text.len());
        let channels = self.channels.iter().map(|pattern| size_of::<Vec<u8>>() + pattern.len());
        keys.chain(texts).chain(channels).map(|bytes| bytes + BLOCK_BYTES).sum::<usize>() as u64
    }

    /// Releases allocated memory that is not in use.
    pub(super) fn shrink(&mut self) {
        self.rules.shrink_to_fit();
        self.keys.shrink_to_fit();
        self.channels.shrink_to_fit();
        self.namespaces.shrink_to_fit();
    }

    /// Returns true if everything is allowed.
    pub(crate) fn is_all(&self) -> bool {
        self.commands == Bits::ALL && self.all_keys() && self.all_channels() && self.all_namespaces()
    }

    pub(super) fn all_keys(&self) -> bool {
        self.keys.iter().any(|key| key.pattern == b"*" && key.may == READ | WRITE)
    }

    pub(super) fn reads_all_keys(&self) -> bool {
        self.keys.iter().any(|key| key.pattern == b"*" && key.may & READ != 0)
    }

    /// Returns true if everything is allowed, and the number of requests per second is unlimited, so that no request
    /// can be refused.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.ops_max == 0 && self.is_all()
    }

    /// Returns the maximum number of requests per second; 0 is no limit.
    pub(crate) fn ops_max(&self) -> u64 {
        self.ops_max
    }

    fn all_channels(&self) -> bool {
        self.channels.iter().any(|pattern| pattern == b"*")
    }

    pub(crate) fn allows(&self, number: usize) -> bool {
        self.commands.has(number)
    }

    /// Returns true if every command and subcommand of the category `category` is allowed.
    pub(super) fn allows_category(&self, category: &str) -> bool {
        let in_category = numbers().filter(|(_, _, categories)| categories.contains(&category));
        in_category.map(|(number, ..)| number).all(|number| self.commands.has(number))
    }

    /// Returns true if the user has all kinds of access to `key` that `access` contains.
    pub(crate) fn allows_key(&self, key: &[u8], access: u8) -> bool {
        self.keys.iter().any(|allowed| allowed.may & access == access && matches(&allowed.pattern, key))
    }

    /// Returns true if a rule lets the user read all keys that begin with `prefix`.
    pub(in crate::resp) fn reads_prefix(&self, prefix: &[u8]) -> bool {
        let starts_with = |start: &[u8]| literal(start).is_some_and(|start| prefix.starts_with(&start));
        let mut readable = self.keys.iter().filter(|key| key.may & READ != 0);
        readable.any(|key| key.pattern.strip_suffix(b"*").is_some_and(starts_with))
    }

    /// Returns true if the user may access the channel `name`. If `name` is a pattern of channels, it is allowed only
    /// if all channels are allowed, or a rule contains exactly the same pattern.
    pub(in crate::resp) fn allows_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        let fits = |allowed: &Vec<u8>| if is_pattern { allowed == name } else { matches(allowed, name) };
        self.all_channels() || self.channels.iter().any(fits)
    }

    /// Returns true if each pattern of channels that `other` allows is allowed here too.
    pub(super) fn includes_channels_of(&self, other: &Self) -> bool {
        let allowed: BTreeSet<&Vec<u8>> = self.channels.iter().collect();
        self.all_channels() || other.channels.iter().all(|pattern| allowed.contains(pattern))
    }

    /// Returns true if no rule names a namespace.
    pub(crate) fn all_namespaces(&self) -> bool {
        self.namespaces.is_empty()
    }

    /// Returns true if the user may access keys of the namespace with this number and this name.
    pub(crate) fn allows_namespace(&self, number: u8, name: &str) -> bool {
        let is = |said: &String| said == name || said.parse() == Ok(number);
        self.all_namespaces() || self.namespaces.iter().any(is)
    }

    /// Applies a rule about commands, keys, channels or namespaces. Returns `None` if the rule is about something else.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<Option<()>, RuleError> {
        if self.rules.len() + self.keys.len() + self.channels.len() + self.namespaces.len() >= RULES_MAX {
            return Err(TOO_MANY);
        }
        match &rule.to_ascii_lowercase()[..] {
            b"allcommands" | b"+@all" => self.every_command(true),
            b"nocommands" | b"-@all" => self.every_command(false),
            b"allkeys" => self.keys = vec![KeyPattern { may: READ | WRITE, pattern: b"*".to_vec() }],
            b"resetkeys" => self.keys.clear(),
            b"allchannels" => self.channels = vec![b"*".to_vec()],
            b"resetchannels" => self.channels.clear(),
            b"allns" => self.namespaces.clear(),
            [b'r', b'o', b'l', b'e', b':', role @ ..] => self.apply_role(role)?,
            _ => return self.apply_marked(rule),
        }
        Ok(Some(()))
    }

    /// Applies the rules that a role stands for.
    fn apply_role(&mut self, role: &[u8]) -> Result<(), RuleError> {
        let (_, rules) = ROLES.iter().find(|(name, _)| name.as_bytes() == role).ok_or(UNKNOWN_ROLE)?;
        rules.iter().try_for_each(|rule| self.apply(rule.as_bytes()).map(|_| ()))
    }

    fn every_command(&mut self, allowed: bool) {
        self.commands = if allowed { Bits::ALL } else { Bits::NONE };
        self.all_commands = allowed;
        self.rules.clear();
    }

    fn apply_marked(&mut self, rule: &[u8]) -> Result<Option<()>, RuleError> {
        match rule {
            [b'~', pattern @ ..] => self.add_key(READ | WRITE, pattern)?,
            [b'%', rest @ ..] => {
                let tilde = rest.iter().position(|byte| *byte == b'~').filter(|at| *at > 0).ok_or(SYNTAX)?;
                let mut may = 0;
                for letter in &rest[..tilde] {
                    may |= match letter.to_ascii_uppercase() {
                        b'R' if may & READ == 0 => READ,
                        b'W' if may & WRITE == 0 => WRITE,
                        _ => return Err(SYNTAX),
                    };
                }
                self.add_key(may, &rest[tilde + 1..])?;
            }
            [b'&', pattern @ ..] => {
                if self.all_channels() && pattern != b"*" {
                    return Err(CHANNEL_AFTER_ALL);
                }
                plain(pattern)?;
                bounded(pattern)?;
                if pattern == b"*" {
                    self.channels.clear();
                }
                if !self.channels.iter().any(|known| known == pattern) {
                    self.channels.push(pattern.to_vec());
                }
            }
            [sign @ (b'+' | b'-'), name @ ..] => self.apply_command(name, *sign == b'+')?,
            [b'n' | b'N', b's' | b'S', b'=', name @ ..] => self.add_namespace(name)?,
            [b'o' | b'O', b'p' | b'P', b's' | b'S', b'=', number @ ..] => self.ops_max = ops_number(number)?,
            _ => return Ok(None),
        }
        Ok(Some(()))
    }

    /// Allows a namespace by its name or its number. The namespace need not exist yet.
    fn add_namespace(&mut self, name: &[u8]) -> Result<(), RuleError> {
        let name = std::str::from_utf8(name).map_err(|_| SYNTAX)?;
        plain(name.as_bytes())?;
        if name.is_empty() || name.len() > NAMESPACE_BYTES_MAX {
            return Err(SYNTAX);
        }
        if !self.namespaces.iter().any(|known| known == name) {
            self.namespaces.push(name.to_owned());
        }
        Ok(())
    }

    fn add_key(&mut self, may: u8, pattern: &[u8]) -> Result<(), RuleError> {
        let is_all = may == READ | WRITE && pattern == b"*";
        if self.all_keys() && !is_all {
            return Err(KEY_AFTER_ALL);
        }
        plain(pattern)?;
        bounded(pattern)?;
        if is_all {
            self.keys.clear();
        }
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => known.may |= may,
            None => self.keys.push(KeyPattern { may, pattern: pattern.to_vec() }),
        }
        Ok(())
    }

    fn apply_command(&mut self, name: &[u8], allowed: bool) -> Result<(), RuleError> {
        let name = std::str::from_utf8(name).map_err(|_| UNKNOWN)?.to_ascii_lowercase();
        if let Some(category) = name.strip_prefix('@') {
            if !CATEGORIES.contains(&category) {
                return Err(UNKNOWN);
            }
            for (number, _, _) in numbers().filter(|(_, _, categories)| categories.contains(&category)) {
                self.commands.set(number, allowed);
            }
        } else if let Some((command, part)) = name.rsplit_once('|') {
            if allowed && numbers().any(|(_, known, _)| known == command) {
                if command.contains('|') {
                    return Err(FIRST_ARGUMENT);
                }
                if part.is_empty() {
                    return Err(SYNTAX);
                }
            }
            let (number, ..) = numbers().find(|(_, known, _)| *known == name).ok_or(UNKNOWN)?;
            self.commands.set(number, allowed);
        } else {
            // A rule may name a Redis command that this server does not support. Such a rule has no effect.
            if find(name.as_bytes()).is_none() && absent_of(name.as_bytes()).is_none() {
                return Err(UNKNOWN);
            }
            for (number, known, _) in numbers() {
                if known.split('|').next() == Some(&name) {
                    self.commands.set(number, allowed);
                }
            }
        }
        let part = format!("{name}|");
        self.rules.retain(|rule| rule[1..] != name && !rule[1..].starts_with(&part));
        self.rules.push(format!("{}{name}", if allowed { '+' } else { '-' }));
        Ok(())
    }

    /// Returns the rules for commands as text.
    pub(super) fn commands_text(&self) -> String {
        let first = if self.all_commands { "+@all" } else { "-@all" };
        [first].into_iter().chain(self.rules.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    }

    /// Returns the rules for keys as text.
    pub(super) fn keys_text(&self) -> Vec<u8> {
        let one = |key: &KeyPattern| {
            let mark = ["", "%R", "%W", ""][usize::from(key.may)];
            [mark.as_bytes(), b"~", &key.pattern].concat()
        };
        self.keys.iter().map(one).collect::<Vec<_>>().join(&b' ')
    }

    /// Returns the rules for channels as text.
    pub(super) fn channels_text(&self) -> Vec<u8> {
        self.channels.iter().map(|pattern| [b"&", &pattern[..]].concat()).collect::<Vec<_>>().join(&b' ')
    }
}

impl Rights {
    /// Returns the rules for namespaces as text.
    pub(super) fn namespaces_text(&self) -> Vec<u8> {
        self.namespaces.iter().map(|name| format!("ns={name}")).collect::<Vec<_>>().join(" ").into_bytes()
    }
}

/// Returns the only text that a pattern matches; `None` if it may match several.
fn literal(pattern: &[u8]) -> Option<Vec<u8>> {
    let (mut text, mut bytes) = (Vec::with_capacity(pattern.len()), pattern.iter());
    while let Some(byte) = bytes.next() {
        text.push(match byte {
            b'\\' => *bytes.next()?,
            b'*' | b'?' | b'[' => return None,
            byte => *byte,
        });
    }
    Some(text)
}

/// Parses a number of requests per second.
fn ops_number(text: &[u8]) -> Result<u64, RuleError> {
    parse_u64(text).filter(|number| *number < 1_000_000_000).ok_or(OPS_NUMBER)
}

/// Returns an error if matching the pattern may take too many steps.
fn bounded(pattern: &[u8]) -> Result<(), RuleError> {
    if is_bounded(pattern) { Ok(()) } else { Err(TOO_COMPLEX) }
}

/// Returns an error if the pattern contains white space or a zero byte. Rules are stored as words of a line, which
/// cannot contain these bytes.
fn plain(pattern: &[u8]) -> Result<(), RuleError> {
    if pattern.iter().all(|byte| is_plain(*byte)) { Ok(()) } else { Err("Syntax error") }
}

/// Returns bytes as text in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(rules: &[&str]) -> Rights {
        let mut rights = Rights::none();
        for rule in rules {
            assert_eq!(rights.apply(rule.as_bytes()), Ok(Some(())), "{rule}");
        }
        rights
    }

    fn may(rights: &Rights, name: &str) -> bool {
        let mut words = name.split('|');
        let entry = find(words.next().unwrap().as_bytes()).unwrap();
        rights.allows(number_of(entry, words.next().map(str::as_bytes)))
    }

    #[test]
    fn later_command_rule_wins_and_a_container_rule_covers_its_subcommands() {
        let some = rights(&["+@read", "-get", "+config|get", "+client", "-client|kill"]);
        for (name, allowed) in [
            ("mget", true),
            ("get", false),
            ("set", false),
            ("config|get", true),
            ("config|set", false),
            ("config", false),
            ("client|id", true),
            ("client|kill", false),
        ] {
            assert_eq!(may(&some, name), allowed, "{name}");
        }
        assert_eq!(some.commands_text(), "-@all +@read -get +config|get +client -client|kill");
        let again = rights(&["+config|get", "+config|set", "-config"]);
        assert_eq!((again.commands_text().as_str(), may(&again, "config|get")), ("-@all -config", false));
        assert!(Rights::all().is_all() && !rights(&["+@all", "allkeys"]).is_all());
        let mut all = Rights::all();
        all.apply(b"-debug").unwrap();
        assert!(!all.is_all() && !may(&all, "debug") && may(&all, "get"));
    }

    #[test]
    fn lesser_role_takes_the_rights_of_a_greater_one_away() {
        let mut some = rights(&["~a:*", "role:write", "+lpush"]);
        let allowed = |some: &Rights| ["get", "set", "flushdb", "ping", "config|set"].map(|name| may(some, name));
        assert_eq!(allowed(&some), [true, true, false, true, false]);
        assert_eq!(some.commands_text(), "-@all +@read +@write +@connection -@dangerous -function +lpush");
        some.apply(b"ROLE:read").unwrap();
        assert_eq!(allowed(&some), [true, false, false, true, false]);
        assert_eq!(some.commands_text(), "-@all +@read +@connection -@dangerous");
        assert_eq!(some.keys_text(), b"~a:*", "a role has no keys");
        some.apply(b"ns=shop").unwrap();
        some.apply(b"role:admin").unwrap();
        assert!(some.is_all());
        for unknown in ["role:", "role:reader", "role:read "] {
            assert_eq!(some.apply(unknown.as_bytes()), Err(UNKNOWN_ROLE), "{unknown}");
        }
    }

    #[test]
    fn a_key_needs_a_pattern_that_allows_all_that_is_done_to_it() {
        let some = rights(&["~a:*", "%R~r*", "%W~w*", "%RW~b"]);
        for (key, read, write) in
            [("a:1", true, true), ("r1", true, false), ("w1", false, true), ("b", true, true), ("c", false, false)]
        {
            let may = (some.allows_key(key.as_bytes(), READ), some.allows_key(key.as_bytes(), WRITE));
            assert_eq!(may, (read, write), "{key}");
        }
        assert_eq!(some.keys_text(), b"~a:* %R~r* %W~w* ~b");
        assert!(some.allows_key(b"r1", 0) && !some.allows_key(b"c", 0), "existence is hidden too");
    }

    #[test]
    fn a_pattern_of_channels_may_be_subscribed_to_only_as_it_was_allowed() {
        let some = rights(&["&news:*"]);
        assert!(some.allows_channel(b"news:1", false) && some.allows_channel(b"news:*", true));
        assert!(!some.allows_channel(b"news:a*", true) && !some.allows_channel(b"other", false));
    }

    #[test]
    fn namespace_rule_matches_by_name_or_number_and_no_rule_allows_all() {
        let some = rights(&["ns=shop", "ns=5", "NS=shop"]);
        for (number, name, allowed) in [(3, "shop", true), (5, "any", true), (5, "5", true), (6, "6", false)] {
            assert_eq!(some.allows_namespace(number, name), allowed, "{number} {name}");
        }
        assert_eq!(some.namespaces_text(), b"ns=shop ns=5");
        let mut all = Rights::all();
        assert!(all.apply(b"ns=shop").is_ok() && !all.is_all());
        assert!(all.apply(b"allns").is_ok() && all.is_all() && all.namespaces_text().is_empty());
        assert!(all.apply(b"ns=").is_err() && all.apply(b"ns=a b").is_err());
    }

    #[test]
    fn quota_of_requests_is_a_rule_that_the_last_one_sets() {
        let mut some = rights(&["role:admin", "ops=5"]);
        assert_eq!((some.ops_max(), some.is_all(), some.is_unrestricted()), (5, true, false));
        for wrong in ["ops=", "ops=-1", "ops=1000000000", "ops=1k", "ops= 1"] {
            assert_eq!(some.apply(wrong.as_bytes()), Err(OPS_NUMBER), "{wrong}");
        }
        some.apply(b"OPS=0").unwrap();
        assert_eq!((some.ops_max(), some.is_unrestricted()), (0, true));
    }

    #[test]
    fn a_rule_that_is_none_changes_nothing() {
        let mut some = rights(&["~a", "+get"]);
        for rule in [
            "+nosuch",
            "+@nosuch",
            "+client|nosuch",
            "%~x",
            "%RR~x",
            "%X~x",
            "~a b",
            "&a b",
            "~a\tb",
            "&\x0c",
            "ns=a\tb",
        ] {
            assert!(some.apply(rule.as_bytes()).is_err(), "{rule}");
        }
        assert_eq!(some.apply(b"nonsense"), Ok(None));
        assert_eq!((some.commands_text(), some.keys_text()), ("-@all +get".to_owned(), b"~a".to_vec()));
        assert!(some.apply(b"+lpush").is_ok(), "a Redis command that this server does not support");
    }
}
