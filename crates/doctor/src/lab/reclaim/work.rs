//! The part that reads and replaces segments while its memory is limited.
//!
//! ```text
//!   garbage: map every file, read it, unmap it    fills the page cache with data that is not used again
//!   active:  segments of an engine                together with the garbage, more than fits into memory
//!   ready ── readers: read a random piece, timed  writers: replace a random segment    scan: reads the garbage again
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arena::{Cells, Order, PAGE_BYTES};
use base::prng::Prng;
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};

use super::cause::{Cause, Meter, cause};
use super::engine::{Engine, SegmentStore};
use crate::lab::part::{Done, note, ready};
use crate::lab::tally::TimeTally;

/// Bytes that one read touches.
const READ_BYTES: usize = 64 << 10;
/// Duration from which a read counts as slow, so that its cause is recorded.
const SLOW: Duration = Duration::from_millis(1);
/// Duration of a read from which the article's simulator printed it.
const ARTICLE: Duration = Duration::from_millis(100);
/// Maximum number of notes about slow reads, per reader.
const NOTES_MAX: u64 = 1000;
/// Spare segments, beyond those in use, into which writers write.
pub const SPARE: usize = 2;

/// The parameters of the part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Work {
    /// The folder of the part's files.
    pub folder: PathBuf,
    /// The way in which segments are stored.
    pub engine: Engine,
    /// Size of a segment in bytes, a multiple of the page size.
    pub segment_bytes: usize,
    /// Number of files that fill the cache.
    pub garbage: usize,
    /// Number of segments in use.
    pub active: usize,
    /// Number of threads that read.
    pub readers: u32,
    /// Reads per second of each reader.
    pub reads_per_s: u32,
    /// Number of threads that replace segments.
    pub writers: u32,
    /// Bytes per second that all writers together write.
    pub write_bytes_per_s: u64,
    /// Bytes of garbage that are read per second in the meantime, as a backup would read files.
    pub scan_bytes_per_s: u64,
    /// True if the kernel accounts for the time for which threads free memory.
    pub counts_reclaim: bool,
    /// True to report each read that took at least [`ARTICLE`].
    pub notes_slow: bool,
    /// Time for which the part works.
    pub time: Duration,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// Creates the files that fill the cache, once for all phases.
///
/// # Errors
/// If the file system returns an error.
pub fn make_garbage(folder: &Path, files: usize, bytes: usize) -> Result<(), String> {
    let piece = vec![0x5a; bytes];
    for n in 0..files {
        let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
        let file = File::create(folder.join(format!("garbage-{n}"))).map_err(wrong)?;
        file.write_all_at(&piece, 0).and_then(|()| file.sync_data()).map_err(wrong)?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| wrong(error.into()))?;
    }
    Ok(())
}

/// Fills the page cache with garbage, after dropping the files' pages that an earlier phase left in it.
fn read_garbage(work: &Work) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("garbage: {error}");
    let open = |n: usize| File::open(work.folder.join(format!("garbage-{n}")));
    for n in 0..work.garbage {
        fadvise(open(n).map_err(wrong)?, 0, None, Advice::DontNeed).map_err(|error| wrong(error.into()))?;
    }
    for n in 0..work.garbage {
        let cells = Cells::of_file(&open(n).map_err(wrong)?, work.segment_bytes, Order::Usual).map_err(wrong)?;
        std::hint::black_box(
            (0..work.segment_bytes).step_by(PAGE_BYTES).map(|at| u64::from(cells.load(at))).sum::<u64>(),
        );
    }
    Ok(())
}

/// The results of a reader.
#[derive(Default)]
struct ReaderTimes {
    /// Times of reads from the instant at which each was due.
    tally: TimeTally,
    /// Times of reads from the instant at which each began.
    service: TimeTally,
    causes: BTreeMap<Cause, u64>,
    major_faults: u64,
    reclaim_ns: u64,
    /// Number of reads that were due and had not begun when the phase ended.
    late: u64,
}

/// Reads and replaces segments until the time is over.
///
/// # Errors
/// If the file system or the memory allocation fails.
pub fn work(work: &Work) -> Result<Done, String> {
    read_garbage(work)?;
    let spare = work.writers as usize + SPARE;
    let store = SegmentStore::make(work.engine, &work.folder, work.segment_bytes, work.active, spare)?;
    ready();
    let (begun, written) = (Instant::now(), AtomicU64::new(0));
    let seen = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..work.readers)
            .map(|n| {
                scope.spawn({
                    let store = &store;
                    move || read(work, store, begun, u64::from(n))
                })
            })
            .collect();
        let writers: Vec<_> = (0..work.writers)
            .map(|n| {
                scope.spawn({
                    let (store, written) = (&store, &written);
                    move || write(work, store, begun, n, written)
                })
            })
            .collect();
        let scan = scope.spawn(move || scan(work, begun));
        let mut all = ReaderTimes::default();
        let mut failed = None;
        for reader in readers {
            match reader.join().expect("a reader does not panic") {
                Ok(seen) => {
                    all.tally.add(&seen.tally);
                    all.service.add(&seen.service);
                    all.major_faults += seen.major_faults;
                    all.reclaim_ns += seen.reclaim_ns;
                    all.late += seen.late;
                    seen.causes.into_iter().for_each(|(cause, count)| *all.causes.entry(cause).or_default() += count);
                }
                Err(why) => failed = Some(why),
            }
        }
        for writer in writers {
            failed = writer.join().expect("a writer does not panic").err().or(failed);
        }
        failed = scan.join().expect("the scan does not panic").err().or(failed);
        failed.map_or(Ok(all), Err)
    })?;
    let mut counts: BTreeMap<String, f64> = Cause::ALL
        .iter()
        .map(|(name, cause)| ((*name).to_owned(), seen.causes.get(cause).copied().unwrap_or(0) as f64))
        .collect();
    for (name, share) in [("read_p50_us", 0.5), ("read_p99_us", 0.99), ("read_p999_us", 0.999), ("read_max_us", 1.0)] {
        counts.insert(name.to_owned(), seen.service.at(share) as f64 / 1e3);
    }
    counts.insert("major_faults".to_owned(), seen.major_faults as f64);
    counts.insert("late_reads".to_owned(), seen.late as f64);
    if work.counts_reclaim {
        counts.insert("reclaim_ms".to_owned(), seen.reclaim_ns as f64 / 1e6);
    } else {
        counts.remove("slow_reclaim");
    }
    counts.insert("written_mib".to_owned(), written.into_inner() as f64 / f64::from(1 << 20));
    counts.insert("resident_percent".to_owned(), store.resident_percent());
    Ok(Done { times: seen.tally.pairs(), counts })
}

fn read(work: &Work, store: &SegmentStore, begun: Instant, reader: u64) -> Result<ReaderTimes, String> {
    let (mut seen, mut meter) = (ReaderTimes::default(), Meter::new(work.counts_reclaim)?);
    let mut prng = Prng::new(work.seed ^ (reader << 32));
    let (first, mut notes, mut due) = (meter.read(), 0, Duration::ZERO);
    loop {
        due += Duration::from_secs_f64(-(1.0 - prng.unit()).ln() / f64::from(work.reads_per_s));
        if due >= work.time {
            break;
        }
        let place = prng.below(work.active as u64) as usize;
        let offset = prng.below((work.segment_bytes / PAGE_BYTES) as u64) as usize * PAGE_BYTES;
        let now = begun.elapsed();
        if now >= work.time {
            // The time of this read is at least its wait so far, so the wait is recorded. The phase ends even if the
            // reader is far behind.
            seen.late += 1;
            seen.tally.record((now - due).as_nanos() as u64);
            continue;
        }
        std::thread::sleep(due.saturating_sub(now));
        let before = meter.read();
        let started = Instant::now();
        std::hint::black_box(store.read(place, offset, READ_BYTES));
        let took = started.elapsed();
        seen.service.record(took.as_nanos() as u64);
        if took >= SLOW {
            let cause = cause(&before, &meter.read(), took.as_nanos() as u64);
            *seen.causes.entry(cause).or_default() += 1;
            if work.notes_slow && took >= ARTICLE && notes < NOTES_MAX {
                notes += 1;
                note(format!("a read took {:.0} ms: {cause:?}", took.as_secs_f64() * 1e3));
            }
        }
        // The time counts from the instant at which the read was due. A read that waits for the previous one waits for
        // the same cause.
        seen.tally.record(begun.elapsed().saturating_sub(due).as_nanos() as u64);
    }
    let last = meter.read();
    seen.major_faults = last.major_faults - first.major_faults;
    seen.reclaim_ns = last.reclaim_ns - first.reclaim_ns;
    Ok(seen)
}

fn write(work: &Work, store: &SegmentStore, begun: Instant, writer: u32, written: &AtomicU64) -> Result<(), String> {
    let mut prng = Prng::new(work.seed ^ u64::from(writer) ^ (1 << 63));
    let each = work.segment_bytes as f64 * f64::from(work.writers) / work.write_bytes_per_s.max(1) as f64;
    let mut due = Duration::ZERO;
    while begun.elapsed() < work.time {
        let place = prng.below(work.active as u64) as usize;
        if store.replace(place, prng.next_u64())? {
            written.fetch_add(work.segment_bytes as u64, Ordering::Relaxed);
        }
        due += Duration::from_secs_f64(each);
        std::thread::sleep(due.saturating_sub(begun.elapsed()).min(work.time));
    }
    Ok(())
}

/// Reads the garbage file by file, and starts again after the last file.
fn scan(work: &Work, begun: Instant) -> Result<(), String> {
    if work.scan_bytes_per_s == 0 || work.garbage == 0 {
        return Ok(());
    }
    let mut piece = vec![0; work.segment_bytes];
    let each = Duration::from_secs_f64(work.segment_bytes as f64 / work.scan_bytes_per_s as f64);
    for n in (0..work.garbage).cycle() {
        let left = work.time.saturating_sub(begun.elapsed());
        if left.is_zero() {
            break;
        }
        let file = File::open(work.folder.join(format!("garbage-{n}")));
        file.and_then(|file| file.read_exact_at(&mut piece, 0)).map_err(|error| format!("garbage: {error}"))?;
        std::thread::sleep(each.min(left));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::cause::Delays;
    use super::*;

    #[test]
    fn all_reads_are_counted_and_writes_stay_within_their_rate() {
        let folder = std::env::temp_dir().join(format!("gannet-work-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        make_garbage(&folder, 2, 64 << 10).unwrap();
        let one = Work {
            folder: folder.clone(),
            engine: Engine::Files,
            segment_bytes: 64 << 10,
            garbage: 2,
            active: 4,
            readers: 2,
            reads_per_s: 1000,
            writers: 1,
            write_bytes_per_s: 1 << 20,
            scan_bytes_per_s: 1 << 20,
            counts_reclaim: Delays::new().is_ok(),
            notes_slow: false,
            time: Duration::from_millis(300),
            seed: 5,
        };
        if Meter::new(one.counts_reclaim).is_err() {
            eprintln!("skipped: this kernel does not tell threads' times");
            return;
        }
        let done = work(&one).expect("it works");
        // Reads that a busy machine began too late are included.
        let reads = TimeTally::from(done.times).count();
        assert!((300..900).contains(&reads), "{reads}");
        assert_eq!(done.counts.contains_key("slow_reclaim"), one.counts_reclaim, "{:?}", done.counts);
        // At 1 MiB/s less than five segments are written in 0.3 s. The first is written at once.
        assert!((0.0625..=0.4).contains(&done.counts["written_mib"]), "{:?}", done.counts);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn late_reader_stops_with_the_phase_and_its_overdue_reads_are_counted() {
        let folder = std::env::temp_dir().join(format!("gannet-work-late-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let store = SegmentStore::make(Engine::Pool, &folder, 64 << 10, 1, 0).unwrap();
        let time = Duration::from_secs(5);
        let work = Work {
            folder: folder.clone(),
            engine: Engine::Pool,
            segment_bytes: 64 << 10,
            garbage: 0,
            active: 1,
            readers: 1,
            reads_per_s: 100,
            writers: 1,
            write_bytes_per_s: 1,
            scan_bytes_per_s: 0,
            counts_reclaim: false,
            notes_slow: false,
            time,
            seed: 9,
        };
        // The reader begins after the end of the phase. So it reads nothing, and every read that was due counts as
        // late.
        let begun = Instant::now().checked_sub(2 * time).expect("the machine is up for longer than that");
        let Ok(seen) = read(&work, &store, begun, 0) else {
            eprintln!("skipped: this kernel does not tell threads' times");
            return;
        };
        assert!((350..650).contains(&seen.late), "{}", seen.late);
        assert_eq!((seen.tally.count(), seen.service.count()), (seen.late, 0));
        assert!(seen.tally.at(0.0) >= 4_900_000_000, "{}", seen.tally.at(0.0));
        let _ = std::fs::remove_dir_all(folder);
    }
}
