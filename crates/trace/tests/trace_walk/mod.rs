//! Reads arbitrary bytes as a trace and asserts the invariants that hold for any input. The tests and the fuzz target
//! share this module.

use gannet_trace::blocks::{BLOCK_HEAD_BYTES, PAYLOAD_BYTES_MAX};
use gannet_trace::{Blocks, Header, Selection, Summary, TraceEntry, TraceFormat, TraceReader};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Highest number of entries that are read of one input. A compressed input may contain more.
const ENTRIES_MAX: usize = 1 << 16;

/// Reads `bytes` in `format`, or in the detected format if `None`. Returns the entries, and whether no fault occurred.
pub fn read(bytes: &[u8], format: Option<TraceFormat>) -> (Vec<TraceEntry>, bool) {
    let ask = Selection { format, ..Selection::new("bytes") };
    let Ok(mut reader) =
        TraceReader::over(&ask, Box::new(std::io::Cursor::new(bytes.to_vec())), Some(bytes.len() as u64))
    else {
        return (Vec::new(), false);
    };
    let (mut entries, mut last_us) = (Vec::new(), 0);
    while entries.len() < ENTRIES_MAX {
        match reader.entry() {
            Ok(Some(entry)) => {
                assert!(entry.at_us >= last_us, "instants never descend");
                last_us = entry.at_us;
                entries.push(entry);
            }
            Ok(None) => {
                assert_eq!(reader.entry(), Ok(None), "no entries follow the end");
                return (entries, true);
            }
            Err(fault) => {
                let words = fault.to_string();
                assert!(words.starts_with("bytes") && words.contains("; "), "{words}");
                assert_eq!(reader.entry(), Ok(None), "no entries follow a fault");
                return (entries, false);
            }
        }
    }
    (entries, true)
}

/// Returns a recorded trace of one block with this payload and number of entries, both arbitrary, and valid checksums.
pub fn framed(payload: &[u8], entries: u32) -> Vec<u8> {
    let mut trace = Header::default().bytes().to_vec();
    let mut head = b"GTB1\x01\0\0\0".to_vec();
    head.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    head.extend_from_slice(&entries.to_le_bytes());
    head.extend_from_slice(&[0; 8]);
    let check = xxh3_64_with_seed(payload, xxh3_64(&head));
    head.extend_from_slice(&check.to_le_bytes());
    assert_eq!(head.len(), BLOCK_HEAD_BYTES);
    trace.extend_from_slice(&head);
    trace.extend_from_slice(payload);
    trace
}

/// Writes `entries` as a trace, reads it, and asserts that the entries are equal.
fn assert_round_trip(entries: &[TraceEntry]) {
    let mut trace = Header::default().bytes().to_vec();
    let mut blocks = Blocks::default();
    for entry in entries {
        trace.extend(blocks.push(entry).into_iter().flatten());
    }
    trace.extend(blocks.take().into_iter().flatten());
    trace.extend(blocks.end(&Summary::default()));
    let (again, whole) = read(&trace, None);
    assert!(whole && again == entries, "{} entries read back as {}", entries.len(), again.len());
}

/// Asserts the invariants of `bytes` in every format, and as the payload of a block.
pub fn assert_all_forms(bytes: &[u8]) {
    let forms = [None, Some(TraceFormat::Recorded), Some(TraceFormat::Twitter), Some(TraceFormat::OracleGeneral)];
    for form in forms {
        let (entries, _) = read(bytes, form);
        assert!(entries.len() < ENTRIES_MAX || bytes.len() > 100, "a small input has few entries");
        assert_round_trip(&entries);
    }
    let (first, payload) = bytes.split_first().unwrap_or((&0, &[]));
    let payload = &payload[..payload.len().min(PAYLOAD_BYTES_MAX)];
    assert_round_trip(&read(&framed(payload, u32::from(*first)), None).0);
}
