//! Lists, sets and sorted sets tested against collections of the standard library: random changes of small and large
//! values, of short and long elements, and the parts that are added and removed.

mod colliding;
mod stream_model;

use base::prng::Prng;
use gannet_record::{
    Bound, Damaged, Digits, Kind, ListEdit, ListEnd, ListValue, Name, Parts, SetEdit, SetValue, SortedSetEdit,
    SortedSetValue, Source, Value,
};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

#[derive(Debug, Default)]
struct Shelf {
    parts: HashMap<u64, Vec<u8>>,
    last: Cell<u64>,
    /// The salt of trees that grow; 0 for none, as in builds without salts.
    salt: u64,
    /// The number of reads of parts.
    reads: Cell<usize>,
}

impl Source for Shelf {
    fn part(&self, _: u64, number: u64) -> Option<&[u8]> {
        self.reads.set(self.reads.get() + 1);
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

/// The bit in the ninth byte of a head that marks a salt.
const SALTED: u8 = 0x40;

/// Returns the parts that the entries of a page name.
fn entries(page: &[u8]) -> Vec<u64> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < page.len() {
        found.push(u64::from_le_bytes(page[at..at + 8].try_into().unwrap()));
        at += 16 + usize::from(u16::from_le_bytes(page[at + 14..at + 16].try_into().unwrap()));
    }
    assert_eq!(at, page.len());
    found
}

/// A stored value with its parts.
#[derive(Default)]
struct Stored {
    shelf: Shelf,
    there: Option<(Kind, Vec<u8>)>,
    /// The greatest number of levels that the value ever had, and the bytes that the last change wrote.
    levels: u8,
    written: usize,
    /// True if pages and leaves may be longer than usual, because keys are long. Only one change in 50 is checked.
    has_long_keys: bool,
    changes: usize,
}

impl Stored {
    /// Returns nothing yet, and the salt of a tree that grows.
    fn salted(salt: u64) -> Self {
        Self { shelf: Shelf { salt, ..Shelf::default() }, ..Self::default() }
    }

    /// Returns true if the value is a tree with a salt.
    fn is_salted(&self) -> bool {
        self.there.as_ref().is_some_and(|(kind, bytes)| kind.is_large() && bytes[8] & SALTED != 0)
    }

    fn head(&self) -> Option<(u64, u8, &[u8])> {
        let (kind, bytes) = self.there.as_ref()?;
        let object = u64::from_le_bytes(bytes.get(..8)?.try_into().unwrap());
        let root_bytes = u32::from_le_bytes(bytes.get(9..13)?.try_into().unwrap()) as usize;
        kind.is_large().then(|| (object, bytes[8] & !(0x80 | SALTED), &bytes[13..13 + root_bytes]))
    }

    /// Adds the parts below a page, whose entries lie `levels` levels above the leaves, to `found`.
    fn below(&self, page: &[u8], levels: u8, found: &mut HashSet<u64>) {
        for part in entries(page) {
            assert!(found.insert(part), "part {part} is named twice");
            if levels > 1 {
                self.below(&self.shelf.parts[&part], levels - 1, found);
            }
        }
    }

    /// Adds the keys of the entries that lead to leaves to `found`, in their order.
    fn leaf_keys(&self, page: &[u8], levels: u8, found: &mut Vec<Vec<u8>>) {
        let mut at = 0;
        while at < page.len() {
            let end = at + 16 + usize::from(u16::from_le_bytes([page[at + 14], page[at + 15]]));
            match levels {
                1 => found.push(page[at + 16..end].to_vec()),
                _ => {
                    let part = u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
                    let before = found.len();
                    self.leaf_keys(&self.shelf.parts[&part], levels - 1, found);
                    assert!(
                        page[at + 16..end] <= found[before][..],
                        "the key of a page is above that of its first entry"
                    );
                }
            }
            at = end;
        }
    }

    /// Stores the result of a change as the store does, and checks that exactly the named parts are left.
    fn put(&mut self, kind: Option<Kind>, bytes: Vec<u8>, parts: Parts) {
        let object = self.head().map(|(object, ..)| object);
        let new = kind.filter(|kind| kind.is_large()).map(|_| u64::from_le_bytes(bytes[..8].try_into().unwrap()));
        self.written = bytes.len() + parts.new.iter().map(|(_, range)| range.len()).sum::<usize>();
        for (number, range) in &parts.new {
            let is_short = range.len() <= 1200 || range.len() < 5000 && kind != Some(Kind::LargeSet);
            assert!(is_short || self.has_long_keys, "{} bytes", range.len());
            assert!(self.shelf.parts.insert(*number, parts.bytes[range.clone()].to_vec()).is_none());
        }
        if object == new {
            let mut gone: HashSet<u64> = parts.gone.iter().copied().collect();
            for (part, levels) in &parts.gone_trees {
                assert!(gone.insert(*part));
                if *levels > 0 {
                    self.below(&self.shelf.parts[part].clone(), *levels, &mut gone);
                }
            }
            gone.iter().for_each(|part| assert!(self.shelf.parts.remove(part).is_some(), "part {part} is gone twice"));
        } else {
            // The store removes all parts of the old object, which its head names.
            let mut old = HashSet::new();
            if let Some((_, levels, root)) = self.head() {
                self.below(root, levels, &mut old);
            }
            self.shelf.parts.retain(|part, _| !old.contains(part));
        }
        self.there = kind.map(|kind| (kind, bytes));
        self.changes += 1;
        if let Some((_, _, root)) = self.head() {
            assert!(root.len() <= 2048, "a root of {} bytes is too long for an item", root.len());
        }
        if self.has_long_keys && !self.changes.is_multiple_of(50) {
            return;
        }
        let mut named = HashSet::new();
        if let Some((_, levels, root)) = self.head() {
            let mut keys = Vec::new();
            self.below(root, levels, &mut named);
            self.leaf_keys(root, levels, &mut keys);
            self.levels = self.levels.max(levels);
            // The entries of a list have no bytes after the section.
            let ascend = |pair: &[Vec<u8>]| pair[0] < pair[1] || pair[0] == pair[1] && pair[0].len() == 1;
            assert!(keys.windows(2).all(ascend), "the keys of leaves are out of order: {keys:?}");
        }
        assert_eq!(named, self.shelf.parts.keys().copied().collect::<HashSet<_>>());
    }
}

fn text(value: &Value<'_>) -> Vec<u8> {
    value.text(&mut Digits::new()).to_vec()
}

fn texts<'v>(values: impl Iterator<Item = Result<Value<'v>, Damaged>>) -> Vec<Vec<u8>> {
    values.map(|value| text(&value.unwrap())).collect()
}

/// Returns a short text, a number, or rarely a long text.
fn element(random: &mut Prng, of: u64) -> Vec<u8> {
    let number = random.below(of);
    match random.below(40) {
        0 => vec![b'x'; 200 + number as usize % 700],
        1..20 => number.to_string().into_bytes(),
        _ => format!("element:{number}").into_bytes(),
    }
}

struct TriedList {
    stored: Stored,
    model: VecDeque<Vec<u8>>,
}

impl TriedList {
    fn value(&self) -> Option<ListValue<'_>> {
        let (kind, bytes) = self.stored.there.as_ref()?;
        Some(ListValue::open(*kind, bytes, &self.stored.shelf).unwrap())
    }

    fn change(&mut self, change: impl FnOnce(&mut ListEdit<'_>, &mut VecDeque<Vec<u8>>)) {
        let (mut to, mut parts) = (Vec::new(), Parts::default());
        let mut model = std::mem::take(&mut self.model);
        let old = self.value();
        let mut edit = ListEdit::of(old.as_ref(), &self.stored.shelf);
        change(&mut edit, &mut model);
        assert_eq!(edit.len(), model.len() as u64);
        let kind = edit.finish(&mut parts, &mut to).unwrap();
        self.model = model;
        self.stored.put(kind, to, parts);
        assert_eq!(self.value().map_or(0, |list| list.len()), self.model.len() as u64);
    }

    fn check(&self, random: &mut Prng) {
        let Some(list) = self.value() else { return assert!(self.model.is_empty()) };
        let index = random.below(list.len() + 1);
        let expected: Vec<_> = self.model.iter().skip(index as usize).cloned().collect();
        assert_eq!(texts(list.from(index).unwrap()), expected);
        let mut back: Vec<_> = self.model.iter().take(index as usize + 1).cloned().collect();
        back.reverse();
        assert_eq!(texts(list.back_from(index).unwrap()), back);
        let there = list.at(index).unwrap().map(|value| text(&value));
        assert_eq!(there.as_ref(), self.model.get(index as usize));
    }
}

/// Makes one random change of a list.
fn change_list(list: &mut TriedList, random: &mut Prng, grows: bool) {
    let bound = list.model.len() as u64;
    let (what, index, new) =
        (random.below(if grows { 8 } else { 16 }), random.below(bound.max(1)), element(random, 1000));
    let count = 1 + random.below(30) as usize;
    list.change(|edit, model| match what {
        0..3 => (0..count).for_each(|_| {
            edit.push(ListEnd::Right, &new).unwrap();
            model.push_back(new.clone());
        }),
        3..6 => (0..count).for_each(|_| {
            edit.push(ListEnd::Left, &new).unwrap();
            model.push_front(new.clone());
        }),
        6 if bound > 0 => {
            edit.insert(index, &new).unwrap();
            model.insert(index as usize, new.clone());
        }
        7 if bound > 0 => {
            edit.set(index, &new).unwrap();
            model[index as usize] = new.clone();
        }
        8..12 if bound > 0 => {
            let at = if what < 10 { 0 } else { bound - 1 };
            edit.remove(at, at + 1).unwrap();
            model.remove(at as usize);
        }
        _ => {
            let to = (index + count as u64 * (1 + what)).min(bound);
            edit.remove(index, to).unwrap();
            model.drain(index as usize..to as usize);
        }
    });
}

#[test]
fn a_list_equals_a_deque_after_random_changes() {
    for seed in 0..3 {
        let mut random = Prng::new(seed);
        let mut list = TriedList { stored: Stored::default(), model: VecDeque::new() };
        for round in 0..2000 {
            let grows = round / 500 % 2 == 0;
            change_list(&mut list, &mut random, grows);
            if round % 20 == 0 {
                list.check(&mut random);
            }
        }
        assert!(list.stored.levels >= 2, "the list had {} levels", list.stored.levels);
    }
}

#[test]
fn a_push_to_a_long_list_writes_few_bytes_and_a_trim_reads_few_parts() {
    let mut list = TriedList { stored: Stored::default(), model: VecDeque::new() };
    for _ in 0..1000 {
        list.change(|edit, model| {
            for number in 0..200u64 {
                edit.push(ListEnd::Right, &number.to_be_bytes()).unwrap();
                model.push_back(number.to_be_bytes().to_vec());
            }
        });
    }
    let leaves = list.stored.shelf.parts.len();
    assert!(leaves < 200_000 * 9 / 900, "{leaves} parts of nearly full leaves");
    list.change(|edit, model| {
        edit.push(ListEnd::Left, b"first").unwrap();
        model.push_front(b"first".to_vec());
    });
    assert!(list.stored.written < 6000, "{} bytes", list.stored.written);
    list.stored.shelf.reads.set(0);
    list.change(|edit, model| {
        edit.remove(1000, 199_000).unwrap();
        model.drain(1000..199_000);
    });
    let reads = list.stored.shelf.reads.get();
    assert!(reads < 20, "{reads} reads of parts");
    list.check(&mut Prng::new(1));
}

#[test]
fn a_queue_leaves_no_empty_parts_behind() {
    let mut list = TriedList { stored: Stored::default(), model: VecDeque::new() };
    for number in 0..20_000u64 {
        list.change(|edit, model| {
            edit.push(ListEnd::Right, &number.to_be_bytes()).unwrap();
            model.push_back(number.to_be_bytes().to_vec());
            if edit.len() > 600 {
                edit.remove(0, 1).unwrap();
                model.pop_front();
            }
        });
    }
    assert!(list.stored.shelf.parts.len() < 12, "{} parts", list.stored.shelf.parts.len());
    list.check(&mut Prng::new(1));
}

struct TriedSet {
    stored: Stored,
    model: BTreeSet<Vec<u8>>,
}

impl TriedSet {
    fn value(&self) -> Option<SetValue<'_>> {
        let (kind, bytes) = self.stored.there.as_ref()?;
        Some(SetValue::open(*kind, bytes, &self.stored.shelf).unwrap())
    }

    fn change(&mut self, change: impl FnOnce(&mut SetEdit<'_>, &mut BTreeSet<Vec<u8>>)) {
        let (mut to, mut parts) = (Vec::new(), Parts::default());
        let mut model = std::mem::take(&mut self.model);
        let old = self.value();
        let mut edit = SetEdit::of(old.as_ref(), &self.stored.shelf);
        change(&mut edit, &mut model);
        assert_eq!(edit.len(), model.len() as u64);
        let kind = edit.finish(&mut parts, &mut to).unwrap();
        self.model = model;
        self.stored.put(kind, to, parts);
    }

    /// Returns the elements that a walk by hashes finds.
    fn walked(&self) -> Vec<Vec<u8>> {
        let (mut found, mut hash) = (Vec::new(), Some(0));
        while let (Some(set), Some(from)) = (self.value(), hash) {
            let (elements, next) = set.step(from).unwrap();
            found.extend(elements.iter().map(text));
            assert!(next.is_none_or(|next| next > from));
            hash = next;
        }
        found.sort();
        found
    }
}

#[test]
fn a_set_equals_a_set_of_the_library_after_random_changes() {
    for seed in 0..3 {
        let mut random = Prng::new(seed);
        let mut set = TriedSet { stored: Stored::salted(seed), model: BTreeSet::new() };
        for round in 0..2000u64 {
            let grows = round / 500 % 2 == 0;
            set.change(|edit, model| {
                for _ in 0..1 + random.below(60) {
                    let new = element(&mut random, 8000);
                    if random.below(10) < if grows { 9 } else { 2 } {
                        assert_eq!(edit.add(&Name::new(&new)).unwrap(), model.insert(new));
                    } else {
                        let there = model.range(new.clone()..).next().cloned().unwrap_or(new);
                        assert_eq!(edit.remove(&Name::new(&there)).unwrap(), model.remove(&there));
                    }
                }
            });
            let probe = element(&mut random, 8000);
            let there = set.value().is_some_and(|set| set.contains(&Name::new(&probe)).unwrap());
            assert_eq!(there, set.model.contains(&probe));
            if round % 50 == 0 {
                assert_eq!(set.walked(), set.model.iter().cloned().collect::<Vec<_>>());
                let index = random.below(set.model.len() as u64 + 1);
                let all = set.value().map_or(0, |set| set.from(index).unwrap().count());
                assert_eq!(all, set.model.len() - index as usize);
            }
        }
        assert!(set.stored.levels >= 2, "the set had {} levels", set.stored.levels);
    }
}

/// Scores and texts in their order, and the score of each text.
#[derive(Default)]
struct Scores {
    order: BTreeSet<(i64, Vec<u8>)>,
    of: BTreeMap<Vec<u8>, i64>,
}

impl Scores {
    /// Gives a text a score, in the sorted set and here.
    fn set(&mut self, edit: &mut SortedSetEdit<'_>, text: Vec<u8>, score: i64) {
        let old = edit.score(&text).unwrap();
        edit.set(&text, old, score as f64).unwrap();
        if let Some(old) = self.of.insert(text.clone(), score) {
            assert!(self.order.remove(&(old, text.clone())));
        }
        self.order.insert((score, text));
    }

    /// Removes a text from both.
    fn remove(&mut self, edit: &mut SortedSetEdit<'_>, text: &[u8], score: i64) {
        edit.remove(text, score as f64).unwrap();
        self.of.remove(text);
        self.order.remove(&(score, text.to_vec()));
    }
}

struct TriedSortedSet {
    stored: Stored,
    model: Scores,
}

impl TriedSortedSet {
    fn value(&self) -> Option<SortedSetValue<'_>> {
        let (kind, bytes) = self.stored.there.as_ref()?;
        Some(SortedSetValue::open(*kind, bytes, &self.stored.shelf).unwrap())
    }

    fn change(&mut self, change: impl FnOnce(&mut SortedSetEdit<'_>, &mut Scores)) {
        let (mut to, mut parts) = (Vec::new(), Parts::default());
        let mut model = std::mem::take(&mut self.model);
        let old = self.value();
        let mut edit = SortedSetEdit::of(old.as_ref(), &self.stored.shelf);
        change(&mut edit, &mut model);
        assert_eq!(edit.len(), model.of.len() as u64);
        let kind = edit.finish(&mut parts, &mut to).unwrap();
        self.model = model;
        self.stored.put(kind, to, parts);
    }

    fn check(&self, random: &mut Prng) {
        let Some(set) = self.value() else { return assert!(self.model.of.is_empty()) };
        let index = random.below(set.len() + 1);
        let pairs = |(score, value): (f64, Value<'_>)| (score as i64, text(&value));
        let found: Vec<_> = set.from(index).unwrap().map(|pair| pairs(pair.unwrap())).collect();
        assert_eq!(found, self.model.order.iter().skip(index as usize).cloned().collect::<Vec<_>>());
        let found: Vec<_> = set.back_from(index).unwrap().map(|pair| pairs(pair.unwrap())).collect();
        let mut back: Vec<_> = self.model.order.iter().take(index as usize + 1).cloned().collect();
        back.reverse();
        assert_eq!(found, back);
        let score = random.below(120) as i64 - 60;
        let below = self.model.order.range(..(score, Vec::new())).count() as u64;
        assert_eq!(set.before(&Bound::before(score as f64)).unwrap(), below);
        let below = self.model.order.range(..(score + 1, Vec::new())).count() as u64;
        assert_eq!(set.before(&Bound::behind(score as f64)).unwrap(), below);
        let probe = element(random, 8000);
        let below = self.model.order.range(..(score, probe.clone())).count() as u64;
        assert_eq!(set.before(&Bound::before_text(score as f64, &probe)).unwrap(), below);
        let same = u64::from(self.model.order.contains(&(score, probe.clone())));
        assert_eq!(set.before(&Bound::behind_text(score as f64, &probe)).unwrap(), below + same);
        assert_eq!(set.score(&probe).unwrap().map(|score| score as i64), self.model.of.get(&probe).copied());
        if let Some((score, there)) = self.model.order.iter().nth(index as usize) {
            assert_eq!(set.rank(there).unwrap(), Some((index, *score as f64)));
        }
    }
}

#[test]
fn a_sorted_set_equals_a_map_and_an_order_after_random_changes() {
    for seed in 0..3 {
        let mut random = Prng::new(seed);
        let mut set = TriedSortedSet { stored: Stored::salted(seed), model: Scores::default() };
        for round in 0..2000u64 {
            let grows = round / 500 % 2 == 0;
            set.change(|edit, model| {
                for _ in 0..1 + random.below(30) {
                    let new = element(&mut random, 8000);
                    if random.below(10) < if grows { 9 } else { 2 } {
                        let score = random.below(100) as i64 - 50;
                        model.set(edit, new, score);
                    } else if let Some((there, score)) = model.of.range(new..).next().map(|(t, s)| (t.clone(), *s)) {
                        model.remove(edit, &there, score);
                    }
                }
            });
            if round % 10 == 0 {
                set.check(&mut random);
            }
        }
        assert!(set.stored.levels >= 2, "the sorted set had {} levels", set.stored.levels);
    }
}

/// Regression: the first leaf of a section became empty, lower elements went to the next one, and when that was
/// divided, its entries were out of order.
#[test]
fn a_sorted_set_keeps_its_order_if_lower_elements_follow_removed_ones() {
    for seed in 0..4 {
        let mut random = Prng::new(seed);
        let mut set = TriedSortedSet { stored: Stored::salted(seed % 2), model: Scores::default() };
        for round in 0..100u64 {
            let most = 100 + random.below(400);
            set.change(|edit, model| {
                while (model.of.len() as u64) < most {
                    let new = element(&mut random, 8000);
                    let score = random.below(100) as i64 - 50;
                    model.set(edit, new, score);
                }
            });
            set.check(&mut random);
            // The lowest ones by their texts or their scores, in one change or many.
            let mut gone: Vec<(Vec<u8>, i64)> = match round % 2 {
                0 => set.model.of.iter().map(|(text, score)| (text.clone(), *score)).collect(),
                _ => set.model.order.iter().map(|(score, text)| (text.clone(), *score)).collect(),
            };
            gone.truncate(random.below(gone.len() as u64) as usize);
            let at_once = [1, 7, 1000][random.below(3) as usize];
            for some in gone.chunks(at_once) {
                set.change(|edit, model| {
                    for (there, score) in some {
                        model.remove(edit, there, *score);
                    }
                });
            }
            set.check(&mut random);
        }
    }
}

/// Members with equal scores and a long common prefix need long keys. A page has few of them, and is divided so that
/// the number of levels stays low.
#[test]
fn members_with_long_common_prefixes_are_added_in_any_order() {
    for (prefix, members) in [(0, 3000), (200, 4000), (240, 4000), (300, 3000), (1100, 1500), (60_000, 60)] {
        for order in ["ascending", "descending", "random"] {
            println!("{members} members with a prefix of {prefix} bytes, {order}");
            let mut random = Prng::new(prefix as u64);
            let mut numbers: Vec<usize> = (0..members).collect();
            match order {
                "descending" => numbers.reverse(),
                "random" => (1..members).for_each(|at| numbers.swap(at, random.below(at as u64 + 1) as usize)),
                _ => {}
            }
            let stored = Stored { has_long_keys: true, ..Stored::default() };
            let mut set = TriedSortedSet { stored, model: Scores::default() };
            let member = |number: &usize| [&vec![b'p'; prefix][..], format!("{number:06}").as_bytes()].concat();
            for (at, number) in numbers.iter().enumerate() {
                set.change(|edit, model| model.set(edit, member(number), 0));
                if at % 500 == 0 {
                    set.check(&mut random);
                }
            }
            set.check(&mut random);
            let leaves = set.stored.shelf.parts.len() as f64;
            let most = 3.0 + leaves.log(3.0);
            assert!(f64::from(set.stored.levels) < most, "{} levels of {leaves} parts", set.stored.levels);
            assert!(set.stored.levels > 1);
            for number in numbers.iter().take(members - 3) {
                set.change(|edit, model| model.remove(edit, &member(number), 0));
            }
            set.check(&mut random);
        }
    }
}

#[test]
fn equal_zeros_are_ordered_by_their_texts_and_keep_their_signs() {
    for large in [false, true] {
        let mut set = TriedSortedSet { stored: Stored::default(), model: Scores::default() };
        set.change(|edit, model| {
            for (text, score) in
                [("b", -0.0), ("a", 0.0), ("c", 0.0), ("inf", f64::INFINITY), ("min", f64::NEG_INFINITY)]
            {
                edit.set(text.as_bytes(), None, score).unwrap();
                model.of.insert(text.into(), 0);
            }
            for number in 0..if large { 2000 } else { 0 } {
                edit.set(format!("m{number}").as_bytes(), None, 1e300).unwrap();
                model.of.insert(format!("m{number}").into(), 0);
            }
        });
        let value = set.value().unwrap();
        let found: Vec<_> = value.from(0).unwrap().map(|pair| pair.map(|(_, value)| text(&value)).unwrap()).collect();
        assert_eq!(found[..4], [&b"min"[..], b"a", b"b", b"c"].map(<[u8]>::to_vec));
        assert!(value.score(b"b").unwrap().is_some_and(|score| score == 0.0 && score.is_sign_negative()));
        assert_eq!(value.before(&Bound::before(-0.0)).unwrap(), 1);
        assert_eq!(value.before(&Bound::behind(0.0)).unwrap(), 4);
        assert_eq!(value.rank(b"inf").unwrap(), Some((value.len() - 1, f64::INFINITY)));
        set.change(|edit, model| {
            edit.set(b"b", Some(-0.0), 5.0).unwrap();
            edit.remove(b"a", 0.0).unwrap();
            model.of.remove(&b"a"[..]);
        });
        assert_eq!(set.value().unwrap().score(b"b").unwrap(), Some(5.0));
    }
}

#[test]
fn damaged_bytes_are_an_error_and_no_panic() {
    let mut random = Prng::new(1);
    let mut set = TriedSortedSet { stored: Stored::salted(5), model: Scores::default() };
    set.change(|edit, model| {
        for number in 0..3000 {
            edit.set(format!("m{number}").as_bytes(), None, f64::from(number)).unwrap();
            model.of.insert(format!("m{number}").into(), number.into());
        }
    });
    let (kind, bytes) = set.stored.there.clone().unwrap();
    for _ in 0..20_000 {
        let mut bytes = bytes.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next_u64() as u8;
        }
        bytes.truncate(1 + random.below(bytes.len() as u64) as usize);
        for kind in [kind, Kind::SortedSet, Kind::Set, Kind::LargeSet, Kind::List, Kind::LargeList] {
            let probe = |value: Result<SortedSetValue<'_>, Damaged>| {
                let value = value?;
                value.rank(b"m17")?;
                value.from(random_index(value.len()))?.take(50).count();
                value.back_from(random_index(value.len()))?.take(50).count();
                let mut edit = SortedSetEdit::of(Some(&value), &set.stored.shelf);
                edit.set(b"new", None, 3.0)?;
                edit.finish(&mut Parts::default(), &mut Vec::new()).map(drop)
            };
            let _ = probe(SortedSetValue::open(kind, &bytes, &set.stored.shelf));
            let probe = |value: Result<ListValue<'_>, Damaged>| {
                let value = value?;
                value.at(1)?;
                value.back_from(5)?.take(50).count();
                let mut edit = ListEdit::of(Some(&value), &set.stored.shelf);
                edit.remove(1, 7)?;
                edit.finish(&mut Parts::default(), &mut Vec::new()).map(drop)
            };
            let _ = probe(ListValue::open(kind, &bytes, &set.stored.shelf));
        }
    }
}

fn random_index(len: u64) -> u64 {
    len / 3
}

/// Returns the greatest length of a part.
fn longest_part(stored: &Stored) -> usize {
    stored.shelf.parts.values().map(Vec::len).max().unwrap_or(0)
}

/// Adds texts one by one, and removes them again.
#[test]
fn texts_with_one_unkeyed_hash_lie_in_many_leaves_of_a_salted_set() {
    let texts = colliding::names(2500);
    // Without a salt, they lie in one leaf, which grows without a limit.
    for (salt, count) in [(3, 2500), (0, 500)] {
        let stored = Stored { has_long_keys: salt == 0, ..Stored::salted(salt) };
        let mut set = TriedSet { stored, model: BTreeSet::new() };
        for text in &texts[..count] {
            set.change(|edit, model| assert_eq!(edit.add(&Name::new(text)).unwrap(), model.insert(text.clone())));
        }
        assert_eq!(set.stored.is_salted(), salt != 0);
        assert_eq!(longest_part(&set.stored) <= 1024, salt != 0, "{} bytes", longest_part(&set.stored));
        assert_eq!(set.walked(), set.model.iter().cloned().collect::<Vec<_>>());
        for text in &texts[..count] {
            assert!(set.value().unwrap().contains(&Name::new(text)).unwrap());
            set.change(|edit, model| assert_eq!(edit.remove(&Name::new(text)).unwrap(), model.remove(text)));
        }
        assert!(set.value().is_none() && set.stored.shelf.parts.is_empty());
    }
}

/// Adds texts one by one, all with one score or each with its own, and removes them again.
#[test]
fn texts_with_one_unkeyed_hash_are_found_among_few_others_in_a_salted_sorted_set() {
    let texts = colliding::names(1500);
    for (salt, count, scores) in [(3, 1500, 1), (3, 1500, 1500), (0, 300, 1), (0, 300, 300)] {
        let stored = Stored { has_long_keys: true, ..Stored::salted(salt) };
        let mut set = TriedSortedSet { stored, model: Scores::default() };
        for (at, text) in texts[..count].iter().enumerate() {
            set.change(|edit, model| model.set(edit, text.clone(), at as i64 % scores));
        }
        assert_eq!(set.stored.is_salted(), salt != 0);
        let value = set.value().unwrap();
        set.stored.shelf.reads.set(0);
        for text in &texts[..count] {
            assert_eq!(value.score(text).unwrap().map(|score| score as i64), set.model.of.get(text).copied());
        }
        let reads = set.stored.shelf.reads.get() / count;
        // Without a salt, a search reads each element of the hash, or there is one leaf for all with this score.
        assert_eq!(reads < 10, salt != 0 || scores == 1, "{reads} reads of parts for each score");
        assert_eq!(longest_part(&set.stored) <= 1024, salt != 0 || scores > 1, "{} bytes", longest_part(&set.stored));
        set.check(&mut Prng::new(1));
        let next = value.hashes(0, 10).unwrap();
        assert_eq!(next.found.len(), if salt == 0 { count } else { 10 }, "texts of one hash are not separated");
        for text in &texts[..count] {
            let score = set.model.of[text];
            set.change(|edit, model| model.remove(edit, text, score));
        }
        assert!(set.value().is_none() && set.stored.shelf.parts.is_empty());
    }
}

/// Sets of both kinds with the same texts.
struct TriedSets {
    set: TriedSet,
    sorted: TriedSortedSet,
}

impl TriedSets {
    fn add(&mut self, texts: &[Vec<u8>]) {
        self.set.change(|edit, model| {
            texts.iter().for_each(|text| assert_eq!(edit.add(&Name::new(text)).unwrap(), model.insert(text.clone())));
        });
        self.sorted.change(|edit, model| texts.iter().for_each(|text| model.set(edit, text.clone(), 5)));
    }

    fn remove(&mut self, texts: &[Vec<u8>]) {
        self.set.change(|edit, model| {
            texts.iter().for_each(|text| assert_eq!(edit.remove(&Name::new(text)).unwrap(), model.remove(text)));
        });
        self.sorted.change(|edit, model| texts.iter().for_each(|text| model.remove(edit, text, 5)));
    }

    /// Checks the contents, and that both are trees with a salt, or that none is.
    fn check(&self, is_salted: bool) {
        assert_eq!((self.set.stored.is_salted(), self.sorted.stored.is_salted()), (is_salted, is_salted));
        assert_eq!(self.set.walked(), self.set.model.iter().cloned().collect::<Vec<_>>());
        self.sorted.check(&mut Prng::new(1));
    }
}

/// A tree of a build without salts.
#[test]
fn tree_without_a_salt_stays_without_one_until_it_grows_from_a_plain_value_again() {
    let texts: Vec<_> = (0..2000).map(|number| format!("text:{number}").into_bytes()).collect();
    let mut both = TriedSets {
        set: TriedSet { stored: Stored::salted(0), model: BTreeSet::new() },
        sorted: TriedSortedSet { stored: Stored::salted(0), model: Scores::default() },
    };
    texts[..1000].chunks(300).for_each(|some| both.add(some));
    // From here on, the build has salts.
    (both.set.stored.shelf.salt, both.sorted.stored.shelf.salt) = (7, 7);
    texts[1000..].chunks(300).for_each(|some| both.add(some));
    both.check(false);
    for _ in 0..2 {
        texts[10..].chunks(300).for_each(|some| both.remove(some));
        texts[1..10].chunks(1).for_each(|some| both.remove(some));
        both.check(false);
        texts[1..].chunks(300).for_each(|some| both.add(some));
        both.check(true);
    }
}
