//! Context switches and CPU migrations of each thread, from the kernel. They determine the tail latency of a worker
//! that is not pinned.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The maximum number of threads that are read: more than a server of 128 workers has.
const THREADS_MAX: usize = 512;

/// The kernel's counters of all threads with one name since their start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed {
    /// The number of times that the kernel preempted the thread while the thread had work.
    pub involuntary_switches: u64,
    /// The number of times that the kernel moved the thread to another CPU, or `None` if this kernel does not report
    /// the number.
    pub migrations: Option<u64>,
}

/// Reads the threads below `tasks` (`/proc/self/task`), and returns their counters by thread name. Skips a thread that
/// ends during the reading.
pub(super) fn read(tasks: &Path) -> BTreeMap<String, Placed> {
    let mut threads: BTreeMap<String, Placed> = BTreeMap::new();
    let Ok(entries) = fs::read_dir(tasks) else { return threads };
    for folder in entries.take(THREADS_MAX).filter_map(|entry| Some(entry.ok()?.path())) {
        let text = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let switches = text("status").and_then(|text| number(&text, "nonvoluntary_ctxt_switches"));
        let (Some(name), Some(switches)) = (text("comm"), switches) else { continue };
        let migrations = text("sched").and_then(|text| number(&text, "se.nr_migrations"));
        let placed = threads.entry(name.trim().to_owned()).or_default();
        placed.involuntary_switches += switches;
        placed.migrations = migrations.map(|count| count + placed.migrations.unwrap_or(0)).or(placed.migrations);
    }
    threads
}

/// Returns the number that follows a name and a colon.
fn number(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim_start().strip_prefix(':')?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_equal_name_share_a_series_and_ended_threads_are_omitted() {
        let folder = std::env::temp_dir().join(format!("gannet-threads-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let place = folder.join(file);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        };
        for (thread, switches) in [(7, 3), (8, 40)] {
            write(&format!("{thread}/comm"), "worker-0\n");
            write(
                &format!("{thread}/status"),
                &format!("voluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t{switches}\n"),
            );
        }
        write("8/sched", "worker-0 (8, #threads: 2)\nse.nr_migrations    :     5\nnr_switches : 3\n");
        write("9/comm", "gone\n");
        let threads = read(&folder);
        assert_eq!(threads.len(), 1);
        assert_eq!(threads["worker-0"], Placed { involuntary_switches: 43, migrations: Some(5) });
        fs::remove_dir_all(&folder).unwrap();
        assert!(read(&folder).is_empty());
    }

    #[test]
    fn this_process_has_threads_with_counts() {
        let threads = read(Path::new("/proc/self/task"));
        assert!(!threads.is_empty() && threads.keys().all(|name| !name.is_empty()), "{threads:?}");
    }
}
