//! The hidden keys of pieces and parts: `object 8 | piece 4` of a large value, `part 8 | object 8` of a value in parts,
//! and `part 8 | object 8 | fragment 4` of the fragments of a long part behind the first.

use crate::layout::key::Key;

/// The length of the hidden key of a piece, in bytes.
pub(crate) const PIECE_NAME_BYTES: usize = 12;

/// The length of the hidden key of a part, in bytes. The length differs from that of a piece's key.
pub(crate) const NAME_BYTES: usize = 16;
/// The length of the hidden key of a fragment of a part, in bytes.
pub(crate) const FRAGMENT_NAME_BYTES: usize = 20;
/// The number of the anchor: the part that names the record's key.
pub(crate) const ANCHOR: u64 = 0;
pub(crate) fn name(part: u64, object: u64) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    name[..8].copy_from_slice(&part.to_le_bytes());
    name[8..].copy_from_slice(&object.to_le_bytes());
    name
}

/// Returns the hidden key of a fragment of a part. The first fragment, number 0, has the name of the part instead.
pub(crate) fn fragment_name(part: u64, object: u64, number: u32) -> [u8; FRAGMENT_NAME_BYTES] {
    let mut name = [0; FRAGMENT_NAME_BYTES];
    name[..NAME_BYTES].copy_from_slice(&self::name(part, object));
    name[NAME_BYTES..].copy_from_slice(&number.to_le_bytes());
    name
}

pub(crate) fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// Returns the number of the part that a hidden key names, or to which its fragment belongs, and the number of its
/// object.
fn part_of(key: &Key<'_>) -> Option<(u64, u64)> {
    let is_part = key.piece && matches!(key.bytes.len(), NAME_BYTES | FRAGMENT_NAME_BYTES);
    is_part.then(|| (word(key.bytes), word(&key.bytes[8..])))
}

/// Returns the number of a hidden key's object and, for a part, the part's number.
pub(crate) fn hidden_numbers(key: &Key<'_>) -> Option<(u64, Option<u64>)> {
    match part_of(key) {
        Some((part, object)) => Some((object, Some(part))),
        None => (key.piece && key.bytes.len() == PIECE_NAME_BYTES).then(|| (word(key.bytes), None)),
    }
}

/// Returns the hidden key of a piece: `object id 8 | number 4`.
pub(crate) fn piece_name(object: u64, number: u32) -> [u8; PIECE_NAME_BYTES] {
    let mut name = [0; 12];
    name[..8].copy_from_slice(&object.to_le_bytes());
    name[8..].copy_from_slice(&number.to_le_bytes());
    name
}
