//! The report of all findings of a host, as text and as JSON.
//!
//! `docs/doctor/report.schema.json` describes the JSON; it is generated from these types, and a test compares the two.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::{Check, Finding, Needs, Verdict};
use crate::host::Host;

/// The version of the JSON format, raised when the meaning changes.
pub const VERSION: u32 = 1;

/// All findings on a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The format's version: [`VERSION`].
    pub version: u32,
    /// The host's name, or `unknown`.
    pub host: String,
    /// The version of the host's kernel, or `unknown`.
    pub kernel: String,
    /// Number of the host's CPUs.
    pub cpus: usize,
    /// The id of the examined process, if one was named.
    pub pid: Option<u32>,
    /// The name of that process.
    pub process: Option<String>,
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
}

/// Maximum number of columns of a line of text.
const WIDTH: usize = 100;
const INDENT: &str = "      ";

impl Report {
    /// Returns the report of findings on a host.
    pub fn new(host: &Host, pid: Option<u32>, findings: Vec<Finding>) -> Self {
        let read = |path: &str| host.read(path).unwrap_or_else(|_| "unknown".to_owned());
        Self {
            version: VERSION,
            host: read("/proc/sys/kernel/hostname"),
            kernel: read("/proc/sys/kernel/osrelease"),
            cpus: host.cpus().map_or(0, |cpus| cpus.len()),
            pid,
            process: pid.and_then(|pid| host.read(&format!("/proc/{pid}/comm")).ok()),
            findings,
        }
    }

    /// Returns the number of findings with a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }

    /// Returns the exit code for scripts: 0 nothing to do, 1 warnings, 2 something is bad, 3 no check could run.
    pub fn exit_code(&self) -> u8 {
        match self.findings.iter().map(|finding| finding.verdict).min() {
            Some(Verdict::Bad) => 2,
            Some(Verdict::Warn) => 1,
            Some(Verdict::Unknown) if self.count(Verdict::Ok) == 0 => 3,
            _ => 0,
        }
    }

    /// Formats the report as text, with the worst finding first. The text only counts the checks that pass or cannot
    /// run, unless `all` is true.
    pub fn text(&self, all: bool) -> String {
        let mut text = format!("{}: {} CPUs, Linux {}", printable(&self.host), self.cpus, printable(&self.kernel));
        if let Some(pid) = self.pid {
            let name = self.process.as_deref().unwrap_or("gone");
            let _ = write!(text, ", process {pid} ({})", printable(name));
        }
        text.push('\n');
        let mut is_list = false;
        for finding in &self.findings {
            let value = short(&printable(&finding.value));
            let head = format!("{:<5} {:<23}{value}\n", finding.verdict.text(), finding.id);
            match finding.verdict {
                Verdict::Bad | Verdict::Warn => {
                    text.push('\n');
                    text.push_str(&head);
                    wrap(&mut text, &finding.mechanism);
                    wrap(&mut text, &format!("-> {} [{}]", finding.remedy, needs(finding.needs)));
                    wrap(&mut text, &format!("expect: {}", finding.expect));
                }
                Verdict::Unknown | Verdict::Ok if all => {
                    text.push_str(if is_list { "" } else { "\n" });
                    text.push_str(&head);
                    is_list = true;
                }
                Verdict::Unknown | Verdict::Ok => {}
            }
        }
        let (bad, warn) = (self.count(Verdict::Bad), self.count(Verdict::Warn));
        if self.exit_code() == 3 {
            text.push_str("No check could run: none of the files that the checks read exists.\n");
        } else if bad + warn == 0 {
            text.push_str("Nothing was found that causes tail latency.\n");
        }
        let _ = writeln!(
            text,
            "\n{bad} bad, {warn} to look at, {} fine, {} could not run here{}.",
            self.count(Verdict::Ok),
            self.count(Verdict::Unknown),
            if all { "" } else { " (--all lists every check)" }
        );
        text
    }

    /// Returns the report as JSON, with a line end.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report is plain JSON") + "\n"
    }

    /// Parses a report from JSON.
    ///
    /// # Errors
    /// The reason, if the text is not a report of this version.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let report: Self =
            serde_json::from_str(text).map_err(|error| format!("this is not a report of the doctor: {error}"))?;
        if report.version != VERSION {
            return Err(format!("the report has version {}, but this program reads version {VERSION}", report.version));
        }
        Ok(report)
    }
}

/// Returns the JSON schema of a report.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Report);
    serde_json::to_string_pretty(&schema).expect("a schema is plain JSON") + "\n"
}

/// Describes a check in full, as text.
pub fn explain(check: &Check) -> String {
    let mut text = format!("{}\n\n", check.id);
    wrap(&mut text, check.mechanism);
    for (name, what) in [
        ("reads", check.reads),
        ("remedy", check.remedy),
        ("expect", check.expect),
        ("undo", check.undo),
        ("source", check.source),
    ] {
        text.push('\n');
        wrap(&mut text, &format!("{name}: {what}"));
    }
    text.push('\n');
    wrap(&mut text, &format!("needs: {}", needs(check.needs)));
    if crate::tune::is_written(check.id) {
        text.push('\n');
        wrap(
            &mut text,
            &format!(
                "`gannet doctor apply --only {}` applies the remedy, and `gannet doctor undo` undoes it",
                check.id
            ),
        );
    }
    text
}

fn needs(needs: Needs) -> &'static str {
    match needs {
        Needs::Nothing => "no privilege",
        Needs::Root => "root",
        Needs::Restart => "root and a restart",
    }
}

/// Replaces control characters in a host's text, because they could move the terminal's cursor.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Maximum number of characters of a value in the text.
const VALUE_MAX: usize = 160;

/// Cuts a value after [`VALUE_MAX`] characters.
fn short(value: &str) -> String {
    match value.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{} ... (--json has all)", &value[..end]),
        None => value.to_owned(),
    }
}

fn wrap(to: &mut String, text: &str) {
    let mut column = 0;
    for word in text.split_whitespace() {
        if column == 0 {
            to.push_str(INDENT);
            column = INDENT.len();
        } else if column + 1 + word.len() > WIDTH {
            to.push('\n');
            to.push_str(INDENT);
            column = INDENT.len();
        } else {
            to.push(' ');
            column += 1;
        }
        to.push_str(word);
        column += word.len();
    }
    to.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words() {
        let mut text = String::new();
        wrap(&mut text, &"word ".repeat(60));
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.len() <= WIDTH && line.starts_with(INDENT)));
        assert_eq!(text.split_whitespace().count(), 60);
        assert_eq!(printable("a\x1b[2J"), "a?[2J");
        assert_eq!(short("é"), "é");
        assert_eq!(short(&"é".repeat(VALUE_MAX + 1)), format!("{} ... (--json has all)", "é".repeat(VALUE_MAX)));
    }

    #[test]
    fn the_published_schema_is_that_of_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor/report.schema.json");
        let published = std::fs::read_to_string(path).unwrap_or_default();
        assert!(published == schema(), "run: cargo run -p gannet -- doctor schema > docs/doctor/report.schema.json");
    }
}
