//! Keys that the target does not have, because it refused a change of them.
//!
//! A later command may change such a key relative to its value, and would leave a value that the source never had. So
//! the key is deleted at the target, and commands that need its old value are not sent, until a command gives the key a
//! whole new value:
//!
//! ```text
//!   SET big ...      refused                     big is missing, and deleted at the target
//!   APPEND big y     needs the old value         not sent, counted
//!   RENAME big b     needs the value of big      not sent, counted; b is missing too
//!   SET b ...        replaces the whole value    sent; b is complete again
//! ```
//! Requests are sent before the replies to earlier ones arrive. Those that were sent meanwhile are judged when the
//! refusal arrives.
//!
//! Bounds: [`KEYS_MAX`] keys. The import ends if more are missing.

use std::collections::BTreeSet;

use crate::reconnect::RequestError;

/// Highest number of missing keys.
const KEYS_MAX: usize = 1 << 20;
/// Highest number of missing keys that are listed at the end.
const LISTED_MAX: usize = 20;
/// Number of bytes of a key that are displayed.
const KEY_BYTES_SHOWN: usize = 60;

/// A key of the target, with its database.
pub(super) type DbKey = (u32, Vec<u8>);

/// The keys of a command, by their use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyUse {
    /// Keys that are deleted, or get a value that does not depend on their old one.
    replaced: Vec<DbKey>,
    /// Keys that are changed relative to their value.
    changed: Vec<DbKey>,
    /// Keys on whose values the new ones depend.
    sources: Vec<DbKey>,
}

/// Commands whose first key gets a whole new value.
const WHOLE: [&str; 6] = ["SET", "SETEX", "PSETEX", "SETNX", "GETSET", "RESTORE"];
/// Commands that store a combination of all further keys in the first one.
const COMBINED: [&str; 3] = ["SUNIONSTORE", "SINTERSTORE", "SDIFFSTORE"];
/// The same, with a number of keys after the first one.
const COUNTED: [&str; 3] = ["ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"];
/// Commands that change both of their first two words.
const PAIRED: [&str; 5] = ["SMOVE", "LMOVE", "RPOPLPUSH", "BLMOVE", "BRPOPLPUSH"];
/// Commands with a script or function, whose keys follow their number.
const SCRIPTED: [&str; 3] = ["EVAL", "EVALSHA", "FCALL"];

impl KeyUse {
    /// Returns the use of one key that gets a whole new value.
    pub fn of_value(db: u32, key: &[u8]) -> Self {
        Self { replaced: vec![(db, key.to_vec())], ..Self::default() }
    }

    /// Returns the keys of a command, by its name in upper case. A command that is not known changes its first key.
    pub fn of(name: &str, words: &[&[u8]], db: u32) -> Self {
        let keys = |range: std::ops::Range<usize>| -> Vec<DbKey> {
            let range = range.start.min(words.len())..range.end.min(words.len());
            words.get(range).unwrap_or_default().iter().map(|word| (db, word.to_vec())).collect()
        };
        let first = keys(1..2);
        let counted = |at: usize| {
            let count = words.get(at).and_then(|word| std::str::from_utf8(word).ok()?.parse::<usize>().ok());
            keys(at + 1..(at + 1).saturating_add(count.unwrap_or(0)))
        };
        let behind = |option: &str| {
            (2..words.len())
                .find(|at| words[*at].eq_ignore_ascii_case(option.as_bytes()))
                .map(|at| keys(at + 1..at + 2))
        };
        let (replaced, changed, sources) = match name {
            // A replica executes `SET` with `XX` only if it has the key.
            "SET" if words.iter().skip(3).any(|word| word.eq_ignore_ascii_case(b"XX")) => (vec![], first, vec![]),
            _ if WHOLE.contains(&name) => (first, vec![], vec![]),
            "MSET" | "MSETNX" => {
                (words.iter().skip(1).step_by(2).map(|key| (db, key.to_vec())).collect(), vec![], vec![])
            }
            "DEL" | "UNLINK" | "GETDEL" => (keys(1..words.len()), vec![], vec![]),
            "RENAME" | "RENAMENX" | "COPY" => (keys(2..3), vec![], first),
            "ZRANGESTORE" | "GEOSEARCHSTORE" => (first, vec![], keys(2..3)),
            _ if COMBINED.contains(&name) => (first, vec![], keys(2..words.len())),
            _ if COUNTED.contains(&name) => (first, vec![], counted(2)),
            "BITOP" => (keys(2..3), vec![], keys(3..words.len())),
            "SORT" | "GEORADIUS" | "GEORADIUSBYMEMBER" => match behind("STORE").or_else(|| behind("STOREDIST")) {
                Some(to) => (to, vec![], first),
                None => (vec![], vec![], first),
            },
            "PFMERGE" => (vec![], first, keys(2..words.len())),
            _ if PAIRED.contains(&name) => (vec![], keys(1..3), vec![]),
            _ if SCRIPTED.contains(&name) => (vec![], counted(2), vec![]),
            "XGROUP" => (vec![], keys(2..3), vec![]),
            "FLUSHDB" | "SWAPDB" | "FUNCTION" | "SCRIPT" | "PUBLISH" | "SPUBLISH" => (vec![], vec![], vec![]),
            _ => (vec![], first, vec![]),
        };
        Self { replaced, changed, sources }
    }

    /// Returns the keys whose values the command sets.
    pub fn written(&self) -> impl Iterator<Item = &DbKey> {
        self.replaced.iter().chain(&self.changed)
    }

    /// Follows the execution of the command at the source. Returns whether the command needs the value of a missing
    /// key; the keys that it sets are missing then too. Otherwise the keys that it replaces are complete again.
    fn follow(&self, missing: &mut BTreeSet<DbKey>) -> bool {
        let needs_missing = self.changed.iter().chain(&self.sources).any(|key| missing.contains(key));
        if needs_missing {
            missing.extend(self.written().cloned());
        } else {
            self.replaced.iter().for_each(|key| _ = missing.remove(key));
        }
        needs_missing
    }
}

/// The missing keys.
#[derive(Debug, Default)]
pub(super) struct MissingKeys {
    keys: BTreeSet<DbKey>,
    /// The keys that are not deleted at the target yet.
    to_delete: BTreeSet<DbKey>,
}

impl MissingKeys {
    /// Adds keys that the target refused to set. `sent` are the uses of the keys of the requests that were sent since.
    pub fn refused<'u>(
        &mut self,
        keys: impl IntoIterator<Item = DbKey>,
        sent: impl Iterator<Item = &'u KeyUse>,
    ) -> Result<(), RequestError> {
        let mut missing: BTreeSet<DbKey> = keys.into_iter().collect();
        sent.for_each(|keys| _ = keys.follow(&mut missing));
        self.to_delete.extend(missing.iter().cloned());
        self.keys.append(&mut missing);
        if self.keys.len() > KEYS_MAX {
            return Err(RequestError::Refused(format!(
                "the target refused changes of more than {KEYS_MAX} keys; raise its store.item_max, and import again \
                 with --flush"
            )));
        }
        Ok(())
    }

    /// Returns whether a command must not be sent, because it needs the value of a missing key.
    pub fn withholds(&mut self, keys: &KeyUse) -> bool {
        if self.keys.is_empty() {
            return false;
        }
        let is_withheld = keys.follow(&mut self.keys);
        if is_withheld {
            self.to_delete.extend(keys.written().cloned());
        } else {
            keys.replaced.iter().for_each(|key| _ = self.to_delete.remove(key));
        }
        is_withheld
    }

    /// Returns the keys that have to be deleted at the target, once.
    pub fn take_deletions(&mut self) -> BTreeSet<DbKey> {
        std::mem::take(&mut self.to_delete)
    }

    /// Follows `FLUSHDB`.
    pub fn flushed(&mut self, db: u32) {
        self.keys.retain(|(of, _)| *of != db);
        self.to_delete.retain(|(of, _)| *of != db);
    }

    /// Follows `SWAPDB`.
    pub fn swapped(&mut self, one: u32, other: u32) {
        let moved = |db: u32| {
            if db == one {
                other
            } else if db == other {
                one
            } else {
                db
            }
        };
        for keys in [&mut self.keys, &mut self.to_delete] {
            *keys = std::mem::take(keys).into_iter().map(|(db, key)| (moved(db), key)).collect();
        }
    }

    /// Forgets all keys, because the data is loaded again.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Describes the missing keys; `None` if there are none.
    pub fn note(&self) -> Option<String> {
        if self.keys.is_empty() {
            return None;
        }
        let shown = |(db, key): &DbKey| {
            let key = key[..key.len().min(KEY_BYTES_SHOWN)].escape_ascii();
            if *db == 0 { key.to_string() } else { format!("{key} (database {db})") }
        };
        let listed: Vec<String> = self.keys.iter().take(LISTED_MAX).map(shown).collect();
        let more = if self.keys.len() > LISTED_MAX { ", ..." } else { "" };
        let count = self.keys.len();
        Some(format!(
            "{count} keys are missing at the target, because it refused a change of them: {}{more}",
            listed.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(line: &str) -> KeyUse {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        KeyUse::of(&line.split(' ').next().unwrap().to_ascii_uppercase(), &words, 0)
    }

    fn missing(keys: &MissingKeys) -> Vec<&str> {
        keys.keys.iter().map(|(_, key)| std::str::from_utf8(key).unwrap()).collect()
    }

    fn refused(keys: &mut MissingKeys, line: &str, sent: &[&str]) {
        let sent: Vec<KeyUse> = sent.iter().map(|line| uses(line)).collect();
        keys.refused(uses(line).written().cloned(), sent.iter()).unwrap();
    }

    #[test]
    fn key_stays_missing_until_a_command_replaces_its_whole_value() {
        let mut keys = MissingKeys::default();
        assert!(!keys.withholds(&uses("APPEND big y")));
        refused(&mut keys, "SET big long", &[]);
        for line in [
            "APPEND big y",
            "EXPIRE big 9",
            "SETRANGE big 0 x",
            "SET big y XX",
            "HSET big f v",
            "XGROUP CREATE big g 0",
        ] {
            assert!(keys.withholds(&uses(line)), "{line}");
        }
        assert!(!keys.withholds(&uses("APPEND other y")));
        assert_eq!(missing(&keys), ["big"]);
        assert_eq!(keys.take_deletions().len(), 1);
        assert!(keys.note().unwrap().starts_with("1 keys are missing") && keys.note().unwrap().ends_with(": big"));
        assert!(!keys.withholds(&uses("SET big whole")) && !keys.withholds(&uses("APPEND big y")));
        assert!(keys.note().is_none());
        refused(&mut keys, "MSET a 1 b 2", &[]);
        assert!(!keys.withholds(&uses("DEL a x")));
        assert_eq!(missing(&keys), ["b"]);
        keys.swapped(0, 3);
        assert_eq!(keys.note().unwrap().split(": ").last(), Some("b (database 3)"));
        keys.flushed(3);
        assert!(keys.note().is_none() && keys.take_deletions().is_empty());
    }

    #[test]
    fn value_made_of_a_missing_one_is_missing_too() {
        for (line, also) in [
            ("RENAME big b", "b"),
            ("COPY big b", "b"),
            ("SUNIONSTORE b a big", "b"),
            ("ZUNIONSTORE b 2 a big WEIGHTS 1 1", "b"),
            ("BITOP OR b a big", "b"),
            ("SORT big STORE b", "b"),
            ("PFMERGE b big", "b"),
            ("SMOVE big b member", "b"),
        ] {
            let mut keys = MissingKeys::default();
            refused(&mut keys, "SET big long", &[]);
            assert!(keys.withholds(&uses(line)), "{line}");
            assert_eq!(missing(&keys), [also, "big"], "{line}");
        }
        let mut keys = MissingKeys::default();
        refused(&mut keys, "SET big long", &[]);
        for line in ["ZUNIONSTORE b 1 a big", "SMOVE a b big", "BITOP OR big a b", "SORT a"] {
            assert!(!keys.withholds(&uses(line)), "{line}");
        }
        assert!(keys.note().is_none(), "a command has replaced the key");
    }

    #[test]
    fn requests_sent_before_the_refusal_arrived_are_judged_afterwards() {
        let mut keys = MissingKeys::default();
        refused(&mut keys, "SET big long", &["APPEND big y", "SET big whole", "APPEND big z"]);
        assert!(keys.note().is_none() && keys.take_deletions().is_empty());
        refused(&mut keys, "SET big long", &["RENAME big b", "SET c 1", "APPEND c 2"]);
        assert_eq!(missing(&keys), ["b", "big"]);
        assert_eq!(keys.take_deletions().len(), 2);
    }
}
