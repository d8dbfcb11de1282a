//! Writes the settings of a draft, and undoes them.

use std::path::Path;

use super::journal::{Journal, JournalRecord, JournalStep, RunLog};
use super::{Setting, SettingStep, TunePlan, is_same, read, write};

/// An instant of a run, used by tests that interrupt the run there as a crash, a kill or a power loss would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The journal does not contain the step yet.
    Begun(usize),
    /// The journal contains the step, and nothing is written.
    Journaled(usize),
    /// The setting is written, and the journal does not record that yet.
    Written(usize),
    /// The journal records the outcome too.
    Recorded(usize),
}

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The file has the intended value.
    Done,
    /// The kernel stored another value, given here.
    Clamped(String),
    /// The kernel refused the value, or the file must not be written: the reason.
    Refused(String),
    /// The file already had the old value.
    Untouched,
    /// Another program or person has changed the file to the value given here. It was left unchanged.
    Foreign(String),
    /// The host was rebooted since the run, so the file has its value from the boot.
    Restarted,
}

/// A step with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The step.
    pub step: SettingStep,
    /// The outcome of the step.
    pub outcome: StepOutcome,
}

/// Writes the steps of a draft, each after the journal has recorded it. Calls `reached` at every [`Moment`].
///
/// # Errors
/// A message, if the journal cannot be written any more. The steps that it records can be undone.
pub fn apply(
    root: &Path,
    journal: &mut Journal,
    draft: &TunePlan,
    reached: &mut dyn FnMut(Moment),
) -> Result<Vec<Settled>, String> {
    let mut settled = Vec::new();
    for (at, step) in draft.steps.iter().enumerate() {
        reached(Moment::Begun(at));
        journal.append(&JournalRecord::Change { at, step: step.clone() })?;
        reached(Moment::Journaled(at));
        let outcome = match write(root, &step.new) {
            Err(why) => {
                journal.append(&JournalRecord::Refused { at, why: why.clone() })?;
                StepOutcome::Refused(why)
            }
            Ok(()) => {
                reached(Moment::Written(at));
                match read(root, &step.new.path) {
                    Err(why) => StepOutcome::Refused(format!("cannot read it back: {why}")),
                    Ok(now) => {
                        journal.append(&JournalRecord::Done { at, now: now.clone() })?;
                        outcome(step, now)
                    }
                }
            }
        };
        reached(Moment::Recorded(at));
        settled.push(Settled { step: step.clone(), outcome });
    }
    Ok(settled)
}

fn outcome(step: &SettingStep, now: String) -> StepOutcome {
    let path = &step.new.path;
    if is_same(path, &now, &step.new.value) {
        StepOutcome::Done
    } else if is_same(path, &now, &step.old) {
        StepOutcome::Refused(format!("the kernel accepted the value, but the value is still {now}"))
    } else {
        StepOutcome::Clamped(now)
    }
}

/// Undoes the steps of a run, the last first. `boot` identifies the current boot of the host. With `force`, steps are
/// undone even if another program has changed the file or the host was rebooted since.
///
/// # Errors
/// A message, if the journal cannot be written. Another call can undo the remaining steps.
pub fn undo(
    root: &Path,
    journal: &mut Journal,
    log: &RunLog,
    boot: &str,
    force: bool,
    reached: &mut dyn FnMut(Moment),
) -> Result<Vec<Settled>, String> {
    let mut settled = Vec::new();
    for (at, known) in log.steps.iter().enumerate().rev().filter(|(_, known)| !known.is_undone) {
        reached(Moment::Begun(at));
        let outcome = take_back(root, known, log.boot != boot, force);
        reached(Moment::Written(at));
        // A step that was left unchanged is not recorded as undone, so that it can be undone by force later.
        let how = match &outcome {
            StepOutcome::Done => Some("restored"),
            StepOutcome::Untouched => Some("untouched"),
            StepOutcome::Restarted => Some("restarted"),
            StepOutcome::Foreign(_) | StepOutcome::Refused(_) | StepOutcome::Clamped(_) => None,
        };
        if let Some(how) = how {
            journal.append(&JournalRecord::Undone { at, how: how.to_owned() })?;
        }
        reached(Moment::Recorded(at));
        settled.push(Settled { step: known.step.clone(), outcome });
    }
    Ok(settled)
}

fn take_back(root: &Path, known: &JournalStep, has_restarted: bool, force: bool) -> StepOutcome {
    let step = &known.step;
    let path = &step.new.path;
    let held = match read(root, path) {
        Ok(held) => held,
        // The interface or disk no longer exists, and its settings neither.
        Err(crate::host::Unread::Absent(_)) => return StepOutcome::Untouched,
        Err(why) => return StepOutcome::Refused(why.to_string()),
    };
    if is_same(path, &held, &step.old) {
        return StepOutcome::Untouched;
    }
    if has_restarted && !force {
        return StepOutcome::Restarted;
    }
    let is_ours =
        is_same(path, &held, &step.new.value) || known.now.as_ref().is_some_and(|now| is_same(path, &held, now));
    if !is_ours && !force {
        return StepOutcome::Foreign(held);
    }
    let back: &Setting = &step.back;
    match write(root, back).and_then(|()| read(root, path).map_err(|why| why.to_string())) {
        Err(why) => StepOutcome::Refused(why),
        // If another file restores the setting, the content of this file follows from it and is not compared.
        Ok(now) if back.path != *path || is_same(path, &now, &step.old) => StepOutcome::Done,
        Ok(now) => StepOutcome::Clamped(now),
    }
}
