//! Models of the index without a store: displacement, growth and shrinking with concurrent readers and writers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use base::prng::split_mix;
use shuttle::thread;

use super::explore;
use crate::index::growth::SplitScratch;
use crate::index::{Hash, Index};
use crate::layout::slot::Slot;

/// Stores the slot of key number `i`, which names address 4 * i.
fn insert(index: &Index, hash: Hash, i: usize) -> Option<Slot> {
    loop {
        let Some(locked) = index.lock(hash) else {
            thread::yield_now();
            continue;
        };
        let room = locked.room();
        room.word.store(Slot::item(hash.tag(), 0, 1, i * 4).0, Release);
        return room.holds.is_item().then_some(room.holds);
    }
}

fn found(index: &Index, hash: Hash, i: usize) -> bool {
    index.find(hash, |slot| (slot.address() == i * 4).then_some(())).is_some()
}

/// Returns `count` hashes whose first index bucket is bucket 9.
fn crowd(count: usize) -> Vec<Hash> {
    (0..).map(|i| Hash(split_mix(i))).filter(|h| (h.0 >> 12) % 64 == 9).take(count).collect()
}

#[test]
fn a_reader_finds_a_key_that_is_being_displaced() {
    explore(|| {
        let index = Arc::new(Index::reserve(1, 2, false).expect("reserve"));
        // One index bucket full of keys; the next keys of the same bucket displace them.
        let hashes = crowd(24);
        for (i, hash) in hashes[..16].iter().enumerate() {
            assert_eq!(insert(&index, *hash, i), None);
        }
        let reader = {
            let (index, hashes) = (Arc::clone(&index), hashes.clone());
            thread::spawn(move || {
                for i in 0..16 {
                    assert!(found(&index, hashes[i], i), "key {i} was lost while it was displaced");
                }
            })
        };
        for (i, hash) in hashes.iter().enumerate().skip(16) {
            assert_eq!(insert(&index, *hash, i), None, "there is room in the other index buckets");
        }
        reader.join().expect("reader");
        assert!((0..24).all(|i| found(&index, hashes[i], i)));
    });
}

#[test]
fn a_reader_finds_a_key_that_is_displaced_to_and_fro() {
    explore(|| {
        let index = Arc::new(Index::reserve(1, 2, false).expect("reserve"));
        let hash = crowd(1)[0];
        insert(&index, hash, 0);
        let reader = {
            let index = Arc::clone(&index);
            thread::spawn(move || assert!(found(&index, hash, 0), "the key was lost while it was displaced"))
        };
        for _ in 0..4 {
            index.lock(hash).expect("readers take no lock").displace_for_model();
        }
        reader.join().expect("reader");
    });
}

/// Runs `work` on another thread while an index with keys in two groups grows to three groups.
fn while_growing(work: impl Fn(&Index, &[Hash]) + Send + Sync + Copy + 'static, inserted: usize) {
    explore(move || {
        let index = Arc::new(Index::reserve(2, 4, false).expect("reserve"));
        let hashes: Vec<Hash> = (0..12).map(|i| Hash(split_mix(i))).collect();
        for (i, hash) in hashes[..8].iter().enumerate() {
            insert(&index, *hash, i);
        }
        let worker = {
            let (index, hashes) = (Arc::clone(&index), hashes.clone());
            thread::spawn(move || work(&index, &hashes))
        };
        index.begin_growth(3);
        let mut scratch = SplitScratch::new();
        loop {
            match index.split_next(&mut scratch, &|slot: Slot| hashes[slot.address() / 4].group_hash()) {
                Some(true) => break,
                Some(false) => {}
                None => thread::yield_now(),
            }
            assert!(scratch.dropped.is_empty());
        }
        worker.join().expect("worker");
        assert!((0..inserted).all(|i| found(&index, hashes[i], i)));
        let left = (0..4).flat_map(|g| index.group_words(g)).filter(|(_, s)| s.is_item()).count();
        assert_eq!(left, inserted, "no slot is left behind or doubled");
    });
}

/// Runs `work` on another thread while an index with keys in three groups shrinks to two groups.
fn while_shrinking(work: impl Fn(&Index, &[Hash]) + Send + Sync + Copy + 'static, inserted: usize) {
    explore(move || {
        let index = Arc::new(Index::reserve(3, 4, false).expect("reserve"));
        let hashes: Vec<Hash> = (0..12).map(|i| Hash(split_mix(i))).collect();
        for (i, hash) in hashes[..8].iter().enumerate() {
            insert(&index, *hash, i);
        }
        let worker = {
            let (index, hashes) = (Arc::clone(&index), hashes.clone());
            thread::spawn(move || work(&index, &hashes))
        };
        index.begin_shrink(2);
        let mut scratch = SplitScratch::new();
        loop {
            match index.merge_next(&mut scratch, &|slot: Slot| hashes[slot.address() / 4].group_hash()) {
                Some(true) => break,
                Some(false) => {}
                None => thread::yield_now(),
            }
            assert!(scratch.dropped.is_empty());
        }
        worker.join().expect("worker");
        assert!((0..inserted).all(|i| found(&index, hashes[i], i)));
        let count = |groups: std::ops::Range<usize>| {
            groups.flat_map(|g| index.group_words(g)).filter(|(_, s)| s.is_item()).count()
        };
        assert_eq!((count(0..2), count(2..4)), (inserted, 0), "no slot is left behind or doubled");
    });
}

fn find_the_first_eight(index: &Index, hashes: &[Hash]) {
    for round in 0..2 {
        for i in 0..8 {
            assert!(found(index, hashes[i], i), "key {i} in round {round}");
        }
    }
}

fn insert_four_more(index: &Index, hashes: &[Hash]) {
    for i in 8..12 {
        insert(index, hashes[i], i);
        assert!(found(index, hashes[i], i), "key {i} right after its insert");
    }
}

#[test]
fn a_reader_finds_every_key_while_the_index_shrinks() {
    while_shrinking(find_the_first_eight, 8);
}

#[test]
fn an_insert_while_the_index_shrinks_is_found_afterwards() {
    while_shrinking(insert_four_more, 12);
}

/// All keys share an index bucket, so the merge of two groups displaces slots that were merged before. A reader that
/// searches the new group meanwhile has to search again.
#[test]
fn a_reader_finds_a_key_that_is_displaced_while_the_index_shrinks() {
    explore(|| {
        let index = Arc::new(Index::reserve(2, 2, false).expect("reserve"));
        let hashes = crowd(20);
        for (i, hash) in hashes.iter().enumerate() {
            assert_eq!(insert(&index, *hash, i), None);
        }
        let reader = {
            let (index, hashes) = (Arc::clone(&index), hashes.clone());
            thread::spawn(move || (0..20).all(|i| found(&index, hashes[i], i)))
        };
        index.begin_shrink(1);
        let mut scratch = SplitScratch::new();
        while index.merge_next(&mut scratch, &|slot: Slot| hashes[slot.address() / 4].group_hash()).is_none() {
            thread::yield_now();
        }
        assert!(scratch.dropped.is_empty() && reader.join().expect("reader"), "a key was lost while it was displaced");
    });
}

#[test]
fn a_reader_finds_every_key_while_the_index_grows() {
    while_growing(find_the_first_eight, 8);
}

#[test]
fn an_insert_while_the_index_grows_is_found_afterwards() {
    while_growing(insert_four_more, 12);
}
