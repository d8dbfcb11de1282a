//! Follows a run: reports progress, and divides its response times into intervals.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::engine::{Control, RunPhase};
use crate::measure::Slice;
use crate::report::terminal::RunProgress;
use crate::result::from_run;
use crate::result::{Interval, Latencies, latencies};

/// Longest time between two checks of a run.
const LOOK_MAX: Duration = Duration::from_millis(250);

/// The intervals of a run with complete histograms, and the number of slices in each.
#[derive(Default)]
pub struct Cut {
    /// The intervals: the beginning of each one's last slice in nanoseconds, and the response times.
    intervals: Vec<(u64, Latencies)>,
}

/// Checks `control` until `over` receives a message or is closed. Passes the progress to the callback.
pub fn follow(
    control: &Control,
    slice_ns: u64,
    duration_ns: u64,
    what: &str,
    over: &Receiver<()>,
    tell: &mut dyn FnMut(&RunProgress),
) -> Cut {
    let mut cut = Cut::default();
    let mut before: Histogram<u64> = latencies::empty();
    let period = Duration::from_nanos(slice_ns / 4).clamp(Duration::from_millis(10), LOOK_MAX);
    loop {
        let ended = !matches!(over.recv_timeout(period), Err(RecvTimeoutError::Timeout));
        let live = control.live();
        let newest = live.recent.last();
        if let Some(slice) = live.recent.iter().rev().find(|slice| slice.measured) {
            let now = live.response.as_hdr();
            if cut.intervals.last().is_none_or(|(begin_ns, _)| *begin_ns < slice.begin_ns) {
                let mut since = now.clone();
                if since.subtract(&before).is_ok() {
                    cut.intervals.push((slice.begin_ns, Latencies::of(&since)));
                }
                before.clone_from(now);
            }
        }
        // The counts of verbs since the last check are also reported at the end.
        let is_shown = matches!(live.phase, RunPhase::WarmUp | RunPhase::Measuring) || !live.verbs.is_empty();
        if let (Some(slice), true) = (newest, is_shown && (!ended || !live.verbs.is_empty())) {
            tell(&RunProgress {
                what: what.to_owned(),
                done: (duration_ns > 0).then(|| live.elapsed_ns as f64 / duration_ns as f64),
                target_per_s: control.rate_per_s(),
                achieved_per_s: slice.answered as f64 * 1e9 / slice.length_ns.max(1) as f64,
                percentiles_ns: [slice.p50_ns, slice.p99_ns, slice.p999_ns],
                answered: live.totals.answered,
                errors: live.totals.errors + live.totals.wrong + live.totals.lost,
                covered_ns: slice.begin_ns + slice.length_ns,
                is_last: ended,
                verbs: live.verbs,
            });
        }
        if ended {
            return cut;
        }
    }
}

impl Cut {
    /// Converts the slices to intervals of a session in which the run began at `began_s`. Slices that arrived together
    /// become one interval, so that its histogram is complete.
    pub fn intervals(self, slices: &[Slice], began_s: f64) -> Vec<Interval> {
        let mut known = self.intervals.into_iter().peekable();
        let mut intervals: Vec<Interval> = Vec::with_capacity(slices.len());
        let mut open: Vec<Interval> = Vec::new();
        for slice in slices {
            open.push(from_run::interval(slice, began_s));
            let Some((begin_ns, _)) = known.peek() else { continue };
            if !slice.measured {
                intervals.append(&mut open);
            } else if *begin_ns == slice.begin_ns
                && let Some((_, response)) = known.next()
            {
                intervals.push(joined(&open, response));
                open.clear();
            }
        }
        intervals.append(&mut open);
        intervals
    }
}

/// Combines consecutive intervals into one with the given response times.
fn joined(several: &[Interval], response: Latencies) -> Interval {
    let duration_s: f64 = several.iter().map(|interval| interval.duration_s).sum();
    let weighted = |of: fn(&Interval) -> f64| {
        several.iter().map(|interval| of(interval) * interval.duration_s).sum::<f64>() / duration_s
    };
    Interval {
        at_s: several.first().map_or(0.0, |interval| interval.at_s),
        duration_s,
        target_per_s: weighted(|interval| interval.target_per_s),
        achieved_per_s: weighted(|interval| interval.achieved_per_s),
        errors: several.iter().map(|interval| interval.errors).sum(),
        response,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(number: u64, measured: bool) -> Slice {
        let answered = 10 * number;
        Slice { begin_ns: number * 1_000_000_000, length_ns: 1_000_000_000, measured, answered, ..Slice::default() }
    }

    #[test]
    fn slices_observed_together_form_an_interval_with_combined_histogram() {
        let times = |count: u64| Latencies { count, histogram: "x".to_owned(), ..Latencies::default() };
        let cut = Cut { intervals: vec![(1_000_000_000, times(10)), (3_000_000_000, times(50))] };
        let slices: Vec<Slice> = (0..6).map(|number| slice(number, (1..5).contains(&number))).collect();
        let intervals = cut.intervals(&slices, 100.0);
        let shape: Vec<(f64, f64, u64)> = intervals.iter().map(|i| (i.at_s, i.duration_s, i.response.count)).collect();
        // The warm-up, one slice, two slices together, a slice without a seen histogram, and replies after the end.
        assert_eq!(shape, [(100.0, 1.0, 0), (101.0, 1.0, 10), (102.0, 2.0, 50), (104.0, 1.0, 40), (105.0, 1.0, 50)]);
        assert_eq!(intervals[2].achieved_per_s, 25.0);
    }
}
