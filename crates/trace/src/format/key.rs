//! The keys of a trace: the recorder hashes them with a secret, and the replay generates their text from the hash.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// The length of the shortest generated key, in bytes. This is the number of characters that 64 bits need.
pub const KEY_TEXT_BYTES_MIN: usize = 11;

const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// The secret with which keys are hashed. No file contains the secret. Without it, a reader cannot check whether a key
/// is in a trace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 16]);

impl Secret {
    /// Creates a secret from these bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Draws a secret from the system's random numbers.
    ///
    /// # Errors
    /// If the system's random numbers cannot be read.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        let mut have = 0;
        while have < bytes.len() {
            have += rustix::rand::getrandom(&mut bytes[have..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Self(bytes))
    }

    /// Parses a secret from 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 32 {
            return None;
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// Returns the hash of `key`.
    pub fn hash(&self, key: &[u8]) -> u64 {
        let mut hash = KeyHash::new(self);
        hash.add(key);
        hash.finish().0
    }
}

impl fmt::Debug for Secret {
    /// Writes only the type's name, never the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The hash of a key that arrives in pieces: SipHash-2-4 with the secret as its key.
#[derive(Clone)]
pub struct KeyHash {
    hasher: SipHasher24,
    bytes: u32,
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a hash of a key of {} bytes", self.bytes)
    }
}

impl KeyHash {
    /// Creates the hash of an empty key.
    pub fn new(secret: &Secret) -> Self {
        Self { hasher: SipHasher24::new_with_key(&secret.0), bytes: 0 }
    }

    /// Adds the next bytes of the key.
    pub fn add(&mut self, piece: &[u8]) {
        self.hasher.write(piece);
        self.bytes = self.bytes.saturating_add(u32::try_from(piece.len()).unwrap_or(u32::MAX));
    }

    /// Returns the hash and the key's length in bytes.
    pub fn finish(&self) -> (u64, u32) {
        (self.hasher.finish(), self.bytes)
    }
}

/// Appends the generated key for the hash `key`. The key has `bytes` bytes, but at least [`KEY_TEXT_BYTES_MIN`] and at
/// most memcached's maximum key length. Different hashes give different keys.
pub fn put_key(key: u64, bytes: u32, out: &mut Vec<u8>) {
    let bytes = (bytes as usize).clamp(KEY_TEXT_BYTES_MIN, protocol::memcache::KEY_BYTES_MAX);
    out.resize(out.len() + bytes - KEY_TEXT_BYTES_MIN, b'k');
    for digit in (0..KEY_TEXT_BYTES_MIN as u32).rev() {
        out.push(DIGITS[(key >> (6 * digit) & 63) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_pieces_hashes_as_a_whole_and_another_secret_hashes_otherwise() {
        let secret = Secret::parse("000102030405060708090a0b0c0d0e0f").unwrap();
        // The published test vector of SipHash-2-4: 15 bytes, 0 to 14.
        let input: Vec<u8> = (0..15).collect();
        assert_eq!(secret.hash(&input), 0xa129_ca61_49be_45e5);
        for cut in 0..=input.len() {
            let mut hash = KeyHash::new(&secret);
            hash.add(&input[..cut]);
            hash.add(&input[cut..]);
            assert_eq!(hash.finish(), (0xa129_ca61_49be_45e5, 15));
        }
        let (one, other) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_ne!(one.hash(b"key"), other.hash(b"key"));
        assert_eq!(format!("{one:?}"), "Secret");
        for wrong in ["", "00", "zz0102030405060708090a0b0c0d0e0f"] {
            assert!(Secret::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn keys_are_spelled_apart_at_the_length_of_their_originals() {
        let mut seen = std::collections::HashSet::new();
        for key in [0, 1, 63, 64, u64::MAX, u64::MAX - 1, 1 << 60, 1 << 63] {
            for (asked, bytes) in [(0, 11), (11, 11), (12, 12), (40, 40), (250, 250), (9000, 250)] {
                let mut out = b"x".to_vec();
                put_key(key, asked, &mut out);
                assert_eq!(out.len(), 1 + bytes);
                assert!(out.iter().all(u8::is_ascii_graphic));
                seen.insert(out);
            }
        }
        assert_eq!(seen.len(), 8 * 4, "two of the six lengths are out of range and share keys with a valid length");
    }
}
