//! Formats an outcome as one HTML page with charts.

use std::fmt::Write as _;

use page::svg::{Axis, Chart, Mark, Scale, Series};
use page::words::{compact, duration, grouped, seconds};
use page::{escape, section, whole};

use super::outcome::{LabOutcome, Timeline, shown};

fn axis(label: &str, scale: Scale, show: fn(f64) -> String) -> Axis {
    Axis { label: label.to_owned(), scale, show }
}

/// Returns the page.
pub fn html(outcome: &LabOutcome) -> String {
    let class = if outcome.is_shown { "" } else { " warn" };
    let mut body = format!(
        "<div class=\"card verdict{class}\"><div class=\"what\">gannet doctor lab {}, Linux {}</div>\
         <h1>{}</h1><p>{}</p>",
        outcome.lab,
        escape(&outcome.kernel),
        escape(&outcome.headline),
        escape(outcome.mechanism)
    );
    for note in &outcome.notes {
        let _ = write!(body, "<p>{}</p>", escape(note));
    }
    body.push_str("</div><div class=\"charts\">");
    for chart in [curves(outcome), over_time(outcome)] {
        let _ = write!(body, "<div class=\"card\">{}</div>", chart.render());
    }
    body.push_str("</div>");
    section(&mut body, "Differences", &differences(outcome));
    if !outcome.timelines.is_empty() {
        body.push_str("<h2>Meanwhile</h2><div class=\"charts small\">");
        for chart in timelines(outcome) {
            let _ = write!(body, "<div class=\"card\">{}</div>", chart.render_small());
        }
        body.push_str("</div>");
    }
    section(&mut body, "The checks that find it", &findings(outcome));
    section(&mut body, "Phases", &phases(outcome));
    whole(&format!("lab {}", outcome.lab), &body)
}

/// Draws the curve of each setting, over all of its phases.
fn curves(outcome: &LabOutcome) -> Chart {
    let series = outcome.settings.iter().enumerate().map(|(at, name)| Series {
        name: name.clone(),
        colour: at,
        mark: Mark::Line,
        points: outcome.tally_of(at).curve(),
    });
    Chart {
        title: "Percentile curve".to_owned(),
        x: axis("share", Scale::Nines, |share| {
            format!("{:.5}", share).trim_end_matches('0').trim_end_matches('.').to_owned()
        }),
        y: axis("time", Scale::Log, duration),
        series: series.collect(),
        limit: None,
        band: None,
    }
}

/// Draws each phase's p99 over time.
fn over_time(outcome: &LabOutcome) -> Chart {
    let series = outcome.settings.iter().enumerate().map(|(at, name)| {
        let own = outcome.phases.iter().filter(|phase| phase.setting == at);
        let points = own.filter_map(|phase| Some((phase.begun_s, phase.figures.get("p99_us")? * 1e3)));
        Series { name: name.clone(), colour: at, mark: Mark::Dot, points: points.collect() }
    });
    Chart {
        title: "p99 of each phase".to_owned(),
        x: axis("since the start", Scale::Linear, seconds),
        y: axis("time", Scale::Log, duration),
        series: series.collect(),
        limit: None,
        band: None,
    }
}

/// Draws the charts of the figures over time. Figures whose names have the same part before `/` share a chart. Only a
/// chart with a single figure is coloured by setting.
fn timelines(outcome: &LabOutcome) -> Vec<Chart> {
    let group = |timeline: &Timeline| timeline.name.split('/').next().unwrap_or_default().to_owned();
    let mut groups: Vec<(String, Vec<&Timeline>)> = Vec::new();
    for timeline in &outcome.timelines {
        let name = group(timeline);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(timeline),
            None => groups.push((name, vec![timeline])),
        }
    }
    let chart = |(title, members): (String, Vec<&Timeline>)| {
        let series = match members[..] {
            [one] => by_setting(outcome, one),
            _ => members.iter().enumerate().map(|(at, line)| line_of(line, at)).collect(),
        };
        let y = axis(members[0].unit, Scale::Linear, compact);
        Chart { title, x: axis("since the start", Scale::Linear, seconds), y, series, limit: None, band: None }
    };
    groups.into_iter().map(chart).collect()
}

fn line_of(timeline: &Timeline, colour: usize) -> Series {
    let name = timeline.name.rsplit('/').next().unwrap_or_default().to_owned();
    Series { name, colour, mark: Mark::Line, points: timeline.points.clone() }
}

/// Returns the setting that was in force at an instant.
fn setting_at(outcome: &LabOutcome, at_s: f64) -> Option<usize> {
    outcome.phases.iter().rev().find(|phase| phase.begun_s <= at_s).map(|phase| phase.setting)
}

fn by_setting(outcome: &LabOutcome, timeline: &Timeline) -> Vec<Series> {
    let series = outcome.settings.iter().enumerate().map(|(setting, name)| {
        let held = |at_s: f64| setting_at(outcome, at_s) == Some(setting);
        let points = timeline.points.iter().map(|(at_s, value)| (*at_s, if held(*at_s) { *value } else { f64::NAN }));
        Series { name: name.clone(), colour: setting, mark: Mark::Line, points: points.collect() }
    });
    series.collect()
}

fn differences(outcome: &LabOutcome) -> String {
    if outcome.compared.is_empty() {
        return "<p>There were too few rounds to compute intervals.</p>".to_owned();
    }
    let mut out = "<table><tr><th>figure</th><th>setting</th><th>mean</th><th>mean of the first</th>\
                   <th>difference (95 %)</th><th>rounds</th></tr>"
        .to_owned();
    for compared in &outcome.compared {
        let show = |value| escape(&shown(&compared.figure, value));
        let (open, close) = if compared.is_clear() { ("<b>", "</b>") } else { ("", "") };
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{open}{} to {}{close}</td><td>{}</td></tr>",
            escape(&compared.figure),
            escape(&outcome.settings[compared.b]),
            show(compared.mean_b),
            show(compared.mean_a),
            show(compared.low),
            show(compared.high),
            compared.pairs
        );
    }
    out + "</table><p>Bold: the interval does not contain 0.</p>"
}

fn findings(outcome: &LabOutcome) -> String {
    let line = |finding: &crate::Finding| {
        format!(
            "<p><b>{}</b>: {}, {}. Remedy: {}.</p>",
            escape(&finding.id),
            finding.verdict.text(),
            escape(&finding.value),
            escape(&finding.remedy)
        )
    };
    outcome.findings.iter().map(line).collect()
}

fn phases(outcome: &LabOutcome) -> String {
    let mut names: Vec<&str> =
        outcome.phases.iter().flat_map(|phase| phase.figures.keys()).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let heads: String = names.iter().map(|name| format!("<th>{}</th>", escape(name))).collect();
    let mut out = format!("<table><tr><th>round</th><th>setting</th><th>from</th>{heads}</tr>");
    for phase in &outcome.phases {
        let value = |name: &&str| phase.figures.get(*name).map_or("-".to_owned(), |value| shown(name, *value));
        let cells: String = names.iter().map(|name| format!("<td>{}</td>", escape(&value(name)))).collect();
        let (setting, from) = (escape(&outcome.settings[phase.setting]), grouped(phase.begun_s));
        let _ = write!(out, "<tr><td>{}</td><td>{setting}</td><td>{from} s</td>{cells}</tr>", phase.round + 1);
    }
    out + "</table>"
}
