//! Scrubbing: after a crash, what each segment counts is compared with what is in it, and corrected.
//!
//! ```text
//!   each segment that lived through the crash, in order, a few items a slice:
//!     walk    items that live are counted; one that no slot names is ended
//!     same?   as its header says: the next segment
//!     else    wait until every turn that was under way has ended, walk again; the same difference: corrected
//! ```
//!
//! A crash can cut a change between the slot and the counts, once for each thread: the counts of a segment, and so the
//! number of items that is told, are off by so few. Nothing else is: what is read does not depend on them.
//!
//! Bounds: one walk over what there was at the start; a slice's time at once, and only in slices with nothing else to
//! do.

use super::Background;
use super::drain::Step;
use crate::header::State;
use crate::item::{DEAD, Layout};
use crate::segments::SegmentId;
use crate::store::Store;

/// Items that are looked at between two looks at the time.
const ITEMS_PER_LOOK: usize = 32;

/// Where a scrub is.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    /// The segment that is walked.
    id: u32,
    walk: Walk,
    /// The difference that a walk found, and the epoch from which on a second one can confirm it.
    suspect: Option<(Counts, Counts, u64)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Walk {
    at: usize,
    found: Counts,
    /// What the header counted when the walk began.
    told: Counts,
    sequence: u64,
}

/// Live items, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    items: u32,
    bytes: u32,
}

impl Background {
    /// One slice of a scrub; false if there is none.
    pub(super) fn run_scrub(&mut self, store: &Store, over: &mut dyn FnMut() -> bool) -> bool {
        let Some(mut scrub) = self.scrub.take() else { return false };
        if let Some((.., epoch)) = scrub.suspect {
            store.epochs.try_advance();
            if store.epochs.now() < epoch {
                self.scrub = Some(scrub);
                return true;
            }
        }
        let mut looked = 0;
        while (scrub.id as usize) < store.segments.high_water() {
            let walked = scrub.step(store);
            if walked && scrub.suspect.is_none() {
                scrub.id += 1;
            }
            looked += 1;
            let waits = scrub.suspect.is_some() && scrub.walk.at == 0;
            if waits || (looked % ITEMS_PER_LOOK == 0 && over()) {
                self.scrub = Some(scrub);
                return true;
            }
        }
        true
    }
}

fn told(store: &Store, id: SegmentId) -> Counts {
    let header = store.segments.header(id);
    Counts { items: header.live_items(), bytes: store.segments.segment_bytes() as u32 - header.dead_bytes() }
}

impl Scrub {
    /// Looks at one item; true if that was the segment's last one, or it has none to look at.
    fn step(&mut self, store: &Store) -> bool {
        let id = SegmentId(self.id);
        let header = store.segments.header(id);
        if self.walk.at == 0 {
            self.walk = Walk { told: told(store, id), sequence: header.sequence(), ..Walk::default() };
        }
        // One that is drained meanwhile counts for itself.
        let lived_on = header.sequence() < store.reopened_at && header.sequence() == self.walk.sequence;
        if header.state() != State::Sealed || !lived_on {
            (self.walk, self.suspect) = (Walk::default(), None);
            return true;
        }
        let written = header.written.load(std::sync::atomic::Ordering::Acquire) as usize;
        if self.walk.at < written {
            let address = store.segments.start(id) + self.walk.at;
            let Some(layout) = store.item_in(header, address) else {
                // The file was damaged: what it counts stays as it is until it is drained.
                (self.walk, self.suspect) = (Walk::default(), None);
                return true;
            };
            if !layout.has(DEAD) && Self::ends_lost(store, address, &layout) == Step::Done {
                let lives = !Layout::read(&store.segments.heap, address).has(DEAD);
                self.walk.found.items += u32::from(lives);
                self.walk.found.bytes += if lives { layout.size as u32 } else { 0 };
            }
            self.walk.at += layout.size;
        }
        if self.walk.at < written {
            return false;
        }
        self.compare(store, id);
        self.walk = Walk::default();
        true
    }

    /// Ends an item that no slot names.
    fn ends_lost(store: &Store, address: usize, layout: &Layout) -> Step {
        let namespace = store.segments.header_of(address).namespace();
        let key = store.key_at(namespace, address, layout);
        match store.find(&key).is_some_and(|seen| seen.address == address) {
            true => Step::Done,
            false => Background::end_lost(store, &key, address),
        }
    }

    /// What a walk found beside what the header says.
    fn compare(&mut self, store: &Store, id: SegmentId) {
        let Walk { found, told: before, .. } = self.walk;
        let now = told(store, id);
        if now != before || found == now {
            // It is right, or it is being changed: then whoever asks next time is told what is right but for a few.
            self.suspect = None;
        } else if self.suspect.is_some_and(|(was, said, _)| (was, said) == (found, now)) {
            let header = store.segments.header(id);
            header.correct(now.items.wrapping_sub(found.items), now.bytes.wrapping_sub(found.bytes));
            let more = |now: u32, found: u32| u64::from(now).wrapping_sub(found.into());
            let (items, bytes) = (more(now.items, found.items), more(now.bytes, found.bytes));
            Background::counters(store).note_lost(header.namespace(), items, bytes);
            self.suspect = None;
        } else {
            self.suspect = Some((found, now, store.epochs.now() + 2));
        }
    }
}
