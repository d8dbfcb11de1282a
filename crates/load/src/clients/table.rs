//! The tables of a study, in Markdown.

use super::study::{StudyCell, StudyResult};
use std::fmt::Write;

/// Returns the tables: one for each round trip and setting, with a row for each concurrency and columns for each
/// library.
pub fn markdown(study: &StudyResult) -> String {
    let mut out = String::new();
    let machine = &study.machine;
    let _ = writeln!(
        out,
        "{} on {} CPUs, {}. Medians of {} runs of {} s: requests per second, p999 with the wait in the library, CPU \
         time of the client for a request, connections, and the share of failed requests if there were any.",
        machine.cpu, machine.cpus, machine.kernel, study.repeats, study.seconds
    );
    let mut begin = 0;
    while begin < study.cells.len() {
        let first = &study.cells[begin];
        let is_same = |cell: &&StudyCell| (cell.round_trip_us, &cell.setting) == (first.round_trip_us, &first.setting);
        let table = &study.cells[begin..begin + study.cells[begin..].iter().take_while(is_same).count()];
        add_table(&mut out, table, study.seconds);
        begin += table.len();
    }
    out
}

fn add_table(out: &mut String, cells: &[StudyCell], seconds: f64) {
    let Some(first) = cells.first() else { return };
    let clients = cells.iter().take_while(|cell| cell.concurrency == first.concurrency).count();
    let _ = writeln!(out, "\n### {}, round trip {} ms\n", first.setting, first.round_trip_us as f64 / 1e3);
    let names: Vec<&str> = cells[..clients].iter().map(|cell| &cell.client[..]).collect();
    let _ = writeln!(out, "| offered | {} |\n|---:|{}", names.join(" | "), "---:|".repeat(clients));
    for row in cells.chunks(clients) {
        let shown: Vec<String> = row.iter().map(|cell| show(cell, seconds)).collect();
        let _ = writeln!(out, "| {} | {} |", row[0].concurrency, shown.join(" | "));
    }
}

/// Returns the medians of a cell as text, with the causes of failed runs.
fn show(cell: &StudyCell, seconds: f64) -> String {
    let figures = cell.median(|run| run.figures.requests_per_s).map(|rate| {
        let of = |figure: fn(&super::study::StudyRun) -> f64| cell.median(figure).unwrap_or_default();
        let failed = cell.median(|run| run.figures.failed_share(seconds)).unwrap_or_default() * 100.0;
        let failed = if failed > 0.0 { format!(", {failed:.1} % failed") } else { String::new() };
        format!(
            "{}/s, {:.2} ms, {:.0} us, {}{failed}",
            page::words::grouped(rate),
            of(|run| run.figures.p999_us) / 1e3,
            of(|run| run.figures.cpu_us_per_request),
            of(|run| run.connections_seen as f64)
        )
    });
    // A cell of a table cannot have a line or a column of its own.
    let plain = |cause: &String| cause.replace('|', "/").replace(['\n', '\r'], " ");
    let failures: Vec<String> = cell.failures.iter().map(plain).collect();
    [figures.unwrap_or_default(), failures.join("; ")]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}
