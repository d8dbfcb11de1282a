//! Draws the curves of `docs/policy.md`: a panel per stream, with a curve of misses over memory for each policy.
//!
//! The figures are read from the tables of that page, so that the picture always agrees with them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The names and colours of the curves, in the order of the table's columns.
const LINES: [(&str, &str); 6] = [
    ("gannet", "#c0392b"),
    ("LRU", "#7f8c8d"),
    ("SIEVE", "#27ae60"),
    ("S3-FIFO", "#2980b9"),
    ("W-TinyLFU", "#8e44ad"),
    ("ARC", "#e67e22"),
];
const COLUMNS: usize = 4;
const PANEL_WIDTH: f64 = 260.0;
const PANEL_HEIGHT: f64 = 190.0;
/// Margin around a panel's curves, for its title and the labels of its axes.
const MARGIN: f64 = 34.0;
const LEGEND_HEIGHT: f64 = 30.0;

/// A point of a stream: the memory in MB, and the misses in percent for each curve; NaN if the table has no value.
type Point = (f64, [f64; LINES.len()]);

/// Reads `docs/policy.md` and writes `docs/policy.svg`.
///
/// # Errors
/// If the page cannot be read or has no table, or if the picture cannot be written.
pub fn run(root: &Path) -> Result<bool, String> {
    let (page, picture) = (root.join("docs/policy.md"), root.join("docs/policy.svg"));
    let text = std::fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let streams = read(&text);
    if streams.is_empty() {
        return Err(format!("{} contains no table of misses", page.display()));
    }
    std::fs::write(&picture, draw(&streams)).map_err(|error| format!("{}: {error}", picture.display()))?;
    println!("{}: {} streams", picture.display(), streams.len());
    Ok(true)
}

/// Reads the table rows with a stream, its memory and the misses of every line.
fn read(text: &str) -> BTreeMap<String, Vec<Point>> {
    let mut streams: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    let mut among_misses = false;
    for line in text.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if cells.len() != LINES.len() + 3 {
            among_misses = false;
            continue;
        }
        among_misses |= cells[2..].iter().zip(LINES).all(|(cell, (name, _))| *cell == name);
        if !among_misses {
            continue;
        }
        let numbers: Vec<f64> = cells[1..]
            .iter()
            .filter_map(|cell| if *cell == "-" { Some(f64::NAN) } else { cell.parse().ok() })
            .collect();
        if let [memory, misses @ .., _] = numbers.as_slice()
            && let Ok(misses) = misses.try_into()
        {
            streams.entry(cells[0].to_owned()).or_default().push((*memory, misses));
        }
    }
    streams
}

fn draw(streams: &BTreeMap<String, Vec<Point>>) -> String {
    let rows = streams.len().div_ceil(COLUMNS);
    let (width, height) = (COLUMNS as f64 * PANEL_WIDTH, rows as f64 * PANEL_HEIGHT + LEGEND_HEIGHT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (number, (name, colour)) in LINES.iter().enumerate() {
        let x = MARGIN + number as f64 * 110.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" y1=\"15\" x2=\"{}\" y2=\"15\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{}\" y=\"19\">{name}</text>",
            x + 18.0,
            x + 23.0
        );
    }
    for (number, (name, points)) in streams.iter().enumerate() {
        let x = (number % COLUMNS) as f64 * PANEL_WIDTH + MARGIN;
        let y = (number / COLUMNS) as f64 * PANEL_HEIGHT + LEGEND_HEIGHT + MARGIN / 2.0;
        panel(&mut svg, x, y, name, points);
    }
    svg + "</svg>\n"
}

/// Draws one stream: misses in percent, from 0 upwards, over the logarithm of the memory.
fn panel(svg: &mut String, left: f64, top: f64, name: &str, points: &[Point]) {
    let (width, height) = (PANEL_WIDTH - 1.5 * MARGIN, PANEL_HEIGHT - 1.7 * MARGIN);
    let most = points.iter().flat_map(|(_, misses)| misses).copied().fold(1.0, f64::max);
    let logs = points.iter().map(|(memory, _)| memory.max(1.0).ln());
    let (low, high) = logs.fold((f64::MAX, f64::MIN), |(low, high), log| (low.min(log), high.max(log)));
    let x_of = |memory: f64| left + (memory.max(1.0).ln() - low) / (high - low).max(1e-9) * width;
    let y_of = |misses: f64| top + height - misses / most * height;
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{name}</text>\n\
         <rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"#bbb\"/>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{most:.0}%</text>",
        top - 4.0,
        left - 3.0,
        top + 10.0
    );
    for (memory, _) in points {
        let (x, y) = (x_of(*memory), top + height + 13.0);
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{memory}</text>");
    }
    // Draws Gannet's curve last, so that it is above the others.
    for (line, (_, colour)) in LINES.iter().enumerate().rev() {
        let drawn = points.iter().filter(|(_, misses)| misses[line].is_finite());
        let places: Vec<(f64, f64)> = drawn.map(|(memory, m)| (x_of(*memory), y_of(m[line]))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>",
            path.join(" ")
        );
        for (x, y) in places {
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" fill=\"{colour}\"/>");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_misses_are_read_and_no_others() {
        let text = "| stream | memory, MB | gannet | LRU | SIEVE | S3-FIFO | W-TinyLFU | ARC | gannet / best |\n\
                    |---|---|---|---|---|---|---|---|---|\n\
                    | loop | 7 | 1.5 | 2 | 3 | 4 | 5 | 6 | 0.75 |\n| loop | 14 | 1 | 2 | 3 | 4 | 5 | 6 | 0.5 |\n\
                    \n| stream | memory, MB | live items | dead | free | open | index | index load | share |\n\
                    |---|---|---|---|---|---|---|---|---|\n| scan | 8 | 91.5 | 0.4 | 3.1 | 0.5 | 3.1 | 74 | 10 |\n";
        let streams = read(text);
        assert_eq!(streams.len(), 1);
        assert_eq!(streams["loop"], [(7.0, [1.5, 2.0, 3.0, 4.0, 5.0, 6.0]), (14.0, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])]);
        assert_eq!(draw(&streams).matches("<polyline").count(), LINES.len());
    }
}
