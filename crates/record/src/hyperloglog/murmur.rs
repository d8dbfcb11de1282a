//! MurmurHash64A by Austin Appleby, which is in the public domain. Redis's HyperLogLogs use it with a fixed seed.

/// The seed of the hash in HyperLogLogs.
const SEED: u64 = 0xadc8_3b19;
/// The multiplier of the hash.
const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
/// The number of bits of a shift.
const SHIFT: u32 = 47;

/// Returns the hash of bytes.
#[inline]
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word = (word ^ word >> SHIFT).wrapping_mul(MULTIPLIER);
        hash = (hash ^ word).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
}
