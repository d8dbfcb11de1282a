//! Opens memory of any contents. Used by a test and a fuzz target.
//!
//! ```text
//!   input   [segment: graph, bits 0-1 | segment, bits 2-5 | sequence, bits 6-7] [records ..] 0xFF
//!   record  [kind, bits 0-3 | 4: keep the checksum wrong] [flags] [words, 2 bytes] [bytes of the words after word 1]
//! ```
//!
//! A byte that ends the input reads as 0. Checksums and headers are made right, so that contents reach the restart.

use std::sync::atomic::Ordering::Relaxed;

use gannet_graph::*;

pub const SEGMENT_BYTES: usize = 256 << 10;
const SEGMENT_WORDS: usize = SEGMENT_BYTES / 4;
const SEGMENTS: usize = 12;
const HEADER: usize = 8;
const CONFIG: GraphStoreConfig = GraphStoreConfig {
    segment_bytes: SEGMENT_BYTES,
    readers_max: 2,
    needs_commits: false,
    hash_seed: 5,
    index_bytes_max: usize::MAX,
};

/// What a run of an input reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    pub records: u64,
    pub faults: u64,
    pub graphs: usize,
    pub nodes: usize,
    pub lists: u64,
    pub edges: u64,
}

/// Returns the CRC-32C (Castagnoli) of words, continued from `seed`: 0, or the sequence of the record's segment.
pub fn crc32c(seed: u32, words: impl Iterator<Item = u32>) -> u32 {
    let mut crc = !seed;
    for byte in words.flat_map(u32::to_le_bytes) {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
        }
    }
    !crc
}

/// Returns how many words of a record its checksum covers.
fn covered(kind: u32, words: usize) -> usize {
    match kind {
        6 => words.min(4),
        7 => words.min(5),
        _ => words,
    }
}

/// Builds the memory that an input describes.
pub fn memory_of(input: &[u8]) -> Box<[AtomicU32]> {
    let memory = anonymous(SEGMENTS * SEGMENT_BYTES);
    let mut bytes = input.iter().copied();
    while let Some(first) = bytes.next() {
        let segment = usize::from(first >> 2 & 15) % SEGMENTS;
        let words = &memory[segment * SEGMENT_WORDS..][..SEGMENT_WORDS];
        let header = [0x0047_5247 | u32::from(first & 3) << 24, SEGMENT_WORDS as u32, u32::from(first >> 6) + 1, 0];
        header.iter().zip(words).for_each(|(value, word)| word.store(*value, Relaxed));
        words[5].store(crc32c(0, header.into_iter()), Relaxed);
        let mut at = HEADER;
        while let Some(kind) = bytes.next().filter(|kind| *kind != 0xFF) {
            let [flags, low, high] = [0; 3].map(|_: u8| bytes.next().unwrap_or(0));
            let length = (usize::from(u16::from_le_bytes([low, high])) % 2200).max(2).next_multiple_of(2);
            if at + length > SEGMENT_WORDS {
                break;
            }
            let record = &words[at..at + length];
            record[1].store(length as u32 | u32::from(kind & 15) << 22 | u32::from(flags & 63) << 26, Relaxed);
            for word in &record[2..] {
                word.store(u32::from_le_bytes([0; 4].map(|_: u8| bytes.next().unwrap_or(0))), Relaxed);
            }
            let end = covered(u32::from(kind & 15), length);
            let crc = crc32c(header[2], record[1..end].iter().map(|word| word.load(Relaxed)));
            record[0].store(crc ^ u32::from(kind >> 4 & 1), Relaxed);
            at += length;
        }
        words[4].store(at as u32, Relaxed);
    }
    memory
}

/// Encodes whole memory as an input, so that memory of a store can be a seed.
pub fn input_of(memory: &[AtomicU32]) -> Vec<u8> {
    let mut input = Vec::new();
    for (segment, words) in memory.chunks_exact(SEGMENT_WORDS).enumerate() {
        let used = words[4].load(Relaxed) as usize;
        if used <= HEADER {
            continue;
        }
        let (graph, sequence) = (words[0].load(Relaxed) >> 24, words[2].load(Relaxed).min(3));
        input.push((graph & 3) as u8 | (segment as u8) << 2 | (sequence as u8) << 6);
        let mut at = HEADER;
        while at < used {
            let header = words[at + 1].load(Relaxed);
            let length = (header & 0x3F_FFFF) as usize;
            input.extend([(header >> 22 & 15) as u8, (header >> 26) as u8]);
            input.extend((length as u16).to_le_bytes());
            input.extend(words[at + 2..at + length].iter().flat_map(|word| word.load(Relaxed).to_le_bytes()));
            at += length;
        }
        input.push(0xFF);
    }
    input
}

/// Opens memory, and reads every graph in it. Asserts that a second restart gives the same edges. Then changes and
/// compacts the graphs, and opens the result.
pub fn open(memory: Box<[AtomicU32]>) -> Reached {
    let check = check_memory(&memory, SEGMENT_BYTES);
    let mut reached = Reached { records: check.records, faults: check.faults_count, ..Reached::default() };
    let shared = std::sync::Arc::new(memory);
    // A restart that has no room is refused with an error.
    let Ok((store, report)) = GraphStore::open(Shared(std::sync::Arc::clone(&shared)), &CONFIG) else { return reached };
    (reached.graphs, reached.nodes) = (report.graphs, report.nodes);
    let before = hashes(&store, &mut reached);
    if let Ok((store, _)) = GraphStore::open(image(&shared), &CONFIG) {
        assert_eq!(before, hashes(&store, &mut Reached::default()), "a second restart has other edges");
    }
    for graph in store.graphs() {
        change(&graph);
    }
    hashes(&store, &mut Reached::default());
    if let Ok((store, _)) = GraphStore::open(image(&shared), &CONFIG) {
        hashes(&store, &mut Reached::default());
    }
    reached
}

/// Memory that outlives its store.
struct Shared(std::sync::Arc<Box<[AtomicU32]>>);

impl Backing for Shared {
    fn words(&self) -> &[AtomicU32] {
        &self.0
    }
}

/// Changes a graph, and compacts it.
fn change(graph: &Graph) {
    let mut writer = graph.writer();
    for name in graph.edge_types() {
        let Ok(edge_type) = graph.edge_type(&name) else { continue };
        for destination in 2..6 {
            let change = EdgeChange { source: 1, edge_type, destination, time_ms: 5, action: EdgeAction::Add(b"") };
            // Caps and a full pool refuse changes.
            let _ = writer.apply(&change);
        }
    }
    let _ = writer.set_object(1, Some(b"object"), 5);
    writer.seal();
    for _ in 0..50 {
        if !matches!(writer.compact(100, 1 << 20), Ok(CompactionStep::More)) {
            break;
        }
    }
}

/// Returns a hash of every type's edges, and reads them in other ways.
fn hashes(store: &GraphStore, reached: &mut Reached) -> Vec<u64> {
    let mut reader = store.reader().expect("the only one");
    let guard = reader.enter();
    let mut hashes = Vec::new();
    for graph in store.graphs() {
        let view = guard.view(&graph);
        for name in graph.edge_types() {
            let ty = graph.edge_type(&name).expect("listed");
            let check = view.check_lists(ty).expect("listed");
            reached.lists += check.lists;
            view.each_edge(ty, &mut |edge| {
                reached.edges += 1;
                edge.edge.attributes.len() <= usize::from(u16::MAX)
            })
            .expect("listed");
            hashes.push(view.state_hash(ty).expect("listed"));
        }
        view.each_marked_node(&mut |_, _, _| true);
    }
    hashes
}
