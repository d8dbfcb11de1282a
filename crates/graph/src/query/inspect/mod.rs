//! Checks of a store's memory and lists, and reads of whole graphs, for tools that examine a store no server uses.

pub(crate) mod shape;

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::ids::LOST;
use crate::leaf::EdgeState;
use crate::limits::GRAPHS_MAX;
use crate::memory::AtomicU32;
use crate::pool::{SEGMENT_HEADER_WORDS, SegmentInfo, USED};
use crate::record::RecordRef;
use crate::schema::TypeId;
use crate::view::{EdgeView, NodeObject, View, edge_view};
use shape::{SEARCH_WORDS_MAX, next_whole, whole_record};

/// The maximum number of faults that a check reports in full.
pub const FAULTS_MAX: usize = 20;

/// A place in the memory of a store that no store wrote so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryFault {
    /// The position in bytes from the start of the memory.
    pub offset: u64,
    /// The segment that contains it.
    pub segment: u32,
    /// The kind of fault.
    pub kind: MemoryFaultKind,
}

/// The kind of a fault in a store's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryFaultKind {
    /// The header of the segment is wrong, so a restart ignores the segment.
    Header,
    /// The header names more used bytes than the segment has.
    Length,
    /// The checksum or the form of a record is wrong. A restart ignores this number of bytes: up to the next whole
    /// record, or to the end of the segment.
    Record(u64),
}

/// A report of all records in a store's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryCheck {
    /// The number of segments.
    pub segments: usize,
    /// The number of segments that hold records.
    pub segments_used: usize,
    /// The number of whole records, also of those that later ones replace.
    pub records: u64,
    /// The bytes of these records.
    pub record_bytes: u64,
    /// The number of faults.
    pub faults_count: u64,
    /// The first [`FAULTS_MAX`] faults.
    pub faults: Vec<MemoryFault>,
}

impl MemoryCheck {
    fn report(&mut self, segment_words: usize, segment: usize, word: usize, kind: MemoryFaultKind) {
        self.faults_count += 1;
        if self.faults.len() < FAULTS_MAX {
            let offset = (segment * segment_words + word) as u64 * 4;
            self.faults.push(MemoryFault { offset, segment: segment as u32, kind });
        }
    }
}

/// Checks the checksum and the form of every record in the memory of a store. Changes nothing. The memory may be of a
/// process that was killed at any moment: the traces that this leaves are no faults.
#[must_use]
pub fn check_memory(memory: &[AtomicU32], segment_bytes: usize) -> MemoryCheck {
    let segment_words = segment_bytes / 4;
    let mut check = MemoryCheck { segments: memory.len() / segment_words, ..MemoryCheck::default() };
    for (segment, words) in memory.chunks_exact(segment_words).enumerate() {
        let used = words[USED].load(Acquire) as usize;
        // The first word of a segment that was never opened, or that a restart after a power loss forgot, is 0. A
        // segment that a killed writer was opening has no used words.
        let Some(info) = SegmentInfo::of(words) else {
            if used != 0 && words[0].load(Relaxed) != 0 {
                check.report(segment_words, segment, 0, MemoryFaultKind::Header);
            }
            continue;
        };
        if usize::from(info.graph) >= GRAPHS_MAX {
            check.report(segment_words, segment, 0, MemoryFaultKind::Header);
            continue;
        }
        if used > segment_words {
            check.report(segment_words, segment, USED, MemoryFaultKind::Length);
        }
        let (mut word, words, mut left) = (SEGMENT_HEADER_WORDS, &words[..info.used], SEARCH_WORDS_MAX);
        while word < info.used {
            let Some((record, _)) = whole_record(&words[word..], info.sequence as u32) else {
                let next = next_whole(words, word, info.sequence as u32, &mut left);
                check.report(segment_words, segment, word, MemoryFaultKind::Record((next - word) as u64 * 4));
                word = next;
                continue;
            };
            check.records += 1;
            check.record_bytes += record.len() as u64 * 4;
            word += record.len();
        }
        check.segments_used += usize::from(info.used > SEGMENT_HEADER_WORDS);
    }
    check
}

/// An edge of a whole graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEdge {
    /// The identifier of the source.
    pub source: u64,
    /// The identifier of the destination.
    pub destination: u64,
    /// The value.
    pub edge: EdgeView,
    /// True if one of the nodes is archived as a whole, which hides the edge regardless of its state.
    pub is_hidden: bool,
}

/// A disagreement between the lists of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListFault {
    /// The list of the first node has the edge to the second one. The list of the second one lacks it, or has another
    /// value.
    OneDirection(u64, u64),
    /// The list of the first node names a node number whose record is lost.
    UnknownNode(u64, u32),
    /// The degree of the node is the second number, and its list has the third number of live edges.
    Degree(u64, u32, u32),
    /// The node numbers in the list of this node do not ascend.
    Order(u64),
}

/// A report of the lists of a type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListCheck {
    /// The number of lists.
    pub lists: u64,
    /// The number of edges in each state, in the order of [`EdgeState`]. An edge of two lists counts once.
    pub edges: [u64; 4],
    /// The number of faults.
    pub faults_count: u64,
    /// The first [`FAULTS_MAX`] faults.
    pub faults: Vec<ListFault>,
}

impl ListCheck {
    fn report(&mut self, fault: ListFault) {
        self.faults_count += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }
}

impl View<'_> {
    /// Calls `f` with each edge of a type, in every state, also of archived nodes. An edge of an undirected type is
    /// reported once. Reads the whole graph without slices. Returning false ends the walk.
    ///
    /// # Errors
    /// If the type is unknown.
    pub fn each_edge(&self, ty: TypeId, f: &mut dyn FnMut(&ListedEdge) -> bool) -> Result<(), crate::GraphError> {
        let ty = self.check_type(ty)?;
        let is_undirected = self.reverse(ty) == Some(ty);
        let _ = (0..self.nodes()).all(|node| {
            let source = self.external(node);
            self.list(node, ty).walk(0, &mut |edge| {
                // The end with the lower number reports the edge, unless its list lacks it.
                let is_reported = is_undirected && edge.id < node && self.list(edge.id, ty).find(node).is_some();
                is_reported
                    || [source, self.external(edge.id)].contains(&LOST)
                    || f(&ListedEdge {
                        source,
                        destination: self.external(edge.id),
                        edge: edge_view(&edge),
                        is_hidden: [node, edge.id].into_iter().any(|node| self.graph.is_archived(node)),
                    })
            })
        });
        Ok(())
    }

    /// Calls `f` with each node that has an object or is archived: its identifier, its object, and true if it is
    /// archived. Returning false ends the walk.
    pub fn each_marked_node(&self, f: &mut dyn FnMut(u64, Option<NodeObject>, bool) -> bool) {
        for number in 0..self.nodes() {
            let (object, is_archived) = (self.object_of(number), self.graph.is_archived(number));
            let is_listed = self.external(number) != LOST && (object.is_some() || is_archived);
            if is_listed && !f(self.external(number), object, is_archived) {
                return;
            }
        }
    }

    /// Checks every list of a type: its order, its degree, and that the list of the other end has each edge with the
    /// same value. Reads the whole graph without slices.
    ///
    /// # Errors
    /// If the type is unknown.
    pub fn check_lists(&self, ty: TypeId) -> Result<ListCheck, crate::GraphError> {
        let ty = self.check_type(ty)?;
        let reverse = self.reverse(ty);
        let has_schema = |ty: u8| self.graph.edge_type(ty).is_some_and(|found| !found.schema.is_empty());
        let compares_attributes = has_schema(ty) && reverse.is_some_and(has_schema);
        let mut check = ListCheck::default();
        for node in 0..self.nodes() {
            let list = self.list(node, ty);
            let (own, mut live, mut last) = (self.external(node), 0, None);
            if own == LOST {
                continue;
            }
            check.lists += u64::from(list.head.position != 0);
            list.walk(0, &mut |edge| {
                if last.is_some_and(|last| last >= edge.id) {
                    check.report(ListFault::Order(own));
                }
                last = Some(edge.id);
                live += u32::from(edge.state == EdgeState::Live);
                if self.external(edge.id) == LOST {
                    check.report(ListFault::UnknownNode(own, edge.id));
                    return true;
                }
                if reverse != Some(ty) || node < edge.id {
                    check.edges[edge.state as usize] += 1;
                }
                let Some(reverse) = reverse.filter(|_| edge.state != EdgeState::Removed) else { return true };
                let value = |edge: &crate::list::ListEdge<'_>| {
                    let EdgeView { state, time_ms, attributes } = edge_view(edge);
                    (state, time_ms, if compares_attributes { attributes } else { Vec::new() })
                };
                let other = self.list(edge.id, reverse).find(node);
                if other.as_ref().map(value) != Some(value(&edge)) {
                    check.report(ListFault::OneDirection(own, self.external(edge.id)));
                }
                true
            });
            if live != list.head.live {
                check.report(ListFault::Degree(own, list.head.live, live));
            }
        }
        Ok(check)
    }

    /// Returns the object of a node number, also if the node is archived.
    fn object_of(&self, number: u32) -> Option<NodeObject> {
        let position = self.graph.objects.find(number)?.load(Acquire);
        let record = (position != 0).then(|| RecordRef::at(self.memory, position))?;
        (record.word(5) == 0).then(|| NodeObject::of(record))
    }
}
