//! Restricts files and TCP connections with Landlock.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus,
};
use std::path::{Path, PathBuf};

/// The version of Landlock whose restrictions are requested: it has those of TCP connections (4) and of devices (5).
/// Older kernels enforce a part of them.
const WANTED: ABI = ABI::V5;

/// The files and folders that the process may access. Those that do not exist are ignored.
#[derive(Clone, Debug, Default)]
pub struct Folders(Vec<(PathBuf, BitFlags<AccessFs>)>);

impl Folders {
    /// Allows reading of a file, or of all files below a folder.
    pub fn read(&mut self, path: &Path) {
        self.0.push((path.to_owned(), AccessFs::ReadFile | AccessFs::ReadDir));
    }

    /// Allows reading of the files beside `path`, which may be replaced, and of those beside the target of a link.
    pub fn read_beside(&mut self, path: &Path) {
        for path in [Some(path.to_owned()), path.canonicalize().ok()].into_iter().flatten() {
            self.read(folder_of(&path));
        }
    }

    /// Allows changes of a file, or of all files below a folder, but not that files are executed.
    pub fn change(&mut self, path: &Path) {
        self.0.push((path.to_owned(), AccessFs::from_all(WANTED) & !AccessFs::Execute));
    }

    /// Allows that the file at `path` is created, replaced, changed and removed, and those beside it.
    pub fn change_beside(&mut self, path: &Path) {
        self.change(folder_of(path));
    }

    /// Allows changes of a device, or of a file that may have to be created.
    pub fn change_device(&mut self, path: &Path) {
        let is_file = std::fs::metadata(path).map_or(true, |metadata| metadata.is_file());
        if is_file { self.change_beside(path) } else { self.change(path) }
    }

    /// Allows that sockets are created and removed beside `path`.
    pub fn bind_beside(&mut self, path: &Path) {
        self.0.push((folder_of(path).to_owned(), AccessFs::MakeSock | AccessFs::RemoveFile));
    }

    /// Restricts this thread, and those that it creates later, to these files, and forbids connections to TCP ports.
    pub(super) fn restrict(&self) -> Result<RulesetStatus, RulesetError> {
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(WANTED))?
            .handle_access(AccessNet::ConnectTcp)?;
        let mut rules = rules.create()?;
        for (path, access) in &self.0 {
            let Ok(metadata) = std::fs::metadata(path) else { continue };
            let Ok(place) = PathFd::new(path) else { continue };
            // The rights of folders do not apply to files.
            let access = if metadata.is_dir() { *access } else { *access & AccessFs::from_file(WANTED) };
            rules = rules.add_rule(PathBeneath::new(place, access))?;
        }
        Ok(rules.restrict_self()?.ruleset)
    }
}

/// Returns the folder that contains `path`.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
