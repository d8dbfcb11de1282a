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

mod catalogue;
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
mod rounds;
mod scene;
mod tally;
mod thp;

use std::sync::atomic::AtomicBool;
use std::time::Instant;

pub use catalogue::{LABS, Lab, LabEntry};
pub use draw::html;
pub use ledger::Ledger;
pub use outcome::{Compared, LabOutcome, LabPhase, Timeline};
pub use part::run as run_part;
pub use scene::{LabOptions, Unable};

use scene::Scene;

/// Runs a lab. Everything that it created is removed when it returns, even on an error.
///
/// # Errors
/// [`Unable`].
pub fn run(
    lab: Lab,
    wanted: &LabOptions,
    ledger: &mut Ledger,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<LabOutcome, Unable> {
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
