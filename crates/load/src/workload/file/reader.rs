//! Reads tables of a TOML document. All faults are collected, each with its line, description and remedy.
//!
//! A [`Section`] remembers which keys were requested; [`DocumentReader::end`] then reports unknown ones. The place of
//! every value is stored under its path, so that later faults get their line too.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use base::nearest::nearest;
use base::units::{ByteSize, TimeSpan};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::search::rate::Rate;
use crate::workload::fault::{FAULTS_MAX, FaultPlace, WorkloadFault};
use crate::workload::units::Share;

/// One pass over a document.
pub struct DocumentReader<'t> {
    path: &'t Path,
    text: &'t str,
    faults: Vec<WorkloadFault>,
    /// The line of each field's path.
    places: Vec<(String, usize)>,
}

/// A table that is being read.
pub struct Section<'d, 't> {
    /// The table's path; empty for the root of the document.
    pub path: String,
    table: &'d DeTable<'t>,
    asked: Vec<&'static str>,
}

impl<'d, 't> Section<'d, 't> {
    /// Creates the section for the table at `path`.
    pub fn new(path: impl Into<String>, table: &'d DeTable<'t>) -> Self {
        Self { path: path.into(), table, asked: Vec::new() }
    }

    /// Returns the path of the field `key`.
    pub fn field(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Returns whether the section has `key`, and marks it as requested.
    pub fn has(&mut self, key: &'static str) -> bool {
        self.asked.push(key);
        self.table.get(key).is_some()
    }
}

impl<'t> DocumentReader<'t> {
    /// Creates a reader of `text`, the content of the file at `path`.
    pub fn new(path: &'t Path, text: &'t str) -> Self {
        Self { path, text, faults: Vec::new(), places: Vec::new() }
    }

    /// Records a fault at byte `at`.
    pub fn fault(&mut self, at: usize, name: &str, what: impl Into<String>, remedy: impl Into<String>) {
        let place = self.place(self.line(at));
        self.faults.push(WorkloadFault::new(name, what, remedy).at(place));
    }

    fn line(&self, at: usize) -> usize {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    fn place(&self, line: usize) -> FaultPlace {
        FaultPlace::File { path: self.path.to_owned(), line }
    }

    /// Records the place of the value of the field `name`.
    pub fn found(&mut self, name: &str, at: usize) {
        let line = self.line(at);
        self.places.push((name.to_owned(), line));
    }

    /// Records a syntax error.
    pub fn syntax(&mut self, error: &toml::de::Error) {
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        let remedy = if message.contains("duplicate key") {
            "keep only one of the duplicate keys"
        } else {
            "write TOML: [table] lines, and key = value lines with text in double quotes"
        };
        self.fault(error.span().map_or(0, |span| span.start), "", message, remedy);
    }

    /// Records faults of fields, each at the line of its field or of the nearest enclosing one.
    pub fn located(&mut self, faults: Vec<WorkloadFault>) {
        for fault in faults {
            let around = |name: &str| {
                let rest = fault.name.strip_prefix(name)?;
                (rest.is_empty() || rest.starts_with(['.', '['])).then_some(name.len())
            };
            let near = self.places.iter().filter_map(|(name, line)| Some((around(name)?, *line)));
            let line = near.max_by_key(|(shared, _)| *shared).map_or(1, |(_, line)| line);
            let place = self.place(line);
            self.faults.push(fault.at(place));
        }
    }

    /// Returns all faults in the order of their lines.
    pub fn into_faults(self) -> Vec<WorkloadFault> {
        let mut faults = self.faults;
        faults.sort();
        faults.dedup();
        // For a line that is not valid TOML, the expected value of the field is a better hint than the grammar.
        let named: Vec<FaultPlace> = faults.iter().filter(|f| !f.name.is_empty()).map(|f| f.place.clone()).collect();
        faults.retain(|fault| !fault.name.is_empty() || !named.contains(&fault.place));
        faults.truncate(FAULTS_MAX);
        faults
    }

    /// Returns whether there is any fault.
    pub fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Returns the directory that relative paths in the file start at.
    pub fn folder(&self) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).to_owned()
    }

    /// Returns the value of `key`, if present.
    pub fn value<'d>(&mut self, section: &mut Section<'d, 't>, key: &'static str) -> Option<&'d Spanned<DeValue<'t>>> {
        section.asked.push(key);
        let value = section.table.get(key)?;
        self.found(&section.field(key), value.span().start);
        Some(value)
    }

    /// Records a value of the wrong kind.
    pub fn misshapen(&mut self, name: &str, value: &Spanned<DeValue<'_>>, wanted: &str, remedy: &str) {
        let what = format!("expected {wanted}, found {}", shown(value.get_ref()));
        self.fault(value.span().start, name, what, remedy);
    }

    /// Reads a text.
    pub fn text(&mut self, section: &mut Section<'_, 't>, key: &'static str) -> Option<String> {
        let value = self.value(section, key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => {
                self.misshapen(&section.field(key), value, "text", "write it in double quotes");
                None
            }
        }
    }

    /// Reads a whole number.
    pub fn count(&mut self, section: &mut Section<'_, 't>, key: &'static str) -> Option<u64> {
        let value = self.value(section, key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        if number.is_none() {
            let remedy = "write a number of at least 0, without quotes, as in 1000";
            self.misshapen(&section.field(key), value, "a whole number", remedy);
        }
        number
    }

    /// Reads a whole number of at most 32 bits.
    pub fn small(&mut self, section: &mut Section<'_, 't>, key: &'static str) -> Option<u32> {
        let count = self.count(section, key)?;
        // A larger number is out of every range; the check of the whole workload reports the range.
        Some(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Reads a number.
    pub fn number(&mut self, section: &mut Section<'_, 't>, key: &'static str) -> Option<f64> {
        let value = self.value(section, key)?;
        self.as_number(&section.field(key), value)
    }

    /// Converts `value` of the field `name` to a number.
    pub fn as_number(&mut self, name: &str, value: &Spanned<DeValue<'_>>) -> Option<f64> {
        let number = match value.get_ref() {
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
            }
            DeValue::Float(number) => number.as_str().parse::<f64>().ok().filter(|number| number.is_finite()),
            _ => None,
        };
        if number.is_none() {
            self.misshapen(name, value, "a number", "write it without quotes, as in 0.99");
        }
        number
    }

    /// Reads `true` or `false`.
    pub fn switch(&mut self, section: &mut Section<'_, 't>, key: &'static str) -> Option<bool> {
        let value = self.value(section, key)?;
        if let DeValue::Boolean(on) = value.get_ref() {
            return Some(*on);
        }
        self.misshapen(&section.field(key), value, "true or false", "write true or false, without quotes");
        None
    }

    /// Reads one of the words in `names`.
    pub fn word<T: Copy>(
        &mut self,
        section: &mut Section<'_, 't>,
        key: &'static str,
        names: &[(&'static str, T)],
    ) -> Option<T> {
        let text = self.text(section, key)?;
        let found = names.iter().find(|(name, _)| *name == text).map(|(_, word)| *word);
        if found.is_none() {
            let at = section.table.get(key).map_or(0, |value| value.span().start);
            let all = || names.iter().map(|(name, _)| *name);
            let remedy = match nearest(&text, all()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("write one of: {}", all().collect::<Vec<_>>().join(", ")),
            };
            self.fault(at, &section.field(key), format!("unknown word '{text}'"), remedy);
        }
        found
    }

    /// Reads a size in bytes.
    pub fn bytes(&mut self, section: &mut Section<'_, 't>, key: &'static str) -> Option<u64> {
        let value = self.value(section, key)?;
        self.as_bytes(&section.field(key), value)
    }

    /// Converts `value` of the field `name` to a size in bytes.
    pub fn as_bytes(&mut self, name: &str, value: &Spanned<DeValue<'_>>) -> Option<u64> {
        self.measure::<ByteSize>(name, value, |error| (error.to_string(), error.remedy().into())).map(|size| size.0)
    }

    /// Reads a duration.
    pub fn span(&mut self, section: &mut Section<'_, 't>, key: &'static str) -> Option<TimeSpan> {
        let value = self.value(section, key)?;
        self.as_span(&section.field(key), value)
    }

    /// Converts `value` of the field `name` to a duration.
    pub fn as_span(&mut self, name: &str, value: &Spanned<DeValue<'_>>) -> Option<TimeSpan> {
        self.measure::<TimeSpan>(name, value, |error| (error.to_string(), error.remedy().into()))
    }

    /// Reads a rate per second.
    pub fn rate(&mut self, section: &mut Section<'_, 't>, key: &'static str) -> Option<f64> {
        let value = self.value(section, key)?;
        let rate = match value.get_ref() {
            DeValue::String(text) => text.parse::<Rate>().ok(),
            _ => None,
        };
        if rate.is_none() {
            let remedy = "write requests per second, above 0 and in double quotes, as in \"50k/s\"";
            self.misshapen(&section.field(key), value, "a rate", remedy);
        }
        rate.map(Rate::per_s)
    }

    /// Reads a share, such as `25%`.
    pub fn share(&mut self, section: &mut Section<'_, 't>, key: &'static str) -> Option<Share> {
        let value = self.value(section, key)?;
        self.measure(&section.field(key), value, |error: <Share as FromStr>::Err| {
            (error.what.into(), error.remedy.into())
        })
    }

    /// Reads a number with its unit.
    fn measure<T: FromStr>(
        &mut self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        explain: impl Fn(T::Err) -> (String, String),
    ) -> Option<T> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            _ => {
                self.misshapen(name, value, "a number with its unit", "write both in double quotes");
                return None;
            }
        };
        match text.parse() {
            Ok(measured) => Some(measured),
            Err(error) => {
                let (what, remedy) = explain(error);
                self.fault(value.span().start, name, format!("{what}: {text}"), remedy);
                None
            }
        }
    }

    /// Parses a text. The parser's error has a description and a remedy, separated by a semicolon.
    pub fn parsed<T: FromStr<Err = String>>(&mut self, section: &mut Section<'_, 't>, key: &'static str) -> Option<T> {
        let text = self.text(section, key)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(wrong) => {
                let at = section.table.get(key).map_or(0, |value| value.span().start);
                let (what, remedy) = wrong.split_once("; ").unwrap_or((&wrong, "write a valid value"));
                self.fault(at, &section.field(key), what, remedy);
                None
            }
        }
    }

    /// Reads a list of CPUs.
    pub fn cpus(&mut self, section: &mut Section<'_, 't>, key: &'static str) -> Option<Vec<usize>> {
        let text = self.text(section, key)?;
        match io::affinity::read_cpus(&text) {
            Ok(cpus) => Some(cpus),
            Err(refused) => {
                let at = section.table.get(key).map_or(0, |value| value.span().start);
                self.fault(at, &section.field(key), refused.what, refused.remedy);
                None
            }
        }
    }

    /// Reads a table in `section`.
    pub fn table<'d>(&mut self, section: &mut Section<'d, 't>, key: &'static str) -> Option<Section<'d, 't>> {
        let value = self.value(section, key)?;
        match value.get_ref().as_table() {
            Some(table) => Some(Section::new(section.field(key), table)),
            None => {
                self.misshapen(&section.field(key), value, "a table", &format!("write [{}]", section.field(key)));
                None
            }
        }
    }

    /// Reads a list in `section`, each entry with its path.
    pub fn list<'d>(
        &mut self,
        section: &mut Section<'d, 't>,
        key: &'static str,
        remedy: &str,
    ) -> Option<Vec<(String, &'d Spanned<DeValue<'t>>)>> {
        let value = self.value(section, key)?;
        let Some(entries) = value.get_ref().as_array() else {
            self.misshapen(&section.field(key), value, "a list", remedy);
            return None;
        };
        let entries: Vec<_> =
            entries.iter().enumerate().map(|(at, entry)| (format!("{}[{at}]", section.field(key)), entry)).collect();
        for (path, entry) in &entries {
            self.found(path, entry.span().start);
        }
        Some(entries)
    }

    /// Reports the keys of `section` that were never requested.
    pub fn end(&mut self, mut section: Section<'_, 't>) {
        section.asked.dedup();
        for (key, _) in section.table.iter() {
            let name: &str = key.get_ref().as_ref();
            if section.asked.contains(&name) {
                continue;
            }
            let remedy = match nearest(name, section.asked.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("valid keys here are: {}", section.asked.join(", ")),
            };
            self.fault(key.span().start, &section.field(name), "unknown key", remedy);
        }
    }
}

/// Stores `read` in `place`, if there is a value.
pub fn put<T>(place: &mut T, read: Option<T>) {
    if let Some(value) = read {
        *place = value;
    }
}

/// Returns the name of a value's kind for a message.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(on) => on.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
