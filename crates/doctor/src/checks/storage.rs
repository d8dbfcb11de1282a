//! Disks.

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::host::{Host, Unread, chosen};

use super::reads::{self, FileUse};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "disk.scheduler",
        reads: "/sys/block/*/queue/scheduler, /proc/PID/{fdinfo,mountinfo,maps}",
        mechanism: "A scheduler sorts requests and delays them to merge or reorder later ones. A fast device gains \
                    nothing from it, and each request waits.",
        remedy: "write none into queue/scheduler of disks without moving parts",
        expect: "requests to fast disks wait less",
        needs: Needs::Root,
        undo: "write the old scheduler back",
        source: "kernel: block/switching-sched",
        probe: scheduler,
    },
    Check {
        id: "disk.readahead",
        reads: "/sys/block/*/queue/read_ahead_kb, /proc/PID/{fdinfo,mountinfo,maps}",
        mechanism: "A page fault on a mapped file reads this much data around the page. With megabytes of \
                    read-ahead, random reads fill memory and the disk's queue with unused pages.",
        remedy: "write 128 into queue/read_ahead_kb if mapped files are read at random",
        expect: "fewer bytes read per fault, and shorter waits; reading a file sequentially may become slower",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: ABI/stable/sysfs-block",
        probe: readahead,
    },
    Check {
        id: "disk.write-throttle",
        reads: "/sys/block/*/queue/{wbt_lat_usec,nomerges}",
        mechanism: "The kernel throttles writeback when reads take longer than this. It is shown so that hosts can \
                    be compared.",
        remedy: "none by itself: measure the log's fdatasync before and after",
        expect: "none",
        needs: Needs::Nothing,
        undo: "nothing to undo on this host",
        source: "kernel: ABI/stable/sysfs-block",
        probe: write_throttle,
    },
    Check {
        id: "disk.mount",
        reads: "/proc/mounts; the mount that contains the folder of --data",
        mechanism: "A file system that records the time of each read causes a write for every read. A network file \
                    system or an overlay adds its own latency to each fdatasync.",
        remedy: "mount with relatime or noatime; put the log and data on a local disk",
        expect: "reads cause no writes; an fdatasync waits only for a local disk",
        needs: Needs::Restart,
        undo: "mount it with the old options",
        source: "man 8 mount; kernel: filesystems/overlayfs",
        probe: mount,
    },
];

/// File systems that do not store data on a local disk, or that are layered on another file system.
const FAR: [&str; 9] = ["nfs", "nfs4", "cifs", "smb3", "overlay", "9p", "ceph", "glusterfs", "virtiofs"];

fn mount(host: &Host) -> Probed {
    let path = "/proc/mounts";
    let text = host.read(path)?;
    let data = host.asked().data.as_deref();
    let (mut noting, mut disks) = (Vec::new(), 0);
    let mut on: Option<(String, &str, &str)> = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [device, place, kind, options, ..] = words[..] else {
            return Err(Unread::Garbage(path.to_owned(), "device, place, kind and options"));
        };
        // In /proc/mounts a space in a path is written as an octal number.
        let place = place.replace("\\040", " ");
        let has = |name: &str| options.split(',').any(|option| option == name);
        if device.starts_with("/dev/") && has("rw") {
            disks += 1;
            if !has("relatime") && !has("noatime") && !has("lazytime") {
                noting.push(place.clone());
            }
        }
        // The mount with the longest matching path contains the folder. Of several mounts at one path, the last
        // applies.
        let longest = on.as_ref().map_or(0, |(known, _, _)| known.len());
        if data.is_some_and(|data| data.starts_with(&place)) && place.len() >= longest {
            on = Some((place, kind, device));
        }
    }
    let mut value = format!("{disks} disks are mounted for writing, {} record the time of each read", noting.len());
    if !noting.is_empty() {
        value = format!("{value} ({})", noting.join(", "));
    }
    if let (Some(data), Some((place, kind, _))) = (data, &on) {
        value = format!("{} is on {place}, {kind}; {value}", data.display());
    }
    let is_far = on.is_some_and(|(_, kind, _)| FAR.contains(&kind) || kind.starts_with("fuse"));
    Ok(if is_far { ProbeResult::bad(value) } else { ProbeResult::warn_if(!noting.is_empty(), value) })
}

/// Divides devices into those that hold the process's files and the others. If no process is named or its devices are
/// unknown, all count; so they do if the user names a folder.
pub(crate) fn used_by_process(host: &Host, devices: Vec<String>, file_use: FileUse) -> (Vec<String>, Vec<String>) {
    match reads::devices(host, file_use).filter(|_| host.asked().data.is_none()) {
        Some(used) => devices.into_iter().partition(|device| used.contains(device)),
        None => (devices, Vec::new()),
    }
}

/// Adds the devices that do not count to a value. `why` begins the sentence about them.
fn with_others(value: String, why: &str, others: &[String]) -> String {
    if others.is_empty() {
        return value;
    }
    let others = format!("{why} {}", others.join(", "));
    if value.is_empty() { others } else { format!("{value}; {others}") }
}

fn scheduler(host: &Host) -> Probed {
    let (mut others, mut parts) = (0, Vec::new());
    let (disks, unused) = used_by_process(host, host.disks()?, FileUse::Any);
    for disk in disks {
        let text = host.read(&format!("/sys/block/{disk}/queue/scheduler"))?;
        let moves = host.number(&format!("/sys/block/{disk}/queue/rotational")).unwrap_or(0) == 1;
        // If there is no choice, the file contains the name itself.
        let name = chosen(&text).unwrap_or(&text);
        others += u32::from(name != "none" && !moves);
        let why = if moves && name != "none" { " (the kernel reports moving parts)" } else { "" };
        parts.push(format!("{disk}: {name}{why}"));
    }
    Ok(ProbeResult::warn_if(others > 0, with_others(parts.join(", "), "the process has no file on", &unused)))
}

/// Maximum read-ahead without a warning, in KB.
pub(crate) const READAHEAD_KB_MAX: i64 = 128;
/// Read-ahead in KB from which the verdict is bad: one page fault then reads megabytes.
const READAHEAD_KB_BAD: i64 = 4096;

fn readahead(host: &Host) -> Probed {
    let (mut most, mut of) = (-1, String::new());
    // Each block device has its own setting. For a volume its own setting applies, not the setting of its disks.
    let (volumes, unused) = used_by_process(host, host.volumes()?, FileUse::Read);
    for disk in volumes {
        let kb = host.number(&format!("/sys/block/{disk}/queue/read_ahead_kb"))?;
        if kb > most {
            (most, of) = (kb, disk);
        }
    }
    let value = if of.is_empty() { String::new() } else { format!("{of}: {most} KB") };
    let value = with_others(value, "the process reads no file on", &unused);
    let is_large = most > READAHEAD_KB_MAX;
    if is_large && host.process("fdinfo").is_err() && host.asked().data.is_none() {
        // Only reads by the server make this a problem, and the disks that it reads are unknown.
        let why = "pass --pid to judge only the disks that the server reads";
        return Ok(ProbeResult::warn(format!("{value}; {why}")));
    }
    Ok(if most >= READAHEAD_KB_BAD { ProbeResult::bad(value) } else { ProbeResult::warn_if(is_large, value) })
}

fn write_throttle(host: &Host) -> Probed {
    let mut parts = Vec::new();
    for disk in host.disks()? {
        let queue = format!("/sys/block/{disk}/queue");
        if let (Ok(us), Ok(merges)) =
            (host.number(&format!("{queue}/wbt_lat_usec")), host.number(&format!("{queue}/nomerges")))
        {
            parts.push(format!("{disk}: wbt_lat_usec {us}, nomerges {merges}"));
        }
    }
    if parts.is_empty() {
        Err(Unread::Absent("/sys/block/*/queue/wbt_lat_usec".to_owned()))
    } else {
        Ok(ProbeResult::ok(parts.join("; ")))
    }
}
