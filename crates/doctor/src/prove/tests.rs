use super::*;

fn measured(p999_ns: f64, rate: Option<f64>) -> Measured {
    let mut figures = BTreeMap::from([("p999_ns".to_owned(), p999_ns), ("involuntary_per_s".to_owned(), 0.0)]);
    figures.extend(rate.map(|rate| ("rate_within_slo_per_s".to_owned(), rate)));
    Measured { figures, fault: None }
}

/// Returns rounds in which the changed side has `factor` times the p999, with some noise, and `rate_factor` times the
/// rate.
fn rounds(count: usize, factor: f64, rate_factor: Option<f64>) -> Vec<ProofRound> {
    let noise = [1.0, 1.1, 0.93, 1.04, 0.97, 1.07, 0.9];
    let round = |at: usize| {
        let (mine, theirs) = (noise[at % 7], noise[(at + 3) % 7]);
        ProofRound {
            first: order(1, at as u64)[0],
            before: measured(1e6 * mine, rate_factor.map(|_| 1e5 * mine)),
            changed: measured(1e6 * theirs * factor, rate_factor.map(|factor| 1e5 * theirs * factor)),
        }
    };
    (0..count).map(round).collect()
}

fn verdict(rounds: Vec<ProofRound>) -> ProofVerdict {
    judge(Subject { seed: 7, ..Subject::default() }, rounds).verdict
}

#[test]
fn only_a_significant_change_is_judged_helpful_or_harmful() {
    assert_eq!(verdict(rounds(7, 0.6, None)), ProofVerdict::Helped);
    assert_eq!(verdict(rounds(7, 1.7, None)), ProofVerdict::Hurt);
    assert_eq!(verdict(rounds(7, 1.01, None)), ProofVerdict::NoDifference);
    assert_eq!(verdict(rounds(7, 1.0, Some(1.5))), ProofVerdict::Helped);
    assert_eq!(verdict(rounds(7, 0.6, Some(0.5))), ProofVerdict::Hurt, "a better p999 does not buy a worse rate");
}

#[test]
fn invalid_rounds_are_excluded_and_too_few_rounds_are_inconclusive() {
    let mut some = rounds(7, 0.6, None);
    some[0].changed = measured(1e12, None);
    assert_ne!(verdict(some.clone()), ProofVerdict::Helped);
    some[0].changed.fault = Some("the generator was the limit".to_owned());
    assert_eq!(verdict(some.clone()), ProofVerdict::Helped);
    some[1].before.fault = Some("it was stopped".to_owned());
    some[2].before.fault = Some("it was stopped".to_owned());
    let proof = judge(Subject::default(), some);
    assert_eq!(proof.verdict, ProofVerdict::CannotTell);
    assert!(proof.why.contains("4 of 7 rounds count") && proof.why.contains("the generator was the limit"));
    assert_eq!(verdict(Vec::new()), ProofVerdict::CannotTell);
}

#[test]
fn figure_missing_on_either_side_is_not_compared() {
    let mut some = rounds(6, 0.6, Some(1.0));
    some[3].changed.figures.remove("rate_within_slo_per_s");
    let proof = judge(Subject::default(), some);
    assert!(!proof.rows.iter().any(|row| row.figure == "rate_within_slo_per_s"));
    assert_eq!(proof.verdict, ProofVerdict::Helped);
}

/// Sets the first side's rate within its objectives to 0: it meets them at no rate.
fn never_kept(rounds: &mut [ProofRound]) {
    for round in rounds {
        round.before.figures.insert("rate_within_slo_per_s".to_owned(), 0.0);
    }
}

#[test]
fn zero_rate_on_either_side_is_compared_by_difference() {
    let mut some = rounds(6, 1.0, Some(1.0));
    never_kept(&mut some);
    let proof = judge(Subject::default(), some.clone());
    assert!(
        proof.verdict == ProofVerdict::Helped && proof.why.contains("rate within the SLO went from 0 to"),
        "{}",
        proof.why
    );
    for round in &mut some {
        std::mem::swap(&mut round.before, &mut round.changed);
    }
    assert_eq!(verdict(some.clone()), ProofVerdict::Hurt);
    // Neither side meets the objectives: the p999 alone decides.
    never_kept(&mut some);
    assert_eq!(verdict(some), ProofVerdict::NoDifference);
}

#[test]
fn the_order_follows_from_the_seed_and_each_side_is_first_as_often() {
    let firsts = |seed| (0..20).map(|number| order(seed, number)[0]).collect::<Vec<_>>();
    assert_eq!(firsts(1), firsts(1));
    assert!((2..9).any(|seed| firsts(seed) != firsts(1)));
    for seed in 0..20 {
        assert_eq!(firsts(seed).iter().filter(|side| **side == Side::Before).count(), 10);
        assert!((0..20).all(|number| order(seed, number)[0] != order(seed, number)[1]));
    }
}

#[test]
fn proof_text_shows_intervals_and_proof_survives_a_json_round_trip() {
    let mut some = rounds(6, 0.5, None);
    some[1].before.fault = Some("it was cut off".to_owned());
    let proof = judge(Subject { change: "vm.x".to_owned(), seed: 9, ..Subject::default() }, some);
    assert!(!text(&proof).contains("the rate:"));
    let mut proof = proof;
    proof.subject.rate = "as it was asked for".to_owned();
    let text = text(&proof);
    assert!(text.contains("\n  the rate: as it was asked for\n"), "{text}");
    assert!(text.starts_with("vm.x: HELPED\n  p999 went from "), "{text}");
    assert!(
        text.contains("seed 9") && text.contains(" -- ") && text.contains("round 2 does not count: it was cut off")
    );
    assert!(text.contains("taken off its CPU, /s") && text.contains("+0 (+0 to +0)"), "{text}");
    let json = serde_json::to_string(&proof).unwrap();
    assert_eq!(serde_json::from_str::<Proof>(&json).unwrap(), proof);
}
