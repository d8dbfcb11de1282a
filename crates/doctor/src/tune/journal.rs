//! The journal of a run: an append-only file, one record per line. Each record is on the disk before the step that it
//! announces is taken.
//!
//! ```text
//!   {"begin":{...}}                        the format's version, and the id of the host's boot
//!   {"change":{"at":0,"step":{...}}}       the step will be written next
//!   {"done":{"at":0,"now":"0"}}            the step was written, and the value read back
//!   {"refused":{"at":1,"why":"..."}}       the kernel refused the value
//!   {"confirmed":{}}                       the timer must not undo the run
//!   {"undone":{"at":0,"how":"..."}}        the step was undone, or needed no undo
//! ```
//! If the host crashes while a line is written, the line is incomplete. The step that it announces was not begun then.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::SettingStep;

/// The version of the journal's format, raised when the meaning of a record changes.
const VERSION: u32 = 1;
/// Maximum size of a journal in bytes.
const BYTES_MAX: u64 = 16 << 20;
/// Maximum number of runs that begin in the same second.
const RUNS_A_SECOND_MAX: usize = 100;

/// A record: one line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum JournalRecord {
    Begin { version: u32, boot: String },
    Change { at: usize, step: SettingStep },
    Done { at: usize, now: String },
    Refused { at: usize, why: String },
    Confirmed {},
    Undone { at: usize, how: String },
}

/// One step of a run, as the journal records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JournalStep {
    pub step: SettingStep,
    /// The file's content after the write; `None` if the journal does not record the write.
    pub now: Option<String>,
    pub is_undone: bool,
}

/// A run, as its journal records it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunLog {
    /// The boot of the host during which the run took place.
    pub boot: String,
    /// True if the run is confirmed: the timer does not undo it.
    pub is_confirmed: bool,
    pub(super) steps: Vec<JournalStep>,
    /// Length of the complete lines in bytes.
    whole_bytes: u64,
}

impl RunLog {
    /// Returns the number of steps that are not undone.
    pub fn open_steps(&self) -> usize {
        self.steps.iter().filter(|known| !known.is_undone).count()
    }

    /// Returns true if the run had steps and all of them are undone.
    pub fn is_over(&self) -> bool {
        !self.steps.is_empty() && self.open_steps() == 0
    }

    /// Returns the steps that were written, had an effect, and are not undone.
    pub fn effective(&self) -> impl Iterator<Item = &SettingStep> {
        let took =
            |known: &&JournalStep| !known.is_undone && known.now.as_ref().is_some_and(|now| *now != known.step.old);
        self.steps.iter().filter(took).map(|known| &known.step)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut log = Self::default();
        let mut lines = text.split_inclusive('\n').enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            let is_last = lines.peek().is_none();
            let record = match serde_json::from_str::<JournalRecord>(line) {
                Ok(record) if line.ends_with('\n') => record,
                // The last line is incomplete: it was not synced, so the step that it announces was not begun.
                _ if is_last => break,
                _ => return Err(format!("line {} is not a record of a run", number + 1)),
            };
            log.whole_bytes += line.len() as u64;
            log.take(record).map_err(|why| format!("line {}: {why}", number + 1))?;
        }
        Ok(log)
    }

    fn take(&mut self, record: JournalRecord) -> Result<(), String> {
        let absent = |at: usize| format!("there is no step {at} before this record");
        match record {
            JournalRecord::Begin { version, boot } if version == VERSION => self.boot = boot,
            JournalRecord::Begin { version, .. } => {
                return Err(format!("the journal is of version {version}; this program reads version {VERSION}"));
            }
            JournalRecord::Change { at, step } if at == self.steps.len() => {
                self.steps.push(JournalStep { step, now: None, is_undone: false });
            }
            JournalRecord::Change { at, .. } => return Err(format!("step {at} does not follow the last one")),
            JournalRecord::Done { at, now } => self.steps.get_mut(at).ok_or_else(|| absent(at))?.now = Some(now),
            JournalRecord::Refused { at, .. } => drop(self.steps.get(at).ok_or_else(|| absent(at))?),
            JournalRecord::Confirmed {} => self.is_confirmed = true,
            JournalRecord::Undone { at, .. } => self.steps.get_mut(at).ok_or_else(|| absent(at))?.is_undone = true,
        }
        Ok(())
    }
}

/// An open journal. While it is open, no other run works in its folder.
#[derive(Debug)]
pub struct Journal {
    file: File,
    /// The run's name.
    pub run: String,
    /// The lock, held as long as the journal is open: only one run at a time changes settings.
    _lock: Lock,
}

fn with_remedy(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::PermissionDenied => "; run it as root",
            _ => "",
        };
        format!("{}: {error}{remedy}", path.display())
    }
}

/// The lock on a folder of journals. Only one apply or undo can hold it at a time.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Unlocks explicitly. Closing the file is not enough: a program that another thread is starting has a copy of
        // the descriptor until its exec, and would hold the lock until then. If unlocking fails, the lock ends with the
        // process.
        let _ = self.0.unlock();
    }
}

/// Creates the folder of the journals, for its owner alone.
fn create(folder: &Path) -> Result<(), String> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(with_remedy(parent))?;
    }
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(with_remedy(folder)(error)),
        _ => check_owner(folder),
    }
}

/// Refuses a folder into which another user can write: the values that an undo writes come from its files.
fn check_owner(folder: &Path) -> Result<(), String> {
    let known = fs::metadata(folder).map_err(with_remedy(folder))?;
    let (owner, ours) = (known.uid(), rustix::process::geteuid().as_raw());
    let shown = folder.display();
    if !known.is_dir() {
        return Err(format!("{shown} is not a folder; pass another one with --journals"));
    }
    if owner != ours {
        return Err(format!(
            "{shown} belongs to user {owner}, so that user can change its journals; run the command as that user, \
             pass another folder with --journals, or run: chown {ours} {shown}"
        ));
    }
    if known.mode() & 0o022 != 0 {
        let mode = known.mode() & 0o7777;
        return Err(format!("other users can write into {shown} (mode {mode:o}); run: chmod go-w {shown}"));
    }
    Ok(())
}

fn lock(folder: &Path) -> Result<Lock, String> {
    let path = folder.join("lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(with_remedy(&path))?;
    file.try_lock().map_err(|_| format!("{}: another apply or undo is running; wait until it ends", path.display()))?;
    Ok(Lock(file))
}

fn path_of(folder: &Path, run: &str) -> Result<PathBuf, String> {
    let is_name = !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if !is_name {
        return Err(format!("{run:?} is not the name of a run; `gannet doctor undo --list` lists them"));
    }
    Ok(folder.join(format!("{run}.jsonl")))
}

impl Journal {
    /// Begins a run: creates a journal with the first record, and syncs it to the disk.
    ///
    /// # Errors
    /// A message, if the folder cannot be written or another run holds the lock.
    pub fn begin(folder: &Path, boot: &str) -> Result<Self, String> {
        create(folder)?;
        let lock = lock(folder)?;
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        for count in 0..RUNS_A_SECOND_MAX {
            let run = format!("{now_s}-{count}");
            let path = path_of(folder, &run)?;
            match OpenOptions::new().create_new(true).append(true).open(&path) {
                Ok(file) => {
                    let mut journal = Self { file, run, _lock: lock };
                    journal.append(&JournalRecord::Begin { version: VERSION, boot: boot.to_owned() })?;
                    // Syncs the folder, so that the file's name also survives a crash.
                    File::open(folder).and_then(|folder| folder.sync_all()).map_err(with_remedy(folder))?;
                    return Ok(journal);
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(with_remedy(&path)(error)),
            }
        }
        Err(format!("{}: there are already {RUNS_A_SECOND_MAX} runs of this second", folder.display()))
    }

    /// Opens a run's journal for appending, and returns its content. Removes an incomplete last line.
    ///
    /// # Errors
    /// A message, if the run does not exist, its journal is damaged, or another run holds the lock.
    pub fn open(folder: &Path, run: &str) -> Result<(Self, RunLog), String> {
        let path = path_of(folder, run)?;
        if folder.exists() {
            check_owner(folder)?;
        }
        if !path.exists() {
            return Err(format!("there is no run {run} in {}", folder.display()));
        }
        let lock = lock(folder)?;
        let log = RunLog::read(folder, run)?;
        let mut file = OpenOptions::new().write(true).open(&path).map_err(with_remedy(&path))?;
        file.set_len(log.whole_bytes).map_err(with_remedy(&path))?;
        file.seek(SeekFrom::End(0)).map_err(with_remedy(&path))?;
        Ok((Self { file, run: run.to_owned(), _lock: lock }, log))
    }

    /// Records that the timer must not undo the run.
    ///
    /// # Errors
    /// A message, if the journal cannot be written.
    pub fn confirm(&mut self) -> Result<(), String> {
        self.append(&JournalRecord::Confirmed {})
    }

    /// Appends a record and syncs it to the disk.
    pub(super) fn append(&mut self, record: &JournalRecord) -> Result<(), String> {
        let line = serde_json::to_string(record).expect("a record is plain JSON") + "\n";
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| format!("cannot write the journal of run {}: {error}", self.run))
    }
}

impl RunLog {
    /// Reads a run's journal.
    ///
    /// # Errors
    /// A message, if the journal does not exist or is damaged.
    pub fn read(folder: &Path, run: &str) -> Result<Self, String> {
        let path = path_of(folder, run)?;
        check_owner(folder)?;
        let long = fs::metadata(&path).map_err(with_remedy(&path))?.len() > BYTES_MAX;
        if long {
            return Err(format!("{} is longer than a journal can be", path.display()));
        }
        let text = fs::read(&path).map_err(with_remedy(&path))?;
        Self::parse(&String::from_utf8_lossy(&text)).map_err(|why| format!("{}: {why}", path.display()))
    }
}

/// Returns the runs that have a journal, the oldest first.
pub fn runs(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let name = |entry: fs::DirEntry| Some(entry.file_name().to_str()?.strip_suffix(".jsonl")?.to_owned());
    let mut runs: Vec<String> = entries.filter_map(|entry| name(entry.ok()?)).collect();
    let key = |run: &String| {
        let (second, count) = run.split_once('-').unwrap_or((run, "0"));
        (second.parse::<u64>().unwrap_or(0), count.parse::<u64>().unwrap_or(0))
    };
    runs.sort_by_key(key);
    runs
}

/// Returns the latest run with a step that is not undone; `None` if there is no such run.
///
/// # Errors
/// A message, if the journal of a later run is damaged.
pub fn latest(folder: &Path) -> Result<Option<String>, String> {
    for run in runs(folder).into_iter().rev() {
        if RunLog::read(folder, &run)?.open_steps() > 0 {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_journal_line_is_ignored_and_a_damaged_line_is_an_error() {
        let begin = "{\"begin\":{\"version\":1,\"boot\":\"b\"}}\n";
        for torn in ["{\"change\":{\"at\":0,\"st", "{\"confirmed\":{}}", "\u{fffd}"] {
            let log = RunLog::parse(&format!("{begin}{torn}")).unwrap();
            assert_eq!((log.whole_bytes, log.steps.len(), log.is_confirmed), (begin.len() as u64, 0, false));
        }
        let damaged = format!("{begin}garbage\n{{\"confirmed\":{{}}}}\n");
        assert_eq!(RunLog::parse(&damaged).unwrap_err(), "line 2 is not a record of a run");
        let wrong = format!("{begin}{{\"done\":{{\"at\":3,\"now\":\"\"}}}}\n{{\"confirmed\":{{}}}}\n");
        assert!(RunLog::parse(&wrong).unwrap_err().contains("no step 3"));
        assert!(RunLog::parse(&begin.replace('1', "9")).unwrap_err().contains("version 9"));
        assert!(path_of(Path::new("/x"), "../../etc/passwd").is_err());
    }

    #[test]
    fn folder_that_other_users_can_change_is_refused_with_a_remedy() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("gannet-doctor-owner-{}/deep/journals", std::process::id()));
        let run = Journal::begin(&folder, "boot").unwrap().run.clone();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        let top = folder.ancestors().nth(2).unwrap().to_owned();
        let refusals = || {
            let read = RunLog::read(&folder, &run).err();
            [Journal::begin(&folder, "boot").err(), Journal::open(&folder, &run).err(), read].map(Option::unwrap)
        };
        for mode in [0o720, 0o702, 0o777] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            let want = format!("(mode {mode:o}); run: chmod go-w {}", folder.display());
            refusals().iter().for_each(|why| assert!(why.contains(&want), "{why}"));
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(RunLog::read(&folder, &run).is_ok());
        // Only root can give a folder away.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&folder, Some(65_534), None).unwrap();
            refusals().iter().for_each(|why| assert!(why.contains("belongs to user 65534") && why.contains("chown 0")));
        }
        fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn a_lock_that_is_let_go_is_free_though_a_starting_program_has_a_copy_of_its_file() {
        let folder = std::env::temp_dir().join(format!("gannet-doctor-lock-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let held = lock(&folder).unwrap();
        let _copy = held.0.try_clone().unwrap();
        assert!(lock(&folder).unwrap_err().contains("another apply or undo"));
        drop(held);
        assert!(lock(&folder).is_ok());
        fs::remove_dir_all(&folder).unwrap();
    }
}
