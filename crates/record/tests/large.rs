//! Large records tested against a map: every kind of change, in trees of one and two levels, with and without a salt,
//! and the parts that are added and removed.

mod colliding;

use base::prng::Prng;
use gannet_record::{
    Damaged, Digits, ENTRY_BYTES, Edit, HASHES, InSet, Kind, Name, NoParts, Parts, Record, Sets, Source, Value,
};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};

#[derive(Debug, Default)]
struct Shelf {
    parts: HashMap<u64, Vec<u8>>,
    last: Cell<u64>,
    /// The salt of trees that grow.
    salt: u64,
    /// The number of reads of parts.
    looks: Cell<usize>,
}

impl Source for Shelf {
    fn part(&self, _: u64, number: u64) -> Option<&[u8]> {
        self.looks.set(self.looks.get() + 1);
        self.parts.get(&number).map(Vec::as_slice)
    }

    fn fresh(&self) -> u64 {
        self.last.set(self.last.get() + 1);
        self.last.get()
    }

    fn salt(&self) -> u64 {
        self.salt
    }
}

/// The salt of trees unless a test needs another.
const SALT: u64 = 0x5a17_0000_0000_0001;
/// The salt with which trees grow as in builds without salts.
const NO_SALT: u64 = 0;
/// The bit in the ninth byte of a head that marks a salt.
const SALTED: u8 = 0x40;

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// The record under test with its parts, and its expected contents.
struct Tried {
    sets: Sets,
    in_set: bool,
    shelf: Shelf,
    there: Option<(Kind, Vec<u8>)>,
    model: Model,
    now_ms: u64,
}

impl Tried {
    fn new(in_set: bool) -> Self {
        Self::salted(in_set, SALT)
    }

    fn salted(in_set: bool, salt: u64) -> Self {
        let (shelf, model) = (Shelf { salt, ..Shelf::default() }, Model::new());
        Self { sets: Sets::new(), in_set, shelf, there: None, model, now_ms: 1_700_000_000_000 }
    }

    fn record(&self) -> Option<Record<'_>> {
        let (kind, bytes) = self.there.as_ref()?;
        Some(Record::of(*kind, bytes, &self.sets, &self.shelf).unwrap().expect("its set stays"))
    }

    /// Applies `change` to the record and to the model.
    fn change(&mut self, change: impl FnOnce(&mut Edit<'_>, &mut Model)) {
        let now_ms = self.now_ms;
        self.model.retain(|_, (_, end)| end.is_none_or(|end| end > now_ms));
        let (mut next, mut parts) = (Vec::new(), Parts::default());
        let mut model = std::mem::take(&mut self.model);
        let old = self.record();
        let set = self.in_set.then(|| InSet::new(&self.sets, self.sets.make(0, b"set").unwrap()));
        let mut edit = Edit::in_set(old.as_ref(), set, now_ms, &mut next).unwrap();
        change(&mut edit, &mut model);
        let kind = edit.finish_with(&self.shelf, &mut parts).unwrap();
        self.model = model;
        self.put(kind, next, parts);
    }

    /// Returns the number of levels of a large record.
    fn levels(&self) -> Option<u8> {
        let (_, head) = self.there.as_ref().filter(|(kind, _)| kind.is_large())?;
        Some(head[8] & !SALTED)
    }

    fn object(&self) -> Option<[u8; 8]> {
        object(&self.there.as_ref()?.1)
    }

    /// Sweeps expired bins, a few leaves at a time.
    fn sweep(&mut self) {
        let (now_ms, revision) = (self.now_ms, self.record().map(|record| record.revision()));
        while self.record().is_some_and(|record| record.is_due(now_ms)) {
            let (mut next, mut parts) = (Vec::new(), Parts::default());
            let old = self.record().unwrap();
            let edit = Edit::swept(&old, now_ms, 3, &mut next).unwrap();
            let kind = edit.finish_with(&self.shelf, &mut parts).unwrap();
            self.put(kind, next, parts);
            assert!(self.record().is_none_or(|record| Some(record.revision()) == revision));
        }
    }

    /// Stores the result of an edit.
    fn put(&mut self, kind: Option<Kind>, next: Vec<u8>, parts: Parts) {
        let was_large = self.record().is_some_and(|old| old.is_large());
        let is_large = kind.is_some_and(|kind| matches!(kind, Kind::Large | Kind::LargeInSet));
        if was_large && is_large && self.object() == object(&next) {
            // Parts of the same tree remain unless the edit lists them as unused (`gone`).
            for gone in &parts.gone {
                assert!(self.shelf.parts.remove(gone).is_some(), "a part goes once, and was there");
            }
        } else {
            assert!(parts.gone.is_empty());
            // As in the store, all parts of the old tree are removed with the tree.
            self.shelf.parts.clear();
        }
        for (number, place) in &parts.new {
            assert!(self.shelf.parts.insert(*number, parts.bytes[place.clone()].to_vec()).is_none());
        }
        self.there = kind.map(|kind| (kind, next));
        self.check_parts();
    }

    /// Checks that the head refers to each part exactly once, that no bin ends before the end in its entry, and that
    /// the entries ascend from the bound of their page. Also checks that each bin lies in the leaf for its hash, and
    /// the number of bins.
    fn check_parts(&self) {
        let Some((Kind::Large | Kind::LargeInSet, _)) = &self.there else {
            assert!(self.shelf.parts.is_empty());
            return;
        };
        let root = self.entries_of_root();
        let pages = if self.levels() == Some(2) { root.clone() } else { Vec::new() };
        let (mut leaves, mut named) = (Vec::new(), HashSet::new());
        for (from, page, end) in &pages {
            let page_bytes = &self.shelf.parts[page];
            assert!(named.insert(*page) && page_bytes.len() <= 256 * ENTRY_BYTES);
            let entries = entries(page_bytes);
            assert_eq!(
                entries.iter().map(|entry| entry.2).min(),
                Some(*end),
                "a page ends with the first of its leaves"
            );
            assert_eq!(entries[0].0, *from, "the first entry of a page begins where the page begins");
            leaves.extend(entries);
        }
        if self.levels() == Some(1) {
            leaves = root;
        }
        assert_eq!(leaves[0].0, 0, "the first leaf begins at the lowest hash");
        let mut count = 0;
        for (at, (from, leaf, _)) in leaves.iter().enumerate() {
            let to = leaves.get(at + 1).map_or(HASHES, |next| next.0.into());
            assert!(u64::from(*from) < to, "the entries of leaves ascend");
            assert!(named.insert(*leaf), "a part is named twice");
            for hash in self.hashes(&self.shelf.parts[leaf]) {
                assert!((u64::from(*from)..to).contains(&hash.into()), "a bin lies outside the range of its leaf");
                count += 1;
            }
        }
        assert_eq!(named, self.shelf.parts.keys().copied().collect());
        assert_eq!(self.record().unwrap().count_at_most(0), Ok(count), "the head counts all bins");
    }

    fn entries_of_root(&self) -> Vec<(u32, u64, u64)> {
        let bytes = &self.there.as_ref().unwrap().1;
        let count = u32::from_le_bytes(bytes[9..13].try_into().unwrap()) as usize;
        entries(&bytes[13..13 + ENTRY_BYTES * count])
    }

    /// Returns the hash of the name of each bin of a leaf, whose bins are those of a plain record.
    fn hashes(&self, leaf: &[u8]) -> Vec<u32> {
        let (kind, front) = match self.in_set {
            true => (Kind::InSet, [0, 0, 1].to_vec()),
            false => (Kind::Hash, vec![1]),
        };
        let mut bytes = front;
        if self.in_set {
            let set = self.record().unwrap().set().unwrap();
            bytes[..2].copy_from_slice(&[set.set().number() as u8, set.set().generation() as u8]);
        }
        bytes.extend_from_slice(leaf);
        let (record, tree) = (Record::of(kind, &bytes, &self.sets, &NoParts).unwrap().unwrap(), self.record().unwrap());
        record.bins(0).map(|bin| tree.salt().hash(bin.unwrap().name.text(&mut Digits::new()))).collect()
    }

    fn check(&self) {
        let Some(record) = self.record() else {
            assert!(self.model.is_empty());
            return;
        };
        let live = |end: Option<u64>, at: u64| end.is_none_or(|end| end > at);
        for at in [self.now_ms, self.now_ms + 50_000] {
            let told: BTreeMap<_, _> = record
                .bins(at)
                .map(|bin| bin.unwrap())
                .map(|bin| {
                    let text = |value: Value<'_>| value.text(&mut Digits::new()).to_vec();
                    (text(bin.name), (text(bin.value), bin.end_ms))
                })
                .collect();
            let wanted: Model =
                self.model.iter().filter(|(_, (_, end))| live(*end, at)).map(|(k, v)| (k.clone(), v.clone())).collect();
            assert!(told == wanted, "{} bins instead of {}", told.len(), wanted.len());
            assert_eq!((record.count(at), record.is_empty(at)), (Ok(wanted.len()), Ok(wanted.is_empty())));
        }
    }

    fn find(&self, name: &[u8]) {
        let found = self.record().and_then(|record| record.find(&Name::new(name), self.now_ms).unwrap());
        let told = found.map(|bin| (bin.value.text(&mut Digits::new()).to_vec(), bin.end_ms));
        let live = self.model.get(name).filter(|(_, end)| end.is_none_or(|end| end > self.now_ms));
        assert_eq!(told.as_ref(), live);
    }
}

/// Returns the entries of a page: the lowest hash, the part and the first end of each.
fn entries(page: &[u8]) -> Vec<(u32, u64, u64)> {
    let entry = |entry: &[u8]| {
        let end = entry[12..].iter().rev().fold(0, |end, byte| end << 8 | u64::from(*byte));
        (u32::from_le_bytes(entry[..4].try_into().unwrap()), u64::from_le_bytes(entry[4..12].try_into().unwrap()), end)
    };
    page.chunks(ENTRY_BYTES).map(entry).collect()
}

fn object(bytes: &[u8]) -> Option<[u8; 8]> {
    bytes.first_chunk().copied()
}

fn random_change(prng: &mut Prng, names: u64, edit: &mut Edit<'_>, model: &mut Model, now_ms: u64) {
    let name = match prng.below(names) {
        number if number % 3 == 0 => number.to_string(),
        number => format!("field:{number}"),
    }
    .into_bytes();
    let sought = Name::new(&name);
    match prng.below(8) {
        0..5 => {
            let bytes_max = if prng.below(50) == 0 { 3000 } else { 40 };
            let value = vec![b'v'; prng.below(bytes_max) as usize];
            let keep = prng.below(2) == 0;
            let was = model.get(&name).map(|(_, end)| *end);
            assert_eq!(edit.set(&sought, &Value::Text(&value), keep), Ok(was.is_none()));
            model.insert(name, (value, was.flatten().filter(|_| keep)));
        }
        5 => {
            let end = (prng.below(4) == 0).then(|| now_ms + 1 + prng.below(100_000));
            assert_eq!(edit.set_end(&sought, end), Ok(model.contains_key(&name)));
            if let Some(there) = model.get_mut(&name) {
                there.1 = end;
            }
        }
        _ => assert_eq!(edit.remove(&sought), Ok(model.remove(&name).is_some())),
    }
}

#[test]
fn a_large_record_equals_a_map_whatever_is_done_to_it() {
    let (mut large, mut shrunk, mut ended, mut swept) = (0, 0, 0, 0);
    for seed in 0..60 {
        println!("seed {seed}");
        let salt = if seed % 4 < 2 { SALT + seed } else { NO_SALT };
        let (mut prng, mut tried) = (Prng::new(seed), Tried::salted(seed % 2 == 1, salt));
        let names = [60, 300, 2000][seed as usize % 3];
        for step in 0..300 {
            tried.now_ms += prng.below(300);
            let was_large = tried.record().is_some_and(|record| record.is_large());
            let now_ms = tried.now_ms;
            // Sometimes most of the record is removed at once.
            let sweeps = prng.below(60) == 0;
            let before = tried.model.len();
            tried.change(|edit, model| {
                ended += usize::from(model.len() < before);
                if sweeps {
                    let gone: Vec<_> = model.keys().filter(|_| prng.below(20) > 0).cloned().collect();
                    for name in gone {
                        assert_eq!(edit.remove(&Name::new(&name)), Ok(true));
                        model.remove(&name);
                    }
                }
                for _ in 0..=prng.below(10) {
                    random_change(&mut prng, names, edit, model, now_ms);
                }
            });
            if prng.below(10) == 0 {
                tried.sweep();
                swept += 1;
            }
            let is_large = tried.record().is_some_and(|record| record.is_large());
            large += usize::from(is_large);
            shrunk += usize::from(was_large && !is_large);
            tried.find(format!("field:{}", prng.below(names)).as_bytes());
            if step % 10 == 0 || sweeps {
                tried.check();
            }
        }
        tried.check();
    }
    assert!(large > 5000 && shrunk > 20 && ended > 10, "{large} large, {shrunk} small again, {ended} ended");
    assert!(swept > 1000, "{swept} swept");
}

/// A count reads only leaves with expired bins. After a sweep it reads no leaves.
#[test]
fn a_large_record_is_counted_without_a_walk_after_some_bins_have_ended() {
    let mut tried = Tried::new(false);
    let now_ms = tried.now_ms;
    let names: Vec<_> = (0..100_000).map(|number| format!("field:{number}")).collect();
    tried.change(|edit, model| {
        let given = names.iter().map(|name| (name.as_bytes(), &b"value"[..]));
        assert_eq!(edit.set_all(given), Ok(names.len()));
        model.extend(names.iter().map(|name| (name.clone().into_bytes(), (b"value".to_vec(), None))));
    });
    let looks = |tried: &Tried, at: u64| {
        let before = tried.shelf.looks.get();
        let count = tried.record().unwrap().count(at).unwrap();
        (count, tried.shelf.looks.get() - before)
    };
    for (at, name) in ["field:5", "field:70000", "field:99999"].into_iter().enumerate() {
        tried.change(|edit, _| {
            assert_eq!(edit.set_end(&Name::new(name.as_bytes()), Some(now_ms + 1 + at as u64)), Ok(true))
        });
    }
    assert_eq!(looks(&tried, now_ms), (100_000, 0));
    // Each count reads one leaf and one page per expired bin.
    for ended in 1..=3 {
        let (count, looked) = looks(&tried, now_ms + ended);
        assert!(count as u64 == 100_000 - ended && looked as u64 <= 2 * ended, "{looked} parts for {ended} that ended");
    }
    assert!(tried.record().unwrap().is_empty(now_ms + 5) == Ok(false));
    tried.now_ms += 2;
    tried.sweep();
    assert_eq!(looks(&tried, now_ms + 2), (99_998, 0));
    assert_eq!(looks(&tried, now_ms + 3).0, 99_997);
    // All bins expire at once; a sweep of a few leaves at a time removes them all.
    tried.change(|edit, _| {
        for name in &names {
            edit.set_end(&Name::new(name.as_bytes()), Some(now_ms + 10)).unwrap();
        }
    });
    tried.now_ms += 10;
    assert_eq!(looks(&tried, now_ms + 9).0, 99_998);
    assert_eq!((looks(&tried, now_ms + 10).0, tried.record().unwrap().is_empty(now_ms + 10)), (0, Ok(true)));
}

/// A change of one field copies the entries of all other leaves, and the earliest end among them. The first end of a
/// leaf is searched only if the leaf may have one.
#[test]
fn ends_of_other_leaves_and_the_first_end_of_a_leaf_outlive_changes_of_one_field() {
    for fields in [1_000, 20_000] {
        let mut tried = Tried::new(false);
        let now_ms = tried.now_ms;
        let name = |number: usize| format!("field:{number}").into_bytes();
        tried.change(|edit, model| {
            let names: Vec<_> = (0..fields).map(name).collect();
            edit.set_all(names.iter().map(|name| (&name[..], &b"value"[..]))).unwrap();
            model.extend(names.into_iter().map(|name| (name, (b"value".to_vec(), None))));
        });
        assert_eq!(tried.levels(), Some(if fields == 1_000 { 1 } else { 2 }));
        for (step, number) in [7, 500, 999].into_iter().enumerate() {
            // The end is the only change of the edit, and the leaf had no end before, or a later one.
            tried.change(|edit, model| {
                let end = now_ms + 30 - step as u64;
                assert_eq!(edit.set_end(&Name::new(&name(number)), Some(end)), Ok(true));
                model.get_mut(&name(number)).unwrap().1 = Some(end);
            });
            for number in 0..200 {
                let name = name(number * 5);
                tried.change(|edit, model| {
                    assert_eq!(edit.set(&Name::new(&name), &Value::Text(b"other"), true), Ok(false));
                    model.get_mut(&name).unwrap().0 = b"other".to_vec();
                });
            }
            let record = tried.record().unwrap();
            assert!(!record.is_due(now_ms + 29 - step as u64) && record.is_due(now_ms + 30 - step as u64));
            for ended in 0..=step + 1 {
                let at = now_ms + 29 - step as u64 + ended as u64;
                assert_eq!(record.count(at), Ok(fields - ended), "{ended} ended");
            }
        }
        tried.check();
    }
}

#[test]
fn large_record_has_two_levels_and_field_update_writes_at_most_3_parts() {
    let mut tried = Tried::new(false);
    let pairs: Vec<_> = (0..100_000).map(|number| (format!("field:{number}"), format!("value:{number}"))).collect();
    tried.change(|edit, model| {
        let given = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        assert_eq!(edit.set_all(given), Ok(pairs.len()));
        model.extend(pairs.iter().map(|(name, value)| (name.clone().into_bytes(), (value.clone().into_bytes(), None))));
    });
    tried.check();
    let (_, head) = tried.there.as_ref().unwrap();
    assert!(tried.levels() == Some(2) && head.len() < 1000, "{:?} levels, {} bytes", tried.levels(), head.len());
    let payload: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
    let parts: usize = tried.shelf.parts.values().map(Vec::len).sum();
    println!("{} parts of {parts} bytes for {payload} of names and values", tried.shelf.parts.len());
    assert!(parts < payload * 6 / 5, "{parts} bytes for {payload}");
    let before: HashSet<u64> = tried.shelf.parts.keys().copied().collect();
    for (step, number) in [5usize, 99_999, 50_000, 123_456].into_iter().enumerate() {
        tried.change(|edit, model| {
            let name = format!("field:{number}").into_bytes();
            edit.set(&Name::new(&name), &Value::Text(b"new"), false).unwrap();
            model.insert(name, (b"new".to_vec(), None));
        });
        let new = tried.shelf.parts.keys().filter(|part| !before.contains(part)).count();
        assert!(new <= 3 * (step + 1), "{new} new parts");
    }
    tried.check();
    // A walk over ranges of hashes reports each bin once.
    let (record, mut told) = (tried.record().unwrap(), HashSet::new());
    for step in 0..64u64 {
        let (from, to) = (HASHES / 64 * step, HASHES / 64 * (step + 1));
        let mut looked = 0;
        for bin in record.bins_in(tried.now_ms, from as u32, to) {
            let name = bin.unwrap().name.text(&mut Digits::new()).to_vec();
            looked += 1;
            if (from..to).contains(&record.salt().hash(&name).into()) {
                assert!(told.insert(name), "told twice");
            }
        }
        assert!(looked < 2 * 100_000 / 64, "{looked} looked at");
    }
    assert_eq!(told.len(), tried.model.len());
    // Removes the bins again, piece by piece.
    let names: Vec<_> = tried.model.keys().cloned().collect();
    for chunk in names.chunks(997) {
        tried.change(|edit, model| {
            for name in chunk {
                assert_eq!(edit.remove(&Name::new(name)), Ok(true));
                model.remove(name);
            }
        });
    }
    assert!(tried.there.is_none() && tried.shelf.parts.is_empty());
}

#[test]
fn missing_part_is_reported_and_damaged_head_never_panics() {
    let mut tried = Tried::new(true);
    tried.change(|edit, model| {
        for number in 0..1000i64 {
            let name = format!("{number}").into_bytes();
            edit.set(&Name::new(&name), &Value::Text(&[b'v'; 20]), false).unwrap();
            model.insert(name, (vec![b'v'; 20], None));
        }
    });
    let lost = *tried.shelf.parts.keys().next().unwrap();
    let part = tried.shelf.parts.remove(&lost).unwrap();
    let record = tried.record().unwrap();
    let found = (0..1000).map(|number: i32| record.find(&Name::new(number.to_string().as_bytes()), 0));
    let (found, damaged): (Vec<_>, Vec<_>) = found.partition(|found| found.is_ok());
    assert!(found.len() > 500 && !damaged.is_empty() && damaged.iter().all(|found| *found == Err(Damaged)));
    assert!(record.bins(0).any(|bin| bin.is_err()));
    tried.shelf.parts.insert(lost, part);
    let (kind, good) = tried.there.take().unwrap();
    let mut prng = Prng::new(1);
    for _ in 0..3000 {
        let mut bytes = good.clone();
        bytes[prng.below(good.len() as u64) as usize] = prng.next_u64() as u8;
        bytes.truncate(1 + prng.below(2 * good.len() as u64) as usize);
        for source in [&tried.shelf as &dyn Source, &NoParts] {
            if let Ok(Some(record)) = Record::of(kind, &bytes, &tried.sets, source) {
                let _ = (record.count(5), record.find(&Name::new(b"5"), 5), record.bins(5).count());
                let (mut next, mut parts) = (Vec::new(), Parts::default());
                if let Ok(mut edit) = Edit::of(Some(&record), 5, &mut next) {
                    let _ = edit.set(&Name::new(b"5"), &Value::Integer(1), false);
                    let _ = edit.finish_with(source, &mut parts);
                }
            }
        }
    }
}

/// The bins that remain after a drain, in the order of hashes.
#[derive(Clone, Copy, Debug)]
enum Rest {
    First,
    Last,
    Middle,
    Any,
}

/// Returns names in the order of their hashes in a tree with this salt.
fn names_by_hash(names: usize, salt: u64) -> Vec<Vec<u8>> {
    let mut all: Vec<_> = (0..names).map(|number| format!("user:{number}").into_bytes()).collect();
    let tree = grown(salt);
    all.sort_by_key(|name| tree.record().unwrap().salt().hash(name));
    all
}

/// Returns a large record with this salt.
fn grown(salt: u64) -> Tried {
    let mut tried = Tried::salted(false, salt);
    for number in 0..20 {
        set_bin(&mut tried, format!("first:{number}").as_bytes(), 330, b'v');
    }
    assert_eq!(tried.levels(), Some(1));
    tried
}

fn set_bin(tried: &mut Tried, name: &[u8], bytes: usize, mark: u8) {
    tried.change(|edit, model| {
        let value = vec![mark; bytes];
        assert_eq!(edit.set(&Name::new(name), &Value::Text(&value), false), Ok(!model.contains_key(name)));
        model.insert(name.to_vec(), (value, None));
    });
}

/// A tree is drained to a few bins in one place of the order, bin by bin or many at once, and filled again, so that
/// pages are added, divided and dropped at each end. Values of 330 bytes make a leaf of two or three bins.
#[test]
fn tree_that_is_drained_in_any_order_and_filled_again_loses_no_bin() {
    let (mut two_levels, mut pages_dropped, mut first_dropped) = (0, 0, 0);
    for seed in 0..6u64 {
        println!("seed {seed}");
        let salt = if seed % 2 == 0 { SALT } else { NO_SALT };
        let (mut prng, mut tried) = (Prng::new(seed), Tried::salted(seed % 4 == 3, salt));
        let names = names_by_hash(if seed % 3 == 0 { 1300 } else { 900 }, salt);
        let chunk_bins = [1, 1, 40][seed as usize % 3];
        let mut order = names.clone();
        for cycle in 0..3u64 {
            prng_shuffle(&mut prng, &mut order);
            for chunk in order.chunks(chunk_bins) {
                tried.change(|edit, model| {
                    for name in chunk {
                        let value = vec![b'a' + cycle as u8; 330];
                        let is_new = edit.set(&Name::new(name), &Value::Text(&value), false);
                        assert_eq!(is_new, Ok(!model.contains_key(name)));
                        model.insert(name.clone(), (value, None));
                    }
                });
            }
            two_levels += usize::from(tried.levels() == Some(2));
            tried.check();
            let few = 20 + prng.below(60) as usize;
            let rest = [Rest::Last, Rest::First, Rest::Middle, Rest::Any][(seed + cycle) as usize % 4];
            let at = match rest {
                Rest::First => 0,
                Rest::Last => names.len() - few,
                _ => prng.below((names.len() - few) as u64) as usize,
            };
            let kept: HashSet<&Vec<u8>> = match rest {
                Rest::Any => (0..few).map(|_| &names[prng.below(names.len() as u64) as usize]).collect(),
                _ => names[at..at + few].iter().collect(),
            };
            prng_shuffle(&mut prng, &mut order);
            let gone: Vec<_> = order.iter().filter(|name| !kept.contains(name)).collect();
            for chunk in gone.chunks(chunk_bins) {
                let before = tried.first_page();
                tried.change(|edit, model| {
                    for name in chunk {
                        assert_eq!(edit.remove(&Name::new(name)), Ok(true));
                        model.remove(*name);
                    }
                });
                let after = tried.first_page();
                pages_dropped += usize::from(after.0 < before.0);
                first_dropped += usize::from(after.0 > 1 && after.0 < before.0 && after.1 != before.1);
            }
            tried.check();
            for name in &names {
                tried.find(name);
            }
        }
    }
    assert!(two_levels > 10 && pages_dropped > 20 && first_dropped > 1, "{two_levels} {pages_dropped} {first_dropped}");
}

fn prng_shuffle(prng: &mut Prng, names: &mut [Vec<u8>]) {
    for at in (1..names.len()).rev() {
        names.swap(at, prng.below(at as u64 + 1) as usize);
    }
}

impl Tried {
    /// Returns the number of pages, and the part of the first one.
    fn first_page(&self) -> (usize, u64) {
        if self.levels() != Some(2) {
            return (1, 0);
        }
        let root = self.entries_of_root();
        (root.len(), root[0].1)
    }

    /// Returns the part of the first page, whose first entry is changed to begin above 0: an earlier version left it so
    /// after it had dropped the page before it.
    fn make_first_page_stale(&mut self) -> u64 {
        let (pages, first) = self.first_page();
        assert!(pages > 1);
        let page = self.shelf.parts.get_mut(&first).unwrap();
        let last = entries(page).last().unwrap().0;
        page[..4].copy_from_slice(&(last / 2).to_le_bytes());
        first
    }
}

/// An earlier version left the first entry of the first page above 0. No bin is lost yet.
#[test]
fn first_page_with_a_high_bound_is_read_with_the_right_one_and_mended_by_a_change() {
    let names = names_by_hash(900, NO_SALT);
    for changed in [0, 3, 100] {
        let mut tried = Tried::salted(false, NO_SALT);
        names.iter().for_each(|name| set_bin(&mut tried, name, 330, b'a'));
        tried.make_first_page_stale();
        tried.check();
        names.iter().for_each(|name| tried.find(name));
        // The bin becomes long enough to divide its leaf.
        set_bin(&mut tried, &names[changed], 900, b'b');
        tried.check();
        names.iter().for_each(|name| tried.find(name));
    }
}

/// An earlier version wrote changes of the first leaf into the leaf of the high bound, whose bins it lost: that leaf
/// has copies of the first one's bins, and bins that only it has.
#[test]
fn first_page_with_bins_in_wrong_leaves_is_mended_by_the_next_change_in_it() {
    let names = names_by_hash(900, NO_SALT);
    for order in [false, true] {
        let mut tried = Tried::salted(false, NO_SALT);
        names.iter().for_each(|name| set_bin(&mut tried, name, 330, b'a'));
        let first = tried.make_first_page_stale();
        let page = tried.shelf.parts[&first].clone();
        let all = entries(&page);
        let high = all.iter().rposition(|entry| entry.0 <= all[0].0).unwrap();
        let (from, to) = (all[high].0, all[high + 1].0);
        // The first leaf's bins replace those of the other one; a bin is added to them, and one is missing.
        let mut wrong = tried.shelf.parts[&all[0].1].clone();
        let hash = |name: &[u8]| tried.record().unwrap().salt().hash(name);
        let mut new = (0..).map(|number| format!("new:{number}").into_bytes());
        let added = new.find(|name| hash(name) < all[1].0).unwrap();
        let stays: HashSet<_> = names.iter().filter(|name| !(from..to).contains(&hash(name))).cloned().collect();
        let mut plain = Vec::new();
        let mut edit = Edit::of(None, 0, &mut plain).unwrap();
        edit.set(&Name::new(&added), &Value::Text(b"value"), false).unwrap();
        assert!(edit.finish());
        wrong.extend_from_slice(&plain[1..]);
        tried.shelf.parts.insert(all[high].1, wrong);
        if order {
            // Two entries do not ascend.
            let page = tried.shelf.parts.get_mut(&first).unwrap();
            let (low, other) = (5 * ENTRY_BYTES, 9 * ENTRY_BYTES);
            let (one, two) = (page[low..low + 4].to_vec(), page[other..other + 4].to_vec());
            page[low..low + 4].copy_from_slice(&two);
            page[other..other + 4].copy_from_slice(&one);
        }
        // A walk in steps ends.
        let (mut at, mut steps) = (0, 0);
        while at < HASHES {
            let end = tried.record().unwrap().step_end(at as u32).unwrap();
            assert!(end > at);
            (at, steps) = (end, steps + 1);
        }
        assert!(steps > 300, "{steps}");
        tried.model.insert(added.clone(), (b"value".to_vec(), None));
        tried.model.retain(|name, _| name == &added || stays.contains(name));
        tried.change(|edit, model| {
            assert_eq!(edit.remove(&Name::new(&names[0])), Ok(true));
            model.remove(&names[0]);
        });
        tried.check();
        tried.find(&added);
        names.iter().for_each(|name| set_bin(&mut tried, name, 330, b'c'));
        tried.check();
        for name in names.iter().chain([&added]) {
            tried.change(|edit, model| {
                assert_eq!(edit.remove(&Name::new(name)), Ok(true));
                model.remove(name);
            });
        }
        assert!(tried.there.is_none() && tried.shelf.parts.is_empty());
    }
}

/// Returns the greatest length of a part.
fn longest_part(tried: &Tried) -> usize {
    tried.shelf.parts.values().map(Vec::len).max().unwrap_or(0)
}

#[test]
fn names_with_one_unkeyed_hash_lie_in_many_leaves_of_a_salted_tree() {
    let names = colliding::names(3000);
    for in_set in [false, true] {
        let mut tried = Tried::new(in_set);
        names.iter().for_each(|name| set_bin(&mut tried, name, 4, b'v'));
        let record = tried.record().unwrap();
        let hashes: HashSet<u32> = names.iter().map(|name| record.salt().hash(name)).collect();
        assert!(hashes.len() > 2990, "{} hashes", hashes.len());
        assert!(longest_part(&tried) <= 256 * ENTRY_BYTES && tried.shelf.parts.len() > 60);
        tried.check();
        names.iter().for_each(|name| tried.find(name));
    }
}

/// A tree without a salt has all of these in one leaf, which nothing divides.
#[test]
fn leaf_with_more_names_of_one_hash_than_it_may_have_is_read_changed_and_emptied() {
    let (names, others) = (colliding::names(400), names_by_hash(200, NO_SALT));
    let mut tried = Tried::salted(false, NO_SALT);
    for (at, name) in names.iter().enumerate() {
        set_bin(&mut tried, name, 4, b'v');
        set_bin(&mut tried, &others[at % others.len()], 4, b'a' + (at % 20) as u8);
    }
    assert!(longest_part(&tried) > 400 * 20 && tried.shelf.parts.len() > 2, "{} bytes", longest_part(&tried));
    tried.check();
    for name in &names {
        tried.find(name);
        set_bin(&mut tried, name, 5, b'w');
    }
    let (record, mut at, mut steps) = (tried.record().unwrap(), 0, 0);
    while at < HASHES {
        (at, steps) = (record.step_end(at as u32).unwrap(), steps + 1);
    }
    assert!(steps > 2, "{steps} steps");
    for name in &names {
        tried.change(|edit, model| {
            assert_eq!(edit.remove(&Name::new(name)), Ok(true));
            model.remove(name);
        });
    }
    tried.check();
}

#[test]
fn tree_without_a_salt_keeps_its_order_until_it_grows_from_a_plain_record_again() {
    let mut tried = grown(NO_SALT);
    let is_salted = |tried: &Tried| tried.there.as_ref().unwrap().1[8] & SALTED != 0;
    let hash = tried.record().unwrap().salt().hash(b"name");
    // From here on, the build has salts.
    tried.shelf.salt = SALT;
    for number in 0..900 {
        set_bin(&mut tried, format!("more:{number}").as_bytes(), 330, b'v');
    }
    assert_eq!((tried.levels(), is_salted(&tried)), (Some(2), false));
    tried.check();
    let drain = |tried: &mut Tried| {
        for name in tried.model.keys().skip(2).cloned().collect::<Vec<_>>() {
            tried.change(|edit, model| {
                assert_eq!(edit.remove(&Name::new(&name)), Ok(true));
                model.remove(&name);
            });
        }
        assert_eq!(tried.levels(), None);
        tried.check();
    };
    assert_eq!(tried.record().unwrap().salt().hash(b"name"), hash);
    drain(&mut tried);
    for _ in 0..2 {
        for number in 0..40 {
            set_bin(&mut tried, format!("more:{number}").as_bytes(), 330, b'w');
        }
        assert!(is_salted(&tried));
        assert_ne!(tried.record().unwrap().salt().hash(b"name"), hash);
        tried.check();
        let salted = tried.record().unwrap().salt().hash(b"name");
        drain(&mut tried);
        set_bin(&mut tried, b"long", 5000, b'x');
        assert_eq!(tried.record().unwrap().salt().hash(b"name"), salted, "the same salt orders the names again");
        tried.change(|edit, model| {
            edit.clear();
            model.clear();
        });
        set_bin(&mut tried, b"a", 1, b'x');
    }
}

#[test]
fn head_whose_salt_is_cut_or_zero_is_damaged() {
    let tried = grown(SALT);
    let (kind, good) = tried.there.clone().unwrap();
    let salt_at = 13 + ENTRY_BYTES * tried.entries_of_root().len();
    assert_eq!(good[salt_at..salt_at + 8], SALT.to_le_bytes());
    let open = |bytes: &[u8]| Record::of(kind, bytes, &tried.sets, &tried.shelf).map(|_| ());
    assert_eq!(open(&good), Ok(()));
    assert_eq!((salt_at..salt_at + 8).filter_map(|len| open(&good[..len]).ok()).count(), 0);
    let mut zero = good.clone();
    zero[salt_at..salt_at + 8].fill(0);
    assert_eq!(open(&zero), Err(Damaged));
    let mut other = good.clone();
    other[8] |= 0x20;
    assert_eq!(open(&other), Err(Damaged), "a bit of later builds");
}
