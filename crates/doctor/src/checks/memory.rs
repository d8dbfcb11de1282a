//! Memory: settings and counters that show when threads wait for memory.

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::host::{Host, Twice, Unread, chosen, field};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "mem.thp",
        reads: "/sys/kernel/mm/transparent_hugepage/enabled",
        mechanism: "With always, every process gets huge pages: a first touch clears 2 MiB instead of 4 KiB, and \
                    khugepaged takes locks to create more huge pages. With madvise a process gets them only for \
                    memory for which it requests them.",
        remedy: "write madvise into transparent_hugepage/enabled",
        expect: "fewer stalls and less use in memory without a request for huge pages; more TLB misses there",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/mm/transhuge",
        probe: thp,
    },
    Check {
        id: "mem.thp-defrag",
        reads: "/sys/kernel/mm/transparent_hugepage/defrag",
        mechanism: "With always, a fault that finds no free huge page moves other pages until one is free. The \
                    faulting thread waits for milliseconds.",
        remedy: "write defer+madvise into transparent_hugepage/defrag",
        expect: "no page fault takes milliseconds because of compaction",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/mm/transhuge",
        probe: thp_defrag,
    },
    Check {
        id: "mem.min-free",
        reads: "/proc/sys/vm/min_free_kbytes, /proc/meminfo (MemTotal)",
        mechanism: "When free memory is below this reserve, threads must free memory before they can allocate. With \
                    a small reserve a burst of packets makes threads wait, and a large reserve wastes memory.",
        remedy: "set sysctl vm.min_free_kbytes to 1 % of the memory, at least 100 MiB; to 64 MiB if the memory is \
                 below 8 GiB; never above 5 %",
        expect: "fewer threads that free memory during a burst; the reserve stays unused",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/sysctl/vm; Aerospike's checks at start",
        probe: min_free,
    },
    Check {
        id: "mem.watermark-scale",
        reads: "/proc/sys/vm/watermark_scale_factor, /proc/vmstat, read twice",
        mechanism: "kswapd wakes up when free memory falls below this share, in ten-thousandths. If it wakes up too \
                    late, threads that allocate memory must free it themselves.",
        remedy: "sysctl vm.watermark_scale_factor=100",
        expect: "less direct reclaim (mem.reclaim) while memory is allocated fast; slightly less usable memory",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/sysctl/vm",
        probe: watermark_scale,
    },
    Check {
        id: "mem.swap",
        reads: "/proc/swaps, /proc/sys/vm/swappiness, /proc/PID/status (VmSwap)",
        mechanism: "A page that was swapped out is read back from disk during a request. The worker then serves no \
                    client for milliseconds.",
        remedy: "sysctl vm.swappiness=1, or disable swap; lock the server's memory",
        expect: "no request waits for a swapped page; if memory runs out, a process is killed sooner",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/sysctl/vm",
        probe: swap,
    },
    Check {
        id: "mem.overcommit",
        reads: "/proc/sys/vm/overcommit_memory",
        mechanism: "With 2 the kernel grants only memory that it can back. A server that reserves address space in \
                    advance, or forks to save, is refused.",
        remedy: "sysctl vm.overcommit_memory=1 for servers that fork to save, 0 for others",
        expect: "no reservation is refused; if memory runs out, a process is killed",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: mm/overcommit-accounting",
        probe: overcommit,
    },
    Check {
        id: "mem.map-count",
        reads: "/proc/sys/vm/max_map_count, /proc/PID/maps",
        mechanism: "The number of a process's mappings is limited. A server that maps many files or arenas fails at \
                    the limit as if memory had run out.",
        remedy: "sysctl vm.max_map_count=1048576",
        expect: "no mapping is refused while memory is available; no change in latency",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/sysctl/vm; Elasticsearch's checks at start",
        probe: map_count,
    },
    Check {
        id: "mem.dirty",
        reads: "/proc/sys/vm/{dirty_ratio,dirty_bytes}, /proc/meminfo (MemTotal)",
        mechanism: "Writes stay in memory until this much is dirty, and then writers are throttled until the disks \
                    catch up. A fifth of a large memory takes a disk many seconds, and every fsync waits for it.",
        remedy: "sysctl vm.dirty_bytes=268435456 vm.dirty_background_bytes=67108864 on hosts that write a log",
        expect: "shorter waits of fsync and of writers; more frequent writeback",
        needs: Needs::Root,
        undo: "write the old values back",
        source: "kernel: admin-guide/sysctl/vm",
        probe: dirty,
    },
    Check {
        id: "mem.majfault",
        reads: "/proc/PID/stat (majflt), read twice",
        mechanism: "In a major fault a thread waits until a page is read from disk. If the thread is a worker, its \
                    request takes as long as the disk.",
        remedy: "populate and lock the memory; disable read-ahead (MADV_RANDOM) on mapped files",
        expect: "no request waits for a disk; all memory is allocated at the start",
        needs: Needs::Nothing,
        undo: "nothing to undo on this host",
        source: "man 5 proc; LinkedIn's GraphDB",
        probe: majfault,
    },
    Check {
        id: "mem.reclaim",
        reads: "/proc/vmstat (pgscan_direct, allocstall_*), read twice",
        mechanism: "In direct reclaim a thread must free memory before it can allocate. Any request may have to do \
                    it, and then takes milliseconds longer.",
        remedy: "leave more memory free: a smaller cache or limit, vm.watermark_scale_factor, vm.min_free_kbytes",
        expect: "no request waits while its thread frees memory",
        needs: Needs::Root,
        undo: "write the old values back",
        source: "kernel: mm/vmscan; LinkedIn's GraphDB",
        probe: reclaim,
    },
    Check {
        id: "mem.page-cache-garbage",
        reads: "/proc/meminfo (Inactive(file), MemFree, MemTotal)",
        mechanism: "Files that are read only once or deleted soon fill the page cache with unused pages. When \
                    memory is needed, the kernel must evict them first, and evicts hot pages with them.",
        remedy: "reuse files instead of creating and deleting them; call POSIX_FADV_DONTNEED after a single read",
        expect: "less reclaim, and fewer evicted hot pages",
        needs: Needs::Nothing,
        undo: "nothing to undo on this host",
        source: "LinkedIn's GraphDB",
        probe: page_cache_garbage,
    },
    Check {
        id: "mem.mglru",
        reads: "/sys/kernel/mm/lru_gen/{enabled,min_ttl_ms}",
        mechanism: "The multi-generational LRU evicts pages by age. min_ttl_ms protects pages that were used within \
                    that time, and the kernel kills a process if all pages are protected.",
        remedy: "write 1000 into lru_gen/min_ttl_ms on a shared host",
        expect: "the working set stays in memory under pressure; a process may be killed instead",
        needs: Needs::Root,
        undo: "write the old value back",
        source: "kernel: admin-guide/mm/multigen_lru",
        probe: mglru,
    },
    Check {
        id: "mem.ksm",
        reads: "/sys/kernel/mm/ksm/run",
        mechanism: "Merging equal pages constantly reads memory and uses CPU time. The first write to a merged page \
                    waits for a copy.",
        remedy: "write 0 into ksm/run",
        expect: "less CPU time, and no copies at first writes; merged memory is used again in full",
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

/// Memory in KiB below which a host counts as small, and needs a smaller reserve.
const SMALL_KB: i64 = 8 << 20;

/// Returns the smallest recommended vm.min_free_kbytes, in KiB. It is at most a twentieth of the host's memory.
pub(crate) fn min_free_floor_kb(host: &Host) -> Result<i64, Unread> {
    let total = meminfo(host, "MemTotal")?;
    let floor = if total < SMALL_KB { 64 << 10 } else { (100 << 10).max(total / 100) };
    Ok(floor.min(total / 20))
}

fn min_free(host: &Host) -> Probed {
    let kb = host.sysctl("vm.min_free_kbytes")?;
    let total = meminfo(host, "MemTotal")?;
    let floor = min_free_floor_kb(host)?;
    let value = format!("vm.min_free_kbytes = {kb}: {} MiB of {} MiB; recommended: {floor}", kb >> 10, total >> 10);
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
/// The kernel's default of vm.watermark_scale_factor.
const WATERMARK_SCALE_DEFAULT: i64 = 10;
/// Allocated pages per second above which a warning is possible: 400 MB/s.
const FAST_PAGES: f64 = 100_000.0;

fn watermark_scale(host: &Host) -> Probed {
    let factor = host.sysctl("vm.watermark_scale_factor")?;
    let taken = rate(&host.twice(VMSTAT)?, VMSTAT, "pgalloc_")?;
    let value = format!("{factor} ten-thousandths; {:.0} MB are allocated per second", taken * 4096.0 / 1e6);
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
            // Such a low limit needs a warning, however many mappings are in use.
            Err(_) => value += "; the number in use is unknown",
        }
    }
    Ok(if is_near { ProbeResult::bad(value) } else { ProbeResult::warn_if(most < MAPS_MIN, value) })
}

/// Maximum unwritten data without a warning, in KiB. A disk writes this amount within a few seconds.
const DIRTY_KB_MAX: i64 = 1 << 20;

fn dirty(host: &Host) -> Probed {
    let bytes = host.sysctl("vm.dirty_bytes")?;
    let total = meminfo(host, "MemTotal")?;
    let kb = if bytes > 0 { bytes >> 10 } else { total / 100 * host.sysctl("vm.dirty_ratio")? };
    Ok(ProbeResult::warn_if(kb > DIRTY_KB_MAX, format!("up to {} MiB unwritten", kb >> 10)))
}

/// Returns the number of major faults: field 12 of /proc/PID/stat. Fields are counted after the last parenthesis,
/// because the process's name before it may contain any characters.
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
    Ok(ProbeResult::bad_if(rate > 0.0, format!("{rate:.1} major faults per second")).weighing((rate * 0.005).min(1.0)))
}

fn reclaim(host: &Host) -> Probed {
    let twice = host.twice(VMSTAT)?;
    let scanned = rate(&twice, VMSTAT, "pgscan_direct ")?;
    let stalls = rate(&twice, VMSTAT, "allocstall")?;
    let value = format!("direct reclaim: {scanned:.0} pages scanned and {stalls:.0} waits per second");
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
        return Ok(ProbeResult::ok("off: the kernel uses the older LRU with two lists"));
    }
    let ttl = host.number("/sys/kernel/mm/lru_gen/min_ttl_ms")?;
    Ok(ProbeResult::ok(format!("on, min_ttl_ms {ttl}")))
}

fn ksm(host: &Host) -> Probed {
    let run = host.number("/sys/kernel/mm/ksm/run")?;
    Ok(ProbeResult::warn_if(run == 1, format!("ksm/run = {run}")))
}
