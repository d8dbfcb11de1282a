//! A sweep over all lists, in slices, that merges the lists whose tombstones are due: see `tombstones`.

use crate::append::Writer;
use crate::error::GraphError;
use crate::leaf::EdgeState;
use crate::list::{ListPart, recent_change, recent_count};
use crate::tombstones::is_over;

/// The position of a sweep: a list, and a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepPosition {
    ty: u8,
    node: u32,
    part: usize,
}

impl Writer<'_> {
    /// Visits up to `steps` nodes or parts of lists from `position` on, and merges the parts with tombstones to mark or
    /// to drop. Returns the position of the next slice, or `None` at the end.
    ///
    /// # Errors
    /// If no segment is free.
    pub fn sweep(&mut self, position: SweepPosition, steps: usize) -> Result<Option<SweepPosition>, GraphError> {
        let Some(clock) = self.tombstone_clock() else { return Ok(None) };
        let mut at = position;
        for _ in 0..steps {
            if self.graph.edge_type(at.ty).is_none() {
                return Ok(None);
            }
            if at.node >= self.graph.ids.len() {
                at = SweepPosition { ty: at.ty + 1, node: 0, part: 0 };
                continue;
            }
            let list = self.list(at.node, at.ty);
            if at.part >= list.parts() {
                at = SweepPosition { node: at.node + 1, part: 0, ..at };
                continue;
            }
            if is_due(&list.part(at.part), clock) {
                self.check_room_to_remove()?;
                self.merge(at.node, at.ty, at.part)?;
            }
            at.part += 1;
        }
        Ok(Some(at))
    }
}

/// Returns true if a merge would mark or drop tombstones of a part.
fn is_due(part: &ListPart<'_>, clock: (u32, u32)) -> bool {
    let has_removal =
        |recent| (0..recent_count(recent)).any(|at| recent_change(recent, at).state() == EdgeState::Removed);
    if let Some(marked_at) = part.leaf.and_then(|leaf| leaf.marked_at()) {
        return is_over(marked_at, clock);
    }
    part.recent.is_some_and(has_removal) || part.leaf.is_some_and(|leaf| leaf.has_tombstones())
}
