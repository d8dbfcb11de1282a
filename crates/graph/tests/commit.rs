//! Power losses: the store opens as it was at the last commit, whichever pages reached the disk since.
#![cfg(not(shuttle))]

mod reference;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::prng::Prng;
use gannet_graph::*;
use reference::{CONFIG, Reference, SEGMENT_BYTES, Shared, check_edges, check_values, declare, draw, seed};

const SEGMENTS: usize = 20;
const PAGE_WORDS: usize = 1024;
const NODES: u64 = 150;

type Image = Box<[AtomicU32]>;

/// Returns a disk after a power loss: each page is as it was at one of these moments.
fn mixed(prng: &mut Prng, moments: &[Image]) -> Image {
    let words = moments[0].len();
    let mixed = anonymous(words * 4);
    for page in 0..words.div_ceil(PAGE_WORDS) {
        let moment = &moments[prng.below(moments.len() as u64) as usize];
        for word in page * PAGE_WORDS..words.min((page + 1) * PAGE_WORDS) {
            mixed[word].store(moment[word].load(Relaxed), Relaxed);
        }
    }
    mixed
}

struct Disk {
    memory: Arc<Image>,
    store: GraphStore,
    /// The images at the last commit's flush and since then.
    moments: Vec<Image>,
    watermarks: Vec<Watermark>,
    /// The graph at the last commit.
    committed: Reference,
}

impl Disk {
    fn open(image: Image, watermarks: Option<&[Watermark]>, committed: Reference) -> Self {
        let mut memory = Arc::new(image);
        let store = loop {
            let shared = Shared(Arc::clone(&memory));
            match watermarks.map(|watermarks| GraphStore::open_committed(shared, &CONFIG, watermarks)) {
                None => break GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough"),
                Some(Ok((store, _))) => break store,
                // No segment may be reused before a commit, so the file is enlarged, as a server does.
                Some(Err(GraphError::NoSpace)) => memory = Arc::new(enlarged(&memory)),
                Some(Err(error)) => panic!("{error}"),
            }
        };
        store.require_commits();
        let moments = vec![image_of(&memory)];
        Self { memory, store, moments, watermarks: watermarks.unwrap_or_default().to_vec(), committed }
    }

    /// Commits. Changes that `between` makes are after the commit, although the flush may include them.
    fn commit(&mut self, model: &Reference, between: impl FnOnce(&GraphStore)) {
        let commit = self.store.begin_commit();
        self.committed = model.clone();
        between(&self.store);
        self.moments = vec![image_of(&self.memory)];
        self.watermarks.clone_from(&commit.watermarks);
        self.store.end_commit(&commit);
    }

    fn graph(&self) -> Graph {
        self.store.graph("test").expect("named")
    }

    /// Compacts until a segment is free, with commits.
    fn make_room(&mut self, model: &Reference) {
        for _ in 0..4 {
            // Emptied segments may have to wait for the commit.
            if self.graph().writer().compact(95, 1 << 20) != Ok(CompactionStep::More) {
                break;
            }
        }
        self.commit(model, |_| ());
    }
}

/// Returns a copy with two more segments.
fn enlarged(memory: &[AtomicU32]) -> Image {
    let larger = anonymous(memory.len() * 4 + 2 * SEGMENT_BYTES);
    larger.iter().zip(memory).for_each(|(to, from)| to.store(from.load(Relaxed), Relaxed));
    larger
}

fn image_of(memory: &Arc<Image>) -> Image {
    image(memory)
}

#[test]
fn any_mixture_of_pages_opens_as_the_last_commit() {
    let mut prng = Prng::new(seed());
    let mut disk = Disk::open(anonymous(SEGMENTS * SEGMENT_BYTES), None, Reference::default());
    let (types, mut model) = declare(&disk.store.create_graph("test").expect("room"));
    disk.commit(&model, |_| ());
    let (mut losses, mut refused) = (0, 0);
    for step in 0..32_000_u64 {
        let change = draw(&mut prng, &types, NODES + step / 200);
        let mut tries = 0;
        while disk.graph().writer().apply(&change.view()) == Err(GraphError::NoSpace) {
            tries += 1;
            assert!(tries < 100, "the store stays full: {:?}", disk.store.stats());
            disk.make_room(&model);
        }
        refused += u64::from(tries > 0);
        model.apply(&change);
        match prng.below(400) {
            0 => {
                let change = draw(&mut prng, &types, NODES);
                let graph = disk.graph();
                disk.commit(&model, |_| assert!(graph.writer().apply(&change.view()).is_ok()));
                model.apply(&change);
            }
            1..4 if disk.moments.len() < 4 => disk.moments.push(image_of(&disk.memory)),
            4 => {
                disk.store.set_tombstone_age(1 + step as u32, 1 << 30);
                let step = disk.graph().writer().compact(75, 1 << 16);
                assert!(matches!(step, Ok(_) | Err(GraphError::NoSpace)), "{step:?}");
            }
            5..7 if losses < 80 => {
                losses += 1;
                disk.moments.push(image_of(&disk.memory));
                let image = mixed(&mut prng, &disk.moments);
                let (watermarks, committed) = (disk.watermarks.clone(), disk.committed.clone());
                disk = Disk::open(image, Some(&watermarks), committed);
                model = disk.committed.clone();
                let mut reader = disk.store.reader().expect("one of four");
                let guard = reader.enter();
                let graph = disk.graph();
                let view = guard.view(&graph);
                check_edges(&view, &model, &types, NODES);
                check_values(&view, &model, &mut prng, &types, NODES);
            }
            _ => {}
        }
    }
    assert!(losses == 80 && refused > 3, "{losses} losses, {refused} refused");
}

#[test]
fn batch_that_a_power_loss_interrupts_is_whole_or_absent_in_both_directions() {
    let mut prng = Prng::new(seed());
    for round in 0..40 {
        let mut disk = Disk::open(anonymous(SEGMENTS * SEGMENT_BYTES), None, Reference::default());
        let (types, mut model) = declare(&disk.store.create_graph("test").expect("room"));
        for _ in 0..2000 {
            let change = draw(&mut prng, &types, NODES);
            disk.graph().writer().apply(&change.view()).expect("room");
            model.apply(&change);
        }
        let mut batch = BulkBatch::new(types[0], 3000);
        for _ in 0..3000 {
            let source = 1 + prng.below(NODES);
            batch.push(source, 1 + (source + prng.below(NODES - 1)) % NODES, prng.below(1000), b"").expect("valid");
        }
        let graph = disk.graph();
        BulkWriter::new(&mut graph.writer()).begin(batch).map_err(|(error, _)| error).expect("none before");
        let end = prng.below(60);
        for slice in 0..=end {
            let _ = BulkWriter::new(&mut graph.writer()).step(300).expect("room");
            if prng.chance(1, 4) || slice == end / 2 {
                disk.commit(&model, |_| ());
            } else if disk.moments.len() < 4 {
                disk.moments.push(image_of(&disk.memory));
            }
        }
        disk.moments.push(image_of(&disk.memory));
        let image = mixed(&mut prng, &disk.moments);
        let disk = Disk::open(image, Some(&disk.watermarks.clone()), Reference::default());
        let graph = disk.graph();
        let mut reader = disk.store.reader().expect("one of four");
        let guard = reader.enter();
        let view = guard.view(&graph);
        let all: Vec<u64> = (1..=NODES).collect();
        let lists: Vec<_> = all.iter().map(|node| view.edges(*node, types[0], &all).expect("known")).collect();
        for (a, list) in lists.iter().enumerate() {
            for (b, value) in list.iter().enumerate() {
                assert_eq!(*value, lists[b][a], "round {round}: both directions of {a} {b}");
            }
        }
    }
}

/// Returns the number of each segment that has a whole header, with its sequence number.
fn sequences(memory: &[AtomicU32]) -> Vec<(usize, u64)> {
    let segments = memory.chunks_exact(SEGMENT_BYTES / 4).enumerate();
    let word = |words: &[AtomicU32], at: usize| u64::from(words[at].load(Relaxed));
    let sequence = |words: &[AtomicU32]| (word(words, 4) > 0).then(|| word(words, 2) | word(words, 3) << 32);
    segments.filter_map(|(number, words)| Some((number, sequence(words)?))).collect()
}

#[test]
fn segment_after_a_power_loss_never_gets_the_sequence_number_of_a_lost_segment() {
    let mut prng = Prng::new(seed());
    let mut disk = Disk::open(anonymous(SEGMENTS * SEGMENT_BYTES), None, Reference::default());
    let (types, mut model) = declare(&disk.store.create_graph("test").expect("room"));
    disk.commit(&model, |_| ());
    let (mut lost_segments, mut later) = (0, 0);
    for _ in 0..20 {
        let (mut before, mut committed) = (image_of(&disk.memory), sequences(&disk.memory));
        while sequences(&disk.memory).iter().filter(|found| !committed.contains(found)).count() < 3 {
            let change = draw(&mut prng, &types, NODES);
            while disk.graph().writer().apply(&change.view()) == Err(GraphError::NoSpace) {
                disk.make_room(&model);
                (before, committed) = (image_of(&disk.memory), sequences(&disk.memory));
            }
            model.apply(&change);
        }
        let lost: Vec<_> = sequences(&disk.memory).into_iter().filter(|found| !committed.contains(found)).collect();
        lost_segments += lost.len();
        // The disk has the records of the new segments. Their headers are as they were at the commit.
        let image = image_of(&disk.memory);
        for (segment, _) in &lost {
            let header = segment * SEGMENT_BYTES / 4..segment * SEGMENT_BYTES / 4 + 8;
            header.for_each(|word| image[word].store(before[word].load(Relaxed), Relaxed));
        }
        let highest = lost.iter().map(|(_, sequence)| *sequence).max().expect("three");
        let kept = sequences(&image);
        disk = Disk::open(image, Some(&disk.watermarks.clone()), disk.committed.clone());
        model = disk.committed.clone();
        for _ in 0..4000 {
            let change = draw(&mut prng, &types, NODES);
            while disk.graph().writer().apply(&change.view()) == Err(GraphError::NoSpace) {
                disk.make_room(&model);
            }
            model.apply(&change);
        }
        let opened: Vec<_> = sequences(&disk.memory).into_iter().filter(|found| !kept.contains(found)).collect();
        later += opened.len();
        assert!(opened.iter().all(|(_, sequence)| *sequence > highest), "{opened:?} after the loss of {lost:?}");
        disk.commit(&model, |_| ());
    }
    assert!(lost_segments >= 60 && later >= 20, "{lost_segments} lost segments, {later} later ones");
}

/// Makes changes. Ends at a full store unless commits may make room.
fn change_many(
    prng: &mut Prng,
    disk: &mut Disk,
    (types, model): (&[TypeId], &mut Reference),
    count: usize,
    may_commit: bool,
) {
    for _ in 0..count {
        let change = draw(prng, types, NODES);
        while disk.graph().writer().apply(&change.view()) == Err(GraphError::NoSpace) {
            if !may_commit {
                return;
            }
            disk.make_room(model);
        }
        model.apply(&change);
    }
}

#[test]
fn restart_after_a_kill_and_before_its_first_commit_frees_no_segment_of_the_last_commit() {
    let mut prng = Prng::new(seed());
    let mut disk = Disk::open(anonymous(SEGMENTS * SEGMENT_BYTES), None, Reference::default());
    let (types, mut model) = declare(&disk.store.create_graph("test").expect("room"));
    let (mut waiting, mut freed) = (0, 0);
    for round in 0..20 {
        change_many(&mut prng, &mut disk, (&types, &mut model), 1000, true);
        disk.commit(&model, |_| ());
        // Segments of the commit become empty. They wait for the next one, which the kill prevents.
        change_many(&mut prng, &mut disk, (&types, &mut model), 1500, false);
        for _ in 0..8 {
            let _ = disk.graph().writer().compact(95, 1 << 20);
        }
        disk.moments.push(image_of(&disk.memory));
        waiting += disk.store.stats().segments_retired;
        let config = GraphStoreConfig { needs_commits: true, ..CONFIG };
        let killed = Arc::clone(&disk.memory);
        let (store, _) = GraphStore::open(Shared(Arc::clone(&killed)), &config).expect("room");
        disk.moments.push(image_of(&killed));
        // The first commit has begun to flush: any page may be on the disk.
        let committed = disk.committed.clone();
        for _ in 0..4 {
            let image = mixed(&mut prng, &disk.moments);
            let opened = Disk::open(image, Some(&disk.watermarks), committed.clone());
            let mut reader = opened.store.reader().expect("one of four");
            let guard = reader.enter();
            let graph = opened.graph();
            check_edges(&guard.view(&graph), &committed, &types, NODES);
        }
        let before = store.stats().segments_free;
        disk = Disk { memory: killed, store, ..disk };
        disk.commit(&model, |_| ());
        disk.store.free_dropped();
        assert!(disk.graph().writer().compact(1, 1 << 20).is_ok(), "round {round}");
        freed += disk.store.stats().segments_free.saturating_sub(before);
    }
    assert!(waiting > 20, "{waiting} segments waited for a commit, {freed} became free after one");
}

#[test]
fn graph_that_was_created_after_the_commit_is_absent_and_its_name_is_free() {
    let mut prng = Prng::new(seed());
    let mut disk = Disk::open(anonymous(SEGMENTS * SEGMENT_BYTES), None, Reference::default());
    let (types, model) = declare(&disk.store.create_graph("test").expect("room"));
    disk.commit(&model, |_| ());
    let (others, _) = declare(&disk.store.create_graph("other").expect("room"));
    for _ in 0..100 {
        let change = draw(&mut prng, &others, NODES);
        disk.store.graph("other").expect("named").writer().apply(&change.view()).expect("room");
    }
    disk.moments.push(image_of(&disk.memory));
    for _ in 0..20 {
        let image = mixed(&mut prng, &disk.moments);
        let disk = Disk::open(image, Some(&disk.watermarks.clone()), model.clone());
        assert!(disk.store.graph("other").is_none());
        let graph = disk.store.create_graph("another").expect("room");
        assert_eq!(graph.edge_types(), Vec::<String>::new());
        assert_eq!(disk.graph().edge_types().len(), types.len());
    }
}

/// The object and the archive mark of each node.
#[derive(Clone, Default, PartialEq, Debug)]
struct NodeModel {
    objects: std::collections::BTreeMap<u64, Vec<u8>>,
    archived: std::collections::BTreeSet<u64>,
}

impl NodeModel {
    /// Reads the objects and the marks of a store whose nodes all have an edge.
    fn of(store: &GraphStore, ty: TypeId, nodes: u64) -> Self {
        let graph = store.graph("test").expect("named");
        let mut reader = store.reader().expect("one of four");
        let guard = reader.enter();
        let view = guard.view(&graph);
        let object = |node: u64| Some((node, view.object(node).expect("valid")?.bytes));
        let is_archived = |node: &u64| !view.has_node(*node).expect("valid");
        assert!((1..=nodes).all(|node| is_archived(&node) || view.count(node, ty) == Ok(2)));
        Self { objects: (1..=nodes).filter_map(object).collect(), archived: (1..=nodes).filter(is_archived).collect() }
    }

    /// Changes a node of the store and of the model.
    fn change(&mut self, prng: &mut Prng, graph: &Graph, nodes: u64, time: u64) -> Result<(), GraphError> {
        let node = 1 + prng.below(nodes);
        let mut writer = graph.writer();
        if prng.chance(1, 3) {
            let is_archived = prng.chance(1, 2);
            writer.mark_node(node, is_archived, time)?;
            if is_archived {
                self.archived.insert(node)
            } else {
                self.archived.remove(&node)
            };
            return Ok(());
        }
        let mut object = vec![0; prng.below(300) as usize];
        prng.fill(&mut object);
        let object = prng.chance(3, 4).then_some(object);
        writer.set_object(node, object.as_deref(), time)?;
        match object {
            Some(object) => self.objects.insert(node, object),
            None => self.objects.remove(&node),
        };
        Ok(())
    }
}

#[test]
fn objects_and_marks_after_the_last_commit_are_lost_with_the_power_and_earlier_ones_are_not() {
    const RING: u64 = 60;
    let (mut prng, none) = (Prng::new(seed()), Reference::default());
    let mut disk = Disk::open(anonymous(SEGMENTS * SEGMENT_BYTES), None, Reference::default());
    let (types, _) = declare(&disk.store.create_graph("test").expect("room"));
    for node in 1..=RING {
        let (destination, action) = (node % RING + 1, EdgeAction::Add(b""));
        let change = EdgeChange { source: node, edge_type: types[0], destination, time_ms: 1, action };
        assert_eq!(disk.graph().writer().apply(&change), Ok(true));
    }
    disk.commit(&none, |_| ());
    let (mut model, mut committed) = (NodeModel::default(), NodeModel::default());
    let (mut losses, mut kills, mut differing) = (0, 0, 0);
    for step in 0..20_000 {
        while model.change(&mut prng, &disk.graph(), RING, 2 + step) == Err(GraphError::NoSpace) {
            committed = model.clone();
            disk.make_room(&none);
        }
        match prng.below(200) {
            0 => {
                disk.commit(&none, |_| ());
                committed = model.clone();
            }
            1..4 if disk.moments.len() < 4 => disk.moments.push(image_of(&disk.memory)),
            4 => {
                let step = disk.graph().writer().compact(95, 1 << 16);
                assert!(matches!(step, Ok(_) | Err(GraphError::NoSpace)), "{step:?}");
            }
            5 => {
                kills += 1;
                let config = GraphStoreConfig { needs_commits: true, ..CONFIG };
                disk.store = GraphStore::open(Shared(Arc::clone(&disk.memory)), &config).expect("room").0;
                assert_eq!(NodeModel::of(&disk.store, types[0], RING), model, "after kill {kills}");
            }
            6 => {
                losses += 1;
                disk.moments.push(image_of(&disk.memory));
                let image = mixed(&mut prng, &disk.moments);
                disk = Disk::open(image, Some(&disk.watermarks.clone()), Reference::default());
                differing += usize::from(model != committed);
                model = committed.clone();
                assert_eq!(NodeModel::of(&disk.store, types[0], RING), model, "after loss {losses}");
            }
            _ => {}
        }
    }
    assert!(losses > 50 && kills > 50 && differing > 50, "{losses} losses, {kills} kills, {differing} with changes");
}
