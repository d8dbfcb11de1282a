//! Applies and undoes the change under test. After the last measurement, the change stays only if the operator
//! requested that.
//!
//! ```text
//!   apply: create the journal ─> start the guard ─> write the settings
//!   undo:  write the old settings ─> the guard notices the undo and ends
//!   keep:  confirm the run ─> the guard ends; `gannet doctor undo RUN` undoes the run later
//! ```
//! The guard is a process that undoes the change if this process ends.

use std::path::PathBuf;
use std::process::Child;

use doctor::prove::Side;
use doctor::tune::{Journal, RunLog, Settled, StepOutcome, TunePlan, apply, undo};

use super::super::tune;

/// Settings of the host that are applied and undone.
pub struct HostSettings {
    root: PathBuf,
    folder: PathBuf,
    draft: TunePlan,
    applied: Option<Applied>,
}

struct Applied {
    journal: Journal,
    guard: Child,
}

/// The change under test.
pub enum HostChange {
    /// Settings of the host.
    Settings(HostSettings),
    /// The CPUs of the workers of a server that the proof starts.
    Pins(String),
}

impl HostSettings {
    /// Prepares the settings of `draft` without writing any of them.
    pub const fn new(root: PathBuf, folder: PathBuf, draft: TunePlan) -> Self {
        Self { root, folder, draft, applied: None }
    }

    fn write(&mut self) -> Result<(), String> {
        let mut journal = Journal::begin(&self.folder, &tune::boot(&self.root))?;
        let guard = tune::start_guard(&self.root, &self.folder, &journal.run)?;
        let settled = apply(&self.root, &mut journal, &self.draft, &mut |_| {});
        // Any later failure may leave settings changed, so `applied` is set now, for the undo.
        self.applied = Some(Applied { journal, guard });
        match settled?.iter().find_map(refused) {
            Some(why) => Err(format!("it cannot be applied here: {why}")),
            None => Ok(()),
        }
    }

    fn take_back(&mut self) -> Result<(), String> {
        let Some(mut applied) = self.applied.take() else { return Ok(()) };
        let run = applied.journal.run.clone();
        let log = RunLog::read(&self.folder, &run)?;
        let boot = tune::boot(&self.root);
        let settled = undo(&self.root, &mut applied.journal, &log, &boot, false, &mut |_| {})?;
        let stuck = settled.iter().find_map(|step| match &step.outcome {
            StepOutcome::Foreign(now) => {
                Some(format!("{} was changed to {now} by another program", step.step.new.path))
            }
            outcome => refusal(outcome).map(|why| format!("{}: {why}", step.step.new.path)),
        });
        match stuck {
            // The guard tries to undo the run again when this process has ended.
            Some(why) => Err(format!("run {run} was not undone ({why}); see `gannet doctor undo {run}`")),
            None => {
                let _ = applied.guard.wait();
                Ok(())
            }
        }
    }

    fn keep(&mut self) -> Result<String, String> {
        let mut applied = self.applied.take().ok_or("nothing is applied")?;
        applied.journal.confirm()?;
        let _ = applied.guard.wait();
        Ok(applied.journal.run.clone())
    }
}

/// Returns the reason why a setting could not be written; `None` if it was written.
fn refusal(outcome: &StepOutcome) -> Option<String> {
    match outcome {
        StepOutcome::Refused(why) => Some(why.clone()),
        _ => None,
    }
}

fn refused(settled: &Settled) -> Option<String> {
    refusal(&settled.outcome).map(|why| format!("{}: {why}", settled.step.new.path))
}

impl HostChange {
    /// Checks that the change can be applied, before anything is measured.
    ///
    /// # Errors
    /// A message that names a setting that cannot be written.
    pub fn check(&self) -> Result<(), String> {
        let Self::Settings(settings) = self else { return Ok(()) };
        for step in &settings.draft.steps {
            let place = settings.root.join(step.new.path.trim_start_matches('/'));
            let refused = [rustix::io::Errno::ACCESS, rustix::io::Errno::PERM, rustix::io::Errno::ROFS];
            if let Err(error) = rustix::fs::access(&place, rustix::fs::Access::WRITE_OK)
                && refused.contains(&error)
            {
                return Err(format!("{}: {}; run the command as root", step.new.path, std::io::Error::from(error)));
            }
        }
        Ok(())
    }

    /// Puts the host into the state of `side`.
    pub fn set(&mut self, side: Side) -> Result<(), String> {
        match (self, side) {
            (Self::Settings(settings), Side::Changed) if settings.applied.is_none() => settings.write(),
            (Self::Settings(settings), Side::Before) => settings.take_back(),
            _ => Ok(()),
        }
    }

    /// Confirms the change, so that it stays when this process ends. Returns a sentence for the report.
    pub fn keep(&mut self) -> Result<String, String> {
        self.set(Side::Changed)?;
        match self {
            Self::Settings(settings) => {
                let run = settings.keep()?;
                Ok(format!("The change stays: run {run}; `gannet doctor undo {run}` undoes it."))
            }
            Self::Pins(cpus) => Ok(format!("Start the server with --pin {cpus}.")),
        }
    }

    /// Returns the value of `--pin` for a server that is started to measure `side`; `None` if the change does not pin
    /// CPUs.
    pub fn pin(&self, side: Side) -> Option<&str> {
        match (self, side) {
            (Self::Pins(cpus), Side::Changed) => Some(cpus),
            (Self::Pins(_), Side::Before) => Some("none"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doctor::Host;
    use doctor::tune::{Setting, draft_settings};
    use std::path::Path;

    const PATH: &str = "/proc/sys/vm/swappiness";

    fn held(root: &Path) -> String {
        std::fs::read_to_string(root.join(&PATH[1..])).unwrap().trim().to_owned()
    }

    /// Returns the directory of a captured host, and a change of a setting in it from 60 to 1.
    fn change(name: &str) -> (PathBuf, HostChange) {
        let root = std::env::temp_dir().join(format!("gannet-change-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(root.join(&PATH[1..]).parent().unwrap()).unwrap();
        std::fs::write(root.join(&PATH[1..]), "60").unwrap();
        let wish = Setting { path: PATH.to_owned(), value: "1".to_owned() };
        let draft = draft_settings(&Host::now(root.clone(), None), "test", vec![wish]);
        let settings = HostSettings::new(root.clone(), root.join("journals"), draft);
        (root, HostChange::Settings(settings))
    }

    #[test]
    fn change_applies_to_its_side_only_and_can_be_undone_after_keep() {
        let (root, mut change) = change("kept");
        for (side, value) in [(Side::Before, "60"), (Side::Changed, "1"), (Side::Changed, "1"), (Side::Before, "60")] {
            change.set(side).unwrap();
            assert_eq!(held(&root), value);
        }
        let end = change.keep().unwrap();
        assert_eq!(held(&root), "1");
        let run = doctor::tune::latest(&root.join("journals")).unwrap().expect("it is not undone");
        assert!(end.contains(&run) && RunLog::read(&root.join("journals"), &run).unwrap().is_confirmed, "{end}");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn setting_changed_by_another_program_is_preserved_and_reported() {
        let (root, mut change) = change("foreign");
        change.set(Side::Changed).unwrap();
        std::fs::write(root.join(&PATH[1..]), "33").unwrap();
        let why = change.set(Side::Before).unwrap_err();
        assert!(why.contains("was changed to 33 by another program") && why.contains("gannet doctor undo"), "{why}");
        assert_eq!(held(&root), "33");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_setting_that_is_refused_ends_the_proof() {
        let (root, mut change) = change("refused");
        std::fs::remove_file(root.join(&PATH[1..])).unwrap();
        let why = change.set(Side::Changed).unwrap_err();
        assert!(why.starts_with("it cannot be applied here: /proc/sys/vm/swappiness"), "{why}");
        change.set(Side::Before).unwrap();
        std::fs::remove_dir_all(root).unwrap();
    }
}
