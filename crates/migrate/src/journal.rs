//! Progress of a copy, in a small file. The file is replaced by a rename, so it is complete even if the process is
//! killed.
//!
//! The journal is never ahead of the target: a position is written only after every item before it got a reply. A
//! resumed process copies the items since the last write of the journal again, and counts them as already present.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::counts::KeyCounts;
use super::source::Position;
use super::{CopyJob, MigrateError};

/// The version of the file's format.
const VERSION: u32 = 1;

/// The content of the journal file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Journal {
    version: u32,
    from: String,
    to: String,
    prefixes: Vec<String>,
    excluded: Vec<String>,
    file_db: u32,
    /// Position to resume from; absent until the source has been read.
    pub position: Option<Position>,
    /// The target's run that has the keys before the position; absent in journals of earlier builds.
    #[serde(default)]
    pub target_run: Option<String>,
    /// Outcomes of the keys before the position.
    pub counts: KeyCounts,
    /// Duration of the copy in seconds.
    pub spent_s: f64,
    /// Number of times that the copy was resumed.
    pub resumed: u32,
    /// True if all keys have been copied.
    pub is_complete: bool,
}

/// A journal with its file, if it has one.
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
            target_run: None,
            counts: KeyCounts::default(),
            spent_s: 0.0,
            resumed: 0,
            is_complete: false,
        }
    }

    /// Returns a description of the difference if `job` is another copy; otherwise `None`.
    fn differs(&self, job: &CopyJob) -> Option<String> {
        let own = Self::new(job);
        let pairs = [
            ("has the format version", self.version.to_string(), own.version.to_string()),
            ("copies from", self.from.clone(), own.from),
            ("copies to", self.to.clone(), own.to),
            ("has --prefix", self.prefixes.join(" "), own.prefixes.join(" ")),
            ("has --exclude", self.excluded.join(" "), own.excluded.join(" ")),
            ("has --db", self.file_db.to_string(), own.file_db.to_string()),
        ];
        let text = |list: String| if list.is_empty() { "none".to_owned() } else { list };
        pairs
            .into_iter()
            .find(|(_, written, own)| written != own)
            .map(|(what, written, own)| format!("it {what} {}, not {}", text(written), text(own)))
    }
}

impl JournalFile {
    /// Opens the journal of `job`, with the content of an existing file.
    pub fn open(job: &CopyJob) -> Result<Self, MigrateError> {
        let fresh = Journal::new(job);
        let Some(path) = &job.journal else { return Ok(Self { path: None, journal: fresh }) };
        let refused = |what: String| MigrateError::Refused(format!("{}: {what}", path.display()));
        let journal = match fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => fresh,
            Err(error) => return Err(refused(error.to_string())),
            Ok(bytes) => {
                let mut journal: Journal = serde_json::from_slice(&bytes).map_err(|error| {
                    refused(format!("this is not the journal of a copy ({error}); pass another file"))
                })?;
                if let Some(what) = journal.differs(job) {
                    return Err(refused(format!(
                        "this is the journal of another copy: {what}; pass another file, or delete it"
                    )));
                }
                journal.resumed += 1;
                journal
            }
        };
        Ok(Self { path: Some(path.clone()), journal })
    }

    /// Writes the journal to its file, if it has one.
    pub fn write(&self) -> Result<(), MigrateError> {
        let Some(path) = &self.path else { return Ok(()) };
        let text = serde_json::to_vec_pretty(&self.journal).expect("a journal is plain data");
        replace(path, &text)
            .map_err(|error| MigrateError::Refused(format!("{}: cannot write the journal ({error})", path.display())))
    }
}

/// Replaces the file at `path` by a new file with the content `bytes`.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = fs::File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&beside, path)
}
