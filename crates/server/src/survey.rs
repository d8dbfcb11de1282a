//! Figures that take long to obtain: the census of segments, and the memory that the kernel has provided. The survey
//! thread obtains them periodically, and other threads read its latest figures. The thread also stores the hot keys of
//! each minute ([`command::metrics::hot_keys`]), and reads changed certificates. When [`command::memory::budget`] wakes
//! it, it returns freed client memory to the kernel at once. Until the thread has returned it, clients may allocate the
//! same amount again elsewhere in the heaps.
//!
//! Invariant: a worker that replies to `stats` walks no segment headers and reads nothing of `/proc` about memory.

use crate::shared::Shared;
use crate::start::sandbox;
use base::units::ByteSize;
use command::metrics::info_totals::InfoCounts;
use command::metrics::survey::{CpuTimes, Findings, Rates};
use std::time::{Duration, Instant};

/// The maximum age of a census.
const CENSUS_STEP: Duration = Duration::from_secs(1);
/// The time between two checks whether the files of certificates have changed.
const FILES_STEP: Duration = Duration::from_millis(500);
/// The minimum time between two returns of freed memory. Threads that allocate wait during a return.
const TRIM_PAUSE: Duration = Duration::from_millis(10);
/// The number of censuses between two counts of huge pages, from the second census on. The kernel walks page tables for
/// a count.
const PAGES_EVERY: u64 = 10;

/// Runs the survey until all workers have ended, and executes jobs that may block, for workers. After an unpark, checks
/// for jobs, whether the workers have ended, and whether memory was freed.
pub(crate) fn run(shared: &Shared) {
    shared.budget.wake_when_fallen(std::thread::current());
    let _ = shared.threads.survey.set(std::thread::current());
    let mut found = shared.survey.latest();
    found.system_bytes = system_bytes().unwrap_or(0);
    let mut before = (Instant::now(), shared.info_counts());
    let (mut rounds, mut used_bytes) = (0, 0);
    let mut due = Instant::now();
    let mut files_due = Instant::now() + FILES_STEP;
    while !shared.threads.stop.workers_ended() {
        if Instant::now() >= files_due {
            crate::start::encryption::reload_changed(shared);
            files_due = Instant::now() + FILES_STEP;
        }
        if Instant::now() >= due {
            let now = (Instant::now(), shared.info_counts());
            found.rates = rates(before, now);
            before = now;
            survey_once(shared, rounds, &mut found);
            rounds += 1;
            if shared.budget.has_settled(used_bytes) {
                io::allocation::trim();
            }
            used_bytes = shared.budget.used();
            due = Instant::now() + CENSUS_STEP;
        }
        while let Some(job) = shared.threads.next_job() {
            job();
        }
        if shared.budget.has_freed_much() {
            io::allocation::trim();
            std::thread::sleep(TRIM_PAUSE);
        }
        let next = if shared.tls().is_some() { due.min(files_due) } else { due };
        std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
    }
    while shared.threads.next_job().is_some() {}
    crate::log::audit::write(shared);
}

/// Takes the census, and obtains the other figures that are due in this round.
fn survey_once(shared: &Shared, round: u64, found: &mut Findings) {
    if round % PAGES_EVERY == 1 {
        found.huge_page_bytes = shared.store.huge_page_bytes().unwrap_or(0);
    }
    if round == 1 && shared.config.huge_pages {
        log_huge_pages(found.huge_page_bytes);
    }
    found.census = shared.store.census();
    found.resident_bytes = resident_bytes().unwrap_or(0);
    found.cpu = cpu_times();
    shared.survey.used_peak_bytes(shared.store.stats_by(&found.census).used_bytes());
    shared.survey.publish(*found);
    shared.collect_minute(shared.now());
    shared.tracking.tidy();
    shared.auth_delay.log_failures(shared.now());
    shared.users.log_refused_ops();
    sandbox::log_refused();
    crate::log::audit::write(shared);
}

/// Logs the use of huge pages, one second after the start. By then the server has obtained the memory that
/// is used first.
fn log_huge_pages(bytes: u64) {
    let whole_mib = |bytes: u64| ByteSize(bytes >> 20 << 20);
    let (had, of) = (whole_mib(bytes), whole_mib(resident_bytes().unwrap_or(0)));
    if bytes > 0 {
        tracing::info!("huge pages back {had} of the {of} in use so far");
    } else {
        tracing::warn!("huge pages were requested, but the kernel provided none for the {of} in use so far");
    }
}

/// Returns the resident memory of this process, in bytes; `None` if the kernel does not report it.
pub(crate) fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Returns the rates between two readings of the counts, each with its instant.
fn rates((from, before): (Instant, InfoCounts), (to, now): (Instant, InfoCounts)) -> Rates {
    let ms = (to.saturating_duration_since(from).as_millis() as u64).max(1);
    let per_s = |before: u64, now: u64| now.saturating_sub(before) * 1000 / ms;
    Rates {
        ops_per_s: per_s(before.ops, now.ops),
        input_bytes_per_s: per_s(before.bytes_read, now.bytes_read),
        output_bytes_per_s: per_s(before.bytes_written, now.bytes_written),
    }
}

/// Returns the memory of the machine, in bytes; `None` if the kernel does not report it.
fn system_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// Returns the CPU times of the process. Times that the kernel does not report are 0.
fn cpu_times() -> CpuTimes {
    let [user_ms, system_ms, children_user_ms, children_system_ms] = ticks_ms("/proc/self/stat");
    let main = format!("/proc/self/task/{}/stat", std::process::id());
    let [main_user_ms, main_system_ms, ..] = ticks_ms(&main);
    CpuTimes { user_ms, system_ms, children_user_ms, children_system_ms, main_user_ms, main_system_ms }
}

/// Returns the four CPU times in a `stat` file of a process or thread, in ms.
fn ticks_ms(path: &str) -> [u64; 4] {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // The name in parentheses may contain spaces. The times are the 12th to 15th words after it.
    let words = text.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').skip(11);
    let mut times = [0; 4];
    for (time, word) in times.iter_mut().zip(words) {
        *time = word.parse::<u64>().unwrap_or(0) * 1000 / rustix::param::clock_ticks_per_second();
    }
    times
}

#[cfg(test)]
mod tests {
    use super::{cpu_times, rates, system_bytes};
    use crate::start::{ServerConfig, assemble};
    use base::clock::UnixMillis;
    use command::metrics::info_totals::InfoCounts;
    use segment::{Namespace, Put};
    use std::time::{Duration, Instant};

    #[test]
    fn cpu_times_and_rates_are_those_of_the_process() {
        let begun = Instant::now();
        let mut spins = 0u64;
        while begun.elapsed() < Duration::from_millis(60) {
            spins = std::hint::black_box(spins + 1);
        }
        let cpu = cpu_times();
        assert!(cpu.user_ms + cpu.system_ms >= 10 && cpu.main_user_ms <= cpu.user_ms + 10, "{cpu:?}");
        assert!(system_bytes().is_some_and(|bytes| bytes > 64 << 20));
        let counts = InfoCounts { ops: 50, bytes_read: 4000, ..InfoCounts::default() };
        let later = (begun + Duration::from_millis(500), counts);
        let rates = rates((begun, InfoCounts::default()), later);
        assert_eq!((rates.ops_per_s, rates.input_bytes_per_s, rates.output_bytes_per_s), (100, 8000, 0));
    }

    #[test]
    fn counters_are_of_now_though_the_census_is_old() {
        let config = ServerConfig { huge_pages: false, ..ServerConfig::default() };
        let now = UnixMillis(1_700_000_000_000);
        let (shared, _background) = assemble(config, now).expect("a store");
        let mut handle = shared.store.handle().expect("a thread handle");
        let mut guard = handle.guard(now);
        let key = guard.key(Namespace::DEFAULT, b"k");
        guard.items_mut().put(&key, &Put::set(b"v")).expect("room");
        drop(guard);
        let (replied, walked) = (shared.store_stats(), shared.store.stats());
        assert_eq!((replied.items, replied.item_bytes), (1, walked.item_bytes));
        assert_eq!((replied.segments[1], walked.segments[1]), (0, 1), "open segments");
        let count: u64 = walked.segments.iter().sum();
        assert_eq!((replied.segments[0], walked.segments[0]), (count, count - 1), "free segments");
    }
}
