//! Tests of a store whose segments are all in use: changes are refused whole, removals go on, and compaction frees room
//! for new edges.

use base::prng::Prng;
use gannet_graph::{
    AtomicU32, Backing, BulkBatch, BulkStep, BulkWriter, CompactionStep, Cursor, EdgeAction, EdgeChange,
    EdgeTypeConfig, Graph, GraphError, GraphStore, GraphStoreConfig, PageOptions, PageQuery, QueryStep, TypeId,
    anonymous, limits::GRAPHS_MAX,
};
use std::collections::BTreeSet;
use std::sync::Arc;

const SEGMENTS: usize = 16;
const SEGMENT_BYTES: usize = 512 << 10;
const SOURCES: u64 = 3000;
const CONFIG: GraphStoreConfig = GraphStoreConfig {
    segment_bytes: SEGMENT_BYTES,
    readers_max: 1,
    needs_commits: false,
    hash_seed: 5,
    index_bytes_max: usize::MAX,
};

fn change(source: u64, edge_type: TypeId, destination: u64, time_ms: u64, action: EdgeAction<'_>) -> EdgeChange<'_> {
    EdgeChange { source, edge_type, destination, time_ms, action }
}

/// Compacts as many segments as there are, or until no segment is free. Removed edges leave the lists as they are
/// merged, so segments full of live records are compacted too.
fn compact(graph: &Graph) -> usize {
    let mut emptied = 0;
    while emptied < SEGMENTS {
        let step = graph.writer().compact(100, 4096);
        match step {
            Ok(CompactionStep::More) => {}
            Ok(CompactionStep::Emptied) => emptied += 1,
            Ok(CompactionStep::Nothing) | Err(GraphError::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    emptied
}

#[test]
fn full_store_takes_removals_and_has_room_again_after_compaction() {
    let store = GraphStore::new(anonymous(SEGMENTS * SEGMENT_BYTES), &CONFIG).expect("enough");
    let graph = store.create_graph("g").expect("room");
    let config = EdgeTypeConfig { schema: vec!["text".to_owned()], ..EdgeTypeConfig::default() };
    let ty = graph.writer().declare_type("knows", &config).expect("valid");
    let (mut prng, mut live, mut time) = (Prng::new(5), BTreeSet::new(), 1);
    let text = [7; 120];
    for round in 0..6 {
        let mut added = 0;
        loop {
            let edge = (prng.below(SOURCES) + 1, prng.below(200) + 10_000);
            time += 1;
            match graph.writer().apply(&change(edge.0, ty, edge.1, time, EdgeAction::Add(&text))) {
                Ok(_) => added += usize::from(live.insert(edge)),
                Err(GraphError::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(added > 500, "round {round} added {added} edges");
        let mut refused = 0;
        for edge in live.clone() {
            if prng.below(4) == 0 {
                continue;
            }
            time += 1;
            let removal = change(edge.0, ty, edge.1, time, EdgeAction::Remove);
            let apply = || graph.writer().apply(&removal);
            while let Err(error) = apply() {
                assert_eq!(error, GraphError::NoSpace);
                refused += 1;
                let before = store.stats();
                let emptied = compact(&graph);
                let after = store.stats();
                assert!(
                    emptied > 0 && refused < 1000,
                    "round {round}: no room for a removal after {refused}: {emptied} segments, {before:?}, {after:?}"
                );
            }
            live.remove(&edge);
        }
        compact(&graph);
        check(&store, &graph, ty, &live);
    }
}

/// Regression: tombstones longer than their edges filled a store, which then refused removals until they had aged.
#[test]
fn full_store_can_be_emptied_if_its_tombstones_age_sooner() {
    const AGE_S: u32 = 3600;
    const FULL_AGE_S: u32 = 10;
    let store = GraphStore::new(anonymous(10 * SEGMENT_BYTES), &CONFIG).expect("enough");
    let graph = store.create_graph("g").expect("room");
    let ty = graph.writer().declare_type("knows", &EdgeTypeConfig::default()).expect("valid");
    let mut now_s = 100_000;
    store.set_tombstone_age(now_s, AGE_S);
    let edge = |number: u64| (number / 200 + 1, number % 200 + 1_000_000);
    // Edges of one time are short. Their tombstones have times that differ.
    let apply =
        |number: u64, time, action| graph.writer().apply(&change(edge(number).0, ty, edge(number).1, time, action));
    let mut edges = 0;
    loop {
        match apply(edges, 1, EdgeAction::Add(b"")) {
            Ok(_) => edges += 1,
            Err(GraphError::NoSpace) if compact_gains(&store, &graph) => {}
            Err(error) => break assert_eq!(error, GraphError::NoSpace),
        }
    }
    let (mut is_stuck, mut waits) = (false, 0);
    for number in 0..edges {
        let time = 2 + (number * 0x9E37_79B9 % (1 << 40));
        while let Err(error) = apply(number, time, EdgeAction::Remove) {
            assert_eq!(error, GraphError::NoSpace);
            if !compact_gains(&store, &graph) {
                is_stuck = true;
                waits += 1;
                now_s += FULL_AGE_S + 1;
                store.set_tombstone_age(now_s, FULL_AGE_S);
                assert!(waits < 200, "edge {number} of {edges}: {:?}", store.stats());
            }
        }
    }
    assert!(is_stuck, "tombstones did not fill the store");
    now_s += 2 * FULL_AGE_S;
    store.set_tombstone_age(now_s, FULL_AGE_S);
    while compact_gains(&store, &graph) {}
    check(&store, &graph, ty, &BTreeSet::new());
    assert_eq!(apply(edges, 1, EdgeAction::Add(b"")), Ok(true), "{:?}", store.stats());
}

/// Compacts all segments once. Returns true if more of them are free than before.
fn compact_gains(store: &GraphStore, graph: &Graph) -> bool {
    let free = || store.stats().segments_free + store.stats().segments_retired;
    let before = free();
    compact(graph);
    free() > before
}

fn check(store: &GraphStore, graph: &Graph, ty: TypeId, live: &BTreeSet<(u64, u64)>) {
    let mut reader = store.reader().expect("one");
    let guard = reader.enter();
    let view = guard.view(graph);
    for source in 1..=SOURCES {
        let options = PageOptions { limit: 1000, ..PageOptions::default() };
        let mut query = PageQuery::begin(&view, source, ty, Cursor::START, &options).expect("valid");
        while query.step(&view, 1000) == QueryStep::More {}
        let found: BTreeSet<u64> = query.finish(&view).edges.iter().map(|edge| edge.node).collect();
        let expected: BTreeSet<u64> = live.range((source, 0)..(source + 1, 0)).map(|(_, to)| *to).collect();
        assert_eq!(found, expected, "source {source}");
        assert_eq!(view.count(source, ty).expect("valid") as usize, expected.len());
    }
}

/// Memory that stores one after another open.
struct Kept(Arc<Box<[AtomicU32]>>);

impl Backing for Kept {
    fn words(&self) -> &[AtomicU32] {
        &self.0
    }
}

#[test]
fn restarts_of_a_full_store_need_no_more_memory_however_many_follow_each_other() {
    let memory = Arc::new(anonymous(SEGMENTS * SEGMENT_BYTES));
    let open = || GraphStore::open(Kept(Arc::clone(&memory)), &CONFIG).map(|(store, _)| store);
    let store = open().expect("enough");
    let graph = store.create_graph("g").expect("room");
    let config = EdgeTypeConfig { schema: vec!["text".to_owned()], ..EdgeTypeConfig::default() };
    let ty = graph.writer().declare_type("knows", &config).expect("valid");
    let (mut prng, mut live, text) = (Prng::new(6), BTreeSet::new(), [7; 120]);
    // Each segment is emptied and reused several times, while half of the memory is live.
    for time in 1.. {
        let edge = (prng.below(500) + 1, prng.below(60) + 10_000);
        let applied = graph.writer().apply(&change(edge.0, ty, edge.1, time, EdgeAction::Add(&text)));
        match applied {
            Ok(_) => _ = live.insert(edge),
            Err(GraphError::NoSpace) => assert!(compact(&graph) > 0, "compaction finds room"),
            Err(error) => panic!("{error}"),
        }
        if store.stats().segments_recycled > 3 * SEGMENTS as u64 {
            break;
        }
    }
    compact(&graph);
    let free = store.stats().segments_free;
    drop(graph);
    drop(store);
    for restart in 1..=12 {
        let store = open().unwrap_or_else(|error| panic!("restart {restart}: {error}"));
        let graph = store.graph("g").expect("stored");
        assert!(store.stats().segments_free + 1 >= free, "restart {restart}: {free} were free, {:?}", store.stats());
        check(&store, &graph, ty, &live);
    }
}

#[test]
fn store_has_room_for_the_maximum_of_small_graphs_with_a_segment_each_and_a_third_more() {
    const SEGMENTS: usize = GRAPHS_MAX + GRAPHS_MAX / 3 + 1;
    let memory = Arc::new(anonymous(SEGMENTS * SEGMENT_BYTES));
    let open = || GraphStore::open(Kept(Arc::clone(&memory)), &CONFIG).expect("enough").0;
    let mut store = open();
    let mut edges = 0;
    for round in 0..2 {
        for number in 0..GRAPHS_MAX {
            let graph = store.create_graph(&format!("graph {number}")).expect("a graph takes one segment");
            let ty = graph.writer().declare_type("knows", &EdgeTypeConfig::default()).expect("room");
            for destination in 0..100 {
                let change = change(1, ty, 100 + round * 100 + destination, 1, EdgeAction::Add(b""));
                assert_eq!(graph.writer().apply(&change), Ok(true));
                edges += 1;
            }
        }
        assert_eq!(store.stats().segments - store.stats().segments_free, GRAPHS_MAX, "round {round}");
        // A restart opens the segments again.
        store = open();
    }
    let mut counted = 0;
    let graphs: Vec<Graph> = store.graphs().collect();
    let mut reader = store.reader().expect("the only one");
    for graph in &graphs {
        let ty = graph.edge_type("knows").expect("declared");
        counted += reader.enter().view(graph).count(1, ty).expect("known");
    }
    assert_eq!((graphs.len(), counted), (GRAPHS_MAX, edges));
    // A larger graph takes a segment for each kind of records.
    let ty = graphs[0].edge_type("knows").expect("declared");
    for source in 2..4000 {
        assert_eq!(graphs[0].writer().apply(&change(source, ty, 1, 1, EdgeAction::Add(b""))), Ok(true));
    }
    assert!(store.stats().segments - store.stats().segments_free > GRAPHS_MAX);
}

#[test]
fn index_of_lists_that_few_nodes_have_is_not_much_larger_than_their_records() {
    const NODES: u64 = 32 << 10;
    const TYPES: usize = 32;
    let store = GraphStore::new(anonymous(64 << 20), &GraphStoreConfig { segment_bytes: SEGMENT_BYTES, ..CONFIG });
    let store = store.expect("enough");
    let graph = store.create_graph("g").expect("room");
    let mut writer = graph.writer();
    let declare = |number: usize| writer.declare_type(&format!("t{number}"), &EdgeTypeConfig::default());
    let types: Vec<TypeId> = (0..TYPES).map(declare).collect::<Result<_, _>>().expect("valid");
    for source in (1..NODES).step_by(2) {
        writer.apply(&change(source, types[0], source + 1, 1, EdgeAction::Add(b""))).expect("room");
    }
    let before = store.stats().index_bytes;
    let lists = (0..NODES / 1024).flat_map(|block| types[1..].iter().map(move |ty| (block * 1024 + 1, *ty)));
    let mut count = 0;
    for (source, ty) in lists {
        writer.apply(&change(source, ty, source + 1, 1, EdgeAction::Add(b""))).expect("room");
        count += 1;
    }
    let a_list = (store.stats().index_bytes - before) / count;
    assert!(count == 992 && a_list < 1024, "{a_list} bytes of the index for each of {count} lists");
}

#[test]
fn full_index_refuses_additions_and_takes_removals_until_a_graph_is_dropped() {
    const MAX: usize = 2 << 20;
    let store = GraphStore::new(anonymous(64 << 20), &GraphStoreConfig { index_bytes_max: MAX, ..CONFIG });
    let store = store.expect("enough");
    let graph = store.create_graph("g").expect("room");
    let ty = graph.writer().declare_type("knows", &EdgeTypeConfig::default()).expect("valid");
    let add = |source: u64| change(source, ty, source + 1, 1, EdgeAction::Add(b""));
    let mut added = 0;
    let error = loop {
        match graph.writer().apply(&add(1 + added * 2)) {
            Ok(_) => added += 1,
            Err(error) => break error,
        }
    };
    let bytes = store.stats().index_bytes;
    assert!(error == GraphError::IndexFull(MAX) && added > 10_000, "{added} edges, then {error}");
    assert!((MAX / 2..=MAX).contains(&bytes), "{bytes} bytes");
    assert!(matches!(graph.writer().set_object(1, Some(b"x"), 1), Err(GraphError::IndexFull(_))));
    // Neither the nodes of a batch nor its lists bring the index above its maximum.
    let mut batch = BulkBatch::new(ty, 100_000);
    (0..100_000).for_each(|number| batch.push(1 << 40 | number, 1, 1, b"").expect("valid"));
    let mut writer = graph.writer();
    BulkWriter::new(&mut writer).begin(batch).map_err(|(error, _)| error).expect("none other");
    let refused = loop {
        match BulkWriter::new(&mut writer).step(4096) {
            Ok(step) => assert_eq!(step, BulkStep::More, "the batch was loaded"),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, GraphError::IndexFull(MAX));
    assert!(BulkWriter::new(&mut writer).cancel().is_some(), "the batch has stored edges");
    let bytes = store.stats().index_bytes;
    assert!(bytes <= MAX + (64 << 10), "{bytes} bytes");
    assert_eq!(writer.apply(&change(1, ty, 2, 2, EdgeAction::Remove)), Ok(true));
    drop(writer);
    store.drop_graph(&graph).expect("exists");
    drop(graph);
    assert_eq!(store.free_dropped(), 0);
    let graph = store.create_graph("g").expect("room");
    let ty = graph.writer().declare_type("knows", &EdgeTypeConfig::default()).expect("valid");
    assert_eq!(graph.writer().apply(&change(1, ty, 2, 1, EdgeAction::Add(b""))), Ok(true));
}

#[test]
fn batch_whose_lists_have_no_room_in_the_index_stores_no_edge() {
    const MAX: usize = 1 << 20;
    const NODES: u64 = 20_000;
    let store = GraphStore::new(anonymous(64 << 20), &GraphStoreConfig { index_bytes_max: MAX, ..CONFIG });
    let store = store.expect("enough");
    let graph = store.create_graph("g").expect("room");
    let mut writer = graph.writer();
    let declare = |number: usize| writer.declare_type(&format!("t{number}"), &EdgeTypeConfig::default());
    let types: Vec<TypeId> = (0..30).map(declare).collect::<Result<_, _>>().expect("valid");
    let mut refused = 0;
    for ty in &types {
        let before = store.stats().index_bytes;
        let mut batch = BulkBatch::new(*ty, NODES as usize);
        (1..NODES).step_by(2).for_each(|node| batch.push(node, node + 1, 1, b"").expect("valid"));
        BulkWriter::new(&mut writer).begin(batch).map_err(|(error, _)| error).expect("none other");
        let step = loop {
            match BulkWriter::new(&mut writer).step(4096) {
                Ok(BulkStep::More) => {}
                step => break step,
            }
        };
        if step == Err(GraphError::IndexFull(MAX)) {
            refused += 1;
            assert!(BulkWriter::new(&mut writer).cancel().is_some(), "the batch has stored edges");
            assert_eq!(store.stats().index_bytes, before);
        } else {
            assert_eq!((step, refused), (Ok(BulkStep::Done), 0));
            BulkWriter::new(&mut writer).finish().expect("complete");
        }
        let bytes = store.stats().index_bytes;
        assert!(bytes <= MAX, "{bytes} bytes");
    }
    assert!((1..30).contains(&refused), "{refused} batches were refused");
}

#[test]
fn full_store_takes_the_removal_of_objects() {
    let store = GraphStore::new(anonymous(SEGMENTS * SEGMENT_BYTES), &CONFIG).expect("enough");
    let graph = store.create_graph("g").expect("room");
    let mut writer = graph.writer();
    let (object, mut nodes) = (vec![7; 4000], 0);
    let error = loop {
        match writer.set_object(1 + nodes, Some(&object), 1) {
            Ok(_) => nodes += 1,
            Err(error) => break error,
        }
    };
    assert!(error == GraphError::NoSpace && nodes > 1000, "{nodes} objects, then {error}");
    assert_eq!(writer.set_object(nodes + 1, None, 2), Err(GraphError::NoSpace), "this removal adds a node");
    (1..=nodes).for_each(|node| assert_eq!(writer.set_object(node, None, 2), Ok(true), "object {node} of {nodes}"));
    drop(writer);
    assert!(compact(&graph) > 0);
    assert_eq!(graph.writer().set_object(1, Some(&object), 3), Ok(true));
}
