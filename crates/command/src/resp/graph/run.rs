//! The execution of one query over as many visits as it needs.

use super::fault::GraphFault;
use super::query::{self, Surroundings, WorkerParts};
use super::words::RequestWords;
use crate::keyspace::graphs::{GraphQueryKind, WorkerGraphs};
use crate::memory::budget::MemoryUse;
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::error::ErrorReply;
use crate::resp::slices;
use crate::resp::state::graph_work::{GraphQuery, GraphWork};
use crate::resp::state::string_work::StringWork;
use crate::visit::progress::SessionWait;
use graph::{Graph, GraphError, QueryStep, SetOperation};
use protocol::resp::Args;

/// The number of edges that a step touches, and its cost in operations. An edge takes 5 to 30 ns.
const STEP_EDGES: u32 = 512;
const STEP_OPS: usize = 8;
/// The same while other sessions have requests.
const SHORT_STEP_EDGES: u32 = 256;
const SHORT_STEP_OPS: usize = 4;
/// The memory of an unfinished page or set operation: 4,097 keys of at most 32 bytes.
const PAGE_BYTES: u64 = 128 << 10;

/// The result of a visit.
pub(super) enum Visit {
    /// The query is complete. The value is its reply.
    Done(Vec<u8>),
    /// The slice is used up.
    Unfinished(Box<GraphQuery>),
    /// All scratch memories of the worker are lent.
    Busy,
}

/// Returns the state of an unfinished command on graphs.
pub(super) fn take_work(call: &mut Call<'_, '_>) -> Option<Box<GraphWork>> {
    match slices::take_work(call) {
        Some(StringWork::Graph(work)) => Some(work),
        _ => None,
    }
}

/// Retains the state of an unfinished command until its next visit.
///
/// # Errors
/// [`SessionWait::Yield`], or an error reply if client memory is used up.
pub(super) fn retain_work(call: &mut Call<'_, '_>, mut work: Box<GraphWork>) -> Run {
    let bytes = work.query.as_deref().map_or(0, held_bytes) + work.replies.0.capacity() as u64;
    match &mut work.grant {
        Some(grant) => {
            if !grant.resize(bytes) {
                return Err(ErrorReply::ClientMemory.into());
            }
        }
        None => {
            let grant = call.ctx.shared.budget.grant(MemoryUse::Walks, bytes);
            work.grant = Some(grant.ok_or(ErrorReply::ClientMemory)?);
        }
    }
    slices::retain_work(call, StringWork::Graph(work));
    call.session.done = 1;
    Err(SessionWait::Yield.into())
}

/// Returns the client memory of an unfinished query, in bytes. Scratch memory counts apart ([`Scratches::lend`]).
///
/// [`Scratches::lend`]: crate::keyspace::graphs::Scratches::lend
fn held_bytes(query: &GraphQuery) -> u64 {
    let held = match query {
        GraphQuery::Edges(edges) => edges.reply.capacity() + edges.targets.capacity() * size_of::<u64>(),
        GraphQuery::Ready(reply) => reply.capacity(),
        GraphQuery::Page(..) | GraphQuery::Set(..) => return PAGE_BYTES,
        GraphQuery::Distance(..) | GraphQuery::Path(..) | GraphQuery::Second(..) | GraphQuery::Suggest(..) => 0,
    };
    held as u64
}

/// Returns the graph with this name.
pub(super) fn graph_named(call: &Call<'_, '_>, name: &[u8]) -> Result<Graph, GraphFault> {
    let store = call.ctx.shared.graphs.store().ok_or(GraphFault::NoStore)?;
    let name = std::str::from_utf8(name).map_err(|_| GraphError::UnknownGraph)?;
    Ok(store.graph(name).ok_or(GraphError::UnknownGraph)?)
}

/// Returns the worker's access to graphs, and creates it at the first request.
pub(super) fn take_worker(call: &mut Call<'_, '_>) -> Result<Box<WorkerGraphs>, GraphFault> {
    let worker = call.ctx.graph.take();
    worker.or_else(|| WorkerGraphs::open(&call.ctx.shared.graphs)).ok_or(GraphFault::NoStore)
}

/// Continues `unfinished`, or begins a query of these words, until it is complete or the slice is used up.
pub(super) fn advance<'a, W: Iterator<Item = &'a [u8]> + Clone>(
    call: &mut Call<'_, '_>,
    graph: &Graph,
    unfinished: Option<Box<GraphQuery>>,
    (kind, operation): (GraphQueryKind, SetOperation),
    words: RequestWords<W>,
) -> Result<Visit, GraphFault> {
    let mut worker = take_worker(call)?;
    let WorkerGraphs { reader, scratches, cache } = &mut *worker;
    let counters = &call.ctx.shared.workers[call.ctx.worker].graph;
    let guard = reader.enter();
    let around = Surroundings { graph, view: guard.view(graph), version: call.session.version, counters };
    let parts = &mut WorkerParts { scratches, cache, budget: &call.ctx.shared.budget };
    let is_short = call.ctx.pace.has_company();
    let (step_edges, step_ops) = if is_short { (SHORT_STEP_EDGES, SHORT_STEP_OPS) } else { (STEP_EDGES, STEP_OPS) };
    let mut steps = 0;
    let visited = (|| {
        if around.view.is_dropped() {
            return Err(GraphError::GraphDropped.into());
        }
        let mut query = match unfinished {
            Some(query) => *query,
            None => match query::begin(&around, parts, kind, operation, words)? {
                Some(query) => query,
                None => return Ok(Visit::Busy),
            },
        };
        loop {
            if query.step(&around, step_edges)? == QueryStep::Done {
                counters.queries[kind as usize].add(1);
                return query.finish(&around, parts).map(Visit::Done);
            }
            steps += 1;
            if call.ctx.pace.is_query_slice_over(call.ops + steps * step_ops, call.ctx.clock.ticks()) {
                return Ok(Visit::Unfinished(Box::new(query)));
            }
        }
    })();
    drop(guard);
    call.ops += steps * step_ops;
    call.ctx.graph = Some(worker);
    visited
}

/// Executes a command that is one query, with this syntax.
fn run<'c>(
    call: &mut Call<'c, '_>,
    mut args: Args<'c>,
    (kind, operation): (GraphQueryKind, SetOperation),
    syntax: &str,
) -> Run {
    let (graph, unfinished, grant) = match take_work(call) {
        Some(work) => (Ok(work.graph), work.query, work.grant),
        None => (graph_named(call, args.next().unwrap_or_default()), None, None),
    };
    let visited = graph.and_then(|graph| {
        let words = RequestWords(args);
        advance(call, &graph, unfinished, (kind, operation), words).map(|visit| (graph, visit))
    });
    match visited {
        Ok((_, Visit::Done(reply))) => {
            call.session.end_request();
            aside::send_long_reply(call, reply)
        }
        Ok((graph, Visit::Unfinished(query))) => {
            let work = GraphWork { graph, query: Some(query), replies: (Vec::new(), 0), grant };
            retain_work(call, Box::new(work))
        }
        Ok((_, Visit::Busy)) => Err(SessionWait::Parked.into()),
        Err(fault) => fault.reply(call, 0, syntax),
    }
}

/// Returns the number of nodes of a graph, or 0 if the worker has no access yet.
pub(super) fn nodes_of(call: &mut Call<'_, '_>, graph: &Graph) -> u32 {
    call.ctx.graph.as_mut().map_or(0, |worker| worker.reader.enter().view(graph).nodes())
}

macro_rules! queries {
    ($($name:ident $kind:ident $operation:ident $syntax:literal),+ $(,)?) => {
        $(
            #[doc = concat!("Executes `", $syntax, "`.")]
            pub(in crate::resp) fn $name<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
                run(call, args, (GraphQueryKind::$kind, SetOperation::$operation), $syntax)
            }
        )+

        /// The syntax of each query.
        pub(super) const QUERY_SYNTAX: &[&str] = &[$($syntax),+];
    };
}

queries! {
    get Edge Union "G.GET graph src type dst [dst ..]",
    count Count Union "G.COUNT graph src type",
    range Page Union "G.RANGE graph src type [CURSOR c] [LIMIT n] [BYTIME a b] [REV] [WITHATTR] [STATE s]",
    mutual Mutual Intersection "G.MUTUAL graph a b type [LIMIT n] [COUNT] [BUDGET n]",
    inter Sets Intersection "G.INTER graph src type [src type ..] [CURSOR c] [LIMIT n]",
    union Sets Union "G.UNION graph src type [src type ..] [CURSOR c] [LIMIT n]",
    diff Sets Difference "G.DIFF graph src type [src type ..] [CURSOR c] [LIMIT n]",
    dist Distance Union "G.DIST graph src type dst [dst ..] [MAX 3] [BUDGET n]",
    path Path Union "G.PATH graph src dst type [MAX 3] [K k] [BUDGET n]",
    deg2 SecondDegree Union "G.DEG2 graph src type [COUNT] [CURSOR c] [LIMIT n] [BUDGET n] [STALE n]",
    suggest Suggest Union "G.SUGGEST graph src type [K k] [BUDGET n]",
}
