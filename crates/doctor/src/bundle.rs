//! Packs the files that the checks read into one archive without private data, so that other people can analyse them.
//!
//! ```text
//!   bundle/README.txt     what the archive contains, and what was removed from it
//!          report.json    the checks' findings          report.txt   the same as text
//!          plan.txt       the role of each CPU        journals/    the runs of apply and prove
//!          tree/          every file that the checks read: `gannet doctor --root tree` reproduces the findings
//! ```
//! Invariants:
//! - The tree contains only what a check read: no command line, environment, configuration, key or value.
//! - Text that reveals more than a check needs is removed before a file is stored ([`redacted`]): names of other
//!   processes, options and paths of mounts, the files that a process maps, the host's name.
//! - The archive has a maximum size in bytes. It lists the files that do not fit.

use std::collections::BTreeSet;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::check::Finding;
use crate::checks::clock::SETTERS;
use crate::checks::irq::IRQBALANCE_FILES;
use crate::host::Tape;

/// Maximum size of all files of an archive, in bytes.
pub const BYTES_MAX: usize = 64 << 20;
/// Maximum size of one file, in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Maximum number of folders in an archive. A folder is stored because checks read the names in it.
const FOLDERS_MAX: usize = 16_384;
/// The placeholder for removed text.
const OUT: &str = "-";

const README: &str = "\
What `gannet doctor bundle` read on a host.

  report.json, report.txt   what the checks found
  plan.txt                  which CPU does what
  journals/                 what `apply` and `prove` wrote and took back
  tree/                     the files that the checks read: gannet doctor --root tree [--pid PID]

Taken out: the host's name, the names of processes that no check looks for, devices and unusual options of mounts,
addresses and names of mapped files. Never read: command lines, environments, configurations, keys, values.
Look through it before you send it.
";

/// The files of an archive, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    files: Vec<(String, String)>,
    folders: Vec<String>,
    links: Vec<(String, String)>,
    bytes: usize,
    left_out: Vec<String>,
}

impl Bundle {
    /// Builds an archive from the files that were read of a host. `pid` is the process that the checks examined.
    pub fn of(tape: &Tape, pid: Option<u32>) -> Self {
        let mut bundle = Self::default();
        let mut known = BTreeSet::new();
        for (path, text) in &tape.files {
            let plain = path.strip_prefix("/later").unwrap_or(path);
            if let Some(text) = redacted(plain, text, pid) {
                bundle.add(&format!("tree{}", behind_links(path, tape)), text);
                known.insert(path.as_str());
            }
        }
        for (path, to) in &tape.links {
            bundle.links.push((format!("tree{path}"), to.clone()));
            known.insert(path);
        }
        let is_listed = |path: &&String| !is_process(path, pid) && !known.contains(path.as_str());
        let folders = tape.folders.iter().filter(is_listed).take(FOLDERS_MAX);
        bundle.folders = folders.map(|path| format!("tree{}", behind_links(path, tape))).collect();
        bundle
    }

    /// Adds a file, or lists it as left out if it is too large.
    pub fn add(&mut self, name: &str, text: String) {
        if text.len() > FILE_BYTES_MAX || self.bytes + text.len() > BYTES_MAX {
            self.left_out.push(format!("{name}: {} bytes\n", text.len()));
            return;
        }
        self.bytes += text.len();
        self.files.push((name.to_owned(), text));
    }

    /// Writes the archive as tar, compressed with gzip.
    ///
    /// # Errors
    /// If `out` returns an error.
    pub fn write<W: Write>(&self, out: W) -> std::io::Result<W> {
        let mut archive = tar::Builder::new(GzEncoder::new(out, Compression::default()));
        let header = |kind, size: u64| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(size);
            header.set_mode(if kind == tar::EntryType::Directory { 0o755 } else { 0o644 });
            header
        };
        let left_out = self.left_out.concat();
        let own = [("README.txt", README), ("left-out.txt", left_out.as_str())];
        let own = own.into_iter().filter(|(_, text)| !text.is_empty());
        let files = self.files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        // Folders come first: if a folder and a file have the same name, the file replaces the folder when unpacked.
        for name in &self.folders {
            let mut header = header(tar::EntryType::Directory, 0);
            archive.append_data(&mut header, format!("bundle/{name}/"), std::io::empty())?;
        }
        for (name, text) in own.chain(files) {
            let mut header = header(tar::EntryType::Regular, text.len() as u64);
            archive.append_data(&mut header, format!("bundle/{name}"), text.as_bytes())?;
        }
        for (name, to) in &self.links {
            archive.append_link(&mut header(tar::EntryType::Symlink, 0), format!("bundle/{name}"), to)?;
        }
        archive.into_inner()?.finish()
    }
}

/// Returns the path under which the archive stores a file: each parent folder that is a symbolic link is replaced by
/// the link's target, a sibling folder. The archive also contains the link itself, and no file can be unpacked below
/// a link.
fn behind_links(path: &str, tape: &Tape) -> String {
    let mut real = String::with_capacity(path.len());
    let mut named = String::with_capacity(path.len());
    let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
    while let Some(part) = parts.next() {
        named = format!("{named}/{part}");
        let to = tape.links.get(&named).filter(|_| parts.peek().is_some());
        real = format!("{real}/{}", to.map_or(part, String::as_str));
    }
    real
}

/// Returns whether a path belongs to a process other than the one that the checks examined.
fn is_process(path: &str, pid: Option<u32>) -> bool {
    let Some(rest) = path.strip_prefix("/proc/") else { return false };
    let name = rest.split('/').next().unwrap_or_default();
    name.bytes().all(|byte| byte.is_ascii_digit()) && name.parse().ok() != pid
}

/// Returns whether checks look for a process of this name: a time service, irqbalance, or the kernel thread that shows
/// whether the whole host is visible.
fn is_looked_for(name: &str) -> bool {
    SETTERS.contains(&name) || ["irqbalance", "kthreadd"].contains(&name)
}
/// Mount options that may stay in the archive, because they contain no names.
const OPTIONS: [&str; 14] = [
    "rw",
    "ro",
    "noatime",
    "relatime",
    "atime",
    "strictatime",
    "nodiratime",
    "lazytime",
    "sync",
    "dirsync",
    "nosuid",
    "nodev",
    "noexec",
    "discard",
];

/// Returns a file's text without its private parts; `None` if the archive must not contain the file at all.
pub fn redacted(path: &str, text: &str, pid: Option<u32>) -> Option<String> {
    let lines = |line: &dyn Fn(&str) -> Option<String>| {
        text.lines().filter_map(line).map(|line| line + "\n").collect::<String>()
    };
    if is_process(path, pid) {
        // A check needs process 1 to see that the processes are visible.
        let is_kept = path == "/proc/1/comm" || (path.ends_with("/comm") && is_looked_for(text.trim()));
        let name = if is_looked_for(text.trim()) { text.trim() } else { OUT };
        return is_kept.then(|| name.to_owned());
    }
    match path {
        "/proc/sys/kernel/hostname" => Some(OUT.to_owned()),
        "/proc/mounts" => Some(lines(&mount)),
        _ if IRQBALANCE_FILES.contains(&path) => {
            Some(lines(&|line| line.trim_start().starts_with("IRQBALANCE_BANNED").then(|| line.to_owned())))
        }
        _ if path.ends_with("/maps") => Some(lines(&|_| Some(OUT.to_owned()))),
        _ if path.ends_with("/numa_maps") => Some(lines(&|line| {
            let kept = |word: &&str| word.starts_with('N') && word.contains('=');
            let words: Vec<&str> = line.split_whitespace().skip(2).filter(kept).collect();
            Some(format!("0 default {}", words.join(" ")))
        })),
        _ if ["/environ", "/cmdline"].iter().any(|name| path.ends_with(name)) => None,
        // Settings and certificates, which name hosts and users.
        _ if [".toml", ".conf"].iter().any(|end| path.ends_with(end)) || text.starts_with("-----BEGIN") => None,
        _ => Some(text.to_owned()),
    }
}

/// Removes the mount points from a finding's text, as [`redacted`] removes them from the file.
pub fn without_names(finding: &mut Finding) {
    if finding.id == "disk.mount" {
        let end = finding.value.find(" (").unwrap_or(finding.value.len());
        finding.value.truncate(end);
    }
}

/// Returns a line of /proc/mounts without private names. A line has device, mount point, file system and options.
fn mount(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [device, place, kind, options, ..] = words[..] else { return None };
    let device = if device.starts_with("/dev/") { device } else { OUT };
    let options: Vec<&str> = options.split(',').filter(|option| OPTIONS.contains(option)).collect();
    // The first components of a mount point identify the disk. The components below are names that users chose.
    let place: Vec<&str> = place.split('/').take(3).collect();
    Some(format!("{device} {} {kind} {} 0 0", place.join("/"), options.join(",")))
}
