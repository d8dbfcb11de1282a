//! Bulk loads: equal to the same edges added one at a time, beside other changes, and after a restart at every slice.
#![cfg(not(shuttle))]

mod reference;

use std::collections::HashSet;
use std::sync::Arc;

use base::prng::Prng;
use gannet_graph::*;
use reference::{CONFIG, SEGMENT_BYTES, Shared, declare, draw, new_store, seed};

/// An edge to be added: source, destination, time and attributes.
type Addition = (u64, u64, u64, Vec<u8>);

/// Draws edges of few nodes, so that some are drawn twice and some lists are long.
fn draw_additions(
    prng: &mut Prng,
    count: usize,
    nodes: u64,
    has_one_time: bool,
    has_attributes: bool,
) -> Vec<Addition> {
    let mut one = |_| loop {
        let node = |prng: &mut Prng| 1 + if prng.chance(1, 3) { prng.below(nodes) } else { prng.below(nodes / 50 + 2) };
        let (source, destination) = (node(prng), node(prng));
        let time = if has_one_time { 7 } else { prng.below(1000) };
        let mut attributes = vec![0; if has_attributes && prng.chance(1, 3) { prng.below(40) as usize } else { 0 }];
        prng.fill(&mut attributes);
        if source != destination {
            return (source, destination, time, attributes);
        }
    };
    (0..count).map(&mut one).collect()
}

fn batch_of(ty: TypeId, additions: &[Addition]) -> BulkBatch {
    let mut batch = BulkBatch::new(ty, additions.len());
    for (source, destination, time, attributes) in additions {
        batch.push(*source, *destination, *time, attributes).expect("valid");
    }
    batch
}

/// Loads one batch. Compacts when no segment is free.
fn load(graph: &Graph, batch: BulkBatch, slice: u32) -> BulkReport {
    let mut writer = graph.writer();
    BulkWriter::new(&mut writer).begin(batch).expect("none other");
    loop {
        match BulkWriter::new(&mut writer).step(slice) {
            Ok(BulkStep::More) => {}
            Ok(BulkStep::Done) => return BulkWriter::new(&mut writer).finish().expect("complete").0,
            Err(GraphError::NoSpace) => {
                writer.seal();
                assert_ne!(writer.compact(100, 1 << 20), Ok(CompactionStep::Nothing), "no room can be made");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn add(graph: &Graph, ty: TypeId, additions: &[Addition]) -> (u64, u64) {
    let (mut changed, mut refused) = (0, 0);
    let mut writer = graph.writer();
    for (source, destination, time_ms, attributes) in additions {
        let action = EdgeAction::Add(attributes);
        let change =
            EdgeChange { source: *source, edge_type: ty, destination: *destination, time_ms: *time_ms, action };
        match writer.apply(&change) {
            Ok(is_changed) => changed += u64::from(is_changed),
            Err(GraphError::CapReached { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    (changed, refused)
}

/// Returns the hash of each type's edges and a hash of all degrees.
fn hashes(store: &GraphStore, types: &[TypeId], nodes: u64) -> Vec<u64> {
    let graph = store.graph("test").expect("named");
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    let view = guard.view(&graph);
    let degrees = |ty: &TypeId| {
        let degree = |node: u64| base::prng::split_mix(node ^ u64::from(view.count(node, *ty).expect("known")) << 32);
        (1..=nodes).map(degree).fold(0, u64::wrapping_add)
    };
    types.iter().flat_map(|ty| [view.state_hash(*ty).expect("known"), degrees(ty)]).collect()
}

#[test]
fn batches_equal_the_same_edges_added_one_at_a_time() {
    let mut prng = Prng::new(seed());
    let mut drawn_twice = 0;
    for (round, edges_max) in [1, 50, 700, 5000, 20_000, 20_000].into_iter().enumerate() {
        let (bulk, single) = (new_store(120), new_store(120));
        let stores = [&bulk, &single].map(|store| {
            let graph = store.create_graph("test").expect("room");
            let (types, _) = declare(&graph);
            (graph, types)
        });
        for at in 0..4 {
            let has_attributes = at == 0 || at == 3;
            let additions = draw_additions(&mut prng, 20_000, 3000, round % 2 == 0, has_attributes);
            let ty = stores[0].1[at];
            let mut changed = 0;
            for part in additions.chunks(edges_max) {
                let report = load(&stores[0].0, batch_of(ty, part), 1 + prng.below(9000) as u32);
                assert_eq!((report.edges, report.edges_refused), (part.len() as u64, 0));
                changed += report.edges_changed;
            }
            let (changed_singly, _) = add(&stores[1].0, ty, &additions);
            drawn_twice += additions.len() as u64 - changed;
            // An edge that one batch has twice counts once, even if both change it.
            assert!(changed <= changed_singly, "{changed} of {changed_singly}");
            if round % 2 == 0 && !has_attributes {
                assert_eq!(changed, changed_singly);
            }
        }
        assert_eq!(hashes(&bulk, &stores[0].1, 3000), hashes(&single, &stores[1].1, 3000), "batches of {edges_max}");
        let view_nodes = [&bulk, &single].map(|store| {
            let graph = store.graph("test").expect("named");
            let mut reader = store.reader().expect("one of four");
            let guard = reader.enter();
            guard.view(&graph).nodes()
        });
        assert_eq!(view_nodes[0], view_nodes[1]);
    }
    assert!(drawn_twice > 10_000, "{drawn_twice} duplicates");
}

#[test]
fn batches_amid_other_changes_and_compaction_equal_changes_one_at_a_time() {
    let mut prng = Prng::new(seed());
    let (bulk, single) = (new_store(60), new_store(200));
    let graph = bulk.create_graph("test").expect("room");
    let other = single.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    declare(&other);
    let (nodes, mut interleaved, mut emptied) = (600, 0, 0);
    for round in 0..24 {
        let at = round % 4;
        let has_attributes = at == 0 || at == 3;
        let count = 1 + prng.below(4000) as usize;
        let has_one_time = prng.chance(1, 2);
        let additions = draw_additions(&mut prng, count, nodes, has_one_time, has_attributes);
        let begun = BulkWriter::new(&mut graph.writer()).begin(batch_of(types[at], &additions));
        begun.expect("none other");
        loop {
            let mut writer = graph.writer();
            let step = BulkWriter::new(&mut writer).step(1 + prng.below(400) as u32);
            if step == Ok(BulkStep::Done) {
                break;
            }
            if step == Err(GraphError::NoSpace) {
                writer.seal();
            }
            emptied += usize::from(writer.compact(90, 20_000) == Ok(CompactionStep::Emptied));
            let change = draw(&mut prng, &types, nodes);
            if writer.apply(&change.view()).is_ok() {
                other.writer().apply(&change.view()).expect("room");
                interleaved += 1;
            }
        }
        let mut writer = graph.writer();
        let (report, batch) = BulkWriter::new(&mut writer).finish().expect("complete");
        assert_eq!((report.edges, report.edges_refused, batch.len()), (additions.len() as u64, 0, 0));
        drop(writer);
        add(&other, types[at], &additions);
        assert_eq!(hashes(&bulk, &types, nodes), hashes(&single, &types, nodes), "round {round}");
    }
    assert!(interleaved > 500 && emptied > 10, "{interleaved} changes, {emptied} segments emptied");
}

#[test]
fn batch_refuses_the_edges_that_a_cap_refuses_one_at_a_time() {
    let mut prng = Prng::new(seed());
    let declare = |graph: &Graph| {
        let mut writer = graph.writer();
        let mut declare = |name: &str, direction, cap| {
            writer.declare_type(name, &EdgeTypeConfig { direction, cap, ..Default::default() }).expect("valid")
        };
        let knows = declare("knows", Direction::Undirected, 20);
        let follows = declare("follows", Direction::Directed, 9);
        let followed = declare("followed", Direction::InverseOf("follows".into()), 30);
        vec![knows, follows, followed, declare("likes", Direction::Directed, 4)]
    };
    let (mut refused, mut accepted) = (0, 0);
    for edges_max in [300, 4000, 20_000] {
        let stores = [new_store(120), new_store(120)];
        let graphs = stores.each_ref().map(|store| store.create_graph("test").expect("room"));
        let types = graphs.each_ref().map(declare);
        for (at, ty) in types[0].iter().enumerate() {
            let additions = draw_additions(&mut prng, 20_000, 4000, at < 2, false);
            let (changed, refused_singly) = add(&graphs[0], *ty, &additions);
            let mut reports = Vec::new();
            for part in additions.chunks(edges_max) {
                reports.push(load(&graphs[1], batch_of(types[1][at], part), 5000));
            }
            let sum = |figure: fn(&BulkReport) -> u64| reports.iter().map(figure).sum::<u64>();
            assert_eq!(sum(|report| report.edges_refused), refused_singly);
            assert!(reports.iter().all(|report| report.refused.len() as u64 == report.edges_refused.min(16)));
            if at < 2 {
                assert_eq!(sum(|report| report.edges_changed), changed);
            }
            refused += refused_singly;
            accepted += changed;
        }
        assert_eq!(hashes(&stores[0], &types[0], 4000), hashes(&stores[1], &types[1], 4000));
    }
    assert!(refused > 10_000 && accepted > 10_000, "{refused} refused, {accepted} accepted");
}

/// Returns the value of every edge between the first nodes, in the lists of both its ends.
fn values(view: &View<'_>, types: &[TypeId], reverses: &[Option<usize>], nodes: u64) -> Vec<Option<EdgeView>> {
    let all: Vec<u64> = (1..=nodes).collect();
    let lists = |ty: TypeId| -> Vec<Vec<Option<EdgeView>>> {
        all.iter().map(|node| view.edges(*node, ty, &all).expect("known")).collect()
    };
    let mut values = Vec::new();
    for (ty, reverse) in types.iter().zip(reverses) {
        let own = lists(*ty);
        if let Some(reverse) = reverse.map(|reverse| lists(types[reverse])) {
            for (source, list) in own.iter().enumerate() {
                for (destination, value) in list.iter().enumerate() {
                    assert_eq!(*value, reverse[destination][source], "both directions of {source} {destination}");
                }
            }
        }
        values.extend(own.into_iter().flatten());
    }
    values
}

#[test]
fn image_after_every_slice_opens_with_whole_edges_and_the_batch_is_repeatable() {
    let mut prng = Prng::new(seed());
    let nodes = 40;
    let reverses = [Some(0), Some(2), Some(1), None];
    let (mut images, mut partial, mut replayed) = (0, 0, 0);
    for at in 0..4 {
        let memory = Arc::new(anonymous(12 * SEGMENT_BYTES));
        let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
        let graph = store.create_graph("test").expect("room");
        let (types, _) = declare(&graph);
        for _ in 0..1500 {
            graph.writer().apply(&draw(&mut prng, &types, nodes).view()).expect("room");
        }
        let mut additions = draw_additions(&mut prng, 150, nodes, at % 2 == 1, at == 0 || at == 3);
        let mut pairs = HashSet::new();
        additions.retain(|(source, destination, ..)| {
            let pair =
                if at == 0 { (*source.min(destination), *source.max(destination)) } else { (*source, *destination) };
            pairs.insert(pair)
        });
        let values = |store: &GraphStore| {
            let graph = store.graph("test").expect("named");
            let mut reader = store.reader().expect("one of four");
            let guard = reader.enter();
            values(&guard.view(&graph), &types, &reverses, nodes)
        };
        let before = values(&store);
        let (expected, _) = GraphStore::open(image(&memory), &CONFIG).expect("opens");
        add(&expected.graph("test").expect("named"), types[at], &additions);
        let after = values(&expected);
        BulkWriter::new(&mut graph.writer()).begin(batch_of(types[at], &additions)).expect("none other");
        loop {
            let step = BulkWriter::new(&mut graph.writer()).step(1);
            let (again, report) = GraphStore::open(image(&memory), &CONFIG).expect("an image opens");
            assert_eq!((report.segments_torn, report.records_orphaned), (0, 0));
            let now = values(&again);
            let is_whole = |at: usize| now[at] == before[at] || now[at] == after[at];
            assert_eq!((0..now.len()).find(|at| !is_whole(*at)), None, "an edge with another value");
            partial += usize::from(now != before && now != after);
            replayed += report.edges_replayed;
            images += 1;
            if images % 7 == 0 {
                load(&again.graph("test").expect("named"), batch_of(types[at], &additions), 1000);
                assert_eq!(values(&again), after);
                assert_eq!(hashes(&again, &types, nodes), hashes(&expected, &types, nodes));
            }
            if step.expect("room") == BulkStep::Done {
                break;
            }
        }
        assert_eq!(values(&store), after);
    }
    assert!(images > 1000 && partial > 200 && replayed > 1000, "{images} images, {partial} partial, {replayed}");
}

/// Returns the value of the edge from node 1 to node 9000.
fn hub_edge(store: &GraphStore, ty: TypeId) -> Option<EdgeView> {
    let graph = store.graph("test").expect("named");
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    guard.view(&graph).edges(1, ty, &[9000]).expect("known").remove(0)
}

#[test]
fn batch_entry_that_a_later_change_overtakes_keeps_its_newer_value_after_a_restart() {
    // The list of a hub is long, so an entry of a small batch is one of its recent changes: the batch's own record. A
    // change that arrives while the batch is loaded has a higher sequence number, although its time may be lower.
    let changes: [(EdgeAction<'_>, u64); 6] = [
        (EdgeAction::Add(b"change"), 8),
        (EdgeAction::Add(b"change"), 10),
        (EdgeAction::Remove, 8),
        (EdgeAction::Remove, 10),
        (EdgeAction::Archive, 8),
        (EdgeAction::AddNegative(b"change"), 9),
    ];
    let mut amid = 0;
    for (at, (action, time_ms)) in changes.iter().flat_map(|change| [change; 2]).enumerate() {
        let ty_at = if at % 2 == 0 { 0 } else { 3 };
        for slices in 0.. {
            let memory = Arc::new(anonymous(30 * SEGMENT_BYTES));
            let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
            let graph = store.create_graph("test").expect("room");
            let ty = declare(&graph).0[ty_at];
            let hub: Vec<Addition> = (2..3000).map(|node| (1, node, 1, Vec::new())).collect();
            load(&graph, batch_of(ty, &hub), 100_000);
            let mut writer = graph.writer();
            BulkWriter::new(&mut writer).begin(batch_of(ty, &[(1, 9000, 9, b"batch".to_vec())])).expect("none other");
            let steps = (0..slices).filter(|_| BulkWriter::new(&mut writer).step(1) == Ok(BulkStep::More)).count();
            let change = EdgeChange { source: 1, edge_type: ty, destination: 9000, time_ms: *time_ms, action: *action };
            let _ = writer.apply(&change).expect("room");
            while BulkWriter::new(&mut writer).step(1) == Ok(BulkStep::More) {}
            assert!(BulkWriter::new(&mut writer).finish().is_some());
            drop(writer);
            let wanted = {
                let store = new_store(30);
                let graph = store.create_graph("test").expect("room");
                let ty = declare(&graph).0[ty_at];
                add(&graph, ty, &[(1, 9000, 9, b"batch".to_vec())]);
                let _ = graph.writer().apply(&EdgeChange { edge_type: ty, ..change }).expect("room");
                hub_edge(&store, ty)
            };
            assert_eq!(hub_edge(&store, ty), wanted, "{action:?} at {time_ms} after {slices} slices");
            let (opened, _) = GraphStore::open(image(&memory), &CONFIG).expect("room");
            assert_eq!(hub_edge(&opened, ty), wanted, "{action:?} at {time_ms} after {slices} slices and a restart");
            amid += usize::from(steps > 0 && steps == slices);
            if steps < slices {
                break;
            }
        }
    }
    assert!(amid > 30, "{amid} changes amid a batch");
}

#[test]
fn abandoned_batch_blocks_another_one_until_it_is_continued() {
    let store = new_store(20);
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    let additions = draw_additions(&mut Prng::new(1), 300, 50, true, false);
    let mut writer = graph.writer();
    let mut bulk = BulkWriter::new(&mut writer);
    assert_eq!((bulk.step(10), bulk.finish().is_some()), (Ok(BulkStep::Done), false), "no batch");
    bulk.begin(batch_of(types[1], &additions)).expect("none other");
    assert_eq!(bulk.step(10), Ok(BulkStep::More));
    assert!(bulk.finish().is_none());
    let refused = bulk.begin(batch_of(types[1], &additions)).map_err(|(error, batch)| (error, batch.len()));
    assert_eq!(refused, Err((GraphError::BulkInProgress, 300)));
    assert_eq!(bulk.cancel().map(|batch| batch.len()), Some(300), "nothing is stored yet");
    bulk.begin(batch_of(types[1], &additions)).expect("cancelled");
    for _ in 0..30 {
        assert_eq!(bulk.step(60), Ok(BulkStep::More));
    }
    assert!(bulk.cancel().is_none(), "edges are stored");
    while BulkWriter::new(&mut writer).step(60) == Ok(BulkStep::More) {}
    let (report, _) = BulkWriter::new(&mut writer).finish().expect("complete");
    assert_eq!(report.edges, 300);
}

#[test]
fn batch_that_cannot_fit_is_refused_before_an_edge_is_stored() {
    let store = new_store(10);
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    let additions = draw_additions(&mut Prng::new(1), 40_000, 5000, true, false);
    let mut writer = graph.writer();
    let mut bulk = BulkWriter::new(&mut writer);
    bulk.begin(batch_of(types[1], &additions)).expect("none other");
    let end = (0..1000).find_map(|_| {
        bulk.step(1000).map_or_else(Some, |step| (step == BulkStep::Done).then_some(GraphError::BadName))
    });
    assert_eq!(end, Some(GraphError::NoSpace));
    assert_eq!(bulk.cancel().map(|batch| batch.len()), Some(40_000));
    drop(writer);
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    let view = guard.view(&graph);
    assert_eq!((1..=5000).map(|node| view.count(node, types[1]).expect("known")).sum::<u32>(), 0);
}

/// Compacts as many segments as a store of these tests has, as the server's thread does in a full store.
fn compact_all(graph: &Graph) {
    let mut emptied = 0;
    while emptied < 20 {
        match graph.writer().compact(100, 1 << 20) {
            Ok(CompactionStep::More) => {}
            Ok(CompactionStep::Emptied) => emptied += 1,
            Ok(CompactionStep::Nothing) | Err(_) => return,
        }
    }
}

/// Loads a batch into a store in which others also add edges, one for each slice. Returns true if the batch is loaded
/// completely, and false if it is refused before an edge of it is stored.
fn load_if_there_is_room([graph, other]: [&Graph; 2], batch: BulkBatch, mut beside: impl FnMut()) -> bool {
    let mut writer = graph.writer();
    BulkWriter::new(&mut writer).begin(batch).expect("none other");
    let mut without_gain = 0;
    loop {
        match BulkWriter::new(&mut writer).step(64) {
            Ok(BulkStep::More) => without_gain = 0,
            Ok(BulkStep::Done) => return BulkWriter::new(&mut writer).finish().is_some(),
            Err(GraphError::NoSpace) => {
                without_gain += 1;
                if without_gain > 2 {
                    assert!(BulkWriter::new(&mut writer).cancel().is_some(), "a part of the batch is stored");
                    return false;
                }
                drop(writer);
                [graph, other].iter().for_each(|graph| compact_all(graph));
                writer = graph.writer();
            }
            Err(error) => panic!("{error}"),
        }
        drop(writer);
        beside();
        writer = graph.writer();
    }
}

#[test]
fn batch_in_a_store_that_is_nearly_full_is_loaded_or_refused_whole() {
    const SEGMENTS: usize = 20;
    let (mut loaded, mut refused) = (0, 0);
    for (round, level) in (0..5).flat_map(|round| (40..80).step_by(10).map(move |level| (round, level))) {
        let (has_text, has_others, edges) = (round % 2 == 0, round % 5 > 1, [300, 2000][round / 3]);
        let store = new_store(SEGMENTS);
        let mut prng = Prng::new(level + 1000 * round as u64);
        let graph = store.create_graph("test").expect("room");
        let (types, _) = declare(&graph);
        let other = store.create_graph("other").expect("room");
        let (other_types, _) = declare(&other);
        let add_one = |graph: &Graph, ty: TypeId, prng: &mut Prng| {
            let source = 1 + prng.below(2000);
            let destination = 3000 + prng.below(5000);
            let text = [7; 200];
            let action = EdgeAction::Add(if has_text { &text[..prng.below(200) as usize] } else { b"" });
            graph.writer().apply(&EdgeChange { source, edge_type: ty, destination, time_ms: prng.below(100), action })
        };
        let bytes = (SEGMENTS * SEGMENT_BYTES) as u64;
        while (store.stats().live_bytes as u64) * 100 < level * bytes {
            let is_other = has_others && prng.chance(1, 3);
            let (graph, ty) = if is_other { (&other, other_types[0]) } else { (&graph, types[0]) };
            if add_one(graph, ty, &mut prng) == Err(GraphError::NoSpace) {
                let before = store.stats().segments_free;
                for graph in [graph, &other] {
                    while graph.writer().compact(95, 1 << 20) == Ok(CompactionStep::More) {}
                }
                let stats = store.stats();
                if stats.segments_free + stats.segments_retired <= before {
                    break;
                }
            }
        }
        let mut batch = BulkBatch::new(types[0], edges);
        for _ in 0..edges {
            let text = vec![9; if has_text { prng.below(200) as usize } else { 0 }];
            batch.push(1 + prng.below(2000), 3000 + prng.below(5000), 200, &text).expect("valid");
        }
        let is_loaded = load_if_there_is_room([&graph, &other], batch, || {
            if has_others {
                let _ = add_one(&other, other_types[0], &mut prng);
            }
        });
        loaded += usize::from(is_loaded);
        refused += usize::from(!is_loaded);
    }
    assert!(loaded > 5 && refused > 5, "{loaded} loaded, {refused} refused");
}

#[test]
fn batch_refuses_edges_that_no_change_could_add() {
    let store = new_store(20);
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    let mut batch = BulkBatch::new(types[1], 2);
    assert_eq!(batch.push(0, 1, 1, b""), Err(GraphError::ReservedNode(0)));
    assert_eq!(batch.push(1, u64::MAX, 1, b""), Err(GraphError::ReservedNode(u64::MAX)));
    assert_eq!(batch.push(3, 3, 1, b""), Err(GraphError::SelfEdge(3)));
    assert_eq!(batch.push(1, 2, 1 << 48, b""), Err(GraphError::TimeOutOfRange(1 << 48)));
    assert_eq!(batch.push(1, 2, 1, &[0; 256]), Err(GraphError::AttributesTooLong(256)));
    assert!(batch.is_empty());
    batch.push(1, 2, 1, b"").expect("valid");
    batch.push(1, 2, 1, b"x").expect("valid");
    assert_eq!(batch.push(1, 2, 1, b""), Err(GraphError::BatchFull));
    let mut writer = graph.writer();
    let refused = BulkWriter::new(&mut writer).begin(batch).map_err(|(error, batch)| (error, batch.len()));
    assert_eq!(refused, Err((GraphError::NoSchema, 2)));
}
