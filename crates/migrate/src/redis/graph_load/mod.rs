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
    /// The server.
    pub server: ServerAddress,
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
    /// Connection settings.
    pub connect: ConnectSettings,
    /// Rules for reconnecting after a lost connection.
    pub retries: RetryPolicy,
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
type PartReply = (GraphLoadCounts, Vec<String>);

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

/// The parts of a load that have no reply yet.
struct PartQueue<'a> {
    job: &'a GraphLoadJob,
    time_ms: String,
    parts: VecDeque<EdgePart>,
    /// The number of parts that were sent over the present connection.
    sent: usize,
}

impl PartQueue<'_> {
    /// Reads parts until the queue is full or the text ends. An error is returned when all parts before it are loaded.
    fn fill(&mut self, text: &mut EdgeText, failed: &mut Option<MigrateError>) {
        while self.parts.len() < PARTS_MAX && failed.is_none() {
            match text.next_part(self.job.part_bytes) {
                Ok(Some(part)) => self.parts.push_back(part),
                Ok(None) => return,
                Err(error) => *failed = Some(error),
            }
        }
    }

    /// Sends the parts that are not sent yet, and waits for the reply to the first one.
    fn exchange(&mut self, redis: &mut Redis) -> Result<PartReply, RequestError> {
        let job = self.job;
        for part in self.parts.iter().skip(self.sent) {
            let line = (part.lines_before + 1).to_string();
            let (graph, ty, format) = (job.graph.as_bytes(), job.edge_type.as_bytes(), job.format.as_bytes());
            let (time_ms, line) = (self.time_ms.as_bytes(), line.as_bytes());
            command(redis.link.out(), [b"G.LOAD", graph, ty, format, b"TS", time_ms, b"LINE", line, &part.text]);
        }
        let replied = redis.answer(|reply| reply_of(&reply));
        // A lost connection loses the replies to all parts.
        self.sent = if replied.is_ok() { self.parts.len() - 1 } else { 0 };
        replied
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

/// Loads a file of edges into a graph of a server. `now_ms` is the time of edges whose lines have none.
///
/// # Errors
/// If the file or the server refuses, or the connection is lost and cannot be reopened. The journal has the position
/// then, from which the load can be resumed.
pub fn load_graph(
    job: &GraphLoadJob,
    now_ms: u64,
    view: &mut dyn GraphLoadView,
    is_stopped: &dyn Fn() -> bool,
) -> Result<GraphLoadProgress, MigrateError> {
    let mut text = EdgeText::open(job.input.as_deref())?;
    let load = LoadIdentity::new(&job.graph, &job.edge_type, job.format, text.identity);
    let mut file = LoadJournalFile::open(job.journal.clone(), load, job.resume, now_ms)?;
    text.skip(file.journal.position, file.journal.lines)?;
    let (view, begun, before) = (RefCell::new(view), Instant::now(), file.journal.counts.edges);
    let note = |text: &str| view.borrow_mut().note(text);
    let context = Context { retries: job.retries, is_stopped, tell: &note };
    let mut redis = Redis::new(&job.server, &job.connect);
    let time_ms = file.journal.time_ms.to_string();
    let mut queue = PartQueue { job, time_ms, parts: VecDeque::new(), sent: 0 };
    let (mut failed, mut shown) = (None, 0);
    let bytes = text.file_bytes().map(|bytes| (0, bytes));
    let mut progress = GraphLoadProgress { counts: file.journal.counts, edges_of_run: 0, spent: Duration::ZERO, bytes };
    loop {
        queue.fill(&mut text, &mut failed);
        if queue.parts.is_empty() {
            break;
        }
        let replied = persist(&mut redis, &context, |redis| queue.exchange(redis));
        let Some(part) = queue.parts.pop_front() else { break };
        let (counts, refusals) = match replied {
            Ok(replied) => replied,
            Err(error) => {
                failed = Some(amid(&part, error));
                break;
            }
        };
        if file.journal.server_run != redis.run_id {
            if !file.journal.server_run.is_empty() {
                note(
                    "the server was restarted since the first part; if it lost its graphs, delete the journal and \
                      load again",
                );
            }
            file.journal.server_run.clone_from(&redis.run_id);
        }
        for refusal in refusals.into_iter().take(REFUSALS_SHOWN_MAX - shown) {
            note(&refusal);
            shown += 1;
        }
        file.acknowledge(part.text.len() as u64, part.lines, counts)?;
        progress.counts = file.journal.counts;
        progress.edges_of_run = file.journal.counts.edges - before;
        progress.spent = begun.elapsed();
        progress.bytes = progress.bytes.map(|(_, all)| (part.read_bytes, all));
        view.borrow_mut().progress(&progress);
    }
    if let Some(error) = failed {
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
