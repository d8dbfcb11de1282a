//! Lists whose node numbers span more than 16 bits, so that they are packed and read in blocks.

use std::collections::BTreeSet;

use base::prng::Prng;
use gannet_graph::*;

const NODES: u64 = 150_000;

/// Loads edges in bulk.
fn load(graph: &Graph, knows: TypeId, edges: impl Iterator<Item = (u64, u64)>) -> Result<(), GraphError> {
    let mut batch = BulkBatch::new(knows, 1 << 20);
    for (source, destination) in edges {
        batch.push(source, destination, 5, b"")?;
    }
    let mut writer = graph.writer();
    let mut bulk = BulkWriter::new(&mut writer);
    bulk.begin(batch).map_err(|(error, _)| error)?;
    while bulk.step(4096)? == BulkStep::More {}
    bulk.finish().expect("complete");
    Ok(())
}

#[test]
fn packed_lists_are_walked_copied_paged_and_intersected_as_they_were_written() -> Result<(), GraphError> {
    let store = GraphStore::new(anonymous(128 << 20), &GraphStoreConfig::default())?;
    let graph = store.create_graph("people")?;
    let config = EdgeTypeConfig { direction: Direction::Undirected, ..Default::default() };
    let knows = graph.writer().declare_type("knows", &config)?;
    // The nodes get their numbers in the order of their identifiers.
    load(&graph, knows, (1..NODES).map(|node| (node, node + 1)))?;
    let mut prng = Prng::new(1);
    let mut drawn = |count: u64| -> BTreeSet<u64> { (0..count).map(|_| 1000 + prng.below(NODES - 1000)).collect() };
    let lists: Vec<BTreeSet<u64>> = [10, 40, 70, 700, 3000, 3900, 9000].map(&mut drawn).into();
    let hubs = || (0..).map(|index| 10 * (index + 1)).zip(&lists);
    load(&graph, knows, hubs().flat_map(|(hub, list)| list.iter().map(move |node| (hub, *node))))?;
    let with_chain = |hub: u64, list: &BTreeSet<u64>| -> BTreeSet<u64> {
        list.iter().copied().chain([hub - 1, hub + 1].into_iter().filter(|node| *node > 0)).collect()
    };
    let mut reader = store.reader()?;
    let guard = reader.enter();
    let view = guard.view(&graph);
    let (mut list, mut pages) = (NeighbourList::default(), 0);
    for (hub, expected) in hubs() {
        let expected: Vec<u64> = with_chain(hub, expected).into_iter().collect();
        let mut walked = Vec::new();
        view.neighbours(hub, knows, |node| {
            walked.push(node);
            true
        })?;
        assert_eq!(walked, expected);
        view.neighbours_into(hub, knows, &mut list)?;
        assert_eq!(list.nodes(), expected);
        let opened = view.open(hub, knows)?;
        assert_eq!(opened.degree() as usize, expected.len());
        for wanted in [1, 15, 16, 17, 80, 81, 336, 337, 4096, usize::MAX] {
            let (mut nodes, mut numbers) = (Vec::new(), Vec::new());
            opened.runs(|run| {
                nodes.extend_from_slice(run);
                nodes.len() < wanted
            });
            opened.number_runs(|run| {
                numbers.extend_from_slice(run);
                numbers.len() < wanted
            });
            assert!(nodes.len() >= wanted.min(expected.len()), "a walk that ends after {wanted} neighbours");
            assert!(nodes.len() < wanted.saturating_add(256), "{} neighbours instead of {wanted}", nodes.len());
            assert_eq!(nodes[..], expected[..nodes.len()]);
            assert!(numbers.iter().map(|number| view.identifier(*number)).eq(nodes));
        }
        for limit in [1, 33, 100] {
            let (mut cursor, mut paged) = (Cursor::START, Vec::new());
            while paged.len() < expected.len().min(500) {
                let options = PageOptions { limit, ..Default::default() };
                let mut query = PageQuery::begin(&view, hub, knows, cursor, &options)?;
                while query.step(&view, 50) == QueryStep::More {}
                let page = query.finish(&view);
                paged.extend(page.edges.iter().map(|edge| edge.node));
                (cursor, pages) = (page.next, pages + 1);
            }
            assert_eq!(paged[..], expected[..paged.len()]);
        }
    }
    assert!(pages > 1000, "{pages} pages");
    let mut common = 0;
    for ((left, left_list), (right, right_list)) in hubs().flat_map(|left| hubs().map(move |right| (left, right))) {
        let (left_list, right_list) = (with_chain(left, left_list), with_chain(right, right_list));
        let expected: Vec<u64> = left_list.intersection(&right_list).copied().collect();
        for (limit, slice) in [(1, 4096), (7, 100), (4096, 16), (usize::MAX, 4096)] {
            let begin = |cursor| {
                let lists = [(left, knows), (right, knows)];
                SetQuery::begin(&view, SetOperation::Intersection, &lists, cursor, limit, u64::MAX)
            };
            let mut query = begin(Cursor::START)?.counting();
            while query.step(&view, slice) == QueryStep::More {}
            assert_eq!(query.finish(&view).count, expected.len() as u64);
            let (mut cursor, mut found) = (Cursor::START, Vec::new());
            loop {
                let mut query = begin(cursor)?;
                while query.step(&view, slice) == QueryStep::More {}
                let page = query.finish(&view);
                assert!(page.nodes.len() <= limit);
                found.extend(page.nodes);
                cursor = page.next;
                if cursor == Cursor::START {
                    break;
                }
            }
            assert_eq!(found, expected, "{left} and {right} in pages of {limit}");
        }
        common += expected.len();
    }
    assert!(common > 1000, "{common} common neighbours");
    Ok(())
}

#[test]
fn distances_by_searches_in_hubs_equal_those_by_walks_with_slices_of_any_size() -> Result<(), GraphError> {
    let store = GraphStore::new(anonymous(128 << 20), &GraphStoreConfig::default())?;
    let graph = store.create_graph("people")?;
    let writer = EdgeTypeConfig::default();
    let reads = graph.writer().declare_type("reads", &writer)?;
    let inverse = EdgeTypeConfig { direction: Direction::InverseOf("reads".to_owned()), ..Default::default() };
    graph.writer().declare_type("is read by", &inverse)?;
    let mut prng = Prng::new(2);
    // Nodes 1 to 4 are hubs that others read, and few nodes lead to those.
    let mut edges = BTreeSet::new();
    let mut draw = |count, source: (u64, u64), destination: (u64, u64)| {
        let mut one = |(first, nodes)| first + prng.below(nodes);
        edges.extend((0..count).map(|_| (one(source), one(destination))));
    };
    for (hub, count) in [(1, 9000), (2, 5000), (3, 700), (4, 120)] {
        draw(count, (100, 10_000), (hub, 1));
    }
    draw(15_000, (100, 10_000), (100, 10_000));
    draw(40, (5, 8), (100, 10_000));
    edges.retain(|(source, destination)| source != destination);
    load(&graph, reads, edges.iter().copied())?;
    let next = |nodes: &BTreeSet<u64>| -> BTreeSet<u64> {
        let lists = nodes.iter().flat_map(|node| edges.range((*node, 0)..(node + 1, 0)));
        lists.map(|(_, destination)| *destination).collect()
    };
    let mut reader = store.reader()?;
    let guard = reader.enter();
    let view = guard.view(&graph);
    let mut distances_seen = [0; 4];
    for source in 5..60 {
        let source = if source < 13 { source } else { source * 47 };
        let mut rings = vec![BTreeSet::from([source])];
        (0..3).for_each(|ring| rings.push(next(&rings[ring])));
        let targets: Vec<u64> = (1..5).chain((0..40).map(|_| 100 + prng.below(10_000))).collect();
        let expected: Vec<Option<u8>> =
            targets.iter().map(|node| (0..4).find(|ring| rings[usize::from(*ring)].contains(node))).collect();
        for (slice, batch) in [(16, 44), (17, 1), (100, 44), (4096, 1), (4096, 44)] {
            let mut found = Vec::new();
            for part in targets.chunks(batch) {
                let mut query = DistanceQuery::begin(&view, Scratch::new(), source, reads, part, 3, u64::MAX)?;
                while query.step(&view, slice) == QueryStep::More {}
                found.extend(query.finish().0.distances);
            }
            assert_eq!(found, expected, "from {source} in slices of {slice} and batches of {batch}");
        }
        expected.iter().flatten().for_each(|distance| distances_seen[usize::from(*distance)] += 1);
    }
    assert!(distances_seen[1..].iter().all(|count| *count > 10), "{distances_seen:?}");
    Ok(())
}

/// Returns the number of slices that a query takes.
fn slices(mut step: impl FnMut(u32) -> QueryStep) -> usize {
    (1..).find(|_| step(SLICE_EDGES) == QueryStep::Done).expect("every query ends")
}

const SLICE_EDGES: u32 = 128;

#[test]
fn removed_and_archived_edges_of_a_hub_count_against_the_slices_and_the_budget() -> Result<(), GraphError> {
    const EDGES: u64 = 12_000;
    let store = GraphStore::new(anonymous(128 << 20), &GraphStoreConfig::default())?;
    let graph = store.create_graph("people")?;
    let config = EdgeTypeConfig { direction: Direction::Undirected, ..Default::default() };
    let knows = graph.writer().declare_type("knows", &config)?;
    let (last, nodes) = (10 + EDGES, 10..=10 + EDGES);
    load(&graph, knows, [1, 2].into_iter().flat_map(|hub| nodes.clone().map(move |node| (hub, node))))?;
    for destination in 10..last {
        // Half of the neighbours are removed, and half are hidden.
        for source in [1, 2].into_iter().filter(|_| destination % 2 == 0) {
            let action = EdgeAction::Remove;
            let change = EdgeChange { source, edge_type: knows, destination, time_ms: 6, action };
            assert_eq!(graph.writer().apply(&change), Ok(true));
        }
        if destination % 2 == 1 {
            assert_eq!(graph.writer().mark_node(destination, true, 6), Ok(true));
        }
    }
    let mut reader = store.reader()?;
    let guard = reader.enter();
    let view = guard.view(&graph);
    let least = EDGES as usize / SLICE_EDGES as usize;
    for budget in [u64::MAX, EDGES / 2] {
        let is_cut = budget != u64::MAX;
        let least = if is_cut { least / 2 - 1 } else { least };
        let check = |name: &str, slices: usize, is_partial: bool| {
            assert!(slices >= least, "{name} takes {slices} slices, not {least} at least, with a budget of {budget}");
            assert_eq!(is_partial, is_cut, "{name} with a budget of {budget}");
        };
        let expected: &[u64] = if is_cut { &[] } else { &[last] };
        for operation in [SetOperation::Intersection, SetOperation::Union] {
            let lists = [(1, knows), (2, knows)];
            let mut query = SetQuery::begin(&view, operation, &lists, Cursor::START, 10, budget)?;
            let count = slices(|edges| query.step(&view, edges));
            let page = query.finish(&view);
            check("an operation on sets", count, page.is_partial);
            assert_eq!(page.nodes, expected);
        }
        let mut query = SecondDegreeQuery::begin(&view, Scratch::new(), 1, knows, budget)?;
        let count = slices(|edges| query.step(&view, edges));
        let (set, scratch) = query.finish();
        check("a second degree", count, set.is_partial);
        assert_eq!(set.count(), usize::from(!is_cut));
        let mut query = PathQuery::begin(&view, scratch, 1, 2, knows, 2, 1, budget)?;
        let count = slices(|edges| query.step(&view, edges));
        let (paths, scratch) = query.finish(&view);
        check("a path", count, paths.is_partial);
        assert_eq!(paths.paths.is_empty(), is_cut);
        let mut query = DistanceQuery::begin(&view, scratch, 1, knows, &[2], 3, budget)?;
        let count = slices(|edges| query.step(&view, edges));
        let (found, _) = query.finish();
        check("a distance", count, found.is_partial);
        assert_eq!(found.distances, [(!is_cut).then_some(2)]);
        let options = PageOptions { budget, ..Default::default() };
        let mut query = PageQuery::begin(&view, 1, knows, Cursor::START, &options)?;
        let count = slices(|edges| query.step(&view, edges));
        let page = query.finish(&view);
        check("a page", count, page.is_partial);
        assert!(page.edges.iter().map(|edge| edge.node).eq(expected.iter().copied()));
    }
    Ok(())
}
