//! Instructions a request: repeatable where time is not, so a change that costs or saves some is seen in any test run.
//!
//! ```text
//!   server under callgrind, one worker  <── one connection ── case: requests in flight, batch after batch
//!     warm-up batches;  counters to zero;  measured batches;  counters to a file
//!   instructions a request = the busiest thread's count / requests
//! ```
//!
//! The real binary and real sockets are counted: user instructions only, system calls apart. One connection whose
//! batches are written whole makes each turn of the server the same, so that two runs differ by less than 1 %.
//! [`KEPT`] holds the counts to keep to; a case outside [`TOLERANCE`] of its own fails, whether it costs more or less:
//! what is kept shall be what is. [`steps`] counts and keeps the steps of long commands in the same way.

mod callgrind;
mod cases;
mod steps;

use std::collections::BTreeMap;
use std::path::Path;

use callgrind::Counted;
use cases::Case;

use testbed::server::{ServerKind, TestServer};

/// The largest difference of a count from the stored one, as a share of it.
const TOLERANCE: f64 = 0.03;
/// The counts that are kept, by the names of the cases.
const KEPT: &str = "xtask/src/gate/kept.toml";

/// The actions of a run of the gate.
#[derive(Clone, Copy, Debug)]
pub struct GateOptions {
    /// Count Debian's memcached and Redis beside Gannet; compares with nothing kept.
    pub with_peer: bool,
    /// Keep the counts of this run.
    pub keep: bool,
}

/// Counts every case, prints them, and says whether all are near what is kept.
///
/// # Errors
/// When a server or valgrind does not do what it should, in a sentence.
pub fn run(root: &Path, options: &GateOptions) -> Result<bool, String> {
    let mut ours = count(ServerKind::GannetEpoll, |_| true)?;
    let peer = match options.with_peer {
        true => {
            let mut peer = count(ServerKind::Memcached, |case| !case.resp)?;
            peer.extend(count(ServerKind::Redis, |case| case.resp)?);
            Some(peer)
        }
        false => None,
    };
    let path = root.join(KEPT);
    if options.keep {
        write_kept(&path, &ours.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect())?;
    }
    let kept = read_kept(&path)?;
    let is_near = |case: &Case, now: u64| kept.get(case.name).is_some_and(|was| near(now, *was));
    if !cases::ALL.iter().all(|case| is_near(case, ours[case.name])) {
        // A visit ends by time too, so a pause of the machine adds instructions and never saves any.
        for (name, again) in count(ServerKind::GannetEpoll, |_| true)? {
            ours.entry(name).and_modify(|now| *now = again.min(*now));
        }
    }
    println!(
        "| user instructions a request | in flight | gannet | kept |{}",
        if peer.is_some() { " memcached, redis-server |" } else { "" }
    );
    println!("|---|---|---|---|{}", if peer.is_some() { "---|" } else { "" });
    let mut failed = Vec::new();
    for case in cases::ALL {
        let now = ours[case.name];
        let was = kept.get(case.name).copied();
        let theirs = peer.as_ref().map(|peer| format!(" {} |", peer[case.name])).unwrap_or_default();
        println!(
            "| {} | {} | {now} | {} |{theirs}",
            case.what,
            case.depth,
            was.map_or("-".into(), |was| was.to_string())
        );
        if !is_near(case, now) {
            failed.push(case);
        }
    }
    for case in &failed {
        eprintln!(
            "{}: {} instructions, {} are kept. If that is meant, say why in the commit and run \
             `make bench-gate ARGS=--keep`.",
            case.name,
            ours[case.name],
            kept.get(case.name).map_or("none".into(), u64::to_string)
        );
    }
    let (steps, strayed) = run_steps(root, options)?;
    let (all, failed) = (cases::ALL.len() + steps, failed.len() + strayed);
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {} passed; {failed} failed;", all - failed);
    Ok(failed == 0)
}

/// Prices the steps of long commands and prints them. Returns how many there are and how many differ from kept ones.
fn run_steps(root: &Path, options: &GateOptions) -> Result<(usize, usize), String> {
    let prices = steps::count(root)?;
    let path = root.join(steps::KEPT);
    if options.keep {
        write_kept(&path, &steps::by_name(&prices))?;
    }
    let kept = read_kept(&path)?;
    println!("\n| a step of | unit | instructions a unit | kept |\n|---|---|---|---|");
    for steps::Price { command, unit, instructions } in &prices {
        let was = kept.get(command).map_or("-".into(), u64::to_string);
        println!("| {command} | {unit} | {instructions} | {was} |");
    }
    let strayed = steps::strayed(&prices, &kept);
    if !strayed.is_empty() {
        eprintln!(
            "the price of a step differs from {} by more than {:.0} %, or only one of the two exists: {}. If that is \
             meant, say why in the commit and run `make bench-gate ARGS=--keep`.",
            steps::KEPT,
            TOLERANCE * 100.0,
            strayed.join("; ")
        );
    }
    Ok((prices.len().max(kept.len()), strayed.len()))
}

/// Returns whether a count is within [`TOLERANCE`] of the one that is kept.
fn near(now: u64, was: u64) -> bool {
    now.abs_diff(was) as f64 <= was as f64 * TOLERANCE
}

fn write_kept(path: &Path, counts: &BTreeMap<String, u64>) -> Result<(), String> {
    let text = toml::to_string(counts).map_err(|error| error.to_string())?;
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn read_kept(path: &Path) -> Result<BTreeMap<String, u64>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Counts the cases that `is_asked` on one server.
fn count(kind: ServerKind, is_asked: fn(&&Case) -> bool) -> Result<BTreeMap<&'static str, u64>, String> {
    let counted = Counted::start(kind)?;
    cases::ALL.iter().filter(is_asked).map(|case| Ok((case.name, one(&counted, case)?))).collect()
}

/// One case: warm-up, then what is counted.
fn one(counted: &Counted, case: &Case) -> Result<u64, String> {
    let at = |error: String| format!("{}: {error}", case.name);
    let server: &TestServer = counted.server();
    let mut client = cases::GateClient::connect(if case.resp { server.resp } else { server.address }).map_err(at)?;
    client.prepare(case).map_err(at)?;
    client.run(case, 0..case.warm_batches()).map_err(at)?;
    counted.zero()?;
    client.run(case, case.warm_batches()..case.warm_batches() + case.batches).map_err(at)?;
    let instructions = counted.take()?;
    Ok((instructions as f64 / (case.batches * case.requests_a_batch()) as f64).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_percent_either_way_is_near_and_more_is_not() {
        assert!(near(700, 700) && near(721, 700) && near(679, 700));
        assert!(!near(722, 700) && !near(678, 700) && !near(0, 700));
    }

    #[test]
    fn every_case_has_a_count_that_is_kept() {
        let kept = read_kept(&testbed::root().join(KEPT)).expect("the file is there");
        let names: Vec<_> = kept.keys().map(String::as_str).collect();
        let mut cases: Vec<_> = cases::ALL.iter().map(|case| case.name).collect();
        cases.sort_unstable();
        assert_eq!(names, cases);
    }
}
