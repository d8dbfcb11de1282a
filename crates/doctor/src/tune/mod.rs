//! Changes settings of this host, and undoes the changes.
//!
//! ```text
//!   findings ─> draft ─┬─> script      a shell script that would write the settings
//!                      └─> apply       for each setting:
//!
//!      journal: old, new ──synced──> write ──> read back ──> journal: the value read back
//!            │                         │                            │
//!            └── undo works after a crash at any of these instants ─┘
//!                                                      │  now == old: undo has nothing to do
//!                                                      │  now == new: undo writes the old value
//!                                                      └─ otherwise: another program changed it; undo needs --force
//! ```
//!
//! Invariants:
//! - A setting is written only after a synced journal holds it together with the value that undoes it. A test kills the
//!   process at every instant and then undoes the run.
//! - Undoing a run twice has the same effect as undoing it once.
//! - Only files below /proc/sys, /proc/irq and /sys, and the rings, channels and coalescing of interfaces are written.
//!   In a tree, only files within the tree are written. No file is created.
//! - Text that was read is never executed; in a script it is quoted.

mod journal;
mod persist;
mod remedies;
mod run;

use std::fs::{OpenOptions, canonicalize};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::check::{Check, Verdict};
use crate::ethtool::Tunable;
use crate::host::{Host, Unread};
use crate::shell::quoted;

pub use journal::{Journal, RunLog, latest, runs};
pub use persist::{PersistForm, persist};
pub use run::{Moment, Settled, StepOutcome, apply, undo};

/// A setting: a file and the text to write into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The file's path.
    pub path: String,
    /// The text, without a line end.
    pub value: String,
}

/// One change of one setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingStep {
    /// The check whose remedy the step is a part of.
    pub check: String,
    /// The setting to write.
    pub new: Setting,
    /// The file's content before the write.
    pub old: String,
    /// The setting that undoes the step: the same file with the old value, or another file if only that one can restore
    /// the old state.
    pub back: Setting,
}

/// The changes to make, and the checks whose remedy cannot be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunePlan {
    /// The changes, in the order in which they are written.
    pub steps: Vec<SettingStep>,
    /// Checks for which no setting is written, each with the reason.
    pub beside: Vec<(String, String)>,
}

/// Returns whether a check's remedy consists of settings that [`apply`] writes.
pub fn is_written(check: &str) -> bool {
    remedies::is_there(check)
}

/// Drafts the remedies of those `checks` that find a problem.
pub fn draft(host: &Host, checks: &[&Check]) -> TunePlan {
    let mut draft = TunePlan::default();
    for check in checks {
        match (check.probe)(host) {
            Ok(seen) if seen.verdict == Verdict::Ok => {}
            Ok(_) => draft.remedy(host, check),
            Err(why) => draft.beside.push((check.id.to_owned(), why.to_string())),
        }
    }
    // An interface recreates its interrupts and queues when their number changes, so the number is written before the
    // settings of interrupts and queues.
    draft.steps.sort_by_key(|step| Tunable::of(&step.new.path).is_none());
    draft
}

/// Drafts the remedy of a check, even if the check finds no problem.
pub fn draft_remedy(host: &Host, check: &Check) -> TunePlan {
    let mut draft = TunePlan::default();
    draft.remedy(host, check);
    draft
}

/// Drafts settings that the caller names, under the name `change`.
pub fn draft_settings(host: &Host, change: &str, settings: Vec<Setting>) -> TunePlan {
    let mut draft = TunePlan::default();
    draft.add(host, change, settings.into_iter().map(|new| remedies::Wish { new, back: None }).collect());
    draft
}

impl TunePlan {
    fn remedy(&mut self, host: &Host, check: &Check) {
        let beside = |why: String| (check.id.to_owned(), why);
        match remedies::of(check.id, host) {
            None => self
                .beside
                .push(beside(format!("the remedy is not a setting that the doctor writes: {}", check.remedy))),
            Some(Err(why)) => self.beside.push(beside(why.to_string())),
            Some(Ok(wishes)) => {
                let known = self.steps.len() + self.beside.len();
                self.add(host, check.id, wishes);
                if known == self.steps.len() + self.beside.len() {
                    self.beside.push(beside(format!("the settings already have these values: {}", check.remedy)));
                }
            }
        }
    }

    fn add(&mut self, host: &Host, check: &str, wishes: Vec<remedies::Wish>) {
        for wish in wishes {
            match host.setting(&wish.new.path) {
                Err(why) => self.beside.push((check.to_owned(), why.to_string())),
                Ok(old) if is_same(&wish.new.path, &old, &wish.new.value) => {}
                Ok(_) if self.steps.iter().any(|step| step.new.path == wish.new.path) => {}
                Ok(old) => {
                    let value = written_form(&old);
                    let back = wish.back.unwrap_or(Setting { path: wish.new.path.clone(), value });
                    self.steps.push(SettingStep { check: check.to_owned(), new: wish.new, old, back });
                }
            }
        }
    }
}

/// Returns a shell script that writes the same settings as [`apply`], but no journal. With the argument `undo`, it
/// writes what undoes them, the last one first.
pub fn script(draft: &TunePlan, root: &Path) -> String {
    let mut text = "#!/bin/sh\n# Writes the settings that `gannet doctor apply` would write. Unlike apply, it writes \
                    no journal.\n# With the argument undo, it restores the values of the time at which it was \
                    printed.\nset -u\nstatus=0\n"
        .to_owned();
    let line = |text: &str| text.replace(|c: char| c.is_control(), " ");
    if !draft.steps.is_empty() {
        let back: String = draft.steps.iter().rev().map(|step| command(root, &step.back) + "\n").collect();
        text += &format!("\nif [ \"${{1-}}\" = undo ]; then\n{back}exit $status\nfi\n");
    }
    let mut last = "";
    for step in &draft.steps {
        if step.check != last {
            text += &format!("\n# {}\n", line(&step.check));
            last = &step.check;
        }
        text += &format!("# it is: {}\n{}\n", line(&written_form(&step.old)), command(root, &step.new));
    }
    for (check, why) in &draft.beside {
        text += &format!("\n# {}: {}\n", line(check), line(why));
    }
    // As with `apply`, the other settings are written even if the kernel refuses one.
    text + "\nexit $status\n"
}

/// Returns the shell command that writes a setting.
fn command(root: &Path, setting: &Setting) -> String {
    let Setting { path, value } = setting;
    let shown = |path: &str| quoted(&place(root, path).display().to_string());
    match Tunable::of(path) {
        None => format!("printf '%s\\n' {} > {} || status=1", quoted(value), shown(path)),
        Some(tunable) if !tunable.takes(value) => format!("# {}: the value is not valid", path.escape_debug()),
        Some(tunable) if root == Path::new("/") => format!("ethtool {} || status=1", tunable.command(value)),
        Some(tunable) => {
            format!("sed -i -e {} {} || status=1", quoted(&tunable.script(value)), shown(&tunable.text_path()))
        }
    }
}

/// Returns the text that restores a file's current content when it is written. For a choice it is the word in brackets.
fn written_form(text: &str) -> String {
    crate::host::chosen(text).unwrap_or(text).to_owned()
}

/// Returns whether two contents of a file represent the same value.
fn is_same(path: &str, a: &str, b: &str) -> bool {
    let form = |text: &str| written_form(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let is_mask = ["_cpus", "cpumask", "smp_affinity"].iter().any(|end| path.ends_with(end));
    if is_mask && let (Some(a), Some(b)) = (crate::checks::placed::mask_cpus(a), crate::checks::placed::mask_cpus(b)) {
        return a == b;
    }
    let list = |text: &str| io::affinity::read_cpus(text).ok();
    if path.ends_with("_list")
        && let (Some(a), Some(b)) = (list(a), list(b))
    {
        return a == b;
    }
    form(a) == form(b)
}

fn place(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// Returns true if `path` names a setting of the kernel, the only kind of file that is written.
#[must_use]
pub fn is_setting(path: &str) -> bool {
    let is_below = ["/proc/sys/", "/proc/irq/", "/sys/"].iter().any(|start| path.starts_with(start));
    (is_below || Tunable::of(path).is_some()) && !path.split('/').any(|part| part == "..")
}

/// Returns the reason why a file must not be written, if there is one.
fn refusal(root: &Path, path: &str) -> Option<String> {
    if !is_setting(path) {
        return Some("it is no setting of the kernel's".to_owned());
    }
    let text = Tunable::of(path).map(|tunable| tunable.text_path());
    if root == Path::new("/") {
        return None;
    }
    // A link in a tree may point out of the tree, to the machine's own settings.
    match (canonicalize(root), canonicalize(place(root, text.as_deref().unwrap_or(path)))) {
        (Ok(root), Ok(file)) if file.starts_with(&root) => None,
        (_, Err(error)) => Some(error.to_string()),
        _ => Some("it points out of the tree".to_owned()),
    }
}

/// Writes a setting. Its file must exist.
fn write(root: &Path, setting: &Setting) -> Result<(), String> {
    if let Some(why) = refusal(root, &setting.path) {
        return Err(why);
    }
    let Some(tunable) = Tunable::of(&setting.path) else {
        return store(&place(root, &setting.path), &format!("{}\n", setting.value));
    };
    if !tunable.takes(&setting.value) {
        return Err(format!("{:?} is not a valid value", setting.value));
    }
    if root == Path::new("/") {
        return tunable.write(&setting.value);
    }
    let path = tunable.text_path();
    let text = crate::host::read_at(&place(root, &path), &path).map_err(|why| why.to_string())?;
    let changed = tunable.changed(&text, &setting.value).ok_or_else(|| format!("{path} has no {}", setting.path))?;
    store(&place(root, &path), &(changed + "\n"))
}

/// Writes text into an existing file.
fn store(place: &Path, text: &str) -> Result<(), String> {
    let file = OpenOptions::new().write(true).truncate(true).open(place);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| error.to_string())
}

/// Reads a setting.
fn read(root: &Path, path: &str) -> Result<String, Unread> {
    if Tunable::of(path).is_some() {
        return Host::now(root.to_owned(), None).setting(path);
    }
    crate::host::read_at(&place(root, path), path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_values_are_compared_by_meaning_and_not_by_text() {
        assert!(is_same("/sys/x/enabled", "always [madvise] never", "madvise"));
        assert!(is_same("/proc/sys/net/ipv4/tcp_mem", "1\t2\t3", "1 2 3"));
        assert!(is_same("/sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,0000000f", "f"));
        assert!(is_same("/proc/irq/3/smp_affinity_list", "0-2", "0,1,2"));
        assert!(!is_same("/proc/sys/vm/swappiness", "10", "1"));
    }

    #[test]
    fn text_of_a_remedy_names_the_values_that_are_written() {
        for check in crate::checks::all() {
            for (name, value) in remedies::fixed(check.id) {
                let text = check.remedy.replace('\'', "");
                assert!(text.contains(&format!("{name}={value}")), "{}: {name}={value} is not in {text:?}", check.id);
            }
        }
    }

    #[test]
    fn only_settings_of_the_kernel_are_written() {
        let root = Path::new("/");
        for path in ["/etc/passwd", "/proc/sys/../../etc/passwd", "/proc/self/mem", "proc/sys/vm/swappiness"] {
            assert!(refusal(root, path).is_some(), "{path}");
        }
        assert!(refusal(root, "/proc/sys/vm/swappiness").is_none());
    }
}
