//! The control groups of a process: its own group and the groups above, whose limits also apply to the process.
//!
//! ```text
//!   /proc/PID/cgroup   4:cpu,cpuacct:/kubepods/pod1/9f01         version 1, one line per hierarchy
//!                      0::/kubepods/pod1/9f01                    version 2
//!                                       │
//!   groups("cpu")      /sys/fs/cgroup/cpu/kubepods/pod1/9f01     the process's own group
//!                      /sys/fs/cgroup/cpu/kubepods/pod1          a limit of this group applies too
//!                      /sys/fs/cgroup/cpu/kubepods
//!                      /sys/fs/cgroup/cpu
//! ```
//! Inside a container the group's folder is the root of the visible tree, so the groups above are not visible.

use crate::host::{Host, Unread};

/// The mount point of control groups.
const GROUPS: &str = "/sys/fs/cgroup";

impl Host {
    /// Returns the folders of the process's own group and of the groups above, as far as they are visible here. The own
    /// group comes first. Without a named process, returns the groups of the doctor's process.
    ///
    /// # Errors
    /// [`Unread`]: if the kernel does not report the group, or if the controller does not exist.
    pub fn groups(&self, controller: &str) -> Result<Vec<String>, Unread> {
        let own = self.process("cgroup").unwrap_or_else(|_| "/proc/self/cgroup".to_owned());
        let text = self.read(&own)?;
        let mut folders = Vec::new();
        for line in text.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
            let is_first = controllers.split(',').any(|name| name == controller);
            if !is_first && !controllers.is_empty() {
                continue;
            }
            let base = if is_first { format!("{GROUPS}/{controller}") } else { GROUPS.to_owned() };
            // Inside a container the path may be a path of the host, which does not exist here.
            let group = group.trim_end_matches('/');
            let is_seen = !group.split('/').any(|part| part == "..") && self.has_folder(&format!("{base}{group}"));
            let group = if is_seen { group } else { "" };
            let ends = group.match_indices('/').map(|(at, _)| at).chain([group.len()]);
            let above: Vec<String> = ends.map(|end| format!("{base}{}", &group[..end])).collect();
            folders.extend(above.into_iter().rev().filter(|folder| self.has_folder(folder)));
        }
        folders.dedup();
        if folders.is_empty() { Err(Unread::Absent(format!("{GROUPS}/{controller}"))) } else { Ok(folders) }
    }

    /// Returns the path of the file `file` in the nearest of [`Host::groups`] that contains it.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn cgroup(&self, controller: &str, file: &str) -> Result<String, Unread> {
        let mut paths = self.groups(controller)?.into_iter().map(|folder| format!("{folder}/{file}"));
        paths.find(|path| self.is_there(path)).ok_or_else(|| Unread::Absent(format!("{GROUPS}/.../{file}")))
    }

    /// Returns the version of control groups that limits the process, if the kernel reports it.
    pub fn groups_version(&self) -> Option<u8> {
        let own = self.process("cgroup").unwrap_or_else(|_| "/proc/self/cgroup".to_owned());
        let text = self.read(&own).ok()?;
        let is_second = |line: &str| line.starts_with("0::");
        let is_named = |line: &str| line.split(':').nth(1).is_none_or(|name| name.starts_with("name="));
        let mut lines = text.lines().filter(|line| !is_named(line)).peekable();
        lines.peek()?;
        Some(if lines.all(is_second) { 2 } else { 1 })
    }

    /// Returns true if version 2 is in use and all groups up to the root are visible here. If none of them then has a
    /// limit, the process has no such limit. The root is the group without a file `cgroup.type`.
    pub fn sees_all_groups(&self, folders: &[String]) -> bool {
        folders.last().is_some_and(|folder| {
            folder == GROUPS
                && self.is_there(&format!("{folder}/cgroup.controllers"))
                && !self.is_there(&format!("{folder}/cgroup.type"))
        })
    }
}
