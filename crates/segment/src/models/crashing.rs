//! Models of a crash while several threads change the store. Another thread takes an image of the memory file at some
//! instant, and the model opens the image. Each model runs with the index in the file and with an index that is
//! rebuilt.
//!
//! The image must contain each change that was acknowledged before that instant, or a later change that replaced it. A
//! change that was not acknowledged may be present or absent.

use crate::core::lookup::{find, live};
use std::sync::Arc;

use arena::MapFile;
use shuttle::sync::atomic::{AtomicBool, Ordering::SeqCst};
use shuttle::thread;

use super::{Drained, NOW, config, drain_first, explore_one_of, put, read, until_done};
use crate::index::growth::SplitScratch;
use crate::{Background, Delete, IndexPlace, Namespace, Store, StoreFile, ThreadHandle};

/// Explores a model with the index in the file, and with an index that is rebuilt.
fn in_both_modes(part: usize, model: impl Fn(IndexPlace) + Send + Sync + Copy + 'static) {
    for place in [IndexPlace::File, IndexPlace::Dram] {
        explore_one_of(part, move || model(place));
    }
}

/// The divisor of the number of schedules for most models of this module.
const SOME: usize = 4;
/// The divisor of the number of schedules for a model that walks over whole groups of the index.
const FEW: usize = 15;

/// Creates a store in a file, with handles for two writers.
fn in_file(place: IndexPlace) -> (Arc<Store>, Background, Arc<MapFile>) {
    let file = Arc::new(MapFile::in_memory().expect("a file"));
    let (store, background) = open(&file, place);
    (store, background, file)
}

/// Opens a store and completes the rebuild of its index.
fn open(file: &Arc<MapFile>, place: IndexPlace) -> (Arc<Store>, Background) {
    let (store, mut background) = open_early(file, place);
    find_all(&store, &mut background);
    (store, background)
}

fn open_early(file: &Arc<MapFile>, index: IndexPlace) -> (Arc<Store>, Background) {
    let file =
        StoreFile { file: Arc::clone(file), reset: false, index, index_left: None, power: crate::Power::default() };
    Store::in_file(&config(2), &file, NOW).expect("it is taken")
}

fn find_all(store: &Store, background: &mut Background) {
    while store.is_rebuilding() {
        background.slice(NOW, &mut || true);
        thread::yield_now();
    }
}

/// Takes an image of the file. Returns which of the flags were set before the image was taken, and the image.
fn crash(file: &Arc<MapFile>, flags: &[Arc<AtomicBool>]) -> (Vec<bool>, Arc<MapFile>) {
    let set = flags.iter().map(|flag| flag.load(SeqCst)).collect();
    (set, Arc::new(file.image().expect("an image")))
}

/// Runs an operation on a separate thread, and sets a flag when the operation is acknowledged.
fn acknowledged(
    mut handle: ThreadHandle,
    op: impl FnOnce(&mut ThreadHandle) + Send + 'static,
) -> (Arc<AtomicBool>, thread::JoinHandle<()>) {
    let flag = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&flag);
    let body = move || {
        op(&mut handle);
        told.store(true, SeqCst);
    };
    (flag, thread::spawn(body))
}

fn delete(handle: &mut ThreadHandle, key: &[u8]) {
    until_done(handle, |guard| {
        let key = guard.key(Namespace::DEFAULT, key);
        guard.items_mut().delete(&key, &Delete::default())
    });
}

#[test]
fn acknowledged_write_among_two_writers_survives_crash() {
    in_both_modes(SOME, |place| {
        let (store, _background, file) = in_file(place);
        let (mut a, b) = (store.handle().expect("handle"), store.handle().expect("handle"));
        put(&mut a, b"k", b"old");
        let (one, first) = acknowledged(a, |handle| put(handle, b"k", b"one"));
        let (two, second) = acknowledged(b, |handle| put(handle, b"k", b"two"));
        let crashed = thread::spawn(move || crash(&file, &[one, two]));
        let (set, image) = crashed.join().expect("crashed");
        first.join().expect("first");
        second.join().expect("second");
        let (store, _background) = open(&image, place);
        let mut handle = store.handle().expect("handle");
        let found = read(&mut handle, b"k").expect("it was there all the time");
        assert!(found == b"one" || found == b"two" || (found == b"old" && set == [false, false]), "{set:?}");
        delete(&mut handle, b"k");
        assert_eq!(read(&mut handle, b"k"), None);
    });
}

/// A client that has read a new value before a crash also finds it after the crash.
#[test]
fn value_read_before_crash_is_present_after_it() {
    in_both_modes(SOME, |place| {
        let (store, _background, file) = in_file(place);
        let (mut a, mut b) = (store.handle().expect("handle"), store.handle().expect("handle"));
        // The open segment of the handle that replaces the item is older than the item's segment.
        put(&mut b, b"other", b"v");
        put(&mut a, b"k", b"old");
        let (_, writer) = acknowledged(b, |handle| put(handle, b"k", b"new"));
        let seen = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&seen);
        let reader = thread::spawn(move || told.store(read(&mut a, b"k").is_some_and(|it| it == b"new"), SeqCst));
        let crashed = thread::spawn(move || crash(&file, &[seen]));
        let (set, image) = crashed.join().expect("crashed");
        writer.join().expect("writer");
        reader.join().expect("reader");
        let (store, _background) = open(&image, place);
        let found = read(&mut store.handle().expect("handle"), b"k").expect("it was there all the time");
        assert!(found == b"new" || !set[0], "the old value came back");
    });
}

#[test]
fn item_deleted_during_drain_stays_deleted_after_crash() {
    in_both_modes(SOME, |place| {
        let (store, mut background, file) = in_file(place);
        let (mut a, b) = (store.handle().expect("handle"), store.handle().expect("handle"));
        put(&mut a, b"k", b"v");
        put(&mut a, b"other", b"w");
        a.seal_for_model(&store);
        drop(a);
        let drained = thread::spawn(move || drain_first(&mut background, Drained::Moved));
        let (gone, deleted) = acknowledged(b, |handle| delete(handle, b"k"));
        let crashed = thread::spawn(move || crash(&file, &[gone]));
        let (set, image) = crashed.join().expect("crashed");
        deleted.join().expect("deleted");
        drained.join().expect("drained");
        let (store, _background) = open(&image, place);
        let mut handle = store.handle().expect("handle");
        assert!(read(&mut handle, b"k").is_none() || !set[0], "it came back");
        assert_eq!(read(&mut handle, b"other").expect("nobody deleted it"), b"w");
        delete(&mut handle, b"k");
        assert_eq!(read(&mut handle, b"k"), None);
    });
}

#[test]
fn acknowledged_write_survives_crash_during_index_growth() {
    in_both_modes(FEW, |place| {
        let (store, background, file) = in_file(place);
        let (mut a, b) = (store.handle().expect("handle"), store.handle().expect("handle"));
        let names: Vec<[u8; 1]> = (b'a'..b'g').map(|name| [name]).collect();
        names.iter().for_each(|name| put(&mut a, name, b"v"));
        let growing = Arc::clone(&store);
        let grown = thread::spawn(move || {
            let mut scratch = SplitScratch::new();
            growing.index.begin_growth(2);
            while growing.index.split_next(&mut scratch, &*growing) != Some(true) {
                thread::yield_now();
            }
        });
        let (stored, writer) = acknowledged(b, |handle| put(handle, b"new", b"n"));
        let (gone, deleted) = acknowledged(a, |handle| delete(handle, b"a"));
        let crashed = thread::spawn(move || crash(&file, &[stored, gone]));
        let (set, image) = crashed.join().expect("crashed");
        for thread in [grown, writer, deleted] {
            thread.join().expect("a thread");
        }
        drop(background);
        let (store, _background) = open(&image, place);
        let mut handle = store.handle().expect("handle");
        assert!(names[1..].iter().all(|name| read(&mut handle, name).is_some_and(|value| value == b"v")));
        assert!(read(&mut handle, b"new").is_some() || !set[0], "what was stored is lost");
        assert!(read(&mut handle, b"a").is_none() || !set[1], "what was deleted came back");
    });
}

#[test]
fn acknowledged_flush_and_later_write_survive_crash() {
    in_both_modes(SOME, |place| {
        let (store, mut background, file) = in_file(place);
        let (mut a, b) = (store.handle().expect("handle"), store.handle().expect("handle"));
        put(&mut a, b"k", b"v");
        a.seal_for_model(&store);
        drop(a);
        let drained = thread::spawn(move || drain_first(&mut background, Drained::Moved));
        let (flushed, behind) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let told = [Arc::clone(&flushed), Arc::clone(&behind)];
        let mut handle = b;
        let writer = thread::spawn(move || {
            until_done(&mut handle, |guard| guard.items_mut().flush(Namespace::DEFAULT));
            told[0].store(true, SeqCst);
            put(&mut handle, b"behind", b"w");
            told[1].store(true, SeqCst);
        });
        let crashed = thread::spawn(move || crash(&file, &[behind, flushed]));
        let (set, image) = crashed.join().expect("crashed");
        writer.join().expect("writer");
        drained.join().expect("drained");
        let (store, _background) = open(&image, place);
        let mut handle = store.handle().expect("handle");
        assert!(read(&mut handle, b"k").is_none() || !set[1], "it outlived the flush");
        assert!(read(&mut handle, b"behind").is_some() || !set[0], "it came behind the flush");
    });
}

/// Deletes or replaces items during a rebuild, which two threads run.
#[test]
fn item_removed_during_rebuild_stays_removed_after_crash() {
    explore_one_of(SOME, || {
        let (store, background, file) = in_file(IndexPlace::Dram);
        let mut handle = store.handle().expect("handle");
        [&b"k"[..], b"m", b"n"].iter().for_each(|name| put(&mut handle, name, b"old"));
        let image = Arc::new(file.image().expect("an image"));
        drop((handle, background, store));
        let (store, mut background) = open_early(&image, IndexPlace::Dram);
        let (a, b) = (store.handle().expect("handle"), store.handle().expect("handle"));
        let (finder, mut helper) = (Arc::clone(&store), store.rebuilder());
        let found = thread::spawn(move || find_all(&finder, &mut background));
        let helped = thread::spawn(move || {
            for _ in 0..3 {
                helper.as_mut().map(|helper| helper.step(NOW, &mut || true));
            }
        });
        let (gone, deleted) = acknowledged(a, |handle| delete(handle, b"k"));
        let (new, written) = acknowledged(b, |handle| put(handle, b"m", b"new"));
        let crashed = thread::spawn(move || crash(&image, &[gone, new]));
        let (set, image) = crashed.join().expect("crashed");
        for thread in [found, helped, deleted, written] {
            thread.join().expect("a thread");
        }
        let live = |name: &[u8]| {
            let key = store.hasher.key(Namespace::DEFAULT, name);
            live(&store, find(&store, &key), NOW).is_some()
        };
        assert!(!live(b"k") && live(b"m") && live(b"n"));
        let (store, _background) = open(&image, IndexPlace::Dram);
        let mut handle = store.handle().expect("handle");
        assert!(read(&mut handle, b"k").is_none() || !set[0], "what was deleted came back");
        assert!(read(&mut handle, b"m").is_some_and(|value| value == b"new" || !set[1]), "what was replaced came back");
        assert!(read(&mut handle, b"n").is_some_and(|value| value == b"old"));
    });
}
