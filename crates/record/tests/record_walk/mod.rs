//! Everything that is asked of a record, asked of any bytes. Shared by tests and the fuzz target.

use gannet_record::{Edit, Kind, Name, Record, Value};

/// Reads and changes whatever is there: none of it may panic. Says whether the bytes are a record.
pub fn walk(bytes: &[u8]) -> bool {
    let Ok(record) = Record::open(bytes) else { return false };
    let bins: Result<Vec<_>, _> = record.bins(5).collect();
    let (found, count) = (record.find(&Name::new(b"a"), 5), record.count(5));
    let _ = (Kind::Hash.is_empty(bytes, 5), found);
    let mut to = Vec::new();
    let made = Edit::of(Some(&record), 5, &mut to).and_then(|mut edit| {
        edit.set(&Name::new(b"new"), &Value::Text(b"x"), true)?;
        edit.set_end(&Name::new(b"a"), Some(9))?;
        edit.remove(&Name::new(b"1"))?;
        let many: Vec<_> = (0..20).map(|number| number.to_string()).collect();
        edit.set_all(many.iter().map(|name| (name.as_bytes(), &b"v"[..])))?;
        Ok(edit.finish())
    });
    if let Ok(bins) = &bins {
        assert_eq!(count, Ok(bins.len()));
    }
    if made.is_ok() {
        Record::open(&to).unwrap().count(5).expect("what was made of good bytes is good");
    }
    bins.is_ok()
}
