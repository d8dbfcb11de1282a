//! `G.QUERY`: several queries of one graph in one request, each as one word. A query needs the right to the command of
//! its name, besides that to `G.QUERY`.

use super::fault::{GraphFault, PARTS_MAX};
use super::run::{Visit, advance, graph_named, retain_work, take_work};
use super::syntax;
use super::words::RequestWords;
use crate::keyspace::graphs::GraphQueryKind;
use crate::resp::acl;
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::lower;
use crate::resp::state::graph_work::GraphWork;
use crate::visit::progress::SessionWait;
use graph::SetOperation;
use protocol::resp::{Args, reply, split_line};

/// Returns the kind of query that a part begins with, and sets its syntax.
///
/// # Errors
/// If there is no query of that name, or the client's user may not execute its command.
fn kind(
    call: &Call<'_, '_>,
    name: &[u8],
    syntax: &mut &'static str,
) -> Result<(GraphQueryKind, SetOperation), GraphFault> {
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
    *syntax = syntax::of_query(command);
    acl::refused_command(call, command).map_or(Ok((kind, operation)), |error| Err(error.into()))
}

/// Executes `G.QUERY graph query [query ..]`. Each query is split like an inline command. The reply
/// has the reply of each query. A refused query is an error in its place.
pub(in crate::resp) fn query_several<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let name = args.next().unwrap_or_default();
    if args.len() == 0 || args.len() > PARTS_MAX {
        return GraphFault::PartCount(args.len()).reply(call, 0, syntax::QUERY);
    }
    let mut work = match take_work(call) {
        Some(work) => work,
        None => match graph_named(call, name) {
            Ok(graph) => {
                let mut replies = Vec::new();
                reply::array(&mut replies, args.len() as u64);
                Box::new(GraphWork { graph, query: None, replies: (replies, 0), grant: None })
            }
            Err(fault) => return fault.reply(call, 0, syntax::QUERY),
        },
    };
    while let Some(part) = args.clone().nth(work.replies.1) {
        let split = split_line(part).map_err(|_| GraphFault::UnbalancedQuotes(part.to_vec()));
        let mut syntax = syntax::QUERY;
        let visited = split.and_then(|split| {
            let mut words = RequestWords(split.iter().map(|word| &word[..]));
            let kind = kind(call, words.next("a query")?, &mut syntax)?;
            advance(call, &work.graph, work.query.take(), kind, words)
        });
        let is_busy = matches!(visited, Ok(Visit::Busy));
        match visited {
            Ok(Visit::Done(reply)) => work.replies.0.extend_from_slice(&reply),
            Err(fault) => fault.put(&mut work.replies.0, syntax),
            Ok(Visit::Unfinished(query)) => {
                work.query = Some(query);
                return retain_work(call, work);
            }
            // Without a part that is done, the request begins again later.
            Ok(Visit::Busy) if work.replies.1 == 0 => return Err(SessionWait::Parked.into()),
            Ok(Visit::Busy) => {}
        }
        work.replies.1 += usize::from(!is_busy);
        call.ops += 1;
        if (is_busy || call.is_query_slice_used()) && work.replies.1 < args.len() {
            return retain_work(call, work);
        }
    }
    call.session.end_request();
    aside::send_long_reply(call, std::mem::take(&mut work.replies.0))
}
