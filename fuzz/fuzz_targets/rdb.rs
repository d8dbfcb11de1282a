//! Any bytes as a file that Redis saved: no panic, errors lie within the file, reading goes on from every mark to the
//! same keys, skipping a value ends where reading it does, and a value is the same after it was encoded as a payload.
#![no_main]

use gannet_rdb::{
    Checked, Damage, DumpReader, Element, Encoder, Event, FieldTimes, FileReader, Mark, ReadLimits, VERSION_MAX,
    ValueType, check,
};
use libfuzzer_sys::fuzz_target;

/// Much less than the default, so that an input cannot use up the fuzzer's memory.
const LIMITS: ReadLimits = ReadLimits { string_bytes_max: 1 << 20 };
/// The version of files of Valkey 9.
const VALKEY: u32 = 80;

/// A key with the words of its elements.
#[derive(Debug, PartialEq)]
struct Entry {
    key: String,
    words: Vec<String>,
}

/// Returns the words of an element that every encoding of it has.
fn words(element: &Element<'_>) -> String {
    match element {
        Element::Field { name, value, .. } => format!("{name:?} {value:?}"),
        element => format!("{element:?}"),
    }
}

fn next(reader: &mut FileReader<&[u8]>) -> Result<Option<Entry>, Damage> {
    let mut entry = None;
    let mut encoder = None;
    while let Some(event) = reader.next_event()? {
        match event {
            Event::Key(key) => {
                encoder = Some(Encoder::new(key.value_type, FieldTimes::Redis));
                entry = Some(Entry { key: format!("{key:?}"), words: Vec::new() });
            }
            Event::Element(element) => {
                entry.as_mut().expect("a key").words.push(words(&element));
                let added = encoder.as_mut().expect("a key").add(&element);
                assert!(added.is_ok() || matches!(element, Element::Module(_)), "{element:?}");
            }
            Event::KeyEnd => {
                encoded_again(entry.as_ref().expect("a key"), encoder.take().expect("a key"));
                return Ok(entry);
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Reads a value that was encoded as a payload. An empty value and that of a module cannot be encoded.
fn encoded_again(entry: &Entry, encoder: Encoder) {
    let Ok(payload) = encoder.finish() else { return };
    let mut reader = DumpReader::new(&payload, LIMITS).expect("a payload from here");
    let is_stream = reader.value_type() == ValueType::Stream;
    let mut again = Vec::new();
    while let Some(element) = reader.next_element().expect("a value from here") {
        again.push(words(&element));
    }
    // Streams of new servers lose what old ones cannot read.
    assert!(is_stream || again == entry.words, "{entry:?}");
}

fuzz_target!(|bytes: &[u8]| {
    match check(bytes, bytes.len() as u64) {
        Ok(Checked { version, .. }) => assert!((1..=VERSION_MAX).contains(&version) || version == VALKEY),
        Err(damage) => assert!(damage.offset <= bytes.len() as u64, "{damage}"),
    }
    let Ok(mut reader) = FileReader::new(bytes, LIMITS) else { return };
    loop {
        let mark: Mark = reader.mark();
        match next(&mut reader) {
            Ok(Some(entry)) => {
                let rest = &bytes[mark.offset as usize..];
                let again = next(&mut FileReader::resume(rest, mark, LIMITS)).expect("it was read before");
                assert_eq!(again.as_ref(), Some(&entry));
                let mut skipping = FileReader::resume(rest, mark, LIMITS);
                while !matches!(skipping.next_event().expect("it was read before"), Some(Event::Key(_))) {}
                skipping.skip_value().expect("it was read before");
                assert_eq!(skipping.mark(), reader.mark());
            }
            Ok(None) => return,
            Err(damage) => {
                assert!(damage.offset <= bytes.len() as u64, "{damage}");
                return;
            }
        }
    }
});
