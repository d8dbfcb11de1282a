//! Tests with files that a real server saved, with files in formats of older and newer servers, which were made by
//! hand, and with damaged files.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Cursor;

use super::input::expand;
use super::*;
use base::prng::Prng;

/// The seeds of the fuzz target.
fn corpus() -> BTreeMap<String, Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/rdb");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let read = files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()));
    let corpus: BTreeMap<_, _> = read.collect();
    assert!(corpus.len() >= 10, "{:?}", corpus.keys());
    corpus
}

/// Appends an element as a word: its strings escaped and joined.
fn describe(out: &mut String, element: &Element<'_>) {
    let text = |bytes: &[u8]| match bytes.len() {
        0..=40 => bytes.escape_ascii().to_string(),
        len => format!("{}..{len}", bytes[..4].escape_ascii()),
    };
    let time = |at: Option<u64>| at.map_or(String::new(), |at| format!("@{at}"));
    let word = match *element {
        Element::Text(bytes) => text(bytes),
        Element::Member(member) => text(member),
        Element::Scored { member, score } => format!("{}:{score}", text(member)),
        Element::Field { name, value, expire_at_ms } => {
            format!("{}={}{}", text(name), text(value), time(expire_at_ms))
        }
        Element::Entry(id) => format!("entry {id}"),
        Element::Totals(StreamTotals { length, last_id, first_id, max_deleted_id, entries_added }) => {
            let first = first_id.map_or("?".to_owned(), |id| id.to_string());
            format!("totals {length} {first} to {last_id}, {max_deleted_id} deleted, {entries_added} added")
        }
        Element::Group { name, last_id, entries_read } => {
            format!(
                "group {} at {last_id} {}",
                text(name),
                entries_read.map_or("?".to_owned(), |read| read.to_string())
            )
        }
        Element::Pending { id, delivered_at_ms, deliveries } => format!("pending {id} {delivered_at_ms} {deliveries}"),
        Element::Consumer { name, seen_at_ms, active_at_ms } => {
            format!("consumer {} {seen_at_ms}{}", text(name), time(active_at_ms))
        }
        Element::Owned(id) => format!("owned {id}"),
        Element::Unowned(id) => format!("unowned {id}"),
        Element::Producer(name) => format!("producer {}", text(name)),
        Element::Produced { name, id } => format!("produced {} {id}", text(name)),
        Element::Module(module) => format!("module {module}"),
    };
    let _ = write!(out, "{}{word}", if out.is_empty() { "" } else { "; " });
}

/// Reads all keys of a file: each key's head, and its elements as text. Each value is also encoded, and must be
/// readable.
fn keys(bytes: &[u8]) -> Result<Vec<(String, String)>, Damage> {
    let mut reader = FileReader::new(bytes, ReadLimits::default())?;
    rest(&mut reader)
}

fn rest<R: io::Read>(reader: &mut FileReader<R>) -> Result<Vec<(String, String)>, Damage> {
    let mut keys = Vec::new();
    let mut encoder = None;
    while let Some(event) = reader.next_event()? {
        match event {
            Event::Key(Key { db, name, value_type, expire_at_ms, idle_s, frequency }) => {
                encoder = Some(Encoder::new(value_type, FieldTimes::Redis));
                let mut head = format!("{} {}", name.escape_ascii(), value_type.name());
                for (mark, value) in [
                    ("db", (db > 0).then_some(u64::from(db))),
                    ("at", expire_at_ms),
                    ("idle", idle_s),
                    ("frequency", frequency.map(u64::from)),
                ] {
                    let _ = value.map(|value| write!(head, " {mark} {value}"));
                }
                keys.push((head, String::new()));
            }
            Event::Element(element) => {
                describe(&mut keys.last_mut().unwrap().1, &element);
                let added = encoder.as_mut().unwrap().add(&element);
                assert!(added.is_ok() || matches!(element, Element::Module(_)), "{element:?}");
            }
            // An empty value and that of a module cannot be encoded.
            Event::KeyEnd => drop(encoder.take().unwrap().finish().map(|payload| value(&payload))),
            _ => {}
        }
    }
    Ok(keys)
}

/// Reads all records of a file that are not keys, as text.
fn records(bytes: &[u8]) -> Vec<String> {
    let mut reader = FileReader::new(bytes, ReadLimits::default()).unwrap();
    let mut records = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Aux { name, value } => records.push(format!("{}={}", name.escape_ascii(), value.escape_ascii())),
            Event::Function(code) => records.push(format!("function {}", code.escape_ascii())),
            Event::ModuleAux(module) => records.push(format!("module {module}")),
            Event::Sizes { db, keys, expiring } => records.push(format!("db {db}: {keys} keys, {expiring} expire")),
            Event::Slot { slot, keys, expiring } => {
                records.push(format!("slot {slot}: {keys} keys, {expiring} expire"));
            }
            Event::Key(_) | Event::Element(_) | Event::KeyEnd => {}
        }
    }
    records
}

/// Joins the parts of a file made by hand, in the version of Redis.
fn file(version: u32, parts: &[&[u8]]) -> Vec<u8> {
    [format!("REDIS{version:04}").as_bytes(), &parts.concat(), &[0xFF], &[0; 8]].concat()
}

/// Returns a short string as a file has it.
fn string(bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 1 << 14, "a short string");
    [&(0x4000 | bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

/// Returns a listpack of short elements: numbers from 0 to 127, or strings of at most 63 bytes.
fn listpack(elements: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    for element in elements {
        let before = body.len();
        match element.parse::<u8>() {
            Ok(number @ 0..=127) => body.push(number),
            _ => {
                body.push(0x80 | element.len() as u8);
                body.extend_from_slice(element.as_bytes());
            }
        }
        body.push((body.len() - before) as u8);
    }
    let head = [&(body.len() as u32 + 7).to_le_bytes()[..], &(elements.len() as u16).to_le_bytes()].concat();
    [head, body, vec![0xFF]].concat()
}

fn one(version: u32, kind: u8, value: &[u8]) -> String {
    let keys = keys(&file(version, &[&[kind], b"\x01k", value])).unwrap_or_else(|damage| panic!("{damage}"));
    assert_eq!(keys.len(), 1);
    keys[0].1.clone()
}

#[test]
fn strings_in_every_rdb_encoding_are_decoded() {
    let found: BTreeMap<String, String> = keys(&corpus()["strings"]).unwrap().into_iter().collect();
    let all = String::from_utf8((0..=255u8).flat_map(std::ascii::escape_default).collect()).unwrap();
    for (head, value) in [
        ("i8 string", "-5"),
        ("i16 string", "1000"),
        ("i32 string", "-100000"),
        ("i64 string", "1000000000000"),
        ("t string", "text"),
        ("e string", ""),
        ("l string", "abab..400"),
        ("bin\\x00\\xff string", &format!("{}..256", &all[..16])),
    ] {
        assert_eq!(found.get(head).map(String::as_str), Some(value), "{head}: {found:?}");
    }
    assert!(found.contains_key("pxat string at 4102444800123"), "{found:?}");
}

#[test]
fn packed_values_of_old_servers_are_decoded() {
    // Made by hand, as Redis 6.2 and older have written them.
    let ziplist = b"\x1b\x00\x00\x00\x12\x00\x00\x00\x03\x00\x00\x01a\x03\xf3\x02\xfe\xfb\x03\x03one\xff";
    assert_eq!(one(9, 10, &string(ziplist)), "a; 2; -5; one");
    assert_eq!(one(9, 14, &[&[1][..], &string(ziplist)].concat()), "a; 2; -5; one");
    assert_eq!(one(9, 13, &string(ziplist)), "a=2; -5=one");
    let scores = b"\x15\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x01a\x03\xf3\x02\x01b\x03\x041.5e3\xff";
    assert_eq!(one(9, 12, &string(&scores.map(|byte| if byte == 4 { 5 } else { byte }))), "a:2; b:1500");
    assert_eq!(one(9, 11, &string(b"\x02\0\0\0\x02\0\0\0\xff\xff\x07\0")), "-1; 7");
    assert_eq!(one(9, 11, &string(b"\x08\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\x80")), "-9223372036854775808");
    assert_eq!(one(6, 9, &string(b"\x02\x01a\x03\x021.2xx\x01b\x00\x00\xff")), "a=1.2; b=");
    assert_eq!(one(4, 3, b"\x03\x01a\x031e3\x01b\xfe\x01c\xff"), "a:1000; b:inf; c:-inf");
    assert_eq!(one(4, 1, b"\x02\x01a\xc1\xe8\x03"), "a; 1000");
}

#[test]
fn fields_with_an_expiry_of_their_own_are_decoded_in_all_forms() {
    // Made by hand: Redis 7.4 before and after its release, and Valkey 9, which uses a type of Redis for its own form.
    let number = |number: u32| [&[0x80][..], &number.to_be_bytes()].concat();
    let earliest = 1_000_000u64.to_le_bytes();
    let fields = |first: u32| [&b"\x02"[..], &number(first), b"\x01a\x011", b"\x00\x01b\x012"].concat();
    assert_eq!(one(12, 22, &fields(1_000_500)), "a=1@1000500; b=2");
    assert_eq!(one(12, 24, &[&earliest[..], &fields(501)].concat()), "a=1@1000500; b=2");
    let packed = string(&listpack(&["a", "1", "100", "b", "2", "0"]));
    assert_eq!(one(12, 23, &packed), "a=1@100; b=2");
    assert_eq!(one(12, 25, &[&earliest[..], &packed].concat()), "a=1@100; b=2");
    let behind = [&b"\x16\x01k\x02\x01a\x011"[..], &1_000_500i64.to_le_bytes(), b"\x01b\x012", &[0xFF; 8]].concat();
    let valkey = [&b"VALKEY080"[..], &behind, &[0xFF], &[0; 8]].concat();
    assert_eq!(keys(&valkey).unwrap(), [("k hash".to_owned(), "a=1@1000500; b=2".to_owned())]);
}

/// Returns a stream made by hand: two entries with common fields, one deleted, one with its own field; a group with a
/// consumer.
fn stream(form: u8) -> Vec<u8> {
    let node = listpack(&[
        "3", "1", "2", "temp", "hum", "0", // the node: entries, deleted, fields
        "2", "0", "0", "20", "40", "5", // an entry with these fields
        "3", "0", "1", "21", "41", "5", // a deleted one
        "2", "0", "2", "22", "42", "5", // another one with these fields
        "0", "1", "0", "1", "own", "x", "6", // one with its own field
    ]);
    let id = |seq: u8| {
        [[0; 7], [0; 7]].concat().into_iter().take(7).chain([5]).chain([0; 7]).chain([seq]).collect::<Vec<u8>>()
    };
    let nodes = [&[1][..], &string(&id(1)), &string(&node)].concat();
    let mut value = [&nodes[..], &[3, 6, 1]].concat();
    if form >= 2 {
        value.extend_from_slice(&[5, 1, 5, 2, 9]);
    }
    value.extend_from_slice(b"\x01\x01g\x05\x03");
    if form >= 2 {
        value.extend_from_slice(&[2]);
    }
    value.extend([&[1][..], &id(1), &1000u64.to_le_bytes(), &[7]].concat());
    value.extend([&b"\x01\x01c"[..], &2000u64.to_le_bytes()].concat());
    if form >= 3 {
        value.extend_from_slice(&3000u64.to_le_bytes());
    }
    value.extend([&[1][..], &id(1)].concat());
    if form >= 5 {
        value.extend([&[1][..], &id(3)].concat());
    }
    if form >= 4 {
        value.extend_from_slice(b"\x40\x64\x40\x64\x01\x01p\x01\x03iid\x05\x01\x04\x00");
    }
    value
}

#[test]
fn streams_are_decoded_in_all_forms() {
    // Made by hand: Redis 5, 7.0, 7.2, 8.6 and 8.8.
    let entries = "entry 5-1; temp=20; hum=40; entry 5-3; temp=22; hum=42; entry 6-1; own=x; ";
    let second = "totals 3 5-1 to 6-1, 5-2 deleted, 9 added; group g at 5-3 2; pending 5-1 1000 7; consumer c 2000";
    let first = second.replace("5-1 to", "? to").replace("5-2 deleted, 9", "0-0 deleted, 3").replace("5-3 2", "5-3 ?");
    for (form, kind, version, rest) in [
        (1, 15, 9, format!("{first}; owned 5-1")),
        (2, 19, 10, format!("{second}; owned 5-1")),
        (3, 21, 11, format!("{second}@3000; owned 5-1")),
        (4, 26, 13, format!("{second}@3000; owned 5-1; producer p; produced iid 5-1")),
        (5, 27, 14, format!("{second}@3000; owned 5-1; unowned 5-3; producer p; produced iid 5-1")),
    ] {
        assert_eq!(one(version, kind, &stream(form)), format!("{entries}{rest}"), "form {form}");
    }
}

#[test]
fn modules_are_skipped_by_type_and_newer_types_are_named() {
    // Made by hand: a value and facts of a module, and facts about a key of Redis 8.6.
    let id = [&[0x81][..], &0x4492_4c80_3a6e_0400u64.to_be_bytes()].concat();
    let name = ModuleType(0x4492_4c80_3a6e_0400).to_string();
    let data = b"\x02\x07\x01\x08\x03\0\0\0\0\x04\0\0\0\0\0\0\0\0\x05\x03abc\x00";
    let bytes = file(13, &[&[0xF7], &id, b"\x02\x01", data, &[0xF3, 1, 9, 9, 9, 9], data, &[7], b"\x01k", &id, data]);
    assert_eq!(keys(&bytes).unwrap(), [("k module".to_owned(), format!("module {name}"))]);
    assert_eq!(records(&bytes), [format!("module {name}")]);
    assert_eq!(ModuleType(u64::MAX << 10).to_string(), "_________");
    for (kind, words) in
        [(6, "old format"), (28, "arrays of Redis 8.8"), (33, "rate limits"), (99, "unknown value type 99")]
    {
        let damage = keys(&file(14, &[&[kind], b"\x01k"])).unwrap_err();
        assert!(damage.offset == 9 && damage.to_string().contains(words), "{damage}");
    }
}

#[test]
fn records_between_keys_are_decoded() {
    let bytes = file(
        12,
        &[
            b"\xfa\x09redis-ver\x057.4.0\xf5\x04code\xfe\x02\xfb\x02\x01\xf4\x07\x02\x01",
            b"\xfd\x01\0\0\0\xf8\x40\x64\x00\x01a\x01A\xfc\x01\0\0\0\0\0\0\0\xf9\x05\x00\x01b\x01B",
        ],
    );
    let expected = ["redis-ver=7.4.0", "function code", "db 2: 2 keys, 1 expire", "slot 7: 2 keys, 1 expire"];
    assert_eq!(records(&bytes), expected);
    let heads: Vec<String> = keys(&bytes).unwrap().into_iter().map(|(head, _)| head).collect();
    assert_eq!(heads, ["a string db 2 at 1000 idle 100", "b string db 2 at 1 frequency 5"]);
    let import = [&b"VALKEY080\xf3\x03job\x01\x05\x09\x00\x01k\x01v\xff"[..], &[0; 8]].concat();
    assert_eq!(keys(&import).unwrap(), [("k string".to_owned(), "v".to_owned())]);
}

#[test]
fn every_file_that_was_saved_has_its_checksum() {
    for (name, bytes) in corpus() {
        let checked = check(bytes.as_slice(), bytes.len() as u64).unwrap_or_else(|damage| panic!("{name}: {damage}"));
        assert!(checked.sum.is_some() && checked.version >= 9, "{name}: {checked:?}");
    }
}

#[test]
fn zero_checksum_is_accepted_as_absent_but_truncation_is_not() {
    let mut bytes = corpus()["strings"].clone();
    let end = bytes.len() - 8;
    bytes[end..].fill(0);
    assert_eq!(check(bytes.as_slice(), bytes.len() as u64).unwrap(), Checked { version: 10, sum: None });
    bytes[end - 1] = 0;
    let damage = check(bytes.as_slice(), bytes.len() as u64).unwrap_err();
    assert!(matches!(damage.what, What::Truncated), "{damage}");
}

#[test]
fn any_single_bit_error_fails_rdb_check() {
    let bytes = &corpus()["strings"];
    for at in 0..bytes.len() {
        for bit in [0, 5] {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1 << bit;
            let damage = check(wrong.as_slice(), wrong.len() as u64).expect_err("a wrong bit");
            assert!(damage.offset <= bytes.len() as u64, "{damage}");
        }
    }
}

#[test]
fn truncated_rdb_reports_offset_and_retains_elements_before_it() {
    for (name, bytes) in corpus() {
        let whole = keys(&bytes).unwrap();
        for len in 0..bytes.len() - 9 {
            let cut = &bytes[..len];
            assert!(check(cut, len as u64).is_err(), "{name} cut to {len}");
            let Ok(mut reader) = FileReader::new(cut, ReadLimits::default()) else { continue };
            let mut read = 0;
            let damage = loop {
                match reader.next_event() {
                    Ok(Some(Event::KeyEnd)) => read += 1,
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{name} cut to {len} has an end"),
                    Err(damage) => break damage,
                }
            };
            assert!(matches!(damage.what, What::Truncated) && damage.offset <= len as u64, "{name}: {damage}");
            assert!(read < whole.len() || whole.is_empty(), "{name} cut to {len}");
        }
    }
}

#[test]
fn reader_resumes_from_every_mark_and_skips_what_it_does_not_read() {
    for (name, bytes) in corpus() {
        let whole = keys(&bytes).unwrap();
        let mut reader = FileReader::new(bytes.as_slice(), ReadLimits::default()).unwrap();
        for from in 0..=whole.len() {
            let mark = reader.mark();
            let mut input = Cursor::new(&bytes);
            input.set_position(mark.offset);
            let mut resumed = FileReader::resume(input, mark, ReadLimits::default());
            assert_eq!(rest(&mut resumed).unwrap(), whole[from..], "{name} from key {from}");
            while let Some(event) = reader.next_event().unwrap() {
                if matches!(event, Event::Key(_)) {
                    reader.skip_value().unwrap();
                    break;
                }
            }
        }
    }
}

#[test]
fn rdb_damage_past_checksum_is_an_error_not_a_panic() {
    let corpus: Vec<Vec<u8>> = corpus().into_values().collect();
    let seed = 0x52_4442;
    let mut prng = Prng::new(seed);
    let (mut refused, mut read) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = corpus[prng.below(corpus.len() as u64) as usize].clone();
        let end = bytes.len() - 8;
        bytes[end..].fill(0);
        for _ in 0..=prng.below(3) {
            let at = prng.below(end as u64) as usize;
            bytes[at] = prng.next_u64() as u8;
        }
        match keys(&bytes) {
            Ok(_) => read += 1,
            Err(damage) => {
                assert!(damage.offset <= bytes.len() as u64, "{damage}");
                refused += 1;
            }
        }
    }
    assert!(refused > 2_000 && read > 2_000, "seed {seed:#x}: {refused} refused, {read} read");
}

#[test]
fn foreign_file_is_distinguished_from_newer_rdb_version() {
    let text = |bytes: &[u8]| FileReader::new(bytes, ReadLimits::default()).err().expect("it is refused").to_string();
    assert!(text(b"<html><body>").contains("byte 0: this is not an RDB file"));
    assert!(text(b"VALKEY099\xff").contains("byte 6: RDB version 99 is not supported (80 to 80 are)"));
    assert!(text(b"REDIS0099\xff").contains("byte 5: RDB version 99 is not supported (1 to 14 are)"));
    assert!(text(b"REDISabcd\xff").contains("not a number"));
    assert!(text(b"RED").contains("byte 0: the file ends"));
}

#[test]
fn a_compressed_string_may_overlap_itself_and_never_reaches_before_its_start() {
    let expanded = |packed: &[u8], len| {
        let mut out = b"before".to_vec();
        expand(packed, len, &mut out).then_some(out)
    };
    // A literal run of one byte, then a copy of 100 bytes that begins one byte back.
    assert_eq!(expanded(&[0, b'a', 0b1110_0000, 91, 0], 101), Some(vec![b'a'; 101]));
    assert_eq!(expanded(&[0, b'a', 0b0010_0000, 0], 4), Some(b"aaaa".to_vec()));
    assert_eq!(expanded(&[1, b'a', b'b', 0b1110_0000, 0, 1], 11), Some(b"abababababa".to_vec()));
    assert_eq!(expanded(&[0, b'a', 0b0010_0000, 1], 4), None, "before the start");
    assert_eq!(expanded(&[0, b'a', 0b0010_0000, 0], 3), None, "longer than the stated length");
    assert_eq!(expanded(&[0, b'a'], 2), None, "shorter than the stated length");
    assert_eq!(expanded(&[5, b'a'], 6), None, "truncated");
}

#[test]
fn claimed_lengths_reserve_no_memory_and_limits_are_kept() {
    let error = |value: &[u8]| keys(&file(10, &[b"\x00\x01k", value])).unwrap_err().to_string();
    assert!(error(b"\xc3\x02\x80\x7f\xff\xff\xffaa").contains("cannot expand to"));
    assert!(error(b"\x80\x7f\xff\xff\xffaa").contains("a string of 2147483647 bytes exceeds the limit of 536870912"));
    // A claimed length within the limit, of which only two bytes come.
    assert!(error(b"\x80\x1f\xff\xff\xffaa").contains("the file ends"));
    let strict = ReadLimits { string_bytes_max: 3 };
    let mut reader = FileReader::new(&b"REDIS0004\x00\x01k\x04abcd\xff"[..], strict).unwrap();
    assert!(matches!(reader.next_event(), Ok(Some(Event::Key(_)))));
    assert_eq!(
        reader.next_event().unwrap_err().to_string(),
        "byte 13: a string of 4 bytes exceeds the limit of 3 bytes"
    );
}

/// Encodes the value of a payload again.
fn encoded_again(payload: &[u8], times: FieldTimes) -> Vec<u8> {
    let mut reader = DumpReader::new(payload, ReadLimits::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut encoder = Encoder::new(reader.value_type(), times);
    while let Some(element) = reader.next_element().unwrap() {
        encoder.add(&element).unwrap();
    }
    encoder.finish().unwrap()
}

/// Reads the value of a payload as text.
fn value(payload: &[u8]) -> String {
    let mut reader = DumpReader::new(payload, ReadLimits::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut text = String::new();
    while let Some(element) = reader.next_element().unwrap() {
        describe(&mut text, &element);
    }
    text
}

#[test]
fn payload_of_every_type_is_the_same_after_it_was_encoded() {
    let number = |number: u32| [&[0x80][..], &number.to_be_bytes()].concat();
    let expiring = [&1_000_000u64.to_le_bytes()[..], b"\x02", &number(501), b"\x01a\x011", b"\x00\x01b\x012"].concat();
    for (kind, version, body) in [
        (0, 10, b"\x05hello".to_vec()),
        (1, 10, b"\x03\x01a\xc0\xfe\xc2\xff\xff\xff\x7f".to_vec()),
        (20, 11, string(&listpack(&["a", "7"]))),
        (3, 9, b"\x03\x01a\x031e3\x01b\xfe\x01c\xff".to_vec()),
        (16, 10, string(&listpack(&["a", "1", "b", "2"]))),
        (24, 12, expiring),
        (19, 10, stream(2)),
    ] {
        let payload = dump::sealed([&[kind][..], &body].concat(), version);
        let again = encoded_again(&payload, FieldTimes::Redis);
        assert_eq!(value(&again), value(&payload), "type {kind}");
        let valkey = encoded_again(&payload, FieldTimes::Valkey);
        assert_eq!(value(&valkey), value(&payload), "type {kind}");
    }
}

#[test]
fn large_stream_is_encoded_in_several_nodes_and_loses_what_redis_7_0_cannot_read() {
    let mut encoder = Encoder::new(ValueType::Stream, FieldTimes::default());
    let mut expected = String::new();
    let mut add = |encoder: &mut Encoder, element: Element<'_>| {
        encoder.add(&element).unwrap();
        describe(&mut expected, &element);
    };
    for n in 0..1000u64 {
        add(&mut encoder, Element::Entry(StreamId { ms: 5 + n / 3, seq: 7 * (n % 3) }));
        for field in 0..=n % 2 {
            let text = format!("{}", n * n * n * n * n * n);
            let name = if n % 50 == 0 { b"other" } else { b"field" };
            let value = if field == 0 { text.as_bytes() } else { &[b'x'; 300][..(n % 300) as usize] };
            add(&mut encoder, Element::Field { name, value, expire_at_ms: None });
        }
    }
    let last_id = StreamId { ms: 1000, seq: 0 };
    let totals = StreamTotals { length: 1000, last_id, entries_added: 1001, ..StreamTotals::default() };
    let totals = StreamTotals { first_id: Some(StreamId { ms: 5, seq: 0 }), ..totals };
    add(&mut encoder, Element::Totals(totals));
    add(&mut encoder, Element::Group { name: b"g", last_id, entries_read: None });
    let rejected = StreamId { ms: 6, seq: 0 };
    encoder.add(&Element::Pending { id: rejected, delivered_at_ms: 1, deliveries: 1 }).unwrap();
    add(&mut encoder, Element::Consumer { name: b"c", seen_at_ms: 9, active_at_ms: None });
    encoder.add(&Element::Unowned(rejected)).unwrap();
    encoder.add(&Element::Producer(b"p")).unwrap();
    let payload = encoder.finish().unwrap();
    assert_eq!(value(&payload), expected);
    assert!(
        (20..200).contains(&payload.windows(17).filter(|part| part[..10] == [16, 0, 0, 0, 0, 0, 0, 0, 0, 5]).count())
            || payload.len() > 50_000
    );
}

#[test]
fn payload_with_a_wrong_footer_or_wrong_end_is_refused() {
    let good = dump::sealed(b"\x00\x01v".to_vec(), 10);
    assert_eq!(value(&good), "v");
    let refused = |payload: &[u8]| match DumpReader::new(payload, ReadLimits::default()) {
        Err(error) => error,
        Ok(mut reader) => loop {
            match reader.next_element() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it is accepted"),
                Err(damage) => break DumpError::Value(damage),
            }
        },
    };
    for at in 0..good.len() {
        let mut wrong = good.clone();
        wrong[at] ^= 1;
        assert!(matches!(refused(&wrong), DumpError::VersionOrSum), "byte {at}");
        assert!(matches!(refused(&good[..at]), DumpError::VersionOrSum), "{at} bytes");
    }
    for (body, version) in [(&b"\x00\x01v"[..], 15), (b"\x00\x01v", 79), (b"\x00\x01v", 81)] {
        assert!(matches!(refused(&dump::sealed(body.to_vec(), version)), DumpError::VersionOrSum), "{version}");
    }
    for body in [&b"\x00\x01vv"[..], b"\x00\x02v", b"\x63\x01v", b"", b"\x02\x02\x01a"] {
        assert!(matches!(refused(&dump::sealed(body.to_vec(), 10)), DumpError::Value(_)), "{body:?}");
    }
}

#[test]
fn element_of_another_type_is_refused() {
    let member = Element::Member(b"a");
    for value_type in [ValueType::String, ValueType::SortedSet, ValueType::Hash, ValueType::Stream, ValueType::Module] {
        let mut encoder = Encoder::new(value_type, FieldTimes::default());
        assert_eq!(encoder.add(&member), Err(Misplaced), "{value_type:?}");
        assert_eq!(encoder.finish(), Err(Misplaced), "{value_type:?}");
    }
}

#[test]
fn payload_that_is_written_in_steps_equals_one_that_is_written_at_once() {
    let fields = [(&b"a"[..], &b"1"[..], None), (b"b", b"two", Some(2_000_000)), (b"c", b"", Some(1_000_500))];
    for (is_hash, expires) in [(false, false), (true, false), (true, true)] {
        let value_type = if is_hash { ValueType::Hash } else { ValueType::String };
        let mut encoder = Encoder::new(value_type, FieldTimes::Redis);
        let mut writer =
            if is_hash { PayloadWriter::hash(expires.then_some(1_000_500), 7) } else { PayloadWriter::text(300, 7) };
        for (name, value, expire_at_ms) in fields.into_iter().filter(|_| is_hash) {
            let expire_at_ms = expire_at_ms.filter(|_| expires);
            encoder.add(&Element::Field { name, value, expire_at_ms }).unwrap();
            writer.field(name, value, expire_at_ms);
        }
        if !is_hash {
            encoder.add(&Element::Text(&[b'x'; 300])).unwrap();
            (0..3).for_each(|_| writer.push(&[b'x'; 100]));
        }
        writer.end();
        while !writer.advance(5) {}
        assert!(writer.advance(5), "a complete payload stays as it is");
        let (bytes, start) = writer.into_parts();
        assert!(start >= 7 && bytes[start..] == encoder.finish().unwrap(), "{is_hash} {expires}");
    }
}

/// Returns the members of a value, read with a pause after every `step` elements.
fn members_in_steps(payload: &[u8], step: usize) -> Vec<(Vec<u8>, f64)> {
    let limits = ReadLimits::default();
    let mut check = DumpCheck::default();
    while !check.advance(payload, 3).expect("a valid payload") {}
    let mut reader = DumpReader::of_checked(payload, limits).expect("a value");
    let mut members = Vec::new();
    loop {
        for _ in 0..step {
            match reader.next_element().expect("an element") {
                Some(Element::Member(member)) => members.push((member.to_vec(), 0.0)),
                Some(Element::Scored { member, score }) => members.push((member.to_vec(), score)),
                Some(element) => panic!("{element:?}"),
                None => return members,
            }
        }
        reader = DumpReader::resume(payload, reader.pause(), limits).expect("the same payload");
    }
}

#[test]
fn collection_that_is_written_and_read_in_steps_is_the_same() {
    let members: Vec<(Vec<u8>, f64)> =
        (0..300).map(|n| (format!("{}{n}", "m".repeat(n % 70)).into_bytes(), n as f64 / 4.0)).collect();
    for value_type in [ValueType::List, ValueType::Set, ValueType::SortedSet] {
        let is_scored = value_type == ValueType::SortedSet;
        let mut encoder = Encoder::new(value_type, FieldTimes::Redis);
        let mut writer = match value_type {
            ValueType::List => PayloadWriter::list(9),
            ValueType::Set => PayloadWriter::set(9),
            _ => PayloadWriter::sorted_set(9),
        };
        for (member, score) in &members {
            let element = if is_scored { Element::Scored { member, score: *score } } else { Element::Member(member) };
            encoder.add(&element).unwrap();
            if is_scored { writer.scored(member, *score) } else { writer.member(member) }
        }
        writer.end();
        while !writer.advance(5) {}
        let (bytes, start) = writer.into_parts();
        let payload = &bytes[start..];
        assert!(payload == encoder.finish().unwrap(), "{value_type:?}");
        let wanted: Vec<_> =
            members.iter().map(|(member, score)| (member.clone(), if is_scored { *score } else { 0.0 })).collect();
        for step in [1, 7, 1000] {
            assert!(members_in_steps(payload, step) == wanted, "{value_type:?} in steps of {step}");
        }
    }
}

/// Appends an element of a stream to a payload, behind which as many elements follow as `counts` says: of groups,
/// pending entries, consumers and owned entries.
fn add_counted(writer: &mut PayloadWriter, element: &Element<'_>, counts: [u64; 4]) {
    let [groups, pending, consumers, owned] = counts;
    let counted = match *element {
        Element::Entry(id) => CountedElement::Entry(id),
        Element::Field { name, value, .. } => CountedElement::Field { name, value },
        Element::Totals(totals) => CountedElement::Totals { totals, groups },
        Element::Group { name, last_id, entries_read } => {
            CountedElement::Group { name, last_id, entries_read, pending }
        }
        Element::Pending { id, delivered_at_ms, deliveries } => {
            CountedElement::Pending { id, delivered_at_ms, deliveries }
        }
        Element::Consumer { name, seen_at_ms, .. } => CountedElement::Consumer { name, seen_at_ms, owned },
        Element::Owned(id) => CountedElement::Owned(id),
        element => panic!("{element:?}"),
    };
    writer.add(&counted).expect("an element");
    let is_last = matches!(element, Element::Pending { id, .. } if id.ms == 40 + pending - 1);
    if is_last {
        writer.add(&CountedElement::Consumers(consumers)).expect("an element");
    }
}

#[test]
fn stream_that_is_written_in_steps_equals_one_that_is_written_at_once() {
    let (mut encoder, mut writer) = (Encoder::new(ValueType::Stream, FieldTimes::Redis), PayloadWriter::stream(11));
    let name = |n: u64| if n.is_multiple_of(7) { &b"other"[..] } else { b"name" };
    let last_id = StreamId { ms: 900, seq: 4 };
    let totals =
        StreamTotals { length: 500, last_id, first_id: Some(StreamId { ms: 0, seq: 9 }), ..Default::default() };
    let mut elements = Vec::new();
    for n in 0..500 {
        elements.push(Element::Entry(StreamId { ms: n, seq: 9 }));
        elements.push(Element::Field { name: name(n), value: &[b'v'; 200][..n as usize / 3], expire_at_ms: None });
    }
    elements.push(Element::Totals(totals));
    elements.push(Element::Group { name: b"group", last_id, entries_read: Some(7) });
    let id = |n| StreamId { ms: 40 + n, seq: 9 };
    elements.extend((0..6).map(|n| Element::Pending { id: id(n), delivered_at_ms: 1_000 + n, deliveries: n }));
    for (at, name) in [&b"one"[..], b"two"].into_iter().enumerate() {
        elements.push(Element::Consumer { name, seen_at_ms: 70, active_at_ms: None });
        elements.extend((0..3).map(|n| Element::Owned(id(2 * n + at as u64))));
    }
    for element in &elements {
        encoder.add(element).expect("an element");
        add_counted(&mut writer, element, [1, 6, 2, 3]);
    }
    writer.end();
    while !writer.advance(100) {}
    let (bytes, start) = writer.into_parts();
    assert!(bytes[start..] == encoder.finish().expect("a stream"));
}
