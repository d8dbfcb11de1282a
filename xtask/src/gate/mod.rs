//! Counts instructions per request. Unlike times, such counts are repeatable, so every test run detects a change of
//! cost.
//!
//! ```text
//!   server under callgrind, one worker  <── one connection ── case: requests in flight, batch after batch
//!     warm-up batches;  counters reset;  then 3 times:  measured batches;  counters to a file, and reset
//!   instructions per request = the busiest thread's lowest count / requests
//! ```
//!
//! The release binary runs with real sockets. Only user-space instructions count, not those of system calls. There is
//! one connection, and each batch is written whole, so that all iterations of the server do the same work. The server's
//! clock is slowed down, so that its visits end by work and not by time ([`callgrind`]). Its sleeps are
//! not: a worker whose next deadline is near wakes up many times, because its clock hardly moves while it sleeps. How
//! many times, and during which case, depends on the machine. So a case is measured in parts, of which the cheapest
//! counts. Two runs of a build then differ by at most 0.5 % in most cases.
//!
//! The file [`KEPT`] has the expected counts. A case fails if its count is more than [`TOLERANCE`] above the
//! expected one, or more than [`SHORTFALL`] below it: the file always describes the present code. [`steps`] counts the
//! instructions per step of long commands, and compares them in the same way.

mod callgrind;
mod cases;
mod grpc;
mod steps;

use std::collections::BTreeMap;
use std::path::Path;

use callgrind::Counted;
use cases::{Case, GateProtocol};

use testbed::server::{ServerKind, TestServer};

/// The number of parts in which the batches of a case are measured.
const PARTS: usize = 3;
/// Maximum excess of a count over the stored count, as a share of the latter.
const TOLERANCE: f64 = 0.03;
/// Maximum shortfall of a count below the stored count, as a share of the latter. A count depends on how many requests
/// each read of the socket returns, and is the minimum of several runs, so a fast run can be this far below.
const SHORTFALL: f64 = 0.06;
/// Maximum number of times that the cases that differ from their stored counts are measured again.
const RECOUNTS: usize = 4;
/// Path of the file of stored counts, which has a line for each case.
const KEPT: &str = "xtask/src/gate/kept.toml";

/// The options of the gate.
#[derive(Clone, Copy, Debug)]
pub struct GateOptions {
    /// True to measure Debian's memcached and Redis too. Their counts are only printed, not compared with stored
    /// counts.
    pub with_peer: bool,
    /// True to store the counts of this run.
    pub keep: bool,
}

/// Measures every case and prints the counts. Returns true if all are [`near`] the stored
/// counts.
///
/// # Errors
/// A sentence with the reason, if a server or valgrind fails.
pub fn run(root: &Path, options: &GateOptions) -> Result<bool, String> {
    steps::build(root)?;
    // The two programs share no state, and each keeps one CPU busy.
    let (ours, prices) = std::thread::scope(|scope| {
        let prices = scope.spawn(|| steps::count(root));
        let ours = count(ServerKind::GannetEpoll, &|_| true);
        (ours, prices.join().unwrap_or_else(|_| Err("the thread that measures the long commands panicked".into())))
    });
    let (mut ours, prices) = (ours?, prices?);
    // Background work during a case only adds instructions, so the lower of two counts is the more accurate one.
    let count_again = |ours: &mut BTreeMap<&'static str, u64>, wanted: &dyn Fn(&Case) -> bool| -> Result<(), String> {
        for (name, again) in count(ServerKind::GannetEpoll, wanted)? {
            ours.entry(name).and_modify(|now| *now = again.min(*now));
        }
        Ok(())
    };
    let peer = match options.with_peer {
        true => {
            let mut peer = count(ServerKind::Memcached, &|case| case.protocol == GateProtocol::Memcache)?;
            peer.extend(count(ServerKind::Redis, &|case| case.protocol == GateProtocol::Resp)?);
            Some(peer)
        }
        false => None,
    };
    let path = root.join(KEPT);
    if options.keep {
        count_again(&mut ours, &|_| true)?;
        write_kept(&path, &ours.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect())?;
    }
    let kept = read_kept(&path)?;
    for _ in 0..RECOUNTS {
        let strayed: Vec<&str> =
            cases::ALL.iter().filter(|case| !is_near(&kept, case, ours[case.name])).map(|case| case.name).collect();
        if strayed.is_empty() {
            break;
        }
        count_again(&mut ours, &|case| strayed.contains(&case.name))?;
    }
    let failed = report_cases(&ours, &kept, peer.as_ref());
    let (steps, strayed) = report_steps(root, options, &prices)?;
    let (all, failed) = (cases::ALL.len() + steps, failed + strayed);
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {} passed; {failed} failed;", all - failed);
    Ok(failed == 0)
}

/// The instructions per request of each case, by its name.
type Counts<'a> = BTreeMap<&'a str, u64>;

/// Returns true if the stored count of the case exists and is near `now`.
fn is_near(kept: &BTreeMap<String, u64>, case: &Case, now: u64) -> bool {
    kept.get(case.name).is_some_and(|was| near(now, *was))
}

/// Prints the count of each case. Returns the number of those whose count differs from the stored one.
fn report_cases(ours: &Counts, kept: &BTreeMap<String, u64>, peer: Option<&Counts>) -> usize {
    println!(
        "| user instructions per request | in flight | gannet | stored |{}",
        if peer.is_some() { " memcached, redis-server |" } else { "" }
    );
    println!("|---|---|---|---|{}", if peer.is_some() { "---|" } else { "" });
    let mut failed = Vec::new();
    for case in cases::ALL {
        let now = ours[case.name];
        let was = kept.get(case.name).copied();
        // Neither peer serves gRPC clients.
        let theirs = |peer: &Counts| format!(" {} |", peer.get(case.name).map_or("-".into(), u64::to_string));
        let theirs = peer.map(theirs).unwrap_or_default();
        println!(
            "| {} | {} | {now} | {} |{theirs}",
            case.what,
            case.depth,
            was.map_or("-".into(), |was| was.to_string())
        );
        if !is_near(kept, case, now) {
            failed.push(case);
        }
    }
    for case in &failed {
        // In the form of a failed test, so that the summary of all tests repeats it.
        println!(
            "test {} ... FAILED\n{} instructions, but {} are stored. If the change is intended, explain it in the \
             commit and run `make bench-gate ARGS=--keep`.",
            case.name,
            ours[case.name],
            kept.get(case.name).map_or("none".into(), u64::to_string)
        );
    }
    failed.len()
}

/// Prints the cost of a step of each long command. Returns the number of commands, and the number of those whose cost
/// differs from the stored one.
fn report_steps(root: &Path, options: &GateOptions, prices: &[steps::Price]) -> Result<(usize, usize), String> {
    let path = root.join(steps::KEPT);
    if options.keep {
        write_kept(&path, &steps::by_name(prices))?;
    }
    let kept = read_kept(&path)?;
    println!("\n| command | unit | instructions per unit | stored |\n|---|---|---|---|");
    for steps::Price { command, unit, instructions } in prices {
        let was = kept.get(command).map_or("-".into(), u64::to_string);
        println!("| {command} | {unit} | {instructions} | {was} |");
    }
    let strayed = steps::strayed(prices, &kept);
    for command in &strayed {
        let now = prices.iter().find(|price| price.command == *command);
        println!(
            "test {command} ... FAILED\n{} instructions per unit, but {} are stored in {}. If the change is intended, \
             explain it in the commit and run `make bench-gate ARGS=--keep`.",
            now.map_or("no".into(), |price| price.instructions.to_string()),
            kept.get(command).map_or("none".into(), u64::to_string),
            steps::KEPT
        );
    }
    Ok((prices.len().max(kept.len()), strayed.len()))
}

/// Returns whether a count is at most [`TOLERANCE`] above and [`SHORTFALL`] below the stored one.
fn near(now: u64, was: u64) -> bool {
    let tolerance = if now > was { TOLERANCE } else { SHORTFALL };
    now.abs_diff(was) as f64 <= was as f64 * tolerance
}

fn write_kept(path: &Path, counts: &BTreeMap<String, u64>) -> Result<(), String> {
    let text = toml::to_string(counts).map_err(|error| error.to_string())?;
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn read_kept(path: &Path) -> Result<BTreeMap<String, u64>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Measures the cases for which `is_asked` returns true, all on one server.
fn count(kind: ServerKind, is_asked: &dyn Fn(&Case) -> bool) -> Result<BTreeMap<&'static str, u64>, String> {
    let counted = Counted::start(kind)?;
    let asked: Vec<&Case> = cases::ALL.iter().filter(|case| is_asked(case)).collect();
    let is_first = |at: usize| at == 0 || asked[at - 1].protocol != asked[at].protocol;
    asked.iter().enumerate().map(|(at, case)| Ok((case.name, one(&counted, case, is_first(at))?))).collect()
}

/// Runs one case: warm-up, then the measured batches. Returns the instructions per request, of the cheapest part.
/// `is_first` if the server has had no case of this protocol.
fn one(counted: &Counted, case: &Case, is_first: bool) -> Result<u64, String> {
    let at = |error: String| format!("{}: {error}", case.name);
    let server: &TestServer = counted.server();
    let address = match case.protocol {
        GateProtocol::Memcache => server.address,
        GateProtocol::Resp => server.resp,
        GateProtocol::Grpc => server.grpc.ok_or("the server does not listen for gRPC clients")?,
    };
    let mut client = cases::GateClient::connect(case.protocol, address).map_err(at)?;
    client.prepare(case, is_first).map_err(at)?;
    client.run(case, 0..case.warm_batches()).map_err(at)?;
    counted.zero()?;
    let (batches, mut next, mut least) = (case.batches / PARTS, case.warm_batches(), u64::MAX);
    for _ in 0..PARTS {
        client.run(case, next..next + batches).map_err(at)?;
        next += batches;
        least = least.min(counted.take()?);
    }
    Ok((least as f64 / (batches * case.requests_a_batch()) as f64).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_percent_above_or_six_below_is_near_and_more_is_not() {
        assert!(near(700, 700) && near(721, 700) && near(658, 700));
        assert!(!near(722, 700) && !near(657, 700) && !near(0, 700));
    }

    #[test]
    fn every_gate_case_has_a_recorded_count() {
        let kept = read_kept(&testbed::root().join(KEPT)).expect("the file is there");
        let names: Vec<_> = kept.keys().map(String::as_str).collect();
        let mut cases: Vec<_> = cases::ALL.iter().map(|case| case.name).collect();
        cases.sort_unstable();
        assert_eq!(names, cases);
    }
}
