//! The charts of a result.

use crate::result::{Interval, Latencies, RunResult, StepResult, Timeline};
use crate::search::objective::percentile_name;
use page::svg::{Axis, Chart, Mark, Scale, Series};
use page::words::{compact, duration, grouped, percent, seconds};

/// Number of points of a percentile curve per nine.
const CURVE_POINTS_A_NINE: u32 = 24;
/// Highest number of nines of a percentile curve.
const NINES_MAX: u32 = 7;

fn share_name(share: f64) -> String {
    if share <= 0.0 { "all".to_owned() } else { percentile_name(share) }
}

fn time_axis() -> Axis {
    Axis { label: "since the start".to_owned(), scale: Scale::Linear, show: seconds }
}

fn latency_axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), scale: Scale::Log, show: duration }
}

fn rate_axis(scale: Scale) -> Axis {
    Axis { label: "requests per second".to_owned(), scale, show: compact }
}

/// The verdict on a trial.
#[derive(Clone, Copy, PartialEq)]
enum TrialKind {
    Met,
    /// The objectives were met, but the generator was slower than intended, so the service may do better.
    MetLimited,
    Broken,
    /// The generator was the bottleneck, so the trial does not describe the service.
    Limited,
}

impl TrialKind {
    const fn of(step: &StepResult) -> Self {
        match (step.passed, &step.generator_limit) {
            (true, None) => Self::Met,
            (true, Some(_)) => Self::MetLimited,
            (false, None) => Self::Broken,
            (false, Some(_)) => Self::Limited,
        }
    }
}

/// Returns the chart of every trial's rate against the highest percentile that has an objective, with the objective as
/// a line.
pub fn rate_against_percentile(result: &RunResult) -> Option<Chart> {
    let search = result.search.as_ref().filter(|search| !search.steps.is_empty())?;
    let share = result.objective_line.map_or(0.999, |line| line.share);
    let name = percentile_name(share);
    let at = |kind: TrialKind| {
        let steps = search.steps.iter().filter(|step| TrialKind::of(step) == kind);
        let point = |latencies: &Latencies| value_at(latencies, share);
        steps.filter_map(|step| Some((step.rate_per_s, point(&step.response)?))).collect()
    };
    let kinds = [
        (TrialKind::Met, "objectives met", 0, Mark::Dot),
        (TrialKind::MetLimited, "objectives met, limited by the generator", 0, Mark::Ring),
        (TrialKind::Broken, "objectives broken", 5, Mark::Cross),
        (TrialKind::Limited, "limited by the generator, not judged", 1, Mark::Ring),
    ];
    let series =
        kinds.map(|(kind, name, colour, mark)| Series { name: name.to_owned(), colour, mark, points: at(kind) });
    Some(Chart {
        title: format!("Rate against {name} of every trial"),
        x: rate_axis(Scale::Linear),
        y: latency_axis(&format!("{name} of the response time")),
        series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
        limit: result
            .objective_line
            .map(|line| (line.limit_ns as f64, format!("{name} at most {}", duration(line.limit_ns as f64)))),
        band: search.lower_per_s.zip(search.upper_per_s).map(|(lower, upper)| {
            (lower, upper, format!("the answer's interval: {} to {}", grouped(lower), grouped(upper)))
        }),
    })
}

/// Returns the percentile at `share` in nanoseconds.
pub fn value_at(latencies: &Latencies, share: f64) -> Option<f64> {
    latencies.histogram().map(|histogram| histogram.value_at_quantile(share) as f64)
}

/// Returns one figure of each interval, with a break where no requests were due for a while, as between two trials.
fn broken_at_gaps(intervals: &[Interval], of: impl Fn(&Interval) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut points = Vec::with_capacity(intervals.len());
    let mut end_s = f64::INFINITY;
    for interval in intervals {
        if interval.at_s > end_s + interval.duration_s {
            points.push((end_s, f64::NAN));
        }
        end_s = interval.at_s + interval.duration_s;
        points.extend(of(interval).map(|value| (interval.at_s, value)));
    }
    points
}

/// Returns the chart of the requested rate and the rate of replies.
pub fn throughput(result: &RunResult) -> Chart {
    let points = |of: fn(&Interval) -> f64| broken_at_gaps(&result.intervals, |i| Some(of(i)));
    let target: Vec<(f64, f64)> = points(|i| i.target_per_s);
    let mut series =
        vec![Series { name: "answered".into(), colour: 0, mark: Mark::Line, points: points(|i| i.achieved_per_s) }];
    if target.iter().any(|point| point.1 > 0.0) {
        series.push(Series { name: "requested rate".into(), colour: 3, mark: Mark::Dashed, points: target });
    }
    if result.intervals.iter().any(|i| i.errors > 0) {
        let errors = points(|i| i.errors as f64 / i.duration_s.max(1e-9));
        series.push(Series { name: "errors".into(), colour: 5, mark: Mark::Line, points: errors });
    }
    let title = "Throughput".to_owned();
    Chart { title, x: time_axis(), y: rate_axis(Scale::Linear), series, limit: None, band: None }
}

/// Returns the chart of percentiles over time.
pub fn percentiles(result: &RunResult) -> Chart {
    let line = |name: &str, colour, of: fn(&Latencies) -> u64| {
        let points = broken_at_gaps(&result.intervals, |i| (i.response.count > 0).then(|| of(&i.response) as f64));
        Series { name: name.to_owned(), colour, mark: Mark::Line, points }
    };
    Chart {
        title: "Response time over time".to_owned(),
        x: time_axis(),
        y: latency_axis("percentile of the response time in each interval"),
        series: vec![
            line("p50", 0, |l| l.p50_ns),
            line("p99", 1, |l| l.p99_ns),
            line("p999", 2, |l| l.p999_ns),
            line("max", 3, |l| l.max_ns),
        ],
        limit: limit(result),
        band: None,
    }
}

fn limit(result: &RunResult) -> Option<(f64, String)> {
    let line = result.objective_line?;
    let limit_ns = line.limit_ns as f64;
    Some((limit_ns, format!("{} at most {}", percentile_name(line.share), duration(limit_ns))))
}

/// Returns the percentile curves of `several` distributions, each with its name.
pub fn curve(title: &str, several: &[(String, &Latencies)], limit: Option<(f64, String)>) -> Chart {
    let series = several.iter().enumerate().map(|(colour, (name, latencies))| Series {
        name: name.clone(),
        colour,
        mark: Mark::Line,
        points: curve_points(latencies),
    });
    Chart {
        title: title.to_owned(),
        x: Axis { label: "percentile".to_owned(), scale: Scale::Nines, show: share_name },
        y: latency_axis("time"),
        series: series.collect(),
        limit,
        band: None,
    }
}

/// Returns the percentile curves of a run.
pub fn curves(result: &RunResult) -> Chart {
    let figures = &result.figures;
    let mut several = vec![
        ("response, from the intended instant".to_owned(), &figures.response),
        ("service, from the send".to_owned(), &figures.service),
    ];
    if let Some(sampler) = &figures.sampler {
        several.push(("sampler".to_owned(), sampler));
    }
    if figures.generator.lateness.count > 0 {
        several.push(("lateness of the generator".to_owned(), &figures.generator.lateness));
    }
    curve("Percentile curve", &several, limit(result))
}

fn curve_points(latencies: &Latencies) -> Vec<(f64, f64)> {
    let Some(histogram) = latencies.histogram() else { return Vec::new() };
    let nines_max = (histogram.len() as f64).log10().min(f64::from(NINES_MAX));
    let steps = 0..=(nines_max * f64::from(CURVE_POINTS_A_NINE)) as u32;
    let share = |step: u32| 1.0 - 10f64.powf(-f64::from(step) / f64::from(CURVE_POINTS_A_NINE));
    steps.map(share).map(|share| (share, histogram.value_at_quantile(share) as f64)).collect()
}

/// A figure that had the same value during the whole run.
pub struct FlatFigure {
    /// The figure's source and name.
    pub name: String,
    /// The value with its unit.
    pub value: String,
}

/// Returns a small chart for each figure of host, server and generator; figures named `group/name` share one chart.
/// Groups whose figures did not change are returned as values instead of charts.
pub fn timelines(result: &RunResult) -> (Vec<Chart>, Vec<FlatFigure>) {
    let group = |timeline: &Timeline| {
        let name = timeline.name.split('/').next().unwrap_or_default();
        format!("{}: {name}", timeline.source)
    };
    let mut groups: Vec<(String, Vec<&Timeline>)> = Vec::new();
    for timeline in &result.timelines {
        let name = group(timeline);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(timeline),
            None => groups.push((name, vec![timeline])),
        }
    }
    let (flat, moving): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|(_, members)| members.iter().all(|timeline| constant(timeline).is_some()));
    let flat = flat.into_iter().flat_map(|(_, members)| members).filter_map(|timeline| {
        let value = constant(timeline)?;
        let unit = if timeline.unit == "bytes" { " bytes" } else { "" };
        let name = format!("{}: {}", timeline.source, timeline.name.replace('/', ", "));
        Some(FlatFigure { name, value: format!("{}{unit}", shown(&timeline.unit)(value)) })
    });
    (moving.into_iter().map(|(name, members)| one_timeline(name, &members)).collect(), flat.collect())
}

/// Returns the value of a figure that does not change; 0 if it has no points.
fn constant(timeline: &Timeline) -> Option<f64> {
    let first = timeline.points.first().map_or(0.0, |point| point.1);
    timeline.points.iter().all(|point| point.1 == first).then_some(first)
}

fn shown(unit: &str) -> fn(f64) -> String {
    if unit == "share" { percent } else { compact }
}

fn one_timeline(title: String, members: &[&Timeline]) -> Chart {
    let unit = members[0].unit.as_str();
    let show = shown(unit);
    // The titles of rates name their unit.
    let label = match unit {
        "share" => "share of the time",
        "bytes" => "bytes",
        _ => "",
    };
    let series = members.iter().enumerate().map(|(colour, timeline)| Series {
        name: timeline.name.split_once('/').map_or(title.clone(), |(_, name)| name.to_owned()),
        colour,
        mark: Mark::Line,
        points: timeline.points.clone(),
    });
    let y = Axis { label: label.to_owned(), scale: Scale::Linear, show };
    Chart { x: time_axis(), y, series: series.collect(), title, limit: None, band: None }
}
