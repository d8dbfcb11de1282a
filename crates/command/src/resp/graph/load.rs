//! `G.LOAD`: edges from a text, in bulk.
//!
//! ```text
//!   text ── lines, some in each visit ──> batch ── steps under the graph's writer, some in each visit ──> counts
//!             ^──────────────────────── the text has more lines ───────────────────────┘
//! ```
//!
//! A bad line is refused, and the lines after it are read. A batch that the writer has begun is always completed: if a
//! client leaves, the thread `graph` loads the rest.

use super::change::{counters, wait, wall_ms};
use super::fault::GraphFault;
use super::run::graph_named;
use super::syntax;
use super::words::RequestWords;
use crate::keyspace::graph_commits::GraphSync;
use crate::memory::budget::{Grant, MemoryUse};
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::lower;
use crate::resp::error::ErrorReply;
use crate::resp::slices;
use crate::resp::state::graph_work::LoadWork;
use crate::resp::state::string_work::StringWork;
use crate::visit::progress::SessionWait;
use graph::limits::{ATTRIBUTE_BYTES_MAX, BULK_REFUSED_MAX};
use graph::{BulkBatch, BulkStep, BulkWriter, EdgeFormat, EdgeReader, GraphError};
use protocol::resp::{Args, reply};

/// The maximum number of edges of a batch. It bounds the client memory of a load.
const BATCH_EDGES_MAX: usize = 1 << 16;
/// The maximum memory of an edge in a batch, without attributes, in bytes.
const EDGE_BYTES: u64 = 84;
/// The shortest line of an edge, with its end, in bytes.
const LINE_BYTES_MIN: usize = 4;
/// The number of lines that are read between two checks of the slice, and their cost in operations.
const STEP_LINES: usize = 256;
/// The number of edges that a step of the writer touches.
const STEP_EDGES: u32 = 128;
const STEP_OPS: usize = 8;

/// The result of a visit.
enum LoadVisit {
    /// The text is loaded.
    Done,
    /// The slice is used up, or another thread has the writer, or compaction may free a segment.
    Unfinished,
}

/// Executes `G.LOAD graph type CSV|EDGES [TS ms] [LINE n] text`. The reply has the numbers of edges that were read, of
/// edges that changed and of refused lines, and the first refusals.
pub(in crate::resp) fn load<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let text = args.last().unwrap_or_default();
    let mut work = match slices::take_work(call) {
        Some(StringWork::Load(work)) => work,
        _ => match begin(call, args, text) {
            Ok(Some(work)) => Box::new(work),
            Ok(None) => return Err(SessionWait::Parked.into()),
            Err(fault) => return fault.reply(call, 0, syntax::LOAD),
        },
    };
    let visit = if work.commit.is_some() { Ok(LoadVisit::Done) } else { advance(call, &mut work, text) };
    let committed = match visit {
        Ok(LoadVisit::Done) => commit(call, &mut work),
        visit => visit,
    };
    match committed {
        Ok(LoadVisit::Done) => {
            counters(call).changed.add(work.changed);
            let LoadWork { edges, changed, refused, refusals, .. } = *work;
            let mut out = Vec::new();
            reply::array(&mut out, 4);
            [edges, changed, refused].into_iter().for_each(|count| reply::int(&mut out, count as i64));
            reply::array(&mut out, refusals.len() as u64);
            refusals.iter().for_each(|text| reply::bulk(&mut out, text.as_bytes()));
            call.session.end_request();
            aside::send_long_reply(call, out)
        }
        Ok(LoadVisit::Unfinished) => {
            slices::retain_work(call, StringWork::Load(work));
            call.session.done = 1;
            Err(wait(call))
        }
        Err(fault) => {
            counters(call).changed.add(work.changed);
            let is_full = fault.is_full();
            counters(call).refused.add(u64::from(is_full));
            fault.reply(call, work.changed as i64, syntax::LOAD)
        }
    }
}

/// Waits for the commit of a text that is loaded, if the configuration asks for one.
fn commit(call: &Call<'_, '_>, work: &mut LoadWork) -> Result<LoadVisit, GraphFault> {
    let commits = &call.ctx.shared.graphs.commits;
    if commits.sync() != GraphSync::Always {
        return Ok(LoadVisit::Done);
    }
    let number = *work.commit.get_or_insert_with(|| commits.ask());
    match (commits.has_failed(), commits.has_ended(number)) {
        (true, _) => Err(GraphFault::Disk),
        (false, true) => Ok(LoadVisit::Done),
        (false, false) => Ok(LoadVisit::Unfinished),
    }
}

/// Parses the request. Returns `None` while another load of the graph is in progress.
fn begin<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>, text: &[u8]) -> Result<Option<LoadWork>, GraphFault> {
    if call.ctx.shared.graphs.commits.has_failed() {
        return Err(GraphFault::Disk);
    }
    let graph = graph_named(call, args.next().unwrap_or_default())?;
    let mut words = RequestWords(args);
    let edge_type = words.edge_type(&graph)?;
    let format = words.next("CSV or EDGES")?;
    let format = match &lower(format)[..] {
        b"csv" => EdgeFormat::Csv,
        b"edges" => EdgeFormat::List,
        _ => return Err(GraphFault::NotFormat(format.to_vec())),
    };
    let (mut time_ms, mut line) = (wall_ms(call), 1);
    while words.0.len() > 1 {
        if words.skip(b"ts") {
            time_ms = words.time_ms()?;
        } else if words.skip(b"line") {
            line = words.number("LINE", u64::MAX >> 1)?;
        } else {
            words.end()?;
        }
    }
    let text_word = words.next("the text")?;
    // The client has forgotten the text: no line of edges has one word.
    if matches!(&lower(text_word)[..], b"ts" | b"line") {
        return Err(GraphFault::Missing("the text"));
    }
    if time_ms > graph::limits::TIME_MS_MAX {
        return Err(GraphError::TimeOutOfRange(time_ms).into());
    }
    let bytes_max = call.guard.sizes().element_bytes_max();
    if text.len() > bytes_max {
        return Err(GraphFault::TextTooLong(text.len(), bytes_max));
    }
    let Some(mut permit) = call.ctx.shared.graphs.begin_load(graph.number()) else { return Ok(None) };
    let batch_edges = (text.len() / LINE_BYTES_MIN + 1).min(BATCH_EDGES_MAX);
    // Each attribute is stored with two bytes more than its text, and a buffer is at most twice as long as needed.
    let has_attributes = !graph.schema(edge_type)?.is_empty();
    let text_bytes = if has_attributes { text.len() as u64 * 4 } else { 0 };
    let bytes = batch_edges as u64 * EDGE_BYTES + text_bytes;
    let is_left = permit.has_batch;
    let grant = permit.grant.get_or_insert_with(|| Grant::none(&call.ctx.shared.budget, MemoryUse::Walks));
    if !grant.resize(bytes.max(grant.bytes())) {
        return Err(ErrorReply::ClientMemory.into());
    }
    Ok(Some(LoadWork {
        graph,
        edge_type,
        time_ms,
        reader: EdgeReader::resume(format, 0, line - 1),
        at: 0,
        is_read: false,
        batch: None,
        batch_edges,
        is_left,
        permit,
        commit: None,
        attributes: Vec::new(),
        edges: 0,
        changed: 0,
        refused: 0,
        refusals: Vec::new(),
    }))
}

/// Reads lines and loads batches until the text is loaded or the slice is used up.
fn advance(call: &mut Call<'_, '_>, work: &mut LoadWork, text: &[u8]) -> Result<LoadVisit, GraphFault> {
    loop {
        let is_unfinished =
            if work.permit.has_batch { !load_batch(call, work)? } else { !read_batch(call, work, text)? };
        if is_unfinished {
            return Ok(LoadVisit::Unfinished);
        }
        if !work.permit.has_batch && work.is_read {
            return Ok(LoadVisit::Done);
        }
    }
}

/// Loads the writer's batch. Returns false if the slice is used up before the batch is complete.
fn load_batch(call: &mut Call<'_, '_>, work: &mut LoadWork) -> Result<bool, GraphFault> {
    let Some(mut writer) = work.graph.try_writer() else { return Ok(false) };
    let mut bulk = BulkWriter::new(&mut writer);
    loop {
        match bulk.step(STEP_EDGES) {
            Ok(BulkStep::Done) => break,
            Ok(BulkStep::More) => {}
            Err(GraphError::NoSpace) if call.ctx.shared.graphs.may_get_room() => return Ok(false),
            Err(error @ GraphError::GraphDropped) => {
                work.permit.has_batch = false;
                return Err(error.into());
            }
            Err(error) => {
                // No list has an edge of a batch that can be cancelled. Any other batch is completed in the background.
                work.permit.has_batch = bulk.cancel().is_none();
                return Err(error.into());
            }
        }
        call.ops += STEP_OPS;
        if call.is_slice_used() {
            return Ok(false);
        }
    }
    let complete = bulk.finish();
    drop(writer);
    work.permit.has_batch = false;
    let is_left = std::mem::take(&mut work.is_left);
    if let Some((report, batch)) = complete.filter(|_| !is_left) {
        work.changed += report.edges_changed;
        work.refused += report.edges_refused;
        for refused in report.refused {
            let text = format!("edge {} to {}: {}", refused.source, refused.destination, refused.error);
            refuse(&mut work.refusals, || text);
        }
        work.batch = Some(batch);
    }
    Ok(true)
}

fn refuse(refusals: &mut Vec<String>, text: impl FnOnce() -> String) {
    if refusals.len() < BULK_REFUSED_MAX {
        refusals.push(text());
    }
}

/// Reads lines into a batch, and gives a batch that is full to the writer, and the last one. Returns false if the slice
/// is used up before that.
fn read_batch(call: &mut Call<'_, '_>, work: &mut LoadWork, text: &[u8]) -> Result<bool, GraphFault> {
    let schema = work.graph.schema(work.edge_type)?.to_vec();
    let mut batch = work.batch.take().unwrap_or_else(|| BulkBatch::new(work.edge_type, work.batch_edges));
    while !work.is_read && !batch.is_full() {
        read_lines(work, &mut batch, text, &schema)?;
        call.ops += STEP_OPS;
        if call.is_slice_used() {
            work.batch = Some(batch);
            return Ok(false);
        }
    }
    if batch.is_empty() {
        return Ok(true);
    }
    let Some(mut writer) = work.graph.try_writer() else {
        work.batch = Some(batch);
        return Ok(false);
    };
    BulkWriter::new(&mut writer).begin(batch).map_err(|(error, _)| error)?;
    drop(writer);
    work.permit.has_batch = true;
    Ok(true)
}

/// Reads at most [`STEP_LINES`] lines into a batch.
fn read_lines(work: &mut LoadWork, batch: &mut BulkBatch, text: &[u8], schema: &[String]) -> Result<(), GraphFault> {
    let mut input = &text[work.at..];
    for _ in 0..STEP_LINES {
        if batch.is_full() {
            break;
        }
        let line = match work.reader.next(&mut input) {
            Some(line) => line,
            None => {
                work.is_read = true;
                match work.reader.finish() {
                    Some(line) => line,
                    None => break,
                }
            }
        };
        let read = match line {
            Ok(edge) => {
                work.attributes.clear();
                let encoded = encode_attributes(edge.attributes(), schema, &mut work.attributes);
                let time_ms = edge.time_ms.unwrap_or(work.time_ms);
                encoded.map(|()| (edge.source, edge.destination, time_ms))
            }
            Err(error) => Err(error.cause.to_string()),
        };
        match read {
            Ok((source, destination, time_ms)) => {
                batch.push(source, destination, time_ms, &work.attributes)?;
                work.edges += 1;
            }
            Err(cause) => {
                work.refused += 1;
                let line = work.reader.line();
                refuse(&mut work.refusals, || format!("line {line}: {cause}"));
            }
        }
        if work.is_read {
            break;
        }
    }
    work.at = text.len() - input.len();
    Ok(())
}

/// Encodes the attributes of a line, whose order is that of the schema. `None` is an absent attribute.
///
/// # Errors
/// If the schema has fewer names, or the attributes are too long.
pub fn encode_attributes<'a>(
    fields: impl Iterator<Item = Option<std::borrow::Cow<'a, [u8]>>>,
    schema: &[String],
    bytes: &mut Vec<u8>,
) -> Result<(), String> {
    for (number, field) in fields.enumerate().filter_map(|(number, field)| Some((number, field?))) {
        if schema.is_empty() {
            return Err("it has attributes, but the edge type has no schema; declare a type with SCHEMA".to_owned());
        }
        if number >= schema.len() {
            let names = schema.len();
            return Err(format!("it has more attributes than the {names} names of the schema; remove the others"));
        }
        if bytes.len() + 2 + field.len() > ATTRIBUTE_BYTES_MAX {
            return Err(format!(
                "its attributes have more than {ATTRIBUTE_BYTES_MAX} bytes, with 2 for each besides its value; shorten \
                 them"
            ));
        }
        bytes.extend([number as u8, field.len() as u8]);
        bytes.extend_from_slice(&field);
    }
    Ok(())
}
