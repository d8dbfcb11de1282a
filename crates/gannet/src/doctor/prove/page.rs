//! Formats proofs as one HTML page: the verdict, the rounds side by side, and a table with intervals.

use std::fmt::Write;

use doctor::prove::{FIGURES, Figure, Measured, Proof, ProofVerdict, Side, Unit, change, number};
use load::report::tables::table;
use page::svg::{Axis, Chart, Mark, Scale, Series, escape};
use page::{section, whole};

/// Returns the whole page.
pub fn html(proofs: &[Proof]) -> String {
    let title = match proofs {
        [one] => format!("{}: {}", one.subject.change, one.verdict.words()),
        _ => format!("{} changes measured", proofs.len()),
    };
    whole(&title, &proofs.iter().map(proof).collect::<String>())
}

fn proof(proof: &Proof) -> String {
    let subject = &proof.subject;
    let class = match proof.verdict {
        ProofVerdict::Helped => "",
        ProofVerdict::NoDifference => " warn",
        ProofVerdict::Hurt | ProofVerdict::CannotTell => " bad",
    };
    let mut body = format!(
        "<div class=\"card verdict{class}\"><div class=\"what\">{}</div><h1>{}</h1><p>{}.</p><p>{}</p>",
        escape(&subject.change),
        escape(proof.verdict.words()),
        escape(&proof.why),
        escape(&proof.end),
    );
    for text in subject.mechanism.iter() {
        let _ = write!(body, "<p>{}</p>", escape(text));
    }
    body.push_str("</div>");
    body.push_str("<div class=\"charts\">");
    for figure in proof.rows.iter().filter_map(|row| row.figure()).filter(|figure| figure.is_of_requests) {
        let _ = write!(body, "<div class=\"card\">{}</div>", chart(proof, figure).render());
    }
    body.push_str("</div>");
    let cells = |row: &doctor::prove::FigureRow| {
        let figure = row.figure()?;
        let [before, changed] = [row.before, row.changed].map(|value| number(figure.unit, value));
        Some(("", vec![figure.name.to_owned(), before, changed, change(figure, row), row.says().words().to_owned()]))
    };
    let rows: Vec<_> = proof.rows.iter().filter_map(cells).collect();
    let heads = ["median of the rounds", "without the change", "changed", "mean change, 95 % interval", "verdict"];
    section(&mut body, "Figures", &table(&heads, &rows));
    body.push_str("<h2>Kernel counters during the measurements</h2><div class=\"charts small\">");
    let moved = proof.rows.iter().filter(|row| row.before != 0.0 || row.changed != 0.0);
    for figure in moved.filter_map(|row| row.figure()).filter(|figure| !figure.is_of_requests) {
        let _ = write!(body, "<div class=\"card\">{}</div>", chart(proof, figure).render_small());
    }
    body.push_str("</div>");
    section(&mut body, "Rounds", &rounds(proof));
    section(&mut body, "Settings of the comparison", &settings(proof));
    body
}

fn chart(proof: &Proof, figure: &Figure) -> Chart {
    let side = |name: &str, colour, of: fn(&doctor::prove::ProofRound) -> &Measured| {
        let point = |(at, round): (usize, &doctor::prove::ProofRound)| {
            let value = of(round).figures.get(figure.id).filter(|_| round.fault().is_none());
            ((at + 1) as f64, value.copied().unwrap_or(f64::NAN))
        };
        let points = proof.rounds.iter().enumerate().map(point).filter(|(_, value)| !value.is_nan()).collect();
        Series { name: name.to_owned(), colour, mark: Mark::Dot, points }
    };
    let show = match figure.unit {
        Unit::Time => |value| number(Unit::Time, value),
        Unit::PerSecond => |value| number(Unit::PerSecond, value),
        Unit::Share => |value| number(Unit::Share, value),
    };
    Chart {
        title: figure.name.to_owned(),
        x: Axis { label: "round".to_owned(), scale: Scale::Linear, show: |value| format!("{value:.0}") },
        y: Axis { label: String::new(), scale: Scale::Linear, show },
        series: vec![side("without the change", 0, |round| &round.before), side("changed", 1, |round| &round.changed)],
        limit: None,
        band: None,
    }
}

fn rounds(proof: &Proof) -> String {
    let is_in = |figure: &&Figure| proof.rounds.iter().any(|round| round.before.figures.contains_key(figure.id));
    let figures: Vec<&Figure> = FIGURES.iter().filter(|figure| figure.is_judged).filter(is_in).collect();
    let cell = |side: &Measured, figure: &Figure| {
        side.figures.get(figure.id).map_or_else(|| "-".to_owned(), |value| number(figure.unit, *value))
    };
    let row = |(at, round): (usize, &doctor::prove::ProofRound)| {
        let first = if round.first == Side::Before { "without the change" } else { "changed" };
        let both = figures.iter().flat_map(|figure| [cell(&round.before, figure), cell(&round.changed, figure)]);
        let state = round.fault().unwrap_or("counts").to_owned();
        ("", [(at + 1).to_string(), first.to_owned()].into_iter().chain(both).chain([state]).collect())
    };
    let rows: Vec<_> = proof.rounds.iter().enumerate().map(row).collect();
    let heads = figures
        .iter()
        .flat_map(|figure| ["without the change", "changed"].map(|side| format!("{} {side}", figure.name)));
    let heads: Vec<String> =
        ["round", "first"].map(str::to_owned).into_iter().chain(heads).chain(["state".to_owned()]).collect();
    table(&heads.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
}

fn settings(proof: &Proof) -> String {
    let subject = &proof.subject;
    let mut rows: Vec<(&str, Vec<String>)> = subject
        .steps
        .iter()
        .map(|step| ("", vec![step.new.path.clone(), format!("{} -> {}", step.old, step.new.value)]))
        .collect();
    for (name, value) in [
        ("host", format!("{}, {}", subject.host, subject.machine)),
        ("server", subject.server.clone()),
        ("requests", subject.load.clone()),
        ("reason for the rate", subject.rate.clone()),
        ("seed of the order and of the intervals", subject.seed.to_string()),
    ] {
        if !value.is_empty() {
            rows.push(("", vec![name.to_owned(), value]));
        }
    }
    table(&["setting", "value"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use doctor::prove::{ProofRound, Subject, judge};
    use std::collections::BTreeMap;

    #[test]
    fn proof_page_shows_the_verdict_first_and_escapes_external_text() {
        let measured = |ns: f64| Measured { figures: BTreeMap::from([("p999_ns".to_owned(), ns)]), fault: None };
        let round = |at: usize| ProofRound {
            first: Side::Before,
            before: measured(2e6 + at as f64),
            changed: measured(1e6 + at as f64),
        };
        let subject = Subject { change: "<b>vm.x".to_owned(), host: "a&b".to_owned(), ..Subject::default() };
        let subject = Subject { rate: "it kept pace".to_owned(), ..subject };
        let mut proof = judge(subject, (0..5).map(round).collect());
        proof.end = "It stays.".to_owned();
        let page = html(&[proof]);
        assert!(page.contains("<h1>helped</h1><p>p999 went from 2 ms to 1 ms"), "{page}");
        assert!(page.contains("&lt;b&gt;vm.x") && !page.contains("<b>vm.x") && page.contains("a&amp;b"));
        assert_eq!(page.matches("class=\"dot s").count(), 10, "a dot for each side of each round");
        assert!(page.contains("<th>p999 without the change</th><th>p999 changed</th><th"), "{page}");
        assert!(page.contains("reason for the rate") && page.contains("it kept pace"));
        assert!(!page.contains("http"), "it needs nothing but itself");
    }

    #[test]
    fn proof_page_lists_server_times_per_round_without_request_times() {
        let parts = ["wait_p999_ns", "execute_p999_ns", "send_p999_ns"];
        let measured = |ns: f64| Measured { figures: parts.map(|id| (id.to_owned(), ns)).into(), fault: None };
        let round =
            |at: usize| ProofRound { first: Side::Changed, before: measured(3e6), changed: measured(at as f64 * 1e6) };
        let page = html(&[judge(Subject::default(), (1..8).map(round).collect())]);
        assert!(page.contains("<th>p999, waiting in the server without the change</th>"), "{page}");
        let cells = "<td>changed</td>".to_owned() + &"<td>3 ms</td><td>7 ms</td>".repeat(3);
        assert!(page.contains(&cells) && !page.contains("<th>p999 without the change</th>"), "{page}");
    }
}
