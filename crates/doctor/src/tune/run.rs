//! Writing what was drafted, and taking it back.

use std::path::Path;

use super::journal::{Journal, Known, Log, Record};
use super::{Draft, Setting, Step, is_same, read, write};

/// An instant at which a run may end for good: by a crash, a kill, the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The journal does not know of the step yet.
    Begun(usize),
    /// The journal knows of it, and nothing is written.
    Journaled(usize),
    /// It is written, and the journal does not know.
    Written(usize),
    /// The journal knows of that too.
    Recorded(usize),
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds what was to be written.
    Done,
    /// It holds something else: the kernel took another value, which is told.
    Clamped(String),
    /// The kernel did not take it, or it may not be written: why.
    Refused(String),
    /// It held the old value already.
    Untouched,
    /// Somebody else changed it since, to what is told, and it was left so.
    Foreign(String),
    /// The host was started anew since, and its start set it.
    Restarted,
}

/// A step with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// It.
    pub step: Step,
    /// What became of it.
    pub outcome: Outcome,
}

/// Writes the steps of a draft, each in the journal before. `reached` is called at every [`Moment`].
///
/// # Errors
/// In words: the journal can not be written any more; what it has can be undone.
pub fn apply(
    root: &Path,
    journal: &mut Journal,
    draft: &Draft,
    reached: &mut dyn FnMut(Moment),
) -> Result<Vec<Settled>, String> {
    let mut settled = Vec::new();
    for (at, step) in draft.steps.iter().enumerate() {
        reached(Moment::Begun(at));
        journal.append(&Record::Change { at, step: step.clone() })?;
        reached(Moment::Journaled(at));
        let outcome = match write(root, &step.new) {
            Err(why) => {
                journal.append(&Record::Refused { at, why: why.clone() })?;
                Outcome::Refused(why)
            }
            Ok(()) => {
                reached(Moment::Written(at));
                match read(root, &step.new.path) {
                    Err(why) => Outcome::Refused(format!("it can not be read back: {why}")),
                    Ok(now) => {
                        journal.append(&Record::Done { at, now: now.clone() })?;
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

fn outcome(step: &Step, now: String) -> Outcome {
    let path = &step.new.path;
    if is_same(path, &now, &step.new.value) {
        Outcome::Done
    } else if is_same(path, &now, &step.old) {
        Outcome::Refused(format!("the kernel took it and left {now}"))
    } else {
        Outcome::Clamped(now)
    }
}

/// Takes the steps of a run back, the last first. `boot` is this start of the host; with `force` also what somebody
/// else changed since.
///
/// # Errors
/// In words: the journal can not be written; what is left can be undone by another call.
pub fn undo(
    root: &Path,
    journal: &mut Journal,
    log: &Log,
    boot: &str,
    force: bool,
    reached: &mut dyn FnMut(Moment),
) -> Result<Vec<Settled>, String> {
    let mut settled = Vec::new();
    for (at, known) in log.steps.iter().enumerate().rev().filter(|(_, known)| !known.is_undone) {
        reached(Moment::Begun(at));
        let outcome = take_back(root, known, log.boot != boot, force);
        reached(Moment::Written(at));
        // What was left as it is may be undone by force later.
        let how = match &outcome {
            Outcome::Done => Some("restored"),
            Outcome::Untouched => Some("untouched"),
            Outcome::Restarted => Some("restarted"),
            Outcome::Foreign(_) | Outcome::Refused(_) | Outcome::Clamped(_) => None,
        };
        if let Some(how) = how {
            journal.append(&Record::Undone { at, how: how.to_owned() })?;
        }
        reached(Moment::Recorded(at));
        settled.push(Settled { step: known.step.clone(), outcome });
    }
    Ok(settled)
}

fn take_back(root: &Path, known: &Known, has_restarted: bool, force: bool) -> Outcome {
    let step = &known.step;
    let path = &step.new.path;
    let held = match read(root, path) {
        Ok(held) => held,
        // An interface or a disk that is gone took its settings along.
        Err(crate::host::Unread::Absent(_)) => return Outcome::Untouched,
        Err(why) => return Outcome::Refused(why.to_string()),
    };
    if is_same(path, &held, &step.old) {
        return Outcome::Untouched;
    }
    if has_restarted && !force {
        return Outcome::Restarted;
    }
    let is_ours =
        is_same(path, &held, &step.new.value) || known.now.as_ref().is_some_and(|now| is_same(path, &held, now));
    if !is_ours && !force {
        return Outcome::Foreign(held);
    }
    let back: &Setting = &step.back;
    match write(root, back).and_then(|()| read(root, path).map_err(|why| why.to_string())) {
        Err(why) => Outcome::Refused(why),
        // A setting that is taken back by another holds what that makes of it.
        Ok(now) if back.path != *path || is_same(path, &now, &step.old) => Outcome::Done,
        Ok(now) => Outcome::Clamped(now),
    }
}
