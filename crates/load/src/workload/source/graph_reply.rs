//! Checks of the replies to requests for a graph.

use protocol::resp::client::Head;

use super::super::graph::{FILL_EDGES, GraphQuery};
use super::exchange::AnswerReader;
use super::graph::{GraphRequest, GraphRoute};

/// Handles the next part of a reply; `is_last` if no other follows. Parts are numbered from 0, those of nested arrays
/// included.
pub fn part(
    reading: &mut AnswerReader<'_>,
    route: &GraphRoute,
    head: Head<'_>,
    is_last: bool,
) -> Result<(), &'static str> {
    let (index, key, load) = (reading.state.index, reading.pending.key, &route.load);
    let verify = reading.verify;
    let is_node = matches!(head, Head::Int(1..) | Head::Bulk(_) | Head::BigNumber(_));
    // A node that has no 63 bits is not compared: it arrives as a text.
    let differs = |node: u64| matches!(head, Head::Int(found) if found as u64 != node);
    let mut check = |is_right: bool| {
        if !is_right {
            reading.state.wrong();
        }
    };
    match (route.request, index, head) {
        (GraphRequest::Declare, 0, Head::Simple(_)) => {}
        (GraphRequest::Fill, 0, Head::Int(changed)) => check((0..=FILL_EDGES as i64).contains(&changed)),
        (GraphRequest::Query(GraphQuery::Add), 0, Head::Int(changed)) => {
            check((0..=i64::from(load.write_edges)).contains(&changed));
            if changed == 0 {
                reading.state.missed();
            }
        }
        (GraphRequest::Query(GraphQuery::Page), 0, Head::Array(2)) => {}
        (GraphRequest::Query(GraphQuery::Page), 1, Head::Bulk(_)) => {}
        (GraphRequest::Query(GraphQuery::Page), 2, Head::Array(nodes)) => {
            check(nodes <= load.page);
            if nodes == 0 {
                reading.state.missed();
            }
        }
        (GraphRequest::Query(GraphQuery::Page), 3.., _) => {
            // No node is its own neighbour.
            check(is_node && (!verify || head != Head::Int(route.node(key) as i64)));
        }
        (GraphRequest::Query(GraphQuery::Edge), 0, Head::Array(1)) => {}
        (GraphRequest::Query(GraphQuery::Edge), 1, Head::Null) => {
            check(!(verify && route.edge(key).2));
            reading.state.missed();
        }
        (GraphRequest::Query(GraphQuery::Edge), 1, Head::Array(3)) => {}
        (GraphRequest::Query(GraphQuery::Edge), 2.., _) => {}
        (GraphRequest::Query(_), 0, Head::Array(2)) => {}
        (GraphRequest::Query(_), 1, Head::Int(0)) => {}
        (GraphRequest::Query(_), 1, Head::Int(1)) => reading.state.missed(),
        (GraphRequest::Query(GraphQuery::Distance), 2, Head::Array(distances)) => {
            check(distances == route.distances(key).targets);
        }
        (GraphRequest::Query(GraphQuery::Distance), 3.., Head::Null) => {}
        (GraphRequest::Query(GraphQuery::Distance), 3.., Head::Int(edges)) => {
            check((0..=i64::from(load.hops)).contains(&edges));
        }
        (GraphRequest::Query(GraphQuery::Mutual | GraphQuery::SecondDegree), 2, Head::Int(count)) => check(count >= 0),
        (GraphRequest::Query(GraphQuery::Path), 2, Head::Array(paths)) => check(paths <= 1),
        (GraphRequest::Query(GraphQuery::Path), 3, Head::Array(nodes)) => check((2..=load.hops + 1).contains(&nodes)),
        (GraphRequest::Query(GraphQuery::Path), 4.., _) => {
            let (from, to) = if verify && (index == 4 || is_last) { route.pair(key) } else { (0, 0) };
            check(is_node && !(verify && (index == 4 && differs(from) || is_last && differs(to))));
        }
        _ => return Err("the reply of the graph store has another form than expected"),
    }
    if head.bytes().is_none() {
        reading.next_part();
    }
    Ok(())
}
