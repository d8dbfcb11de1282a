//! Draws lengths from [`Sizes`].

use base::prng::split_mix;

use super::super::model::Sizes;
use super::alias::Alias;

/// A prepared distribution of lengths.
#[derive(Clone, Debug)]
pub struct Lengths(LengthDistribution);

#[derive(Clone, Debug)]
enum LengthDistribution {
    Fixed(u64),
    Range { from: u64, count: u64 },
    Steps { alias: Alias, steps: Box<[(u64, u64)]> },
}

impl Lengths {
    /// Prepares `sizes`, which must have been validated.
    pub fn new(sizes: &Sizes) -> Self {
        Self(match sizes {
            Sizes::Fixed(bytes) => LengthDistribution::Fixed(*bytes),
            Sizes::Range(from, to) if from == to => LengthDistribution::Fixed(*from),
            Sizes::Range(from, to) => LengthDistribution::Range { from: *from, count: to - from + 1 },
            Sizes::Steps(steps) => LengthDistribution::Steps {
                alias: Alias::new(&steps.iter().map(|step| step.weight).collect::<Vec<_>>()),
                steps: steps.iter().map(|step| (step.from, step.to - step.from + 1)).collect(),
            },
        })
    }

    /// Returns the length in bytes that 64 random bits select.
    #[inline]
    pub fn pick(&self, word: u64) -> u64 {
        match &self.0 {
            LengthDistribution::Fixed(bytes) => *bytes,
            LengthDistribution::Range { from, count } => from + below(word, *count),
            LengthDistribution::Steps { alias, steps } => {
                let (from, count) = steps[alias.pick(word)];
                if count == 1 { from } else { from + below(split_mix(word), count) }
            }
        }
    }

    /// Returns the length if it is fixed.
    pub fn fixed(&self) -> Option<u64> {
        if let LengthDistribution::Fixed(bytes) = self.0 { Some(bytes) } else { None }
    }
}

fn below(word: u64, bound: u64) -> u64 {
    ((u128::from(word) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::super::chi_square::assert_fits;
    use super::*;
    use crate::workload::model::LengthStep;
    use base::prng::Prng;

    fn counts(sizes: &Sizes, cells: usize) -> Vec<u64> {
        let lengths = Lengths::new(sizes);
        let mut prng = Prng::new(11);
        let mut counts = vec![0; cells];
        for _ in 0..300_000 {
            counts[lengths.pick(prng.next_u64()) as usize] += 1;
        }
        counts
    }

    #[test]
    fn drawn_lengths_match_size_distribution() {
        assert_fits(&counts(&Sizes::Fixed(7), 8), &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
        let even: Vec<f64> = (0..300).map(|bytes| f64::from(u8::from((100..=250).contains(&bytes)))).collect();
        assert_fits(&counts(&Sizes::Range(100, 250), 300), &even);
        let steps = vec![
            LengthStep { from: 0, to: 0, weight: 3.0 },
            LengthStep { from: 10, to: 19, weight: 5.0 },
            LengthStep { from: 15, to: 15, weight: 0.0 },
            LengthStep { from: 29, to: 29, weight: 2.0 },
        ];
        let mut weights = vec![0.0; 30];
        (weights[0], weights[29]) = (3.0, 2.0);
        weights[10..20].fill(0.5);
        assert_fits(&counts(&Sizes::Steps(steps), 30), &weights);
    }
}
