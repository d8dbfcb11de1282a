//! The state of the graph store, its compaction and its commits; the drop of a whole graph.

use super::change::{acknowledge, await_commit, awaits_commit, wait};
use super::fault::GraphFault;
use super::run::{graph_named, nodes_of, take_worker};
use super::syntax;
use super::words::RequestWords;
use crate::keyspace::graph_commits::GraphSync;
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::error::ErrorReply;
use crate::shared::Shared;
use graph::GraphError;
use protocol::resp::{Args, reply};

/// Executes `G.STATS [graph]`: figures of the store, or the number of nodes of a graph and its edge types.
pub(in crate::resp) fn stats<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let Some(name) = args.next() else {
        return match put_store(call) {
            Ok(reply) => aside::send_long_reply(call, reply),
            Err(fault) => fault.reply(call, 0, syntax::STATS),
        };
    };
    let described = graph_named(call, name).and_then(|graph| {
        RequestWords(args).end()?;
        let worker = take_worker(call)?;
        call.ctx.graph = Some(worker);
        let nodes = nodes_of(call, &graph);
        let (mut out, version, types) = (Vec::new(), call.session.version, graph.edge_types());
        reply::map(&mut out, version, 2);
        reply::bulk(&mut out, b"nodes");
        reply::int(&mut out, nodes.into());
        reply::bulk(&mut out, b"types");
        reply::array(&mut out, types.len() as u64);
        types.iter().for_each(|name| reply::bulk(&mut out, name.as_bytes()));
        Ok(out)
    });
    match described {
        Ok(reply) => aside::send_long_reply(call, reply),
        Err(fault) => fault.reply(call, 0, syntax::STATS),
    }
}

/// Returns the figures of the store with their names. Returns `None` if there is no store.
/// It takes some ns for each segment.
pub(in crate::resp) fn figures(shared: &Shared) -> Option<[(&'static str, i64); 21]> {
    let graphs = &shared.graphs;
    let store = graphs.store()?;
    let stats = store.stats();
    let sum = |of: fn(&crate::keyspace::graphs::GraphCounters) -> u64| -> i64 {
        shared.workers.iter().map(|worker| of(&worker.graph)).sum::<u64>() as i64
    };
    let figures = [
        ("memory_bytes", graphs.memory_bytes() as i64),
        ("durable", graphs.is_durable().into()),
        ("commits", graphs.commits.count() as i64),
        ("segment_bytes", stats.segment_bytes as i64),
        ("segments", stats.segments as i64),
        ("segments_free", stats.segments_free as i64),
        ("segments_retired", stats.segments_retired as i64),
        ("segments_reused", stats.segments_recycled as i64),
        ("record_bytes", stats.record_bytes as i64),
        ("live_bytes", stats.live_bytes as i64),
        ("index_bytes", stats.index_bytes as i64),
        ("compaction_slices", graphs.compaction.slices.value() as i64),
        ("compaction_segments", graphs.compaction.segments.value() as i64),
        ("queries", sum(|counters| counters.queries.iter().map(|counter| counter.value()).sum())),
        ("edges_touched", sum(|counters| counters.edges.value())),
        ("edges_changed", sum(|counters| counters.changed.value())),
        ("partial_answers", sum(|counters| counters.partial.value())),
        ("second_degree_hits", sum(|counters| counters.cache_hits.value())),
        ("second_degree_misses", sum(|counters| counters.cache_misses.value())),
        ("graphs_dropping", stats.graphs_dropping as i64),
        ("graphs_dropped", stats.graphs_dropped as i64),
    ];
    Some(figures)
}

fn put_store(call: &Call<'_, '_>) -> Result<Vec<u8>, GraphFault> {
    let figures = figures(&call.ctx.shared).ok_or(GraphFault::NoStore)?;
    let names: Vec<String> = call
        .ctx
        .shared
        .graphs
        .store()
        .into_iter()
        .flat_map(|store| store.graphs())
        .map(|graph| graph.name().to_owned())
        .collect();
    let mut out = Vec::new();
    reply::map(&mut out, call.session.version, figures.len() as u64 + 1);
    for (name, value) in figures {
        reply::bulk(&mut out, name.as_bytes());
        reply::int(&mut out, value);
    }
    reply::bulk(&mut out, b"graphs");
    reply::array(&mut out, names.len() as u64);
    names.iter().for_each(|name| reply::bulk(&mut out, name.as_bytes()));
    Ok(out)
}

/// Executes `G.SEGMENTS`: for each segment in use, its number, the number of its graph, its used and its live bytes.
pub(in crate::resp) fn segments<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    let Some(store) = call.ctx.shared.graphs.store() else {
        return GraphFault::NoStore.reply(call, 0, syntax::SEGMENTS);
    };
    let mut out = Vec::new();
    let used: Vec<_> = store.segments().collect();
    reply::array(&mut out, used.len() as u64);
    for segment in used {
        reply::array(&mut out, 4);
        reply::int(&mut out, segment.number.into());
        reply::bulk(&mut out, segment.graph.as_bytes());
        reply::int(&mut out, segment.used_bytes as i64);
        reply::int(&mut out, segment.live_bytes as i64);
    }
    aside::send_long_reply(call, out)
}

/// Executes `G.SNAPSHOT`: waits until all earlier changes are on the disk, and replies with the number of commits.
pub(in crate::resp) fn snapshot<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if args.len() > 0 {
        return Err(ErrorReply::Syntax.into());
    }
    let graphs = &call.ctx.shared.graphs;
    let fault = match (graphs.store(), graphs.commits.sync()) {
        (None, _) => Some(GraphFault::NoStore),
        (_, GraphSync::Never) => Some(GraphFault::NoDisk),
        _ => await_commit(call)?,
    };
    if let Some(fault) = fault {
        return fault.reply(call, 0, syntax::SNAPSHOT);
    }
    call.int(call.ctx.shared.graphs.commits.count() as i64);
    Ok(())
}

/// Executes `G.COMPACT`: compaction of all segments that are not full of live records begins in the background.
pub(in crate::resp) fn compact<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if args.len() > 0 {
        return Err(ErrorReply::Syntax.into());
    }
    let graphs = &call.ctx.shared.graphs;
    if graphs.store().is_none() {
        return GraphFault::NoStore.reply(call, 0, syntax::COMPACT);
    }
    graphs.ask_for_compaction();
    reply::simple(call.out, b"OK");
    Ok(())
}

/// Executes `G.DROP graph`: drops a graph with all its edge types, nodes and edges. Replies with 1, or with 0 if no
/// graph has this name.
pub(in crate::resp) fn drop_graph<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    if awaits_commit(call) {
        return acknowledge(call, syntax::DROP);
    }
    match drop_named(call, args.next().unwrap_or_default()) {
        Ok(Some(true)) => {
            call.session.sum = 1;
            acknowledge(call, syntax::DROP)
        }
        Ok(Some(false)) => {
            call.session.end_request();
            call.int(0);
            Ok(())
        }
        Ok(None) => Err(wait(call)),
        Err(fault) => fault.reply(call, 0, syntax::DROP),
    }
}

/// Drops a graph. Returns `None` if the request must wait for another thread, and false if there is no such graph.
fn drop_named(call: &Call<'_, '_>, name: &[u8]) -> Result<Option<bool>, GraphFault> {
    let graphs = &call.ctx.shared.graphs;
    let store = graphs.store().ok_or(GraphFault::NoStore)?;
    if graphs.commits.has_failed() {
        return Err(GraphFault::Disk);
    }
    let Some(graph) = std::str::from_utf8(name).ok().and_then(|name| store.graph(name)) else { return Ok(Some(false)) };
    match store.try_drop_graph(&graph) {
        Ok(is_dropped) => Ok(is_dropped.then_some(true)),
        Err(GraphError::NoSpace) if graphs.may_get_room() => Ok(None),
        // Another client was faster.
        Err(GraphError::GraphDropped) => Ok(Some(false)),
        Err(error) => Err(error.into()),
    }
}
