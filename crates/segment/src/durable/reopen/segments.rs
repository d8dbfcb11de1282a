//! The segments: those that were written to are walked, and all are counted.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use super::Reopened;
use crate::core::store::{Store, background_counters};
use crate::durable::file::FileFault;
use crate::heap::segments::SegmentId;
use crate::layout::header::State;
use crate::layout::item::{DEAD, Kind, Layout};

impl Store {
    /// Brings every segment into a state in which no thread works on it.
    pub(super) fn repair_segments(&self, report: &mut Reopened) -> Result<(), FileFault> {
        self.check_headers()?;
        for id in (0..self.geometry.segments_max as u32).map(SegmentId) {
            let header = self.segments.header(id);
            // Its arrivals are cleared last, so that a walk that is cut short is repeated from its start.
            if header.was_written_to() {
                report.segments_open += 1;
                let (items, hidden, bytes) = self.walk(id)?;
                header.reopen_sealed(items, hidden, (self.segments.segment_bytes() - bytes) as u32);
            }
            header.reopen();
        }
        Ok(())
    }

    /// Checks that every segment's header is what a process can have left.
    pub(super) fn check_headers(&self) -> Result<(), FileFault> {
        let sequence = self.kept.sequence.load(Acquire);
        for id in 0..self.geometry.segments_max {
            let header = self.segments.header(SegmentId(id as u32));
            header.check(self.segments.segment_bytes(), sequence).map_err(|what| {
                FileFault::Damaged(format!("the header of segment {id} of {}: {what}", self.geometry.segments_max))
            })?;
        }
        Ok(())
    }

    /// Makes each item of a segment that was written to what its slot says; how many live, how many of them are
    /// hidden, and their bytes.
    fn walk(&self, id: SegmentId) -> Result<(u32, u32, usize), FileFault> {
        let (heap, header) = (&self.segments.heap, self.segments.header(id));
        let (start, written) = (self.segments.start(id), header.written.load(Acquire) as usize);
        let (mut at, mut items, mut hidden, mut bytes) = (0, 0, 0, 0);
        while at < written {
            let address = start + at;
            let Some(layout) = self.item_in(header, address) else {
                return Err(FileFault::Damaged(format!("segment {} has no item at {at}", id.0)));
            };
            let named = self.is_named(address, &layout, header.namespace());
            if named {
                let _ = heap.word32(address).fetch_and(!DEAD, AcqRel);
                items += 1;
                hidden += u32::from(layout.is(Kind::Piece));
                bytes += layout.size;
            } else {
                let _ = heap.word32(address).fetch_or(DEAD, AcqRel);
            }
            at += layout.size;
        }
        Ok((items, hidden, bytes))
    }

    /// Returns true if a slot names the item at this address.
    fn is_named(&self, address: usize, layout: &Layout, namespace: u8) -> bool {
        let hash = self.hash_at(namespace, address, layout);
        self.index.find(hash, |slot| (slot.address() == address).then_some(())).is_some()
    }

    /// Counts what each namespace has, and how much there is of everything, by the headers.
    pub(super) fn count_anew(&self, report: &mut Reopened) {
        let counters = background_counters(self);
        for id in (0..self.segments.high_water() as u32).map(SegmentId) {
            let header = self.segments.header(id);
            if header.state() == State::Sealed {
                let items = u64::from(header.live_items());
                let bytes = self.segments.segment_bytes() as u64 - u64::from(header.dead_bytes());
                let hidden = items.saturating_sub(header.live_keys().into());
                counters.note_found(header.namespace(), items, hidden, bytes);
                self.spaces.takes(header.namespace());
                report.items += items;
            }
        }
    }
}
