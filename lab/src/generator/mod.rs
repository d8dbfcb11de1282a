//! Validates the load generator: compares its times with computed times, and its throughput with other generators'.
//!
//! ```text
//!   accuracy   loads a fake server with known delays,       compares percentiles with those of the same run under a
//!              over sockets                                 simulated clock, which unit tests compare with arithmetic
//!   agree      loads redis-server and memcached,            compares requests per second with those of
//!              in a closed loop                             redis-benchmark and memcaslap
//! ```
//! Both depend on timing, so neither is a test.

pub mod accuracy;
pub mod agree;

use testbed::host;

/// Highest share of the machine's CPU time that the hypervisor may take in a valid run.
const STEAL_MAX: f64 = 0.01;
/// Highest share of the machine's CPU time that other processes may take in a valid run.
const OTHERS_MAX: f64 = 0.05;
/// Default maximum number of attempts of a run. A run is repeated if other work on the machine disturbed it.
const TRIES_MAX: usize = 3;

/// CPU times at one instant: the machine's, and those of this process, its children and the server.
struct Moment {
    ticks: host::MachineTicks,
    own_ns: u64,
}

fn moment(server_pid: Option<u32>) -> Moment {
    let server_ns = server_pid.map_or(0, host::cpu_ns);
    Moment { ticks: host::ticks(), own_ns: host::cpu_ns(std::process::id()) + host::children_cpu_ns() + server_ns }
}

/// Returns whether only the run's own processes used the machine between two moments.
fn is_quiet(before: &Moment, after: &Moment) -> bool {
    let total = (after.ticks.total - before.ticks.total).max(1) as f64;
    let busy_ns = (after.ticks.busy - before.ticks.busy) * host::TICK_NS;
    let others = busy_ns.saturating_sub(after.own_ns.saturating_sub(before.own_ns)) as f64;
    let steal = (after.ticks.steal - before.ticks.steal) as f64 / total;
    steal <= STEAL_MAX && others / (total * host::TICK_NS as f64) <= OTHERS_MAX
}

/// Repeats `run` until nothing disturbs it, at most `tries_max` times. Returns the last outcome, and whether it was
/// undisturbed.
fn quietly<T>(
    tries_max: usize,
    server_pid: Option<u32>,
    mut run: impl FnMut() -> Result<T, String>,
) -> Result<(T, bool), String> {
    let mut tries = 0;
    loop {
        tries += 1;
        let before = moment(server_pid);
        let outcome = run()?;
        let quiet = is_quiet(&before, &moment(server_pid));
        if quiet || tries >= tries_max {
            return Ok((outcome, quiet));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbed_run_is_repeated_and_distinguished_from_a_quiet_run() {
        let at = |total, busy, steal, own_ns| Moment { ticks: host::MachineTicks { total, busy, steal }, own_ns };
        let begin = at(0, 0, 0, 0);
        assert!(is_quiet(&begin, &at(1_000, 500, 5, 480 * host::TICK_NS)));
        assert!(!is_quiet(&begin, &at(1_000, 500, 5, 400 * host::TICK_NS)), "a tenth was other work's");
        assert!(!is_quiet(&begin, &at(1_000, 500, 20, 500 * host::TICK_NS)), "the hypervisor took 2 %");
        let mut runs = 0;
        let (last, quiet) = quietly(4, None, || {
            runs += 1;
            Ok::<usize, String>(runs)
        })
        .unwrap();
        assert!(last == runs && (quiet || runs == 4));
    }
}
