//! Readers beside a writer that reuses segments.
#![cfg(not(shuttle))]

mod reference;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use base::prng::Prng;
use gannet_graph::*;
use reference::new_store;

/// The writer sets all edges of a node to one time, one after the other. A reader must find times that never decrease,
/// edges in both directions and lists of the right length, while segments are reused hundreds of times.
#[test]
fn reader_holds_segment_while_it_is_recycled() {
    let store = new_store(10);
    let graph = store.create_graph("test").expect("room");
    let config = EdgeTypeConfig { direction: Direction::Undirected, ..Default::default() };
    let knows = graph.writer().declare_type("knows", &config).expect("valid");
    let (is_done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let change = |source, destination, time_ms| {
        let action = EdgeAction::Add(b"");
        EdgeChange { source, edge_type: knows, destination, time_ms, action }
    };
    let apply = |source: u64, destination: u64, time: u64| {
        let mut writer = graph.writer();
        while writer.apply(&change(source, destination, time)) == Err(GraphError::NoSpace) {
            while writer.compact(100, 1 << 20).expect("the reserve suffices") == CompactionStep::More {}
            // A reader may hold its epoch, and so the emptied segments. It ends its guard soon.
            std::thread::yield_now();
        }
    };
    for source in 1..=40 {
        (100..140).for_each(|destination| apply(source, destination, 1));
    }
    std::thread::scope(|scope| {
        for seed in 1..=2 {
            scope.spawn({
                let (store, graph, is_done, reads) = (&store, &graph, &is_done, &reads);
                move || read(store, graph, knows, seed, is_done, reads)
            });
        }
        let rounds = if cfg!(debug_assertions) { 30 } else { 300 };
        for time in 2..rounds {
            for source in 1..=40 {
                (100..140).for_each(|destination| apply(source, destination, time));
            }
        }
        is_done.store(true, Relaxed);
    });
    assert!(reads.load(Relaxed) > 100, "{} reads", reads.load(Relaxed));
    assert!(store.stats().segments_recycled > 10, "{:?}", store.stats());
}

fn read(store: &GraphStore, graph: &Graph, knows: TypeId, seed: u64, is_done: &AtomicBool, reads: &AtomicU64) {
    let (mut reader, mut prng) = (store.reader().expect("one of four"), Prng::new(seed));
    let mut latest = vec![0; 41];
    while !is_done.load(Relaxed) {
        let guard = reader.enter();
        let view = guard.view(graph);
        let source = 1 + prng.below(40);
        let mut neighbours = Vec::new();
        view.neighbours(source, knows, |node| {
            neighbours.push(node);
            true
        })
        .expect("valid");
        assert_eq!(neighbours, (100..140).collect::<Vec<u64>>());
        assert_eq!(view.count(source, knows), Ok(40));
        let destination = 100 + prng.below(40);
        assert_eq!(view.has_edge(destination, knows, source), Ok(true));
        let edge = view.edges(source, knows, &[100]).expect("valid").remove(0).expect("added");
        assert!(edge.time_ms >= latest[source as usize], "a time went back");
        latest[source as usize] = edge.time_ms;
        reads.fetch_add(1, Relaxed);
    }
}
