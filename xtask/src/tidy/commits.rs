//! Checks the subjects of the latest commits: at most 72 characters, so that `git log --oneline` shows them whole.

use std::io;
use std::path::Path;
use std::process::Command;

use super::Breach;

/// Maximum number of characters of a subject.
const SUBJECT_CHARS_MAX: usize = 72;
/// Number of commits that are checked, the latest first.
const COMMITS: &str = "20";

/// Checks the latest commits of the repository at `root`. Does nothing if `root` has no `.git`.
///
/// # Errors
/// If git cannot be run, or fails.
pub fn check(root: &Path, faults: &mut Vec<Breach>) -> io::Result<()> {
    if !root.join(".git").exists() {
        return Ok(());
    }
    let log =
        Command::new("git").current_dir(root).args(["log", "--no-merges", "--format=%s", "-n", COMMITS]).output()?;
    if !log.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&log.stderr).into_owned()));
    }
    check_subjects(&String::from_utf8_lossy(&log.stdout), faults);
    Ok(())
}

fn check_subjects(subjects: &str, faults: &mut Vec<Breach>) {
    for subject in subjects.lines() {
        let chars = subject.chars().count();
        if chars > SUBJECT_CHARS_MAX {
            let message =
                format!("{chars} characters in '{subject}', at most {SUBJECT_CHARS_MAX}: shorten the subject");
            faults.push(Breach::new(".git", 0, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_of_more_than_72_characters_is_found() {
        let mut faults = Vec::new();
        check_subjects(&format!("{}\n{}\n", "a".repeat(72), "\u{fc}".repeat(72)), &mut faults);
        assert_eq!(faults, []);
        check_subjects(&"a".repeat(73), &mut faults);
        assert_eq!(faults.len(), 1);
    }
}
