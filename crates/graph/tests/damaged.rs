//! Memory of any contents: damaged images of real stores, and the seeds of the fuzz target `graph_memory`.
#![cfg(not(shuttle))]

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod memory_image;
mod reference;

use std::sync::Arc;

use gannet_graph::*;
use memory_image::{Reached, SEGMENT_BYTES, input_of, memory_of, open};
use reference::{Shared, declare, draw};

/// Returns an input with the memory of a real store, after some changes.
fn real_input(prng: &mut base::prng::Prng, changes: usize) -> Vec<u8> {
    let memory = Arc::new(anonymous(12 * SEGMENT_BYTES));
    let store = GraphStore::new(Shared(Arc::clone(&memory)), &reference::CONFIG).expect("enough");
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    for _ in 0..changes {
        graph.writer().apply(&draw(prng, &types, 12).view()).expect("room");
    }
    let mut writer = graph.writer();
    writer.set_object(1, Some(b"object"), 3).expect("room");
    writer.mark_node(2, true, 3).expect("room");
    input_of(&memory)
}

#[test]
fn input_of_a_store_is_its_memory() {
    let prng = &mut corpus::prng("gannet-graph", "damaged");
    let reached = open(memory_of(&real_input(prng, 300)));
    assert!(reached.faults == 0 && reached.records > 300 && reached.graphs == 1, "{reached:?}");
    assert!(reached.edges > 50 && reached.nodes > 10, "{reached:?}");
}

#[test]
fn memory_of_any_contents_opens_or_is_refused_and_a_second_restart_has_the_same_edges() {
    let prng = &mut corpus::prng("gannet-graph", "damaged");
    let mut all = Reached::default();
    for round in 0..if cfg!(debug_assertions) { 150 } else { 2000 } {
        let mut input = real_input(prng, 10 + round % 90);
        // Bytes change before checksums are made right, so wrong values reach the restart.
        corpus::damage(prng, 12, &mut input);
        if round % 3 == 0 {
            corpus::change(prng, &mut input);
        }
        let reached = open(memory_of(&input));
        all.records += reached.records;
        all.faults += reached.faults;
        all.edges += reached.edges;
    }
    assert!(all.records > 1000 && all.faults > 20 && all.edges > 1000, "{all:?}");
}

#[test]
fn every_seed_of_graph_memory_opens() {
    let (mut records, mut edges) = (0, 0);
    for (name, input) in corpus::seeds("graph_memory") {
        let reached = open(memory_of(&input));
        assert!(reached.records > 0, "{name} has no record");
        (records, edges) = (records + reached.records, edges + reached.edges);
    }
    assert!(records > 100 && edges > 20, "{records} records, {edges} edges");
}
