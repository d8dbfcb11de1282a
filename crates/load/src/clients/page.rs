//! The page of a study: throughput, p999 and CPU time against the number of offered requests.

use super::study::{StudyCell, StudyResult, StudyRun};
use page::svg::{Axis, Chart, Mark, Scale, Series};
use page::words::{compact, duration, grouped};

/// A figure of a chart: its name, the scale of its axis, its texts and its value.
type ChartFigure = (&'static str, Scale, fn(f64) -> String, fn(&StudyRun) -> f64);

const FIGURES: [ChartFigure; 3] = [
    ("requests per second", Scale::Linear, compact, |run| run.figures.requests_per_s),
    ("p999, with the wait in the library", Scale::Log, duration, |run| run.figures.p999_us * 1e3),
    ("CPU time of the client for a request", Scale::Linear, duration, |run| run.figures.cpu_us_per_request * 1e3),
];

/// Returns the page.
pub fn html(study: &StudyResult) -> String {
    let mut body = String::from("<h1>Client libraries by requests in flight</h1>");
    let mut seen: Vec<(&str, u64)> = Vec::new();
    for cell in &study.cells {
        let key = (&cell.client[..], cell.round_trip_us);
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let cells: Vec<&StudyCell> =
            study.cells.iter().filter(|other| (&other.client[..], other.round_trip_us) == key).collect();
        let charts: String = FIGURES.iter().map(|figure| chart(&cells, figure).render_small()).collect();
        page::section(&mut body, &format!("{}, round trip {} ms", key.0, key.1 as f64 / 1e3), &charts);
    }
    page::whole("Client libraries by requests in flight", &body)
}

/// Draws one figure of a library at a round trip, with a line for each setting.
fn chart(cells: &[&StudyCell], (label, scale, show, figure): &ChartFigure) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    for cell in cells {
        let point = (f64::from(cell.concurrency), cell.median(figure).unwrap_or(f64::NAN));
        match series.iter_mut().find(|series| series.name == cell.setting) {
            Some(series) => series.points.push(point),
            None => {
                let (name, colour) = (cell.setting.clone(), series.len());
                series.push(Series { name, colour, mark: Mark::Line, points: vec![point] });
            }
        }
    }
    Chart {
        title: (*label).to_owned(),
        x: Axis { label: "offered requests".to_owned(), scale: Scale::Log, show: grouped },
        y: Axis { label: (*label).to_owned(), scale: *scale, show: *show },
        series,
        limit: None,
        band: None,
    }
}
