//! Tests with memory files in which pages of 4 KiB are overwritten with random bytes. The store refuses such a file
//! with a message, or serves it. It never aborts and never returns a value that was not stored, for any request and at
//! any progress of the verification.
//!
//! The environment variable `GANNET_NOISE` sets the number of damaged copies for each test.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arena::MapFile;
use base::prng::Prng;

use super::crashes::{NOW, Rig, key, place, with_index_in_dram};
use super::{parted, tiered};
use crate::core::op::{Expire, Put, Value};
use crate::durable::tier_backing::TierBacking;
use crate::map_tier::{MapTier, PLAN};
use crate::{Namespace, StartError, Store, StoreConfig, StoreFile};

const COPIES: u64 = 60;
const KEYS: usize = 1500;
const NOISE_BYTES: usize = 4096;

fn copies() -> u64 {
    std::env::var("GANNET_NOISE").ok().and_then(|copies| copies.parse().ok()).unwrap_or(COPIES)
}

/// Prints the seed of a copy if the test fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("noise with seed {}", self.0);
        }
    }
}

fn config() -> StoreConfig {
    StoreConfig { memory_bytes: 1 << 20, segment_bytes: Some(8192), item_bytes_max: 40_000, ..super::crashes::config() }
}

/// Opens a store in a file, with or without a tier. Its index is in the place that is set for this thread.
fn open(file: &Arc<MapFile>, tier: Option<&Arc<MapTier>>) -> Result<Rig, StartError> {
    let power = crate::Power::default();
    let store_file = StoreFile { file: Arc::clone(file), reset: false, index: place(), index_left: None, power };
    let (store, background) = match tier {
        None => Store::in_file(&config(), &store_file, NOW)?,
        Some(tier) => TierBacking::lay(&config(), Some(&store_file), &PLAN, NOW)?.store(Arc::clone(tier) as _, NOW)?,
    };
    let handle = store.handle().expect("a thread handle");
    Ok(Rig { store, background, handle, file: Arc::clone(file), now: NOW })
}

fn value(number: usize) -> Vec<u8> {
    let length = [3, 40, 100, 700][number % 4];
    format!("value {number} ").into_bytes().into_iter().cycle().take(length).collect()
}

/// Fills a store with items of every kind. More keys make fuller index buckets.
fn fill(rig: &mut Rig, keys: usize) {
    for number in 0..keys {
        let expire = if number % 5 == 0 { Expire::At(NOW.plus_ms(3_600_000)) } else { Expire::Never };
        let put = Put { expire, client_flags: (number % 3) as u32, ..Put::set(&[]) };
        rig.until_done(|guard| {
            let (key, value) = (key(number), value(number));
            let key = guard.key(Namespace::DEFAULT, &key);
            guard.items_mut().put(&key, &Put { value: &value, ..put })
        });
    }
    for number in 0..20 {
        let name = format!("number-{number}").into_bytes();
        rig.until_done(|guard| {
            let key = guard.key(Namespace::DEFAULT, &name);
            guard.numbers().add(&key, 1000 + number)
        });
        rig.until_done(|guard| {
            let key = guard.key(Namespace::DEFAULT, &name);
            guard.versions().gets(&key).map(drop)
        });
    }
    for number in 0..3 {
        rig.put(format!("long-{number}").as_bytes(), &[b'a' + number; 20_000]);
    }
    rig.until_done(|guard| parted::put(guard, &guard.key(Namespace::DEFAULT, b"parts"), 9, b'p'));
}

fn names(keys: usize) -> Vec<Vec<u8>> {
    let numbers = (0..20).map(|number| format!("number-{number}").into_bytes());
    let long = (0..3).map(|number| format!("long-{number}").into_bytes());
    (0..keys).map(key).chain(numbers).chain(long).chain([b"parts".to_vec()]).collect()
}

type Known = BTreeMap<Vec<u8>, Vec<u8>>;

fn read(rig: &mut Rig, name: &[u8], is_tiered: bool) -> Option<Vec<u8>> {
    if is_tiered { tiered::read_tiered(rig, name) } else { rig.read(name) }
}

/// Checks that each key has the value that was stored, or is missing. Returns the number of keys that are present.
fn look(rig: &mut Rig, names: &[Vec<u8>], known: &Known, is_tiered: bool) -> usize {
    let mut there = 0;
    for name in names {
        let found = read(rig, name, is_tiered);
        assert!(found.is_none() || found.as_ref() == known.get(name), "{}: wrong bytes", name.escape_ascii());
        there += usize::from(found.is_some());
    }
    there
}

/// Checks that a walk reports only items that were stored.
fn walk(rig: &mut Rig, known: &Known) {
    let (mut cursor, mut stride) = (0, crate::Stride::default());
    for _ in 0..100_000 {
        let guard = rig.handle.guard(rig.now);
        let step = guard.walks().walk(Namespace::DEFAULT, cursor, &mut stride, &mut |item| {
            let value = known.get(item.key).unwrap_or_else(|| panic!("{} was never stored", item.key.escape_ascii()));
            match item.value {
                Value::Bytes(bytes) => assert_eq!(bytes, value.as_slice()),
                Value::Integer(number) => assert_eq!(number.to_string().as_bytes(), value.as_slice()),
                Value::Large(large) => assert_eq!(large.bytes, value.len() as u64),
                Value::Typed { .. } => assert_eq!(item.key, b"parts"),
            }
        });
        match step {
            Ok(Some(next)) => cursor = next,
            Ok(None) => return,
            Err(_) => drop(guard),
        }
    }
    panic!("a walk without an end");
}

/// Stores, changes and deletes keys. Checks that each key has the value that was stored last, or is missing.
fn change(rig: &mut Rig, prng: &mut Prng, known: &mut Known, is_tiered: bool) {
    for _ in 0..400 {
        let name = key(prng.below(KEYS as u64 + 100) as usize);
        match prng.below(8) {
            0 | 1 => {
                rig.delete(&name);
                known.remove(&name);
            }
            2 => {
                let name = format!("number-{}", prng.below(20)).into_bytes();
                rig.until_done(|guard| {
                    let key = guard.key(Namespace::DEFAULT, &name);
                    guard.numbers().add(&key, 1).map(drop)
                });
                match read(rig, &name, is_tiered) {
                    Some(number) => known.insert(name, number),
                    None => known.remove(&name),
                };
            }
            3 => {
                let touched = Expire::At(NOW.plus_ms(7_200_000));
                rig.until_done(|guard| {
                    let key = guard.key(Namespace::DEFAULT, &name);
                    guard.items_mut().touch(&key, touched).map(drop)
                });
            }
            _ => {
                let value = format!("new {}", prng.below(1 << 40)).into_bytes();
                rig.put(&name, &value);
                known.insert(name, value);
            }
        }
        if prng.below(4) == 0 {
            let mut looks = prng.below(4);
            rig.background.slice(rig.now, &mut || {
                looks = looks.saturating_sub(1);
                looks == 0
            });
        }
    }
}

/// Writes random pages into a copy of the file: in one of its parts, or anywhere.
fn add_noise(file: &MapFile, prng: &mut Prng, parts: &[(&'static str, std::ops::Range<u64>)]) -> &'static str {
    let (name, part) = &parts[prng.below(parts.len() as u64) as usize];
    let bytes = file.bytes().expect("its length");
    let at = (part.start + prng.below(part.end - part.start)).min(bytes - NOISE_BYTES as u64);
    let noise: Vec<u8> = (0..NOISE_BYTES / 8).flat_map(|_| prng.next_u64().to_le_bytes()).collect();
    let writer = std::fs::File::from(file.as_fd().try_clone_to_owned().expect("a descriptor"));
    writer.write_all_at(&noise, at).expect("written");
    name
}

/// The counts of results of the copies.
#[derive(Debug, Default)]
struct Came {
    refused: u64,
    served: u64,
    lost: u64,
    cleared: u64,
    damaged: u64,
}

fn try_copies(is_tiered: bool, keys: usize) -> Came {
    let tier = is_tiered.then(|| Arc::new(MapTier::default()));
    let mut rig = open(&Arc::new(MapFile::in_memory().expect("a file")), tier.as_ref()).expect("made");
    fill(&mut rig, keys);
    if is_tiered {
        tiered::demote(&mut rig);
        (0..keys / 4).for_each(|number| rig.put(&key(number), &value(number)));
    }
    let names = names(keys);
    let known: Known = names.iter().filter_map(|name| Some((name.clone(), read(&mut rig, name, is_tiered)?))).collect();
    assert!(known.len() > keys * 9 / 10, "{} of {} are there", known.len(), names.len());
    let parts = crate::durable::file::parts(&config(), is_tiered.then_some(&PLAN));
    let parts: Vec<_> = parts.into_iter().filter(|(_, range)| !range.is_empty()).collect();
    // Chooses the index and the heap more often, because they are most of a file.
    let twice: Vec<_> = parts.iter().filter(|(name, _)| matches!(*name, "index" | "heap")).cloned().collect();
    let parts = [&parts[..], &twice, &twice, &twice, &twice].concat();
    let mut came = Came::default();
    for seed in 0..copies() {
        let _told = Seed(seed);
        let mut prng = Prng::new(seed);
        let copy = Arc::new(rig.file.image().expect("an image"));
        for _ in 0..=prng.below(2) {
            add_noise(&copy, &mut prng, &parts);
        }
        let _ = crate::file_check(&copy, 0);
        let mut opened = match open(&copy, tier.as_ref()) {
            Ok(opened) => opened,
            Err(StartError::File { fault, .. }) => {
                assert!(fault.to_string().contains("--file-reset"), "{fault}");
                came.refused += 1;
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        came.served += 1;
        let mut known = known.clone();
        came.lost += (known.len() - look(&mut opened, &names, &known, is_tiered)) as u64;
        walk(&mut opened, &known);
        change(&mut opened, &mut prng, &mut known, is_tiered);
        look(&mut opened, &names, &known, is_tiered);
        opened.settle();
        look(&mut opened, &names, &known, is_tiered);
        walk(&mut opened, &known);
        assert!(!crate::core::lookup::is_unverified(&opened.store), "the pass has come to its end");
        let stats = opened.store.stats();
        (came.cleared, came.damaged) = (came.cleared + stats.slots_cleared, came.damaged + stats.damaged);
        opened.store.flush(Namespace::DEFAULT);
        opened.settle();
        assert!(names.iter().all(|name| opened.read(name).is_none()));
    }
    came
}

#[test]
fn a_file_with_noise_anywhere_is_refused_or_serves_no_wrong_byte_and_ends_no_process() {
    let came = try_copies(false, KEYS);
    assert!(came.served > copies() / 2 && came.lost > 0 && came.cleared > 0 && came.damaged > 0, "{came:?}");
}

#[test]
fn a_file_without_an_index_with_noise_anywhere_is_refused_or_serves_no_wrong_byte() {
    with_index_in_dram(|| {
        let came = try_copies(false, KEYS);
        assert!(came.served > copies() / 2 && came.lost > 0 && came.damaged > 0, "{came:?}");
    });
}

#[test]
fn noise_in_file_with_flash_is_refused_or_serves_no_wrong_byte() {
    let came = try_copies(true, 400);
    assert!(came.served > copies() / 2 && came.lost > 0 && came.cleared > 0, "{came:?}");
}
