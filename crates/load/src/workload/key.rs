//! Converts a key's number to its text and back.
//!
//! ```text
//!   prefix | digits of the number, zeros before them          decimal if all numbers fit, otherwise base 64
//!   user:    000000000042                                     user:00000000000g
//! ```
//!
//! Two numbers of one space never have the same text: texts of one length have the same number of digits, and the
//! digits differ.

use base::prng::split_mix;
use protocol::number::write_digits;

use super::draw::lengths::Lengths;
use super::model::KeySpace;

/// The longest memcached key, in bytes.
pub const MEMCACHED_BYTES_MAX: u64 = protocol::memcache::KEY_BYTES_MAX as u64;
/// The longest key of any protocol, in bytes.
pub const BYTES_MAX: u64 = 65_536;
/// Number of key numbers that a space reserves if some keys are requested only once. With this many numbers, random
/// draws hardly ever repeat.
pub const ONCE_NUMBERS: u64 = 1 << 36;

const DIGITS_64: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
/// The property numbers of [`fact`], one per property that follows from a key's number.
const FACT_KEY_LENGTH: u64 = 1;
const FACT_VALUE_LENGTH: u64 = 2;
const FACT_TTL: u64 = 3;

/// Returns 64 bits that follow from a key's number and a property.
#[inline]
const fn fact(number: u64, which: u64) -> u64 {
    split_mix(number ^ which.wrapping_mul(0xA076_1D64_78BD_642F))
}

/// Returns the random word that selects the length of a key's value, or of each field of a hash.
#[inline]
pub const fn value_word(number: u64, field: u64) -> u64 {
    fact(number ^ (field << 48), FACT_VALUE_LENGTH)
}

/// Returns the random word that selects a key's time to live.
#[inline]
pub const fn ttl_word(number: u64) -> u64 {
    fact(number, FACT_TTL)
}

/// Returns the number of values that `digits` digits can distinguish, saturating.
pub fn numbers_of(digits: u64, is_decimal: bool) -> u64 {
    let base: u64 = if is_decimal { 10 } else { 64 };
    base.checked_pow(u32::try_from(digits).unwrap_or(u32::MAX)).unwrap_or(u64::MAX)
}

/// Returns the number of keys that `space` must distinguish.
pub fn numbers_wanted(space: &KeySpace) -> u64 {
    if space.once.0 > 0.0 { space.count.saturating_add(ONCE_NUMBERS) } else { space.count }
}

/// Returns the length of the shortest sufficient keys of `space`, in bytes.
pub fn bytes_least(space: &KeySpace) -> u64 {
    let wanted = numbers_wanted(space);
    let digits = (1..).find(|digits| numbers_of(*digits, false) >= wanted).unwrap_or(u64::MAX);
    space.prefix.len() as u64 + digits
}

/// The spelling of the keys of one space.
#[derive(Clone, Debug)]
pub struct KeyText {
    prefix_bytes: usize,
    lengths: Lengths,
    /// The prefix, followed by as many zeros as the longest key has.
    blank: Box<[u8]>,
    is_decimal: bool,
    /// Number of digits of the largest number.
    digits: usize,
    salt: u64,
    once_from: u64,
}

impl KeyText {
    /// Creates the spelling of `space`, which must have been validated.
    pub fn new(space: &KeySpace) -> Self {
        let (least, most) = space.key_bytes.bounds();
        let wanted = numbers_wanted(space);
        let prefix = space.prefix.as_bytes();
        let is_decimal = numbers_of(least - prefix.len() as u64, true) >= wanted;
        let digits = (1..).find(|digits| numbers_of(*digits, is_decimal) >= wanted).unwrap_or(1) as usize;
        let mut blank = prefix.to_vec();
        blank.resize(most as usize, b'0');
        let salt = prefix.iter().fold(0, |salt, byte| split_mix(salt ^ u64::from(*byte)));
        let once_from = space.count;
        Self {
            prefix_bytes: prefix.len(),
            lengths: Lengths::new(&space.key_bytes),
            blank: blank.into(),
            is_decimal,
            digits,
            salt,
            once_from,
        }
    }

    /// Returns the number of a key that is requested once, from 64 random bits.
    pub const fn once(&self, word: u64) -> u64 {
        self.once_from + word % ONCE_NUMBERS
    }

    /// Appends the text of key `number` and returns its length in bytes.
    #[inline]
    pub fn put(&self, number: u64, out: &mut Vec<u8>) -> usize {
        let bytes = match self.lengths.fixed() {
            Some(bytes) => bytes,
            None => self.lengths.pick(fact(number, FACT_KEY_LENGTH)),
        } as usize;
        out.extend_from_slice(&self.blank[..bytes]);
        let end = out.len();
        let place = &mut out[end - self.digits..];
        if self.is_decimal {
            write_digits(place, number);
        } else {
            let mut rest = number;
            for digit in place.iter_mut().rev() {
                *digit = DIGITS_64[(rest & 63) as usize];
                rest >>= 6;
            }
        }
        bytes
    }

    /// Returns the number of the key `text`; `None` if it does not belong to this space.
    pub fn number(&self, text: &[u8]) -> Option<u64> {
        let zeros_end = text.len().checked_sub(self.digits)?;
        if zeros_end < self.prefix_bytes
            || text.len() > self.blank.len()
            || text[..zeros_end] != self.blank[..zeros_end]
        {
            return None;
        }
        let value = |byte: u8| match byte {
            b'0'..=b'9' => Some(u64::from(byte - b'0')),
            b'A'..=b'Z' if !self.is_decimal => Some(u64::from(byte - b'A') + 10),
            b'a'..=b'z' if !self.is_decimal => Some(u64::from(byte - b'a') + 36),
            b'-' if !self.is_decimal => Some(62),
            b'_' if !self.is_decimal => Some(63),
            _ => None,
        };
        let base = if self.is_decimal { 10 } else { 64 };
        let mut number = 0u64;
        for byte in &text[zeros_end..] {
            number = number.checked_mul(base)?.checked_add(value(*byte)?)?;
        }
        Some(number)
    }

    /// Returns the mark in the value of key `number`. Marks differ between keys, including keys with other prefixes.
    #[inline]
    pub const fn mark(&self, number: u64) -> u64 {
        split_mix(number ^ self.salt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::model::{LengthStep, Sizes};
    use crate::workload::units::Share;
    use std::collections::HashSet;

    fn text(keys: &KeyText, number: u64) -> Vec<u8> {
        let mut out = b"x".to_vec();
        let bytes = keys.put(number, &mut out);
        assert_eq!(out.len(), 1 + bytes);
        out.split_off(1)
    }

    fn space(count: u64, prefix: &str, key_bytes: Sizes) -> KeySpace {
        KeySpace { count, prefix: prefix.into(), key_bytes, ..KeySpace::default() }
    }

    #[test]
    fn keys_are_distinct_have_configured_length_and_parse_back() {
        let steps = vec![LengthStep { from: 7, to: 9, weight: 1.0 }, LengthStep { from: 40, to: 250, weight: 2.0 }];
        for (count, prefix, sizes) in [
            (100_000, "", Sizes::Fixed(16)),
            (100_000, "", Sizes::Fixed(4)),
            (262_144, "", Sizes::Fixed(3)),
            (100_000, "user:", Sizes::Range(10, 30)),
            (50_000, "k", Sizes::Steps(steps)),
        ] {
            let keys = KeyText::new(&space(count, prefix, sizes.clone()));
            let (least, most) = sizes.bounds();
            let mut seen = HashSet::new();
            for number in 0..count {
                let text = text(&keys, number);
                assert!((least..=most).contains(&(text.len() as u64)), "{} bytes", text.len());
                assert!(text.starts_with(prefix.as_bytes()));
                assert!(text.iter().all(u8::is_ascii_graphic));
                assert_eq!(keys.number(&text), Some(number));
                assert!(seen.insert(text));
            }
        }
    }

    #[test]
    fn decimal_is_used_where_it_fits() {
        assert_eq!(text(&KeyText::new(&space(10_000, "", Sizes::Fixed(4))), 42), b"0042");
        assert_eq!(text(&KeyText::new(&space(10_001, "", Sizes::Fixed(4))), 42), b"000g");
        assert_eq!(text(&KeyText::new(&space(1 << 40, "p-", Sizes::Fixed(20))), 7), b"p-000000000000000007");
    }

    #[test]
    fn the_text_of_another_space_is_no_number() {
        let keys = KeyText::new(&space(1000, "a:", Sizes::Fixed(10)));
        for text in ["b:00000001", "a:0000000x", "a:1", "", "a:10000000", "a:000000000000000001"] {
            assert_eq!(keys.number(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn one_time_keys_are_outside_key_space_and_have_distinct_texts() {
        let once = KeySpace { once: Share(0.5), ..space(1000, "", Sizes::Fixed(8)) };
        let keys = KeyText::new(&once);
        assert_eq!(bytes_least(&once), 7);
        for word in [0, 1, u64::MAX, 1 << 36] {
            let number = keys.once(word);
            assert!(number >= 1000);
            assert_eq!(keys.number(&text(&keys, number)), Some(number));
        }
    }

    #[test]
    fn equal_numbers_of_two_prefixes_have_two_marks() {
        let (a, b) = (space(10, "a", Sizes::Fixed(8)), space(10, "b", Sizes::Fixed(8)));
        assert_ne!(KeyText::new(&a).mark(3), KeyText::new(&b).mark(3));
    }
}
