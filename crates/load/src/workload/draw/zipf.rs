//! Zipf's distribution, exact for any exponent from 0, without tables.
//!
//! Rejection-inversion (W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 6(3), 1996). H is the integral of h(x) = x^-s. A number drawn evenly between H's ends is
//! converted back to an x and rounded to a rank k. The rank is accepted if the number lies on k's part of the strip:
//!
//! ```text
//!   h(1) |█                          u in ( H(1.5) - h(1) , H(n + 1/2) ]
//!        |██                         x = H^-1(u),  k = round(x)
//!        |██▓▓                       k is accepted if  k - x <= s'  (nearly always)  or  u >= H(k + 1/2) - h(k)
//!        |████▓▓▓▓▓▓
//!        +----------------
//!         1 2 3 ...
//! ```

use base::prng::Prng;

/// Distance to 1 below which an exponent is computed by series, to keep precision.
const NEAR_ONE: f64 = 1e-3;

/// Draws ranks from 1 to n, each with a frequency proportional to rank^-exponent.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    count: u64,
    exponent: f64,
    /// 1 - exponent, and the inverse of this.
    gap: f64,
    gap_inverse: f64,
    is_near_one: bool,
    low: f64,
    high: f64,
    /// Distance to x below which a rank is accepted without a further test.
    sure: f64,
}

impl Zipf {
    /// Creates the distribution over ranks from 1 to `count`, at least 1. `exponent` must be finite and at least 0.
    pub fn new(count: u64, exponent: f64) -> Self {
        assert!(count > 0 && exponent >= 0.0 && exponent.is_finite(), "invalid parameters of a Zipf distribution");
        let gap = 1.0 - exponent;
        let is_near_one = gap.abs() < NEAR_ONE;
        let mut zipf =
            Self { count, exponent, gap, gap_inverse: 1.0 / gap, is_near_one, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(count as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.height(2.0));
        zipf
    }

    /// Draws a rank from 1.
    #[inline]
    pub fn draw(&self, prng: &mut Prng) -> u64 {
        if self.exponent == 0.0 {
            return 1 + prng.below(self.count);
        }
        loop {
            let at = self.high + prng.unit() * (self.low - self.high);
            let x = self.inverse(at);
            let rank = (x + 0.5).clamp(1.0, self.count as f64).floor();
            if rank - x <= self.sure || at >= self.integral(rank + 0.5) - self.height(rank) {
                return rank as u64;
            }
        }
    }

    /// Returns h(x).
    fn height(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// Returns H(x), with H(1) = 0.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        if self.is_near_one {
            return exp_m1_over(self.gap * log) * log;
        }
        ((self.gap * log).exp() - 1.0) * self.gap_inverse
    }

    /// Returns the x with H(x) = `at`.
    #[inline]
    fn inverse(&self, at: f64) -> f64 {
        let inner = (at * self.gap).max(-1.0);
        if self.is_near_one {
            return (ln_1p_over(inner) * at).exp();
        }
        ((1.0 + inner).ln() * self.gap_inverse).exp()
    }
}

/// Returns (e^t - 1) / t, and its limit at 0.
fn exp_m1_over(t: f64) -> f64 {
    if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 * (1.0 + t / 3.0) }
}

/// Returns ln(1 + t) / t, and its limit at 0.
fn ln_1p_over(t: f64) -> f64 {
    if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t * (0.5 - t / 3.0) }
}

#[cfg(test)]
mod tests {
    use super::super::chi_square::assert_fits;
    use super::*;

    /// Checks the frequencies of drawn ranks. The highest ranks are counted in one cell.
    fn check(count: u64, exponent: f64, draws: u64, seed: u64) {
        const CELLS: u64 = 5000;
        let zipf = Zipf::new(count, exponent);
        let mut prng = Prng::new(seed);
        let cells = count.min(CELLS);
        let mut counts = vec![0u64; cells as usize + 1];
        for _ in 0..draws {
            let rank = zipf.draw(&mut prng);
            assert!((1..=count).contains(&rank), "{rank} of {count}");
            counts[(rank - 1).min(cells) as usize] += 1;
        }
        let mut weights: Vec<f64> = (1..=cells).map(|rank| (rank as f64).powf(-exponent)).collect();
        weights.push((cells + 1..=count).map(|rank| (rank as f64).powf(-exponent)).sum());
        assert_fits(&counts, &weights);
    }

    #[test]
    fn zipf_ranks_match_definition_at_every_exponent() {
        for (at, exponent) in
            [0.0, 0.2, 0.5, 0.9, 0.99, 0.9995, 1.0, 1.0005, 1.01, 1.2, 2.0, 3.5].into_iter().enumerate()
        {
            for (count, draws) in [(1, 10), (2, 50_000), (10, 50_000), (1000, 300_000), (1_000_000, 300_000)] {
                check(count, exponent, draws, 40 + at as u64);
            }
        }
    }

    #[test]
    fn steep_and_huge_distributions_stay_inside_their_ranks() {
        for exponent in [0.01, 0.99, 1.0, 5.0, 50.0] {
            let zipf = Zipf::new(1 << 40, exponent);
            let mut prng = Prng::new(9);
            for _ in 0..10_000 {
                assert!((1..=1 << 40).contains(&zipf.draw(&mut prng)));
            }
        }
    }
}
