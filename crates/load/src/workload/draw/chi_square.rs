//! Pearson's chi-square test, for the tests of samplers.

/// Asserts that `counts` fit `weights`: the statistic must be within 4.5 standard deviations of its mean, by Wilson and
/// Hilferty's approximation (1931). A correct sampler exceeds this for about 3 of a million seeds. Cells with an
/// expected count below 10 are combined. A cell of weight 0 must be empty.
pub fn assert_fits(counts: &[u64], weights: &[f64]) {
    assert_eq!(counts.len(), weights.len());
    let total: u64 = counts.iter().sum();
    let sum: f64 = weights.iter().sum();
    let (mut statistic, mut cells) = (0.0, 0u32);
    let (mut seen, mut expected) = (0.0, 0.0);
    let mut close = |seen: &mut f64, expected: &mut f64| {
        statistic += (*seen - *expected).powi(2) / *expected;
        cells += 1;
        (*seen, *expected) = (0.0, 0.0);
    };
    for (count, weight) in counts.iter().zip(weights) {
        assert!(*weight > 0.0 || *count == 0, "{count} draws of weight 0");
        seen += *count as f64;
        expected += weight / sum * total as f64;
        if expected >= 10.0 {
            close(&mut seen, &mut expected);
        }
    }
    if expected > 0.0 {
        close(&mut seen, &mut expected);
    }
    if cells < 2 {
        return;
    }
    let freedom = f64::from(cells - 1);
    let spread = 2.0 / (9.0 * freedom);
    let deviation = ((statistic / freedom).cbrt() - (1.0 - spread)) / spread.sqrt();
    assert!(deviation < 4.5, "chi-square {statistic:.1} over {freedom} degrees of freedom, {deviation:.1} sigma");
}

#[test]
fn chi_square_rejects_wrong_distribution_and_accepts_right_distribution() {
    assert_fits(&[1000, 2030, 2970], &[1.0, 2.0, 3.0]);
    let wrong = std::panic::catch_unwind(|| assert_fits(&[1200, 1900, 2900], &[1.0, 2.0, 3.0]));
    assert!(wrong.is_err());
}
