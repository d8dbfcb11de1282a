//! A check, the result of its probe, and the finding that combines both.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::{Host, Unread};

/// The privilege that a remedy needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Needs {
    /// No privilege.
    Nothing,
    /// The administrator's privilege.
    Root,
    /// The administrator's privilege, and a restart of the host or the server.
    Restart,
}

/// The verdict on a setting or a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The setting or counter raises tail latency now, or will under load.
    Bad,
    /// The setting or counter may raise tail latency.
    Warn,
    /// The probe could not read the setting or counter here.
    Unknown,
    /// The setting or counter needs no remedy.
    Ok,
}

impl Verdict {
    /// Returns the printed name.
    pub fn text(self) -> &'static str {
        match self {
            Self::Bad => "BAD",
            Self::Warn => "WARN",
            Self::Unknown => "cannot tell",
            Self::Ok => "ok",
        }
    }
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeResult {
    /// The verdict; never [`Verdict::Unknown`], because a failed probe returns [`Unread`] instead.
    pub verdict: Verdict,
    /// The value that was read, in words.
    pub value: String,
    /// The estimated share of a request's time, or of the machine, that is lost; 0 if only a setting is known. Among
    /// findings with the same verdict, the one with the highest weight comes first.
    pub weight: f64,
}

impl ProbeResult {
    /// Returns a result with the verdict ok.
    pub fn ok(value: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ok, value: value.into(), weight: 0.0 }
    }

    /// Returns a result with the verdict warn.
    pub fn warn(value: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warn, ..Self::ok(value) }
    }

    /// Returns a result with the verdict bad.
    pub fn bad(value: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, ..Self::ok(value) }
    }

    /// Returns the result with this weight.
    pub fn weighing(self, weight: f64) -> Self {
        Self { weight, ..self }
    }

    /// Returns `bad` if the condition holds, otherwise `ok`.
    pub fn bad_if(is_bad: bool, value: impl Into<String>) -> Self {
        if is_bad { Self::bad(value) } else { Self::ok(value) }
    }

    /// Returns `warn` if the condition holds, otherwise `ok`.
    pub fn warn_if(is_bad: bool, value: impl Into<String>) -> Self {
        if is_bad { Self::warn(value) } else { Self::ok(value) }
    }
}

/// The result of a probe, or the reason why the probe could not read a file.
pub type Probed = Result<ProbeResult, Unread>;

/// One property of a host that the doctor examines.
#[derive(Debug)]
pub struct Check {
    /// The check's id: `group.name`.
    pub id: &'static str,
    /// The files that the probe reads.
    pub reads: &'static str,
    /// The mechanism that raises tail latency.
    pub mechanism: &'static str,
    /// The remedy.
    pub remedy: &'static str,
    /// The expected effect of the remedy, and its disadvantage.
    pub expect: &'static str,
    /// The privilege that the remedy needs.
    pub needs: Needs,
    /// The way to undo the remedy.
    pub undo: &'static str,
    /// The publication or documentation that supports the mechanism.
    pub source: &'static str,
    /// The function that examines a host.
    pub probe: fn(&Host) -> Probed,
}

/// The result of a check on a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The check's id.
    pub id: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The value that was read, or the reason why no value could be read.
    pub value: String,
    /// The mechanism that raises tail latency.
    pub mechanism: String,
    /// The remedy.
    pub remedy: String,
    /// The expected effect of the remedy, and its disadvantage.
    #[serde(default)]
    pub expect: String,
    /// The privilege that the remedy needs.
    pub needs: Needs,
    /// The way to undo the remedy.
    pub undo: String,
    /// The files that were read.
    pub reads: String,
    /// The publication or documentation that supports the mechanism.
    pub source: String,
    #[serde(skip)]
    weight: f64,
}

impl Check {
    fn find(&self, host: &Host) -> Finding {
        let (verdict, value, weight) = match (self.probe)(host) {
            Ok(seen) => (seen.verdict, seen.value, seen.weight),
            Err(unread) => (Verdict::Unknown, unread.to_string(), 0.0),
        };
        Finding {
            id: self.id.to_owned(),
            verdict,
            value,
            mechanism: self.mechanism.to_owned(),
            remedy: self.remedy.to_owned(),
            expect: self.expect.to_owned(),
            needs: self.needs,
            undo: self.undo.to_owned(),
            reads: self.reads.to_owned(),
            source: self.source.to_owned(),
            weight,
        }
    }
}

/// Runs `checks` on a host. Returns the findings in the order of their verdicts, the worst first; among equal verdicts
/// in descending order of weight.
pub fn run(host: &Host, checks: &[&Check]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = checks.iter().map(|check| check.find(host)).collect();
    findings.sort_by(|a, b| a.verdict.cmp(&b.verdict).then(b.weight.total_cmp(&a.weight)));
    findings
}
