//! The selection of keys to copy.

/// A user's selection of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Prefixes of the keys to copy; empty for all keys.
    pub prefixes: Vec<Vec<u8>>,
    /// Prefixes of keys to exclude.
    pub excluded: Vec<Vec<u8>>,
}

impl Choice {
    /// Returns whether `key` is selected.
    pub fn takes(&self, key: &[u8]) -> bool {
        let begins = |prefix: &Vec<u8>| key.starts_with(prefix);
        (self.prefixes.is_empty() || self.prefixes.iter().any(begins)) && !self.excluded.iter().any(begins)
    }
}

/// A sample of `per_million` keys per million. A hash of the key decides, so repeated reads choose the same keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// Keys in the sample per million keys, from 0 to 1,000,000.
    pub per_million: u32,
}

impl Sample {
    /// The sample that contains every key.
    pub const ALL: Self = Self { per_million: 1_000_000 };

    /// Returns whether `key` is in the sample.
    pub fn takes(self, key: &[u8]) -> bool {
        // FNV-1a with a final mix. Without the mix, the last bytes of the key dominate the upper bits of the hash.
        let hash = key
            .iter()
            .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3));
        let mixed = (hash ^ hash >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (mixed * 1_000_000) >> 32 < u64::from(self.per_million)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exclusion_wins_over_a_prefix() {
        let list = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        let choice = Choice { prefixes: list(&["user:", "cart:"]), excluded: list(&["user:tmp"]) };
        assert!(choice.takes(b"user:1") && choice.takes(b"cart:9"));
        assert!(!choice.takes(b"user:tmp:1") && !choice.takes(b"other") && !choice.takes(b""));
        assert!(Choice::default().takes(b"") && Choice::default().takes(b"x"));
    }

    #[test]
    fn sample_size_matches_rate_and_is_exact_at_zero_and_all() {
        let taken = |per_million| {
            let sample = Sample { per_million };
            (0..100_000).filter(|n| sample.takes(format!("key:{n}").as_bytes())).count()
        };
        assert_eq!((taken(0), taken(1_000_000)), (0, 100_000));
        for per_million in [10_000, 250_000] {
            let expected = f64::from(per_million) / 10.0;
            let off = (taken(per_million) as f64 - expected).abs() / (expected * (1.0 - expected / 1e5)).sqrt();
            assert!(off < 5.0, "{per_million}: {off} standard deviations from its size");
        }
    }
}
