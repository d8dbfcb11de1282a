//! Settings changed on this host, and taken back.
//!
//! ```text
//!   findings ─> draft ─┬─> script      what would be written, to be run by a shell
//!                      └─> apply       for each setting, in order:
//!
//!      journal: old, new ──synced──> write ──> read back ──> journal: what it is now
//!            │                         │                            │
//!            └── a crash at any of these instants ──> undo ─────────┘
//!                                                      │  now == old: nothing to do
//!                                                      │  now == what was written: the old one is written back
//!                                                      └─ anything else: somebody changed it; left, unless forced
//! ```
//!
//! Invariants:
//! - Nothing is written that does not stand in a synced journal, with what undoes it. A test kills the process at every
//!   instant and undoes what it left.
//! - Undoing twice is undoing once.
//! - Only files below /proc/sys, /proc/irq and /sys are written, and an interface's rings, channels and coalescing; of
//!   a tree only what is within it; none is created.
//! - What was read is never run: in a script it is quoted.

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

pub use journal::{Journal, Log, latest, runs};
pub use persist::{Kept, persist};
pub use run::{Moment, Outcome, Settled, apply, undo};

/// A file and what is written into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The file.
    pub path: String,
    /// The text, without a line end.
    pub value: String,
}

/// One change of one setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The check whose remedy it is a part of.
    pub check: String,
    /// What is written.
    pub new: Setting,
    /// What the file held.
    pub old: String,
    /// What is written to undo it: the old value, but for settings that take theirs back by another.
    pub back: Setting,
}

/// What is to be changed, and what can not be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// In the order in which they are written.
    pub steps: Vec<Step>,
    /// Checks that nothing is written for, each with the reason.
    pub beside: Vec<(String, String)>,
}

/// Whether a check's remedy is by settings that [`apply`] writes.
pub fn is_written(check: &str) -> bool {
    remedies::is_there(check)
}

/// Drafts the remedies of what is not fine among `checks`.
pub fn draft(host: &Host, checks: &[&Check]) -> Draft {
    let mut draft = Draft::default();
    for check in checks {
        match (check.probe)(host) {
            Ok(seen) if seen.verdict == Verdict::Ok => {}
            Ok(_) => draft.remedy(host, check),
            Err(why) => draft.beside.push((check.id.to_owned(), why.to_string())),
        }
    }
    // An interface makes its interrupts and queues anew when their number changes: what is set of them comes after.
    draft.steps.sort_by_key(|step| Tunable::of(&step.new.path).is_none());
    draft
}

/// Drafts the remedy of a check, whatever it finds.
pub fn draft_remedy(host: &Host, check: &Check) -> Draft {
    let mut draft = Draft::default();
    draft.remedy(host, check);
    draft
}

/// Drafts settings that somebody wishes for, under the name `change`.
pub fn draft_settings(host: &Host, change: &str, settings: Vec<Setting>) -> Draft {
    let mut draft = Draft::default();
    draft.add(host, change, settings.into_iter().map(|new| remedies::Wish { new, back: None }).collect());
    draft
}

impl Draft {
    fn remedy(&mut self, host: &Host, check: &Check) {
        let beside = |why: String| (check.id.to_owned(), why);
        match remedies::of(check.id, host) {
            None => self.beside.push(beside(format!("not by a setting that is written: {}", check.remedy))),
            Some(Err(why)) => self.beside.push(beside(why.to_string())),
            Some(Ok(wishes)) => {
                let known = self.steps.len() + self.beside.len();
                self.add(host, check.id, wishes);
                if known == self.steps.len() + self.beside.len() {
                    self.beside.push(beside(format!("its settings are so already: {}", check.remedy)));
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
                    self.steps.push(Step { check: check.to_owned(), new: wish.new, old, back });
                }
            }
        }
    }
}

/// A shell script that does what [`apply`] would, but for the journal.
pub fn script(draft: &Draft, root: &Path) -> String {
    let mut text =
        "#!/bin/sh\n# What `gannet doctor apply` would write. It keeps no journal: `apply` does.\nset -u\nstatus=0\n"
            .to_owned();
    let line = |text: &str| text.replace(|c: char| c.is_control(), " ");
    let mut last = "";
    for step in &draft.steps {
        if step.check != last {
            text += &format!("\n# {}\n", line(&step.check));
            last = &step.check;
        }
        text += &format!("# it was: {}\n{}\n", line(&step.old), command(root, &step.new));
    }
    for (check, why) in &draft.beside {
        text += &format!("\n# {}: {}\n", line(check), line(why));
    }
    // As with `apply`, what the kernel refuses keeps nothing else from being written.
    text + "\nexit $status\n"
}

/// What has a shell write a setting.
fn command(root: &Path, setting: &Setting) -> String {
    let Setting { path, value } = setting;
    let shown = |path: &str| quoted(&place(root, path).display().to_string());
    match Tunable::of(path) {
        None => format!("printf '%s\\n' {} > {} || status=1", quoted(value), shown(path)),
        Some(tunable) if !tunable.takes(value) => format!("# {}: no value of it", path.escape_debug()),
        Some(tunable) if root == Path::new("/") => format!("ethtool {} || status=1", tunable.command(value)),
        Some(tunable) => {
            format!("sed -i -e {} {} || status=1", quoted(&tunable.script(value)), shown(&tunable.text_path()))
        }
    }
}

/// What is written to have a file hold again what it holds: of a choice the word in brackets.
fn written_form(text: &str) -> String {
    crate::host::chosen(text).unwrap_or(text).to_owned()
}

/// Two readings of a file say the same.
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

/// Why a file is not written.
fn refusal(root: &Path, path: &str) -> Option<String> {
    let text = Tunable::of(path).map(|tunable| tunable.text_path());
    let is_known = text.is_some() || ["/proc/sys/", "/proc/irq/", "/sys/"].iter().any(|start| path.starts_with(start));
    if !is_known || path.split('/').any(|part| part == "..") {
        return Some("it is no setting of the kernel's".to_owned());
    }
    if root == Path::new("/") {
        return None;
    }
    // A link in a tree may lead out of it, to the machine's own settings.
    match (canonicalize(root), canonicalize(place(root, text.as_deref().unwrap_or(path)))) {
        (Ok(root), Ok(file)) if file.starts_with(&root) => None,
        (_, Err(error)) => Some(error.to_string()),
        _ => Some("it leads out of the tree".to_owned()),
    }
}

/// Writes a setting, which has to be there.
fn write(root: &Path, setting: &Setting) -> Result<(), String> {
    if let Some(why) = refusal(root, &setting.path) {
        return Err(why);
    }
    let Some(tunable) = Tunable::of(&setting.path) else {
        return store(&place(root, &setting.path), &format!("{}\n", setting.value));
    };
    if !tunable.takes(&setting.value) {
        return Err(format!("{:?} is no value of it", setting.value));
    }
    if root == Path::new("/") {
        return tunable.write(&setting.value);
    }
    let path = tunable.text_path();
    let text = crate::host::read_at(&place(root, &path), &path).map_err(|why| why.to_string())?;
    let changed = tunable.changed(&text, &setting.value).ok_or_else(|| format!("{path} has no {}", setting.path))?;
    store(&place(root, &path), &(changed + "\n"))
}

/// Writes into a file, which has to be there.
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
    fn readings_are_compared_by_what_they_say() {
        assert!(is_same("/sys/x/enabled", "always [madvise] never", "madvise"));
        assert!(is_same("/proc/sys/net/ipv4/tcp_mem", "1\t2\t3", "1 2 3"));
        assert!(is_same("/sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,0000000f", "f"));
        assert!(is_same("/proc/irq/3/smp_affinity_list", "0-2", "0,1,2"));
        assert!(!is_same("/proc/sys/vm/swappiness", "10", "1"));
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
