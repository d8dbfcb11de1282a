//! A graph as plain maps, which the store must equal.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use base::prng::Prng;
use gannet_graph::*;

pub const SEGMENT_BYTES: usize = 256 << 10;

pub fn seed() -> u64 {
    let seed = std::env::var("GRAPH_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("repeat with GRAPH_SEED={seed}");
    seed
}

pub const CONFIG: GraphStoreConfig = GraphStoreConfig {
    segment_bytes: SEGMENT_BYTES,
    readers_max: 4,
    needs_commits: false,
    hash_seed: 5,
    index_bytes_max: usize::MAX,
};

/// Memory that a test can read while a store uses it.
pub struct Shared(pub Arc<Box<[AtomicU32]>>);

impl Backing for Shared {
    fn words(&self) -> &[AtomicU32] {
        &self.0
    }
}

pub fn new_store(segments: usize) -> GraphStore {
    GraphStore::new(anonymous(segments * SEGMENT_BYTES), &CONFIG).expect("enough segments")
}

/// The types of a test's graph: undirected with attributes, a directed one with its inverse by time, directed alone.
pub fn declare(graph: &Graph) -> (Vec<TypeId>, Reference) {
    let mut writer = graph.writer();
    let mut declare = |name: &str, direction, order, schema: &[&str]| {
        let schema = schema.iter().map(|name| (*name).to_owned()).collect();
        writer.declare_type(name, &EdgeTypeConfig { direction, order, cap: 0, schema }).expect("valid")
    };
    let knows = declare("knows", Direction::Undirected, ListOrder::Id, &["since"]);
    let follows = declare("follows", Direction::Directed, ListOrder::Time, &[]);
    let followed = declare("followed", Direction::InverseOf("follows".into()), ListOrder::Time, &[]);
    let likes = declare("likes", Direction::Directed, ListOrder::Id, &["rank"]);
    let reverses = [(knows, knows), (follows, followed), (followed, follows)].into_iter().collect();
    (vec![knows, follows, followed, likes], Reference { reverses, ..Reference::default() })
}

pub fn draw(prng: &mut Prng, types: &[TypeId], nodes: u64) -> Change {
    let ty = prng.below(types.len() as u64) as usize;
    Change::draw(prng, types[ty], nodes, ty == 0 || ty == 3)
}

pub fn check_edges(view: &View<'_>, model: &Reference, types: &[TypeId], nodes: u64) {
    let mut list = NeighbourList::default();
    for ty in types {
        for source in 1..=nodes {
            let is_hidden = model.archived.contains(&source);
            let count = if is_hidden { 0 } else { model.count(*ty, source) };
            assert_eq!(view.count(source, *ty), Ok(count as u32), "degree of {source}");
            let mut found = Vec::new();
            view.neighbours(source, *ty, |node| {
                found.push(node);
                true
            })
            .expect("valid");
            assert_eq!(found, model.neighbours(*ty, source), "neighbours of {source} by {ty:?}");
            let mut numbered = Vec::new();
            view.open(source, *ty).expect("valid").number_runs(|run| {
                numbered.extend(run.iter().map(|number| view.identifier(*number)));
                true
            });
            assert_eq!(numbered, found, "neighbours of {source} by {ty:?}, by their numbers");
            view.neighbours_into(source, *ty, &mut list).expect("valid");
            assert_eq!(list.nodes(), found, "neighbours of {source} by {ty:?}, at once");
        }
    }
}

pub fn check_values(view: &View<'_>, model: &Reference, prng: &mut Prng, types: &[TypeId], nodes: u64) {
    for _ in 0..2000 {
        let (ty, source) = (types[prng.below(types.len() as u64) as usize], 1 + prng.below(nodes));
        let destination = 1 + prng.below(nodes);
        let hidden = [source, destination].iter().any(|node| model.archived.contains(node));
        let expected = model.value(ty, source, destination).filter(|_| !hidden);
        let got = view.edges(source, ty, &[destination]).expect("valid").remove(0);
        let as_model = |value: &Value| (value.state.1, value.state.0, value.attributes.1.clone());
        assert_eq!(got.map(|edge| (edge.state, edge.time_ms, edge.attributes)), expected.map(as_model));
    }
}

/// A change that owns its attributes.
#[derive(Clone, Debug)]
pub struct Change {
    pub source: u64,
    pub ty: TypeId,
    pub destination: u64,
    pub time_ms: u64,
    pub action: Action,
}

#[derive(Clone, Debug)]
pub enum Action {
    Add(Vec<u8>),
    AddNegative(Vec<u8>),
    Remove,
    Archive,
    Restore,
}

impl Change {
    pub fn view(&self) -> EdgeChange<'_> {
        let action = match &self.action {
            Action::Add(attributes) => EdgeAction::Add(attributes),
            Action::AddNegative(attributes) => EdgeAction::AddNegative(attributes),
            Action::Remove => EdgeAction::Remove,
            Action::Archive => EdgeAction::Archive,
            Action::Restore => EdgeAction::Restore,
        };
        let (source, edge_type, destination) = (self.source, self.ty, self.destination);
        EdgeChange { source, edge_type, destination, time_ms: self.time_ms, action }
    }

    /// Draws a change among `nodes` nodes. Low identifiers are drawn more often, so that some lists are long.
    pub fn draw(prng: &mut Prng, ty: TypeId, nodes: u64, has_attributes: bool) -> Self {
        let node = |prng: &mut Prng| 1 + if prng.chance(1, 2) { prng.below(nodes) } else { prng.below(nodes / 16 + 1) };
        let source = node(prng);
        let mut destination = node(prng);
        while destination == source {
            destination = node(prng);
        }
        let mut attributes = vec![0; if has_attributes && prng.chance(1, 2) { prng.below(9) as usize } else { 0 }];
        prng.fill(&mut attributes);
        let action = match prng.below(10) {
            0..6 => Action::Add(attributes),
            6 => Action::AddNegative(attributes),
            7 => Action::Remove,
            8 => Action::Archive,
            _ => Action::Restore,
        };
        Self { source, ty, destination, time_ms: prng.below(1000), action }
    }
}

/// The value of an edge: its two registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub state: (u64, EdgeState),
    pub attributes: (u64, Vec<u8>),
}

/// The graph.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    pub lists: HashMap<(TypeId, u64), BTreeMap<u64, Value>>,
    pub numbers: HashMap<u64, usize>,
    pub archived: BTreeSet<u64>,
    /// The reverse of each type.
    pub reverses: HashMap<TypeId, TypeId>,
}

impl Reference {
    fn number(&mut self, node: u64) {
        let next = self.numbers.len();
        self.numbers.entry(node).or_insert(next);
    }

    pub fn apply(&mut self, change: &Change) {
        let state = match &change.action {
            Action::Add(_) | Action::Restore => EdgeState::Live,
            Action::AddNegative(_) => EdgeState::Negative,
            Action::Remove => EdgeState::Removed,
            Action::Archive => EdgeState::Archived,
        };
        let attributes = match &change.action {
            Action::Add(attributes) | Action::AddNegative(attributes) => (change.time_ms, attributes.clone()),
            Action::Remove => (change.time_ms, Vec::new()),
            Action::Archive | Action::Restore => (0, Vec::new()),
        };
        self.number(change.source);
        self.number(change.destination);
        let own = Value { state: (change.time_ms, state), attributes };
        self.merge(change.ty, change.source, change.destination, own.clone());
        if let Some(reverse) = self.reverses.get(&change.ty) {
            self.merge(*reverse, change.destination, change.source, own);
        }
    }

    fn merge(&mut self, ty: TypeId, source: u64, destination: u64, own: Value) {
        let value = self.lists.entry((ty, source)).or_default().entry(destination).or_insert_with(|| own.clone());
        value.state = value.state.max(own.state);
        value.attributes = value.attributes.clone().max(own.attributes);
    }

    pub fn value(&self, ty: TypeId, source: u64, destination: u64) -> Option<&Value> {
        self.lists.get(&(ty, source))?.get(&destination)
    }

    /// Returns the live neighbours that are not archived, in the order of node numbers.
    pub fn neighbours(&self, ty: TypeId, source: u64) -> Vec<u64> {
        self.in_state(ty, source, EdgeState::Live)
    }

    pub fn in_state(&self, ty: TypeId, source: u64, state: EdgeState) -> Vec<u64> {
        if self.archived.contains(&source) {
            return Vec::new();
        }
        let list = self.lists.get(&(ty, source)).into_iter().flatten();
        let shown = list.filter(|(node, value)| value.state.1 == state && !self.archived.contains(node));
        let mut nodes: Vec<u64> = shown.map(|(node, _)| *node).collect();
        nodes.sort_by_key(|node| self.numbers[node]);
        nodes
    }

    /// Returns the number of live edges, archived neighbours included.
    pub fn count(&self, ty: TypeId, source: u64) -> usize {
        let list = self.lists.get(&(ty, source)).into_iter().flatten();
        list.filter(|(_, value)| value.state.1 == EdgeState::Live).count()
    }

    /// Returns the distance of each node within `max` of the source.
    pub fn distances(&self, ty: TypeId, source: u64, max: u8) -> HashMap<u64, u8> {
        let mut distances = HashMap::from([(source, 0)]);
        let mut ring = vec![source];
        for distance in 1..=max {
            let mut next = Vec::new();
            for node in ring {
                for neighbour in self.neighbours(ty, node) {
                    distances.entry(neighbour).or_insert_with(|| {
                        next.push(neighbour);
                        distance
                    });
                }
            }
            ring = next;
        }
        distances
    }

    /// Returns all paths without loops of at most `max` edges, in the order of the store.
    pub fn paths(&self, ty: TypeId, source: u64, destination: u64, max: usize) -> Vec<Vec<u64>> {
        if source == destination {
            return vec![vec![source]];
        }
        let mut all = Vec::new();
        let mut open = vec![vec![source]];
        for _ in 0..max {
            let mut next = Vec::new();
            for path in open {
                for node in self.neighbours(ty, path[path.len() - 1]) {
                    if path.contains(&node) {
                        continue;
                    }
                    let longer = [&path[..], &[node]].concat();
                    if node == destination { all.push(longer) } else { next.push(longer) }
                }
            }
            open = next;
        }
        all
    }
}
