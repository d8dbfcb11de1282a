//! Progress of a copy, in a small file. It is rewritten beside itself and renamed, so that it is whole whenever the
//! process ends.
//!
//! It is never ahead of the target: a position is written only when every item before it was answered. A process that
//! resumes copies again what was copied since the last write, and finds those items present.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::counts::KeyCounts;
use super::source::Position;
use super::{CopyJob, MigrateError};

/// The form of the file.
const VERSION: u32 = 1;

/// Content of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Journal {
    version: u32,
    from: String,
    to: String,
    prefixes: Vec<String>,
    excluded: Vec<String>,
    file_db: u32,
    /// Position to resume from; none before anything is known of the source.
    pub position: Option<Position>,
    /// Outcomes of the keys before the position.
    pub counts: KeyCounts,
    /// Seconds that were spent.
    pub spent_s: f64,
    /// Number of times that the copy was resumed.
    pub resumed: u32,
    /// All keys are done.
    pub is_complete: bool,
}

/// A journal and its file, if it has one.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: Option<PathBuf>,
    pub journal: Journal,
}

fn shown(keys: &[Vec<u8>]) -> Vec<String> {
    keys.iter().map(|key| key.escape_ascii().to_string()).collect()
}

impl Journal {
    fn new(job: &CopyJob) -> Self {
        Self {
            version: VERSION,
            from: job.from.to_string(),
            to: job.to.to_string(),
            prefixes: shown(&job.choice.prefixes),
            excluded: shown(&job.choice.excluded),
            file_db: job.file_db,
            position: None,
            counts: KeyCounts::default(),
            spent_s: 0.0,
            resumed: 0,
            is_complete: false,
        }
    }

    /// Describes the difference if `job` is another copy than this one.
    fn differs(&self, job: &CopyJob) -> Option<String> {
        let own = Self::new(job);
        let pairs = [
            ("is of another form", self.version.to_string(), own.version.to_string()),
            ("copies from", self.from.clone(), own.from),
            ("copies to", self.to.clone(), own.to),
            ("has --prefix", self.prefixes.join(" "), own.prefixes.join(" ")),
            ("has --exclude", self.excluded.join(" "), own.excluded.join(" ")),
            ("has --db", self.file_db.to_string(), own.file_db.to_string()),
        ];
        pairs
            .into_iter()
            .find(|(_, written, own)| written != own)
            .map(|(what, written, own)| format!("it {what} {written}, not {own}"))
    }
}

impl JournalFile {
    /// The journal of `job`: that of an earlier process if its file is there.
    pub fn open(job: &CopyJob) -> Result<Self, MigrateError> {
        let fresh = Journal::new(job);
        let Some(path) = &job.journal else { return Ok(Self { path: None, journal: fresh }) };
        let refused = |what: String| MigrateError::Refused(format!("{}: {what}", path.display()));
        let journal = match fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => fresh,
            Err(error) => return Err(refused(error.to_string())),
            Ok(bytes) => {
                let mut journal: Journal = serde_json::from_slice(&bytes)
                    .map_err(|error| refused(format!("this is no journal of a copy ({error}); name another file")))?;
                if let Some(what) = journal.differs(job) {
                    return Err(refused(format!(
                        "this is the journal of another copy: {what}; name another file, or delete it"
                    )));
                }
                journal.resumed += 1;
                journal
            }
        };
        Ok(Self { path: Some(path.clone()), journal })
    }

    /// Writes it, if it has a file.
    pub fn write(&self) -> Result<(), MigrateError> {
        let Some(path) = &self.path else { return Ok(()) };
        let text = serde_json::to_vec_pretty(&self.journal).expect("a journal is plain data");
        replace(path, &text)
            .map_err(|error| MigrateError::Refused(format!("{}: it cannot be written ({error})", path.display())))
    }
}

/// Puts `bytes` in the place of the file at `path`.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = fs::File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&beside, path)
}
