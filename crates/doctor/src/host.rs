//! Reads the files of a host: below `/`, or below the root of a tree of captured files.
//!
//! ```text
//!   the machine    watch() stores the first reading of the counters ── a window ──> twice() reads them again
//!   a tree         DIR/proc/stat is the first reading, DIR/later/proc/stat the second reading, one second later
//! ```

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::ethtool::Tunable;

/// Maximum size of one file in bytes. A longer file is not read at all, because a part of it could be misleading. The
/// list of a process's 262,144 mappings takes about 30 MB.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of entries of one folder. A folder with more entries is not read.
pub const ENTRIES_MAX: usize = 1 << 17;
/// Maximum number of threads of one process that are measured.
pub const THREADS_MAX: usize = 1024;

/// Files with counters of the whole machine, which are read twice.
const COUNTERS: [&str; 6] =
    ["/proc/stat", "/proc/vmstat", "/proc/interrupts", "/proc/net/netstat", "/proc/net/snmp", "/proc/net/softnet_stat"];

/// The reason why a check has no verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// A file does not exist.
    Absent(String),
    /// A file, or another source, cannot be read: its name and the reason.
    Refused(String, String),
    /// A file does not have the expected content: its path and a description of that content.
    Garbage(String, &'static str),
    /// A counter was read only once: the file's path.
    Once(String),
    /// The check examines a process, and the caller named none.
    NoProcess,
    /// The check does not apply here, or was not requested: the reason.
    Beside(&'static str),
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absent(path) => write!(f, "{path} does not exist"),
            Self::Refused(path, why) => write!(f, "{path} cannot be read ({why})"),
            Self::Garbage(path, wanted) => write!(f, "{path} has no {wanted}"),
            Self::Once(path) => write!(f, "{path} was read once, but the check needs its growth"),
            Self::NoProcess => write!(f, "the check examines a process; pass its id with --pid"),
            Self::Beside(why) => f.write_str(why),
        }
    }
}

/// The host and the process to examine, and the time for which counters are watched.
#[derive(Clone, Debug)]
pub struct CheckTarget {
    /// The root of the host's files: `/`, or a tree.
    pub root: PathBuf,
    /// The process id of the server, if the caller named one.
    pub pid: Option<u32>,
    /// The time between the two readings of counters.
    pub window: Duration,
    /// The actions beyond reading that the user requested.
    pub asked: OptInActions,
}

/// Actions that the doctor takes only on request.
#[derive(Clone, Debug, Default)]
pub struct OptInActions {
    /// True to run measurements that use a CPU or a disk, and so slow down other programs.
    pub measure: bool,
    /// The folder of the server's log or data, if the user named it.
    pub data: Option<PathBuf>,
    /// True to query the cloud's metadata service, at its link-local address.
    pub metadata: bool,
}

/// A host, with the first readings of its counters.
#[derive(Debug)]
pub struct Host {
    target: CheckTarget,
    /// Contents of the counters' files at the beginning of the window, by path.
    before: BTreeMap<String, String>,
    begun: Instant,
    /// The clocks at the beginning of the window, if the host is this machine.
    clocks: Option<Clocks>,
    /// True if the named process is in another network namespace than the doctor.
    is_elsewhere: bool,
    /// The record of everything that was read, if it was requested.
    tape: Option<RefCell<Tape>>,
}

/// Everything that was read of a host, in the form of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tape {
    /// Files by their paths; second readings below `/later`.
    pub files: BTreeMap<String, String>,
    /// Paths of the folders that were listed, and of the entries found in them.
    pub folders: BTreeSet<String>,
    /// Links, with the last component of their targets.
    pub links: BTreeMap<String, String>,
}

/// A file's content at two instants.
#[derive(Clone, Debug, PartialEq)]
pub struct Twice {
    /// The content at the first instant.
    pub before: String,
    /// The content at the second instant.
    pub after: String,
    /// Seconds between the two instants.
    pub seconds: f64,
}

impl Tape {
    /// Records both readings of a counter.
    fn take_two_snapshots(&mut self, path: &str, before: &str, after: &str) {
        self.files.insert(path.to_owned(), before.to_owned());
        self.files.insert(format!("/later{path}"), after.to_owned());
    }

    /// Records the first reading of a counter, and ignores later readings.
    fn take_first_snapshot(&mut self, path: &str, text: &str) {
        self.files.entry(path.to_owned()).or_insert_with(|| text.to_owned());
    }
}

impl Host {
    /// Opens a host, reads its counters and waits for the length of the window. In a tree, whose second readings exist
    /// already, it does not wait.
    pub fn watch(target: CheckTarget) -> Self {
        let mut host = Self::of(target);
        if host.is_live() {
            host.clocks = Some(Clocks::now());
            let mut paths: Vec<String> = COUNTERS.map(str::to_owned).to_vec();
            paths.extend(host.process("stat"));
            paths.extend(
                host.threads()
                    .unwrap_or_default()
                    .into_iter()
                    .flat_map(|thread| ["status", "sched", "stat"].map(|file| format!("{thread}/{file}"))),
            );
            for nic in host.nics().unwrap_or_default() {
                let folder = format!("/sys/class/net/{nic}/statistics");
                paths.extend(["rx_missed_errors", "rx_fifo_errors"].map(|name| format!("{folder}/{name}")));
                if let Ok(text) = host.ethtool(&nic, "S") {
                    host.before.insert(format!("/ethtool/{nic}/S"), text);
                }
            }
            for (controller, file) in [("cpu", "cpu.stat"), ("memory", "memory.events"), ("memory", "memory.failcnt")] {
                let folders = host.groups(controller).unwrap_or_default();
                paths.extend(folders.iter().map(|folder| format!("{folder}/{file}")));
            }
            for path in paths {
                if let Ok(text) = host.read(&path) {
                    host.before.insert(path, text);
                }
            }
            std::thread::sleep(host.target.window);
        }
        host
    }

    /// Opens a host without reading anything yet. There will be no first reading of the counters.
    pub fn now(root: PathBuf, pid: Option<u32>) -> Self {
        Self::of(CheckTarget { root, pid, window: Duration::ZERO, asked: OptInActions::default() })
    }

    fn of(target: CheckTarget) -> Self {
        let is_elsewhere = target.pid.is_some_and(|pid| is_in_another_network(&target.root, pid));
        let begun = Instant::now();
        Self { target, before: BTreeMap::new(), begun, clocks: None, is_elsewhere, tape: None }
    }

    /// Returns the host with a record of everything that is read from now on.
    #[must_use]
    pub fn taped(self) -> Self {
        Self { tape: Some(RefCell::default()), ..self }
    }

    /// Returns everything that was read since [`Host::taped`].
    pub fn tape(&self) -> Tape {
        self.tape.as_ref().map(|tape| tape.borrow().clone()).unwrap_or_default()
    }

    fn keep(&self, keep: impl FnOnce(&mut Tape)) {
        if let Some(tape) = &self.tape {
            keep(&mut tape.borrow_mut());
        }
    }

    /// Returns true if the host is the machine that the doctor runs on, and false for a tree.
    pub fn is_live(&self) -> bool {
        self.target.root == Path::new("/")
    }

    fn place(&self, path: &str) -> PathBuf {
        self.target.root.join(self.of_its_network(path).trim_start_matches('/'))
    }

    /// Replaces the path of a file that differs between network namespaces by the process's own file.
    fn of_its_network<'p>(&self, path: &'p str) -> Cow<'p, str> {
        match (self.is_elsewhere, self.target.pid, path.strip_prefix("/proc/net/")) {
            (true, Some(pid), Some(file)) => format!("/proc/{pid}/net/{file}").into(),
            _ => path.into(),
        }
    }

    /// Returns whether a file or folder exists.
    pub(crate) fn is_there(&self, path: &str) -> bool {
        let is_there = self.place(path).exists();
        self.keep(|tape| tape.folders.extend(is_there.then(|| path.to_owned())));
        is_there
    }

    /// Returns whether a folder exists.
    pub(crate) fn has_folder(&self, path: &str) -> bool {
        self.place(path).is_dir() && self.is_there(path)
    }

    /// Returns true if the processes of the whole host are visible, and not only those of a container. This is so if
    /// the kernel's own process `kthreadd` is visible, which has the same id on every host.
    pub fn sees_all_processes(&self) -> bool {
        self.read("/proc/2/comm").is_ok_and(|name| name == "kthreadd")
    }

    /// Returns a file's content, without the white space around it.
    ///
    /// # Errors
    /// [`Unread`]: if it does not exist or cannot be read.
    pub fn read(&self, path: &str) -> Result<String, Unread> {
        if self.is_elsewhere && path.starts_with("/proc/sys/net/") {
            let why = "the process is in another network namespace: nsenter -t PID --net gannet doctor --pid PID";
            return Err(Unread::Refused(path.to_owned(), why.to_owned()));
        }
        let text = read_at(&self.place(path), path)?;
        self.keep(|tape| tape.take_first_snapshot(path, &text));
        Ok(text)
    }

    /// Returns the content of a file with counters at the beginning of the window and now.
    ///
    /// # Errors
    /// [`Unread`]; [`Unread::Once`] if there is only one reading.
    pub fn twice(&self, path: &str) -> Result<Twice, Unread> {
        let now = self.read(path)?;
        let once = || Unread::Once(path.to_owned());
        if self.is_live() {
            let before = self.before.get(path).cloned().ok_or_else(once)?;
            self.keep(|tape| tape.take_two_snapshots(path, &before, &now));
            return Ok(Twice { before, after: now, seconds: self.begun.elapsed().as_secs_f64() });
        }
        let later = self.place(&format!("/later{}", self.of_its_network(path)));
        let after = read_at(&later, path).map_err(|_| once())?;
        self.keep(|tape| tape.take_two_snapshots(path, &now, &after));
        Ok(Twice { before: now, after, seconds: 1.0 })
    }

    /// Returns the longest wake-up time of idle CPUs that programs allow now, in microseconds. Only root can read it.
    pub(crate) fn wake_us_allowed(&self) -> Option<i64> {
        const PATH: &str = "/dev/cpu_dma_latency";
        if !self.is_live() {
            return self.number(PATH).ok();
        }
        let mut bytes = [0; 4];
        fs::File::open(PATH).and_then(|mut file| file.read_exact(&mut bytes)).ok()?;
        let us = i32::from_ne_bytes(bytes);
        self.keep(|tape| tape.take_first_snapshot(PATH, &us.to_string()));
        Some(us.into())
    }

    /// Returns the whole number in a file.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn number(&self, path: &str) -> Result<i64, Unread> {
        self.read(path)?.parse().map_err(|_| Unread::Garbage(path.to_owned(), "number"))
    }

    /// Returns the output of `ethtool -OPTION` about an interface.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn ethtool(&self, nic: &str, option: &str) -> Result<String, Unread> {
        let path = format!("/ethtool/{nic}/{option}");
        if !self.is_live() {
            return self.read(&path);
        }
        let text = crate::ethtool::query(nic, option)?;
        self.keep(|tape| tape.take_first_snapshot(&path, &text));
        Ok(text)
    }

    /// Returns the output of `ethtool -OPTION` at the beginning of the window and now.
    ///
    /// # Errors
    /// [`Unread`]; [`Unread::Once`] if there is only one reading.
    pub fn ethtool_twice(&self, nic: &str, option: &str) -> Result<Twice, Unread> {
        let path = format!("/ethtool/{nic}/{option}");
        if !self.is_live() {
            return self.twice(&path);
        }
        let before = self.before.get(&path).cloned().ok_or_else(|| Unread::Once(path.clone()))?;
        let after = self.ethtool(nic, option)?;
        self.keep(|tape| tape.take_two_snapshots(&path, &before, &after));
        Ok(Twice { before, after, seconds: self.begun.elapsed().as_secs_f64() })
    }

    /// Returns the queueing disciplines of an interface, one in a line: `root mq`, then `child fq` for each of its
    /// queues.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn qdiscs(&self, nic: &str) -> Result<String, Unread> {
        let path = format!("/qdisc/{nic}");
        if !self.is_live() {
            return self.read(&path);
        }
        let refused = |why: String| Unread::Refused(path.clone(), why);
        if self.is_elsewhere {
            return Err(refused("the process is in another network namespace".to_owned()));
        }
        let interface = self.number(&format!("/sys/class/net/{nic}/ifindex"))?;
        let all = crate::netlink::qdiscs().map_err(|error| refused(error.to_string()))?;
        let own = all.iter().filter(|qdisc| i64::from(qdisc.interface) == interface);
        let lines = own.map(|qdisc| format!("{} {}", if qdisc.is_root { "root" } else { "child" }, qdisc.kind));
        let text = lines.collect::<Vec<_>>().join("\n");
        self.keep(|tape| tape.take_first_snapshot(&path, &text));
        Ok(text)
    }

    /// Returns the value of the setting at `path`: the file's content, or the value of an interface's setting.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn setting(&self, path: &str) -> Result<String, Unread> {
        let Some(tunable) = Tunable::of(path) else { return self.read(path) };
        let text = self.ethtool(tunable.nic, tunable.option())?;
        tunable.value_in(&text).ok_or_else(|| Unread::Absent(path.to_owned()))
    }

    /// Returns the actions that were requested beyond reading.
    pub fn asked(&self) -> &OptInActions {
        &self.target.asked
    }

    /// Returns the clocks at the beginning of the window; `None` for a tree.
    pub fn clocks(&self) -> Option<&Clocks> {
        self.clocks.as_ref()
    }

    /// Returns the measurements of check `id` that a tree contains: the names and numbers in `DIR/measured/ID`.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn measured(&self, id: &str) -> Result<Vec<(String, f64)>, Unread> {
        let path = format!("/measured/{id}");
        let garbage = || Unread::Garbage(path.clone(), "names and numbers");
        let mut figures = Vec::new();
        for line in self.read(&path)?.lines() {
            let (name, number) = line.split_once(' ').ok_or_else(garbage)?;
            let number = number.trim().parse::<f64>().ok().filter(|number| number.is_finite());
            figures.push((name.to_owned(), number.ok_or_else(garbage)?));
        }
        Ok(figures)
    }

    /// Returns the last component of a link's target.
    pub fn link_name(&self, path: &str) -> Option<String> {
        let name = fs::read_link(self.place(path)).ok()?.file_name()?.to_str()?.to_owned();
        self.keep(|tape| {
            tape.links.insert(path.to_owned(), name.clone());
        });
        Some(name)
    }

    /// Returns the value of a kernel setting such as `vm.swappiness`.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn sysctl(&self, name: &str) -> Result<i64, Unread> {
        self.number(&format!("/proc/sys/{}", name.replace('.', "/")))
    }

    /// Returns the names in a folder, sorted; numbers in names are ordered by value.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn list(&self, path: &str) -> Result<Vec<String>, Unread> {
        let entries = fs::read_dir(self.place(path)).map_err(|error| unread(path, &error))?;
        let mut names: Vec<String> =
            entries.take(ENTRIES_MAX + 1).filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        if names.len() > ENTRIES_MAX {
            return Err(Unread::Refused(path.to_owned(), format!("it has more than {ENTRIES_MAX} entries")));
        }
        self.keep(|tape| {
            tape.folders.insert(path.to_owned());
            tape.folders.extend(names.iter().map(|name| format!("{path}/{name}")));
        });
        names.sort_by_key(|name| (name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned(), digits(name)));
        Ok(names)
    }

    /// Returns the number of entries of a folder, without the limit of [`Host::list`].
    ///
    /// # Errors
    /// [`Unread`].
    pub fn count(&self, path: &str) -> Result<u64, Unread> {
        let entries = fs::read_dir(self.place(path)).map_err(|error| unread(path, &error))?;
        Ok(entries.filter(Result::is_ok).count() as u64)
    }

    /// Returns the names of the CPUs: `cpu0`, `cpu1` ...
    ///
    /// # Errors
    /// [`Unread`].
    pub fn cpus(&self) -> Result<Vec<String>, Unread> {
        const CPUS: &str = "/sys/devices/system/cpu";
        let cpus: Vec<String> = self.list(CPUS)?.into_iter().filter(|name| is_numbered(name, "cpu")).collect();
        if cpus.is_empty() { Err(Unread::Absent(format!("{CPUS}/cpu0"))) } else { Ok(cpus) }
    }

    /// Returns the number of memory nodes; 1 if the kernel lists no nodes.
    ///
    /// # Errors
    /// [`Unread`]: if not even the CPUs are listed.
    pub fn nodes(&self) -> Result<usize, Unread> {
        match self.list("/sys/devices/system/node") {
            Ok(names) => Ok(names.iter().filter(|name| is_numbered(name, "node")).count().max(1)),
            Err(_) => self.cpus().map(|_| 1),
        }
    }

    /// Returns the names of the network interfaces that belong to a device, not to software such as a bridge.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn nics(&self) -> Result<Vec<String>, Unread> {
        const NET: &str = "/sys/class/net";
        let device = |name: &String| format!("{NET}/{name}/device");
        let nics: Vec<String> = self.list(NET)?.into_iter().filter(|name| self.place(&device(name)).exists()).collect();
        self.keep(|tape| tape.folders.extend(nics.iter().map(device)));
        if nics.is_empty() { Err(Unread::Absent(format!("{NET}/*/device"))) } else { Ok(nics) }
    }

    /// Returns the disks, without loop devices, RAM disks, and devices that consist of other disks.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn disks(&self) -> Result<Vec<String>, Unread> {
        self.blocks(&["loop", "ram", "zram", "dm-", "md", "sr", "nbd"])
    }

    /// Returns the devices that file systems use: disks, and volumes and arrays that consist of disks.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn volumes(&self) -> Result<Vec<String>, Unread> {
        self.blocks(&["loop", "ram", "zram", "sr", "nbd"])
    }

    fn blocks(&self, but: &[&str]) -> Result<Vec<String>, Unread> {
        let is_other = |name: &String| but.iter().any(|prefix| name.starts_with(prefix));
        let disks: Vec<String> = self.list("/sys/block")?.into_iter().filter(|name| !is_other(name)).collect();
        if disks.is_empty() { Err(Unread::Absent("/sys/block/*".to_owned())) } else { Ok(disks) }
    }

    /// Returns the path of the file `file` of the named process.
    ///
    /// # Errors
    /// [`Unread::NoProcess`].
    pub fn process(&self, file: &str) -> Result<String, Unread> {
        self.target.pid.map(|pid| format!("/proc/{pid}/{file}")).ok_or(Unread::NoProcess)
    }

    /// Returns the folders of the process's threads; of at most [`THREADS_MAX`] threads.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn threads(&self) -> Result<Vec<String>, Unread> {
        let path = self.process("task")?;
        Ok(self.list(&path)?.into_iter().take(THREADS_MAX).map(|thread| format!("{path}/{thread}")).collect())
    }
}

/// Two clocks at one instant, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The wall clock, which is set and slewed.
    pub wall_ns: i128,
    /// The hardware clock, which is never set or slewed.
    pub raw_ns: i128,
}

impl Clocks {
    /// Reads both clocks.
    pub fn now() -> Self {
        let ns = |id| {
            let time = rustix::time::clock_gettime(id);
            i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
        };
        // Of a few pairs of readings, takes the pair with the shortest time between the clocks, because this thread may
        // be preempted between them.
        let pair = |_| {
            let before = ns(rustix::time::ClockId::MonotonicRaw);
            let wall_ns = ns(rustix::time::ClockId::Realtime);
            let after = ns(rustix::time::ClockId::MonotonicRaw);
            (after - before, Self { wall_ns, raw_ns: before + (after - before) / 2 })
        };
        let nearest = (0..5).map(pair).min_by_key(|(apart, _)| *apart);
        nearest.expect("there are five").1
    }
}

/// Returns whether a process is in another network namespace than the doctor; false if the kernel does not report it.
fn is_in_another_network(root: &Path, pid: u32) -> bool {
    let of = |process: &str| fs::read_link(root.join(format!("proc/{process}/ns/net"))).ok();
    of(&pid.to_string()).zip(of("self")).is_some_and(|(its, own)| its != own)
}

fn unread(path: &str, error: &std::io::Error) -> Unread {
    match error.kind() {
        std::io::ErrorKind::NotFound => Unread::Absent(path.to_owned()),
        _ => Unread::Refused(path.to_owned(), error.to_string()),
    }
}

/// Returns the content of a file or pipe that the user names.
///
/// # Errors
/// A message, if the file cannot be read, is not text, or is longer than [`FILE_BYTES_MAX`].
pub fn read_named(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => Err("it is longer than 64 MiB".to_owned()),
        Ok(_) => Ok(text),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) fn read_at(place: &Path, path: &str) -> Result<String, Unread> {
    let refused = |why: &str| Unread::Refused(path.to_owned(), why.to_owned());
    // Reading a pipe or a device in a tree could block.
    if !fs::metadata(place).map_err(|error| unread(path, &error))?.is_file() {
        return Err(refused("it is not a regular file"));
    }
    let file = fs::File::open(place).map_err(|error| unread(path, &error))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| unread(path, &error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(refused("it is longer than 64 MiB"));
    }
    String::from_utf8(bytes).map(|text| text.trim().to_owned()).map_err(|_| Unread::Garbage(path.to_owned(), "text"))
}

fn digits(name: &str) -> u64 {
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name[head.len()..].parse().unwrap_or(0)
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the number of `key` in a text of lines that each have a key, a colon or white space, and a number.
pub fn field(text: &str, key: &str) -> Option<i64> {
    text.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(key)?;
        let rest = rest.trim_start_matches([' ', '\t']).trim_start_matches(':');
        let is_key = rest.len() < line.trim_start().len() - key.len();
        is_key.then(|| rest.split_whitespace().next()?.parse().ok()).flatten()
    })
}

/// Returns the word in brackets, which is the current choice: `madvise` of `always [madvise] never`.
pub fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_is_matched_by_its_full_name() {
        let text = "MemTotal:  100 kB\nMemTotalX: 3 kB\npgscan_direct 7\nnr_switches     :     12";
        assert_eq!((field(text, "MemTotal"), field(text, "Mem")), (Some(100), None));
        assert_eq!((field(text, "pgscan_direct"), field(text, "nr_switches")), (Some(7), Some(12)));
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("none"), None);
        assert!(is_numbered("cpu12", "cpu") && !is_numbered("cpufreq", "cpu") && !is_numbered("cpu", "cpu"));
    }
}
