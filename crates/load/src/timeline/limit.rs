//! Finds the bottleneck: of all figures that were above their threshold while objectives were broken, the one that rose
//! first.
//!
//! ```text
//!   thread CPU   ▁▂▅█████   over 90 % from 4 s on    <- the bottleneck
//!   softirq      ▁▁▂▃▄▅▅▅   over 30 % from 6 s on    <- then rose
//!   steal        ▁▁▁▁▁▁▁▁   never
//!                    └──┴── trials that broke an objective
//! ```
//!
//! Each threshold is a level at which the figure alone explains a queue. A thread that is on its CPU for 90 % of the
//! time has no capacity left; 5 % of stolen time is visible in a p999.

use crate::result::{Limit, Timeline};
use page::words::grouped;

/// A figure that can be the bottleneck.
struct Rule {
    source: &'static str,
    name: &'static str,
    /// Level from which the figure explains a queue.
    threshold: f64,
    /// Required ratio of the figure to its lowest level, for figures that are never 0 on a healthy host.
    rise: f64,
    words: &'static str,
}

const RULES: [Rule; 10] = [
    Rule::new(
        "server",
        "CPU use of the busiest thread",
        0.9,
        "the server's busiest thread was on a CPU {} of the time",
    ),
    Rule::new("host", "CPU busy/all", 0.95, "all CPUs of this host were busy {} of the time"),
    Rule::new("host", "softirq/busiest CPU", 0.3, "packet work (softirq) took {} of a CPU of this host"),
    Rule::new("host", "steal", 0.05, "the hypervisor gave {} of the CPU time to other guests (steal)"),
    Rule::new("server", "worst thread's wait for a CPU", 0.2, "a thread of the server waited for a CPU {} of the time"),
    Rule::rising(
        "server",
        "involuntary switches per second",
        200.0,
        "the server's threads were preempted {} times per second",
    ),
    Rule::rising(
        "server",
        "page faults per second/major",
        5.0,
        "the server waited for pages from a disk {} times per second",
    ),
    Rule::new("server", "connections refused per second", 0.1, "the server refused {} connections per second"),
    Rule::new(
        "server",
        "waits for a buffer per second",
        1.0,
        "the server's workers waited for a buffer {} times per second",
    ),
    Rule::rising(
        "generator",
        "CPU use of the busiest thread",
        0.95,
        "the generator's busiest thread was on a CPU {} of the time",
    ),
];

/// Share of the readings during broken objectives in which a figure must be above its threshold.
const SHARE_MIN: f64 = 0.3;

impl Rule {
    const fn new(source: &'static str, name: &'static str, threshold: f64, words: &'static str) -> Self {
        Self { source, name, threshold, rise: 1.0, words }
    }

    const fn rising(source: &'static str, name: &'static str, threshold: f64, words: &'static str) -> Self {
        Self { source, name, threshold, rise: 3.0, words }
    }

    /// Returns the time at which `line` rose above the threshold, with its value then, if the line explains the periods
    /// in `broken`.
    fn risen(&self, line: &Timeline, broken: &[(f64, f64)]) -> Option<(f64, f64)> {
        let least = line.points.iter().map(|point| point.1).fold(f64::MAX, f64::min);
        let threshold = if self.rise > 1.0 && line.unit != "share" {
            self.threshold.max(least * self.rise)
        } else {
            self.threshold
        };
        let within = |at: f64| broken.iter().any(|(from, to)| (*from..=*to).contains(&at));
        let (inside, over): (Vec<f64>, Vec<f64>) = {
            let inside: Vec<f64> = line.points.iter().filter(|point| within(point.0)).map(|point| point.1).collect();
            let over = inside.iter().copied().filter(|value| *value >= threshold).collect();
            (inside, over)
        };
        if over.is_empty() || (over.len() as f64) < inside.len() as f64 * SHARE_MIN {
            return None;
        }
        let first = line.points.iter().find(|point| point.1 >= threshold)?;
        Some((first.0, over.iter().sum::<f64>() / over.len() as f64))
    }

    fn say(&self, value: f64, unit: &str) -> String {
        let shown = if unit == "share" { format!("{:.0} %", value * 100.0) } else { grouped(value.round()) };
        self.words.replace("{}", &shown)
    }
}

/// Returns the bottleneck that limited the rate. `broken` lists the periods (from, to, in seconds since the start) in
/// which objectives were broken. Returns `None` if no timeline shows a bottleneck.
pub fn limit(timelines: &[Timeline], broken: &[(f64, f64)]) -> Option<Limit> {
    let mut risen: Vec<(f64, usize, &Rule, &Timeline, f64)> = Vec::new();
    for (order, rule) in RULES.iter().enumerate() {
        let Some(line) = timelines.iter().find(|line| line.source == rule.source && line.name == rule.name) else {
            continue;
        };
        if let Some((at_s, value)) = rule.risen(line, broken) {
            risen.push((at_s, order, rule, line, value));
        }
    }
    // Readings taken at the same time are a few milliseconds apart. Among them, the order of the rules decides.
    risen.sort_by_key(|found| ((found.0 / 0.4) as u64, found.1));
    let mut words = risen.iter().map(|(_, _, rule, line, value)| rule.say(*value, &line.unit));
    let what = words.next()?;
    let then = words.collect();
    let (at_s, _, rule, _, _) = &risen[0];
    Some(Limit { what, timeline: format!("{}/{}", rule.source, rule.name), at_s: *at_s, then })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(source: &str, name: &str, unit: &str, values: &[f64]) -> Timeline {
        let points = values.iter().enumerate().map(|(at, value)| (at as f64, *value)).collect();
        Timeline { source: source.to_owned(), name: name.to_owned(), unit: unit.to_owned(), points }
    }

    #[test]
    fn first_saturated_resource_is_the_limit_and_later_rises_are_listed() {
        let lines = [
            line("host", "softirq/busiest CPU", "share", &[0.0, 0.1, 0.2, 0.2, 0.4, 0.4, 0.5, 0.5]),
            line("server", "CPU use of the busiest thread", "share", &[0.1, 0.3, 0.92, 0.95, 0.98, 0.98, 0.98, 0.98]),
            line("host", "steal", "share", &[0.0; 8]),
        ];
        let found = limit(&lines, &[(4.0, 7.0)]).unwrap();
        assert_eq!(found.what, "the server's busiest thread was on a CPU 98 % of the time");
        assert_eq!((found.at_s, found.timeline.as_str()), (2.0, "server/CPU use of the busiest thread"));
        assert_eq!(found.then, ["packet work (softirq) took 45 % of a CPU of this host"]);
    }

    #[test]
    fn a_figure_that_was_high_only_while_all_was_well_is_no_limit() {
        let lines = [
            line("server", "CPU use of the busiest thread", "share", &[0.99, 0.99, 0.2, 0.2, 0.2, 0.2]),
            line("host", "steal", "share", &[0.0, 0.0, 0.0, 0.2, 0.3, 0.2]),
        ];
        assert_eq!(limit(&lines, &[(3.0, 5.0)]).unwrap().timeline, "host/steal");
        assert_eq!(limit(&lines, &[]), None);
        assert_eq!(limit(&[], &[(0.0, 9.0)]), None);
    }

    #[test]
    fn always_present_activity_must_rise_above_its_baseline() {
        let busy = [1000.0, 1100.0, 1050.0, 1080.0];
        let switches = |values: &[f64]| [line("server", "involuntary switches per second", "count", values)];
        assert_eq!(limit(&switches(&busy), &[(1.0, 3.0)]), None);
        let risen = limit(&switches(&[100.0, 110.0, 4000.0, 5000.0]), &[(2.0, 3.0)]).unwrap();
        assert!(risen.what.contains("4,500 times per second"), "{}", risen.what);
    }

    #[test]
    fn single_high_reading_is_not_a_limit() {
        let mut values = [0.1; 20];
        values[7] = 0.99;
        assert_eq!(limit(&[line("server", "CPU use of the busiest thread", "share", &values)], &[(0.0, 19.0)]), None);
    }
}
