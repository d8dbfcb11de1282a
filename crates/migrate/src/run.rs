//! Runs a copy: batch by batch, then the comparison.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::choice::Sample;
use super::counts::KeyCounts;
use super::item::Item;
use super::journal::JournalFile;
use super::outcome::{CopyOutcome, CopyProgress};
use super::pace::CopyPace;
use super::reconnect::{Context, sleep};
use super::source::{BatchRequest, ItemSource};
use super::target::{CopyTarget, StoreOutcome};
use super::verify::{Measure, Verified};
use super::{BATCH_BYTES_MAX, BATCH_KEYS_MAX, CopyJob, MigrateError, Verify, View};

/// Number of keys that are compared by default.
const COMPARED_KEYS: u64 = 10_000;
/// Interval at which the journal is written.
const JOURNAL_EVERY: Duration = Duration::from_millis(500);
/// Period over which rates are computed.
const RATE_EVERY: Duration = Duration::from_millis(500);

/// Runs the copy `job`. It ends when it is complete, when `is_stopped` returns true, or at an unrecoverable error. The
/// copied keys up to that point are counted and in the journal.
///
/// # Errors
/// [`MigrateError`] if the copy cannot start; nothing was copied.
pub fn run(job: &CopyJob, view: &mut dyn View, is_stopped: &dyn Fn() -> bool) -> Result<CopyOutcome, MigrateError> {
    let notes = RefCell::new(Vec::new());
    let view = RefCell::new(view);
    let tell = |text: &str| view.borrow_mut().note(text);
    let keep = |text: String| notes.borrow_mut().push(text);
    // If a server is unreachable at the start, the user's address is wrong; reconnecting would not help.
    let context = Context { retries: super::RetryPolicy { attempts: 0, ..job.retries }, is_stopped, tell: &tell };
    let mut kept = JournalFile::open(job)?;
    let mut target = CopyTarget::new(&job.to, &job.connect);
    target.reach(kept.journal.target_run.as_deref(), &context)?;
    let first = context;
    let context = Context { retries: job.retries, ..first };
    let mut source = ItemSource::open(job, kept.journal.position.as_ref(), &first, &context)?;
    if target.skew_ms() != 0 {
        let off_s = target.skew_ms() as f64 / 1e3;
        keep(format!("the clock of {} is {off_s:.1} s ahead of this host's; expiries are corrected for it", job.to));
    }
    let mut copy = Copy {
        job,
        context: &context,
        pace: CopyPace::new(job.keys_per_s, job.bytes_per_s),
        clock: Instant::now(),
        rates: Rates::new(kept.journal.counts.done()),
        restarts: 0,
        keep: &keep,
    };
    let result = if kept.journal.is_complete {
        keep(
            "the journal shows that this copy is complete: nothing was copied; delete the journal to copy again"
                .to_owned(),
        );
        Ok(())
    } else {
        copy.all(&mut source, &mut target, &mut kept, &view)
    };
    let mut verified = None;
    let result = result.and_then(|()| {
        let Some(sample) = sample(job.verify, &source, &kept.journal.counts) else { return Ok(()) };
        if !kept.journal.is_complete {
            keep("the keys were not compared, because --limit ended the copy early".to_owned());
            return Ok(());
        }
        copy.compare(&mut source, &mut target, sample, &view, verified.insert(Verified::default()))
    });
    let ended_early = match (result, &job.journal) {
        (Ok(()), _) => None,
        (Err(fault), Some(path)) => Some(format!("{fault}; continue with --resume {}", path.display())),
        (Err(fault), None) => Some(format!("{fault}; copied keys stay at the target, and a new copy skips them")),
    };
    Ok(CopyOutcome {
        from: job.from.to_string(),
        to: job.to.to_string(),
        counts: kept.journal.counts,
        verified,
        seconds: kept.journal.spent_s,
        resumed: kept.journal.resumed,
        ended_early,
        notes: notes.into_inner(),
    })
}

/// Returns the sample of keys to compare; `None` for no comparison.
fn sample(verify: Verify, source: &ItemSource, counts: &KeyCounts) -> Option<Sample> {
    match verify {
        Verify::None => None,
        Verify::PerMillion(per_million) => Some(Sample { per_million }),
        Verify::Some => {
            let keys = source.keys().unwrap_or(counts.seen).max(counts.seen).max(1);
            let per_million = (u128::from(COMPARED_KEYS) * 1_000_000 / u128::from(keys)).clamp(1, 1_000_000);
            Some(Sample { per_million: per_million as u32 })
        }
    }
}

/// The recent rates of the copy, in keys and bytes per second.
struct Rates {
    since: Instant,
    keys: u64,
    bytes: u64,
    keys_per_s: f64,
    bytes_per_s: f64,
}

impl Rates {
    fn new(keys: u64) -> Self {
        Self { since: Instant::now(), keys, bytes: 0, keys_per_s: 0.0, bytes_per_s: 0.0 }
    }

    fn follow(&mut self, keys: u64, bytes: u64) {
        let spent = self.since.elapsed();
        if spent >= RATE_EVERY {
            self.keys_per_s = keys.saturating_sub(self.keys) as f64 / spent.as_secs_f64();
            self.bytes_per_s = bytes.saturating_sub(self.bytes) as f64 / spent.as_secs_f64();
            (self.since, self.keys, self.bytes) = (Instant::now(), keys, bytes);
        }
    }
}

struct Copy<'a> {
    job: &'a CopyJob,
    context: &'a Context<'a>,
    pace: CopyPace,
    clock: Instant,
    rates: Rates,
    /// Number of times that this process has begun again, because a server was restarted.
    restarts: u32,
    /// Called with notes for the outcome.
    keep: &'a dyn Fn(String),
}

/// The outcome of copying a batch.
enum BatchEnd {
    /// Items of this many bytes were stored, or there were none.
    Stored(u64),
    /// A server was restarted, as this sentence reports.
    Restarted(String),
    /// The source has no more items.
    SourceEnd,
}

type SharedView<'v, 'w> = RefCell<&'v mut (dyn View + 'w)>;

impl Copy<'_> {
    fn now_ns(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Waits until the next batch is due.
    fn wait(&mut self, keys: u64, bytes: u64) -> Result<(), MigrateError> {
        let wait_ns = self.pace.after(self.now_ns(), keys, bytes);
        if sleep(Duration::from_nanos(wait_ns), self.context.is_stopped) { Ok(()) } else { Err(MigrateError::Stopped) }
    }

    /// Copies from the source's current position to its end.
    fn all(
        &mut self,
        source: &mut ItemSource,
        target: &mut CopyTarget,
        kept: &mut JournalFile,
        view: &SharedView<'_, '_>,
    ) -> Result<(), MigrateError> {
        if let Some(why) = restart_of(source, target) {
            self.begin_again(&why, source, target, kept)?;
        }
        let mut counts = kept.journal.counts.clone();
        let spent_s = kept.journal.spent_s;
        // Keys that were only listed do not count against the rate.
        let mut paced = counts.seen - counts.not_chosen;
        kept.journal.position = source.position();
        kept.journal.target_run = Some(target.run().to_owned());
        kept.write()?;
        let mut written = Instant::now();
        self.pace.begin(self.now_ns());
        let result = loop {
            let bytes = match self.batch(source, target, &mut counts) {
                Ok(BatchEnd::Stored(bytes)) => bytes,
                Ok(BatchEnd::SourceEnd) => break Ok(true),
                Ok(BatchEnd::Restarted(why)) => {
                    (counts, paced) = (KeyCounts::default(), 0);
                    match self.begin_again(&why, source, target, kept) {
                        Ok(()) => continue,
                        Err(fault) => break Err(fault),
                    }
                }
                Err(fault) => break Err(fault),
            };
            if let Some(position) = source.position() {
                kept.journal.position = Some(position);
                kept.journal.counts = counts.clone();
            }
            kept.journal.spent_s = spent_s + self.clock.elapsed().as_secs_f64();
            if written.elapsed() >= JOURNAL_EVERY {
                kept.write()?;
                written = Instant::now();
            }
            self.show("copying", source, &counts, view);
            if self.job.limit.is_some_and(|limit| counts.copied >= limit) {
                break Ok(false);
            }
            let keys = counts.seen - counts.not_chosen;
            if let Err(fault) = self.wait(keys - paced, bytes) {
                break Err(fault);
            }
            paced = keys;
        };
        if result == Ok(true) {
            kept.journal.counts = counts.clone();
            kept.journal.is_complete = true;
        }
        kept.write()?;
        // Unlike the written journal, the reported counts include keys copied after the last resumable position.
        kept.journal.counts = counts;
        result.map(drop)
    }

    /// Copies the next batch.
    fn batch(
        &self,
        source: &mut ItemSource,
        target: &mut CopyTarget,
        counts: &mut KeyCounts,
    ) -> Result<BatchEnd, MigrateError> {
        let (job, context) = (self.job, self.context);
        let ask = BatchRequest {
            choice: &job.choice,
            sample: Sample::ALL,
            keys_max: self.pace.keys_max(BATCH_KEYS_MAX),
            bytes_max: self.pace.bytes_max(BATCH_BYTES_MAX),
            target,
            to_compare: false,
        };
        let Some(items) = source.next(&ask, counts, context)? else {
            target.confirm(context)?;
            return Ok(restart_of(source, target).map_or(BatchEnd::SourceEnd, BatchEnd::Restarted));
        };
        if let Some(why) = source.take_restart() {
            return Ok(BatchEnd::Restarted(why));
        }
        let outcomes = target.store(&items, job.overwrite, context)?;
        if let Some(why) = target.take_restart() {
            return Ok(BatchEnd::Restarted(why));
        }
        let outcomes = outcomes.expect("each item has an outcome, because the target was not restarted");
        count(&items, outcomes, target, counts);
        Ok(BatchEnd::Stored(items.iter().map(Item::weight).sum()))
    }

    /// Returns to the first key and resets the counts: the position in a source that was restarted is not valid any
    /// more, and a target that was restarted may have lost the keys before the position.
    fn begin_again(
        &mut self,
        why: &str,
        source: &mut ItemSource,
        target: &CopyTarget,
        kept: &mut JournalFile,
    ) -> Result<(), MigrateError> {
        source.rewind()?;
        self.rates = Rates::new(0);
        kept.journal.counts = KeyCounts::default();
        kept.journal.position = source.position();
        kept.journal.target_run = Some(target.run().to_owned());
        kept.write()?;
        self.report_restart(format!("{why}: the copy begins again with all keys, and so do its counts"))
    }

    /// Reports that a part of the copy begins again.
    ///
    /// # Errors
    /// If that is too often, because the copy might never end.
    fn report_restart(&mut self, text: String) -> Result<(), MigrateError> {
        self.restarts += 1;
        if self.restarts > self.job.retries.attempts.max(1) {
            return Err(MigrateError::Lost(format!("{text}; this was the restart number {}", self.restarts)));
        }
        (self.context.tell)(&text);
        (self.keep)(text);
        Ok(())
    }

    /// Reads a sample of the source again, and the same keys at the target.
    fn compare(
        &mut self,
        source: &mut ItemSource,
        target: &mut CopyTarget,
        sample: Sample,
        view: &SharedView<'_, '_>,
        verified: &mut Verified,
    ) -> Result<(), MigrateError> {
        let (job, context) = (self.job, self.context);
        let measure = Measure {
            flags: target.has_flags(),
            expiry: target.tells_expiry(),
            field_expiry: target.has_field_times() && source.has_field_times(),
            seconds: source.counts_seconds() || target.has_flags(),
        };
        source.rewind()?;
        // The comparison reads all keys, also of a server that was restarted before.
        source.take_restart();
        self.rates = Rates::new(0);
        self.pace.begin(self.now_ns());
        let mut counts = KeyCounts::default();
        loop {
            let ask = BatchRequest {
                choice: &job.choice,
                sample,
                keys_max: self.pace.keys_max(BATCH_KEYS_MAX),
                bytes_max: self.pace.bytes_max(BATCH_BYTES_MAX),
                target,
                to_compare: true,
            };
            let Some(items) = source.next(&ask, &mut counts, context)? else { return Ok(()) };
            if let Some(why) = source.take_restart() {
                self.report_restart(format!("{why}: the comparison begins again with all keys"))?;
                source.rewind()?;
                (counts, *verified) = (KeyCounts::default(), Verified::default());
                continue;
            }
            let found = target.read(&items, context)?;
            for (item, found) in items.iter().zip(&found) {
                verified.add(item, found, measure);
            }
            counts.copied = verified.looked_for;
            let (keys, bytes) = (items.len() as u64, items.iter().map(Item::weight).sum());
            counts.bytes += bytes;
            self.show("comparing", source, &counts, view);
            if (context.is_stopped)() {
                return Err(MigrateError::Stopped);
            }
            self.wait(keys, bytes)?;
        }
    }

    fn show(&mut self, what: &'static str, source: &ItemSource, counts: &KeyCounts, view: &SharedView<'_, '_>) {
        let done = counts.done();
        self.rates.follow(done, counts.bytes);
        let share = source.share(counts.seen);
        let left_s = share.filter(|share| *share > 0.001).and_then(|share| {
            let whole = done as f64 / share;
            (self.rates.keys_per_s > 0.0).then(|| (whole - done as f64) / self.rates.keys_per_s)
        });
        view.borrow_mut().progress(&CopyProgress {
            what,
            counts,
            done,
            keys: source.keys(),
            share,
            keys_per_s: self.rates.keys_per_s,
            bytes_per_s: self.rates.bytes_per_s,
            left_s,
        });
    }
}

/// Returns a sentence about a restart of a server, once.
fn restart_of(source: &mut ItemSource, target: &mut CopyTarget) -> Option<String> {
    let (of_source, of_target) = (source.take_restart(), target.take_restart());
    of_source.or(of_target)
}

/// Counts the outcomes of `items`.
fn count(items: &[Item], outcomes: Vec<StoreOutcome>, target: &CopyTarget, counts: &mut KeyCounts) {
    for (item, outcome) in items.iter().zip(outcomes) {
        match outcome {
            StoreOutcome::Copied => {
                counts.copied += 1;
                counts.bytes += item.key.len() as u64 + item.value.bytes();
                counts.without_flags += u64::from(!target.has_flags() && item.client_flags != 0);
                if !target.has_field_times() {
                    counts.field_ttls += item.value.expiring_fields();
                }
            }
            StoreOutcome::There => counts.already_there += 1,
            StoreOutcome::Expired => counts.expired += 1,
            StoreOutcome::Unfit(why) => counts.skip(why),
            StoreOutcome::Refused(words) => counts.refuse(words),
            StoreOutcome::Unknown => counts.skip("the target does not support the required command".to_owned()),
        }
    }
}
