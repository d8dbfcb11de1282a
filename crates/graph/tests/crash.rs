//! Restarts from images of the memory: of every moment of its log, and between merges and compaction.
#![cfg(not(shuttle))]

mod reference;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::prng::Prng;
use gannet_graph::*;
use reference::{
    Action, CONFIG, Change, Reference, SEGMENT_BYTES, Shared, check_edges, check_values, declare, draw, seed,
};

const SEGMENT_WORDS: usize = SEGMENT_BYTES / 4;
/// The word of a segment's header with its number of used words.
const USED: usize = 4;
const HEADER: usize = 8;
const EDGE: u32 = 4;
const EDGE_TYPE: u32 = 2;

fn memory(segments: usize) -> Arc<Box<[AtomicU32]>> {
    Arc::new(anonymous(segments * SEGMENT_BYTES))
}

/// Opens an image and compares it with the model. Returns the store.
fn check_image(
    image: Box<[AtomicU32]>,
    model: &Reference,
    types: &[TypeId],
    nodes: u64,
) -> (GraphStore, RestartReport) {
    let (store, report) = GraphStore::open(image, &CONFIG).expect("an image opens");
    let graph = store.graph("test").expect("the name was written first");
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    let view = guard.view(&graph);
    check_edges(&view, model, types, nodes);
    check_values(&view, model, &mut Prng::new(1), types, nodes);
    drop(guard);
    drop(reader);
    (store, report)
}

#[test]
fn image_of_every_record_boundary_and_of_torn_records_opens_as_a_prefix() {
    let mut prng = Prng::new(seed());
    let memory = memory(9);
    let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
    let graph = store.create_graph("test").expect("room");
    let (types, empty) = declare(&graph);
    let mut accepted = Vec::new();
    for _ in 0..150 {
        let change = draw(&mut prng, &types, 120);
        let before = graph.writer().check(&change.view());
        assert_eq!(before, Ok(()));
        let hash = |graph: &Graph| log_edges(&memory, graph);
        let edges = hash(&graph);
        graph.writer().apply(&change.view()).expect("room");
        if hash(&graph) > edges {
            accepted.push(change);
        }
    }
    let log = log_segment(&memory);
    let (used, mut declared) = (memory[log * SEGMENT_WORDS + USED].load(Relaxed) as usize, 0);
    let (mut word, mut edges, mut model, mut boundaries) = (HEADER, 0, empty, 0);
    while word < used {
        let header = memory[log * SEGMENT_WORDS + word + 1].load(Relaxed);
        let length = (header & 0x3F_FFFF) as usize;
        if header >> 22 & 15 == EDGE_TYPE {
            declared += 1;
        }
        if declared < types.len() || header >> 22 & 15 == EDGE_TYPE {
            // The model has all types.
            word += length;
            continue;
        }
        let cut = image(&memory);
        cut[log * SEGMENT_WORDS + USED].store(word as u32, Relaxed);
        let (_, report) = check_image(cut, &model, &types, 120);
        assert_eq!(report.segments_torn, 0);
        let torn = image(&memory);
        torn[log * SEGMENT_WORDS + USED].store((word + length) as u32, Relaxed);
        torn[log * SEGMENT_WORDS + word + 2].fetch_xor(1 << (word % 32), Relaxed);
        let (_, report) = check_image(torn, &model, &types, 120);
        assert_eq!(report.segments_torn, 1);
        if header >> 22 & 15 == EDGE {
            model.apply(&accepted[edges]);
            edges += 1;
        }
        boundaries += 1;
        word += length;
    }
    assert_eq!(edges, accepted.len(), "every accepted change has one record");
    assert!(boundaries > 400, "{boundaries} boundaries");
    check_image(image(&memory), &model, &types, 120);
}

/// Returns the segment with all records of a small store: the only one that it opened.
fn log_segment(memory: &[AtomicU32]) -> usize {
    let sequence = |segment: &usize| memory[segment * SEGMENT_WORDS + 2].load(Relaxed);
    assert!((0..8).all(|segment| sequence(&segment) < 2), "a second segment");
    (0..8).find(|segment| sequence(segment) == 1).expect("opened by the name")
}

fn log_edges(memory: &[AtomicU32], _: &Graph) -> usize {
    let Some(log) = (0..8).find(|segment| memory[segment * SEGMENT_WORDS + 2].load(Relaxed) == 1) else { return 0 };
    let words = &memory[log * SEGMENT_WORDS..];
    let (mut word, mut edges) = (HEADER, 0);
    while word < words[USED].load(Relaxed) as usize {
        let header = words[word + 1].load(Relaxed);
        edges += usize::from(header >> 22 & 15 == EDGE);
        word += (header & 0x3F_FFFF) as usize;
    }
    edges
}

#[test]
fn list_that_grew_by_single_changes_opens_with_all_its_values() {
    let memory = memory(100);
    let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    let mut prng = Prng::new(seed());
    for time_ms in 1..20_000u64 {
        let (edge_type, destination) = (types[0], 2 + prng.below(12_000));
        let action = if prng.below(8) == 0 { EdgeAction::Remove } else { EdgeAction::Add(b"x") };
        let change = EdgeChange { source: 1, edge_type, destination, time_ms, action };
        graph.writer().apply(&change).expect("room");
    }
    let hash = |store: &GraphStore| {
        let (mut reader, graph) = (store.reader().expect("one of four"), store.graph("test").expect("created"));
        let guard = reader.enter();
        let view = guard.view(&graph);
        (view.state_hash(types[0]).expect("declared"), view.count(1, types[0]).expect("valid"))
    };
    let before = hash(&store);
    let (opened, report) = GraphStore::open(image(&memory), &CONFIG).expect("an image opens");
    assert_eq!(hash(&opened), before);
    assert_eq!(report.segments_torn, 0);
}

#[test]
fn image_amid_merges_and_compaction_opens_with_every_change() {
    let mut prng = Prng::new(seed());
    let memory = memory(14);
    let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
    let graph = store.create_graph("test").expect("room");
    let (types, mut model) = declare(&graph);
    let (nodes, mut emptied, mut replayed) = (400, 0, 0);
    for step in 0..60_000u64 {
        let change = draw(&mut prng, &types, nodes);
        let mut writer = graph.writer();
        if writer.apply(&change.view()) == Err(GraphError::NoSpace) {
            while writer.compact(95, 1 << 20).expect("the reserve suffices") == CompactionStep::More {}
            drop(writer);
            graph.writer().apply(&change.view()).expect("compaction freed a segment");
        } else {
            emptied += usize::from(writer.compact(80, 300) == Ok(CompactionStep::Emptied));
        }
        model.apply(&change);
        if step % 7919 == 0 {
            let (again, report) = check_image(image(&memory), &model, &types, nodes);
            replayed += report.edges_replayed;
            assert_eq!((report.segments_torn, report.records_orphaned), (0, 0));
            continue_after_restart(&again, &mut prng, &model, &types, nodes);
        }
    }
    assert!(emptied > 20 && replayed > 100, "{emptied} segments emptied, {replayed} edges replayed");
    assert!(store.stats().segments_recycled > 20, "{:?}", store.stats());
    assert!(store.stats().live_bytes > 0);
}

/// Changes a restarted store until its segments were reused, and compares it again.
fn continue_after_restart(store: &GraphStore, prng: &mut Prng, model: &Reference, types: &[TypeId], nodes: u64) {
    let graph = store.graph("test").expect("named");
    let mut model = model.clone();
    for _ in 0..4000 {
        let change = draw(prng, types, nodes);
        let mut writer = graph.writer();
        while writer.apply(&change.view()) == Err(GraphError::NoSpace) {
            while writer.compact(95, 1 << 20).expect("the reserve suffices") == CompactionStep::More {}
        }
        model.apply(&change);
    }
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    check_edges(&guard.view(&graph), &model, types, nodes);
}

#[test]
fn long_list_marks_and_objects_survive_a_restart() {
    let memory = memory(40);
    let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
    let graph = store.create_graph("test").expect("room");
    let (types, mut model) = declare(&graph);
    for step in 0..12_000 {
        let change = Change {
            source: 1,
            ty: types[0],
            destination: 2 + step % 9000,
            time_ms: step,
            action: Action::Add(vec![]),
        };
        graph.writer().apply(&change.view()).expect("room");
        model.apply(&change);
    }
    let mut writer = graph.writer();
    assert_eq!(writer.mark_node(7, true, 5), Ok(true));
    model.archived.insert(7);
    assert_eq!(writer.set_object(3, Some(b"person"), 5), Ok(true));
    assert_eq!(writer.set_object(3, Some(b"older"), 4), Ok(false));
    assert_eq!(writer.set_object(4, Some(b"gone"), 5), Ok(true));
    assert_eq!(writer.set_object(4, None, 6), Ok(true));
    drop(writer);
    let (store, report) = check_image(image(&memory), &model, &types, 20);
    assert_eq!(report.lists_rebuilt, 0, "every leaf stays where it is: {report:?}");
    let graph = store.graph("test").expect("named");
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    let view = guard.view(&graph);
    let object = |node| view.object(node).expect("valid").map(|object| object.bytes);
    assert_eq!((object(3), object(4), object(5)), (Some(b"person".to_vec()), None, None));
    drop(guard);
    assert_eq!(graph.writer().mark_node(7, false, 4), Ok(false), "an older mark has no effect after a restart");
}

#[test]
fn memory_of_another_segment_size_is_refused() {
    let memory = memory(9);
    let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
    store.create_graph("test").expect("room");
    // The pool hands out its first segment first, so a header is at the start of the memory.
    let config = GraphStoreConfig { segment_bytes: SEGMENT_BYTES + 8, ..CONFIG };
    let refused = GraphStore::open(image(&memory), &config).map(|_| ());
    assert_eq!(refused, Err(GraphError::OtherSegmentSize(SEGMENT_BYTES)));
}

/// A mark that a later one replaced is read first. Its segment must not become free, because the leaves in it are not
/// counted yet.
#[test]
fn segment_of_a_replaced_mark_keeps_its_leaves_after_a_restart() {
    let memory = memory(30);
    let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
    let graph = store.create_graph("test").expect("room");
    let (types, mut model) = declare(&graph);
    let mut prng = Prng::new(seed());
    let mut add = |graph: &Graph, model: &mut Reference, changes: usize| {
        for _ in 0..changes {
            let change = draw(&mut prng, &types, 300);
            while graph.writer().apply(&change.view()) == Err(GraphError::NoSpace) {
                graph.writer().compact(95, 1 << 20).expect("the reserve suffices");
            }
            model.apply(&change);
        }
    };
    for mark in 0..6 {
        add(&graph, &mut model, 6000);
        graph.writer().mark_node(7, mark % 2 == 0, 10 + mark).expect("room");
    }
    let image = image(&memory);
    let (store, _) = check_image(image, &model, &types, 300);
    let graph = store.graph("test").expect("named");
    add(&graph, &mut model, 20_000);
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    check_edges(&guard.view(&graph), &model, &types, 300);
}

/// Returns the word that [`base::prng::split_mix`] maps to `hash`.
fn split_mix_inverse(hash: u64) -> u64 {
    let unshift = |word: u64, bits: u32| (0..64 / bits).fold(word, |back, _| word ^ back >> bits);
    let inverse = |odd: u64| (0..6).fold(odd, |x: u64, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))));
    let word = unshift(hash, 31).wrapping_mul(inverse(0x94D0_49BB_1331_11EB));
    let word = unshift(word, 27).wrapping_mul(inverse(0xBF58_476D_1CE4_E5B9));
    unshift(word, 30).wrapping_sub(0x9E37_79B9_7F4A_7C15)
}

#[test]
fn identifiers_that_a_public_hash_maps_to_one_page_are_stored_and_open_again() {
    let chosen: Vec<u64> = (1..=3000u64).map(|high| split_mix_inverse(high << 32)).collect();
    assert!(chosen.iter().all(|node| base::prng::split_mix(*node) as u32 == 0), "the inverse is wrong");
    let memory = Arc::new(anonymous(20 * SEGMENT_BYTES));
    let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    for pair in chosen.chunks(2) {
        let change = EdgeChange {
            source: pair[0],
            edge_type: types[1],
            destination: pair[1],
            time_ms: 1,
            action: EdgeAction::Add(b""),
        };
        assert_eq!(graph.writer().apply(&change), Ok(true));
    }
    let (opened, report) = GraphStore::open(image(&memory), &CONFIG).expect("an image opens");
    assert_eq!((report.nodes, report.nodes_lost), (3000, 0));
    let (graph, mut reader) = (opened.graph("test").expect("named"), opened.reader().expect("one of four"));
    let guard = reader.enter();
    let view = guard.view(&graph);
    assert!(chosen.chunks(2).all(|pair| view.has_edge(pair[0], types[1], pair[1]) == Ok(true)));
}
