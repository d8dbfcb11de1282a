//! Checks of damaged memory: every kind of damage is reported with its place, and no damage ends a check.
#![cfg(not(shuttle))]

#[allow(dead_code)]
mod memory_image;
mod reference;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::prng::Prng;
use gannet_graph::*;
use reference::{CONFIG, Reference, SEGMENT_BYTES, Shared, declare, draw, seed};

const SEGMENT_WORDS: usize = SEGMENT_BYTES / 4;
const USED: usize = 4;
const HEADER: usize = 8;

/// Returns the memory of a store with changed, archived and compacted edges and objects, and the model of it.
fn filled(prng: &mut Prng) -> (Arc<Box<[AtomicU32]>>, Reference) {
    let memory = Arc::new(anonymous(12 * SEGMENT_BYTES));
    let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
    let graph = store.create_graph("test").expect("room");
    let (types, mut model) = declare(&graph);
    for _ in 0..3000 {
        let change = draw(prng, &types, 60);
        graph.writer().apply(&change.view()).expect("room");
        model.apply(&change);
    }
    let mut writer = graph.writer();
    for node in 1..20 {
        writer.set_object(node, Some(b"object"), node).expect("room");
    }
    writer.mark_node(3, true, 9).expect("room");
    (memory, model)
}

/// Returns the first word and the length of every record, by the lengths in their headers.
fn records(memory: &[AtomicU32]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for segment in 0..memory.len() / SEGMENT_WORDS {
        let (start, mut word) = (segment * SEGMENT_WORDS, HEADER);
        let used = memory[start + USED].load(Relaxed) as usize;
        while word < used {
            let length = (memory[start + word + 1].load(Relaxed) & 0x3F_FFFF) as usize;
            found.push((start + word, length));
            word += length;
        }
    }
    found
}

/// Opens an image and returns the number of faults of all lists.
fn list_faults(image: Box<[AtomicU32]>) -> (u64, Vec<ListFault>) {
    let (store, _) = GraphStore::open(image, &CONFIG).expect("an image opens");
    let mut reader = store.reader().expect("the only one");
    let guard = reader.enter();
    let (mut count, mut faults) = (0, Vec::new());
    for graph in store.graphs() {
        let view = guard.view(&graph);
        for name in graph.edge_types() {
            let check = view.check_lists(graph.edge_type(&name).expect("declared")).expect("declared");
            count += check.faults_count;
            faults.extend(check.faults);
        }
    }
    (count, faults)
}

#[test]
fn whole_memory_has_no_fault() {
    let (memory, _) = filled(&mut Prng::new(seed()));
    let check = check_memory(&memory, SEGMENT_BYTES);
    assert_eq!((check.faults_count, check.records), (0, records(&memory).len() as u64));
    assert!(check.records > 3000 && check.segments == 12 && check.segments_used >= 2);
    assert_eq!(list_faults(image(&memory)), (0, Vec::new()));
}

#[test]
fn flipped_bit_of_a_record_is_reported_with_its_place_and_opens() {
    let prng = &mut Prng::new(seed());
    let (memory, _) = filled(prng);
    let records = records(&memory);
    for _ in 0..300 {
        let (start, length) = records[prng.below(records.len() as u64) as usize];
        let kind = memory[start + 1].load(Relaxed) >> 22 & 15;
        // Entries of recent changes and leaves change in place, so no checksum covers them.
        let covered = if kind == 6 {
            4
        } else if kind == 7 {
            5
        } else {
            length
        };
        let word = start + prng.below(covered as u64) as usize;
        let damaged = image(&memory);
        damaged[word].fetch_xor(1 << prng.below(32), Relaxed);
        let check = check_memory(&damaged, SEGMENT_BYTES);
        let first = check.faults.first().expect("a fault");
        assert_eq!((check.faults_count, first.offset), (1, start as u64 * 4), "word {word} of the record at {start}");
        // All other records are read, also those behind the damaged one.
        assert_eq!(first.kind, MemoryFaultKind::Record(length as u64 * 4), "word {word} of the record at {start}");
        assert_eq!(check.records, records.len() as u64 - 1);
        restarts_agree(damaged);
    }
}

/// Opens an image, and returns all edges of all types with their values, and the report of the restart.
fn all_edges(image: Box<[AtomicU32]>) -> (BTreeMap<(String, u64, u64), EdgeView>, RestartReport) {
    let (store, report) = GraphStore::open(image, &CONFIG).expect("an image opens");
    let mut reader = store.reader().expect("the only one");
    let guard = reader.enter();
    let mut edges = BTreeMap::new();
    for graph in store.graphs() {
        for name in graph.edge_types() {
            let add = &mut |edge: &ListedEdge| {
                edges.insert((name.clone(), edge.source, edge.destination), edge.edge.clone());
                true
            };
            guard.view(&graph).each_edge(graph.edge_type(&name).expect("listed"), add).expect("listed");
        }
    }
    (edges, report)
}

/// Returns the pairs of nodes whose edges differ, regardless of the direction.
fn differing(
    a: &BTreeMap<(String, u64, u64), EdgeView>,
    b: &BTreeMap<(String, u64, u64), EdgeView>,
) -> BTreeSet<(u64, u64)> {
    let differ = a.keys().chain(b.keys()).filter(|key| a.get(*key) != b.get(*key));
    differ.map(|(_, one, other)| (*one.min(other), *one.max(other))).collect()
}

#[test]
fn flipped_bits_of_200_edge_records_leave_the_edges_of_all_others() {
    let prng = &mut Prng::new(seed());
    let (memory, _) = filled(prng);
    let (before, _) = all_edges(image(&memory));
    let records = records(&memory);
    let of_edges: Vec<(usize, usize)> =
        records.iter().copied().filter(|(start, _)| memory[start + 1].load(Relaxed) >> 22 & 15 == 4).collect();
    let chosen: Vec<(usize, usize)> = of_edges.iter().copied().rev().step_by(5).take(200).collect();
    assert_eq!(chosen.len(), 200);
    let (all, mut changed) = (image(&memory), 0);
    for (start, length) in &chosen {
        let (word, bit) = (start + prng.below(*length as u64) as usize, 1 << prng.below(32));
        let damaged = image(&memory);
        damaged[word].fetch_xor(bit, Relaxed);
        all[word].fetch_xor(bit, Relaxed);
        let (after, report) = all_edges(damaged);
        assert_eq!((report.damaged_places, report.damaged_bytes), (1, *length as u64 * 4), "word {word}");
        let differ = differing(&before, &after).len();
        assert!(differ <= 1, "word {word}: the edges of {differ} pairs of nodes differ");
        changed += differ;
    }
    assert!(changed > 0, "no damaged record has an edge that is in no leaf");
    let check = check_memory(&all, SEGMENT_BYTES);
    let lost = records.len() as u64 - check.records;
    assert!(lost == 200 && check.faults_count <= 200, "{lost} records, {} faults", check.faults_count);
    let (after, report) = all_edges(all);
    assert_eq!(report.damaged_places as u64, check.faults_count);
    let differ = differing(&before, &after).len();
    assert!((1..=200).contains(&differ), "the edges of {differ} pairs of nodes differ");
}

/// Compaction walks over all records of a segment, and damage must not lead it astray.
#[test]
fn compaction_after_damage_empties_segments_and_loses_no_other_edge() {
    let prng = &mut Prng::new(seed());
    let (memory, _) = filled(prng);
    let records = records(&memory);
    for _ in 0..40 {
        let damaged = Arc::new(image(&memory));
        for _ in 0..5 {
            let (start, _) = records[prng.below(records.len() as u64) as usize];
            // The header has the length.
            damaged[start + 1].fetch_xor(1 << prng.below(22), Relaxed);
        }
        let (before, _) = all_edges(image(&damaged));
        let (store, report) = GraphStore::open(Shared(Arc::clone(&damaged)), &CONFIG).expect("an image opens");
        assert!(report.damaged_places > 0);
        for graph in store.graphs() {
            let mut writer = graph.writer();
            writer.seal();
            while writer.compact(100, 1 << 20).expect("room") == CompactionStep::More {}
        }
        drop(store);
        let (after, report) = all_edges(image(&damaged));
        assert_eq!((report.damaged_places, after == before), (0, true));
    }
}

#[test]
fn graph_whose_name_is_lost_retains_its_edges() {
    let (memory, _) = filled(&mut Prng::new(seed()));
    let (before, _) = all_edges(image(&memory));
    let damaged = image(&memory);
    let names = records(&memory).into_iter().filter(|(start, _)| memory[start + 1].load(Relaxed) >> 22 & 15 == 1);
    names.for_each(|(start, _)| {
        damaged[start].fetch_xor(1, Relaxed);
    });
    let damaged = Arc::new(damaged);
    let (store, report) = GraphStore::open(Shared(Arc::clone(&damaged)), &CONFIG).expect("an image opens");
    assert_eq!((report.graphs, report.graphs_lost), (1, 1));
    assert!(store.graph("test").is_none() && store.graph("lost:0").is_some());
    drop(store);
    let (after, report) = all_edges(image(&damaged));
    assert_eq!((report.graphs, report.graphs_lost), (1, 0));
    assert!(after == before && !after.is_empty());
}

/// An object may contain the bytes of a record.
#[test]
fn damaged_object_with_the_bytes_of_a_record_is_no_record() {
    let memory = Arc::new(anonymous(12 * SEGMENT_BYTES));
    let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
    let graph = store.create_graph("test").expect("room");
    let forged = (0..6).map(|at| memory[records(&memory)[0].0 + at].load(Relaxed));
    // The text of an object begins at an odd word.
    let bytes: Vec<u8> = [0; 4].into_iter().chain(forged.flat_map(u32::to_le_bytes)).collect();
    let mut writer = graph.writer();
    writer.set_object(1, Some(&bytes), 1).expect("room");
    writer.set_object(2, Some(b"object"), 1).expect("room");
    let damaged = image(&memory);
    let found = records(&memory);
    let object = found.iter().find(|(start, _)| memory[start + 1].load(Relaxed) >> 22 & 15 == 9).expect("an object");
    damaged[object.0 + 3].fetch_xor(1, Relaxed);
    let check = check_memory(&damaged, SEGMENT_BYTES);
    assert_eq!(check.records, found.len() as u64 - 1);
    assert_eq!(check.faults[0].kind, MemoryFaultKind::Record(object.1 as u64 * 4));
}

/// Asserts that edges stay those of their nodes after a restart from damaged memory, when new nodes are added to it and
/// after another restart.
fn restarts_agree(damaged: Box<[AtomicU32]>) {
    let damaged = Arc::new(damaged);
    let edges = |store: &GraphStore| {
        let mut reader = store.reader().expect("the only one");
        let guard = reader.enter();
        let mut edges = Vec::new();
        for graph in store.graphs() {
            let view = guard.view(&graph);
            for name in graph.edge_types() {
                let add = &mut |edge: &ListedEdge| {
                    edges.push((name.clone(), edge.source, edge.destination, edge.edge.clone()));
                    true
                };
                view.each_edge(graph.edge_type(&name).expect("listed"), add).expect("listed");
            }
        }
        edges.sort_by_key(|(name, source, destination, _)| (name.clone(), *source, *destination));
        edges
    };
    let (store, report) = GraphStore::open(Shared(Arc::clone(&damaged)), &CONFIG).expect("an image opens");
    let before = edges(&store);
    for graph in store.graphs() {
        let mut writer = graph.writer();
        (0..report.nodes_lost as u64 + 5).for_each(|node| {
            writer.set_object(1 << 40 | node, Some(b"new"), 1).expect("room");
        });
    }
    assert_eq!(edges(&store), before, "a new node has the edges of a lost one");
    let (store, _) = GraphStore::open(image(&damaged), &CONFIG).expect("an image opens");
    assert_eq!(edges(&store), before, "a second restart has other edges");
}

/// Returns the position of the record of the node with an identifier.
fn node_record(memory: &[AtomicU32], node: u32) -> usize {
    let is_node =
        |start: &usize| memory[start + 1].load(Relaxed) >> 22 & 15 == 3 && memory[start + 4].load(Relaxed) == node;
    records(memory).into_iter().map(|(start, _)| start).find(is_node).expect("it has a record")
}

#[test]
fn number_of_a_lost_edge_type_is_given_to_no_other_type() {
    let (memory, _) = filled(&mut Prng::new(seed()));
    let damaged = image(&memory);
    // All records of the second type take another number, with the right checksum: the last one that is allowed.
    let mut lost = 0;
    for (start, length) in records(&damaged) {
        if damaged[start + 1].load(Relaxed) >> 22 & 15 != 2 || damaged[start + 2].load(Relaxed) != 1 {
            continue;
        }
        // A type with a number above the limit has no form, so the scan would end: the record becomes a batch's.
        damaged[start + 1].store(length as u32 | 10 << 22, Relaxed);
        damaged[start + 3].store(0, Relaxed);
        damaged[start + 2].store(0, Relaxed);
        damaged[start + 4].store(1, Relaxed);
        let covered: Vec<u32> = damaged[start + 1..start + length].iter().map(|word| word.load(Relaxed)).collect();
        let sequence = damaged[start / SEGMENT_WORDS * SEGMENT_WORDS + 2].load(Relaxed);
        damaged[start].store(memory_image::crc32c(sequence, covered.into_iter()), Relaxed);
        lost += 1;
    }
    assert!(lost > 0);
    let (store, report) = GraphStore::open(image(&damaged), &CONFIG).expect("an image opens");
    let graph = store.graph("test").expect("there");
    assert_eq!((report.types_lost, graph.edge_types()[1].as_str()), (1, "lost:1"));
    let new = graph.writer().declare_type("new", &EdgeTypeConfig::default()).expect("room");
    let mut reader = store.reader().expect("the only one");
    let check = reader.enter().view(&graph).check_lists(new).expect("declared");
    assert_eq!(check.lists, 0, "a new type has the edges of a lost one");
    drop(reader);
    restarts_agree(damaged);
}

#[test]
fn number_of_a_lost_node_is_given_to_no_other_node() {
    let (memory, _) = filled(&mut Prng::new(seed()));
    for node in [1, 7, 30] {
        let damaged = image(&memory);
        // Only this record is lost: the record takes another kind that has no effect, with the right checksum.
        let start = node_record(&damaged, node);
        damaged[start + 4].store(0, Relaxed);
        let length = (damaged[start + 1].load(Relaxed) & 0x3F_FFFF) as usize;
        let covered: Vec<u32> = damaged[start + 1..start + length].iter().map(|word| word.load(Relaxed)).collect();
        let sequence = damaged[start / SEGMENT_WORDS * SEGMENT_WORDS + 2].load(Relaxed);
        damaged[start].store(memory_image::crc32c(sequence, covered.into_iter()), Relaxed);
        let (store, report) = GraphStore::open(image(&damaged), &CONFIG).expect("an image opens");
        assert_eq!(report.nodes_lost, 1, "node {node}");
        let graph = store.graph("test").expect("there");
        let mut reader = store.reader().expect("the only one");
        let guard = reader.enter();
        let view = guard.view(&graph);
        assert_eq!(view.has_node(node.into()), Ok(false));
        for name in graph.edge_types() {
            let ty = graph.edge_type(&name).expect("listed");
            for other in (1..=60).filter(|other| *other != u64::from(node)) {
                let mut list = NeighbourList::default();
                view.neighbours_into(other, ty, &mut list).expect("valid");
                assert!(!list.nodes().contains(&0), "the lost node is a neighbour of {other}");
            }
        }
        drop(guard);
        restarts_agree(damaged);
    }
}

#[test]
fn wrong_header_of_a_segment_is_reported() {
    let (memory, _) = filled(&mut Prng::new(seed()));
    let used = (0..12).find(|segment| memory[segment * SEGMENT_WORDS + USED].load(Relaxed) > 8).expect("one is used");
    for word in 0..6 {
        let damaged = image(&memory);
        damaged[used * SEGMENT_WORDS + word].fetch_xor(1 << 30, Relaxed);
        let check = check_memory(&damaged, SEGMENT_BYTES);
        let kinds: Vec<_> = check.faults.iter().map(|fault| (fault.segment, fault.kind)).collect();
        let wanted = if word == USED { MemoryFaultKind::Length } else { MemoryFaultKind::Header };
        assert_eq!(kinds[0], (used as u32, wanted), "word {word}");
    }
}

#[test]
fn segment_that_a_killed_writer_was_opening_is_no_fault() {
    let (memory, _) = filled(&mut Prng::new(seed()));
    let free = (0..12).find(|segment| memory[segment * SEGMENT_WORDS].load(Relaxed) == 0).expect("one is free");
    let header = [0x0047_5247, SEGMENT_WORDS as u32, 99, 0];
    for words in 1..=4 {
        let killed = image(&memory);
        (0..words).for_each(|word| killed[free * SEGMENT_WORDS + word].store(header[word], Relaxed));
        assert_eq!(check_memory(&killed, SEGMENT_BYTES).faults_count, 0);
        assert_eq!(list_faults(killed).0, 0);
    }
}

/// Once compaction has dropped the edge records, the leaves alone have the edges. A lost leaf then leaves the other
/// direction alone.
#[test]
fn edge_whose_other_direction_is_lost_is_reported() {
    let memory = Arc::new(anonymous(12 * SEGMENT_BYTES));
    let store = GraphStore::new(Shared(Arc::clone(&memory)), &CONFIG).expect("enough");
    let graph = store.create_graph("test").expect("room");
    let config = EdgeTypeConfig { direction: Direction::Undirected, ..EdgeTypeConfig::default() };
    let ty = graph.writer().declare_type("knows", &config).expect("room");
    let mut batch = BulkBatch::new(ty, 1000);
    (0..1000).for_each(|edge| batch.push(1 + edge % 40, 41 + edge % 51, edge, b"").expect("valid"));
    let mut writer = graph.writer();
    BulkWriter::new(&mut writer).begin(batch).expect("none other");
    while BulkWriter::new(&mut writer).step(100).expect("room") == BulkStep::More {}
    BulkWriter::new(&mut writer).finish().expect("complete");
    writer.seal();
    while writer.compact(100, 1 << 20).expect("room") != CompactionStep::Nothing {}
    drop(writer);
    let in_use: Vec<u32> = store.segments().map(|segment| segment.number).collect();
    let kept = image(&memory);
    for segment in (0..12).filter(|segment| !in_use.contains(segment)) {
        kept[segment as usize * SEGMENT_WORDS + USED].store(0, Relaxed);
    }
    assert_eq!(list_faults(image(&kept)), (0, Vec::new()));
    let leaves = records(&kept).into_iter().filter(|(start, _)| kept[start + 1].load(Relaxed) >> 22 & 15 == 5);
    let mut reported = 0;
    for (start, length) in leaves {
        let damaged = image(&kept);
        damaged[start + length - 1].fetch_xor(1, Relaxed);
        let (count, faults) = list_faults(damaged);
        reported += count;
        assert!(faults.iter().all(|fault| matches!(fault, ListFault::OneDirection(..) | ListFault::UnknownNode(..))));
    }
    assert!(reported > 0, "no image lost one direction only");
}
