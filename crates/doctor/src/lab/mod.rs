//! Labs. Each lab produces one mechanism that causes tail latency, measures it, and runs the checks that detect it.
//!
//! ```text
//!   Lab ── run ──> Scene: ledger (resources to remove), stop, clock
//!                    │  phases, the settings alternate:  A B B A A B ...
//!                    v
//!                  Part: this program again, as a process in its own control group or network
//!                    │   a tally of times, and counts
//!                    v
//!                  Outcome: phases, differences between settings with intervals, findings ──> text, JSON, HTML
//! ```
//!
//! Invariants:
//! - Everything that a lab creates outside its folder (control groups, networks, loop devices, settings) is recorded in
//!   the [`ledger`] first. It is removed at the end and at a signal. If the lab is killed, the next lab
//!   removes it.
//! - A lab that cannot produce its mechanism on this host reports the reason ([`Unable::Host`]). It never produces
//!   another mechanism instead.
//! - The intervals of the differences decide whether the mechanism was shown. "Not shown" is a valid result.

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
