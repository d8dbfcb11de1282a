//! A record of everything a lab creates that could outlive it, written before the lab creates it.
//!
//! ```text
//!   FOLDER/lock              held while runs begin
//!   FOLDER/run-PID-N/lock    held by the run as long as it lives: the kernel releases it however the run ends
//!                   /left    a line of JSON for each thing outside this folder
//!                   /...     the lab's files
//!
//!   begin: a run whose lock is free is dead: what its lines name is removed, the last first; then its folder
//! ```
//!
//! Invariants:
//! - Only things that belong to a lab are removed, whatever a line says: names that begin with `gannet-lab-`, a file in
//!   the run's own folder, and a setting below /proc/sys/vm that still has a value which the lab has written.
//! - The folder must belong to its owner alone, or it is refused: its lines are followed with the rights of the lab's
//!   user.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::group;

/// The prefix of every name that a lab gives.
pub const PREFIX: &str = "gannet-lab-";
/// Maximum number of runs' folders that are examined.
const RUNS_MAX: usize = 1000;
/// Maximum number of a run's lines that are followed.
const LINES_MAX: usize = 10_000;
/// Number of attempts to remove a thing that is still in use, and the wait between them.
const TRIES: usize = 100;
const WAIT: Duration = Duration::from_millis(20);

/// The setting that makes the kernel account for the delays of threads that start from then on.
pub const ACCOUNTING: &str = "/proc/sys/kernel/task_delayacct";

/// A thing that a run creates outside its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabResource {
    /// A control group, by its folder.
    Group(PathBuf),
    /// A network namespace, by its name.
    Network(String),
    /// The loop device of a file.
    Loop(PathBuf),
    /// A kernel setting: its file, its old value, the values that the lab writes, and the current boot of the host.
    Setting {
        /// Its file.
        path: PathBuf,
        /// Its value before the lab.
        old: String,
        /// The values that the lab writes.
        new: Vec<String>,
        /// The boot of the host in which the lab ran.
        boot: String,
    },
}

/// A run's folder.
#[derive(Debug)]
pub struct Ledger {
    folder: PathBuf,
    name: String,
    left: Vec<LabResource>,
    lines: File,
    /// The run's lock, held as long as this value lives.
    _lock: File,
}

/// Returns the folder in which this user's labs have their folders.
pub fn usual_folder() -> PathBuf {
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        PathBuf::from("/var/lib/gannet/lab")
    } else {
        std::env::temp_dir().join(format!("gannet-lab-of-{}", uid.as_raw()))
    }
}

fn own_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

impl Ledger {
    /// Begins a run in `folder` after removing what dead runs left. Returns the run and a list of what was removed.
    ///
    /// # Errors
    /// If the folder cannot be used: the reason.
    pub fn begin(folder: &Path) -> Result<(Self, Vec<String>), String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(wrong)?;
        let seen = fs::symlink_metadata(folder).map_err(wrong)?;
        if !seen.is_dir() || seen.uid() != rustix::process::geteuid().as_raw() || seen.mode() & 0o022 != 0 {
            let why = "it is no folder that its owner alone may write to, and that is you; name another with --folder";
            return Err(format!("{}: {why}", folder.display()));
        }
        let gate = own_file(&folder.join("lock")).map_err(wrong)?;
        gate.lock().map_err(wrong)?;
        let notes = sweep(folder);
        let name = (0..RUNS_MAX)
            .map(|n| format!("run-{}-{n}", std::process::id()))
            .find(|name| DirBuilder::new().mode(0o700).create(folder.join(name)).is_ok())
            .ok_or_else(|| format!("{}: no folder can be made in it", folder.display()))?;
        let folder = folder.join(&name);
        let lock = own_file(&folder.join("lock")).map_err(wrong)?;
        lock.lock().map_err(wrong)?;
        let lines = own_file(&folder.join("left")).map_err(wrong)?;
        Ok((Self { folder, name, left: Vec::new(), lines, _lock: lock }, notes))
    }

    /// Returns the run's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a name for a thing of this run.
    pub fn name_for(&self, what: &str) -> String {
        format!("{PREFIX}{}-{what}", self.name)
    }

    /// Records a thing that is about to be created.
    ///
    /// # Errors
    /// If the record cannot be written: the reason. The thing must then not be created.
    pub fn will_make(&mut self, left: LabResource) -> Result<(), String> {
        let line = serde_json::to_string(&left).expect("a line is plain JSON") + "\n";
        let written = self.lines.write_all(line.as_bytes()).and_then(|()| self.lines.sync_data());
        written.map_err(|error| format!("{}: {error}", self.folder.join("left").display()))?;
        self.left.push(left);
        Ok(())
    }

    /// Removes everything that was recorded, the last first. Things that cannot be removed stay for the next start.
    pub fn clear(&mut self) -> Vec<String> {
        let (mut faults, mut still) = (Vec::new(), Vec::new());
        for left in std::mem::take(&mut self.left).into_iter().rev() {
            if let Err(fault) = take_away(&left, &self.folder) {
                faults.push(fault);
                still.push(left);
            }
        }
        self.left = still;
        faults
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if self.clear().is_empty() {
            // The next start removes any files that remain.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Removes what dead runs have left, and returns a list of it.
fn sweep(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_run = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("run-") && path.symlink_metadata().is_ok_and(|seen| seen.is_dir())
    };
    let runs: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_run).take(RUNS_MAX).collect();
    let mut notes = Vec::new();
    for run in runs {
        let Ok(lock) = own_file(&run.join("lock")) else { continue };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => {
                notes.push(format!("{}: {error}", run.display()));
                continue;
            }
        }
        let text = fs::read_to_string(run.join("left")).unwrap_or_default();
        // A line that the run's end cut short names a thing that was not created.
        let left: Vec<LabResource> =
            text.lines().take(LINES_MAX).filter_map(|line| serde_json::from_str(line).ok()).collect();
        let faults: Vec<String> = left.iter().rev().filter_map(|left| take_away(left, &run).err()).collect();
        let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if faults.is_empty() {
            notes.push(match fs::remove_dir_all(&run) {
                Ok(()) => {
                    format!("what a lab that was killed had left is cleared away ({name}, {} things)", left.len())
                }
                Err(error) => format!("{}: {error}", run.display()),
            });
        } else {
            notes.push(format!("what a lab that was killed had left stays: {}", faults.join("; ")));
        }
    }
    notes
}

/// Returns the id of the current boot of the host.
pub fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Removes a thing. If it does not exist, that is no error.
fn take_away(left: &LabResource, run: &Path) -> Result<(), String> {
    match left {
        LabResource::Group(path) => {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !path.starts_with("/sys/fs/cgroup") || !name.starts_with(PREFIX) {
                return Err(format!("{}: no control group of a lab", path.display()));
            }
            group::remove(path)
        }
        LabResource::Network(name) if name.starts_with(PREFIX) && !name.contains('/') => {
            if !Path::new("/run/netns").join(name).exists() {
                return Ok(());
            }
            command("ip", &["netns", "delete", name]).map(drop)
        }
        LabResource::Network(name) => Err(format!("{name}: no network of a lab")),
        LabResource::Loop(file) if file.parent() == Some(run) => match loop_of(file) {
            Some(device) => command("losetup", &["-d", &device]).map(drop),
            None => Ok(()),
        },
        LabResource::Loop(file) => Err(format!("{}: not in the run's folder", file.display())),
        LabResource::Setting { path, old, new, boot: then } => {
            let is_of_memory =
                path.starts_with("/proc/sys/vm") && !path.components().any(|part| part.as_os_str() == "..");
            if !is_of_memory && path != Path::new(ACCOUNTING) {
                return Err(format!("{}: no setting of a lab", path.display()));
            }
            let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
            let now = fs::read_to_string(path).map_err(wrong)?.trim().to_owned();
            if *then == boot() && now != *old && new.contains(&now) {
                fs::write(path, old).map_err(wrong)?;
            }
            Ok(())
        }
    }
}

/// Returns the loop device of a file: `/dev/loop3`.
pub fn loop_of(file: &Path) -> Option<String> {
    fs::read_dir("/sys/block").ok()?.filter_map(Result::ok).find_map(|entry| {
        let behind = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        (Path::new(behind.trim_end()) == file).then(|| format!("/dev/{}", entry.file_name().to_string_lossy()))
    })
}

/// Runs a system program and returns its output.
pub fn command(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("{program} {}: {why}", arguments.join(" ")))
}

/// Repeats an action until it succeeds, for as long as a thing in use may still be released.
pub fn persist(mut act: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    for _ in 1..TRIES {
        if act().is_ok() {
            return Ok(());
        }
        std::thread::sleep(WAIT);
    }
    act()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("gannet-ledger-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn leftovers_of_a_dead_run_are_removed_and_a_live_run_is_untouched() {
        let folder = folder("dead");
        let (living, notes) = Ledger::begin(&folder).expect("begin");
        assert!(notes.is_empty(), "{notes:?}");
        let dead = folder.join("run-1-0");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("left"), "{\"network\":\"gannet-lab-none\"}\n{\"grou").unwrap();
        let (other, notes) = Ledger::begin(&folder).expect("begin");
        assert!(notes.len() == 1 && notes[0].contains("run-1-0, 1 things"), "{notes:?}");
        assert!(!dead.exists() && living.folder().exists() && living.folder() != other.folder());
        let path = living.folder().to_owned();
        drop((living, other));
        assert!(!path.exists());
        let _ = fs::remove_dir_all(folder);
    }

    #[test]
    fn ledger_entries_for_foreign_resources_are_not_removed() {
        let run = folder("foreign");
        let setting = |path: &str| LabResource::Setting {
            path: path.into(),
            old: "1".to_owned(),
            new: vec!["0".to_owned()],
            boot: boot(),
        };
        for left in [
            LabResource::Group("/sys/fs/cgroup/memory/system.slice".into()),
            LabResource::Group("/home/gannet-lab-x".into()),
            LabResource::Network("default".to_owned()),
            LabResource::Network("gannet-lab-/../x".to_owned()),
            LabResource::Loop("/var/disk.img".into()),
            setting("/proc/sys/kernel/core_pattern"),
            setting("/proc/sys/vm/../kernel/core_pattern"),
        ] {
            assert!(take_away(&left, &run).is_err(), "{left:?}");
        }
        assert_eq!(take_away(&LabResource::Group("/sys/fs/cgroup/gannet-lab-none".into()), &run), Ok(()));
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder("open");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Ledger::begin(&folder).is_err_and(|why| why.contains("--folder")));
        let _ = fs::remove_dir_all(folder);
    }
}
