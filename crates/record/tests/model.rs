//! Records against a list of names, values and ends; and damage of every kind against nothing but the promise that it
//! is told and not fallen over.

mod record_walk;

use base::prng::Prng;
use gannet_record::{Bin, Damaged, Digits, Edit, Name, Record, Value};
use record_walk::walk;

/// An owned value, to be compared.
#[derive(Clone, Debug, PartialEq)]
enum Held {
    Integer(i64),
    Float(f64),
    Bool(bool),
    Text(Vec<u8>),
    Bytes(Vec<u8>),
}

impl Held {
    fn of(value: &Value<'_>) -> Self {
        match *value {
            Value::Integer(number) => Self::Integer(number),
            Value::Float(number) => Self::Float(number),
            Value::Bool(value) => Self::Bool(value),
            Value::Text(text) => Self::Text(text.to_vec()),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }

    fn value(&self) -> Value<'_> {
        match self {
            Self::Integer(number) => Value::Integer(*number),
            Self::Float(number) => Value::Float(*number),
            Self::Bool(value) => Value::Bool(*value),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

/// A list of names in the order in which they came, each with its value and end.
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
    match prng.below(6) {
        0 => Held::Integer((prng.next_u64() as i64) >> prng.below(64)),
        1 => Held::Float(prng.unit()),
        2 => Held::Bool(prng.below(2) == 0),
        3 => Held::Bytes(vec![b'b'; prng.below(80) as usize]),
        _ => Held::of(&Value::of_text(&vec![b'4'; prng.below(30) as usize])),
    }
}

fn told(record: &Record<'_>, now_ms: u64) -> Model {
    let text = |bin: &Bin<'_>| bin.name.text(&mut Digits::new()).to_vec();
    record.bins(now_ms).map(|bin| bin.map(|bin| (text(&bin), Held::of(&bin.value), bin.end_ms)).unwrap()).collect()
}

/// One change to both; gives what it did, to be shown.
fn change(prng: &mut Prng, edit: &mut Edit<'_>, model: &mut Model, now_ms: u64) -> String {
    let chosen = name(prng);
    let at = model.iter().position(|(name, ..)| *name == chosen);
    let sought = Name::new(&chosen);
    assert_eq!(edit.bin(&sought).unwrap().map(|bin| Held::of(&bin.value)), at.map(|at| model[at].1.clone()));
    match prng.below(5) {
        0 | 1 => {
            let (value, keep) = (held(prng), prng.below(2) == 0);
            assert_eq!(edit.set(&sought, &value.value(), keep), Ok(at.is_none()));
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
fn a_record_is_the_list_of_what_was_stored_and_has_not_ended() {
    let (mut many, mut ended, mut emptied) = (0, 0, 0);
    for seed in 0..400 {
        let mut prng = Prng::new(seed);
        let (mut bytes, mut model, mut now_ms): (Option<Vec<u8>>, Model, u64) = (None, Vec::new(), 1_700_000_000_000);
        for step in 1..=40u32 {
            now_ms += prng.below(400);
            let before = model.len();
            model.retain(|(_, _, end)| end.is_none_or(|end| end > now_ms));
            ended += before - model.len();
            let old = bytes.as_deref().map(|bytes| Record::open(bytes).unwrap());
            // Behind something else, which stays.
            let mut next = b"before".to_vec();
            let mut edit = Edit::of(old.as_ref(), now_ms, &mut next).unwrap();
            let done: Vec<_> = (0..=prng.below(3)).map(|_| change(&mut prng, &mut edit, &mut model, now_ms)).collect();
            many += usize::from(done.iter().any(|done| done.starts_with("set 2")));
            assert_eq!(edit.finish(), !model.is_empty());
            emptied += usize::from(model.is_empty());
            assert_eq!(next.drain(..6).collect::<Vec<_>>(), b"before");
            let record = Record::open(&next).unwrap();
            assert_eq!(told(&record, now_ms), model, "seed {seed}, step {step}: {done:?}");
            assert_eq!((record.revision(), record.count(now_ms)), (step, Ok(model.len())));
            assert_eq!(record.is_empty(now_ms), Ok(model.is_empty()));
            let later = model.iter().filter(|(_, _, end)| end.is_none_or(|end| end > now_ms + 500)).count();
            assert_eq!((record.count(now_ms + 500), record.is_empty(now_ms + 500)), (Ok(later), Ok(later == 0)));
            for (name, value, end) in &model {
                let bin = record.find(&Name::new(name), now_ms).unwrap().expect("it is there");
                assert_eq!((&Held::of(&bin.value), bin.end_ms), (value, *end));
            }
            bytes = Some(next);
        }
    }
    assert!(many > 100 && ended > 100 && emptied > 10, "{many} many, {ended} ended, {emptied} emptied");
}

#[test]
fn a_revision_is_one_more_with_each_writing_and_never_nothing() {
    let mut bytes = vec![0; 1];
    for (before, after) in [(0u32, 1), (63, 64), (8191, 8192), (u32::MAX - 1, u32::MAX), (u32::MAX, 1)] {
        // The head by hand: six bits, then seven a byte.
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
fn damaged_bytes_are_told_and_never_fallen_over() {
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
            // Where the heads are, mostly.
            let most = if prng.below(4) == 0 { bytes.len() } else { 130 };
            bytes[prng.below(most as u64) as usize] = prng.next_u64() as u8;
        }
        count(walk(&bytes));
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/record");
    let files: Vec<_> = std::fs::read_dir(folder).expect("the seed corpus is in the repository").collect();
    assert!(files.len() >= 5, "{} files", files.len());
    for file in files {
        count(walk(&std::fs::read(file.unwrap().path()).expect("a readable file")));
    }
    assert!(whole > 500 && damaged > 500, "{whole} whole, {damaged} damaged");
}
