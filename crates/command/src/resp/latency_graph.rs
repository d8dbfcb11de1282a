//! The picture of `LATENCY GRAPH`: a column for each slow request, as high as its time, above the age of the request.
//!
//! ```text
//!      o#        a column has four rows of three steps: _ o #
//!   _o#||
//!   ``````       the age, from top to bottom: 8s, 5m, 2h, 1d
//! ```

use std::fmt::Write as _;

/// The maximum number of columns side by side, and of rows of a column.
const COLUMNS: usize = 80;
const ROWS: u64 = 4;
/// The characters of a row that is filled in part or whole, and of a row below another one.
const STEPS: [u8; 3] = *b"_o#";
const BELOW: u8 = b'|';

/// A slow request.
#[derive(Clone, Copy, Debug)]
pub(super) struct GraphSample {
    pub(super) ms: u64,
    /// The time since its reply was sent, in seconds.
    pub(super) age_s: u64,
}

impl GraphSample {
    /// Returns the age with the largest unit that it reaches.
    fn label(&self) -> String {
        match self.age_s {
            seconds @ 0..60 => format!("{seconds}s"),
            seconds @ 60..3600 => format!("{}m", seconds / 60),
            seconds @ 3600..86_400 => format!("{}h", seconds / 3600),
            seconds => format!("{}d", seconds / 86_400),
        }
    }
}

/// Draws the requests of an event, from the oldest to the latest, in the form of Redis. There is at least one.
pub(super) fn draw(event: &str, samples: &[GraphSample]) -> String {
    let low = samples.iter().map(|sample| sample.ms).min().unwrap_or(0);
    let high = samples.iter().map(|sample| sample.ms).max().unwrap_or(0);
    let mut text = format!("{event} - high {high} ms, low {low} ms (all time high {high} ms)\n");
    let _ = writeln!(text, "{}", "-".repeat(COLUMNS));
    for (number, columns) in samples.chunks(COLUMNS).enumerate() {
        if number > 0 {
            text.push('\n');
        }
        draw_columns(&mut text, columns, (low, high));
    }
    text
}

fn draw_columns(text: &mut String, samples: &[GraphSample], (low, high): (u64, u64)) {
    let steps = ROWS * STEPS.len() as u64;
    let heights = samples.iter().map(|sample| ((sample.ms - low) * steps / (high - low).max(1)).min(steps - 1));
    let heights: Vec<u64> = heights.collect();
    for row in (0..ROWS).rev() {
        let below = row * STEPS.len() as u64;
        let shown = heights.iter().map(|height| match height.checked_sub(below) {
            None => b' ',
            Some(step) => STEPS.get(step as usize).copied().unwrap_or(BELOW),
        });
        put_line(text, shown);
    }
    put_line(text, samples.iter().map(|_| b' '));
    let labels: Vec<String> = samples.iter().map(GraphSample::label).collect();
    for row in 0..labels.iter().map(String::len).max().unwrap_or(0) {
        put_line(text, labels.iter().map(|label| label.as_bytes().get(row).copied().unwrap_or(b' ')));
    }
}

fn put_line(text: &mut String, columns: impl Iterator<Item = u8>) {
    text.extend(columns.map(char::from));
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The picture is that of redis-server 7.0.15 after `DEBUG SLEEP` of these times.
    #[test]
    fn slow_requests_are_drawn_as_by_redis() {
        let samples = [10, 20, 33, 45, 56, 60, 71, 80].iter().zip([9, 8, 7, 6, 5, 4, 2, 1]);
        let samples: Vec<GraphSample> = samples.map(|(ms, age_s)| GraphSample { ms: *ms, age_s }).collect();
        let line = "-".repeat(80);
        let head = format!("command - high 80 ms, low 10 ms (all time high 80 ms)\n{line}\n");
        let picture = "      o#\n   _o#||\n  _|||||\n_o||||||\n        \n98765421\nssssssss\n";
        assert_eq!(draw("command", &samples), head + picture);
    }

    #[test]
    fn one_time_has_no_height_and_long_histories_continue_below() {
        let old = [120, 7200, 200_000].map(|age_s| GraphSample { ms: 5, age_s });
        let picture = draw("command", &old);
        assert!(picture.ends_with("\n   \n   \n   \n___\n   \n222\nmhd\n"), "{picture}");
        let many = vec![GraphSample { ms: 5, age_s: 1 }; 81];
        assert!(draw("command", &many).ends_with("\n\n \n \n \n_\n \n1\ns\n"));
    }
}
