//! Models of the free segments while the background decommits some and adds some again.

use std::sync::Arc;

use shuttle::thread;

use super::explore;
use crate::StoreConfig;
use crate::heap::config::Geometry;
use crate::heap::segments::{SegmentId, Segments};

fn segments(count: usize, segments_max: usize) -> Segments {
    let config = StoreConfig {
        memory_bytes: 100 << 10,
        memory_bytes_max: 0,
        segment_bytes: Some(1024),
        item_bytes_max: 1000,
        handles_max: 1,
        hash_seed: 5,
        huge_pages: false,
    };
    let geometry = Geometry { segments_max, ..Geometry::of(&config).expect("geometry") };
    Segments::reserve(&geometry, count, false).expect("reserve")
}

/// Tries three times to take a free segment, and frees the last taken segment again. Returns the others.
fn take(segments: &Segments, keep: usize) -> Vec<SegmentId> {
    let mut taken: Vec<SegmentId> = (0..3).filter_map(|_| segments.take_free(keep)).collect();
    if let Some(id) = taken.pop() {
        segments.push_free(id);
    }
    taken
}

#[test]
fn segment_is_taken_once_or_retired_and_never_lost() {
    explore(|| {
        let segments = Arc::new(segments(5, 8));
        let handles: Vec<_> = (0..2)
            .map(|_| {
                let segments = Arc::clone(&segments);
                thread::spawn(move || take(&segments, 0))
            })
            .collect();
        let cut = segments.cut_fresh(2);
        let decommitted = segments.take_free(0).inspect(|id| segments.decommit(*id));
        segments.add_fresh(3);
        if !segments.give_back_decommitted() {
            assert!(decommitted.is_none(), "the background alone takes what it decommitted");
        }
        let mut taken: Vec<u32> =
            handles.into_iter().flat_map(|handle| handle.join().expect("handle")).map(|id| id.0).collect();
        assert_eq!(segments.count(), 8 - cut);
        assert_eq!(segments.free_count() + taken.len(), segments.count(), "none is lost, and none is there twice");
        while let Some(id) = segments.take_free(0) {
            taken.push(id.0);
        }
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[0] < pair[1]), "a segment was taken twice: {taken:?}");
        assert_eq!(taken.len(), 8 - cut);
    });
}
