//! A violation of a rule, as `tidy` prints it.

use std::fmt;

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breach {
    /// Path below the repository's root.
    pub path: String,
    /// Line number from 1; 0 for the whole file.
    pub line: usize,
    /// The violation and the remedy.
    pub message: String,
}

impl Breach {
    pub(super) fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}
