//! A small seedable generator (xoshiro256++ seeded by SplitMix64; Blackman and Vigna, 2018).
//!
//! One seed reproduces a whole run, so tests print theirs. Not for secrets.

/// The generator's state.
#[derive(Clone, Debug)]
pub struct Prng {
    state: [u64; 4],
}

/// Performs one step of SplitMix64. Also serves as a cheap bijective mixer of 64 bits.
pub const fn split_mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Prng {
    /// Creates a generator whose whole sequence follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut state = [0; 4];
        let mut s = seed;
        for word in &mut state {
            *word = split_mix(s);
            s = s.wrapping_add(0x9E37_79B9_7F4A_7C15);
        }
        Self { state }
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a number below `bound` (which must not be 0), by multiply-shift. The bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "below(0) has no answer");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in [0, 1) with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with probability `numerator / denominator`.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_repeats_the_sequence_and_another_seed_differs() {
        let take = |seed| {
            let mut prng = Prng::new(seed);
            [prng.next_u64(), prng.next_u64(), prng.below(1000)]
        };
        assert_eq!(take(7), take(7));
        assert_ne!(take(7), take(8));
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut prng = Prng::new(1);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[prng.below(10) as usize] = true;
        }
        assert!(seen.iter().all(|s| *s));
    }
}
