//! Records tested against a list of names, values and ends. Damaged bytes of every kind must be reported and cause no
//! panic.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod record_walk;

use base::prng::Prng;
use gannet_record::{
    Bin, Damaged, Digits, Edit, InSet, Kind, List, Map, Name, NoParts, Record, Sets, Value, push_value,
};
use record_walk::walk;

/// An owned value, for comparison.
#[derive(Clone, Debug, PartialEq)]
enum Held {
    Integer(i64),
    Float(f64),
    Bool(bool),
    Text(Vec<u8>),
    Bytes(Vec<u8>),
    List(Vec<Held>),
    Map(Vec<(Vec<u8>, Held)>),
}

impl Held {
    fn of(value: &Value<'_>) -> Self {
        match *value {
            Value::Integer(number) => Self::Integer(number),
            Value::Float(number) => Self::Float(number),
            Value::Bool(value) => Self::Bool(value),
            Value::Text(text) => Self::Text(text.to_vec()),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Value::List(list) => Self::List(list.values().map(|value| Self::of(&value)).collect()),
            Value::Map(map) => Self::Map(
                map.pairs().map(|(key, value)| (key.text(&mut Digits::new()).to_vec(), Self::of(&value))).collect(),
            ),
        }
    }

    /// Returns the value; `body` holds the contents of a list or a map.
    fn value<'h>(&'h self, body: &'h mut Vec<u8>) -> Value<'h> {
        match self {
            Self::Integer(number) => Value::Integer(*number),
            Self::Float(number) => Value::Float(*number),
            Self::Bool(value) => Value::Bool(*value),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::List(values) => {
                values.iter().for_each(|value| push_value(&value.value(&mut Vec::new()), body));
                Value::List(List::open(body).unwrap())
            }
            Self::Map(pairs) => {
                for (key, value) in pairs {
                    let old = std::mem::take(body);
                    let old = Map::open(&old).unwrap();
                    assert!(!old.put(key, Some(&value.value(&mut Vec::new())), body));
                }
                Value::Map(Map::open(body).unwrap())
            }
        }
    }
}

/// A list of names in insertion order, each with its value and end.
type Model = Vec<(Vec<u8>, Held, Option<u64>)>;

fn name(prng: &mut Prng) -> Vec<u8> {
    match prng.below(4) {
        0 => prng.below(9).to_string().into_bytes(),
        1 => (i64::MIN + prng.below(3) as i64).to_string().into_bytes(),
        2 => format!("0{}", prng.below(3)).into_bytes(),
        _ => vec![b'n'; [0, 1, 63, 64, 5000][prng.below(5) as usize]],
    }
}

fn held(prng: &mut Prng) -> Held {
    match prng.below(8) {
        6 => Held::List((0..prng.below(4)).map(|_| held(prng)).filter(|held| depth(held) < 7).collect()),
        7 => Held::Map((0..prng.below(4)).map(|n| (format!("{n}k").into_bytes(), Held::Integer(n as i64))).collect()),
        0 => Held::Integer((prng.next_u64() as i64) >> prng.below(64)),
        1 => Held::Float(prng.unit()),
        2 => Held::Bool(prng.below(2) == 0),
        3 => Held::Bytes(vec![b'b'; prng.below(80) as usize]),
        _ => Held::of(&Value::of_text(&vec![b'4'; prng.below(30) as usize])),
    }
}

fn depth(held: &Held) -> usize {
    match held {
        Held::List(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
        Held::Map(_) => 1,
        _ => 0,
    }
}

fn told(record: &Record<'_>, now_ms: u64) -> Model {
    let text = |bin: &Bin<'_>| bin.name.text(&mut Digits::new()).to_vec();
    record.bins(now_ms).map(|bin| bin.map(|bin| (text(&bin), Held::of(&bin.value), bin.end_ms)).unwrap()).collect()
}

/// Makes one random change to the record and the model; returns its description.
fn change(prng: &mut Prng, edit: &mut Edit<'_>, model: &mut Model, now_ms: u64) -> String {
    let chosen = name(prng);
    let at = model.iter().position(|(name, ..)| *name == chosen);
    let sought = Name::new(&chosen);
    assert_eq!(edit.bin(&sought).unwrap().map(|bin| Held::of(&bin.value)), at.map(|at| model[at].1.clone()));
    match prng.below(5) {
        0 | 1 => {
            let (value, keep) = (held(prng), prng.below(2) == 0);
            assert_eq!(edit.set(&sought, &value.value(&mut Vec::new()), keep), Ok(at.is_none()));
            match at {
                None => model.push((chosen, value, None)),
                Some(at) => model[at] = (chosen, value, model[at].2.filter(|_| keep)),
            }
            "set".into()
        }
        2 => {
            assert_eq!(edit.remove(&sought), Ok(at.is_some()));
            if let Some(at) = at {
                model.remove(at);
            }
            "remove".into()
        }
        3 => {
            let end = (prng.below(3) > 0).then(|| now_ms + 1 + prng.below(1000));
            assert_eq!(edit.set_end(&sought, end), Ok(at.is_some()));
            if let Some(at) = at {
                model[at].2 = end;
            }
            format!("end {end:?}")
        }
        _ => {
            let pairs: Vec<_> = (0..prng.below(40)).map(|_| (name(prng), prng.below(2000).to_string())).collect();
            let given = pairs.iter().map(|(name, value)| (&name[..], value.as_bytes()));
            let added = edit.set_all(given).unwrap();
            let before = model.len();
            for (name, value) in &pairs {
                let value = Held::of(&Value::of_text(value.as_bytes()));
                match model.iter_mut().find(|(there, ..)| there == name) {
                    Some(bin) => (bin.1, bin.2) = (value, None),
                    None => model.push((name.clone(), value, None)),
                }
            }
            assert_eq!(added, model.len() - before);
            format!("set {}", pairs.len())
        }
    }
}

#[test]
fn record_matches_model_of_stored_unexpired_fields() {
    let (mut many, mut ended, mut emptied, mut nested) = (0, 0, 0, 0);
    let sets = Sets::new();
    for seed in 0..400 {
        let mut prng = Prng::new(seed);
        // Every second record is in a set. Most bin names of the set have numbers.
        let set = (seed % 2 == 1).then(|| sets.make(0, &[b's', (seed % 7) as u8]).unwrap());
        let (set, kind) = (set.map(|set| InSet::new(&sets, set)), if set.is_some() { Kind::InSet } else { Kind::Hash });
        let (mut bytes, mut model, mut now_ms): (Option<Vec<u8>>, Model, u64) = (None, Vec::new(), 1_700_000_000_000);
        for step in 1..=40u32 {
            now_ms += prng.below(400);
            let before = model.len();
            model.retain(|(_, _, end)| end.is_none_or(|end| end > now_ms));
            ended += before - model.len();
            let old = bytes.as_deref().map(|bytes| Record::of(kind, bytes, &sets, &NoParts).unwrap().unwrap());
            // The record is appended after other bytes, which must stay.
            let mut next = b"before".to_vec();
            let mut edit = Edit::in_set(old.as_ref(), set, now_ms, &mut next).unwrap();
            let done: Vec<_> = (0..=prng.below(3)).map(|_| change(&mut prng, &mut edit, &mut model, now_ms)).collect();
            many += usize::from(done.iter().any(|done| done.starts_with("set 2")));
            assert_eq!(edit.finish(), !model.is_empty());
            emptied += usize::from(model.is_empty());
            assert_eq!(next.drain(..6).collect::<Vec<_>>(), b"before");
            let record = Record::of(kind, &next, &sets, &NoParts).unwrap().expect("its set stays");
            nested += model.iter().filter(|(_, held, _)| depth(held) > 1).count();
            assert_eq!(told(&record, now_ms), model, "seed {seed}, step {step}: {done:?}");
            assert_eq!((record.revision(), record.count(now_ms)), (step, Ok(model.len())));
            assert_eq!(record.is_empty(now_ms), Ok(model.is_empty()));
            let later = model.iter().filter(|(_, _, end)| end.is_none_or(|end| end > now_ms + 500)).count();
            assert_eq!((record.count(now_ms + 500), record.is_empty(now_ms + 500)), (Ok(later), Ok(later == 0)));
            for (name, value, end) in &model {
                let bin = record.find(&Name::new(name), now_ms).unwrap().expect("it is there");
                assert_eq!((&Held::of(&bin.value), bin.end_ms), (value, *end));
            }
            // Looks up names in random order, some of them missing, each from the position of the previous hit.
            let (mut other, mut at) = (Prng::new(seed * 100 + u64::from(step)), 0);
            for _ in 0..6 {
                let sought = name(&mut other);
                let found = record.find_after(&mut at, &Name::new(&sought), now_ms).unwrap();
                let there = model.iter().find(|(name, ..)| *name == sought);
                assert_eq!(found.map(|bin| Held::of(&bin.value)), there.map(|(_, value, _)| value.clone()));
            }
            bytes = Some(next);
        }
    }
    assert!(many > 100 && ended > 100 && emptied > 10, "{many} many, {ended} ended, {emptied} emptied");
    assert!(nested > 100, "{nested} nested");
}

#[test]
fn truncated_set_hides_older_records_but_not_later_records() {
    let sets = Sets::new();
    let set = InSet::new(&sets, sets.make(0, b"set").unwrap());
    let store = || {
        let mut bytes = Vec::new();
        let mut edit = Edit::in_set(None, Some(set), 0, &mut bytes).unwrap();
        edit.set(&Name::new(b"bin"), &Value::Integer(5), false).unwrap();
        edit.finish();
        bytes
    };
    // Truncates so often that the generation's encoding grows by a byte.
    for _ in 0..200 {
        let bytes = store();
        assert!(Record::of(Kind::InSet, &bytes, &sets, &NoParts).unwrap().is_some());
        assert_eq!(Kind::InSet.is_empty(&bytes, &sets, 0), Ok(false));
        assert!(sets.truncate(set.set()));
        assert!(Record::of(Kind::InSet, &bytes, &sets, &NoParts).unwrap().is_none());
        assert_eq!(Kind::InSet.is_empty(&bytes, &sets, 0), Ok(true));
    }
    let bytes = store();
    assert_eq!(Record::of(Kind::InSet, &bytes, &Sets::new(), &NoParts).err(), Some(Damaged), "a set that there is not");
}

#[test]
fn lists_and_maps_are_changed_as_a_list_of_values_is() {
    for seed in 0..300 {
        let mut prng = Prng::new(seed);
        let (mut list, mut model): (Vec<u8>, Vec<Held>) = (Vec::new(), Vec::new());
        let (mut map, mut pairs): (Vec<u8>, Vec<(Vec<u8>, Held)>) = (Vec::new(), Vec::new());
        for _ in 0..30 {
            let (at, remove) = (prng.below(8) as usize, prng.below(3) as usize);
            let insert = (prng.below(3) > 0).then(|| held(&mut prng)).filter(|held| depth(held) < 6);
            let (mut next, mut body) = (Vec::new(), Vec::new());
            let value = insert.as_ref().map(|held| held.value(&mut body));
            List::open(&list).unwrap().splice(at, remove, value.as_ref(), &mut next);
            let at = at.min(model.len());
            model.splice(at..(at + remove).min(model.len()), insert.clone());
            list = next;
            assert_eq!(Held::of(&Value::List(List::open(&list).unwrap())), Held::List(model.clone()), "seed {seed}");
            let (key, mut next) = (name(&mut prng), Vec::new());
            let there = pairs.iter().position(|(known, _)| *known == key);
            let found = Map::open(&map).unwrap().put(&key, value.as_ref(), &mut next);
            assert_eq!(found, there.is_some());
            match (there, insert) {
                (Some(at), Some(held)) => pairs[at].1 = held,
                (Some(at), None) => drop(pairs.remove(at)),
                (None, Some(held)) => pairs.push((key.clone(), held)),
                (None, None) => {}
            }
            map = next;
            let open = Map::open(&map).unwrap();
            assert_eq!(Held::of(&Value::Map(open)), Held::Map(pairs.clone()), "seed {seed}");
            let held = pairs.iter().find(|(known, _)| *known == key).map(|(_, held)| held.clone());
            assert_eq!(open.find(&key).map(|value| Held::of(&value)), held);
        }
    }
}

#[test]
fn revision_increments_on_each_write_and_is_never_zero() {
    let mut bytes = vec![0; 1];
    for (before, after) in [(0u32, 1), (63, 64), (8191, 8192), (u32::MAX - 1, u32::MAX), (u32::MAX, 1)] {
        // Writes the head by hand: six bits, then seven bits per byte.
        bytes.clear();
        let (mut left, mut byte) = (before >> 6, before as u8 & 0x3f);
        while left > 0 {
            bytes.push(byte | 0x80);
            (byte, left) = (left as u8 & 0x7f, left >> 7);
        }
        bytes.push(byte);
        let record = Record::open(&bytes).unwrap();
        assert_eq!(record.revision(), before);
        let mut next = Vec::new();
        Edit::of(Some(&record), 0, &mut next).unwrap().finish();
        assert_eq!(Record::open(&next).unwrap().revision(), after);
    }
    for bad in [&[][..], &[0x80], &[0x80, 0x80, 0x80, 0x80, 0x80, 1], &[0x80, 0x80, 0x80, 0x80, 0x20]] {
        assert_eq!(Record::open(bad).err(), Some(Damaged), "{bad:?}");
    }
}

#[test]
fn damaged_record_is_an_error_not_a_panic() {
    let mut good = Vec::new();
    let mut edit = Edit::of(None, 0, &mut good).unwrap();
    for (name, value) in [(&b"a"[..], Value::Text(b"text")), (b"1", Value::Integer(1 << 40)), (b"f", Value::Float(0.5))]
    {
        edit.set(&Name::new(name), &value, false).unwrap();
    }
    edit.set(&Name::new(&[b'n'; 70]), &Value::Bytes(&[b'x'; 5000]), false).unwrap();
    edit.set_end(&Name::new(b"a"), Some(100)).unwrap();
    edit.finish();
    assert!(walk(&good));
    let (mut whole, mut damaged) = (0, 0);
    let mut count = |is_whole: bool| if is_whole { whole += 1 } else { damaged += 1 };
    for cut in 0..good.len() {
        count(walk(&good[..cut]));
    }
    let mut prng = Prng::new(7);
    for _ in 0..4000 {
        let mut bytes = good.clone();
        for _ in 0..=prng.below(3) {
            // Damages a byte, mostly near the start, where the heads are.
            let most = if prng.below(4) == 0 { bytes.len() } else { 130 };
            bytes[prng.below(most as u64) as usize] = prng.next_u64() as u8;
        }
        count(walk(&bytes));
    }
    let seeds = corpus::bytes("record");
    assert!(seeds.len() >= 5, "{} seeds", seeds.len());
    seeds.iter().for_each(|bytes| count(walk(bytes)));
    assert!(whole > 500 && damaged > 500, "{whole} whole, {damaged} damaged");
}
