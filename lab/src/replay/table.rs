//! Draws from a discrete distribution that is given by weights.

use base::prng::Prng;

/// A list of weights, from which an index is drawn in O(log n), with a probability proportional to its weight.
#[derive(Clone, Debug)]
pub struct WeightTable {
    sums: Vec<f64>,
}

impl WeightTable {
    /// Creates a table of these weights, whose sum may be any positive number.
    pub fn new(weights: impl IntoIterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let sums: Vec<f64> = weights
            .into_iter()
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        assert!(sum > 0.0, "a distribution needs a weight");
        Self { sums }
    }

    /// Returns the index at quantile `unit` of the distribution; `unit` is in [0, 1).
    pub fn at(&self, unit: f64) -> usize {
        let point = unit * self.sums[self.sums.len() - 1];
        self.sums.partition_point(|sum| *sum <= point).min(self.sums.len() - 1)
    }

    /// Draws a random index.
    pub fn draw(&self, prng: &mut Prng) -> usize {
        self.at(prng.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_indices_match_their_weights() {
        let table = WeightTable::new([1.0, 0.0, 3.0]);
        let mut prng = Prng::new(5);
        let mut counts = [0u32; 3];
        for _ in 0..40_000 {
            counts[table.draw(&mut prng)] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((9_500..10_500).contains(&counts[0]), "{counts:?}");
    }
}
