//! Tests of power losses, one for each rule: a test fails if the store breaks the rule in the test's name.

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arena::{MapFile, PAGE_BYTES};
use base::prng::Prng;

use super::crashes::{NOW, Rig, at, images_of, in_both_modes, key, set_power};
use super::disk::{Disk, set_disk, with_disk};
use super::tiered::{demote, open_beside, read_tiered};
use crate::core::op::{Arith, Delete, Expire, Fetch, OpError, Put, PutOutcome};
use crate::layout::item::META_WON;
use crate::locks::undo_log::{ChangingKey, RECORDS_MAX};
use crate::map_tier::MapTier;
use crate::{Finished, Guard, IndexPlace, Key, Namespace, Power};

/// Opens a store with checkpoints in the file. `boot` identifies the boot of the machine.
fn open(file: &Arc<MapFile>, boot: u128) -> Rig {
    set_power(Power { boot, checkpoints: true });
    Rig::open(Arc::clone(file), NOW)
}

fn new() -> Rig {
    open(&Arc::new(MapFile::in_memory().expect("a file")), 1)
}

fn image(rig: &Rig) -> Arc<MapFile> {
    Arc::new(rig.file.image().expect("an image"))
}

/// Opens the store after a power loss at which all written data was on the disk.
fn lost(rig: &Rig) -> Rig {
    let lost = open(&image(rig), 2);
    assert!(lost.reopened().lost);
    lost
}

fn checkpoint(rig: &mut Rig) -> std::io::Result<Finished> {
    let mut checkpointer = rig.store.checkpointer().expect("it has one");
    assert!(checkpointer.begin(NOW));
    rig.handle.tidy(NOW);
    rig.background.slice(NOW, &mut || true);
    assert!(checkpointer.is_sealed());
    checkpointer.finish()
}

type Op = fn(&mut Guard<'_>, &Key<'_>) -> Result<(), OpError>;

/// Returns a key's value and expiry, and whether its item is stale and leased.
fn state(rig: &mut Rig, name: &[u8]) -> Option<(Vec<u8>, Expire, bool, bool)> {
    let value = rig.read(name)?;
    let seen = crate::core::lookup::find(&rig.store, &rig.store.hasher.key(Namespace::DEFAULT, name))?;
    let (item, meta) = (seen.item(&rig.store), seen.meta(&rig.store).unwrap_or(0));
    Some((value, item.expire, item.stale, meta & META_WON != 0))
}

/// Stores a number with an expiry and a META word. No client knows its token.
fn put_number(rig: &mut Rig, name: &[u8]) {
    let ends = Expire::At(NOW.plus_ms(3_600_000));
    rig.until_done(|guard| {
        let key = guard.key(Namespace::DEFAULT, name);
        let (delta, decrement, vivify) = (1, false, Some((10, ends)));
        guard
            .numbers()
            .arith(
                &key,
                &Arith { delta, decrement, vivify, expire: None, compare: None, token: None, want_token: false },
            )
            .map(drop)
    });
    keep_access(rig, name);
}

/// Adds a META word, which records accesses and leases, to the key's item.
fn keep_access(rig: &mut Rig, name: &[u8]) {
    rig.until_done(|guard| {
        let key = guard.key(Namespace::DEFAULT, name);
        guard.items_mut().fetch(&key, &Fetch { want_access: true, ..Fetch::default() }).map(drop)
    });
}

const SOONER: Expire = Expire::At(NOW.plus_ms(3_000_000));

const IN_PLACE: [(&str, Op); 6] = [
    ("arith", |guard, key| {
        let (delta, decrement, vivify) = (5, false, None);
        let arith = Arith { delta, decrement, vivify, expire: None, compare: None, token: None, want_token: false };
        guard.numbers().arith(key, &arith).map(drop)
    }),
    ("add", |guard, key| guard.numbers().add(key, 5).map(drop)),
    ("touch", |guard, key| guard.items_mut().touch(key, SOONER).map(drop)),
    ("fetch and touch", |guard, key| {
        guard.items_mut().fetch(key, &Fetch { touch: Some(SOONER), ..Fetch::default() }).map(drop)
    }),
    ("lease", |guard, key| {
        guard.items_mut().fetch(key, &Fetch { recache_below_ms: Some(u64::MAX), ..Fetch::default() }).map(drop)
    }),
    ("stale", |guard, key| guard.items_mut().delete(key, &Delete { mark_stale: true, ..Delete::default() }).map(drop)),
];

#[test]
fn in_place_change_in_transaction_is_lost_with_power_since_checkpoint() {
    in_both_modes(|| {
        for (what, op) in IN_PLACE {
            // A single change is made in place and keeps the item.
            let mut rig = new();
            put_number(&mut rig, b"n");
            checkpoint(&mut rig).expect("made");
            rig.until_done(|guard| op(guard, &guard.key(Namespace::DEFAULT, b"n")));
            let changed = state(&mut rig, b"n");
            assert_eq!(state(&mut lost(&rig), b"n"), changed, "{what} is one that is made in place");
            // A change together with another key copies the item, and the original item is dead.
            let mut rig = new();
            put_number(&mut rig, b"n");
            rig.put(b"other", b"old");
            checkpoint(&mut rig).expect("made");
            together(
                &mut rig,
                &[(b"n", op), (b"other", |guard, key| guard.items_mut().put(key, &Put::set(b"new")).map(drop))],
            );
            assert_eq!(state(&mut rig, b"n"), changed, "{what}");
            let mut lost = lost(&rig);
            assert_eq!((state(&mut lost, b"n"), lost.read(b"other")), (None, None), "{what}");
        }
    });
}

/// Makes changes of several keys atomically.
fn together(rig: &mut Rig, changes: &[(&[u8], Op)]) {
    let mut key_locks = rig.store.key_locks();
    for (name, _) in changes {
        key_locks.add(&rig.handle.guard(NOW).key(Namespace::DEFAULT, name));
    }
    rig.until_done(|guard| guard.locks_mut().acquire(&mut key_locks));
    for (name, op) in changes {
        rig.until_done(|guard| {
            guard.locks_mut().attach(&mut key_locks);
            let done = op(guard, &guard.key(Namespace::DEFAULT, name));
            guard.locks_mut().detach(&mut key_locks);
            done
        });
    }
    rig.store.release(&mut key_locks);
}

/// If items were marked as dead only after the loss of their slot, an item interrupted by a kill between the two steps
/// would have no slot but stay live. A walk over the segments could then find it after all newer items of its key are
/// gone.
#[test]
fn item_unlinked_before_kill_is_not_revived_by_power_loss() {
    let ops: [(&str, Op); 4] = [
        ("put", |guard, key| guard.items_mut().put(key, &Put::set(b"new")).map(drop)),
        ("delete", |guard, key| guard.items_mut().delete(key, &Delete::default()).map(drop)),
        ("touch", |guard, key| guard.items_mut().touch(key, Expire::At(NOW.plus_ms(3_600_000))).map(drop)),
        ("append", |guard, key| guard.items_mut().splice(key, 3, b"more").map(drop)),
    ];
    at(IndexPlace::File, || {
        for (what, op) in ops {
            let mut rig = new();
            rig.put(b"k", b"old");
            rig.handle.own_seal(&rig.store);
            let images = images_of(&mut rig, 1, |rig| {
                rig.until_done(|guard| op(guard, &guard.key(Namespace::DEFAULT, b"k")));
            });
            for image in images {
                let mut rig = open(&image, 1);
                rig.delete(b"k");
                checkpoint(&mut rig).expect("made");
                assert_eq!(lost(&rig).read(b"k"), None, "{what}: it came back");
            }
        }
    });
}

/// Stores some values, each in its own segment, and returns their tokens.
fn tokens(rig: &mut Rig, value: &str) -> Vec<u64> {
    let mut tokens = Vec::new();
    for number in 0..20 {
        let name = key(number);
        let stored = rig.until_done(|guard| {
            let key = guard.key(Namespace::DEFAULT, &name);
            guard.items_mut().put(&key, &Put { want_token: true, ..Put::set(value.as_bytes()) })
        });
        let PutOutcome::Stored { token, .. } = stored else { panic!("{stored:?}") };
        tokens.push(token);
        rig.handle.own_seal(&rig.store);
    }
    tokens
}

#[test]
fn tokens_are_not_reissued_after_power_loss() {
    in_both_modes(|| {
        let mut rig = new();
        rig.put(b"k", b"v");
        checkpoint(&mut rig).expect("made");
        let synced = image(&rig);
        let report = tokens(&mut rig, "one");
        rig.put(b"long", &[7; 3000]);
        let objects = rig.store.persistent.objects.load(Relaxed);
        // Nothing that was written since was on the disk.
        let mut rig = open(&synced, 2);
        assert!(rig.reopened().lost && rig.read(b"k").is_some());
        let again = tokens(&mut rig, "another");
        assert!(report.iter().all(|token| !again.contains(token)), "{report:?} and {again:?}");
        for (number, token) in report.iter().enumerate() {
            let name = key(number);
            let stored = rig.until_done(|guard| {
                let key = guard.key(Namespace::DEFAULT, &name);
                guard.items_mut().put(&key, &Put { compare: Some(*token), ..Put::set(b"mine") })
            });
            assert_eq!(stored, PutOutcome::Exists, "a token of a value that is gone");
        }
        assert!(rig.store.persistent.objects.load(Relaxed) > objects, "objects");
    });
}

/// A client's token of one state of an item must never match another state of it, whatever the power loss destroyed.
#[test]
fn token_from_after_checkpoint_does_not_match_restored_item() {
    let changes: [(&str, Op, Op); 2] = [
        ("a number that changed before its token was taken", IN_PLACE[1].1, |_, _| Ok(())),
        ("a text that is marked stale when it is back", |_, _| Ok(()), IN_PLACE[5].1),
    ];
    in_both_modes(|| {
        for (what, before, after) in &changes {
            let mut rig = new();
            match what.starts_with("a number") {
                true => put_number(&mut rig, b"n"),
                false => rig.put(b"n", b"10"),
            }
            keep_access(&mut rig, b"n");
            checkpoint(&mut rig).expect("made");
            let synced = image(&rig);
            rig.until_done(|guard| before(guard, &guard.key(Namespace::DEFAULT, b"n")));
            let token = rig.until_done(|guard| {
                let key = guard.key(Namespace::DEFAULT, b"n");
                Ok(guard.versions().gets(&key)?.expect("it is there").token)
            });
            let mut rig = open(&synced, 2);
            assert_eq!(rig.read(b"n"), Some(b"10".to_vec()), "{what}");
            rig.until_done(|guard| after(guard, &guard.key(Namespace::DEFAULT, b"n")));
            let stored = rig.until_done(|guard| {
                let key = guard.key(Namespace::DEFAULT, b"n");
                guard.items_mut().put(&key, &Put { compare: Some(token), ..Put::set(b"mine") })
            });
            assert_eq!(stored, PutOutcome::Exists, "{what}");
        }
    });
}

/// Returns the pages in which two files differ.
fn pages_changed(a: &MapFile, b: &MapFile) -> Vec<u64> {
    let read = |file: &MapFile| {
        let file: std::fs::File = file.as_fd().try_clone_to_owned().expect("a descriptor").into();
        let mut bytes = vec![0; file.metadata().expect("its length").len() as usize];
        file.read_exact_at(&mut bytes, 0).expect("it is there");
        bytes
    };
    let (a, b) = (read(a), read(b));
    assert_eq!(a.len(), b.len());
    let pages = a.chunks(PAGE_BYTES).zip(b.chunks(PAGE_BYTES)).enumerate();
    pages.filter(|(_, (a, b))| a != b).map(|(at, _)| at as u64).collect()
}

#[test]
fn nothing_is_changed_at_an_opening_before_the_disk_has_it_that_the_file_is_in_use() {
    in_both_modes(|| {
        let mut rig = new();
        rig.put(b"k", b"v");
        checkpoint(&mut rig).expect("made");
        let file = Arc::clone(&rig.file);
        drop(rig);
        let closed = Arc::new(file.image().expect("an image"));
        let mut disk = Disk::new(Arc::clone(&file), Prng::new(1));
        disk.keeps = true;
        set_disk(Some(disk));
        let rig = open(&file, 1);
        assert!(rig.reopened().clean);
        let synced = with_disk(|disk| std::mem::take(&mut disk.synced));
        set_disk(None);
        let first = pages_changed(&closed, &synced[0]);
        assert!(first.iter().all(|page| *page < 2) && first.len() == 1, "one superblock, and no other page: {first:?}");
        let last = pages_changed(&closed, synced.last().expect("there are some"));
        assert!(last.iter().any(|page| *page >= 2), "an opening changes more: {last:?}");
        // If power is lost at that instant, the file counts as in use.
        assert!(open(&synced[0], 2).reopened().lost);
    });
}

#[test]
fn store_with_failed_disk_writes_is_not_marked_clean() {
    in_both_modes(|| {
        for at_the_end in [false, true] {
            let mut rig = new();
            rig.put(b"k", b"old");
            checkpoint(&mut rig).expect("made");
            let file = Arc::clone(&rig.file);
            set_disk(Some(Disk::new(Arc::clone(&file), Prng::new(1))));
            rig.put(b"k", b"new");
            if at_the_end {
                with_disk(|disk| disk.refuses = true);
            } else {
                with_disk(|disk| disk.refuses = true);
                checkpoint(&mut rig).expect_err("the disk refuses");
            }
            drop(rig);
            set_disk(None);
            let copy = || Arc::new(file.image().expect("an image"));
            let mut killed = open(&copy(), 1);
            assert!(!killed.reopened().clean && !killed.reopened().lost, "at the end: {at_the_end}");
            assert_eq!(killed.read(b"k"), Some(b"new".to_vec()), "in memory it is");
            // It is unknown which pages the disk has.
            let mut lost = open(&copy(), 2);
            assert!(lost.reopened().lost && !lost.reopened().clean, "at the end: {at_the_end}");
            assert_eq!(lost.read(b"k"), None);
        }
    });
}

fn some_keys(count: usize) -> impl Iterator<Item = ChangingKey> {
    (0..count as u64).map(|hash| ChangingKey { hash, namespace: 0, piece: false })
}

#[test]
fn transaction_begun_during_checkpoint_is_excluded_and_uses_no_room() {
    let mut rig = new();
    let keep: Op = |guard, key| guard.items_mut().put(key, &Put::set(b"v")).map(drop);
    together(&mut rig, &[(b"a", keep), (b"b", keep)]);
    let mut checkpointer = rig.store.checkpointer().expect("it has one");
    assert!(checkpointer.begin(NOW));
    // The list is full: one more key would exceed its capacity.
    rig.store.checkpoints.note_spanning(some_keys(RECORDS_MAX));
    together(&mut rig, &[(b"c", keep), (b"d", keep)]);
    assert!(checkpointer.is_sealed(), "by the first of them");
    assert_eq!(checkpointer.finish().expect("the disk takes it"), Finished::Made);
    let mut lost = lost(&rig);
    assert_eq!([b"a", b"b", b"c", b"d"].map(|name| lost.read(name).is_some()), [true, true, false, false]);
}

#[test]
fn keys_of_more_changes_than_a_record_holds_have_the_checkpoint_begun_again() {
    let mut rig = new();
    rig.put(b"k", b"v");
    let mut checkpointer = rig.store.checkpointer().expect("it has one");
    assert!(checkpointer.begin(NOW));
    rig.handle.tidy(NOW);
    rig.background.slice(NOW, &mut || true);
    rig.store.checkpoints.note_spanning(some_keys(RECORDS_MAX + 1));
    rig.store.checkpoints.note_spanning(some_keys(1 << 20));
    assert_eq!(checkpointer.finish().expect("the disk takes it"), Finished::Crowded);
    assert_eq!(rig.store.checkpoint_stats().expect("it has").made, 0);
    // The next checkpoint lists none of these keys.
    assert_eq!(checkpoint(&mut rig).expect("made"), Finished::Made);
    assert_eq!(lost(&rig).read(b"k"), Some(b"v".to_vec()));
}

/// An index of a store with a second tier has a fixed size. If it is full, an item loses its slot to another key's
/// item.
#[test]
fn item_displaced_before_kill_is_not_revived_by_power_loss() {
    at(IndexPlace::File, || {
        set_power(Power { boot: 1, checkpoints: true });
        let tier = Arc::new(MapTier::default());
        let mut rig = open_beside(Arc::new(MapFile::in_memory().expect("a file")), &tier, NOW);
        let names: Vec<Vec<u8>> = (0..600).map(key).collect();
        let crowd = names.iter().position(|name| {
            rig.put(name, b"old");
            rig.store.stats().evicted_by_index > 0
        });
        // Each key that is stored into the full index displaces another item.
        let rest = &names[crowd.expect("the index is full") + 1..];
        let (mut met, mut images) = (0, Vec::new());
        for name in &rest[..6] {
            rig.handle.own_seal(&rig.store);
            images.extend(images_of(&mut rig, 1, |rig| rig.put(name, b"old")));
        }
        let displaced = rig.store.stats().evicted_by_index;
        for image in images {
            set_power(Power { boot: 1, checkpoints: true });
            let mut rig = open_beside(image, &Arc::new(tier.copy()), NOW);
            let gone: Vec<_> = names.iter().filter(|name| rig.read(name).is_none()).collect();
            // An item without a slot is a miss now, and must also be a miss later.
            let before = gone.len();
            checkpoint(&mut rig).expect("made");
            let mut lost = lost_beside(&rig, &tier);
            met += before;
            for name in gone {
                assert_eq!(lost.read(name), None, "{} came back", name.escape_ascii());
            }
        }
        assert!(displaced > 3 && met > 100, "{displaced} lost their slots, {met} were looked for");
    });
}

fn lost_beside(rig: &Rig, tier: &Arc<MapTier>) -> Rig {
    set_power(Power { boot: 2, checkpoints: true });
    let lost = open_beside(image(rig), &Arc::new(tier.copy()), NOW);
    assert!(lost.reopened().lost && lost.reopened().flash_emptied);
    lost
}

#[test]
fn item_moved_to_or_from_flash_since_checkpoint_is_old_or_missing() {
    in_both_modes(|| {
        set_power(Power { boot: 1, checkpoints: true });
        let tier = Arc::new(MapTier::default());
        let mut rig = open_beside(Arc::new(MapFile::in_memory().expect("a file")), &tier, NOW);
        [&b"stays"[..], b"back", b"over", b"gone"].iter().for_each(|name| rig.put(name, b"old"));
        demote(&mut rig);
        [&b"goes"[..], b"goes over", b"goes gone"].iter().for_each(|name| rig.put(name, b"old"));
        // These items are on flash before the checkpoint, and in memory when it is made.
        rig.put(b"over", b"new");
        assert!(rig.delete(b"gone"));
        checkpoint(&mut rig).expect("made");
        demote(&mut rig);
        rig.put(b"goes over", b"new");
        assert!(rig.delete(b"goes gone"));
        rig.until_done(|guard| {
            let key = guard.key(Namespace::DEFAULT, b"back");
            guard.items_mut().touch(&key, Expire::Never).map(drop)
        });
        let is = |rig: &mut Rig| {
            [&b"stays"[..], b"back", b"over", b"gone", b"goes", b"goes over", b"goes gone"]
                .map(|name| read_tiered(rig, name).map(|value| value == b"new"))
        };
        let (old, new) = (Some(false), Some(true));
        assert_eq!(is(&mut rig), [old, old, new, None, old, new, None]);
        // All written data is on the disk, so the items that moved to flash are dead in memory.
        assert_eq!(is(&mut lost_beside(&rig, &tier)), [None; 7]);
        // A kill without a power loss leaves all items.
        set_power(Power { boot: 1, checkpoints: true });
        assert_eq!(
            is(&mut open_beside(image(&rig), &Arc::new(tier.copy()), NOW)),
            [old, old, new, None, old, new, None]
        );
    });
}
