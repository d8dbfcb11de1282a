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

    /// Allows reading of the files beside `path`, which may be replaced, and of those beside the file to which links
    /// lead from there.
    pub fn read_beside(&mut self, path: &Path) {
        for path in linked(path) {
            self.read(place_of(&path));
        }
    }

    /// Allows changes of a file, or of all files below a folder, but not that files are executed.
    pub fn change(&mut self, path: &Path) {
        self.0.push((path.to_owned(), AccessFs::from_all(WANTED) & !AccessFs::Execute));
    }

    /// Allows that the file at `path`, those beside it, and those beside the file to which links lead from there are
    /// created, replaced, changed and removed.
    pub fn change_beside(&mut self, path: &Path) {
        for path in linked(path) {
            self.change(place_of(&path));
        }
    }

    /// Allows that the kernel writes a core file of this process, if it is to be in a folder.
    pub fn core_files(&mut self) {
        let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
        // A program that receives the core file is not in this sandbox.
        if !pattern.starts_with('|') {
            let access = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::Truncate;
            self.0.push((folder_of(Path::new(pattern.trim())).to_owned(), access));
        }
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
            // Landlock knows no pipes, to which `/dev/stdout` may lead, and does not restrict them.
            if path.canonicalize().is_err() {
                continue;
            }
            let Ok(place) = PathFd::new(path) else { continue };
            // The rights of folders do not apply to files.
            let access = if metadata.is_dir() { *access } else { *access & AccessFs::from_file(WANTED) };
            rules = rules.add_rule(PathBeneath::new(place, access))?;
        }
        Ok(rules.restrict_self()?.ruleset)
    }
}

/// The maximum number of links that the kernel follows.
const LINKS_MAX: usize = 40;

/// Returns `path` and, if it is a link, the path to which it leads, and so on. The last file need not exist. Links
/// among the folders of a path need nothing, because the kernel follows them and checks the folder that it reaches.
fn linked(path: &Path) -> Vec<PathBuf> {
    let mut paths = vec![path.to_owned()];
    while let Ok(target) = std::fs::read_link(&paths[paths.len() - 1])
        && paths.len() <= LINKS_MAX
    {
        let from = folder_of(&paths[paths.len() - 1]).join(target);
        paths.push(from);
    }
    paths
}

/// Folders of the system, in which only the named file is allowed.
const SYSTEM: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Returns the folder that contains `path`, or `path` itself if the folder is the system's.
fn place_of(path: &Path) -> &Path {
    let folder = folder_of(path);
    // Of `/dev` only the folder itself: memory files may lie in `/dev/shm`.
    let is_system = folder == Path::new(SYSTEM[0]) || SYSTEM[1..].iter().any(|system| folder.starts_with(system));
    if is_system { path } else { folder }
}

/// Returns the folder that contains `path`.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
