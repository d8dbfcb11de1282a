//! Memory: which threads wait for it, and when.

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::host::{Host, Twice, Unread, chosen, field};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "mem.thp",
        reads: "/sys/kernel/mm/transparent_hugepage/enabled",
        mechanism: "With always, every process gets huge pages, asked for or not: a first touch clears 2 MiB instead \
                    of 4 KiB, and khugepaged takes locks to make more. With madvise a process gets them \
                    only where it asks for them.",
        remedy: "write madvise into transparent_hugepage/enabled",
        expect: "fewer stalls in memory that asked for no huge pages, and less memory; more misses of the TLB there",
        needs: Needs::Root,
        undo: "write the old word back",
        source: "kernel: admin-guide/mm/transhuge",
        probe: thp,
    },
    Check {
        id: "mem.thp-defrag",
        reads: "/sys/kernel/mm/transparent_hugepage/defrag",
        mechanism: "With always, a fault that finds no huge page free moves others' pages until there is one. The \
                    thread that faulted waits for it, milliseconds at a time.",
        remedy: "write defer+madvise into transparent_hugepage/defrag",
        expect: "no fault of milliseconds for this cause",
        needs: Needs::Root,
        undo: "write the old word back",
        source: "kernel: admin-guide/mm/transhuge",
        probe: thp_defrag,
    },
    Check {
        id: "mem.min-free",
        reads: "/proc/sys/vm/min_free_kbytes, /proc/meminfo (MemTotal)",
        mechanism: "Below this reserve threads free memory themselves before they get any. A reserve that a burst \
                    of packets uses up makes the burst's threads wait; one that is too large wastes memory.",
        remedy: "sysctl vm.min_free_kbytes: 1 % of the memory, at least 100 MB (64 MB on small hosts), at most 5 %",
        expect: "fewer threads that free memory themselves in a burst; that much memory is not used",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/sysctl/vm; Aerospike's checks at start",
        probe: min_free,
    },
    Check {
        id: "mem.watermark-scale",
        reads: "/proc/sys/vm/watermark_scale_factor, /proc/vmstat, read twice",
        mechanism: "The kernel's freeing thread wakes when this part of memory is left, in ten-thousandths. If it \
                    wakes too late, threads that need memory free it themselves.",
        remedy: "sysctl vm.watermark_scale_factor=50 to 200",
        expect: "less direct reclaim (mem.reclaim) while memory is taken fast; a little memory is not used",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/sysctl/vm",
        probe: watermark_scale,
    },
    Check {
        id: "mem.swap",
        reads: "/proc/swaps, /proc/sys/vm/swappiness, /proc/PID/status (VmSwap)",
        mechanism: "A page that was swapped out is read back from disk in the middle of a request. That is \
                    milliseconds in which a worker serves no client.",
        remedy: "sysctl vm.swappiness=1, or no swap; lock the server's memory",
        expect: "no request waits for a page to come back; memory that runs out ends a process sooner",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/sysctl/vm",
        probe: swap,
    },
    Check {
        id: "mem.overcommit",
        reads: "/proc/sys/vm/overcommit_memory",
        mechanism: "With 2 the kernel promises only memory that it has. A server that reserves address space ahead \
                    of its use, or forks to save, is refused.",
        remedy: "sysctl vm.overcommit_memory=1 for servers that fork to save, 0 for others",
        expect: "no reservation is refused; memory that runs out ends a process instead",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: mm/overcommit-accounting",
        probe: overcommit,
    },
    Check {
        id: "mem.map-count",
        reads: "/proc/sys/vm/max_map_count, /proc/PID/maps",
        mechanism: "A process may have a limited number of mappings. A server that maps files or arenas one by one \
                    meets the limit as if memory had run out.",
        remedy: "sysctl vm.max_map_count=262144 or more",
        expect: "no mapping is refused before memory is used up; nothing for times",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/sysctl/vm; Elasticsearch's checks at start",
        probe: map_count,
    },
    Check {
        id: "mem.dirty",
        reads: "/proc/sys/vm/{dirty_ratio,dirty_bytes}, /proc/meminfo (MemTotal)",
        mechanism: "Writers go on in memory until so much of it is unwritten, and are then held back until disks \
                    have caught up. A fifth of a big memory takes a disk many seconds, in which every fsync waits.",
        remedy: "sysctl vm.dirty_bytes=268435456 vm.dirty_background_bytes=67108864 where a log is written",
        expect: "shorter waits of fsync and of writers; more often",
        needs: Needs::Root,
        undo: "write the old values back",
        source: "kernel: admin-guide/sysctl/vm",
        probe: dirty,
    },
    Check {
        id: "mem.majfault",
        reads: "/proc/PID/stat (majflt), read twice",
        mechanism: "A major fault reads a page from disk while the thread waits. In a server's workers that is a \
                    request that takes as long as the disk.",
        remedy: "populate and lock the memory; no read-ahead (MADV_RANDOM) on mapped files",
        expect: "no request waits for a disk; the memory is taken at the start",
        needs: Needs::Nothing,
        undo: "nothing was changed",
        source: "man 5 proc; LinkedIn's GraphDB",
        probe: majfault,
    },
    Check {
        id: "mem.reclaim",
        reads: "/proc/vmstat (pgscan_direct, allocstall_*), read twice",
        mechanism: "Direct reclaim is a thread freeing memory before it gets some. Any request can be the one that \
                    does it, for milliseconds.",
        remedy: "more headroom: a smaller cache or limit, vm.watermark_scale_factor, vm.min_free_kbytes",
        expect: "no request waits while its thread frees memory",
        needs: Needs::Root,
        undo: "write the old values back",
        source: "kernel: mm/vmscan; LinkedIn's GraphDB",
        probe: reclaim,
    },
    Check {
        id: "mem.page-cache-garbage",
        reads: "/proc/meminfo (Inactive(file), MemFree, MemTotal)",
        mechanism: "Files that are read once, or were deleted after, fill memory as unused cache. When memory is \
                    needed they have to be evicted first, and hot pages go with them.",
        remedy: "keep a pool of files instead of making and deleting them; POSIX_FADV_DONTNEED after what is read \
                 once",
        expect: "less reclaim, and fewer hot pages lost to it",
        needs: Needs::Nothing,
        undo: "nothing was changed",
        source: "LinkedIn's GraphDB",
        probe: page_cache_garbage,
    },
    Check {
        id: "mem.mglru",
        reads: "/sys/kernel/mm/lru_gen/{enabled,min_ttl_ms}",
        mechanism: "The multi-generational LRU decides by age which pages go. min_ttl_ms protects what was used \
                    within it, at the price of killing a process when that is all there is.",
        remedy: "write 1000 into lru_gen/min_ttl_ms on a host that is shared",
        expect: "the working set stays under pressure; a process may be ended in its stead",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/mm/multigen_lru",
        probe: mglru,
    },
    Check {
        id: "mem.ksm",
        reads: "/sys/kernel/mm/ksm/run",
        mechanism: "Merging of equal pages reads memory all the time, on some CPU. The first write to a merged page \
                    waits until it is copied.",
        remedy: "write 0 into ksm/run",
        expect: "CPU time back, no copies at first writes; memory that was merged is taken again",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/mm/ksm",
        probe: ksm,
    },
];

const MEMINFO: &str = "/proc/meminfo";

/// Returns a value of /proc/meminfo, in kilobytes.
fn meminfo(host: &Host, key: &'static str) -> Result<i64, Unread> {
    field(&host.read(MEMINFO)?, key).filter(|kb| *kb >= 0).ok_or(Unread::Garbage(MEMINFO.to_owned(), key))
}

fn chosen_of(host: &Host, path: &str) -> Result<String, Unread> {
    let text = host.read(path)?;
    chosen(&text).map(str::to_owned).ok_or(Unread::Garbage(path.to_owned(), "word in brackets"))
}

fn thp(host: &Host) -> Probed {
    let word = chosen_of(host, "/sys/kernel/mm/transparent_hugepage/enabled")?;
    Ok(ProbeResult::warn_if(word == "always", format!("transparent_hugepage/enabled = {word}")))
}

fn thp_defrag(host: &Host) -> Probed {
    let enabled = chosen_of(host, "/sys/kernel/mm/transparent_hugepage/enabled")?;
    let word = chosen_of(host, "/sys/kernel/mm/transparent_hugepage/defrag")?;
    let value = format!("transparent_hugepage/defrag = {word}, enabled = {enabled}");
    Ok(ProbeResult::bad_if(word == "always" && enabled != "never", value))
}

/// Hosts with less memory than this have the smaller floor.
const SMALL_KB: i64 = 8 << 20;

/// Returns the memory that should be free at least, in KiB: on the smallest hosts no more than a twentieth of it.
pub(crate) fn min_free_floor_kb(host: &Host) -> Result<i64, Unread> {
    let total = meminfo(host, "MemTotal")?;
    let floor = if total < SMALL_KB { 64 << 10 } else { (100 << 10).max(total / 100) };
    Ok(floor.min(total / 20))
}

fn min_free(host: &Host) -> Probed {
    let kb = host.sysctl("vm.min_free_kbytes")?;
    let total = meminfo(host, "MemTotal")?;
    let floor = min_free_floor_kb(host)?;
    let value = format!("vm.min_free_kbytes = {kb}: {} MiB of {} MiB", kb >> 10, total >> 10);
    Ok(ProbeResult::warn_if(kb < floor || kb > total / 20, value))
}

/// Returns the growth per second of a counter, or of all counters whose names begin with `prefix`.
fn rate(twice: &Twice, path: &str, prefix: &'static str) -> Result<f64, Unread> {
    let sum = |text: &str| {
        let mut lines = text.lines().filter(|line| line.starts_with(prefix)).peekable();
        lines.peek()?;
        lines.map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).sum::<Option<f64>>()
    };
    let garbage = || Unread::Garbage(path.to_owned(), prefix);
    Ok((sum(&twice.after).ok_or_else(garbage)? - sum(&twice.before).ok_or_else(garbage)?) / twice.seconds)
}

const VMSTAT: &str = "/proc/vmstat";
/// The kernel's default.
const WATERMARK_SCALE_DEFAULT: i64 = 10;
/// Allocated pages per second from which on memory is taken fast: 400 MB/s.
const FAST_PAGES: f64 = 100_000.0;

fn watermark_scale(host: &Host) -> Probed {
    let factor = host.sysctl("vm.watermark_scale_factor")?;
    let taken = rate(&host.twice(VMSTAT)?, VMSTAT, "pgalloc_")?;
    let value = format!("{factor} ten-thousandths; {:.0} MB a second are allocated", taken * 4096.0 / 1e6);
    Ok(ProbeResult::warn_if(factor <= WATERMARK_SCALE_DEFAULT && taken > FAST_PAGES, value))
}

const SWAPPINESS_MAX: i64 = 10;

fn swap(host: &Host) -> Probed {
    let path = "/proc/swaps";
    let swaps = host.read(path)?;
    if !swaps.starts_with("Filename") {
        return Err(Unread::Garbage(path.to_owned(), "head of a table"));
    }
    if swaps.lines().count() < 2 {
        return Ok(ProbeResult::ok("no swap"));
    }
    let swappiness = host.sysctl("vm.swappiness")?;
    let mut value = format!("swap is on, vm.swappiness = {swappiness}");
    if let Ok(path) = host.process("status") {
        let kb = field(&host.read(&path)?, "VmSwap").unwrap_or(0);
        if kb > 0 {
            return Ok(ProbeResult::bad(format!("{value}; {} MiB of the process are swapped out", (kb >> 10).max(1)))
                .weighing(0.5));
        }
        value += "; none of the process is swapped out";
    }
    Ok(ProbeResult::warn_if(swappiness > SWAPPINESS_MAX, value))
}

fn overcommit(host: &Host) -> Probed {
    let mode = host.sysctl("vm.overcommit_memory")?;
    Ok(ProbeResult::warn_if(mode == 2, format!("vm.overcommit_memory = {mode}")))
}

const MAPS_MIN: i64 = 262_144;

fn map_count(host: &Host) -> Probed {
    let most = host.sysctl("vm.max_map_count")?;
    let mut value = format!("{most} allowed");
    let mut is_near = false;
    if let Ok(path) = host.process("maps") {
        match host.read(&path) {
            Ok(maps) => {
                let maps = maps.lines().count() as i64;
                is_near = maps * 2 > most;
                value += &format!(", {maps} in use");
            }
            Err(why) if most >= MAPS_MIN => return Err(why),
            // A limit that is too low is too low, however many mappings are in use.
            Err(_) => value += "; the number in use is unknown",
        }
    }
    Ok(if is_near { ProbeResult::bad(value) } else { ProbeResult::warn_if(most < MAPS_MIN, value) })
}

/// Unwritten data that a disk writes within a second or a few, in KiB.
const DIRTY_KB_MAX: i64 = 1 << 20;

fn dirty(host: &Host) -> Probed {
    let bytes = host.sysctl("vm.dirty_bytes")?;
    let total = meminfo(host, "MemTotal")?;
    let kb = if bytes > 0 { bytes >> 10 } else { total / 100 * host.sysctl("vm.dirty_ratio")? };
    Ok(ProbeResult::warn_if(kb > DIRTY_KB_MAX, format!("up to {} MiB unwritten", kb >> 10)))
}

/// Returns the major faults: field 12 of /proc/PID/stat, counted after the name in parentheses, which may hold
/// anything.
fn majflt(text: &str) -> Option<f64> {
    text.rsplit_once(')')?.1.split_whitespace().nth(9)?.parse().ok()
}

fn majfault(host: &Host) -> Probed {
    let path = host.process("stat")?;
    let twice = host.twice(&path)?;
    let (Some(before), Some(after)) = (majflt(&twice.before), majflt(&twice.after)) else {
        return Err(Unread::Garbage(path, "count of major faults"));
    };
    let rate = (after - before) / twice.seconds;
    Ok(ProbeResult::bad_if(rate > 0.0, format!("{rate:.1} major faults a second")).weighing((rate * 0.005).min(1.0)))
}

fn reclaim(host: &Host) -> Probed {
    let twice = host.twice(VMSTAT)?;
    let scanned = rate(&twice, VMSTAT, "pgscan_direct ")?;
    let stalls = rate(&twice, VMSTAT, "allocstall")?;
    let value = format!("{scanned:.0} pages looked at and {stalls:.0} waits a second in direct reclaim");
    Ok(ProbeResult::bad_if(scanned > 0.0 || stalls > 0.0, value).weighing((stalls * 0.005).min(1.0)))
}

fn page_cache_garbage(host: &Host) -> Probed {
    let (total, free) = (meminfo(host, "MemTotal")?.max(1), meminfo(host, "MemFree")?);
    let inactive = meminfo(host, "Inactive(file)")?;
    let value =
        format!("{} % of memory is inactive file cache, {} % is free", inactive * 100 / total, free * 100 / total);
    // As long as memory is free, no thread has to reclaim the cache.
    Ok(ProbeResult::warn_if(inactive * 5 > total && free * 20 < total, value))
}

fn mglru(host: &Host) -> Probed {
    let path = "/sys/kernel/mm/lru_gen/enabled";
    let text = host.read(path)?;
    let digits = text.trim_start_matches("0x");
    let on = u32::from_str_radix(digits, 16).map_err(|_| Unread::Garbage(path.to_owned(), "hexadecimal number"))?;
    if on == 0 {
        return Ok(ProbeResult::ok("off: the two lists"));
    }
    let ttl = host.number("/sys/kernel/mm/lru_gen/min_ttl_ms")?;
    Ok(ProbeResult::ok(format!("on, min_ttl_ms {ttl}")))
}

fn ksm(host: &Host) -> Probed {
    let run = host.number("/sys/kernel/mm/ksm/run")?;
    Ok(ProbeResult::warn_if(run == 1, format!("ksm/run = {run}")))
}
