//! Hashes of names, by which large values order their elements.
//!
//! Clients choose the names. With a hash that they can compute, they could store any number of names with one hash,
//! which no page can divide. A large value therefore has a salt, a secret number, and its names are hashed by
//! SipHash-1-3 with the salt as the key. Values of earlier builds have no salt. They retain the order of an unkeyed
//! hash.

use siphasher::sip::SipHasher13;

/// The number of possible hashes of a name. All hashes are lower.
pub const HASHES: u64 = 1 << 32;

/// The bit in the `levels` of a head that marks a tree with a salt. The store reads it, too.
pub(crate) const SALTED: u8 = 0x40;
/// Length in bytes of a salt, which follows the entries of a head.
const SALT_BYTES: usize = 8;

/// The key of the hashes of one value's names. A value that is stored as one item has no order of hashes and no salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt(u64);

impl Salt {
    /// The salt of values without one, whose hash has no key.
    pub(crate) const NONE: Self = Self(0);

    /// Returns the salt with this number; [`Salt::NONE`] if it is 0.
    pub(crate) fn new(salt: u64) -> Self {
        Self(salt)
    }

    /// Returns the hash of a name, which determines its place in a large value. Walks follow this order.
    #[inline]
    pub fn hash(self, name: &[u8]) -> u32 {
        (self.hash64(name) >> 32) as u32
    }

    /// Returns the 64-bit hash of a name, whose high half is its [`Salt::hash`]. Two names of one value have the same
    /// one only very rarely.
    #[inline]
    pub fn hash64(self, name: &[u8]) -> u64 {
        if self == Self::NONE { unkeyed(name) } else { SipHasher13::new_with_keys(self.0, self.0).hash(name) }
    }

    /// Returns the bit of a head's `levels` for this salt.
    pub(crate) fn bit(self) -> u8 {
        if self == Self::NONE { 0 } else { SALTED }
    }

    /// Appends the salt to a head after its entries, if it is not [`Salt::NONE`].
    pub(crate) fn push(self, to: &mut Vec<u8>) {
        if self != Self::NONE {
            to.extend_from_slice(&self.0.to_le_bytes());
        }
    }

    /// Reads the salt after the entries of a head with these `levels`. Returns it with the bytes after it.
    pub(crate) fn read(levels: u8, bytes: &[u8]) -> Option<(Self, &[u8])> {
        if levels & SALTED == 0 {
            return Some((Self::NONE, bytes));
        }
        let (salt, rest) = bytes.split_first_chunk::<SALT_BYTES>()?;
        Some((Self(u64::from_le_bytes(*salt)), rest)).filter(|(salt, _)| *salt != Self::NONE)
    }
}

/// Returns a hash without a key: FNV-1a with a final mix. Walks are ordered by the high bits, which FNV-1a alone mixes
/// badly.
pub(crate) fn unkeyed(text: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    base::prng::split_mix(text.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_stored_values_never_change() {
        // The order of stored values depends on these figures, which other implementations of both hashes computed.
        let names = [&b""[..], b"name", b"a name of more than eight bytes"];
        let unkeyed = [0xc381_7c01_6ba4_ff30, 0x43f0_c382_c817_dbee, 0x6cfa_ee36_8424_c050];
        assert_eq!(names.map(|name| Salt::NONE.hash64(name)), unkeyed);
        let salted = [0xb55e_8dfd_47a5_162b, 0xf907_1a4f_68d4_1159, 0xde4c_6979_7248_1c3e];
        assert_eq!(names.map(|name| Salt::new(7).hash64(name)), salted);
        assert_eq!(Salt::new(7).hash(b"name"), 0xf907_1a4f);
    }

    #[test]
    fn salt_of_a_head_is_read_as_it_was_written_and_never_from_cut_bytes() {
        let mut head = Vec::new();
        Salt::new(0x0102_0304).push(&mut head);
        head.push(9);
        assert_eq!(Salt::read(2 | SALTED, &head), Some((Salt::new(0x0102_0304), &[9][..])));
        assert_eq!(Salt::read(2, &head), Some((Salt::NONE, &head[..])));
        assert_eq!((0..8).find_map(|len| Salt::read(SALTED, &head[..len])), None);
        assert_eq!(Salt::read(SALTED, &[0; 9]), None, "0 is no salt");
        assert_eq!((Salt::NONE.bit(), Salt::new(1).bit()), (0, SALTED));
    }
}
