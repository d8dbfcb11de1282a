//! A control group of a lab, in version 1 or 2: its limits, its processes and its counters.
//!
//! ```text
//!   version 1   below this process's own group of the controller
//!   version 2   below the nearest group above this process that enables the controller for its children
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use super::ledger::{LabResource, Ledger, persist};
use super::scene::Unable;
use crate::host::field;

/// The mount point of control groups.
const ROOT: &str = "/sys/fs/cgroup";

/// The version of control groups whose files are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A control group of a lab.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    version: Version,
}

/// Returns the folder in which a group with this controller can be created, and the version.
fn parent(own: &str, root: &Path, controller: &str) -> Option<(PathBuf, Version)> {
    let line = |is_wanted: &dyn Fn(&str) -> bool| {
        own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            is_wanted(controllers).then(|| path.trim_matches('/').to_owned())
        })
    };
    if let Some(path) = line(&|controllers| controllers.split(',').any(|name| name == controller)) {
        let base = root.join(controller);
        // Inside a container the group's own folder is the root of the visible tree.
        let whole = base.join(&path);
        return Some((if whole.is_dir() { whole } else { base }, Version::One));
    }
    let path = line(&str::is_empty)?;
    let own = root.join(&path);
    let hands_on = |folder: &&Path| {
        let text = fs::read_to_string(folder.join("cgroup.subtree_control"));
        text.is_ok_and(|text| text.split_whitespace().any(|name| name == controller))
    };
    let above = own.ancestors().take_while(|folder| folder.starts_with(root)).find(hands_on)?;
    Some((above.to_owned(), Version::Two))
}

impl Group {
    /// Creates a group with this controller (`cpu`, `memory`).
    ///
    /// # Errors
    /// The reason, if no such group can be created here.
    pub fn make(ledger: &mut Ledger, controller: &str, what: &str) -> Result<Self, Unable> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let Some((parent, version)) = parent(&own, Path::new(ROOT), controller) else {
            return Err(Unable::Host(format!(
                "no control group here enables the controller {controller:?} for groups below it"
            )));
        };
        let path = parent.join(ledger.name_for(what));
        ledger.will_make(LabResource::Group(path.clone())).map_err(Unable::Failed)?;
        fs::create_dir(&path).map_err(|error| {
            Unable::Host(format!(
                "cannot create a control group in {} ({error}); run the lab as root",
                parent.display()
            ))
        })?;
        Ok(Self { path, version })
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Unable> {
        let path = self.path.join(file);
        fs::write(&path, text).map_err(|error| Unable::Host(format!("{}: {error}", path.display())))
    }

    /// Limits the group to `quota_us` of CPU time in each period; `None` lifts the limit.
    ///
    /// # Errors
    /// If the kernel refuses the limit.
    pub fn limit_cpu(&self, quota_us: Option<u64>, period_us: u64) -> Result<(), Unable> {
        match self.version {
            Version::One => {
                // The kernel refuses a period with which the quota would be below a millisecond. So the quota is
                // removed before the period is changed.
                self.write("cpu.cfs_quota_us", "-1")?;
                self.write("cpu.cfs_period_us", &period_us.to_string())?;
                quota_us.map_or(Ok(()), |quota| self.write("cpu.cfs_quota_us", &quota.to_string()))
            }
            Version::Two => {
                let quota = quota_us.map_or_else(|| "max".to_owned(), |quota| quota.to_string());
                self.write("cpu.max", &format!("{quota} {period_us}"))
            }
        }
    }

    /// Limits the group's memory, including its file cache.
    ///
    /// # Errors
    /// If the kernel refuses the limit.
    pub fn limit_memory(&self, bytes: u64) -> Result<(), Unable> {
        let file = if self.version == Version::One { "memory.limit_in_bytes" } else { "memory.max" };
        self.write(file, &bytes.to_string())
    }

    /// Returns how often an allocation by any thread of the group failed at first because of the memory limit.
    pub fn limit_reached(&self) -> f64 {
        let count = match self.version {
            Version::One => self.read("memory.failcnt").trim().parse().ok(),
            Version::Two => field(&self.read("memory.events"), "max"),
        };
        count.unwrap_or(0) as f64
    }

    /// Moves a process into the group.
    ///
    /// # Errors
    /// If the kernel refuses to move the process.
    pub fn add(&self, pid: u32) -> Result<(), Unable> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Returns the content of one of the group's files; empty if it cannot be read.
    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path.join(file)).unwrap_or_default()
    }

    /// Returns how often the group's threads were throttled, and for how long altogether, in ms.
    pub fn throttled(&self) -> (f64, f64) {
        let text = self.read("cpu.stat");
        let number = |key| field(&text, key).unwrap_or(0) as f64;
        let ms =
            if self.version == Version::One { number("throttled_time") / 1e6 } else { number("throttled_usec") / 1e3 };
        (number("nr_throttled"), ms)
    }
}

/// Ends the processes in a group, and removes the group.
pub fn remove(path: &Path) -> Result<(), String> {
    if !path.exists() {
        return Ok(());
    }
    persist(|| {
        for pid in fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default().lines() {
            if let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) {
                // If the process has ended in the meantime, the error does not matter.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        fs::remove_dir(path).map_err(|error| format!("{}: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_parent_is_the_nearest_with_the_controller_enabled() {
        let root = std::env::temp_dir().join(format!("gannet-groups-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for folder in ["memory/own", "slice/unit/leaf"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (folder, text) in [("", "cpu memory\n"), ("slice", "cpu\n"), ("slice/unit", "\n"), ("slice/unit/leaf", "")]
        {
            fs::write(root.join(folder).join("cgroup.subtree_control"), text).unwrap();
        }
        let one = "4:memory:/own\n3:cpuset:/\n0::/\n";
        assert_eq!(parent(one, &root, "memory"), Some((root.join("memory/own"), Version::One)));
        assert_eq!(parent("4:memory:/hidden\n", &root, "memory"), Some((root.join("memory"), Version::One)));
        let two = "0::/slice/unit/leaf\n";
        assert_eq!(parent(two, &root, "cpu"), Some((root.join("slice"), Version::Two)));
        assert_eq!(parent(two, &root, "memory"), Some((root.clone(), Version::Two)));
        assert_eq!(parent(two, &root, "io"), None);
        assert_eq!(parent("", &root, "cpu"), None);
        let _ = fs::remove_dir_all(root);
    }
}
