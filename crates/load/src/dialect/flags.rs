//! Another tool's flags, read by a table of their names: every fault at once, the nearest name for one that is unknown.

use base::nearest::nearest;

use crate::workload::fault::WorkloadFault;

/// The kind of value behind a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// A value: in the next word, behind `=`, or behind a single letter in the same word.
    Value,
    /// A value behind a single letter or `=` in the same word, or nothing.
    Attached,
    /// A value that is two or more numbers with commas between them, or nothing.
    Numbers,
}

/// A flag: its names, each with its dashes, the one that it is asked for by first.
pub type Flag = (&'static [&'static str], Takes);

/// The flags that were given.
#[derive(Debug, Default)]
pub struct Flags {
    given: Vec<(&'static str, String)>,
    /// The errors so far.
    pub faults: Vec<WorkloadFault>,
}

impl Flags {
    /// Reads `args` by `table`.
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
                    flags.fault(word, format!("{} takes no value, and '{value}' is given", names[0]), "leave it away");
                    String::new()
                }
                (_, Some(value), _) => value.to_owned(),
                (Takes::Value, None, [value, behind @ ..]) => {
                    rest = behind;
                    value.clone()
                }
                (Takes::Value, None, []) => {
                    flags.fault(word, "its value is missing", "write it behind the flag");
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
            let remedy = "write a flag before each value, and leave this away";
            self.fault("", format!("'{word}' belongs to no flag"), remedy);
            return;
        }
        let name = word.split('=').next().unwrap_or(word);
        let names = table.iter().flat_map(|(names, _)| names.iter().copied());
        let remedy = match nearest(name, names) {
            Some(near) => format!("did you mean {near}?"),
            None => "leave it away: it is not among those that are understood here".to_owned(),
        };
        self.fault(name, "there is no such flag", remedy);
    }

    /// Notes what is wrong with the flag `name`.
    pub fn fault(&mut self, name: &str, what: impl Into<String>, remedy: impl Into<String>) {
        self.faults.push(WorkloadFault::new(name, what, remedy));
    }

    /// The value of the flag `name`, as it was given last.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    /// The flag `name` was given.
    pub fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// The percentiles that a flag lists, from 0 to 100; a fault names `remedy`.
    pub fn percentiles(&mut self, name: &str, remedy: &str) -> Option<Vec<f64>> {
        let text = self.text(name)?.to_owned();
        let read: Option<Vec<f64>> = text
            .split(',')
            .map(|word| word.trim().parse().ok().filter(|percent| (0.0..=100.0).contains(percent)))
            .collect();
        if read.is_none() {
            self.fault(name, format!("'{text}' are no percentiles"), remedy);
        }
        read
    }

    /// A whole number.
    pub fn count(&mut self, name: &str) -> Option<u64> {
        let text = self.text(name)?.to_owned();
        let count = text.parse().ok();
        if count.is_none() {
            self.fault(name, format!("'{text}' is no whole number"), "write digits alone, as in 1000");
        }
        count
    }

    /// A whole number of 32 bits.
    pub fn small(&mut self, name: &str) -> Option<u32> {
        // What is larger is out of every range: the check of the whole workload names the range.
        self.count(name).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// A number that is not negative.
    pub fn number(&mut self, name: &str) -> Option<f64> {
        let text = self.text(name)?.to_owned();
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        if number.is_none() {
            self.fault(name, format!("'{text}' is no number"), "write a number from 0, as in 0.5");
        }
        number
    }
}

/// The flag that `word` is, and the value that is attached to it.
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
    // A letter with its value in one word: -k100, -Psecret.
    let letter = word.get(..2).filter(|letter| letter.starts_with('-') && *letter != "--")?;
    match exact(letter) {
        Some((names, takes)) if *takes != Takes::Nothing => Some((names, *takes, Some(&word[2..]))),
        _ => None,
    }
}

/// `text` as words, as a shell takes plain ones apart.
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
    fn a_value_stands_behind_the_flag_or_within_its_word() {
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
    fn every_fault_is_told_with_its_remedy() {
        let mut flags = Flags::read(&words("stray --kesy 7 -k x --async=1 -Z -latency"), &TABLE);
        flags.count("--keys");
        let told: Vec<String> = flags.faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "'stray' belongs to no flag; write a flag before each value, and leave this away",
                "--kesy: there is no such flag; did you mean --keys?",
                "'7' belongs to no flag; write a flag before each value, and leave this away",
                "--async=1: --async takes no value, and '1' is given; leave it away",
                "-Z: there is no such flag; leave it away: it is not among those that are understood here",
                "-latency: its value is missing; write it behind the flag",
                "--keys: 'x' is no whole number; write digits alone, as in 1000",
            ]
        );
    }
}
