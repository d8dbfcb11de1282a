use super::*;
use std::path::{Path, PathBuf};

/// A file that is removed at the end of the test.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("gannet-trace-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn entries(count: u64) -> Vec<TraceEntry> {
    let mut prng = base::prng::Prng::new(5);
    let mut at_us = 0;
    (0..count)
        .map(|number| {
            at_us += prng.below(3000);
            TraceEntry {
                at_us,
                key: prng.next_u64(),
                key_bytes: prng.below(251) as u32,
                value_bytes: prng.next_u64() as u32 >> prng.below(32),
                ttl_s: prng.next_u64() as u32 >> prng.below(32),
                connection: prng.below(5000) as u32,
                verb: Verb::ALL[number as usize % Verb::ALL.len()].1,
                outcome: RequestOutcome::from_number(prng.below(4) as u8),
                joined: number > 0 && prng.chance(1, 5),
            }
        })
        .collect()
}

/// Returns the bytes of a trace, with an end if `summary` is given, and the offsets of its blocks.
fn recorded(entries: &[TraceEntry], summary: Option<&Summary>) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = Header { began_unix_us: 77, chosen_secret: true }.bytes().to_vec();
    let (mut blocks, mut begins) = (Blocks::default(), Vec::new());
    let mut put = |block: Vec<u8>| {
        begins.push(bytes.len());
        bytes.extend_from_slice(&block);
    };
    for entry in entries {
        blocks.push(entry).into_iter().for_each(&mut put);
    }
    blocks.take().into_iter().for_each(&mut put);
    summary.map(|summary| blocks.end(summary)).into_iter().for_each(&mut put);
    (bytes, begins)
}

fn all(ask: &Selection) -> (Vec<TraceEntry>, Option<TraceError>, TraceReader) {
    let mut reader = TraceReader::open(ask).unwrap();
    let mut got = Vec::new();
    loop {
        match reader.entry() {
            Ok(Some(entry)) => got.push(entry),
            Ok(None) => return (got, None, reader),
            Err(fault) => return (got, Some(fault), reader),
        }
    }
}

/// Returns `entries` as a reader does: with instants relative to the first entry.
fn from_first(mut entries: Vec<TraceEntry>) -> Vec<TraceEntry> {
    let first_us = entries[0].at_us;
    entries.iter_mut().for_each(|entry| entry.at_us -= first_us);
    entries
}

#[test]
fn recorded_trace_round_trips_with_its_summary() {
    let wanted = entries(20_000);
    let summary = Summary { entries: 20_000, lost: 1, other_requests: 2, connections: 3, unfollowed: 4 };
    let (bytes, begins) = recorded(&wanted, Some(&summary));
    assert!(begins.len() > 4, "several blocks");
    let file = TempFile::new("whole", &bytes);
    let (got, fault, reader) = all(&Selection::new(&file.0));
    assert_eq!(fault, None);
    assert_eq!(got, from_first(wanted));
    assert_eq!((reader.format(), reader.is_cut(), reader.summary()), (TraceFormat::Recorded, false, Some(summary)));
}

#[test]
fn truncated_trace_yields_its_whole_blocks_and_reports_truncation() {
    let wanted = entries(6000);
    let (bytes, begins) = recorded(&wanted, Some(&Summary::default()));
    let counts: Vec<usize> =
        begins.iter().map(|end| all(&Selection::new(&TempFile::new("prefix", &bytes[..*end]).0)).0.len()).collect();
    assert_eq!((counts[0], *counts.last().unwrap()), (0, 6000));
    for cut in (blocks::HEADER_BYTES..bytes.len()).step_by(997) {
        let file = TempFile::new("cut", &bytes[..cut]);
        let (got, fault, reader) = all(&Selection::new(&file.0));
        let whole = begins.iter().rposition(|begin| *begin <= cut).map_or(0, |at| counts[at]);
        assert_eq!((got.len(), fault, reader.is_cut()), (whole, None, true), "cut at {cut}");
        assert!(!reader.has_end(), "cut at {cut}");
    }
    let blocks = |end: usize| all(&Selection::new(&TempFile::new("blocks", &bytes[..end]).0)).2;
    let file = TempFile::new("blocks", &bytes);
    assert!(all(&Selection::new(&file.0)).2.has_end());
    assert!(begins.iter().all(|begin| blocks(*begin).is_cut()), "cut between two blocks");
}

#[test]
fn flipped_bit_anywhere_is_reported_with_its_block() {
    let (bytes, begins) = recorded(&entries(6000), Some(&Summary::default()));
    let mut found = 0;
    for at in (8..bytes.len()).step_by(501) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let file = TempFile::new("flip", &damaged);
        let fault = match TraceReader::open(&Selection::new(&file.0)) {
            Err(fault) => fault,
            Ok(_) => {
                all(&Selection::new(&file.0)).1.unwrap_or_else(|| panic!("the damage at byte {at} was not detected"))
            }
        };
        let number = begins.iter().filter(|begin| **begin <= at).count() as u64;
        match fault.place {
            TracePlace::Block { number: named, .. } => assert_eq!(named, number, "{fault}"),
            place => assert_eq!((place, number), (TracePlace::File, 0), "{fault}"),
        }
        assert!(fault.to_string().starts_with(file.0.to_str().unwrap()) && fault.to_string().contains("; "), "{fault}");
        found += 1;
    }
    assert!(found > 100);
}

fn lines(count: u64) -> String {
    (0..count).map(|number| format!("{},key-{},5,{},1,get,0\n", 100 + number / 4, number % 7, number)).collect()
}

#[test]
fn lines_are_read_packed_and_unpacked_with_their_instants_spread() {
    let text = lines(10);
    let packed = zstd::stream::encode_all(text.as_bytes(), 3).unwrap();
    // Two consecutive zstd frames, as parallel compressors write them.
    let (front, back) = text.split_at(text.find("101,").unwrap());
    let frames = [front, back].map(|part| zstd::stream::encode_all(part.as_bytes(), 1).unwrap()).concat();
    for (name, bytes) in [("plain.csv", text.as_bytes()), ("packed.zst", &packed), ("frames.zst", &frames)] {
        let file = TempFile::new(name, bytes);
        let (got, fault, reader) = all(&Selection::new(&file.0));
        assert_eq!((fault, reader.format()), (None, TraceFormat::Twitter), "{name}");
        let instants: Vec<u64> = got.iter().map(|entry| entry.at_us / 1000).collect();
        assert_eq!(instants, [0, 250, 500, 750, 1000, 1250, 1500, 1750, 2000, 2500], "{name}");
        assert!(got[0].key == got[7].key && got[0].key != got[1].key);
    }
}

#[test]
fn invalid_trace_line_is_reported_by_number_and_ends_the_trace() {
    let text = format!("{}100,x,5,1,1,fetch,0\n", lines(4));
    let file = TempFile::new("wrong.csv", text.as_bytes());
    let (_, fault, mut reader) = all(&Selection::new(&file.0));
    let fault = fault.unwrap();
    assert_eq!(fault.place, TracePlace::Line(5));
    assert!(fault.to_string().contains(":5: \"fetch\" is not an operation"), "{fault}");
    assert_eq!(reader.entry(), Ok(None), "no entries follow a fault");
    let cut = &text[..text.len() - 30];
    let file = TempFile::new("cut.csv", cut.as_bytes());
    let fault = all(&Selection::new(&file.0)).1.unwrap();
    assert!(fault.what.contains("the last line has no line end"), "{fault}");
    let endless = TempFile::new("endless.csv", ["1,2,3,4,5,6,7", &"x".repeat(9000)].concat().as_bytes());
    assert!(all(&Selection::new(&endless.0)).1.unwrap().what.contains("longer than 4096 bytes"));
}

#[test]
fn compressed_and_plain_accesses_are_read_and_truncation_is_reported() {
    let bytes: Vec<u8> = (0..100u32).flat_map(|number| oracle::access(number / 10, number.into(), number)).collect();
    let packed = zstd::stream::encode_all(&bytes[..], 3).unwrap();
    for (name, bytes) in [("o.bin", &bytes), ("o.zst", &packed)] {
        let (got, fault, reader) = all(&Selection::new(&TempFile::new(name, bytes).0));
        assert_eq!((got.len(), fault, reader.format()), (100, None, TraceFormat::OracleGeneral), "{name}");
        assert_eq!((got[37].at_us, got[37].key, got[37].value_bytes), (3_700_000, 37, 37));
    }
    let cut = TempFile::new("cut.bin", &bytes[..bytes.len() - 5]);
    let fault = TraceReader::open(&Selection::new(&cut.0)).unwrap_err();
    assert!(fault.what.contains("unknown trace format") && fault.remedy.contains("--format"), "{fault}");
    let told = Selection { format: Some(TraceFormat::OracleGeneral), ..Selection::new(&cut.0) };
    let (got, fault, _) = all(&told);
    assert_eq!(
        (got.len(), fault.unwrap().place),
        (90, TracePlace::Entry(100)),
        "the entries of the last second were still buffered"
    );
    let half = TempFile::new("half.zst", &packed[..packed.len() / 2]);
    let fault =
        TraceReader::open(&Selection::new(&half.0)).map_or_else(Some, |_| all(&Selection::new(&half.0)).1).unwrap();
    assert!(fault.remedy.contains("decompress the file again"), "{fault}");
}

#[test]
fn a_file_that_is_no_trace_is_refused_with_its_name() {
    let cases: [(&[u8], &str); 3] =
        [(b"", "the file is empty"), (b"hello", "the file is not a recorded trace"), (b"GNTTRACE", "truncated")];
    for (bytes, what) in cases {
        let file = TempFile::new("none", bytes);
        let fault = TraceReader::open(&Selection::new(&file.0)).unwrap_err();
        assert!(fault.to_string().contains(what), "{fault}");
    }
    let fault = TraceReader::open(&Selection::new(Path::new("/no/such/trace"))).unwrap_err();
    assert!(fault.to_string().starts_with("/no/such/trace: cannot open the file"), "{fault}");
    let mut newer = Header::default().bytes();
    newer[8] = 9;
    let file = TempFile::new("newer", &newer);
    assert!(TraceReader::open(&Selection::new(&file.0)).unwrap_err().what.contains("version 9"));
}

#[test]
fn repeated_trace_continues_with_later_times_until_the_request_limit() {
    let file = TempFile::new("repeat.csv", lines(6).as_bytes());
    let ask = Selection { repeat: true, requests_max: Some(15), ..Selection::new(&file.0) };
    let (got, _, _) = all(&ask);
    let instants: Vec<u64> = got.iter().map(|entry| entry.at_us / 1000).collect();
    let pass = [0, 250, 500, 750, 1000, 1500];
    let wanted: Vec<u64> = (0..3).flat_map(|number| pass.map(|at| number * 2000 + at)).take(15).collect();
    assert_eq!(instants, wanted);
    let (bytes, _) = recorded(&entries(100), None);
    let file = TempFile::new("repeat", &bytes);
    let (got, _, _) = all(&Selection { repeat: true, requests_max: Some(500), ..Selection::new(&file.0) });
    assert_eq!(got.iter().filter(|entry| !entry.joined).count(), 500, "a request for several keys counts once");
    assert!(got.windows(2).all(|two| two[0].at_us <= two[1].at_us));
    let ignored = Selection { times: Times::Ignored, ..Selection::new(&file.0) };
    assert!(all(&ignored).0.iter().all(|entry| entry.at_us == 0));
}
