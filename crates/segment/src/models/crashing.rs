//! A crash while several threads are at work: one more thread takes an image of the memory file at some instant, and
//! the image is opened.
//!
//! What was acknowledged before that instant is there, or what came behind it; what was not, is there or not.

use std::sync::Arc;

use arena::MapFile;
use shuttle::sync::atomic::{AtomicBool, Ordering::SeqCst};
use shuttle::thread;

use super::{Drained, NOW, config, drain_first, explore_some, put, read, until_done};
use crate::{Background, Delete, Lane, Namespace, Store, StoreFile};

/// A store in a file, with lanes for two writers.
fn in_file() -> (Arc<Store>, Background, Arc<MapFile>) {
    let file = Arc::new(MapFile::in_memory().expect("a file"));
    let (store, background) = open(&file);
    (store, background, file)
}

fn open(file: &Arc<MapFile>) -> (Arc<Store>, Background) {
    Store::in_file(&config(2), &StoreFile { file: Arc::clone(file), reset: false }, NOW).expect("it is taken")
}

/// Takes the image, and says which of the flags were set before.
fn crash(file: &Arc<MapFile>, flags: &[Arc<AtomicBool>]) -> (Vec<bool>, Arc<MapFile>) {
    let set = flags.iter().map(|flag| flag.load(SeqCst)).collect();
    (set, Arc::new(file.image().expect("an image")))
}

/// Does something on a thread of its own, and sets a flag when it is acknowledged.
fn acknowledged(
    mut lane: Lane,
    op: impl FnOnce(&mut Lane) + Send + 'static,
) -> (Arc<AtomicBool>, thread::JoinHandle<()>) {
    let flag = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&flag);
    let body = move || {
        op(&mut lane);
        told.store(true, SeqCst);
    };
    (flag, thread::spawn(body))
}

fn delete(lane: &mut Lane, key: &[u8]) {
    until_done(lane, |turn| {
        let key = turn.key(Namespace::DEFAULT, key);
        turn.delete(&key, &Delete::default())
    });
}

#[test]
fn of_two_writers_of_one_key_what_was_acknowledged_outlives_a_crash() {
    explore_some(|| {
        let (store, _background, file) = in_file();
        let (mut a, b) = (store.lane().expect("lane"), store.lane().expect("lane"));
        put(&mut a, b"k", b"old");
        let (one, first) = acknowledged(a, |lane| put(lane, b"k", b"one"));
        let (two, second) = acknowledged(b, |lane| put(lane, b"k", b"two"));
        let crashed = thread::spawn(move || crash(&file, &[one, two]));
        let (set, image) = crashed.join().expect("crashed");
        first.join().expect("first");
        second.join().expect("second");
        let (store, _background) = open(&image);
        let mut lane = store.lane().expect("lane");
        let found = read(&mut lane, b"k").expect("it was there all the time");
        assert!(found == b"one" || found == b"two" || (found == b"old" && set == [false, false]), "{set:?}");
        delete(&mut lane, b"k");
        assert_eq!(read(&mut lane, b"k"), None);
    });
}

#[test]
fn what_was_deleted_while_its_segment_was_emptied_stays_deleted_after_a_crash() {
    explore_some(|| {
        let (store, mut background, file) = in_file();
        let (mut a, b) = (store.lane().expect("lane"), store.lane().expect("lane"));
        put(&mut a, b"k", b"v");
        put(&mut a, b"other", b"w");
        a.seal_for_model(&store);
        drop(a);
        let drained = thread::spawn(move || drain_first(&mut background, Drained::Moved));
        let (gone, deleted) = acknowledged(b, |lane| delete(lane, b"k"));
        let crashed = thread::spawn(move || crash(&file, &[gone]));
        let (set, image) = crashed.join().expect("crashed");
        deleted.join().expect("deleted");
        drained.join().expect("drained");
        let (store, _background) = open(&image);
        let mut lane = store.lane().expect("lane");
        assert!(read(&mut lane, b"k").is_none() || !set[0], "it came back");
        assert_eq!(read(&mut lane, b"other").expect("nobody deleted it"), b"w");
        delete(&mut lane, b"k");
        assert_eq!(read(&mut lane, b"k"), None);
    });
}
