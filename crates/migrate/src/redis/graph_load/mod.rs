//! Loads a file of edges into a graph of a server, in parts of whole lines.
//!
//! ```text
//!   file ── gzip, zstd or plain ──> parts of whole lines ──G.LOAD, several in flight──> server
//!                                                        journal: the position after the last acknowledged part
//! ```
//!
//! All edges without a time get one time, which the journal retains. A part that is sent again has no effect
//! therefore.

mod journal;
mod text;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use protocol::resp::client::{Value, command};

use super::Redis;
use crate::MigrateError;
use crate::place::ServerAddress;
use crate::reconnect::{ConnectSettings, Context, RequestError, RetryPolicy, persist};
use journal::{LoadIdentity, LoadJournalFile};

pub use journal::GraphLoadCounts;
pub use text::{EdgePart, EdgeText};

/// The maximum number of parts without a reply.
const PARTS_MAX: usize = 4;
/// The maximum number of refusals that are reported to the user.
pub const REFUSALS_SHOWN_MAX: usize = 16;

/// The parameters of a load.
#[derive(Clone, Debug)]
pub struct GraphLoadJob {
    /// The file of edges; `None` for standard input.
    pub input: Option<PathBuf>,
    /// The graph's name.
    pub graph: String,
    /// The name of the edge type.
    pub edge_type: String,
    /// The form of the text: `CSV` or `EDGES`.
    pub format: &'static str,
    /// The maximum length of a part, in bytes.
    pub part_bytes: usize,
    /// The file of the journal; `None` for none.
    pub journal: Option<PathBuf>,
    /// True to continue after the last part that the journal has.
    pub resume: bool,
}

/// The progress of a load.
#[derive(Clone, Copy, Debug)]
pub struct GraphLoadProgress {
    /// The counts so far, earlier runs included.
    pub counts: GraphLoadCounts,
    /// Edges of this run.
    pub edges_of_run: u64,
    /// The duration of this run.
    pub spent: Duration,
    /// The bytes of the file that are read, and its length; `None` for standard input. Bytes are those on the disk.
    pub bytes: Option<(u64, u64)>,
}

impl GraphLoadProgress {
    /// Returns the progress as one line.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = self.summary();
        if let Some((read, all)) = self.bytes.filter(|(read, all)| *read > 0 && read <= all) {
            let left_s = self.spent.as_secs_f64() * (all - read) as f64 / read as f64;
            line += &format!(", {:.0} % of {all} bytes, {left_s:.0} s left", 100.0 * read as f64 / all as f64);
        }
        line
    }

    /// Returns the counts and the rate as one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let GraphLoadCounts { edges, changed, refused } = self.counts;
        let rate = self.edges_of_run as f64 / self.spent.as_secs_f64().max(1e-3);
        format!("{edges} edges, {changed} changed, {refused} refused, {rate:.0} edges/s")
    }
}

/// Receiver of a load's progress.
pub trait GraphLoadView {
    /// Reports the progress, after each part.
    fn progress(&mut self, progress: &GraphLoadProgress);
    /// Receives a note for the user.
    fn note(&mut self, text: &str);
}

/// The counts and the refusals of a part.
pub type PartReply = (GraphLoadCounts, Vec<String>);

/// The receiver of the parts of a load.
pub trait GraphLoadTarget {
    /// Loads the first of `parts`, and may begin with the others. `time_ms` is the time of edges whose lines have none.
    ///
    /// # Errors
    /// If the part is refused, or its receiver is lost.
    fn load_first(
        &mut self,
        job: &GraphLoadJob,
        parts: &VecDeque<EdgePart>,
        time_ms: u64,
        user: &LoadUser<'_>,
    ) -> Result<PartReply, MigrateError>;

    /// Returns a text that differs if the receiver was restarted; empty if that cannot be known.
    fn run(&self) -> &str;
}

/// The user of a load.
#[derive(Clone, Copy)]
pub struct LoadUser<'a> {
    /// Returns whether the user has stopped the load.
    pub is_stopped: &'a dyn Fn() -> bool,
    /// Called with notes.
    pub tell: &'a dyn Fn(&str),
}

/// Reads the reply to a part.
fn reply_of(reply: &Value<'_>) -> Result<PartReply, RequestError> {
    if let Value::Error(error) = reply {
        return Err(refusal(error));
    }
    let mut parts = reply.items();
    let mut count = || if let Some(Value::Int(count)) = parts.next() { Some(count.max(0) as u64) } else { None };
    let counts = match (count(), count(), count()) {
        (Some(edges), Some(changed), Some(refused)) => GraphLoadCounts { edges, changed, refused },
        _ => return Err(super::odd("G.LOAD")),
    };
    let texts = parts.next().into_iter().flat_map(|texts| texts.items().collect::<Vec<_>>());
    let texts = texts.filter_map(|text| Some(String::from_utf8_lossy(text.text()?).into_owned()));
    Ok((counts, texts.collect()))
}

/// Converts an error reply, with the remedies of this command.
fn refusal(error: &[u8]) -> RequestError {
    let words = String::from_utf8_lossy(error).into_owned();
    let has = |text: &str| words.contains(text);
    match () {
        () if ["LOADING", "BUSY ", "MASTERDOWN"].iter().any(|code| words.starts_with(code)) => {
            RequestError::Lost(format!("the server is not ready: {words}"))
        }
        // Memory of other clients may become free.
        () if has("client memory") => RequestError::Lost(format!("{words}; pass a smaller --part-size")),
        () if has("bytes at once") || has("longer than an item may be") => {
            RequestError::Refused(format!("{words}, or pass a smaller --part-size"))
        }
        () if has("unknown command") => RequestError::Refused(format!("{words}; pass a server with graphs")),
        () => RequestError::Refused(words),
    }
}

/// A server that receives the parts of a load.
pub struct GraphLoadServer {
    redis: Redis,
    /// Rules for reconnecting after a lost connection.
    retries: RetryPolicy,
    /// The number of parts that were sent over the present connection.
    sent: usize,
}

impl GraphLoadServer {
    /// Returns a server that is not connected yet.
    #[must_use]
    pub fn new(server: &ServerAddress, connect: &ConnectSettings, retries: RetryPolicy) -> Self {
        Self { redis: Redis::new(server, connect), retries, sent: 0 }
    }
}

impl GraphLoadTarget for GraphLoadServer {
    /// Sends the parts that are not sent yet, and waits for the reply to the first one.
    fn load_first(
        &mut self,
        job: &GraphLoadJob,
        parts: &VecDeque<EdgePart>,
        time_ms: u64,
        user: &LoadUser<'_>,
    ) -> Result<PartReply, MigrateError> {
        let time_ms = time_ms.to_string();
        let context = Context { retries: self.retries, is_stopped: user.is_stopped, tell: user.tell };
        let sent = &mut self.sent;
        persist(&mut self.redis, &context, |redis| {
            for part in parts.iter().skip(*sent).filter(|part| !part.text.is_empty()) {
                let line = (part.lines_before + 1).to_string();
                let (graph, ty, format) = (job.graph.as_bytes(), job.edge_type.as_bytes(), job.format.as_bytes());
                let (time_ms, line) = (time_ms.as_bytes(), line.as_bytes());
                command(redis.link.out(), [b"G.LOAD", graph, ty, format, b"TS", time_ms, b"LINE", line, &part.text]);
            }
            let replied = redis.answer(|reply| reply_of(&reply));
            // A lost connection loses the replies to all parts.
            let unanswered = parts.iter().skip(1).filter(|part| !part.text.is_empty()).count();
            *sent = if replied.is_ok() { unanswered } else { 0 };
            replied
        })
    }

    fn run(&self) -> &str {
        self.redis.run.id()
    }
}

/// The parts that are not loaded yet.
#[derive(Default)]
struct PartQueue {
    parts: VecDeque<EdgePart>,
    /// The error of the text behind the parts.
    failed: Option<MigrateError>,
}

impl PartQueue {
    /// Reads parts until the queue is full or the text ends. A line that is too long is a part without others, so that
    /// the receiver does not see it.
    fn fill(&mut self, text: &mut EdgeText, bytes_max: usize) {
        let is_open = |parts: &VecDeque<EdgePart>| parts.back().is_none_or(|part| !part.text.is_empty());
        while self.parts.len() < PARTS_MAX && self.failed.is_none() && is_open(&self.parts) {
            match text.next_part(bytes_max) {
                Ok(Some(part)) => self.parts.push_back(part),
                Ok(None) => return,
                Err(error) => self.failed = Some(error),
            }
        }
    }
}

/// Adds the lines to an error that a server or a connection caused.
fn amid(part: &EdgePart, error: MigrateError) -> MigrateError {
    let add = |what: String| format!("{} of the text: {what}", part.name());
    match error {
        MigrateError::Refused(what) => MigrateError::Refused(add(what)),
        MigrateError::Lost(what) => MigrateError::Lost(add(what)),
        other => other,
    }
}

/// Refuses a line that is longer than a part.
fn too_long(part: &EdgePart, bytes_max: usize) -> PartReply {
    let text = format!("{}: it is longer than a part of {bytes_max} bytes", part.name());
    (GraphLoadCounts { refused: 1, ..GraphLoadCounts::default() }, vec![text])
}

/// Loads a file of edges into a graph. `now_ms` is the time of edges whose lines have none.
///
/// # Errors
/// If the file or the target refuses, or the connection is lost and cannot be reopened. The journal has the position
/// then, from which the load can be resumed.
pub fn load_graph(
    job: &GraphLoadJob,
    target: &mut dyn GraphLoadTarget,
    now_ms: u64,
    view: &mut dyn GraphLoadView,
    is_stopped: &dyn Fn() -> bool,
) -> Result<GraphLoadProgress, MigrateError> {
    let mut text = EdgeText::open(job.input.as_deref())?;
    let load = LoadIdentity::new(&job.graph, &job.edge_type, job.format);
    let mut file = LoadJournalFile::open(job.journal.clone(), load, job.resume, now_ms)?;
    text.skip(file.journal.position, file.journal.lines, file.journal.digest)?;
    let (view, begun, before) = (RefCell::new(view), Instant::now(), file.journal.counts.edges);
    let note = |text: &str| view.borrow_mut().note(text);
    let user = LoadUser { is_stopped, tell: &note };
    let (mut queue, mut shown) = (PartQueue::default(), 0);
    let bytes = text.file_bytes().map(|bytes| (0, bytes));
    let mut progress = GraphLoadProgress { counts: file.journal.counts, edges_of_run: 0, spent: Duration::ZERO, bytes };
    loop {
        queue.fill(&mut text, job.part_bytes);
        let replied = match queue.parts.front() {
            None => break,
            Some(part) if part.text.is_empty() => Ok(too_long(part, job.part_bytes)),
            Some(_) => target.load_first(job, &queue.parts, file.journal.time_ms, &user),
        };
        let Some(part) = queue.parts.pop_front() else { break };
        let (counts, refusals) = match replied {
            Ok(replied) => replied,
            Err(error) => {
                queue.failed = Some(amid(&part, error));
                break;
            }
        };
        if !target.run().is_empty() && file.journal.server_run != target.run() {
            if !file.journal.server_run.is_empty() {
                note(
                    "the server was restarted since the first part; if it lost its graphs, delete the journal and \
                      load again",
                );
            }
            target.run().clone_into(&mut file.journal.server_run);
        }
        for refusal in refusals.into_iter().take(REFUSALS_SHOWN_MAX - shown) {
            note(&refusal);
            shown += 1;
        }
        file.acknowledge(&part, counts)?;
        progress.counts = file.journal.counts;
        progress.edges_of_run = file.journal.counts.edges - before;
        progress.spent = begun.elapsed();
        progress.bytes = progress.bytes.map(|(_, all)| (part.read_bytes, all));
        view.borrow_mut().progress(&progress);
    }
    if let Some(error) = queue.failed {
        // A load of which no part is acknowledged begins again.
        if file.journal.position == 0 {
            file.remove()
        } else {
            file.write()?
        }
        return Err(error);
    }
    file.remove();
    Ok(progress)
}
