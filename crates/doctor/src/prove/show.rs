//! Formats a proof in words.

use std::fmt::Write;

use page::words::{duration, grouped, percent};

use super::{Figure, FigureRow, Proof, Side, Unit};

/// Formats a figure's number.
pub fn number(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Time => duration(value),
        Unit::PerSecond => grouped(value),
        Unit::Share => percent(value),
    }
}

/// Formats the change of a figure with its interval.
pub fn change(figure: &Figure, row: &FigureRow) -> String {
    match (row.ratio, row.difference) {
        (Some(ratio), _) => format!("x {:.3} ({:.3} to {:.3})", ratio.mean, ratio.low, ratio.high),
        (None, Some(by)) => {
            let signed = |value: f64| format!("{}{}", if value >= 0.0 { "+" } else { "" }, number(figure.unit, value));
            format!("{} ({} to {})", signed(by.mean), signed(by.low), signed(by.high))
        }
        (None, None) => "-".to_owned(),
    }
}

/// Formats a row as a sentence.
pub(super) fn sentence(row: &FigureRow) -> String {
    let Some(figure) = row.figure() else { return row.figure.clone() };
    let values = [row.before, row.changed].map(|value| number(figure.unit, value));
    let name = figure.name.trim_end_matches(", /s");
    format!("{name} went from {} to {}, {}", values[0], values[1], change(figure, row))
}

/// Formats the whole proof.
pub fn text(proof: &Proof) -> String {
    let subject = &proof.subject;
    let mut out = format!("{}: {}\n  {}.\n", subject.change, proof.verdict.words().to_uppercase(), proof.why);
    if !proof.end.is_empty() {
        let _ = writeln!(out, "  {}", proof.end);
    }
    for step in &subject.steps {
        let _ = writeln!(out, "  {}: {} -> {}", step.new.path, step.old, step.new.value);
    }
    let _ = writeln!(out, "  {}, {}; {}; {}", subject.host, subject.machine, subject.server, subject.load);
    if !subject.rate.is_empty() {
        let _ = writeln!(out, "  the rate: {}", subject.rate);
    }
    let order: String = proof
        .rounds
        .iter()
        .map(|round| match (round.first, round.fault()) {
            (_, Some(_)) => " --",
            (Side::Before, None) => " AB",
            (Side::Changed, None) => " BA",
        })
        .collect();
    let _ = writeln!(out, "  rounds (A as it was, B changed; seed {}):{order}\n", subject.seed);
    let _ = writeln!(out, "{:<30}{:>12}{:>12}  mean change, 95 % interval", "median of the rounds", "A", "B");
    for row in &proof.rows {
        let Some(figure) = row.figure() else { continue };
        let [before, changed] = [row.before, row.changed].map(|value| number(figure.unit, value));
        let _ = writeln!(out, "{:<30}{before:>12}{changed:>12}  {}", figure.name, change(figure, row));
    }
    for (at, round) in proof.rounds.iter().enumerate() {
        if let Some(fault) = round.fault() {
            let _ = writeln!(out, "round {} does not count: {fault}", at + 1);
        }
    }
    out
}
