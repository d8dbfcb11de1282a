//! Loads of a graph store: which graph is loaded, which queries are sent about it, and which edges are written
//! meanwhile.
//!
//! ```text
//!   EdgeOrigin   R-MAT by a seed, or a file  --\
//!                                               +->  EdgeDraw  --->  edges of the prefill, ends of queries and writes
//!   Endpoints    by degree, or uniform       --/
//! ```
//!
//! Invariant: an edge follows from its number, and an R-MAT graph is never in memory. So each thread, agent and run
//! has the same graph.

pub mod edges;

pub use edges::{EdgeDraw, EdgeFile, EdgeOrigin, Endpoints};

/// Highest scale of an R-MAT graph: it has 2^scale nodes.
pub const SCALE_MAX: u32 = 31;
/// Highest number of drawn edges for each node of an R-MAT graph.
pub const EDGES_PER_NODE_MAX: u32 = 1024;
/// Highest number of destinations of a distance query.
pub const TARGETS_MAX: u32 = 4096;
/// Highest number of neighbours of a page.
pub const PAGE_MAX: u32 = 4096;
/// Longest distance in edges.
pub const HOPS_MAX: u32 = 3;
/// Highest number of edges that a query may touch.
pub const BUDGET_MAX: u32 = 1 << 20;
/// Highest number of edges of one write.
pub const WRITE_EDGES_MAX: u32 = 1024;
/// Highest number of edges written per second.
pub const WRITES_PER_S_MAX: f64 = 1e7;
/// Longest name of a graph or an edge type, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Number of edges of one request of a prefill.
pub const FILL_EDGES: u64 = 100;

/// A graph and the requests for it. The edge type is undirected.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphLoad {
    /// Name of the graph.
    pub name: String,
    /// Name of the edge type.
    pub edge_type: String,
    /// The edges that a prefill adds, and from which ends are drawn.
    pub origin: EdgeOrigin,
    /// Distribution of the nodes in requests.
    pub endpoints: Endpoints,
    /// The queries, each with its relative frequency.
    pub queries: Vec<(GraphQuery, f64)>,
    /// Lowest and highest number of destinations of a distance query.
    pub targets: (u32, u32),
    /// Highest number of neighbours of a page.
    pub page: u32,
    /// Longest distance and path, in edges.
    pub hops: u32,
    /// Number of edges that a query may touch; `None` for the server's default.
    pub budget: Option<u32>,
    /// Edges written per second beside the queries, on a thread and a connection of their own; 0 for none.
    pub writes_per_s: f64,
    /// Number of edges of one write.
    pub write_edges: u32,
}

impl Default for GraphLoad {
    fn default() -> Self {
        Self {
            name: "load".into(),
            edge_type: "knows".into(),
            origin: EdgeOrigin::Rmat { scale: 16, edges_per_node: 16 },
            endpoints: Endpoints::Degree,
            queries: vec![(GraphQuery::Distance, 1.0)],
            targets: (10, 50),
            page: 100,
            hops: 3,
            budget: None,
            writes_per_s: 0.0,
            write_edges: 1,
        }
    }
}

impl GraphLoad {
    /// Returns the number of requests of a prefill.
    pub fn fill_requests(&self) -> u64 {
        self.origin.count().div_ceil(FILL_EDGES)
    }

    /// Returns the number of write requests per second beside the queries.
    pub fn write_requests_per_s(&self) -> f64 {
        self.writes_per_s / f64::from(self.write_edges)
    }
}

/// A kind of request for a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GraphQuery {
    /// `G.DIST`: the distances from one node to several.
    Distance,
    /// `G.RANGE`: a page of neighbours.
    Page,
    /// `G.MUTUAL COUNT`: the number of common neighbours.
    Mutual,
    /// `G.GET`: whether an edge exists. Every second request asks for an edge of the graph, the others for a pair of
    /// drawn nodes.
    Edge,
    /// `G.DEG2 COUNT`: the number of nodes at distance 2.
    SecondDegree,
    /// `G.PATH`: one shortest path.
    Path,
    /// `G.ADD`: adds edges between drawn nodes.
    Add,
}

impl GraphQuery {
    /// All kinds with their names, which results contain too.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("dist", Self::Distance),
        ("page", Self::Page),
        ("mutual", Self::Mutual),
        ("edge", Self::Edge),
        ("deg2", Self::SecondDegree),
        ("path", Self::Path),
        ("g.add", Self::Add),
    ];

    /// Returns the name in files and results.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Returns the kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, query)| *query)
    }

    /// Returns whether the reply states if a budget cut the query short.
    pub const fn has_budget(self) -> bool {
        matches!(self, Self::Distance | Self::Mutual | Self::SecondDegree | Self::Path)
    }
}
