//! Zipf's distribution, exact at any exponent from 0, without tables.
//!
//! Rejection-inversion (W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 6(3), 1996). With h(x) = x^-s and its integral H, a number drawn evenly between H's ends
//! is turned back into an x, rounded to a rank k, and taken if it fell on the part of k's strip that belongs to k:
//!
//! ```text
//!   h(1) |█                          u in ( H(1.5) - h(1) , H(n + 1/2) ]
//!        |██                         x = H^-1(u),  k = round(x)
//!        |██▓▓                       k is taken if  k - x <= s'  (nearly always)  or  u >= H(k + 1/2) - h(k)
//!        |████▓▓▓▓▓▓
//!        +----------------
//!         1 2 3 ...
//! ```

use base::prng::Prng;

/// Nearer to 1 than this, an exponent is computed by series that do not lose digits there.
const NEAR_ONE: f64 = 1e-3;

/// Ranks from 1 to n, each as often as rank^-exponent.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    count: u64,
    exponent: f64,
    /// 1 - exponent, and its inverse.
    gap: f64,
    gap_inverse: f64,
    is_near_one: bool,
    low: f64,
    high: f64,
    /// Below this distance to x, a rank is taken without looking.
    sure: f64,
}

impl Zipf {
    /// Over ranks from 1 to `count`, at least 1. `exponent` is not negative and finite.
    pub fn new(count: u64, exponent: f64) -> Self {
        assert!(count > 0 && exponent >= 0.0 && exponent.is_finite(), "no Zipf distribution");
        let gap = 1.0 - exponent;
        let is_near_one = gap.abs() < NEAR_ONE;
        let mut zipf =
            Self { count, exponent, gap, gap_inverse: 1.0 / gap, is_near_one, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(count as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.height(2.0));
        zipf
    }

    /// A rank from 1.
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

    /// h(x).
    fn height(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// H(x), 0 at 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        if self.is_near_one {
            return exp_m1_over(self.gap * log) * log;
        }
        ((self.gap * log).exp() - 1.0) * self.gap_inverse
    }

    /// The x whose H is `at`.
    #[inline]
    fn inverse(&self, at: f64) -> f64 {
        let inner = (at * self.gap).max(-1.0);
        if self.is_near_one {
            return (ln_1p_over(inner) * at).exp();
        }
        ((1.0 + inner).ln() * self.gap_inverse).exp()
    }
}

/// (e^t - 1) / t, at 0 its limit.
fn exp_m1_over(t: f64) -> f64 {
    if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 * (1.0 + t / 3.0) }
}

/// ln(1 + t) / t, at 0 its limit.
fn ln_1p_over(t: f64) -> f64 {
    if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t * (0.5 - t / 3.0) }
}

#[cfg(test)]
mod tests {
    use super::super::chi_square::assert_fits;
    use super::*;

    /// Draws until the rank that is cut at, with all ranks behind in one cell.
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
    fn ranks_come_as_often_as_the_definition_says_at_every_exponent() {
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
