//! The bytes of a value: the key that it belongs to, the store that wrote it, and a body that follows from both.
//!
//! ```text
//!    0          8          16         24                         length
//!    | mark     | version  | check    | body                     |
//!      of the     of the     of mark, version and length; the body is a part of a fixed circular block that
//!      key        store      begins at an offset derived from the check
//! ```
//!
//! A value of fewer than [`HEAD_BYTES`] bytes consists of bytes of the check of its key and length. It identifies its
//! key, but not the store that wrote it. A reader that knows the key compares every byte as it arrives and stores none
//! of them. The block is the same in every run, so one run can check what another has stored. Values with another
//! compressibility are different.

use base::prng::{Prng, split_mix};

use super::units::Share;

/// Bytes before the body.
pub const HEAD_BYTES: usize = 24;

const BLOCK_BYTES: usize = 1 << 17;
/// Bodies begin in the first half of the block, so that most of them are contiguous.
const STARTS: u64 = BLOCK_BYTES as u64 / 2;
/// Length of the cell that a compressor finds repeated: random bytes, then zeros.
const CELL_BYTES: usize = 64;

/// The bodies of all values of one compressibility.
#[derive(Clone, Debug)]
pub struct Values {
    block: Box<[u8]>,
}

/// An error: the value differs from the one expected for its key and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongValue;

const fn check(mark: u64, version: u64, len: u64) -> u64 {
    split_mix(split_mix(mark ^ version.rotate_left(32)) ^ len)
}

/// Returns the bytes of a value that is too short for a head.
fn short(mark: u64, len: usize) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    for (at, part) in bytes.chunks_exact_mut(8).enumerate() {
        part.copy_from_slice(&check(mark, at as u64, len as u64).to_le_bytes());
    }
    bytes
}

impl Values {
    /// Creates values of which a compressor can remove the share `compressible`.
    pub fn new(compressible: Share) -> Self {
        let mut block = vec![0; BLOCK_BYTES];
        let random = ((1.0 - compressible.0) * CELL_BYTES as f64).round() as usize;
        let mut prng = Prng::new(0x6761_6e6e_6574);
        for cell in block.chunks_mut(CELL_BYTES) {
            prng.fill(&mut cell[..random]);
        }
        Self { block: block.into() }
    }

    /// Appends the value of `len` bytes of the key with this mark.
    #[inline]
    pub fn put(&self, mark: u64, version: u64, len: u64, out: &mut Vec<u8>) {
        if len < HEAD_BYTES as u64 {
            out.extend_from_slice(&short(mark, len as usize)[..len as usize]);
            return;
        }
        let check = check(mark, version, len);
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&mark.to_le_bytes());
        head[8..16].copy_from_slice(&version.to_le_bytes());
        head[16..].copy_from_slice(&check.to_le_bytes());
        out.extend_from_slice(&head);
        let (mut at, mut left) = ((check % STARTS) as usize, len as usize - HEAD_BYTES);
        while left > 0 {
            let part = left.min(BLOCK_BYTES - at);
            out.extend_from_slice(&self.block[at..at + part]);
            (at, left) = (0, left - part);
        }
    }

    /// Compares the first bytes of a value of `len` bytes: [`HEAD_BYTES`] of them, or all if it is shorter. Returns the
    /// position in the block at which its body begins.
    pub fn check_head(&self, mark: u64, len: u64, head: &[u8]) -> Result<u32, WrongValue> {
        let Some(head) = head.first_chunk::<HEAD_BYTES>().filter(|_| len >= HEAD_BYTES as u64) else {
            return if head == &short(mark, head.len())[..head.len()] { Ok(0) } else { Err(WrongValue) };
        };
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let check = check(mark, word(8), len);
        if word(0) == mark && word(16) == check { Ok((check % STARTS) as u32) } else { Err(WrongValue) }
    }

    /// Compares the next bytes of a body, which are at `at` in the block. Returns the position at which the body
    /// continues.
    pub fn check_body(&self, at: u32, body: &[u8]) -> Result<u32, WrongValue> {
        let (mut at, mut rest) = (at as usize, body);
        while !rest.is_empty() {
            let part = rest.len().min(BLOCK_BYTES - at);
            if rest[..part] != self.block[at..at + part] {
                return Err(WrongValue);
            }
            (at, rest) = ((at + part) % BLOCK_BYTES, &rest[part..]);
        }
        Ok(at as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a value whose bytes after the head arrive in pieces of `step` bytes.
    fn verify(values: &Values, mark: u64, value: &[u8], step: usize) -> Result<(), WrongValue> {
        let len = value.len() as u64;
        let (head, body) = value.split_at(value.len().min(HEAD_BYTES));
        let mut at = values.check_head(mark, len, head)?;
        for part in body.chunks(step) {
            at = values.check_body(at, part)?;
        }
        Ok(())
    }

    #[test]
    fn a_whole_value_passes_however_it_is_cut_up() {
        let values = Values::new(Share(0.0));
        for len in [0, 1, 8, 23, 24, 25, 100, 4096, 70_000, 400_000] {
            let mut value = Vec::new();
            values.put(77, 5, len, &mut value);
            assert_eq!(value.len() as u64, len);
            for step in [1, 7, 4096, usize::MAX] {
                assert_eq!(verify(&values, 77, &value, step), Ok(()), "{len} in {step}");
            }
        }
    }

    #[test]
    fn every_kind_of_corruption_is_caught() {
        let values = Values::new(Share(0.3));
        for len in [8usize, 23, 24, 40, 300, 200_000] {
            let mut value = Vec::new();
            values.put(77, 5, len as u64, &mut value);
            let wrong = |what: &str, value: &[u8], mark: u64| {
                assert_eq!(verify(&values, mark, value, 1000), Err(WrongValue), "{what} of {len} bytes");
            };
            let stride = (len / 50).max(1);
            for at in (0..len).step_by(stride) {
                for bit in [0, 7] {
                    let mut flipped = value.clone();
                    flipped[at] ^= 1 << bit;
                    wrong("a flipped bit", &flipped, 77);
                }
            }
            wrong("another key", &value, 78);
            wrong("a cut end", &value[..len - 1], 77);
            let mut longer = value.clone();
            longer.push(0);
            wrong("a byte too many", &longer, 77);
            let mut shifted = value.clone();
            shifted.rotate_left(1);
            wrong("a shift", &shifted, 77);
            wrong("zeros", &vec![0; len], 77);
        }
        // A value whose halves belong to two stores of the same key.
        let (mut old, mut new) = (Vec::new(), Vec::new());
        values.put(77, 5, 300, &mut old);
        values.put(77, 6, 300, &mut new);
        old[150..].copy_from_slice(&new[150..]);
        assert_eq!(verify(&values, 77, &old, 1000), Err(WrongValue));
    }

    #[test]
    fn compressible_share_of_value_block_matches_setting() {
        for share in [0.0, 0.25, 0.5, 1.0] {
            let zeros = Values::new(Share(share)).block.iter().filter(|byte| **byte == 0).count();
            let part = zeros as f64 / BLOCK_BYTES as f64;
            assert!((part - share).abs() < 0.01, "{share}: {part}");
        }
    }
}
