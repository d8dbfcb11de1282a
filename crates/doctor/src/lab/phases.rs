//! The order of the settings' phases, and the differences between two settings.
//!
//! ```text
//!   round      0    1    2    3          each round has every setting once, in a new random order:
//!   settings  A B  B A  B A  A B         drift (caches, neighbours, temperature) affects all of them alike
//!              \/   \/   \/   \/
//!   pairs     b-a  b-a  b-a  b-a   ->   mean and interval, computed as for the rounds of a proof (`prove::stats`)
//! ```

use base::prng::Prng;

use super::outcome::{Compared, LabPhase, Mean};
use crate::prove::stats;

/// Returns the round and the setting of every phase, in order. The seed determines the order.
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

/// Returns the difference of a figure between the settings `a` and `b`, over the rounds in which both have the figure.
/// Returns `None` if there are too few such rounds.
pub fn compare(phases: &[LabPhase], figure: &str, a: usize, b: usize, seed: u64) -> Option<Compared> {
    let of = |setting: usize, round: u32| {
        let phase = phases.iter().find(|phase| phase.setting == setting && phase.round == round)?;
        phase.figures.get(figure).copied()
    };
    let rounds = phases.iter().map(|phase| phase.round).max()? + 1;
    let (of_a, of_b): (Vec<f64>, Vec<f64>) =
        (0..rounds).filter_map(|round| Some((of(a, round)?, of(b, round)?))).unzip();
    let differs = stats::difference(&of_a, &of_b, seed)?;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Some(Compared {
        figure: figure.to_owned(),
        a,
        b,
        mean_a: mean(&of_a),
        mean_b: mean(&of_b),
        low: differs.low,
        high: differs.high,
        pairs: of_a.len(),
    })
}

/// Returns the mean of a figure under a setting; `None` if too few rounds have the figure.
pub fn mean(phases: &[LabPhase], figure: &str, setting: usize, seed: u64) -> Option<Mean> {
    let own = phases.iter().filter(|phase| phase.setting == setting);
    let values: Vec<f64> = own.filter_map(|phase| phase.figures.get(figure).copied()).collect();
    let interval = stats::mean(&values, seed)?;
    Some(Mean { figure: figure.to_owned(), setting, interval, rounds: values.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(round: u32, setting: usize, value: f64) -> LabPhase {
        let mut phase = LabPhase::begin(setting, round, 0.0);
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
    fn shared_drift_cancels_out_and_a_step_between_settings_is_detected() {
        let drift: Vec<LabPhase> = (0..8)
            .flat_map(|round| {
                [phase(round, 0, f64::from(round) * 100.0), phase(round, 1, f64::from(round) * 100.0 + 5.0)]
            })
            .collect();
        let step = compare(&drift, "x_us", 0, 1, 1).expect("there are eight pairs");
        assert!((step.low - 5.0).abs() < 1e-9 && (step.high - 5.0).abs() < 1e-9 && step.is_clear(), "{step:?}");
        let noise: Vec<LabPhase> = (0..8)
            .flat_map(|round| [phase(round, 0, 10.0), phase(round, 1, if round % 2 == 0 { 14.0 } else { 6.0 })])
            .collect();
        let none = compare(&noise, "x_us", 0, 1, 1).expect("there are eight pairs");
        assert!(none.low < 0.0 && none.high > 0.0 && !none.is_clear(), "{none:?}");
    }

    #[test]
    fn four_pairs_are_too_few_for_an_interval() {
        let phases: Vec<LabPhase> = (0..4).flat_map(|round| [phase(round, 0, 1.0), phase(round, 1, 2.0)]).collect();
        assert_eq!(compare(&phases, "x_us", 0, 1, 1), None);
        assert_eq!(mean(&phases, "x_us", 0, 1), None);
        assert_eq!(compare(&phases, "y_us", 0, 1, 1), None);
    }
}
