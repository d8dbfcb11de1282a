//! The estimate of the number of distinct elements from a histogram of the registers.
//!
//! Source: Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", arXiv:1702.01284, algorithm 6.

use super::{HASH_BITS_LEFT, REGISTERS};

/// The number of registers with each value.
pub(super) type Histogram = [u32; 64];

/// The limit of the constant alpha for many registers: 1 / (2 ln 2).
const ALPHA: f64 = 0.5 / std::f64::consts::LN_2;

/// Returns the estimated number of distinct elements.
pub(super) fn estimate(histogram: &Histogram) -> u64 {
    let registers = REGISTERS as f64;
    let saturated = f64::from(histogram[HASH_BITS_LEFT as usize + 1]);
    let mut sum = registers * tau((registers - saturated) / registers);
    for value in (1..=HASH_BITS_LEFT as usize).rev() {
        sum = (sum + f64::from(histogram[value])) * 0.5;
    }
    sum += registers * sigma(f64::from(histogram[0]) / registers);
    (ALPHA * registers * registers / sum).round() as u64
}

/// Returns the correction for registers of value 0, whose share is `x`.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut factor, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * factor;
        factor += factor;
        if sum == before {
            return sum;
        }
    }
}

/// Returns the correction for registers of the maximum value. `x` is the share of all other registers.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut factor, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}
