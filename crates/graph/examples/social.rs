//! Builds an R-MAT graph (Chakrabarti et al., SDM '04) and prints latencies of queries in process.
//!
//! `cargo run --release -p gannet-graph --example social -- [SCALE] [EDGES A NODE]`: 2^SCALE nodes. The endpoints of
//! queries are ends of random edges, so nodes with many edges are asked for more often: the hard case.

use std::time::Instant;

use base::prng::Prng;
use gannet_graph::*;

/// Draws an edge of a graph with 2^`scale` nodes.
fn draw(prng: &mut Prng, scale: u32) -> (u64, u64) {
    let (mut source, mut destination) = (0, 0);
    for _ in 0..scale {
        let (down, right) = match prng.below(100) {
            0..57 => (0, 0),
            57..76 => (0, 1),
            76..95 => (1, 0),
            _ => (1, 1),
        };
        source = source << 1 | down;
        destination = destination << 1 | right;
    }
    (source + 1, destination + 1)
}

/// Prints the percentiles of times in ns.
fn print(name: &str, mut times: Vec<u64>, partial: usize) {
    times.sort_unstable();
    let at = |permille: usize| times[(times.len() - 1) * permille / 1000] as f64 / 1000.0;
    let share = partial as f64 * 100.0 / times.len() as f64;
    println!("{name:20} p50 {:9.2}  p99 {:9.2}  p999 {:9.2} us   partial {share:.2} %", at(500), at(990), at(999));
}

/// Times `queries` calls of `query`, which returns true if its answer is partial.
fn time(name: &str, queries: usize, mut query: impl FnMut(usize) -> bool) {
    let (mut times, mut partial) = (Vec::with_capacity(queries), 0);
    for number in 0..queries {
        let start = Instant::now();
        partial += usize::from(query(number));
        times.push(start.elapsed().as_nanos() as u64);
    }
    print(name, times, partial);
}

fn main() -> Result<(), GraphError> {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse().ok());
    let (scale, degree) = (arguments.next().unwrap_or(16), arguments.next().unwrap_or(16));
    let mut prng = Prng::new(1);
    let drawn = u64::from(degree) << scale;
    let edges: Vec<(u64, u64)> = (0..drawn).map(|_| draw(&mut prng, scale)).filter(|edge| edge.0 != edge.1).collect();

    let store = GraphStore::new(anonymous((drawn as usize * 160).max(256 << 20)), &GraphStoreConfig::default())?;
    let graph = store.create_graph("people")?;
    let config = EdgeTypeConfig { direction: Direction::Undirected, ..Default::default() };
    let knows = graph.writer().declare_type("knows", &config)?;
    let start = Instant::now();
    let mut stored = 0u64;
    for (number, (source, destination)) in edges.iter().enumerate() {
        let (source, destination, action) = (*source, *destination, EdgeAction::Add(b""));
        let change = EdgeChange { source, edge_type: knows, destination, time_ms: 1_700_000_000_000, action };
        let mut writer = graph.writer();
        stored += u64::from(writer.apply(&change)?);
        if number % 256 == 0 {
            writer.compact(50, 50_000)?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{stored} edges, {:.0} changes/s with compaction", edges.len() as f64 / seconds);
    print_bytes("before compaction", &store, stored);
    graph.writer().seal();
    let stats = store.stats();
    let mut segments = stats.segments - stats.segments_free - stats.segments_retired;
    while segments > 0 {
        match graph.writer().compact(100, 1 << 20)? {
            CompactionStep::Nothing => break,
            step => segments -= usize::from(step == CompactionStep::Emptied),
        }
    }
    print_bytes("after compaction", &store, stored);
    query(&store, &graph, knows, &edges)
}

fn print_bytes(when: &str, store: &GraphStore, edges: u64) {
    let stats = store.stats();
    let a_edge = |bytes: usize| bytes as f64 / edges as f64;
    println!(
        "{when}: {:.1} B an edge in records, {:.1} in the index",
        a_edge(stats.live_bytes),
        a_edge(stats.index_bytes)
    );
}

fn query(store: &GraphStore, graph: &Graph, knows: TypeId, edges: &[(u64, u64)]) -> Result<(), GraphError> {
    let mut reader = store.reader()?;
    let guard = reader.enter();
    let view = guard.view(graph);
    let mut prng = Prng::new(2);
    let ends: Vec<u64> = (0..200_000).map(|_| edges[prng.below(edges.len() as u64) as usize].0).collect();
    let end = |number: usize| ends[number % ends.len()];
    let mut sum = 0u64;
    time("1-hop list", 100_000, |number| {
        let add = |node| {
            sum = sum.wrapping_add(node);
            true
        };
        view.neighbours(end(number), knows, add).is_err()
    });
    time("edge", 100_000, |number| {
        sum += u64::from(view.has_edge(end(number), knows, end(number + 77)).unwrap_or(false));
        false
    });
    time("mutual count", 50_000, |number| {
        let lists = [(end(number), knows), (end(number + 77), knows)];
        let query = SetQuery::begin(&view, SetOperation::Intersection, &lists, Cursor::START, 1, u64::MAX);
        let mut query = query.expect("two lists").counting();
        while query.step(&view, 4096) == QueryStep::More {}
        let page = query.finish(&view);
        sum += page.count;
        page.is_partial
    });
    let mut scratch = Some(Scratch::new());
    for targets in [1, 50] {
        time(&format!("distance to {targets}"), 20_000, |number| {
            let to: Vec<u64> = (1..=targets).map(|at| end(number + at * 77)).collect();
            let memory = scratch.take().unwrap_or_default();
            let budget = limits::BUDGET_EDGES_DEFAULT;
            let query = DistanceQuery::begin(&view, memory, end(number), knows, &to, 3, budget);
            let mut query = query.expect("valid");
            while query.step(&view, 4096) == QueryStep::More {}
            let (answer, memory) = query.finish();
            scratch = Some(memory);
            answer.is_partial
        });
    }
    let mut cache = SecondDegreeCache::new(1 << 30);
    time("second degree", 200, |number| {
        let query = SecondDegreeQuery::begin(&view, Scratch::new(), end(number), knows, u64::MAX);
        let mut query = query.expect("valid");
        while query.step(&view, 4096) == QueryStep::More {}
        let set = cache.insert(&view, query.finish().0);
        sum += set.count() as u64;
        set.is_partial
    });
    time("  from the cache", 20_000, |number| {
        let set = cache.find(&view, end(number % 200), knows, 0);
        sum += set.map_or(0, |set| set.count() as u64);
        false
    });
    println!("(checksum {sum})");
    Ok(())
}
