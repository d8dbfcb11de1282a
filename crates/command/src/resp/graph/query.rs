//! Queries of graphs: their words, their steps and their replies. A query holds no reference into the store.

use super::fault::GraphFault;
use super::words::{RequestWords, attributes_of};
use crate::keyspace::graphs::{GraphCounters, GraphQueryKind, Scratches};
use crate::memory::budget::Budget;
use crate::resp::state::graph_work::{EdgesQuery, GraphQuery, SecondForm, SetForm};
use graph::limits::{BUDGET_EDGES_DEFAULT, DISTANCE_MAX, SETS_MAX};
use graph::{
    Cursor, DistanceQuery, EdgeState, EdgeView, Graph, GraphError, ListPage, PageOptions, PageQuery, PathQuery,
    QueryStep, SecondDegree, SecondDegreeCache, SecondDegreeQuery, SetOperation, SetPage, SetQuery, TypeId, View,
};
use protocol::resp::{Version, reply};
use std::sync::Arc;

/// The default of `LIMIT`.
const LIMIT: u64 = 100;
/// The maximum of `LIMIT`, of `K` and of the destinations of one request.
pub(crate) const LIMIT_MAX: u64 = 4096;
/// The maximum of `BUDGET`, in edges. It bounds the memory of a query.
const BUDGET_MAX: u64 = 1 << 20;
/// The number of edges that the look-up of one edge counts as: it takes up to some us in a long list.
const EDGES_A_LOOKUP: u32 = 64;
/// The default of `K` of `G.PATH`.
const PATHS: u64 = 1;
/// The default of `K` of `G.SUGGEST`.
const SUGGESTIONS: u64 = 10;
/// The default of `MAX`.
const DISTANCE: u64 = DISTANCE_MAX as u64;

/// The surroundings of a query in one visit.
pub(super) struct Surroundings<'q, 'v> {
    pub(super) graph: &'q Graph,
    pub(super) view: View<'v>,
    pub(super) version: Version,
    pub(super) counters: &'q GraphCounters,
}

/// The memory of a worker that its queries share.
pub(super) struct WorkerParts<'w> {
    pub(super) scratches: &'w mut Scratches,
    pub(super) cache: &'w mut SecondDegreeCache,
    /// Client memory.
    pub(super) budget: &'w Arc<Budget>,
}

/// The options that several queries have.
struct QueryOptions {
    limit: usize,
    cursor: Cursor,
    budget: u64,
    count: bool,
    stale: u64,
    most: u8,
    k: Option<usize>,
}

impl QueryOptions {
    /// Parses the options with these names, up to the end of the words.
    fn read<'a, W: Iterator<Item = &'a [u8]> + Clone>(
        words: &mut RequestWords<W>,
        names: &[&'static str],
    ) -> Result<Self, GraphFault> {
        let mut options = Self {
            limit: LIMIT as usize,
            cursor: Cursor::START,
            budget: BUDGET_EDGES_DEFAULT,
            count: false,
            stale: 0,
            most: DISTANCE as u8,
            k: None,
        };
        while words.peek().is_some() {
            let Some(name) = names.iter().find(|name| words.skip(name.as_bytes())) else {
                words.end()?;
                break;
            };
            match *name {
                "limit" => options.limit = words.number("LIMIT", LIMIT_MAX)? as usize,
                "cursor" => options.cursor = cursor(words)?,
                "budget" => options.budget = words.number("BUDGET", BUDGET_MAX)?,
                "count" => options.count = true,
                "stale" => options.stale = words.count("STALE")?,
                "max" => options.most = words.number("MAX", DISTANCE)? as u8,
                _ => options.k = Some(words.number("K", LIMIT_MAX)? as usize),
            }
        }
        Ok(options)
    }
}

fn cursor<'a, W: Iterator<Item = &'a [u8]> + Clone>(words: &mut RequestWords<W>) -> Result<Cursor, GraphFault> {
    let word = std::str::from_utf8(words.next("a cursor")?).map_err(|_| GraphError::BadCursor)?;
    Ok(word.parse()?)
}

/// Begins a query of this kind from the words after the graph's name. Returns `None` if all scratch memories of the
/// worker are lent.
pub(super) fn begin<'a, W: Iterator<Item = &'a [u8]> + Clone>(
    around: &Surroundings<'_, '_>,
    worker: &mut WorkerParts<'_>,
    kind: GraphQueryKind,
    operation: SetOperation,
    mut words: RequestWords<W>,
) -> Result<Option<GraphQuery>, GraphFault> {
    let (graph, view) = (around.graph, &around.view);
    let query = match kind {
        GraphQueryKind::Edge => GraphQuery::Edges(edges(around, &mut words)?),
        GraphQueryKind::Count => {
            let (node, ty) = (words.node()?, words.edge_type(graph)?);
            words.end()?;
            let mut out = Vec::new();
            reply::int(&mut out, view.count(node, ty)?.into());
            GraphQuery::Ready(out)
        }
        GraphQueryKind::Page => page(around, &mut words)?,
        GraphQueryKind::Mutual => {
            let nodes = [words.node()?, words.node()?];
            let ty = words.edge_type(graph)?;
            let options = QueryOptions::read(&mut words, &["limit", "count", "budget"])?;
            let lists = nodes.map(|node| (node, ty));
            let (limit, budget) = (options.limit, options.budget);
            let query = SetQuery::begin(view, SetOperation::Intersection, &lists, Cursor::START, limit, budget)?;
            if options.count {
                GraphQuery::Set(query.counting(), SetForm::MutualCount)
            } else {
                GraphQuery::Set(query, SetForm::Mutual)
            }
        }
        GraphQueryKind::Sets => {
            let mut lists = Vec::new();
            while words.is_number() {
                let node = words.node()?;
                lists.push((node, words.edge_type(graph)?));
                if lists.len() > SETS_MAX {
                    return Err(GraphError::BadSetCount(lists.len()).into());
                }
            }
            let options = QueryOptions::read(&mut words, &["cursor", "limit"])?;
            let query = SetQuery::begin(view, operation, &lists, options.cursor, options.limit, u64::MAX)?;
            GraphQuery::Set(query, SetForm::Page)
        }
        _ => return begin_walk(around, worker, kind, words),
    };
    Ok(Some(query))
}

/// Begins a query that needs scratch memory. Returns `None` if all are lent.
fn begin_walk<'a, W: Iterator<Item = &'a [u8]> + Clone>(
    around: &Surroundings<'_, '_>,
    worker: &mut WorkerParts<'_>,
    kind: GraphQueryKind,
    mut words: RequestWords<W>,
) -> Result<Option<GraphQuery>, GraphFault> {
    let (graph, view) = (around.graph, &around.view);
    let source = words.node()?;
    let destination = if kind == GraphQueryKind::Path { Some(words.node()?) } else { None };
    let ty = words.edge_type(graph)?;
    let mut targets = Vec::new();
    if kind == GraphQueryKind::Distance {
        while targets.is_empty() || words.is_number() {
            targets.push(words.node()?);
            if targets.len() as u64 > LIMIT_MAX {
                return Err(GraphFault::NotNumber("destinations", targets.len().to_string().into(), 1, LIMIT_MAX));
            }
        }
    }
    let names: &[&str] = match kind {
        GraphQueryKind::Distance => &["max", "budget"],
        GraphQueryKind::Path => &["max", "k", "budget"],
        GraphQueryKind::SecondDegree => &["count", "cursor", "limit", "budget", "stale"],
        _ => &["k", "budget"],
    };
    let options = QueryOptions::read(&mut words, names)?;
    let form = if options.count { SecondForm::Count } else { SecondForm::Page(options.cursor, options.limit) };
    if kind == GraphQueryKind::SecondDegree {
        if let Some(set) = worker.cache.find(view, source, ty, options.stale) {
            around.counters.cache_hits.add(1);
            return Ok(Some(GraphQuery::Ready(put_second(around, &set, form)?)));
        }
        around.counters.cache_misses.add(1);
    }
    let size = (view.nodes(), options.budget);
    let Some((scratch, permit)) = worker.scratches.lend(size, worker.budget) else { return Ok(None) };
    let (budget, most) = (options.budget, options.most);
    Ok(Some(match kind {
        GraphQueryKind::Distance => {
            GraphQuery::Distance(DistanceQuery::begin(view, scratch, source, ty, &targets, most, budget)?, permit)
        }
        GraphQueryKind::Path => {
            let paths = options.k.unwrap_or(PATHS as usize);
            let destination = destination.unwrap_or_default();
            GraphQuery::Path(PathQuery::begin(view, scratch, source, destination, ty, most, paths, budget)?, permit)
        }
        GraphQueryKind::SecondDegree => {
            GraphQuery::Second(SecondDegreeQuery::begin(view, scratch, source, ty, budget)?, form, permit)
        }
        _ => {
            let k = options.k.unwrap_or(SUGGESTIONS as usize);
            GraphQuery::Suggest(SecondDegreeQuery::begin_suggestions(view, scratch, source, ty, k, budget)?, permit)
        }
    }))
}

/// Begins a page: `src type [CURSOR c] [LIMIT n] [BYTIME a b] [REV] [WITHATTR] [STATE s]`.
fn page<'a, W: Iterator<Item = &'a [u8]> + Clone>(
    around: &Surroundings<'_, '_>,
    words: &mut RequestWords<W>,
) -> Result<GraphQuery, GraphFault> {
    let (node, ty) = (words.node()?, words.edge_type(around.graph)?);
    let mut from = Cursor::START;
    let mut options = PageOptions::default();
    while words.peek().is_some() {
        if words.skip(b"cursor") {
            from = cursor(words)?;
        } else if words.skip(b"limit") {
            options.limit = words.number("LIMIT", LIMIT_MAX)? as usize;
        } else if words.skip(b"bytime") {
            options.by_time = Some((words.time_ms()?, words.time_ms()?));
        } else if words.skip(b"rev") {
            options.is_reversed = true;
        } else if words.skip(b"withattr") {
            options.with_attributes = true;
        } else if words.skip(b"state") {
            let word = words.next("a state")?;
            let is_named = |state: &EdgeState| state_name(*state).as_bytes().eq_ignore_ascii_case(word);
            let found = STATES.into_iter().find(is_named);
            options.state = found.ok_or_else(|| GraphFault::Unexpected(word.to_vec()))?;
        } else {
            words.end()?;
        }
    }
    let query = PageQuery::begin(&around.view, node, ty, from, &options)?;
    Ok(GraphQuery::Page(query, options.with_attributes.then_some(ty)))
}

const STATES: [EdgeState; 4] = [EdgeState::Live, EdgeState::Negative, EdgeState::Archived, EdgeState::Removed];

/// Returns the name of a state in requests and replies.
fn state_name(state: EdgeState) -> &'static str {
    match state {
        EdgeState::Live => "live",
        EdgeState::Negative => "negative",
        EdgeState::Archived => "archived",
        EdgeState::Removed => "removed",
    }
}

/// Begins a query of `src type dst [dst ..]`, whose reply has for each destination nothing, or state, time and
/// attributes.
fn edges<'a, W: Iterator<Item = &'a [u8]> + Clone>(
    around: &Surroundings<'_, '_>,
    words: &mut RequestWords<W>,
) -> Result<EdgesQuery, GraphFault> {
    let (node, edge_type) = (words.node()?, words.edge_type(around.graph)?);
    let mut targets = vec![words.node()?];
    while words.peek().is_some() {
        targets.push(words.node()?);
        if targets.len() as u64 > LIMIT_MAX {
            return Err(GraphFault::NotNumber("destinations", targets.len().to_string().into(), 1, LIMIT_MAX));
        }
    }
    // An identifier that is not allowed is refused before the first step.
    for target in &targets {
        around.view.has_node(*target)?;
    }
    around.view.has_node(node)?;
    let mut reply = Vec::new();
    reply::array(&mut reply, targets.len() as u64);
    Ok(EdgesQuery { node, edge_type, targets, done: 0, reply })
}

impl EdgesQuery {
    /// Looks up some edges, each of which counts as [`EDGES_A_LOOKUP`].
    fn step(&mut self, view: &View<'_>, version: Version, edges: u32) -> Result<QueryStep, GraphFault> {
        let end = self.targets.len().min(self.done + (edges / EDGES_A_LOOKUP).max(1) as usize);
        let schema = view.schema(self.edge_type)?;
        for edge in view.edges(self.node, self.edge_type, &self.targets[self.done..end])? {
            match edge {
                None => reply::null(&mut self.reply, version),
                Some(EdgeView { state, time_ms, attributes }) => {
                    reply::array(&mut self.reply, 3);
                    reply::bulk(&mut self.reply, state_name(state).as_bytes());
                    reply::int(&mut self.reply, time_ms as i64);
                    put_attributes(&mut self.reply, version, schema, &attributes);
                }
            }
        }
        self.done = end;
        Ok(if end == self.targets.len() { QueryStep::Done } else { QueryStep::More })
    }
}

/// Writes attributes as pairs of a name and a value.
fn put_attributes(out: &mut Vec<u8>, version: Version, schema: &[String], bytes: &[u8]) {
    let pairs: Vec<_> = attributes_of(bytes).collect();
    reply::map(out, version, pairs.len() as u64);
    for (number, value) in pairs {
        reply::bulk(out, schema.get(number).map_or(&b"?"[..], |name| name.as_bytes()));
        reply::bulk(out, value);
    }
}

/// Writes the identifier of a node: as an integer, or as text if it is too large for one.
pub(super) fn put_node(out: &mut Vec<u8>, version: Version, node: u64) {
    match i64::try_from(node) {
        Ok(node) => reply::int(out, node),
        Err(_) => reply::big_number(out, version, node.to_string().as_bytes()),
    }
}

fn put_nodes(out: &mut Vec<u8>, version: Version, nodes: &[u64]) {
    reply::array(out, nodes.len() as u64);
    nodes.iter().for_each(|node| put_node(out, version, *node));
}

fn put_page(out: &mut Vec<u8>, version: Version, next: Cursor, nodes: &[u64]) {
    reply::array(out, 2);
    reply::bulk(out, next.to_string().as_bytes());
    put_nodes(out, version, nodes);
}

/// Begins the reply of a query with a budget: whether the budget cut it short, then the result.
fn put_partial(out: &mut Vec<u8>, counters: &GraphCounters, is_partial: bool) {
    counters.partial.add(u64::from(is_partial));
    reply::array(out, 2);
    reply::int(out, is_partial.into());
}

fn put_second(around: &Surroundings<'_, '_>, set: &SecondDegree, form: SecondForm) -> Result<Vec<u8>, GraphFault> {
    let mut out = Vec::new();
    put_partial(&mut out, around.counters, set.is_partial);
    match form {
        SecondForm::Count => reply::int(&mut out, set.count() as i64),
        SecondForm::Page(cursor, limit) => {
            let (next, nodes) = set.page(&around.view, cursor, limit)?;
            put_page(&mut out, around.version, next, &nodes);
        }
    }
    Ok(out)
}

/// Writes a page of a list: its edges with times and attributes, if `ty` is their type.
fn put_list_page(
    out: &mut Vec<u8>,
    around: &Surroundings<'_, '_>,
    page: &ListPage,
    ty: Option<TypeId>,
) -> Result<(), GraphFault> {
    around.counters.edges.add(page.edges.len() as u64);
    let schema = ty.map(|ty| around.view.schema(ty)).transpose()?;
    reply::array(out, 2);
    reply::bulk(out, page.next.to_string().as_bytes());
    reply::array(out, page.edges.len() as u64);
    for edge in &page.edges {
        if schema.is_some() {
            reply::array(out, 3);
        }
        put_node(out, around.version, edge.node);
        if let Some(schema) = schema {
            reply::int(out, edge.time_ms as i64);
            put_attributes(out, around.version, schema, &edge.attributes);
        }
    }
    Ok(())
}

fn put_set(out: &mut Vec<u8>, around: &Surroundings<'_, '_>, page: &SetPage, form: SetForm) {
    around.counters.edges.add(page.edges);
    match form {
        SetForm::Page => put_page(out, around.version, page.next, &page.nodes),
        SetForm::Mutual => {
            put_partial(out, around.counters, page.is_partial);
            put_nodes(out, around.version, &page.nodes);
        }
        SetForm::MutualCount => {
            put_partial(out, around.counters, page.is_partial);
            reply::int(out, page.count as i64);
        }
    }
}

impl GraphQuery {
    /// Touches about `edges` edges at most.
    ///
    /// # Errors
    /// If the store refuses the rest of the query.
    pub(super) fn step(&mut self, around: &Surroundings<'_, '_>, edges: u32) -> Result<QueryStep, GraphFault> {
        let view = &around.view;
        Ok(match self {
            Self::Edges(query) => return query.step(view, around.version, edges),
            Self::Page(query, _) => query.step(view, edges),
            Self::Set(query, _) => query.step(view, edges),
            Self::Distance(query, _) => query.step(view, edges),
            Self::Path(query, _) => query.step(view, edges),
            Self::Second(query, ..) | Self::Suggest(query, ..) => query.step(view, edges),
            Self::Ready(_) => QueryStep::Done,
        })
    }

    /// Returns the reply of a complete query.
    pub(super) fn finish(
        self,
        around: &Surroundings<'_, '_>,
        worker: &mut WorkerParts<'_>,
    ) -> Result<Vec<u8>, GraphFault> {
        let (view, version, counters) = (&around.view, around.version, around.counters);
        let mut out = Vec::new();
        match self {
            Self::Ready(reply) => return Ok(reply),
            Self::Edges(query) => return Ok(query.reply),
            Self::Page(query, ty) => put_list_page(&mut out, around, &query.finish(view), ty)?,
            Self::Set(query, form) => put_set(&mut out, around, &query.finish(view), form),
            Self::Distance(query, permit) => {
                let (found, scratch) = query.finish();
                worker.scratches.give_back(scratch, permit);
                counters.edges.add(found.edges);
                put_partial(&mut out, counters, found.is_partial);
                reply::array(&mut out, found.distances.len() as u64);
                for distance in found.distances {
                    match distance {
                        Some(distance) => reply::int(&mut out, distance.into()),
                        None => reply::null(&mut out, version),
                    }
                }
            }
            Self::Path(query, permit) => {
                let (found, scratch) = query.finish(view);
                worker.scratches.give_back(scratch, permit);
                counters.edges.add(found.edges);
                put_partial(&mut out, counters, found.is_partial);
                reply::array(&mut out, found.paths.len() as u64);
                found.paths.iter().for_each(|path| put_nodes(&mut out, version, path));
            }
            Self::Second(query, form, permit) => {
                let (set, scratch) = query.finish();
                worker.scratches.give_back(scratch, permit);
                counters.edges.add(set.edges);
                let set = worker.cache.insert(view, set);
                return put_second(around, &set, form);
            }
            Self::Suggest(query, permit) => {
                let (found, is_partial, edges, scratch) = query.finish_suggestions(view);
                worker.scratches.give_back(scratch, permit);
                counters.edges.add(edges);
                put_partial(&mut out, counters, is_partial);
                reply::array(&mut out, found.len() as u64);
                for suggestion in found {
                    reply::array(&mut out, 2);
                    put_node(&mut out, version, suggestion.node);
                    reply::int(&mut out, suggestion.common.into());
                }
            }
        }
        Ok(out)
    }
}
