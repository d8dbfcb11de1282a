//! Distances, common neighbours, second degrees, pages and paths of real and random graphs, compared with the answers
//! of networkx in `answers`. `GANNET_GRAPH_ANSWERS` names another file of `lab/graph_oracle.py`, of a whole graph.
#![cfg(not(shuttle))]

use gannet_graph::*;

/// The edges of a step: few, so that most queries take several steps.
const STEP: u32 = 200;
const BUDGET: u64 = u64::MAX;

/// A graph that networkx answered questions about.
struct Answers {
    is_directed: bool,
    edges: Vec<(u64, u64)>,
    /// The words of each question with its answer.
    questions: Vec<Vec<String>>,
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("'{word}' is no number"))
}

impl Answers {
    fn read(text: &str) -> Self {
        let mut lines = text.lines().map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let head = lines.next().expect("a first line");
        let (mut edges, mut questions) = (Vec::new(), Vec::new());
        for words in lines {
            if words[0] == "edges" {
                edges.extend(words[2..].iter().map(|to| (number(&words[1]), number(to))));
            } else {
                questions.push(words);
            }
        }
        assert_eq!(edges.len() as u64, number(&head[2]), "the file has all edges");
        Self { is_directed: head[0] == "directed", edges, questions }
    }

    fn config(&self) -> EdgeTypeConfig {
        let direction = if self.is_directed { Direction::Directed } else { Direction::Undirected };
        EdgeTypeConfig { direction, ..Default::default() }
    }

    fn store(&self) -> (GraphStore, Graph, TypeId) {
        let bytes = (96 << 20) + self.edges.len() * 100;
        let store = GraphStore::new(anonymous(bytes), &GraphStoreConfig::default()).expect("enough");
        let graph = store.create_graph("real").expect("room");
        let knows = graph.writer().declare_type("knows", &self.config()).expect("valid");
        (store, graph, knows)
    }

    /// Adds the edges one at a time, with others that are removed again, and compacts.
    fn changed(&self) -> (GraphStore, Graph, TypeId) {
        let (store, graph, edge_type) = self.store();
        let mut writer = graph.writer();
        let mut change = |(source, destination), time_ms, action| {
            let change = EdgeChange { source, edge_type, destination, time_ms, action };
            while writer.apply(&change) == Err(GraphError::NoSpace) {
                while writer.compact(95, 1 << 20).expect("the reserve suffices") == CompactionStep::More {}
            }
        };
        for (at, (source, destination)) in self.edges.iter().copied().enumerate() {
            let passing = (source, 1_000_000_000 + at as u64 % 7);
            change(passing, 1 + at as u64 * 3, EdgeAction::Add(b""));
            change((source, destination), 1, EdgeAction::Add(b""));
            change(passing, 2 + at as u64 * 3, EdgeAction::Remove);
        }
        writer.seal();
        while writer.compact(100, 1 << 20).expect("the reserve suffices") == CompactionStep::More {}
        drop(writer);
        (store, graph, edge_type)
    }

    fn loaded(&self) -> (GraphStore, Graph, TypeId) {
        let (store, graph, edge_type) = self.store();
        let mut batch = BulkBatch::new(edge_type, self.edges.len());
        self.edges.iter().for_each(|(a, b)| batch.push(*a, *b, 1, b"").expect("room"));
        let mut writer = graph.writer();
        let mut bulk = BulkWriter::new(&mut writer);
        assert!(bulk.begin(batch).is_ok());
        while bulk.step(10_000).expect("room") == BulkStep::More {}
        let (report, _) = bulk.finish().expect("complete");
        assert_eq!(report.edges_changed, self.edges.len() as u64);
        drop(writer);
        (store, graph, edge_type)
    }

    /// Asks the engine all questions. Returns how many of each kind there were.
    fn compare(&self, (store, graph, knows): &(GraphStore, Graph, TypeId)) -> [usize; 5] {
        let mut reader = store.reader().expect("one of many");
        let guard = reader.enter();
        let (view, knows, mut asked) = (guard.view(graph), *knows, [0; 5]);
        for words in &self.questions {
            let numbers: Vec<u64> =
                words[1..].iter().filter(|word| !word.contains(':')).map(|word| number(word)).collect();
            let source = numbers[0];
            let (kind, found, expected) = match words[0].as_str() {
                "distance" => (0, distances(&view, source, knows, &words[2..]), words[2..].to_vec()),
                "second" => (1, second(&view, source, knows), words[2..].to_vec()),
                "page" => (2, pages(&view, source, knows), words[2..].to_vec()),
                "mutual" => (3, mutual(&view, [source, numbers[1]], knows), words[3..].to_vec()),
                "paths" => (4, paths(&view, (source, numbers[1]), knows), words[3..].to_vec()),
                other => panic!("no question is '{other}'"),
            };
            assert_eq!(found, expected, "{}", words.join(" "));
            asked[kind] += 1;
        }
        asked
    }
}

/// Returns the number of nodes and their sum, as the file has them.
fn count_and_sum(nodes: &[u64]) -> Vec<String> {
    vec![nodes.len().to_string(), nodes.iter().sum::<u64>().to_string()]
}

fn distances(view: &View<'_>, source: u64, ty: TypeId, words: &[String]) -> Vec<String> {
    let targets: Vec<u64> = words.iter().map(|word| number(word.split(':').next().expect("a node"))).collect();
    let mut query = DistanceQuery::begin(view, Scratch::new(), source, ty, &targets, 3, BUDGET).expect("valid");
    while query.step(view, STEP) == QueryStep::More {}
    let (found, _) = query.finish();
    assert!(!found.is_partial);
    let shown = |hops: Option<u8>| hops.map_or_else(|| "-".to_owned(), |hops| hops.to_string());
    targets.iter().zip(found.distances).map(|(node, hops)| format!("{node}:{}", shown(hops))).collect()
}

fn second(view: &View<'_>, source: u64, ty: TypeId) -> Vec<String> {
    let mut query = SecondDegreeQuery::begin(view, Scratch::new(), source, ty, BUDGET).expect("valid");
    while query.step(view, STEP) == QueryStep::More {}
    let (found, _) = query.finish();
    let (mut cursor, mut nodes) = (Cursor::START, Vec::new());
    loop {
        let (next, page) = found.page(view, cursor, 97).expect("its cursor");
        nodes.extend(page);
        cursor = next;
        if cursor == Cursor::START {
            break;
        }
    }
    assert_eq!((found.count(), found.is_partial), (nodes.len(), false));
    count_and_sum(&nodes)
}

fn pages(view: &View<'_>, source: u64, ty: TypeId) -> Vec<String> {
    let all = |is_reversed| {
        let (mut cursor, mut nodes) = (Cursor::START, Vec::new());
        loop {
            let options = PageOptions { limit: 7, is_reversed, ..Default::default() };
            let mut query = PageQuery::begin(view, source, ty, cursor, &options).expect("its cursor");
            while query.step(view, STEP) == QueryStep::More {}
            let page = query.finish(view);
            nodes.extend(page.edges.iter().map(|edge| edge.node));
            cursor = page.next;
            if cursor == Cursor::START {
                return nodes;
            }
        }
    };
    let (nodes, mut reversed) = (all(false), all(true));
    reversed.reverse();
    assert_eq!(nodes, reversed);
    let mut whole = NeighbourList::default();
    view.neighbours_into(source, ty, &mut whole).expect("valid");
    assert_eq!(nodes, whole.nodes());
    assert_eq!(view.count(source, ty), Ok(nodes.len() as u32));
    count_and_sum(&nodes)
}

fn mutual(view: &View<'_>, nodes: [u64; 2], ty: TypeId) -> Vec<String> {
    let lists = nodes.map(|node| (node, ty));
    let begin = || {
        SetQuery::begin(view, SetOperation::Intersection, &lists, Cursor::START, 1 << 20, BUDGET).expect("two lists")
    };
    let finish = |mut query: SetQuery| {
        while query.step(view, STEP) == QueryStep::More {}
        query.finish(view)
    };
    let common = finish(begin()).nodes;
    assert_eq!(finish(begin().counting()).count, common.len() as u64);
    count_and_sum(&common)
}

fn paths(view: &View<'_>, (source, destination): (u64, u64), ty: TypeId) -> Vec<String> {
    let mut query = PathQuery::begin(view, Scratch::new(), source, destination, ty, 3, 1 << 20, BUDGET).expect("valid");
    while query.step(view, STEP) == QueryStep::More {}
    let (found, _) = query.finish(view);
    assert!(!found.is_partial && found.paths.is_sorted_by_key(Vec::len), "the shortest paths come first");
    let weight = |path: &Vec<u64>| path.iter().zip(1..).map(|(node, place)| node * place).sum::<u64>();
    vec![found.paths.len().to_string(), found.paths.iter().map(weight).sum::<u64>().to_string()]
}

fn check(text: &str) {
    let answers = Answers::read(text);
    let asked = answers.compare(&answers.loaded());
    assert!(asked.iter().all(|count| *count > 5), "{asked:?}");
    assert_eq!(answers.compare(&answers.changed()), asked);
}

#[test]
fn web_of_trust_has_the_distances_common_neighbours_second_degrees_pages_and_paths_of_networkx() {
    check(include_str!("answers/pgp.txt"));
}

#[test]
fn mail_network_has_the_distances_common_neighbours_second_degrees_pages_and_paths_of_networkx() {
    check(include_str!("answers/enron.txt"));
}

#[test]
fn random_directed_graph_has_the_distances_common_neighbours_second_degrees_pages_and_paths_of_networkx() {
    check(include_str!("answers/random.txt"));
}

#[test]
fn answers_that_the_environment_names_are_those_of_the_engine() {
    if let Some(path) = std::env::var_os("GANNET_GRAPH_ANSWERS") {
        check(&std::fs::read_to_string(path).expect("the file of GANNET_GRAPH_ANSWERS"));
    }
}
