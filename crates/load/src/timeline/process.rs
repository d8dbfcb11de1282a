//! Figures of a local process from `/proc/PID`: its threads' CPU time and waiting, switches, faults and memory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{FigureReading, Source, Unit};

/// Highest number of threads with a timeline of their own: the first ones.
const THREADS_SHOWN_MAX: usize = 16;
/// Highest number of threads that are read.
const THREADS_READ_MAX: usize = 512;
const PAGE_BYTES: f64 = 4096.0;

/// A source with the figures of a local process.
pub struct Process {
    whose: &'static str,
    folder: PathBuf,
    before: HashMap<u32, Thread>,
    at: Option<Instant>,
}

/// Counters of a thread since its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thread {
    /// The thread's name.
    pub name: String,
    /// Time on a CPU, in nanoseconds.
    pub ran_ns: f64,
    /// Time in which the thread was runnable and had no CPU, in nanoseconds.
    pub waited_ns: f64,
    /// Number of times that the kernel preempted the thread.
    pub involuntary: f64,
    /// Number of page faults that needed no disk.
    pub minor_faults: f64,
    /// Number of page faults that waited for a disk.
    pub major_faults: f64,
}

impl Process {
    /// Creates the source for the process `pid`; `whose` is the owner of the figures.
    pub fn new(whose: &'static str, pid: u32) -> Self {
        Self { whose, folder: PathBuf::from(format!("/proc/{pid}")), before: HashMap::new(), at: None }
    }
}

/// Returns the CPU time of all current threads of process `pid`, in nanoseconds.
pub fn cpu_ns(pid: u32) -> Option<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let ran = tasks
        .take(THREADS_READ_MAX)
        .filter_map(|task| read(&task.path(), "schedstat")?.split_whitespace().next()?.parse::<u64>().ok());
    Some(ran.sum())
}

fn read(folder: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(folder.join(name)).ok()
}

/// Parses the files `comm`, `schedstat`, `status` and `stat` of a thread; missing values are 0.
pub fn thread(comm: &str, schedstat: &str, status: &str, stat: &str) -> Thread {
    let mut times = schedstat.split_whitespace().filter_map(|ns| ns.parse::<f64>().ok());
    let (ran_ns, waited_ns) = (times.next().unwrap_or(0.0), times.next().unwrap_or(0.0));
    let involuntary = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    // The name is in brackets and may contain any character, so fields are counted after the last bracket.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse().ok()).unwrap_or(0.0);
    Thread {
        name: comm.trim().to_owned(),
        ran_ns,
        waited_ns,
        involuntary: involuntary.and_then(|text| text.trim().parse().ok()).unwrap_or(0.0),
        minor_faults: field(10),
        major_faults: field(12),
    }
}

/// Returns the figures of all threads from two readings that are `passed_s` seconds apart.
pub fn readings(before: &HashMap<u32, Thread>, now: &HashMap<u32, Thread>, passed_s: f64) -> Vec<FigureReading> {
    let share = |of: fn(&Thread) -> f64, tid: &u32| {
        let since = of(now.get(tid)?) - of(before.get(tid)?);
        Some((since / 1e9 / passed_s).clamp(0.0, 1.0))
    };
    let mut tids: Vec<u32> = now.keys().copied().collect();
    tids.sort_unstable();
    let ran: Vec<(u32, f64)> = tids.iter().filter_map(|tid| Some((*tid, share(|t| t.ran_ns, tid)?))).collect();
    let waited: Vec<f64> = tids.iter().filter_map(|tid| share(|t| t.waited_ns, tid)).collect();
    if ran.is_empty() || passed_s <= 0.0 {
        return Vec::new();
    }
    let total = |of: fn(&Thread) -> f64| {
        let since = |tid| Some((of(now.get(tid)?) - of(before.get(tid)?)).max(0.0));
        tids.iter().filter_map(since).sum::<f64>() / passed_s
    };
    let most = |shares: &mut dyn Iterator<Item = f64>| shares.fold(0.0, f64::max);
    let mut readings = vec![
        FigureReading::new(
            "CPU use of the busiest thread",
            Unit::Share,
            most(&mut ran.iter().map(|(_, share)| *share)),
        ),
        FigureReading::new("worst thread's wait for a CPU", Unit::Share, most(&mut waited.iter().copied())),
        FigureReading::new("CPUs used", Unit::Count, ran.iter().map(|(_, share)| share).sum()),
        // Counters were converted to rates above, thread by thread, because threads may start and end.
        FigureReading::new("involuntary switches per second", Unit::Count, total(|t| t.involuntary)),
        FigureReading::new("page faults per second/minor", Unit::Count, total(|t| t.minor_faults)),
        FigureReading::new("page faults per second/major", Unit::Count, total(|t| t.major_faults)),
    ];
    // A thread with a unique name is displayed without its id, so a restarted thread continues the same timeline.
    for (tid, share) in ran.iter().take(THREADS_SHOWN_MAX) {
        let name = &now[tid].name;
        let is_alone = now.values().filter(|thread| thread.name == *name).count() == 1;
        let shown = if is_alone { name.clone() } else { format!("{name} {tid}") };
        readings.push(FigureReading::new(format!("CPU by thread/{shown}"), Unit::Share, *share));
    }
    readings
}

impl Source for Process {
    fn whose(&self) -> &'static str {
        self.whose
    }

    fn read(&mut self) -> Vec<FigureReading> {
        let Ok(tasks) = std::fs::read_dir(self.folder.join("task")) else { return Vec::new() };
        let mut now = HashMap::new();
        for task in tasks.flatten().take(THREADS_READ_MAX) {
            let Some(tid) = task.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let text = |name| read(&task.path(), name).unwrap_or_default();
            now.insert(tid, thread(&text("comm"), &text("schedstat"), &text("status"), &text("stat")));
        }
        let at = Instant::now();
        let passed_s = self.at.replace(at).map_or(0.0, |before| at.duration_since(before).as_secs_f64());
        let mut readings = readings(&self.before, &now, passed_s);
        let pages = read(&self.folder, "statm").and_then(|text| text.split_whitespace().nth(1)?.parse::<f64>().ok());
        if let (Some(pages), false) = (pages, readings.is_empty()) {
            readings.push(FigureReading::new("resident memory", Unit::Bytes, pages * PAGE_BYTES));
        }
        self.before = now;
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_read_whatever_its_name_holds() {
        let stat = "12 (a) b (c)) S 1 1 1 0 -1 64 500 0 7 0 30 20 0 0 20 0 1 0";
        let found = thread("a) b (c)\n", "2000 3000 9\n", "Name:\tx\nnonvoluntary_ctxt_switches:\t42\n", stat);
        let name = "a) b (c)".to_owned();
        let want = Thread {
            name,
            ran_ns: 2000.0,
            waited_ns: 3000.0,
            involuntary: 42.0,
            minor_faults: 500.0,
            major_faults: 7.0,
        };
        assert_eq!(found, want);
        assert_eq!(thread("", "", "", ""), Thread::default());
    }

    #[test]
    fn new_thread_is_counted_from_its_second_reading() {
        let thread = |ran_ns: f64| Thread { name: "t".into(), ran_ns, involuntary: ran_ns / 1e8, ..Thread::default() };
        let before = HashMap::from([(1, thread(1e9)), (2, thread(0.0))]);
        let now = HashMap::from([(1, thread(1.9e9)), (2, thread(0.2e9)), (3, thread(5e9))]);
        let readings = readings(&before, &now, 1.0);
        let value = |name: &str| readings.iter().find(|reading| reading.name == name).unwrap().value;
        assert!((value("CPU use of the busiest thread") - 0.9).abs() < 1e-9);
        assert!((value("CPUs used") - 1.1).abs() < 1e-9);
        assert!((value("involuntary switches per second") - 11.0).abs() < 1e-9);
        assert!(!readings.iter().any(|reading| reading.name.ends_with("/t 3")));
    }

    #[test]
    fn counters_of_the_own_process_show_cpu_time() {
        let mut source = Process::new("generator", std::process::id());
        assert!(source.read().is_empty());
        let begun = Instant::now();
        let busiest = loop {
            let end = Instant::now() + std::time::Duration::from_millis(30);
            while Instant::now() < end {
                std::hint::black_box(0);
            }
            let readings = source.read();
            let busiest = readings.iter().find(|reading| reading.name == "CPU use of the busiest thread");
            if busiest.is_some_and(|reading| reading.value > 0.0) || begun.elapsed().as_secs() > 20 {
                break busiest.map(|reading| reading.value);
            }
        };
        assert!(busiest.is_some_and(|share| share > 0.0));
        assert!(Process::new("server", u32::MAX).read().is_empty());
    }
}
