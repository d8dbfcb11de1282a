//! Tests of in-place receives: values that are received in steps, over many guards, while the store serves.

#![cfg(not(shuttle))]

use std::collections::HashMap;
use std::sync::Arc;

use base::clock::UnixMillis;
use base::prng::Prng;
use gannet_segment::{
    Background, Delete, InPlaceReceive, LargeWriter, Namespace, OpError, Put, PutOutcome, Store, StoreConfig,
    ThreadHandle, Value,
};

const NOW: UnixMillis = UnixMillis(1_700_000_000_000);
const TAIL: &[u8] = b"\r\n";

fn store(memory_bytes: u64) -> (Arc<Store>, Background, ThreadHandle) {
    let config = StoreConfig {
        memory_bytes,
        memory_bytes_max: 0,
        segment_bytes: Some(16 << 10),
        item_bytes_max: 100_000,
        handles_max: 1,
        hash_seed: 3,
        huge_pages: false,
    };
    let (store, background) = Store::new(&config, NOW).expect("a store");
    let handle = store.handle().expect("a thread handle");
    (store, background, handle)
}

fn name(number: u64) -> Vec<u8> {
    format!("key{number}").into_bytes()
}

fn bytes(prng: &mut Prng, len: usize) -> Vec<u8> {
    (0..len).map(|_| prng.next_u64() as u8).collect()
}

fn read(handle: &mut ThreadHandle, name: &[u8]) -> Option<Vec<u8>> {
    let guard = handle.guard(NOW);
    let key = guard.key(Namespace::DEFAULT, name);
    guard.items().get(&key).map(|item| match item.value {
        Value::Bytes(bytes) | Value::Typed { bytes, .. } => bytes.to_vec(),
        other => panic!("{other:?}"),
    })
}

fn begin(handle: &mut ThreadHandle, name: &[u8], len: usize) -> Result<InPlaceReceive, OpError> {
    let mut guard = handle.guard(NOW);
    let key = guard.key(Namespace::DEFAULT, name);
    guard.receiver().begin(&key, &Put::set(b""), len, TAIL.len())
}

/// Receives at most the next `most` bytes of `whole`, which is the value followed by the tail.
fn receive(store: &Store, arriving: &mut InPlaceReceive, whole: &[u8], most: usize) {
    let from = whole.len() - arriving.left();
    let take = most.min(arriving.left());
    store.room_of(arriving)[..take].copy_from_slice(&whole[from..from + take]);
    arriving.receive(take);
    assert_eq!(store.received_of(arriving), &whole[..from + take]);
}

fn commit(handle: &mut ThreadHandle, name: &[u8], mut arriving: InPlaceReceive, len: u64) {
    loop {
        let mut guard = handle.guard(NOW);
        let key = guard.key(Namespace::DEFAULT, name);
        match guard.receiver().commit(arriving, &key, &Put::set(b"")) {
            Ok(outcome) => return assert_eq!(outcome, PutOutcome::Stored { token: 0, bytes: len }),
            Err((back, error)) => {
                assert_eq!(error, OpError::Parked);
                arriving = back;
            }
        }
    }
}

/// A value that is being received.
struct OnItsWay {
    name: Vec<u8>,
    whole: Vec<u8>,
    arriving: InPlaceReceive,
}

#[test]
fn values_received_in_parts_between_other_operations_are_read_intact() {
    let mut prng = Prng::new(11);
    let (store, mut background, mut handle) = store(8 << 20);
    let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let mut coming: Vec<OnItsWay> = Vec::new();
    let (mut stored, mut abandoned) = (0, 0);
    for _ in 0..60_000 {
        let key_name = name(prng.below(200));
        match prng.below(100) {
            0..=14 if coming.len() < 12 => {
                let len = prng.below(1900) as usize;
                let whole = [&bytes(&mut prng, len)[..], TAIL].concat();
                let arriving = begin(&mut handle, &key_name, len).expect("memory is enough");
                coming.push(OnItsWay { name: key_name, whole, arriving });
            }
            15..=69 if !coming.is_empty() => {
                let at = prng.below(coming.len() as u64) as usize;
                let one = &mut coming[at];
                receive(&store, &mut one.arriving, &one.whole, 1 + prng.below(900) as usize);
                if one.arriving.left() == 0 {
                    let OnItsWay { name, mut whole, arriving } = coming.swap_remove(at);
                    whole.truncate(whole.len() - TAIL.len());
                    commit(&mut handle, &name, arriving, whole.len() as u64);
                    model.insert(name, whole);
                    stored += 1;
                }
            }
            70..=71 if !coming.is_empty() => {
                let at = prng.below(coming.len() as u64) as usize;
                handle.guard(NOW).receiver().abort(coming.swap_remove(at).arriving);
                abandoned += 1;
            }
            72..=84 => {
                let value = bytes(&mut prng, prng_len(&key_name));
                let mut guard = handle.guard(NOW);
                let key = guard.key(Namespace::DEFAULT, &key_name);
                guard.items_mut().put(&key, &Put::set(&value)).expect("memory is enough");
                model.insert(key_name, value);
            }
            85..=88 => {
                let mut guard = handle.guard(NOW);
                let key = guard.key(Namespace::DEFAULT, &key_name);
                guard.items_mut().delete(&key, &Delete::default()).expect("nobody else locks");
                model.remove(&key_name);
            }
            89 if prng.chance(1, 20) => {
                handle.guard(NOW).items_mut().flush(Namespace::DEFAULT).expect("no slice runs");
                model.clear();
            }
            90..=93 => {
                background.slice(NOW, &mut || false);
            }
            _ => assert_eq!(read(&mut handle, &key_name).as_ref(), model.get(&key_name)),
        }
    }
    for one in coming {
        handle.guard(NOW).receiver().abort(one.arriving);
    }
    for _ in 0..2000 {
        background.slice(NOW, &mut || false);
    }
    for number in 0..200 {
        assert_eq!(read(&mut handle, &name(number)).as_ref(), model.get(&name(number)));
    }
    let stats = store.stats();
    assert!(stored > 2000 && abandoned > 200, "{stored} stored, {abandoned} abandoned");
    assert!(stats.flushed > 0 && stats.segments_freed > 100, "{stats:?}");
}

fn prng_len(name: &[u8]) -> usize {
    name.iter().map(|b| usize::from(*b)).sum::<usize>() % 700
}

#[test]
fn in_place_receive_survives_eviction_until_commit_then_is_evictable() {
    let mut prng = Prng::new(5);
    let (store, mut background, mut handle) = store(1 << 20);
    let whole = [&bytes(&mut prng, 1800)[..], TAIL].concat();
    let mut arriving = begin(&mut handle, b"slow", 1800).expect("memory is there");
    let mut next = 0;
    let mut churn = |handle: &mut ThreadHandle, background: &mut Background, count: u64| {
        for _ in 0..count {
            next += 1;
            let mut guard = handle.guard(NOW);
            let name = name(next);
            let key = guard.key(Namespace::DEFAULT, &name);
            let _ = guard.items_mut().put(&key, &Put::set(&[7; 1000]));
            drop(guard);
            background.slice(NOW, &mut || false);
        }
    };
    for _ in 0..18 {
        churn(&mut handle, &mut background, 3000);
        receive(&store, &mut arriving, &whole, 101);
    }
    assert_eq!(arriving.left(), 0);
    assert!(store.stats().evicted > 10_000, "{:?}", store.stats());
    commit(&mut handle, b"slow", arriving, 1800);
    // Uses `peek`, because an item that was read would be kept longer.
    let peek = |handle: &mut ThreadHandle| {
        let guard = handle.guard(NOW);
        match guard.items().peek(&guard.key(Namespace::DEFAULT, b"slow")).map(|item| item.value) {
            Some(Value::Bytes(bytes)) => Some(bytes.to_vec()),
            None => None,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(peek(&mut handle).as_deref(), Some(&whole[..1800]));
    for _ in 0..100 {
        churn(&mut handle, &mut background, 2000);
    }
    assert_eq!(peek(&mut handle), None, "it is evicted in the end");
}

#[test]
fn space_that_is_given_up_is_used_again() {
    let (store, mut background, mut handle) = store(1 << 20);
    let used = |store: &Store| store.stats().segments[1] + store.stats().segments[2];
    // An abort gives the latest reservation back, any number of times.
    for _ in 0..10_000 {
        let arriving = begin(&mut handle, b"k", 1900).expect("memory is there");
        handle.guard(NOW).receiver().abort(arriving);
    }
    assert_eq!(used(&store), 1);
    // If a later item was reserved behind it, an aborted value becomes dead bytes, which the background frees.
    for round in 0..10_000u64 {
        let first = begin(&mut handle, b"k", 1900).expect("memory is there");
        let mut guard = handle.guard(NOW);
        let key = guard.key(Namespace::DEFAULT, b"behind");
        guard.items_mut().put(&key, &Put::set(&round.to_le_bytes())).expect("memory is there");
        guard.receiver().abort(first);
        drop(guard);
        background.slice(NOW, &mut || false);
    }
    assert_eq!(read(&mut handle, b"behind").as_deref(), Some(&9999u64.to_le_bytes()[..]));
    assert_eq!(store.stats().evicted, 0);
}

#[test]
fn pieces_of_a_large_value_arrive_in_parts_too() {
    let mut prng = Prng::new(8);
    let (store, mut background, mut handle) = store(4 << 20);
    let value = bytes(&mut prng, 50_000);
    let whole = [&value[..], TAIL].concat();
    let mut writer: LargeWriter = {
        let mut guard = handle.guard(NOW);
        let key = guard.key(Namespace::DEFAULT, b"large");
        guard.large().begin(&key, value.len() as u64, gannet_segment::Expire::Never).expect("it fits")
    };
    let mut at = 0;
    while writer.written() < writer.bytes() {
        let mut guard = handle.guard(NOW);
        let last = writer.bytes() - writer.written() <= guard.sizes().piece_bytes_max() as u64;
        let tail = if last { TAIL.len() } else { 0 };
        let mut arriving = guard.receiver().begin_piece(&writer, tail).expect("memory is there");
        drop(guard);
        while arriving.left() > 0 {
            let take = arriving.left().min(1000);
            store.room_of(&mut arriving)[..take].copy_from_slice(&whole[at..at + take]);
            arriving.receive(take);
            at += take;
            background.slice(NOW, &mut || false);
        }
        handle.guard(NOW).receiver().commit_piece(arriving, &mut writer).expect("nobody else locks");
    }
    let mut guard = handle.guard(NOW);
    let key = guard.key(Namespace::DEFAULT, b"large");
    guard.large().commit(writer, &key, &Put::set(b"")).expect("nobody else locks");
    let Some(Value::Large(large)) = guard.items().get(&key).map(|item| item.value) else { panic!("a large value") };
    let pin = guard.large().pin(&key, large).expect("nobody else locks").expect("all its pieces");
    let got: Vec<u8> = (0..pin.pieces()).flat_map(|piece| store.pinned_bytes(&pin, piece).to_vec()).collect();
    store.unpin(pin);
    assert!(got == value);
}
