//! Reads Twitter's format, which has lines of `timestamp,key,key size,value size,client,operation,TTL`, with times in
//! seconds and sizes in bytes.
//!
//! The format of the repository twitter/cache-trace (Yang, Yue, Rashmi, OSDI '20). Keys may contain commas, so the
//! fields after the key are counted from the end.

use super::fault::TraceDefect;
use super::{TraceEntry, Verb};
use protocol::number::{parse_u32, parse_u64};
use xxhash_rust::xxh3::xxh3_64;

/// The longest line in bytes, including its line end.
pub const LINE_BYTES_MAX: usize = 4096;

/// The number of fields after the key in a line.
const BEHIND: usize = 5;

/// Returns true if `bytes`, the beginning of a file, start with a line of this format.
pub(super) fn begins(bytes: &[u8]) -> bool {
    let window = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let line = window.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let plain = |byte: &u8| *byte >= b' ' || *byte == b'\t' || *byte == b'\r';
    line.iter().filter(|byte| **byte == b',').count() > BEHIND && line.iter().all(plain)
}

/// Parses `line` without its line end. Returns the second of the line and its entry. Client names are hashed to
/// numbers.
pub(super) fn entry(line: &[u8]) -> Result<(u64, TraceEntry), TraceDefect> {
    const FIELDS: &str = "write the fields timestamp,key,key size,value size,client,operation,TTL";
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut behind = line.rsplitn(BEHIND + 1, |byte| *byte == b',');
    let fields: [Option<&[u8]>; BEHIND] = std::array::from_fn(|_| behind.next());
    let front = behind.next().and_then(|front| {
        let comma = front.iter().position(|byte| *byte == b',')?;
        Some((&front[..comma], &front[comma + 1..]))
    });
    let ([Some(ttl), Some(operation), Some(client), Some(value), Some(size)], Some((at, key))) = (fields, front) else {
        let count = line.iter().filter(|byte| **byte == b',').count() + 1;
        return Err(TraceDefect::new(format!("the line has {count} fields instead of 7"), FIELDS));
    };
    let no_number = |name: &str, text: &[u8]| {
        TraceDefect::new(format!("the {name} {:?} is not a number", String::from_utf8_lossy(text)), FIELDS)
    };
    let number = |name, text| parse_u32(text).ok_or_else(|| no_number(name, text));
    let second = parse_u64(at).ok_or_else(|| no_number("timestamp", at))?;
    let verb = Verb::from_name(operation).ok_or_else(|| {
        let names: Vec<&str> = Verb::ALL.iter().map(|(name, _)| *name).collect();
        let what = format!("{:?} is not an operation", String::from_utf8_lossy(operation));
        TraceDefect::new(format!("{what}; valid ones are {}", names.join(" ")), FIELDS)
    })?;
    let size = match number("key size", size)? {
        0 => u32::try_from(key.len()).unwrap_or(u32::MAX),
        size => size,
    };
    let entry = TraceEntry {
        key: xxh3_64(key),
        key_bytes: size,
        value_bytes: number("value size", value)?,
        ttl_s: number("TTL", ttl)?,
        connection: parse_u32(client).unwrap_or_else(|| xxh3_64(client) as u32),
        verb,
        ..TraceEntry::default()
    };
    Ok((second, entry))
}

/// Appends `entry` as a line with its line end, for use by other tools.
pub fn put_line(entry: &TraceEntry, out: &mut Vec<u8>) {
    use std::io::Write as _;
    let TraceEntry { at_us, key, key_bytes, value_bytes, connection, verb, ttl_s, .. } = *entry;
    let (second, verb) = (at_us / 1_000_000, verb.name());
    // Writing to memory does not fail.
    let _ = writeln!(out, "{second},{key:016x},{key_bytes},{value_bytes},{connection},{verb},{ttl_s}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_entry_commas_in_its_key_included() {
        let (second, read) = entry(b"17,nz:u,eeW5:1,25,313,7,gets,86400\r").unwrap();
        let entry_of = |key: &[u8]| TraceEntry { key: xxh3_64(key), ..read };
        assert_eq!((second, read.verb, read.connection), (17, Verb::Gets, 7));
        assert_eq!((read.key_bytes, read.value_bytes, read.ttl_s), (25, 313, 86_400));
        assert_eq!(read, entry_of(b"nz:u,eeW5:1"));
        assert_eq!(entry(b"0,abc,0,0,x,get,0").unwrap().1.key_bytes, 3);
        let mut line = Vec::new();
        put_line(&TraceEntry { at_us: 17_900_000, ..read }, &mut line);
        let (second, again) = entry(line.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!(
            (second, TraceEntry { key: read.key, ..again }),
            (17, read),
            "the written line parses to the same entry"
        );
    }

    #[test]
    fn invalid_trace_line_error_names_the_field() {
        let cases: [(&[u8], &str); 6] = [
            (b"", "the line has 1 fields instead of 7"),
            (b"1,k,2,3,4,get", "the line has 6 fields instead of 7"),
            (b"x,k,2,3,4,get,0", "the timestamp \"x\""),
            (b"1,k,2,-3,4,get,0", "the value size \"-3\""),
            (b"1,k,2,3,4,fetch,0", "\"fetch\" is not an operation"),
            (b"1,k,2,3,4,get,never", "the TTL \"never\""),
        ];
        for (line, what) in cases {
            let wrong = entry(line).unwrap_err();
            assert!(wrong.what.contains(what) && wrong.remedy.contains("timestamp,key"), "{wrong:?}");
        }
    }
}
