//! Parses another tool's flags from a table of their names. Reports all faults at once, and suggests the nearest name
//! for an unknown flag.

use base::nearest::nearest;

use crate::workload::fault::WorkloadFault;

/// The kind of value that a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No value.
    Nothing,
    /// A value: in the next argument, after `=`, or directly after a single-letter flag.
    Value,
    /// An optional value, after `=` or directly after a single-letter flag.
    Attached,
    /// An optional list of two or more numbers, separated by commas.
    Numbers,
}

/// A flag: all its names with their dashes, and the kind of its value. The first name identifies the flag in the code.
pub type Flag = (&'static [&'static str], Takes);

/// The flags of a command line.
#[derive(Debug, Default)]
pub struct Flags {
    given: Vec<(&'static str, String)>,
    /// The faults so far.
    pub faults: Vec<WorkloadFault>,
}

impl Flags {
    /// Parses `args` with the flags of `table`.
    pub fn read(args: &[String], table: &[Flag]) -> Self {
        let mut flags = Self::default();
        let mut rest = args;
        while let [word, behind @ ..] = rest {
            rest = behind;
            let Some((names, takes, attached)) = found(word, table) else {
                flags.unknown(word, table);
                continue;
            };
            let numbers = |text: &String| text.contains(',') && text.starts_with(|c: char| c.is_ascii_alphanumeric());
            let value = match (takes, attached, rest) {
                (Takes::Nothing, Some(value), _) => {
                    flags.fault(
                        word,
                        format!("{} takes no value, but '{value}' is given", names[0]),
                        "remove the value",
                    );
                    String::new()
                }
                (_, Some(value), _) => value.to_owned(),
                (Takes::Value, None, [value, behind @ ..]) => {
                    rest = behind;
                    value.clone()
                }
                (Takes::Value, None, []) => {
                    flags.fault(word, "the value of this flag is missing", "write it after the flag");
                    continue;
                }
                (Takes::Numbers, None, [value, behind @ ..]) if numbers(value) => {
                    rest = behind;
                    value.clone()
                }
                (Takes::Nothing | Takes::Attached | Takes::Numbers, None, _) => String::new(),
            };
            flags.given.push((names[0], value));
        }
        flags
    }

    fn unknown(&mut self, word: &str, table: &[Flag]) {
        if !word.starts_with('-') {
            let remedy = "write a flag before each value, or remove this argument";
            self.fault("", format!("'{word}' does not belong to a flag"), remedy);
            return;
        }
        let name = word.split('=').next().unwrap_or(word);
        let names = table.iter().flat_map(|(names, _)| names.iter().copied());
        let remedy = match nearest(name, names) {
            Some(near) => format!("did you mean {near}?"),
            None => "remove it; this flag is not supported here".to_owned(),
        };
        self.fault(name, "unknown flag", remedy);
    }

    /// Records a fault of the flag `name`.
    pub fn fault(&mut self, name: &str, what: impl Into<String>, remedy: impl Into<String>) {
        self.faults.push(WorkloadFault::new(name, what, remedy));
    }

    /// Returns the last value of the flag `name`.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether the flag `name` was given.
    pub fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// Returns the percentiles in the list of a flag, each from 0 to 100. A fault has `remedy`.
    pub fn percentiles(&mut self, name: &str, remedy: &str) -> Option<Vec<f64>> {
        let text = self.text(name)?.to_owned();
        let read: Option<Vec<f64>> = text
            .split(',')
            .map(|word| word.trim().parse().ok().filter(|percent| (0.0..=100.0).contains(percent)))
            .collect();
        if read.is_none() {
            self.fault(name, format!("'{text}' is not a list of percentiles"), remedy);
        }
        read
    }

    /// Returns the value as a whole number.
    pub fn count(&mut self, name: &str) -> Option<u64> {
        let text = self.text(name)?.to_owned();
        let count = text.parse().ok();
        if count.is_none() {
            self.fault(name, format!("'{text}' is not a whole number"), "write digits only, as in 1000");
        }
        count
    }

    /// Returns the value as a whole number of 32 bits.
    pub fn small(&mut self, name: &str) -> Option<u32> {
        // A larger number is out of every range; the check of the whole workload reports the range.
        self.count(name).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Returns the value as a number of at least 0.
    pub fn number(&mut self, name: &str) -> Option<f64> {
        let text = self.text(name)?.to_owned();
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        if number.is_none() {
            self.fault(name, format!("'{text}' is not a number"), "write a number of at least 0, as in 0.5");
        }
        number
    }
}

/// Returns the flag that `word` names, with the value in the same word.
fn found<'w>(word: &'w str, table: &[Flag]) -> Option<(&'static [&'static str], Takes, Option<&'w str>)> {
    let exact = |name: &str| table.iter().find(|(names, _)| names.contains(&name));
    if let Some((names, takes)) = exact(word) {
        return Some((names, *takes, None));
    }
    if let Some((name, value)) = word.split_once('=')
        && let Some((names, takes)) = exact(name)
    {
        return Some((names, *takes, Some(value)));
    }
    // A flag of one letter and its value in one word: -k100, -Psecret.
    let letter = word.get(..2).filter(|letter| letter.starts_with('-') && *letter != "--")?;
    match exact(letter) {
        Some((names, takes)) if *takes != Takes::Nothing => Some((names, *takes, Some(&word[2..]))),
        _ => None,
    }
}

/// Splits `text` into words, as a shell does without quotes.
#[cfg(test)]
pub fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: [Flag; 4] = [
        (&["--keys", "-k"], Takes::Value),
        (&["-latency", "--latency"], Takes::Value),
        (&["--async", "-a"], Takes::Nothing),
        (&["-P"], Takes::Attached),
    ];

    #[test]
    fn flag_value_is_read_from_next_or_same_word() {
        for text in ["-k 7", "-k7", "--keys 7", "--keys=7", "-k 5 -k 7"] {
            let mut flags = Flags::read(&words(text), &TABLE);
            assert_eq!((flags.count("--keys"), flags.faults.len()), (Some(7), 0), "{text}");
        }
        let flags = Flags::read(&words("-latency 7,1 -a -Psecret"), &TABLE);
        assert_eq!(
            (flags.text("-latency"), flags.text("-P"), flags.has("--async")),
            (Some("7,1"), Some("secret"), true)
        );
        assert_eq!((flags.text("--keys"), flags.faults.len()), (None, 0));
    }

    #[test]
    fn every_flag_error_states_its_remedy() {
        let mut flags = Flags::read(&words("stray --kesy 7 -k x --async=1 -Z -latency"), &TABLE);
        flags.count("--keys");
        let told: Vec<String> = flags.faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "'stray' does not belong to a flag; write a flag before each value, or remove this argument",
                "--kesy: unknown flag; did you mean --keys?",
                "'7' does not belong to a flag; write a flag before each value, or remove this argument",
                "--async=1: --async takes no value, but '1' is given; remove the value",
                "-Z: unknown flag; remove it; this flag is not supported here",
                "-latency: the value of this flag is missing; write it after the flag",
                "--keys: 'x' is not a whole number; write digits only, as in 1000",
            ]
        );
    }
}
