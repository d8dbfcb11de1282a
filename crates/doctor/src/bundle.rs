//! What helps others to see what was seen here, as one archive, and nothing that is nobody's business.
//!
//! ```text
//!   bundle/README.txt     what is in it, what was taken out
//!          report.json    what the checks found         report.txt   the same for people
//!          plan.txt       which CPU does what           journals/    the runs of apply and prove
//!          tree/          every file that the checks read: `gannet doctor --root tree` finds the same again
//! ```
//! Invariants:
//! - Only what a check read is in the tree, so no command line, no environment, no configuration, no key, no value.
//! - What of that may tell more than the check needs is taken out before it is kept ([`told`]): names of other
//!   processes, options and places of mounts, the files that a process maps, the host's name.
//! - The archive has a most in bytes; what does not fit is named in it.

use std::collections::BTreeSet;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::check::Finding;
use crate::checks::clock::SETTERS;
use crate::checks::irq::IRQBALANCE_FILES;
use crate::host::Tape;

/// Bytes of an archive's files at most.
pub const BYTES_MAX: usize = 64 << 20;
/// Bytes of one file at most.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Folders that stand for names alone, at most.
const FOLDERS_MAX: usize = 16_384;
/// What stands for what was taken out.
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

/// Files of an archive by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    files: Vec<(String, String)>,
    folders: Vec<String>,
    links: Vec<(String, String)>,
    bytes: usize,
    left_out: Vec<String>,
}

impl Bundle {
    /// With what was read of a host; `pid` is the process that was looked at.
    pub fn of(tape: &Tape, pid: Option<u32>) -> Self {
        let mut bundle = Self::default();
        let mut known = BTreeSet::new();
        for (path, text) in &tape.files {
            let plain = path.strip_prefix("/later").unwrap_or(path);
            if let Some(text) = told(plain, text, pid) {
                bundle.add(&format!("tree{}", behind_links(path, tape)), text);
                known.insert(path.as_str());
            }
        }
        for (path, to) in &tape.links {
            bundle.links.push((format!("tree{path}"), to.clone()));
            known.insert(path);
        }
        let is_told = |path: &&String| !is_process(path, pid) && !known.contains(path.as_str());
        let folders = tape.folders.iter().filter(is_told).take(FOLDERS_MAX);
        bundle.folders = folders.map(|path| format!("tree{}", behind_links(path, tape))).collect();
        bundle
    }

    /// Adds a file.
    pub fn add(&mut self, name: &str, text: String) {
        if text.len() > FILE_BYTES_MAX || self.bytes + text.len() > BYTES_MAX {
            self.left_out.push(format!("{name}: {} bytes\n", text.len()));
            return;
        }
        self.bytes += text.len();
        self.files.push((name.to_owned(), text));
    }

    /// Writes the archive: tar, packed by gzip.
    ///
    /// # Errors
    /// What `out` refuses.
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
        // Folders first, so that a name that is a file too stays a file.
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

/// Where a path lies when its folders that are links are followed: beside each there is what it names, since nothing
/// can be unpacked below a link that is unpacked itself.
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

/// A process other than that which was looked at, or a file of it.
fn is_process(path: &str, pid: Option<u32>) -> bool {
    let Some(rest) = path.strip_prefix("/proc/") else { return false };
    let name = rest.split('/').next().unwrap_or_default();
    name.bytes().all(|byte| byte.is_ascii_digit()) && name.parse().ok() != pid
}

/// Processes whose names are looked for: those that set the clock, and the kernel's, that say whose host it is.
fn is_looked_for(name: &str) -> bool {
    SETTERS.contains(&name) || ["irqbalance", "kthreadd"].contains(&name)
}
/// Options of a mount that say how it behaves, and nothing else.
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

/// What of a file is told; `None`: nothing, not even that it is there.
pub fn told(path: &str, text: &str, pid: Option<u32>) -> Option<String> {
    let lines = |line: &dyn Fn(&str) -> Option<String>| {
        text.lines().filter_map(line).map(|line| line + "\n").collect::<String>()
    };
    if is_process(path, pid) {
        // Whether there is any process is told by the first.
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
        _ => Some(text.to_owned()),
    }
}

/// Takes out of a finding what is taken out of the file that it is of: places of mounts.
pub fn without_names(finding: &mut Finding) {
    if finding.id == "disk.mount" {
        let end = finding.value.find(" (").unwrap_or(finding.value.len());
        finding.value.truncate(end);
    }
}

/// A line of /proc/mounts: device, place, file system, options.
fn mount(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [device, place, kind, options, ..] = words[..] else { return None };
    let device = if device.starts_with("/dev/") { device } else { OUT };
    let options: Vec<&str> = options.split(',').filter(|option| OPTIONS.contains(option)).collect();
    // The first parts of a place say which disk it is; those below are somebody's names.
    let place: Vec<&str> = place.split('/').take(3).collect();
    Some(format!("{device} {} {kind} {} 0 0", place.join("/"), options.join(",")))
}
