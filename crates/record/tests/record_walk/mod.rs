//! Reads of a record, applied to arbitrary bytes. Shared by tests and the fuzz target.

use gannet_record::{
    Damaged, Digits, Edit, Filter, InSet, Kind, Name, NoParts, Parts, Record, SetEdit, SetValue, Sets, SortedSetEdit,
    SortedSetValue, Source, Value,
};

/// Reads and changes a record of any bytes; nothing may panic. Returns whether the bytes are a record outside any set.
pub fn walk(bytes: &[u8]) -> bool {
    let sets = Sets::new();
    let set = InSet::new(&sets, sets.make(0, b"set").expect("the first one"));
    let mut one = Vec::new();
    let mut edit = Edit::in_set(None, Some(set), 0, &mut one).expect("an empty record");
    edit.set(&Name::new(b"a"), &Value::Text(b"x"), false).expect("an empty record");
    edit.finish();
    // Replaces what follows the set's number and generation by arbitrary bytes.
    one.truncate(2);
    one.extend_from_slice(bytes);
    for bytes in [bytes, &one] {
        if let Ok(Some(record)) = Record::of(Kind::InSet, bytes, &sets, &NoParts) {
            ask(&record, Kind::InSet, bytes, &sets);
        }
    }
    // Reads the bytes as the head of a large record. All its parts are suffixes of the same bytes.
    let echo = Echo(&bytes[..bytes.len().min(300)]);
    if let Ok(Some(record)) = Record::of(Kind::Large, bytes, &sets, &echo) {
        change_large(&record, &echo);
    }
    change_collections(bytes, &echo);
    // Reads the bytes as a filter. A valid filter is applied to a record.
    let filter = Filter::read(bytes);
    let Ok(record) = Record::open(bytes) else { return false };
    if let (Ok(filter), Ok(of)) = (&filter, Record::open(&[1])) {
        let _ = filter.holds(&of, 5);
    }
    let _ = Filter::read(b"a contains 'x' or a == 1 or has b").expect("a filter").holds(&record, 5);
    ask(&record, Kind::Hash, bytes, &sets)
}

/// A source whose parts are taken from its own bytes.
#[derive(Debug)]
struct Echo<'b>(&'b [u8]);

impl Source for Echo<'_> {
    fn part(&self, _: u64, number: u64) -> Option<&[u8]> {
        self.0.get(number as usize % (self.0.len() + 1)..)
    }

    fn fresh(&self) -> u64 {
        7
    }

    fn salt(&self) -> u64 {
        9
    }
}

fn change_large(record: &Record<'_>, source: &dyn Source) {
    let _ = (record.count(5), record.find(&Name::new(b"a"), 5), record.bins(5).count(), record.is_empty(5));
    let _ = record.bins_in(5, 1 << 30, 1 << 31).count();
    let (mut to, mut parts) = (Vec::new(), Parts::default());
    let _ = Edit::of(Some(record), 5, &mut to).and_then(|mut edit| {
        edit.set(&Name::new(b"new"), &Value::Text(&[b'x'; 2000]), true)?;
        edit.set_end(&Name::new(b"a"), Some(9))?;
        edit.remove(&Name::new(b"1"))?;
        edit.finish_with(source, &mut parts)
    });
    let _ = Edit::swept(record, 5, 3, &mut Vec::new()).and_then(|edit| edit.finish_with(source, &mut parts));
}

/// Reads the bytes as the heads of a large set and a large sorted set, and changes them.
fn change_collections(bytes: &[u8], source: &dyn Source) {
    let (mut to, mut parts, name) = (Vec::new(), Parts::default(), Name::new(b"new"));
    if let Ok(set) = SetValue::open(Kind::LargeSet, bytes, source) {
        let _ = (set.contains(&name), set.step(1 << 31));
        let mut edit = SetEdit::of(Some(&set), source);
        let _ = edit.add(&name).and_then(|_| edit.finish(&mut parts, &mut to));
    }
    if let Ok(set) = SortedSetValue::open(Kind::LargeSortedSet, bytes, source) {
        let _ = (set.score(b"new"), set.hashes(1 << 31, 5));
        let mut edit = SortedSetEdit::of(Some(&set), source);
        let _ = edit.set(b"new", None, 1.0).and_then(|()| edit.finish(&mut parts, &mut to));
    }
}

fn ask(record: &Record<'_>, kind: Kind, bytes: &[u8], sets: &Sets) -> bool {
    let bins: Result<Vec<_>, _> = record.bins(5).collect();
    let (found, count) = (record.find(&Name::new(b"a"), 5), record.count(5));
    let _ = (kind.is_empty(bytes, sets, 5), found);
    let mut to = Vec::new();
    let made = Edit::of(Some(record), 5, &mut to).and_then(|mut edit| {
        edit.set(&Name::new(b"new"), &Value::Text(b"x"), true)?;
        edit.set_end(&Name::new(b"a"), Some(9))?;
        edit.remove(&Name::new(b"1"))?;
        let many: Vec<_> = (0..20).map(|number| number.to_string()).collect();
        edit.set_all(many.iter().map(|name| (name.as_bytes(), &b"v"[..])))?;
        Ok(edit.finish())
    });
    if let Ok(bins) = &bins {
        assert_eq!(count, Ok(bins.len()));
        for bin in bins {
            tell(&bin.value);
        }
    }
    if made.is_ok() {
        let record: Result<_, Damaged> = Record::of(kind, &to, sets, &NoParts);
        record.unwrap().unwrap().count(5).expect("what was made of good bytes is good");
    }
    bins.is_ok()
}

/// Walks over all parts of a value, and changes lists and maps.
fn tell(value: &Value<'_>) {
    value.text(&mut Digits::new());
    match value {
        Value::List(list) => {
            let mut to = Vec::new();
            list.splice(1, 1, Some(&Value::Integer(5)), &mut to);
            list.values().for_each(|value| tell(&value));
        }
        Value::Map(map) => {
            let mut to = Vec::new();
            map.put(b"key", Some(value), &mut to);
            map.pairs().for_each(|(_, value)| tell(&value));
        }
        _ => {}
    }
}
