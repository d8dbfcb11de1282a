//! Group commits to a disk, whose file is the memory of the store.
//!
//! ```text
//!   begin_commit ──> watermarks ──> [caller flushes the memory] ──> [caller stores and flushes the watermarks]
//!                                                              ──> end_commit: retired segments may be reused
//!
//!   power loss ──> pages of any age since the last commit ──open_committed──> records below the watermarks
//! ```
//!
//! Segments are the log: a commit flushes the pages that records were appended to. After a power loss, some of the
//! pages that were written since the last commit are on the disk and others are not. A graph's watermark separates its
//! records: those below it are whole, and those above it are made void before they are read.
//!
//! Invariants:
//! - A segment that was retired is reused after a commit that began later. So the records that its own were replaced by
//!   are on the disk, or its own are.
//! - A void record stays void, because the sequence numbers and node numbers above the watermark are assigned again.
//!   Records that no scan reaches stay out of reach: no segment of that time is appended to, and the checksums of
//!   records depend on the use of their segment.

use crate::record::{RecordKind, RecordRef};
use crate::schema::EdgeType;
use crate::store::GraphStore;

/// The state of one graph at a commit. All zeros mean that the graph did not exist, or was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermark {
    /// The sequence number of the next record that has one: an edge, a leaf, a mark, an object or a bulk batch.
    pub lsn: u64,
    /// The number of nodes.
    pub nodes: u32,
    /// The number of edge types, plus 1.
    pub types_plus_one: u32,
    /// The number of words that were appended since the store was opened.
    pub appended: u64,
}

/// A commit that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphCommit {
    number: u64,
    /// The watermark of each graph, by its number.
    pub watermarks: Vec<Watermark>,
}

impl Watermark {
    /// Returns true if a record is above the watermark.
    pub(crate) fn excludes(&self, record: RecordRef<'_>, kind: RecordKind) -> bool {
        let types = self.types_plus_one.saturating_sub(1);
        match kind {
            RecordKind::EdgeType => EdgeType::decode(record)
                .is_none_or(|(ty, found)| u32::from(ty).max(found.reverse().map_or(0, u32::from)) >= types),
            RecordKind::Nodes => u64::from(record.word(2)) + u64::from(record.word(3)) > u64::from(self.nodes),
            RecordKind::Edge => record.long(4) >= self.lsn,
            RecordKind::Leaf => crate::leaf::Leaf::of(record).lsn() >= self.lsn,
            RecordKind::Batch => record.long(5) >= self.lsn,
            RecordKind::Mark | RecordKind::Object => {
                record.word(2) >= self.nodes || record.node_lsn(kind).is_some_and(|lsn| lsn >= self.lsn)
            }
            // A graph that was dropped before a commit has no watermark in it.
            RecordKind::Drop => true,
            RecordKind::Name | RecordKind::Recent | RecordKind::Leaves | RecordKind::Void => false,
        }
    }
}

impl GraphStore {
    /// Makes retired segments wait for a commit before they are reused. Call this before the first change of a store
    /// that is committed to a disk.
    pub fn require_commits(&self) {
        self.state.pool.require_commits();
    }

    /// Lets retired segments be reused without a commit. Call this after the disk has recorded that no commit protects
    /// the memory.
    pub fn waive_commits(&self) {
        self.state.pool.waive_commits();
    }

    /// Begins a commit. The caller flushes the memory to the disk, then stores the watermarks there too, and then calls
    /// [`GraphStore::end_commit`]. Waits for the writers of all graphs, one at a time.
    #[must_use]
    pub fn begin_commit(&self) -> GraphCommit {
        // A commit must not have a graph that was dropped since and another one that got its name.
        let _creation = self.state.creation.lock().expect("no holder of the lock panics");
        let number = self.state.pool.begin_commit();
        let graphs = self.state.slots();
        let watermarks = graphs.iter().map(|graph| {
            let Some(graph) = graph.as_ref().filter(|graph| !graph.is_dropped()) else { return Watermark::default() };
            let writer = graph.writer.lock().expect("no holder of the lock panics");
            let types_plus_one = graph.types().count() as u32 + 1;
            Watermark { lsn: writer.lsn, nodes: graph.ids.len(), types_plus_one, appended: writer.appended }
        });
        GraphCommit { number, watermarks: watermarks.collect() }
    }

    /// Ends a commit whose memory and watermarks are on the disk.
    pub fn end_commit(&self, commit: &GraphCommit) {
        self.state.pool.end_commit(commit.number);
    }
}
