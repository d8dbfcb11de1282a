//! Tests with damaged memory files. The store either repairs such a file or refuses it, with a message that names the
//! damage, its place and a remedy. It never panics, never loops, and never returns a value that was not stored.
//!
//! If the index is in the file, only the scrub reads the bytes of items: see [`super::scrubbed`].

use std::sync::Arc;

use arena::{Map, MapFile};
use base::prng::Prng;

use super::crashes::{Contents, NOW, Rig, config, fill, key, keys, place, with_index_in_dram};
use super::parted;
use crate::layout::raw::{Array, Word64};
use crate::{FileFault, Namespace, StartError, Store, StoreFile};

/// Prints the seed if the test fails.
struct Seed(u64, &'static str);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("damage of the {} with seed {}", self.1, self.0);
        }
    }
}

/// Damages some words of a part of the file: single bits, bytes, or whole words.
fn damage(file: &Arc<MapFile>, prng: &mut Prng, part: &std::ops::Range<u64>) {
    let page = arena::PAGE_BYTES as u64;
    for _ in 0..=prng.below(8) {
        let at = (part.start + prng.below(part.end - part.start)) / 8 * 8;
        let map = Map::of_file(file, at / page * page, page as usize, false).expect("a page");
        let words = Array::<Word64>::of_map(map, arena::PAGE_BYTES / 8);
        let word = words.at((at % page / 8) as usize);
        let was = word.load(std::sync::atomic::Ordering::Relaxed);
        let is = match prng.below(4) {
            0 => was ^ 1 << prng.below(64),
            1 => was ^ (1 + prng.below(255)) << (8 * prng.below(8)),
            2 => prng.next_u64(),
            _ => [0, u64::MAX][prng.below(2) as usize],
        };
        word.store(is, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Returns the image of a store with items of every kind, taken during a transaction.
fn image() -> (Arc<MapFile>, Vec<Vec<u8>>, Contents) {
    let mut rig = Rig::new();
    fill(&mut rig, 60);
    rig.put(b"long", &[b'l'; 900]);
    rig.until_done(|guard| parted::put(guard, &guard.key(Namespace::DEFAULT, b"parts"), 7, b'p'));
    (50..60).for_each(|number| assert!(rig.delete(&key(number))));
    [&b"a note"[..], b"another"].iter().for_each(|note| rig.store.append_metadata(note).expect("room"));
    let names: Vec<Vec<u8>> = keys(60).into_iter().chain([b"long".to_vec(), b"parts".to_vec()]).collect();
    let contents = rig.contents(&names);
    let mut key_locks = rig.store.key_locks();
    key_locks.add(&rig.handle.guard(NOW).key(Namespace::DEFAULT, &key(3)));
    rig.until_done(|guard| guard.locks_mut().acquire(&mut key_locks));
    rig.until_done(|guard| {
        guard.locks_mut().attach(&mut key_locks);
        let bytes = key(3);
        let key = guard.key(Namespace::DEFAULT, &bytes);
        let put = guard.items_mut().put(&key, &crate::Put::set(b"never")).map(drop);
        guard.locks_mut().detach(&mut key_locks);
        put
    });
    let image = Arc::new(rig.file.image().expect("an image"));
    rig.store.release(&mut key_locks);
    (image, names, contents)
}

/// Uses every part of an opened store. Checks that each key has the value that was stored, or is missing.
fn use_all(mut rig: Rig, names: &[Vec<u8>], contents: &Contents) {
    let found = rig.contents(names);
    for (name, value) in &found {
        // The undo log may have been damaged.
        let never = *name == key(3) && value == b"never";
        assert!(never || contents.get(name) == Some(value), "{:?}", String::from_utf8_lossy(name));
    }
    let mut notes = Vec::new();
    rig.store.each_note(&mut |note| notes.push(note.to_vec()));
    assert_eq!(notes, [&b"a note"[..], b"another"]);
    rig.settle();
    for number in 0..500 {
        rig.put(&key(number), b"new");
        rig.put(b"long", &[b'm'; 700]);
        if number % 3 == 0 {
            rig.delete(&key(number / 2));
        }
    }
    let (store, mut scratch) = (Arc::clone(&rig.store), crate::index::growth::SplitScratch::new());
    if store.index.groups() == store.index.groups_next() {
        store.index.begin_growth(2);
        while store.index.split_next(&mut scratch, &*store) == Some(false) {}
    }
    rig.settle();
    let known = |value: Option<Vec<u8>>, new: &[u8]| value.is_none_or(|value| value == new);
    assert!((400..500).all(|number| known(rig.read(&key(number)), b"new")));
    assert!(known(rig.read(b"long"), &[b'm'; 700]));
    rig.store.flush(Namespace::DEFAULT);
    rig.settle();
    assert!(names.iter().all(|name| rig.read(name).is_none()));
}

#[test]
fn damage_outside_items_is_refused_with_message_or_repaired() {
    damage_parts(|part| part != "heap");
}

#[test]
fn damaged_file_without_index_is_refused_or_loses_only_damaged_items() {
    with_index_in_dram(|| damage_parts(|part| !matches!(part, "stripes" | "index")));
}

fn damage_parts(is_looked_at: impl Fn(&str) -> bool) {
    let (whole, names, contents) = image();
    let parts = crate::durable::file::parts(&config(), None).into_iter().filter(|(_, range)| !range.is_empty());
    for (part, range) in parts.filter(|(part, _)| is_looked_at(part)) {
        let (mut refused, mut mended) = (0, 0);
        for seed in 0..60 {
            let _told = Seed(seed, part);
            let file = Arc::new(whole.image().expect("an image"));
            damage(&file, &mut Prng::new(seed), &range);
            let _ = crate::file_stats(&file, 0);
            let _ = crate::file_check(&file, 0);
            let store_file = StoreFile {
                file: Arc::clone(&file),
                reset: false,
                index: place(),
                index_left: None,
                power: crate::Power::default(),
            };
            match Store::in_file(&config(), &store_file, NOW) {
                Ok((store, background)) => {
                    drop((background, store));
                    use_all(Rig::open(file, NOW), &names, &contents);
                    mended += 1;
                }
                Err(StartError::File { fault, .. }) => {
                    let line = fault.to_string();
                    assert!(line.contains("--file-reset"), "{line}");
                    refused += usize::from(matches!(fault, FileFault::Damaged(_) | FileFault::Foreign));
                }
                Err(other) => panic!("{other}"),
            }
        }
        // The store needs only one intact copy of the superblock. It repairs locks and slots, but no other part.
        let report = format!("{part}: {refused} refused, {mended} mended");
        match part {
            "stripes" | "index" | "undo log" | "heap" => assert_eq!(refused, 0, "{report}"),
            "headers" | "kept words" => assert!(refused > 5 && mended > 5, "{report}"),
            _ => assert!(mended > 0, "{report}"),
        }
    }
}
