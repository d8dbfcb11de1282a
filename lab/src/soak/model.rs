//! The model with which replies are compared: the last acknowledged state of every key, and the bytes of its value.
//!
//! A value's bytes show the key and the version to which the value belongs. The first eight bytes are a hash of key and
//! version. The rest is copied from one block that all values share, from an offset that the first eight bytes
//! determine. `append` and `prepend` add pieces of eight bytes.
//!
//! ```text
//!   | prepended pieces, the latest first | mixed: hash, 8 B | block[mixed % period ..], repeated | appended pieces |
//! ```

use base::prng::{Prng, split_mix};

/// Maximum number of pieces that `append` and `prepend` add to a value.
pub const PIECES_MAX: usize = 4;
/// Length of a piece in bytes.
pub const PIECE_BYTES: usize = 8;
/// The expiry time of an item that does not expire.
pub const NEVER: u64 = u64::MAX;
/// The longest value in bytes.
pub const VALUE_BYTES_MAX: u64 = 10 << 20;

/// Time after an item's expiry for which a read may still find the item, in milliseconds. The server reads its clock
/// once per iteration, and stores long times to live, of some weeks or more, in whole seconds.
const LATE_MS: u64 = 2000;
/// Maximum time in milliseconds by which an item may expire early, because of rounding to seconds.
const EARLY_MS: u64 = 1100;
/// Length of the block in bytes. It is a prime, so that no length of a piece or of a segment is a multiple of it.
const PERIOD: usize = 60_013;
const HEAD_BYTES: usize = 8;

/// The last acknowledged state of a key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Item {
    /// True if the key was stored, and neither deleted nor found missing since.
    pub present: bool,
    /// True if an `append` or `prepend` is in flight.
    pub piece_in_flight: bool,
    /// Version of the key's value.
    pub version: u32,
    /// Length of the value without its pieces, in bytes.
    pub bytes: u32,
    /// The value, if the values of the key are numbers.
    pub number: u64,
    /// The CAS token; 0 if it is unknown.
    pub token: u64,
    /// Earliest instant of the expiry, in ms since the start of the soak.
    pub ends_from_ms: u64,
    /// Latest instant of the expiry, in ms since the start of the soak.
    pub ends_by_ms: u64,
    /// The pieces, in the order in which they were added.
    pieces: [u8; PIECES_MAX],
    piece_count: u8,
    /// Bit n is set if piece n was prepended, and clear if it was appended.
    fronts: u8,
}

/// The instants at which a request was sent and got its reply, in ms since the start of the soak.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// An instant shortly before the request was sent.
    pub sent_ms: u64,
    /// An instant shortly after the reply arrived.
    pub answered_ms: u64,
}

impl Item {
    /// Records a store of a new value.
    pub fn store(&mut self, version: u32, bytes: u32, number: u64, ttl_s: i64, span: Span) {
        *self =
            Self { present: true, piece_in_flight: self.piece_in_flight, version, bytes, number, ..Self::default() };
        self.ends_after(ttl_s, span);
    }

    /// Records a new time to live in seconds: 0 for no expiry, negative for immediate expiry.
    pub fn ends_after(&mut self, ttl_s: i64, span: Span) {
        match ttl_s {
            0 => (self.ends_from_ms, self.ends_by_ms) = (NEVER, NEVER),
            1.. => {
                let ms = ttl_s as u64 * 1000;
                (self.ends_from_ms, self.ends_by_ms) = (span.sent_ms + ms, span.answered_ms + ms);
            }
            _ => self.present = false,
        }
    }

    /// Returns whether a read must not find the item.
    pub fn is_gone(&self, span: Span) -> bool {
        !self.present || span.sent_ms > self.ends_by_ms.saturating_add(LATE_MS)
    }

    /// Records a miss. Returns true if only an eviction explains it.
    pub fn was_missed(&mut self, span: Span) -> bool {
        let lost = self.present && span.answered_ms < self.ends_from_ms.saturating_sub(EARLY_MS);
        self.present = false;
        lost
    }

    /// Returns whether another piece may be added.
    pub fn takes_a_piece(&self) -> bool {
        !self.piece_in_flight && usize::from(self.piece_count) < PIECES_MAX
    }

    /// Records an added piece.
    pub fn add_piece(&mut self, piece: u8, front: bool) {
        let at = usize::from(self.piece_count);
        self.pieces[at] = piece;
        self.fronts |= u8::from(front) << at;
        self.piece_count += 1;
        self.token = 0;
    }

    /// Returns the length of the value with its pieces.
    pub fn value_bytes(&self) -> usize {
        self.bytes as usize + usize::from(self.piece_count) * PIECE_BYTES
    }
}

/// The block from which the bytes of all values are copied.
#[derive(Debug)]
pub struct Values {
    block: Vec<u8>,
}

impl Values {
    /// Fills the block with random bytes from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut block = vec![0; PERIOD];
        Prng::new(seed ^ 0xB10C).fill(&mut block);
        Self { block }
    }

    /// Appends the value of `key` in `version`.
    pub fn write(&self, key: u32, version: u32, bytes: usize, out: &mut Vec<u8>) {
        let mixed = mixed(key, version);
        out.extend_from_slice(&mixed.to_le_bytes()[..bytes.min(HEAD_BYTES)]);
        let mut left = bytes.saturating_sub(HEAD_BYTES);
        let mut at = mixed as usize % PERIOD;
        while left > 0 {
            let part = left.min(PERIOD - at);
            out.extend_from_slice(&self.block[at..at + part]);
            left -= part;
            at = 0;
        }
    }

    /// Returns whether `value` is the whole value of `key` in `version`.
    pub fn is_value(&self, key: u32, version: u32, value: &[u8]) -> bool {
        let mixed = mixed(key, version);
        let (head, mut rest) = value.split_at(value.len().min(HEAD_BYTES));
        if head != &mixed.to_le_bytes()[..head.len()] {
            return false;
        }
        let mut at = mixed as usize % PERIOD;
        while !rest.is_empty() {
            let part = rest.len().min(PERIOD - at);
            if rest[..part] != self.block[at..at + part] {
                return false;
            }
            rest = &rest[part..];
            at = 0;
        }
        true
    }

    /// Returns whether `value` equals the value of `item`, including its pieces.
    pub fn is_item(&self, key: u32, item: &Item, value: &[u8]) -> bool {
        if value.len() != item.value_bytes() {
            return false;
        }
        let mut rest = value;
        for at in (0..usize::from(item.piece_count)).rev() {
            let (front, behind) = match item.fronts >> at & 1 {
                1 => rest.split_at(PIECE_BYTES),
                _ => {
                    let (before, piece) = rest.split_at(rest.len() - PIECE_BYTES);
                    (piece, before)
                }
            };
            if front != piece(key, item.pieces[at]) {
                return false;
            }
            rest = behind;
        }
        self.is_value(key, item.version, rest)
    }
}

/// Returns the bytes of a piece.
pub fn piece(key: u32, piece: u8) -> [u8; PIECE_BYTES] {
    split_mix(u64::from(key) << 8 | u64::from(piece)).to_le_bytes()
}

/// Returns the client flags of a value.
pub fn client_flags(key: u32, version: u32) -> u32 {
    (mixed(key, version) >> 32) as u32
}

fn mixed(key: u32, version: u32) -> u64 {
    split_mix(u64::from(key) << 32 | u64::from(version))
}

/// Appends the text of a key: nine bytes, and padding whose length depends on the key; at most 250 bytes in total.
pub fn write_key(key: u32, out: &mut Vec<u8>) {
    const PADDING: [u8; 241] = [b'.'; 241];
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = *b"k........";
    for (at, byte) in text[1..].iter_mut().enumerate() {
        *byte = DIGITS[(key >> (28 - 4 * at) & 15) as usize];
    }
    out.extend_from_slice(&text);
    let mix = split_mix(u64::from(key)) as usize;
    let padding = if mix.is_multiple_of(64) { mix / 64 % 242 } else { mix % 24 };
    out.extend_from_slice(&PADDING[..padding]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Span = Span { sent_ms: 1000, answered_ms: 1500 };

    fn at(ms: u64) -> Span {
        Span { sent_ms: ms, answered_ms: ms + 1 }
    }

    #[test]
    fn value_with_pieces_is_verified_and_any_changed_byte_is_detected() {
        let values = Values::new(1);
        let mut item = Item::default();
        item.store(7, 100, 0, 0, AT);
        item.add_piece(1, true);
        item.add_piece(2, false);
        item.add_piece(3, true);
        let mut value = [piece(5, 3), piece(5, 1)].concat();
        values.write(5, 7, 100, &mut value);
        value.extend_from_slice(&piece(5, 2));
        assert!(values.is_item(5, &item, &value));
        for at in 0..value.len() {
            let mut bad = value.clone();
            bad[at] ^= 1;
            assert!(!values.is_item(5, &item, &bad), "byte {at}");
        }
        assert!(!values.is_item(6, &item, &value), "another key");
        assert!(!values.is_item(5, &Item { version: 6, ..item }, &value), "another version");
        assert!(!values.is_item(5, &item, &value[..value.len() - 1]), "a byte short");
    }

    #[test]
    fn swapped_pieces_of_a_long_value_are_found() {
        let values = Values::new(1);
        let mut value = Vec::new();
        values.write(1, 1, 1 << 20, &mut value);
        assert!(values.is_value(1, 1, &value));
        let (left, right) = value.split_at_mut(512 << 10);
        left[128 << 10..256 << 10].swap_with_slice(&mut right[128 << 10..256 << 10]);
        assert!(!values.is_value(1, 1, &value));
    }

    #[test]
    fn a_miss_is_lost_before_the_end_and_a_hit_wrong_after_it() {
        let mut item = Item::default();
        item.store(1, 10, 0, 60, AT);
        assert!(!item.is_gone(at(61_400)) && !item.is_gone(at(63_500)), "a hit about the end is right");
        assert!(item.is_gone(at(63_501)), "a hit long after the end is wrong");
        for (ms, lost) in [(59_000, true), (60_000, false), (70_000, false)] {
            assert_eq!({ item }.was_missed(at(ms)), lost, "{ms} ms");
        }
        item.ends_after(-1, AT);
        assert!(item.is_gone(at(1600)), "ended at once");
    }

    #[test]
    fn keys_differ_and_have_at_most_250_bytes() {
        let text = |key| {
            let mut out = Vec::new();
            write_key(key, &mut out);
            out
        };
        let keys: std::collections::HashSet<Vec<u8>> = (0..100_000).map(text).collect();
        assert_eq!(keys.len(), 100_000);
        assert!(keys.iter().all(|key| (9..=250).contains(&key.len())));
        assert!(keys.iter().any(|key| key.len() > 240));
    }
}
