//! Requests for a graph, as RESP commands.
//!
//! All parts of a request follow from the drawn number that the engine stores with it, so that a reply can be compared
//! with its request, and a request can be sent again.

use base::prng::Prng;
use protocol::number::Decimal;
use protocol::resp::client::CommandLine;

use super::super::graph::{EdgeDraw, FILL_EDGES, GraphLoad, GraphQuery};
use crate::traffic::{ReplyOutcome, ReplyProgress};

/// An action of a request for a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphRequest {
    /// A query or a write of the load.
    Query(GraphQuery),
    /// Adds edges of the graph, before the run.
    Fill,
    /// Declares the edge type, on each new connection.
    Declare,
}

/// One kind of request for a graph, prepared for drawing.
#[derive(Clone, Debug)]
pub struct GraphRoute {
    /// The action.
    pub request: GraphRequest,
    /// The graph and the bounds of queries.
    pub load: GraphLoad,
    draw: EdgeDraw,
}

/// A drawn distance query.
pub struct Distances {
    /// The node from which distances are counted.
    pub source: u64,
    /// Number of destinations.
    pub targets: u32,
    /// Draws the destinations.
    prng: Prng,
}

impl GraphRoute {
    /// Creates the requests of `load`. The seed determines the edges of an R-MAT graph.
    pub fn new(request: GraphRequest, load: &GraphLoad, seed: u64) -> Self {
        Self { request, load: load.clone(), draw: EdgeDraw::new(&load.origin, load.endpoints, seed) }
    }

    /// Returns the name under which replies are recorded.
    pub fn name(&self) -> &'static str {
        match self.request {
            GraphRequest::Query(query) => query.name(),
            GraphRequest::Fill => "fill",
            GraphRequest::Declare => "g.type",
        }
    }

    /// Returns whether the requests add drawn edges.
    pub fn is_write(&self) -> bool {
        self.request == GraphRequest::Query(GraphQuery::Add)
    }

    /// Returns the distance query with the drawn number `key`.
    pub fn distances(&self, key: u64) -> Distances {
        let mut prng = Prng::new(key);
        let (least, most) = self.load.targets;
        let targets = least + prng.below(u64::from(most - least) + 1) as u32;
        Distances { source: self.draw.node(&mut prng), targets, prng }
    }

    /// Returns the two nodes of the request with the drawn number `key`.
    pub fn pair(&self, key: u64) -> (u64, u64) {
        self.draw.pair(&mut Prng::new(key))
    }

    /// Returns the pair of an edge query, and whether it is an edge of the graph.
    pub fn edge(&self, key: u64) -> (u64, u64, bool) {
        let mut prng = Prng::new(key);
        let is_of_graph = prng.next_u64() >> 63 == 0;
        let (a, b) = if is_of_graph { self.draw.any_edge(&mut prng) } else { self.draw.pair(&mut prng) };
        (a, b, is_of_graph)
    }

    /// Returns the only node of the request with the drawn number `key`.
    pub fn node(&self, key: u64) -> u64 {
        self.draw.node(&mut Prng::new(key))
    }

    /// Returns the numbers of the edges of part `key` of a prefill.
    fn fill(&self, key: u64) -> std::ops::Range<u64> {
        let from = key * FILL_EDGES;
        from..(from + FILL_EDGES).min(self.draw.count())
    }

    /// Writes the request with the drawn number `key`.
    pub fn put(&self, key: u64, out: &mut Vec<u8>) {
        let (graph, edge_type) = (self.load.name.as_bytes(), self.load.edge_type.as_bytes());
        match self.request {
            GraphRequest::Declare => {
                CommandLine::new(out, 4).arg(b"G.TYPE").arg(graph).arg(edge_type).arg(b"UNDIRECTED");
            }
            GraphRequest::Fill => {
                let edges = self.fill(key);
                let args = 2 + 3 * (edges.end - edges.start) as u32;
                let line = CommandLine::new(out, args).arg(b"G.ADD").arg(graph);
                edges.fold(line, |line, number| put_edge(line, self.draw.edge(number), edge_type));
            }
            GraphRequest::Query(GraphQuery::Add) => {
                let mut prng = Prng::new(key);
                let edges = self.load.write_edges;
                let line = CommandLine::new(out, 2 + 3 * edges).arg(b"G.ADD").arg(graph);
                (0..edges).fold(line, |line, _| put_edge(line, self.draw.pair(&mut prng), edge_type));
            }
            GraphRequest::Query(GraphQuery::Distance) => {
                let Distances { source, targets, mut prng } = self.distances(key);
                let line = CommandLine::new(out, 6 + targets + self.budget_args()).arg(b"G.DIST").arg(graph);
                let line = put_node(line, source).arg(edge_type);
                let line = (0..targets).fold(line, |line, _| put_node(line, self.draw.node(&mut prng)));
                self.put_budget(line.arg(b"MAX").number(self.load.hops.into()));
            }
            GraphRequest::Query(GraphQuery::Page) => {
                let line = put_node(CommandLine::new(out, 6).arg(b"G.RANGE").arg(graph), self.node(key));
                line.arg(edge_type).arg(b"LIMIT").number(self.load.page.into());
            }
            GraphRequest::Query(GraphQuery::Mutual) => {
                let (a, b) = self.pair(key);
                let line = CommandLine::new(out, 6 + self.budget_args()).arg(b"G.MUTUAL").arg(graph);
                self.put_budget(put_node(put_node(line, a), b).arg(edge_type).arg(b"COUNT"));
            }
            GraphRequest::Query(GraphQuery::Edge) => {
                let (a, b, _) = self.edge(key);
                let line = CommandLine::new(out, 5).arg(b"G.GET").arg(graph);
                put_node(put_node(line, a).arg(edge_type), b);
            }
            GraphRequest::Query(GraphQuery::SecondDegree) => {
                let line = CommandLine::new(out, 5 + self.budget_args()).arg(b"G.DEG2").arg(graph);
                self.put_budget(put_node(line, self.node(key)).arg(edge_type).arg(b"COUNT"));
            }
            GraphRequest::Query(GraphQuery::Path) => {
                let (a, b) = self.pair(key);
                let line = CommandLine::new(out, 7 + self.budget_args()).arg(b"G.PATH").arg(graph);
                let line = put_node(put_node(line, a), b).arg(edge_type);
                self.put_budget(line.arg(b"MAX").number(self.load.hops.into()));
            }
        }
    }

    const fn budget_args(&self) -> u32 {
        if self.load.budget.is_some() { 2 } else { 0 }
    }

    fn put_budget(&self, line: CommandLine<'_, Vec<u8>>) {
        if let Some(budget) = self.load.budget {
            line.arg(b"BUDGET").number(budget.into());
        }
    }

    /// Returns the progress of a reply, in which the miss of a query with a budget means that the reply is partial.
    pub fn outcome(&self, progress: ReplyProgress) -> ReplyProgress {
        match (self.request, progress) {
            (GraphRequest::Query(query), ReplyProgress::Done { outcome: ReplyOutcome::Miss, value_bytes })
                if query.has_budget() =>
            {
                ReplyProgress::Done { outcome: ReplyOutcome::Partial, value_bytes }
            }
            (_, progress) => progress,
        }
    }
}

fn put_edge<'s>(
    line: CommandLine<'s, Vec<u8>>,
    (source, destination): (u64, u64),
    edge_type: &[u8],
) -> CommandLine<'s, Vec<u8>> {
    put_node(put_node(line, source).arg(edge_type), destination)
}

fn put_node(line: CommandLine<'_, Vec<u8>>, node: u64) -> CommandLine<'_, Vec<u8>> {
    line.arg(Decimal::new(node).as_slice())
}
