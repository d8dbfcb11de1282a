//! Faults of a workload: the place, a description and a remedy.

use std::fmt;
use std::path::PathBuf;

/// Highest number of listed faults; a file with more is not a workload.
pub const FAULTS_MAX: usize = 100;

/// Place of the faulty value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultPlace {
    /// A line of a file, counted from 1.
    File {
        /// The file as the user named it.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// No file: a flag or a program set the value.
    Given,
}

/// One fault. Displayed as `load.toml:12: keys[0].count: description; remedy`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadFault {
    /// Place of the faulty value.
    pub place: FaultPlace,
    /// The field's path, such as `keys[0].verbs[1].weight`; empty if the fault belongs to no field.
    pub name: String,
    /// Description of the fault.
    pub what: String,
    /// Remedy for the fault.
    pub remedy: String,
}

impl WorkloadFault {
    /// Creates a fault of the field `name` without a file.
    pub fn new(name: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { place: FaultPlace::Given, name: name.into(), what: what.into(), remedy: remedy.into() }
    }

    /// Returns the same fault at `place`.
    #[must_use]
    pub fn at(self, place: FaultPlace) -> Self {
        Self { place, ..self }
    }
}

impl From<link::tls::SettingError> for WorkloadFault {
    /// Uses the field's name in a workload file.
    fn from(error: link::tls::SettingError) -> Self {
        Self::new(error.path("targets.tls"), error.what, error.remedy)
    }
}

impl fmt::Display for WorkloadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let FaultPlace::File { path, line } = &self.place {
            write!(f, "{}:{line}: ", path.display())?;
        }
        if !self.name.is_empty() {
            write!(f, "{}: ", self.name)?;
        }
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

impl std::error::Error for WorkloadFault {}
