//! Labs: each demonstrates one mechanism that causes latency tails, measures it, and runs the check that detects it.
//!
//! ```text
//!   Lab ── run ──> Scene: ledger (things to remove again), stop, clock
//!                    │  phases, the settings alternate:  A B B A A B ...
//!                    v
//!                  Part: this program again, as a process in a control group or network of its own
//!                    │   a tally of times, counts
//!                    v
//!                  Outcome: phases, differences of pairs with intervals, the check's finding ──> text, JSON, HTML
//! ```
//!
//! Invariants:
//! - Everything that a lab creates outside its folder (control groups, networks, loop devices, settings) is recorded in
//!   the [`ledger`] first. It is removed at the end, at a signal, and by the next start if this one was killed.
//! - If a lab cannot run on this host, it says why ([`Unable::Host`]); it never shows something else instead.
//! - Intervals of differences decide whether the mechanism was shown, and "not shown" is a valid result.

mod draw;
mod group;
mod irq;
pub mod ledger;
mod outcome;
mod part;
mod phases;
mod quota;
mod readahead;
pub mod reclaim;
mod tally;
mod thp;
mod turns;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use draw::html;
pub use ledger::Ledger;
pub use outcome::{Compared, Outcome, Phase, Timeline};
pub use part::run as run_part;

use crate::check::{self, Finding, select};
use crate::host::{Asked, Host, Target};

/// A mechanism that a lab demonstrates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lab {
    /// The CPU quota of a control group.
    Quota,
    /// Transparent huge pages.
    Thp,
    /// Read-ahead at faults in mapped files.
    Readahead,
    /// The network's soft interrupts on a worker's CPU.
    Irq,
    /// Memory that has to be freed before a read goes on.
    Reclaim,
}

/// A lab, as its users know it.
pub struct Entry {
    /// The lab.
    pub lab: Lab,
    /// Its name.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// The mechanism behind it.
    pub mechanism: &'static str,
    /// Default seconds of a phase: text, for the command line.
    pub seconds: &'static str,
    /// The checks that detect it.
    pub checks: &'static [&'static str],
}

/// All labs.
pub const LABS: [Entry; 5] = [
    Entry {
        lab: Lab::Quota,
        name: "quota",
        about: "A control group's CPU quota stops a server that uses less than its share",
        mechanism: "A group that has used its share of a period is stopped until the next one begins. Requests do not \
                    come evenly, so a period now and then holds more work than the mean, and its last requests wait \
                    for the next.",
        seconds: "2",
        checks: &["cg.cpu-quota"],
    },
    Entry {
        lab: Lab::Thp,
        name: "thp",
        about: "Huge pages: the first touch is dear, the memory more than was touched, every later read cheaper",
        mechanism: "The first touch of a huge page finds and clears 2 MiB at once, in the middle of a request, and \
                    keeps them although a byte was wanted. Where memory is used densely and got in advance, the same \
                    pages save translations on every read.",
        seconds: "2",
        checks: &["mem.thp", "mem.thp-defrag"],
    },
    Entry {
        lab: Lab::Readahead,
        name: "readahead",
        about: "Read-ahead makes a fault for one page read many",
        mechanism: "A fault in a mapped file reads what is around the page too, as much as the device's read_ahead_kb \
                    says. Where reads are random that is wasted: the disk is busy with unused pages, and it \
                    pushes out of the cache what was in use.",
        seconds: "2",
        checks: &["disk.readahead"],
    },
    Entry {
        lab: Lab::Irq,
        name: "irq",
        about: "Packets that are received on a worker's CPU take its time",
        mechanism: "What the network receives is worked on in soft interrupts, before any thread of the CPU that they \
                    run on. A thread that is pinned there waits, even if the packets are for another one.",
        seconds: "2",
        checks: &["irq.softirq-time"],
    },
    Entry {
        lab: Lab::Reclaim,
        name: "reclaim",
        about: "Files that come and go under memory pressure, beside a pool of files and an arena",
        mechanism: "A new file's pages have to be found: where no memory is free, the thread that needs one frees \
                    others first, and what goes is often what is read next. Files that are used again, or memory \
                    that was got at the start, ask for nothing.",
        seconds: "6",
        checks: &["mem.reclaim", "mem.page-cache-garbage", "numa.zone-reclaim", "mem.mglru"],
    },
];

impl Lab {
    /// Returns the lab's entry in the list.
    pub fn entry(self) -> &'static Entry {
        LABS.iter().find(|entry| entry.lab == self).expect("every lab is in the list")
    }
}

/// The reason why there is no outcome.
#[derive(Debug, PartialEq, Eq)]
pub enum Unable {
    /// This host lacks something that the lab needs, or does not allow it. The text names it, and a remedy.
    Host(String),
    /// The lab failed.
    Failed(String),
    /// The lab was stopped on request.
    Stopped,
}

impl std::fmt::Display for Unable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host(why) => write!(f, "it cannot be shown here: {why}"),
            Self::Failed(why) => f.write_str(why),
            Self::Stopped => f.write_str("it was stopped"),
        }
    }
}

/// The length and number of a lab's phases, and its other parameters.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Number of rounds. In each round every setting has one phase.
    pub rounds: u32,
    /// Length of a phase.
    pub phase: Duration,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The parameters of `reclaim`.
    pub reclaim: reclaim::Shape,
    /// This program's path, from which parts are started.
    pub program: PathBuf,
}

/// The environment in which a lab runs.
pub struct Scene<'a> {
    wanted: &'a Wanted,
    ledger: &'a mut Ledger,
    stop: &'a AtomicBool,
    begun: Instant,
    tell: &'a mut dyn FnMut(&str),
}

impl Scene<'_> {
    /// # Errors
    /// [`Unable::Stopped`] once a stop was requested.
    fn go_on(&self) -> Result<(), Unable> {
        if self.stop.load(Ordering::Relaxed) { Err(Unable::Stopped) } else { Ok(()) }
    }

    /// Returns the seconds since the lab began.
    fn now_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }
}

/// Runs a lab. Everything that it created is removed when it returns, even on an error.
///
/// # Errors
/// [`Unable`].
pub fn run(
    lab: Lab,
    wanted: &Wanted,
    ledger: &mut Ledger,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<Outcome, Unable> {
    let begun = Instant::now();
    let mut scene = Scene { wanted, ledger, stop, begun, tell };
    let outcome = match lab {
        Lab::Quota => quota::run(&mut scene),
        Lab::Thp => thp::run(&mut scene),
        Lab::Readahead => readahead::run(&mut scene),
        Lab::Irq => irq::run(&mut scene),
        Lab::Reclaim => reclaim::run(&mut scene),
    };
    let left = ledger.clear();
    let outcome = outcome?;
    if left.is_empty() { Ok(outcome) } else { Err(Unable::Failed(left.join("; "))) }
}

/// Runs a lab's checks now, on this host or on a tree, about a process, and returns their findings.
fn found(lab: Lab, root: &str, pid: Option<u32>, window: Duration) -> Vec<Finding> {
    let only: Vec<String> = lab.entry().checks.iter().map(|id| (*id).to_owned()).collect();
    let checks = select(&only).expect("a lab's checks exist");
    check::run(&Host::watch(Target { root: root.into(), pid, window, asked: Asked::default() }), &checks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lab_has_a_check_that_is_there() {
        for entry in &LABS {
            let only: Vec<String> = entry.checks.iter().map(|id| (*id).to_owned()).collect();
            assert_eq!(select(&only).map(|checks| checks.len()), Ok(entry.checks.len()), "{}", entry.name);
            assert_eq!(entry.lab.entry().name, entry.name);
        }
    }
}
