//! The types of setting values. Each type parses and formats the text of a value, and defines its type in TOML.
//!
//! A value's text is the same on the command line and between quotes in the file. Parsing is strict: a text that is not
//! a whole value changes nothing, and the error describes the fault and the remedy.

use base::units::{ByteSize, Count, TimeSpan, UnitError};

/// The reason why a text cannot be parsed as a value, and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The error, as part of a sentence.
    pub what: String,
    /// The remedy: what the user can write or do instead.
    pub remedy: String,
}

impl Wrong {
    /// Creates an error with its remedy.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

impl From<UnitError> for Wrong {
    fn from(error: UnitError) -> Self {
        Self::new(error.to_string(), error.remedy())
    }
}

/// The syntax of a value in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A string: `"text"`.
    Text,
    /// A number: `1024`. Also the string `"auto"`, if the setting allows it.
    Integer,
    /// A boolean: `true` or `false`.
    Switch,
    /// A list of strings: `["text", "text"]`. On the command line the flag is repeated.
    List,
}

/// The value of a setting.
pub trait Value {
    /// Parses `text` into this value. Changes nothing on an error.
    ///
    /// # Errors
    /// If `text` is not a value of this kind.
    fn read(&mut self, text: &str) -> Result<(), Wrong>;

    /// Returns the text that [`Value::read`] parses to this value. A list shows its entries with `, ` between them.
    fn show(&self) -> String;

    /// Returns the syntax of this kind of value in TOML.
    fn shape(&self) -> Shape;

    /// Returns the placeholder for the value in help texts, such as `SIZE`.
    fn placeholder(&self) -> &'static str;

    /// Returns the number that a range limits: bytes, nanoseconds or a count. `None` if there is no such number, or if
    /// the value is `auto`.
    fn magnitude(&self) -> Option<u64> {
        None
    }

    /// Returns the number `magnitude` as text, in this value's unit.
    fn show_magnitude(&self, magnitude: u64) -> String {
        magnitude.to_string()
    }

    /// Returns the entries of a list as texts. Other kinds have one entry.
    fn entries(&self) -> Vec<String> {
        vec![self.show()]
    }

    /// Parses `texts`. All kinds except lists need exactly one text.
    ///
    /// # Errors
    /// If texts are wrong: an error for each.
    fn read_all(&mut self, texts: &[&str]) -> Result<(), Vec<Wrong>> {
        match texts {
            [text] => self.read(text).map_err(|wrong| vec![wrong]),
            _ => {
                Err(vec![Wrong::new(format!("one value is wanted and {} are given", texts.len()), "keep one of them")])
            }
        }
    }
}

/// A setting's value that is a list of strings. Each such type also implements [`Value`].
pub trait Words: Sized {
    /// The placeholder of a help text: see [`Value::placeholder`].
    const PLACEHOLDER: &'static str;

    /// Returns the texts of the list.
    fn words(&self) -> &[String];

    /// Creates the list from `texts`.
    ///
    /// # Errors
    /// If texts are wrong: an error for each, or a single error if there are too many texts.
    fn of(texts: &[&str]) -> Result<Self, Vec<Wrong>>;
}

impl<L: Words> Value for L {
    fn read(&mut self, text: &str) -> Result<(), Wrong> {
        self.read_all(&[text]).map_err(|mut wrong| wrong.remove(0))
    }

    fn show(&self) -> String {
        self.words().join(", ")
    }

    fn shape(&self) -> Shape {
        Shape::List
    }

    fn placeholder(&self) -> &'static str {
        L::PLACEHOLDER
    }

    fn entries(&self) -> Vec<String> {
        self.words().to_vec()
    }

    fn read_all(&mut self, texts: &[&str]) -> Result<(), Vec<Wrong>> {
        *self = L::of(texts)?;
        Ok(())
    }
}

/// Implements [`Value`] for a number with a unit. The parameters are the type, the placeholder, and two units that the
/// remedy suggests if the unit is missing.
macro_rules! measure {
    ($kind:ident, $placeholder:literal, $units:expr) => {
        impl Value for $kind {
            fn read(&mut self, text: &str) -> Result<(), Wrong> {
                *self = text.parse().map_err(|error: UnitError| with_own_number(text, error, $units))?;
                Ok(())
            }

            fn show(&self) -> String {
                self.to_string()
            }

            fn shape(&self) -> Shape {
                Shape::Text
            }

            fn placeholder(&self) -> &'static str {
                $placeholder
            }

            fn magnitude(&self) -> Option<u64> {
                Some(self.0)
            }

            fn show_magnitude(&self, magnitude: u64) -> String {
                $kind(magnitude).to_string()
            }
        }
    };
}

measure!(ByteSize, "SIZE", ["MiB", "MB"]);
measure!(TimeSpan, "DURATION", ["s", "ms"]);

/// Converts `error`. If the unit is missing, the remedy contains the user's number: `write "512MiB" or "512MB"`.
fn with_own_number(text: &str, error: UnitError, units: [&str; 2]) -> Wrong {
    let text = text.trim();
    if error.fault != base::units::UnitFault::BareNumber {
        return error.into();
    }
    Wrong::new(error.to_string(), format!("write \"{text}{}\" or \"{text}{}\"", units[0], units[1]))
}

impl Value for u64 {
    fn read(&mut self, text: &str) -> Result<(), Wrong> {
        *self = text.parse::<Count>()?.0;
        Ok(())
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn shape(&self) -> Shape {
        Shape::Integer
    }

    fn placeholder(&self) -> &'static str {
        "N"
    }

    fn magnitude(&self) -> Option<u64> {
        Some(*self)
    }
}

impl Value for bool {
    fn read(&mut self, text: &str) -> Result<(), Wrong> {
        *self = match text {
            "true" => true,
            "false" => false,
            _ => return Err(Wrong::new(format!("{text:?} is neither true nor false"), "write true or false")),
        };
        Ok(())
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn shape(&self) -> Shape {
        Shape::Switch
    }

    fn placeholder(&self) -> &'static str {
        "BOOL"
    }
}

/// A value, or the word `auto`, for which the program chooses a value at start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auto<T> {
    /// The value is chosen at start from the machine's resources.
    #[default]
    Auto,
    /// The user's value.
    Is(T),
}

impl<T: Copy> Auto<T> {
    /// Returns the user's value, or `None` for `auto`.
    pub fn explicit(&self) -> Option<T> {
        match self {
            Self::Auto => None,
            Self::Is(value) => Some(*value),
        }
    }
}

impl<T: Value + Default> Value for Auto<T> {
    fn read(&mut self, text: &str) -> Result<(), Wrong> {
        if text == "auto" {
            *self = Self::Auto;
            return Ok(());
        }
        let mut value = T::default();
        value.read(text).map_err(|wrong| Wrong::new(wrong.what, format!("{}, or write \"auto\"", wrong.remedy)))?;
        *self = Self::Is(value);
        Ok(())
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Is(value) => value.show(),
        }
    }

    fn shape(&self) -> Shape {
        T::default().shape()
    }

    fn placeholder(&self) -> &'static str {
        T::default().placeholder()
    }

    fn magnitude(&self) -> Option<u64> {
        match self {
            Self::Auto => None,
            Self::Is(value) => value.magnitude(),
        }
    }

    fn show_magnitude(&self, magnitude: u64) -> String {
        T::default().show_magnitude(magnitude)
    }
}

/// Parses one of a closed set of words.
///
/// # Errors
/// If `text` is none of the words: an error that lists them, and the nearest one if `text` is similar.
pub fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, Wrong> {
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let remedy = match base::nearest::nearest(text, names.iter().copied()) {
        Some(name) => format!("did you mean {name:?}? The words are {}", names.join(", ")),
        None => format!("write one of {}", names.join(", ")),
    };
    Err(Wrong::new(format!("unknown word: {text:?}"), remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_refused_changes_nothing() {
        let mut size = ByteSize::mib(3);
        assert!(size.read("12").is_err());
        assert_eq!(size, ByteSize::mib(3));
        let mut auto = Auto::Is(7u64);
        assert!(auto.read("sometimes").is_err());
        assert_eq!(auto, Auto::Is(7));
    }

    #[test]
    fn the_remedy_for_a_bare_number_holds_that_number() {
        let wrong = ByteSize(0).read("512").unwrap_err();
        assert_eq!(wrong.remedy, "write \"512MiB\" or \"512MB\"");
        let wrong = TimeSpan(0).read("60").unwrap_err();
        assert_eq!(wrong.remedy, "write \"60s\" or \"60ms\"");
    }

    #[test]
    fn auto_is_read_and_shown() {
        let mut auto = Auto::Is(7u64);
        auto.read("auto").unwrap();
        assert_eq!((auto, auto.show().as_str(), auto.magnitude()), (Auto::Auto, "auto", None));
        auto.read("12").unwrap();
        assert_eq!((auto.explicit(), auto.show().as_str()), (Some(12), "12"));
    }

    #[test]
    fn a_word_with_a_typo_names_its_neighbour() {
        let words = [("debug", 1), ("info", 2)];
        assert_eq!(one_of("info", &words), Ok(2));
        assert!(one_of("inof", &words).unwrap_err().remedy.contains("\"info\""));
        assert!(one_of("zzzzzz", &words).unwrap_err().remedy.contains("debug, info"));
    }

    #[test]
    fn two_values_for_one_setting_are_refused() {
        assert!(7u64.read_all(&["1", "2"]).is_err());
        assert!(7u64.read_all(&[]).is_err());
    }
}
