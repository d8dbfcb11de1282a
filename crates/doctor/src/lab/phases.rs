//! Which setting has its phase when, and how two settings differ.
//!
//! ```text
//!   round      0    1    2    3          every round has each setting once, in an order drawn anew:
//!   settings  A B  B A  B A  A B         what drifts (caches, neighbours, temperature) falls on all alike
//!              \/   \/   \/   \/
//!   pairs     b-a  b-a  b-a  b-a   ->   mean, and its interval by resampling the pairs
//! ```

use base::prng::Prng;

use super::outcome::{Compared, Phase};

/// Times that the pairs are drawn anew for an interval.
const RESAMPLES: usize = 4000;
/// What an interval leaves out at each end.
const TAIL: f64 = 0.025;
/// Pairs below which an interval says nothing.
const PAIRS_MIN: usize = 3;

/// The round and setting of every phase.
pub fn order(settings: usize, rounds: u32, seed: u64) -> Vec<(u32, usize)> {
    let mut prng = Prng::new(seed);
    let mut phases = Vec::new();
    for round in 0..rounds {
        let mut left: Vec<usize> = (0..settings).collect();
        while !left.is_empty() {
            let next = left.swap_remove(prng.below(left.len() as u64) as usize);
            phases.push((round, next));
        }
    }
    phases
}

/// How a figure differs between settings `a` and `b`, in the rounds that have it of both.
pub fn compare(phases: &[Phase], figure: &str, a: usize, b: usize, seed: u64) -> Option<Compared> {
    let of = |setting: usize, round: u32| {
        let phase = phases.iter().find(|phase| phase.setting == setting && phase.round == round)?;
        phase.figures.get(figure).copied()
    };
    let rounds = phases.iter().map(|phase| phase.round).max()? + 1;
    let pairs: Vec<(f64, f64)> = (0..rounds).filter_map(|round| Some((of(a, round)?, of(b, round)?))).collect();
    if pairs.len() < PAIRS_MIN {
        return None;
    }
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / pairs.len() as f64;
    let mut prng = Prng::new(seed);
    let mut drawn: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let mut pick = (0..pairs.len()).map(|_| pairs[prng.below(pairs.len() as u64) as usize]).map(|(a, b)| b - a);
            mean(&mut pick)
        })
        .collect();
    drawn.sort_by(f64::total_cmp);
    let end = (RESAMPLES as f64 * TAIL) as usize;
    Some(Compared {
        figure: figure.to_owned(),
        a,
        b,
        mean_a: mean(&mut pairs.iter().map(|pair| pair.0)),
        mean_b: mean(&mut pairs.iter().map(|pair| pair.1)),
        low: drawn[end],
        high: drawn[RESAMPLES - 1 - end],
        pairs: pairs.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(round: u32, setting: usize, value: f64) -> Phase {
        let mut phase = Phase::begin(setting, round, 0.0);
        phase.figures.insert("x_us".to_owned(), value);
        phase
    }

    #[test]
    fn every_round_has_every_setting_once_and_orders_differ() {
        let order = order(3, 20, 7);
        let rounds: Vec<Vec<usize>> =
            order.chunks(3).map(|chunk| chunk.iter().map(|(_, setting)| *setting).collect()).collect();
        for (at, round) in rounds.iter().enumerate() {
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!((sorted, order[at * 3].0), (vec![0, 1, 2], at as u32));
        }
        assert!(rounds.iter().any(|round| *round != rounds[0]));
    }

    #[test]
    fn drift_that_both_settings_share_is_no_difference_and_a_step_is_one() {
        let drift: Vec<Phase> = (0..8)
            .flat_map(|round| {
                [phase(round, 0, f64::from(round) * 100.0), phase(round, 1, f64::from(round) * 100.0 + 5.0)]
            })
            .collect();
        let step = compare(&drift, "x_us", 0, 1, 1).expect("there are eight pairs");
        assert!((step.low - 5.0).abs() < 1e-9 && (step.high - 5.0).abs() < 1e-9 && step.is_clear(), "{step:?}");
        let noise: Vec<Phase> = (0..8)
            .flat_map(|round| [phase(round, 0, 10.0), phase(round, 1, if round % 2 == 0 { 14.0 } else { 6.0 })])
            .collect();
        let none = compare(&noise, "x_us", 0, 1, 1).expect("there are eight pairs");
        assert!(none.low < 0.0 && none.high > 0.0 && !none.is_clear(), "{none:?}");
    }

    #[test]
    fn two_pairs_are_too_few_for_an_interval() {
        let phases: Vec<Phase> = (0..2).flat_map(|round| [phase(round, 0, 1.0), phase(round, 1, 2.0)]).collect();
        assert_eq!(compare(&phases, "x_us", 0, 1, 1), None);
        assert_eq!(compare(&phases, "y_us", 0, 1, 1), None);
    }
}
