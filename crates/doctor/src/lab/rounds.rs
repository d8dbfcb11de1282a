//! A minimal server: requests arrive at random, and each takes some CPU time.
//!
//! A request's time counts from its arrival to its end, even if the thread was busy or stopped at the arrival. So a
//! stop of the thread lengthens these times by as much as a client would observe.

use std::time::{Duration, Instant};

use base::prng::Prng;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::part::Done;
use super::tally::TimeTally;

/// The load of the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Turns {
    /// The CPU that the server's thread is pinned to, if any.
    pub cpu: Option<usize>,
    /// Requests per second, on average.
    pub rate_per_s: f64,
    /// CPU time of each request.
    pub work: Duration,
    /// Time for which the server runs.
    pub time: Duration,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// Returns the CPU time of this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Serves requests until the time is over.
///
/// # Errors
/// If the thread cannot be pinned.
pub fn serve(turns: &Turns) -> Result<Done, String> {
    if let Some(cpu) = turns.cpu {
        io::affinity::pin_this_thread(cpu).map_err(|error| format!("CPU {cpu}: {error}"))?;
    }
    let (mut tally, mut prng) = (TimeTally::default(), Prng::new(turns.seed));
    let begun = Instant::now();
    let mut arrived = Duration::ZERO;
    loop {
        arrived += Duration::from_secs_f64(-(1.0 - prng.unit()).ln() / turns.rate_per_s);
        if arrived >= turns.time {
            break;
        }
        std::thread::sleep(arrived.saturating_sub(begun.elapsed()));
        let before = used();
        while used() - before < turns.work {}
        tally.record((begun.elapsed() - arrived.min(begun.elapsed())).as_nanos() as u64);
    }
    Ok(Done { times: tally.pairs(), counts: [("cpu_ms".to_owned(), used().as_secs_f64() * 1e3)].into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_takes_at_least_its_work_time_and_is_counted() {
        let turns = Turns {
            cpu: None,
            rate_per_s: 500.0,
            work: Duration::from_micros(100),
            time: Duration::from_millis(200),
            seed: 3,
        };
        let done = serve(&turns).expect("it is not pinned");
        let (tally, cpu_ms) = (TimeTally::from(done.times), done.counts["cpu_ms"]);
        assert!((50..200).contains(&tally.count()), "{}", tally.count());
        assert!(tally.at(0.0) >= 99_000 && cpu_ms >= tally.count() as f64 * 0.1, "{} {cpu_ms}", tally.at(0.0));
    }
}
