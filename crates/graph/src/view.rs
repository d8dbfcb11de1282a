//! Reads of a graph that touch a bounded number of edges: one edge, a degree, a node's object.

use std::sync::atomic::Ordering::Acquire;

use base::prng::split_mix;

use crate::change::split_text;
use crate::error::GraphError;
use crate::ids::check_node;
use crate::leaf::EdgeState;
use crate::list::{List, ListEdge, RUN_MAX};
use crate::memory::AtomicU32;
use crate::record::RecordRef;
use crate::schema::{ListOrder, TypeId};
use crate::state::GraphState;

/// A graph as a reader sees it within one epoch.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(crate) graph: &'a GraphState,
    pub(crate) memory: &'a [AtomicU32],
}

/// An edge with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeView {
    /// The state.
    pub state: EdgeState,
    /// The time of the state's last change, in milliseconds since the epoch.
    pub time_ms: u64,
    /// The attributes.
    pub attributes: Vec<u8>,
}

/// A node's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeObject {
    /// The time of its last change, in milliseconds since the epoch.
    pub time_ms: u64,
    /// Its bytes: type and bins, as the caller encoded them.
    pub bytes: Vec<u8>,
}

impl NodeObject {
    /// Returns the object in a record that does not remove it.
    pub(crate) fn of(record: RecordRef<'_>) -> Self {
        let mut bytes = Vec::new();
        record.copy_bytes(7, record.word(6) as usize, &mut bytes);
        Self { time_ms: record.long(3), bytes }
    }
}

/// The identifiers of a node's neighbours, in memory that the next call uses again.
#[derive(Clone, Debug, Default)]
pub struct NeighbourList {
    nodes: Vec<u64>,
}

/// The live neighbours of a node where the store holds them. Opening it reads the head of the list and copies nothing;
/// each method reads the list once, up to the point at which its closure returns false.
///
/// A node number is dense and does not change while the graph exists. Work on many lists is faster with numbers: only
/// those in its result need [`View::identifier`].
#[derive(Clone, Copy, Debug)]
pub struct Neighbours<'a> {
    view: View<'a>,
    list: Option<List<'a>>,
}

impl Neighbours<'_> {
    /// Returns the number of live edges when the list was opened. Archived neighbours count.
    #[must_use]
    pub fn degree(&self) -> u32 {
        self.list.map_or(0, |list| list.head.live)
    }

    /// Calls `f` with runs of the node numbers of the neighbours, ascending.
    pub fn number_runs(&self, f: impl FnMut(&[u32]) -> bool) {
        if let Some(list) = self.list {
            list.runs(&mut [0; RUN_MAX], f);
        }
    }

    /// Calls `f` with runs of the identifiers of the neighbours, in the order of their node numbers.
    pub fn runs(&self, mut f: impl FnMut(&[u64]) -> bool) {
        let (ids, mut nodes) = (&self.view.graph.ids, [0; RUN_MAX]);
        self.number_runs(|numbers| {
            ids.externals(numbers, &mut nodes);
            f(&nodes[..numbers.len()])
        });
    }
}

impl NeighbourList {
    /// Returns the identifiers, in the order of node numbers.
    #[must_use]
    pub fn nodes(&self) -> &[u64] {
        &self.nodes
    }
}

/// Returns the value of an edge of a list.
pub(crate) fn edge_view(edge: &ListEdge<'_>) -> EdgeView {
    let (mut text, time_ms) = (Vec::new(), edge.time());
    edge.text(&mut text);
    let attributes = split_text(&text, time_ms).1.to_vec();
    EdgeView { state: edge.state, time_ms, attributes }
}

impl<'a> View<'a> {
    pub(crate) fn new(graph: &'a GraphState, memory: &'a [AtomicU32]) -> Self {
        Self { graph, memory }
    }

    /// Returns true if the graph was dropped. If it was before the view was created, the view is empty, so a query in
    /// progress must end.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.graph.is_dropped()
    }

    #[inline]
    pub(crate) fn list(&self, node: u32, ty: u8) -> List<'a> {
        List::open(self.graph, self.memory, node, ty)
    }

    pub(crate) fn check_type(&self, ty: TypeId) -> Result<u8, GraphError> {
        self.graph.edge_type(ty.0).map(|_| ty.0).ok_or_else(|| self.graph.no_type())
    }

    pub(crate) fn reverse(&self, ty: u8) -> Option<u8> {
        self.graph.edge_type(ty).and_then(|found| found.reverse())
    }

    pub(crate) fn is_by_time(&self, ty: u8) -> bool {
        self.graph.edge_type(ty).is_some_and(|found| found.order == ListOrder::Time)
    }

    /// Returns the number of a node that exists and is not archived.
    #[inline]
    pub(crate) fn node(&self, external: u64) -> Result<Option<u32>, GraphError> {
        check_node(external)?;
        let number = self.graph.ids.find(external);
        Ok(number.filter(|number| !self.graph.has_archived() || !self.graph.is_archived(*number)))
    }

    #[inline]
    pub(crate) fn external(&self, number: u32) -> u64 {
        self.graph.ids.external(number)
    }

    /// Returns true if the graph has a node.
    ///
    /// # Errors
    /// If the identifier is reserved.
    pub fn has_node(&self, node: u64) -> Result<bool, GraphError> {
        Ok(self.node(node)?.is_some())
    }

    /// Returns the number of nodes that the graph ever had.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.graph.ids.len()
    }

    /// Returns the number of changes of a type that were accepted since the store was opened.
    #[must_use]
    pub fn changes(&self, ty: TypeId) -> u64 {
        self.graph.edge_type(ty.0).map_or(0, |_| self.graph.visible_changes(ty.0))
    }

    /// Returns the names of a type's attributes.
    ///
    /// # Errors
    /// If the type is not declared.
    pub fn schema(&self, ty: TypeId) -> Result<&'a [String], GraphError> {
        self.graph.edge_type(ty.0).map(|found| &found.schema[..]).ok_or_else(|| self.graph.no_type())
    }

    /// Returns the edges from a node to each destination, in any state, or `None` for an edge that was never stored.
    ///
    /// # Errors
    /// If the type is unknown or an identifier reserved.
    pub fn edges(&self, node: u64, ty: TypeId, to: &[u64]) -> Result<Vec<Option<EdgeView>>, GraphError> {
        let (ty, node) = (self.check_type(ty)?, self.node(node)?);
        let list = node.map(|node| self.list(node, ty));
        let mut one = |to: &u64| {
            let number = self.node(*to)?;
            let edge = list.as_ref().zip(number).and_then(|(list, number)| list.find(number));
            Ok(edge.as_ref().map(edge_view))
        };
        to.iter().map(&mut one).collect()
    }

    /// Returns true if a live edge leads from a node to another one.
    ///
    /// # Errors
    /// If the type is unknown or an identifier reserved.
    pub fn has_edge(&self, node: u64, ty: TypeId, to: u64) -> Result<bool, GraphError> {
        let (ty, node, to) = (self.check_type(ty)?, self.node(node)?, self.node(to)?);
        Ok(node.zip(to).is_some_and(|(node, to)| self.list(node, ty).contains(to)))
    }

    /// Returns the number of a node's live edges, in constant time. Archived neighbours count. An archived node has 0.
    ///
    /// # Errors
    /// If the type is unknown or the identifier reserved.
    pub fn count(&self, node: u64, ty: TypeId) -> Result<u32, GraphError> {
        let (ty, node) = (self.check_type(ty)?, self.node(node)?);
        Ok(node.map_or(0, |node| self.graph.head(node, ty).live))
    }

    /// Calls `f` with each live neighbour that is not archived, in the order of node numbers. Returning false ends the
    /// walk. The walk is not divided into slices: use [`crate::PageQuery`] for lists of unknown length.
    ///
    /// # Errors
    /// If the type is unknown or the identifier reserved.
    pub fn neighbours(&self, node: u64, ty: TypeId, mut f: impl FnMut(u64) -> bool) -> Result<(), GraphError> {
        self.open(node, ty)?.runs(|nodes| nodes.iter().all(|node| f(*node)));
        Ok(())
    }

    /// Opens the list of a node's live neighbours that are not archived. A node that does not exist has none.
    ///
    /// # Errors
    /// If the type is unknown or the identifier reserved.
    #[inline]
    pub fn open(&self, node: u64, ty: TypeId) -> Result<Neighbours<'a>, GraphError> {
        let (ty, node) = (self.check_type(ty)?, self.node(node)?);
        Ok(Neighbours { view: *self, list: node.map(|node| self.list(node, ty)) })
    }

    /// Returns the identifier of the node with a number that [`Neighbours::number_runs`] reported.
    #[must_use]
    pub fn identifier(&self, number: u32) -> u64 {
        self.external(number)
    }

    /// Copies the identifiers of all live neighbours that are not archived to `list`. The read is not divided into
    /// slices either. [`View::open`] reads a list without a copy.
    ///
    /// # Errors
    /// If the type is unknown or the identifier reserved.
    pub fn neighbours_into(&self, node: u64, ty: TypeId, list: &mut NeighbourList) -> Result<(), GraphError> {
        list.nodes.clear();
        let neighbours = self.open(node, ty)?;
        list.nodes.reserve(neighbours.degree() as usize);
        neighbours.runs(|nodes| {
            list.nodes.extend_from_slice(nodes);
            true
        });
        Ok(())
    }

    /// Returns a node's object.
    ///
    /// # Errors
    /// If the identifier is reserved.
    pub fn object(&self, node: u64) -> Result<Option<NodeObject>, GraphError> {
        check_node(node)?;
        // A mark hides the edges of a node, and not its object.
        let number = self.graph.ids.find(node);
        let position = number.and_then(|node| self.graph.objects.find(node)).map(|word| word.load(Acquire));
        let record = position.filter(|position| *position != 0).map(|position| RecordRef::at(self.memory, position));
        Ok(record.filter(|record| record.word(5) == 0).map(NodeObject::of))
    }

    /// Returns a hash of all edges of a type in all states, with their times and attributes. It depends on the set of
    /// changes only, not on their order. It reads the whole graph: it is for tests and checks of copies.
    ///
    /// # Errors
    /// If the type is unknown.
    pub fn state_hash(&self, ty: TypeId) -> Result<u64, GraphError> {
        let ty = self.check_type(ty)?;
        let mut sum = 0u64;
        for node in 0..self.graph.ids.len() {
            let own = split_mix(self.external(node));
            self.list(node, ty).walk(0, &mut |edge| {
                let view = edge_view(&edge);
                let value = [self.external(edge.id), view.time_ms, view.state as u64];
                let hash = value.into_iter().fold(own, |hash, word| split_mix(hash ^ word));
                let hash = view.attributes.iter().fold(hash, |hash, byte| split_mix(hash ^ u64::from(*byte)));
                sum = sum.wrapping_add(hash);
                true
            });
        }
        Ok(sum)
    }
}
