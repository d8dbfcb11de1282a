//! Models of an item that moves to a second tier and back, while it is set, deleted, changed and read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shuttle::thread;

use super::{NOW, config, explore_some, put, until_done};
use crate::background::Background;
use crate::core::handle::ThreadHandle;
use crate::core::op::{Delete, DeleteOutcome, OpError, Put, PutMode, PutOutcome, Value};
use crate::durable::tier_backing::TierBacking;
use crate::heap::segments::SegmentId;
use crate::items::read::Prefetched;
use crate::map_tier::{MapTier, PLAN};
use crate::tier::tiered::FromFlash;
use crate::{Namespace, Store};

/// Creates a store with a tier and one key in its first segment, which is sealed. Returns the store, its background and
/// the handle that stored the key.
fn sealed(handles_max: usize) -> (Arc<Store>, Background, ThreadHandle) {
    let ground = TierBacking::lay(&config(handles_max), None, &PLAN, NOW).expect("memory");
    let (store, background) = ground.store(Arc::new(MapTier::default()), NOW).expect("store");
    let mut handle = store.handle().expect("handle");
    put(&mut handle, b"key", b"old");
    handle.seal_for_model(&store);
    (store, background, handle)
}

/// Drains the first segment on a separate thread, so that its items move to the tier.
fn demoting(mut background: Background) -> thread::JoinHandle<()> {
    thread::spawn(move || background.drain_for_model(SegmentId(0), false, NOW))
}

/// Reads the key as a plain read does, from memory or from flash.
fn read(handle: &mut ThreadHandle) -> Option<Vec<u8>> {
    until_done(handle, |guard| {
        let key = guard.key(Namespace::DEFAULT, b"key");
        if let Some(hit) = guard.items().read(&key, Prefetched::default()) {
            let Value::Bytes(bytes) = hit.value else { panic!("bytes") };
            return Ok(Some(bytes.to_vec()));
        }
        match guard.tier().read(&key) {
            FromFlash::Nowhere => Ok(None),
            FromFlash::Coming => Err(OpError::Parked),
            FromFlash::Here(hit) => {
                let Value::Bytes(bytes) = hit.value() else { panic!("bytes") };
                let bytes = bytes.to_vec();
                guard.tier_mut().served(&key, hit);
                Ok(Some(bytes))
            }
        }
    })
}

/// Runs a model that counts the items moved to flash and back, and checks that both moves happened in some schedules.
fn explore_both(model: impl Fn(&dyn Fn(&Store)) + Send + Sync + Clone + 'static) {
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    static TOLD: AtomicU64 = AtomicU64::new(0);
    explore_some(move || {
        model(&|store| {
            let stats = store.stats();
            TAKEN.fetch_add(stats.flash_taken, Relaxed);
            TOLD.fetch_add(stats.flash_hits + stats.flash_back, Relaxed);
        });
    });
    assert!(TAKEN.load(Relaxed) > 100 && TOLD.load(Relaxed) > 100, "{TAKEN:?} {TOLD:?}");
}

/// Returns the number of slots that name items in memory, and the number that name items on flash.
fn counts(store: &Store) -> (usize, u64) {
    (super::slots(store), store.flash_slots())
}

#[test]
fn read_finds_item_during_demotion_and_promotion() {
    explore_both(|note| {
        let (store, background, mut handle) = sealed(2);
        let mover = demoting(background);
        let mut other = store.handle().expect("handle");
        let reader =
            thread::spawn(move || (0..3).for_each(|_| assert_eq!(read(&mut other).as_deref(), Some(&b"old"[..]))));
        assert_eq!(read(&mut handle).as_deref(), Some(&b"old"[..]));
        mover.join().expect("mover");
        reader.join().expect("reader");
        let (memory, flash) = counts(&store);
        assert_eq!(memory as u64 + flash, 1, "a key has one slot");
        note(&store);
    });
}

#[test]
fn an_overwrite_is_not_undone_by_a_move_to_flash_or_back() {
    explore_both(|note| {
        let (store, background, mut handle) = sealed(2);
        let mover = demoting(background);
        let mut other = store.handle().expect("handle");
        let appender = thread::spawn(move || {
            let append = |guard: &mut crate::Guard<'_>| {
                let key = guard.key(Namespace::DEFAULT, b"key");
                guard.items_mut().put(&key, &Put { mode: PutMode::Append, ..Put::set(b"+") })
            };
            assert!(matches!(until_done(&mut other, append), PutOutcome::Stored { .. }));
        });
        put(&mut handle, b"key", b"new");
        let seen = read(&mut handle).expect("it was stored");
        assert!(seen == b"new" || seen == b"new+", "{}", seen.escape_ascii());
        mover.join().expect("mover");
        appender.join().expect("appender");
        let seen = read(&mut handle).expect("it was stored");
        assert!(seen == b"new" || seen == b"new+", "{}", seen.escape_ascii());
        assert_eq!(counts(&store), (1, 0));
        note(&store);
    });
}

#[test]
fn item_deleted_during_demotion_stays_deleted_and_is_deleted_once() {
    explore_both(|note| {
        let (store, background, mut handle) = sealed(2);
        let mover = demoting(background);
        let delete = |guard: &mut crate::Guard<'_>| {
            let key = guard.key(Namespace::DEFAULT, b"key");
            guard.items_mut().delete(&key, &Delete::default())
        };
        let mut other = store.handle().expect("handle");
        let reader = thread::spawn(move || {
            let first = read(&mut other);
            // After one miss, every later read must miss too.
            if first.is_none() {
                assert_eq!(read(&mut other), None);
            }
        });
        assert_eq!(until_done(&mut handle, delete), DeleteOutcome::Deleted);
        assert_eq!(read(&mut handle), None);
        assert_eq!(until_done(&mut handle, delete), DeleteOutcome::NotFound);
        mover.join().expect("mover");
        reader.join().expect("reader");
        assert_eq!(read(&mut handle), None);
        assert_eq!(counts(&store), (0, 0));
        note(&store);
    });
}

#[test]
fn add_is_rejected_while_key_is_demoted_to_flash() {
    explore_both(|note| {
        let (store, background, mut handle) = sealed(1);
        let mover = demoting(background);
        let add = |guard: &mut crate::Guard<'_>| {
            let key = guard.key(Namespace::DEFAULT, b"key");
            guard.items_mut().put(&key, &Put { mode: PutMode::Add, ..Put::set(b"new") })
        };
        assert_eq!(until_done(&mut handle, add), PutOutcome::NotStored);
        mover.join().expect("mover");
        assert_eq!(read(&mut handle).as_deref(), Some(&b"old"[..]));
        let (memory, flash) = counts(&store);
        assert_eq!(memory as u64 + flash, 1);
        note(&store);
    });
}
