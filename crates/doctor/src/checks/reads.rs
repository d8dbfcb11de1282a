//! The disks that hold a process's files.
//!
//! ```text
//!   /proc/PID/fdinfo/N: mnt_id ──/proc/PID/mountinfo──> major:minor ─┐
//!   /proc/PID/maps: shared mappings ──────────────────> major:minor ─┴──/sys/block/*/dev──> names below /sys/block
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::host::Host;

/// File systems of which the devices below them are unknown.
const HIDING: [&str; 5] = ["overlay", "btrfs", "zfs", "bcachefs", "aufs"];

/// The files of a process that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileUse {
    /// Files that are open for reading, or mapped.
    Read,
    /// Files that are open only for writing too, such as a log.
    Any,
}

/// The access mode in the flags of an open file, and its value for a file that is open only for writing.
const ACCESS_MODE: u32 = 0o3;
const WRITE_ONLY: u32 = 0o1;

/// Returns the names of the block devices with files that the process has open or has mapped for sharing; `None` if no
/// process is named, or if the devices of its files are unknown.
pub(super) fn devices(host: &Host, file_use: FileUse) -> Option<BTreeSet<String>> {
    let mounts = mounts(&host.read(&host.process("mountinfo").ok()?).ok()?);
    let folder = host.process("fdinfo").ok()?;
    let mut numbers = BTreeSet::new();
    for name in host.list(&folder).ok()? {
        // The process may close the file in the meantime. Sockets and pipes are on mounts that are not listed.
        let Ok(text) = host.read(&format!("{folder}/{name}")) else { continue };
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let flags = field("flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok()).unwrap_or(0);
        if file_use == FileUse::Read && flags & ACCESS_MODE == WRITE_ONLY {
            continue;
        }
        let id = field("mnt_id:");
        if let Some(mount) = id.and_then(|id| mounts.get(id)) {
            if HIDING.contains(&mount.kind.as_str()) {
                return None;
            }
            numbers.insert(mount.number.clone());
        }
    }
    let maps = host.read(&host.process("maps").ok()?).ok()?;
    numbers.extend(maps.lines().filter_map(shared_mapping));
    Some(names(host, &numbers))
}

struct Mount {
    /// The device's numbers, as in `253:1`.
    number: String,
    kind: String,
}

/// Parses the mounts, by their ids.
fn mounts(text: &str) -> BTreeMap<String, Mount> {
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let words: Vec<&str> = before.split_whitespace().collect();
        let kind = after.split_whitespace().next()?.to_owned();
        Some(((*words.first()?).to_owned(), Mount { number: (*words.get(2)?).to_owned(), kind }))
    };
    text.lines().filter_map(mount).collect()
}

/// Returns the device of a shared mapping of a file, as in `253:1`. Programs and libraries are mapped privately.
fn shared_mapping(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, rights, _, device, inode, ..] = words[..] else { return None };
    let (major, minor) = device.split_once(':')?;
    let number = |digits| u32::from_str_radix(digits, 16).ok();
    (rights.ends_with('s') && inode != "0").then_some(format!("{}:{}", number(major)?, number(minor)?))
}

/// Returns the names of the devices with these numbers, with the disks of their partitions and volumes.
fn names(host: &Host, numbers: &BTreeSet<String>) -> BTreeSet<String> {
    let (mut found, mut part_of) = (BTreeSet::new(), BTreeMap::new());
    let all = host.list("/sys/block").unwrap_or_default();
    let is_used = |path: &str| host.read(&format!("{path}/dev")).is_ok_and(|number| numbers.contains(number.trim()));
    for disk in &all {
        let folder = format!("/sys/block/{disk}");
        if is_used(&folder) {
            found.insert(disk.clone());
        }
        for part in host.list(&folder).unwrap_or_default().into_iter().filter(|name| name.starts_with(disk.as_str())) {
            if is_used(&format!("{folder}/{part}")) {
                found.insert(disk.clone());
            }
            part_of.insert(part, disk.clone());
        }
    }
    // A volume may consist of volumes.
    let mut next: Vec<String> = found.iter().cloned().collect();
    while let Some(name) = next.pop() {
        for below in host.list(&format!("/sys/block/{name}/slaves")).unwrap_or_default() {
            let disk = part_of.get(&below).cloned().unwrap_or(below);
            if found.insert(disk.clone()) {
                next.push(disk);
            }
        }
    }
    found
}
