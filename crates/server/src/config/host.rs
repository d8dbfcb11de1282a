//! The resources of the machine, or of the control group that the server runs in: CPUs, memory, open files.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The resources of the host that the server may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The numbers of the CPUs that this process may run on, ascending; never empty.
    pub cpus: Vec<usize>,
    /// The CPUs that the control group's quota allows, in hundredths of a CPU; `None` if there is no quota.
    pub cpu_quota_percent: Option<u64>,
    /// The machine's memory, in bytes.
    pub machine_bytes: u64,
    /// The control group's memory limit, in bytes, if the limit is below the machine's memory.
    pub cgroup_bytes: Option<u64>,
    /// The number of file descriptors that this process may open once the soft limit of open files is raised to the
    /// hard limit.
    pub files_max: u64,
    /// True if the kernel gives huge pages to a process that requests them.
    pub huge_pages: bool,
}

impl Host {
    /// Queries the kernel. A limit that cannot be read is treated as absent. Without /proc, the memory counts as 1 GiB.
    pub fn probe() -> Self {
        Self::read(Path::new("/"), io::affinity::usable_cpus().unwrap_or_default(), files_max())
    }

    /// Reads the resources like [`Host::probe`], from the proc and sys file systems below `root`.
    fn read(root: &Path, cpus: Vec<usize>, files_max: u64) -> Self {
        let machine_bytes = machine_bytes(root).unwrap_or(1 << 30);
        let groups = Groups::read(root);
        Self {
            cpus: if cpus.is_empty() { vec![0] } else { cpus },
            cpu_quota_percent: groups.cpu_quota_percent(),
            machine_bytes,
            cgroup_bytes: groups.memory_bytes().filter(|bytes| *bytes < machine_bytes),
            files_max,
            huge_pages: huge_pages(root),
        }
    }

    /// Returns the maximum memory that the server may use, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.cgroup_bytes.unwrap_or(self.machine_bytes)
    }

    /// Returns the number of workers that can run at once: one for each usable CPU, at most the quota, rounded up.
    pub fn parallelism(&self) -> u64 {
        let quota = self.cpu_quota_percent.map_or(u64::MAX, |percent| percent.div_ceil(100).max(1));
        quota.min(self.cpus.len() as u64)
    }
}

fn files_max() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// Raises the soft limit of open files to `files`, if the soft limit is lower, but at most to the hard limit.
///
/// # Errors
/// If the kernel refuses the new limit.
pub fn raise_files_limit(files: u64) -> std::io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= files) {
        return Ok(());
    }
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: limit.maximum })?)
}

/// Raises the hard and the soft limit of open files to `files`, if the system allows it.
pub fn lift_files_limit(files: u64) {
    // If the process may not raise the limit, [`Host::probe`] finds the lower limit and the caller reports the problem.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: Some(files) });
}

/// Returns true if the kernel's setting for huge pages, for instance `always [madvise] never`, is not set to `never`. A
/// kernel without this setting has no huge pages.
fn huge_pages(root: &Path) -> bool {
    let text = fs::read_to_string(root.join("sys/kernel/mm/transparent_hugepage/enabled")).unwrap_or_default();
    text.contains("[always]") || text.contains("[madvise]")
}

fn machine_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The control groups of this process: the directories from the process's group up to the root group, for cgroup v1 or
/// v2.
struct Groups {
    v2: Vec<PathBuf>,
    v1_memory: Vec<PathBuf>,
    v1_cpu: Vec<PathBuf>,
}

impl Groups {
    fn read(root: &Path) -> Self {
        let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let sys = root.join("sys/fs/cgroup");
        let mut groups = Self { v2: Vec::new(), v1_memory: Vec::new(), v1_cpu: Vec::new() };
        for line in text.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            if controllers.is_empty() {
                groups.v2 = upwards(&sys, path);
            }
            if controllers.split(',').any(|name| name == "memory") {
                groups.v1_memory = upwards(&sys.join("memory"), path);
            }
            if controllers.split(',').any(|name| name == "cpu") {
                groups.v1_cpu = upwards(&sys.join(controllers), path);
                groups.v1_cpu.extend(upwards(&sys.join("cpu"), path));
            }
        }
        groups
    }

    /// Returns the smallest memory limit of all groups from the process's own up to the root, in bytes.
    fn memory_bytes(&self) -> Option<u64> {
        let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let v2 = self.v2.iter().filter_map(|folder| number(folder.join("memory.max")));
        let v1 = self.v1_memory.iter().filter_map(|folder| number(folder.join("memory.limit_in_bytes")));
        v2.chain(v1).min()
    }

    fn cpu_quota_percent(&self) -> Option<u64> {
        let share = |quota: &str, period: &str| {
            let (quota, period) = (quota.trim().parse::<u64>().ok()?, period.trim().parse::<u64>().ok()?);
            quota.checked_mul(100)?.checked_div(period)
        };
        let v2 = self.v2.iter().filter_map(|folder| {
            let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
            let (quota, period) = text.trim().split_once(' ')?;
            share(quota, period)
        });
        let v1 = self.v1_cpu.iter().filter_map(|folder| {
            let quota = fs::read_to_string(folder.join("cpu.cfs_quota_us")).ok()?;
            share(&quota, &fs::read_to_string(folder.join("cpu.cfs_period_us")).ok()?)
        });
        v2.chain(v1).min()
    }
}

/// Returns `base` joined with `path` and with each parent of `path`. In a container, `path` may not exist below `base`,
/// but its parents do.
fn upwards(base: &Path, path: &str) -> Vec<PathBuf> {
    let relative = Path::new(path.trim_start_matches('/'));
    relative.ancestors().map(|part| base.join(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("gannet-host-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }

        fn host(&self) -> Host {
            Host::read(&self.0, vec![0, 1, 2, 3], 1024)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n");

    #[test]
    fn cgroup_v2_memory_limit_of_an_ancestor_applies() {
        let tree = Tree::new(
            "v2",
            &[
                MEMINFO,
                ("proc/self/cgroup", "0::/a/b\n"),
                ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                ("sys/fs/cgroup/a/memory.max", "8388608\n"),
                ("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"),
                ("sys/fs/cgroup/a/cpu.max", "max 100000\n"),
            ],
        );
        let host = tree.host();
        assert_eq!((host.cgroup_bytes, host.memory_bytes()), (Some(8 << 20), 8 << 20));
        assert_eq!((host.cpu_quota_percent, host.parallelism()), (Some(150), 2));
    }

    #[test]
    fn a_limit_of_version_1_counts_and_its_unlimited_value_does_not() {
        let tree = Tree::new(
            "v1",
            &[
                MEMINFO,
                ("proc/self/cgroup", "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
                ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ],
        );
        let host = tree.host();
        assert_eq!((host.cgroup_bytes, host.cpu_quota_percent, host.parallelism()), (None, None, 4));
        fs::write(tree.0.join("sys/fs/cgroup/memory/memory.limit_in_bytes"), "4194304\n").unwrap();
        fs::write(tree.0.join("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"), "50000\n").unwrap();
        let host = tree.host();
        assert_eq!((host.cgroup_bytes, host.parallelism()), (Some(4 << 20), 1));
    }

    #[test]
    fn a_machine_without_control_groups_is_whole() {
        let tree = Tree::new("none", &[MEMINFO]);
        let host = tree.host();
        assert_eq!((host.memory_bytes(), host.parallelism(), host.huge_pages), (16 << 20, 4, false));
        let host = Host::read(Path::new("/nonexistent"), Vec::new(), 1024);
        assert_eq!((host.memory_bytes(), host.parallelism()), (1 << 30, 1));
    }

    #[test]
    fn huge_pages_are_available_unless_set_to_never() {
        for (text, had) in [("always [madvise] never\n", true), ("[always] madvise never\n", true), ("[never]", false)]
        {
            let tree = Tree::new("thp", &[MEMINFO, ("sys/kernel/mm/transparent_hugepage/enabled", text)]);
            assert_eq!(tree.host().huge_pages, had, "{text}");
        }
    }

    #[test]
    fn this_machine_has_cpus_memory_and_files() {
        let host = Host::probe();
        assert!(host.parallelism() >= 1 && host.memory_bytes() > 1 << 20 && host.files_max > 10, "{host:?}");
        raise_files_limit(1).unwrap();
    }
}
