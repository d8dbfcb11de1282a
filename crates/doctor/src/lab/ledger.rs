//! A record of everything a lab creates that could outlive it, written before the lab creates it.
//!
//! ```text
//!   FOLDER/lock              locked while a run begins
//!   FOLDER/run-PID-N/lock    locked by the run until it ends: the kernel unlocks it however the run ends
//!                   /left    a line of JSON for each resource outside this folder
//!                   /...     the lab's files
//!
//!   begin: a run with a free lock is dead. The resources in its lines are removed, the last first, then its folder.
//! ```
//!
//! Invariants:
//! - Whatever a line contains, only resources of a lab are removed: names that begin with `gannet-lab-`, and files in
//!   the run's own folder. A setting is restored only if it is below /proc/sys/vm or is [`ACCOUNTING`], and if it still
//!   has a value that the lab wrote in this boot.
//! - The folder is refused if other users can write to it, because its lines are executed with the rights of the lab's
//!   user.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::group;

/// The prefix of every name of a lab's resource.
pub const PREFIX: &str = "gannet-lab-";
/// Maximum number of runs' folders that are examined.
const RUNS_MAX: usize = 1000;
/// Maximum number of a run's lines that are processed.
const LINES_MAX: usize = 10_000;
/// Number of attempts to remove a resource that is still in use.
const TRIES: usize = 100;
const WAIT: Duration = Duration::from_millis(20);

/// The setting with which the kernel accounts for the delays of threads that start afterwards.
pub const ACCOUNTING: &str = "/proc/sys/kernel/task_delayacct";

/// A resource that a run creates or changes outside its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabResource {
    /// A control group, by its folder.
    Group(PathBuf),
    /// A network namespace, by its name.
    Network(String),
    /// The loop device of a file.
    Loop(PathBuf),
    /// A kernel setting that the lab changes.
    Setting {
        /// The path of the setting's file.
        path: PathBuf,
        /// The value before the lab.
        old: String,
        /// The values that the lab writes.
        new: Vec<String>,
        /// The id of the boot during which the lab ran.
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
    /// The run's lock, which is released when this value is dropped.
    _lock: File,
}

/// Returns the default folder for the runs of this user's labs.
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
    /// Begins a run in `folder`, after removing the resources of dead runs. Returns the run, and notes about what was
    /// removed.
    ///
    /// # Errors
    /// The reason, if the folder cannot be used.
    pub fn begin(folder: &Path) -> Result<(Self, Vec<String>), String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(wrong)?;
        let seen = fs::symlink_metadata(folder).map_err(wrong)?;
        if !seen.is_dir() || seen.uid() != rustix::process::geteuid().as_raw() || seen.mode() & 0o022 != 0 {
            let why = "this is not a folder that belongs to you and that only you can write to; pass another --folder";
            return Err(format!("{}: {why}", folder.display()));
        }
        let gate = own_file(&folder.join("lock")).map_err(wrong)?;
        gate.lock().map_err(wrong)?;
        let notes = sweep(folder);
        let name = (0..RUNS_MAX)
            .map(|n| format!("run-{}-{n}", std::process::id()))
            .find(|name| DirBuilder::new().mode(0o700).create(folder.join(name)).is_ok())
            .ok_or_else(|| format!("cannot create a folder in {}", folder.display()))?;
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

    /// Returns a name for a resource of this run.
    pub fn name_for(&self, what: &str) -> String {
        format!("{PREFIX}{}-{what}", self.name)
    }

    /// Records a resource before it is created.
    ///
    /// # Errors
    /// The reason, if the record cannot be written. The caller must then not create the resource.
    pub fn will_make(&mut self, left: LabResource) -> Result<(), String> {
        let line = serde_json::to_string(&left).expect("a line is plain JSON") + "\n";
        let written = self.lines.write_all(line.as_bytes()).and_then(|()| self.lines.sync_data());
        written.map_err(|error| format!("{}: {error}", self.folder.join("left").display()))?;
        self.left.push(left);
        Ok(())
    }

    /// Removes all recorded resources, the last first. The next start of a lab tries again to remove those that cannot
    /// be removed now. Returns the reasons.
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

/// Removes the resources of dead runs, and returns notes about what was removed.
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
        // If the last line is incomplete, the run ended while writing it, so its resource was not created.
        let left: Vec<LabResource> =
            text.lines().take(LINES_MAX).filter_map(|line| serde_json::from_str(line).ok()).collect();
        let faults: Vec<String> = left.iter().rev().filter_map(|left| take_away(left, &run).err()).collect();
        let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if faults.is_empty() {
            notes.push(match fs::remove_dir_all(&run) {
                Ok(()) => {
                    format!("removed the remains of a killed lab ({name}: {} resources)", left.len())
                }
                Err(error) => format!("{}: {error}", run.display()),
            });
        } else {
            notes.push(format!("cannot remove the remains of a killed lab: {}", faults.join("; ")));
        }
    }
    notes
}

/// Returns the id of the current boot of the host.
pub fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Removes a resource. A resource that does not exist is not an error.
fn take_away(left: &LabResource, run: &Path) -> Result<(), String> {
    match left {
        LabResource::Group(path) => {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !path.starts_with("/sys/fs/cgroup") || !name.starts_with(PREFIX) {
                return Err(format!("{}: this is not a control group of a lab", path.display()));
            }
            group::remove(path)
        }
        LabResource::Network(name) if name.starts_with(PREFIX) && !name.contains('/') => {
            if !Path::new("/run/netns").join(name).exists() {
                return Ok(());
            }
            command("ip", &["netns", "delete", name]).map(drop)
        }
        LabResource::Network(name) => Err(format!("{name}: this is not a network of a lab")),
        LabResource::Loop(file) if file.parent() == Some(run) => match loop_of(file) {
            Some(device) => command("losetup", &["-d", &device]).map(drop),
            None => Ok(()),
        },
        LabResource::Loop(file) => Err(format!("{}: not in the run's folder", file.display())),
        LabResource::Setting { path, old, new, boot: then } => {
            let is_of_memory =
                path.starts_with("/proc/sys/vm") && !path.components().any(|part| part.as_os_str() == "..");
            if !is_of_memory && path != Path::new(ACCOUNTING) {
                return Err(format!("{}: this is not a setting of a lab", path.display()));
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

/// Repeats an action until it succeeds, at most [`TRIES`] times, because a resource may still be in use.
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
        assert!(notes.len() == 1 && notes[0].contains("run-1-0: 1 resources"), "{notes:?}");
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
