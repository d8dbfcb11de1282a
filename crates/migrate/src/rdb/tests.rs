//! Tests with files that a real server saved, with files in formats of older and newer servers, and with damaged files.

use std::collections::BTreeMap;
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

fn entries(bytes: &[u8]) -> Result<Vec<RdbEntry>, Damage> {
    let mut reader = RdbReader::new(bytes)?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next(|_, _| true)? {
        entries.push(entry);
    }
    Ok(entries)
}

fn by_key(name: &str) -> BTreeMap<String, RdbEntry> {
    let entries = entries(&corpus()[name]).unwrap_or_else(|damage| panic!("{name}: {damage}"));
    entries.into_iter().map(|entry| (entry.key.escape_ascii().to_string(), entry)).collect()
}

fn hash_of(entry: &RdbEntry) -> (BTreeMap<String, Vec<u8>>, u64) {
    let Content::Hash(fields, expiring) = &entry.content else { panic!("no hash: {entry:?}") };
    (fields.iter().map(|(f, v)| (f.escape_ascii().to_string(), v.clone())).collect(), *expiring)
}

#[test]
fn strings_in_every_rdb_encoding_are_decoded() {
    let found = by_key("strings");
    let text = |key: &str| match &found[key].content {
        Content::Bytes(bytes) => bytes.clone(),
        other => panic!("{key}: {other:?}"),
    };
    for (key, value) in
        [("i8", "-5"), ("i16", "1000"), ("i32", "-100000"), ("i64", "1000000000000"), ("t", "text"), ("e", "")]
    {
        assert_eq!(text(key), value.as_bytes(), "{key}");
    }
    assert_eq!(text("l"), b"ab".repeat(200), "compressed");
    assert_eq!(text("bin\\x00\\xff"), (0..=255).collect::<Vec<u8>>());
    assert_eq!(found["pxat"].expire_at, Some(UnixMillis(4_102_444_800_123)));
    assert_eq!(found["t"].expire_at, None);
    let plain = by_key("uncompressed");
    assert_eq!(plain["l"].content, Content::Bytes(b"ab".repeat(100)));
}

#[test]
fn hashes_in_every_rdb_encoding_are_decoded() {
    let found = by_key("hashes");
    let (small, _) = hash_of(&found["small"]);
    let number = |value: i64| value.to_string().into_bytes();
    let expected = [
        ("f", b"v".to_vec()),
        ("n", number(12)),
        ("neg", number(-3)),
        ("h", number(300)),
        ("s64", number(1 << 40)),
        ("m", number(-70_000)),
        ("big", number(5_000_000)),
        ("long", b"y".repeat(70)),
    ];
    assert!(expected.iter().all(|(field, value)| small[*field] == *value), "{small:?}");
    let (large, _) = hash_of(&found["large"]);
    assert!(large.len() == 140 && (0..140).all(|n| large[&format!("f{n}")] == format!("v{n}").into_bytes()));
    assert_eq!(found["large"].expire_at, Some(UnixMillis(4_102_444_800_000)));

    let old = by_key("old_forms");
    let (ziplist, _) = hash_of(&old["zl"]);
    let expected = [
        ("n", number(7)),
        ("neg", number(-3)),
        ("s", number(300)),
        ("m", number(-70_000)),
        ("d", number(1_000_000_000)),
        ("q", number(1 << 40)),
    ];
    assert!(expected.iter().all(|(field, value)| ziplist[*field] == *value), "{ziplist:?}");
    assert_eq!((ziplist["long"].len(), ziplist["big"].len()), (300, 20_000));
    let (zipmap, _) = hash_of(&old["zm"]);
    assert_eq!((zipmap["a"].as_slice(), zipmap["b"].len(), zipmap["c"].len()), (&b"1"[..], 0, 260));
    assert_eq!(old["sec"].expire_at, Some(UnixMillis(2_000_000_000_000)));
}

#[test]
fn fields_with_an_expiry_of_their_own_are_counted() {
    let found = by_key("hash_field_expiries");
    let of = |key: &str| hash_of(&found[key]);
    let counts: Vec<(usize, u64)> =
        ["meta", "ex", "meta0", "ex0"].iter().map(|key| (of(key).0.len(), of(key).1)).collect();
    assert_eq!(counts, [(2, 1), (2, 1), (1, 1), (1, 0)]);
    assert_eq!((of("meta").0["b"].as_slice(), of("ex").0["b"].as_slice()), (&b"2"[..], &b"2"[..]));
    assert_eq!(
        (found["lpset"].content.clone(), found["mod"].content.clone()),
        (Content::Passed("set"), Content::Passed("module"))
    );
    assert_eq!(
        found["after"].content,
        Content::Bytes(b"kept".to_vec()),
        "a skipped value ends where the next entry begins"
    );
}

#[test]
fn unsupported_types_are_skipped_by_name_and_later_keys_are_read() {
    let names = |file: &str| -> BTreeMap<String, &'static str> {
        let name = |content: &Content| match content {
            Content::Passed(name) => *name,
            Content::Bytes(_) => "string",
            Content::Hash(..) => "hash",
        };
        by_key(file).iter().map(|(key, entry)| (key.clone(), name(&entry.content))).collect()
    };
    let others = names("others");
    for (key, name) in [
        ("list", "list"),
        ("plain", "list"),
        ("ints", "set"),
        ("set", "set"),
        ("bigset", "set"),
        ("zl", "zset"),
        ("zs", "zset"),
        ("zinf", "zset"),
        ("st", "stream"),
        ("after", "string"),
    ] {
        assert_eq!(others[key], name, "{key}");
    }
    let old = names("old_forms");
    for (key, name) in
        [("list", "list"), ("iset", "set"), ("zz", "zset"), ("quick", "list"), ("ztext", "zset"), ("elist", "list")]
    {
        assert_eq!(old[key], name, "{key}");
    }
    let databases = by_key("databases");
    assert_eq!((databases["zero"].db, databases["three"].db), (0, 3));
    assert!(by_key("empty").is_empty() && by_key("idle").len() == 1 && by_key("function_and_frequency").len() == 1);
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
fn truncated_rdb_reports_offset_and_retains_entries_before_it() {
    for (name, bytes) in corpus() {
        let whole = entries(&bytes).unwrap();
        for len in 0..bytes.len() - 9 {
            let cut = &bytes[..len];
            assert!(check(cut, len as u64).is_err(), "{name} cut to {len}");
            let Ok(mut reader) = RdbReader::new(cut) else { continue };
            let mut read = Vec::new();
            let damage = loop {
                match reader.next(|_, _| true) {
                    Ok(Some(entry)) => read.push(entry),
                    Ok(None) => panic!("{name} cut to {len} has an end"),
                    Err(damage) => break damage,
                }
            };
            assert!(matches!(damage.what, What::Truncated) && damage.offset <= len as u64, "{name}: {damage}");
            assert_eq!(read, whole[..read.len()], "{name} cut to {len}");
        }
    }
}

#[test]
fn rdb_reader_resumes_from_every_mark() {
    for (name, bytes) in corpus() {
        let whole = entries(&bytes).unwrap();
        let mut reader = RdbReader::new(bytes.as_slice()).unwrap();
        for from in 0..=whole.len() {
            let mark = reader.mark();
            let mut input = Cursor::new(&bytes);
            input.set_position(mark.offset);
            let mut resumed = RdbReader::resume(input, mark);
            let rest: Vec<RdbEntry> = std::iter::from_fn(|| resumed.next(|_, _| true).unwrap()).collect();
            assert_eq!(rest, whole[from..], "{name} from entry {from}");
            let unwanted = reader.next(|_, _| false).unwrap();
            let passed = unwanted.is_none_or(|entry| matches!(entry.content, Content::Passed(_)));
            assert!(passed, "{name}: values that are not wanted are skipped");
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
        for _ in 0..=prng.below(3) {
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] = prng.next_u64() as u8;
        }
        match entries(&bytes) {
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
    let told = |bytes: &[u8]| RdbReader::new(bytes).expect_err("it is refused").to_string();
    assert!(told(b"<html><body>").contains("byte 0: this is not an RDB file"));
    assert!(told(b"VALKEY080\xff").contains("copy from the server"));
    assert!(told(b"REDIS0099\xff").contains("byte 5: RDB version 99 is not supported (1 to 12 are)"));
    assert!(told(b"REDISabcd\xff").contains("not a number"));
    assert!(told(b"RED").contains("byte 0: the file ends"));
}

#[test]
fn a_compressed_string_may_overlap_itself_and_never_reaches_before_its_start() {
    // A literal run of one byte, then a copy of 100 bytes that begins one byte back.
    assert_eq!(expand(&[0, b'a', 0b1110_0000, 91, 0], 101), Some(vec![b'a'; 101]));
    assert_eq!(expand(&[0, b'a', 0b0010_0000, 0], 4), Some(b"aaaa".to_vec()));
    assert_eq!(expand(&[0, b'a', 0b0010_0000, 1], 4), None, "before the start");
    assert_eq!(expand(&[0, b'a', 0b0010_0000, 0], 3), None, "longer than the stated length");
    assert_eq!(expand(&[0, b'a'], 2), None, "shorter than the stated length");
    assert_eq!(expand(&[5, b'a'], 6), None, "truncated");
    let claims = [&b"REDIS0010\x00\x01k\xc3\x02\x80\x7f\xff\xff\xff"[..], b"aa"].concat();
    assert!(
        entries(&claims).unwrap_err().to_string().contains("cannot expand to"),
        "no memory is reserved for a claimed length"
    );
}
