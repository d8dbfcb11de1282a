//! Runs an import: attaches, loads, follows, attaches again, and compares.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use link::wait_any;

use super::compare::compare;
use super::held;
use super::job::{ImportJob, ImportOutcome, ImportPart, ImportProgress, ImportView};
use super::pipe::{TargetPipe, count_evictions, delete_missing};
use super::primary::{Attached, Primary, StreamPlace, WAIT_MAX};
use super::snapshot::{LoadError, SnapshotLoad};
use super::tail::{StreamError, StreamTail, TailStep, flushed};
use crate::MigrateError;
use crate::pace::CopyPace;
use crate::reconnect::{ConnectSettings, Context, RequestError, RetryPolicy, persist, sleep};
use crate::redis::{Redis, stream_offset};

/// Interval at which the source is asked how long its stream is.
const MEASURE_EVERY: Duration = Duration::from_millis(250);
/// Interval of acknowledgements to the source.
const ACKNOWLEDGE_EVERY: Duration = Duration::from_secs(1);
/// Time without a command after which the source is quiet.
const QUIET: Duration = Duration::from_secs(1);
/// Period over which the rate is computed.
const RATE_EVERY: Duration = Duration::from_millis(500);
/// Time limit for a reply on the second connection to the source. Nothing is applied during the wait.
const SIDE_TIMEOUT: Duration = Duration::from_secs(2);
/// Highest number of databases of a target that are looked for.
const DATABASES_MAX: u32 = 1024;

/// The reason why the stream was not followed further.
enum Ended {
    /// The target has everything, and the source is quiet.
    CutOver,
    /// The source was lost.
    SourceLost(String),
    /// The target was lost.
    TargetLost(String),
    /// The import cannot continue.
    Failed(MigrateError),
}

/// Runs the import `job`. It ends when the target has everything, if the job asks for that; when `is_stopped` returns
/// true; or at an unrecoverable error.
///
/// # Errors
/// [`MigrateError`] if the import cannot start; nothing was stored.
pub fn import(
    job: &ImportJob,
    view: &mut dyn ImportView,
    is_stopped: &dyn Fn() -> bool,
) -> Result<ImportOutcome, MigrateError> {
    let view = RefCell::new(view);
    let begun = Instant::now();
    let mut session = Session::new(job, &view, is_stopped);
    session.prepare()?;
    let mut outcome = ImportOutcome { from: job.from.to_string(), to: job.to.to_string(), ..ImportOutcome::default() };
    let result = session.attach_first().and_then(|attached| session.run(attached));
    if session.full_syncs == 0 {
        result.as_ref().map(drop).map_err(MigrateError::clone)?;
    }
    let result = session.finish(result);
    let tail_offset = session.tail.as_ref().map(|tail| tail.applied(&session.pipe));
    outcome.lag_bytes = session.length.zip(tail_offset).map(|(length, applied)| length.saturating_sub(applied));
    let is_loaded = session.tail.is_some();
    let result = result.and_then(|()| {
        if job.verify != ImportPart::None && job.cut_over {
            outcome.verified = Some(session.compare()?);
        }
        Ok(())
    });
    outcome.ended_early = match result {
        Err(MigrateError::Stopped) if is_loaded && !job.cut_over => None,
        Err(MigrateError::Stopped) => Some("the import was stopped before it was complete".to_owned()),
        Err(error) => Some(error.to_string()),
        Ok(()) => None,
    };
    outcome.counts = std::mem::take(&mut session.pipe.ledger.counts);
    (outcome.full_syncs, outcome.partial_syncs) = (session.full_syncs, session.partial_syncs);
    outcome.seconds = begun.elapsed().as_secs_f64();
    session.notes.extend(session.pipe.missing.note());
    outcome.notes = session.notes;
    Ok(outcome)
}

/// The recent rate of bytes of the source.
struct ByteRate {
    since: Instant,
    bytes: u64,
    per_s: f64,
}

impl ByteRate {
    fn new(bytes: u64) -> Self {
        Self { since: Instant::now(), bytes, per_s: 0.0 }
    }

    fn follow(&mut self, bytes: u64) -> f64 {
        let spent = self.since.elapsed();
        if spent >= RATE_EVERY {
            self.per_s = bytes.saturating_sub(self.bytes) as f64 / spent.as_secs_f64();
            (self.since, self.bytes) = (Instant::now(), bytes);
        }
        self.per_s
    }
}

type SharedView<'v, 'w> = RefCell<&'v mut (dyn ImportView + 'w)>;

/// An import in progress.
struct Session<'a, 'v, 'w> {
    job: &'a ImportJob,
    view: &'a SharedView<'v, 'w>,
    is_stopped: &'a dyn Fn() -> bool,
    primary: Primary,
    /// A second connection to the source, for questions.
    side: Redis,
    pipe: TargetPipe,
    /// The stream of commands, if a snapshot was loaded.
    tail: Option<StreamTail>,
    /// Length of the source's stream at the last measurement, if the source reports it.
    length: Option<u64>,
    full_syncs: u64,
    partial_syncs: u64,
    notes: Vec<String>,
}

impl<'a, 'v, 'w> Session<'a, 'v, 'w> {
    fn new(job: &'a ImportJob, view: &'a SharedView<'v, 'w>, is_stopped: &'a dyn Fn() -> bool) -> Self {
        let side = ConnectSettings { timeout: job.connect.timeout.min(SIDE_TIMEOUT), ..job.connect.clone() };
        Self {
            job,
            view,
            is_stopped,
            primary: Primary::new(&job.from, &job.connect),
            side: Redis::new(&job.from, &side),
            pipe: TargetPipe::new(&job.to, &job.connect),
            tail: None,
            length: None,
            full_syncs: 0,
            partial_syncs: 0,
            notes: Vec::new(),
        }
    }

    fn note(&self, text: &str) {
        self.view.borrow_mut().note(text);
    }

    /// Connects to the target, finds its databases, and makes sure that they are empty.
    fn prepare(&mut self) -> Result<(), MigrateError> {
        let named = |pipe: &TargetPipe, error| of_server(pipe.name(), error);
        self.pipe.connect().map_err(|error| named(&self.pipe, error))?;
        let databases = match self.job.db {
            Some((_, to)) => to..to + 1,
            None => 0..DATABASES_MAX,
        };
        for db in databases {
            let refusal = self.pipe.select(db, self.is_stopped).map_err(|error| named(&self.pipe, error))?;
            if let Some(refusal) = refusal {
                if self.job.db.is_none() && db > 0 {
                    break;
                }
                let name = self.pipe.name();
                return Err(MigrateError::Refused(format!("{name}: cannot select database {db}: {refusal}")));
            }
            let keys = self.pipe.count_keys().map_err(|error| named(&self.pipe, error))?;
            if keys > 0 && !self.job.flush {
                let name = self.pipe.name();
                return Err(MigrateError::Refused(format!(
                    "{name}: database {db} has {keys} keys, and an import replaces all data; pass --flush to delete \
                     them, or use gannet migrate, which adds keys"
                )));
            }
        }
        Ok(())
    }

    /// Attaches for the first time. If this fails, the user's address is wrong; another attempt would not help.
    fn attach_first(&mut self) -> Result<Attached, MigrateError> {
        let attached =
            self.primary.attach(None, self.is_stopped).map_err(|error| of_server(&self.primary.name, error))?;
        let tell = |text: &str| self.view.borrow_mut().note(text);
        let context = Context { retries: no_retries(self.job), is_stopped: self.is_stopped, tell: &tell };
        if persist(&mut self.side, &context, |_| Ok(())).is_ok() && self.side.skew_ms != 0 {
            let off_s = self.side.skew_ms as f64 / 1e3;
            self.notes.push(format!(
                "the clock of {} is {off_s:.1} s ahead of this host's; keys expire by the target's clock",
                self.primary.name
            ));
        }
        Ok(attached)
    }

    /// Loads and follows until the end, with as many attempts to attach again as the job allows.
    fn run(&mut self, attached: Attached) -> Result<(), MigrateError> {
        let mut attached = Some(attached);
        let mut attempt = 0;
        loop {
            let before = self.tail.as_ref().map(StreamTail::offset);
            let why = match self.attach_and_follow(attached.take()) {
                Ended::CutOver => return Ok(()),
                Ended::Failed(error) => return Err(error),
                Ended::SourceLost(why) => {
                    self.discard()?;
                    format!("{}: {why}", self.primary.name)
                }
                Ended::TargetLost(why) => {
                    self.forget_stream();
                    format!("{}: {why}", self.pipe.name())
                }
            };
            if let Some(tail) = &mut self.tail {
                tail.rewind();
                if before.is_none_or(|offset| tail.offset() > offset) {
                    attempt = 0;
                }
            }
            if attempt == self.job.retries.attempts {
                return Err(MigrateError::Lost(format!("{why}; {attempt} attempts to attach again failed")));
            }
            let pause = self.job.retries.pause(attempt);
            attempt += 1;
            let of = self.job.retries.attempts;
            self.note(&format!("{why}; attempt {attempt} of {of} in {} ms", pause.as_millis()));
            if !sleep(pause, self.is_stopped) {
                return Err(MigrateError::Stopped);
            }
        }
    }

    /// Discards the transaction that the loss of the source has cut off, and waits for all replies.
    fn discard(&mut self) -> Result<(), MigrateError> {
        let is_open = self.tail.as_ref().is_some_and(StreamTail::is_open);
        if is_open {
            self.pipe.discard();
        }
        match self.pipe.drain(&|| false) {
            Ok(()) => Ok(()),
            Err(RequestError::Lost(_)) => {
                self.forget_stream();
                Ok(())
            }
            Err(error) => Err(of_server(self.pipe.name(), error)),
        }
    }

    /// Closes the connection to the target. If requests were not answered, it is unknown which of them were executed,
    /// so everything is loaded again.
    fn forget_stream(&mut self) {
        if self.pipe.close() || self.tail.as_ref().is_some_and(StreamTail::is_open) {
            self.tail = None;
        }
    }

    /// Attaches, unless that was done, loads the snapshot if one follows, and follows the stream.
    fn attach_and_follow(&mut self, attached: Option<Attached>) -> Ended {
        if !self.pipe.is_connected() {
            match self.pipe.connect() {
                Ok(true) => {}
                // A server that was restarted may not have the latest changes.
                Ok(false) => self.tail = None,
                Err(error) => return target_ended(self.pipe.name(), error),
            }
        }
        let attached = match attached.map_or_else(|| self.attach_again(), Ok) {
            Ok(attached) => attached,
            Err(error) => return source_ended(&self.primary.name, error),
        };
        match (attached, &mut self.tail) {
            (Attached::Continued(replid), Some(tail)) => {
                tail.rename(replid);
                self.length = None;
                self.pipe.held.begin();
                self.partial_syncs += 1;
            }
            (Attached::Continued(_), None) => {
                let what = "the source continues a stream that was not begun";
                return Ended::Failed(MigrateError::Refused(format!("{}: {what}", self.primary.name)));
            }
            (Attached::Full(place), _) => {
                if let Err(ended) = self.load(place) {
                    return ended;
                }
            }
        }
        self.follow()
    }

    fn attach_again(&mut self) -> Result<Attached, RequestError> {
        let place = self.tail.as_ref().map(StreamTail::place);
        self.primary.attach(place.as_ref(), self.is_stopped)
    }

    /// Empties the target's databases, and loads the snapshot.
    fn load(&mut self, place: StreamPlace) -> Result<(), Ended> {
        if self.full_syncs > 0 {
            self.note("the stream cannot be continued: the imported databases are emptied and loaded again");
        }
        self.tail = None;
        if self.full_syncs > 0 || self.job.flush {
            self.flush().map_err(|error| target_ended(self.pipe.name(), error))?;
        }
        self.full_syncs += 1;
        self.pipe.ledger.begin(place.offset);
        self.pipe.held.clear();
        self.pipe.missing.clear();
        if self.pipe.has("PEXPIRETIME") && self.pipe.has("SCAN") {
            self.pipe.held.begin();
        }
        let pace = CopyPace::new(None, self.job.bytes_per_s);
        let mut input = match self.primary.snapshot(pace, self.is_stopped) {
            Ok(input) => input,
            Err(error) => return Err(source_ended(&self.job.from.to_string(), error)),
        };
        let (snapshot_bytes, mut rate) = (input.bytes(), ByteRate::new(0));
        let view = self.view;
        let mut after_key = |pipe: &TargetPipe| {
            let counts = &pipe.ledger.counts;
            let bytes_per_s = rate.follow(counts.bytes);
            view.borrow_mut().progress(&ImportProgress {
                what: "loading",
                counts,
                snapshot_bytes,
                bytes_per_s,
                lag_bytes: None,
            });
        };
        let mut load = SnapshotLoad {
            job: self.job,
            pipe: &mut self.pipe,
            is_stopped: self.is_stopped,
            after_key: &mut after_key,
        };
        match load.run(&mut input) {
            Ok(()) => {}
            Err(LoadError::Damaged(error)) => {
                return Err(Ended::Failed(MigrateError::Damaged(format!("{}: {error}", self.primary.name))));
            }
            Err(LoadError::Source(error)) => return Err(source_ended(&self.primary.name, error)),
            Err(LoadError::Target(error)) => return Err(target_ended(self.pipe.name(), error)),
        }
        self.tail = Some(StreamTail::new(place));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RequestError> {
        for db in flushed(self.job, &self.pipe) {
            if self.pipe.select(db, self.is_stopped)?.is_none() {
                self.pipe.drain(self.is_stopped)?;
                self.pipe.flush_database()?;
            }
        }
        Ok(())
    }

    /// Applies the stream until something ends it.
    fn follow(&mut self) -> Ended {
        let Some(mut tail) = self.tail.take() else {
            return Ended::Failed(MigrateError::Refused("there is no stream to follow".to_owned()));
        };
        let ended = Following::new(self, &mut tail).run();
        if matches!(ended, Ended::Failed(MigrateError::Stopped)) {
            // What was sent is executed; a transaction that is not complete is not.
            if tail.is_open() {
                self.pipe.discard();
            }
            tail.rewind();
            let _ = self.pipe.drain(&|| false);
        }
        self.tail = Some(tail);
        ended
    }

    /// Returns the target's databases that belong to the import.
    fn databases(&self) -> Vec<u32> {
        flushed(self.job, &self.pipe)
    }

    /// Gives keys their own expiries, and counts evicted keys, however the import has ended.
    fn finish(&mut self, result: Result<(), MigrateError>) -> Result<(), MigrateError> {
        if self.tail.is_none() || !self.pipe.is_connected() {
            return result;
        }
        let databases = self.databases();
        let deleted = self.pipe.drain(&|| false).and_then(|()| delete_missing(&mut self.pipe, &|| false));
        let finished = deleted.and_then(|()| held::finish(&mut self.pipe, &databases, &|| false));
        let finished =
            finished.and_then(|()| self.pipe.drain(&|| false)).and_then(|()| count_evictions(&mut self.pipe));
        result.and(finished.map_err(|error| of_server(self.pipe.name(), error)))
    }

    fn compare(&mut self) -> Result<crate::Verified, MigrateError> {
        let databases = match self.job.db {
            Some(pair) => vec![pair],
            None => self.pipe.existing().into_iter().map(|db| (db, db)).collect(),
        };
        let tell = |text: &str| self.view.borrow_mut().note(text);
        let context = Context { retries: self.job.retries, is_stopped: self.is_stopped, tell: &tell };
        let progress = ImportProgress {
            what: "comparing",
            counts: &self.pipe.ledger.counts,
            snapshot_bytes: None,
            bytes_per_s: 0.0,
            lag_bytes: Some(0),
        };
        compare(self.job, &databases, &context, &|| self.view.borrow_mut().progress(&progress))
    }
}

fn no_retries(job: &ImportJob) -> RetryPolicy {
    RetryPolicy { attempts: 0, ..job.retries }
}

fn of_server(name: &str, error: RequestError) -> MigrateError {
    match error {
        RequestError::Lost(what) => {
            MigrateError::Lost(format!("{name}: {what}; check the address, and that the server is running"))
        }
        RequestError::Refused(what) => MigrateError::Refused(format!("{name}: {what}")),
        RequestError::Stopped => MigrateError::Stopped,
    }
}

fn source_ended(name: &str, error: RequestError) -> Ended {
    match error {
        RequestError::Lost(why) => Ended::SourceLost(why),
        error => Ended::Failed(of_server(name, error)),
    }
}

fn target_ended(name: &str, error: RequestError) -> Ended {
    match error {
        RequestError::Lost(why) => Ended::TargetLost(why),
        error => Ended::Failed(of_server(name, error)),
    }
}

/// The stream while it is followed.
struct Following<'s, 'a, 'v, 'w> {
    session: &'s mut Session<'a, 'v, 'w>,
    tail: &'s mut StreamTail,
    rate: ByteRate,
    measured: Instant,
    acknowledged: Instant,
    heard: Instant,
    /// The number of commands that were sent, and when it last changed.
    sent: (u64, Instant),
}

impl<'s, 'a, 'v, 'w> Following<'s, 'a, 'v, 'w> {
    fn new(session: &'s mut Session<'a, 'v, 'w>, tail: &'s mut StreamTail) -> Self {
        let now = Instant::now();
        let (rate, sent) = (ByteRate::new(tail.offset()), (tail.sent, now));
        session.primary.acknowledge(tail.offset());
        Self { session, tail, rate, measured: now, acknowledged: now, heard: now, sent }
    }

    fn run(mut self) -> Ended {
        loop {
            if (self.session.is_stopped)() {
                return Ended::Failed(MigrateError::Stopped);
            }
            match self.turn() {
                Ok(None) => {}
                Ok(Some(ended)) | Err(ended) => return ended,
            }
        }
    }

    /// Receives, applies and replies what is possible now, and waits if that is nothing.
    fn turn(&mut self) -> Result<Option<Ended>, Ended> {
        let mut has_moved = self.apply()?;
        let source = |session: &Session<'_, '_, '_>, error: RequestError| source_ended(&session.primary.name, error);
        let flushed = self.session.primary.link.flush();
        flushed.map_err(|error| source(self.session, error.into()))?;
        let has_room = self.session.pipe.has_room();
        if has_room {
            let arrived = self.session.primary.link.receive();
            if arrived.map_err(|error| source(self.session, error.into()))? {
                self.heard = Instant::now();
                has_moved = true;
            }
        }
        if !self.tail.is_open() {
            let Session { pipe, is_stopped, .. } = &mut *self.session;
            delete_missing(pipe, *is_stopped).map_err(|error| target_ended(pipe.name(), error))?;
        }
        if self.session.pipe.held.is_due() && !self.tail.is_open() {
            self.settle()?;
        }
        let exchanged = self.session.pipe.exchange();
        has_moved |= exchanged.map_err(|error| target_ended(self.session.pipe.name(), error))?;
        if self.measured.elapsed() >= MEASURE_EVERY
            && let Some(ended) = self.measure()?
        {
            return Ok(Some(ended));
        }
        if !has_moved {
            let (primary, pipe) = (&self.session.primary.link, self.session.pipe.link());
            let both = [pipe, primary];
            let waited = wait_any(if has_room { &both } else { &both[..1] }, WAIT_MAX);
            waited.map_err(|error| source(self.session, error.into()))?;
        }
        Ok(None)
    }

    /// Applies the commands that have arrived, as long as the target has room for them.
    fn apply(&mut self) -> Result<bool, Ended> {
        let mut has_moved = false;
        let Session { job, primary, pipe, is_stopped, .. } = &mut *self.session;
        while pipe.has_room() {
            let (step, bytes) = match self.tail.step(primary.link.input(), job, pipe, *is_stopped) {
                Ok(step) => step,
                Err(StreamError::Target(error)) => return Err(target_ended(pipe.name(), error)),
                Err(StreamError::Garbled(what)) => {
                    let what = format!("{}: the stream of commands is damaged: {what}", primary.name);
                    return Err(Ended::Failed(MigrateError::Damaged(what)));
                }
            };
            match step {
                TailStep::Incomplete => break,
                TailStep::Taken => {}
                TailStep::Acknowledge => primary.acknowledge(self.tail.applied(pipe)),
            }
            primary.link.take(bytes);
            has_moved = true;
        }
        Ok(has_moved)
    }

    /// Gives some of the held keys their own expiries.
    fn settle(&mut self) -> Result<(), Ended> {
        let session = &mut *self.session;
        let databases = session.databases();
        let stepped = held::step(&mut session.pipe, &databases, false, session.is_stopped);
        stepped.map_err(|error| target_ended(session.pipe.name(), error))
    }

    /// Acknowledges, measures the lag and shows it. Returns the end if the import is complete.
    fn measure(&mut self) -> Result<Option<Ended>, Ended> {
        self.measured = Instant::now();
        let session = &mut *self.session;
        let timeout = session.job.connect.timeout;
        if session.pipe.silence() > timeout {
            return Err(Ended::TargetLost("the target does not reply".to_owned()));
        }
        // While the target has no room, nothing is received.
        if session.pipe.has_room() && self.heard.elapsed() > timeout {
            return Err(Ended::SourceLost("the source sends nothing".to_owned()));
        }
        if self.acknowledged.elapsed() >= ACKNOWLEDGE_EVERY {
            self.acknowledged = self.measured;
            session.primary.acknowledge(self.tail.applied(&session.pipe));
        }
        if self.sent.0 != self.tail.sent {
            self.sent = (self.tail.sent, self.measured);
        }
        let tell = |_: &str| {};
        let context = Context { retries: no_retries(session.job), is_stopped: session.is_stopped, tell: &tell };
        let length_before = session.length;
        let measured = persist(&mut session.side, &context, stream_offset);
        // A source that does not reply may have commands that were not received.
        let is_known = !matches!(measured, Err(MigrateError::Lost(_)));
        session.length = measured.unwrap_or(None);
        let applied = self.tail.applied(&session.pipe);
        let lag_bytes = session.length.map(|length| length.saturating_sub(applied));
        let bytes_per_s = self.rate.follow(self.tail.offset());
        session.view.borrow_mut().progress(&ImportProgress {
            what: "following",
            counts: &session.pipe.ledger.counts,
            snapshot_bytes: None,
            bytes_per_s,
            lag_bytes,
        });
        // Without a reported length, a quiet source whose commands are all executed has no lag that can be seen.
        let is_quiet = self.sent.1.elapsed() >= QUIET;
        let has_caught_up = length_before.map_or(is_quiet && is_known, |length| applied >= length);
        if session.pipe.held.is_holding() && has_caught_up && length_before.is_some() == session.length.is_some() {
            session.pipe.held.caught_up();
        }
        let has_all = is_known && lag_bytes.unwrap_or(0) == 0 && session.pipe.is_idle();
        if !self.tail.is_open() {
            session.pipe.watch_evictions();
        }
        let is_complete = session.job.cut_over && has_all && is_quiet;
        Ok(is_complete.then_some(Ended::CutOver))
    }
}
