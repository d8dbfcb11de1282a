//! The environment in which a lab runs: its options, its ledger, its stop flag and its start time.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::catalogue::Lab;
use super::ledger::Ledger;
use super::reclaim::options::ReclaimOptions;
use crate::check::{self, Finding};
use crate::checks::select;
use crate::host::{CheckTarget, Host, OptInActions};

/// The reason why a lab has no outcome.
#[derive(Debug, PartialEq, Eq)]
pub enum Unable {
    /// The lab cannot run on this host: the reason, with a remedy if there is one.
    Host(String),
    /// The lab failed: the reason.
    Failed(String),
    /// The lab was stopped on request.
    Stopped,
}

impl std::fmt::Display for Unable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host(why) => write!(f, "this host cannot show it: {why}"),
            Self::Failed(why) => f.write_str(why),
            Self::Stopped => f.write_str("the lab was stopped"),
        }
    }
}

/// The length and number of a lab's phases, and its other parameters.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// Number of rounds. A round has one phase for each setting.
    pub rounds: u32,
    /// Length of a phase.
    pub phase: Duration,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The parameters of `reclaim`.
    pub reclaim: ReclaimOptions,
    /// The path of this program, which the lab starts again for its parts.
    pub program: PathBuf,
}

/// The environment in which a lab runs.
pub struct Scene<'a> {
    pub(super) wanted: &'a LabOptions,
    pub(super) ledger: &'a mut Ledger,
    pub(super) stop: &'a AtomicBool,
    pub(super) begun: Instant,
    pub(super) tell: &'a mut dyn FnMut(&str),
}

impl Scene<'_> {
    /// # Errors
    /// [`Unable::Stopped`] once a stop was requested.
    pub(super) fn go_on(&self) -> Result<(), Unable> {
        if self.stop.load(Ordering::Relaxed) { Err(Unable::Stopped) } else { Ok(()) }
    }

    /// Returns the seconds since the lab began.
    pub(super) fn now_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }
}

/// Runs the checks of a lab for a process, on this host or on a copied tree, and returns their findings.
pub(super) fn found(lab: Lab, root: &str, pid: Option<u32>, window: Duration) -> Vec<Finding> {
    let only: Vec<String> = lab.entry().checks.iter().map(|id| (*id).to_owned()).collect();
    let checks = select(&only).expect("a lab's checks exist");
    check::run(&Host::watch(CheckTarget { root: root.into(), pid, window, asked: OptInActions::default() }), &checks)
}
