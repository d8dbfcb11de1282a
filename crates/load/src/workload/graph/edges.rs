//! The edges of a graph by their numbers, and the nodes of requests.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::prng::{Prng, split_mix};
use graph::{EdgeFormat, EdgeReader};

use super::super::fault::{FaultPlace, WorkloadFault};

/// Highest number of edges in a file.
pub const FILE_EDGES_MAX: usize = 1 << 28;
/// Bytes of a file that are read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Upper bounds of three of R-MAT's four parts (.57, .19, .19, .05), of 2^16.
const PARTS: [u64; 3] = [37_356, 49_807, 62_259];
/// Levels that one random number decides.
const LEVELS_AT_ONCE: u32 = 4;

/// Edges, each with a number.
#[derive(Clone, Debug, PartialEq)]
pub enum EdgeOrigin {
    /// An R-MAT graph with the parts .57, .19, .19 and .05 (Chakrabarti et al., SDM '04). Nodes are numbered from 1.
    Rmat {
        /// The graph has 2^scale nodes, some of them without an edge.
        scale: u32,
        /// Drawn edges for each node. Some of them are drawn more than once.
        edges_per_node: u32,
    },
    /// The edges in a file.
    File(EdgeFile),
}

impl EdgeOrigin {
    /// Returns the number of edges, those that occur several times included.
    pub fn count(&self) -> u64 {
        match self {
            Self::Rmat { scale, edges_per_node } => u64::from(*edges_per_node) << scale,
            Self::File(file) => file.edges.len() as u64,
        }
    }
}

/// A file of edges, with its content.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeFile {
    /// The file.
    pub path: PathBuf,
    edges: Arc<[(u64, u64)]>,
    /// The nodes, each of them once.
    nodes: Arc<[u64]>,
}

impl EdgeFile {
    /// Reads the file at `path`: source and destination on a line, separated by spaces or tabs. Comments begin with `#`
    /// or `%`.
    ///
    /// # Errors
    /// If the file cannot be read or has no edge, and the first line that is not an edge.
    pub fn read(path: &Path) -> Result<Self, WorkloadFault> {
        let fault = |line: u64, what: String, remedy: &str| {
            let place = FaultPlace::File { path: path.to_owned(), line: line as usize };
            WorkloadFault::new("", what, remedy).at(place)
        };
        let remedy = "name a file of edges that exists and is readable";
        let unreadable = |error| fault(1, format!("cannot read the file of edges: {error}"), remedy);
        let bad_line = |error: graph::EdgeLineError| {
            let text = error.to_string();
            let text = text.split_once(": ").map_or(&*text, |(_, cause)| cause);
            let (what, remedy) = text.rsplit_once("; ").unwrap_or((text, "correct the line"));
            fault(error.line, format!("cannot read an edge: {what}"), remedy)
        };
        let mut file = std::fs::File::open(path).map_err(unreadable)?;
        let (mut reader, mut edges) = (EdgeReader::new(EdgeFormat::List), Vec::new());
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = file.read(&mut chunk).map_err(unreadable)?;
            if read == 0 {
                break;
            }
            let mut input = &chunk[..read];
            while let Some(edge) = reader.next(&mut input) {
                let edge = edge.map_err(bad_line)?;
                edges.push((edge.source, edge.destination));
            }
            if edges.len() > FILE_EDGES_MAX {
                let what = format!("the file has more than {FILE_EDGES_MAX} edges");
                return Err(fault(1, what, "use a part of it"));
            }
        }
        if let Some(edge) = reader.finish() {
            let edge = edge.map_err(bad_line)?;
            edges.push((edge.source, edge.destination));
        }
        if edges.is_empty() {
            return Err(fault(1, "the file has no edge".to_owned(), "write source and destination on each line"));
        }
        let mut nodes: Vec<u64> = edges.iter().flat_map(|(source, destination)| [*source, *destination]).collect();
        nodes.sort_unstable();
        nodes.dedup();
        Ok(Self { path: path.to_owned(), edges: edges.into(), nodes: nodes.into() })
    }
}

/// Distribution of the nodes in requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endpoints {
    /// Ends of random edges: nodes with many edges are drawn more often.
    #[default]
    Degree,
    /// Every node with equal frequency; of an R-MAT graph also those without an edge.
    Uniform,
}

impl Endpoints {
    /// All distributions with their names.
    pub const NAMES: [(&'static str, Self); 2] = [("degree", Self::Degree), ("uniform", Self::Uniform)];

    /// Returns the name in files.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

/// Draws edges and nodes of a graph.
#[derive(Clone, Debug)]
pub struct EdgeDraw {
    origin: EdgeOrigin,
    endpoints: Endpoints,
    seed: u64,
}

impl EdgeDraw {
    /// Creates the draws of `origin`, which has at least one edge.
    pub fn new(origin: &EdgeOrigin, endpoints: Endpoints, seed: u64) -> Self {
        Self { origin: origin.clone(), endpoints, seed: split_mix(seed) }
    }

    /// Returns the number of edges.
    pub fn count(&self) -> u64 {
        self.origin.count()
    }

    /// Returns edge `number`, below [`EdgeDraw::count`]. Its ends differ.
    #[inline]
    pub fn edge(&self, number: u64) -> (u64, u64) {
        match &self.origin {
            EdgeOrigin::File(file) => file.edges[number as usize],
            EdgeOrigin::Rmat { scale, .. } => {
                let mut prng = Prng::new(self.seed ^ split_mix(number));
                loop {
                    let (source, destination) = rmat(&mut prng, *scale);
                    if source != destination {
                        return (source + 1, destination + 1);
                    }
                }
            }
        }
    }

    /// Draws a random edge of the graph.
    #[inline]
    pub fn any_edge(&self, prng: &mut Prng) -> (u64, u64) {
        self.edge(prng.below(self.count()))
    }

    /// Draws a node.
    #[inline]
    pub fn node(&self, prng: &mut Prng) -> u64 {
        match (self.endpoints, &self.origin) {
            (Endpoints::Degree, _) => {
                let (source, destination) = self.any_edge(prng);
                if prng.next_u64() >> 63 == 0 { source } else { destination }
            }
            (Endpoints::Uniform, EdgeOrigin::File(file)) => file.nodes[prng.below(file.nodes.len() as u64) as usize],
            (Endpoints::Uniform, EdgeOrigin::Rmat { scale, .. }) => 1 + prng.below(1 << scale),
        }
    }

    /// Draws two different nodes.
    #[inline]
    pub fn pair(&self, prng: &mut Prng) -> (u64, u64) {
        let first = self.node(prng);
        loop {
            // Every edge has two different ends, so the second node is found.
            let second = self.node(prng);
            if second != first {
                return (first, second);
            }
        }
    }
}

/// Draws an edge of an R-MAT graph with 2^`scale` nodes from 0 on, without a branch for each level.
#[inline]
fn rmat(prng: &mut Prng, scale: u32) -> (u64, u64) {
    let (mut source, mut destination, mut word) = (0, 0, 0);
    for level in 0..scale {
        if level.is_multiple_of(LEVELS_AT_ONCE) {
            word = prng.next_u64();
        }
        let part = word & 0xFFFF;
        word >>= 16;
        let [right, down, both] = PARTS.map(|bound| u64::from(part >= bound));
        // The second part is to the right, the third one down, and the fourth one both.
        source = source << 1 | down;
        destination = destination << 1 | (right ^ down ^ both);
    }
    (source, destination)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(endpoints: Endpoints) -> EdgeDraw {
        EdgeDraw::new(&EdgeOrigin::Rmat { scale: 10, edges_per_node: 8 }, endpoints, 7)
    }

    fn file(name: &str, text: &str) -> Result<EdgeFile, WorkloadFault> {
        let path = std::env::temp_dir().join(format!("gannet-edges-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let read = EdgeFile::read(&path);
        std::fs::remove_file(&path).unwrap();
        read
    }

    #[test]
    fn graph_of_another_thread_has_other_edges() {
        let (one, other) = (draw(Endpoints::Degree), draw(Endpoints::Uniform));
        let edges: Vec<(u64, u64)> = (0..one.count()).map(|number| one.edge(number)).collect();
        assert_eq!(edges.len(), 8 << 10);
        assert!((0..other.count()).all(|number| other.edge(number) == edges[number as usize]));
        assert!(edges.iter().all(|(a, b)| a != b && (1..=1024).contains(a) && (1..=1024).contains(b)));
        let seeded = EdgeDraw::new(&EdgeOrigin::Rmat { scale: 10, edges_per_node: 8 }, Endpoints::Degree, 8);
        assert!((0..100).any(|number| seeded.edge(number) != one.edge(number)));
    }

    #[test]
    fn parts_of_rmat_have_other_shares() {
        let mut prng = Prng::new(1);
        let mut parts = [0u32; 4];
        for _ in 0..100_000 {
            let (source, destination) = rmat(&mut prng, 1);
            parts[(source * 2 + destination) as usize] += 1;
        }
        for (part, share) in parts.into_iter().zip([0.57, 0.19, 0.19, 0.05]) {
            assert!((f64::from(part) / 100_000.0 - share).abs() < 0.006, "{parts:?}");
        }
    }

    #[test]
    fn endpoints_by_degree_are_uniform() {
        // Node 1 has four of eight ends.
        let star = EdgeOrigin::File(file("star", "1 2\n1 3\n1 4\n1 5\n").unwrap());
        let share = |endpoints| {
            let draw = EdgeDraw::new(&star, endpoints, 1);
            let mut prng = Prng::new(3);
            (0..10_000).filter(|_| draw.node(&mut prng) == 1).count()
        };
        assert!(share(Endpoints::Degree).abs_diff(5000) < 300, "{}", share(Endpoints::Degree));
        assert!(share(Endpoints::Uniform).abs_diff(2000) < 300, "{}", share(Endpoints::Uniform));
        let draw = EdgeDraw::new(&star, Endpoints::Degree, 1);
        let mut prng = Prng::new(4);
        assert!((0..1000).map(|_| draw.pair(&mut prng)).all(|(a, b)| a != b));
    }

    #[test]
    fn bad_line_of_a_file_is_skipped() {
        let edges = file("good", "# comment\n1 2\n\n3\t4\n5 6").unwrap();
        assert_eq!((&edges.edges[..], &edges.nodes[..]), (&[(1, 2), (3, 4), (5, 6)][..], &[1, 2, 3, 4, 5, 6][..]));
        let message = |name, text| file(name, text).unwrap_err().to_string();
        let of_word = message("word", "1 2\n3 x\n");
        assert!(
            of_word.contains(":2: cannot read an edge: the destination 'x' is not a number; correct it"),
            "{of_word}"
        );
        assert!(message("self", "4 4").contains(":1: cannot read an edge: it leads from node 4 to itself; remove"));
        assert!(message("zero", "0 4\n").contains("node identifier 0 is reserved; use identifiers from 1"));
        assert!(message("empty", "# nothing\n").contains("the file has no edge; write source and destination"));
        let missing = EdgeFile::read(Path::new("/nonexistent/edges")).unwrap_err().to_string();
        assert!(missing.starts_with("/nonexistent/edges:1: cannot read the file of edges: "), "{missing}");
    }
}
