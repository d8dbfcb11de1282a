//! Reads CONFIG.toml, and reports all faults of the file at once, each with its line.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use base::nearest::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{ConfigFault, Origin};
use super::settings::Settings;
use super::table::{ABSENT, SETTINGS, Setting, TABLES, setting};
use super::value::{Shape, Value, Wrong};

/// The maximum size of a configuration file, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// The maximum number of reported faults. A file with more faults is probably not a configuration file.
pub const FAULTS_MAX: usize = 100;

/// The origin of each setting that the user has set, by the setting's path.
pub type Origins = HashMap<&'static str, Origin>;

/// Reads the file at `path` into `settings`. Correct settings are applied even if others are wrong.
///
/// # Errors
/// If the file has faults: all of them in the order of its lines, at most [`FAULTS_MAX`].
pub fn read_file(path: &Path, settings: &mut Settings, origins: &mut Origins) -> Result<(), Vec<ConfigFault>> {
    let unreadable = |what: String, remedy: &str| {
        let origin = Origin::File { path: path.to_owned(), line: 1 };
        vec![ConfigFault::new(origin, "", Wrong::new(what, remedy))]
    };
    let file = std::fs::File::open(path).map_err(|error| {
        unreadable(format!("the file cannot be opened ({error})"), "name a file that exists and is readable")
    })?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| {
        unreadable(format!("the file cannot be read ({error})"), "name a file that exists and is readable")
    })?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(unreadable("the file is larger than 1MiB".to_owned(), "name a configuration file"));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| unreadable("the file is not UTF-8 text".to_owned(), "name a configuration file"))?;
    read_text(path, &text, settings, origins)
}

/// Reads `text`, the contents of the file at `path`, into `settings`.
///
/// # Errors
/// If the text has faults: see [`read_file`].
pub fn read_text(
    path: &Path,
    text: &str,
    settings: &mut Settings,
    origins: &mut Origins,
) -> Result<(), Vec<ConfigFault>> {
    let mut reader = Reader::new(path, text, settings, origins);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        reader.syntax(error);
    }
    for (name, value) in document.get_ref() {
        reader.root(name, value);
    }
    let mut faults = reader.faults;
    faults.sort_by(|a, b| a.origin.cmp(&b.origin));
    faults.dedup();
    // If a line is not TOML, the error about its setting is more helpful than the error of the TOML grammar.
    let named: Vec<Origin> = faults.iter().filter(|fault| !fault.name.is_empty()).map(|f| f.origin.clone()).collect();
    faults.retain(|fault| !fault.name.is_empty() || !named.contains(&fault.origin));
    faults.truncate(FAULTS_MAX);
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// The state of one pass over a document.
pub(super) struct Reader<'r> {
    path: PathBuf,
    text: &'r str,
    pub(super) settings: &'r mut Settings,
    origins: &'r mut Origins,
    pub(super) faults: Vec<ConfigFault>,
}

impl<'r> Reader<'r> {
    pub(super) fn new(path: &Path, text: &'r str, settings: &'r mut Settings, origins: &'r mut Origins) -> Self {
        Self { path: path.to_owned(), text, settings, origins, faults: Vec::new() }
    }
}

impl Reader<'_> {
    fn origin(&self, at: usize) -> Origin {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Origin::File { path: self.path.clone(), line }
    }

    /// Records that the setting `path` comes from the position `at` of the text.
    pub(super) fn origin_of(&mut self, at: usize, path: &'static str) {
        let origin = self.origin(at);
        self.origins.insert(path, origin);
    }

    pub(super) fn fault(&mut self, at: usize, name: &str, what: impl Into<String>, remedy: impl Into<String>) {
        let fault = ConfigFault::new(self.origin(at), name, Wrong::new(what, remedy));
        self.faults.push(fault);
    }

    pub(super) fn syntax(&mut self, error: &toml::de::Error) {
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        let remedy = if message.contains("duplicate key") {
            "keep one of them"
        } else {
            "write it as TOML: [table] lines, and key = value lines with text in double quotes"
        };
        self.fault(error.span().map_or(0, |span| span.start), "", message, remedy);
    }

    /// Reads a top-level entry of the document: a table, or a key outside all tables.
    fn root(&mut self, name: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue<'_>>) {
        let (at, table) = (name.span().start, name.get_ref().as_ref());
        if table == super::namespaces::TABLE {
            return self.namespaces(at, value);
        }
        let Some(entries) = value.get_ref().as_table() else {
            let remedy = match SETTINGS.iter().find(|setting| setting.key() == table) {
                Some(setting) => format!("put it below [{}]", setting.table()),
                None => format!("put keys below their table, one of {}", table_names()),
            };
            return self.fault(at, table, "this key is outside of every table", remedy);
        };
        if TABLES.iter().all(|(known, _)| *known != table) {
            let remedy = match nearest(table, TABLES.iter().map(|(known, _)| *known)) {
                Some(known) => format!("did you mean [{known}]?"),
                None => format!("the tables are {}", table_names()),
            };
            return self.fault(at, table, "there is no such table", remedy);
        }
        for (key, value) in entries {
            let path = format!("{table}.{}", key.get_ref());
            match setting(&path) {
                Some(setting) => self.entry(setting, value),
                None => self.unknown(key.span().start, table, key.get_ref(), &path),
            }
        }
    }

    fn unknown(&mut self, at: usize, table: &str, key: &str, path: &str) {
        if let Some((_, _, what)) = ABSENT.iter().find(|(_, absent, _)| *absent == path) {
            return self.fault(at, path, format!("this build does not have {what}"), "remove the line");
        }
        let same_table = SETTINGS.iter().filter(|setting| setting.table() == table).map(Setting::key);
        let remedy = if let Some(known) = nearest(key, same_table) {
            format!("did you mean {known}?")
        } else if let Some(elsewhere) = SETTINGS.iter().find(|setting| setting.key() == key) {
            format!("it belongs below [{}]", elsewhere.table())
        } else if let Some(known) = nearest(key, SETTINGS.iter().map(Setting::key)) {
            let place = SETTINGS.iter().find(|setting| setting.key() == known).map_or("", Setting::table);
            format!("did you mean {known} below [{place}]?")
        } else {
            "remove the line; `gannet config --default` shows every setting".to_owned()
        };
        self.fault(at, path, "there is no such setting", remedy);
    }

    /// Reads the value of an existing setting.
    fn entry(&mut self, setting: &'static Setting, value: &Spanned<DeValue<'_>>) {
        let at = value.span().start;
        let shape = setting.view(self.settings, |value| value.shape());
        let example = setting.view(&Settings::default(), toml_text);
        let kind = (shape, setting.default == ["auto"], setting.range.is_some());
        let Some(texts) = self.texts(setting.path, kind, &example, value) else { return };
        let origin = self.origin(at);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        match setting.set(self.settings, &texts) {
            Ok(()) => {
                self.origins.insert(setting.path, origin);
            }
            Err(wrongs) => {
                let faults = wrongs.into_iter().map(|wrong| ConfigFault::new(origin.clone(), setting.path, wrong));
                self.faults.extend(faults);
            }
        }
    }

    /// Returns the TOML value `value` of the setting `path` as texts: one text for each entry of a list, otherwise a
    /// single text. If the value does not have the TOML syntax of its kind, records a fault and returns `None`. `kind`
    /// consists of the setting's shape, whether "auto" is allowed, and whether the setting has a range. The fault's
    /// remedy shows `default` as an example.
    pub(super) fn texts(
        &mut self,
        path: &str,
        kind: (Shape, bool, bool),
        default: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<Vec<String>> {
        let (at, shape) = (value.span().start, kind.0);
        match (value.get_ref(), shape) {
            (DeValue::Array(values), Shape::List) => {
                let mut texts = Vec::new();
                for value in values.iter() {
                    match scalar(value.get_ref()) {
                        Some((text, Shape::Text)) => texts.push(text),
                        _ => self.fault(value.span().start, path, "an entry is not text", "put it in quotes"),
                    }
                }
                (texts.len() == values.len()).then_some(texts)
            }
            (value, _) => match scalar(value) {
                Some((text, written)) if fits(kind, &text, written) => Some(vec![text]),
                Some((text, _)) => self.misshapen(path, at, &text, (shape, kind.1), default),
                None => {
                    let text = if let DeValue::Float(float) = value { float.as_str() } else { value.type_str() };
                    self.misshapen(path, at, text, (shape, kind.1), default)
                }
            },
        }
    }

    fn misshapen<T>(
        &mut self,
        path: &str,
        at: usize,
        text: &str,
        (shape, auto): (Shape, bool),
        default: &str,
    ) -> Option<T> {
        let (what, remedy) = match shape {
            Shape::Integer => {
                let number =
                    text.parse::<u64>().map_or_else(|_| NUMBER_EXAMPLE.to_owned(), |number| number.to_string());
                let or_auto = if auto { r#", or write "auto""# } else { "" };
                let remedy = format!("write digits without quotes or a fraction, as in {number}{or_auto}");
                ("a whole number is wanted here", remedy)
            }
            Shape::Switch => ("true or false is wanted here", "write true or false, without quotes".to_owned()),
            Shape::Text => ("text is wanted here", format!("put it in quotes, as in {default}")),
            Shape::List => ("a list of texts is wanted here", format!("write it as in {default}")),
        };
        self.fault(at, path, format!("{what}, not {text}"), remedy);
        None
    }
}

/// The number in the remedy for a setting that needs a whole number.
const NUMBER_EXAMPLE: &str = "1000";

/// Returns true if a TOML value of the type `written` is allowed for a setting of the type `shape`. A number is also
/// allowed for a text setting with a range, because the parser of sizes and durations then reports the missing unit.
fn fits((shape, auto, ranged): (Shape, bool, bool), text: &str, written: Shape) -> bool {
    match (written, shape) {
        (Shape::Text, Shape::Integer) => text == "auto" && auto,
        (Shape::Integer, Shape::Text) => ranged,
        (Shape::Text, Shape::List) => true,
        _ => written == shape,
    }
}

/// Returns the text and the type of a TOML string, integer or boolean.
fn scalar(value: &DeValue<'_>) -> Option<(String, Shape)> {
    match value {
        DeValue::String(text) => Some((text.to_string(), Shape::Text)),
        DeValue::Integer(number) => Some((number.to_string(), Shape::Integer)),
        DeValue::Boolean(on) => Some((on.to_string(), Shape::Switch)),
        _ => None,
    }
}

fn table_names() -> String {
    TABLES.map(|(name, _)| format!("[{name}]")).join(", ")
}

/// Returns `value` in the syntax of the configuration file.
pub fn toml_text(value: &dyn Value) -> String {
    let quoted = |text: &String| toml::Value::String(text.clone()).to_string();
    match value.shape() {
        Shape::List => format!("[{}]", value.entries().iter().map(quoted).collect::<Vec<_>>().join(", ")),
        Shape::Switch => value.show(),
        Shape::Integer if value.magnitude().is_some() => value.show(),
        Shape::Integer | Shape::Text => quoted(&value.show()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::units::{ByteSize, TimeSpan};

    fn read(text: &str) -> (Settings, Vec<ConfigFault>) {
        let (mut settings, mut origins) = (Settings::default(), Origins::new());
        let faults = read_text(Path::new("g.toml"), text, &mut settings, &mut origins).err().unwrap_or_default();
        (settings, faults)
    }

    /// Returns the only fault of `text`: its line and its whole text.
    fn only(text: &str) -> (usize, String) {
        let (_, faults) = read(text);
        assert_eq!(faults.len(), 1, "{text}: {faults:?}");
        match &faults[0].origin {
            Origin::File { line, .. } => (*line, faults[0].to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_whole_file_is_read() {
        let (settings, faults) = read(
            "[listen]\nmemcached = [\"0.0.0.0:1\", \"unix:/run/g\"]\nadmin = \"none\"\n[store]\nmemory = \"1GiB\"\n\
             [threads]\nworkers = 3\npin = \"0-2\"\n[limits]\nmaxconns = 1_000\nidle_timeout = \"5m\"\n\
             [log]\nlevel = \"debug\"\n",
        );
        assert_eq!(faults, []);
        assert_eq!((settings.memcached.len(), settings.workers.explicit()), (2, Some(3)));
        assert_eq!((settings.memory.explicit(), settings.maxconns.explicit()), (Some(ByteSize::mib(1024)), Some(1000)));
        assert_eq!(settings.idle_timeout, TimeSpan::secs(300));
    }

    #[test]
    fn every_kind_of_fault_has_its_line_and_a_remedy() {
        for (text, line, what, remedy) in [
            ("\n[store]\nmemory = 512\n", 3, "needs a unit", "\"512MiB\""),
            ("[store]\nmemory = \"1m\"\n", 2, "powers of 1000 or of 1024", "MiB is 2^20"),
            ("[store]\nmemory = \"1KiB\"\n", 2, "below the least", "16MiB to"),
            ("[store]\nmemroy = \"1GiB\"\n", 2, "no such setting", "did you mean memory?"),
            ("[store]\nmaxconns = 1\n", 2, "no such setting", "belongs below [limits]"),
            ("[store]\nmax_conns = 1\n", 2, "no such setting", "maxconns below [limits]"),
            ("[store]\nqqq = 1\n", 2, "no such setting", "gannet config --default"),
            ("[sotre]\nmemory = \"1GiB\"\n", 1, "no such table", "[store]"),
            ("[qqqqqq]\n", 1, "no such table", "[listen], [tls], [store]"),
            ("memory = \"1GiB\"\n", 1, "outside of every table", "below [store]"),
            ("qqq = 1\n", 1, "outside of every table", "[listen], [tls], [store]"),
            (
                "[limits]\nmaxconns = \"many\"\n",
                2,
                "whole number is wanted here, not many",
                "without quotes or a fraction, as in 1000, or write \"auto\"",
            ),
            ("[limits]\nmaxconns = \"7\"\n", 2, "whole number is wanted", "without quotes or a fraction, as in 7, or"),
            ("[limits]\nmaxconns = 0\n", 2, "below the least", "1 to 1000000"),
            ("[limits]\nmaxconns = -1\n", 2, "must begin with a number", "whole number"),
            (
                "[limits]\nmaxconns = 1.5\n",
                2,
                "whole number is wanted here, not 1.5",
                "without quotes or a fraction, as in 1000, or write \"auto\"",
            ),
            ("[limits]\nidle_timeout = 60\n", 2, "needs a unit", "\"60s\""),
            ("[store]\nhuge_pages = \"yes\"\n", 2, "true or false", "without quotes"),
            ("[store]\nhuge_pages = 1\n", 2, "true or false", "without quotes"),
            ("[log]\nlevel = true\n", 2, "text is wanted", "\"info\""),
            ("[log]\nlevel = \"inof\"\n", 2, "unknown word", "\"info\""),
            ("[listen]\nmemcached = [\n  \"127.0.0.1:1\",\n  \"10.0.0.1\"]\n", 2, "not an address", "10.0.0.1:11211"),
            ("[listen]\nmemcached = [1]\n", 2, "not text", "quotes"),
            ("[listen]\nmemcached = 1\n", 2, "list of texts", "[\"127.0.0.1:11211\"]"),
            ("[listen]\nudp = [\"127.0.0.1:7000\"]\n", 2, "does not have", "remove"),
            ("[threads]\nio = \"urin\"\n", 2, "unknown word", "\"uring\""),
            ("[threads]\npin = \"atuo\"\n", 2, "not a CPU number", "0-3,8"),
            ("[log]\nlevel = \"info\"\nlevel = \"warn\"\n", 3, "duplicate key", "keep one"),
            ("[log]\nlevel = info\n", 2, "text is wanted", "put it in quotes"),
        ] {
            let (at, shown) = only(text);
            assert_eq!(at, line, "{text}: {shown}");
            assert!(shown.contains(what), "{text}: {shown}");
            assert!(shown.contains(remedy), "{text}: {shown}");
        }
    }

    #[test]
    fn malformed_table_header_is_reported_with_its_line_number() {
        let faults = read("[log\nlevel = \"info\"\n").1;
        assert!(faults[0].to_string().starts_with("g.toml:1: "), "{faults:?}");
        assert!(faults[0].remedy.contains("[table] lines"), "{faults:?}");
    }

    #[test]
    fn all_config_errors_are_reported_at_once_in_line_order() {
        let (settings, faults) = read(
            "[store]\nmemory = 5\nsegment = \"x\"\n[limits]\nmaxconns = 7\nidle_timeout = 3\n[log]\nlevle = \"info\"\n",
        );
        let lines: Vec<_> = faults.iter().map(|f| f.to_string().split(':').nth(1).unwrap().to_owned()).collect();
        assert_eq!(lines, ["2", "3", "6", "8"]);
        assert_eq!(settings.maxconns.explicit(), Some(7), "a right setting is taken beside wrong ones");
    }

    #[test]
    fn missing_binary_or_oversized_config_file_is_a_single_error() {
        let folder = std::env::temp_dir().join(format!("gannet-config-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (mut settings, mut origins) = (Settings::default(), Origins::new());
        let mut what = |name: &str, bytes: Option<&[u8]>| {
            let path = folder.join(name);
            if let Some(bytes) = bytes {
                std::fs::write(&path, bytes).unwrap();
            }
            read_file(&path, &mut settings, &mut origins).unwrap_err()[0].to_string()
        };
        assert!(what("absent.toml", None).contains("cannot be opened"));
        assert!(what("binary.toml", Some(&[0xff, 0xfe])).contains("not UTF-8"));
        assert!(what("large.toml", Some(&vec![b'#'; FILE_BYTES_MAX as usize + 1])).contains("larger than 1MiB"));
        assert!(read_file(&folder, &mut settings, &mut origins).unwrap_err()[0].what.contains("cannot be read"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn garbage_never_panics() {
        let mut prng = base::prng::Prng::new(11);
        let parts =
            ["[", "]", "store", ".", "memory", "=", "\"", "1GiB", "\n", "#", "'", "[[", "0x", "{", "}", ",", "é"];
        let mut faulty = 0;
        for _ in 0..5_000 {
            let text: String = (0..prng.below(12)).map(|_| parts[prng.below(parts.len() as u64) as usize]).collect();
            faulty += usize::from(!read(&text).1.is_empty());
        }
        assert!(faulty > 1000, "{faulty}");
    }
}
