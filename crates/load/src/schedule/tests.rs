//! Compares the schedule with computed instants and with statistics, and tests live changes of the rate.

use super::*;
use base::prng::Prng;
use std::sync::Arc;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn rate(pace: Spacing, shape: RateShape) -> SendPlan {
    SendPlan::Rate { pace, shape }
}

/// Returns the instants of all threads before `end_ns`, sorted.
fn instants(plan: &SendPlan, rate_per_s: f64, threads: usize, seed: u64, end_ns: u64) -> Vec<u64> {
    let mut all = Vec::new();
    for thread in 0..threads {
        let mut intents = Intents::new(plan, rate_per_s, thread, threads, seed);
        let mut last = 0;
        while intents.peek_ns() < end_ns {
            let at = intents.take_ns();
            assert!(at >= last, "instants never descend");
            last = at;
            all.push(at);
        }
    }
    all.sort_unstable();
    all
}

#[test]
fn threads_sharing_a_constant_rate_are_evenly_interleaved() {
    for threads in [1, 2, 3, 7] {
        let all = instants(&SendPlan::constant(), 1_000.0, threads, 1, 10 * S);
        assert_eq!(all.len(), 10_000, "{threads} threads");
        let spaced = |(number, at): (usize, &u64)| at.abs_diff(number as u64 * MS) <= 1;
        assert!(all.iter().enumerate().all(spaced), "{threads} threads");
    }
}

#[test]
fn an_odd_rate_does_not_drift_over_hours() {
    let mut intents = Intents::new(&SendPlan::constant(), 3_333.0, 0, 1, 1);
    let mut last = 0;
    for _ in 0..=3_333 * 3_600 {
        last = intents.take_ns();
    }
    assert!(last.abs_diff(3_600 * S) <= 2, "{last}");
}

#[test]
fn poisson_distances_are_exponential() {
    let all = instants(&SendPlan::poisson(), 100_000.0, 3, 11, 4 * S);
    let mean = 10_000.0;
    // Deciles of the exponential distribution: all ten classes have the same probability.
    let mut counts = [0u64; 10];
    for pair in all.windows(2) {
        let below = 1.0 - (-((pair[1] - pair[0]) as f64) / mean).exp();
        counts[((below * 10.0) as usize).min(9)] += 1;
    }
    let expected = (all.len() - 1) as f64 / 10.0;
    let chi: f64 = counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
    // With nine degrees of freedom, one seed in a thousand exceeds 27.9. The seed is fixed.
    assert!(chi < 27.9, "chi square {chi}: {counts:?}");
    // The gaps are independent: consecutive gaps are not correlated.
    let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / mean - 1.0).collect();
    let correlation: f64 = gaps.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / gaps.len() as f64;
    assert!(correlation.abs() < 0.01, "{correlation}");
}

#[test]
fn schedule_is_deterministic_per_seed_and_differs_per_thread() {
    let take = |seed, thread| {
        let mut intents = Intents::new(&SendPlan::poisson(), 1_000.0, thread, 2, seed);
        (0..50).map(|_| intents.take_ns()).collect::<Vec<_>>()
    };
    assert_eq!(take(3, 0), take(3, 0));
    assert_ne!(take(3, 0), take(4, 0));
    assert_ne!(take(3, 0), take(3, 1));
}

/// For every shape, the numerically computed integral of the factor must reach a whole number at each instant.
#[test]
fn rate_shapes_place_requests_by_their_integral() {
    let shapes = [
        RateShape::Flat,
        RateShape::OnOff { on_ns: 30 * MS, off_ns: 170 * MS },
        RateShape::OnOff { on_ns: 50 * MS, off_ns: 0 },
        RateShape::Ramp { from: 0.0, to: 2.0, over_ns: 3 * S },
        RateShape::Ramp { from: 1.5, to: 0.2, over_ns: 3 * S },
        RateShape::Ramp { from: 1.0, to: 1.0, over_ns: S },
        RateShape::Sine { period_ns: 700 * MS, swing: 0.9 },
        RateShape::Sine { period_ns: 700 * MS, swing: 1.0 },
    ];
    for shape in shapes {
        shape.check().unwrap();
        let all = instants(&rate(Spacing::Even, shape), 2_000.0, 1, 1, 5 * S);
        for (number, at) in all.iter().enumerate() {
            let mass = shape.mass(0.0, *at as f64) * 2_000.0 / 1e9;
            assert!((mass - number as f64).abs() < 0.01, "{shape:?}: request {number} at {at} has mass {mass}");
        }
        let whole = shape.mass(0.0, 5e9) * 2_000.0 / 1e9;
        assert!((all.len() as f64 - whole).abs() <= 1.01, "{shape:?}: {} of {whole}", all.len());
    }
}

#[test]
fn the_integral_of_each_shape_is_the_sum_of_its_factor() {
    // The factors again, as plain formulas of time.
    let factor = |shape: RateShape, at: f64| match shape {
        RateShape::Flat => 1.0,
        RateShape::OnOff { on_ns, off_ns } => {
            let (on, whole) = (on_ns as f64, (on_ns + off_ns) as f64);
            if at % whole < on { whole / on } else { 0.0 }
        }
        RateShape::Ramp { from, to, over_ns } => from + (to - from) * (at / over_ns as f64).min(1.0),
        RateShape::Sine { period_ns, swing } => 1.0 + swing * (std::f64::consts::TAU * at / period_ns as f64).sin(),
    };
    let shapes = [
        RateShape::OnOff { on_ns: 30 * MS, off_ns: 170 * MS },
        RateShape::Ramp { from: 0.1, to: 2.0, over_ns: 3 * S },
        RateShape::Sine { period_ns: 700 * MS, swing: 0.9 },
    ];
    for shape in shapes {
        let (step, mut sum) = (10_000.0, 0.0);
        for number in 0..400_000 {
            sum += factor(shape, (f64::from(number) + 0.5) * step) * step;
        }
        let mass = shape.mass(0.0, 4e9);
        assert!((mass - sum).abs() < 4e9 * 1e-4, "{shape:?}: {mass} and {sum}");
    }
}

#[test]
fn on_off_bursts_are_silent_in_between_and_preserve_mean_rate() {
    let shape = RateShape::OnOff { on_ns: 20 * MS, off_ns: 80 * MS };
    let all = instants(&rate(Spacing::Poisson, shape), 10_000.0, 2, 5, 20 * S);
    assert!((all.len() as f64 / 200_000.0 - 1.0).abs() < 0.02, "{}", all.len());
    assert!(all.iter().all(|at| at % (100 * MS) <= 20 * MS));
}

#[test]
fn a_changed_rate_holds_from_its_instant_on_and_nothing_is_lost_or_bunched() {
    let mut prng = Prng::new(17);
    for round in 0..200 {
        let shape = match round % 3 {
            0 => RateShape::Flat,
            1 => RateShape::Sine { period_ns: 300 * MS, swing: 0.8 },
            _ => RateShape::OnOff { on_ns: 40 * MS, off_ns: 60 * MS },
        };
        let mut intents = Intents::new(&rate(Spacing::Even, shape), 1_000.0, 0, 1, round);
        // Computes the number of due requests up to each change by the integral. At a third of the changes, due
        // requests are not taken before a later change.
        let (mut mass, mut from, mut rate_now) = (0.0, 0u64, 1_000.0);
        let mut taken = 0u64;
        for _ in 0..20 {
            let at = from + prng.below(50 * MS);
            if prng.chance(2, 3) {
                while intents.peek_ns() <= at {
                    intents.take_ns();
                    taken += 1;
                }
            }
            mass += shape.mass(from as f64, at as f64) * rate_now / 1e9;
            (from, rate_now) = (at, prng.below(20_000) as f64);
            intents.change_rate(at, rate_now);
        }
        let end = from + S;
        mass += shape.mass(from as f64, end as f64) * rate_now / 1e9;
        let mut last = 0;
        while intents.peek_ns() <= end {
            let at = intents.take_ns();
            assert!(at >= last);
            last = at;
            taken += 1;
        }
        // The first request is due at mass 0.
        assert!((taken as f64 - 1.0 - mass).abs() <= 1.01, "round {round}: {taken} of {mass}");
    }
}

#[test]
fn zero_rate_schedules_nothing_until_rate_changes() {
    let mut intents = Intents::new(&SendPlan::constant(), 1_000.0, 0, 1, 1);
    assert_eq!((intents.take_ns(), intents.take_ns()), (0, MS));
    intents.change_rate(MS + 400_000, 0.0);
    assert_eq!(intents.peek_ns(), u64::MAX);
    intents.change_rate(9 * MS, 500.0);
    // Four tenths of the interval had passed before the pause; six tenths at half the rate take 1.2 ms.
    assert_eq!(intents.take_ns(), 9 * MS + 1_200_000);
    assert_eq!(intents.take_ns(), 11 * MS + 1_200_000);
}

#[test]
fn rate_changes_beyond_capacity_end_at_last_rate() {
    let mut intents = Intents::new(&SendPlan::constant(), 1.0, 0, 1, 1);
    intents.take_ns();
    for number in 0..1_000 {
        intents.change_rate(number * 1_000, number as f64);
    }
    intents.change_rate(MS, 1_000_000.0);
    let first = intents.take_ns();
    assert!(first < 3 * MS, "{first}");
    assert_eq!(intents.take_ns() - first, 1_000);
}

#[test]
fn a_trace_is_dealt_out_to_the_threads_and_divided_by_its_speed() {
    let offsets_ns: Arc<[u64]> = (0..1_000u64).map(|number| number * number * 1_000).collect();
    let plan = SendPlan::Trace { instants: Instants::List(offsets_ns.clone()), speed: 2.0 };
    plan.check().unwrap();
    let all = instants(&plan, 0.0, 3, 1, u64::MAX);
    assert_eq!(all, offsets_ns.iter().map(|offset| offset / 2).collect::<Vec<_>>());
    let unsorted = SendPlan::Trace { instants: Instants::List([5, 4].into()), speed: 1.0 };
    assert!(unsorted.check().unwrap_err().0.contains("offset 2"));
    assert!(SendPlan::Trace { instants: Instants::List([].into()), speed: 0.0 }.check().is_err());
}

#[test]
fn shapes_out_of_range_are_refused() {
    for shape in [
        RateShape::OnOff { on_ns: 0, off_ns: 1 },
        RateShape::Ramp { from: 1.0, to: 0.0, over_ns: 1 },
        RateShape::Ramp { from: f64::NAN, to: 1.0, over_ns: 1 },
        RateShape::Sine { period_ns: 1, swing: 1.5 },
    ] {
        assert!(rate(Spacing::Even, shape).check().is_err(), "{shape:?}");
    }
}
