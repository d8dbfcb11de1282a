//! Drops of whole graphs: their space, the readers and writers that had found them before, and restarts.
#![cfg(not(shuttle))]

mod reference;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::prng::Prng;
use gannet_graph::*;
use reference::{CONFIG, SEGMENT_BYTES, Shared};

const SEGMENTS: usize = 40;
const SEGMENT_WORDS: usize = SEGMENT_BYTES / 4;
/// The words of a segment's header with the graph's number and with the number of used words.
const GRAPH: usize = 0;
const USED: usize = 4;
const NODES: u64 = 2000;
const EDGES: usize = 20_000;

type Memory = Arc<Box<[AtomicU32]>>;

fn new_store() -> (Memory, GraphStore) {
    let memory = Arc::new(anonymous(SEGMENTS * SEGMENT_BYTES));
    let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
    (memory, store)
}

fn add(writer: &mut Writer<'_>, edge_type: TypeId, source: u64, destination: u64) -> Result<bool, GraphError> {
    writer.apply(&EdgeChange { source, edge_type, destination, time_ms: 1, action: EdgeAction::Add(b"") })
}

/// Creates a graph with edges of some seed.
fn fill(store: &GraphStore, name: &str, seed: u64) -> (Graph, TypeId) {
    let graph = store.create_graph(name).expect("room");
    let config = EdgeTypeConfig { direction: Direction::Undirected, ..Default::default() };
    let mut writer = graph.writer();
    let knows = writer.declare_type("knows", &config).expect("valid");
    let mut prng = Prng::new(seed);
    for _ in 0..EDGES {
        let (a, b) = (1 + prng.below(NODES), 1 + prng.below(NODES));
        if a != b {
            add(&mut writer, knows, a, b).expect("room");
        }
    }
    writer.set_object(7, Some(b"object"), 1).expect("room");
    drop(writer);
    (graph, knows)
}

/// Returns the hash of a graph's edges, or `None` if there is no graph of this name.
fn hash(store: &GraphStore, name: &str) -> Option<u64> {
    let graph = store.graph(name)?;
    let knows = graph.edge_type("knows").expect("a graph has its type");
    store.reader().expect("one of four").enter().view(&graph).state_hash(knows).ok()
}

fn free(store: &GraphStore) -> usize {
    store.stats().segments_free
}

#[test]
fn space_of_a_dropped_graph_is_free_again_however_often_its_name_returns() {
    let (_, store) = new_store();
    let (_, _) = fill(&store, "other", 1);
    let (other, before) = (hash(&store, "other"), free(&store));
    let index = store.stats().index_bytes;
    for round in 0..70 {
        let (graph, _) = fill(&store, "test", 2 + round);
        assert!(free(&store) + 3 < before, "round {round}: the graph has some segments");
        store.drop_graph(&graph).expect("exists");
        assert!(store.graph("test").is_none() && hash(&store, "other") == other, "round {round}");
        assert_eq!(store.drop_graph(&graph), Err(GraphError::GraphDropped));
        assert_eq!(store.free_dropped(), 0, "no reader is in it");
        assert_eq!((free(&store), store.stats().index_bytes), (before, index), "round {round}");
    }
    let stats = store.stats();
    assert_eq!((stats.graphs, stats.graphs_dropping, stats.graphs_dropped), (1, 0, 70));
}

#[test]
fn reader_within_an_epoch_reads_a_whole_graph_that_is_dropped_meanwhile_and_a_later_one_nothing() {
    let (_, store) = new_store();
    let (graph, knows) = fill(&store, "test", 1);
    let before = hash(&store, "test");
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    let view = guard.view(&graph);
    let mut distance = DistanceQuery::begin(&view, Scratch::new(), 1, knows, &[2, 3, 4], 3, 1000).expect("valid");
    let mut degree = SecondDegreeQuery::begin(&view, Scratch::new(), 1, knows, 100_000).expect("valid");
    assert_eq!(degree.step(&view, 64), QueryStep::More);
    store.drop_graph(&graph).expect("exists");
    // Another graph takes all segments that it may.
    let (_, _) = fill(&store, "other", 2);
    assert_eq!(store.free_dropped(), 1, "the reader is in its segments");
    assert_eq!(view.state_hash(knows).ok(), before);
    drop(guard);
    let guard = reader.enter();
    let view = guard.view(&graph);
    assert!(view.is_dropped() && view.nodes() == 0);
    assert_eq!(view.count(1, knows), Err(GraphError::GraphDropped));
    // A caller that does not check the view gets no edges of others.
    while distance.step(&view, 64) == QueryStep::More {}
    while degree.step(&view, 64) == QueryStep::More {}
    assert_eq!(distance.finish().0.distances, [None; 3]);
    drop(guard);
    assert_eq!(store.free_dropped(), 0);
}

#[test]
fn writer_of_a_dropped_graph_changes_nothing() {
    let (memory, store) = new_store();
    let (graph, knows) = fill(&store, "test", 1);
    let batch = || {
        let mut batch = BulkBatch::new(knows, 1000);
        (1..=500).for_each(|node| batch.push(node, node + 5000, 1, b"").expect("room"));
        batch
    };
    {
        let mut writer = graph.writer();
        let mut bulk = BulkWriter::new(&mut writer);
        assert!(bulk.begin(batch()).is_ok());
        // The batch has reserved room and written some lists.
        for _ in 0..12 {
            assert_eq!(bulk.step(500), Ok(BulkStep::More));
        }
        assert!(bulk.cancel().is_none(), "edges are stored");
    }
    store.drop_graph(&graph).expect("exists");
    let (_, _) = fill(&store, "other", 2);
    let (other, words) = (hash(&store, "other"), image(&memory));
    let dropped = Err(GraphError::GraphDropped);
    let mut writer = graph.writer();
    assert_eq!(add(&mut writer, knows, 1, 2), dropped);
    assert_eq!(writer.set_object(1, Some(b"x"), 9), dropped);
    assert_eq!(writer.mark_node(1, true, 9), dropped);
    assert_eq!(writer.declare_type("new", &EdgeTypeConfig::default()), Err(GraphError::GraphDropped));
    assert_eq!(BulkWriter::new(&mut writer).step(64), Err(GraphError::GraphDropped));
    assert!(BulkWriter::new(&mut writer).begin(batch()).is_err_and(|(error, _)| error == GraphError::GraphDropped));
    assert_eq!(writer.compact(100, 1000), Ok(CompactionStep::Nothing));
    assert_eq!(writer.sweep(SweepPosition::default(), 100), Ok(None));
    writer.seal();
    drop(writer);
    let is_same = |(before, now): (&AtomicU32, &AtomicU32)| before.load(Relaxed) == now.load(Relaxed);
    assert!(words.iter().zip(memory.iter()).all(is_same), "a refused change wrote into the memory");
    assert_eq!(hash(&store, "other"), other);
}

#[test]
fn cursor_and_cached_set_of_a_dropped_graph_are_not_those_of_a_later_one_with_its_name_and_number() {
    let (memory, store) = new_store();
    let page = |store: &GraphStore, cursor: Cursor| {
        let (graph, mut reader) = (store.graph("test").expect("exists"), store.reader().expect("one of four"));
        let (guard, knows) = (reader.enter(), graph.edge_type("knows").expect("declared"));
        let view = guard.view(&graph);
        let options = PageOptions { limit: 3, ..Default::default() };
        let mut query = PageQuery::begin(&view, 1, knows, cursor, &options)?;
        while query.step(&view, 64) == QueryStep::More {}
        Ok(query.finish(&view).next)
    };
    let (graph, knows) = fill(&store, "test", 1);
    let cursor = page(&store, Cursor::START).expect("a page");
    // A restart does not end a cursor.
    let (reopened, _) = GraphStore::open(image(&memory), &CONFIG).expect("an image opens");
    assert!(cursor != Cursor::START && page(&reopened, cursor).is_ok());
    let mut cache = SecondDegreeCache::new(1 << 20);
    let mut reader = store.reader().expect("one of four");
    let second = |view: &View<'_>| {
        let mut query = SecondDegreeQuery::begin(view, Scratch::new(), 1, knows, 1 << 20).expect("valid");
        while query.step(view, 4096) == QueryStep::More {}
        query.finish().0
    };
    {
        let guard = reader.enter();
        let view = guard.view(&graph);
        cache.insert(&view, second(&view));
        assert!(cache.find(&view, 1, knows, u64::MAX).is_some());
    }
    let number = graph.number();
    store.drop_graph(&graph).expect("exists");
    assert_eq!(store.free_dropped(), 0);
    let (again, _) = fill(&store, "test", 1);
    assert_eq!(again.number(), number, "the number is free");
    assert_eq!(page(&store, cursor), Err(GraphError::BadCursor));
    let (reopened, _) = GraphStore::open(image(&memory), &CONFIG).expect("an image opens");
    assert_eq!(page(&reopened, cursor), Err(GraphError::BadCursor), "after a restart");
    let guard = reader.enter();
    assert!(cache.find(&guard.view(&again), 1, knows, u64::MAX).is_none());
}

/// Returns the segments of the graph with a number that are in use, in ascending order.
fn segments_of(memory: &[AtomicU32], graph: u32) -> Vec<usize> {
    let word = |segment: usize, at: usize| memory[segment * SEGMENT_WORDS + at].load(Relaxed);
    let is_of = |segment: &usize| word(*segment, USED) > 0 && word(*segment, GRAPH) >> 24 == graph;
    (0..SEGMENTS).filter(is_of).collect()
}

#[test]
fn image_of_every_step_of_a_drop_opens_with_the_whole_graph_or_without_it() {
    let (memory, store) = new_store();
    let (_, _) = fill(&store, "other", 1);
    let (graph, _) = fill(&store, "test", 2);
    let (other, whole) = (hash(&store, "other"), hash(&store, "test"));
    assert!(whole.is_some());
    let before = image(&memory);
    // The reader keeps the segments from becoming free.
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    store.drop_graph(&graph).expect("exists");
    let after = image(&memory);
    drop(guard);
    let differing: Vec<usize> =
        (0..before.len()).filter(|at| before[*at].load(Relaxed) != after[*at].load(Relaxed)).collect();
    assert!(differing.len() < 12, "the drop itself is one record: {} words", differing.len());
    let last = differing[0] / SEGMENT_WORDS;
    let check = |image: Box<[AtomicU32]>, test: Option<u64>, context: &str| {
        let faults = check_memory(&image, SEGMENT_BYTES).faults_count;
        assert_eq!(faults, 0, "{context}");
        let memory = Arc::new(image);
        for opening in ["first", "second"] {
            let (store, _) = GraphStore::open(Shared(Arc::clone(&memory)), &CONFIG).expect("an image opens");
            assert_eq!(hash(&store, "test"), test, "{context}, {opening} restart");
            assert_eq!(hash(&store, "other"), other, "{context}, {opening} restart");
            assert!(test.is_some() || segments_of(&memory, 1).is_empty(), "{context}: the space is free");
        }
    };
    // The words of the record are written before the segment's number of used words makes them known.
    let used = last * SEGMENT_WORDS + USED;
    assert!(differing.contains(&used));
    for written in 0..differing.len() {
        let image = image(&before);
        let words = differing.iter().filter(|at| **at != used).take(written);
        words.for_each(|at| image[*at].store(after[*at].load(Relaxed), Relaxed));
        check(image, whole, &format!("{written} words of the record"));
    }
    check(image(&after), None, "the record is complete");
    // Segments become free one after another, the one with the record last.
    let others: Vec<usize> = segments_of(&after, 1).into_iter().filter(|segment| *segment != last).collect();
    assert!(others.len() > 3);
    for freed in 1..=others.len() + 1 {
        let image = image(&after);
        let order = others.iter().copied().chain([last]);
        order.take(freed).for_each(|segment| image[segment * SEGMENT_WORDS + USED].store(0, Relaxed));
        check(image, None, &format!("{freed} segments are free"));
    }
    // The segment that became free last is opened first.
    assert_eq!(store.free_dropped(), 0);
    let (_, _) = fill(&store, "new", 3);
    assert_eq!(segments_of(&memory, 1).iter().filter(|segment| **segment == last).count(), 1);
    assert_eq!((hash(&store, "other"), hash(&store, "test")), (other, None));
}

#[test]
fn full_store_is_emptied_by_a_drop() {
    let (_, store) = new_store();
    let (graph, knows) = fill(&store, "test", 1);
    let mut node = 10_000;
    while add(&mut graph.writer(), knows, node, node + 1).is_ok() {
        node += 2;
    }
    let mut writer = graph.writer();
    writer.seal();
    while add(&mut writer, knows, node, node + 1).is_ok() {
        node += 2;
    }
    drop(writer);
    assert!(free(&store) <= 6, "{:?}", store.stats());
    assert_eq!(store.drop_graph(&graph), Ok(()));
    assert_eq!((store.free_dropped(), free(&store)), (0, SEGMENTS));
    let (_, _) = fill(&store, "test", 2);
}

#[test]
fn drop_is_undone_by_a_power_loss_before_a_commit_and_final_after_it() {
    let (memory, store) = new_store();
    store.require_commits();
    let (graph, _) = fill(&store, "test", 1);
    let commit = store.begin_commit();
    let flushed = image(&memory);
    store.end_commit(&commit);
    let whole = hash(&store, "test");
    store.drop_graph(&graph).expect("exists");
    let (_, _) = fill(&store, "test", 2);
    assert_eq!(store.free_dropped(), 1, "the segments wait for a commit");
    let second = hash(&store, "test");
    let mut prng = Prng::new(3);
    let mut mixed = |old: &[AtomicU32], new: &[AtomicU32]| {
        let memory = image(old);
        for page in (0..memory.len()).step_by(1024).filter(|_| prng.chance(1, 2)) {
            (page..page + 1024).for_each(|at| memory[at].store(new[at].load(Relaxed), Relaxed));
        }
        memory
    };
    for _ in 0..8 {
        let disk = mixed(&flushed, &memory);
        let (opened, _) = GraphStore::open_committed(disk, &CONFIG, &commit.watermarks).expect("room");
        assert_eq!(hash(&opened, "test"), whole, "the drop was not committed");
    }
    let commit = store.begin_commit();
    let flushed = image(&memory);
    store.end_commit(&commit);
    assert_eq!(store.free_dropped(), 0);
    let (_, _) = fill(&store, "other", 3);
    for _ in 0..8 {
        let disk = mixed(&flushed, &memory);
        let (opened, _) = GraphStore::open_committed(disk, &CONFIG, &commit.watermarks).expect("room");
        assert_eq!(hash(&opened, "test"), second, "the drop was committed, and so was the graph after it");
        assert_eq!(hash(&opened, "other"), None);
    }
}

#[test]
fn graph_that_a_commit_dropped_and_whose_name_another_got_is_never_there_twice() {
    let (_, store) = new_store();
    let (_, _) = fill(&store, "test", 1);
    let commits = std::sync::atomic::AtomicUsize::new(0);
    let mut drops = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while commits.load(Relaxed) < 200 {
                let commit = store.begin_commit();
                let graphs = commit.watermarks.iter().filter(|mark| **mark != Watermark::default()).count();
                assert!(graphs <= 1, "{graphs} graphs of one name");
                store.end_commit(&commit);
                commits.fetch_add(1, Relaxed);
            }
        });
        while commits.load(Relaxed) < 200 || drops < 200 {
            let graph = store.graph("test").expect("there is always one");
            store.drop_graph(&graph).expect("exists");
            let graph = store.create_graph("test").expect("room");
            graph.writer().declare_type("knows", &EdgeTypeConfig::default()).expect("room");
            store.free_dropped();
            drops += 1;
        }
    });
}
