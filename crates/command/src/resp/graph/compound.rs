//! `G.QUERY`: several queries of one graph in one request, each as one word. A query needs the right to the command of
//! its name, besides that to `G.QUERY`.

use super::fault::{GraphFault, PARTS_MAX};
use super::run::{Visit, advance, graph_named, nodes_of, retain_work, take_work};
use super::words::RequestWords;
use crate::keyspace::graphs::GraphQueryKind;
use crate::resp::acl;
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::lower;
use crate::resp::state::graph_work::GraphWork;
use crate::visit::progress::SessionWait;
use graph::SetOperation;
use protocol::resp::{Args, reply};

/// Returns the kind of query that a part begins with.
///
/// # Errors
/// If there is no query of that name, or the client's user may not execute its command.
fn kind(call: &Call<'_, '_>, name: &[u8]) -> Result<(GraphQueryKind, SetOperation), GraphFault> {
    let any = SetOperation::Union;
    let (command, kind, operation) = match &lower(name)[..] {
        b"get" => ("g.get", GraphQueryKind::Edge, any),
        b"count" => ("g.count", GraphQueryKind::Count, any),
        b"range" => ("g.range", GraphQueryKind::Page, any),
        b"mutual" => ("g.mutual", GraphQueryKind::Mutual, any),
        b"inter" => ("g.inter", GraphQueryKind::Sets, SetOperation::Intersection),
        b"union" => ("g.union", GraphQueryKind::Sets, SetOperation::Union),
        b"diff" => ("g.diff", GraphQueryKind::Sets, SetOperation::Difference),
        b"dist" => ("g.dist", GraphQueryKind::Distance, any),
        b"path" => ("g.path", GraphQueryKind::Path, any),
        b"deg2" => ("g.deg2", GraphQueryKind::SecondDegree, any),
        b"suggest" => ("g.suggest", GraphQueryKind::Suggest, any),
        _ => return Err(GraphFault::NotQuery(name.to_vec())),
    };
    acl::refused_command(call, command).map_or(Ok((kind, operation)), |error| Err(error.into()))
}

/// Executes `G.QUERY graph query [query ..]`. The reply has the reply of each query. A refused query is an error in its
/// place.
pub(in crate::resp) fn query_several<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let name = args.next().unwrap_or_default();
    if args.len() == 0 || args.len() > PARTS_MAX {
        return GraphFault::PartCount(args.len()).reply(call, 0);
    }
    let mut work = match take_work(call) {
        Some(work) => work,
        None => match graph_named(call, name) {
            Ok(graph) => {
                let mut replies = Vec::new();
                reply::array(&mut replies, args.len() as u64);
                Box::new(GraphWork { graph, query: None, replies: (replies, 0), grant: None })
            }
            Err(fault) => return fault.reply(call, 0),
        },
    };
    while let Some(part) = args.clone().nth(work.replies.1) {
        let mut words = RequestWords(part.split(|byte| *byte == b' ').filter(|word| !word.is_empty()));
        let visited = words
            .next("a query")
            .and_then(|name| kind(call, name))
            .and_then(|kind| advance(call, &work.graph, work.query.take(), kind, words));
        let is_busy = matches!(visited, Ok(Visit::Busy));
        match visited {
            Ok(Visit::Done(reply)) => work.replies.0.extend_from_slice(&reply),
            Err(fault) => fault.put(&mut work.replies.0),
            Ok(Visit::Unfinished(query)) => {
                work.query = Some(query);
                return wait(call, work);
            }
            // Without a part that is done, the request begins again later.
            Ok(Visit::Busy) if work.replies.1 == 0 => return Err(SessionWait::Parked.into()),
            Ok(Visit::Busy) => {}
        }
        work.replies.1 += usize::from(!is_busy);
        call.ops += 1;
        if (is_busy || call.is_slice_used()) && work.replies.1 < args.len() {
            return wait(call, work);
        }
    }
    call.session.end_request();
    aside::send_long_reply(call, std::mem::take(&mut work.replies.0))
}

/// Retains the complete replies and the unfinished query until the next visit.
fn wait(call: &mut Call<'_, '_>, work: Box<GraphWork>) -> Run {
    let nodes = nodes_of(call, &work.graph);
    retain_work(call, work, nodes)
}
