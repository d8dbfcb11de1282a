//! Reads oracleGeneral, the binary format of libCacheSim: consecutive accesses, little-endian.
//!
//! ```text
//!   0      4            12     16                   24
//!   | time | object     | size | next access        |
//!     s                   B      ignored: no look-ahead is needed
//! ```
//!
//! The format has neither verbs nor key lengths: every access is a `get`, and its size counts as the size of the value.

use super::fault::TraceDefect;
use super::{TraceEntry, Verb};

/// The length of an encoded access, in bytes.
pub const ACCESS_BYTES: usize = 24;

/// The value of `next access` that marks an object that is not requested again, or whose next access is unknown.
const NEXT_NONE: i64 = -1;

/// Decodes an access. Returns the second of the access and its entry.
pub(super) fn entry(bytes: &[u8; ACCESS_BYTES]) -> Result<(u64, TraceEntry), TraceDefect> {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let key = u64::from(word(4)) | u64::from(word(8)) << 32;
    let entry = TraceEntry { key, value_bytes: word(12), verb: Verb::Get, ..TraceEntry::default() };
    Ok((word(0).into(), entry))
}

/// Encodes an access to `object` of `bytes` bytes in second `second`.
pub fn access(second: u32, object: u64, bytes: u32) -> [u8; ACCESS_BYTES] {
    let mut access = [0; ACCESS_BYTES];
    access[..4].copy_from_slice(&second.to_le_bytes());
    access[4..12].copy_from_slice(&object.to_le_bytes());
    access[12..16].copy_from_slice(&bytes.to_le_bytes());
    access[16..].copy_from_slice(&NEXT_NONE.to_le_bytes());
    access
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_reads_back_byte_by_byte() {
        let bytes = access(7, 0x0102_0304_0506_0708, 4096);
        assert_eq!(bytes[..16], [7, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 0, 16, 0, 0]);
        let (second, entry) = entry(&bytes).unwrap();
        assert_eq!((second, entry.key, entry.value_bytes), (7, 0x0102_0304_0506_0708, 4096));
    }
}
