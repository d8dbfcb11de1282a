//! `G.NODE`: objects of nodes, and the marks that archive a whole node.
//!
//! The object of a node is stored as texts one after another, each with its length in two bytes, little endian: the
//! type, then names and values of bins in turn.

use super::change::{acknowledge, awaits_commit, wait, wall_ms};
use super::fault::GraphFault;
use super::run::{graph_named, take_worker};
use super::syntax;
use super::words::RequestWords;
use crate::keyspace::graphs::GraphQueryKind;
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::lower;
use crate::resp::help::other_subcommand;
use graph::limits::OBJECT_BYTES_MAX;
use graph::{Graph, GraphError};
use protocol::resp::{Args, reply};

/// A change of a node.
enum NodeChange {
    Object(Option<Vec<u8>>),
    Mark(bool),
}

/// Executes `G.NODE SET|GET|DEL|ARCHIVE|RESTORE graph id ..`.
pub(in crate::resp) fn node<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let all = args;
    let part = args.next().unwrap_or_default();
    let name = args.next().unwrap_or_default();
    let part = lower(part);
    if !matches!(&part[..], b"set" | b"get" | b"del" | b"archive" | b"restore") {
        return other_subcommand(call, "g.node", all.clone().next().unwrap_or_default());
    }
    let mut is_changed = false;
    let ran = graph_named(call, name).and_then(|graph| {
        let mut words = RequestWords(args);
        if part[..] == *b"get" {
            let node = words.node()?;
            words.end()?;
            return reply_object(call, &graph, node).map(|()| true);
        }
        let is_done = awaits_commit(call) || change(call, &graph, &part, words)?;
        is_changed = is_done;
        Ok(is_done)
    });
    match ran {
        Ok(true) if is_changed => acknowledge(call, "G.NODE"),
        Ok(true) => Ok(()),
        Ok(false) => Err(wait(call)),
        Err(fault) => fault.reply(call, 0, &syntax::of_node(&part)),
    }
}

/// Changes a node. Returns false if the request must wait.
fn change<'a, W: Iterator<Item = &'a [u8]> + Clone>(
    call: &mut Call<'_, '_>,
    graph: &Graph,
    part: &[u8],
    mut words: RequestWords<W>,
) -> Result<bool, GraphFault> {
    let node = words.node()?;
    let mut time_ms = None;
    let change = match part {
        b"set" => {
            let mut bytes = Vec::new();
            put_text(&mut bytes, words.next("the type of the node")?)?;
            while words.peek().is_some() {
                // The time is the last pair. A bin of that name is refused, so no bin is taken for the time.
                if words.skip(b"ts") {
                    if words.0.clone().count() > 1 {
                        return Err(GraphFault::BinNamedTs);
                    }
                    time_ms = Some(words.time_ms()?);
                    break;
                }
                put_text(&mut bytes, words.next("the name of a bin")?)?;
                put_text(&mut bytes, words.next("the value of a bin")?)?;
            }
            let mut names: Vec<&[u8]> = texts_of(&bytes).skip(1).step_by(2).collect();
            names.sort_unstable();
            if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(GraphFault::Twice(pair[0].to_vec()));
            }
            NodeChange::Object(Some(bytes))
        }
        b"del" => NodeChange::Object(None),
        b"archive" => NodeChange::Mark(true),
        _ => NodeChange::Mark(false),
    };
    if words.skip(b"ts") {
        time_ms = Some(words.time_ms()?);
    }
    words.end()?;
    if call.ctx.shared.graphs.commits.has_failed() {
        return Err(GraphFault::Disk);
    }
    let Some(mut writer) = graph.try_writer() else { return Ok(false) };
    let now_ms = wall_ms(call);
    let changed = match (&change, time_ms) {
        (NodeChange::Object(object), Some(ms)) => writer.set_object(node, object.as_deref(), ms),
        (NodeChange::Object(object), None) => writer.set_object_now(node, object.as_deref(), now_ms),
        (NodeChange::Mark(is_archived), Some(ms)) => writer.mark_node(node, *is_archived, ms),
        (NodeChange::Mark(is_archived), None) => writer.mark_node_now(node, *is_archived, now_ms),
    };
    match changed {
        Err(GraphError::NoSpace) if call.ctx.shared.graphs.may_get_room() => Ok(false),
        changed => {
            call.session.sum = i64::from(changed?);
            Ok(true)
        }
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &[u8]) -> Result<(), GraphFault> {
    let total = bytes.len() + 2 + text.len();
    if total > OBJECT_BYTES_MAX {
        return Err(GraphError::ObjectTooLong(total).into());
    }
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text);
    Ok(())
}

/// Returns the texts of an object: its type, then names and values of bins in turn.
pub fn texts_of(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (text, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        bytes = rest;
        Some(text)
    })
}

/// Replies with the type of a node and its bins, or with nothing if it has no object.
fn reply_object(call: &mut Call<'_, '_>, graph: &Graph, node: u64) -> Result<(), GraphFault> {
    let mut worker = take_worker(call)?;
    let object = worker.reader.enter().view(graph).object(node);
    call.ctx.graph = Some(worker);
    call.ctx.shared.workers[call.ctx.worker].graph.queries[GraphQueryKind::Node as usize].add(1);
    let Some(object) = object? else {
        call.null();
        return Ok(());
    };
    let mut out = Vec::new();
    let texts: Vec<&[u8]> = texts_of(&object.bytes).collect();
    reply::array(&mut out, 2);
    reply::bulk(&mut out, texts.first().copied().unwrap_or_default());
    reply::map(&mut out, call.session.version, texts.len().saturating_sub(1) as u64 / 2);
    texts.iter().skip(1).for_each(|text| reply::bulk(&mut out, text));
    aside::send_long_reply(call, out).map_err(|_| GraphFault::Common(crate::resp::error::ErrorReply::ClientMemory))
}
