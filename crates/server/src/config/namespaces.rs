//! Reads the namespaces of the configuration file, one `[[namespace]]` table for each. [`KEYS`] defines the keys of
//! such a table.
//!
//! ```text
//! [[namespace]]
//! name = "sessions"              ──> number 1, 256 MiB of the store's memory, its own listener
//! memory = "256MiB"
//! memcached = ["127.0.0.1:11212"]
//! prefix = "session:"               ──> also keys with this prefix from clients of listen.memcached
//! ```

use base::units::{ByteSize, TimeSpan};
use segment::Namespace;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::{Reader, toml_text};
use super::kinds::ListenAddress;
use super::prefix::{self, Prefixes};
use super::value::{Auto, Shape, Value, Wrong};
use command::keyspace::namespace_config::{NAME_BYTES_MAX, NamespaceConfig};
use command::keyspace::namespaces::DEFAULT_NAME;

/// The name of the TOML tables.
pub const TABLE: &str = "namespace";

/// A namespace's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceName(pub String);

impl Value for NamespaceName {
    fn read(&mut self, text: &str) -> Result<(), Wrong> {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let number = text.parse::<i64>().is_ok();
        if text.is_empty() || text.len() > NAME_BYTES_MAX || number || !text.bytes().all(letter) {
            let remedy = "write 1 to 63 letters, digits, '-', '_' and '.', but not only a number, as in \"sessions\"";
            return Err(Wrong::new(format!("{text:?} is not a valid namespace name"), remedy));
        }
        self.0 = text.to_owned();
        Ok(())
    }

    fn show(&self) -> String {
        self.0.clone()
    }

    fn shape(&self) -> Shape {
        Shape::Text
    }

    fn placeholder(&self) -> &'static str {
        "NAME"
    }
}

/// The settings of a namespace. The table ([`KEYS`]) describes each field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table documents each field")]
pub struct NamespaceSettings {
    pub name: NamespaceName,
    pub number: Auto<u64>,
    pub memory: Auto<ByteSize>,
    pub evict: Auto<bool>,
    pub ttl_default: TimeSpan,
    pub ttl_max: TimeSpan,
    pub maxconns: u64,
    pub ops_max: u64,
    pub memcached: Vec<ListenAddress>,
    pub prefix: Prefixes,
    pub resp: Vec<ListenAddress>,
}

impl Default for NamespaceSettings {
    fn default() -> Self {
        Self {
            name: NamespaceName::default(),
            number: Auto::Auto,
            memory: Auto::Auto,
            evict: Auto::Auto,
            ttl_default: TimeSpan(0),
            ttl_max: TimeSpan(0),
            maxconns: 0,
            ops_max: 0,
            memcached: Vec::new(),
            prefix: Prefixes::default(),
            resp: Vec::new(),
        }
    }
}

/// One key of a `[[namespace]]` table.
pub struct Key {
    /// The key's name in the table.
    pub key: &'static str,
    /// The lowest and the highest value, in bytes, in nanoseconds or as a count.
    pub range: Option<(u64, u64)>,
    /// True if a running server applies a changed value, by its admin port or SIGHUP.
    pub live: bool,
    /// A description of the key, in whole sentences.
    pub help: &'static str,
    /// Returns the key's field in the settings.
    pub value: fn(&mut NamespaceSettings) -> &mut dyn Value,
}

const DAY_NS: u64 = TimeSpan::secs(86_400).0;

/// Every key, in the order of the output.
pub static KEYS: [Key; 11] = [
    Key {
        key: "name",
        range: None,
        live: false,
        help: "Name in SELECT, the admin port and figures; required. \"default\" is number 0, the namespace of every \
               client that no other setting assigns.",
        value: |n| &mut n.name,
    },
    Key {
        key: "number",
        range: Some((0, Namespace::MAX as u64 - 1)),
        live: false,
        help: "Number of the namespace in SELECT. auto: the lowest free number.",
        value: |n| &mut n.number,
    },
    Key {
        key: "memory",
        range: Some((1 << 20, 1 << 44)),
        live: true,
        help: "Memory reserved for this namespace: its items and those of other namespaces never evict each other. \
               All reservations together are limited to four fifths of store.memory. auto: the namespace shares the \
               memory of the default namespace.",
        value: |n| &mut n.memory,
    },
    Key {
        key: "evict",
        range: None,
        live: true,
        help: "Evict items to make room for new ones; if false, new items that do not fit are refused. auto: true, \
               unless the name says that it holds queues. For a namespace without its own memory, store.evict applies.",
        value: |n| &mut n.evict,
    },
    Key {
        key: "ttl_default",
        range: Some((0, 36_500 * DAY_NS)),
        live: true,
        help: "Time to live of items that are stored without an expiry, or whose expiry is removed. 0s: no expiry, \
               unless ttl_max is set.",
        value: |n| &mut n.ttl_default,
    },
    Key {
        key: "ttl_max",
        range: Some((0, 36_500 * DAY_NS)),
        live: true,
        help: "Longest time to live; a longer one is shortened to this. 0s: no limit.",
        value: |n| &mut n.ttl_max,
    },
    Key {
        key: "maxconns",
        range: Some((0, 1_000_000)),
        live: true,
        help: "Maximum number of open connections in the namespace. Above it, listeners refuse connections and \
               SELECT fails. 0: only limits.maxconns applies.",
        value: |n| &mut n.maxconns,
    },
    Key {
        key: "ops_max",
        range: Some((0, 1_000_000_000)),
        live: true,
        help: "Maximum number of requests per second. In each tenth of a second, requests above a tenth of it get \
               an error. 0: no limit.",
        value: |n| &mut n.ops_max,
    },
    Key {
        key: "memcached",
        range: None,
        live: false,
        help: "Addresses on which memcached clients of this namespace connect.",
        value: |n| &mut n.memcached,
    },
    Key {
        key: "prefix",
        range: None,
        live: true,
        help: "Key prefixes that select this namespace for clients connected to listen.memcached: a string or a \
               list. If several prefixes match, the longest applies. The prefix remains part of the key.",
        value: |n| &mut n.prefix,
    },
    Key {
        key: "resp",
        range: None,
        live: false,
        help: "Addresses on which Redis clients of this namespace connect.",
        value: |n| &mut n.resp,
    },
];

impl Key {
    /// Reads `texts` into `settings` if all of them are correct and in range. Otherwise changes nothing.
    ///
    /// # Errors
    /// If texts are wrong: an error for each.
    pub fn set(&self, settings: &mut NamespaceSettings, texts: &[&str]) -> Result<(), Vec<Wrong>> {
        let mut changed = settings.clone();
        let value = (self.value)(&mut changed);
        value.read_all(texts)?;
        if let (Some((min, max)), Some(magnitude)) = (self.range, value.magnitude())
            && !(min..=max).contains(&magnitude)
        {
            let side = if magnitude < min { "below the least" } else { "above the greatest" };
            return Err(vec![Wrong::new(
                format!("{} is {side} value", value.show()),
                format!("write a value from {} to {}", value.show_magnitude(min), value.show_magnitude(max)),
            )]);
        }
        *settings = changed;
        Ok(())
    }

    /// Returns this key's value in `settings`, in the syntax of the configuration file.
    pub fn text(&self, settings: &NamespaceSettings) -> String {
        toml_text((self.value)(&mut settings.clone()))
    }
}

impl NamespaceSettings {
    /// Returns the name, and the settings that differ from their defaults, as lines of the configuration file.
    pub fn lines(&self) -> String {
        let plain = Self { name: NamespaceName(String::new()), ..Self::default() };
        let said = KEYS.iter().filter(|key| key.text(self) != key.text(&plain));
        said.map(|key| format!("{} = {}\n", key.key, key.text(self))).collect()
    }

    /// Returns true if items are evicted to make room for new ones. By default, items of a namespace with memory of its
    /// own that is named for queues are not: a queue that is evicted is lost work.
    fn evicts(&self) -> bool {
        self.evict.explicit().unwrap_or(self.memory == Auto::Auto || !is_named_for_queues(&self.name.0))
    }

    /// Returns true if the namespace is named for queues, but shares its memory, so that its items may be evicted.
    pub fn may_lose_queues(&self) -> bool {
        self.evict == Auto::Auto && self.memory == Auto::Auto && is_named_for_queues(&self.name.0)
    }

    /// Returns the server's configuration of the namespace.
    pub fn config(&self, number: u8) -> NamespaceConfig {
        NamespaceConfig {
            name: self.name.0.clone(),
            number,
            memory_bytes: self.memory.explicit().map(|size| size.0),
            evict: self.evicts(),
            ttl_default_ms: self.ttl_default.as_ms_ceil(),
            ttl_max_ms: self.ttl_max.as_ms_ceil(),
            connections_max: self.maxconns,
            ops_max: self.ops_max,
            prefixes: self.prefix.0.clone(),
        }
    }

    /// Returns the error in these settings that is independent of the host and of the other namespaces.
    pub fn fault(&self) -> Option<Wrong> {
        let is_default = self.name.0 == DEFAULT_NAME;
        let number = self.number.explicit();
        if self.name.0.is_empty() {
            return Some(Wrong::new("this namespace has no name", "add one, as in name = \"sessions\""));
        }
        if is_default && number.is_some_and(|number| number != 0) || !is_default && number == Some(0) {
            return Some(Wrong::new("number 0 is reserved for the namespace \"default\"", "write another number"));
        }
        if is_default && self.memory != Auto::Auto {
            let remedy = "remove the line, and set the memory of the other namespaces";
            return Some(Wrong::new(
                "the memory of the default namespace cannot be set: it is what the other namespaces do not reserve",
                remedy,
            ));
        }
        if self.evict == Auto::Is(false) && self.memory == Auto::Auto && !is_default {
            let remedy = "set its memory, or set store.evict for all namespaces";
            return Some(Wrong::new(
                "evict needs memory of its own: namespaces that share memory are evicted together",
                remedy,
            ));
        }
        if self.ttl_max.0 > 0 && self.ttl_default > self.ttl_max {
            let what = format!("ttl_default, {}, is longer than ttl_max, {}", self.ttl_default, self.ttl_max);
            return Some(Wrong::new(what, "write a shorter time"));
        }
        None
    }
}

/// Words of names of namespaces that hold queues: what the queues hold, and the libraries that use them.
const QUEUE_WORDS: [&str; 16] = [
    "queue", "queues", "job", "jobs", "task", "tasks", "asynq", "bee", "bull", "bullmq", "celery", "kombu", "resque",
    "rq", "sidekiq", "taskiq",
];

/// Returns true if one of the words of a name says that the namespace holds queues. Words are separated by any
/// characters other than letters and digits.
fn is_named_for_queues(name: &str) -> bool {
    let mut words = name.split(|char: char| !char.is_ascii_alphanumeric());
    words.any(|word| QUEUE_WORDS.iter().any(|queue| word.eq_ignore_ascii_case(queue)))
}

/// Returns the numbers of namespaces, in their order. Each number is the configured number, or the lowest free number.
///
/// # Errors
/// If a namespace's name or number is used already, or no number is free: its position and the error.
pub fn numbers(namespaces: &[NamespaceSettings]) -> Result<Vec<u8>, (usize, Wrong)> {
    let mut numbers: Vec<Option<u8>> = Vec::new();
    for (place, namespace) in namespaces.iter().enumerate() {
        let earlier = &namespaces[..place];
        if earlier.iter().any(|other| other.name == namespace.name) {
            let what = format!("there are two namespaces {:?}", namespace.name.0);
            return Err((place, Wrong::new(what, "give one of them another name")));
        }
        let number = match namespace.number {
            _ if namespace.name.0 == DEFAULT_NAME => Some(0),
            Auto::Is(number) => Some(number as u8),
            Auto::Auto => None,
        };
        if number.is_some() && numbers.contains(&number) {
            let what = format!("another namespace has the number of {:?}", namespace.name.0);
            return Err((
                place,
                Wrong::new(what, "write another number, or remove the line to assign the lowest free number"),
            ));
        }
        numbers.push(number);
    }
    for place in 0..numbers.len() {
        if numbers[place].is_none() {
            let free = (1..Namespace::MAX as u8).find(|number| !numbers.contains(&Some(*number)));
            let most = Namespace::MAX;
            let full = || (place, Wrong::new(format!("there are more than {most} namespaces"), "remove some"));
            numbers[place] = Some(free.ok_or_else(full)?);
        }
    }
    Ok(numbers.into_iter().flatten().collect())
}

impl Reader<'_> {
    /// Reads the `[[namespace]]` tables.
    pub(super) fn namespaces(&mut self, at: usize, value: &Spanned<DeValue<'_>>) {
        let remedy = "write each as a table of its own, below a line [[namespace]]";
        let Some(tables) = value.get_ref().as_array() else {
            return self.fault(at, TABLE, "namespaces are a list of tables", remedy);
        };
        let (mut namespaces, mut places, mut prefix_places) = (Vec::new(), Vec::new(), Vec::new());
        for table in tables.iter() {
            let at = table.span().start;
            let Some(entries) = table.get_ref().as_table() else {
                return self.fault(at, TABLE, "a namespace is a table", remedy);
            };
            let before = self.faults.len();
            let namespace = self.namespace(entries, NamespaceSettings::default());
            match namespace.fault() {
                Some(wrong) if self.faults.len() == before => self.fault(at, TABLE, wrong.what, wrong.remedy),
                _ => {}
            }
            namespaces.push(namespace);
            places.push(at);
            prefix_places.push(entries.get("prefix").map_or(at, |prefixes| prefixes.span().start));
        }
        match numbers(&namespaces) {
            Err((place, wrong)) => self.fault(places[place], TABLE, wrong.what, wrong.remedy),
            Ok(numbers) => {
                if let Err((place, wrong)) = prefix::check(&namespaces, &numbers) {
                    self.fault(prefix_places[place], "namespace.prefix", wrong.what, wrong.remedy);
                }
            }
        }
        self.settings.namespaces = namespaces;
        if let Some(first) = places.first() {
            self.origin_of(*first, TABLE);
        }
    }

    /// Reads the keys of one namespace into `namespace`. An absent key keeps its value.
    pub(super) fn namespace(&mut self, entries: &DeTable<'_>, mut namespace: NamespaceSettings) -> NamespaceSettings {
        for (name, value) in entries {
            let (at, path) = (name.span().start, format!("{TABLE}.{}", name.get_ref()));
            let Some(key) = KEYS.iter().find(|key| key.key == &**name.get_ref()) else {
                let remedy = match base::nearest::nearest(name.get_ref(), KEYS.iter().map(|key| key.key)) {
                    Some(known) => format!("did you mean {known}?"),
                    None => "remove the line; `gannet config --default` shows every setting".to_owned(),
                };
                self.fault(at, &path, "there is no such setting of a namespace", remedy);
                continue;
            };
            let example = key.text(&NamespaceSettings::default());
            let shape = (key.value)(&mut namespace.clone()).shape();
            let auto = example == "\"auto\"";
            let Some(texts) = self.texts(&path, (shape, auto, key.range.is_some()), &example, value) else { continue };
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            if let Err(wrongs) = key.set(&mut namespace, &texts) {
                for wrong in wrongs {
                    self.fault(value.span().start, &path, wrong.what, wrong.remedy);
                }
            }
        }
        namespace
    }
}

/// Reads `text`, the lines that follow a `[[namespace]]` line, into `namespace`. An absent key keeps its value.
///
/// # Errors
/// If there are faults: each with its line.
pub fn read_one(
    source: &std::path::Path,
    text: &str,
    namespace: NamespaceSettings,
) -> Result<NamespaceSettings, Vec<super::ConfigFault>> {
    let (mut settings, mut origins) = (super::Settings::default(), super::file::Origins::new());
    let mut reader = Reader::new(source, text, &mut settings, &mut origins);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        reader.syntax(error);
    }
    let namespace = reader.namespace(document.get_ref(), namespace);
    match namespace.fault() {
        Some(wrong) if reader.faults.is_empty() => reader.fault(0, TABLE, wrong.what, wrong.remedy),
        _ => {}
    }
    if reader.faults.is_empty() { Ok(namespace) } else { Err(reader.faults) }
}

/// Returns `text`, a configuration file, with its namespaces replaced by `namespaces`. All other lines and comments are
/// unchanged. A comment directly before a namespace, after an empty line, stays with the namespace. Comments between
/// the lines of a namespace are removed; those after its last line belong to what follows.
pub fn rewritten(text: &str, namespaces: &[NamespaceSettings]) -> String {
    let mut out = String::new();
    let (mut within, mut comments) = (false, String::new());
    // The comments directly before namespaces, by name, and that of the namespace that is being read.
    let (mut above, mut own) = (Vec::new(), String::new());
    for line in text.lines() {
        let line_trimmed = line.trim_start();
        if line_trimmed.starts_with('[') {
            let header: String = line_trimmed.chars().filter(|c| !c.is_whitespace()).collect();
            let begins = header.starts_with("[[namespace]]");
            if begins {
                own = split_comment(if within { &mut comments } else { &mut out }, within);
            }
            within = begins;
            out.push_str(&std::mem::take(&mut comments));
        }
        if within && !line_trimmed.is_empty() && !line_trimmed.starts_with('#') {
            comments.clear();
            if let Some(name) = name_in(line_trimmed) {
                above.push((name.to_owned(), std::mem::take(&mut own)));
            }
            continue;
        }
        let to = if within { &mut comments } else { &mut out };
        to.push_str(line);
        to.push('\n');
    }
    out.push_str(&comments);
    out.truncate(out.trim_end().len());
    for namespace in namespaces {
        out.push_str(if out.is_empty() { "" } else { "\n\n" });
        if let Some((_, comment)) = above.iter().find(|(name, _)| *name == namespace.name.0) {
            out.push_str(comment);
        }
        out.push_str("[[namespace]]\n");
        out.push_str(namespace.lines().trim_end());
    }
    out.push('\n');
    out
}

/// Removes the comment at the end of `text`, and returns it. `follows_line` is true if a line precedes `text`. A
/// comment without an empty line before it may describe the line before, so it stays.
fn split_comment(text: &mut String, follows_line: bool) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let comment = lines.iter().rev().take_while(|line| line.trim_start().starts_with('#')).count();
    let before = lines.len() - comment;
    let is_apart = if before == 0 { !follows_line } else { lines[before - 1].trim().is_empty() };
    let bytes: usize = if is_apart { lines[before..].iter().map(|line| line.len()).sum() } else { 0 };
    text.split_off(text.len() - bytes)
}

/// Returns the name in the line `name = "shop"` of a namespace.
fn name_in(line: &str) -> Option<&str> {
    let (key, value) = line.split_once('=')?;
    let value = value.trim_start();
    let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    (key.trim() == "name").then(|| value[1..].split(quote).next()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::config::file::{Origins, read_text};
    use std::path::Path;

    fn read(text: &str) -> Result<Settings, Vec<String>> {
        let mut settings = Settings::default();
        match read_text(Path::new("g.toml"), text, &mut settings, &mut Origins::new()) {
            Ok(()) => Ok(settings),
            Err(faults) => Err(faults.iter().map(ToString::to_string).collect()),
        }
    }

    const TWO: &str = "# Ours.\n[store]\nmemory = \"1GiB\" # much\n\n[[namespace]]\nname = \"sessions\"\n\
                       memory = \"256MiB\"\n\
                       evict = false\nttl_default = \"1h\"\nttl_max = \"1d\"\nmaxconns = 100\nops_max = 5000\n\
                       memcached = [\"127.0.0.1:11212\"]\nresp = [\"unix:/run/s\"]\nprefix = \"s:\"\n\n\
                       [[namespace]]\nname = \"shop\"\n\
                       number = 9\n\n[log]\nlevel = \"warn\"\n";

    #[test]
    fn namespace_settings_round_trip_and_other_config_text_is_preserved() {
        let settings = read(TWO).expect("it is right");
        let sessions = &settings.namespaces[0];
        assert_eq!((sessions.memory, sessions.evict), (Auto::Is(ByteSize::mib(256)), Auto::Is(false)));
        assert_eq!((sessions.maxconns, sessions.ops_max, sessions.memcached.len()), (100, 5000, 1));
        assert_eq!(numbers(&settings.namespaces), Ok(vec![1, 9]));
        let config = sessions.config(1);
        assert_eq!((config.ttl_default_ms, config.ttl_max_ms), (3_600_000, 86_400_000));
        let text = rewritten(TWO, &settings.namespaces[1..]);
        assert!(text.contains("# Ours.") && text.contains("# much") && text.contains("level = \"warn\""), "{text}");
        let again = read(&text).expect("what is written is right");
        assert_eq!(again, Settings { namespaces: settings.namespaces[1..].to_vec(), ..settings.clone() });
        assert_eq!(read(&rewritten(TWO, &settings.namespaces)), Ok(settings));
        assert_eq!(rewritten("", &[]), "\n");
        let commented = "[[namespace]]\n# within\nname = \"a\"\n\n# about the log\n[log]\nlevel = \"warn\"\n\
                         [[namespace]]\nname = \"b\"\n# the end\n";
        let text = rewritten(commented, &[]);
        assert_eq!(text, "\n# about the log\n[log]\nlevel = \"warn\"\n# the end\n");
    }

    #[test]
    fn comment_before_a_namespace_stays_with_it_and_leaves_with_it() {
        let text = "# Ours.\n\n[store]\nmemory = \"1GiB\"\n# of the memory\n\n# Carts.\n# For a day.\n\
                    [[namespace]]\nname = \"shop\"\n\n# Logins.\n[[namespace]]\nname = 'sessions' # old\n\n\
                    [log]\nlevel = \"warn\"\n# of the level\n[[namespace]]\nname = \"last\"\n";
        let settings = read(text).expect("it is right");
        let two = rewritten(text, &settings.namespaces[..2]);
        let shop = "\n\n# Carts.\n# For a day.\n[[namespace]]\nname = \"shop\"\n";
        let sessions = "\n\n# Logins.\n[[namespace]]\nname = \"sessions\"\n";
        assert!(two.contains(shop) && two.contains(sessions), "{two}");
        assert!(two.starts_with("# Ours.\n\n[store]\nmemory = \"1GiB\"\n# of the memory\n"), "{two}");
        assert!(two.contains("level = \"warn\"\n# of the level\n"), "{two}");
        assert_eq!(rewritten(&two, &settings.namespaces[..2]), two, "a second rewrite changes nothing");
        let one = rewritten(text, &settings.namespaces[1..2]);
        assert!(!one.contains("Carts") && one.contains(sessions), "{one}");
    }

    #[test]
    fn namespaces_named_for_queues_are_not_evicted_unless_their_settings_say_so() {
        let named = |name: &str| NamespaceSettings {
            name: NamespaceName(name.to_owned()),
            memory: Auto::Is(ByteSize::mib(8)),
            ..NamespaceSettings::default()
        };
        for name in ["queue", "mail-queue", "Celery", "shop.jobs", "bullmq_2", "rq"] {
            assert!(!named(name).config(1).evict, "{name}");
            let said = NamespaceSettings { evict: Auto::Is(true), ..named(name) };
            assert!(said.config(1).evict && !said.may_lose_queues(), "{name}");
            let shared = NamespaceSettings { memory: Auto::Auto, ..named(name) };
            assert!(shared.config(1).evict && shared.may_lose_queues() && shared.fault().is_none(), "{name}");
        }
        for name in ["sessions", "queued", "rqx", "beef", "shop"] {
            assert!(named(name).config(1).evict, "{name}");
        }
    }

    #[test]
    fn every_fault_has_its_line_and_a_remedy() {
        for (text, line, what, remedy) in [
            ("[namespace]\nname = \"a\"\n", 1, "list of tables", "[[namespace]]"),
            ("[[namespace]]\nmemory = \"1GiB\"\n", 1, "no name", "name = "),
            ("[[namespace]]\nname = \"7\"\n", 2, "not a valid namespace name", "letters"),
            ("[[namespace]]\nname = \"a b\"\n", 2, "not a valid namespace name", "letters"),
            ("[[namespace]]\nname = \"a\"\nmemroy = 1\n", 3, "no such setting of a namespace", "memory?"),
            ("[[namespace]]\nname = \"a\"\nmemory = 512\n", 3, "needs a unit", "\"512MiB\""),
            ("[[namespace]]\nname = \"a\"\nmemory = \"1KiB\"\n", 3, "below the least", "1MiB to"),
            ("[[namespace]]\nname = \"a\"\nnumber = 16\n", 3, "above the greatest", "0 to 15"),
            ("[[namespace]]\nname = \"a\"\nnumber = 0\n", 1, "number 0 is", "another number"),
            ("[[namespace]]\nname = \"default\"\nmemory = \"1GiB\"\n", 1, "cannot be set", "the other namespaces"),
            ("[[namespace]]\nname = \"a\"\nevict = false\n", 1, "share", "memory of its own"),
            ("[[namespace]]\nname = \"a\"\nevict = \"no\"\n", 3, "true or false", "without quotes"),
            ("[[namespace]]\nname = \"a\"\nttl_default = \"2s\"\nttl_max = \"1s\"\n", 1, "longer", "shorter"),
            ("[[namespace]]\nname = \"a\"\n[[namespace]]\nname = \"a\"\n", 3, "two namespaces", "another name"),
            (
                "[[namespace]]\nname = \"a\"\nnumber = 1\n[[namespace]]\nname = \"b\"\nnumber = 1\n",
                4,
                "number",
                "lowest",
            ),
            ("[[namespace]]\nname = \"a\"\nresp = [\"10.0.0.1\"]\n", 3, "not an address", "10.0.0.1:11211"),
            ("[[namespace]]\nname = \"a\"\nprefix = \"\"\n", 3, "every key", "\"app1:\""),
            ("[[namespace]]\nname = \"a\"\nprefix = [\"b\", \"a b\"]\n", 3, "spaces", "1 to 250 bytes"),
            ("[[namespace]]\nname = \"a\"\nprefix = 7\n", 3, "a list of texts", "[]"),
            ("[[namespace]]\nname = \"default\"\nprefix = \"a:\"\n", 3, "already", "an exception"),
            ("[[namespace]]\nname = \"a\"\nprefix = [\"a:\", \"a:b\"]\n", 3, "same namespace", "the longer one"),
            (
                "[[namespace]]\nname = \"a\"\nprefix = \"a:\"\n[[namespace]]\nname = \"b\"\nprefix = \"a:\"\n",
                6,
                "already leads to the namespace \"a\"",
                "one of them",
            ),
        ] {
            let faults = read(text).expect_err(text);
            assert_eq!(faults.len(), 1, "{text}: {faults:?}");
            assert!(faults[0].starts_with(&format!("g.toml:{line}: ")), "{text}: {faults:?}");
            assert!(faults[0].contains(what) && faults[0].contains(remedy), "{text}: {faults:?}");
        }
        let many: String = (0..17).map(|number| format!("[[namespace]]\nname = \"n{number}\"\n")).collect();
        assert!(read(&many).expect_err("too many")[0].contains("more than 16"));
    }
}
