//! Disks.

use crate::check::{Check, Needs, Probed, Seen};
use crate::host::{Host, Unread, chosen};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "disk.scheduler",
        reads: "/sys/block/*/queue/scheduler",
        mechanism: "A scheduler sorts and holds requests back for others that may come. A fast device gains \
                    nothing from it, and each request waits.",
        remedy: "write none into queue/scheduler of disks without moving parts",
        needs: Needs::Root,
        undo: "write the old scheduler back",
        source: "kernel: block/switching-sched",
        probe: scheduler,
    },
    Check {
        id: "disk.readahead",
        reads: "/sys/block/*/queue/read_ahead_kb",
        mechanism: "A fault on a mapped file reads as much as this around it. With megabytes of it, random reads \
                    fill memory and the disk's queue with what nobody asked for.",
        remedy: "write 128 or less into queue/read_ahead_kb where mapped files are read at random",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: ABI/stable/sysfs-block",
        probe: readahead,
    },
    Check {
        id: "disk.write-throttle",
        reads: "/sys/block/*/queue/{wbt_lat_usec,nomerges}",
        mechanism: "The kernel holds writing back when reads take longer than this. It is told so that hosts can \
                    be compared.",
        remedy: "none by itself: measure the log's fdatasync before and after",
        needs: Needs::Nothing,
        undo: "nothing was changed",
        source: "kernel: ABI/stable/sysfs-block",
        probe: write_throttle,
    },
];

fn scheduler(host: &Host) -> Probed {
    let (mut others, mut told) = (0, Vec::new());
    for disk in host.disks()? {
        let text = host.read(&format!("/sys/block/{disk}/queue/scheduler"))?;
        let moves = host.number(&format!("/sys/block/{disk}/queue/rotational")).unwrap_or(0) == 1;
        // Where there is no choice the file is the name itself.
        let name = chosen(&text).unwrap_or(&text);
        others += u32::from(name != "none" && !moves);
        told.push(format!("{disk}: {name}"));
    }
    Ok(Seen::warn_if(others > 0, told.join(", ")))
}

const READAHEAD_KB_MAX: i64 = 128;
/// From here on one fault fills megabytes.
const READAHEAD_KB_BAD: i64 = 4096;

fn readahead(host: &Host) -> Probed {
    let (mut most, mut of) = (-1, String::new());
    for disk in host.disks()? {
        let kb = host.number(&format!("/sys/block/{disk}/queue/read_ahead_kb"))?;
        if kb > most {
            (most, of) = (kb, disk);
        }
    }
    let value = format!("{of}: {most} KB");
    Ok(if most >= READAHEAD_KB_BAD { Seen::bad(value) } else { Seen::warn_if(most > READAHEAD_KB_MAX, value) })
}

fn write_throttle(host: &Host) -> Probed {
    let mut told = Vec::new();
    for disk in host.disks()? {
        let queue = format!("/sys/block/{disk}/queue");
        if let (Ok(us), Ok(merges)) =
            (host.number(&format!("{queue}/wbt_lat_usec")), host.number(&format!("{queue}/nomerges")))
        {
            told.push(format!("{disk}: wbt_lat_usec {us}, nomerges {merges}"));
        }
    }
    if told.is_empty() {
        Err(Unread::Absent("/sys/block/*/queue/wbt_lat_usec".to_owned()))
    } else {
        Ok(Seen::ok(told.join("; ")))
    }
}
