//! Measures a server under its real traffic, by the difference between two readings of its counters.
//!
//! ```text
//!   admin port ──/histograms.json──> counts by time ── seconds later ──> counts by time; their difference
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use doctor::Host;
use doctor::counters::Counters;
use doctor::prove::{Measured, counted_figures};
use load::session::RunControl;
use serde_json::Value;

use super::trial::settle;
use crate::Failure;
use crate::top::page;

/// Minimum number of requests in a measurement. With fewer requests, the p999 is the time of a single request.
const REQUESTS_MIN: u64 = 2_000;
/// Maximum relative difference between the request rates of a round's two sides, for the round to count.
pub const RATE_APART_MAX: f64 = 0.1;
/// Parts of a request's time in the server: each part's name, and the ids of its p999 and its p99 figures.
const PARTS: [(&str, &str, &str); 3] = [
    ("wait", "wait_p999_ns", "wait_p99_ns"),
    ("execute", "execute_p999_ns", "execute_p99_ns"),
    ("send", "send_p999_ns", "send_p99_ns"),
];

/// A running server, measured under the traffic of its real clients.
pub struct Live {
    /// The address of the server's admin port.
    pub admin: SocketAddr,
    /// The server's process id.
    pub pid: Option<u32>,
    /// Length of each measurement in seconds.
    pub seconds: u64,
}

/// Numbers of requests by the upper bound of their histogram bucket, in nanoseconds.
type Buckets = BTreeMap<u64, u64>;

impl Live {
    fn read(&self) -> Result<Value, Failure> {
        page(self.admin, None, "/histograms.json").map_err(|why| Failure::Failed(vec![why]))
    }

    /// Takes one measurement.
    pub fn measure(&self, run_control: &RunControl) -> Result<Measured, Failure> {
        let host = Host::now("/".into(), self.pid);
        let begun = Instant::now();
        let (before, first) = (Counters::read(&host, begun.elapsed()), self.read()?);
        settle(Duration::from_secs(self.seconds), run_control);
        let (after, second) = (Counters::read(&host, begun.elapsed()), self.read()?);
        let mut measured = Measured { figures: counted_figures(&after.since(&before)), fault: None };
        for (part, p999, p99) in PARTS {
            let Some(times) = buckets(&first[part]).zip(buckets(&second[part])).and_then(|(a, b)| since(&a, &b)) else {
                measured.fault = Some("the server was restarted".to_owned());
                return Ok(measured);
            };
            let count = times.values().sum::<u64>();
            if part == "execute" {
                measured.figures.insert("answers_per_s".to_owned(), count as f64 / begun.elapsed().as_secs_f64());
                if count < REQUESTS_MIN {
                    measured.fault = Some(format!("{count} requests arrived; at least {REQUESTS_MIN} are needed"));
                }
            }
            for (id, share) in [(p999, 0.999), (p99, 0.99)] {
                measured.figures.extend(quantile(&times, share).map(|ns| (id.to_owned(), ns as f64)));
            }
        }
        Ok(measured)
    }
}

fn buckets(part: &Value) -> Option<Buckets> {
    let pair = |pair: &Value| Some((pair.get(0)?.as_u64()?, pair.get(1)?.as_u64()?));
    part.as_array()?.iter().map(pair).collect()
}

/// Returns the counts between two readings; `None` if a count decreased, as after a restart of the server.
fn since(before: &Buckets, after: &Buckets) -> Option<Buckets> {
    let is_whole = before.iter().all(|(ns, count)| after.get(ns).is_some_and(|now| now >= count));
    let grown = |(ns, now): (&u64, &u64)| (*ns, now - before.get(ns).copied().unwrap_or(0));
    is_whole.then(|| after.iter().map(grown).collect())
}

/// Returns the upper bound of the bucket that contains the quantile `share`.
fn quantile(times: &Buckets, share: f64) -> Option<u64> {
    let rank = (times.values().sum::<u64>() as f64 * share).ceil() as u64;
    let mut seen = 0;
    times.iter().find_map(|(ns, count)| {
        seen += count;
        (seen >= rank.max(1)).then_some(*ns)
    })
}

/// Returns the reason why a round does not count, if the request rates of its two sides differ too much.
pub fn apart(before: &Measured, changed: &Measured) -> Option<String> {
    let rate = |side: &Measured| side.figures.get("answers_per_s").copied().filter(|rate| *rate > 0.0);
    let (a, b) = (rate(before)?, rate(changed)?);
    let apart = a.max(b) / a.min(b) - 1.0;
    (apart > RATE_APART_MAX).then(|| format!("the traffic of both sides differs by {:.0} %", apart * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantile_covers_only_the_interval_between_two_readings() {
        let before = buckets(&json!([[100, 5000], [9000, 7]])).unwrap();
        let after = buckets(&json!([[100, 5990], [200, 8], [9000, 9]])).unwrap();
        let times = since(&before, &after).unwrap();
        assert_eq!(
            (quantile(&times, 0.99), quantile(&times, 0.998), quantile(&times, 1.0)),
            (Some(100), Some(200), Some(9000))
        );
        assert_eq!(since(&after, &before), None, "a restarted server counts from 0");
        assert_eq!(quantile(&Buckets::new(), 0.5), None);
    }

    #[test]
    fn rounds_with_other_traffic_do_not_count() {
        let side = |rate: f64| Measured { figures: BTreeMap::from([("answers_per_s".to_owned(), rate)]), fault: None };
        assert_eq!(apart(&side(1000.0), &side(1090.0)), None);
        assert_eq!(apart(&side(1200.0), &side(1000.0)).unwrap(), "the traffic of both sides differs by 20 %");
    }
}
