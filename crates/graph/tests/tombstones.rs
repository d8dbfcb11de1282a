//! Tests of removed edges: their tombstones keep their effect for an age, then they are dropped, and no restart brings
//! an edge back.
#![cfg(not(shuttle))]

mod reference;

use std::sync::Arc;

use base::prng::Prng;
use gannet_graph::*;
use reference::{Action, CONFIG, Change, Reference, SEGMENT_BYTES, Shared, check_edges, declare, new_store, seed};

const AGE_S: u32 = 1000;

/// Sweeps all lists.
fn sweep(graph: &Graph) {
    let mut position = Some(SweepPosition::default());
    while let Some(at) = position {
        position = graph.writer().sweep(at, 50).expect("room");
    }
}

/// Compacts until no segment is as empty as three quarters.
fn compact(graph: &Graph) {
    let mut left = 100;
    while left > 0 {
        match graph.writer().compact(75, 1 << 20).expect("the reserve suffices") {
            CompactionStep::Nothing => break,
            CompactionStep::Emptied => left -= 1,
            CompactionStep::More => {}
        }
    }
}

fn change(source: u64, ty: TypeId, destination: u64, time_ms: u64, is_added: bool) -> Change {
    let action = if is_added { Action::Add(vec![]) } else { Action::Remove };
    Change { source, ty, destination, time_ms, action }
}

#[test]
fn older_addition_has_no_effect_for_an_age_after_the_removal_arrived() {
    let store = new_store(12);
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    let apply = |is_added, time| graph.writer().apply(&change(1, types[0], 2, time, is_added).view());
    store.set_tombstone_age(5000, AGE_S);
    assert_eq!((apply(true, 10), apply(false, 20)), (Ok(true), Ok(true)));
    sweep(&graph);
    for now in [5000, 5000 + AGE_S - 1] {
        store.set_tombstone_age(now, AGE_S);
        sweep(&graph);
        assert_eq!(apply(true, 15), Ok(false), "at {now} s the tombstone remains");
    }
    store.set_tombstone_age(5000 + AGE_S, AGE_S);
    sweep(&graph);
    assert_eq!(apply(true, 15), Ok(true), "the tombstone was dropped");
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    let view = guard.view(&graph);
    assert_eq!((view.count(1, types[0]), view.count(2, types[0])), (Ok(1), Ok(1)), "both directions");
}

/// Regression: a step back by more than the age dropped all tombstones.
#[test]
fn clock_that_steps_back_drops_no_tombstone() {
    let store = new_store(12);
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    let apply = |is_added, time| graph.writer().apply(&change(1, types[0], 2, time, is_added).view());
    store.set_tombstone_age(2_000_000, AGE_S);
    assert_eq!((apply(true, 10), apply(false, 11)), (Ok(true), Ok(true)));
    sweep(&graph);
    for now in [1_999_999, 5000, 0] {
        store.set_tombstone_age(now, AGE_S);
        sweep(&graph);
        assert_eq!(apply(true, 5), Ok(false), "at {now} s the tombstone remains");
    }
    assert_eq!(store.tombstone_clock_s(), 2_000_000);
    store.set_tombstone_age(2_000_000 + AGE_S, AGE_S);
    sweep(&graph);
    assert_eq!(apply(true, 5), Ok(true), "the tombstone was dropped");
}

/// Regression: the clock began at the wall clock's time after a restart, whatever that was.
#[test]
fn restart_continues_the_clock_of_tombstones_at_the_newest_mark() {
    let memory = Arc::new(anonymous(14 * SEGMENT_BYTES));
    let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    assert_eq!(store.tombstone_clock_s(), 0);
    for (other, now) in [(2, 5000), (3, 5500)] {
        store.set_tombstone_age(now, AGE_S);
        for is_added in [true, false] {
            let change = change(other, types[3], 9, 10 + u64::from(!is_added), is_added);
            assert_eq!(graph.writer().apply(&change.view()), Ok(true));
        }
        sweep(&graph);
    }
    let (store, _) = GraphStore::open(image(&memory), &CONFIG).expect("an image opens");
    let graph = store.graph("test").expect("named");
    assert_eq!(store.tombstone_clock_s(), 5500);
    let add = |other| graph.writer().apply(&change(other, types[3], 9, 5, true).view());
    for (now, is_dropped) in [(0, false), (5999, false), (6000, true)] {
        store.set_tombstone_age(now, AGE_S);
        sweep(&graph);
        assert_eq!(add(2), Ok(is_dropped), "edge of 2 at {now} s");
    }
    assert_eq!(add(3), Ok(false), "its age has 500 s left");
    store.set_tombstone_age(6500, AGE_S);
    sweep(&graph);
    assert_eq!(add(3), Ok(true));
}

#[test]
fn store_whose_edges_come_and_go_does_not_fill_up() {
    let store = new_store(12);
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    let (mut prng, nodes) = (Prng::new(seed()), 400);
    let mut live_bytes = 0;
    // Without an end of tombstones, 1.2 million edges need 20 times the memory.
    for step in 0..600_000_u64 {
        let (source, destination) = (1 + prng.below(nodes / 2), nodes / 2 + 1 + prng.below(nodes / 2) + step / 40);
        for is_added in [true, false] {
            let change = change(source, types[3], destination, step * 2 + u64::from(!is_added), is_added);
            while let Err(error) = graph.writer().apply(&change.view()) {
                assert_eq!((error, step > 1000), (GraphError::NoSpace, true));
                sweep(&graph);
                compact(&graph);
            }
        }
        if step % 500 == 0 {
            store.set_tombstone_age(1 + step as u32, AGE_S);
            sweep(&graph);
            compact(&graph);
            live_bytes = live_bytes.max(store.stats().live_bytes);
        }
    }
    assert!(live_bytes < 2 << 20, "{live_bytes} bytes for at most 3,000 tombstones and 16,000 nodes");
}

#[test]
fn no_restart_brings_back_an_edge_whose_tombstone_was_dropped() {
    let mut prng = Prng::new(seed());
    let nodes = 120;
    let mut memory = Arc::new(anonymous(14 * SEGMENT_BYTES));
    let mut store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
    let (types, mut model) = declare(&store.create_graph("test").expect("room"));
    let mut images = 0;
    for step in 0..60_000_u64 {
        let graph = store.graph("test").expect("named");
        let (ty, source) = (types[prng.below(4) as usize], 1 + prng.below(nodes));
        let destination = 1 + (source + prng.below(nodes - 1)) % nodes;
        let change = change(source, ty, destination, step, prng.chance(2, 5));
        while graph.writer().apply(&change.view()) == Err(GraphError::NoSpace) {
            compact(&graph);
        }
        model.apply(&change);
        if step % 100 == 0 {
            store.set_tombstone_age(1 + (step / 10) as u32, 50);
            let from = graph.writer().sweep(SweepPosition::default(), 200).expect("room");
            from.map(|from| graph.writer().sweep(from, 300).expect("room"));
            graph.writer().compact(75, 20_000).expect("room");
        }
        if step % 1500 == 1499 {
            images += 1;
            memory = Arc::new(image(&memory));
            (store, _) = GraphStore::open(Shared(Arc::clone(&memory)), &CONFIG).expect("an image opens");
            let graph = store.graph("test").expect("named");
            let mut reader = store.reader().expect("one of four");
            let guard = reader.enter();
            check_edges(&guard.view(&graph), &model, &types, nodes);
        }
    }
    assert_eq!(images, 40);
    check_shrunk(&store, &model, &types, nodes);
}

/// Checks that no tombstone is left once all are due.
fn check_shrunk(store: &GraphStore, model: &Reference, types: &[TypeId], nodes: u64) {
    let graph = store.graph("test").expect("named");
    for now in [1 << 20, 1 << 21, 1 << 22] {
        store.set_tombstone_age(now, 50);
        sweep(&graph);
    }
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    let view = guard.view(&graph);
    check_edges(&view, model, types, nodes);
    let all: Vec<u64> = (1..=nodes).collect();
    for ty in types {
        for source in 1..=nodes {
            let edges = view.edges(source, *ty, &all).expect("known");
            assert!(edges.into_iter().flatten().all(|edge| edge.state != EdgeState::Removed), "of {source}");
        }
    }
}

#[test]
fn batch_agrees_in_both_directions_where_one_tombstone_was_dropped() {
    let memory = Arc::new(anonymous(14 * SEGMENT_BYTES));
    let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    let knows = types[0];
    for other in 2..40 {
        for is_added in [true, false] {
            graph.writer().apply(&change(1, knows, other, 100 + u64::from(!is_added), is_added).view()).expect("room");
        }
    }
    // A sweep of one list only: the others retain their tombstones.
    for now in [1000, 3000] {
        store.set_tombstone_age(now, AGE_S);
        graph.writer().sweep(SweepPosition::default(), 2).expect("room");
    }
    let mut batch = BulkBatch::new(knows, 100);
    (2..20).for_each(|other| batch.push(other, 1, 50, b"").expect("valid"));
    (20..40).for_each(|other| batch.push(1, other, 50, b"").expect("valid"));
    let mut writer = graph.writer();
    BulkWriter::new(&mut writer).begin(batch).map_err(|(error, _)| error).expect("room");
    let mut images = Vec::new();
    while BulkWriter::new(&mut writer).step(3) == Ok(BulkStep::More) {
        images.push(image(&memory));
    }
    assert!(BulkWriter::new(&mut writer).finish().is_some());
    drop(writer);
    images.push(image(&memory));
    let last = images.len() - 1;
    for (at, image) in images.into_iter().enumerate() {
        let (store, _) = GraphStore::open(image, &CONFIG).expect("an image opens");
        let graph = store.graph("test").expect("named");
        let mut reader = store.reader().expect("one of four");
        let guard = reader.enter();
        let view = guard.view(&graph);
        for other in 2..40 {
            let live = |a, b| view.has_edge(a, knows, b);
            assert_eq!(live(1, other), live(other, 1), "image {at}: both directions of {other}");
            assert!(at < last || live(1, other) == Ok(true), "{other} is live after the load");
        }
    }
}
