//! Draws indices by weight in constant time (Walker's alias method, with Vose's construction, 1991).
//!
//! ```text
//!   word * n  =  cell (high 64 bits) , coin (low 64 bits)          coin below the cell's threshold: the cell itself,
//!                                                                 else the cell's other index
//! ```

/// A distribution over indices.
#[derive(Clone, Debug)]
pub struct Alias {
    cells: Box<[Cell]>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Number of coins, of 2^64, that select the cell's own index.
    threshold: u64,
    other: u32,
}

impl Alias {
    /// Builds the table of these weights, whose sum may be any positive number.
    ///
    /// # Panics
    /// If no weight is above 0, if a weight is negative or not finite, or if there are more than 2^32 weights.
    pub fn new(weights: &[f64]) -> Self {
        let sum: f64 = weights.iter().sum();
        assert!(weights.iter().all(|weight| *weight >= 0.0) && sum > 0.0 && sum.is_finite(), "no distribution");
        let count = u32::try_from(weights.len()).expect("fewer than 2^32 weights");
        let mut parts: Vec<f64> = weights.iter().map(|weight| weight * f64::from(count) / sum).collect();
        let mut cells: Vec<Cell> = (0..count).map(|own| Cell { threshold: u64::MAX, other: own }).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) = (0..count).partition(|index| parts[*index as usize] < 1.0);
        while let (Some(from), Some(to)) = (small.pop(), large.last().copied()) {
            // The index with the small weight gets its share of the cell; an index with a large weight fills the rest.
            let part = parts[from as usize];
            cells[from as usize] = Cell { threshold: (part * 2f64.powi(64)) as u64, other: to };
            parts[to as usize] -= 1.0 - part;
            if parts[to as usize] < 1.0 {
                large.pop();
                small.push(to);
            }
        }
        // Rounding leaves cells without a large index to fill them. They become full, but an index of weight 0 is never
        // drawn.
        let heaviest = (0..count).max_by(|a, b| weights[*a as usize].total_cmp(&weights[*b as usize])).unwrap_or(0);
        for (cell, weight) in cells.iter_mut().zip(weights) {
            if *weight == 0.0 && cell.threshold != 0 {
                *cell = Cell { threshold: 0, other: heaviest };
            }
        }
        Self { cells: cells.into() }
    }

    /// Returns the index selected by 64 random bits.
    #[inline]
    pub fn pick(&self, word: u64) -> usize {
        let product = u128::from(word) * self.cells.len() as u128;
        let (index, coin) = ((product >> 64) as usize, product as u64);
        let cell = &self.cells[index];
        if coin < cell.threshold { index } else { cell.other as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chi_square::assert_fits;
    use super::*;
    use base::prng::Prng;

    #[test]
    fn drawn_indices_match_their_weights() {
        for weights in [vec![1.0], vec![1.0, 0.0, 3.0], vec![0.0, 0.0, 5.0], (1..200).map(f64::from).collect()] {
            let table = Alias::new(&weights);
            let mut prng = Prng::new(5);
            let mut counts = vec![0u64; weights.len()];
            for _ in 0..400_000 {
                counts[table.pick(prng.next_u64())] += 1;
            }
            assert_fits(&counts, &weights);
        }
    }

    #[test]
    #[should_panic(expected = "no distribution")]
    fn a_distribution_without_weight_is_a_bug() {
        Alias::new(&[0.0, 0.0]);
    }
}
