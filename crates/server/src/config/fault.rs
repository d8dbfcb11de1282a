//! One error in the settings: its origin, its description and its remedy.

use std::fmt;
use std::path::PathBuf;

use super::value::Wrong;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A line of a configuration file.
    File {
        /// The file's path as the user specified it.
        path: PathBuf,
        /// The line number, counted from 1.
        line: usize,
    },
    /// A flag of the command line, without its dashes.
    Flag(&'static str),
    /// A client's command.
    Command(&'static str),
    /// A one-letter flag of the memcached server.
    Letter(char),
    /// A default value.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Flag(flag) => write!(f, "--{flag}"),
            Self::Command(command) => f.write_str(command),
            Self::Letter(letter) => write!(f, "-{letter}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One error in the settings. Its text has the form `gannet.toml:12: limits.maxconns: cause; remedy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// The origin of the wrong value.
    pub origin: Origin,
    /// The setting's path, or another description of the value; empty if the fault concerns no setting.
    pub name: String,
    /// The description of the error.
    pub what: String,
    /// The action that removes the error.
    pub remedy: String,
}

impl ConfigFault {
    /// Creates the fault `wrong` at `origin` for the setting `name`.
    pub fn new(origin: Origin, name: impl Into<String>, wrong: Wrong) -> Self {
        Self { origin, name: name.into(), what: wrong.what, remedy: wrong.remedy }
    }
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        if !self.name.is_empty() {
            write!(f, "{}: ", self.name)?;
        }
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

impl std::error::Error for ConfigFault {}
