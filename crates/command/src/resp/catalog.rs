//! The catalog of commands: the syntax of each command, its effect on keys, and its documentation. The functions that
//! execute the commands are in [`super::functions`], in the same order.

mod rows;

pub(super) use rows::COMMAND_COUNT;

use super::subcommands::{accepts, find_subcommand};
use crate::metrics::Command;
use arrayvec::ArrayVec;
use protocol::resp::Args;
use rows::ROWS;

/// A property of a command, as `COMMAND INFO` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// The command changes keys.
    Write,
    /// The command reads keys.
    ReadOnly,
    /// The command may be refused if memory is used up.
    DenyOom,
    /// The command takes constant or logarithmic time.
    Fast,
    /// The command is for operators.
    Admin,
    /// An unauthenticated client may call the command.
    NoAuth,
    /// The command is executed even while the server starts.
    Loading,
    /// In Redis, a replica executes the command even if it lags behind its primary.
    Stale,
    /// In Redis, the command is refused while a replica loads a data set beside its own.
    NoAsyncLoading,
    /// The command publishes or subscribes.
    PubSub,
    /// No script may call the command.
    NoScript,
    /// In Redis, the command is executed even while a script runs too long.
    AllowBusy,
    /// The slow log does not contain the command.
    SkipSlowlog,
    /// Monitoring clients see the command before its own commands.
    SkipMonitor,
    /// The command may be called without keys.
    NoMandatoryKeys,
    /// The places of the keys depend on the arguments.
    MovableKeys,
    /// The command may wait for a change of a key.
    Blocking,
}

impl Flag {
    /// Returns the flag's name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::ReadOnly => "readonly",
            Self::DenyOom => "denyoom",
            Self::Fast => "fast",
            Self::Admin => "admin",
            Self::NoAuth => "no_auth",
            Self::Loading => "loading",
            Self::Stale => "stale",
            Self::NoAsyncLoading => "no_async_loading",
            Self::PubSub => "pubsub",
            Self::NoScript => "noscript",
            Self::AllowBusy => "allow_busy",
            Self::SkipSlowlog => "skip_slowlog",
            Self::SkipMonitor => "skip_monitor",
            Self::NoMandatoryKeys => "no_mandatory_keys",
            Self::MovableKeys => "movablekeys",
            Self::Blocking => "blocking",
        }
    }
}

/// A command.
#[derive(Clone, Copy)]
pub struct CommandSpec {
    /// The name, in lower case.
    pub name: &'static str,
    /// The number of words, including the name. A negative number -n means n words or more.
    pub arity: i8,
    /// Properties of the command.
    pub flags: &'static [Flag],
    /// The positions of the first and last key among the arguments, counted from 1, and the step between keys. A
    /// negative position is counted from the end, and 0 means that the command has no keys. If the step is negative,
    /// the actual step is one more than the number of bins in the first argument. The last position
    /// may be [`COUNTED`], [`STORED`] or [`STREAMED`].
    pub keys: (i8, i8, i8),
    /// The command's access categories. Those of a container are on its subcommands.
    pub categories: &'static [&'static str],
    /// The version of Redis that introduced the command; empty if Redis does not have it.
    pub since: &'static str,
    /// The group of the command in Redis's documentation.
    pub group: &'static str,
    /// The time complexity of the command.
    pub complexity: &'static str,
    /// The summary of the command, in one line.
    pub summary: &'static str,
    /// The kind of command under which its latency is recorded.
    pub(super) kind: Command,
    /// The command's index in [`COMMANDS`].
    pub(super) number: usize,
    /// The arity; 0, which no request meets, for a command whose first argument is a subcommand (a container), because
    /// its subcommand must be checked too.
    arity_without_part: i8,
}

impl CommandSpec {
    /// Returns true if a request of the command may have `words` words, including the name.
    pub(super) fn accepts_words(&self, words: usize) -> bool {
        accepts(self.arity, words)
    }

    /// Returns true if a request with `words` words has a right number of them, and no subcommand to check.
    #[inline(always)]
    pub(super) fn needs_no_check(&self, words: usize) -> bool {
        accepts(self.arity_without_part, words)
    }

    /// Returns true if the first argument of the command is a subcommand.
    pub(super) fn is_container(&self) -> bool {
        self.arity_without_part == 0
    }

    /// Returns true if a request of the command waits while writes are paused, and read-only scripts may not execute
    /// it: it changes keys, publishes, may change a HyperLogLog's stored count in Redis, or executes a script that may
    /// write. `first` is the first argument, which is the subcommand of a container.
    pub(super) fn waits_with_writes(&self, first: Option<&[u8]>) -> bool {
        let part = first.filter(|_| self.is_container()).and_then(|first| find_subcommand(self.name, first));
        if let Some((_, part)) = part {
            return part.categories.contains(&"write");
        }
        self.has(Flag::Write) || matches!(self.name, "pfcount" | "publish" | "spublish" | "eval" | "evalsha" | "fcall")
    }

    /// Returns true if `reply`, the reply to a request of the command, has the form of messages to a subscriber. A
    /// client that has switched replies off still receives them.
    pub(super) fn replies_in_pushes(&self, reply: &[u8]) -> bool {
        // These are the commands that subscribe and unsubscribe. Their errors are ordinary replies.
        self.has(Flag::PubSub) && self.has(Flag::NoScript) && reply.first() != Some(&b'-')
    }

    /// Returns the positions of the keys in a request with the arguments `words`: two ranges, each as the number of
    /// arguments before its first key, and the number of arguments from its first key to its last, including both.
    #[inline]
    fn keys_places(&self, words: Args<'_>) -> [(usize, usize); 2] {
        let ((first, last, _), args) = (self.keys, words.len());
        if first <= 0 {
            return [(0, 0); 2];
        }
        if matches!(last, COUNTED | STORED | STREAMED) {
            return movable_places(self, words);
        }
        let behind =
            if last < 0 { (args + 2).saturating_sub(usize::from(last.unsigned_abs())) } else { last as usize + 1 };
        [(first as usize - 1, behind.min(args + 1).saturating_sub(first as usize)), (0, 0)]
    }

    /// Returns the arguments that are keys.
    pub(super) fn keys_of<'c>(&self, args: Args<'c>) -> impl Iterator<Item = &'c [u8]> + use<'c> {
        let [(before, count), (more_before, more)] = self.keys_places(args);
        args.skip(before).take(count).step_by(self.step(args)).chain(args.skip(more_before).take(more))
    }

    /// Returns the number of arguments that are keys.
    pub(super) fn key_count(&self, args: Args<'_>) -> usize {
        let [(_, count), (_, more)] = self.keys_places(args);
        count.div_ceil(self.step(args)) + more
    }

    fn step(&self, mut args: Args<'_>) -> usize {
        if self.keys.2 >= 0 {
            return self.keys.2.max(1) as usize;
        }
        args.next().unwrap_or_default().iter().filter(|byte| **byte == b',').count() + 2
    }

    /// Returns true if the command runs a script.
    pub(super) fn runs_script(&self) -> bool {
        self.has(Flag::SkipMonitor)
    }

    pub(super) fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }
}

/// The last position of the keys of a command whose argument before the first key is the number of keys. If the first
/// position is 1, the first argument is a key, the second the number of further keys, and those follow. If the step is
/// 2, each key is followed by its value.
pub(super) const COUNTED: i8 = i8::MIN;
/// The last position of the keys of a command with one key, and a second one behind the word `STORE` or `STOREDIST`
/// among its options.
pub(super) const STORED: i8 = i8::MIN + 1;

/// Returns the positions of keys that depend on other arguments, as [`CommandSpec::keys_places`] does.
#[cold]
fn movable_places(entry: &CommandSpec, words: Args<'_>) -> [(usize, usize); 2] {
    let (first, last, step) = entry.keys;
    let before = first as usize - 1;
    match (last, before) {
        (STREAMED, _) => [streamed_place(words), (0, 0)],
        (STORED, _) => [(before, 1), stored_place(words, words_before_options(entry.name))],
        (_, 0) => [(0, 1), counted_place(2, words, 1)],
        _ => [counted_place(before, words, step as usize), (0, 0)],
    }
}

/// Returns the position of the keys whose number is in the argument before them: the number of arguments before the
/// first key, and the number of arguments that are keys or values. `step` is the number of arguments of each key.
pub(super) fn counted_place(before: usize, words: Args<'_>, step: usize) -> (usize, usize) {
    let count = words.into_iter().nth(before - 1).and_then(base::decimal::parse_signed).unwrap_or(0);
    let count = usize::try_from(count).unwrap_or(0).saturating_mul(step);
    (before, count.min(words.len().saturating_sub(before)))
}

/// Returns the number of arguments before the options of a command that may store its result. No member of
/// `GEORADIUSBYMEMBER` is an option, whatever its text.
fn words_before_options(name: &str) -> u32 {
    match name {
        "georadius" => 5,
        "georadiusbymember" => 4,
        _ => 1,
    }
}

/// Returns the position of the key behind the last word `STORE` or `STOREDIST` among the options, which follow `before`
/// arguments: the number of arguments before the key, and 1, or 0 if there is none.
fn stored_place(words: Args<'_>, before: u32) -> (usize, usize) {
    let (mut place, mut options) = ((0, 0), words.split(before).1);
    while let Some(word) = options.next() {
        let passed = match &lower(word)[..] {
            b"store" | b"storedist" if options.len() > 0 => {
                place = (words.len() - options.len(), 1);
                1
            }
            b"by" | b"get" => 1,
            b"limit" => 2,
            _ => 0,
        };
        options.by_ref().take(passed).for_each(drop);
    }
    place
}

/// The last position of the keys of a command that reads streams: the keys are the first half of the arguments after
/// the option `STREAMS`.
pub(super) const STREAMED: i8 = i8::MIN + 2;

/// Returns the position of the keys after the option `STREAMS`: the number of arguments before the first key, and the
/// number of keys.
fn streamed_place(words: Args<'_>) -> (usize, usize) {
    let mut left = words;
    while let Some(word) = left.next() {
        let values = match &lower(word)[..] {
            b"streams" => return (words.len() - left.len(), left.len() / 2),
            b"block" | b"count" => 1,
            b"group" => 2,
            b"noack" => 0,
            _ => break,
        };
        left = left.split(values).1;
    }
    (0, 0)
}

/// The maximum length in bytes of an option, and of the name of a command that is found by the table of names.
const NAME_MAX: usize = 16;

/// Returns the first words of a request. Missing words are empty.
pub(super) fn words<const N: usize>(mut args: Args<'_>) -> [&[u8]; N] {
    [(); N].map(|()| args.next().unwrap_or_default())
}

/// Returns a word in lower case. Returns an empty word if it is longer than every name.
pub(super) fn lower(word: &[u8]) -> ArrayVec<u8, NAME_MAX> {
    let mut lower = ArrayVec::new();
    if word.len() <= NAME_MAX {
        lower.extend(word.iter().map(u8::to_ascii_lowercase));
    }
    lower
}

/// Converts a name of at most [`NAME_MAX`] bytes to lower case and then to a number, in which the first byte is the
/// most significant. Numbers therefore sort in the same order as names.
const fn name_as_number(name: &[u8]) -> u128 {
    let mut word = [0; NAME_MAX];
    word.split_at_mut(name.len()).0.copy_from_slice(name);
    word.make_ascii_lowercase();
    u128::from_be_bytes(word)
}

/// Returns true if two names are equal.
pub(super) const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// The names of all commands as numbers (see [`name_as_number`]), in the order of [`COMMANDS`].
static PACKED: [u128; COMMAND_COUNT] = {
    let mut all = [0; COMMAND_COUNT];
    let (mut at, mut before) = (0, 0);
    while at < COMMAND_COUNT {
        // A longer name has the number 0, which no name has.
        if ROWS[at].name.len() <= NAME_MAX {
            all[at] = name_as_number(ROWS[at].name.as_bytes());
            assert!(before < all[at], "commands are in the order of their names");
            before = all[at];
        }
        at += 1;
    }
    all
};

/// A hash table of the names, with linear probing. The place at a name's hash, or one of the next places, contains the
/// command's index in [`COMMANDS`] plus one. An empty place contains 0. At most half of the places are used, so that
/// each search for an unknown name ends at an empty place.
static PLACES: [u16; PLACE_COUNT] = {
    assert!(COMMAND_COUNT <= PLACE_COUNT / 2 && COMMAND_COUNT < u16::MAX as usize);
    let mut places = [0; PLACE_COUNT];
    let mut number = 0;
    while number < COMMAND_COUNT {
        if ROWS[number].name.len() > NAME_MAX {
            number += 1;
            continue;
        }
        let mut place = first_place(name_as_number(ROWS[number].name.as_bytes()));
        while places[place] != 0 {
            place = (place + 1) % PLACE_COUNT;
        }
        number += 1;
        places[place] = number as u16;
    }
    places
};

const PLACE_COUNT: usize = 1024;

/// Returns the place at which a search for a name begins. The place is a multiplicative hash of the name: the two
/// halves of the name are combined by XOR and multiplied by 2^64 divided by the golden ratio, and the upper bits of the
/// product are the hash (Knuth, The Art of Computer Programming, volume 3, section 6.4).
#[inline]
const fn first_place(packed: u128) -> usize {
    let folded = (packed >> 64) as u64 ^ packed as u64;
    (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - PLACE_COUNT.trailing_zeros())) as usize
}

/// Returns the command with this name, which must exist.
pub(super) fn entry(name: &'static str) -> &'static CommandSpec {
    find(name.as_bytes()).expect("a command of the table")
}

/// Returns the command with this name, in upper or lower case.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    if name.len() > NAME_MAX || name.is_empty() {
        return find_long(name);
    }
    let packed = name_as_number(name);
    let mut place = first_place(packed);
    loop {
        let at = usize::from(PLACES[place]).checked_sub(1)?;
        if PACKED[at] == packed {
            // A NUL byte at the end of a requested name does not change the name's number, so the lengths are compared
            // too.
            return Some(&COMMANDS[at]).filter(|entry| entry.name.len() == name.len());
        }
        place = (place + 1) % PLACE_COUNT;
    }
}

/// Returns the command with this name, in upper or lower case, which is longer than [`NAME_MAX`].
#[cold]
fn find_long(name: &[u8]) -> Option<&'static CommandSpec> {
    let is_long = |entry: &&CommandSpec| entry.name.len() > NAME_MAX;
    COMMANDS.iter().filter(is_long).find(|entry| entry.name.as_bytes().eq_ignore_ascii_case(name))
}

/// All commands, in the order of their names.
pub static COMMANDS: [CommandSpec; COMMAND_COUNT] = {
    let mut rows = ROWS;
    let mut number = 0;
    while number < rows.len() {
        rows[number].number = number;
        number += 1;
    }
    rows
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lookup_is_case_insensitive_and_exact() {
        for entry in COMMANDS {
            for name in [entry.name.to_owned(), entry.name.to_uppercase()] {
                assert_eq!(find(name.as_bytes()).map(|found| found.name), Some(entry.name));
            }
            assert!(find(&entry.name.as_bytes()[1..]).is_none_or(|found| found.name != entry.name));
        }
        for none in ["", "getx", "a-command-that-is-too-long", "get\0"] {
            assert!(find(none.as_bytes()).is_none(), "{none}");
        }
    }

    #[test]
    fn a_search_for_a_name_that_no_command_has_ends_within_eight_places() {
        let full = PLACES.split(|place| *place == 0).map(<[u16]>::len).max();
        assert!(full.is_some_and(|longest| longest < 8), "{full:?}");
        // A group of used places would continue from the last place to the first one, which `split` does not see.
        // Therefore, not both of these places may be used.
        assert!(PLACES[0] == 0 || PLACES[PLACE_COUNT - 1] == 0);
    }

    #[test]
    fn command_categories_match_its_flags() {
        for entry in COMMANDS.iter().filter(|entry| !entry.is_container()) {
            assert_eq!(entry.has(Flag::Write), entry.categories.contains(&"write"), "{}", entry.name);
            // As in Redis, commands that run scripts are not in the category of reads.
            let reads = entry.has(Flag::ReadOnly) && !entry.categories.contains(&"scripting");
            assert_eq!(reads, entry.categories.contains(&"read"), "{}", entry.name);
            assert_ne!(entry.categories.contains(&"fast"), entry.categories.contains(&"slow"), "{}", entry.name);
            assert_eq!(entry.has(Flag::Fast), entry.categories.contains(&"fast"), "{}", entry.name);
        }
    }
}
